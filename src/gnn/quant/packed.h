/* src/gnn/quant/packed.h - rows of features in as many bits as each row has, and products and sums of whole numbers
 *
 * Rows of the same bits lie side by side, as one stream of numbers (gnn/quant/bits.h); streams begin at whole bytes. A
 * number is stored as q + Q in b bits, where no feature is below 0 as q in b - 1 bits: such a row of one bit takes
 * nothing. */
#ifndef TINYI_GNN_PACKED_H
#define TINYI_GNN_PACKED_H
#include "gnn/quant/a2q.h"
#include "math/sparse.h"
TINYI_C_BEGIN

typedef struct tgnn_packed {
    tiny_idx n, f;
    int positive;
    uint8_t *bits;                          /* b of each row */
    float *step;                            /* of each row */
    uint32_t *order;                        /* rows by their bits; order[first[b]] .. order[first[b + 1] - 1] have b */
    tiny_idx first[TGNN_A2Q_BITS + 2];
    size_t at[TGNN_A2Q_BITS + 2];           /* where the stream of each begins */
    unsigned char *data;
    size_t n_bytes;
    uint64_t n_bits;                        /* of the numbers: what is more in n_bytes fills up bytes */
} tgnn_packed;

/* x (n, f) f32. step, bits: m each; group (n): the one of each row, NULL: row i has number i. A NaN is refused, and
 * with positive a number below 0. */
TINY_API tiny_status tgnn_packed_make(tiny_ctx *ctx, const tiny_tensor *x, const float *step, const float *bits,
                                      tiny_idx m, const int32_t *group, int positive, tgnn_packed *out);
TINY_API void tgnn_packed_free(tiny_ctx *ctx, tgnn_packed *packed);    /* takes one that could not be made */
/* y (n, f) f32, dense: what tgnn_a2q gives, but for the sign of 0 */
TINY_API tiny_status tgnn_packed_get(tiny_ctx *ctx, const tgnn_packed *packed, const tiny_tensor *y);
/* y[i][j] = step[i] scale[j] sum_k q[i][k] w[j][k]: w (n_out, f) i8, scale (n_out) f32, above 0, y (n, n_out) f32; both
 * dense. The sum is exact for w of -7 .. 7, for any other w up to 2^17 features; above 2^24 it is rounded to a
 * float. */
TINY_API tiny_status tgnn_packed_product(tiny_ctx *ctx, const tgnn_packed *packed, const tiny_tensor *w,
                                         const tiny_tensor *scale, const tiny_tensor *y);

/* ---- rows of whole numbers -7 .. 7, stored + 7, 16 in a group of 8 bytes, that are summed along edges: byte i has
 * number i in its lower half and number 8 + i in the upper, so that a vector of bytes and 15 in each are numbers side
 * by side, and 18 of them add up in bytes. */
typedef struct tgnn_nibbles { tiny_idx n, f, groups; unsigned char *data; } tgnn_nibbles;
TINY_API tiny_status tgnn_nibbles_make(tiny_ctx *ctx, tiny_idx n, tiny_idx f, tgnn_nibbles *out);  /* all are 0 */
TINY_API void tgnn_nibbles_free(tiny_ctx *ctx, tgnn_nibbles *nibbles);
TINY_API void tgnn_nibbles_put(const tgnn_nibbles *t, tiny_idx row, const int8_t *q);
TINY_API void tgnn_nibbles_get(const tgnn_nibbles *t, tiny_idx row, int8_t *q);
/* The codes of z (n, f) f32, dense, each row times factor (n, or NULL): steps by column, 4 bits, as tgnn_a2q rounds
 * them. */
TINY_API tiny_status tgnn_nibbles_quantize(tiny_ctx *ctx, const tiny_tensor *z, const float *factor, const float *step,
                                           const tgnn_nibbles *t);
/* y[r][j] = factor[r] step[j] (sum over the edges p of row r of q[col[p]][j] + own q[r][j]) + bias[j]: a in CSR form,
 * its values are not looked at; factor (rows), bias (f): or NULL. y (a's rows, f) f32, dense. Exact below 2^24. */
TINY_API tiny_status tgnn_nibbles_sum(tiny_ctx *ctx, const tiny_sparse *a, const tgnn_nibbles *t, float own,
                                      const float *factor, const float *step, const float *bias, const tiny_tensor *y);

TINYI_C_END
#endif
