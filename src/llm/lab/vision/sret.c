/* src/llm/lab/vision/sret.c - a sliced recursive transformer
 * Paper    Z. Shen, Z. Liu, E. Xing, 2022 (arXiv 2111.05297), and the authors' code.
 * Formula  stage: for r < R, for l < L / R: x = c0 x + c1 GSA(norm x), x = c2 x + c3 W2 gelu(W1 norm x) with block r;
 *          then with its own layer r L / R + l: x = c2 x + c3 W2 gelu(W1 norm x). All c are learned and start as 1.
 *          GSA: attention inside slices of N / G tokens. network: stem of 3 x 3 convolutions of stride 2 with batch
 *          norm and ReLU, positions, stages, between them a depthwise 3 x 3 convolution of stride 2 to twice the
 *          channels; mean of all tokens, norm, head.
 * Data     tokens (N, B, d) as in llm/lab/vision/vit.h: a slice of all images and heads is a view, and writes into a
 *          part of the result.
 * Cost     of a run: (4 d^2 + 2 d hidden) N + 2 N^2 d / G multiply-adds an image, 2 d^2 nll_ratio N of the small layer.
 * Left out distillation from a teacher's probabilities: tiny_tape_kl_distill does that for any network. */
#include "llm/lab/vision/sret.h"
#include "llm/lab/vision/params_inside.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_SRET_STEMS 8

typedef struct tinyi_sret_stage {
    tiny_idx d, side;
    tllm_vit_block *block, *nll;            /* (distinct), (depth) */
    tiny_tensor pool_w, pool_b;             /* after it; data NULL: the last one */
} tinyi_sret_stage;

struct tllm_sret {
    tiny_ctx *ctx;
    tllm_sret_desc is;
    tinyi_sret_stage stage[TLLM_SRET_STAGES];
    tiny_tensor stem_w[TINYI_SRET_STEMS], stem_g[TINYI_SRET_STEMS], stem_b[TINYI_SRET_STEMS], mean[TINYI_SRET_STEMS],
        var[TINYI_SRET_STEMS];
    tiny_tensor pos, norm_g, norm_b, head_w, head_b;
    tinyi_params p;
    tllm_vit_block *blocks;
    void *running;
    int training;
    uint64_t calls;
};

static tiny_tensor tinyi_sret_bad(tiny_tape *tape, tiny_status st, const char *text)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    (void)tinyi_tape_refuse(tape, st, text);
    return none;
}

static tiny_tensor tinyi_sret_as(tiny_tape *tape, const tiny_tensor *x, int rank, tiny_idx a, tiny_idx b, tiny_idx c,
                                 tiny_idx d)
{
    tiny_idx dim[4];
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    return tiny_tape_reshape(tape, x, rank, dim);
}

/* ---- slices */

static tiny_tensor tinyi_sret_slice(const tiny_tensor *x, tiny_idx i, tiny_idx n)
{
    tiny_tensor part = *x;
    part.dim[0] = n;
    part.data = (unsigned char *)x->data + (size_t)(i * n * x->stride[0]) * tiny_dtype_bytes(x->dtype);
    return part;
}

/* 0 where order is no permutation */
static int tinyi_sret_turn(const int32_t *order, tiny_idx n, int32_t *back)
{
    tiny_idx i;
    for (i = 0; i < n; i++) back[i] = -1;
    for (i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n || back[order[i]] >= 0) return 0;
        back[order[i]] = (int32_t)i;
    }
    return 1;
}

