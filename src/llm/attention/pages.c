/* src/llm/attention/pages.c - blocks, tables, holders
 *
 * Invariants  a block is free, or its holders are the number of tables that name it (each names it once)
 *             a block at index i of one table is at index i of every table that names it, after the same blocks: a
 *             sequence that holds a block also holds all blocks before it
 *             only the last block of a sequence may be partly full; one with several holders is never written
 *             a hash that is not 0 is that of all tokens from the start of the sequence to the end of a full block */
#include "llm/attention/pages.h"
#include "core/state_inside.h"
#include <string.h>

#define TINYI_PAGES_UNLISTED (-2)           /* in next: the block cannot be found */
#define TINYI_PAGES_MOST (1 << 26)          /* of any number here: their products fit */

static tiny_idx tinyi_pages_blocks(const tllm_pages *p, tiny_idx n) { return (n + p->block - 1) / p->block; }

TINYI_FN tiny_status tinyi_pages_plan(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages *p)
{
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->n_block = desc->n_block;
    p->block = desc->block ? desc->block : 16;
    p->n_seq = desc->n_seq ? desc->n_seq : 1;
    if (p->n_block < 1 || p->block < 1 || p->n_seq < 1 || desc->n_most < 0 || p->n_block > TINYI_PAGES_MOST ||
        p->block > TINYI_PAGES_MOST || p->n_seq > TINYI_PAGES_MOST || desc->n_most > TINYI_PAGES_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "pages: %td blocks of %td tokens for %td sequences of at most %td: each must be in 1..%d",
                          p->n_block, p->block, p->n_seq, desc->n_most, TINYI_PAGES_MOST);
    p->n_table = p->n_block;
    p->n_most = desc->n_most                               ? desc->n_most
                : p->n_block > TINYI_PAGES_MOST / p->block ? TINYI_PAGES_MOST
                                                           : p->n_block * p->block;
    if (tinyi_pages_blocks(p, p->n_most) < p->n_table) p->n_table = tinyi_pages_blocks(p, p->n_most);
    for (p->n_bucket = 1; p->n_bucket < p->n_block; p->n_bucket *= 2) { }
    return TINY_OK;
}

static void *tinyi_pages_part(unsigned char *base, size_t *at, size_t a, size_t b, size_t each, int *ok)
{
    void *p = base ? base + *at : NULL;
    size_t n;
    if (!tinyi_size_mul(a, b, &n) || !tinyi_size_mul(n, each, &n) || n > SIZE_MAX / 4 || *at > SIZE_MAX / 4) {
        *ok = 0;
        return NULL;
    }
    *at += (n + 63) & ~(size_t)63;
    return p;
}

TINYI_FN int tinyi_pages_layout(tllm_pages *p, unsigned char *base, size_t *bytes)
{
    const size_t nb = (size_t)p->n_block, ns = (size_t)p->n_seq;
    size_t at = 0;
    int ok = 1;
    p->seq = (tinyi_pages_seq *)tinyi_pages_part(base, &at, ns, 1, sizeof *p->seq, &ok);
    p->table = (int32_t *)tinyi_pages_part(base, &at, ns, (size_t)p->n_table, sizeof(int32_t), &ok);
    p->holders = (int32_t *)tinyi_pages_part(base, &at, nb, 1, sizeof(int32_t), &ok);
    p->stack = (int32_t *)tinyi_pages_part(base, &at, nb, 1, sizeof(int32_t), &ok);
    p->token = (int32_t *)tinyi_pages_part(base, &at, nb, (size_t)p->block, sizeof(int32_t), &ok);
    p->hash = (uint64_t *)tinyi_pages_part(base, &at, nb, 1, sizeof(uint64_t), &ok);
    p->before = (int32_t *)tinyi_pages_part(base, &at, nb, 1, sizeof(int32_t), &ok);
    p->bucket = (int32_t *)tinyi_pages_part(base, &at, (size_t)p->n_bucket, 1, sizeof(int32_t), &ok);
    p->next = (int32_t *)tinyi_pages_part(base, &at, nb, 1, sizeof(int32_t), &ok);
    *bytes = at;
    return ok;
}

