/* tests/gnn/embed/fastrp.c - FastRP against recorded outputs, the worked example, its own reference, and mathematical
 * identities */
#define T_GNN
#include "t.h"

static void *load(const char *folder, const char *file, size_t bytes)
{
    char name[200];
    (void)snprintf(name, sizeof name, "oracle/gnn/%sfastrp/%s", folder, file);
    return t_shared_bytes(name, bytes);
}

static tgnn_graph *graph_of(tiny_ctx *ctx, int n, int m, const int32_t *src, const int32_t *dst, int both)
{
    tgnn_graph_desc how;
    tgnn_graph *g = NULL;
    tgnn_edges e;
    memset(&e, 0, sizeof e);
    memset(&how, 0, sizeof how);
    e.n_src = e.n_dst = n;
    e.n = m;
    e.src = src;
    e.dst = dst;
    how.symmetrize = both;
    T_OK(tgnn_graph_make(ctx, &e, &how, &g));
    return g;
}

static void oracle(tiny_ctx *ctx, const char *folder, int n, int m, int d, int *files)
{
    const int32_t *edges = (const int32_t *)load(folder, "edges.i32", (size_t)m * 8);
    const double *r = (const double *)load(folder, "projection.f64", (size_t)(n * d) * 8);
    float *rf = t_guarded((size_t)(n * d)), *y = t_guarded((size_t)(n * d));
    tiny_tensor tr = tiny_tensor_2d(rf, TINY_F32, n, d), ty = tiny_tensor_2d(y, TINY_F32, n, d);
    static const char *const names[4] = { "out_normalized.f64", "merged_normalized.f64", "out_plain.f64",
                                          "merged_plain.f64" };
    tgnn_fastrp_desc f;
    tgnn_graph *g;
    int i, k, tile;
    if (!edges || !r) return;
    for (i = 0; i < n * d; i++) rf[i] = (float)r[i];
    g = graph_of(ctx, n, m, edges, edges + m, 0);
    memset(&f, 0, sizeof f);
    f.n_weights = 4;
    f.weight[0] = f.weight[1] = 1;
    f.weight[2] = 7.81f;
    f.weight[3] = 45.28f;
    f.beta = -0.628;
    f.raw = 1;
    f.projection = &tr;
    for (k = 0; k < 4; k++) {
        const double *want = (const double *)load(folder, names[k], (size_t)(n * d) * 8);
        int before = t_now.checks_failed;
        /* the files weigh by degree^beta, we by (degree / sum)^beta: a factor where rows keep their length */
        double factor = k == 3 ? pow((double)m, -0.628) : 1.0;
        f.no_l2 = k >= 2;
        f.standardize = k % 2 == 0;
        for (tile = 0; want && tile <= 16; tile += 16) {
            f.tile = tile;
            if (T_OK(tgnn_fastrp(ctx, g, &f, &ty)))
                for (i = 0; i < n * d; i++) T_CLOSE(y[i] * factor, want[i], 4e-5 * (1 + fabs(want[i])));
        }
        if (want && t_now.checks_failed == before) ++*files;
    }
    tgnn_graph_close(ctx, g);
}

static void test_oracle(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int files = 0;
    oracle(ctx, "", 17, 102, 16, &files);
    if (t_one_of("oracle/gnn/medium/fastrp/edges.i32")) oracle(ctx, "medium/", 120, 1742, 16, &files);
    T_TRUE(files == 4 || files == 8);
    if (target == TINY_TARGET_SCALAR) printf("oracle/gnn/fastrp: %d of 8\n", files);
    t_close(ctx);
    T_PROOF("graphs 7", "outputs of the published code");
}

