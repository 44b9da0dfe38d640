/* bench/llm/onebyte.c - fine-tuning with one byte a gradient: the update beside the memory's limit, and a task learnt
 *
 * A step of n gradients walks over all numbers once and makes n directions for each. Beside it: the same with normal
 * directions, a plain loop over the formula, and the loop that most programs have (a generator with a state, a number
 * at a time). The task: ten blobs in 32 dimensions, a network of 9986 weights, 3000 evaluations of the loss for each
 * machine. n machines with a sample each make the same bits as one machine with n samples, so one process is enough. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TINYLLM_NO_ONEBYTE
void bench_onebyte(void) {}
#else

enum { BO_N = 1 << 22, BO_CODES = 4, IN = 32, HIDDEN = 232, OUT = 10, BATCH = 32, TEST = 1000 };

typedef struct bo_job {
    tiny_ctx *ctx;
    tllm_onebyte *o;
    float *x;
} bo_job;
static const tllm_onebyte_code bo_code[BO_CODES] = { { 0, 20 }, { 1, 30 }, { 2, 160 }, { 3, 25 } };

static void bo_update(void *arg)
{
    bo_job *j = (bo_job *)arg;
    b_must(j->ctx, tllm_onebyte_apply(j->o, bo_code, BO_CODES));
}
/* one generator for each gradient, a number after the other */
static void bo_loop(void *arg)
{
    bo_job *j = (bo_job *)arg;
    int k, i;
    for (k = 0; k < BO_CODES; k++) {
        uint64_t s = UINT64_C(88172645463325252) + (unsigned)k;
        const float c = 1e-9f * (float)(k + 1);
        for (i = 0; i < BO_N; i++) {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            j->x[i] += s >> 63 ? -c : c;
        }
    }
}

