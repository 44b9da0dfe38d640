/* tests/math/matmul.c - products of matrices against integer arithmetic, sums in double, and paper
 *
 * Small whole numbers make every float sum exact, so that any order of additions, any block and any thread must give
 * the bits of the integer product: an oracle that shares no line with the library.                                  */
#define T_INTERNALS
#include "t.h"

static tiny_target f32_on(tiny_target target) { return t_vectors(target); }

/* ---- matrices in many layouts: element (i, j) of a rows x cols view is at `at + i * row + j * col` */

typedef struct matrix {
    void *memory;                           /* with walls; the page after it is inaccessible */
    size_t count;                           /* elements of memory */
    ptrdiff_t at, row, col;
    size_t rows, cols;
    tiny_dtype dtype;
} matrix;

/* DENSE, TURNED (dense columns), GAPS (rows apart), STEP (every third element), DOWN (last row first) */
enum { DENSE, TURNED, GAPS, STEP, DOWN, LAYOUTS };

static matrix make(int layout, tiny_dtype dtype, size_t rows, size_t cols)
{
    matrix x;
    ptrdiff_t r = (ptrdiff_t)rows, c = (ptrdiff_t)cols;
    x.rows = rows;
    x.cols = cols;
    x.dtype = dtype;
    x.at = 0;
    x.row = layout == TURNED ? 1 : layout == GAPS ? c + 5 : layout == STEP ? 3 * c + 1 : layout == DOWN ? -c : c;
    x.col = layout == TURNED ? r : layout == STEP ? 3 : 1;
    if (layout == DOWN && r) x.at = (r - 1) * c;
    x.count = r && c ? (size_t)((layout == DOWN ? (r - 1) * c : (r - 1) * x.row) + (c - 1) * x.col + 1) : 0;
    x.memory = t_guarded_bytes(x.count * tiny_dtype_bytes(dtype));
    return x;
}

static tiny_tensor view(const matrix *x)
{
    tiny_tensor t = tiny_tensor_2d((char *)x->memory + x->at * (ptrdiff_t)tiny_dtype_bytes(x->dtype), x->dtype,
                                   (tiny_idx)x->rows, (tiny_idx)x->cols);
    t.stride[0] = x->row;
    t.stride[1] = x->col;
    return t;
}

static ptrdiff_t where(const matrix *x, size_t i, size_t j)
{
    return x->at + (ptrdiff_t)i * x->row + (ptrdiff_t)j * x->col;
}

static uint16_t whole_to_f16(int v)         /* |v| <= 2048 */
{
    unsigned a = (unsigned)(v < 0 ? -v : v), e = 0;
    if (!a) return 0;
    while (a >> (e + 1)) e++;
    return (uint16_t)((v < 0 ? 0x8000u : 0u) | (e + 15u) << 10 | ((a << (10 - e)) & 0x3ffu));
}

static void put(const matrix *x, size_t i, size_t j, int v)
{
    ptrdiff_t at = where(x, i, j);
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    switch (x->dtype) {
    case TINY_F32: ((float *)x->memory)[at] = f; break;
    case TINY_F16: ((uint16_t *)x->memory)[at] = whole_to_f16(v); break;
    case TINY_BF16: ((uint16_t *)x->memory)[at] = (uint16_t)(u >> 16); break;
    default: ((uint8_t *)x->memory)[at] = (uint8_t)v; break;
    }
}

/* Fills x with whole numbers from low to high and keeps them dense in the list that it returns. */
static int *fill(const matrix *x, int low, int high)
{
    int *v = (int *)t_keep(x->rows * x->cols * sizeof(int));
    size_t i, j;
    for (i = 0; i < x->rows; i++)
        for (j = 0; j < x->cols; j++) {
            v[i * x->cols + j] = low + (int)t_rand_below((uint32_t)(high - low + 1));
            put(x, i, j, v[i * x->cols + j]);
        }
    return v;
}

static int64_t exact(const int *a, const int *b, size_t i, size_t j, size_t n, size_t k)
{
    int64_t s = 0;
    size_t p;
    for (p = 0; p < k; p++) s += (int64_t)a[i * k + p] * b[p * n + j];
    return s;
}

/* One f32 product of whole numbers; y is checked bit for bit, and so are the gaps of its layout. */
static void whole_f32(tiny_ctx *ctx, size_t m, size_t n, size_t k, int layout_a, int layout_b, int layout_y,
                      tiny_dtype dtype)
{
    matrix a = make(layout_a, TINY_F32, m, k), b = make(layout_b, dtype, k, n), y = make(layout_y, TINY_F32, m, n);
    const int *va = fill(&a, -8, 8), *vb = fill(&b, -8, 8);
    tiny_tensor ta = view(&a), tb = view(&b), ty = view(&y);
    float *want = (float *)t_keep((y.count + 1) * sizeof *want);
    size_t i, j;
    memcpy(want, y.memory, y.count * sizeof *want);
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) want[where(&y, i, j)] = (float)exact(va, vb, i, j, n, k);
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    if (!t_same(y.memory, want, y.count, sizeof *want, __FILE__, __LINE__, "y and the exact product"))
        t_fail(__FILE__, __LINE__, "at %lu x %lu x %lu, layouts %d %d %d, %s", (unsigned long)m, (unsigned long)n,
               (unsigned long)k, layout_a, layout_b, layout_y, tiny_dtype_name(dtype));
    T_WALLS(y.memory, y.count);
}

