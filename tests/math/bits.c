/* tests/math/bits.c - bits that are set and turned matrices of bits, against one bit at a time */
#define T_INTERNALS
#include "t.h"
#include "math/bits_inside.h"

static void test_count(void)
{
    int i, j;
    T_EQ_INT(tinyi_bits_count(0), 0);
    T_EQ_INT(tinyi_bits_count(UINT64_MAX), 64);
    for (i = 0; i < 64; i++) {
        T_EQ_INT(tinyi_bits_count(UINT64_C(1) << i), 1);
        T_EQ_INT(tinyi_bits_count((UINT64_C(1) << i) - 1), i);
    }
    for (i = 0; i < 1000; i++) {
        const uint64_t w = t_rand_u64() & t_rand_u64();
        int n = 0;
        for (j = 0; j < 64; j++) n += (int)(w >> j & 1);
        T_EQ_INT(tinyi_bits_count(w), n);
    }
}

static void test_eight(void)
{
    int i, j, k;
    /* the first row becomes the first column */
    T_TRUE(tinyi_bits_transpose8(UINT64_C(0xff)) == UINT64_C(0x0101010101010101));
    T_TRUE(tinyi_bits_transpose8(UINT64_C(0x8040201008040201)) == UINT64_C(0x8040201008040201));
    T_TRUE(tinyi_bits_transpose8(UINT64_C(0x02) << 56) == UINT64_C(1) << 15);               /* row 7, column 1 */
    for (k = 0; k < 1000; k++) {
        const uint64_t w = t_rand_u64();
        uint64_t want = 0;
        for (i = 0; i < 8; i++)
            for (j = 0; j < 8; j++) want |= (w >> (8 * i + j) & 1) << (8 * j + i);
        T_TRUE(tinyi_bits_transpose8(w) == want);
        T_TRUE(tinyi_bits_transpose8(want) == w);
    }
}

static void test_sixty_four(void)
{
    uint64_t w[64], is[64];
    int i, j, k;
    for (k = 0; k < 50; k++) {
        /* first: the other diagonal, which stays */
        for (i = 0; i < 64; i++) is[i] = w[i] = k ? t_rand_u64() : UINT64_C(1) << (63 - i);
        tinyi_bits_transpose64(w);
        if (!k) T_SAME(w, is, 64);
        for (i = 0; i < 64; i++)
            for (j = 0; j < 64; j++)
                if ((w[i] >> j & 1) != (is[j] >> i & 1)) T_TRUE(!"a bit is at another place");
        tinyi_bits_transpose64(w);
        T_SAME(w, is, 64);
    }
    for (i = 0; i < 64; i++) w[i] = i == 3 ? UINT64_MAX : 0;        /* one row becomes one column */
    tinyi_bits_transpose64(w);
    for (i = 0; i < 64; i++) T_TRUE(w[i] == 8);
}

int main(void)
{
    T_RUN(test_count);
    T_RUN(test_eight);
    T_RUN(test_sixty_four);
    return t_done();
}