TINY_API tiny_tensor tllm_sliced_attention(tiny_tape *tape, const tiny_tensor *q, const tiny_tensor *k,
                                           const tiny_tensor *v, tiny_idx slices, int shuffled,
                                           const tiny_tensor *order)
{
    tiny_tensor x[3], o, back, out[TINY_OP_MAX_OUT];
    tiny_idx n, i;
    int j;
    memset(&o, 0, sizeof o);
    memset(&back, 0, sizeof back);
    if (!tape || tiny_tape_status(tape)) return o;
    if (!q || !k || !v || q->rank != 3 || k->rank != 3 || v->rank != 3 || k->dim[0] != q->dim[0] ||
        v->dim[0] != q->dim[0])
        return tinyi_sret_bad(tape, TINY_E_SHAPE,
                              "sliced attention: q, k and v must be (tokens, heads, numbers) of the same tokens");
    n = q->dim[0];
    if (slices < 1 || n % slices)
        return tinyi_sret_bad(tape, TINY_E_SHAPE, "sliced attention: the slices do not divide the tokens");
    if (shuffled && slices > 1 && !order)
        return tinyi_sret_bad(tape, TINY_E_ARGUMENT, "sliced attention: a further run needs an order of the tokens");
    if (order && (tiny_tensor_check(order) || order->dtype != TINY_I32 || order->rank != 1 || order->dim[0] != n ||
                  !tiny_tensor_is_dense(order)))
        return tinyi_sret_bad(tape, TINY_E_SHAPE,
                              "sliced attention: an order must be dense i32, one number for each token");
    if (slices == 1) return tiny_tape_call(tape, TINY_OP_ATTENTION, q, k, v, NULL, NULL);
    x[0] = *q; x[1] = *k; x[2] = *v;
    if (order) {
        back = tiny_tape_new(tape, TINY_I32, 1, &n);
        if (!back.data) return o;
        if (!tiny_tape_dry(tape) && !tinyi_sret_turn((const int32_t *)order->data, n, (int32_t *)back.data))
            return tinyi_sret_bad(tape, TINY_E_ARGUMENT,
                                  "sliced attention: the order does not contain each token exactly once");
        for (j = 0; j < 3; j++) x[j] = tiny_tape_call(tape, TINY_OP_GATHER, &x[j], order, NULL, NULL, NULL);
        if (tiny_tape_status(tape)) return o;
    }
    {
        tiny_idx dim[3];
        dim[0] = n; dim[1] = q->dim[1]; dim[2] = v->dim[2];
        o = tiny_tape_new(tape, q->dtype, 3, dim);
    }
    for (i = 0; i < slices && o.data; i++) {
        tiny_tensor part[4];
        tiny_op op;
        for (j = 0; j < 3; j++) part[j] = tinyi_sret_slice(&x[j], i, n / slices);
        part[3] = tinyi_sret_slice(&o, i, n / slices);
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_ATTENTION;
        op.in[0] = &part[0]; op.in[1] = &part[1]; op.in[2] = &part[2];
        op.out[0] = &part[3];
        if (tiny_tape_op(tape, &op, out)) memset(&o, 0, sizeof o);
    }
    return order && o.data ? tiny_tape_call(tape, TINY_OP_GATHER, &o, &back, NULL, NULL, NULL) : o;
}

/* ---- weights */

static void tinyi_sret_lay_small(tinyi_params *p, tllm_vit_block *k, tiny_idx d, tiny_idx hidden, const char *prefix)
{
    tinyi_vit_lay_wide(p, k, d, hidden, prefix);
    tinyi_vit_vector(p, &k->c[2], TINYI_FIRST_ONE, 1, prefix, "scale.2");
    tinyi_vit_vector(p, &k->c[3], TINYI_FIRST_ONE, 1, prefix, "scale.3");
}

