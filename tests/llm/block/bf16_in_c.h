/* tests/llm/block/bf16_in_c.h - the product of bfloat16 of AVX-512 in plain C
 *
 * Included before everything else, this header replaces the intrinsic that src/ uses. With it the target avx512 rounds
 * x to bfloat16 for weights of that type on any processor with AVX-512 and VNNI. tests/ports/run.sh has a row for it;
 * the tests of this folder run with it by
 *
 *     make try ONLY=llm/block BUILD=build/bf16 CFLAGS='-O2 -std=c99 -include tests/llm/block/bf16_in_c.h'
 *
 * Source   Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VDPBF16PS. The odd number of a pair
 *          is added before the even one; denormal numbers count as 0, on the way in and out. */
#ifndef T_BF16_IN_C_H
#define T_BF16_IN_C_H
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1                   /* as tests/t.h, which comes too late to define it */
#endif
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#define TINYI_BF16_IN_C 1

static __attribute__((unused)) float t_bf16_flush(float x)
{
    return x > -1.17549435e-38f && x < 1.17549435e-38f ? 0.0f : x;
}
static __attribute__((unused)) float t_bf16_wide(uint32_t high)
{
    float x;
    memcpy(&x, &high, 4);
    return t_bf16_flush(x);
}
static __attribute__((unused, noinline)) void t_bf16_pairs(float *sum, const uint32_t *a, const uint32_t *b)
{
    int i;
    for (i = 0; i < 16; i++) {
        /* the real one fuses each product with its addition; two roundings differ by less than any bound here */
        sum[i] = t_bf16_flush(t_bf16_flush(sum[i]) + t_bf16_wide(a[i] & 0xffff0000u) * t_bf16_wide(b[i] & 0xffff0000u));
        sum[i] = t_bf16_flush(sum[i] + t_bf16_wide(a[i] << 16) * t_bf16_wide(b[i] << 16));
    }
}
static __attribute__((unused, target("avx512f"))) __m512 t_bf16_dot(__m512 sum, __m512i a, __m512i b)
{
    float s[16];
    uint32_t x[16], y[16];
    memcpy(s, &sum, sizeof s);
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    t_bf16_pairs(s, x, y);
    memcpy(&sum, s, sizeof s);
    return sum;
}
#undef _mm512_dpbf16_ps
#define _mm512_dpbf16_ps(s, a, b) t_bf16_dot(s, (__m512i)(a), (__m512i)(b))
#endif
