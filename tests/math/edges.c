/* tests/math/edges.c - operations along edges against recorded layers of a public library's formulas, numbers by hand,
 * and each other */
#include "t.h"

/* ---- oracle/gnn: 17 nodes, 60 edges, 7 features; computed in double from the files. medium: 120,
 * 900, 33 */

typedef struct net { int n, f; int64_t m; int64_t *offset; int32_t *col, *edge; float *x, *w; } net;

static void *load(const char *folder, const char *file, size_t bytes)
{
    char name[200];
    (void)snprintf(name, sizeof name, "oracle/gnn/%s%s", folder, file);
    return t_shared_bytes(name, bytes);
}

static int load_net(net *g, const char *folder, int n, int64_t m, int f)
{
    int32_t *index = (int32_t *)load(folder, "graph/edge_index.i32", (size_t)m * 8);
    int64_t p, at = 0;
    int i;
    if (!index) return 0;
    g->n = n;
    g->m = m;
    g->f = f;
    g->offset = (int64_t *)t_keep(((size_t)n + 1) * 8);
    g->col = (int32_t *)t_keep((size_t)m * 4);
    g->edge = (int32_t *)t_keep((size_t)m * 4);
    for (i = 0; i < n; i++) {
        for (p = 0; p < m; p++)
            if (index[m + p] == i) {
                g->col[at] = index[p];
                g->edge[at++] = (int32_t)p;
            }
        g->offset[i + 1] = at;
    }
    g->x = (float *)load(folder, "graph/x.f32", (size_t)n * (size_t)f * 4);
    g->w = (float *)load(folder, "graph/edge_weight.f32", (size_t)m * 4);
    return g->x && g->w;
}

static void test_oracle(tiny_target target)
{
    static const char *const names[] = { "sum", "mean", "max", "min" };
    static const char *const folders[] = { "", "medium/" };
    tiny_ctx *ctx = t_ctx(target, 2);
    int which, i, k, files = 0;
    for (which = 0; which < 2; which++) {
        net g;
        tiny_tensor offset, col, x, y, w, s;
        float *out, *weight, *score;
        double *want;
        char name[100];
        if (which && !t_one_of("oracle/gnn/medium/graph/edge_index.i32")) break;
        if (!load_net(&g, folders[which], which ? 120 : 17, which ? 900 : 60, which ? 33 : 7)) break;
        out = t_guarded((size_t)g.n * (size_t)g.f);
        weight = t_guarded((size_t)g.m);
        score = t_guarded((size_t)g.m);
        for (i = 0; i < g.m; i++) weight[i] = g.w[g.edge[i]];
        offset = tiny_tensor_1d(g.offset, TINY_I64, g.n + 1);
        col = tiny_tensor_1d(g.col, TINY_I32, (tiny_idx)g.m);
        x = tiny_tensor_2d(g.x, TINY_F32, g.n, g.f);
        y = tiny_tensor_2d(out, TINY_F32, g.n, g.f);
        w = tiny_tensor_1d(weight, TINY_F32, (tiny_idx)g.m);
        s = tiny_tensor_2d(score, TINY_F32, (tiny_idx)g.m, 1);
        for (k = 0; k < 5; k++) {
            tiny_spmm_params p;
            memset(&p, 0, sizeof p);
            p.reduce = k < 4 ? k : 0;
            (void)snprintf(name, sizeof name, "aggr/%s.f64", k < 4 ? names[k] : "weighted_sum");
            want = (double *)load(folders[which], name, (size_t)g.n * (size_t)g.f * 8);
            if (!want) break;
            T_OK(tiny_spmm(ctx, &offset, &x, &col, k < 4 ? NULL : &w, NULL, &p, &y));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < g.n * g.f; i++) T_CLOSE(out[i], want[i], 2e-5);
            T_WALLS(out, g.n * g.f);
            files++;
        }
        {                                   /* variance and deviation are made of means: mean x^2 - (mean x)^2 */
            float *square = t_keep((size_t)g.n * (size_t)g.f * 4), *of_squares = t_guarded((size_t)g.n * (size_t)g.f);
            double *var = (double *)load(folders[which], "aggr/var.f64", (size_t)g.n * (size_t)g.f * 8),
                   *std = (double *)load(folders[which], "aggr/std.f64", (size_t)g.n * (size_t)g.f * 8);
            tiny_tensor x2 = tiny_tensor_2d(square, TINY_F32, g.n, g.f),
                        y2 = tiny_tensor_2d(of_squares, TINY_F32, g.n, g.f);
            tiny_spmm_params p;
            memset(&p, 0, sizeof p);
            p.reduce = TINY_EDGE_MEAN;
            T_OK(tiny_mul(ctx, &x, &x, &x2));
            T_OK(tiny_spmm(ctx, &offset, &x, &col, NULL, NULL, &p, &y));
            T_OK(tiny_spmm(ctx, &offset, &x2, &col, NULL, NULL, &p, &y2));
            for (i = 0; var && std && i < g.n * g.f; i++) {
                const double v = (double)of_squares[i] - (double)out[i] * (double)out[i];
                T_CLOSE(v, var[i], 2e-5);
                /* |a - b| of roots is |a^2 - b^2| / (a + b) */
                T_CLOSE(sqrt(fmax(v, 0.0) + 1e-5), std[i], 2e-5 / std[i]);
            }
            files += 2 * (var && std);
        }
        want = (double *)load(folders[which], "aggr/softmax_edge_weight.f64", (size_t)g.m * 8);
        if (want) {
            tiny_tensor t = tiny_tensor_1d(score, TINY_F32, (tiny_idx)g.m);
            T_OK(tiny_segment_softmax(ctx, &offset, &w, &t));
            for (i = 0; i < g.m; i++) T_CLOSE(score[i], want[g.edge[i]], 1e-6);
            files++;
        }
        want = (double *)load(folders[which], "aggr/sddmm_dot.f64", (size_t)g.m * 8);
        if (want) {
            T_OK(tiny_sddmm(ctx, &offset, &col, &x, &x, NULL, NULL, NULL, &s));
            for (i = 0; i < g.m; i++) T_CLOSE(score[i], want[g.edge[i]], 1e-5);
            files++;
        }
    }
    T_TRUE(files == 9 || files == 18);
    if (target == TINY_TARGET_SCALAR) printf("oracle/gnn/aggr: %d of 18\n", files);
    t_close(ctx);
}

