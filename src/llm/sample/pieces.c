/* src/llm/sample/pieces.c
 *
 * Form     a radix sort by the first eight bytes as a number, then a heap sort among pieces with the same first eight:
 *          no recursion, at most n log n comparisons of the remaining bytes.
 * Memory   the bytes and 12 bytes per piece; 12 more per piece while sorting. */
#include "llm/sample/pieces.h"
#include "math/sort.h"
#include "core/state_inside.h"
#include <string.h>

struct tllm_pieces {
    size_t n, filled;
    uint32_t longest;
    unsigned char *bytes;
    uint32_t *start;                        /* (n + 1) */
    uint32_t *order, *same;                 /* (filled): which piece, and what it has of the one before */
};

static uint32_t tinyi_pieces_bytes(const tllm_pieces *p, uint32_t id) { return p->start[id + 1] - p->start[id]; }

/* 1: a comes before b; equal ones by their number */
static int tinyi_pieces_less(const tllm_pieces *p, uint32_t a, uint32_t b)
{
    const uint32_t n_a = tinyi_pieces_bytes(p, a), n_b = tinyi_pieces_bytes(p, b);
    const int d = memcmp(p->bytes + p->start[a], p->bytes + p->start[b], TINYI_MIN(n_a, n_b));
    return d ? d < 0 : n_a != n_b ? n_a < n_b : a < b;
}

static void tinyi_pieces_sink(const tllm_pieces *p, uint32_t *order, size_t at, size_t n)
{
    const uint32_t v = order[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && tinyi_pieces_less(p, order[child], order[child + 1])) child++;
        if (!tinyi_pieces_less(p, v, order[child])) break;
        order[at] = order[child];
        at = child;
    }
    order[at] = v;
}

static void tinyi_pieces_heap(const tllm_pieces *p, uint32_t *order, size_t n)
{
    size_t i;
    for (i = n / 2; i-- > 0;) tinyi_pieces_sink(p, order, i, n);
    for (i = n; i-- > 1;) {
        const uint32_t top = order[0];
        order[0] = order[i];
        order[i] = top;
        tinyi_pieces_sink(p, order, 0, i);
    }
}

static tiny_status tinyi_pieces_sort(tiny_ctx *ctx, tllm_pieces *p)
{
    uint64_t *key = (uint64_t *)tinyi_alloc(ctx, p->filled, sizeof *key);
    tiny_status st;
    size_t i, end;
    uint32_t k;
    if (!key) return tiny_ctx_status(ctx);
    for (i = 0; i < p->filled; i++) {
        const uint32_t id = p->order[i], n = tinyi_pieces_bytes(p, id);
        for (key[i] = k = 0; k < 8; k++) key[i] = key[i] << 8 | (k < n ? p->bytes[p->start[id] + k] : 0);
    }
    st = tiny_sort_u64(ctx, key, p->order, p->filled, 0);
    for (i = 0; i < p->filled && !st; i = end) {
        for (end = i + 1; end < p->filled && key[end] == key[i]; end++) {}
        if (end - i > 1) tinyi_pieces_heap(p, p->order + i, end - i);
    }
    tiny_free(ctx, key);
    for (i = 1; i < p->filled && !st; i++) {
        const uint32_t a = p->order[i - 1], b = p->order[i],
                       n = TINYI_MIN(tinyi_pieces_bytes(p, a), tinyi_pieces_bytes(p, b));
        for (k = 0; k < n && p->bytes[p->start[a] + k] == p->bytes[p->start[b] + k]; k++) {}
        p->same[i] = k;
    }
    return st;
}

TINY_API tiny_status tllm_pieces_open(tiny_ctx *ctx, const char *bytes, const uint32_t *end, size_t n,
                                      tllm_pieces **out)
{
    tllm_pieces *p;
    tiny_status st;
    size_t i, total;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pieces: the result pointer is NULL");
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (n && !end) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pieces: the list of their ends is NULL");
    if (n >= UINT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%zu pieces: the limit is %lu", n, (unsigned long)UINT32_MAX - 1);
    for (i = 1; i < n; i++)
        if (end[i] < end[i - 1])
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "piece %zu ends at %lu, before the end %lu of the piece before it", i,
                              (unsigned long)end[i], (unsigned long)end[i - 1]);
    total = n ? end[n - 1] : 0;
    if (total && !bytes) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pieces of %zu bytes: the bytes are NULL", total);
    p = (tllm_pieces *)tinyi_alloc(ctx, 1, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->n = n;
    p->bytes = (unsigned char *)tinyi_alloc(ctx, total + 1, 1);
    p->start = (uint32_t *)tinyi_alloc(ctx, n + 1, sizeof *p->start);
    p->order = (uint32_t *)tinyi_alloc(ctx, n + 1, sizeof *p->order);
    p->same = (uint32_t *)tinyi_alloc(ctx, n + 1, sizeof *p->same);
    if (!p->bytes || !p->start || !p->order || !p->same) {
        tllm_pieces_close(ctx, p);
        return tiny_ctx_status(ctx);
    }
    if (total) memcpy(p->bytes, bytes, total);
    p->start[0] = p->same[0] = 0;
    for (i = 0; i < n; i++) {
        p->start[i + 1] = end[i];
        if (end[i] == p->start[i]) continue;
        p->longest = TINYI_MAX(p->longest, end[i] - p->start[i]);
        p->order[p->filled++] = (uint32_t)i;
    }
    st = tinyi_pieces_sort(ctx, p);
    if (st) tllm_pieces_close(ctx, p);
    else *out = p;
    return st;
}

TINY_API void tllm_pieces_close(tiny_ctx *ctx, tllm_pieces *p)
{
    if (!p) return;
    tiny_free(ctx, p->bytes);
    tiny_free(ctx, p->start);
    tiny_free(ctx, p->order);
    tiny_free(ctx, p->same);
    tiny_free(ctx, p);
}

TINY_API size_t tllm_pieces_count(const tllm_pieces *p) { return p ? p->n : 0; }
size_t tinyi_pieces_filled(const tllm_pieces *p) { return p->filled; }
uint32_t tinyi_pieces_longest(const tllm_pieces *p) { return p->longest; }
tinyi_piece tinyi_pieces_at(const tllm_pieces *p, size_t i)
{
    tinyi_piece e;
    e.id = p->order[i];
    e.at = p->bytes + p->start[e.id];
    e.n = tinyi_pieces_bytes(p, e.id);
    e.same = p->same[i];
    return e;
}
