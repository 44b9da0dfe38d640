/* src/llm/block/matmul_inside.h - products with block formats as their drivers see them */
#ifndef TINYI_BLOCK_MATMUL_INSIDE_H
#define TINYI_BLOCK_MATMUL_INSIDE_H
#include "llm/block/block_inside.h"
#include "llm/block/eight.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

/* rows of x from which floats in panels are faster than integers, where there are such panels; VECTORS takes no more at
 * once */
#define TINYI_BLK_MANY 32
#define TINYI_BLK_GROUP 8                   /* rows of x from which INTEGERS are, where there is `panel`, */
#define TINYI_BLK_BOTH 2                    /* or where a lane is a row of w, at least */
#define TINYI_BLK_HIGH 256 /* most rows of w in a panel: columns come from the third level once for all of them */
#define TINYI_BLK_DEEP 256 /* most numbers of a row in a panel: 32 rows and as many columns fit the first level */

typedef struct tinyi_blk_plan {              /* of one product */
    const tllm_format *f;
    int blk;                                /* TINYI_BLK_..., or -1 */
    int eight;                              /* TINYI_EIGHT_... of a repacked w, or -1 */
    const float *x, *bias;
    const unsigned char *w;
    float *y;
    tiny_idx n, k, n_out, x_row, x_k, w_row, y_row, y_n, bias_step;
    /* of 256 in a row; bytes of 256 numbers of w; rows of x that are packed at once */
    tiny_idx blocks, part, tokens;
    int apart;                              /* no row of y may depend on the others: params.alone */
    /* shared workspace: bytes of dense rows of x, of their codes, of their flags, of columns */
    size_t dense, codes, flags, columns;
    /* own: codes or halves of x, an expanded row, rows as floats, a panel, its sums */
    size_t own_x, own_codes, own_row, own_panel, own_sums;
} tinyi_blk_plan;

#define TINYI_BLK_TOGETHER 3
/* Products of one x: its rows are quantized once, and rows of all matrices are shared out as if they were one. What
 * p[0] says of x and of workspace holds for all. */
typedef struct tinyi_blk_set { int n; tinyi_blk_plan p[TINYI_BLK_TOGETHER]; } tinyi_blk_set;

TINYI_INLINE size_t tinyi_blk_up(size_t n) { return (n + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1); }

/* Rows of w are handed out by units of 2^unit rows; how many there are of all matrices. */
TINYI_INLINE tiny_idx tinyi_blk_units(const tinyi_blk_plan *p, int unit)
{
    return (p->n_out + ((tiny_idx)1 << unit) - 1) >> unit;
}
TINYI_INLINE tiny_idx tinyi_blk_units_all(const tinyi_blk_set *set, int unit)
{
    tiny_idx n = 0;
    int i;
    for (i = 0; i < set->n; i++) n += tinyi_blk_units(&set->p[i], unit);
    return n;
}
/* The matrix that unit *t belongs to, and its units *q0 .. *q1, as many as lie before `end`; *t goes on after them. */
TINYI_INLINE const tinyi_blk_plan *tinyi_blk_next(const tinyi_blk_set *set, int unit, tiny_idx *t, tiny_idx end,
                                                  tiny_idx *q0, tiny_idx *q1)
{
    const tinyi_blk_plan *p = set->p;
    tiny_idx before = 0, n;
    for (; (n = tinyi_blk_units(p, unit)) <= *t - before; p++) before += n;
    *q0 = *t - before;
    *q1 = TINYI_MIN(end - before, n);
    *t = before + *q1;
    return p;
}

/* k: a multiple of 256. No division by what is known at run time only: this is called for each 256 numbers. */
TINYI_INLINE const unsigned char *tinyi_blk_at(const tinyi_blk_plan *p, tiny_idx row, tiny_idx k)
{
    return p->w + row * p->w_row + k / 256 * p->part;
}
/* Repacked rows as they lay: blocks of row r from number k on, n numbers, in scratch. That is the second half of what a
 * thread has for rows as floats, of which repacked matrices use the first one only. */
TINYI_INLINE unsigned char *tinyi_blk_scratch(const tinyi_blk_plan *p, unsigned char *own)
{
    return own + p->own_x / 2 / TINYI_ALIGN * TINYI_ALIGN;
}
TINYI_INLINE const unsigned char *tinyi_blk_lies(const tinyi_blk_plan *p, tiny_idx row, tiny_idx k, tiny_idx n,
                                                 unsigned char *scratch)
{
    if (p->eight < 0 || row >= p->n_out / 8 * 8) return tinyi_blk_at(p, row, k);
    tinyi_eight_row(p->f->id, p->w, p->w_row, p->n_out, row, k / p->f->values, n / p->f->values, scratch);
    return scratch;
}
/* Where a thread has a table of a code book: in the second half of its panel. INTEGERS with `lanes` use less than the
 * first half, and tiles of halves just that. */
TINYI_INLINE unsigned char *tinyi_blk_book(const tinyi_blk_plan *p, unsigned char *panel)
{
    return panel + p->own_panel / 2 / TINYI_ALIGN * TINYI_ALIGN;
}
TINYI_INLINE void tinyi_blk_bias(const tinyi_blk_plan *p, tiny_idx i, tiny_idx r0, tiny_idx r1)
{
    float *y = p->y + i * p->y_row;
    tiny_idx r;
    if (!p->bias) return;
    for (r = r0; r < r1; r++) y[r * p->y_n] += p->bias[r * p->bias_step];
}

/* FLOATS: rows r0..r1 of w times rows i0..i1 of x, or those whose flag is 0 */
TINYI_FN void tinyi_blk_as_floats(tiny_team *team, const tinyi_blk_plan *p, float *tile, const unsigned char *flags,
                                  tiny_idx i0, tiny_idx i1, tiny_idx r0, tiny_idx r1);
/* how many rows of x go as INTEGERS or PANELS */
TINYI_FN tiny_idx tinyi_blk_in_panels(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn);
/* these rows: their products */
TINYI_FN void tinyi_blk_many(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                             unsigned char *shared, unsigned char *own, tiny_idx in_panels);
/* may products with p and q, of which as many rows of x go so, share what x becomes? */
TINYI_FN int tinyi_blk_many_alike(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_plan *q,
                                  const tinyi_blk_kernels *kn);

TINYI_C_END
#endif
