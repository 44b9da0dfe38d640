/* tests/llm/round/awq.c - AWQ: factors of the inputs, and clipped ranges
 *
 * Truth    a layer of two inputs worked by hand; the whole search once more in double, with rounding and loss written
 *          out; outputs computed from the weights before and after, which factors and clips must bring nearer */
#include "t.h"
#include <math.h>

static float half_near(double v)
{
    const float x = (float)v;
    unsigned char b[2];
    float y;
    tllm_format_of(TLLM_FORMAT_F16)->pack(&x, b, 1, NULL);
    tllm_format_of(TLLM_FORMAT_F16)->unpack(b, &y, 1);
    return y;
}

/* W = (1, 0.3) in S1 of 2 bits, codes -2 to 1; inputs (1, 4) and (1, -4). alpha 0: (1, 0), loss 2 (4 0.3)^2 = 2.88.
 * alpha 0.5: s = (1, 2) / sqrt 2, W s = 0.7071 (1, 0.6), both codes 1: W' = (1, 0.5), loss 2 (4 0.2)^2 = 1.28 */
static void test_by_hand(tiny_target target)
{
    static const float w[2] = { 1, 0.3f }, x[4] = { 1, 4, 1, -4 }, mean[2] = { 1, 4 };
    static const float back[2] = { 1, 0.5f };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_awq_desc d;
    tllm_awq_about about;
    tllm_awq_matrix m;
    float s[2];
    double loss;
    memset(&d, 0, sizeof d);
    memset(&m, 0, sizeof m);
    d.grid.kind = TLLM_PLAIN_S1;
    d.grid.bits = 2;
    d.steps = 2;
    m.w = w;
    m.rows = 1;
    T_OK(tllm_awq_scale(ctx, &d, &m, 1, 2, mean, x, 2, s, &about));
    T_CLOSE(about.alpha, 0.5, 1e-12);
    T_CLOSE(about.plain, 2.88, 1e-5);
    T_CLOSE(about.loss, 1.28, 2e-3);        /* the scale is a half */
    T_CLOSE(s[0], sqrt(0.5), 1e-6);
    T_CLOSE(s[1], sqrt(2.0), 1e-6);
    T_OK(tllm_awq_loss(ctx, w, back, 1, 2, x, 2, &loss));
    T_CLOSE(loss, 1.28, 1e-5);
    T_OK(tllm_awq_loss(ctx, w, NULL, 1, 2, x, 2, &loss));
    T_CLOSE(loss, 2.2 * 2.2 + 0.2 * 0.2, 1e-5);
    t_close(ctx);
}

