/* tests/core/simd.c - the v_ layer: every operation of every pass of this machine against plain C, lane by lane
 *
 * The file includes itself once per pass and makes one function there, which applies an operation to one vector. All
 * values travel as bits, so that -0, NaN and 2^31 count.                                                           */
#ifndef T_PASS
#define T_INTERNALS
#include "t.h"

/* one operand or more, V_LANES values each; results as 32-bit lanes */
enum { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FMA, OP_FNMA, OP_NEG, OP_ABS, OP_SQRT, OP_MIN, OP_MAX, OP_ROUND, OP_FLOOR,
       OP_TRUNC, OP_LT, OP_LE, OP_EQ, OP_NE, OP_ISNAN, OP_SELECT, OP_TO_I32, OP_FROM_I32, OP_BITS, OP_FLOAT, OP_EXP2I,
       OP_GATHER, OP_IADD, OP_ISUB, OP_IMUL, OP_IAND, OP_IOR, OP_IXOR, OP_ISHL, OP_ISHR, OP_ISRA, OP_IMIN, OP_IMAX,
       OP_IEQ, OP_IGT, OP_ISELECT, OP_LOAD_F16, OP_LOAD_BF16, OP_STORE_F16, OP_STORE_BF16, OP_LOAD_I8, OP_LOAD_U8,
       OP_DOT_I8, OP_DOT_U8I8, OP_DOT_I8_B127, OP_DOT_U7I8, OP_BAND, OP_BOR, OP_BXOR, OP_BADD, OP_BSUB, OP_BSHR,
       OP_BTABLE, OP_SUM, OP_HMAX, OP_HMIN, OP_ISUM, OP_ANY, OP_ALL, OP_MAND, OP_MOR, OP_MNOT, OP_FIRST, OP_LOAD_N,
       OP_STORE_N, OP_ILOAD_N, OP_ISTORE_N, OP_LOAD_F16_N, OP_LOAD_BF16_N, OP_STORE_F16_N, OP_STORE_BF16_N,
       OP_BLOAD_N, OP_SETS, OP_PAIRS, OP_F16_EACH, OP_F16_SET, OP_BSHL, OP_MERGE, OP_BBITS, OP_ZIP_LOW, OP_ZIP_HIGH, OP_TWICE, OP_LOWS,
       OP_HIGHS, OP_MMLA, OP_COUNT };

static const char *const op_name[OP_COUNT] = { "v_add", "v_sub", "v_mul", "v_div", "v_fma", "v_fnma", "v_neg", "v_abs", "v_sqrt", "v_min", "v_max", "v_round",
    "v_floor", "v_trunc", "v_lt", "v_le", "v_eq", "v_ne", "v_isnan", "v_select", "v_to_i32", "v_from_i32", "v_bits", "v_float", "v_exp2i", "v_gather",
    "vi_add", "vi_sub", "vi_mul", "vi_and", "vi_or", "vi_xor", "vi_shl", "vi_shr", "vi_sra", "vi_min", "vi_max", "vi_eq", "vi_gt", "vi_select",
    "v_load_f16", "v_load_bf16", "v_store_f16", "v_store_bf16", "vi_load_i8", "vi_load_u8", "v_dot_i8", "v_dot_u8i8", "v_dot_i8_b127", "v_dot_u7i8",
    "vb_and", "vb_or", "vb_xor", "vb_add", "vb_sub", "vb_shr", "vb_table16", "v_sum", "v_hmax", "v_hmin", "vi_sum", "vm_any", "vm_all", "vm_and", "vm_or",
    "vm_not", "v_first", "v_load_n", "v_store_n", "vi_load_n", "vi_store_n", "v_load_f16_n", "v_load_bf16_n", "v_store_f16_n", "v_store_bf16_n",
    "vb_load_n", "set, zero, iota", "vi_pairs", "v_load_f16_each", "v_set_f16", "vb_shl", "vb_merge", "vb_bits", "v_zip_low", "v_zip_high", "v_twice", "vb_lows",
    "vb_highs", "v_mmla_i8" };

typedef struct pass {
    const char *name;
    int lanes;
    unsigned cpu;                           /* what it needs */
    void (*apply)(int op, void *y, const void *a, const void *b, const void *c, size_t n);
} pass;

#if TINYI_HAVE_SCALAR
#define T_PASS scalar
#define TINYI_PASS TINYI_PASS_SCALAR
#define T_LANES 1
TINYI_TARGET_BEGIN_SCALAR
#include "simd.c"
TINYI_TARGET_END_SCALAR
#endif
#if TINYI_HAVE_W128
#define T_PASS w128
#define TINYI_PASS TINYI_PASS_W128
#define T_LANES 4
TINYI_TARGET_BEGIN_W128
#include "simd.c"
TINYI_TARGET_END_W128
#endif
#if TINYI_HAVE_NEON
#define T_PASS neon
#define TINYI_PASS TINYI_PASS_NEON
#define T_LANES 4
#define T_NEON 1
TINYI_TARGET_BEGIN_NEON
#include "simd.c"
TINYI_TARGET_END_NEON
#endif
#if TINYI_HAVE_NEONDOT
#define T_PASS neondot
#define TINYI_PASS TINYI_PASS_NEONDOT
#define T_LANES 4
#define T_NEON 1
TINYI_TARGET_BEGIN_NEONDOT
#include "simd.c"
TINYI_TARGET_END_NEONDOT
#endif
#if TINYI_HAVE_NEONMM
#define T_PASS neonmm
#define TINYI_PASS TINYI_PASS_NEONMM
#define T_LANES 4
#define T_NEON 2
TINYI_TARGET_BEGIN_NEONMM
#include "simd.c"
TINYI_TARGET_END_NEONMM
#endif
#if TINYI_HAVE_AVX2
#define T_PASS avx2
#define TINYI_PASS TINYI_PASS_AVX2
#define T_LANES 8
TINYI_TARGET_BEGIN_AVX2
#include "simd.c"
TINYI_TARGET_END_AVX2
#endif
#if TINYI_HAVE_AVX2VNNI
#define T_PASS avx2vnni
#define TINYI_PASS TINYI_PASS_AVX2VNNI
#define T_LANES 8
TINYI_TARGET_BEGIN_AVX2VNNI
#include "simd.c"
TINYI_TARGET_END_AVX2VNNI
#endif
#if TINYI_HAVE_AVX512
#define T_PASS avx512
#define TINYI_PASS TINYI_PASS_AVX512
#define T_LANES 16
TINYI_TARGET_BEGIN_AVX512
#include "simd.c"
TINYI_TARGET_END_AVX512
#endif
#if TINYI_HAVE_AMX
#define T_PASS amx
#define TINYI_PASS TINYI_PASS_AMX
#define T_LANES 16
TINYI_TARGET_BEGIN_AMX
#include "simd.c"

