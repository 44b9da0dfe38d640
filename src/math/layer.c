/* src/math/layer.c - layers and losses made of operations of the table
 * Papers   S. Ioffe, C. Szegedy, "Batch Normalization", 2015 (arXiv 1502.03167), algorithm 1, biased variance. G.
 *          Hinton, O. Vinyals, J. Dean, "Distilling the Knowledge in a Neural Network", 2015 (arXiv 1503.02531). P.
 *          Huber, 1964.
 * Formula  see math/layer.h. Batch norm is a group norm over the axes (C, N, ...): one group holds one channel of all
 *          images. huber, m = min(|d|, delta): m^2 / 2 + delta (|d| - m). clamp is max, then min. Upsampling copies a
 *          view that repeats rows and columns by stride 0. */
#include "math/layer.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

static tiny_tensor tinyi_layer_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_layer_bad(tiny_tape *tape, tiny_status st, const char *text)
{
    (void)tinyi_tape_refuse(tape, st, text);
    return tinyi_layer_none();
}

/* a tensor of one number that the tape does not know */
static tiny_tensor tinyi_layer_number(tiny_tape *tape, tiny_dtype type, double x)
{
    tiny_tensor t = tiny_tape_new(tape, type, 0, NULL);
    if (t.data && !tiny_tape_dry(tape)) tinyi_real_set(t.data, type, 0, x);
    return t;
}

TINY_API tiny_tensor tiny_tape_add(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b)
{
    return tiny_tape_call(tape, TINY_OP_ADD, a, b, NULL, NULL, NULL);
}
TINY_API tiny_tensor tiny_tape_sub(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b)
{
    return tiny_tape_call(tape, TINY_OP_SUB, a, b, NULL, NULL, NULL);
}
TINY_API tiny_tensor tiny_tape_mul(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b)
{
    return tiny_tape_call(tape, TINY_OP_MUL, a, b, NULL, NULL, NULL);
}

TINY_API tiny_tensor tiny_tape_linear(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                      const tiny_tensor *bias, int act)
{
    tiny_tensor wt;
    tiny_matmul_params p;
    if (!tape || !x || !w || tiny_tape_status(tape)) return tinyi_layer_none();
    if (w->rank != 2) return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: linear: w must be a matrix (out, in)");
    wt = tiny_tensor_swap(*w, 0, 1);
    p.act = act;
    return tiny_tape_call(tape, TINY_OP_MATMUL, x, &wt, bias, NULL, &p);
}

TINY_API tiny_tensor tiny_tape_scale(tiny_tape *tape, const tiny_tensor *x, double alpha, double beta)
{
    tiny_tensor a, b, t;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (x->dtype == TINY_F32) {
        tiny_scale_params p;
        p.alpha = (float)alpha;
        p.beta = (float)beta;
        return tiny_tape_call(tape, TINY_OP_SCALE, x, NULL, NULL, NULL, &p);
    }
    a = tinyi_layer_number(tape, x->dtype, alpha);
    t = tiny_tape_mul(tape, x, &a);
    if (beta == 0.0) return t;
    b = tinyi_layer_number(tape, x->dtype, beta);
    return tiny_tape_add(tape, &t, &b);
}

TINY_API tiny_tensor tiny_tape_clamp(tiny_tape *tape, const tiny_tensor *x, double low, double high)
{
    tiny_tensor a, b, t;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    a = tinyi_layer_number(tape, x->dtype, low);
    b = tinyi_layer_number(tape, x->dtype, high);
    t = tiny_tape_call(tape, TINY_OP_MAXIMUM, x, &a, NULL, NULL, NULL);
    return tiny_tape_call(tape, TINY_OP_MINIMUM, &t, &b, NULL, NULL, NULL);
}

TINY_API tiny_tensor tiny_tape_leaky_relu(tiny_tape *tape, const tiny_tensor *x, double slope)
{
    tiny_tensor a, b, t;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    a = tiny_tape_call(tape, TINY_OP_RELU, x, NULL, NULL, NULL, NULL);
    t = tiny_tape_scale(tape, x, slope, 0.0);
    b = tiny_tape_scale(tape, &a, 1.0 - slope, 0.0);        /* slope x + (1 - slope) max(x, 0) */
    return tiny_tape_add(tape, &t, &b);
}

