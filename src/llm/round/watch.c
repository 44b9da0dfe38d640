/* src/llm/round/watch.c - the inputs of linear layers, observed at the dispatch of operations
 * Cost     a search among the tensors and a checksum of x for each product, and tllm_calib_add for picked tensors
 * Left out products that read a part of a matrix, or its columns (latent heads of MLA, squared-ReLU networks stored by
 *          columns): such a matrix has no statistics */
#include <string.h>
#include "core/state_inside.h"
#include "core/hash_inside.h"
#include "llm/round/watch.h"
#include "llm/block/format.h"
#include "llm/block/matmul.h"
#include "math/matmul.h"
#include "math/ops.h"

typedef struct tinyi_watched {
    const tllm_gguf_tensor *t;
    tiny_idx n_mat;
    size_t mat_bytes;
    int picked, flags, spoiled;             /* spoiled: its inputs are not known as a whole */
    /* (n_mat), of its own or of the one it shares with; NULL: not picked, nothing seen */
    tllm_calib **calib;
    unsigned char *shares;                  /* (n_mat) */
    const tllm_format *format;              /* of its replacement */
    const unsigned char *bytes;
} tinyi_watched;

struct tllm_watch {
    tiny_ctx *ctx;
    tiny_accel hook;
    tinyi_watched *item;                    /* by address of the data */
    size_t n;
    tiny_status status;
    /* of the last product: address, size, checksum, and the calibrator that saw it */
    const void *x;
    tiny_idx rows, width;
    uint64_t sum;
    tllm_calib *seen;
    /* which matrix of how many that was: experts are no partners of each other, whatever they see at first */
    tiny_idx seen_mat, seen_n_mat;
};

static tinyi_watched *tinyi_watch_at(const tllm_watch *w, const unsigned char *p)
{
    size_t low = 0, high = w->n;
    while (low < high) {                    /* the last that begins at p or before */
        const size_t middle = low + (high - low) / 2;
        if (w->item[middle].t->data <= p) low = middle + 1;
        else high = middle;
    }
    return low && p < w->item[low - 1].t->data + w->item[low - 1].t->bytes ? &w->item[low - 1] : NULL;
}
static tinyi_watched *tinyi_watch_find(const tllm_watch *w, const tllm_gguf_tensor *t)
{
    tinyi_watched *i = w && t ? tinyi_watch_at(w, t->data) : NULL;
    return i && i->t == t ? i : NULL;
}

/* the matrix of a tensor that a product reads; NULL: it is no such product. *mat -1: it reads a part */
static tinyi_watched *tinyi_watch_product(const tllm_watch *w, const tiny_op *op, const tiny_op_row *row, tiny_idx *mat)
{
    const int plain = row->kind == TINY_OP_MATMUL && !op->row;
    const tiny_tensor *x = op->in[0], *m = op->in[1];
    const tiny_matmul_params *p = (const tiny_matmul_params *)op->params;
    tinyi_watched *i;
    size_t off;
    if ((!plain && row != tllm_matmul_row()) || !x || !m || x->rank != 2 || m->rank != 2 || !op->out[0]) return NULL;
    i = tinyi_watch_at(w, (const unsigned char *)m->data);
    if (!i) return NULL;
    off = (size_t)((const unsigned char *)m->data - i->t->data);
    *mat = i->mat_bytes && off % i->mat_bytes == 0 && (uint64_t)x->dim[1] == i->t->dim[0] &&
                   (uint64_t)m->dim[plain ? 1 : 0] == i->t->dim[1] && !(plain && p && p->act)
               ? (tiny_idx)(off / i->mat_bytes)
               : -1;
    return i;
}

