/* tests/core/away.c - outputs that stay on a device: the host gets the results that it reads, and waits for nothing
 * else */
#include "device.h"

enum { N = 12 };
static tiny_status unary(tiny_ctx *ctx, int kind, float *x, float *y, tiny_idx n)
{
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, n), ty = tiny_tensor_1d(y, TINY_F32, n);
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = &tx;
    op.out[0] = &ty;
    return tiny_run(ctx, &op);
}
static tiny_status home(tiny_ctx *ctx, float *x, tiny_idx n)
{
    tiny_tensor t = tiny_tensor_1d(x, TINY_F32, n);
    return tiny_download(ctx, &t);
}
static void ramp(float *x, tiny_idx n) { tiny_idx i; for (i = 0; i < n; i++) x[i] = (float)(i + 1); }

/* A chain on the device: one fetch, of the requested output. The rest is discarded with the context. */
static void test_chain(tiny_target target)
{
    device *d = dev_open(target);
    tiny_ctx *ctx = dev_ctx(d, target);
    float x[N], y[N], z[N], w[N];
    uint64_t kept, fetched;
    int i;
    ramp(x, N);
    tiny_stay(ctx, 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_TRUE(y[0] != y[0] && y[N - 1] != y[N - 1]);           /* the host has nothing */
    T_OK(unary(ctx, TINY_OP_ABS, y, z, N));
    T_OK(unary(ctx, TINY_OP_NEG, z, z, N));                 /* in place */
    T_OK(unary(ctx, TINY_OP_NEG, y + 4, w, 4));             /* a part of the copy */
    tiny_stay(ctx, 0);
    T_EQ_INT(d->n_fetch, 0);
    T_EQ_INT(d->sent, sizeof x);
    T_EQ_INT(dev_away(d), 3);
    T_OK(home(ctx, z, N));
    T_OK(home(ctx, w, 4));
    for (i = 0; i < N; i++) T_CLOSE(z[i], -(i + 1), 0);
    for (i = 0; i < 4; i++) T_CLOSE(w[i], i + 5, 0);
    T_TRUE(y[0] != y[0]);
    T_OK(home(ctx, z, N));                                  /* it is home: nothing to wait for */
    T_EQ_INT(d->n_fetch, 2);
    tiny_stay_counts(ctx, &kept, &fetched);
    T_EQ_INT(kept, 4);
    T_EQ_INT(fetched, 2);
    T_OK(unary(ctx, TINY_OP_NEG, x, w, N));                 /* without tiny_stay it is fetched at once */
    for (i = 0; i < N; i++) T_CLOSE(w[i], -(i + 1), 0);
    t_close(ctx);
    T_EQ_INT(d->n_discard, 1);
    dev_close(d);
}

/* Operations that the processor runs: one that the device declines, one that fails there, one that needs the reference,
 * a wide one. */
static void test_processor(tiny_target target)
{
    int way, i;
    for (way = 0; way < 3; way++) {
        device *d = dev_open(target);
        tiny_ctx *ctx = dev_ctx(d, target);
        float x[N], y[N], z[N];
        uint64_t answered, declined, failed;
        ramp(x, N);
        if (way == 0) d->declines = TINY_OP_ABS;
        if (way == 1) d->fails = TINY_OP_ABS;
        tiny_stay(ctx, 1);
        T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
        T_OK(unary(ctx, TINY_OP_NEG, x, z, N));             /* the overwritten memory is on the device too */
        if (way == 2) {
            tiny_tensor ty = tiny_tensor_1d(y, TINY_F32, N), tz = tiny_tensor_1d(z, TINY_F32, N);
            tiny_op op;
            memset(&op, 0, sizeof op);
            op.kind = TINY_OP_ABS;
            op.in[0] = &ty;
            op.out[0] = &tz;
            T_OK(tiny_run_reference(ctx, &op));
        } else T_OK(unary(ctx, TINY_OP_ABS, y, z, N));
        for (i = 0; i < N; i++) T_CLOSE(z[i], i + 1, 0);
        for (i = 0; i < N; i++) T_CLOSE(y[i], -(i + 1), 0); /* it came home */
        T_EQ_INT(dev_away(d), 0);
        T_OK(unary(ctx, TINY_OP_NEG, z, z, N));             /* and the answer of the processor is sent */
        T_OK(home(ctx, z, N));
        for (i = 0; i < N; i++) T_CLOSE(z[i], -(i + 1), 0);
        tiny_accel_counts(ctx, &answered, &declined, &failed);
        T_EQ_INT(answered, 3);
        T_EQ_INT(declined, way == 0);
        T_EQ_INT(failed, way == 1);
        t_close(ctx);
        dev_close(d);
    }
}

/* Outputs over outputs on the device: the same place again, all of it, a part of it. */
static void test_overwritten(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx *ctx = dev_ctx(d, TINY_TARGET_AUTO);
    float x[N], m[2 * N];
    int i;
    ramp(x, N);
    tiny_stay(ctx, 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, m, N));
    T_OK(unary(ctx, TINY_OP_ABS, x, m, N));                 /* the same place */
    T_EQ_INT(dev_away(d), 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, m + N, 4));
    T_OK(unary(ctx, TINY_OP_NEG, x, m + N, 8));             /* covers it: the four are not fetched */
    T_EQ_INT(d->n_fetch, 0);
    T_EQ_INT(d->n_discard, 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, m + N + 6, 4));         /* crosses its end: the others of the eight are fetched */
    T_EQ_INT(d->n_fetch, 1);
    T_OK(home(ctx, m, 2 * N));
    for (i = 0; i < N; i++) T_CLOSE(m[i], i + 1, 0);
    for (i = 0; i < 6; i++) T_CLOSE(m[N + i], -(i + 1), 0);
    for (i = 0; i < 4; i++) T_CLOSE(m[N + 6 + i], -(i + 1), 0);
    T_OK(unary(ctx, TINY_OP_NEG, x, m, N));
    /* in place within an output on the device: only those four change */
    T_OK(unary(ctx, TINY_OP_NEG, m + 2, m + 2, 4));
    T_OK(home(ctx, m, N));
    for (i = 0; i < N; i++) T_CLOSE(m[i], i >= 2 && i < 6 ? i + 1 : -(i + 1), 0);
    /* in place in other axes, as in the rotation of the heads of a row */
    {
        tiny_tensor t = tiny_tensor_2d(m, TINY_F32, 3, 4);
        tiny_op op;
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_NEG;
        op.in[0] = op.out[0] = &t;
        T_OK(unary(ctx, TINY_OP_NEG, x, m, N));
        i = d->n_fetch;
        T_OK(tiny_run(ctx, &op));
        T_EQ_INT(d->n_fetch, i);
        T_OK(home(ctx, m, N));
        for (i = 0; i < N; i++) T_CLOSE(m[i], i + 1, 0);
    }
    t_close(ctx);
    dev_close(d);
}

