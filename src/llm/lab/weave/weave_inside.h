/* src/llm/lab/weave/weave_inside.h - shared by the store of bits, its kernels and the trainer
 *
 * A word is 32 features of one sample and one bit. V words, V the lanes of the target, are a part: 32 V features.
 * Within a part the numbers of a vector are those at one bit of its words. A model for the kernels is therefore stored
 * part by part, bit by bit: number p V + l of a part is its feature 32 l + p. Kernels make the number c 2^t of a code
 * c, with t its position in the word; the other factor contains 2^-t. */
#ifndef TINYI_WEAVE_INSIDE_H
#define TINYI_WEAVE_INSIDE_H
#include "core/bytes.h"
#include "llm/lab/weave/weave.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

#define TINYI_WEAVE_GROUP 8                 /* samples whose bits are side by side */
#define TINYI_WEAVE_BLOCK 2048              /* bytes of 64 features of a group: 32 lines of 64 */

/* parts first, first + 1, ... first + n of a group; chunks: of 64 features that there are; planes: of each sample (n,
 * bits, V) words */
typedef struct tinyi_weave_step { float by, shrink; int fixed; } tinyi_weave_step;
typedef struct tinyi_weave_rows {           /* m samples of a group, n parts of each */
    size_t m, n;
    const uint32_t *planes;                 /* (m, n, bits, V) words */
    size_t step;                            /* words of a part: bits V */
    float *x;                               /* (m, n, 32 V), rows x_step apart: their numbers */
    size_t x_step;
    float *sum;                             /* (m, n, V): their products with w, by parts and lanes */
} tinyi_weave_rows;
typedef struct tinyi_weave_kernels {
    tiny_target from;
    int lanes;
    int masked_bits;                        /* up to here products by masks are faster than by turning */
    void (*take)(uint32_t *planes, const unsigned char *group, size_t chunks, size_t first, size_t n, int bits,
                 size_t ahead);
    void (*expand)(const tinyi_weave_rows *r, const float *w, int bits);
    /* sum (n, V) of numbers that are there */
    void (*products)(float *sum, const float *a, const float *b, size_t n);
    /* lanes (m, V) = sums (m, n, V) over the parts in their order; without first on top */
    void (*collect)(float *lanes, const float *sum, size_t m, size_t n, int first);
    /* z (m): over the lanes */
    void (*across)(float *z, const float *lanes, size_t m);
    /* g = sum of d[i] x[i], i < m; without first on top of g */
    void (*add)(float *g, const float *const *x, const float *d, int m, size_t n, int first);
    /* scale[32]: of each bit, as tinyi_weave_scale */
    void (*step)(float *w, const float *g, const float *scale, size_t n, const tinyi_weave_step *s);
    /* w: 64 chunks features in their order, zeros after the last */
    float (*masked)(const unsigned char *group, size_t sample, size_t chunks, int bits, const float *w);
} tinyi_weave_kernels;
TINYI_TABLES(tinyi_weave_kernels, tinyi_weave_kernels)

/* into the second cache: lines of many blocks meet in few sets of the first one, and it is full of numbers */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_WEAVE_AHEAD(p) __builtin_prefetch(p, 0, 2)
#else
#define TINYI_WEAVE_AHEAD(p) ((void)(p))
#endif

TINYI_INLINE size_t tinyi_weave_chunks(tiny_idx n_feature) { return ((size_t)n_feature + 63) / 64; }
TINYI_INLINE size_t tinyi_weave_parts(tiny_idx n_feature, int lanes)
{
    return (2 * tinyi_weave_chunks(n_feature) + (size_t)lanes - 1) / (size_t)lanes;
}
TINYI_INLINE const unsigned char *tinyi_weave_group_of(const tllm_weave *d, tiny_idx sample)
{
    return d->lines + (size_t)(sample / TINYI_WEAVE_GROUP) * tinyi_weave_chunks(d->n_feature) * TINYI_WEAVE_BLOCK;
}
/* a word of sample i (0 .. 7) of a group: 32 features of bit k */
TINYI_INLINE uint32_t tinyi_weave_word(const unsigned char *group, size_t word, size_t i, int k)
{
    return tinyi_le32(group + word / 2 * TINYI_WEAVE_BLOCK + 64 * (size_t)k + 8 * i + word % 2 * 4);
}
/* width of the field in a word for a code of that many bits: a power of two; longer codes are made of pieces of
 * eight */
TINYI_INLINE int tinyi_weave_field(int bits) { return bits > 4 ? 8 : bits > 2 ? 4 : bits; }
/* scale[p]: what a number of bit p of a word is to be multiplied with */
TINYI_FN void tinyi_weave_scale(float scale[32], int bits);
/* n_feature numbers in their order as parts of numbers times factor[p] (NULL: 1), and back with division by it */
TINYI_FN void tinyi_weave_spread(float *part, const float *x, tiny_idx n_feature, int lanes, const float *factor);
TINYI_FN void tinyi_weave_gather(float *x, const float *part, tiny_idx n_feature, int lanes, const float *factor);

#define TINYI_WEAVE_LANES 16                /* the most that a target has */
/* scratch of a thread for a group that needs products only: its numbers take turns in one row */
TINYI_INLINE size_t tinyi_weave_rows_bytes(size_t parts, int lanes, int bits)
{
    return (parts * 32 + 8 * parts + 8 * parts * (size_t)bits) * (size_t)lanes * 4;
}
TINYI_INLINE uint32_t *tinyi_weave_rows_own(tinyi_weave_rows *r, void *own, size_t parts, int lanes, int bits)
{
    uint32_t *planes;
    r->m = 8;
    r->n = parts;
    r->step = (size_t)bits * (size_t)lanes;
    r->x = (float *)own;
    r->x_step = 0;
    r->sum = r->x + parts * 32 * (size_t)lanes;
    r->planes = planes = (uint32_t *)(void *)(r->sum + 8 * parts * (size_t)lanes);
    return planes;
}
/* z: the products of the samples of r */
TINYI_INLINE void tinyi_weave_rows_products(const tinyi_weave_kernels *k, const tinyi_weave_rows *r, float *z)
{
    float lanes[8 * TINYI_WEAVE_LANES];
    k->collect(lanes, r->sum, r->m, r->n, 1);
    k->across(z, lanes, r->m);
}

/* refuses what is no store, and samples first .. first + m that it has not */
TINYI_FN tiny_status tinyi_weave_check(tiny_ctx *ctx, const tllm_weave *data, const char *what);
TINYI_FN tiny_status tinyi_weave_check_bits(tiny_ctx *ctx, const char *what, int bits);
/* the code of sample i, feature j, by the formula of the layout */
TINYI_FN uint32_t tinyi_weave_code(const tllm_weave *data, tiny_idx i, tiny_idx j, int bits);

TINYI_C_END
#endif
