/* src/gnn/equivariant/harmonics.c - real spherical harmonics, their derivatives, and forces
 * Formula  With r = (x, y, z), c + i s = (z + i x)^m, and q_lm the polynomials in y and r^2 of
 *            q_mm = sqrt((2 m + 1) / (2 m)) q_(m-1,m-1),  q_00 = 1,
 *            q_lm = A (y q_(l-1,m) - B r^2 q_(l-2,m)),
 *            A = sqrt((4 l^2 - 1) / (l^2 - m^2)),  B = sqrt(((l - 1)^2 - m^2) / (4 (l - 1)^2 - 1)):
 *          Y_lm = q_l0, sqrt2 c q_lm, or sqrt2 s q_l|m| for m = 0, above, below. This is TGNN_SH_COMPONENT; the others
 *          divide by sqrt(2 l + 1) or sqrt(4 pi). Without solid, r is the direction and r^2 is 1.
 *          Derivatives: the reference differentiates these recursions. The fast form uses
 *            dq_lm/dy = sqrt((2 l + 1) / (2 l - 1) (l^2 - m^2)) q_(l-1,m),
 *            dq_lm/dx = -x sqrt((2 l + 1) / (2 l - 1) (l - m) (l - m - 1)) q_(l-1,m+1),  and so for z
 *          (N. Bigi et al., "Fast evaluation of spherical harmonics with sphericart", 2023, arXiv 2302.08381, section
 *          2). Those of the direction n are (g - (n . g) n) / |r|, and n . g = l Y.
 * Method   Blocks of 16 to 64 vectors side by side, one in each lane; a block is transposed into rows of y. Results of
 *          32 MB or more are written past the caches. A number depends on its vector alone, on one target.
 * Cost     values 3.5 operations a number, slopes 20, forces 26.
 * Error    u = 2^-24. Each component of a direction is off by up to 5 u, 4 u of it in common: r^2 is that of the
 *          rounded direction, so what is common costs l u. The rest moves a number of degree l by up to l (l + 1) / 2 u
 *          near the poles, where it changes fastest with y; so do the roundings of y q in the recursion. Together (8 +
 *          2 l^2) u of the largest number of the row. Slopes and forces, whose sums cancel: (16 + 3 l^2) u and (32 + 3
 *          l^2) u of the largest number of the output. Measured: half of that at most.
 * Left out degrees that are not wanted below l_max (take columns of y). Second derivatives: harmonics_twice.c. */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/tape.h"

TINYI_TABLE_CHOICE(tinyi_sph_kernels, tinyi_sph_kernels)

#define TINYI_SPH_PAST_BYTES 33554432.0
#define TINYI_SPH_GRAIN 512                 /* vectors that a thread takes at a time, a multiple of any block */
#define TINYI_SPH_LEAST 1.1754943508222875e-38      /* 2^-126: shorter vectors have the slopes of that length */

static const tgnn_sph_harm_params *tinyi_sph_params(const tiny_op *op)
{
    static const tgnn_sph_harm_params none = { 0, 0, 0 };
    return op->params ? (const tgnn_sph_harm_params *)op->params : &none;
}

TINY_API int tgnn_sph_harm_count(int l_max)
{
    return l_max < 0 || l_max > TGNN_L_MAX ? 0 : (l_max + 1) * (l_max + 1);
}

/* ---- reference */

TINY_REF_BEGIN
/* what a number of degree l is multiplied by, from TGNN_SH_COMPONENT */
static double tinyi_sph_scale(int norm, int l)
{
    return norm == TGNN_SH_NORM       ? 1.0 / tinyi_sqrt(2.0 * l + 1.0)
           : norm == TGNN_SH_INTEGRAL ? 0.28209479177387814347 /* 1 / sqrt(4 pi) */
                                      : 1.0;
}

