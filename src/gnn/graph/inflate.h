/* src/gnn/graph/inflate.h - bytes that were packed by gzip or inside a zip file, without a library
 *
 * The result is a block of the context's memory: tiny_free gives it back. most: more bytes than that are refused, so that a
 * small file cannot fill the memory. *used, where it is not NULL, says how many packed bytes belonged to the stream. */
#ifndef TINYI_INFLATE_H
#define TINYI_INFLATE_H
#include "core/ctx.h"
#include "core/hash.h"
TINYI_C_BEGIN

/* A raw stream of RFC 1951. where: what is read, for the sentences. */
TINYI_FN tiny_status tinyi_inflate(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes, size_t most, unsigned char **out, size_t *n_out, size_t *used);
/* A whole gzip file (RFC 1952), also one of several members; sizes and check sums are compared. */
TINYI_FN tiny_status tinyi_gunzip(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes, size_t most, unsigned char **out, size_t *n_out);

TINYI_C_END
#endif
