/* src/gnn/quant/a2q.h - quantization of graph features with a learnt step and number of bits for each node
 *
 * A row (a node) has a step a > 0 and a real number b for its bits:
 *     Q = 2^(b - 1) - 1, b rounded;  z = min(|x| / a, Q);  q = sign(x) floor(z + 1/2);  xq = a q
 * One bit gives Q = 0: the row is zeros. If no number is negative, the sign is not stored: such a row takes b - 1 bits.
 * |a| and |b| are used: |a| is raised to at least 1e-8, |b| is limited to 1 .. 8.
 *
 * The operation tgnn_a2q_row has a gradient. For x it is the straight-through estimate: dL/dxq where |x| <= a Q, else
 * 0. For a and b it is the local gradient of the paper. It does not depend on dL/dxq: it is the gradient of the node's
 * own error E = mean_f |xq - x|,
 *     dE/da = mean_f sgn(xq - x) (in range: q - x / a; clipped: Q sgn(x))
 *     dE/db = mean_f sgn(xq - x) (in range: 0;         clipped: sgn(x) 2^(b - 1) ln 2 a)
 * With task, dL/dxq replaces sgn(xq - x) / f: for weights, and for classes of graphs. */
#ifndef TINYI_GNN_A2Q_H
#define TINYI_GNN_A2Q_H
#include "core/op.h"
TINYI_C_BEGIN

#define TGNN_A2Q_BITS 8                     /* at most */
#define TGNN_A2Q_STEP 1e-8f                 /* at least */

typedef struct tgnn_a2q_params {
    int by_column;                          /* a step for each column of x instead of each row */
    int bits;                               /* for all rows, if there is no tensor of bits */
    int task;                               /* steps and bits learn from the loss, not from their own error */
} tgnn_a2q_params;

/* in: x (n, f); step (n), by column (f), with an index (any number of groups); bits of each step, or NULL; index (n)
 * i32, the group of each row, or NULL. Out: xq (n, f). Everything but index is f32. */
TINY_API const tiny_op_row *tgnn_a2q_row(void);
/* in: the same, and dL/dxq. Out: dL/dx, and the gradients of each step and its bits, summed over the numbers that it
 * scales. */
TINY_API const tiny_op_row *tgnn_a2q_back_row(void);
TINY_API tiny_status tgnn_a2q(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *step, const tiny_tensor *bits,
                              const tiny_tensor *index, const tgnn_a2q_params *params, const tiny_tensor *xq);

/* round(|b|), from 1 to 8; and 2^(b - 1) - 1 */
TINY_API int tgnn_a2q_round(float bits);
TINY_API int tgnn_a2q_limit(int bits);
/* Fails if a step is 0 or not finite, or if bits are not finite or outside of 1 .. 8. The sentence names the first
 * fault and begins with the text `what`, e.g. "conv1". */
TINY_API tiny_status tgnn_a2q_check(tiny_ctx *ctx, const char *what, const float *step, const float *bits, tiny_idx n);
/* The size of n rows of f numbers in kilobytes, by the paper's measure sum f |b| / 8192; with positive one bit less for
 * each number. For integer bits it is exactly the size in tgnn_packed_make. */
TINY_API double tgnn_a2q_kilobytes(const float *bits, tiny_idx n, tiny_idx f, int positive);

/* ---- groups: for graphs that were not used in training (the paper's Nearest Neighbour Strategy)
 *
 * A row takes the group k whose largest number a_k (2^(b_k - 1) - 1) is nearest to the largest |x| of the row; of equal
 * distances the lowest k. published: uses a_k 2^(b_k - 1), as the authors' program does. */
typedef struct tgnn_nearest {
    tiny_idx n, m;                          /* groups, and different limits among them */
    float *limit;                           /* ascending */
    int32_t *group;                         /* the lowest group with that limit */
} tgnn_nearest;
TINY_API tiny_status tgnn_nearest_make(tiny_ctx *ctx, const float *step, const float *bits, tiny_idx n, int published,
                                       tgnn_nearest *out);
TINY_API void tgnn_nearest_free(tiny_ctx *ctx, tgnn_nearest *nearest);     /* takes one that failed to be made */
TINY_API int32_t tgnn_nearest_find(const tgnn_nearest *nearest, float largest);
/* x (n, f) f32: the group of each row */
TINY_API tiny_status tgnn_nearest_assign(tiny_ctx *ctx, const tgnn_nearest *nearest, const tiny_tensor *x,
                                         int32_t *group);

/* ---- inside: what the bodies share ---- */

/* For other files. */
TINY_REF_BEGIN
TINYI_INLINE float tinyi_a2q_step(float s)
{
    const float a = s < 0.0f ? -s : s;
    return a > TGNN_A2Q_STEP ? a : TGNN_A2Q_STEP;
}
/* the code of x without its sign; x is no NaN */
TINYI_INLINE int tinyi_a2q_code(float x, float step, float limit)
{
    const float z = (x < 0.0f ? -x : x) / step;
    return (int)((z < limit ? z : limit) + 0.5f);
}
TINY_REF_END
/* Fills the arrays of a tgnn_nearest that has room for n. */
TINYI_FN void tinyi_nearest_fill(tgnn_nearest *to, const float *step, const float *bits, tiny_idx n, int published,
                                 uint64_t *room);

TINYI_C_END
#endif
