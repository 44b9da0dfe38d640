/* bench/math/edges.c - sums over the edges of a graph whose rows are scattered over the memory, and attention in one
 * pass or three
 *
 * A power-law graph (R-MAT .57 .19 .19 .05, numbers shuffled by a multiplication): 1 M nodes and 16 M edges, --quick
 * 128 k and 2 M.
 * The backward pass of both: gradients of all inputs through a tape, the transposed rows made new each time, next to
 * the forward pass. Bytes: a row of x an edge, the edge itself, and y; rows that stay in the caches make a rate above
 * that of memory. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

typedef struct be_arg {
    tiny_ctx *ctx;
    tiny_tensor offset, col, w, x, y, s, q;
    int kind;
    tiny_tape *tape;
    tiny_param param[3];
    tiny_tensor out;
} be_arg;

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
    b_free(row);
    b_free(from);
}

static void be_forward(be_arg *a)
{
    tiny_sddmm_params p;
    memset(&p, 0, sizeof p);
    p.scale = 0.125f;
    if (a->kind == 0) b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, &a->w, NULL, NULL, &a->y));
    else if (a->kind == 1) b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, NULL, NULL, NULL, &a->y));
    else if (a->kind == 2)
        b_must(a->ctx, tiny_edge_attention(a->ctx, &a->offset, &a->col, &a->q, &a->x, &a->x, NULL, &p, &a->y));
    else {
        b_must(a->ctx, tiny_sddmm(a->ctx, &a->offset, &a->col, &a->q, &a->x, NULL, NULL, &p, &a->s));
        b_must(a->ctx, tiny_segment_softmax(a->ctx, &a->offset, &a->s, &a->s));
        b_must(a->ctx, tiny_spmm(a->ctx, &a->offset, &a->x, &a->col, &a->s, NULL, NULL, &a->y));
    }
}

static tiny_tape *be_tape(be_arg *a, size_t bytes)
{
    tiny_tape_desc d = { 0 };
    tiny_sddmm_params p;
    tiny_tape *tape;
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.scale = 0.125f;
    d.dry = bytes == 0;
    d.bytes = bytes;
    b_must(a->ctx, tiny_tape_open(a->ctx, &d, &tape));
    for (i = 0; i < 3; i++)
        if (a->param[i].name) b_must(a->ctx, tiny_tape_param(tape, &a->param[i]));
    op.kind = a->kind == 4 ? TINY_OP_SPMM : TINY_OP_EDGE_ATTENTION;
    op.in[0] = &a->offset;
    op.in[1] = a->kind == 4 ? &a->x : &a->col;
    op.in[2] = a->kind == 4 ? &a->col : &a->q;
    op.in[3] = a->kind == 4 ? &a->w : &a->x;
    if (a->kind == 5) op.in[4] = &a->x;
    if (a->kind == 5) op.params = &p;
    b_must(a->ctx, tiny_tape_op(tape, &op, &a->out));
    return tape;
}

/* runs forward once, before the backward pass is measured; dy is y */
static void be_record(be_arg *a)
{
    static const char *const names[3] = { "x", "w", "q" };
    const tiny_tensor *value[3];
    tiny_tape *dry;
    size_t bytes;
    int i;
    value[0] = &a->x;
    value[1] = a->kind == 4 ? &a->w : NULL;
    value[2] = a->kind == 5 ? &a->q : NULL;
    for (i = 0; i < 3; i++) {
        if (!value[i]) continue;
        a->param[i].name = names[i];
        a->param[i].value = a->param[i].grad = *value[i];
        a->param[i].grad.data = b_alloc((size_t)tiny_tensor_count(value[i]) * 4);
    }
    dry = be_tape(a, 0);
    b_must(a->ctx, tiny_tape_backward(dry, &a->out, &a->out));
    bytes = tiny_tape_high(dry);
    tiny_tape_close(dry);
    a->tape = be_tape(a, bytes);
}

static void be_forget(be_arg *a)
{
    int i;
    tiny_tape_close(a->tape);
    for (i = 0; i < 3; i++)
        if (a->param[i].name) b_free(a->param[i].grad.data);
}

