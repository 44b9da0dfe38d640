/* src/math/sort.c - radix sort, the k largest, prefix sums
 *
 * Sort     LSD radix with digits of 8 bits (H. H. Seward, 1954; D. Knuth, TAOCP 3, 5.2.5). Digits in which all keys
 *          agree are skipped. Stable, linear in every case. With several threads, each one has a contiguous piece and
 *          counts its digits. One thread turns the counts of all pieces into start positions, ordered by digit, then by
 *          piece. Then each thread moves the keys of its piece. The result does not depend on the number of threads.
 *          Floats become unsigned keys: -0 as 0, negative numbers with all bits flipped, others with the sign bit
 *          flipped, every NaN above all of them.
 * Top-k    One pass with a filter: the k-th best value so far is a limit, and the kernel reports only values that are
 *          not below it. For k <= 64 each one is inserted into a sorted list. For larger k they are collected in a
 *          buffer. When it is full, only its k best stay: the k-th key is found by three histograms (11, 11 and 10
 *          bits), in linear time whatever the values. A long single row is cut in pieces, one per thread, and one
 *          thread selects from the results of the pieces. On shuffled data the kernel reports k * (1 + ln(n / k))
 *          values on average.
 * Cumsum   Sums in double, each y rounded once. The fast form sums four blocks side by side, because each addition
 *          waits for the previous one. A long row is cut in pieces: first the total of each piece, then the start value
 *          of each piece, then the sums.
 * Error    topk: exact. cumsum: the double sums differ by at most n * 2^-53 * sum |x|, and each result is rounded once:
 *          |fast - ref| <= (2 + n * 2^-29) * 2^-24 * sum |x|.
 * Left out sorting in place without scratch; comparison sorts of records (argsort the key instead).            */
#include <string.h>
#include <stdio.h>
#include "math/table_inside.h"
#include "core/half_inside.h"
#include "math/rows_inside.h"

/* ---- keys */

