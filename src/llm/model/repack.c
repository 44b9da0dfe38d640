/* src/llm/model/repack.c - matrices of a model with eight rows interleaved (llm/block/eight.h), in memory or in a
 * separate file
 *
 * File     a box "eight-rows 2" (core/box/box_inside.h); its body, all little endian
 *          0   u32 interleaved rows (8); u64 matrices; u64 bytes of the body
 *          20  for each matrix, in the order of the model: u32 format; u32 matrices in it (experts); u64 numbers of a
 *              row; u64 rows; u64 offset of its bytes, a multiple of 64; u64 number of bytes; u64 checksum of the
 *              original bytes; u64 checksum of the repacked bytes
 *          then u64 checksum of all bytes of the body before it (core/hash_inside.h); zeros to a multiple of 64; the
 *          matrices
 *          Older: 8 bytes "tinyeigh", u32 1, the same, with offsets and the checksum from the start of the file.
 *          The checksum of the box is not checked here; all threads compute those of the matrices.
 * Every number is compared with the model, and both checksums of every matrix are computed before the file is used: an
 * open reads the model and the repacked form once. A file that does not fit is made again, or refused. A file that is
 * not empty and does not begin like ours is never overwritten. The layout is the same for all targets.
 * Order    all matrices are made first; then the model switches to them, all or none. Pages of the model's file are
 *          released matrix by matrix after reading, so memory holds about one copy at any time. */
#include "llm/model/model_inside.h"
#include "llm/file/store_inside.h"
#include "llm/block/eight.h"
#include "core/box/box_inside.h"
#include "core/forget.h"
#include "core/time.h"
#include "core/state_inside.h"
#include <string.h>
#ifndef TINY_NO_STDIO
#include <stdio.h>
#endif

#ifdef TINYI_NO_REPACK
TINY_API tiny_status tllm_model_repack(tiny_ctx *ctx, tllm_model *m, const tllm_repack_desc *desc, tllm_repacked *about)
{
    (void)m;
    (void)desc;
    if (about) memset(about, 0, sizeof *about);
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "repacked weights are not compiled into this program");
}
TINYI_FN void tinyi_lm_eights_free(tiny_ctx *ctx, tllm_model *m) { (void)ctx; (void)m; }
TINYI_FN void tinyi_lm_eight_unpack(const tinyi_lm_w *w, tiny_idx row, float *y) { (void)w; (void)row; (void)y; }
#else

#define TINYI_LM_EIGHT_HEAD 20
#define TINYI_LM_EIGHT_RECORD 56
#define TINYI_LM_EIGHT_OLD 12               /* bytes in front of the head, in the older form */
static const tinyi_box_kind tinyi_lm_eight_box = {
    "eight-rows", "repacked model", 2, "tinyeigh", 1, TINYI_LM_EIGHT_OLD, 0, TINYI_LM_EIGHT_HEAD
};

typedef struct tinyi_lm_eight {             /* one matrix */
    tinyi_lm_w *w;
    tllm_gguf_tensor *t;                    /* as the model sees it afterwards */
    size_t at, bytes;                       /* in the block of all of them */
    uint64_t made_of, own;                  /* checksums */
} tinyi_lm_eight;

typedef struct tinyi_lm_eights {
    tiny_ctx *ctx;
    tllm_model *m;
    tinyi_lm_eight *list;
    /* matrices; bytes of all, each from a multiple of 64 on; bytes of blocks that stay in place */
    size_t n, bytes, left;
    unsigned char *base;                    /* repacked */
    int automatic;
} tinyi_lm_eights;

/* ---- which matrices ---------------------------------------------------------------------------------------------- */

/* What is read by the row, or by a part of its rows, stays. */
static int tinyi_lm_eight_stays(const tllm_model *m, const tinyi_lm_w *w, int t)
{
    return (t == TINYI_T_TOKEN_EMBD && w != m->output_w) || t == TINYI_T_TOKEN_TYPES || t == TINYI_T_POSITION_EMBD ||
           t == TINYI_T_PLE_EMBD || t == TINYI_T_ATTN_KV_B;
}

/* Decode steps of 110M and 1.1B models, Zen 5, by processor time: every format gains 4 % and more with one thread and
 * with two, but Q6_K with AVX-512, which gains 6 to 11 % and 0 to 2.5 % (docs/dev/speed.md). On ARM instructions were
 * counted, but nothing was timed. */
static int tinyi_lm_eight_gains(const tiny_ctx *ctx)
{
    return ctx->target == TINY_TARGET_AVX2 || ctx->target == TINY_TARGET_AVX512 || ctx->target == TINY_TARGET_AMX;
}