/* y (16, 16) = a (16, 64) times b, whose four rows of a column stand together: b (16, 16, 4). The configuration and b are
 * written just before they are used: the compiler must not move these stores. */
static void amx_product(int32_t *y, const int8_t *a, const int8_t *b)
{
    unsigned char config[64];
    int8_t packed[1024];
    int i;
    memset(config, 0, sizeof config);
    config[0] = 1;                          /* palette; bytes 16.. are the widths, 48.. the rows */
    for (i = 0; i < 3; i++) { config[16 + 2 * i] = 64; config[48 + i] = 16; }
    TINYI_AMX_CONFIG(config);
    for (i = 0; i < 1024; i++) packed[i] = b[i];
    _tile_zero(0);
    TINYI_AMX_LOAD(1, a, 64);
    TINYI_AMX_LOAD(2, packed, 64);
    _tile_dpbssd(0, 1, 2);
    TINYI_AMX_STORE(0, y, 64);
    for (i = 0; i < 1024; i++) packed[i] = (int8_t)(b[i] / 2);
    _tile_zero(0);
    TINYI_AMX_LOAD(2, packed, 64);
    _tile_dpbssd(0, 1, 2);
    TINYI_AMX_STORE(0, y + 256, 64);
    _tile_release();
}
TINYI_TARGET_END_AMX
#endif

static const pass passes[] = {
#if TINYI_HAVE_SCALAR
    { "scalar", 1, 0, apply_scalar },
#endif
#if TINYI_HAVE_W128
    { "w128", 4, TINYI_X86 ? TINY_CPU_SSE41 : 0, apply_w128 },
#endif
#if TINYI_HAVE_NEON
    { "neon", 4, TINY_CPU_NEON, apply_neon },
#endif
#if TINYI_HAVE_NEONDOT
    { "neondot", 4, TINY_CPU_NEON | TINY_CPU_DOTPROD, apply_neondot },
#endif
#if TINYI_HAVE_NEONMM
    { "neonmm", 4, TINY_CPU_NEON | TINY_CPU_DOTPROD | TINY_CPU_I8MM, apply_neonmm },
#endif
#if TINYI_HAVE_AVX2
    { "avx2", 8, TINY_CPU_AVX2, apply_avx2 },
#endif
#if TINYI_HAVE_AVX2VNNI
    { "avx2vnni", 8, TINY_CPU_AVX2 | TINY_CPU_AVXVNNI, apply_avx2vnni },
#endif
#if TINYI_HAVE_AVX512
    { "avx512", 16, TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI, apply_avx512 },
#endif
#if TINYI_HAVE_AMX
    { "amx", 16, TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI | TINY_CPU_AVX512VBMI | TINY_CPU_AVX512BF16, apply_amx },
#endif
};
#define EACH_PASS(p) (p = passes; p < passes + T_COUNT(passes); p++) if ((tinyi_cpu_features() & p->cpu) == p->cpu)

