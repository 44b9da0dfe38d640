/* src/gnn/operator/wave.c - the wave equation by leapfrog, its energy, and trajectories as samples to learn from
 * Formula  u+ = 2 u - u- + (c step)^2 L u, L the five-point sum, u = 0 outside. With D the differences along all links,
 *          also those to the edge, E = 1/2 |(u - u-) / c|^2 + 1/2 step^2 <D u, D u-> is the same after each step: the
 *          change of the first term is <u+ - u-, (u+ - 2 u + u-) / c^2> / 2 = step^2 <u+ - u-, L u> / 2, and -L is
 *          D^T D.
 * Data     all in double; a sample is rounded to f32 once
 * Cost     8 flops for each point and step */
#include <string.h>
#include "gnn/operator/oneway.h"
#include "gnn/operator/fno.h"
#include "core/state_inside.h"
#include "math/elem.h"

#define TINYI_WAVE_MOST 8192                /* points of a side */

static tiny_status tinyi_wave_fits(tiny_ctx *ctx, const tiny_tensor *c, double step, const tiny_tensor *u,
                                   const tiny_tensor *before)
{
    const tiny_tensor *t[3];
    tiny_idx i, n;
    double fastest = 1.0;
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    t[0] = u;
    t[1] = before;
    t[2] = c;
    for (k = 0; k < 3; k++) {
        if (k == 2 && !c) continue;
        if (!t[k] || tiny_tensor_check(t[k]) || t[k]->dtype != TINY_F64 || t[k]->rank != 2 ||
            t[k]->dim[0] != t[k]->dim[1] || t[k]->dim[0] < 1 || t[k]->dim[0] > TINYI_WAVE_MOST ||
            t[k]->dim[0] != u->dim[0] || t[k]->stride[1] != 1 || t[k]->stride[0] != t[k]->dim[1])
            return tinyi_fail(ctx, TINY_E_SHAPE, "wave: %s must be a dense square of f64, of 1 to %d points a side",
                              k == 0 ? "u" : k == 1 ? "the field before u" : "c", TINYI_WAVE_MOST);
    }
    n = u->dim[0] * u->dim[0];
    for (i = 0, fastest = c ? 0.0 : 1.0; c && i < n; i++) {
        const double v = ((const double *)c->data)[i];
        if (!(v > 0.0 && v < 1e100))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "wave: c is %g at point %td, it must be above 0", v, i);
        fastest = TINYI_MAX(fastest, v);
    }
    if (!(step > 0.0) || !(fastest * step * fastest * step <= 0.5 + 1e-12))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "wave: c dt / h is %g, it must be above 0 and at most 0.7071 (1 / sqrt "
                          "2), or the solution grows without limit", fastest * step);
    return TINY_OK;
}

TINY_REF_BEGIN
/* before becomes the next field */
static void tinyi_wave_step(const double *c, double step, tiny_idx n, const double *u, double *before)
{
    tiny_idx i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            const tiny_idx at = i * n + j;
            const double by = c ? c[at] * step : step;
            const double up = i ? u[at - n] : 0.0, down = i + 1 < n ? u[at + n] : 0.0;
            const double left = j ? u[at - 1] : 0.0, right = j + 1 < n ? u[at + 1] : 0.0;
            before[at] = 2.0 * u[at] - before[at] + by * by * (up + down + left + right - 4.0 * u[at]);
        }
}
TINY_REF_END