/* two rows by hand: row 0 from 1 and 1, row 1 of nothing, row 2 from 0; heads of one feature with weights 2 3 | 5 7 | 1
 * -1 */
static void test_by_hand(tiny_target target)
{
    static int64_t off[4] = { 0, 2, 2, 3 };
    static int32_t from[3] = { 1, 1, 0 };
    static float xs[4] = { 1, -2, 4, 0.5f }, ws[6] = { 2, 3, 5, 7, 1, -1 }, es[6] = { 0, 1, -8, 0, 0, 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, 4), col = tiny_tensor_1d(from, TINY_I32, 3),
                x = tiny_tensor_2d(xs, TINY_F32, 2, 2);
    tiny_tensor w = tiny_tensor_2d(ws, TINY_F32, 3, 2), e = tiny_tensor_2d(es, TINY_F32, 3, 2), y;
    tiny_spmm_params p;
    float *out = t_guarded(6);
    int i;
    static const float sum[6] = { 28, 5, 0, 0, 1, 2 }, relu[6] = { 8, 8, 0, 0, 1, -1 },
                       least[6] = { 8, 1.5f, 0, 0, 1, 2 };
    y = tiny_tensor_2d(out, TINY_F32, 3, 2);
    memset(&p, 0, sizeof p);
    T_OK(tiny_spmm(ctx, &offset, &x, &col, &w, NULL, &p, &y));  /* 4*2 + 4*5, .5*3 + .5*7; 1*1, -2*-1 */
    for (i = 0; i < 6; i++) T_CLOSE(out[i], sum[i], 0);
    /* relu(4+0)*2 + relu(4-8)*5, relu(1.5)*3 + relu(.5)*7; relu(1), -relu(-2+3) */
    p.relu = 1;
    T_OK(tiny_spmm(ctx, &offset, &x, &col, &w, &e, &p, &y));
    for (i = 0; i < 6; i++) T_CLOSE(out[i], relu[i], 0);
    p.relu = 0;
    p.reduce = TINY_EDGE_MIN;
    T_OK(tiny_spmm(ctx, &offset, &x, &col, &w, NULL, &p, &y));
    for (i = 0; i < 6; i++) T_CLOSE(out[i], least[i], 0);
    xs[0] = NAN;                            /* NaN in one feature of one row */
    p.reduce = TINY_EDGE_MAX;
    T_OK(tiny_spmm(ctx, &offset, &x, &col, NULL, NULL, &p, &y));
    T_TRUE(out[4] != out[4] && out[5] == -2 && out[0] == 4);
    xs[0] = 1;
    {                                       /* a NaN spoils its row of a softmax, and no other */
        float s[3] = { NAN, 1, 7 }, q[3];
        tiny_tensor a = tiny_tensor_1d(s, TINY_F32, 3), b = tiny_tensor_1d(q, TINY_F32, 3);
        T_OK(tiny_segment_softmax(ctx, &offset, &a, &b));
        T_TRUE(q[0] != q[0] && q[1] != q[1] && q[2] == 1);
    }
    t_close(ctx);
}

