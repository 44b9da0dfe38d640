/* src/llm/token/spm.c - SentencePiece vocabularies with scores: joins the neighbours whose token has the best score
 *
 * Source   T. Kudo, J. Richardson, "SentencePiece", EMNLP 2018 (arXiv 1808.06226), the BPE form. A character that is
 *          not a token falls back to one token per byte. If the vocabulary has no byte tokens, a run of such characters
 *          becomes one unknown token.
 * Data     blanks are written U+2581. If no token has two given characters next to each other, no join can cross them.
 *          The text is split there first: into words, in almost all vocabularies. The result is the same, and the heap
 *          stays small.
 * Cost     n log(longest piece between splits); each look-up hashes at most the bytes of the longest token. */
#include "llm/token/parts_inside.h"
#include <string.h>

/* Bytes of the symbol at t: as many as its first byte promises, whatever they are, but none of a blank after it: one
 * token a byte would give that back as U+2581. */
static size_t tinyi_spm_symbol(const unsigned char *t, size_t n)
{
    const size_t most = TINYI_MIN(tinyi_utf8_promise(t[0]), n);
    size_t k;
    for (k = 1; k < most; k++) if (t[k] == 0xe2 && n - k >= 3 && t[k + 1] == 0x96 && t[k + 2] == 0x81) return k;
    return most;
}

/* one piece between cuts, e->pos set */
static tiny_status tinyi_spm_word(tinyi_encoder *e, const unsigned char *s, size_t n_symbols)
{
    size_t i;
    tiny_status st = tinyi_merge_word(e, s, n_symbols, 1);
    if (st) return st;
    if ((st = tinyi_token_reserve(e->ctx, e->out, e->pos[e->heap_n] - e->pos[0])) != TINY_OK) return st;
    for (i = 0; i < e->heap_n; i++) {
        const unsigned char *p = s + e->pos[i];
        size_t n = e->pos[i + 1] - e->pos[i], k;
        int32_t id = tinyi_token_find(e->v, p, n);
        if (id >= 0) { tinyi_encoder_put(e, id); continue; }
        for (k = 0; k < n; k++) tinyi_encoder_put(e, e->v->byte_id[p[k]]);
    }
    return TINY_OK;
}

/* one piece after the other: the room for symbols is that of the longest; the first pass over a piece counts it */
static tiny_status tinyi_spm_pieces(tinyi_encoder *e, const unsigned char *t, size_t m)
{
    size_t i, k, from, last = 0, symbols, before;
    tinyi_kept *slot;
    tiny_status st;
    for (i = 0; i < m; ) {
        size_t to = i, count = 0;
        from = i;
        do {
            last = to;
            to += tinyi_spm_symbol(t + to, m - to);
            count++;
            if (to == m) break;
            k = tinyi_spm_symbol(t + to, m - to);
        } while (tinyi_joint_may(e->v, t + last, to - last, t + to, k));
        before = e->out->n;
        if (tinyi_kept_get(e, t + i, to - i, &slot, &st)) {
            if (st) return st;
            i = to;
            continue;
        }
        if ((st = tinyi_encoder_symbols(e, count)) != TINY_OK) return st;
        for (symbols = 0; symbols < count; symbols++) {
            e->pos[symbols] = (uint32_t)from;
            from += tinyi_spm_symbol(t + from, m - from);
        }
        e->pos[count] = (uint32_t)to;
        if ((st = tinyi_spm_word(e, t, count)) != TINY_OK) return st;
        tinyi_kept_set(e, t + i, to - i, slot, before);
        i = to;
    }
    return TINY_OK;
}

/* neighbours that are unknown become one */
static void tinyi_spm_join_unknown(tllm_tokens *out, size_t first, int32_t unk)
{
    size_t i, k = first;
    for (i = first; i < out->n; i++)
        if (out->id[i] != unk || i == first || out->id[i - 1] != unk) out->id[k++] = out->id[i];
    out->n = k;
}

TINYI_FN tiny_status tinyi_encode_spm(tinyi_encoder *e, const unsigned char *s, size_t n, int prefix)
{
    const size_t first = e->out->n;
    size_t i, m = 0, blanks = prefix ? 1 : 0;
    unsigned char *t;
    tiny_status st;
    for (i = 0; i < n; i++) blanks += s[i] == ' ';
    if ((st = tinyi_encoder_text(e, n + 2 * blanks + 1)) != TINY_OK) return st;
    t = e->text;
    for (i = prefix ? 0 : 1; i <= n; i++) {
        if (i && s[i - 1] != ' ') { t[m++] = s[i - 1]; continue; }
        t[m++] = 0xe2;
        t[m++] = 0x96;
        t[m++] = 0x81;
    }
    st = tinyi_spm_pieces(e, t, m);
    if (!st && !e->v->byte_fallback) tinyi_spm_join_unknown(e->out, first, e->v->special[TLLM_UNK]);
    return st;
}