static void tinyi_sret_lay(tllm_sret *s)
{
    const tllm_sret_desc *is = &s->is;
    tinyi_params *p = &s->p;
    tiny_idx dim[4], i, k, in = is->channels;
    char prefix[48];
    dim[2] = dim[3] = 3;
    for (i = 0; i < is->n_stem; i++) {
        dim[0] = i || is->n_stem == 1 ? is->d : is->d / 2;
        dim[1] = in;
        (void)snprintf(prefix, sizeof prefix, "stem.%d.", (int)i);
        tinyi_params_add(p, &s->stem_w[i], TINYI_FIRST_XAVIER, 0, 4, dim, "%sweight", prefix);
        tinyi_vit_vector(p, &s->stem_g[i], TINYI_FIRST_ONE, dim[0], prefix, "bn.weight");
        tinyi_vit_vector(p, &s->stem_b[i], TINYI_FIRST_ZERO, dim[0], prefix, "bn.bias");
        in = dim[0];
    }
    dim[0] = s->stage[0].side * s->stage[0].side;
    dim[1] = is->d;
    tinyi_params_add(p, &s->pos, TINYI_FIRST_SMALL, 1, 2, dim, "pos_embed");
    for (i = 0; i < is->n_stage; i++) {
        tinyi_sret_stage *t = &s->stage[i];
        for (k = 0; k < is->stage[i].distinct; k++) {
            (void)snprintf(prefix, sizeof prefix, "stages.%d.blocks.%d.", (int)i, (int)k);
            tinyi_vit_lay_attention(p, &t->block[k], t->d, prefix);
            tinyi_vit_vector(p, &t->block[k].c[0], TINYI_FIRST_ONE, 1, prefix, "scale.0");
            tinyi_vit_vector(p, &t->block[k].c[1], TINYI_FIRST_ONE, 1, prefix, "scale.1");
            tinyi_sret_lay_small(p, &t->block[k], t->d, (tiny_idx)(is->ratio * (double)t->d), prefix);
        }
        for (k = 0; k < is->stage[i].depth; k++) {
            (void)snprintf(prefix, sizeof prefix, "stages.%d.nll.%d.", (int)i, (int)k);
            tinyi_sret_lay_small(p, &t->nll[k], t->d, (tiny_idx)(is->nll_ratio * (double)t->d), prefix);
        }
        if (i + 1 == is->n_stage) break;
        dim[0] = 2 * t->d; dim[1] = 1; dim[2] = dim[3] = 3;
        (void)snprintf(prefix, sizeof prefix, "stages.%d.pool.", (int)i);
        tinyi_params_add(p, &t->pool_w, TINYI_FIRST_XAVIER, 0, 4, dim, "%sweight", prefix);
        tinyi_vit_vector(p, &t->pool_b, TINYI_FIRST_ZERO, dim[0], prefix, "bias");
    }
    in = s->stage[is->n_stage - 1].d;
    tinyi_vit_vector(p, &s->norm_g, TINYI_FIRST_ONE, in, "", "norm.weight");
    tinyi_vit_vector(p, &s->norm_b, TINYI_FIRST_ZERO, in, "", "norm.bias");
    tinyi_vit_matrix(p, &s->head_w, is->n_class, in, "", "head.weight");
    tinyi_vit_vector(p, &s->head_b, TINYI_FIRST_ZERO, is->n_class, "", "head.bias");
}

TINY_API void tllm_sret_tiny(tllm_sret_desc *d)
{
    static const tllm_sret_stage stage[3] = { { 2, 4, 2, 8, 2 }, { 4, 10, 5, 4, 1 }, { 8, 6, 3, 1, 1 } };
    if (!d) return;
    memset(d, 0, sizeof *d);
    d->image = 224;
    d->n_stem = 3;
    d->d = 64;
    d->ratio = 3.6;
    d->nll_ratio = 1.0;
    d->n_stage = 3;
    memcpy(d->stage, stage, sizeof stage);
    d->n_class = 1000;
}

