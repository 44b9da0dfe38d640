/* src/llm/quant/block.h - inside the products with block formats: what every target fills
 *
 * All formats are seen as super-blocks of 256 numbers in 16 groups: number i of group g is s[g] code[i] + m[g]. A code is a
 * byte, without sign where tinyi_blk_kernels.is_signed says 0. Formats with blocks of 32 come eight at a time; the last of a
 * row are copied and followed by zeros.                                                                               */
#ifndef TINYI_BLOCK_H
#define TINYI_BLOCK_H
#include "math/table.h"
#include "llm/quant/blocks.h"
TINYI_C_BEGIN

/* name, numbers in a block, bytes of a block, 1: its codes are bytes with a sign */
#define TINYI_BLKS(F) F(Q8_0, 32, 34, 1) F(Q4_0, 32, 18, 0) F(Q4_1, 32, 20, 0) F(Q5_0, 32, 22, 0) F(Q5_1, 32, 24, 0) F(Q2_K, 256, 84, 0) \
    F(Q3_K, 256, 110, 0) F(Q4_K, 256, 144, 0) F(Q5_K, 256, 176, 0) F(Q6_K, 256, 210, 0) F(IQ4_NL, 32, 18, 1) F(IQ4_XS, 256, 136, 1) \
    F(MXFP4, 32, 17, 0) F(TQ2_0, 256, 66, 0)
#define TINYI_BLK_ENUM(name, values, bytes, wide) TINYI_BLK_##name,
enum { TINYI_BLKS(TINYI_BLK_ENUM) TINYI_BLK_COUNT };
#undef TINYI_BLK_ENUM

/* Rows of activations in 8 bits: for each 256 numbers 256 codes, 16 scales (two of each) and 16 sums of codes times scale. */
typedef struct tinyi_q8 {
    const int8_t *code;
    const float *d, *sum;
    size_t blocks;                          /* of 256, in a row */
} tinyi_q8;

typedef struct tinyi_blk_kernels {
    tiny_target from;
    unsigned char is_signed[TINYI_BLK_COUNT];
    /* n numbers, a multiple of 32, followed by zeros to whole 256; 0: one is infinite or not a number */
    int (*quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n);
    /* y[r * y_row] = row r of w times one row of x */
    void (*dot[TINYI_BLK_COUNT])(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k);
    /* k numbers to codes, s and m, whole super-blocks; what lies `ahead` bytes further is asked from memory */
    void (*expand[TINYI_BLK_COUNT])(unsigned char *code, float *s, float *m, const unsigned char *w, size_t k, ptrdiff_t ahead);
    /* one expanded row times n rows of x: y[i * y_step] */
    void (*dots)(float *y, ptrdiff_t y_step, const unsigned char *code, const float *s, const float *m, int is_signed, const tinyi_q8 *x, size_t n);
    /* an expanded row as floats */
    void (*floats)(float *to, const unsigned char *code, const float *s, const float *m, int is_signed, size_t blocks);
} tinyi_blk_kernels;

/* What only AMX has: 32 rows by 32 columns of c += a b in bfloat16. a: rows of k numbers, a_row bytes apart; b: panels of 16
 * columns, [k / 2][16][2]. low, wide: the second 16 rows, columns are wanted too. ahead: what is asked from memory meanwhile, two
 * lines for each 32 of k. */
typedef struct tinyi_blk_tiles {
    void (*begin)(void);
    void (*end)(void);
    void (*tile)(float *c, ptrdiff_t c_row, const unsigned char *a, ptrdiff_t a_row, const unsigned char *b, ptrdiff_t b_panel, size_t k, int add, int low, int wide, const unsigned char *ahead);
    void (*halves)(uint16_t *to, const unsigned char *code, const float *s, const float *m, int is_signed, size_t blocks);
    void (*round)(uint16_t *to, const float *x, size_t n);
} tinyi_blk_tiles;

TINYI_FN const tinyi_blk_kernels *tinyi_blk_kernels_of(const tinyi_kernels *k);
TINYI_FN const tinyi_blk_tiles *tinyi_blk_tiles_of(const tinyi_kernels *k);     /* NULL: there are none */
TINYI_FN const tinyi_blk_kernels *tinyi_blk_scalar(void);
TINYI_FN int tinyi_blk_of(int format);      /* TINYI_BLK_..., or -1 */

TINYI_C_END
#endif
