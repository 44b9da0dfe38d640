/* src/llm/model/model.h - models: tokens in, logits out
 *
 *   tllm_gguf *file;  tllm_model *model;  tllm_state *state;
 *   tllm_gguf_open(ctx, "model.gguf", &file);
 *   tllm_model_open(ctx, file, &model);
 *   tllm_model_about(model, &about);               widths of a row, what the rows are
 *   tllm_state_open(ctx, model, NULL, &state);
 *   tllm_forward(state, tokens, n, 0, 1, logits);  the prompt; logits after its last token
 *   tllm_forward(state, &next, 1, n, 1, logits);   and on, token by token
 *
 * A model is read only: weights stay where the file has them, in whatever block format; any number of states may use
 * it, on different contexts too. A state is one sequence or many: their keys and values in pages that sequences may
 * share, their recurrent states, and the scratch memory of a piece of a prompt; all of it is one block, whose size
 * tllm_state_memory tells beforehand.
 *
 * The reference target of the context (TINY_TARGET_REFERENCE) computes with plain scalar code that gives the same bits
 * on every machine; other targets are as exact as float allows. */
#ifndef TINYI_MODEL_H
#define TINYI_MODEL_H
#include "core/mem.h"
#include "llm/dist/ladder.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_model tllm_model;
typedef struct tllm_state tllm_state;

/* what a row of results is */
typedef enum tllm_output {
    TLLM_LOGITS,                            /* a value for each token of the vocabulary */
    TLLM_HIDDEN,                            /* the state of a token before pooling */
    /* probabilities of the labels (of encoders: their scores); one row for the whole sequence */
    TLLM_RANK
} tllm_output;

/* as in files */
typedef enum tllm_pooling {
    TLLM_POOL_NONE,
    TLLM_POOL_MEAN,
    TLLM_POOL_CLS,
    TLLM_POOL_LAST,
    TLLM_POOL_RANK
} tllm_pooling;

typedef struct tllm_about {
    const char *arch;                       /* "qwen3" */
    tllm_output output;
    tllm_pooling pooling;
    tiny_idx n_vocab, n_embd, n_layer;
    tiny_idx n_out;                         /* floats of a row of results */
    tiny_idx n_context;                     /* that the model was made for */
    int is_encoder;                         /* all tokens are seen at once: tllm_forward_all instead of tllm_forward */
    int has_decoder;                        /* encoder and decoder: tllm_forward_all first, then tllm_forward */
    int is_recurrent;                       /* some layers keep a state that cannot be cut back */
    int first_token;                        /* of a decoder beside an encoder; -1: none is named */
    double n_params;
    int rank, world;                        /* of a model that is cut; 0 of 1: all of it is here */
} tllm_about;

/* file must stay open. Everything that the forward pass will read is checked here. On failure *out is NULL. */
TINY_API tiny_status tllm_model_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_model **out);
TINY_API void tllm_model_close(tiny_ctx *ctx, tllm_model *model);   /* takes NULL; after its states */
TINY_API void tllm_model_about(const tllm_model *model, tllm_about *about);
/* "llama", "qwen3", ...: the architectures that are known; NULL past the last */
TINY_API const char *tllm_arch_name(size_t i);

/* Networks with squared ReLU write with few of their neurons at a time. Their last matrices are kept a second time,
 * column by column, in memory of the model: *bytes of it (bytes may be NULL). format: TLLM_FORMAT_..., -1: as the file
 * has them where it is F32, F16 or BF16, and F16 for blocks. From then on steps of up to 8 tokens read the columns of
 * the neurons that fired, wherever these are few enough (the rule is in docs/papers/plm.md). No state may be
 * computing meanwhile. TINY_E_UNSUPPORTED: there is no such network in this model. */
TINY_API tiny_status tllm_model_sparse(tiny_ctx *ctx, tllm_model *model, int format, size_t *bytes);

/* Matrices in block formats with eight rows side by side, as the processor likes them for decoding (llm/block/eight.h):
 * the same numbers in another order, and logits within the same bound. What the kernels of the context gain nothing by,
 * or what is read by the row, stays where the file has it. The pages of the file that were read are given back, so that
 * there is about one copy in memory. No state may be computing meanwhile. progress and cancel of the context are asked
 * between matrices; after a failure the model is as it was. Adapters are merged, ranks are cut and networks kept by
 * columns before this. ctx: the one that closes the model. A file of something else is refused and left alone;
 * checksums find damage, not malice: who may write the file may change the weights, and like a model it must not be
 * shortened while it is mapped. */