uint32_t tinyi_sort_key_f32(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
    if (bits == 0x80000000u) bits = 0;
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

/* the order of topk: larger is better, a NaN is worst */
TINYI_INLINE uint32_t tinyi_topk_key(uint32_t bits)
{
    uint32_t key = tinyi_sort_key_f32(bits);
    return key == 0xffffffffu ? 0 : key;
}

/* ---- the radix sort, for three kinds of items */

typedef struct tinyi_sort_pair { uint64_t key, value; } tinyi_sort_pair;

typedef struct tinyi_sort_job {
    void *item, *scratch;                   /* the result is in item */
    size_t n;
    int first_bit, n_bits;                  /* of the key */
    uint64_t differ;                        /* bits in which not all keys agree */
} tinyi_sort_job;

#define TINYI_SORT_DIGITS 256
#define TINYI_SORT_PIECES 16                /* at most */
#define TINYI_SORT_SMALL 48                 /* below: insertion */
#define TINYI_SORT_THREADED 65536           /* from here on it pays to share */

TINYI_INLINE size_t tinyi_sort_cut(size_t n, int i, int pieces)
{
    return n / (size_t)pieces * (size_t)i + TINYI_MIN(n % (size_t)pieces, (size_t)i);
}

/* Shared workspace: size_t count[pieces][256], then uint64_t differ[pieces]. */
#define TINYI_SORT_ENGINE(name, T, KEY)                                                                         \
    static void tinyi_sort_insert_##name(T *a, size_t n, int first_bit)                                         \
    {                                                                                                           \
        size_t i, j;                                                                                            \
        (void)first_bit;                                                                                        \
        for (i = 1; i < n; i++) {                                                                               \
            T t = a[i];                                                                                         \
            for (j = i; j > 0 && (KEY(a[j - 1]) >> first_bit) > (KEY(t) >> first_bit); j--) a[j] = a[j - 1];    \
            a[j] = t;                                                                                           \
        }                                                                                                       \
    }                                                                                                           \
    static uint64_t tinyi_sort_differ_##name(const T *a, size_t i0, size_t i1)                                  \
    {                                                                                                           \
        uint64_t d = 0, first = KEY(a[0]);                                                                      \
        size_t i;                                                                                               \
        for (i = i0; i < i1; i++) d |= KEY(a[i]) ^ first;                                                       \
        return d;                                                                                               \
    }                                                                                                           \
    static void tinyi_sort_count_##name(const T *a, size_t i0, size_t i1, int bit, size_t *count)               \
    {                                                                                                           \
        size_t i;                                                                                               \
        memset(count, 0, TINYI_SORT_DIGITS * sizeof *count);                                                    \
        for (i = i0; i < i1; i++) count[KEY(a[i]) >> bit & (TINYI_SORT_DIGITS - 1)]++;                          \
    }                                                                                                           \
    static void tinyi_sort_move_##name(T *to, const T *a, size_t i0, size_t i1, int bit, size_t *place)         \
    {                                                                                                           \
        size_t i;                                                                                               \
        for (i = i0; i < i1; i++) {                                                                             \
            T t = a[i];                                                                                         \
            to[place[KEY(t) >> bit & (TINYI_SORT_DIGITS - 1)]++] = t;                                           \
        }                                                                                                       \
    }                                                                                                           \
    static void tinyi_sort_alone_##name(tinyi_sort_job *job, size_t *count)                                     \
    {                                                                                                           \
        T *from = (T *)job->item, *to = (T *)job->scratch, *t;                                                  \
        uint64_t differ;                                                                                        \
        int bit;                                                                                                \
        if (job->n <= TINYI_SORT_SMALL) { tinyi_sort_insert_##name(from, job->n, job->first_bit); return; }     \
        differ = tinyi_sort_differ_##name(from, 0, job->n);                                                     \
        for (bit = job->first_bit; bit < job->first_bit + job->n_bits; bit += 8) {                              \
            if (!(differ >> bit & (TINYI_SORT_DIGITS - 1))) continue;                                           \
            tinyi_sort_count_##name(from, 0, job->n, bit, count);                                               \
            tinyi_sort_places(count, 1);                                                                        \
            tinyi_sort_move_##name(to, from, 0, job->n, bit, count);                                            \
            t = from; from = to; to = t;                                                                        \
        }                                                                                                       \
        if (from != (T *)job->item) memcpy(job->item, from, job->n * sizeof(T));                                \
    }                                                                                                           \
    static void tinyi_sort_team_##name(tiny_team *team, void *arg)                                              \
    {                                                                                                           \
        tinyi_sort_job *job = (tinyi_sort_job *)arg;                                                            \
        size_t *count = (size_t *)team->shared, i0, i1;                                                         \
        T *from = (T *)job->item, *to = (T *)job->scratch, *t;                                                  \
        uint64_t *d = (uint64_t *)(void *)(count + (size_t)team->n * TINYI_SORT_DIGITS), differ = 0;            \
        int bit, i;                                                                                             \
        if (team->n == 1) { tinyi_sort_alone_##name(job, count); return; }                                      \
        i0 = tinyi_sort_cut(job->n, team->i, team->n);                                                          \
        i1 = tinyi_sort_cut(job->n, team->i + 1, team->n);                                                      \
        d[team->i] = tinyi_sort_differ_##name(from, i0, i1);                                                    \
        tiny_barrier(team);                                                                                     \
        for (i = 0; i < team->n; i++) differ |= d[i];                                                           \
        for (bit = job->first_bit; bit < job->first_bit + job->n_bits; bit += 8) {                              \
            if (!(differ >> bit & (TINYI_SORT_DIGITS - 1))) continue;                                           \
            tinyi_sort_count_##name(from, i0, i1, bit, count + (size_t)team->i * TINYI_SORT_DIGITS);            \
            tiny_barrier(team);                                                                                 \
            if (team->i == 0) tinyi_sort_places(count, team->n);                                                \
            tiny_barrier(team);                                                                                 \
            tinyi_sort_move_##name(to, from, i0, i1, bit, count + (size_t)team->i * TINYI_SORT_DIGITS);         \
            tiny_barrier(team);                                                                                 \
            t = from; from = to; to = t;                                                                        \
        }                                                                                                       \
        if (from != (T *)job->item) memcpy((T *)job->item + i0, from + i0, (i1 - i0) * sizeof(T));              \
    }

/* counts become places: all smaller digits first, then the same digit in earlier pieces */
static void tinyi_sort_places(size_t *count, int pieces)
{
    size_t at = 0;
    int d, p;
    for (d = 0; d < TINYI_SORT_DIGITS; d++)
        for (p = 0; p < pieces; p++) {
            size_t *c = count + (size_t)p * TINYI_SORT_DIGITS + d, n = *c;
            *c = at;
            at += n;
        }
}

#define TINYI_SORT_KEY_SELF(t) (t)
#define TINYI_SORT_KEY_PAIR(t) ((t).key)
TINYI_SORT_ENGINE(u32, uint32_t, TINYI_SORT_KEY_SELF)
TINYI_SORT_ENGINE(u64, uint64_t, TINYI_SORT_KEY_SELF)
TINYI_SORT_ENGINE(pair, tinyi_sort_pair, TINYI_SORT_KEY_PAIR)

void tinyi_sort_pairs(uint64_t *item, uint64_t *scratch, size_t n)
{
    size_t count[TINYI_SORT_DIGITS];
    tinyi_sort_job job;
    job.item = item;
    job.scratch = scratch;
    job.n = n;
    job.first_bit = 32;
    job.n_bits = 32;
    job.differ = 0;
    tinyi_sort_alone_u64(&job, count);
}

static tiny_status tinyi_sort_run(tiny_ctx *ctx, tiny_team_fn fn, void *item, void *scratch, size_t n, int first_bit,
                                  int n_bits)
{
    tinyi_sort_job job;
    int pieces = n < TINYI_SORT_THREADED ? 1 : TINYI_MIN(tiny_ctx_threads(ctx), TINYI_SORT_PIECES);
    job.item = item;
    job.scratch = scratch;
    job.n = n;
    job.first_bit = first_bit;
    job.n_bits = n_bits;
    job.differ = 0;
    return tiny_parallel(ctx, pieces, (size_t)pieces * (TINYI_SORT_DIGITS * sizeof(size_t) + sizeof(uint64_t)), 0, fn,
                         &job);
}

static tiny_status tinyi_sort_begin(tiny_ctx *ctx, const char *what, const void *key, size_t n, unsigned flags)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (flags & ~(unsigned)TINY_SORT_DESCENDING)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: flags 0x%x are not known", what, flags);
    if (n && !key) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the keys are missing", what);
    return TINY_OK;
}

/* Keys and floats are read and written as their bytes: a signalling NaN must survive. */
TINYI_INLINE uint32_t tinyi_sort_bits(const void *key, size_t i)
{
    uint32_t u;
    memcpy(&u, (const unsigned char *)key + 4 * i, 4);
    return u;
}
TINYI_INLINE void tinyi_sort_put(void *key, size_t i, uint32_t u) { memcpy((unsigned char *)key + 4 * i, &u, 4); }

/* the key that is sorted: floats mapped, the direction folded in, NaN last in both directions */
TINYI_INLINE uint32_t tinyi_sort_key32(uint32_t bits, int is_float, uint32_t flip)
{
    if (is_float && (bits = tinyi_sort_key_f32(bits)) == 0xffffffffu) return bits;
    return bits ^ flip;
}

/* 32-bit keys: with order the index comes out and sorted is NULL; else sorted (which may be key) and payload are
 * written */
static tiny_status tinyi_sort_32(tiny_ctx *ctx, const void *key, void *sorted, uint32_t *payload, uint32_t *order,
                                 size_t n, unsigned flags, int is_float)
{
    uint32_t flip = flags & TINY_SORT_DESCENDING ? 0xffffffffu : 0;
    tiny_status st;
    size_t i;
    if (n < 2) {
        if (n && order) order[0] = 0;
        return TINY_OK;
    }
    if (!order && !payload && !is_float) {
        uint32_t *item = (uint32_t *)tinyi_alloc(ctx, n, 2 * sizeof *item);
        if (!item) return tiny_ctx_status(ctx);
        for (i = 0; i < n; i++) item[i] = tinyi_sort_bits(key, i) ^ flip;
        st = tinyi_sort_run(ctx, tinyi_sort_team_u32, item, item + n, n, 0, 32);
        if (!st) for (i = 0; i < n; i++) tinyi_sort_put(sorted, i, item[i] ^ flip);
        tiny_free(ctx, item);
    } else if (!order && payload && is_float) {
        tinyi_sort_pair *item = (tinyi_sort_pair *)tinyi_alloc(ctx, n, 2 * sizeof *item);
        if (!item) return tiny_ctx_status(ctx);
        for (i = 0; i < n; i++) {
            uint32_t bits = tinyi_sort_bits(key, i);
            item[i].key = tinyi_sort_key32(bits, 1, flip);
            item[i].value = (uint64_t)bits << 32 | payload[i];
        }
        st = tinyi_sort_run(ctx, tinyi_sort_team_pair, item, item + n, n, 0, 32);
        if (!st)
            for (i = 0; i < n; i++) {
                tinyi_sort_put(sorted, i, (uint32_t)(item[i].value >> 32));
                payload[i] = (uint32_t)item[i].value;
            }
        tiny_free(ctx, item);
    } else {
        /* what travels: the index, the payload, or the float itself (its key has lost the sign of 0 and the bits of a
         * NaN) */
        uint64_t *item = (uint64_t *)tinyi_alloc(ctx, n, 2 * sizeof *item);
        if (!item) return tiny_ctx_status(ctx);
        for (i = 0; i < n; i++) {
            uint32_t bits = tinyi_sort_bits(key, i);
            item[i] = (uint64_t)tinyi_sort_key32(bits, is_float, flip) << 32 | (order     ? (uint32_t)i
                                                                                : payload ? payload[i]
                                                                                          : bits);
        }
        st = tinyi_sort_run(ctx, tinyi_sort_team_u64, item, item + n, n, 32, 32);
        for (i = 0; !st && i < n; i++) {
            if (order) order[i] = (uint32_t)item[i];
            else if (payload) {
                tinyi_sort_put(sorted, i, (uint32_t)(item[i] >> 32) ^ flip);
                payload[i] = (uint32_t)item[i];
            } else tinyi_sort_put(sorted, i, (uint32_t)item[i]);
        }
        tiny_free(ctx, item);
    }
    return st;
}

static tiny_status tinyi_sort_64(tiny_ctx *ctx, const uint64_t *key, uint64_t *sorted, uint32_t *payload,
                                 uint32_t *order, size_t n, unsigned flags)
{
    uint64_t flip = flags & TINY_SORT_DESCENDING ? ~(uint64_t)0 : 0;
    tiny_status st;
    size_t i;
    if (n < 2) {
        if (n && order) order[0] = 0;
        return TINY_OK;
    }
    if (!order && !payload) {
        uint64_t *item = (uint64_t *)tinyi_alloc(ctx, n, 2 * sizeof *item);
        if (!item) return tiny_ctx_status(ctx);
        for (i = 0; i < n; i++) item[i] = key[i] ^ flip;
        st = tinyi_sort_run(ctx, tinyi_sort_team_u64, item, item + n, n, 0, 64);
        for (i = 0; !st && i < n; i++) sorted[i] = item[i] ^ flip;
        tiny_free(ctx, item);
    } else {
        tinyi_sort_pair *item = (tinyi_sort_pair *)tinyi_alloc(ctx, n, 2 * sizeof *item);
        if (!item) return tiny_ctx_status(ctx);
        for (i = 0; i < n; i++) {
            item[i].key = key[i] ^ flip;
            item[i].value = order ? (uint32_t)i : payload[i];
        }
        st = tinyi_sort_run(ctx, tinyi_sort_team_pair, item, item + n, n, 0, 64);
        for (i = 0; !st && i < n; i++) {
            if (order) order[i] = (uint32_t)item[i].value;
            else {
                sorted[i] = item[i].key ^ flip;
                payload[i] = (uint32_t)item[i].value;
            }
        }
        tiny_free(ctx, item);
    }
    return st;
}

TINY_API tiny_status tiny_sort_u32(tiny_ctx *ctx, uint32_t *key, uint32_t *payload, size_t n, unsigned flags)
{
    tiny_status st = tinyi_sort_begin(ctx, "sort_u32", key, n, flags);
    return st ? st : tinyi_sort_32(ctx, key, key, payload, NULL, n, flags, 0);
}

TINY_API tiny_status tiny_sort_u64(tiny_ctx *ctx, uint64_t *key, uint32_t *payload, size_t n, unsigned flags)
{
    tiny_status st = tinyi_sort_begin(ctx, "sort_u64", key, n, flags);
    return st ? st : tinyi_sort_64(ctx, key, key, payload, NULL, n, flags);
}

TINY_API tiny_status tiny_sort_f32(tiny_ctx *ctx, float *key, uint32_t *payload, size_t n, unsigned flags)
{
    tiny_status st = tinyi_sort_begin(ctx, "sort_f32", key, n, flags);
    return st ? st : tinyi_sort_32(ctx, key, key, payload, NULL, n, flags, 1);
}

static tiny_status tinyi_argsort_begin(tiny_ctx *ctx, const char *what, const void *key, const uint32_t *order,
                                       size_t n, unsigned flags)
{
    tiny_status st = tinyi_sort_begin(ctx, what, key, n, flags);
    if (st) return st;
    if (n && !order) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the output is missing", what);
#if SIZE_MAX > 0xffffffffu
    if (n > 0xffffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %zu keys, the maximum is 4294967295", what, n);
#endif
    return TINY_OK;
}

TINY_API tiny_status tiny_argsort_u32(tiny_ctx *ctx, const uint32_t *key, uint32_t *order, size_t n, unsigned flags)
{
    tiny_status st = tinyi_argsort_begin(ctx, "argsort_u32", key, order, n, flags);
    return st ? st : tinyi_sort_32(ctx, key, NULL, NULL, order, n, flags, 0);
}

TINY_API tiny_status tiny_argsort_u64(tiny_ctx *ctx, const uint64_t *key, uint32_t *order, size_t n, unsigned flags)
{
    tiny_status st = tinyi_argsort_begin(ctx, "argsort_u64", key, order, n, flags);
    return st ? st : tinyi_sort_64(ctx, key, NULL, NULL, order, n, flags);
}

TINY_API tiny_status tiny_argsort_f32(tiny_ctx *ctx, const float *key, uint32_t *order, size_t n, unsigned flags)
{
    tiny_status st = tinyi_argsort_begin(ctx, "argsort_f32", key, order, n, flags);
    return st ? st : tinyi_sort_32(ctx, key, NULL, NULL, order, n, flags, 1);
}

/* ---- prefix sums of counts */

typedef struct tinyi_prefix_job {
    const void *count;
    void *offset;
    size_t n;
    int wide;                               /* i64; else u32 */
} tinyi_prefix_job;

/* Shared workspace: for each piece its total (later its start), and whether it was bad: 1 negative, 2 too large. */
typedef struct tinyi_prefix_piece { uint64_t sum; int bad; } tinyi_prefix_piece;

static void tinyi_prefix_total(const tinyi_prefix_job *job, size_t i0, size_t i1, tinyi_prefix_piece *piece)
{
    uint64_t s = 0, over = 0, sign = 0;
    size_t i;
    if (job->wide) {
        const int64_t *c = (const int64_t *)job->count;
        for (i = i0; i < i1; i++) {
            sign |= (uint64_t)c[i];
            s += (uint64_t)c[i];            /* below 2^63 each: the top bit shows the first overflow */
            over |= s;
        }
    } else {
        const uint32_t *c = (const uint32_t *)job->count;
        for (i = i0; i < i1; i++) {
            s += c[i];
            over |= s & 0xffffffff00000000u;
        }
        over = over ? (uint64_t)1 << 63 : 0;
    }
    piece->sum = s;
    piece->bad = sign >> 63 ? 1 : over >> 63 ? 2 : 0;
}

static void tinyi_prefix_write(const tinyi_prefix_job *job, size_t i0, size_t i1, uint64_t s)
{
    size_t i;
    if (job->wide) {
        const int64_t *c = (const int64_t *)job->count;
        int64_t *o = (int64_t *)job->offset;
        for (i = i0; i < i1; i++) {
            uint64_t v = (uint64_t)c[i];
            o[i] = (int64_t)s;
            s += v;
        }
    } else {
        const uint32_t *c = (const uint32_t *)job->count;
        uint32_t *o = (uint32_t *)job->offset;
        for (i = i0; i < i1; i++) {
            uint32_t v = c[i];
            o[i] = (uint32_t)s;
            s += v;
        }
    }
}

static void tinyi_prefix_team(tiny_team *team, void *arg)
{
    const tinyi_prefix_job *job = (const tinyi_prefix_job *)arg;
    tinyi_prefix_piece *piece = (tinyi_prefix_piece *)team->shared;
    size_t i0 = tinyi_sort_cut(job->n, team->i, team->n), i1 = tinyi_sort_cut(job->n, team->i + 1, team->n);
    int i;
    tinyi_prefix_total(job, i0, i1, &piece[team->i]);
    tiny_barrier(team);
    if (team->i == 0) {
        uint64_t at = 0, most = job->wide ? (uint64_t)INT64_MAX : 0xffffffffu;
        int bad = 0;
        for (i = 0; i < team->n; i++) {
            uint64_t sum = piece[i].sum;
            if (!bad) bad = piece[i].bad;
            if (!bad && sum > most - at) bad = 2;
            piece[i].sum = at;
            if (!bad) at += sum;
        }
        piece[0].bad = bad;
        if (bad == 1) tiny_team_fail(team, TINY_E_ARGUMENT, "prefix_i64: a count is negative");
        else if (bad)
            tiny_team_fail(team, TINY_E_OVERFLOW,
                           job->wide ? "prefix_i64: the total does not fit into 63 bits"
                                     : "prefix_u32: the total does not fit into 32 bits");
        else if (job->wide) ((int64_t *)job->offset)[job->n] = (int64_t)at;
        else ((uint32_t *)job->offset)[job->n] = (uint32_t)at;
    }
    tiny_barrier(team);
    if (!piece[0].bad) tinyi_prefix_write(job, i0, i1, piece[team->i].sum);
}

static tiny_status tinyi_prefix_run(tiny_ctx *ctx, const void *count, size_t n, void *offset, int wide)
{
    tinyi_prefix_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    int pieces = n < TINYI_SORT_THREADED ? 1 : TINYI_MIN(tiny_ctx_threads(ctx), TINYI_SORT_PIECES);
    if (st) return st;
    if ((n && !count) || !offset)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the %s are missing", wide ? "prefix_i64" : "prefix_u32",
                          offset ? "counts" : "offsets");
    job.count = count;
    job.offset = offset;
    job.n = n;
    job.wide = wide;
    return tiny_parallel(ctx, pieces, (size_t)pieces * sizeof(tinyi_prefix_piece), 0, tinyi_prefix_team, &job);
}

TINY_API tiny_status tiny_prefix_u32(tiny_ctx *ctx, const uint32_t *count, size_t n, uint32_t *offset)
{
    return tinyi_prefix_run(ctx, count, n, offset, 0);
}

TINY_API tiny_status tiny_prefix_i64(tiny_ctx *ctx, const int64_t *count, size_t n, int64_t *offset)
{
    return tinyi_prefix_run(ctx, count, n, offset, 1);
}

/* where row r begins, in elements */
static tiny_idx tinyi_sort_row(const tiny_tensor *t, tiny_idx r)
{
    tiny_idx at = 0;
    int i;
    for (i = t->rank - 2; i >= 0; i--) {
        at += r % t->dim[i] * t->stride[i];
        r /= t->dim[i];
    }
    return at;
}

/* ---- top-k */

static tiny_idx tinyi_topk_k(const tiny_op *op) { return op->params ? ((const tiny_topk_params *)op->params)->k : 0; }

static tiny_status tinyi_topk_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    tiny_idx k = tinyi_topk_k(op), dim[TINY_MAX_RANK], n;
    if (x->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "topk: x is %s, it must be f32", tiny_dtype_name(x->dtype));
    if (x->rank < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "topk: x has no axis to choose from");
    n = x->dim[x->rank - 1];
    if (k < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "topk: k is %td, it must be at least 1", k);
    if (k > n) return tinyi_fail(ctx, TINY_E_SHAPE, "topk: k is %td, the rows of x have only %td values", k, n);
    if (n > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "topk: rows of %td values, the maximum is 2147483647", n);
    memcpy(dim, x->dim, sizeof dim);
    dim[x->rank - 1] = k;
    tinyi_want(&want[0], TINY_F32, x->rank, dim);
    tinyi_want(&want[1], TINY_I32, x->rank, dim);
    return TINY_OK;
}

TINY_REF_BEGIN
static void tinyi_topk_ref_op(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *v = op->out[0], *ix = op->out[1];
    tiny_idx rows = tinyi_row_count(x), k = tinyi_topk_k(op), r, i, j;
    int a = x->rank - 1;
    for (r = 0; r < rows; r++) {
        const unsigned char *px = (const unsigned char *)x->data + 4 * tinyi_sort_row(x, r);
        unsigned char *pv = (unsigned char *)v->data + 4 * tinyi_sort_row(v, r);
        int32_t *pi = (int32_t *)ix->data + tinyi_sort_row(ix, r);
        tiny_idx m = 0;                     /* so many are kept, best first */
        for (i = 0; i < x->dim[a]; i++) {
            uint32_t bits = tinyi_sort_bits(px + 4 * i * x->stride[a], 0), key = tinyi_topk_key(bits);
            tiny_idx low = 0, high = m;     /* the first kept one that is smaller */
            while (low < high) {
                j = low + (high - low) / 2;
                if (tinyi_topk_key(tinyi_sort_bits(pv + 4 * j * v->stride[a], 0)) < key) high = j;
                else low = j + 1;
            }
            if (low == k) continue;
            if (m < k) m++;
            for (j = m - 1; j > low; j--) {
                memcpy(pv + 4 * j * v->stride[a], pv + 4 * (j - 1) * v->stride[a], 4);
                pi[j * ix->stride[a]] = pi[(j - 1) * ix->stride[a]];
            }
            memcpy(pv + 4 * low * v->stride[a], &bits, 4);
            pi[low * ix->stride[a]] = (int32_t)i;
        }
    }
}
TINY_REF_END

#define TINYI_TOPK_CHUNK 1024
#define TINYI_TOPK_INSERT 64
#define TINYI_TOPK_LONG 65536               /* a single row of this length is worth sharing */

/* A candidate is key << 32 | ~index: the larger is the better, and no two are equal. */
typedef struct tinyi_topk_state {
    size_t k, n, cap;
    uint64_t *item;                         /* cap of them, n used; up to TINYI_TOPK_INSERT: best first */
    uint64_t *scratch;                      /* k */
    uint32_t *hit;                          /* TINYI_TOPK_CHUNK */
    float *chunk;                           /* TINYI_TOPK_CHUNK */
    float limit;                            /* of the k-th best; only when n >= k was reached once */
    int limited;
    tinyi_fn_topk_scan_f32 scan;
} tinyi_topk_state;

static size_t tinyi_topk_cap(size_t n, size_t k)
{
    if (k <= TINYI_TOPK_INSERT) return k;
    return k < (n - TINYI_MIN(n, 2 * TINYI_TOPK_CHUNK)) / 4 ? 2 * k + 2 * TINYI_TOPK_CHUNK : n;
}

TINYI_FN size_t tinyi_topk_own_bytes(size_t n, size_t k)
{
    return (tinyi_topk_cap(n, k) + k) * sizeof(uint64_t) + 2 * TINYI_TOPK_CHUNK * 4;
}

static void tinyi_topk_begin(tinyi_topk_state *s, void *own, size_t n, size_t k, tinyi_fn_topk_scan_f32 scan)
{
    s->k = k;
    s->n = 0;
    s->cap = tinyi_topk_cap(n, k);
    s->item = (uint64_t *)own;
    s->scratch = s->item + s->cap;
    s->hit = (uint32_t *)(void *)(s->scratch + k);
    s->chunk = (float *)(void *)(s->hit + TINYI_TOPK_CHUNK);
    s->limit = 0;
    s->limited = 0;
    s->scan = scan;
}

static float tinyi_topk_value(uint64_t item)
{
    uint32_t key = (uint32_t)(item >> 32);
    return tinyi_bits_f32(key == 0 ? 0x7fc00000u : key >> 31 ? key ^ 0x80000000u : ~key);
}

static void tinyi_topk_insert(tinyi_topk_state *s, uint64_t item)
{
    size_t j;
    if (s->n < s->k) s->n++;
    else if (item <= s->item[s->n - 1]) return;
    for (j = s->n - 1; j > 0 && s->item[j - 1] < item; j--) s->item[j] = s->item[j - 1];
    s->item[j] = item;
    if (s->n == s->k) {
        s->limit = tinyi_topk_value(s->item[s->n - 1]);
        s->limited = 1;
    }
}

/* Keeps the k best of n items that stand in the order of their indices; they keep that order. Returns the k-th key. */
static uint32_t tinyi_topk_cut(uint64_t *item, size_t n, size_t k)
{
    static const struct {
        int shift, above;
        uint32_t mask;
    } level[3] = { { 21, 31, 2047 }, { 10, 21, 2047 }, { 0, 10, 1023 } };
    uint32_t count[2048], found = 0;
    size_t left = k, i, m = 0;
    int l;
    for (l = 0; l < 3; l++) {
        uint32_t d;
        memset(count, 0, ((size_t)level[l].mask + 1) * sizeof *count);
        for (i = 0; i < n; i++) {
            uint32_t key = (uint32_t)(item[i] >> 32);
            if (l == 0 || key >> level[l].above == found >> level[l].above)
                count[key >> level[l].shift & level[l].mask]++;
        }
        for (d = level[l].mask; count[d] < left; d--) left -= count[d];
        found |= d << level[l].shift;
    }
    for (i = 0; i < n; i++) {
        uint32_t key = (uint32_t)(item[i] >> 32);
        if (key < found) continue;
        if (key == found) {
            if (left == 0) continue;
            left--;
        }
        item[m++] = item[i];
    }
    return found;
}

static void tinyi_topk_offer(tinyi_topk_state *s, const float *x, tiny_idx stride, size_t i0, size_t i1)
{
    size_t i, j, n, hits, most = 64;
    for (i = i0; i < i1; i += n) {
        const float *p = s->chunk;
        n = TINYI_MIN(i1 - i, most);        /* short ones first: the limit rises fast at the start */
        most = TINYI_MIN(2 * most, (size_t)TINYI_TOPK_CHUNK);
        /* cut when there is no room, and early enough that the limit follows the finds */
        if (s->k > TINYI_TOPK_INSERT && (s->n + n > s->cap || (s->cap > 2 * s->k && s->n > 2 * s->k + 256))) {
            s->limit = tinyi_topk_value((uint64_t)tinyi_topk_cut(s->item, s->n, s->k) << 32);
            s->n = s->k;
            s->limited = 1;
        }
        if (stride == 1) p = x + i;
        else
            for (j = 0; j < n; j++) memcpy(&s->chunk[j], x + (tiny_idx)(i + j) * stride, 4);
        j = 0;
        if (!s->limited) {
            /* nothing to compare with yet: take them as they come */
            for (; j < n && !s->limited; j++) {
                uint64_t item =
                    (uint64_t)tinyi_topk_key(tinyi_sort_bits(p, j)) << 32 | (0xffffffffu - (uint32_t)(i + j));
                if (s->k <= TINYI_TOPK_INSERT) tinyi_topk_insert(s, item);
                else s->item[s->n++] = item;
            }
            if (j == n) continue;
        }
        hits = s->scan(s->hit, p + j, n - j, s->limit);
        {
            size_t h;
            for (h = 0; h < hits; h++) {
                size_t at = j + s->hit[h];
                uint64_t item =
                    (uint64_t)tinyi_topk_key(tinyi_sort_bits(p, at)) << 32 | (0xffffffffu - (uint32_t)(i + at));
                if (s->k <= TINYI_TOPK_INSERT) tinyi_topk_insert(s, item);
                else s->item[s->n++] = item;
            }
        }
    }
}

/* The k best, in any number of items in the order of their indices (or already best first), come out best first. */
static void tinyi_topk_end(tinyi_topk_state *s)
{
    size_t i;
    if (s->k <= TINYI_TOPK_INSERT) return;
    if (s->n > s->k) (void)tinyi_topk_cut(s->item, s->n, s->k);
    s->n = s->k;
    for (i = 0; i < s->k; i++) s->item[i] = ~s->item[i];
    tinyi_sort_pairs(s->item, s->scratch, s->k);
    for (i = 0; i < s->k; i++) s->item[i] = ~s->item[i];
}

TINYI_FN const uint64_t *tinyi_topk_row(void *own, const float *x, size_t n, size_t k, tinyi_fn_topk_scan_f32 scan)
{
    tinyi_topk_state s;
    tinyi_topk_begin(&s, own, n, k, scan);
    tinyi_topk_offer(&s, x, 1, 0, n);
    tinyi_topk_end(&s);
    return s.item;
}

static void tinyi_topk_put(const tinyi_topk_state *s, const tiny_op *op, tiny_idx row)
{
    const tiny_tensor *x = op->in[0], *v = op->out[0], *ix = op->out[1];
    const float *px = (const float *)x->data + tinyi_sort_row(x, row);
    float *pv = (float *)v->data + tinyi_sort_row(v, row);
    int32_t *pi = (int32_t *)ix->data + tinyi_sort_row(ix, row);
    int a = x->rank - 1;
    size_t i;
    for (i = 0; i < s->k; i++) {
        uint32_t at = 0xffffffffu - (uint32_t)s->item[i];
        memcpy(pv + (tiny_idx)i * v->stride[a], px + (tiny_idx)at * x->stride[a], 4);
        pi[(tiny_idx)i * ix->stride[a]] = (int32_t)at;
    }
}

/* in how many pieces a row is cut; 1: not at all. They depend on the shape only. */
static int tinyi_topk_pieces(tiny_idx rows, tiny_idx n, tiny_idx k)
{
    tiny_idx pieces = n / (TINYI_TOPK_LONG / 4);
    if (rows >= 8 || n < TINYI_TOPK_LONG) return 1;
    if (pieces > 64) pieces = 64;
    if (pieces > n / 8 / k) pieces = n / 8 / k;
    return pieces < 2 ? 1 : (int)pieces;
}

static void tinyi_topk_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tiny_tensor *x = op->in[0];
    tiny_idx rows = tinyi_row_count(x), n = x->dim[x->rank - 1], k = tinyi_topk_k(op);
    if (rows == 0 || n == 0) return;
    *own_bytes = tinyi_topk_own_bytes((size_t)n, (size_t)k);
    if (n_threads > 1) {
        int pieces = tinyi_topk_pieces(rows, n, k);
        if (pieces > 1) *shared_bytes = (size_t)pieces * (size_t)k * sizeof(uint64_t);
    }
}

