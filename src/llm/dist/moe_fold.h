/* src/llm/dist/moe_fold.h - mixture layers over ranks: two grids of the same ranks, and the exchange of tokens
 *
 * A layer with experts wants another division of the ranks than attention. Both grids hold the same ranks:
 *
 *   attention   tp x cp x dp x pp     ranks that share heads, a sequence, nothing, that hold other layers
 *   experts     etp x ep x edp x pp   ranks that share an expert, that hold other experts, copies, other layers
 *
 * The first axis varies fastest, so expert groups are neighbours, whatever the degrees of attention are. Each rank has
 * its own tokens. It sends every token to the ranks that own its k experts, gets the results back, and adds them:
 *
 *   tllm_folding f = { 0 };
 *   f.tp = 2; f.dp = 4; f.ep = 8;                      8 ranks: attention 2 x 4, eight experts in eight places
 *   tllm_moe_desc d = { 0 };
 *   d.net = net; d.folding = &f; d.n_expert = 8; d.k = 2; d.width = 512; d.hidden = 1024;
 *   tllm_moe_open(ctx, &d, &moe);
 *   tllm_moe_layer(moe, &weights, x, tokens, y);       x, y (tokens, width) of this rank
 *
 * or step by step with experts of your own: tllm_moe_route, tllm_moe_dispatch, the experts, tllm_moe_combine. Weights
 * come from the caller, or from a model file: tllm_moe_describe before open, tllm_moe_read after it. All ranks make the
 * same calls in the same order; their numbers of tokens may differ. With etp 1 the result has the same bits for every
 * ep. A call that fails after open, except with TINY_E_ARGUMENT, ends the group, as in core/collective.h. */
#ifndef TINYI_MOE_FOLD_H
#define TINYI_MOE_FOLD_H
#include "core/net.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_folding {               /* 0 counts as 1 */
    int tp, cp, dp, pp;
    int etp, ep;                            /* edp = ranks / (etp ep pp) */
    /* nonzero: ep varies slowest within a stage, so expert groups lie across the data parallel ranks, as they do
     * without folding */
    int across;
} tllm_folding;

typedef enum tllm_fold_axis {
    TLLM_FOLD_TP,
    TLLM_FOLD_CP,
    TLLM_FOLD_DP,
    TLLM_FOLD_PP,
    TLLM_FOLD_SEQUENCE,                     /* tp x cp: the ranks that share the tokens of a sequence */
    TLLM_FOLD_ETP,
    TLLM_FOLD_EP,
    TLLM_FOLD_EDP,
    TLLM_FOLD_EXPERTS,                      /* etp x ep: one copy of all experts */
    TLLM_FOLD_AXES
} tllm_fold_axis;

/* Fails with a sentence unless both grids have exactly `ranks` ranks. */
TINY_API tiny_status tllm_folding_check(tiny_ctx *ctx, const tllm_folding *f, int ranks);
/* The group of a rank along an axis, ascending, into member (TINY_NET_RANKS). Returns its size, 0 for a bad call. */
TINY_API int tllm_folding_group(const tllm_folding *f, int ranks, int axis, int rank, int *member);
TINY_API int tllm_folding_stage(const tllm_folding *f, int ranks, int rank);       /* place on pp; -1 for a bad call */

typedef enum tllm_moe_drop {
    TLLM_MOE_DROPLESS,                      /* every token reaches its k experts */
    TLLM_MOE_DROP_PROBS,                    /* an expert keeps the tokens with the highest probability */
    TLLM_MOE_DROP_POSITION,                 /* an expert keeps the first tokens */
    TLLM_MOE_DROPS
} tllm_moe_drop;

typedef struct tllm_moe_desc {              /* the same on all ranks, except its own net */
    tiny_net *net;                          /* of this rank, stays the caller's; NULL: one rank */
    const tllm_folding *folding;            /* copied; NULL: dp and ep are the number of ranks */
    tiny_idx n_expert, k, width;
    tiny_idx hidden;                        /* of an expert, before the cut by etp; only tllm_moe_layer uses it */
    int drop;                               /* tllm_moe_drop */
    double factor;                          /* capacity = ceil(factor tokens k / n_expert); 0: 1 */
    tiny_idx min_capacity;
    int pad;                                /* each expert gets exactly its capacity from each rank, with rows of 0 */
    int whole_sequence;                     /* capacities and choices count over the ranks tp x cp together */
    int plain_gates;                        /* nonzero: the k gates of a token do not add up to 1 */
    int half;                               /* nonzero: rows travel as f16 */
    double balance;                         /* factor of the balancing loss; 0: 1 */
    uint64_t timeout_ns;                    /* of a call; 0: 10 s */
    /* tokens of a rank in a call, at most; 0: 65536. A rank that claims more ends the group with an error, before
     * memory is taken for its rows. */
    tiny_idx most_tokens;
} tllm_moe_desc;

