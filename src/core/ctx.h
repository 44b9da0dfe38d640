/* src/core/ctx.h - the context: every choice that the library leaves to the program
 *
 * A context holds the allocator, the threads, the SIMD target, the accelerator and the callbacks. Two contexts share
 * nothing and may run on different targets in one process. Only one thread at a time may call with a context. */
#ifndef TINYI_CTX_H
#define TINYI_CTX_H
#include "core/tensor.h"
TINYI_C_BEGIN

typedef struct tiny_ctx tiny_ctx;
typedef struct tiny_accel tiny_accel;       /* core/accel.h */
typedef struct tiny_recording tiny_recording; /* core/record.h */

/* AUTO takes the fastest target that runs on this processor. REFERENCE runs the reference of every operation. */
#define TINYI_TARGETS(T) \
    T(REFERENCE, "reference") T(SCALAR, "scalar") T(W128, "w128") T(NEON, "neon") T(AVX2, "avx2") T(AVX512, "avx512") \
    T(AMX, "amx")
#define TINYI_TARGET_ENUM(name, text) TINY_TARGET_##name,
typedef enum tiny_target { TINY_TARGET_AUTO, TINYI_TARGETS(TINYI_TARGET_ENUM) TINY_TARGET_COUNT } tiny_target;
#undef TINYI_TARGET_ENUM

/* The library calls realloc_fn from one thread at a time. It works like realloc: with old NULL it allocates; with
 * n_bytes 0 it frees and returns NULL. old_bytes is the size that was requested for old. Memory must be aligned for any
 * scalar type; the library makes larger alignments itself. */
typedef struct tiny_allocator {
    void *(*realloc_fn)(void *user, void *old, size_t old_bytes, size_t n_bytes);
    void *user;
} tiny_allocator;

/* run calls task(arg, 0) ... task(arg, n - 1) on n threads AT THE SAME TIME (they wait for each other) and returns when
 * all have returned. If it cannot start all of them, it must run none and return nonzero. One thread then does the
 * work. */
typedef struct tiny_pool {
    int (*run)(void *user, int n, void (*task)(void *arg, int i), void *arg);
    void *user;
} tiny_pool;

typedef enum tiny_log_level { TINY_LOG_INFO, TINY_LOG_WARNING, TINY_LOG_ERROR } tiny_log_level;

#define TINY_MAX_THREADS 256

typedef struct tiny_ctx_desc {              /* all zero: the sensible default */
    tiny_allocator allocator;
    tiny_pool pool;
    int n_threads;                          /* 0: one per processor */
    tiny_target target;                     /* AUTO also reads TINY_TARGET from the environment */
    const tiny_accel *accel;                /* tried first for every operation; may be NULL */
    size_t max_bytes;                       /* the most memory that the context may hold; 0: no limit */
    void (*log)(void *user, tiny_log_level level, const char *sentence);
    void (*progress)(void *user, const char *what, double done);    /* done: 0..1 */
    int (*cancel)(void *user);              /* nonzero stops the call; one thread polls it often */
    void *user;
} tiny_ctx_desc;

/* desc may be NULL. On failure *out is NULL, and desc->log gets the sentence because no context exists to keep it. */
TINY_API TINYI_EACH tiny_status tiny_ctx_open(const tiny_ctx_desc *desc, tiny_ctx **out);
TINY_API void tiny_ctx_close(tiny_ctx *ctx);                /* last, after everything made with it; takes NULL */

TINY_API tiny_status tiny_ctx_status(const tiny_ctx *ctx);  /* of the last call that failed */
TINY_API const char *tiny_ctx_message(const tiny_ctx *ctx); /* its sentence; "" if no call has failed */
TINY_API int tiny_ctx_threads(const tiny_ctx *ctx);
TINY_API tiny_target tiny_ctx_target(const tiny_ctx *ctx);
/* the target of the kernel that ran last; REFERENCE for a reference */
TINY_API tiny_target tiny_ctx_ran_on(const tiny_ctx *ctx);
TINY_API size_t tiny_ctx_bytes(const tiny_ctx *ctx);        /* memory that it holds at this moment */

TINY_API const char *tiny_target_name(tiny_target target);
TINY_API tiny_target tiny_target_by_name(const char *name); /* TINY_TARGET_COUNT for an unknown name */
TINY_API int tiny_target_runs_here(tiny_target target);     /* compiled in, and supported by the processor */

/* A table as text: the kernel of each operation and its target. If the chosen target has no kernel of its own, the
 * table shows the next slower target that has one. Returns the size of the whole text with its final 0. Writes at most
 * n_bytes, always terminated. */
TINY_API size_t tiny_ctx_report(const tiny_ctx *ctx, char *text, size_t n_bytes);

TINYI_C_END
#endif
