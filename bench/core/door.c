/* bench/core/door.c - the cost of a call: tiny_run on an addition of 16 floats */
#include "../bench.h"

typedef struct door_arg { tiny_ctx *ctx; tiny_op op; tiny_tensor a, b, y; float fa[16], fb[16], fy[16]; } door_arg;

static void door_run(void *arg) { (void)tiny_run(((door_arg *)arg)->ctx, &((door_arg *)arg)->op); }

static void door_plain(void *arg)
{
    door_arg *d = (door_arg *)arg;
    volatile float *y = d->fy;
    int i;
    for (i = 0; i < 16; i++) y[i] = d->fa[i] + d->fb[i];
}

void bench_door(void)
{
    static door_arg d;
    b_row rows[2] = { { 0 }, { 0 } };
    d.ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    d.a = tiny_tensor_1d(d.fa, TINY_F32, 16);
    d.b = tiny_tensor_1d(d.fb, TINY_F32, 16);
    d.y = tiny_tensor_1d(d.fy, TINY_F32, 16);
    d.op.kind = TINY_OP_ADD;
    d.op.in[0] = &d.a; d.op.in[1] = &d.b; d.op.out[0] = &d.y;
    rows[0].what = "add through tiny_run";
    rows[0].target = tiny_target_name(tiny_ctx_target(d.ctx));
    rows[0].run = door_run;
    rows[1].what = "add as a plain loop"; rows[1].target = "C"; rows[1].run = door_plain;
    rows[0].arg = rows[1].arg = &d;
    rows[0].threads = rows[1].threads = 1;
    b_shape(&rows[0], "16");
    b_shape(&rows[1], "16");
    b_contest("The door", rows, 2);
    b_verdict("tiny_run on a 16-float add, ns", rows[0].median_ns, "<", 60);
    tiny_ctx_close(d.ctx);
}