static void test_by_hand(tiny_target target)
{
    static const float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 7, 8, 9, 10, 11, 12 }, bias[2] = { -60, 0.5f };
    static const double plain[4] = { 58, 64, 139, 154 }, biased[4] = { 0, 64.5, 79, 154.5 };
    tiny_tensor ta = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, 2, 3),
                tb = tiny_tensor_2d((void *)(uintptr_t)b, TINY_F32, 3, 2);
    tiny_tensor tv = tiny_tensor_1d((void *)(uintptr_t)bias, TINY_F32, 2), ty;
    tiny_ctx *ctx = t_ctx(target, 1);
    float y[4];
    int i;
    ty = tiny_tensor_2d(y, TINY_F32, 2, 2);
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    T_RAN_ON(ctx, f32_on(target));
    for (i = 0; i < 4; i++) T_CLOSE(y[i], plain[i], 0);
    T_OK(tiny_matmul(ctx, &ta, &tb, &tv, TINY_ACT_RELU, &ty));
    for (i = 0; i < 4; i++) T_CLOSE(y[i], biased[i], 0);
    T_OK(tiny_matmul(ctx, &ta, &tb, &tv, TINY_ACT_RELU2, &ty));
    T_CLOSE(y[2], 6241, 0);
    tb = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, 2, 3);
    tb = tiny_tensor_swap(tb, 0, 1);        /* a times its own transpose */
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    T_CLOSE(y[0], 14, 0);
    T_CLOSE(y[1], 32, 0);
    T_CLOSE(y[2], 32, 0);
    T_CLOSE(y[3], 77, 0);
    {
        static const int8_t p[6] = { -128, 127, 3, 1, 0, -1 }, q[6] = { -128, 1, 127, 2, 4, -4 };
        static const float sa[2] = { 0.5f, 2 }, sb[2] = { 1, 0.25f };
        static const int want[4] = { 32525, 114, -132, 5 };
        tiny_tensor tp = tiny_tensor_2d((void *)(uintptr_t)p, TINY_I8, 2, 3),
                    tq = tiny_tensor_2d((void *)(uintptr_t)q, TINY_I8, 3, 2);
        tiny_tensor tsa = tiny_tensor_1d((void *)(uintptr_t)sa, TINY_F32, 2),
                    tsb = tiny_tensor_1d((void *)(uintptr_t)sb, TINY_F32, 2);
        int32_t s[4];
        tiny_tensor ts = tiny_tensor_2d(s, TINY_I32, 2, 2);
        T_OK(tiny_matmul_i8(ctx, &tp, &tq, NULL, NULL, NULL, TINY_ACT_NONE, &ts));
        for (i = 0; i < 4; i++) T_EQ_INT(s[i], want[i]);
        T_OK(tiny_matmul_i8(ctx, &tp, &tq, &tsa, &tsb, &tv, TINY_ACT_RELU, &ty));
        T_CLOSE(y[0], 16202.5, 0);
        T_CLOSE(y[1], 14.75, 0);
        T_CLOSE(y[2], 0, 0);
        T_CLOSE(y[3], 3, 0);
    }
    t_close(ctx);
}

static void test_sizes(tiny_target target)
{
    static const size_t dim[] = { 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 47, 63, 64, 65 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < 300; i++) {
        size_t m = dim[t_rand_below(T_COUNT(dim))], n = dim[t_rand_below(T_COUNT(dim))],
               k = dim[t_rand_below(T_COUNT(dim))];
        static const tiny_dtype types[] = { TINY_F32, TINY_F16, TINY_BF16 };
        whole_f32(ctx, m, n, k, (int)t_rand_below(LAYOUTS), (int)t_rand_below(LAYOUTS), (int)t_rand_below(LAYOUTS),
                  types[t_rand_below(3)]);
    }
    T_RAN_ON(ctx, f32_on(target));
    t_close(ctx);
}

/* Every m from 1 to 18 and every layout of both factors: the edges of tiles, vectors, and the small form. */
static void edges(tiny_ctx *ctx)
{
    size_t m;
    int a, b;
    for (m = 1; m <= 18; m++)
        for (a = 0; a < LAYOUTS; a++)
            for (b = 0; b < LAYOUTS; b++) {
                whole_f32(ctx, m, 37, 20, a, b, DENSE, TINY_F32);
                whole_f32(ctx, 37, m, 20, a, b, TURNED, TINY_F32);
            }
}
static void test_edges(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    edges(ctx);
    t_close(ctx);
}

