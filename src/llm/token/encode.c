/* src/llm/token/encode.c - text to tokens: special tokens first, then the text between them by the kind of vocabulary
 *
 * Special tokens are found in the order of the engine that most files are made for: the longest one first, wherever it
 * is, then the next longest in the remaining text. Each position is searched once with a trie. A match that overlaps a
 * longer token is retried with a shorter one, from a heap. Time is linear in the text if special tokens do not overlap,
 * else n log n. */
#include "llm/token/parts_inside.h"
#include <string.h>

/* ---- special tokens in a text ---------------------------------------------------------------------------------- */

/* the longest first, then the leftmost */
#define TINYI_FOUND_KEY(at, n) ((uint64_t)(UINT32_MAX - (uint32_t)(n)) << 32 | (uint32_t)(at))

typedef struct tinyi_finder {
    tiny_ctx *ctx;
    const tllm_vocab *v;
    const unsigned char *s;
    size_t n;
    unsigned skip;                          /* kinds that are text here */
    uint64_t *key, *spare, *again;          /* (room) found; a heap of what must be found shorter */
    size_t n_key, room, n_again, again_room;
    uint32_t *taken;                        /* bits */
    uint64_t *won;                          /* at << 32 | length */
    size_t n_won, won_room;
} tinyi_finder;

/* the longest special token at p of at most most bytes */
static size_t tinyi_finder_at(const tinyi_finder *f, size_t p, size_t most, int32_t *id)
{
    tinyi_trie_at at = tinyi_trie_start();
    size_t k, best = 0;
    for (k = p; k < f->n && k - p < most && tinyi_trie_step(&f->v->special_trie, f->v->blob, &at, f->s[k]); k++) {
        int32_t t = tinyi_trie_value(&f->v->special_trie, &at);
        if (t < 0 || (f->v->what[t] & f->skip)) continue;
        best = k + 1 - p;
        *id = t;
    }
    return best;
}

static int tinyi_finder_taken(const tinyi_finder *f, size_t p) { return (int)(f->taken[p >> 5] >> (p & 31) & 1); }
static void tinyi_finder_take(tinyi_finder *f, size_t p) { f->taken[p >> 5] |= (uint32_t)1 << (p & 31); }
static int tinyi_finder_space(unsigned char c) { return c == ' ' || (c >= 9 && c <= 13); }

static tiny_status tinyi_finder_push(tiny_ctx *ctx, uint64_t **list, size_t *n, size_t *room, uint64_t x)
{
    void *p = *list;
    tiny_status st = tinyi_token_grow(ctx, &p, *n, room, *n + 1, sizeof **list);
    *list = (uint64_t *)p;
    if (!st) (*list)[(*n)++] = x;
    return st;
}

/* One place and length: taken when nothing of it is; found shorter when its end is. */
static tiny_status tinyi_finder_try(tinyi_finder *f, uint64_t key)
{
    size_t p = (size_t)(key & UINT32_MAX), n = (size_t)(UINT32_MAX - (uint32_t)(key >> 32)), k;
    int32_t id = -1;
    tiny_status st;
    for (k = 0; k < n && !tinyi_finder_taken(f, p + k); k++) {}
    if (k < n) {
        n = k ? tinyi_finder_at(f, p, k, &id) : 0;
        if (!n) return TINY_OK;
        if ((st = tinyi_finder_push(f->ctx, &f->again, &f->n_again, &f->again_room, TINYI_FOUND_KEY(p, n))) != TINY_OK)
            return st;
        tinyi_heap_up(f->again, f->n_again - 1);
        return TINY_OK;
    }
    (void)tinyi_finder_at(f, p, n, &id);
    for (k = 0; k < n; k++) tinyi_finder_take(f, p + k);
    if (f->v->what[id] & TINYI_TOK_LSTRIP)
        for (k = p; k > 0 && tinyi_finder_space(f->s[k - 1]) && !tinyi_finder_taken(f, k - 1); k--)
            tinyi_finder_take(f, k - 1);
    if (f->v->what[id] & TINYI_TOK_RSTRIP)
        for (k = p + n; k < f->n && tinyi_finder_space(f->s[k]) && !tinyi_finder_taken(f, k); k++)
            tinyi_finder_take(f, k);
    return tinyi_finder_push(f->ctx, &f->won, &f->n_won, &f->won_room, (uint64_t)p << 32 | n);
}

