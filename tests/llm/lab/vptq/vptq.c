/* tests/llm/lab/vptq/vptq.c - weights as vectors of code books
 *
 * Truth    a layer worked by hand; the bytes of a matrix read bit by bit by a second reader, written here
 *          from the text of vptq.h; every code of a pass searched again in double, on weights that are updated in
 *          double with U of tllm_gptq_triangle; GPTQ itself where a book is its grid; brute force for the nearest, and
 *          means of clusters in double; the loss as a sum over all pairs of inputs; products in double of the output of
 *          the second reader */
#include "llm/lab/vptq/vptq.h"

/* the layer worked by hand; the damping is a millionth */
static void test_worked(tiny_target target)
{
    static double h[4] = { 2, 1, 0, 2 }, none[4] = { 1, 0, 0, 1 };
    static const float w[4] = { 0.4f, 0.35f, 0.45f, 0.4f }, book[4] = { 0, 0, 1, 1 };
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, 2, 2), ti = tiny_tensor_2d(none, TINY_F64, 2, 2);
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_vptq_desc d;
    tllm_vptq_about about;
    tllm_vptq q;
    float u[4], back[4];
    double loss;
    T_OK(tllm_gptq_triangle(ctx, &th, 1e-6f, u));
    T_CLOSE(u[0], 0.8165, 5e-5);
    T_CLOSE(u[1], -0.4082, 5e-5);
    T_CLOSE(u[3], 0.7071, 5e-5);
    memset(&d, 0, sizeof d);
    d.v = 2;
    d.k = 2;
    d.damp = 1e-6f;
    d.in_order = 1;
    d.book = book;
    T_OK(tllm_vptq_quantize(ctx, &d, w, 2, 2, &th, &q, &about));
    T_EQ_INT(tllm_vptq_code(&q, 0, 0), 0);
    T_EQ_INT(tllm_vptq_code(&q, 1, 1), 1);
    T_OK(tllm_vptq_expand(ctx, &q, 0, 2, back, 2));
    T_TRUE(back[0] == 0 && back[1] == 1 && back[2] == 0 && back[3] == 1);
    T_OK(tllm_gptq_loss(ctx, w, back, 2, 2, &th, &loss));
    T_CLOSE(loss, 1.23, 1e-5);
    /* 1.23: column 1 was (.55, .625) when its turn came */
    T_CLOSE(about.loss, 1.5 * (0.4 * 0.4 + 0.45 * 0.45) + 2 * ((0.55 - 1) * (0.55 - 1) + (0.625 - 1) * (0.625 - 1)),
            1e-5);
    tllm_vptq_close(ctx, &q);
    T_OK(tllm_vptq_quantize(ctx, &d, w, 2, 2, &ti, &q, NULL));
    T_EQ_INT(tllm_vptq_code(&q, 0, 0), 0);
    T_EQ_INT(tllm_vptq_code(&q, 0, 1), 0);
    T_OK(tllm_vptq_expand(ctx, &q, 0, 2, back, 2));
    T_OK(tllm_gptq_loss(ctx, w, back, 2, 2, &th, &loss));
    T_CLOSE(loss, 1.93, 1e-5);
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
    T_PROOF("quantization 1",
            "worked: column 0 -> code 0, updated column 1 = (.55,.625) -> code 1 (plain coding gives 0)");
    T_PROOF("quantization 1", "worked: J = 1.23 against 1.93");
}

/* a book of all distinct vectors: the weights come back */
static void test_exact(tiny_target target)
{
    enum { ROWS = 22, N = 40, V = 4 };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 100, 0.5f, 3.0f);
    float sixteenth[12 * V];
    tllm_vptq_desc d;
    tllm_vptq_about about;
    tllm_vptq q;
    int r, i, k;
    for (i = 0; i < 12 * V; i++) sixteenth[i] = (float)((int)t_rand_below(31) - 15) / 16.0f;
    for (r = 0; r < ROWS; r++)
        for (i = 0; i < N; i++) {           /* the last two rows are half a vector, which ends in zeros */
            const int which = r / V * 7 % 5 + (i * 3 + r / V) % 7;
            l.w[r * N + i] = sixteenth[which % 12 * V + r % V];
        }
    memset(&d, 0, sizeof d);
    d.v = V;
    for (k = 24; k <= 26; k++) {            /* twelve whole vectors, and at most as many halves */
        d.k = k;
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
        T_SAME(expanded(ctx, &q), l.w, ROWS * N);
        T_TRUE(about.loss == 0);
        tllm_vptq_close(ctx, &q);
    }
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
    T_PROOF("quantization 1", "k >= number of distinct vectors gives exact reconstruction");
}

/* vectors of one, and the sixteen steps of the signed 4-bit grid with scale 1/8 as their book */
static void test_gptq(tiny_target target)
{
    enum { ROWS = 70, N = 200 };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 300, 0.5f, 2.0f);
    uint8_t *code = (uint8_t *)t_guarded_bytes(ROWS * N), zero[1];
    float book[16], *back = t_guarded(ROWS * N);
    uint16_t scale[1];
    tllm_gptq_desc g;
    tllm_vptq_desc d;
    tllm_gptq_about one;
    tllm_vptq_about two;
    tllm_vptq q;
    tllm_plain p;
    int i;
    for (i = 0; i < ROWS * N; i++) l.w[i] *= 0.93f;
    l.w[777] = 0.9375f;
    for (i = 0; i < 16; i++) book[i] = (float)(i - 8) / 8.0f;
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    p.code = code;
    p.scale = scale;
    p.zero = zero;
    g.grid.group = TLLM_PLAIN_TENSOR;
    d.v = 1;
    d.k = 16;
    d.book = book;
    d.in_order = 1;
    for (i = 0; i < 2; i++) {
        T_OK(tllm_gptq(ctx, &g, l.w, ROWS, N, &l.h, &p, &one));
        T_TRUE(scale[0] == 0x3000u && zero[0] == 8);        /* 1/8 */
        T_OK(tllm_plain_expand(ctx, &g.grid, &p, ROWS, N, back));
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &two));
        T_SAME(expanded(ctx, &q), back, ROWS * N);
        T_CLOSE(two.loss, one.loss, 1e-12 * one.loss);
        tllm_vptq_close(ctx, &q);
        g.act_order = 1;                    /* and largest first, both of them */
        d.in_order = 0;
    }
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
    T_PROOF("quantization 1", "v=1 with an evenly spaced fixed book equals GPTQ");
}

