/* src/llm/lab/vision/vit.h - a small vision transformer on a tape: computed and trained by recorded operations
 *
 *     tllm_vit_desc d = { 0 };                            images of 32 x 32 x 3, patches of 4 x 4, 64 numbers, 4 heads,
 *                                                         4 blocks, 10 classes
 *     tllm_vit_open(ctx, &d, &vit);
 *     tllm_vit_task task = { vit, &images, &labels };     images (n, channels, size, size) f32, labels (n) i32
 *     train.params = tllm_vit_params(vit, &train.n_params);
 *     train.model = tllm_vit_loss;  train.user = &task;   tiny_train: math/train.h
 *     tiny_train(ctx, &train, NULL);
 *     tllm_vit_right(ctx, &task, 0, n, &right);           the number of n images classified correctly
 *
 * Tokens are stored as (token, image of the batch, number). So one attention call serves all images of a batch, without
 * a copy: the heads of all images are its heads. Token 0 is the class token. Parameters have the names of the timm
 * library. Their optimiser group is 0 for matrices, and 1 for those without decay: norms, biases, the class token,
 * positions.
 *
 * Hooks change a block: `mix` replaces softmax attention, and `between` may change the tokens between attention and the
 * feed-forward (wide) layer (merging: llm/lab/vision/tome.h). If hooks have parameters of their own, give the trainer
 * one list that holds tllm_vit_params and the parameters of the hooks. */
#ifndef TINYI_LLM_VIT_H
#define TINYI_LLM_VIT_H
#include "math/layer.h"
#include "math/train.h"
TINYI_C_BEGIN

#define TLLM_VIT_BLOCKS 256                 /* most blocks */

typedef struct tllm_vit_desc {              /* zero: the value in brackets */
    tiny_idx image, patch, channels;        /* side of an image, side of a patch (divides it), colours [32, 4, 3] */
    tiny_idx d, hidden;                     /* numbers of a token, of the wide layer [64, 4 d] */
    tiny_idx n_head, n_block, n_class;      /* [4, 4, 10]; heads divide d */
    double eps;                             /* of the norms [1e-6] */
    /* of the first weights: uniform within sqrt(6 / (in + out)), positions and class token N(0, 0.02) */
    uint64_t seed;
    tiny_dtype dtype;                       /* TINY_F64: for gradient checks; slow [TINY_F32] */
} tllm_vit_desc;

typedef struct tllm_vit tllm_vit;

/* The weights of a block, views of parameters; matrices (out, in). */
typedef struct tllm_vit_block {
    tiny_tensor norm1_g, norm1_b, qkv_w, qkv_b, out_w, out_b;       /* qkv (3 d, d): q, k, v */
    tiny_tensor norm2_g, norm2_b, up_w, up_b, down_w, down_b;
    tiny_tensor c[4];                       /* (1) each: c0 x + c1 attention, c2 x + c3 wide layer; data NULL: 1 */
} tllm_vit_block;

typedef struct tllm_vit_at { tiny_idx i_block, batch, n_head; double eps; } tllm_vit_at;

/* A hook that is NULL: as in a plain transformer. A failure is recorded in the tape. */
typedef struct tllm_vit_hooks {
    void *user;
    /* returns o, of the shape of q; q, k, v (tokens, batch n_head, d / n_head), image by image */
    tiny_tensor (*mix)(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *q, const tiny_tensor *k,
                       const tiny_tensor *v);
    /* returns the tokens for the rest of the block, at least the first one; x (tokens, batch, d), k as above */
    tiny_tensor (*between)(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *x,
                           const tiny_tensor *k);
} tllm_vit_hooks;

TINY_API tiny_status tllm_vit_open(tiny_ctx *ctx, const tllm_vit_desc *desc, tllm_vit **out);
TINY_API void tllm_vit_close(tllm_vit *vit);                /* vit may be NULL */
TINY_API const tllm_vit_desc *tllm_vit_is(const tllm_vit *vit);     /* with the defaults filled in */
TINY_API const tiny_param *tllm_vit_params(const tllm_vit *vit, size_t *n);    /* n may be NULL */
/* "blocks.0.attn.qkv.weight"; NULL: unknown */
TINY_API const tiny_param *tllm_vit_param(const tllm_vit *vit, const char *name);
TINY_API tiny_idx tllm_vit_tokens(const tllm_vit *vit);     /* of an image, with the class token */

/* Logits (n, n_class) of images (n, channels, size, size). hooks may be NULL. */
TINY_API tiny_tensor tllm_vit_run(tiny_tape *tape, const tllm_vit *vit, const tiny_tensor *images,
                                  const tllm_vit_hooks *hooks);

/* Parts of it, for other networks. x and the result (tokens, batch, d).
 * attend   c0 x + c1 W_out mix(q, k, v) of the norm of x; keys, if given, receives k
 * wide     c2 x + c3 W_down gelu(W_up norm(x)) */
TINY_API tiny_tensor tllm_vit_attend(tiny_tape *tape, const tllm_vit_block *block, const tllm_vit_at *at,
                                     const tiny_tensor *x, const tllm_vit_hooks *hooks, tiny_tensor *keys);
TINY_API tiny_tensor tllm_vit_wide(tiny_tape *tape, const tllm_vit_block *block, const tllm_vit_at *at,
                                   const tiny_tensor *x);
TINY_API const tllm_vit_block *tllm_vit_block_of(const tllm_vit *vit, tiny_idx i_block);  /* NULL: out of range */

typedef struct tllm_vit_task {
    const tllm_vit *vit;
    const tiny_tensor *images, *labels;
    const tllm_vit_hooks *hooks;            /* NULL: plain */
    double smoothing;                       /* of the cross-entropy */
    /* another network (llm/lab/vision/sret.h); NULL: vit */
    tiny_tensor (*other)(tiny_tape *tape, void *net, const tiny_tensor *images);
    void *net;
} tllm_vit_task;

/* A tiny_model_fn; user is a tllm_vit_task, or a struct that begins with one. */
TINY_API tiny_tensor tllm_vit_loss(tiny_tape *tape, void *task, const uint32_t *sample, tiny_idx n);
/* *right: the number of images first .. first + n - 1 whose largest logit (the first of equals) is that of the label.
 * 64 images at a time. */
TINY_API tiny_status tllm_vit_right(tiny_ctx *ctx, const tllm_vit_task *task, tiny_idx first, tiny_idx n,
                                    tiny_idx *right);

TINYI_C_END
#endif
