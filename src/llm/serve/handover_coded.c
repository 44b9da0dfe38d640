/* src/llm/serve/handover_coded.c - the keys and values of a kept text by the cache codec, for another worker
 *
 * Body     little endian: u64 fingerprint of the model, u32 rope of long contexts (0, 1), u32 zero; then one chunk of
 *          llm/lab/kvcodec/kvcodec.c with all tokens of the prompt. Each byte of the head is compared, and the chunk
 *          has a CRC-32: so no changed byte is taken.
 * Plain    What the codec cannot do, and what does not get smaller, travels as tllm_engine_pack writes it.
 * Error    llm/lab/kvcodec/kvcodec.c has the bound of each number. The slot is marked: its keys and values are for this
 *          request alone, so that no other text changes. */
#include "llm/serve/handover_inside.h"
#include "llm/lab/kvcodec/kv_inside.h"
#include "llm/model/model_inside.h"
#include <string.h>

enum { TINYI_HAND_CODED_HEAD = 16 };

static void tinyi_hand_coded_head(const tllm_state *s, unsigned char head[TINYI_HAND_CODED_HEAD])
{
    tinyi_put_le(head, tinyi_lm_fingerprint(s), 8);
    tinyi_put_le(head + 8, (uint64_t)tinyi_lm_long_rope(s), 4);
    tinyi_put_le(head + 12, 0, 4);
}

TINYI_FN tiny_status tinyi_hand_tables(tllm_engine *e, const tllm_kvcodec_tables *tables)
{
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width;
    tiny_status st = tinyi_kvs_view_at(e->state, 0, &v, &kv, &width);
    if (!st) st = tinyi_kvc_width_check(e->ctx, &tables->shape, kv.n_layer, kv.width);
    tiny_free(e->ctx, width);
    return st;
}

TINYI_FN tiny_status tinyi_hand_code(tllm_engine *e, uint64_t id, int level, const tllm_kvcodec_tables *tables,
                                     void **bytes, size_t *n)
{
    const tiny_idx at = tinyi_kept_slot(e, id);
    tllm_kvcodec_desc d;
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width = NULL;
    void *chunk = NULL;
    size_t n_chunk = 0;
    tiny_status st;
    *bytes = NULL;
    *n = 0;
    if (at < 0 || e->slot[at].inexact || !e->slot[at].n) return TINY_OK;
    memset(&d, 0, sizeof d);
    d.level = level;
    d.n_token = (tiny_idx)e->slot[at].n;
    d.alone = tables == NULL;
    st = tinyi_kvs_view_at(e->state, at, &v, &kv, &width);
    if (!st) st = tllm_kvcodec_encode(e->ctx, tables, &kv, &d, &chunk, &n_chunk);
    if (!st && n_chunk + TINYI_HAND_CODED_HEAD < tllm_engine_bytes(e, e->slot[at].n)) {
        unsigned char *to = (unsigned char *)tiny_alloc(e->ctx, n_chunk + TINYI_HAND_CODED_HEAD);
        if (to) {
            tinyi_hand_coded_head(e->state, to);
            memcpy(to + TINYI_HAND_CODED_HEAD, chunk, n_chunk);
            *bytes = to;
            *n = n_chunk + TINYI_HAND_CODED_HEAD;
        } else st = tiny_ctx_status(e->ctx);
    }
    tiny_free(e->ctx, chunk);
    tiny_free(e->ctx, width);
    /* numbers beyond the codec's, and layers that it does not have: plain */
    return st == TINY_E_MEMORY || st == TINY_E_CANCELLED ? st : TINY_OK;
}

/* All is checked before a slot changes. */
static tiny_status tinyi_hand_coded_check(tllm_engine *e, const tllm_kvcodec_tables *tables, const unsigned char *bytes,
                                          size_t n, size_t n_prompt, const tllm_kv *kv)
{
    unsigned char want[TINYI_HAND_CODED_HEAD];
    tllm_kvcodec_about about;
    tiny_status st;
    tinyi_hand_coded_head(e->state, want);
    if (n < sizeof want || memcmp(bytes, want, sizeof want))
        return tinyi_fail(e->ctx, TINY_E_FORMAT,
                          "the coded keys and values belong to another model or another length of contexts");
    st = tinyi_kvc_check(e->ctx, tables, bytes + sizeof want, n - sizeof want, kv, &about);
    if (st == TINY_E_SHAPE || st == TINY_E_ARGUMENT || st == TINY_E_WORKSPACE) {
        char says[TINYI_HAND_SAYS];
        tinyi_keep_says(says, sizeof says, tiny_ctx_message(e->ctx));
        return tinyi_fail(e->ctx, TINY_E_FORMAT, "%s", says);
    }
    if (!st && (about.first || about.chunk || (size_t)about.n_token != n_prompt))
        st = tinyi_fail(e->ctx, TINY_E_FORMAT,
                        "the coded keys and values are those of %td tokens from %td on, but the prompt has %zu",
                        about.n_token, about.first, n_prompt);
    return st;
}

TINYI_FN tiny_status tinyi_hand_uncode(tllm_engine *e, uint64_t id, const tllm_kvcodec_tables *tables,
                                       const unsigned char *bytes, size_t n, const int32_t *prompt, size_t n_prompt)
{
    tllm_state *s = e->state;
    const tiny_idx blocks = ((tiny_idx)n_prompt + s->pages.block - 1) / s->pages.block;
    tllm_page_copy copy;
    tinyi_kvs_view v;
    tllm_kv kv;
    int32_t *width = NULL;
    tiny_idx at = -1, i;
    tiny_status st = tinyi_kvs_view_at(s, 0, &v, &kv, &width);
    if (!st) st = tinyi_hand_coded_check(e, tables, bytes, n, n_prompt, &kv);
    if (!st) st = tinyi_kept_place(e, "the handover", id, bytes, &at);
    while (!st && blocks > tinyi_lm_seq_room(s, at))
        if (!tinyi_engine_evict(e, at))
            st = tinyi_fail(e->ctx, TINY_E_WORKSPACE, "the text needs %td pages, but there are %td now", blocks,
                            tinyi_lm_seq_room(s, at));
    if (!st) {
        v.seq = at;
        st = tllm_pages_append(&s->pages, at, (tiny_idx)n_prompt, &copy);
        for (i = 0; i < (tiny_idx)n_prompt && !st; i++) s->pos[at * s->n_ctx + i] = (int32_t)i;
        if (!st) st = tllm_kvcodec_decode(e->ctx, tables, bytes + TINYI_HAND_CODED_HEAD, n - TINYI_HAND_CODED_HEAD,
                                          &kv);
        if (st) tinyi_slot_empty(e, at);
    }
    if (!st) {
        memcpy(e->slot[at].token, prompt, n_prompt * sizeof *prompt);
        tinyi_kept_hold(e, at, id, n_prompt);
        e->slot[at].inexact = 1;
    }
    tiny_free(e->ctx, width);
    return st;
}
