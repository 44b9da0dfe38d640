/* src/llm/model/rotated.h - a model that was rotated, while it runs: what is turned between its matrices, and inputs
 * rounded to few bits
 *
 * Such a file has the architecture "rotated-NAME", whose keys are those of NAME; rotation.feed, rotation.heads and
 * rotation.keys say what is turned.
 * An engine that does not know of it refuses the name, and does not compute something else.
 *     FEED    the input of the last matrix of each network by a Hadamard matrix
 *     HEADS   the output of the attention across its heads
 *     KEYS    queries and keys behind their rotation by position: scores stay, and keys are easier to keep in few
 *             bits */
#ifndef TINYI_ROTATED_H
#define TINYI_ROTATED_H
#include "core/ctx.h"
TINYI_C_BEGIN

enum { TLLM_ROTATE_FEED = 1, TLLM_ROTATE_HEADS = 2, TLLM_ROTATE_KEYS = 4, TLLM_ROTATE_ALL = 7 };
#define TINYI_ROTATED_PREFIX "rotated-"

/* Rows of n numbers, ld apart, each to `bits` bits with one scale: s = clip max |x| / (2^(bits-1) - 1), x = s
 * clamp(rint(x / s), -2^(bits-1), 2^(bits-1) - 1).
 * In place; bits 2 to 8; clip above 0, at most 1. A row without a finite maximum above 0 stays as it is. */
TINY_API tiny_status tllm_round_rows(tiny_ctx *ctx, float *x, tiny_idx rows, tiny_idx n, tiny_idx ld, int bits,
                                     float clip);

TINYI_C_END
#endif
