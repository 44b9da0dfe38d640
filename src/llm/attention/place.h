/* src/llm/attention/place.h - operations between the projections of a layer and its attention: rotary positions, and
 * writing keys and values into pages
 *
 *   turn_pairs   rotary positions: y = x with pairs of numbers of each head rotated by the angles of the row
 *                x, y (n, n_head, d) f32; c, s (n, n_pair) f32, cosines and sines, 2 n_pair <= d; the numbers after
 *                the pairs are unchanged
 *   put_rows     writes keys and values of new tokens into pages: out = pages with some rows replaced
 *                pages, out (n_block, n_part, block, x), as paged attention reads them: F32 or F16 numbers, or blocks
 *                of Q8_0 or Q4_0 (u8)
 *                x (n, n_part * numbers of a row of a part) f32; place (n, 2) i32: page, and row in that page, of each
 *                token; if two have the same place, the later one is kept
 *
 * In both, the output may be the input. A model runs them as operations if an accelerator, a recorder or the reference
 * must see every operation. */
#ifndef TINYI_PLACE_H
#define TINYI_PLACE_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tllm_turn_params { int halves; } tllm_turn_params;      /* 0: (2j, 2j + 1); else (j, j + n_pair) */
typedef struct tllm_put_params { int format; } tllm_put_params;        /* of pages of bytes, TLLM_FORMAT_... */

TINY_API tiny_status tllm_turn_pairs(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *c, const tiny_tensor *s,
                                     const tllm_turn_params *params, const tiny_tensor *y);
TINY_API tiny_status tllm_put_rows(tiny_ctx *ctx, const tiny_tensor *pages, const tiny_tensor *x,
                                   const tiny_tensor *place, const tllm_put_params *params, const tiny_tensor *out);
TINY_API const tiny_op_row *tllm_turn_pairs_row(void);
TINY_API const tiny_op_row *tllm_put_rows_row(void);

TINYI_C_END
#endif
