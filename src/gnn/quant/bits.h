/* src/gnn/quant/bits.h - packed integers of 1 to 8 bits
 *
 * The lowest bit comes first: number i has the bits i * bits .. i * bits + bits - 1 of the stream, and bit k of the
 * stream is bit k % 8 of byte k / 8. The bits after the last number are 0. Eight numbers take `bits` bytes. */
#ifndef TINYI_GNN_BITS_H
#define TINYI_GNN_BITS_H
#include "core/config.h"
TINYI_C_BEGIN

/* The size of n numbers in bytes; SIZE_MAX if it overflows or if bits is not 0 .. 8. Numbers of 0 bits take no bytes
 * and are 0. */
TINY_API size_t tgnn_bits_bytes(size_t n, int bits);
/* Packs the lower `bits` bits of each code and ignores the others. */
TINY_API void tgnn_bits_pack(unsigned char *to, const uint8_t *code, size_t n, int bits);
TINY_API void tgnn_bits_unpack(uint8_t *code, const unsigned char *from, size_t n, int bits);

TINYI_C_END
#endif
