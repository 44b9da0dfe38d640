/* src/gnn/equivariant/harmonics_twice.c - second derivatives of harmonics: Hessians, and the gradient of forces
 * Formula  The derivatives of solid harmonics are sums of those of one degree less. With F_lm = q_lm (z + i x)^m of
 *          harmonics.c and the norm COMPONENT,
 *            d/dy F_lm = sqrt(k (l^2 - m^2)) F_(l-1,m),  k = (2 l + 1) / (2 l - 1)
 *            (d/dz + i d/dx) F_lm = -sqrt(k (l - m) (l - m - 1)) F_(l-1,m+1)
 *            (d/dz - i d/dx) F_lm =  sqrt(k (l + m) (l + m - 1)) F_(l-1,m-1),  m > 0; for m = 0 the conjugate of the
 *          line above. Real and imaginary parts give five links from each Y_lm: two for x, one for y, two for z (N.
 *          Bigi et al., 2023, arXiv 2302.08381, section 2, has them for q).
 *          Links applied twice are the second derivatives;
 *          their Laplacian is 0 because the products of the last two lines are minus the square of the first.
 *          Of the direction n = x / |x|, with R the solid harmonic and its derivatives at n:
 *            dY/dx_i = (R_i - l n_i R) / |x|
 *            d2Y/dx_i dx_j = (R_ij - l (n_i R_j + n_j R_i + (i = j) R) + l (l + 2) n_i n_j R) / |x|^2
 * twice    For L = f(dx), dx = sum over k of g_k dY_k/dx and w = dL/d(dx): dL/dg_k = w . dY_k/dx, and dL/dx = sum over
 *          k of g_k (Hessian of Y_k) w. With D_k = w . (links of Y)_k the second is the links of D.
 * Method   as harmonics.c: blocks of vectors side by side
 * Cost     Hessians 60 operations a number, twice 40
 * Error    (64 + 8 l^2) u of the largest number of the output
 * Left out third derivatives: twice has no gradient */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/tape.h"

#define TINYI_TWICE_GRAIN 256

static const tgnn_sph_harm_params *tinyi_twice_params(const tiny_op *op)
{
    static const tgnn_sph_harm_params none = { 0, 0, 0 };
    return op->params ? (const tgnn_sph_harm_params *)op->params : &none;
}

TINY_REF_BEGIN
typedef struct tinyi_twice_link { int at; double by; } tinyi_twice_link;

static double tinyi_twice_norm(int norm, int l)
{
    return norm == TGNN_SH_NORM ? 1.0 / tinyi_sqrt(2.0 * l + 1.0) : 1.0;
}

/* the links of number k to those of one degree less: 0 and 1 for x, 2 for y, 3 and 4 for z */
static void tinyi_twice_links(int norm, int k, tinyi_twice_link link[5])
{
    const double root2 = 1.4142135623730950488;
    double one, up, down;
    int l = 0, m, sine, low, i;
    while ((l + 1) * (l + 1) <= k) l++;
    m = k - l * l - l;
    sine = m < 0;
    m = sine ? -m : m;
    for (i = 0; i < 5; i++) {
        link[i].at = 0;
        link[i].by = 0.0;
    }
    if (!l) return;
    one = (2.0 * l + 1.0) / (2.0 * l - 1.0);
    up = tinyi_sqrt(one * (double)((l - m) * (l - m - 1)));
    down = tinyi_sqrt(one * (double)((l + m) * (l + m - 1)));
    one = tinyi_sqrt(one * (double)(l * l - m * m));
    low = l * l - l;                        /* m = 0 of degree l - 1 */
    if (m < l) {
        link[2].at = low + (sine ? -m : m);
        link[2].by = one;
    }
    if (m == 0) {
        if (l > 1) {
            link[0].at = low - 1;
            link[3].at = low + 1;
            link[0].by = link[3].by = -up / root2;
        }
    } else {
        if (m + 1 < l) {                    /* (m + 1): sines for x of a cosine, cosines for x of a sine */
            link[0].at = low + (sine ? m + 1 : -(m + 1));
            link[0].by = sine ? 0.5 * up : -0.5 * up;
            link[3].at = low + (sine ? -(m + 1) : m + 1);
            link[3].by = -0.5 * up;
        }
        if (m > 1) {
            link[1].at = low + (sine ? m - 1 : -(m - 1));
            link[1].by = sine ? 0.5 * down : -0.5 * down;
            link[4].at = low + (sine ? -(m - 1) : m - 1);
            link[4].by = 0.5 * down;
        } else {                            /* m = 1: F_(l-1,0) is real and has no factor sqrt2 */
            link[sine ? 1 : 4].at = low;
            link[sine ? 1 : 4].by = 0.5 * root2 * down;
        }
    }
    for (i = 0; i < 5; i++) link[i].by *= tinyi_twice_norm(norm, l) / tinyi_twice_norm(norm, l - 1);
}

