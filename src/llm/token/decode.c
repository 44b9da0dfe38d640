/* src/llm/token/decode.c - tokens to text, at once or as a stream of whole characters */
#include "llm/token/parts_inside.h"
#include <string.h>

static size_t tinyi_piece_put(char *out, size_t room, size_t at, const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) if (at + i < room) out[at + i] = (char)p[i];
    return at + n;
}

TINY_API size_t tllm_piece(const tllm_vocab *v, int32_t id, unsigned flags, char *out, size_t room)
{
    size_t n, i, m = 0;
    const unsigned char *p;
    unsigned what;
    int byte;
    if (!tinyi_vocab_has(v, id)) return 0;
    if (!out) room = 0;
    p = tinyi_token_text(v, id, &n);
    what = v->what[id];
    if ((what & (TINYI_TOK_CONTROL | TINYI_TOK_UNKNOWN)) && !(flags & TLLM_DECODE_SPECIAL)) return 0;
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_RWKV || (what & (TINYI_TOK_CONTROL | TINYI_TOK_UNKNOWN | TINYI_TOK_USER)))
        return tinyi_piece_put(out, room, 0, p, n);
    byte = tinyi_vocab_byte(p, n);
    if (byte >= 0 && (what & TINYI_TOK_BYTE)) {
        unsigned char b = (unsigned char)byte;
        return tinyi_piece_put(out, room, 0, &b, 1);
    }
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_PLAMO2) return tinyi_piece_put(out, room, 0, p, n);
    if (!(what & (TINYI_TOK_NORMAL | TINYI_TOK_BYTE))) return 0;
    if (TINYI_VOCAB_KIND(v) != TLLM_VOCAB_BPE || (v->pre_flags & TLLM_PRE_BLANKS)) {
        for (i = 0; i < n; ) {
            int mark = n - i >= 3 && !memcmp(p + i, "\xe2\x96\x81", 3);
            m = tinyi_piece_put(out, room, m, mark ? (const unsigned char *)" " : p + i, 1);
            i += mark ? 3 : 1;
        }
        return m;
    }
    for (i = 0; i < n; ) {
        uint32_t c;
        size_t k = tinyi_utf8_get(p + i, n - i, &c);
        byte = tinyi_bpe_byte(c);
        if (byte >= 0 && !(v->pre_flags & TLLM_PRE_RAW)) {
            unsigned char b = (unsigned char)byte;
            m = tinyi_piece_put(out, room, m, &b, 1);
        } else {
            m = tinyi_piece_put(out, room, m, p + i, k);
        }
        i += k;
    }
    return m;
}

TINY_API size_t tllm_piece_most(const tllm_vocab *v) { return v ? v->longest : 0; }

/* does the encoder put a blank before text that follows a special token, or begins? */
static int tinyi_vocab_blank_first(const tllm_vocab *v)
{
    return TINYI_VOCAB_KIND(v) == TLLM_VOCAB_WORDPIECE ||
           ((TINYI_VOCAB_KIND(v) == TLLM_VOCAB_SPM || TINYI_VOCAB_KIND(v) == TLLM_VOCAB_UNIGRAM) &&
            v->add_space_prefix);
}

/* appends one piece; *bare as in tllm_stream */
static tiny_status tinyi_decode_one(tiny_ctx *ctx, const tllm_vocab *v, int32_t id, unsigned flags, int *bare,
                                    tllm_bytes *out)
{
    size_t n = tllm_piece(v, id, flags, NULL, 0), from = out->n;
    tiny_status st = tinyi_bytes_reserve(ctx, out, n);
    if (st) return st;
    out->n += n ? tllm_piece(v, id, flags, out->at + from, n) : 0;
    if (tinyi_vocab_has(v, id) && (v->what[id] & (TINYI_TOK_CONTROL | TINYI_TOK_UNKNOWN | TINYI_TOK_USER))) {
        *bare = tinyi_vocab_blank_first(v);
    } else if (n) {
        if (*bare && out->at[from] == ' ') {
            memmove(out->at + from, out->at + from + 1, n - 1);
            out->n--;
        }
        *bare = 0;
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_decode(tiny_ctx *ctx, const tllm_vocab *v, const int32_t *id, size_t n, unsigned flags,
                                 tllm_bytes *out)
{
    size_t i, before;
    int bare;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!v || !out || (n && !id))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "decode: %s is missing",
                          !v     ? "the vocabulary"
                          : !out ? "out"
                                 : "the list of tokens");
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_NONE)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "decode: the file of this model has no vocabulary");
    before = out->n;
    bare = tinyi_vocab_blank_first(v);
    for (i = 0; i < n && !st; i++) {
        if (!tinyi_vocab_has(v, id[i]))
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "decode: token %ld at index %lu, but the vocabulary has %lu",
                            (long)id[i], (unsigned long)i, (unsigned long)v->n);
        else
            st = tinyi_decode_one(ctx, v, id[i], flags, &bare, out);
    }
    if (st) out->n = before;
    return st;
}

