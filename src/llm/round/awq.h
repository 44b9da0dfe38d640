/* src/llm/round/awq.h - AWQ: scales important inputs so that their weights are rounded more finely, and clips
 * ranges where that improves the outputs
 *
 *   tllm_calib_mean(calib, mean);  tokens = tllm_calib_samples(calib, &x);         llm/round/calib.h
 *   tllm_awq_matrix m[3] = { { wq, rows, 0 }, ... };                               all matrices with these inputs
 *   tllm_awq_scale(ctx, NULL, m, 3, n, mean, x, tokens, s, &about);                a factor for each input
 *   ... w *= s by columns, x /= s: llm/round/fold.h, llm/round/smooth.h ...
 *   tllm_awq_clip(ctx, NULL, 0, w, rows, n, x, tokens, step);                      then, for all but queries and keys
 *   tllm_awq_cut(ctx, NULL, 0, w, rows, n, step);
 *   ... and rounding last: tllm_plain_round, a format's pack, tllm_gptq ...
 *
 * The search minimises ||X (W - W')^T||^2, the squared error of the outputs over sampled inputs, as in the paper. It
 * uses the samples X themselves, not H = X^T X. For n inputs, H costs n multiply-adds per weight and 8 n^2 bytes; the
 * samples cost 512 multiply-adds per weight and 2048 n bytes. So the samples of a whole model fit into memory. The clip
 * search needs blocks of H of the size of a group; it computes them from the samples. */
#ifndef TINYI_AWQ_H
#define TINYI_AWQ_H
#include "llm/block/format.h"
#include "llm/round/plain.h"
TINYI_C_BEGIN

typedef struct tllm_awq_desc {              /* all zero: the value in brackets */
    /* the grid for matrices whose format is 0; grid.clip is the range search of plain rounding, not the clip search of
     * AWQ */
    tllm_plain_desc grid;
    int steps;                              /* powers tried: i / steps for i from 0 to steps - 1 [20] */
    int clips;                              /* ranges tried in addition to the whole one, down to half of it [20] */
} tllm_awq_desc;

typedef struct tllm_awq_matrix {
    const float *w;                         /* (rows, n) dense */
    tiny_idx rows;
    int format;                             /* the format that it will be packed in; 0: codes of desc.grid */
} tllm_awq_matrix;

typedef struct tllm_awq_about {
    double alpha;                           /* the power chosen */
    /* the error over all matrices with the factors, and without (alpha 0); plain -1: without factors, no finite codes
     * exist */
    double loss, plain;
} tllm_awq_about;

/* Writes a factor for each input to s (n). mean (n): mean |x| of each input; x (tokens, n) dense. s_j =
 * max(mean_j^alpha, 1e-4) / sqrt(max s min s). An input that was always 0 gets the smallest factor of the others, so
 * that no step is wasted on it. desc, about may be NULL. */
TINY_API tiny_status tllm_awq_scale(tiny_ctx *ctx, const tllm_awq_desc *desc, const tllm_awq_matrix *m, int n_m,
                                    tiny_idx n, const float *mean, const float *x, tiny_idx tokens, float *s,
                                    tllm_awq_about *about);

/* tllm_awq_clip finds step (rows, groups) for each group so that its outputs change least: tllm_awq_cut clips the
 * magnitudes of the group to 1 - step / (2 clips) of their largest. x: the inputs of w. If w was multiplied by factors,
 * first divide x by them. Groups are those of the grid, or the blocks of the format. Formats with blocks of more than
 * 64 numbers search their own scales and are refused. */
TINY_API tiny_status tllm_awq_clip(tiny_ctx *ctx, const tllm_awq_desc *desc, int format, const float *w, tiny_idx rows,
                                   tiny_idx n, const float *x, tiny_idx tokens, uint8_t *step);
TINY_API tiny_status tllm_awq_cut(tiny_ctx *ctx, const tllm_awq_desc *desc, int format, float *w, tiny_idx rows,
                                  tiny_idx n, const uint8_t *step);
/* Groups of a row of n weights; 0: no clip search for this format. */
TINY_API tiny_idx tllm_awq_groups(const tllm_awq_desc *desc, int format, tiny_idx n);

/* *loss: ||X (w - v)^T||^2; with v NULL ||X w^T||^2, for comparison */
TINY_API tiny_status tllm_awq_loss(tiny_ctx *ctx, const float *w, const float *v, tiny_idx rows, tiny_idx n,
                                   const float *x, tiny_idx tokens, double *loss);

TINYI_C_END
#endif
