/* src/llm/lab/kvcodec/kvsession.c - the text and cache of a session in a file, in chunks of llm/lab/kvcodec/kvcodec.c
 *
 * Body     of a box "kept-cache 2" (core/box/box_inside.h), all little endian
 *          0   u32 chunks; u64 fingerprint of the model; u64 tokens; u32 rope of long contexts (0, 1); u32 zero
 *          28  i32 for each token; u64 bytes of each chunk; then the chunks, one after the other; they cover the
 *              tokens in order
 * Older    8 bytes "tinykvse", u32 1, the same body with a u32 CRC-32 of everything before it, before the chunks
 * Every chunk is checked before the first is written. */
#include "llm/lab/kvcodec/kv_inside.h"
#include "llm/session/session_inside.h"
#include "llm/model/model_inside.h"
#include "core/box/box_inside.h"
#include <string.h>

#define TINYI_KVS_HEAD 28
static const tinyi_box_kind tinyi_kvs_box = { "kept-cache", "kept cache", 2, "tinykvse", 1, 12, 0, TINYI_KVS_HEAD };

/* ---- a sequence of a state as keys and values -------------------------------------------------------------------- */

static void tinyi_kvs_read(void *user, tiny_idx layer, int part, tiny_idx token, float *row)
{
    const tinyi_kvs_view *v = (const tinyi_kvs_view *)user;
    const tinyi_pool *p = tinyi_lm_pool_at(v->state, layer, part);
    tinyi_pool_read(p, tllm_pages_table(&v->state->pages, v->seq)[token / p->block], token % p->block, row);
}
static void tinyi_kvs_write(void *user, tiny_idx layer, int part, tiny_idx token, const float *row)
{
    const tinyi_kvs_view *v = (const tinyi_kvs_view *)user;
    const tinyi_pool *p = tinyi_lm_pool_at(v->state, layer, part);
    tinyi_pool_write(p, tllm_pages_table(&v->state->pages, v->seq)[token / p->block], token % p->block, row);
}

TINYI_FN tiny_status tinyi_kvs_view_at(const tllm_state *state, tiny_idx seq, tinyi_kvs_view *v, tllm_kv *kv,
                                       int32_t **width)
{
    tiny_ctx *ctx = state->ctx;
    const tiny_idx n = state->m->n_layer;
    tiny_idx i;
    *width = NULL;
    if (TINYI_LM_ENCODER(state->m) || TINYI_LM_N_ENC(state->m) > 0 || TINYI_LM_OUTPUT(state->m) == TLLM_RANK ||
        state->m->recurrent || state->n_kept || n < 1)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "%s: the cache codec supports keys and values of tokens only, not encoders or recurrent layers",
            state->m->path);
    if (tinyi_lm_pages_home(state)) return tiny_ctx_status(ctx);
    *width = (int32_t *)tinyi_alloc(ctx, (size_t)n * TLLM_KV_PARTS, sizeof **width);
    if (!*width) return tiny_ctx_status(ctx);
    for (i = 0; i < n * TLLM_KV_PARTS; i++) {
        const tinyi_pool *p = tinyi_lm_pool_at(state, i / TLLM_KV_PARTS, (int)(i % TLLM_KV_PARTS));
        (*width)[i] = p->type ? (int32_t)(p->n_part * p->d_part) : 0;
    }
    v->state = state;
    v->seq = seq;
    kv->n_layer = n;
    kv->width = *width;
    kv->read = tinyi_kvs_read;
    kv->write = tinyi_kvs_write;
    kv->user = v;
    kv->n_token = state->n_ctx;
    return TINY_OK;
}
static tiny_status tinyi_kvs_view_of(tllm_session *s, tinyi_kvs_view *v, tllm_kv *kv, int32_t **width)
{
    const tiny_status st = tinyi_kvs_view_at(s->state, 0, v, kv, width);
    kv->n_token = (tiny_idx)s->n_ctx;
    return st;
}