/* a triangle and a pendant node, worked by hand */
static void test_worked(tiny_target target)
{
    static const int32_t src[4] = { 0, 1, 0, 2 }, dst[4] = { 1, 2, 2, 3 };
    static float r[8] = { 1, 0, 0, -1, 1, 1, 0, 1 };
    static const double u1[8] = { .816497, -.183503, 1.816497, .816497, .666667, .276142, 1.632993, 1.632993 };
    static const double u2[8] = { 1.241582, .546319, .741582, .046319, 1.421995, .755329, .666667, .276142 };
    static const double sum[8] = { 1.403140, .293116, 1.454103, .267328, 1.345083, .660445, 1.277433, .736237 };
    int k, i;
    for (k = 0; k < 2; k++) {
        tiny_ctx *ctx = t_ctx(k ? TINY_TARGET_REFERENCE : target, 1);
        tgnn_graph *g = graph_of(ctx, 4, 4, src, dst, 1);
        tgnn_fastrp_desc f;
        float y[8];
        tiny_tensor tr = tiny_tensor_2d(r, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 4, 2);
        memset(&f, 0, sizeof f);
        f.projection = &tr;
        f.beta = -0.5;
        f.raw = f.no_l2 = 1;
        f.n_weights = 2;
        f.weight[0] = 1;
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < 8; i++) T_CLOSE(y[i], u1[i], 1e-6);
        f.weight[0] = 0;
        f.weight[1] = 1;
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < 8; i++) T_CLOSE(y[i], u2[i], 1e-6);
        f.weight[0] = 0.5f;
        f.no_l2 = 0;
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < 8; i++) T_CLOSE(y[i], sum[i], 2e-6);
        tgnn_graph_close(ctx, g);
        t_close(ctx);
    }
    T_PROOF("graphs 7", "worked triangle: U_1, U_2, sum");
}

/* P^k L R / sqrt d with dense matrices in double, on a weighted graph of 40 nodes, one of them alone: each power alone,
 * and the sum of rows of length 1 */
static void test_dense(tiny_target target)
{
    enum { N = 40, D = 24, M = 150 };
    static const double beta[] = { 0.0, -0.5, 0.7 };
    int32_t src[M], dst[M];
    float w[M], r[N * D], y[N * D];
    static double a[N][N], u[4][N][D];
    double degree[N], all, sum, length;
    tiny_tensor tr = tiny_tensor_2d(r, TINY_F32, N, D), ty = tiny_tensor_2d(y, TINY_F32, N, D);
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_graph *g = NULL;
    tgnn_edges e;
    tgnn_graph_desc how;
    size_t b;
    int i, j, k, l;
    memset(&e, 0, sizeof e);
    memset(&how, 0, sizeof how);
    memset(a, 0, sizeof a);
    for (i = 0; i < M; i++) {
        src[i] = (int32_t)t_rand_below(N - 1);
        dst[i] = (int32_t)t_rand_below(N - 1);
        w[i] = t_rand_float(0.2f, 2.0f);
        a[dst[i]][src[i]] += (double)w[i];
    }
    for (i = 0; i < N * D; i++) r[i] = t_rand_float(-1, 1);
    e.n_src = e.n_dst = N;
    e.n = M;
    e.src = src;
    e.dst = dst;
    e.weight = w;
    T_OK(tgnn_graph_make(ctx, &e, &how, &g));
    for (i = 0, all = 0; i < N; i++) {
        for (degree[i] = 0, j = 0; j < N; j++) degree[i] += a[i][j];
        all += degree[i];
    }
    for (b = 0; b < T_COUNT(beta); b++) {
        tgnn_fastrp_desc f;
        for (i = 0; i < N; i++)
            for (j = 0; j < D; j++)
                u[0][i][j] = degree[i] > 0 ? pow(degree[i] / all, beta[b]) * (double)r[i * D + j] / sqrt((double)D) : 0;
        for (k = 1; k < 4; k++)
            for (i = 0; i < N; i++)
                for (j = 0; j < D; j++)
                    for (u[k][i][j] = 0, l = 0; l < N && degree[i] > 0; l++)
                        u[k][i][j] += a[i][l] / degree[i] * u[k - 1][l][j];
        memset(&f, 0, sizeof f);
        f.projection = &tr;
        f.beta = beta[b];
        f.n_weights = 3;
        f.no_l2 = 1;
        for (k = 1; k < 4; k++) {
            memset(f.weight, 0, sizeof f.weight);
            f.weight[k - 1] = 1;
            T_OK(tgnn_fastrp(ctx, g, &f, &ty));
            for (i = 0; i < N; i++)
                for (j = 0; j < D; j++) T_CLOSE(y[i * D + j], u[k][i][j], 2e-6 * (1 + pow(all, -beta[b])));
        }
        f.no_l2 = 0;
        f.weight[0] = 0.5f;
        f.weight[1] = 1;
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < N; i++)
            for (j = 0; j < D; j++) {
                for (sum = 0, k = 1; k < 4; k++) {
                    for (length = 0, l = 0; l < D; l++) length += u[k][i][l] * u[k][i][l];
                    if (length > 0) sum += (double)f.weight[k - 1] * u[k][i][j] / sqrt(length);
                }
                T_CLOSE(y[i * D + j], sum, 4e-6);
            }
    }
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 7", "equals dense P^k L R on small graphs");
}