static uint32_t bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static float flt(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static int is_nan(uint32_t u) { return (u & 0x7fffffffu) > 0x7f800000u; }
static int is_tiny(uint32_t u) { return (u & 0x7f800000u) == 0 && u << 1; }
static int is_small(uint32_t u) { return (u & 0x7fffffffu) <= 0x01000000u; }
static int32_t wrap(uint32_t u) { int32_t i; memcpy(&i, &u, 4); return i; }

/* 32-bit ARM: its vectors count subnormals as 0 */
#if defined __arm__ && defined __ARM_NEON
#define FLUSHES(p) (!strcmp((p)->name, "w128"))
#else
#define FLUSHES(p) ((void)(p), 0)
#endif

static const uint32_t special[] = {
    0, 0x80000000u, 0x3f800000u, 0xbf800000u, 0x3f000000u, 0xbf000000u, 0x3effffffu, 0xbeffffffu, 0x3f000001u, 0x3fc00000u, 0xbfc00000u, 0x40200000u,
    0xc0200000u, 0x40600000u, 0x3f7fffffu, 0xbf7fffffu, 0x4a7fffffu, 0x4affffffu, 0xcaffffffu, 0x4b000000u, 0x4b000001u, 0xcb000001u, 0x4b7fffffu,
    0x4b800000u, 0x4effffffu, 0xceffffffu, 0x4f000000u, 0xcf000000u, 0x4f800000u, 0x5f000000u, 0xdf000000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u,
    0xff800000u, 0x00000001u, 0x80000001u, 0x007fffffu, 0x00800000u, 0x80800000u, 0x7fc00000u, 0xffc00000u, 0x7fc12345u, 0x7f812345u, 0xff812345u,
    0x7fffffffu, 0x477fefffu, 0x477ff000u, 0x38800000u, 0x387fffffu, 0x33000000u, 0x33000001u, 0x33800000u, 0x42f6e979u, 0x3dcccccdu };
#define N_SPECIAL ((uint32_t)T_COUNT(special))

static uint32_t number(uint32_t i)          /* the special ones, then any bits, then usual sizes */
{
    if (i < N_SPECIAL) return special[i];
    if (i & 1) return (uint32_t)t_rand_u64();
    return bits(t_rand_float(-100.0f, 100.0f));
}

/* the nearest of the 16-bit floats with that many fraction bits, found in double */
static uint16_t nearest_half(uint32_t u, int fraction, int min_exp, double over)
{
    const double x = fabs((double)flt(u));
    const uint32_t sign = u >> 16 & 0x8000u, inf = (0x7fffu >> fraction) << fraction;
    double q;
    int e;
    if (is_nan(u)) return (uint16_t)(sign | inf | 1u << (fraction - 1) | ((u & 0x7fffffu) >> (23 - fraction)));
    if (x >= over) return (uint16_t)(sign | inf);
    (void)frexp(x, &e);
    e = e - 1 < min_exp || x == 0.0 ? min_exp : e - 1;
    q = nearbyint(ldexp(x, fraction - e));  /* in units of the last place: 2^fraction and more is the next exponent */
    return (uint16_t)(sign | (((uint32_t)(e - min_exp) << fraction) + (uint32_t)q));
}
static double half_value(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    const double v = e ? ldexp(1024.0 + f, e - 25) : ldexp((double)f, -24);
    return h & 0x8000 ? -v : v;
}

/* x * y + z rounded once; the libraries of some systems round twice. The product is exact in double; the sum is rounded to
 * odd there, which keeps the second rounding right. */
static float fused(float x, float y, float z)
{
    volatile double product = (double)x * (double)y, sum = product + (double)z, part = sum - product;
    const double lost = (product - (sum - part)) + ((double)z - part);
    double s = sum;
    uint64_t u;
    memcpy(&u, &s, 8);
    if (lost != 0.0 && s - s == 0.0 && !(u & 1)) {
        if ((lost > 0.0) == (s > 0.0)) u++;
        else u--;
        memcpy(&s, &u, 8);
    }
    return (float)s;
}

/* what a lane must hold; two answers where fusing is left open */
static void expect(int op, uint32_t a, uint32_t b, uint32_t c, uint32_t want[2])
{
    const float x = flt(a), y = flt(b), z = flt(c);
    const int32_t i = wrap(a), j = wrap(b);
    float r = 0.0f, r2;
    uint32_t u = 0;
    int is_float = 1;
    switch (op) {
    case OP_ADD: r = x + y; break;
    case OP_SUB: r = x - y; break;
    case OP_MUL: r = x * y; break;
    case OP_DIV: r = x / y; break;
    case OP_SQRT: r = sqrtf(x); break;
    case OP_FMA: case OP_FNMA: {
        volatile float product = x * y;
        r = op == OP_FMA ? fused(x, y, z) : fused(-x, y, z);
        r2 = op == OP_FMA ? product + z : z - product;
        want[0] = bits(r);
        want[1] = bits(r2);
        return;
    }
    case OP_ROUND: r = nearbyintf(x); break;
    case OP_FLOOR: r = floorf(x); break;
    case OP_TRUNC: r = truncf(x); break;
    case OP_FROM_I32: r = (float)i; break;
    default: is_float = 0;
    }
    if (is_float) { want[0] = want[1] = bits(r); return; }
    switch (op) {
    case OP_NEG: u = a ^ 0x80000000u; break;
    case OP_ABS: u = a & 0x7fffffffu; break;
    case OP_MIN: u = x < y ? a : b; break;
    case OP_MAX: u = x > y ? a : b; break;
    case OP_LT: u = x < y; break;
    case OP_LE: u = x <= y; break;
    case OP_EQ: u = x == y; break;
    case OP_NE: u = x != y; break;
    case OP_ISNAN: u = (uint32_t)is_nan(a); break;
    case OP_SELECT: u = x < y ? b : c; break;
    case OP_ISELECT: u = i > j ? b : c; break;
    case OP_TO_I32: u = (uint32_t)(int32_t)nearbyintf(x); break;
    case OP_BITS: case OP_FLOAT: u = a; break;
    case OP_EXP2I: u = bits(ldexpf(1.0f, i)); break;
    case OP_IADD: u = a + b; break;
    case OP_ISUB: u = a - b; break;
    case OP_IMUL: u = a * b; break;
    case OP_IAND: u = a & b; break;
    case OP_IOR: u = a | b; break;
    case OP_IXOR: u = a ^ b; break;
    case OP_IMIN: u = i < j ? a : b; break;
    case OP_IMAX: u = i > j ? a : b; break;
    case OP_IEQ: u = i == j; break;
    case OP_IGT: u = i > j; break;
    default: t_fail(__FILE__, __LINE__, "no expectation for %s", op_name[op]);
    }
    want[0] = want[1] = u;
}

/* one vector through one operation, and every lane looked at */
static void check(const pass *p, int op, const uint32_t *a, const uint32_t *b, const uint32_t *c)
{
    uint32_t got[16], want[2];
    int i;
    p->apply(op, got, a, b, c, 0);
    for (i = 0; i < p->lanes; i++) {
        expect(op, a[i], b[i], c[i], want);
        if (got[i] == want[0] || got[i] == want[1]) continue;
        if ((op <= OP_FNMA || op == OP_SQRT || op == OP_ROUND || op == OP_FLOOR || op == OP_TRUNC) && is_nan(got[i]) && is_nan(want[0]) && is_nan(want[1])) continue;
        if (FLUSHES(p) && (is_tiny(a[i]) || is_tiny(b[i]) || is_tiny(c[i]) || (op <= OP_FNMA && is_small(want[0])) ||
                           (op >= OP_MUL && op <= OP_FNMA && is_small(bits(flt(a[i]) * flt(b[i])))))) continue;
        t_fail(__FILE__, __LINE__, "%s, %s of %08lx %08lx %08lx is %08lx, not %08lx", p->name, op_name[op], (unsigned long)a[i], (unsigned long)b[i],
               (unsigned long)c[i], (unsigned long)got[i], (unsigned long)want[0]);
    }
}

static void test_floats(void)
{
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], b[16], c[16], i, k, at = 0;
        int op;
        for (i = 0; i < N_SPECIAL + 40; i++)
            for (k = 0; k < N_SPECIAL + 40; k++) {      /* every pair meets; the third operand wanders */
                a[at] = number(i);
                b[at] = number(k);
                c[at] = number((i * 7 + k * 3) % (N_SPECIAL + 40));
                if (++at < (uint32_t)p->lanes) continue;
                at = 0;
                for (op = OP_ADD; op <= OP_SELECT; op++) check(p, op, a, b, c);
            }
    }
}

static void test_ints(void)
{
    static const uint32_t edge[] = { 0, 1, 2, 0xffffffffu, 0xfffffffeu, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xffffu, 0x10000u, 0x8000u, 0xffff8000u, 46341, 0x00ff00ffu };
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], b[16], c[16], got[16], i, k, at = 0;
        int op, n, lane;
        for (i = 0; i < T_COUNT(edge) + 20; i++)
            for (k = 0; k < T_COUNT(edge) + 20; k++) {
                a[at] = i < T_COUNT(edge) ? edge[i] : (uint32_t)t_rand_u64();
                b[at] = k < T_COUNT(edge) ? edge[k] : (uint32_t)t_rand_u64();
                c[at] = (uint32_t)t_rand_u64();
                if (++at < (uint32_t)p->lanes) continue;
                at = 0;
                for (op = OP_IADD; op <= OP_ISELECT; op++)
                    if (op != OP_ISHL && op != OP_ISHR && op != OP_ISRA) check(p, op, a, b, c);
                check(p, OP_FROM_I32, a, b, c);
                check(p, OP_BITS, a, b, c);
                check(p, OP_FLOAT, a, b, c);
                for (n = 0; n < 32; n++)
                    for (op = OP_ISHL; op <= OP_ISRA; op++) {
                        p->apply(op, got, a, b, c, (size_t)n);
                        for (lane = 0; lane < p->lanes; lane++) {
                            const uint32_t u = a[lane], fill = u >> 31 && n ? ~(0xffffffffu >> n) : 0u;
                            const uint32_t want = op == OP_ISHL ? u << n : op == OP_ISHR ? u >> n : u >> n | fill;
                            if (got[lane] != want) t_fail(__FILE__, __LINE__, "%s, %s of %08lx by %d is %08lx", p->name, op_name[op], (unsigned long)u, n, (unsigned long)got[lane]);
                        }
                    }
            }
    }
}

