/* tests/llm/lab/vision/pyra.c - a network whose tokens merge: its gradient, sizes in attention, the start as plain
 * merging, invalid input */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum { SIZE = 12, PATCH = 3, COLOURS = 1, WIDE = 8, BLOCKS = 3, CLASSES = 3, IMAGES = 2 };
static const tiny_idx merges[BLOCKS] = { 3, 5, 2 };     /* 17, 14, 9, 7 */

static tllm_vit *network(tiny_ctx *ctx, tiny_dtype dtype)
{
    tllm_vit_desc d;
    tllm_vit *v = NULL;
    memset(&d, 0, sizeof d);
    d.image = SIZE; d.patch = PATCH; d.channels = COLOURS;
    d.d = WIDE; d.n_head = 2; d.n_block = BLOCKS; d.n_class = CLASSES;
    d.seed = 3;
    d.dtype = dtype;
    T_OK(tllm_vit_open(ctx, &d, &v));
    return v;
}

static double loss_of(tiny_tape *tape, tllm_vit *v, const tiny_tensor *images, const tllm_vit_hooks *hooks,
                      const tiny_tensor *by, int back)
{
    const tiny_tape_mark mark = tiny_tape_now(tape);
    tiny_tensor y = tllm_vit_run(tape, v, images, hooks);
    double loss;
    y = tiny_tape_mul(tape, &y, by);
    y = tiny_tape_mean(tape, &y);
    if (!T_OK(tiny_tape_status(tape))) return 0;
    loss = *(double *)y.data;
    if (back) {
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &y, NULL));
    }
    tiny_tape_release(tape, mark);
    return loss;
}

static void test_network_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double *pixels = (double *)t_keep(IMAGES * SIZE * SIZE * 8), *by = (double *)t_keep(IMAGES * CLASSES * 8);
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F64, IMAGES, COLOURS, SIZE, SIZE),
                weight = tiny_tensor_2d(by, TINY_F64, IMAGES, CLASSES);
    tllm_vit *v = network(ctx, TINY_F64);
    tllm_pyra_desc pd;
    tllm_pyra *p = NULL;
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    const tiny_param *list[2];
    size_t n[2], k;
    int i, j;
    memset(&pd, 0, sizeof pd);
    memset(&td, 0, sizeof td);
    td.bytes = 8 << 20;
    pd.r = merges;
    pd.n_block = BLOCKS;
    for (i = 0; i < IMAGES * SIZE * SIZE; i++) pixels[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < IMAGES * CLASSES; i++) by[i] = (double)t_rand_float(-1, 1);
    if (v && T_OK(tllm_pyra_open(ctx, v, &pd, &p)) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
        list[0] = tllm_vit_params(v, &n[0]);
        list[1] = tllm_pyra_params(p, &n[1]);
        T_EQ_INT(n[1], 4 * BLOCKS);
        T_EQ_TEXT(list[1][1].name, "pyra.0.pb");
        T_EQ_INT(tllm_pyra_tokens(p, -1), 17);
        T_EQ_INT(tllm_pyra_tokens(p, BLOCKS - 1), 7);
        for (i = 0; i < 2; i++)
            for (k = 0; k < n[i]; k++) {
                tiny_idx q;
                for (q = 0; q < tiny_tensor_count(&list[i][k].value); q++)
                    ((double *)list[i][k].value.data)[q] += (double)t_rand_float(-0.3f, 0.3f);
                T_OK(tiny_tape_param(tape, &list[i][k]));
            }
        (void)loss_of(tape, v, &images, tllm_pyra_hooks(p), &weight, 1);
        for (i = 0; i < 2; i++)
            for (k = 0; k < n[i]; k++) {
                const tiny_idx count = tiny_tensor_count(&list[i][k].value);
                const double *g = (const double *)list[i][k].grad.data;
                double most = 1e-4, seen = 0;
                for (j = 0; j < count; j++) most = fabs(g[j]) > most ? fabs(g[j]) : most;
                for (j = 0; j < count; j += 1 + (int)count / 5) {
                    double *at = (double *)list[i][k].value.data + j, was = *at, up, down;
                    *at = was + 1e-6;
                    up = loss_of(tape, v, &images, tllm_pyra_hooks(p), &weight, 0);
                    *at = was - 1e-6;
                    down = loss_of(tape, v, &images, tllm_pyra_hooks(p), &weight, 0);
                    *at = was;
                    seen += fabs(g[j]);
                    if (!T_CLOSE(g[j], (up - down) / 2e-6, 2e-6 * most)) printf("    in %s\n", list[i][k].name);
                }
                /* after the last attention only the class token counts, and nothing merges into it */
                T_TRUE(!i || (seen > 0) == (k < 4 * (BLOCKS - 1)));
            }
    }
    tiny_tape_close(tape);
    tllm_pyra_close(p);
    tllm_vit_close(v);
    t_close(ctx);
}

