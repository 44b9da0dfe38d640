/* src/llm/compress/thin.c - pruning of whole heads and neurons
 *
 * Papers   the criterion is Wanda's of M. Sun et al., 2023 (arXiv 2306.11695), summed over the columns of a unit; the
 *          fit is that of optimal brain surgery with a given set: E. Kurtic, E. Frantar, D. Alistarh, "ZipLM", 2023
 *          (arXiv 2302.04089), eq. 3
 * Formula  an output matrix W (D, n) reads n inputs, those of a head or one of a neuron; H = sum x x^T over the text. A
 *          unit u has the score  sum over its columns c of |W_c|^2 H_cc.  The units with the smallest scores go; S are
 *          the columns that stay:  W'_S = (W H_:S + r W_S) (H_SS + r I)^-1,  r = damp mean(diag):  the minimum of
 *          |W'_S x_S - W x|^2 + r |W'_S - W_S|^2
 * Order    layer by layer: each layer reads what the pruned layers before it give
 * Cost     a pass over the text for each layer; D n k products and k^3 / 3 for k columns that stay, in double
 * Left out shares that differ from layer to layer; whole layers; experts */
#include <stdio.h>
#include <string.h>
#include "core/state_inside.h"
#include "llm/compress/thin.h"
#include "llm/round/reading_inside.h"
#include "llm/round/stream_inside.h"
#include "math/linalg.h"
#include "math/sort.h"

#define TINYI_THIN_MAGIC 0x6e696874u

/* an output matrix */
typedef struct tinyi_thin_out {
    const tllm_gguf_tensor *t;
    tiny_idx n, rows, unit;                 /* inputs, outputs, columns of a unit */
    tiny_idx part, part_kept;               /* units that compete with each other; how many of them stay */
    float *w;                               /* (rows, n): 0 in the columns that go */
    uint32_t *keep;                         /* (units) numbers of those that stay, rising */
    tiny_idx n_keep;
} tinyi_thin_out;

struct tllm_thin {
    uint32_t magic;
    tllm_thin_desc d;
    const tllm_gguf *file;
    tllm_model *m;
    tinyi_thin_out *out;                    /* (2 n_layer): attention and network of each layer */
    size_t n_out;
    tiny_ctx *ctx;
    tinyi_reading read;
    tllm_thin_about about;
};

/* ---- may it be thinned? */

static tiny_status tinyi_thin_layer(tiny_ctx *ctx, const tllm_model *m, const tinyi_lm_layer *l)
{
    static const int known[] = { TINYI_T_ATTN_Q,      TINYI_T_ATTN_K,   TINYI_T_ATTN_V,   TINYI_T_ATTN_OUT,
                                 TINYI_T_ATTN_Q_NORM, TINYI_T_ATTN_K_NORM, TINYI_T_FFN_GATE, TINYI_T_FFN_UP,
                                 TINYI_T_FFN_DOWN };
    const tinyi_lm_layer *first = &m->layer[0];
    const char *why = NULL;
    size_t k;
    int t;
    if (l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX || l->cross || l->kv_from != l->i || !l->ffn || l->moe ||
        !l->w[TINYI_T_ATTN_Q] || !l->w[TINYI_T_ATTN_K] || !l->w[TINYI_T_ATTN_V] || !l->w[TINYI_T_ATTN_OUT] ||
        !l->w[TINYI_T_FFN_UP] || !l->w[TINYI_T_FFN_DOWN])
        why = "is not attention with separate queries, keys and values, and a dense network";
    else if (l->n_head != first->n_head || l->n_kv != first->n_kv || l->n_ff != first->n_ff || l->d_v != first->d_v ||
             l->d_k != first->d_k)
        why = "has other sizes than the first one";
    for (t = 0; t < TINYI_T_COUNT && !why; t++) {
        for (k = 0; k < TINYI_COUNT(known) && known[k] != t; k++) {}
        if (!l->w[t] || l->w[t] == l->norm1 || l->w[t] == l->norm2 || l->w[t] == l->post1 || l->w[t] == l->post2)
            continue;
        if (k == TINYI_COUNT(known)) why = "has tensors whose heads and neurons are not known here";
        else if (l->w[t]->scale) why = "has matrices with a scale of their own";
    }
    /* one vector of gains for all heads would have to be cut too */
    for (k = 4; k < 6 && !why; k++)
        if (l->w[known[k]] && l->w[known[k]]->n_in != l->d_k) why = "has a norm over all heads together";
    return why ? tinyi_fail(ctx, TINY_E_UNSUPPORTED, "thin: %s: layer %td %s", m->path, l->i, why) : TINY_OK;
}