static void tinyi_finder_close(tinyi_finder *f)
{
    tiny_free(f->ctx, f->key);
    tiny_free(f->ctx, f->spare);
    tiny_free(f->ctx, f->again);
    tiny_free(f->ctx, f->taken);
    tiny_free(f->ctx, f->won);
}

/* Fills won, in the order of the text; taken stays NULL when no two overlap and none strips. */
static tiny_status tinyi_finder_run(tinyi_finder *f)
{
    size_t p, i, before = 0;
    int plain = 1;
    tiny_status st;
    unsigned first = f->skip ? 2 : 1;
    if (!f->v->special_trie.node) return TINY_OK;
    for (p = 0; p < f->n; p++) {
        int32_t id = -1;
        size_t n;
        if (!(f->v->special_first[f->s[p]] & first)) continue;
        if ((n = tinyi_finder_at(f, p, f->n, &id)) == 0) continue;
        if (p < before || (f->v->what[id] & (TINYI_TOK_LSTRIP | TINYI_TOK_RSTRIP))) plain = 0;
        if (p + n > before) before = p + n;
        if ((st = tinyi_finder_push(f->ctx, &f->key, &f->n_key, &f->room, TINYI_FOUND_KEY(p, n))) != TINY_OK) return st;
    }
    if (!f->n_key) return TINY_OK;
    if (!plain) {
        f->taken = (uint32_t *)tinyi_alloc(f->ctx, f->n / 32 + 1, sizeof *f->taken);
        f->spare = (uint64_t *)tinyi_alloc(f->ctx, f->n_key, sizeof *f->spare);
        if (!f->taken || !f->spare) return tiny_ctx_status(f->ctx);
        memset(f->taken, 0, (f->n / 32 + 1) * sizeof *f->taken);
        tinyi_token_sort(f->key, f->spare, f->n_key);
        tiny_free(f->ctx, f->spare);
        f->spare = NULL;
    }
    for (i = 0; i < f->n_key || f->n_again; ) {
        uint64_t key;
        if (f->n_again && (i >= f->n_key || f->again[0] < f->key[i])) {
            key = f->again[0];
            f->again[0] = f->again[--f->n_again];
            if (f->n_again) tinyi_heap_down(f->again, f->n_again, 0);
        } else {
            key = f->key[i++];
        }
        if (plain)
            st = tinyi_finder_push(f->ctx, &f->won, &f->n_won, &f->won_room,
                                   (key & UINT32_MAX) << 32 | (UINT32_MAX - (uint32_t)(key >> 32)));
        else st = tinyi_finder_try(f, key);
        if (st) return st;
    }
    if (!plain) {
        f->spare = (uint64_t *)tinyi_alloc(f->ctx, f->n_won, sizeof *f->spare);
        if (!f->spare) return tiny_ctx_status(f->ctx);
        tinyi_token_sort(f->won, f->spare, f->n_won);
    }
    return TINY_OK;
}

/* ---- text to tokens -------------------------------------------------------------------------------------------- */

/* begins: nothing, not even a special token, comes before */
static tiny_status tinyi_vocab_piece_of(tinyi_encoder *e, const unsigned char *s, size_t n, int after_special,
                                        int begins)
{
    switch (TINYI_VOCAB_KIND(e->v)) {
    case TLLM_VOCAB_SPM: return tinyi_encode_spm(e, s, n, e->v->add_space_prefix && after_special);
    case TLLM_VOCAB_BPE: return tinyi_encode_bpe(e, s, n);
    case TLLM_VOCAB_WORDPIECE: return tinyi_encode_wordpiece(e, s, n);
    case TLLM_VOCAB_UNIGRAM: return tinyi_encode_unigram(e, s, n, begins);
    case TLLM_VOCAB_RWKV: return tinyi_encode_rwkv(e, s, n);
    case TLLM_VOCAB_PLAMO2: return tinyi_encode_plamo2(e, s, n);
    case TLLM_VOCAB_NONE: break;
    }
    return TINY_OK;
}

