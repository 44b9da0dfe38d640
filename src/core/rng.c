/* src/core/rng.c */
#include "core/rng.h"

TINY_API void tiny_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0, c1, c2, c3, k0, k1;
    int round;
    if (!counter || !key || !out) return;
    c0 = counter[0]; c1 = counter[1]; c2 = counter[2]; c3 = counter[3]; k0 = key[0]; k1 = key[1];
    for (round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;                  /* golden ratio, and the square root of 3 minus 1, of the paper */
        k1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

TINY_API tiny_rng tiny_rng_make(uint64_t seed, uint64_t stream)
{
    tiny_rng r;
    r.seed = seed;
    r.stream = stream;
    r.at = 0;
    return r;
}

/* four numbers share a counter; the block is computed again for each: the state stays three plain words */
TINY_API uint32_t tiny_rng_u32(tiny_rng *r)
{
    uint32_t counter[4], key[2], out[4];
    uint64_t block;
    if (!r) return 0;
    block = r->at >> 2;
    counter[0] = (uint32_t)block;
    counter[1] = (uint32_t)(block >> 32);
    counter[2] = (uint32_t)r->stream;
    counter[3] = (uint32_t)(r->stream >> 32);
    key[0] = (uint32_t)r->seed;
    key[1] = (uint32_t)(r->seed >> 32);
    tiny_philox(counter, key, out);
    return out[r->at++ & 3];
}

TINY_API uint64_t tiny_rng_u64(tiny_rng *r)
{
    uint64_t low = tiny_rng_u32(r);
    return low | (uint64_t)tiny_rng_u32(r) << 32;
}

/* Lemire's multiply, with the rejection that takes its bias away */
TINY_API uint32_t tiny_rng_below(tiny_rng *r, uint32_t n)
{
    uint64_t m;
    uint32_t least;
    if (!r || n == 0) return 0;
    least = (uint32_t)(0u - n) % n;
    do m = (uint64_t)tiny_rng_u32(r) * n; while ((uint32_t)m < least);
    return (uint32_t)(m >> 32);
}

TINY_REF_BEGIN
TINY_API float tiny_rng_uniform(tiny_rng *r) { return (float)(tiny_rng_u32(r) >> 8) * (1.0f / 16777216.0f); }

TINY_API double tiny_rng_uniform64(tiny_rng *r) { return (double)(tiny_rng_u64(r) >> 11) * (1.0 / 9007199254740992.0); }

TINY_API void tiny_rng_fill_uniform(tiny_rng *r, float *x, size_t n, float low, float high)
{
    size_t i;
    for (i = 0; r && x && i < n; i++) x[i] = low + (high - low) * tiny_rng_uniform(r);
}
TINY_REF_END

TINY_API void tiny_rng_permutation(tiny_rng *r, uint32_t *p, uint32_t n)
{
    uint32_t i;
    if (!r || !p) return;
    for (i = 0; i < n; i++) p[i] = i;
    for (i = n; i > 1; i--) {
        uint32_t j = tiny_rng_below(r, i), t = p[i - 1];
        p[i - 1] = p[j];
        p[j] = t;
    }
}