static tiny_status tinyi_thin_check(tiny_ctx *ctx, tllm_thin *t)
{
    const tllm_model *m = t->m;
    const char *why = NULL;
    tiny_idx i;
    tiny_status st = TINY_OK;
    if (*m->prefix || TINYI_LM_SLICED(m)) why = "it is rotated, sliced or stitched";
    else if (m->output != TLLM_LOGITS || m->n_layer < 1 || m->n_once < m->n_layer) why = "it gives no logits, or its "
                                                                                         "layers run more than once";
    else if (m->alibi > 0.0f) why = "its positions depend on the number of a head";
    if (why) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "thin: %s: %s", m->path, why);
    for (i = 0; i < m->n_layer && !st; i++) st = tinyi_thin_layer(ctx, m, &m->layer[i]);
    return st;
}

static tiny_status tinyi_thin_out_open(tiny_ctx *ctx, tinyi_thin_out *o, const tinyi_lm_w *w, tiny_idx unit,
                                       tiny_idx part, tiny_idx part_kept)
{
    const tllm_format *f = tllm_format_of(w->t->type);
    o->t = w->t;
    o->n = w->n_in;
    o->rows = w->n_out;
    o->unit = unit;
    o->part = part;
    o->part_kept = part_kept;
    o->n_keep = o->n / unit / part * part_kept;
    if (o->n_keep < o->n / unit && (!f || !f->pack || tllm_format_bytes(f, (uint64_t)(o->n_keep * unit)) == 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "thin: %.*s: rows of %td numbers would stay, which are not whole blocks of %s",
                          (int)TINYI_MIN(w->t->name.n, (size_t)100), w->t->name.at, o->n_keep * unit,
                          tllm_type_name(w->t->type));
    o->w = (float *)tinyi_alloc(ctx, (size_t)o->rows, (size_t)o->n * sizeof *o->w);
    if (o->w) o->keep = (uint32_t *)tinyi_alloc(ctx, (size_t)(o->n / unit), sizeof *o->keep);
    return o->keep ? TINY_OK : tiny_ctx_status(ctx);
}

TINY_API void tllm_thin_close(tiny_ctx *ctx, tllm_thin *t)
{
    size_t i;
    if (!t || tinyi_ctx_check(ctx)) return;
    for (i = 0; t->out && i < t->n_out; i++) {
        tiny_free(ctx, t->out[i].w);
        tiny_free(ctx, t->out[i].keep);
    }
    tiny_free(ctx, t->out);
    tllm_model_close(ctx, t->m);
    t->magic = 0;
    tiny_free(ctx, t);
}

static tiny_status tinyi_thin_make(tiny_ctx *ctx, tllm_thin *t)
{
    const tinyi_lm_layer *l = &t->m->layer[0];
    const tiny_idx each = l->n_head / l->n_kv, part = each > 1 ? each : l->n_head;
    const tiny_idx heads = part - (tiny_idx)(t->d.heads * (double)part), round = t->d.round ? t->d.round : 32;
    tiny_idx ff = l->n_ff - (tiny_idx)(t->d.neurons * (double)l->n_ff), i;
    tiny_status st = TINY_OK;
    ff = TINYI_MIN(l->n_ff, (ff + round - 1) / round * round);
    t->about.n_head = each > 1 ? heads * l->n_kv : heads;
    t->about.n_kv = each > 1 ? l->n_kv : heads;
    t->about.n_ff = ff;
    t->n_out = 2 * (size_t)t->m->n_layer;
    t->out = (tinyi_thin_out *)tinyi_alloc(ctx, t->n_out, sizeof *t->out);
    if (!t->out) return tiny_ctx_status(ctx);
    memset(t->out, 0, t->n_out * sizeof *t->out);
    for (i = 0; i < t->m->n_layer && !st; i++) {
        l = &t->m->layer[i];
        st = tinyi_thin_out_open(ctx, &t->out[2 * i], l->w[TINYI_T_ATTN_OUT], l->d_v, part, heads);
        if (!st) st = tinyi_thin_out_open(ctx, &t->out[2 * i + 1], l->w[TINYI_T_FFN_DOWN], 1, l->n_ff, ff);
    }
    return st;
}

TINY_API tiny_status tllm_thin_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_thin_desc *desc, tllm_thin **out)
{
    tllm_thin *t;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "thin: the file or the result pointer is NULL");
    t = (tllm_thin *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->magic = TINYI_THIN_MAGIC;
    t->file = file;
    t->ctx = ctx;
    if (desc) t->d = *desc;
    if (t->d.damp == 0.0f) t->d.damp = 0.01f;
    if (!(t->d.heads >= 0.0 && t->d.heads < 1.0 && t->d.neurons >= 0.0 && t->d.neurons < 1.0) || t->d.round < 0 ||
        !(t->d.damp > 0.0f && t->d.damp <= 1000.0f) || t->d.window < 0)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                        "thin: shares of heads and neurons of %g and %g, multiples of %td, damping by %g: shares are 0 "
                        "or more and below 1, nothing is negative",
                        t->d.heads, t->d.neurons, t->d.round, (double)t->d.damp);
    if (!st) st = tllm_model_open(ctx, file, &t->m);
    if (!st) st = tinyi_thin_check(ctx, t);
    if (!st) st = tinyi_thin_make(ctx, t);
    if (st) tllm_thin_close(ctx, t);
    else *out = t;
    return st;
}

