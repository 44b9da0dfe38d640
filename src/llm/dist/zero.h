/* src/llm/dist/zero.h - training states divided on three levels of links, and collectives of few bits
 *
 * Ranks are numbered so that a pair is 2 neighbours, a node 8, and so on. A training step moves weights often,
 * gradients once for each small batch, and states of the optimiser never. So each is divided over another number of
 * ranks:
 *
 *   weights      s_w ranks (the pair):  gathered before each layer, as 8-bit codes
 *   gradients    s_g ranks (the node):  summed by one all-to-all of 4-bit codes; the codes themselves are never added
 *   states       s_os ranks (all):      once a step the sums cross the network, and new weights come back as f16
 *
 *   tllm_zero_desc d = { 0 };
 *   d.net = net; d.layer = size; d.n_layer = 2; d.s_w = 2; d.s_g = 8;
 *   tllm_zero_open(ctx, &d, first_weights, &zero);
 *   for each small batch of this rank:
 *       tllm_zero_weights(zero, l, 0, w);  ... forward ...
 *       tllm_zero_weights(zero, l, 1, w);  ... backward ...  tllm_zero_gradient(zero, l, g);
 *   tllm_zero_step(zero, 1.0 / batches, 1.0);          the mean gradient, Adam, new weights everywhere
 *
 * All ranks make the same calls in the same order. A call that fails after open, except with TINY_E_ARGUMENT, ends the
 * group. (d, d, d) without codes is ZeRO-3, (1, 1, d) ZeRO-1, (1, 1, 1) plain data parallelism. */
#ifndef TINYI_ZERO_H
#define TINYI_ZERO_H
#include "core/collective.h"
#include "math/optim.h"
#include "llm/dist/levels.h"
TINYI_C_BEGIN

/* ---- codes of a block: scale = max |x| / 127 (8 bits) or / 7 (4 bits), code = x / scale rounded, ties to even */

typedef struct tllm_codes {
    int bits;                               /* 8 or 4; 16: f16, 32: f32, without scales; 0: 8 */
    int block;                              /* numbers with one scale, even; 0: 256 */
} tllm_codes;
/* Bytes of n numbers: the scales of all blocks, f32, then the codes; of 4 bits the first one in the lower half. */
TINY_API size_t tllm_codes_bytes(const tllm_codes *c, size_t n);
/* rng: NULL rounds to nearest; otherwise up or down by chance, so that the mean is right. Numbers that are not finite
 * are refused. n need not be a multiple of the block. */
TINY_API tiny_status tllm_codes_pack(tiny_ctx *ctx, const tllm_codes *c, const float *x, size_t n, tiny_rng *rng,
                                     void *to);
TINY_API tiny_status tllm_codes_unpack(tiny_ctx *ctx, const tllm_codes *c, const void *from, size_t n, float *x);
/* Plain loops, the same bits. */
TINY_API tiny_status tllm_codes_pack_ref(tiny_ctx *ctx, const tllm_codes *c, const float *x, size_t n, tiny_rng *rng,
                                         void *to);
TINY_API tiny_status tllm_codes_unpack_ref(tiny_ctx *ctx, const tllm_codes *c, const void *from, size_t n, float *x);

/* x (n) of each rank, coded once: all (world, n). n must be a multiple of the block. */
TINY_API tiny_status tllm_codes_allgather(tiny_ctx *ctx, tiny_coll *coll, const tllm_codes *c, const float *x, size_t n,
                                          float *all);
/* x (world, n): chunk r goes to rank r as codes, which adds the chunks of all ranks in f32, in rank order: sum (n). The
 * error of a number is at most half of the scales of all ranks together. */
TINY_API tiny_status tllm_codes_reduce_scatter(tiny_ctx *ctx, tiny_coll *coll, const tllm_codes *c, const float *x,
                                               size_t n, tiny_rng *rng, float *sum);
/* coll->n_work of both calls; coll->work is aligned for floats */
TINY_API size_t tllm_codes_work(int world, const tllm_codes *c, size_t n);

/* ---- a training whose weights, gradients and states are divided */

