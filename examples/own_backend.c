/* examples/own_backend.c - your own back end, and how to test it
 *
 *     own_backend [right|tail|stride|flush|rows]
 *
 * The back end computes neg, abs and relu, and leaves everything else to the CPU. Four of its five forms have a typical
 * bug. The conformance kit finds each bug, and the correct form passes. copy/accelerator.c is shorter. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <string.h>

typedef enum fault {
    RIGHT,
    TAIL,       /* off by one: the last element of a row is missing unless the row is a multiple of eight */
    STRIDE,     /* treats every input as dense */
    FLUSH,      /* denormal numbers become zero, as in some processor modes */
    ROWS,       /* swaps rows 0 and 1, 2 and 3 ... */
    N_FAULTS
} fault;
static const char *const fault_name[N_FAULTS] = { "right", "tail", "stride", "flush", "rows" };

/* Element i of a row. Rows run along the last axis and are counted over all other axes. */
static float *element(const tiny_tensor *t, tiny_idx row, tiny_idx i)
{
    tiny_idx at = t->rank ? i * t->stride[t->rank - 1] : 0;
    int a;
    for (a = t->rank - 2; a >= 0; a--) {
        at += row % t->dim[a] * t->stride[a];
        row /= t->dim[a];
    }
    return (float *)t->data + at;
}

static int can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user; (void)row;
    return (op->kind == TINY_OP_NEG || op->kind == TINY_OP_ABS || op->kind == TINY_OP_RELU) &&
           op->in[0]->dtype == TINY_F32;
}

static tiny_status run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    fault which = *(const fault *)user;
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_tensor dense = tiny_tensor_nd(x->data, x->dtype, x->rank, x->dim);
    tiny_idx n = x->rank ? x->dim[x->rank - 1] : 1, n_rows = n ? tiny_tensor_count(x) / n : 0, r, i;
    (void)row; (void)says;
    if (which == STRIDE) x = &dense;
    for (r = 0; r < n_rows; r++) {
        tiny_idx last = which == TAIL && n % 8 ? n - 1 : n, to = which == ROWS && (r ^ 1) < n_rows ? r ^ 1 : r;
        for (i = 0; i < last; i++) {
            float v = *element(x, r, i);
            if (op->kind == TINY_OP_NEG) v = -v;
            else if (op->kind == TINY_OP_ABS) v = v <= 0.0f ? 0.0f - v : v;
            else if (v < 0.0f) v = 0.0f;    /* NaN and -0 stay */
            if (which == FLUSH && v > -1.17549435e-38f && v < 1.17549435e-38f) v = 0.0f;
            *element(y, to, i) = v;
        }
    }
    return TINY_OK;
}

static void print_row(void *user, const tiny_conform_row *r)
{
    (void)user;
    if (r->n_cases) printf("%-8s %3d cases, %3d failed  %s\n", r->row->name, r->n_cases, r->n_failed, r->first_failure);
}

/* Prints why no context was opened. Later errors are in the message of the context. */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "own_backend: %s\n", sentence);
}

/* How many cases fail; -1 when the kit could not run. */
static int examine(fault which)
{
    tiny_accel mine;
    tiny_ctx_desc desc;
    tiny_conform_desc kit;
    tiny_ctx *ctx = NULL;
    int n_failed = -1;
    memset(&mine, 0, sizeof mine);
    memset(&desc, 0, sizeof desc);
    memset(&kit, 0, sizeof kit);
    mine.version = TINY_ACCEL_VERSION;
    mine.name = "mine";
    mine.user = &which;
    mine.can_run = can_run;
    mine.run = run;
    desc.accel = &mine;
    desc.log = say;
    desc.user = &ctx;
    kit.row = print_row;
    if (tiny_ctx_open(&desc, &ctx)) return -1;
    if (tiny_conform(ctx, &kit, &n_failed)) n_failed = -1;
    tiny_ctx_close(ctx);
    return n_failed;
}

int main(int argc, char **argv)
{
    int which, wrong = 0, ran = 0;
    if (argc > 1 && !strcmp(argv[1], "--help")) return puts("own_backend [right|tail|stride|flush|rows]") < 0;
    for (which = 0; which < N_FAULTS; which++) {
        int n;
        if (argc > 1 && strcmp(argv[1], fault_name[which])) continue;
        ran = 1;
        printf("-- back end: %s\n", fault_name[which]);
        n = examine((fault)which);
        printf("%s\n", n < 0 ? "the kit could not run" : n == 0 ? "every case passes" : "the kit found the fault");
        if (n < 0 || (n == 0) != (which == RIGHT)) wrong = 1;
    }
    if (!ran) return fputs("own_backend [right|tail|stride|flush|rows]\n", stderr), 2;
    return wrong;
}