static void tinyi_watch_gather(tllm_watch *w, tinyi_watched *i, tiny_idx mat, const tiny_tensor *x)
{
    tinyi_hash h;
    uint64_t sum;
    tiny_idx r;
    int same;
    if (mat < 0 || x->dtype != TINY_F32 || x->stride[1] != 1) {
        i->spoiled = 1;
        return;
    }
    tinyi_hash_start(&h);
    for (r = 0; r < x->dim[0]; r++)
        tinyi_hash_add(&h, (const float *)x->data + r * x->stride[0], (size_t)x->dim[1] * sizeof(float));
    sum = tinyi_hash_value(&h);
    same = w->seen && w->x == x->data && w->rows == x->dim[0] && w->width == x->dim[1] && w->sum == sum;
    /* it holds this batch alone */
    if (!i->calib[mat] && same && tllm_calib_tokens(w->seen) == (uint64_t)x->dim[0] && w->seen_mat == mat &&
        w->seen_n_mat == i->n_mat) {
        i->calib[mat] = w->seen;
        i->shares[mat] = 1;
    } else if (i->shares[mat]) {
        /* other inputs than those of the one it shares with, after all */
        if (!same || i->calib[mat] != w->seen) i->spoiled = 1;
    } else {
        if (!i->calib[mat]) w->status = tllm_calib_open(w->ctx, (tiny_idx)i->t->dim[0], i->flags, &i->calib[mat]);
        if (!w->status)
            w->status = tllm_calib_add(w->ctx, i->calib[mat], (const float *)x->data, x->dim[0], x->stride[0]);
        w->seen = i->calib[mat];
        w->seen_mat = mat;
        w->seen_n_mat = i->n_mat;
    }
    w->x = x->data;
    w->rows = x->dim[0];
    w->width = x->dim[1];
    w->sum = sum;
}

static int tinyi_watch_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    tllm_watch *w = (tllm_watch *)user;
    tiny_idx mat = -1;
    tinyi_watched *i = tinyi_watch_product(w, op, row, &mat);
    if (!i) return 0;
    if (i->picked && !w->status) tinyi_watch_gather(w, i, mat, op->in[0]);
    return i->bytes && mat >= 0;
}
static tiny_status tinyi_watch_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    tllm_watch *w = (tllm_watch *)user;
    tiny_idx mat = -1;
    const tinyi_watched *i = tinyi_watch_product(w, op, row, &mat);
    const size_t row_bytes = tllm_format_bytes(i->format, i->t->dim[0]);
    void *at = (void *)(uintptr_t)(i->bytes + (size_t)mat * (size_t)i->t->dim[1] * row_bytes);
    const tiny_tensor m = tiny_tensor_2d(at, TINY_U8, (tiny_idx)i->t->dim[1], (tiny_idx)row_bytes),
                      f = tiny_tensor_2d(at, TINY_F32, (tiny_idx)i->t->dim[1], (tiny_idx)i->t->dim[0]),
                      turned = tiny_tensor_swap(f, 0, 1);
    const tiny_status st = i->format->id == TLLM_FORMAT_F32
                               ? tiny_matmul(w->ctx, op->in[0], &turned, op->in[2], TINY_ACT_NONE, op->out[0])
                               : tllm_matmul(w->ctx, op->in[0], i->format->id, &m, op->in[2], op->out[0]);
    says[0] = 0;
    if (st && !w->status) w->status = st;   /* the original was multiplied: later layers saw other inputs */
    return st;
}

TINY_API tiny_status tllm_watch_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_watch **out)
{
    tllm_watch *w;
    size_t i, k, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "watch: a file and a result pointer are needed");
    w = (tllm_watch *)tinyi_alloc(ctx, 1, sizeof *w);
    if (!w) return tiny_ctx_status(ctx);
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    n = tllm_gguf_n_tensors(file);
    w->item = (tinyi_watched *)tinyi_alloc(ctx, n ? n : 1, sizeof *w->item);
    if (!w->item) {
        tiny_free(ctx, w);
        return tiny_ctx_status(ctx);
    }
    w->hook.version = TINY_ACCEL_VERSION;
    w->hook.all_rows = 1;
    w->hook.name = "watch";
    w->hook.user = w;
    w->hook.can_run = tinyi_watch_can_run;
    w->hook.run = tinyi_watch_run;
    for (i = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(file, i);
        tinyi_watched one;
        if (!t->bytes) continue;
        memset(&one, 0, sizeof one);
        one.t = t;
        one.mat_bytes = t->rank >= 2 ? tllm_format_bytes(tllm_format_of(t->type), t->dim[0]) * (size_t)t->dim[1] : 0;
        one.n_mat = one.mat_bytes ? (tiny_idx)(t->bytes / one.mat_bytes) : 0;
        /* files have them in order */
        for (k = w->n++; k > 0 && w->item[k - 1].t->data > t->data; k--) w->item[k] = w->item[k - 1];
        w->item[k] = one;
    }
    *out = w;
    return TINY_OK;
}