/* Views with gaps: the elements between belong to the host and stay. And an input that reaches past an output on the
 * device. */
static void test_views(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx *ctx = dev_ctx(d, TINY_TARGET_AUTO);
    float x[N], m[2 * N], y[2 * N];
    tiny_tensor tx, tm;
    tiny_op op;
    int i;
    ramp(x, N);
    ramp(m, 2 * N);
    tx = tiny_tensor_1d(x, TINY_F32, N);
    tm = tiny_tensor_1d(m, TINY_F32, N);
    tm.stride[0] = 2;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_NEG;
    op.in[0] = &tx;
    op.out[0] = &tm;
    tiny_stay(ctx, 1);
    T_OK(tiny_run(ctx, &op));
    T_TRUE(m[0] != m[0] && m[1] == 2.0f);
    op.in[0] = op.out[0] = &tm;
    T_OK(tiny_run(ctx, &op));                               /* the same view in place: stays */
    T_EQ_INT(d->n_fetch, 0);
    m[1] = 77.0f;                                           /* in a gap */
    T_OK(unary(ctx, TINY_OP_NEG, m, y, 2 * N - 1));         /* reads across the gaps: it is fetched */
    T_EQ_INT(d->n_fetch, 1);
    T_OK(home(ctx, y, 2 * N));
    for (i = 0; i < N; i++) T_CLOSE(y[2 * i], -(i + 1), 0);
    T_CLOSE(y[1], -77, 0);
    T_CLOSE(y[3], -4, 0);
    T_OK(unary(ctx, TINY_OP_NEG, x, m, 6));
    T_OK(unary(ctx, TINY_OP_ABS, m, y, 2 * N - 1));         /* half of it is away */
    T_OK(home(ctx, y, 2 * N));
    for (i = 0; i < 6; i++) T_CLOSE(y[i], i + 1, 0);
    T_CLOSE(y[6], 4, 0);
    t_close(ctx);
    dev_close(d);
}

/* Shape rules read integers: rows to gather that the device has computed. */
static void test_integers(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx *ctx = dev_ctx(d, TINY_TARGET_AUTO);
    float x[8] = { 1, 9, 2, 3, 4, 5, 6, 7 }, rows[8] = { 0, 1, 10, 11, 20, 21, 30, 31 }, y[4];
    int32_t best[2] = { 99, 99 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 4), tb = tiny_tensor_1d(best, TINY_I32, 2),
                tr = tiny_tensor_2d(rows, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 2, 2);
    tiny_reduce_params p;
    tiny_op op;
    memset(&p, 0, sizeof p);
    p.axis = 0;
    tiny_stay(ctx, 1);
    T_OK(tiny_argmax(ctx, &tx, &p, &tb));
    T_TRUE(best[0] == -1);
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_GATHER;
    op.in[0] = &tr;
    op.in[1] = &tb;
    op.out[0] = &ty;
    T_OK(tiny_run(ctx, &op));
    tiny_stay(ctx, 0);
    T_OK(home(ctx, y, 4));
    T_CLOSE(y[0], 10, 0);
    T_CLOSE(y[3], 31, 0);
    t_close(ctx);
    dev_close(d);
}

