/* tests/conformance.c - is every operation right, on this target or that back end?
 *
 *     build/conformance [--target T | --backend blas|opencl] [--op NAME] [--cases N] [--seed S] [--case K] [--threads
 *                       N] [--all] [--list]
 *
 * Prints a row an operation. Without --target and --backend: every target of this machine in turn. The exit status is 0
 * when every case passed, 1 when one failed, 2 when it could not run.                                           */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tinyllm.h"
#ifdef HAVE_BLAS
#include "ports/blas/tiny_blas.h"
#endif
#ifdef HAVE_OPENCL
#include "ports/opencl/tiny_opencl.h"
#endif

typedef struct tally {
    int brief;                              /* skip the rows that a back end declined entirely */
    int n_rows, n_cases, n_failed, n_declined;
} tally;

static void print_row(void *user, const tiny_conform_row *r)
{
    tally *t = (tally *)user;
    const char *verdict = r->n_failed ? "FAIL" : r->n_cases ? "pass" : r->n_declined ? "declined" : "no cases";
    if (r->n_cases == 0 && r->n_declined && t->brief) {
        t->n_declined += r->n_declined;
        return;
    }
    printf("%-22s %5d %8d %10.3g %10.2e %9.2f   %s\n", r->row->name, r->n_cases, r->n_declined, r->worst_ulp,
           r->worst_nmse, r->worst_of_bound > 999.99 ? 999.99 : r->worst_of_bound, verdict);
    if (r->n_failed) printf("  %d of %d failed; the first: %s\n", r->n_failed, r->n_cases, r->first_failure);
    fflush(stdout);
    t->n_rows++;
    t->n_cases += r->n_cases;
    t->n_failed += r->n_failed;
    t->n_declined += r->n_declined;
}

static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_WARNING) printf("  %s\n", sentence);
    /* why no context was opened */
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "conformance: %s\n", sentence);
}

