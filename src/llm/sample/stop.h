/* src/llm/sample/stop.h - stop strings in a text that arrives in pieces
 *
 * Bytes that may still become part of a stop string are held back; the others are given out at once. A stop string is
 * found wherever token borders fall. One pass, one automaton a string (Knuth, Morris, Pratt).
 *
 *     tllm_stop_feed(stop, piece, n, out, &n_out, &stopped);      print out[0..n_out)
 *     tllm_stop_flush(stop, out, &n_out);                         the end of the text without a stop */
#ifndef TINYI_STOP_H
#define TINYI_STOP_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tllm_stop tllm_stop;

/* Strings end with 0; empty ones are refused. n = 0: nothing is held back. */
TINY_API tiny_status tllm_stop_open(tiny_ctx *ctx, const char *const *strings, size_t n, tllm_stop **out);
TINY_API void tllm_stop_close(tllm_stop *stop);             /* takes NULL */
/* The most bytes that are ever held back: out needs room for the piece and so many. */
TINY_API size_t tllm_stop_held_most(const tllm_stop *stop);
/* *stopped: the number of the string that was found, counted from 1, or 0; what follows it in the piece is dropped, and
 * so is every later piece until tllm_stop_reset. Of two that end at the same byte the longer one counts. */
TINY_API void tllm_stop_feed(tllm_stop *stop, const char *piece, size_t n, char *out, size_t *n_out, int *stopped);
TINY_API void tllm_stop_flush(tllm_stop *stop, char *out, size_t *n_out);
TINY_API void tllm_stop_reset(tllm_stop *stop);

TINYI_C_END
#endif