TINY_API tiny_tensor tiny_tape_mean(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_reduce_params p = { 0, 0, 0 };
    p.all = 1;
    return tiny_tape_call(tape, TINY_OP_MEAN, x, NULL, NULL, NULL, &p);
}

TINY_API tiny_tensor tiny_tape_constant(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_tensor y;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    y = tiny_tape_new(tape, x->dtype, x->rank, x->dim);
    if (y.data && !tiny_tape_dry(tape) && tiny_copy(tiny_tape_ctx(tape), x, &y))
        return tinyi_layer_bad(tape, tiny_ctx_status(tiny_tape_ctx(tape)), "tape: constant: x is no tensor");
    return y;
}

TINY_API tiny_tensor tiny_tape_reshape(tiny_tape *tape, const tiny_tensor *x, int rank, const tiny_idx *dim)
{
    tiny_tensor y, dense;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (rank < 0 || rank > TINY_MAX_RANK || (rank && !dim))
        return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: reshape to a rank that is not 0 to 4");
    dense = tiny_tensor_is_dense(x) ? *x : tiny_tape_call(tape, TINY_OP_COPY, x, NULL, NULL, NULL, NULL);
    y = tiny_tensor_nd(dense.data, dense.dtype, rank, dim);
    if (!tiny_tape_status(tape) && (tiny_tensor_check(&y) || tiny_tensor_count(&y) != tiny_tensor_count(x)))
        return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: reshape to a shape with another number of elements");
    return y;
}

/* x into a part of y that begins at from along axis */
static void tinyi_layer_put(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *y, int axis, tiny_idx from)
{
    tiny_tensor part = *y, out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    part.data = (unsigned char *)y->data + from * y->stride[axis] * (tiny_idx)tiny_dtype_bytes(y->dtype);
    part.dim[axis] = x->dim[axis];
    op.kind = TINY_OP_COPY;
    op.in[0] = x;
    op.out[0] = &part;
    if (tiny_tensor_count(x)) (void)tiny_tape_op(tape, &op, out);
}

TINY_API tiny_tensor tiny_tape_concat(tiny_tape *tape, int n, const tiny_tensor *x, int axis)
{
    tiny_idx dim[TINY_MAX_RANK], at = 0;
    tiny_tensor y;
    int i, k;
    if (!tape || tiny_tape_status(tape)) return tinyi_layer_none();
    if (n < 1 || !x || axis < 0 || axis >= x[0].rank)
        return tinyi_layer_bad(tape, TINY_E_ARGUMENT, "tape: concat needs a tensor and one of its axes");
    memcpy(dim, x[0].dim, sizeof dim);
    for (i = 1; i < n; i++) {
        for (k = 0; k < x[0].rank; k++)
            if (x[i].rank != x[0].rank || x[i].dtype != x[0].dtype || (k != axis && x[i].dim[k] != dim[k]))
                return tinyi_layer_bad(tape, TINY_E_SHAPE,
                                       "tape: concat of tensors that differ in more than the one axis");
        dim[axis] += x[i].dim[axis];
    }
    y = tiny_tape_new(tape, x[0].dtype, x[0].rank, dim);
    for (i = 0; y.data && i < n; i++) {
        tinyi_layer_put(tape, &x[i], &y, axis, at);
        at += x[i].dim[axis];
    }
    return y;
}

