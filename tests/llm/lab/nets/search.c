/* tests/llm/lab/nets/search.c - widths and depths: cost, draws, the search of TAS, networks of a shape */
#include "t.h"

#ifdef TINYLLM_NO_SEARCH
int main(void) { return t_done(); }
#else

/* n x n images; stages of `blocks` blocks of 4, 8 .. channels */
static tllm_space space_of(tiny_idx n, size_t stages, int blocks, int plain)
{
    tllm_space s;
    size_t i;
    memset(&s, 0, sizeof s);
    s.in[0] = 1;
    s.in[1] = s.in[2] = n;
    s.n_class = 10;
    s.stem = 4;
    s.n_stage = stages;
    s.plain = plain;
    for (i = 0; i < stages; i++) {
        s.stage[i].width = (tiny_idx)4 << i;
        s.stage[i].blocks = blocks;
        s.stage[i].stride = i ? 2 : 1;
    }
    return s;
}

static tiny_ctx *one(void) { return t_ctx(TINY_TARGET_AUTO, 1); }

static void test_choices(void)
{
    static const tiny_idx want[8] = { 4, 6, 8, 9, 11, 12, 14, 16 };
    static const int deep[4] = { 1, 3, 5, 6 };
    tiny_idx width[TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_DEPTHS];
    tllm_space s = space_of(8, 2, 2, 0);
    tllm_shape shape;
    tiny_ctx *ctx = one();
    size_t i;
    s.stem = 16;
    T_EQ_INT(tllm_space_convs(&s), 9);
    T_EQ_INT(tllm_space_widths(&s, 0, width), 8);
    for (i = 0; i < 8; i++) T_EQ_INT(width[i], want[i]);
    s.stem = 4;                             /* 1.2, 1.6, 2, 2.4, 2.8, 3.2, 3.6, 4: duplicates are merged */
    T_EQ_INT(tllm_space_widths(&s, 0, width), 4);
    T_EQ_INT(width[0], 1);
    T_EQ_INT(width[3], 4);
    s.stem = 1;
    T_EQ_INT(tllm_space_widths(&s, 0, width), 1);
    T_EQ_INT(tllm_space_depths(&s, 0, depth), 2);
    s.stage[0].blocks = 3;
    T_EQ_INT(tllm_space_depths(&s, 0, depth), 3);
    s.stage[0].blocks = 6;
    T_EQ_INT(tllm_space_depths(&s, 0, depth), 4);
    for (i = 0; i < 4; i++) T_EQ_INT(depth[i], deep[i]);
    s.stage[0].blocks = 5;
    T_EQ_INT(tllm_space_depths(&s, 0, depth), 3);
    T_EQ_INT(depth[2], 5);
    s.fixed_depth = 1;
    T_EQ_INT(tllm_space_depths(&s, 0, depth), 1);
    T_EQ_INT(depth[0], 5);

    s = space_of(8, 2, 2, 0);               /* cost by hand: 8 x 8, then 4 x 4 */
    T_OK(tllm_space_full(ctx, &s, &shape));
    T_CLOSE(tllm_space_flops(&s, &shape),
            2.0 * (9 * 64 * 4 + 4 * 9 * 64 * 16 + 9 * 16 * (4 * 8 + 3 * 8 * 8) + 80), 0.0);
    shape.depth[0] = 1;                     /* the shortcut of 4 channels stays next to 2 of its block */
    shape.width[2] = 2;
    shape.width[1] = 3;
    T_CLOSE(tllm_space_flops(&s, &shape),
            2.0 * (9 * 64 * 4 + 9 * 64 * (4 * 3 + 3 * 2) + 9 * 16 * (4 * 8 + 3 * 8 * 8) + 80), 0.0);
    s.plain = 1;
    T_CLOSE(tllm_space_flops(&s, &shape),
            2.0 * (9 * 64 * 4 + 9 * 64 * (4 * 3 + 3 * 2) + 9 * 16 * (2 * 8 + 3 * 8 * 8) + 80), 0.0);
    T_OK(tllm_space_uniform(ctx, &s, 20000.0, &shape));
    T_TRUE(tllm_space_flops(&s, &shape) <= 20000.0);
    T_OK(tllm_space_random(ctx, &s, 30000.0, 40000.0, 3, &shape));
    T_OK(tllm_space_check(ctx, &s, &shape));
    T_TRUE(tllm_space_flops(&s, &shape) >= 30000.0 && tllm_space_flops(&s, &shape) <= 40000.0);
    t_close(ctx);
    T_PROOF("compression 5", "flops of the whole shape equal the direct count");
}

