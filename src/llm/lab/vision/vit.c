/* src/llm/lab/vision/vit.c - a small vision transformer
 * Paper    A. Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020 (arXiv 2010.11929), eq. 1 to 4; GELU in its erf
 *          form.
 * Formula  z = [class; pieces E + e] + positions;  per block z += W_o att(q, k, v of norm z), z += W_2 gelu(W_1 norm
 *          z); logits = W norm(z of the class token).
 * Data     tokens (T, B, d) dense: seen as (T, B n_head, d / n_head) they are the heads of one attention over the whole
 *          batch.
 * Cost     of a block and image, in multiply-adds: (4 d^2 + 2 d hidden) T + 2 T^2 d.
 * Left out dropout, stochastic depth, a distillation token: small networks here were trained without them. */
#include "llm/lab/vision/vit.h"
#include "llm/lab/vision/params_inside.h"
#include "math/grad_inside.h"
#include "math/elem.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <stdio.h>
#include <string.h>

struct tllm_vit {
    tiny_ctx *ctx;
    tllm_vit_desc is;
    tllm_vit_block *block;
    tiny_tensor cls, pos, patch_w, patch_b, norm_g, norm_b, head_w, head_b;
    tinyi_params p;
};

/* ---- its weights */

TINYI_FN void tinyi_vit_vector(tinyi_params *p, tiny_tensor *t, tinyi_first first, tiny_idx n, const char *prefix,
                               const char *name)
{
    tinyi_params_add(p, t, first, 1, 1, &n, "%s%s", prefix, name);
}
TINYI_FN void tinyi_vit_matrix(tinyi_params *p, tiny_tensor *t, tiny_idx rows, tiny_idx cols, const char *prefix,
                               const char *name)
{
    tiny_idx dim[2];
    dim[0] = rows; dim[1] = cols;
    tinyi_params_add(p, t, TINYI_FIRST_XAVIER, 0, 2, dim, "%s%s", prefix, name);
}

TINYI_FN void tinyi_vit_lay_attention(tinyi_params *p, tllm_vit_block *k, tiny_idx d, const char *prefix)
{
    tinyi_vit_vector(p, &k->norm1_g, TINYI_FIRST_ONE, d, prefix, "norm1.weight");
    tinyi_vit_vector(p, &k->norm1_b, TINYI_FIRST_ZERO, d, prefix, "norm1.bias");
    tinyi_vit_matrix(p, &k->qkv_w, 3 * d, d, prefix, "attn.qkv.weight");
    tinyi_vit_vector(p, &k->qkv_b, TINYI_FIRST_ZERO, 3 * d, prefix, "attn.qkv.bias");
    tinyi_vit_matrix(p, &k->out_w, d, d, prefix, "attn.proj.weight");
    tinyi_vit_vector(p, &k->out_b, TINYI_FIRST_ZERO, d, prefix, "attn.proj.bias");
}

TINYI_FN void tinyi_vit_lay_wide(tinyi_params *p, tllm_vit_block *k, tiny_idx d, tiny_idx hidden, const char *prefix)
{
    tinyi_vit_vector(p, &k->norm2_g, TINYI_FIRST_ONE, d, prefix, "norm2.weight");
    tinyi_vit_vector(p, &k->norm2_b, TINYI_FIRST_ZERO, d, prefix, "norm2.bias");
    tinyi_vit_matrix(p, &k->up_w, hidden, d, prefix, "mlp.fc1.weight");
    tinyi_vit_vector(p, &k->up_b, TINYI_FIRST_ZERO, hidden, prefix, "mlp.fc1.bias");
    tinyi_vit_matrix(p, &k->down_w, d, hidden, prefix, "mlp.fc2.weight");
    tinyi_vit_vector(p, &k->down_b, TINYI_FIRST_ZERO, d, prefix, "mlp.fc2.bias");
}

