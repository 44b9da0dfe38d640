/* tests/llm/lab/vision/sret.c - sliced attention against masks, a recursive stage against plain loops, gradients
 * through shared weights, the figures of SReT-T, bad input */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

/* ---- slices */

static void test_slices(tiny_target target)
{
    enum { N = 12, H = 3, D = 5 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *in[3], bias[N * N], *want;
    int32_t order[N];
    uint32_t drawn[N];
    tiny_tensor t[3], b = tiny_tensor_2d(bias, TINY_F32, N, N), o, p = tiny_tensor_1d(order, TINY_I32, N), w;
    tiny_tape_desc td;
    tiny_tape *tape;
    tiny_rng rng = tiny_rng_make(7, 0);
    static const int slices[] = { 1, 2, 3, 4, 6, 12 };
    size_t k;
    int i, j, with;
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    td.no_grad = 1;
    if (!T_OK(tiny_tape_open(ctx, &td, &tape))) { t_close(ctx); return; }
    for (i = 0; i < 3; i++) {
        in[i] = t_rand(N * H * D, -1, 1);
        t[i] = tiny_tensor_3d(in[i], TINY_F32, N, H, D);
    }
    want = t_guarded(N * H * D);
    w = tiny_tensor_3d(want, TINY_F32, N, H, D);
    tiny_rng_permutation(&rng, drawn, N);
    for (i = 0; i < N; i++) order[i] = (int32_t)drawn[i];
    for (k = 0; k < T_COUNT(slices); k++)
        for (with = 0; with < 2; with++) {
            const int each = N / slices[k];
            int place[N];
            for (i = 0; i < N; i++) place[with ? order[i] : i] = i;
            /* the mask of blocks, seen from the old order */
            for (i = 0; i < N; i++)
                for (j = 0; j < N; j++) bias[i * N + j] = place[i] / each == place[j] / each ? 0.0f : -INFINITY;
            T_OK(tiny_attention(ctx, &t[0], &t[1], &t[2], slices[k] > 1 ? &b : NULL, NULL, &w));
            o = tllm_sliced_attention(tape, &t[0], &t[1], &t[2], slices[k], with, with ? &p : NULL);
            if (!T_OK(tiny_tape_status(tape))) break;
            /* no slices: plain attention, bit for bit */
            if (slices[k] == 1) T_SAME((float *)o.data, want, N * H * D);
            for (i = 0; i < N * H * D; i++) {
                T_CLOSE(((float *)o.data)[i], want[i], 2e-6);
                /* each token alone: its value, in its old place */
                if (slices[k] == N) T_CLOSE(((float *)o.data)[i], in[2][i], 1e-7);
            }
        }
    T_RAN_ON(ctx, t_vectors(target));
    tiny_tape_close(tape);
    t_close(ctx);
    T_PROOF("attention 6", "G = 1 equals plain attention bit for bit");
    T_PROOF("attention 6", "G = N gives the projected values");
    T_PROOF("attention 6", "permutation followed by its inverse is identity");
    T_PROOF("attention 6", "G > 1 with a permutation equals a block mask in permuted order");
}

static void refuse(const tiny_tensor *q, const tiny_tensor *k, tiny_idx slices, int shuffled, const tiny_tensor *order,
                   tiny_status st, const char *says)
{
    tiny_ctx *ctx = t_ctx(t_now.target, 1);
    tiny_tape_desc td;
    tiny_tape *tape;
    tiny_tensor o;
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    if (T_OK(tiny_tape_open(ctx, &td, &tape))) {
        o = tllm_sliced_attention(tape, q, k, k, slices, shuffled, order);
        T_TRUE(!o.data);
        T_STATUS(tiny_tape_status(tape), st, says);
    }
    tiny_tape_close(tape);
    t_close(ctx);
}

/* ---- a stage in plain loops: one block, run twice, 2 slices and then 4 */

enum { SIDE = 4, N = SIDE * SIDE, D = 4, HIDDEN = 6, SMALL = 4, HEADS = 2, LOOPS = 2, IMAGES = 2 };

static tllm_sret_desc small_desc(tiny_dtype dtype)
{
    tllm_sret_desc d;
    memset(&d, 0, sizeof d);
    d.image = 2 * SIDE; d.channels = 2; d.n_stem = 1;
    d.d = D; d.ratio = 1.5; d.nll_ratio = 1.0;
    d.n_stage = 1;
    d.stage[0].n_head = HEADS;
    d.stage[0].depth = LOOPS;
    d.stage[0].distinct = 1;
    d.stage[0].first = 2;
    d.stage[0].again = 4;
    d.n_class = 3;
    d.seed = 11;
    d.dtype = dtype;
    return d;
}

static const double *weight(const tllm_sret *s, const char *prefix, const char *name)
{
    char full[80];
    const tiny_param *p;
    size_t n, i;
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    p = tllm_sret_params(s, &n);
    for (i = 0; i < n; i++) if (!strcmp(p[i].name, full)) return (const double *)p[i].value.data;
    t_fail(__FILE__, __LINE__, "there is no %s", full);
    return (const double *)p[0].value.data;
}

static void norm(const double *g, const double *b, const double *x, double *y)
{
    double mean = 0, var = 0;
    int i;
    for (i = 0; i < D; i++) mean += x[i] / D;
    for (i = 0; i < D; i++) var += (x[i] - mean) * (x[i] - mean) / D;
    for (i = 0; i < D; i++) y[i] = g[i] * (x[i] - mean) / sqrt(var + (double)1e-6f) + b[i];
}

static void wide(const tllm_sret *s, const char *prefix, int hidden, double x[D])
{
    double y[D], up, add[D];
    int i, j;
    norm(weight(s, prefix, "norm2.weight"), weight(s, prefix, "norm2.bias"), x, y);
    for (i = 0; i < D; i++) add[i] = weight(s, prefix, "mlp.fc2.bias")[i];
    for (j = 0; j < hidden; j++) {
        for (up = weight(s, prefix, "mlp.fc1.bias")[j], i = 0; i < D; i++)
            up += weight(s, prefix, "mlp.fc1.weight")[j * D + i] * y[i];
        up *= 0.5 * (1 + erf(up / sqrt(2.0)));
        for (i = 0; i < D; i++) add[i] += weight(s, prefix, "mlp.fc2.weight")[i * hidden + j] * up;
    }
    for (i = 0; i < D; i++) x[i] = weight(s, prefix, "scale.2")[0] * x[i] + weight(s, prefix, "scale.3")[0] * add[i];
}

/* order: of the second run */
static void plain(const tllm_sret *s, const uint32_t *order, double x[N][D])
{
    static const char *const block = "stages.0.blocks.0.";
    static double q[N][3 * D], o[N][D];
    double y[D], a[N];
    char prefix[40];
    int l, t, u, h, i, j, place[N];
    for (l = 0; l < LOOPS; l++) {
        const int each = l ? N / 4 : N / 2, w = D / HEADS;
        for (t = 0; t < N; t++) place[l ? order[t] : (uint32_t)t] = t;
        for (t = 0; t < N; t++) {
            norm(weight(s, block, "norm1.weight"), weight(s, block, "norm1.bias"), x[t], y);
            for (i = 0; i < 3 * D; i++)
                for (q[t][i] = weight(s, block, "attn.qkv.bias")[i], j = 0; j < D; j++)
                    q[t][i] += weight(s, block, "attn.qkv.weight")[i * D + j] * y[j];
        }
        for (t = 0; t < N; t++)
            for (h = 0; h < HEADS; h++) {
                double sum = 0;
                for (u = 0; u < N; u++) {
                    for (a[u] = 0, i = 0; i < w; i++)
                        a[u] += q[t][h * w + i] * q[u][D + h * w + i] * (double)(float)(1 / sqrt((double)w));
                    a[u] = place[t] / each == place[u] / each ? exp(a[u]) : 0;
                    sum += a[u];
                }
                for (i = 0; i < w; i++)
                    for (o[t][h * w + i] = 0, u = 0; u < N; u++)
                        o[t][h * w + i] += a[u] / sum * q[u][2 * D + h * w + i];
            }
        for (t = 0; t < N; t++) {
            for (i = 0; i < D; i++)
                for (y[i] = weight(s, block, "attn.proj.bias")[i], j = 0; j < D; j++)
                    y[i] += weight(s, block, "attn.proj.weight")[i * D + j] * o[t][j];
            for (i = 0; i < D; i++)
                x[t][i] = weight(s, block, "scale.0")[0] * x[t][i] + weight(s, block, "scale.1")[0] * y[i];
            wide(s, block, HIDDEN, x[t]);
            (void)snprintf(prefix, sizeof prefix, "stages.0.nll.%d.", l);
            wide(s, prefix, SMALL, x[t]);
        }
    }
}

static double loss_of(const tllm_sret *s, const uint32_t *order, const double *from, const double *by, double *keep)
{
    double x[N][D], sum = 0;
    int b, i;
    for (b = 0; b < IMAGES; b++) {
        for (i = 0; i < N * D; i++) x[i / D][i % D] = from[(i / D * IMAGES + b) * D + i % D];
        plain(s, order, x);
        for (i = 0; i < N * D; i++) {
            const int at = (i / D * IMAGES + b) * D + i % D;
            sum += by[at] * x[i / D][i % D] / (N * IMAGES * D);
            if (keep) keep[at] = x[i / D][i % D];
        }
    }
    return sum;
}

static void test_stage_and_gradient(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tllm_sret_desc d = small_desc(TINY_F64);
    double *from = (double *)t_keep(N * IMAGES * D * 8), *by = (double *)t_keep(N * IMAGES * D * 8),
           want[N * IMAGES * D];
    tiny_tensor x = tiny_tensor_3d(from, TINY_F64, N, IMAGES, D), w = tiny_tensor_3d(by, TINY_F64, N, IMAGES, D), y,
                loss;
    uint32_t order[N];
    tiny_rng rng = tiny_rng_make(d.seed, 1);        /* stage 0, block 0, run 1 */
    tiny_tape_desc td;
    tiny_tape *tape;
    tllm_sret *s;
    const tiny_param *p;
    size_t n, k;
    int i, checked = 0;
    memset(&td, 0, sizeof td);
    td.bytes = 4 << 20;
    if (!T_OK(tllm_sret_open(ctx, &d, &s))) { t_close(ctx); return; }
    tiny_rng_permutation(&rng, order, N);
    for (i = 0; i < N * IMAGES * D; i++) {
        from[i] = (double)t_rand_float(-1, 1);
        by[i] = (double)t_rand_float(-1, 1);
    }
    p = tllm_sret_params(s, &n);
    for (k = 0; k < n; k++)
        for (i = 0; i < tiny_tensor_count(&p[k].value); i++)
            ((double *)p[k].value.data)[i] += (double)t_rand_float(-0.3f, 0.3f);
    if (T_OK(tiny_tape_open(ctx, &td, &tape))) {
        for (k = 0; k < n; k++) T_OK(tiny_tape_param(tape, &p[k]));
        y = tllm_sret_stage_run(tape, s, 0, &x);
        loss = tiny_tape_mul(tape, &y, &w);
        loss = tiny_tape_mean(tape, &loss);
        tiny_tape_zero(tape);
        if (T_OK(tiny_tape_backward(tape, &loss, NULL))) {
            T_CLOSE(*(double *)loss.data, loss_of(s, order, from, by, want), 1e-13);
            for (i = 0; i < N * IMAGES * D; i++) T_CLOSE(((double *)y.data)[i], want[i], 1e-12);
            for (k = 0; k < n; k++) {       /* weights of the block are in both runs: their gradient is the sum */
                const tiny_idx count = tiny_tensor_count(&p[k].value);
                const double *g = (const double *)p[k].grad.data;
                double most = 1e-4;
                tiny_idx j;
                if (strncmp(p[k].name, "stages.", 7) != 0) continue;
                checked++;
                for (j = 0; j < count; j++) most = fabs(g[j]) > most ? fabs(g[j]) : most;
                for (j = 0; j < count; j += 1 + count / 8) {
                    double *at = (double *)p[k].value.data + j, was = *at, up, down;
                    *at = was + 1e-5;
                    up = loss_of(s, order, from, by, NULL);
                    *at = was - 1e-5;
                    down = loss_of(s, order, from, by, NULL);
                    *at = was;
                    if (!T_CLOSE(g[j], (up - down) / 2e-5, 1e-7 * most)) printf("    in %s\n", p[k].name);
                }
            }
        }
        tiny_tape_close(tape);
    }
    T_EQ_INT(checked, 16 + LOOPS * 8);      /* a block once, and a small layer for each run */
    tllm_sret_close(s);
    t_close(ctx);
    T_PROOF("attention 6", "gradient check through shared weights");
    T_PROOF("attention 6", "parameter count: R blocks and L NLLs");
    T_PROOF("attention 6", "loops share one weight copy");
}

/* ---- the network: its gradient with stem, pooling and head; the same call gives the same numbers, unless fresh ones
 * are requested */

static double logits_of(tiny_tape *tape, tllm_sret *s, const tiny_tensor *images, const tiny_tensor *by, int back,
                        double *keep)
{
    const tiny_tape_mark mark = tiny_tape_now(tape);
    tiny_tensor y = tllm_sret_logits(tape, s, images), loss = tiny_tape_mul(tape, &y, by);
    double sum = 0;
    loss = tiny_tape_mean(tape, &loss);
    if (T_OK(tiny_tape_status(tape))) {
        sum = *(double *)loss.data;
        if (keep) memcpy(keep, y.data, (size_t)tiny_tensor_count(&y) * 8);
        if (back) {
            tiny_tape_zero(tape);
            T_OK(tiny_tape_backward(tape, &loss, NULL));
        }
    }
    tiny_tape_release(tape, mark);
    return sum;
}

static void test_network(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sret_desc d = small_desc(TINY_F64);
    double *pixels = (double *)t_keep(2 * 2 * 64 * 8), *by = (double *)t_keep(6 * 8), first[6], again[6];
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F64, 2, 2, 8, 8), w = tiny_tensor_2d(by, TINY_F64, 2, 3);
    tiny_tape_desc td;
    int i, fresh;
    memset(&td, 0, sizeof td);
    td.bytes = 8 << 20;
    for (i = 0; i < 256; i++) pixels[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < 6; i++) by[i] = (double)t_rand_float(-1, 1);
    d.n_stage = 2;                          /* 16 tokens, then 4 of 8 numbers */
    d.stage[1].n_head = 4; d.stage[1].depth = 3; d.stage[1].distinct = 1; d.stage[1].first = 1; d.stage[1].again = 2;
    for (fresh = 0; fresh < 2; fresh++) {
        tllm_sret *s;
        tiny_tape *tape = NULL;
        const tiny_param *p;
        size_t n, k;
        d.fresh = fresh;
        if (!T_OK(tllm_sret_open(ctx, &d, &s)) || !T_OK(tiny_tape_open(ctx, &td, &tape))) { tllm_sret_close(s); break; }
        T_EQ_INT(tllm_sret_tokens(s, 0), 16);
        T_EQ_INT(tllm_sret_tokens(s, 1), 4);
        T_EQ_INT(tllm_sret_tokens(s, 2), 0);
        p = tllm_sret_params(s, &n);
        for (k = 0; k < n; k++) {
            for (i = 0; i < tiny_tensor_count(&p[k].value); i++)
                ((double *)p[k].value.data)[i] += (double)t_rand_float(-0.2f, 0.2f);
            T_OK(tiny_tape_param(tape, &p[k]));
        }
        tllm_sret_training(s, 1);
        (void)logits_of(tape, s, &images, &w, !fresh, first);
        (void)logits_of(tape, s, &images, &w, !fresh, again);
        for (i = 0, k = 0; i < 6; i++) k += fabs(first[i] - again[i]) > 1e-9;
        T_TRUE(fresh ? k > 0 : k == 0);
        for (k = 0; k < n && !fresh; k++) {
            const tiny_idx count = tiny_tensor_count(&p[k].value);
            const double *g = (const double *)p[k].grad.data;
            double most = 1e-4;
            tiny_idx j;
            for (j = 0; j < count; j++) most = fabs(g[j]) > most ? fabs(g[j]) : most;
            for (j = 0; j < count; j += 1 + count / 3) {
                double *at = (double *)p[k].value.data + j, was = *at, up, down;
                *at = was + 1e-6;
                up = logits_of(tape, s, &images, &w, 0, NULL);
                *at = was - 1e-6;
                down = logits_of(tape, s, &images, &w, 0, NULL);
                *at = was;
                if (!T_CLOSE(g[j], (up - down) / 2e-6, 2e-6 * most)) printf("    in %s\n", p[k].name);
            }
        }
        /* judged by running values: an image alone has the same logits as among others */
        tllm_sret_training(s, 0);
        if (!fresh) {
            tiny_tensor one = images, w1 = w;
            one.dim[0] = w1.dim[0] = 1;
            (void)logits_of(tape, s, &images, &w, 0, first);
            (void)logits_of(tape, s, &one, &w1, 0, again);
            for (i = 0; i < 3; i++) T_CLOSE(again[i], first[i], 1e-12);
        }
        tiny_tape_close(tape);
        tllm_sret_close(s);
    }
    t_close(ctx);
}

