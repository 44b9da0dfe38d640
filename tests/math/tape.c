/* tests/math/tape.c - whole networks against central differences in double; the tape's promises about memory, threads,
 * segments and repetition; layers composed of rows; invalid input */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

#define MOST_PARAMS 24

/* a network: parameters in double or float, and a function that puts its loss on a tape */
typedef struct net {
    tiny_param p[MOST_PARAMS];
    size_t n;
    tiny_dtype type;
    tiny_tensor x, label;
    int segment;                            /* keep no inner values of the blocks */
    int train;
} net;

static tiny_tensor *weight(net *w, const char *name, double size, int rank, tiny_idx a, tiny_idx b, tiny_idx c,
                           tiny_idx d)
{
    tiny_idx dim[4], n, i;
    tiny_param *p = &w->p[w->n++];
    size_t each = tiny_dtype_bytes(w->type);
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    p->name = name;
    p->value = tiny_tensor_nd(NULL, w->type, rank, dim);
    n = tiny_tensor_count(&p->value);
    p->value.data = t_keep((size_t)n * each);
    p->grad = tiny_tensor_nd(t_keep((size_t)n * each), w->type, rank, dim);
    p->group = 0;
    for (i = 0; i < n; i++) {
        double v = size * (double)t_rand_float(-1, 1);
        if (size < 0) v = 1.0 + 0.2 * (double)t_rand_float(-1, 1);      /* gains */
        if (w->type == TINY_F64) ((double *)p->value.data)[i] = v;
        else ((float *)p->value.data)[i] = (float)v;
    }
    return &p->value;
}

static tiny_tensor call(tiny_tape *t, int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *c,
                        const tiny_tensor *d, const void *params)
{
    return tiny_tape_call(t, kind, a, b, c, d, params);
}

static tiny_tensor shaped(tiny_tape *t, const tiny_tensor *x, int rank, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d)
{
    tiny_idx dim[4];
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    return tiny_tape_reshape(t, x, rank, dim);
}

/* ---- a transformer block: 7 tokens of 11, width 12, 4 heads of 3 that share 2 key heads, gated middle of 10 */

static void make_transformer(net *w, tiny_dtype type)
{
    static int32_t tokens[7] = { 3, 1, 4, 1, 5, 9, 2 }, labels[7] = { 1, 4, 1, 5, 9, 2, 6 };
    memset(w, 0, sizeof *w);
    w->type = type;
    w->x = tiny_tensor_1d(tokens, TINY_I32, 7);
    w->label = tiny_tensor_1d(labels, TINY_I32, 7);
    (void)weight(w, "embedding", 1.0, 2, 11, 12, 1, 1);
    (void)weight(w, "norm1", -1.0, 1, 12, 1, 1, 1);
    (void)weight(w, "q", 0.5, 2, 12, 12, 1, 1);
    (void)weight(w, "k", 0.5, 2, 6, 12, 1, 1);
    (void)weight(w, "v", 0.5, 2, 6, 12, 1, 1);
    (void)weight(w, "o", 0.5, 2, 12, 12, 1, 1);
    (void)weight(w, "norm2.g", -1.0, 1, 12, 1, 1, 1);
    (void)weight(w, "norm2.b", 0.5, 1, 12, 1, 1, 1);
    (void)weight(w, "gate", 0.5, 2, 10, 12, 1, 1);
    (void)weight(w, "up", 0.5, 2, 10, 12, 1, 1);
    (void)weight(w, "down", 0.5, 2, 12, 10, 1, 1);
    (void)weight(w, "head", 0.5, 2, 11, 12, 1, 1);
}

static tiny_status transformer_block(tiny_tape *t, void *user, const tiny_tensor *in, tiny_tensor *out)
{
    net *w = (net *)user;
    const tiny_tensor *x = &in[0];
    tiny_attention_params causal = { 0, 0, 1, 0, 0 };
    tiny_tensor h, q, k, v, a, g, u, y;
    h = call(t, TINY_OP_RMSNORM, x, &w->p[1].value, NULL, NULL, NULL);
    q = tiny_tape_linear(t, &h, &w->p[2].value, NULL, TINY_ACT_NONE);
    k = tiny_tape_linear(t, &h, &w->p[3].value, NULL, TINY_ACT_NONE);
    v = tiny_tape_linear(t, &h, &w->p[4].value, NULL, TINY_ACT_NONE);
    q = shaped(t, &q, 3, 7, 4, 3, 1);
    k = shaped(t, &k, 3, 7, 2, 3, 1);
    v = shaped(t, &v, 3, 7, 2, 3, 1);
    {
        tiny_rope_params r = { 100.0f, 0, 2, 0, 0 };
        q = call(t, TINY_OP_ROPE, &q, NULL, NULL, NULL, &r);
        k = call(t, TINY_OP_ROPE, &k, NULL, NULL, NULL, &r);
    }
    a = call(t, TINY_OP_ATTENTION, &q, &k, &v, NULL, &causal);
    a = shaped(t, &a, 2, 7, 12, 1, 1);
    a = tiny_tape_linear(t, &a, &w->p[5].value, NULL, TINY_ACT_NONE);
    y = tiny_tape_add(t, x, &a);
    h = call(t, TINY_OP_LAYERNORM, &y, &w->p[6].value, &w->p[7].value, NULL, NULL);
    g = tiny_tape_linear(t, &h, &w->p[8].value, NULL, TINY_ACT_NONE);
    u = tiny_tape_linear(t, &h, &w->p[9].value, NULL, TINY_ACT_NONE);
    u = call(t, TINY_OP_SWIGLU, &g, &u, NULL, NULL, NULL);
    u = tiny_tape_linear(t, &u, &w->p[10].value, NULL, TINY_ACT_NONE);
    out[0] = tiny_tape_add(t, &y, &u);
    return tiny_tape_status(t);
}

