/* src/llm/model/save.c - a state as bytes, and back
 *
 * Body     of a box "state 3" (core/box/box_inside.h), all little endian
 *          0   u32 what: 0 one sequence, 1 all; u64 fingerprint of the model; u32 format of keys, u32 format of values;
 *              u32 n_layer; u32 rope of long contexts (0, 1)
 *          28  u64 floats of recurrent state; u32 sequences; u32 tokens of an encoder; u64 stored tokens
 *          52  i32 for each stored token
 *          then for each sequence: u64 cells, i32 position for each, f32 recurrent state, and for each layer with pages
 *          the rows of its keys, values and indexer keys, cell by cell, in their format; then, if the model has an
 *          encoder, for each layer the keys and values that the decoder reads, f32
 * Older    8 bytes "tinystat", u32 2, the same body, u64 checksum of all bytes before it; version 1 had another
 *          checksum and fingerprint
 * Counts are checked against the bytes left, and everything against the state, before anything is written: a refused
 * file changes nothing. The fingerprint covers the shape of the model, its routes, the rank of a cut model, samples of
 * its weights, and samples of the merged and attached adapters with their strength. It does not cover every number. */
#include "llm/model/model_inside.h"
#include "core/box/box_inside.h"
#include "core/half_inside.h"
#include <string.h>

#define TINYI_LM_SAVE_HEAD 52
static const tinyi_box_kind tinyi_lm_save_box = { "state", "saved state", 3, "tinystat", 2, 12, 8, TINYI_LM_SAVE_HEAD };

TINYI_FN void tinyi_lm_hash_u64(tinyi_hash *h, uint64_t v)
{
    unsigned char b[8];
    tinyi_put_le(b, v, 8);
    tinyi_hash_add(h, b, 8);
}

