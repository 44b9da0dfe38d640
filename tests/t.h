/* tests/t.h - the runner of our tests, in one file
 *
 *     #include "t.h"                             first, before any system header
 *     static void test_sum(tiny_target target)   once for each SIMD target of this machine
 *     {
 *         tiny_ctx *ctx = t_ctx(target, 2);
 *         float *x = t_rand(17, -1.0f, 1.0f), *y = t_guarded(17);
 *         ...
 *         T_CLOSE(y[0], 3.5, 1e-6);
 *         T_WALLS(y, 17);
 *         T_RAN_ON(ctx, target);
 *         t_close(ctx);
 *     }
 *     int main(void) { T_RUN(test_by_hand); T_RUN_TARGETS(test_sum); return t_done(); }
 *
 * A test is a function (and a target); it fails when one of its checks does. Memory of t_rand, t_guarded and t_keep is
 * freed when it returns. Numbers are the same in every run. T_ONLY=name in the environment runs the tests with name in
 * their name. Define T_GNN before the include to test tinygnn.h, T_INTERNALS to reach its tinyi_ functions: then the
 * declarations are those of src/, and the bodies still the stitched ones, compiled with TINYI_OPEN. */
#ifndef T_H
#define T_H

#if !defined _DEFAULT_SOURCE && !defined _WIN32
#define _DEFAULT_SOURCE 1                   /* mmap with MAP_ANONYMOUS, sigaction */
#endif
#ifdef T_INTERNALS
#include "gnn/tinygnn.h"
#include "core/cpu_inside.h"
#include "core/half_inside.h"
#include "core/hash_inside.h"
#include "core/state_inside.h"
#include "core/target.h"
#include "math/table_inside.h"
#elif defined T_GNN
#include "tinygnn.h"
#else
#include "tinyllm.h"
#endif

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined __unix__ || defined __APPLE__
#include <sys/mman.h>
#include <signal.h>
#include <unistd.h>
#define T_PAGES 1
#else
#define T_PAGES 0
#endif
#if T_PAGES && !defined __EMSCRIPTEN__ && !defined __wasi__
#include <pthread.h>
#define T_PTHREAD 1
#else
#define T_PTHREAD 0
#endif

/* 1 under the address sanitizer, which ends the program at a fault that a test makes on purpose */
#if defined __SANITIZE_ADDRESS__
#define T_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define T_ASAN 1
#endif
#endif
#ifndef T_ASAN
#define T_ASAN 0
#endif

/* 1 where a program runs ten times slower than it does for users */
#if T_ASAN || defined __SANITIZE_THREAD__
#define T_SLOW 1
#else
#define T_SLOW 0
#endif

#include "place.h"
#define T_COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct {
    const char *test;                       /* the running one */
    tiny_target target;                     /* 0 when it runs once */
    int passed, failed, skipped;            /* tests */
    int checks_failed, was_skipped;         /* in this one */
    int n_cases, n_here;                    /* files that the test names, and those that are present */
    const char *proof[24];                  /* the proofs that it shows, if it passes */
    size_t n_proof;
    tiny_ctx *ctx;                          /* opened last */
    uint64_t rand_at;
    struct t_block *blocks;
} t_now;

/* ---- checks ------------------------------------------------------------------------------------------------------ */

TINYI_PRINTF(3, 4) T_FN void t_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    if (t_now.checks_failed++ >= 8) return; /* the first few are enough */
    printf("%s:%d: %s%s%s%s: ", file, line, t_now.test ? t_now.test : "main", t_now.target ? " [" : "",
           t_now.target ? tiny_target_name(t_now.target) : "", t_now.target ? "]" : "");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

