/* tests/math/sort.c - sorting against qsort, top-k against a full sort, prefix sums against plain sums */
#include "t.h"

/* ---- sorting */

static float from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static uint32_t to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

typedef struct pair { double key; uint64_t wide; uint32_t index; int nan; } pair;
static int descending;

static int by_double(const void *pa, const void *pb)
{
    const pair *a = (const pair *)pa, *b = (const pair *)pb;
    if (a->nan != b->nan) return a->nan ? 1 : -1;
    if (!a->nan && a->key < b->key) return descending ? 1 : -1;
    if (!a->nan && a->key > b->key) return descending ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}
static int by_wide(const void *pa, const void *pb)
{
    const pair *a = (const pair *)pa, *b = (const pair *)pb;
    if (a->wide != b->wide) return (a->wide < b->wide) != descending ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static const size_t lengths[] = { 0, 1, 2, 3, 7, 31, 47, 48, 49, 50, 100, 255, 256, 257, 1000, 4099, 70000, 200001 };

/* kinds of keys: all bits, few values, one value, ascending, descending, only the top byte, floats with specials */
static uint64_t make_key(int kind, size_t i, size_t n)
{
    switch (kind) {
    case 0: return t_rand_u64();
    case 1: return t_rand_below(5);
    case 2: return 77;
    case 3: return i;
    case 4: return n - i;
    case 5: return (uint64_t)t_rand_below(256) << 56 | (uint64_t)t_rand_below(256) << 24;
    default:
        return t_rand_below(3) ? to_bits(t_rand_float(-2.0f, 2.0f))
                               : to_bits(from_bits((uint32_t)(t_rand_below(2) << 31 |
                                                              (t_rand_below(3) ? 0u : 0x7f800000u + t_rand_below(3)))));
    }
}

static void check_u32(tiny_ctx *ctx, size_t n, int kind, unsigned flags)
{
    uint32_t *key = (uint32_t *)t_guarded_bytes(4 * n), *first = (uint32_t *)t_guarded_bytes(4 * n),
             *pay = (uint32_t *)t_guarded_bytes(4 * n);
    uint32_t *order = (uint32_t *)t_guarded_bytes(4 * n), *alone = (uint32_t *)t_guarded_bytes(4 * n);
    pair *want = (pair *)t_keep((n + 1) * sizeof *want);
    size_t i, bad = 0;
    for (i = 0; i < n; i++) {
        first[i] = key[i] = alone[i] = (uint32_t)make_key(kind, i, n);
        pay[i] = (uint32_t)i ^ 0x80000000u;
        want[i].wide = key[i];
        want[i].index = (uint32_t)i;
    }
    qsort(want, n, sizeof *want, by_wide);
    T_OK(tiny_argsort_u32(ctx, key, order, n, flags));
    T_SAME(key, first, n);
    T_OK(tiny_sort_u32(ctx, key, pay, n, flags));
    T_OK(tiny_sort_u32(ctx, alone, NULL, n, flags));
    for (i = 0; i < n; i++)
        bad += key[i] != want[i].wide || alone[i] != key[i] || order[i] != want[i].index ||
               pay[i] != (want[i].index ^ 0x80000000u);
    T_EQ_INT(bad, 0);
    T_WALLS(key, n);
    T_WALLS(pay, n);
    T_WALLS(order, n);
}

static void check_u64(tiny_ctx *ctx, size_t n, int kind, unsigned flags)
{
    uint64_t *key = (uint64_t *)t_guarded_bytes(8 * n), *alone = (uint64_t *)t_guarded_bytes(8 * n);
    uint32_t *pay = (uint32_t *)t_guarded_bytes(4 * n), *order = (uint32_t *)t_guarded_bytes(4 * n);
    pair *want = (pair *)t_keep((n + 1) * sizeof *want);
    size_t i, bad = 0;
    for (i = 0; i < n; i++) {
        key[i] = alone[i] = make_key(kind, i, n);
        pay[i] = (uint32_t)i;
        want[i].wide = key[i];
        want[i].index = (uint32_t)i;
    }
    qsort(want, n, sizeof *want, by_wide);
    T_OK(tiny_argsort_u64(ctx, key, order, n, flags));
    T_OK(tiny_sort_u64(ctx, key, pay, n, flags));
    T_OK(tiny_sort_u64(ctx, alone, NULL, n, flags));
    for (i = 0; i < n; i++)
        bad += key[i] != want[i].wide || alone[i] != key[i] || order[i] != want[i].index || pay[i] != want[i].index;
    T_EQ_INT(bad, 0);
    T_WALLS(key, n);
}

static void check_f32(tiny_ctx *ctx, size_t n, int kind, unsigned flags)
{
    float *key = t_guarded(n), *first = t_guarded(n), *alone = t_guarded(n);
    uint32_t *pay = (uint32_t *)t_guarded_bytes(4 * n), *order = (uint32_t *)t_guarded_bytes(4 * n);
    pair *want = (pair *)t_keep((n + 1) * sizeof *want);
    size_t i, bad = 0;
    for (i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)make_key(kind, i, n);
        memcpy(&key[i], &bits, 4);
        memcpy(&alone[i], &bits, 4);
        memcpy(&first[i], &bits, 4);
        pay[i] = (uint32_t)(n - i);
        want[i].nan = key[i] != key[i];
        want[i].key = (double)key[i];
        want[i].index = (uint32_t)i;
    }
    qsort(want, n, sizeof *want, by_double);
    T_OK(tiny_argsort_f32(ctx, key, order, n, flags));
    T_SAME(key, first, n);
    T_OK(tiny_sort_f32(ctx, key, pay, n, flags));
    T_OK(tiny_sort_f32(ctx, alone, NULL, n, flags));
    for (i = 0; i < n; i++)
        bad += memcmp(&key[i], &first[want[i].index], 4) != 0 || memcmp(&alone[i], &key[i], 4) != 0 ||
               order[i] != want[i].index || pay[i] != (uint32_t)n - want[i].index;
    T_EQ_INT(bad, 0);
    T_WALLS(key, n);
    T_WALLS(alone, n);
}

