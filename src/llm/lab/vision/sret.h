/* src/llm/lab/vision/sret.h - a sliced recursive transformer: blocks that run more than once, attention within slices
 * of the tokens
 *
 *     tllm_sret_desc d = { 0 };                           images of 32 x 32 x 3: 64 tokens of 64 numbers, 2 blocks run
 *                                                         twice, 4 slices and then 2
 *     tllm_sret_open(ctx, &d, &sret);
 *     task.other = tllm_sret_logits;  task.net = sret;    tllm_vit_task, for tllm_vit_loss and tllm_vit_right of
 *                                                         llm/lab/vision/vit.h
 *     tllm_sret_training(sret, 1);                        batch norms of the stem use the batch; 0 before evaluation
 *
 * A stage of depth L has R blocks. Each block runs L / R times in a row with the same weights, and every run is
 * followed by a small layer (norm and two matrices) that is not shared. Attention works within slices: N tokens form G
 * slices of N / G consecutive tokens. Further runs of a block may have another G; their tokens are shuffled before the
 * attention and put back in order after it. Shuffles are a function of the seed, the layer and the run, or new in each
 * call. Z. Shen, Z. Liu, E. Xing, "Sliced Recursive Transformer", ECCV 2022 (arXiv 2111.05297). */
#ifndef TINYI_LLM_SRET_H
#define TINYI_LLM_SRET_H
#include "llm/lab/vision/vit.h"
TINYI_C_BEGIN

#define TLLM_SRET_STAGES 4
#define TLLM_SRET_DEPTH 64                  /* greatest depth of a stage */

typedef struct tllm_sret_stage {
    tiny_idx n_head, depth, distinct;       /* depth is a multiple of distinct */
    /* slices of the first run of a block, and of further runs; they divide the tokens */
    tiny_idx first, again;
} tllm_sret_stage;

typedef struct tllm_sret_desc {             /* zero: the value in brackets */
    /* side, colours, convolutions of stride 2 before the first stage [32, 3, 2] */
    tiny_idx image, channels, n_stem;
    /* numbers of a token in the first stage; each further stage has twice as many, and a quarter of the tokens [64] */
    tiny_idx d;
    double ratio, nll_ratio;                /* width / d of the wide layers, and of the small ones [3.6, 1] */
    tiny_idx n_stage;                       /* [one: 2 heads, depth 4, 2 distinct, 4 slices, then 2] */
    tllm_sret_stage stage[TLLM_SRET_STAGES];
    tiny_idx n_class;                       /* [10] */
    double eps;                             /* of the norms [1e-6] */
    uint64_t seed;
    tiny_dtype dtype;                       /* TINY_F64: to check gradients with [TINY_F32] */
    int fresh;                              /* nonzero: a new shuffle in each call, as in the authors' code */
} tllm_sret_desc;

typedef struct tllm_sret tllm_sret;

/* SReT-T of the paper: 224 x 224, 784, 196 and 49 tokens, 1000 classes */
TINY_API void tllm_sret_tiny(tllm_sret_desc *desc);
TINY_API tiny_status tllm_sret_open(tiny_ctx *ctx, const tllm_sret_desc *desc, tllm_sret **out);
TINY_API void tllm_sret_close(tllm_sret *s);                /* s may be NULL */
TINY_API const tllm_sret_desc *tllm_sret_is(const tllm_sret *s);
TINY_API const tiny_param *tllm_sret_params(const tllm_sret *s, size_t *n);
TINY_API tiny_idx tllm_sret_tokens(const tllm_sret *s, tiny_idx i_stage);
TINY_API void tllm_sret_training(tllm_sret *s, int on);

/* Logits (n, n_class) of images (n, channels, size, size); net is a tllm_sret. */
TINY_API tiny_tensor tllm_sret_logits(tiny_tape *tape, void *net, const tiny_tensor *images);
/* One stage; x and the result (tokens, batch, numbers of the stage). Its slices must divide the number of tokens. */
TINY_API tiny_tensor tllm_sret_stage_run(tiny_tape *tape, tllm_sret *s, tiny_idx i_stage, const tiny_tensor *x);

/* Attention within `slices` pieces of the tokens; q, k, v and the result (tokens, heads, numbers). order: NULL, or
 * (tokens) i32 dense, the permutation in which tokens are put into slices; the result is in the original order.
 * shuffled: order is required unless there is one slice. */
TINY_API tiny_tensor tllm_sliced_attention(tiny_tape *tape, const tiny_tensor *q, const tiny_tensor *k,
                                           const tiny_tensor *v, tiny_idx slices, int shuffled,
                                           const tiny_tensor *order);

TINYI_C_END
#endif
