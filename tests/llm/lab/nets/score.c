/* tests/llm/lab/nets/score.c - scores of weights: recorded numbers of PyTorch, the worked network, exact counts */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else
#include "kit.h"

static void near_all(const char *what, const double *got, const double *want, size_t n, double bound)
{
    double most = 0.0;
    size_t i;
    for (i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= bound * most)) {
            t_fail(__FILE__, __LINE__, "%s: score %lu is %.12g, not %.12g", what, (unsigned long)i, got[i], want[i]);
            return;
        }
}

/* PyTorch, in double. GraSP: second derivatives there, a difference of two gradients here. */
static void test_recorded(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int mlp, type;
    for (mlp = 0; mlp < 2; mlp++)
        for (type = 0; type < 2; type++) {
            golden_net g = golden_open(ctx, mlp, type ? TINY_F64 : TINY_F32);
            double *s = (double *)t_keep(g.n * sizeof *s);
            tllm_score_desc d;
            memset(&d, 0, sizeof d);
            d.data = &g.set;
            d.per_class = -1;
            T_EQ_INT(g.n, mlp ? T_COUNT(mlp_snip) : T_COUNT(cnn_snip));
            d.kind = TLLM_SCORE_SNIP;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("snip", s, mlp ? mlp_snip : cnn_snip, g.n, 1e-12);
            d.kind = TLLM_SCORE_GRASP;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("grasp", s, mlp ? mlp_grasp : cnn_grasp, g.n, 1e-6);
            d.kind = TLLM_SCORE_SYNFLOW;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("synflow", s, mlp ? mlp_synflow : cnn_synflow, g.n, 1e-13);
            d.as = TLLM_SCORE_ZERO_COST;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("synflow, zero-cost", s, mlp ? mlp_synflow : cnn_synflow, g.n, 1e-13);
            d.kind = TLLM_SCORE_SNIP;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("snip, zero-cost", s, mlp ? mlp_snip_zero_cost : cnn_snip_zero_cost, g.n, 1e-12);
            d.kind = TLLM_SCORE_GRASP;
            T_OK(tllm_nn_score(g.nn, &d, s, NULL));
            near_all("grasp, zero-cost", s, mlp ? mlp_grasp_zero_cost : cnn_grasp_zero_cost, g.n, 1e-6);
            tllm_nn_close(g.nn);
        }
    t_close(ctx);
    T_PROOF("compression 3", "SNIP by theta times gradient equals SNIP by the gradient of the mask");
}

