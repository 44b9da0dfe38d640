/* src/llm/lab/nets/proxy.h - numbers that rank untrained networks
 *
 *     tllm_proxy_desc d = { 0 };
 *     d.data = &task.train;                               GradSign of 64 samples; higher is better
 *     tllm_nn_proxy(nn, &d, &score);
 *
 *   GRADSIGN   sum over weights of |sum over samples of sign(gradient of the loss of that sample)|, sign(0) = 0 (Z.
 *              Zhang, Z. Jia, 2022, arXiv 2110.08616, algorithm 1)
 *   GRAD_NORM  sum over layers of the length of the gradient
 *   SNIP, GRASP, SYNFLOW   sums of the scores of llm/lab/nets/score.h as zero-cost-nas defines them; of SYNFLOW the
 *              natural logarithm
 *   FISHER     sum over channels of the mean over samples of (sum over pixels of a dL/da)^2 / 2, a the results of the
 *              layers before norm and activation
 *   NASWOT     ln |det K|, K[a][b] the number of ReLU units in which the samples a and b agree (J. Mellor et al., 2021,
 *              arXiv 2006.04647); -infinity if two samples agree in all
 *   PARAMS, FLOPS   the kept weights, and the operations of a sample with them */
#ifndef TINYI_LLM_PROXY_H
#define TINYI_LLM_PROXY_H
#include "llm/lab/nets/nn.h"
TINYI_C_BEGIN

typedef enum tllm_proxy_kind {
    TLLM_PROXY_GRADSIGN,
    TLLM_PROXY_GRAD_NORM,
    TLLM_PROXY_SNIP,
    TLLM_PROXY_GRASP,
    TLLM_PROXY_SYNFLOW,
    TLLM_PROXY_FISHER,
    TLLM_PROXY_NASWOT,
    TLLM_PROXY_PARAMS,
    TLLM_PROXY_FLOPS,
    TLLM_PROXY_KINDS
} tllm_proxy_kind;

typedef struct tllm_proxy_desc {            /* zero: the value in brackets */
    int kind;
    const tllm_nn_set *data;                /* for all but SYNFLOW, PARAMS and FLOPS */
    tiny_idx n;                             /* samples, drawn by the seed [64]; at most 32767; classes do not matter */
    int repeat;                             /* mean over this many first weights: those of nn, then others [1] */
    uint64_t seed;
    /* GRADSIGN: nonzero: one pass for each sample also where all layers are dense. Without it the signs of such a
     * network come from one pass of all samples and a product of signs: sign(d_i x_j) = sign(d_i) sign(x_j). */
    int plain;
} tllm_proxy_desc;

TINY_API const char *tllm_proxy_name(int kind);             /* "gradsign"; NULL: unknown */
/* Batch norms use the mean and variance of the batch; GRADSIGN those of the single sample after a convolution, of all
 * samples after a dense layer. nn is not changed. */
TINY_API tiny_status tllm_nn_proxy(const tllm_nn *nn, const tllm_proxy_desc *desc, double *score);

TINYI_C_END
#endif
