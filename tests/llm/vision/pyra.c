/* tests/llm/vision/pyra.c - merging with re-activation: against plain loops, as plain merging where pb is 0, gradients, in a network, and bad input */
#include "t.h"

/* one image: y, and the whole of PYRA, as the text has it; pairs in the order of the match */
typedef struct image { int t, r, d; const double *x, *size, *pa, *pb, *g, *b; const int32_t *src, *dst, *to, *from; } image;
static void plain(const image *m, double eps, double *y)
{
    static double z[16][16], src[16][16];
    double w1[16], w2[16], s[40];
    int i, j, o;
    for (i = 0; i < m->r; i++) {
        const double *a = m->x + m->src[i] * m->d, *c = m->x + m->dst[i] * m->d;
        double mean = 0, var = 0;
        for (j = 0; j < m->d; j++) {
            src[i][j] = a[j] * m->size[m->src[i]];
            z[i][j] = src[i][j] + c[j] * m->size[m->dst[i]];
            mean += z[i][j] / m->d;
        }
        for (j = 0; j < m->d; j++) var += (z[i][j] - mean) * (z[i][j] - mean) / m->d;
        for (j = 0; j < m->d && m->pa; j++) z[i][j] = m->g[j] * (z[i][j] - mean) / sqrt(var + eps) + m->b[j];
    }
    for (j = 0; j < m->d && m->pa; j++) {
        double u = 0;
        for (i = 0; i < m->r; i++) u += m->pa[i] * z[i][j];
        w1[j] = 2 / (1 + exp(-u));
    }
    for (i = 0; i < m->r && m->pa; i++) {
        double v = 0;
        for (j = 0; j < m->d; j++) v += z[i][j] * m->pb[j];
        w2[i] = 2 / (1 + exp(-v)) - 1;
    }
    for (o = 0; o < m->t - m->r; o++) {
        s[o] = m->size[m->from[o]];
        for (j = 0; j < m->d; j++) y[o * m->d + j] = m->x[m->from[o] * m->d + j] * s[o];
    }
    for (i = 0; i < m->r; i++) {
        o = m->to[m->src[i]];
        s[o] += m->size[m->src[i]];
        for (j = 0; j < m->d; j++) y[o * m->d + j] += src[i][j] * (m->pa ? 1 + w1[j] * w2[i] : 1);
    }
    for (o = 0; o < m->t - m->r; o++) for (j = 0; j < m->d; j++) y[o * m->d + j] /= s[o];
}

enum { T = 17, B = 2, D = 11, R = 6 };

typedef struct set {
    double x[T * B * D], size[T * B], w[4][D > R ? D : R], y[(T - R) * B * D], dy[(T - R) * B * D], dx[T * B * D], d_pa[R], d_pbn[3 * D];
    int32_t m[(2 * T + R) * B];
    tiny_tensor tx, ts, tm, tw[4], ty, tdy, tdx, tpa, tpbn;
    tllm_pyra_weights weights;
} set;

static void make(set *s, tiny_ctx *ctx)
{
    int i, k;
    memset(s, 0, sizeof *s);
    for (i = 0; i < T * B * D; i++) s->x[i] = (double)t_rand_float(-1, 1);
    for (i = 0; i < T * B; i++) s->size[i] = (double)(1 + t_rand_below(4));
    for (i = 0; i < (T - R) * B * D; i++) s->dy[i] = (double)t_rand_float(-1, 1);
    for (k = 0; k < 4; k++) for (i = 0; i < D; i++) if (i < (int)T_COUNT(s->w[k])) s->w[k][i] = (double)t_rand_float(-1, 1) + (k == 2);
    s->tx = tiny_tensor_3d(s->x, TINY_F64, T, B, D);
    s->ts = tiny_tensor_2d(s->size, TINY_F64, T, B);
    s->tm = tiny_tensor_2d(s->m, TINY_I32, 2 * T + R, B);
    for (k = 0; k < 4; k++) s->tw[k] = tiny_tensor_1d(s->w[k], TINY_F64, k ? D : R);
    s->ty = tiny_tensor_3d(s->y, TINY_F64, T - R, B, D);
    s->tdy = tiny_tensor_3d(s->dy, TINY_F64, T - R, B, D);
    s->tdx = tiny_tensor_3d(s->dx, TINY_F64, T, B, D);
    s->tpa = tiny_tensor_1d(s->d_pa, TINY_F64, R);
    s->tpbn = tiny_tensor_2d(s->d_pbn, TINY_F64, 3, D);
    s->weights.pa = &s->tw[0]; s->weights.pb = &s->tw[1]; s->weights.norm_g = &s->tw[2]; s->weights.norm_b = &s->tw[3];
    T_OK(tllm_tome_match(ctx, &s->tx, B, TLLM_TOME_CLASS, &s->tm));
}