/* Derivative j of number k, from the numbers y. */
static double tinyi_twice_slope(const tinyi_twice_link *link, int j, const double *y)
{
    if (j == 1) return link[2].by * y[link[2].at];
    link += j == 0 ? 0 : 3;
    return link[0].by * y[link[0].at] + link[1].by * y[link[1].at];
}

/* Of one vector: n and the inverse of its length, the solid harmonics y of n, and the links of all numbers. */
typedef struct tinyi_twice_one {
    double n[3], inverse, y[TINYI_SPH_MOST], s[3][TINYI_SPH_MOST];
    tinyi_twice_link link[TINYI_SPH_MOST][5];
    int degree[TINYI_SPH_MOST], count, solid, norm;
} tinyi_twice_one;

static void tinyi_twice_begin(tinyi_twice_one *o, const tgnn_sph_harm_params *p)
{
    int k, l = 0;
    o->count = tgnn_sph_harm_count(p->l_max);
    o->solid = p->solid;
    o->norm = p->norm;
    for (k = 0; k < o->count; k++) {
        if (k == (l + 1) * (l + 1)) l++;
        o->degree[k] = l;
        tinyi_twice_links(p->norm, k, o->link[k]);
    }
}

static void tinyi_twice_at(tinyi_twice_one *o, const tgnn_sph_harm_params *p, const double *x)
{
    tgnn_sph_harm_params solid = *p;
    int j, k;
    solid.solid = 1;
    memcpy(o->n, x, sizeof o->n);
    o->inverse = p->solid ? 1.0 : tinyi_sph_unit(o->n);
    tinyi_sph_one(o->n, &solid, o->y, NULL);
    for (j = 0; j < 3; j++)
        for (k = 0; k < o->count; k++) o->s[j][k] = tinyi_twice_slope(o->link[k], j, o->y);
}

static double tinyi_twice_first(const tinyi_twice_one *o, int j, int k)
{
    if (o->solid) return o->s[j][k];
    return (o->s[j][k] - (double)o->degree[k] * o->n[j] * o->y[k]) * o->inverse;
}

static double tinyi_twice_second(const tinyi_twice_one *o, int i, int j, int k)
{
    const double l = (double)o->degree[k], r = o->y[k];
    const double solid = tinyi_twice_slope(o->link[k], i, o->s[j]);
    if (o->solid) return solid;
    return (solid - l * (o->n[i] * o->s[j][k] + o->n[j] * o->s[i][k] + (i == j ? r : 0.0)) +
            l * (l + 2.0) * o->n[i] * o->n[j] * r) * o->inverse * o->inverse;
}

