/* src/llm/token/parts.c - hashes, growing arrays, the trie and the merging of symbols
 *
 * The hash is keyed by the clock and an address, so a hostile file cannot put all its tokens into one slot.
 *
 * Merging follows R. Sennrich, B. Haddow, A. Birch, "Neural machine translation of rare words with subword units" (ACL
 * 2016): the neighbours with the lowest rank are joined, the leftmost of equals first, until no pair is left. Short
 * words scan their few pairs. Long words use a heap of (rank, position) and skip entries whose pair has changed:
 * n log n. */
#include "llm/token/parts_inside.h"
#include <string.h>

TINYI_FN uint64_t tinyi_token_hash(uint64_t key, const unsigned char *p, size_t n)
{
    uint64_t h = (key ^ n) * UINT64_C(0x9e3779b97f4a7c15), w;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 32;
        h += key;
    }
    w = 0;
    while (n) w = w << 8 | p[--n];
    h = (h ^ w) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 29;
    h *= key | 1;
    return h ^ h >> 32;
}

TINYI_FN int32_t tinyi_token_find(const tllm_vocab *v, const unsigned char *p, size_t n)
{
    uint64_t h;
    uint32_t i, tag, low = (uint32_t)(((uint64_t)1 << v->slot_bits) - 1);
    if (!n || n > v->longest) return -1;
    h = tinyi_token_hash(v->key, p, n);
    tag = (uint32_t)(h >> 32) & ~low;
    for (i = (uint32_t)h & v->slot_mask; v->slot[i]; i = (i + 1) & v->slot_mask) {
        uint32_t id;
        if ((v->slot[i] & ~low) != tag) continue;
        id = (v->slot[i] & low) - 1;
        if (v->at[id + 1] - v->at[id] == n && !memcmp(v->blob + v->at[id], p, n)) return (int32_t)id;
    }
    return -1;
}

TINYI_FN tiny_status tinyi_token_grow(tiny_ctx *ctx, void **p, size_t used, size_t *room, size_t want,
                                      size_t bytes_each)
{
    size_t fresh_room = *room + *room / 2 + 16;
    void *fresh;
    if (want <= *room) return TINY_OK;
    if (fresh_room < want) fresh_room = want;
    fresh = tinyi_alloc(ctx, fresh_room, bytes_each);
    if (!fresh) return tiny_ctx_status(ctx);
    if (used) memcpy(fresh, *p, used * bytes_each);
    tiny_free(ctx, *p);
    *p = fresh;
    *room = fresh_room;
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_token_reserve(tiny_ctx *ctx, tllm_tokens *t, size_t more)
{
    void *p = t->id;
    tiny_status st;
    if (more <= t->room - t->n) return TINY_OK;
    if (more > SIZE_MAX / 8 - t->n)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "encode: more tokens than this machine can address");
    st = tinyi_token_grow(ctx, &p, t->n, &t->room, t->n + more, sizeof *t->id);
    t->id = (int32_t *)p;
    return st;
}

TINYI_FN tiny_status tinyi_bytes_reserve(tiny_ctx *ctx, tllm_bytes *b, size_t more)
{
    void *p = b->at;
    tiny_status st;
    if (more <= b->room - b->n) return TINY_OK;
    if (more > SIZE_MAX / 2 - b->n)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "decode: more bytes than this machine can address");
    st = tinyi_token_grow(ctx, &p, b->n, &b->room, b->n + more, 1);
    b->at = (char *)p;
    return st;
}

TINYI_FN tiny_status tinyi_encoder_text(tinyi_encoder *e, size_t n)
{
    void *p = e->text;
    tiny_status st = tinyi_token_grow(e->ctx, &p, 0, &e->text_room, n, 1);
    e->text = (unsigned char *)p;
    return st;
}

static void tinyi_kept_word(const unsigned char *s, size_t n, uint64_t word[2])
{
    unsigned char room[TINYI_KEPT_BYTES] = { 0 };
    memcpy(room, s, n);
    memcpy(word, room, sizeof room);
}

TINYI_FN int tinyi_kept_get(tinyi_encoder *e, const unsigned char *s, size_t n, tinyi_kept **slot, tiny_status *st)
{
    uint64_t word[2], h;
    tinyi_kept *k;
    int i;
    *slot = NULL;
    if (!e->kept || n > TINYI_KEPT_BYTES || !n) return 0;
    tinyi_kept_word(s, n, word);
    h = (word[0] ^ (word[1] * UINT64_C(0x9e3779b97f4a7c15) + n)) * UINT64_C(0xd6e8feb86659fd93);
    k = *slot = &e->kept[h >> 52];          /* 4096: twelve bits */
    if (k->n != n || k->word[0] != word[0] || k->word[1] != word[1]) return 0;
    if ((*st = tinyi_token_reserve(e->ctx, e->out, TINYI_KEPT_IDS)) != TINY_OK) return 1;
    for (i = 0; i < TINYI_KEPT_IDS; i++) e->out->id[e->out->n + (size_t)i] = k->id[i];
    e->out->n += k->n_ids;
    return 1;
}

