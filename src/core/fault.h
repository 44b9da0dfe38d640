/* src/core/fault.h - a transport that does harm on purpose, for tests
 *
 *   tiny_fault_at what[] = { { 1, 3, TINY_FAULT_DROP, 0 } };    the fourth message to rank 1 is lost
 *   tiny_fault_desc d = { inner, what, 1, 0, 0, 0 };
 *   tiny_fault_open(ctx, &d, &fault);
 *   c.net = tiny_fault_net(fault);
 *
 * Only what this rank sends is changed. */
#ifndef TINYI_FAULT_H
#define TINYI_FAULT_H
#include "core/net.h"
TINYI_C_BEGIN

typedef enum tiny_fault_kind {
    TINY_FAULT_DELAY,                       /* by `by` nanoseconds */
    TINY_FAULT_DROP,
    TINY_FAULT_TWICE,
    TINY_FAULT_FLIP,                        /* bit `by` of the message, modulo its length */
    TINY_FAULT_CUT,                         /* `by` bytes are missing at the end */
    TINY_FAULT_KILL,                        /* this rank ends instead */
    TINY_FAULT_REPLAY,                      /* the first message to that rank again instead, up to 4096 bytes of it */
    TINY_FAULT_KINDS
} tiny_fault_kind;
typedef struct tiny_fault_at { int to; uint64_t message; int kind; uint64_t by; } tiny_fault_at;    /* to -1: any */

typedef struct tiny_fault_desc {
    tiny_net *inner;                        /* stays the caller's */
    const tiny_fault_at *at;                /* (n_at), kept by the caller until the end */
    size_t n_at;
    uint64_t jitter_ns, seed;               /* besides, each message is delayed by a random time below jitter_ns */
    /* besides, the messages of this rank leave one after the other at this rate, as through one cable; 0: no limit */
    double bits_per_second;
} tiny_fault_desc;

typedef struct tiny_fault tiny_fault;
TINY_API tiny_status tiny_fault_open(tiny_ctx *ctx, const tiny_fault_desc *desc, tiny_fault **out);
TINY_API tiny_net *tiny_fault_net(tiny_fault *fault);
/* The rate of later messages; 0: no limit. A negative rate or NaN is refused. From the thread that sends. */
TINY_API tiny_status tiny_fault_rate(tiny_ctx *ctx, tiny_fault *fault, double bits_per_second);
TINY_API void tiny_fault_close(tiny_ctx *ctx, tiny_fault *fault);          /* takes NULL */

TINYI_C_END
#endif
