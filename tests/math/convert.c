/* tests/math/convert.c - every pair of data types against a slow oracle in integers and long steps, halves exhaustively
 *
 * T_EXHAUSTIVE=1 in the environment takes all 2^32 floats to f16 and bf16; otherwise every 1021st and all near a
 * tie. */
#define T_INTERNALS
#include "t.h"

static float from_bits(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

/* ---- an oracle without bit tricks: the value of a half is a sum of powers of two, and the nearest half
 * is found by bisection among all of them, since their order is that of their patterns */

static double half_value(uint16_t h, int fraction, int bias)
{
    const int e = (h & 0x7fff) >> fraction, top = (1 << (15 - fraction)) - 1, m = h & ((1 << fraction) - 1);
    double v;
    if (e == top) v = m ? (double)NAN : (double)INFINITY;
    else v = e ? ldexp(1.0 + ldexp(m, -fraction), e - bias) : ldexp(m, 1 - bias - fraction);
    return h & 0x8000 ? -v : v;
}

static uint16_t half_nearest(double x, int fraction, int bias)
{
    const uint16_t inf = (uint16_t)(((1 << (15 - fraction)) - 1) << fraction), sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs(x);
    uint16_t low = 0, high = (uint16_t)(inf - 1);
    double below, above;
    if (x != x) return (uint16_t)(inf | 1 << (fraction - 1));
    /* infinity has the place of the next number */
    above = ldexp(1.0, half_value((uint16_t)(inf - 1), fraction, bias) > 1e30 ? 128 : 16);
    if (a >= (half_value((uint16_t)(inf - 1), fraction, bias) + above) / 2) return (uint16_t)(sign | inf);
    while (low < high) {                    /* the largest that is not above a */
        const uint16_t mid = (uint16_t)((low + high + 1) / 2);
        if (half_value(mid, fraction, bias) <= a) low = mid;
        else high = (uint16_t)(mid - 1);
    }
    below = half_value(low, fraction, bias);
    above = low == inf - 1 ? above : half_value((uint16_t)(low + 1), fraction, bias);
    if (a - below > above - a || (a - below == above - a && (low & 1))) low++;
    return (uint16_t)(sign | low);
}

static uint16_t nearest(tiny_dtype to, double x)
{
    return to == TINY_F16 ? half_nearest(x, 10, 15) : half_nearest(x, 7, 127);
}

static int is_half_nan(tiny_dtype t, uint16_t h)
{
    return t == TINY_F16 ? (h & 0x7fff) > 0x7c00 : (h & 0x7fff) > 0x7f80;
}

/* ---- halves up: all 65536, reference and every target */

static void test_up(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    uint16_t *h = (uint16_t *)t_keep(65536 * 2);
    float *y = t_guarded(65536);
    int k, i;
    for (i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    for (k = 0; k < 2; k++) {
        tiny_tensor x = tiny_tensor_1d(h, k ? TINY_BF16 : TINY_F16, 65536), ty = tiny_tensor_1d(y, TINY_F32, 65536);
        T_OK(tiny_convert(ctx, &x, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(y, 65536);
        for (i = 0; i < 65536; i++) {
            const double want = k ? half_value((uint16_t)i, 7, 127) : half_value((uint16_t)i, 10, 15);
            const float one = k ? tinyi_bf16_to_f32((uint16_t)i) : tinyi_f16_to_f32((uint16_t)i);
            if (want != want) T_TRUE(y[i] != y[i] && one != one);
            else if (!T_TRUE((double)y[i] == want && (double)one == want && !signbit(y[i]) == !signbit(want)))
                printf("half %04x\n", (unsigned)i);
        }
    }
    t_close(ctx);
}

/* ---- floats down */

#define CHUNK 8192

static void test_down(tiny_target target)
{
    static float x[CHUNK];
    static uint16_t y[CHUNK];
    const char *all = getenv("T_EXHAUSTIVE");
    const uint64_t stride = all && strcmp(all, "0") ? 1 : 1021;
    tiny_ctx *ctx = t_ctx(target, 1);
    int k;
    for (k = 0; k < 2; k++) {
        const tiny_dtype to = k ? TINY_BF16 : TINY_F16;
        uint64_t u = 0;
        while (u <= 0xffffffffu) {
            tiny_tensor tx, ty;
            size_t n, j;
            for (n = 0; n < CHUNK && u <= 0xffffffffu; n++, u += stride) {
                /* every other one next to a tie of the target type */
                uint32_t v = (uint32_t)u;
                if (stride > 1 && n % 2)
                    v = k ? (v & 0xffff0000u) + 0x8000u + (uint32_t)(n / 2 % 3) - 1
                          : (v & 0xffffe000u) + 0x1000u + (uint32_t)(n / 2 % 3) - 1;
                x[n] = from_bits(v);
            }
            tx = tiny_tensor_1d(x, TINY_F32, (tiny_idx)n);
            ty = tiny_tensor_1d(y, to, (tiny_idx)n);
            T_OK(tiny_convert(ctx, &tx, &ty));
            for (j = 0; j < n; j++) {
                const uint16_t one = k ? tinyi_f32_to_bf16(x[j]) : tinyi_f32_to_f16(x[j]);
                uint16_t want;
                if (x[j] != x[j]) {
                    T_TRUE(is_half_nan(to, y[j]) && is_half_nan(to, one));
                    continue;
                }
                if (y[j] != one && !T_TRUE(y[j] == one))
                    printf("%a to %s: %04x, reference %04x\n", (double)x[j], tiny_dtype_name(to), (unsigned)y[j],
                           (unsigned)one);
                /* the bisection is slow, and once is enough */
                if (target != TINY_TARGET_SCALAR || (stride > 1 && j % 8)) continue;
                want = nearest(to, (double)x[j]);
                if (one != want && !T_TRUE(one == want))
                    printf("%a to %s: %04x, not %04x\n", (double)x[j], tiny_dtype_name(to), (unsigned)one,
                           (unsigned)want);
            }
        }
        T_RAN_ON(ctx, t_vectors(target));
    }
    t_close(ctx);
}

/* ---- values worked by hand */

static void test_by_hand(void)
{
    T_EQ_INT(tinyi_f32_to_f16(1.0f), 0x3c00);
    T_EQ_INT(tinyi_f32_to_f16(-2.0f), 0xc000);
    T_EQ_INT(tinyi_f32_to_f16(65504.0f), 0x7bff);           /* the largest */
    T_EQ_INT(tinyi_f32_to_f16(65519.0f), 0x7bff);
    T_EQ_INT(tinyi_f32_to_f16(65520.0f), 0x7c00);           /* a tie with 65536, which is even */
    T_EQ_INT(tinyi_f32_to_f16(0x1p-24f), 1);
    T_EQ_INT(tinyi_f32_to_f16(0x1p-25f), 0);                /* a tie with 0 */
    T_EQ_INT(tinyi_f32_to_f16(0x1.000002p-25f), 1);
    T_EQ_INT(tinyi_f32_to_f16(2049.0f), 0x6800);            /* between 2048 and 2050 */
    T_EQ_INT(tinyi_f32_to_f16(2051.0f), 0x6802);
    T_EQ_INT(tinyi_f32_to_bf16(1.0f), 0x3f80);
    T_EQ_INT(tinyi_f32_to_bf16(from_bits(0x3f808000)), 0x3f80);
    T_EQ_INT(tinyi_f32_to_bf16(from_bits(0x3f818000)), 0x3f82);
    T_EQ_INT(tinyi_f32_to_bf16(3.4e38f), 0x7f80);
    /* a NaN whose payload is in the low bits: not infinity */
    T_EQ_INT(tinyi_f32_to_bf16(from_bits(0x7f800001)), 0x7fc0);
}

/* ---- all pairs on chosen values. Each value is an integer or a double; the expected value is computed in long long
 * and double with the C library's rounding. */

static const double values[] = { 0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 1.5,
                                 2.5,
                                 -0.5,
                                 -1.5,
                                 -2.5,
                                 126.5,
                                 127.0,
                                 127.49,
                                 127.5,
                                 128.0,
                                 -128.0,
                                 -128.5,
                                 -129.0,
                                 254.5,
                                 255.0,
                                 255.5,
                                 256.0,
                                 -0.49,
                                 32766.5,
                                 32767.5,
                                 -32768.5,
                                 -32769.0,
                                 65504.0,
                                 65519.99,
                                 65520.0,
                                 2147483646.5,
                                 2147483647.5,
                                 -2147483648.5,
                                 -2147483649.0,
                                 4294967296.0,
                                 9007199254740993.0,
                                 9223372036854774784.0,
                                 9223372036854775807.0,
                                 -9223372036854775808.0,
                                 1e19,
                                 -1e19,
                                 1e300,
                                 -1e300,
                                 1e-300,
                                 0x1p-149,
                                 0x1p-150,
                                 0x1.8p-149,
                                 0x1.fffffep127,
                                 0x1.ffffffp127,
                                 0x1.fffffefp127,
                                 0x1.00200000001p0,
                                 0x1.002p0,
                                 0x1.006p0,
                                 0x1.0080000001p0,
                                 0x1.01p0,
                                 0x1.03p0,
                                 0x1p-24,
                                 0x1p-25,
                                 0x1.0000000001p-25,
                                 0x1.ffdfffp15,
                                 0x1.ffe0000001p15,
                                 3.141592653589793,
                                 -2.718281828459045,
                                 1e5,
                                 12345.678,
                                 16777217.0,
                                 33554433.5,
                                 0x1.0000010000001p24 };
static const int64_t wholes[] = { 0,
                                  1,
                                  -1,
                                  127,
                                  128,
                                  -128,
                                  -129,
                                  255,
                                  256,
                                  32767,
                                  32768,
                                  -32768,
                                  -32769,
                                  65504,
                                  65519,
                                  65520,
                                  16777217,
                                  16777219,
                                  -16777217,
                                  2147483647,
                                  2147483648LL,
                                  -2147483648LL,
                                  -2147483649LL,
                                  9007199254740993LL,
                                  9007199254740995LL,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX - 511,
                                  INT64_MAX - 512,
                                  0x100800000000001LL,
                                  0x101000000000000LL,
                                  0x1010000000000001LL,
                                  0x103000000000000LL,
                                  -0x1010000000000001LL,
                                  2049,
                                  2051 };

static int is_float(tiny_dtype t) { return t == TINY_F32 || t == TINY_F16 || t == TINY_BF16 || t == TINY_F64; }

static double low_of(tiny_dtype t)
{
    return t == TINY_I8    ? -128.0
           : t == TINY_U8  ? 0.0
           : t == TINY_I16 ? -32768.0
           : t == TINY_I32 ? -2147483648.0
                           : -9223372036854775808.0;
}
static double high_of(tiny_dtype t)
{
    return t == TINY_I8    ? 127.0
           : t == TINY_U8  ? 255.0
           : t == TINY_I16 ? 32767.0
           : t == TINY_I32 ? 2147483647.0
                           : 9223372036854775808.0;
}

static int64_t whole_of(double d, tiny_dtype t)
{
    const double r = nearbyint(d);
    if (d != d) return 0;
    if (r >= high_of(t)) return t == TINY_I64 ? INT64_MAX : (int64_t)high_of(t);
    return r <= low_of(t) ? (int64_t)low_of(t) : (int64_t)r;
}

static void put_whole(tiny_dtype t, void *p, int64_t v)
{
    const int8_t a = (int8_t)v;
    const uint8_t b = (uint8_t)v;
    const int16_t c = (int16_t)v;
    const int32_t d = (int32_t)v;
    memcpy(p,
           t == TINY_I8    ? (const void *)&a
           : t == TINY_U8  ? (const void *)&b
           : t == TINY_I16 ? (const void *)&c
           : t == TINY_I32 ? (const void *)&d
                           : (const void *)&v,
           tiny_dtype_bytes(t));
}

/* the nearest half of an integer that may exceed a double: decided by comparing with its double, whose error is
 * known */
static uint16_t half_of_whole(tiny_dtype t, int64_t v)
{
    double d = (double)v, lost;             /* v = d + lost */
    uint16_t h;
    if (d >= 9223372036854775808.0) lost = -(double)(INT64_MAX - v) - 1.0;
    else lost = (double)(v - (int64_t)d);
    h = nearest(t, d);
    /* only a tie of d can turn: nudge it by the smallest step */
    if (lost != 0.0) h = nearest(t, nextafter(d, lost > 0.0 ? INFINITY : -INFINITY));
    return h;
}

/* value i of a type into p, and its exact meaning */
static int value_at(tiny_dtype t, size_t i, void *p, double *d, int64_t *v)
{
    if (is_float(t)) {
        float f;
        uint16_t h;
        if (i >= T_COUNT(values) + 4) return 0;
        *d = i < T_COUNT(values)        ? values[i]
             : i == T_COUNT(values)     ? (double)NAN
             : i == T_COUNT(values) + 1 ? (double)INFINITY
             : i == T_COUNT(values) + 2 ? -(double)INFINITY
                                        : -0.0;
        if (t == TINY_F64) memcpy(p, d, 8);
        else if (t == TINY_F32) { f = (float)*d; memcpy(p, &f, 4); *d = (double)f;
        } else {
            h = nearest(t, *d);
            memcpy(p, &h, 2);
            *d = t == TINY_F16 ? half_value(h, 10, 15) : half_value(h, 7, 127);
        }
        return 1;
    }
    if (i >= T_COUNT(wholes)) return 0;
    *v = wholes[i];
    if (t != TINY_I64)
        *v = *v > (int64_t)high_of(t) ? (int64_t)high_of(t) : *v < (int64_t)low_of(t) ? (int64_t)low_of(t) : *v;
    put_whole(t, p, *v);
    return 1;
}

static void test_pairs(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int from, to, strided;
    for (from = 0; from < TINY_DTYPE_COUNT; from++)
        for (to = 0; to < TINY_DTYPE_COUNT; to++)
            for (strided = 0; strided < 2; strided++) {
                const tiny_dtype tf = (tiny_dtype)from, tt = (tiny_dtype)to;
                const size_t bf = tiny_dtype_bytes(tf), bt = tiny_dtype_bytes(tt), step = strided ? 3 : 1;
                unsigned char *x = (unsigned char *)t_keep(128 * 3 * bf), *y = (unsigned char *)t_keep(128 * 3 * bt);
                unsigned char want[8];
                tiny_tensor tx, ty;
                size_t n = 0, i;
                double d = 0;
                int64_t v = 0;
                while (value_at(tf, n, x + n * step * bf, &d, &v)) n++;
                tx = tiny_tensor_1d(x, tf, (tiny_idx)n);
                ty = tiny_tensor_1d(y, tt, (tiny_idx)n);
                tx.stride[0] = ty.stride[0] = (tiny_idx)step;
                T_OK(tiny_convert(ctx, &tx, &ty));
                for (i = 0; i < n; i++) {
                    const unsigned char *got = y + i * step * bt;
                    int nan = 0;
                    value_at(tf, i, x + i * step * bf, &d, &v);
                    if (is_float(tf)) {
                        const float f = (float)d;
                        const uint16_t h = nearest(tt, d);
                        nan = is_float(tt) && d != d;
                        if (tt == TINY_F64) memcpy(want, &d, 8);
                        else if (tt == TINY_F32) memcpy(want, &f, 4);
                        else if (is_float(tt)) memcpy(want, &h, 2);
                        else put_whole(tt, want, whole_of(d, tt));
                    } else {
                        const float f = (float)v;
                        const double e = (double)v;
                        if (tt == TINY_F64) memcpy(want, &e, 8);
                        else if (tt == TINY_F32) memcpy(want, &f, 4);
                        else if (is_float(tt)) { const uint16_t h = half_of_whole(tt, v); memcpy(want, &h, 2); }
                        else if (tt == TINY_I64) memcpy(want, &v, 8);
                        else
                            put_whole(tt, want,
                                      v > (int64_t)high_of(tt)  ? (int64_t)high_of(tt)
                                      : v < (int64_t)low_of(tt) ? (int64_t)low_of(tt)
                                                                : v);
                    }
                    if (nan) {
                        float f = 0;
                        double e = 0;
                        uint16_t h = 0;
                        if (tt == TINY_F64) { memcpy(&e, got, 8); T_TRUE(e != e); }
                        else if (tt == TINY_F32) { memcpy(&f, got, 4); T_TRUE(f != f); }
                        else { memcpy(&h, got, 2); T_TRUE(is_half_nan(tt, h)); }
                    } else if (!T_TRUE(memcmp(got, want, bt) == 0)) {
                        printf("%s to %s%s, value %d\n", tiny_dtype_name(tf), tiny_dtype_name(tt),
                               strided ? ", strided" : "", (int)i);
                    }
                }
                t_free_blocks();
            }
    t_close(ctx);
}

/* ---- there and back: bits unchanged */

static void test_round_trip(tiny_target target)
{
    enum { N = 4099 };
    tiny_ctx *ctx = t_ctx(target, 2);
    static const tiny_dtype ways[][2] = { { TINY_F32, TINY_F64 }, { TINY_I8, TINY_F32 },  { TINY_I8, TINY_F16 },
                                          { TINY_I8, TINY_BF16 }, { TINY_I8, TINY_I32 },  { TINY_U8, TINY_F16 },
                                          { TINY_I16, TINY_F32 }, { TINY_I32, TINY_F64 }, { TINY_I32, TINY_I64 },
                                          { TINY_U8, TINY_I16 } };
    size_t k, i;
    for (k = 0; k < T_COUNT(ways); k++) {
        const size_t bytes = tiny_dtype_bytes(ways[k][0]) * N;
        unsigned char *a = (unsigned char *)t_guarded_bytes(bytes),
                      *b = (unsigned char *)t_guarded_bytes(N * tiny_dtype_bytes(ways[k][1])),
                      *c = (unsigned char *)t_guarded_bytes(bytes);
        tiny_tensor ta = tiny_tensor_1d(a, ways[k][0], N), tb = tiny_tensor_1d(b, ways[k][1], N),
                    tc = tiny_tensor_1d(c, ways[k][0], N);
        for (i = 0; i < bytes; i++) a[i] = (unsigned char)t_rand_u64();
        if (ways[k][0] == TINY_F32)
            for (i = 0; i < N; i++)
                if (((float *)(void *)a)[i] != ((float *)(void *)a)[i]) ((float *)(void *)a)[i] = 1.0f;
        T_OK(tiny_convert(ctx, &ta, &tb));
        T_WALLS(b, N);
        T_OK(tiny_convert(ctx, &tb, &tc));
        T_SAME(a, c, bytes);
    }
    t_close(ctx);
}

/* ---- int8 with a scale */

static void test_int8(tiny_target target)
{
    static const float by_hand[] = { 0.0f,   0.26f, 0.25f,     -0.25f, 0.75f, 63.6f, 63.75f, 70.0f, -64.0f,
                                     -64.5f, 1e30f, -INFINITY, NAN,    0.5f,  -0.5f, 1.0f,   2.0f };
    static const int8_t want[] = { 0, 1, 0, 0, 2, 127, 127, 127, -128, -128, 127, -128, 0, 1, -1, 2, 4 };
    enum { R = 23, C = 77 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float half = 0.5f, zero[4] = { 0, 0, 0, 0 }, *x = t_rand(R * C, -3.0f, 3.0f), *s = t_rand(R, 0.01f, 0.05f),
          *back = t_guarded(R * C);
    int8_t y[T_COUNT(by_hand)], *q = (int8_t *)t_guarded_bytes(R * C), *q2 = (int8_t *)t_guarded_bytes(R * C);
    tiny_tensor tx = tiny_tensor_1d((void *)(uintptr_t)by_hand, TINY_F32, T_COUNT(by_hand)),
                ts = tiny_tensor_1d(&half, TINY_F32, 1), ty = tiny_tensor_1d(y, TINY_I8, T_COUNT(by_hand));
    tiny_tensor scalar = tiny_tensor_nd(&half, TINY_F32, 0, NULL), tz = tiny_tensor_1d(zero, TINY_F32, 4);
    int i, j;
    T_OK(tiny_quantize_i8(ctx, &tx, &ts, &ty));
    T_RAN_ON(ctx, t_narrow(target));
    T_SAME(y, want, T_COUNT(want));
    memset(y, 1, sizeof y);
    T_OK(tiny_quantize_i8(ctx, &tx, &scalar, &ty));
    T_SAME(y, want, T_COUNT(want));
    half = 0.0f;                            /* a row of zeros has the scale 0: 0/0 gives 0 */
    ty = tiny_tensor_1d(y, TINY_I8, 4);
    T_OK(tiny_quantize_i8(ctx, &tz, &ts, &ty));
    for (i = 0; i < 4; i++) T_EQ_INT(y[i], 0);

    tx = tiny_tensor_2d(x, TINY_F32, R, C);
    ts = tiny_tensor_1d(s, TINY_F32, R);
    ty = tiny_tensor_2d(q, TINY_I8, R, C);
    T_OK(tiny_quantize_i8(ctx, &tx, &ts, &ty));
    T_WALLS(q, R * C);
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) {
            double w = nearbyint((double)(x[i * C + j] / s[i]));
            T_EQ_INT(q[i * C + j], w > 127 ? 127 : w < -128 ? -128 : (int)w);
        }
    tz = tiny_tensor_2d(back, TINY_F32, R, C);
    T_OK(tiny_dequantize_i8(ctx, &ty, &ts, &tz));
    T_WALLS(back, R * C);
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) T_TRUE(back[i * C + j] == (float)q[i * C + j] * s[i]);
    /* quantizing twice changes nothing; and through a transposed view */
    ty = tiny_tensor_2d(q2, TINY_I8, C, R);
    ty = tiny_tensor_swap(ty, 0, 1);
    T_OK(tiny_quantize_i8(ctx, &tz, &ts, &ty));
    for (i = 0; i < R; i++)
        for (j = 0; j < C; j++) T_EQ_INT(q2[j * R + i], q[i * C + j]);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[12] = { 0 }, s[4] = { 1, 1, 1, 1 };
    int8_t q[12];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 4), tq = tiny_tensor_2d(q, TINY_I8, 3, 4),
                ts = tiny_tensor_1d(s, TINY_F32, 4), small = tiny_tensor_2d(q, TINY_I8, 3, 3);
    tiny_tensor odd = tq, empty = tiny_tensor_2d(NULL, TINY_F32, 3, 0), none = tiny_tensor_2d(NULL, TINY_I8, 3, 0),
                s3 = tiny_tensor_1d(s, TINY_F32, 3);
    tiny_convert_params p;
    tiny_op op;
    odd.dtype = (tiny_dtype)77;
    T_STATUS(tiny_quantize_i8(ctx, &tx, &ts, &tq), TINY_E_SHAPE, "one for each row");
    T_STATUS(tiny_quantize_i8(ctx, &tq, &ts, &tq), TINY_E_DTYPE, "x must be f32");
    T_STATUS(tiny_dequantize_i8(ctx, &tx, &ts, &tx), TINY_E_DTYPE, "x must be i8");
    T_STATUS(tiny_quantize_i8(ctx, &tx, &tq, &tq), TINY_E_DTYPE, "the scale must be f32");
    T_STATUS(tiny_convert(ctx, &tx, &small), TINY_E_SHAPE, "3x4");
    T_STATUS(tiny_convert(ctx, &tx, &tx), TINY_E_ALIAS, "overlaps");
    T_STATUS(tiny_convert(ctx, &tx, &odd), TINY_E_DTYPE, NULL);
    T_STATUS(tiny_convert(ctx, &tx, NULL), TINY_E_ARGUMENT, "missing");
    memset(&op, 0, sizeof op);
    p.to = (tiny_dtype)99;
    op.kind = TINY_OP_CONVERT;
    op.in[0] = &tx;
    op.out[0] = &tq;
    op.params = &p;
    T_STATUS(tiny_run(ctx, &op), TINY_E_DTYPE, "99");
    T_OK(tiny_convert(ctx, &empty, &none));
    T_OK(tiny_quantize_i8(ctx, &empty, &s3, &none));
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_refused);
    T_RUN_TARGETS(test_up);
    T_RUN_TARGETS(test_down);
    T_RUN_TARGETS(test_pairs);
    T_RUN_TARGETS(test_round_trip);
    T_RUN_TARGETS(test_int8);
    return t_done();
}
