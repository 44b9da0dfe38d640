/* src/gnn/equivariant/product_kinds.c - the program of each kind of product
 * Papers   Y. Xie, A. Daigavane, M. Kotak, T. Smidt, "The Price of Freedom: Exploring Expressivity and Runtime
 *          Tradeoffs in Equivariant Tensor Products", 2025 (arXiv 2506.13523): the kinds. S. Luo, T. Chen, A.
 *          Krishnapriyan, "Enabling Efficient Equivariant Operations in the Fourier Basis via Gaunt Tensor Products",
 *          2024 (arXiv 2401.10216): the Fourier form.
 * Formula  CG       out[k] = sum_ij C[i][j][k] x[i] y[j]. The products x[i] y[j] of two degrees are made once for all
 *          l3. LIST     the same with gamma C, gamma = sqrt((2 l1 + 1)(2 l2 + 1)(2 l3 + 1) / (4 pi)) (l1 l2 l3; 0 0 0)
 *          > 0. GRID     x at the points of a grid, for each polar angle b first u[m] = sum_l P_l|m|(b) x[l m], then
 *                   sum_m u[m] trig_m(a); the product of both fields; back in the reverse order, with weights. Nodes of
 *                   Gauss and Legendre: exact for T = l1 + l2 + l3 from ceil((T + 1) / 2) polar angles and T + 1
 *          azimuths on. FOURIER  P_l|m|(cos t) = sum_u q[u] exp(i u t), t over the whole circle with sin t < 0 on its
 *                   second half: Y_lm on a torus, whose coefficients F[u][v] are convolved. Back by
 *                   z = 2 pi or sqrt2 pi (1 or i) sum_u' q[u'] J(u + u'), J(n) = int_0^pi exp(i n t) sin t dt =
 *                   2 / (1 - n^2) for even n, +-i pi / 2 for n = +-1, else 0. Only v >= 0 is kept: fields are real.
 *          VECTOR   degree l of x as the field sum C[l][1][l+1] x Y_(l+1), so of y; cross product at each point of the
 *                   grid; back to l3 through Y_(l3+1) and Y_(l3-1).
 *          FOLD and CP: gnn/equivariant/product_fold.c
 *          MATRIX   X = sum_l C[m][m][l] x[l], so Y; X Y back through the same C.
 * Error    tables 1e-14 up to degree 12. */
#include <string.h>
#include "gnn/equivariant/product_inside.h"
#include "math/elem.h"

#define TINYI_PK_DEGREES (TGNN_L_MAX + 2)           /* of fields: one above that of features */
#define TINYI_PK_PAIRS (TINYI_PK_DEGREES * (TINYI_PK_DEGREES + 1) / 2)
#define TINYI_PK_AT(l, m) ((l) * ((l) + 1) / 2 + (m))
#define TINYI_PK_PI 3.14159265358979323846
#define TINYI_PK_ROOT2 1.4142135623730950488

TINY_REF_BEGIN
/* P_lm, normalised on the sphere, for polar angles of cosine c and sine s; s may be below 0 */
static void tinyi_pk_legendre(int l_max, double c, double s, double *p)
{
    int l, m;
    p[0] = 0.28209479177387814347;
    for (m = 0; m <= l_max; m++) {
        if (m) p[TINYI_PK_AT(m, m)] = s * tinyi_sqrt((2.0 * m + 1.0) / (2.0 * m)) * p[TINYI_PK_AT(m - 1, m - 1)];
        if (m < l_max) p[TINYI_PK_AT(m + 1, m)] = tinyi_sqrt(2.0 * m + 3.0) * c * p[TINYI_PK_AT(m, m)];
        for (l = m + 2; l <= l_max; l++) {
            const double k = (double)l - 1.0, mm = (double)m * m;
            p[TINYI_PK_AT(l, m)] =
                tinyi_sqrt((4.0 * l * l - 1.0) / ((double)l * l - mm)) *
                (c * p[TINYI_PK_AT(l - 1, m)] -
                 tinyi_sqrt((k * k - mm) / (4.0 * k * k - 1.0)) * p[TINYI_PK_AT(l - 2, m)]);
        }
    }
}

