/* src/gnn/quant/nibble_inside.h - the loops over codes, as packed.c calls them and each target has them */
#ifndef TINYI_GNN_NIBBLE_H
#define TINYI_GNN_NIBBLE_H
#include "gnn/quant/a2q.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

enum { TINYI_NIBBLE_NAN = 1, TINYI_NIBBLE_BELOW = 2 };

/* Codes as tinyi_a2q_code gives them. A group is 16 numbers, 8 bytes: byte i has number i in its lower half and number
 *   8 + i in the upper.
 *   codes    code[j] = lift + sign(x[j]) code of |x[j]|; returns whether x has a NaN, or a number below 0
 *   columns  the same for x[j] factor with steps of their own, four bits and lift 7; returns whether x has a NaN
 *   sums     sum[j] over the rows col[0] .. of `groups` groups of a table whose rows are row_bytes apart; codes are 0
 *            .. 14
 *   finish   y[j] = (sum[j] - less) step[j] factor, + bias[j] where there is one */
typedef struct tinyi_nibble_kernels {
    tiny_target from;
    int (*codes)(uint8_t *code, const float *x, size_t n, float step, float limit, int lift);
    int (*columns)(uint8_t *code, const float *x, const float *step, size_t n, float factor);
    void (*sums)(int32_t *sum, const unsigned char *table, size_t row_bytes, const int32_t *col, int64_t edges,
                 size_t groups);
    void (*finish)(float *y, const int32_t *sum, int32_t less, const float *step, const float *bias, size_t n,
                   float factor);
} tinyi_nibble_kernels;
TINYI_TABLES(tinyi_nibble_kernels, tinyi_nibble_kernels)

TINYI_C_END
#endif
