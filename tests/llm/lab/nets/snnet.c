/* tests/llm/lab/nets/snnet.c - stitchable networks: anchors unchanged, first values, costs, training
 *
 * Truth    the anchors before they were stitched; identities, where the linear layers must be the identity too; counts
 *          of all numbers that a network reads; order of losses */
#include "t.h"

#ifdef TINYLLM_NO_SNNET
int main(void) { return t_done(); }
#else

enum { N = 120, IN = 8, CLASSES = 3 };

static tllm_nn_set set_of(void)
{
    float *x = t_rand(N * IN, -1.0f, 1.0f);
    int32_t *label = (int32_t *)t_keep(N * sizeof *label);
    tllm_nn_set s;
    int i;
    for (i = 0; i < N; i++) label[i] = x[i * IN] + x[i * IN + 1] > 0.3f ? 2 : x[i * IN + 2] > 0.0f;
    s.x = tiny_tensor_2d(x, TINY_F32, N, IN);
    s.label = tiny_tensor_1d(label, TINY_I32, N);
    return s;
}

static tllm_resmlp *mlp(tiny_ctx *ctx, tiny_idx width, int depth, uint64_t seed)
{
    tllm_resmlp_desc d;
    tllm_resmlp *m = NULL;
    memset(&d, 0, sizeof d);
    d.n_in = IN;
    d.n_class = CLASSES;
    d.width = width;
    d.depth = depth;
    d.seed = seed;
    T_OK(tllm_resmlp_open(ctx, &d, &m));
    return m;
}

/* logits (N, CLASSES) of network i; net NULL: of the network itself */
static float *logits(tiny_ctx *ctx, const tllm_snnet *net, size_t i, const tllm_resmlp *m, const tllm_nn_set *set)
{
    float *y = (float *)t_keep(N * CLASSES * sizeof *y);
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor t;
    memset(&d, 0, sizeof d);
    d.no_grad = 1;
    memset(y, 0, N * CLASSES * sizeof *y);
    T_OK(tiny_tape_open(ctx, &d, &tape));
    t = net ? tllm_snnet_run(tape, net, i, &set->x) : tllm_resmlp_run(tape, m, &set->x);
    if (T_OK(tiny_tape_status(tape)) && t.data) memcpy(y, t.data, N * CLASSES * sizeof *y);
    tiny_tape_close(tape);
    return y;
}

static void test_anchors(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_nn_set set = set_of();
    tllm_resmlp *m[3];
    tllm_snnet_anchor a[3];
    tllm_snnet *net = NULL;
    const tllm_stitch *s;
    const tiny_param *p;
    size_t n, k, i;
    double left, ops;
    m[0] = mlp(ctx, 5, 3, 1);
    m[1] = mlp(ctx, 8, 3, 2);
    m[2] = mlp(ctx, 11, 5, 3);              /* a deeper one last */
    for (k = 0; k < 3; k++) a[k] = tllm_resmlp_anchor(m[k]);
    if (!T_OK(tllm_snnet_open(ctx, a, 3, 1, &net))) return;
    s = tllm_snnet_networks(net, &n);
    T_EQ_INT(n, 3 + 7 + 4);
    T_OK(tllm_snnet_init(net, &set, 60, &left));
    T_TRUE(left > 0.0 && left < 1.0);
    for (k = 0; k < 3; k++) T_SAME(logits(ctx, net, k, NULL, &set), logits(ctx, NULL, 0, m[k], &set), N * CLASSES);
    /* numbers that a network reads, counted over its tensors: front 2 + 4 (f + 1), layer 2, back 4 (L - e) + 2 */
    p = tllm_snnet_params(net, NULL);
    for (i = 0; i < n; i++) {
        const tllm_stitch *c = &s[i];
        const int L[3] = { 3, 3, 5 }, first[3] = { 0, 16, 32 };     /* 4 L + 4 tensors each */
        const int linear = 56 + 2 * (c->layer + (c->front ? 2 : 0));        /* 2 layers between 0 and 1, then 3 */
        double sum = 0.0;
        int t;
        for (t = 0; t < 56 + 10; t++) {
            const int q = t < 16 ? 0 : t < 32 ? 1 : 2, at = t < 56 ? t - first[q] : 0;
            const int block = at < 2 ? -1 : at >= 4 * L[q] + 2 ? L[q] : (at - 2) / 4;
            const int mine = t >= 56 ? c->front != c->back && (t == linear || t == linear + 1)
                             : q == c->back && q == c->front ? 1
                             : q == c->front ? block <= c->f
                             : q == c->back ? block >= c->e : 0;
            if (mine) sum += (double)tiny_tensor_count(&p[t].value);
        }
        T_CLOSE(tllm_snnet_size_of(net, i, &ops), sum, 0.0);
        T_TRUE(ops > 0.0 && ops < sum);
    }
    T_CLOSE(tllm_snnet_size_of(net, n, NULL), 0.0, 0.0);
    tllm_snnet_close(net);
    for (k = 0; k < 3; k++) tllm_resmlp_close(m[k]);
    t_close(ctx);
    T_PROOF("compression 7", "anchors reproduce the networks before bit for bit, before training");
    T_PROOF("compression 7", "parameters of each network = those of its tensors, counted");
}