/* names, types, shapes, and 64 bytes at four places of each tensor */
static void tinyi_lm_print_to(tinyi_hash *h, const tllm_model *m)
{
    size_t i, k;
    tiny_idx l;
    tinyi_hash_add(h, TINYI_LM_ARCH(m)->name, strlen(TINYI_LM_ARCH(m)->name));
    tinyi_lm_hash_u64(h, (uint64_t)m->n_vocab);
    for (i = 0; i < tllm_gguf_n_tensors(m->file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(m->file, i);
        const size_t bytes = t->bytes;
        tinyi_hash_add(h, t->name.at, t->name.n);
        tinyi_lm_hash_u64(h, (uint64_t)t->type);
        for (k = 0; k < (size_t)t->rank; k++) tinyi_lm_hash_u64(h, t->dim[k]);
        for (k = 0; k < 4 && (t->data || TINYI_LM_DISK(m)); k++) {
            const size_t n = TINYI_MIN(bytes, 64), at = (bytes - n) / 3 * k;
            unsigned char read[64];
            if (t->data) tinyi_hash_add(h, t->data + at, n);
            else if (tinyi_lm_disk_sample(m, i, at, read, n)) tinyi_hash_add(h, read, n);
        }
    }
    for (l = 0; l < m->n_layer && m->routes; l++) tinyi_hash_add(h, m->layer[l].route, 2);
    if (TINYI_LM_ROTATED(m)) tinyi_lm_hash_u64(h, TINYI_LM_ROTATED(m));
}
TINYI_FN uint64_t tinyi_lm_model_print(const tllm_model *m)
{
    tinyi_hash h;
    tinyi_hash_start(&h);
    tinyi_lm_print_to(&h, m);
    return tinyi_hash_value(&h);
}

TINYI_FN uint64_t tinyi_lm_fingerprint(const tllm_state *s)
{
    const uint64_t adapters = tinyi_lm_adapters_print(s);
    tinyi_hash h;
    tinyi_hash_start(&h);
    tinyi_lm_print_to(&h, s->m);
    if (adapters) tinyi_lm_hash_u64(&h, adapters);
    if (s->m->world > 1) tinyi_lm_hash_u64(&h, (uint64_t)s->m->rank << 32 | (uint64_t)s->m->world);
    if (s->m->shares) tinyi_lm_hash_u64(&h, s->m->shares);
    return tinyi_hash_value(&h);
}

/* ---- writing: counted with at NULL, then written --------------------------------------------------------------- */

static void tinyi_lm_put_floats(tinyi_writer *o, const float *x, tiny_idx n)
{
    tiny_idx i;
    if (!o->at) { o->n += (size_t)n * 4; return; }
    for (i = 0; i < n; i++) tinyi_wr(o, tinyi_f32_bits(x[i]), 4);
}
static void tinyi_lm_put_row(tinyi_writer *o, const tinyi_pool *p, const unsigned char *row)
{
    tiny_idx i;
    if (!o->at) { o->n += p->row_bytes; return; }
    if (p->type->id == TLLM_FORMAT_F32) tinyi_lm_put_floats(o, (const float *)(const void *)row, p->d_part);
    else if (p->type->id == TLLM_FORMAT_F16)
        for (i = 0; i < p->d_part; i++) tinyi_wr(o, ((const uint16_t *)(const void *)row)[i], 2);
    else {
        memcpy(o->at + o->n, row, p->row_bytes);
        o->n += p->row_bytes;
    }
}

TINYI_FN const tinyi_pool *tinyi_lm_pool_at(const tllm_state *s, tiny_idx layer, int k)
{
    const tinyi_lm_held *h = &s->held[layer];
    return k == 0 ? &h->k : k == 1 ? &h->v : &h->index;
}

static void tinyi_lm_put_seq(tinyi_writer *o, const tllm_state *s, tiny_idx seq)
{
    const tiny_idx n = tllm_pages_length(&s->pages, seq);
    const int32_t *table = tllm_pages_table(&s->pages, seq);
    tiny_idx i, j, part;
    int k;
    tinyi_wr(o, (uint64_t)n, 8);
    for (j = 0; j < n; j++) tinyi_wr(o, (uint32_t)s->pos[seq * s->n_ctx + j], 4);
    tinyi_lm_put_floats(o, s->kept + seq * s->n_kept, s->n_kept);
    for (i = 0; i < s->m->n_layer; i++)
        for (k = 0; k < 3; k++) {
            const tinyi_pool *p = tinyi_lm_pool_at(s, i, k);
            for (j = 0; j < n && p->type; j++)
                for (part = 0; part < p->n_part; part++)
                    tinyi_lm_put_row(o, p, tinyi_pool_row(p, table[j / p->block], part, j % p->block));
        }
}

TINYI_FN int tinyi_lm_long_rope(const tllm_state *s)
{
    return s->m->n_rope > 0 && s->m->rope[0].freq_long && s->n_ctx > s->m->rope_original;
}

static void tinyi_lm_put_all(tinyi_writer *o, const tllm_state *s, tiny_idx seq, const int32_t *tokens,
                             tiny_idx n_tokens)
{
    const tiny_idx first = seq < 0 ? 0 : seq, end = seq < 0 ? s->n_seq : seq + 1;
    tiny_idx i;
    tinyi_wr(o, seq < 0, 4);
    tinyi_wr(o, o->at ? tinyi_lm_fingerprint(s) : 0, 8);
    tinyi_wr(o, (uint32_t)s->type_k->id, 4);
    tinyi_wr(o, (uint32_t)s->type_v->id, 4);
    tinyi_wr(o, (uint64_t)s->m->n_layer, 4);
    tinyi_wr(o, (uint64_t)tinyi_lm_long_rope(s), 4);
    tinyi_wr(o, (uint64_t)s->n_kept, 8);
    tinyi_wr(o, (uint64_t)(end - first), 4);
    tinyi_wr(o, (uint64_t)s->n_encoded, 4);
    tinyi_wr(o, (uint64_t)n_tokens, 8);
    for (i = 0; i < n_tokens; i++) tinyi_wr(o, (uint32_t)tokens[i], 4);
    for (i = first; i < end; i++) tinyi_lm_put_seq(o, s, i);
    for (i = 0; i < s->m->n_layer && s->m->n_enc; i++) {
        const tinyi_lm_layer *l = &s->m->layer[i];
        tinyi_lm_put_floats(o, s->held[i].cross_k, s->n_encoded * l->n_kv * l->d_k);
        tinyi_lm_put_floats(o, s->held[i].cross_v, s->n_encoded * l->n_kv * l->d_v);
    }
}

static tiny_status tinyi_lm_save_check(tllm_state *s, tiny_idx seq)
{
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if ((st = tinyi_ctx_check(s->ctx)) != TINY_OK) return st;
    if (seq < -1 || seq >= s->n_seq)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: there is no sequence %td: this state has %td", s->m->path, seq,
                          s->n_seq);
    if (s->m->encoder || !s->m->n_layer)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: an encoder has no state to save", s->m->path);
    if (seq >= 0 && s->m->n_enc && s->n_seq > 1)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: all sequences share one encoder: save or load all of them", s->m->path);
    return TINY_OK;
}