/* what a session holds, if all of it is at positions 0, 1, ... */
static tiny_status tinyi_kvs_held(const tllm_session *s)
{
    if (!s->n) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "cache codec: the session holds no tokens");
    if ((tiny_idx)s->n != tllm_seq_length(s->state, 0) || (int64_t)s->n != tllm_seq_next(s->state, 0))
        return tinyi_fail(
            s->ctx, TINY_E_UNSUPPORTED,
            "cache codec: the session holds %zu tokens, its state %td up to position %lld: they must go together", s->n,
            tllm_seq_length(s->state, 0), (long long)tllm_seq_next(s->state, 0) - 1);
    return TINY_OK;
}

TINY_API tiny_status tllm_kvcodec_profile_of(tllm_session *s, tllm_kvcodec_profile **out)
{
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width;
    tiny_status st;
    if (out) *out = NULL;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_kvs_view_of(s, &v, &kv, &width);
    if (!st) st = tllm_kvcodec_profile_open(s->ctx, &kv, NULL, out);
    tiny_free(s->ctx, width);
    return st;
}

TINY_API tiny_status tllm_kvcodec_profile_session(tllm_kvcodec_profile *p, tllm_session *s)
{
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width;
    size_t at, n;
    tiny_status st;
    if (!p || !s) return TINY_E_ARGUMENT;
    st = tinyi_kvs_held(s);
    if (st) return st;
    st = tinyi_kvs_view_of(s, &v, &kv, &width);
    for (at = 0; at < s->n && !st; at += n) {
        n = TINYI_MIN(s->n - at, TINYI_KVC_CHUNK);
        st = tllm_kvcodec_profile_add(p, &kv, (tiny_idx)at, (tiny_idx)n);
    }
    tiny_free(s->ctx, width);
    return st;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_kvs_chunk { void *bytes; size_t n; } tinyi_kvs_chunk;

static void tinyi_kvs_head(tinyi_writer *w, const tllm_session *s, const tinyi_kvs_chunk *c, size_t n_chunk)
{
    size_t i;
    tinyi_wr(w, n_chunk, 4);
    tinyi_wr(w, w->at ? tinyi_lm_fingerprint(s->state) : 0, 8);
    tinyi_wr(w, s->n, 8);
    tinyi_wr(w, (uint64_t)tinyi_lm_long_rope(s->state), 4);
    tinyi_wr(w, 0, 4);
    for (i = 0; i < s->n; i++) tinyi_wr(w, (uint32_t)s->token[i], 4);
    for (i = 0; i < n_chunk; i++) tinyi_wr(w, c[i].n, 8);
}

static tiny_status tinyi_kvs_write_file(const tllm_session *s, const tinyi_kvs_chunk *c, size_t n_chunk,
                                        const char *path)
{
    tinyi_writer w;
    tinyi_box box;
    size_t i, n;
    tiny_status st;
    memset(&w, 0, sizeof w);
    tinyi_kvs_head(&w, s, c, n_chunk);
    n = w.n;
    w.at = (unsigned char *)tiny_alloc(s->ctx, n);
    if (!w.at) return tiny_ctx_status(s->ctx);
    w.n = 0;
    tinyi_kvs_head(&w, s, c, n_chunk);
    for (i = 0; i < n_chunk; i++) n += c[i].n;
    st = tinyi_box_open(s->ctx, &box, path, &tinyi_kvs_box, n);
    if (!st) st = tinyi_box_add(s->ctx, &box, w.at, w.n);
    for (i = 0; i < n_chunk && !st; i++) st = tinyi_box_add(s->ctx, &box, c[i].bytes, c[i].n);
    st = tinyi_box_done(s->ctx, &box, st);
    tiny_free(s->ctx, w.at);
    return st;
}

TINY_API tiny_status tllm_kvcodec_save(tllm_session *s, const tllm_kvcodec_tables *tables,
                                       const tllm_kvcodec_desc *desc, const char *path)
{
    tllm_kvcodec_desc d;
    tinyi_kvs_chunk *c = NULL;
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width = NULL;
    size_t n_chunk = 0, i, each;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!path) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "cache codec: there is no path");
    if (d.first)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "cache codec: a session is saved from its first token on, not from index %td", d.first);
    if (d.n_token < 0 || d.n_token > TINYI_KVC_MOST_TOKENS)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "cache codec: chunks of %td tokens: the limits are 1 and %d",
                          d.n_token, TINYI_KVC_MOST_TOKENS);
    each = d.n_token ? (size_t)d.n_token : TINYI_KVC_CHUNK;
    st = tinyi_kvs_held(s);
    if (!st) st = tinyi_kvs_view_of(s, &v, &kv, &width);
    if (!st) {
        n_chunk = (s->n + each - 1) / each;
        c = (tinyi_kvs_chunk *)tinyi_alloc(s->ctx, n_chunk, sizeof *c);
        if (!c) st = tiny_ctx_status(s->ctx);
        else memset(c, 0, n_chunk * sizeof *c);
    }
    for (i = 0; i < n_chunk && !st; i++) {
        d.first = (tiny_idx)(i * each);
        d.n_token = (tiny_idx)TINYI_MIN(s->n - i * each, each);
        d.chunk = (uint32_t)i;
        st = tllm_kvcodec_encode(s->ctx, tables, &kv, &d, &c[i].bytes, &c[i].n);
    }
    if (!st) st = tinyi_kvs_write_file(s, c, n_chunk, path);
    for (i = 0; i < n_chunk && c; i++) tiny_free(s->ctx, c[i].bytes);
    tiny_free(s->ctx, c);
    tiny_free(s->ctx, width);
    return st;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_kvs_file {
    uint64_t print;
    uint32_t rope;
    size_t n_token, n_chunk;
    tinyi_cursor token, size, chunk;
} tinyi_kvs_file;