/* One vector. v becomes its direction; returns 1 / |v|, or 0. */
double tinyi_sph_unit(double *v)
{
    double most = 0.0, length;
    int i;
    for (i = 0; i < 3; i++) {
        const double a = v[i] < 0.0 ? -v[i] : v[i];
        if (a > most || a != a) most = a;
    }
    if (most == 0.0) return 0.0;
    for (i = 0; i < 3; i++) v[i] /= most;
    length = tinyi_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (i = 0; i < 3; i++) v[i] /= length;
    return length * most < TINYI_SPH_LEAST ? 1.0 / TINYI_SPH_LEAST : 1.0 / (length * most);
}

static double tinyi_sph_a(int l, int m) { return tinyi_sqrt((4.0 * l * l - 1.0) / ((double)l * l - (double)m * m)); }
static double tinyi_sph_b(int l, int m)
{
    const double k = (double)l - 1.0;
    return tinyi_sqrt((k * k - (double)m * m) / (4.0 * k * k - 1.0));
}

/* The numbers of one vector, and s[3][count] where it is not NULL: their derivatives. */
TINYI_FN void tinyi_sph_one(const double *vector, const tgnn_sph_harm_params *p, double *y, double *s)
{
    const int count = tgnn_sph_harm_count(p->l_max);
    double v[3], r2, inverse = 0.0, c = 1.0, si = 0.0, c0 = 0.0, s0 = 0.0, start = 1.0, k;
    int l, m, j, part;
    memcpy(v, vector, sizeof v);
    if (!p->solid) inverse = tinyi_sph_unit(v);
    r2 = p->solid ? v[0] * v[0] + v[1] * v[1] + v[2] * v[2] : inverse == 0.0 ? 0.0 : 1.0;
    for (m = 0; m <= p->l_max; m++) {
        double q = 0.0, q1 = 0.0, qy = 0.0, qy1 = 0.0, qr = 0.0, qr1 = 0.0;
        if (m) start *= tinyi_sqrt((2.0 * m + 1.0) / (2.0 * m));
        if (m) {
            c0 = c;
            s0 = si;
            c = c0 * v[2] - s0 * v[0];
            si = c0 * v[0] + s0 * v[2];
        }
        for (l = m; l <= p->l_max; l++) {
            const double scale = tinyi_sph_scale(p->norm, l) * (m ? 1.4142135623730950488 : 1.0);
            if (l == m) q = start;
            else {
                const double a = tinyi_sph_a(l, m), b = l > m + 1 ? tinyi_sph_b(l, m) : 0.0, q2 = q1, qy2 = qy1,
                             qr2 = qr1;
                q1 = q;
                qy1 = qy;
                qr1 = qr;
                q = a * (v[1] * q1 - b * r2 * q2);
                qy = a * (q1 + v[1] * qy1 - b * r2 * qy2);
                qr = a * (v[1] * qr1 - b * (q2 + r2 * qr2));
            }
            for (part = m ? -1 : 1; part <= 1; part += 2) {
                const int at = l * l + l + part * m;
                const double angle = part < 0 ? si : c, dx = part < 0 ? m * c0 : -m * s0,
                             dz = part < 0 ? m * s0 : m * c0;
                double g[3], along = 0.0;
                y[at] = scale * angle * q;
                if (!s) continue;
                g[0] = scale * (dx * q + angle * 2.0 * v[0] * qr);
                g[1] = scale * angle * (qy + 2.0 * v[1] * qr);
                g[2] = scale * (dz * q + angle * 2.0 * v[2] * qr);
                for (j = 0; j < 3; j++) along += v[j] * g[j];
                for (j = 0; j < 3; j++) s[j * count + at] = p->solid ? g[j] : (g[j] - along * v[j]) * inverse;
            }
        }
    }
    for (j = 0; s && j < 3; j++) s[j * count] = 0.0;
    k = tinyi_sph_scale(p->norm, 0);
    y[0] = k;
}

static void tinyi_sph_vector(const tiny_tensor *x, tiny_idx i, double *v)
{
    tiny_idx j;
    for (j = 0; j < 3; j++) v[j] = tinyi_real(x->data, x->dtype, i * x->stride[0] + j * x->stride[1]);
}