static tiny_tensor transformer(tiny_tape *t, net *w)
{
    tiny_tensor x = call(t, TINY_OP_GATHER, &w->p[0].value, &w->x, NULL, NULL, NULL), y;
    memset(&y, 0, sizeof y);
    if (w->segment) {
        (void)tiny_tape_segment(t, transformer_block, w, 1, &x, 1, &y);
        x = y;
        (void)tiny_tape_segment(t, transformer_block, w, 1, &x, 1, &y);
    } else {
        (void)transformer_block(t, w, &x, &y);
        x = y;
        (void)transformer_block(t, w, &x, &y);          /* the same weights twice: gradients add up */
    }
    y = tiny_tape_linear(t, &y, &w->p[11].value, NULL, TINY_ACT_NONE);
    return tiny_tape_cross_entropy(t, &y, &w->label, 0.1);
}

/* ---- conv + batch norm + ReLU + pools + cross-entropy */

static void make_conv(net *w, tiny_dtype type)
{
    static int64_t labels[3] = { 2, 0, 1 };
    tiny_idx i;
    double *x = (double *)t_keep(3 * 2 * 8 * 8 * sizeof *x);
    memset(w, 0, sizeof *w);
    w->type = type;
    w->train = 1;
    for (i = 0; i < 3 * 2 * 64; i++) {
        float v = t_rand_float(-1, 1);
        if (type == TINY_F64) x[i] = (double)v;
        else ((float *)(void *)x)[i] = v;
    }
    w->x = tiny_tensor_4d(x, type, 3, 2, 8, 8);
    w->label = tiny_tensor_1d(labels, TINY_I64, 3);
    (void)weight(w, "conv1", 0.5, 4, 4, 2, 3, 3);
    (void)weight(w, "conv1.b", 0.5, 1, 4, 1, 1, 1);
    (void)weight(w, "bn.g", -1.0, 1, 4, 1, 1, 1);
    (void)weight(w, "bn.b", 0.5, 1, 4, 1, 1, 1);
    (void)weight(w, "conv2", 0.5, 4, 6, 2, 3, 3);
    (void)weight(w, "gn.g", -1.0, 1, 6, 1, 1, 1);
    (void)weight(w, "gn.b", 0.5, 1, 6, 1, 1, 1);
    (void)weight(w, "head", 0.5, 2, 3, 6, 1, 1);
    (void)weight(w, "head.b", 0.5, 1, 3, 1, 1, 1);
}

static tiny_tensor conv(tiny_tape *t, net *w)
{
    tiny_conv2d_params c1 = { { 1, 1 }, { 1, 1 }, { 1, 1, 1, 1 }, 1, 0 },
                       c2 = { { 2, 2 }, { 1, 1 }, { 1, 1, 1, 1 }, 2, 0 };
    tiny_patch_params pool = { { 2, 2 }, { 0, 0 }, { 0, 0 }, { 0, 0, 0, 0 }, { 0, 0 } };
    tiny_batch_norm_params bn = { 0, 0, 1 };
    tiny_norm_params gn = { 0, 3 };
    tiny_reduce_params last = { 0, 0, 0 };
    tiny_tensor h;
    h = call(t, TINY_OP_CONV2D, &w->x, &w->p[0].value, &w->p[1].value, NULL, &c1);
    h = tiny_tape_batch_norm(t, &h, &w->p[2].value, &w->p[3].value, NULL, NULL, &bn);
    h = call(t, TINY_OP_RELU, &h, NULL, NULL, NULL, NULL);
    h = call(t, TINY_OP_MAX_POOL, &h, NULL, NULL, NULL, &pool);
    h = call(t, TINY_OP_CONV2D, &h, &w->p[4].value, NULL, NULL, &c2);
    h = call(t, TINY_OP_GROUPNORM, &h, &w->p[5].value, &w->p[6].value, NULL, &gn);
    h = tiny_tape_leaky_relu(t, &h, 0.1);
    h = shaped(t, &h, 3, 3, 6, 4, 1);
    h = call(t, TINY_OP_MEAN, &h, NULL, NULL, NULL, &last);
    h = tiny_tape_linear(t, &h, &w->p[7].value, &w->p[8].value, TINY_ACT_NONE);
    return tiny_tape_cross_entropy(t, &h, &w->label, 0.0);
}

/* ---- layers composed of rows: hashed weights, masks, concat, pad, upsampling, channel pools, transposed convolution,
 * losses */

static void make_layers(net *w, tiny_dtype type)
{
    memset(w, 0, sizeof *w);
    w->type = type;
    (void)weight(w, "x", 1.0, 4, 2, 3, 4, 4);
    (void)weight(w, "up", 0.5, 4, 3, 2, 3, 3);
    (void)weight(w, "up.b", 0.5, 1, 2, 1, 1, 1);
    (void)weight(w, "z", 1.0, 1, 5, 1, 1, 1);
    (void)weight(w, "teacher", 1.0, 2, 4, 8, 1, 1);
}