/* W1 = [[1, -2], [3, .5]], W2 = [2, -1], biases that must not count: R = 9.5 */
static void test_worked_synflow(void)
{
    static const double w[6] = { 1, -2, 3, .5, 2, -1 }, want[6] = { 2, 4, 3, .5, 6, 3.5 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_layer l[2];
    tllm_nn_desc d;
    tllm_score_desc sd;
    tllm_nn *nn;
    double s[6], scale;
    size_t i;
    const tiny_param *p;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    l[0].n_out = 2; l[0].relu = 1;
    l[1].n_out = 1;
    d.in[0] = 2; d.layer = l; d.n_layer = 2;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    p = tllm_nn_params(nn, NULL);
    for (i = 0; i < 6; i++) put_number(&p[i / 4].value, i % 4, w[i]);
    put_number(&p[2].value, 0, 100.0);
    put_number(&p[3].value, 0, -7.0);
    sd.kind = TLLM_SCORE_SYNFLOW;
    T_OK(tllm_nn_score(nn, &sd, s, &scale));
    for (i = 0; i < 6; i++) T_CLOSE(s[i], want[i], 1e-15);
    T_CLOSE(scale, 0.0, 0.0);
    for (i = 0; i < 6; i++) T_CLOSE(number(&p[i / 4].value, i % 4), w[i], 0.0);
    tllm_nn_close(nn);
    t_close(ctx);
    T_PROOF("compression 3", "worked SynFlow network: R = 9.5 and all six scores");
    T_PROOF("compression 3", "no score changes the parameters");
}

/* Every layer has the sum R, also beyond the range of doubles: 60 layers whose R is about 1e480 */
static void test_conservation(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_layer l[60];
    tllm_nn_desc d;
    tllm_score_desc sd;
    tllm_nn *nn;
    const tllm_nn_weight *w;
    double *s, scale, sum[2];
    size_t n, i, k, empty;
    int big;
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    sd.kind = TLLM_SCORE_SYNFLOW;
    for (big = 0; big < 2; big++) {
        memset(l, 0, sizeof l);
        for (i = 0; i < 60; i++) { l[i].n_out = 4 + (tiny_idx)(i % 3); l[i].relu = i < 59; }
        d.in[0] = 3; d.layer = l; d.n_layer = 60; d.seed = 5;
        T_OK(tllm_nn_open(ctx, &d, &nn));
        w = tllm_nn_weights(nn, &n);
        for (i = 0; big && i < n; i++)
            for (k = 0; k < (size_t)tiny_tensor_count(&w[i].value); k++)
                put_number(&w[i].value, k, 1e8 * number(&w[i].value, k));
        s = (double *)t_keep(tllm_nn_cost_of(nn).n_weight * sizeof *s);
        T_OK(tllm_nn_score(nn, &sd, s, &scale));
        T_TRUE(big ? scale > 1200.0 : scale == 0.0);
        for (i = 0; i < n; i++) {
            sum[i > 0] = 0.0;
            for (k = 0; k < (size_t)tiny_tensor_count(&w[i].value); k++) sum[i > 0] += s[w[i].first + k];
            T_CLOSE(sum[i > 0], sum[0], 1e-12 * sum[0]);
        }
        T_TRUE(sum[0] > 0.0 && sum[0] < DBL_MAX);
        T_OK(tllm_nn_prune(nn, &sd, 0.3, &empty));      /* the order is that of the scaled scores */
        T_EQ_INT(empty, 0);
        tllm_nn_close(nn);
    }
    t_close(ctx);
    T_PROOF("compression 3", "layer sums of SynFlow equal R, in double and beyond its range");
}

/* L = |A w|^2 / 2 has the gradient A'A w and the Hessian A'A: the score of the definition is w (H H w). The difference
 * that GraSP uses is taken of that function. */
typedef struct quadratic { double w[3], g[3]; } quadratic;
static const double quadratic_h[9] = { 3, 1, 0, 1, 2, -1, 0, -1, 4 };
static tiny_status quadratic_gradient(void *user)
{
    quadratic *q = (quadratic *)user;
    int i, k;
    for (i = 0; i < 3; i++)
        for (q->g[i] = 0.0, k = 0; k < 3; k++) q->g[i] += quadratic_h[3 * i + k] * q->w[k];
    return TINY_OK;
}
static void test_quadratic(void)
{
    static const double steps[2] = { 1e-3, 1e-6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    quadratic q = { { 1.0, -2.0, 0.5 }, { 0, 0, 0 } };
    double v[3], h[3], want[3];
    tiny_param p;
    tiny_tensor tv = tiny_tensor_1d(v, TINY_F64, 3), th = tiny_tensor_1d(h, TINY_F64, 3);
    int i, k, s;
    memset(&p, 0, sizeof p);
    p.value = tiny_tensor_1d(q.w, TINY_F64, 3);
    p.grad = tiny_tensor_1d(q.g, TINY_F64, 3);
    for (s = 0; s < 2; s++) {
        T_OK(quadratic_gradient(&q));
        memcpy(v, q.g, sizeof v);
        for (i = 0; i < 3; i++)
            for (want[i] = 0.0, k = 0; k < 3; k++) want[i] += quadratic_h[3 * i + k] * v[k];
        T_OK(tiny_hvp_step(ctx, &p, 1, quadratic_gradient, &q, &tv, &th, steps[s]));
        for (i = 0; i < 3; i++) T_CLOSE(q.w[i] * h[i], q.w[i] * want[i], s ? 1e-8 : 1e-10);
    }
    T_STATUS(tiny_hvp_step(ctx, &p, 1, quadratic_gradient, &q, &tv, &th, 0.0), TINY_E_ARGUMENT, "a step in 0 to 1");
    t_close(ctx);
    T_PROOF("compression 3", "GraSP on a quadratic equals theta times A A theta");
}

static tllm_nn *mlp_open(tiny_ctx *ctx, tiny_idx in, tiny_idx hidden, int n, uint64_t seed)
{
    tllm_nn_layer l[8];
    tllm_nn_desc d;
    tllm_nn *nn = NULL;
    int i;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    for (i = 0; i < n; i++) { l[i].n_out = hidden; l[i].relu = 1; }
    l[n].n_out = 10;
    d.in[0] = in; d.layer = l; d.n_layer = (size_t)n + 1; d.seed = seed;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    return nn;
}

/* the exact number is kept, of the whole network, for every score; and it is the number of the definition */
static void test_exact(void)
{
    static const double keep[] = { 1.0, 0.5, 0.2, 0.013, 0.0001 };
    static const size_t want[] = { 1584, 792, 317, 21, 1 };      /* of 32 24 + 24 24 + 24 10; 0.1584 becomes 1 */
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_score_desc d;
    size_t i, k;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 3, 400, 10, &task));
    for (k = 0; k < TLLM_SCORE_KINDS; k++)
        for (i = 0; i < T_COUNT(keep); i++) {
            tllm_nn *nn = mlp_open(ctx, 32, 24, 2, 9);
            float *before;
            const tllm_nn_weight *w = tllm_nn_weights(nn, NULL);
            size_t bytes = tllm_nn_cost_of(nn).n_weight * sizeof(float);
            before = (float *)t_keep(bytes);
            memcpy(before, w[0].value.data, bytes);
            T_EQ_INT(tllm_nn_cost_of(nn).n_weight, 1584);
            memset(&d, 0, sizeof d);
            d.kind = (int)k;
            d.data = &task.train;
            d.seed = 4;
            d.rounds = k == TLLM_SCORE_SYNFLOW ? 12 : 0;
            T_OK(tllm_nn_prune(nn, &d, keep[i], NULL));
            T_EQ_INT(tllm_nn_cost_of(nn).n_kept, want[i]);
            T_SAME(before, (float *)w[0].value.data, bytes / sizeof(float));
            tllm_nn_close(nn);
        }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 3", "exactly K weights are kept, globally");
    T_PROOF("compression 3", "no score changes the parameters");
}