static void tinyi_hessians_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0], *dy = op->out[1], *dd = op->out[2];
    const tgnn_sph_harm_params *p = tinyi_twice_params(op);
    tinyi_twice_one o;
    double v[3];
    tiny_idx n;
    int i, j, k;
    tinyi_twice_begin(&o, p);
    for (n = 0; n < x->dim[0]; n++) {
        for (j = 0; j < 3; j++) v[j] = tinyi_real(x->data, x->dtype, n * x->stride[0] + j * x->stride[1]);
        tinyi_twice_at(&o, p, v);
        for (k = 0; k < o.count; k++) {
            tinyi_real_set(y->data, y->dtype, n * y->stride[0] + k * y->stride[1], o.y[k]);
            for (j = 0; j < 3; j++) {
                tinyi_real_set(dy->data, dy->dtype, n * dy->stride[0] + j * dy->stride[1] + k * dy->stride[2],
                               tinyi_twice_first(&o, j, k));
                for (i = 0; i < 3; i++)
                    tinyi_real_set(dd->data, dd->dtype,
                                   n * dd->stride[0] + i * dd->stride[1] + j * dd->stride[2] + k * dd->stride[3],
                                   i < j ? tinyi_twice_second(&o, i, j, k) : tinyi_twice_second(&o, j, i, k));
            }
        }
    }
}

static void tinyi_twice_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *w = op->in[2], *dg = op->out[0], *dx = op->out[1];
    const tgnn_sph_harm_params *p = tinyi_twice_params(op);
    tinyi_twice_one o;
    double v[3], u[3], h[3];
    tiny_idx n;
    int i, j, k;
    tinyi_twice_begin(&o, p);
    for (n = 0; n < x->dim[0]; n++) {
        for (j = 0; j < 3; j++) {
            v[j] = tinyi_real(x->data, x->dtype, n * x->stride[0] + j * x->stride[1]);
            u[j] = tinyi_real(w->data, w->dtype, n * w->stride[0] + j * w->stride[1]);
            h[j] = 0.0;
        }
        tinyi_twice_at(&o, p, v);
        for (k = 0; k < o.count; k++) {
            const double by = tinyi_real(g->data, g->dtype, n * g->stride[0] + k * g->stride[1]);
            double sum = 0.0;
            for (j = 0; j < 3; j++) sum += u[j] * tinyi_twice_first(&o, j, k);
            tinyi_real_set(dg->data, dg->dtype, n * dg->stride[0] + k * dg->stride[1], sum);
            for (i = 0; i < 3; i++)
                for (j = 0; j < 3; j++) h[i] += by * u[j] * tinyi_twice_second(&o, i, j, k);
        }
        for (i = 0; i < 3; i++) tinyi_real_set(dx->data, dx->dtype, n * dx->stride[0] + i * dx->stride[1], h[i]);
    }
}
TINY_REF_END

/* ---- fast */

static void tinyi_twice_plan(tinyi_sph_links *links, const tgnn_sph_harm_params *p)
{
    const int count = tgnn_sph_harm_count(p->l_max);
    int k, i;
    links->count = count;
    links->solid = p->solid;
    for (k = 0; k < count; k++) {
        tinyi_twice_link link[5];
        tinyi_twice_links(p->norm, k, link);
        for (i = 0; i < 5; i++) {
            links->at[k][i] = (short)link[i].at;
            links->by[k][i] = (float)link[i].by;
        }
    }
}

/* What a thread has: both plans, and a block: x and w (3 rows each), the length's inverse, y, then `more` rows. */
typedef struct tinyi_twice_room {
    tiny_idx step;
    tinyi_sph_plan *plan;
    tinyi_sph_links *links;
    float *x, *w, *y, *rest, *turned;
} tinyi_twice_room;

#define TINYI_TWICE_PLANS ((sizeof(tinyi_sph_plan) + sizeof(tinyi_sph_links) + 63) / 64 * 64)

static tiny_idx tinyi_twice_step(tiny_idx rows) { return rows * 32 <= 12288 ? 32 : 16; }
static size_t tinyi_twice_bytes(tiny_idx count, tiny_idx more, tiny_idx turned)
{
    const tiny_idx step = tinyi_twice_step(count + more);
    return TINYI_TWICE_PLANS + (size_t)(step * (7 + count + more + 16 + turned) + 16) * sizeof(float);
}