/* H = I: each vector alone, for every v, with rows that are no multiple of it; of equal centres the lowest */
static void test_identity(tiny_target target)
{
    enum { ROWS = 37, N = 90 };
    static const float twice[8] = { 1, 1, -1, -1, 1, 1, -1, -1 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *w = t_rand(ROWS * N, -1, 1), none[2 * 2] = { 0, 0.5f, 0, 0.5f };
    const tiny_tensor one = tiny_tensor_2d(diagonal_h(N, 5.0), TINY_F64, N, N),
                      two = tiny_tensor_2d(diagonal_h(2, 1.0), TINY_F64, 2, 2);
    tllm_vptq_desc d;
    tllm_vptq q;
    int v, r, i, j, k;
    memset(&d, 0, sizeof d);
    for (v = 1; v <= 16; v++) {
        float book[40 * 16];
        d.v = v;
        d.k = 2 + 7 * v % 39;
        d.iters = 5;
        T_OK(tllm_vptq_quantize(ctx, &d, w, ROWS, N, &one, &q, NULL));
        T_EQ_INT(tllm_vptq_book(&q, 0, 0, book), (size_t)d.k * (size_t)v);
        T_EQ_INT(tllm_vptq_book(&q, 0, 1, NULL), 0);
        T_EQ_INT(tllm_vptq_book(&q, -1, 0, NULL), 0);
        for (r = 0; r < ROWS; r += v)
            for (i = 0; i < N; i++) {
                double best = 1e30, mine = -1;
                for (k = 0; k < d.k; k++) {
                    double sum = 0;
                    for (j = 0; j < v; j++) {
                        const double x = r + j < ROWS ? (double)w[(r + j) * N + i] : 0.0;
                        sum += (x - (double)book[k * v + j]) * (x - (double)book[k * v + j]);
                    }
                    best = fmin(best, sum);
                    if (tllm_vptq_code(&q, r, i) == (uint32_t)k) mine = sum;
                }
                T_CLOSE(mine, best, 1e-5 * best);       /* floats may not see which of two is a little nearer */
            }
        tllm_vptq_close(ctx, &q);
    }
    d.v = 2;
    d.k = 4;
    d.book = twice;
    T_OK(tllm_vptq_quantize(ctx, &d, none, 2, 2, &two, &q, NULL));
    T_EQ_INT(tllm_vptq_code(&q, 0, 0), 0);  /* as near to all four */
    T_EQ_INT(tllm_vptq_code(&q, 0, 1), 0);  /* as near to the first and the third */
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
    T_PROOF("quantization 1", "H = I equals nearest-centroid coding");
    T_PROOF("quantization 1", "M not multiple of v");
}

/* Every code again: weights updated in double, input by input, in the order of coding; groups, inputs set apart, second
 * books, normalized. */
static void test_pass(tiny_target target)
{
    enum { ROWS = 27, N = 60 };
    static const struct { int v, k, k2, v0, k0, groups, in_order, normalize; float outliers;
    } ways[] = { { 3, 16, 0, 0, 0, 1, 1, 0, 0 },  { 4, 19, 0, 0, 0, 1, 0, 0, 0 },   { 6, 16, 8, 0, 0, 1, 0, 0, 0 },
                 { 8, 32, 5, 4, 16, 2, 0, 0, 5 }, { 5, 16, 0, 0, 0, 1, 0, 1, 0 },   { 4, 16, 8, 2, 32, 3, 0, 1, 2 },
                 { 4, 8, 0, 0, 0, 4, 1, 0, 0 },   { 12, 16, 16, 4, 16, 7, 0, 1, 0 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 200, 0.7f, 2.0f);
    size_t way;
    for (way = 0; way < T_COUNT(ways); way++) {
        float *u = t_guarded(N * N);
        double *hp = (double *)t_keep(N * N * sizeof *hp), *w = (double *)t_keep(ROWS * N * sizeof *w), sum = 0,
               worst = 0;
        tiny_tensor th = tiny_tensor_2d(hp, TINY_F64, N, N);
        tllm_vptq_desc d;
        tllm_vptq_about about;
        tllm_vptq q;
        reader r;
        float *back;
        int place, order[N], i, row, j, k, not_nearest = 0;
        memset(&d, 0, sizeof d);
        d.v = ways[way].v;
        d.k = ways[way].k;
        d.k2 = ways[way].k2;
        d.v0 = ways[way].v0;
        d.k0 = ways[way].k0;
        d.groups = ways[way].groups;
        d.in_order = ways[way].in_order;
        d.normalize = ways[way].normalize;
        d.outliers = ways[way].outliers;
        d.seed = way;
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
        r = read_head(q.bytes);
        T_EQ_INT(r.bytes, q.n_bytes);
        /* 5 % of 60 and one, 2 % and one, four are left over */
        T_EQ_INT(r.apart, way == 3 ? 4 : way == 5 ? 3 : way == 7 ? 4 : 0);
        back = expanded(ctx, &q);
        for (place = 0; place < N; place++) order[place] = place;
        if (!d.in_order)                    /* by falling diagonal; no two are equal here */
            for (place = 0; place < N; place++)
                for (i = place + 1; i < N; i++)
                    if (h_at(&l, order[i], order[i]) > h_at(&l, order[place], order[place])) {
                        k = order[i];
                        order[i] = order[place];
                        order[place] = k;
                    }
        for (place = 0; place < N && (r.flags & 1); place++) T_EQ_INT(input_at(&r, place), order[place]);
        for (i = 0; i < N; i++)
            for (j = i; j < N; j++) hp[i * N + j] = h_at(&l, order[i], order[j]);
        T_OK(tllm_gptq_triangle(ctx, &th, 0, u));
        for (row = 0; row < ROWS; row++)
            for (i = 0; i < N; i++) w[row * N + i] = (double)l.w[row * N + order[i]];
        for (i = 0; i < N; i++) {
            /* one group: the codes are back in the order of the inputs */
            const int stored = r.flags & 1 ? i : order[i], v = i < r.apart ? (int)r.v0 : (int)r.v;
            const unsigned char *s = r.p + 80 + order_bytes(&r);
            const double scale = r.flags & 2 ? half_at(s + 2 * stored) : 1,
                         bias = r.flags & 2 ? half_at(s + 2 * (N + stored)) : 0;
            const int g = i < r.apart ? -1 : (int)((i - r.apart) / r.wide);
            const size_t kk = tllm_vptq_book(&q, g, 0, NULL) / (size_t)v,
                         kk2 = g < 0 ? 0 : tllm_vptq_book(&q, g, 1, NULL) / (size_t)v;
            float *c = t_guarded(kk * (size_t)v), *c2 = t_guarded(kk2 * (size_t)v + 1);
            (void)tllm_vptq_book(&q, g, 0, c);
            (void)tllm_vptq_book(&q, g, 1, c2);
            if (r.flags & 2) {              /* from the least weight to the largest */
                double low = 1e9, high = -1e9;
                for (row = 0; row < ROWS; row++) {
                    low = fmin(low, (double)l.w[row * N + order[i]]);
                    high = fmax(high, (double)l.w[row * N + order[i]]);
                }
                T_CLOSE(bias, low, 1e-3);
                T_CLOSE(scale, high - low, 2e-3);
            }
            for (row = 0; row < ROWS; row += v) {
                const uint32_t word = word_at(&r, row, stored), one = kk2 ? word & ((1u << r.bits) - 1u) : word,
                               two = kk2 ? word >> r.bits : 0;
                double x[16], best = 1e30, mine = 0, best2 = 1e30, mine2 = 0;
                for (j = 0; j < v; j++) x[j] = row + j < ROWS ? (w[(row + j) * N + i] - bias) / scale : 0.0;
                for (k = 0; k < (int)kk; k++) {
                    double e = 0;
                    for (j = 0; j < v; j++) e += (x[j] - (double)c[k * v + j]) * (x[j] - (double)c[k * v + j]);
                    best = fmin(best, e);
                    if ((uint32_t)k == one) mine = e;
                }
                for (j = 0; j < v; j++) x[j] -= (double)c[(int)one * v + j];
                for (k = 0; k < (int)kk2; k++) {
                    double e = 0;
                    for (j = 0; j < v; j++) e += (x[j] - (double)c2[k * v + j]) * (x[j] - (double)c2[k * v + j]);
                    best2 = fmin(best2, e);
                    if ((uint32_t)k == two) mine2 = e;
                }
                /* the weights that the library coded are within the rounding of floats of these, about 1e-6 of |x| = 4,
                 * and so are distances */
                worst = fmax(worst, mine - best);
                if (kk2) worst = fmax(worst, mine2 - best2);
                not_nearest += mine - best > 4e-5 || (kk2 && mine2 - best2 > 4e-5);
            }
            for (row = 0; row < ROWS; row++) {
                const double e = (w[row * N + i] - (double)back[row * N + order[i]]) / (double)u[i * N + i];
                sum += e * e;
                for (j = i + 1; j < N; j++) w[row * N + j] -= e * (double)u[i * N + j];
            }
        }
        T_EQ_INT(not_nearest, 0);
        T_CLOSE(about.loss, sum, 1e-3 * sum);
        T_CLOSE(about.loss, loss_of(&l, back, 0.01), 1e-3 * about.loss);
        if (getenv("T_SAY"))
            printf("%s way %d: J %.4g, worst choice %.3g\n", tiny_target_name(target), (int)way, about.loss, worst);
        tllm_vptq_close(ctx, &q);
    }
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
}

enum { G_ROWS = 256, G_N = 64, G_TOKENS = 1024, G_V = 4, G_K = 256 };
static void normal(float *x, size_t n, uint64_t seed)
{
    tiny_rng draw = tiny_rng_make(seed, 7);
    size_t i;
    for (i = 0; i < n; i++) x[i] = tiny_rng_normal(&draw);
}

/* v inputs at once: vectors along the inputs of a row, in the metric of the block, errors carried on after it (GPTVQ),
 * in double */
static void together(const layer *l, const float *u, const float *book, float *back)
{
    double w[G_N];
    int r, i, j, k, c;
    for (r = 0; r < G_ROWS; r++) {
        for (i = 0; i < G_N; i++) w[i] = (double)l->w[r * G_N + i];
        for (i = 0; i < G_N; i += G_V) {
            double best = 1e300, e[G_V];
            int code = 0;
            for (c = 0; c < G_K; c++) {     /* e with (w - c) = e U of the block: |e|^2 is the loss */
                double sum = 0, f[G_V];
                for (j = 0; j < G_V; j++) {
                    double x = w[i + j] - (double)book[c * G_V + j];
                    for (k = 0; k < j; k++) x -= f[k] * (double)u[(i + k) * G_N + i + j];
                    f[j] = x / (double)u[(i + j) * G_N + i + j];
                    sum += f[j] * f[j];
                }
                if (sum < best) { best = sum; code = c; memcpy(e, f, sizeof e); }
            }
            for (j = 0; j < G_V; j++) {
                back[r * G_N + i + j] = book[code * G_V + j];
                for (k = i + G_V; k < G_N; k++) w[k] -= e[j] * (double)u[(i + j) * G_N + k];
            }
        }
    }
}

/* measured guide: 2 bits of index, losses relative to that of a zero matrix */
static void test_measured_losses(void)
{
    enum { SEEDS = 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    double mean[8] = { 0 };
    int seed, i, t;
    for (seed = 0; seed < SEEDS; seed++) {
        float *x = t_guarded(G_TOKENS * G_N), *z = t_guarded(G_TOKENS * G_N), *mix = t_guarded(G_N * G_N),
              *u = t_guarded(G_N * G_N), *back = t_guarded(G_ROWS * G_N), *book = t_guarded(G_K * G_V),
              *vectors = t_guarded(G_ROWS * G_N), weight[G_ROWS * G_N / G_V];
        uint8_t *code = (uint8_t *)t_guarded_bytes(G_ROWS * G_N), zero[G_ROWS];
        uint16_t scale[G_ROWS];
        float diagonal[G_N];
        const tiny_tensor identity = tiny_tensor_2d(diagonal_h(G_N, 1.0), TINY_F64, G_N, G_N);
        tllm_kmeans_desc kd;
        tllm_gptq_desc g;
        tllm_vptq_desc d;
        tllm_vptq q;
        tllm_plain p;
        layer l;
        double whole, j[8], own, normalized[3];
        l.rows = G_ROWS;
        l.n = G_N;
        l.w = t_guarded(G_ROWS * G_N);
        normal(l.w, G_ROWS * G_N, 100 + (uint64_t)seed);
        normal(z, G_TOKENS * G_N, 200 + (uint64_t)seed);
        normal(mix, G_N * G_N, 300 + (uint64_t)seed);
        for (t = 0; t < G_TOKENS; t++)      /* x = z (I + mix / 4) with sizes of inputs from 1/4 to 4, in no order */
            for (i = 0; i < G_N; i++) {
                double s = (double)z[t * G_N + i];
                int k;
                for (k = 0; k < G_N; k++) s += (double)z[t * G_N + k] * (double)mix[k * G_N + i] / 4;
                x[t * G_N + i] = (float)(s * exp2((i * 29 % G_N) / 16.0 - 2.0));
            }
        T_OK(tllm_calib_open(ctx, G_N, TLLM_CALIB_PRODUCTS, &l.calib));
        T_OK(tllm_calib_add(ctx, l.calib, x, G_TOKENS, G_N));
        l.h = tllm_calib_products(l.calib);
        tllm_calib_diagonal(l.calib, diagonal);
        T_OK(tllm_gptq_loss(ctx, l.w, NULL, G_ROWS, G_N, &l.h, &whole));
        memset(&g, 0, sizeof g);
        p.code = code;
        p.scale = scale;
        p.zero = zero;
        g.grid.kind = TLLM_PLAIN_ASYM;
        g.grid.bits = 2;
        g.grid.group = TLLM_PLAIN_ROW;
        T_OK(tllm_plain_round(ctx, &g.grid, l.w, G_ROWS, G_N, NULL, &p));
        T_OK(tllm_plain_expand(ctx, &g.grid, &p, G_ROWS, G_N, back));
        T_OK(tllm_gptq_loss(ctx, l.w, back, G_ROWS, G_N, &l.h, &j[0]));
        g.grid.clip = 75;
        T_OK(tllm_gptq(ctx, &g, l.w, G_ROWS, G_N, &l.h, &p, NULL));
        T_OK(tllm_plain_expand(ctx, &g.grid, &p, G_ROWS, G_N, back));
        T_OK(tllm_gptq_loss(ctx, l.w, back, G_ROWS, G_N, &l.h, &j[2]));
        memset(&kd, 0, sizeof kd);
        memset(&d, 0, sizeof d);
        kd.k = d.k = G_K;
        d.v = G_V;
        d.in_order = 1;
        T_OK(tllm_gptq_triangle(ctx, &l.h, 0, u));
        /* for v inputs at once: vectors along them */
        T_OK(tllm_kmeans(ctx, &kd, l.w, G_ROWS * G_N / G_V, G_V, NULL, book, NULL, NULL));
        together(&l, u, book, back);
        T_OK(tllm_gptq_loss(ctx, l.w, back, G_ROWS, G_N, &l.h, &j[4]));
        for (t = 0; t < G_ROWS / G_V; t++)
            for (i = 0; i < G_N; i++) {
                int k;
                for (k = 0; k < G_V; k++) vectors[(t * G_N + i) * G_V + k] = l.w[(t * G_V + k) * G_N + i];
                weight[t * G_N + i] = diagonal[i];
            }
        for (i = 0; i < 2; i++) {           /* books without and with weights: nearest, then errors carried on */
            T_OK(tllm_kmeans(ctx, &kd, vectors, G_ROWS * G_N / G_V, G_V, i ? weight : NULL, book, NULL, NULL));
            d.book = book;
            T_OK(tllm_vptq_quantize(ctx, &d, l.w, G_ROWS, G_N, &identity, &q, NULL));
            T_OK(tllm_gptq_loss(ctx, l.w, expanded(ctx, &q), G_ROWS, G_N, &l.h, &j[i ? 3 : 1]));
            tllm_vptq_close(ctx, &q);
            T_OK(tllm_vptq_quantize(ctx, &d, l.w, G_ROWS, G_N, &l.h, &q, NULL));
            T_OK(tllm_gptq_loss(ctx, l.w, expanded(ctx, &q), G_ROWS, G_N, &l.h, &j[i ? 6 : 5]));
            tllm_vptq_close(ctx, &q);
        }
        T_TRUE(j[5] < j[1] && j[6] < j[3]);
        d.book = NULL;                      /* the library's own is the weighted one */
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, G_ROWS, G_N, &l.h, &q, NULL));
        T_OK(tllm_gptq_loss(ctx, l.w, expanded(ctx, &q), G_ROWS, G_N, &l.h, &own));
        tllm_vptq_close(ctx, &q);
        T_CLOSE(own, j[6], 0.02 * j[6]);
        d.in_order = 0;
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, G_ROWS, G_N, &l.h, &q, NULL));
        T_OK(tllm_gptq_loss(ctx, l.w, expanded(ctx, &q), G_ROWS, G_N, &l.h, &j[7]));
        tllm_vptq_close(ctx, &q);
        /* normalized: inputs with weights of sizes 1/8 to 8, each moved and scaled to 0 .. 1 here; an error there
         * counts by the scale squared */
        d.in_order = d.normalize = 1;
        for (i = 0; i < G_N; i++) {
            const double size = exp2((i * 13 % G_N) * 6.0 / G_N - 3.0);
            float low = 1e30f, high = -1e30f;
            for (t = 0; t < G_ROWS; t++) {
                float *at = &l.w[t * G_N + i];
                *at = (float)((double)*at * size);
                low = *at < low ? *at : low;
                high = *at > high ? *at : high;
            }
            for (t = 0; t < G_ROWS; t++)
                vectors[(t / G_V * G_N + i) * G_V + t % G_V] = (l.w[t * G_N + i] - low) / (high - low);
            for (t = 0; t < G_ROWS / G_V; t++) weight[t * G_N + i] = diagonal[i] * (high - low) * (high - low);
        }
        /* a book weighted by H and scales, the library's own, one weighted by H alone */
        for (i = 0; i < 3; i++) {
            if (i == 2) for (t = 0; t < G_ROWS * G_N / G_V; t++) weight[t] = diagonal[t % G_N];
            if (i != 1) T_OK(tllm_kmeans(ctx, &kd, vectors, G_ROWS * G_N / G_V, G_V, weight, book, NULL, NULL));
            d.book = i == 1 ? NULL : book;
            T_OK(tllm_vptq_quantize(ctx, &d, l.w, G_ROWS, G_N, &l.h, &q, NULL));
            T_OK(tllm_gptq_loss(ctx, l.w, expanded(ctx, &q), G_ROWS, G_N, &l.h, &normalized[i]));
            tllm_vptq_close(ctx, &q);
        }
        T_CLOSE(normalized[1], normalized[0], 0.02 * normalized[0]);
        T_TRUE(normalized[2] > 1.1 * normalized[0]);       /* it matters */
        for (i = 0; i < 8; i++) mean[i] += j[i] / whole / SEEDS;
        if (getenv("T_SAY"))
            printf("seed %d: RTN2 %.4f, k-means %.4f, GPTQ2 with clip %.4f, weighted k-means %.4f, v inputs at once "
                   "%.4f, plain book %.4f, weighted book %.4f, largest first %.4f\n",
                   seed, j[0] / whole, j[1] / whole, j[2] / whole, j[3] / whole, j[4] / whole, j[5] / whole,
                   j[6] / whole, j[7] / whole);
        tllm_calib_close(ctx, l.calib);
        t_free_blocks();
    }
    t_close(ctx);
    /* v inputs at once is not asserted: searched in its whole metric, as above, it loses less than VPTQ does on layers
     * like this one */
    for (i = 0; i < 7; i++)
        if (i != 3 && i != 4) T_TRUE(mean[i + 1] < mean[i]);
    T_TRUE(mean[5] < mean[3]);
    T_PROOF("quantization 1",
            "J after the pass <= J of plain coding with the same book (statistically, on every test seed)");
    T_PROOF("quantization 1", "measured guide: RTN2 > k-means > GPTQ2 > weighted k-means > VPTQ on plain book > VPTQ "
                              "on weighted book > with the permutation");
}

