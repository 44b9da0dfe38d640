/* src/core/accel.h - the interface for accelerators
 *
 * A back end is a struct of functions. tiny_run calls can_run for each operation; if that returns nonzero, run gets the
 * operation with host tensors. op->kind is always the kind of the row. If a back end declines or fails, the processor
 * computes the operation and the context logs it once.
 *
 * A back end with its own memory keeps two kinds of copies. The host address identifies both.
 *   uploaded   inputs that do not change, such as weights. tiny_upload sends them once; the host keeps the same bytes.
 *   away       outputs that were left on the device (version 2, between tiny_stay(ctx, 1) and tiny_stay(ctx, 0)). Until
 *              they are fetched, the host must neither read nor write those bytes.
 * The context keeps the list of outputs that are away. It fetches them before the processor runs an operation on their
 * memory. Code that touches that memory in any other way calls tiny_download first. */
#ifndef TINYI_ACCEL_H
#define TINYI_ACCEL_H
#include "core/op.h"
TINYI_C_BEGIN

#define TINY_ACCEL_VERSION 3                /* 1 and 2 are accepted too: later members are then not read */

struct tiny_accel {
    int version;                            /* TINY_ACCEL_VERSION, or less */
    const char *name;
    void *user;                             /* passed to every function */
    int (*can_run)(void *user, const tiny_op *op, const tiny_op_row *row);      /* nonzero: yes */
    /* The result is complete on return, or queued until synchronize if that is not NULL. After a failure the processor
     * computes the outputs again, so they may hold anything. An output that is also read (in place, or accumulated
     * into) must be unchanged. says: 256 bytes for the sentence of a failure. */
    tiny_status (*run)(void *user, const tiny_op *op, const tiny_op_row *row, char *says);
    tiny_status (*synchronize)(void *user, char *says);                         /* may be NULL */
    tiny_status (*upload)(void *user, const tiny_tensor *host, char *says);     /* keep a copy; may be NULL */
    tiny_status (*download)(void *user, const tiny_tensor *host, char *says);   /* copy it back; may be NULL */
    void (*forget)(void *user, const tiny_tensor *host);                        /* drop the copy; may be NULL */
    /* From version 2 on; give both or neither. With them, each output of run stays on the device, queued or complete,
     * until the context fetches or discards it. synchronize is then not called: fetch waits for the operations that it
     * needs. fetch and discard get the same tensor. A dense output may be an input of later operations, whole
     * or in part. The whole of it may also be an output again, in place or not, and with other axes. An output with
     * gaps is reused only as the same view. Memory that is used in any other way is fetched before run is called.
     * fetch copies the numbers to the host and ends the stay. If it fails, they are lost and the call that needs them
     * fails. A back end may also write an output to the host at once and do nothing in fetch. */
    tiny_status (*fetch)(void *user, const tiny_tensor *out, char *says);
    void (*discard)(void *user, const tiny_tensor *out);                        /* the numbers are no longer needed */
    /* From version 3 on. Nonzero: it observes operations, and wants all of them on all rows. Models then also compute
     * the rows of their last layers that no result needs. */
    int all_rows;
};

/* These call the accelerator of the context; without one they return TINY_OK. Download also fetches outputs of
 * these bytes that are away. Forget drops results that exist only on the device: call it before you free host memory
 * whose outputs are away. */
TINY_API tiny_status tiny_upload(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_download(tiny_ctx *ctx, const tiny_tensor *host);
TINY_API tiny_status tiny_forget(tiny_ctx *ctx, const tiny_tensor *host);
/* Between tiny_stay(ctx, 1) and tiny_stay(ctx, 0), outputs of operations may stay on the device; calls nest. Call
 * tiny_download before the host touches such an output. Without tiny_stay, every output is fetched when its operation
 * is done. */
TINY_API void tiny_stay(tiny_ctx *ctx, int on);
/* The numbers of outputs left on the device, and of outputs fetched from it. Each fetch may wait for the device. */
TINY_API void tiny_stay_counts(const tiny_ctx *ctx, uint64_t *kept, uint64_t *fetched);
/* The number of operations that the accelerator ran, declined and failed. */
TINY_API void tiny_accel_counts(const tiny_ctx *ctx, uint64_t *answered, uint64_t *declined, uint64_t *failed);

TINYI_C_END
#endif
