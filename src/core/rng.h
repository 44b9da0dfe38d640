/* src/core/rng.h - counter-based random numbers: Philox 4x32-10
 *
 * Paper   J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * Number i of a stream depends only on (seed, stream, i). So any thread may draw any number, in any order, and every
 * machine draws the same bits. */
#ifndef TINYI_RNG_H
#define TINYI_RNG_H
#include "core/status.h"
TINYI_C_BEGIN

typedef struct tiny_rng { uint64_t seed, stream, at; } tiny_rng;    /* at counts 32-bit numbers */

TINY_API void tiny_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
TINY_API tiny_rng tiny_rng_make(uint64_t seed, uint64_t stream);
TINY_API uint32_t tiny_rng_u32(tiny_rng *r);
TINY_API uint64_t tiny_rng_u64(tiny_rng *r);
TINY_API uint32_t tiny_rng_below(tiny_rng *r, uint32_t n);  /* 0..n-1 without bias; 0 for n = 0 */
TINY_API float tiny_rng_uniform(tiny_rng *r);               /* [0, 1), 24 bits */
TINY_API double tiny_rng_uniform64(tiny_rng *r);            /* [0, 1), 53 bits */
TINY_API float tiny_rng_normal(tiny_rng *r);                /* Box-Muller, uses up two numbers */
TINY_API void tiny_rng_fill_normal(tiny_rng *r, float *x, size_t n);
TINY_API void tiny_rng_fill_uniform(tiny_rng *r, float *x, size_t n, float low, float high);
TINY_API void tiny_rng_permutation(tiny_rng *r, uint32_t *p, uint32_t n);   /* Fisher-Yates */

TINYI_C_END
#endif
