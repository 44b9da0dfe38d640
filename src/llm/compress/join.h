/* src/llm/compress/join.h - SN-Net for model files: two models of one vocabulary, and all stitches between them, in one
 * file
 *
 *   tllm_join *j;
 *   tllm_join_open(ctx, small, large, NULL, &j);           checks that the two can be stitched
 *   tllm_join_fit(ctx, j, token, n);                       reads a text with both; least squares
 *   tllm_join_put(ctx, j, NULL, writer); tllm_writer_finish(ctx, writer);
 *   tllm_join_close(ctx, j);
 *
 * Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586). llm/session/stitched.h describes
 * the file and runs it. The weights of both models are copied as they are. The linear layers get their first values,
 * and are not trained further. */
#ifndef TINYI_JOIN_H
#define TINYI_JOIN_H
#include "llm/compress/stitch.h"
#include "llm/file/gguf_write.h"
TINYI_C_BEGIN

typedef struct tllm_join_desc {             /* all zero: the value in brackets */
    int format;                             /* of the linear layers; rows must be whole blocks [F32] */
    tiny_idx window;                        /* tokens that are read together [256, or the context if shorter] */
} tllm_join_desc;

typedef struct tllm_join_about {
    tiny_idx width[2], n_layer[2];
    size_t n, n_linear;                     /* networks, linear layers */
    tiny_idx tokens;                        /* that were read */
    /* after tllm_join_fit: the mean, over the stitches, of the share of the back's squares that the linear layer leaves
     * (tllm_stitch_solve), before those that share a layer are averaged */
    double left;
} tllm_join_about;

typedef struct tllm_join tllm_join;

/* front: the narrower model; back: the wider one, with at least as many layers; both files stay open. desc may be NULL.
 * Both must have the same architecture, with attention and a network in each layer, each after a norm; the same
 * vocabulary and size of a head; and the same value of every other key of the architecture. On failure *out is NULL,
 * and the sentence has the reason. */
TINY_API tiny_status tllm_join_open(tiny_ctx *ctx, const tllm_gguf *front, const tllm_gguf *back,
                                    const tllm_join_desc *desc, tllm_join **out);
TINY_API void tllm_join_close(tiny_ctx *ctx, tllm_join *j);        /* j may be NULL; ctx: the one that opened it */
TINY_API tllm_join_about tllm_join_what(const tllm_join *j);
/* Reads the text in independent windows with both models. More tokens than the width of the front are needed; ten times
 * as many are better. Memory: n times the widths of all layers of both models, in floats. progress ("join") and cancel
 * of the context are called between windows and solutions. */
TINY_API tiny_status tllm_join_fit(tiny_ctx *ctx, tllm_join *j, const int32_t *token, tiny_idx n);
/* Writes the file, after tllm_join_fit. bits: measured bits per token of each network, which the file then has; or
 * NULL. May be called several times. */
TINY_API tiny_status tllm_join_put(tiny_ctx *ctx, const tllm_join *j, const double *bits, tllm_writer *w);

TINYI_C_END
#endif