static tiny_tensor layers(tiny_tape *t, net *w)
{
    static int32_t index[8] = { 0, 4, 2, 2, 1, 3, 0, 4 };
    static const double sign[8] = { 1, -1, 1, -1, -1, 1, 1, -1 }, masks[8] = { 1, 1, 0, 1, 0, 1, 1, 1 };
    static const tiny_idx before[4] = { 0, 1, 0, 2 }, after[4] = { 1, 0, 3, 0 };
    tiny_conv2d_params c = { { 2, 2 }, { 1, 1 }, { 1, 1, 0, 0 }, 1, 0 };
    tiny_tensor ix = tiny_tensor_1d(index, TINY_I32, 8), s = tiny_tensor_1d((void *)(uintptr_t)sign, TINY_F64, 8),
                m = tiny_tensor_1d((void *)(uintptr_t)masks, TINY_F64, 8);
    tiny_tensor a, b, d[2], e, r, h, g, loss, part;
    a = tiny_tape_conv_transpose(t, &w->p[0].value, &w->p[1].value, &w->p[2].value, &c);    /* (2, 2, 8, 8) */
    b = tiny_tape_upsample2x(t, &w->p[0].value);                                            /* (2, 3, 8, 8) */
    d[0] = a;
    d[1] = b;
    e = tiny_tape_concat(t, 2, d, 1);                                                       /* (2, 5, 8, 8) */
    e = tiny_tape_channel_pool(t, &e, 3);
    e = tiny_tape_pad(t, &e, before, after);
    e = tiny_tape_clamp(t, &e, -0.7, 0.9);
    loss = tiny_tape_mean(t, &e);
    e = tiny_tape_mul(t, &e, &e);
    part = tiny_tape_mean(t, &e);
    loss = tiny_tape_add(t, &loss, &part);
    h = tiny_tape_hash_gather(t, &w->p[3].value, &ix, &s);
    h = tiny_tape_mul(t, &h, &m);
    g = tiny_tape_constant(t, &h);
    r = tiny_tape_mul(t, &h, &g);           /* g counts as a constant */
    part = tiny_tape_mean(t, &r);
    loss = tiny_tape_add(t, &loss, &part);
    r = shaped(t, &w->p[0].value, 2, 12, 8, 1, 1);
    r.dim[0] = 4;                           /* four of the rows */
    part = tiny_tape_kl_distill(t, &r, &w->p[4].value, 2.0);
    loss = tiny_tape_add(t, &loss, &part);
    part = tiny_tape_huber(t, &r, &w->p[4].value, 0.8);
    loss = tiny_tape_add(t, &loss, &part);
    part = tiny_tape_mse(t, &r, &w->p[4].value);
    return tiny_tape_add(t, &loss, &part);
}

typedef tiny_tensor (*model)(tiny_tape *t, net *w);

static tiny_tape *tape_of(tiny_ctx *ctx, net *w, size_t bytes, int dry)
{
    tiny_tape_desc d = { 0 };
    tiny_tape *t = NULL;
    size_t i;
    d.bytes = bytes;
    d.dry = dry;
    T_OK(tiny_tape_open(ctx, &d, &t));
    for (i = 0; i < w->n; i++) T_OK(tiny_tape_param(t, &w->p[i]));
    return t;
}

static double value_of(const tiny_tensor *x)
{
    return x->dtype == TINY_F64 ? *(double *)x->data : (double)*(float *)x->data;
}

/* loss and gradients; the bytes that were needed */
static double run(tiny_ctx *ctx, model f, net *w, size_t *high)
{
    tiny_tape *t = tape_of(ctx, w, 1 << 22, 0);
    tiny_tensor loss = f(t, w);
    double v = 0.0;
    if (T_OK(tiny_tape_backward(t, &loss, NULL))) v = value_of(&loss);
    if (high) *high = tiny_tape_high(t);
    tiny_tape_close(t);
    return v;
}

static double loss_only(tiny_ctx *ctx, model f, net *w)
{
    tiny_tape *t = tape_of(ctx, w, 1 << 22, 0);
    tiny_tensor loss = f(t, w);
    double v = tiny_tape_status(t) ? NAN : value_of(&loss);
    tiny_tape_close(t);
    return v;
}

static void check_net(const char *name, model f, net *w)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double worst = 0.0;
    size_t i;
    tiny_idx k;
    (void)run(ctx, f, w, NULL);
    for (i = 0; i < w->n; i++) {
        double *x = (double *)w->p[i].value.data, scale = 1e-3, here = 0.0;
        const double *g = (const double *)w->p[i].grad.data;
        tiny_idx n = tiny_tensor_count(&w->p[i].value);
        int j;
        for (k = 0; k < n; k++) scale = fmax(scale, fabs(g[k]));
        for (j = 0; j < 12; j++) {
            const double h = 1e-5, keep = x[k = (tiny_idx)t_rand_below((uint32_t)n)];
            double up, down;
            x[k] = keep + h;
            up = loss_only(ctx, f, w);
            x[k] = keep - h;
            down = loss_only(ctx, f, w);
            x[k] = keep;
            here = fmax(here, fabs((up - down) / (2 * h) - g[k]) / scale);
        }
        if (!(here <= 1e-6)) printf("    %s: %s is off by %.2g\n", name, w->p[i].name, here);
        T_TRUE(here <= 1e-6);
        worst = fmax(worst, here);
    }
    printf("    %s: %lu parameters, largest relative error %.2g\n", name, (unsigned long)w->n, worst);
    t_close(ctx);
}

