/* tests/gnn/operator/deeponet.c - DeepONets: a recorded network, the worked sum, masks, merging, gradients by
 * differences, training of several tasks, transfer, files, bad input */
#define T_GNN
#include "t.h"

enum { SIDE = 5, GRID = SIDE * SIDE };

static tgnn_deeponet_desc small(int branches, int masked)
{
    tgnn_deeponet_desc d;
    int b;
    memset(&d, 0, sizeof d);
    d.n_branches = branches;
    for (b = 0; b < branches; b++) {
        d.branch[b].n_in = b ? 3 : GRID;
        d.branch[b].layers = 1;
        d.branch[b].width = 7;
    }
    d.branch[0].masked = masked;
    d.d = 2;
    d.layers = 1;
    d.width = 6;
    d.p = 5;
    d.seed = 4;
    return d;
}

static tgnn_deeponet *opened(tiny_ctx *ctx, const tgnn_deeponet_desc *d)
{
    tgnn_deeponet *net = NULL;
    T_OK(tgnn_deeponet_open(ctx, d, &net));
    return net;
}

/* the numbers of a parameter */
static float *numbers(const tgnn_deeponet *net, const char *name, tiny_idx *n)
{
    size_t count = 0, i;
    const tiny_param *p = tgnn_deeponet_params(net, &count);
    for (i = 0; i < count; i++)
        if (!strcmp(p[i].name, name)) {
            if (n) *n = tiny_tensor_count(&p[i].value);
            return (float *)p[i].value.data;
        }
    t_fail(__FILE__, __LINE__, "there is no %s", name);
    return (float *)t_keep(4096);
}

static void put(const tgnn_deeponet *net, const char *name, const float *from, tiny_idx n)
{
    tiny_idx have = 0;
    float *to = numbers(net, name, &have);
    if (T_EQ_INT(have, n) && from) memcpy(to, from, (size_t)n * sizeof *to);
}

static tiny_tape *open_tape(tiny_ctx *ctx, int no_grad)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 20;
    d.no_grad = no_grad;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    return tape;
}

/* half of the grid is inside, and each sample has its own half */
static float *half_masks(int samples)
{
    float *m = t_guarded((size_t)(samples * GRID));
    int i;
    for (i = 0; i < samples * GRID; i++) m[i] = (i / SIDE + i / GRID) % SIDE < 3 && i % SIDE < 4 ? 1.0f : 0.0f;
    return m;
}

static void *recorded_file(const char *set, const char *file, size_t bytes)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%.20s/%.60s", set, file);
    return t_shared_bytes(path, bytes);
}

