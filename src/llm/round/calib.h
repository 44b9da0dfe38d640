/* src/llm/round/calib.h - statistics of the inputs of a linear layer, used to round its weights
 *
 *   tllm_calib *c;
 *   tllm_calib_open(ctx, n_in, TLLM_CALIB_PRODUCTS, &c);
 *   for (...) tllm_calib_add(ctx, c, x, rows, ld);          batches of any size; the result depends on the order of the
 *                                                           tokens, not on the batches
 *   tiny_tensor h = tllm_calib_products(c);                 for tllm_gptq
 *   tllm_calib_diagonal(c, diag);                           for a clip search, for the importance of block formats
 *   tllm_calib_close(ctx, c);
 *
 * Stored for every input: its sum of squares, its mean and its largest magnitude. On request also the sums of products
 * of every two inputs (n_in^2 doubles), and samples of the inputs. H of the papers is 2 / tokens times these sums. One
 * thread at a time may add to a tllm_calib. */
#ifndef TINYI_CALIB_H
#define TINYI_CALIB_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tllm_calib tllm_calib;
enum {
    /* sums of products, needed by GPTQ and VPTQ but not by AWQ and SmoothQuant */
    TLLM_CALIB_PRODUCTS = 1,
    /* samples of the inputs, needed by AWQ: evenly over all tokens, at most TLLM_CALIB_MOST_SAMPLES */
    TLLM_CALIB_SAMPLES = 2
};
enum { TLLM_CALIB_MOST_SAMPLES = 512 };

/* n: inputs; flags: TLLM_CALIB_... On failure *out is NULL. */
TINY_API tiny_status tllm_calib_open(tiny_ctx *ctx, tiny_idx n, int flags, tllm_calib **out);
TINY_API void tllm_calib_close(tiny_ctx *ctx, tllm_calib *c);       /* c may be NULL; ctx: the one that opened it */
/* bytes that open allocates; 0: overflow */
TINY_API size_t tllm_calib_memory(tiny_idx n, int flags);
/* Adds rows inputs of n numbers, ld apart. A batch with a NaN, an infinity or a magnitude above 5e17 is refused and
 * adds nothing. After a failed allocation or a cancel the sums are invalid, and later batches are refused. */
TINY_API tiny_status tllm_calib_add(tiny_ctx *ctx, tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld);

TINY_API tiny_idx tllm_calib_n(const tllm_calib *c);                /* inputs */
TINY_API uint64_t tllm_calib_tokens(const tllm_calib *c);
/* A view (n, n) f64: the sums of x_i x_j, i <= j, and zeros below. Without products: a tensor without data. */
TINY_API tiny_tensor tllm_calib_products(const tllm_calib *c);
/* The samples, *x: (count, n) dense, in order; returns count, 0: none. They are tokens 0, e, 2 e, ... with e a power of
 * 2. Up to TLLM_CALIB_MOST_SAMPLES tokens, all of them are kept (e is 1); after that always at least half that many. */
TINY_API tiny_idx tllm_calib_samples(const tllm_calib *c, const float **x);
/* n numbers each: the diagonal of H (sum of x^2 times 2 / tokens), the mean of |x|, the largest |x|. Zeros if there are
 * no tokens. */
TINY_API void tllm_calib_diagonal(const tllm_calib *c, float *h);
TINY_API void tllm_calib_mean(const tllm_calib *c, float *mean);
TINY_API void tllm_calib_largest(const tllm_calib *c, float *largest);

TINYI_C_END
#endif