typedef struct tllm_repack_desc {           /* all zero: in memory */
    /* a file that keeps the form: read (mapped) where it is right, else made, written beside and renamed; its checksums
     * cover what it was made of and what it holds */
    const char *path;
    /* nonzero: a file that is wrong, or cannot be written, is a failure; 0: it is made again, or the form is in memory
     * alone, and the context has the sentence */
    int refuse;
} tllm_repack_desc;
typedef struct tllm_repacked {
    tiny_idx n;                             /* matrices that were repacked */
    size_t bytes, left;                     /* theirs; and of those in blocks that stay where they are */
    int from_file, written;                 /* nothing was made: the file had it; the file was made */
} tllm_repacked;
/* desc and about may be NULL. Nothing to repack is no failure: n is 0. */
TINY_API tiny_status tllm_model_repack(tiny_ctx *ctx, tllm_model *model, const tllm_repack_desc *desc,
                                       tllm_repacked *about);

/* ---- one model over several ranks (docs/papers/ladder.md) ----
 * Rank r of `world` keeps its share of the heads and of the columns of each network, as views of the file: nothing is
 * copied, other ranks' weights are never read. Embedding, norms and output are everywhere. Attention of grouped heads
 * with dense networks, the norm in front; everything else, and what does not divide (key heads, network, blocks of the
 * format), is refused, and the model is as it was. No state may be open. Then tllm_state_desc.comm, and all ranks make
 * the same calls with the same tokens: results are the same bits in each. */
TINY_API tiny_status tllm_model_cut(tiny_ctx *ctx, tllm_model *model, int rank, int world);
/* Other routes than the file says, a tllm_route for both halves of each layer: route (n_layer, 2), n = 2 n_layer. It
 * gives another function of the same weights: see llm/dist/ladder.h. No state may be open. */
TINY_API tiny_status tllm_model_routes(tiny_ctx *ctx, tllm_model *model, const unsigned char *route, tiny_idx n);

typedef struct tllm_state_desc {            /* all zero: the sensible default */
    tiny_idx n_ctx;                         /* tokens that a sequence may have; 0: as the file says, at most 4096 */
    tiny_idx n_batch;                       /* tokens computed at once; 0: 128, for encoders n_ctx */
    tiny_idx n_seq;                         /* sequences, numbered from 0; 0: 1 */
    tiny_idx n_page;                        /* tokens of a page; 0: 16 */
    /* tokens of all sequences together, shared ones counted once; 0: n_ctx for each */
    tiny_idx n_cells;
    int type_k, type_v;                     /* how keys and values are kept: TLLM_FORMAT_F32 (0), F16, Q8_0 or Q4_0 */
    /* what matrices of layers read is rounded to so many bits, one scale a token (llm/model/rotated.h): 2 to 8; 0: as
     * it is. To try it out: products are as before */
    int x_bits;
    float x_clip;                           /* the scale is that of this share of the largest number; 0: 0.9 */
    /* of a cut model: n_most at least n_batch * n_embd. Opening then waits for all ranks. A call that fails while it
     * computes gives the group up */
    tiny_comm *comm;
} tllm_state_desc;

/* desc may be NULL. What tllm_state_open takes: the block of the state, and the workspace of the context as far as it
 * was smaller. */
TINY_API tiny_status tllm_state_memory(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                       size_t *bytes);
TINY_API tiny_status tllm_state_open(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                     tllm_state **out);
TINY_API void tllm_state_close(tiny_ctx *ctx, tllm_state *state);   /* takes NULL; the context that opened it */
TINY_API void tllm_state_clear(tllm_state *state);                  /* all sequences */
TINY_API tiny_idx tllm_state_length(const tllm_state *state);       /* tokens held by sequence 0 */
TINY_API tiny_status tllm_state_trim(tllm_state *state, tiny_idx n);        /* tllm_seq_trim of sequence 0 */

/* Tokens of sequence 0 at the positions pos0, pos0 + 1, ..., which must lie after those that are held. rows: results
 * are wanted for the last rows tokens, out has rows * n_out floats; 0 and NULL: none. After a failure the state holds
 * what it held before the call, unless layers are recurrent: then it is empty. */
TINY_API tiny_status tllm_forward(tllm_state *state, const int32_t *tokens, tiny_idx n, int64_t pos0, tiny_idx rows,
                                  float *out);
/* Tokens of any sequences, each in the order of its positions, in one pass over the weights. out: n_out floats for each
 * wanted one, in their order; NULL where none is. After a failure every sequence is as it was, but those that the call
 * names are empty where layers are recurrent. */