/* SReT-T at 784, 196 and 49 tokens, matrices only, wide layers of 3.6 d as the paper counts them */
static void test_figures(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    double sliced = 0, whole = 0, once = 0, weights = 0, apart = 0, made = 0;
    tllm_sret_desc d;
    tllm_sret *s;
    tiny_idx i, l;
    size_t n, k;
    const tiny_param *p;
    tllm_sret_tiny(&d);
    if (!T_OK(tllm_sret_open(ctx, &d, &s))) { t_close(ctx); return; }
    for (i = 0; i < d.n_stage; i++) {
        const tllm_sret_stage *t = &d.stage[i];
        const double c = 64.0 * (double)(1 << i), tokens = (double)tllm_sret_tokens(s, i),
                     block = 4 * c * c + 2 * 3.6 * c * c, nll = 2 * c * c;
        for (l = 0; l < t->depth; l++) {
            const tiny_idx g = l % (t->depth / t->distinct) ? t->again : t->first;
            whole += (block + nll) * tokens + 2 * tokens * tokens * c;
            sliced += (block + nll) * tokens + 2 * tokens * tokens * c / (double)g;
        }
        once += (double)t->distinct * (block * tokens + 2 * tokens * tokens * c);
        weights += (double)t->distinct * block + (double)t->depth * nll;
        apart += (double)t->depth * block;
    }
    T_CLOSE(whole * 1e-6, 1268.2, 0.05);
    T_CLOSE(sliced * 1e-6, 1015.0, 0.05);
    T_CLOSE(sliced / whole, 0.800, 0.0005);
    T_CLOSE(once * 1e-6, 569.9, 0.05);
    T_CLOSE(weights * 1e-6, 4.36, 0.005);
    T_CLOSE(apart * 1e-6, 6.42, 0.005);
    p = tllm_sret_params(s, &n);            /* and ours: the same, except for 3.6 d rounded down */
    for (k = 0; k < n; k++)
        if (!strncmp(p[k].name, "stages.", 7) && !p[k].group && p[k].value.rank == 2)
            made += (double)tiny_tensor_count(&p[k].value);
    T_CLOSE(made / weights, 1, 0.002);
    T_TRUE(made <= weights);
    tllm_sret_close(s);
    t_close(ctx);
    T_PROOF("attention 6", "SReT-T: 1268.2 M, 1015.0 M, 0.800, 569.9 M multiply-adds");
    T_PROOF("attention 6", "SReT-T: 4.36 M parameters against 6.42 M");
}