/* the rows sph_harm and sph_harm_slopes */
static void tinyi_sph_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0], *dy = op->out[1];
    const tgnn_sph_harm_params *p = tinyi_sph_params(op);
    const int count = tgnn_sph_harm_count(p->l_max);
    double v[3], value[TINYI_SPH_MOST], slope[3 * TINYI_SPH_MOST];
    tiny_idx i, j, k;
    for (i = 0; i < x->dim[0]; i++) {
        tinyi_sph_vector(x, i, v);
        tinyi_sph_one(v, p, value, dy ? slope : NULL);
        for (k = 0; k < count; k++)
            tinyi_real_set(y->data, y->dtype, i * y->stride[0] + k * y->stride[1], value[k]);
        for (j = 0; dy && j < 3; j++)
            for (k = 0; k < count; k++)
                tinyi_real_set(dy->data, dy->dtype, i * dy->stride[0] + j * dy->stride[1] + k * dy->stride[2],
                               slope[j * count + k]);
    }
}

static void tinyi_sph_back_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *dx = op->out[0];
    const tgnn_sph_harm_params *p = tinyi_sph_params(op);
    const int count = tgnn_sph_harm_count(p->l_max);
    double v[3], value[TINYI_SPH_MOST], slope[3 * TINYI_SPH_MOST];
    tiny_idx i, j, k;
    for (i = 0; i < x->dim[0]; i++) {
        tinyi_sph_vector(x, i, v);
        tinyi_sph_one(v, p, value, slope);
        for (j = 0; j < 3; j++) {
            double sum = 0.0;
            for (k = 0; k < count; k++)
                sum += tinyi_real(g->data, g->dtype, i * g->stride[0] + k * g->stride[1]) * slope[j * count + k];
            tinyi_real_set(dx->data, dx->dtype, i * dx->stride[0] + j * dx->stride[1], sum);
        }
    }
}

void tinyi_sph_plan_make(tinyi_sph_plan *plan, const tgnn_sph_harm_params *p)
{
    double start = 1.0;
    int l, m;
    plan->l_max = p->l_max;
    plan->solid = p->solid;
    for (m = 0; m <= p->l_max; m++) {
        if (m) start *= tinyi_sqrt((2.0 * m + 1.0) / (2.0 * m));
        plan->diagonal[m] = (float)(start * tinyi_sph_scale(p->norm, m));
        for (l = m + 1; l <= p->l_max; l++) {
            const int at = TINYI_SPH_AT(l, m);
            const double a = tinyi_sph_a(l, m), scale = tinyi_sph_scale(p->norm, l),
                         one = scale / tinyi_sph_scale(p->norm, l - 1),
                         up = one * one * (2.0 * l + 1.0) / (2.0 * l - 1.0);
            plan->a[at] = (float)(a * one);
            plan->b[at] = l > m + 1 ? (float)(a * tinyi_sph_b(l, m) * scale / tinyi_sph_scale(p->norm, l - 2)) : 0.0f;
            plan->along[at] = (float)tinyi_sqrt(up * (double)((l - m) * (l + m)));
            plan->across[at] = (float)tinyi_sqrt(up * (double)((l - m) * (l - m - 1)));
        }
    }
}
TINY_REF_END

/* ---- fast */

/* vectors of a block that has n_rows rows */
static tiny_idx tinyi_sph_step(int n_rows)
{
    tiny_idx step = 64;
    while (step > 16 && step * n_rows > 6144) step /= 2;
    return step;
}

/* what a thread works with: the plan, and blocks of n_rows rows. A transposed block may read 3 rows more and write 3
 * numbers after its end. */
typedef struct tinyi_sph_room { tinyi_sph_plan *plan; float *x, *y, *s, *turned; tiny_idx step; } tinyi_sph_room;

#define TINYI_SPH_PLAN_BYTES ((sizeof(tinyi_sph_plan) + 63) / 64 * 64)

static size_t tinyi_sph_room_bytes(int n_rows, int n_turned)
{
    const size_t step = (size_t)tinyi_sph_step(n_rows);
    return TINYI_SPH_PLAN_BYTES + (step * (size_t)(3 + n_rows + 3 + n_turned) + 16) * sizeof(float);
}