static double total(const set *s, int weights, double *keep)    /* dy . y by the plain loops */
{
    double sum = 0, x[T * D], size[T], y[(T - R) * D];
    int32_t m[2 * T + R];
    int b, i;
    for (b = 0; b < B; b++) {
        image im;
        for (i = 0; i < T * D; i++) x[i] = s->x[(i / D * B + b) * D + i % D];
        for (i = 0; i < T; i++) size[i] = s->size[i * B + b];
        for (i = 0; i < 2 * T + R; i++) m[i] = s->m[i * B + b];
        im.t = T; im.r = R; im.d = D;
        im.x = x; im.size = size;
        im.to = m; im.from = m + T; im.src = m + 2 * T - R; im.dst = m + 2 * T;
        im.pa = weights ? s->w[0] : NULL; im.pb = s->w[1]; im.g = s->w[2]; im.b = s->w[3];
        plain(&im, (double)1e-5f, y);
        for (i = 0; i < (T - R) * D; i++) {
            sum += s->dy[(i / D * B + b) * D + i % D] * y[i];
            if (keep) keep[(i / D * B + b) * D + i % D] = y[i];
        }
    }
    return sum;
}

static void differences(set *s, int weights, double *at, const double *got, int n)
{
    double most = 1e-3;
    int i;
    for (i = 0; i < n; i++) most = fabs(got[i]) > most ? fabs(got[i]) : most;
    for (i = 0; i < n; i++) {
        const double was = at[i];
        double up, down;
        at[i] = was + 1e-5;
        up = total(s, weights, NULL);
        at[i] = was - 1e-5;
        down = total(s, weights, NULL);
        at[i] = was;
        T_CLOSE(got[i], (up - down) / 2e-5, 1e-8 * most);
    }
}

static void test_plain_and_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    set *s = (set *)t_keep(sizeof *s);
    double want[(T - R) * B * D];
    int k, i;
    for (k = 0; k < 2; k++) {
        make(s, ctx);
        T_OK(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, k ? &s->weights : NULL, &s->ty));
        (void)total(s, k, want);
        for (i = 0; i < (T - R) * B * D; i++) T_CLOSE(s->y[i], want[i], 1e-12);
        T_OK(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, k ? &s->weights : NULL, &s->tdy, &s->tdx, &s->tpa, &s->tpbn));
        differences(s, k, s->x, s->dx, T * B * D);
        for (i = 0; i < R && !k; i++) T_TRUE(s->d_pa[i] == 0);
        for (i = 0; i < 3 * D && !k; i++) T_TRUE(s->d_pbn[i] == 0);
        if (!k) continue;
        differences(s, 1, s->w[0], s->d_pa, R);
        for (i = 0; i < 3; i++) differences(s, 1, s->w[1 + i], s->d_pbn + i * D, D);
    }
    t_close(ctx);
}

