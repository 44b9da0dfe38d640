/* src/llm/model/model.h - models: tokens in, logits out
 *
 *   tllm_gguf *file;  tllm_model *model;  tllm_state *state;
 *   tllm_gguf_open(ctx, "model.gguf", &file);
 *   tllm_model_open(ctx, file, &model);
 *   tllm_model_about(model, &about);               the number of floats and the meaning of a result row
 *   tllm_state_open(ctx, model, NULL, &state);
 *   tllm_forward(state, tokens, n, 0, 1, logits);  the prompt; logits after its last token
 *   tllm_forward(state, &next, 1, n, 1, logits);   then token by token
 *
 * A model is read-only while it computes. Its weights stay in the file, in any block format. Any number of states may
 * use it, also on different contexts. A state holds one or more sequences: their keys and values in pages that
 * sequences may share, their recurrent states, and scratch memory for a piece of a prompt. It is one block of memory;
 * tllm_state_memory reports its size in advance. One thread at a time may use a state.
 *
 * A context with the target TINY_TARGET_REFERENCE computes with plain scalar code that gives the same bits on every
 * machine. Other targets sum in another order: their results differ by float rounding. */
#ifndef TINYI_MODEL_H
#define TINYI_MODEL_H
#include "core/mem.h"
#include "llm/dist/ladder.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_model tllm_model;
typedef struct tllm_state tllm_state;

/* the kind of a result row */
typedef enum tllm_output {
    TLLM_LOGITS,                            /* a value for each token of the vocabulary */
    TLLM_HIDDEN,                            /* the hidden state of a token, before pooling */
    /* probabilities of the labels (encoders: their scores); one row for the whole sequence */
    TLLM_RANK
} tllm_output;

/* how the hidden states of a text become one row; numbered as in files */
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
    tiny_idx n_out;                         /* floats of a result row */
    tiny_idx n_context;                     /* tokens that the model was trained for */
    int is_encoder;                         /* sees all tokens at once: tllm_forward_all instead of tllm_forward */
    int has_decoder;                        /* encoder and decoder: tllm_forward_all first, then tllm_forward */
    int is_recurrent;                       /* some layers keep a state that cannot be trimmed */
    int first_token;                        /* of the decoder of an encoder-decoder model; -1: the file names none */
    double n_params;
    int rank, world;                        /* of a model split by tllm_model_cut; 0 of 1: the whole model */
    tiny_idx n_head, n_kv, n_ff;            /* of the first layer; of a split model, this rank's part */
} tllm_about;

/* file must stay open until the model is closed. The call checks everything that the forward pass will read. On failure
 * *out is NULL. */
TINY_API tiny_status tllm_model_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_model **out);
TINY_API void tllm_model_close(tiny_ctx *ctx, tllm_model *model);   /* model may be NULL; close its states first */
TINY_API void tllm_model_about(const tllm_model *model, tllm_about *about);
/* The known architectures: "llama", "qwen3", ...; NULL past the last */
TINY_API const char *tllm_arch_name(size_t i);

/* In feed-forward networks with squared ReLU, few neurons are active at a time. This call stores a second copy of the
 * down matrices of such networks, column by column, in memory of the model; *bytes (bytes may be NULL) is its size.
 * format: TLLM_FORMAT_...; -1: the file's format if it is F32, F16 or BF16, else F16. Steps of up to 8 tokens then read
 * only the columns of the active neurons, if these are few enough (docs/papers/plm.md has the rule). No state of the
 * model may compute during the call. TINY_E_UNSUPPORTED: the model has no such network. */
TINY_API tiny_status tllm_model_sparse(tiny_ctx *ctx, tllm_model *model, int format, size_t *bytes);

/* Repacks matrices in block formats for faster decoding, with eight rows interleaved (llm/block/eight.h). The weights
 * are the same numbers in another order; the logits stay within the same error bound. Matrices that are read row by
 * row, or whose kernels would not get faster, stay in the file. The pages of the file that were read are released, so
 * memory holds about one copy of the weights. ctx: the context that will close the model. No state of the model may
 * compute during the call. progress and cancel of the context are called between matrices. After a failure the model is
 * unchanged. Call tllm_adapter_merge, tllm_model_cut and tllm_model_sparse before this call. */
