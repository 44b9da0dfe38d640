/* ports/blas/tiny_blas.h - matrix products through a CBLAS that the program links anyway
 *
 *     #include "tinyllm.h"                     or tinygnn.h; before this one
 *     #include "ports/blas/tiny_blas.h"        in one file; link with -lopenblas, or another CBLAS
 *
 *     tiny_blas blas;
 *     desc.accel = tiny_blas_open(&blas);      then tiny_ctx_open(&desc, &ctx)
 *
 * There is nothing to close; blas must outlive the context.
 *
 * Runs      matmul (sgemm, or sgemv where one side is a vector) and dot (sdot), f32, where one stride of each matrix is
 *           1.
 *           A bias is added afterwards, and relu and relu2 applied. Everything else is declined: products with f16 and
 *           bf16 weights, which the processor path reads in place; other activations; axpy, whose result is exact to
 *           the bit while most libraries fuse multiply and add.
 * Threads   The library's own: set OPENBLAS_NUM_THREADS or the equivalent. Its threads are in addition to those of the
 *           context. */
#ifndef TINY_BLAS_H
#define TINY_BLAS_H

#include <cblas.h>
#include <limits.h>
#include <string.h>

#if defined __GNUC__ || defined __clang__
#define TINY_BLAS_FN static __attribute__((unused))
#else
#define TINY_BLAS_FN static
#endif

typedef struct tiny_blas {
    tiny_accel accel;
    double least_flops;                     /* smaller operations are declined; 0 takes all */
} tiny_blas;

TINY_BLAS_FN const tiny_accel *tiny_blas_open(tiny_blas *blas);

/* A matrix in the form of BLAS: the axis of stride 1, and the distance of the rows (or columns). */
typedef struct tiny_blas_matrix { int by_rows, ld; } tiny_blas_matrix;

/* 0: not a matrix that BLAS can take. rows, cols: the lengths of the last two axes. */
static int tiny_blas_see(const tiny_tensor *t, tiny_blas_matrix *m)
{
    tiny_idx rows = t->dim[t->rank - 2], cols = t->dim[t->rank - 1], down = t->stride[t->rank - 2],
             across = t->stride[t->rank - 1], ld;
    if (rows > INT_MAX || cols > INT_MAX) return 0;
    m->by_rows = across == 1 || cols <= 1;
    if (!m->by_rows && down != 1 && rows > 1) return 0;
    if (m->by_rows && rows <= 1) ld = cols;
    else if (m->by_rows) ld = down;
    else ld = cols <= 1 ? rows : across;
    if (ld < (m->by_rows ? cols : rows) || ld > INT_MAX) return 0;
    m->ld = ld > 1 ? (int)ld : 1;
    return 1;
}

static int tiny_blas_sees_matmul(const tiny_op *op)
{
    const tiny_matmul_params *p = (const tiny_matmul_params *)op->params;
    tiny_blas_matrix m;
    if (op->in[1]->dtype != TINY_F32) return 0;
    if (p && p->act != TINY_ACT_NONE && p->act != TINY_ACT_RELU && p->act != TINY_ACT_RELU2) return 0;
    return tiny_blas_see(op->in[0], &m) && tiny_blas_see(op->in[1], &m) && tiny_blas_see(op->out[0], &m);
}

/* A vector's stride: any but 0, which repeats one number. */
static int tiny_blas_steps(tiny_idx n, tiny_idx stride)
{
    return n <= 1 || (stride != 0 && stride <= INT_MAX && stride >= -INT_MAX);
}

static int tiny_blas_sees_dot(const tiny_op *op)
{
    const tiny_reduce_params *p = (const tiny_reduce_params *)op->params;
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    int axis;
    if (p && p->all) return tiny_tensor_is_dense(a) && tiny_tensor_is_dense(b) && tiny_tensor_count(a) <= INT_MAX;
    axis = a->rank - 1 - (p ? p->axis : 0);
    return axis >= 0 && a->dim[axis] <= INT_MAX && tiny_blas_steps(a->dim[axis], a->stride[axis]) &&
           tiny_blas_steps(a->dim[axis], b->stride[axis]);
}

static int tiny_blas_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    const tiny_blas *blas = (const tiny_blas *)user;
    (void)row;
    if (op->kind != TINY_OP_MATMUL && op->kind != TINY_OP_DOT) return 0;
    if (blas->least_flops > 0.0 && tiny_op_cost(op).flops < blas->least_flops) return 0;
    return op->kind == TINY_OP_MATMUL ? tiny_blas_sees_matmul(op) : tiny_blas_sees_dot(op);
}

/* BLAS begins a vector of negative stride at its other end. */
static const float *tiny_blas_start(const float *x, tiny_idx n, tiny_idx stride)
{
    return stride < 0 && n > 1 ? x + (n - 1) * stride : x;
}

/* Where batch number q of y (its axes before the last two) begins in t; an axis of length 1 or none is repeated. */
static tiny_idx tiny_blas_batch(const tiny_tensor *t, const tiny_tensor *y, tiny_idx q)
{
    tiny_idx at = 0;
    int back;
    for (back = 3; back <= y->rank; back++) {
        tiny_idx i = q % y->dim[y->rank - back];
        q /= y->dim[y->rank - back];
        if (back <= t->rank && t->dim[t->rank - back] > 1) at += i * t->stride[t->rank - back];
    }
    return at;
}