/* sizes in attention: a token of size n counts like n tokens. All pieces of an image are equal, so
 * that merging changes nothing - unless sizes are forgotten. */
static void test_sizes_in_attention(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float *pixels = t_rand(2 * SIZE * SIZE, -1, 1), logits[3][2 * CLASSES];
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, 2, COLOURS, SIZE, SIZE), y, place;
    tllm_vit *v = network(ctx, TINY_F32);
    const tiny_param *pos = tllm_vit_param(v, "pos_embed");
    tllm_pyra_desc pd;
    tiny_tape_desc td;
    int i, k, differ = 0;
    memset(&pd, 0, sizeof pd);
    memset(&td, 0, sizeof td);
    td.bytes = 4 << 20;
    td.no_grad = 1;
    pd.r = merges;
    pd.n_block = BLOCKS;
    for (i = 0; i < 2 * SIZE * SIZE; i++)
        pixels[i] = pixels[i / (SIZE * SIZE) * SIZE * SIZE + i / SIZE % PATCH * SIZE + i % PATCH];
    for (i = WIDE; pos && i < 17 * WIDE; i++)
        ((float *)pos->value.data)[i] = ((float *)pos->value.data)[WIDE + i % WIDE];
    for (k = 0; k < 3 && v; k++) {
        tllm_pyra *p = NULL;
        tiny_tape *tape = NULL;
        pd.unweighted = k == 2;
        if (T_OK(tllm_pyra_open(ctx, v, &pd, &p)) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
            y = tllm_vit_run(tape, v, &images, k ? tllm_pyra_hooks(p) : NULL);
            if (T_OK(tiny_tape_status(tape))) memcpy(logits[k], y.data, sizeof logits[k]);
            place = tllm_pyra_place(p);
            T_TRUE(!k == !place.data);
            for (i = 0; k && place.data && i < 17 * 2; i++)
                T_TRUE(((int32_t *)place.data)[i] >= 0 && ((int32_t *)place.data)[i] < 7);
        }
        tiny_tape_close(tape);
        tllm_pyra_close(p);
    }
    for (i = 0; i < 2 * CLASSES; i++) {
        T_CLOSE(logits[1][i], logits[0][i], 2e-5);
        differ += fabsf(logits[2][i] - logits[0][i]) > 1e-4f;
    }
    T_TRUE(differ > 2);
    tllm_vit_close(v);
    t_close(ctx);
}

