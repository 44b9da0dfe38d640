/* tests/math/optim.c - optimisers on a quadratic (closed forms), first steps by hand, Muon against numpy
 * (tests/math/muon.py), tails and threads, master copies, averages, clipping; schedules; initial values; bad input */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

static tiny_param param_of(const char *name, void *w, void *g, tiny_dtype type, tiny_idx rows, tiny_idx cols)
{
    tiny_param p;
    memset(&p, 0, sizeof p);
    p.name = name;
    p.value = rows ? tiny_tensor_2d(w, type, rows, cols) : tiny_tensor_1d(w, type, cols);
    p.grad = rows ? tiny_tensor_2d(g, type == TINY_F64 ? TINY_F64 : TINY_F32, rows, cols)
                  : tiny_tensor_1d(g, type == TINY_F64 ? TINY_F64 : TINY_F32, cols);
    return p;
}

static tiny_optim_desc desc_of(int kind, double lr)
{
    tiny_optim_desc d;
    memset(&d, 0, sizeof d);
    d.group[0].kind = kind;
    d.group[0].lr = lr;
    return d;
}

/* f = a w^2 / 2: w(t) = (1 - lr a)^t; with momentum the two roots of r^2 - (1 + mu - lr a) r + mu */
static void test_sgd_on_a_quadratic(void)
{
    static const double a[3] = { 0.5, 1.0, 3.0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_optim_desc d = desc_of(TINY_OPTIM_SGD, 0.1);
    double w[3] = { 1, 1, 1 }, g[3];
    tiny_param p = param_of("w", w, g, TINY_F64, 0, 3);
    tiny_optim *o;
    int i, t;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    for (t = 1; t <= 20; t++) {
        for (i = 0; i < 3; i++) g[i] = a[i] * w[i];
        T_OK(tiny_optim_step(o, 1.0));
        for (i = 0; i < 3; i++) T_CLOSE(w[i], pow(1.0 - 0.1 * a[i], t), 1e-14);
    }
    T_EQ_INT(tiny_optim_steps(o), 20);
    tiny_optim_close(o);
    d.group[0].momentum = 0.5;
    for (i = 0; i < 3; i++) w[i] = 1.0;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    for (t = 1; t <= 20; t++) {
        for (i = 0; i < 3; i++) g[i] = a[i] * w[i];
        T_OK(tiny_optim_step(o, 1.0));
        for (i = 0; i < 2; i++) {           /* real roots for a = 0.5, complex ones for 1 and 3 */
            double b = 1.5 - 0.1 * a[i], q = b * b / 4.0 - 0.5, w1 = 1.0 - 0.1 * a[i], want;
            if (q >= 0.0) {
                double r1 = b / 2.0 + sqrt(q), r2 = b / 2.0 - sqrt(q), c1 = (w1 - r2) / (r1 - r2);
                want = c1 * pow(r1, t) + (1.0 - c1) * pow(r2, t);
            } else {
                double size = sqrt(0.5), turn = atan2(sqrt(-q), b / 2.0);
                want = pow(size, t) * (cos(turn * t) + (w1 - b / 2.0) / sqrt(-q) * sin(turn * t));
            }
            T_CLOSE(w[i], want, 1e-13);
        }
    }
    tiny_optim_close(o);
    /* Nesterov, two steps by hand: a = 1, lr 0.1, mu 0.5: g 1, m 1, w 1 - 0.1 (1 + 0.5) = 0.85; g 0.85, m 1.35, w 0.85
     * - 0.1 (0.85 + 0.675) */
    d.group[0].nesterov = 1;
    w[1] = 1.0;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    for (i = 0; i < 3; i++) g[i] = w[i];
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[1], 0.85, 1e-15);
    for (i = 0; i < 3; i++) g[i] = w[i];
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[1], 0.6975, 1e-15);
    tiny_optim_close(o);
    t_close(ctx);
}

