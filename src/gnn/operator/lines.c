/* src/gnn/operator/lines.c - filters along one axis of a field, and both of their transposes
 * Paper    J. Jin, A. Dundar, E. Culurciello, "Flattened Convolutional Neural Networks for Feedforward Acceleration",
 *          2014 (arXiv 1412.5474), section 3: the passes along one dimension.
 * Formula  see lines.h. The reference sums in double, r before t, or n before the points, and rounds once.
 * Method   A tile of the field is copied to a slab, with the zeros around it; the filter of all taps is then the kernel
 *          of depthwise convolutions (math/conv.h), which keeps four rows of results in registers. Down a field the
 *          taps are rows of the slab. Along rows they are shifts; with a stride, number j of a row goes to the part
 *          j mod stride of the slab, so that neighbours stay neighbours. INPUT is the same filter reversed, over a slab
 *          with stride - 1 zeros between the numbers. WEIGHT keeps the sums of four taps in registers.
 * Cost     2 k flops for each number of x and of the smaller of the strides; each field is copied once
 * Error    LINEAR: |fast - ref| <= (n + 4) u sum |products|, n = R k + 1 (APPLY), k (INPUT), all points (WEIGHT)
 * Left out dilation; different zeros on the two sides */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/operator/lines_inside.h"
#include "core/state_inside.h"
#include "math/conv.h"
#include "math/reduce.h"
#include "math/rows_inside.h"
#include "math/tape.h"

TINYI_TABLE_CHOICE(tinyi_lines_kernels, tinyi_lines_kernels)

#define TINYI_LINES_TAPS 1024               /* most taps of a result: terms k */
#define TINYI_LINES_STRIDE 64
#define TINYI_LINES_SLAB 16384              /* floats of a slab, unless one line needs more */
#define TINYI_LINES_MOST ((tiny_idx)1 << 28)        /* points */

typedef struct tinyi_lines_plan {
    tiny_idx n, c, r, k, s, pad;            /* batch, channels of y, terms, taps, stride */
    tiny_idx outer, length, after, inner;   /* after: the length of y */
    int of;
    tiny_dtype dtype;
    const tiny_tensor *x, *w, *y;
} tinyi_lines_plan;

static const tgnn_lines_params *tinyi_lines_params_of(const tiny_op *op)
{
    static const tgnn_lines_params none = { 0, 0, 0, 0, 0, 0, 0, 0 };
    return op->params ? (const tgnn_lines_params *)op->params : &none;
}

static tinyi_lines_plan tinyi_lines_plan_of(const tiny_op *op)
{
    const tgnn_lines_params *p = tinyi_lines_params_of(op);
    const tiny_tensor *a = op->in[0], *b = op->in[1], *out = op->out[0];
    tinyi_lines_plan q;
    memset(&q, 0, sizeof q);
    q.of = p->of;
    q.k = p->k;
    q.s = p->stride ? p->stride : 1;
    q.pad = p->pad;
    q.r = p->terms ? p->terms : 1;
    q.outer = p->outer ? p->outer : 1;
    q.inner = p->inner ? p->inner : 1;
    q.length = p->length;
    q.after = (q.length + 2 * q.pad - q.k) / q.s + 1;
    q.x = q.of == TGNN_LINES_INPUT ? out : a;
    q.w = q.of == TGNN_LINES_WEIGHT ? out : b;
    q.y = q.of == TGNN_LINES_APPLY ? out : q.of == TGNN_LINES_INPUT ? a : b;
    q.n = a->dim[0];
    q.c = q.of == TGNN_LINES_INPUT ? a->dim[1] : a->dim[1] / q.r;
    q.dtype = a->dtype;
    return q;
}

/* ---- reference */

TINY_REF_BEGIN
/* 1: point p of y and tap t meet point *at of x */
static int tinyi_lines_meet(const tinyi_lines_plan *q, tiny_idx p, tiny_idx t, tiny_idx *at)
{
    const tiny_idx b = p % q->inner, i = p / q->inner % q->after, a = p / q->inner / q->after;
    const tiny_idx j = i * q->s + t - q->pad;
    *at = (a * q->length + j) * q->inner + b;
    return j >= 0 && j < q->length;
}