static void tinyi_vit_lay(tllm_vit *v)
{
    const tllm_vit_desc *is = &v->is;
    const tiny_idx d = is->d, side = is->image / is->patch;
    tinyi_params *p = &v->p;
    tiny_idx i, dim[4];
    char prefix[32];
    tinyi_params_add(p, &v->cls, TINYI_FIRST_SMALL, 1, 1, &d, "cls_token");
    dim[0] = side * side + 1; dim[1] = d;
    tinyi_params_add(p, &v->pos, TINYI_FIRST_SMALL, 1, 2, dim, "pos_embed");
    dim[0] = d; dim[1] = is->channels; dim[2] = dim[3] = is->patch;
    tinyi_params_add(p, &v->patch_w, TINYI_FIRST_XAVIER, 0, 4, dim, "patch_embed.proj.weight");
    tinyi_vit_vector(p, &v->patch_b, TINYI_FIRST_ZERO, d, "", "patch_embed.proj.bias");
    for (i = 0; i < is->n_block; i++) {
        (void)snprintf(prefix, sizeof prefix, "blocks.%d.", (int)i);
        tinyi_vit_lay_attention(p, &v->block[i], d, prefix);
        tinyi_vit_lay_wide(p, &v->block[i], d, is->hidden, prefix);
    }
    tinyi_vit_vector(p, &v->norm_g, TINYI_FIRST_ONE, d, "", "norm.weight");
    tinyi_vit_vector(p, &v->norm_b, TINYI_FIRST_ZERO, d, "", "norm.bias");
    tinyi_vit_matrix(p, &v->head_w, is->n_class, d, "", "head.weight");
    tinyi_vit_vector(p, &v->head_b, TINYI_FIRST_ZERO, is->n_class, "", "head.bias");
}

static tiny_status tinyi_vit_read(tiny_ctx *ctx, const tllm_vit_desc *desc, tllm_vit_desc *is)
{
    const tiny_idx most = 1 << 20;          /* of any size: what follows is counted with care, but these are factors */
    memset(is, 0, sizeof *is);
    if (desc) *is = *desc;
    if (!is->image) is->image = 32;
    if (!is->patch) is->patch = 4;
    if (!is->channels) is->channels = 3;
    if (!is->d) is->d = 64;
    if (!is->n_head) is->n_head = 4;
    if (!is->n_block) is->n_block = 4;
    if (!is->n_class) is->n_class = 10;
    if (is->eps == 0.0) is->eps = 1e-6;
    if (is->image < 1 || is->image > 32767 || is->patch < 1 || is->patch > is->image || is->image % is->patch)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "vit: pieces of %td pixels do not divide an image of %td (at most 32767)", is->patch,
                          is->image);
    if (is->d < 1 || is->d > most || is->n_head < 1 || is->d % is->n_head)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: %td heads do not divide %td numbers of a token", is->n_head,
                          is->d);
    if (!is->hidden) is->hidden = 4 * is->d;
    if (is->channels < 1 || is->channels > most || is->hidden < 1 || is->hidden > 4 * most || is->n_class < 1 ||
        is->n_class > most)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "vit: %td colours, %td hidden numbers, %td classes: each must be 1 to %td", is->channels,
                          is->hidden, is->n_class, most);
    if (is->n_block < 1 || is->n_block > TLLM_VIT_BLOCKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: %td blocks; the limits are 1 and %d", is->n_block,
                          TLLM_VIT_BLOCKS);
    if (!(is->eps > 0.0 && is->eps < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: eps %g of the norms is not between 0 and 1", is->eps);
    if (is->dtype != TINY_F32 && is->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "vit: weights must be f32 or f64");
    return TINY_OK;
}

TINY_API tiny_status tllm_vit_open(tiny_ctx *ctx, const tllm_vit_desc *desc, tllm_vit **out)
{
    tllm_vit_desc is;
    tllm_vit *v;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: the result pointer is NULL");
    st = tinyi_vit_read(ctx, desc, &is);
    if (st) return st;
    v = (tllm_vit *)tiny_alloc(ctx, sizeof *v);
    if (!v) return tiny_ctx_status(ctx);
    memset(v, 0, sizeof *v);
    v->ctx = ctx;
    v->is = is;
    tinyi_params_begin(&v->p, ctx, is.dtype, tiny_rng_make(is.seed, 0x766974));
    v->block = (tllm_vit_block *)tinyi_alloc(ctx, (size_t)is.n_block, sizeof *v->block);
    if (!v->block) st = tiny_ctx_status(ctx);
    else {
        memset(v->block, 0, (size_t)is.n_block * sizeof *v->block);
        tinyi_vit_lay(v);
        st = tinyi_params_place(&v->p, "vit");
    }
    if (!st) {
        tinyi_vit_lay(v);
        st = v->p.st;
    }
    if (st) tllm_vit_close(v);
    else *out = v;
    return st;
}

TINY_API void tllm_vit_close(tllm_vit *v)
{
    if (!v) return;
    tinyi_params_free(&v->p);
    tiny_free(v->ctx, v->block);
    tiny_free(v->ctx, v);
}

TINY_API const tllm_vit_desc *tllm_vit_is(const tllm_vit *v) { return v ? &v->is : NULL; }
TINY_API tiny_idx tllm_vit_tokens(const tllm_vit *v) { return v ? v->pos.dim[0] : 0; }
TINY_API const tllm_vit_block *tllm_vit_block_of(const tllm_vit *v, tiny_idx i)
{
    return v && i >= 0 && i < v->is.n_block ? &v->block[i] : NULL;
}

TINY_API const tiny_param *tllm_vit_params(const tllm_vit *v, size_t *n)
{
    if (n) *n = v ? v->p.n : 0;
    return v ? v->p.param : NULL;
}

TINY_API const tiny_param *tllm_vit_param(const tllm_vit *v, const char *name)
{
    size_t i;
    for (i = 0; v && name && i < v->p.n; i++)
        if (!strcmp(v->p.param[i].name, name)) return &v->p.param[i];
    return NULL;
}

/* ---- the way through */

static tiny_tensor tinyi_vit_bad(tiny_tape *tape, const char *text)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, text);
    return none;
}