/* a network of tanh layers with a linear end of the branch: plain formulas in double of another program */
static void recorded(tiny_target target, const char *set)
{
    static const struct { const char *file, *name; tiny_idx n; } part[] = {
        { "branch_w1", "branch.0.0.weight", 480 }, { "branch_b1", "branch.0.0.bias", 24 },
        { "branch_w2", "branch.0.1.weight", 240 }, { "branch_b2", "branch.0.1.bias", 10 },
        { "trunk_w1", "trunk.0.weight", 48 },      { "trunk_b1", "trunk.0.bias", 24 },
        { "trunk_w2", "trunk.1.weight", 240 },     { "trunk_b2", "trunk.1.bias", 10 },
        { "b0", "output.bias", 1 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    const float *u = (const float *)recorded_file(set, "u.f32", 4 * 20 * 4),
                *at = (const float *)recorded_file(set, "y.f32", 15 * 2 * 4);
    const double *want = (const double *)recorded_file(set, "out.f64", 4 * 15 * 8);
    tgnn_deeponet_desc d;
    tgnn_deeponet_query q;
    tgnn_deeponet *net;
    tiny_tensor in, points, y, basis;
    float *got = t_guarded(60), *b = t_guarded(150);
    size_t i;
    memset(&d, 0, sizeof d);
    d.branch[0].n_in = 20;
    d.branch[0].layers = d.layers = 1;
    d.branch[0].width = d.width = 24;
    d.p = 10;
    d.d = 2;
    net = opened(ctx, &d);
    for (i = 0; i < T_COUNT(part); i++) {
        char file[40];
        const float *from;
        (void)snprintf(file, sizeof file, "%s.f32", part[i].file);
        from = (const float *)recorded_file(set, file, (size_t)part[i].n * sizeof *from);
        put(net, part[i].name, from, part[i].n);
    }
    if (u && at && want) {
        in = tiny_tensor_2d((void *)(uintptr_t)u, TINY_F32, 4, 20);
        points = tiny_tensor_2d((void *)(uintptr_t)at, TINY_F32, 15, 2);
        y = tiny_tensor_2d(got, TINY_F32, 4, 15);
        basis = tiny_tensor_2d(b, TINY_F32, 15, 10);
        memset(&q, 0, sizeof q);
        q.in = &in;
        q.points = &points;
        T_OK(tgnn_deeponet_run(ctx, net, &q, &y));
        T_WALLS(got, 60);
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < 60; i++) {
            double exact = 0;
            T_CLOSE(got[i], want[i], 2e-6);
            T_OK(tgnn_deeponet_ref(ctx, net, &q, (tiny_idx)i / 15, (tiny_idx)i % 15, &exact));
            T_CLOSE(exact, want[i], 1e-13);
        }
        T_OK(tgnn_deeponet_basis(ctx, net, &q, &basis));
        T_WALLS(b, 150);
        memset(got, 0, 60 * sizeof *got);
        q.basis = &basis;
        T_OK(tgnn_deeponet_run(ctx, net, &q, &y));
        for (i = 0; i < 60; i++) T_CLOSE(got[i], want[i], 2e-6);
    }
    tgnn_deeponet_close(net);
    t_close(ctx);
}

static void test_recorded(tiny_target target)
{
    recorded(target, "deeponet");
    if (t_find("oracle/gnn/medium/deeponet/u.f32")) recorded(target, "medium/deeponet");       /* not in a clone */
    T_PROOF("geometry 4", "a recorded network: 1e-13 in double, 2e-6 in float, the same from a basis");
}

/* B = (1, 2, -1), T = (.5, .25, 1), b0 = .1: u = .1 */
static void test_worked(tiny_target target)
{
    static const float b[3] = { 1, 2, -1 }, t[3] = { 0.5f, 0.25f, 1 }, b0[1] = { 0.1f };
    float x[2] = { 0, 0 }, got[1];
    tiny_ctx *ctx = t_ctx(target, 1);
    const tiny_tensor in = tiny_tensor_2d(x, TINY_F32, 1, 2), y = tiny_tensor_2d(got, TINY_F32, 1, 1),
                      basis = tiny_tensor_2d((void *)(uintptr_t)t, TINY_F32, 1, 3);
    tgnn_deeponet_desc d;
    tgnn_deeponet_query q;
    tgnn_deeponet *net;
    double exact = 0;
    memset(&d, 0, sizeof d);
    d.branch[0].n_in = 2;
    d.branch[0].layers = -1;
    d.d = 1;
    d.p = 3;
    net = opened(ctx, &d);
    put(net, "branch.0.0.bias", b, 3);
    put(net, "output.bias", b0, 1);
    memset(&q, 0, sizeof q);
    q.in = &in;
    q.basis = &basis;
    T_OK(tgnn_deeponet_run(ctx, net, &q, &y));
    T_CLOSE(got[0], 0.1, 1e-7);
    T_OK(tgnn_deeponet_ref(ctx, net, &q, 0, 0, &exact));
    T_CLOSE(exact, 0.1, 1e-8);
    tgnn_deeponet_close(net);
    t_close(ctx);
    T_PROOF("geometry 4", "B = (1,2,-1), T = (.5,.25,1), b_0 = .1 gives .1");
}

/* outputs outside a mask are 0 whatever stands there; the loss does not see them */
static void test_masks(tiny_target target)
{
    enum { S = 3, N = S * GRID };
    tiny_ctx *ctx = t_ctx(target, 2);
    int conv;
    for (conv = 0; conv < 2; conv++) {
        tgnn_deeponet_desc d = small(2, 1);
        float *f = t_rand(N, -1, 1), *c = t_rand(S * 3, -1, 1), *m = half_masks(S), *got = t_guarded(N),
              *other = t_guarded(N), *truth = t_rand(N, -1, 1);
        tiny_tensor in[2], mask = tiny_tensor_2d(m, TINY_F32, S, GRID), y = tiny_tensor_2d(got, TINY_F32, S, GRID),
                           z = tiny_tensor_2d(other, TINY_F32, S, GRID), t = tiny_tensor_2d(truth, TINY_F32, S, GRID);
        tgnn_deeponet_query q;
        tgnn_deeponet *net;
        const tiny_param *p;
        double error[2] = { 0, 1 };
        size_t n = 0, i;
        int k, pass;
        float loss[2] = { 0, 1 };
        float *kept = NULL;
        d.branch[0].conv = conv;
        d.branch[0].side[0] = d.branch[0].side[1] = SIDE;
        d.branch[0].filters = 3;
        net = opened(ctx, &d);
        in[0] = tiny_tensor_2d(f, TINY_F32, S, GRID);
        in[1] = tiny_tensor_2d(c, TINY_F32, S, 3);
        memset(&q, 0, sizeof q);
        q.in = in;
        q.mask = &mask;
        q.grid[0] = q.grid[1] = SIDE;
        T_OK(tgnn_deeponet_run(ctx, net, &q, &y));
        T_OK(tgnn_masked_error(ctx, &y, &t, &mask, &error[0]));
        p = tgnn_deeponet_params(net, &n);
        for (pass = 0; pass < 2; pass++) {  /* the second time with other numbers outside, NaN among them */
            tiny_tape *tape = open_tape(ctx, 0);
            tiny_tensor u, l;
            for (k = 0; pass && k < N; k++)
                if (m[k] == 0.0f) {
                    f[k] = k % 3 ? 7.0f : (float)NAN;
                    truth[k] = k % 2 ? 1e30f : (float)NAN;
                }
            for (i = 0; i < n; i++) T_OK(tiny_tape_param(tape, &p[i]));
            u = tgnn_tape_deeponet(tape, net, &q);
            l = tgnn_tape_masked_l2(tape, &u, &t, &mask, 0);
            tiny_tape_zero(tape);
            if (!T_OK(tiny_tape_backward(tape, &l, NULL))) break;
            loss[pass] = *(const float *)l.data;
            for (k = 0; k < N; k++) if (m[k] == 0.0f) T_CLOSE(((const float *)u.data)[k], 0, 0);
            if (!kept) {
                size_t all = 0;
                for (i = 0; i < n; i++) all += (size_t)tiny_tensor_count(&p[i].grad);
                kept = t_guarded(all);
                memcpy(kept, p[0].grad.data, all * sizeof *kept);   /* one block of memory */
            } else T_SAME(kept, (const float *)p[0].grad.data, (size_t)tgnn_deeponet_count(net));
            tiny_tape_close(tape);
        }
        T_CLOSE(loss[1], loss[0], 0);
        T_OK(tgnn_deeponet_run(ctx, net, &q, &z));
        T_SAME(other, got, N);
        T_OK(tgnn_masked_error(ctx, &z, &t, &mask, &error[1]));
        T_CLOSE(error[1], error[0], 0);
        for (k = 0; k < N && !conv; k += 7) {
            double exact = 0;
            T_OK(tgnn_deeponet_ref(ctx, net, &q, k / GRID, k % GRID, &exact));
            T_CLOSE(got[k], exact, 2e-6);
        }
        {                                   /* the results as parameters: where the loss can be moved from */
            float *slope = t_guarded(N);
            tiny_tape *tape = open_tape(ctx, 0);
            tiny_param result;
            tiny_tensor l;
            memset(&result, 0, sizeof result);
            result.name = "u";
            result.value = y;
            result.grad = tiny_tensor_2d(slope, TINY_F32, S, GRID);
            T_OK(tiny_tape_param(tape, &result));
            l = tgnn_tape_masked_l2(tape, &y, &t, &mask, conv);
            tiny_tape_zero(tape);
            T_OK(tiny_tape_backward(tape, &l, NULL));
            for (k = 0; k < N; k++) T_TRUE((slope[k] == 0.0f) == (m[k] == 0.0f));
            tiny_tape_close(tape);
        }
        tgnn_deeponet_close(net);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 4", "masked pixels have zero output and zero gradient");
    T_PROOF("geometry 4", "changing values outside the mask changes nothing");
}

/* For one c the second branch is a constant vector: a network of one task whose last layer is scaled by it. Joined
 * inputs: weights of 0 for c give the network without c. A permuted list of points gives permuted results. */
static void test_merge(tiny_target target)
{
    enum { S = 4, N = 9 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_deeponet_desc two = small(2, 0), one = small(1, 0);
    float *f = t_rand(S * GRID, -1, 1), *c = t_guarded(S * 3), *at = t_rand(N * 2, 0, 1), *turned = t_guarded(N * 2),
          *a = t_guarded(S * N), *b = t_guarded(S * N), v[5], *w, *w2;
    static const char *const same[] = { "trunk.0.weight", "trunk.0.bias", "trunk.1.weight", "trunk.1.bias",
                                        "branch.0.0.weight", "branch.0.0.bias", "branch.0.1.weight",
                                        "branch.0.1.bias" };
    tiny_tensor in[2], points = tiny_tensor_2d(at, TINY_F32, N, 2), ya = tiny_tensor_2d(a, TINY_F32, S, N),
                       yb = tiny_tensor_2d(b, TINY_F32, S, N);
    tgnn_deeponet_query q;
    tgnn_deeponet *net, *single;
    size_t i;
    int k, s;
    for (i = 0; i < S * 3; i++) c[i] = (float)(i % 3) - 0.4f;
    in[0] = tiny_tensor_2d(f, TINY_F32, S, GRID);
    in[1] = tiny_tensor_2d(c, TINY_F32, S, 3);
    memset(&q, 0, sizeof q);
    q.in = in;
    q.points = &points;
    net = opened(ctx, &two);
    single = opened(ctx, &one);
    for (i = 0; i < T_COUNT(same); i++) {
        tiny_idx n = 0;
        const float *from = numbers(net, same[i], &n);
        put(single, same[i], from, n);
    }
    for (k = 0; k < 5; k++) {               /* v: what branch 1 gives for this c, by hand */
        const float *w1 = numbers(net, "branch.1.0.weight", NULL), *b1 = numbers(net, "branch.1.0.bias", NULL),
                    *w0 = numbers(net, "branch.1.1.weight", NULL), *b0 = numbers(net, "branch.1.1.bias", NULL);
        double sum = (double)b0[k];
        for (s = 0; s < 7; s++)
            sum += (double)w0[k * 7 + s] * tanh((double)b1[s] + (double)w1[3 * s] * (double)c[0] +
                                                (double)w1[3 * s + 1] * (double)c[1] +
                                                (double)w1[3 * s + 2] * (double)c[2]);
        v[k] = (float)sum;
    }
    w = numbers(single, "branch.0.1.weight", NULL);
    w2 = numbers(single, "branch.0.1.bias", NULL);
    for (k = 0; k < 5; k++) {
        for (s = 0; s < 7; s++) w[k * 7 + s] *= v[k];
        w2[k] *= v[k];
    }
    T_OK(tgnn_deeponet_run(ctx, net, &q, &ya));
    T_OK(tgnn_deeponet_run(ctx, single, &q, &yb));
    for (k = 0; k < S * N; k++) T_CLOSE(a[k], b[k], 2e-6);
    for (k = 0; k < N; k++) memcpy(turned + 2 * k, at + 2 * ((k * 4 + 1) % N), 2 * sizeof *at);
    points = tiny_tensor_2d(turned, TINY_F32, N, 2);
    T_OK(tgnn_deeponet_run(ctx, net, &q, &yb));
    for (s = 0; s < S; s++)
        for (k = 0; k < N; k++) T_CLOSE(b[s * N + k], a[s * N + (k * 4 + 1) % N], 1e-6);
    tgnn_deeponet_close(net);
    two.merge = TGNN_DEEPONET_CONCAT;
    net = opened(ctx, &two);
    for (i = 0; i < T_COUNT(same); i++) {
        tiny_idx n = 0;
        const float *from = numbers(single, same[i], &n);
        float *to = numbers(net, same[i], NULL);
        if (i != 4) memcpy(to, from, (size_t)n * sizeof *to);
        for (k = 0; i == 4 && k < 7; k++)
            for (s = 0; s < GRID + 3; s++) to[k * (GRID + 3) + s] = s < GRID ? from[k * GRID + s] : 0.0f;
    }
    T_OK(tgnn_deeponet_run(ctx, net, &q, &ya));
    T_OK(tgnn_deeponet_run(ctx, single, &q, &yb));
    for (k = 0; k < S * N; k++) T_CLOSE(a[k], b[k], 1e-6);
    tgnn_deeponet_close(net);
    tgnn_deeponet_close(single);
    t_close(ctx);
    T_PROOF("geometry 4", "merging with c = constant reduces to the single-task net");
    T_PROOF("geometry 4", "permutation of query points permutes output");
}

/* the loss by the steepest number of each parameter, and one more: central differences in float */
static void test_gradients(void)
{
    enum { S = 2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int form;
    for (form = 0; form < 4; form++) {
        tgnn_deeponet_desc d = small(2, form < 2);
        float *f = t_rand(S * GRID, -1, 1), *c = t_rand(S * 3, -1, 1), *m = half_masks(S),
              *truth = t_rand(S * GRID, -1, 1);
        tiny_tensor in[2], mask = tiny_tensor_2d(m, TINY_F32, S, GRID), t = tiny_tensor_2d(truth, TINY_F32, S, GRID);
        tgnn_deeponet_query q;
        tgnn_deeponet *net;
        const tiny_param *p;
        size_t n = 0, i;
        d.branch[0].conv = form == 1 ? 2 : 0;
        d.branch[0].side[0] = d.branch[0].side[1] = SIDE;
        d.branch[0].filters = 2;
        d.act = form == 2 ? TGNN_DEEPONET_GELU : TGNN_DEEPONET_TANH;
        d.merge = form == 3 ? TGNN_DEEPONET_CONCAT : TGNN_DEEPONET_PRODUCT;
        net = opened(ctx, &d);
        p = tgnn_deeponet_params(net, &n);
        in[0] = tiny_tensor_2d(f, TINY_F32, S, GRID);
        in[1] = tiny_tensor_2d(c, TINY_F32, S, 3);
        memset(&q, 0, sizeof q);
        q.in = in;
        if (form < 2) q.mask = &mask;
        q.grid[0] = q.grid[1] = SIDE;
        for (i = 0; i <= n; i++) {          /* first all gradients, then differences */
            const float *g = i ? (const float *)p[i - 1].grad.data : NULL;
            float *v = i ? (float *)p[i - 1].value.data : NULL;
            const tiny_idx count = i ? tiny_tensor_count(&p[i - 1].value) : 1;
            double most = 1e-3;
            tiny_idx worst = 0, k, at;
            int which, s;
            for (k = 0; i && k < count; k++)
                if (fabs((double)g[k]) > most) {
                    most = fabs((double)g[k]);
                    worst = k;
                }
            for (which = 0; which < (i ? 2 : 1); which++) {
                double side[2] = { 0, 0 };
                float old = 0;
                at = which ? count / 2 : worst;
                if (i) old = v[at];
                for (s = 0; s < (i ? 2 : 1); s++) {
                    tiny_tape *tape = open_tape(ctx, i > 0);
                    tiny_tensor y, l;
                    size_t j;
                    if (i) v[at] = old + (s ? 4e-3f : -4e-3f);
                    for (j = 0; !i && j < n; j++) T_OK(tiny_tape_param(tape, &p[j]));
                    y = tgnn_tape_deeponet(tape, net, &q);
                    l = tgnn_tape_masked_l2(tape, &y, &t, form < 2 ? &mask : NULL, form == 2);
                    if (!i) tiny_tape_zero(tape);
                    if (!i) T_OK(tiny_tape_backward(tape, &l, NULL));
                    side[s] = l.data ? (double)*(const float *)l.data : (double)NAN;
                    tiny_tape_close(tape);
                }
                if (i) {
                    v[at] = old;
                    T_CLOSE((side[1] - side[0]) / 8e-3, g[at], 0.02 * most + 3e-4);
                }
            }
        }
        tgnn_deeponet_close(net);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 4", "gradients by finite differences: masked, convolutions, GELU, joined inputs");
}

/* Two tasks, one of them smaller, learn together; then the last layers alone learn a third one. */
static int steps_seen;
static int count_steps(void *user, const tiny_train_state *state)
{
    *(double *)user = state->loss;
    steps_seen++;
    return 0;
}

static void test_fit(void)
{
    enum { S = 8, N = 6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_deeponet_desc d = small(2, 0);
    float *f = t_rand(3 * S * 4, -1, 1), *c = t_guarded(3 * S * 3), *at = t_rand(N * 2, 0, 1),
          *u = t_guarded(3 * S * N), *y = t_guarded(S * N), *kept = t_guarded(6 * 2 + 6);
    tiny_tensor in[3][2], points = tiny_tensor_2d(at, TINY_F32, N, 2), got = tiny_tensor_2d(y, TINY_F32, S, N);
    tgnn_deeponet_task task[3];
    tgnn_deeponet_fit_desc fit;
    tgnn_deeponet *net;
    tiny_param list[8];
    double loss = 0, before = 0, after = 0;
    tiny_train_state last;
    int k, i, j;
    d.branch[0].n_in = 4;
    net = opened(ctx, &d);
    memset(task, 0, sizeof task);
    memset(&fit, 0, sizeof fit);
    for (k = 0; k < 3; k++) {
        for (i = 0; i < S; i++) {
            for (j = 0; j < 3; j++) c[(k * S + i) * 3 + j] = j == k ? 1.0f : 0.0f;
            for (j = 0; j < N; j++)         /* of the sensors and of the place, in another way for each task */
                u[(k * S + i) * N + j] = f[(k * S + i) * 4 + k] * (k == 1 ? at[2 * j] : 1) + 0.5f * at[2 * j + 1];
        }
        in[k][0] = tiny_tensor_2d(f + k * S * 4, TINY_F32, k == 1 ? 3 : S, 4);
        in[k][1] = tiny_tensor_2d(c + k * S * 3, TINY_F32, k == 1 ? 3 : S, 3);
        task[k].query.in = in[k];
        task[k].query.points = &points;
        task[k].truth = tiny_tensor_2d(u + k * S * N, TINY_F32, k == 1 ? 3 : S, N);
    }
    fit.task = task;
    fit.n_tasks = 2;
    fit.batch = 4;
    fit.steps = 301;
    fit.rate = 1e-2;
    fit.decay = 0.1;
    fit.callback = count_steps;
    fit.user = &loss;
    steps_seen = 0;
    T_OK(tgnn_deeponet_fit(ctx, net, &fit, &last));
    T_EQ_INT(steps_seen, 301);
    T_CLOSE(loss, 0, 0.02);
    T_OK(tgnn_deeponet_run(ctx, net, &task[2].query, &got));
    T_OK(tgnn_masked_error(ctx, &got, &task[2].truth, NULL, &before));
    memcpy(kept, numbers(net, "trunk.0.weight", NULL), 12 * sizeof *kept);
    memcpy(kept + 12, numbers(net, "branch.0.0.weight", NULL), 6 * sizeof *kept);
    fit.task = task + 2;
    fit.n_tasks = 1;
    fit.last = 1;
    T_OK(tgnn_deeponet_fit(ctx, net, &fit, NULL));
    T_SAME(kept, numbers(net, "trunk.0.weight", NULL), 12);
    T_SAME(kept + 12, numbers(net, "branch.0.0.weight", NULL), 6);
    T_OK(tgnn_deeponet_run(ctx, net, &task[2].query, &got));
    T_OK(tgnn_masked_error(ctx, &got, &task[2].truth, NULL, &after));
    T_TRUE(after < 0.3 * before);
    T_EQ_INT(tgnn_deeponet_last(net, 1, list), 5);
    T_EQ_TEXT(list[0].name, "branch.0.1.weight");
    T_EQ_TEXT(list[3].name, "branch.1.1.bias");
    T_EQ_TEXT(list[4].name, "output.bias");
    T_EQ_INT(tgnn_deeponet_last(net, 9, NULL), 9);
    /* what the data must not have */
    task[0].query.basis = &got;
    fit.task = task;
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_ARGUMENT, "task 0: deeponet: the trunk is trained");
    task[0].query.basis = NULL;
    task[0].truth.dim[0] = 5;
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_SHAPE, "5 samples of the truth, 8 of the inputs");
    task[0].truth = tiny_tensor_2d(u, TINY_F32, S, 5);
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_SHAPE, "the truth has 5 points, the query 6");
    task[0].truth = tiny_tensor_2d(u, TINY_F32, S, N);
    memset(u + 2 * N, 0, N * sizeof *u);
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_NUMERIC, "the truth of sample 2 is zero or not finite");
    fit.n_tasks = 65;
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_ARGUMENT, "65 tasks, there can be 1 to 64");
    fit.n_tasks = 1;
    fit.decay = 2;
    T_STATUS(tgnn_deeponet_fit(ctx, net, &fit, NULL), TINY_E_ARGUMENT, "the decay must be 0 to 1");
    tgnn_deeponet_close(net);
    t_close(ctx);
    T_PROOF("geometry 4", "transfer: trunk and first layers stay, the last layers learn a new task");
}

static void test_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_deeponet_desc d = small(2, 1);
    char path[300];
    const char *tmp = getenv("TMPDIR");
    tgnn_deeponet *net, *again = NULL;
    size_t n = 0, m = 0;
    double v[39];
    tiny_param p;
    int i;
    d.branch[0].conv = 1;
    d.branch[0].side[0] = d.branch[0].side[1] = SIDE;
    net = opened(ctx, &d);
    (void)snprintf(path, sizeof path, "%.200s/deeponet-%lu.ckpt", tmp ? tmp : P_tmpdir, (unsigned long)clock());
    T_OK(tgnn_deeponet_save(ctx, net, path));
    if (T_OK(tgnn_deeponet_load(ctx, path, &again))) {
        const tiny_param *a = tgnn_deeponet_params(net, &n), *b = tgnn_deeponet_params(again, &m);
        tgnn_deeponet_desc of = *tgnn_deeponet_description(again);
        of.seed = d.seed;
        T_TRUE(!memcmp(&of, tgnn_deeponet_description(net), sizeof of));
        if (T_EQ_INT(m, n)) T_SAME((float *)a[0].value.data, (float *)b[0].value.data,
                                   (size_t)tgnn_deeponet_count(net));
    }
    tgnn_deeponet_close(again);
    tgnn_deeponet_close(net);
    memset(&p, 0, sizeof p);
    p.name = "deeponet";
    p.value = p.grad = tiny_tensor_1d(v, TINY_F64, 39);
    for (i = 0; i < 3; i++) {               /* descriptions that are none */
        memset(v, 0, sizeof v);
        v[34] = 1;
        v[5] = i == 0 ? (double)NAN : i == 1 ? 1e9 : 0;
        T_OK(tiny_params_save(ctx, path, &p, 1, NULL));
        T_STATUS(tgnn_deeponet_load(ctx, path, &again), i < 2 ? TINY_E_FORMAT : TINY_E_ARGUMENT,
                 i < 2 ? "number 5 of the description" : "branch 0 has 0 sensors");
    }
    v[1] = 3;                               /* a network, but no weights */
    T_OK(tiny_params_save(ctx, path, &p, 1, NULL));
    T_STATUS(tgnn_deeponet_load(ctx, path, &again), TINY_E_FORMAT, "more parameters than the file");
    v[7] = v[35] = -1;                      /* few enough, but none of them is there: no hidden layers, p = 1 */
    v[37] = 1;
    T_OK(tiny_params_save(ctx, path, &p, 1, NULL));
    T_TRUE(tgnn_deeponet_load(ctx, path, &again) != TINY_OK);
    T_TRUE(!again);
    (void)remove(path);
    T_TRUE(tgnn_deeponet_load(ctx, path, &again) != TINY_OK);
    t_close(ctx);
}

