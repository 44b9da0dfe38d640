/* tests/llm/lab/nets/proxy.c - proxies of untrained networks: recorded numbers of PyTorch, the worked sum of signs, the
 * product of signs against one pass a sample; statistics of ranks by hand; the search */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else
#include "kit.h"

static double proxy(const tllm_nn *nn, int kind, const tllm_nn_set *set, tiny_idx n, int plain)
{
    tllm_proxy_desc d;
    double y = NAN;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.data = set;
    d.n = n;
    d.plain = plain;
    T_OK(tllm_nn_proxy(nn, &d, &y));
    return y;
}

static void test_recorded(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int mlp, type;
    for (mlp = 0; mlp < 2; mlp++)
        for (type = 0; type < 2; type++) {
            golden_net g = golden_open(ctx, mlp, type ? TINY_F64 : TINY_F32);
            const tiny_idx n = mlp ? 7 : 8;
            const double loose = type ? 1e-12 : 2e-5;
            const double *snip = mlp ? mlp_snip_zero_cost : cnn_snip_zero_cost,
                         *grasp = mlp ? mlp_grasp_zero_cost : cnn_grasp_zero_cost;
            double sums[2] = { 0, 0 }, sizes = 0.0;
            size_t i;
            for (i = 0; i < g.n; i++) {
                sums[0] += snip[i];
                sums[1] += grasp[i];
                sizes += fabs(grasp[i]);
            }
            T_CLOSE(proxy(g.nn, TLLM_PROXY_GRADSIGN, &g.set, n, 1), mlp ? mlp_gradsign[0] : cnn_gradsign[0], 0.0);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_GRADSIGN, &g.set, n, 0), mlp ? mlp_gradsign[0] : cnn_gradsign[0], 0.0);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_GRAD_NORM, &g.set, n, 0), mlp ? mlp_grad_norm[0] : cnn_grad_norm[0],
                    loose * (mlp ? mlp_grad_norm[0] : cnn_grad_norm[0]));
            T_CLOSE(proxy(g.nn, TLLM_PROXY_FISHER, &g.set, n, 0), mlp ? mlp_fisher[0] : cnn_fisher[0],
                    4 * loose * (mlp ? mlp_fisher[0] : cnn_fisher[0]));
            T_CLOSE(proxy(g.nn, TLLM_PROXY_NASWOT, &g.set, n, 0), mlp ? mlp_naswot[0] : cnn_naswot[0], 1e-10);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_SNIP, &g.set, n, 0), sums[0], 1e-12 * sums[0]);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_GRASP, &g.set, n, 0), sums[1], 1e-6 * sizes);
            /* the sum over all layers is the number of layers times R */
            T_CLOSE(proxy(g.nn, TLLM_PROXY_SYNFLOW, NULL, 0, 0),
                    log(mlp ? 3 * mlp_synflow_sum[0] : 2 * cnn_synflow_sum[0]), 1e-12);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_PARAMS, NULL, 0, 0), (double)g.n, 0.0);
            T_CLOSE(proxy(g.nn, TLLM_PROXY_FLOPS, NULL, 0, 0), mlp ? 2.0 * 95 : 2.0 * (27 * 36 + 108), 0.0);
            tllm_nn_close(g.nn);
        }
    t_close(ctx);
}

/* One layer without hidden units on chosen samples: the gradients are known. Two classes: dL/dw = (p - onehot) x', of
 * opposite signs in the two rows, so tau = 2 sum_k |sum_i s_i sign(x_ik)| with s_i the sign of the label. */
static tllm_nn *layer_open(tiny_ctx *ctx, tiny_idx in, tiny_dtype dtype)
{
    tllm_nn_layer l[1];
    tllm_nn_desc d;
    tllm_nn *nn = NULL;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = 2;
    d.in[0] = in; d.layer = l; d.n_layer = 1; d.seed = 3; d.dtype = dtype;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    return nn;
}