static tiny_status tinyi_kvs_look(tiny_ctx *ctx, const char *path, const tiny_file *f, tinyi_kvs_file *o)
{
    tinyi_cursor c, at;
    const unsigned char *p;
    uint32_t n_chunk = 0, zero = 0, sum = 0;
    uint64_t n_token = 0, size = 0, left;
    size_t i;
    int old;
    const tiny_status st = tinyi_box_body(ctx, path, &tinyi_kvs_box, f->bytes, f->n_bytes, 0, &c, &old);
    memset(o, 0, sizeof *o);
    if (st) return st;
    (void)(tinyi_rd_u32(&c, &n_chunk) && tinyi_rd_u64(&c, &o->print) && tinyi_rd_u64(&c, &n_token) &&
           tinyi_rd_u32(&c, &o->rope) && tinyi_rd_u32(&c, &zero));
    if (!n_token || !tinyi_count_fits(&c, n_token, 4))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %llu tokens do not fit into %zu bytes", path,
                          (unsigned long long)n_token, c.left);
    o->token = c;
    (void)tinyi_rd_bytes(&c, (size_t)n_token * 4, &p);
    if (!n_chunk || n_chunk > n_token || !tinyi_count_fits(&c, n_chunk, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %u chunks of %llu tokens do not fit into %zu bytes", path,
                          (unsigned)n_chunk, (unsigned long long)n_token, c.left);
    o->size = at = c;
    (void)tinyi_rd_bytes(&c, (size_t)n_chunk * 8, &p);
    i = (size_t)(c.at - f->bytes);
    if (old && (!tinyi_rd_u32(&c, &sum) || sum != tinyi_crc32(0, f->bytes, i)))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the header of the saved cache is damaged or truncated: its CRC-32 does not match", path);
    if (zero || o->rope > 1)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the header of the saved cache has %lx instead of 0, or %lx instead of 0 or 1", path,
                          (unsigned long)zero, (unsigned long)o->rope);
    for (i = 0, left = c.left; i < n_chunk; i++, left -= size) {
        (void)tinyi_rd_u64(&at, &size);
        if (size > left)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: chunk %zu has %llu bytes, but only %llu are left", path, i,
                              (unsigned long long)size, (unsigned long long)left);
    }
    if (left)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %llu bytes follow the last chunk", path, (unsigned long long)left);
    o->n_token = (size_t)n_token;
    o->n_chunk = (size_t)n_chunk;
    o->chunk = c;
    return TINY_OK;
}

