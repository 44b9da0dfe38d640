/* src/gnn/operator/patches.c - multi-grid patches of periodic fields, relative losses, Gaussian random fields
 * Paper    J. Kossaifi et al., 2023 (arXiv 2310.00120), section 3.3: patches that see the whole field; D. Rogers,
 *          spectral simulation of stationary fields: noise, its transform times the root of the spectrum, and back
 * Formula  patch i of a level: points i s - ceil((h - s) / 2) - p and on, h + 2 p of them, of the field at every 2^l-th
 *          point, where h is the height of a patch and s = h / 2^l; indices modulo the length.
 *          random field: white noise w (N points), y = F^-1 (scale (|k|^2 + tau^2)^(-alpha / 2) / N^(1/2) F w), F and
 *          F^-1 without a factor: each mode then has the variance of its spectrum. Frequency 0 is set to 0.        */
#include <string.h>
#include "gnn/operator/fno.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/fft.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

/* ---- patches */

TINY_API tiny_status tgnn_patch_size(tiny_ctx *ctx, const tgnn_patches *p, tiny_idx patch[2])
{
    int k;
    if (tinyi_ctx_check(ctx)) return tinyi_ctx_check(ctx);
    if (!p || !patch) return tinyi_fail(ctx, TINY_E_ARGUMENT, "patches: a description and an output are needed");
    patch[0] = patch[1] = 0;
    if (p->levels < 0 || p->levels > 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "patches: %d levels, there can be 0 to 8", p->levels);
    for (k = 0; k < 2; k++) {
        const tiny_idx unit = (tiny_idx)1 << 2 * p->levels, n = p->size[k];
        if (n < 1 || n > (tiny_idx)1 << 24 || n % unit)
            return tinyi_fail(ctx, TINY_E_SHAPE,
                              "patches: %td points on axis %d, with %d levels it must be a multiple of %td", n, k,
                              p->levels, unit);
        if (p->pad[k] < 0 || p->pad[k] > n)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "patches: %td points of padding on axis %d, there can be 0 to %td",
                              p->pad[k], k, n);
    }
    for (k = 0; k < 2; k++) patch[k] = (p->size[k] >> p->levels) + 2 * p->pad[k];
    return TINY_OK;
}

static tiny_status tinyi_patch_check(tiny_ctx *ctx, const tgnn_patches *p, const tiny_tensor *x, const tiny_tensor *y,
                                     tiny_idx patch[2], tiny_idx levels)
{
    tiny_status st = tgnn_patch_size(ctx, p, patch);
    char a[96], b[96];
    tiny_idx n;
    if (st) return st;
    if (!x || !y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "patches: both tensors are needed");
    st = tiny_tensor_check(x);
    if (!st) st = tiny_tensor_check(y);
    if (st) return tinyi_fail(ctx, st, "patches: %s", tiny_status_text(st));
    n = (tiny_idx)1 << 2 * p->levels;
    if (x->rank != 3 || y->rank != 3 || !tinyi_is_real(x) || x->dtype != y->dtype ||
        x->dim[1] != p->size[0] * p->size[1] || y->dim[1] != patch[0] * patch[1] || y->dim[0] % n ||
        y->dim[0] / n != x->dim[0] || y->dim[2] % levels || y->dim[2] / levels != x->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "patches: the field is %s and the patches are %s; fields of %td x %td points have %td "
                          "patches of %td x %td",
                          tinyi_shape_text(x, a), tinyi_shape_text(y, b), p->size[0], p->size[1], n, patch[0],
                          patch[1]);
    return TINY_OK;
}

/* the point of the field that row r of patch i shows on level l */
static tiny_idx tinyi_patch_point(tiny_idx n, int levels, int l, tiny_idx pad, tiny_idx i, tiny_idx r)
{
    const tiny_idx h = n >> levels, s = h >> l, length = n >> l;
    tiny_idx at = i * s - (h - s + 1) / 2 - pad + r;
    at %= length;
    return (at < 0 ? at + length : at) << l;
}

