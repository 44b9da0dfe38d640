/* tests/core/rng.c - Philox against its authors' vectors, and the functions built on it */
#include "t.h"

/* known answers published with the authors' Random123 (kat_vectors, philox4x32 10) */
static void test_known_answers(void)
{
    static const uint32_t zero[4] = { 0, 0, 0, 0 }, ones[4] = { 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu };
    static const uint32_t pi_c[4] = { 0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u },
                          pi_k[2] = { 0xa4093822u, 0x299f31d0u };
    static const uint32_t want0[4] = { 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u };
    static const uint32_t want1[4] = { 0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu };
    static const uint32_t want2[4] = { 0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u };
    uint32_t out[4];
    tiny_philox(zero, zero, out);
    T_SAME(out, want0, 4);
    tiny_philox(ones, ones, out);
    T_SAME(out, want1, 4);
    tiny_philox(pi_c, pi_k, out);
    T_SAME(out, want2, 4);
}

static void test_streams(void)
{
    tiny_rng a = tiny_rng_make(5, 9), b = tiny_rng_make(5, 9), c = tiny_rng_make(5, 10);
    uint32_t x[7], y;
    int i, same = 0;
    for (i = 0; i < 7; i++) x[i] = tiny_rng_u32(&a);
    b.at = 6;                               /* any number of a stream without those before it */
    y = tiny_rng_u32(&b);
    T_EQ_INT(y, x[6]);
    for (i = 0; i < 7; i++) same += tiny_rng_u32(&c) == x[i];
    T_EQ_INT(same, 0);
    a = tiny_rng_make(0, 0);
    T_EQ_INT(tiny_rng_u64(&a), 0xe169c58d6627e8d5u);
}

/* Every bit of seed, stream and place counts, in the order that the head of core/rng.h describes: counter = (place / 4,
 * stream), key = seed. */
static void test_all_bits(void)
{
    static const uint64_t seed[] = { 1, UINT64_C(0x123456789abcdef0) }, stream[] = { 2, UINT64_C(0xfedcba9876543210) },
                          at[] = { 3, UINT64_C(0x7777777712345678) };
    int k, j;
    for (k = 0; k < 8; k++)
        for (j = 0; j < 5; j++) {
            const uint64_t s = seed[k & 1], t = stream[k >> 1 & 1], p = at[k >> 2] + (uint64_t)j;
            uint32_t counter[4], key[2], out[4];
            tiny_rng r = tiny_rng_make(s, t);
            counter[0] = (uint32_t)(p / 4); counter[1] = (uint32_t)(p / 4 >> 32);
            counter[2] = (uint32_t)t; counter[3] = (uint32_t)(t >> 32);
            key[0] = (uint32_t)s; key[1] = (uint32_t)(s >> 32);
            tiny_philox(counter, key, out);
            r.at = p;
            T_EQ_INT(tiny_rng_u32(&r), out[p % 4]);
        }
}

/* The formula of math/normal.c in libm: u = (a + 1) / 2^32, v = b / 2^32. */
static void test_normal_formula(void)
{
    tiny_rng r = tiny_rng_make(8, 1), q = r;
    int i;
    for (i = 0; i < 5000; i++) {
        double a = tiny_rng_u32(&q), b = tiny_rng_u32(&q),
               z = sqrt(-2.0 * log((a + 1.0) / 4294967296.0)) * cos(2.0 * acos(-1.0) * (b / 4294967296.0));
        if (!T_CLOSE(tiny_rng_normal(&r), z, 6.1e-8 * fabs(z) + 1e-14)) break;
    }
}

static void test_distributions(void)
{
    enum { N = 200000 };
    tiny_rng r = tiny_rng_make(1, 0);
    double sum = 0, square = 0, cube = 0, fourth = 0;
    int count[10] = { 0 }, i;
    for (i = 0; i < N; i++) {
        float u = tiny_rng_uniform(&r);
        double z;
        T_TRUE(u >= 0.0f && u < 1.0f);
        count[(int)(u * 10)]++;
        z = tiny_rng_normal(&r);
        sum += z; square += z * z; cube += z * z * z; fourth += z * z * z * z;
    }
    /* five standard deviations of each estimate */
    for (i = 0; i < 10; i++) T_CLOSE(count[i], N / 10.0, 5 * sqrt(N * 0.09));
    T_CLOSE(sum / N, 0, 5 / sqrt(N));
    T_CLOSE(square / N, 1, 5 * sqrt(2.0 / N));
    T_CLOSE(cube / N, 0, 5 * sqrt(15.0 / N));
    T_CLOSE(fourth / N, 3, 5 * sqrt(96.0 / N));
}

static void test_below_and_permutation(void)
{
    tiny_rng r = tiny_rng_make(3, 3);
    uint32_t p[1000], seen[1000] = { 0 }, i;
    int count[3] = { 0 }, bad = 0;
    T_EQ_INT(tiny_rng_below(&r, 0), 0);
    T_EQ_INT(tiny_rng_below(&r, 1), 0);
    for (i = 0; i < 30000; i++) count[tiny_rng_below(&r, 3)]++;
    for (i = 0; i < 3; i++) T_CLOSE(count[i], 10000, 5 * sqrt(30000 * 2.0 / 9));
    tiny_rng_permutation(&r, p, 1000);
    for (i = 0; i < 1000; i++) { bad += p[i] >= 1000 || seen[p[i] % 1000]++; }
    T_EQ_INT(bad, 0);
    {
        int order[6] = { 0 };               /* all orders of three are as frequent */
        for (i = 0; i < 12000; i++) {
            tiny_rng_permutation(&r, p, 3);
            order[p[0] * 2 + (p[1] > p[2])]++;
        }
        for (i = 0; i < 6; i++) T_CLOSE(order[i], 2000, 5 * sqrt(12000 * 5.0 / 36));
    }
    tiny_rng_permutation(&r, p, 0);
    tiny_rng_permutation(&r, p, 1);
    T_EQ_INT(p[0], 0);
}

int main(void)
{
    T_RUN(test_known_answers);
    T_RUN(test_streams);
    T_RUN(test_all_bits);
    T_RUN(test_normal_formula);
    T_RUN(test_distributions);
    T_RUN(test_below_and_permutation);
    return t_done();
}
