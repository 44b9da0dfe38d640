/* src/llm/dist/moe_fold_inside.h - inside mixture layers over ranks */
#ifndef TINYI_MOE_FOLD_INSIDE_H
#define TINYI_MOE_FOLD_INSIDE_H
#include "math/table_inside.h"
#include "llm/dist/moe_fold.h"
TINYI_C_BEGIN

#define TINYI_MOE_BLOCK 64                  /* rows of a piece of work */
#define TINYI_MOE_DEEP 128                  /* rows of w that are copied at a time */
#define TINYI_MOE_PAIRS 4                   /* pairs of vectors of columns that are copied at a time */
#define TINYI_MOE_STRIP (TINYI_MOE_DEEP * TINYI_MOE_PAIRS * 32)

typedef struct tinyi_moe_kernels {
    tiny_target from;
    /* y[r][j] = sum_i x[r][i] w[i][j], added in the order of i for every r and j, so that the bits of a row do not
     * depend on how many rows there are; rows of y, x, w are y_row, x_row, w_row numbers apart. strip: scratch for
     * TINYI_MOE_STRIP numbers */
    void (*product)(float *y, size_t y_row, const float *x, size_t x_row, size_t rows, const float *w, size_t w_row,
                    size_t k, size_t n, float *strip);
    void (*add)(float *y, const float *x, float scale, size_t n);           /* y += scale x */
} tinyi_moe_kernels;
TINYI_TABLES(tinyi_moe_kernels, tinyi_moe_kernels)
TINYI_FN const tinyi_moe_kernels *tinyi_moe_kernels_for(const tiny_ctx *ctx);

/* ceil(factor tokens k / n_expert), at least least */
TINYI_FN tiny_idx tinyi_moe_capacity(const tllm_moe_desc *d, tiny_idx tokens);
TINYI_FN const tllm_moe_desc *tinyi_moe_desc_of(const tllm_moe *moe);
TINYI_FN tiny_ctx *tinyi_moe_ctx(const tllm_moe *moe);
/* The checks of the sizes that need no net. */
TINYI_FN tiny_status tinyi_moe_check(tiny_ctx *ctx, const tllm_moe_desc *d);
TINYI_FN tiny_status tinyi_moe_end(tllm_moe *moe, tiny_status st);
/* n floats for weights that were read; NULL: there is no memory. The ones before are no longer valid. */
TINYI_FN float *tinyi_moe_weights_room(tllm_moe *moe, size_t n);

TINYI_C_END
#endif
