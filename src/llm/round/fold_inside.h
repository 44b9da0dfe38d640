/* src/llm/round/fold_inside.h - inside folds: the data of each tensor, and how the list is made */
#ifndef TINYI_FOLD_INSIDE_H
#define TINYI_FOLD_INSIDE_H
#include "llm/round/fold.h"
#include "llm/model/model_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_fold_item {
    const tllm_gguf_tensor *t;
    int vector;                             /* a norm, a bias: each of its numbers is a row */
    tiny_idx len, rows, n_mat;              /* of a row (a vector: 1), rows of all matrices, matrices */
    double *column, *row;                   /* (n_mat, len), (rows); NULL: ones */
    int ones;                               /* a gain that was moved into its consumers: its numbers count as 1 */
} tinyi_fold_item;

struct tllm_folds {
    uint32_t magic;
    const tllm_gguf *file;
    tllm_fold *fold;
    size_t n, room;
    tinyi_fold_item *item;                  /* of all tensors, in the order of the file */
    size_t n_item;
    const char **why;                       /* (n_layer + 1, kinds): of layer -1 first */
    tiny_idx n_layer;
};

/* makes the folds, the reasons and the items of a model */
TINYI_FN tiny_status tinyi_fold_make(tiny_ctx *ctx, tllm_folds *f, const tllm_model *m);
/* "NAME.bias" of "NAME.weight" */
TINYI_FN const tllm_gguf_tensor *tinyi_fold_bias(const tllm_gguf *file, const tllm_gguf_tensor *t);
TINYI_FN tinyi_fold_item *tinyi_fold_item_of(const tllm_folds *f, const tllm_gguf_tensor *t);

TINYI_C_END
#endif
