/* src/llm/sample/stop.h - stop strings in a text that arrives in pieces
 *
 * Bytes that may be the beginning of a stop string are held back; all others are passed on at once. A stop string is
 * found even if it is split over several tokens. One pass, one automaton per string (Knuth, Morris, Pratt).
 *
 *     tllm_stop_feed(stop, piece, n, out, &n_out, &stopped);      print out[0..n_out)
 *     tllm_stop_flush(stop, out, &n_out);                         the text ended without a stop: print the rest */
#ifndef TINYI_STOP_H
#define TINYI_STOP_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tllm_stop tllm_stop;

/* strings: n texts that end with 0, copied. An empty one is refused. n 0: nothing is held back. On failure *out is
 * NULL. */
TINY_API tiny_status tllm_stop_open(tiny_ctx *ctx, const char *const *strings, size_t n, tllm_stop **out);
TINY_API void tllm_stop_close(tllm_stop *stop);             /* stop may be NULL */
/* The most bytes that are ever held back. out needs room for the piece and that many bytes. */
TINY_API size_t tllm_stop_held_most(const tllm_stop *stop);
/* Writes the text that is safe to print to out, *n_out bytes. *stopped: the number of the string that was found,
 * counted from 1, or 0. The rest of the piece after the string is dropped, and so is every later piece until
 * tllm_stop_reset. If two strings end at the same byte, the longer one is reported. */
TINY_API void tllm_stop_feed(tllm_stop *stop, const char *piece, size_t n, char *out, size_t *n_out, int *stopped);
/* Writes the bytes still held back: call it when the text ends. out: room for tllm_stop_held_most bytes. */
TINY_API void tllm_stop_flush(tllm_stop *stop, char *out, size_t *n_out);
/* Returns to the state after open, for the next text. */
TINY_API void tllm_stop_reset(tllm_stop *stop);

TINYI_C_END
#endif
