/* src/gnn/equivariant/product_measure.c - what a product can express
 * Paper    Y. Xie et al., "The Price of Freedom", 2025 (arXiv 2506.13523), expressivity and interactability.
 * Method   The plan runs, in double, on all pairs of unit vectors: the numbers B[i][j][k] of its bilinear map. A block
 *          (l1, l2, l3) of B is multiplied by a_l1 b_l2 c_l3, and by w of its path where the plan has weights. All
 *          numbers of a block have the same derivative up to their own size, so a row of the derivative for each block,
 *          times the norm of B in it, has the same rank as the whole. Rank: singular values above 1e-10 of the largest.
 *          A block couples if its norm is above 1e-10. */
#include <string.h>
#include "gnn/equivariant/product_inside.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/linalg.h"

/* a block of the result: where it begins, its degree, its path (-1: all paths of that degree) */
typedef struct tinyi_pm_block { int at, l3, path; } tinyi_pm_block;

static int tinyi_pm_blocks(const tgnn_product *p, tinyi_pm_block *block)
{
    const int n = p->desc.apart ? p->n_paths : p->desc.l3 + 1;
    int i, at = 0;
    for (i = 0; i < n; i++) {
        const int l3 = p->desc.apart ? p->path[i][2] : i;
        if (block) {
            block[i].at = at;
            block[i].l3 = l3;
            block[i].path = p->desc.apart ? i : -1;
        }
        at += 2 * l3 + 1;
    }
    return n;
}

typedef struct tinyi_pm { tinyi_pm_block *block; double *x, *y, *w, *out, *square; int n_blocks; } tinyi_pm;

static void tinyi_pm_close(tiny_ctx *ctx, tinyi_pm *m)
{
    tiny_free(ctx, m->block);
    tiny_free(ctx, m->x);
    tiny_free(ctx, m->y);
    tiny_free(ctx, m->w);
    tiny_free(ctx, m->out);
    tiny_free(ctx, m->square);
}

/* square[(l1 (L2 + 1) + l2) n_blocks + block] = the sum of B^2 there */
static tiny_status tinyi_pm_open(tiny_ctx *ctx, const tgnn_product *p, tinyi_pm *m)
{
    const size_t d1 = p ? (size_t)p->dim[TGNN_PRODUCT_X] : 0, d2 = p ? (size_t)p->dim[TGNN_PRODUCT_Y] : 0,
                 d3 = p ? (size_t)p->dim[TGNN_PRODUCT_OUT] : 0, dw = p ? (size_t)p->dim[TGNN_PRODUCT_W] : 0;
    size_t i, j, k, n, pairs;
    tiny_tensor x, y, w, out;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(m, 0, sizeof *m);
    if (st) return st;
    if (!p || p->kind == TGNN_PRODUCT_PATHS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: what it expresses is measured of a plan for degrees");
    m->n_blocks = tinyi_pm_blocks(p, NULL);
    pairs = (size_t)(p->desc.l1 + 1) * (size_t)(p->desc.l2 + 1);
    m->block = (tinyi_pm_block *)tinyi_alloc(ctx, (size_t)m->n_blocks, sizeof *m->block);
    if (m->block) m->square = (double *)tinyi_alloc(ctx, pairs * (size_t)m->n_blocks, sizeof *m->square);
    if (m->square) m->x = (double *)tinyi_alloc(ctx, d1, sizeof *m->x);
    if (m->x) m->y = (double *)tinyi_alloc(ctx, d2 * d2, sizeof *m->y);
    if (m->y) m->w = (double *)tinyi_alloc(ctx, dw + 1, sizeof *m->w);
    if (m->w) m->out = (double *)tinyi_alloc(ctx, d2 * d3, sizeof *m->out);
    if (!m->out) {
        st = tiny_ctx_status(ctx);
        tinyi_pm_close(ctx, m);
        return st;
    }
    (void)tinyi_pm_blocks(p, m->block);
    memset(m->square, 0, pairs * (size_t)m->n_blocks * sizeof *m->square);
    memset(m->y, 0, d2 * d2 * sizeof *m->y);
    for (j = 0; j < d2; j++) m->y[j * d2 + j] = 1.0;
    for (i = 0; i < dw; i++) m->w[i] = 1.0;
    x = tiny_tensor_3d(m->x, TINY_F64, (tiny_idx)d2, 1, (tiny_idx)d1);
    x.stride[0] = 0;
    w = tiny_tensor_3d(m->w, TINY_F64, (tiny_idx)d2, 1, (tiny_idx)dw);
    w.stride[0] = 0;
    y = tiny_tensor_3d(m->y, TINY_F64, (tiny_idx)d2, 1, (tiny_idx)d2);
    out = tiny_tensor_3d(m->out, TINY_F64, (tiny_idx)d2, 1, (tiny_idx)d3);
    for (i = 0; !st && i < d1; i++) {
        int l1 = 0;
        while ((size_t)((l1 + 1) * (l1 + 1)) <= i) l1++;
        memset(m->x, 0, d1 * sizeof *m->x);
        m->x[i] = 1.0;
        st = tgnn_product_run(ctx, p, &x, &y, dw ? &w : NULL, &out);
        for (j = 0; !st && j < d2; j++) {
            int l2 = 0;
            while ((size_t)((l2 + 1) * (l2 + 1)) <= j) l2++;
            for (n = 0; n < (size_t)m->n_blocks; n++)
                for (k = 0; k < (size_t)(2 * m->block[n].l3 + 1); k++) {
                    const double v = m->out[j * d3 + (size_t)m->block[n].at + k];
                    m->square[(size_t)(l1 * (p->desc.l2 + 1) + l2) * (size_t)m->n_blocks + n] += v * v;
                }
        }
    }
    if (st) tinyi_pm_close(ctx, m);
    return st;
}

/* the path of l1, l2 and a block; -1: none, or the plan has no list of paths */
static int tinyi_pm_path(const tgnn_product *p, int l1, int l2, const tinyi_pm_block *block)
{
    int i;
    if (block->path >= 0) return block->path;
    for (i = 0; i < p->n_paths; i++)
        if (p->path[i][0] == l1 && p->path[i][1] == l2 && p->path[i][2] == block->l3) return i;
    return -1;
}

TINY_API tiny_status tgnn_product_interactions(tiny_ctx *ctx, const tgnn_product *p, uint8_t *couples, int *count)
{
    tinyi_pm m;
    int l1, l2, n;
    tiny_status st;
    if (count) *count = 0;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!couples || !count)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: the place of the interactions or of their number is missing");
    st = tinyi_pm_open(ctx, p, &m);
    if (st) return st;
    memset(couples, 0, (size_t)((p->desc.l1 + 1) * (p->desc.l2 + 1) * (p->desc.l3 + 1)));
    for (l1 = 0; l1 <= p->desc.l1; l1++)
        for (l2 = 0; l2 <= p->desc.l2; l2++)
            for (n = 0; n < m.n_blocks; n++) {
                uint8_t *at = couples + (l1 * (p->desc.l2 + 1) + l2) * (p->desc.l3 + 1) + m.block[n].l3;
                if (m.square[(l1 * (p->desc.l2 + 1) + l2) * m.n_blocks + n] <= 1e-20 || *at) continue;
                *at = 1;
                ++*count;
            }
    tinyi_pm_close(ctx, &m);
    return TINY_OK;
}

