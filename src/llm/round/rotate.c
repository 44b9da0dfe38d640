/* src/llm/round/rotate.c - rotates the stream, heads and networks of a model: the same function, easier to round
 *
 * Paper    S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", 2024 (arXiv 2404.00456)
 * Formula  Q = n^-1/2 diag(s) H^T, s random signs; x becomes Q^T x in the whole stream. RMS norms without a gain
 *          commute with this; gains move into the following matrices. E <- E Q, W_in <- W_in Q, W_out <- Q^T W_out,
 *          head <- head Q
 *          heads: values <- H_d values, a head at a time; W_o <- W_o (I x H_d^T)
 *          online: W_o <- W_o (H_heads^T x I), W_down <- W_down H^T, and the forward pass rotates their inputs
 *          (rotated.c). The signs come before H, as in the authors' program: after it they would change neither the
 *          outliers nor the rounding.
 * Order    a tensor at a time, in the order of the file: read with the gains, rotated, written
 * Memory   two copies of the largest changed matrix, in floats
 * Left out layer norms (their mean would have to move into the matrices before them), norms after a half, latent
 *          attention, recurrent layers */
#include <stdio.h>
#include <string.h>
#include "core/rng.h"
#include "core/state_inside.h"
#include "llm/round/rotate.h"
#include "llm/round/stream_inside.h"
#include "math/fwht.h"
#include "math/layout.h"
#include "math/linalg.h"
#include "math/matmul.h"

#define TINYI_ROTATE_MAGIC 0x61746f72u

/* what is done with a tensor */
enum {
    TINYI_ROTATE_READS = 1,                 /* its rows are of the stream: each is turned (of a vector: all of it) */
    TINYI_ROTATE_WRITES = 2,                /* its columns are */
    TINYI_ROTATE_VALUES = 4,                /* rows from row0 on are heads of values */
    TINYI_ROTATE_HEADS = 8,                 /* its rows are such heads */
    TINYI_ROTATE_FEED = 16,                 /* its rows are what a network has inside */
    TINYI_ROTATE_ONES = 32                  /* a gain that went elsewhere */
};
typedef struct tinyi_rotate_item { unsigned how; tiny_idx row0; } tinyi_rotate_item;

struct tllm_rotated {
    uint32_t magic;
    tllm_rotated_desc d;
    tllm_folds *folds;
    const tllm_gguf *file;
    tinyi_rotate_item *item;                /* of each tensor */
    float *sign, *q;                        /* (n_embd); (n_embd, n_embd) or NULL */
    float *gain;                            /* of the last norm, where the embedding gives the logits */
    const tllm_gguf_tensor *embd, *output;  /* output NULL: the embedding gives the logits */
    tiny_idx n_head, n_kv, d_v;
    tllm_rotated_about about;
};

/* ---- which tensors, and whether it may be done ------------------------------------------------------------------- */

typedef struct tinyi_rotate_list {
    tiny_ctx *ctx;
    tllm_rotated *r;
    const tllm_model *m;
    tiny_status st;
} tinyi_rotate_list;

static void tinyi_rotate_mark(tinyi_rotate_list *l, const tllm_gguf_tensor *t, unsigned how, tiny_idx row0)
{
    const tinyi_fold_item *it = t ? tinyi_fold_item_of(l->r->folds, t) : NULL;
    tinyi_rotate_item *mine;
    if (!it) return;
    mine = &l->r->item[it - l->r->folds->item];
    mine->how |= how;
    if (how & TINYI_ROTATE_VALUES) mine->row0 = row0;
}

/* a matrix and what happens to it; its bias is where its rows go */
static void tinyi_rotate_w(tinyi_rotate_list *l, const tinyi_lm_w *w, unsigned how, tiny_idx row0)
{
    if (!w) return;
    tinyi_rotate_mark(l, w->t, how, row0);
    if (!w->bias) return;
    if (how & TINYI_ROTATE_WRITES) tinyi_rotate_mark(l, tinyi_fold_bias(l->r->file, w->t), TINYI_ROTATE_READS, 0);
    if (how & TINYI_ROTATE_VALUES) tinyi_rotate_mark(l, tinyi_fold_bias(l->r->file, w->t), TINYI_ROTATE_VALUES, row0);
}