/* every thread count and every tile the same bits; near the reference in double; other numbers of nodes permute the
 * rows */
static void test_same(tiny_target target)
{
    enum { N = 900, D = 72 };
    static float first[N * D], y[N * D], r[N * D], pr[N * D];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, D), tr = tiny_tensor_2d(r, TINY_F32, N, D),
                tpr = tiny_tensor_2d(pr, TINY_F32, N, D);
    uint32_t order[N];
    tiny_rng rng = tiny_rng_make(1, 2);
    tgnn_fastrp_desc f;
    int threads, tile, i, j, k;
    memset(&f, 0, sizeof f);
    f.seed = 7;
    f.beta = 0.3;
    f.s = 3;
    for (threads = 1; threads <= 8; threads *= 2)
        for (tile = 0; tile <= 64; tile += 16) {
            tiny_ctx *ctx = t_ctx(target, threads);
            tgnn_graph *g;
            T_OK(tgnn_planted(ctx, N, 5, 9, 0.7, 3, &g));
            f.tile = tile;
            T_OK(tgnn_fastrp(ctx, g, &f, &ty));
            if (threads == 1 && tile == 0) memcpy(first, y, sizeof first);
            T_SAME(first, y, N * D);
            tgnn_graph_close(ctx, g);
            t_close(ctx);
        }
    {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
        tgnn_graph *g, *pg;
        int32_t col[D];
        int8_t sign[D];
        T_OK(tgnn_planted(ctx, N, 5, 9, 0.7, 3, &g));
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < N * D; i++) T_CLOSE(first[i], y[i], 3e-6);
        for (i = 0; i < N; i++) {           /* the projection as a matrix: the same answer */
            int n = tgnn_fastrp_row(7, (uint64_t)i, D, 3, col, sign);
            for (j = 0; j < n; j++) r[i * D + col[j]] = (float)sign[j] * 1.7320508f;
        }
        f.projection = &tr;
        T_OK(tgnn_fastrp(ctx, g, &f, &ty));
        for (i = 0; i < N * D; i++) T_CLOSE(first[i], y[i], 3e-6);
        tgnn_graph_close(ctx, g);
        t_close(ctx);
        /* under other numbers, on the target itself, with and without tiles and lengths: rows follow, sums are in
         * another order */
        ctx = t_ctx(target, 2);
        T_OK(tgnn_planted(ctx, N, 5, 9, 0.7, 3, &g));
        tiny_rng_permutation(&rng, order, N);
        T_OK(tgnn_graph_permute(ctx, g, order, &pg));
        for (i = 0; i < N; i++) memcpy(pr + i * D, r + (int)order[i] * D, D * 4);
        for (k = 0; k < 4; k++) {
            f.tile = k & 1 ? 32 : 0;
            f.no_l2 = k / 2;
            f.projection = &tr;
            T_OK(tgnn_fastrp(ctx, g, &f, &ty));
            memcpy(first, y, sizeof first);
            f.projection = &tpr;
            T_OK(tgnn_fastrp(ctx, pg, &f, &ty));
            for (i = 0; i < N; i++)
                for (j = 0; j < D; j++) T_CLOSE(y[i * D + j], first[(int)order[i] * D + j], 3e-6);
        }
        tgnn_graph_close(ctx, g);
        tgnn_graph_close(ctx, pg);
        t_close(ctx);
    }
    T_PROOF("graphs 7", "same bits for 1 to 8 threads and any tile");
    T_PROOF("graphs 7", "permuting ids and rows of R permutes the output");
}

