/* src/llm/dist/cut.c - a rank's part of a model: rows and columns of the matrices in the file
 * Method   M. Shoeybi et al., "Megatron-LM", 2019 (arXiv 1909.08053), 3: the rows of W_q, W_k, W_v, gate and up for the
 *          rank's heads and neurons, and the matching columns of W_o and down. Each half of a layer needs one sum over
 *          ranks, at its end.
 * Shares   Z. Li et al., "TPI-LLM", 2024 (arXiv 2410.00531), 3: rank i gets floor(p_i n) of the n key heads, with their
 *          query heads, and of the neurons, p_i its share of 1. What is left goes to the last ranks, one unit to each.
 *          A unit is as many key heads or neurons as make whole blocks of the columns that go with them. The paper's
 *          program refuses a rank whose part is empty; here it gets one unit of the largest part, if there is one.
 * Views    rows are contiguous; columns are the same part of each row, which must be whole blocks. Rank 0 alone adds a
 *          bias after the sum. Fused matrices (q, k, v; gate and up) become views of their parts.
 * Everything is checked before anything is changed. */
#include "llm/model/model_inside.h"
#include "core/hops_inside.h"
#include <string.h>

typedef struct tinyi_lm_view { tinyi_lm_w w; tllm_gguf_tensor t; } tinyi_lm_view;
#define TINYI_LM_VIEWS 9                    /* of a layer: q, k, v, their gate, out, sinks, gate, up, down */

typedef struct tinyi_lm_cut {
    tiny_ctx *ctx;
    tllm_model *m;
    tinyi_lm_view *next;
    int rank, world;
    int even;                               /* equal parts, or a failure */
    const double *share;                    /* (world); NULL: equal as far as possible */
    int uneven;                             /* some part differs from another one */
    tinyi_hash print;                       /* of all parts */
    tiny_idx kv_at, kv, ff_at, ff;          /* the rank's part of the layer that is looked at */
} tinyi_lm_cut;

/* part (world) of n units */
static void tinyi_lm_parts(const tinyi_lm_cut *c, tiny_idx n, tiny_idx *part)
{
    double sum = 0.0;
    int r;
    for (r = 0; r < c->world && c->share; r++) sum += c->share[r];
    tinyi_hop_shares(n, c->world, c->share, sum, part, 1);
    for (r = 0; r < c->world && n >= c->world; r++) {   /* the largest part gives to one that is empty */
        int i, most = 0;
        for (i = 1; i < c->world; i++) if (part[i] > part[most]) most = i;
        if (part[r]) continue;
        part[most]--;
        part[r] = 1;
    }
}

/* the rank's part of n, in whole units */
static tiny_status tinyi_lm_cut_part(tinyi_lm_cut *c, const tinyi_lm_layer *l, const char *what, tiny_idx n,
                                     tiny_idx unit, tiny_idx *at, tiny_idx *size)
{
    tiny_idx part[TINY_NET_RANKS];
    int r;
    tinyi_lm_parts(c, n / unit, part);
    *at = 0;
    for (r = 0; r < c->world; r++) {
        if (!part[r])
            return tinyi_fail(c->ctx, TINY_E_SHAPE,
                              "%s: layer %td: rank %d of %d would get none of the %td %s, which are given out %td at a "
                              "time: use fewer ranks or other shares", c->m->path, l->i, r, c->world, n, what, unit);
        if (part[r] != part[0]) c->uneven = 1;
        if (r < c->rank) *at += part[r] * unit;
        tinyi_lm_hash_u64(&c->print, (uint64_t)(part[r] * unit));
    }
    *size = part[c->rank] * unit;
    return TINY_OK;
}

/* how many numbers of n_each columns make whole blocks of w */
static tiny_idx tinyi_lm_cut_unit(const tinyi_lm_w *w, tiny_idx n_each)
{
    tiny_idx a = w->format->values, b = n_each;
    while (b) {
        const tiny_idx t = a % b;
        a = b;
        b = t;
    }
    return w->format->values / a;
}