TINYI_FN void tinyi_kept_set(const tinyi_encoder *e, const unsigned char *s, size_t n, tinyi_kept *slot, size_t from)
{
    size_t ids = e->out->n - from, i;
    if (!slot || ids > TINYI_KEPT_IDS) return;
    tinyi_kept_word(s, n, slot->word);
    slot->n = (unsigned char)n;
    slot->n_ids = (unsigned char)ids;
    for (i = 0; i < ids; i++) slot->id[i] = e->out->id[from + i];
}

TINYI_FN void tinyi_encoder_free_symbols(tinyi_encoder *e)
{
    tiny_free(e->ctx, e->heap);
    tiny_free(e->ctx, e->pos);
    tiny_free(e->ctx, e->prev);
    tiny_free(e->ctx, e->next);
    tiny_free(e->ctx, e->rank);
    tiny_free(e->ctx, e->id);
    tiny_free(e->ctx, e->to);
    e->heap = NULL;
    e->pos = e->prev = e->next = e->rank = NULL;
    e->id = e->to = NULL;
    e->room = 0;
}

TINYI_FN tiny_status tinyi_encoder_symbols(tinyi_encoder *e, size_t count)
{
    size_t room = count + count / 2 + 64;
    if (count < e->room) return TINY_OK;
    tinyi_encoder_free_symbols(e);
    /* the heap holds an entry a pair, and one more a merge */
    e->heap = (uint64_t *)tinyi_alloc(e->ctx, 2 * room + 2, sizeof *e->heap);
    if (e->heap) e->pos = (uint32_t *)tinyi_alloc(e->ctx, room + 1, sizeof *e->pos);
    if (e->pos) e->prev = (uint32_t *)tinyi_alloc(e->ctx, room, sizeof *e->prev);
    if (e->prev) e->next = (uint32_t *)tinyi_alloc(e->ctx, room, sizeof *e->next);
    if (e->next) e->rank = (uint32_t *)tinyi_alloc(e->ctx, room, sizeof *e->rank);
    if (e->rank) e->id = (int32_t *)tinyi_alloc(e->ctx, room, sizeof *e->id);
    if (e->id) e->to = (int32_t *)tinyi_alloc(e->ctx, room, sizeof *e->to);
    if (!e->to) return tiny_ctx_status(e->ctx);
    e->room = room;
    return TINY_OK;
}

TINYI_FN void tinyi_token_sort(uint64_t *x, uint64_t *spare, size_t n)
{
    size_t width, i;
    for (width = 1; width < n; width *= 2) {
        for (i = 0; i < n; i += 2 * width) {
            size_t a = i, mid = TINYI_MIN(i + width, n), b = mid, end = TINYI_MIN(i + 2 * width, n), k = i;
            if (mid == end || x[mid - 1] <= x[mid]) { memcpy(spare + i, x + i, (end - i) * sizeof *x); continue; }
            while (a < mid && b < end) spare[k++] = x[b] < x[a] ? x[b++] : x[a++];
            while (a < mid) spare[k++] = x[a++];
            while (b < end) spare[k++] = x[b++];
        }
        memcpy(x, spare, n * sizeof *x);
    }
}

/* ---- the trie ------------------------------------------------------------------------------------------------- */

static int tinyi_trie_order(const tllm_vocab *v, uint32_t a, uint32_t b)
{
    size_t n, m;
    const unsigned char *p = tinyi_token_text(v, (int32_t)a, &n), *q = tinyi_token_text(v, (int32_t)b, &m);
    int c = memcmp(p, q, TINYI_MIN(n, m));
    return c ? c : n < m ? -1 : n > m ? 1 : 0;
}

static void tinyi_trie_sort(const tllm_vocab *v, uint32_t *x, uint32_t *spare, size_t n)
{
    size_t width, i;
    for (width = 1; width < n; width *= 2) {
        for (i = 0; i < n; i += 2 * width) {
            size_t a = i, mid = TINYI_MIN(i + width, n), b = mid, end = TINYI_MIN(i + 2 * width, n), k = i;
            while (a < mid && b < end) spare[k++] = tinyi_trie_order(v, x[b], x[a]) < 0 ? x[b++] : x[a++];
            while (a < mid) spare[k++] = x[a++];
            while (b < end) spare[k++] = x[b++];
        }
        memcpy(x, spare, n * sizeof *x);
    }
}

