/* src/llm/lab/vision/merge.h - merging of matched tokens, plain or with the weights of PYRA; and its gradient
 *
 *     tllm_tome_merge(ctx, &x, &size, &match, NULL, &y);                  x (t, batch, d), y (t - r, batch, d); match:
 *                                                                         llm/lab/vision/tome.h
 *
 * Y. Xiong et al., "PYRA: Parallel Yielding Re-Activation for Training-Inference Efficient Task Adaptation", 2024
 * (arXiv 2403.09192). */
#ifndef TINYI_LLM_MERGE_H
#define TINYI_LLM_MERGE_H
#include "llm/lab/vision/tome.h"
TINYI_C_BEGIN

typedef struct tllm_pyra_weights {          /* all dense, of the type of x */
    const tiny_tensor *pa, *pb;             /* (r), (d) */
    const tiny_tensor *norm_g, *norm_b;     /* (d) */
} tllm_pyra_weights;

typedef struct tllm_merge_params { float eps; } tllm_merge_params;  /* of the norm; 0: 1e-5 */

#define TLLM_PYRA_PAIRS 1024                /* most pairs of an image, with weights */

/* y (t - r, batch, d): for each output the sum of size x over its tokens, divided by the sum of size. x (t, batch, d),
 * size (t, batch) dense, match (2 t + r, batch). With weights w, the x of a source is multiplied by 1 + w1 w2:
 * w1 (d) = 2 sigmoid(pa Z), w2 (r) = 2 sigmoid(Z pb) - 1, Z the norm of size x of source and target together. Tokens
 * without a merge are copied. w NULL: plain merging; weights with pb = 0 give the same bits. */
TINY_API tiny_status tllm_tome_merge(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *size,
                                     const tiny_tensor *match, const tllm_pyra_weights *w, const tiny_tensor *y);
/* The gradient, for use without a tape: dx (t, batch, d), d_pa (r), d_pbn (3, d) of pb, norm_g, norm_b; zeros without
 * weights. */
TINY_API tiny_status tllm_tome_merge_backward(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *size,
                                              const tiny_tensor *match, const tllm_pyra_weights *w,
                                              const tiny_tensor *dy, const tiny_tensor *dx, const tiny_tensor *d_pa,
                                              const tiny_tensor *d_pbn);
/* Rows for the conformance kit: inputs x, size, match, pa, pb, norm_g, norm_b; backward has dy after match. */
TINY_API const tiny_op_row *tllm_tome_merge_row(void);
TINY_API const tiny_op_row *tllm_tome_merge_backward_row(void);

/* ---- inside: what the bodies share ---- */

/* inputs of the first row; backward: dy instead of pa, and the weights after it */
enum { TINYI_TMERGE_X, TINYI_TMERGE_SIZE, TINYI_TMERGE_MATCH, TINYI_TMERGE_W };
TINYI_FN void tinyi_tmerge_op(tiny_op *op, int back, const tiny_tensor *x, const tiny_tensor *size,
                              const tiny_tensor *match, const tllm_pyra_weights *w);

TINYI_C_END
#endif
