/* src/gnn/operator/modes.c - the low Fourier modes of fields: to modes, back to fields, products by mode
 * Paper    Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", 2020 (arXiv
 *          2010.08895), section 4: F, R_phi and the inverse of F on the kept modes.
 * Formula  see modes.h. The reference is the sum itself in double, points or modes in order, rounded once.
 * Method   Only the kept modes are computed, axis by axis: each axis is a product with a table of cosines and sines.
 *          Points n and N - n have the same cosine and opposite sines, and so have the frequencies f and -f. So lines
 *          are folded first: a real axis costs 1 fma for each point and kept mode and part, a complex one 1 for each
 *          point, kept mode and part as well, a quarter of the plain product. `lanes` channels stand side by side in
 *          the lanes of a vector; a thread takes such a block of a sample through all axes.
 * Cost     2-D, N x N points, K x L modes kept: N^2 L + 2 N K L fma for each channel. A full FFT needs about 2.5 N^2
 *          log2 N flops at a lower rate, and wins where the last axis keeps more than about 4 log2 N modes.
 * Error    A sum of n terms in float: for random terms n^0.5 u / 2 of its size. Axes have independent errors, so the
 *          bound counts the sum of the roots of the lengths, with a factor of 4 (six deviations), against the largest
 *          number of the output.
 * Left out FFT for many modes; less than a block of channels on several threads                                    */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/operator/modes_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/tape.h"

TINYI_TABLE_CHOICE(tinyi_modes_kernels, tinyi_modes_kernels)

#define TINYI_MODES_MOST ((tiny_idx)1 << 24)        /* points of an axis */

/* The call with three axes: those that are missing come first, with one point and one mode. */
typedef struct tinyi_modes_plan {
    tiny_idx n[3], m[3], points, modes, batch, channels;
    int back, adjoint;
    tiny_dtype dtype;
} tinyi_modes_plan;

static const tgnn_modes_params *tinyi_modes_params_of(const tiny_op *op)
{
    static const tgnn_modes_params none = { 0, 0, { 0, 0, 0 }, { 0, 0, 0 } };
    return op->params ? (const tgnn_modes_params *)op->params : &none;
}

static tinyi_modes_plan tinyi_modes_plan_of(const tiny_op *op)
{
    const tgnn_modes_params *p = tinyi_modes_params_of(op);
    const tiny_tensor *x = op->in[0];
    tinyi_modes_plan q;
    int i;
    memset(&q, 0, sizeof q);
    q.points = q.modes = 1;
    for (i = 0; i < 3; i++) {
        const int axis = i - (3 - p->d);
        q.n[i] = axis < 0 ? 1 : p->size[axis];
        q.m[i] = axis < 0 ? 1 : p->kept[axis];
        q.points *= q.n[i];
        q.modes *= q.m[i];
    }
    q.back = op->kind == TGNN_OP_MODES_FIELD;
    q.adjoint = p->adjoint != 0;
    q.batch = x->dim[0];
    q.channels = x->dim[x->rank - 1];
    q.dtype = x->dtype;
    return q;
}

/* the frequency of mode f of an axis */
static tiny_idx tinyi_modes_frequency(const tinyi_modes_plan *q, int axis, tiny_idx f)
{
    return axis == 2 ? f : f - q->m[axis] / 2;
}

/* 1/N for the sum over points, c for the sum over modes, or the other way round */
static double tinyi_modes_factor(const tinyi_modes_plan *q, tiny_idx f)
{
    if (q->back == q->adjoint) return 1.0 / (double)q->points;
    return f == 0 || 2 * f == q->n[2] ? 1.0 : 2.0;
}

/* ---- reference */

#define TINYI_MODES_BLOCK 16                /* channels that share the sines of the reference */

TINY_REF_BEGIN
/* exp(i theta) of mode f at point n */
static void tinyi_modes_cis(const tinyi_modes_plan *q, tiny_idx n, tiny_idx f, double *c, double *s)
{
    double re = 1.0, im = 0.0;
    int axis;
    for (axis = 2; axis >= 0; axis--) {
        const tiny_idx k = tinyi_modes_frequency(q, axis, f % q->m[axis]), at = n % q->n[axis];
        double a, b, old = re;
        tinyi_cis64((uint64_t)((k < 0 ? k + q->n[axis] : k) * at % q->n[axis]), (uint64_t)q->n[axis], &a, &b);
        re = old * a - im * b;
        im = old * b + im * a;
        f /= q->m[axis];
        n /= q->n[axis];
    }
    *c = re;
    *s = im;
}