static void be_run(void *arg)
{
    be_arg *a = (be_arg *)arg;
    if (a->tape) {
        tiny_tape_zero(a->tape);
        b_must(a->ctx, tiny_tape_backward(a->tape, &a->out, &a->y));
        return;
    }
    be_forward(a);
}

void bench_edges(void)
{
    static const char *const names[6] = { "spmm, weights",           "spmm",
                                          "edge attention",          "sddmm, softmax, spmm",
                                          "spmm, weights: backward", "edge attention: backward" };
    static const int there_and_back[4] = { 0, 4, 2, 5 };
    static const int widths[3] = { 16, 64, 256 };
    const int scale = b_quick ? 17 : 20;
    const int64_t m = b_quick ? 2 << 20 : 16 << 20;
    const tiny_idx n = (tiny_idx)1 << scale;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    int64_t *offset;
    int32_t *col;
    float *x = (float *)b_alloc((size_t)n * 256 * 4), *y = (float *)b_alloc((size_t)n * 256 * 4),
          *w = (float *)b_alloc((size_t)m * 4), *s = (float *)b_alloc((size_t)m * 4);
    float *q = (float *)b_alloc((size_t)n * 64 * 4);
    b_row rows[12];
    be_arg args[12];
    int i;
    be_graph(scale, m, &offset, &col);
    memset(rows, 0, sizeof rows);
    memset(args, 0, sizeof args);
    for (i = 0; i < 12; i++) {
        const int f = i < 6 ? widths[i / 2] : 64;
        args[i].ctx = ctx;
        args[i].kind = i < 6 ? i % 2 : i < 8 ? i - 4 : there_and_back[i - 8];
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
        /* back: two rows an edge for the weights, one for x; attention: b and v twice, a, dy; and the numbers of the
         * edges */
        rows[i].bytes = (double)m * (4.0 * f *
                                         (i < 6 || args[i].kind == 0 ? 1
                                          : args[i].kind == 4        ? 2
                                          : args[i].kind == 5        ? 5
                                                                     : 2) +
                                     (args[i].kind == 0 ? 8.0 : 4.0)) +
                        (double)n * (8.0 + 4.0 * f);
        rows[i].limit = B_READ;
        b_shape(&rows[i], "%td nodes, %lld M edges, %d", n, (long long)(m >> 20), f);
    }
    b_contest("Sums over the edges of a power-law graph", rows, 6);
    b_contest("Attention over edges", rows + 6, 2);
    for (i = 9; i < 12; i += 2) {           /* one tape at a time */
        be_record(&args[i]);
        b_contest(i == 9 ? "The gradient of a weighted sum, compared with the sum"
                         : "The gradient of attention, compared with attention",
                  rows + i - 1, 2);
        be_forget(&args[i]);
    }
    {
        char on[120];
        (void)snprintf(on, sizeof on, "R-MAT, %d k nodes, %lld M edges, sums with weights, gathered rows",
                       (int)(n >> 10), (long long)(m >> 20));
        b_headline("graphs", "sums along edges near the rate of memory", on,
                   "F = 16, 64, 256: %.1f, %.1f, %.1f GB/s, %.2f, %.2f, %.2f of reading",
                   rows[0].bytes / rows[0].median_ns, rows[2].bytes / rows[2].median_ns,
                   rows[4].bytes / rows[4].median_ns, rows[0].bytes / rows[0].median_ns * 1e9 / b_max[1].read,
                   rows[2].bytes / rows[2].median_ns * 1e9 / b_max[1].read,
                   rows[4].bytes / rows[4].median_ns * 1e9 / b_max[1].read);
        b_headline("graphs", "attention over edges in one pass, compared with three",
                   "the graph of the sums along edges, one head of 64; goal: 1.3 to 2", "%.2f",
                   rows[7].median_ns / rows[6].median_ns);
    }
    b_verdict("attention in one pass against three", rows[7].median_ns / rows[6].median_ns, ">=", 1.3);
    b_free(offset);
    b_free(col);
    b_free(x);
    b_free(y);
    b_free(w);
    b_free(s);
    b_free(q);
    tiny_ctx_close(ctx);
}
