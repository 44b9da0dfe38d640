/* src/llm/model/rotated.h - extra work of a rotated model: rotations between its matrices, and inputs rounded to few
 * bits
 *
 * llm/round/rotate.h makes such models. Their files have the architecture "rotated-NAME" with the keys of NAME. The
 * keys rotation.feed, rotation.heads and rotation.keys list the rotations. An engine without support does not know the
 * name, so it refuses the file instead of computing invalid results.
 *     FEED    the input of the down matrix of each feed-forward network, by a Hadamard matrix
 *     HEADS   the output of the attention, across its heads
 *     KEYS    queries and keys, after their rotation by position: the scores are unchanged, and keys lose less accuracy
 *             when they are stored in few bits */
#ifndef TINYI_ROTATED_H
#define TINYI_ROTATED_H
#include "core/ctx.h"
TINYI_C_BEGIN

enum { TLLM_ROTATE_FEED = 1, TLLM_ROTATE_HEADS = 2, TLLM_ROTATE_KEYS = 4, TLLM_ROTATE_ALL = 7 };
#define TINYI_ROTATED_PREFIX "rotated-"

/* Rounds rows of n numbers, ld apart, to `bits` bits with one scale per row, in place:
 * s = clip max |x| / (2^(bits-1) - 1), x = s clamp(rint(x / s), -2^(bits-1), 2^(bits-1) - 1). bits: 2 to 8; clip: above
 * 0, at most 1. A row whose maximum is 0 or not finite is unchanged. */
TINY_API tiny_status tllm_round_rows(tiny_ctx *ctx, float *x, tiny_idx rows, tiny_idx n, tiny_idx ld, int bits,
                                     float clip);

TINYI_C_END
#endif
