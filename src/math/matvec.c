/* src/math/matvec.c - a few vectors times a large matrix
 * Formula  y[c][r] = act(sum_k x[c][k] w[r][k] + bias), 1 to 8 vectors x.
 * Work     threads take pieces of w of about 256 KB and read each once, in place; the vectors stay in the caches.
 *          DOT: w is dense along k. Four rows at a time are summed lane by lane, four vectors at most; more vectors
 *          read the same piece again from the second-level cache.
 *          AXPY: w is dense along r. A piece is a range of r, and its sums lie in the first-level cache.
 * Cost     the bytes of w: the time is that of reading them.
 * Error    DOT: each lane has its own sum, and the lanes are added at the end; AXPY: one sum in order of k. Both are
 *          sums of k products. */
#include <string.h>
#include "math/matvec_inside.h"

TINYI_FN void tinyi_gemm_run_vectors(tiny_team *team, const tinyi_gemm_plan *p)
{
    const tinyi_gemm *g = &p->g;
    const tinyi_kernels *k = team->k;
    const tiny_idx n_batch = g->batch[0] * g->batch[1], es = (tiny_idx)tiny_dtype_bytes((tiny_dtype)g->b.dtype);
    /* AXPY: of k in one go, so that further vectors find w in the cache */
    const tiny_idx deep = TINYI_GEMV_BYTES / TINYI_GEMM_NC_MAX / es / 4 * 4;
    /* DOT: so that they find a piece in the second-level cache */
    const tiny_idx bytes = g->m > 4 ? TINYI_MIN(TINYI_GEMV_BYTES, (tiny_idx)(k->cache[2] / 2)) : TINYI_GEMV_BYTES;
    tiny_idx grain, q, q0, q1, pieces, c, d, n;
    float *t = (float *)team->own;
    const float *gathered = NULL;
    if (p->gather) {
        gathered = (const float *)team->shared;
        while (tiny_take(team, g->m, 1, &q0, &q1))
            for (; q0 < q1; q0++) tinyi_gemm_row_f32(k, (float *)team->shared + q0 * g->k, &g->a, q0, 0, g->k);
        tiny_barrier(team);
    }
    grain = p->form == TINYI_GEMM_DOT ? bytes / (g->k * es + 1) : g->n / (4 * team->n);
    grain = tinyi_gemm_up(TINYI_MAX(TINYI_MIN(grain, TINYI_GEMM_NC_MAX), p->form == TINYI_GEMM_DOT ? 4 : 128), 4);
    pieces = (g->n - 1) / grain + 1;
    while (tiny_take(team, n_batch * pieces, 1, &q0, &q1))
        for (q = q0; q < q1; q++) {
            const tinyi_gemm one = tinyi_gemm_batch(g, q / pieces, 4);
            const tiny_idx r = q % pieces * grain, x_row = gathered ? g->k : one.a.row;
            const float *x = gathered ? gathered : (const float *)(const void *)one.a.data;
            n = TINYI_MIN(g->n - r, grain);
            if (p->form == TINYI_GEMM_DOT)
                TINYI_OF(k, gemv_dot)
                (t, 1, grain, tinyi_gemm_at(&one.b, r, 0), one.b.dtype, one.b.row, (size_t)n, x, x_row, (int)g->m,
                 (size_t)g->k);
            else {
                memset(t, 0, (size_t)(g->m * grain) * sizeof *t);
                for (d = 0; d < g->k; d += deep)
                    for (c = 0; c < g->m; c++)
                        TINYI_OF(k, gemv_axpy)
                        (t + c * grain, tinyi_gemm_at(&one.b, r, d), one.b.dtype, one.b.k, x + c * x_row + d, 1,
                         (size_t)TINYI_MIN(g->k - d, deep), (size_t)n);
            }
            for (c = 0; c < g->m; c++) tinyi_gemm_finish(k, &one, t + c * grain, c, r, n);
            tinyi_gemm_put(k, &one, t, grain, 0, r, g->m, n);
        }
}