/* mode f of n_c channels of sample b, from channel c on */
static void tinyi_modes_ref_mode(const tinyi_modes_plan *q, const tiny_op *op, tiny_idx b, tiny_idx f, tiny_idx c,
                                 tiny_idx n_c)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const double factor = tinyi_modes_factor(q, f % q->m[2]);
    const tiny_idx to = b * y->stride[0] + f * y->stride[1];
    double sum[TINYI_MODES_BLOCK][2], co, si;
    tiny_idx n, i;
    for (i = 0; i < n_c; i++) sum[i][0] = sum[i][1] = 0.0;
    for (n = 0; n < q->points; n++) {
        const tiny_idx from = b * x->stride[0] + n * x->stride[1];
        tinyi_modes_cis(q, n, f, &co, &si);
        for (i = 0; i < n_c; i++) {
            const double v = tinyi_real(x->data, q->dtype, from + (c + i) * x->stride[2]);
            sum[i][0] += v * co;
            sum[i][1] -= v * si;
        }
    }
    for (i = 0; i < n_c; i++) {
        tinyi_real_set(y->data, q->dtype, to + (c + i) * y->stride[3], factor * sum[i][0]);
        tinyi_real_set(y->data, q->dtype, to + y->stride[2] + (c + i) * y->stride[3], factor * sum[i][1]);
    }
}

/* the same for point n */
static void tinyi_modes_ref_point(const tinyi_modes_plan *q, const tiny_op *op, tiny_idx b, tiny_idx n, tiny_idx c,
                                  tiny_idx n_c)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    double sum[TINYI_MODES_BLOCK], co, si;
    tiny_idx f, i;
    for (i = 0; i < n_c; i++) sum[i] = 0.0;
    for (f = 0; f < q->modes; f++) {
        const tiny_idx from = b * x->stride[0] + f * x->stride[1];
        const double factor = tinyi_modes_factor(q, f % q->m[2]);
        tinyi_modes_cis(q, n, f, &co, &si);
        for (i = 0; i < n_c; i++) {
            const double re = tinyi_real(x->data, q->dtype, from + (c + i) * x->stride[3]);
            const double im = tinyi_real(x->data, q->dtype, from + x->stride[2] + (c + i) * x->stride[3]);
            sum[i] += factor * (re * co - im * si);
        }
    }
    for (i = 0; i < n_c; i++)
        tinyi_real_set(y->data, q->dtype, b * y->stride[0] + n * y->stride[1] + (c + i) * y->stride[2], sum[i]);
}

static void tinyi_modes_ref(const tiny_op *op)
{
    const tinyi_modes_plan q = tinyi_modes_plan_of(op);
    tiny_idx b, i, c;
    for (b = 0; b < q.batch; b++)
        for (i = 0; i < (q.back ? q.points : q.modes); i++)
            for (c = 0; c < q.channels; c += TINYI_MODES_BLOCK) {
                const tiny_idx n_c = TINYI_MIN(q.channels - c, TINYI_MODES_BLOCK);
                if (q.back) tinyi_modes_ref_point(&q, op, b, i, c, n_c);
                else tinyi_modes_ref_mode(&q, op, b, i, c, n_c);
            }
}

static const tgnn_modes_mix_params *tinyi_mix_params_of(const tiny_op *op)
{
    static const tgnn_modes_mix_params none = { 0, 0 };
    return op->params ? (const tgnn_modes_mix_params *)op->params : &none;
}

static void tinyi_modes_mix_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];
    const tgnn_modes_mix_params *p = tinyi_mix_params_of(op);
    tiny_idx a, f, c, k;
    for (a = 0; a < y->dim[0]; a++)
        for (f = 0; f < y->dim[1]; f++)
            for (c = 0; c < y->dim[3]; c++) {
                const tiny_idx to = a * y->stride[0] + f * y->stride[1] + c * y->stride[3];
                double re = 0.0, im = 0.0;
                for (k = 0; k < x->dim[3]; k++) {
                    const tiny_idx at = a * x->stride[0] + f * x->stride[1] + k * x->stride[3],
                                   by = f * w->stride[0] + k * w->stride[2] + c * w->stride[3];
                    const double xr = tinyi_real(x->data, x->dtype, at), wr = tinyi_real(w->data, w->dtype, by);
                    double xi = tinyi_real(x->data, x->dtype, at + x->stride[2]);
                    double wi = tinyi_real(w->data, w->dtype, by + w->stride[1]);
                    if (p->conj_x) xi = -xi;
                    if (p->conj_w) wi = -wi;
                    re += xr * wr - xi * wi;
                    im += xr * wi + xi * wr;
                }
                tinyi_real_set(y->data, y->dtype, to, re);
                tinyi_real_set(y->data, y->dtype, to + y->stride[2], im);
            }
}
TINY_REF_END

/* ---- fast: modes and field */

/* Floats of the workspace, from its start. Tables are for all threads, the rest for each one. A line has h points or
 * frequencies that are left after folding; the last axis has its kept modes. */
typedef struct tinyi_modes_room {
    size_t h[3], f[3];                      /* folded points, folded frequencies of each axis */
    size_t table[3], unit[3], shared;       /* unit: cosines and sines of k / n, k < n */
    size_t line[8], slab, rows, modes, own; /* folded lines; 2 axes left; 1 axis left; all modes */
} tinyi_modes_room;

