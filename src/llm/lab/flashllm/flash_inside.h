/* src/llm/lab/flashllm/flash_inside.h - inside the products with pruned matrices: what every target has, and the values
 * of items */
#ifndef TINYI_FLASHINSIDE_H
#define TINYI_FLASHINSIDE_H
#include "core/half_inside.h"
#include "math/table_inside.h"
#include "llm/lab/flashllm/flashllm.h"
TINYI_C_BEGIN

/* the number of an item; the bits above it are its place */
TINYI_INLINE float tinyi_flash_value(int bf16, uint32_t item)
{
    return bf16 ? tinyi_bf16_to_f32((uint16_t)item) : tinyi_f16_to_f32((uint16_t)item);
}

/* n items of a tile, a multiple of 4, at most 4096 */
#define TINYI_CSL_ROOM (4096 + 16)          /* of floats and of places, which are written by whole vectors */
typedef struct tinyi_csl_kernels {
    tiny_target from;
    int lanes;
    /* values as floats, and the place of each: row * np << 16 | column * np */
    void (*list)(float *value, uint32_t *at, const uint32_t *item, size_t n, int bf16, int np);
    /* a tile as panels of nr = 2 lanes rows, [64 / nr][64][nr]; value and at: room */
    void (*expand)(float *image, float *value, uint32_t *at, const uint32_t *item, size_t n, int bf16);
    /* y[at >> 16] += value x[at & 65535], `vectors` side by side; the first items are fours of one row each; ahead:
     * what is asked from memory meanwhile, 4 bytes for each item */
    void (*add)(float *y, const float *x, const float *value, const uint32_t *at, size_t n, size_t fours, int vectors,
                const uint32_t *ahead);
    /* the same for rows of 8 numbers; NULL: a vector has no more */
    void (*add8)(float *y, const float *x, const float *value, const uint32_t *at, size_t n, size_t fours,
                 const uint32_t *ahead);
} tinyi_csl_kernels;
TINYI_TABLES(tinyi_csl_kernels, tinyi_csl_kernels)

TINYI_C_END
#endif
