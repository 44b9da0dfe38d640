/* src/core/hash.c - XXH64 with seed 0
 * Paper    Y. Collet, "xxHash fast digest algorithm", specification 0.1.1, section XXH64.
 * Formula  four lanes take 8 bytes each of every stripe of 32: lane = rotl(lane + word * P2, 31) * P1; then the lanes
 *          are merged, the tail is taken by 8, 4 and 1 bytes, and the bits are mixed. Words are little endian on every
 *          machine.
 * Cost     two multiplications for 8 bytes in four independent chains: near the speed of memory.
 * Why      every step is one to one in its word, so that a change within one word cannot cancel itself before the
 *          merge; a CRC would promise the same for bursts, at a tenth of the speed without special instructions.
 * Left out seeds. */
#include "core/bytes.h"
#include "core/hash_inside.h"
#include <string.h>

#define TINYI_HASH_P1 UINT64_C(0x9E3779B185EBCA87)
#define TINYI_HASH_P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define TINYI_HASH_P3 UINT64_C(0x165667B19E3779F9)
#define TINYI_HASH_P4 UINT64_C(0x85EBCA77C2B2AE63)
#define TINYI_HASH_P5 UINT64_C(0x27D4EB2F165667C5)

TINYI_INLINE uint64_t tinyi_hash_rotl(uint64_t x, int n) { return x << n | x >> (64 - n); }
TINYI_INLINE uint64_t tinyi_hash_round(uint64_t lane, uint64_t word)
{
    return tinyi_hash_rotl(lane + word * TINYI_HASH_P2, 31) * TINYI_HASH_P1;
}

void tinyi_hash_start(tinyi_hash *h)
{
    memset(h, 0, sizeof *h);
    h->lane[0] = TINYI_HASH_P1 + TINYI_HASH_P2;
    h->lane[1] = TINYI_HASH_P2;
    h->lane[3] = 0 - TINYI_HASH_P1;
}

static void tinyi_hash_stripes(tinyi_hash *h, const unsigned char *p, size_t n_stripes)
{
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];
    for (; n_stripes; n_stripes--, p += 32) {
        a = tinyi_hash_round(a, tinyi_le64(p));
        b = tinyi_hash_round(b, tinyi_le64(p + 8));
        c = tinyi_hash_round(c, tinyi_le64(p + 16));
        d = tinyi_hash_round(d, tinyi_le64(p + 24));
    }
    h->lane[0] = a; h->lane[1] = b; h->lane[2] = c; h->lane[3] = d;
}

void tinyi_hash_add(tinyi_hash *h, const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t waiting = (size_t)(h->n_bytes % 32);
    if (!n) return;                         /* bytes may be NULL then */
    h->n_bytes += n;
    if (waiting) {
        size_t take = TINYI_MIN(n, 32 - waiting);
        memcpy(h->rest + waiting, p, take);
        if (waiting + take < 32) return;
        tinyi_hash_stripes(h, h->rest, 1);
        p += take;
        n -= take;
    }
    tinyi_hash_stripes(h, p, n / 32);
    if (n % 32) memcpy(h->rest, p + n / 32 * 32, n % 32);
}

uint64_t tinyi_hash_value(const tinyi_hash *h)
{
    const unsigned char *p = h->rest;
    size_t left = (size_t)(h->n_bytes % 32);
    uint64_t v = TINYI_HASH_P5;
    int i;
    if (h->n_bytes >= 32) {
        v = tinyi_hash_rotl(h->lane[0], 1) + tinyi_hash_rotl(h->lane[1], 7) + tinyi_hash_rotl(h->lane[2], 12) +
            tinyi_hash_rotl(h->lane[3], 18);
        for (i = 0; i < 4; i++) v = (v ^ tinyi_hash_round(0, h->lane[i])) * TINYI_HASH_P1 + TINYI_HASH_P4;
    }
    v += h->n_bytes;
    for (; left >= 8; left -= 8, p += 8)
        v = tinyi_hash_rotl(v ^ tinyi_hash_round(0, tinyi_le64(p)), 27) * TINYI_HASH_P1 + TINYI_HASH_P4;
    if (left >= 4) {
        v = tinyi_hash_rotl(v ^ tinyi_le32(p) * TINYI_HASH_P1, 23) * TINYI_HASH_P2 + TINYI_HASH_P3;
        left -= 4;
        p += 4;
    }
    for (; left; left--, p++) v = tinyi_hash_rotl(v ^ *p * TINYI_HASH_P5, 11) * TINYI_HASH_P1;
    v = (v ^ v >> 33) * TINYI_HASH_P2;
    v = (v ^ v >> 29) * TINYI_HASH_P3;
    return v ^ v >> 32;
}

uint64_t tinyi_hash_of(const void *bytes, size_t n)
{
    tinyi_hash h;
    tinyi_hash_start(&h);
    tinyi_hash_add(&h, bytes, n);
    return tinyi_hash_value(&h);
}

uint32_t tinyi_crc32(uint32_t crc, const unsigned char *bytes, size_t n_bytes)
{
    uint32_t table[256], c;
    size_t i;
    int k;
    for (i = 0; i < 256; i++) {
        c = (uint32_t)i;
        for (k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    crc = ~crc;
    for (i = 0; i < n_bytes; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
    return ~crc;
}
