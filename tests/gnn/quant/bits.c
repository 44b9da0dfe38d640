/* tests/gnn/quant/bits.c - packing of small numbers: there and back for every width and length, and the layout of the
 * head comment, bit by bit */
#define T_GNN
#include "t.h"

static void test_there_and_back(void)
{
    size_t n, i, k;
    int b;
    for (b = 1; b <= 8; b++)
        for (n = 0; n <= 70; n++) {
            const size_t bytes = tgnn_bits_bytes(n, b);
            uint8_t *code = (uint8_t *)t_guarded_bytes(n), *back = (uint8_t *)t_guarded_bytes(n);
            unsigned char *packed = (unsigned char *)t_guarded_bytes(bytes);
            int bad = 0;
            T_EQ_INT(bytes, (n * (size_t)b + 7) / 8);
            /* higher bits are ignored */
            for (i = 0; i < n; i++) code[i] = (uint8_t)t_rand_below(256);
            tgnn_bits_pack(packed, code, n, b);
            T_WALLS(packed, bytes);
            for (i = 0; i < bytes * 8; i++) {
                const size_t at = i / (size_t)b;
                const int want = at < n ? code[at] >> i % (size_t)b & 1 : 0;
                bad += (packed[i / 8] >> i % 8 & 1) != want;
            }
            tgnn_bits_unpack(back, packed, n, b);
            T_WALLS(back, n);
            for (k = 0; k < n; k++) bad += back[k] != (code[k] & ((1 << b) - 1));
            T_EQ_INT(bad, 0);
        }
    T_PROOF("graphs 1", "pack and unpack of numbers is the identity for every b");
}

static void test_by_hand(void)
{
    static const uint8_t code[10] = { 1, 2, 3, 4, 5, 6, 7, 0, 5, 1 };
    unsigned char packed[4];
    uint8_t back[3] = { 9, 9, 9 };
    /* 001 010 011 100 101 110 111 000 101 001, the lowest first: written out on paper */
    tgnn_bits_pack(packed, code, 10, 3);
    T_EQ_INT(packed[0], 0xd1);
    T_EQ_INT(packed[1], 0x58);
    T_EQ_INT(packed[2], 0x1f);
    T_EQ_INT(packed[3], 0x0d);
    tgnn_bits_unpack(back, packed, 3, 0);
    T_TRUE(back[0] == 0 && back[1] == 0 && back[2] == 0);
    back[0] = back[1] = back[2] = 9;
    tgnn_bits_unpack(back, packed, 3, 9);   /* an invalid width: zeros, and nothing is read */
    T_TRUE(back[0] == 0 && back[1] == 0 && back[2] == 0);
    T_EQ_INT(tgnn_bits_bytes(1000, 0), 0);
    T_TRUE(tgnn_bits_bytes(SIZE_MAX / 2, 8) == SIZE_MAX / 2 && tgnn_bits_bytes(SIZE_MAX, 8) == SIZE_MAX &&
           tgnn_bits_bytes(8, 9) == SIZE_MAX && tgnn_bits_bytes(8, -1) == SIZE_MAX);
}

int main(void)
{
    T_RUN(test_there_and_back);
    T_RUN(test_by_hand);
    return t_done();
}