/* chunk i, and which place in the text it says it has */
static tiny_status tinyi_kvs_next(tiny_ctx *ctx, const char *path, size_t i, size_t first, const tinyi_kvs_file *o,
                                  const tllm_kvcodec_about *a)
{
    if ((size_t)a->first == first && a->chunk == (uint32_t)i && (size_t)a->n_token <= o->n_token - first)
        return TINY_OK;
    return tinyi_fail(
        ctx, TINY_E_FORMAT,
        "%s: chunk %zu has number %lu and %td tokens from index %td on, but should begin with index %zu of %zu", path,
        i, (unsigned long)a->chunk, a->n_token, a->first, first, o->n_token);
}

static tiny_status tinyi_kvs_accept(tllm_session *s, const tllm_kvcodec_tables *tables, const char *path,
                                    const tinyi_kvs_file *o, const tllm_kv *kv)
{
    tiny_ctx *ctx = s->ctx;
    const tllm_state *state = s->state;
    tinyi_cursor token = o->token, size = o->size, chunk = o->chunk;
    const tiny_idx blocks = ((tiny_idx)o->n_token + state->pages.block - 1) / state->pages.block;
    tllm_kvcodec_about a;
    const unsigned char *p = NULL;
    uint64_t n = 0;
    size_t i, first = 0;
    if (o->print != tinyi_lm_fingerprint(state))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the saved cache belongs to another model or to other adapters", path);
    if (o->rope != (uint32_t)tinyi_lm_long_rope(state))
        return tinyi_fail(
            ctx, TINY_E_FORMAT,
            "%s: the saved cache rotated its keys for %s contexts, but this session has room for %td tokens", path,
            o->rope ? "long" : "short", s->n_ctx);
    if (o->n_token > (size_t)s->n_ctx)
        return tinyi_fail(ctx, TINY_E_WORKSPACE,
                          "%s: the saved cache has %zu tokens, but this session has room for %td", path, o->n_token,
                          s->n_ctx);
    if (blocks > tinyi_lm_seq_room(state, 0))
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "%s: the saved cache needs %td pages of %td tokens, but there are %td",
                          path, blocks, state->pages.block, tinyi_lm_seq_room(state, 0));
    for (i = 0; i < o->n_token; i++) {
        uint32_t v = 0;
        (void)tinyi_rd_u32(&token, &v);
        if (v >= (uint32_t)s->about.n_vocab)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: token %zu is %lu, but the vocabulary has %td", path, i,
                              (unsigned long)v, s->about.n_vocab);
        s->spare[i] = (int32_t)v;
    }
    for (i = 0; i < o->n_chunk; i++) {
        tiny_status st;
        (void)tinyi_rd_u64(&size, &n);
        (void)tinyi_rd_bytes(&chunk, (size_t)n, &p);
        st = tinyi_kvc_check(ctx, tables, p, (size_t)n, kv, &a);
        if (!st) st = tinyi_kvs_next(ctx, path, i, first, o, &a);
        if (st) return st;
        first += (size_t)a.n_token;
    }
    if (first != o->n_token)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the chunks have %zu tokens, the text %zu", path, first, o->n_token);
    return TINY_OK;
}