static void test_float_to_int(void)
{
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], zero[16] = { 0 }, i, at = 0;
        for (i = 0; i < 4000; i++) {
            uint32_t u = i < N_SPECIAL ? special[i] : i & 1 ? bits((float)wrap((uint32_t)t_rand_u64()) * (i & 2 ? 1.0f : 0.001f)) : bits(0.5f * (float)(int)t_rand_below(2000) - 500.0f);
            if (!(flt(u) >= -2147483648.0f && flt(u) < 2147483648.0f)) continue;
            a[at] = u;
            if (++at < (uint32_t)p->lanes) continue;
            at = 0;
            check(p, OP_TO_I32, a, zero, zero);
        }
        for (i = 0, at = 0; i < 254 + 16; i++) {
            a[at] = (uint32_t)((int)(i % 254) - 126);
            if (++at < (uint32_t)p->lanes) continue;
            at = 0;
            check(p, OP_EXP2I, a, zero, zero);
        }
    }
}

static void test_out_of_range_conversion_does_not_trap(void)
{
    static const uint32_t odd[] = { 0x4f000000u, 0xcf000001u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0x7f7fffffu };
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], got[16], i, k;
        for (i = 0; i < T_COUNT(odd); i++) {
            for (k = 0; k < 16; k++) a[k] = odd[i];
            p->apply(OP_TO_I32, got, a, a, a, 0);
        }
    }
}

static void test_halves_one_by_one(void)
{
    uint32_t h;
    for (h = 0; h < 65536; h++) {
        const float x = tinyi_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) < 0x7c00) {
            T_TRUE((double)x == half_value((uint16_t)h) && bits(x) >> 31 == h >> 15);
            T_TRUE(tinyi_f32_to_f16(x) == h);
        } else {
            T_TRUE(bits(x) == ((h & 0x8000u) << 16 | 0x7f800000u | (h & 0x3ffu) << 13 | (h & 0x3ffu ? 0x400000u : 0u)));
        }
        T_TRUE(bits(tinyi_bf16_to_f32((uint16_t)h)) == h << 16);
    }
    T_EQ_INT(tinyi_f32_to_f16(65519.996f), 0x7bff);     /* by hand: 65504 is the largest, 65520 the middle to 65536 */
    T_EQ_INT(tinyi_f32_to_f16(65520.0f), 0x7c00);
    T_EQ_INT(tinyi_f32_to_f16(1.0f), 0x3c00);
    T_EQ_INT(tinyi_f32_to_bf16(1.00390625f), 0x3f80);   /* 1 + 2^-8: the middle, 1 is even */
}

/* values around every 16-bit float and every middle between two */
static void test_halves(void)
{
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], at = 0, h, k, got[16];
        uint16_t half[16], out[16];
        int lane;
        for (h = 0; h < 65536; h += (uint32_t)p->lanes) {
            for (lane = 0; lane < p->lanes; lane++) half[lane] = (uint16_t)(h + (uint32_t)lane);
            p->apply(OP_LOAD_F16, got, half, half, half, 0);
            for (lane = 0; lane < p->lanes; lane++) T_TRUE(got[lane] == bits(tinyi_f16_to_f32(half[lane])));
            p->apply(OP_LOAD_BF16, got, half, half, half, 0);
            for (lane = 0; lane < p->lanes; lane++) T_TRUE(got[lane] == (uint32_t)half[lane] << 16);
        }
        for (h = 0; h < 65536 * 5; h++) {
            const uint32_t u = (h / 5) & 0xffffu, step = h % 5;
            /* first as an f16, then as a bf16 */
            for (k = 0; k < 2; k++) {
                uint32_t v = k ? u << 16 : bits(tinyi_f16_to_f32((uint16_t)u)), half_unit = k ? 0x8000u : 0x1000u;
                if (!k && (u & 0x7c00) == 0) v = bits((float)(half_value((uint16_t)u) + ldexp(step > 1 ? 1.0 : 0.0, -25)));
                else v += step > 1 ? half_unit : 0u;
                v += step == 1 ? 1u : step == 3 ? 0xffffffffu : step == 4 ? 1u : 0u;
                a[at] = v;
                if (++at < (uint32_t)p->lanes) continue;
                at = 0;
                p->apply(OP_STORE_F16, out, a, a, a, 0);
                for (lane = 0; lane < p->lanes; lane++) {
                    const uint16_t want = nearest_half(a[lane], 10, -14, 65520.0);
                    if (FLUSHES(p) && is_tiny(a[lane])) continue;
                    if (out[lane] != want || tinyi_f32_to_f16(flt(a[lane])) != want)
                        t_fail(__FILE__, __LINE__, "%s, f16 of %08lx is %04x, alone %04x, not %04x", p->name, (unsigned long)a[lane], out[lane], tinyi_f32_to_f16(flt(a[lane])), want);
                }
                p->apply(OP_STORE_BF16, out, a, a, a, 0);
                for (lane = 0; lane < p->lanes; lane++) {
                    const uint16_t want = nearest_half(a[lane], 7, -126, 3.3961775292304957e38);
                    if (out[lane] != want || tinyi_f32_to_bf16(flt(a[lane])) != want)
                        t_fail(__FILE__, __LINE__, "%s, bf16 of %08lx is %04x, alone %04x, not %04x", p->name, (unsigned long)a[lane], out[lane], tinyi_f32_to_bf16(flt(a[lane])), want);
                }
            }
        }
    }
}

static int signed_byte(unsigned b) { return b < 128 ? (int)b : (int)b - 256; }

