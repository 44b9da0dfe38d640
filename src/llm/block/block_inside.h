/* src/llm/block/block_inside.h - the kernel table of products with block formats, filled by every target
 *
 * Every format is treated as super-blocks of 256 numbers in 16 groups: number i of group g is s[g] code[i] + m[g]. A
 * code is a byte; it is unsigned unless tinyi_blk_kernels.traits has HAS_SIGN. Blocks of 32 are processed eight at a
 * time; the last blocks of a row are copied and padded with zeros. */
#ifndef TINYI_BLOCK_H
#define TINYI_BLOCK_H
#include "math/table_inside.h"
#include "llm/block/lattice_inside.h"
TINYI_C_BEGIN

/* traits of the codes of a format. The upper bits, divided by FITS: how many pairs of products with 7 bits fit into a
 * sum of 16 bits. Groups have 32 numbers, or 16 if FINE. PAIRED: the low halves of bytes come first, then the high
 * halves. */
enum { TINYI_BLK_HAS_SIGN = 1, TINYI_BLK_FINE = 2, TINYI_BLK_PAIRED = 4, TINYI_BLK_MINIMA = 8, TINYI_BLK_FITS = 16 };

/* name, numbers in a block, bytes of a block, traits */
#define TINYI_BLKS_FEW(F) \
    F(Q8_0, 32, 34, TINYI_BLK_FITS | TINYI_BLK_HAS_SIGN) \
    F(Q4_0, 32, 18, 8 * TINYI_BLK_FITS | TINYI_BLK_PAIRED) \
    F(Q4_K, 256, 144, 8 * TINYI_BLK_FITS | TINYI_BLK_MINIMA) \
    F(Q6_K, 256, 210, 2 * TINYI_BLK_FITS | TINYI_BLK_FINE)
#ifdef TINYLLM_FEW_FORMATS
#define TINYI_BLKS_PLAIN(F) TINYI_BLKS_FEW(F)
#define TINYI_BLKS_BOOKS(F)
#define TINYI_BLK_ANY_BOOKS 0
#else
#define TINYI_BLKS_PLAIN(F) \
    TINYI_BLKS_FEW(F) \
    F(Q4_1, 32, 20, 8 * TINYI_BLK_FITS | TINYI_BLK_PAIRED | TINYI_BLK_MINIMA) \
    F(Q5_0, 32, 22, 4 * TINYI_BLK_FITS | TINYI_BLK_PAIRED) \
    F(Q5_1, 32, 24, 4 * TINYI_BLK_FITS | TINYI_BLK_PAIRED | TINYI_BLK_MINIMA) \
    F(Q2_K, 256, 84, 8 * TINYI_BLK_FITS | TINYI_BLK_FINE | TINYI_BLK_MINIMA) \
    F(Q3_K, 256, 110, 8 * TINYI_BLK_FITS | TINYI_BLK_FINE) \
    F(Q5_K, 256, 176, 4 * TINYI_BLK_FITS | TINYI_BLK_MINIMA) \
    F(IQ4_NL, 32, 18, TINYI_BLK_FITS | TINYI_BLK_PAIRED | TINYI_BLK_HAS_SIGN) \
    F(IQ4_XS, 256, 136, TINYI_BLK_FITS | TINYI_BLK_PAIRED | TINYI_BLK_HAS_SIGN) \
    F(MXFP4, 32, 17, 4 * TINYI_BLK_FITS | TINYI_BLK_PAIRED) \
    F(TQ2_0, 256, 66, 8 * TINYI_BLK_FITS) \
    F(TQ1_0, 256, 54, 8 * TINYI_BLK_FITS) \
    F(NVFP4, 64, 36, 4 * TINYI_BLK_FITS | TINYI_BLK_FINE) \
    F(Q1_0, 128, 18, 8 * TINYI_BLK_FITS | TINYI_BLK_PAIRED) \
    F(Q2_0, 64, 18, 8 * TINYI_BLK_FITS | TINYI_BLK_PAIRED)
/* formats of code books (lattice_inside.h): codes up to 43 or 62 in magnitude, or LOW ones up to 15 */
#define TINYI_BLK_ANY_BOOKS 1
#define TINYI_BLKS_BOOKS(F) \
    F(IQ2_XXS, 256, 66, TINYI_BLK_BOOK) \
    F(IQ2_XS, 256, 74, TINYI_BLK_BOOK) \
    F(IQ2_S, 256, 82, TINYI_BLK_BOOK) \
    F(IQ3_XXS, 256, 98, TINYI_BLK_BOOK) \
    F(IQ3_S, 256, 110, TINYI_BLK_BOOK_LOW) \
    F(IQ1_S, 256, 50, TINYI_BLK_BOOK_LOW) \
    F(IQ1_M, 256, 56, TINYI_BLK_BOOK_LOW)