static tiny_status tinyi_vocab_put(tinyi_encoder *e, int32_t id)
{
    tiny_status st = tinyi_token_reserve(e->ctx, e->out, 1);
    if (!st) tinyi_encoder_put(e, id);
    return st;
}

static tiny_status tinyi_vocab_encode(tinyi_encoder *e, tinyi_finder *f, unsigned flags)
{
    const tllm_vocab *v = e->v;
    int ends = (flags & TLLM_ENCODE_ENDS) && TINYI_VOCAB_KIND(v) != TLLM_VOCAB_RWKV &&
               TINYI_VOCAB_KIND(v) != TLLM_VOCAB_PLAMO2;
    int cls = TINYI_VOCAB_KIND(v) == TLLM_VOCAB_WORDPIECE, after_special = !(flags & TINYI_ENCODE_AFTER);
    size_t at = 0, i;
    tiny_status st = tinyi_finder_run(f);
    if (!st && ends && (v->add_bos || cls)) st = tinyi_vocab_put(e, v->special[TLLM_BOS]);
    for (i = 0; !st && i <= f->n_won; i++) {
        size_t p = i < f->n_won ? (size_t)(f->won[i] >> 32) : f->n, from = at, to = p;
        int32_t id = -1;
        if (f->taken) {                     /* white space that a special token swallowed */
            while (from < to && tinyi_finder_taken(f, from)) from++;
            while (from < to && tinyi_finder_taken(f, to - 1)) to--;
        }
        if (from < to) {
            st = tinyi_vocab_piece_of(e, f->s + from, to - from, after_special,
                                      i == 0 && !(flags & TINYI_ENCODE_AFTER));
            after_special = 0;
        }
        if (st || i == f->n_won) break;
        at = p + (size_t)(f->won[i] & UINT32_MAX);
        (void)tinyi_finder_at(f, p, at - p, &id);
        st = tinyi_vocab_put(e, id);
        after_special = 1;
    }
    if (!st && ends && cls) st = tinyi_vocab_put(e, v->special[TLLM_SEP]);
    if (!st && ends && !cls && v->add_eos) st = tinyi_vocab_put(e, v->special[TLLM_EOS]);
    return st;
}

TINY_API tiny_status tllm_encode(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags,
                                 tllm_tokens *out)
{
    tinyi_encoder e;
    tinyi_finder f;
    size_t before;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!v || !out || (n && !text))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "encode: %s is missing",
                          !v     ? "the vocabulary"
                          : !out ? "out"
                                 : "the text");
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_NONE)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "encode: the file of this model has no vocabulary");
    if (n > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "encode: a text of %lu bytes, but the limit of one call is %ld",
                          (unsigned long)n, (long)INT32_MAX);
    memset(&e, 0, sizeof e);
    memset(&f, 0, sizeof f);
    e.ctx = f.ctx = ctx;
    e.v = f.v = v;
    e.out = out;
    f.s = (const unsigned char *)text;
    f.n = n;
    f.skip = flags & TLLM_ENCODE_SPECIAL ? 0u : (unsigned)(TINYI_TOK_CONTROL | TINYI_TOK_UNKNOWN);
    before = out->n;
    if (n > 4096 && (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_SPM || TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE ||
                     TINYI_VOCAB_KIND(v) == TLLM_VOCAB_WORDPIECE)) {
        e.kept = (tinyi_kept *)tinyi_alloc(ctx, TINYI_KEPT_WORDS, sizeof *e.kept);
        if (!e.kept) return tiny_ctx_status(ctx);
        memset(e.kept, 0, TINYI_KEPT_WORDS * sizeof *e.kept);
    }
    st = tinyi_vocab_encode(&e, &f, flags);
    if (st) out->n = before;
    tiny_free(ctx, e.kept);
    tinyi_finder_close(&f);
    tinyi_encoder_free_symbols(&e);
    tiny_free(ctx, e.text);
    return st;
}

TINY_API void tllm_tokens_free(tiny_ctx *ctx, tllm_tokens *t)
{
    if (!t) return;
    tiny_free(ctx, t->id);
    memset(t, 0, sizeof *t);
}