/* 0: the sizes do not fit */
static int tinyi_modes_room_of(tinyi_modes_room *r, const tinyi_modes_plan *q, size_t lanes)
{
    const double widest = (double)q->n[0] * (double)q->m[1] * (double)q->m[2] + (double)q->n[1] * (double)q->m[2] +
                          (double)q->modes + 8.0 * (double)(q->n[0] + q->n[1] + q->n[2]);
    const double tables = ((double)q->n[0] * (double)q->m[0] + (double)q->n[1] * (double)q->m[1] +
                           (double)q->n[2] * (double)q->m[2]) * 2.0 + 2.0 * (double)(q->n[0] + q->n[1] + q->n[2]);
    size_t longest = 0;
    int i;
    if (widest * 2.0 * (double)lanes + tables + 1024.0 > (double)(SIZE_MAX / 32)) return 0;
    r->shared = r->own = 0;
    for (i = 0; i < 3; i++) {
        r->h[i] = (size_t)q->n[i] / 2 + 1;
        r->f[i] = i == 2 ? (size_t)q->m[i] : (size_t)q->m[i] / 2 + 1;
        r->table[i] = r->shared;
        r->shared += 2 * r->h[i] * r->f[i];
        longest = TINYI_MAX(longest, TINYI_MAX(r->h[i], r->f[i]));
    }
    for (i = 0; i < 3; i++) {
        r->unit[i] = r->shared;
        r->shared += 2 * (size_t)q->n[i];
    }
    for (i = 0; i < 8; i++, r->own += longest * lanes) r->line[i] = r->own;
    r->rows = r->own;                       /* (n[1], m[2]) complex, or a line of points */
    r->own += TINYI_MAX((size_t)q->n[1] * (size_t)q->m[2] * 2, (size_t)q->n[2]) * lanes;
    r->slab = r->own;                       /* (n[0], m[1], m[2]) */
    r->own += (size_t)q->n[0] * (size_t)q->m[1] * (size_t)q->m[2] * 2 * lanes;
    r->modes = r->own;
    r->own += (size_t)q->modes * 2 * lanes;
    r->own += (size_t)q->n[2] * lanes;      /* a line of the field, where the tensor has its channels apart */
    return 1;
}

/* Rows of the sum that dots takes: points on the way to modes, frequencies on the way back. The sines of the real axis
 * have the sign of the imaginary part to come; its factors are those of the whole call. */
static void tinyi_modes_tables(const tinyi_modes_plan *q, const tinyi_modes_room *r, float *shared)
{
    int axis;
    for (axis = 0; axis < 3; axis++) {
        float *unit = shared + r->unit[axis], *t = shared + r->table[axis];
        const size_t n = (size_t)q->n[axis];
        size_t f, i;
        for (i = 0; i < n; i++) {
            double c, s;
            tinyi_cis64(i, n, &c, &s);
            unit[2 * i] = (float)c;
            unit[2 * i + 1] = (float)s;
        }
        for (f = 0; f < r->f[axis]; f++) {
            const float by = axis == 2 ? (float)tinyi_modes_factor(q, (tiny_idx)f) : 1.0f;
            const float sine = axis == 2 && !q->back ? -by : by;
            size_t at = 0;
            for (i = 0; i < r->h[axis]; i++) {
                float *to = t + 2 * (q->back ? f * r->h[axis] + i : i * r->f[axis] + f);
                to[0] = by * unit[2 * at];
                to[1] = sine * unit[2 * at + 1];
                at += f;
                if (at >= n) at -= n;
            }
        }
    }
}

typedef struct tinyi_modes_job {
    const tinyi_modes_plan *q;
    const tinyi_modes_room *r;
    const tinyi_modes_kernels *k;
    const float *shared;
    float *own;
    size_t lanes;
} tinyi_modes_job;

/* Complex lines of one axis, n points or m modes with a step of `step` floats between them; columns of them follow
 * each other by 2 lanes. */
static void tinyi_modes_axis(const tinyi_modes_job *j, int axis, float *to, const float *from, size_t columns,
                             size_t step)
{
    const size_t n = (size_t)j->q->n[axis], m = (size_t)j->q->m[axis], h = j->r->h[axis], g = j->r->f[axis];
    const size_t lanes = j->lanes, low = m / 2;
    const float *table = j->shared + j->r->table[axis];
    float *line[8];
    size_t c, f;
    int i;
    for (i = 0; i < 8; i++) line[i] = j->own + j->r->line[i];
    for (c = 0; c < columns; c++, to += 2 * lanes, from += 2 * lanes) {
        if (!j->q->back) {
            j->k->fold(line[0], line[1], from, n, (ptrdiff_t)step);
            j->k->fold(line[2], line[3], from + lanes, n, (ptrdiff_t)step);
            j->k->dots(line[4], line[5], lanes, line[0], line[1], lanes, table, h, g);
            j->k->dots(line[6], line[7], lanes, line[2], line[3], lanes, table, h, g);
            for (f = 0; f < g; f++) {
                const size_t at = f * lanes;
                j->k->apart(low + f < m ? to + (low + f) * step : NULL, f ? to + (low - f) * step : NULL, line[4] + at,
                            line[5] + at, line[6] + at, line[7] + at);
            }
        } else {
            /* sums of the two parts; of the real ones down - up, so that both fields are unfolded alike */
            for (f = 0; f < g; f++) {
                const float *up = low + f < m ? from + (low + f) * step : NULL, *down = from + (low - f) * step;
                const size_t at = f * lanes;
                j->k->pair(line[0] + at, line[3] + at, f ? down : NULL, up);
                j->k->pair(line[2] + at, line[1] + at, up ? up + lanes : NULL, f ? down + lanes : NULL);
            }
            j->k->dots(line[4], line[5], lanes, line[0], line[1], lanes, table, g, h);
            j->k->dots(line[6], line[7], lanes, line[2], line[3], lanes, table, g, h);
            j->k->unfold(to, line[4], line[5], n, (ptrdiff_t)step);
            j->k->unfold(to + lanes, line[6], line[7], n, (ptrdiff_t)step);
        }
    }
}

