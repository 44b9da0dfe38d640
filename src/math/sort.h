/* src/math/sort.h - sorting, the k largest, prefix sums
 *
 * Operations   tiny_topk, tiny_cumsum.
 * Functions    tiny_sort_*, tiny_argsort_*, tiny_prefix_* work on arrays. They take scratch memory from the context and
 *              free it. A function that fails changes nothing.
 * Floats are sorted with -0 equal to +0. NaNs come last, in both directions. */
#ifndef TINYI_SORT_H
#define TINYI_SORT_H
#include "core/op.h"
TINYI_C_BEGIN

enum { TINY_SORT_DESCENDING = 1 };          /* flags; equal keys keep their order in both directions */

/* Stable. payload (n values that travel with their keys) may be NULL. Linear time, scratch of 1 to 4 times the keys. */
TINY_API tiny_status tiny_sort_u32(tiny_ctx *ctx, uint32_t *key, uint32_t *payload, size_t n, unsigned flags);
TINY_API tiny_status tiny_sort_u64(tiny_ctx *ctx, uint64_t *key, uint32_t *payload, size_t n, unsigned flags);
TINY_API tiny_status tiny_sort_f32(tiny_ctx *ctx, float *key, uint32_t *payload, size_t n, unsigned flags);
/* order[i] is the index of the key that belongs at place i; n below 2^32. The keys are not changed. */
TINY_API tiny_status tiny_argsort_u32(tiny_ctx *ctx, const uint32_t *key, uint32_t *order, size_t n, unsigned flags);
TINY_API tiny_status tiny_argsort_u64(tiny_ctx *ctx, const uint64_t *key, uint32_t *order, size_t n, unsigned flags);
TINY_API tiny_status tiny_argsort_f32(tiny_ctx *ctx, const float *key, uint32_t *order, size_t n, unsigned flags);

/* offset[i] = count[0] + ... + count[i-1] for i = 0..n: n + 1 values, offset[n] is the total. offset may be count.
 * A negative count, or a total that does not fit, fails before anything is written. */
TINY_API tiny_status tiny_prefix_u32(tiny_ctx *ctx, const uint32_t *count, size_t n, uint32_t *offset);
TINY_API tiny_status tiny_prefix_i64(tiny_ctx *ctx, const int64_t *count, size_t n, int64_t *offset);

/* The k largest of each row (last axis), largest first; of equal ones the lower index first. -0 equals +0. NaNs are
 * used only if the row has fewer than k numbers, in order of index. x f32 (..., n); value f32 and index i32 (..., k);
 * 1 <= k <= n < 2^31. Values have exactly the bits of x. */
typedef struct tiny_topk_params { tiny_idx k; } tiny_topk_params;
TINY_API tiny_status tiny_topk(tiny_ctx *ctx, const tiny_tensor *x, tiny_idx k, const tiny_tensor *value,
                               const tiny_tensor *index);

/* y[i] = x[0] + ... + x[i] along the last axis; exclusive: without x[i]. f32; y may be x. */
typedef struct tiny_cumsum_params { int exclusive; } tiny_cumsum_params;
TINY_API tiny_status tiny_cumsum(tiny_ctx *ctx, const tiny_tensor *x, int exclusive, const tiny_tensor *y);

#define TINYI_OPS_SORT(ROW) ROW(TOPK, topk) ROW(CUMSUM, cumsum)

/* ---- inside: what the bodies share ---- */

/* For other files: an unsigned key that orders floats as above, and a sort of items (key << 32 | value) by key in
 * scratch memory of the caller, which needs no context and cannot fail. */
TINYI_FN uint32_t tinyi_sort_key_f32(uint32_t bits);
TINYI_FN void tinyi_sort_pairs(uint64_t *item, uint64_t *scratch, size_t n);
/* The k largest of n floats, 1 <= k <= n < 2^31, in the order of topk, at the start of own: the low half of an item is
 * the complement of its index. own holds uint64_t, tinyi_topk_own_bytes of them, never more than 16 n + 8192. scan: the
 * target's kernel. */
TINYI_FN size_t tinyi_topk_own_bytes(size_t n, size_t k);
TINYI_FN const uint64_t *tinyi_topk_row(void *own, const float *x, size_t n, size_t k,
                                        size_t (*scan)(uint32_t *hit, const float *x, size_t n, float limit));

/* number of the lowest set bit of a word that is not 0 */
#if defined __GNUC__ || defined __clang__
#define TINYI_LOW_BIT(m) __builtin_ctzll((unsigned long long)(m))
#else
TINYI_INLINE int tinyi_low_bit(uint64_t m)
{
    int n = 0;
    for (; !(m & 255); m >>= 8) n += 8;
    for (; !(m & 1); m >>= 1) n++;
    return n;
}
#define TINYI_LOW_BIT(m) tinyi_low_bit(m)
#endif

#define TINYI_KERNELS_SORT(K)                                                                           \
    /* writes the positions of all x[i] that are not <= limit, ascending; returns how many */           \
    K(topk_scan_f32, size_t, (uint32_t *hit, const float *x, size_t n, float limit))                    \
    K(cumsum_f32, double, (float *y, const float *x, size_t n, double start, int exclusive))            \
    K(cumsum_total_f32, double, (const float *x, size_t n))

TINYI_C_END
#endif