static void test_sort(void)
{
    int threads, kind;
    size_t l;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
        for (l = 0; l < T_COUNT(lengths); l++)
            for (kind = 0; kind < 7; kind++) {
                if (lengths[l] > 5000 && kind > 1 && kind < 6) continue;
                for (descending = 0; descending < 2; descending++) {
                    unsigned flags = descending ? TINY_SORT_DESCENDING : 0;
                    check_u32(ctx, lengths[l], kind, flags);
                    check_u64(ctx, lengths[l], kind, flags);
                    check_f32(ctx, lengths[l], kind, flags);
                    t_free_blocks();
                }
            }
        t_close(ctx);
    }
}

/* -0 and 0 keep their order, NaN come last both ways, and every bit stays */
static void test_sort_by_hand(void)
{
    static const uint32_t in[8] = { 0x7fc00001u, 0x80000000u, 0x3f800000u, 0u,
                                    0xff800000u, 0xffc00002u, 0x7f800000u, 0x80000000u };
    static const uint32_t up[8] = { 0xff800000u, 0x80000000u, 0u,          0x80000000u,
                                    0x3f800000u, 0x7f800000u, 0x7fc00001u, 0xffc00002u };
    static const uint32_t down[8] = { 0x7f800000u, 0x3f800000u, 0x80000000u, 0u,
                                      0x80000000u, 0xff800000u, 0x7fc00001u, 0xffc00002u };
    static const uint32_t order_up[8] = { 4, 1, 3, 7, 2, 6, 0, 5 };
    float key[8];
    uint32_t order[8];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memcpy(key, in, sizeof in);
    T_OK(tiny_argsort_f32(ctx, key, order, 8, 0));
    T_SAME(order, order_up, 8);
    T_OK(tiny_sort_f32(ctx, key, NULL, 8, 0));
    T_TRUE(memcmp(key, up, sizeof up) == 0);
    memcpy(key, in, sizeof in);
    T_OK(tiny_sort_f32(ctx, key, NULL, 8, TINY_SORT_DESCENDING));
    T_TRUE(memcmp(key, down, sizeof down) == 0);
    t_close(ctx);
}