static tinyi_sph_room tinyi_sph_room_of(const tiny_team *team, const tiny_op *op, int count, int n_rows)
{
    tinyi_sph_room r;
    r.step = tinyi_sph_step(n_rows);
    r.plan = (tinyi_sph_plan *)team->own;
    r.x = (float *)(void *)((unsigned char *)team->own + TINYI_SPH_PLAN_BYTES);
    r.y = r.x + 3 * r.step;
    r.s = r.y + count * r.step;
    r.turned = r.y + (n_rows + 3) * r.step;
    tinyi_sph_plan_make(r.plan, tinyi_sph_params(op));
    return r;
}

/* vectors i .. i + n - 1 side by side, zeros up to a multiple of lanes, which is returned */
static size_t tinyi_sph_read(const tinyi_sph_room *r, const tiny_tensor *x, tiny_idx i, tiny_idx n, int lanes)
{
    const tiny_idx all = (n + lanes - 1) / lanes * lanes;
    tiny_idx j, k;
    const float *from = (const float *)x->data + i * x->stride[0];
    for (j = 0; j < 3; j++) {
        for (k = 0; k < n; k++) r->x[j * r->step + k] = from[k * x->stride[0] + j * x->stride[1]];
        for (; k < all; k++) r->x[j * r->step + k] = 0.0f;
    }
    return (size_t)all;
}

/* n rows of count numbers without gaps from a block, four columns at a time. What is left of the columns are four too,
 * and come first: the surplus ones fall on the beginning of the next rows, which come later, and up to 3 numbers on
 * what follows the last row. */
void tinyi_sph_fours(const tiny_team *team, float *to, const float *block, tiny_idx step, tiny_idx n, tiny_idx count)
{
    const tinyi_fn_transpose_b4 turn = TINYI_OF(team->k, transpose_b4);
    const tiny_idx whole = count / 4 * 4;
    if (whole < count)
        turn((unsigned char *)(to + whole), count * 4, (const unsigned char *)(block + whole * step), step * 4,
             (size_t)n, 4);
    turn((unsigned char *)to, count * 4, (const unsigned char *)block, step * 4, (size_t)n, (size_t)whole);
}

/* n rows of count numbers from a block: through turned, which has room for them and 3 numbers more, unless fours fit.
 * Rows without gaps go past the caches where past says so. */
static void tinyi_sph_write_rows(const tiny_team *team, const tinyi_sph_kernels *k, float *to, tiny_idx row,
                                 tiny_idx column, const float *block, tiny_idx step, tiny_idx n, tiny_idx count,
                                 float *turned, int past)
{
    tiny_idx i, j;
    if (column != 1 && count > 1) {
        for (i = 0; i < n; i++)
            for (j = 0; j < count; j++) to[i * row + j * column] = block[j * step + i];
        return;
    }
    past = past && n % 16 == 0 && (uintptr_t)to % 64 == 0;
    if (!past && row == count && n % k->lanes == 0 && count % 4 == 0) {
        tinyi_sph_fours(team, to, block, step, n, count);
        return;
    }
    tinyi_sph_fours(team, turned, block, step, (n + k->lanes - 1) / k->lanes * k->lanes, count);
    if (past) k->past(to, turned, (size_t)(n * count));
    else if (row == count) memcpy(to, turned, (size_t)(n * count) * sizeof *to);
    else
        for (i = 0; i < n; i++) memcpy(to + i * row, turned + i * count, (size_t)count * sizeof *to);
}

static int tinyi_sph_goes_past(const tiny_tensor *t)
{
    return tiny_tensor_is_dense(t) && 4.0 * (double)tiny_tensor_count(t) >= TINYI_SPH_PAST_BYTES;
}