static void test_rate(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_vptq_desc d;
    double bits;
    memset(&d, 0, sizeof d);
    T_OK(tllm_vptq_rate(ctx, &d, 4096, 4096, &bits, NULL));
    T_CLOSE(bits, 1.001953, 5e-7);
    T_CLOSE(16 / bits, 15.97, 0.005);
    d.v = 6;
    d.k = 4096;
    T_OK(tllm_vptq_rate(ctx, &d, 4096, 4096, &bits, NULL));
    T_CLOSE(bits, 2.0 + 16.0 * 6 * 4096 / 16777216, 1e-9);
    T_CLOSE(16 / bits, 7.9, 0.05);          /* bytes of the headline */
    T_OK(tllm_vptq_rate(ctx, &d, 1024, 1024, &bits, NULL));
    T_CLOSE(16 / bits, 6.7, 0.1);
    d.v = 12;
    d.k = d.k2 = 4096;
    d.v0 = 4;
    d.k0 = 8192;
    d.outliers = 1;
    d.groups = 4;
    T_OK(tllm_vptq_rate(ctx, &d, 4096, 4096, &bits, NULL));     /* 41 inputs are one per cent; 4055 leave three over */
    T_CLOSE(bits,
            (4052 * 2.0 + 44 * 13 / 4.0) / 4096 + (16.0 * 12 * 8192 * 4 + 16.0 * 4 * 8192) / 16777216 + 16.0 / 4096,
            1e-9);
    t_close(ctx);
    T_PROOF("quantization 1", "rate example 4096x4096, v=8, k=256: 1.001953 bits, ratio 15.97");
}

