/* src/llm/token/unigram.c - unigram language models (T5), their character map, and the suffix form of PLaMo 2
 *
 * Source   T. Kudo, "Subword regularization", ACL 2018 (arXiv 1804.10959): the segmentation with the greatest sum of
 *          scores, found by the Viterbi algorithm, forwards, with double sums. A character that is not a token has the
 *          lowest score minus 10. It is written in byte tokens if the vocabulary has all 256 (mT5); otherwise a run of
 *          such characters becomes one unknown token.
 *          The character map is a double array trie, XOR-compressed (S. Kanda, 2018), over byte strings, followed by
 *          their replacements; the longest match at each position is used.
 * Cost     linear in the text times the longest token. */
#include "llm/token/parts_inside.h"
#include <string.h>

typedef struct tinyi_unigram_best { double sum; uint32_t from; int32_t id; } tinyi_unigram_best;

static uint32_t tinyi_unigram_unit(const tllm_vocab *v, size_t i)
{
    return tinyi_le32(v->charsmap + 4 + 4 * i);
}

/* A unit: bit 31 marks a value, 9 a far base, 8 a leaf; bits 0-7 the byte that leads here, 10-30 the base. */
static size_t tinyi_unigram_mapped(const tllm_vocab *v, const unsigned char *s, size_t n, uint32_t *value)
{
    size_t i, best = 0;
    uint32_t node, unit;
    if (!v->n_charsmap_units) return 0;
    unit = tinyi_unigram_unit(v, 0);
    node = unit >> 10 << ((unit & 1u << 9) >> 6);
    for (i = 0; i < n && s[i]; i++) {
        node ^= s[i];
        if (node >= v->n_charsmap_units) break;
        unit = tinyi_unigram_unit(v, node);
        if ((unit & (1u << 31 | 255u)) != s[i]) break;
        node ^= unit >> 10 << ((unit & 1u << 9) >> 6);
        if (unit >> 8 & 1) {
            if (node >= v->n_charsmap_units) break;
            best = i + 1;
            *value = tinyi_unigram_unit(v, node) & 0x7fffffffu;
        }
    }
    return best;
}

/* The next stretch of normal text at s: its bytes in *t, and how many of s it stands for. */
static tiny_status tinyi_unigram_normal(const tinyi_encoder *e, const unsigned char *s, size_t n,
                                        const unsigned char **t, size_t *n_t, size_t *used)
{
    const tllm_vocab *v = e->v;
    unsigned char spelt[4];
    uint32_t value = 0, c;
    *t = s;
    if ((*used = tinyi_unigram_mapped(v, s, n, &value)) != 0) {
        size_t from = 4 + 4 * v->n_charsmap_units;
        if (value >= v->n_charsmap - from)
            return tinyi_fail(e->ctx, TINY_E_FORMAT,
                              "precompiled_charsmap: a replacement at %lu, but there are %lu bytes of them",
                              (unsigned long)value, (unsigned long)(v->n_charsmap - from));
        *t = v->charsmap + from + value;
        *n_t = strlen((const char *)*t);    /* the last byte of the map is 0: the open made sure */
        return TINY_OK;
    }
    *used = *n_t = tinyi_utf8_get(s, n, &c);
    /* no UTF-8, overlong, half a pair: each byte is one U+FFFD */
    if (tinyi_utf8_put(c, spelt) != *used || c >> 11 == 0x1b) {
        *t = (const unsigned char *)"\xef\xbf\xbd";
        *n_t = 3;
        *used = 1;
    }
    return TINY_OK;
}

/* begins: no special token is before s. Blanks that merge mark the word after them; where a text begins, only the
 * blank that the vocabulary puts there itself counts. */
