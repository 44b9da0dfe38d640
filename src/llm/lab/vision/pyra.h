/* src/llm/lab/vision/pyra.h - PYRA: a vision transformer that merges tokens in its blocks and learns weights for the
 * merged tokens
 *
 *     tllm_pyra_desc d = { 0 };
 *     d.r = tllm_tome_scheduled(TLLM_TOME_BASE_HIGH, &d.n_block);         or an array of your own
 *     tllm_pyra_open(ctx, vit, &d, &pyra);
 *     logits = tllm_vit_run(tape, vit, &images, tllm_pyra_hooks(pyra));   or task.hooks = tllm_pyra_hooks(pyra) for
 *                                                                         training
 *
 * Between attention and the feed-forward (wide) layer of each block, r tokens merge into others
 * (llm/lab/vision/tome.h). Later attention adds to each score the logarithm of the number of tokens that its key
 * represents. PYRA has r + 3 d weights per block (tllm_pyra_params, group 2 of the optimiser). They start as plain
 * merging, and they fit only the r that they were made for. Y. Xiong et al., "PYRA: Parallel Yielding Re-Activation for
 * Training-Inference Efficient Task Adaptation", 2024 (arXiv 2403.09192). */
#ifndef TINYI_LLM_PYRA_H
#define TINYI_LLM_PYRA_H
#include "llm/lab/vision/merge.h"
#include "llm/lab/vision/vit.h"
TINYI_C_BEGIN

typedef struct tllm_pyra tllm_pyra;

typedef struct tllm_pyra_desc {
    const tiny_idx *r;                      /* for each block; clamped to the number of pairs */
    tiny_idx n_block;                       /* numbers in r: the blocks of the network */
    int plain;                              /* nonzero: merging only, no weights */
    int unweighted;                         /* nonzero: attention ignores the number of tokens of a key */
    uint64_t seed;                          /* pa is uniform in (-1, 1), pb 0 */
} tllm_pyra_desc;

TINY_API tiny_status tllm_pyra_open(tiny_ctx *ctx, const tllm_vit *vit, const tllm_pyra_desc *desc, tllm_pyra **out);
TINY_API void tllm_pyra_close(tllm_pyra *p);                /* p may be NULL */
/* One run at a time may use them: p holds the sizes of the tokens between blocks. Owned by p. */
TINY_API const tllm_vit_hooks *tllm_pyra_hooks(tllm_pyra *p);
TINY_API const tiny_param *tllm_pyra_params(const tllm_pyra *p, size_t *n);    /* none with plain merging */
/* tokens after that block; -1: tokens of the images */
TINY_API tiny_idx tllm_pyra_tokens(const tllm_pyra *p, tiny_idx i_block);
/* The output token of each token of the images in the last run, (tokens, batch) i32, valid as long as its tape; data
 * NULL: no run. */
TINY_API tiny_tensor tllm_pyra_place(const tllm_pyra *p);

TINYI_C_END
#endif