/* the choice of AUTO: by rows of x, and buckets where one number is added at a time and a row has at least as many
 * codes as the book has vectors */
static void test_choice(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const int one = target == TINY_TARGET_SCALAR;
    tllm_vptq_desc d;
    tllm_vptq q;
    if (target == TINY_TARGET_REFERENCE) {
        t_close(ctx);
        return;
    }
    memset(&d, 0, sizeof d);
    T_OK(tllm_vptq_random(ctx, &d, 16, 256, 1, &q));
    T_EQ_INT(tllm_vptq_form_of(ctx, &q, 1), one ? TLLM_VPTQ_BUCKET : TLLM_VPTQ_GATHER);
    T_EQ_INT(tllm_vptq_form_of(ctx, &q, 8), one ? TLLM_VPTQ_BUCKET : TLLM_VPTQ_EXPAND);
    tllm_vptq_close(ctx, &q);
    T_OK(tllm_vptq_random(ctx, &d, 16, 255, 1, &q));
    T_EQ_INT(tllm_vptq_form_of(ctx, &q, 7), TLLM_VPTQ_GATHER);
    T_EQ_INT(tllm_vptq_form_of(ctx, &q, 8), TLLM_VPTQ_EXPAND);
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    layer l = make(ctx, 8, 64, 100, 1.0f, 1.0f);
    double *h = (double *)l.h.data, bits;
    tiny_tensor narrow = tiny_tensor_2d(h, TINY_F64, 63, 63), x = tiny_tensor_2d(l.w, TINY_F32, 1, 64),
                y = tiny_tensor_2d(t_keep(64), TINY_F32, 1, 8), bad;
    float book[16 * 4];
    tllm_vptq_about about;
    tllm_vptq_desc d;
    tllm_vptq q, odd;
    int i;
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 16;
#define REFUSED(status, part)                                                          \
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 8, 64, &l.h, &q, &about), status, part); \
    T_TRUE(!q.bytes && !q.block && !q.rows)
    T_STATUS(tllm_vptq_quantize(NULL, &d, l.w, 8, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_vptq_quantize(ctx, &d, NULL, 8, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "weights and a result pointer");
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 8, 64, &l.h, NULL, NULL), TINY_E_ARGUMENT, "weights and a result");
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 8, 64, NULL, &q, NULL), TINY_E_ARGUMENT,
             "the products of the inputs, is NULL");
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 8, 64, &narrow, &q, NULL), TINY_E_SHAPE, "for 64 inputs it must be");
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 0, 64, &l.h, &q, NULL), TINY_E_ARGUMENT, "0 rows of 64 inputs");
    T_STATUS(tllm_vptq_quantize(ctx, &d, l.w, 8, -1, &l.h, &q, NULL), TINY_E_ARGUMENT, "8 rows of -1 inputs");
    d.k = 129;
    REFUSED(TINY_E_ARGUMENT, "a book of 129 vectors for only 128 vectors in 64 inputs");
    d.k = 16;
    d.k2 = 129;
    REFUSED(TINY_E_ARGUMENT, "a book of 129 vectors for only 128 vectors in 64 inputs");
    d.k2 = 1;
    REFUSED(TINY_E_ARGUMENT, "a second book of 1 vectors; none, or 2 to 1048576");
    d.k2 = 0;
    d.v = 9;
    REFUSED(TINY_E_ARGUMENT, "a vector of 9 outputs in a matrix of 8");
    d.v = 17;
    REFUSED(TINY_E_ARGUMENT, "a vector of 17 outputs in a matrix of 8; the limits are 1 and 16");
    d.v = -4;
    REFUSED(TINY_E_ARGUMENT, "a vector of -4 outputs");
    d.v = 4;
    d.k = 1;
    REFUSED(TINY_E_ARGUMENT, "a book of 1 vectors; the limits are 2 and 1048576");
    d.k = -5;
    REFUSED(TINY_E_ARGUMENT, "a book of -5 vectors");
    d.k = (tiny_idx)1 << 20;
    d.k2 = 8192;
    REFUSED(TINY_E_ARGUMENT, "codes of 20 and 13 bits are more than 32");
    d.k = 16;
    d.k2 = 0;
    d.outliers = 100;
    REFUSED(TINY_E_ARGUMENT, "100 percent of the inputs as outliers");
    d.outliers = NAN;
    REFUSED(TINY_E_ARGUMENT, "nan percent");
    d.outliers = 1;
    d.v0 = 9;
    REFUSED(TINY_E_ARGUMENT, "the outliers have a book of 16 vectors of 9 outputs");
    d.v0 = 4;
    d.k0 = 1;
    REFUSED(TINY_E_ARGUMENT, "the outliers have a book of 1 vectors");
    d.k0 = 0;
    d.outliers = 99;
    d.groups = 2;
    REFUSED(TINY_E_ARGUMENT, "64 inputs, 64 of them outliers, cannot be divided into 2 groups");
    d.outliers = 0;
    d.groups = 65;
    REFUSED(TINY_E_ARGUMENT, "65 groups of 64 inputs");
    d.groups = -1;
    REFUSED(TINY_E_ARGUMENT, "-1 groups");
    d.groups = 1;
    d.damp = -1;
    REFUSED(TINY_E_ARGUMENT, "damping by -1");
    d.damp = 0;
    d.block = -1;
    REFUSED(TINY_E_ARGUMENT, "blocks of -1 inputs");
    d.block = 0;
    d.iters = -1;
    REFUSED(TINY_E_ARGUMENT, "kmeans: iters -1,");
    d.iters = 0;
    l.w[70] = NAN;
    REFUSED(TINY_E_NUMERIC, "the weight in row 1, input 6 is nan");
    l.w[70] = 65520.0f;
    REFUSED(TINY_E_NUMERIC, "the weight in row 1, input 6 is 65520; books hold halves");
    l.w[70] = 0.5f;
    h[5 * 64 + 9] = NAN;
    REFUSED(TINY_E_NUMERIC, "h has a NaN or an infinity for inputs");
    h[5 * 64 + 9] = 0;
    h[5 * 64 + 5] = -1;
    REFUSED(TINY_E_NUMERIC, "h has -1 on its diagonal at input 5");
    h[5 * 64 + 5] = 100;
    for (i = 0; i < 64; i++) book[i] = (float)i;
    d.book = book;
    book[7] = NAN;
    REFUSED(TINY_E_NUMERIC, "number 7 of a given book is nan");
    book[7] = 1e9f;
    T_OK(tllm_vptq_quantize(ctx, &d, l.w, 8, 64, &l.h, &q, &about));
    T_EQ_INT(about.clamped, 1);
    /* two widths of vectors whose common multiple is too large */
    odd = q;
    odd.v = 7;
    T_STATUS(tllm_vptq_expand(ctx, &odd, 0, 1, book, 64), TINY_E_ARGUMENT, "bytes, not");
    odd.groups = 0;
    T_STATUS(tllm_vptq_expand(ctx, &odd, 0, 1, book, 64), TINY_E_ARGUMENT, "cannot be divided into 0 groups");
    T_STATUS(tllm_vptq_expand(ctx, NULL, 0, 1, book, 64), TINY_E_ARGUMENT, "the matrix is NULL");
    T_STATUS(tllm_vptq_matmul(ctx, &x, NULL, &y), TINY_E_ARGUMENT, "the matrix is NULL");
    bad = x;
    bad.dim[1] = 63;
    T_STATUS(tllm_vptq_matmul(ctx, &bad, &q, &y), TINY_E_SHAPE,
             "8 outputs of rows of 63 numbers; the matrix has 8 outputs of 64");
    bad = y;
    bad.dim[1] = 7;
    T_STATUS(tllm_vptq_matmul(ctx, &x, &q, &bad), TINY_E_SHAPE, NULL);
    T_STATUS(tllm_vptq_matmul_as(ctx, &x, &q, TLLM_VPTQ_FORMS, &y), TINY_E_ARGUMENT,
             "form 4, 8 outputs: there are 4 forms");
    bad = x;
    bad.dtype = TINY_I32;
    T_STATUS(tllm_vptq_matmul(ctx, &bad, &q, &y), TINY_E_SHAPE, "it must have 2 axes of f32");
    odd = q;
    odd.rows = 12;
    T_STATUS(tllm_vptq_matmul(ctx, &x, &odd, &y), TINY_E_SHAPE, NULL);
    odd = q;
    odd.n_bytes--;
    T_STATUS(tllm_vptq_matmul(ctx, &x, &odd, &y), TINY_E_FORMAT, "but the header says");
    T_STATUS(tllm_vptq_open(ctx, NULL, 100, &odd), TINY_E_FORMAT, "its 0 bytes are not a matrix");
    T_STATUS(tllm_vptq_open(ctx, q.bytes, q.n_bytes, NULL), TINY_E_ARGUMENT, "a result pointer is needed");
    T_STATUS(tllm_vptq_load(ctx, "/nowhere/at/all", &odd), TINY_E_IO, "/nowhere/at/all");
    T_STATUS(tllm_vptq_load(ctx, NULL, &odd), TINY_E_ARGUMENT, "a path and a result pointer");
    T_STATUS(tllm_vptq_save(ctx, &q, NULL), TINY_E_ARGUMENT, "a path is needed");
    T_STATUS(tllm_vptq_random(ctx, &d, 8, 64, 0, NULL), TINY_E_ARGUMENT, "a result pointer is needed");
    T_STATUS(tllm_vptq_rate(ctx, &d, INT32_MAX, INT32_MAX, &bits, NULL),
             sizeof(void *) == 4 ? TINY_E_OVERFLOW : TINY_OK, NULL);
    tllm_vptq_close(ctx, &q);
    tllm_vptq_close(ctx, NULL);
    d.book = NULL;
    memset(&d, 0, sizeof d);
    d.v = 13;
    d.v0 = 11;
    d.outliers = 5;
    T_STATUS(tllm_vptq_rate(ctx, &d, 100, 100, &bits, NULL), TINY_E_ARGUMENT,
             "end at a common row only every 143 rows");
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
    T_PROOF("quantization 1", "bad input: k > number of vectors, v > M, total bits > 32, NaN in H");
}