T_FN int t_true(int ok, const char *file, int line, const char *what)
{
    if (!ok) t_fail(file, line, "%s", what);
    return ok;
}
T_FN int t_close_to(double got, double want, double bound, const char *file, int line, const char *what)
{
    /* inf is near itself and NaN near NaN; written so that a NaN bound fails */
    int ok = got == want || (got != got && want != want) || fabs(got - want) <= bound;
    if (!ok)
        t_fail(file, line, "%s is %.9g, not %.9g within %.3g (off by %.3g)", what, got, want, bound, fabs(got - want));
    return ok;
}
T_FN int t_equal_int(intmax_t got, intmax_t want, const char *file, int line, const char *what)
{
    if (got != want) t_fail(file, line, "%s is %" PRIdMAX ", not %" PRIdMAX, what, got, want);
    return got == want;
}
T_FN int t_equal_text(const char *got, const char *want, const char *file, int line, const char *what)
{
    int ok = got && want && !strcmp(got, want);
    if (!ok) t_fail(file, line, "%s is \"%s\", not \"%s\"", what, got ? got : "(null)", want ? want : "(null)");
    return ok;
}
T_FN int t_same(const void *a, const void *b, size_t n, size_t size, const char *file, int line, const char *what)
{
    const unsigned char *p = (const unsigned char *)a, *q = (const unsigned char *)b;
    size_t i, k;
    char x[40], y[40];
    for (i = 0; i < n; i++) {
        if (!memcmp(p + i * size, q + i * size, size)) continue;
        for (k = 0; k < size && k < 16; k++) {
            (void)snprintf(x + 2 * k, 3, "%02x", p[i * size + k]);
            (void)snprintf(y + 2 * k, 3, "%02x", q[i * size + k]);
        }
        t_fail(file, line, "%s differ first at %lu of %lu: bytes %s, not %s", what, (unsigned long)i, (unsigned long)n,
               x, y);
        return 0;
    }
    return 1;
}
T_FN int t_status(tiny_status got, tiny_status want, const char *part, const char *file, int line, const char *what)
{
    const char *says = t_now.ctx ? tiny_ctx_message(t_now.ctx) : "";
    if (got != want)
        t_fail(file, line, "%s answers \"%s\", not \"%s\" (%s)", what, tiny_status_text(got), tiny_status_text(want),
               says);
    else if (part && !strstr(says, part)) t_fail(file, line, "%s says \"%s\", without \"%s\"", what, says, part);
    else return 1;
    return 0;
}

#define T_TRUE(x) t_true(!!(x), __FILE__, __LINE__, #x)
#define T_EQ_INT(got, want) t_equal_int((intmax_t)(got), (intmax_t)(want), __FILE__, __LINE__, #got)
#define T_EQ_TEXT(got, want) t_equal_text(got, want, __FILE__, __LINE__, #got)
#define T_CLOSE(got, want, bound) t_close_to((double)(got), (double)(want), (double)(bound), __FILE__, __LINE__, #got)
/* n elements, bit for bit: -0 is not 0, and a NaN is its own kind only */
#define T_SAME(a, b, n) t_same(a, b, (size_t)(n), sizeof *(a), __FILE__, __LINE__, #a " and " #b)
/* the sentence of the context that t_ctx opened last (or t_use named) must hold part; NULL: any */
#define T_STATUS(call, want, part) t_status(call, want, part, __FILE__, __LINE__, #call)
#define T_OK(call) T_STATUS(call, TINY_OK, NULL)
/* the target whose kernels a context takes for all but products: AMX only multiplies */
#define t_vectors(target) ((target) == TINY_TARGET_AMX ? TINY_TARGET_AVX512 : (target))
/* where the kernels come from that avx512 takes from avx2 (math/targets.c) */
#define t_narrow(target)                                                                              \
    (t_vectors(target) == TINY_TARGET_AVX512 && tiny_target_runs_here(TINY_TARGET_AVX2) ? TINY_TARGET_AVX2 \
                                                                                        : t_vectors(target))
#define T_RAN_ON(ctx, target) t_ran_on(ctx, target, __FILE__, __LINE__)
#define T_SKIP(why) t_skip(why)
/* At the end of a test: it proves a claim of the entry, in these words:
 * T_PROOF("attention 3", "KV bytes counted are N_tree"). One line of the source; tests/run.sh counts them for each
 * entry, and ignores those of a program with a failure. */
#define T_PROOF(entry, item) t_proof(entry ": " item, __FILE__, __LINE__)

T_FN void t_use(tiny_ctx *ctx) { t_now.ctx = ctx; }

T_FN int t_ran_on(const tiny_ctx *ctx, tiny_target want, const char *file, int line)
{
    tiny_target got = tiny_ctx_ran_on(ctx);
    if (got != want) t_fail(file, line, "it ran on %s, not on %s", tiny_target_name(got), tiny_target_name(want));
    return got == want;
}