/* why the heads of values stay as they are; NULL: nothing is between them and the output */
static const char *tinyi_rotate_heads(const tllm_model *m)
{
    tiny_idx i;
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATED) return "gates stand between values and output";
    if (m->clamp_kqv > 0.0f) return "values are clamped";
    for (i = 0; i < m->n_layer; i++) {
        const tinyi_lm_layer *a = &m->layer[i];
        if (a->w[TINYI_T_ATTN_SUB_NORM]) return "there is a norm between values and output";
        if (a->kv_from == i && !a->w[TINYI_T_ATTN_QKV] && !a->w[TINYI_T_ATTN_V]) return "keys serve as values";
        if (a->d_v != m->layer[0].d_v || a->n_head != m->layer[0].n_head || a->n_kv != m->layer[0].n_kv)
            return "layers have heads of different sizes";
    }
    return NULL;
}

static void tinyi_rotate_layer(tinyi_rotate_list *l, const tinyi_lm_layer *a)
{
    const tllm_rotated *r = l->r;
    const unsigned heads = r->about.head_block ? (unsigned)TINYI_ROTATE_VALUES : 0u,
                   feed = r->about.feed_block ? (unsigned)TINYI_ROTATE_FEED : 0u,
                   out = heads || r->d.online & TLLM_ROTATE_HEADS ? (unsigned)TINYI_ROTATE_HEADS : 0u;
    int t;
    l->st = tinyi_stream_layer(l->ctx, "rotate", l->m, r->folds, a);
    for (t = 0; t < TINYI_T_COUNT && !l->st; t++)
        switch (tinyi_stream_role(t)) {
        case TINYI_STREAM_READS_MIX:
        case TINYI_STREAM_READS_FEED:
            tinyi_rotate_w(l, a->w[t],
                           TINYI_ROTATE_READS | (t == TINYI_T_ATTN_V || t == TINYI_T_ATTN_QKV ? heads : 0u),
                           t == TINYI_T_ATTN_QKV ? (a->n_head + a->n_kv) * a->d_k : 0);
            break;
        case TINYI_STREAM_WRITES_MIX: tinyi_rotate_w(l, a->w[t], TINYI_ROTATE_WRITES | out, 0); break;
        case TINYI_STREAM_WRITES_FEED: tinyi_rotate_w(l, a->w[t], TINYI_ROTATE_WRITES | feed, 0); break;
        default: break;
        }
}