static tiny_tensor tinyi_vit_as(tiny_tape *tape, const tiny_tensor *x, int rank, tiny_idx a, tiny_idx b, tiny_idx c)
{
    tiny_idx dim[3];
    dim[0] = a; dim[1] = b; dim[2] = c;
    return tiny_tape_reshape(tape, x, rank, dim);
}

static tiny_tensor tinyi_vit_norm(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *g, const tiny_tensor *b,
                                  double eps)
{
    tiny_norm_params p;
    memset(&p, 0, sizeof p);
    p.eps = (float)eps;
    return tiny_tape_call(tape, TINY_OP_LAYERNORM, x, g, b, NULL, &p);
}

/* rows i of (3 d, ...) */
static tiny_tensor tinyi_vit_third(const tiny_tensor *t, int i)
{
    tiny_tensor part = *t;
    part.dim[0] /= 3;
    part.data = (unsigned char *)t->data + (size_t)(i * part.dim[0] * t->stride[0]) * tiny_dtype_bytes(t->dtype);
    return part;
}

/* c x + e y; a scalar without data is 1 */
static tiny_tensor tinyi_vit_join(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *c, const tiny_tensor *y,
                                  const tiny_tensor *e)
{
    tiny_tensor a = *x, b = *y;
    if (c->data) a = tiny_tape_mul(tape, x, c);
    if (e->data) b = tiny_tape_mul(tape, y, e);
    return tiny_tape_add(tape, &a, &b);
}

TINY_API tiny_tensor tllm_vit_attend(tiny_tape *tape, const tllm_vit_block *w, const tllm_vit_at *at,
                                     const tiny_tensor *x, const tllm_vit_hooks *hooks, tiny_tensor *keys)
{
    tiny_tensor y, part[3], o, none;
    tiny_idx t, rows, d;
    int i;
    memset(&none, 0, sizeof none);
    if (!tape || !w || !at || !x || tiny_tape_status(tape)) return none;
    if (x->rank != 3 || x->dim[1] != at->batch || at->n_head < 1 || x->dim[2] % at->n_head)
        return tinyi_vit_bad(tape, "vit: x must be (tokens, batch, numbers of whole heads)");
    t = x->dim[0];
    d = x->dim[2];
    rows = t * at->batch;
    y = tinyi_vit_norm(tape, x, &w->norm1_g, &w->norm1_b, at->eps);
    y = tinyi_vit_as(tape, &y, 2, rows, d, 1);
    for (i = 0; i < 3; i++) {
        const tiny_tensor m = tinyi_vit_third(&w->qkv_w, i), b = tinyi_vit_third(&w->qkv_b, i);
        part[i] = tiny_tape_linear(tape, &y, &m, &b, TINY_ACT_NONE);
        part[i] = tinyi_vit_as(tape, &part[i], 3, t, at->batch * at->n_head, d / at->n_head);
    }
    if (keys) *keys = part[1];
    if (hooks && hooks->mix && !tiny_tape_status(tape))
        o = hooks->mix(tape, hooks->user, at, &part[0], &part[1], &part[2]);
    else o = tiny_tape_call(tape, TINY_OP_ATTENTION, &part[0], &part[1], &part[2], NULL, NULL);
    o = tinyi_vit_as(tape, &o, 2, rows, d, 1);
    o = tiny_tape_linear(tape, &o, &w->out_w, &w->out_b, TINY_ACT_NONE);
    o = tinyi_vit_as(tape, &o, 3, t, at->batch, d);
    return tinyi_vit_join(tape, x, &w->c[0], &o, &w->c[1]);
}

