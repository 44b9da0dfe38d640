/* src/llm/serve/energon_net.c - one rank of a stage: layers on valid rows, with tensor ranks
 * Paper    J. Du et al., "EnergonAI", 2022 (arXiv 2209.02341): tensor parallel layers, redundant computation
 *          elimination for the linear layers, norms and sums of ranks; layers in a pool.
 * Formula  h = rmsnorm(x); q, k, v = h Wq', h Wk', h Wv', rotated; o = attention of each text; x += sum_p o_p Wo_p';
 *          h = rmsnorm(x); x += sum_p (silu(h Wg_p') (h Wu_p')) Wd_p'. Part p of P: heads and hidden numbers of one
 *          P-th. The sums over p are a binary tree: neighbours, then pairs, then fours. A rank adds its own parts, and
 *          doubling over T ranks adds the rest in the same order.
 * Layout   of a layer: norm, norm, then for each part Wq Wk Wv Wo Wg Wu Wd, floats, rows as in the file.
 * Cost     24 d^2 operations a row (for hidden 4 d) and 4 d l^2 for a text; 2 sums of rows x d numbers a layer.
 * Form     PADDED computes rows of padding too; MIXED pads only what attention reads. Both drop the padding before the
 *          rows leave, and are here to be compared with. */
#include "llm/serve/energon_net.h"
#include "core/collective.h"
#include "core/hash_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "llm/block/format.h"
#include "math/all.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_stage_shape {
    tiny_idx d, heads, kv, dk, ff, layers, vocab;
    float eps, base;
    int tied;
} tinyi_stage_shape;

struct tllm_stage_net {
    tiny_ctx *ctx;
    tllm_stage_net_desc d;
    tinyi_stage_shape is;
    tiny_idx first, n;                      /* layers of this stage */
    tiny_idx hq, hkv, f;                    /* of a part */
    int own;                                /* parts of this rank */
    size_t count;                           /* floats of a layer */
    float **layer;                          /* (n) */
    float *embed, *norm, *output;
    tllm_pool *pool;
    tiny_coll coll;
    float *x, *h, *q, *k, *v, *o, *a, *b, *y, *pad[5];      /* rows of the batch */
    int32_t *position;
    tiny_idx rows;                          /* room of them */
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static tiny_idx tinyi_stage_number(const tllm_gguf *f, const char *key, tiny_idx otherwise)
{
    int64_t v;
    return tllm_meta_i64(tllm_gguf_find(f, key), 0, &v) && v > 0 && v < ((int64_t)1 << 30) ? (tiny_idx)v : otherwise;
}

static tiny_status tinyi_stage_tensor(tiny_ctx *ctx, const tllm_gguf *f, tiny_idx layer, const char *name,
                                      tiny_idx rows, tiny_idx cols, const tllm_gguf_tensor **out)
{
    char full[64];
    const tllm_gguf_tensor *t;
    const tllm_format *format;
    if (layer < 0) (void)snprintf(full, sizeof full, "%s", name);
    else (void)snprintf(full, sizeof full, "blk.%d.%s", (int)layer, name);
    t = tllm_gguf_tensor_find(f, full);
    if (!t) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: there is no tensor %s", tllm_gguf_path(f, 0), full);
    format = tllm_format_of(t->type);
    if (!format || !format->unpack || t->dim[0] != (uint64_t)cols || t->dim[1] != (uint64_t)rows ||
        t->rank > 2 || t->dim[0] % (uint64_t)format->values || !t->data)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s is not %td x %td numbers", tllm_gguf_path(f, 0), full,
                          rows, cols);
    *out = t;
    return TINY_OK;
}