/* what is masked stays masked, also for scores below 0 and in rounds */
static void test_nested(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_score_desc d;
    int k;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 3, 400, 10, &task));
    for (k = 0; k < TLLM_SCORE_KINDS; k++) {
        tllm_nn *nn = mlp_open(ctx, 32, 24, 2, 9);
        tllm_mask half;
        size_t i;
        T_OK(tllm_mask_open(ctx, 1584, &half));
        for (i = 0; i < 1584; i++) tllm_mask_put(&half, i, i * 7 % 2);
        T_OK(tllm_nn_mask(nn, &half));
        memset(&d, 0, sizeof d);
        d.kind = k;
        d.data = &task.train;
        d.rounds = 4;
        T_OK(tllm_nn_prune(nn, &d, 0.45, NULL));
        T_EQ_INT(tllm_nn_cost_of(nn).n_kept, 713);      /* 712.8 */
        for (i = 0; i < 1584; i++) if (tllm_mask_has(tllm_nn_masked(nn), i)) T_TRUE(tllm_mask_has(&half, i));
        T_OK(tllm_nn_prune(nn, &d, 0.9, NULL));         /* more than there are: nothing comes back */
        T_EQ_INT(tllm_nn_cost_of(nn).n_kept, 713);
        tllm_mask_close(ctx, &half);
        tllm_nn_close(nn);
    }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
}

/* Batch norms that have seen nothing: mean 0, variance 1, gain 1. With running values they divide by sqrt(1 + 1e-5), so
 * that the scores are nearly those of a network without norms; with the values of the batch they are not. */
static void test_norms(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    static double s[2][1600];
    tllm_nn_task task;
    int kind, as, norm;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 3, 60, 10, &task));
    for (kind = TLLM_SCORE_SNIP; kind <= TLLM_SCORE_SYNFLOW; kind++)
        for (as = 0; as < 2; as++) {
            size_t n = 0, i;
            double most = 0.0, apart = 0.0;
            for (norm = 0; norm < 2; norm++) {
                tllm_nn_layer l[4];
                tllm_nn_desc d;
                tllm_score_desc sd;
                tllm_nn *nn = NULL;
                memset(l, 0, sizeof l);
                memset(&d, 0, sizeof d);
                memset(&sd, 0, sizeof sd);
                l[0].kind = TLLM_NN_CONV; l[0].n_out = 3; l[0].stride = 4; l[0].relu = 1; l[0].norm = norm;
                l[1].n_out = 12; l[1].relu = 1; l[1].norm = norm;
                l[2].n_out = 10;
                d.in[0] = 1; d.in[1] = d.in[2] = 16; d.layer = l; d.n_layer = 3; d.seed = 4;
                T_OK(tllm_nn_open(ctx, &d, &nn));
                n = tllm_nn_cost_of(nn).n_weight;
                T_EQ_INT(n, 27 + 48 * 12 + 120);
                sd.kind = kind;
                sd.as = as;
                sd.data = &task.train;
                sd.per_class = -1;
                sd.temperature = 1.0;
                T_OK(tllm_nn_score(nn, &sd, s[norm], NULL));
                tllm_nn_close(nn);
            }
            for (i = 0; i < n; i++) {
                most = fmax(most, fabs(s[0][i]));
                apart = fmax(apart, fabs(s[0][i] - s[1][i]));
            }
            if (kind == TLLM_SCORE_SYNFLOW && as == TLLM_SCORE_ZERO_COST) T_CLOSE(apart, 0.0, 1e-13 * most);
            else if (as == TLLM_SCORE_SYNAPTIC_FLOW) T_TRUE(apart < 1e-3 * most && apart > 0.0);
            else T_TRUE(apart > 0.05 * most);
        }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
}

