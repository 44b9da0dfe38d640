/* src/llm/round/gptq_model.h - GPTQ for the matrices of a model, calibrated on a text
 *
 *   tllm_gptq_tensor list[...];                             tensor, format and memory for the blocks of each matrix
 *   tllm_gptq_model(ctx, file, NULL, tokens, n, list, n_list);
 *
 * The model reads the text several times. Each reading collects statistics for as many matrices as fit into desc.room
 * bytes. Matrices are processed in the order of the layers, and each reading runs with the matrices that are already
 * rounded. desc.each_layer makes one reading per layer: on small test models that helped at 2 bits, and had no
 * measurable effect at 3 and 4 bits. */
#ifndef TINYI_GPTQ_MODEL_H
#define TINYI_GPTQ_MODEL_H
#include "llm/model/model.h"
#include "llm/round/gptq.h"
TINYI_C_BEGIN

typedef struct tllm_gptq_model_desc {       /* all zero: the value in brackets */
    tllm_gptq_desc gptq;                    /* order, damping, block; grid is ignored */
    tiny_idx window;                        /* tokens of a text window [512, or the context of the model if shorter] */
    /* bytes of statistics at once [1 GB]; a single layer may exceed it */
    size_t room;
    int each_layer;                         /* nonzero: one reading for each layer */
} tllm_gptq_model_desc;

typedef struct tllm_gptq_tensor {
    const tllm_gguf_tensor *t;              /* of the file: rows of dim[0], in any format */
    int format;                             /* a format of tllm_gptq_has */
    void *to;                               /* receives all its rows in that format */
    /* damping of this matrix [0: that of desc]. Use 1 for an embedding that also gives the logits: its rows are also
     * read one by one */
    float damp;
    /* results */
    int found;                              /* 0: no product used the tensor, and `to` is unchanged */
    uint64_t tokens;                        /* inputs seen; of several matrices (experts) the least */
    tllm_gptq_about about;                  /* of several matrices the sum of the losses, the maximum of the rest */
} tllm_gptq_tensor;

/* token: the text, n_token tokens. desc may be NULL. ctx computes; the model runs in a second context, which the call
 * opens with the allocator, threads and target of ctx. progress of ctx receives the share of the work done. */
TINY_API tiny_status tllm_gptq_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_gptq_model_desc *desc,
                                     const int32_t *token, tiny_idx n_token, tllm_gptq_tensor *list, size_t n);

TINYI_C_END
#endif