TINY_API tiny_status tgnn_patch_split(tiny_ctx *ctx, const tgnn_patches *p, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_idx patch[2], b, i, r, c, k, n;
    const tiny_status st = tinyi_patch_check(ctx, p, x, y, patch, p ? (tiny_idx)p->levels + 1 : 1);
    int l;
    if (st) return st;
    n = (tiny_idx)1 << p->levels;
    for (b = 0; b < y->dim[0]; b++)
        for (l = 0; l <= p->levels; l++)
            for (r = 0; r < patch[0]; r++) {
                i = b % (n * n) / n;
                i = tinyi_patch_point(p->size[0], p->levels, l, p->pad[0], i, r) * p->size[1];
                for (c = 0; c < patch[1]; c++) {
                    const tiny_idx at =
                        i + tinyi_patch_point(p->size[1], p->levels, l, p->pad[1], b % n, c);
                    for (k = 0; k < x->dim[2]; k++)
                        tinyi_real_set(y->data, y->dtype,
                                       b * y->stride[0] + (r * patch[1] + c) * y->stride[1] +
                                           (l * x->dim[2] + k) * y->stride[2],
                                       tinyi_real(x->data, x->dtype,
                                                  b / (n * n) * x->stride[0] + at * x->stride[1] + k * x->stride[2]));
                }
            }
    return TINY_OK;
}

TINY_API tiny_status tgnn_patch_join(tiny_ctx *ctx, const tgnn_patches *p, const tiny_tensor *y, const tiny_tensor *x)
{
    tiny_idx patch[2], b, r, c, k, n, h, w;
    const tiny_status st = tinyi_patch_check(ctx, p, x, y, patch, 1);
    if (st) return st;
    n = (tiny_idx)1 << p->levels;
    h = p->size[0] / n;
    w = p->size[1] / n;
    for (b = 0; b < y->dim[0]; b++)
        for (r = 0; r < h; r++)
            for (c = 0; c < w; c++) {
                const tiny_idx to = (b % (n * n) / n * h + r) * p->size[1] + b % n * w + c;
                const tiny_idx from = (r + p->pad[0]) * patch[1] + c + p->pad[1];
                for (k = 0; k < x->dim[2]; k++)
                    tinyi_real_set(x->data, x->dtype,
                                   b / (n * n) * x->stride[0] + to * x->stride[1] + k * x->stride[2],
                                   tinyi_real(y->data, y->dtype,
                                              b * y->stride[0] + from * y->stride[1] + k * y->stride[2]));
            }
    return TINY_OK;
}

static tiny_tensor tinyi_patch_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