static tiny_status tinyi_sret_read(tiny_ctx *ctx, const tllm_sret_desc *desc, tllm_sret *s)
{
    static const tllm_sret_stage plain = { 2, 4, 2, 4, 2 };
    tllm_sret_desc *is = &s->is;
    tiny_idx i, d, side;
    if (desc) *is = *desc;
    if (!is->image) is->image = 32;
    if (!is->channels) is->channels = 3;
    if (!is->n_stem) is->n_stem = 2;
    if (!is->d) is->d = 64;
    if (is->ratio == 0.0) is->ratio = 3.6;
    if (is->nll_ratio == 0.0) is->nll_ratio = 1.0;
    if (!is->n_stage) is->stage[is->n_stage++] = plain;
    if (!is->n_class) is->n_class = 10;
    if (is->eps == 0.0) is->eps = 1e-6;
    if (is->image < 1 || is->image > 32767 || is->channels < 1 || is->channels > 65536 || is->n_stem < 1 ||
        is->n_stem > TINYI_SRET_STEMS || is->n_class < 1 || is->n_class > 1 << 20)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "sret: images of %td pixels and %td colours, %td convolutions (1 to %d), %td classes",
                          is->image, is->channels, is->n_stem, TINYI_SRET_STEMS, is->n_class);
    if (is->d < 2 || is->d % 2 || is->d > 65536 || !(is->ratio * (double)is->d >= 1.0 && is->ratio <= 64.0) ||
        !(is->nll_ratio * (double)is->d >= 1.0 && is->nll_ratio <= 64.0) || !(is->eps > 0.0 && is->eps < 1.0))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "sret: %td numbers of a token (even, at most 65536), wide layers %g and %g times that (at most 64), eps %g",
            is->d, is->ratio, is->nll_ratio, is->eps);
    if (is->n_stage < 1 || is->n_stage > TLLM_SRET_STAGES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: %td stages; the limits are 1 and %d", is->n_stage,
                          TLLM_SRET_STAGES);
    if (is->dtype != TINY_F32 && is->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "sret: weights must be f32 or f64");
    for (i = 0, side = is->image; i < is->n_stem; i++, side /= 2)
        if (side % 2)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: %td pixels cannot be halved %td times", is->image,
                              is->n_stem);
    for (i = 0, d = is->d; i < is->n_stage; i++, d *= 2) {
        const tllm_sret_stage *t = &is->stage[i];
        if (t->depth < 1 || t->depth > TLLM_SRET_DEPTH || t->distinct < 1 || t->depth % t->distinct)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "sret: stage %td: a depth of %td (1 to %d) is not a multiple of %td blocks", i, t->depth,
                              TLLM_SRET_DEPTH, t->distinct);
        if (t->n_head < 1 || d % t->n_head)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: stage %td: %td heads do not divide %td numbers", i,
                              t->n_head, d);
        if (t->first < 1 || t->again < 1 || side * side % t->first || side * side % t->again)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: stage %td: %td and %td slices do not divide %td tokens", i,
                              t->first, t->again, side * side);
        s->stage[i].d = d;
        s->stage[i].side = side;
        if (i + 1 < is->n_stage && side % 2)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: stage %td: %td x %td tokens cannot be halved", i, side,
                              side);
        side /= 2;
    }
    return TINY_OK;
}