static tiny_status tinyi_stage_shape_of(tiny_ctx *ctx, const tllm_gguf *f, tinyi_stage_shape *is)
{
    static const char *const more[] = { "attn_q.bias", "attn_q_norm.weight", "ffn_gate_inp.weight",
                                        "post_attention_norm.weight" };
    tllm_text name;
    double x;
    size_t i;
    char full[64];
    if (!f) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a stage needs the file of its model");
    memset(is, 0, sizeof *is);
    if (!tllm_meta_text(tllm_gguf_find(f, "general.architecture"), 0, &name) || !tllm_text_is(name, "llama"))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: stages compute models of the architecture llama",
                          tllm_gguf_path(f, 0));
    is->d = tinyi_stage_number(f, "llama.embedding_length", 0);
    is->layers = tinyi_stage_number(f, "llama.block_count", 0);
    is->heads = tinyi_stage_number(f, "llama.attention.head_count", 0);
    is->kv = tinyi_stage_number(f, "llama.attention.head_count_kv", is->heads);
    is->ff = tinyi_stage_number(f, "llama.feed_forward_length", 0);
    is->dk = tinyi_stage_number(f, "llama.attention.key_length", is->heads ? is->d / is->heads : 0);
    is->eps = tllm_meta_f64(tllm_gguf_find(f, "llama.attention.layer_norm_rms_epsilon"), 0, &x) ? (float)x : 1e-5f;
    is->base = tllm_meta_f64(tllm_gguf_find(f, "llama.rope.freq_base"), 0, &x) ? (float)x : 10000.0f;
    if (!is->d || !is->layers || is->layers > 4096 || !is->heads || !is->kv || !is->ff || !is->dk || is->dk % 2 ||
        is->heads % is->kv || is->d > 65536 || is->ff > 1048576 || is->heads * is->dk > 65536)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the sizes of the model are missing or do not fit each other",
                          tllm_gguf_path(f, 0));
    for (i = 0; i < sizeof more / sizeof *more; i++) {
        (void)snprintf(full, sizeof full, "blk.0.%s", more[i]);
        if (tllm_gguf_tensor_find(f, full))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: stages cannot compute %s", tllm_gguf_path(f, 0), full);
    }
    if (tllm_gguf_tensor_find(f, "rope_freqs.weight") || tllm_gguf_find(f, "llama.rope.scaling.type") ||
        tinyi_stage_number(f, "llama.rope.dimension_count", is->dk) != is->dk ||
        tinyi_stage_number(f, "llama.attention.value_length", is->dk) != is->dk)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: stages cannot compute scaled or partial rotations",
                          tllm_gguf_path(f, 0));
    is->tied = !tllm_gguf_tensor_find(f, "output.weight");
    {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_find(f, "token_embd.weight");
        is->vocab = t && t->dim[1] < ((uint64_t)1 << 24) ? (tiny_idx)t->dim[1] : 0;
        if (!is->vocab)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: there is no tensor token_embd.weight", tllm_gguf_path(f, 0));
    }
    return TINY_OK;
}

/* Rows r0 .. r0 + rows - 1 and columns c0 .. c0 + cols - 1 of a tensor, as floats. row: room for one of its rows. */
static void tinyi_stage_cut(const tllm_gguf_tensor *t, tiny_idx r0, tiny_idx rows, tiny_idx c0, tiny_idx cols,
                            float *row, float *to)
{
    const tllm_format *f = tllm_format_of(t->type);
    const size_t n = (size_t)t->dim[0], bytes = tllm_format_bytes(f, n);
    tiny_idx r;
    for (r = 0; r < rows; r++) {
        f->unpack(t->data + (size_t)(r0 + r) * bytes, row, n);
        memcpy(to, row + c0, (size_t)cols * sizeof *to);
        to += cols;
    }
}

enum { TINYI_STAGE_MATRICES = 7 };
/* matrix i of a part: its rows and columns in the file, and which of both is cut */
static void tinyi_stage_matrix(const tllm_stage_net *s, int i, tiny_idx *rows, tiny_idx *cols, int *by_cols)
{
    const tiny_idx d = s->is.d, q = s->hq * s->is.dk, kv = s->hkv * s->is.dk;
    const tiny_idx r[TINYI_STAGE_MATRICES] = { q, kv, kv, d, s->f, s->f, d };
    const tiny_idx c[TINYI_STAGE_MATRICES] = { d, d, d, q, d, d, s->f };
    *rows = r[i];
    *cols = c[i];
    *by_cols = i == 3 || i == 6;
}

