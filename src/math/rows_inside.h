/* src/math/rows_inside.h - the rows of a tensor (its last axis), one after the other in row-major order */
#ifndef TINYI_ROWS_H
#define TINYI_ROWS_H
#include "core/op.h"
#include "core/half_inside.h"
TINYI_C_BEGIN

/* The references round once, and their NaN has the same bits everywhere. */
TINY_REF_BEGIN
TINYI_INLINE float tinyi_round_f32(double x) { return x != x ? tinyi_bits_f32(0x7fc00000u) : (float)x; }

/* Element number at of f32 or f64 data: the references of rows with TINY_OP_F64 read and write so. */
TINYI_INLINE double tinyi_real(const void *data, tiny_dtype type, tiny_idx at)
{
    return type == TINY_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}
TINYI_INLINE void tinyi_real_set(void *data, tiny_dtype type, tiny_idx at, double x)
{
    if (type == TINY_F64) ((double *)data)[at] = x;
    else ((float *)data)[at] = tinyi_round_f32(x);
}
TINY_REF_END

/* f32 or f64 */
TINYI_INLINE int tinyi_is_real(const tiny_tensor *t) { return t->dtype == TINY_F32 || t->dtype == TINY_F64; }

TINYI_INLINE tiny_idx tinyi_row_length(const tiny_tensor *t) { return t->rank ? t->dim[t->rank - 1] : 1; }
TINYI_INLINE tiny_idx tinyi_row_step(const tiny_tensor *t)
{
    return t->rank && t->dim[t->rank - 1] > 1 ? t->stride[t->rank - 1] : 1;
}

TINYI_INLINE tiny_idx tinyi_row_count(const tiny_tensor *t)
{
    tiny_idx n = 1;
    int i;
    for (i = 0; i + 1 < t->rank; i++) n *= t->dim[i];
    return n;
}

/* First element of a row, counted from data. */
TINYI_INLINE tiny_idx tinyi_row_at(const tiny_tensor *t, tiny_idx row)
{
    tiny_idx at = 0;
    int i;
    for (i = t->rank - 2; i > 0; i--) {
        at += row % t->dim[i] * t->stride[i];
        row /= t->dim[i];
    }
    if (i == 0) at += row * t->stride[0];
    return at;
}

TINYI_INLINE float *tinyi_row_f32(const tiny_tensor *t, tiny_idx row)
{
    return (float *)t->data + tinyi_row_at(t, row);
}

/* Every step-th value into a dense row, and back. */
TINYI_INLINE void tinyi_row_gather(float *dense, const float *x, tiny_idx n, tiny_idx step)
{
    tiny_idx i;
    for (i = 0; i < n; i++) dense[i] = x[i * step];
}
TINYI_INLINE void tinyi_row_scatter(float *y, const float *dense, tiny_idx n, tiny_idx step)
{
    tiny_idx i;
    for (i = 0; i < n; i++) y[i * step] = dense[i];
}

TINYI_C_END
#endif