static void test_sort_refuses(void)
{
    uint32_t key[2] = { 2, 1 }, order[2];
    float f[2] = { 2.0f, 1.0f };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_STATUS(tiny_sort_u32(ctx, NULL, NULL, 2, 0), TINY_E_ARGUMENT, "sort_u32: the keys are missing");
    T_STATUS(tiny_sort_u32(ctx, key, NULL, 2, 6), TINY_E_ARGUMENT, "flags 0x6 are not known");
    T_STATUS(tiny_argsort_f32(ctx, f, NULL, 2, 0), TINY_E_ARGUMENT, "the output is missing");
    if (sizeof(size_t) > 4)
        T_STATUS(tiny_argsort_u32(ctx, key, order, (size_t)((uint64_t)1 << 32), 0), TINY_E_OVERFLOW,
                 "4294967296 keys, the maximum is 4294967295");
    T_TRUE(tiny_sort_f32(NULL, f, NULL, 2, 0) == TINY_E_ARGUMENT);
    T_TRUE(key[0] == 2 && f[0] == 2.0f);
    t_close(ctx);
}

static void test_sort_without_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        uint32_t key[100], was[100], pay[100];
        uint64_t wide[100];
        float f[100];
        int i, failed = 0;
        for (i = 0; i < 100; i++) {
            was[i] = key[i] = (uint32_t)(i * 37 % 100);
            f[i] = (float)key[i];
            wide[i] = key[i];
            pay[i] = (uint32_t)i;
        }
        if (!tiny_ctx_open(&desc, &ctx)) {
            failed = tiny_sort_u32(ctx, key, pay, 100, 0) == TINY_E_MEMORY;
            if (failed) T_SAME(key, was, 100);
            if (!failed && tiny_sort_u64(ctx, wide, NULL, 100, 0) == TINY_E_MEMORY) T_TRUE(wide[1] == 37);
            if (!failed && tiny_sort_f32(ctx, f, pay, 100, 0) == TINY_E_MEMORY) T_TRUE(f[1] == 37.0f);
            tiny_ctx_close(ctx);
        })
}

/* ---- prefix sums */