TINY_API tiny_status tllm_state_pack(tllm_state *s, tiny_idx seq, const int32_t *tokens, tiny_idx n_tokens,
                                     void **bytes, size_t *n_bytes)
{
    tinyi_writer o;
    unsigned char *box;
    tiny_status st = tinyi_lm_save_check(s, seq);
    if (bytes) *bytes = NULL;
    if (st) return st;
    if (!bytes || !n_bytes || n_tokens < 0 || (n_tokens && !tokens))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the result pointer or the pointer to its size is NULL",
                          s->m->path);
    st = tinyi_lm_pages_home(s);
    if (st) return st;
    memset(&o, 0, sizeof o);
    tinyi_lm_put_all(&o, s, seq, tokens, n_tokens);
    if (!(box = (unsigned char *)tiny_alloc(s->ctx, TINYI_BOX_BYTES(o.n)))) return tiny_ctx_status(s->ctx);
    o.at = box + TINYI_BOX_FRONT;
    o.n = 0;
    tinyi_lm_put_all(&o, s, seq, tokens, n_tokens);
    tinyi_box_seal(&tinyi_lm_save_box, box, o.n);
    *bytes = box;
    *n_bytes = TINYI_BOX_BYTES(o.n);
    return TINY_OK;
}

TINYI_FN size_t tinyi_lm_pack_bytes(const tllm_state *s, size_t n)
{
    return TINYI_BOX_BYTES(TINYI_LM_SAVE_HEAD + 4 * n + 8 + n * tinyi_lm_cell_bytes(s) + (size_t)s->n_kept * 4);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* bytes of the cells of one sequence */
TINYI_FN size_t tinyi_lm_cell_bytes(const tllm_state *s)
{
    size_t n = 4;                           /* its position */
    tiny_idx i;
    int k;
    for (i = 0; i < s->m->n_layer; i++)
        for (k = 0; k < 3; k++)
            if (tinyi_lm_pool_at(s, i, k)->type)
                n += (size_t)tinyi_lm_pool_at(s, i, k)->n_part * tinyi_lm_pool_at(s, i, k)->row_bytes;
    return n;
}

static void tinyi_lm_get_floats(tinyi_cursor *c, float *x, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n; i++) (void)tinyi_rd_f32(c, &x[i]);
}
static void tinyi_lm_get_row(tinyi_cursor *c, const tinyi_pool *p, unsigned char *row)
{
    const unsigned char *b;
    tiny_idx i;
    if (p->type->id == TLLM_FORMAT_F32) tinyi_lm_get_floats(c, (float *)(void *)row, p->d_part);
    else if (p->type->id == TLLM_FORMAT_F16)
        for (i = 0; i < p->d_part; i++) (void)tinyi_rd_u16(c, (uint16_t *)(void *)row + i);
    else if (tinyi_rd_bytes(c, p->row_bytes, &b)) memcpy(row, b, p->row_bytes);
}

