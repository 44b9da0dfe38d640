/* src/llm/lab/nets/task.c - three tasks of classification, drawn from a seed */
#include "llm/lab/nets/task.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

static void tinyi_task_mix60(const tllm_nn_set *s, const float *centre, tiny_rng *rng)
{
    float *x = (float *)s->x.data;
    tiny_idx i;
    int k;
    for (i = 0; i < s->x.dim[0]; i++) {
        const uint32_t c = tiny_rng_below(rng, 60);
        ((int32_t *)s->label.data)[i] = (int32_t)(c % 10);
        for (k = 0; k < 32; k++) x[i * 32 + k] = centre[c * 32 + (uint32_t)k] + 0.9f * tiny_rng_normal(rng);
    }
}

/* The same waves on any side: 16 / side pixels of TEX16 to a pixel. */
static void tinyi_task_tex(const tllm_nn_set *s, tiny_rng *rng)
{
    const double pi = 3.14159265358979323846;
    const int side = (int)s->x.dim[2];
    float *x = (float *)s->x.data;
    tiny_idx i;
    int a, b;
    for (i = 0; i < s->x.dim[0]; i++) {
        const uint32_t c = tiny_rng_below(rng, 10);
        const double turn = pi * (double)(c % 5) / 5.0, wave = (c < 5 ? 0.6 : 1.1) * (16.0 / side);
        const double phase = 2.0 * pi * tiny_rng_uniform64(rng), down = tinyi_cos64(turn), across = tinyi_sin64(turn);
        ((int32_t *)s->label.data)[i] = (int32_t)c;
        for (a = 0; a < side; a++)
            for (b = 0; b < side; b++)
                x[(i * side + a) * side + b] = (float)tinyi_sin64(wave * (down * a + across * b) + phase) +
                                          0.3f * tiny_rng_normal(rng);
    }
}

static tllm_nn_set tinyi_task_set(int kind, void *x, void *label, tiny_idx n)
{
    tllm_nn_set s;
    const tiny_idx side = kind == TLLM_TASK_TEX16 ? 16 : 32;
    s.x = kind == TLLM_TASK_MIX60 ? tiny_tensor_2d(x, TINY_F32, n, 32) : tiny_tensor_4d(x, TINY_F32, n, 1, side, side);
    s.label = tiny_tensor_1d(label, TINY_I32, n);
    return s;
}

TINY_API tiny_status tllm_nn_task_open(tiny_ctx *ctx, int kind, uint64_t seed, tiny_idx n_train, tiny_idx n_test,
                                       tllm_nn_task *out)
{
    float centre[60 * 32], *x;
    int32_t *label;
    tiny_rng rng;
    size_t each, all;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "task: a result pointer is needed");
    if (kind < 0 || kind >= TLLM_TASK_KINDS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "task: kind %d; there are MIX60, TEX16 and TEX32", kind);
    if (n_train < 0 || n_test < 0 || n_train > INT32_MAX || n_test > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "task: %td and %td samples; 1 to 2^31 - 1 are allowed", n_train,
                          n_test);
    if (!n_train) n_train = kind == TLLM_TASK_MIX60 ? 6000 : 4000;
    if (!n_test) n_test = kind == TLLM_TASK_MIX60 ? 3000 : 1000;
    each = kind == TLLM_TASK_MIX60 ? 32 : kind == TLLM_TASK_TEX16 ? 256 : 1024;
    if (!tinyi_size_mul((size_t)n_train + (size_t)n_test, (each + 1) * 4, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "task: %td and %td samples are more than can be addressed", n_train,
                          n_test);
    out->memory = tinyi_alloc(ctx, all, 1);
    if (!out->memory) return tiny_ctx_status(ctx);
    x = (float *)out->memory;
    label = (int32_t *)out->memory + ((size_t)n_train + (size_t)n_test) * each;
    out->train = tinyi_task_set(kind, x, label, n_train);
    out->test = tinyi_task_set(kind, x + (size_t)n_train * each, label + n_train, n_test);
    out->n_class = 10;
    rng = tiny_rng_make(seed, 0x6e657473);
    if (kind == TLLM_TASK_MIX60) {
        tiny_rng_fill_normal(&rng, centre, 60 * 32);
        tinyi_task_mix60(&out->train, centre, &rng);
        tinyi_task_mix60(&out->test, centre, &rng);
    } else {
        tinyi_task_tex(&out->train, &rng);
        tinyi_task_tex(&out->test, &rng);
    }
    return TINY_OK;
}