static void tinyi_lines_ref_apply(const tinyi_lines_plan *q, const tiny_op *op, tiny_idx n, tiny_idx o)
{
    const tiny_tensor *bias = op->in[2];
    tiny_idx p, r, t, at;
    for (p = 0; p < q->outer * q->after * q->inner; p++) {
        double sum = 0.0;
        for (r = o * q->r; r < (o + 1) * q->r; r++)
            for (t = 0; t < q->k; t++)
                if (tinyi_lines_meet(q, p, t, &at))
                    sum += tinyi_real(q->w->data, q->dtype, r * q->w->stride[0] + t * q->w->stride[1]) *
                           tinyi_real(q->x->data, q->dtype,
                                      n * q->x->stride[0] + r * q->x->stride[1] + at * q->x->stride[2]);
        if (bias) sum += tinyi_real(bias->data, q->dtype, o * bias->stride[0]);
        tinyi_real_set(q->y->data, q->dtype, n * q->y->stride[0] + o * q->y->stride[1] + p * q->y->stride[2], sum);
    }
}

static void tinyi_lines_ref_input(const tinyi_lines_plan *q, tiny_idx n, tiny_idx r)
{
    const tiny_idx points = q->outer * q->length * q->inner;
    tiny_idx at, t;
    for (at = 0; at < points; at++) {
        const tiny_idx b = at % q->inner, j = at / q->inner % q->length, a = at / q->inner / q->length;
        double sum = 0.0;
        for (t = 0; t < q->k; t++) {
            const tiny_idx i = (j + q->pad - t) / q->s;
            if (j + q->pad - t < 0 || (j + q->pad - t) % q->s || i >= q->after) continue;
            sum += tinyi_real(q->w->data, q->dtype, r * q->w->stride[0] + t * q->w->stride[1]) *
                   tinyi_real(q->y->data, q->dtype,
                              n * q->y->stride[0] + r / q->r * q->y->stride[1] +
                                  ((a * q->after + i) * q->inner + b) * q->y->stride[2]);
        }
        tinyi_real_set(q->x->data, q->dtype, n * q->x->stride[0] + r * q->x->stride[1] + at * q->x->stride[2], sum);
    }
}

static void tinyi_lines_ref_weight(const tinyi_lines_plan *q, tiny_idx r, tiny_idx t)
{
    tiny_idx n, p, at;
    double sum = 0.0;
    for (n = 0; n < q->n; n++)
        for (p = 0; p < q->outer * q->after * q->inner; p++)
            if (tinyi_lines_meet(q, p, t, &at))
                sum += tinyi_real(q->y->data, q->dtype,
                                  n * q->y->stride[0] + r / q->r * q->y->stride[1] + p * q->y->stride[2]) *
                       tinyi_real(q->x->data, q->dtype,
                                  n * q->x->stride[0] + r * q->x->stride[1] + at * q->x->stride[2]);
    tinyi_real_set(q->w->data, q->dtype, r * q->w->stride[0] + t * q->w->stride[1], sum);
}

static void tinyi_lines_ref(const tiny_op *op)
{
    const tinyi_lines_plan q = tinyi_lines_plan_of(op);
    tiny_idx n, o, t;
    if (q.of == TGNN_LINES_WEIGHT) {
        for (o = 0; o < q.c * q.r; o++)
            for (t = 0; t < q.k; t++) tinyi_lines_ref_weight(&q, o, t);
        return;
    }
    for (n = 0; n < q.n; n++)
        for (o = 0; o < (q.of == TGNN_LINES_INPUT ? q.c * q.r : q.c); o++)
            if (q.of == TGNN_LINES_INPUT) tinyi_lines_ref_input(&q, n, o);
            else tinyi_lines_ref_apply(&q, op, n, o);
}
TINY_REF_END

/* ---- fast */

/* A tile is `rows` lines of `wide` numbers of the result (of y, for WEIGHT). Down a field it is all of one outer part
 * and a range of inner points; along rows it is a range of rows. The slab holds what it needs of one channel in `plane`
 * floats: line i, tap t and number j meet at off[t] + i pitch + j. */
