/* tests/llm/lab/vision/vit.c - the vision transformer: against plain loops, every gradient against central differences,
 * its hooks, and that it learns */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum {
    SIZE = 6,
    PATCH = 3,
    COLOURS = 2,
    D = 8,
    HIDDEN = 12,
    HEADS = 2,
    BLOCKS = 2,
    CLASSES = 3,
    BATCH = 3,
    T = 1 + (SIZE / PATCH) * (SIZE / PATCH),
    PIXELS = COLOURS * SIZE * SIZE
};

static tllm_vit_desc small_desc(tiny_dtype dtype)
{
    tllm_vit_desc d;
    memset(&d, 0, sizeof d);
    d.image = SIZE; d.patch = PATCH; d.channels = COLOURS;
    d.d = D; d.hidden = HIDDEN; d.n_head = HEADS; d.n_block = BLOCKS; d.n_class = CLASSES;
    d.seed = 5;
    d.dtype = dtype;
    return d;
}

static double num(const tiny_tensor *t, tiny_idx i)
{
    return t->dtype == TINY_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static double weight(const tllm_vit *v, int block, const char *name, tiny_idx i)
{
    char full[64];
    const tiny_param *p;
    if (block < 0) (void)snprintf(full, sizeof full, "%s", name);
    else (void)snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    p = tllm_vit_param(v, full);
    if (!p) { t_fail(__FILE__, __LINE__, "there is no %s", full); return 0; }
    return num(&p->value, i);
}

static void norm(const tllm_vit *v, int block, const char *name, const double *x, double *y)
{
    char w[40], b[40];
    double mean = 0, var = 0;
    int i;
    (void)snprintf(w, sizeof w, "%s.weight", name);
    (void)snprintf(b, sizeof b, "%s.bias", name);
    for (i = 0; i < D; i++) mean += x[i] / D;
    for (i = 0; i < D; i++) var += (x[i] - mean) * (x[i] - mean) / D;
    for (i = 0; i < D; i++)
        y[i] = weight(v, block, w, i) * (x[i] - mean) / sqrt(var + (double)1e-6f) + weight(v, block, b, i);
}

/* one image through the network, in plain loops; times: the factor of the attention output */
static void plain(const tllm_vit *v, const double *image, double times, double *logits)
{
    static double x[T][D], y[T][D], q[T][3 * D], o[T][D];
    double a[T], up[HIDDEN];
    int b, t, u, i, j, h, c, r, s;
    for (i = 0; i < D; i++) x[0][i] = weight(v, -1, "cls_token", i);
    for (t = 1; t < T; t++)
        for (i = 0; i < D; i++) {
            const int pr = (t - 1) / (SIZE / PATCH), pc = (t - 1) % (SIZE / PATCH);
            x[t][i] = weight(v, -1, "patch_embed.proj.bias", i);
            for (c = 0; c < COLOURS; c++)
                for (r = 0; r < PATCH; r++)
                    for (s = 0; s < PATCH; s++)
                        x[t][i] +=
                            weight(v, -1, "patch_embed.proj.weight", ((i * COLOURS + c) * PATCH + r) * PATCH + s) *
                            image[(c * SIZE + pr * PATCH + r) * SIZE + pc * PATCH + s];
        }
    for (t = 0; t < T; t++) for (i = 0; i < D; i++) x[t][i] += weight(v, -1, "pos_embed", t * D + i);
    for (b = 0; b < BLOCKS; b++) {
        for (t = 0; t < T; t++) {
            norm(v, b, "norm1", x[t], y[t]);
            for (i = 0; i < 3 * D; i++)
                for (q[t][i] = weight(v, b, "attn.qkv.bias", i), j = 0; j < D; j++)
                    q[t][i] += weight(v, b, "attn.qkv.weight", i * D + j) * y[t][j];
        }
        for (t = 0; t < T; t++)
            for (h = 0; h < HEADS; h++) {
                const int w = D / HEADS;
                double sum = 0;
                for (u = 0; u < T; u++) {
                    for (a[u] = 0, i = 0; i < w; i++)
                        a[u] += q[t][h * w + i] * q[u][D + h * w + i] * (double)(float)(1 / sqrt((double)w));
                    sum += a[u] = exp(a[u]);
                }
                for (i = 0; i < w; i++)
                    for (o[t][h * w + i] = 0, u = 0; u < T; u++)
                        o[t][h * w + i] += times * a[u] / sum * q[u][2 * D + h * w + i];
            }
        for (t = 0; t < T; t++) {
            for (i = 0; i < D; i++)
                for (x[t][i] += weight(v, b, "attn.proj.bias", i), j = 0; j < D; j++)
                    x[t][i] += weight(v, b, "attn.proj.weight", i * D + j) * o[t][j];
            norm(v, b, "norm2", x[t], y[t]);
            for (i = 0; i < HIDDEN; i++) {
                for (up[i] = weight(v, b, "mlp.fc1.bias", i), j = 0; j < D; j++)
                    up[i] += weight(v, b, "mlp.fc1.weight", i * D + j) * y[t][j];
                up[i] *= 0.5 * (1 + erf(up[i] / sqrt(2.0)));
            }
            for (i = 0; i < D; i++)
                for (x[t][i] += weight(v, b, "mlp.fc2.bias", i), j = 0; j < HIDDEN; j++)
                    x[t][i] += weight(v, b, "mlp.fc2.weight", i * HIDDEN + j) * up[j];
        }
    }
    norm(v, -1, "norm", x[0], y[0]);
    for (i = 0; i < CLASSES; i++)
        for (logits[i] = weight(v, -1, "head.bias", i), j = 0; j < D; j++)
            logits[i] += weight(v, -1, "head.weight", i * D + j) * y[0][j];
}

static void shake(tllm_vit *v)              /* so that no weight is special */
{
    size_t n, k;
    const tiny_param *p = tllm_vit_params(v, &n);
    for (k = 0; k < n; k++) {
        tiny_idx i;
        for (i = 0; i < tiny_tensor_count(&p[k].value); i++)
            ((double *)p[k].value.data)[i] += (double)t_rand_float(-0.3f, 0.3f);
    }
}

/* a mixer that doubles the attention output */
typedef struct doubler { int mixed, between; tiny_idx tokens; } doubler;
static tiny_tensor twice(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *q, const tiny_tensor *k,
                         const tiny_tensor *v)
{
    tiny_tensor o = tiny_tape_call(tape, TINY_OP_ATTENTION, q, k, v, NULL, NULL);
    ((doubler *)user)->mixed++;
    T_EQ_INT(at->batch * at->n_head, q->dim[1]);
    return tiny_tape_scale(tape, &o, 2.0, 0.0);
}
static tiny_tensor first_only(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *x,
                              const tiny_tensor *k)
{
    tiny_tensor y = *x;
    (void)tape;
    ((doubler *)user)->between++;
    ((doubler *)user)->tokens = x->dim[0];
    T_EQ_INT(k->dim[0], x->dim[0]);
    /* the layers after the last attention need the class token only */
    if (at->i_block == BLOCKS - 1) y.dim[0] = 1;
    return y;
}

static void test_plain_and_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_vit_desc d = small_desc(TINY_F64);
    double *pixels = (double *)t_keep(BATCH * PIXELS * 8), *by = (double *)t_keep(BATCH * CLASSES * 8), want[CLASSES];
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F64, BATCH, COLOURS, SIZE, SIZE),
                w = tiny_tensor_2d(by, TINY_F64, BATCH, CLASSES), y, loss;
    tiny_tape_desc td;
    tiny_tape *tape;
    tllm_vit *v;
    tllm_vit_hooks hooks;
    doubler two;
    size_t n, k;
    const tiny_param *p;
    int i, c, turn;
    memset(&td, 0, sizeof td);
    memset(&hooks, 0, sizeof hooks);
    memset(&two, 0, sizeof two);
    td.bytes = 4 << 20;
    hooks.user = &two;
    hooks.mix = twice;
    hooks.between = first_only;
    for (i = 0; i < BATCH * PIXELS; i++) pixels[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < BATCH * CLASSES; i++) by[i] = (double)t_rand_float(-1, 1);
    if (!T_OK(tllm_vit_open(ctx, &d, &v))) { t_close(ctx); return; }
    T_EQ_INT(tllm_vit_tokens(v), T);
    shake(v);
    p = tllm_vit_params(v, &n);
    T_EQ_INT(n, 8 + 12 * BLOCKS);
    for (turn = 0; turn < 2; turn++) {
        if (!T_OK(tiny_tape_open(ctx, &td, &tape))) break;
        for (k = 0; k < n; k++) T_OK(tiny_tape_param(tape, &p[k]));
        y = tllm_vit_run(tape, v, &images, turn ? &hooks : NULL);
        loss = tiny_tape_mul(tape, &y, &w);
        loss = tiny_tape_mean(tape, &loss);
        tiny_tape_zero(tape);
        if (!T_OK(tiny_tape_backward(tape, &loss, NULL))) { tiny_tape_close(tape); break; }
        for (i = 0; i < BATCH; i++) {
            plain(v, pixels + i * PIXELS, turn ? 2 : 1, want);
            for (c = 0; c < CLASSES; c++)
                T_CLOSE(((double *)y.data)[i * CLASSES + c], want[c], 1e-12 * (1 + fabs(want[c])));
        }
        for (k = 0; k < n; k++) {
            const tiny_idx count = tiny_tensor_count(&p[k].value);
            double most = 1e-4;
            tiny_idx j;
            for (j = 0; j < count; j++) most = fabs(num(&p[k].grad, j)) > most ? fabs(num(&p[k].grad, j)) : most;
            for (j = 0; j < count; j += 1 + count / 7) {
                double *at = (double *)p[k].value.data + j, was = *at, up = 0, down = 0;
                *at = was + 1e-5;
                for (i = 0; i < BATCH; i++)
                    for (plain(v, pixels + i * PIXELS, turn ? 2 : 1, want), c = 0; c < CLASSES; c++)
                        up += by[i * CLASSES + c] * want[c] / (BATCH * CLASSES);
                *at = was - 1e-5;
                for (i = 0; i < BATCH; i++)
                    for (plain(v, pixels + i * PIXELS, turn ? 2 : 1, want), c = 0; c < CLASSES; c++)
                        down += by[i * CLASSES + c] * want[c] / (BATCH * CLASSES);
                *at = was;
                if (!T_CLOSE(num(&p[k].grad, j), (up - down) / 2e-5, 1e-6 * most)) printf("    in %s\n", p[k].name);
            }
        }
        tiny_tape_close(tape);
    }
    T_EQ_INT(two.mixed, BLOCKS);
    T_EQ_INT(two.between, BLOCKS);
    T_EQ_INT(two.tokens, T);
    tllm_vit_close(v);
    t_close(ctx);
}

