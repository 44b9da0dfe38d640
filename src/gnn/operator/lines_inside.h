/* src/gnn/operator/lines_inside.h - the kernel of lines that math/conv.h does not have */
#ifndef TINYI_GNN_LINES_H
#define TINYI_GNN_LINES_H
#include "gnn/operator/lines.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

/* dots: sum[t] += sum over i < rows, j < n of y[i ys + j] x[off[t] + i pitch + j] */
typedef struct tinyi_lines_kernels {
    tiny_target from;
    void (*dots)(double *sum, const float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch, const int32_t *off,
                 size_t taps, size_t rows, size_t n);
} tinyi_lines_kernels;
TINYI_TABLES(tinyi_lines_kernels, tinyi_lines_kernels)

TINYI_C_END
#endif
