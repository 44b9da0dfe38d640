/* src/gnn/equivariant/mace_couple.c - invariant and covariant polynomials of the features of an atom
 * Paper    I. Batatia, D. Kovacs, G. Simm, C. Ortner, G. Csanyi, 2022 (arXiv 2206.07697), eq. 10 and 11: the
 *          generalised Clebsch-Gordan coefficients and the contraction.
 * Formula  B_LM = sum over nu, eta of w_eta sum over i1 .. i_nu of U^eta_(M, i1 .. i_nu) x_i1 .. x_i_nu.
 *          U of nu factors: that of nu - 1 factors with values of degree l, coupled with the next x of degree l2:
 *            U'_M = sqrt(2 L + 1) sum_ab C^(L l l2)_(M a b) U_a x_b,
 *          over all l, l2 that couple, in rising order of the values of nu - 1 factors: degree, odd parity before even.
 *          That is the order of mace-torch. Its e3nn 0.4.4 gives couplings whose degrees have an odd sum other signs,
 *          so some of its polynomials are minus ours (with harmonics of degree 3 and three factors): U stands in the
 *          files that ports/mace/export.py writes.
 * Method   A product of components does not depend on their order, so the terms of a product are added. Then the
 *          weights of an element turn all polynomials of a layer into one, evaluated as
 *            out += c x_i,  out += x_i x_j (c + sum_k c_k x_k):
 *          one multiply-add for each product of three, and two more for its gradient. mace-torch multiplies the whole
 *          tensors U instead, zeros and orders included.
 * Left out more than three factors; reduced bases are read from files, not made. */
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "gnn/equivariant/so3.h"
#include "core/state_inside.h"
#include "math/elem.h"

TINYI_FN void tinyi_mace_basis_free(tiny_ctx *ctx, tinyi_mace_basis *b)
{
    tiny_free(ctx, b->term);
    tiny_free(ctx, b->value);
    memset(b, 0, sizeof *b);
}

/* the values of two factors */
typedef struct tinyi_mace_left { int l, parity, l1, l2; } tinyi_mace_left;

static int tinyi_mace_couples(int a, int b, int c) { return c >= (a > b ? a - b : b - a) && c <= a + b; }

static int tinyi_mace_lefts(int l_max, tinyi_mace_left *to)
{
    int n = 0, l, parity, l1, l2;
    for (l = 0; l <= 2 * l_max; l++)
        for (parity = -1; parity <= 1; parity += 2)
            for (l1 = 0; l1 <= l_max; l1++)
                for (l2 = 0; l2 <= l_max; l2++) {
                    if (!tinyi_mace_couples(l1, l2, l) || ((l1 + l2) & 1 ? -1 : 1) != parity) continue;
                    to[n].l = l;
                    to[n].parity = parity;
                    to[n].l1 = l1;
                    to[n++].l2 = l2;
                }
    return n;
}

TINY_REF_BEGIN
/* sums of products by component of the value and sorted factors */
typedef struct tinyi_mace_sums { int d, n_m; double *sum; } tinyi_mace_sums;       /* (n_m, d, d, d) */

static void tinyi_mace_sum(tinyi_mace_sums *s, int m, int i, int j, int k, double v)
{
    int t;
    if (i > j) { t = i; i = j; j = t; }
    if (j > k) { t = j; j = k; k = t; }
    if (i > j) { t = i; i = j; j = t; }
    s->sum[((m * s->d + i) * s->d + j) * s->d + k] += v;
}

/* the values of one polynomial into s; factors that are not there are component 0, the caller knows */
static void tinyi_mace_values(const tgnn_so3 *so3, int l, int nu, const tinyi_mace_left *left, int l3,
                              tinyi_mace_sums *s)
{
    const double root = tinyi_sqrt(2.0 * l + 1.0), inner = tinyi_sqrt(2.0 * left->l + 1.0);
    size_t n, n2, e, f;
    const tgnn_coupling *c, *c2;
    if (nu == 1) {
        for (e = 0; e < (size_t)(2 * l + 1); e++) tinyi_mace_sum(s, (int)e, 0, 0, l * l + (int)e, 1.0);
        return;
    }
    if (nu == 2) {
        c = tgnn_so3_couplings(so3, l, left->l1, left->l2, &n);
        for (e = 0; e < n; e++)
            tinyi_mace_sum(s, c[e].i, 0, left->l1 * left->l1 + c[e].j, left->l2 * left->l2 + c[e].k,
                           root * c[e].value);
        return;
    }
    c = tgnn_so3_couplings(so3, l, left->l, l3, &n);
    c2 = tgnn_so3_couplings(so3, left->l, left->l1, left->l2, &n2);
    for (e = 0; e < n; e++)
        for (f = 0; f < n2; f++)
            if (c2[f].i == c[e].j)
                tinyi_mace_sum(s, c[e].i, left->l1 * left->l1 + c2[f].j, left->l2 * left->l2 + c2[f].k,
                               l3 * l3 + c[e].k, root * c[e].value * (inner * c2[f].value));
}
TINY_REF_END