typedef struct tllm_repack_desc {           /* all zero: in memory */
    /* a file that keeps the repacked form for later runs; NULL: none. If it is valid for this model, it is mapped.
     * Otherwise it is made: written to a temporary file and renamed. A file of another kind is refused and not changed.
     * Checksums of the original and the repacked matrices detect damage, not malice: write access to the file allows
     * changing the weights. Do not truncate it while it is mapped */
    const char *path;
    /* nonzero: an invalid or unwritable file is a failure. 0: an invalid file is made again; if it cannot be written,
     * the call succeeds, the repacked form stays in memory, and the context has the message */
    int refuse;
    /* Nonzero: leaves the model as it is, with n = 0, unless it generates text, this library has mapped its file, the
     * target was measured to gain (not NEON), and the repacked matrices fit into half of the memory of the machine or,
     * on Linux, of its control group, into what is free now, and into what max_bytes of the context leaves. Open the
     * states first. If an allocation fails, the call succeeds and n is 0 */
    int automatic;
} tllm_repack_desc;
typedef struct tllm_repacked {
    tiny_idx n;                             /* repacked matrices */
    size_t bytes, left;                     /* bytes of the repacked matrices, and of block matrices left in the file */
    int from_file, written;                 /* nonzero: a valid file was read; a file was written */
    double seconds;                         /* of the call */
} tllm_repacked;
/* desc and about may be NULL. If there is nothing to repack, the call succeeds and n is 0. */
TINY_API tiny_status tllm_model_repack(tiny_ctx *ctx, tllm_model *model, const tllm_repack_desc *desc,
                                       tllm_repacked *about);

/* ---- one model over several ranks, that is cooperating processes or machines (docs/papers/ladder.md) ----
 * Splits an open model: rank r of `world` keeps its share of the heads and of the columns of each network, as views of
 * the file. Nothing is copied, and the weights of other ranks are never read. Embedding, norms and output are on every
 * rank. Supported: grouped attention with dense networks, norms before both. Other models are refused. So are models
 * whose key heads, network width or blocks of the format cannot be divided by `world`. A refused model is unchanged. No
 * state may be open during the call. Afterwards open the states with tllm_state_desc.comm. All ranks must make the same
 * calls with the same tokens and want the same results; these have the same bits on each. */
TINY_API tiny_status tllm_model_cut(tiny_ctx *ctx, tllm_model *model, int rank, int world);
/* The same with parts of any size: rank i gets share[i] / (sum of all shares) of the key heads and neurons, rounded
 * down but at least one, and the last ranks get what is left. Parts are whole blocks of the format: with K formats, key
 * heads may have to stay together. share: (world), above 0, the same on every rank; NULL: equal as far as possible.
 * More ranks than key heads, or than pieces of blocks, are refused. */
TINY_API tiny_status tllm_model_cut_by(tiny_ctx *ctx, tllm_model *model, int rank, int world, const double *share);
/* Copies the columns of a cut model out of the file, row after row: a third of the rank's weights, which it then reads
 * at full speed. As parts of rows they take 1.4 to 1.7 times as long, and since a page of the file holds the parts of
 * all ranks, the pages take more memory than the copy. *bytes, unless bytes is NULL: what was copied; 0 if the model is
 * not cut or has no such parts left. When memory runs out, the model works as before. No state may be open. */
TINY_API tiny_status tllm_model_cut_copy(tiny_ctx *ctx, tllm_model *model, size_t *bytes);
/* Replaces the routes of the file: route (n_layer, 2) has a tllm_route for both halves of each layer, n = 2 n_layer.
 * With other routes the model computes another function of the same weights: see llm/dist/ladder.h. No state may be
 * open. */
TINY_API tiny_status tllm_model_routes(tiny_ctx *ctx, tllm_model *model, const unsigned char *route, tiny_idx n);

