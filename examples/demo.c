/* examples/demo.c - the SIMD targets of this machine, and a few operations
 *
 *     cc -O2 -fopenmp examples/demo.c -I. -o demo && ./demo */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(tiny_ctx *ctx)
{
    printf("that did not work: %s\n", tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return 1;
}

/* one attention head over a toy sentence: which word does each word look at? */
static int look(tiny_ctx *ctx)
{
    static const char *const word[6] = { "the", "cat", "sat", "on", "the", "mat" };
    static float feature[6][4] = { { 2, 0, 0, 0 }, { 0, 3, 0, 1 }, { 0, 1, 3, 0 },
                                   { 1, 0, 1, 0 }, { 2, 0, 0, 0 }, { 0, 2, 0, 3 } };
    float score[36];
    tiny_tensor x = tiny_tensor_2d(feature, TINY_F32, 6, 4), s = tiny_tensor_2d(score, TINY_F32, 6, 6);
    tiny_tensor xt = tiny_tensor_swap(x, 0, 1);             /* transposed: a view, nothing moves */
    int i, j;
    if (tiny_matmul(ctx, &x, &xt, NULL, TINY_ACT_NONE, &s)) return 1;
    if (tiny_softmax(ctx, &s, NULL, &s)) return 1;
    printf("\nWho looks at whom (softmax of a matrix product with its own transpose):\n     ");
    for (j = 0; j < 6; j++) printf("%6s", word[j]);
    for (i = 0; i < 6; i++) {
        printf("\n%5s", word[i]);
        for (j = 0; j < 6; j++) printf("%6.2f", (double)score[6 * i + j]);
    }
    puts("");
    return 0;
}

/* the same product on every target, compared with the reference */
static int compare(void)
{
    enum { N = 300 };
    static float a[N * N], b[N * N], want[N * N], got[N * N];
    tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, N, N), tb = tiny_tensor_2d(b, TINY_F32, N, N),
                tw = tiny_tensor_2d(want, TINY_F32, N, N), tg = tiny_tensor_2d(got, TINY_F32, N, N);
    tiny_rng r = tiny_rng_make(1, 0);
    int t, i;
    tiny_rng_fill_normal(&r, a, N * N);
    tiny_rng_fill_normal(&r, b, N * N);
    printf("\nA %dx%d product by each target of this machine (reference: plain C, the same bits everywhere):\n", N, N);
    for (t = TINY_TARGET_REFERENCE; t < TINY_TARGET_COUNT; t++) {
        tiny_ctx_desc d = { 0 };
        tiny_ctx *ctx;
        float worst = 0;
        uint64_t ns;
        d.target = (tiny_target)t;
        if (!tiny_target_runs_here(d.target)) continue;
        if (tiny_ctx_open(&d, &ctx)) return 1;
        if (tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, t == TINY_TARGET_REFERENCE ? &tw : &tg)) return fail(ctx);
        ns = tiny_now_ns();
        if (tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, t == TINY_TARGET_REFERENCE ? &tw : &tg)) return fail(ctx);
        ns = tiny_now_ns() - ns;
        for (i = 0; t != TINY_TARGET_REFERENCE && i < N * N; i++) {
            float off = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
            if (off > worst) worst = off;
        }
        printf("  %-10s %9.3f ms   largest difference %g\n", tiny_target_name(d.target), (double)ns * 1e-6,
               (double)worst);
        tiny_ctx_close(ctx);
    }
    return 0;
}

/* Prints why no context was opened. Later errors are in the message of the context. */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "demo: %s\n", sentence);
}

int main(int argc, char **argv)
{
    tiny_ctx_desc d = { 0 };
    tiny_ctx *ctx = NULL;
    size_t n;
    char *text;
    if (argc > 1) {
        const int help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
        fputs("demo: what this machine has, and a few operations on it; there are no options\n",
              help ? stdout : stderr);
        return help ? fflush(stdout) != 0 : 2;
    }
    d.log = say;
    d.user = &ctx;
    if (tiny_ctx_open(&d, &ctx)) return 1;
    n = tiny_ctx_report(ctx, NULL, 0);
    text = (char *)malloc(n);
    if (text) {
        (void)tiny_ctx_report(ctx, text, n);
        fputs(text, stdout);
    }
    free(text);
    if (look(ctx)) return fail(ctx);
    tiny_ctx_close(ctx);
    return compare();
}
