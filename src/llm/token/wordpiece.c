/* src/llm/token/wordpiece.c - WordPiece, as BERT has it
 *
 * Source   Y. Wu et al., "Google's neural machine translation system" (arXiv 1609.08144), and the normaliser of BERT
 *          (J. Devlin et al., arXiv 1810.04805): control characters are dropped, accents stripped, letters lowered.
 *          Each punctuation mark and each Han character is its own word. In a file the start of a word is written
 *          U+2581, and there are no ##.
 * Formula  from the left, the longest token that is a prefix of the rest; a word that cannot be completed is unknown.
 * Cost     linear in the text times the longest token. */
#include "llm/token/parts_inside.h"
#include <string.h>

static int tinyi_wordpiece_alone(uint32_t c, unsigned class_of)
{
    if (class_of == TINYI_UC_P || (c < 0x7f && class_of == TINYI_UC_S)) return 1;
    /* as the converters have it: the last extension begins at 2b920 */
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static tiny_status tinyi_wordpiece_word(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    const tllm_vocab *v = e->v;
    size_t i = 0, before = e->out->n;
    tinyi_kept *slot;
    tiny_status st = TINY_OK;
    if (tinyi_kept_get(e, s, n, &slot, &st)) return st;
    if ((st = tinyi_token_reserve(e->ctx, e->out, n + 1)) != TINY_OK) return st;
    while (i < n) {
        tinyi_trie_at at = tinyi_trie_start();
        size_t k, end = 0;
        int32_t best = -1;
        for (k = i; k < n && tinyi_trie_step(&v->trie, v->blob, &at, s[k]); k++) {
            int32_t id = tinyi_trie_value(&v->trie, &at);
            if (id >= 0) { best = id; end = k + 1; }
        }
        if (best < 0) { e->out->n = before; break; }
        tinyi_encoder_put(e, best);
        i = end;
    }
    if (e->out->n == before) tinyi_encoder_put(e, v->special[TLLM_UNK]);
    tinyi_kept_set(e, s, n, slot, before);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_encode_wordpiece(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    const tllm_vocab *v = e->v;
    size_t i = 0, m = 3;
    tiny_status st = tinyi_encoder_text(e, 3 * n + 16);
    unsigned char *t = e->text;
    if (st) return st;
    memcpy(t, "\xe2\x96\x81", 3);           /* every word begins so */
    while (i <= n) {
        uint32_t c = ' ';
        unsigned k = TINYI_UC_SPACE;
        int alone = 0;
        if (i < n) {
            i += tinyi_utf8_get(s + i, n - i, &c);
            if (v->strip_accents) c = tinyi_unicode_base(c);
            k = tinyi_unicode_class(c);
            if (!(k & TINYI_UC_SPACE)) {
                if (c == 0 || c == TINYI_REPLACEMENT || k == TINYI_UC_C || (v->strip_accents && k == TINYI_UC_M))
                    continue;
                alone = tinyi_wordpiece_alone(c, k);
                if (v->lowercase) c = tinyi_unicode_lower(c);
            }
        } else {
            i++;
        }
        if ((alone || (k & TINYI_UC_SPACE)) && m > 3) {
            if ((st = tinyi_wordpiece_word(e, t, m)) != TINY_OK) return st;
            m = 3;
        }
        if (k & TINYI_UC_SPACE) continue;
        m += tinyi_utf8_put(c, t + m);
        if (alone) {
            if ((st = tinyi_wordpiece_word(e, t, m)) != TINY_OK) return st;
            m = 3;
        }
    }
    return TINY_OK;
}
