/* src/llm/compress/oneshot.h - one-shot pruning of layers and of models: magnitude, Wanda, SparseGPT
 *
 *   tllm_oneshot_desc d = { 0 };
 *   d.by = TLLM_ONESHOT_SPARSEGPT;                          half of each matrix; or d.zeros = 2, d.of = 4
 *   tiny_tensor h = tllm_calib_products(calib);             from the inputs of the layer: llm/round/calib.h
 *   tllm_oneshot(ctx, &d, w, rows, n, &h, &about);          zeros in w
 *
 *   tllm_oneshot_tensor list[...];                          or all matrices of a model, over a text
 *   tllm_oneshot_model(ctx, file, &d, token, n_token, list, n_list);
 *
 * Magnitude sets the smallest numbers of the whole matrix to 0. Wanda (arXiv 2306.11695) weighs each number by the norm
 * of the input that it meets, and compares within a row. SparseGPT (arXiv 2301.00774) chooses by the error that the
 * outputs would have, and corrects the numbers that stay, column by column. llm/compress/prune.h has the sort of a row
 * alone, without statistics. */
#ifndef TINYI_ONESHOT_H
#define TINYI_ONESHOT_H
#include "llm/file/gguf.h"
#include "llm/round/calib.h"
TINYI_C_BEGIN

typedef enum tllm_oneshot_by {
    TLLM_ONESHOT_MAGNITUDE,
    TLLM_ONESHOT_WANDA,
    TLLM_ONESHOT_SPARSEGPT,
    TLLM_ONESHOT_WAYS
} tllm_oneshot_by;

typedef struct tllm_oneshot_desc {          /* all zero: the value in brackets */
    int by;                                 /* TLLM_ONESHOT_... [magnitude] */
    double share;                           /* of the numbers that become 0, above 0 and below 1 [0.5] */
    int zeros, of;                          /* or so many of each `of` neighbours of a row, as 2 of 4 [0: share] */
    float damp;                             /* SparseGPT: share of the mean diagonal that is added to it [0.01] */
    tiny_idx block;                         /* SparseGPT: columns that are chosen together [128] */
    tiny_idx window;                        /* of a model: tokens read together [512, or the context if shorter] */
} tllm_oneshot_desc;

typedef struct tllm_oneshot_about {
    uint64_t zeros, numbers;
    double loss;                            /* tr((W - W') h (W - W')^T); 0 without h */
} tllm_oneshot_about;

/* w (rows, n) dense; h (n, n) f32 or f64, any strides, only i <= j is read: sums of products of the inputs. Magnitude
 * needs none (NULL). Of equal numbers the first become 0. share is rounded to a whole number of zeros of the matrix,
 * for Wanda of a row, for SparseGPT of a block. desc and about may be NULL. Refused: numbers that are not finite, rows
 * that are not whole groups of `of`. After a failure w is undefined. */
TINY_API tiny_status tllm_oneshot(tiny_ctx *ctx, const tllm_oneshot_desc *desc, float *w, tiny_idx rows, tiny_idx n,
                                  const tiny_tensor *h, tllm_oneshot_about *about);

typedef struct tllm_oneshot_tensor {
    const tllm_gguf_tensor *t;              /* of the file: rows of dim[0], in any format */
    float *to;                              /* receives all its numbers, dim[0] * dim[1] * ... of them */
    /* results; found 0: no product used the tensor, and `to` has its numbers unchanged */
    int found;
    tllm_oneshot_about about;
} tllm_oneshot_tensor;

/* The text is read once for each layer, with the layers before it pruned. ctx computes; the model runs in a second
 * context, which the call opens with the allocator, threads and target of ctx. progress of ctx ("oneshot") receives the
 * share of the work done. */
TINY_API tiny_status tllm_oneshot_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_oneshot_desc *desc,
                                        const int32_t *token, tiny_idx n_token, tllm_oneshot_tensor *list, size_t n);

TINYI_C_END
#endif