/* panels that are full, half full, and hardly used */
static void panels(tiny_ctx *ctx)
{
    size_t n;
    for (n = 1; n < 70; n++) {
        whole_f32(ctx, 300, n, 40, DENSE, DENSE, DENSE, TINY_F32);
        whole_f32(ctx, 50, n, 300, DENSE, TURNED, TURNED, TINY_F32);
    }
}
static void test_panels(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    panels(ctx);
    t_close(ctx);
}

/* The tiles that avx512 would have on another processor: its own where 512 bits go in halves, else those of avx2. */
static void test_halves(void)
{
    tiny_ctx *ctx;
    if (!tiny_target_runs_here(TINY_TARGET_AVX512) || !tiny_target_runs_here(TINY_TARGET_AVX2)) return;
    ctx = t_ctx(TINY_TARGET_AVX512, 1);
    tinyi_kernels_fill(ctx->k, TINY_TARGET_AVX512, ctx->cpu ^ TINY_CPU_HALVES);
    T_TRUE((ctx->k->gemm.tile == ctx->k->gemm_f32_tile) == ((ctx->cpu & TINY_CPU_HALVES) != 0));
    edges(ctx);
    panels(ctx);
    whole_f32(ctx, 130, 310, 400, TURNED, TURNED, TURNED, TINY_F32);
    whole_f32(ctx, 410, 300, 900, DENSE, DENSE, DENSE, TINY_F32);
    t_close(ctx);
}

/* Larger than every block: each loop of each form runs more than once; one thread, and more than there are
 * processors. */
static void test_blocks(tiny_target target)
{
    static const struct { size_t m, n, k; int a, b, y; tiny_dtype dtype; } c[] = {
        { 410, 300, 900, DENSE, DENSE, DENSE, TINY_F32 },       { 410, 290, 800, DENSE, TURNED, DENSE, TINY_F32 },
        { 130, 310, 400, TURNED, TURNED, TURNED, TINY_F32 },    { 100, 300, 900, GAPS, GAPS, STEP, TINY_BF16 },
        { 33, 1100, 450, DENSE, DENSE, DENSE, TINY_F16 },       { 40, 1100, 1500, DENSE, TURNED, DENSE, TINY_F32 },
        { 40, 500, 1500, STEP, TURNED, GAPS, TINY_F16 },        { 1100, 20, 1500, DENSE, DENSE, DENSE, TINY_BF16 },
        { 1, 1030, 2500, DENSE, TURNED, DENSE, TINY_F32 },      { 7, 1030, 300, DENSE, TURNED, DENSE, TINY_BF16 },
        { 3, 1500, 700, TURNED, DENSE, DENSE, TINY_F32 },       { 1500, 5, 700, DENSE, STEP, DENSE, TINY_F16 },
        { 2, 40, 5000, DENSE, GAPS, TURNED, TINY_F16 },
    };
    static const int threads[] = { 1, 2, 3, 7 };
    size_t i, t;
    for (t = T_SLOW; t < T_COUNT(threads) - T_SLOW; t++) {
        tiny_ctx *ctx = t_ctx(target, threads[t]);
        for (i = t % 2; i < T_COUNT(c); i += target == TINY_TARGET_SCALAR ? 3 : 2)
            whole_f32(ctx, c[i].m, c[i].n, c[i].k, c[i].a, c[i].b, c[i].y, c[i].dtype);
        T_RAN_ON(ctx, f32_on(target));
        t_close(ctx);
    }
}

static void test_identity(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t sizes[] = { 1, 6, 17, 64, 150 }, s, i;
    for (s = 0; s < T_COUNT(sizes); s++) {
        size_t n = sizes[s];
        float *x = t_rand(n * n, -3.0f, 3.0f), *one = t_guarded(n * n), *y = t_guarded(n * n);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, (tiny_idx)n, (tiny_idx)n), tone = tx, ty = tx;
        memset(one, 0, n * n * sizeof *one);
        for (i = 0; i < n; i++) one[i * n + i] = 1.0f;
        tone.data = one;
        ty.data = y;
        T_OK(tiny_matmul(ctx, &tx, &tone, NULL, TINY_ACT_NONE, &ty));
        T_SAME(y, x, n * n);
        T_OK(tiny_matmul(ctx, &tone, &tx, NULL, TINY_ACT_NONE, &ty));
        T_SAME(y, x, n * n);
        T_WALLS(y, n * n);
    }
    t_close(ctx);
}

/* ---- activations, written down once more, in double */

static double activate(int act, double x)
{
    switch (act) {
    case TINY_ACT_RELU: return x > 0 ? x : 0;
    case TINY_ACT_RELU2: return x > 0 ? x * x : 0;
    case TINY_ACT_SILU: return x / (1 + exp(-x));
    case TINY_ACT_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    case TINY_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    default: return x;
    }
}

/* the bound of the row: roundings times the product of magnitudes, passed through the activation */
static double allowed(int act, double magnitude, double roundings)
{
    double u = 1.0 / 16777216.0;
    return act == TINY_ACT_NONE
               ? roundings * u * magnitude
               : (2.3 * roundings + 8) * u * (act == TINY_ACT_RELU2 ? magnitude * magnitude : magnitude);
}

