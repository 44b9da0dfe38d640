/* src/llm/session/stitched.c - views of the networks in a stitched file, and the session that switches between them
 *
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586)
 * Formula  stitch (f, e): embedding and layers 0 .. f of the front; x <- W x + c; layers e .. of the back, its last
 *          norm and its logits. In the view these are layers 0 .. f, f + 1 .. ; tensors blk.(f + 1).stitch are W and c
 * Data     the tables of the view are its own: keys that differ, names of layers that move. Tensor data is that of the
 *          file
 * Cost     a switch: tables of the view, a state, and a pass over the tokens of the session */
#include "llm/session/stitched.h"
#include "llm/session/session_inside.h"
#include "llm/file/store_inside.h"
#include "llm/model/model_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_STITCHED_FRONT "front."

/* the numbers of both models, from the keys of a stitched file */
typedef struct tinyi_stitched_side { int64_t width, layers, ff, heads, kv; } tinyi_stitched_side;
typedef struct tinyi_stitched {
    const tllm_gguf *file;
    char arch[80];                          /* "stitched-NAME" */
    tinyi_stitched_side side[2];
    int64_t key, value, context;            /* numbers of a head; tokens */
    size_t n;
} tinyi_stitched;

static int tinyi_stitched_number(const tinyi_stitched *s, const char *key, int64_t least, int64_t *v)
{
    char full[160];
    const tllm_meta *m;
    (void)snprintf(full, sizeof full, "%s.%s", s->arch, key);
    m = tllm_gguf_find(s->file, full);
    return m && m->type != TLLM_ARRAY && tllm_meta_i64(m, 0, v) && *v >= least && *v <= INT32_MAX;
}

/* the key that is missing or no count; NULL: none. No name: it is no stitched file. */
static const char *tinyi_stitched_read(const tllm_gguf *file, tinyi_stitched *s)
{
    static const char *const key[2][5] = {
        { "stitch.embedding_length", "stitch.block_count", "stitch.feed_forward_length", "stitch.attention.head_count",
          "stitch.attention.head_count_kv" },
        { "embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv" }
    };
    tllm_text name;
    int i, k;
    memset(s, 0, sizeof *s);
    s->file = file;
    if (!file || !tllm_meta_text(tllm_gguf_find(file, "general.architecture"), 0, &name) ||
        name.n <= sizeof TINYI_STITCHED_PREFIX - 1 || name.n >= sizeof s->arch ||
        memcmp(name.at, TINYI_STITCHED_PREFIX, sizeof TINYI_STITCHED_PREFIX - 1))
        return "general.architecture";
    memcpy(s->arch, name.at, name.n);
    for (i = 0; i < 2; i++) {
        int64_t *to[5];
        to[0] = &s->side[i].width;
        to[1] = &s->side[i].layers;
        to[2] = &s->side[i].ff;
        to[3] = &s->side[i].heads;
        to[4] = &s->side[i].kv;
        for (k = 0; k < 5; k++)
            if (!tinyi_stitched_number(s, key[i][k], 1, to[k])) return key[i][k];
        if (s->side[i].layers > TLLM_STITCH_BLOCKS) return key[i][1];
    }
    if (!tinyi_stitched_number(s, "attention.key_length", 1, &s->key)) return "attention.key_length";
    if (!tinyi_stitched_number(s, "attention.value_length", 1, &s->value)) return "attention.value_length";
    if (!tllm_stitch_layers((int)s->side[0].layers, (int)s->side[1].layers)) return "block_count";
    return NULL;
}

static tiny_status tinyi_stitched_plan(tiny_ctx *ctx, const tinyi_stitched *s, tllm_stitch *out, size_t room)
{
    int depth[2];
    size_t n;
    depth[0] = (int)s->side[0].layers;
    depth[1] = (int)s->side[1].layers;
    return tllm_stitch_plan(ctx, depth, 2, out, room, &n);
}

TINY_API size_t tllm_stitched_count(const tllm_gguf *file)
{
    tinyi_stitched s;
    int64_t a, b;
    if (!file || tinyi_stitched_read(file, &s)) return 0;
    a = s.side[0].layers;
    b = s.side[1].layers;
    return (size_t)(a == b ? 3 * a : b + 1);
}

