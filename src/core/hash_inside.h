/* src/core/hash_inside.h - a checksum of 64 bits over a stream of bytes
 *
 * It detects accidental damage of a file. It has no key, so it does not detect an attack. */
#ifndef TINYI_HASH_H
#define TINYI_HASH_H
#include "core/status.h"
TINYI_C_BEGIN

typedef struct tinyi_hash {
    uint64_t lane[4], n_bytes;
    unsigned char rest[32];                 /* n_bytes % 32 of them wait for their stripe */
} tinyi_hash;

TINYI_FN void tinyi_hash_start(tinyi_hash *h);
TINYI_FN void tinyi_hash_add(tinyi_hash *h, const void *bytes, size_t n);      /* in pieces of any size */
TINYI_FN uint64_t tinyi_hash_value(const tinyi_hash *h);                       /* of all so far; more may follow */
TINYI_FN uint64_t tinyi_hash_of(const void *bytes, size_t n);

/* CRC-32 of the reflected polynomial edb88320, as zip, gzip and PNG have it: for formats that ask for it. Start with
 * 0. */
TINYI_FN uint32_t tinyi_crc32(uint32_t crc, const unsigned char *bytes, size_t n_bytes);

TINYI_C_END
#endif