static void test_bytes(void)
{
    const pass *p;
    for EACH_PASS(p) {
        unsigned char a[64], b[64], t[64], y[64];
        uint32_t acc[16], got[16];
        int round, op, lane, n, bytes = 4 * p->lanes;
        for (round = 0; round < 400; round++) {
            for (n = 0; n < 64; n++) {
                const unsigned few[4] = { 0x80, 0x7f, 0xff, 0 };
                a[n] = (unsigned char)(round < 16 ? few[round & 3] : round < 64 ? few[t_rand_below(4)] : t_rand_below(256));
                b[n] = (unsigned char)(round < 16 ? few[round >> 2 & 3] : round < 64 ? few[t_rand_below(4)] : t_rand_below(256));
                t[n] = (unsigned char)t_rand_below(16);
            }
            for (lane = 0; lane < 16; lane++) acc[lane] = round & 1 ? (uint32_t)t_rand_u64() : 0u;
            for (op = OP_DOT_I8; op <= OP_DOT_U7I8; op++) {
                unsigned char c[64], d[64];
                memcpy(c, a, 64);
                memcpy(d, b, 64);
                for (n = 0; n < 64; n++) {
                    if (op == OP_DOT_I8_B127 && d[n] == 0x80) d[n] = 0x81;
                    if (op == OP_DOT_U7I8) c[n] &= 0x7f;
                }
                p->apply(op, got, acc, c, d, 0);
                for (lane = 0; lane < p->lanes; lane++) {
                    uint32_t want = acc[lane];
                    for (n = 4 * lane; n < 4 * lane + 4; n++)
                        want += (uint32_t)((op == OP_DOT_I8 || op == OP_DOT_I8_B127 ? signed_byte(c[n]) : (int)c[n]) * signed_byte(d[n]));
                    if (got[lane] != want) t_fail(__FILE__, __LINE__, "%s, %s lane %d is %ld, not %ld", p->name, op_name[op], lane, (long)wrap(got[lane]), (long)wrap(want));
                }
            }
            for (op = OP_BAND; op <= OP_BTABLE; op++) {
                const int shift = round & 7;
                p->apply(op, y, op == OP_BTABLE ? t : a, op == OP_BTABLE ? a : b, a, (size_t)shift);
                for (n = 0; n < bytes; n++) {
                    const unsigned u = a[n], v = b[n];
                    const unsigned want = op == OP_BAND ? u & v : op == OP_BOR ? u | v : op == OP_BXOR ? u ^ v : op == OP_BADD ? u + v : op == OP_BSUB ? u - v :
                                          op == OP_BSHR ? u >> shift : a[t[n]];
                    if (y[n] != (want & 255u)) t_fail(__FILE__, __LINE__, "%s, %s byte %d is %02x, not %02x", p->name, op_name[op], n, y[n], want & 255u);
                }
            }
            p->apply(OP_LOAD_I8, got, a, a, a, 0);
            for (lane = 0; lane < p->lanes; lane++) T_EQ_INT(wrap(got[lane]), signed_byte(a[lane]));
            p->apply(OP_LOAD_U8, got, a, a, a, 0);
            for (lane = 0; lane < p->lanes; lane++) T_EQ_INT(wrap(got[lane]), a[lane]);
        }
    }
}

static void test_across_lanes(void)
{
    const pass *p;
    for EACH_PASS(p) {
        float x[16], table[64];
        uint32_t a[16], b[16], got[16], want;
        int32_t at[16];
        int i, n, all, any;
        for (n = 0; n < 64; n++) table[n] = (float)n * 3.0f - 50.0f;
        for (n = 0; n < 200; n++) {
            double sum = 0.0;
            float lo = INFINITY, hi = -INFINITY;
            uint32_t isum = 0;
            for (i = 0; i < p->lanes; i++) {
                x[i] = (float)((int)t_rand_below(2001) - 1000);         /* whole: any order gives the same sum */
                if (n % 5 == 0 && i == n % p->lanes) x[i] = n & 1 ? 1e30f : -1e30f;
                if (n % 5) sum += (double)x[i];
                lo = x[i] < lo ? x[i] : lo;
                hi = x[i] > hi ? x[i] : hi;
                a[i] = (uint32_t)t_rand_u64();
                isum += a[i];
                at[i] = (int32_t)t_rand_below(64);
            }
            if (n % 5) { p->apply(OP_SUM, got, x, x, x, 0); T_CLOSE(flt(got[0]), sum, 0); }
            p->apply(OP_HMAX, got, x, x, x, 0);
            T_CLOSE(flt(got[0]), hi, 0);
            p->apply(OP_HMIN, got, x, x, x, 0);
            T_CLOSE(flt(got[0]), lo, 0);
            p->apply(OP_ISUM, got, a, a, a, 0);
            T_EQ_INT(got[0], isum);
            p->apply(OP_GATHER, got, at, table, at, 0);
            for (i = 0; i < p->lanes; i++) T_TRUE(flt(got[i]) == table[at[i]]);
        }
        for (n = 0; n < 200; n++) {         /* masks of random lanes, of all, of none */
            for (i = 0, all = 1, any = 0; i < p->lanes; i++) {
                a[i] = n == 0 ? 0u : n == 1 ? 1u : t_rand_below(2);
                b[i] = t_rand_below(2);
                all &= (int)a[i];
                any |= (int)a[i];
            }
            p->apply(OP_ANY, got, a, b, b, 0);
            T_EQ_INT(got[0], any);
            p->apply(OP_ALL, got, a, b, b, 0);
            T_EQ_INT(got[0], all);
            p->apply(OP_MAND, got, a, b, b, 0);
            for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], a[i] & b[i]);
            p->apply(OP_MOR, got, a, b, b, 0);
            for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], a[i] | b[i]);
            p->apply(OP_MNOT, got, a, b, b, 0);
            for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], !a[i]);
        }
        for (n = 0; n <= p->lanes; n++) {
            p->apply(OP_FIRST, got, a, a, a, (size_t)n);
            for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], i < n);
        }
        want = bits(-2.5f);
        p->apply(OP_SETS, got, &want, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], (uint32_t)i + 7u);
    }
}