/* The terms of s that are not 0, or only their number. Two factors that are sorted with a first component 0 stay in
 * place: 0 is the lowest one. */
static int tinyi_mace_emit(const tinyi_mace_sums *s, int nu, int which, tinyi_mace_basis *b, int n)
{
    const int d = s->d, cube = d * d * d;
    int m, at;
    for (m = 0; m < s->n_m; m++)
        for (at = 0; at < cube; at++) {
            const double v = s->sum[m * cube + at];
            const int f[3] = { at / (d * d), at / d % d, at % d };
            if (v < 1e-13 && v > -1e-13) continue;
            if (b->term) {
                b->term[n][0] = m;
                b->term[n][1] = f[3 - nu];
                b->term[n][2] = nu > 1 ? f[4 - nu] : -1;
                b->term[n][3] = nu > 2 ? f[2] : -1;
                b->term[n][4] = which;
                b->value[n] = v;
            }
            n++;
        }
    return n;
}

TINYI_FN tiny_status tinyi_mace_basis_make(tiny_ctx *ctx, int l_max, int l, int nu, tinyi_mace_basis *out)
{
    tinyi_mace_left lefts[(2 * TGNN_MACE_L + 1) * TINYI_MACE_SIDE * TINYI_MACE_SIDE];
    tinyi_mace_sums s;
    tgnn_so3 *so3 = NULL;
    const int n_left = tinyi_mace_lefts(l_max, lefts);
    int pass, i, l3, n = 0, n_k = 0;
    size_t cube;
    tiny_status st;
    memset(out, 0, sizeof *out);
    s.d = (l_max + 1) * (l_max + 1);
    s.n_m = 2 * l + 1;
    cube = (size_t)s.n_m * (size_t)(s.d * s.d * s.d);
    s.sum = (double *)tinyi_alloc(ctx, cube, sizeof *s.sum);
    if (!s.sum) return tiny_ctx_status(ctx);
    st = tgnn_so3_open(ctx, 2 * l_max, &so3);
    for (pass = 0; !st && pass < 2; pass++) {
        if (pass) {
            out->term = (int32_t(*)[5])tinyi_alloc(ctx, (size_t)n + 1, sizeof *out->term);
            out->value = (double *)tinyi_alloc(ctx, (size_t)n + 1, sizeof *out->value);
            if (!out->term || !out->value) {
                st = tiny_ctx_status(ctx);
                break;
            }
        }
        n = n_k = 0;
        for (i = 0; i < (nu == 1 ? 1 : n_left); i++)
            for (l3 = 0; l3 <= (nu == 3 ? l_max : 0); l3++) {
                const int whole = lefts[i].parity * (nu == 3 && (l3 & 1) ? -1 : 1);
                if (nu == 2 && lefts[i].l != l) continue;
                if (nu == 3 && !tinyi_mace_couples(lefts[i].l, l3, l)) continue;
                if (nu > 1 && whole != (l & 1 ? -1 : 1)) continue;
                memset(s.sum, 0, cube * sizeof *s.sum);
                tinyi_mace_values(so3, l, nu, &lefts[i], l3, &s);
                n = tinyi_mace_emit(&s, nu, n_k++, out, n);
            }
    }
    out->n = n;
    out->n_k = n_k;
    tgnn_so3_close(ctx, so3);
    tiny_free(ctx, s.sum);
    if (st) tinyi_mace_basis_free(ctx, out);
    return st;
}

/* ---- one polynomial for a layer */