/* gains into the matrices after them, all tensors marked */
static tiny_status tinyi_rotate_make(tiny_ctx *ctx, tllm_rotated *r, const tllm_model *m)
{
    const tinyi_lm_w *norm = m->top.w[TINYI_T_OUTPUT_NORM];
    tinyi_rotate_list l;
    tiny_idx i;
    size_t k;
    l.ctx = ctx;
    l.r = r;
    l.m = m;
    l.st = TINY_OK;
    r->about.n_embd = m->n_embd;
    r->about.block = r->q ? m->n_embd : tiny_fwht_block(m->n_embd);
    l.st = tinyi_stream_model(ctx, "rotate", m);
    if (!l.st && m->norm != TINYI_LM_RMS)
        l.st = tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "rotate: %s: layer norms subtract the mean of all channels, which does not commute with a rotation",
            m->path);
    if (!l.st && norm->bias)
        l.st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "rotate: %s: the last norm has a bias", m->path);
    if (!l.st) l.st = tinyi_stream_tops(ctx, "rotate", m, 0);
    if (l.st) return l.st;
    r->about.heads = tinyi_rotate_heads(m);
    if (r->about.heads && r->d.online & TLLM_ROTATE_HEADS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "rotate: %s: heads cannot be rotated: %s", m->path, r->about.heads);
    r->n_head = m->layer[0].n_head;
    r->n_kv = m->layer[0].n_kv;
    r->d_v = m->layer[0].d_v;
    if (!r->about.heads && !r->d.no_heads) r->about.head_block = tiny_fwht_block(r->d_v);
    for (i = 0; i < m->n_layer && r->d.online & TLLM_ROTATE_FEED && !r->about.feed_block; i++) {
        const tinyi_lm_w *last = m->layer[i].w[m->layer[i].moe ? TINYI_T_DOWN_EXPS : TINYI_T_FFN_DOWN];
        if (last) r->about.feed_block = tiny_fwht_block(last->n_in);
    }
    for (i = 0; i < m->n_layer && !l.st; i++) tinyi_rotate_layer(&l, &m->layer[i]);
    tinyi_rotate_mark(&l, r->embd, TINYI_ROTATE_READS, 0);
    tinyi_rotate_mark(&l, r->output, TINYI_ROTATE_READS, 0);
    for (k = 0; k < tllm_folds_n(r->folds) && !l.st; k++) {
        const tllm_fold *f = tllm_fold_at(r->folds, k);
        if (f->kind == TLLM_FOLD_MIX || f->kind == TLLM_FOLD_FEED || f->kind == TLLM_FOLD_OUTPUT)
            l.st = tllm_fold_gain(ctx, r->folds, k);
    }
    if (!l.st && !r->output) {              /* the embedding gives the logits: the last gain goes into a copy of it */
        r->gain = (float *)tinyi_alloc(ctx, (size_t)m->n_embd, sizeof *r->gain);
        if (!r->gain) return tiny_ctx_status(ctx);
        memcpy(r->gain, norm->v, (size_t)m->n_embd * sizeof *r->gain);
        tinyi_rotate_mark(&l, norm->t, TINYI_ROTATE_ONES, 0);
        r->about.untied = 1;
    }
    for (k = 0; k < r->folds->n_item; k++)
        r->about.tensors += r->item[k].how || tllm_folds_touch(r->folds, r->folds->item[k].t);
    return l.st;
}

/* rows of q are orthogonal and of length 1, as far as floats go */
static tiny_status tinyi_rotate_orthogonal(tiny_ctx *ctx, const float *q, tiny_idx n)
{
    const tiny_tensor all = tiny_tensor_swap(tiny_tensor_2d((void *)(uintptr_t)q, TINY_F32, n, n), 0, 1);
    const tiny_idx part = TINYI_MIN(n, (tiny_idx)64);
    float *dot = (float *)tinyi_alloc(ctx, (size_t)part, (size_t)n * sizeof *dot);
    tiny_idx row, i, j, now;
    tiny_status st = dot ? TINY_OK : tiny_ctx_status(ctx);
    for (row = 0; row < n && !st; row += now) {
        tiny_tensor tq, ty;
        now = TINYI_MIN(part, n - row);
        tq = tiny_tensor_2d((void *)(uintptr_t)(q + row * n), TINY_F32, now, n);
        ty = tiny_tensor_2d(dot, TINY_F32, now, n);
        st = tiny_matmul(ctx, &tq, &all, NULL, TINY_ACT_NONE, &ty);
        for (i = 0; i < now && !st; i++)
            for (j = 0; j < n && !st; j++) {
                const double off = (double)dot[i * n + j] - (row + i == j ? 1.0 : 0.0);
                if (!(off < 1e-3 && off > -1e-3))
                    st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                                    "rotate: q is not orthogonal: the product of rows %td and %td is off by %g",
                                    row + i, j, off);
            }
    }
    tiny_free(ctx, dot);
    return st;
}

