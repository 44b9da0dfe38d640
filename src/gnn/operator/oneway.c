/* src/gnn/operator/oneway.c - convolutions whose kernels are sums of outer products of one-way filters
 * Paper    "A priori compression of convolutional neural networks for wave simulators", 2023 (arXiv 2304.04964): 3-way
 *          kernels are replaced by one-way filters before training. Rank and order are not in its abstract; they follow
 *          J. Jin, A. Dundar, E. Culurciello, "Flattened Convolutional Neural Networks for Feedforward Acceleration",
 *          2014 (arXiv 1412.5474), section 3, with a sum over several products.
 * Formula  K_o = sum over r < R of a_or (x) v_or (x) h_or:  z1 = sum over c of a[c] x[c],  z2 = v * z1 along the first
 *          axis,  z3 = h * z2 along the second,  y_o = sum over r of z3 + bias_o; no activation in between
 * Method   z1 of all o and r is one product of matrices, the passes are the operation of gnn/operator/lines.h, and the
 *          last pass sums over r. On a tape these are d + 1 ordinary operations. In use a sample goes through them in
 *          memory of two fields.
 * Cost     R n_out (n_in + d k) multiplications for each point, against n_out n_in k^d
 * Error    those of the parts: (n_in + R (k + 1) + k) u of the sum of all |products| at most
 * Left out other orders of the passes; activations between them */
#include <string.h>
#include "gnn/operator/oneway.h"
#include "gnn/operator/lines.h"
#include "gnn/ops.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

#define TINYI_ONEWAY_MOST 65536             /* channels; and the rank of all of them together times 64 */

tiny_status tinyi_oneway_check(tiny_ctx *ctx, const tgnn_oneway *p)
{
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: a description is needed");
    if (p->d < 1 || p->d > 3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: a field of %d axes, it must have 1 to 3", p->d);
    if (p->n_in < 1 || p->n_out < 1 || p->n_in > TINYI_ONEWAY_MOST || p->n_out > TINYI_ONEWAY_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: %td channels in and %td out, both must be 1 to %d", p->n_in,
                          p->n_out, TINYI_ONEWAY_MOST);
    if (p->k < 1 || p->k > 63 || p->k % 2 == 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: filters of %d taps, the number must be odd, 1 to 63", p->k);
    if (p->rank < 1 || p->rank > 1024 / p->k)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: a rank of %d, it must be 1 to %d with filters of %d taps",
                          p->rank, 1024 / p->k, p->k);
    if (p->stride < 0 || p->stride > 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: a stride of %d, it must be 1 to 64", p->stride);
    if (p->pad < 0 || p->pad >= p->k)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: %d zeros on each side, there can be 0 to %d", p->pad,
                          p->k - 1);
    return TINY_OK;
}

static tiny_idx tinyi_oneway_taps(const tgnn_oneway *p)
{
    return p->d == 1 ? p->k : p->d == 2 ? p->k * p->k : p->k * p->k * p->k;
}

TINY_API double tgnn_oneway_count(const tgnn_oneway *p)
{
    return p ? (double)p->rank * (double)p->n_out * ((double)p->n_in + (double)p->d * (double)p->k) : 0.0;
}
TINY_API double tgnn_oneway_dense_count(const tgnn_oneway *p)
{
    return p && p->d >= 1 && p->d <= 3 ? (double)p->n_out * (double)p->n_in * (double)tinyi_oneway_taps(p) : 0.0;
}

TINY_API tiny_status tgnn_oneway_size(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_idx *size, tiny_idx *after)
{
    tiny_status st = tinyi_ctx_check(ctx);
    double points = 1.0;
    int i;
    if (!st) st = tinyi_oneway_check(ctx, p);
    if (st) return st;
    if (!size || !after) return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: a size and an output are needed");
    for (i = 0; i < p->d; i++) {
        if (size[i] < p->k)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: axis %d has %td points, filters of %d taps need as many",
                              i, size[i], p->k);
        points *= (double)size[i] + 2.0 * p->k;
        if (points > 268435456.0)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "oneway: the field has more than 268435456 points");
        after[i] = (size[i] + 2 * p->pad - p->k) / (p->stride ? p->stride : 1) + 1;
    }
    return TINY_OK;
}