static void test_adam_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_optim_desc d = desc_of(TINY_OPTIM_ADAMW, 0.1);
    float w[1] = { 2 }, g[1] = { 1 };
    tiny_param p = param_of("w", w, g, TINY_F32, 0, 1);
    tiny_optim *o;
    /* m = 0.1, v = 0.001: both corrected to 1; then m = 0.09 - 0.05 = 0.04 over 0.19, v = 0.000999 + 0.00025 over
     * 0.001999 */
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[0], 1.9, 2e-7);
    g[0] = -0.5f;
    T_OK(tiny_optim_step(o, 0.5));
    T_CLOSE(w[0], 1.9 - 0.05 * (0.04 / 0.19) / sqrt(0.001249 / 0.001999), 3e-7);
    tiny_optim_close(o);
    d.group[0].decay = 0.5;                 /* decoupled: w (1 - 0.05) before the step */
    w[0] = 2.0f;
    g[0] = 1.0f;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[0], 1.8, 2e-7);
    tiny_optim_close(o);
    d.group[0].kind = TINY_OPTIM_ADAM;      /* in the gradient: -1 + 0.5 * 2 = 0 stays 0 */
    w[0] = 2.0f;
    g[0] = -1.0f;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[0], 2.0, 0);
    tiny_optim_close(o);
    t_close(ctx);
}

static void test_muon(tiny_target target)
{
    static const double want[2][2][6] = {   /* tests/math/muon.py */
        { { 0.486025333931, -1.006610430482, 0.248120489827, 2.004979667940, 0.115375204325, -0.739960319274 },
          { 0.490697584584, -1.019076889824, 0.249961617270, 1.984540980945, 0.107371499831, -0.740479773826 } },
        { { 0.491057135832, -1.015609929508, 0.256155022067, 1.996966438673, 0.106887502219, -0.738260617853 },
          { 0.500242676244, -1.024076053422, 0.252969796624, 1.980431192001, 0.081569682300, -0.742311154229 } }
    };
    static const float grads[2][6] = { { 1, 2, -1, 0.5f, 3, -2 }, { -1, 0.5f, 0.25f, 2, -0.5f, 1 } },
                       start[6] = { 0.5f, -1, 0.25f, 2, 0.125f, -0.75f };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_optim_desc d = desc_of(TINY_OPTIM_MUON, 0.02);
    float w[6], g[6];
    int tall, t, i;
    d.group[0].decay = 0.01;
    for (tall = 0; tall < 2; tall++) {
        tiny_param p = param_of("w", w, g, TINY_F32, tall ? 3 : 2, tall ? 2 : 3);
        tiny_optim *o;
        memcpy(w, start, sizeof w);
        T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
        for (t = 0; t < 2; t++) {
            memcpy(g, grads[t], sizeof g);
            T_OK(tiny_optim_step(o, 1.0));
            for (i = 0; i < 6; i++) T_CLOSE(w[i], want[tall][t][i], 1e-6);
        }
        tiny_optim_close(o);
    }
    t_close(ctx);
}

/* A rate of 0 means the default of the manual: 1e-3 for Adam, 1e-2 for SGD, 0.02 for Muon. Two steps give the same as
 * with the explicit rate. */
