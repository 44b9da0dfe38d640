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
 * A model is read only: weights stay where the file has them, in whatever block format; any number of states may use it, on
 * different contexts too. A state is one sequence: its keys and values, its recurrent states, and the scratch memory of a
 * piece of the prompt; all of it is one block, whose size tllm_state_memory tells beforehand.
 *
 * The reference target of the context (TINY_TARGET_REFERENCE) computes with plain scalar code that gives the same bits on
 * every machine; other targets are as exact as float allows.                                                            */
#ifndef TINYI_MODEL_H
#define TINYI_MODEL_H
#include "core/mem.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_model tllm_model;
typedef struct tllm_state tllm_state;

/* what a row of results is */
typedef enum tllm_output {
    TLLM_LOGITS,                            /* a value for each token of the vocabulary */
    TLLM_HIDDEN,                            /* the state of a token before pooling */
    TLLM_RANK                               /* probabilities of the labels (of encoders: their scores); one row for the whole sequence */
} tllm_output;

typedef enum tllm_pooling { TLLM_POOL_NONE, TLLM_POOL_MEAN, TLLM_POOL_CLS, TLLM_POOL_LAST, TLLM_POOL_RANK } tllm_pooling;   /* as in files */

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
} tllm_about;

/* file must stay open. Everything that the forward pass will read is checked here. On failure *out is NULL. */
TINY_API tiny_status tllm_model_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_model **out);
TINY_API void tllm_model_close(tiny_ctx *ctx, tllm_model *model);   /* takes NULL; after its states */
TINY_API void tllm_model_about(const tllm_model *model, tllm_about *about);
/* "llama", "qwen3", ...: the architectures that are known; NULL past the last */
TINY_API const char *tllm_arch_name(size_t i);

typedef struct tllm_state_desc {            /* all zero: the sensible default */
    tiny_idx n_ctx;                         /* tokens that the sequence may have; 0: as the file says, at most 4096 */
    tiny_idx n_batch;                       /* tokens computed at once; 0: 64, for encoders n_ctx */
} tllm_state_desc;

/* desc may be NULL. What tllm_state_open takes: the block of the state, and the workspace of the context as far as it was smaller. */
TINY_API tiny_status tllm_state_memory(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, size_t *bytes);
TINY_API tiny_status tllm_state_open(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, tllm_state **out);
TINY_API void tllm_state_close(tiny_ctx *ctx, tllm_state *state);   /* takes NULL; the context that opened it */
TINY_API void tllm_state_clear(tllm_state *state);
TINY_API tiny_idx tllm_state_length(const tllm_state *state);       /* tokens held */
/* Keeps the first n tokens. Layers with a recurrent state refuse, unless n is 0 or all. */
TINY_API tiny_status tllm_state_trim(tllm_state *state, tiny_idx n);

/* Tokens at the positions pos0, pos0 + 1, ..., which must lie after those that are held. rows: results are wanted for the
 * last rows tokens, out has rows * n_out floats; 0 and NULL: none. After a failure the state holds what it held before the
 * call, unless layers are recurrent: then it is empty. */
TINY_API tiny_status tllm_forward(tllm_state *state, const int32_t *tokens, tiny_idx n, int64_t pos0, tiny_idx rows, float *out);
/* A whole sequence. Encoders: out has n * n_out floats (hidden states), or NULL. Rerankers: out has n_out floats. Models
 * with a decoder keep what it will look at, and start it anew. */
TINY_API tiny_status tllm_forward_all(tllm_state *state, const int32_t *tokens, tiny_idx n, float *out);

TINYI_C_END
#endif