TINYI_FN void tinyi_pages_reset(tllm_pages *p)
{
    tiny_idx i;
    p->n_free = p->n_block;
    for (i = 0; i < p->n_block; i++) {
        p->stack[i] = (int32_t)(p->n_block - 1 - i);        /* block 0 is taken first */
        p->holders[i] = 0;
        p->hash[i] = 0;
        p->before[i] = -1;
        p->next[i] = TINYI_PAGES_UNLISTED;
    }
    for (i = 0; i < p->n_bucket; i++) p->bucket[i] = -1;
    for (i = 0; i < p->n_seq; i++) p->seq[i].length = p->seq[i].noted = 0;
    memset(p->table, 0, (size_t)(p->n_seq * p->n_table) * sizeof *p->table);
    memset(p->token, 0, (size_t)p->n_block * (size_t)p->block * sizeof *p->token);
}

TINY_API tiny_status tllm_pages_open(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages **out)
{
    const size_t head = (sizeof(tllm_pages) + 63) & ~(size_t)63;
    tllm_pages plan, *p;
    size_t bytes;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !desc)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pages: the description or the result pointer is NULL");
    st = tinyi_pages_plan(ctx, desc, &plan);
    if (st) return st;
    if (!tinyi_pages_layout(&plan, NULL, &bytes) || !tinyi_size_add(bytes, head, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "pages: tables of %td blocks and %td sequences are larger than this machine can address",
                          plan.n_block, plan.n_seq);
    p = (tllm_pages *)tinyi_reserve(ctx, bytes);
    if (!p) return tiny_ctx_status(ctx);
    *p = plan;
    (void)tinyi_pages_layout(p, (unsigned char *)p + head, &bytes);
    tinyi_pages_reset(p);
    *out = p;
    return TINY_OK;
}
TINY_API void tllm_pages_close(tiny_ctx *ctx, tllm_pages *pages) { tiny_free(ctx, pages); }

static tiny_status tinyi_pages_seq_check(const tllm_pages *p, tiny_idx seq)
{
    if (!p) return TINY_E_ARGUMENT;
    if (seq >= 0 && seq < p->n_seq) return TINY_OK;
    return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "pages: there is no sequence %td: the last is %td", seq,
                      p->n_seq - 1);
}

static tiny_status tinyi_pages_no_copy(const tllm_pages *p)
{
    return tinyi_fail(p ? p->ctx : NULL, TINY_E_ARGUMENT, "pages: the pointer to the copy is NULL");
}

TINY_API tiny_idx tllm_pages_length(const tllm_pages *p, tiny_idx seq)
{
    return !p || seq < 0 || seq >= p->n_seq ? 0 : p->seq[seq].length;
}
TINY_API const int32_t *tllm_pages_table(const tllm_pages *p, tiny_idx seq)
{
    return !p || seq < 0 || seq >= p->n_seq ? NULL : p->table + seq * p->n_table;
}
TINY_API tiny_idx tllm_pages_free(const tllm_pages *p) { return p ? p->n_free : 0; }
TINY_API tiny_idx tllm_pages_holders(const tllm_pages *p, tiny_idx block)
{
    return !p || block < 0 || block >= p->n_block ? 0 : p->holders[block];
}

/* ---- what can be found ------------------------------------------------------------------------------------------ */

/* rolls on by a block: 64-bit mixing of splitmix64 (G. Steele et al., 2014); never 0 */
static uint64_t tinyi_pages_roll(uint64_t h, const int32_t *token, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n; i++) {
        h = (h ^ (uint32_t)token[i]) + UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
        h ^= h >> 31;
    }
    return h ? h : 1;
}

/* the block is to be written anew */
static void tinyi_pages_hide(tllm_pages *p, int32_t b)
{
    int32_t *at;
    if (p->next[b] != TINYI_PAGES_UNLISTED) {
        at = &p->bucket[p->hash[b] & (uint64_t)(p->n_bucket - 1)];
        while (*at >= 0 && *at != b) at = &p->next[*at];
        if (*at == b) *at = p->next[b];
    }
    p->next[b] = TINYI_PAGES_UNLISTED;
    p->hash[b] = 0;
}

/* the findable block of these tokens after block last; hashes may meet by chance, so the tokens are compared, back to
 * the first */
