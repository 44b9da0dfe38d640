/* tests/llm/round/smooth.c - SmoothQuant, and linear layers of 8-bit weights and inputs
 *
 * Truth    a factor worked by hand; eq. 4 by the C library's pow; sums of codes in 64 bits, and codes by
 *          their formula in double; outputs of the layer in double, with outliers in two channels */
#include "t.h"
#include <math.h>

/* largest input 100, largest weight 1: s = 10, both become 10 */
static void test_by_hand(tiny_target target)
{
    static const float x[6] = { 100, -0.5f, 3, 0.25f, -40, 1 };
    float w[4] = { -1, 0.5f, 0.25f, 1 }, x_most[2] = { 100, 1 }, w_most[2] = { 0, 0 }, s[2];
    tiny_ctx *ctx = t_ctx(target, 2);
    int t;
    (void)x;
    T_OK(tllm_smooth_largest(ctx, w, 2, 2, w_most));
    T_TRUE(w_most[0] == 1.0f && w_most[1] == 1.0f);
    T_OK(tllm_smooth_factors(ctx, 0.5f, x_most, w_most, 2, s));
    T_CLOSE(s[0], 10, 1e-6);
    T_CLOSE(s[1], 1, 1e-7);
    T_OK(tllm_smooth_columns(ctx, w, 2, 2, s));
    w_most[0] = w_most[1] = 0;
    T_OK(tllm_smooth_largest(ctx, w, 2, 2, w_most));
    T_CLOSE(w_most[0], 10, 1e-5);
    T_CLOSE(w_most[1], 1, 1e-6);
    T_CLOSE(x_most[0] / s[0], 10, 1e-5);
    for (t = 0; t < 3; t++)                 /* and the outputs are unchanged */
        T_CLOSE((double)w[0] * (double)x[2 * t] / (double)s[0] + (double)w[1] * (double)x[2 * t + 1] / (double)s[1],
                -(double)x[2 * t] + 0.5 * (double)x[2 * t + 1], 1e-5);
    t_close(ctx);
    T_PROOF("quantization 0", "max|X_j|=100, max|W_j|=1, alpha 0.5 -> s=10, both maxima become 10");
}

static void test_factors(void)
{
    enum { N = 60 };
    static const float alphas[] = { 0.0f, 0.25f, 0.5f, 0.8f, 1.0f };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(N, 0, 1), *w = t_rand(N, 0, 1), *s = t_guarded(N);
    size_t a;
    int j;
    for (j = 0; j < N; j++) {
        x[j] = (float)exp2(40 * (double)x[j] - 25);
        w[j] = (float)exp2(20 * (double)w[j] - 18);
    }
    x[4] = 0;
    w[9] = 0;
    x[11] = w[11] = 0;
    for (a = 0; a < T_COUNT(alphas); a++) {
        T_OK(tllm_smooth_factors(ctx, alphas[a], x, w, N, s));
        for (j = 0; j < N; j++) {
            const double want =
                pow((double)x[j], (double)alphas[a]) / pow(fmax((double)w[j], 1e-5), 1 - (double)alphas[a]);
            if (j == 4 || j == 9 || j == 11) T_TRUE(s[j] == 1.0f);      /* dead: on either side */
            else T_CLOSE(s[j], fmax(want, 1e-5), 1e-6 * fmax(want, 1e-5));
        }
    }
    T_WALLS(s, N);
    t_close(ctx);
    T_PROOF("quantization 0", "dead channels");
}