/* the signed 4-bit grid of one group, in double, and its loss */
static void rounded(const double *w, int n, int bits, double *to)
{
    double most = 0, s;
    int i;
    for (i = 0; i < n; i++) most = fmax(most, fabs(w[i]));
    s = (double)half_near(2 * most / ((1 << bits) - 1));
    if (s == 0) s = 1;
    for (i = 0; i < n; i++) to[i] = s * fmax(-(1 << (bits - 1)), fmin((1 << (bits - 1)) - 1, nearbyint(w[i] / s)));
}
enum { N = 72, ROWS = 24, TOKENS = 90, GROUP = 32 };
typedef struct layer { float *w, *x, mean[N]; } layer;
static layer make(void)
{
    layer l;
    int t, i;
    l.w = t_rand(ROWS * N, -1, 1);
    l.x = t_rand(TOKENS * N, -1, 1);
    for (i = 0; i < N; i++) {
        const float size = (float)exp2((double)t_rand_float(-3, 3)) * (i % 24 == 5 ? 20.0f : 1.0f);
        l.mean[i] = 0;
        for (t = 0; t < TOKENS; t++) {
            /* dead; and so small that its factor is the least that there is */
            l.x[t * N + i] *= i == 40 ? 0.0f : i == 50 ? 1e-30f : size;
            l.mean[i] += fabsf(l.x[t * N + i]) / TOKENS;
        }
    }
    return l;
}
/* the loss of two matrices under factors s, and of rounding without any (NULL) */
static double lost(const layer *l, const double *s)
{
    double sum = 0, off[N], scaled[N], to[N];
    int r, i, t, g;
    for (r = 0; r < ROWS; r++) {
        for (i = 0; i < N; i++) scaled[i] = (double)l->w[r * N + i] * s[i];
        for (g = 0; g < N; g += GROUP) rounded(scaled + g, N - g < GROUP ? N - g : GROUP, 3, to + g);
        for (i = 0; i < N; i++) off[i] = (double)l->w[r * N + i] - to[i] / s[i];
        for (t = 0; t < TOKENS; t++) {
            double y = 0;
            for (i = 0; i < N; i++) y += off[i] * (double)l->x[t * N + i];
            sum += y * y;
        }
    }
    return sum;
}
static void test_search(tiny_target target)
{
    layer l = make();
    tllm_awq_desc d;
    tllm_awq_about about, again;
    tllm_awq_matrix m[2];
    float *s = t_guarded(N), *other = t_guarded(N);
    double best = 0, first = 0, at = 0, f[N];
    int i, j, threads;
    memset(&d, 0, sizeof d);
    memset(m, 0, sizeof m);
    d.grid.bits = 3;
    d.grid.group = GROUP;
    m[0].w = l.w;                           /* two matrices that read the same: rows of one are the rows of both */
    m[0].rows = 10;
    m[1].w = l.w + 10 * N;
    m[1].rows = ROWS - 10;
    for (i = 0; i < 20; i++) {
        double least = 1e30, most = 0, sum;
        for (j = 0; j < N; j++)
            if (j != 40) {
                f[j] = fmax(pow((double)l.mean[j], i / 20.0), 1e-4);
                least = fmin(least, f[j]);
                most = fmax(most, f[j]);
            }
        f[40] = least;                      /* dead */
        for (j = 0; j < N; j++) f[j] /= sqrt(least * most);
        sum = lost(&l, f);
        if (i == 0) first = sum;
        if (i == 0 || sum < best) {
            best = sum;
            at = i / 20.0;
        }
    }
    for (threads = 1; threads <= 4; threads++) {
        tiny_ctx *ctx = t_ctx(target, threads);
        T_OK(tllm_awq_scale(ctx, &d, m, 2, N, l.mean, l.x, TOKENS, threads == 1 ? s : other,
                            threads == 1 ? &about : &again));
        if (threads > 1) {
            T_SAME(s, other, N);
            T_TRUE(about.alpha == again.alpha && about.loss == again.loss && about.plain == again.plain);
        }
        t_close(ctx);
    }
    T_CLOSE(about.plain, first, 1e-3 * first);      /* a code in the middle may go either way */
    T_CLOSE(about.loss, best, 1e-3 * best);
    T_CLOSE(about.alpha, at, 1e-9);
    T_TRUE(about.loss < about.plain && about.alpha > 0);
    for (j = 0; j < N; j++) T_TRUE(s[j] > 0 && s[j] >= s[40]);
    T_WALLS(s, N);
    if (getenv("T_SAY"))
        printf("%s: alpha %.2f, loss %.4g, without factors %.4g\n", tiny_target_name(target), about.alpha, about.loss,
               about.plain);
}