static void test_refused(void)
{
    enum { S = 2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_deeponet_desc d = small(1, 1), bad;
    tgnn_deeponet *net = opened(ctx, &d), *none = NULL;
    float *f = t_rand(S * 26, -1, 1), *m = half_masks(S), *y = t_guarded(S * GRID), *b = t_rand(GRID * 6, -1, 1);
    tiny_tensor in = tiny_tensor_2d(f, TINY_F32, S, GRID), mask = tiny_tensor_2d(m, TINY_F32, S, GRID), wide,
                out = tiny_tensor_2d(y, TINY_F32, S, GRID), basis = tiny_tensor_2d(b, TINY_F32, GRID, 6);
    tgnn_deeponet_query q, r;
    double error;
    memset(&q, 0, sizeof q);
    q.in = &in;
    q.mask = &mask;
    q.grid[0] = q.grid[1] = SIDE;
    T_OK(tgnn_deeponet_run(ctx, net, &q, &out));
    memset(m + GRID, 0, GRID * sizeof *m);
    T_STATUS(tgnn_deeponet_run(ctx, net, &q, &out), TINY_E_ARGUMENT, "the mask of sample 1 is all zeros");
    m[GRID + 3] = 0.5f;
    T_STATUS(tgnn_deeponet_run(ctx, net, &q, &out), TINY_E_ARGUMENT, "number 3 of the mask of sample 1 is 0.5");
    m[GRID + 3] = 1;
    f[GRID + 3] = (float)NAN;
    T_STATUS(tgnn_deeponet_run(ctx, net, &q, &out), TINY_E_NUMERIC, "sensor 3 of sample 1 of branch 0 is not a finite");
    f[GRID + 3] = 0;
    wide = tiny_tensor_2d(f, TINY_F32, S, 26);
    r = q;
    r.in = &wide;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_SHAPE,
             "the input of branch 0 is 2x26 f32, it must be 2 x 25");
    r = q;
    r.basis = &basis;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_SHAPE, "a basis of 6 terms, the network has p = 5");
    r = q;
    r.mask = NULL;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_ARGUMENT, "branch 0 is masked and needs a mask");
    r = q;
    r.grid[1] = 0;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_ARGUMENT, "each axis of a grid needs a point");
    r = q;
    r.points = &wide;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_SHAPE, "the list of points is 2x26");
    wide = tiny_tensor_2d(f, TINY_F32, 1, 2);
    r.points = &wide;
    T_STATUS(tgnn_deeponet_run(ctx, net, &r, &out), TINY_E_SHAPE, "y is 2x25 f32, it must be 2 x 1");
    f[1] = (float)INFINITY;
    m[1] = 0;
    wide = tiny_tensor_2d(y, TINY_F32, S, 1);
    {
        tiny_tensor point = tiny_tensor_2d(f, TINY_F32, 1, 2);
        r.points = &point;
        T_STATUS(tgnn_deeponet_run(ctx, net, &r, &wide), TINY_E_NUMERIC, "a coordinate of point 0 is not a finite");
    }
    f[1] = 0;
    T_STATUS(tgnn_deeponet_ref(ctx, net, &q, 2, 0, &error), TINY_E_ARGUMENT, "there is no sample 2");
    memset(y, 0, S * GRID * sizeof *y);
    T_STATUS(tgnn_masked_error(ctx, &in, &out, &mask, &error), TINY_E_NUMERIC, "has no relative error");
    tgnn_deeponet_close(net);
    d.branch[0].masked = 0;
    net = opened(ctx, &d);
    T_STATUS(tgnn_deeponet_run(ctx, net, &q, &out), TINY_E_ARGUMENT, "a mask was given, but branch 0 is not masked");
    tgnn_deeponet_close(net);
