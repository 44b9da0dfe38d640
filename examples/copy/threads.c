/* examples/copy/threads.c - your own thread pool: the library runs on threads that the program already has
 *
 *     cc -O2 -pthread examples/copy/threads.c -I. -o threads && ./threads */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <pthread.h>
#include <stdio.h>

enum { HELPERS = 2, N = 300 };
typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t change;
    void (*task)(void *arg, int i);
    void *arg;
    int next, running, jobs, quit;          /* next: the number that the next thread takes, downwards */
} pool;

static void *helper(void *user)
{
    pool *p = (pool *)user;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        const int i = p->next;
        if (!i) { pthread_cond_wait(&p->change, &p->lock); continue; }
        p->next--;
        pthread_mutex_unlock(&p->lock);
        p->task(p->arg, i);
        pthread_mutex_lock(&p->lock);
        if (!--p->running) pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Runs task(arg, 0) to task(arg, n - 1), each on a thread of its own: they wait for each other. */
static int run(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    pool *p = (pool *)user;
    if (n > HELPERS + 1) return 1;          /* refused: the library does the work on one thread */
    pthread_mutex_lock(&p->lock);
    p->task = task;
    p->arg = arg;
    p->next = p->running = n - 1;           /* 0 is the caller */
    p->jobs++;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    task(arg, 0);
    pthread_mutex_lock(&p->lock);
    while (p->running) pthread_cond_wait(&p->change, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int main(void)
{
    static float x[N * N], y[N * N];
    static pool p = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, 0, 0, 0, 0 };
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, N), ty = tiny_tensor_2d(y, TINY_F32, N, N);
    tiny_ctx_desc desc = { 0 };
    pthread_t thread[HELPERS];
    tiny_ctx *ctx = NULL;
    int i;
    tiny_status st;
    for (i = 0; i < N * N; i++) x[i] = 0.5f;
    for (i = 0; i < HELPERS; i++)
        if (pthread_create(&thread[i], NULL, helper, &p)) return fputs("threads: there is no thread\n", stderr), 1;
    desc.pool.run = run;
    desc.pool.user = &p;
    desc.n_threads = HELPERS + 1;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tiny_matmul(ctx, &tx, &tx, NULL, TINY_ACT_NONE, &ty);
    if (st) fprintf(stderr, "threads: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else printf("%d threads, %d jobs, a sum of %d products is %g\n", HELPERS + 1, p.jobs, N, (double)y[N * N - 1]);
    tiny_ctx_close(ctx);
    pthread_mutex_lock(&p.lock);
    p.quit = 1;
    pthread_cond_broadcast(&p.change);
    pthread_mutex_unlock(&p.lock);
    for (i = 0; i < HELPERS; i++) pthread_join(thread[i], NULL);
    return st != TINY_OK;
}