TINY_API tllm_thin_about tllm_thin_what(const tllm_thin *t)
{
    tllm_thin_about none;
    memset(&none, 0, sizeof none);
    return t && t->magic == TINYI_THIN_MAGIC ? t->about : none;
}

/* ---- one output matrix */

static double tinyi_thin_h(const tiny_tensor *h, tiny_idx i, tiny_idx k)      /* the upper triangle is there */
{
    const double *x = (const double *)h->data;
    return i <= k ? x[i * h->stride[0] + k * h->stride[1]] : x[k * h->stride[0] + i * h->stride[1]];
}

/* o->keep: of each part the units with the highest scores, of equal ones the last */
static tiny_status tinyi_thin_choose(tiny_ctx *ctx, tinyi_thin_out *o, const tiny_tensor *h)
{
    const tiny_idx units = o->n / o->unit;
    float *score = (float *)tinyi_alloc(ctx, (size_t)units, sizeof *score);
    uint32_t *order = score ? (uint32_t *)tinyi_alloc(ctx, (size_t)o->part, sizeof *order) : NULL;
    unsigned char *stay = order ? (unsigned char *)tinyi_alloc(ctx, (size_t)units, 1) : NULL;
    tiny_idx u, c, r, at;
    tiny_status st = stay ? TINY_OK : tiny_ctx_status(ctx);
    for (u = 0; u < units && !st; u++) {
        double sum = 0.0;
        for (c = u * o->unit; c < (u + 1) * o->unit; c++) {
            double square = 0.0;
            for (r = 0; r < o->rows; r++) square += (double)o->w[r * o->n + c] * (double)o->w[r * o->n + c];
            sum += square * tinyi_thin_h(h, c, c);
        }
        score[u] = (float)sum;
        stay[u] = 0;
    }
    for (u = 0; u < units && !st; u += o->part) {
        st = tiny_argsort_f32(ctx, score + u, order, (size_t)o->part, 0);
        for (c = o->part - o->part_kept; c < o->part && !st; c++) stay[u + (tiny_idx)order[c]] = 1;
    }
    for (u = at = 0; u < units && !st; u++)
        if (stay[u]) o->keep[at++] = (uint32_t)u;
    tiny_free(ctx, stay);
    tiny_free(ctx, order);
    tiny_free(ctx, score);
    return st;
}