static void test_activations(tiny_target target)
{
    static const size_t shape[][3] = {
        { 1, 50, 70 }, { 5, 33, 40 }, { 20, 30, 10 }, { 70, 90, 300 }, { 130, 140, 200 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t s, i, j, p;
    int act;
    for (s = 0; s < T_COUNT(shape); s++)
        for (act = TINY_ACT_NONE; act < TINY_ACT_COUNT; act++) {
            size_t m = shape[s][0], n = shape[s][1], k = shape[s][2];
            float *a = t_rand(m * k, -1.0f, 1.0f), *b = t_rand(n * k, -1.0f, 1.0f), *bias = t_rand(n, -2.0f, 2.0f),
                  *y = t_guarded(m * n);
            tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, (tiny_idx)m, (tiny_idx)k),
                        tb = tiny_tensor_2d(b, TINY_F32, (tiny_idx)n, (tiny_idx)k);
            tiny_tensor tv = tiny_tensor_1d(bias, TINY_F32, (tiny_idx)n),
                        ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)m, (tiny_idx)n);
            tb = tiny_tensor_swap(tb, 0, 1);
            T_OK(tiny_matmul(ctx, &ta, &tb, &tv, act, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++) {
                    double sum = (double)bias[j], magnitude = fabs((double)bias[j]);
                    for (p = 0; p < k; p++) {
                        sum += (double)a[i * k + p] * (double)b[j * k + p];
                        magnitude += fabs((double)a[i * k + p] * (double)b[j * k + p]);
                    }
                    T_CLOSE(y[i * n + j], activate(act, sum), allowed(act, magnitude, (double)k + 2));
                }
            T_WALLS(y, m * n);
        }
    t_close(ctx);
}

/* Batches against the same products one by one; a side without a batch, or with 1, serves all. */
static void test_batches(tiny_target target)
{
    static const struct { int ra, rb; tiny_idx a0, a1, b0, b1; size_t m, n, k;
    } c[] = {
        { 3, 3, 1, 5, 1, 5, 7, 9, 11 },   { 4, 3, 2, 3, 1, 3, 16, 20, 33 }, { 4, 2, 2, 3, 1, 1, 9, 40, 30 },
        { 2, 4, 1, 1, 3, 2, 12, 33, 20 }, { 4, 4, 2, 1, 1, 3, 5, 6, 7 },    { 3, 3, 1, 3, 1, 1, 1, 100, 70 },
        { 4, 4, 2, 2, 2, 2, 1, 65, 40 },  { 3, 3, 1, 4, 1, 4, 70, 80, 90 }, { 3, 2, 1, 70, 1, 1, 1, 30, 40 },
        { 3, 3, 1, 2, 1, 2, 100, 7, 50 },
    };
    static const int threads[] = { 1, 3 };
    size_t q, t, i, p;
    for (t = 0; t < T_COUNT(threads); t++)
        for (q = 0; q < T_COUNT(c); q++) {
            tiny_ctx *ctx = t_ctx(target, threads[t]);
            const size_t m = c[q].m, n = c[q].n, k = c[q].k;
            const tiny_idx g0 = c[q].a0 > c[q].b0 ? c[q].a0 : c[q].b0, g1 = c[q].a1 > c[q].b1 ? c[q].a1 : c[q].b1;
            const int r = c[q].ra > c[q].rb ? c[q].ra : c[q].rb;
            const size_t na = (size_t)(c[q].a0 * c[q].a1) * m * k, nb = (size_t)(c[q].b0 * c[q].b1) * n * k,
                         ny = (size_t)(g0 * g1) * m * n;
            float *a = t_guarded(na), *b = t_guarded(nb), *y = t_guarded(ny);
            tiny_idx da[4], db[4], dy[4];
            tiny_tensor ta, tb, ty;
            da[0] = c[q].a0; da[1] = c[q].a1; da[2] = (tiny_idx)m; da[3] = (tiny_idx)k;
            db[0] = c[q].b0; db[1] = c[q].b1; db[2] = (tiny_idx)k; db[3] = (tiny_idx)n;
            dy[0] = g0; dy[1] = g1; dy[2] = (tiny_idx)m; dy[3] = (tiny_idx)n;
            for (i = 0; i < na; i++) a[i] = (float)(int)t_rand_below(17) - 8.0f;
            for (i = 0; i < nb; i++) b[i] = (float)(int)t_rand_below(17) - 8.0f;
            ta = tiny_tensor_nd(a, TINY_F32, c[q].ra, da + 4 - c[q].ra);
            tb = tiny_tensor_nd(b, TINY_F32, c[q].rb, db + 4 - c[q].rb);
            ty = tiny_tensor_nd(y, TINY_F32, r, dy + 4 - r);
            T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
            for (i = 0; i < ny; i++) {
                size_t col = i % n, row = i / n % m, b1 = i / (n * m) % (size_t)g1, b0 = i / (n * m) / (size_t)g1;
                const float *pa =
                    a + ((c[q].a0 > 1 ? b0 : 0) * (size_t)c[q].a1 + (c[q].a1 > 1 ? b1 : 0)) * m * k + row * k;
                const float *pb = b + ((c[q].b0 > 1 ? b0 : 0) * (size_t)c[q].b1 + (c[q].b1 > 1 ? b1 : 0)) * n * k + col;
                double sum = 0;
                for (p = 0; p < k; p++) sum += (double)pa[p] * (double)pb[p * n];
                if (!T_CLOSE(y[i], sum, 0)) {
                    t_fail(__FILE__, __LINE__, "in case %lu, %d threads, element %lu", (unsigned long)q, threads[t],
                           (unsigned long)i);
                    break;
                }
            }
            T_WALLS(y, ny);
            t_close(ctx);
        }
}