TINY_API void tllm_bytes_free(tiny_ctx *ctx, tllm_bytes *b)
{
    if (!b) return;
    tiny_free(ctx, b->at);
    memset(b, 0, sizeof *b);
}

TINY_API tllm_stream tllm_stream_start(const tllm_vocab *v, unsigned flags)
{
    tllm_stream s;
    memset(&s, 0, sizeof s);
    s.v = v;
    s.flags = flags;
    s.bare = v ? tinyi_vocab_blank_first(v) : 0;
    return s;
}

/* bytes of the whole, valid character at p, or 0 */
static size_t tinyi_stream_valid(const unsigned char *p, size_t n)
{
    uint32_t c;
    size_t k = tinyi_utf8_get(p, n, &c);
    if (p[0] < 0x80) return 1;
    if (k == 1 || c < (k == 2 ? 0x80u : k == 3 ? 0x800u : 0x10000u) || (c >= 0xd800 && c < 0xe000)) return 0;
    return k;
}

TINY_API tiny_status tllm_stream_next(tiny_ctx *ctx, tllm_stream *s, int32_t id, tllm_bytes *out)
{
    tllm_bytes b;
    size_t n, i, keep, whole = 0;
    int bare;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s || !s->v || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stream_next: %s is missing", !s || !s->v ? "the stream" : "out");
    if (!tinyi_vocab_has(s->v, id))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stream_next: token %ld, but the vocabulary has %lu", (long)id,
                          (unsigned long)s->v->n);
    memset(&b, 0, sizeof b);
    if ((st = tinyi_bytes_reserve(ctx, &b, s->n_held + 1)) != TINY_OK) return st;
    memcpy(b.at, s->held, s->n_held);
    b.n = s->n_held;
    bare = s->bare;
    st = tinyi_decode_one(ctx, s->v, id, s->flags, &bare, &b);
    if (!st) {
        const unsigned char *p = (const unsigned char *)b.at;
        keep = tinyi_utf8_unfinished(p, b.n);
        n = b.n - keep;
        for (i = 0; i < n; whole++) { size_t k = tinyi_stream_valid(p + i, n - i); i += k ? k : 1; }
        st = tinyi_bytes_reserve(ctx, out, 4 * whole);
        if (!st) {
            for (i = 0; i < n; ) {
                size_t k = tinyi_stream_valid(p + i, n - i);
                memcpy(out->at + out->n, k ? (const char *)p + i : "\xef\xbf\xbd", k ? k : 3);
                out->n += k ? k : 3;
                i += k ? k : 1;
            }
            memcpy(s->held, p + n, keep);
            s->n_held = keep;
            s->bare = bare;
        }
    }
    tllm_bytes_free(ctx, &b);
    return st;
}

TINY_API tiny_status tllm_stream_end(tiny_ctx *ctx, tllm_stream *s, tllm_bytes *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stream_end: %s is missing", !s ? "the stream" : "out");
    if (!s->n_held) return TINY_OK;
    if ((st = tinyi_bytes_reserve(ctx, out, 3)) != TINY_OK) return st;
    memcpy(out->at + out->n, "\xef\xbf\xbd", 3);
    out->n += 3;
    s->n_held = 0;
    return TINY_OK;
}
