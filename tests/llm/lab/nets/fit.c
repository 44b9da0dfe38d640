/* tests/llm/lab/nets/fit.c - training with masks, gradual pruning and lottery tickets */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else
#include "kit.h"

static tllm_nn *mlp_open(tiny_ctx *ctx, tiny_idx hidden, tiny_dtype dtype, uint64_t seed)
{
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    tllm_nn *nn = NULL;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = l[1].n_out = hidden;
    l[0].relu = l[1].relu = 1;
    l[2].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 3; d.seed = seed; d.dtype = dtype;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    return nn;
}

static size_t count_in(const tllm_nn *nn, size_t l)
{
    const tllm_nn_weight *w = tllm_nn_weights(nn, NULL) + l;
    const size_t n = (size_t)tiny_tensor_count(&w->value);
    return tllm_nn_masked(nn) ? tllm_mask_count(tllm_nn_masked(nn), w->first, n) : n;
}

typedef struct watch {
    tllm_nn *nn;
    const tllm_gradual *g;
    unsigned char *bits;                    /* the mask after the last step */
    double *held;
    size_t n, revived;
    int64_t calls, events, stop_at;
} watch;

static int on_step(void *user, const tllm_nn_fit_state *s)
{
    watch *w = (watch *)user;
    const tllm_mask *m = tllm_nn_masked(w->nn);
    const tllm_nn_weight *layer;
    size_t n_layer, l, i, bytes = (w->n + 7) / 8;
    const tiny_tensor all = tiny_tensor_1d(tllm_nn_weights(w->nn, NULL)[0].value.data,
                                           tllm_nn_is(w->nn)->dtype, (tiny_idx)w->n);
    layer = tllm_nn_weights(w->nn, &n_layer);
    w->calls++;
    T_EQ_INT(s->step, w->calls);
    if (tllm_gradual_due(w->g, s->step)) {
        const double zeros = tllm_gradual_at(w->g, s->step);
        w->events++;
        for (l = 0; l < n_layer; l++) {     /* exact counts in each layer */
            const size_t n = (size_t)tiny_tensor_count(&layer[l].value);
            const int skipped = w->g->skip >> l & 1;
            if (!w->g->global) T_EQ_INT(count_in(w->nn, l), skipped ? n : n - tllm_mask_part(zeros, n));
        }
        T_EQ_INT(s->n_kept, tllm_nn_cost_of(w->nn).n_kept);
        for (i = 0; i < w->n; i++) {
            const int was = w->bits[i / 8] >> i % 8 & 1;
            if (!was && tllm_mask_has(m, i)) w->revived++;
        }
        for (i = 0; i < w->n; i++) w->held[i] = number(&all, i);
    } else if (m && w->events) T_TRUE(!memcmp(w->bits, m->bits, bytes));        /* also after the last event */
    for (i = 0; m && i < w->n; i++)
        if (!tllm_mask_has(m, i) && (number(&all, i) != w->held[i] || (w->g->hard && number(&all, i) != 0.0))) {
            t_fail(__FILE__, __LINE__, "step %d: masked weight %lu moved", (int)s->step, (unsigned long)i);
            break;
        }
    for (l = 0; m && s->step == w->calls && l < n_layer; l++)
        for (i = 0; i < (size_t)tiny_tensor_count(&layer[l].value); i++)
            if (!tllm_mask_has(m, layer[l].first + i) && !tllm_gradual_due(w->g, s->step) &&
                number(&layer[l].grad, i) != 0.0) {
                t_fail(__FILE__, __LINE__, "step %d: masked weight %lu of layer %lu has a gradient", (int)s->step,
                       (unsigned long)i, (unsigned long)l);
                l = n_layer - 1;
                break;
            }
    if (m) memcpy(w->bits, m->bits, bytes);
    return w->stop_at && s->step == w->stop_at;
}