static void tinyi_lm_get_seq(tinyi_cursor *c, tllm_state *s, tiny_idx seq)
{
    const int32_t *table = tllm_pages_table(&s->pages, seq);
    tllm_page_copy copy;
    uint64_t n = 0;
    uint32_t v = 0;
    tiny_idx i, j, part;
    int k;
    (void)tinyi_rd_u64(c, &n);
    tllm_seq_clear(s, seq);
    (void)tllm_pages_append(&s->pages, seq, (tiny_idx)n, &copy);   /* that there is room was seen before */
    for (j = 0; j < (tiny_idx)n; j++) {
        (void)tinyi_rd_u32(c, &v);
        s->pos[seq * s->n_ctx + j] = (int32_t)v;
    }
    tinyi_lm_get_floats(c, s->kept + seq * s->n_kept, s->n_kept);
    for (i = 0; i < s->m->n_layer; i++)
        for (k = 0; k < 3; k++) {
            const tinyi_pool *p = tinyi_lm_pool_at(s, i, k);
            for (j = 0; j < (tiny_idx)n && p->type; j++)
                for (part = 0; part < p->n_part; part++)
                    tinyi_lm_get_row(c, p, tinyi_pool_row(p, table[j / p->block], part, j % p->block));
        }
}

/* pages for a sequence that gives back its own first */
TINYI_FN tiny_idx tinyi_lm_seq_room(const tllm_state *s, tiny_idx seq)
{
    tiny_idx room = s->pages.n_free, i;
    for (i = 0; i * s->pages.block < tllm_pages_length(&s->pages, seq); i++)
        room += tllm_pages_holders(&s->pages, tllm_pages_table(&s->pages, seq)[i]) == 1;
    return room;
}

TINYI_FN tiny_status tinyi_lm_saved_body(tiny_ctx *ctx, const char *where, const void *bytes, size_t n_bytes,
                                         int no_checksum, tinyi_cursor *body)
{
    int old;
    return tinyi_box_body(ctx, where, &tinyi_lm_save_box, bytes, n_bytes, no_checksum, body, &old);
}

typedef struct tinyi_lm_saved { tiny_idx n_tokens, n_encoded, n_seq; tinyi_cursor tokens, after; } tinyi_lm_saved;