static void test_usual_rates(void)
{
    static const double rate[4] = { 1e-3, 1e-3, 1e-2, 0.02 };
    static const int kind[4] = { TINY_OPTIM_ADAM, TINY_OPTIM_ADAMW, TINY_OPTIM_SGD, TINY_OPTIM_MUON };
    static const float start[6] = { 0.5f, -1, 0.25f, 2, 0.125f, -0.75f }, grad[6] = { 1, 2, -1, 0.5f, 3, -2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k, t, i, said;
    for (k = 0; k < 4; k++) {
        float w[2][6], g[6];
        for (said = 0; said < 2; said++) {
            tiny_optim_desc d = desc_of(kind[k], said ? rate[k] : 0.0);
            tiny_param p = param_of("w", w[said], g, TINY_F32, 2, 3);
            tiny_optim *o = NULL;
            memcpy(w[said], start, sizeof start);
            if (!T_OK(tiny_optim_open(ctx, &p, 1, &d, &o))) continue;
            for (t = 0; t < 2; t++) {
                memcpy(g, grad, sizeof g);
                T_OK(tiny_optim_step(o, 1.0));
            }
            tiny_optim_close(o);
        }
        T_SAME(w[0], w[1], 6);
        for (i = 0; i < 6; i++) T_TRUE(w[0][i] != start[i]);
    }
    t_close(ctx);
}

/* every length around the vector width and above a piece, on every target and two threads, against plain doubles */
static void test_lengths(tiny_target target)
{
    static const size_t len[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100, 16383, 16385, 50001 };
    size_t c, i;
    int kind, t;
    for (kind = TINY_OPTIM_ADAMW; kind <= TINY_OPTIM_SGD; kind++)
        for (c = 0; c < T_COUNT(len); c++) {
            tiny_ctx *ctx = t_ctx(target, 2);
            size_t n = len[c];
            float *w = t_guarded(n), *w1 = t_guarded(n), *g = t_rand(n, -1.0f, 1.0f), *m = t_rand(n, 0, 0),
                  *v = t_rand(n, 0, 0);
            double lr = 0.01, decay = 0.1, worst = 0.0;
            tiny_optim_desc d = desc_of(kind, lr);
            tiny_param two[2];
            tiny_optim *o;
            float one = 1.0f, none = 0.0f;
            d.group[0].decay = decay;
            if (kind == TINY_OPTIM_SGD) d.group[0].momentum = 0.9;
            for (i = 0; i < n; i++) w[i] = w1[i] = t_rand_float(-2, 2);
            two[0] = param_of("one", &one, &none, TINY_F32, 0, 1);
            two[1] = param_of("w", w, g, TINY_F32, 0, (tiny_idx)n);
            T_OK(tiny_optim_open(ctx, two, 2, &d, &o));
            for (t = 1; t <= 3; t++) {
                T_OK(tiny_optim_step(o, 1.0));
                for (i = 0; i < n; i++) {
                    double x = w1[i], dx = g[i] + (kind == TINY_OPTIM_ADAMW ? 0.0 : decay * x);
                    if (kind == TINY_OPTIM_SGD) {
                        m[i] = (float)(0.9 * m[i] + dx);
                        x -= lr * m[i];
                    } else {
                        m[i] = (float)(m[i] + 0.1 * (dx - m[i]));
                        v[i] = (float)(v[i] + 0.001 * (dx * dx - v[i]));
                        if (kind == TINY_OPTIM_ADAMW) x -= lr * decay * x;
                        x -= lr * m[i] / (1.0 - pow(0.9, t)) / (sqrt(v[i] / (1.0 - pow(0.999, t))) + 1e-8);
                    }
                    w1[i] = (float)x;
                    worst = fmax(worst, fabs(w[i] - x));
                }
            }
            T_CLOSE(worst, 0.0, 2e-6);      /* 3 steps of at most 0.01, and of w below 2: a few u = 6e-8 each */
            T_WALLS(w, n);
            tiny_optim_close(o);
            t_close(ctx);
        }
}

static void test_threads_do_not_matter(void)
{
    size_t n = 100000, i;
    float *w[2], *g = t_rand(n, -1.0f, 1.0f);
    int k, t;
    for (k = 0; k < 2; k++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, k ? 4 : 1);
        tiny_optim_desc d = desc_of(TINY_OPTIM_ADAMW, 0.01);
        tiny_param p;
        tiny_optim *o;
        d.clip = 1.0;
        w[k] = t_rand(n, 0, 0);
        for (i = 0; i < n; i++) w[k][i] = (float)i / (float)n;
        p = param_of("w", w[k], g, TINY_F32, 250, 400);
        T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
        for (t = 0; t < 3; t++) T_OK(tiny_optim_step(o, 1.0));
        tiny_optim_close(o);
        t_close(ctx);
    }
    T_SAME(w[0], w[1], n);
}