#endif
/* of which there is a form of eight rows side by side (eight.h) */
#ifdef TINYLLM_FEW_FORMATS
#define TINYI_EIGHTS(F) TINYI_BLKS_FEW(F)
#else
#define TINYI_EIGHTS(F) \
    TINYI_BLKS_FEW(F) \
    F(Q4_1, 32, 20, 8 * TINYI_BLK_FITS | TINYI_BLK_MINIMA) \
    F(Q5_0, 32, 22, 4 * TINYI_BLK_FITS) \
    F(Q5_1, 32, 24, 4 * TINYI_BLK_FITS | TINYI_BLK_MINIMA) \
    F(Q5_K, 256, 176, 4 * TINYI_BLK_FITS | TINYI_BLK_MINIMA)
#endif
/* FITS: once an offset has made codes 0 to 126, or 0 to 31 */
#define TINYI_BLK_BOOK (TINYI_BLK_FITS | TINYI_BLK_HAS_SIGN | TINYI_BLK_FINE)
#define TINYI_BLK_BOOK_LOW (4 * TINYI_BLK_FITS | TINYI_BLK_HAS_SIGN | TINYI_BLK_FINE)
#define TINYI_BLKS(F) TINYI_BLKS_PLAIN(F) TINYI_BLKS_BOOKS(F)
#define TINYI_BLK_ONE(name, values, bytes, traits) + 1
enum { TINYI_BLK_BOOKS = 0 TINYI_BLKS_PLAIN(TINYI_BLK_ONE) };      /* the first of them */
#undef TINYI_BLK_ONE
#define TINYI_BLK_ENUM(name, values, bytes, traits) TINYI_BLK_##name,
enum { TINYI_BLKS(TINYI_BLK_ENUM) TINYI_BLK_COUNT };
#undef TINYI_BLK_ENUM

/* Rows of activations in 8 bits: for each 256 numbers 256 codes, 16 scales (two of each) and 16 sums of codes times
 * scale; avx2, neon and w128 have them otherwise, see tree.simd.h and quad.simd.h. */
#define TINYI_BLK_PANEL 384
#define TINYI_BLK_FEW \
    8 /* rows of x that `few` takes; up to which a format without integer kernels is not worth a panel */
#define TINYI_BLK_LOW 32                    /* rows of w that INTEGERS expand at once */
typedef struct tinyi_q8 {
    const int8_t *code;
    const float *d, *sum;
    size_t blocks;                          /* of 256, in a row */
} tinyi_q8;

/* Products with repacked matrices, for the formats of TINYI_EIGHTS, in their order. */
#define TINYI_EIGHT_ENUM(name, values, bytes, traits) TINYI_EIGHT_##name,
enum { TINYI_EIGHTS(TINYI_EIGHT_ENUM) TINYI_EIGHT_COUNT };
#undef TINYI_EIGHT_ENUM
/* of the repacked formats: those with numbers of 5 bits, and those with blocks of 256 */
TINYI_FORCE_INLINE int tinyi_eight_has_five(int blk)
{
#ifdef TINYLLM_FEW_FORMATS
    (void)blk;
    return 0;
#else
    return blk == TINYI_BLK_Q5_0 || blk == TINYI_BLK_Q5_1 || blk == TINYI_BLK_Q5_K;
#endif
}
TINYI_FORCE_INLINE int tinyi_eight_has_256(int blk)
{
#ifndef TINYLLM_FEW_FORMATS
    if (blk == TINYI_BLK_Q5_K) return 1;
#endif
    return blk == TINYI_BLK_Q4_K || blk == TINYI_BLK_Q6_K;
}
typedef struct tinyi_eight_kernels {
    /* y[r * y_row + i * y_x] = row r of `groups` times eight rows, group_step bytes from one eight to the next, times
     * row i of 1 to TINYI_BLK_FEW rows of x; x in order, made `ready` */
    void (*dot[TINYI_EIGHT_COUNT])(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,
                                   ptrdiff_t group_step, size_t groups, const tinyi_q8 *x, size_t k, size_t n);
    /* n numbers, at most 256, of eight rows to expanded rows as `panel` needs them; across: to eight lanes of rows side
     * by side, as `lay` of tinyi_blk_kernels leaves them */
    void (*expand[TINYI_EIGHT_COUNT])(unsigned char *to, const unsigned char *w, size_t n, ptrdiff_t ahead, int across);
    /* of rows quantized in order: the contents after the scales and in the place of sums of 16 codes. 0: a scale is so
     * large that it, times a sum of integers, may be infinite where the result is not */
    int (*ready)(const int8_t *code, float *d, float *sum, size_t blocks);
} tinyi_eight_kernels;