TINY_API tiny_tensor tiny_tape_pad(tiny_tape *tape, const tiny_tensor *x, const tiny_idx *before, const tiny_idx *after)
{
    tiny_idx dim[TINY_MAX_RANK], at = 0;
    tiny_tensor y, part, out[TINY_OP_MAX_OUT];
    tiny_op op;
    int k;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    for (k = 0; k < x->rank; k++) {
        if (before[k] < 0 || after[k] < 0 || before[k] > TINY_IDX_MAX / 4 || after[k] > TINY_IDX_MAX / 4)
            return tinyi_layer_bad(tape, TINY_E_ARGUMENT, "tape: padding below 0");
        dim[k] = before[k] + x->dim[k] + after[k];
    }
    y = tiny_tape_new(tape, x->dtype, x->rank, dim);
    if (!y.data) return y;
    if (!tiny_tape_dry(tape)) memset(y.data, 0, (size_t)tiny_tensor_count(&y) * tiny_dtype_bytes(y.dtype));
    part = y;
    for (k = 0; k < x->rank; k++) {
        at += before[k] * y.stride[k];
        part.dim[k] = x->dim[k];
    }
    part.data = (unsigned char *)y.data + at * (tiny_idx)tiny_dtype_bytes(y.dtype);
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_COPY;
    op.in[0] = x;
    op.out[0] = &part;
    if (tiny_tensor_count(x)) (void)tiny_tape_op(tape, &op, out);
    return tiny_tape_status(tape) ? tinyi_layer_none() : y;
}

TINY_API tiny_tensor tiny_tape_hash_gather(tiny_tape *tape, const tiny_tensor *z, const tiny_tensor *index,
                                           const tiny_tensor *c)
{
    tiny_tensor t = tiny_tape_call(tape, TINY_OP_GATHER, z, index, NULL, NULL, NULL);
    return tiny_tape_mul(tape, &t, c);
}

TINY_API tiny_tensor tiny_tape_upsample2x(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_idx dim[4];
    tiny_tensor view, y;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (x->rank != 4) return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: upsample2x: x must be (N, C, H, W)");
    dim[0] = x->dim[0] * x->dim[1] * x->dim[2];
    dim[1] = x->dim[3];
    view = tiny_tape_reshape(tape, x, 2, dim);
    if (!view.data) return tinyi_layer_none();
    view.rank = 4;                          /* (rows, 2, columns, 2), the twos repeated */
    view.dim[2] = view.dim[1];
    view.stride[2] = view.stride[1];
    view.dim[1] = view.dim[3] = 2;
    view.stride[1] = view.stride[3] = 0;
    y = tiny_tape_call(tape, TINY_OP_COPY, &view, NULL, NULL, NULL, NULL);
    memcpy(dim, x->dim, sizeof dim);
    dim[2] *= 2;
    dim[3] *= 2;
    return tiny_tape_reshape(tape, &y, 4, dim);
}

TINY_API tiny_tensor tiny_tape_channel_pool(tiny_tape *tape, const tiny_tensor *x, tiny_idx n_out)
{
    tiny_idx dim[3], o, i;
    tiny_tensor a, v, y;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (x->rank < 2 || n_out < 1 || x->dim[1] < 1 || n_out > TINY_IDX_MAX / 2 / x->dim[1])
        return tinyi_layer_bad(tape, TINY_E_SHAPE,
                               "tape: channel_pool: x must be (N, C, ...), and n_out at least 1");
    dim[0] = n_out;
    dim[1] = x->dim[1];
    a = tiny_tape_new(tape, x->dtype, 2, dim);
    if (!a.data) return a;
    for (o = 0; !tiny_tape_dry(tape) && o < n_out; o++) {
        const tiny_idx low = o * dim[1] / n_out, high = ((o + 1) * dim[1] + n_out - 1) / n_out;
        for (i = 0; i < dim[1]; i++)
            tinyi_real_set(a.data, a.dtype, o * dim[1] + i, i >= low && i < high ? 1.0 / (double)(high - low) : 0.0);
    }
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = tiny_tensor_count(x) / TINYI_MAX(1, x->dim[0] * x->dim[1]);
    v = tiny_tape_reshape(tape, x, 3, dim);
    y = tiny_tape_call(tape, TINY_OP_MATMUL, &a, &v, NULL, NULL, NULL);
    v = *x;
    v.dim[1] = n_out;
    return tiny_tape_reshape(tape, &y, x->rank, v.dim);
}

