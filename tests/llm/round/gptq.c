/* tests/llm/round/gptq.c - GPTQ
 *
 * Truth    a layer worked by hand; for every column the remaining weights, solved again by least squares
 *          given the codes so far (the normal equations, without U); U^T U H = I; the loss as a sum over all pairs of
 *          inputs, and as the squared error of the outputs; plain rounding where H is the identity; blocks that read
 *          back as the same grid */
#include "t.h"
#include <math.h>

typedef struct layer { tiny_idx rows, n, tokens; float *w, *x; tllm_calib *calib; tiny_tensor h; } layer;

/* inputs that depend on each other: a mixture of n / 4 sources, and noise */
static layer make(tiny_ctx *ctx, tiny_idx rows, tiny_idx n, tiny_idx tokens, float noise)
{
    layer l;
    const tiny_idx causes = n / 4 + 1;
    float *mix = t_rand((size_t)(causes * n), -1, 1), *z;
    tiny_idx t, i, k;
    memset(&l, 0, sizeof l);
    l.rows = rows;
    l.n = n;
    l.tokens = tokens;
    l.w = t_rand((size_t)(rows * n), -1, 1);
    l.x = t_rand((size_t)(tokens * n), -noise, noise);
    z = t_rand((size_t)(tokens * causes), -1, 1);
    for (t = 0; t < tokens; t++)
        for (i = 0; i < n; i++)
            for (k = 0; k < causes; k++) l.x[t * n + i] += z[t * causes + k] * mix[k * n + i];
    T_OK(tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &l.calib));
    T_OK(tllm_calib_add(ctx, l.calib, l.x, tokens, n));
    l.h = tllm_calib_products(l.calib);
    return l;
}
static tllm_plain room(tiny_ctx *ctx, const tllm_plain_desc *d, const layer *l)
{
    tllm_plain_sizes size;
    tllm_plain q;
    T_OK(tllm_plain_size(ctx, d, l->rows, l->n, &size));
    q.code = (uint8_t *)t_guarded_bytes(size.codes);
    q.scale = (uint16_t *)t_guarded_bytes(2 * size.scales);
    q.zero = (uint8_t *)t_guarded_bytes(size.scales);
    return q;
}
/* the squared error of all outputs: J without H */
static double output_error(const layer *l, const float *v)
{
    double sum = 0;
    tiny_idx t, r, i;
    for (t = 0; t < l->tokens; t++)
        for (r = 0; r < l->rows; r++) {
            double y = 0;
            for (i = 0; i < l->n; i++)
                y += ((double)l->w[r * l->n + i] - (v ? (double)v[r * l->n + i] : 0)) * (double)l->x[t * l->n + i];
            sum += y * y;
        }
    return sum;
}
static float half_of(uint16_t h)
{
    const unsigned char b[2] = { (unsigned char)h, (unsigned char)(h >> 8) };
    float x;
    tllm_format_of(TLLM_FORMAT_F16)->unpack(b, &x, 1);
    return x;
}

/* X rows (1,.9),(.9,1),(1,1); the integer grid is ASYM of 2 bits with scale 1: a row that reaches from -1 to 2 has
 * it */
static void test_by_hand(tiny_target target)
{
    static double h[4] = { 5.62, 5.60, 5.60, 5.62 }, none[4] = { 1, 0, 0, 1 };
    static const float w[4] = { 0.4f, 0.4f, -1.0f, 2.0f };
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, 2, 2), ti = tiny_tensor_2d(none, TINY_F64, 2, 2);
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_gptq_desc d;
    tllm_gptq_about about;
    uint8_t code[4], zero[1];
    uint16_t scale[1];
    tllm_plain q;
    float u[4], back[4];
    double loss;
    T_OK(tllm_gptq_triangle(ctx, &th, 0.01f, u));
    T_CLOSE(u[0], 2.570218, 2e-6);
    T_CLOSE(u[1], -2.535714, 2e-6);
    T_TRUE(u[2] == 0.0f);
    T_CLOSE(u[3], 0.419731, 1e-6);
    memset(&d, 0, sizeof d);
    q.code = code;
    q.scale = scale;
    q.zero = zero;
    d.grid.kind = TLLM_PLAIN_ASYM;
    d.grid.bits = 2;
    d.grid.group = TLLM_PLAIN_TENSOR;
    T_OK(tllm_gptq(ctx, &d, w, 2, 2, &th, &q, &about));
    T_OK(tllm_plain_expand(ctx, &d.grid, &q, 2, 2, back));
    T_TRUE(half_of(scale[0]) == 1.0f && zero[0] == 1);
    T_TRUE(back[0] == 0.0f && back[1] == 1.0f && back[2] == -1.0f && back[3] == 2.0f);
    T_OK(tllm_gptq_loss(ctx, w, back, 1, 2, &th, &loss));
    T_CLOSE(loss, 0.2344, 1e-6);
    /* with the damping, and nothing from the row that is exact */
    T_CLOSE(about.loss, 0.2344 + 0.01 * 5.62 * (0.16 + 0.36), 1e-5);
    T_CLOSE(about.damp, 0.01, 1e-9);
    T_OK(tllm_plain_round(ctx, &d.grid, w, 2, 2, NULL, &q));
    T_OK(tllm_plain_expand(ctx, &d.grid, &q, 2, 2, back));
    T_TRUE(back[0] == 0.0f && back[1] == 0.0f);
    T_OK(tllm_gptq_loss(ctx, w, back, 1, 2, &th, &loss));
    T_CLOSE(loss, 3.5904, 1e-6);
    T_OK(tllm_gptq(ctx, &d, w, 2, 2, &ti, &q, NULL));       /* nothing to compensate: RTN */
    T_OK(tllm_plain_expand(ctx, &d.grid, &q, 2, 2, back));
    T_TRUE(back[0] == 0.0f && back[1] == 0.0f);
    t_close(ctx);
    T_PROOF("quantization 0", "damping 1%, U = [[2.570218,-2.535714],[0,0.419731]]");
    T_PROOF("quantization 0", "RTN gives (0,0) with J=3.5904, GPTQ gives (0,1) with J=0.2344");
}