static void tinyi_topk_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0];
    const tinyi_fn_topk_scan_f32 scan = TINYI_K(team, topk_scan_f32);
    tiny_idx rows = tinyi_row_count(x), n = x->dim[x->rank - 1], k = tinyi_topk_k(op), stride = x->stride[x->rank - 1],
             r, r1, p, p1;
    int pieces = team->n > 1 && team->shared ? tinyi_topk_pieces(rows, n, k) : 1;
    tinyi_topk_state s;
    if (rows == 0) return;
    if (pieces == 1) {
        tiny_idx grain = TINYI_MAX(TINYI_TOPK_LONG / 2 / n, 1);
        while (tiny_take(team, rows, grain, &r, &r1))
            for (; r < r1; r++) {
                tinyi_topk_begin(&s, team->own, (size_t)n, (size_t)k, scan);
                tinyi_topk_offer(&s, (const float *)x->data + tinyi_sort_row(x, r), stride, 0, (size_t)n);
                tinyi_topk_end(&s);
                tinyi_topk_put(&s, op, r);
            }
        return;
    }
    for (r = 0; r < rows; r++) {
        uint64_t *won = (uint64_t *)team->shared;   /* (pieces, k) */
        while (tiny_take(team, pieces, 1, &p, &p1))
            for (; p < p1; p++) {
                tinyi_topk_begin(&s, team->own, (size_t)n, (size_t)k, scan);
                tinyi_topk_offer(&s, (const float *)x->data + tinyi_sort_row(x, r), stride,
                                 tinyi_sort_cut((size_t)n, (int)p, pieces),
                                 tinyi_sort_cut((size_t)n, (int)p + 1, pieces));
                if (s.n > s.k) (void)tinyi_topk_cut(s.item, s.n, s.k);
                memcpy(won + p * k, s.item, (size_t)k * sizeof *won);
            }
        tiny_barrier(team);
        /* else some winners are not there, and their indices are noise */
        if (team->i == 0 && !tinyi_team_stopped(team)) {
            tinyi_topk_begin(&s, team->own, (size_t)n, (size_t)k, scan);
            if (k <= TINYI_TOPK_INSERT)
                for (p = 0; p < pieces * k; p++) tinyi_topk_insert(&s, won[p]);
            else {
                (void)tinyi_topk_cut(won, (size_t)(pieces * k), (size_t)k);
                memcpy(s.item, won, (size_t)k * sizeof *won);
                s.n = s.k;
            }
            tinyi_topk_end(&s);
            tinyi_topk_put(&s, op, r);
        }
        tiny_barrier(team);
    }
}