TINY_API tiny_tensor tiny_tape_conv_transpose(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                              const tiny_tensor *bias, const tiny_conv2d_params *params)
{
    tiny_patch_params p;
    tiny_tensor turned, flat, wt, col, y, b;
    tiny_idx dim[4];
    int i;
    memset(&p, 0, sizeof p);
    if (!tape || !x || !w || tiny_tape_status(tape)) return tinyi_layer_none();
    if (x->rank != 4 || w->rank != 4 || x->dim[1] != w->dim[0])
        return tinyi_layer_bad(tape, TINY_E_SHAPE,
                               "tape: conv_transpose: x must be (N, C, H, W) and w (C, C out, R, S)");
    if (params && params->groups > 1)
        return tinyi_layer_bad(tape, TINY_E_UNSUPPORTED, "tape: conv_transpose: groups are not supported");
    for (i = 0; i < 2; i++) {
        p.size[i] = (int)w->dim[2 + i];
        p.stride[i] = params && params->stride[i] ? params->stride[i] : 1;
        p.dilation[i] = params && params->dilation[i] ? params->dilation[i] : 1;
        p.pad[i] = params ? params->pad[i] : 0;
        p.pad[i + 2] = params ? params->pad[i + 2] : 0;
        p.image[i] =
            (int)((x->dim[2 + i] - 1) * p.stride[i] + p.dilation[i] * (p.size[i] - 1) + 1 - p.pad[i] - p.pad[i + 2]);
        if (p.image[i] < 1)
            return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: conv_transpose: the padding leaves nothing");
    }
    turned = tiny_tensor_swap(*x, 0, 1);
    flat = tiny_tape_call(tape, TINY_OP_COPY, &turned, NULL, NULL, NULL, NULL);
    dim[0] = x->dim[1];
    dim[1] = x->dim[0] * x->dim[2] * x->dim[3];
    flat = tiny_tape_reshape(tape, &flat, 2, dim);
    dim[0] = w->dim[0];
    dim[1] = w->dim[1] * w->dim[2] * w->dim[3];
    wt = tiny_tape_reshape(tape, w, 2, dim);
    wt = tiny_tensor_swap(wt, 0, 1);
    col = tiny_tape_call(tape, TINY_OP_MATMUL, &wt, &flat, NULL, NULL, NULL);
    y = tiny_tape_call(tape, TINY_OP_COL2IM, &col, NULL, NULL, NULL, &p);
    if (bias && !tiny_tape_status(tape)) {
        b = *bias;
        b.rank = 3;
        b.dim[1] = b.dim[2] = 1;
        b.stride[1] = b.stride[2] = 0;
        y = tiny_tape_add(tape, &y, &b);
    }
    if (params && params->relu) y = tiny_tape_call(tape, TINY_OP_RELU, &y, NULL, NULL, NULL, NULL);
    return y;
}

/* a vector of channels before n more axes */
static tiny_tensor tinyi_layer_channels(const tiny_tensor *v, int n)
{
    tiny_tensor t = *v;
    int i;
    t.rank = 1 + n;
    for (i = 1; i <= n; i++) {
        t.dim[i] = 1;
        t.stride[i] = 0;
    }
    return t;
}

/* run = (1 - m) run + m new; mean or biased variance of each channel of x (N, C, n), in double */
static void tinyi_layer_keep(const tiny_tensor *run, tiny_idx c, double m, double x)
{
    const tiny_idx at = c * run->stride[0];
    tinyi_real_set(run->data, run->dtype, at, (1.0 - m) * tinyi_real(run->data, run->dtype, at) + m * x);
}

/* Sums of v and v v of four channels of floats at a time: the sum of each has its own order, and the four do not wait
 * for each other. Channels beyond the last repeat it. */
static void tinyi_layer_sums_f32(const tiny_tensor *x, tiny_idx c, double mean[4], double ss[4])
{
    const float *from[4];
    tiny_idx i, j;
    int k;
    memset(mean, 0, 4 * sizeof *mean);
    memset(ss, 0, 4 * sizeof *ss);
    for (i = 0; i < x->dim[0]; i++) {
        double m0 = mean[0], m1 = mean[1], m2 = mean[2], m3 = mean[3], s0 = ss[0], s1 = ss[1], s2 = ss[2], s3 = ss[3];
        for (k = 0; k < 4; k++)
            from[k] = (const float *)x->data + i * x->stride[0] + TINYI_MIN(c + k, x->dim[1] - 1) * x->stride[1];
        for (j = 0; j < x->dim[2]; j++) {
            const double a = (double)from[0][j * x->stride[2]], b = (double)from[1][j * x->stride[2]],
                         d = (double)from[2][j * x->stride[2]], e = (double)from[3][j * x->stride[2]];
            m0 += a; m1 += b; m2 += d; m3 += e;
            s0 += a * a; s1 += b * b; s2 += d * d; s3 += e * e;
        }
        mean[0] = m0; mean[1] = m1; mean[2] = m2; mean[3] = m3;
        ss[0] = s0; ss[1] = s1; ss[2] = s2; ss[3] = s3;
    }
}

