/* src/llm/compress/slice.h - SliceGPT: a model whose stream is narrower, found by principal components of a text
 *
 *   tllm_sliced_desc d = { 0 };
 *   d.keep = 0.75;                                          three quarters of the channels of the stream
 *   tllm_sliced *s;
 *   tllm_sliced_open(ctx, file, &d, &s);                    checks the model and chooses the widths
 *   tllm_sliced_put(ctx, s, token, n, writer); tllm_writer_finish(ctx, writer);     reads the text and writes
 *   tllm_sliced_close(ctx, s);
 *
 * S. Ashkboos et al., "SliceGPT: Compress Large Language Models by Deleting Rows and Columns", 2024 (arXiv 2401.15024).
 * The stream is written in the principal axes of its values over a text, and the axes with the least energy are
 * deleted: from every matrix that reads the stream a part of each row, from every matrix that writes it a part of the
 * rows. Each half of a layer has its own axes, so a matrix carries the stream from one basis to the next (a shortcut).
 * The result is a smaller dense model. This library runs it with the kernels of any other model; other engines refuse
 * it by its name (llm/model/sliced.h). Adapters and control vectors of the original model do not fit it. */
#ifndef TINYI_SLICE_H
#define TINYI_SLICE_H
#include "llm/file/gguf_write.h"
#include "llm/model/sliced.h"
TINYI_C_BEGIN

/* which axes are kept */
typedef enum tllm_slice_by {
    TLLM_SLICE_PCA,                         /* those of the largest energy: eigenvectors of the products of channels */
    TLLM_SLICE_COLUMNS,                     /* channels as they are, those of the largest energy */
    TLLM_SLICE_RANDOM,                      /* a random orthogonal matrix */
    TLLM_SLICE_FIRST,                       /* channels as they are, the first of them */
    TLLM_SLICE_WAYS
} tllm_slice_by;

typedef struct tllm_sliced_desc {           /* all zero: the value in brackets */
    double keep;                            /* share of the width of the stream that is kept, above 0 to 1 [0.75] */
    /* or the width for each layer: what both its halves read; n_width must be the number of layers. NULL: keep */
    const tiny_idx *width;
    tiny_idx n_width;
    /* widths are multiples of it, rounded down [8]; with a block format also of the size of its blocks */
    tiny_idx round;
    int head;                               /* nonzero: the output matrix is sliced too */
    int by;                                 /* TLLM_SLICE_... [TLLM_SLICE_PCA] */
    /* nonzero: axes in the order of their energy [a random rotation of the kept axes: the same function, and numbers of
     * even size, which lose less in few bits] */
    int ordered;
    uint64_t seed;                          /* of random rotations [0] */
    int format;                             /* of the changed matrices [F32] */
    tiny_idx window;                        /* tokens that are read together [512, or the context if shorter] */
} tllm_sliced_desc;

typedef struct tllm_sliced_about {
    tiny_idx n_embd, n_layer, n_signals;    /* n_signals: bases of the stream */
    tiny_idx least, most;                   /* the smallest and the largest width */
    double params, params_before;           /* numbers of all tensors, shortcuts included */
    uint64_t bytes, bytes_before;           /* of all tensors */
    int untied;                             /* nonzero: the embedding also gave the logits; output.weight is new */
    /* after tllm_sliced_put: the mean over the bases of the share of the stream's energy that was deleted over the
     * text; tokens of the text */
    double lost;
    tiny_idx tokens;
} tllm_sliced_about;

typedef struct tllm_sliced tllm_sliced;

/* file must stay open. Refused, with the reason: models that do not have a norm before both halves of each layer, or
 * one behind a half; mixers other than attention; layers that share keys; models without logits; rotated or sliced
 * models; unknown tensors; widths below 8 or above that of the model; rows that are not whole blocks of format. RMS
 * norms and layer norms are both supported. On failure *out is NULL. */
TINY_API tiny_status tllm_sliced_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_sliced_desc *desc,
                                      tllm_sliced **out);
TINY_API void tllm_sliced_close(tiny_ctx *ctx, tllm_sliced *s);        /* s may be NULL; ctx: the one that opened it */
TINY_API tllm_sliced_about tllm_sliced_what(const tllm_sliced *s);
/* Width number i of the stream: 0 after the embedding, then between the halves and after each layer; 0 past the end */
TINY_API tiny_idx tllm_sliced_width(const tllm_sliced *s, tiny_idx i);
/* Reads the text in independent windows and writes the sliced model to a writer that was just opened. Memory: the
 * stream of all tokens, n (n_embd) floats, and some squares of n_embd. Fewer tokens than n_embd give a valid model
 * whose axes are partly arbitrary. progress ("slice") and cancel of the context are called between windows and
 * tensors. */
TINY_API tiny_status tllm_sliced_put(tiny_ctx *ctx, tllm_sliced *s, const int32_t *token, tiny_idx n, tllm_writer *w);

/* The axes of n channels by x (rows, n) f32, dense rows: q (n, n) f64, orthogonal, a column for each axis, those that
 * are kept first. For PCA a hundredth of the mean energy of a channel is added to the diagonal of the products, as in
 * the paper's program: the eigenvectors stay the same, and few rows give some too. */
TINY_API tiny_status tllm_slice_axes(tiny_ctx *ctx, const tiny_tensor *x, int by, uint64_t seed, const tiny_tensor *q);

TINYI_C_END
#endif