/* q: eigenvectors, column by column, of the products of the channels of the embedding */
static tiny_status tinyi_rotate_axes(tiny_ctx *ctx, const tllm_gguf_tensor *embd, tiny_idx n, float *q)
{
    const tiny_idx rows = (tiny_idx)embd->dim[1], part = TINYI_MIN(rows, (tiny_idx)(1 << 20) / n + 1);
    const tllm_format *f = tllm_format_of(embd->type);
    const size_t bytes = tllm_format_bytes(f, (uint64_t)n);
    float *e = (float *)tinyi_alloc(ctx, (size_t)part, (size_t)n * sizeof *e),
          *a = e ? (float *)tinyi_alloc(ctx, (size_t)n, (size_t)n * 2 * sizeof *a) : NULL;
    float *one = a ? a + n * n : NULL, *value = a ? (float *)tinyi_alloc(ctx, (size_t)n, sizeof *value) : NULL;
    tiny_status st = value ? TINY_OK : tiny_ctx_status(ctx);
    tiny_idx row, i;
    if (!st) memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (row = 0; row < rows && !st; row += part) {
        const tiny_idx now = TINYI_MIN(part, rows - row);
        const tiny_tensor te = tiny_tensor_2d(e, TINY_F32, now, n), turned = tiny_tensor_swap(te, 0, 1),
                          to = tiny_tensor_2d(one, TINY_F32, n, n);
        f->unpack(embd->data + (size_t)row * bytes, e, (size_t)(now * n));
        st = tiny_matmul(ctx, &turned, &te, NULL, TINY_ACT_NONE, &to);
        for (i = 0; i < n * n && !st; i++) a[i] += one[i];
    }
    if (!st) {
        const tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, n, n), tw = tiny_tensor_1d(value, TINY_F32, n),
                          tq = tiny_tensor_2d(q, TINY_F32, n, n);
        st = tiny_eigh(ctx, &ta, &tw, &tq);
    }
    tiny_free(ctx, value);
    tiny_free(ctx, a);
    tiny_free(ctx, e);
    return st;
}

TINY_API tiny_status tllm_rotated_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_rotated_desc *desc,
                                       tllm_rotated **out)
{
    const tllm_format *format;
    tllm_model *m = NULL;
    tllm_rotated *r;
    tiny_rng rng;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rotate: a file and a result pointer are needed");
    if (desc && desc->q && desc->axes)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rotate: both q and axes are set; use one of them");
    if (desc && desc->online & ~(unsigned)TLLM_ROTATE_ALL)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rotate: online is %u; the flags are 1, 2 and 4", desc->online);
    format = tllm_format_of(desc ? desc->format : TLLM_FORMAT_F32);
    if (!format || !format->pack)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rotate: matrices cannot be written in format %d",
                          desc ? desc->format : 0);
    r = (tllm_rotated *)tinyi_alloc(ctx, 1, sizeof *r);
    if (!r) return tiny_ctx_status(ctx);
    memset(r, 0, sizeof *r);
    r->magic = TINYI_ROTATE_MAGIC;
    r->file = file;
    if (desc) r->d = *desc;
    st = tllm_folds_open(ctx, file, &r->folds);
    if (!st) st = tllm_model_open(ctx, file, &m);
    if (!st) {
        const tiny_idx n = m->n_embd;
        r->embd = m->top.w[TINYI_T_TOKEN_EMBD] ? m->top.w[TINYI_T_TOKEN_EMBD]->t : NULL;
        r->output = m->output_w && m->output_w != m->top.w[TINYI_T_TOKEN_EMBD] ? m->output_w->t : NULL;
        r->item = (tinyi_rotate_item *)tinyi_alloc(ctx, r->folds->n_item + 1, sizeof *r->item);
        r->sign = r->item ? (float *)tinyi_alloc(ctx, (size_t)n, sizeof *r->sign) : NULL;
        if (!r->sign) st = tiny_ctx_status(ctx);
        else {
            memset(r->item, 0, (r->folds->n_item + 1) * sizeof *r->item);
            rng = tiny_rng_make(r->d.seed, 0);
            for (i = 0; i < n; i++) r->sign[i] = tiny_rng_u32(&rng) >> 31 ? -1.0f : 1.0f;
        }
        if (!st && r->d.q) st = tinyi_rotate_orthogonal(ctx, r->d.q, n);
        if (!st && (r->d.q || r->d.axes)) {
            r->q = (float *)tinyi_alloc(ctx, (size_t)n, (size_t)n * sizeof *r->q);
            if (!r->q) st = tiny_ctx_status(ctx);
            else if (r->d.q) memcpy(r->q, r->d.q, (size_t)n * (size_t)n * sizeof *r->q);
            else if (r->embd) st = tinyi_rotate_axes(ctx, r->embd, n, r->q);
            else st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "rotate: %s: there is no embedding", m->path);
        }
        r->d.q = NULL;
        if (!st) st = tinyi_rotate_make(ctx, r, m);
    }
    tllm_model_close(ctx, m);
    if (st) tllm_rotated_close(ctx, r);
    else *out = r;
    return st;
}

