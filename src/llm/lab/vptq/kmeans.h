/* src/llm/lab/vptq/kmeans.h - weighted k-means: a few vectors that represent many
 *
 *   tllm_kmeans_desc d = { 0 };
 *   d.k = 256;
 *   tllm_kmeans(ctx, &d, x, n, v, weight, centre, code, &about);       x (n, v), weight (n) or NULL, centre (256, v),
 *                                                                      code (n) or NULL
 *
 * It minimises the sum of weight |x - centre|^2. Centres start as different vectors of x, drawn without replacement. A
 * centre without vectors, or without vectors with weight, is moved to the vector with the largest weighted error. Of
 * equally near centres the one with the lowest number is used. The result has the same bits for any number of threads,
 * on every target and on the reference. If x has fewer than k different vectors, the centres are these, in the order
 * drawn, and copies of the last. */
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
    /* with more vectors per centre than this, a random sample of that many is used [256]; error and code are for all
     * vectors */
    tiny_idx sample;
} tllm_kmeans_desc;

typedef struct tllm_kmeans_about {
    double error;                           /* sum of weight |x - centre|^2 */
    int iters;                              /* iterations run; 0: there were fewer than k different vectors */
    tiny_idx reseeded;                      /* centres moved because they had no vectors, over all iterations */
} tllm_kmeans_about;

/* Numbers and weights must be finite, weights not below 0. If all weights are 0, all count as 1. After a failure the
 * contents of the arrays are undefined. */
TINY_API tiny_status tllm_kmeans(tiny_ctx *ctx, const tllm_kmeans_desc *desc, const float *x, tiny_idx n, tiny_idx v,
                                 const float *weight, float *centre, uint32_t *code, tllm_kmeans_about *about);

TINYI_C_END
#endif