static void test_worked(void)
{
    /* the four gradients of the specification, as samples of class 0: signs sum to 4, -2, -1 */
    float x[12] = { 1, -2, .5f, 2, -1, -.5f, .1f, 3, -.2f, .3f, -4, 0 }, same[12];
    int32_t label[4] = { 0, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn *nn = layer_open(ctx, 3, TINY_F32);
    tllm_nn_set set;
    const tiny_param *p = tllm_nn_params(nn, NULL);
    size_t i;
    int plain;
    set.x = tiny_tensor_2d(x, TINY_F32, 4, 3);
    set.label = tiny_tensor_1d(label, TINY_I32, 4);
    for (plain = 0; plain < 2; plain++) {
        T_CLOSE(proxy(nn, TLLM_PROXY_GRADSIGN, &set, 4, plain), 2 * 7, 0.0);
        T_PROOF("compression 10", "worked sum of signs: tau = 7 in each of two equal rows");
        for (i = 0; i < 12; i++) same[i] = x[i % 3];
        set.x.data = same;                  /* all samples are the same: the bound n n_params is reached */
        T_CLOSE(proxy(nn, TLLM_PROXY_GRADSIGN, &set, 4, plain), 4 * 6, 0.0);
        T_PROOF("compression 10", "tau is at most n n_params, with equality for equal samples");
        set.x.data = x;
        label[0] = label[3] = 1;            /* signs 0 */
        T_CLOSE(proxy(nn, TLLM_PROXY_GRADSIGN, &set, 4, plain), 2 * (0 + 2 + 3), 0.0);
        label[0] = label[3] = 0;
        label[1] = 1;
        T_TRUE(proxy(nn, TLLM_PROXY_GRADSIGN, &set, 4, plain) >= 0.0);
        label[1] = 0;
    }
    /* the loss times a positive number: here the gradients, by larger inputs */
    for (i = 0; i < 12; i++) x[i] *= 0.25f;
    T_CLOSE(proxy(nn, TLLM_PROXY_GRADSIGN, &set, 4, 0), 2 * 7, 0.0);
    T_PROOF("compression 10", "invariant to positive factors of the loss");
    put_number(&p[0].value, 0, INFINITY);
    {
        tllm_proxy_desc d;
        double y;
        memset(&d, 0, sizeof d);
        d.data = &set;
        T_STATUS(tllm_nn_proxy(nn, &d, &y), TINY_E_NUMERIC, "not finite");
        d.plain = 1;
        T_STATUS(tllm_nn_proxy(nn, &d, &y), TINY_E_NUMERIC, "not finite");
        T_PROOF("compression 10", "bad input: NaN loss");
    }
    tllm_nn_close(nn);
    t_close(ctx);
}

/* products of signs against one pass a sample, in double and float, with masks and norms, on every target; for any
 * number of threads and any order of the samples */
static void test_signs(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2), *other = t_ctx(target, 1);
    tllm_nn_task task;
    uint64_t seed;
    int type, norm;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 4, 40, 10, &task));
    for (seed = 1; seed < 4; seed++)
        for (type = 0; type < 2; type++)
            for (norm = 0; norm < 2; norm++) {
                tllm_nn_layer l[3];
                tllm_nn_desc d;
                tllm_nn *nn, *there;
                tllm_mask m;
                double a, b;
                size_t i, n;
                float swap[32];
                int32_t label;
                memset(l, 0, sizeof l);
                memset(&d, 0, sizeof d);
                l[0].n_out = 9; l[1].n_out = 17; l[2].n_out = 10;
                l[0].relu = l[1].relu = 1;
                l[0].norm = norm;
                d.in[0] = 32; d.layer = l; d.n_layer = 3; d.seed = seed; d.dtype = type ? TINY_F64 : TINY_F32;
                T_OK(tllm_nn_open(ctx, &d, &nn));
                T_OK(tllm_nn_open(other, &d, &there));
                n = tllm_nn_cost_of(nn).n_weight;
                T_OK(tllm_mask_open(ctx, n, &m));
                for (i = 0; i < n; i++) tllm_mask_put(&m, i, i % 5 != 2 || seed == 1);
                t_use(ctx);
                T_OK(tllm_nn_mask(nn, &m));
                T_OK(tllm_nn_mask(there, &m));
                a = proxy(nn, TLLM_PROXY_GRADSIGN, &task.train, 40, 1);
                b = proxy(nn, TLLM_PROXY_GRADSIGN, &task.train, 40, 0);
                T_CLOSE(b, a, 0.0);
                T_TRUE(a > 0.0 && a <= 40.0 * (double)tllm_mask_count(&m, 0, n));
                T_CLOSE(proxy(there, TLLM_PROXY_GRADSIGN, &task.train, 40, 0), a, 0.0);
                T_CLOSE(proxy(there, TLLM_PROXY_GRADSIGN, &task.train, 40, 1), a, 0.0);
                for (i = 0; i < 7; i++) {   /* samples 0 and 20, 1 and 21 ... */
                    float *p = (float *)task.train.x.data + 32 * i, *q = p + 32 * 20;
                    int32_t *s = (int32_t *)task.train.label.data + i;
                    memcpy(swap, p, sizeof swap);
                    memcpy(p, q, sizeof swap);
                    memcpy(q, swap, sizeof swap);
                    label = s[0];
                    s[0] = s[20];
                    s[20] = label;
                }
                if (!norm) T_CLOSE(proxy(nn, TLLM_PROXY_GRADSIGN, &task.train, 40, 0), a, 0.0);
                tllm_mask_close(ctx, &m);
                tllm_nn_close(nn);
                tllm_nn_close(there);
            }
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    t_close(other);
    T_PROOF("compression 10", "independent of the order of samples and of the number of threads");
}