#define T_BAD(change, says)      \
    bad = small(2, 0);           \
    change;                      \
    T_STATUS(tgnn_deeponet_open(ctx, &bad, &none), TINY_E_ARGUMENT, says)
    T_BAD(bad.n_branches = 5, "5 branches, there can be 1 to 4");
    T_BAD(bad.branch[1].n_in = 0, "branch 1 has 0 sensors");
    T_BAD(bad.branch[1].masked = 1, "branch 1 is masked, only branch 0 can be");
    T_BAD(bad.branch[0].layers = 9, "branch 0 has 9 layers");
    T_BAD(bad.branch[0].conv = 6, "branch 0 has 6 convolutions");
    T_BAD(bad.d = 9, "points of 9 coordinates");
    T_BAD(bad.p = -1, "-1 terms");
    T_BAD(bad.act = 2, "no activation has the number 2");
    T_BAD(bad.merge = 2, "no way to merge has the number 2");
    T_BAD((bad.merge = 1, bad.branch[0].conv = 1), "joined inputs cannot go through convolutions");
#undef T_BAD
    bad = small(1, 0);
    bad.branch[0].conv = 1;
    bad.branch[0].side[0] = 4;
    bad.branch[0].side[1] = 6;
    T_STATUS(tgnn_deeponet_open(ctx, &bad, &none), TINY_E_SHAPE, "4 x 6 points for its convolutions, but 25 sensors");
    T_TRUE(!none);
    t_close(ctx);
    T_PROOF("geometry 4", "bad input: all-zero mask, NaN sensors, wrong sensor count, p mismatch");
}

