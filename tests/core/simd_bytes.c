/* tests/core/simd_bytes.c - the v_ layer: every operation over bytes, the dot products, and the operations that only
 * targets of four lanes have, in every pass of this machine, against plain C; see simd.c */
#ifndef TINYI_PASS
#define T_INTERNALS
#include "t.h"

#define EACH_OPS(OP) \
    OP(DOT_I8, v_dot_i8, INTS(v_dot_i8(IA, BB, BC))) \
    OP(DOT_U8I8, v_dot_u8i8, INTS(v_dot_u8i8(IA, BB, BC))) \
    OP(DOT_I8_B127, v_dot_i8_b127, INTS(v_dot_i8_b127(IA, BB, BC))) \
    OP(DOT_U7I8, v_dot_u7i8, INTS(v_dot_u7i8(IA, BB, BC))) \
    OP(BAND, vb_and, BYTES(vb_and(BA, BB))) \
    OP(BOR, vb_or, BYTES(vb_or(BA, BB))) \
    OP(BXOR, vb_xor, BYTES(vb_xor(BA, BB))) \
    OP(BADD, vb_add, BYTES(vb_add(BA, BB))) \
    OP(BSUB, vb_sub, BYTES(vb_sub(BA, BB))) \
    OP(BSHR, vb_shr, BYTES(vb_shr(BA, (int)n))) \
    OP(BTABLE, vb_table16, BYTES(vb_table16(b, BA))) \
    OP(LOAD_I8, vi_load_i8, INTS(vi_load_i8((const int8_t *)a))) \
    OP(LOAD_U8, vi_load_u8, INTS(vi_load_u8((const uint8_t *)a))) \
    OP(BLOAD_N, vb_load_n, BYTES(vb_load_n(a, n))) \
    OP(BSET, vb_set, BYTES(vb_set(*(const int8_t *)a))) \
    OP(BZERO, vb_zero, BYTES(vb_zero())) \
    OP(BSET4, vb_set4, BYTES(vb_set4(a)))
/* w128 and avx2: bytes as 16-bit lanes */
#define WIDE_OPS(OP) \
    OP(EVEN_I8, vw_even_i8, BYTES(vw_even_i8(BA))) \
    OP(ODD_I8, vw_odd_i8, BYTES(vw_odd_i8(BA))) \
    OP(EVEN_U8, vw_even_u8, BYTES(vw_even_u8(BA))) \
    OP(ODD_U8, vw_odd_u8, BYTES(vw_odd_u8(BA))) \
    OP(WADD, vw_add, BYTES(vw_add(BA, BB))) \
    OP(WDOT, vw_dot, INTS(vw_dot(BA, BB)))
/* w128 */
#define PAIR_OPS(OP) \
    OP(WLOAD, vw_load_i8, BYTES(vw_load_i8(a))) \
    OP(PAIR0, vw_pair, INTS(vw_pair(BA, 0))) \
    OP(PAIR1, vw_pair, INTS(vw_pair(BA, 1))) \
    OP(PAIR2, vw_pair, INTS(vw_pair(BA, 2))) \
    OP(PAIR3, vw_pair, INTS(vw_pair(BA, 3)))
/* w128 and neon */
#define FOUR_OPS(OP) \
    OP(PAIRS, vi_pairs, INTS(vi_pairs(IA, IB))) \
    OP(F16_EACH, v_load_f16_each, FLOATS(v_load_f16_each(a, (ptrdiff_t)n))) \
    OP(F16_SET, v_set_f16, FLOATS(v_set_f16(a))) \
    OP(BSHL, vb_shl, BYTES(vb_shl(BA, (int)n))) \
    OP(MERGE, vb_merge, BYTES(vb_merge(BA, BB, BC))) \
    OP(BBITS, vb_bits, BYTES(vb_bits(a))) \
    OP(ZIP_LOW, v_zip_low, FLOATS(v_zip_low(FA, FB))) \
    OP(ZIP_HIGH, v_zip_high, FLOATS(v_zip_high(FA, FB))) \
    OP(BZIP_LOW, vb_zip_low, BYTES(vb_zip_low(BA, BB))) \
    OP(BZIP_HIGH, vb_zip_high, BYTES(vb_zip_high(BA, BB))) \
    OP(LOWS, vb_lows, BYTES(vb_lows(BA, BB))) \
    OP(HIGHS, vb_highs, BYTES(vb_highs(BA, BB)))
/* neon, and neon with i8mm */
#define NEON_OPS(OP) \
    OP(TWICE, v_twice, FLOATS(v_twice(fa)))
#define MM_OPS(OP) \
    OP(MMLA, v_mmla_i8, INTS(v_mmla_i8(IA, BB, BC)))
