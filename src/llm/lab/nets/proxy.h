/* src/llm/lab/nets/proxy.h - numbers that rank untrained networks, and how well a ranking agrees with another one
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

/* Spearman's rho and Kendall's tau-b of n pairs, at least 2; equal numbers share their mean rank. NaN is an error, and
 * a list in which all numbers are equal. Kendall takes time n^2. */
TINY_API tiny_status tllm_rank_spearman(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *rho);
TINY_API tiny_status tllm_rank_kendall(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *tau);

/* ---- search: candidates are lists of choices, and only the most promising of each batch is evaluated */
typedef enum tllm_search_kind { TLLM_SEARCH_RANDOM, TLLM_SEARCH_EVOLUTION, TLLM_SEARCH_REINFORCE } tllm_search_kind;
#define TLLM_SEARCH_PLACES 64
typedef struct tllm_search_desc {           /* zero: the value in brackets */
    int kind;
    int n_place;                            /* 1 to TLLM_SEARCH_PLACES; a candidate is choice[0 .. n_place - 1] */
    const int *n_option;                    /* choice[i] is 0 .. n_option[i] - 1 */
    /* cheap: a proxy; NULL: none, each candidate is evaluated. exact: training. A failure ends the search. */
    tiny_status (*cheap)(void *user, const int *choice, double *score);
    tiny_status (*exact)(void *user, const int *choice, double *score);
    void *user;
    int per_step;                           /* candidates that are scored for each that is evaluated [100] */
    int steps;                              /* evaluations [10] */
    int population;                         /* EVOLUTION: the youngest that may be parents [10] */
    double rate;                            /* REINFORCE [0.5] */
    uint64_t seed;
} tllm_search_desc;
/* best (n_place) and *score: the best of those that were evaluated.
 *   RANDOM     candidates are drawn uniformly
 *   EVOLUTION  a candidate is the better of two parents with one place drawn again; the first batches are random
 *   REINFORCE  candidates are drawn from softmax(p[place]). After an evaluation p += rate (score - mean of the scores
 *              so far) (chosen - softmax(p)), where chosen is 1 at the choice and 0 elsewhere */
TINY_API tiny_status tllm_search(tiny_ctx *ctx, const tllm_search_desc *desc, int *best, double *score);

TINYI_C_END
#endif