static void tinyi_topk_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = (double)tiny_tensor_count(op->in[0]);
    cost->bytes = 4.0 * (double)tiny_tensor_count(op->in[0]) + 8.0 * (double)tiny_tensor_count(op->out[0]);
}

static void tinyi_topk_cases(tiny_case *c)
{
    tiny_topk_params *p = (tiny_topk_params *)(void *)&c->params;
    tiny_idx dim[3];
    int rank = 1 + tiny_case_pick(c, 3), i;
    for (i = 0; i < rank - 1; i++) dim[i] = tiny_case_dim(c, 5);
    dim[rank - 1] = tiny_case_dim(c, rank == 1 ? 100000 : 5000);
    p->k = tiny_case_dim(c, tiny_case_pick(c, 4) ? TINYI_MIN(dim[rank - 1], 100) : dim[rank - 1]);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    c->fill[0] = TINY_FILL_NORMAL;
}

static const short tinyi_kernels_of_topk[] = { TINYI_K_topk_scan_f32, -1 };
TINYI_ROW tinyi_row_topk = TINYI_ROW_OF("topk", TINY_OP_TOPK, TAKES(1, 1), GIVES(2), PARAMS(tiny_topk_params), FLAGS(0),
    SHAPE(tinyi_topk_shape), REFERENCE(tinyi_topk_ref_op), FAST(tinyi_topk_fast, tinyi_topk_work),
    COST(tinyi_topk_cost), CASES(tinyi_topk_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_topk), SAYS("value, index = the k largest of each row, largest first"));