typedef struct tinyi_lines_tiles {
    int across;                             /* inner is 1 */
    tiny_idx most, n_tiles, per_outer;      /* rows or points of a tile at most; tiles of a channel */
    tiny_idx line, pitch, plane;            /* floats of a line in the slab */
    tiny_idx held;                          /* planes of the slab */
    size_t slab, out, taps;                 /* floats of own workspace; taps: weights, and offsets as int32 */
} tinyi_lines_tiles;

static tinyi_lines_tiles tinyi_lines_tiles_of(const tinyi_lines_plan *q)
{
    const int input = q->of == TGNN_LINES_INPUT;
    /* numbers of a padded line; what divides into the stride's parts along rows */
    const tiny_idx padded = input ? q->length + q->k - 1 : (q->length + 2 * q->pad + q->s - 1) / q->s * q->s;
    const tiny_tensor *to = input ? q->x : q->y;
    tinyi_lines_tiles t;
    memset(&t, 0, sizeof t);
    t.across = q->inner == 1;
    t.held = input ? 1 : q->r;
    t.most = TINYI_MAX(1, TINYI_LINES_SLAB / (padded * t.held));
    if (t.across) {
        t.most = TINYI_MIN(t.most, q->outer);
        t.n_tiles = (q->outer + t.most - 1) / t.most;
        t.per_outer = 1;
        t.line = t.pitch = padded;
        t.plane = t.most * padded;
    } else {
        t.most = TINYI_MIN(TINYI_MAX(t.most / 16 * 16, 16), q->inner);
        t.per_outer = (q->inner + t.most - 1) / t.most;
        t.n_tiles = q->outer * t.per_outer;
        t.line = t.most;
        t.pitch = input ? t.most : q->s * t.most;
        t.plane = padded * t.most;
    }
    t.slab = (size_t)(t.plane * t.held) + TINYI_CONV_SLACK;
    if (to->stride[2] != 1) t.out = (size_t)(t.most * (input ? q->length : q->after)) + TINYI_CONV_SLACK;
    t.taps = (size_t)(q->r * q->k);
    return t;
}

static void tinyi_lines_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tinyi_lines_plan q = tinyi_lines_plan_of(op);
    tinyi_lines_tiles t;
    (void)n_threads;
    *shared = *own = 0;
    if (q.c < 1) return;
    t = tinyi_lines_tiles_of(&q);
    *own = t.taps * (sizeof(double) + sizeof(int32_t) + sizeof(float)) + (t.slab + t.out) * sizeof(float) + 64;
}

typedef struct tinyi_lines_job {
    const tinyi_lines_plan *q;
    tinyi_lines_tiles t;
    const tinyi_kernels *k;
    double *sum;
    float *slab, *out, *w;
    int32_t *off;
} tinyi_lines_job;

/* A tile of the slab for results along rows or down: rows first .. first + n - 1 of x, or points of each row. */
static void tinyi_lines_pack(const tinyi_lines_job *j, float *slab, const float *x, tiny_idx step, tiny_idx tile,
                             tiny_idx n)
{
    const tinyi_lines_plan *q = j->q;
    const tinyi_fn_conv_pack_f32 pack = TINYI_OF(j->k, conv_pack_f32);
    const tiny_idx first = tile % j->t.per_outer * j->t.most, total = j->t.plane / j->t.line;
    tiny_idx p;
    if (!j->t.across) {
        x += (tile / j->t.per_outer * q->length * q->inner + first) * step;
        memset(slab, 0, (size_t)(q->pad * j->t.line) * sizeof *slab);
        pack(slab + q->pad * j->t.line, j->t.line, x, q->inner * step, step, (size_t)q->length, 0, (size_t)n,
             (size_t)j->t.line);
        p = q->pad + q->length;
        memset(slab + p * j->t.line, 0, (size_t)((total - p) * j->t.line) * sizeof *slab);
        return;
    }
    x += tile * j->t.most * q->length * step;
    for (p = 0; p < q->s; p++) {            /* padded number p + s m is number m of part p */
        const tiny_idx part = j->t.line / q->s, low = p < q->pad ? (q->pad - p + q->s - 1) / q->s : 0,
                       high = TINYI_MIN((q->length + q->pad - p + q->s - 1) / q->s, part);
        if (low < high)
            pack(slab + p * part, j->t.line, x + (p + q->s * low - q->pad) * step, q->length * step, q->s * step,
                 (size_t)n, (size_t)low, (size_t)high, (size_t)part);
        else {
            tiny_idx i;
            for (i = 0; i < n; i++) memset(slab + i * j->t.line + p * part, 0, (size_t)part * sizeof *slab);
        }
    }
}

