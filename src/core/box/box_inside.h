/* src/core/box/box_inside.h - the container that all files of our own are
 *
 *   front     8 bytes 89 "tinyck" 0a, u32 version, u32 64
 *   section   u32 kind, u32 dtype, u32 rank, u32 n_name, u64 dim[4], u64 n_bytes, the name, zeros, the values, zeros
 *   end       8 bytes "tinyend" 0a, u64 sections, u64 bytes of the file, u64 XXH64 of all before it
 *
 * All little endian. Zeros go up to the next multiple of 8, at least one after a name and a text, and before the
 * values of a tensor up to the next multiple of 64, so that a mapped file is used in place. What means nothing is
 * 0: there is one way to write a box. Count and checksum stand at the end, so that a pipe can be written to.
 * core/box/checkpoint.h writes and reads boxes of many sections.
 *
 * A format with a layout of its own is a box of two: a text "what", its name and version, and a tensor of bytes
 * "body". Its first TINYI_BOX_FRONT bytes are the same for all bodies of one length. Files from before there were
 * boxes begin with a magic of their own and are still read: tinyi_box_body answers with the body of either.
 *
 * Not boxes: what travels in pieces over a line (chunks of llm/lab/kvcodec, frames of core/net) or is the operand
 * of an operation (a matrix of llm/lab/vptq in memory). 224 bytes around each would cost more than they tell.  */
#ifndef TINYI_BOX_H
#define TINYI_BOX_H
#include "core/bytes.h"
#include "core/file.h"
#include "core/hash_inside.h"
TINYI_C_BEGIN

#define TINYI_BOX_VERSION 1
#define TINYI_BOX_ALIGN 64
#define TINYI_BOX_HEAD 16
#define TINYI_BOX_SECTION 56                /* without name and values */
#define TINYI_BOX_END 32

TINYI_FN int tinyi_box_is(const void *bytes, size_t n);        /* do these bytes begin a box? */

/* ---- writing: a stream, to a file that is whole or not there, or to a function */

typedef struct tinyi_box {
    const char *path;                       /* as in sentences */
    int (*write)(void *user, const void *bytes, size_t n);     /* NULL: to the file */
    void *user;
    tinyi_out out;
    tinyi_hash hash;                        /* of all so far, and how many bytes */
} tinyi_box;

/* Opens the file and writes the front. After a failure of any of these the caller abandons; after finish it may. */
TINYI_FN tiny_status tinyi_box_begin(tiny_ctx *ctx, tinyi_box *b, const char *path, int (*write)(void *, const void *,
                                     size_t), void *user);
TINYI_FN tiny_status tinyi_box_add(tiny_ctx *ctx, tinyi_box *b, const void *bytes, size_t n);
TINYI_FN tiny_status tinyi_box_zeros(tiny_ctx *ctx, tinyi_box *b, size_t least, size_t align);
TINYI_FN tiny_status tinyi_box_finish(tiny_ctx *ctx, tinyi_box *b, uint64_t n_sections);
TINYI_FN void tinyi_box_abandon(tiny_ctx *ctx, tinyi_box *b);
/* Everything of a section before its name. */
TINYI_FN void tinyi_box_section(unsigned char head[TINYI_BOX_SECTION], unsigned kind, unsigned dtype, int rank,
                                size_t n_name, const tiny_idx *dim, uint64_t n_bytes);

/* ---- reading: version, end, size and checksum are looked at; *inside: the sections, *n_sections as it says */

TINYI_FN tiny_status tinyi_box_frame(tiny_ctx *ctx, const char *path, const char *called, const void *bytes, size_t n,
                                     int no_checksum, tinyi_cursor *inside,
                                     uint64_t *n_sections);

/* ---- boxes of one body */

typedef struct tinyi_box_kind {
    const char *what, *called;              /* "csl", and in the sentence that it is none "matrix of tiles" */
    int version;                            /* "csl 2" stands in the box */
    const char *magic;                      /* 8 bytes at the start of the older form, a u32 version after them */
    int old_version;                        /* 0: its reader looks */
    int old_skip;                           /* bytes before its body: 12, or 0 */
    /* bytes of its checksum at the end: 4 CRC-32, 8 XXH64, 0: its reader looks */
    int old_sum;
    size_t least;                           /* bytes of a body */
} tinyi_box_kind;

#define TINYI_BOX_FRONT 192                 /* bytes before a body */
#define TINYI_BOX_UP(n, align) (((n) + (align) - 1) / (align) * (align))
#define TINYI_BOX_BYTES(n_body) (TINYI_BOX_FRONT + TINYI_BOX_UP(n_body, 8) + TINYI_BOX_END)

TINYI_FN void tinyi_box_front(const tinyi_box_kind *kind, uint64_t n_body, unsigned char front[TINYI_BOX_FRONT]);
/* hash: of what stands before the end */
TINYI_FN void tinyi_box_end(uint64_t n_sections, uint64_t n_bytes, const tinyi_hash *hash,
                            unsigned char end[TINYI_BOX_END]);
/* The box around a body that stands at box + TINYI_BOX_FRONT; TINYI_BOX_BYTES of room. */
TINYI_FN void tinyi_box_seal(const tinyi_box_kind *kind, unsigned char *box, size_t n_body);
/* The same into a file: the body follows by tinyi_box_add, then tinyi_box_done, which abandons where st is a
 * failure. */
TINYI_FN tiny_status tinyi_box_open(tiny_ctx *ctx, tinyi_box *b, const char *path, const tinyi_box_kind *kind,
                                    uint64_t n_body);
TINYI_FN tiny_status tinyi_box_done(tiny_ctx *ctx, tinyi_box *b, tiny_status st);
/* Do these bytes begin as a box of this kind, of any version, or as its older form? */
TINYI_FN int tinyi_box_says(const tinyi_box_kind *kind, const void *bytes, size_t n);
/* *body: all of it; *old: it is of the older form. where: of the bytes, for sentences. */
TINYI_FN tiny_status tinyi_box_body(tiny_ctx *ctx, const char *where, const tinyi_box_kind *kind, const void *bytes,
                                    size_t n, int no_checksum, tinyi_cursor *body,
                                    int *old);

TINYI_C_END
#endif