static void tinyi_sph_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0], *dy = op->out[1];
    const tinyi_sph_kernels *k = tinyi_sph_kernels_of(team->k);
    const int count = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    const tinyi_sph_room r = tinyi_sph_room_of(team, op, count, dy ? 4 * count : count);
    const int past = tinyi_sph_goes_past(y), slopes_past = dy && tinyi_sph_goes_past(dy);
    tiny_idx i, i1, n, j;
    while (tiny_take(team, x->dim[0], TINYI_SPH_GRAIN, &i, &i1))
        for (; i < i1; i += n) {
            size_t all;
            float *to;
            n = TINYI_MIN(i1 - i, r.step);
            all = tinyi_sph_read(&r, x, i, n, k->lanes);
            if (dy) k->slopes(r.plan, r.y, r.s, NULL, (size_t)r.step, r.x, all);
            else k->values(r.plan, r.y, (size_t)r.step, r.x, all);
            tinyi_sph_write_rows(team, k, (float *)y->data + i * y->stride[0], y->stride[0], y->stride[1], r.y, r.step,
                                 n, count, r.turned, past);
            if (!dy) continue;
            to = (float *)dy->data + i * dy->stride[0];
            if (dy->stride[2] == 1 && dy->stride[1] == count)
                tinyi_sph_write_rows(team, k, to, dy->stride[0], 1, r.s, r.step, n, 3 * count,
                                     r.turned, slopes_past);
            else
                for (j = 0; j < 3; j++)
                    tinyi_sph_write_rows(team, k, to + j * dy->stride[1], dy->stride[0], dy->stride[2],
                                         r.s + j * count * r.step, r.step, n, count, r.turned, 0);
        }
    if (past || slopes_past) k->past(NULL, NULL, 0);
    team->ran_on = k->from;
}

static void tinyi_sph_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const int count = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    (void)n_threads;
    *shared = 0;
    *own = op->out[1] ? tinyi_sph_room_bytes(4 * count, 3 * count) : tinyi_sph_room_bytes(count, count);
}

/* the block: count rows of values, 3 count of slopes, count of g; turned: three rows of dx */
static void tinyi_sph_back_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *dx = op->out[0];
    const tinyi_sph_kernels *k = tinyi_sph_kernels_of(team->k);
    const tinyi_fn_transpose_b4 turn = TINYI_OF(team->k, transpose_b4);
    const tiny_idx count = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    const tinyi_sph_room r = tinyi_sph_room_of(team, op, (int)count, (int)(5 * count));
    float *block = r.s + 3 * count * r.step;
    tiny_idx i, i1, n, j, c;
    while (tiny_take(team, x->dim[0], TINYI_SPH_GRAIN, &i, &i1))
        for (; i < i1; i += n) {
            const float *from = (const float *)g->data + i * g->stride[0];
            size_t all;
            n = TINYI_MIN(i1 - i, r.step);
            all = tinyi_sph_read(&r, x, i, n, k->lanes);
            k->slopes(r.plan, r.y, r.s, r.x, (size_t)r.step, r.x, all);
            if (g->stride[1] == 1 || count == 1)
                turn((unsigned char *)block, r.step * 4, (const unsigned char *)from, g->stride[0] * 4, (size_t)count,
                     (size_t)n);
            else
                for (c = 0; c < count; c++)
                    for (j = 0; j < n; j++) block[c * r.step + j] = from[j * g->stride[0] + c * g->stride[1]];
            for (c = 0; c < count; c++)
                for (j = n; j < (tiny_idx)all; j++) block[c * r.step + j] = 0.0f;
            k->dots(r.turned, block, r.s, r.x, (size_t)count, (size_t)r.step, all);
            for (c = 0; c < 3; c++)
                for (j = 0; j < n; j++)
                    ((float *)dx->data)[(i + j) * dx->stride[0] + c * dx->stride[1]] = r.turned[c * r.step + j];
        }
    team->ran_on = k->from;
}

static void tinyi_sph_back_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const int count = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    (void)n_threads;
    *shared = 0;
    *own = tinyi_sph_room_bytes(5 * count, 3);
}

/* ---- the rows */