static void tinyi_layer_running(const tiny_tensor *x, const tiny_tensor *run_mean, const tiny_tensor *run_var, double m)
{
    tiny_idx c, i, j;
    const double n = (double)x->dim[0] * (double)x->dim[2];
    double four[4], squares[4];
    for (c = 0; c < x->dim[1]; c++) {
        double mean = 0.0, ss = 0.0;
        if (x->dtype == TINY_F32) {
            if (c % 4 == 0) tinyi_layer_sums_f32(x, c, four, squares);
            mean = four[c % 4];
            ss = squares[c % 4];
        } else
            for (i = 0; i < x->dim[0]; i++)
                for (j = 0; j < x->dim[2]; j++) {
                    const double v =
                        tinyi_real(x->data, x->dtype, i * x->stride[0] + c * x->stride[1] + j * x->stride[2]);
                    mean += v;
                    ss += v * v;
                }
        mean /= n;
        /* the squares cancel: once more about the mean */
        if (run_var && !(ss / n - mean * mean > 1e-6 * mean * mean))
            for (ss = 0.0, i = 0; i < x->dim[0]; i++)
                for (j = 0; j < x->dim[2]; j++) {
                    const double d =
                        tinyi_real(x->data, x->dtype, i * x->stride[0] + c * x->stride[1] + j * x->stride[2]) - mean;
                    ss += d * d;
                }
        else ss -= n * mean * mean;
        if (run_mean) tinyi_layer_keep(run_mean, c, m, mean);
        if (run_var) tinyi_layer_keep(run_var, c, m, ss / n);
    }
}

TINY_API tiny_tensor tiny_tape_batch_norm(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *g,
                                          const tiny_tensor *b, const tiny_tensor *run_mean, const tiny_tensor *run_var,
                                          const tiny_batch_norm_params *params)
{
    const double eps = params && params->eps != 0.0f ? (double)params->eps : 1e-5,
                 momentum = params && params->momentum != 0.0f ? (double)params->momentum : 0.1;
    tiny_idx dim[3];
    tiny_tensor v, y, t, e;
    int k;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (x->rank < 2) return tinyi_layer_bad(tape, TINY_E_SHAPE, "tape: batch_norm: x must be (N, C, ...)");
    for (k = 0; k < 4; k++) {
        const tiny_tensor *c = k == 0 ? g : k == 1 ? b : k == 2 ? run_mean : run_var;
        if (c && (c->rank != 1 || c->dim[0] != x->dim[1] || c->dtype != x->dtype))
            return tinyi_layer_bad(tape, TINY_E_SHAPE,
                                   "tape: batch_norm: g, b and the running values must have one number for each "
                                   "channel, of the type of x");
    }
    if (!(params && params->train) && (!run_mean || !run_var))
        return tinyi_layer_bad(tape, TINY_E_ARGUMENT, "tape: batch_norm: without train it needs run_mean and run_var");
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = tiny_tensor_count(x) / TINYI_MAX(1, x->dim[0] * x->dim[1]);
    v = tiny_tape_reshape(tape, x, 3, dim);
    if (!v.data) return tinyi_layer_none();
    if (params && params->train) {
        tiny_norm_params p;
        tiny_tensor turned = tiny_tensor_swap(v, 0, 1);
        memset(&p, 0, sizeof p);
        p.eps = (float)eps;
        y = tiny_tape_call(tape, TINY_OP_GROUPNORM, &turned, NULL, NULL, NULL, &p);
        y = tiny_tensor_swap(y, 0, 1);
        if (!tiny_tape_dry(tape) && !tiny_tape_status(tape) && (run_mean || run_var))
            tinyi_layer_running(&v, run_mean, run_var, momentum);
    } else {
        t = tinyi_layer_channels(run_mean, 1);
        y = tiny_tape_sub(tape, &v, &t);
        t = tinyi_layer_channels(run_var, 1);
        e = tinyi_layer_number(tape, x->dtype, eps);
        t = tiny_tape_add(tape, &t, &e);
        t = tiny_tape_call(tape, TINY_OP_RSQRT, &t, NULL, NULL, NULL, NULL);
        y = tiny_tape_mul(tape, &y, &t);
    }
    if (g) {
        t = tinyi_layer_channels(g, 1);
        y = tiny_tape_mul(tape, &y, &t);
    }
    if (b) {
        t = tinyi_layer_channels(b, 1);
        y = tiny_tape_add(tape, &y, &t);
    }
    return tiny_tape_reshape(tape, &y, x->rank, x->dim);
}

