/* src/gnn/quant/packed.h - packed rows of features, each with its own number of bits; integer products and sums
 *
 * Rows with the same number of bits are stored together, as one stream of numbers (gnn/quant/bits.h) that begins at a
 * whole byte. A number q (gnn/quant/a2q.h) is stored as q + Q in b bits. If no feature is negative, it is stored as q
 * in b - 1 bits, so a row of one bit takes no space. */
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
    size_t at[TGNN_A2Q_BITS + 2];           /* where the stream of each number of bits begins in data */
    unsigned char *data;
    size_t n_bytes;
    uint64_t n_bits;                        /* of the numbers; n_bytes also counts the padding to whole bytes */
} tgnn_packed;

/* x (n, f) f32. step, bits: m each. group (n): the index of each row into them; NULL: row i has index i. A NaN is an
 * error; with positive, so is a negative number. */
TINY_API tiny_status tgnn_packed_make(tiny_ctx *ctx, const tiny_tensor *x, const float *step, const float *bits,
                                      tiny_idx m, const int32_t *group, int positive, tgnn_packed *out);
TINY_API void tgnn_packed_free(tiny_ctx *ctx, tgnn_packed *packed);    /* takes one that failed to be made */
/* y (n, f) f32, dense: the result of tgnn_a2q, except for the sign of 0 */
TINY_API tiny_status tgnn_packed_get(tiny_ctx *ctx, const tgnn_packed *packed, const tiny_tensor *y);
/* y[i][j] = step[i] scale[j] sum_k q[i][k] w[j][k]: w (n_out, f) i8, scale (n_out) f32, above 0, y (n, n_out) f32; both
 * dense. The integer sum is exact for w of -7 .. 7, and for any other w up to 2^17 features. A sum above 2^24 is
 * rounded to a float. */
TINY_API tiny_status tgnn_packed_product(tiny_ctx *ctx, const tgnn_packed *packed, const tiny_tensor *w,
                                         const tiny_tensor *scale, const tiny_tensor *y);

/* ---- rows of integers -7 .. 7 that are summed along edges. They are stored + 7, 16 in a group of 8 bytes: byte i has
 * number i in its lower half and number 8 + i in its upper half. Masking a vector of bytes with 15 gives eight
 * consecutive numbers, and up to 18 of them can be added in bytes. */
typedef struct tgnn_nibbles { tiny_idx n, f, groups; unsigned char *data; } tgnn_nibbles;
TINY_API tiny_status tgnn_nibbles_make(tiny_ctx *ctx, tiny_idx n, tiny_idx f, tgnn_nibbles *out);  /* all zero */
TINY_API void tgnn_nibbles_free(tiny_ctx *ctx, tgnn_nibbles *nibbles);
TINY_API void tgnn_nibbles_put(const tgnn_nibbles *t, tiny_idx row, const int8_t *q);
TINY_API void tgnn_nibbles_get(const tgnn_nibbles *t, tiny_idx row, int8_t *q);
/* Quantizes z (n, f) f32, dense, each row times factor (n, or NULL), with steps by column and 4 bits, rounded like
 * tgnn_a2q. */
TINY_API tiny_status tgnn_nibbles_quantize(tiny_ctx *ctx, const tiny_tensor *z, const float *factor, const float *step,
                                           const tgnn_nibbles *t);
/* y[r][j] = factor[r] step[j] (sum over the edges p of row r of q[col[p]][j] + own q[r][j]) + bias[j]. a is in CSR
 * form; its values are ignored. factor (rows) and bias (f) may be NULL. y (rows of a, f) f32, dense. The sum is exact
 * below 2^24. */
TINY_API tiny_status tgnn_nibbles_sum(tiny_ctx *ctx, const tiny_sparse *a, const tgnn_nibbles *t, float own,
                                      const float *factor, const float *step, const float *bias, const tiny_tensor *y);

TINYI_C_END
#endif