TINY_API tiny_status tiny_topk(tiny_ctx *ctx, const tiny_tensor *x, tiny_idx k, const tiny_tensor *value,
                               const tiny_tensor *index)
{
    tiny_topk_params p;
    tiny_op op;
    memset(&op, 0, sizeof op);
    p.k = k;
    op.kind = TINY_OP_TOPK;
    op.in[0] = x;
    op.out[0] = value;
    op.out[1] = index;
    op.params = &p;
    return tiny_run(ctx, &op);
}

/* ---- cumulative sums */

static int tinyi_cumsum_exclusive(const tiny_op *op)
{
    return op->params ? ((const tiny_cumsum_params *)op->params)->exclusive != 0 : 0;
}

static tiny_status tinyi_cumsum_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    if (x->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "cumsum: x is %s, it must be f32", tiny_dtype_name(x->dtype));
    if (x->rank < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "cumsum: x has no axis to sum along");
    tinyi_want(&want[0], TINY_F32, x->rank, x->dim);
    return TINY_OK;
}

TINY_REF_BEGIN
static void tinyi_cumsum_row_ref(float *y, tiny_idx ys, const float *x, tiny_idx xs, tiny_idx n, int exclusive)
{
    double s = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        double before = s;
        s += (double)x[i * xs];
        y[i * ys] = tinyi_round_f32(exclusive ? before : s);
    }
}