/* nodes (cosines) and weights of Gauss and Legendre */
static void tinyi_pk_gauss(int n, double *node, double *weight)
{
    int i, k, round;
    for (i = 0; i < n; i++) {
        double t = tinyi_cos64(TINYI_PK_PI * (i + 0.75) / (n + 0.5)), slope = 1.0;
        for (round = 0; round < 60; round++) {
            double p0 = 1.0, p1 = t, step;
            for (k = 2; k <= n; k++) {
                const double p2 = ((2.0 * k - 1.0) * t * p1 - (k - 1.0) * p0) / k;
                p0 = p1;
                p1 = p2;
            }
            slope = n * (t * p1 - p0) / (t * t - 1.0);
            step = p1 / slope;
            t -= step;
            if (step < 1e-15 && step > -1e-15) break;
        }
        node[i] = t;
        weight[i] = 2.0 / ((1.0 - t * t) * slope * slope);
    }
}

/* sqrt2 sin |m| a, 1, sqrt2 cos m a at azimuth number k of n */
static double tinyi_pk_trig(int m, int k, int n)
{
    double c, s;
    const int am = m < 0 ? -m : m;
    if (m == 0) return 1.0;
    tinyi_cis64((uint64_t)am * (uint64_t)k % (uint64_t)n, (uint64_t)n, &c, &s);
    return TINYI_PK_ROOT2 * (m < 0 ? s : c);
}

static double tinyi_pk_factorial(int n)
{
    double f = 1.0;
    int i;
    for (i = 2; i <= n; i++) f *= i;
    return f;
}

/* G[l1][l2][l3] = gamma C[l1][l2][l3] */
static double tinyi_pk_gamma(int l1, int l2, int l3)
{
    const int j = l1 + l2 + l3, k = j / 2;
    double f;
    if (j & 1) return 0.0;
    f = tinyi_sqrt(tinyi_pk_factorial(j - 2 * l1) * tinyi_pk_factorial(j - 2 * l2) / tinyi_pk_factorial(j + 1) *
                   tinyi_pk_factorial(j - 2 * l3));
    f *= tinyi_pk_factorial(k) / (tinyi_pk_factorial(k - l1) * tinyi_pk_factorial(k - l2) * tinyi_pk_factorial(k - l3));
    return f * tinyi_sqrt((2.0 * l1 + 1.0) * (2.0 * l2 + 1.0) * (2.0 * l3 + 1.0) / (4.0 * TINYI_PK_PI));
}

/* ---- couplings: CG and the list of Gaunt */

/* x[i] y[j] of two degrees into (2 l1 + 1)(2 l2 + 1) registers from `first` on */
static void tinyi_pk_products(tinyi_pc *pc, int l1, int l2, int y, int first)
{
    int i, j;
    for (i = 0; i < 2 * l1 + 1; i++)
        for (j = 0; j < 2 * l2 + 1; j++) {
            tinyi_pc_row(pc, first + i * (2 * l2 + 1) + j, TINYI_PC_PAIRS);
            tinyi_pc_term(pc, 1.0, l1 * l1 + i, y + l2 * l2 + j);
        }
}

/* to[k] = or += scale sum C[i][j][k] of those registers */
static void tinyi_pk_couple(tinyi_pc *pc, const tgnn_so3 *so3, const int *l, int dense, double scale, int first, int to,
                            int add)
{
    const int n2 = 2 * l[1] + 1;
    size_t n, e;
    const tgnn_coupling *c = tgnn_so3_couplings(so3, l[0], l[1], l[2], &n);
    int i, j, k;
    for (k = 0; k < 2 * l[2] + 1; k++) {
        tinyi_pc_row(pc, to + k, add ? TINYI_PC_ADD : 0);
        if (!dense) {
            for (e = 0; e < n; e++)
                if (c[e].k == k) tinyi_pc_term(pc, scale * c[e].value, first + c[e].i * n2 + c[e].j, -1);
            continue;
        }
        e = 0;
        for (i = 0; i < 2 * l[0] + 1; i++)
            for (j = 0; j < n2; j++) {
                double v = 0.0;
                for (; e < n && (c[e].i < i || (c[e].i == i && c[e].j <= j)); e++)
                    if (c[e].i == i && c[e].j == j && c[e].k == k) v = c[e].value;
                tinyi_pc_term(pc, scale * v, first + i * n2 + j, -1);
            }
    }
}

