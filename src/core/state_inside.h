/* src/core/state_inside.h - what a context is inside, and how our files fail */
#ifndef TINYI_STATE_H
#define TINYI_STATE_H
#include "core/accel.h"
#include "core/mem.h"
#include "core/atomic_inside.h"
#if !defined _WIN32 && TINYI_HAVE_ATOMICS && !defined __wasi__ && \
    (!defined __EMSCRIPTEN__ || defined __EMSCRIPTEN_PTHREADS__) && (defined __unix__ || defined __APPLE__)
#define TINYI_HAVE_PTHREAD 1
#include <pthread.h>
#include <sys/time.h>
#else
#define TINYI_HAVE_PTHREAD 0
#endif
/* threads of our own: where OpenMP says that the program has threads, or TINY_PTHREAD does */
#if TINYI_HAVE_PTHREAD && ((defined _OPENMP && !defined TINY_NO_OPENMP) || defined TINY_PTHREAD)
#define TINYI_HAVE_HELPERS 1
#else
#define TINYI_HAVE_HELPERS 0
#endif
TINYI_C_BEGIN

#if TINYI_HAVE_PTHREAD
/* Waits under the lock for ns, a second at most. The system's clock may be set back meanwhile, so a caller that must
 * not wait longer asks for less and looks again. */
