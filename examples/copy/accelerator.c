/* examples/copy/accelerator.c - your own device computes matrix products, and the conformance kit checks them
 *
 *     cc -O2 -fopenmp examples/copy/accelerator.c -I. -o accelerator && ./accelerator
 *
 * The library asks the device first for every operation. Operations that the device declines run on the CPU. */
#define TINY_WITH_CONFORM
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>

/* y = a b + bias of two matrices of f32, without activation; all else is declined */
static int can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    (void)user; (void)row;
    return op->kind == TINY_OP_MATMUL && op->in[0]->rank == 2 && op->in[1]->rank == 2 && op->in[1]->dtype == TINY_F32 &&
           (!op->params || ((const tiny_matmul_params *)op->params)->act == TINY_ACT_NONE);
}

/* Your kernel stands here. Any strides may come: they count elements, not bytes. */
static tiny_status run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *bias = op->in[2], *y = op->out[0];
    tiny_idx i, j, k;
    (void)user; (void)row; (void)says;
    for (i = 0; i < y->dim[0]; i++)
        for (j = 0; j < y->dim[1]; j++) {
            double sum = bias ? (double)((const float *)bias->data)[j * bias->stride[0]] : 0.0;
            for (k = 0; k < a->dim[1]; k++)
                sum += (double)((const float *)a->data)[i * a->stride[0] + k * a->stride[1]] *
                       (double)((const float *)b->data)[k * b->stride[0] + j * b->stride[1]];
            ((float *)y->data)[i * y->stride[0] + j * y->stride[1]] = (float)sum;
        }
    return TINY_OK;
}

static void print_row(void *user, const tiny_conform_row *r)
{
    (void)user;
    printf("%s: %d cases, %d declined, %d failed %s\n", r->row->name, r->n_cases, r->n_declined, r->n_failed,
           r->first_failure);
}

int main(void)
{
    float a[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } }, b[3][2] = { { 1, 0 }, { 0, 1 }, { 1, 1 } }, y[2][2];
    const tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, 2, 3), tb = tiny_tensor_2d(b, TINY_F32, 3, 2),
                      ty = tiny_tensor_2d(y, TINY_F32, 2, 2);
    tiny_accel device = { 0 };
    tiny_ctx_desc desc = { 0 };
    tiny_conform_desc kit = { 0 };
    uint64_t answered = 0, declined = 0, failed = 0;
    tiny_ctx *ctx = NULL;
    int wrong = 0;
    tiny_status st;
    device.version = TINY_ACCEL_VERSION;
    device.name = "mine";
    device.can_run = can_run;
    device.run = run;
    desc.accel = &device;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty);
    if (!st) {
        tiny_accel_counts(ctx, &answered, &declined, &failed);
        printf("%g %g / %g %g; the device answered %d call\n", (double)y[0][0], (double)y[0][1], (double)y[1][0],
               (double)y[1][1], (int)answered);
    }
    kit.op = "matmul";                      /* NULL: every operation */
    kit.n_cases = 100;                      /* shapes, strides, special numbers; most have an activation: declined */
    kit.row = print_row;
    if (!st) st = tiny_conform(ctx, &kit, &wrong);
    if (st) fprintf(stderr, "accelerator: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    tiny_ctx_close(ctx);
    return st || wrong;
}
