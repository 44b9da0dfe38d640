/* src/math/bits.c - transposes a matrix of 64 x 64 bits
 * Method   H. Warren, "Hacker's Delight", section 7-3: the two off-diagonal blocks of 32 x 32 are exchanged, then
 *          blocks of 16 x 16 within each quarter, down to single bits. A mask selects the bits of a row that move. One
 *          exclusive or finds the bits that differ, two more exchange them.
 * Cost     6 passes over 64 words, 6 operations for each pair of words: 18 for each of the 64 rows, no table. */
#include "math/bits_inside.h"

TINYI_FN void tinyi_bits_transpose64(uint64_t w[64])
{
    uint64_t mask = UINT64_C(0x00000000ffffffff);
    int step, i;
    for (step = 32; step; step >>= 1, mask ^= mask << step)
        for (i = 0; i < 64; i = ((i | step) + 1) & ~step) {
            const uint64_t t = (w[i] >> step ^ w[i | step]) & mask;
            w[i] ^= t << step;
            w[i | step] ^= t;
        }
}