/* a graph with a hub of half of all edges: the same bits for 1, 2 and 4 threads, near the reference; and <A x, z> = <x,
 * A' z> */
static void test_hub(tiny_target target)
{
    enum { N = 700, M = 60000, F = 37 };
    int64_t *off = (int64_t *)t_keep((N + 1) * 8);
    int32_t *from = (int32_t *)t_keep(M * 4);
    float *x = t_rand(N * F, -1, 1), *w = t_rand(M, -1, 1), *y[3], *ref = t_guarded(N * F), *z = t_rand(N * F, -1, 1),
          *t = t_guarded(N * F);
    tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, N + 1), col = tiny_tensor_1d(from, TINY_I32, M),
                tx = tiny_tensor_2d(x, TINY_F32, N, F);
    tiny_tensor tw = tiny_tensor_1d(w, TINY_F32, M), ty = tx;
    tiny_spmm_params p;
    int i, k, reduce;
    for (i = 1; i <= N; i++) off[i] = i <= 300 ? 20 * i : 6000 + 30000 + (int64_t)(i - 301) * 60;
    off[N] = M;
    for (i = 0; i < M; i++) from[i] = (int32_t)t_rand_below(N);
    memset(&p, 0, sizeof p);
    for (k = 0; k < 3; k++) y[k] = t_guarded(N * F);
    for (reduce = 0; reduce < 4; reduce++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
        p.reduce = reduce;
        ty.data = ref;
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, &p, &ty));
        t_close(ctx);
        for (k = 0; k < 3; k++) {
            ctx = t_ctx(target, 1 << k);
            ty.data = y[k];
            T_OK(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, &p, &ty));
            T_RAN_ON(ctx, t_vectors(target));
            t_close(ctx);
            T_SAME(y[0], y[k], N * F);
        }
        for (i = 0; i < N * F; i++) {
            int row = i / F;
            double n = (double)(off[row + 1] - off[row]);
            T_CLOSE(y[0][i], ref[i], (n + 5) * FLT_EPSILON * (reduce ? 1.0 : n));
        }
    }
    {
        tiny_ctx *ctx = t_ctx(target, 2);
        tiny_sparse a, b;
        tiny_sparse_desc d;
        double left = 0, right = 0;
        memset(&a, 0, sizeof a);
        memset(&d, 0, sizeof d);
        a.form = TINY_CSR;
        a.n_rows = a.n_cols = N;
        a.n = M;
        a.offset = off;
        a.col = from;
        a.value = w;
        d.form = TINY_CSC;
        if (T_OK(tiny_sparse_convert(ctx, &a, &d, &b))) {
            tiny_sparse turned = b;
            turned.form = TINY_CSR;
            turned.col = b.row;
            ty.data = y[0];
            T_OK(tiny_spmm_csr(ctx, &a, &tx, TINY_EDGE_SUM, &ty));
            tx.data = z;
            ty.data = t;
            T_OK(tiny_spmm_csr(ctx, &turned, &tx, TINY_EDGE_SUM, &ty));
            for (i = 0; i < N * F; i++) {
                left += (double)y[0][i] * (double)z[i];
                right += (double)x[i] * (double)t[i];
            }
            T_CLOSE(left, right, 1e-3 * fabs(left) + 1e-2);
            tiny_sparse_free(ctx, &b);
        }
        t_close(ctx);
    }
    T_PROOF("graphs 0", "hubs do not stall, and are reproducible for any number of threads");
}