static tiny_status tinyi_stitched_find(tiny_ctx *ctx, const tllm_gguf *file, size_t k, tinyi_stitched *s,
                                       tllm_stitch *out)
{
    const char *missing;
    tllm_stitch *plan;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!file) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitched: the file is NULL");
    missing = tinyi_stitched_read(file, s);
    if (missing && !*s->arch)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: it is no file of stitched models: `join` makes one of two",
                          tllm_gguf_path(file, 0) ? tllm_gguf_path(file, 0) : "model");
    if (missing)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s.%s is missing or no number that stitches can have",
                          tllm_gguf_path(file, 0), s->arch, missing);
    s->n = tllm_stitched_count(file);
    plan = (tllm_stitch *)tinyi_alloc(ctx, s->n, sizeof *plan);
    if (!plan) return tiny_ctx_status(ctx);
    st = tinyi_stitched_plan(ctx, s, plan, s->n);
    if (!st && k >= s->n)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: there is no network %zu; the file has networks 0 to %zu",
                        tllm_gguf_path(file, 0), k, s->n - 1);
    if (!st) *out = plan[k];
    tiny_free(ctx, plan);
    return st;
}

/* ---- which tensors a network has, and their names there */

static int tinyi_stitched_begins(tllm_text t, const char *with)
{
    const size_t n = strlen(with);
    return t.n >= n && !memcmp(t.at, with, n);
}

/* "blk.7.attn_q.weight": 7, and where ".attn_q.weight" begins; -1: no layer */
static int64_t tinyi_stitched_layer(tllm_text t, size_t *rest)
{
    int64_t n = 0;
    size_t i = 4;
    if (!tinyi_stitched_begins(t, "blk.")) return -1;
    for (; i < t.n && t.at[i] >= '0' && t.at[i] <= '9' && n < 1000000; i++) n = 10 * n + (t.at[i] - '0');
    if (i == 4 || i >= t.n || t.at[i] != '.') return -1;
    *rest = i;
    return n;
}

/* The name of tensor t in the network, into name; 0: it has no such tensor. tied: the back has no output matrix. */
static int tinyi_stitched_name(const tllm_stitch *s, tllm_text t, int tied, char *name, size_t room)
{
    const int front = tinyi_stitched_begins(t, TINYI_STITCHED_FRONT), linear = tinyi_stitched_begins(t, "stitch.");
    size_t rest = 0;
    int64_t layer;
    int n;
    if (front) {
        t.at += sizeof TINYI_STITCHED_FRONT - 1;
        t.n -= sizeof TINYI_STITCHED_FRONT - 1;
    }
    if (t.n >= room - 24) return 0;
    if (s->front == s->back) {
        if (linear || front != (s->front == 0)) return 0;
        memcpy(name, t.at, t.n);
        name[t.n] = 0;
        return 1;
    }
    if (linear) {
        char own[32];
        n = snprintf(own, sizeof own, "stitch.%d.", s->layer);
        if (!tinyi_stitched_begins(t, own)) return 0;
        (void)snprintf(name, room, "blk.%d.stitch.%.*s", s->f + 1, (int)(t.n - (size_t)n), t.at + n);
        return 1;
    }
    layer = tinyi_stitched_layer(t, &rest);
    if (layer >= 0) {
        if (front ? layer > s->f : layer < s->e) return 0;
        if (!front) layer += s->f + 1 - s->e;
        (void)snprintf(name, room, "blk.%ld%.*s", (long)layer, (int)(t.n - rest), t.at + rest);
        return 1;
    }
    /* the front has what comes before its layers, the back the rest */
    if (front && (tinyi_stitched_begins(t, "output"))) return 0;
    if (!front && tied && tllm_text_is(t, "token_embd.weight")) {
        (void)snprintf(name, room, "output.weight");
        return 1;
    }
    if (front != (tinyi_stitched_begins(t, "token_") || tinyi_stitched_begins(t, "position_"))) return 0;
    memcpy(name, t.at, t.n);
    name[t.n] = 0;
    return 1;
}

/* ---- the view */

static void tinyi_stitched_two(tinyi_made *m, const tinyi_stitched *s, const tllm_stitch *c, const char *key,
                               int64_t front, int64_t back)
{
    char full[160];
    int64_t i, n = c->f + 1, all = n + s->side[1].layers - c->e;
    (void)snprintf(full, sizeof full, "%s.%s", s->arch, key);
    if (c->front == c->back) {
        tinyi_made_u32(m, full, (uint64_t)(c->front ? back : front));
        return;
    }
    tinyi_made_array(m, full, TLLM_U32, (size_t)all);
    for (i = 0; i < all; i++) tinyi_made_le(m, (uint64_t)(i < n ? front : back), 4);
}

