/* src/llm/compress/thin.h - one-shot pruning of whole heads and whole neurons: a model with smaller matrices
 *
 *   tllm_thin_desc d = { 0 };
 *   d.heads = 0.25; d.neurons = 0.25;                      a quarter of the query heads and neurons of each layer
 *   tllm_thin *t;
 *   tllm_thin_open(ctx, file, &d, &t);
 *   tllm_thin_put(ctx, t, token, n, writer); tllm_writer_finish(ctx, writer);      reads the text and writes
 *   tllm_thin_close(ctx, t);
 *
 * The result is an ordinary file of the same architecture with fewer heads and a narrower network. This library runs it
 * with the kernels of any other model, and so do engines that read sizes of heads from the file. What goes is what adds
 * least to the stream over a text; what stays of the output matrices is fitted again, layer by layer, so that the
 * layers add what they added before, as nearly as possible. */
#ifndef TINYI_THIN_H
#define TINYI_THIN_H
#include "llm/file/gguf_write.h"
TINYI_C_BEGIN

typedef struct tllm_thin_desc {             /* zero: the value in brackets */
    /* share of the query heads that goes, below 1, rounded down to a whole number: the same number of each key head, or
     * heads with their keys where each has its own */
    double heads;
    double neurons;                         /* share of the neurons that goes, below 1 */
    tiny_idx round;                         /* neurons that stay are a multiple of it, rounded up [32] */
    int plain;                              /* nonzero: the output matrices are cut, not fitted again */
    float damp;                             /* share of the mean diagonal that is added to the products [0.01] */
    tiny_idx window;                        /* tokens read together [512, or the context if shorter] */
} tllm_thin_desc;

typedef struct tllm_thin_about {
    tiny_idx n_head, n_kv, n_ff;            /* of a layer of the result */
    double params, params_before;
    uint64_t bytes, bytes_before;
    /* after tllm_thin_put: mean over the output matrices of |what they add now - before|^2 / |before|^2 */
    double lost;
    tiny_idx tokens;
} tllm_thin_about;

typedef struct tllm_thin tllm_thin;

/* file must stay open. Refused, with the reason: layers other than attention with separate q, k and v and a dense
 * network; positions that depend on the number of a head; models that are sliced or rotated; layers that differ in
 * their sizes; shares that leave no head, no neuron, or rows that are not whole blocks of their format. On failure *out
 * is NULL. */
TINY_API tiny_status tllm_thin_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_thin_desc *desc, tllm_thin **out);
TINY_API void tllm_thin_close(tiny_ctx *ctx, tllm_thin *t);        /* t may be NULL; ctx: the one that opened it */
TINY_API tllm_thin_about tllm_thin_what(const tllm_thin *t);
/* Reads the text once for each layer, with the layers before it pruned, and writes the model to a writer that was just
 * opened. progress ("thin") and cancel of the context are called. Once. */
TINY_API tiny_status tllm_thin_put(tiny_ctx *ctx, tllm_thin *t, const int32_t *token, tiny_idx n, tllm_writer *w);

TINYI_C_END
#endif