/* A norm after a dense layer takes mean and variance of all samples: the same network with the norm folded into weights
 * and biases, W' = W / s, b' = -m / s, has gradients of the same signs. */
static void test_folded(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_nn_task task;
    tllm_nn_layer l[2];
    tllm_nn_desc d;
    tllm_nn *normed, *plain;
    const tiny_param *p, *q;
    int k, i, j;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 4, 40, 10, &task));
    l[0].n_out = 9; l[0].relu = 1; l[0].norm = 1;
    l[1].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 2; d.seed = 2; d.dtype = TINY_F64;
    T_OK(tllm_nn_open(ctx, &d, &normed));
    l[0].norm = 0;
    T_OK(tllm_nn_open(ctx, &d, &plain));
    p = tllm_nn_params(normed, NULL);
    q = tllm_nn_params(plain, NULL);
    for (k = 0; k < 9; k++) {               /* the same seed: the same weights */
        double z[40], mean = 0.0, square = 0.0, s;
        put_number(&p[2].value, (size_t)k, 1.0);
        for (i = 0; i < 40; i++) {
            for (j = 0, z[i] = 0.0; j < 32; j++)
                z[i] += number(&p[0].value, (size_t)(32 * k + j)) * (double)((float *)task.train.x.data)[32 * i + j];
            mean += z[i] / 40;
        }
        for (i = 0; i < 40; i++) square += (z[i] - mean) * (z[i] - mean) / 40;
        s = sqrt(square + 1e-5);
        for (j = 0; j < 32; j++)
            put_number(&q[0].value, (size_t)(32 * k + j), number(&p[0].value, (size_t)(32 * k + j)) / s);
        put_number(&q[2].value, (size_t)k, -mean / s);
    }
    T_CLOSE(proxy(normed, TLLM_PROXY_GRADSIGN, &task.train, 40, 1),
            proxy(plain, TLLM_PROXY_GRADSIGN, &task.train, 40, 1), 0.0);
    tllm_nn_close(normed);
    tllm_nn_close(plain);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
}