/* pb = 0: not one bit differs from plain merging; no merge: x itself; equal tokens stay what they are */
static void test_same_bits(tiny_target target)
{
    enum { TT = 31, BB = 2, DD = 37, RR = 11 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(TT * BB * DD, -3, 3), *size = t_rand(TT * BB, 1, 1), *pa = t_rand(RR, -1, 1), *g = t_rand(DD, 1, 1), *zero = t_rand(DD, 0, 0), *y = t_guarded((TT - RR) * BB * DD), *z = t_guarded((TT - RR) * BB * DD);
    float *back = t_guarded(TT * BB * DD);
    int32_t *m = (int32_t *)t_guarded_bytes((2 * TT + RR) * BB * 4);
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, TT, BB, DD), ts = tiny_tensor_2d(size, TINY_F32, TT, BB), tm = tiny_tensor_2d(m, TINY_I32, 2 * TT + RR, BB), ty = tiny_tensor_3d(y, TINY_F32, TT - RR, BB, DD);
    tiny_tensor tz = tiny_tensor_3d(z, TINY_F32, TT - RR, BB, DD), tb = tiny_tensor_3d(back, TINY_F32, TT, BB, DD), tpa = tiny_tensor_1d(pa, TINY_F32, RR), tg = tiny_tensor_1d(g, TINY_F32, DD), t0 = tiny_tensor_1d(zero, TINY_F32, DD);
    tiny_tensor to;
    tllm_pyra_weights w;
    int i;
    w.pa = &tpa; w.pb = &t0; w.norm_g = &tg; w.norm_b = &t0;
    for (i = 0; i < TT * BB; i++) size[i] = (float)(1 + i % 3);
    T_OK(tllm_tome_match(ctx, &tx, BB, TLLM_TOME_CLASS, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    T_RAN_ON(ctx, target);
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, &w, &tz));
    T_SAME(y, z, (TT - RR) * BB * DD);
    T_WALLS(y, (TT - RR) * BB * DD);
    for (i = 0; i < TT * BB * DD; i++) x[i] = (float)(i % DD) * 0.37f - 5.1f;       /* equal tokens: matched in order, and unchanged */
    T_OK(tllm_tome_match(ctx, &tx, BB, TLLM_TOME_CLASS, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    to = tllm_tome_part(&tm, TT, TLLM_TOME_TO);
    T_OK(tllm_tome_unmerge(ctx, &ty, &to, &tb));
    for (i = 0; i < TT * BB * DD; i++) T_CLOSE(back[i], x[i], 12 * 6e-8 * 10);      /* a sum of 12 */
    tm.dim[0] = 2 * TT;                     /* nothing merges */
    ty.dim[0] = TT;
    ty.data = back;
    for (i = 0; i < TT * BB * DD; i++) x[i] = t_rand_float(-1, 1);
    T_OK(tllm_tome_match(ctx, &tx, BB, 0, &tm));
    T_OK(tllm_tome_merge(ctx, &tx, &ts, &tm, NULL, &ty));
    for (i = 0; i < TT * BB; i++) {         /* first the even ones, by score, then the odd ones */
        const tiny_tensor from = tllm_tome_part(&tm, TT, TLLM_TOME_FROM);
        T_SAME(back + i * DD, x + (((int32_t *)from.data)[i] * BB + i % BB) * DD, DD);
    }
    t_close(ctx);
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tllm_tome_merge_row(), T_SLOW ? 12 : 60);
    t_conform(target, tllm_tome_merge_backward_row(), T_SLOW ? 8 : 40);
}

#ifndef TINY_NO_TRAIN
/* ---- in a network */

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

static double loss_of(tiny_tape *tape, tllm_vit *v, const tiny_tensor *images, const tllm_vit_hooks *hooks, const tiny_tensor *by, int back)
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
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F64, IMAGES, COLOURS, SIZE, SIZE), weight = tiny_tensor_2d(by, TINY_F64, IMAGES, CLASSES);
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
                for (q = 0; q < tiny_tensor_count(&list[i][k].value); q++) ((double *)list[i][k].value.data)[q] += (double)t_rand_float(-0.3f, 0.3f);
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
                T_TRUE(!i || (seen > 0) == (k < 4 * (BLOCKS - 1)));      /* behind the last attention only the class token counts, and nothing merges into it */
            }
    }
    tiny_tape_close(tape);
    tllm_pyra_close(p);
    tllm_vit_close(v);
    t_close(ctx);
}