static void some_logits(tllm_logits *a, uint64_t seed, double by)
{
    tiny_rng rng = tiny_rng_make(seed, 1);
    size_t i, j;
    for (i = 0; i < TLLM_SPACE_CONVS; i++)
        for (j = 0; j < TLLM_SPACE_WIDTHS; j++) a->width[i][j] = by * (double)tiny_rng_normal(&rng);
    for (i = 0; i < TLLM_SPACE_STAGES; i++)
        for (j = 0; j < TLLM_SPACE_DEPTHS; j++) a->depth[i][j] = by * (double)tiny_rng_normal(&rng);
}

/* every choice of widths and depths, weighed with its probability */
static double enumerate(const tllm_space *s, const tllm_logits *a)
{
    const size_t n = tllm_space_convs(s);
    double p[TLLM_SPACE_CONVS + TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS], sum = 0.0, weight;
    tiny_idx width[TLLM_SPACE_CONVS][TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS];
    size_t of[TLLM_SPACE_CONVS + TLLM_SPACE_STAGES], at[TLLM_SPACE_CONVS + TLLM_SPACE_STAGES], i;
    tllm_shape shape;
    memset(at, 0, sizeof at);
    for (i = 0; i < n + s->n_stage; i++) {
        of[i] = i < n ? tllm_space_widths(s, i, width[i]) : tllm_space_depths(s, i - n, depth[i - n]);
        tllm_space_soften(of[i], i < n ? a->width[i] : a->depth[i - n], NULL, 1.0, NULL, p[i]);
    }
    for (;;) {
        for (weight = 1.0, i = 0; i < n + s->n_stage; i++) {
            weight *= p[i][at[i]];
            if (i < n) shape.width[i] = width[i][at[i]];
            else shape.depth[i - n] = depth[i - n][at[i]];
        }
        sum += weight * tllm_space_flops(s, &shape);
        for (i = 0; i < n + s->n_stage && ++at[i] == of[i]; i++) at[i] = 0;
        if (i == n + s->n_stage) return sum;
    }
}

static void test_expected(void)
{
    tllm_space s = space_of(4, 1, 2, 1);
    tllm_logits a, g, none, b;
    double want, got, h = 1e-5;
    size_t i, j, k;
    some_logits(&a, 2, 1.0);
    s.stem = 3;                             /* a stem and two blocks, two depths: all choices */
    s.stage[0].width = 4;
    want = enumerate(&s, &a);
    got = tllm_space_expected(&s, &a, &g);
    T_CLOSE(got, want, 1e-12 * want);
    s.plain = 0;                            /* with shortcuts the formula is a lower bound */
    T_TRUE(tllm_space_expected(&s, &a, NULL) <= enumerate(&s, &a) * (1.0 + 1e-12));
    s = space_of(8, 2, 4, 0);
    memset(&none, 0, sizeof none);
    for (k = 0; k < 2; k++) {
        got = tllm_space_expected(&s, &a, &g);
        for (i = 0; i < tllm_space_convs(&s); i++)
            for (j = 0; j < TLLM_SPACE_WIDTHS; j++) {       /* unused ends too: 0 */
                double low, high;
                b = a;
                b.width[i][j] += h;
                high = log(tllm_space_expected(&s, &b, NULL));
                b.width[i][j] -= 2.0 * h;
                low = log(tllm_space_expected(&s, &b, NULL));
                T_CLOSE(g.width[i][j] / got, (high - low) / (2.0 * h), 1e-9);
            }
        for (i = 0; i < s.n_stage; i++)
            for (j = 0; j < TLLM_SPACE_DEPTHS; j++) {
                double low, high;
                b = a;
                b.depth[i][j] += h;
                high = log(tllm_space_expected(&s, &b, NULL));
                b.depth[i][j] -= 2.0 * h;
                low = log(tllm_space_expected(&s, &b, NULL));
                T_CLOSE(g.depth[i][j] / got, (high - low) / (2.0 * h), 1e-9);
            }
        s.plain = 1;
    }
    T_PROOF("compression 5", "E[F] equals enumeration");
    T_PROOF("compression 5", "gradient of log E[F] by finite differences");
}

