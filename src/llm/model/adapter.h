/* src/llm/model/adapter.h - what changes a model without being one: LoRA adapters and control vectors from GGUF files
 *
 *   tllm_adapter *a;
 *   if (tllm_adapter_load(ctx, model, "adapter.gguf", &a)) ... the sentence names the file, the tensor, the shapes ...
 *   tllm_state_attach(state, a, 1.0f);             from the next token on; again with another weight, or 0: not any
 *                                                  more
 *   ... tllm_forward(state, ...) ...
 *   tllm_adapter_close(ctx, a);                    after the states that it is attached to
 *
 * LoRA   y = W x becomes y = W x + weight * scale * B (A x) with scale = alpha / rank, for every weight that the file
 *        names: of attention, of feed-forward networks, of experts, of the output, of the embedding (there A has a row
 *        for each token).
 *        Or it is merged: tllm_adapter_merge puts W + weight * scale * B A, computed in double, in the place of W, in
 *        memory of its own for the touched weights only; after that a token costs what it cost without.
 * Vector the row direction.N times its weight is added to what layer N (the first is 0) gives on.
 *
 * An adapter is read only; any number of states of the model it was opened for may use it. What a state holds already
 * was computed with the weights of its time: clear the state where that matters. docs/guide/adapters.md has more. */
#ifndef TINYI_ADAPTER_H
#define TINYI_ADAPTER_H
#include "llm/model/model.h"
TINYI_C_BEGIN

#define TLLM_MAX_ATTACHED 16                /* adapters of one state */

typedef struct tllm_adapter tllm_adapter;
typedef enum tllm_adapter_kind { TLLM_ADAPTER_LORA, TLLM_ADAPTER_VECTOR } tllm_adapter_kind;
typedef struct tllm_adapter_about {
    tllm_adapter_kind kind;
    size_t n_places;                        /* weights, or layers, that it changes */
    tiny_idx rank;                          /* LoRA: the largest */
    double alpha;                           /* LoRA: of the file; 0: there is none, and the scale is 1 */
    tiny_idx first, last;                   /* vector: layers */
    double n_params;
} tllm_adapter_about;

/* Which of the two it is the file says. All is copied: the file may be closed afterwards. On failure *out is NULL. */
TINY_API tiny_status tllm_adapter_open(tiny_ctx *ctx, const tllm_model *model, const tllm_gguf *file,
                                       tllm_adapter **out);
TINY_API tiny_status tllm_adapter_load(tiny_ctx *ctx, const tllm_model *model, const char *path, tllm_adapter **out);
TINY_API void tllm_adapter_close(tiny_ctx *ctx, tllm_adapter *a);       /* takes NULL */
TINY_API void tllm_adapter_tell(const tllm_adapter *a, tllm_adapter_about *about);
/* A vector changes layers first to last only; 1 to the number of layers - 1 without this. */
TINY_API tiny_status tllm_adapter_layers(tiny_ctx *ctx, tllm_adapter *a, tiny_idx first, tiny_idx last);

/* The first call takes scratch memory for the adapter; later ones only set the weight. After a failure it is as it
 * was. */
TINY_API tiny_status tllm_state_attach(tllm_state *s, const tllm_adapter *a, float weight);
/* LoRA only. dtype: TINY_F32 or TINY_F16, of the weights that are made. No state of the model may be at work meanwhile,
 * and what states hold was computed without. A model can be merged with several adapters, one after the other, but not
 * back. */
TINY_API tiny_status tllm_adapter_merge(tiny_ctx *ctx, tllm_model *model, const tllm_adapter *a, float weight,
                                        tiny_dtype dtype);

TINYI_C_END
#endif