/* dead inputs, none alive, fewer tokens than inputs; an H that is no sum of squares */
static void test_singular(tiny_target target)
{
    enum { ROWS = 16, N = 40 };
    tiny_ctx *ctx = t_ctx(target, 2);
    layer l = make(ctx, ROWS, N, 12, 0.5f, 1.0f);
    double *h = (double *)l.h.data;
    const tiny_tensor none = tiny_tensor_2d(t_keep(N * N * sizeof *h), TINY_F64, N, N);
    tllm_vptq_desc d;
    tllm_vptq_about about;
    tllm_vptq q;
    float *a;
    int i, way;
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 16;
    for (way = 0; way < 2; way++) {
        d.normalize = way;
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));      /* twelve tokens: of rank 12 */
        T_EQ_INT(about.doubled + about.rounded, 0);
        T_TRUE(about.loss > 0 && about.loss < 1e9);
        tllm_vptq_close(ctx, &q);
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &none, &q, &about));
        T_EQ_INT(about.dead, N);
        a = expanded(ctx, &q);
        for (i = 0; i < ROWS * N; i++) T_TRUE(a[i] == 0.0f);
        tllm_vptq_close(ctx, &q);
        for (i = 0; i < N; i++) h[7 * N + i] = h[i * N + 7] = 0;
        T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
        T_EQ_INT(about.dead, 1);
        tllm_vptq_close(ctx, &q);
    }
    h[3] = 1e9 * h[0];
    T_OK(tllm_vptq_quantize(ctx, &d, l.w, ROWS, N, &l.h, &q, &about));
    T_EQ_INT(about.rounded, 1);
    T_EQ_INT(about.doubled, 10);
    tllm_vptq_close(ctx, &q);
    tllm_calib_close(ctx, l.calib);
    t_close(ctx);
}