static void test_draws(void)
{
    static const double alpha[3] = { 0, 1, 2 }, gumbel[3] = { .5, -.2, .1 };
    double o[3], p[4], w[2];
    size_t i, n, one_hot = 0;
    tiny_ctx *ctx = one();
    tllm_space s = space_of(8, 1, 2, 0);
    tllm_tas_desc d;
    tllm_supernet *net = NULL;
    tllm_logits a;
    tllm_draws draws;
    tiny_rng rng = tiny_rng_make(5, 5);
    size_t seen[TLLM_SPACE_WIDTHS];
    tllm_space_soften(3, alpha, gumbel, 2.0, o, p);
    T_CLOSE(p[0], .2279, 5e-5);             /* worked */
    T_CLOSE(p[1], .2648, 5e-5);
    T_CLOSE(p[2], .5073, 5e-5);
    tllm_space_pair(o[1], o[2], w);
    T_CLOSE(w[0], .3430, 5e-5);
    T_CLOSE(w[1], .6570, 5e-5);
    tllm_space_soften(3, alpha, gumbel, 1e-3, o, p);
    T_CLOSE(p[2], 1.0, 1e-12);              /* tau to 0: one-hot */
    tllm_space_pair(o[1], o[2], w);
    T_CLOSE(w[1], 1.0, 1e-12);
    T_CLOSE(tllm_tas_tau(0.0), 5.0, 1e-12);
    T_CLOSE(tllm_tas_tau(0.25), 4.28, 5e-3);
    T_CLOSE(tllm_tas_tau(0.5), 2.55, 1e-12);
    T_CLOSE(tllm_tas_tau(0.75), .818, 5e-4);
    T_CLOSE(tllm_tas_tau(1.0), .1, 1e-12);
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    memset(seen, 0, sizeof seen);
    T_OK(tllm_supernet_open(ctx, &s, &d, &net));
    a.width[0][0] = 2.0;
    n = 4000;
    for (i = 0; i < n; i++) {               /* tau 1: the first index is drawn by softmax; the largest o by it too */
        tllm_supernet_draw(net, &a, 0.01, &rng, &draws);
        T_TRUE(draws.pair[0][0] != draws.pair[0][1]);
        seen[draws.pair[0][0]]++;
        tllm_space_soften(4, a.width[0], draws.gumbel.width[0], 0.01, NULL, p);
        one_hot += p[draws.pair[0][0]] > 0.99;
    }
    T_CLOSE((double)seen[0] / (double)n, exp(2.0) / (exp(2.0) + 3.0), 0.03);    /* Gumbel: by softmax(alpha) */
    T_TRUE(one_hot > n * 9 / 10);
    tllm_supernet_close(net);
    t_close(ctx);
    T_PROOF("compression 5", "worked sampling: p = .2279, .2648, .5073; pair .3430, .6570");
    T_PROOF("compression 5", "tau to 0 gives one-hot");
}

static tllm_nn_set images(tiny_idx n, tiny_idx side)
{
    tllm_nn_set set;
    tiny_idx i;
    float *x = t_rand((size_t)(n * side * side), -1.0f, 1.0f);
    int32_t *label = (int32_t *)t_keep((size_t)n * sizeof *label);
    for (i = 0; i < n; i++) label[i] = (int32_t)(i % 10);
    set.x = tiny_tensor_4d(x, TINY_F32, n, 1, side, side);
    set.label = tiny_tensor_1d(label, TINY_I32, n);
    return set;
}

