/* src/core/accel.h - the hook for other processors
 *
 * A back end is a struct of functions. The door asks can_run for each operation; when it says yes, run gets the
 * operation with host tensors. op->kind is that of the row, whatever the caller gave. A back end that declines, or
 * fails, costs nothing but time: the processor path answers and the context says so once.
 *
 * Back ends with memory of their own have two kinds of copies, both found again by the address on the host:
 *   uploaded   inputs that stay as they are, such as weights: tiny_upload once, and the host's bytes are the same
 *   away       outputs that were left on the device (version 2, between tiny_stay(ctx, 1) and tiny_stay(ctx, 0)). They
 *              belong to the device until they are fetched; the host neither reads nor writes those bytes before.
 * The door keeps the list of what is away. It fetches before the processor runs an operation on such memory;
 * code that touches it without an operation asks by tiny_download. */
#ifndef TINYI_ACCEL_H
#define TINYI_ACCEL_H
#include "core/op.h"
TINYI_C_BEGIN

#define TINY_ACCEL_VERSION 2                /* 1 is taken as well: the members from fetch on are not read then */

struct tiny_accel {
    int version;                            /* TINY_ACCEL_VERSION, or 1 */
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
    /* From version 2 on, both or neither. With them each output of run stays on the device, queued or complete, until
     * the door fetches it or discards it: synchronize is not called then, fetch waits for what it needs. The tensor is
     * the output as run got it. An output that has no gaps may be an input of further operations, whole or in part, and
     * the whole of it an output again, or in place, also in other axes; one with gaps as the same view only. What other
     * uses touch is fetched before run is called.
     * fetch brings the numbers to the host and ends the stay; when it fails they are lost, and so is the call that
     * needs them. A back end may also write an output to the host at once, and find nothing to do in fetch. */
    tiny_status (*fetch)(void *user, const tiny_tensor *out, char *says);
    void (*discard)(void *user, const tiny_tensor *out);                        /* nobody wants the numbers any more */
};

/* Through the accelerator of the context; TINY_OK without one. Download also fetches all that is away of these bytes,
 * forget gives up what is newer on the device: before memory is freed that outputs were left in. */
TINY_API tiny_status tiny_upload(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_download(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_forget(tiny_ctx *ctx, const tiny_tensor *host);
/* With 1, outputs of the operations that follow may stay on the device, until the same call with 0; calls nest. They
 * are away until they are asked for: tiny_download before the host touches them. Without tiny_stay every output is
 * fetched when its operation is done. */
TINY_API void tiny_stay(tiny_ctx *ctx, int on);
/* Outputs that were left on the device, and those that were fetched from it: each fetch may wait for the device. */
TINY_API void tiny_stay_counts(const tiny_ctx *ctx, uint64_t *kept, uint64_t *fetched);
/* How many operations the accelerator answered, and how many it declined or failed. */
TINY_API void tiny_accel_counts(const tiny_ctx *ctx, uint64_t *answered, uint64_t *declined, uint64_t *failed);

TINYI_C_END
#endif