/* what only targets of four lanes have: the bytes of every vector are known beforehand */
static void test_four_lanes(void)
{
    const pass *p;
    for EACH_PASS(p) {
        const int neon = !strncmp(p->name, "neon", 4);
        int round, n, j, l;
        if (p->lanes != 4) continue;
        for (round = 0; round < 400; round++) {
            unsigned char a[64], b[16], m[16], y[16];
            uint32_t ia[4], ib[4], ic[4], got[4];
            const size_t step = 2 + t_rand_below(16);
            const int shift = round & 7;
            uint16_t h;
            for (n = 0; n < 64; n++) a[n] = (unsigned char)t_rand_below(256);
            for (n = 1; n < 64; n += 2) if ((a[n] & 0x7c) == 0x7c) a[n] ^= 0x40;       /* halves that are numbers, at even steps */
            for (n = 0; n < 16; n++) { b[n] = (unsigned char)t_rand_below(256); m[n] = (unsigned char)t_rand_below(256); }
            memcpy(ia, a, 16);
            memcpy(ib, b, 16);
            p->apply(OP_PAIRS, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] + ia[1] && got[1] == ia[2] + ia[3] && got[2] == ib[0] + ib[1] && got[3] == ib[2] + ib[3]);
            p->apply(OP_F16_EACH, got, a, b, b, step & ~(size_t)1);
            for (l = 0; l < 4; l++) {
                h = (uint16_t)(a[(step & ~(size_t)1) * (size_t)l] | a[(step & ~(size_t)1) * (size_t)l + 1] << 8);
                T_TRUE(got[l] == bits(tinyi_f16_to_f32(h)));
            }
            p->apply(OP_F16_SET, got, a, b, b, 0);
            for (l = 0; l < 4; l++) T_TRUE(got[l] == bits(tinyi_f16_to_f32((uint16_t)(a[0] | a[1] << 8))));
            p->apply(OP_BSHL, y, a, b, b, (size_t)shift);
            for (n = 0; n < 16; n++) T_EQ_INT(y[n], a[n] << shift & 255);
            for (n = 0; n < 16; n++) y[n] = a[n] & (unsigned char)~m[n];
            p->apply(OP_MERGE, y, y, b, m, 0);
            for (n = 0; n < 16; n++) T_EQ_INT(y[n], (a[n] & ~m[n]) | (b[n] & m[n]));
            p->apply(OP_BBITS, y, a + 1, b, b, 0);
            for (n = 0; n < 16; n++) T_EQ_INT(y[n], a[1 + n / 8] >> n % 8 & 1 ? 255 : 0);
            if (!neon) continue;
            p->apply(OP_ZIP_LOW, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] && got[1] == ib[0] && got[2] == ia[1] && got[3] == ib[1]);
            p->apply(OP_ZIP_HIGH, got, a, b, b, 0);
            T_TRUE(got[0] == ia[2] && got[1] == ib[2] && got[2] == ia[3] && got[3] == ib[3]);
            p->apply(OP_TWICE, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] && got[1] == ia[1] && got[2] == ia[0] && got[3] == ia[1]);
            p->apply(OP_LOWS, y, a, b, b, 0);
            T_TRUE(!memcmp(y, a, 8) && !memcmp(y + 8, b, 8));
            p->apply(OP_HIGHS, y, a, b, b, 0);
            T_TRUE(!memcmp(y, a + 8, 8) && !memcmp(y + 8, b + 8, 8));
            if (strcmp(p->name, "neonmm")) continue;
            if (round < 4) for (n = 0; n < 16; n++) { a[n] = round & 1 ? 0x80 : 0x7f; b[n] = round & 2 ? 0x80 : 0x7f; }
            memcpy(ic, m, 16);
            p->apply(OP_MMLA, got, ic, a, b, 0);
            for (l = 0; l < 4; l++) {
                uint32_t want = ic[l];
                for (j = 0; j < 8; j++) want += (uint32_t)(signed_byte(a[l / 2 * 8 + j]) * signed_byte(b[l % 2 * 8 + j]));
                T_TRUE(got[l] == want);
            }
        }
    }
}

/* the first n lanes only: one value past them would fault, the ones after in y stay */
static void test_tails(void)
{
    const pass *p;
    for EACH_PASS(p) {
        int op, n, i;
        for (n = 0; n <= p->lanes; n++) {
            for (op = OP_LOAD_N; op <= OP_STORE_BF16_N; op++) {
                const int load = op == OP_LOAD_N || op == OP_ILOAD_N || op == OP_LOAD_F16_N || op == OP_LOAD_BF16_N;
                const size_t size = op == OP_LOAD_N || op == OP_STORE_N || op == OP_ILOAD_N || op == OP_ISTORE_N ? 4 : 2;
                unsigned char *few = (unsigned char *)t_guarded_bytes((size_t)n * size), full[64], got[64];
                for (i = 0; i < 64; i++) full[i] = (unsigned char)(0x30 + i % 8);       /* no NaN in any of the types */
                if (load) {
                    memcpy(few, full, (size_t)n * size);
                    p->apply(op, got, few, few, few, (size_t)n);
                    for (i = 0; i < p->lanes; i++) {
                        uint32_t lane, want;
                        uint16_t h;
                        memcpy(&lane, got + 4 * i, 4);
                        memcpy(&want, full + 4 * i, 4);
                        memcpy(&h, full + 2 * i, 2);
                        if (op == OP_LOAD_F16_N) want = bits(tinyi_f16_to_f32(h));
                        if (op == OP_LOAD_BF16_N) want = bits(tinyi_bf16_to_f32(h));
                        if (lane != (i < n ? want : 0u)) t_fail(__FILE__, __LINE__, "%s, %s of %d: lane %d is %08lx", p->name, op_name[op], n, i, (unsigned long)lane);
                    }
                } else {
                    p->apply(op, few, full, full, full, (size_t)n);
                    for (i = 0; i < n; i++) {
                        float x;
                        uint16_t h, want;
                        memcpy(&x, full + 4 * i, 4);
                        memcpy(&h, few + 2 * i, 2);
                        want = op == OP_STORE_F16_N ? tinyi_f32_to_f16(x) : tinyi_f32_to_bf16(x);
                        if (size == 4 ? memcmp(few + 4 * i, full + 4 * i, 4) != 0 : h != want) t_fail(__FILE__, __LINE__, "%s, %s of %d: lane %d is wrong", p->name, op_name[op], n, i);
                    }
                }
                T_WALLS(few, n);
            }
        }
        for (n = 0; n <= 4 * p->lanes; n++) {
            unsigned char *few = (unsigned char *)t_guarded_bytes((size_t)n), got[64];
            for (i = 0; i < n; i++) few[i] = (unsigned char)(i + 1);
            p->apply(OP_BLOAD_N, got, few, few, few, (size_t)n);
            for (i = 0; i < 4 * p->lanes; i++)
                if (got[i] != (i < n ? i + 1 : 0)) t_fail(__FILE__, __LINE__, "%s, vb_load_n of %d: byte %d is %d", p->name, n, i, got[i]);
        }
    }
}

static void test_amx_tiles_see_what_was_written(void)
{
#if TINYI_HAVE_AMX
    const unsigned need = TINY_CPU_AMX_TILE | TINY_CPU_AMX_INT8;
    int8_t a[1024], b[1024];
    int32_t y[512];
    int i, j, k;
    if ((tinyi_cpu_features() & need) != need || !tinyi_amx_permission()) { T_SKIP("no AMX here"); return; }
    for (i = 0; i < 1024; i++) { a[i] = (int8_t)(t_rand_below(256) - 128u); b[i] = (int8_t)(t_rand_below(256) - 128u); }
    amx_product(y, a, b);
    for (i = 0; i < 16; i++)
        for (j = 0; j < 16; j++) {
            int32_t want = 0, half = 0;
            for (k = 0; k < 64; k++) {
                const int8_t v = b[(k / 4) * 64 + j * 4 + k % 4];
                want += a[i * 64 + k] * v;
                half += a[i * 64 + k] * (v / 2);
            }
            T_EQ_INT(y[i * 16 + j], want);
            T_EQ_INT(y[256 + i * 16 + j], half);
        }
#else
    T_SKIP("this compiler or processor has no AMX");
#endif
}