static size_t tinyi_trie_shared(const tllm_vocab *v, uint32_t a, uint32_t b)
{
    size_t n, m, i = 0;
    const unsigned char *p = tinyi_token_text(v, (int32_t)a, &n), *q = tinyi_token_text(v, (int32_t)b, &m);
    while (i < n && i < m && p[i] == q[i]) i++;
    return i;
}

/* How many nodes the sorted texts need: one for each end of a text and each place where two part. The stack holds the
 * depths of the nodes on the way to the last text; a text adds at most one to its height. */
static size_t tinyi_trie_count(const tllm_vocab *v, const uint32_t *ids, size_t n, uint32_t *stack)
{
    size_t i, top = 0, count = 1;
    stack[0] = 0;
    for (i = 0; i < n; i++) {
        uint32_t shared = i ? (uint32_t)tinyi_trie_shared(v, ids[i - 1], ids[i]) : 0,
                 len = v->at[ids[i] + 1] - v->at[ids[i]];
        while (stack[top] > shared) top--;
        if (stack[top] < shared) { stack[++top] = shared; count++; }
        if (stack[top] < len) { stack[++top] = len; count++; }
    }
    return count;
}

/* Breadth first, so that children lie side by side. A node that waits keeps the range of its texts in first and value;
 * how deep it is follows from its label, which lies in the first of them. */
TINYI_FN tiny_status tinyi_trie_build(tiny_ctx *ctx, const tllm_vocab *v, uint32_t *ids, size_t n, tinyi_trie *trie)
{
    uint32_t *spare = (uint32_t *)tinyi_alloc(ctx, n + 2, sizeof *spare);
    size_t i, count;
    int k;
    for (k = 0; k < 256; k++) trie->root[k] = -1;
    if (!spare) return tiny_ctx_status(ctx);
    tinyi_trie_sort(v, ids, spare, n);
    count = tinyi_trie_count(v, ids, n, spare);
    tiny_free(ctx, spare);
    trie->node = (tinyi_trie_node *)tinyi_alloc(ctx, count, sizeof *trie->node);
    if (!trie->node) return tiny_ctx_status(ctx);
    memset(trie->node, 0, sizeof *trie->node);
    trie->node[0].value = (int32_t)n;
    trie->n_nodes = 1;
    for (i = 0; i < trie->n_nodes; i++) {
        tinyi_trie_node *node = &trie->node[i];
        uint32_t lo = node->first, end = (uint32_t)node->value,
                 depth = i ? node->label + node->n_label - v->at[ids[lo]] : 0;
        node->first = (uint32_t)trie->n_nodes;
        node->value = -1;
        while (lo < end && v->at[ids[lo] + 1] - v->at[ids[lo]] == depth) {
            /* the sort is stable: the first of equal texts */
            if (node->value < 0) node->value = (int32_t)ids[lo];
            lo++;
        }
        while (lo < end) {
            tinyi_trie_node *child = &trie->node[trie->n_nodes];
            unsigned char first = v->blob[v->at[ids[lo]] + depth];
            uint32_t step = 1, from = lo, hi;
            /* where the next first byte begins: double steps, then halves */
            while (lo + step < end && v->blob[v->at[ids[lo + step]] + depth] == first) { lo += step; step *= 2; }
            hi = TINYI_MIN(lo + step, end);
            while (hi - lo > 1) {
                uint32_t mid = lo + (hi - lo) / 2;
                if (v->blob[v->at[ids[mid]] + depth] == first) lo = mid; else hi = mid;
            }
            memset(child, 0, sizeof *child);
            child->label = v->at[ids[from]] + depth;
            child->n_label = (uint16_t)(tinyi_trie_shared(v, ids[from], ids[hi - 1]) - depth);
            child->first = from;
            child->value = (int32_t)hi;
            if (i == 0) trie->root[first] = (int32_t)trie->n_nodes;
            trie->n_nodes++;
            node->n_children++;
            lo = hi;
        }
    }
    return TINY_OK;
}

TINYI_FN void tinyi_trie_free(tiny_ctx *ctx, tinyi_trie *trie)
{
    tiny_free(ctx, trie->node);
    trie->node = NULL;
}