static tinyi_twice_room tinyi_twice_room_of(const tiny_team *team, const tiny_op *op, tiny_idx count, tiny_idx more)
{
    tgnn_sph_harm_params solid = *tinyi_twice_params(op);
    tinyi_twice_room r;
    r.step = tinyi_twice_step(count + more);
    r.plan = (tinyi_sph_plan *)team->own;
    r.links = (tinyi_sph_links *)(void *)(r.plan + 1);
    r.x = (float *)(void *)((unsigned char *)team->own + TINYI_TWICE_PLANS);
    r.w = r.x + 4 * r.step;
    r.y = r.w + 3 * r.step;
    r.rest = r.y + count * r.step;
    r.turned = r.rest + (more + 16) * r.step;
    tinyi_twice_plan(r.links, &solid);
    solid.solid = 1;
    tinyi_sph_plan_make(r.plan, &solid);
    return r;
}

/* columns of n rows side by side, zeros up to `all` */
static void tinyi_twice_read(float *to, tiny_idx step, const tiny_tensor *x, tiny_idx i, tiny_idx n, tiny_idx all)
{
    const float *from = (const float *)x->data + i * x->stride[0];
    tiny_idx j, k;
    for (j = 0; j < x->dim[1]; j++) {
        for (k = 0; k < n; k++) to[j * step + k] = from[k * x->stride[0] + j * x->stride[1]];
        for (; k < all; k++) to[j * step + k] = 0.0f;
    }
}

static void tinyi_twice_write(const tiny_tensor *y, const float *from, tiny_idx step, tiny_idx i, tiny_idx n)
{
    float *to = (float *)y->data + i * y->stride[0];
    tiny_idx j, k;
    for (k = 0; k < n; k++)
        for (j = 0; j < y->dim[1]; j++) to[k * y->stride[0] + j * y->stride[1]] = from[j * step + k];
}

/* n rows of a dense tensor from `columns` rows of the block */
static void tinyi_twice_rows(const tiny_team *team, const tinyi_twice_room *r, const tiny_tensor *y, const float *from,
                             tiny_idx columns, tiny_idx i, tiny_idx n, tiny_idx all)
{
    float *to = (float *)y->data + i * columns;
    if (n == all && columns % 4 == 0) {
        tinyi_sph_fours(team, to, from, r->step, n, columns);
        return;
    }
    tinyi_sph_fours(team, r->turned, from, r->step, all, columns);
    memcpy(to, r->turned, (size_t)(n * columns) * sizeof *to);
}

static void tinyi_hessians_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0], *dy = op->out[1], *dd = op->out[2];
    const tinyi_sph_kernels *k = tinyi_sph_kernels_of(team->k);
    const tiny_idx count = y->dim[1];
    const tinyi_twice_room r = tinyi_twice_room_of(team, op, count, 12 * count);
    tiny_idx i, i1, n, j, m, all, c;
    while (tiny_take(team, x->dim[0], TINYI_TWICE_GRAIN, &i, &i1))
        for (; i < i1; i += n) {
            n = TINYI_MIN(i1 - i, r.step);
            all = (n + k->lanes - 1) / k->lanes * k->lanes;
            tinyi_twice_read(r.x, r.step, x, i, n, all);
            k->hessians(r.plan, r.links, r.x, r.y, r.rest, r.rest + 3 * count * r.step, (size_t)r.step, (size_t)all);
            if (tiny_tensor_is_dense(y)) tinyi_twice_rows(team, &r, y, r.y, count, i, n, all);
            else tinyi_twice_write(y, r.y, r.step, i, n);
            if (tiny_tensor_is_dense(dy)) tinyi_twice_rows(team, &r, dy, r.rest, 3 * count, i, n, all);
            else
                for (j = 0; j < 3; j++)
                    for (c = 0; c < count; c++)
                        for (m = 0; m < n; m++)
                            ((float *)dy->data)[(i + m) * dy->stride[0] + j * dy->stride[1] + c * dy->stride[2]] =
                                r.rest[(j * count + c) * r.step + m];
            if (tiny_tensor_is_dense(dd))
                tinyi_twice_rows(team, &r, dd, r.rest + 3 * count * r.step, 9 * count, i, n, all);
            else
                for (j = 0; j < 9; j++)
                    for (c = 0; c < count; c++)
                        for (m = 0; m < n; m++)
                            ((float *)dd->data)[(i + m) * dd->stride[0] + j / 3 * dd->stride[1] +
                                                j % 3 * dd->stride[2] + c * dd->stride[3]] =
                                r.rest[((3 + j) * count + c) * r.step + m];
        }
    team->ran_on = k->from;
}