static void tinyi_cumsum_ref_op(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx rows = tinyi_row_count(x), r;
    int a = x->rank - 1;
    for (r = 0; r < rows; r++)
        tinyi_cumsum_row_ref((float *)y->data + tinyi_sort_row(y, r), y->stride[a],
                             (const float *)x->data + tinyi_sort_row(x, r), x->stride[a], x->dim[a],
                             tinyi_cumsum_exclusive(op));
}
TINY_REF_END

#define TINYI_CUMSUM_PIECE 32768

static void tinyi_cumsum_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tiny_tensor *x = op->in[0];
    (void)own_bytes;
    if (n_threads > 1) *shared_bytes = ((size_t)x->dim[x->rank - 1] / TINYI_CUMSUM_PIECE + 1) * sizeof(double);
}

static void tinyi_cumsum_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tinyi_fn_cumsum_f32 kernel = TINYI_K(team, cumsum_f32);
    const tinyi_fn_cumsum_total_f32 total = TINYI_K(team, cumsum_total_f32);
    int a = x->rank - 1, exclusive = tinyi_cumsum_exclusive(op), dense;
    tiny_idx rows = tinyi_row_count(x), n = x->dim[a], pieces = (n + TINYI_CUMSUM_PIECE - 1) / TINYI_CUMSUM_PIECE, r,
             r1, p, p1;
    double *start = (double *)team->shared;
    if (rows == 0 || n == 0) return;
    dense = (x->stride[a] == 1 && y->stride[a] == 1) || n == 1;
    if (team->n == 1 || !dense || pieces < 2 || rows >= 4 * (tiny_idx)team->n) {
        tiny_idx grain = TINYI_MAX(TINYI_CUMSUM_PIECE / n, 1);
        while (tiny_take(team, rows, grain, &r, &r1))
            for (; r < r1; r++) {
                float *py = (float *)y->data + tinyi_sort_row(y, r);
                const float *px = (const float *)x->data + tinyi_sort_row(x, r);
                if (dense) (void)kernel(py, px, (size_t)n, 0.0, exclusive);
                else tinyi_cumsum_row_ref(py, y->stride[a], px, x->stride[a], n, exclusive);
            }
        return;
    }
    for (r = 0; r < rows; r++) {
        float *py = (float *)y->data + tinyi_sort_row(y, r);
        const float *px = (const float *)x->data + tinyi_sort_row(x, r);
        while (tiny_take(team, pieces - 1, 1, &p, &p1))
            for (; p < p1; p++) start[p + 1] = total(px + p * TINYI_CUMSUM_PIECE, TINYI_CUMSUM_PIECE);
        tiny_barrier(team);
        if (team->i == 0)
            for (start[0] = 0.0, p = 1; p < pieces; p++) start[p] += start[p - 1];
        tiny_barrier(team);
        while (tiny_take(team, pieces, 1, &p, &p1))
            for (; p < p1; p++)
                (void)kernel(py + p * TINYI_CUMSUM_PIECE, px + p * TINYI_CUMSUM_PIECE,
                             (size_t)TINYI_MIN(n - p * TINYI_CUMSUM_PIECE, (tiny_idx)TINYI_CUMSUM_PIECE), start[p],
                             exclusive);
        tiny_barrier(team);
    }
}