static void tinyi_pk_lists(const tgnn_product *p, const tgnn_so3 *so3, int kind, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int y = (d->l1 + 1) * (d->l1 + 1), w = y + (d->l2 + 1) * (d->l2 + 1), gaunt = kind == TGNN_PRODUCT_GAUNT_LIST;
    const int n_out = (int)p->dim[TGNN_PRODUCT_OUT], out = tinyi_pc_regs(pc, n_out);
    uint8_t begun[TGNN_L_MAX + 1];
    int l[3], i_path = 0, at = out, k;
    memset(begun, 0, sizeof begun);
    for (l[0] = 0; l[0] <= d->l1; l[0]++)
        for (l[1] = 0; l[1] <= d->l2; l[1]++) {
            const int first = tinyi_pc_regs(pc, (2 * l[0] + 1) * (2 * l[1] + 1));
            const int low = l[0] > l[1] ? l[0] - l[1] : l[1] - l[0];
            tinyi_pk_products(pc, l[0], l[1], y, first);
            for (l[2] = low; l[2] <= l[0] + l[1] && l[2] <= d->l3; l[2]++) {
                const int apart = !gaunt && d->apart, n3 = 2 * l[2] + 1, to = apart ? at : out + l[2] * l[2],
                          add = !apart && begun[l[2]];
                const double scale = gaunt ? tinyi_pk_gamma(l[0], l[1], l[2])
                                     : d->norm == TGNN_PRODUCT_NORM
                                         ? tinyi_sqrt((2.0 * l[0] + 1.0) * (2.0 * l[1] + 1.0))
                                     : d->norm == TGNN_PRODUCT_COMPONENT ? tinyi_sqrt(2.0 * l[2] + 1.0)
                                                                         : 1.0;
                if ((gaunt || d->even) && (l[0] + l[1] + l[2]) & 1) continue;
                if (gaunt || !d->weighted)
                    tinyi_pk_couple(pc, so3, l, kind == TGNN_PRODUCT_CG_DENSE, scale, first, to, add);
                else {
                    const int path = tinyi_pc_regs(pc, n3);
                    tinyi_pk_couple(pc, so3, l, kind == TGNN_PRODUCT_CG_DENSE, scale, first, path, 0);
                    for (k = 0; k < n3; k++) {
                        tinyi_pc_row(pc, to + k, TINYI_PC_PAIRS | (add ? TINYI_PC_ADD : 0));
                        tinyi_pc_term(pc, 1.0, w + (d->shared ? 0 : i_path), path + k);
                    }
                }
                begun[l[2]] = 1;
                at += n3;
                i_path++;
            }
        }
    for (l[2] = 0; (gaunt || !d->apart) && l[2] <= d->l3; l[2]++)       /* what nothing couples to is 0 */
        for (k = 0; !begun[l[2]] && k < 2 * l[2] + 1; k++) tinyi_pc_row(pc, out + l[2] * l[2] + k, 0);
    tinyi_pc_set_out(pc, out, n_out);
}

/* ---- the sphere grid */

typedef struct tinyi_pk_grid {
    int nb, na, l;                          /* l: the highest degree of any field */
    double node[3 * TINYI_PK_DEGREES], weight[3 * TINYI_PK_DEGREES];
    double p[TINYI_PK_PAIRS];               /* of one polar angle */
} tinyi_pk_grid;