/* keys whose values are the network's own */
static void tinyi_stitched_keys(tinyi_made *m, const tinyi_stitched *s, const tllm_stitch *c)
{
    const tinyi_stitched_side *a = &s->side[0], *b = &s->side[1];
    const int64_t n = c->f + 1, all = c->front == c->back ? s->side[c->front].layers : n + b->layers - c->e;
    char full[160];
    int64_t i;
    (void)snprintf(full, sizeof full, "%s.embedding_length", s->arch);
    tinyi_made_u32(m, full, (uint64_t)(c->back ? b->width : a->width));
    (void)snprintf(full, sizeof full, "%s.block_count", s->arch);
    tinyi_made_u32(m, full, (uint64_t)all);
    tinyi_stitched_two(m, s, c, "feed_forward_length", a->ff, b->ff);
    tinyi_stitched_two(m, s, c, "attention.head_count", a->heads, b->heads);
    tinyi_stitched_two(m, s, c, "attention.head_count_kv", a->kv, b->kv);
    if (c->front == c->back) return;
    (void)snprintf(full, sizeof full, "%s.slice.width", s->arch);
    tinyi_made_array(m, full, TLLM_U32, (size_t)(2 * all + 1));
    for (i = 0; i <= 2 * all; i++) tinyi_made_le(m, (uint64_t)(i <= 2 * n ? a->width : b->width), 4);
}

/* a key of the file that the view has as it is */
static int tinyi_stitched_keeps(const tinyi_stitched *s, tllm_text key)
{
    static const char *const own[] = { "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
                                       "attention.head_count_kv", "slice.width" };
    const size_t n = strlen(s->arch);
    tllm_text rest = key;
    size_t i;
    if (!tinyi_stitched_begins(key, s->arch) || key.n <= n || key.at[n] != '.') return 1;
    rest.at += n + 1;
    rest.n -= n + 1;
    if (tinyi_stitched_begins(rest, "stitch.")) return 0;
    for (i = 0; i < sizeof own / sizeof own[0]; i++)
        if (tllm_text_is(rest, own[i])) return 0;
    return 1;
}

/* Names into m; with g also its list of tensors. Returns how many. */
static size_t tinyi_stitched_tensors(const tinyi_stitched *s, const tllm_stitch *c, tinyi_made *m, tllm_gguf *g)
{
    const int tied = !tllm_gguf_tensor_find(s->file, "output.weight");
    char name[256];
    size_t i, n = 0;
    for (i = 0; i < s->file->n_tensors; i++) {
        const tllm_gguf_tensor *t = &s->file->tensor[i];
        if (!tinyi_stitched_name(c, t->name, tied, name, sizeof name)) continue;
        if (g) {
            g->tensor[n] = *t;
            g->tensor[n].name.at = (const char *)m->at + m->n;
            g->tensor[n].name.n = strlen(name);
        }
        tinyi_made_bytes(m, name, strlen(name));
        n++;
    }
    return n;
}

static tiny_status tinyi_stitched_fill(tiny_ctx *ctx, const tinyi_stitched *s, const tllm_stitch *c, tllm_gguf *g)
{
    const tllm_gguf *file = s->file;
    tinyi_made m;
    size_t i, bytes = 0, keys, kept = 0;
    tiny_status st = TINY_OK;
    for (i = 0; i < file->n_parts && !st; i++) {
        g->part[i] = file->part[i];
        g->part[i].path = NULL;
        g->part[i].file = tiny_file_memory(file->part[i].file.bytes, file->part[i].file.n_bytes);
        bytes += file->part[i].file.n_bytes;
        st = tinyi_store_path(ctx, &g->part[i], file->part[i].path);
    }
    if (st) return st;
    memset(&m, 0, sizeof m);
    tinyi_stitched_keys(&m, s, c);
    keys = m.n_keys;
    g->n_tensors = tinyi_stitched_tensors(s, c, &m, NULL);
    for (i = 0; i < file->n_meta; i++) kept += (size_t)tinyi_stitched_keeps(s, file->meta[i].key);
    g->n_meta = keys + kept;
    g->kind = file->kind;
    st = tinyi_store_make(ctx, g, &m, bytes);
    if (!st) st = tinyi_store_tables(ctx, g, 0, bytes);
    if (st) return st;
    memset(&m, 0, sizeof m);
    m.at = g->made;
    m.room = g->made_bytes;
    tinyi_stitched_keys(&m, s, c);
    (void)tinyi_stitched_tensors(s, c, &m, g);
    g->n_meta = keys;
    st = tinyi_store_made(ctx, g);
    for (i = 0; i < file->n_meta; i++)
        if (tinyi_stitched_keeps(s, file->meta[i].key)) g->meta[g->n_meta++] = file->meta[i];
    return st ? st : tinyi_store_finish(ctx, g);
}