TINY_API tiny_status tgnn_product_expressivity(tiny_ctx *ctx, const tgnn_product *p, uint64_t seed, int *rank)
{
    tiny_rng rng = tiny_rng_make(seed, 0);
    tinyi_pm m;
    double *by = NULL, *slope = NULL, *value = NULL;
    size_t rows, columns = 0, i, n_params = 0;
    int l1, l2, n, k;
    tiny_status st;
    if (rank) *rank = 0;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!rank) return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: the place of the rank is missing");
    st = tinyi_pm_open(ctx, p, &m);
    if (st) return st;
    rows = (size_t)(p->desc.l1 + 1) * (size_t)(p->desc.l2 + 1) * (size_t)m.n_blocks;
    n_params = (size_t)(p->desc.l1 + p->desc.l2 + p->desc.l3 + 3 + p->dim[TGNN_PRODUCT_W]);
    columns = TINYI_MIN(rows, n_params);
    by = (double *)tinyi_alloc(ctx, n_params, sizeof *by);
    if (by) slope = (double *)tinyi_alloc(ctx, rows * n_params, sizeof *slope);
    if (slope) value = (double *)tinyi_alloc(ctx, columns, sizeof *value);
    if (!value) st = tiny_ctx_status(ctx);
    else {
        tiny_tensor a = tiny_tensor_2d(slope, TINY_F64, (tiny_idx)rows, (tiny_idx)n_params),
                    s = tiny_tensor_1d(value, TINY_F64, (tiny_idx)columns);
        memset(slope, 0, rows * n_params * sizeof *slope);
        for (i = 0; i < n_params; i++) by[i] = 0.5 + tiny_rng_uniform64(&rng);
        for (l1 = 0, i = 0; l1 <= p->desc.l1; l1++)
            for (l2 = 0; l2 <= p->desc.l2; l2++)
                for (n = 0; n < m.n_blocks; n++, i++) {
                    const int l3 = m.block[n].l3, path = tinyi_pm_path(p, l1, l2, &m.block[n]);
                    int at[4], n_at = 3, q;
                    at[0] = l1;
                    at[1] = p->desc.l1 + 1 + l2;
                    at[2] = p->desc.l1 + p->desc.l2 + 2 + l3;
                    if (p->dim[TGNN_PRODUCT_W] && path >= 0)
                        at[n_at++] = p->desc.l1 + p->desc.l2 + p->desc.l3 + 3 + (p->desc.shared ? 0 : path);
                    for (k = 0; k < n_at; k++) {
                        double v = tinyi_sqrt(m.square[i]);
                        for (q = 0; q < n_at; q++)
                            if (q != k) v *= by[at[q]];
                        slope[i * n_params + (size_t)at[k]] = v;
                    }
                }
        st = tiny_svd(ctx, &a, NULL, &s, NULL);
        for (i = 0; !st && i < columns; i++) *rank += value[i] > 1e-10 * value[0];
    }
    tiny_free(ctx, by);
    tiny_free(ctx, slope);
    tiny_free(ctx, value);
    tinyi_pm_close(ctx, &m);
    return st;
}