static void test_transformer(void)
{
    net w;
    make_transformer(&w, TINY_F64);
    check_net("transformer", transformer, &w);
    w.segment = 1;
    check_net("transformer in segments", transformer, &w);
}
static void test_conv(void)
{
    net w;
    make_conv(&w, TINY_F64);
    check_net("conv net", conv, &w);
}
static void test_layers(void)
{
    net w;
    tiny_ctx *ctx;
    double g[5];
    size_t i;
    make_layers(&w, TINY_F64);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    /* the stopped factor: d mean(h c)/dz is half of d mean(h^2)/dz, which differences cannot see; so it is compared
     * first and then cut off */
    (void)run(ctx, layers, &w, NULL);
    memcpy(g, w.p[3].grad.data, sizeof g);
    for (i = 0; i < 5; i++) {
        /* of the eight places, masks taken off: 0 6 | - | 3 | 5 | 1 7 */
        static const double count[5] = { 2, 0, 1, 1, 2 };
        T_CLOSE(g[i], count[i] * ((double *)w.p[3].value.data)[i] / 8.0, 1e-12);
    }
    t_close(ctx);
    w.n = 3;                                /* the others count as constants */
    check_net("layers (images)", layers, &w);
}
static void test_distillation(void)
{
    net w;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double *x, *g, worst = 0.0;
    int j;
    make_layers(&w, TINY_F64);
    (void)run(ctx, layers, &w, NULL);
    x = (double *)w.p[4].value.data;
    g = (double *)w.p[4].grad.data;
    for (j = 0; j < 32; j++) {
        const double h = 1e-5, keep = x[j];
        double up, down;
        x[j] = keep + h;
        up = loss_only(ctx, layers, &w);
        x[j] = keep - h;
        down = loss_only(ctx, layers, &w);
        x[j] = keep;
        worst = fmax(worst, fabs((up - down) / (2 * h) - g[j]));
    }
    T_CLOSE(worst, 0, 1e-7);
    t_close(ctx);
}

/* softmax by hand: logits 0, ln 3; label 0: -ln(1/4), gradient (1/4 - 1, 3/4); smoothing 0.2: targets 0.9, 0.1 */
static void test_cross_entropy_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[4] = { 0, 1.0986123f, 5, 5 }, g[4];
    int32_t label[2] = { 0, -1 };
    tiny_tensor l = tiny_tensor_1d(label, TINY_I32, 2), y;
    tiny_cross_entropy_params q = { 0, 1 };
    tiny_param p;
    tiny_tape *t;
    memset(&p, 0, sizeof p);
    p.value = tiny_tensor_2d(x, TINY_F32, 2, 2);
    p.grad = tiny_tensor_2d(g, TINY_F32, 2, 2);
    T_OK(tiny_tape_open(ctx, NULL, &t));
    T_OK(tiny_tape_param(t, &p));
    y = tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &p.value, &l, NULL, NULL, &q);
    T_OK(tiny_tape_backward(t, &y, NULL));
    T_CLOSE(value_of(&y), log(4.0), 2e-7);
    T_CLOSE(g[0], -0.75, 1e-7);
    T_CLOSE(g[1], 0.75, 1e-7);
    T_TRUE(g[2] == 0 && g[3] == 0);         /* left out */
    q.smoothing = 0.2f;
    y = tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &p.value, &l, NULL, NULL, &q);
    tiny_tape_zero(t);
    T_OK(tiny_tape_backward(t, &y, NULL));
    T_CLOSE(value_of(&y), log(4.0) - 0.1 * log(3.0), 2e-7);
    T_CLOSE(g[0], 0.25 - 0.9, 1e-7);
    T_CLOSE(g[1], 0.75 - 0.1, 1e-7);
    tiny_tape_close(t);
    t_close(ctx);
}

/* ---- promises of the tape */

static void test_twice_doubles(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    net w;
    tiny_tape *t;
    tiny_tensor loss;
    double *once;
    size_t i, n;
    tiny_idx k;
    make_transformer(&w, TINY_F64);
    for (i = 0, n = 0; i < w.n; i++) n += (size_t)tiny_tensor_count(&w.p[i].value);
    once = (double *)t_keep(n * sizeof *once);
    t = tape_of(ctx, &w, 1 << 22, 0);
    loss = transformer(t, &w);
    T_OK(tiny_tape_backward(t, &loss, NULL));
    for (i = 0, n = 0; i < w.n; i++)
        for (k = 0; k < tiny_tensor_count(&w.p[i].value); k++) once[n++] = ((double *)w.p[i].grad.data)[k];
    T_OK(tiny_tape_backward(t, &loss, NULL));
    for (i = 0, n = 0; i < w.n; i++)
        for (k = 0; k < tiny_tensor_count(&w.p[i].value); k++, n++)
            T_CLOSE(((double *)w.p[i].grad.data)[k], 2 * once[n], 1e-14);
    tiny_tape_zero(t);
    T_OK(tiny_tape_backward(t, &loss, NULL));
    for (i = 0, n = 0; i < w.n; i++)
        for (k = 0; k < tiny_tensor_count(&w.p[i].value); k++, n++)
            T_CLOSE(((double *)w.p[i].grad.data)[k], once[n], 0);
    tiny_tape_close(t);
    t_close(ctx);
}

