/* src/llm/lab/bipolar/bipolar_inside.h - inside the products of bit planes: what every target has */
#ifndef TINYI_BIPOLAR_INSIDE_H
#define TINYI_BIPOLAR_INSIDE_H
#include "llm/lab/bipolar/bipolar.h"
#include "math/bits_inside.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

/* Shapes of a block, P Q M: planes of w, planes of x, rows of x that share the loads of w. Measured with avx2 on
 * Zen 3, nanoseconds for a pair of vectors with M = 1, 2, 4: 1 x 1 1.00, 0.8, 0.63; 2 x 2 0.73, 0.65, 0.59; 3 x 3 0.67,
 * 0.62, 0.58; 4 x 4 0.66, 0.61, 0.59, where four rows are twice the code and leave the registers. Scalars have nothing
 * to share. */
#define TINYI_BIP_SHAPES(S) \
    S(1, 1, 4) S(1, 2, 4) S(1, 3, 4) S(1, 4, 4) S(2, 1, 4) S(2, 2, 4) S(2, 3, 4) S(2, 4, 4) \
    S(3, 1, 4) S(3, 2, 4) S(3, 3, 4) S(3, 4, 2) S(4, 1, 4) S(4, 2, 4) S(4, 3, 2) S(4, 4, 2)
#define TINYI_BIP_ALONE(S) \
    S(1, 1, 1) S(1, 2, 1) S(1, 3, 1) S(1, 4, 1) S(2, 1, 1) S(2, 2, 1) S(2, 3, 1) S(2, 4, 1) \
    S(3, 1, 1) S(3, 2, 1) S(3, 3, 1) S(3, 4, 1) S(4, 1, 1) S(4, 2, 1) S(4, 3, 1) S(4, 4, 1)

/* sum[r][16] += 2^shift sum_ij 2^(i+j) popcount(w_i xor x_rj); a step of 32 numbers is w_unit bytes of w and x_unit of
 * x */
typedef void (*tinyi_bip_fn)(int32_t *sum, const unsigned char *w, size_t w_unit, const unsigned char *x, size_t x_unit,
                             size_t x_row, size_t units, int shift);
typedef struct tinyi_bip_kernels {
    tiny_target from;
    int parts;                              /* x has that many times four bytes for 32 bits: 2 as separate nibbles */
    const char *pass;
    unsigned char rows[16];                 /* of x in `few` */
    tinyi_bip_fn one[16], few[16];          /* by 4 (P - 1) + Q - 1 */
    float (*largest)(const float *x, size_t n);
    void (*codes)(uint8_t *code, const float *x, size_t n, float s, float top);
    void (*lay)(unsigned char *to, const uint8_t *code, size_t units, int bits, int parts);     /* a row of x */
    void (*values)(int32_t *v, const int32_t *sum, int32_t c, const int32_t *less, int halves);
    void (*floats)(float *y, const int32_t *v, const float *scale, float factor, int add);
} tinyi_bip_kernels;

/* 32 codes to `bits` words of four bytes, step apart; apart: the lower nibbles, and the upper ones after them */
TINYI_FORCE_INLINE void tinyi_bip_lay(unsigned char *to, size_t step, const uint8_t *code, int bits, int apart)
{
    int i, j, e;
    for (i = 0; i < 4; i++) {
        uint64_t eight = 0;
        for (e = 0; e < 8; e++) eight |= (uint64_t)code[8 * i + e] << 8 * e;
        eight = tinyi_bits_transpose8(eight);
        for (j = 0; j < bits; j++, eight >>= 8) {
            unsigned char *at = to + (size_t)j * step + i;
            if (apart) {
                at[0] = (unsigned char)(eight & 15);
                at[4] = (unsigned char)(eight >> 4 & 15);
            } else at[0] = (unsigned char)(eight & 255);
        }
    }
}

TINYI_TABLES(tinyi_bip_kernels, tinyi_bip_kernels)

TINYI_C_END
#endif
