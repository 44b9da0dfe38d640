/* src/llm/block/sparse.h - products with some rows of a matrix, and a feed-forward network that uses them
 *
 *   y (n, d) = sum over i in list of x[., i] w[i, .]
 *
 * w has k rows of d numbers, x the weight of each row. Rows that are not in the list are not read. After a squared
 * ReLU, the input h of y = W_down h is mostly zero, and only the rows of active neurons have to be read. This needs
 * W_down stored neuron by neuron, one row for each. Files store it transposed; tllm_turn_rows makes the copy.
 *
 *   tllm_relu2_ffn_desc f = { 0 };
 *   f.d = 2048; f.n_ff = 8192; f.up = w_up; f.down = turned; f.format_up = f.format_down = TLLM_FORMAT_F16;
 *   tllm_relu2_ffn(ctx, &f, x, 1, work, y, &stats);          y = down(relu(up x)^2) */
#ifndef TINYI_SPARSE_ROWS_H
#define TINYI_SPARSE_ROWS_H
#include "core/op.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

typedef struct tllm_mix_params {
    int format;                             /* tllm_format id of w if it is bytes; ignored for f32, f16, bf16 */
    /* nonzero: the reference sums absolute values instead, for its error bound */
    int magnitude;
} tllm_mix_params;

/* x (n, k) f32; w (k, d) f32, f16, bf16, or u8 (k, bytes of a row), each row contiguous; list (m) i32, any rows in any
 * order, NULL: all rows; y (n, d) f32. */
TINY_API tiny_status tllm_mix_rows(tiny_ctx *ctx, const tiny_tensor *x, int format, const tiny_tensor *w,
                                   const tiny_tensor *list, const tiny_tensor *y);
/* the row of the operation: for conformance tests, recorders and accelerators */
TINY_API const tiny_op_row *tllm_mix_rows_row(void);

/* Writes the indices of the columns of h (n, k) that have a number other than 0 (NaN counts) to list, ascending. list
 * must have room for k. Returns their number. */
TINY_API tiny_idx tllm_active_list(const float *h, tiny_idx n, tiny_idx k, int32_t *list);

/* Transposes w (n_out rows of n_in numbers in a format) into n_in contiguous rows of n_out numbers in the format `to`.
 * Packs without importance. */
TINY_API tiny_status tllm_turn_rows(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx n_in, int to,
                                    void *turned);
/* Checks a copy that was made elsewhere: are the rows of turned the columns of w? Compares one product computed both
 * ways, within the rounding of the formats. */
TINY_API tiny_status tllm_turned_check(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx n_in, int to,
                                       const void *turned);

typedef struct tllm_relu2_ffn_desc {
    tiny_idx d, n_ff, d_out;                /* d_out 0: d */
    const void *up, *down;                  /* n_ff rows of d numbers; n_ff rows of d_out numbers, neuron by neuron */
    int format_up, format_down;
    float most;                             /* largest share of active neurons for which the list is used; 0: 0.5 */
} tllm_relu2_ffn_desc;
typedef struct tllm_relu2_stats {
    tiny_idx n_active;                      /* neurons active for some row of x */
    int sparse;                             /* nonzero: only their rows of down were read */
} tllm_relu2_stats;
TINY_API size_t tllm_relu2_ffn_work(const tllm_relu2_ffn_desc *desc, tiny_idx n);      /* bytes of work; 0: overflow */
/* x (n, d), y (n, d_out), dense f32; work: 64-byte aligned; stats may be NULL */
TINY_API tiny_status tllm_relu2_ffn(tiny_ctx *ctx, const tllm_relu2_ffn_desc *desc, const float *x, tiny_idx n,
                                    void *work, float *y, tllm_relu2_stats *stats);

TINYI_C_END
#endif