typedef struct tllm_item {
    int32_t token, seq;
    int64_t pos;                            /* behind those that are held; -1: right behind */
    int want;                               /* nonzero: results after this token */
} tllm_item;
TINY_API tiny_status tllm_forward_batch(tllm_state *state, const tllm_item *items, tiny_idx n, float *out);
/* A whole sequence. Encoders: out has n * n_out floats (hidden states), or NULL. Rerankers: out has n_out floats.
 * Models with a decoder keep what it will look at, all sequences the same, and start them anew. */
TINY_API tiny_status tllm_forward_all(tllm_state *state, const int32_t *tokens, tiny_idx n, float *out);

/* What networks with squared ReLU did in steps of up to 8 tokens, with tllm_model_sparse and without: zeros for models
 * without them. */
typedef struct tllm_sparsity {
    double fired;                           /* share of the neurons, on average; of several tokens: for any of them */
    uint64_t n_products, n_sparse;          /* products with a last matrix; those that read a list of columns */
} tllm_sparsity;
TINY_API void tllm_state_sparsity(const tllm_state *state, tllm_sparsity *out);

/* ---- sequences of a state ---- */
TINY_API tiny_idx tllm_state_sequences(const tllm_state *state);
TINY_API tiny_idx tllm_state_free_cells(const tllm_state *state);   /* tokens that whole free pages can take */
/* tokens held; 0 for one that is not there */
TINY_API tiny_idx tllm_seq_length(const tllm_state *state, tiny_idx seq);
TINY_API int64_t tllm_seq_next(const tllm_state *state, tiny_idx seq);      /* the position right behind them */
TINY_API void tllm_seq_clear(tllm_state *state, tiny_idx seq);
/* Keeps the first n tokens. Layers with a recurrent state refuse, unless n is 0 or all. */
TINY_API tiny_status tllm_seq_trim(tllm_state *state, tiny_idx seq, tiny_idx n);
/* to holds what from holds, and nothing else: the same pages, each copied when one of them writes into it; recurrent
 * states are copied at once. */
TINY_API tiny_status tllm_seq_fork(tllm_state *state, tiny_idx from, tiny_idx to);
/* The n tokens from number first on are held by to as well, behind its own, at the positions that they have. From the
 * start into an empty sequence this is a fork of a part; else keys and values are copied as they are: they know what
 * stood before them in from.
 * Recurrent layers: only the whole into an empty one. */
TINY_API tiny_status tllm_seq_copy(tllm_state *state, tiny_idx from, tiny_idx to, tiny_idx first, tiny_idx n);
/* Drops n tokens from number first on; those behind them move to lower positions. Nothing is computed again: keys are
 * turned back by the distance, which rotary and relative positions allow, and values stay as they are, so that the
 * tokens kept still know the dropped ones. Refused by learned positions, norms behind the rotation, chunks by position,
 * recurrent layers: recompute there. */
TINY_API tiny_status tllm_seq_shift(tllm_state *state, tiny_idx seq, tiny_idx first, tiny_idx n);
/* An empty sequence takes over the pages of whichever sequences begin with the same tokens at positions 0, 1, ...;
 * *n_held: how many tokens it holds then, whole pages, at most n - 1, so that there is one left to compute. 0 where
 * layers are recurrent.
 * What was computed before adapters were attached, taken away or merged is not found. */
TINY_API tiny_status tllm_seq_share(tllm_state *state, tiny_idx seq, const int32_t *tokens, tiny_idx n,
                                    tiny_idx *n_held);

/* ---- kept in a file ----
 * One sequence (seq) or all (-1): keys and values in the formats of the state, recurrent states, positions. For the
 * same model, the same merged and attached adapters and the same formats only; what is there already is replaced. A
 * file that is cut, changed, or of another model is refused with its sentence, and the state is as it was. Written
 * beside and renamed. Saving takes memory of the size of the file for a moment. */
TINY_API tiny_status tllm_state_save(tllm_state *state, tiny_idx seq, const char *path);
TINY_API tiny_status tllm_state_load(tllm_state *state, tiny_idx seq, const char *path);
/* The same as bytes, for tiny_free; n_tokens tokens are kept beside (the text that a session holds). */
TINY_API tiny_status tllm_state_pack(tllm_state *state, tiny_idx seq, const int32_t *tokens, tiny_idx n_tokens,
                                     void **bytes, size_t *n_bytes);
/* tokens: room for those kept beside, or NULL; n_tokens: how many there are, or NULL */
TINY_API tiny_status tllm_state_unpack(tllm_state *state, tiny_idx seq, const void *bytes, size_t n_bytes,
                                       int32_t *tokens, tiny_idx room, tiny_idx *n_tokens);

TINYI_C_END
#endif