/* n vectors of n_c channels between a tensor and a block */
static void tinyi_modes_read(float *to, const float *from, tiny_idx step, tiny_idx channel, size_t n, size_t n_c,
                             size_t lanes)
{
    size_t i, c;
    for (i = 0; i < n; i++, to += lanes, from += step) {
        if (channel == 1) memcpy(to, from, n_c * sizeof *to);
        else
            for (c = 0; c < n_c; c++) to[c] = from[(tiny_idx)c * channel];
        for (c = n_c; c < lanes; c++) to[c] = 0.0f;
    }
}

static void tinyi_modes_write(float *to, tiny_idx step, tiny_idx channel, const float *from, size_t n, size_t n_c,
                              size_t lanes)
{
    size_t i, c;
    for (i = 0; i < n; i++, to += step, from += lanes) {
        if (channel == 1) memcpy(to, from, n_c * sizeof *to);
        else
            for (c = 0; c < n_c; c++) to[(tiny_idx)c * channel] = from[c];
    }
}

/* the block of channels from c on of sample b */
static void tinyi_modes_forward(const tinyi_modes_job *j, const tiny_op *op, tiny_idx b, tiny_idx c, size_t n_c)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tinyi_modes_plan *q = j->q;
    const size_t lanes = j->lanes, low = (size_t)q->m[2], n = (size_t)q->n[2];
    const int whole = n_c == lanes && x->stride[2] == 1;
    const float *from = (const float *)x->data + b * x->stride[0] + c * x->stride[2];
    float *rows = j->own + j->r->rows, *slab = j->own + j->r->slab, *modes = j->own + j->r->modes;
    float *s = j->own + j->r->line[0], *d = j->own + j->r->line[1], *line = modes + (size_t)q->modes * 2 * lanes;
    float *to = (float *)y->data + b * y->stride[0] + c * y->stride[3];
    tiny_idx i, k;
    for (i = 0; i < q->n[0]; i++) {
        for (k = 0; k < q->n[1]; k++, from += q->n[2] * x->stride[1]) {
            float *row = rows + (size_t)k * low * 2 * lanes;
            if (whole) j->k->fold(s, d, from, n, x->stride[1]);
            else {
                tinyi_modes_read(line, from, x->stride[1], x->stride[2], n, n_c, lanes);
                j->k->fold(s, d, line, n, (ptrdiff_t)lanes);
            }
            j->k->dots(row, row + lanes, 2 * lanes, s, d, lanes, j->shared + j->r->table[2], j->r->h[2], low);
        }
        tinyi_modes_axis(j, 1, slab + (size_t)i * (size_t)q->m[1] * low * 2 * lanes, rows, low, low * 2 * lanes);
    }
    tinyi_modes_axis(j, 0, modes, slab, (size_t)q->m[1] * low, (size_t)q->m[1] * low * 2 * lanes);
    for (i = 0; i < q->modes; i++)
        tinyi_modes_write(to + i * y->stride[1], y->stride[2], y->stride[3], modes + (size_t)i * 2 * lanes, 2, n_c,
                          lanes);
}

static void tinyi_modes_backward(const tinyi_modes_job *j, const tiny_op *op, tiny_idx b, tiny_idx c, size_t n_c)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tinyi_modes_plan *q = j->q;
    const size_t lanes = j->lanes, low = (size_t)q->m[2], n = (size_t)q->n[2];
    const int whole = n_c == lanes && y->stride[2] == 1;
    const float *from = (const float *)x->data + b * x->stride[0] + c * x->stride[3];
    float *rows = j->own + j->r->rows, *slab = j->own + j->r->slab, *modes = j->own + j->r->modes;
    float *e = j->own + j->r->line[0], *o = j->own + j->r->line[1], *line = modes + (size_t)q->modes * 2 * lanes;
    float *to = (float *)y->data + b * y->stride[0] + c * y->stride[2];
    tiny_idx i, k;
    for (i = 0; i < q->modes; i++)
        tinyi_modes_read(modes + (size_t)i * 2 * lanes, from + i * x->stride[1], x->stride[2], x->stride[3], 2, n_c,
                         lanes);
    tinyi_modes_axis(j, 0, slab, modes, (size_t)q->m[1] * low, (size_t)q->m[1] * low * 2 * lanes);
    for (i = 0; i < q->n[0]; i++) {
        tinyi_modes_axis(j, 1, rows, slab + (size_t)i * (size_t)q->m[1] * low * 2 * lanes, low, low * 2 * lanes);
        for (k = 0; k < q->n[1]; k++, to += q->n[2] * y->stride[1]) {
            const float *row = rows + (size_t)k * low * 2 * lanes;
            j->k->dots(e, o, lanes, row, row + lanes, 2 * lanes, j->shared + j->r->table[2], low, j->r->h[2]);
            if (whole) j->k->unfold(to, e, o, n, y->stride[1]);
            else {
                j->k->unfold(line, e, o, n, (ptrdiff_t)lanes);
                tinyi_modes_write(to, y->stride[1], y->stride[2], line, n, n_c, lanes);
            }
        }
    }
}