static void test_memory_reported_beforehand(void)
{
    static const model models[3] = { transformer, conv, layers };
    int m, segment;
    for (m = 0; m < 3; m++)
        for (segment = 0; segment < 2; segment++) {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
            tiny_tensor loss;
            tiny_tape *t;
            size_t high, used, before;
            net w;
            if (m == 0) make_transformer(&w, TINY_F64);
            else if (m == 1) make_conv(&w, TINY_F64);
            else make_layers(&w, TINY_F64);
            w.segment = segment;
            before = tiny_ctx_bytes(ctx);
            t = tape_of(ctx, &w, 0, 1);
            loss = models[m](t, &w);
            T_OK(tiny_tape_backward(t, &loss, NULL));
            high = tiny_tape_high(t);
            tiny_tape_close(t);
            T_TRUE(high > 0);
            T_EQ_INT(tiny_ctx_bytes(ctx), before);
            (void)run(ctx, models[m], &w, &used);
            T_EQ_INT(used, high);
            t = tape_of(ctx, &w, high, 0);  /* exactly so much is enough ... */
            loss = models[m](t, &w);
            T_OK(tiny_tape_backward(t, &loss, NULL));
            tiny_tape_close(t);
            t = tape_of(ctx, &w, high - 64, 0);     /* ... and a line less is not */
            loss = models[m](t, &w);
            T_STATUS(tiny_tape_backward(t, &loss, NULL), TINY_E_WORKSPACE, "do not fit");
            tiny_tape_close(t);
            t_close(ctx);
        }
}

static void test_segments_save_memory(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t plain, cut, i;
    double a, b, *g[MOST_PARAMS];
    tiny_idx k;
    net w;
    make_transformer(&w, TINY_F64);
    a = run(ctx, transformer, &w, &plain);
    for (i = 0; i < w.n; i++) {
        g[i] = (double *)t_keep((size_t)tiny_tensor_count(&w.p[i].value) * sizeof(double));
        memcpy(g[i], w.p[i].grad.data, (size_t)tiny_tensor_count(&w.p[i].value) * sizeof(double));
    }
    w.segment = 1;
    b = run(ctx, transformer, &w, &cut);
    T_CLOSE(a, b, 0);
    for (i = 0; i < w.n; i++)
        for (k = 0; k < tiny_tensor_count(&w.p[i].value); k++) T_CLOSE(((double *)w.p[i].grad.data)[k], g[i][k], 1e-14);
    printf("    bytes for two blocks: %lu kept, %lu in segments\n", (unsigned long)plain, (unsigned long)cut);
    T_TRUE(cut < plain * 4 / 5);
    t_close(ctx);
}

static void test_threads(tiny_target target)
{
    float *g[2];
    int k;
    size_t i;
    for (k = 0; k < 2; k++) {
        tiny_ctx *ctx = t_ctx(target, k ? 4 : 1);
        tiny_tape_desc d = { 0 };
        tiny_tape *t;
        tiny_tensor x, y, loss, label;
        tiny_param p[2];
        int64_t *l = (int64_t *)t_keep(256 * sizeof *l);
        t_now.rand_at = 12345;
        memset(p, 0, sizeof p);
        p[0].value = tiny_tensor_2d(t_rand(300 * 200, -0.1f, 0.1f), TINY_F32, 300, 200);
        p[1].value = tiny_tensor_2d(t_rand(50 * 300, -0.1f, 0.1f), TINY_F32, 50, 300);
        g[k] = t_rand(300 * 200, 0, 0);
        p[0].grad = tiny_tensor_2d(g[k], TINY_F32, 300, 200);
        p[1].grad = tiny_tensor_2d(t_rand(50 * 300, 0, 0), TINY_F32, 50, 300);
        x = tiny_tensor_2d(t_rand(256 * 200, -1, 1), TINY_F32, 256, 200);
        for (i = 0; i < 256; i++) l[i] = (int64_t)(i % 50);
        label = tiny_tensor_1d(l, TINY_I64, 256);
        d.bytes = 1 << 22;
        T_OK(tiny_tape_open(ctx, &d, &t));
        for (i = 0; i < 2; i++) T_OK(tiny_tape_param(t, &p[i]));
        y = tiny_tape_linear(t, &x, &p[0].value, NULL, TINY_ACT_SILU);
        y = tiny_tape_linear(t, &y, &p[1].value, NULL, TINY_ACT_NONE);
        loss = tiny_tape_cross_entropy(t, &y, &label, 0.1);
        T_OK(tiny_tape_backward(t, &loss, NULL));
        tiny_tape_close(t);
        t_close(ctx);
    }
    T_SAME(g[0], g[1], 300 * 200);
}

/* ten thousand steps: neither the tape nor the context grows, and the last step gives the same as the first */
static void test_many_steps(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tape_mark mark;
    tiny_tape *t;
    tiny_tensor loss;
    size_t bytes = 0, high = 0;
    double first = 0.0;
    int i, n = T_SLOW ? 500 : 10000;
    net w;
    make_layers(&w, TINY_F64);
    t = tape_of(ctx, &w, 1 << 20, 0);
    mark = tiny_tape_now(t);
    for (i = 0; i < n; i++) {
        tiny_tensor h = tiny_tape_mul(t, &w.p[3].value, &w.p[3].value);
        loss = tiny_tape_mean(t, &h);
        tiny_tape_zero(t);
        T_OK(tiny_tape_backward(t, &loss, NULL));
        if (i == 0) {
            first = value_of(&loss);
            bytes = tiny_ctx_bytes(ctx);
            high = tiny_tape_high(t);
        }
        tiny_tape_release(t, mark);
    }
    T_CLOSE(value_of(&loss), first, 0);
    T_EQ_INT(tiny_ctx_bytes(ctx), bytes);
    T_EQ_INT(tiny_tape_high(t), high);
    tiny_tape_close(t);
    t_close(ctx);
}