/* Layer j of the stage as floats. Any thread: it uses no context. row: room for a row of the widest tensor. */
static int tinyi_stage_read(const tllm_stage_net *s, tiny_idx j, float *row, float *to)
{
    static const char *const name[TINYI_STAGE_MATRICES] = { "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate",
                                                            "ffn_up", "ffn_down" };
    static const char *const norm[2] = { "attn_norm", "ffn_norm" };
    char full[64];
    const tllm_gguf_tensor *t;
    int i, p;
    for (i = 0; i < 2; i++, to += s->is.d) {
        (void)snprintf(full, sizeof full, "blk.%d.%s.weight", (int)(s->first + j), norm[i]);
        t = tllm_gguf_tensor_find(s->d.file, full);
        if (!t) return 0;
        tinyi_stage_cut(t, 0, 1, 0, s->is.d, row, to);
    }
    for (p = 0; p < s->own; p++)
        for (i = 0; i < TINYI_STAGE_MATRICES; i++) {
            const tiny_idx part = s->d.column * s->own + p;
            tiny_idx rows, cols;
            int by_cols;
            (void)snprintf(full, sizeof full, "blk.%d.%s.weight", (int)(s->first + j), name[i]);
            t = tllm_gguf_tensor_find(s->d.file, full);
            if (!t) return 0;
            tinyi_stage_matrix(s, i, &rows, &cols, &by_cols);
            tinyi_stage_cut(t, by_cols ? 0 : part * rows, rows, by_cols ? part * cols : 0, cols, row, to);
            to += rows * cols;
        }
    return 1;
}

static tiny_idx tinyi_stage_widest(const tinyi_stage_shape *is)
{
    return TINYI_MAX(TINYI_MAX(is->d, is->ff), is->heads * is->dk);
}

/* from the file, on the thread of the pool */
static tiny_status tinyi_stage_from_file(void *user, tiny_idx j, void *to, char says[TLLM_LOADER_SAYS])
{
    tllm_stage_net *s = (tllm_stage_net *)user;
    if (tinyi_stage_read(s, j, s->pad[3], (float *)to)) return TINY_OK;
    (void)snprintf(says, TLLM_LOADER_SAYS, "layer %d could not be read from the file", (int)j);
    return TINY_E_FORMAT;
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static float *tinyi_stage_floats(tllm_stage_net *s, tiny_idx n)
{
    return (float *)tinyi_alloc(s->ctx, (size_t)n, sizeof(float));
}

/* The description, checked, in s: everything that has no memory. */
static tiny_status tinyi_stage_plan(tiny_ctx *ctx, const tllm_stage_net_desc *d, tllm_stage_net *s)
{
    const tinyi_stage_shape *is = &s->is;
    const tllm_gguf_tensor *t;
    tiny_idx j;
    int i;
    tiny_status st = tinyi_stage_shape_of(ctx, d->file, &s->is);
    if (st) return st;
    s->ctx = ctx;
    s->d = *d;
    if (!d->stages) s->d.stages = 1;
    if (!d->tensor) s->d.tensor = 1;
    if (!d->parts) s->d.parts = s->d.tensor;
    if (!d->texts) s->d.texts = 8;
    if (!d->tokens) s->d.tokens = 1024;
    if (s->d.stages < 1 || s->d.stages > is->layers || d->stage < 0 || d->stage >= s->d.stages || s->d.tensor < 1 ||
        d->column < 0 || d->column >= s->d.tensor)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank %d of stage %d: there are %d stages of %d ranks, for %td layers",
                          d->column, d->stage, s->d.stages, s->d.tensor, is->layers);
    if (s->d.parts < 1 || (s->d.parts & (s->d.parts - 1)) || s->d.parts % s->d.tensor || is->kv % s->d.parts ||
        is->ff % s->d.parts)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d parts for %d tensor ranks: a power of two, a multiple of the "
                          "ranks, that divides %td heads and %td hidden numbers", s->d.parts, s->d.tensor, is->kv,
                          is->ff);
    if (s->d.texts < 1 || s->d.texts > 4096 || s->d.tokens < 1 || s->d.tokens > TLLM_ROWS_MOST / 4 || d->form < 0 ||
        d->form > TLLM_ROWS_MIXED)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "batches of %td texts, %td tokens, form %d: out of range", s->d.texts,
                          s->d.tokens, d->form);
    s->own = s->d.parts / s->d.tensor;
    s->first = is->layers * d->stage / s->d.stages;
    s->n = is->layers * (d->stage + 1) / s->d.stages - s->first;
    s->hq = is->heads / s->d.parts;
    s->hkv = is->kv / s->d.parts;
    s->f = is->ff / s->d.parts;
    if (d->k < 0 || (d->k && s->n % d->k))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pool of every %td. of %td layers of a stage: the interval divides "
                          "the layers", d->k, s->n);
    s->count = 2 * (size_t)is->d;
    for (i = 0; i < TINYI_STAGE_MATRICES; i++) {
        tiny_idx rows, cols;
        int by_cols;
        tinyi_stage_matrix(s, i, &rows, &cols, &by_cols);
        s->count += (size_t)rows * (size_t)cols * (size_t)s->own;
    }
    for (j = s->first; j < s->first + s->n; j++) {
        static const char *const name[TINYI_STAGE_MATRICES] = { "attn_q.weight", "attn_k.weight", "attn_v.weight",
                                                                "attn_output.weight", "ffn_gate.weight",
                                                                "ffn_up.weight", "ffn_down.weight" };
        st = tinyi_stage_tensor(ctx, d->file, j, "attn_norm.weight", 1, is->d, &t);
        if (!st) st = tinyi_stage_tensor(ctx, d->file, j, "ffn_norm.weight", 1, is->d, &t);
        for (i = 0; i < TINYI_STAGE_MATRICES && !st; i++) {
            tiny_idx rows, cols;
            int by_cols;
            tinyi_stage_matrix(s, i, &rows, &cols, &by_cols);
            st = tinyi_stage_tensor(ctx, d->file, j, name[i], by_cols ? rows : rows * s->d.parts,
                                    by_cols ? cols * s->d.parts : cols, &t);
        }
        if (st) return st;
    }
    return TINY_OK;
}