/* 0: all passed, 1: a case failed, 2: it could not run */
static int examine(tiny_ctx_desc *desc, const tiny_conform_desc *wish, const char *what, const char *name, int all)
{
    tiny_conform_desc d = *wish;
    tiny_ctx *ctx = NULL;
    tally t;
    int n_failed = 0;
    tiny_status st;
    desc->user = &ctx;
    if (tiny_ctx_open(desc, &ctx)) return 2;
    memset(&t, 0, sizeof t);
    t.brief = !all && !wish->op;
    d.row = print_row;
    d.user = &t;
    printf("%s %s, %d thread%s, seed %llu\n", what, name, tiny_ctx_threads(ctx), tiny_ctx_threads(ctx) == 1 ? "" : "s",
           (unsigned long long)d.seed);
    printf("%-22s %5s %8s %10s %10s %9s\n", "operation", "cases", "declined", "worst ulp", "NMSE", "of bound");
    st = tiny_conform(ctx, &d, &n_failed);
    if (st) fprintf(stderr, "%s\n", tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    if (st) return 2;
    if (desc->accel && t.n_cases == 0) {
        printf("the back end ran no case\n\n");
        return 1;
    }
    printf("%s %s: %d operations, %d cases passed, %d failed", what, name, t.n_rows, t.n_cases - n_failed, n_failed);
    if (t.n_declined) printf(", %d declined", t.n_declined);
    printf("\n\n");
    return n_failed ? 1 : 0;
}

static int examine_backend(tiny_ctx_desc *desc, const tiny_conform_desc *wish, const char *name, int all)
{
#ifdef HAVE_BLAS
    if (!strcmp(name, "blas")) {
        tiny_blas blas;
        int r;
        desc->accel = tiny_blas_open(&blas);
        r = examine(desc, wish, "back end", name, all);
        return r;
    }
#endif
#ifdef HAVE_OPENCL
    if (!strcmp(name, "opencl")) {
        tiny_opencl *cl;
        char says[256];
        int r;
        if (tiny_opencl_open(&cl, says)) {
            fprintf(stderr, "back end opencl: %s\n", says);
            return 2;
        }
        printf("opencl device: %s\n", tiny_opencl_device(cl));
        desc->accel = tiny_opencl_accel(cl);
        r = examine(desc, wish, "back end", name, all);
        tiny_opencl_close(cl);
        return r;
    }
#endif
    (void)desc; (void)wish; (void)all;
    fprintf(stderr, "back end %s: this program was built without it (blas and opencl are known)\n", name);
    return 2;
}

static int usage(const char *about, const char *value)
{
    FILE *to = about ? stderr : stdout;
    int t;
    if (about) {
        fprintf(to, "conformance: %s%s%s\nconformance --help lists the options\n", about, value ? ": " : "",
                value ? value : "");
        return 2;
    }
    fprintf(to, "conformance [--target T | --backend blas|opencl] [--op NAME] [--cases N] [--seed S] [--case K] "
                "[--threads N] [--all] [--list]\n"
                "  --target T   ");
    for (t = TINY_TARGET_REFERENCE; t < (int)TINY_TARGET_COUNT; t++)
        fprintf(to, " %s", tiny_target_name((tiny_target)t));
    fprintf(to, "; without it every one of this machine\n"
                    "  --cases N     for each operation; 40 when not given\n"
                    "  --case K      only the K-th, counted from 1\n"
                    "  --all         rows that the back end declined altogether, too\n"
                    "  --list        the operations and their formulas\n");
    return ferror(to) != 0;
}

/* 1: the whole of s is a number, and not below least nor above most */
static int number(const char *s, unsigned long long least, unsigned long long most, unsigned long long *n)
{
    char *end;
    errno = 0;
    *n = strtoull(s, &end, 0);
    return *s >= '0' && *s <= '9' && !*end && !errno && *n >= least && *n <= most;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc;
    tiny_conform_desc wish;
    const char *target = NULL, *backend = NULL;
    int i, all = 0, worst = 0;
    memset(&desc, 0, sizeof desc);
    memset(&wish, 0, sizeof wish);
    desc.log = say;
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        unsigned long long n = 0;
        size_t j;
        if (!strcmp(a, "--all")) { all = 1; continue; }
        if (!strcmp(a, "--help")) return usage(NULL, NULL);
        if (!strcmp(a, "--list")) {
            for (j = 0; tiny_op_at(j); j++) printf("%-22s %s\n", tiny_op_at(j)->name, tiny_op_at(j)->formula);
            return 0;
        }
        if (strcmp(a, "--target") && strcmp(a, "--backend") && strcmp(a, "--op") && strcmp(a, "--seed") &&
            strcmp(a, "--cases") && strcmp(a, "--case") && strcmp(a, "--threads"))
            return usage("unknown option", a);
        if (!v) return usage("a value is missing after", a);
        if (!strcmp(a, "--target")) target = v;
        else if (!strcmp(a, "--backend")) backend = v;
        else if (!strcmp(a, "--op")) wish.op = v;
        else if (!strcmp(a, "--seed")) {
            if (!number(v, 0, ~0ull, &n)) return usage("--seed takes a whole number below 2^64", v);
            wish.seed = n;
        } else if (!strcmp(a, "--threads")) {
            if (!number(v, 1, TINY_MAX_THREADS, &n)) return usage("--threads takes a whole number from 1 to 256", v);
            desc.n_threads = (int)n;
        } else {
            if (!number(v, 1, 1000000000, &n))
                return usage(a[6] == 's' ? "--cases takes a whole number from 1 to 1000000000"
                                         : "--case takes a whole number from 1 to 1000000000",
                             v);
            *(a[6] == 's' ? &wish.n_cases : &wish.only_case) = (int)n;
        }
        i++;
    }
    if (wish.op && !tiny_op_find(wish.op)) return usage("there is no such operation, --list names them", wish.op);
    if (target && backend) return usage("--target and --backend do not go together", NULL);
    if (backend) return examine_backend(&desc, &wish, backend, all);
    for (i = TINY_TARGET_REFERENCE; i < (int)TINY_TARGET_COUNT; i++) {
        int r;
        desc.target = (tiny_target)i;
        if (target ? strcmp(target, tiny_target_name(desc.target)) != 0 : !tiny_target_runs_here(desc.target)) continue;
        r = examine(&desc, &wish, "target", tiny_target_name(desc.target), all);
        if (r > worst) worst = r;
        if (target) return r;
    }
    if (target) return usage("there is no such target", target);
    return worst;
}