/* Two inputs, the second with a hundred times the energy of the first; the integer grid -1 .. 2 of the layer above. In
 * order, the first is rounded and the second cannot compensate it: (0, 0), J = .16 (1 + 2 9.5 + 100). Largest first,
 * the second is rounded to 0, and its error carries the first to the end of the grid: (2, 0), J = 1.6^2 - 2 1.6 .4
 * 9.5 + .16 100. With the inputs exchanged, both orders are the second. */
static void test_act_order(tiny_target target)
{
    static double h[4] = { 1, 9.5, 9.5, 100 }, turned[4] = { 100, 9.5, 9.5, 1 };
    static const float w[4] = { 0.4f, 0.4f, -1.0f, 2.0f };
    tiny_ctx *ctx = t_ctx(target, 2);
    int way, first;
    for (way = 0; way < 2; way++)
        for (first = 0; first < 2; first++) {
            const tiny_tensor th = tiny_tensor_2d(way ? turned : h, TINY_F64, 2, 2);
            const int carried = way || first, large = way ? 0 : 1;
            tllm_gptq_desc d;
            tllm_plain q;
            uint8_t code[4], zero[1];
            uint16_t scale[1];
            float back[4];
            double loss;
            memset(&d, 0, sizeof d);
            q.code = code;
            q.scale = scale;
            q.zero = zero;
            d.grid.kind = TLLM_PLAIN_ASYM;
            d.grid.bits = 2;
            d.grid.group = TLLM_PLAIN_TENSOR;
            d.act_order = first;
            T_OK(tllm_gptq(ctx, &d, w, 2, 2, &th, &q, NULL));
            T_OK(tllm_plain_expand(ctx, &d.grid, &q, 2, 2, back));
            T_TRUE(back[large] == 0.0f && back[1 - large] == (carried ? 2.0f : 0.0f) && back[2] == -1.0f &&
                   back[3] == 2.0f);
            T_OK(tllm_gptq_loss(ctx, w, back, 1, 2, &th, &loss));
            T_CLOSE(loss, carried ? 6.4 : 19.2, 1e-5);
        }
    t_close(ctx);
}

