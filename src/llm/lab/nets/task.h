/* src/llm/lab/nets/task.h - three tasks of classification, drawn from a seed: nothing to download
 *
 *     tllm_nn_task task;
 *     tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 1, 0, 0, &task);    task.train, task.test
 *     tllm_nn_task_close(ctx, &task);
 *
 * MIX60   60 centres N(0, I) in 32 dimensions; class: centre mod 10; sample: centre + 0.9 N(0, I)
 * TEX16   images of 16 x 16: a sinusoid of one of 5 orientations and 2 frequencies, any phase, N(0, 0.3) on each pixel
 * TEX32   the same waves on 32 x 32
 * The same seed gives the same bits on every machine, up to one unit of TEX16 and TEX32 in the last place of their
 * sinusoids. */
#ifndef TINYI_LLM_TASK_H
#define TINYI_LLM_TASK_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tllm_task_kind { TLLM_TASK_MIX60, TLLM_TASK_TEX16, TLLM_TASK_TEX32, TLLM_TASK_KINDS } tllm_task_kind;

typedef struct tllm_nn_set {
    tiny_tensor x, label;                   /* x (n, ...) f32, dense; label (n) i32 */
} tllm_nn_set;

typedef struct tllm_nn_task {
    tllm_nn_set train, test;
    tiny_idx n_class;
    void *memory;
} tllm_nn_task;

/* n_train, n_test 0: 6000 and 3000 (MIX60), 4000 and 1000 (TEX16, TEX32). */
TINY_API tiny_status tllm_nn_task_open(tiny_ctx *ctx, int kind, uint64_t seed, tiny_idx n_train, tiny_idx n_test,
                                       tllm_nn_task *out);
TINY_API void tllm_nn_task_close(tiny_ctx *ctx, tllm_nn_task *task);
/* per_class samples of each class 0 .. n_class - 1, drawn by the seed, into index (n_class per_class), in the order of
 * the classes. A class with fewer samples is an error that names it. */
TINY_API tiny_status tllm_nn_set_draw(tiny_ctx *ctx, const tllm_nn_set *set, tiny_idx n_class, tiny_idx per_class,
                                      uint64_t seed, uint32_t *index);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_status tinyi_nn_set_check(tiny_ctx *ctx, const tllm_nn_set *set, tiny_idx n_class);
/* The samples (NULL: the first n) as dense x of another type, and their labels, in one block of memory: tiny_free(ctx,
 * out->x.data). */
TINYI_FN tiny_status tinyi_nn_set_rows(tiny_ctx *ctx, const tllm_nn_set *set, const uint32_t *index, tiny_idx n,
                                       tiny_dtype dtype, tllm_nn_set *out);

TINYI_C_END
#endif