static void bo_speed(void)
{
    static const char *const what[4] = { "update, 4 gradients", "the same, normal", "the same, formula",
                                         "state by state" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1), *plain = b_ctx(TINY_TARGET_REFERENCE, 1);
    bo_job j[4];
    b_row r[4];
    int k;
    memset(j, 0, sizeof j);
    memset(r, 0, sizeof r);
    for (k = 0; k < 4; k++) {
        tllm_onebyte_desc d;
        tiny_tensor t;
        memset(&d, 0, sizeof d);
        j[k].ctx = k == 2 ? plain : ctx;
        j[k].x = (float *)b_alloc((size_t)BO_N * sizeof(float));
        t = tiny_tensor_1d(j[k].x, TINY_F32, k == 1 || k == 2 ? BO_N / 64 : BO_N);
        d.tensor = &t;
        d.n_tensor = 1;
        d.lr = 1e-9;
        d.samples = BO_CODES;
        d.normal = k == 1;
        b_must(j[k].ctx, tllm_onebyte_open(j[k].ctx, &d, &j[k].o));
        r[k].what = what[k];
        r[k].run = k == 3 ? bo_loop : bo_update;
        r[k].arg = &j[k];
        r[k].target = k == 0 ? tiny_target_name(tiny_op_target(ctx, TINY_OP_ADD)) : k == 2 ? "reference" : "C";
        r[k].threads = 1;
        r[k].bytes = 8.0 * (double)tiny_tensor_count(&t);
        r[k].limit = B_COPY;
        b_shape(&r[k], k == 1 || k == 2 ? "65536" : "4194304");
    }
    b_contest("One byte: an update", r, 4);
    b_verdict("state by state over ours", r[3].median_ns / r[0].median_ns, ">", 1.0);
    b_headline(
        "onebyte", "memory and time of inference", "4.2 million numbers, 4 gradients in a step, one thread",
        "an update takes %.2f ns a number; with normal directions %.1f, by the formula %.1f, by a generator with a "
        "state %.1f",
        r[0].median_ns / BO_N, r[1].median_ns * 64 / BO_N, r[2].median_ns * 64 / BO_N, r[3].median_ns / BO_N);
    for (k = 0; k < 4; k++) {
        tllm_onebyte_close(j[k].o);
        b_free(j[k].x);
    }
    tiny_ctx_close(ctx);
    tiny_ctx_close(plain);
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

typedef struct bo_task {
    tiny_ctx *ctx;
    uint64_t seed;
    tiny_tensor w[4];
    float centre[OUT][IN], *x, *h, *y, *theta;
    int label[TEST];
} bo_task;

static void bo_blobs(bo_task *t, tiny_rng *r, int n)
{
    int i, k;
    for (k = 0; k < n; k++) {
        t->label[k] = (int)tiny_rng_below(r, OUT);
        for (i = 0; i < IN; i++) t->x[k * IN + i] = t->centre[t->label[k]][i] + 1.2f * tiny_rng_normal(r);
    }
}
static void bo_run(bo_task *t, const float *const at[4], int n)
{
    tiny_tensor x = tiny_tensor_2d(t->x, TINY_F32, n, IN), h = tiny_tensor_2d(t->h, TINY_F32, n, HIDDEN),
                y = tiny_tensor_2d(t->y, TINY_F32, n, OUT), p[4];
    int i;
    for (i = 0; i < 4; i++) {
        p[i] = t->w[i];
        p[i].data = (void *)(uintptr_t)at[i];
    }
    b_must(t->ctx, tiny_matmul(t->ctx, &x, &p[0], &p[1], TINY_ACT_RELU, &h));
    b_must(t->ctx, tiny_matmul(t->ctx, &h, &p[2], &p[3], TINY_ACT_NONE, &y));
}
static tiny_status bo_loss(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    bo_task *t = (bo_task *)user;
    tiny_rng r = tiny_rng_make(t->seed, (step << 20) + sample + 1000);
    const float *at[4];
    int i, k;
    bo_blobs(t, &r, BATCH);
    for (i = 0; i < 4; i++) at[i] = tllm_onebyte_tensor(o, (size_t)i);
    bo_run(t, at, BATCH);
    for (*loss = 0.0, i = 0; i < BATCH; i++) {
        double sum = 0.0;
        for (k = 0; k < OUT; k++) sum += exp((double)(t->y[i * OUT + k] - t->y[i * OUT + t->label[i]]));
        *loss += log(sum) / BATCH;
    }
    return TINY_OK;
}
static double bo_right(bo_task *t)
{
    tiny_rng r = tiny_rng_make(t->seed, 79);
    const float *at[4];
    int i, k, n = 0;
    bo_blobs(t, &r, TEST);
    for (i = 0; i < 4; i++) at[i] = (const float *)t->w[i].data;
    bo_run(t, at, TEST);
    for (i = 0; i < TEST; i++) {
        int best = 0;
        for (k = 1; k < OUT; k++)
            if (t->y[i * OUT + k] > t->y[i * OUT + best]) best = k;
        n += best == t->label[i];
    }
    return 100.0 * n / TEST;
}
/* per cent right after `steps` steps; *reached: the step at which half were right, or `steps` */
static double bo_learn(tiny_ctx *ctx, uint64_t seed, int machines, int floats, int steps, int *reached)
{
    static const tiny_idx dim[4][2] = { { IN, HIDDEN }, { 1, HIDDEN }, { HIDDEN, OUT }, { 1, OUT } };
    static const float scale[4] = { 0.25f, 0.0f, 0.09f, 0.0f };
    bo_task t;
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    tiny_rng r = tiny_rng_make(seed, 78);
    double right = 0.0;
    float *at;
    int i, k;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    t.ctx = ctx;
    t.seed = seed;
    tiny_rng_fill_normal(&r, &t.centre[0][0], IN * OUT);
    at = t.theta = (float *)b_alloc(10000 * sizeof(float));
    for (i = 0; i < 4; i++) {
        const int n = (int)(dim[i][0] * dim[i][1]);
        t.w[i] = dim[i][0] == 1 ? tiny_tensor_1d(at, TINY_F32, n) : tiny_tensor_2d(at, TINY_F32, dim[i][0], dim[i][1]);
        for (k = 0; k < n; k++) at[k] = scale[i] * tiny_rng_normal(&r);
        at += n;
    }
    t.x = (float *)b_alloc(TEST * IN * sizeof(float));
    t.h = (float *)b_alloc(TEST * HIDDEN * sizeof(float));
    t.y = (float *)b_alloc(TEST * OUT * sizeof(float));
    d.tensor = t.w;
    d.n_tensor = 4;
    d.loss = bo_loss;
    d.user = &t;
    d.lr = 2e-4 * machines;
    d.samples = machines;
    d.floats = floats;
    d.seed = seed;
    d.whole = 1;
    *reached = 0;
    b_must(ctx, tllm_onebyte_open(ctx, &d, &o));
    for (i = 1; i <= steps; i++) {
        b_must(ctx, tllm_onebyte_step(o, NULL));
        if ((i % 25 == 0 && !*reached) || i == steps) {
            right = bo_right(&t);
            if (!*reached && (right >= 50.0 || i == steps)) *reached = i;
        }
    }
    tllm_onebyte_close(o);
    b_free(t.theta);
    b_free(t.x);
    b_free(t.h);
    b_free(t.y);
    return right;
}

typedef struct bo_sum {
    double mean, low, high;
} bo_sum;
static bo_sum bo_spread(const double *v, int n)
{
    bo_sum s;
    int i;
    s.mean = 0.0;
    s.low = s.high = v[0];
    for (i = 0; i < n; i++) {
        s.mean += v[i] / n;
        if (v[i] < s.low) s.low = v[i];
        if (v[i] > s.high) s.high = v[i];
    }
    return s;
}

void bench_onebyte(void)
{
    static const int machines[3] = { 1, 2, 4 };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    const int seeds = b_quick ? 1 : 3, steps = b_quick ? 100 : 1500;
    double right[2][3][3], reached[3][3];
    bo_sum s[3], f[3], at[3];
    int m, k, floats, step;
    bo_speed();
    for (m = 0; m < 3; m++) {
        for (k = 0; k < seeds; k++)
            for (floats = 0; floats < 2; floats++) {
                right[floats][m][k] = bo_learn(ctx, (uint64_t)k + 1, machines[m], floats, steps, &step);
                if (!floats) reached[m][k] = step;
            }
        s[m] = bo_spread(right[0][m], seeds);
        f[m] = bo_spread(right[1][m], seeds);
        at[m] = bo_spread(reached[m], seeds);
        b_note(
            "%d machines: %.1f %% right (%.1f to %.1f), with floats %.1f (%.1f to %.1f); half after %.0f steps (%.0f "
            "to %.0f)",
            machines[m], s[m].mean, s[m].low, s[m].high, f[m].mean, f[m].low, f[m].high, at[m].mean, at[m].low,
            at[m].high);
    }
    if (!b_quick) {
        b_verdict("steps of 1 machine over those of 4, to half right", at[0].mean / at[2].mean, ">=", 3.0);
        b_headline(
            "onebyte", "one byte a gradient converges like the float version",
            "ten blobs, 9986 weights, 3000 evaluations for each machine, 3 seeds",
            "1, 2, 4 machines: %.1f, %.1f, %.1f %% right (spread %.1f, %.1f, %.1f); with floats %.1f, %.1f, %.1f; half "
            "right after %.0f, %.0f, %.0f steps",
            s[0].mean, s[1].mean, s[2].mean, s[0].high - s[0].low, s[1].high - s[1].low, s[2].high - s[2].low,
            f[0].mean, f[1].mean, f[2].mean, at[0].mean, at[1].mean, at[2].mean);
    }
    tiny_ctx_close(ctx);
}
#endif