/* codes by their formula, products by sums in 64 bits: the same bits on every target and with any number of threads */
static void test_product(tiny_target target)
{
    static const struct {
        tiny_idx tokens, rows, n;
    } size[] = { { 1, 1, 1 }, { 3, 5, 17 }, { 1, 40, 128 }, { 13, 33, 200 }, { 50, 64, 96 }, { 20, 300, 1000 } };
    size_t k;
    int way, threads;
    for (k = 0; k < T_COUNT(size); k++) {
        const tiny_idx tokens = size[k].tokens, rows = size[k].rows, n = size[k].n, ld = rows + 3;
        float *x = t_rand((size_t)(tokens * n), -2, 2), *w = t_rand((size_t)(rows * n), -0.3f, 0.3f),
              *bias = t_rand((size_t)rows, -1, 1), *y = t_guarded((size_t)(tokens * ld));
        tllm_w8a8 xq, wq;
        tiny_idx t, r, i;
        xq.code = (int8_t *)t_guarded_bytes((size_t)(tokens * n));
        xq.scale = t_guarded((size_t)tokens);
        wq.code = (int8_t *)t_guarded_bytes((size_t)(rows * n));
        wq.scale = t_guarded((size_t)rows);
        x[0] = 25;                          /* an outlier */
        for (i = 0; i < n; i++) w[(rows - 1) * n + i] = rows > 1 ? 0.0f : w[i];
        for (way = 0; way < 3; way++)       /* dynamic; static, larger ones cut; dynamic with a bias */
            for (threads = 1; threads <= (T_SLOW ? 2 : 4); threads++) {
                tiny_ctx *ctx = t_ctx(target, threads);
                T_OK(tllm_w8a8_weights(ctx, w, rows, n, &wq));
                T_OK(tllm_w8a8_inputs(ctx, x, tokens, n, n, way == 1 ? 1.5f : 0.0f, &xq));
                T_OK(tllm_w8a8_product(ctx, &xq, tokens, &wq, rows, n, way == 2 ? bias : NULL, y, ld));
                for (t = 0; t < tokens; t++) {
                    float most = 0;
                    for (i = 0; i < n; i++) most = fmaxf(most, fabsf(x[t * n + i]));
                    if (way == 1) most = 1.5f;
                    T_TRUE(xq.scale[t] == most / 127.0f);
                    for (i = 0; i < n; i++)
                        T_EQ_INT(xq.code[t * n + i],
                                 (int)fmax(-128, fmin(127, nearbyint((double)(x[t * n + i] / xq.scale[t])))));
                    for (r = 0; r < rows; r++) {
                        int64_t sum = 0;
                        float want;
                        for (i = 0; i < n; i++) sum += (int64_t)xq.code[t * n + i] * wq.code[r * n + i];
                        want = (float)sum * xq.scale[t];
                        want = want * wq.scale[r];
                        if (way == 2)
                            T_CLOSE(y[t * ld + r], (double)want + (double)bias[r],
                                    2e-7 * (fabs((double)want) + fabs((double)bias[r])));
                        else if (target == TINY_TARGET_REFERENCE)
                            T_CLOSE(y[t * ld + r], (double)sum * (double)xq.scale[t] * (double)wq.scale[r],
                                    6e-8 * fabs((double)want));
                        else if (!T_TRUE(y[t * ld + r] == want))
                            printf("  %.9g, not %.9g\n", (double)y[t * ld + r], (double)want);
                    }
                }
                for (r = 0; r < rows; r++) {
                    float most = 0;
                    for (i = 0; i < n; i++) most = fmaxf(most, fabsf(w[r * n + i]));
                    T_TRUE(wq.scale[r] == (most > 0 ? most / 127.0f : 1.0f));
                    for (i = 0; i < n; i++)
                        T_EQ_INT(wq.code[r * n + i], (int)nearbyint((double)(w[r * n + i] / wq.scale[r])));
                }
                T_WALLS(xq.code, 0);
                T_WALLS(wq.code, 0);
                T_WALLS(xq.scale, 0);
                T_WALLS(wq.scale, 0);
                T_WALLS(y, 0);
                t_close(ctx);
            }
        t_free_blocks();
    }
    T_PROOF("quantization 0", "y = s_x s_w sum q_x q_w in int32");
    T_PROOF("quantization 0", "zero rows");
}

/* the largest sum that there is, and one step more */
static void test_largest_sum(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx n = TLLM_W8A8_MOST;
    float *x = t_guarded((size_t)n), y;
    int8_t *a = (int8_t *)t_guarded_bytes((size_t)n);
    float sa, sb = 1;
    tllm_w8a8 q, w;
    tiny_idx i;
    for (i = 0; i < n; i++) x[i] = i ? -127.0f : -500.0f;
    q.code = a;
    q.scale = &sa;
    T_OK(tllm_w8a8_inputs(ctx, x, 1, n, n, 127.0f, &q));
    T_TRUE(sa == 1.0f && a[0] == -128 && a[1] == -127);
    memset(a, -128, (size_t)n);             /* codes from elsewhere */
    w.code = a;
    w.scale = &sb;
    T_OK(tllm_w8a8_product(ctx, &q, 1, &w, 1, n, NULL, &y, 1));
    T_TRUE(y == (float)(16384.0 * TLLM_W8A8_MOST));
    T_STATUS(tllm_w8a8_product(ctx, &q, 1, &w, 1, n + 1, NULL, &y, 1), TINY_E_OVERFLOW,
             "rows of 131072 inputs; with more than 131071");
    T_STATUS(tllm_w8a8_weights(ctx, x, 1, n + 1, &w), TINY_E_OVERFLOW, "rows of 131072 weights");
    t_close(ctx);
}