/* More rows and more depth than are packed for all at once: an early thread must not overwrite packed columns that
 * others still read. */
static void test_phases(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 3);
    whole_f32(ctx, 70, 100, 16000, DENSE, DENSE, DENSE, TINY_F32);
    whole_f32(ctx, 900, 33, 8000, GAPS, TURNED, DENSE, TINY_F16);
    t_close(ctx);
}

/* Infinities and NaN stay in their own row and column: nothing leaks through padding or neighbours. */
static void test_not_finite(tiny_target target)
{
    static const size_t shape[][3] = {
        { 1, 33, 50 }, { 6, 40, 17 }, { 13, 19, 23 }, { 70, 75, 400 }, { 120, 130, 60 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t s, i, j;
    int turned;
    for (s = 0; s < T_COUNT(shape); s++)
        for (turned = 0; turned < 2; turned++) {
            size_t m = shape[s][0], n = shape[s][1], k = shape[s][2], row = m / 2, col = n - 1;
            float *a = t_guarded(m * k), *b = t_guarded(n * k), *y = t_guarded(m * n);
            tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, (tiny_idx)m, (tiny_idx)k), tb,
                        ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)m, (tiny_idx)n);
            tb = turned ? tiny_tensor_swap(tiny_tensor_2d(b, TINY_F32, (tiny_idx)n, (tiny_idx)k), 0, 1)
                        : tiny_tensor_2d(b, TINY_F32, (tiny_idx)k, (tiny_idx)n);
            for (i = 0; i < m * k; i++) a[i] = 1.0f;
            for (i = 0; i < n * k; i++) b[i] = 2.0f;
            a[row * k + k - 1] = INFINITY;
            b[turned ? col * k : col] = NAN;
            T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++)
                    T_CLOSE(y[i * n + j], j == col ? (double)NAN : i == row ? (double)INFINITY : 2.0 * (double)k, 0);
            b[turned ? col * k : col] = 2.0f;
            b[turned ? k - 1 : (k - 1) * n] = 0.0f;         /* infinity times zero */
            T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_RELU, &ty));
            T_CLOSE(y[row * n], NAN, 0);
            T_CLOSE(y[row * n + col], n > 1 ? INFINITY : NAN, 0);
        }
    t_close(ctx);
}

/* ---- int8 */

static void whole_i8(tiny_ctx *ctx, size_t m, size_t n, size_t k, int layout_a, int layout_b, int layout_y,
                     tiny_dtype dtype)
{
    matrix a = make(layout_a, dtype, m, k), b = make(layout_b, TINY_I8, k, n), y = make(layout_y, TINY_I32, m, n);
    const int *va = dtype == TINY_U8 ? fill(&a, 0, 255) : fill(&a, -128, 127), *vb = fill(&b, -128, 127);
    tiny_tensor ta = view(&a), tb = view(&b), ty = view(&y);
    int32_t *want = (int32_t *)t_keep((y.count + 1) * sizeof *want);
    size_t i, j;
    memcpy(want, y.memory, y.count * sizeof *want);
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) want[where(&y, i, j)] = (int32_t)exact(va, vb, i, j, n, k);
    T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
    if (!t_same(y.memory, want, y.count, sizeof *want, __FILE__, __LINE__, "y and the exact product"))
        t_fail(__FILE__, __LINE__, "at %lu x %lu x %lu, layouts %d %d %d, %s", (unsigned long)m, (unsigned long)n,
               (unsigned long)k, layout_a, layout_b, layout_y, tiny_dtype_name(dtype));
    T_WALLS(y.memory, y.count);
}

static void test_i8_sizes(tiny_target target)
{
    static const size_t dim[] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 130 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < 300; i++) {
        size_t m = dim[t_rand_below(T_COUNT(dim))], n = dim[t_rand_below(T_COUNT(dim))],
               k = dim[t_rand_below(T_COUNT(dim))];
        whole_i8(ctx, m, n, k, (int)t_rand_below(LAYOUTS), (int)t_rand_below(LAYOUTS), (int)t_rand_below(LAYOUTS),
                 i % 2 ? TINY_U8 : TINY_I8);
    }
    whole_i8(ctx, 40, 40, 40, DENSE, DENSE, DENSE, TINY_I8);
    T_RAN_ON(ctx, target);
    t_close(ctx);
}