/* the numbers reg[l l + l + m], l = 0 .. l_max, as na values of the current polar angle, from `to` on */
static void tinyi_pk_synthesis(tinyi_pc *pc, const tinyi_pk_grid *g, int reg, int l_max, int to)
{
    const int u = tinyi_pc_regs(pc, 2 * l_max + 1) + l_max;
    int l, m, a;
    for (m = -l_max; m <= l_max; m++) {
        const int am = m < 0 ? -m : m;
        tinyi_pc_row(pc, u + m, 0);
        for (l = am; l <= l_max; l++) tinyi_pc_term(pc, g->p[TINYI_PK_AT(l, am)], reg + l * l + l + m, -1);
    }
    for (a = 0; a < g->na; a++) {
        tinyi_pc_row(pc, to + a, 0);
        for (m = -l_max; m <= l_max; m++) tinyi_pc_term(pc, tinyi_pk_trig(m, a, g->na), u + m, -1);
    }
}

/* values of the current polar angle into c[m + l_max] */
static void tinyi_pk_azimuths(tinyi_pc *pc, const tinyi_pk_grid *g, int from, int l_max, int c)
{
    int m, a;
    for (m = -l_max; m <= l_max; m++) {
        tinyi_pc_row(pc, c + l_max + m, 0);
        for (a = 0; a < g->na; a++)
            tinyi_pc_term(pc, tinyi_pk_trig(m, a, g->na) * 2.0 * TINYI_PK_PI / g->na, from + a, -1);
    }
}

/* the numbers out[l l + l + m] from those of all polar angles, (nb, 2 l_max + 1) */
static void tinyi_pk_polar(tinyi_pc *pc, tinyi_pk_grid *g, int c, int l_max, int out)
{
    int l, m, b;
    for (l = 0; l <= l_max; l++)
        for (m = -l; m <= l; m++) {
            tinyi_pc_row(pc, out + l * l + l + m, 0);
            for (b = 0; b < g->nb; b++) {
                const double t = g->node[b];
                tinyi_pk_legendre(l_max, t, tinyi_sqrt(1.0 - t * t), g->p);
                tinyi_pc_term(pc, g->weight[b] * g->p[TINYI_PK_AT(l, m < 0 ? -m : m)],
                              c + b * (2 * l_max + 1) + l_max + m, -1);
            }
        }
}

/* fields of n components each (1: a number, 3: a vector) at reg x + c (lx + 1)^2; result likewise at out */
static void tinyi_pk_on_grid(tinyi_pc *pc, tinyi_pk_grid *g, int n, int x, int lx, int y, int ly, int out, int lo)
{
    const int dx = (lx + 1) * (lx + 1), dy = (ly + 1) * (ly + 1), d_out = (lo + 1) * (lo + 1), row = 2 * lo + 1;
    const int c = tinyi_pc_regs(pc, n * g->nb * row);
    int b, i, a;
    for (b = 0; b < g->nb; b++) {
        const double t = g->node[b];
        const int fx = tinyi_pc_regs(pc, n * g->na), fy = tinyi_pc_regs(pc, n * g->na),
                  f = tinyi_pc_regs(pc, n * g->na);
        tinyi_pk_legendre(g->l, t, tinyi_sqrt(1.0 - t * t), g->p);
        for (i = 0; i < n; i++) {
            tinyi_pk_synthesis(pc, g, x + i * dx, lx, fx + i * g->na);
            tinyi_pk_synthesis(pc, g, y + i * dy, ly, fy + i * g->na);
        }
        for (i = 0; i < n; i++)
            for (a = 0; a < g->na; a++) {
                tinyi_pc_row(pc, f + i * g->na + a, TINYI_PC_PAIRS);
                if (n == 1) tinyi_pc_term(pc, 1.0, fx + a, fy + a);
                else {                      /* the cross product */
                    const int j = (i + 1) % 3 * g->na + a, k = (i + 2) % 3 * g->na + a;
                    tinyi_pc_term(pc, 1.0, fx + j, fy + k);
                    tinyi_pc_term(pc, -1.0, fx + k, fy + j);
                }
            }
        for (i = 0; i < n; i++) tinyi_pk_azimuths(pc, g, f + i * g->na, lo, c + (i * g->nb + b) * row);
    }
    for (i = 0; i < n; i++) tinyi_pk_polar(pc, g, c + i * g->nb * row, lo, out + i * d_out);
}