/* what attention does with sizes: tokens that stand for n count like n tokens. All pieces of an image are equal, so that merging
 * changes nothing - unless sizes are forgotten. */
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
    for (i = 0; i < 2 * SIZE * SIZE; i++) pixels[i] = pixels[i / (SIZE * SIZE) * SIZE * SIZE + i / SIZE % PATCH * SIZE + i % PATCH];
    for (i = WIDE; pos && i < 17 * WIDE; i++) ((float *)pos->value.data)[i] = ((float *)pos->value.data)[WIDE + i % WIDE];
    for (k = 0; k < 3 && v; k++) {
        tllm_pyra *p = NULL;
        tiny_tape *tape = NULL;
        pd.unweighted = k == 2;
        if (T_OK(tllm_pyra_open(ctx, v, &pd, &p)) && T_OK(tiny_tape_open(ctx, &td, &tape))) {
            y = tllm_vit_run(tape, v, &images, k ? tllm_pyra_hooks(p) : NULL);
            if (T_OK(tiny_tape_status(tape))) memcpy(logits[k], y.data, sizeof logits[k]);
            place = tllm_pyra_place(p);
            T_TRUE(!k == !place.data);
            for (i = 0; k && place.data && i < 17 * 2; i++) T_TRUE(((int32_t *)place.data)[i] >= 0 && ((int32_t *)place.data)[i] < 7);
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
    tiny_tensor images = tiny_tensor_4d(pixels, TINY_F32, 4, COLOURS, SIZE, SIZE), all = tiny_tensor_4d(pixels, TINY_F32, 32, COLOURS, SIZE, SIZE), labels = tiny_tensor_1d(label, TINY_I32, 32), y;
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
#endif

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    set *s = (set *)t_keep(sizeof *s);
    tiny_tensor wrong;
    tllm_pyra_weights w;
    make(s, ctx);
    w = s->weights;
    wrong = s->tw[0];
    wrong.dim[0] = R - 1;
    w.pa = &wrong;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_SHAPE, "it was learnt for that many merges");
    w.pa = NULL;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_ARGUMENT, "go together");
    w = s->weights;
    wrong = s->tw[1];
    wrong.stride[0] = 0;
    w.pb = &wrong;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &s->tm, &w, &s->ty), TINY_E_SHAPE, "pb is");
    wrong = s->ts;
    wrong.dim[0]--;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &wrong, &s->tm, NULL, &s->ty), TINY_E_SHAPE, "sizes are");
    wrong = s->tm;
    wrong.dim[0] = 2 * T - 1;
    T_STATUS(tllm_tome_merge(ctx, &s->tx, &s->ts, &wrong, NULL, &s->ty), TINY_E_SHAPE, "the match is");
    wrong = s->tdy;
    wrong.dim[0]--;
    T_STATUS(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, NULL, &wrong, &s->tdx, &s->tpa, &s->tpbn), TINY_E_SHAPE, "dy is");
    s->m[0] = T;
    T_STATUS(tllm_tome_merge_backward(ctx, &s->tx, &s->ts, &s->tm, NULL, &s->tdy, &s->tdx, &s->tpa, &s->tpbn), TINY_E_ARGUMENT, "number 0 of the match is 17");
#ifndef TINY_NO_TRAIN
    {
        static const tiny_idx below[BLOCKS] = { 1, -1, 1 };
        tllm_vit *v = network(ctx, TINY_F32);
        tllm_pyra_desc pd;
        tllm_pyra *p;
        memset(&pd, 0, sizeof pd);
        pd.n_block = BLOCKS;
        T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "how many merge");
        pd.r = below;
        T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "-1 merges in block 1");
        pd.n_block = 2;
        T_STATUS(tllm_pyra_open(ctx, v, &pd, &p), TINY_E_ARGUMENT, "2 blocks, the network has 3");
        T_TRUE(!p);
        tllm_pyra_close(NULL);
        tllm_vit_close(v);
    }
#endif
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_plain_and_gradient);
    T_RUN_TARGETS(test_same_bits);
    T_RUN_TARGETS(test_conformance);
    T_RUN(test_bad);
#ifndef TINY_NO_TRAIN
    T_RUN(test_network_gradient);
    T_RUN_TARGETS(test_sizes_in_attention);
    T_RUN(test_begins_as_merging);
    T_RUN(test_memory);
#endif
    return t_done();
}