/* scores, softmax and sum one after the other give what attention gives at once; rows of a softmax add up to 1 */
static void test_fused(tiny_target target)
{
    enum { N = 90, M = 3000, H = 3, C = 11, D = 5 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int64_t *off = (int64_t *)t_keep((N + 1) * 8);
    int32_t *from = (int32_t *)t_keep(M * 4);
    float *a = t_rand(N * H * C, -1, 1), *b = t_rand(N * H * C, -1, 1), *v = t_rand(N * H * D, -1, 1),
          *att = t_rand(H * C, -1, 1);
    float *s = t_guarded(M * H), *one = t_guarded(N * H * D), *two = t_guarded(N * H * D), *ones = t_keep(M * H * 4),
          *sums = t_guarded(N * H);
    tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, N + 1), col = tiny_tensor_1d(from, TINY_I32, M), ta, tb, tv, ts,
                tatt, ty;
    tiny_sddmm_params p;
    tiny_spmm_params sum;
    int i, mode;
    for (i = 1; i < N; i++) off[i] = i < 40 ? 4 * i : i < 42 ? 160 : 2000 + i;
    off[N] = M;
    for (i = 0; i < M; i++) from[i] = (int32_t)t_rand_below(N);
    memset(&sum, 0, sizeof sum);
    for (mode = 0; mode < 3; mode++) {
        int c = mode == 2 ? 1 : C;
        memset(&p, 0, sizeof p);
        p.add = mode > 0;
        p.heads = H;
        p.slope = 0.2f;
        p.scale = 0.5f;
        ta = tiny_tensor_2d(a, TINY_F32, N, H * c);
        tb = tiny_tensor_2d(b, TINY_F32, N, H * c);
        tv = tiny_tensor_2d(v, TINY_F32, N, H * D);
        ts = tiny_tensor_2d(s, TINY_F32, M, H);
        tatt = tiny_tensor_1d(att, TINY_F32, H * c);
        ty = tiny_tensor_2d(one, TINY_F32, N, H * D);
        T_OK(tiny_sddmm(ctx, &offset, &col, &ta, &tb, mode == 1 ? &tatt : NULL, NULL, &p, &ts));
        T_OK(tiny_segment_softmax(ctx, &offset, &ts, &ts));    /* in place */
        T_OK(tiny_spmm(ctx, &offset, &tv, &col, &ts, NULL, &sum, &ty));
        ty.data = two;
        T_OK(tiny_edge_attention(ctx, &offset, &col, &ta, &tb, &tv, mode == 1 ? &tatt : NULL, &p, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < N * H * D; i++) T_CLOSE(one[i], two[i], 3e-5);
        ty = tiny_tensor_2d(sums, TINY_F32, N, H);
        T_OK(tiny_spmm(ctx, &offset, &ts, NULL, NULL, NULL, &sum, &ty));    /* a reduction over segments */
        for (i = 0; i < N * H; i++) T_CLOSE(sums[i], off[i / H + 1] > off[i / H] ? 1.0 : 0.0, 1e-5);
    }
    (void)ones;
    t_close(ctx);
    T_PROOF("graphs 0", "fused equals unfused attention");
    T_PROOF("graphs 0", "softmax rows sum to 1");
}

/* The loops that the formulas are, in double, on rows of 0 to 60 edges: every kernel is within 4 deg eps of the sum of
 * the sizes of what it adds. Scores of c numbers below 1 are off by c^2 eps, which weights feel twice. */
static void test_triple_loop(tiny_target target)
{
    enum { N = 61, S = 50, MOST = 60 * N };
    static const int widths[] = { 1, 5, 8, 16, 33, 64, 100 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int64_t *off = (int64_t *)t_keep((N + 1) * 8), e;
    int32_t *from = (int32_t *)t_keep(MOST * 4);
    size_t c;
    int i, j, k, m;
    for (i = 0; i < N; i++) off[i + 1] = off[i] + (i % 7 == 3 ? 0 : i);
    m = (int)off[N];
    for (i = 0; i < m; i++) from[i] = (int32_t)t_rand_below(S);
    for (c = 0; c < T_COUNT(widths); c++) {
        const int f = widths[c];
        float *x = t_rand((size_t)(S * f), -1, 1), *q = t_rand((size_t)(N * f), -1, 1), *w = t_rand((size_t)m, -1, 1),
              *y = t_guarded((size_t)(N * f)), *s = t_guarded((size_t)m), *a = t_guarded((size_t)m);
        tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, N + 1), col = tiny_tensor_1d(from, TINY_I32, m),
                    tx = tiny_tensor_2d(x, TINY_F32, S, f), tq = tiny_tensor_2d(q, TINY_F32, N, f);
        tiny_tensor tw = tiny_tensor_1d(w, TINY_F32, m), ty = tiny_tensor_2d(y, TINY_F32, N, f),
                    ts = tiny_tensor_2d(s, TINY_F32, m, 1), ta = tiny_tensor_2d(a, TINY_F32, m, 1);
        tiny_spmm_params p;
        memset(&p, 0, sizeof p);
        for (p.reduce = 0; p.reduce < 4; p.reduce++) {
            T_OK(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, &p, &ty));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < N; i++)
                for (j = 0; j < f; j++) {
                    const double deg = (double)(off[i + 1] - off[i]);
                    double sum = 0.0, size = 0.0, best = p.reduce == TINY_EDGE_MAX ? -HUGE_VAL : HUGE_VAL;
                    for (e = off[i]; e < off[i + 1]; e++) {
                        const double one = (double)w[e] * (double)x[from[e] * f + j];
                        sum += one;
                        size += fabs(one);
                        best = p.reduce == TINY_EDGE_MAX ? fmax(best, one) : fmin(best, one);
                    }
                    if (deg == 0.0) T_CLOSE(y[i * f + j], 0, 0);
                    else if (p.reduce == TINY_EDGE_SUM) T_CLOSE(y[i * f + j], sum, 4 * deg * FLT_EPSILON * size);
                    else if (p.reduce == TINY_EDGE_MEAN)
                        T_CLOSE(y[i * f + j], sum / deg, 4 * deg * FLT_EPSILON * size / deg);
                    else T_CLOSE(y[i * f + j], best, FLT_EPSILON * fabs(best));
                }
            T_WALLS(y, N * f);
        }
        T_OK(tiny_sddmm(ctx, &offset, &col, &tq, &tx, NULL, NULL, NULL, &ts));
        T_OK(tiny_segment_softmax(ctx, &offset, &ts, &ta));
        T_OK(tiny_edge_attention(ctx, &offset, &col, &tq, &tx, &tx, NULL, NULL, &ty));
        for (i = 0; i < N; i++) {
            const double deg = (double)(off[i + 1] - off[i]), off_by = (4 * deg + 2.0 * f * f + 16) * FLT_EPSILON;
            double score[60], top = -HUGE_VAL, all = 0.0;
            for (e = off[i]; e < off[i + 1]; e++) {
                double sum = 0.0, size = 0.0;
                for (j = 0; j < f; j++) {
                    sum += (double)q[i * f + j] * (double)x[from[e] * f + j];
                    size += fabs((double)q[i * f + j] * (double)x[from[e] * f + j]);
                }
                T_CLOSE(s[e], sum, 4.0 * f * FLT_EPSILON * size);
                score[e - off[i]] = sum;
                top = fmax(top, sum);
            }
            for (k = 0; k < (int)deg; k++) all += score[k] = exp(score[k] - top);
            for (k = 0; k < (int)deg; k++) T_CLOSE(a[off[i] + k], score[k] / all, off_by * score[k] / all);
            for (j = 0; j < f; j++) {
                double sum = 0.0, size = 0.0;
                for (k = 0; k < (int)deg; k++) {
                    sum += score[k] / all * (double)x[from[off[i] + k] * f + j];
                    size += score[k] / all * fabs((double)x[from[off[i] + k] * f + j]);
                }
                T_CLOSE(y[i * f + j], sum, off_by * size);
            }
        }
        {                                   /* <A x, q> = <x, A' q> */
            tiny_sparse at, turned;
            tiny_sparse_desc d;
            float *z = t_guarded((size_t)(S * f));
            tiny_tensor tz = tiny_tensor_2d(z, TINY_F32, S, f);
            double left = 0.0, right = 0.0, size = 0.0;
            memset(&at, 0, sizeof at);
            memset(&d, 0, sizeof d);
            at.form = TINY_CSR;
            at.n_rows = N;
            at.n_cols = S;
            at.n = m;
            at.offset = off;
            at.col = from;
            at.value = w;
            d.form = TINY_CSC;
            if (T_OK(tiny_sparse_convert(ctx, &at, &d, &turned))) {
                tiny_sparse back = turned;
                back.form = TINY_CSR;
                back.n_rows = S;
                back.n_cols = N;
                back.col = turned.row;
                T_OK(tiny_spmm_csr(ctx, &at, &tx, TINY_EDGE_SUM, &ty));
                T_OK(tiny_spmm_csr(ctx, &back, &tq, TINY_EDGE_SUM, &tz));
                for (i = 0; i < N * f; i++) left += (double)y[i] * (double)q[i];
                for (i = 0; i < S * f; i++) right += (double)x[i] * (double)z[i];
                for (i = 0; i < N; i++)
                    for (e = off[i]; e < off[i + 1]; e++)
                        for (j = 0; j < f; j++)
                            size += fabs((double)w[e] * (double)x[from[e] * f + j] * (double)q[i * f + j]);
                T_CLOSE(left, right, 4 * 60 * FLT_EPSILON * size);
                tiny_sparse_free(ctx, &turned);
            }
        }
    }
    t_close(ctx);
    T_PROOF("graphs 0", "every fast kernel equals the triple loop to 4 deg eps");
    T_PROOF("graphs 0", "<A x, y> = <x, A^T y>");
}