/* a bf16 weight of 1 does not move by steps of 0.001 each; its master copy does, and after five of them it shows */
static void test_master_average_clip(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_optim_desc d = desc_of(TINY_OPTIM_SGD, 0.001);
    uint16_t h[2] = { 0x3f80, 0x3f80 };
    float g[2] = { 1, 0 }, w[2] = { 1, 3 };
    tiny_param p = param_of("h", h, g, TINY_BF16, 0, 2);
    tiny_tensor state;
    tiny_optim *o;
    char name[128];
    int t;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_EQ_INT(h[0], 0x3f80);
    for (t = 1; t < 5; t++) T_OK(tiny_optim_step(o, 1.0));
    T_EQ_INT(h[0], 0x3f7f);                 /* 0.995 rounds to 0.99609375 */
    T_EQ_INT(h[1], 0x3f80);
    T_TRUE(tiny_optim_state(o, 1, name, &state));
    T_EQ_TEXT(name, "master.h");
    T_CLOSE(((float *)state.data)[0], 0.995, 1e-6);
    T_TRUE(!tiny_optim_state(o, 2, name, &state));
    tiny_optim_close(o);
    d.ema = 0.75;                           /* w 1, 0.9, 0.8 -> e 1, 0.975, 0.93125 */
    d.group[0].lr = 0.1;
    p = param_of("w", w, g, TINY_F32, 0, 2);
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(w[0], 0.8, 1e-6);
    T_OK(tiny_optim_ema_swap(o));
    T_CLOSE(w[0], 0.93125, 1e-6);
    T_CLOSE(w[1], 3.0, 0);
    T_OK(tiny_optim_ema_swap(o));
    T_CLOSE(w[0], 0.8, 1e-6);
    tiny_optim_close(o);
    d.ema = 0.0;
    d.clip = 1.0;                           /* (3, 4) has length 5 */
    w[0] = w[1] = 0.0f;
    g[0] = 3.0f;
    g[1] = 4.0f;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 1.0));
    T_CLOSE(tiny_optim_grad_norm(o), 5.0, 1e-6);
    T_CLOSE(w[0], -0.06, 1e-8);
    T_CLOSE(w[1], -0.08, 1e-8);
    tiny_optim_close(o);
    t_close(ctx);
}

/* saved after two steps and taken up by another optimiser: the third step is the same bits */
static void test_resume(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_optim_desc d = desc_of(TINY_OPTIM_ADAMW, 0.01);
    float w[20], w2[20], *g = t_rand(20, -1, 1);
    tiny_param p = param_of("w", w, g, TINY_F32, 4, 5), p2 = param_of("w", w2, g, TINY_F32, 4, 5);
    tiny_optim *a, *b;
    tiny_tensor from, to;
    size_t i;
    for (i = 0; i < 20; i++) w[i] = (float)i;
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &a));
    T_OK(tiny_optim_step(a, 1.0));
    T_OK(tiny_optim_step(a, 1.0));
    memcpy(w2, w, sizeof w);
    T_OK(tiny_optim_open(ctx, &p2, 1, &d, &b));
    for (i = 0; tiny_optim_state(a, i, NULL, &from); i++) {
        T_TRUE(tiny_optim_state(b, i, NULL, &to));
        memcpy(to.data, from.data, sizeof w);
    }
    T_EQ_INT(i, 2);
    T_OK(tiny_optim_resume(b, tiny_optim_steps(a)));
    T_OK(tiny_optim_step(a, 1.0));
    T_OK(tiny_optim_step(b, 1.0));
    T_SAME(w, w2, 20);
    tiny_optim_close(a);
    tiny_optim_close(b);
    t_close(ctx);
}

static void test_schedules(void)
{
    tiny_schedule s;
    tiny_plateau p;
    int i;
    memset(&s, 0, sizeof s);
    T_CLOSE(tiny_schedule_at(&s, 0), 1, 0);
    T_CLOSE(tiny_schedule_at(NULL, 7), 1, 0);
    s.kind = TINY_SCHEDULE_COSINE;
    s.warmup = 4;
    s.total = 104;
    s.floor = 0.1;
    T_CLOSE(tiny_schedule_at(&s, 0), 0.25, 0);
    T_CLOSE(tiny_schedule_at(&s, 3), 1, 0);
    T_CLOSE(tiny_schedule_at(&s, 4), 1, 0);
    T_CLOSE(tiny_schedule_at(&s, 54), 0.55, 1e-15);
    T_CLOSE(tiny_schedule_at(&s, 29), 0.1 + 0.9 * 0.5 * (1 + sqrt(0.5)), 1e-15);
    T_CLOSE(tiny_schedule_at(&s, 104), 0.1, 1e-15);
    T_CLOSE(tiny_schedule_at(&s, 1000), 0.1, 1e-15);
    s.kind = TINY_SCHEDULE_LINEAR;
    T_CLOSE(tiny_schedule_at(&s, 54), 0.55, 1e-15);
    s.kind = TINY_SCHEDULE_WSD;
    s.decay_at = 64;
    s.floor = 0.0;
    T_CLOSE(tiny_schedule_at(&s, 63), 1, 0);
    T_CLOSE(tiny_schedule_at(&s, 74), 0.75, 1e-15);
    T_CLOSE(tiny_schedule_at(&s, 104), 0, 0);
    s.kind = TINY_SCHEDULE_STEP;
    s.gamma = 0.1;
    s.at[0] = 10;
    s.at[1] = 20;
    T_CLOSE(tiny_schedule_at(&s, 9), 1, 0);
    T_CLOSE(tiny_schedule_at(&s, 10), 0.1, 0);
    T_CLOSE(tiny_schedule_at(&s, 25), 0.01, 1e-17);
    memset(&p, 0, sizeof p);
    p.patience = 2;
    p.gamma = 0.5;
    T_CLOSE(tiny_plateau_next(&p, 1.0), 1, 0);
    T_CLOSE(tiny_plateau_next(&p, 0.9), 1, 0);
    for (i = 0; i < 2; i++) T_CLOSE(tiny_plateau_next(&p, 0.9), 1, 0);
    T_CLOSE(tiny_plateau_next(&p, 0.9), 0.5, 0);
    T_CLOSE(tiny_plateau_next(&p, 0.5), 0.5, 0);
}