static void test_gradual(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_nn_task task;
    int hard, global;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
    for (hard = 0; hard < 2; hard++)
        for (global = 0; global < 2; global++) {
            tllm_nn *nn = mlp_open(ctx, 16, TINY_F32, 7);
            tllm_gradual g;
            tllm_nn_fit_desc d;
            watch w;
            memset(&g, 0, sizeof g);
            memset(&d, 0, sizeof d);
            memset(&w, 0, sizeof w);
            g.to = 0.9; g.start = 10; g.every = 3; g.n = 15; g.hard = hard; g.global = global;
            if (!hard) { g.from = 0.5; g.to = 0.6; }    /* slowly: others become smaller faster than the share grows */
            g.skip = global ? 0 : 4;
            w.nn = nn;
            w.g = &g;
            w.n = tllm_nn_cost_of(nn).n_weight;
            w.bits = (unsigned char *)t_keep((w.n + 7) / 8);
            memset(w.bits, 0xff, (w.n + 7) / 8);
            w.held = (double *)t_keep(w.n * sizeof *w.held);
            d.batch = 30;
            d.epochs = 8;
            d.lr = 2e-2;
            d.gradual = &g;
            d.callback = on_step;
            d.user = &w;
            T_OK(tllm_nn_fit(nn, &task.train, &d, NULL));
            T_EQ_INT(w.calls, 80);
            T_EQ_INT(w.events, 16);
            if (global) T_EQ_INT(tllm_nn_cost_of(nn).n_kept, w.n - tllm_mask_part(g.to, w.n));
            if (hard) T_EQ_INT(w.revived, 0);
            else T_TRUE(w.revived > 0);
            T_EQ_INT(tiny_op_target(ctx, TINY_OP_MUL), t_vectors(target));
            tllm_nn_close(nn);
        }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 2", "exact counts in each layer");
    T_PROOF("compression 2", "masks are frozen after the end");
    T_PROOF("compression 2", "masked gradients are zero");
    T_PROOF("compression 2", "with hard = 0 a weight can come back");
}

/* All weights equal: ties go by index. An event by hand, in a loop of one's own. */
static void test_equal(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn *nn = mlp_open(ctx, 4, TINY_F32, 1);
    const tllm_nn_weight *w = tllm_nn_weights(nn, NULL);
    tllm_gradual g;
    size_t i, l;
    memset(&g, 0, sizeof g);
    g.from = g.to = 0.5; g.every = 1; g.n = 1;
    for (l = 0; l < 3; l++)
        for (i = 0; i < (size_t)tiny_tensor_count(&w[l].value); i++) put_number(&w[l].value, i, i % 2 ? -0.25 : 0.25);
    T_OK(tllm_nn_gradual(nn, &g, 5));       /* none is due */
    T_TRUE(!tllm_nn_masked(nn));
    T_OK(tllm_nn_gradual(nn, &g, 1));
    for (l = 0; l < 3; l++)
        for (i = 0; i < (size_t)tiny_tensor_count(&w[l].value); i++)
            T_EQ_INT(tllm_mask_has(tllm_nn_masked(nn), w[l].first + i),
                     i >= (size_t)tiny_tensor_count(&w[l].value) / 2);
    T_OK(tllm_nn_mask(nn, NULL));           /* hard: a kept weight that is 0 goes later than those that are masked */
    for (i = 0; i < 128; i++) put_number(&w[0].value, i, (double)(i + 1));
    g.hard = 1;
    T_OK(tllm_nn_gradual(nn, &g, 1));
    for (i = 0; i < 128; i++) T_TRUE(tllm_mask_has(tllm_nn_masked(nn), i) == (i >= 64));
    put_number(&w[0].value, 100, 0.0);
    for (i = 0; i < 64; i++) put_number(&w[0].value, i, i % 2 ? 0.0 : 3.0);     /* also if a caller changes them */
    T_OK(tllm_nn_gradual(nn, &g, 1));
    for (i = 0; i < 128; i++) T_TRUE(tllm_mask_has(tllm_nn_masked(nn), i) == (i >= 64));
    tllm_nn_close(nn);
    t_close(ctx);
    T_PROOF("compression 2", "bad input: all weights equal");
}