tiny_status tinyi_sph_check(tiny_ctx *ctx, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0];
    const tgnn_sph_harm_params *p = tinyi_sph_params(op);
    char text[96];
    if (!tinyi_is_real(x) || x->rank != 2 || x->dim[1] != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "sph_harm: x is %s, it must be n x 3 f32 or f64",
                          tinyi_shape_text(x, text));
    if (p->l_max < 0 || p->l_max > TGNN_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sph_harm: degree %d, it must be 0 to %d", p->l_max, TGNN_L_MAX);
    if (p->norm < TGNN_SH_COMPONENT || p->norm > TGNN_SH_INTEGRAL)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sph_harm: norm %d, it must be 0 to %d", p->norm, TGNN_SH_INTEGRAL);
    return TINY_OK;
}

static tiny_status tinyi_sph_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_status st = tinyi_sph_check(ctx, op);
    tiny_idx dim[3];
    if (st) return st;
    dim[0] = op->in[0]->dim[0];
    dim[1] = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    tinyi_want(&want[0], op->in[0]->dtype, 2, dim);
    dim[2] = dim[1];
    dim[1] = 3;
    tinyi_want(&want[1], op->in[0]->dtype, 3, dim);
    return TINY_OK;
}

static tiny_status tinyi_sph_back_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1];
    const int count = tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    const tiny_status st = tinyi_sph_check(ctx, op);
    char text[96];
    if (st) return st;
    if (g->dtype != x->dtype || g->rank != 2 || g->dim[0] != x->dim[0] || g->dim[1] != count)
        return tinyi_fail(ctx, TINY_E_SHAPE, "sph_harm_back: g is %s, it must be %td x %d %s",
                          tinyi_shape_text(g, text), x->dim[0], count, tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], x->dtype, 2, x->dim);
    return TINY_OK;
}

static void tinyi_sph_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)op->in[0]->dim[0], count = (double)tgnn_sph_harm_count(tinyi_sph_params(op)->l_max);
    const int back = op->in[1] != NULL, slopes = op->out[1] != NULL;
    c->flops = n * (20.0 + (back ? 26.0 : slopes ? 20.0 : 3.5) * count);
    c->bytes = n * (back ? 24.0 + 4.0 * count : 12.0 + (slopes ? 16.0 : 4.0) * count);
}

static double tinyi_sph_terms(const tiny_op *op)
{
    const double l = (double)tinyi_sph_params(op)->l_max;
    return l * l;
}

/* g without special values: sums of its outliers overflow in float, and not in double */
static void tinyi_sph_case_fill(tiny_case *c, int i_input, void *data)
{
    tiny_rng_fill_normal(&c->rng, (float *)data, (size_t)tiny_tensor_count(&c->in[i_input]));
}