static void test_i8_blocks(tiny_target target)
{
    static const struct { size_t m, n, k; int a, b, y; tiny_dtype dtype;
    } c[] = {
        { 300, 290, 1100, DENSE, DENSE, DENSE, TINY_I8 },  { 140, 300, 2100, DENSE, TURNED, DENSE, TINY_U8 },
        { 33, 600, 700, TURNED, TURNED, TURNED, TINY_I8 }, { 40, 270, 1500, GAPS, GAPS, STEP, TINY_U8 },
        { 1, 700, 1300, DENSE, TURNED, DENSE, TINY_I8 },   { 6, 500, 1300, STEP, TURNED, GAPS, TINY_U8 },
        { 500, 3, 1030, DENSE, DENSE, DENSE, TINY_I8 },
    };
    static const int threads[] = { 1, 2, 3, 7 };
    size_t i, t;
    for (t = T_SLOW; t < T_COUNT(threads) - T_SLOW; t++) {
        tiny_ctx *ctx = t_ctx(target, threads[t]);
        for (i = t % 2; i < T_COUNT(c); i += 2)
            whole_i8(ctx, c[i].m, c[i].n, c[i].k, c[i].a, c[i].b, c[i].y, c[i].dtype);
        t_close(ctx);
    }
}

/* The ends of the ranges over a long k: no intermediate sum may saturate, and the result wraps where 32 bits end. */
static void test_i8_extremes(tiny_target target)
{
    static const struct { int a, b; tiny_dtype dtype; size_t k;
    } c[] = {
        { -128, -128, TINY_I8, 70000 }, { -128, 127, TINY_I8, 70000 }, { 127, -128, TINY_I8, 70001 },
        { 255, -128, TINY_U8, 65792 },  { 255, 127, TINY_U8, 65800 },  { -128, -128, TINY_I8, 140000 },
        { 255, -128, TINY_U8, 140003 }, { 128, -128, TINY_U8, 6000 },
    };
    static const size_t shape[][2] = { { 1, 5 }, { 5, 18 }, { 33, 34 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t q, s, i;
    for (q = 0; q < T_COUNT(c); q++)
        for (s = 0; s < T_COUNT(shape); s++) {
            size_t m = shape[s][0], n = shape[s][1], k = c[q].k;
            uint8_t *a = (uint8_t *)t_guarded_bytes(m * k), *b = (uint8_t *)t_guarded_bytes(n * k);
            int32_t *y = (int32_t *)t_guarded_bytes(m * n * sizeof(int32_t)), want;
            tiny_tensor ta = tiny_tensor_2d(a, c[q].dtype, (tiny_idx)m, (tiny_idx)k),
                        tb = tiny_tensor_2d(b, TINY_I8, (tiny_idx)n, (tiny_idx)k);
            tiny_tensor ty = tiny_tensor_2d(y, TINY_I32, (tiny_idx)m, (tiny_idx)n);
            uint32_t bits = (uint32_t)((int64_t)c[q].a * c[q].b * (int64_t)k);
            memset(a, c[q].a & 0xff, m * k);
            memset(b, c[q].b & 0xff, n * k);
            memcpy(&want, &bits, 4);
            tb = tiny_tensor_swap(tb, 0, 1);
            T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
            for (i = 0; i < m * n; i++) T_EQ_INT(y[i], want);
            T_WALLS(y, m * n);
        }
    t_close(ctx);
}

/* A few rows of each batch, b in rows along k: the pieces of one batch are given out before those of the next. */
static void test_i8_thin_batches(tiny_target target)
{
    enum { Q = 4, M = 2, N = 50, K = 37 };
    static const int threads[] = { 1, 3 };
    size_t t, i, p;
    for (t = 0; t < T_COUNT(threads); t++) {
        tiny_ctx *ctx = t_ctx(target, threads[t]);
        int8_t *a = (int8_t *)t_guarded_bytes(Q * M * K), *b = (int8_t *)t_guarded_bytes(Q * N * K);
        int32_t *y = (int32_t *)t_guarded_bytes(Q * M * N * 4);
        tiny_tensor ta = tiny_tensor_3d(a, TINY_I8, Q, M, K),
                    tb = tiny_tensor_swap(tiny_tensor_3d(b, TINY_I8, Q, N, K), 1, 2),
                    ty = tiny_tensor_3d(y, TINY_I32, Q, M, N);
        for (i = 0; i < Q * M * K; i++) a[i] = (int8_t)((int)t_rand_below(256) - 128);
        for (i = 0; i < Q * N * K; i++) b[i] = (int8_t)((int)t_rand_below(256) - 128);
        T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
        for (i = 0; i < Q * M * N; i++) {
            int32_t sum = 0;
            for (p = 0; p < K; p++) sum += (int32_t)a[i / N * K + p] * b[(i / (M * N) * N + i % N) * K + p];
            if (!T_EQ_INT(y[i], sum)) break;
        }
        T_WALLS(y, Q * M * N);
        t_close(ctx);
    }
}

static void test_i8_scales(tiny_target target)
{
    static const size_t shape[][3] = { { 1, 60, 90 }, { 4, 33, 70 }, { 37, 41, 130 }, { 130, 70, 60 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t s, i, j, p;
    int with;
    for (s = 0; s < T_COUNT(shape); s++)
        for (with = 1; with < 8; with++) {  /* bits: scale_a, scale_b, bias and activation */
            size_t m = shape[s][0], n = shape[s][1], k = shape[s][2];
            matrix a = make(DENSE, with & 1 ? TINY_I8 : TINY_U8, m, k), b = make(TURNED, TINY_I8, k, n);
            const int *va = with & 1 ? fill(&a, -128, 127) : fill(&a, 0, 255), *vb = fill(&b, -128, 127);
            float *sa = t_rand(m, 0.001f, 0.1f), *sb = t_rand(n, 0.001f, 0.1f), *bias = t_rand(n, -3.0f, 3.0f),
                  *y = t_guarded(m * n);
            tiny_tensor ta = view(&a), tb = view(&b), ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)m, (tiny_idx)n);
            tiny_tensor tsa = tiny_tensor_1d(sa, TINY_F32, (tiny_idx)m),
                        tsb = tiny_tensor_1d(sb, TINY_F32, (tiny_idx)n),
                        tv = tiny_tensor_1d(bias, TINY_F32, (tiny_idx)n);
            int act = with & 4 ? TINY_ACT_SILU : TINY_ACT_NONE;
            if (!(with & 3)) {
                T_STATUS(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, &tv, act, &ty), TINY_E_ARGUMENT, "without scales");
                continue;
            }
            T_OK(tiny_matmul_i8(ctx, &ta, &tb, with & 1 ? &tsa : NULL, with & 2 ? &tsb : NULL, with & 4 ? &tv : NULL,
                                act, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++) {
                    double f = (with & 1 ? (double)sa[i] : 1) * (with & 2 ? (double)sb[j] : 1), magnitude = 0,
                           want = f * (double)exact(va, vb, i, j, n, k);
                    for (p = 0; p < k; p++) magnitude += fabs(f * va[i * k + p] * vb[p * n + j]);
                    if (with & 4) {
                        want += (double)bias[j];
                        magnitude += fabs((double)bias[j]);
                    }
                    T_CLOSE(y[i * n + j], activate(act, want), allowed(act, magnitude, 6));
                }
            T_WALLS(y, m * n);
        }
    t_close(ctx);
}

/* ---- nothing to do, and refused products */

static void test_empty(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_guarded(200), *y = t_guarded(60), bias[6] = { -1, 0, 1, 2, 3, 4 };
    tiny_tensor ta = tiny_tensor_2d(x, TINY_F32, 10, 0), tb = tiny_tensor_2d(x, TINY_F32, 0, 6),
                ty = tiny_tensor_2d(y, TINY_F32, 10, 6), tv = tiny_tensor_1d(bias, TINY_F32, 6);
    tiny_tensor ti = tiny_tensor_2d(x, TINY_I8, 10, 0), tj = tiny_tensor_2d(x, TINY_I8, 0, 6),
                tz = tiny_tensor_2d(y, TINY_I32, 10, 6);
    int i;
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    for (i = 0; i < 60; i++) T_CLOSE(y[i], 0, 0);
    T_OK(tiny_matmul(ctx, &ta, &tb, &tv, TINY_ACT_RELU, &ty));
    for (i = 0; i < 60; i++) T_CLOSE(y[i], i % 6 ? i % 6 - 1 : 0, 0);
    T_OK(tiny_matmul_i8(ctx, &ti, &tj, NULL, NULL, NULL, TINY_ACT_NONE, &tz));
    for (i = 0; i < 60; i++) T_CLOSE(y[i], 0, 0);
    ta.dim[0] = ty.dim[0] = 1;              /* one row: as vectors */
    memset(y, 0x77, 24);
    T_OK(tiny_matmul(ctx, &ta, &tb, &tv, TINY_ACT_NONE, &ty));
    for (i = 0; i < 6; i++) T_CLOSE(y[i], i - 1, 0);
    ta = tiny_tensor_2d(x, TINY_F32, 0, 7);
    tb = tiny_tensor_2d(x, TINY_F32, 7, 6);
    ty = tiny_tensor_2d(y, TINY_F32, 0, 6);
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    ta = tiny_tensor_2d(x, TINY_F32, 3, 7);
    tb = tiny_tensor_2d(x, TINY_F32, 7, 0);
    ty = tiny_tensor_2d(y, TINY_F32, 3, 0);
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    T_WALLS(y, 60);
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(400, -1, 1), y[100];
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 4, 5), b = tiny_tensor_2d(x + 100, TINY_F32, 5, 6),
                out = tiny_tensor_2d(y, TINY_F32, 4, 6), v, bad;
    v = tiny_tensor_1d(x + 200, TINY_F32, 6);
    T_OK(tiny_matmul(ctx, &a, &b, &v, TINY_ACT_NONE, &out));
    T_STATUS(tiny_matmul(ctx, NULL, &b, NULL, TINY_ACT_NONE, &out), TINY_E_ARGUMENT, "matmul");
    T_STATUS(tiny_matmul(ctx, &a, &a, NULL, TINY_ACT_NONE, &out), TINY_E_SHAPE,
             "a row of a has 5 numbers, a column of b has 4");
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, 77, &out), TINY_E_ARGUMENT, "activation 77");
    bad = tiny_tensor_1d(x, TINY_F32, 5);
    T_STATUS(tiny_matmul(ctx, &bad, &b, NULL, TINY_ACT_NONE, &out), TINY_E_SHAPE, "two axes");
    bad = tiny_tensor_1d(x, TINY_F32, 5);
    T_STATUS(tiny_matmul(ctx, &a, &b, &bad, TINY_ACT_NONE, &out), TINY_E_SHAPE, "bias");
    bad = tiny_tensor_2d(x + 100, TINY_F64, 5, 6);
    T_STATUS(tiny_matmul(ctx, &a, &bad, NULL, TINY_ACT_NONE, &out), TINY_E_DTYPE, "f64");
    bad = tiny_tensor_2d(x + 100, TINY_I8, 5, 6);
    T_STATUS(tiny_matmul(ctx, &a, &bad, NULL, TINY_ACT_NONE, &out), TINY_E_DTYPE, "i8");
    T_STATUS(tiny_matmul_i8(ctx, &a, &bad, NULL, NULL, NULL, TINY_ACT_NONE, &out), TINY_E_DTYPE, "f32");
    bad = tiny_tensor_2d(y, TINY_F32, 6, 4);
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &bad), TINY_E_SHAPE, "output 0");
    bad = tiny_tensor_2d(x, TINY_F32, 4, 6);
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &bad), TINY_E_ALIAS, "overlaps");
    {
        tiny_tensor a3 = tiny_tensor_3d(x, TINY_F32, 2, 4, 5), b3 = tiny_tensor_3d(x + 100, TINY_F32, 3, 5, 6),
                    y3 = tiny_tensor_3d(y, TINY_F32, 2, 4, 6);
        T_STATUS(tiny_matmul(ctx, &a3, &b3, NULL, TINY_ACT_NONE, &y3), TINY_E_SHAPE, "batches");
    }
    t_close(ctx);
}