TINY_API tiny_status tllm_kvcodec_load(tllm_session *s, const tllm_kvcodec_tables *tables, const char *path)
{
    tiny_file f;
    tinyi_kvs_file o;
    tinyi_kvs_view v;
    tllm_page_copy copy;
    tllm_kv kv;
    int32_t *width = NULL;
    size_t i;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!path) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "cache codec: there is no path");
    st = tiny_file_copy(s->ctx, path, &f);      /* what is read twice must not change in between */
    if (!st) st = tinyi_kvs_look(s->ctx, path, &f, &o);
    if (!st) st = tinyi_kvs_view_of(s, &v, &kv, &width);
    if (!st) st = tinyi_kvs_accept(s, tables, path, &o, &kv);
    if (!st) {
        tllm_seq_clear(s->state, 0);
        /* that there is room was seen before */
        st = tllm_pages_append(&s->state->pages, 0, (tiny_idx)o.n_token, &copy);
        for (i = 0; i < o.n_token && !st; i++) s->state->pos[i] = (int32_t)i;
        for (i = 0; i < o.n_chunk && !st; i++) {
            const unsigned char *p = NULL;
            uint64_t n = 0;
            (void)tinyi_rd_u64(&o.size, &n);
            (void)tinyi_rd_bytes(&o.chunk, (size_t)n, &p);
            st = tllm_kvcodec_decode(s->ctx, tables, p, (size_t)n, &kv);
        }
        if (st) tllm_seq_clear(s->state, 0);    /* there was no memory to go on */
        else memcpy(s->token, s->spare, o.n_token * sizeof *s->token);
        s->n = st ? 0 : o.n_token;
    }
    tiny_free(s->ctx, width);
    tiny_file_close(s->ctx, &f);
    return st;
}

/* ---- looking into a file without its model ----------------------------------------------------------------------- */

TINY_API tiny_status tllm_kvcodec_file_open(tiny_ctx *ctx, const char *path, tllm_kvcodec_file *out)
{
    tiny_file f;
    tinyi_kvs_file o;
    tllm_kvcodec_about *about;
    int32_t *token;
    size_t i, first = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!path || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: a path and a result pointer are needed");
    st = tiny_file_copy(ctx, path, &f);
    if (!st) st = tinyi_kvs_look(ctx, path, &f, &o);
    if (!st) {
        size_t a, b;
        /* both were counted against the bytes of the file */
        if (!tinyi_size_mul(o.n_chunk, sizeof *about, &a) || !tinyi_size_mul(o.n_token, sizeof *token, &b) ||
            !tinyi_size_add(a, b, &a))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %zu chunks are more than this machine can address", path,
                            o.n_chunk);
        else if (!(out->block = tiny_alloc(ctx, a))) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        about = (tllm_kvcodec_about *)out->block;
        token = (int32_t *)(void *)(about + o.n_chunk);
        for (i = 0; i < o.n_token; i++) {
            uint32_t v = 0;
            (void)tinyi_rd_u32(&o.token, &v);
            if (v > INT32_MAX && !st)
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: token %zu is %lu: not a token", path, i, (unsigned long)v);
            token[i] = (int32_t)(v & INT32_MAX);
        }
        for (i = 0; i < o.n_chunk && !st; i++) {
            const unsigned char *p = NULL;
            uint64_t n = 0;
            (void)tinyi_rd_u64(&o.size, &n);
            (void)tinyi_rd_bytes(&o.chunk, (size_t)n, &p);
            st = tllm_kvcodec_tell(ctx, p, (size_t)n, &about[i]);
            if (!st) st = tinyi_kvs_next(ctx, path, i, first, &o, &about[i]);
            if (!st) first += (size_t)about[i].n_token;
        }
        if (!st && first != o.n_token)
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the chunks have %zu tokens, the text %zu", path, first, o.n_token);
        out->n_token = (tiny_idx)o.n_token;
        out->n_chunk = (tiny_idx)o.n_chunk;
        out->token = token;
        out->chunk = about;
        out->n_bytes = f.n_bytes;
    }
    tiny_file_close(ctx, &f);
    if (st) tllm_kvcodec_file_close(ctx, out);
    return st;
}

TINY_API void tllm_kvcodec_file_close(tiny_ctx *ctx, tllm_kvcodec_file *file)
{
    if (!file) return;
    tiny_free(ctx, file->block);
    memset(file, 0, sizeof *file);
}
