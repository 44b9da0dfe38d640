/* tests/core/simd.c - the v_ layer: every operation over floats, integers and masks, in every pass of this machine,
 * against plain C, lane by lane; the operations over bytes are simd_bytes.c's
 *
 * The file includes itself once per pass (passes.h) and makes one function there, which applies an operation to one
 * vector. */
#ifndef TINYI_PASS
#define T_INTERNALS
#include "t.h"

/* operands: one or more, V_LANES values each; results as 32-bit lanes */
#define ALL_OPS(OP) \
    OP(ADD, v_add, FLOATS(v_add(FA, FB))) \
    OP(SUB, v_sub, FLOATS(v_sub(FA, FB))) \
    OP(MUL, v_mul, FLOATS(v_mul(FA, FB))) \
    OP(DIV, v_div, FLOATS(v_div(FA, FB))) \
    OP(FMA, v_fma, FLOATS(v_fma(FA, FB, FC))) \
    OP(FNMA, v_fnma, FLOATS(v_fnma(FA, FB, FC))) \
    OP(NEG, v_neg, FLOATS(v_neg(FA))) \
    OP(ABS, v_abs, FLOATS(v_abs(FA))) \
    OP(SQRT, v_sqrt, FLOATS(v_sqrt(FA))) \
    OP(MIN, v_min, FLOATS(v_min(FA, FB))) \
    OP(MAX, v_max, FLOATS(v_max(FA, FB))) \
    OP(ROUND, v_round, FLOATS(v_round(FA))) \
    OP(FLOOR, v_floor, FLOATS(v_floor(FA))) \
    OP(TRUNC, v_trunc, FLOATS(v_trunc(FA))) \
    OP(LT, v_lt, MASK(v_lt(FA, FB))) \
    OP(LE, v_le, MASK(v_le(FA, FB))) \
    OP(EQ, v_eq, MASK(v_eq(FA, FB))) \
    OP(NE, v_ne, MASK(v_ne(FA, FB))) \
    OP(ISNAN, v_isnan, MASK(v_isnan(FA))) \
    OP(SELECT, v_select, FLOATS(v_select(v_lt(FA, FB), FB, FC))) \
    OP(TO_I32, v_to_i32, INTS(v_to_i32(FA))) \
    OP(FROM_I32, v_from_i32, FLOATS(v_from_i32(IA))) \
    OP(BITS, v_bits, INTS(v_bits(FA))) \
    OP(FLOAT, v_float, FLOATS(v_float(IA))) \
    OP(EXP2I, v_exp2i, FLOATS(v_exp2i(IA))) \
    OP(GATHER, v_gather, FLOATS(v_gather(fb, IA))) \
    OP(TABLE4, v_table4, FLOATS(v_table4(fb, IA))) \
    OP(IADD, vi_add, INTS(vi_add(IA, IB))) \
    OP(ISUB, vi_sub, INTS(vi_sub(IA, IB))) \
    OP(IMUL, vi_mul, INTS(vi_mul(IA, IB))) \
    OP(IAND, vi_and, INTS(vi_and(IA, IB))) \
    OP(IOR, vi_or, INTS(vi_or(IA, IB))) \
    OP(IXOR, vi_xor, INTS(vi_xor(IA, IB))) \
    OP(ISHL, vi_shl, INTS(vi_shl(IA, (int)n))) \
    OP(ISHR, vi_shr, INTS(vi_shr(IA, (int)n))) \
    OP(ISRA, vi_sra, INTS(vi_sra(IA, (int)n))) \
    OP(IMIN, vi_min, INTS(vi_min(IA, IB))) \
    OP(IMAX, vi_max, INTS(vi_max(IA, IB))) \
    OP(IEQ, vi_eq, MASK(vi_eq(IA, IB))) \
    OP(IGT, vi_gt, MASK(vi_gt(IA, IB))) \
    OP(ISELECT, vi_select, INTS(vi_select(vi_gt(IA, IB), IB, IC))) \
    OP(LOAD_F16, v_load_f16, FLOATS(v_load_f16((const uint16_t *)a))) \
    OP(LOAD_BF16, v_load_bf16, FLOATS(v_load_bf16((const uint16_t *)a))) \
    OP(STORE_F16, v_store_f16, v_store_f16((uint16_t *)y, FA)) \
    OP(STORE_BF16, v_store_bf16, v_store_bf16((uint16_t *)y, FA)) \
    OP(SUM, v_sum, fy[0] = v_sum(FA)) \
    OP(SUM4, v_sum4, v_sum4(fy, FA, FB, FC, v_load(fc + V_LANES))) \
    OP(HMAX, v_hmax, fy[0] = v_hmax(FA)) \
    OP(HMIN, v_hmin, fy[0] = v_hmin(FA)) \
    OP(ISUM, vi_sum, iy[0] = vi_sum(IA)) \
    OP(ANY, vm_any, iy[0] = vm_any(MA)) \
    OP(ALL, vm_all, iy[0] = vm_all(MA)) \
    OP(MAND, vm_and, MASK(vm_and(MA, MB))) \
    OP(MOR, vm_or, MASK(vm_or(MA, MB))) \
    OP(MNOT, vm_not, MASK(vm_not(MA))) \
    OP(FIRST, v_first, MASK(v_first(n))) \
    OP(LOAD_N, v_load_n, FLOATS(v_load_n(fa, n))) \
    OP(STORE_N, v_store_n, v_store_n(fy, FA, n)) \
    OP(ILOAD_N, vi_load_n, INTS(vi_load_n(ia, n))) \
    OP(ISTORE_N, vi_store_n, vi_store_n(iy, IA, n)) \
    OP(LOAD_F16_N, v_load_f16_n, FLOATS(v_load_f16_n((const uint16_t *)a, n))) \
    OP(LOAD_BF16_N, v_load_bf16_n, FLOATS(v_load_bf16_n((const uint16_t *)a, n))) \
    OP(STORE_F16_N, v_store_f16_n, v_store_f16_n((uint16_t *)y, FA, n)) \
    OP(STORE_BF16_N, v_store_bf16_n, v_store_bf16_n((uint16_t *)y, FA, n)) \
    OP(SET, v_set, FLOATS(v_set(fa[0]))) \
    OP(ZERO, v_zero, FLOATS(v_zero())) \
    OP(ISET, vi_set, INTS(vi_set(ia[0]))) \
    OP(IZERO, vi_zero, INTS(vi_zero())) \
    OP(IOTA, vi_iota, INTS(vi_iota()))