/* blocks and small layers of all stages, and the running numbers of batch norms */
static tiny_status tinyi_sret_take(tllm_sret *s)
{
    const tllm_sret_desc *is = &s->is;
    const size_t es = tiny_dtype_bytes(is->dtype);
    tiny_idx i, j, n = 0;
    unsigned char *at;
    for (i = 0; i < is->n_stage; i++) n += is->stage[i].distinct + is->stage[i].depth;
    s->blocks = (tllm_vit_block *)tinyi_alloc(s->ctx, (size_t)n, sizeof *s->blocks);
    if (s->blocks) s->running = tinyi_alloc(s->ctx, (size_t)(2 * is->n_stem * is->d), es);
    if (!s->running) return tiny_ctx_status(s->ctx);
    memset(s->blocks, 0, (size_t)n * sizeof *s->blocks);
    for (i = n = 0; i < is->n_stage; i++) {
        s->stage[i].block = s->blocks + n;
        s->stage[i].nll = s->stage[i].block + is->stage[i].distinct;
        n += is->stage[i].distinct + is->stage[i].depth;
    }
    for (i = 0, at = (unsigned char *)s->running; i < is->n_stem; i++, at += 2 * (size_t)is->d * es) {
        const tiny_idx c = i || is->n_stem == 1 ? is->d : is->d / 2;
        s->mean[i] = tiny_tensor_1d(at, is->dtype, c);
        s->var[i] = tiny_tensor_1d(at + (size_t)is->d * es, is->dtype, c);
        for (j = 0; j < c; j++) {
            tinyi_real_set(s->mean[i].data, is->dtype, j, 0.0);
            tinyi_real_set(s->var[i].data, is->dtype, j, 1.0);
        }
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_sret_open(tiny_ctx *ctx, const tllm_sret_desc *desc, tllm_sret **out)
{
    tllm_sret *s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sret: the result pointer is NULL");
    s = (tllm_sret *)tiny_alloc(ctx, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    st = tinyi_sret_read(ctx, desc, s);
    tinyi_params_begin(&s->p, ctx, s->is.dtype, tiny_rng_make(s->is.seed, 0x73726574));
    if (!st) st = tinyi_sret_take(s);
    if (!st) {
        tinyi_sret_lay(s);
        st = tinyi_params_place(&s->p, "sret");
    }
    if (!st) {
        tinyi_sret_lay(s);
        st = s->p.st;
    }
    if (st) tllm_sret_close(s);
    else *out = s;
    return st;
}

TINY_API void tllm_sret_close(tllm_sret *s)
{
    if (!s) return;
    tinyi_params_free(&s->p);
    tiny_free(s->ctx, s->running);
    tiny_free(s->ctx, s->blocks);
    tiny_free(s->ctx, s);
}

TINY_API const tllm_sret_desc *tllm_sret_is(const tllm_sret *s) { return s ? &s->is : NULL; }
TINY_API tiny_idx tllm_sret_tokens(const tllm_sret *s, tiny_idx i)
{
    return s && i >= 0 && i < s->is.n_stage ? s->stage[i].side * s->stage[i].side : 0;
}
TINY_API void tllm_sret_training(tllm_sret *s, int on) { if (s) s->training = on; }
TINY_API const tiny_param *tllm_sret_params(const tllm_sret *s, size_t *n)
{
    if (n) *n = s ? s->p.n : 0;
    return s ? s->p.param : NULL;
}

/* ---- the way through */

typedef struct tinyi_sret_mix { tiny_idx slices; const tiny_tensor *order; } tinyi_sret_mix;

static tiny_tensor tinyi_sret_mixed(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *q,
                                    const tiny_tensor *k, const tiny_tensor *v)
{
    const tinyi_sret_mix *m = (const tinyi_sret_mix *)user;
    (void)at;
    return tllm_sliced_attention(tape, q, k, v, m->slices, m->order != NULL, m->order);
}

/* the order of run l of block r: drawn by number, so that it is the same whenever it is asked for */
static tiny_tensor tinyi_sret_order(tiny_tape *tape, const tllm_sret *s, tiny_idx i_stage, tiny_idx r, tiny_idx l,
                                    tiny_idx n)
{
    tiny_tensor t = tiny_tape_new(tape, TINY_I32, 1, &n);
    tiny_rng rng = tiny_rng_make(s->is.seed + (s->is.fresh ? s->calls * UINT64_C(0x9e3779b97f4a7c15) : 0),
                                 (uint64_t)i_stage << 32 | (uint64_t)r << 16 | (uint64_t)l);
    if (t.data && !tiny_tape_dry(tape)) tiny_rng_permutation(&rng, (uint32_t *)t.data, (uint32_t)n);
    return t;
}

TINY_API tiny_tensor tllm_sret_stage_run(tiny_tape *tape, tllm_sret *s, tiny_idx i_stage, const tiny_tensor *x)
{
    const tllm_sret_stage *is;
    const tinyi_sret_stage *t;
    tiny_tensor y, order;
    tinyi_sret_mix mix;
    tllm_vit_hooks hooks;
    tllm_vit_at at;
    tiny_idx r, l, loops;
    memset(&y, 0, sizeof y);
    if (!tape || !s || !x || tiny_tape_status(tape)) return y;
    if (i_stage < 0 || i_stage >= s->is.n_stage || x->rank != 3 || x->dim[2] != s->stage[i_stage].d || x->dim[0] < 1 ||
        x->dim[0] > 0x7fffffff)
        return tinyi_sret_bad(tape, TINY_E_SHAPE, "sret: x must be (tokens, batch, numbers of the stage)");
    is = &s->is.stage[i_stage];
    t = &s->stage[i_stage];
    memset(&hooks, 0, sizeof hooks);
    memset(&at, 0, sizeof at);
    hooks.user = &mix;
    hooks.mix = tinyi_sret_mixed;
    at.batch = x->dim[1];
    at.n_head = is->n_head;
    at.eps = s->is.eps;
    loops = is->depth / is->distinct;
    for (y = *x, r = 0; r < is->distinct && !tiny_tape_status(tape); r++)
        for (l = 0; l < loops && !tiny_tape_status(tape); l++) {
            at.i_block = r * loops + l;
            mix.slices = l ? is->again : is->first;
            mix.order = NULL;
            if (l && mix.slices > 1) {
                order = tinyi_sret_order(tape, s, i_stage, r, l, x->dim[0]);
                mix.order = &order;
            }
            y = tllm_vit_attend(tape, &t->block[r], &at, &y, &hooks, NULL);
            y = tllm_vit_wide(tape, &t->block[r], &at, &y);
            y = tllm_vit_wide(tape, &t->nll[at.i_block], &at, &y);
        }
    return y;
}

/* (B, C, H, W) to (H W, B, C), and back */
static tiny_tensor tinyi_sret_tokens_of(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_tensor y = tinyi_sret_as(tape, x, 3, x->dim[0], x->dim[1], x->dim[2] * x->dim[3], 1);
    if (tiny_tape_status(tape)) return y;
    y = tiny_tensor_swap(tiny_tensor_swap(y, 0, 2), 1, 2);     /* (HW, C, B), (HW, B, C) */
    return tiny_tape_call(tape, TINY_OP_COPY, &y, NULL, NULL, NULL, NULL);
}
static tiny_tensor tinyi_sret_image_of(tiny_tape *tape, const tiny_tensor *x, tiny_idx side)
{
    tiny_tensor y = tiny_tensor_swap(tiny_tensor_swap(*x, 1, 2), 0, 2);
    y = tiny_tape_call(tape, TINY_OP_COPY, &y, NULL, NULL, NULL, NULL);
    return tinyi_sret_as(tape, &y, 4, x->dim[1], x->dim[2], side, side);
}

TINY_API tiny_tensor tllm_sret_logits(tiny_tape *tape, void *net, const tiny_tensor *images)
{
    tllm_sret *s = (tllm_sret *)net;
    tiny_batch_norm_params bn;
    tiny_conv2d_params conv;
    tiny_norm_params norm;
    tiny_reduce_params mean;
    tiny_tensor x, pos;
    tiny_idx i;
    memset(&x, 0, sizeof x);
    if (!tape || tiny_tape_status(tape)) return x;
    if (!s || !images || tiny_tensor_check(images) || images->rank != 4 || images->dim[0] < 1 ||
        images->dim[1] != s->is.channels || images->dim[2] != s->is.image || images->dim[3] != s->is.image ||
        images->dtype != s->is.dtype)
        return tinyi_sret_bad(tape, TINY_E_SHAPE,
                              "sret: images must be (at least 1, channels, size, size), of the type of the weights");
    memset(&bn, 0, sizeof bn);
    memset(&conv, 0, sizeof conv);
    memset(&norm, 0, sizeof norm);
    memset(&mean, 0, sizeof mean);
    bn.train = s->training;
    conv.stride[0] = conv.stride[1] = 2;
    conv.pad[0] = conv.pad[1] = conv.pad[2] = conv.pad[3] = 1;
    norm.eps = (float)s->is.eps;
    mean.axis = 2;
    for (x = *images, i = 0; i < s->is.n_stem && !tiny_tape_status(tape); i++) {
        x = tiny_tape_call(tape, TINY_OP_CONV2D, &x, &s->stem_w[i], NULL, NULL, &conv);
        x = tiny_tape_batch_norm(tape, &x, &s->stem_g[i], &s->stem_b[i], &s->mean[i], &s->var[i], &bn);
        x = tiny_tape_call(tape, TINY_OP_RELU, &x, NULL, NULL, NULL, NULL);
    }
    if (!tiny_tape_status(tape)) x = tinyi_sret_tokens_of(tape, &x);
    pos = s->pos;                           /* (N, 1, d) */
    pos.rank = 3;
    pos.dim[2] = s->is.d; pos.stride[2] = 1;
    pos.dim[1] = 1; pos.stride[1] = 0;
    x = tiny_tape_add(tape, &x, &pos);
    for (i = 0; i < s->is.n_stage && !tiny_tape_status(tape); i++) {
        x = tllm_sret_stage_run(tape, s, i, &x);
        if (i + 1 == s->is.n_stage || tiny_tape_status(tape)) break;
        x = tinyi_sret_image_of(tape, &x, s->stage[i].side);
        conv.groups = (int)s->stage[i].d;
        x = tiny_tape_call(tape, TINY_OP_CONV2D, &x, &s->stage[i].pool_w, &s->stage[i].pool_b, NULL, &conv);
        if (!tiny_tape_status(tape)) x = tinyi_sret_tokens_of(tape, &x);
    }
    if (!tiny_tape_dry(tape)) s->calls++;
    x = tiny_tape_call(tape, TINY_OP_MEAN, &x, NULL, NULL, NULL, &mean);
    x = tiny_tape_call(tape, TINY_OP_LAYERNORM, &x, &s->norm_g, &s->norm_b, NULL, &norm);
    return tiny_tape_linear(tape, &x, &s->head_w, &s->head_b, TINY_ACT_NONE);
}