TINY_API tiny_tensor tiny_tape_cross_entropy(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *label,
                                             double smoothing)
{
    tiny_cross_entropy_params p;
    memset(&p, 0, sizeof p);
    p.smoothing = (float)smoothing;
    return tiny_tape_call(tape, TINY_OP_CROSS_ENTROPY, x, label, NULL, NULL, &p);
}

TINY_API tiny_tensor tiny_tape_mse(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target)
{
    tiny_tensor d = tiny_tape_sub(tape, x, target), s = tiny_tape_mul(tape, &d, &d);
    return tiny_tape_mean(tape, &s);
}

TINY_API tiny_tensor tiny_tape_huber(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target, double delta)
{
    tiny_tensor d, a, m, s, t, number;
    if (!tape || !x || tiny_tape_status(tape)) return tinyi_layer_none();
    if (!(delta > 0.0)) return tinyi_layer_bad(tape, TINY_E_ARGUMENT, "tape: huber: delta must be above 0");
    number = tinyi_layer_number(tape, x->dtype, delta);
    d = tiny_tape_sub(tape, x, target);
    a = tiny_tape_call(tape, TINY_OP_ABS, &d, NULL, NULL, NULL, NULL);
    m = tiny_tape_call(tape, TINY_OP_MINIMUM, &a, &number, NULL, NULL, NULL);
    s = tiny_tape_mul(tape, &m, &m);
    s = tiny_tape_scale(tape, &s, 0.5, 0.0);
    t = tiny_tape_sub(tape, &a, &m);
    t = tiny_tape_scale(tape, &t, delta, 0.0);
    s = tiny_tape_add(tape, &s, &t);
    return tiny_tape_mean(tape, &s);
}

TINY_API tiny_tensor tiny_tape_kl_distill(tiny_tape *tape, const tiny_tensor *student, const tiny_tensor *teacher,
                                          double temperature)
{
    tiny_tensor a, b, p, d;
    if (!tape || !student || !teacher || tiny_tape_status(tape)) return tinyi_layer_none();
    if (!(temperature > 0.0) || student->rank < 1 || !tiny_tensor_count(student))
        return tinyi_layer_bad(tape, TINY_E_ARGUMENT,
                               "tape: kl_distill: the temperature must be above 0, and there must be logits");
    a = tiny_tape_scale(tape, student, 1.0 / temperature, 0.0);
    b = tiny_tape_scale(tape, teacher, 1.0 / temperature, 0.0);
    a = tiny_tape_call(tape, TINY_OP_LOG_SOFTMAX, &a, NULL, NULL, NULL, NULL);
    b = tiny_tape_call(tape, TINY_OP_LOG_SOFTMAX, &b, NULL, NULL, NULL, NULL);
    p = tiny_tape_call(tape, TINY_OP_EXP, &b, NULL, NULL, NULL, NULL);
    d = tiny_tape_sub(tape, &b, &a);
    d = tiny_tape_mul(tape, &p, &d);
    d = tiny_tape_mean(tape, &d);           /* of all numbers: times those of a row it is the mean of rows */
    return tiny_tape_scale(tape, &d, temperature * temperature * (double)student->dim[student->rank - 1], 0.0);
}

/* ---- curvature */

static double tinyi_hvp_squares(const tiny_tensor *x)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < tiny_tensor_count(x); i++) sum += ((const double *)x->data)[i] * ((const double *)x->data)[i];
    return sum;
}