T_FN void t_skip(const char *why)
{
    printf("skipped: %s: %s\n", t_now.test ? t_now.test : "main", why);
    t_now.was_skipped = 1;
}

T_FN void t_proof(const char *what, const char *file, int line)
{
    if (t_now.n_proof == T_COUNT(t_now.proof)) t_fail(file, line, "too many proofs in a test");
    else t_now.proof[t_now.n_proof++] = what;
}

/* ---- memory that lives as long as the test ----------------------------------------------------------------------- */

struct t_block { struct t_block *next; unsigned char *base, *data; size_t base_bytes, bytes; int paged; };
#define T_WALL_BYTES 4096
#define T_WALL_BYTE(i) ((unsigned char)(0xa5u ^ ((i) * 29u)))

T_FN void *t_out_of_memory(void) { puts("the test itself has no memory"); exit(2); }

/* bytes of memory; the byte before is a wall that T_WALLS checks; the byte after faults where pages can be protected */
T_FN void *t_guarded_bytes(size_t bytes)
{
    struct t_block *b = (struct t_block *)calloc(1, sizeof *b);
    size_t i;
    if (!b) return t_out_of_memory();
#if T_PAGES
    {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t inside = (T_WALL_BYTES + bytes + page - 1) / page * page;
        void *base = mmap(NULL, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base != MAP_FAILED && mprotect((unsigned char *)base + inside, page, PROT_NONE)) {
            (void)munmap(base, inside + page);
        } else if (base != MAP_FAILED) {
            b->base = (unsigned char *)base;
            b->base_bytes = inside + page;
            b->data = b->base + inside - bytes;
            b->paged = 1;
        }
    }
#endif
    if (!b->base) {
        b->base_bytes = bytes + 2 * T_WALL_BYTES;
        b->base = (unsigned char *)malloc(b->base_bytes);
        if (!b->base) return t_out_of_memory();
        b->data = b->base + T_WALL_BYTES;
    }
    b->bytes = bytes;
    for (i = 1; i <= T_WALL_BYTES; i++) b->data[-(ptrdiff_t)i] = T_WALL_BYTE(i);
    for (i = 0; i < T_WALL_BYTES && !b->paged; i++) b->data[bytes + i] = T_WALL_BYTE(i);
    memset(b->data, 0x77, bytes);           /* neither zero nor a likely answer */
    b->next = t_now.blocks;
    t_now.blocks = b;
    return b->data;
}
T_FN float *t_guarded(size_t n) { return (float *)t_guarded_bytes(n * sizeof(float)); }

/* plain memory, any alignment a type may want, cleared */
T_FN void *t_keep(size_t bytes)
{
    size_t whole = (bytes + 63) / 64 * 64;
    return memset(t_guarded_bytes(whole + 64), 0, bytes);
}

T_FN int t_walls(const void *data, const char *file, int line, const char *what)
{
    const struct t_block *b;
    size_t i;
    for (b = t_now.blocks; b && b->data != data; b = b->next) {}
    if (!b) { t_fail(file, line, "%s has no walls", what); return 0; }
    for (i = 1; i <= T_WALL_BYTES; i++)
        if (b->data[-(ptrdiff_t)i] != T_WALL_BYTE(i)) {
            t_fail(file, line, "%s: written %lu bytes before", what, (unsigned long)i);
            return 0;
        }
    for (i = 0; i < T_WALL_BYTES && !b->paged; i++)
        if (b->data[b->bytes + i] != T_WALL_BYTE(i)) {
            t_fail(file, line, "%s: written %lu bytes after", what, (unsigned long)i + 1);
            return 0;
        }
    return 1;
}
/* nothing was written outside the n elements that t_guarded gave */
#define T_WALLS(p, n) ((void)(n), t_walls(p, __FILE__, __LINE__, #p))

T_FN void t_free_blocks(void)
{
    while (t_now.blocks) {
        struct t_block *b = t_now.blocks;
        t_now.blocks = b->next;
#if T_PAGES
        if (b->paged) (void)munmap(b->base, b->base_bytes);
#endif
        if (!b->paged) free(b->base);
        free(b);
    }
}

/* ---- numbers: number i of a test is a hash of i (splitmix64) ----------------------------------------------------- */