static tiny_status tinyi_pk_grid_make(tiny_ctx *ctx, const tgnn_product_desc *d, int total, tinyi_pk_grid *g)
{
    const int nb = (total + 2) / 2, na = total + 1;
    g->nb = d->n_polar ? d->n_polar : nb;
    g->na = d->n_azimuth ? d->n_azimuth : na;
    if (g->nb < nb || g->na < na)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "product: a grid of %d polar angles and %d azimuths is not exact for these degrees, it needs "
                          "%d and %d", g->nb, g->na, nb, na);
    if (g->nb > 3 * TINYI_PK_DEGREES || g->na > 6 * TINYI_PK_DEGREES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: a grid of %d polar angles and %d azimuths, at most %d and %d",
                          g->nb, g->na, 3 * TINYI_PK_DEGREES, 6 * TINYI_PK_DEGREES);
    tinyi_pk_gauss(g->nb, g->node, g->weight);
    return TINY_OK;
}

static tiny_status tinyi_pk_gaunt_grid(tiny_ctx *ctx, const tgnn_product *p, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int y = (d->l1 + 1) * (d->l1 + 1), n_out = (d->l3 + 1) * (d->l3 + 1);
    tinyi_pk_grid g;
    const tiny_status st = tinyi_pk_grid_make(ctx, d, d->l1 + d->l2 + d->l3, &g);
    int out;
    if (st) return st;
    g.l = TINYI_MAX(d->l1, d->l2);
    out = tinyi_pc_regs(pc, n_out);
    tinyi_pk_on_grid(pc, &g, 1, 0, d->l1, y, d->l2, out, d->l3);
    tinyi_pc_set_out(pc, out, n_out);
    return pc->st;
}

/* degree l at reg + l l as fields of degree l + 1: component a at to + a (l_max + 2)^2 */
static void tinyi_pk_lift(tinyi_pc *pc, const tgnn_so3 *so3, int reg, int l_max, int to)
{
    const int side = (l_max + 2) * (l_max + 2);
    int l, a, m;
    size_t n, e;
    for (a = 0; a < 3; a++) {
        tinyi_pc_row(pc, to + a * side, 0); /* no degree comes to 0 */
        for (l = 0; l <= l_max; l++) {
            const tgnn_coupling *c = tgnn_so3_couplings(so3, l, 1, l + 1, &n);
            for (m = 0; m < 2 * l + 3; m++) {
                tinyi_pc_row(pc, to + a * side + (l + 1) * (l + 1) + m, 0);
                for (e = 0; e < n; e++)
                    if (c[e].j == a && c[e].k == m) tinyi_pc_term(pc, c[e].value, reg + l * l + c[e].i, -1);
            }
        }
    }
}

static tiny_status tinyi_pk_vector(tiny_ctx *ctx, const tgnn_product *p, const tgnn_so3 *so3, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int y = (d->l1 + 1) * (d->l1 + 1), n_out = (d->l3 + 1) * (d->l3 + 1), side = (d->l3 + 2) * (d->l3 + 2);
    tinyi_pk_grid g;
    const tiny_status st = tinyi_pk_grid_make(ctx, d, d->l1 + d->l2 + d->l3 + 3, &g);
    int fx, fy, f, out, l, k, a, up;
    size_t n, e;
    if (st) return st;
    g.l = TINYI_MAX(d->l1, d->l2) + 1;
    fx = tinyi_pc_regs(pc, 3 * (d->l1 + 2) * (d->l1 + 2));
    fy = tinyi_pc_regs(pc, 3 * (d->l2 + 2) * (d->l2 + 2));
    f = tinyi_pc_regs(pc, 3 * side);
    out = tinyi_pc_regs(pc, n_out);
    tinyi_pk_lift(pc, so3, 0, d->l1, fx);
    tinyi_pk_lift(pc, so3, y, d->l2, fy);
    tinyi_pk_on_grid(pc, &g, 3, fx, d->l1 + 1, fy, d->l2 + 1, f, d->l3 + 1);
    for (l = 0; l <= d->l3; l++)
        for (k = 0; k < 2 * l + 1; k++) {
            tinyi_pc_row(pc, out + l * l + k, 0);
            for (up = -1; up <= 1; up += 2) {
                const int j = l + up;
                const tgnn_coupling *c = tgnn_so3_couplings(so3, l, 1, j, &n);
                for (a = 0; a < 3; a++)
                    for (e = 0; e < n; e++)
                        if (c[e].i == k && c[e].j == a)
                            tinyi_pc_term(pc, c[e].value, f + a * side + j * j + c[e].k, -1);
            }
        }
    tinyi_pc_set_out(pc, out, n_out);
    return pc->st;
}