static tiny_status tinyi_unigram_normalize(tinyi_encoder *e, const unsigned char *s, size_t n, int begins,
                                           size_t *n_out)
{
    const tllm_vocab *v = e->v;
    size_t i = 0, m = 0, k;
    int prefixed = 0, inside = 0, blank = 0;
    while (i < n) {
        const unsigned char *t;
        size_t n_t = 0, used = 0;
        void *room = e->text;
        tiny_status st = tinyi_unigram_normal(e, s + i, n - i, &t, &n_t, &used);
        if (st) return st;
        if (n_t > SIZE_MAX / 8 - m)
            return tinyi_fail(e->ctx, TINY_E_OVERFLOW, "encode: the normal form of the text is too long");
        st = tinyi_token_grow(e->ctx, &room, m, &e->text_room, m + 4 * n_t, 1);
        e->text = (unsigned char *)room;
        if (st) return st;
        for (k = 0; k < n_t; k++) {
            int mark = 0;
            if (t[k] == ' ') {
                inside = 0;
                blank = 1;
                mark = !v->merge_spaces;
            } else if (!inside) {
                inside = 1;
                mark = (v->add_space_prefix && !prefixed) || (v->merge_spaces && blank && (m || !begins));
                prefixed = 1;
            }
            if (mark) { memcpy(e->text + m, "\xe2\x96\x81", 3); m += 3; }
            if (t[k] != ' ') e->text[m++] = t[k];
        }
        i += used;
    }
    /* nothing but blanks: the one in front is there too */
    if (v->add_space_prefix && !v->merge_spaces && n && !prefixed) {
        void *room = e->text;
        tiny_status st = tinyi_token_grow(e->ctx, &room, m, &e->text_room, m + 3, 1);
        e->text = (unsigned char *)room;
        if (st) return st;
        memcpy(e->text + m, "\xe2\x96\x81", 3);
        m += 3;
    }
    *n_out = m;
    return TINY_OK;
}

/* the tokens of the way back from the end: how many, or, with to, written so that they end there */
static size_t tinyi_unigram_back(const tllm_vocab *v, const unsigned char *s, const tinyi_unigram_best *best, size_t m,
                                 int32_t *to)
{
    const int32_t unk = v->special[TLLM_UNK];
    size_t i, k, count = 0;
    int was_unknown = 0;
    for (i = m; i; i = best[i].from) {
        const int unknown = best[i].id == unk;
        if (unknown && v->byte_fallback) {
            for (k = i; k > best[i].from; k--) {
                count++;
                if (to) *--to = v->byte_id[s[k - 1]];
            }
        } else if (!(unknown && was_unknown)) {
            count++;
            if (to) *--to = best[i].id;
        }
        was_unknown = unknown;
        if (best[i].from >= i) break;
    }
    return count;
}

TINYI_FN tiny_status tinyi_encode_unigram(tinyi_encoder *e, const unsigned char *s, size_t n, int begins)
{
    const tllm_vocab *v = e->v;
    tinyi_unigram_best *best;
    int32_t unk = v->special[TLLM_UNK];
    size_t i, k, m = 0, count, first;
    tiny_status st = tinyi_unigram_normalize(e, s, n, begins, &m);
    if (st || !m) return st;
    if (m > UINT32_MAX - 8)
        return tinyi_fail(e->ctx, TINY_E_OVERFLOW, "encode: the normal form of the text is too long");
    s = e->text;
    best = (tinyi_unigram_best *)tinyi_alloc(e->ctx, m + 1, sizeof *best);
    if (!best) return tiny_ctx_status(e->ctx);
    for (i = 0; i <= m; i++) {
        best[i].sum = i ? -1e300 : 0;
        best[i].from = 0;
        best[i].id = unk;
    }
    for (i = 0; i < m; ) {
        tinyi_trie_at at = tinyi_trie_start();
        size_t step = TINYI_MIN(tinyi_utf8_promise(s[i]), m - i);
        int single = 0;
        double sum;
        for (k = i; k < m && tinyi_trie_step(&v->trie, v->blob, &at, s[k]); k++) {
            int32_t id = tinyi_trie_value(&v->trie, &at);
            if (id < 0) continue;
            if (k + 1 - i == step) single = 1;
            sum = best[i].sum + ((v->what[id] & TINYI_TOK_USER) || !v->score ? 0.0 : (double)v->score[id]);
            if (sum > best[k + 1].sum) { best[k + 1].sum = sum; best[k + 1].from = (uint32_t)i; best[k + 1].id = id; }
        }
        if (!single) {
            sum = best[i].sum + v->unknown_score;
            if (sum > best[i + step].sum) {
                best[i + step].sum = sum;
                best[i + step].from = (uint32_t)i;
                best[i + step].id = unk;
            }
        }
        i += step;
    }
    count = tinyi_unigram_back(v, s, best, m, NULL);
    st = tinyi_token_reserve(e->ctx, e->out, count);
    if (!st) {
        first = e->out->n;
        e->out->n += count;
        (void)tinyi_unigram_back(v, s, best, m, e->out->id + e->out->n);
        if (unk < 0 && !v->byte_fallback) { /* no unknown token: nothing replaces it */
            for (i = k = first; i < e->out->n; i++) if (e->out->id[i] >= 0) e->out->id[k++] = e->out->id[i];
            e->out->n = k;
        }
    }
    tiny_free(e->ctx, best);
    return st;
}