/* a weight that is NaN spoils its row, and no other; rows of loops only are what they weigh; rows without edges are
 * 0 */
static void test_odd_weights(tiny_target target)
{
    enum { N = 40, F = 19 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int64_t off[N + 1];
    int32_t from[N];
    float w[N], *x = t_rand(N * F, -1, 1), *y = t_guarded(N * F);
    tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, N + 1), col = tiny_tensor_1d(from, TINY_I32, N),
                tx = tiny_tensor_2d(x, TINY_F32, N, F), tw = tiny_tensor_1d(w, TINY_F32, N),
                ty = tiny_tensor_2d(y, TINY_F32, N, F);
    tiny_spmm_params p;
    int i, j;
    memset(&p, 0, sizeof p);
    for (i = 0; i <= N; i++) off[i] = i;
    for (i = 0; i < N; i++) { from[i] = (int32_t)i; w[i] = 0.25f * (float)(1 + i % 3); }
    w[7] = NAN;
    for (p.reduce = 0; p.reduce < 4; p.reduce++) {
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, &p, &ty));
        for (i = 0; i < N; i++)
            for (j = 0; j < F; j++) {
                if (i == 7) T_TRUE(y[i * F + j] != y[i * F + j]);
                else T_CLOSE(y[i * F + j], w[i] * x[i * F + j], 0);
            }
    }
    for (i = 0; i <= N; i++) off[i] = i > 20 ? N : 0;       /* all edges go into row 20 */
    w[7] = 1.0f;
    for (p.reduce = 0; p.reduce < 4; p.reduce++) {
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, &p, &ty));
        for (i = 0; i < N; i++) for (j = 0; j < F; j++) if (i != 20) T_CLOSE(y[i * F + j], 0, 0);
    }
    t_close(ctx);
    T_PROOF("graphs 0", "bad input: NaN weights, self-loops only, isolated nodes");
}