static tiny_status tinyi_stage_whole(tllm_stage_net *s, const char *name, tiny_idx rows, float **out)
{
    const tllm_gguf_tensor *t;
    tiny_status st = tinyi_stage_tensor(s->ctx, s->d.file, -1, name, rows, s->is.d, &t);
    if (st) return st;
    *out = tinyi_stage_floats(s, rows * s->is.d);
    if (!*out) return tiny_ctx_status(s->ctx);
    tinyi_stage_cut(t, 0, rows, 0, s->is.d, s->pad[3], *out);
    return TINY_OK;
}

/* layers that this rank holds (lent 0), or those that it does not */
static tiny_status tinyi_stage_layers(tllm_stage_net *s, int lent)
{
    tiny_idx j;
    s->layer = (float **)tinyi_alloc(s->ctx, (size_t)s->n, sizeof *s->layer);
    if (!s->layer) return tiny_ctx_status(s->ctx);
    memset(s->layer, 0, (size_t)s->n * sizeof *s->layer);
    for (j = 0; j < s->n; j++) {
        if ((s->d.k && j % s->d.k == s->d.k - 1) != lent) continue;
        s->layer[j] = (float *)tinyi_alloc(s->ctx, s->count, sizeof(float));
        if (!s->layer[j]) return tiny_ctx_status(s->ctx);
        (void)tinyi_stage_read(s, j, s->pad[3], s->layer[j]);
    }
    return TINY_OK;
}

static uint64_t tinyi_stage_print(const tllm_gguf *f)
{
    tinyi_hash h;
    size_t i;
    tinyi_hash_start(&h);
    for (i = 0; i < tllm_gguf_n_tensors(f); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(f, i);
        const size_t some = TINYI_MIN(t->bytes, 4096);
        tinyi_hash_add(&h, t->name.at, t->name.n);
        tinyi_hash_add(&h, &t->type, sizeof t->type);
        tinyi_hash_add(&h, t->dim, sizeof t->dim);
        if (t->data) {
            tinyi_hash_add(&h, t->data, some);
            tinyi_hash_add(&h, t->data + (t->bytes - some), some);
        }
    }
    return tinyi_hash_value(&h);
}

TINY_API tiny_status tllm_stage_net_rows(tiny_ctx *ctx, const tllm_gguf *file, int stages, size_t *row,
                                         uint64_t *print)
{
    tinyi_stage_shape is;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!row || !print || stages < 1 || stages > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the rows of %d stages need room", stages);
    st = tinyi_stage_shape_of(ctx, file, &is);
    if (st) return st;
    row[0] = 4;
    for (i = 1; i < stages; i++) row[i] = (size_t)is.d * sizeof(float);
    row[stages] = (size_t)is.vocab * sizeof(float);
    *print = tinyi_stage_print(file);
    return TINY_OK;
}

static tiny_status tinyi_stage_pool(tllm_stage_net *s)
{
    tllm_pool_desc pd;
    memset(&pd, 0, sizeof pd);
    pd.layers = s->n;
    pd.k = s->d.k;
    pd.bytes = s->count * sizeof(float);
    pd.resident = (const void *const *)s->layer;
    pd.read = tinyi_stage_from_file;
    pd.user = s;
    pd.net = s->d.pool;
    pd.print = tinyi_stage_print(s->d.file);
    pd.ahead = s->d.pool_ahead;
    pd.bytes_per_second = s->d.pool_rate;
    return tllm_pool_open(s->ctx, &pd, &s->pool);
}