static void test_prefix(void)
{
    static const size_t len[] = { 0, 1, 2, 5, 1000, 65535, 65536, 200003 };
    int threads;
    size_t l, i;
    for (threads = 1; threads <= 4; threads++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
        for (l = 0; l < T_COUNT(len); l++) {
            size_t n = len[l], bad = 0;
            uint32_t *c = (uint32_t *)t_guarded_bytes(4 * n), *o = (uint32_t *)t_guarded_bytes(4 * (n + 1));
            int64_t *cw = (int64_t *)t_guarded_bytes(8 * (n + 1)), *ow = (int64_t *)t_guarded_bytes(8 * (n + 1)), s = 0;
            for (i = 0; i < n; i++) cw[i] = c[i] = t_rand_below(1000);
            T_OK(tiny_prefix_u32(ctx, c, n, o));
            T_OK(tiny_prefix_i64(ctx, cw, n, ow));
            T_OK(tiny_prefix_i64(ctx, cw, n, cw));              /* in place */
            for (i = 0; i <= n; i++) {
                bad += o[i] != (uint32_t)s || ow[i] != s || cw[i] != s;
                if (i < n) s += c[i];
            }
            T_EQ_INT(bad, 0);
            T_WALLS(o, n + 1);
            T_WALLS(ow, n + 1);
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* No piece of a thread is too large, their sum is. */
static void test_prefix_overflow_of_pieces(void)
{
    enum { N = 200000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 3);
    uint32_t *c = (uint32_t *)t_keep(N * 4), *o = (uint32_t *)t_keep((N + 1) * 4);
    int64_t *w = (int64_t *)t_keep(N * 8), *ow = (int64_t *)t_keep((N + 1) * 8);
    size_t i;
    for (i = 0; i < N; i++) { c[i] = 30000; w[i] = INT64_MAX / (N / 2) - 1; }
    o[5] = 77; ow[5] = 77;
    T_STATUS(tiny_prefix_u32(ctx, c, N, o), TINY_E_OVERFLOW, "does not fit into 32 bits");
    T_STATUS(tiny_prefix_i64(ctx, w, N, ow), TINY_E_OVERFLOW, "does not fit into 63 bits");
    T_TRUE(o[5] == 77 && ow[5] == 77);
    for (i = 0; i < N; i++) c[i] = 21474;
    T_OK(tiny_prefix_u32(ctx, c, N, o));
    T_EQ_INT(o[N], UINT32_C(21474) * N);
    c[0] += UINT32_MAX - UINT32_C(21474) * N;           /* the largest totals, and one more */
    T_OK(tiny_prefix_u32(ctx, c, N, o));
    T_EQ_INT(o[N], UINT32_MAX);
    c[N - 1]++;
    T_STATUS(tiny_prefix_u32(ctx, c, N, o), TINY_E_OVERFLOW, "does not fit into 32 bits");
    for (i = 0; i < N; i++) w[i] = INT64_MAX / N + (i < (size_t)(INT64_MAX % N));
    T_OK(tiny_prefix_i64(ctx, w, N, ow));
    T_EQ_INT(ow[N], INT64_MAX);
    w[N - 1]++;
    T_STATUS(tiny_prefix_i64(ctx, w, N, ow), TINY_E_OVERFLOW, "does not fit into 63 bits");
    t_close(ctx);
}

static void test_prefix_refuses(void)
{
    uint32_t c[3] = { 0x80000000u, 0x7fffffffu, 0 }, o[4] = { 9, 9, 9, 9 };
    int64_t w[3] = { INT64_MAX, 0, 0 }, ow[4] = { 9, 9, 9, 9 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    T_OK(tiny_prefix_u32(ctx, c, 3, o));
    T_TRUE(o[3] == 0xffffffffu);
    c[2] = 1;
    o[0] = 9;
    T_STATUS(tiny_prefix_u32(ctx, c, 3, o), TINY_E_OVERFLOW, "does not fit into 32 bits");
    T_TRUE(o[0] == 9);
    T_OK(tiny_prefix_i64(ctx, w, 3, ow));
    T_TRUE(ow[3] == INT64_MAX);
    w[2] = 1;
    ow[0] = 9;
    T_STATUS(tiny_prefix_i64(ctx, w, 3, ow), TINY_E_OVERFLOW, "does not fit into 63 bits");
    w[1] = -1;
    T_STATUS(tiny_prefix_i64(ctx, w, 3, ow), TINY_E_ARGUMENT, "a count is negative");
    T_TRUE(ow[0] == 9);
    T_STATUS(tiny_prefix_i64(ctx, NULL, 3, ow), TINY_E_ARGUMENT, "the counts are missing");
    T_STATUS(tiny_prefix_u32(ctx, c, 3, NULL), TINY_E_ARGUMENT, "the offsets are missing");
    t_close(ctx);
}

/* ---- top-k */

static void check_topk(tiny_ctx *ctx, tiny_idx rows, tiny_idx n, tiny_idx k, int kind, tiny_idx step)
{
    size_t total = (size_t)(rows * n * step), i;
    float *x = t_guarded(total), *v = t_guarded((size_t)(rows * k));
    int32_t *ix = (int32_t *)t_guarded_bytes(4 * (size_t)(rows * k));
    pair *want = (pair *)t_keep((size_t)n * sizeof *want);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows, n), tv = tiny_tensor_2d(v, TINY_F32, rows, k),
                ti = tiny_tensor_2d(ix, TINY_I32, rows, k);
    tiny_idx r, j, bad = 0;
    tx.stride[0] = n * step;
    tx.stride[1] = step;
    for (i = 0; i < total; i++) {
        uint32_t bits = (uint32_t)make_key(kind, i, total);
        if (kind == 0 || kind >= 6) memcpy(&x[i], &bits, 4);
        else x[i] = (float)bits;
    }
    T_OK(tiny_topk(ctx, &tx, k, &tv, &ti));
    descending = 1;
    for (r = 0; r < rows; r++) {
        for (j = 0; j < n; j++) {
            float f = x[(r * n + j) * step];
            want[j].nan = f != f;
            want[j].key = (double)f;
            want[j].index = (uint32_t)j;
        }
        qsort(want, (size_t)n, sizeof *want, by_double);
        for (j = 0; j < k; j++)
            bad += ix[r * k + j] != (int32_t)want[j].index ||
                   memcmp(&v[r * k + j], &x[(r * n + want[j].index) * step], 4) != 0;
    }
    if (!T_EQ_INT(bad, 0))
        printf("topk: %d rows of %d, k %d, kind %d, step %d\n", (int)rows, (int)n, (int)k, kind, (int)step);
    T_WALLS(v, rows * k);
    T_WALLS(ix, rows * k);
    t_free_blocks();
}

static void test_topk(tiny_target target)
{
    static const tiny_idx shape[][3] = { { 1, 1, 1 },      { 3, 5, 5 },       { 2, 64, 8 },      { 7, 257, 32 },
                                         { 2, 257, 33 },   { 2, 5000, 100 },  { 1, 9001, 1500 }, { 2, 6000, 6000 },
                                         { 1, 100003, 1 }, { 1, 100003, 50 }, { 2, 70000, 500 }, { 9, 1000, 40 } };
    static const float x[2][6] = { { 1, 3, -2, 3, 0, 2 }, { NAN, -INFINITY, NAN, -INFINITY, -5, NAN } };
    static const float best[2][4] = { { 3, 3, 2, 1 }, { -5, -INFINITY, -INFINITY, NAN } };
    static const int32_t at[2][4] = { { 1, 3, 5, 0 }, { 4, 1, 3, 0 } };
    float v[2][4], in[2][6];
    int32_t ix[2][4];
    tiny_tensor tx = tiny_tensor_2d(in, TINY_F32, 2, 6), tv = tiny_tensor_2d(v, TINY_F32, 2, 4),
                ti = tiny_tensor_2d(ix, TINY_I32, 2, 4);
    tiny_ctx *ctx;
    int threads, i, kind;
    size_t s;
    memcpy(in, x, sizeof x);
    for (threads = 1; threads <= 3; threads += 2) {
        ctx = t_ctx(target, threads);
        T_OK(tiny_topk(ctx, &tx, 4, &tv, &ti));     /* worked by hand */
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < 8; i++) {
            T_CLOSE(v[i / 4][i % 4], best[i / 4][i % 4], 0);
            T_EQ_INT(ix[i / 4][i % 4], at[i / 4][i % 4]);
        }
        for (s = 0; s < T_COUNT(shape); s++)
            for (kind = 0; kind < 8; kind++) {
                if (kind == 5 || (shape[s][1] > 60000 && kind > 0 && kind < 6 && kind != 3)) continue;
                check_topk(ctx, shape[s][0], shape[s][1], shape[s][2], kind, 1);
                if (kind < 2) check_topk(ctx, shape[s][0], shape[s][1], shape[s][2], kind, 3);
            }
        t_close(ctx);
    }
}

/* A cancel between the pieces of one long row: undefined winners must not be used as indices into the row. */
static int stop_in(void *user) { return --*(int *)user < 0; }

static void test_topk_cancelled(tiny_target target)
{
    enum { N = 300000 };
    static const tiny_idx k[] = { 1, 5, 100, 1000 };
    float *x = t_rand(N, -1.0f, 1.0f), *value = t_guarded(1000);
    int32_t *index = (int32_t *)t_guarded_bytes(4000);
    size_t q;
    int after, left;
    for (q = 0; q < T_COUNT(k); q++)
        for (after = 0; after < 12; after++) {
            tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, N), tv = tiny_tensor_1d(value, TINY_F32, k[q]),
                        ti = tiny_tensor_1d(index, TINY_I32, k[q]);
            tiny_ctx_desc desc = t_desc(target, 2);
            tiny_ctx *ctx = NULL;
            tiny_status st;
            left = after;
            desc.cancel = stop_in;
            desc.user = &left;
            T_EQ_INT(tiny_ctx_open(&desc, &ctx), TINY_OK);
            st = tiny_topk(ctx, &tx, k[q], &tv, &ti);
            T_TRUE(st == TINY_E_CANCELLED || (st == TINY_OK && left >= 0));
            tiny_ctx_close(ctx);
        }
}

static void test_topk_refuses(void)
{
    float x[4] = { 1, 2, 3, 4 }, v[4];
    int32_t ix[4];
    int8_t b[4] = { 0 };
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 4), tv = tiny_tensor_1d(v, TINY_F32, 2),
                ti = tiny_tensor_1d(ix, TINY_I32, 2), tb = tiny_tensor_1d(b, TINY_I8, 4),
                none = tiny_tensor_1d(x, TINY_F32, 1);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_STATUS(tiny_topk(ctx, &tx, 0, &tv, &ti), TINY_E_ARGUMENT, "k is 0");
    T_STATUS(tiny_topk(ctx, &tx, 5, &tv, &ti), TINY_E_SHAPE, "k is 5, the rows of x have only 4");
    T_STATUS(tiny_topk(ctx, &tb, 2, &tv, &ti), TINY_E_DTYPE, "x is i8");
    T_STATUS(tiny_topk(ctx, &tx, 3, &tv, &ti), TINY_E_SHAPE, "output 0 is 2 f32, it must be 3 f32");
    T_STATUS(tiny_topk(ctx, &tx, 2, &tv, &tv), TINY_E_DTYPE, "output 1");
    none.rank = 0;
    T_STATUS(tiny_topk(ctx, &none, 1, &none, &ti), TINY_E_SHAPE, "no axis");
    t_close(ctx);
}