/* A loop of this test trains the same network in double: forward, backward and Adam written out, with a mask. */
static void test_plain(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    golden_net g = golden_open(ctx, 1, TINY_F64);
    static const int size[4] = { 5, 7, 6, 3 };
    double w[3][42], b[3][7], m[2][3][49], v[2][3][49], gw[3][42], gb[3][7], keep[3][42];
    tllm_mask mask;
    tllm_nn_fit_desc d;
    size_t n_param, i;
    const tiny_param *p = tllm_nn_params(g.nn, &n_param);
    int l, k, s, step, j;
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    T_OK(tllm_mask_open(ctx, g.n, &mask));
    for (i = 0; i < g.n; i++) tllm_mask_put(&mask, i, i % 3 != 1);
    T_OK(tllm_nn_mask(g.nn, &mask));
    for (l = 0, i = 0; l < 3; l++) {
        for (k = 0; k < size[l] * size[l + 1]; k++, i++) {
            w[l][k] = number(&p[l].value, (size_t)k);
            keep[l][k] = i % 3 != 1 ? 1.0 : 0.0;
        }
        for (k = 0; k < size[l + 1]; k++) b[l][k] = number(&p[3 + l].value, (size_t)k);
    }
    memset(&d, 0, sizeof d);
    d.batch = 7;
    d.epochs = 12;
    d.lr = 0.05;
    T_OK(tllm_nn_fit(g.nn, &g.set, &d, NULL));
    for (step = 1; step <= 12; step++) {
        const double rate = 0.05 * 0.5 * (1.0 + cos(3.14159265358979323846 * (step - 1) / 12));
        memset(gw, 0, sizeof gw);
        memset(gb, 0, sizeof gb);
        for (s = 0; s < 7; s++) {
            double a[4][7], e[4][7], top = -1e9, sum = 0.0;
            for (k = 0; k < 5; k++) a[0][k] = (double)((const float *)g.set.x.data)[5 * s + k];
            for (l = 0; l < 3; l++)
                for (k = 0; k < size[l + 1]; k++) {
                    a[l + 1][k] = b[l][k];
                    for (j = 0; j < size[l]; j++)
                        a[l + 1][k] += keep[l][k * size[l] + j] * w[l][k * size[l] + j] * a[l][j];
                    if (l < 2 && a[l + 1][k] < 0.0) a[l + 1][k] = 0.0;
                }
            for (k = 0; k < 3; k++) top = fmax(top, a[3][k]);
            for (k = 0; k < 3; k++) sum += exp(a[3][k] - top);
            for (k = 0; k < 3; k++) e[3][k] = (exp(a[3][k] - top) / sum - (k == s % 3)) / 7.0;
            for (l = 2; l >= 0; l--) {
                for (j = 0; j < size[l]; j++) e[l][j] = 0.0;
                for (k = 0; k < size[l + 1]; k++) {
                    gb[l][k] += e[l + 1][k];
                    for (j = 0; j < size[l]; j++) {
                        const int at = k * size[l] + j;
                        gw[l][at] += keep[l][at] * e[l + 1][k] * a[l][j];
                        if (a[l][j] > 0.0 || !l) e[l][j] += keep[l][at] * w[l][at] * e[l + 1][k];
                    }
                }
            }
        }
        for (l = 0; l < 3; l++)
            for (k = 0; k < size[l] * size[l + 1] + size[l + 1]; k++) {
                const int is_b = k >= size[l] * size[l + 1], at = is_b ? k - size[l] * size[l + 1] : k;
                const double x = is_b ? gb[l][at] : gw[l][at];
                m[is_b][l][at] += 0.1 * (x - m[is_b][l][at]);
                v[is_b][l][at] += 0.001 * (x * x - v[is_b][l][at]);
                *(is_b ? &b[l][at] : &w[l][at]) -= rate * m[is_b][l][at] / (1 - pow(0.9, step)) /
                                                   (sqrt(v[is_b][l][at] / (1 - pow(0.999, step))) + 1e-8);
            }
    }
    for (l = 0; l < 3; l++) {
        for (k = 0; k < size[l] * size[l + 1]; k++) T_CLOSE(number(&p[l].value, (size_t)k), w[l][k], 1e-9);
        for (k = 0; k < size[l + 1]; k++) T_CLOSE(number(&p[3 + l].value, (size_t)k), b[l][k], 1e-9);
    }
    tllm_mask_close(ctx, &mask);
    tllm_nn_close(g.nn);
    t_close(ctx);
}

/* what a round leaves is a part of what the round before left */
typedef struct nest { tllm_nn *nn; unsigned char *bits; size_t n, lost; int round; } nest;
static int on_round(void *user, const tllm_nn_fit_state *s)
{
    nest *k = (nest *)user;
    const tllm_mask *m = tllm_nn_masked(k->nn);
    size_t i;
    if (s->round == k->round) return 0;
    k->round = s->round;
    for (i = 0; i < (k->n + 7) / 8; i++) {
        k->lost += m->bits[i] & ~(unsigned)k->bits[i] ? 1 : 0;
        k->bits[i] = m->bits[i];
    }
    return 0;
}

