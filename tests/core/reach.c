/* tests/core/reach.c - no kernel of the table is untested
 *
 * For each kernel that a row names: take it away and let the conformance kit run the row in a child process. A child
 * that finishes never called the kernel. Of the rows that share a kernel one must call it. */
#define T_INTERNALS
#include "t.h"
#if T_PAGES && !defined __EMSCRIPTEN__ && !defined __wasi__ && !defined __SANITIZE_THREAD__
#include <sys/wait.h>

/* For sizes that the kit does not make; each has a test of its own. */
static int too_large(const char *kernel)
{
    /* tests/math/layout.c, tests/math/twist.c: more than 4096 keys */
    static const char *const names[] = { "transpose_past_b4", "attention_split_f32" };
    size_t i;
    for (i = 0; i < T_COUNT(names); i++) if (!strcmp(kernel, names[i])) return 1;
    return 0;
}

/* 1: the row calls the kernel, 0: it does not, -1: it could not run */
static int reached(const tiny_op_row *row, int slot)
{
    tiny_ctx_desc desc;
    tiny_conform_desc kit;
    tiny_ctx *ctx;
    int status = 0, n_failed = 0;
    pid_t child = fork();
    if (child < 0) return -1;
    if (child > 0) return waitpid(child, &status, 0) == child ? !(WIFEXITED(status) && WEXITSTATUS(status) == 0) : -1;
    (void)signal(SIGSEGV, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    if (!freopen("/dev/null", "w", stderr)) _exit(0);       /* a sanitizer would report the fault */
    memset(&desc, 0, sizeof desc);
    memset(&kit, 0, sizeof kit);
    desc.n_threads = 2;
    kit.op = row->name;
    if (tiny_ctx_open(&desc, &ctx)) _exit(0);
    /* the slots come first, in order */
    memset((unsigned char *)ctx->k + (size_t)slot * sizeof(void (*)(void)), 0, sizeof(void (*)(void)));
    tinyi_gemm_lend(ctx->k, ctx->k);
    if (tiny_conform(ctx, &kit, &n_failed)) _exit(0);
    _exit(n_failed != 0);
}

static void test_reach(void)
{
    static signed char seen[TINYI_K_COUNT];                 /* 1 named by a row, 2 called */
    const tiny_op_row *row;
    size_t i;
    int n = 0;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) {
        const short *slot = row->kernels;
        for (; slot && *slot >= 0; slot++) {
            int r = seen[*slot] & 2 ? 1 : reached(row, *slot);
            if (!T_TRUE(r >= 0)) return;
            seen[*slot] = (signed char)(seen[*slot] | 1 | (r ? 2 : 0));
        }
    }
    for (i = 0; i < TINYI_K_COUNT; i++) {
        /* for outputs larger than any cache, which the kit never makes: tests/math/layout.c transposes one */
        if (i == TINYI_K_transpose_past_b4) continue;
        if (seen[i] == 1 && !too_large(tinyi_kernel_name((int)i)))
            t_fail(__FILE__, __LINE__, "%s is called in none of the cases of the rows that name it",
                   tinyi_kernel_name((int)i));
        n += seen[i] == 3;
    }
    T_TRUE(n > 50);
}
#else
static void test_reach(void) { T_SKIP("it needs fork, and no thread sanitizer"); }
#endif

int main(void)
{
    T_RUN(test_reach);
    return t_done();
}