#define ALL_OPS(OP) EACH_OPS(OP) WIDE_OPS(OP) PAIR_OPS(OP) FOUR_OPS(OP) NEON_OPS(OP) MM_OPS(OP)
#define TINYI_PASS_FILE "tests/core/simd_bytes.c"
#include "passes.h"

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
                a[n] = (unsigned char)(round < 16   ? few[round & 3]
                                       : round < 64 ? few[t_rand_below(4)]
                                                    : t_rand_below(256));
                b[n] = (unsigned char)(round < 16   ? few[round >> 2 & 3]
                                       : round < 64 ? few[t_rand_below(4)]
                                                    : t_rand_below(256));
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
                        want += (uint32_t)((op == OP_DOT_I8 || op == OP_DOT_I8_B127 ? signed_byte(c[n]) : (int)c[n]) *
                                           signed_byte(d[n]));
                    if (got[lane] != want)
                        t_fail(__FILE__, __LINE__, "%s, %s lane %d is %ld, not %ld", p->name, op_name[op], lane,
                               (long)wrap(got[lane]), (long)wrap(want));
                }
            }
            for (op = OP_BAND; op <= OP_BTABLE; op++) {
                const int shift = round & 7;
                p->apply(op, y, op == OP_BTABLE ? t : a, op == OP_BTABLE ? a : b, a, (size_t)shift);
                for (n = 0; n < bytes; n++) {
                    const unsigned u = a[n], v = b[n];
                    const unsigned want = op == OP_BAND   ? u & v
                                          : op == OP_BOR  ? u | v
                                          : op == OP_BXOR ? u ^ v
                                          : op == OP_BADD ? u + v
                                          : op == OP_BSUB ? u - v
                                          : op == OP_BSHR ? u >> shift
                                                          : a[t[n]];
                    if (y[n] != (want & 255u))
                        t_fail(__FILE__, __LINE__, "%s, %s byte %d is %02x, not %02x", p->name, op_name[op], n, y[n],
                               want & 255u);
                }
            }
            p->apply(OP_BSET, y, a, a, a, 0);
            for (n = 0; n < bytes; n++) T_EQ_INT(y[n], a[0]);
            p->apply(OP_BZERO, y, a, a, a, 0);
            for (n = 0; n < bytes; n++) T_EQ_INT(y[n], 0);
            p->apply(OP_BSET4, y, a + 1, a, a, 0);
            for (n = 0; n < bytes; n++) T_EQ_INT(y[n], a[1 + n % 4]);
            p->apply(OP_LOAD_I8, got, a, a, a, 0);
            for (lane = 0; lane < p->lanes; lane++) T_EQ_INT(wrap(got[lane]), signed_byte(a[lane]));
            p->apply(OP_LOAD_U8, got, a, a, a, 0);
            for (lane = 0; lane < p->lanes; lane++) T_EQ_INT(wrap(got[lane]), a[lane]);
        }
    }
}

/* the first n bytes only: one past them would fault */
static void test_tails(void)
{
    const pass *p;
    for EACH_PASS(p) {
        int n, i;
        for (n = 0; n <= 4 * p->lanes; n++) {
            unsigned char *few = (unsigned char *)t_guarded_bytes((size_t)n), got[64];
            for (i = 0; i < n; i++) few[i] = (unsigned char)(i + 1);
            p->apply(OP_BLOAD_N, got, few, few, few, (size_t)n);
            for (i = 0; i < 4 * p->lanes; i++)
                if (got[i] != (i < n ? i + 1 : 0))
                    t_fail(__FILE__, __LINE__, "%s, vb_load_n of %d: byte %d is %d", p->name, n, i, got[i]);
        }
    }
}

/* bytes as 16-bit lanes; an even byte is the lower one of its lane, the upper one on a big-endian machine */
static void test_wide_lanes(void)
{
    static const uint16_t one = 1;
    const int upper = *(const unsigned char *)&one == 0;
    const pass *p;
    for EACH_PASS(p) {
        int round, j, op;
        if (strncmp(p->name, "w128", 4) && strncmp(p->name, "avx2", 4)) continue;
        for (round = 0; round < 400; round++) {
            int16_t a[16], b[16], got[16];
            int32_t sum[8];
            unsigned char bytes[32];
            for (j = 0; j < 16; j++) {
                static const int edge[4] = { -32768, 32767, -1, 0 };
                a[j] = (int16_t)(round & 1 ? (int)t_rand_below(65536) - 32768 : edge[t_rand_below(4)]);
                b[j] = (int16_t)(round & 2 ? (int)t_rand_below(65536) - 32768 : edge[t_rand_below(4)]);
            }
            memcpy(bytes, a, 32);
            for (op = OP_EVEN_I8; op <= OP_ODD_U8; op++) {
                const int odd = op == OP_ODD_I8 || op == OP_ODD_U8, is_signed = op == OP_EVEN_I8 || op == OP_ODD_I8;
                p->apply(op, got, a, b, b, 0);
                for (j = 0; j < 2 * p->lanes; j++) {
                    const unsigned char byte = bytes[2 * j + (odd ^ upper)];
                    if (got[j] != (is_signed ? signed_byte(byte) : (int)byte))
                        t_fail(__FILE__, __LINE__, "%s, %s of %02x is %d", p->name, op_name[op], byte, got[j]);
                }
            }
            p->apply(OP_WADD, got, a, b, b, 0);
            for (j = 0; j < 2 * p->lanes; j++) T_EQ_INT((uint16_t)got[j], (uint16_t)(a[j] + b[j]));
            p->apply(OP_WDOT, sum, a, b, b, 0);
            for (j = 0; j < p->lanes; j++)
                T_EQ_INT((uint32_t)sum[j],
                         (uint32_t)a[2 * j] * (uint32_t)b[2 * j] + (uint32_t)a[2 * j + 1] * (uint32_t)b[2 * j + 1]);
            if (p->lanes != 4) continue;
            p->apply(OP_WLOAD, got, bytes, b, b, 0);
            for (j = 0; j < 8; j++) T_EQ_INT(got[j], signed_byte(bytes[j]));
            p->apply(OP_PAIR0 + (round & 3), got, a, b, b, 0);
            for (j = 0; j < 8; j++) T_EQ_INT(got[j], a[2 * (round & 3) + j % 2]);
        }
    }
}