static void tinyi_modes_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_modes_plan q = tinyi_modes_plan_of(op);
    tinyi_modes_room r;
    tinyi_modes_job j;
    tiny_idx blocks, i, i1;
    j.k = tinyi_modes_kernels_of(team->k);
    j.lanes = (size_t)j.k->lanes;
    (void)tinyi_modes_room_of(&r, &q, j.lanes);
    j.q = &q;
    j.r = &r;
    j.shared = (const float *)team->shared;
    j.own = (float *)team->own;
    if (team->i == 0) tinyi_modes_tables(&q, &r, (float *)team->shared);
    tiny_barrier(team);
    blocks = (q.channels + j.k->lanes - 1) / j.k->lanes;
    while (tiny_take(team, q.batch * blocks, 1, &i, &i1))
        for (; i < i1; i++) {
            const tiny_idx c = i % blocks * j.k->lanes;
            const size_t n_c = (size_t)TINYI_MIN(q.channels - c, j.k->lanes);
            if (q.back) tinyi_modes_backward(&j, op, i / blocks, c, n_c);
            else tinyi_modes_forward(&j, op, i / blocks, c, n_c);
        }
    team->ran_on = j.k->from;
}

static void tinyi_modes_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tinyi_modes_plan q = tinyi_modes_plan_of(op);
    tinyi_modes_room r;
    (void)n_threads;
    (void)tinyi_modes_room_of(&r, &q, TINYI_MODES_LANES);
    *shared = r.shared * sizeof(float);
    *own = r.own * sizeof(float);
}

/* ---- fast: products by mode */

#define TINYI_MIX_CHUNK 64                  /* rows of a piece of work */

/* numbers of a piece that must be packed: w of a mode, a row pair of x, of y */
static size_t tinyi_mix_room(const tiny_op *op, size_t *x_at, size_t *y_at)
{
    const size_t k = (size_t)op->in[0]->dim[3], c = (size_t)op->out[0]->dim[3];
    const int packs_w = op->in[1]->stride[3] != 1, packs_x = op->in[0]->stride[3] != 1,
              packs_y = op->out[0]->stride[3] != 1;
    *x_at = packs_w ? 2 * k * c : 0;
    *y_at = *x_at + (packs_x ? 2 * k * TINYI_MODES_ROWS : 0);
    return *y_at + (packs_y ? 2 * c * TINYI_MODES_ROWS : 0);
}

static void tinyi_modes_mix_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    size_t x_at, y_at;
    (void)n_threads;
    *shared = 0;
    *own = tinyi_mix_room(op, &x_at, &y_at) * sizeof(float);
}

/* rows a .. a1 - 1 of mode f */
static void tinyi_mix_rows(const tinyi_modes_kernels *kernels, const tiny_op *op, float *own, tiny_idx f, tiny_idx a,
                           tiny_idx a1)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];
    const tgnn_modes_mix_params *p = tinyi_mix_params_of(op);
    const tiny_idx n_k = x->dim[3], n_c = y->dim[3];
    const float sign = (p->conj_x != 0) == (p->conj_w != 0) ? -1.0f : 1.0f, out = p->conj_w ? -1.0f : 1.0f;
    const float *by = (const float *)w->data + f * w->stride[0];
    tinyi_modes_side ws, xs, ys;
    size_t x_at, y_at;
    tiny_idx i, k, n;
    int part;
    (void)tinyi_mix_room(op, &x_at, &y_at);
    ws.row = w->stride[2];
    ws.pair = w->stride[1];
    if (w->stride[3] != 1) {
        for (part = 0; part < 2; part++)
            for (k = 0; k < n_k; k++)
                tinyi_row_gather(own + (part * n_k + k) * n_c, by + part * w->stride[1] + k * w->stride[2], n_c,
                                 w->stride[3]);
        by = own;
        ws.row = n_c;
        ws.pair = n_k * n_c;
    }
    for (; a < a1; a += n) {
        const float *from = (const float *)x->data + a * x->stride[0] + f * x->stride[1];
        float *to = (float *)y->data + a * y->stride[0] + f * y->stride[1];
        n = TINYI_MIN(a1 - a, TINYI_MODES_ROWS);
        xs.row = x->stride[0];
        xs.pair = x->stride[2];
        ys.row = y->stride[0];
        ys.pair = y->stride[2];
        if (x->stride[3] != 1) {
            for (i = 0; i < n; i++)
                for (part = 0; part < 2; part++)
                    tinyi_row_gather(own + (tiny_idx)x_at + (i * 2 + part) * n_k,
                                     from + i * x->stride[0] + part * x->stride[2], n_k, x->stride[3]);
            from = own + x_at;
            xs.row = 2 * n_k;
            xs.pair = n_k;
        }
        if (y->stride[3] != 1) {
            ys.row = 2 * n_c;
            ys.pair = n_c;
        }
        kernels->mix(y->stride[3] == 1 ? to : own + y_at, ys, from, xs, by, ws, (size_t)n_k, (size_t)n, (size_t)n_c,
                     sign, out);
        if (y->stride[3] == 1) continue;
        for (i = 0; i < n; i++)
            for (part = 0; part < 2; part++)
                tinyi_row_scatter(to + i * y->stride[0] + part * y->stride[2],
                                  own + (tiny_idx)y_at + (i * 2 + part) * n_c, n_c, y->stride[3]);
    }
}