static void test_lottery(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_nn_lottery_desc d;
    tllm_nn_fit_state last;
    tllm_nn *plain = mlp_open(ctx, 16, TINY_F32, 3), *nn = mlp_open(ctx, 16, TINY_F32, 3);
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    size_t n_param, i, k, moved = 0;
    const tiny_param *p, *q;
    int64_t rewind[2] = { 7, -1 };
    nest inside;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
    memset(&d, 0, sizeof d);
    d.fit.batch = 30;
    d.fit.epochs = 4;
    d.keep = 1.0;
    T_OK(tllm_nn_fit(plain, &task.train, &d.fit, NULL));
    T_OK(tllm_nn_lottery(nn, &task.train, &d, &last));
    T_EQ_INT(last.rounds, 0);
    p = tllm_nn_params(plain, &n_param);
    q = tllm_nn_params(nn, NULL);
    for (i = 0; i < n_param; i++)
        T_SAME((float *)p[i].value.data, (float *)q[i].value.data, tiny_tensor_count(&p[i].value));
    T_PROOF("compression 3", "LTR with keep = 1 is plain training");
    tllm_nn_close(nn);
    for (k = 0; k < 2; k++) {
        /* one round by hand: train, prune, back to step k, train from there */
        tllm_nn *early = mlp_open(ctx, 16, TINY_F32, 3), *by_hand = mlp_open(ctx, 16, TINY_F32, 3);
        tllm_nn_fit_desc f = d.fit;
        tllm_mask mask;
        double *score = (double *)t_keep(n * sizeof *score);
        watch w;
        tllm_gradual never;
        nn = mlp_open(ctx, 16, TINY_F32, 3);
        memset(&w, 0, sizeof w);
        memset(&never, 0, sizeof never);
        never.start = 1000; never.every = never.n = 1;
        w.nn = early;
        w.g = &never;
        w.n = n;
        w.bits = (unsigned char *)t_keep((n + 7) / 8);
        w.held = (double *)t_keep(n * sizeof *w.held);
        w.stop_at = rewind[k] > 0 ? rewind[k] : 0;
        f.callback = on_step;
        f.user = &w;
        if (rewind[k] > 0) T_OK(tllm_nn_fit(early, &task.train, &f, NULL));
        T_OK(tllm_mask_open(ctx, n, &mask));
        p = tllm_nn_params(plain, NULL);
        for (i = 0; i < n; i++) score[i] = fabs((double)((const float *)p[0].value.data)[i]);
        T_OK(tllm_mask_top(ctx, &mask, 0, n, score, tllm_mask_part(0.7, n)));
        T_OK(tllm_nn_mask(by_hand, &mask));
        p = tllm_nn_params(by_hand, NULL);
        q = tllm_nn_params(early, NULL);
        for (i = 0; i < n_param; i++)
            memcpy(p[i].value.data, q[i].value.data, (size_t)tiny_tensor_count(&p[i].value) * 4);
        f = d.fit;
        f.first = rewind[k] > 0 ? rewind[k] : 0;
        T_OK(tllm_nn_fit(by_hand, &task.train, &f, NULL));
        d.keep = 0.7;
        d.share = 0.3;
        d.rewind = rewind[k];
        T_OK(tllm_nn_lottery(nn, &task.train, &d, &last));
        T_EQ_INT(last.rounds, 1);
        T_EQ_INT(tllm_nn_cost_of(nn).n_kept, tllm_mask_part(0.7, n));
        T_SAME(tllm_nn_masked(nn)->bits, mask.bits, (n + 7) / 8);
        q = tllm_nn_params(nn, NULL);
        for (i = 0; i < n_param; i++)
            T_SAME((float *)p[i].value.data, (float *)q[i].value.data, tiny_tensor_count(&p[i].value));
        for (i = 0; i < n; i++) moved += !tllm_mask_has(&mask, i) && ((float *)q[0].value.data)[i] != 0.0f;
        T_TRUE(moved > 0);                  /* pruned ones keep the values of the rewind */
        tllm_mask_close(ctx, &mask);
        tllm_nn_close(early);
        tllm_nn_close(by_hand);
        tllm_nn_close(nn);
    }
    d.keep = 0.05;
    d.share = 0.5;
    d.rewind = 0;
    nn = mlp_open(ctx, 16, TINY_F32, 3);
    memset(&inside, 0, sizeof inside);
    inside.nn = nn;
    inside.n = n;
    inside.bits = (unsigned char *)t_keep((n + 7) / 8);
    memset(inside.bits, 0xff, (n + 7) / 8);
    d.fit.callback = on_round;
    d.fit.user = &inside;
    T_OK(tllm_nn_lottery(nn, &task.train, &d, &last));
    d.fit.callback = NULL;
    T_EQ_INT(inside.round, 5);
    T_EQ_INT(inside.lost, 0);
    T_EQ_INT(last.rounds, 5);
    T_EQ_INT(last.round, 5);
    T_EQ_INT(tllm_nn_cost_of(nn).n_kept, tllm_mask_part(0.05, n));
    T_PROOF("compression 3", "exactly K weights are kept, globally");
    T_EQ_INT(tllm_nn_lottery_rounds(0.8, 0.2), 1);
    T_EQ_INT(tllm_nn_lottery_rounds(0.8 * 0.8 * 0.8, 0.2), 3);
    T_EQ_INT(tllm_nn_lottery_rounds(0.05, 0.2), 14);    /* ln 0.05 / ln 0.8 = 13.4 */
    T_EQ_INT(tllm_nn_lottery_rounds(1.0, 0.2), 0);
    T_EQ_INT(tllm_nn_lottery_rounds(-1.0, 0.2), 0);
    T_EQ_INT(tllm_nn_lottery_rounds(NAN, 0.2), 0);
    d.keep = 0.0;
    T_STATUS(tllm_nn_lottery(nn, &task.train, &d, NULL), TINY_E_ARGUMENT, "keeping 0");
    d.keep = 1.1;
    T_STATUS(tllm_nn_lottery(nn, &task.train, &d, NULL), TINY_E_ARGUMENT, "keeping 1.1");
    d.keep = 0.5; d.share = 1.0;
    T_STATUS(tllm_nn_lottery(nn, &task.train, &d, NULL), TINY_E_ARGUMENT, "1 less in each round");
    d.share = 0.5; d.rewind = 40;
    T_STATUS(tllm_nn_lottery(nn, &task.train, &d, NULL), TINY_E_ARGUMENT, "step 40 of 40");
    tllm_nn_close(nn);
    tllm_nn_close(plain);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 3", "rewinding goes to step k and training continues from there");
}