static tiny_status tinyi_lm_cut_not(const tinyi_lm_cut *c, const tinyi_lm_layer *l, const char *what)
{
    return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED, "%s: layer %td has %s, which cannot be cut over ranks", c->m->path,
                      l->i, what);
}

static tiny_status tinyi_lm_cut_columns(const tinyi_lm_cut *c, const tinyi_lm_layer *l, int t, const char *name)
{
    const tinyi_lm_w *w = l->w[t];
    const tiny_idx n = w->n_in / c->world;
    if (w->turned) return tinyi_lm_cut_not(c, l, "a network that is also stored by columns");
    if (c->even && n % w->format->values)
        return tinyi_fail(c->ctx, TINY_E_UNSUPPORTED,
                          "%s: layer %td: %s cannot be cut into %d parts of %td columns: %s has blocks of %d",
                          c->m->path, l->i, name, c->world, n, w->format->name, (int)w->format->values);
    return TINY_OK;
}

/* the parts of a layer, which is whole */
static tiny_status tinyi_lm_cut_parts(tinyi_lm_cut *c, const tinyi_lm_layer *l)
{
    const tinyi_lm_w *out = l->w[TINYI_T_ATTN_OUT], *down = l->w[TINYI_T_FFN_DOWN];
    const tiny_idx unit = c->even ? 1 : tinyi_lm_cut_unit(out, out->n_in / l->n_kv);
    tiny_status st = tinyi_lm_cut_part(c, l, "key heads", l->n_kv, unit, &c->kv_at, &c->kv);
    if (st) return st;
    return tinyi_lm_cut_part(c, l, "columns of the network", l->n_ff, c->even ? 1 : tinyi_lm_cut_unit(down, 1),
                             &c->ff_at, &c->ff);
}

static tiny_status tinyi_lm_cut_check(tinyi_lm_cut *c, const tinyi_lm_layer *l)
{
    const tllm_model *m = c->m;
    tiny_status st;
    if (l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX)
        return tinyi_lm_cut_not(c, l, "a mixer other than attention");
    if (m->encoder || !tinyi_lm_can_ladder(m, l))
        return tinyi_lm_cut_not(c, l, "an order other than norm, attention, norm, network");
    if (l->moe || !l->ffn || l->i < m->n_sparse) return tinyi_lm_cut_not(c, l, "no dense network");
    if (l->w[TINYI_T_ATTN_SUB_NORM] || l->w[TINYI_T_FFN_SUB_NORM] ||
        (l->w[TINYI_T_ATTN_Q_NORM] && l->w[TINYI_T_ATTN_Q_NORM]->n_in != l->d_k) ||
        (l->w[TINYI_T_ATTN_K_NORM] && l->w[TINYI_T_ATTN_K_NORM]->n_in != l->d_k))
        return tinyi_lm_cut_not(c, l, "a norm over several heads or the whole network");
    if (l->w[TINYI_T_INDEX_BLOCK_Q]) return tinyi_lm_cut_not(c, l, "an indexer");
    if (m->alibi > 0.0f || l->w[TINYI_T_ATTN_REL_B])
        return tinyi_lm_cut_not(c, l, "a bias for each head");
    if (c->even && (l->n_kv % c->world || l->n_head % c->world))
        return tinyi_fail(c->ctx, TINY_E_SHAPE,
                          "%s: layer %td: %td heads and %td key heads cannot be divided by %d ranks", m->path, l->i,
                          l->n_head, l->n_kv, c->world);
    if (c->even && l->n_ff % c->world)
        return tinyi_fail(c->ctx, TINY_E_SHAPE, "%s: layer %td: a network of %td cannot be divided by %d ranks",
                          m->path, l->i, l->n_ff, c->world);
    st = tinyi_lm_cut_columns(c, l, TINYI_T_ATTN_OUT, "attn_output");
    if (!st) st = tinyi_lm_cut_columns(c, l, TINYI_T_FFN_DOWN, "ffn_down");
    if (!st && l->kv_from != l->i) {        /* it reads the keys of another layer */
        tiny_idx kv_at, kv;
        st = tinyi_lm_cut_parts(c, &m->layer[l->kv_from]);
        kv_at = c->kv_at;
        kv = c->kv;
        if (!st) st = tinyi_lm_cut_parts(c, l);
        if (!st && (kv_at != c->kv_at || kv != c->kv))
            return tinyi_lm_cut_not(c, l, "keys of a layer whose heads are given out in other units");
        return st;
    }
    return st ? st : tinyi_lm_cut_parts(c, l);
}