TINY_API tiny_status tllm_stage_net_open(tiny_ctx *ctx, const tllm_stage_net_desc *d, tllm_stage_net **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_stage_net *s;
    tiny_idx q, kv, R;
    int last, i;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a stage needs a description and an output pointer");
    s = (tllm_stage_net *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    st = tinyi_stage_plan(ctx, d, s);
    if (st) {
        tiny_free(ctx, s);
        return st;
    }
    last = s->d.stage == s->d.stages - 1;
    R = s->rows = d->form == TLLM_ROWS_PADDED ? TINYI_MIN(s->d.tokens * s->d.texts, TLLM_ROWS_MOST) : s->d.tokens;
    q = s->hq * s->is.dk;
    kv = s->hkv * s->is.dk;
    s->pad[3] = tinyi_stage_floats(s, tinyi_stage_widest(&s->is));      /* first: a row of the file */
    s->x = tinyi_stage_floats(s, R * s->is.d);
    s->h = tinyi_stage_floats(s, R * s->is.d);
    s->q = tinyi_stage_floats(s, R * q);
    s->k = tinyi_stage_floats(s, R * kv);
    s->v = tinyi_stage_floats(s, R * kv);
    s->o = tinyi_stage_floats(s, R * q);
    s->a = tinyi_stage_floats(s, R * s->f);
    s->b = tinyi_stage_floats(s, R * s->f);
    s->y = tinyi_stage_floats(s, R * s->is.d * s->own);
    s->position = (int32_t *)tinyi_alloc(ctx, (size_t)R, sizeof *s->position);
    if (!s->pad[3] || !s->x || !s->h || !s->q || !s->k || !s->v || !s->o || !s->a || !s->b || !s->y || !s->position)
        st = tiny_ctx_status(ctx);
    for (i = 0; i < 5 && !st && d->form == TLLM_ROWS_MIXED; i++) {
        if (i == 3) continue;
        s->pad[i] = tinyi_stage_floats(s, TINYI_MIN(s->d.tokens * s->d.texts, TLLM_ROWS_MOST) * (i % 4 ? kv : q));
        if (!s->pad[i]) st = tiny_ctx_status(ctx);
    }
    if (!st) st = tinyi_stage_layers(s, 0);
    if (!st && (!s->d.stage || (last && s->is.tied)))
        st = tinyi_stage_whole(s, "token_embd.weight", s->is.vocab, &s->embed);
    if (!st && last) st = tinyi_stage_whole(s, "output_norm.weight", 1, &s->norm);
    if (!st && last && !s->is.tied) st = tinyi_stage_whole(s, "output.weight", s->is.vocab, &s->output);
    if (!st && d->k) st = tinyi_stage_pool(s);
    if (!st && d->group) st = tllm_stage_net_join(s, d->group);
    if (st) tllm_stage_net_close(s);
    else *out = s;
    return st;
}

TINY_API tiny_status tllm_stage_net_join(tllm_stage_net *s, tiny_net *group)
{
    if (!s) return TINY_E_ARGUMENT;
    if (s->d.tensor == 1) return TINY_OK;
    if (!group || group->world != s->d.tensor || group->rank != s->d.column)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "rank %d of a stage needs the net of its %d ranks", s->d.column,
                          s->d.tensor);
    s->coll.net = group;
    s->coll.n_work = tiny_coll_work(s->d.tensor, (size_t)(s->rows * s->is.d), sizeof(float));
    if (s->coll.n_work == SIZE_MAX) return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "sums of a stage cannot be addressed");
    if (!s->coll.work && s->coll.n_work) s->coll.work = tinyi_alloc(s->ctx, s->coll.n_work, 1);
    return s->coll.n_work && !s->coll.work ? tiny_ctx_status(s->ctx) : TINY_OK;
}

