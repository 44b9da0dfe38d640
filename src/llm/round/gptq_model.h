/* src/llm/round/gptq_model.h - the matrices of a model by GPTQ, over a text that it reads
 *
 *   tllm_gptq_tensor list[...];                             tensor, format, and a place for the blocks, for each matrix
 *   tllm_gptq_model(ctx, file, NULL, tokens, n, list, n_list);
 *
 * The text is read as often as the statistics of all matrices take desc.room bytes; matrices are done in the order of
 * the layers, and each reading sees those of the readings before as they were rounded. desc.each_layer makes one for
 * each layer: on the story models that gained at 2 bits, and nothing that could be told from chance at 3 and 4. */
#ifndef TINYI_GPTQ_MODEL_H
#define TINYI_GPTQ_MODEL_H
#include "llm/model/model.h"
#include "llm/round/gptq.h"
TINYI_C_BEGIN

typedef struct tllm_gptq_model_desc {       /* all zero: the value in brackets */
    tllm_gptq_desc gptq;                    /* order, damping, block; grid is not read */
    tiny_idx window;                        /* tokens that see each other [512, or what the model was made for] */
    /* bytes of statistics at once [1 GB]; one layer is done with more than that, too */
    size_t room;
    int each_layer;                         /* nonzero: one reading for each layer */
} tllm_gptq_model_desc;

typedef struct tllm_gptq_tensor {
    const tllm_gguf_tensor *t;              /* of the file: rows of dim[0], in any format */
    int format;                             /* that tllm_gptq_has */
    void *to;                               /* all its rows in that format */
    /* of this one [0: that of desc]. 1 for an embedding that gives the logits too: its rows are read one by one as
     * well */
    float damp;
    int found;                              /* answer: 0, nothing was multiplied with it, and to is as it was */
    uint64_t tokens;                        /* inputs that were seen, of the matrix with the fewest */
    tllm_gptq_about about;                  /* of several matrices: the sum of the losses, the most of the others */
} tllm_gptq_tensor;

/* ctx computes, and a second context with its allocator, threads and target is opened for the model. progress of ctx is
 * told the share of the work. */
TINY_API tiny_status tllm_gptq_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_gptq_model_desc *desc,
                                     const int32_t *token, tiny_idx n_token, tllm_gptq_tensor *list, size_t n);

TINYI_C_END
#endif