TINYI_FN tiny_status tinyi_mace_poly_make(tiny_ctx *ctx, const tgnn_mace *m, int t, tinyi_mace_poly *p)
{
    const int d = (m->desc.l_max + 1) * (m->desc.l_max + 1), h = tinyi_mace_degree(&m->desc, t + 1);
    const int n_out = (h + 1) * (h + 1), each = d + d * d + d * d * d;
    int32_t *map;
    int l, nu, o, i, j, k, n, pass;
    memset(p, 0, sizeof *p);
    p->n_in = d;
    p->n_out = n_out;
    /* of each output: which of x_i, x_i x_j, x_i x_j x_k are there; then where their coefficients stand */
    map = (int32_t *)tinyi_alloc(ctx, (size_t)n_out * (size_t)each, sizeof *map);
    if (!map) return tiny_ctx_status(ctx);
    for (i = 0; i < n_out * each; i++) map[i] = -1;
    for (l = 0; l <= h; l++)
        for (nu = 0; nu < m->desc.correlation[t]; nu++)
            for (n = 0; n < m->basis[l][nu].n; n++) {
                const int32_t *e = m->basis[l][nu].term[n];
                int32_t *to = map + (l * l + e[0]) * each;
                if (nu == 0) to[e[1]] = 0;
                else {
                    to[d + e[1] * d + e[2]] = 0;            /* the row of a product of three, too */
                    if (nu == 2) to[d + d * d + (e[1] * d + e[2]) * d + e[3]] = 0;
                }
            }
    for (pass = 0; pass < 2; pass++) {
        int n_lines = 0, n_rows = 0, n_k = 0, at = 0;
        for (o = 0; o < n_out; o++)
            for (i = 0; i < d; i++) {
                if (map[o * each + i] < 0) continue;
                if (pass) {
                    p->line[n_lines].out = (int16_t)o;
                    p->line[n_lines].i = (int16_t)i;
                    map[o * each + i] = at;
                }
                n_lines++;
                at++;
            }
        for (o = 0; o < n_out; o++)
            for (i = 0; i < d; i++)
                for (j = i; j < d; j++) {
                    int32_t *to = map + o * each + d + i * d + j, *three = map + o * each + d + d * d + (i * d + j) * d;
                    if (*to < 0) continue;
                    if (pass) {
                        tinyi_mace_row *r = &p->row[n_rows];
                        r->out = (int16_t)o;
                        r->i = (int16_t)i;
                        r->j = (int16_t)j;
                        r->unused = 0;
                        r->first = n_k;
                        *to = at;
                    }
                    at++;
                    for (k = j; k < d; k++) {
                        if (three[k] < 0) continue;
                        if (pass) {
                            p->k[n_k] = (uint8_t)k;
                            three[k] = at;
                        }
                        n_k++;
                        at++;
                    }
                    if (pass) p->row[n_rows].end = n_k;
                    n_rows++;
                }
        p->n_lines = n_lines;
        p->n_rows = n_rows;
        p->n_coefs = at;
        if (pass) break;
        p->line = (tinyi_mace_line *)tinyi_alloc(ctx, (size_t)n_lines + 1, sizeof *p->line);
        p->row = (tinyi_mace_row *)tinyi_alloc(ctx, (size_t)n_rows + 1, sizeof *p->row);
        p->k = (uint8_t *)tinyi_alloc(ctx, (size_t)n_k + 1, 1);
        if (!p->line || !p->row || !p->k) {
            tiny_free(ctx, map);
            return tiny_ctx_status(ctx);
        }
    }
    for (l = 0; l <= h; l++)
        for (nu = 0; nu < m->desc.correlation[t]; nu++) {
            const tinyi_mace_basis *b = &m->basis[l][nu];
            p->at[l][nu] = (int32_t *)tinyi_alloc(ctx, (size_t)b->n + 1, sizeof(int32_t));
            if (!p->at[l][nu]) {
                tiny_free(ctx, map);
                return tiny_ctx_status(ctx);
            }
            for (n = 0; n < b->n; n++) {
                const int32_t *e = b->term[n], *from = map + (l * l + e[0]) * each;
                p->at[l][nu][n] = nu == 0   ? from[e[1]]
                                  : nu == 1 ? from[d + e[1] * d + e[2]]
                                            : from[d + d * d + (e[1] * d + e[2]) * d + e[3]];
            }
        }
    tiny_free(ctx, map);
    return TINY_OK;
}

TINY_REF_BEGIN
TINYI_FN void tinyi_mace_poly_fill(const tgnn_mace *m, int t, int element, double *to)
{
    const int c = m->desc.channels, h = tinyi_mace_degree(&m->desc, t + 1);
    int l, nu, n, u;
    memset(to, 0, (size_t)m->poly[t].n_coefs * (size_t)c * sizeof *to);
    for (l = 0; l <= h; l++)
        for (nu = 0; nu < m->desc.correlation[t]; nu++) {
            const tinyi_mace_basis *b = &m->basis[l][nu];
            const double *w = m->param[m->weight[t][l][nu]].value + (size_t)element * (size_t)(b->n_k * c);
            for (n = 0; n < b->n; n++) {
                double *y = to + (size_t)m->poly[t].at[l][nu][n] * (size_t)c;
                const double *x = w + (size_t)b->term[n][4] * (size_t)c;
                for (u = 0; u < c; u++) y[u] += b->value[n] * x[u];
            }
        }
}
TINY_REF_END
