/* src/llm/round/plain.h - weights as small integers with scales: plain rounding, and the grids that GPTQ rounds to
 *
 *   tllm_plain_desc d = { 0 };                              4 bits, a scale for each 128 inputs of a row
 *   tllm_plain q;
 *   tllm_plain_size(ctx, &d, rows, n, &size);               the number of codes, scales and zeros to allocate
 *   ... q.code = malloc(size.codes), q.scale = malloc(2 * size.scales), q.zero = malloc(size.scales) ...
 *   tllm_plain_round(ctx, &d, w, rows, n, NULL, &q);        to the nearest: RTN
 *   tllm_plain_expand(ctx, &d, &q, rows, n, back);          scale (code - zero)
 *
 * All conventions store codes u in 0 .. 2^bits - 1, a scale and a zero: w' = scale (u - zero). The scale is a half
 * (f16), rounded before the codes are chosen.
 *   S1    scale = max|w| / (2^(bits-1) - 1), zero = 2^(bits-1): activations, int8 products
 *   S2    scale = 2 max|w| / (2^bits - 1), zero = 2^(bits-1): files of GPTQ and MARLIN
 *   ASYM  the codes cover min(w, 0) to max(w, 0); zero is any code */
#ifndef TINYI_PLAIN_H
#define TINYI_PLAIN_H
#include "core/op.h"
TINYI_C_BEGIN

typedef enum tllm_plain_kind { TLLM_PLAIN_S2, TLLM_PLAIN_S1, TLLM_PLAIN_ASYM, TLLM_PLAIN_KINDS } tllm_plain_kind;
enum { TLLM_PLAIN_ROW = -1, TLLM_PLAIN_TENSOR = -2 };

typedef struct tllm_plain_desc {            /* all zero: the value in brackets */
    int kind;                               /* [TLLM_PLAIN_S2] */
    int bits;                               /* 1 to 8, S1 from 2 on [4] */
    /* inputs that share a scale, or TLLM_PLAIN_ROW or TLLM_PLAIN_TENSOR; the last group may be shorter [128] */
    tiny_idx group;
    /* ranges tried in addition to the whole one, each a hundredth smaller; the least squared error is used [0]; GPTQ's
     * programs use 75, the limit is 99 */
    int clip;
} tllm_plain_desc;

typedef struct tllm_plain {
    uint8_t *code;                          /* (rows, n) */
    uint16_t *scale;                        /* (rows, groups) halves; one for a whole tensor */
    uint8_t *zero;                          /* one per scale */
} tllm_plain;
/* codes, scales: numbers to allocate; group: inputs of a group; groups: groups of a row */
typedef struct tllm_plain_sizes { size_t codes, scales; tiny_idx group, groups; } tllm_plain_sizes;

/* Fails for bits outside 1 to 8, an invalid group, and sizes that overflow. */
TINY_API tiny_status tllm_plain_size(tiny_ctx *ctx, const tllm_plain_desc *desc, tiny_idx rows, tiny_idx n,
                                     tllm_plain_sizes *out);
/* Finds the scale and zero of n numbers, step apart, with the least sum of h (w' - w)^2 among the ranges of desc. h: n
 * weights of the errors, NULL: ones. Numbers that are all 0, or so small that the scale is 0 as a half, get scale 1 and
 * codes at zero. Returns 0 and writes nothing if a number is not finite, or so large that its scale is not a finite
 * half. */
TINY_API int tllm_plain_fit(const tllm_plain_desc *desc, const float *w, tiny_idx n, tiny_idx step, const float *h,
                            uint16_t *scale, uint8_t *zero);
/* clamp(rint(w / scale) + zero, 0, 2^bits - 1); 0 for a NaN */
TINY_API uint8_t tllm_plain_code(float w, float scale, int zero, int bits);

/* w (rows, n) dense; h as above, one for each input, or NULL. After a failure the contents of q are undefined. */
TINY_API tiny_status tllm_plain_round(tiny_ctx *ctx, const tllm_plain_desc *desc, const float *w, tiny_idx rows,
                                      tiny_idx n, const float *h, const tllm_plain *q);
/* back (rows, n). A code above 2^bits - 1 is refused. */
TINY_API tiny_status tllm_plain_expand(tiny_ctx *ctx, const tllm_plain_desc *desc, const tllm_plain *q, tiny_idx rows,
                                       tiny_idx n, float *back);

TINYI_C_END
#endif