TINY_API void tllm_watch_forget(tllm_watch *w)
{
    size_t i;
    tiny_idx k;
    if (!w) return;
    for (i = 0; i < w->n; i++) {
        tinyi_watched *one = &w->item[i];
        for (k = 0; one->calib && k < one->n_mat; k++)
            if (!one->shares[k]) tllm_calib_close(w->ctx, one->calib[k]);
        tiny_free(w->ctx, one->shares);
        tiny_free(w->ctx, one->calib);
        one->calib = NULL;
        one->shares = NULL;
        one->picked = one->spoiled = 0;
    }
    w->seen = NULL;
    w->x = NULL;
}

TINY_API void tllm_watch_close(tllm_watch *w)
{
    tiny_ctx *ctx;
    if (!w) return;
    ctx = w->ctx;
    tllm_watch_forget(w);
    tiny_free(ctx, w->item);
    tiny_free(ctx, w);
}

TINY_API const tiny_accel *tllm_watch_hook(const tllm_watch *w) { return w ? &w->hook : NULL; }
TINY_API tiny_status tllm_watch_status(const tllm_watch *w) { return w ? w->status : TINY_E_ARGUMENT; }

TINY_API tiny_status tllm_watch_pick(tllm_watch *w, const tllm_gguf_tensor *t, int flags)
{
    tinyi_watched *i = tinyi_watch_find(w, t);
    if (!w) return TINY_E_ARGUMENT;
    if (!i || !i->n_mat)
        return tinyi_fail(w->ctx, TINY_E_ARGUMENT, "watch: %.*s is not a matrix of this file",
                          t ? (int)TINYI_MIN(t->name.n, (size_t)200) : 1, t ? t->name.at : "?");
    if (i->picked) return TINY_OK;
    i->calib = (tllm_calib **)tinyi_alloc(w->ctx, (size_t)i->n_mat, sizeof *i->calib);
    if (i->calib) i->shares = (unsigned char *)tinyi_alloc(w->ctx, (size_t)i->n_mat, 1);
    if (!i->shares) {
        tiny_free(w->ctx, i->calib);
        i->calib = NULL;
        return tiny_ctx_status(w->ctx);
    }
    memset(i->calib, 0, (size_t)i->n_mat * sizeof *i->calib);
    memset(i->shares, 0, (size_t)i->n_mat);
    i->picked = 1;
    i->flags = flags;
    return TINY_OK;
}

TINY_API const tllm_calib *tllm_watch_of(const tllm_watch *w, const tllm_gguf_tensor *t, tiny_idx mat)
{
    const tinyi_watched *i = tinyi_watch_find(w, t);
    return i && i->picked && !i->spoiled && mat >= 0 && mat < i->n_mat ? i->calib[mat] : NULL;
}

TINY_API tiny_status tllm_watch_replace(tllm_watch *w, const tllm_gguf_tensor *t, int format, const void *bytes)
{
    tinyi_watched *i = tinyi_watch_find(w, t);
    const tllm_format *f = tllm_format_of(format);
    if (!w) return TINY_E_ARGUMENT;
    if (!i || !i->n_mat)
        return tinyi_fail(w->ctx, TINY_E_ARGUMENT, "watch: the tensor to replace is not a matrix of this file");
    if (bytes && (!f || (f->flags & (TLLM_FORMAT_PLAIN | TLLM_FORMAT_ACTIVATIONS) && f->id != TLLM_FORMAT_F32) ||
                  !tllm_format_bytes(f, t->dim[0])))
        return tinyi_fail(w->ctx, TINY_E_ARGUMENT,
                          "watch: %.*s has rows of %llu numbers, which are not whole blocks of %s",
                          (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at, (unsigned long long)t->dim[0],
                          f ? f->name : "any format");
    i->format = f;
    i->bytes = (const unsigned char *)bytes;
    return TINY_OK;
}

