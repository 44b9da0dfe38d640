/* src/llm/model/adapter.h - LoRA adapters and control vectors from GGUF files
 *
 *   tllm_adapter *a;
 *   if (tllm_adapter_load(ctx, model, "adapter.gguf", &a)) ... the message names the file, the tensor, the shapes ...
 *   tllm_state_attach(state, a, 1.0f);             from the next token on; a second call changes the weight, 0 detaches
 *   ... tllm_forward(state, ...) ...
 *   tllm_adapter_close(ctx, a);                    after the states that it is attached to
 *
 * LoRA   y = W x becomes y = W x + weight * scale * B (A x) with scale = alpha / rank, for every weight that the file
 *        names: attention, feed-forward networks, experts, output, embedding (there A has a row for each token).
 *        tllm_adapter_merge instead replaces W by W + weight * scale * B A, computed in double. A token then costs the
 *        same as without the adapter. Only the changed weights take memory.
 * Vector a control vector: the row direction.N, times the weight, is added to the output of layer N, counted from 0.
 *
 * An adapter is read-only; any number of states of its model may use it. Tokens that a state already holds keep the
 * results computed without the adapter: clear the state if that matters. docs/guide/adapters.md has more. */
#ifndef TINYI_ADAPTER_H
#define TINYI_ADAPTER_H
#include "llm/model/model.h"
TINYI_C_BEGIN

#define TLLM_MAX_ATTACHED 16                /* adapters of one state */

typedef struct tllm_adapter tllm_adapter;
typedef enum tllm_adapter_kind { TLLM_ADAPTER_LORA, TLLM_ADAPTER_VECTOR } tllm_adapter_kind;
typedef struct tllm_adapter_about {
    tllm_adapter_kind kind;
    size_t n_places;                        /* weights or layers that it changes */
    tiny_idx rank;                          /* LoRA: the largest */
    double alpha;                           /* LoRA: from the file; 0: none, and the scale is 1 */
    tiny_idx first, last;                   /* vector: layers */
    double n_params;
} tllm_adapter_about;

/* Open an adapter from an open file, or load it from a path. The file says which kind it is. Everything is copied: the
 * file may be closed afterwards. On failure *out is NULL. */
TINY_API tiny_status tllm_adapter_open(tiny_ctx *ctx, const tllm_model *model, const tllm_gguf *file,
                                       tllm_adapter **out);
TINY_API tiny_status tllm_adapter_load(tiny_ctx *ctx, const tllm_model *model, const char *path, tllm_adapter **out);
TINY_API void tllm_adapter_close(tiny_ctx *ctx, tllm_adapter *a);       /* a may be NULL */
TINY_API void tllm_adapter_tell(const tllm_adapter *a, tllm_adapter_about *about);
/* Restricts a control vector to the layers first to last. The default is 1 to the number of layers - 1. */
TINY_API tiny_status tllm_adapter_layers(tiny_ctx *ctx, tllm_adapter *a, tiny_idx first, tiny_idx last);

/* Attaches the adapter to a state. If it is attached already, sets its weight; weight 0 detaches it. The first call
 * allocates scratch memory. After a failure the state is unchanged. a must outlive the state, or be detached first. */
TINY_API tiny_status tllm_state_attach(tllm_state *s, const tllm_adapter *a, float weight);
/* Merges a LoRA adapter into the model. dtype: TINY_F32 or TINY_F16, the type of the new weights. No state of the model
 * may compute during the call. Tokens that states already hold keep the results of the old weights. Several adapters
 * can be merged one after the other. A merge cannot be undone. */
TINY_API tiny_status tllm_adapter_merge(tiny_ctx *ctx, tllm_model *model, const tllm_adapter *a, float weight,
                                        tiny_dtype dtype);

TINYI_C_END
#endif