static void test_triangle(tiny_target target)
{
    static const short sizes[] = { 1, 2, 7, 64, 130, 200 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t s;
    for (s = 0; s < T_COUNT(sizes); s++) {
        const tiny_idx n = sizes[s];
        layer l = make(ctx, 1, n, 2 * n, 0.3f);
        const double *h = (const double *)l.h.data;
        float *u = t_guarded((size_t)(n * n));
        double mean = 0;
        tiny_idx i, j, k, m;
        T_OK(tllm_gptq_triangle(ctx, &l.h, 0, u));
        for (i = 0; i < n; i++) mean += h[i * n + i] / (double)n;
        for (i = 0; i < n; i++) {           /* U (H + 0.01 mean I) U^T = I */
            T_TRUE(u[i * n + i] > 0.0f);
            for (j = 0; j < n; j += 1 + n / 9) {
                double sum = 0;
                for (k = i; k < n; k++)
                    for (m = j; m < n; m++)
                        sum += (double)u[i * n + k] * (double)u[j * n + m] *
                               ((k <= m ? h[k * n + m] : h[m * n + k]) + (k == m ? 0.01 * mean : 0));
                T_CLOSE(sum, i == j, 1e-3);
                if (j < i) T_TRUE(u[i * n + j] == 0.0f);
            }
        }
        T_WALLS(u, 0);
        tllm_calib_close(ctx, l.calib);
        t_free_blocks();
    }
    t_close(ctx);
}

/* after codes 0 .. i - 1 of a row the other weights are those of least J: H_FF (w_F - v) = -H_FS (w_S - q_S), solved by
 * elimination */
static void least(const double *h, tiny_idx n, double mean, tiny_idx i, const double *off, double *v)
{
    const tiny_idx m = n - i;
    double a[24][25];
    tiny_idx r, c, k;
    for (r = 0; r < m; r++) {
        for (c = 0; c < m; c++)
            a[r][c] = (r <= c ? h[(i + r) * n + i + c] : h[(i + c) * n + i + r]) + (r == c ? 0.01 * mean : 0);
        a[r][m] = 0;
        for (k = 0; k < i; k++) a[r][m] += h[k * n + i + r] * off[k];
    }
    for (k = 0; k < m; k++)
        for (r = 0; r < m; r++)
            if (r != k) {
                const double f = a[r][k] / a[k][k];
                for (c = k; c <= m; c++) a[r][c] -= f * a[k][c];
            }
    for (r = 0; r < m; r++) v[r] = a[r][m] / a[r][r];
}
static void test_least_squares(tiny_target target)
{
    enum { ROWS = 12, N = 22 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int bits, near = 0, all = 0;
    for (bits = 2; bits <= 4; bits++) {
        layer l = make(ctx, ROWS, N, 60, 0.4f);
        const double *h = (const double *)l.h.data;
        tllm_gptq_desc d;
        tllm_gptq_about about;
        tllm_plain q;
        double mean = 0, loss = 0;
        tiny_idx r, i, k;
        memset(&d, 0, sizeof d);
        d.grid.bits = bits;
        d.grid.group = TLLM_PLAIN_ROW;
        q = room(ctx, &d.grid, &l);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
        for (i = 0; i < N; i++) mean += h[i * N + i] / N;
        for (r = 0; r < ROWS; r++) {
            double off[N], v[N];
            const double s = (double)half_of(q.scale[r]), z = q.zero[r];
            for (i = 0; i < N; i++) {
                double w, u;
                least(h, N, mean, i, off, v);
                w = (double)l.w[r * N + i] + v[0];
                u = fmax(0, fmin((1 << bits) - 1, nearbyint(w / s) + z));
                all++;
                if (q.code[r * N + i] != (int)u) {          /* a weight in the middle of two codes may go either way */
                    near++;
                    T_CLOSE(fabs(w / s - floor(w / s)), 0.5, 1e-3);
                }
                off[i] = (double)l.w[r * N + i] - s * (q.code[r * N + i] - z);
            }
            for (i = 0; i < N; i++)
                for (k = 0; k < N; k++)
                    loss += off[i] * off[k] * ((i <= k ? h[i * N + k] : h[k * N + i]) + (i == k ? 0.01 * mean : 0));
        }
        T_CLOSE(about.loss, loss, 1e-4 * loss);             /* the sum of e^2 is tr(D (H + damping) D^T) */
        T_EQ_INT(about.dead + about.doubled + about.rounded, 0);
        tllm_calib_close(ctx, l.calib);
        t_free_blocks();
    }
    T_TRUE(near * 100 <= all);
    t_close(ctx);
}

/* the headline's layer: 64 x 64 weights, 256 correlated inputs; and J counted in two ways */
static void test_headline(tiny_target target)
{
    enum { SEEDS = 12 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int bits;
    for (bits = 2; bits <= 4; bits++) {
        double ratio = 0;
        int seed;
        for (seed = 0; seed < SEEDS; seed++) {
            layer l = make(ctx, 64, 64, 256, 1.0f);
            float *back = t_guarded(64 * 64);
            tllm_gptq_desc d;
            tllm_plain q;
            double rtn, gptq, loss;
            memset(&d, 0, sizeof d);
            d.grid.bits = bits;
            d.grid.group = TLLM_PLAIN_ROW;
            q = room(ctx, &d.grid, &l);
            T_OK(tllm_plain_round(ctx, &d.grid, l.w, 64, 64, NULL, &q));
            T_OK(tllm_plain_expand(ctx, &d.grid, &q, 64, 64, back));
            T_OK(tllm_gptq_loss(ctx, l.w, back, 64, 64, &l.h, &loss));
            rtn = output_error(&l, back);
            T_CLOSE(loss, rtn, 1e-5 * rtn);
            T_OK(tllm_gptq(ctx, &d, l.w, 64, 64, &l.h, &q, NULL));
            T_OK(tllm_plain_expand(ctx, &d.grid, &q, 64, 64, back));
            T_OK(tllm_gptq_loss(ctx, l.w, back, 64, 64, &l.h, &loss));
            gptq = output_error(&l, back);
            T_CLOSE(loss, gptq, 1e-5 * gptq);
            T_TRUE(gptq < rtn);
            ratio += rtn / gptq / SEEDS;
            tllm_calib_close(ctx, l.calib);
            t_free_blocks();
        }
        /* 1.9 to 2.0 for inputs that depend on each other less; here 2.4 to 2.7 */
        T_TRUE(ratio > 1.8);
        if (getenv("T_SAY")) printf("%s, %d bits: J(RTN) / J(GPTQ) = %.3f\n", tiny_target_name(target), bits, ratio);
    }
    t_close(ctx);
}

/* H = I: the codes of plain rounding, in every granularity; and B = 1 and B = 128 give the same up to rounding */
static void test_identity(tiny_target target)
{
    static const tiny_idx groups[] = { 32, 50, 100, 300, TLLM_PLAIN_ROW, TLLM_PLAIN_TENSOR };
    enum { ROWS = 70, N = 300 };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t g;
    int kind;
    for (kind = 0; kind < TLLM_PLAIN_KINDS; kind++)
        for (g = 0; g < T_COUNT(groups); g++) {
            double *one = (double *)t_keep(N * N * sizeof *one);
            const tiny_tensor h = tiny_tensor_2d(one, TINY_F64, N, N);
            layer l;
            tllm_gptq_desc d;
            tllm_gptq_about about;
            tllm_plain a, b;
            tllm_plain_sizes size;
            tiny_idx i;
            memset(&l, 0, sizeof l);
            l.rows = ROWS;
            l.n = N;
            l.w = t_rand(ROWS * N, -1, 1);
            for (i = 0; i < N; i++) one[i * N + i] = 4.0;
            memset(&d, 0, sizeof d);
            d.grid.kind = kind;
            d.grid.group = groups[g];
            d.grid.clip = groups[g] == TLLM_PLAIN_TENSOR ? 0 : 10;
            a = room(ctx, &d.grid, &l);
            b = room(ctx, &d.grid, &l);
            T_OK(tllm_plain_size(ctx, &d.grid, ROWS, N, &size));
            T_OK(tllm_plain_round(ctx, &d.grid, l.w, ROWS, N, NULL, &a));
            T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &h, &b, &about));
            T_SAME(a.code, b.code, ROWS * N);
            T_SAME(a.scale, b.scale, size.scales);
            T_SAME(a.zero, b.zero, size.scales);
            d.act_order = 1;                /* equal diagonals keep their order */
            T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &h, &b, &about));
            T_SAME(a.code, b.code, ROWS * N);
            T_WALLS(b.code, 0);
            T_WALLS(b.scale, 0);
            T_WALLS(b.zero, 0);
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("quantization 0", "GPTQ with H = I equals RTN");
}