static tiny_idx tinyi_oneway_points(const tgnn_oneway *p, const tiny_idx *size)
{
    tiny_idx n = 1;
    int i;
    for (i = 0; i < p->d; i++) n *= size[i];
    return n;
}

/* a and f, both of one real type */
static tiny_status tinyi_oneway_weights(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *a, const tiny_tensor *f)
{
    const tiny_idx rows = p->n_out * p->rank;
    char x[96], y[96];
    if (!a || !f || tiny_tensor_check(a) || tiny_tensor_check(f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: both filters are needed");
    if (!tinyi_is_real(a) || f->dtype != a->dtype)
        return tinyi_fail(ctx, TINY_E_DTYPE, "oneway: the filters must be f32, or both f64");
    if (a->rank != 2 || a->dim[0] != rows || a->dim[1] != p->n_in || f->rank != 3 || f->dim[0] != p->d ||
        f->dim[1] != rows || f->dim[2] != p->k)
        return tinyi_fail(ctx, TINY_E_SHAPE, "oneway: the filters are %s and %s, they must be %td x %td and %d x %td "
                          "x %d", tinyi_shape_text(a, x), tinyi_shape_text(f, y), rows, p->n_in, p->d, rows, p->k);
    return TINY_OK;
}

static tiny_status tinyi_oneway_fits(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *x, const tiny_tensor *a,
                                     const tiny_tensor *f, const tiny_tensor *bias, const tiny_idx *size,
                                     tiny_idx *after)
{
    char text[96];
    tiny_status st = tgnn_oneway_size(ctx, p, size, after);
    if (!st) st = tinyi_oneway_weights(ctx, p, a, f);
    if (st) return st;
    if (!x || tiny_tensor_check(x)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneway: x is no tensor");
    if (x->dtype != a->dtype || (bias && bias->dtype != a->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "oneway: x, the filters and the bias must have one type");
    if (x->rank != 3 || x->dim[0] < 1 || x->dim[1] != p->n_in || x->dim[2] != tinyi_oneway_points(p, size))
        return tinyi_fail(ctx, TINY_E_SHAPE, "oneway: x is %s, it must be at least one sample x %td x %td",
                          tinyi_shape_text(x, text), p->n_in, tinyi_oneway_points(p, size));
    if (bias && (tiny_tensor_check(bias) || bias->rank != 1 || bias->dim[0] != p->n_out))
        return tinyi_fail(ctx, TINY_E_SHAPE, "oneway: the bias must have %td numbers", p->n_out);
    return TINY_OK;
}

/* the pass along one axis, after those before it */
static tgnn_lines_params tinyi_oneway_pass(const tgnn_oneway *p, const tiny_idx *size, const tiny_idx *after, int axis)
{
    tgnn_lines_params q;
    int i;
    memset(&q, 0, sizeof q);
    q.k = p->k;
    q.stride = p->stride;
    q.pad = p->pad;
    q.terms = axis == p->d - 1 ? p->rank : 1;
    q.outer = q.inner = 1;
    q.length = size[axis];
    for (i = 0; i < axis; i++) q.outer *= after[i];
    for (i = axis + 1; i < p->d; i++) q.inner *= size[i];
    return q;
}

static tiny_tensor tinyi_oneway_filter(const tiny_tensor *f, int axis)
{
    tiny_tensor t = *f;
    t.rank = 2;
    t.dim[0] = f->dim[1];
    t.dim[1] = f->dim[2];
    t.stride[0] = f->stride[1];
    t.stride[1] = f->stride[2];
    t.data = (unsigned char *)f->data + axis * f->stride[0] * (tiny_idx)tiny_dtype_bytes(f->dtype);
    return t;
}

TINY_API tiny_tensor tgnn_tape_oneway(tiny_tape *tape, const tgnn_oneway *p, const tiny_tensor *x, const tiny_tensor *a,
                                      const tiny_tensor *f, const tiny_tensor *bias, const tiny_idx *size)
{
    tiny_idx after[3];
    tiny_tensor z;
    tiny_ctx *ctx;
    int i;
    memset(&z, 0, sizeof z);
    if (!tape || tiny_tape_status(tape)) return z;
    ctx = tiny_tape_ctx(tape);
    if (tinyi_oneway_fits(ctx, p, x, a, f, bias, size, after)) {
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
        return z;
    }
    z = tiny_tape_call(tape, TINY_OP_MATMUL, a, x, NULL, NULL, NULL);
    for (i = 0; i < p->d && !tiny_tape_status(tape); i++) {
        const tgnn_lines_params q = tinyi_oneway_pass(p, size, after, i);
        const tiny_tensor w = tinyi_oneway_filter(f, i);
        tiny_op op;
        tiny_tensor from = z;
        memset(&op, 0, sizeof op);
        op.kind = TGNN_OP_LINES;
        op.row = tgnn_lines_row();
        op.in[0] = &from;
        op.in[1] = &w;
        op.in[2] = i == p->d - 1 ? bias : NULL;
        op.params = &q;
        if (tiny_tape_op(tape, &op, &z)) memset(&z, 0, sizeof z);
    }
    return z;
}

TINY_API tiny_status tgnn_oneway_conv(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *x, const tiny_tensor *a,
                                      const tiny_tensor *f, const tiny_tensor *bias, const tiny_idx *size,
                                      const tiny_tensor *y)
{
    tiny_idx after[3], room[2] = { 0, 0 }, n, i, points;
    tiny_tensor from, to, z[2];
    size_t width, bytes;
    unsigned char *memory;
    char text[96];
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_oneway_fits(ctx, p, x, a, f, bias, size, after);
    if (st) return st;
    points = tinyi_oneway_points(p, after);
    if (!y || tiny_tensor_check(y) || y->dtype != x->dtype || y->rank != 3 || y->dim[0] != x->dim[0] ||
        y->dim[1] != p->n_out || y->dim[2] != points)
        return tinyi_fail(ctx, TINY_E_SHAPE, "oneway: y is %s, it must be %td x %td x %td of the type of x",
                          y && !tiny_tensor_check(y) ? tinyi_shape_text(y, text) : "no tensor", x->dim[0], p->n_out,
                          points);
    for (k = 0; k < p->d; k++) {            /* the fields between the steps: as they become shorter */
        const tgnn_lines_params q = tinyi_oneway_pass(p, size, after, k);
        n = q.outer * q.length * q.inner;
        if (n > room[k & 1]) room[k & 1] = n;
    }
    n = p->n_out * p->rank;
    width = tiny_dtype_bytes(x->dtype);
    if (!tinyi_size_mul((size_t)n, width, &bytes) || !tinyi_size_mul(bytes, (size_t)(room[0] + room[1]), &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "oneway: the fields are larger than this machine can address");
    memory = (unsigned char *)tiny_alloc(ctx, bytes);
    if (!memory) return tiny_ctx_status(ctx);
    for (i = 0; !st && i < x->dim[0]; i++) {
        from = *x;
        to = *y;
        from.dim[0] = to.dim[0] = 1;
        from.data = (unsigned char *)x->data + i * x->stride[0] * (tiny_idx)width;
        to.data = (unsigned char *)y->data + i * y->stride[0] * (tiny_idx)width;
        z[0] = tiny_tensor_3d(memory, x->dtype, 1, n, x->dim[2]);
        st = tiny_matmul(ctx, a, &from, NULL, 0, &z[0]);
        for (k = 0; !st && k < p->d; k++) {
            const tgnn_lines_params q = tinyi_oneway_pass(p, size, after, k);
            const tiny_tensor w = tinyi_oneway_filter(f, k);
            const int last = k == p->d - 1, odd = (k & 1) != 0;
            if (!last)
                z[!odd] = tiny_tensor_3d(memory + (odd ? 0 : (size_t)(n * room[0]) * width), x->dtype, 1, n,
                                         q.outer * after[k] * q.inner);
            st = tgnn_lines(ctx, &z[odd], &w, last ? bias : NULL, &q, last ? &to : &z[!odd]);
        }
    }
    tiny_free(ctx, memory);
    return st;
}

TINY_API tiny_status tgnn_oneway_init(tiny_ctx *ctx, const tgnn_oneway *p, uint64_t seed, const tiny_tensor *a,
                                      const tiny_tensor *f)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_rng rng = tiny_rng_make(seed, 7);
    tiny_idx i, j, axis;
    double std;
    if (!st) st = tinyi_oneway_check(ctx, p);
    if (!st) st = tinyi_oneway_weights(ctx, p, a, f);
    if (st) return st;
    std = tinyi_exp64(tinyi_log64(2.0 / ((double)p->rank * (double)p->n_in * (double)tinyi_oneway_taps(p))) /
                      (2.0 * p->d + 2.0));
    for (i = 0; i < a->dim[0]; i++)
        for (j = 0; j < a->dim[1]; j++)
            tinyi_real_set(a->data, a->dtype, i * a->stride[0] + j * a->stride[1],
                           std * (double)tiny_rng_normal(&rng));
    for (axis = 0; axis < p->d; axis++)
        for (i = 0; i < f->dim[1]; i++)
            for (j = 0; j < p->k; j++)
                tinyi_real_set(f->data, f->dtype, axis * f->stride[0] + i * f->stride[1] + j * f->stride[2],
                               std * (double)tiny_rng_normal(&rng));
    return TINY_OK;
}

/* ---- kernels, and factors of kernels */

tiny_status tinyi_oneway_kernel_fits(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *a, const tiny_tensor *f,
                                     const tiny_tensor *kernel)
{
    char text[96];
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_oneway_check(ctx, p);
    if (!st) st = tinyi_oneway_weights(ctx, p, a, f);
    if (st) return st;
    if (!kernel || tiny_tensor_check(kernel) || !tinyi_is_real(kernel) || kernel->rank != 3 ||
        kernel->dim[0] != p->n_out || kernel->dim[1] != p->n_in || kernel->dim[2] != tinyi_oneway_taps(p))
        return tinyi_fail(ctx, TINY_E_SHAPE, "oneway: the kernel is %s, it must be %td x %td x %td",
                          kernel && !tiny_tensor_check(kernel) ? tinyi_shape_text(kernel, text) : "no tensor", p->n_out,
                          p->n_in, tinyi_oneway_taps(p));
    return TINY_OK;
}

static double tinyi_oneway_tap(const tgnn_oneway *p, const tiny_tensor *f, tiny_idx row, tiny_idx tap)
{
    double product = 1.0;
    int axis;
    for (axis = p->d - 1; axis >= 0; axis--, tap /= p->k)
        product *= tinyi_real(f->data, f->dtype,
                              axis * f->stride[0] + row * f->stride[1] + tap % p->k * f->stride[2]);
    return product;
}

TINY_REF_BEGIN
static double tinyi_oneway_product(const tgnn_oneway *p, const tiny_tensor *a, const tiny_tensor *f, tiny_idx o,
                                   tiny_idx c, tiny_idx tap)
{
    double sum = 0.0;
    tiny_idx r;
    for (r = o * p->rank; r < (o + 1) * p->rank; r++)
        sum += tinyi_real(a->data, a->dtype, r * a->stride[0] + c * a->stride[1]) * tinyi_oneway_tap(p, f, r, tap);
    return sum;
}
TINY_REF_END

TINY_API tiny_status tgnn_oneway_kernel(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *a, const tiny_tensor *f,
                                        const tiny_tensor *kernel)
{
    const tiny_status st = tinyi_oneway_kernel_fits(ctx, p, a, f, kernel);
    tiny_idx o, c, t;
    if (st) return st;
    for (o = 0; o < p->n_out; o++)
        for (c = 0; c < p->n_in; c++)
            for (t = 0; t < kernel->dim[2]; t++)
                tinyi_real_set(kernel->data, kernel->dtype,
                               o * kernel->stride[0] + c * kernel->stride[1] + t * kernel->stride[2],
                               tinyi_oneway_product(p, a, f, o, c, t));
    return TINY_OK;
}