/* ---- Fourier series on the torus */

/* q[u + l] of P_l|m|(cos t): real for even m, of exp(i u t); for odd m the imaginary part, and q[-u] = -q[u] */
static void tinyi_pk_series(int l, int m, double *q)
{
    const int n = 2 * l + 2;
    double p[TINYI_PK_PAIRS], c, s;
    int u, t;
    for (u = -l; u <= l; u++) q[u + l] = 0.0;
    for (t = 0; t < n; t++) {
        tinyi_cis64((uint64_t)t, (uint64_t)n, &c, &s);
        tinyi_pk_legendre(l, c, s, p);
        for (u = -l; u <= l; u++) {
            tinyi_cis64((uint64_t)((u + n) * t % n), (uint64_t)n, &c, &s);
            q[u + l] += p[TINYI_PK_AT(l, m)] * (m & 1 ? -s : c) / n;
        }
    }
    for (u = -l; u <= l; u++)
        if (q[u + l] < 1e-14 && q[u + l] > -1e-14) q[u + l] = 0.0;
}

/* (re, im) of F[u][v], v = 0 .. l_max, |u| <= l_max, of the numbers at reg: at to + 2 (v (2 l_max + 1) + u + l_max) */
static void tinyi_pk_torus(tinyi_pc *pc, int reg, int l_max, int to)
{
    double q[(TGNN_L_MAX + 1) * (TGNN_L_MAX + 2) / 2][2 * TGNN_L_MAX + 1];
    int l, u, v, part;
    for (l = 0; l <= l_max; l++)
        for (v = 0; v <= l; v++) tinyi_pk_series(l, v, q[TINYI_PK_AT(l, v)]);
    for (v = 0; v <= l_max; v++)
        for (u = -l_max; u <= l_max; u++)
            for (part = 0; part < 2; part++) {
                const int at = to + 2 * (v * (2 * l_max + 1) + u + l_max) + part;
                tinyi_pc_row(pc, at, 0);
                for (l = v; l <= l_max; l++) {
                    /* sqrt2 cos v a has exp(i v a) / sqrt2, sqrt2 sin v a has -i exp(i v a) / sqrt2 */
                    const double w =
                        u < -l || u > l ? 0.0 : q[TINYI_PK_AT(l, v)][u + l] * (v ? 1 / TINYI_PK_ROOT2 : 1.0);
                    if (w == 0.0) continue;
                    if ((v & 1) == part) tinyi_pc_term(pc, w, reg + l * l + l + v, -1);
                    else if (v) tinyi_pc_term(pc, part ? -w : w, reg + l * l + l - v, -1);
                }
            }
}

/* int_0^pi P_l|m|(cos t) exp(i u t) sin t dt, q the series of P */
static void tinyi_pk_back(int l, int m, int u, const double *q, double *re, double *im)
{
    double a = 0.0, b = 0.0;
    int k;
    for (k = -l; k <= l; k++) {
        const int n = u + k;
        const double j_re = n & 1 ? 0.0 : 2.0 / (1.0 - (double)n * n),
                     j_im = n == 1 ? 0.5 * TINYI_PK_PI : n == -1 ? -0.5 * TINYI_PK_PI : 0.0;
        if (m & 1) {                        /* i q (j_re + i j_im) */
            a -= q[k + l] * j_im;
            b += q[k + l] * j_re;
        } else {
            a += q[k + l] * j_re;
            b += q[k + l] * j_im;
        }
    }
    *re = a;
    *im = b;
}