static void test_memory_fails(void)
{
    static const size_t shape[][3] = { { 2, 30, 40 }, { 70, 80, 90 }, { 20, 100, 100 }, { 100, 110, 120 } };
    size_t s;
    for (s = 0; s < T_COUNT(shape); s++) {
        size_t m = shape[s][0], n = shape[s][1], k = shape[s][2];
        float *a = t_rand(m * k, -1, 1), *b = t_rand(n * k, -1, 1), *y = t_guarded(m * n);
        int8_t *p = (int8_t *)t_keep(m * k), *q = (int8_t *)t_keep(n * k);
        tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, (tiny_idx)m, (tiny_idx)k),
                    tb = tiny_tensor_2d(b, TINY_F32, (tiny_idx)k, (tiny_idx)n);
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)m, (tiny_idx)n),
                    ti = tiny_tensor_2d(p, TINY_I8, (tiny_idx)m, (tiny_idx)k);
        tiny_tensor tj = tiny_tensor_2d(q, TINY_I8, (tiny_idx)k, (tiny_idx)n),
                    tz = tiny_tensor_2d(y, TINY_I32, (tiny_idx)m, (tiny_idx)n);
        T_EACH_ALLOCATION(
            tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
            tiny_ctx *ctx = NULL;
            tiny_status st = tiny_ctx_open(&desc, &ctx);
            t_use(ctx);
            if (!st) st = tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty);
            if (!st) st = tiny_matmul_i8(ctx, &ti, &tj, NULL, NULL, NULL, TINY_ACT_NONE, &tz);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tiny_ctx_close(ctx);
            t_use(NULL);
        )
    }
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_sizes);
    T_RUN_TARGETS(test_edges);
    T_RUN_TARGETS(test_panels);
    T_RUN(test_halves);
    T_RUN_TARGETS(test_blocks);
    T_RUN_TARGETS(test_identity);
    T_RUN_TARGETS(test_activations);
    T_RUN_TARGETS(test_batches);
    T_RUN_TARGETS(test_phases);
    T_RUN_TARGETS(test_not_finite);
    T_RUN_TARGETS(test_i8_sizes);
    T_RUN_TARGETS(test_i8_blocks);
    T_RUN_TARGETS(test_i8_extremes);
    T_RUN_TARGETS(test_i8_thin_batches);
    T_RUN_TARGETS(test_i8_scales);
    T_RUN_TARGETS(test_empty);
    T_RUN(test_bad_input);
    T_RUN(test_memory_fails);
    return t_done();
}