T_FN uint64_t t_rand_u64(void)
{
    uint64_t z = (t_now.rand_at += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
T_FN uint32_t t_rand_below(uint32_t n) { return n ? (uint32_t)((t_rand_u64() >> 32) * n >> 32) : 0; }
T_FN float t_rand_float(float lo, float hi) { return lo + (hi - lo) * ((float)(t_rand_u64() >> 40) / 16777216.0f); }
/* processor time of this program: it grows with work that is too slow by an order, and not with other load on the
 * machine */
T_FN double t_seconds(void) { return (double)clock() / (double)CLOCKS_PER_SEC; }
T_FN float *t_rand(size_t n, float lo, float hi)
{
    float *x = t_guarded(n);
    size_t i;
    for (i = 0; i < n; i++) x[i] = t_rand_float(lo, hi);
    return x;
}

/* ---- an allocator that counts, and fails on request -------------------------------------------------------------- */

static struct {
    long n_calls;                           /* allocations since t_each_next or the start of the test */
    long live_blocks;
    size_t live_bytes, most_bytes;
    long fail_at;                           /* the fail_at-th fails; 0: none */
    int for_ever;                           /* and all after it */
    int hit;                                /* one has failed */
    long before;                            /* T_EACH_ALLOCATION: blocks alive at its start */
    int mode;
} t_alloc;

typedef union t_alloc_head { size_t bytes; long double align; void *p; char room[32]; } t_alloc_head;

T_FN void *t_alloc_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    t_alloc_head *h = old ? (t_alloc_head *)old - 1 : NULL, *fresh;
    (void)user;
    if ((h ? h->bytes : 0) != old_bytes) t_fail(__FILE__, __LINE__, "a block of %lu bytes is handed back as one of %lu",
                                                (unsigned long)(h ? h->bytes : 0), (unsigned long)old_bytes);
    if (!n_bytes) {
        if (h) {
            t_alloc.live_blocks--;
            t_alloc.live_bytes -= h->bytes;
            memset(h, 0x5a, sizeof *h + h->bytes);
            free(h);
        }
        return NULL;
    }
    t_alloc.n_calls++;
    if (t_alloc.fail_at &&
        (t_alloc.n_calls == t_alloc.fail_at || (t_alloc.for_ever && t_alloc.n_calls > t_alloc.fail_at))) {
        t_alloc.hit = 1;
        return NULL;
    }
    /* as malloc does; the address sanitizer ends the program instead */
    if (n_bytes > SIZE_MAX - sizeof *h || n_bytes / 1048576 > 524288) return NULL;
    fresh = (t_alloc_head *)malloc(sizeof *h + n_bytes);   /* always another place: a stale pointer shows */
    if (!fresh) return NULL;
    memset(fresh + 1, 0xd6, n_bytes);
    fresh->bytes = n_bytes;
    if (h) {
        memcpy(fresh + 1, h + 1, h->bytes < n_bytes ? h->bytes : n_bytes);
        t_alloc.live_bytes -= h->bytes;
        free(h);
    } else {
        t_alloc.live_blocks++;
    }
    t_alloc.live_bytes += n_bytes;
    if (t_alloc.live_bytes > t_alloc.most_bytes) t_alloc.most_bytes = t_alloc.live_bytes;
    return fresh + 1;
}

/* The body runs again and again: its 1st allocation fails, its 2nd, ... until none is left to fail; then once more,
 * with all later ones failing too. After each run nothing may be left over. The body's contexts take t_desc(). */
#define T_EACH_ALLOCATION(...) \
    for (t_each_start(); t_each_next(__FILE__, __LINE__);) { __VA_ARGS__ }

T_FN void t_each_start(void)
{
    t_alloc.mode = 0;
    t_alloc.fail_at = 0;
    t_alloc.before = t_alloc.live_blocks;
}
T_FN int t_each_next(const char *file, int line)
{
    if (t_alloc.fail_at && t_alloc.live_blocks != t_alloc.before) {
        t_fail(file, line, "after allocation %ld failed%s, %ld blocks are left over", t_alloc.fail_at,
               t_alloc.for_ever ? " and all later ones" : "", t_alloc.live_blocks - t_alloc.before);
        t_alloc.before = t_alloc.live_blocks;
    }
    if (t_alloc.fail_at && !t_alloc.hit) {  /* it had fewer allocations: this mode is through */
        t_alloc.mode++;
        t_alloc.fail_at = 0;
    }
    t_alloc.n_calls = 0;
    t_alloc.hit = 0;
    t_alloc.for_ever = t_alloc.mode == 1;
    if (t_alloc.mode > 1) { t_alloc.fail_at = 0; t_alloc.for_ever = 0; return 0; }
    t_alloc.fail_at++;
    return 1;
}

/* ---- threads without OpenMP -------------------------------------------------------------------------------------- */

#if T_PTHREAD
typedef struct t_pool_job { void (*task)(void *arg, int i); void *arg; int i; } t_pool_job;
T_FN void *t_pool_thread(void *p)
{
    t_pool_job *job = (t_pool_job *)p;
    job->task(job->arg, job->i);
    return NULL;
}
/* All tasks run at the same time, so all threads must be there before the first one starts: a gate holds them. */
static pthread_mutex_t t_pool_gate = PTHREAD_MUTEX_INITIALIZER;
typedef struct t_pool_gated { t_pool_job job; int *go; } t_pool_gated;
T_FN void *t_pool_gated_thread(void *p)
{
    t_pool_gated *g = (t_pool_gated *)p;
    int go;
    (void)pthread_mutex_lock(&t_pool_gate);
    go = *g->go;
    (void)pthread_mutex_unlock(&t_pool_gate);
    return go ? t_pool_thread(&g->job) : NULL;
}
T_FN int t_pool_run(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    pthread_t thread[TINY_MAX_THREADS];
    t_pool_gated gated[TINY_MAX_THREADS];
    int i, started = 0, go;
    (void)user;
    (void)pthread_mutex_lock(&t_pool_gate);
    for (i = 1; i < n; i++, started++) {
        gated[i].job.task = task;
        gated[i].job.arg = arg;
        gated[i].job.i = i;
        gated[i].go = &go;
        if (pthread_create(&thread[i], NULL, t_pool_gated_thread, &gated[i])) break;
    }
    go = started == n - 1;
    (void)pthread_mutex_unlock(&t_pool_gate);
    if (go) task(arg, 0);
    for (i = 1; i <= started; i++) (void)pthread_join(thread[i], NULL);
    return !go;
}
#endif

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

T_FN tiny_ctx_desc t_desc(tiny_target target, int n_threads)
{
    tiny_ctx_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.allocator.realloc_fn = t_alloc_realloc;
    desc.target = target;
    desc.n_threads = n_threads;
#if T_PTHREAD && !defined _OPENMP && !defined TINY_PTHREAD
    desc.pool.run = t_pool_run;
#endif
    return desc;
}
T_FN tiny_ctx *t_ctx(tiny_target target, int n_threads)
{
    tiny_ctx_desc desc = t_desc(target, n_threads);
    tiny_ctx *ctx = NULL;
    tiny_status st = tiny_ctx_open(&desc, &ctx);
    if (st) { printf("%s: no context: %s\n", t_now.test ? t_now.test : "main", tiny_status_text(st)); exit(2); }
    t_now.ctx = ctx;
    return ctx;
}
T_FN void t_close(tiny_ctx *ctx)
{
    tiny_ctx_close(ctx);
    if (t_now.ctx == ctx) t_now.ctx = NULL;
}

/* Resident anonymous KB of this process; 0 where the system does not report them, or where they do not show the
 * requested page size: not Linux, under a sanitizer, and where the system gives large pages without a request. */
T_FN unsigned long t_resident(void)
{
    unsigned long kb = 0;
#if defined __linux__ && !T_SLOW
    char line[256];
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "rb");
    const int always = f && fgets(line, sizeof line, f) && strstr(line, "[always]");
    if (f) (void)fclose(f);
    f = always ? NULL : fopen("/proc/self/status", "rb");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %lu", &kb) != 1) {}
    if (f) (void)fclose(f);
#endif
    return kb;
}