/* The same for INPUT: numbers of y, stride - 1 zeros between them, k - 1 - pad before and the rest after them. */
static void tinyi_lines_spread(const tinyi_lines_job *j, const float *y, tiny_idx step, tiny_idx tile, tiny_idx n)
{
    const tinyi_lines_plan *q = j->q;
    const tiny_idx before = q->k - 1 - q->pad, first = tile % j->t.per_outer * j->t.most;
    tiny_idx i, m;
    float *to = j->slab;
    if (j->t.across) {
        y += tile * j->t.most * q->after * step;
        if (q->s == 1) {                    /* length + k - 1 = before + after + before' */
            TINYI_OF(j->k, conv_pack_f32)
            (to, j->t.line, y, q->after * step, step, (size_t)n, (size_t)before, (size_t)(before + q->after),
             (size_t)j->t.line);
            return;
        }
        memset(to, 0, (size_t)(n * j->t.line) * sizeof *to);
        for (i = 0; i < n; i++, to += j->t.line, y += q->after * step)
            for (m = 0; m < q->after; m++) to[before + q->s * m] = y[m * step];
        return;
    }
    y += (tile / j->t.per_outer * q->after * q->inner + first) * step;
    if (q->s > 1 || before > 0) memset(to, 0, (size_t)j->t.plane * sizeof *to);
    TINYI_OF(j->k, conv_pack_f32)
    (to + before * j->t.line, q->s * j->t.line, y, q->inner * step, step, (size_t)q->after, 0, (size_t)n,
     (size_t)j->t.line);
    i = before + (q->after - 1) * q->s + 1;
    memset(to + i * j->t.line, 0, (size_t)(j->t.plane - i * j->t.line) * sizeof *to);
}

/* rows and numbers a row of a tile of y or x, and its place in a dense field */
static void tinyi_lines_tile(const tinyi_lines_job *j, tiny_idx tile, tiny_idx length, tiny_idx *rows, tiny_idx *wide,
                             tiny_idx *at, tiny_idx *pitch)
{
    const tinyi_lines_plan *q = j->q;
    const tiny_idx first = tile % j->t.per_outer * j->t.most;
    if (j->t.across) {
        *rows = TINYI_MIN(j->t.most, q->outer - tile * j->t.most);
        *wide = length;
        *at = tile * j->t.most * length;
        *pitch = length;
    } else {
        *rows = length;
        *wide = TINYI_MIN(j->t.most, q->inner - first);
        *at = tile / j->t.per_outer * length * q->inner + first;
        *pitch = q->inner;
    }
}

/* one filter of `taps` taps over the slab, into a tile of `to` */
static void tinyi_lines_filter(const tinyi_lines_job *j, float *to, tiny_idx step, tiny_idx tile, tiny_idx length,
                               const float *w, size_t taps, float start)
{
    tiny_idx rows, wide, at, pitch, i, m;
    tinyi_lines_tile(j, tile, length, &rows, &wide, &at, &pitch);
    to += at * step;
    if (step == 1) {
        TINYI_OF(j->k, conv_depth_f32)
        (to, pitch, j->slab, j->t.pitch, j->off, taps, w, start, (size_t)rows, (size_t)wide, 0);
        return;
    }
    TINYI_OF(j->k, conv_depth_f32)
    (j->out, wide, j->slab, j->t.pitch, j->off, taps, w, start, (size_t)rows, (size_t)wide, 0);
    for (i = 0; i < rows; i++)
        for (m = 0; m < wide; m++) to[(i * pitch + m) * step] = j->out[i * wide + m];
}