/* PLaMo 2: the least cost, found backwards in integers of a ten thousandth; a character that is no token costs 1000 and
 * is written in byte tokens. Of equal costs the longer token. */
TINYI_FN tiny_status tinyi_encode_plamo2(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    const tllm_vocab *v = e->v;
    const double unknown = 1e7, most = 2e7;
    tinyi_unigram_best *best;
    size_t i, k, m = 0;
    tiny_status st = tinyi_encoder_text(e, 3 * n + 8);
    if (st) return st;
    for (i = 0; i < n; ) {
        uint32_t c;
        size_t from = i;
        i += tinyi_utf8_get(s + i, n - i, &c);
        if (c == 0xfeff && from == 0) continue;
        m += tinyi_utf8_put(c, e->text + m);
    }
    if (!m) return TINY_OK;
    s = e->text;
    if ((st = tinyi_token_reserve(e->ctx, e->out, m)) != TINY_OK) return st;
    best = (tinyi_unigram_best *)tinyi_alloc(e->ctx, m + 1, sizeof *best);
    if (!best) return tiny_ctx_status(e->ctx);
    for (i = 0; i <= m; i++) { best[i].sum = 1e300; best[i].from = 0; best[i].id = -1; }
    best[m].sum = 0;
    for (i = m; i-- > 0; ) {
        tinyi_trie_at at = tinyi_trie_start();
        size_t step = tinyi_utf8_promise(s[i]);
        if ((s[i] & 0xc0) == 0x80) continue;
        for (k = i; k < m && tinyi_trie_step(&v->trie, v->blob, &at, s[k]); k++) {
            int32_t id = tinyi_trie_value(&v->trie, &at);
            double cost;
            if (id < 0) continue;
            cost = v->score ? (double)v->score[id] * -1e4 : 0;
            if (!(cost < most && cost > -2147483647.0)) continue;
            cost = (double)(int32_t)(cost < 0 ? cost - 0.5 : cost + 0.5);
            if (best[k + 1].sum + cost <= best[i].sum) {
                best[i].sum = best[k + 1].sum + cost;
                best[i].from = (uint32_t)(k + 1);
                best[i].id = id;
            }
        }
        if (i + step <= m && best[i + step].sum + unknown < best[i].sum) {
            best[i].sum = best[i + step].sum + unknown;
            best[i].from = (uint32_t)(i + step);
            best[i].id = -1;
        }
    }
    for (i = 0; i < m; i = k) {
        k = best[i].from > i ? best[i].from : m;
        if (best[i].id >= 0) tinyi_encoder_put(e, best[i].id);
        else for (; i < k; i++) tinyi_encoder_put(e, v->byte_id[s[i]]);
    }
    tiny_free(e->ctx, best);
    return TINY_OK;
}
