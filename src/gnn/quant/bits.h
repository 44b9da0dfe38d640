/* src/gnn/quant/bits.h - whole numbers of 1 to 8 bits, one behind the other
 *
 * The lowest bit first: number i lies at the bits i * bits .. i * bits + bits - 1 of the stream, bit k of the stream at
 * bit k % 8 of byte k / 8. The bits behind the last number are 0. Eight numbers are always as many bytes as one has
 * bits. */
#ifndef TINYI_GNN_BITS_H
#define TINYI_GNN_BITS_H
#include "core/config.h"
TINYI_C_BEGIN

/* The bytes of n numbers; SIZE_MAX where that is no size, or bits are not 0 .. 8. Numbers of 0 bits take no byte and
 * are 0. */
TINY_API size_t tgnn_bits_bytes(size_t n, int bits);
/* The lower `bits` bits of each code; what stands above them is left out. */
TINY_API void tgnn_bits_pack(unsigned char *to, const uint8_t *code, size_t n, int bits);
TINY_API void tgnn_bits_unpack(uint8_t *code, const unsigned char *from, size_t n, int bits);

TINYI_C_END
#endif