/* The sentence of the context's last failure, which stays in the tape. */
static tiny_tensor tinyi_patch_refuse(tiny_tape *tape)
{
    tiny_ctx *ctx = tiny_tape_ctx(tape);
    (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
    return tinyi_patch_none();
}

TINY_API tiny_tensor tgnn_tape_patch_join(tiny_tape *tape, const tgnn_patches *p, const tiny_tensor *y)
{
    tiny_tensor x, from, to, out[TINY_OP_MAX_OUT];
    tiny_idx patch[2], n, h, w, i, k, dim[3], samples;
    size_t bytes;
    tiny_op op;
    if (!tape || tiny_tape_status(tape)) return tinyi_patch_none();
    if (tgnn_patch_size(tiny_tape_ctx(tape), p, patch)) return tinyi_patch_refuse(tape);
    n = (tiny_idx)1 << p->levels;
    h = p->size[0] / n;
    w = p->size[1] / n;
    if (!y || y->rank != 3 || y->dim[1] != patch[0] * patch[1] || y->dim[0] % (n * n)) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "patches: the patches do not have the size of the description");
        return tinyi_patch_none();
    }
    samples = y->dim[0] / (n * n);
    dim[0] = samples;
    dim[1] = p->size[0] * p->size[1];
    dim[2] = y->dim[2];
    x = tiny_tape_new(tape, y->dtype, 3, dim);
    bytes = tiny_dtype_bytes(y->dtype);
    for (i = 0; i < n && !tiny_tape_status(tape); i++)
        for (k = 0; k < n && !tiny_tape_status(tape); k++) {
            from = *y;                      /* (samples, rows, columns, channels) of one patch */
            from.rank = 4;
            from.data = (unsigned char *)y->data +
                        ((i * n + k) * y->stride[0] + (p->pad[0] * patch[1] + p->pad[1]) * y->stride[1]) *
                            (tiny_idx)bytes;
            from.dim[0] = samples;
            from.stride[0] = n * n * y->stride[0];
            from.dim[1] = h;
            from.stride[1] = patch[1] * y->stride[1];
            from.dim[2] = w;
            from.stride[2] = y->stride[1];
            from.dim[3] = y->dim[2];
            from.stride[3] = y->stride[2];
            to = from;
            to.data = (unsigned char *)x.data + ((i * h * p->size[1] + k * w) * dim[2]) * (tiny_idx)bytes;
            to.stride[0] = dim[1] * dim[2];
            to.stride[1] = p->size[1] * dim[2];
            to.stride[2] = dim[2];
            to.stride[3] = 1;
            memset(&op, 0, sizeof op);
            op.kind = TINY_OP_COPY;
            op.in[0] = &from;
            op.out[0] = &to;
            (void)tiny_tape_op(tape, &op, out);
        }
    return tiny_tape_status(tape) ? tinyi_patch_none() : x;
}

/* ---- losses */

/* the squares of each sample, summed: (samples); the samples are the outermost part of x */
static tiny_tensor tinyi_loss_squares(tiny_tape *tape, const tiny_tensor *x, tiny_idx samples)
{
    tiny_reduce_params last = { 0, 0, 0 };
    tiny_tensor rows, t;
    tiny_idx dim[2];
    if (tiny_tape_status(tape)) return tinyi_patch_none();
    dim[0] = samples;
    dim[1] = tiny_tensor_count(x) / samples;
    rows = tiny_tape_reshape(tape, x, 2, dim);
    t = tiny_tape_mul(tape, &rows, &rows);
    return tiny_tape_call(tape, TINY_OP_SUM, &t, NULL, NULL, NULL, &last);
}

/* a piece [first, first + n) of the middle axis of (outer, points, inner) */
static tiny_tensor tinyi_loss_slice(const tiny_tensor *x, tiny_idx first, tiny_idx n)
{
    tiny_tensor t = *x;
    if (t.data) t.data = (unsigned char *)t.data + first * t.stride[1] * (tiny_idx)tiny_dtype_bytes(t.dtype);
    t.dim[1] = n;
    return t;
}

/* dx/dk along axis k of the grid */
static tiny_tensor tinyi_loss_slope(tiny_tape *tape, const tiny_tensor *x, int d, const tiny_idx *size, int k,
                                    int periodic)
{
    tiny_tensor v, part[2], up, down, ends[2], t;
    tiny_idx dim[3], n = size[k];
    int i;
    if (tiny_tape_status(tape)) return tinyi_patch_none();
    dim[0] = x->dim[0];
    dim[1] = n;
    dim[2] = x->dim[2];
    for (i = 0; i < k; i++) dim[0] *= size[i];
    for (i = k + 1; i < d; i++) dim[2] *= size[i];
    v = tiny_tape_reshape(tape, x, 3, dim);
    if (periodic) {
        part[0] = tinyi_loss_slice(&v, 1, n - 1);
        part[1] = tinyi_loss_slice(&v, 0, 1);
        up = tiny_tape_concat(tape, 2, part, 1);
        part[0] = tinyi_loss_slice(&v, n - 1, 1);
        part[1] = tinyi_loss_slice(&v, 0, n - 1);
        down = tiny_tape_concat(tape, 2, part, 1);
        t = tiny_tape_sub(tape, &up, &down);
        return tiny_tape_scale(tape, &t, 0.5 * (double)n, 0.0);
    }
    up = tinyi_loss_slice(&v, 2, n - 2);
    down = tinyi_loss_slice(&v, 0, n - 2);
    t = tiny_tape_sub(tape, &up, &down);
    t = tiny_tape_scale(tape, &t, 0.5 * (double)n, 0.0);
    up = tinyi_loss_slice(&v, 1, 1);
    down = tinyi_loss_slice(&v, 0, 1);
    ends[0] = tiny_tape_sub(tape, &up, &down);
    ends[0] = tiny_tape_scale(tape, &ends[0], (double)n, 0.0);
    up = tinyi_loss_slice(&v, n - 1, 1);
    down = tinyi_loss_slice(&v, n - 2, 1);
    ends[1] = tiny_tape_sub(tape, &up, &down);
    ends[1] = tiny_tape_scale(tape, &ends[1], (double)n, 0.0);
    {
        tiny_tensor all[3];
        all[0] = ends[0];
        all[1] = t;
        all[2] = ends[1];
        return tiny_tape_concat(tape, 3, all, 1);
    }
}