static void test_threads(void)
{
    float *first = NULL;
    int threads;
    for (threads = 1; threads <= 4; threads++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
        tllm_nn_task task;
        tllm_nn_fit_desc d;
        tllm_gradual g;
        tllm_nn *nn = mlp_open(ctx, 32, TINY_F32, 3);
        const tiny_param *p = tllm_nn_params(nn, NULL);
        const size_t n = tllm_nn_cost_of(nn).n_param;
        T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
        memset(&d, 0, sizeof d);
        memset(&g, 0, sizeof g);
        g.to = 0.8; g.start = 5; g.every = 2; g.n = 10;
        d.gradual = &g;
        d.epochs = 10;
        T_OK(tllm_nn_fit(nn, &task.train, &d, NULL));
        if (!first) {
            first = (float *)t_keep(n * sizeof *first);
            memcpy(first, p[0].value.data, n * sizeof *first);
        }
        T_SAME(first, (float *)p[0].value.data, n);
        tllm_nn_close(nn);
        tllm_nn_task_close(ctx, &task);
        t_close(ctx);
    }
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    golden_net g = golden_open(ctx, 1, TINY_F32);
    tllm_nn_fit_desc d;
    tllm_gradual s;
    memset(&d, 0, sizeof d);
    memset(&s, 0, sizeof s);
    d.gradual = &s;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_ARGUMENT, "gradual");
    s.to = 0.5; s.every = 1; s.n = 1; s.skip = 8;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_ARGUMENT, "beyond the 3 layers");
    T_PROOF("compression 2", "bad input: a layer that is not there");
    d.gradual = NULL;
    d.lr = -1.0;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_ARGUMENT, "a rate of -1");
    d.lr = 0.0;
    d.batch = 8;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_ARGUMENT, "batch 8 of 7");
    d.batch = 7;
    d.first = 26;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_ARGUMENT, "first step is 26 of 25");
    d.first = 0;
    ((float *)g.set.x.data)[0] = NAN;
    T_STATUS(tllm_nn_fit(g.nn, &g.set, &d, NULL), TINY_E_NUMERIC, "step 1");
    T_STATUS(tllm_nn_fit(g.nn, NULL, &d, NULL), TINY_E_ARGUMENT, "a set is");
    T_EQ_INT(tllm_nn_fit(NULL, &g.set, &d, NULL), TINY_E_ARGUMENT);
    tllm_nn_close(g.nn);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_nn_task task;
            tllm_nn_layer l[1];
            tllm_nn_desc d;
            tllm_nn_lottery_desc lot;
            tllm_nn *nn = NULL;
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&lot, 0, sizeof lot);
            l[0].n_out = 10;
            d.in[0] = 32; d.layer = l; d.n_layer = 1;
            lot.fit.batch = 10; lot.fit.epochs = 1; lot.keep = 0.5; lot.share = 0.5;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 20, 10, &task) && !tllm_nn_open(ctx, &d, &nn))
                (void)tllm_nn_lottery(nn, &task.train, &lot, NULL);
            tllm_nn_close(nn);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_gradual);
    T_RUN(test_equal);
    T_RUN(test_plain);
    T_RUN(test_lottery);
    T_RUN(test_threads);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
