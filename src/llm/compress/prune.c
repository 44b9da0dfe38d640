/* src/llm/compress/prune.c - one-shot pruning row by row
 * Paper    M. Sun et al., "A Simple and Effective Pruning Approach for Large Language Models", 2024 (arXiv 2306.11695):
 *          |w| times the norm of the column's inputs, compared within a row; without norms it is the magnitude.
 * Formula  the share of a row with the smallest |w[r][c]| norm[c] becomes 0, of equal ones those further left
 * Cost     a sort of each row by its scores. */
#include "llm/compress/prune.h"
#include "core/state_inside.h"
#include "math/sort.h"

TINY_API tiny_status tllm_csl_prune(tiny_ctx *ctx, const tiny_tensor *w, const float *norm, double share)
{
    float *score;
    uint32_t *order;
    tiny_idx r, c, gone;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w || tiny_tensor_check(w) || w->rank != 2 || w->dtype != TINY_F32 || w->dim[1] > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_prune: a matrix of f32 is needed");
    if (!(share >= 0.0 && share <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "csl_prune: a share of %g is not in 0..1", share);
    for (c = 0; norm && c < w->dim[1]; c++)
        if (!(norm[c] >= 0.0f && norm[c] - norm[c] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "csl_prune: the norm of column %td is %g; it must be finite and not below 0", c,
                              (double)norm[c]);
    score = (float *)tinyi_alloc(ctx, (size_t)w->dim[1], sizeof *score);
    order = score ? (uint32_t *)tinyi_alloc(ctx, (size_t)w->dim[1], sizeof *order) : NULL;
    if (!order) st = tiny_ctx_status(ctx);
    gone = (tiny_idx)(share * (double)w->dim[1] + 0.5);
    for (r = 0; !st && r < w->dim[0]; r++) {
        float *x = (float *)w->data + r * w->stride[0];
        for (c = 0; c < w->dim[1]; c++) {
            const float v = x[c * w->stride[1]];
            /* NaN comes last: it is kept, so that it stays visible */
            score[c] = (v < 0.0f ? -v : v) * (norm ? norm[c] : 1.0f);
        }
        st = tiny_argsort_f32(ctx, score, order, (size_t)w->dim[1], 0);
        for (c = 0; !st && c < gone; c++) x[(tiny_idx)order[c] * w->stride[1]] = 0.0f;
    }
    tiny_free(ctx, order);
    tiny_free(ctx, score);
    return st;
}