static void tinyi_modes_mix_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_modes_kernels *k = tinyi_modes_kernels_of(team->k);
    const tiny_tensor *y = op->out[0];
    const tiny_idx chunks = (y->dim[0] + TINYI_MIX_CHUNK - 1) / TINYI_MIX_CHUNK;
    tiny_idx i, i1;
    while (tiny_take(team, y->dim[1] * chunks, 1, &i, &i1))
        for (; i < i1; i++) {
            const tiny_idx a = i % chunks * TINYI_MIX_CHUNK;
            tinyi_mix_rows(k, op, (float *)team->own, i / chunks, a, TINYI_MIN(y->dim[0], a + TINYI_MIX_CHUNK));
        }
    team->ran_on = k->from;
}

/* ---- the rows */

static tiny_status tinyi_modes_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tgnn_modes_params *p = tinyi_modes_params_of(op);
    const tiny_tensor *x = op->in[0];
    const int back = op->kind == TGNN_OP_MODES_FIELD;
    const char *name = back ? "modes_field" : "modes";
    tinyi_modes_plan q;
    tinyi_modes_room r;
    tiny_idx points = 1, modes = 1, dim[4];
    char text[96];
    int i;
    if (p->d < 1 || p->d > 3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a grid of %d axes, it must have 1 to 3", name, p->d);
    for (i = 0; i < p->d; i++) {
        const tiny_idx most = i == p->d - 1 ? p->size[i] / 2 + 1 : p->size[i];
        if (p->size[i] < 1 || p->size[i] > TINYI_MODES_MOST)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: axis %d has %td points, it must have 1 to %td", name, i,
                              p->size[i], TINYI_MODES_MOST);
        if (p->kept[i] < 1 || p->kept[i] > most)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: axis %d keeps %td modes, it must keep 1 to %td of %td points",
                              name, i, p->kept[i], most, p->size[i]);
        if (points > TINY_IDX_MAX / p->size[i])
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the grid has more points than this machine can address", name);
        points *= p->size[i];
        modes *= p->kept[i];
    }
    if (!tinyi_is_real(x) || x->rank != (back ? 4 : 3) || x->dim[1] != (back ? modes : points) ||
        (back && x->dim[2] != 2))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must be batch x %td%s x channels, f32 or f64", name,
                          tinyi_shape_text(x, text), back ? modes : points, back ? " x 2" : "");
    q = tinyi_modes_plan_of(op);
    if (!tinyi_modes_room_of(&r, &q, TINYI_MODES_LANES))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the workspace is larger than this machine can address", name);
    dim[0] = x->dim[0];
    dim[1] = back ? points : modes;
    dim[2] = back ? q.channels : 2;
    dim[3] = q.channels;
    tinyi_want(&want[0], x->dtype, back ? 3 : 4, dim);
    return TINY_OK;
}

static tiny_status tinyi_modes_mix_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1];
    tiny_idx dim[4];
    char a[96], b[96];
    if (!tinyi_is_real(x) || x->dtype != w->dtype || x->rank != 4 || w->rank != 4 || x->dim[2] != 2 || w->dim[1] != 2 ||
        x->dim[1] != w->dim[0] || x->dim[3] != w->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "modes_mix: x is %s and w is %s, they must be rows x modes x 2 x k and modes x 2 x k x "
                          "channels",
                          tinyi_shape_text(x, a), tinyi_shape_text(w, b));
    if (x->dim[3] && w->dim[3] > (tiny_idx)(SIZE_MAX / 64) / x->dim[3])
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "modes_mix: w is larger than this machine can address");
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = 2;
    dim[3] = w->dim[3];
    tinyi_want(&want[0], x->dtype, 4, dim);
    return TINY_OK;
}

