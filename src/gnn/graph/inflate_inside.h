/* src/gnn/graph/inflate_inside.h - bytes that were packed by gzip or inside a zip file, without a library
 *
 * The result is a block of the context's memory: tiny_free gives it back. most: more bytes than that are refused, so
 * that a small file cannot fill the memory. */
#ifndef TINYI_INFLATE_H
#define TINYI_INFLATE_H
#include "core/ctx.h"
#include "core/hash_inside.h"
TINYI_C_BEGIN

/* A raw stream of RFC 1951. where: what is read, for the sentences. */
TINYI_FN tiny_status tinyi_inflate(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                   size_t most, unsigned char **out, size_t *n_out);
/* A whole gzip file (RFC 1952), also one of several members; sizes and check sums are compared. */
TINYI_FN tiny_status tinyi_gunzip(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                  size_t most, unsigned char **out, size_t *n_out);

/* The same from pieces and in pieces, in memory that does not grow. */
typedef struct tinyi_gunzip_pipe {
    /* the next piece of the file; *n 0: it has ended */
    tiny_status (*more)(void *arg, const unsigned char **bytes, size_t *n);
    tiny_status (*take)(void *arg, const unsigned char *bytes, size_t n);      /* what was unpacked */
    void *arg;
    /* of n_window bytes, TINYI_GUNZIP_WINDOW or more: what copies may reach back to, and what is not taken yet */
    unsigned char *window;
    size_t n_window;
    uint64_t most;
} tinyi_gunzip_pipe;
#define TINYI_GUNZIP_WINDOW 65536
TINYI_FN tiny_status tinyi_gunzip_by(tiny_ctx *ctx, const char *where, const tinyi_gunzip_pipe *pipe);

TINYI_C_END
#endif
