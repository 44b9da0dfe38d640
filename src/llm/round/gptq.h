/* src/llm/round/gptq.h - GPTQ: rounds weights to few bits; each rounding error is compensated in the weights not
 * yet rounded
 *
 *   tllm_gptq_desc d = { 0 };                                       4 bits in groups of 128, S2, damping 0.01
 *   tiny_tensor h = tllm_calib_products(calib);                     from the inputs of the layer: llm/round/calib.h
 *   tllm_gptq(ctx, &d, w, rows, n, &h, &q, &about);                 codes, scales, zeros as in tllm_plain_round
 *   tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_Q4_0, w, rows, n, &h, to, &about);    or rows of blocks, as in model files
 *
 * It minimises tr((W - W') H (W - W')^T): the squared error of the layer's outputs over the calibration inputs, not of
 * the weights. A layer costs rows n^2 / 2 multiply-adds, and n^3 for its H. A constant factor in h does not change the
 * result: h may be sums of products, their means, or 2 / tokens times the sums. */
#ifndef TINYI_GPTQ_H
#define TINYI_GPTQ_H
#include "llm/block/format.h"
#include "llm/round/plain.h"
#include "llm/round/calib.h"
TINYI_C_BEGIN

typedef struct tllm_gptq_desc {             /* all zero: the value in brackets */
    /* convention, bits, group, and ranges searched, weighted by the diagonal of h; ignored for blocks */
    tllm_plain_desc grid;
    /* nonzero: rounds the inputs with the largest diagonal of h first. The scales of all groups are then fitted in
     * advance, to the original weights [0] */
    int act_order;
    /* nonzero: scales are fitted in advance also without act_order [0: when the group is reached, to its corrected
     * weights] */
    int static_groups;
    /* share of the mean diagonal that is added to the diagonal [0.01]; 0.1 is safer with few tokens */
    float damp;
    /* columns whose errors are propagated together [128]; it changes results by rounding only */
    tiny_idx block;
} tllm_gptq_desc;

typedef struct tllm_gptq_about {
    /* tr((W - W') (h + damping) (W - W')^T); if rounded is set, the plain squared error */
    double loss;
    double damp;                            /* share that was used */
    int doubled;                            /* how often damp was doubled until h was positive definite */
    /* nonzero: h never was positive definite; the weights were rounded to nearest without propagation */
    int rounded;
    tiny_idx dead;                          /* inputs that were always 0; their weights became 0 */
} tllm_gptq_about;

/* w (rows, n) dense; h (n, n) f32 or f64, any strides, only i <= j is read; q: arrays of the sizes of tllm_plain_size;
 * desc and about may be NULL. Refused: weights or h with a NaN or an infinity, a diagonal below 0, and sizes that
 * tllm_plain_size refuses. Fewer tokens than inputs, and dependent inputs, are allowed: the damping makes h
 * invertible. */
TINY_API tiny_status tllm_gptq(tiny_ctx *ctx, const tllm_gptq_desc *desc, const float *w, tiny_idx rows, tiny_idx n,
                               const tiny_tensor *h, const tllm_plain *q, tllm_gptq_about *about);

/* The same for rows of blocks: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K. to: rows of tllm_format_bytes(f, n)
 * bytes. The scales of a block are fitted by the packer of the format, with the diagonal of h as importance. */
TINY_API tiny_status tllm_gptq_blocks(tiny_ctx *ctx, const tllm_gptq_desc *desc, int format, const float *w,
                                      tiny_idx rows, tiny_idx n, const tiny_tensor *h, void *to,
                                      tllm_gptq_about *about);
TINY_API int tllm_gptq_has(int format);     /* 1: tllm_gptq_blocks supports the format */

/* Writes the upper triangle U with (h + damp mean(diagonal) I)^-1 = U^T U, dense f32 with zeros below; damp 0: 0.01. */
TINY_API tiny_status tllm_gptq_triangle(tiny_ctx *ctx, const tiny_tensor *h, float damp, float *u);
/* *loss: tr((w - v) h (w - v)^T), in double; with v NULL tr(w h w^T), for comparison. */
TINY_API tiny_status tllm_gptq_loss(tiny_ctx *ctx, const float *w, const float *v, tiny_idx rows, tiny_idx n,
                                    const tiny_tensor *h, double *loss);

TINYI_C_END
#endif
