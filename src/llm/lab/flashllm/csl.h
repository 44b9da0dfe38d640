/* src/llm/lab/flashllm/csl.h - sparse matrices as tiles of compressed lists (Tiled-CSL, the format of Flash-LLM)
 *
 *   tllm_csl a;
 *   tllm_csl_build(ctx, &w, &desc, &a);                    w (n_out, k): f32, f16 or bf16; zeros are dropped
 *   tllm_flash_matmul(ctx, &x, &a, &y);                    llm/lab/flashllm/flashllm.h
 *   tllm_csl_save(ctx, &a, "down.csl");                    and tllm_csl_load
 *   tllm_csl_free(ctx, &a);
 *
 * Each number that is not 0 is stored as an item of 32 bits. The low half is its value, f16 or bf16; the high half is
 * its position in the tile, row * 64 + column.
 * Tiles are stored row by row. Each is padded to a multiple of 4 items, with items of value 0 at positions where the
 * matrix is 0. The items of tile t are those from 4 offset[t] to 4 offset[t + 1] - 1. The last offset is repeated: an
 * empty tile, for prefetching.
 *
 *   ORDERED    the default: tiles of 64 x 64, items by position
 *   WOVEN      the same tiles in another order, for faster products. First come groups of four items of one row: the
 *              first group of each row, the second group of each row, and so on. Then come the remaining items: the
 *              first of each row, the second, the third. The number of groups is in the highest 4 bits of the first
 *              three items, lowest bits first.
 *   PUBLISHED  the authors' format: tiles of 128 x 64, the column stored as column ^ (row % 8) * 8, items in the order
 *              in which 32 lanes take four each without bank conflicts in 32 banks. For storage and exchange; products
 *              do not support it.
 *
 * Memory: 4 bytes for each number that is not 0, and 4 for each tile. That is less than a dense f16 matrix if more than
 * half of the numbers are 0, and 5 times less at 90 % zeros. */
#ifndef TINYI_CSL_H
#define TINYI_CSL_H
#include "core/ctx.h"
#include "core/tensor.h"
TINYI_C_BEGIN

#define TLLM_CSL_WIDE 64                    /* columns of a tile, and rows of an ordered one */

typedef enum tllm_csl_profile {
    TLLM_CSL_ORDERED,
    TLLM_CSL_PUBLISHED,
    TLLM_CSL_WOVEN,
    TLLM_CSL_PROFILES
} tllm_csl_profile;

typedef struct tllm_csl_desc {              /* all zero: ordered, f16, a value beyond 65504 is an error */
    int profile;
    int bf16;                               /* nonzero: values are bf16 */
    int clamp;                              /* nonzero: finite values that are too large become the largest value */
} tllm_csl_desc;

typedef struct tllm_csl {
    int profile, bf16;
    tiny_idx n_out, k;                      /* of the matrix */
    tiny_idx down, across;                  /* tiles */
    uint64_t n_nonzero;
    size_t n_item;                          /* with padding */
    const uint32_t *item;
    const int32_t *offset;                  /* (down * across + 2) */
    void *block;                            /* memory of the context; NULL: the caller owns item and offset */
} tllm_csl;

/* w (n_out, k): any strides. -0 and values that round to 0 in 16 bits count as 0; NaN and infinities are kept. Free out
 * with tllm_csl_free. After a failure it is all zero. */
TINY_API tiny_status tllm_csl_build(tiny_ctx *ctx, const tiny_tensor *w, const tllm_csl_desc *desc, tllm_csl *out);
/* the size of the result of tllm_csl_build: items with padding, and bytes as in tllm_csl_bytes */
TINY_API tiny_status tllm_csl_size(tiny_ctx *ctx, const tiny_tensor *w, const tllm_csl_desc *desc, size_t *n_item,
                                   size_t *bytes);
TINY_API size_t tllm_csl_bytes(const tllm_csl *a);          /* of items and offsets; SIZE_MAX: invalid sizes */
TINY_API tiny_status tllm_csl_decode(tiny_ctx *ctx, const tllm_csl *a, const tiny_tensor *y);  /* y (n_out, k) f32 */
TINY_API tiny_status tllm_csl_convert(tiny_ctx *ctx, const tllm_csl *a, int profile, tllm_csl *out);
TINY_API void tllm_csl_free(tiny_ctx *ctx, tllm_csl *a);    /* a may be NULL, or zero after a failure */
/* Checks sizes and offsets, and that every position is inside the matrix and occurs once. The other calls do this
 * themselves. Products do not, but they never read or write out of bounds, whatever the positions are. */
TINY_API tiny_status tllm_csl_check(tiny_ctx *ctx, const tllm_csl *a);

/* The same as bytes, little-endian:
 *   a box "csl 2" (core/box/checkpoint.h reads it too) whose body is u32 flags (1: published, 2: bf16, 4: woven), u64
 *   n_out, k, n_nonzero, n_item, then the offsets and the items. The older form is read too: "TINYCSL\0", u32 version
 *   1, the same, and a CRC-32 of everything before it. */
TINY_API tiny_status tllm_csl_pack(tiny_ctx *ctx, const tllm_csl *a, void **bytes, size_t *n);    /* tiny_free *bytes */
TINY_API tiny_status tllm_csl_open(tiny_ctx *ctx, const void *bytes, size_t n, tllm_csl *out);     /* copies */
TINY_API tiny_status tllm_csl_save(tiny_ctx *ctx, const tllm_csl *a, const char *path);
TINY_API tiny_status tllm_csl_load(tiny_ctx *ctx, const char *path, tllm_csl *out);

TINYI_C_END
#endif