static void tinyi_pk_fourier(const tgnn_product *p, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int n1 = 2 * d->l1 + 1, n2 = 2 * d->l2 + 1, l12 = d->l1 + d->l2, n12 = 2 * l12 + 1,
              n_out = (d->l3 + 1) * (d->l3 + 1);
    const int most = TINYI_MIN(l12, d->l3);
    const int fx = tinyi_pc_regs(pc, 2 * n1 * (d->l1 + 1)), fy = tinyi_pc_regs(pc, 2 * n2 * (d->l2 + 1)),
              f = tinyi_pc_regs(pc, 2 * n12 * (most + 1)), out = tinyi_pc_regs(pc, n_out);
    int u, v, u1, v1, l, m, part;
    tinyi_pk_torus(pc, 0, d->l1, fx);
    tinyi_pk_torus(pc, (d->l1 + 1) * (d->l1 + 1), d->l2, fy);
    for (v = 0; v <= most; v++)
        for (u = -l12; u <= l12; u++)
            for (part = 0; part < 2; part++) {
                tinyi_pc_row(pc, f + 2 * (v * n12 + u + l12) + part, TINYI_PC_PAIRS);
                for (v1 = TINYI_MAX(-d->l1, v - d->l2); v1 <= TINYI_MIN(d->l1, v + d->l2); v1++)
                    for (u1 = TINYI_MAX(-d->l1, u - d->l2); u1 <= TINYI_MIN(d->l1, u + d->l2); u1++) {
                        /* F[-u][-v] is the conjugate of F[u][v] */
                        const int v2 = v - v1, u2 = u - u1;
                        const int a = fx + 2 * (v1 < 0 ? -v1 * n1 - u1 + d->l1 : v1 * n1 + u1 + d->l1),
                                  b = fy + 2 * (v2 < 0 ? -v2 * n2 - u2 + d->l2 : v2 * n2 + u2 + d->l2);
                        const double sa = v1 < 0 ? -1.0 : 1.0, sb = v2 < 0 ? -1.0 : 1.0;
                        if (part == 0) {
                            tinyi_pc_term(pc, 1.0, a, b);
                            tinyi_pc_term(pc, -sa * sb, a + 1, b + 1);
                        } else {
                            tinyi_pc_term(pc, sb, a, b + 1);
                            tinyi_pc_term(pc, sa, a + 1, b);
                        }
                    }
            }
    for (l = 0; l <= d->l3; l++)
        for (m = -l; m <= l; m++) {
            double q[2 * TGNN_L_MAX + 1];
            tinyi_pc_row(pc, out + l * l + l + m, 0);
            v = m < 0 ? -m : m;
            tinyi_pk_series(l, v, q);
            for (u = -l12; v <= most && u <= l12; u++) {
                double re, im;
                const int at = f + 2 * (v * n12 + u + l12);
                tinyi_pk_back(l, v, u, q, &re, &im);
                if (m < 0) {                /* i z */
                    const double t = re;
                    re = -im;
                    im = t;
                }
                re *= v ? 2.0 * TINYI_PK_ROOT2 * TINYI_PK_PI : 2.0 * TINYI_PK_PI;
                im *= v ? 2.0 * TINYI_PK_ROOT2 * TINYI_PK_PI : 2.0 * TINYI_PK_PI;
                if (re != 0.0) tinyi_pc_term(pc, re, at, -1);
                if (im != 0.0) tinyi_pc_term(pc, -im, at + 1, -1);
            }
        }
    tinyi_pc_set_out(pc, out, n_out);
}

/* ---- matrices */

static void tinyi_pk_matrix_of(tinyi_pc *pc, const tgnn_so3 *so3, int half, int reg, int l_max, int to)
{
    const int side = 2 * half + 1;
    int i, j, l;
    size_t n, e;
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) {
            tinyi_pc_row(pc, to + i * side + j, 0);
            for (l = 0; l <= l_max; l++) {
                const tgnn_coupling *c = tgnn_so3_couplings(so3, half, half, l, &n);
                for (e = 0; e < n; e++)
                    if (c[e].i == i && c[e].j == j) tinyi_pc_term(pc, c[e].value, reg + l * l + c[e].k, -1);
            }
        }
}