/* ---- cumsum */

static void test_cumsum(tiny_target target)
{
    static const tiny_idx len[] = { 1, 2, 3, 7, 511, 2047, 2048, 2049, 5000, 100001 };
    int threads, exclusive;
    size_t l;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (l = 0; l < T_COUNT(len); l++)
            for (exclusive = 0; exclusive < 2; exclusive++) {
                tiny_idx n = len[l], rows = n > 5000 ? 2 : 3, r, i, bad = 0;
                float *x = t_rand((size_t)(rows * n), -1.0f, 1.0f), *y = t_guarded((size_t)(rows * n)),
                      *w = t_guarded((size_t)(2 * rows * n));
                tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows, n), ty = tiny_tensor_2d(y, TINY_F32, rows, n),
                            tw = tiny_tensor_2d(w, TINY_F32, rows, n);
                tw.stride[0] = 2 * n;
                tw.stride[1] = 2;
                T_OK(tiny_cumsum(ctx, &tx, exclusive, &ty));
                T_RAN_ON(ctx, t_vectors(target));
                T_OK(tiny_cumsum(ctx, &tx, exclusive, &tw));
                for (r = 0; r < rows; r++) {
                    double s = 0, mag = 0;
                    for (i = 0; i < n; i++) {
                        double want = s;
                        s += (double)x[r * n + i];
                        mag += fabs((double)x[r * n + i]);
                        if (!exclusive) want = s;
                        bad += fabs((double)y[r * n + i] - want) > (2.0 + (double)n / 536870912.0) / 16777216.0 * mag;
                        bad += fabs((double)w[2 * (r * n + i)] - want) >
                               (2.0 + (double)n / 536870912.0) / 16777216.0 * mag;
                    }
                }
                T_EQ_INT(bad, 0);
                T_WALLS(y, rows * n);
                T_OK(tiny_cumsum(ctx, &tx, exclusive, &tx));    /* in place */
                T_SAME(x, y, rows * n);
                for (i = 0; i < rows * n; i++) x[i] = (float)((int)t_rand_below(17) - 8);
                T_OK(tiny_cumsum(ctx, &tx, exclusive, &ty));    /* whole numbers: exact */
                for (bad = 0, r = 0; r < rows; r++) {
                    int s = 0;
                    for (i = 0; i < n; i++) {
                        int before = s;
                        s += (int)x[r * n + i];
                        bad += y[r * n + i] != (float)(exclusive ? before : s);
                    }
                }
                T_EQ_INT(bad, 0);
                t_free_blocks();
            }
        t_close(ctx);
    }
}

static void test_cumsum_refuses(void)
{
    float x[4] = { 0 };
    tiny_tensor a = tiny_tensor_1d(x, TINY_F32, 4), b = tiny_tensor_1d(x, TINY_F16, 4), none = a;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    none.rank = 0;
    T_STATUS(tiny_cumsum(ctx, &b, 0, &b), TINY_E_DTYPE, "cumsum: x is f16");
    T_STATUS(tiny_cumsum(ctx, &none, 0, &none), TINY_E_SHAPE, "no axis");
    T_STATUS(tiny_cumsum(ctx, NULL, 0, &a), TINY_E_ARGUMENT, "input 0 is missing");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_sort);
    T_RUN(test_sort_by_hand);
    T_RUN(test_sort_refuses);
    T_RUN(test_sort_without_memory);
    T_RUN(test_prefix);
    T_RUN(test_prefix_overflow_of_pieces);
    T_RUN(test_prefix_refuses);
    T_RUN_TARGETS(test_topk);
    T_RUN_TARGETS(test_topk_cancelled);
    T_RUN(test_topk_refuses);
    T_RUN_TARGETS(test_cumsum);
    T_RUN(test_cumsum_refuses);
    return t_done();
}
