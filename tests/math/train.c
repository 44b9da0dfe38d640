/* tests/math/train.c - the training loop: it learns, stops, saves, continues to the same bits after a stop, and fails
 * with a sentence */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

/* 60 points in the plane, class: above or below a line; one dense layer */
typedef struct task {
    float x[120], w[4], b[2], gw[4], gb[2];
    int32_t label[60];
    tiny_tensor tx, tl;
    tiny_param p[2];
    double first, last;
    int64_t calls, stop_at;
    int break_at;
    uint32_t seen[60];
} task;

static void make(task *t)
{
    size_t i;
    memset(t, 0, sizeof *t);
    t_now.rand_at = 99;
    for (i = 0; i < 60; i++) {
        t->x[2 * i] = t_rand_float(-1, 1);
        t->x[2 * i + 1] = t_rand_float(-1, 1);
        t->label[i] = t->x[2 * i] + 0.5f * t->x[2 * i + 1] > 0.1f;
    }
    t->tx = tiny_tensor_2d(t->x, TINY_F32, 60, 2);
    t->tl = tiny_tensor_1d(t->label, TINY_I32, 60);
    t->p[0].name = "w";
    t->p[0].value = tiny_tensor_2d(t->w, TINY_F32, 2, 2);
    t->p[0].grad = tiny_tensor_2d(t->gw, TINY_F32, 2, 2);
    t->p[1].name = "b";
    t->p[1].value = tiny_tensor_1d(t->b, TINY_F32, 2);
    t->p[1].grad = tiny_tensor_1d(t->gb, TINY_F32, 2);
}

static tiny_tensor loss_of(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    task *t = (task *)user;
    tiny_tensor x = tiny_tape_rows(tape, &t->tx, sample, n), label = tiny_tape_rows(tape, &t->tl, sample, n), y;
    tiny_idx i;
    for (i = 0; !tiny_tape_dry(tape) && i < n; i++) t->seen[sample[i]]++;
    if (!tiny_tape_dry(tape) && t->break_at && t->calls + 1 == t->break_at) ((float *)x.data)[0] = NAN;
    y = tiny_tape_linear(tape, &x, &t->p[0].value, &t->p[1].value, TINY_ACT_NONE);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}

static int watch(void *user, const tiny_train_state *s)
{
    task *t = (task *)user;
    if (!t->calls) t->first = s->loss;
    t->last = s->loss;
    t->calls++;
    return t->stop_at && s->step == t->stop_at;
}

static tiny_train_desc desc_of(task *t)
{
    tiny_train_desc d;
    memset(&d, 0, sizeof d);
    d.params = t->p;
    d.n_params = 2;
    d.model = loss_of;
    d.callback = watch;
    d.user = t;
    d.n_samples = 60;
    d.batch = 15;
    d.epochs = 30;
    d.seed = 3;
    d.optim.group[0].lr = 0.1;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    return d;
}

static void test_learns(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_train_state s;
    tiny_train_desc d;
    task t;
    size_t i, right = 0;
    make(&t);
    d = desc_of(&t);
    T_OK(tiny_train(ctx, &d, &s));
    T_EQ_INT(s.step, 120);
    T_EQ_INT(s.epoch, 29);
    T_EQ_INT(t.calls, 120);
    T_CLOSE(t.first, log(2.0), 1e-6);       /* all weights 0: both classes alike */
    T_TRUE(t.last < 0.25);
    for (i = 0; i < 60; i++) {
        T_EQ_INT(t.seen[i], 30);            /* each sample once an epoch */
        right += (t.w[2] * t.x[2 * i] + t.w[3] * t.x[2 * i + 1] + t.b[1] >
                  t.w[0] * t.x[2 * i] + t.w[1] * t.x[2 * i + 1] + t.b[0]) == (t.label[i] != 0);
    }
    T_TRUE(right >= 57);
    t_close(ctx);
}

static void test_continues(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char path[64];
    tiny_train_desc d;
    task whole, part;
    (void)snprintf(path, sizeof path, "build/t-train-%ld.ckpt", (long)(t_rand_u64() & 0xffffff));
    make(&whole);
    d = desc_of(&whole);
    T_OK(tiny_train(ctx, &d, NULL));
    make(&part);
    part.stop_at = 53;                      /* in the middle of an epoch */
    d = desc_of(&part);
    d.save = path;
    T_OK(tiny_train(ctx, &d, NULL));
    make(&part);                            /* everything forgotten but the file */
    d = desc_of(&part);
    d.save = path;
    d.resume = 1;
    T_OK(tiny_train(ctx, &d, NULL));
    T_EQ_INT(part.calls, 120 - 53);
    T_SAME(part.w, whole.w, 4);
    T_SAME(part.b, whole.b, 2);
    memset(part.w, 0, sizeof part.w);       /* parameters alone */
    T_OK(tiny_params_load(ctx, path, part.p, 2, NULL));
    T_SAME(part.w, whole.w, 4);
    part.p[1].name = "c";
    part.w[0] = 7;
    T_TRUE(tiny_params_load(ctx, path, part.p, 2, NULL) != TINY_OK);
    T_TRUE(strstr(tiny_ctx_message(ctx), "param/c") != NULL);
    T_TRUE(part.w[0] == 7);                 /* nothing half read */
    (void)remove(path);
    t_close(ctx);
}