static void moments(const float *w, size_t n, double *mean, double *variance, double *largest)
{
    size_t i;
    *mean = *variance = *largest = 0.0;
    for (i = 0; i < n; i++) *mean += w[i] / (double)n;
    for (i = 0; i < n; i++) {
        *variance += (w[i] - *mean) * (w[i] - *mean) / (double)n;
        *largest = fmax(*largest, fabs((double)w[i]));
    }
}

/* 40 000 draws: the mean is within 5 deviations / 200, the variance within 5 sqrt(2 / 40000) of its own size */
static void test_initial_values(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t n = 40000, i, j, k;
    float *w = t_rand(n, 0, 0);
    tiny_tensor t = tiny_tensor_4d(w, TINY_F32, 100, 16, 5, 5), m;
    tiny_rng rng = tiny_rng_make(7, 0);
    double mean, variance, largest;
    int form;
    T_OK(tiny_init_he(ctx, &rng, &t, 0));
    moments(w, n, &mean, &variance, &largest);
    T_CLOSE(mean, 0, 0.025 * sqrt(2.0 / 400));
    T_CLOSE(variance * 200, 1, 0.036);
    T_OK(tiny_init_he(ctx, &rng, &t, 1));
    moments(w, n, &mean, &variance, &largest);
    T_CLOSE(variance * 1250, 1, 0.036);
    T_OK(tiny_init_xavier(ctx, &rng, &t));
    moments(w, n, &mean, &variance, &largest);
    T_CLOSE(largest, sqrt(6.0 / 2900), 1e-4);
    T_CLOSE(variance * 1450, 1, 0.036);
    for (form = 0; form < 2; form++) {      /* 30 orthonormal rows of 50, then 30 columns */
        size_t rows = form ? 50 : 30, cols = form ? 30 : 50;
        m = tiny_tensor_2d(w, TINY_F32, (tiny_idx)rows, (tiny_idx)cols);
        T_OK(tiny_init_orthogonal(ctx, &rng, &m, 2.0));
        for (i = 0; i < 30; i++)
            for (j = 0; j < 30; j++) {
                double dot = 0.0;
                for (k = 0; k < 50; k++)
                    dot += form ? (double)w[k * cols + i] * w[k * cols + j] : (double)w[i * cols + k] * w[j * cols + k];
                T_CLOSE(dot, i == j ? 4 : 0, 1e-5);
            }
    }
    T_OK(tiny_init_constant(ctx, &t, 0.5));
    T_CLOSE(w[39999], 0.5, 0);
    T_STATUS(tiny_init_he(ctx, NULL, &t, 0), TINY_E_ARGUMENT, "a generator and a deviation");
    m = tiny_tensor_swap(m, 0, 1);
    T_STATUS(tiny_init_xavier(ctx, &rng, &m), TINY_E_DTYPE, "with gaps");
    m = tiny_tensor_1d(w, TINY_F32, 5);
    T_STATUS(tiny_init_orthogonal(ctx, &rng, &m, 1.0), TINY_E_ARGUMENT, "a matrix");
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float w[4] = { 1, 2, 3, 4 }, g[4] = { 1, 1, 1, 1 };
    tiny_param p = param_of("layer.weight", w, g, TINY_F32, 2, 2), q[2];
    tiny_optim_desc d = desc_of(TINY_OPTIM_ADAMW, 0.1);
    tiny_optim *o = NULL;
    T_STATUS(tiny_optim_open(ctx, NULL, 0, &d, &o), TINY_E_ARGUMENT, "there are no parameters");
    T_TRUE(o == NULL);
    d.group[0].kind = 9;
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_ARGUMENT, "group 0: kind 9 is unknown");
    d = desc_of(TINY_OPTIM_SGD, 0.1);
    d.group[0].momentum = 1.0;
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_ARGUMENT, "momentum 1: one of them is out of range");
    d = desc_of(TINY_OPTIM_SGD, NAN);
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_ARGUMENT, "lr nan");
    d = desc_of(TINY_OPTIM_MUON, 0.1);
    p = param_of("bias", w, g, TINY_F32, 0, 4);
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_SHAPE, "bias is 4 f32; Muon is for matrices");
    d = desc_of(TINY_OPTIM_ADAMW, 0.1);
    p.grad = tiny_tensor_1d(g, TINY_F32, 3);
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_SHAPE, "bias is 4 f32, its gradient 3 f32");
    p.grad = tiny_tensor_1d(g, TINY_I32, 4);
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_DTYPE, "bias is f32 with a gradient of i32");
    p.grad = tiny_tensor_1d(g, TINY_F32, 4);
    p.group = 8;
    T_STATUS(tiny_optim_open(ctx, &p, 1, &d, &o), TINY_E_ARGUMENT, "is in group 8; it must be 0 to 7");
    p.group = 0;
    q[0] = q[1] = p;
    T_STATUS(tiny_optim_open(ctx, q, 2, &d, &o), TINY_E_ALIAS, "parameters 0 and 1 share memory");
    T_OK(tiny_optim_open(ctx, &p, 1, &d, &o));
    T_OK(tiny_optim_step(o, 0.0));
    g[2] = NAN;
    T_STATUS(tiny_optim_step(o, 1.0), TINY_E_NUMERIC, "step 1: the gradient of bias holds NaN");
    T_TRUE(w[0] == 1 && w[3] == 4);         /* nothing was changed */
    g[2] = 1.0f;
    T_STATUS(tiny_optim_step(o, NAN), TINY_E_ARGUMENT, "the factor of the lr is nan");
    T_STATUS(tiny_optim_ema_swap(o), TINY_E_ARGUMENT, "no moving average");
    T_STATUS(tiny_optim_resume(o, -1), TINY_E_ARGUMENT, "after -1 steps");
    tiny_optim_close(o);
    tiny_optim_close(NULL);
    t_close(ctx);
}