TINY_API void tllm_nn_task_close(tiny_ctx *ctx, tllm_nn_task *task)
{
    if (!task) return;
    tiny_free(ctx, task->memory);
    memset(task, 0, sizeof *task);
}

tiny_status tinyi_nn_set_check(tiny_ctx *ctx, const tllm_nn_set *set, tiny_idx n_class)
{
    const int32_t *label;
    tiny_idx i;
    if (!set || tiny_tensor_check(&set->x) || tiny_tensor_check(&set->label) || set->x.dtype != TINY_F32 ||
        set->label.dtype != TINY_I32 || set->x.rank < 2 || set->label.rank != 1 || set->x.dim[0] < 1 ||
        set->x.dim[0] != set->label.dim[0] || set->x.dim[0] > INT32_MAX || !tiny_tensor_is_dense(&set->x) ||
        !tiny_tensor_is_dense(&set->label))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "nets: a set is x (n, ...) f32 and labels (n) i32, both dense, with at least one sample");
    label = (const int32_t *)set->label.data;
    for (i = 0; i < set->label.dim[0]; i++)
        if (label[i] < 0 || label[i] >= n_class)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nets: sample %td has the label %d; there are classes 0 to %td", i,
                              (int)label[i], n_class - 1);
    return TINY_OK;
}

TINY_API tiny_status tllm_nn_set_draw(tiny_ctx *ctx, const tllm_nn_set *set, tiny_idx n_class, tiny_idx per_class,
                                      uint64_t seed, uint32_t *index)
{
    uint32_t *order;
    tiny_idx c, i, n, found;
    tiny_rng rng;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!index || n_class < 1 || per_class < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nets: %td samples of each of %td classes, and where to put them",
                          per_class, n_class);
    st = tinyi_nn_set_check(ctx, set, n_class);
    if (st) return st;
    n = set->x.dim[0];
    order = (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *order);
    if (!order) return tiny_ctx_status(ctx);
    for (i = 0; i < n; i++) order[i] = (uint32_t)i;
    rng = tiny_rng_make(seed, 0x64726177);
    tiny_rng_permutation(&rng, order, (uint32_t)n);
    for (c = 0; !st && c < n_class; c++) {
        for (i = found = 0; i < n && found < per_class; i++)
            if (((const int32_t *)set->label.data)[order[i]] == (int32_t)c) index[c * per_class + found++] = order[i];
        if (found < per_class)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "nets: class %td has %td samples; %td are needed", c, found,
                            per_class);
    }
    tiny_free(ctx, order);
    return st;
}

tiny_status tinyi_nn_set_rows(tiny_ctx *ctx, const tllm_nn_set *set, const uint32_t *index, tiny_idx n,
                              tiny_dtype dtype, tllm_nn_set *out)
{
    const size_t each = (size_t)(tiny_tensor_count(&set->x) / set->x.dim[0]);
    const size_t bytes = tiny_dtype_bytes(dtype);
    tiny_idx dim[TINY_MAX_RANK], i;
    size_t k, all;
    void *memory;
    memset(out, 0, sizeof *out);
    if (!tinyi_size_mul((size_t)n, each * bytes + 4, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "nets: %td samples are more than can be addressed", n);
    memory = tinyi_alloc(ctx, all, 1);
    if (!memory) return tiny_ctx_status(ctx);
    memcpy(dim, set->x.dim, sizeof dim);
    dim[0] = n;
    out->x = tiny_tensor_nd(memory, dtype, set->x.rank, dim);
    out->label = tiny_tensor_1d((unsigned char *)memory + (size_t)n * each * bytes, TINY_I32, n);
    for (i = 0; i < n; i++) {
        const size_t at = index ? (size_t)index[i] : (size_t)i;
        ((int32_t *)out->label.data)[i] = ((const int32_t *)set->label.data)[at];
        for (k = 0; k < each; k++)
            tinyi_real_set(memory, dtype, (tiny_idx)((size_t)i * each + k),
                           (double)((const float *)set->x.data)[at * each + k]);
    }
    return TINY_OK;
}