/* Everything is looked at, nothing is touched. */
static tiny_status tinyi_lm_unpack_check(tllm_state *s, tiny_idx seq, const void *bytes, size_t n_bytes,
                                         tinyi_lm_saved *o)
{
    const tinyi_lm_w *table = s->m->top.w[TINYI_T_POSITION_EMBD];
    const size_t cell = tinyi_lm_cell_bytes(s);
    const unsigned char *skip;
    tinyi_cursor c;
    uint32_t what = 0, type_k = 0, type_v = 0, n_layer = 0, rope = 0, n_seq = 0, encoded = 0, v = 0;
    uint64_t print = 0, kept = 0, tokens = 0, n;
    tiny_idx blocks = 0, room, i, j;
    size_t cross = 0;
    tiny_status st = tinyi_lm_saved_body(s->ctx, s->m->path, bytes, n_bytes, 0, &c);
    memset(o, 0, sizeof *o);
    if (st) return st;
    (void)(tinyi_rd_u32(&c, &what) && tinyi_rd_u64(&c, &print) && tinyi_rd_u32(&c, &type_k) &&
           tinyi_rd_u32(&c, &type_v) && tinyi_rd_u32(&c, &n_layer) && tinyi_rd_u32(&c, &rope) &&
           tinyi_rd_u64(&c, &kept) && tinyi_rd_u32(&c, &n_seq) && tinyi_rd_u32(&c, &encoded) &&
           tinyi_rd_u64(&c, &tokens));
    if (print != tinyi_lm_fingerprint(s) || n_layer != (uint32_t)s->m->n_layer || kept != (uint64_t)s->n_kept)
        return tinyi_fail(s->ctx, TINY_E_FORMAT,
                          "%s: the saved state belongs to another model or to other adapters",
                          s->m->path);
    if (type_k != (uint32_t)s->type_k->id || type_v != (uint32_t)s->type_v->id)
        return tinyi_fail(s->ctx, TINY_E_FORMAT,
                          "%s: the saved state has keys of format %u and values of format %u, but this one %s and %s",
                          s->m->path, (unsigned)type_k, (unsigned)type_v, s->type_k->name, s->type_v->name);
    if (rope != (uint32_t)tinyi_lm_long_rope(s))
        return tinyi_fail(s->ctx, TINY_E_FORMAT,
                          "%s: the saved state rotated its keys for %s contexts, but this one has room for %td tokens",
                          s->m->path, rope ? "long" : "short", s->n_ctx);
    if (what > 1 || what != (seq < 0))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: the saved state holds %s, but this call loads %s", s->m->path,
                          what ? "all sequences" : "one sequence", what ? "one" : "all");
    if (n_seq > (uint32_t)s->n_seq || (seq >= 0 && n_seq != 1))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: the saved state has %u sequences, but this one has room for %td",
                          s->m->path, (unsigned)n_seq, seq < 0 ? s->n_seq : 1);
    if (encoded > (uint32_t)s->n_ctx || (encoded && !s->m->n_enc))
        return tinyi_fail(s->ctx, TINY_E_FORMAT,
                          "%s: the saved state has %u encoder tokens, but this one has room for %td", s->m->path,
                          (unsigned)encoded, s->m->n_enc ? s->n_ctx : 0);
    o->tokens = c;
    if (tokens > (uint64_t)s->n_ctx * (uint64_t)s->n_seq || !tinyi_rd_bytes(&c, (size_t)tokens * 4, &skip))
        return tinyi_fail(s->ctx, TINY_E_FORMAT,
                          "%s: the saved state has %llu stored tokens, more than its bytes or this state can hold",
                          s->m->path, (unsigned long long)tokens);
    o->after = c;
    for (i = 0; i < (tiny_idx)n_seq; i++) {
        int64_t before = -1;
        if (!tinyi_rd_u64(&c, &n) || n > (uint64_t)s->n_ctx || !tinyi_count_fits(&c, n, cell) ||
            c.left - (size_t)n * cell < (size_t)s->n_kept * 4)
            return tinyi_fail(
                s->ctx, TINY_E_FORMAT,
                "%s: sequence %td of the saved state has more cells than its bytes or the %td cells of this state",
                s->m->path, i, s->n_ctx);
        for (j = 0; j < (tiny_idx)n; j++) {
            (void)tinyi_rd_u32(&c, &v);
            if ((int64_t)v <= before || v > INT32_MAX - 1 || (table && (tiny_idx)v >= table->n_out))
                return tinyi_fail(s->ctx, TINY_E_FORMAT,
                                  "%s: cell %td of sequence %td of the saved state has position %u; it must be above "
                                  "%lld and within the model's limit",
                                  s->m->path, j, i, (unsigned)v, (long long)before);
            before = (int64_t)v;
        }
        (void)tinyi_rd_bytes(&c, (size_t)n * (cell - 4) + (size_t)s->n_kept * 4, &skip);
        blocks += ((tiny_idx)n + s->pages.block - 1) / s->pages.block;
    }
    for (i = 0; i < s->m->n_layer && s->m->n_enc; i++)
        cross += (size_t)encoded * (size_t)(s->m->layer[i].n_kv * (s->m->layer[i].d_k + s->m->layer[i].d_v)) * 4;
    if (c.left != cross)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: the saved state has %zu bytes after its cells, not %zu",
                          s->m->path, c.left, cross);
    room = seq < 0 ? s->pages.n_block : tinyi_lm_seq_room(s, seq);
    if (blocks > room)
        return tinyi_fail(s->ctx, TINY_E_WORKSPACE,
                          "%s: the saved state needs %td pages of %td tokens, but there are %td", s->m->path, blocks,
                          s->pages.block, room);
    o->n_tokens = (tiny_idx)tokens;
    o->n_encoded = (tiny_idx)encoded;
    o->n_seq = (tiny_idx)n_seq;
    return TINY_OK;
}

