/* src/math/gemm_inside.h - inside the products: one product as its drivers see it */
#ifndef TINYI_GEMM_H
#define TINYI_GEMM_H
#include "math/table_inside.h"
#include "math/matmul.h"
TINYI_C_BEGIN

/* One factor: rows along the axis that it gives to y, each of k numbers. Steps in elements. */
typedef struct tinyi_gemm_side {
    const unsigned char *data;
    int dtype;
    tiny_idx row, k, batch[2];
} tinyi_gemm_side;

/* y[i][j] = act(scale sum_k a[i][k] b[j][k] + bias): b is seen transposed, so that the factors may change places. */
typedef struct tinyi_gemm {
    tinyi_gemm_side a, b;
    unsigned char *y;                       /* f32; or i32 in the int8 product */
    tiny_idx y_m, y_n, y_batch[2];
    tiny_idx m, n, k, batch[2];
    const float *bias;                      /* or NULL; one of its two steps is 0 */
    tiny_idx bias_m, bias_n;
    const float *scale_m, *scale_n;         /* int8 only: of a row of a, of a row of b; or NULL */
    tiny_idx scale_m_step, scale_n_step;
    int act;
} tinyi_gemm;

typedef enum tinyi_gemm_form {
    TINYI_GEMM_NOTHING,                     /* y is empty */
    TINYI_GEMM_DOT,                         /* a few rows of a; b dense along k */
    TINYI_GEMM_AXPY,                        /* a few rows of a; b dense along its rows */
    TINYI_GEMM_SMALL,                       /* one thread does a whole product: rows of a as they lie */
    TINYI_GEMM_ROWS,                        /* b is narrow and packed once for all; rows of a as they lie */
    TINYI_GEMM_PANELS                       /* both packed */
} tinyi_gemm_form;

typedef struct tinyi_gemm_plan {
    tinyi_gemm g;
    tinyi_gemm_form form;
    int phases;                             /* PANELS: a is packed once for all, at most 16 MB at a time */
    int gather;                             /* DOT, AXPY: the rows of a are made dense f32 first */
    size_t shared_bytes, own_bytes;
} tinyi_gemm_plan;

#define TINYI_GEMM_SHARED ((tiny_idx)4 << 20)   /* most floats that are packed for all: 16 MB */
#define TINYI_GEMM_THIN 12                  /* rows up to which a product is matrix times vectors */
#define TINYI_GEMM_NARROW 96                /* rows of the narrow factor in ROWS */
#define TINYI_GEMM_FEW 64                   /* rows that are few for PANELS */
#define TINYI_GEMM_PART 20                  /* least panels of a in a part of a column */
#define TINYI_GEMM_MR_MAX 12                /* the largest values of any target */
#define TINYI_GEMM_NR_MAX 32
#define TINYI_GEMM_KC_MAX 512
#define TINYI_GEMM_NC_MAX 1024
#define TINYI_GEMM_BLOCK \
    ((tiny_idx)128 << 10) /* the largest kc nc of any target, also where rows are FEW: kc / 3 and 4 nc */

/* What the call says. bias and scales may be NULL. */
TINYI_FN void tinyi_gemm_of(tinyi_gemm *g, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *scale_a,
                            const tiny_tensor *scale_b, const tiny_tensor *bias, int act, const tiny_tensor *y);
/* The same product transposed. */
TINYI_FN void tinyi_gemm_swap(tinyi_gemm *g);
TINYI_FN tinyi_gemm tinyi_gemm_batch(const tinyi_gemm *g, tiny_idx i, tiny_idx y_bytes);

/* Depends on the product alone: the workspace fits any number of threads. */
TINYI_FN void tinyi_gemm_plan_f32(tinyi_gemm_plan *p, const tinyi_gemm *g);
TINYI_FN void tinyi_gemm_run_f32(tiny_team *team, const tinyi_gemm_plan *p);

/* Bias and activation for n numbers of row i of the result from column j on, which lie dense in row. */
TINYI_FN void tinyi_gemm_finish(const tinyi_kernels *k, const tinyi_gemm *g, float *row, tiny_idx i, tiny_idx j,
                                tiny_idx n);
/* rows x cols dense numbers, t_row apart, to y from row i and column j on. */
TINYI_FN void tinyi_gemm_put(const tinyi_kernels *k, const tinyi_gemm *g, const float *t, tiny_idx t_row, tiny_idx i,
                             tiny_idx j, tiny_idx rows, tiny_idx cols);
/* Numbers k0 .. k0 + n of a row as f32, dense. */
TINYI_FN void tinyi_gemm_row_f32(const tinyi_kernels *k, float *to, const tinyi_gemm_side *s, tiny_idx row, tiny_idx k0,
                                 tiny_idx n);

#if TINYI_BY_NAME
#define TINYI_GEMM_OF(k, name) TINYI_OF(k, gemm_f32_##name)
#else
#define TINYI_GEMM_OF(k, name) ((k)->gemm.name)
#endif

/* The height of the tile that takes this many rows. */
TINYI_INLINE tiny_idx tinyi_gemm_height(tiny_idx mr, tiny_idx rows)
{
    return mr == 12 ? (rows > 8 ? 12 : rows > 4 ? 8 : 4) : rows > 4 ? 6 : rows > 2 ? 4 : 2;
}

/* How many of `left` rows the next tile takes: 16 rows are two of 8, not 12 and 4. */
TINYI_INLINE tiny_idx tinyi_gemm_next(tiny_idx mr, tiny_idx left)
{
    return left > mr && left <= mr + mr / 3 ? (left + 1) / 2 : TINYI_MIN(left, mr);
}
TINYI_INLINE tiny_idx tinyi_gemm_up(tiny_idx x, tiny_idx unit) { return (x + unit - 1) / unit * unit; }
TINYI_INLINE const unsigned char *tinyi_gemm_at(const tinyi_gemm_side *s, tiny_idx row, tiny_idx k)
{
    return s->data + (row * s->row + k * s->k) * (tiny_idx)tiny_dtype_bytes((tiny_dtype)s->dtype);
}
TINYI_INLINE int tinyi_gemm_is_f32_rows(const tinyi_gemm_side *s) { return s->dtype == TINY_F32 && s->k == 1; }

TINYI_C_END
#endif