/* every allocation of a run and of a training fails once */
static void work_once(tiny_ctx *ctx, tgnn_deeponet *net, int train)
{
    float f[2 * GRID], y[2 * GRID], c[6] = { 1, 2, 3, 4, 5, 6 };
    tiny_tensor in[2], out = tiny_tensor_2d(y, TINY_F32, 2, GRID);
    tgnn_deeponet_task task;
    tgnn_deeponet_fit_desc fit;
    int i;
    for (i = 0; i < 2 * GRID; i++) f[i] = y[i] = (float)(i % 7) - 2.5f;
    in[0] = tiny_tensor_2d(f, TINY_F32, 2, GRID);
    in[1] = tiny_tensor_2d(c, TINY_F32, 2, 3);
    memset(&task, 0, sizeof task);
    memset(&fit, 0, sizeof fit);
    task.query.in = in;
    task.query.grid[0] = task.query.grid[1] = SIDE;
    task.truth = out;
    fit.task = &task;
    fit.n_tasks = 1;
    fit.steps = 1;
    fit.last = 1;
    if (train) (void)tgnn_deeponet_fit(ctx, net, &fit, NULL);
    else (void)tgnn_deeponet_run(ctx, net, &task.query, &out);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        const tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        const tgnn_deeponet_desc d = small(2, 0);
        tiny_ctx *ctx = NULL;
        tgnn_deeponet *net = NULL;
        if (tiny_ctx_open(&desc, &ctx) == TINY_OK) {
            if (tgnn_deeponet_open(ctx, &d, &net) == TINY_OK) {
                work_once(ctx, net, 0);
                work_once(ctx, net, 1);
            }
            tgnn_deeponet_close(net);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN_TARGETS(test_worked);
    T_RUN_TARGETS(test_masks);
    T_RUN_TARGETS(test_merge);
    T_RUN(test_gradients);
    T_RUN(test_fit);
    T_RUN(test_files);
    T_RUN(test_refused);
    T_RUN(test_no_memory);
    return t_done();
}