/* values, and with d the slopes: the squares of each sample */
static tiny_tensor tinyi_loss_sum(tiny_tape *tape, const tiny_tensor *x, int d, const tiny_idx *size, int periodic)
{
    tiny_tensor sum = tinyi_loss_squares(tape, x, x->dim[0]);
    int k;
    for (k = 0; k < d; k++) {
        tiny_tensor t = tinyi_loss_slope(tape, x, d, size, k, periodic);
        t = tinyi_loss_squares(tape, &t, x->dim[0]);
        sum = tiny_tape_add(tape, &sum, &t);
    }
    return sum;
}

static tiny_tensor tinyi_loss_relative(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t, int d,
                                       const tiny_idx *size, int periodic)
{
    tiny_tensor e, a, b;
    if (!tape || tiny_tape_status(tape)) return tinyi_patch_none();
    if (!y || !t || y->rank != 3 || t->rank != 3 || y->dim[0] < 1 || memcmp(y->dim, t->dim, 3 * sizeof *y->dim) != 0) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE,
                                "relative loss: two fields of one shape are needed, at least one sample");
        return tinyi_patch_none();
    }
    e = tiny_tape_sub(tape, y, t);
    a = tinyi_loss_sum(tape, &e, d, size, periodic);
    b = tinyi_loss_sum(tape, t, d, size, periodic);
    a = tiny_tape_call(tape, TINY_OP_DIV, &a, &b, NULL, NULL, NULL);
    /* the slope of a root at 0 is infinite: 1e-20 is below the square of any error that f32 can show */
    a = tiny_tape_scale(tape, &a, 1.0, 1e-20);
    a = tiny_tape_call(tape, TINY_OP_SQRT, &a, NULL, NULL, NULL, NULL);
    return tiny_tape_mean(tape, &a);
}

TINY_API tiny_tensor tgnn_tape_relative_l2(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t)
{
    return tinyi_loss_relative(tape, y, t, 0, NULL, 0);
}

TINY_API tiny_tensor tgnn_tape_relative_h1(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t, int d,
                                           const tiny_idx *size, int periodic)
{
    tiny_idx points = 1;
    int k, fits;
    if (!tape || tiny_tape_status(tape)) return tinyi_patch_none();
    fits = size && d >= 1 && d <= 3 && y && y->rank == 3;
    for (k = 0; fits && k < d; k++) {
        fits = size[k] >= 3 && size[k] <= (tiny_idx)1 << 24;
        if (fits) points *= size[k];
    }
    if (!fits || points != y->dim[1]) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE,
                                "relative loss: H1 needs the size of a grid of 1 to 3 axes with 3 points or more");
        return tinyi_patch_none();
    }
    return tinyi_loss_relative(tape, y, t, d, size, periodic);
}

/* ---- random fields */