TINY_API void tllm_rotated_close(tiny_ctx *ctx, tllm_rotated *r)
{
    if (!r || r->magic != TINYI_ROTATE_MAGIC || tinyi_ctx_check(ctx)) return;
    r->magic = 0;
    tiny_free(ctx, r->gain);
    tiny_free(ctx, r->q);
    tiny_free(ctx, r->sign);
    tiny_free(ctx, r->item);
    tllm_folds_close(ctx, r->folds);
    tiny_free(ctx, r);
}

TINY_API tllm_rotated_about tllm_rotated_what(const tllm_rotated *r)
{
    tllm_rotated_about none;
    memset(&none, 0, sizeof none);
    return r && r->magic == TINYI_ROTATE_MAGIC ? r->about : none;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* y (rows, n) = the rows of x, each times Q; y and x do not overlap, and x is other numbers afterwards */
static tiny_status tinyi_rotate_turn(tiny_ctx *ctx, const tllm_rotated *r, float *x, float *y, tiny_idx rows)
{
    const tiny_idx n = r->about.n_embd;
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows, n), ty = tiny_tensor_2d(y, TINY_F32, rows, n);
    tiny_fwht_params p;
    tiny_idx i, k;
    if (r->q) {
        const tiny_tensor tq = tiny_tensor_2d(r->q, TINY_F32, n, n);
        return tiny_matmul(ctx, &tx, &tq, NULL, TINY_ACT_NONE, &ty);
    }
    memset(&p, 0, sizeof p);
    p.block = r->about.block;
    for (k = 0; k < rows; k++)
        for (i = 0; i < n; i++) x[k * n + i] *= r->sign[i];
    return tiny_fwht(ctx, &tx, &p, &ty);
}

/* y = blocks of the rows of x, which lie in a view, turned by H */
static tiny_status tinyi_rotate_blocks(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y, tiny_idx n)
{
    tiny_fwht_params p;
    memset(&p, 0, sizeof p);
    p.block = tiny_fwht_block(n);
    return tiny_fwht(ctx, x, &p, y);
}

static tiny_status tinyi_rotate_transpose(tiny_ctx *ctx, const float *x, float *y, tiny_idx rows, tiny_idx n)
{
    const tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, rows, n),
                      ty = tiny_tensor_2d(y, TINY_F32, n, rows);
    return tiny_transpose(ctx, &tx, &ty);
}

/* A matrix (rows, n), or a vector as one row, from x: x and y are both as large, and *at is where it is
 * afterwards. */