TINYI_INLINE void tinyi_wait(pthread_cond_t *wake, pthread_mutex_t *lock, uint64_t ns)
{
    struct timeval day;
    struct timespec until;
    if (gettimeofday(&day, NULL)) return;
    ns = TINYI_MIN(ns, UINT64_C(1000000000)) + (uint64_t)day.tv_usec * 1000u;
    until.tv_sec = day.tv_sec + (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    (void)pthread_cond_timedwait(wake, lock, &until);
}
#endif

/* A row of the table, part by part:
 *
 *     TINYI_ROW tinyi_row_rmsnorm = TINYI_ROW_OF("rmsnorm", TINY_OP_RMSNORM, TAKES(2, 1), GIVES(1), ...);
 *
 * All parts are there, in this order; NULL is "none". A column that is added to tiny_op_row is added here, with its
 * default for every row; rows that have something else in it get a second macro that takes one part more. The parts are
 * pasted to a prefix before anything expands them, so no macro of a program with such a name is in the way. */
#define TINYI_ROW_OF(name, kind, takes, gives, params, flags, shape, reference, fast, cost, cases, bound, terms,       \
                     gradient, kernels, says)                                                                          \
    { name, kind, TINYI_PART_##takes, TINYI_PART_##gives, TINYI_PART_##params, TINYI_PART_##flags, TINYI_PART_##shape, \
      TINYI_PART_##reference, TINYI_PART_##fast, TINYI_PART_##cost, TINYI_PART_##cases, TINYI_PART_##bound,            \
      TINYI_PART_##terms, TINYI_PART_##gradient, NULL /* relevance */, TINYI_PART_##kernels, TINYI_PART_##says,       \
      TINYI_NAME_##params }
#define TINYI_PART_TAKES(n_in, n_in_needed) n_in, n_in_needed
#define TINYI_PART_GIVES(n_out) n_out
#define TINYI_PART_PARAMS(type) sizeof(type)
#define TINYI_PART_NO_PARAMS 0
#define TINYI_NAME_PARAMS(type) #type
#define TINYI_NAME_NO_PARAMS NULL
#define TINYI_PART_FLAGS(flags) flags
#define TINYI_PART_FAST(function, work) function, work
#define TINYI_PART_COST(function) function
#define TINYI_PART_BOUND(kind, k, k_per_n) { kind, k, k_per_n }
#define TINYI_PART_TERMS(function) function
#define TINYI_PART_KERNELS(slots) slots
#define TINYI_PART_SAYS(formula) formula
/* what a program without the feature has not */
#ifdef TINYI_NO_TRAIN
#define TINYI_PART_GRADIENT(function) NULL
#else
#define TINYI_PART_GRADIENT(function) function
#endif
#ifdef TINYI_NO_CONFORM
#define TINYI_PART_CASES(function) (1 ? NULL : function)
#else
#define TINYI_PART_CASES(function) function
#endif
/* what tiny_run, the reference and accelerators want of a row, and a model does not */
#ifdef TINYI_NO_OPS
#define TINYI_PART_SHAPE(function) (1 ? NULL : function)
#define TINYI_PART_REFERENCE(function) (1 ? NULL : function)
#else
#define TINYI_PART_SHAPE(function) function
#define TINYI_PART_REFERENCE(function) function
#endif

#define TINYI_CTX_MAGIC 0x796e6974u         /* "tiny" */
#define TINYI_MESSAGE_BYTES 512

typedef struct tinyi_helper tinyi_helper;   /* core/thread.c */

/* The operations that a header adds to those of core and math: kinds from first to end - 1, each with its row, or NULL
 * if it is left out. Core cannot name them. So a function that looks up rows gets a list of wings, ended by NULL: the
 * functions of TINYI_DOORS from their header, all others from the context. */
typedef struct tinyi_wing { int first, end; const tiny_op_row *(*row)(int kind); } tinyi_wing;

struct tiny_ctx {
    uint32_t magic, version;
    tiny_ctx_desc desc;
    const tinyi_wing *const *wings;         /* of the header that opened it */
    tiny_target target, ran_on;
    unsigned cpu;                           /* TINY_CPU_ bits */
    int n_threads, n_cpus, own_malloc;      /* own_malloc: the allocator is the default one */
    size_t bytes_held;                      /* of tiny_alloc, as asked for */
    struct tiny_kernels *k;
    struct tinyi_tune *tune;                /* core/tune.c; NULL: each operation runs on target */
    tiny_arena work;                        /* workspace of the running operation */
    tiny_recording *recording;
    uint64_t accel_answered, accel_declined, accel_failed, accel_kept, accel_fetched;
    int accel_said;                         /* the failure of the accelerator was told */
    int stay;                               /* depth of tiny_stay */
    struct tinyi_away *away;                /* outputs that are on the device only: see core/accel.c */
    size_t n_away, cap_away;
    int in_region;
    tiny_idx gate;                          /* of the region: see core/thread.c */
    struct tiny_region *region;
    /* n_threads - 1; the first n_helpers of them run, in the process helpers_of */
    tinyi_helper *helpers;
    int n_helpers;
    tiny_idx helpers_of;
    tiny_status status;
    char message[TINYI_MESSAGE_BYTES];
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;                   /* sleeping place of the barriers */
    pthread_cond_t wake;
#endif
    tiny_idx at_cpu, waker; /* processor of the region's caller; the thread that woke the last sleeper */
    /* when, under the lock; pages that this process had read from disk before the caller slept */
    uint64_t woke_at, faults;
};

/* a sentence into room bytes; one that is longer ends with dots */
TINYI_FN void tinyi_keep_says(char *to, size_t room, const char *sentence);

/* Leaves the sentence in the context, tells the log, returns the status. ctx may be NULL. */
#ifndef TINY_NO_MESSAGES
TINYI_FN tiny_status tinyi_fail(tiny_ctx *ctx, tiny_status status, const char *format, ...) TINYI_PRINTF(3, 4);
TINYI_FN void tinyi_log(tiny_ctx *ctx, tiny_log_level level, const char *format, ...) TINYI_PRINTF(3, 4);
#else /* the sentences are read by the compiler, for the sake of its warnings, and go */
TINYI_FN tiny_status tinyi_fail_short(tiny_ctx *ctx, tiny_status status);
TINYI_INLINE int tinyi_unsaid(const char *format, ...) TINYI_PRINTF(1, 2);
TINYI_INLINE int tinyi_unsaid(const char *format, ...) { return format != NULL; }
#define tinyi_fail(ctx, status, ...) (0 ? (void)tinyi_unsaid(__VA_ARGS__) : (void)0, tinyi_fail_short(ctx, status))
#define tinyi_log(ctx, level, ...) (0 ? (void)tinyi_unsaid(__VA_ARGS__) : (void)(ctx))
#endif
/* NULL, freed or foreign contexts are refused. */
TINYI_FN tiny_status tinyi_ctx_check(const tiny_ctx *ctx);

/* the workspace of at least bytes; grows the arena between operations only */
TINYI_FN tiny_status tinyi_work_reserve(tiny_ctx *ctx, size_t bytes);

/* the table of kernels for a target; math knows its layout */
TINYI_FN size_t tinyi_kernels_bytes(void);
TINYI_FN void tinyi_kernels_fill(struct tiny_kernels *k, tiny_target target, unsigned cpu);
TINYI_FN tiny_target tinyi_kernel_from(const struct tiny_kernels *k, int slot);
TINYI_FN const char *tinyi_kernel_name(int slot);
TINYI_FN int tinyi_target_available(tiny_target target, unsigned cpu);

TINYI_FN const tiny_op_row *tinyi_op_row_of(const tinyi_wing *const *wings, int kind);
TINYI_FN const tiny_op_row *tinyi_op_row_at(const tinyi_wing *const *wings, size_t i);
TINYI_FN const tiny_op_row *tinyi_op_row_find(const tinyi_wing *const *wings, const char *name);
TINYI_FN tiny_cost tinyi_op_row_cost(const tinyi_wing *const *wings, const tiny_op *op);
TINYI_FN tiny_status tinyi_ctx_open(const tiny_ctx_desc *desc, const tinyi_wing *const *wings, tiny_ctx **out);
/* The shared functions that answer by the operations of their header, and the wings of the headers before it in this
 * unit. */
#define TINYI_DOORS(wings)                                                                                \
    TINY_API tiny_status tiny_ctx_open(const tiny_ctx_desc *desc, tiny_ctx **out)                         \
    {                                                                                                     \
        return tinyi_ctx_open(desc, wings, out);                                                          \
    }                                                                                                     \
    TINY_API const tiny_op_row *tiny_op_find(const char *name) { return tinyi_op_row_find(wings, name); } \
    TINY_API const tiny_op_row *tiny_op_at(size_t i) { return tinyi_op_row_at(wings, i); }                \
    TINY_API const tiny_op_row *tiny_op_row_of(int kind) { return tinyi_op_row_of(wings, kind); }         \
    TINY_API tiny_cost tiny_op_cost(const tiny_op *op) { return tinyi_op_row_cost(wings, op); }
#define TINYI_WINGS_BEFORE
/* ROW(kind, function of the row, 1 or 0: it is here) as a case of the function of a wing */
#define TINYI_WING_CASE(kind, row, here) TINYI_CAT(TINYI_WING_CASE_, here)(kind, row)
#define TINYI_WING_CASE_1(kind, row) case kind: return row();
#define TINYI_WING_CASE_0(kind, row)

/* The accelerator's part of the door, in core/accel.c; a context without one has nothing away.
 *   run           *answered: it gave the answer. Not: all that the operation touches is in the host's memory again.
 *   home_numbers  before the checks, which read integers
 *   home, drop    what is newer on the device, of bytes from p on: brought back, or not wanted any more */
TINYI_FN tiny_status tinyi_accel_run(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row, int wide, int *answered);
TINYI_FN tiny_status tinyi_accel_home_op(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);
TINYI_FN tiny_status tinyi_accel_home_numbers(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);
TINYI_FN tiny_status tinyi_accel_home(tiny_ctx *ctx, const void *p, size_t bytes);
TINYI_FN void tinyi_accel_drop(tiny_ctx *ctx, const void *p, size_t bytes);
#define TINYI_HOME(ctx, p, bytes) (TINYI_HAS(OPS) && (ctx)->n_away ? tinyi_accel_home(ctx, p, bytes) : TINY_OK)

/* The row of an operation, its own or that of its kind; NULL: unknown. Where there is no context it is one of core or
 * math. */
TINYI_FN const tiny_op_row *tinyi_op_row_in(const tiny_ctx *ctx, const tiny_op *op);
TINYI_FN const tiny_op_row *tinyi_op_row(const tiny_op *op);
/* tiny_run for an operation that its caller has put together rightly: the fast path does not check it once more. The
 * reference, accelerators and recordings get the whole door. */
TINYI_FN tiny_status tinyi_op_known(tiny_ctx *ctx, const tiny_op *op);
/* in one region, as tiny_run_list */
TINYI_FN tiny_status tinyi_ops_known(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);
/* True if the reference, an accelerator or a recorder must see every operation. */
TINYI_FN int tinyi_op_watched(const tiny_ctx *ctx);
/* how many threads a cost keeps busy */
TINYI_FN int tinyi_cost_threads(const tiny_ctx *ctx, const tiny_cost *c);
/* the checks of tiny_run alone */
TINYI_FN tiny_status tinyi_op_checked(tiny_ctx *ctx, const tiny_op *op);
/* A typed call: up to two inputs (NULL: not given), one output. */
TINYI_FN tiny_status tinyi_call(tiny_ctx *ctx, int kind, const tiny_tensor *a, const tiny_tensor *b, const void *params,
                                const tiny_tensor *y);
/* for shape functions: want = dtype, rank, dims */
/* tiny_tensor_check, and where the numbers of a view that passed lie: from *first to before *end, both 0 when there are
 * none */
TINYI_FN tiny_status tinyi_tensor_reach(const tiny_tensor *t, uintptr_t *first, uintptr_t *end);
TINYI_FN void tinyi_want(tiny_tensor *want, tiny_dtype dtype, int rank, const tiny_idx *dim);
/* "4x128 f32" */
TINYI_FN const char *tinyi_shape_text(const tiny_tensor *t, char text[96]);

/* The cancel callback has asked to stop: pieces were left out, and what they should have written is not there. Told for
 * sure by thread 0 only, which asks it. */
TINYI_FN int tinyi_team_stopped(const tiny_team *team);

/* Called by thread 0 before the barrier that begins the phase: sets the last phase in which a helper may join a loose
 * region (default 1). A late helper runs through the finished phases without work, so its path must depend only on the
 * operation. */
TINYI_FN void tinyi_team_until(tiny_team *team, tiny_idx phase);
/* tiny_parallel, and with loose tiny_parallel_loose, for a context that was checked */
TINYI_FN tiny_status tinyi_region_open(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes,
                                       tiny_team_fn fn, void *arg, int loose);
#if TINYI_HAVE_HELPERS
TINYI_FN void tinyi_helpers_close(tiny_ctx *ctx);
#endif

TINYI_FN void tinyi_record(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);

TINYI_C_END
#endif