#define TINYI_PASS_FILE "tests/core/simd.c"
#include "passes.h"
static int is_tiny(uint32_t u) { return (u & 0x7f800000u) == 0 && u << 1; }
static int is_small(uint32_t u) { return (u & 0x7fffffffu) <= 0x01000000u; }

/* 32-bit ARM: its vectors count subnormals as 0 */
#if defined __arm__ && defined __ARM_NEON
#define FLUSHES(p) (!strcmp((p)->name, "w128"))
#else
#define FLUSHES(p) ((void)(p), 0)
#endif

static const uint32_t special[] = {
    0,           0x80000000u, 0x3f800000u, 0xbf800000u, 0x3f000000u, 0xbf000000u, 0x3effffffu, 0xbeffffffu,
    0x3f000001u, 0x3fc00000u, 0xbfc00000u, 0x40200000u, 0xc0200000u, 0x40600000u, 0x3f7fffffu, 0xbf7fffffu,
    0x4a7fffffu, 0x4affffffu, 0xcaffffffu, 0x4b000000u, 0x4b000001u, 0xcb000001u, 0x4b7fffffu, 0x4b800000u,
    0x4effffffu, 0xceffffffu, 0x4f000000u, 0xcf000000u, 0x4f800000u, 0x5f000000u, 0xdf000000u, 0x7f7fffffu,
    0xff7fffffu, 0x7f800000u, 0xff800000u, 0x00000001u, 0x80000001u, 0x007fffffu, 0x00800000u, 0x80800000u,
    0x7fc00000u, 0xffc00000u, 0x7fc12345u, 0x7f812345u, 0xff812345u, 0x7fffffffu, 0x477fefffu, 0x477ff000u,
    0x38800000u, 0x387fffffu, 0x33000000u, 0x33000001u, 0x33800000u, 0x42f6e979u, 0x3dcccccdu
};
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

/* x * y + z rounded once; the libraries of some systems round twice. The product is exact in double; the sum is rounded
 * to odd there, which keeps the second rounding right. */
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