/* rate 1 / s, balanced signs, ascending places */
static void test_random(void)
{
    static int32_t col[256];
    static int8_t sign[256];
    double s;
    long n = 0, plus = 0, rows = 40000, i;
    for (s = 1; s <= 50; s = s * 7 + 3) {
        n = plus = 0;
        for (i = 0; i < rows; i++) {
            int k, m = tgnn_fastrp_row(5, (uint64_t)i, 256, s, col, sign);
            for (k = 0; k < m; k++) {
                T_TRUE(col[k] < 256 && (k == 0 || col[k] > col[k - 1]));
                plus += sign[k] == 1;
            }
            n += m;
        }
        /* five standard deviations of a binomial count, and of signs */
        T_CLOSE((double)n, (double)rows * 256 / s, 5 * sqrt((double)rows * 256 / s) + 1e-9);
        T_CLOSE((double)plus, (double)n / 2, 5 * sqrt((double)n) / 2);
    }
    T_PROOF("graphs 7", "nonzero rate 1 / s, signs balanced");
}

/* E[R R'] / d = I, each entry of the matrix alone: isolated nodes with a loop have the rows of R / sqrt(d) as their
 * embedding, so y y' is R R' / d, and its mean over the seeds is I. An entry of one seed has the variance (s - 1) / d
 * on the diagonal, where the squares are s or 0, and 1 / d elsewhere; of 496 entries the farthest stays within 4.5
 * standard deviations but once in 300 such tests. */
static void test_identity(tiny_target target)
{
    enum { N = 32, D = 48, SEEDS = 1500 };
    static const double s[3] = { 1, 3, 12 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int32_t loop[N];
    float *y = t_guarded(N * D);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, D);
    tgnn_fastrp_desc f;
    tgnn_graph *g;
    int i, j, c, k;
    for (i = 0; i < N; i++) loop[i] = i;
    g = graph_of(ctx, N, N, loop, loop, 0);
    memset(&f, 0, sizeof f);
    f.n_weights = 1;
    f.weight[0] = 1;
    f.no_l2 = 1;
    for (k = 0; k < 3; k++) {
        double sum[N][N] = { { 0 } };
        f.s = s[k];
        for (f.seed = 0; f.seed < SEEDS; f.seed++) {
            if (!T_OK(tgnn_fastrp(ctx, g, &f, &ty))) break;
            for (i = 0; i < N; i++)
                for (j = 0; j <= i; j++) {
                    float p = 0;
                    for (c = 0; c < D; c++) p += y[i * D + c] * y[j * D + c];
                    sum[i][j] += (double)p;
                }
        }
        for (i = 0; i < N; i++)
            for (j = 0; j <= i; j++)
                T_CLOSE(sum[i][j] / SEEDS, i == j, 4.5 * sqrt((i == j ? s[k] - 1 : 1) / D / SEEDS) + 1e-5);
    }
    T_WALLS(y, N * D);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 7", "E[R R^T] / d = I within Monte-Carlo error");
}