static double tinyi_field_root(const tgnn_random_field *f, tiny_idx a, tiny_idx b)
{
    const double tau = f->tau > 0.0 ? f->tau : 3.0, alpha = f->alpha > 0.0 ? f->alpha : 2.0;
    const double x = (double)(2 * a > f->size[0] ? a - f->size[0] : a), y = (double)b;
    if (!a && !b) return 0.0;
    return tinyi_exp64(-0.5 * alpha * tinyi_log64(x * x + y * y + tau * tau));
}

TINY_API tiny_status tgnn_random_fields(tiny_ctx *ctx, const tgnn_random_field *desc, uint64_t seed, uint64_t first,
                                        const tiny_tensor *y)
{
    tiny_idx rows, columns, bins, i, a, b;
    tiny_fft_params plain;
    tiny_tensor field, spectrum;
    float *x = NULL, *z = NULL;
    double by;
    char text[96];
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!desc || !y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "random fields: a description and a tensor are needed");
    if (desc->d < 1 || desc->d > 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "random fields: a grid of %d axes, it must have 1 or 2", desc->d);
    for (i = 0; i < desc->d; i++)
        if (desc->size[i] < 1 || desc->size[i] > (tiny_idx)1 << 14)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "random fields: axis %td has %td points, it must have 1 to %d", i,
                              desc->size[i], 1 << 14);
    if (!(desc->alpha >= 0.0 && desc->alpha <= 100.0 && desc->tau >= 0.0 && desc->tau <= 1e6 && desc->scale >= 0.0 &&
          desc->scale <= 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "random fields: alpha %g, tau %g, scale %g; none may be negative",
                          desc->alpha, desc->tau, desc->scale);
    st = tiny_tensor_check(y);
    rows = desc->d == 2 ? desc->size[0] : 1;
    columns = desc->size[desc->d - 1];
    if (st || y->dtype != TINY_F32 || y->rank != 2 || y->dim[1] != rows * columns)
        return tinyi_fail(ctx, TINY_E_SHAPE, "random fields: y is %s, it must be n x %td f32",
                          st ? "no tensor" : tinyi_shape_text(y, text), rows * columns);
    bins = columns / 2 + 1;
    x = (float *)tinyi_alloc(ctx, (size_t)(rows * columns), sizeof *x);
    if (x) z = (float *)tinyi_alloc(ctx, (size_t)(rows * bins), 2 * sizeof *z);
    if (!z) {
        tiny_free(ctx, x);
        return tiny_ctx_status(ctx);
    }
    memset(&plain, 0, sizeof plain);
    plain.norm = TINY_FFT_NORM_NONE;
    field = tiny_tensor_2d(x, TINY_F32, rows, columns);
    spectrum = tiny_tensor_3d(z, TINY_F32, rows, bins, 2);
    by = (desc->scale > 0.0 ? desc->scale : 1.0) / tinyi_sqrt((double)(rows * columns));
    for (i = 0; !st && i < y->dim[0]; i++) {
        tiny_rng rng = tiny_rng_make(seed, first + (uint64_t)i);
        tiny_rng_fill_normal(&rng, x, (size_t)(rows * columns));
        plain.n = 0;
        st = tiny_rfft2(ctx, &field, &plain, &spectrum);
        for (a = 0; !st && a < rows; a++)
            for (b = 0; b < bins; b++) {
                const float root = (float)(by * (desc->d == 2 ? tinyi_field_root(desc, a, b)
                                                              : tinyi_field_root(desc, 0, b)));
                z[(a * bins + b) * 2] *= root;
                z[(a * bins + b) * 2 + 1] *= root;
            }
        plain.n = columns;
        if (!st) st = tiny_irfft2(ctx, &spectrum, &plain, &field);
        for (a = 0; !st && a < rows * columns; a++)
            ((float *)y->data)[i * y->stride[0] + a * y->stride[1]] = x[a];
    }
    tiny_free(ctx, z);
    tiny_free(ctx, x);
    return st;
}