typedef struct tinyi_blk_kernels {
    tiny_target from;
    const char *pass;                           /* its name */
    /* `few` takes rows of activations in pairs: row i is quantized, paired, to 8 codes and 1 scale beyond where a pair
     * begins if i is odd */
    int twins;
    unsigned char traits[TINYI_BLK_COUNT];      /* HAS_SIGN is what the target's codes have */
    /* n numbers, a multiple of 32, followed by zeros to whole 256; 0: one is infinite or not a number. paired: for
     * `dot` of a format whose traits say PAIRED. */
    int (*quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n, int paired);
    /* y[r * y_row] = row r of w times one row of x */
    void (*dot[TINYI_BLK_COUNT])(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row, size_t n_row,
                                 const tinyi_q8 *x, size_t k);
    /* k numbers to codes, s and m, whole super-blocks; what lies `ahead` bytes further is asked from memory. table: of
     * a code book (tinyi_book_table), which targets with `lanes` use. avx2 has NULL for code books */
    void (*expand[TINYI_BLK_COUNT])(unsigned char *code, float *s, float *m, const unsigned char *w, size_t k,
                                    ptrdiff_t ahead, const unsigned char *table);
    /* one expanded row times n rows of x: y[i * y_step]; NULL where there is `few` */
    void (*dots)(float *y, ptrdiff_t y_step, const unsigned char *code, const float *s, const float *m, int traits,
                 const tinyi_q8 *x, size_t n);
    /* an expanded row as floats; NULL where there is `panel`, or floats in panels are always slower than `few` */
    void (*floats)(float *to, const unsigned char *code, const float *s, const float *m, int is_signed, size_t blocks);
    /* y[r * y_row + i * y_x] = row r of w times row i of 2 to TINYI_BLK_FEW rows of x, each block unpacked once for all
     * of them; paired as for `dot`, or `twins`; NULL: there is `dots` */
    void (*few[TINYI_BLK_COUNT])(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w, ptrdiff_t w_row,
                                 size_t n_row, const tinyi_q8 *x, size_t k, size_t n);
    /* many rows of x as integers, or NULL: up to `side` of them side by side, `part` bytes for 32 numbers of them, at
     * most 80 for each; `block` and `group` bytes from one 256, one 32 to the next */
    int side, part;                             /* side: 8 or 16 */
    int single;                                 /* 1: a row beyond whole eights is cheaper by itself */
    void (*turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group);
    /* a block of 256 numbers of `rows` expanded rows (a multiple of 8, at most TINYI_BLK_LOW; 256 codes, 16 s, 16 m,
     * TINYI_BLK_PANEL bytes apart) times n rows of x, in groups of `side`: y[group of x][TINYI_BLK_LOW][side] += */
    void (*panel)(float *y, const unsigned char *code, int traits, size_t rows, const unsigned char *x,
                  ptrdiff_t x_group, size_t n);
    /* many rows of x as integers, a lane for each row of w (across.simd.h), or lanes 0: there is `panel`
     * lay   n numbers, at most 256, of up to `lanes` rows of w, w_row bytes apart, are expanded to `code` and laid side
     *       by side in `to`, TINYI_BLK_PANEL bytes for each lane; table: as for `expand`
     * row   blocks of 256 of a row of x, `step` bytes apart; 0: a number is infinite or not a number
     * meet  up to TINYI_BLK_LOW `rows` of w, side by side, times n >= 2 rows of x: y[row of x][TINYI_BLK_LOW] +=;
     *       meanwhile `lines` lines from `soon` on are asked from memory */
    int lanes;
    void (*lay[TINYI_BLK_COUNT])(unsigned char *to, unsigned char *code, const unsigned char *w, ptrdiff_t w_row,
                                 size_t rows, size_t n, ptrdiff_t ahead, const unsigned char *table);
    int (*row)(unsigned char *to, ptrdiff_t step, const float *x, size_t k);
    void (*meet)(float *y, const unsigned char *code, int traits, size_t rows, const unsigned char *x, size_t n,
                 const unsigned char *soon, size_t lines);
    const tinyi_eight_kernels *eight;           /* or NULL */
} tinyi_blk_kernels;