TINY_API tiny_status tgnn_wave_run(tiny_ctx *ctx, const tiny_tensor *c, double step, tiny_idx steps,
                                   const tiny_tensor *u, const tiny_tensor *before)
{
    const tiny_status st = tinyi_wave_fits(ctx, c, step, u, before);
    const double *speed;
    double *now, *last;
    tiny_idx i, n;
    if (st) return st;
    if (steps < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "wave: %td steps; the number must not be negative", steps);
    if (u->data == before->data) return tinyi_fail(ctx, TINY_E_ALIAS, "wave: u and the field before it are one tensor");
    speed = c ? (const double *)c->data : NULL;
    now = (double *)u->data;
    last = (double *)before->data;
    n = u->dim[0];
    for (i = 0; i < steps; i++) {
        if (i % 2 == 0) tinyi_wave_step(speed, step, n, now, last);
        else tinyi_wave_step(speed, step, n, last, now);
    }
    for (i = 0; steps % 2 && i < n * n; i++) {      /* an odd number: they have changed places */
        const double t = now[i];
        now[i] = last[i];
        last[i] = t;
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_wave_energy(tiny_ctx *ctx, const tiny_tensor *c, double step, const tiny_tensor *u,
                                      const tiny_tensor *before, double *energy)
{
    const tiny_status st = tinyi_wave_fits(ctx, c, step, u, before);
    const double *now, *last;
    double moves = 0.0, bends = 0.0;
    tiny_idx i, j, n;
    if (energy) *energy = 0.0;
    if (st) return st;
    if (!energy) return tinyi_fail(ctx, TINY_E_ARGUMENT, "wave: an output is needed");
    now = (const double *)u->data;
    last = (const double *)before->data;
    n = u->dim[0];
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            const tiny_idx at = i * n + j;
            const double d = (now[at] - last[at]) / (c ? ((const double *)c->data)[at] : 1.0);
            moves += d * d;
            /* the links up and left, and those to the last edges */
            bends += (now[at] - (i ? now[at - n] : 0.0)) * (last[at] - (i ? last[at - n] : 0.0));
            bends += (now[at] - (j ? now[at - 1] : 0.0)) * (last[at] - (j ? last[at - 1] : 0.0));
            if (i + 1 == n) bends += now[at] * last[at];
            if (j + 1 == n) bends += now[at] * last[at];
        }
    *energy = 0.5 * moves + 0.5 * step * step * bends;
    return TINY_OK;
}

/* ---- samples */

/* at rest: u and before alike */
static void tinyi_wave_start(tiny_rng *rng, tiny_idx n, double *u, double *before)
{
    const int bumps = 1 + (int)tiny_rng_below(rng, 3);
    tiny_idx i, j;
    int b;
    memset(u, 0, (size_t)(n * n) * sizeof *u);
    for (b = 0; b < bumps; b++) {
        const double y = (0.15 + 0.7 * tiny_rng_uniform64(rng)) * (double)n,
                     x = (0.15 + 0.7 * tiny_rng_uniform64(rng)) * (double)n,
                     width = 1.5 + 1.5 * tiny_rng_uniform64(rng), size = 0.5 + 0.5 * tiny_rng_uniform64(rng),
                     sign = tiny_rng_below(rng, 2) ? 1.0 : -1.0;
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                const double r2 = ((double)i - y) * ((double)i - y) + ((double)j - x) * ((double)j - x);
                u[i * n + j] += sign * size * tinyi_exp64(-0.5 * r2 / (width * width));
            }
    }
    memcpy(before, u, (size_t)(n * n) * sizeof *u);
}

/* c between 0.5 and 1: a smooth random field over its largest size */
static tiny_status tinyi_wave_speed(tiny_ctx *ctx, uint64_t seed, uint64_t i, tiny_idx n, float *field, double *c)
{
    const tiny_tensor t = tiny_tensor_2d(field, TINY_F32, 1, n * n);
    tgnn_random_field d;
    double most = 1e-30;
    tiny_idx k;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.d = 2;
    d.size[0] = d.size[1] = n;
    d.alpha = 4.0;
    st = tgnn_random_fields(ctx, &d, seed, i, &t);
    if (st) return st;
    for (k = 0; k < n * n; k++) {
        const double v = (double)field[k];
        most = TINYI_MAX(most, v < 0.0 ? -v : v);
    }
    for (k = 0; k < n * n; k++) c[k] = 0.75 + 0.25 * (double)field[k] / most;
    return TINY_OK;
}

/* u goes on from step *now to step `to` */
static tiny_status tinyi_wave_go(tiny_ctx *ctx, const tgnn_wave_data *d, const tiny_tensor *c, const tiny_tensor *u,
                                 const tiny_tensor *before, tiny_idx *now, tiny_idx to)
{
    const tiny_idx steps = to - *now;
    *now = to;
    return tgnn_wave_run(ctx, c, d->step, steps, u, before);
}

