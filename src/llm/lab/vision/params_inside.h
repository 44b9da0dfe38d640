/* src/llm/lab/vision/params_inside.h - the parameters of a network in one block of memory
 *
 * A network has one function that adds all its parameters in their order. It is called twice: the first time they are
 * counted, the second time, after tinyi_params_place, each gets its place, its name and its first numbers. */
#ifndef TINYI_LLM_VISION_PARAMS_H
#define TINYI_LLM_VISION_PARAMS_H
#include "llm/lab/vision/vit.h"
TINYI_C_BEGIN

/* SMALL: N(0, 0.02), UNIFORM: -1 to 1 */
typedef enum tinyi_first {
    TINYI_FIRST_ZERO,
    TINYI_FIRST_ONE,
    TINYI_FIRST_XAVIER,
    TINYI_FIRST_SMALL,
    TINYI_FIRST_UNIFORM
} tinyi_first;

typedef struct tinyi_params {
    tiny_ctx *ctx;
    tiny_dtype dtype;
    tiny_param *param;
    char (*name)[56];
    void *numbers;                          /* values, then gradients; NULL while they are counted */
    size_t n, at;                           /* parameters and numbers so far */
    size_t half;                            /* numbers of all */
    int fits;
    tiny_rng rng;
    tiny_status st;                         /* of the first numbers */
} tinyi_params;

TINYI_FN void tinyi_params_begin(tinyi_params *p, tiny_ctx *ctx, tiny_dtype dtype, tiny_rng rng);
/* t gets its place, or nothing while they are counted. Dimensions of 0 to 4 axes. */
TINYI_FN void tinyi_params_add(tinyi_params *p, tiny_tensor *t, tinyi_first first, int group, int rank,
                               const tiny_idx *dim, const char *name, ...) TINYI_PRINTF(7, 8);
TINYI_FN tiny_status tinyi_params_place(tinyi_params *p, const char *who);
TINYI_FN void tinyi_params_free(tinyi_params *p);

/* What networks have in common (vit.c); prefix: put before the names. */
TINYI_FN void tinyi_vit_vector(tinyi_params *p, tiny_tensor *t, tinyi_first first, tiny_idx n, const char *prefix,
                               const char *name);
TINYI_FN void tinyi_vit_matrix(tinyi_params *p, tiny_tensor *t, tiny_idx rows, tiny_idx cols, const char *prefix,
                               const char *name);
TINYI_FN void tinyi_vit_lay_attention(tinyi_params *p, tllm_vit_block *k, tiny_idx d, const char *prefix);
TINYI_FN void tinyi_vit_lay_wide(tinyi_params *p, tllm_vit_block *k, tiny_idx d, tiny_idx hidden, const char *prefix);

TINYI_C_END
#endif