/* AMX, or bfloat16 in avx512: 32 rows by 32 columns of c += a b in bfloat16. a: rows of k numbers, a_row bytes apart;
 * b: panels of 16 columns, [k / 2][16][2]. low, wide: the second 16 rows or columns are needed too. ahead: memory to
 * prefetch, two lines for each 32 of k. begin_bytes, meet: products of bytes instead; meet is that of tinyi_blk_kernels
 * for whole sixteens of rows of x, and formats that are not FINE. avx512 has begin, end, tile and round only. */
typedef struct tinyi_blk_tiles {
    void (*begin)(void);
    void (*end)(void);
    void (*tile)(float *c, ptrdiff_t c_row, const unsigned char *a, ptrdiff_t a_row, const unsigned char *b,
                 ptrdiff_t b_panel, size_t k, int add, int low, int wide, const unsigned char *ahead);
    void (*halves)(uint16_t *to, const unsigned char *code, const float *s, const float *m, int traits, size_t blocks);
    void (*round)(uint16_t *to, const float *x, size_t n);
    void (*begin_bytes)(void);
    void (*meet)(float *y, const unsigned char *code, size_t rows, const unsigned char *x, size_t n,
                 const unsigned char *soon, size_t lines);
} tinyi_blk_tiles;

/* what the codes of IQ4_NL and IQ4_XS, and those of MXFP4 and NVFP4 stand for; with an offset for instructions that
 * want no sign */
static const TINYI_UNUSED signed char tinyi_blk_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                                            1,    13,   25,  38,  53,  69,  89,  113 };
static const TINYI_UNUSED unsigned char tinyi_blk_iq4_128[16] = { 1,   24,  45,  63,  79,  93,  106, 118,
                                                                  129, 141, 153, 166, 181, 197, 217, 241 };
static const TINYI_UNUSED unsigned char tinyi_blk_e2m1_16[16] = { 16, 17, 18, 19, 20, 22, 24, 28,
                                                                  16, 15, 14, 13, 12, 10, 8,  4 };

#if TINYI_GCC || TINYI_CLANG
#define TINYI_BLK_AHEAD(p) __builtin_prefetch(p)
#define TINYI_BLK_AHEAD2(p) __builtin_prefetch(p, 0, 2)
#else
#define TINYI_BLK_AHEAD(p) ((void)0)
#define TINYI_BLK_AHEAD2(p) ((void)0)
#endif

/* How far behind a place in a row to ask memory for what is needed `by` bytes later. Rows of `bytes` bytes begin w_row
 * bytes apart; where that is more, they are a part of the columns, and what lies between them is for somebody else:
 * then the same place some rows below is asked for. */
TINYI_INLINE ptrdiff_t tinyi_blk_ahead(ptrdiff_t w_row, size_t bytes, ptrdiff_t by)
{
    const ptrdiff_t row = (ptrdiff_t)bytes;
    return row < 1 || w_row < row + 64 || row > 4 * by ? by : (by + row - 1) / row * w_row;
}

/* the last of a row: n bytes of its blocks in `last`, followed by zeros */
TINYI_INLINE const unsigned char *tinyi_blk_last(unsigned char *last, size_t room, const unsigned char *b, size_t n)
{
    memset(last, 0, room);
    memcpy(last, b, n);
    return last;
}

TINYI_TABLES_EXTRA(tinyi_blk_kernels, tinyi_blk_kernels)
TINYI_FOR_AMX(TINYI_TABLE_DECLARE, tinyi_blk_tiles, tinyi_blk_tiles)
TINYI_FN const tinyi_blk_tiles *tinyi_blk_tiles_of(const tinyi_kernels *k);     /* of AMX; NULL: there are none */
#if TINYI_HAVE_BF16
TINYI_FOR_AVX512(TINYI_TABLE_DECLARE, tinyi_blk_tiles, tinyi_blk_bfloat)
#endif
/* for weights in bfloat16: those of AMX or of avx512; NULL: x would not be rounded */
TINYI_FN const tinyi_blk_tiles *tinyi_blk_bfloat_of(const tinyi_kernels *k);
TINYI_FN const tinyi_blk_kernels *tinyi_blk_scalar(void);    /* NULL where another target is the only one */
TINYI_FN int tinyi_blk_of(int format);      /* TINYI_BLK_..., or -1 */
TINYI_FN int tinyi_eight_of(int format);    /* TINYI_EIGHT_..., or -1 */

TINYI_C_END
#endif