/* Both forms of the searchable convolution, in double: the same loss and gradients. Gradients of the logits and of a
 * few weights against differences. */
static void test_supernet(void)
{
    static const uint32_t sample[3] = { 4, 0, 3 };
    tiny_ctx *ctx = one();
    tllm_space s = space_of(4, 2, 3, 0);
    tllm_nn_set set = images(6, 4);
    tllm_tas_desc d;
    tllm_supernet *net[2] = { NULL, NULL };
    tllm_logits a, b, g[2];
    tllm_draws draws;
    tiny_rng rng = tiny_rng_make(8, 8);
    double loss[2], low, high, h = 1e-5;
    const tiny_param *p[2];
    size_t n, i, j, k, trial;
    memset(&d, 0, sizeof d);
    d.seed = 3;
    d.dtype = TINY_F64;
    some_logits(&a, 4, 0.5);
    for (k = 0; k < 2; k++) {
        d.whole = (int)k;
        T_OK(tllm_supernet_open(ctx, &s, &d, &net[k]));
        p[k] = tllm_supernet_params(net[k], &n);
    }
    for (trial = 0; trial < 2; trial++) {
        tllm_supernet_draw(net[0], &a, 1.5, &rng, &draws);
        for (k = 0; k < 2; k++) {
            T_OK(tllm_supernet_loss(net[k], &set, sample, 3, &a, &draws, &loss[k], &g[k]));
            T_OK(tllm_supernet_loss(net[k], &set, sample, 3, &a, &draws, &loss[k], NULL));
        }
        T_CLOSE(loss[0], loss[1], 1e-12);
        for (i = 0; i < n; i++)
            for (j = 0; j < (size_t)tiny_tensor_count(&p[0][i].grad); j++)
                T_CLOSE(((double *)p[0][i].grad.data)[j], ((double *)p[1][i].grad.data)[j], 1e-11);
        for (i = 0; i < tllm_space_convs(&s); i++)
            for (j = 0; j < TLLM_SPACE_WIDTHS; j++) T_CLOSE(g[0].width[i][j], g[1].width[i][j], 1e-12);
        for (i = 0; i < 10; i++) {          /* a logit of each convolution, then of each depth */
            const size_t row = i < 7 ? i : (i - 7) % 2, at = i < 7 ? draws.pair[i][trial % 2] : (i - 7) % 3;
            for (k = 0; k < 2; k++) {
                b = a;
                (i < 7 ? b.width[row] : b.depth[row])[at] += k ? h : -h;
                T_OK(tllm_supernet_loss(net[0], &set, sample, 3, &b, &draws, k ? &high : &low, NULL));
            }
            T_CLOSE((i < 7 ? g[0].width[row] : g[0].depth[row])[at], (high - low) / (2.0 * h), 1e-7);
        }
        T_OK(tllm_supernet_loss(net[0], &set, sample, 3, &a, &draws, &loss[0], NULL));
        for (i = trial; i < n; i += 23) {
            double *x = (double *)p[0][i].value.data, want = ((double *)p[0][i].grad.data)[0], kept = *x;
            *x = kept + h;
            T_OK(tllm_supernet_loss(net[0], &set, sample, 3, &a, &draws, &high, NULL));
            *x = kept - h;
            T_OK(tllm_supernet_loss(net[0], &set, sample, 3, &a, &draws, &low, NULL));
            *x = kept;
            T_OK(tllm_supernet_loss(net[0], &set, sample, 3, &a, &draws, &loss[0], NULL));
            T_CLOSE(want, (high - low) / (2.0 * h), 1e-6);
        }
    }
    tllm_supernet_close(net[0]);
    tllm_supernet_close(net[1]);
    t_close(ctx);
    T_PROOF("compression 5", "filling with zeros, then a slice, equals the small convolution");
}

typedef struct trace { double least, most; int64_t below, above, inside_from, calls; } trace;
static int on_step(void *user, const tllm_tas_state *s)
{
    trace *p = (trace *)user;
    p->calls++;
    p->below += s->flops < p->least;
    p->above += s->flops > p->most;
    if (s->flops < p->least || s->flops > p->most) p->inside_from = s->step + 1;
    return 0;
}

