/* src/llm/round/plain.h - weights as small integers under scales: plain rounding, and the grids that GPTQ rounds to
 *
 *   tllm_plain_desc d = { 0 };                              4 bits, a scale for each 128 inputs of a row
 *   tllm_plain q;
 *   tllm_plain_size(ctx, &d, rows, n, &size);               how many codes, scales and zeros: they are the caller's
 *   ... q.code = malloc(size.codes), q.scale = malloc(2 * size.scales), q.zero = malloc(size.scales) ...
 *   tllm_plain_round(ctx, &d, w, rows, n, NULL, &q);        to the nearest: RTN
 *   tllm_plain_expand(ctx, &d, &q, rows, n, back);          scale (code - zero)
 *
 * Every convention becomes the same three numbers: code u in 0 .. 2^bits - 1, w' = scale (u - zero), the scale a half
 * that was rounded before the codes were chosen.
 *   S1    scale = max|w| / (2^(bits-1) - 1), zero = 2^(bits-1): activations, int8 products
 *   S2    scale = 2 max|w| / (2^bits - 1), zero = 2^(bits-1): files of GPTQ and MARLIN
 *   ASYM  from min(w, 0) to max(w, 0), the zero wherever it falls */
#ifndef TINYI_PLAIN_H
#define TINYI_PLAIN_H
#include "core/op.h"
TINYI_C_BEGIN

typedef enum tllm_plain_kind { TLLM_PLAIN_S2, TLLM_PLAIN_S1, TLLM_PLAIN_ASYM, TLLM_PLAIN_KINDS } tllm_plain_kind;
enum { TLLM_PLAIN_ROW = -1, TLLM_PLAIN_TENSOR = -2 };

typedef struct tllm_plain_desc {            /* all zero: the value in brackets */
    int kind;                               /* [TLLM_PLAIN_S2] */
    int bits;                               /* 1 to 8, S1 from 2 on [4] */
    /* inputs under one scale, the last group may be shorter [128]; TLLM_PLAIN_ROW, TLLM_PLAIN_TENSOR */
    tiny_idx group;
    /* so many ranges more are tried, each a hundredth of the whole smaller; the least squared error wins [0]; 75 is
     * what GPTQ's programs try, 99 the most */
    int clip;
} tllm_plain_desc;

typedef struct tllm_plain {
    uint8_t *code;                          /* (rows, n) */
    uint16_t *scale;                        /* (rows, groups) halves; one for a whole tensor */
    uint8_t *zero;                          /* as many */
} tllm_plain;
/* groups: in a row; group: inputs of one */
typedef struct tllm_plain_sizes { size_t codes, scales; tiny_idx group, groups; } tllm_plain_sizes;

/* Refuses what no layer is: bits outside 1 to 8, a group below 1, sizes that cannot be counted. */
TINY_API tiny_status tllm_plain_size(tiny_ctx *ctx, const tllm_plain_desc *desc, tiny_idx rows, tiny_idx n,
                                     tllm_plain_sizes *out);
/* The scale and zero of n numbers, step apart, so that sum of h (w' - w)^2 is least among the ranges that desc says; h:
 * weights of the errors, n of them, NULL: ones. Numbers that are all 0, or so small that the scale vanishes as a half,
 * get scale 1 and codes at zero.
 * 0: a number is not finite, or so large that its scale is no finite half; nothing was written. */
TINY_API int tllm_plain_fit(const tllm_plain_desc *desc, const float *w, tiny_idx n, tiny_idx step, const float *h,
                            uint16_t *scale, uint8_t *zero);
/* clamp(rint(w / scale) + zero, 0, 2^bits - 1); of a NaN: 0 */
TINY_API uint8_t tllm_plain_code(float w, float scale, int zero, int bits);

/* w (rows, n) dense; h as above, one for each input, or NULL. After a failure q holds anything. */
TINY_API tiny_status tllm_plain_round(tiny_ctx *ctx, const tllm_plain_desc *desc, const float *w, tiny_idx rows,
                                      tiny_idx n, const float *h, const tllm_plain *q);
/* back (rows, n). A code above 2^bits - 1 is refused. */
TINY_API tiny_status tllm_plain_expand(tiny_ctx *ctx, const tllm_plain_desc *desc, const tllm_plain *q, tiny_idx rows,
                                       tiny_idx n, float *back);

TINYI_C_END
#endif
