/* src/llm/round/calib.h - what the inputs of a linear layer look like: the statistics that weights are rounded by
 *
 *   tllm_calib *c;
 *   tllm_calib_open(ctx, n_in, TLLM_CALIB_PRODUCTS, &c);
 *   for (...) tllm_calib_add(ctx, c, x, rows, ld);          batches of any size; the order of tokens is all that counts
 *   tiny_tensor h = tllm_calib_products(c);                 for tllm_gptq
 *   tllm_calib_diagonal(c, diag);                           for a clip search, for the importance of block formats
 *   tllm_calib_close(ctx, c);
 *
 * Kept are for every input its sum of squares, its mean and its largest magnitude; and, where asked for, the products
 * of every two inputs: n_in^2 doubles. H of the papers is (2 / tokens) times these sums. And samples, where asked
 * for. */
#ifndef TINYI_CALIB_H
#define TINYI_CALIB_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tllm_calib tllm_calib;
enum {
    /* sums of products too, which GPTQ and VPTQ want; AWQ and SmoothQuant do without */
    TLLM_CALIB_PRODUCTS = 1,
    /* some of the inputs themselves, which AWQ wants: evenly over all tokens, at most so many */
    TLLM_CALIB_SAMPLES = 2
};
enum { TLLM_CALIB_MOST_SAMPLES = 512 };

TINY_API tiny_status tllm_calib_open(tiny_ctx *ctx, tiny_idx n, int flags, tllm_calib **out);
TINY_API void tllm_calib_close(tiny_ctx *ctx, tllm_calib *c);       /* takes NULL; the context that opened it */
/* bytes that open takes; 0: more than can be counted */
TINY_API size_t tllm_calib_memory(tiny_idx n, int flags);
/* rows inputs of n numbers, ld apart. A NaN, an infinity or a magnitude above 5e17 in any of them refuses the whole
 * batch: nothing of it was added. After a failure of memory, or a cancel, the sums are of no use: later batches are
 * refused. */
TINY_API tiny_status tllm_calib_add(tiny_ctx *ctx, tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld);

TINY_API tiny_idx tllm_calib_n(const tllm_calib *c);                /* inputs */
TINY_API uint64_t tllm_calib_tokens(const tllm_calib *c);
/* (n, n) f64 in place: the sums of x_i x_j, i <= j, and zeros below. Without products: a tensor without data. */
TINY_API tiny_tensor tllm_calib_products(const tllm_calib *c);
/* Inputs that were kept, (count, n) dense, in order: tokens 0, e, 2 e, ... for e a power of 2, all of them up to the
 * most that are kept and at least half as many from there on. 0: none. */
TINY_API tiny_idx tllm_calib_samples(const tllm_calib *c, const float **x);
/* n numbers each: sum of x^2 times 2 / tokens, the diagonal of H; mean of |x|; largest |x|. Without a token: zeros. */
TINY_API void tllm_calib_diagonal(const tllm_calib *c, float *h);
TINY_API void tllm_calib_mean(const tllm_calib *c, float *mean);
TINY_API void tllm_calib_largest(const tllm_calib *c, float *largest);

TINYI_C_END
#endif