typedef struct tllm_state_desc {            /* all zero: sensible defaults */
    tiny_idx n_ctx;                         /* most tokens of a sequence; 0: from the file, at most 4096 */
    tiny_idx n_batch;                       /* most tokens computed at once; 0: 128, for encoders n_ctx */
    tiny_idx n_seq;                         /* sequences, numbered from 0; 0: 1 */
    tiny_idx n_page;                        /* tokens of a page; 0: 16 */
    /* most tokens of all sequences together, shared ones counted once; 0: n_ctx for each sequence */
    tiny_idx n_cells;
    int type_k, type_v;                     /* format of keys and values: TLLM_FORMAT_F32 (0), F16, Q8_0 or Q4_0 */
    /* rounds the inputs of the layers' matrices to this many bits, 2 to 8, with one scale per token
     * (llm/model/rotated.h); 0: no rounding. For experiments: the products themselves do not get cheaper */
    int x_bits;
    float x_clip;                           /* the scale covers this share of the largest number; 0: 0.9 */
    /* for a model split over ranks. The n_most of the comm must be at least n_batch * n_embd. Opening waits for all
     * ranks. If a call fails while it computes, the group of ranks cannot be used any more */
    tiny_comm *comm;
    /* Nonzero, on all ranks: rank 0 alone looks tokens up, and sends what they look up, n_embd numbers for each, in one
     * more sum. The others may be given any tokens. Not for models with an embedding in each layer */
    int hides_tokens;
    /* Nonzero: the results of a token have the same bits whatever other tokens and sequences are computed in the same
     * call, in which pieces a text comes, and with any number of threads. Only for models of attention and networks as
     * in llama; TINY_E_UNSUPPORTED for others and with an accelerator. Long inputs take longer, as their products use
     * the kernels of single tokens: docs/papers/flover.md has the figures */
    int exact;
} tllm_state_desc;

/* *bytes: the memory that tllm_state_open allocates with the same arguments: the block of the state, and the growth of
 * the context's workspace. desc may be NULL. */
TINY_API tiny_status tllm_state_memory(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                       size_t *bytes);
/* desc may be NULL. The model must outlive the state. On failure *out is NULL. */
TINY_API tiny_status tllm_state_open(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                     tllm_state **out);
TINY_API void tllm_state_close(tiny_ctx *ctx, tllm_state *state);   /* state may be NULL; ctx: the one that opened it */
TINY_API void tllm_state_clear(tllm_state *state);                  /* empties all sequences */
TINY_API tiny_idx tllm_state_length(const tllm_state *state);       /* tokens held by sequence 0 */
TINY_API tiny_status tllm_state_trim(tllm_state *state, tiny_idx n);        /* tllm_seq_trim of sequence 0 */

/* Computes n tokens of sequence 0 at positions pos0, pos0 + 1, ..., which must come after the positions already held.
 * out receives the results of the last `rows` tokens, rows * n_out floats. rows 0 and out NULL: no results. Fewer rows
 * cost less: after the last keys and states are made, the other rows are dropped. Of a model split over ranks, all
 * ranks give the same rows, but only rank 0 needs out: where it is NULL, the output matrix is not read. After a
 * failure the state is unchanged, except that with recurrent layers sequence 0 is empty. */
TINY_API tiny_status tllm_forward(tllm_state *state, const int32_t *tokens, tiny_idx n, int64_t pos0, tiny_idx rows,
                                  float *out);
/* Computes tokens of any sequences in one pass over the weights. The items of a sequence must be in the order of their
 * positions. out: n_out floats for each item with want set, in the order of the items; NULL if no item has it set.
 * After a failure all sequences are unchanged, except that with recurrent layers the sequences of the call are
 * empty. */
typedef struct tllm_item {
    int32_t token, seq;
    int64_t pos;                            /* after the positions held; -1: the next one */
    int want;                               /* nonzero: results after this token */
} tllm_item;
TINY_API tiny_status tllm_forward_batch(tllm_state *state, const tllm_item *items, tiny_idx n, float *out);
/* Computes a whole text at once and drops what the sequences held. Encoders: at most n_batch tokens; out receives
 * n rows of n_out floats (hidden states); NULL: none. Rerankers: out receives n_out floats. Encoder-decoder models keep
 * the encoder's keys and values for the decoder of all sequences: continue with tllm_forward. */
TINY_API tiny_status tllm_forward_all(tllm_state *state, const int32_t *tokens, tiny_idx n, float *out);

/* How sparse the activations of networks with squared ReLU are, in steps of up to 8 tokens, with or without
 * tllm_model_sparse. All zero for models without such networks. */