/* W'_S^T = (H_SS + damp)^-1 H_S: W^T, into o->w; the other columns become 0 */
static tiny_status tinyi_thin_fit(tiny_ctx *ctx, tinyi_thin_out *o, const tiny_tensor *h, const tllm_thin_desc *d)
{
    const tiny_idx k = o->n_keep * o->unit, n = o->n;
    double *memory, *g, *b, mean = 0.0;
    tiny_tensor tg, tb;
    tiny_idx i, j, r, *col;
    size_t all = 0;
    tiny_status st = TINY_OK;
    if (!tinyi_size_mul((size_t)k, (size_t)(k + o->rows), &all)) return TINY_E_OVERFLOW;
    memory = (double *)tinyi_alloc(ctx, all, sizeof *memory);
    col = memory ? (tiny_idx *)tinyi_alloc(ctx, (size_t)k, sizeof *col) : NULL;
    if (!col) {
        tiny_free(ctx, memory);
        return tiny_ctx_status(ctx);
    }
    g = memory;
    b = memory + k * k;
    for (i = 0; i < k; i++) col[i] = (tiny_idx)o->keep[i / o->unit] * o->unit + i % o->unit;
    for (i = 0; i < n; i++) mean += tinyi_thin_h(h, i, i) / (double)n;
    if (mean <= 0.0) mean = 1.0;            /* no input was ever other than 0: the matrix is cut */
    for (i = 0; i < k; i++)
        for (j = 0; j < k; j++)
            g[i * k + j] = tinyi_thin_h(h, col[i], col[j]) + (i == j ? (double)d->damp * mean : 0.0);
    for (i = 0; i < k; i++)
        for (r = 0; r < o->rows; r++) {
            double sum = (double)d->damp * mean * (double)o->w[r * n + col[i]];
            for (j = 0; j < n; j++) sum += tinyi_thin_h(h, col[i], j) * (double)o->w[r * n + j];
            b[i * o->rows + r] = sum;
        }
    tg = tiny_tensor_2d(g, TINY_F64, k, k);
    tb = tiny_tensor_2d(b, TINY_F64, k, o->rows);
    if (!d->plain) st = tiny_cholesky(ctx, &tg, &tg);
    if (!d->plain && !st) st = tiny_cholesky_solve(ctx, &tg, &tb, &tb);
    for (r = 0; r < o->rows && !st; r++) {
        for (i = j = 0; j < n; j++) {
            const int stays = i < k && col[i] == j;
            if (stays && !d->plain) o->w[r * n + j] = (float)b[i * o->rows + r];
            if (!stays) o->w[r * n + j] = 0.0f;
            i += stays;
        }
    }
    tiny_free(ctx, col);
    tiny_free(ctx, memory);
    return st;
}

/* |(W' - W) x|^2 / |W x|^2 over the text */
static double tinyi_thin_lost(const tinyi_thin_out *o, const float *was, const tiny_tensor *h)
{
    double lost = 0.0, all = 0.0;
    tiny_idx r, i, j;
    for (r = 0; r < o->rows; r++)
        for (i = 0; i < o->n; i++) {
            double a = 0.0, b = 0.0;
            for (j = 0; j < o->n; j++) {
                const double v = tinyi_thin_h(h, i, j), w = (double)was[r * o->n + j];
                a += v * ((double)o->w[r * o->n + j] - w);
                b += v * w;
            }
            lost += a * ((double)o->w[r * o->n + i] - (double)was[r * o->n + i]);
            all += b * (double)was[r * o->n + i];
        }
    return all > 0.0 ? lost / all : 0.0;
}

static tiny_status tinyi_thin_one(void *user, size_t k)
{
    tllm_thin *t = (tllm_thin *)user;
    tinyi_thin_out *o = &t->out[k];
    const tllm_calib *c = tllm_watch_of(t->read.watch, o->t, 0);
    const tiny_idx all = o->rows * o->n;
    tiny_tensor h;
    float *was;
    tiny_status st;
    if (!c)
        return tinyi_fail(t->ctx, TINY_E_UNSUPPORTED, "thin: %.*s was not used by a product over the text",
                          (int)TINYI_MIN(o->t->name.n, (size_t)100), o->t->name.at);
    h = tllm_calib_products(c);
    st = tinyi_thin_choose(t->ctx, o, &h);
    if (st || o->n_keep == o->n / o->unit) return st;           /* nothing goes: the file's own bytes stay */
    was = (float *)tinyi_alloc(t->ctx, (size_t)all, sizeof *was);
    if (!was) return tiny_ctx_status(t->ctx);
    memcpy(was, o->w, (size_t)all * sizeof *was);
    st = tinyi_thin_fit(t->ctx, o, &h, &t->d);
    if (!st) t->about.lost += tinyi_thin_lost(o, was, &h) / (double)t->n_out;
    tiny_free(t->ctx, was);
    return st ? st : tllm_watch_replace(t->read.watch, o->t, TLLM_FORMAT_F32, o->w);
}