static void test_sqrt_without_an_instruction(void)
{
    uint32_t i;
    for (i = 0; i < 60000; i++) {
        const uint32_t u = i < N_SPECIAL ? special[i] : (uint32_t)t_rand_u64() & (i & 1 ? 0x7fffffffu : 0x00ffffffu);
        const float got = tinyi_simd_sqrt_bits(flt(u)), want = sqrtf(flt(u));
        if (bits(got) != bits(want) && !(is_nan(bits(got)) && is_nan(bits(want))))
            t_fail(__FILE__, __LINE__, "root of %08lx is %08lx, not %08lx", (unsigned long)u, (unsigned long)bits(got), (unsigned long)bits(want));
        T_TRUE(bits(tinyi_simd_sqrt(flt(u))) == bits(want) || is_nan(bits(want)));
    }
}

static void test_every_pass_of_this_processor_ran(void)
{
    const unsigned cpu = tinyi_cpu_features();
    int n = 0;
    const pass *p;
    for EACH_PASS(p) {
        printf("%s%s", n++ ? " " : "passes: ", p->name);
    }
    puts("");
    T_TRUE(n >= 1);
#if TINYI_X86 && (defined __GNUC__ || defined __clang__) && !defined TINY_NO_SIMD
    __builtin_cpu_init();                   /* the compiler's own detection agrees */
    T_EQ_INT(!!(cpu & TINY_CPU_SSE41), !!__builtin_cpu_supports("sse4.1"));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX2), !!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512), !!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512VNNI), !!__builtin_cpu_supports("avx512vnni"));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512VBMI), !!__builtin_cpu_supports("avx512vbmi"));
#endif
    (void)cpu;
    T_TRUE(tinyi_cpu_count() >= 1);
    T_TRUE(tinyi_cpu_cache(1) >= 1024 && tinyi_cpu_cache(2) >= 4096 && tinyi_cpu_cache(3) >= 4096);
    T_EQ_INT(tinyi_cpu_cache(0), 0);
}

int main(void)
{
    T_RUN(test_every_pass_of_this_processor_ran);
    T_RUN(test_floats);
    T_RUN(test_ints);
    T_RUN(test_float_to_int);
    T_RUN(test_out_of_range_conversion_does_not_trap);
    T_RUN(test_halves_one_by_one);
    T_RUN(test_halves);
    T_RUN(test_bytes);
    T_RUN(test_across_lanes);
    T_RUN(test_four_lanes);
    T_RUN(test_tails);
    T_RUN(test_amx_tiles_see_what_was_written);
    T_RUN(test_sqrt_without_an_instruction);
    return t_done();
}

#else /* ---- one pass: T_PASS and T_LANES say which */

#include "core/simd.h"
#include "core/simd_unname.h"

#define P2(a, b) TINYI_CAT(a, b)
#define P(x) P2(P2(tinyi_, x), P2(_, T_PASS))