TINY_API tiny_tensor tllm_vit_wide(tiny_tape *tape, const tllm_vit_block *w, const tllm_vit_at *at,
                                   const tiny_tensor *x)
{
    tiny_tensor y, none;
    memset(&none, 0, sizeof none);
    if (!tape || !w || !at || !x || tiny_tape_status(tape)) return none;
    if (x->rank != 3) return tinyi_vit_bad(tape, "vit: x must be (tokens, batch, numbers)");
    y = tinyi_vit_norm(tape, x, &w->norm2_g, &w->norm2_b, at->eps);
    y = tinyi_vit_as(tape, &y, 2, x->dim[0] * x->dim[1], x->dim[2], 1);
    y = tiny_tape_linear(tape, &y, &w->up_w, &w->up_b, TINY_ACT_NONE);
    /* by itself: its slope does not need the product again */
    y = tiny_tape_call(tape, TINY_OP_GELU, &y, NULL, NULL, NULL, NULL);
    y = tiny_tape_linear(tape, &y, &w->down_w, &w->down_b, TINY_ACT_NONE);
    y = tinyi_vit_as(tape, &y, 3, x->dim[0], x->dim[1], x->dim[2]);
    return tinyi_vit_join(tape, x, &w->c[2], &y, &w->c[3]);
}

/* tokens (T, B, d) of images: the class token, then the pieces row by row */
static tiny_tensor tinyi_vit_embed(tiny_tape *tape, const tllm_vit *v, const tiny_tensor *images)
{
    const tllm_vit_desc *is = &v->is;
    const tiny_idx batch = images->dim[0], pieces = v->pos.dim[0] - 1, n = is->channels * is->patch * is->patch;
    tiny_patch_params p;
    tiny_tensor x[2], w, pos = v->pos;
    memset(&p, 0, sizeof p);
    p.size[0] = p.size[1] = p.stride[0] = p.stride[1] = (int)is->patch;
    x[1] = tiny_tape_call(tape, TINY_OP_IM2COL, images, NULL, NULL, NULL, &p);      /* (n, batch pieces) */
    x[1] = tinyi_vit_as(tape, &x[1], 3, n, batch, pieces);
    if (tiny_tape_status(tape)) return x[1];
    x[1] = tiny_tensor_swap(x[1], 0, 2);
    x[1] = tiny_tape_call(tape, TINY_OP_COPY, &x[1], NULL, NULL, NULL, NULL);
    x[1] = tinyi_vit_as(tape, &x[1], 2, pieces * batch, n, 1);
    w = tinyi_vit_as(tape, &v->patch_w, 2, is->d, n, 1);
    x[1] = tiny_tape_linear(tape, &x[1], &w, &v->patch_b, TINY_ACT_NONE);
    x[1] = tinyi_vit_as(tape, &x[1], 3, pieces, batch, is->d);
    x[0] = v->cls;                          /* (1, B, d), the same for all images */
    x[0].rank = 3;
    x[0].dim[0] = 1; x[0].dim[1] = batch; x[0].dim[2] = is->d;
    x[0].stride[0] = x[0].stride[1] = 0; x[0].stride[2] = 1;
    if (tiny_tape_status(tape)) return x[1];
    x[0] = tiny_tape_concat(tape, 2, x, 0);
    pos.rank = 3;                           /* (T, 1, d) */
    pos.dim[2] = is->d; pos.stride[2] = 1;
    pos.dim[1] = 1; pos.stride[1] = 0;
    return tiny_tape_add(tape, &x[0], &pos);
}

TINY_API tiny_tensor tllm_vit_run(tiny_tape *tape, const tllm_vit *v, const tiny_tensor *images,
                                  const tllm_vit_hooks *hooks)
{
    tiny_tensor x, keys;
    tllm_vit_at at;
    tiny_idx i;
    memset(&x, 0, sizeof x);
    if (!tape || tiny_tape_status(tape)) return x;
    if (!v || !images || tiny_tensor_check(images) || images->rank != 4 || images->dim[0] < 1 ||
        images->dim[1] != v->is.channels || images->dim[2] != v->is.image || images->dim[3] != v->is.image ||
        images->dtype != v->is.dtype)
        return tinyi_vit_bad(tape,
                             "vit: images must be (at least 1, channels, size, size), of the type of the weights");
    x = tinyi_vit_embed(tape, v, images);
    memset(&at, 0, sizeof at);
    at.batch = images->dim[0];
    at.n_head = v->is.n_head;
    at.eps = v->is.eps;
    for (i = 0; i < v->is.n_block && !tiny_tape_status(tape); i++) {
        at.i_block = i;
        x = tllm_vit_attend(tape, &v->block[i], &at, &x, hooks, &keys);
        if (hooks && hooks->between && !tiny_tape_status(tape)) x = hooks->between(tape, hooks->user, &at, &x, &keys);
        if (!tiny_tape_status(tape) && (x.rank != 3 || x.dim[0] < 1 || x.dim[1] != at.batch || x.dim[2] != v->is.d))
            return tinyi_vit_bad(tape, "vit: a hook must leave tokens (at least 1, batch, numbers)");
        x = tllm_vit_wide(tape, &v->block[i], &at, &x);
    }
    if (tiny_tape_status(tape)) return x;
    x.rank = 2;                             /* the class token of each image */
    x.dim[0] = x.dim[1]; x.dim[1] = x.dim[2];
    x.stride[0] = x.stride[1]; x.stride[1] = x.stride[2];
    x = tinyi_vit_norm(tape, &x, &v->norm_g, &v->norm_b, v->is.eps);
    return tiny_tape_linear(tape, &x, &v->head_w, &v->head_b, TINY_ACT_NONE);
}