/* f = w' A w / 2 with a symmetric A: H v = A v */
typedef struct quadratic { tiny_ctx *ctx; tiny_tape *t; tiny_param p; tiny_tensor a; } quadratic;
static tiny_status quadratic_gradient(void *user)
{
    quadratic *q = (quadratic *)user;
    tiny_tape_mark m = tiny_tape_now(q->t);
    tiny_tensor h = tiny_tape_linear(q->t, &q->p.value, &q->a, NULL, TINY_ACT_NONE), loss;
    tiny_status st;
    h = tiny_tape_mul(q->t, &h, &q->p.value);
    loss = tiny_tape_mean(q->t, &h);
    tiny_tape_zero(q->t);
    st = tiny_tape_backward(q->t, &loss, NULL);
    tiny_tape_release(q->t, m);
    return st;
}

static void test_curvature(void)
{
    enum { N = 6 };
    double a[N * N], w[N], g[N], v[N], h[N];
    quadratic q;
    tiny_tensor tv = tiny_tensor_2d(v, TINY_F64, 1, N), th = tiny_tensor_2d(h, TINY_F64, 1, N);
    int i, j;
    for (i = 0; i < N; i++) {
        w[i] = (double)t_rand_float(-1, 1);
        v[i] = (double)t_rand_float(-1, 1);
        for (j = 0; j <= i; j++) a[i * N + j] = a[j * N + i] = (double)t_rand_float(-1, 1);
    }
    memset(&q, 0, sizeof q);
    q.ctx = t_ctx(TINY_TARGET_AUTO, 1);
    q.p.value = tiny_tensor_2d(w, TINY_F64, 1, N);
    q.p.grad = tiny_tensor_2d(g, TINY_F64, 1, N);
    q.a = tiny_tensor_2d(a, TINY_F64, N, N);
    T_OK(tiny_tape_open(q.ctx, NULL, &q.t));
    T_OK(tiny_tape_param(q.t, &q.p));
    T_OK(tiny_hvp(q.ctx, &q.p, 1, quadratic_gradient, &q, &tv, &th));
    for (i = 0; i < N; i++) {
        double want = 0.0;
        for (j = 0; j < N; j++) want += 2.0 / N * a[i * N + j] * v[j];
        T_CLOSE(h[i], want, 3e-12);
    }
    memset(v, 0, sizeof v);
    T_OK(tiny_hvp(q.ctx, &q.p, 1, quadratic_gradient, &q, &tv, &th));
    T_CLOSE(h[0], 0, 0);
    th = tiny_tensor_2d(h, TINY_F32, 1, N);
    T_STATUS(tiny_hvp(q.ctx, &q.p, 1, quadratic_gradient, &q, &tv, &th), TINY_E_DTYPE, "dense f64");
    tiny_tape_close(q.t);
    t_close(q.ctx);
}

/* evaluation by running values is a convolution with other weights: w g r, b = (b - mean) g r + beta */
static void test_batch_norm_folds(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(2 * 3 * 36, -1, 1), *w = t_rand(4 * 3 * 9, -1, 1), *wf = t_rand(4 * 3 * 9, 0, 0), b[4], bf[4],
          g[4], beta[4], mean[4], var[4];
    tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, 2, 3, 6, 6), tw = tiny_tensor_4d(w, TINY_F32, 4, 3, 3, 3),
                twf = tiny_tensor_4d(wf, TINY_F32, 4, 3, 3, 3), tb = tiny_tensor_1d(b, TINY_F32, 4);
    tiny_tensor tbf = tiny_tensor_1d(bf, TINY_F32, 4), tg = tiny_tensor_1d(g, TINY_F32, 4),
                tbeta = tiny_tensor_1d(beta, TINY_F32, 4), tm = tiny_tensor_1d(mean, TINY_F32, 4),
                tv = tiny_tensor_1d(var, TINY_F32, 4);
    tiny_tensor y, z;
    tiny_batch_norm_params p = { 0, 0, 0 };
    tiny_tape *t;
    int c, i;
    for (c = 0; c < 4; c++) {
        double r;
        b[c] = t_rand_float(-1, 1);
        g[c] = t_rand_float(0.5f, 2);
        beta[c] = t_rand_float(-1, 1);
        mean[c] = t_rand_float(-1, 1);
        var[c] = t_rand_float(0.5f, 2);
        r = g[c] / sqrt((double)var[c] + 1e-5);
        for (i = 0; i < 27; i++) wf[c * 27 + i] = (float)(w[c * 27 + i] * r);
        bf[c] = (float)((b[c] - mean[c]) * r + beta[c]);
    }
    T_OK(tiny_tape_open(ctx, NULL, &t));
    y = tiny_tape_call(t, TINY_OP_CONV2D, &tx, &tw, &tb, NULL, NULL);
    y = tiny_tape_batch_norm(t, &y, &tg, &tbeta, &tm, &tv, &p);
    z = tiny_tape_call(t, TINY_OP_CONV2D, &tx, &twf, &tbf, NULL, NULL);
    T_OK(tiny_tape_status(t));
    for (i = 0; i < 2 * 4 * 16; i++) T_CLOSE(((float *)y.data)[i], ((float *)z.data)[i], 5e-6);
    /* training moves the running values: 0.9 old + 0.1 new */
    {
        double m = 0.0, s = 0.0;
        float m0 = mean[1], v0 = var[1];
        const float *q;
        p.train = 1;
        y = tiny_tape_call(t, TINY_OP_CONV2D, &tx, &tw, &tb, NULL, NULL);
        q = (const float *)y.data;
        for (i = 0; i < 32; i++) m += (double)q[i / 16 * 64 + 16 + i % 16] / 32;
        for (i = 0; i < 32; i++) s += (q[i / 16 * 64 + 16 + i % 16] - m) * (q[i / 16 * 64 + 16 + i % 16] - m) / 32;
        y = tiny_tape_batch_norm(t, &y, &tg, &tbeta, &tm, &tv, &p);
        T_CLOSE(mean[1], 0.9 * (double)m0 + 0.1 * m, 1e-6);
        T_CLOSE(var[1], 0.9 * (double)v0 + 0.1 * s, 1e-5);
    }
    tiny_tape_close(t);
    t_close(ctx);
}

