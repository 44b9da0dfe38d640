/* src/llm/lab/vptq/kmeans.h - a few vectors that stand for many: weighted k-means
 *
 *   tllm_kmeans_desc d = { 0 };
 *   d.k = 256;
 *   tllm_kmeans(ctx, &d, x, n, v, weight, centre, code, &about);       x (n, v), weight (n) or NULL, centre (256, v),
 *                                                                      code (n) or NULL
 *
 * What is made small is the sum of weight |x - centre|^2. Centres begin as different vectors of x, drawn without
 * putting back; a centre that nobody is nearest to, or nobody with weight, takes the vector of largest weighted error.
 * Of centres equally near the lowest counts. The answer is the same bits for every number of threads, on every target
 * and by the reference. Where x has fewer than k different vectors, the centres are these, in the order in which they
 * were drawn, and copies of the last. */
#ifndef TINYI_KMEANS_H
#define TINYI_KMEANS_H
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_KMEANS_MOST_V 64               /* numbers of a vector */
#define TLLM_KMEANS_MOST_K ((tiny_idx)1 << 20)

typedef struct tllm_kmeans_desc {           /* all zero: the value in brackets */
    tiny_idx k;                             /* centres, at most n [256] */
    int iters;                              /* at most [100] */
    /* done when the centres move by no more than this share of their length [1e-5] */
    double tol;
    uint64_t seed;
    /* vectors for each centre, at most: of more, so many are drawn [256]; error and codes are of all */
    tiny_idx sample;
} tllm_kmeans_desc;

typedef struct tllm_kmeans_about {
    double error;                           /* sum of weight |x - centre|^2 */
    int iters;                              /* that were made; 0: there were fewer than k different vectors */
    tiny_idx reseeded;                      /* centres that nobody was nearest to, over all of them */
} tllm_kmeans_about;

/* Numbers and weights must be finite, weights not below 0. All weights 0: all are 1. After a failure the arrays hold
 * anything. */
TINY_API tiny_status tllm_kmeans(tiny_ctx *ctx, const tllm_kmeans_desc *desc, const float *x, tiny_idx n, tiny_idx v,
                                 const float *weight, float *centre, uint32_t *code, tllm_kmeans_about *about);

TINYI_C_END
#endif