static tinyi_lm_w *tinyi_lm_view_of(tinyi_lm_cut *c, tinyi_lm_layer *l, int t, const tinyi_lm_w *from, size_t offset)
{
    tinyi_lm_view *v = c->next++;
    v->w = *from;
    v->t = *from->t;
    v->t.data = from->t->data + offset;
    v->w.t = &v->t;
    l->w[t] = &v->w;
    return &v->w;
}
/* of n rows from row0 on, which belong to `of` heads or neurons, those of `size` from `at` on */
static void tinyi_lm_cut_rows(tinyi_lm_cut *c, tinyi_lm_layer *l, int t, const tinyi_lm_w *from, tiny_idx row0,
                              tiny_idx n, tiny_idx of, tiny_idx at, tiny_idx size)
{
    tinyi_lm_w *w;
    if (!from) return;
    row0 += n / of * at;
    w = tinyi_lm_view_of(c, l, t, from, (size_t)row0 * from->row_step);
    w->n_out = n / of * size;
    if (from->bias) w->bias = from->bias + row0;
}
static void tinyi_lm_cut_heads(tinyi_lm_cut *c, tinyi_lm_layer *l, int t, const tinyi_lm_w *from, tiny_idx row0,
                               tiny_idx n)
{
    tinyi_lm_cut_rows(c, l, t, from, row0, n, l->n_kv, c->kv_at, c->kv);
}
static void tinyi_lm_cut_neurons(tinyi_lm_cut *c, tinyi_lm_layer *l, int t, const tinyi_lm_w *from, tiny_idx row0)
{
    tinyi_lm_cut_rows(c, l, t, from, row0, l->n_ff, l->n_ff, c->ff_at, c->ff);
}
static void tinyi_lm_cut_in(tinyi_lm_cut *c, tinyi_lm_layer *l, int t, tiny_idx of, tiny_idx at, tiny_idx size)
{
    const tinyi_lm_w *from = l->w[t];
    const tiny_idx each = from->n_in / of;
    tinyi_lm_w *w = tinyi_lm_view_of(c, l, t, from, tllm_format_bytes(from->format, (uint64_t)(each * at)));
    w->n_in = each * size;
    w->row_bytes = tllm_format_bytes(from->format, (uint64_t)(each * size));
    if (c->rank) w->bias = NULL;
}