static void tinyi_modes_cost(const tiny_op *op, tiny_cost *c)
{
    const tinyi_modes_plan q = tinyi_modes_plan_of(op);
    const double each = (double)q.batch * (double)q.channels, a = (double)q.n[0], b = (double)q.n[1];
    c->flops = each * (2.0 * (double)q.points * (double)q.m[2] +
                       4.0 * a * b * (double)q.m[1] * (double)q.m[2] * (q.n[1] > 1) +
                       4.0 * a * (double)q.modes * (q.n[0] > 1));
    c->bytes = each * 4.0 * ((double)q.points + 2.0 * (double)q.modes);
}

static void tinyi_modes_mix_cost(const tiny_op *op, tiny_cost *c)
{
    const double a = (double)op->in[0]->dim[0], f = (double)op->in[0]->dim[1], k = (double)op->in[0]->dim[3],
                 n = (double)op->in[1]->dim[3];
    c->flops = 8.0 * a * f * k * n;
    c->bytes = 8.0 * f * (a * (k + n) + k * n);
}

static double tinyi_modes_terms(const tiny_op *op)
{
    const tinyi_modes_plan q = tinyi_modes_plan_of(op);
    double sum = 0.0;
    int i;
    for (i = 0; i < 3; i++) sum += tinyi_sqrt((double)(q.back ? q.m[i] : q.n[i]));
    return sum;
}

static double tinyi_modes_mix_terms(const tiny_op *op) { return 2.0 * (double)op->in[0]->dim[3]; }

static void tinyi_modes_case(tiny_case *c, int back)
{
    tgnn_modes_params p;
    tiny_idx dim[4];
    int i;
    memset(&p, 0, sizeof p);
    p.d = c->index ? 1 + tiny_case_pick(c, 3) : 1;
    p.adjoint = tiny_case_pick(c, 2);
    dim[0] = c->index ? 1 + tiny_case_pick(c, 3) : 1;
    dim[1] = 1;
    for (i = 0; i < p.d; i++) {
        p.size[i] = tiny_case_dim(c, p.d == 1 ? 130 : p.d == 2 ? 24 : 7);
        p.kept[i] = 1 + tiny_case_pick(c, (int)(i == p.d - 1 ? p.size[i] / 2 + 1 : p.size[i]));
        dim[1] *= back ? p.kept[i] : p.size[i];
    }
    dim[2] = back ? 2 : tiny_case_dim(c, 40);
    dim[3] = back ? tiny_case_dim(c, 40) : 0;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, back ? 4 : 3, dim);
    c->no_specials = 1;                     /* folded points of an infinity are NaN, and sums of outliers cancel */
    memcpy(c->params.bytes, &p, sizeof p);
}

static void tinyi_modes_cases(tiny_case *c) { tinyi_modes_case(c, 0); }
static void tinyi_modes_field_cases(tiny_case *c) { tinyi_modes_case(c, 1); }

static void tinyi_modes_mix_cases(tiny_case *c)
{
    tgnn_modes_mix_params p;
    tiny_idx dim[4], rows = tiny_case_dim(c, 130), modes = tiny_case_dim(c, 9), k = tiny_case_dim(c, 40),
                     n = tiny_case_dim(c, 40);
    p.conj_x = tiny_case_pick(c, 2);
    p.conj_w = tiny_case_pick(c, 2);
    dim[0] = rows;
    dim[1] = modes;
    dim[2] = 2;
    dim[3] = k;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 4, dim);
    dim[0] = modes;
    dim[1] = 2;
    dim[2] = k;
    dim[3] = n;
    c->in[1] = tiny_tensor_nd(NULL, TINY_F32, 4, dim);
    c->no_specials = 1;                     /* the four real products are summed apart */
    memcpy(c->params.bytes, &p, sizeof p);
}

/* each is the other's gradient, with the factors exchanged */
static tiny_status tinyi_modes_grad(tiny_grad *g, const tiny_op *op);
static tiny_status tinyi_modes_mix_grad(tiny_grad *g, const tiny_op *op);
static const short tinyi_modes_slots[] = { -1 };

static const tiny_op_row tinyi_row_modes = TINYI_ROW_OF("modes", TGNN_OP_MODES, TAKES(1, 1), GIVES(1),
    PARAMS(tgnn_modes_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_modes_shape), REFERENCE(tinyi_modes_ref),
    FAST(tinyi_modes_fast, tinyi_modes_work), COST(tinyi_modes_cost), CASES(tinyi_modes_cases),
    BOUND(TINY_BOUND_SCALE, 8, 4), TERMS(tinyi_modes_terms), GRADIENT(tinyi_modes_grad), KERNELS(tinyi_modes_slots),
    SAYS("X[f] = 1/N sum_n x[n] exp(-i theta), the kept modes of a field on a grid"));