static void tinyi_hvp_move(const tiny_param *p, size_t n, const tiny_tensor *v, double by)
{
    size_t k;
    tiny_idx i;
    for (k = 0; k < n; k++)
        for (i = 0; i < tiny_tensor_count(&p[k].value); i++)
            ((double *)p[k].value.data)[i] += by * ((const double *)v[k].data)[i];
}

TINY_API tiny_status tiny_hvp(tiny_ctx *ctx, const tiny_param *p, size_t n, tiny_gradient_fn fn, void *user,
                              const tiny_tensor *v, const tiny_tensor *h)
{
    return tiny_hvp_step(ctx, p, n, fn, user, v, h, 1e-3);
}

TINY_API tiny_status tiny_hvp_step(tiny_ctx *ctx, const tiny_param *p, size_t n, tiny_gradient_fn fn, void *user,
                                   const tiny_tensor *v, const tiny_tensor *h, double step)
{
    double *keep, size = 0.0, length = 0.0, e;
    size_t k, total = 0;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!p || !n || !fn || !v || !h || !(step > 0.0 && step < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "hvp: parameters, directions, results, a gradient function and a step in 0 to 1 are "
                          "required");
    for (k = 0; k < n; k++) {
        const tiny_tensor *t[4];
        int j;
        t[0] = &p[k].value; t[1] = &p[k].grad; t[2] = &v[k]; t[3] = &h[k];
        for (j = 0; j < 4; j++)
            if (tiny_tensor_check(t[j]) || t[j]->dtype != TINY_F64 || !tiny_tensor_is_dense(t[j]) ||
                tiny_tensor_count(t[j]) != tiny_tensor_count(t[0]))
                return tinyi_fail(
                    ctx, TINY_E_DTYPE,
                    "hvp: parameter %zu: value, gradient, direction and result must be dense f64 of the same size", k);
        total += (size_t)tiny_tensor_count(t[0]);
        size += tinyi_hvp_squares(t[0]);
        length += tinyi_hvp_squares(t[2]);
    }
    for (k = 0; k < n; k++) memset(h[k].data, 0, (size_t)tiny_tensor_count(&h[k]) * sizeof(double));
    if (length == 0.0) return TINY_OK;
    e = step * tinyi_sqrt64(size == 0.0 ? 1.0 : size) / tinyi_sqrt64(length);
    keep = (double *)tinyi_alloc(ctx, total, sizeof *keep);
    if (!keep) return tiny_ctx_status(ctx);
    for (k = 0, total = 0; k < n; total += (size_t)tiny_tensor_count(&p[k].value), k++)
        if (tiny_tensor_count(&p[k].value))
            memcpy(keep + total, p[k].value.data, (size_t)tiny_tensor_count(&p[k].value) * sizeof *keep);
    tinyi_hvp_move(p, n, v, e);
    st = fn(user);
    for (k = 0; !st && k < n; k++)
        for (i = 0; i < tiny_tensor_count(&h[k]); i++) ((double *)h[k].data)[i] = ((const double *)p[k].grad.data)[i];
    for (k = 0, total = 0; k < n; total += (size_t)tiny_tensor_count(&p[k].value), k++)
        if (tiny_tensor_count(&p[k].value))
            memcpy(p[k].value.data, keep + total, (size_t)tiny_tensor_count(&p[k].value) * sizeof *keep);
    if (!st) {
        tinyi_hvp_move(p, n, v, -e);
        st = fn(user);
    }
    for (k = 0; !st && k < n; k++)
        for (i = 0; i < tiny_tensor_count(&h[k]); i++)
            ((double *)h[k].data)[i] = (((double *)h[k].data)[i] - ((const double *)p[k].grad.data)[i]) / (2.0 * e);
    for (k = 0, total = 0; k < n; total += (size_t)tiny_tensor_count(&p[k].value), k++)
        if (tiny_tensor_count(&p[k].value))
            memcpy(p[k].value.data, keep + total, (size_t)tiny_tensor_count(&p[k].value) * sizeof *keep);
    tiny_free(ctx, keep);
    return st;
}