/* Heads of less than a vector, of one, two and many, and more heads than a vector has lanes; rows of a chunk of scores,
 * and of one edge more or less; a first chunk whose scores are all -inf. All near the reference, walls around y. */
static void test_widths(tiny_target target)
{
    static const int head[] = { 1, 2, 8, 17 }, width[] = { 1, 4, 8, 16, 20, 32, 67 };
    static const int64_t off[] = { 0, 0, 1, 64, 128, 193, 393, 400 };
    enum { N = 7, M = 400, X = 50 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t *from = (int32_t *)t_keep(M * 4);
    int h, c, i, kind;
    for (i = 0; i < M; i++) from[i] = i >= 193 && i < 257 ? X - 1 : (int32_t)t_rand_below(X - 1);
    for (h = 0; h < (int)T_COUNT(head); h++)
        for (c = 0; c < (int)T_COUNT(width); c++) {
            const int f = head[h] * width[c];
            float *x = t_rand((size_t)(X * f), -1, 1), *a = t_rand((size_t)(N * f), 0.1f, 1),
                  *w = t_rand((size_t)(M * head[h]), -1, 1);
            float *b = t_rand((size_t)(X * f), -1, 1), *got = t_guarded((size_t)(N * f)),
                  *want = t_guarded((size_t)(N * f));
            tiny_tensor offset = tiny_tensor_1d((int64_t *)(uintptr_t)off, TINY_I64, N + 1),
                        col = tiny_tensor_1d(from, TINY_I32, M), tx = tiny_tensor_2d(x, TINY_F32, X, f);
            tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, N, f), tb = tiny_tensor_2d(b, TINY_F32, X, f),
                        tw = tiny_tensor_2d(w, TINY_F32, M, head[h]), y;
            for (i = 0; i < head[h]; i++) b[(X - 1) * f + i * width[c]] = -INFINITY;
            for (kind = 0; kind < 3; kind++) {
                tiny_spmm_params sum = { TINY_EDGE_SUM, 0 };
                tiny_sddmm_params p;
                tiny_op op;
                memset(&op, 0, sizeof op);
                memset(&p, 0, sizeof p);
                p.heads = head[h];
                p.scale = 1.0f / (float)width[c];
                if (kind == 1) sum.reduce = TINY_EDGE_MEAN;
                op.kind = kind < 2 ? TINY_OP_SPMM : TINY_OP_EDGE_ATTENTION;
                op.in[0] = &offset;
                op.in[1] = kind < 2 ? &tx : &col;
                op.in[2] = kind < 2 ? &col : &ta;
                op.in[3] = kind < 2 ? &tw : &tb;
                op.in[4] = kind < 2 ? NULL : &tx;
                op.params = kind < 2 ? (const void *)&sum : (const void *)&p;
                op.out[0] = &y;
                y = tiny_tensor_2d(want, TINY_F32, N, f);
                T_OK(tiny_run_reference(ctx, &op));
                y = tiny_tensor_2d(got, TINY_F32, N, f);
                T_OK(tiny_run(ctx, &op));
                T_RAN_ON(ctx, t_vectors(target));
                for (i = 0; i < N * f; i++) T_CLOSE(got[i], want[i], kind == 2 ? 1e-5 : kind ? 2e-6 : 1e-4);
                T_WALLS(got, (size_t)(N * f));
            }
        }
    t_close(ctx);
}