static void tinyi_lines_weights(const tinyi_lines_job *j, tiny_idx row, tiny_idx n)
{
    const tiny_tensor *w = j->q->w;
    tiny_idx r, t;
    for (r = 0; r < n; r++)
        for (t = 0; t < j->q->k; t++)
            j->w[r * j->q->k + t] = ((const float *)w->data)[(row + r) * w->stride[0] + t * w->stride[1]];
}

/* where the taps of a result are in the slab: see the three forms above */
static void tinyi_lines_offsets(const tinyi_lines_job *j)
{
    const tinyi_lines_plan *q = j->q;
    tiny_idx r, t;
    for (r = 0; r < j->t.held; r++)
        for (t = 0; t < q->k; t++) {
            const tiny_idx by = q->of == TGNN_LINES_INPUT ? q->k - 1 - t : t;
            tiny_idx at = by;
            if (!j->t.across) at = by * j->t.line;
            else if (q->of != TGNN_LINES_INPUT) at = by % q->s * (j->t.line / q->s) + by / q->s;
            j->off[r * q->k + t] = (int32_t)(r * j->t.plane + at);
        }
}

static void tinyi_lines_unit(const tinyi_lines_job *j, const tiny_op *op, tiny_idx n, tiny_idx o, tiny_idx tile)
{
    const tinyi_lines_plan *q = j->q;
    const tiny_tensor *bias = op->in[2];
    const tiny_idx rows = j->t.across ? TINYI_MIN(j->t.most, q->outer - tile * j->t.most)
                                      : TINYI_MIN(j->t.most, q->inner - tile % j->t.per_outer * j->t.most);
    float *y = (float *)q->y->data + n * q->y->stride[0] + o * q->y->stride[1];
    float *x = (float *)q->x->data + n * q->x->stride[0] + o * q->r * q->x->stride[1];
    tiny_idx r;
    tinyi_lines_weights(j, o * q->r, q->r);
    if (q->of == TGNN_LINES_INPUT) {
        tinyi_lines_spread(j, y, q->y->stride[2], tile, rows);
        for (r = 0; r < q->r; r++)
            tinyi_lines_filter(j, x + r * q->x->stride[1], q->x->stride[2], tile, q->length, j->w + r * q->k,
                               (size_t)q->k, 0.0f);
        return;
    }
    for (r = 0; r < q->r; r++)
        tinyi_lines_pack(j, j->slab + r * j->t.plane, x + r * q->x->stride[1], q->x->stride[2], tile, rows);
    tinyi_lines_filter(j, y, q->y->stride[2], tile, q->after, j->w, j->t.taps,
                       bias ? ((const float *)bias->data)[o * bias->stride[0]] : 0.0f);
}

/* the weights of channel o: all samples and tiles, one sum each, added in double */
static void tinyi_lines_gather(const tinyi_lines_job *j, const tinyi_lines_kernels *k, tiny_idx o)
{
    const tinyi_lines_plan *q = j->q;
    tiny_idx n, tile, r, t, i, m;
    for (t = 0; t < (tiny_idx)j->t.taps; t++) j->sum[t] = 0.0;
    for (n = 0; n < q->n; n++)
        for (tile = 0; tile < j->t.n_tiles; tile++) {
            const float *y = (const float *)q->y->data + n * q->y->stride[0] + o * q->y->stride[1];
            const float *x = (const float *)q->x->data + n * q->x->stride[0] + o * q->r * q->x->stride[1];
            tiny_idx rows, wide, at, pitch;
            tinyi_lines_tile(j, tile, q->after, &rows, &wide, &at, &pitch);
            y += at * q->y->stride[2];
            if (q->y->stride[2] != 1) {
                for (i = 0; i < rows; i++)
                    for (m = 0; m < wide; m++) j->out[i * wide + m] = y[(i * pitch + m) * q->y->stride[2]];
                y = j->out;
                pitch = wide;
            }
            for (r = 0; r < q->r; r++)
                tinyi_lines_pack(j, j->slab + r * j->t.plane, x + r * q->x->stride[1], q->x->stride[2], tile,
                                 j->t.across ? rows : wide);
            k->dots(j->sum, y, pitch, j->slab, j->t.pitch, j->off, j->t.taps, (size_t)rows, (size_t)wide);
        }
    for (r = 0; r < q->r; r++)
        for (t = 0; t < q->k; t++)
            ((float *)q->w->data)[(o * q->r + r) * q->w->stride[0] + t * q->w->stride[1]] =
                (float)j->sum[r * q->k + t];
}