static void test_allocations(void)
{
    tiny_ctx *one = t_ctx(TINY_TARGET_AUTO, 1);
    layer l = make(one, 12, 45, 60, 1.0f, 2.0f);
    double *h = (double *)t_keep(45 * 45 * sizeof *h);
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, 45, 45),
                      x = tiny_tensor_2d(t_rand(3 * 45, -1, 1), TINY_F32, 3, 45),
                      y = tiny_tensor_2d(t_guarded(36), TINY_F32, 3, 12);
    float *to = t_guarded(12 * 45), *c = t_guarded(8 * 3);
    unsigned char *b;
    size_t n;
    tllm_vptq_desc d;
    tllm_kmeans_desc kd;
    tllm_vptq q;
    memcpy(h, l.h.data, 45 * 45 * sizeof *h);
    memset(&d, 0, sizeof d);
    memset(&kd, 0, sizeof kd);
    d.v = 4;
    d.k = 8;
    d.k2 = 4;
    d.groups = 2;
    d.outliers = 5;
    d.normalize = 1;
    kd.k = 8;
    kd.sample = 2;                          /* with all the memory that k-means may take */
    T_OK(tllm_vptq_quantize(one, &d, l.w, 12, 45, &th, &q, NULL));
    n = q.n_bytes;
    b = (unsigned char *)t_guarded_bytes(n);
    memcpy(b, q.bytes, n);
    tllm_vptq_close(one, &q);
    tllm_calib_close(one, l.calib);
    t_close(one);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2); tiny_ctx *ctx = NULL;
        if (tiny_ctx_open(&desc, &ctx)) continue; if (tllm_vptq_quantize(ctx, &d, l.w, 12, 45, &th, &q, NULL))
            T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY && !q.block);
        else T_SAME(q.bytes, b, n); tllm_vptq_close(ctx, &q);
        if (tllm_kmeans(ctx, &kd, l.w, 100, 3, NULL, c, NULL, NULL)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
        if (tllm_vptq_random(ctx, &d, 12, 45, 1, &q)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY && !q.block);
        tllm_vptq_close(ctx, &q);
        if (tllm_vptq_open(ctx, b, n, &q)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY && !q.bytes); else {
            if (tllm_vptq_expand(ctx, &q, 0, 12, to, 45)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
            if (tllm_vptq_matmul(ctx, &x, &q, &y)) T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
        } tllm_vptq_close(ctx, &q);
        tiny_ctx_close(ctx);)
}