/* Two outlier channels, x30 and x20, among 128: the loss of W8A8, relative squared error of the outputs, with and
 * without smoothing. */
static void test_outliers(tiny_target target)
{
    enum { N = 128, ROWS = 64, TOKENS = 200 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(TOKENS * N, -1, 1), *w = t_rand(ROWS * N, -1, 1), *y = t_guarded(TOKENS * ROWS), s[N],
          x_most[N] = { 0 }, w_most[N] = { 0 };
    double *want = (double *)t_keep(TOKENS * ROWS * sizeof *want), lost[2][2], most = 0;
    tllm_w8a8 xq, wq;
    int t, r, i, way, smooth;
    xq.code = (int8_t *)t_guarded_bytes(TOKENS * N);
    xq.scale = t_guarded(TOKENS);
    wq.code = (int8_t *)t_guarded_bytes(ROWS * N);
    wq.scale = t_guarded(ROWS);
    for (t = 0; t < TOKENS; t++) {
        x[t * N + 17] *= 30;
        x[t * N + 90] *= 20;
        for (i = 0; i < N; i++) x_most[i] = fmaxf(x_most[i], fabsf(x[t * N + i]));
        for (r = 0; r < ROWS; r++)
            for (i = 0; i < N; i++) want[t * ROWS + r] += (double)x[t * N + i] * (double)w[r * N + i];
    }
    for (smooth = 0; smooth < 2; smooth++) {
        if (smooth) {
            T_OK(tllm_smooth_largest(ctx, w, ROWS, N, w_most));
            T_OK(tllm_smooth_factors(ctx, 0.5f, x_most, w_most, N, s));
            T_OK(tllm_smooth_columns(ctx, w, ROWS, N, s));
            for (t = 0; t < TOKENS; t++)
                for (i = 0; i < N; i++) x[t * N + i] /= s[i];
        }
        for (i = 0, most = 0; i < TOKENS * N; i++) most = fmax(most, fabs((double)x[i]));
        T_OK(tllm_w8a8_weights(ctx, w, ROWS, N, &wq));
        for (way = 0; way < 2; way++) {
            double off = 0, size = 0;
            T_OK(tllm_w8a8_inputs(ctx, x, TOKENS, N, N, way ? (float)most : 0.0f, &xq));
            T_OK(tllm_w8a8_product(ctx, &xq, TOKENS, &wq, ROWS, N, NULL, y, ROWS));
            for (i = 0; i < TOKENS * ROWS; i++) {
                off += ((double)y[i] - want[i]) * ((double)y[i] - want[i]);
                size += want[i] * want[i];
            }
            lost[smooth][way] = off / size;
        }
    }
    T_TRUE(lost[1][0] * 2.5 < lost[0][0] && lost[1][1] * 5 < lost[0][1]);
    if (getenv("T_SAY"))
        printf("%s: per token %.3g, smoothed %.3g; static %.3g, smoothed %.3g\n", tiny_target_name(target), lost[0][0],
               lost[1][0], lost[0][1], lost[1][1]);
    t_close(ctx);
}

static int stop_now(void *user) { (void)user; return 1; }
static void test_refused(void)
{
    enum { N = 64, ROWS = 300 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2), *stopped = NULL;
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    float *w = t_rand(ROWS * N, -1, 1), most[N] = { 0 }, ones[N], s[N], y[4];
    tllm_w8a8 q, none;
    int i;
    for (i = 0; i < N; i++) ones[i] = 1;
    q.code = (int8_t *)t_guarded_bytes(ROWS * N);
    q.scale = t_guarded(ROWS);
    none = q;
    none.scale = NULL;
    T_STATUS(tllm_smooth_factors(NULL, 0.5f, ones, ones, N, s), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_smooth_factors(ctx, 1.01f, ones, ones, N, s), TINY_E_ARGUMENT,
             "alpha is 1.01; the limits are 0 and 1");
    T_STATUS(tllm_smooth_factors(ctx, -0.1f, ones, ones, N, s), TINY_E_ARGUMENT, "alpha is -0.1");
    T_STATUS(tllm_smooth_factors(ctx, NAN, ones, ones, N, s), TINY_E_ARGUMENT, "alpha is nan");
    T_STATUS(tllm_smooth_factors(ctx, 0.5f, NULL, ones, N, s), TINY_E_ARGUMENT,
             "x_most, w_most and a result pointer");
    T_STATUS(tllm_smooth_factors(ctx, 0.5f, ones, ones, 0, s), TINY_E_ARGUMENT, "factors of 0 inputs");
    ones[5] = INFINITY;
    T_STATUS(tllm_smooth_factors(ctx, 0.5f, ones, most, N, s), TINY_E_NUMERIC, "input 5: the largest are inf and 0");
    ones[5] = -1;
    T_STATUS(tllm_smooth_factors(ctx, 0.5f, most, ones, N, s), TINY_E_NUMERIC, "input 5: the largest are 0 and -1");
    T_STATUS(tllm_smooth_columns(ctx, NULL, ROWS, N, s), TINY_E_ARGUMENT, "their factors are needed");
    T_STATUS(tllm_w8a8_weights(ctx, NULL, ROWS, N, &q), TINY_E_ARGUMENT, "weights, codes and scales are needed");
    T_STATUS(tllm_w8a8_weights(ctx, w, ROWS, N, &none), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_w8a8_weights(ctx, w, ROWS, 0, &q), TINY_E_ARGUMENT, "300 rows of 0 weights");
    T_STATUS(tllm_w8a8_inputs(ctx, w, 2, N, N - 1, 0, &q), TINY_E_ARGUMENT, "2 rows of 64 inputs cannot be 63 apart");
    T_STATUS(tllm_w8a8_inputs(ctx, w, 2, N, N, -1, &q), TINY_E_ARGUMENT, "the calibrated maximum is -1");
    T_STATUS(tllm_w8a8_inputs(ctx, w, 2, N, N, NAN, &q), TINY_E_ARGUMENT, "the calibrated maximum is nan");
    T_STATUS(tllm_w8a8_product(ctx, &q, 2, &none, 2, N, NULL, y, 2), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_w8a8_product(ctx, &q, 2, &q, 2, N, NULL, y, 1), TINY_E_ARGUMENT,
             "2 tokens of 64 inputs to 2 outputs cannot be 1 apart");
    w[290 * N + 3] = NAN;
    w[299 * N] = INFINITY;
    T_STATUS(tllm_w8a8_weights(ctx, w, ROWS, N, &q), TINY_E_NUMERIC, "number 3 in row 290 of the weights is nan");
    T_STATUS(tllm_smooth_largest(ctx, w, ROWS, N, most), TINY_E_NUMERIC, "row 290, input 3 is nan");
    w[290 * N + 3] = -INFINITY;
    T_STATUS(tllm_w8a8_inputs(ctx, w, ROWS, N, N, 3, &q), TINY_E_NUMERIC, "number 3 in row 290 of the inputs is -inf");
    w[290 * N + 3] = w[299 * N] = 1e-44f;   /* no float is a 127th of it, but the rest of the row has a scale */
    T_OK(tllm_w8a8_weights(ctx, w, ROWS, N, &q));
    for (i = 0; i < N; i++) w[i] = 1e-44f;
    T_OK(tllm_w8a8_weights(ctx, w, 1, N, &q));
    T_TRUE(q.scale[0] == 1.0f && q.code[3] == 0);
    d.cancel = stop_now;
    T_OK(tiny_ctx_open(&d, &stopped));
    t_use(stopped);
    T_STATUS(tllm_w8a8_weights(stopped, w, ROWS, N, &q), TINY_E_CANCELLED, NULL);
    T_STATUS(tllm_w8a8_product(stopped, &q, 4, &q, 64, N, NULL, t_guarded(256), 64), TINY_E_CANCELLED, NULL);
    tiny_ctx_close(stopped);
    t_close(ctx);
    T_PROOF("quantization 0", "alpha outside [0,1]");
    T_PROOF("quantization 0", "NaN/Inf weights");
}

static void test_memory(void)
{
    enum { N = 256, ROWS = 96, TOKENS = 40 };
    float *w = t_rand(ROWS * N, -1, 1), *x = t_rand(TOKENS * N, -1, 1), *y = t_guarded(TOKENS * ROWS);
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        static int8_t xc[TOKENS * N]; static int8_t wc[ROWS * N];
        static float xs[TOKENS]; static float ws[ROWS];
        tllm_w8a8 xq; tllm_w8a8 wq;
        tiny_status st = tiny_ctx_open(&d, &ctx);
        xq.code = xc;
        xq.scale = xs;
        wq.code = wc;
        wq.scale = ws;
        if (!st) st = tllm_w8a8_weights(ctx, w, ROWS, N, &wq);
        if (!st) st = tllm_w8a8_inputs(ctx, x, TOKENS, N, N, 0, &xq);
        if (!st) st = tllm_w8a8_product(ctx, &xq, TOKENS, &wq, ROWS, N, NULL, y, ROWS);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);

    T_RUN(test_factors);
    T_RUN_FORMS(test_product);
    T_RUN(test_largest_sum);
    T_RUN_FORMS(test_outliers);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