static void tinyi_lines_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_lines_plan q = tinyi_lines_plan_of(op);
    const tinyi_lines_kernels *k = tinyi_lines_kernels_of(team->k);
    const int weight = q.of == TGNN_LINES_WEIGHT;
    tinyi_lines_job j;
    tiny_idx i, i1;
    team->ran_on = k->from;
    if (q.c < 1 || (q.n < 1 && !weight)) return;
    j.q = &q;
    j.t = tinyi_lines_tiles_of(&q);
    j.k = team->k;
    j.sum = (double *)team->own;
    j.slab = (float *)(void *)(j.sum + j.t.taps);
    j.out = j.slab + j.t.slab;
    j.w = j.out + j.t.out;
    j.off = (int32_t *)(void *)(j.w + j.t.taps);
    tinyi_lines_offsets(&j);
    while (tiny_take(team, weight ? q.c : q.n * q.c * j.t.n_tiles, 1, &i, &i1))
        for (; i < i1; i++) {
            if (weight) tinyi_lines_gather(&j, k, i);
            else
                tinyi_lines_unit(&j, op, i / j.t.n_tiles / q.c, i / j.t.n_tiles % q.c, i % j.t.n_tiles);
        }
}

/* ---- the row */

static tiny_status tinyi_lines_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tgnn_lines_params *p = tinyi_lines_params_of(op);
    const tiny_tensor *a = op->in[0], *b = op->in[1], *bias = op->in[2];
    const int terms = p->terms ? p->terms : 1;
    tiny_idx dim[3], before, after, rest;
    char x[96], y[96];
    tinyi_lines_plan q;
    if (p->of < 0 || p->of > TGNN_LINES_WEIGHT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lines: part %d is unknown", p->of);
    if (terms < 1 || p->k < 1 || p->k > TINYI_LINES_TAPS || terms > TINYI_LINES_TAPS / p->k)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lines: %d taps and %d terms, there can be 1 to %d products of both",
                          p->k, terms, TINYI_LINES_TAPS);
    if (p->stride < 0 || p->stride > TINYI_LINES_STRIDE)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lines: a stride of %d, it must be 1 to %d", p->stride,
                          TINYI_LINES_STRIDE);
    if (p->pad < 0 || p->pad >= p->k)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lines: %d zeros on each side, there can be 0 to %d with %d taps",
                          p->pad, p->k - 1, p->k);
    if (p->outer < 0 || p->inner < 0 || p->length < 1 || p->outer > TINYI_LINES_MOST || p->inner > TINYI_LINES_MOST ||
        p->length > TINYI_LINES_MOST ||
        (double)TINYI_MAX(p->outer, 1) * (double)(p->length + 2 * p->k) * (double)TINYI_MAX(p->inner, 1) >
            (double)TINYI_LINES_MOST ||
        16.0 * terms * ((double)p->length + 2.0 * p->k + TINYI_LINES_STRIDE) > 1073741824.0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lines: a field of %td x %td x %td points, it must have 1 to %td",
                          p->outer, p->length, p->inner, TINYI_LINES_MOST);
    if (p->length + 2 * p->pad < p->k)
        return tinyi_fail(ctx, TINY_E_SHAPE, "lines: %d taps do not fit into %td points with %d zeros on each side",
                          p->k, p->length, p->pad);
    rest = TINYI_MAX(p->outer, 1) * TINYI_MAX(p->inner, 1);
    before = rest * p->length;
    after = rest * ((p->length + 2 * p->pad - p->k) / (p->stride ? p->stride : 1) + 1);
    if (!tinyi_is_real(a) || b->dtype != a->dtype || (bias && bias->dtype != a->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "lines: all tensors must be f32, or all f64");
    if (a->rank != 3 || a->dim[2] != (p->of == TGNN_LINES_INPUT ? after : before) ||
        (p->of != TGNN_LINES_INPUT && a->dim[1] % terms))
        return tinyi_fail(ctx, TINY_E_SHAPE, "lines: the field is %s, it must be batch x %schannels x %td",
                          tinyi_shape_text(a, x), p->of == TGNN_LINES_INPUT ? "" : "terms ",
                          p->of == TGNN_LINES_INPUT ? after : before);
    if (p->of == TGNN_LINES_WEIGHT) {
        if (b->rank != 3 || b->dim[0] != a->dim[0] || b->dim[1] * terms != a->dim[1] || b->dim[2] != after)
            return tinyi_fail(ctx, TINY_E_SHAPE, "lines: the fields are %s and %s, the second must be %td x %td x %td",
                              tinyi_shape_text(a, x), tinyi_shape_text(b, y), a->dim[0], a->dim[1] / terms, after);
    } else if (b->rank != 2 || b->dim[1] != p->k ||
               b->dim[0] != (p->of == TGNN_LINES_INPUT ? a->dim[1] * terms : a->dim[1]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "lines: w is %s, it must have a row of %d taps for each channel of x",
                          tinyi_shape_text(b, x), p->k);
    if (bias && (p->of != TGNN_LINES_APPLY || bias->rank != 1 || bias->dim[0] != a->dim[1] / terms))
        return tinyi_fail(ctx, TINY_E_SHAPE, "lines: the bias is %s, it must be one number for each channel of y",
                          tinyi_shape_text(bias, x));
    q = tinyi_lines_plan_of(op);
    dim[0] = p->of == TGNN_LINES_WEIGHT ? a->dim[1] : q.n;
    dim[1] = p->of == TGNN_LINES_WEIGHT ? p->k : p->of == TGNN_LINES_INPUT ? q.c * q.r : q.c;
    dim[2] = p->of == TGNN_LINES_INPUT ? before : after;
    tinyi_want(&want[0], a->dtype, p->of == TGNN_LINES_WEIGHT ? 2 : 3, dim);
    return TINY_OK;
}

static void tinyi_lines_cost(const tiny_op *op, tiny_cost *c)
{
    const tinyi_lines_plan q = tinyi_lines_plan_of(op);
    const double y = (double)q.n * (double)q.c * (double)(q.outer * q.after * q.inner),
                 x = (double)q.n * (double)q.c * (double)q.r * (double)(q.outer * q.length * q.inner);
    c->flops = 2.0 * y * (double)q.r * (double)q.k;
    c->bytes = 4.0 * (x + y);
}

static double tinyi_lines_terms(const tiny_op *op)
{
    const tinyi_lines_plan q = tinyi_lines_plan_of(op);
    if (q.of == TGNN_LINES_INPUT) return (double)q.k;
    if (q.of == TGNN_LINES_APPLY) return (double)(q.r * q.k + 1);
    return (double)q.n * (double)(q.outer * q.after * q.inner);
}

static void tinyi_lines_cases(tiny_case *c)
{
    tgnn_lines_params p;
    tiny_idx a[3], b[3], batch, channels, after;
    memset(&p, 0, sizeof p);
    p.of = c->index ? tiny_case_pick(c, 3) : 0;
    p.k = 1 + tiny_case_pick(c, 7);
    p.stride = tiny_case_pick(c, 4);
    p.pad = tiny_case_pick(c, p.k);
    p.terms = tiny_case_pick(c, 4);
    p.outer = tiny_case_pick(c, 2) ? tiny_case_dim(c, 20) : 1;
    p.inner = tiny_case_pick(c, 2) ? tiny_case_dim(c, 40) : 1;
    p.length = p.k + tiny_case_dim(c, 40) - 1;
    batch = 1 + tiny_case_pick(c, 2);
    channels = tiny_case_dim(c, 3);
    after = p.outer * p.inner * ((p.length + 2 * p.pad - p.k) / (p.stride ? p.stride : 1) + 1);
    a[0] = b[0] = batch;
    a[1] = channels * (p.terms ? p.terms : 1);
    a[2] = p.outer * p.inner * p.length;
    b[1] = channels;
    b[2] = after;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 3, p.of == TGNN_LINES_INPUT ? b : a);
    c->in[1] = p.of == TGNN_LINES_WEIGHT ? tiny_tensor_nd(NULL, TINY_F32, 3, b)
                                         : tiny_tensor_2d(NULL, TINY_F32, a[1], p.k);
    c->in[2] = tiny_tensor_1d(NULL, TINY_F32, channels);
    if (p.of != TGNN_LINES_APPLY || tiny_case_pick(c, 2)) c->in[2].rank = -1;
    c->no_specials = 1;                     /* zeros between the numbers are multiplied too */
    memcpy(c->params.bytes, &p, sizeof p);
}