/* fn(0, arg) ... fn(world - 1, arg), each in a thread, all at the same time. They must not use the checks T_...: they
 * store their findings in arg, and take contexts of t_rank_ctx. 0 and a skipped test where there are no threads. */
typedef struct t_ranks_of { void (*fn)(int rank, void *arg); void *arg; int world, ran; } t_ranks_of;
T_FN void t_ranks_team(tiny_team *team, void *p)
{
    t_ranks_of *r = (t_ranks_of *)p;
    if (team->i == 0) r->ran = team->n == r->world;
    if (team->n == r->world) r->fn(team->i, r->arg);
}
T_FN int t_ranks(int world, void (*fn)(int rank, void *arg), void *arg)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, world);
    tiny_ctx *ctx = NULL;
    t_ranks_of r;
    memset(&r, 0, sizeof r);
    r.fn = fn;
    r.arg = arg;
    r.world = world;
    if (!tiny_ctx_open(&desc, &ctx)) (void)tiny_parallel(ctx, world, 0, 0, t_ranks_team, &r);
    tiny_ctx_close(ctx);
    if (!r.ran) t_skip("no threads for the ranks");
    return r.ran;
}
T_FN tiny_ctx *t_rank_ctx(tiny_target target)
{
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    memset(&desc, 0, sizeof desc);
    desc.target = target;
    desc.n_threads = 1;
    (void)tiny_ctx_open(&desc, &ctx);
    return ctx;
}