static void test_learns(void)
{
    enum { MANY = 96 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_sret_desc d = small_desc(TINY_F32);
    float *pixels = t_rand(MANY * 128, -1, 1);
    int32_t *label = (int32_t *)t_keep(MANY * sizeof *label);
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, MANY, 2, 8, 8),
                labels = tiny_tensor_1d(label, TINY_I32, MANY);
    tllm_sret *s;
    tllm_vit_task task;
    tiny_train_desc td;
    tiny_idx right = 0;
    int i, j;
    memset(&task, 0, sizeof task);
    memset(&td, 0, sizeof td);
    for (i = 0; i < MANY; i++) {            /* bright on the left, on the right, or nowhere */
        label[i] = i % 3;
        for (j = 0; j < 128 && label[i] < 2; j++) if ((j % 8 < 4) == (label[i] == 0)) pixels[i * 128 + j] += 1.0f;
    }
    if (T_OK(tllm_sret_open(ctx, &d, &s))) {
        task.other = tllm_sret_logits;
        task.net = s;
        task.images = &images;
        task.labels = &labels;
        td.params = tllm_sret_params(s, &td.n_params);
        td.model = tllm_vit_loss;
        td.user = &task;
        td.n_samples = MANY;
        td.batch = 16;
        td.epochs = 30;
        td.optim.group[0].lr = td.optim.group[1].lr = 1e-2;
        td.schedule.kind = TINY_SCHEDULE_COSINE;
        tllm_sret_training(s, 1);
        T_OK(tiny_train(ctx, &td, NULL));
        tllm_sret_training(s, 0);
        T_OK(tllm_vit_right(ctx, &task, 0, MANY, &right));
        T_TRUE(right >= MANY - 6);
        if (right < MANY - 6) printf("    %d of %d\n", (int)right, MANY);
    }
    tllm_sret_close(s);
    t_close(ctx);
}