typedef struct tllm_sparsity {
    double fired;                           /* average share of neurons active for at least one token of the step */
    uint64_t n_products, n_sparse;          /* products with down matrices; those that skipped inactive columns */
} tllm_sparsity;
TINY_API void tllm_state_sparsity(const tllm_state *state, tllm_sparsity *out);

/* ---- sequences of a state ---- */
TINY_API tiny_idx tllm_state_sequences(const tllm_state *state);
TINY_API tiny_idx tllm_state_free_cells(const tllm_state *state);   /* tokens that fit into whole free pages */
/* the number of tokens held; 0 if there is no such sequence */
TINY_API tiny_idx tllm_seq_length(const tllm_state *state, tiny_idx seq);
TINY_API int64_t tllm_seq_next(const tllm_state *state, tiny_idx seq);      /* the position after the last token */
TINY_API void tllm_seq_clear(tllm_state *state, tiny_idx seq);
/* Keeps the first n tokens. Models with recurrent layers refuse unless n is 0 or all. */
TINY_API tiny_status tllm_seq_trim(tllm_state *state, tiny_idx seq, tiny_idx n);
/* Makes sequence `to` equal to `from`. Both share the pages; a page is copied when one of the two writes into it.
 * Recurrent states are copied at once. */
TINY_API tiny_status tllm_seq_fork(tllm_state *state, tiny_idx from, tiny_idx to);
/* Appends n tokens of `from`, from index first on, to `to`, at their positions. If first is 0 and `to` is empty, pages
 * are shared as in a fork. Otherwise keys and values are copied unchanged: they still depend on the tokens before them
 * in `from`. Recurrent layers allow only a whole sequence into an empty one. */
TINY_API tiny_status tllm_seq_copy(tllm_state *state, tiny_idx from, tiny_idx to, tiny_idx first, tiny_idx n);
/* Drops n tokens from index first on; later tokens move to lower positions. Nothing is recomputed. Keys are rotated
 * back by the distance, which rotary and relative positions allow. Values are unchanged, so the kept tokens still
 * depend on the dropped ones. Refused for learned positions, norms after the rotation, chunks by position, and
 * recurrent layers: recompute there. */
TINY_API tiny_status tllm_seq_shift(tllm_state *state, tiny_idx seq, tiny_idx first, tiny_idx n);
/* Reuses a common beginning: gives an empty sequence the pages of other sequences that begin with the same tokens at
 * positions 0, 1, ... *n_held: the number of tokens that the sequence then holds. These are whole pages, at most n - 1
 * tokens, so that at least one is left to compute; 0 with recurrent layers. Pages computed before adapters were
 * attached, detached or merged are not used. */
TINY_API tiny_status tllm_seq_share(tllm_state *state, tiny_idx seq, const int32_t *tokens, tiny_idx n,
                                    tiny_idx *n_held);

/* ---- saved states ----
 * Saves or loads one sequence (seq) or all (-1): keys and values in the formats of the state, recurrent states,
 * positions. Loading needs the same model, the same merged and attached adapters, and the same formats. It replaces the
 * contents of the sequence or of all sequences. A file that is truncated, changed or of another model is refused, and
 * the state is unchanged. The file is written under a temporary name and renamed. Saving allocates memory of the size
 * of the file. */
TINY_API tiny_status tllm_state_save(tllm_state *state, tiny_idx seq, const char *path);
TINY_API tiny_status tllm_state_load(tllm_state *state, tiny_idx seq, const char *path);
/* The same in memory. Free *bytes with tiny_free. n_tokens tokens, such as the text of the sequence, are stored with
 * the state; 0: none. */
TINY_API tiny_status tllm_state_pack(tllm_state *state, tiny_idx seq, const int32_t *tokens, tiny_idx n_tokens,
                                     void **bytes, size_t *n_bytes);
/* tokens: room for the stored tokens, or NULL; n_tokens: receives their number, or NULL */
TINY_API tiny_status tllm_state_unpack(tllm_state *state, tiny_idx seq, const void *bytes, size_t n_bytes,
                                       int32_t *tokens, tiny_idx room, tiny_idx *n_tokens);

TINYI_C_END
#endif