/* A fetch that fails: in a chain the results are lost, and the call says so; for a single operation the processor runs
 * it. */
static void test_failed_fetch(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx *ctx = dev_ctx(d, TINY_TARGET_AUTO);
    float x[N], y[N], z[N];
    ramp(x, N);
    d->breaks = 1;
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_CLOSE(y[3], -4, 0);
    tiny_stay(ctx, 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_STATUS(home(ctx, y, N), TINY_E_ACCEL, "results that stayed there are lost: the device is gone");
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    d->declines = TINY_OP_ABS;
    T_STATUS(unary(ctx, TINY_OP_ABS, y, z, N), TINY_E_ACCEL, "are lost");
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    tiny_stay(ctx, 0);
    T_STATUS(unary(ctx, TINY_OP_NEG, y, y, N), TINY_E_ACCEL,
             "are lost"); /* computed from device memory: not a second time */
    t_close(ctx);
    dev_close(d);
}

/* forget discards, upload takes the host's values */
static void test_forget_and_upload(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx *ctx = dev_ctx(d, TINY_TARGET_AUTO);
    float x[N], y[N];
    tiny_tensor t = tiny_tensor_1d(y, TINY_F32, N), part = tiny_tensor_1d(y + 2, TINY_F32, 2);
    ramp(x, N);
    tiny_stay(ctx, 1);
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_OK(tiny_forget(ctx, &part));
    T_EQ_INT(d->n_fetch, 0);
    T_EQ_INT(dev_away(d), 0);
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_OK(tiny_upload(ctx, &part));                          /* of an output on the device: it is fetched first */
    T_CLOSE(y[2], -3, 0);
    T_OK(tiny_forget(ctx, &t));
    tiny_stay(ctx, 0);
    tiny_stay(ctx, 0);                                      /* once too often: still off */
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_CLOSE(y[2], -3, 0);
    tiny_stay(NULL, 1);
    t_close(ctx);
    dev_close(d);
}

/* Version 1: everything is complete when run returns; the members of version 2 are not read. */
static tiny_status run_1(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    (void)user; (void)says;
    row->ref(op);
    return TINY_OK;
}
static int n_sync;
static tiny_status sync_1(void *user, char *says) { (void)user; (void)says; n_sync++; return TINY_OK; }
static void test_version_1(void)
{
    device *d = dev_open(TINY_TARGET_AUTO);
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    float x[N], y[N];
    ramp(x, N);
    d->accel.version = 1;
    d->accel.run = run_1;
    d->accel.synchronize = sync_1;
    ctx = dev_ctx(d, TINY_TARGET_AUTO);
    tiny_stay(ctx, 1);
    n_sync = 0;
    T_OK(unary(ctx, TINY_OP_NEG, x, y, N));
    T_CLOSE(y[1], -2, 0);
    T_EQ_INT(n_sync, 1);
    T_EQ_INT(d->n_fetch, 0);
    t_close(ctx);
    desc.accel = &d->accel;
    d->accel.version = 4;
    T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_E_VERSION);
    d->accel.version = 0;
    T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_E_VERSION);
    d->accel.version = 3;
    d->accel.discard = NULL;
    T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_E_ARGUMENT);
    dev_close(d);
}

/* The kit on the device, outputs left there in every other case: all operations of math. */
static void test_conformance(tiny_target target)
{
    device *d = dev_open(target);
    tiny_ctx *ctx = dev_ctx(d, target);
    tiny_conform_desc kit;
    uint64_t kept, fetched;
    int n_failed = -1;
    memset(&kit, 0, sizeof kit);
    kit.n_cases = T_SLOW ? 4 : 10;
    T_OK(tiny_conform(ctx, &kit, &n_failed));
    T_EQ_INT(n_failed, 0);
    tiny_stay_counts(ctx, &kept, &fetched);
    T_TRUE(kept > 100 && fetched > kept);
    t_close(ctx);
    dev_close(d);
}

int main(void)
{
    T_RUN_TARGETS(test_chain);
    T_RUN_TARGETS(test_processor);
    T_RUN(test_overwritten);
    T_RUN(test_views);
    T_RUN(test_integers);
    T_RUN(test_failed_fetch);
    T_RUN(test_forget_and_upload);
    T_RUN(test_version_1);
    T_RUN_TARGETS(test_conformance);
    return t_done();
}