static tiny_status reads_behind(tiny_tape *t, void *user, const tiny_tensor *in, tiny_tensor *out)
{
    out[0] = tiny_tape_mul(t, &in[0], (const tiny_tensor *)user);
    return tiny_tape_status(t);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float w[4] = { 1, 2, 3, 4 }, g[4], other[4] = { 1, 1, 1, 1 };
    int32_t label[2] = { 0, 5 };
    tiny_tensor l = tiny_tensor_1d(label, TINY_I32, 2), c = tiny_tensor_2d(other, TINY_F32, 2, 2), y, z, s;
    tiny_idx dim[4] = { 3, 3, 1, 1 };
    tiny_tape_mark m;
    tiny_param p;
    tiny_tape *t;
    tiny_op op;
    memset(&p, 0, sizeof p);
    p.name = "w";
    p.value = tiny_tensor_2d(w, TINY_F32, 2, 2);
    p.grad = tiny_tensor_2d(g, TINY_F32, 2, 2);
    T_OK(tiny_tape_open(ctx, NULL, &t));
    T_OK(tiny_tape_param(t, &p));
    T_OK(tiny_tape_param(t, &p));           /* twice is once */
    m = tiny_tape_now(t);
#define AGAIN(st, part)                          \
    do {                                         \
        T_STATUS(tiny_tape_status(t), st, part); \
        tiny_tape_release(t, m);                 \
        T_OK(tiny_tape_status(t));               \
    } while (0)
    y = tiny_tape_mul(t, &p.value, &p.value);
    T_STATUS(tiny_tape_backward(t, &y, NULL), TINY_E_SHAPE,
             "backward from 2x2 f32; without dy the result must be a single number");
    AGAIN(TINY_E_SHAPE, NULL);
    y = tiny_tape_mean(t, &c);
    T_STATUS(tiny_tape_backward(t, &y, NULL), TINY_E_ARGUMENT, "depends on no parameter");
    AGAIN(TINY_E_ARGUMENT, NULL);
    (void)tiny_tape_cross_entropy(t, &p.value, &l, 0.0);
    AGAIN(TINY_E_ARGUMENT, "label 1 is 5, but there are 2 classes");
    (void)tiny_tape_cross_entropy(t, &p.value, &l, 1.0);
    AGAIN(TINY_E_ARGUMENT, "smoothing 1 must be at least 0 and below 1");
    z = tiny_tensor_2d(other, TINY_F32, 1, 3);
    y = tiny_tape_add(t, &p.value, &z);
    T_TRUE(y.data == NULL);
    y = tiny_tape_mul(t, &y, &y);           /* nothing runs after a failure */
    AGAIN(TINY_E_SHAPE, "2x2 f32 and 1x3 f32 do not fit together");
    y = tiny_tape_mul(t, &p.value, &p.value);
    z = tiny_tape_call(t, TINY_OP_ARGMAX, &y, NULL, NULL, NULL, NULL);
    y = tiny_tape_mean(t, &y);
    T_OK(tiny_tape_backward(t, &y, NULL));  /* argmax outside the path of the loss does no harm */
    tiny_tape_release(t, m);
    y = tiny_tape_call(t, TINY_OP_CUMSUM, &p.value, NULL, NULL, NULL, NULL);
    y = tiny_tape_mean(t, &y);
    T_STATUS(tiny_tape_backward(t, &y, NULL), TINY_E_UNSUPPORTED,
             "cumsum has no gradient, and the result depends on a parameter through it");
    AGAIN(TINY_E_UNSUPPORTED, NULL);
    /* in place, over a value that was read, into a parameter, into foreign memory */
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_RELU;
    y = tiny_tape_mul(t, &p.value, &p.value);
    op.in[0] = op.out[0] = &y;
    (void)tiny_tape_op(t, &op, NULL);
    AGAIN(TINY_E_ALIAS, "relu works in place");
    y = tiny_tape_mul(t, &p.value, &p.value);
    z = tiny_tape_mul(t, &y, &c);
    op.in[0] = &c;
    op.out[0] = &y;
    (void)tiny_tape_op(t, &op, NULL);
    AGAIN(TINY_E_ALIAS, "an earlier operation has read");
    y = tiny_tape_mul(t, &c, &c);
    (void)tiny_tape_op(t, &op, NULL);
    AGAIN(TINY_E_ALIAS, "already written");
    op.out[0] = &p.value;
    (void)tiny_tape_op(t, &op, NULL);
    AGAIN(TINY_E_ALIAS, "relu writes into the parameter w");
    op.in[0] = &p.value;
    op.out[0] = &c;
    (void)tiny_tape_op(t, &op, NULL);
    AGAIN(TINY_E_ARGUMENT, "outside of the tape");
    y = tiny_tape_mul(t, &p.value, &p.value);       /* a segment that reads more than its inputs */
    s = tiny_tape_mul(t, &y, &c);
    T_OK(tiny_tape_segment(t, reads_behind, &y, 1, &s, 1, &z));
    z = tiny_tape_mean(t, &z);
    (void)tiny_tape_backward(t, &z, NULL);
    T_STATUS(tiny_tape_status(t), TINY_E_ARGUMENT, "a segment reads a value of the tape that is not one of its inputs");
    tiny_tape_release(t, m);
    (void)tiny_tape_segment(t, NULL, NULL, 1, &s, 1, &z);
    AGAIN(TINY_E_ARGUMENT, "a segment has up to 4 inputs");
    (void)tiny_tape_reshape(t, &c, 2, dim);
    AGAIN(TINY_E_SHAPE, "another number of elements");
    (void)tiny_tape_huber(t, &c, &c, 0.0);
    AGAIN(TINY_E_ARGUMENT, "delta must be above 0");
    (void)tiny_tape_linear(t, &c, &l, NULL, 0);
    AGAIN(TINY_E_SHAPE, "w must be a matrix");
    (void)tiny_tape_op(t, NULL, NULL);
    AGAIN(TINY_E_ARGUMENT, "operation kind 0 is unknown");
    dim[0] = TINY_IDX_MAX / 2;
    (void)tiny_tape_new(t, TINY_F64, 2, dim);
    AGAIN(TINY_E_OVERFLOW, "not possible");
    dim[0] = 1 << 20;
    dim[1] = 1000;
    (void)tiny_tape_new(t, TINY_F32, 2, dim);
    AGAIN(TINY_E_WORKSPACE, "do not fit");
    /* NaN: the sentence names its origin */
    y = tiny_tape_scale(t, &p.value, 0.0, 0.0);
    z = tiny_tape_call(t, TINY_OP_DIV, &p.value, &y, NULL, NULL, NULL);
    z = tiny_tape_sub(t, &z, &z);
    z = tiny_tape_mean(t, &z);
    T_STATUS(tiny_tape_backward(t, &z, NULL), TINY_E_NUMERIC,
             "the first number that is not finite comes from div (operation 1, 2x2 f32)");
    AGAIN(TINY_E_NUMERIC, NULL);
    w[2] = NAN;
    z = tiny_tape_mean(t, &p.value);
    T_STATUS(tiny_tape_backward(t, &z, NULL), TINY_E_NUMERIC,
             "the loss is nan: the parameter w holds a number that is not finite");
    AGAIN(TINY_E_NUMERIC, NULL);
    w[2] = 3;
    other[1] = INFINITY;
    z = tiny_tape_mul(t, &p.value, &c);
    z = tiny_tape_mean(t, &z);
    T_STATUS(tiny_tape_backward(t, &z, NULL), TINY_E_NUMERIC, "input 1 of mul (operation 0, 2x2 f32), a constant");
    AGAIN(TINY_E_NUMERIC, NULL);
    p.grad = tiny_tensor_1d(g, TINY_F32, 4);
    T_STATUS(tiny_tape_param(t, &p), TINY_E_SHAPE, "parameter w: value and gradient");
    tiny_tape_release(t, m);
    p.grad = tiny_tensor_2d(g, TINY_F32, 1, 2);
    p.value = tiny_tensor_2d(w + 1, TINY_F32, 1, 2);
    T_STATUS(tiny_tape_param(t, &p), TINY_E_ALIAS, "the parameters w and w share memory");
    tiny_tape_close(t);
    tiny_tape_close(NULL);
    t_close(ctx);
}