/* at the beginning PYRA is merging, bit for bit, through a whole network; and it can be trained alone */
static void test_begins_as_merging(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *pixels = t_rand(32 * SIZE * SIZE, -1, 1), logits[2][4 * CLASSES];
    int32_t label[32];
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, 4, COLOURS, SIZE, SIZE),
                all = tiny_tensor_4d(pixels, TINY_F32, 32, COLOURS, SIZE, SIZE),
                labels = tiny_tensor_1d(label, TINY_I32, 32), y;
    tllm_vit *v = network(ctx, TINY_F32);
    tllm_pyra *p[2] = { NULL, NULL };
    tllm_pyra_desc pd;
    tiny_tape_desc td;
    tiny_train_desc train;
    tiny_train_state last;
    tllm_vit_task task;
    double before = 0;
    float was;
    int k;
    memset(&pd, 0, sizeof pd);
    memset(&td, 0, sizeof td);
    memset(&train, 0, sizeof train);
    memset(&task, 0, sizeof task);
    memset(logits, 0, sizeof logits);
    td.bytes = 4 << 20;
    pd.r = merges;
    pd.n_block = BLOCKS;
    for (k = 0; k < 32; k++) label[k] = k % CLASSES;
    for (k = 0; k < 2 && v; k++) {
        tiny_tape *tape = NULL;
        pd.plain = !k;
        if (T_OK(tllm_pyra_open(ctx, v, &pd, &p[k])) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
            y = tllm_vit_run(tape, v, &images, tllm_pyra_hooks(p[k]));
            if (T_OK(tiny_tape_status(tape))) memcpy(logits[k], y.data, sizeof logits[k]);
        }
        tiny_tape_close(tape);
    }
    T_SAME(logits[0], logits[1], 4 * CLASSES);
    if (v && p[0] && p[1]) {
        size_t n;
        T_TRUE(!tllm_pyra_params(p[0], &n) || !n);
        task.vit = v;
        task.images = &all;
        task.labels = &labels;
        task.hooks = tllm_pyra_hooks(p[1]);
        train.params = tllm_pyra_params(p[1], &train.n_params);
        train.model = tllm_vit_loss;
        train.user = &task;
        train.n_samples = 32;
        train.epochs = 1;
        train.optim.group[2].lr = 1e-2;
        was = *(float *)tllm_vit_param(v, "head.weight")->value.data;
        if (T_OK(tiny_train(ctx, &train, &last))) before = last.loss;
        train.epochs = 40;
        T_OK(tiny_train(ctx, &train, &last));
        T_TRUE(last.loss < before);
        T_TRUE(was == *(float *)tllm_vit_param(v, "head.weight")->value.data);
    }
    tllm_pyra_close(p[0]);
    tllm_pyra_close(p[1]);
    tllm_vit_close(v);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_vit *v = NULL;
        tllm_pyra *p = NULL;
        tllm_pyra_desc pd;
        memset(&pd, 0, sizeof pd);
        pd.r = merges;
        pd.n_block = BLOCKS;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_vit_desc d;
            memset(&d, 0, sizeof d);
            d.image = SIZE; d.patch = PATCH; d.channels = COLOURS;
            d.d = WIDE; d.n_head = 2; d.n_block = BLOCKS; d.n_class = CLASSES;
            if (!tllm_vit_open(ctx, &d, &v)) {
                const tiny_status st = tllm_pyra_open(ctx, v, &pd, &p);
                T_TRUE(st ? st == TINY_E_MEMORY && !p : p != NULL);
            }
            tllm_pyra_close(p);
            tllm_vit_close(v);
            tiny_ctx_close(ctx);
        }
    })
}

static void test_bad(void)
{
    static const tiny_idx below[BLOCKS] = { 1, -1, 1 }, many[BLOCKS] = { 1, 1000, 1000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_vit *v = network(ctx, TINY_F32);
    tllm_pyra_desc pd;
    tllm_pyra *p;
    memset(&pd, 0, sizeof pd);
    pd.n_block = BLOCKS;
    T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "the merges of each block");
    pd.r = below;
    T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "-1 merges in block 1");
    pd.n_block = 2;
    T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "2 blocks, but the network has 3");
    T_TRUE(!p);
    /* more than there can be: of an even number of tokens not half, since the class token stays */
    pd.n_block = BLOCKS;
    pd.r = many;
    if (T_OK(tllm_pyra_open(ctx, v, &pd, &p))) {
        static const tiny_idx left[1 + BLOCKS] = { 17, 16, 9, 5 };
        int i;
        for (i = -1; i < BLOCKS; i++) T_EQ_INT(tllm_pyra_tokens(p, i), left[1 + i]);
    }
    tllm_pyra_close(p);
    tllm_pyra_close(NULL);
    tllm_vit_close(v);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_network_gradient);
    T_RUN_FORMS(test_sizes_in_attention);
    T_RUN(test_begins_as_merging);
    T_RUN(test_memory);
    T_RUN(test_bad);
    return t_done();
}
#endif