/* cancelled after that many polls, at any place: the status, and no memory left */
static int countdown;
static int stop_then(void *user) { (void)user; return --countdown < 0; }
static void test_cancel(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL, *one = t_ctx(TINY_TARGET_AUTO, 1);
    layer l = make(one, 40, 60, 90, 1.0f, 2.0f);
    double *h = (double *)t_keep(60 * 60 * sizeof *h);
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, 60, 60);
    tllm_vptq_desc d;
    tllm_vptq q;
    tiny_status st = TINY_E_CANCELLED;
    int after, stopped = 0;
    memcpy(h, l.h.data, 60 * 60 * sizeof *h);
    tllm_calib_close(one, l.calib);
    t_close(one);
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 16;
    d.k2 = 8;
    d.iters = 4;
    desc.cancel = stop_then;
    if (tiny_ctx_open(&desc, &ctx)) { T_TRUE(0); return; }
    t_use(ctx);
    for (after = 0; st && after < 100000; after += 1 + after / 2) {
        const size_t held = tiny_ctx_bytes(ctx);
        countdown = after;
        st = tllm_vptq_quantize(ctx, &d, l.w, 40, 60, &th, &q, NULL);
        if (!st) break;
        stopped++;
        T_EQ_INT(st, TINY_E_CANCELLED);
        T_TRUE(!q.block && tiny_ctx_bytes(ctx) >= held);
        countdown = 1 << 30;
    }
    T_EQ_INT(st, TINY_OK);
    T_TRUE(stopped > 5);
    tllm_vptq_close(ctx, &q);
    tiny_ctx_close(ctx);
    t_use(NULL);
    T_EQ_INT(t_alloc.live_blocks, 0);
}

