/* src/llm/lab/vision/pyra.h - a vision transformer whose tokens merge from block to block, with re-activation
 *
 *     tllm_pyra_desc d = { 0 };
 *     d.r = tllm_tome_scheduled(TLLM_TOME_BASE_HIGH, &d.n_block);         or an array of your own
 *     tllm_pyra_open(ctx, vit, &d, &pyra);
 *     logits = tllm_vit_run(tape, vit, &images, tllm_pyra_hooks(pyra));   or task.hooks = tllm_pyra_hooks(pyra) for
 *                                                                         training
 *
 * Between attention and the wide layer of each block r tokens merge into others (llm/lab/vision/tome.h), and attention
 * then adds the logarithm of the number of tokens that a key stands for. The weights of PYRA, r + 3 d a block
 * (tllm_pyra_params, group 2 of the optimiser), begin so that nothing but merging happens. They belong to that r:
 * another one is refused.
 * Y. Xiong et al., "PYRA: Parallel Yielding Re-Activation for Training-Inference Efficient Task Adaptation", 2024
 * (arXiv 2403.09192). */
#ifndef TINYI_LLM_PYRA_H
#define TINYI_LLM_PYRA_H
#include "llm/lab/vision/merge.h"
#include "llm/lab/vision/vit.h"
TINYI_C_BEGIN

typedef struct tllm_pyra tllm_pyra;

typedef struct tllm_pyra_desc {
    const tiny_idx *r;                      /* for each block; more than there are pairs counts as all of them */
    tiny_idx n_block;                       /* numbers in r: as many as the network has blocks */
    int plain;                              /* nonzero: merging only, no weights */
    int unweighted;                         /* nonzero: attention does not know how many tokens a key stands for */
    uint64_t seed;                          /* pa is uniform in (-1, 1), pb 0 */
} tllm_pyra_desc;

TINY_API tiny_status tllm_pyra_open(tiny_ctx *ctx, const tllm_vit *vit, const tllm_pyra_desc *desc, tllm_pyra **out);
TINY_API void tllm_pyra_close(tllm_pyra *p);                /* takes NULL */
/* For one run at a time: the sizes of tokens go from block to block in p. */
TINY_API const tllm_vit_hooks *tllm_pyra_hooks(tllm_pyra *p);
TINY_API const tiny_param *tllm_pyra_params(const tllm_pyra *p, size_t *n);    /* none of plain merging */
/* behind that block; those of the images for -1 */
TINY_API tiny_idx tllm_pyra_tokens(const tllm_pyra *p, tiny_idx i_block);
/* Of the last run, as long as its tape holds it: where each token of the images ended, (tokens, batch) i32; data NULL:
 * nowhere yet. */
TINY_API tiny_tensor tllm_pyra_place(const tllm_pyra *p);

TINYI_C_END
#endif