static void test_memory(void)
{
    net w;
    make_transformer(&w, TINY_F32);
    w.segment = 1;
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_tape *t = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_tape_desc d = { 0 };
            tiny_status st;
            size_t i;
            d.bytes = 1 << 20;
            st = tiny_tape_open(ctx, &d, &t);
            for (i = 0; !st && i < w.n; i++) st = tiny_tape_param(t, &w.p[i]);
            if (!st) {
                tiny_tensor loss = transformer(t, &w);
                st = tiny_tape_backward(t, &loss, NULL);
            }
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            T_TRUE(st == TINY_OK || *tiny_ctx_message(ctx));
            tiny_tape_close(t);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN(test_transformer);
    T_RUN(test_conv);
    T_RUN(test_layers);
    T_RUN(test_distillation);
    T_RUN_TARGETS(test_cross_entropy_by_hand);
    T_RUN(test_twice_doubles);
    T_RUN(test_memory_reported_beforehand);
    T_RUN(test_segments_save_memory);
    T_RUN_TARGETS(test_threads);
    T_RUN(test_many_steps);
    T_RUN(test_curvature);
    T_RUN_TARGETS(test_batch_norm_folds);
    T_RUN(test_bad_input);
    T_RUN(test_memory);
    return t_done();
}
#endif