static void tinyi_lm_cut_layer(tinyi_lm_cut *c, tinyi_lm_layer *l)
{
    const tinyi_lm_w *all = l->w[TINYI_T_ATTN_QKV], *up = l->w[TINYI_T_FFN_UP];
    const tiny_idx group = l->n_head / l->n_kv, q = l->n_head * l->d_k, k = l->n_kv * l->d_k, v = l->n_kv * l->d_v;
    (void)tinyi_lm_cut_parts(c, l);         /* they were checked */
    if (all) {
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_Q, all, 0, q);
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_K, all, q, k);
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_V, all, q + k, v);
        l->w[TINYI_T_ATTN_QKV] = NULL;
    } else {
        /* with gates twice as many */
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_Q, l->w[TINYI_T_ATTN_Q], 0, l->w[TINYI_T_ATTN_Q]->n_out);
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_K, l->w[TINYI_T_ATTN_K], 0, k);
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_V, l->w[TINYI_T_ATTN_V], 0, v);
    }
    if (l->w[TINYI_T_ATTN_GATE])
        tinyi_lm_cut_heads(c, l, TINYI_T_ATTN_GATE, l->w[TINYI_T_ATTN_GATE], 0, l->w[TINYI_T_ATTN_GATE]->n_out);
    tinyi_lm_cut_in(c, l, TINYI_T_ATTN_OUT, l->n_kv, c->kv_at, c->kv);
    if (l->w[TINYI_T_ATTN_SINKS]) {
        tinyi_lm_w *w = tinyi_lm_view_of(c, l, TINYI_T_ATTN_SINKS, l->w[TINYI_T_ATTN_SINKS], 0);
        w->v += group * c->kv_at;
    }
    if (up->n_out == 2 * l->n_ff) {
        tinyi_lm_cut_neurons(c, l, TINYI_T_FFN_GATE, up, 0);
        tinyi_lm_cut_neurons(c, l, TINYI_T_FFN_UP, up, l->n_ff);
    } else {
        tinyi_lm_cut_neurons(c, l, TINYI_T_FFN_GATE, l->w[TINYI_T_FFN_GATE], 0);
        tinyi_lm_cut_neurons(c, l, TINYI_T_FFN_UP, up, 0);
    }
    tinyi_lm_cut_in(c, l, TINYI_T_FFN_DOWN, l->n_ff, c->ff_at, c->ff);
    l->n_head = group * c->kv;
    l->n_kv = c->kv;
    l->n_ff = c->ff;
}