/* the same bytes for every number of threads, and sizes at which several pieces of rows are coded at once */
static void test_threads(tiny_target target)
{
    tiny_ctx *ctx[3];
    layer l;
    tllm_vptq q[3];
    tllm_vptq_desc d;
    int i;
    for (i = 0; i < 3; i++) ctx[i] = t_ctx(target, i + 1);
    l = make(ctx[2], 200, 150, 300, 0.5f, 2.0f);
    memset(&d, 0, sizeof d);
    d.v = 6;
    d.k = 40;
    d.k2 = 24;
    d.v0 = 4;
    d.k0 = 50;
    d.outliers = 3;
    d.groups = 2;
    d.iters = 10;
    for (i = 0; i < 3; i++) {
        t_use(ctx[i]);
        T_OK(tllm_vptq_quantize(ctx[i], &d, l.w, 200, 150, &l.h, &q[i], NULL));
        T_EQ_INT(q[i].n_bytes, q[0].n_bytes);
        T_SAME(q[i].bytes, q[0].bytes, q[0].n_bytes);
    }
    for (i = 0; i < 3; i++) tllm_vptq_close(ctx[i], &q[i]);
    tllm_calib_close(ctx[2], l.calib);
    for (i = 0; i < 3; i++) t_close(ctx[i]);
}

int main(void)
{
    T_RUN_FORMS(test_worked);
    T_RUN_FORMS(test_exact);
    T_RUN_FORMS(test_gptq);
    T_RUN_FORMS(test_identity);
    T_RUN_FORMS(test_pass);
    T_RUN(test_measured_losses);
    T_RUN(test_rate);
    T_RUN_FORMS(test_choice);
    T_RUN(test_refused);
    T_RUN_FORMS(test_singular);
    T_RUN(test_allocations);
    T_RUN(test_cancel);
    T_RUN_FORMS(test_threads);
    return t_done();
}