/* From the largest choices down to the target, and from the smallest ones up. */
static void test_search(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_space s = space_of(8, 2, 2, 0);
    tllm_nn_set set = images(8, 8);
    tllm_shape full, shape;
    tllm_tas_desc d;
    tllm_tas_state last;
    tllm_logits start;
    trace p;
    int side;
    size_t i;
    T_OK(tllm_space_full(ctx, &s, &full));
    for (side = 0; side < 2; side++) {
        memset(&start, 0, sizeof start);
        for (i = 0; i < tllm_space_convs(&s); i++) {
            tiny_idx width[TLLM_SPACE_WIDTHS];
            start.width[i][side ? tllm_space_widths(&s, i, width) - 1 : 0] = 1.0;
        }
        for (i = 0; i < s.n_stage; i++) start.depth[i][side] = 1.0;
        memset(&d, 0, sizeof d);
        memset(&p, 0, sizeof p);
        d.target = 0.6 * tllm_space_flops(&s, &full);
        d.slack = 0.1;
        d.start = &start;
        d.batch = 2;
        d.epochs = 30;
        d.choice_lr = 0.1;
        d.callback = on_step;
        d.user = &p;
        p.most = d.target;
        p.least = d.target - 0.1 * tllm_space_flops(&s, &full);
        T_OK(tllm_tas(ctx, &s, &set, &d, &shape, &last));
        T_EQ_INT(p.calls, 60);
        T_TRUE(side ? p.above > 0 : p.below > 0);
        T_TRUE(tllm_space_flops(&s, &shape) <= p.most && tllm_space_flops(&s, &shape) >= p.least);
        T_TRUE(last.found > 0 && last.steps == 60);
        T_TRUE(last.loss > 0.0 && last.choice_loss > 0.0 && last.expected > 0.0);
    }
    T_EQ_INT(tiny_op_target(ctx, TINY_OP_CONV2D), t_vectors(target));
    t_close(ctx);
    T_PROOF("compression 5", "the search drives the cost into the limits from both sides");
}

/* Training, teaching, filters, files of networks of a shape. */
static void test_resnet(void)
{
    tiny_ctx *ctx = one();
    tllm_space s = space_of(16, 2, 2, 0);
    tllm_nn_task task;
    tllm_shape full, small;
    tllm_resnet *big = NULL, *net = NULL, *again = NULL;
    tllm_resnet_fit_desc fit;
    tiny_idx right, before;
    size_t n, all, i, k;
    static const char path[] = "build/t-search.nn";
    const tiny_param *p, *q;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 1, 200, 100, &task));
    T_OK(tllm_space_full(ctx, &s, &full));
    s.stem_stride = 2;
    T_OK(tllm_resnet_open(ctx, &s, NULL, 1, TINY_F32, &big));
    T_EQ_INT(tllm_resnet_shape(big)->depth[1], 2);
    T_EQ_INT(tllm_resnet_space(big)->stem, 4);
    T_OK(tllm_resnet_right(big, &task.test, &before));
    memset(&fit, 0, sizeof fit);
    fit.epochs = 6;
    fit.batch = 20;
    T_OK(tllm_resnet_fit(big, &task.train, &fit));
    T_OK(tllm_resnet_right(big, &task.test, &right));
    T_TRUE(right > before + 20);            /* of 100 */
    small = full;
    T_OK(tllm_resnet_filters(big, &small, &net));       /* all filters: the same network, bit for bit */
    p = tllm_resnet_params(big, &n, &all);
    q = tllm_resnet_params(net, NULL, NULL);
    for (i = 0; i < all; i++)
        T_SAME((float *)p[i].value.data, (float *)q[i].value.data,
               (size_t)tiny_tensor_count(&p[i].value));
    tllm_resnet_close(net);
    for (i = 1; i < tllm_space_convs(&s); i += 2) small.width[i] /= 2;
    T_OK(tllm_resnet_filters(big, &small, &net));
    q = tllm_resnet_params(net, NULL, NULL);
    for (i = 0, k = 0; i < 4; i++) {        /* the largest two of four filters, by hand */
        double sum[4];
        size_t j, o;
        for (o = 0; o < 4; o++)
            for (sum[o] = 0.0, j = 0; j < 36; j++) sum[o] += fabs((double)((float *)p[3].value.data)[o * 36 + j]);
        for (o = j = 0; o < 4; o++) j += sum[o] > sum[i];
        if (j < 2) T_SAME((float *)q[3].value.data + 36 * k++, (float *)p[3].value.data + 36 * i, 36);
    }
    T_EQ_INT(k, 2);
    fit.epochs = 1;
    fit.teacher = big;
    T_OK(tllm_resnet_fit(net, &task.train, &fit));
    T_OK(tllm_resnet_right(net, &task.test, &right));
    T_OK(tllm_resnet_save(net, path));
    T_OK(tllm_resnet_open(ctx, &s, &small, 9, TINY_F32, &again));
    T_OK(tllm_resnet_load(again, path));
    T_OK(tllm_resnet_right(again, &task.test, &before));
    T_EQ_INT(right, before);
    T_STATUS(tllm_resnet_load(big, path), TINY_E_SHAPE, "1.weight is 2x4x3x3");
    fit.teacher = net;
    T_STATUS(tllm_resnet_fit(net, &task.train, &fit), TINY_E_ARGUMENT, "another network");
    tllm_resnet_close(again);
    T_STATUS(tllm_resnet_filters(net, &full, &again), TINY_E_ARGUMENT, "channels");
    tllm_resnet_close(net);
    tllm_resnet_close(big);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
}

