/* src/llm/round/gptq.h - GPTQ: weights to few bits, each error made good by the weights that are not rounded yet
 *
 *   tllm_gptq_desc d = { 0 };                                       4 bits in groups of 128, S2, damping 0.01
 *   tiny_tensor h = tllm_calib_products(calib);                     from the inputs of the layer: llm/round/calib.h
 *   tllm_gptq(ctx, &d, w, rows, n, &h, &q, &about);                 codes, scales, zeros as of tllm_plain_round
 *   tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_Q4_0, w, rows, n, &h, to, &about);    or rows of blocks, as model files have
 *                                                                               them
 *
 * What is made small is tr((W - W') H (W - W')^T): the squared error of the layer's outputs over the inputs that were
 * seen, not that of the weights. The layer costs rows n^2 / 2 multiply-adds and n^3 for its H; nothing depends on the
 * unit of the inputs, so h may be sums, means or (2 / tokens) sums. */
#ifndef TINYI_GPTQ_H
#define TINYI_GPTQ_H
#include "llm/block/format.h"
#include "llm/round/plain.h"
#include "llm/round/calib.h"
TINYI_C_BEGIN

typedef struct tllm_gptq_desc {             /* all zero: the value in brackets */
    /* convention, bits, group, ranges that are searched, weighed by the diagonal of h; not read for blocks */
    tllm_plain_desc grid;
    /* nonzero: inputs with the largest diagonal first; scales of groups are then fitted beforehand, on the weights as
     * they came [0] */
    int act_order;
    /* nonzero: fitted beforehand without that order too [0: on the weights as they are when the group's turn comes] */
    int static_groups;
    /* share of the mean diagonal that is added to it [0.01]; 0.1 is the safer one with few tokens */
    float damp;
    /* columns whose errors are carried on together [128]; results differ by rounding */
    tiny_idx block;
} tllm_gptq_desc;

typedef struct tllm_gptq_about {
    /* tr((W - W') (h + damping) (W - W')^T); where rounded is set, the plain squared error */
    double loss;
    double damp;                            /* share that was used */
    int doubled;                            /* so often h was not positive definite with less */
    /* it never was: the weights were rounded to the nearest, no error was carried on */
    int rounded;
    tiny_idx dead;                          /* inputs that were always 0; their weights became 0 */
} tllm_gptq_about;

/* w (rows, n) dense; h (n, n) f32 or f64, any strides, only i <= j is read; about may be NULL. Refused: weights or h
 * with a NaN or an infinity, a diagonal below 0, what tllm_plain_size refuses. Fewer tokens than inputs, and inputs
 * that depend on each other, are what the damping is for. */
TINY_API tiny_status tllm_gptq(tiny_ctx *ctx, const tllm_gptq_desc *desc, const float *w, tiny_idx rows, tiny_idx n,
                               const tiny_tensor *h, const tllm_plain *q, tllm_gptq_about *about);

/* The same to rows of blocks: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K. to: rows of tllm_format_bytes(n). Scales of a
 * block are fitted by the format's own packer with the diagonal of h as importance. */
TINY_API tiny_status tllm_gptq_blocks(tiny_ctx *ctx, const tllm_gptq_desc *desc, int format, const float *w,
                                      tiny_idx rows, tiny_idx n, const tiny_tensor *h, void *to,
                                      tllm_gptq_about *about);
TINY_API int tllm_gptq_has(int format);     /* can it be written so? */

/* Upper triangle U with (h + damp mean(diagonal) I)^-1 = U^T U, dense f32 with zeros below; damp 0: 0.01. */
TINY_API tiny_status tllm_gptq_triangle(tiny_ctx *ctx, const tiny_tensor *h, float damp, float *u);
/* tr((w - v) h (w - v)^T); v NULL: tr(w h w^T), what it is small beside. In double. */
TINY_API tiny_status tllm_gptq_loss(tiny_ctx *ctx, const float *w, const float *v, tiny_idx rows, tiny_idx n,
                                    const tiny_tensor *h, double *loss);

TINYI_C_END
#endif
