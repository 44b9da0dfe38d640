/* tests/fuzz/boxed.h - checksums put right, in a box and in the form before there were boxes */
#ifndef FUZZ_BOXED_H
#define FUZZ_BOXED_H
#include "llm/file/kit.h"

KIT_FN void seal_crc(unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    if (n < 4) return;
    for (i = 0; i + 4 < n; i++) for (c ^= p[i], k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    kit_put_le(p + n - 4, ~c, 4);
}
/* old_sum: bytes of the checksum of the older form; inner: the body of a box ends with one, a CRC-32 */
KIT_FN void reseal(unsigned char *p, size_t n, int old_sum, int inner)
{
    if (n >= 224 && !memcmp(p, "\x89tinyck\n", 8)) {
        size_t k = 0, at, body;
        while (k < 23 && p[80 + k]) k++;
        at = 80 + (k + 8) / 8 * 8 + 48;
        body = (size_t)kit_get_le(p + at, 8);
        if (inner && body <= n - 224) seal_crc(p + 192, body);
        kit_put_le(p + n - 8, kit_xxh64(p, n - 8), 8);
    } else if (old_sum == 8 && n >= 8) kit_put_le(p + n - 8, kit_xxh64(p, n - 8), 8);
    else if (old_sum == 4) seal_crc(p, n);
}
#endif