static void tiny_blas_product(const tiny_op *op, const float *a, const float *b, float *y)
{
    const tiny_tensor *ta = op->in[0], *tb = op->in[1], *ty = op->out[0];
    tiny_idx m = ty->dim[ty->rank - 2], n = ty->dim[ty->rank - 1], k = ta->dim[ta->rank - 1], i, j;
    tiny_idx y_down = ty->stride[ty->rank - 2], y_across = ty->stride[ty->rank - 1];
    tiny_blas_matrix ma, mb, my;
    (void)tiny_blas_see(ta, &ma);
    (void)tiny_blas_see(tb, &mb);
    (void)tiny_blas_see(ty, &my);
    if (k == 0 || m == 1 || n == 1)         /* without columns sgemv leaves y unchanged */
        for (i = 0; i < m; i++) for (j = 0; j < n; j++) y[i * y_down + j * y_across] = 0.0f;
    if (k == 0) return;
    if (m == 1 && tiny_blas_steps(k, ta->stride[ta->rank - 1]))
        cblas_sgemv(mb.by_rows ? CblasRowMajor : CblasColMajor, CblasTrans, (int)k, (int)n, 1.0f, b, mb.ld,
                    tiny_blas_start(a, k, ta->stride[ta->rank - 1]), k > 1 ? (int)ta->stride[ta->rank - 1] : 1, 0.0f, y,
                    n > 1 ? (int)y_across : 1);
    else if (n == 1 && tiny_blas_steps(k, tb->stride[tb->rank - 2]))
        cblas_sgemv(ma.by_rows ? CblasRowMajor : CblasColMajor, CblasNoTrans, (int)m, (int)k, 1.0f, a, ma.ld,
                    tiny_blas_start(b, k, tb->stride[tb->rank - 2]), k > 1 ? (int)tb->stride[tb->rank - 2] : 1, 0.0f, y,
                    m > 1 ? (int)y_down : 1);
    else
        cblas_sgemm(my.by_rows ? CblasRowMajor : CblasColMajor, ma.by_rows == my.by_rows ? CblasNoTrans : CblasTrans,
                    mb.by_rows == my.by_rows ? CblasNoTrans : CblasTrans, (int)m, (int)n, (int)k, 1.0f, a, ma.ld, b,
                    mb.ld, 0.0f, y, my.ld);
}

static void tiny_blas_run_matmul(const tiny_op *op)
{
    const tiny_matmul_params *p = (const tiny_matmul_params *)op->params;
    const tiny_tensor *ty = op->out[0], *bias = op->in[2];
    tiny_idx m = ty->dim[ty->rank - 2], n = ty->dim[ty->rank - 1],
             batches = m && n ? tiny_tensor_count(ty) / (m * n) : 0, q, i, j;
    int act = p ? p->act : TINY_ACT_NONE;
    for (q = 0; q < batches; q++) {
        float *y = (float *)ty->data + tiny_blas_batch(ty, ty, q);
        tiny_blas_product(op, (const float *)op->in[0]->data + tiny_blas_batch(op->in[0], ty, q),
                          (const float *)op->in[1]->data + tiny_blas_batch(op->in[1], ty, q), y);
        for (i = 0; i < m && (bias || act != TINY_ACT_NONE); i++)
            for (j = 0; j < n; j++) {
                float *to = y + i * ty->stride[ty->rank - 2] + j * ty->stride[ty->rank - 1], v = *to;
                if (bias) v += ((const float *)bias->data)[j * bias->stride[0]];
                if (act != TINY_ACT_NONE) v = v < 0.0f ? 0.0f : act == TINY_ACT_RELU2 ? v * v : v;
                *to = v;
            }
    }
}

static void tiny_blas_run_dot(const tiny_op *op)
{
    const tiny_reduce_params *p = (const tiny_reduce_params *)op->params;
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    const float *pa = (const float *)a->data, *pb = (const float *)b->data;
    tiny_idx n, q, results = tiny_tensor_count(y);
    int axis, i;
    if (p && p->all) {
        n = tiny_tensor_count(a);
        *(float *)y->data = n ? cblas_sdot((int)n, pa, 1, pb, 1) : 0.0f;
        return;
    }
    axis = a->rank - 1 - (p ? p->axis : 0);
    n = a->dim[axis];
    for (q = 0; q < results; q++) {
        tiny_idx left = q, at_a = 0, at_b = 0, at_y = 0;
        int iy = y->rank - 1;
        for (i = a->rank - 1; i >= 0; i--) {
            tiny_idx at;
            if (i == axis) {
                if (y->rank == a->rank) iy--;       /* kept, with length 1 */
                continue;
            }
            at = left % a->dim[i];
            left /= a->dim[i];
            at_a += at * a->stride[i];
            at_b += at * b->stride[i];
            at_y += at * y->stride[iy--];
        }
        ((float *)y->data)[at_y] =
            n == 0
                ? 0.0f
                : cblas_sdot((int)n, tiny_blas_start(pa + at_a, n, a->stride[axis]), n > 1 ? (int)a->stride[axis] : 1,
                             tiny_blas_start(pb + at_b, n, b->stride[axis]), n > 1 ? (int)b->stride[axis] : 1);
    }
}

static tiny_status tiny_blas_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    (void)user; (void)row; (void)says;
    if (op->kind == TINY_OP_MATMUL) tiny_blas_run_matmul(op);
    else tiny_blas_run_dot(op);
    return TINY_OK;
}

TINY_BLAS_FN const tiny_accel *tiny_blas_open(tiny_blas *blas)
{
    memset(blas, 0, sizeof *blas);
    blas->accel.version = TINY_ACCEL_VERSION;
    blas->accel.name = "blas";
    blas->accel.user = blas;
    blas->accel.can_run = tiny_blas_can_run;
    blas->accel.run = tiny_blas_run;
    return &blas->accel;
}

#endif
