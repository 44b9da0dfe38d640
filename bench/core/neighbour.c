/* bench/core/neighbour.c - a program that shares its processors: the loss, and the cost of an idle context
 *
 * A child process in a busy loop takes one processor. Fair scheduling leaves us half of it. Quiet and
 * disturbed rounds take turns in the same run.                                                                     */
#define _DEFAULT_SOURCE
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __unix__ || defined __APPLE__
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct nb_work { tiny_ctx *ctx; tiny_tensor a, b, y; } nb_work;

static void nb_run(nb_work *w) { b_must(w->ctx, tiny_matmul(w->ctx, &w->a, &w->b, NULL, TINY_ACT_NONE, &w->y)); }

static double nb_rate(nb_work *w, double seconds)
{
    double t0 = b_now(), t = t0;
    int n = 0;
    while (t - t0 < seconds) { nb_run(w); n++; t = b_now(); }
    return n / (t - t0);
}

static pid_t nb_neighbour(void)
{
    pid_t p = fork();
    if (p == 0) {
        volatile unsigned long n = 0;
        for (;;) n++;
    }
    return p;
}

static int nb_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void nb_measure(const char *what, nb_work *w)
{
    double quiet[9], busy[9];
    int i, n = b_quick ? 3 : 9;
    char text[96];
    nb_run(w);
    for (i = 0; i < n; i++) {
        pid_t p;
        quiet[i] = nb_rate(w, b_quick ? 0.3 : 0.6);
        p = nb_neighbour();
        if (p < 0) { b_note("no second process could be started: not measured"); return; }
        (void)nb_rate(w, 0.1);
        busy[i] = nb_rate(w, b_quick ? 0.5 : 1.0);
        (void)kill(p, SIGKILL);
        (void)waitpid(p, NULL, 0);
    }
    qsort(quiet, (size_t)n, sizeof *quiet, nb_order);
    qsort(busy, (size_t)n, sizeof *busy, nb_order);
    (void)snprintf(text, sizeof text, "%s: share of the quiet speed that is left", what);
    b_verdict(text, busy[n / 2] / quiet[n / 2], ">", 0.45);
}

static double nb_cpu(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

void bench_neighbour(void)
{
    const tiny_idx n = 768, big = 4096;
    float *a = (float *)b_alloc((size_t)(big * big) * 4), *b = (float *)b_alloc((size_t)(big * big) * 4),
          *y = (float *)b_alloc((size_t)(big * big) * 4);
    nb_work w;
    double c0;
    memset(&w, 0, sizeof w);
    w.ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_note("A busy neighbour: %d threads, one other process that only counts", b_threads);
    w.a = tiny_tensor_2d(a, TINY_F32, n, n);
    w.b = tiny_tensor_2d(b, TINY_F32, n, n);
    w.y = tiny_tensor_2d(y, TINY_F32, n, n);
    nb_measure("matmul 768x768x768", &w);
    w.a = tiny_tensor_2d(a, TINY_F32, 64, 64);
    w.b = tiny_tensor_2d(b, TINY_F32, 64, 64);
    w.y = tiny_tensor_2d(y, TINY_F32, 64, 64);
    nb_measure("matmul 64x64x64", &w);
    w.a = tiny_tensor_2d(a, TINY_F32, 1, big);
    w.b = tiny_tensor_swap(tiny_tensor_2d(b, TINY_F32, big, big), 0, 1);
    w.y = tiny_tensor_2d(y, TINY_F32, 1, big);
    nb_measure("matvec 4096x4096", &w);
    (void)usleep(100000);                   /* the runtime's own threads may spin for a moment after their last work */
    c0 = nb_cpu();
    (void)usleep(500000);
    b_verdict("idle context, share of a processor", (nb_cpu() - c0) / 0.5, "<", 0.01);
    tiny_ctx_close(w.ctx);
}
#else
void bench_neighbour(void) { b_note("a busy neighbour: not measured on this system"); }
#endif