static tiny_status tinyi_lines_grad(tiny_grad *g, const tiny_op *op);
static const short tinyi_lines_slots[] = { TINYI_K_conv_pack_f32, TINYI_K_conv_depth_f32, -1 };

static const tiny_op_row tinyi_row_lines = TINYI_ROW_OF("lines", TGNN_OP_LINES, TAKES(3, 2), GIVES(1),
    PARAMS(tgnn_lines_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_lines_shape), REFERENCE(tinyi_lines_ref),
    FAST(tinyi_lines_fast, tinyi_lines_work), COST(tinyi_lines_cost), CASES(tinyi_lines_cases),
    BOUND(TINY_BOUND_LINEAR, 4, 1), TERMS(tinyi_lines_terms), GRADIENT(tinyi_lines_grad), KERNELS(tinyi_lines_slots),
    SAYS("y[o][i] = bias[o] + sum_rt w[oR+r][t] x[oR+r][i stride + t - pad] along one axis, or a transpose of it"));

TINY_API const tiny_op_row *tgnn_lines_row(void) { return &tinyi_row_lines; }

/* sum of y w x over everything: each part is the derivative with respect to what it gives */
static tiny_status tinyi_lines_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *d = tiny_grad_of(g, 0), *a = op->in[0], *b = op->in[1];
    tgnn_lines_params p = *tinyi_lines_params_of(op);
    const int of = p.of;
    tiny_status st = TINY_OK;
    if (!d) return TINY_OK;
    if (tiny_grad_wants(g, 0)) {            /* with respect to x, y, x */
        p.of = of == TGNN_LINES_INPUT ? TGNN_LINES_APPLY : TGNN_LINES_INPUT;
        st = of == TGNN_LINES_WEIGHT ? tiny_grad_give(g, 0, TGNN_OP_LINES, b, d, &p)
                                     : tiny_grad_give(g, 0, TGNN_OP_LINES, d, b, &p);
    }
    if (!st && tiny_grad_wants(g, 1)) {     /* w, w, y */
        p.of = of == TGNN_LINES_WEIGHT ? TGNN_LINES_APPLY : TGNN_LINES_WEIGHT;
        st = of == TGNN_LINES_INPUT ? tiny_grad_give(g, 1, TGNN_OP_LINES, d, a, &p)
                                    : tiny_grad_give(g, 1, TGNN_OP_LINES, a, d, &p);
    }
    if (!st && op->in[2] && tiny_grad_wants(g, 2)) {
        tiny_reduce_params points;
        tiny_tensor sum;
        memset(&points, 0, sizeof points);   /* the last axis */
        st = tiny_grad_run(g, TINY_OP_SUM, d, NULL, &points, &sum);
        if (!st) st = tiny_grad_add(g, 2, &sum);
    }
    return st;
}

/* With its row: the door of another header, which a program may have as well, does not know this kind. */
TINY_API tiny_status tgnn_lines(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *bias,
                                const tgnn_lines_params *params, const tiny_tensor *out)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TGNN_OP_LINES;
    op.row = tgnn_lines_row();
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = bias;
    op.out[0] = out;
    op.params = params;
    return tiny_run(ctx, &op);
}
