/* src/llm/token/rwkv.c - the vocabulary of RWKV: the longest token at each position
 *
 * Source   B. Peng, RWKV "world" tokenizer: a trie over bytes, greedy. Files write its tokens with escapes (\n, \t, \r,
 *          \xHH, and a backslash before anything else); vocab.c has already resolved them.
 * Cost     linear in the text times the longest token. */
#include "llm/token/parts_inside.h"

TINYI_FN tiny_status tinyi_encode_rwkv(tinyi_encoder *e, const unsigned char *s, size_t n)
{
    const tllm_vocab *v = e->v;
    size_t i = 0;
    while (i < n) {
        tinyi_trie_at at = tinyi_trie_start();
        size_t k, end = i + 1;
        int32_t best = v->special[TLLM_UNK];
        tiny_status st = tinyi_token_reserve(e->ctx, e->out, 1);
        if (st) return st;
        for (k = i; k < n && tinyi_trie_step(&v->trie, v->blob, &at, s[k]); k++) {
            int32_t id = tinyi_trie_value(&v->trie, &at);
            if (id >= 0) { best = id; end = k + 1; }
        }
        tinyi_encoder_put(e, best);
        i = end;
    }
    return TINY_OK;
}