static int32_t tinyi_pages_find(const tllm_pages *p, uint64_t hash, const int32_t *tokens, int32_t last)
{
    const size_t bytes = (size_t)p->block * sizeof *tokens;
    int32_t b, x, y;
    for (b = p->bucket[hash & (uint64_t)(p->n_bucket - 1)]; b >= 0; b = p->next[b]) {
        if (p->hash[b] != hash || memcmp(p->token + b * p->block, tokens, bytes)) continue;
        for (x = p->before[b], y = last; x >= 0 && y >= 0 && x != y; x = p->before[x], y = p->before[y])
            if (memcmp(p->token + x * p->block, p->token + y * p->block, bytes)) break;
        if (x == y) return b;               /* both the same block, or both before the first */
    }
    return -1;
}

TINY_API void tllm_pages_note(tllm_pages *p, tiny_idx seq, tiny_idx first, const int32_t *tokens, tiny_idx n)
{
    tinyi_pages_seq *s;
    tiny_idx i;
    if (!p || seq < 0 || seq >= p->n_seq) return;
    s = &p->seq[seq];
    if (first != s->noted || !tokens) return;
    for (i = 0; i < n && s->noted < s->length; i++) {
        const tiny_idx at = s->noted / p->block;
        const int32_t *table = p->table + seq * p->n_table, b = table[at], last = at ? table[at - 1] : -1;
        uint64_t h;
        if (!p->hash[b]) p->token[b * p->block + s->noted % p->block] = tokens[i];
        s->noted++;
        if (s->noted % p->block || p->hash[b]) continue;
        p->before[b] = last;
        p->hash[b] = h = tinyi_pages_roll(last >= 0 ? p->hash[last] : 0, p->token + b * p->block, p->block);
        if (tinyi_pages_find(p, h, p->token + b * p->block, last) >= 0) continue;       /* one of a kind is enough */
        p->next[b] = p->bucket[h & (uint64_t)(p->n_bucket - 1)];
        p->bucket[h & (uint64_t)(p->n_bucket - 1)] = b;
    }
}

TINY_API tiny_status tllm_pages_share(tllm_pages *p, tiny_idx seq, const int32_t *tokens, tiny_idx n,
                                      tiny_idx *n_shared)
{
    tiny_status st = tinyi_pages_seq_check(p, seq);
    int32_t b, last = -1;
    uint64_t h = 0;
    tiny_idx i = 0;
    if (n_shared) *n_shared = 0;
    if (st) return st;
    if (p->seq[seq].length)
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT,
                          "pages: sequence %td holds %td cells: only an empty one can share blocks of others", seq,
                          p->seq[seq].length);
    if (!tokens && n > 0) return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "pages: the tokens are NULL");
    for (; (i + 1) * p->block <= TINYI_MIN(n, p->n_most); i++, last = b) {
        h = tinyi_pages_roll(h, tokens + i * p->block, p->block);
        b = tinyi_pages_find(p, h, tokens + i * p->block, last);
        if (b < 0) break;
        p->table[seq * p->n_table + i] = b;
        p->holders[b]++;
    }
    p->seq[seq].length = p->seq[seq].noted = i * p->block;
    if (n_shared) *n_shared = i * p->block;
    return TINY_OK;
}

TINY_API void tllm_pages_forget(tllm_pages *p)
{
    tiny_idx i;
    if (!p) return;
    for (i = 0; i < p->n_block; i++) tinyi_pages_hide(p, (int32_t)i);
    for (i = 0; i < p->n_seq; i++) p->seq[i].noted = p->seq[i].length ? -1 : 0;
}

/* ---- holding ---------------------------------------------------------------------------------------------------- */

static void tinyi_pages_drop(tllm_pages *p, int32_t b)
{
    if (--p->holders[b]) return;
    tinyi_pages_hide(p, b);
    p->stack[p->n_free++] = b;
}
static int32_t tinyi_pages_take(tllm_pages *p)
{
    const int32_t b = p->stack[--p->n_free];
    p->holders[b] = 1;
    return b;
}

/* block i of a sequence is to be written: a private copy where it has other holders */
static void tinyi_pages_write(tllm_pages *p, tiny_idx seq, tiny_idx i, tiny_idx cells, tllm_page_copy *copy)
{
    int32_t *at = p->table + seq * p->n_table + i;
    const int32_t b = *at;
    if (p->holders[b] == 1) { tinyi_pages_hide(p, b); return; }
    *at = tinyi_pages_take(p);
    p->holders[b]--;
    memcpy(p->token + *at * p->block, p->token + b * p->block, (size_t)p->block * sizeof *p->token);
    copy->from = b;
    copy->to = *at;
    copy->n = cells;
}