typedef struct tllm_moe_plan {              /* of the last route and dispatch */
    tiny_idx tokens, pairs, kept;           /* pairs = tokens k; kept: not dropped */
    tiny_idx capacity;                      /* rows that an expert takes from this rank, or sequence; 0: no limit */
    tiny_idx rows_sent;                     /* by this rank, its own experts included, and padding */
    tiny_idx rows_received;                 /* before the all-gather over etp */
    tiny_idx rows;                          /* that its experts compute */
    double balance;                         /* factor n_expert sum_e share of pairs times mean probability */
    const int32_t *expert;                  /* (tokens, k), most probable first */
    const float *gate;                      /* (tokens, k) */
    const unsigned char *keep;              /* (tokens, k): 0 for a dropped pair */
} tllm_moe_plan;

typedef struct tllm_moe tllm_moe;
TINY_API tiny_status tllm_moe_open(tiny_ctx *ctx, const tllm_moe_desc *desc, tllm_moe **out);
TINY_API void tllm_moe_close(tllm_moe *moe);                                /* takes NULL; before its context */
/* logits (tokens, n_expert) of this rank: chooses experts and gates, drops. */
TINY_API tiny_status tllm_moe_route(tllm_moe *moe, const float *logits, tiny_idx tokens);
/* x (tokens, width). *rows: the rows of own experts, one expert after the other; *count (own experts): how many. Both
 * are valid until the next dispatch. */
TINY_API tiny_status tllm_moe_dispatch(tllm_moe *moe, const float *x, const float **rows, const tiny_idx **count);
/* rows: results in the same order. With etp above 1, they are shares that are added. y (tokens, width) is written: the
 * sum over the experts of a token, times their gates; 0 for a token all of whose pairs were dropped. */
TINY_API tiny_status tllm_moe_combine(tllm_moe *moe, const float *rows, float *y);
TINY_API tllm_moe_plan tllm_moe_plan_of(const tllm_moe *moe);               /* zeros for NULL */
TINY_API tiny_idx tllm_moe_own(const tllm_moe *moe, tiny_idx *first);       /* experts of this rank */
TINY_API tiny_idx tllm_moe_hidden(const tllm_moe *moe, tiny_idx *first);    /* hidden numbers of this rank */
/* For a virtual clock: reads the clock of this rank after it was set to at least ns. */
TINY_API uint64_t tllm_moe_clock(tllm_moe *moe, uint64_t ns);

/* Experts are SwiGLU networks: (silu(x gate) * (x up)) down. */
typedef struct tllm_moe_weights {
    const float *router;                    /* (width, n_expert) */
    const float *gate, *up;                 /* (own experts, width, own hidden) */
    const float *down;                      /* (own experts, own hidden, width) */
} tllm_moe_weights;
/* rows, count: of a dispatch; y: as many rows. The bits of a row do not depend on the rows next to it. */
TINY_API tiny_status tllm_moe_experts(tllm_moe *moe, const tllm_moe_weights *w, const float *rows,
                                      const tiny_idx *count, float *y);
TINY_API tiny_status tllm_moe_layer(tllm_moe *moe, const tllm_moe_weights *w, const float *x, tiny_idx tokens,
                                    float *y);
/* A mixture layer of a GGUF file (llama with experts, qwen3moe, granitemoe, olmoe): sets n_expert, k, width, hidden and
 * plain_gates of desc. TINY_E_UNSUPPORTED: blk.layer has no experts, or others, and the sentence says why. */
TINY_API tiny_status tllm_moe_describe(tiny_ctx *ctx, const tllm_gguf *file, tiny_idx layer, tllm_moe_desc *desc);
/* The router and this rank's part of the experts of that layer, as floats. They are valid until the next read, and
 * until close. The layer must have the shape that moe was opened for. Nothing is exchanged: a failure is this rank's
 * alone, and does not end the group. */
TINY_API tiny_status tllm_moe_read(tllm_moe *moe, const tllm_gguf *file, tiny_idx layer, tllm_moe_weights *w);
/* The same layer on one rank in plain loops, sums in double. w has all experts. desc->net, folding, whole_sequence, pad
 * and half are not used. keep (tokens, n_expert) may be NULL: 1 for each pair that was computed. */
TINY_API tiny_status tllm_moe_layer_ref(tiny_ctx *ctx, const tllm_moe_desc *desc, const tllm_moe_weights *w,
                                        const float *x, tiny_idx tokens, float *y, unsigned char *keep);

TINYI_C_END
#endif