/* operations that only targets of four lanes have: the bytes of every vector are known in advance */
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
            /* halves that are numbers, at even steps */
            for (n = 1; n < 64; n += 2) if ((a[n] & 0x7c) == 0x7c) a[n] ^= 0x40;
            for (n = 0; n < 16; n++) {
                b[n] = (unsigned char)t_rand_below(256);
                m[n] = (unsigned char)t_rand_below(256);
            }
            memcpy(ia, a, 16);
            memcpy(ib, b, 16);
            p->apply(OP_PAIRS, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] + ia[1] && got[1] == ia[2] + ia[3] && got[2] == ib[0] + ib[1] &&
                   got[3] == ib[2] + ib[3]);
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
            p->apply(OP_ZIP_LOW, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] && got[1] == ib[0] && got[2] == ia[1] && got[3] == ib[1]);
            p->apply(OP_ZIP_HIGH, got, a, b, b, 0);
            T_TRUE(got[0] == ia[2] && got[1] == ib[2] && got[2] == ia[3] && got[3] == ib[3]);
            p->apply(OP_LOWS, y, a, b, b, 0);
            T_TRUE(!memcmp(y, a, 8) && !memcmp(y + 8, b, 8));
            p->apply(OP_HIGHS, y, a, b, b, 0);
            T_TRUE(!memcmp(y, a + 8, 8) && !memcmp(y + 8, b + 8, 8));
            p->apply(OP_BZIP_LOW, y, a, b, b, 0);
            for (n = 0; n < 16; n++) T_EQ_INT(y[n], n % 2 ? b[n / 2] : a[n / 2]);
            p->apply(OP_BZIP_HIGH, y, a, b, b, 0);
            for (n = 0; n < 16; n++) T_EQ_INT(y[n], n % 2 ? b[8 + n / 2] : a[8 + n / 2]);
            if (!neon) continue;
            p->apply(OP_TWICE, got, a, b, b, 0);
            T_TRUE(got[0] == ia[0] && got[1] == ia[1] && got[2] == ia[0] && got[3] == ia[1]);
            if (strcmp(p->name, "neonmm")) continue;
            if (round < 4) for (n = 0; n < 16; n++) { a[n] = round & 1 ? 0x80 : 0x7f; b[n] = round & 2 ? 0x80 : 0x7f; }
            memcpy(ic, m, 16);
            p->apply(OP_MMLA, got, ic, a, b, 0);
            for (l = 0; l < 4; l++) {
                uint32_t want = ic[l];
                for (j = 0; j < 8; j++)
                    want += (uint32_t)(signed_byte(a[l / 2 * 8 + j]) * signed_byte(b[l % 2 * 8 + j]));
                T_TRUE(got[l] == want);
            }
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

int main(void)
{
    T_RUN(test_bytes);
    T_RUN(test_tails);
    T_RUN(test_wide_lanes);
    T_RUN(test_four_lanes);
    T_RUN(test_amx_tiles_see_what_was_written);
    return t_done();
}

#else
#include "passes.h"
#include "core/simd.h"
#if V_I8MM
APPLY(EACH_OPS(OP_CASE) FOUR_OPS(OP_CASE) NEON_OPS(OP_CASE) MM_OPS(OP_CASE))
#elif V_NEON
APPLY(EACH_OPS(OP_CASE) FOUR_OPS(OP_CASE) NEON_OPS(OP_CASE))
#elif V_W128
APPLY(EACH_OPS(OP_CASE) WIDE_OPS(OP_CASE) PAIR_OPS(OP_CASE) FOUR_OPS(OP_CASE))
#elif V_AVX2
APPLY(EACH_OPS(OP_CASE) WIDE_OPS(OP_CASE))
#else
APPLY(EACH_OPS(OP_CASE))
#endif
#if V_AMX

/* y (16, 16) = a (16, 64) times b, whose four rows of a column are adjacent: b (16, 16, 4). The configuration and b
 * are written just before they are used: the compiler must not move these stores. */
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
#endif
#include "core/simd_unname.h"
#endif