TINYI_FN int tinyi_trie_step(const tinyi_trie *trie, const unsigned char *blob, tinyi_trie_at *at, unsigned char byte)
{
    const tinyi_trie_node *node = &trie->node[at->node];
    uint32_t lo, hi;
    if (at->used < node->n_label) {
        if (blob[node->label + at->used] != byte) return 0;
        at->used++;
        return 1;
    }
    if (at->node == 0) {
        if (trie->root[byte] < 0) return 0;
        at->node = trie->root[byte];
        at->used = 1;
        return 1;
    }
    lo = node->first;
    hi = lo + node->n_children;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        unsigned char first = blob[trie->node[mid].label];
        if (first == byte) { at->node = (int32_t)mid; at->used = 1; return 1; }
        if (first < byte) lo = mid + 1; else hi = mid;
    }
    return 0;
}

/* ---- merging -------------------------------------------------------------------------------------------------- */

TINYI_FN uint64_t tinyi_merge_hash(uint64_t key, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) ^ key;
    h *= UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    h *= key | 1;
    return h ^ h >> 32;
}

TINYI_FN uint32_t tinyi_merge_find(const tllm_vocab *v, int32_t left, int32_t right, int32_t *to)
{
    uint64_t h;
    uint32_t i, tag, low = (uint32_t)(((uint64_t)1 << v->merge_bits) - 1);
    if (left < 0 || right < 0 || !v->merge_slot) return UINT32_MAX;
    h = tinyi_merge_hash(v->key, (uint32_t)left, (uint32_t)right);
    tag = (uint32_t)(h >> 32) & ~low;
    for (i = (uint32_t)h & v->merge_mask; v->merge_slot[i]; i = (i + 1) & v->merge_mask) {
        const tinyi_merge *m;
        uint32_t rank;
        if ((v->merge_slot[i] & ~low) != tag) continue;
        rank = (v->merge_slot[i] & low) - 1;
        m = &v->merge[rank];
        if (m->left == (uint32_t)left && m->right == (uint32_t)right) { *to = (int32_t)m->to; return rank; }
    }
    return UINT32_MAX;
}

static uint32_t tinyi_joint_bit(const tllm_vocab *v, const unsigned char *left, size_t n_left,
                                const unsigned char *right, size_t n_right)
{
    uint32_t a = 0, b = 0;
    uint64_t h;
    while (n_left) a = a << 8 | left[--n_left];
    while (n_right) b = b << 8 | right[--n_right];
    h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 40) & v->joint_mask;
}
TINYI_FN int tinyi_joint_wide(const tllm_vocab *v, const unsigned char *left, size_t n_left, const unsigned char *right,
                              size_t n_right)
{
    uint32_t bit = tinyi_joint_bit(v, left, n_left, right, n_right);
    return (int)(v->joint[bit >> 5] >> (bit & 31) & 1);
}
TINYI_FN void tinyi_joint_set(tllm_vocab *v, const unsigned char *left, size_t n_left, const unsigned char *right,
                              size_t n_right)
{
    uint32_t bit = tinyi_joint_bit(v, left, n_left, right, n_right);
    if (left[0] < 0x80 && right[0] < 0x80) v->joint_ascii[left[0]][right[0] >> 5] |= (uint32_t)1 << (right[0] & 31);
    v->joint[bit >> 5] |= (uint32_t)1 << (bit & 31);
}

/* smaller for a greater score */
static uint32_t tinyi_merge_score_rank(float score)
{
    uint32_t bits;
    if (score != score) return UINT32_MAX - 1;
    if (score == 0) score = 0;
    memcpy(&bits, &score, 4);
    bits = bits >> 31 ? ~bits : bits | (uint32_t)1 << 31;
    return bits ? ~bits : UINT32_MAX - 1;
}

/* the pair of symbol i and the one at j: its rank, and in *to what it becomes */
static uint32_t tinyi_merge_rank(const tinyi_encoder *e, const unsigned char *s, size_t i, size_t j, uint32_t end,
                                 int by_text, int32_t *to)
{
    if (!by_text) return tinyi_merge_find(e->v, e->id[i], e->id[j], to);
    *to = tinyi_token_find(e->v, s + e->pos[i], end - e->pos[i]);
    if (*to < 0) return UINT32_MAX;
    return tinyi_merge_score_rank(e->v->score ? e->v->score[*to] : 0);
}

TINYI_FN void tinyi_heap_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];
    for (;;) {
        size_t c = 4 * i + 1, best, k;
        if (c >= n) break;
        best = c;
        for (k = c + 1; k < c + 4 && k < n; k++) if (heap[k] < heap[best]) best = k;
        if (heap[best] >= x) break;
        heap[i] = heap[best];
        i = best;
    }
    heap[i] = x;
}