/* ---- the file */

/* What tensor g loses: o NULL: nothing; else columns (its own output matrix) or rows of unit outputs for each unit. */
typedef struct tinyi_thin_cut { const tinyi_thin_out *o; int columns; tiny_idx unit; } tinyi_thin_cut;

static tinyi_thin_cut tinyi_thin_cut_of(const tllm_thin *t, const tllm_gguf_tensor *g)
{
    tinyi_thin_cut c;
    tiny_idx i;
    int k;
    memset(&c, 0, sizeof c);
    for (i = 0; i < t->m->n_layer; i++) {
        static const int rows[5] = { TINYI_T_ATTN_Q, TINYI_T_ATTN_K, TINYI_T_ATTN_V, TINYI_T_FFN_GATE, TINYI_T_FFN_UP };
        const tinyi_lm_layer *l = &t->m->layer[i];
        const int own_keys = l->n_head == l->n_kv;
        for (k = 0; k < 2; k++)
            if (t->out[2 * i + k].t == g) {
                c.o = &t->out[2 * i + k];
                c.columns = 1;
            }
        for (k = 0; k < 5; k++) {
            const tinyi_lm_w *w = l->w[rows[k]];
            if (!w || (w->t != g && !(w->bias && tinyi_fold_bias(t->file, w->t) == g))) continue;
            if ((k == 1 || k == 2) && !own_keys) continue;
            c.o = &t->out[2 * i + (k > 2)];
            c.unit = k > 2 ? 1 : k == 2 ? l->d_v : l->d_k;
        }
    }
    if (c.o && c.o->n_keep == c.o->n / c.o->unit) c.o = NULL;
    return c;
}

static void tinyi_thin_dims(const tllm_gguf_tensor *g, const tinyi_thin_cut *c, uint64_t dim[TLLM_MAX_RANK])
{
    memcpy(dim, g->dim, sizeof g->dim);
    if (!c->o) return;
    if (c->columns) dim[0] = (uint64_t)(c->o->n_keep * c->o->unit);
    else dim[g->rank > 1 ? 1 : 0] = (uint64_t)(c->o->n_keep * c->unit);
}

static tiny_status tinyi_thin_data(tiny_ctx *ctx, const tllm_gguf_tensor *g, const tinyi_thin_cut *c, tllm_writer *w)
{
    const tinyi_thin_out *o = c->o;
    const tllm_format *f = tllm_format_of(g->type);
    const size_t units = o ? (size_t)(o->n / o->unit) : 1;
    tiny_idx r, i;
    tiny_status st = TINY_OK;
    if (!o) return tllm_writer_data(ctx, w, g->data, g->bytes);
    if (!c->columns) {                      /* rows of a unit lie side by side, and so do numbers of a bias */
        const size_t each = g->bytes / units;
        for (i = 0; i < o->n_keep && !st; i++) st = tllm_writer_data(ctx, w, g->data + o->keep[i] * each, each);
        return st;
    }
    {
        const tiny_idx k = o->n_keep * o->unit;
        const size_t bytes = tllm_format_bytes(f, (uint64_t)k);
        float *row = (float *)tinyi_alloc(ctx, (size_t)k, sizeof *row);
        void *packed = row ? tinyi_alloc(ctx, bytes, 1) : NULL;
        if (!packed) st = tiny_ctx_status(ctx);
        for (r = 0; r < o->rows && !st; r++) {
            for (i = 0; i < k; i++)
                row[i] = o->w[r * o->n + (tiny_idx)o->keep[i / o->unit] * o->unit + i % o->unit];
            f->pack(row, packed, (size_t)k, NULL);
            st = tllm_writer_data(ctx, w, packed, bytes);
        }
        tiny_free(ctx, packed);
        tiny_free(ctx, row);
    }
    return st;
}