static void tinyi_hessians_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tiny_idx count = tgnn_sph_harm_count(tinyi_twice_params(op)->l_max);
    (void)n_threads;
    *shared = 0;
    *own = tinyi_twice_bytes(count, 12 * count, 9 * count);
}

/* the block after y: D, g, dg, then dx */
static void tinyi_twice_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *w = op->in[2], *dg = op->out[0], *dx = op->out[1];
    const tinyi_sph_kernels *k = tinyi_sph_kernels_of(team->k);
    const tiny_idx count = dg->dim[1];
    const tinyi_twice_room r = tinyi_twice_room_of(team, op, count, 3 * count + 3);
    float *d = r.rest, *of = d + count * r.step, *to = of + count * r.step, *h = to + count * r.step;
    tiny_idx i, i1, n, all;
    while (tiny_take(team, x->dim[0], TINYI_TWICE_GRAIN, &i, &i1))
        for (; i < i1; i += n) {
            n = TINYI_MIN(i1 - i, r.step);
            all = (n + k->lanes - 1) / k->lanes * k->lanes;
            tinyi_twice_read(r.x, r.step, x, i, n, all);
            tinyi_twice_read(r.w, r.step, w, i, n, all);
            tinyi_twice_read(of, r.step, g, i, n, all);
            k->twice(r.plan, r.links, r.x, r.w, r.y, of, d, to, h, (size_t)r.step, (size_t)all);
            tinyi_twice_write(dg, to, r.step, i, n);
            tinyi_twice_write(dx, h, r.step, i, n);
        }
    team->ran_on = k->from;
}

static void tinyi_twice_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tiny_idx count = tgnn_sph_harm_count(tinyi_twice_params(op)->l_max);
    (void)n_threads;
    *shared = 0;
    *own = tinyi_twice_bytes(count, 3 * count + 3, 0);
}

/* ---- the rows */

static tiny_status tinyi_hessians_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_status st = tinyi_sph_check(ctx, op);
    tiny_idx dim[4];
    if (st) return st;
    dim[0] = op->in[0]->dim[0];
    dim[1] = tgnn_sph_harm_count(tinyi_twice_params(op)->l_max);
    tinyi_want(&want[0], op->in[0]->dtype, 2, dim);
    dim[3] = dim[2] = dim[1];
    dim[1] = 3;
    tinyi_want(&want[1], op->in[0]->dtype, 3, dim);
    dim[2] = 3;
    tinyi_want(&want[2], op->in[0]->dtype, 4, dim);
    return TINY_OK;
}

static tiny_status tinyi_twice_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *w = op->in[2];
    const int count = tgnn_sph_harm_count(tinyi_twice_params(op)->l_max);
    const tiny_status st = tinyi_sph_check(ctx, op);
    char a[96], b[96];
    if (st) return st;
    if (g->dtype != x->dtype || g->rank != 2 || g->dim[0] != x->dim[0] || g->dim[1] != count || w->dtype != x->dtype ||
        w->rank != 2 || w->dim[0] != x->dim[0] || w->dim[1] != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "sph_harm_twice: g is %s and w is %s, they must be %td x %d and %td x 3 %s",
                          tinyi_shape_text(g, a), tinyi_shape_text(w, b), x->dim[0], count, x->dim[0],
                          tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], x->dtype, 2, g->dim);
    tinyi_want(&want[1], x->dtype, 2, x->dim);
    return TINY_OK;
}