static tiny_status tinyi_rotate_matrix(tiny_ctx *ctx, const tllm_rotated *r, const tinyi_rotate_item *it, float *x,
                                       float *y, tiny_idx rows, tiny_idx n, float **at)
{
    float *swap;
    tiny_tensor tx, ty;
    tiny_status st = TINY_OK;
#define TINYI_ROTATE_SWAP swap = x, x = y, y = swap
    if (it->how & TINYI_ROTATE_VALUES) {    /* blocks of a column */
        const tiny_idx wide = r->n_kv * r->d_v;
        memcpy(y, x, (size_t)rows * (size_t)n * sizeof *x);
        tx = tiny_tensor_3d(x + it->row0 * n, TINY_F32, r->n_kv, r->d_v, n);
        ty = tiny_tensor_3d(y + it->row0 * n, TINY_F32, r->n_kv, r->d_v, n);
        tx = tiny_tensor_swap(tx, 1, 2);
        ty = tiny_tensor_swap(ty, 1, 2);
        st = it->row0 + wide <= rows
                 ? tinyi_rotate_blocks(ctx, &tx, &ty, r->d_v)
                 : tinyi_fail(ctx, TINY_E_FORMAT, "rotate: %td rows of values are outside a matrix of %td", wide, rows);
        TINYI_ROTATE_SWAP;
    }
    if (!st && it->how & TINYI_ROTATE_READS) {
        st = tinyi_rotate_turn(ctx, r, x, y, rows);
        TINYI_ROTATE_SWAP;
    }
    if (!st && it->how & TINYI_ROTATE_HEADS && r->about.head_block) {
        tx = tiny_tensor_2d(x, TINY_F32, rows * r->n_head, r->d_v);
        ty = tiny_tensor_2d(y, TINY_F32, rows * r->n_head, r->d_v);
        st = tinyi_rotate_blocks(ctx, &tx, &ty, r->d_v);
        TINYI_ROTATE_SWAP;
    }
    if (!st && it->how & TINYI_ROTATE_HEADS && r->d.online & TLLM_ROTATE_HEADS) {
        tx = tiny_tensor_3d(x, TINY_F32, rows, r->n_head, r->d_v);
        ty = tiny_tensor_3d(y, TINY_F32, rows, r->n_head, r->d_v);
        tx = tiny_tensor_swap(tx, 1, 2);
        ty = tiny_tensor_swap(ty, 1, 2);
        st = tinyi_rotate_blocks(ctx, &tx, &ty, r->n_head);
        TINYI_ROTATE_SWAP;
    }
    if (!st && it->how & TINYI_ROTATE_FEED) {
        tx = tiny_tensor_2d(x, TINY_F32, rows, n);
        ty = tiny_tensor_2d(y, TINY_F32, rows, n);
        st = tinyi_rotate_blocks(ctx, &tx, &ty, n);
        TINYI_ROTATE_SWAP;
    }
    if (!st && it->how & TINYI_ROTATE_WRITES) {
        st = tinyi_rotate_transpose(ctx, x, y, rows, n);
        if (!st) st = tinyi_rotate_turn(ctx, r, y, x, n);
        if (!st) st = tinyi_rotate_transpose(ctx, x, y, n, rows);
        TINYI_ROTATE_SWAP;
    }
#undef TINYI_ROTATE_SWAP
    *at = x;
    return st;
}

/* ---- the model as a file ----------------------------------------------------------------------------------------- */

static const tllm_format *tinyi_rotate_format(const tllm_rotated *r, const tinyi_fold_item *it)
{
    const tllm_format *f = tllm_format_of(r->d.format);
    return it->vector ? tllm_format_of(TLLM_FORMAT_F32) : f;
}

/* matrices of a tensor, one after the other; gain: columns of the embedding as the last matrix reads them, or NULL */
static tiny_status tinyi_rotate_put(tiny_ctx *ctx, const tllm_rotated *r, const tinyi_fold_item *it,
                                    const tinyi_rotate_item *how, const float *gain, tllm_writer *w)
{
    const tllm_format *to = tinyi_rotate_format(r, it);
    const tiny_idx rows = it->rows / it->n_mat,
                   part = it->vector || how->how & (TINYI_ROTATE_WRITES | TINYI_ROTATE_VALUES)
                              ? rows
                              : TINYI_MIN(rows, (tiny_idx)(1 << 20) / it->len + 1);
    const size_t numbers = (size_t)part * (size_t)it->len,
                 row_bytes = it->vector ? sizeof(float) : tllm_format_bytes(to, (uint64_t)it->len);
    float *x = (float *)tinyi_alloc(ctx, numbers, sizeof *x),
          *y = x ? (float *)tinyi_alloc(ctx, numbers, sizeof *y) : NULL, *at = x;
    tiny_idx e, row, now, i;
    tiny_status st = y ? TINY_OK : tiny_ctx_status(ctx);
    for (e = 0; e < it->n_mat && !st; e++)
        for (row = 0; row < rows && !st; row += now) {
            now = TINYI_MIN(part, rows - row);
            at = x;
            st = tllm_folds_floats(ctx, r->folds, it->t, e * rows + row, now, x);
            for (i = 0; i < now * it->len && gain && !st; i++) x[i] *= gain[i % it->len];
            if (!st && how->how & TINYI_ROTATE_ONES)
                for (i = 0; i < now; i++) x[i] = 1.0f;
            else if (!st && it->vector &&
                     how->how & TINYI_ROTATE_READS) { /* a bias of what writes the stream, or a row that reads it; of
                                                         experts one after the other */
                st = tinyi_rotate_turn(ctx, r, x, y, now / r->about.n_embd);
                at = y;
            } else if (!st) st = tinyi_rotate_matrix(ctx, r, how, x, y, now, it->len, &at);
            if (!st) {
                float *other = at == x ? y : x;
                to->pack(at, other, (size_t)(now * it->len), NULL);
                st = tllm_writer_data(ctx, w, other, (size_t)now * row_bytes);
            }
        }
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    return st;
}

