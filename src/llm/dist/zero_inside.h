/* src/llm/dist/zero_inside.h - inside codes of blocks and divided training states */
#ifndef TINYI_ZERO_INSIDE_H
#define TINYI_ZERO_INSIDE_H
#include "math/table_inside.h"
#include "llm/dist/zero.h"
TINYI_C_BEGIN

typedef struct tinyi_codes_kernels {
    tiny_target from;
    /* max |x|, NaN if a number is not finite */
    float (*top)(const float *x, size_t n);
    /* x / scale, rounded (noise: down after it was added), between -most and most */
    void (*round)(int32_t *y, const float *x, const float *noise, size_t n, float scale, float most);
    void (*times)(float *y, const int8_t *x, size_t n, float scale);
    void (*add)(float *y, const float *x, size_t n);                        /* y += x */
} tinyi_codes_kernels;
TINYI_TABLES(tinyi_codes_kernels, tinyi_codes_kernels)
TINYI_FN const tinyi_codes_kernels *tinyi_codes_kernels_for(const tiny_ctx *ctx);       /* NULL: plain loops */
TINYI_FN void tinyi_codes_add(const tiny_ctx *ctx, float *y, const float *x, size_t n);
/* f16 at any address */
TINYI_FN void tinyi_codes_to_half(const tiny_ctx *ctx, unsigned char *to, const float *x, size_t n, int plain);
TINYI_FN void tinyi_codes_from_half(const tiny_ctx *ctx, float *x, const unsigned char *from, size_t n, int plain);
/* With defaults filled in; fails with a sentence. */
TINYI_FN tiny_status tinyi_codes_check(tiny_ctx *ctx, const tllm_codes *c, tllm_codes *is);

TINYI_C_END
#endif