static void tinyi_twice_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)op->in[0]->dim[0], count = (double)tgnn_sph_harm_count(tinyi_twice_params(op)->l_max);
    const int twice = op->in[1] != NULL;
    c->flops = n * (40.0 + (twice ? 40.0 : 60.0) * count);
    c->bytes = n * (twice ? 36.0 + 8.0 * count : 12.0 + 52.0 * count);
}

static double tinyi_twice_terms(const tiny_op *op)
{
    const double l = (double)tinyi_twice_params(op)->l_max;
    return l * l;
}

static void tinyi_twice_case(tiny_case *c, int twice)
{
    tgnn_sph_harm_params p;
    tiny_idx n;
    memset(&p, 0, sizeof p);
    p.l_max = c->index ? tiny_case_pick(c, TGNN_L_MAX + 1) : 2;
    p.norm = tiny_case_pick(c, 3);
    p.solid = tiny_case_pick(c, 2);
    n = tiny_case_dim(c, 300);
    c->in[0] = tiny_tensor_2d(NULL, TINY_F32, n, 3);
    if (twice) {
        c->in[1] = tiny_tensor_2d(NULL, TINY_F32, n, tgnn_sph_harm_count(p.l_max));
        c->in[2] = c->in[0];
    }
    c->no_specials = 1;                     /* 1 / |x|^2 leaves the range of floats for short vectors */
    memcpy(c->params.bytes, &p, sizeof p);
}
static void tinyi_hessians_cases(tiny_case *c) { tinyi_twice_case(c, 0); }
static void tinyi_twice_cases(tiny_case *c) { tinyi_twice_case(c, 1); }

static const short tinyi_twice_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_hessians = TINYI_ROW_OF(
    "sph_harm_hessians", TGNN_OP_SPH_HARM_HESSIANS, TAKES(1, 1), GIVES(3), PARAMS(tgnn_sph_harm_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_hessians_shape), REFERENCE(tinyi_hessians_ref),
    FAST(tinyi_hessians_fast, tinyi_hessians_work), COST(tinyi_twice_cost), CASES(tinyi_hessians_cases),
    BOUND(TINY_BOUND_SCALE, 64, 8), TERMS(tinyi_twice_terms), GRADIENT(NULL), KERNELS(tinyi_twice_slots),
    SAYS("y, dy and ddy = the harmonics of x, their first and second derivatives"));
static const tiny_op_row tinyi_row_twice = TINYI_ROW_OF(
    "sph_harm_twice", TGNN_OP_SPH_HARM_TWICE, TAKES(3, 3), GIVES(2), PARAMS(tgnn_sph_harm_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_twice_shape), REFERENCE(tinyi_twice_ref),
    FAST(tinyi_twice_fast, tinyi_twice_work), COST(tinyi_twice_cost), CASES(tinyi_twice_cases),
    BOUND(TINY_BOUND_SCALE, 64, 8), TERMS(tinyi_twice_terms), GRADIENT(NULL), KERNELS(tinyi_twice_slots),
    SAYS("the gradient of sph_harm_back: dg[k] = w dY_k / dx, dx = sum over k of g[k] (Hessian of Y_k) w"));
TINY_API const tiny_op_row *tgnn_sph_harm_hessians_row(void) { return &tinyi_row_hessians; }
TINY_API const tiny_op_row *tgnn_sph_harm_twice_row(void) { return &tinyi_row_twice; }