/* Blocks of any size, groups inside them and around them, orders and searches: the result is a grid whose J is that of
 * the reference; codes differ where rounding decides. The group's own least squares shows the fit on the updated
 * weights: see test_updated. */
static void test_blocks(tiny_target target)
{
    static const struct { tiny_idx group, block; int order, fixed, clip;
    } way[] = { { TLLM_PLAIN_ROW, 1, 0, 0, 0 },
                { TLLM_PLAIN_ROW, 128, 0, 0, 0 },
                { TLLM_PLAIN_ROW, 37, 1, 0, 0 },
                { 32, 1, 0, 0, 0 },
                { 32, 128, 0, 0, 0 },
                { 32, 100, 0, 0, 10 },
                { 48, 128, 0, 0, 0 },
                { 100, 32, 0, 0, 0 },
                { 100, 512, 0, 0, 0 },
                { 32, 128, 1, 0, 0 },
                { 32, 64, 0, 1, 5 } };
    enum { ROWS = 131, N = 250 };
    tiny_ctx *ctx = t_ctx(target, 3), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    layer l = make(ctx, ROWS, N, 500, 1.0f);
    float *back = t_guarded(ROWS * N);
    tllm_plain first = { NULL, NULL, NULL };                /* of B = 1 */
    size_t k;
    t_use(ctx);
    for (k = 0; k < T_COUNT(way); k++) {
        tllm_gptq_desc d;
        tllm_gptq_about fast, slow;
        tllm_plain a, b;
        double j;
        int i, off = 0;
        memset(&d, 0, sizeof d);
        d.grid.group = way[k].group;
        d.grid.clip = way[k].clip;
        d.block = way[k].block;
        d.act_order = way[k].order;
        d.static_groups = way[k].fixed;
        a = room(ctx, &d.grid, &l);
        b = room(ctx, &d.grid, &l);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &a, &fast));
        T_OK(tllm_gptq(plain, &d, l.w, ROWS, N, &l.h, &b, &slow));
        for (i = 0; i < ROWS * N; i++) off += a.code[i] != b.code[i];
        T_TRUE(off * 50 <= ROWS * N);
        T_CLOSE(fast.loss, slow.loss, 0.02 * slow.loss);
        T_OK(tllm_plain_expand(ctx, &d.grid, &a, ROWS, N, back));
        T_OK(tllm_gptq_loss(ctx, l.w, back, ROWS, N, &l.h, &j));
        T_TRUE(j < fast.loss && j > 0.5 * fast.loss);
        if (k == 0 || k == 3) first = a;
        if (k == 1 || k == 4) {             /* B = 1 and B = 128 */
            tllm_plain_sizes size;
            int steps = 0;
            T_OK(tllm_plain_size(ctx, &d.grid, ROWS, N, &size));
            for (off = i = 0; i < ROWS * N; i++) off += a.code[i] != first.code[i];
            for (i = 0; i < (int)size.scales; i++) {
                steps += a.scale[i] != first.scale[i];
                T_TRUE(abs((int)a.scale[i] - (int)first.scale[i]) <= 1);
            }
            if (getenv("T_SAY"))
                printf("%s, way %d: %d of %d codes, %d of %d scales are others with B = 1\n", tiny_target_name(target),
                       (int)k, off, ROWS * N, steps, (int)size.scales);
            T_TRUE(off * 500 <= ROWS * N);
            if (k == 1) T_EQ_INT(steps, 0);
            else
                T_TRUE(steps * 100 <= (int)size.scales); /* fitted on weights that differ by rounding: one between two
                                                            halves may take the other */
        }
        T_WALLS(a.code, 0);
        T_WALLS(a.scale, 0);
    }
    tllm_calib_close(ctx, l.calib);
    t_close(plain);
    t_close(ctx);
    T_PROOF("quantization 0", "with B=1 and B=128 identical up to rounding");
}

/* Scales of the second group are those of the weights after the first one's errors were carried on: least squares gives
 * these weights. */