/* the conformance kit over a row outside the table */
#ifndef TINY_NO_CONFORM
T_FN void t_conform_row(void *user, const tiny_conform_row *row)
{
    (void)user;
    T_EQ_INT(row->n_failed, 0);
    if (row->n_failed) printf("  %s\n", row->first_failure);
}
T_FN void t_conform(tiny_target target, const tiny_op_row *row, int n_cases)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const tiny_op_row *list[2];
    tiny_conform_desc desc;
    int failed = -1;
    memset(&desc, 0, sizeof desc);
    list[0] = row;
    list[1] = NULL;
    desc.rows = list;
    desc.row = t_conform_row;
    desc.n_cases = n_cases;
    T_OK(tiny_conform(ctx, &desc, &failed));
    T_EQ_INT(failed, 0);
    t_close(ctx);
}
#endif

/* ---- running ----------------------------------------------------------------------------------------------------- */

#if T_PAGES
T_FN void t_on_fault(int sig)
{
    static const char says[] = ": memory outside was touched, or worse\n0 passed, 1 failed\n";
    const char *name = t_now.test ? t_now.test : "main", *target = t_now.target ? tiny_target_name(t_now.target) : "";
    if (write(1, name, strlen(name)) < 0 || write(1, " ", 1) < 0 || write(1, target, strlen(target)) < 0) _exit(2);
    if (write(1, says, sizeof says - 1) < 0) _exit(2);
    (void)sig;
    _exit(1);
}
#endif

T_FN int t_wanted(const char *name)
{
    const char *only = getenv("T_ONLY");
    return !only || strstr(name, only);
}

T_FN void t_begin(const char *name, tiny_target target)
{
#if T_PAGES && !defined __SANITIZE_THREAD__
    if (!T_ASAN) {
        (void)signal(SIGSEGV, t_on_fault);
#ifdef SIGBUS
        (void)signal(SIGBUS, t_on_fault);
#endif
    }
#endif
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    t_now.test = name;
    t_now.target = target;
    t_now.checks_failed = t_now.was_skipped = t_now.n_cases = t_now.n_here = 0;
    t_now.n_proof = 0;
    t_now.rand_at = 0;
    memset(&t_alloc, 0, sizeof t_alloc);
}
T_FN void t_end(void)
{
    size_t i;
    if (t_alloc.live_blocks)
        t_fail(__FILE__, __LINE__, "%ld blocks, %lu bytes were never given back", t_alloc.live_blocks,
               (unsigned long)t_alloc.live_bytes);
    if (t_now.n_here < t_now.n_cases && !t_now.was_skipped)
        printf("in part: %s %d of %d\n", t_now.test, t_now.n_here, t_now.n_cases);
    if (t_now.checks_failed > 8) printf("    and %d more\n", t_now.checks_failed - 8);
    if (t_now.checks_failed) t_now.failed++;
    else if (t_now.was_skipped) t_now.skipped++;
    else {
        t_now.passed++;
        for (i = 0; i < t_now.n_proof; i++)
            printf("proof: %s [%s]\n", t_now.proof[i], t_now.target ? tiny_target_name(t_now.target) : "once");
    }
    t_free_blocks();
    t_now.test = NULL;
    t_now.target = TINY_TARGET_AUTO;
    t_now.ctx = NULL;
}
T_FN void t_run(const char *name, void (*test)(void))
{
    if (!t_wanted(name)) return;
    t_begin(name, TINY_TARGET_AUTO);
    test();
    t_end();
}
T_FN void t_run_from(const char *name, void (*test)(tiny_target target), int target, int every)
{
    if (!t_wanted(name)) return;
    for (; target < TINY_TARGET_COUNT; target++) {
        if (!tiny_target_runs_here((tiny_target)target)) continue;
        /* the same text, narrower */
        if (T_SLOW && !every && target == TINY_TARGET_AVX2 && tiny_target_runs_here(TINY_TARGET_AVX512)) continue;
        t_begin(name, (tiny_target)target);
        test((tiny_target)target);
        t_end();
    }
}
#define T_RUN(test) t_run(#test, test)
#define T_RUN_TARGETS(test) t_run_from(#test, test, TINY_TARGET_SCALAR, 0)
/* AVX2 in addition to AVX-512 under the sanitizers too: for kernels with another source there */
#define T_RUN_EVERY_TARGET(test) t_run_from(#test, test, TINY_TARGET_SCALAR, 1)
/* the same with the reference first: for procedures, since the conformance kit does not run their reference */
#define T_RUN_FORMS(test) t_run_from(#test, test, TINY_TARGET_REFERENCE, 0)

