/* src/llm/sample/pieces.h - the pieces of a vocabulary, sorted by their bytes
 *
 *   tllm_pieces *p;
 *   tllm_pieces_open(ctx, bytes, end, n, &p);      piece i is bytes[end[i - 1]] to bytes[end[i] - 1], piece 0 starts at
 *                                                  bytes[0]; an empty piece is never allowed
 *   tllm_grammar_mask(ctx, state, p, may);         may[i]: piece i may come next
 *
 * Sorted neighbours share prefixes. Each entry stores how many bytes it shares with the one before it, so a loop over
 * the list visits the pieces like a walk through their prefix tree, without building the tree. The list is read-only:
 * any number of threads may use it. */
#ifndef TINYI_PIECES_H
#define TINYI_PIECES_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tllm_pieces tllm_pieces;

/* bytes and end are copied. On failure *out is NULL. */
TINY_API tiny_status tllm_pieces_open(tiny_ctx *ctx, const char *bytes, const uint32_t *end, size_t n,
                                      tllm_pieces **out);
TINY_API void tllm_pieces_close(tiny_ctx *ctx, tllm_pieces *p);     /* p may be NULL */
TINY_API size_t tllm_pieces_count(const tllm_pieces *p);

/* ---- inside: what the bodies share ---- */

/* Entry i of the pieces that are not empty: its bytes, how many of them it shares with entry i - 1, its number. */
typedef struct tinyi_piece { const unsigned char *at; uint32_t n, same, id; } tinyi_piece;
TINYI_FN size_t tinyi_pieces_filled(const tllm_pieces *p);
TINYI_FN uint32_t tinyi_pieces_longest(const tllm_pieces *p);
TINYI_FN tinyi_piece tinyi_pieces_at(const tllm_pieces *p, size_t i);

TINYI_C_END
#endif