static void test_bad(tiny_target target)
{
    static const int32_t src[2] = { 0, 1 }, dst[2] = { 1, 0 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_graph *g = graph_of(ctx, 3, 2, src, dst, 0), *h;
    float y[12];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 3, 4), small = tiny_tensor_2d(y, TINY_F32, 2, 4),
                none = tiny_tensor_2d(y, TINY_F32, 3, 0);
    tgnn_fastrp_desc f;
    int i;
    memset(&f, 0, sizeof f);
    T_OK(tgnn_fastrp(ctx, g, NULL, &ty));
    for (i = 8; i < 12; i++) T_TRUE(y[i] == 0);        /* an isolated node */
    T_STATUS(tgnn_fastrp(ctx, g, &f, &none), TINY_E_ARGUMENT, "0 columns");
    T_STATUS(tgnn_fastrp(ctx, g, &f, &small), TINY_E_SHAPE, "3 rows, one for each node");
    f.s = 0.5;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_ARGUMENT, "s is 0.5, it must be at least 1");
    f.s = 0;
    f.n_weights = 17;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_ARGUMENT, "17 powers");
    f.n_weights = -1;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_ARGUMENT, "-1 powers");
    f.n_weights = 1;
    f.weight[0] = NAN;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "the weight of power 1");
    f.weight[0] = 1;
    f.beta = INFINITY;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "beta");
    f.beta = 0;
    f.tile = 17;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_ARGUMENT, "a tile of 17 columns");
    f.tile = 0;
    tgnn_graph_close(ctx, g);
    {
        static const float w[2] = { 1, -1 };
        tgnn_edges e;
        memset(&e, 0, sizeof e);
        e.n_src = e.n_dst = 3;
        e.n = 2;
        e.src = src;
        e.dst = dst;
        e.weight = w;
        T_OK(tgnn_graph_make(ctx, &e, NULL, &h));
        T_STATUS(tgnn_fastrp(ctx, h, &f, &ty), TINY_E_NUMERIC, "edge 0 weighs -1");
        tgnn_graph_close(ctx, h);
    }
    g = graph_of(ctx, 3, 0, NULL, NULL, 0);   /* no node has a neighbour */
    f.standardize = 1;
    T_OK(tgnn_fastrp(ctx, g, &f, &ty));
    for (i = 0; i < 12; i++) T_TRUE(y[i] == 0);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 7", "isolated node gives a zero row");
    T_PROOF("graphs 7", "bad input: d = 0, negative q, s < 1, negative weights, all isolated");
}

/* A star of 40 leaves with a tail: (degree / sum)^beta is 10^22 for beta = -10, and its squares were beyond f32: NaN,
 * and success.
 * Against U_k = P U_(k-1), U_1 = P L R with rows of length 1, in long double, where a common factor
 * of L does nothing. */
static void test_far_factors(tiny_target target)
{
    enum { N = 60, D = 32 };
    static const double betas[5] = { -10, -18, -1, 10, 18 };
    static int32_t src[N - 1], dst[N - 1];
    tiny_ctx *ctx = t_ctx(target, 2);
    float *r = t_rand(N * D, -1.0f, 1.0f), *y = t_guarded(N * D);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, D), tr = tiny_tensor_2d(r, TINY_F32, N, D);
    static long double u[2][N][D], sum[N][D];
    tgnn_fastrp_desc f;
    tgnn_graph *g;
    int degree[N] = { 0 }, i, j, c, k, b;
    for (i = 1; i < N; i++) {
        src[i - 1] = i <= 40 ? 0 : i - 1;
        dst[i - 1] = i;
        degree[src[i - 1]]++;
        degree[i]++;
    }
    g = graph_of(ctx, N, N - 1, src, dst, 1);
    memset(&f, 0, sizeof f);
    f.n_weights = 3;
    f.weight[0] = 0.5f;
    f.weight[1] = 1.0f;
    f.weight[2] = 2.0f;
    f.projection = &tr;
    for (b = 0; b < 5; b++) {
        memset(sum, 0, sizeof sum);
        for (i = 0; i < N; i++)
            for (c = 0; c < D; c++)
                u[0][i][c] =
                    powl((long double)degree[i] / (2 * (N - 1)), (long double)betas[b]) * (long double)r[i * D + c];
        for (k = 0; k < 3; k++)
            for (i = 0; i < N; i++) {
                long double ss = 0;
                for (c = 0; c < D; c++) {
                    long double s = 0;
                    for (j = 0; j < N - 1; j++)
                        s += src[j] == i ? u[k & 1][dst[j]][c] : dst[j] == i ? u[k & 1][src[j]][c] : 0;
                    u[1 - (k & 1)][i][c] = s / degree[i];
                    ss += s / degree[i] * (s / degree[i]);
                }
                for (c = 0; c < D; c++) sum[i][c] += (long double)f.weight[k] * u[1 - (k & 1)][i][c] / sqrtl(ss);
            }
        f.beta = betas[b];
        for (f.tile = 0; f.tile <= 16; f.tile += 16) {
            if (!T_OK(tgnn_fastrp(ctx, g, &f, &ty))) continue;
            /* 3 powers of a row: (40 + 5) u each at the most, and the sum of weights is 3.5 */
            for (i = 0; i < N; i++)
                for (c = 0; c < D; c++) T_CLOSE(y[i * D + c], (double)sum[i][c], 3 * 45 * 3.5 * FLT_EPSILON / 2);
        }
    }
    f.tile = 0;
    f.beta = -20;                           /* 40^-20 = 9e-33 */
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "fastrp: beta -20 gives node 0 of degree 40 the factor");
    f.beta = -18;
    f.no_l2 = 1;                            /* rows keep their length: 118^18 = 2e37 is the factor itself */
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "it must be 1e-30 to 1e30");
    f.beta = 18;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "it must be 1e-30 to 1e30");
    f.beta = 0;
    f.adjacency = 1;
    /* the sum of two such powers */
    for (f.n_weights = 0; f.n_weights < 2; f.n_weights++) f.weight[f.n_weights] = 3e38f;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC, "fastrp: the embedding of node");
    f.adjacency = f.no_l2 = 0;
    f.weight[0] = f.weight[1] = 1;
    r[5] = NAN;
    T_STATUS(tgnn_fastrp(ctx, g, &f, &ty), TINY_E_NUMERIC,
             "a number of the projection times its factor is not a finite f32");
    T_WALLS(y, N * D);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* R is drawn into room for the expected count and four deviations: with a seed that draws more it grows, and is the
 * same R */