TINY_API void tllm_stage_net_close(tllm_stage_net *s)
{
    tiny_idx j;
    int i;
    if (!s) return;
    tllm_pool_close(s->pool);
    for (j = 0; s->layer && j < s->n; j++) tiny_free(s->ctx, s->layer[j]);
    for (i = 0; i < 5; i++) tiny_free(s->ctx, s->pad[i]);
    tiny_free(s->ctx, s->layer);
    tiny_free(s->ctx, s->coll.work);
    tiny_free(s->ctx, s->output);
    tiny_free(s->ctx, s->norm);
    tiny_free(s->ctx, s->embed);
    tiny_free(s->ctx, s->position);
    tiny_free(s->ctx, s->y);
    tiny_free(s->ctx, s->b);
    tiny_free(s->ctx, s->a);
    tiny_free(s->ctx, s->o);
    tiny_free(s->ctx, s->v);
    tiny_free(s->ctx, s->k);
    tiny_free(s->ctx, s->q);
    tiny_free(s->ctx, s->h);
    tiny_free(s->ctx, s->x);
    tiny_free(s->ctx, s);
}

TINY_API tiny_status tllm_stage_net_lend(tiny_ctx *ctx, const tllm_stage_net_desc *d, tiny_net *pool)
{
    tllm_stage_net *s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d || !pool || d->k < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a lender needs the description of the stage, its k and a net");
    s = (tllm_stage_net *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    st = tinyi_stage_plan(ctx, d, s);
    if (!st) {
        s->pad[3] = tinyi_stage_floats(s, tinyi_stage_widest(&s->is));
        st = s->pad[3] ? tinyi_stage_layers(s, 1) : tiny_ctx_status(ctx);
    }
    if (!st)
        st = tllm_pool_lend(ctx, pool, (const void *const *)s->layer, s->n, s->count * sizeof(float),
                            tinyi_stage_print(d->file));
    s->ctx = ctx;
    tllm_stage_net_close(s);
    return st;
}

TINY_API void tllm_stage_net_look(tllm_stage_net *s, tllm_pool_about *about)
{
    tllm_pool_look(s ? s->pool : NULL, about);
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* y = x w' for w (n, m) as in the file */
static tiny_status tinyi_stage_times(tllm_stage_net *s, const float *x, tiny_idx rows, tiny_idx m, const float *w,
                                     tiny_idx n, int act, float *y)
{
    const tiny_tensor a = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, rows, m);
    const tiny_tensor b = tiny_tensor_swap(tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, n, m), 0, 1);
    const tiny_tensor c = tiny_tensor_2d(y, TINY_F32, rows, n);
    return tiny_matmul(s->ctx, &a, &b, NULL, act, &c);
}
static tiny_status tinyi_stage_norm(tllm_stage_net *s, const float *x, tiny_idx rows, const float *g, float *y)
{
    const tiny_tensor a = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, rows, s->is.d);
    const tiny_tensor b = tiny_tensor_1d((void *)(uintptr_t)g, TINY_F32, s->is.d);
    const tiny_tensor c = tiny_tensor_2d(y, TINY_F32, rows, s->is.d);
    return tiny_rmsnorm(s->ctx, &a, &b, s->is.eps, &c);
}
static tiny_status tinyi_stage_both(tllm_stage_net *s, int op, float *x, const float *y, tiny_idx n)
{
    const tiny_tensor a = tiny_tensor_1d(x, TINY_F32, n), b = tiny_tensor_1d((void *)(uintptr_t)y, TINY_F32, n);
    return tinyi_call(s->ctx, op, &a, &b, NULL, &a);
}

/* x += the sum of all parts: own ones are in y, one after the other */
static tiny_status tinyi_stage_sum(tllm_stage_net *s, tiny_idx rows)
{
    const tiny_idx n = rows * s->is.d;
    tiny_status st = TINY_OK;
    int step, p;
    for (step = 1; step < s->own; step *= 2)
        for (p = 0; p + step < s->own && !st; p += 2 * step)
            st = tinyi_stage_both(s, TINY_OP_ADD, s->y + p * n, s->y + (p + step) * n, n);
    if (!st && s->d.tensor > 1) {
        s->coll.until = tiny_now_ns() + UINT64_C(10000000000);
        st = tiny_coll_allreduce(s->ctx, &s->coll, TINY_COMM_DOUBLING, s->y, (size_t)n);
    }
    return st ? st : tinyi_stage_both(s, TINY_OP_ADD, s->x, s->y, n);
}

