/* tests/ports/hash.h - FNV-1a, 64 bits, and the line that a checksum is printed as */
#ifndef PORT_HASH_H
#define PORT_HASH_H
#include <stdint.h>
#include <stdio.h>

static uint64_t hash;

static void hash_start(void) { hash = UINT64_C(0xcbf29ce484222325); }
static void hash_bits(uint64_t bits, int n_bytes)       /* little-endian */
{
    int i;
    for (i = 0; i < n_bytes; i++) hash = (hash ^ (bits >> 8 * i & 255u)) * UINT64_C(0x100000001b3);
}
static int print_line(const char *name, uint64_t seed)
{
    printf("%s %lu %08lx%08lx\n", name, (unsigned long)seed, (unsigned long)(hash >> 32),
           (unsigned long)(hash & 0xffffffffu));
    return 1;
}

#endif
