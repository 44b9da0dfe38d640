/* src/llm/token/bpe.c - byte-level byte pair encoding
 *
 * Source   A. Radford et al., "Language models are unsupervised multitask learners" (2019): the text is split into
 *          words (split.c), each byte is written as a visible character, and neighbours merge in the order of the list
 *          of merges.
 * Data     a symbol is a token from the start, so a merge is found by two ids. Bytes are mapped to characters only for
 *          vocabularies that use whole words. Some vocabularies (TLLM_PRE_RAW) merge characters instead, with <0xXX>
 *          for the rest.
 * Cost     n log(longest word); each pair is one look-up. */
#include "llm/token/parts_inside.h"
#include <string.h>

TINYI_FN uint32_t tinyi_bpe_disguise(unsigned char byte)
{
    if (byte < 0x21) return 256u + byte;
    if (byte < 0x7f) return byte;
    if (byte < 0xa1) return 256u + 33 + (byte - 0x7fu);
    return byte == 0xad ? 256u + 33 + 34 : byte;
}

TINYI_FN int tinyi_bpe_byte(uint32_t c)
{
    if ((c >= 0x21 && c < 0x7f) || (c >= 0xa1 && c < 0x100 && c != 0xad)) return (int)c;
    if (c < 256 || c > 256 + 67) return -1;
    c -= 256;
    return c < 33 ? (int)c : c < 33 + 34 ? (int)(0x7f + c - 33) : 0xad;
}

/* the token of a whole word, or -1 */
static int32_t tinyi_bpe_whole(const tinyi_encoder *e, const unsigned char *s, size_t n)
{
    unsigned char room[1024];
    size_t i, k = 0;
    if (e->v->pre_flags & TLLM_PRE_RAW) return tinyi_token_find(e->v, s, n);
    if (n > e->v->longest || n > sizeof room / 2) return -1;
    for (i = 0; i < n; i++) k += tinyi_utf8_put(tinyi_bpe_disguise(s[i]), room + k);
    return tinyi_token_find(e->v, room, k);
}

/* symbols that are no token: bytes in disguise are left out, as in other engines; raw ones become byte tokens */
static tiny_status tinyi_bpe_symbols(tinyi_encoder *e, const unsigned char *s, size_t count)
{
    size_t i, k;
    tiny_status st = tinyi_merge_word(e, s, count, 0);
    if (st) return st;
    if ((st = tinyi_token_reserve(e->ctx, e->out, e->pos[e->heap_n] - e->pos[0])) != TINY_OK) return st;
    for (i = 0; i < e->heap_n; i++) {
        if (e->id[i] >= 0) { tinyi_encoder_put(e, e->id[i]); continue; }
        if (e->v->pre_flags & TLLM_PRE_RAW)
            for (k = e->pos[i]; k < e->pos[i + 1]; k++) tinyi_encoder_put(e, e->v->byte_id[s[k]]);
    }
    return TINY_OK;
}

static tiny_status tinyi_bpe_merge(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    const tllm_vocab *v = e->v;
    size_t i, k, last = 0, lines;
    int32_t id;
    tiny_status st;
    if (v->pre_flags & (TLLM_PRE_WHOLE | TLLM_PRE_LINES)) {
        for (lines = 0; lines < n && s[lines] == '\n'; lines++) {}
        if (((v->pre_flags & TLLM_PRE_WHOLE) || lines == n) && (id = tinyi_bpe_whole(e, s, n)) >= 0) {
            if ((st = tinyi_token_reserve(e->ctx, e->out, 1)) != TINY_OK) return st;
            tinyi_encoder_put(e, id);
            return TINY_OK;
        }
    }
    if (!(v->pre_flags & TLLM_PRE_RAW)) {
        if ((st = tinyi_encoder_symbols(e, n)) != TINY_OK) return st;
        for (i = 0; i < n; i++) {
            e->pos[i] = (uint32_t)i;
            e->id[i] = v->byte_id[s[i]];
        }
        e->pos[n] = (uint32_t)n;
        return tinyi_bpe_symbols(e, s, n);
    }
    /* characters; cut where no merge has these two at its seam */
    for (i = 0; i < n; ) {
        size_t from = i, count = 0, at = i, m;
        do {
            last = i;
            i += TINYI_MIN(tinyi_utf8_promise(s[i]), n - i);
            count++;
            if (i == n) break;
            k = TINYI_MIN(tinyi_utf8_promise(s[i]), n - i);
        } while (tinyi_joint_may(v, s + last, i - last, s + i, k));
        if ((st = tinyi_encoder_symbols(e, count)) != TINY_OK) return st;
        for (m = 0; m < count; m++) {
            size_t bytes = TINYI_MIN(tinyi_utf8_promise(s[at]), n - at);
            e->pos[m] = (uint32_t)(at - from);
            e->id[m] = tinyi_token_find(v, s + at, bytes);
            at += bytes;
        }
        e->pos[count] = (uint32_t)(i - from);
        if ((st = tinyi_bpe_symbols(e, s + from, count)) != TINY_OK) return st;
    }
    return TINY_OK;
}

static tiny_status tinyi_bpe_word(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    tinyi_kept *slot;
    size_t from = e->out->n;
    tiny_status st = TINY_OK;
    if (tinyi_kept_get(e, s, n, &slot, &st)) return st;
    st = tinyi_bpe_merge(e, s, n);
    if (!st) tinyi_kept_set(e, s, n, slot, from);
    return st;
}

/* s with impossible bytes as U+FFFD, overlong forms made short, and what the vocabulary wants of blanks and capitals */
static tiny_status tinyi_bpe_clean(tinyi_encoder *e, const unsigned char *s, size_t n, const unsigned char **clean,
                                   size_t *n_clean)
{
    const tllm_vocab *v = e->v;
    int blanks = (v->pre_flags & TLLM_PRE_BLANKS) != 0, lower = (v->pre_flags & TLLM_PRE_DROP_SPACE) && v->lowercase;
    size_t i, m = 0;
    tiny_status st;
    *clean = s;
    *n_clean = n;
    if (!blanks && !lower && tinyi_utf8_plain(s, n) == n) return TINY_OK;
    if ((st = tinyi_encoder_text(e, 3 * n + 8)) != TINY_OK) return st;
    for (i = 0; i < n; ) {
        uint32_t c;
        i += tinyi_utf8_get(s + i, n - i, &c);
        if (blanks && c == ' ') c = 0x2581;
        if (lower) c = tinyi_unicode_lower(c);
        m += tinyi_utf8_put(c, e->text + m);
    }
    *clean = e->text;
    *n_clean = m;
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_encode_bpe(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    tinyi_split sp;
    size_t begin, end;
    tiny_status st = tinyi_bpe_clean(e, s, n, &s, &n);
    if (st) return st;
    tinyi_split_start(&sp, e->v->pre->rule, s, n);
    while (tinyi_split_next(&sp, &begin, &end)) {
        uint32_t c;
        (void)tinyi_utf8_get(s + begin, end - begin, &c);
        if ((e->v->pre_flags & TLLM_PRE_DROP_SPACE) && (tinyi_unicode_class(c) & TINYI_UC_SPACE)) continue;
        if ((st = tinyi_bpe_word(e, s + begin, end - begin)) != TINY_OK) return st;
    }
    return TINY_OK;
}