static void P2(apply_, T_PASS)(int op, void *y, const void *a, const void *b, const void *c, size_t n)
{
    float *fy = (float *)y;
    int32_t *iy = (int32_t *)y;
    const float *fa = (const float *)a, *fb = (const float *)b, *fc = (const float *)c;
    const int32_t *ia = (const int32_t *)a, *ib = (const int32_t *)b, *ic = (const int32_t *)c;
    const P(v_i32) one = P(vi_set)(1), none = P(vi_zero)();
#define FLOATS(e) P(v_store)(fy, e); break
#define INTS(e) P(vi_store)(iy, e); break
#define MASK(e) P(vi_store)(iy, P(vi_select)(e, one, none)); break
#define FA P(v_load)(fa)
#define FB P(v_load)(fb)
#define FC P(v_load)(fc)
#define IA P(vi_load)(ia)
#define IB P(vi_load)(ib)
#define IC P(vi_load)(ic)
#define MA P(vi_gt)(IA, none)
#define MB P(vi_gt)(IB, none)
    switch (op) {
    case OP_ADD: FLOATS(P(v_add)(FA, FB));
    case OP_SUB: FLOATS(P(v_sub)(FA, FB));
    case OP_MUL: FLOATS(P(v_mul)(FA, FB));
    case OP_DIV: FLOATS(P(v_div)(FA, FB));
    case OP_FMA: FLOATS(P(v_fma)(FA, FB, FC));
    case OP_FNMA: FLOATS(P(v_fnma)(FA, FB, FC));
    case OP_NEG: FLOATS(P(v_neg)(FA));
    case OP_ABS: FLOATS(P(v_abs)(FA));
    case OP_SQRT: FLOATS(P(v_sqrt)(FA));
    case OP_MIN: FLOATS(P(v_min)(FA, FB));
    case OP_MAX: FLOATS(P(v_max)(FA, FB));
    case OP_ROUND: FLOATS(P(v_round)(FA));
    case OP_FLOOR: FLOATS(P(v_floor)(FA));
    case OP_TRUNC: FLOATS(P(v_trunc)(FA));
    case OP_LT: MASK(P(v_lt)(FA, FB));
    case OP_LE: MASK(P(v_le)(FA, FB));
    case OP_EQ: MASK(P(v_eq)(FA, FB));
    case OP_NE: MASK(P(v_ne)(FA, FB));
    case OP_ISNAN: MASK(P(v_isnan)(FA));
    case OP_SELECT: FLOATS(P(v_select)(P(v_lt)(FA, FB), FB, FC));
    case OP_TO_I32: INTS(P(v_to_i32)(FA));
    case OP_FROM_I32: FLOATS(P(v_from_i32)(IA));
    case OP_BITS: INTS(P(v_bits)(FA));
    case OP_FLOAT: FLOATS(P(v_float)(IA));
    case OP_EXP2I: FLOATS(P(v_exp2i)(IA));
    case OP_GATHER: FLOATS(P(v_gather)(fb, IA));
    case OP_IADD: INTS(P(vi_add)(IA, IB));
    case OP_ISUB: INTS(P(vi_sub)(IA, IB));
    case OP_IMUL: INTS(P(vi_mul)(IA, IB));
    case OP_IAND: INTS(P(vi_and)(IA, IB));
    case OP_IOR: INTS(P(vi_or)(IA, IB));
    case OP_IXOR: INTS(P(vi_xor)(IA, IB));
    case OP_ISHL: INTS(P(vi_shl)(IA, (int)n));
    case OP_ISHR: INTS(P(vi_shr)(IA, (int)n));
    case OP_ISRA: INTS(P(vi_sra)(IA, (int)n));
    case OP_IMIN: INTS(P(vi_min)(IA, IB));
    case OP_IMAX: INTS(P(vi_max)(IA, IB));
    case OP_IEQ: MASK(P(vi_eq)(IA, IB));
    case OP_IGT: MASK(P(vi_gt)(IA, IB));
    case OP_ISELECT: INTS(P(vi_select)(P(vi_gt)(IA, IB), IB, IC));
    case OP_LOAD_F16: FLOATS(P(v_load_f16)((const uint16_t *)a));
    case OP_LOAD_BF16: FLOATS(P(v_load_bf16)((const uint16_t *)a));
    case OP_STORE_F16: P(v_store_f16)((uint16_t *)y, FA); break;
    case OP_STORE_BF16: P(v_store_bf16)((uint16_t *)y, FA); break;
    case OP_LOAD_I8: INTS(P(vi_load_i8)((const int8_t *)a));
    case OP_LOAD_U8: INTS(P(vi_load_u8)((const uint8_t *)a));
    case OP_DOT_I8: INTS(P(v_dot_i8)(IA, P(vb_load)(b), P(vb_load)(c)));
    case OP_DOT_U8I8: INTS(P(v_dot_u8i8)(IA, P(vb_load)(b), P(vb_load)(c)));
    case OP_DOT_I8_B127: INTS(P(v_dot_i8_b127)(IA, P(vb_load)(b), P(vb_load)(c)));
    case OP_DOT_U7I8: INTS(P(v_dot_u7i8)(IA, P(vb_load)(b), P(vb_load)(c)));
    case OP_BAND: P(vb_store)(y, P(vb_and)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_BOR: P(vb_store)(y, P(vb_or)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_BXOR: P(vb_store)(y, P(vb_xor)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_BADD: P(vb_store)(y, P(vb_add)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_BSUB: P(vb_store)(y, P(vb_sub)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_BSHR: P(vb_store)(y, P(vb_shr)(P(vb_load)(a), (int)n)); break;
    case OP_BTABLE: P(vb_store)(y, P(vb_table16)(b, P(vb_load)(a))); break;
    case OP_SUM: fy[0] = P(v_sum)(FA); break;
    case OP_HMAX: fy[0] = P(v_hmax)(FA); break;
    case OP_HMIN: fy[0] = P(v_hmin)(FA); break;
    case OP_ISUM: iy[0] = P(vi_sum)(IA); break;
    case OP_ANY: iy[0] = P(vm_any)(MA); break;
    case OP_ALL: iy[0] = P(vm_all)(MA); break;
    case OP_MAND: MASK(P(vm_and)(MA, MB));
    case OP_MOR: MASK(P(vm_or)(MA, MB));
    case OP_MNOT: MASK(P(vm_not)(MA));
    case OP_FIRST: MASK(P(v_first)(n));
    case OP_LOAD_N: FLOATS(P(v_load_n)(fa, n));
    case OP_STORE_N: P(v_store_n)(fy, FA, n); break;
    case OP_ILOAD_N: INTS(P(vi_load_n)(ia, n));
    case OP_ISTORE_N: P(vi_store_n)(iy, IA, n); break;
    case OP_LOAD_F16_N: FLOATS(P(v_load_f16_n)((const uint16_t *)a, n));
    case OP_LOAD_BF16_N: FLOATS(P(v_load_bf16_n)((const uint16_t *)a, n));
    case OP_STORE_F16_N: P(v_store_f16_n)((uint16_t *)y, FA, n); break;
    case OP_STORE_BF16_N: P(v_store_bf16_n)((uint16_t *)y, FA, n); break;
    case OP_BLOAD_N: P(vb_store)(y, P(vb_load_n)(a, n)); break;
    case OP_SETS: {                            /* lane i is i + 7 when all of them are right */
        const P(v_mask) set = P(v_eq)(P(v_set)(fa[0]), P(v_load_n)(fa, 1)), zero = P(v_eq)(P(v_zero)(), P(v_set)(0.0f));
        P(v_i32) r = P(vi_add)(P(vi_iota)(), P(vi_select)(zero, one, none));
        r = P(vi_add)(r, P(v_dot_u8i8)(none, P(vb_set)(1), P(vb_set)(1)));
        r = P(vi_add)(r, P(v_dot_u8i8)(one, P(vb_zero)(), P(vb_set)(-1)));
        P(vi_store)(iy, P(vi_add)(r, P(vi_select)(P(vm_and)(set, P(v_first)(1)), one, P(vi_select)(P(v_first)(1), none, one))));
        break;
    }
#if T_LANES == 4
    case OP_PAIRS: INTS(P(vi_pairs)(IA, IB));
    case OP_F16_EACH: FLOATS(P(v_load_f16_each)(a, (ptrdiff_t)n));
    case OP_F16_SET: FLOATS(P(v_set_f16)(a));
    case OP_BSHL: P(vb_store)(y, P(vb_shl)(P(vb_load)(a), (int)n)); break;
    case OP_MERGE: P(vb_store)(y, P(vb_merge)(P(vb_load)(a), P(vb_load)(b), P(vb_load)(c))); break;
    case OP_BBITS: P(vb_store)(y, P(vb_bits)(a)); break;
#endif
#ifdef T_NEON
    case OP_ZIP_LOW: FLOATS(P(v_zip_low)(FA, FB));
    case OP_ZIP_HIGH: FLOATS(P(v_zip_high)(FA, FB));
    case OP_TWICE: FLOATS(P(v_twice)(fa));
    case OP_LOWS: P(vb_store)(y, P(vb_lows)(P(vb_load)(a), P(vb_load)(b))); break;
    case OP_HIGHS: P(vb_store)(y, P(vb_highs)(P(vb_load)(a), P(vb_load)(b))); break;
#if T_NEON == 2
    case OP_MMLA: INTS(P(v_mmla_i8)(IA, P(vb_load)(b), P(vb_load)(c)));
#endif
#endif
    default: break;
    }
    (void)ib;
    (void)ic;
}
#undef FLOATS
#undef INTS
#undef MASK
#undef FA
#undef FB
#undef FC
#undef IA
#undef IB
#undef IC
#undef MA
#undef MB
#undef P
#undef P2
#undef TINYI_PASS
#undef T_PASS
#undef T_LANES
#undef T_NEON
#endif