/* ---- a task */

static tiny_tensor tinyi_vit_logits(tiny_tape *tape, const tllm_vit_task *task, const tiny_tensor *x)
{
    return task->other ? task->other(tape, task->net, x) : tllm_vit_run(tape, task->vit, x, task->hooks);
}

TINY_API tiny_tensor tllm_vit_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tllm_vit_task *task = (const tllm_vit_task *)user;
    tiny_tensor x, label, y;
    memset(&y, 0, sizeof y);
    if (!task) return y;
    x = tiny_tape_rows(tape, task->images, sample, n);
    label = tiny_tape_rows(tape, task->labels, sample, n);
    if (tiny_tape_status(tape)) return y;
    y = tinyi_vit_logits(tape, task, &x);
    return tiny_tape_cross_entropy(tape, &y, &label, task->smoothing);
}

#define TINYI_VIT_BATCH 64

static void tinyi_vit_count(const tiny_tensor *logits, const int32_t *label, tiny_idx step, tiny_idx *right)
{
    tiny_idx i, k;
    for (i = 0; i < logits->dim[0]; i++) {
        const tiny_idx row = i * logits->stride[0];
        tiny_idx best = 0;
        for (k = 1; k < logits->dim[1]; k++)
            if (tinyi_real(logits->data, logits->dtype, row + k) > tinyi_real(logits->data, logits->dtype, row + best))
                best = k;
        *right += best == (tiny_idx)label[i * step];
    }
}

TINY_API tiny_status tllm_vit_right(tiny_ctx *ctx, const tllm_vit_task *task, tiny_idx first, tiny_idx n,
                                    tiny_idx *right)
{
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    tiny_tensor x, y;
    tiny_idx i, sum = 0, batch = TINYI_MIN(n, TINYI_VIT_BATCH);
    tiny_status st = tinyi_ctx_check(ctx);
    int turn;
    if (right) *right = 0;
    if (st) return st;
    if (!task || (!task->vit && !task->other) || !task->images || !task->labels || !right)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: a network, images, labels and a result pointer are needed");
    if (tiny_tensor_check(task->images) || task->images->rank != 4 || tiny_tensor_check(task->labels) ||
        task->labels->rank != 1 || task->labels->dtype != TINY_I32 || task->labels->dim[0] != task->images->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "vit: there must be an i32 label for each image (n, channels, size, size)");
    if (first < 0 || n < 0 || first > task->images->dim[0] || n > task->images->dim[0] - first)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vit: images %td to %td of %td", first, first + n,
                          task->images->dim[0]);
    memset(&td, 0, sizeof td);
    td.no_grad = 1;
    for (turn = 0; !st && turn < 2 && n; turn++) {  /* how much memory, and then in earnest */
        td.dry = !turn;
        st = tiny_tape_open(ctx, &td, &tape);
        for (i = 0; !st && i < n; i += batch) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            x = *task->images;
            x.dim[0] = TINYI_MIN(batch, n - i);
            x.data = (unsigned char *)x.data + (size_t)((first + i) * x.stride[0]) * tiny_dtype_bytes(x.dtype);
            y = tinyi_vit_logits(tape, task, &x);
            st = tiny_tape_status(tape);
            if (!st && (y.rank != 2 || y.dim[0] != x.dim[0]))
                st = tinyi_fail(ctx, TINY_E_SHAPE, "vit: a network must leave logits (images, classes)");
            if (!st && turn)
                tinyi_vit_count(&y, (const int32_t *)task->labels->data + (first + i) * task->labels->stride[0],
                                task->labels->stride[0], &sum);
            if (!turn) break;
            tiny_tape_release(tape, mark);
        }
        td.bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    if (!st) *right = sum;
    return st;
}