static tiny_status tinyi_wave_trajectory(tiny_ctx *ctx, const tgnn_wave_data *d, uint64_t seed, uint64_t number,
                                         double *memory, float *x, float *y)
{
    const tiny_idx n = d->n, m = n * n;
    const tiny_tensor u = tiny_tensor_2d(memory, TINY_F64, n, n), before = tiny_tensor_2d(memory + m, TINY_F64, n, n),
                      c = tiny_tensor_2d(memory + 2 * m, TINY_F64, n, n),
                      v = tiny_tensor_2d(memory + 3 * m, TINY_F64, n, n),
                      w = tiny_tensor_2d(memory + 4 * m, TINY_F64, n, n);
    const tiny_tensor *speed = d->plain ? NULL : &c;
    tiny_rng rng = tiny_rng_make(seed, number);
    tiny_idx pair, now = 0, i;
    tiny_status st = TINY_OK;
    tinyi_wave_start(&rng, n, memory, memory + m);
    if (!d->plain) st = tinyi_wave_speed(ctx, seed, number, n, (float *)(void *)(memory + 3 * m), memory + 2 * m);
    for (pair = 0; !st && pair < d->pairs; pair++, x += 3 * m, y += m) {
        tiny_idx ahead = 0;
        st = tinyi_wave_go(ctx, d, speed, &u, &before, &now, d->start + pair * d->every);
        for (i = 0; i < m; i++) {
            x[i] = (float)memory[i];
            x[m + i] = (float)memory[m + i];
            x[2 * m + i] = d->plain ? 1.0f : (float)memory[2 * m + i];
        }
        memcpy(memory + 3 * m, memory, 2 * (size_t)m * sizeof *memory);
        if (!st) st = tinyi_wave_go(ctx, d, speed, &v, &w, &ahead, d->ahead);
        for (i = 0; i < m; i++) y[i] = (float)memory[3 * m + i];
    }
    return st;
}

TINY_API tiny_status tgnn_wave_samples(tiny_ctx *ctx, const tgnn_wave_data *desc, uint64_t seed, uint64_t first,
                                       const tiny_tensor *x, const tiny_tensor *y)
{
    tgnn_wave_data d;
    double *memory;
    tiny_idx i, m;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (d.n == 0) d.n = 64;
    if (d.ahead == 0) d.ahead = 8;
    if (d.every == 0) d.every = 8;
    if (d.pairs == 0) d.pairs = 1;
    if (d.step == 0.0) d.step = 0.5;
    if (d.n < 4 || d.n > TINYI_WAVE_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "wave: %td points a side, there can be 4 to %d", d.n, TINYI_WAVE_MOST);
    if (d.ahead < 1 || d.start < 0 || d.every < 0 || d.pairs < 1 || d.ahead > 1 << 24 || d.start > 1 << 24 ||
        d.every > 1 << 24 || d.pairs > 1 << 24)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "wave: %td steps ahead, from step %td on every %td, %td times: a "
                          "number is out of range", d.ahead, d.start, d.every, d.pairs);
    m = d.n * d.n;
    if (!x || !y || tiny_tensor_check(x) || tiny_tensor_check(y) || x->dtype != TINY_F32 || y->dtype != TINY_F32 ||
        x->rank != 3 || y->rank != 3 || x->dim[1] != 3 || y->dim[1] != 1 || x->dim[2] != m || y->dim[2] != m ||
        x->dim[0] != y->dim[0] || x->stride[2] != 1 || x->stride[1] != m || x->stride[0] != 3 * m ||
        y->stride[2] != 1 || y->stride[0] != m)
        return tinyi_fail(ctx, TINY_E_SHAPE, "wave: x must be dense f32, samples x 3 x %td, and y samples x 1 x %td", m,
                          m);
    if (x->dim[0] % d.pairs)
        return tinyi_fail(ctx, TINY_E_SHAPE, "wave: %td samples are no whole number of trajectories of %td", x->dim[0],
                          d.pairs);
    memory = (double *)tinyi_alloc(ctx, (size_t)m, 5 * sizeof *memory);
    if (!memory) return tiny_ctx_status(ctx);
    for (i = 0; !st && i < x->dim[0]; i += d.pairs)
        st = tinyi_wave_trajectory(ctx, &d, seed, first + (uint64_t)(i / d.pairs), memory, (float *)x->data + i * 3 * m,
                                   (float *)y->data + i * m);
    tiny_free(ctx, memory);
    return st;
}