static tiny_status tinyi_thin_write(tiny_ctx *ctx, tllm_thin *t, tllm_writer *w)
{
    static const char *const name[6] = { "attention.head_count",   "attention.head_count_kv", "feed_forward_length",
                                         "attention.key_length",   "attention.value_length",  "rope.dimension_count" };
    const tinyi_lm_layer *l = &t->m->layer[0];
    const char *arch = TINYI_LM_ARCH(t->m)->name;
    uint64_t dim[TLLM_MAX_RANK];
    tiny_idx value[6];
    char key[160];
    size_t i;
    int k;
    tiny_status st = tinyi_stream_keys(ctx, t->file, "", w);
    value[0] = t->about.n_head;
    value[1] = t->about.n_kv;
    value[2] = t->about.n_ff;
    value[3] = l->d_k;
    value[4] = l->d_v;
    value[5] = t->m->rope[0].n_rot;
    for (k = 0; k < 6 && !st; k++) {
        (void)snprintf(key, sizeof key, "%s.%s", arch, name[k]);
        if (k < 5 || value[5] > 0) st = tllm_writer_put_u32(ctx, w, key, (uint32_t)value[k]);
    }
    t->about.params = t->about.params_before = 0.0;
    t->about.bytes = t->about.bytes_before = 0;
    for (i = 0; i < tllm_gguf_n_tensors(t->file) && !st; i++) {
        const tllm_gguf_tensor *g = tllm_gguf_tensor_at(t->file, i);
        const tinyi_thin_cut c = tinyi_thin_cut_of(t, g);
        double before = 1.0, after = 1.0;
        tinyi_thin_dims(g, &c, dim);
        for (k = 0; k < g->rank; k++) {
            before *= (double)g->dim[k];
            after *= (double)dim[k];
        }
        t->about.params_before += before;
        t->about.params += after;
        t->about.bytes_before += g->bytes;
        t->about.bytes += (uint64_t)((double)g->bytes * (after / before) + 0.5);
        st = tllm_writer_put_tensor(ctx, w, g->name, g->type, g->rank, dim, NULL);
    }
    for (i = 0; i < tllm_gguf_n_tensors(t->file) && !st; i++) {
        const tllm_gguf_tensor *g = tllm_gguf_tensor_at(t->file, i);
        const tinyi_thin_cut c = tinyi_thin_cut_of(t, g);
        st = tinyi_thin_data(ctx, g, &c, w);
    }
    return st;
}

TINY_API tiny_status tllm_thin_put(tiny_ctx *ctx, tllm_thin *t, const int32_t *token, tiny_idx n, tllm_writer *w)
{
    const tllm_gguf_tensor **list;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!t || t->magic != TINYI_THIN_MAGIC || !token || n < 1 || !w || t->about.tokens)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "thin: an open model that was not written yet, a writer and at least one token are needed");
    memset(&t->read, 0, sizeof t->read);
    t->read.what = "thin";
    t->read.ctx = ctx;
    t->read.token = token;
    t->read.n_token = n;
    t->read.window = t->d.window;
    list = (const tllm_gguf_tensor **)tinyi_alloc(ctx, t->n_out, sizeof *list);
    if (!list) return tiny_ctx_status(ctx);
    for (i = 0; i < t->n_out; i++) {
        list[i] = t->out[i].t;
        tllm_format_of(list[i]->type)->unpack(list[i]->data, t->out[i].w, (size_t)(t->out[i].rows * t->out[i].n));
    }
    t->about.tokens = n;
    st = tinyi_reading_open(&t->read, t->file);
    if (!st) st = tinyi_reading_passes(&t->read, list, sizeof *list, t->n_out, 0, 1, tinyi_thin_one, t);
    tinyi_reading_close(&t->read);
    if (!st) st = tinyi_thin_write(ctx, t, w);
    tiny_free(ctx, (void *)(uintptr_t)list);
    return st;
}