/* In one round SynFlow cuts a layer off where 100 rounds do not: why the algorithm has rounds. */
static void test_rounds(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_score_desc d;
    size_t one = 0, many = 0;
    tllm_nn *nn;
    memset(&d, 0, sizeof d);
    d.kind = TLLM_SCORE_SYNFLOW;
    d.rounds = 1;
    nn = mlp_open(ctx, 32, 64, 5, 2);
    T_OK(tllm_nn_prune(nn, &d, 0.003, &one));
    tllm_nn_close(nn);
    d.rounds = 0;
    nn = mlp_open(ctx, 32, 64, 5, 2);
    T_OK(tllm_nn_prune(nn, &d, 0.003, &many));
    T_EQ_INT(many, 0);
    T_EQ_INT(tllm_nn_cost_of(nn).n_empty, 0);
    T_TRUE(one > 0);
    tllm_nn_close(nn);
    t_close(ctx);
    T_PROOF("compression 3", "SynFlow in one round collapses, in 100 it does not");
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    golden_net g = golden_open(ctx, 1, TINY_F32);
    tllm_score_desc d;
    tllm_nn_set few = g.set;
    double *s = (double *)t_keep(g.n * sizeof *s);
    const tiny_param *p = tllm_nn_params(g.nn, NULL);
    memset(&d, 0, sizeof d);
    d.kind = TLLM_SCORE_SNIP;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "snip needs data");
    d.data = &g.set;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "class 0 has 3 samples; 10 are needed");
    d.per_class = 2;
    T_OK(tllm_nn_score(g.nn, &d, s, NULL));
    ((int32_t *)g.set.label.data)[2] = ((int32_t *)g.set.label.data)[5] = 1;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "class 2 has 0 samples; 2 are needed");
    T_PROOF("compression 3", "bad input: class missing from the prune batch");
    ((int32_t *)g.set.label.data)[2] = 7;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "label 7; there are classes 0 to 2");
    ((int32_t *)g.set.label.data)[2] = ((int32_t *)g.set.label.data)[5] = 2;
    T_STATUS(tllm_nn_prune(g.nn, &d, 0.0, NULL), TINY_E_ARGUMENT, "a share of 0");
    T_STATUS(tllm_nn_prune(g.nn, &d, -0.1, NULL), TINY_E_ARGUMENT, "a share of -0.1");
    T_STATUS(tllm_nn_prune(g.nn, &d, 1.5, NULL), TINY_E_ARGUMENT, "a share of 1.5");
    T_STATUS(tllm_nn_prune(g.nn, &d, NAN, NULL), TINY_E_ARGUMENT, "a share of");
    T_PROOF("compression 3", "bad input: K = 0");
    few.x.dim[0] = few.label.dim[0] = 0;
    d.data = &few;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "at least one sample");
    d.data = &g.set;
    d.kind = TLLM_SCORE_KINDS;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "a known kind");
    d.kind = TLLM_SCORE_GRASP;
    d.temperature = NAN;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_ARGUMENT, "temperature");
    d.temperature = 0;
    ((float *)g.set.x.data)[3] = INFINITY;
    d.per_class = -1;
    T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_NUMERIC, "finite");
    T_PROOF("compression 3", "bad input: NaN gradients");
    ((float *)g.set.x.data)[3] = 0.0f;
    put_number(&p[0].value, 2, NAN);
    for (d.kind = 1; d.kind < TLLM_SCORE_KINDS; d.kind++) {
        T_STATUS(tllm_nn_score(g.nn, &d, s, NULL), TINY_E_NUMERIC, "weight 2 is not finite");
        T_STATUS(tllm_nn_prune(g.nn, &d, 0.5, NULL), TINY_E_NUMERIC, "weight 2 is not finite");
    }
    T_TRUE(!tllm_nn_masked(g.nn));
    tllm_nn_close(g.nn);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_recorded);
    T_RUN(test_worked_synflow);
    T_RUN(test_conservation);
    T_RUN(test_quadratic);
    T_RUN(test_exact);
    T_RUN(test_nested);
    T_RUN(test_norms);
    T_RUN(test_rounds);
    T_RUN(test_bad);
    return t_done();
}
#endif