/* the keys of the file; of a model that is turned while it runs, under another name */
static tiny_status tinyi_rotate_keys(tiny_ctx *ctx, const tllm_rotated *r, tllm_writer *w)
{
    static const char *const part[3] = { "feed", "heads", "keys" };
    tllm_text arch = { "", 0 };
    char key[320];
    int k;
    tiny_status st = tinyi_stream_keys(ctx, r->file, r->d.online ? TINYI_ROTATED_PREFIX : "", w);
    (void)tllm_meta_text(tllm_gguf_find(r->file, "general.architecture"), 0, &arch);
    if (!st) st = tllm_writer_put_text(ctx, w, "rotation.stream", r->d.axes ? "axes" : r->q ? "given" : "hadamard");
    for (k = 0; k < 3 && !st; k++) {
        (void)snprintf(key, sizeof key, "%s%.*s.rotation.%s", TINYI_ROTATED_PREFIX, (int)TINYI_MIN(arch.n, (size_t)64),
                       arch.at, part[k]);
        if (r->d.online & 1u << k) st = tllm_writer_put_bool(ctx, w, key, 1);
    }
    return st;
}

TINY_API tiny_status tllm_rotated_put(tiny_ctx *ctx, tllm_rotated *r, tllm_writer *w)
{
    static const tllm_text output = { "output.weight", 13 };
    tinyi_rotate_item head = { TINYI_ROTATE_READS, 0 };
    const tinyi_fold_item *embd;
    size_t i, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!r || r->magic != TINYI_ROTATE_MAGIC || !w)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rotate: a rotated model and a writer are needed");
    n = r->folds->n_item;
    embd = tinyi_fold_item_of(r->folds, r->embd);
    st = tinyi_rotate_keys(ctx, r, w);
    for (i = 0; !st && i < n; i++) {
        const tinyi_fold_item *it = &r->folds->item[i];
        const int changes = r->item[i].how || tllm_folds_touch(r->folds, it->t);
        if (changes && !it->vector && !tllm_format_bytes(tinyi_rotate_format(r, it), (uint64_t)it->len))
            return tinyi_fail(
                ctx, TINY_E_ARGUMENT, "rotate: %.*s has rows of %td numbers, which are not whole blocks of %s",
                (int)TINYI_MIN(it->t->name.n, (size_t)200), it->t->name.at, it->len, tinyi_rotate_format(r, it)->name);
        st = tllm_writer_put_tensor(ctx, w, it->t->name, changes ? tinyi_rotate_format(r, it)->id : it->t->type,
                                    it->t->rank, it->t->dim, NULL);
    }
    if (!st && r->about.untied)
        st =
            tllm_writer_put_tensor(ctx, w, output, tinyi_rotate_format(r, embd)->id, r->embd->rank, r->embd->dim, NULL);
    for (i = 0; !st && i < n; i++) {
        const tinyi_fold_item *it = &r->folds->item[i];
        if (ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user))
            return tinyi_fail(ctx, TINY_E_CANCELLED, "rotate: the cancel callback asked to stop");
        if (r->item[i].how || tllm_folds_touch(r->folds, it->t))
            st = tinyi_rotate_put(ctx, r, it, &r->item[i], NULL, w);
        else st = tllm_writer_data(ctx, w, it->t->data, it->t->bytes);
        if (ctx->desc.progress) ctx->desc.progress(ctx->desc.user, "rotate", (double)(i + 1) / (double)(n + 1));
    }
    if (!st && r->about.untied) st = tinyi_rotate_put(ctx, r, embd, &head, r->gain, w);
    return st;
}

