/* bench/math/edges.c - sums over the edges of a graph whose rows lie all over the memory, and attention in one pass or three
 *
 * A power-law graph (R-MAT .57 .19 .19 .05, numbers shuffled by a multiplication): 1 M nodes and 16 M edges, --quick 128 k and 2 M.
 * Bytes: a row of x an edge, the edge itself, and y; rows that stay in the caches make a rate above that of memory.            */
#include "../bench.h"
#include <stdlib.h>
#include <string.h>

typedef struct be_arg { tiny_ctx *ctx; tiny_tensor offset, col, w, x, y, s, q; int kind; } be_arg;

static uint64_t be_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* rows of a random graph, by counting */
static void be_graph(int scale, int64_t m, int64_t **offset, int32_t **col)
{
    const int32_t n = (int32_t)1 << scale;
    int32_t *row = (int32_t *)b_alloc((size_t)m * 4), *from = (int32_t *)b_alloc((size_t)m * 4);
    uint64_t seed = 88172645463325252u;
    int64_t i;
    int k;
    *offset = (int64_t *)b_alloc(((size_t)n + 2) * 8);
    *col = (int32_t *)b_alloc((size_t)m * 4);
    memset(*offset, 0, ((size_t)n + 2) * 8);
    for (i = 0; i < m; i++) {
        uint32_t s = 0, t = 0;
        for (k = 0; k < scale; k++) {
            uint32_t u = (uint32_t)(be_random(&seed) >> 40) % 100;
            s = s * 2 + (u >= 76);
            t = t * 2 + ((u >= 57 && u < 76) || u >= 95);
        }
        from[i] = (int32_t)(s * 2654435761u & (uint32_t)(n - 1));
        row[i] = (int32_t)(t * 2654435761u & (uint32_t)(n - 1));
        (*offset)[row[i] + 2]++;
    }
    for (i = 2; i <= n; i++) (*offset)[i + 1] += (*offset)[i];
    for (i = 0; i < m; i++) (*col)[(*offset)[row[i] + 1]++] = from[i];
    free(row);
    free(from);
}

static void be_run(void *arg)
{
    be_arg *a = (be_arg *)arg;
    tiny_sddmm_params p;
    memset(&p, 0, sizeof p);
    p.scale = 0.125f;
    if (a->kind == 0) b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, &a->w, NULL, NULL, &a->y));
    else if (a->kind == 1) b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, NULL, NULL, NULL, &a->y));
    else if (a->kind == 2) b_must(a->ctx, tiny_edge_attention(a->ctx, &a->offset, &a->col, &a->q, &a->x, &a->x, NULL, &p, &a->y));
    else {
        b_must(a->ctx, tiny_sddmm(a->ctx, &a->offset, &a->col, &a->q, &a->x, NULL, NULL, &p, &a->s));
        b_must(a->ctx, tiny_segment_softmax(a->ctx, &a->offset, &a->s, &a->s));
        b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, &a->s, NULL, NULL, &a->y));
    }
}

void bench_edges(void)
{
    static const char *const names[4] = { "spmm, weights", "spmm", "edge attention", "sddmm, softmax, spmm" };
    static const int widths[3] = { 16, 64, 256 };
    const int scale = b_quick ? 17 : 20;
    const int64_t m = b_quick ? 2 << 20 : 16 << 20;
    const tiny_idx n = (tiny_idx)1 << scale;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    int64_t *offset;
    int32_t *col;
    float *x = (float *)b_alloc((size_t)n * 256 * 4), *y = (float *)b_alloc((size_t)n * 256 * 4), *w = (float *)b_alloc((size_t)m * 4), *s = (float *)b_alloc((size_t)m * 4);
    float *q = (float *)b_alloc((size_t)n * 64 * 4);
    b_row rows[8];
    be_arg args[8];
    int i;
    be_graph(scale, m, &offset, &col);
    memset(rows, 0, sizeof rows);
    for (i = 0; i < 8; i++) {
        const int f = i < 6 ? widths[i / 2] : 64;
        args[i].ctx = ctx;
        args[i].kind = i < 6 ? i % 2 : i - 4;
        args[i].offset = tiny_tensor_1d(offset, TINY_I64, n + 1);
        args[i].col = tiny_tensor_1d(col, TINY_I32, (tiny_idx)m);
        args[i].w = tiny_tensor_1d(w, TINY_F32, (tiny_idx)m);
        args[i].s = tiny_tensor_2d(s, TINY_F32, (tiny_idx)m, 1);
        args[i].x = tiny_tensor_2d(x, TINY_F32, n, f);
        args[i].q = tiny_tensor_2d(q, TINY_F32, n, 64);
        args[i].y = tiny_tensor_2d(y, TINY_F32, n, f);
        rows[i].arg = &args[i];
        rows[i].run = be_run;
        rows[i].what = names[args[i].kind];
        rows[i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_SPMM));
        rows[i].threads = b_threads;
        rows[i].bytes = (double)m * (4.0 * f * (i < 6 ? 1 : 2) + (args[i].kind == 0 ? 8.0 : 4.0)) + (double)n * (8.0 + 4.0 * f);
        rows[i].limit = B_READ;
        b_shape(&rows[i], "%td nodes, %lld M edges, %d", n, (long long)(m >> 20), f);
    }
    b_contest("Sums over the edges of a power-law graph", rows, 6);
    b_contest("Attention over edges", rows + 6, 2);
    b_verdict("attention in one pass against three", rows[7].median_ns / rows[6].median_ns, ">=", 1.3);
    free(offset);
    free(col);
    free(x);
    free(y);
    free(w);
    free(s);
    free(q);
    tiny_ctx_close(ctx);
}