static tiny_status tinyi_stage_rotate(tllm_stage_net *s, float *x, tiny_idx rows, tiny_idx heads)
{
    const tiny_tensor a = tiny_tensor_3d(x, TINY_F32, rows, heads, s->is.dk);
    const tiny_tensor at = tiny_tensor_1d(s->position, TINY_I32, rows);
    tiny_rope_params p;
    memset(&p, 0, sizeof p);
    p.base = s->is.base;
    p.interleaved = 1;
    return tiny_rope(s->ctx, &a, &at, &p, &a);
}

/* attention of each text by itself; padded: text b is at row b most, and has most rows */
static tiny_status tinyi_stage_attend(tllm_stage_net *s, const tllm_energon_batch *b, int padded, float *q, float *k,
                                      float *v, float *o)
{
    const tiny_idx dk = s->is.dk, nq = s->hq * dk, nkv = s->hkv * dk;
    tiny_attention_params p;
    tiny_idx i, at = 0;
    tiny_status st = TINY_OK;
    memset(&p, 0, sizeof p);
    p.causal = 1;
    for (i = 0; i < b->n && !st; i++) {
        const tiny_idx l = padded ? b->most : b->length[i];
        const tiny_tensor tq = tiny_tensor_3d(q + at * nq, TINY_F32, l, s->hq, dk);
        const tiny_tensor tk = tiny_tensor_3d(k + at * nkv, TINY_F32, l, s->hkv, dk);
        const tiny_tensor tv = tiny_tensor_3d(v + at * nkv, TINY_F32, l, s->hkv, dk);
        const tiny_tensor to = tiny_tensor_3d(o + at * nq, TINY_F32, l, s->hq, dk);
        st = tiny_attention(s->ctx, &tq, &tk, &tv, NULL, &p, &to);
        at += l;
    }
    return st;
}

static tiny_status tinyi_stage_mixed(tllm_stage_net *s, const tllm_energon_batch *b)
{
    const size_t q = (size_t)(s->hq * s->is.dk) * sizeof(float), kv = (size_t)(s->hkv * s->is.dk) * sizeof(float);
    tiny_status st = tllm_rows_rebuild(s->ctx, b->length, b->n, s->q, q, s->pad[0]);
    if (!st) st = tllm_rows_rebuild(s->ctx, b->length, b->n, s->k, kv, s->pad[1]);
    if (!st) st = tllm_rows_rebuild(s->ctx, b->length, b->n, s->v, kv, s->pad[2]);
    if (!st) st = tinyi_stage_attend(s, b, 1, s->pad[0], s->pad[1], s->pad[2], s->pad[4]);
    return st ? st : tllm_rows_remove(s->ctx, b->length, b->n, s->pad[4], q, s->o);
}

static tiny_status tinyi_stage_layer(tllm_stage_net *s, const tllm_energon_batch *b, tiny_idx rows, const float *w)
{
    const tiny_idx d = s->is.d, q = s->hq * s->is.dk, kv = s->hkv * s->is.dk;
    const float *g1 = w, *g2 = w + d, *part = w + 2 * d;
    const size_t of_part = (s->count - 2 * (size_t)d) / (size_t)s->own;
    int p;
    tiny_status st = tinyi_stage_norm(s, s->x, rows, g1, s->h);
    for (p = 0; p < s->own && !st; p++) {
        const float *m = part + (size_t)p * of_part;
        st = tinyi_stage_times(s, s->h, rows, d, m, q, TINY_ACT_NONE, s->q);
        m += q * d;
        if (!st) st = tinyi_stage_times(s, s->h, rows, d, m, kv, TINY_ACT_NONE, s->k);
        m += kv * d;
        if (!st) st = tinyi_stage_times(s, s->h, rows, d, m, kv, TINY_ACT_NONE, s->v);
        m += kv * d;
        if (!st) st = tinyi_stage_rotate(s, s->q, rows, s->hq);
        if (!st) st = tinyi_stage_rotate(s, s->k, rows, s->hkv);
        if (!st)
            st = s->d.form == TLLM_ROWS_MIXED
                     ? tinyi_stage_mixed(s, b)
                     : tinyi_stage_attend(s, b, s->d.form == TLLM_ROWS_PADDED, s->q, s->k, s->v, s->o);
        if (!st) st = tinyi_stage_times(s, s->o, rows, q, m, d, TINY_ACT_NONE, s->y + p * rows * d);
    }
    if (!st) st = tinyi_stage_sum(s, rows);
    if (!st) st = tinyi_stage_norm(s, s->x, rows, g2, s->h);
    for (p = 0; p < s->own && !st; p++) {
        const float *m = part + (size_t)p * of_part + 2 * (q + kv) * d;
        st = tinyi_stage_times(s, s->h, rows, d, m, s->f, TINY_ACT_SILU, s->a);
        m += s->f * d;
        if (!st) st = tinyi_stage_times(s, s->h, rows, d, m, s->f, TINY_ACT_NONE, s->b);
        m += s->f * d;
        if (!st) st = tinyi_stage_both(s, TINY_OP_MUL, s->a, s->b, rows * s->f);
        if (!st) st = tinyi_stage_times(s, s->a, rows, s->f, m, d, TINY_ACT_NONE, s->y + p * rows * d);
    }
    return st ? st : tinyi_stage_sum(s, rows);
}