static void bad(const tllm_sret_desc *d, const char *says)
{
    tiny_ctx *ctx = t_ctx(t_now.target, 1);
    tllm_sret *s;
    T_STATUS(tllm_sret_open(ctx, d, &s), TINY_E_ARGUMENT, says);
    T_TRUE(!s);
    t_close(ctx);
}

static void test_bad(tiny_target target)
{
    float *x = t_rand(12 * 4, -1, 1);
    int32_t order[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10 };
    tiny_tensor q = tiny_tensor_3d(x, TINY_F32, 12, 2, 2), fewer = tiny_tensor_3d(x, TINY_F32, 11, 2, 2),
                p = tiny_tensor_1d(order, TINY_I32, 12);
    tllm_sret_desc d;
    refuse(&q, &q, 5, 0, NULL, TINY_E_SHAPE, "do not divide the tokens");
    refuse(&q, &q, 0, 0, NULL, TINY_E_SHAPE, "do not divide the tokens");
    refuse(&q, &fewer, 1, 0, NULL, TINY_E_SHAPE, "of the same tokens");
    refuse(&q, &q, 2, 1, NULL, TINY_E_ARGUMENT, "needs an order");
    refuse(&q, &q, 2, 1, &p, TINY_E_ARGUMENT, "does not contain each token");
    order[11] = 12;
    refuse(&q, &q, 2, 1, &p, TINY_E_ARGUMENT, "does not contain each token");
    p.dim[0] = 11;
    refuse(&q, &q, 2, 1, &p, TINY_E_SHAPE, "one number for each token");
    d = small_desc(TINY_F32); d.stage[0].first = 3; bad(&d, "3 and 4 slices do not divide 16 tokens");
    d = small_desc(TINY_F32); d.stage[0].distinct = 3; bad(&d, "a depth of 2 (1 to 64) is not a multiple of 3 blocks");
    d = small_desc(TINY_F32); d.stage[0].distinct = 0; bad(&d, "not a multiple of 0");
    d = small_desc(TINY_F32); d.stage[0].n_head = 3; bad(&d, "3 heads do not divide 4");
    d = small_desc(TINY_F32); d.image = 9; bad(&d, "9 pixels cannot be halved 1 times");
    d = small_desc(TINY_F32);
    d.image = 6;
    d.n_stage = 2;
    d.stage[0].first = d.stage[0].again = 1;
    d.stage[1] = d.stage[0];
    bad(&d, "3 x 3 tokens cannot be halved");
    d = small_desc(TINY_F32); d.n_stage = 5; bad(&d, "5 stages");
    d = small_desc(TINY_F32); d.ratio = (double)NAN; bad(&d, "wide layers");
    d = small_desc(TINY_F32); d.d = 5; bad(&d, "5 numbers of a token");
    tllm_sret_close(NULL);
    (void)target;                           /* the workers read t_now */
    T_PROOF("attention 6", "bad input: N % G, L % R, odd sizes after pooling, null permutation");
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_sret *s = NULL;
        const tllm_sret_desc d = small_desc(TINY_F32);
        if (!tiny_ctx_open(&cd, &ctx)) {
            const tiny_status st = tllm_sret_open(ctx, &d, &s);
            T_TRUE(st ? st == TINY_E_MEMORY && !s : s != NULL);
            tllm_sret_close(s);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_slices);
    T_RUN_FORMS(test_stage_and_gradient);
    T_RUN(test_network);
    T_RUN_FORMS(test_figures);
    T_RUN(test_learns);
    T_RUN_FORMS(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