/* Plain descent has no moments: its second half alone, from the parameters of step 53, is the whole run. */
static void test_first(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_train_desc d;
    tiny_train_state s;
    task whole, part;
    int k;
    for (k = 0; k < 2; k++) {
        task *t = k ? &part : &whole;
        make(t);
        t->stop_at = k ? 53 : 0;
        d = desc_of(t);
        d.optim.group[0].kind = TINY_OPTIM_SGD;
        T_OK(tiny_train(ctx, &d, NULL));
    }
    part.stop_at = 0;
    part.calls = 0;
    d = desc_of(&part);
    d.optim.group[0].kind = TINY_OPTIM_SGD;
    d.first = 53;
    T_OK(tiny_train(ctx, &d, &s));
    T_EQ_INT(part.calls, 120 - 53);
    T_EQ_INT(s.step, 120);
    T_SAME(part.w, whole.w, 4);
    T_SAME(part.b, whole.b, 2);
    d.first = 121;
    T_STATUS(tiny_train(ctx, &d, NULL), TINY_E_ARGUMENT, "the first step is 121 of 120");
    d.first = 5;
    d.save = "build/t-train-first.ckpt";
    T_STATUS(tiny_train(ctx, &d, NULL), TINY_E_ARGUMENT, "there is a file");
    t_close(ctx);
}

/* The hook sees the gradients before the optimiser: with the bias's set to 0 its value stays; a failure ends all. */
static tiny_status no_bias(void *user)
{
    task *t = (task *)user;
    T_TRUE(t->gb[0] != 0.0f && t->gw[0] != 0.0f);
    t->gb[0] = t->gb[1] = 0.0f;
    return t->calls == 40 ? TINY_E_NUMERIC : TINY_OK;
}
static void test_gradients(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    task t;
    tiny_train_desc d;
    make(&t);
    d = desc_of(&t);
    d.gradients = no_bias;
    T_EQ_INT(tiny_train(ctx, &d, NULL), TINY_E_NUMERIC);
    T_EQ_INT(t.calls, 40);
    T_TRUE(t.b[0] == 0.0f && t.b[1] == 0.0f && t.w[0] != 0.0f);
    T_TRUE(t.last < t.first);
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_train_state s;
    tiny_train_desc d;
    float before;
    task t;
    make(&t);
    d = desc_of(&t);
    d.model = NULL;
    T_STATUS(tiny_train(ctx, &d, &s), TINY_E_ARGUMENT, "a model and samples are required");
    d = desc_of(&t);
    d.batch = 61;
    T_STATUS(tiny_train(ctx, &d, &s), TINY_E_ARGUMENT, "batch 61 of 60 samples");
    d = desc_of(&t);
    d.resume = 1;
    T_STATUS(tiny_train(ctx, &d, &s), TINY_E_ARGUMENT, "without a file");
    d.save = "build/there/is/no/such/file";
    T_TRUE(tiny_train(ctx, &d, &s) == TINY_E_IO && strstr(tiny_ctx_message(ctx), "no/such/file"));
    t.label[7] = 2;
    d = desc_of(&t);
    T_STATUS(tiny_train(ctx, &d, &s), TINY_E_ARGUMENT, "is 2, but there are 2 classes");
    T_TRUE(strstr(tiny_ctx_message(ctx), "train: step 1:") || strstr(tiny_ctx_message(ctx), "train: step "));
    make(&t);
    t.break_at = 10;                        /* NaN: step and place are named, the parameters are those of step 9 */
    d = desc_of(&t);
    T_STATUS(tiny_train(ctx, &d, &s), TINY_E_NUMERIC,
             "train: step 10: tape: the loss is nan: input 0 of matmul (operation 0");
    T_EQ_INT(s.step, 10);
    before = t.w[0];
    T_TRUE(before == before && t.calls == 9);
    t_close(ctx);
}

static void test_memory(void)
{
    task t;
    make(&t);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_train_desc d = desc_of(&t);
            tiny_status st;
            d.epochs = 1;
            st = tiny_train(ctx, &d, NULL);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            T_TRUE(st == TINY_OK || *tiny_ctx_message(ctx));
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN(test_learns);
    T_RUN(test_continues);
    T_RUN(test_first);
    T_RUN(test_gradients);
    T_RUN(test_bad_input);
    T_RUN(test_memory);
    return t_done();
}
#endif