/* every kind of bad input has its sentence */
static void test_bad(void)
{
    tiny_ctx *ctx = one();
    tllm_space s = space_of(8, 2, 2, 0), t;
    tllm_nn_set set = images(8, 8), other = images(8, 4);
    tllm_shape full, shape;
    tllm_tas_desc d;
    tllm_tas_state last;
    tllm_resnet *net = NULL;
    tllm_resnet_fit_desc fit;
    double most;
    T_OK(tllm_space_full(ctx, &s, &full));
    most = tllm_space_flops(&s, &full);
    memset(&d, 0, sizeof d);
    memset(&fit, 0, sizeof fit);
    d.epochs = 1;
    d.batch = 4;
    d.target = most * 1.01;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "the whole network costs");
    d.target = NAN;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "the whole network costs");
    T_PROOF("compression 5", "bad input: a target above the largest cost");
    d.target = 1000.0;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "the least choices cost");
    T_PROOF("compression 5", "bad input: a target below the least cost");
    t = s;
    t.stage[1].blocks = 1;
    T_STATUS(tllm_tas(ctx, &t, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "stage 1 has one block");
    T_PROOF("compression 5", "bad input: a stage of one block");
    t.fixed_depth = 1;
    T_OK(tllm_space_full(ctx, &t, &shape));
    d.target = 0.6 * most;
    d.slack = 1e-9;                         /* one step of a width is more */
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, &last), TINY_E_NUMERIC, "no step had a cost between");
    T_EQ_INT(last.step, 1);
    T_TRUE(last.flops > 0.0);
    d.slack = 2.0;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "slack 2");
    d.slack = 0.0;
    d.batch = 5;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "each half has 4 samples");
    d.batch = 4;
    T_STATUS(tllm_tas(ctx, &s, &other, &d, &shape, NULL), TINY_E_SHAPE, "(n, 1, 8, 8)");
    ((int32_t *)other.label.data)[3] = 10;
    T_STATUS(tllm_tas(ctx, &s, &other, &d, &shape, NULL), TINY_E_ARGUMENT, "label 10");
    d.dtype = TINY_I32;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_DTYPE, "i32");
    d.dtype = TINY_F32;
    ((float *)set.x.data)[0] = NAN;
    T_STATUS(tllm_tas(ctx, &s, &set, &d, &shape, NULL), TINY_E_NUMERIC, "");
    T_STATUS(tllm_tas(ctx, NULL, &set, &d, &shape, NULL), TINY_E_ARGUMENT, "a space");
    T_STATUS(tllm_tas(ctx, &s, NULL, &d, &shape, NULL), TINY_E_ARGUMENT, "a set is");
    T_STATUS(tllm_tas(ctx, &s, &set, NULL, &shape, NULL), TINY_E_ARGUMENT, "a description");
    T_STATUS(tllm_tas(ctx, &s, &set, &d, NULL, NULL), TINY_E_ARGUMENT, "a description");
    t = s;
    t.n_stage = 9;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_ARGUMENT, "9 stages");
    t = s;
    t.in[0] = 0;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_ARGUMENT, "image of 0");
    t = s;
    t.stem = 0;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_ARGUMENT, "a stem of 0");
    t = s;
    t.stage[0].width = 0;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_ARGUMENT, "stage 0: 2 blocks of 0");
    t = s;
    t.in[1] = 7;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_SHAPE, "a shortcut of stride 2 over an image of 7");
    t = s;
    t.stage[0].blocks = t.stage[1].blocks = 17;
    T_STATUS(tllm_space_full(ctx, &t, &shape), TINY_E_ARGUMENT, "more than 32 blocks");
    shape = full;
    shape.depth[1] = 3;
    T_STATUS(tllm_space_check(ctx, &s, &shape), TINY_E_ARGUMENT, "3 of 2 blocks");
    shape = full;
    shape.width[8] = 9;
    T_STATUS(tllm_space_check(ctx, &s, &shape), TINY_E_ARGUMENT, "9 of 8 channels");
    T_STATUS(tllm_space_uniform(ctx, &s, 10.0, &shape), TINY_E_ARGUMENT, "one channel everywhere costs");
    T_STATUS(tllm_space_random(ctx, &s, 2.0, 1.0, 1, &shape), TINY_E_ARGUMENT, "between 2 and 1");
    T_STATUS(tllm_resnet_open(ctx, &s, NULL, 1, TINY_F16, &net), TINY_E_DTYPE, "f16");
    T_OK(tllm_resnet_open(ctx, &s, NULL, 1, TINY_F32, &net));
    fit.lr = -1.0;
    T_STATUS(tllm_resnet_fit(net, &set, &fit), TINY_E_ARGUMENT, "rate -1");
    fit.lr = 0.0;
    fit.epochs = 1;
    T_STATUS(tllm_resnet_fit(net, &set, &fit), TINY_E_NUMERIC, "step 1");
    tllm_resnet_close(net);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_space s = space_of(2, 1, 2, 0);
            tllm_nn_task task;
            tllm_nn_set set;
            tllm_shape shape, small;
            tllm_tas_desc d;
            tllm_resnet *net = NULL, *less = NULL;
            tllm_resnet_fit_desc fit;
            memset(&d, 0, sizeof d);
            memset(&fit, 0, sizeof fit);
            d.epochs = fit.epochs = 1;
            d.target = 8000.0;
            d.slack = 0.9;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 2, 4, 1, &task)) {
                set = task.train;
                set.x.dim[2] = set.x.dim[3] = 2;        /* the first numbers as smaller images */
                set.x.stride[0] = 4;
                set.x.stride[1] = 4;
                set.x.stride[2] = 2;
                (void)tllm_tas(ctx, &s, &set, &d, &shape, NULL);
                (void)tllm_space_full(ctx, &s, &small);
                small.width[1] = 2;
                if (!tllm_resnet_open(ctx, &s, NULL, 1, TINY_F32, &net) &&
                    !tllm_resnet_filters(net, &small, &less)) {
                    fit.teacher = net;
                    (void)tllm_resnet_fit(less, &set, &fit);
                }
                tllm_resnet_close(less);
                tllm_resnet_close(net);
                tllm_nn_task_close(ctx, &task);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_choices);
    T_RUN(test_expected);
    T_RUN(test_draws);
    T_RUN(test_supernet);
    T_RUN_TARGETS(test_search);
    T_RUN(test_resnet);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