TINY_API tiny_status tllm_stitched_view(tiny_ctx *ctx, const tllm_gguf *file, size_t k, tllm_gguf **out)
{
    tinyi_stitched s;
    tllm_stitch c;
    tllm_gguf *g = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitched: the result pointer is NULL");
    st = tinyi_stitched_find(ctx, file, k, &s, &c);
    if (!st) st = tinyi_store_open(ctx, file->n_parts, &g);
    if (!st) st = tinyi_stitched_fill(ctx, &s, &c, g);
    if (st) tllm_gguf_close(ctx, g);
    else *out = g;
    return st;
}

TINY_API tiny_status tllm_stitched_what(tiny_ctx *ctx, const tllm_gguf *file, size_t k, tllm_stitched_about *about)
{
    tinyi_stitched s;
    tllm_gguf *view = NULL;
    char key[120];
    const tllm_meta *bits;
    size_t i;
    int d;
    tiny_status st = tinyi_ctx_check(ctx);
    if (about) memset(about, 0, sizeof *about);
    if (st) return st;
    if (!about) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitched: the result pointer is NULL");
    st = tinyi_stitched_find(ctx, file, k, &s, &about->stitch);
    if (!st) st = tllm_stitched_view(ctx, file, k, &view);
    if (st) return st;
    for (i = 0; i < view->n_tensors; i++) {
        double n = 1.0;
        for (d = 0; d < view->tensor[i].rank; d++) n *= (double)view->tensor[i].dim[d];
        about->params += n;
        about->bytes += view->tensor[i].bytes;
    }
    tllm_gguf_close(ctx, view);
    (void)snprintf(key, sizeof key, "%s.stitch.bits", s.arch);
    bits = tllm_gguf_find(file, key);
    if (bits && bits->count == s.n) (void)tllm_meta_f64(bits, k, &about->bits);
    return TINY_OK;
}

TINY_API tiny_status tllm_stitched_select(tiny_ctx *ctx, const tllm_gguf *file, double bytes, size_t *k)
{
    const size_t n = tllm_stitched_count(file);
    double *cost;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (k) *k = 0;
    if (st) return st;
    if (!k || !n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitched: %s",
                          k ? "a file of stitched models is needed" : "the result pointer is NULL");
    cost = (double *)tinyi_alloc(ctx, 2 * n, sizeof *cost);
    if (!cost) return tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        tllm_stitched_about a;
        st = tllm_stitched_what(ctx, file, i, &a);
        cost[i] = (double)a.bytes;
        cost[n + i] = -a.bits;
        if (!st && !(a.bits > 0.0))
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: its networks were not measured: choose one by its number",
                            tllm_gguf_path(file, 0));
    }
    if (!st) st = tllm_stitch_select(ctx, cost, cost + n, n, bytes, k);
    tiny_free(ctx, cost);
    return st;
}

/* ---- the session */

TINY_API size_t tllm_session_stitched(const tllm_session *s) { return s && s->view ? s->network : 1; }

TINY_API tiny_status tllm_session_stitch(tllm_session *s, size_t k, const float **logits)
{
    tllm_gguf *view = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    size_t n;
    tiny_status st = tinyi_session_text(s, 1);
    if (logits) *logits = NULL;
    if (st) return st;
    if (TINYI_LM_ATTACHED(s->state))
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "stitched: the session has adapters, which belong to the network that computes");
    d = s->desc;
    if (d.comm)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "stitched: a session over several ranks cannot switch");
    if (s->borrowed)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "stitched: a session over the caller's model cannot switch");
    st = tllm_stitched_view(s->ctx, s->file, k, &view);
    if (!st) st = tllm_model_open(s->ctx, view, &model);
    if (!st) st = tllm_state_open(s->ctx, model, &d, &state);
    if (st) {
        tllm_model_close(s->ctx, model);
        tllm_gguf_close(s->ctx, view);
        return st;
    }
    tllm_state_close(s->ctx, s->state);
    tllm_model_close(s->ctx, s->model);
    tllm_gguf_close(s->ctx, s->view);
    s->view = view;
    s->model = model;
    s->state = state;
    s->network = k;
    tllm_model_about(model, &s->about);
    n = s->n;
    s->n = 0;
    memcpy(s->spare, s->token, n * sizeof *s->token);
    return n ? tllm_session_feed(s, s->spare, n, logits) : TINY_OK;
}