TINY_API tiny_status tllm_state_unpack(tllm_state *s, tiny_idx seq, const void *bytes, size_t n_bytes, int32_t *tokens,
                                       tiny_idx room, tiny_idx *n_tokens)
{
    tinyi_lm_saved o;
    tinyi_cursor c, t;
    tiny_idx i, n;
    uint32_t v = 0;
    tiny_status st = tinyi_lm_save_check(s, seq);
    if (n_tokens) *n_tokens = 0;
    if (st) return st;
    if (!bytes) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the bytes of the saved state are NULL", s->m->path);
    st = tinyi_lm_pages_home(s);
    if (!st) st = tinyi_lm_unpack_check(s, seq, bytes, n_bytes, &o);
    if (st) return st;
    n = o.n_tokens;
    c = o.after;
    if (tokens && n > room)
        return tinyi_fail(s->ctx, TINY_E_WORKSPACE,
                          "%s: the saved state has %td stored tokens, but there is room for %td", s->m->path, n, room);
    for (i = 0, t = o.tokens; i < n; i++) {
        (void)tinyi_rd_u32(&t, &v);
        if (v >= (uint32_t)s->m->n_vocab)
            return tinyi_fail(s->ctx, TINY_E_FORMAT,
                              "%s: stored token %td is %u, but the vocabulary has %td", s->m->path, i,
                              (unsigned)v, s->m->n_vocab);
    }
    for (i = 0, t = o.tokens; i < n && tokens; i++) {
        (void)tinyi_rd_u32(&t, &v);
        tokens[i] = (int32_t)v;
    }
    if (n_tokens) *n_tokens = n;
    if (seq < 0) {
        tllm_state_clear(s);
        for (i = 0; i < o.n_seq; i++) tinyi_lm_get_seq(&c, s, i);
    } else tinyi_lm_get_seq(&c, s, seq);
    for (i = 0; i < s->m->n_layer && s->m->n_enc; i++) {
        const tinyi_lm_layer *l = &s->m->layer[i];
        tinyi_lm_get_floats(&c, s->held[i].cross_k, o.n_encoded * l->n_kv * l->d_k);
        tinyi_lm_get_floats(&c, s->held[i].cross_v, o.n_encoded * l->n_kv * l->d_v);
    }
    s->n_encoded = o.n_encoded;
    return TINY_OK;
}

TINY_API tiny_status tllm_state_save(tllm_state *s, tiny_idx seq, const char *path)
{
    void *bytes = NULL;
    size_t n = 0;
    tiny_status st = tllm_state_pack(s, seq, NULL, 0, &bytes, &n);
    if (st) return st;
    st = tiny_file_write(s->ctx, path, bytes, n);
    tiny_free(s->ctx, bytes);
    return st;
}

TINY_API tiny_status tllm_state_load(tllm_state *s, tiny_idx seq, const char *path)
{
    tiny_file f;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tiny_file_open(s->ctx, path, &f);
    if (!st) st = tllm_state_unpack(s, seq, f.bytes, f.n_bytes, NULL, 0, NULL);
    tiny_file_close(s->ctx, &f);
    return st;
}