static void test_memory(void)
{
    float w[6] = { 1, 2, 3, 4, 5, 6 }, g[6] = { 1, 1, 1, 1, 1, 1 };
    uint16_t h[4] = { 0, 0, 0, 0 };
    tiny_param p[2];
    tiny_optim_desc d = desc_of(TINY_OPTIM_MUON, 0.1);
    d.group[1].kind = TINY_OPTIM_ADAMW;
    d.ema = 0.9;
    p[0] = param_of("w", w, g, TINY_F32, 2, 3);
    p[1] = param_of("h", h, g, TINY_F16, 0, 4);
    p[1].group = 1;
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        tiny_optim *o = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_status st = tiny_optim_open(ctx, p, 2, &d, &o);
            if (!st) st = tiny_optim_step(o, 1.0);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            T_TRUE(st == TINY_OK || *tiny_ctx_message(ctx));
            tiny_optim_close(o);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN(test_sgd_on_a_quadratic);
    T_RUN_FORMS(test_adam_by_hand);
    T_RUN_FORMS(test_muon);
    T_RUN_FORMS(test_lengths);
    T_RUN(test_usual_rates);
    T_RUN(test_threads_do_not_matter);
    T_RUN(test_master_average_clip);
    T_RUN(test_resume);
    T_RUN(test_schedules);
    T_RUN(test_initial_values);
    T_RUN(test_bad_input);
    T_RUN(test_memory);
    return t_done();
}
#endif