/* the expected value of a lane; two where fusing is optional */
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
        if ((op <= OP_FNMA || op == OP_SQRT || op == OP_ROUND || op == OP_FLOOR || op == OP_TRUNC) && is_nan(got[i]) &&
            is_nan(want[0]) && is_nan(want[1]))
            continue;
        if (FLUSHES(p) && (is_tiny(a[i]) || is_tiny(b[i]) || is_tiny(c[i]) || (op <= OP_FNMA && is_small(want[0])) ||
                           (op >= OP_MUL && op <= OP_FNMA && is_small(bits(flt(a[i]) * flt(b[i])))))) continue;
        t_fail(__FILE__, __LINE__, "%s, %s of %08lx %08lx %08lx is %08lx, not %08lx", p->name, op_name[op],
               (unsigned long)a[i], (unsigned long)b[i], (unsigned long)c[i], (unsigned long)got[i],
               (unsigned long)want[0]);
    }
}

static void test_floats(void)
{
    const pass *p;
    for EACH_PASS(p) {
        uint32_t a[16], b[16], c[16], i, k, at = 0;
        int op;
        for (i = 0; i < N_SPECIAL + 40; i++)
            for (k = 0; k < N_SPECIAL + 40; k++) {      /* every pair of operands; the third one varies */
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
    static const uint32_t edge[] = {
        0,           1,       2,        0xffffffffu, 0xfffffffeu, 0x7fffffffu, 0x80000000u,
        0x80000001u, 0xffffu, 0x10000u, 0x8000u,     0xffff8000u, 46341,       0x00ff00ffu
    };
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
                            if (got[lane] != want)
                                t_fail(__FILE__, __LINE__, "%s, %s of %08lx by %d is %08lx", p->name, op_name[op],
                                       (unsigned long)u, n, (unsigned long)got[lane]);
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
            uint32_t u = i < N_SPECIAL ? special[i]
                         : i & 1       ? bits((float)wrap((uint32_t)t_rand_u64()) * (i & 2 ? 1.0f : 0.001f))
                                       : bits(0.5f * (float)(int)t_rand_below(2000) - 500.0f);
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
    static const uint32_t odd[] = { 0x4f000000u, 0xcf000001u, 0x7f800000u, 0xff800000u,
                                    0x7fc00000u, 0x7f800001u, 0x7f7fffffu };
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
                if (!k && (u & 0x7c00) == 0)
                    v = bits((float)(half_value((uint16_t)u) + ldexp(step > 1 ? 1.0 : 0.0, -25)));
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
                        t_fail(__FILE__, __LINE__, "%s, f16 of %08lx is %04x, alone %04x, not %04x", p->name,
                               (unsigned long)a[lane], out[lane], tinyi_f32_to_f16(flt(a[lane])), want);
                }
                p->apply(OP_STORE_BF16, out, a, a, a, 0);
                for (lane = 0; lane < p->lanes; lane++) {
                    const uint16_t want = nearest_half(a[lane], 7, -126, 3.3961775292304957e38);
                    if (out[lane] != want || tinyi_f32_to_bf16(flt(a[lane])) != want)
                        t_fail(__FILE__, __LINE__, "%s, bf16 of %08lx is %04x, alone %04x, not %04x", p->name,
                               (unsigned long)a[lane], out[lane], tinyi_f32_to_bf16(flt(a[lane])), want);
                }
            }
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
            for (i = 0; i < p->lanes; i++) at[i] = wrap((uint32_t)t_rand_u64());
            p->apply(OP_TABLE4, got, at, table, at, 0);
            for (i = 0; i < p->lanes; i++) T_TRUE(flt(got[i]) == table[at[i] & 3]);
        }
        for (n = 0; n < 200; n++) {         /* four sums; whole numbers again */
            float four[64], y[5] = { 0, 0, 0, 0, -7.0f };
            double sum[4] = { 0 };
            for (i = 0; i < 4 * p->lanes; i++) {
                four[i] = (float)((int)t_rand_below(2001) - 1000);
                sum[i / p->lanes] += (double)four[i];
            }
            p->apply(OP_SUM4, y, four, four + p->lanes, four + 2 * p->lanes, 0);
            for (i = 0; i < 4; i++) T_CLOSE(y[i], sum[i], 0);
            T_CLOSE(y[4], -7.0, 0);
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
        p->apply(OP_SET, got, &want, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_TRUE(got[i] == want);
        p->apply(OP_ISET, got, &want, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_TRUE(got[i] == want);
        p->apply(OP_ZERO, got, a, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_TRUE(got[i] == 0);
        p->apply(OP_IZERO, got, a, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_TRUE(got[i] == 0);
        p->apply(OP_IOTA, got, a, a, a, 0);
        for (i = 0; i < p->lanes; i++) T_EQ_INT(got[i], i);
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
                const size_t size =
                    op == OP_LOAD_N || op == OP_STORE_N || op == OP_ILOAD_N || op == OP_ISTORE_N ? 4 : 2;
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
                        if (lane != (i < n ? want : 0u))
                            t_fail(__FILE__, __LINE__, "%s, %s of %d: lane %d is %08lx", p->name, op_name[op], n, i,
                                   (unsigned long)lane);
                    }
                } else {
                    p->apply(op, few, full, full, full, (size_t)n);
                    for (i = 0; i < n; i++) {
                        float x;
                        uint16_t h, want;
                        memcpy(&x, full + 4 * i, 4);
                        memcpy(&h, few + 2 * i, 2);
                        want = op == OP_STORE_F16_N ? tinyi_f32_to_f16(x) : tinyi_f32_to_bf16(x);
                        if (size == 4 ? memcmp(few + 4 * i, full + 4 * i, 4) != 0 : h != want)
                            t_fail(__FILE__, __LINE__, "%s, %s of %d: lane %d differs", p->name, op_name[op], n, i);
                    }
                }
                T_WALLS(few, n);
            }
        }
    }
}

