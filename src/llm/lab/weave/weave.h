/* src/llm/lab/weave/weave.h - a data set stored by bits: stored once, read at any precision
 *
 *   tllm_weave data;
 *   tllm_weave_make(ctx, &x, &data);                         x (n, n_feature) f32
 *   tllm_weave_dot(ctx, &data, 0, n, 4, TLLM_WEAVE_AUTO, v, y);      products of all samples, reading 4 of 32 bits
 *   tllm_weave_save(ctx, &data, label, "set.weave");
 *
 * Each feature is scaled to 0 .. 1 by its own minimum and maximum and stored as 32 bits. Bits of equal weight from
 * neighbouring samples are stored together, the highest first. So a pass at s bits reads s / 32 of the bytes, and one
 * copy serves every s. A feature that is the same in every sample is stored as 0.
 *
 * A filled store is read-only: any number of contexts may use it. llm/lab/weave/weave_sgd.h trains linear models on
 * it. */
#ifndef TINYI_WEAVE_H
#define TINYI_WEAVE_H
#include "core/box/checkpoint.h"
TINYI_C_BEGIN

/* ---- the store ---- */

typedef struct tllm_weave {
    tiny_idx n, n_feature;
    /* the bits, in the order shown at the head of weave.c; bits after the last feature and sample are unused */
    const unsigned char *lines;
    size_t n_bytes;                         /* of lines */
    const float *low, *high;                /* (n_feature): the values that became 0 and 1 */
    const float *label;                     /* (n) from a file; NULL: none */
    void *block;                            /* memory of the context; NULL: the caller owns lines and ranges */
    tiny_checkpoint *file;                  /* the file that contains lines, or NULL */
} tllm_weave;

/* Bytes of the lines: 4 n n_feature, n rounded up to 8 and n_feature to 64. 0: invalid, or too large for this
 * machine. */
TINY_API size_t tllm_weave_bytes(tiny_idx n, tiny_idx n_feature);

/* Sets low and high to the minimum and maximum of each column of x (n, n_feature) f32. If more is nonzero, the present
 * ranges are widened instead, so that a set larger than memory can be read in pieces. NaN and infinite numbers are
 * errors; low and high are then invalid. */
TINY_API tiny_status tllm_weave_range(tiny_ctx *ctx, const tiny_tensor *x, int more, float *low, float *high);
/* Makes a store of zeros; low and high are copied. Close it with tllm_weave_close. */
TINY_API tiny_status tllm_weave_open(tiny_ctx *ctx, tiny_idx n, tiny_idx n_feature, const float *low, const float *high,
                                     tllm_weave *out);
/* Sets rows first, first + 1, ... to those of x (m, n_feature) f32. Numbers outside a range are clamped. */
TINY_API tiny_status tllm_weave_put(tiny_ctx *ctx, tllm_weave *data, tiny_idx first, const tiny_tensor *x);
/* range, open and put in one call; close out with tllm_weave_close */
TINY_API tiny_status tllm_weave_make(tiny_ctx *ctx, const tiny_tensor *x, tllm_weave *out);
/* data may be all zero */
TINY_API void tllm_weave_close(tiny_ctx *ctx, tllm_weave *data);

/* Reads rows first, first + 1, ... at this many bits (1 .. 32) into out (m, n_feature). f32: the truncated
 * number in 0 .. 1, the sum of bit k 2^-(k + 1). u8, i16, i32: the bits as an unsigned number, which must fit. */
TINY_API tiny_status tllm_weave_read(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, int bits,
                                     const tiny_tensor *out);

/* Forms of a product; all give the same within rounding. AUTO: the fastest on the target. */
enum { TLLM_WEAVE_AUTO, TLLM_WEAVE_MASKED, TLLM_WEAVE_TURNED, TLLM_WEAVE_SHIFTED };
/* y[i] = sum over j of x_s[first + i][j] v[j], for m samples; v (n_feature), y (m) */
TINY_API tiny_status tllm_weave_dot(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, tiny_idx m, int bits,
                                    int form, const float *v, float *y);

/* Save writes the store, and label (n) unless it is NULL, to a file of core/box/checkpoint.h. Load maps the lines and
 * checks every byte once. */
TINY_API tiny_status tllm_weave_save(tiny_ctx *ctx, const tllm_weave *data, const float *label, const char *path);
TINY_API tiny_status tllm_weave_load(tiny_ctx *ctx, const char *path, tllm_weave *out);
/* bytes must stay valid until the close */
TINY_API tiny_status tllm_weave_load_bytes(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_weave *out);

TINYI_C_END
#endif