/* blocks of model files, each matrix its own; the reference gives the same */
static void test_blocks(tiny_target target)
{
    enum { WIDE = 256 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *w = t_rand(12 * WIDE, -1, 1), *x = t_rand(40 * WIDE, -1, 1), mean[WIDE], *s = t_guarded(WIDE),
          *ref = t_guarded(WIDE), *v = t_guarded(12 * WIDE);
    static const int formats[] = { TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q8_0,   TLLM_FORMAT_Q5_1,
                                   TLLM_FORMAT_Q4_K, TLLM_FORMAT_IQ4_NL, TLLM_FORMAT_MXFP4 };
    size_t k;
    int i, t, r;
    t_use(ctx);
    for (i = 0; i < WIDE; i++) {
        mean[i] = 0;
        for (t = 0; t < 40; t++) {
            x[t * WIDE + i] *= i % 50 == 3 ? 40.0f : 1.0f;
            mean[i] += fabsf(x[t * WIDE + i]) / 40;
        }
    }
    for (k = 0; k < T_COUNT(formats); k++) {
        const tllm_format *f = tllm_format_of(formats[k]);
        unsigned char *room = (unsigned char *)t_guarded_bytes(tllm_format_bytes(f, WIDE));
        tllm_awq_about about, slow;
        tllm_awq_matrix m[2];
        double loss, sum = 0;
        memset(m, 0, sizeof m);
        m[0].w = w;
        m[0].rows = 7;
        m[0].format = f->id;
        m[1].w = w + 7 * WIDE;
        m[1].rows = 5;
        m[1].format = TLLM_FORMAT_Q4_0;
        T_OK(tllm_awq_scale(ctx, NULL, m, 2, WIDE, mean, x, 40, s, &about));
        T_OK(tllm_awq_scale(plain, NULL, m, 2, WIDE, mean, x, 40, ref, &slow));
        T_CLOSE(about.loss, slow.loss, 1e-4 * slow.loss);
        T_CLOSE(about.plain, slow.plain, 1e-4 * slow.plain);
        T_TRUE(about.alpha == slow.alpha && about.loss < about.plain);
        T_SAME(s, ref, WIDE);
        for (r = 0; r < 12; r++) {          /* the reported loss is the loss of the output */
            const tllm_format *g = tllm_format_of(r < 7 ? m[0].format : m[1].format);
            float row[WIDE];
            for (i = 0; i < WIDE; i++) row[i] = w[r * WIDE + i] * s[i];
            room = (unsigned char *)t_guarded_bytes(tllm_format_bytes(g, WIDE));
            g->pack(row, room, WIDE, NULL);
            g->unpack(room, v + r * WIDE, WIDE);
            for (i = 0; i < WIDE; i++) v[r * WIDE + i] /= s[i];
        }
        T_OK(tllm_awq_loss(plain, w, v, 12, WIDE, x, 40, &loss));
        T_CLOSE(about.loss, loss, 1e-4 * loss);
        for (t = 0; t < 40; t++)
            for (r = 0; r < 12; r++) {
                double y = 0;
                for (i = 0; i < WIDE; i++)
                    y += ((double)w[r * WIDE + i] - (double)v[r * WIDE + i]) * (double)x[t * WIDE + i];
                sum += y * y;
            }
        T_CLOSE(loss, sum, 1e-9 * sum);
    }
    t_close(plain);
    t_close(ctx);
}

/* every group's range is the first of least loss among 21, counted here; long groups by the samples themselves */
static void test_clip(tiny_target target)
{
    layer l = make();
    tllm_awq_desc d;
    tiny_ctx *ctx = t_ctx(target, 3);
    uint8_t *step = (uint8_t *)t_guarded_bytes(ROWS * 3), *again = (uint8_t *)t_guarded_bytes(ROWS * 3);
    float *cut = t_guarded(ROWS * N);
    double whole = 0, less = 0;
    int r, g, i, t, p, some = 0, tokens;
    memset(&d, 0, sizeof d);
    d.grid.bits = 3;
    for (tokens = TOKENS; tokens > 0; tokens -= 70) {       /* 90, and 20: fewer than a group has */
        int width;
        for (width = GROUP; width <= N; width += N - GROUP) {
            const int groups = (N - 1) / width + 1;
            d.grid.group = width == N ? TLLM_PLAIN_ROW : width;
            T_EQ_INT(tllm_awq_groups(&d, 0, N), groups);
            T_OK(tllm_awq_clip(ctx, &d, 0, l.w, ROWS, N, l.x, tokens, step));
            memcpy(cut, l.w, ROWS * N * sizeof *cut);
            T_OK(tllm_awq_cut(ctx, &d, 0, cut, ROWS, N, step));
            for (r = 0; r < ROWS; r++)
                for (g = 0; g < groups; g++) {
                    const float *w = l.w + r * N + g * width;
                    const int n = N - g * width < width ? N - g * width : width, at = step[r * groups + g];
                    double most = 0, least = 1e30, mine = -1;
                    for (i = 0; i < n; i++) most = fmax(most, fabs((double)w[i]));
                    for (p = 0; p <= 20; p++) {
                        double held[N], to[N], loss = 0;
                        for (i = 0; i < n; i++)
                            held[i] = fmax(-most * (1 - p / 40.0), fmin(most * (1 - p / 40.0), (double)w[i]));
                        rounded(held, n, 3, to);
                        for (t = 0; t < tokens; t++) {
                            double y = 0;
                            for (i = 0; i < n; i++) y += ((double)w[i] - to[i]) * (double)l.x[t * N + g * width + i];
                            loss += y * y;
                        }
                        if (p == at) {
                            mine = loss;
                            for (i = 0; i < n; i++) T_CLOSE(cut[r * N + g * width + i], held[i], 1e-6);
                        }
                        if (p == 0) whole += loss;
                        least = fmin(least, loss);
                    }
                    less += mine;
                    T_TRUE(at <= 20);
                    some += at > 0;
                    T_CLOSE(mine, least, 2e-2 * least);     /* a scale that rounds to the other half */
                }
        }
    }
    T_TRUE(some > ROWS && less < 0.9 * whole);
    T_WALLS(step, 0);
    for (t = 1; t <= 4; t++) {
        tiny_ctx *other = t_ctx(target, t);
        d.grid.group = GROUP;
        T_OK(tllm_awq_clip(other, &d, 0, l.w, ROWS, N, l.x, TOKENS, t == 1 ? step : again));
        if (t > 1) T_SAME(step, again, ROWS * 3);
        t_close(other);
    }
    t_use(ctx);
    T_OK(tllm_awq_clip(ctx, &d, TLLM_FORMAT_Q4_0, l.w, ROWS, 64, l.x, TOKENS, step));       /* as rows of 64 */
    T_EQ_INT(tllm_awq_groups(&d, TLLM_FORMAT_Q4_0, 64), 2);
    T_EQ_INT(tllm_awq_groups(&d, TLLM_FORMAT_Q4_0, 72), 0);
    T_EQ_INT(tllm_awq_groups(&d, TLLM_FORMAT_Q4_K, 256), 0);
    T_EQ_INT(tllm_awq_groups(&d, TLLM_FORMAT_F16, 64), 0);
    T_EQ_INT(tllm_awq_groups(&d, 999, 64), 0);
    t_close(ctx);
    T_PROOF("quantization 0", "g not dividing N");
}

static int stop_now(void *user) { (void)user; return 1; }
static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2), *stopped = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 2);
    layer l = make();
    tllm_awq_desc d;
    tllm_awq_matrix m;
    tllm_awq_about about;
    float s[N], *v = t_guarded(ROWS * N);
    uint8_t step[ROWS * 3];
    double loss;
    memset(&d, 0, sizeof d);
    memset(&m, 0, sizeof m);
    memset(step, 0, sizeof step);
    m.w = l.w;
    m.rows = ROWS;
    d.grid.group = GROUP;
    T_STATUS(tllm_awq_scale(NULL, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 0, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT, "at least one matrix");
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, NULL, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT, "the mean magnitudes");
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, NULL, TOKENS, s, NULL), TINY_E_ARGUMENT, "the inputs are NULL");
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, 0, s, NULL), TINY_E_ARGUMENT, "0 inputs; at least 1");
    d.steps = -1;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT, "-1 powers to try");
    d.steps = 0;
    d.clips = 256;
    T_STATUS(tllm_awq_clip(ctx, &d, 0, l.w, ROWS, N, l.x, TOKENS, step), TINY_E_ARGUMENT,
             "256 ranges to try; 1 to 255");
    d.clips = 0;
    d.grid.bits = 9;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT, "codes of 9 bits");
    d.grid.bits = 0;
    d.grid.group = TLLM_PLAIN_TENSOR;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_UNSUPPORTED,
             "not one for the tensor");
    d.grid.group = GROUP;
    m.format = TLLM_FORMAT_Q4_0;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_ARGUMENT,
             "rows of 72 numbers are not whole blocks of Q4_0");
    m.format = TLLM_FORMAT_IQ2_XS;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_UNSUPPORTED,
             "IQ2_XS (format 17) is not a block format that is packed without an importance");
    m.format = 999;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_UNSUPPORTED,
             "no such format (format 999)");
    m.format = 0;
    l.mean[3] = -1;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_NUMERIC,
             "the mean magnitude of input 3 is -1");
    l.mean[3] = NAN;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_NUMERIC, "of input 3 is nan");
    l.mean[3] = 1;
    l.x[2 * N + 7] = INFINITY;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_NUMERIC,
             "input 7 of token 2 is inf");
    l.x[2 * N + 7] = 1;
    l.w[5 * N + 1] = NAN;
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_NUMERIC,
             "the weight in row 5, input 1 is nan");
    T_STATUS(tllm_awq_clip(ctx, &d, 0, l.w, ROWS, N, l.x, TOKENS, step), TINY_E_NUMERIC,
             "the weight in row 5, input 1 is nan");
    l.w[5 * N + 1] = 1e30f;                 /* no half is its scale, whatever the factor */
    T_STATUS(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_NUMERIC,
             "their scales are infinite");
    T_STATUS(tllm_awq_clip(ctx, &d, 0, l.w, ROWS, N, l.x, TOKENS, step), TINY_E_NUMERIC,
             "row 5: a group of its weights is so large");
    l.w[5 * N + 1] = 0.5f;
    T_STATUS(tllm_awq_clip(ctx, &d, 0, l.w, ROWS, N, l.x, TOKENS, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    T_STATUS(tllm_awq_cut(ctx, &d, 0, l.w, ROWS, N, NULL), TINY_E_ARGUMENT, "their steps are needed");
    T_STATUS(tllm_awq_cut(ctx, &d, TLLM_FORMAT_Q4_K, l.w, ROWS, N, step), TINY_E_ARGUMENT, "no groups that can be");
    step[4] = 21;
    T_STATUS(tllm_awq_cut(ctx, &d, 0, l.w, ROWS, N, step), TINY_E_ARGUMENT, "step 21 of group 4; there are 20");
    T_STATUS(tllm_awq_loss(ctx, l.w, NULL, ROWS, N, l.x, TOKENS, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    v[4 * N + 2] = NAN;
    T_STATUS(tllm_awq_loss(ctx, l.w, v, ROWS, N, l.x, TOKENS, &loss), TINY_E_NUMERIC,
             "the other weight in row 4, input 2 is nan");
    T_OK(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, &about));
    memset(l.mean, 0, sizeof l.mean);       /* no input ever: nothing is scaled */
    T_OK(tllm_awq_scale(ctx, &d, &m, 1, N, l.mean, l.x, TOKENS, s, &about));
    T_TRUE(s[0] == 1.0f && s[N - 1] == 1.0f && about.alpha == 0);
    {
        float *wide = t_rand(20 * 256, -1, 1);
        T_STATUS(tllm_awq_clip(ctx, &d, TLLM_FORMAT_Q4_K, wide, 4, 256, wide, 16, step), TINY_E_UNSUPPORTED,
                 "blocks of 256 numbers search their own scales");
    }
    cd.cancel = stop_now;
    T_OK(tiny_ctx_open(&cd, &stopped));
    t_use(stopped);
    T_STATUS(tllm_awq_scale(stopped, &d, &m, 1, N, l.mean, l.x, TOKENS, s, NULL), TINY_E_CANCELLED, NULL);
    T_STATUS(tllm_awq_clip(stopped, &d, 0, l.w, ROWS, N, l.x, TOKENS, step), TINY_E_CANCELLED, NULL);
    T_STATUS(tllm_awq_loss(stopped, l.w, NULL, ROWS, N, l.x, TOKENS, &loss), TINY_E_CANCELLED, NULL);
    tiny_ctx_close(stopped);
    t_close(ctx);
}

static void test_memory(void)
{
    layer l = make();
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        tllm_awq_matrix m;
        tllm_awq_desc how;
        float s[N];
        uint8_t step[ROWS * 3];
        tiny_status st = tiny_ctx_open(&d, &ctx);
        memset(&how, 0, sizeof how);
        memset(&m, 0, sizeof m);
        how.grid.group = GROUP;
        how.steps = 2;
        m.w = l.w;
        m.rows = ROWS;
        if (!st) st = tllm_awq_scale(ctx, &how, &m, 1, N, l.mean, l.x, TOKENS, s, NULL);
        if (!st) st = tllm_awq_clip(ctx, &how, 0, l.w, ROWS, N, l.x, TOKENS, step);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_search);
    T_RUN_FORMS(test_blocks);
    T_RUN_FORMS(test_clip);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