/* The same network twice, with blocks that add nothing: all features are those of the first layer. */
static void test_identity(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_set set = set_of();
    tllm_resmlp *m = mlp(ctx, 6, 4, 1);
    tllm_snnet_anchor a[2];
    tllm_snnet *net = NULL;
    const tiny_param *p;
    const float *want;
    size_t n, i, k;
    a[0] = a[1] = tllm_resmlp_anchor(m);
    for (i = 2; i < 18; i++) memset(a[0].params[i].value.data, 0, (size_t)tiny_tensor_count(&a[0].params[i].value) * 4);
    a[1].n_params = 0;                      /* the same parameters: once */
    want = logits(ctx, NULL, 0, m, &set);
    if (T_OK(tllm_snnet_open(ctx, a, 2, 1, &net))) {
        (void)tllm_snnet_networks(net, &n);
        T_OK(tllm_snnet_init(net, &set, N, NULL));
        p = tllm_snnet_params(net, &k);
        T_EQ_INT(k, 20 + 6);
        for (k = 20; k < 26; k++)
            for (i = 0; i < (size_t)tiny_tensor_count(&p[k].value); i++)
                T_CLOSE(((const float *)p[k].value.data)[i], k % 2 == 0 && i % 7 == 0 ? 1.0 : 0.0, 1e-4);
        for (i = 0; i < n; i++) {
            const float *y = logits(ctx, net, i, NULL, &set);
            for (k = 0; k < N * CLASSES; k++) T_CLOSE(y[k], want[k], 1e-4);
        }
        tllm_snnet_close(net);
    }
    tllm_resmlp_close(m);
    t_close(ctx);
    T_PROOF("compression 7", "identical anchors with identity features: M = I, unchanged outputs");
}

typedef struct seen { int count[16]; double loss; int64_t stop; } seen;
static int see(void *user, const tllm_snnet_fit_state *s)
{
    seen *t = (seen *)user;
    t->count[s->network]++;
    t->loss += s->loss;
    return s->step == t->stop;
}

static tiny_tensor teach(void *user, tiny_tape *tape, const tiny_tensor *x)
{
    return tllm_resmlp_run(tape, (const tllm_resmlp *)user, x);
}

static double mean_right(const tllm_snnet *net, const tllm_nn_set *set)
{
    double right[16], sum = 0.0;
    size_t n, i;
    (void)tllm_snnet_networks(net, &n);
    T_OK(tllm_snnet_measure(net, set, NULL, NULL, right));
    for (i = 2; i < n; i++) sum += right[i] / (double)(n - 2);
    return sum;
}

static void test_training(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_set set = set_of();
    tllm_resmlp *m[2];
    tllm_snnet_anchor a[2];
    tllm_snnet *net = NULL;
    tllm_snnet_fit_desc d;
    tllm_snnet_fit_state last;
    float *once = NULL;
    seen t;
    double random, first, trained;
    int k, run;
    memset(&d, 0, sizeof d);
    for (k = 0; k < 2; k++) {               /* one anchor alone: its own training */
        m[k] = mlp(ctx, k ? 16 : 10, 4, 1 + (uint64_t)k);
        a[k] = tllm_resmlp_anchor(m[k]);
        d.steps = 150;
        d.batch = 40;
        d.lr = 5e-3;
        T_OK(tllm_snnet_open(ctx, &a[k], 1, 1, &net));
        T_OK(tllm_snnet_fit(net, &set, &d, &last));
        T_TRUE(last.step == 150 && last.network == 0 && last.loss < 0.6);
        tllm_snnet_close(net);
    }
    T_OK(tllm_snnet_open(ctx, a, 2, 1, &net));
    random = mean_right(net, &set);
    T_OK(tllm_snnet_init(net, &set, N, NULL));
    first = mean_right(net, &set);
    T_TRUE(first > random + 0.1);
    memset(&t, 0, sizeof t);
    d.steps = 240;
    d.lr = 1e-3;
    d.stitch_lr = 2.0;
    d.teacher = teach;
    d.teacher_user = m[1];
    d.teach = 0.25;
    d.callback = see;
    d.user = &t;
    T_OK(tllm_snnet_fit(net, &set, &d, &last));
    trained = mean_right(net, &set);
    T_TRUE(trained >= first);
    for (k = 0; k < 12; k++) T_TRUE(t.count[k] > 5 && t.count[k] < 45);      /* 20 expected of each */
    T_EQ_INT(t.count[12], 0);
    for (run = 0; run < 2; run++) {         /* the same seed, the same bits; the callback ends it */
        tllm_snnet *two = NULL;
        tllm_resmlp *q[2];
        for (k = 0; k < 2; k++) {
            q[k] = mlp(ctx, k ? 16 : 10, 4, 1);
            a[k] = tllm_resmlp_anchor(q[k]);
        }
        T_OK(tllm_snnet_open(ctx, a, 2, 4, &two));
        memset(&t, 0, sizeof t);
        t.stop = 9;
        d.seed = 3;
        d.teacher = NULL;
        T_OK(tllm_snnet_fit(two, &set, &d, &last));
        T_EQ_INT(last.step, 9);
        if (run) T_SAME(once, logits(ctx, two, 5, NULL, &set), N * CLASSES);
        else once = logits(ctx, two, 5, NULL, &set);
        tllm_snnet_close(two);
        for (k = 0; k < 2; k++) tllm_resmlp_close(q[k]);
    }
    tllm_snnet_close(net);
    for (k = 0; k < 2; k++) tllm_resmlp_close(m[k]);
    t_close(ctx);
    T_PROOF("compression 7", "least squares start above random ones, and training above them");
    T_PROOF("compression 7", "every network is drawn; the same seed gives the same bits");
}