static void test_updated(tiny_target target)
{
    enum { ROWS = 9, N = 20, G = 10 };
    tiny_ctx *ctx = t_ctx(target, 1);
    layer l = make(ctx, ROWS, N, 80, 0.3f);
    const double *h = (const double *)l.h.data;
    tllm_gptq_desc d;
    tllm_plain q;
    double mean = 0;
    int r, i, differs = 0, fixed;
    for (i = 0; i < N; i++) mean += h[i * N + i] / N;
    for (fixed = 0; fixed < 2; fixed++) {
        memset(&d, 0, sizeof d);
        d.grid.group = G;
        d.grid.bits = 3;
        d.static_groups = fixed;
        q = room(ctx, &d.grid, &l);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &q, NULL));
        for (r = 0; r < ROWS; r++) {
            double off[N], v[N], most = 0, plain = 0;
            for (i = 0; i < G; i++)
                off[i] = (double)l.w[r * N + i] - (double)half_of(q.scale[2 * r]) * (q.code[r * N + i] - 4.0);
            least(h, N, mean, G, off, v);
            for (i = 0; i < G; i++) {
                most = fmax(most, fabs((double)l.w[r * N + G + i] + v[i]));
                plain = fmax(plain, fabs((double)l.w[r * N + G + i]));
            }
            T_CLOSE(half_of(q.scale[2 * r + 1]), 2 * (fixed ? plain : most) / 7, 2 * most / 7 / 1000);
            differs += fabs(most - plain) > 0.01 * plain;
        }
    }
    T_TRUE(differs >= ROWS);
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
}

/* squared error of a group under a scale, each weight counting h */
static double under(const float *w, const double *h, int n, double s)
{
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) {
        const double v = s * fmax(-8, fmin(7, nearbyint((double)w[i] / s))) - (double)w[i];
        sum += h[i] * v * v;
    }
    return sum;
}
/* An uneven diagonal and zeros elsewhere: no error is carried on, and the range of each group is the one of least
 * error among 21, weighed by the group's own part of the diagonal. */
static void test_importance(tiny_target target)
{
    enum { ROWS = 40, N = 112, G = 32, GROUPS = 4, CLIP = 20 };
    static double h[N * N], diagonal[N + G];
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, N, N);
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l;
    tllm_gptq_desc d;
    tllm_plain q;
    float *e = t_rand(N, -6, 6);
    int r, g, i, fixed, other = 0;
    memset(&l, 0, sizeof l);
    l.rows = ROWS;
    l.n = N;
    l.w = t_rand(ROWS * N, -1, 1);
    for (i = 0; i < N; i++) h[i * N + i] = diagonal[i] = exp2((double)e[i]);
    for (fixed = 0; fixed < 2; fixed++) {
        memset(&d, 0, sizeof d);
        d.grid.group = G;
        d.grid.clip = CLIP;
        d.static_groups = fixed;
        q = room(ctx, &d.grid, &l);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &th, &q, NULL));
        for (r = 0; r < ROWS; r++)
            for (g = 0; g < GROUPS; g++) {
                const float *w = l.w + r * N + g * G;
                const int n = g == GROUPS - 1 ? N - g * G : G;
                double most = 0, least = 1e30, first = 1e30, with_first = 0;
                for (i = 0; i < n; i++) most = fmax(most, fabs((double)w[i]));
                for (i = 0; i <= CLIP; i++) {
                    const float s = 2 * (float)most * (1.0f - (float)i / 100.0f) / 15;
                    unsigned char b[2];
                    double half, mine, its;
                    tllm_format_of(TLLM_FORMAT_F16)->pack(&s, b, 1, NULL);
                    half = (double)half_of((uint16_t)(b[0] | b[1] << 8));
                    mine = under(w, diagonal + g * G, n, half);
                    its = under(w, diagonal, n, half);      /* by the first group's */
                    least = fmin(least, mine);
                    if (its < first) {
                        first = its;
                        with_first = mine;
                    }
                }
                /* a half more or less */
                T_CLOSE(under(w, diagonal + g * G, n, (double)half_of(q.scale[r * GROUPS + g])), least, 5e-3 * least);
                other += with_first > 1.05 * least;
            }
    }
    T_TRUE(other > ROWS);                   /* it matters whose part it is */
    t_close(ctx);
}

/* The damping is a share of the mean of the inputs that are not dead. And the units of h do not matter, not even those
 * beyond the range of floats. */
static void test_mean(tiny_target target)
{
    enum { ROWS = 8, N = 12, DEAD = 3 };
    const double unit[] = { ldexp(1.0, -200), 1.0, ldexp(1.0, 300) };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 60, 0.5f);
    double *h = (double *)l.h.data;
    float *back = t_guarded(ROWS * N);
    tllm_gptq_desc d;
    tllm_gptq_about about;
    tllm_plain a, b;
    size_t k;
    int i, j, r, clip;
    for (i = 0; i < DEAD; i++)
        for (j = 0; j < N; j++) h[(4 * i + 1) * N + j] = h[j * N + 4 * i + 1] = 0.0;
    for (clip = 0; clip < 2; clip++) {
        memset(&d, 0, sizeof d);
        d.damp = 0.5f;
        d.grid.clip = 20 * clip;
        a = room(ctx, &d.grid, &l);
        b = room(ctx, &d.grid, &l);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &a, NULL));
        for (k = 0; k < T_COUNT(unit); k++) {
            double mean = 0, loss = 0;
            for (i = 0; i < N * N; i++) h[i] *= unit[k];
            T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &b, &about));
            T_SAME(a.code, b.code, ROWS * N);
            T_SAME(a.scale, b.scale, ROWS);
            T_EQ_INT(about.dead, DEAD);
            T_EQ_INT(about.doubled + about.rounded, 0);
            T_OK(tllm_plain_expand(ctx, &d.grid, &b, ROWS, N, back));
            for (i = 0; i < N; i++) mean += h[i * N + i] / (N - DEAD);
            for (r = 0; r < ROWS; r++)
                for (i = 0; i < N; i++)
                    for (j = 0; j < N; j++) {
                        const double di = i % 4 == 1 ? 0 : (double)l.w[r * N + i] - (double)back[r * N + i],
                                     dj = j % 4 == 1 ? 0 : (double)l.w[r * N + j] - (double)back[r * N + j];
                        loss += di * dj * ((i <= j ? h[i * N + j] : h[j * N + i]) + (i == j ? 0.5 * mean : 0));
                    }
            T_CLOSE(about.loss / mean, loss / mean, 1e-4 * loss / mean);
            for (i = 0; i < N * N; i++) h[i] /= unit[k];
        }
    }
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
}