/* every target gives the same logits within rounding, for batches of one and more */
static void test_targets(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const tllm_vit_desc d = small_desc(TINY_F32);
    float *pixels = t_rand(BATCH * PIXELS, -1, 1);
    double image[PIXELS], want[CLASSES];
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, BATCH, COLOURS, SIZE, SIZE), y, one;
    tiny_tape_desc td;
    tiny_tape *tape;
    tllm_vit *v;
    int i, c;
    memset(&td, 0, sizeof td);
    td.bytes = 4 << 20;
    td.no_grad = 1;
    if (T_OK(tllm_vit_open(ctx, &d, &v)) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
        y = tllm_vit_run(tape, v, &images, NULL);
        T_OK(tiny_tape_status(tape));
        T_EQ_INT(tiny_tape_count(tape), 0);
        for (i = 0; i < BATCH && y.data; i++) {
            const tiny_tensor single = tiny_tensor_4d(pixels + i * PIXELS, TINY_F32, 1, COLOURS, SIZE, SIZE);
            for (c = 0; c < PIXELS; c++) image[c] = (double)pixels[i * PIXELS + c];
            plain(v, image, 1, want);
            one = tllm_vit_run(tape, v, &single, NULL);
            /* some 30 sums of at most 20 products, each relative to its largest addend: 2^-24 * 600 */
            for (c = 0; c < CLASSES; c++) {
                T_CLOSE(((float *)y.data)[i * CLASSES + c], want[c], 4e-5);
                T_CLOSE(((float *)one.data)[c], want[c], 4e-5);
            }
        }
        T_RAN_ON(ctx, t_vectors(target));
        tiny_tape_close(tape);
    }
    tllm_vit_close(v);
    t_close(ctx);
}