/* Rows that overlap: from every second one on, all edges again. Each is refused, but the pieces of their hubs were
 * counted before and were more than the workspace has places for. A wall behind each block of memory shows who wrote
 * over its end. */
enum { WALL = 1 << 16 };
static int wall_broken;
static void *walled(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    unsigned char *p = (unsigned char *)old, *fresh;
    size_t i;
    if (p) for (i = 0; i < WALL; i++) wall_broken |= p[old_bytes + i] != 0xb5;
    if (!n_bytes) {
        if (p) (void)t_alloc_realloc(user, p, old_bytes + WALL, 0);
        return NULL;
    }
    fresh = (unsigned char *)t_alloc_realloc(user, old, old ? old_bytes + WALL : 0, n_bytes + WALL);
    if (fresh) memset(fresh + n_bytes, 0xb5, WALL);
    return fresh;
}

static void test_hubs_that_overlap(void)
{
    enum { EDGES = 60000, ROWS = 40000, F = 16 };
    int64_t *off = (int64_t *)t_keep((ROWS + 1) * sizeof *off);
    int32_t *from = (int32_t *)t_keep(EDGES * sizeof *from);
    float *x = (float *)t_keep(F * sizeof *x), *y = (float *)t_keep(ROWS * F * sizeof *y);
    tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, ROWS + 1), col = tiny_tensor_1d(from, TINY_I32, EDGES),
                tx = tiny_tensor_2d(x, TINY_F32, 1, F), ty = tiny_tensor_2d(y, TINY_F32, ROWS, F);
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
    tiny_ctx *ctx = NULL;
    int k, i;
    memset(from, 0, EDGES * sizeof *from);
    memset(x, 0, F * sizeof *x);
    d.allocator.realloc_fn = walled;
    for (k = 0; k < 3; k++) {               /* from the first row, from the middle on, in steps */
        for (i = 0; i <= ROWS; i++)
            off[i] = k == 0       ? (i % 2) * EDGES
                     : k == 1     ? i < ROWS / 2 ? 0 : (i % 2) * EDGES
                     : i % 4 == 1 ? EDGES
                     : i % 4 == 3 ? EDGES / 2
                                  : 0;
        off[ROWS] = EDGES;
        if (!T_OK(tiny_ctx_open(&d, &ctx))) return;
        wall_broken = 0;
        t_use(ctx);
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT, "has the edges");
        t_use(NULL);
        tiny_ctx_close(ctx);
        T_TRUE(!wall_broken);
    }
}