static tiny_status tinyi_lm_cut_model(tiny_ctx *ctx, tllm_model *m, int rank, int world, int even,
                                      const double *share)
{
    tinyi_lm_cut c;
    tinyi_lm_load ld;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_model_cut: the model is NULL");
    if (!TINYI_HAS(RANKS) && world > 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: models over several ranks are not compiled into this program",
                          m->path);
    if (world < 1 || world > TINY_NET_RANKS || rank < 0 || rank >= world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: rank %d of %d: ranks are numbered from 0, and there are at most %d", m->path,
                          rank, world, TINY_NET_RANKS);
    for (i = 0; share && i < world; i++)
        if (!(share[i] > 0.0 && share[i] <= 1e12))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the share of rank %td is %g: it must be above 0 and at most "
                              "1e12", m->path, i, share[i]);
    if (m->world > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the model is cut already, for rank %d of %d", m->path, m->rank,
                          m->world);
    if (world == 1) return TINY_OK;
    if (m->eights)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: the model is repacked: cut it before that", m->path);
    if (TINYI_LM_DISK(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model that stays on disk is cut when it is opened", m->path);
    if (TINYI_LM_ROTATED(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: a model with rotations while it runs cannot be cut: they mix the shares of all ranks",
                          m->path);
    if (TINYI_LM_SLICED(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: a sliced model cannot be cut: the sums over ranks have one width", m->path);
    if (m->n_merged)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model with merged adapters cannot be cut", m->path);
    if (m->n_enc || !m->n_layer)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: models with an encoder cannot be cut over ranks", m->path);
    memset(&c, 0, sizeof c);
    c.ctx = ctx;
    c.m = m;
    c.rank = rank;
    c.world = world;
    c.even = even;
    c.share = share;
    tinyi_hash_start(&c.print);
    for (i = 0; i < m->n_layer && !st; i++) st = tinyi_lm_cut_check(&c, &m->layer[i]);
    if (st) return st;
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = m->file;
    ld.m = m;
    c.next = (tinyi_lm_view *)tinyi_lm_keep(&ld, (size_t)m->n_once * TINYI_LM_VIEWS, sizeof *c.next);
    if (!c.next) return ld.st;
    for (i = 0; i < m->n_once; i++) tinyi_lm_cut_layer(&c, &m->layer[i]);
    for (; i < m->n_layer; i++) tinyi_lm_layer_again(m->layer, i, m->n_once);
    m->rank = rank;
    m->world = world;
    m->shares = c.uneven ? tinyi_hash_value(&c.print) : 0;
    return TINY_OK;
}

TINY_API tiny_status tllm_model_cut(tiny_ctx *ctx, tllm_model *m, int rank, int world)
{
    return tinyi_lm_cut_model(ctx, m, rank, world, 1, NULL);
}
TINY_API tiny_status tllm_model_cut_by(tiny_ctx *ctx, tllm_model *m, int rank, int world, const double *share)
{
    return tinyi_lm_cut_model(ctx, m, rank, world, 0, share);
}

TINY_API tiny_status tllm_model_cut_copy(tiny_ctx *ctx, tllm_model *m, size_t *bytes)
{
    static const int cut[2] = { TINYI_T_ATTN_OUT, TINYI_T_FFN_DOWN };
    tinyi_lm_load ld;
    size_t copied = 0;
    tiny_idx i, r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (bytes) *bytes = 0;
    if (!m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_model_cut_copy: the model is NULL");
    if (TINYI_LM_DISK(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: the columns of a model that stays on disk cannot be copied",
                          m->path);
    if (!TINYI_HAS(RANKS) || m->world < 2 || m->eights) return TINY_OK;
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = m->file;
    ld.m = m;
    for (i = 0; i < 2 * m->n_once; i++) {
        /* of a cut model both are views */
        tinyi_lm_view *v = (tinyi_lm_view *)(uintptr_t)m->layer[i / 2].w[cut[i % 2]];
        tinyi_lm_w *w = v ? &v->w : NULL;
        unsigned char *to;
        if (!w || w->row_step <= w->row_bytes) continue;
        to = (unsigned char *)tinyi_lm_keep(&ld, (size_t)(w->n_mat * w->n_out), w->row_bytes);
        if (!to) return ld.st;
        for (r = 0; r < w->n_mat * w->n_out; r++)
            memcpy(to + (size_t)r * w->row_bytes, w->t->data + (size_t)r * w->row_step, w->row_bytes);
        v->t.data = to;
        w->row_step = w->row_bytes;
        copied += (size_t)(w->n_mat * w->n_out) * w->row_bytes;
    }
    if (bytes) *bytes = copied;
    return TINY_OK;
}

TINY_API tiny_status tllm_model_routes(tiny_ctx *ctx, tllm_model *m, const unsigned char *route, tiny_idx n)
{
    tiny_idx i;
    int parted = 0, some = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!m || !route)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_model_routes: the model or the routes are NULL");
    if (!TINYI_HAS(RANKS))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: routes of ladder layers are not compiled into this program",
                          m->path);
    if (n != 2 * m->n_layer)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %td routes for the two halves of %td layers", m->path, n,
                          m->n_layer);
    for (i = 0; i < n; i++) {
        const tinyi_lm_layer *l = &m->layer[i / 2];
        const int apart = route[i] == TLLM_ROUTE_LOCAL || route[i] == TLLM_ROUTE_JOIN;
        if (route[i] >= TLLM_ROUTES)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: route %d of layer %td: the limits are 0 and %d", m->path,
                              route[i], l->i, TLLM_ROUTES - 1);
        if (route[i] && (m->n_enc || m->n_once < m->n_layer || !tinyi_lm_can_ladder(m, l)))
            return tinyi_fail(
                ctx, TINY_E_UNSUPPORTED,
                "%s: layer %td does not have the order norm, attention, norm, network: its only route is standard",
                m->path, l->i);
        if (apart && ((i % 2 ? l->post2 : l->post1) || m->residual_scale != 1.0f))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "%s: layer %td changes the sum before it is added: it cannot be local or join", m->path,
                              l->i);
        if (parted && !apart)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: layer %td follows a local layer: a join is needed first", m->path, l->i);
        parted = route[i] == TLLM_ROUTE_JOIN ? 0 : parted | (route[i] == TLLM_ROUTE_LOCAL);
        some |= route[i];
    }
    if (parted)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: the last halves are local: without a join the ranks have different results",
                          m->path);
    for (i = 0; i < n; i++) m->layer[i / 2].route[i % 2] = route[i];
    m->routes = some != 0;
    return TINY_OK;
}