typedef struct tllm_zero_desc {             /* the same on all ranks, except its own net */
    tiny_net *net;                          /* NULL: one rank */
    /* Degrees: each divides the next one, s_os divides the ranks. 0: 2, 8 and all, as far as they divide the ranks. */
    int s_w, s_g, s_os;
    int s_2; /* a second copy of the codes, over s_2 ranks, for the backward pass; 0: none */
    int hop;                                /* gradients in two steps: first over hop ranks; 0: one all-to-all */
    const tiny_idx *layer;                  /* (n_layer): numbers of each layer */
    int n_layer;
    int weight_bits, grad_bits, net_bits;   /* 8, 4, 16 or 32; 0: 8, 4 and 4 */
    int full;                               /* nonzero: weights are held and refreshed as f32, not as f16 */
    int block;                              /* 0: 256 */
    int by_chance;                          /* gradients are rounded by chance */
    uint64_t seed;
    tiny_optim_group optim;                 /* ADAMW or ADAM */
    uint64_t timeout_ns;                    /* of a call; 0: 10 s */
} tllm_zero_desc;

/* Bytes that this rank has received since it was opened, and bytes that it holds for the training. */
typedef struct tllm_zero_count { uint64_t forward, backward, gradients, network, refresh, held; } tllm_zero_count;

typedef struct tllm_zero tllm_zero;
/* weights: of all layers, one after the other, the same on all ranks. Layers are padded with zeros to a multiple of
 * ranks * block numbers. */
TINY_API tiny_status tllm_zero_open(tiny_ctx *ctx, const tllm_zero_desc *desc, const float *weights, tllm_zero **out);
TINY_API void tllm_zero_close(tllm_zero *zero);                             /* takes NULL; before its context */
/* w (numbers of the layer). With s_2, call it with backward 0 first. */
TINY_API tiny_status tllm_zero_weights(tllm_zero *zero, int layer, int backward, float *w);
/* g (numbers of the layer): summed over the ranks of s_g and added to what this rank has. */
TINY_API tiny_status tllm_zero_gradient(tllm_zero *zero, int layer, const float *g);
/* The sum of all gradients of all ranks, times scale, is the gradient of one step; factor multiplies the lr. */
TINY_API tiny_status tllm_zero_step(tllm_zero *zero, double scale, double factor);
TINY_API tllm_zero_count tllm_zero_count_of(const tllm_zero *zero);         /* zeros for NULL */
/* For a virtual clock: reads the clock of this rank after it was set to at least ns. */
TINY_API uint64_t tllm_zero_clock(tllm_zero *zero, uint64_t ns);

/* ---- its formulas */

typedef struct tllm_zero_cost {             /* bytes of a rank, without scales, and seconds */
    double forward, backward, gradients;    /* received for each small batch */
    double network, refresh;                /* received for each step */
    double scales;                          /* received for each step, all of them */
    double weights, gradient_sums, states, second;      /* held */
    double seconds;                         /* of the transfers of a step, one after the other */
} tllm_zero_cost;
/* desc: degrees, bits and block; layers are not read. batches: small batches of a step. level (n_level) as in
 * tllm_levels_desc; NULL: no seconds. */
TINY_API tiny_status tllm_zero_cost_of(tiny_ctx *ctx, const tllm_zero_desc *desc, int ranks, double params, int batches,
                                       const tllm_level *level, int n_level, tllm_zero_cost *cost);

typedef struct tllm_zero_plan {
    int s_w, s_g, s_os, s_2, hop, weight_bits, grad_bits;   /* for a tllm_zero_desc; net_bits are grad_bits */
    double bytes;                           /* held, all of it */
    tllm_zero_cost cost;
} tllm_zero_plan;
/* All divisions whose degrees are 1, groups of a level or all ranks, with codes (8 and 4 bits) and without (16), with
 * and without a second copy and a first hop in the groups of a level below s_w and s_g, that fit `memory` bytes of a
 * rank: the fastest first, of equal ones the leanest. plans: room for `room` of them; *n: how many there are.
 * TINY_E_ARGUMENT with a sentence if none fits. */
TINY_API tiny_status tllm_zero_plans(tiny_ctx *ctx, int ranks, double params, int batches, double memory,
                                     const tllm_level *level, int n_level, tllm_zero_plan *plans, size_t room,
                                     size_t *n);

TINYI_C_END
#endif
