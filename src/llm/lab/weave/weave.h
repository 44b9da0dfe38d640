/* src/llm/lab/weave/weave.h - a data set bit by bit: stored once, read at any precision
 *
 *   tllm_weave data;
 *   tllm_weave_make(ctx, &x, &data);                         x (n, n_feature) f32
 *   tllm_weave_dot(ctx, &data, 0, n, 4, TLLM_WEAVE_AUTO, v, y);      products of all samples, of which 4 of 32 bits are
 *                                                                    read
 *   tllm_weave_save(ctx, &data, label, "set.weave");
 *
 * Each feature is brought to 0 .. 1 by its own least and largest number and kept as 32 bits, and the bits of all
 * samples are stored by weight: an epoch at s bits reads s / 32 of the bytes, and no second copy exists for any s. A
 * feature that is the same in every sample is 0.
 *
 * A store is read only once it is filled: any number of contexts may use it. llm/lab/weave/weave_sgd.h trains linear
 * models on it. */
#ifndef TINYI_WEAVE_H
#define TINYI_WEAVE_H
#include "core/box/checkpoint.h"
TINYI_C_BEGIN

/* ---- the store ---- */

typedef struct tllm_weave {
    tiny_idx n, n_feature;
    /* the bits, in the order that the head of weave.c draws; those behind the last feature and the last sample count
     * nowhere */
    const unsigned char *lines;
    size_t n_bytes;                         /* of them */
    const float *low, *high;                /* (n_feature): what became 0, and 1 */
    const float *label;                     /* (n), where a file had some; else NULL */
    void *block;                            /* ours; NULL: lines and ranges are the caller's */
    tiny_checkpoint *file;                  /* that lines lie in, or NULL */
} tllm_weave;

/* Bytes of the lines: 4 n n_feature, n rounded up to 8 and n_feature to 64. 0: no such store, or this machine cannot
 * hold it. */
TINY_API size_t tllm_weave_bytes(tiny_idx n, tiny_idx n_feature);

/* low and high become the least and largest number of each column of x (n, n_feature) f32; with more they are widened,
 * so that a set larger than memory can be looked at in pieces. NaN and infinite numbers are refused, and so is what low
 * and high hold then. */
TINY_API tiny_status tllm_weave_range(tiny_ctx *ctx, const tiny_tensor *x, int more, float *low, float *high);
/* A store of zeros; low and high are copied. */
TINY_API tiny_status tllm_weave_open(tiny_ctx *ctx, tiny_idx n, tiny_idx n_feature, const float *low, const float *high,
                                     tllm_weave *out);
/* Rows first, first + 1, ... become those of x (m, n_feature) f32. Numbers beyond a range become its end. */
TINY_API tiny_status tllm_weave_put(tiny_ctx *ctx, tllm_weave *data, tiny_idx first, const tiny_tensor *x);
/* range, open and put in one: out is closed by tllm_weave_close */
TINY_API tiny_status tllm_weave_make(tiny_ctx *ctx, const tiny_tensor *x, tllm_weave *out);
/* takes one that was never opened: all zero */
TINY_API void tllm_weave_close(tiny_ctx *ctx, tllm_weave *data);

/* Rows first, first + 1, ... of the store at this many bits (1 .. 32) into out (m, n_feature): f32: sum of bit k 2^-(k
 * + 1), a number of 0 .. 1 cut off; u8, i16, i32: the bits themselves as an unsigned number, which must fit. */
TINY_API tiny_status tllm_weave_read(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, int bits,
                                     const tiny_tensor *out);

/* How a product is made; all give the same within rounding. AUTO: what is fastest on the target. */
enum { TLLM_WEAVE_AUTO, TLLM_WEAVE_MASKED, TLLM_WEAVE_TURNED, TLLM_WEAVE_SHIFTED };
/* y[i] = sum over j of x_s[first + i][j] v[j], for m samples; v (n_feature), y (m) */
TINY_API tiny_status tllm_weave_dot(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, tiny_idx m, int bits,
                                    int form, const float *v, float *y);

/* A file of the store, and of label (n) unless it is NULL, as core/box/checkpoint.h writes them. Of a file that was
 * loaded the lines stay where they are mapped; every byte is checked once. */
TINY_API tiny_status tllm_weave_save(tiny_ctx *ctx, const tllm_weave *data, const float *label, const char *path);
TINY_API tiny_status tllm_weave_load(tiny_ctx *ctx, const char *path, tllm_weave *out);
/* which stay until the close */
TINY_API tiny_status tllm_weave_load_bytes(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_weave *out);

TINYI_C_END
#endif