/* The path of a file of the folders of tests/place.h, NULL if it is missing; valid until 32 more requests */
T_FN const char *t_find(const char *path)
{
    static char full[32][600];
    static int turn;
    const char *place;
    int i;
    turn = (turn + 1) % (int)T_COUNT(full);
    for (i = 0; (place = t_place(i)) != NULL; i++) {
        FILE *f;
        (void)snprintf(full[turn], sizeof full[turn], "%s/%s", place, path);
        f = fopen(full[turn], "rb");
        if (f) { (void)fclose(f); return full[turn]; }
    }
    return NULL;
}

/* NULL and a skipped test where it is not */
T_FN const char *t_shared(const char *path)
{
    const char *full = t_find(path);
    char why[200];
    (void)snprintf(why, sizeof why, "%.150s is not in this repository", path);
    if (!full) t_skip(why);
    return full;
}

/* For a test that runs all files that are present: a line for tests/run.sh for each missing file. At its end the test
 * reports how many were present. T_SOME(n) at its end: the test is skipped when none of them ran. */
T_FN void t_case(const char *path, int is_here)
{
    t_now.n_cases++;
    if (is_here) t_now.n_here++;
    else printf("without: %s\n", path);
}
T_FN const char *t_one_of(const char *path)
{
    const char *full = t_find(path);
    t_case(path, full != NULL);
    return full;
}
/* the same for a test of n models of an index: those that tests/golden leaves out */
T_FN void t_all_models(int n)
{
    FILE *f = fopen("tests/golden/oracle/llm/left-out.tsv", "r");
    char line[1000], path[120];
    t_now.n_cases += n;
    t_now.n_here += n;
    while (f && fgets(line, sizeof line, f)) {
        (void)snprintf(path, sizeof path, "oracle/llm/%.*s.gguf", (int)strcspn(line, "\t\n"), line);
        if (strncmp(line, "name\t", 5) && !t_find(path)) t_case(path, 0);
    }
    if (f) (void)fclose(f);
}
#define T_SOME(n) do { if (!((n) > 0)) t_skip("none of its files is here"); } while (0)

/* a large oracle file that must have that many bytes; NULL and a skipped test if it is missing */
T_FN void *t_shared_bytes(const char *path, size_t bytes)
{
    const char *full = t_shared(path);
    void *p;
    FILE *f;
    size_t n;
    if (!full) return NULL;
    p = t_keep(bytes + 1);
    f = fopen(full, "rb");
    n = f ? fread(p, 1, bytes + 1, f) : 0;
    if (f) (void)fclose(f);
    if (n != bytes)
        t_fail(__FILE__, __LINE__, "%s has %lu bytes, not %lu", path, (unsigned long)n, (unsigned long)bytes);
    return p;
}

T_FN int t_done(void)
{
    printf("%d passed, %d failed", t_now.passed, t_now.failed);
    if (t_now.skipped) printf(", %d skipped", t_now.skipped);
    putchar('\n');
    return t_now.failed != 0;
}
#endif