static int tinyi_pk_half(const tgnn_product_desc *d) { return (d->l1 + d->l2 + 1) / 2; }

static void tinyi_pk_matrix(const tgnn_product *p, const tgnn_so3 *so3, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int half = tinyi_pk_half(d), side = 2 * half + 1, n_out = (d->l3 + 1) * (d->l3 + 1);
    const int x = tinyi_pc_regs(pc, side * side), y = tinyi_pc_regs(pc, side * side),
              z = tinyi_pc_regs(pc, side * side), out = tinyi_pc_regs(pc, n_out);
    int i, j, k, l;
    size_t n, e;
    tinyi_pk_matrix_of(pc, so3, half, 0, d->l1, x);
    tinyi_pk_matrix_of(pc, so3, half, (d->l1 + 1) * (d->l1 + 1), d->l2, y);
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) {
            tinyi_pc_row(pc, z + i * side + j, TINYI_PC_PAIRS);
            for (k = 0; k < side; k++) tinyi_pc_term(pc, 1.0, x + i * side + k, y + k * side + j);
        }
    for (l = 0; l <= d->l3; l++) {
        const tgnn_coupling *c = tgnn_so3_couplings(so3, half, half, l, &n);
        for (k = 0; k < 2 * l + 1; k++) {
            tinyi_pc_row(pc, out + l * l + k, 0);
            for (e = 0; e < n; e++)
                if (c[e].k == k) tinyi_pc_term(pc, c[e].value, z + c[e].i * side + c[e].j, -1);
        }
    }
    tinyi_pc_set_out(pc, out, n_out);
}
TINY_REF_END

tiny_status tinyi_product_build(tiny_ctx *ctx, tgnn_product *p, int kind, const tinyi_pf *fold, tinyi_pc *pc)
{
    const tgnn_product_desc *d = &p->desc;
    const int most = TINYI_MAX(TINYI_MAX(d->l1, d->l2), d->l3);
    tgnn_so3 *so3 = NULL;
    int table = -1;
    tiny_status st = TINY_OK;
    tinyi_pc_begin(pc, ctx, (int)p->dim[TGNN_PRODUCT_X], (int)p->dim[TGNN_PRODUCT_Y], (int)p->dim[TGNN_PRODUCT_W], 0);
    if (kind == TGNN_PRODUCT_CG_DENSE || kind == TGNN_PRODUCT_CG_SPARSE || kind == TGNN_PRODUCT_GAUNT_LIST)
        table = most;
    if (kind == TGNN_PRODUCT_VECTOR) table = most + 1;
    if (kind == TGNN_PRODUCT_MATRIX) table = TINYI_MAX(most, tinyi_pk_half(d));
    if (table > TGNN_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: %s takes degrees up to %d", tgnn_product_kind_name(kind),
                          TGNN_L_MAX - 1);
    if (table >= 0) st = tgnn_so3_open(ctx, table, &so3);
    if (st) return st;
    switch (kind) {
    case TGNN_PRODUCT_GAUNT_GRID: st = tinyi_pk_gaunt_grid(ctx, p, pc); break;
    case TGNN_PRODUCT_GAUNT_FOURIER: tinyi_pk_fourier(p, pc); break;
    case TGNN_PRODUCT_VECTOR: st = tinyi_pk_vector(ctx, p, so3, pc); break;
    case TGNN_PRODUCT_MATRIX: tinyi_pk_matrix(p, so3, pc); break;
    case TGNN_PRODUCT_FOLD:
    case TGNN_PRODUCT_CP: tinyi_pf_program(p, fold, pc); break;
    default: tinyi_pk_lists(p, so3, kind, pc); break;
    }
    tgnn_so3_close(ctx, so3);
    return st ? st : pc->st;
}