static void test_bad(tiny_target target)
{
    int64_t off[4] = { 0, 2, 1, 3 };
    int32_t from[3] = { 0, 1, 2 };
    float x[6] = { 0 }, y[9], w[4];
    int k;
    for (k = 0; k < 2; k++) {               /* the reference looks before, the fast form while it runs */
        tiny_ctx *ctx = t_ctx(k ? TINY_TARGET_REFERENCE : target, 2);
        tiny_tensor offset = tiny_tensor_1d(off, TINY_I64, 4), col = tiny_tensor_1d(from, TINY_I32, 3),
                    tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 3, 3);
        tiny_tensor tw = tiny_tensor_1d(w, TINY_F32, 4), heads = tiny_tensor_2d(w, TINY_F32, 3, 1),
                    ta = tiny_tensor_2d(y, TINY_F32, 3, 3), ts = tiny_tensor_2d(w, TINY_F32, 3, 1);
        tiny_sddmm_params p;
        tiny_spmm_params sp;
        memset(&p, 0, sizeof p);
        memset(&sp, 0, sizeof sp);
        from[2] = 2;
        off[1] = 2; off[2] = 1; off[3] = 3;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT,
                 "spmm: row 1 has the edges 2 to 1 of 3");
        off[1] = 1; off[2] = 2; off[3] = 4;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT,
                 "spmm: row 2 has the edges 2 to 4 of 3");
        off[3] = INT64_MIN;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT,
                 "spmm: row 2 has the edges");
        off[3] = 3;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT,
                 "spmm: edge 2 comes from row 2, there are 2");
        T_STATUS(tiny_sddmm(ctx, &offset, &col, &ta, &tx, NULL, NULL, NULL, &ts), TINY_E_ARGUMENT,
                 "sddmm: edge 2 comes from row 2, there are 2");
        from[2] = -1;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT,
                 "spmm: edge 2 comes from row -1, there are 2");
        from[2] = 1;
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty));
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, &tw, NULL, NULL, &ty), TINY_E_SHAPE,
                 "w must have a row for each of the 3 edges");
        heads = tiny_tensor_2d(w, TINY_F32, 3, 2);
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, &heads, NULL, NULL, &ty), TINY_E_SHAPE,
                 "3 features do not make 2 heads");
        sp.reduce = 4;
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, &sp, &ty), TINY_E_ARGUMENT, "4 is no reduction");
        p.heads = 2;
        T_STATUS(tiny_sddmm(ctx, &offset, &col, &ta, &tx, NULL, NULL, &p, &ts), TINY_E_ARGUMENT,
                 "3 features do not make 2 heads");
        p.heads = 1;
        p.add = 1;
        T_STATUS(tiny_sddmm(ctx, &offset, &col, &ta, &tx, NULL, NULL, &p, &ts), TINY_E_SHAPE,
                 "without att there is one number a head");
        p.slope = NAN;
        T_STATUS(tiny_sddmm(ctx, &offset, &col, &ta, &tx, NULL, NULL, &p, &ts), TINY_E_ARGUMENT,
                 "slope is not a finite number");
        t_close(ctx);
    }
    {                                       /* of nothing */
        tiny_ctx *ctx = t_ctx(target, 2);
        int64_t zero = 0;
        tiny_tensor offset = tiny_tensor_1d(&zero, TINY_I64, 1), col = tiny_tensor_1d(from, TINY_I32, 0),
                    tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 0, 3);
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty));
        col = tiny_tensor_1d(from, TINY_I32, 1);
        T_STATUS(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty), TINY_E_ARGUMENT, "edges");
        col = tiny_tensor_1d(from, TINY_I32, 3);
        offset = tiny_tensor_1d(off, TINY_I64, 4);
        tx = tiny_tensor_2d(x, TINY_F32, 2, 0);
        ty = tiny_tensor_2d(y, TINY_F32, 3, 0);
        T_OK(tiny_spmm(ctx, &offset, &tx, &col, NULL, NULL, NULL, &ty));
        t_close(ctx);
    }
    T_PROOF("graphs 0", "bad input: column out of range, rowptr not monotone or too long");
    T_PROOF("graphs 0", "bad input: m = 0, n = 0, F = 0");
}

int main(void)
{
    T_RUN_FORMS(test_oracle);
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_hub);
    T_RUN_FORMS(test_fused);
    T_RUN_FORMS(test_triple_loop);
    T_RUN_FORMS(test_odd_weights);
    T_RUN_FORMS(test_widths);
    T_RUN(test_hubs_that_overlap);
    T_RUN_FORMS(test_bad);
    return t_done();
}
