/* src/llm/round/columns_inside.h - inside GPTQ: weights are coded column by column, and each error is propagated to the
 * later columns
 *
 * The metric is H, symmetric and positive definite; U is upper triangular with H^-1 = U^T U. The caller gives two
 * functions: code() codes one column, and begin() sees the columns of a group before the first of them is coded. GPTQ
 * fits its scales in begin(); in VPTQ a vector is several rows of one column. */
#ifndef TINYI_COLUMNS_H
#define TINYI_COLUMNS_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tinyi_columns {
    /* (rows, n) dense, columns in the order of coding; becomes the errors e = (w - q) / U_ii */
    float *w;
    const float *u;                         /* (n, n) dense */
    tiny_idx rows, n;
    tiny_idx block;                         /* columns whose errors are propagated together, at least 1 */
    tiny_idx group;                         /* columns of a group; 0: none */
    tiny_idx unit;                          /* row counts are multiples of it, except the last; at most 64 */
    /* Columns i .. i + n - 1 of some rows, when column i is next: row r of column c at t[c * column + r * row]. NULL:
     * not called. */
    void (*begin)(void *user, tiny_idx i, tiny_idx n, tiny_idx row0, tiny_idx rows, const float *t, tiny_idx column,
                  tiny_idx row);
    /* Sets q[r], the coded value of x[r], for row row0 + r of column i. Many threads call both, for different rows. */
    void (*code)(void *user, tiny_idx i, tiny_idx row0, tiny_idx rows, const float *x, float *q);
    void *user;
} tinyi_columns;

/* *loss: sum of e^2, which is tr(D H D^T) for D = w - q; may be NULL. */
TINYI_FN tiny_status tinyi_columns_run(tiny_ctx *ctx, const tinyi_columns *c, double *loss);

typedef struct tinyi_factor {
    double mean;                            /* of the diagonal, dead inputs left out: u is that of H / mean */
    double damp;                            /* what was added to the diagonal, as a share of its mean */
    int doubled;                            /* how often it was not enough; 10 times: U is the identity */
    int identity;
    tiny_idx dead;                          /* inputs whose diagonal was 0 */
} tinyi_factor;
/* h (n, n) f32 or f64, any strides, only i <= j is read; order (n): which input is coded when, NULL: as they come. u
 * (n, n). */
TINYI_FN tiny_status tinyi_factor_of(tiny_ctx *ctx, const tiny_tensor *h, const uint32_t *order, double damp, float *u,
                                     tinyi_factor *about);
/* the diagonal over its mean as floats, checked: finite, none below 0; what is above 0 stays so */
TINYI_FN tiny_status tinyi_factor_diagonal(tiny_ctx *ctx, const tiny_tensor *h, tiny_idx n, float *diagonal);

TINYI_C_END
#endif