/* every block format: numbers on its grid, less J than its own packer with and without importance, and the same layer
 * by the reference */
static void test_formats(tiny_target target)
{
    static const short formats[] = { TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q4_1, TLLM_FORMAT_Q5_0, TLLM_FORMAT_Q5_1,
                                     TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q2_K, TLLM_FORMAT_Q3_K, TLLM_FORMAT_Q4_K,
                                     TLLM_FORMAT_Q5_K, TLLM_FORMAT_Q6_K };
    enum { ROWS = 7, N = T_SLOW ? 256 : 512 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    layer l = make(ctx, ROWS, N, 900, 2.0f);
    float *back = t_guarded(ROWS * N), *ref = t_guarded(ROWS * N), diagonal[N];
    size_t k;
    t_use(ctx);
    tllm_calib_diagonal(l.calib, diagonal);
    for (k = 0; k < T_COUNT(formats); k++) {
        const tllm_format *f = tllm_format_of(formats[k]);
        const size_t bytes = tllm_format_bytes(f, ROWS * N);
        unsigned char *to = (unsigned char *)t_guarded_bytes(bytes), *other = (unsigned char *)t_guarded_bytes(bytes);
        tllm_gptq_desc d;
        tllm_gptq_about about, slow;
        double j, formula, searched;
        int way;
        tiny_idx r;
        T_EQ_INT(tllm_gptq_has(f->id), 1);
        f->pack(l.w, to, ROWS * N, NULL);
        f->unpack(to, back, ROWS * N);
        T_OK(tllm_gptq_loss(ctx, l.w, back, ROWS, N, &l.h, &formula));
        for (r = 0; r < ROWS; r++) f->pack(l.w + r * N, to + (size_t)r * tllm_format_bytes(f, N), N, diagonal);
        f->unpack(to, back, ROWS * N);
        T_OK(tllm_gptq_loss(ctx, l.w, back, ROWS, N, &l.h, &searched));
        for (way = 0; way < 2; way++) {
            memset(&d, 0, sizeof d);
            d.act_order = way;
            T_OK(tllm_gptq_blocks(ctx, &d, f->id, l.w, ROWS, N, &l.h, to, &about));
            f->unpack(to, back, ROWS * N);
            T_OK(tllm_gptq_loss(ctx, l.w, back, ROWS, N, &l.h, &j));
            /* the damping is the difference: the bytes hold the codes that were meant */
            T_TRUE(j < about.loss && j > 0.3 * about.loss);
            T_TRUE(j < formula && j < searched);
            if (getenv("T_SAY"))
                printf("%s %s%s: J %.4g, packed %.4g, with importance %.4g\n", tiny_target_name(target), f->name,
                       way ? ", ordered" : "", j, formula, searched);
            T_OK(tllm_gptq_blocks(plain, &d, f->id, l.w, ROWS, N, &l.h, other, &slow));
            f->unpack(other, ref, ROWS * N);
            T_CLOSE(about.loss, slow.loss, 0.05 * slow.loss);
        }
        T_WALLS(to, 0);
    }
    T_EQ_INT(tllm_gptq_has(TLLM_FORMAT_IQ4_NL), 0);
    T_EQ_INT(tllm_gptq_has(999), 0);
    tllm_calib_close(ctx, l.calib);
    t_close(plain);
    t_close(ctx);
}

/* dead inputs, fewer tokens than inputs, inputs that are copies of each other, no inputs at all */
static void test_singular(tiny_target target)
{
    enum { ROWS = 16, N = 40 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int way;
    for (way = 0; way < 4; way++) {
        layer l = make(ctx, ROWS, N, way == 1 ? 5 : 100, 0.5f);
        tllm_gptq_desc d;
        tllm_gptq_about about;
        tllm_plain q;
        float *back = t_guarded(ROWS * N);
        double j, rtn;
        tiny_idx t, r;
        if (way != 1) {
            tllm_calib *c;
            for (t = 0; t < 100; t++) {
                if (way == 0) l.x[t * N + 7] = l.x[t * N + 8] = 0.0f;
                if (way == 2) l.x[t * N + 3] = l.x[t * N + 4];
                if (way == 3) memset(l.x + t * N, 0, N * sizeof *l.x);
            }
            T_OK(tllm_calib_open(ctx, N, TLLM_CALIB_PRODUCTS, &c));
            T_OK(tllm_calib_add(ctx, c, l.x, 100, N));
            tllm_calib_close(ctx, l.calib);
            l.calib = c;
            l.h = tllm_calib_products(c);
        }
        memset(&d, 0, sizeof d);
        d.grid.kind = TLLM_PLAIN_ASYM;
        q = room(ctx, &d.grid, &l);
        T_OK(tllm_plain_round(ctx, &d.grid, l.w, ROWS, N, NULL, &q));
        T_OK(tllm_plain_expand(ctx, &d.grid, &q, ROWS, N, back));
        rtn = output_error(&l, back);
        T_OK(tllm_gptq(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
        T_OK(tllm_plain_expand(ctx, &d.grid, &q, ROWS, N, back));
        j = output_error(&l, back);
        T_TRUE(way == 3 ? j == 0 : j < rtn);
        T_EQ_INT(about.dead, way == 0 ? 2 : way == 3 ? N : 0);
        for (r = 0; r < ROWS; r++) T_TRUE((way != 0 && way != 3) || back[r * N + 7] == 0.0f);
        T_EQ_INT(about.rounded, 0);
        tllm_calib_close(ctx, l.calib);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("quantization 0", "T < N");
    T_PROOF("quantization 0", "singular H");
}

/* a matrix that is no sum of squares: damped more and more, and at last plain rounding, which is reported */
static void test_indefinite(tiny_target target)
{
    double h[9] = { 4, 6, 0, 0, 4, 0, 0, 0, 4 }, loss = 0;
    static const float w[6] = { 0.3f, -0.7f, 1.0f, 0.1f, 0.2f, -0.45f };
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, 3, 3);
    tiny_ctx *ctx = t_ctx(target, 1);
    uint8_t code[6], plain[6], zero[2];
    uint16_t scale[2];
    tllm_plain q;
    tllm_gptq_desc d;
    tllm_gptq_about about;
    float u[9], back[6];
    int i;
    memset(&d, 0, sizeof d);
    q.code = code;
    q.scale = scale;
    q.zero = zero;
    T_OK(tllm_gptq(ctx, &d, w, 2, 3, &th, &q, &about));     /* 0.01 * 2^6 is the first above 0.5 */
    T_EQ_INT(about.doubled, 6);
    T_CLOSE(about.damp, 0.64, 1e-6);
    T_EQ_INT(about.rounded, 0);
    h[1] = 1e6;
    T_OK(tllm_gptq(ctx, &d, w, 2, 3, &th, &q, &about));
    T_EQ_INT(about.doubled, 10);
    T_EQ_INT(about.rounded, 1);
    T_OK(tllm_plain_expand(ctx, &d.grid, &q, 2, 3, back));
    for (i = 0; i < 6; i++) loss += ((double)w[i] - (double)back[i]) * ((double)w[i] - (double)back[i]);
    T_CLOSE(about.loss, loss, 1e-5 * loss);                 /* no H is left in it */
    q.code = plain;
    T_OK(tllm_plain_round(ctx, &d.grid, w, 2, 3, NULL, &q));
    T_SAME(code, plain, 6);
    T_STATUS(tllm_gptq_triangle(ctx, &th, 0, u), TINY_E_NUMERIC, "not positive definite, even with 10.24");
    t_close(ctx);
}

/* more rows than inputs: the loss again and again, the same as the sum over all pairs, while two threads share it */
static void test_tall(tiny_target target)
{
    enum { ROWS = 256, N = 40 };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 100, 0.5f);
    const double *h = (const double *)l.h.data;
    double want = 0, got;
    int r, i, j, again;
    for (r = 0; r < ROWS; r++)
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++)
                want += (double)l.w[r * N + i] * (double)l.w[r * N + j] * (i <= j ? h[i * N + j] : h[j * N + i]);
    for (again = 0; again < 200; again++) {
        T_OK(tllm_gptq_loss(ctx, l.w, NULL, ROWS, N, &l.h, &got));
        if (!T_CLOSE(got, want, 1e-9 * want)) break;
    }
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    layer l = make(ctx, 4, 64, 100, 1.0f);
    double *h = (double *)l.h.data, j;
    tiny_tensor narrow = tiny_tensor_2d(h, TINY_F64, 63, 63), whole = tiny_tensor_2d(h, TINY_I32, 64, 64);
    unsigned char to[4 * 144];
    tllm_gptq_desc d;
    tllm_plain q, none, many;
    memset(&d, 0, sizeof d);
    d.grid.group = 32;
    many = room(ctx, &d.grid, &l);
    d.grid.group = 0;
    q = room(ctx, &d.grid, &l);
    none = q;
    none.zero = NULL;
    T_STATUS(tllm_gptq(NULL, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_gptq(ctx, &d, NULL, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "the weights are NULL");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, NULL, NULL), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &none, NULL), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, NULL, &q, NULL), TINY_E_ARGUMENT, "the products of the inputs, is NULL");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &narrow, &q, NULL), TINY_E_SHAPE,
             "h is f64 of rank 2, 63 x 63; for 64 inputs it must be f32 or f64, 64 x 64");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &whole, &q, NULL), TINY_E_SHAPE, "h is i32");
    T_STATUS(tllm_gptq(ctx, &d, l.w, 0, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "0 rows of 64 inputs");
    d.grid.bits = 9;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "codes of 9 bits");
    d.grid.bits = 0;
    d.damp = -0.5f;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "damping by -0.5 of the mean diagonal");
    T_STATUS(tllm_gptq_triangle(ctx, &l.h, -0.5f, (float *)(void *)to), TINY_E_ARGUMENT, "damping by -0.5");
    d.damp = NAN;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "damping by nan");
    d.damp = 0.0f;
    d.block = -1;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "blocks of -1 columns");
    d.block = 0;
    d.grid.group = TLLM_PLAIN_TENSOR;
    d.grid.clip = 3;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_UNSUPPORTED, "needs a scale for a row or a group");
    d.grid.group = d.grid.clip = 0;
    l.w[70] = NAN;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC, "the weight in row 1, input 6 is nan");
    l.w[70] = 1e30f;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC,
             "row 1: a group of its weights needs a scale above 65504");
    l.w[200] = 1e30f;
    /* the first, not the last that was reported */
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC, "row 1: a group");
    d.static_groups = 1;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC, "row 1: a group");
    d.static_groups = 0;
    d.grid.group = TLLM_PLAIN_TENSOR;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC, "row 1: a group");
    d.grid.group = 32;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &many, NULL), TINY_E_NUMERIC, "row 1: a group");
    d.grid.group = 0;
    l.w[70] = l.w[200] = 0.5f;
    h[5 * 64 + 9] = NAN;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC,
             "h has a NaN or an infinity for inputs 5 and 9");
    T_STATUS(tllm_gptq_loss(ctx, l.w, NULL, 4, 64, &l.h, &j), TINY_E_NUMERIC,
             "a NaN or an infinity at row 5, column 9");
    h[5 * 64 + 9] = 0.0;
    h[5 * 64 + 5] = -1.0;
    T_STATUS(tllm_gptq(ctx, &d, l.w, 4, 64, &l.h, &q, NULL), TINY_E_NUMERIC, "h has -1 on its diagonal at input 5");
    h[5 * 64 + 5] = 100.0;
    T_STATUS(tllm_gptq_loss(ctx, NULL, NULL, 4, 64, &l.h, &j), TINY_E_ARGUMENT,
             "weights, h and a result pointer are needed");
    T_STATUS(tllm_gptq_loss(ctx, l.w, NULL, 4, 64, &narrow, &j), TINY_E_SHAPE, "h is 63 x 63, it must be 64 x 64");
    T_STATUS(tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_IQ4_NL, l.w, 4, 64, &l.h, to, NULL), TINY_E_UNSUPPORTED,
             "IQ4_NL (format 20) is not a grid of whole steps");
    T_STATUS(tllm_gptq_blocks(ctx, &d, 999, l.w, 4, 64, &l.h, to, NULL), TINY_E_UNSUPPORTED,
             "no such format (format 999)");
    T_STATUS(tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_Q4_K, l.w, 4, 64, &l.h, to, NULL), TINY_E_ARGUMENT,
             "rows of 64 numbers are not whole blocks of Q4_K, which has 256");
    T_STATUS(tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_Q4_0, l.w, 4, 64, &l.h, NULL, NULL), TINY_E_ARGUMENT,
             "the result pointer is NULL");
    T_OK(tllm_gptq_blocks(ctx, &d, TLLM_FORMAT_Q4_0, l.w, 4, 64, &l.h, to, NULL));
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
    T_PROOF("quantization 0", "NaN/Inf weights");
}