TINY_API tiny_status tllm_pages_append(tllm_pages *p, tiny_idx seq, tiny_idx n, tllm_page_copy *copy)
{
    tiny_status st = tinyi_pages_seq_check(p, seq);
    tiny_idx length, have, want, i;
    int copies;
    if (!copy) return tinyi_pages_no_copy(p);
    copy->from = copy->to = -1;
    copy->n = 0;
    if (st) return st;
    length = p->seq[seq].length;
    if (n < 0 || n > p->n_most - length)
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT,
                          "pages: sequence %td holds %td cells of at most %td: there is no room for %td more", seq,
                          length, p->n_most, n);
    if (!n) return TINY_OK;
    have = tinyi_pages_blocks(p, length);
    want = tinyi_pages_blocks(p, length + n);
    copies = length % p->block && p->holders[p->table[seq * p->n_table + have - 1]] > 1;
    if (want - have + copies > p->n_free)
        return tinyi_fail(p->ctx, TINY_E_WORKSPACE,
                          "pages: sequence %td needs %td more blocks of %td tokens, but %td of %td are free", seq,
                          want - have + copies, p->block, p->n_free, p->n_block);
    if (length % p->block) tinyi_pages_write(p, seq, have - 1, length % p->block, copy);
    for (i = have; i < want; i++) p->table[seq * p->n_table + i] = tinyi_pages_take(p);
    p->seq[seq].length = length + n;
    return TINY_OK;
}

TINY_API tiny_status tllm_pages_trim(tllm_pages *p, tiny_idx seq, tiny_idx n)
{
    tiny_status st = tinyi_pages_seq_check(p, seq);
    tiny_idx i, keep;
    if (st) return st;
    if (n < 0 || n > p->seq[seq].length)
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "pages: there are %td cells in sequence %td: %td cannot be kept",
                          p->seq[seq].length, seq, n);
    keep = tinyi_pages_blocks(p, n);
    for (i = tinyi_pages_blocks(p, p->seq[seq].length); i-- > keep;)
        tinyi_pages_drop(p, p->table[seq * p->n_table + i]);
    p->seq[seq].length = n;
    if (p->seq[seq].noted > n || !n) p->seq[seq].noted = n;
    return TINY_OK;
}

TINY_API tiny_status tllm_pages_fork(tllm_pages *p, tiny_idx from, tiny_idx to)
{
    tiny_status st = tinyi_pages_seq_check(p, from);
    tiny_idx i, n;
    if (!st) st = tinyi_pages_seq_check(p, to);
    if (st || from == to) return st;
    n = tinyi_pages_blocks(p, p->seq[from].length);
    for (i = 0; i < n; i++) p->holders[p->table[from * p->n_table + i]]++;     /* first: they may be the same blocks */
    (void)tllm_pages_trim(p, to, 0);
    memcpy(p->table + to * p->n_table, p->table + from * p->n_table, (size_t)n * sizeof *p->table);
    p->seq[to] = p->seq[from];
    return TINY_OK;
}

TINY_API tiny_status tllm_pages_own(tllm_pages *p, tiny_idx seq, tiny_idx i, tllm_page_copy *copy)
{
    tiny_status st = tinyi_pages_seq_check(p, seq);
    if (!copy) return tinyi_pages_no_copy(p);
    copy->from = copy->to = -1;
    copy->n = 0;
    if (st) return st;
    if (i < 0 || i >= tinyi_pages_blocks(p, p->seq[seq].length))
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "pages: sequence %td has %td blocks, but no block %td", seq,
                          tinyi_pages_blocks(p, p->seq[seq].length), i);
    if (p->holders[p->table[seq * p->n_table + i]] > 1 && !p->n_free)
        return tinyi_fail(p->ctx, TINY_E_WORKSPACE,
                          "pages: sequence %td needs a block of its own, but none of %td is free", seq, p->n_block);
    tinyi_pages_write(p, seq, i, TINYI_MIN(p->seq[seq].length - i * p->block, p->block), copy);
    if (p->seq[seq].noted > i * p->block) p->seq[seq].noted = i * p->block;
    return TINY_OK;
}