static tiny_tensor nothing_left(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *x,
                                const tiny_tensor *k)
{
    tiny_tensor y = *x;
    (void)tape; (void)user; (void)at; (void)k;
    y.dim[0] = 0;
    return y;
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const struct { tllm_vit_desc d; tiny_status st; const char *says;
    } bad[] = { { { 32, 5, 0, 0, 0, 0, 0, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "5 pixels do not divide" },
                { { -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "do not divide" },
                { { 65536, 1, 0, 0, 0, 0, 0, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "32767" },
                { { 0, 0, 0, 10, 0, 4, 0, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "4 heads do not divide 10" },
                { { 0, 0, -3, 0, 0, 0, 0, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "-3 colours" },
                { { 0, 0, 0, 0, 0, 0, 257, 0, 0, 0, TINY_F32 }, TINY_E_ARGUMENT, "257 blocks" },
                { { 0, 0, 0, 0, 0, 0, 0, 0, -1.0, 0, TINY_F32 }, TINY_E_ARGUMENT, "eps" },
                { { 0, 0, 0, 0, 0, 0, 0, 0, (double)NAN, 0, TINY_F32 }, TINY_E_ARGUMENT, "eps" },
                { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TINY_F16 }, TINY_E_DTYPE, "f32 or f64" } };
    float *pixels = t_rand(2 * PIXELS, -1, 1);
    int32_t label[2] = { 0, 1 };
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, 2, COLOURS, SIZE, SIZE),
                labels = tiny_tensor_1d(label, TINY_I32, 2), wrong = images, y;
    tllm_vit_desc d = small_desc(TINY_F32);
    tllm_vit_task task;
    tllm_vit_hooks hooks;
    tiny_tape_desc td;
    tiny_tape *tape;
    tllm_vit *v;
    tiny_idx right = 9;
    size_t i;
    memset(&hooks, 0, sizeof hooks);
    memset(&td, 0, sizeof td);
    memset(&task, 0, sizeof task);
    td.bytes = 1 << 20;
    for (i = 0; i < T_COUNT(bad); i++) {
        T_STATUS(tllm_vit_open(ctx, &bad[i].d, &v), bad[i].st, bad[i].says);
        T_TRUE(!v);
    }
    T_STATUS(tllm_vit_open(ctx, NULL, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    d.n_head = 1; d.d = 1 << 20; d.hidden = 1 << 22; d.n_block = 256;
    T_TRUE(tllm_vit_open(ctx, &d, &v) == (sizeof(size_t) == 8 ? TINY_E_MEMORY : TINY_E_OVERFLOW));
    d = small_desc(TINY_F32);
    if (T_OK(tllm_vit_open(ctx, &d, &v)) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
        const tiny_tape_mark start = tiny_tape_now(tape);
        wrong.dim[1] = 1;
        y = tllm_vit_run(tape, v, &wrong, NULL);
        T_TRUE(!y.data);
        T_TRUE(tiny_tape_status(tape) == TINY_E_SHAPE && strstr(tiny_ctx_message(ctx), "images must be"));
        tiny_tape_release(tape, start);
        hooks.between = nothing_left;
        y = tllm_vit_run(tape, v, &images, &hooks);
        T_TRUE(!y.data && tiny_tape_status(tape) == TINY_E_SHAPE &&
               strstr(tiny_ctx_message(ctx), "a hook must leave tokens"));
        tiny_tape_close(tape);
        T_TRUE(!tllm_vit_param(v, "head") && !tllm_vit_block_of(v, BLOCKS) && tllm_vit_is(v)->hidden == HIDDEN);
        T_STATUS(tllm_vit_right(ctx, &task, 0, 1, &right), TINY_E_ARGUMENT, "are needed");
        task.vit = v;
        task.images = &images;
        task.labels = &labels;
        T_STATUS(tllm_vit_right(ctx, &task, 1, 2, &right), TINY_E_ARGUMENT, "images 1 to 3 of 2");
        T_OK(tllm_vit_right(ctx, &task, 1, 0, &right));
        T_EQ_INT(right, 0);
        labels.dim[0] = 1;
        T_STATUS(tllm_vit_right(ctx, &task, 0, 1, &right), TINY_E_SHAPE, "an i32 label for each");
    }
    tllm_vit_close(v);
    tllm_vit_close(NULL);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        const tllm_vit_desc d = small_desc(TINY_F32);
        float pixels[PIXELS];
        int32_t label[1] = { 0 };
        tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, 1, COLOURS, SIZE, SIZE),
                    labels = tiny_tensor_1d(label, TINY_I32, 1);
        tllm_vit_task task;
        tllm_vit *v = NULL;
        tiny_idx right;
        memset(pixels, 0, sizeof pixels);
        memset(&task, 0, sizeof task);
        if (!tiny_ctx_open(&cd, &ctx)) {
            tiny_status st = tllm_vit_open(ctx, &d, &v);
            T_TRUE(st ? !v && st == TINY_E_MEMORY : v != NULL);
            task.vit = v;
            task.images = &images;
            task.labels = &labels;
            if (v) (void)tllm_vit_right(ctx, &task, 0, 1, &right);
            tllm_vit_close(v);
            tiny_ctx_close(ctx);
        }
    })
}

/* images that are bright on the left, on the right, or nowhere: learnt in a few epochs, the same twice */
static void test_learns(void)
{
    enum { N = 96 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_vit_desc d = small_desc(TINY_F32);
    float *pixels = t_rand(N * PIXELS, -1, 1);
    int32_t *label = (int32_t *)t_keep(N * sizeof *label);
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, N, COLOURS, SIZE, SIZE),
                labels = tiny_tensor_1d(label, TINY_I32, N);
    tiny_train_state last[2];
    tiny_idx right = 0, i, j;
    int turn;
    for (i = 0; i < N; i++) {
        label[i] = (int32_t)(i % CLASSES);
        for (j = 0; j < PIXELS && label[i] < 2; j++)
            if ((j % SIZE < SIZE / 2) == (label[i] == 0)) pixels[i * PIXELS + j] += 1.0f;
    }
    for (turn = 0; turn < 2; turn++) {
        tllm_vit *v;
        tllm_vit_task task;
        tiny_train_desc td;
        memset(&task, 0, sizeof task);
        memset(&td, 0, sizeof td);
        if (!T_OK(tllm_vit_open(ctx, &d, &v))) break;
        task.vit = v;
        task.images = &images;
        task.labels = &labels;
        td.params = tllm_vit_params(v, &td.n_params);
        td.model = tllm_vit_loss;
        td.user = &task;
        td.n_samples = N;
        td.batch = 16;
        td.epochs = 30;
        td.optim.group[0].lr = td.optim.group[1].lr = 5e-3;
        td.optim.group[0].decay = 0.05;
        td.schedule.kind = TINY_SCHEDULE_COSINE;
        T_OK(tiny_train(ctx, &td, &last[turn]));
        T_OK(tllm_vit_right(ctx, &task, 0, N, &right));
        T_TRUE(right >= N - 4);
        if (right < N - 4) printf("    %d of %d, loss %g\n", (int)right, N, last[turn].loss);
        tllm_vit_close(v);
    }
    T_SAME(&last[0].loss, &last[1].loss, 1);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_plain_and_gradient);
    T_RUN_FORMS(test_targets);
    T_RUN(test_bad);
    T_RUN(test_memory);
    T_RUN(test_learns);
    return t_done();
}
#endif