static tiny_status tinyi_twice_call(tiny_ctx *ctx, const tiny_op_row *row, const tiny_tensor *const in[3],
                                    const tgnn_sph_harm_params *params, const tiny_tensor *const out[3])
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = row->kind;
    op.row = row;
    memcpy(op.in, in, 3 * sizeof *in);
    memcpy(op.out, out, 3 * sizeof *out);
    op.params = params;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_sph_harm_hessians(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                            const tiny_tensor *y, const tiny_tensor *dy, const tiny_tensor *ddy)
{
    const tiny_tensor *in[3], *out[3];
    in[0] = x;
    in[1] = in[2] = NULL;
    out[0] = y;
    out[1] = dy;
    out[2] = ddy;
    return tinyi_twice_call(ctx, &tinyi_row_hessians, in, params, out);
}

TINY_API tiny_status tgnn_sph_harm_twice(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g,
                                         const tiny_tensor *w, const tgnn_sph_harm_params *params,
                                         const tiny_tensor *dg, const tiny_tensor *dx)
{
    const tiny_tensor *in[3], *out[3];
    in[0] = x;
    in[1] = g;
    in[2] = w;
    out[0] = dg;
    out[1] = dx;
    out[2] = NULL;
    return tinyi_twice_call(ctx, &tinyi_row_twice, in, params, out);
}

/* ---- gradients of the first derivatives */

/* The results of twice(x, f, w), dg to input i_g of the operation (-1: nowhere), dx to its input 0. */
static tiny_status tinyi_twice_give(tiny_grad *g, const tiny_op *of, const tiny_tensor *f, const tiny_tensor *w,
                                    int i_g)
{
    tiny_op op;
    tiny_tensor dg, dx;
    tiny_status st = tiny_grad_new(g, f->dtype, 2, f->dim, &dg);
    if (!st) st = tiny_grad_new(g, f->dtype, 2, of->in[0]->dim, &dx);
    if (st) return st;
    memset(&op, 0, sizeof op);
    op.kind = TGNN_OP_SPH_HARM_TWICE;
    op.row = &tinyi_row_twice;
    op.in[0] = of->in[0];
    op.in[1] = f;
    op.in[2] = w;
    op.out[0] = &dg;
    op.out[1] = &dx;
    op.params = of->params;
    st = tiny_grad_op(g, &op);
    if (!st && i_g >= 0 && tiny_grad_wants(g, i_g)) st = tiny_grad_add(g, i_g, &dg);
    if (!st && tiny_grad_wants(g, 0)) st = tiny_grad_add(g, 0, &dx);
    return st;
}

tiny_status tinyi_sph_back_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *w = tiny_grad_of(g, 0);
    return w ? tinyi_twice_give(g, op, op->in[1], w, 1) : TINY_OK;
}

/* one component of the slopes after the other: w is a unit vector */
tiny_status tinyi_sph_slopes_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *d = tiny_grad_of(g, 1);
    tiny_status st = tiny_grad_wants(g, 0) ? tinyi_sph_grad(g, op) : TINY_OK;
    int j;
    for (j = 0; !st && d && tiny_grad_wants(g, 0) && j < 3; j++) {
        tiny_tensor f = *d, unit;
        const tiny_idx three = 3;
        st = tiny_grad_new(g, d->dtype, 1, &three, &unit);
        if (st) break;
        if (!tiny_grad_dry(g)) {
            int i;
            for (i = 0; i < 3; i++) tinyi_real_set(unit.data, unit.dtype, i, i == j ? 1.0 : 0.0);
        }
        unit.rank = 2;
        unit.dim[1] = 3;
        unit.stride[1] = 1;
        unit.dim[0] = op->in[0]->dim[0];
        unit.stride[0] = 0;
        f.rank = 2;                         /* (n, count) of component j */
        f.dim[1] = d->dim[2];
        f.stride[1] = d->stride[2];
        f.data = (unsigned char *)d->data + j * d->stride[1] * (tiny_idx)tiny_dtype_bytes(d->dtype);
        st = tinyi_twice_give(g, op, &f, &unit, -1);
    }
    return st;
}