/* worked by hand, with ties */
static void test_ranks(void)
{
    static const double x[5] = { 1, 1, 2, 3, 4 }, y[5] = { 2, 1, 3, 3, 5 }, up[4] = { 1, 2, 3, 4 },
                        down[4] = { 4, 3, 2, 1 }, same[4] = { 7, 7, 7, 7 };
    double nan_list[4] = { 1, 2, NAN, 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double r;
    T_OK(tllm_rank_spearman(ctx, up, up, 4, &r));
    T_CLOSE(r, 1.0, 1e-15);
    T_OK(tllm_rank_spearman(ctx, up, down, 4, &r));
    T_CLOSE(r, -1.0, 1e-15);
    T_OK(tllm_rank_kendall(ctx, up, down, 4, &r));
    T_CLOSE(r, -1.0, 1e-15);
    /* ranks of x .5 .5 2 3 4, of y 1 0 2.5 2.5 4; their distances from 2: products 1.5 + 3 + 0 + .5 + 4 = 9, squares
     * 9.5 in both lists */
    T_OK(tllm_rank_spearman(ctx, x, y, 5, &r));
    T_CLOSE(r, 9.0 / 9.5, 1e-15);
    /* 10 pairs; one tie in each list, at different pairs; the other 8 agree: 8 / sqrt(9 * 9) */
    T_OK(tllm_rank_kendall(ctx, x, y, 5, &r));
    T_CLOSE(r, 8.0 / 9.0, 1e-15);
    T_STATUS(tllm_rank_spearman(ctx, up, same, 4, &r), TINY_E_NUMERIC, "no order");
    T_STATUS(tllm_rank_kendall(ctx, same, up, 4, &r), TINY_E_NUMERIC, "no order");
    T_STATUS(tllm_rank_kendall(ctx, nan_list, up, 4, &r), TINY_E_NUMERIC, "pair 2");
    T_STATUS(tllm_rank_spearman(ctx, up, up, 1, &r), TINY_E_ARGUMENT, "at least 2");
    t_close(ctx);
    T_PROOF("compression 10", "Spearman and Kendall against tables by hand, with ties");
}

/* the number of places that hold the last option: its proxy is a noisy copy */
typedef struct peak { int calls, cheap; uint64_t noise; } peak;
static const int peak_options[6] = { 4, 5, 3, 4, 5, 2 };
static tiny_status peak_exact(void *user, const int *choice, double *score)
{
    peak *p = (peak *)user;
    int i;
    p->calls++;
    for (i = 0, *score = 0.0; i < 6; i++) {
        if (choice[i] < 0 || choice[i] >= peak_options[i]) return TINY_E_ARGUMENT;
        *score += choice[i] == peak_options[i] - 1;
    }
    return TINY_OK;
}
static tiny_status peak_cheap(void *user, const int *choice, double *score)
{
    peak *p = (peak *)user;
    tiny_rng r = tiny_rng_make(p->noise++, 1);
    tiny_status st = peak_exact(user, choice, score);
    p->calls--;
    p->cheap++;
    *score += 0.5 * (double)tiny_rng_normal(&r);
    return st;
}
static void test_search(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind, seed;
    for (kind = 0; kind < 3; kind++) {
        double helped = 0.0, alone = 0.0;
        for (seed = 0; seed < 10; seed++) {
            tllm_search_desc d;
            peak p;
            int best[6], i;
            double score, again = 0.0;
            memset(&d, 0, sizeof d);
            memset(&p, 0, sizeof p);
            d.kind = kind;
            d.n_place = 6;
            d.n_option = peak_options;
            d.exact = peak_exact;
            d.user = &p;
            d.seed = (uint64_t)seed;
            d.steps = 12;
            d.population = 4;
            T_OK(tllm_search(ctx, &d, best, &score));
            T_EQ_INT(p.calls, 12);
            alone += score;
            d.cheap = peak_cheap;
            d.per_step = 20;
            T_OK(tllm_search(ctx, &d, best, &score));
            T_EQ_INT(p.calls, 24);
            T_EQ_INT(p.cheap, 240);
            for (i = 0; i < 6; i++) again += best[i] == peak_options[i] - 1;
            T_CLOSE(again, score, 0.0);
            helped += score;
        }
        T_TRUE(helped > alone + 5.0);       /* half a place more in the mean: what the proxy is for */
    }
    {                                       /* without a proxy: what was evaluated guides the next candidates */
        double sum[3] = { 0, 0, 0 };
        for (kind = 0; kind < 3; kind++)
            for (seed = 0; seed < 40; seed++) {
                tllm_search_desc d;
                peak p;
                int best[6];
                double score;
                memset(&d, 0, sizeof d);
                memset(&p, 0, sizeof p);
                d.kind = kind; d.n_place = 6; d.n_option = peak_options; d.exact = peak_exact; d.user = &p;
                d.seed = (uint64_t)seed; d.steps = 150; d.population = 10; d.rate = 0.5;
                T_OK(tllm_search(ctx, &d, best, &score));
                sum[kind] += score;
            }
        T_TRUE(sum[1] > sum[0] + 8.0);      /* of 6 places, a fifth of a place more in the mean */
        T_TRUE(sum[2] > sum[0] + 8.0);
    }
    {
        tllm_search_desc d;
        int best[6], bad[1] = { 0 };
        double score;
        memset(&d, 0, sizeof d);
        d.n_place = 1; d.n_option = bad; d.exact = peak_exact;
        T_STATUS(tllm_search(ctx, &d, best, &score), TINY_E_ARGUMENT, "0 options at place 0");
        d.n_place = 65;
        T_STATUS(tllm_search(ctx, &d, best, &score), TINY_E_ARGUMENT, "1 to 64 places");
        d.n_place = 1; d.exact = NULL;
        T_STATUS(tllm_search(ctx, &d, best, &score), TINY_E_ARGUMENT, "an evaluation");
    }
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    golden_net g = golden_open(ctx, 1, TINY_F32);
    tllm_nn_set none = g.set;
    tllm_proxy_desc d;
    double y, z;
    size_t i;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_nn_proxy(g.nn, &d, &y), TINY_E_ARGUMENT, "a set is");
    none.x.dim[0] = none.label.dim[0] = 0;
    d.data = &none;
    T_STATUS(tllm_nn_proxy(g.nn, &d, &y), TINY_E_ARGUMENT, "at least one sample");
    d.data = &g.set;
    d.n = -1;
    T_STATUS(tllm_nn_proxy(g.nn, &d, &y), TINY_E_ARGUMENT, "-1 samples of 7");
    d.n = 8;
    T_STATUS(tllm_nn_proxy(g.nn, &d, &y), TINY_E_ARGUMENT, "8 samples of 7");
    T_PROOF("compression 10", "bad input: n = 0");
    d.n = 7;
    d.kind = TLLM_PROXY_KINDS;
    T_STATUS(tllm_nn_proxy(g.nn, &d, &y), TINY_E_ARGUMENT, "a known kind");
    d.kind = TLLM_PROXY_GRADSIGN;
    for (i = 0; i < 7; i++) ((int32_t *)g.set.label.data)[i] = 1;
    T_OK(tllm_nn_proxy(g.nn, &d, &y));
    T_TRUE(y > 0.0);
    T_PROOF("compression 10", "bad input: one class only is allowed");
    d.repeat = 3;
    T_OK(tllm_nn_proxy(g.nn, &d, &z));
    T_TRUE(z > 0.0 && z != y && z <= 7.0 * 95);
    T_OK(tllm_nn_proxy(g.nn, &d, &y));
    T_CLOSE(y, z, 0.0);
    d.repeat = 0;
    d.kind = TLLM_PROXY_NASWOT;
    memcpy((float *)g.set.x.data + 5, g.set.x.data, 5 * sizeof(float));         /* two equal samples */
    T_OK(tllm_nn_proxy(g.nn, &d, &y));
    T_TRUE(y == -INFINITY);
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
            tllm_nn_layer l[2];
            tllm_nn_desc d;
            tllm_proxy_desc p;
            tllm_nn *nn = NULL;
            double y;
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&p, 0, sizeof p);
            l[0].n_out = 3; l[0].relu = 1;
            l[1].n_out = 10;
            d.in[0] = 32; d.layer = l; d.n_layer = 2;
            p.data = &task.train;
            p.n = 4;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 8, 4, &task) && !tllm_nn_open(ctx, &d, &nn))
                for (p.kind = 0; p.kind < TLLM_PROXY_KINDS && !tllm_nn_proxy(nn, &p, &y); p.kind++) {}
            p.kind = 0;
            p.plain = 1;
            if (nn) (void)tllm_nn_proxy(nn, &p, &y);
            tllm_nn_close(nn);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN(test_worked);
    T_RUN_TARGETS(test_signs);
    T_RUN(test_folded);
    T_RUN(test_ranks);
    T_RUN(test_search);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