static void test_allocations(void)
{
    tiny_ctx *one = t_ctx(TINY_TARGET_AUTO, 1);
    layer l = make(one, 70, 160, 300, 1.0f);
    float *h = t_guarded(160 * 160);
    unsigned char *to = (unsigned char *)t_guarded_bytes(tllm_format_bytes(tllm_format_of(TLLM_FORMAT_Q4_0), 70 * 160));
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F32, 160, 160);
    tllm_gptq_desc d;
    tllm_plain q;
    int i;
    memset(&d, 0, sizeof d);
    d.act_order = 1;
    for (i = 0; i < 160 * 160; i++) h[i] = (float)((const double *)l.h.data)[i];
    q = room(one, &d.grid, &l);
    tllm_calib_close(one, l.calib);
    t_close(one);
    T_EACH_ALLOCATION(tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2); tiny_ctx *ctx = NULL; double j;
                      if (tiny_ctx_open(&desc, &ctx)) continue; if (tllm_gptq(ctx, &d, l.w, 70, 160, &th, &q, NULL))
                          T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
                      if (tllm_gptq_blocks(ctx, NULL, TLLM_FORMAT_Q4_0, l.w, 70, 160, &th, to, NULL))
                          T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
                      if (tllm_gptq_loss(ctx, l.w, NULL, 70, 160, &th, &j))
                          T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
                      tiny_ctx_close(ctx);)
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_act_order);
    T_RUN_FORMS(test_triangle);
    T_RUN_FORMS(test_least_squares);
    T_RUN_FORMS(test_headline);
    T_RUN_FORMS(test_identity);
    T_RUN_FORMS(test_blocks);
    T_RUN_FORMS(test_updated);
    T_RUN_FORMS(test_importance);
    T_RUN_FORMS(test_mean);
    T_RUN_TARGETS(test_formats);
    T_RUN_FORMS(test_singular);
    T_RUN_FORMS(test_indefinite);
    T_RUN_FORMS(test_tall);
    T_RUN(test_refused);
    T_RUN(test_allocations);
    return t_done();
}