/* The rest of what an automatic call asks, after the matrices were counted. */
static int tinyi_lm_eight_pays(const tinyi_lm_eights *e)
{
    const tllm_model *m = e->m;
    const tiny_ctx_desc *d = &e->ctx->desc;
    const size_t held = tiny_ctx_bytes(e->ctx);
    size_t i;
    if (TINYI_LM_ENCODER(m) || TINYI_LM_OUTPUT(m) != TLLM_LOGITS) return 0;
    for (i = 0; i < m->file->n_parts; i++)
        if (!m->file->part[i].file.mapped) return 0;
    return e->bytes <= tinyi_spare_memory() &&
           (!d->max_bytes || (held <= d->max_bytes && e->bytes <= d->max_bytes - held));
}

static void tinyi_lm_eight_layer(tinyi_lm_eights *e, const tinyi_lm_layer *l, int counts)
{
    int t;
    for (t = 0; t < TINYI_T_COUNT; t++) {
        tinyi_lm_w *w = (tinyi_lm_w *)(uintptr_t)l->w[t];       /* memory of the model, which may be changed here */
        tinyi_lm_eight *k;
        size_t rows, bytes;
        if (!w || w->v || !w->format || w->dtype >= 0) continue;
        rows = (size_t)w->n_out * (size_t)w->n_mat;             /* load.c has checked that all of it is in the file */
        bytes = rows * w->row_bytes;
        if (w->repacked || w->row_step != w->row_bytes || tinyi_lm_eight_stays(e->m, w, t) ||
            tllm_repack_has(e->ctx, w->format->id) < 2 ||
            (w->n_mat > 1 && w->n_out % 8) || w->n_out < 8 ||
            (e->automatic && !tinyi_lm_eight_gains(e->ctx))) {
            if (counts && !w->repacked) e->left += bytes;
            continue;
        }
        if (!counts) {
            k = &e->list[e->n];
            k->w = w;
            k->at = e->bytes;
            k->bytes = bytes;
        }
        e->n++;
        e->bytes += (bytes + 63) & ~(size_t)63;                 /* no more than the file has, but for some bytes each */
    }
}
static void tinyi_lm_eight_walk(tinyi_lm_eights *e, int counts)
{
    const tllm_model *m = e->m;
    tiny_idx i;
    e->n = e->bytes = 0;
    tinyi_lm_eight_layer(e, &m->top, counts);
    for (i = 0; i < TINYI_LM_N_ENC(m); i++) tinyi_lm_eight_layer(e, &m->enc[i], counts);
    /* what is run again has the same weights */
    for (i = 0; i < m->n_once; i++) tinyi_lm_eight_layer(e, &m->layer[i], counts);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void tinyi_lm_eight_forget(const tinyi_lm_eights *e, const tinyi_lm_eight *k)
{
    const tllm_gguf *g = e->m->file;
    size_t i;
    for (i = 0; i < g->n_parts; i++) (void)tinyi_file_forget(&g->part[i].file, k->w->t->data, k->bytes);
}

/* progress is reported and cancel checked between matrices */
static tiny_status tinyi_lm_eight_told(const tinyi_lm_eights *e, size_t done)
{
    const tiny_ctx_desc *d = &e->ctx->desc;
    if (d->progress) d->progress(d->user, "repacking", (double)done / (double)(e->n ? e->n : 1));
    if (d->cancel && d->cancel(d->user))
        return tinyi_fail(e->ctx, TINY_E_CANCELLED,
                          "%s: the cancel callback stopped the repacking; the model is unchanged", e->m->path);
    return TINY_OK;
}

typedef struct tinyi_lm_eight_sums { const tinyi_lm_eights *e; const unsigned char *base; } tinyi_lm_eight_sums;
/* checksums of all matrices: of what they are made of where there is no base, else of themselves from base on */
static void tinyi_lm_eight_hash(tiny_team *team, void *arg)
{
    const tinyi_lm_eight_sums *s = (const tinyi_lm_eight_sums *)arg;
    tiny_idx i, end;
    while (tiny_take(team, (tiny_idx)s->e->n, 1, &i, &end))
        for (; i < end; i++) {
            tinyi_lm_eight *k = &s->e->list[i];
            if (s->base) k->own = tinyi_hash_of(s->base + k->at, k->bytes);
            else {
                k->made_of = tinyi_hash_of(k->w->t->data, k->bytes);
                tinyi_lm_eight_forget(s->e, k);
            }
        }
}
static tiny_status tinyi_lm_eight_sum(const tinyi_lm_eights *e, const unsigned char *base)
{
    tinyi_lm_eight_sums s;
    s.e = e;
    s.base = base;
    return tiny_parallel(e->ctx, 0, 0, 0, tinyi_lm_eight_hash, &s);
}

/* to e->base, which is of the context's memory */
static tiny_status tinyi_lm_eight_make(tinyi_lm_eights *e)
{
    size_t i;
    tiny_idx j;
    tiny_status st = TINY_OK;
    e->base = (unsigned char *)tinyi_alloc(e->ctx, e->bytes, 1);
    if (!e->base) return tiny_ctx_status(e->ctx);
    for (i = 0; i < e->n && !st; i++) {
        const tinyi_lm_eight *k = &e->list[i];
        const tinyi_lm_w *w = k->w;
        const size_t each = (size_t)w->n_out * w->row_bytes, pad = ((k->bytes + 63) & ~(size_t)63) - k->bytes;
        memset(e->base + k->at + k->bytes, 0, pad);
        for (j = 0; j < w->n_mat && !st; j++)
            st = tllm_repack(e->ctx, w->format->id, w->t->data + (size_t)j * each, w->n_out, w->n_in,
                             e->base + k->at + (size_t)j * each);
        tinyi_lm_eight_forget(e, k);
        if (!st) st = tinyi_lm_eight_told(e, i + 1);
    }
    if (!st) return TINY_OK;
    tiny_free(e->ctx, e->base);
    e->base = NULL;
    return st;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* where the matrices begin: in the body, or in a file of the older form */
static size_t tinyi_lm_eight_data(const tinyi_lm_eights *e, int old) 
{
    return TINYI_BOX_UP((old ? (size_t)TINYI_LM_EIGHT_OLD : 0) + TINYI_LM_EIGHT_HEAD + e->n * TINYI_LM_EIGHT_RECORD + 8,
                        64);
}

/* head and records, without the checksum after them */
static void tinyi_lm_eight_head(const tinyi_lm_eights *e, tinyi_writer *o)
{
    const size_t data = tinyi_lm_eight_data(e, 0);
    size_t i;
    tinyi_wr(o, 8, 4);
    tinyi_wr(o, e->n, 8);
    tinyi_wr(o, data + e->bytes, 8);
    for (i = 0; i < e->n; i++) {
        const tinyi_lm_eight *k = &e->list[i];
        tinyi_wr(o, (uint64_t)k->w->format->id, 4);
        tinyi_wr(o, (uint64_t)k->w->n_mat, 4);
        tinyi_wr(o, (uint64_t)k->w->n_in, 8);
        tinyi_wr(o, (uint64_t)k->w->n_out, 8);
        tinyi_wr(o, data + k->at, 8);
        tinyi_wr(o, k->bytes, 8);
        tinyi_wr(o, k->made_of, 8);
        tinyi_wr(o, k->own, 8);
    }
}

static tiny_status tinyi_lm_eight_write(tinyi_lm_eights *e, const char *path)
{
    const size_t data = tinyi_lm_eight_data(e, 0), step = (size_t)1 << 24;
    unsigned char *head;
    tinyi_writer o;
    tinyi_box box;
    size_t i;
    tiny_status st = tinyi_lm_eight_sum(e, NULL);
    if (!st) st = tinyi_lm_eight_sum(e, e->base);
    if (st) return st;
    head = (unsigned char *)tinyi_alloc(e->ctx, data, 1);
    if (!head) return tiny_ctx_status(e->ctx);
    memset(head, 0, data);
    o.at = head;
    o.n = 0;
    tinyi_lm_eight_head(e, &o);
    tinyi_wr(&o, tinyi_hash_of(head, o.n), 8);
    st = tinyi_box_open(e->ctx, &box, path, &tinyi_lm_eight_box, data + e->bytes);
    if (!st) st = tinyi_box_add(e->ctx, &box, head, data);
    for (i = 0; i < e->bytes && !st; i += step)
        st = tinyi_box_add(e->ctx, &box, e->base + i, TINYI_MIN(step, e->bytes - i));
    st = tinyi_box_done(e->ctx, &box, st);
    tiny_free(e->ctx, head);
    return st;
}

/* Is f what e would write? The sentence says what is wrong. Sets the checksums of e; *first: the matrices. */
static tiny_status tinyi_lm_eight_check(tinyi_lm_eights *e, const tiny_file *f, const char *path,
                                        const unsigned char **first)
{
    const unsigned char *base;              /* what places count from */
    size_t data, n_base;
    tinyi_cursor c;
    uint32_t rows = 0, format, n_mat;
    uint64_t n = 0, bytes = 0, n_in, n_out, at, size, made_of, own, sum;
    char name[TINYI_SHOW];
    size_t i;
    int old;
    tiny_ctx *ctx = e->ctx;
    tiny_status st = tinyi_box_body(ctx, path, &tinyi_lm_eight_box, f->bytes, f->n_bytes, 1, &c, &old);
    if (st) return st;
    data = tinyi_lm_eight_data(e, old);
    base = old ? f->bytes : c.at;
    n_base = old ? f->n_bytes : c.left;
    /* the shortest body has them */
    (void)(tinyi_rd_u32(&c, &rows) && tinyi_rd_u64(&c, &n) && tinyi_rd_u64(&c, &bytes));
    if (rows != 8)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a layout of %lu rows; only 8 rows are supported", path,
                          (unsigned long)rows);
    if (n != e->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %llu matrices, but the model has %zu to repack", path,
                          (unsigned long long)n, e->n);
    if (bytes != (uint64_t)data + e->bytes || n_base != data + e->bytes)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %zu bytes and claims %llu; this model needs %zu", path,
                          n_base, (unsigned long long)bytes, data + e->bytes);
    for (i = 0; i < e->n; i++) {
        tinyi_lm_eight *k = &e->list[i];
        const tinyi_lm_w *w = k->w;
        if (!tinyi_rd_u32(&c, &format) || !tinyi_rd_u32(&c, &n_mat) || !tinyi_rd_u64(&c, &n_in) ||
            !tinyi_rd_u64(&c, &n_out) || !tinyi_rd_u64(&c, &at) || !tinyi_rd_u64(&c, &size) ||
            !tinyi_rd_u64(&c, &made_of) || !tinyi_rd_u64(&c, &own))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in matrix %zu of %zu", path, i, e->n);
        if (format != (uint32_t)w->format->id || n_mat != (uint32_t)w->n_mat || n_in != (uint64_t)w->n_in ||
            n_out != (uint64_t)w->n_out || at != (uint64_t)(data + k->at) || size != k->bytes)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: matrix %zu is %llux%llux%lu of format %lu at %llu, not %tdx%tdx%td of %s at %zu as "
                              "tensor %s needs",
                              path, i, (unsigned long long)n_in, (unsigned long long)n_out, (unsigned long)n_mat,
                              (unsigned long)format, (unsigned long long)at, w->n_in, w->n_out, w->n_mat,
                              w->format->name, data + k->at, tinyi_show(w->t->name, name));
        k->made_of = made_of;
        k->own = own;
    }
    at = (uint64_t)(c.at - base);
    if (!tinyi_rd_u64(&c, &sum) || sum != tinyi_hash_of(base, (size_t)at))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the checksum of its first %llu bytes differs: the file was changed", path,
                          (unsigned long long)at);
    {                                       /* all checksums anew, next to those that were read */
        tinyi_lm_eight *list = e->list;
        e->list = (tinyi_lm_eight *)tinyi_alloc(ctx, e->n, sizeof *e->list);
        if (!e->list) { e->list = list; return tiny_ctx_status(ctx); }
        memcpy(e->list, list, e->n * sizeof *list);
        *first = base + data;
        st = tinyi_lm_eight_sum(e, *first);
        if (!st) st = tinyi_lm_eight_sum(e, NULL);
        for (i = 0; i < e->n && !st; i++) {
            if (e->list[i].own != list[i].own)
                st = tinyi_fail(ctx, TINY_E_FORMAT,
                                "%s: the checksum of matrix %zu (tensor %s) differs: the file was changed", path, i,
                                tinyi_show(list[i].w->t->name, name));
            else if (e->list[i].made_of != list[i].made_of)
                st =
                    tinyi_fail(ctx, TINY_E_FORMAT, "%s: was made from another model: tensor %s of %s has other numbers",
                               path, tinyi_show(list[i].w->t->name, name), e->m->path);
        }
        tiny_free(ctx, e->list);
        e->list = list;
    }
    return st;
}

