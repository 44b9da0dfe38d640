/* src/core/box/checkpoint.h - checkpoints: named tensors, numbers and texts in one file
 *
 *   tiny_checkpoint_writer_desc wd = { 0 };
 *   wd.path = "run.ckpt";
 *   if (tiny_checkpoint_create(ctx, &wd, &w)) ...
 *   tiny_checkpoint_put_u64(ctx, w, "step", step);
 *   tiny_checkpoint_put_tensor(ctx, w, "adam.m/w1", &m1);
 *   st = tiny_checkpoint_finish(ctx, w);               the first failure of all the calls above
 *   tiny_checkpoint_writer_close(ctx, w);
 *
 *   tiny_checkpoint_desc rd = { 0 };
 *   rd.path = "run.ckpt";
 *   if (tiny_checkpoint_open(ctx, &rd, &c)) ... the sentence names the file, the entry, the value and the limit ...
 *   st = tiny_checkpoint_get_u64(ctx, c, "step", &step);
 *   if (!st) st = tiny_checkpoint_get_tensor(ctx, c, "adam.m/w1", &m1);     dtype and shape must be those of m1
 *   tiny_checkpoint_close(ctx, c);
 *
 * The writer streams: it keeps names, not values. It writes path.part and renames it to path when the file is complete.
 * After a full disk or a kill the old file is unchanged. The same entries in the same order give the same bytes on
 * every machine. Opening a file checks its checksum and every entry before anything is handed out.
 *
 * Save a tiny_rng as three u64. Save other numbers as tensors: for example n step counters as an i64 tensor of n.
 *
 * Only one thread at a time may use a writer. Any number of threads may read one tiny_checkpoint, each with its own
 * context. docs/guide/checkpoints.md describes the format. */
#ifndef TINYI_CHECKPOINT_H
#define TINYI_CHECKPOINT_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TINY_CHECKPOINT_VERSION 1           /* of the format */
#define TINY_CHECKPOINT_MAX_NAME 1023       /* bytes of a name; at least 1, none of them 0 */
#define TINY_CHECKPOINT_ALIGN 64            /* the values of a tensor begin at a multiple of this */

/* ---- writing -------------------------------------------------------------------------------------------------- */

typedef struct tiny_checkpoint_writer tiny_checkpoint_writer;

typedef struct tiny_checkpoint_writer_desc {
    const char *path;                       /* of the file; NULL: write gets the bytes */
    int (*write)(void *user, const void *bytes, size_t n_bytes);   /* nonzero: it failed */
    void *user;
} tiny_checkpoint_writer_desc;

TINY_API tiny_status tiny_checkpoint_create(tiny_ctx *ctx, const tiny_checkpoint_writer_desc *desc,
                                            tiny_checkpoint_writer **out);
/* Each name may be used once. After a failure every later call returns that failure, so checking the last status is
 * enough. */
TINY_API tiny_status tiny_checkpoint_put_u64(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, uint64_t v);
TINY_API tiny_status tiny_checkpoint_put_f64(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name, double v);
TINY_API tiny_status tiny_checkpoint_put_text(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                              const char *text);
TINY_API tiny_status tiny_checkpoint_put_bytes(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                               const void *bytes, size_t n_bytes);
/* any strides */
TINY_API tiny_status tiny_checkpoint_put_tensor(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                                const tiny_tensor *t);
/* A tensor whose values follow in index order, in pieces of any size. Put all of them before the next entry. */
TINY_API tiny_status tiny_checkpoint_put_begin(tiny_ctx *ctx, tiny_checkpoint_writer *w, const char *name,
                                               tiny_dtype dtype, int rank, const tiny_idx *dim);
TINY_API tiny_status tiny_checkpoint_put_values(tiny_ctx *ctx, tiny_checkpoint_writer *w, const void *values,
                                                size_t n_values);
/* Completes the file and renames it to path. */
TINY_API tiny_status tiny_checkpoint_finish(tiny_ctx *ctx, tiny_checkpoint_writer *w);
/* Removes an unfinished file. Takes NULL. */
TINY_API void tiny_checkpoint_writer_close(tiny_ctx *ctx, tiny_checkpoint_writer *w);

/* ---- reading -------------------------------------------------------------------------------------------------- */

typedef struct tiny_checkpoint tiny_checkpoint;

typedef struct tiny_checkpoint_desc {
    const char *path;                       /* of the file; NULL: it is in memory */
    const void *bytes;                      /* the whole file; must stay until the close */
    size_t n_bytes;
    int copy;                               /* nonzero: read the file into memory instead of mapping it */
    /* nonzero: do not read every byte. Damaged values are not detected; everything else is still checked. */
    int no_checksum;
} tiny_checkpoint_desc;

typedef enum tiny_checkpoint_kind {
    TINY_CHECKPOINT_TENSOR,
    TINY_CHECKPOINT_U64,
    TINY_CHECKPOINT_F64,
    TINY_CHECKPOINT_TEXT,
    TINY_CHECKPOINT_BYTES
} tiny_checkpoint_kind;

typedef struct tiny_checkpoint_entry {
    const char *name;                       /* ended by a 0 */
    tiny_checkpoint_kind kind;
    tiny_dtype dtype;                       /* of a tensor */
    int rank;
    tiny_idx dim[TINY_MAX_RANK];
    /* numbers in little endian; a text is ended by a 0 that n_bytes does not count */
    const unsigned char *at;
    size_t n_bytes;
} tiny_checkpoint_entry;

TINY_API tiny_status tiny_checkpoint_open(tiny_ctx *ctx, const tiny_checkpoint_desc *desc, tiny_checkpoint **out);
TINY_API void tiny_checkpoint_close(tiny_ctx *ctx, tiny_checkpoint *c);                /* takes NULL */
TINY_API size_t tiny_checkpoint_count(const tiny_checkpoint *c);
/* in the order of the file; NULL past the end */
TINY_API const tiny_checkpoint_entry *tiny_checkpoint_at(const tiny_checkpoint *c, size_t i);
/* NULL for an unknown name */
TINY_API const tiny_checkpoint_entry *tiny_checkpoint_find(const tiny_checkpoint *c, const char *name);

/* These fail if there is no such entry or if it is of another kind, type or shape. The output is then unchanged. */
TINY_API tiny_status tiny_checkpoint_get_u64(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name, uint64_t *v);
TINY_API tiny_status tiny_checkpoint_get_f64(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name, double *v);
/* *text and *bytes stay valid until the close. */
TINY_API tiny_status tiny_checkpoint_get_text(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                              const char **text);
TINY_API tiny_status tiny_checkpoint_get_bytes(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                               const void **bytes, size_t *n_bytes);
/* any strides */
TINY_API tiny_status tiny_checkpoint_get_tensor(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                                const tiny_tensor *into);
/* Only the check of get_tensor; data may be NULL. Check all tensors before you read the first: then a mismatch leaves
 * nothing half restored. */
TINY_API tiny_status tiny_checkpoint_expect(tiny_ctx *ctx, const tiny_checkpoint *c, const char *name,
                                            const tiny_tensor *t);

/* ---- inside: what the bodies share ---- */

/* copies n values of size bytes each between memory and file; turned: reverses the bytes of each value */
TINYI_FN void tinyi_ckpt_turn(unsigned char *to, const unsigned char *from, size_t n, size_t size, int turned);

TINYI_C_END
#endif
