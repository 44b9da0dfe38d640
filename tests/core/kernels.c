/* tests/core/kernels.c - the table names the kernels that each operation uses
 *
 * Every slot that a row does not list is replaced by a trap, and the cases of the row are run in a process of their
 * own: a trap that is called is missing in the list, and tiny_ctx_report would not name its target. */
#define T_INTERNALS
#include "t.h"
#include <stddef.h>

#if T_PAGES && !defined __EMSCRIPTEN__ && !defined __wasi__
#include <sys/wait.h>

static volatile int *sprung;                /* the slot; shared with the child */

#define TRAP(name, type, params) static void trap_##name(void) { *sprung = TINYI_K_##name; _exit(0); }
TINYI_KERNELS(TRAP)
#undef TRAP
#define ENTRY(name, type, params) trap_##name,
static void (*const trap[])(void) = { TINYI_KERNELS(ENTRY) };
#undef ENTRY

/* The slots are the first members of the struct, all of them pointers to functions. */
static void set_trap(tinyi_kernels *k, int slot)
{
    memcpy((unsigned char *)k + (size_t)slot * sizeof trap[0], &trap[slot], sizeof trap[0]);
}

/* the slot that sprang, or -1 */
static int try_row(const tiny_op_row *row, const unsigned char *allowed)
{
    int status = 0, failed = 0, i;
    pid_t child;
    *sprung = -1;
    (void)fflush(stdout);
    child = fork();
    if (!child) {
        tiny_conform_desc d;
        tiny_ctx_desc c;
        tiny_ctx *ctx = NULL;
        memset(&c, 0, sizeof c);
        c.target = TINY_TARGET_AUTO;
        c.n_threads = 1;
        if (tiny_ctx_open(&c, &ctx)) _exit(2);
        for (i = 0; i < TINYI_K_COUNT; i++)
            if (!allowed[i]) set_trap(ctx->k, i);
        tinyi_gemm_lend(ctx->k, ctx->k);
        memset(&d, 0, sizeof d);
        d.op = row->name;
        d.n_cases = 16;
        _exit(tiny_conform(ctx, &d, &failed) ? 3 : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
        t_fail(__FILE__, __LINE__, "%s: the cases do not run: status %d", row->name, status);
    return *sprung;
}

static void test_every_row_lists_its_kernels(void)
{
    const tiny_op_row *row;
    size_t i;
    T_TRUE(offsetof(tinyi_kernels, cpu) == TINYI_K_COUNT * sizeof trap[0]);
    sprung = (volatile int *)mmap(NULL, sizeof *sprung, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!T_TRUE(sprung != MAP_FAILED)) return;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) {
        unsigned char allowed[TINYI_K_COUNT];
        const short *s;
        int slot;
        memset(allowed, 0, sizeof allowed);
        for (s = row->kernels; s && *s >= 0; s++) allowed[*s] = 1;
        if (!row->fast) continue;
        while ((slot = try_row(row, allowed)) >= 0) {
            t_fail(__FILE__, __LINE__, "%s uses the kernel %s and does not list it", row->name,
                   tinyi_kernel_name(slot));
            allowed[slot] = 1;
        }
    }
    (void)munmap((void *)(uintptr_t)sprung, sizeof *sprung);
}
#endif

int main(void)
{
#if T_PAGES && !defined __EMSCRIPTEN__ && !defined __wasi__
    T_RUN(test_every_row_lists_its_kernels);
#endif
    return t_done();
}