/* features of another number of tokens: 2 vectors a sample */
static tiny_tensor first_of_two(void *user, tiny_tape *tape, const tiny_tensor *x)
{
    const tiny_idx dim[2] = { x->dim[0] * 2, x->dim[1] / 2 };
    (void)user;
    return tiny_tape_reshape(tape, x, 2, dim);
}
static tiny_tensor plain_block(void *user, tiny_tape *tape, int i, const tiny_tensor *h)
{
    (void)user;
    (void)tape;
    (void)i;
    return *h;
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_set set = set_of(), bad;
    tllm_resmlp_desc md;
    tllm_resmlp *m[2], *none = NULL;
    tllm_snnet_anchor a[2], one;
    tllm_snnet *net = NULL;
    tllm_snnet_fit_desc d;
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    tiny_idx n;
    int k;
    for (k = 0; k < 2; k++) {
        m[k] = mlp(ctx, 4 + k, 3, 1);
        a[k] = tllm_resmlp_anchor(m[k]);
    }
    memset(&md, 0, sizeof md);
    T_STATUS(tllm_resmlp_open(ctx, &md, &none), TINY_E_ARGUMENT, "sizes of 1 to 65536");
    one = tllm_resmlp_anchor(NULL);
    T_STATUS(tllm_snnet_open(ctx, &one, 1, 1, &net), TINY_E_ARGUMENT, "lacks a callback");
    T_STATUS(tllm_snnet_open(ctx, a, 9, 1, &net), TINY_E_ARGUMENT, "1 to 8 anchors");
    one = a[0];
    one.size.depth = 1;
    T_STATUS(tllm_snnet_open(ctx, &one, 1, 1, &net), TINY_E_ARGUMENT, "the depth 1");
    a[0].first = first_of_two;
    a[0].block = plain_block;
    T_OK(tllm_snnet_open(ctx, a, 2, 1, &net));
    T_STATUS(tllm_snnet_init(net, &set, 60, NULL), TINY_E_SHAPE, "their numbers of tokens differ");
    tllm_snnet_close(net);
    a[0] = tllm_resmlp_anchor(m[0]);
    T_OK(tllm_snnet_open(ctx, a, 2, 1, &net));
    T_STATUS(tllm_snnet_init(net, &set, 4, NULL), TINY_E_ARGUMENT, "more vectors than numbers");
    T_STATUS(tllm_snnet_init(net, &set, N + 1, NULL), TINY_E_ARGUMENT, "of a set of 120");
    bad = set;
    bad.x.dtype = TINY_I32;
    T_STATUS(tllm_snnet_right(net, 0, &bad, &n), TINY_E_ARGUMENT, "a set is x");
    T_STATUS(tllm_snnet_right(net, 99, &set, &n), TINY_E_ARGUMENT, "network 99 of 9");
    memset(&d, 0, sizeof d);
    d.batch = N + 1;
    T_STATUS(tllm_snnet_fit(net, &set, &d, NULL), TINY_E_ARGUMENT, "batches of 121");
    d.batch = 0;
    d.teach = 2.0;
    T_STATUS(tllm_snnet_fit(net, &set, &d, NULL), TINY_E_ARGUMENT, "a teacher's share of 2");
    memset(&td, 0, sizeof td);
    T_OK(tiny_tape_open(ctx, &td, &tape));
    (void)tllm_snnet_run(tape, net, 99, &set.x);
    T_EQ_INT(tiny_tape_status(tape), TINY_E_ARGUMENT);
    tiny_tape_close(tape);
    T_EQ_INT(tllm_snnet_fit(NULL, &set, NULL, NULL), TINY_E_ARGUMENT);
    tllm_snnet_close(net);
    tllm_snnet_close(NULL);
    for (k = 0; k < 2; k++) tllm_resmlp_close(m[k]);
    t_close(ctx);
    T_PROOF("compression 7", "bad input of networks: token counts, few samples, depth 1, no callbacks");
}

int main(void)
{
    T_RUN_TARGETS(test_anchors);
    T_RUN(test_identity);
    T_RUN(test_training);
    T_RUN(test_refused);
    return t_done();
}
#endif