static void tinyi_sph_cases(tiny_case *c)
{
    tgnn_sph_harm_params p;
    tiny_idx dim[2];
    memset(&p, 0, sizeof p);
    p.l_max = c->index ? tiny_case_pick(c, TGNN_L_MAX + 1) : 1;
    p.norm = tiny_case_pick(c, 3);
    p.solid = tiny_case_pick(c, 2);
    dim[0] = tiny_case_dim(c, 1100);
    dim[1] = 3;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
    dim[1] = tgnn_sph_harm_count(p.l_max);
    c->in[1] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
    c->fill[1] = TINY_FILL_TABLE;
    c->fill_table = tinyi_sph_case_fill;
    c->no_specials = p.solid;               /* powers of an outlier overflow in one form and cancel in the other */
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_sph_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_sph_harm_slopes = TINYI_ROW_OF(
    "sph_harm_slopes", TGNN_OP_SPH_HARM_SLOPES, TAKES(1, 1), GIVES(2), PARAMS(tgnn_sph_harm_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_sph_shape), REFERENCE(tinyi_sph_ref),
    FAST(tinyi_sph_fast, tinyi_sph_work), COST(tinyi_sph_cost), CASES(tinyi_sph_cases), BOUND(TINY_BOUND_SCALE, 16, 3),
    TERMS(tinyi_sph_terms), GRADIENT(tinyi_sph_slopes_grad), KERNELS(tinyi_sph_slots),
    SAYS("y and dy = the harmonics of x and their derivatives by its three components"));
static const tiny_op_row tinyi_row_sph_harm_back = TINYI_ROW_OF(
    "sph_harm_back", TGNN_OP_SPH_HARM_BACK, TAKES(2, 2), GIVES(1), PARAMS(tgnn_sph_harm_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_sph_back_shape), REFERENCE(tinyi_sph_back_ref),
    FAST(tinyi_sph_back_fast, tinyi_sph_back_work), COST(tinyi_sph_cost), CASES(tinyi_sph_cases),
    BOUND(TINY_BOUND_SCALE, 32, 3), TERMS(tinyi_sph_terms), GRADIENT(tinyi_sph_back_grad), KERNELS(tinyi_sph_slots),
    SAYS("dx = sum over k of g[k] d(harmonic k of x) / dx"));

tiny_status tinyi_sph_grad(tiny_grad *g, const tiny_op *op)
{
    tiny_op back = *op;
    tiny_tensor dx;
    tiny_status st;
    back.row = &tinyi_row_sph_harm_back;
    back.kind = TGNN_OP_SPH_HARM_BACK;
    back.in[1] = tiny_grad_of(g, 0);
    back.out[1] = NULL;
    if (!back.in[1] || !tiny_grad_wants(g, 0)) return TINY_OK;
    st = tiny_grad_new(g, op->in[0]->dtype, 2, op->in[0]->dim, &dx);
    back.out[0] = &dx;
    if (!st) st = tiny_grad_op(g, &back);
    return st ? st : tiny_grad_add(g, 0, &dx);
}

static const tiny_op_row tinyi_row_sph_harm = TINYI_ROW_OF(
    "sph_harm", TGNN_OP_SPH_HARM, TAKES(1, 1), GIVES(1), PARAMS(tgnn_sph_harm_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_sph_shape), REFERENCE(tinyi_sph_ref),
    FAST(tinyi_sph_fast, tinyi_sph_work), COST(tinyi_sph_cost), CASES(tinyi_sph_cases), BOUND(TINY_BOUND_NORM, 8, 2),
    TERMS(tinyi_sph_terms), GRADIENT(tinyi_sph_grad), KERNELS(tinyi_sph_slots),
    SAYS("y[l l + l + m] = Y_lm of the direction of x, or the polynomial |x|^l Y_lm, l = 0 .. l_max"));
TINY_API const tiny_op_row *tgnn_sph_harm_row(void) { return &tinyi_row_sph_harm; }
TINY_API const tiny_op_row *tgnn_sph_harm_slopes_row(void) { return &tinyi_row_sph_harm_slopes; }
TINY_API const tiny_op_row *tgnn_sph_harm_back_row(void) { return &tinyi_row_sph_harm_back; }

static tiny_status tinyi_sph_call(tiny_ctx *ctx, const tiny_op_row *row, const tiny_tensor *x, const tiny_tensor *g,
                                  const tgnn_sph_harm_params *params, const tiny_tensor *y, const tiny_tensor *dy)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = row->kind;
    op.row = row;
    op.in[0] = x;
    op.in[1] = g;
    op.out[0] = y;
    op.out[1] = dy;
    op.params = params;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_sph_harm(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                   const tiny_tensor *y)
{
    return tinyi_sph_call(ctx, &tinyi_row_sph_harm, x, NULL, params, y, NULL);
}

TINY_API tiny_status tgnn_sph_harm_slopes(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                          const tiny_tensor *y, const tiny_tensor *dy)
{
    return tinyi_sph_call(ctx, &tinyi_row_sph_harm_slopes, x, NULL, params, y, dy);
}

TINY_API tiny_status tgnn_sph_harm_back(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g,
                                        const tgnn_sph_harm_params *params, const tiny_tensor *dx)
{
    return tinyi_sph_call(ctx, &tinyi_row_sph_harm_back, x, g, params, dx, NULL);
}
