/* src/core/accel.h - the hook for other processors
 *
 * A back end is a struct of functions. The door asks can_run for each operation; when it says yes, run gets the
 * operation with host tensors. op->kind is that of the row, whatever the caller gave. A back end that declines, or fails,
 * costs nothing but time: the processor path answers and the context says so once. Buffers are for back ends with memory of their own: a caller uploads a tensor once
 * (weights), and the back end finds its copy again by the host address.                                             */
#ifndef TINYI_ACCEL_H
#define TINYI_ACCEL_H
#include "core/op.h"
TINYI_C_BEGIN

#define TINY_ACCEL_VERSION 1

struct tiny_accel {
    int version;                            /* TINY_ACCEL_VERSION */
    const char *name;
    void *user;                             /* handed to every function */
    int (*can_run)(void *user, const tiny_op *op, const tiny_op_row *row);      /* nonzero: yes */
    /* Complete when it returns, or queued until synchronize if there is one. On failure the outputs may hold anything:
     * they are computed again; but one that is read too (in place, or accumulated into) must be as it was.
     * says points at 256 bytes for a sentence. */
    tiny_status (*run)(void *user, const tiny_op *op, const tiny_op_row *row, char *says);
    tiny_status (*synchronize)(void *user, char *says);                         /* may be NULL */
    tiny_status (*upload)(void *user, const tiny_tensor *host, char *says);     /* keep a copy; may be NULL */
    tiny_status (*download)(void *user, const tiny_tensor *host, char *says);   /* bring it back; may be NULL */
    void (*forget)(void *user, const tiny_tensor *host);                        /* drop the copy; may be NULL */
};

/* Through the accelerator of the context; TINY_OK without one. */
TINY_API tiny_status tiny_upload(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_download(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_forget(tiny_ctx *ctx, const tiny_tensor *host);
/* How many operations the accelerator answered, and how many it declined or failed. */
TINY_API void tiny_accel_counts(const tiny_ctx *ctx, uint64_t *answered, uint64_t *declined, uint64_t *failed);

TINYI_C_END
#endif