static void tinyi_cumsum_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = 2.0 * (double)tiny_tensor_count(op->in[0]);
    cost->bytes = 8.0 * (double)tiny_tensor_count(op->in[0]);
}

static void tinyi_cumsum_cases(tiny_case *c)
{
    tiny_cumsum_params *p = (tiny_cumsum_params *)(void *)&c->params;
    tiny_idx dim[3];
    int rank = 1 + tiny_case_pick(c, 3), i;
    for (i = 0; i < rank - 1; i++) dim[i] = tiny_case_dim(c, 7);
    dim[rank - 1] = tiny_case_dim(c, rank == 1 ? 200000 : 5000);
    p->exclusive = tiny_case_pick(c, 2);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    c->fill[0] = TINY_FILL_NORMAL;
}

static double tinyi_cumsum_terms(const tiny_op *op) { return (double)op->in[0]->dim[op->in[0]->rank - 1]; }

static const short tinyi_kernels_of_cumsum[] = { TINYI_K_cumsum_f32, TINYI_K_cumsum_total_f32, -1 };
TINYI_ROW tinyi_row_cumsum = TINYI_ROW_OF("cumsum", TINY_OP_CUMSUM, TAKES(1, 1), GIVES(1), PARAMS(tiny_cumsum_params),
    FLAGS(TINY_OP_INPLACE),
    SHAPE(tinyi_cumsum_shape), REFERENCE(tinyi_cumsum_ref_op), FAST(tinyi_cumsum_fast, tinyi_cumsum_work),
    COST(tinyi_cumsum_cost), CASES(tinyi_cumsum_cases), BOUND(TINY_BOUND_LINEAR, 2.0, 1.0 / 536870912.0),
    TERMS(tinyi_cumsum_terms), GRADIENT(NULL), KERNELS(tinyi_kernels_of_cumsum), SAYS("y[i] = x[0] + ... + x[i]"));

TINY_API tiny_status tiny_cumsum(tiny_ctx *ctx, const tiny_tensor *x, int exclusive, const tiny_tensor *y)
{
    tiny_cumsum_params p;
    p.exclusive = exclusive;
    return tinyi_call(ctx, TINY_OP_CUMSUM, x, NULL, &p, y);
}