TINYI_FN void tinyi_heap_up(uint64_t *heap, size_t i)
{
    uint64_t x = heap[i];
    while (i && heap[(i - 1) / 4] > x) {
        heap[i] = heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    heap[i] = x;
}

static tiny_status tinyi_merge_long(tinyi_encoder *e, const unsigned char *s, size_t n, int by_text)
{
    size_t i, j;
    uint32_t none = (uint32_t)n;
    e->heap_n = 0;
    for (i = 0; i < n; i++) {
        e->prev[i] = i ? (uint32_t)i - 1 : none;
        e->next[i] = (uint32_t)i + 1;
        e->rank[i] = i + 1 < n ? tinyi_merge_rank(e, s, i, i + 1, e->pos[i + 2], by_text, &e->to[i]) : UINT32_MAX;
        if (e->rank[i] != UINT32_MAX) e->heap[e->heap_n++] = (uint64_t)e->rank[i] << 32 | i;
    }
    for (i = e->heap_n / 4 + 1; i-- > 0;) if (i < e->heap_n) tinyi_heap_down(e->heap, e->heap_n, i);
    while (e->heap_n) {
        uint64_t top = e->heap[0];
        int side;
        i = (size_t)(top & UINT32_MAX);
        if (e->rank[i] != (uint32_t)(top >> 32)) {          /* of a pair that is no more */
            e->heap[0] = e->heap[--e->heap_n];
            if (e->heap_n) tinyi_heap_down(e->heap, e->heap_n, 0);
            continue;
        }
        j = e->next[i];
        e->id[i] = e->to[i];
        e->next[i] = e->next[j];
        if (e->next[i] != none) e->prev[e->next[i]] = (uint32_t)i;
        e->rank[j] = UINT32_MAX;
        e->heap[0] = e->heap[--e->heap_n];
        if (e->heap_n) tinyi_heap_down(e->heap, e->heap_n, 0);
        for (side = 0; side < 2; side++) {
            size_t a = side ? i : e->prev[i], b;
            if (a == none) continue;
            b = e->next[a];
            e->rank[a] = UINT32_MAX;
            if (b == none) continue;
            e->rank[a] = tinyi_merge_rank(e, s, a, b, e->pos[e->next[b]], by_text, &e->to[a]);
            if (e->rank[a] == UINT32_MAX) continue;
            /* each merge takes one entry out and brings two in: 2 n has room for all */
            e->heap[e->heap_n] = (uint64_t)e->rank[a] << 32 | a;
            tinyi_heap_up(e->heap, e->heap_n++);
        }
    }
    for (i = 0, j = 0; i != none; i = e->next[i], j++) {    /* close the ranks; j never overtakes i */
        e->id[j] = e->id[i];
        e->pos[j] = e->pos[i];
    }
    e->pos[j] = e->pos[n];
    e->heap_n = j;
    return TINY_OK;
}

/* The symbols of a word are (e->id[i], bytes e->pos[i]..e->pos[i + 1]) for i < n before, and for i < e->heap_n
 * after. */
TINYI_FN tiny_status tinyi_merge_word(tinyi_encoder *e, const unsigned char *s, size_t n, int by_text)
{
    enum { FEW = 24 };
    size_t i;
    if (n > FEW) return tinyi_merge_long(e, s, n, by_text);
    for (i = 0; i + 1 < n; i++) e->rank[i] = tinyi_merge_rank(e, s, i, i + 1, e->pos[i + 2], by_text, &e->to[i]);
    while (n > 1) {
        size_t best = 0;
        for (i = 1; i + 1 < n; i++) if (e->rank[i] < e->rank[best]) best = i;
        if (e->rank[best] == UINT32_MAX) break;
        e->id[best] = e->to[best];
        for (i = best + 1; i + 1 < n; i++) {
            e->id[i] = e->id[i + 1];
            e->pos[i] = e->pos[i + 1];
            e->rank[i] = e->rank[i + 1];
            e->to[i] = e->to[i + 1];
        }
        e->pos[n - 1] = e->pos[n];
        n--;
        if (best + 1 < n)
            e->rank[best] = tinyi_merge_rank(e, s, best, best + 1, e->pos[best + 2], by_text, &e->to[best]);
        if (best)
            e->rank[best - 1] = tinyi_merge_rank(e, s, best - 1, best, e->pos[best + 1], by_text, &e->to[best - 1]);
    }
    e->heap_n = n;
    return TINY_OK;
}