/* ---- */

static int tinyi_lm_eight_there(const char *path)
{
#ifdef TINY_NO_STDIO
    (void)path;
    return 0;
#else
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    (void)fclose(f);
    return 1;
#endif
}

TINY_API tiny_status tllm_model_repack(tiny_ctx *ctx, tllm_model *m, const tllm_repack_desc *desc, tllm_repacked *about)
{
    const char *path = desc ? desc->path : NULL;
    tinyi_lm_eights e;
    tinyi_lm_load ld;
    tiny_file file = tiny_file_memory(NULL, 0);
    const unsigned char *base = NULL;
    size_t i;
    int found = 0, written = 0;
    const uint64_t start = tiny_now_ns();
    tiny_status st = tinyi_ctx_check(ctx);
    if (about) memset(about, 0, sizeof *about);
    if (st) return st;
    if (!m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "repack: the model is NULL");
    if (m->eights) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the model is repacked already", m->path);
    if (TINYI_LM_DISK(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model that stays on disk cannot be repacked", m->path);
    if (path && tinyi_file_special(path))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: is not a regular file and cannot hold a repacked model", path);
    memset(&e, 0, sizeof e);
    memset(&ld, 0, sizeof ld);
    e.ctx = ld.ctx = ctx;
    e.m = ld.m = m;
    ld.g = m->file;
    e.automatic = desc && desc->automatic;
    tinyi_lm_eight_walk(&e, 1);
    if (e.automatic && !tinyi_lm_eight_pays(&e)) {
        e.left += e.bytes;
        e.n = 0;
    }
    if (about) about->left = e.left;
    if (!e.n) return TINY_OK;
    e.list = (tinyi_lm_eight *)tinyi_alloc(ctx, e.n, sizeof *e.list);
    if (!e.list && about && e.automatic) about->left += e.bytes;
    if (!e.list) return e.automatic ? TINY_OK : tiny_ctx_status(ctx);
    memset(e.list, 0, e.n * sizeof *e.list);
    tinyi_lm_eight_walk(&e, 0);
    m->eight_file = (tiny_file *)tinyi_lm_keep(&ld, 1, sizeof *m->eight_file);
    for (i = 0; i < e.n && !ld.st; i++) e.list[i].t = (tllm_gguf_tensor *)tinyi_lm_keep(&ld, 1, sizeof *e.list[i].t);
    st = ld.st;
    if (!st && path && tinyi_lm_eight_there(path)) {
        int ours;
        st = tiny_file_open(ctx, path, &file);
        ours = !st && (!file.n_bytes || tinyi_box_says(&tinyi_lm_eight_box, file.bytes, file.n_bytes));
        if (!st) st = tinyi_lm_eight_check(&e, &file, path, &base);
        found = !st;
        if (st) tiny_file_close(ctx, &file);
        /* made again */
        if (st && ours && st != TINY_E_CANCELLED && st != TINY_E_MEMORY && !desc->refuse) st = TINY_OK;
    }
    if (!st && !found) {
        st = tinyi_lm_eight_make(&e);
        if (!st && path) {
            st = tinyi_lm_eight_write(&e, path);
            written = !st;
            /* a full disk, or another program that writes it: the form is here all the same */
            if (st == TINY_E_IO && !desc->refuse) st = TINY_OK;
        }
    }
    if (!st) tinyi_lm_weights_up(ctx, m, 0);
    if (!st) {
        if (!found) base = e.base;
        for (i = 0; i < e.n; i++) {
            const tinyi_lm_eight *k = &e.list[i];
            *k->t = *k->w->t;
            k->t->data = base + k->at;
            k->w->t = k->t;
            k->w->repacked = TLLM_REPACKED;
        }
        tinyi_lm_weights_up(ctx, m, 1);
        *m->eight_file = file;
        m->eight_memory = e.base;
        m->eights = e.n;
        if (about) {
            about->bytes = e.bytes;
            about->n = (tiny_idx)e.n;
            about->from_file = found;
            about->written = written;
            about->seconds = 1e-9 * (double)(tiny_now_ns() - start);
        }
    } else {
        tiny_free(ctx, e.base);
        m->eight_file = NULL;
        if (st == TINY_E_MEMORY && e.automatic) {
            if (about) about->left += e.bytes;
            st = TINY_OK;
        }
    }
    tiny_free(ctx, e.list);
    return st;
}

/* of tllm_model_close, before its blocks go */
TINYI_FN void tinyi_lm_eights_free(tiny_ctx *ctx, tllm_model *m)
{
    if (m->eight_file) tiny_file_close(ctx, m->eight_file);
    tiny_free(ctx, m->eight_memory);
}

TINYI_FN void tinyi_lm_eight_unpack(const tinyi_lm_w *w, tiny_idx row, float *y)
{
    unsigned char block[8 * 34];            /* 256 numbers of the largest format that is repacked */
    tiny_idx k, n;
    for (k = 0; k < w->n_in; k += n) {
        n = TINYI_MIN(w->n_in - k, 256);
        tinyi_eight_row(w->format->id, w->t->data, (tiny_idx)w->row_bytes, w->n_out, row, k / w->format->values,
                        n / w->format->values, block);
        w->format->unpack(block, y + k, (size_t)n);
    }
}
#endif