static void test_more_than_expected(tiny_target target)
{
    enum { N = 64, D = 16 };
    /* one entry is expected in all, four more there is room for; its root is exact */
    const double s = 1024.0;
    tiny_ctx *ctx = t_ctx(target, 2);
    float *r = t_guarded(N * D), *y = t_guarded(N * D), *z = t_guarded(N * D);
    tiny_tensor tr = tiny_tensor_2d(r, TINY_F32, N, D), ty = tiny_tensor_2d(y, TINY_F32, N, D),
                tz = tiny_tensor_2d(z, TINY_F32, N, D);
    int32_t src[N], dst[N], col[D];
    int8_t sign[D];
    tgnn_fastrp_desc f;
    tgnn_graph *g;
    uint64_t seed = 0;
    int i, k, n, drawn = 0;
    for (i = 0; i < N; i++) src[i] = i, dst[i] = (i + 1) % N;
    g = graph_of(ctx, N, N, src, dst, 1);
    while (drawn < 6 && seed < 100000)
        for (seed++, drawn = 0, i = 0; i < N - 1; i++) drawn += tgnn_fastrp_row(seed, (uint64_t)i, D, s, col, sign);
    T_TRUE(drawn >= 6);
    memset(r, 0, N * D * sizeof *r);
    for (i = 0; i < N; i++)
        for (n = tgnn_fastrp_row(seed, (uint64_t)i, D, s, col, sign), k = 0; k < n; k++)
            r[i * D + col[k]] = 32.0f * (float)sign[k];
    memset(&f, 0, sizeof f);
    f.s = s;
    f.seed = seed;
    T_OK(tgnn_fastrp(ctx, g, &f, &ty));
    f.projection = &tr;
    T_OK(tgnn_fastrp(ctx, g, &f, &tz));
    T_SAME(y, z, N * D);
    for (i = 0, drawn = 0; i < N * D; i++) drawn += y[i] != 0.0f;
    T_TRUE(drawn > 0);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_no_memory(void)
{
    static float y[300 * 32];
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 30, 32);
        tgnn_fastrp_desc f;
        tgnn_graph *g;
        tiny_ctx *ctx;
        memset(&f, 0, sizeof f);
        f.tile = 16;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_planted(ctx, 30, 2, 4, 0.5, 1, &g)) {
                (void)tgnn_fastrp(ctx, g, &f, &ty);
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_oracle);
    T_RUN_FORMS(test_worked);
    T_RUN_FORMS(test_dense);
    T_RUN_FORMS(test_same);
    T_RUN(test_random);
    T_RUN_FORMS(test_identity);
    T_RUN_FORMS(test_bad);
    T_RUN_FORMS(test_far_factors);
    T_RUN_FORMS(test_more_than_expected);
    T_RUN(test_no_memory);
    return t_done();
}