static void test_sqrt_without_an_instruction(void)
{
    uint32_t i;
    for (i = 0; i < 60000; i++) {
        const uint32_t u = i < N_SPECIAL ? special[i] : (uint32_t)t_rand_u64() & (i & 1 ? 0x7fffffffu : 0x00ffffffu);
        const float got = tinyi_simd_sqrt_bits(flt(u)), want = sqrtf(flt(u));
        if (bits(got) != bits(want) && !(is_nan(bits(got)) && is_nan(bits(want))))
            t_fail(__FILE__, __LINE__, "root of %08lx is %08lx, not %08lx", (unsigned long)u, (unsigned long)bits(got),
                   (unsigned long)bits(want));
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
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512), !!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512VNNI), !!__builtin_cpu_supports("avx512vnni"));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512POPCNT), !!__builtin_cpu_supports("avx512vpopcntdq"));
    T_EQ_INT(!!(cpu & TINY_CPU_AVX512VBMI), !!__builtin_cpu_supports("avx512vbmi"));
#endif
    (void)cpu;
    T_TRUE(tinyi_cpu_count() >= 1);
    T_TRUE(tinyi_cpu_cache(1) >= 1024 && tinyi_cpu_cache(2) >= 4096 && tinyi_cpu_cache(3) >= 4096);
    T_EQ_INT(tinyi_cpu_cache(0), 0);
}

/* Family, model and leaf 0x8000001a as AMD documents them: Zen 4 (25), Zen 5 in servers (26, 512 bits), Zen 5 in
 * laptops (26, 256 bits), a virtual machine that hides the leaf; Intel's Ice Lake. */
static void test_amd(void)
{
    static const struct { const char *maker; unsigned one, paths; int halves; } each[] = {
        { "AuthenticAMD", 0x00a10f11, 6, 1 },  { "AuthenticAMD", 0x00a10f11, 0, 1 },
        { "AuthenticAMD", 0x00b00f21, 14, 0 }, { "AuthenticAMD", 0x00b20f40, 6, 1 },
        { "AuthenticAMD", 0x00b00f21, 0, 0 },  { "GenuineIntel", 0x000606a6, 0, 0 },
    };
    size_t i;
    for (i = 0; i < T_COUNT(each); i++) {
        unsigned zero[4] = { 16, 0, 0, 0 }, one[4] = { 0, 0, 0, 0 };
        memcpy(&zero[1], each[i].maker, 4);
        memcpy(&zero[3], each[i].maker + 4, 4);
        memcpy(&zero[2], each[i].maker + 8, 4);
        one[0] = each[i].one;
        T_EQ_INT(tinyi_cpu_halves(zero, one, each[i].paths), each[i].halves);
    }
    T_TRUE(!(tinyi_cpu_features() & TINY_CPU_HALVES) || (tinyi_cpu_features() & TINY_CPU_AVX512));
}

int main(void)
{
    T_RUN(test_every_pass_of_this_processor_ran);
    T_RUN(test_amd);
    T_RUN(test_floats);
    T_RUN(test_ints);
    T_RUN(test_float_to_int);
    T_RUN(test_out_of_range_conversion_does_not_trap);
    T_RUN(test_halves_one_by_one);
    T_RUN(test_halves);
    T_RUN(test_across_lanes);
    T_RUN(test_tails);
    T_RUN(test_sqrt_without_an_instruction);
    return t_done();
}

#else
#include "passes.h"
#include "core/simd.h"
APPLY(ALL_OPS(OP_CASE))
#include "core/simd_unname.h"
#endif