/* The rows of the batch in x: tokens embedded, or what came from the stage before; and their positions. */
static tiny_status tinyi_stage_begin(tllm_stage_net *s, const tllm_energon_batch *b, const void *in)
{
    const tiny_idx d = s->is.d;
    const int padded = s->d.form == TLLM_ROWS_PADDED;
    tiny_idx i, k, at = 0, row = 0;
    for (i = 0; i < b->n; i++) {
        const tiny_idx l = padded ? b->most : b->length[i];
        for (k = 0; k < l; k++, row++) {
            s->position[row] = (int32_t)k;
            if (k >= b->length[i]) {
                memset(s->x + row * d, 0, (size_t)d * sizeof(float));
                continue;
            }
            if (!s->d.stage) {
                const int32_t token = ((const int32_t *)in)[at];
                if (token < 0 || token >= s->is.vocab)
                    return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "token %d: the vocabulary has %td", (int)token,
                                      s->is.vocab);
                memcpy(s->x + row * d, s->embed + (tiny_idx)token * d, (size_t)d * sizeof(float));
            } else memcpy(s->x + row * d, (const unsigned char *)in + (size_t)(at * d) * sizeof(float),
                          (size_t)d * sizeof(float));
            at++;
        }
    }
    return TINY_OK;
}

/* logits of the last token of each text */
static tiny_status tinyi_stage_end(tllm_stage_net *s, const tllm_energon_batch *b, void *out)
{
    const tiny_idx d = s->is.d;
    tiny_idx i, at = 0;
    tiny_status st;
    for (i = 0; i < b->n; i++) {
        memcpy(s->h + i * d, s->x + (at + b->length[i] - 1) * d, (size_t)d * sizeof(float));
        at += s->d.form == TLLM_ROWS_PADDED ? b->most : b->length[i];
    }
    st = tinyi_stage_norm(s, s->h, b->n, s->norm, s->h);
    return st ? st : tinyi_stage_times(s, s->h, b->n, d, s->output ? s->output : s->embed, s->is.vocab, TINY_ACT_NONE,
                                       (float *)out);
}

TINY_API tiny_status tllm_stage_net_run(void *user, tllm_energon_batch *b, const void *in, void *out)
{
    tllm_stage_net *s = (tllm_stage_net *)user;
    tiny_idx most, valid, rows, j;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!b || !in || !out) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a stage needs a batch, its rows and room");
    st = tllm_rows_count(s->ctx, b->length, b->n, &most, &valid);
    if (st) return st;
    if (most != b->most || valid != b->valid || b->n > s->d.texts || valid > s->d.tokens ||
        (s->d.tensor > 1 && !s->coll.net))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a batch of %td texts and %td rows: this stage takes %td and %td, "
                          "after it has joined its group", b->n, valid, s->d.texts, s->d.tokens);
    rows = s->d.form == TLLM_ROWS_PADDED ? b->n * most : valid;
    st = tinyi_stage_begin(s, b, in);
    for (j = 0; j < s->n && !st; j++) {
        const void *w = s->layer[j];
        if (s->pool) st = tllm_pool_acquire(s->pool, j, &w);
        if (!st) st = tinyi_stage_layer(s, b, rows, (const float *)w);
    }
    if (st) return st;
    if (s->d.stage == s->d.stages - 1) return tinyi_stage_end(s, b, out);
    if (s->d.form == TLLM_ROWS_PADDED)
        return tllm_rows_remove(s->ctx, b->length, b->n, s->x, (size_t)s->is.d * sizeof(float), out);
    memcpy(out, s->x, (size_t)(rows * s->is.d) * sizeof(float));
    return TINY_OK;
}