static const tiny_op_row tinyi_row_modes_field = TINYI_ROW_OF("modes_field", TGNN_OP_MODES_FIELD, TAKES(1, 1), GIVES(1),
    PARAMS(tgnn_modes_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_modes_shape), REFERENCE(tinyi_modes_ref),
    FAST(tinyi_modes_fast, tinyi_modes_work), COST(tinyi_modes_cost), CASES(tinyi_modes_field_cases),
    BOUND(TINY_BOUND_SCALE, 8, 4), TERMS(tinyi_modes_terms), GRADIENT(tinyi_modes_grad), KERNELS(tinyi_modes_slots),
    SAYS("y[n] = sum_f c[f] Re(X[f] exp(i theta)), the field of kept modes"));
static const tiny_op_row tinyi_row_modes_mix = TINYI_ROW_OF("modes_mix", TGNN_OP_MODES_MIX, TAKES(2, 2), GIVES(1),
    PARAMS(tgnn_modes_mix_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_modes_mix_shape),
    REFERENCE(tinyi_modes_mix_ref), FAST(tinyi_modes_mix_fast, tinyi_modes_mix_work), COST(tinyi_modes_mix_cost),
    CASES(tinyi_modes_mix_cases), BOUND(TINY_BOUND_SCALE, 16, 0.5), TERMS(tinyi_modes_mix_terms),
    GRADIENT(tinyi_modes_mix_grad), KERNELS(tinyi_modes_slots),
    SAYS("y[a][f][c] = sum_k x[a][f][k] w[f][k][c], complex, for each mode f"));

TINY_API const tiny_op_row *tgnn_modes_row(void) { return &tinyi_row_modes; }
TINY_API const tiny_op_row *tgnn_modes_field_row(void) { return &tinyi_row_modes_field; }
TINY_API const tiny_op_row *tgnn_modes_mix_row(void) { return &tinyi_row_modes_mix; }

static tiny_status tinyi_modes_grad(tiny_grad *g, const tiny_op *op)
{
    tgnn_modes_params p = *tinyi_modes_params_of(op);
    const int back = op->kind == TGNN_OP_MODES_FIELD;
    p.adjoint = !p.adjoint;
    return tiny_grad_give(g, 0, back ? TGNN_OP_MODES : TGNN_OP_MODES_FIELD, tiny_grad_of(g, 0), NULL, &p);
}

/* y = x' w' with x' = x or its conjugate: dx' = dy conj(w'), dw' = conj(x') dy, summed over rows */
static tiny_status tinyi_modes_mix_grad(tiny_grad *g, const tiny_op *op)
{
    const tgnn_modes_mix_params *p = tinyi_mix_params_of(op);
    const tiny_tensor *dy = tiny_grad_of(g, 0), *x = op->in[0], *w = op->in[1];
    tgnn_modes_mix_params q;
    tiny_tensor a, b, sum;
    tiny_op mix;
    tiny_status st = TINY_OK;
    if (!dy) return TINY_OK;
    if (tiny_grad_wants(g, 0)) {
        a = tiny_tensor_swap(*w, 2, 3);
        q.conj_x = p->conj_x;
        q.conj_w = (p->conj_x != 0) == (p->conj_w != 0);
        st = tiny_grad_give(g, 0, TGNN_OP_MODES_MIX, dy, &a, &q);
    }
    if (st || !tiny_grad_wants(g, 1)) return st;
    a = tiny_tensor_swap(*x, 0, 3);         /* (k, modes, 2, rows) */
    b = tiny_tensor_swap(tiny_tensor_swap(*dy, 0, 1), 1, 2);    /* (modes, 2, rows, channels) */
    st = tiny_grad_new(g, w->dtype, 4, w->dim, &sum);
    if (st) return st;
    q.conj_x = (p->conj_x != 0) == (p->conj_w != 0);
    q.conj_w = p->conj_w;
    memset(&mix, 0, sizeof mix);
    {
        const tiny_tensor to = tiny_tensor_swap(tiny_tensor_swap(sum, 1, 2), 0, 1);     /* (k, modes, 2, channels) */
        mix.kind = TGNN_OP_MODES_MIX;
        mix.row = tgnn_modes_mix_row();
        mix.in[0] = &a;
        mix.in[1] = &b;
        mix.out[0] = &to;
        mix.params = &q;
        st = tiny_grad_op(g, &mix);
    }
    return st ? st : tiny_grad_add(g, 1, &sum);
}

/* With its row: the door of another header, which a program may have as well, does not know these kinds. */
static tiny_status tinyi_modes_call(tiny_ctx *ctx, const tiny_op_row *row, const tiny_tensor *a, const tiny_tensor *b,
                                    const void *params, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = row->kind;
    op.row = row;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = y;
    op.params = params;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_modes(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_modes_params *params,
                                const tiny_tensor *y)
{
    return tinyi_modes_call(ctx, tgnn_modes_row(), x, NULL, params, y);
}

TINY_API tiny_status tgnn_modes_field(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_modes_params *params,
                                      const tiny_tensor *y)
{
    return tinyi_modes_call(ctx, tgnn_modes_field_row(), x, NULL, params, y);
}

TINY_API tiny_status tgnn_modes_mix(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w,
                                    const tgnn_modes_mix_params *params, const tiny_tensor *y)
{
    return tinyi_modes_call(ctx, tgnn_modes_mix_row(), x, w, params, y);
}
