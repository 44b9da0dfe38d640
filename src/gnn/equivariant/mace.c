/* src/gnn/equivariant/mace.c - MACE: description, parameters and couplings of a potential
 * Paper    I. Batatia, D. Kovacs, G. Simm, C. Ortner, G. Csanyi, "MACE: Higher Order Equivariant Message Passing Neural
 *          Networks for Fast and Accurate Force Fields", 2022 (arXiv 2206.07697), section 4. Basis and cutoff: J.
 *          Gasteiger, J. Gross, S. Guennemann, "Directional Message Passing for Molecular Graphs", 2020 (arXiv
 *          2003.03123), eq. 7 and 8.
 * Formula  h^0_i = row of the element of i. For each layer, with r the vector from atom j to atom i, c a channel:
 *            R_(c, l1 l2 l3)(r) = MLP(b(|r|)),  b_n = sqrt(2 / r_max) sin(n pi r / r_max) / r  f(r / r_max),
 *            f(u) = 1 - (p + 1)(p + 2) / 2 u^p + p (p + 2) u^(p + 1) - p (p + 1) / 2 u^(p + 2),
 *            A_(i, l3 m3, c) = sum_j R sum_(m1 m2) C^(l1 l2 l3)_(m1 m2 m3) (W_up h_j)_(l1 m1, c) Y_(l2 m2)(r),
 *            M_i = W_mix A_i / average,  or W_mix A_i / (1 + sum_j tanh((w b)^2)): density,
 *            PLAIN: M_i is multiplied by the matrix of the element; RESIDUAL: h_i is, and added to the new h_i,
 *            h_i <- W_out B(M_i) (+ residual),  B of gnn/equivariant/mace_couple.c.
 *          E_i = E_element + shift + scale (sum over layers of a linear readout of h_i; of a small network after the
 *          last layer of two or more; with zbl half of the repulsion of each pair). With agnesi, b gets
 *          1 / (1 + a u^q / (1 + u^(q - p))) in place of r: C. van der Oord et al., 2023 (ACEpotentials).
 *          C are the real 3j times sqrt(2 l3 + 1). All matrices hold e3nn's factors, 1 / sqrt(fan in) and the constants
 *          of normalised activations.
 * Cost     multiply-adds with gradient, K the last radial width, C channels, P couplings: an edge of a later layer 3 K
 *          P C and about 3 for each component and channel of a coupling; one of the first layer 4 K (l_max + 1)^2. An
 *          atom: 2 K C (l_max + 1)^2 for each element among its neighbours, 3 for each term of its polynomial and
 *          channel, and the C x C matrices of its rows, twice.
 * Files    mace_couple.c the polynomials, mace_file.c files, mace_plain.c the formula in plain loops, mace_plan.c
 *          packed weights, mace_run.c the fast form.
 * Left out interactions with non-linear messages or an attention of elements, several heads, soft
 *          transformed distances, features without natural parity, charges and dipoles,
 *          training. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "gnn/equivariant/so3.h"
#include "core/state_inside.h"
#include "core/rng.h"
#include "math/elem.h"

TINYI_TABLE_CHOICE(tinyi_mace_pair, tinyi_mace_pair)

TINYI_FN int tinyi_mace_degree(const tgnn_mace_desc *d, int t)
{
    return t == 0 ? 0 : t < d->layers ? d->hidden : d->last;
}
TINYI_FN int tinyi_mace_nonlinear(const tgnn_mace_desc *d, int t) { return d->layers > 1 && t == d->layers - 1; }

/* ---- description */

static int tinyi_mace_finite(double x) { return x - x == 0.0; }

TINYI_FN tiny_status tinyi_mace_check(tiny_ctx *ctx, const char *what, tgnn_mace_desc *d)
{
    struct { const char *name; int *at, normal, least, most; } n[] = {
        { "channels", &d->channels, 16, 1, TGNN_MACE_CHANNELS },
        { "layers", &d->layers, 2, 1, TGNN_MACE_LAYERS },
        { "degrees of harmonics", &d->l_max, 0, 0, TGNN_MACE_L },
        { "degrees of features", &d->hidden, 0, 0, TGNN_MACE_L },
        { "degrees of the last features", &d->last, 0, 0, TGNN_MACE_L },
        { "Bessel functions", &d->n_bessel, 8, 1, 64 },
        { "powers of the cutoff", &d->power, 5, 1, 64 },
        { "powers of the repulsion's cutoff", &d->zbl, 0, 0, 64 },
        { "hidden radial layers", &d->n_radial, 3, 1, TGNN_MACE_RADIAL },
        { "numbers of the last readout", &d->readout, 16, 1, 1024 },
        { "elements", &d->n_elements, 0, 1, TGNN_MACE_ELEMENTS }
    };
    size_t i;
    int k, j, radial = d->n_radial;
    for (i = 0; i < TINYI_COUNT(n); i++) {
        if (!*n[i].at) *n[i].at = n[i].normal;
        if (*n[i].at < n[i].least || *n[i].at > n[i].most)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %d %s, there can be %d to %d", what, *n[i].at, n[i].name,
                              n[i].least, n[i].most);
    }
    if (d->hidden > d->l_max || d->last > d->l_max)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: features of degree %d with harmonics of degree %d: messages have "
                          "none of that degree", what, d->hidden > d->last ? d->hidden : d->last, d->l_max);
    if (d->layers == 1) d->hidden = d->last;
    for (k = 0; k < d->n_elements; k++) {
        if (d->elements[k] < 1 || d->elements[k] > TGNN_MACE_ELEMENTS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %d is no atomic number from 1 to %d", what, d->elements[k],
                              TGNN_MACE_ELEMENTS);
        for (j = 0; j < k; j++)
            if (d->elements[j] == d->elements[k])
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the element %d stands there twice", what, d->elements[k]);
    }
    for (k = 0; k < d->n_radial; k++) {
        if (!radial) d->radial[k] = 64;
        if (d->radial[k] < 1 || d->radial[k] > 1024)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a radial layer of %d numbers, there can be 1 to 1024", what,
                              d->radial[k]);
    }
    for (k = 0; k < d->layers; k++) {
        if (!d->correlation[k]) d->correlation[k] = 3;
        if (!d->kinds) d->kind[k] = k ? TGNN_MACE_RESIDUAL : TGNN_MACE_PLAIN;
        if (d->correlation[k] < 1 || d->correlation[k] > 3)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a correlation of %d in layer %d, it can be 1 to 3", what,
                              d->correlation[k], k + 1);
        if (d->kind[k] < 0 || d->kind[k] > TGNN_MACE_RESIDUAL)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %d is no kind of interaction", what, d->kind[k]);
        d->density[k] = d->density[k] != 0;
    }
    d->kinds = 1;
    if (d->r_max == 0.0) d->r_max = 5.0;
    if (d->average == 0.0) d->average = 10.0;
    if (d->scale == 0.0) d->scale = 1.0;
    if (!(d->r_max > 0.0 && d->r_max <= 100.0) || !(d->average > 0.0 && d->average < 1e6) ||
        !tinyi_mace_finite(d->scale) || !tinyi_mace_finite(d->shift))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: r_max %g, average %g, scale %g, shift %g: r_max must be above 0 and at most 100, "
                          "average above 0, all finite", what, d->r_max, d->average, d->scale, d->shift);
    return TINY_OK;
}

/* ---- couplings of a layer */

static tiny_status tinyi_mace_paths_make(tiny_ctx *ctx, const tgnn_so3 *so3, int l1_max, int l_max,
                                         tinyi_mace_paths *p)
{
    int pass, l1, l2, l3;
    for (pass = 0; pass < 2; pass++) {
        p->n = p->n_terms = p->n_rows = p->n_coefs = 0;
        for (l3 = 0; l3 <= l_max; l3++)
            for (l1 = 0; l1 <= l1_max; l1++)
                for (l2 = 0; l2 <= l_max; l2++) {
                    const tgnn_coupling *c;
                    const int n3 = 2 * l3 + 1;
                    size_t n, i;
                    if ((l1 + l2 + l3) & 1 || l3 < (l1 > l2 ? l1 - l2 : l2 - l1) || l3 > l1 + l2) continue;
                    c = tgnn_so3_couplings(so3, l1, l2, l3, &n);
                    if (pass) {
                        tinyi_mace_path *to = &p->path[p->n];
                        to->l1 = l1;
                        to->l2 = l2;
                        to->l3 = l3;
                        to->row = p->n_rows;
                        to->at = p->n_coefs;
                        for (i = 0; i < n; i++) {
                            tinyi_mace_term *e = &p->term[p->n_terms + (int)i];
                            e->k = p->n_coefs + c[i].i * n3 + c[i].k;
                            e->m2 = l2 * l2 + c[i].j;
                            e->value = c[i].value * tinyi_sqrt((double)n3);
                        }
                    }
                    p->n++;
                    p->n_terms += (int)n;
                    p->n_rows += n3;
                    p->n_coefs += (2 * l1 + 1) * n3;
                }
        if (pass) break;
        p->path = (tinyi_mace_path *)tinyi_alloc(ctx, (size_t)p->n, sizeof *p->path);
        p->term = (tinyi_mace_term *)tinyi_alloc(ctx, (size_t)p->n_terms, sizeof *p->term);
        if (!p->path || !p->term) return tiny_ctx_status(ctx);
    }
    return TINY_OK;
}

/* ---- parameters */

/* the next one; without memory it is counted only. Returns its place. */
static int tinyi_mace_add(tgnn_mace *m, tiny_idx a, tiny_idx b, tiny_idx c, const char *format, ...)
    TINYI_PRINTF(5, 6);
static int tinyi_mace_add(tgnn_mace *m, tiny_idx a, tiny_idx b, tiny_idx c, const char *format, ...)
{
    const tiny_idx dim[3] = { a, b, c };
    double n = 1.0;
    int i, rank = c ? 3 : b ? 2 : 1;
    for (i = 0; i < rank; i++) n *= (double)dim[i];
    if (m->param) {
        tinyi_mace_param *p = &m->param[m->n_params];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(p->name, sizeof p->name, format, args);
        va_end(args);
        p->rank = rank;
        memcpy(p->dim, dim, sizeof dim);
        p->value = m->values ? m->values + (size_t)m->n_values : NULL;
    }
    m->n_values += n;
    return m->n_params++;
}

static void tinyi_mace_list(tgnn_mace *m)
{
    const tgnn_mace_desc *d = &m->desc;
    const tiny_idx z = d->n_elements, c = d->channels;
    int t, l, i, nu;
    m->n_params = 0;
    m->n_values = 0.0;
    m->energies = tinyi_mace_add(m, z, 0, 0, "energies");
    m->bessel = tinyi_mace_add(m, d->n_bessel, 0, 0, "bessel");
    m->embed = tinyi_mace_add(m, z, c, 0, "embed");
    if (d->zbl || d->agnesi) m->radii = tinyi_mace_add(m, z, 0, 0, "radii");
    if (d->zbl) m->zbl = tinyi_mace_add(m, 2, 0, 0, "zbl");
    if (d->agnesi) m->agnesi = tinyi_mace_add(m, 3, 0, 0, "agnesi");
    for (t = 0; t < d->layers; t++) {
        const int from = tinyi_mace_degree(d, t), to = tinyi_mace_degree(d, t + 1);
        const int most = d->kind[t] == TGNN_MACE_PLAIN ? d->l_max : from < to ? from : to;
        for (l = 0; l <= from; l++) m->up[t][l] = tinyi_mace_add(m, c, c, 0, "layer.%d.up.%d", t, l);
        for (i = 0; i <= d->n_radial; i++)
            m->radial[t][i] = tinyi_mace_add(m, i ? d->radial[i - 1] : d->n_bessel,
                                             i < d->n_radial ? d->radial[i] : m->paths[t].n * c, 0,
                                             "layer.%d.radial.%d", t, i);
        for (l = 0; l <= d->l_max; l++) {
            tiny_idx n = 0;
            for (i = 0; i < m->paths[t].n; i++) n += m->paths[t].path[i].l3 == l;
            m->mix[t][l] = tinyi_mace_add(m, n * c, c, 0, "layer.%d.mix.%d", t, l);
        }
        for (l = 0; l <= most; l++) m->skip[t][l] = tinyi_mace_add(m, z, c, c, "layer.%d.skip.%d", t, l);
        if (d->density[t]) m->density[t] = tinyi_mace_add(m, d->n_bessel, 0, 0, "layer.%d.density", t);
        for (l = 0; l <= to; l++) {
            for (nu = 0; nu < d->correlation[t]; nu++)
                m->weight[t][l][nu] = tinyi_mace_add(m, z, m->basis[l][nu].n_k, c, "layer.%d.product.%d.%d", t, l,
                                                     nu + 1);
            m->out[t][l] = tinyi_mace_add(m, c, c, 0, "layer.%d.out.%d", t, l);
        }
        if (tinyi_mace_nonlinear(d, t)) {
            m->readin = tinyi_mace_add(m, c, d->readout, 0, "layer.%d.readin", t);
            m->readout[t] = tinyi_mace_add(m, d->readout, 0, 0, "layer.%d.readout", t);
        } else m->readout[t] = tinyi_mace_add(m, c, 0, 0, "layer.%d.readout", t);
    }
}

TINYI_FN tiny_status tinyi_mace_make(tiny_ctx *ctx, const tgnn_mace_desc *desc,
                                     tinyi_mace_basis given[TINYI_MACE_SIDE][3], const char *path, double most_values,
                                     tgnn_mace **out)
{
    tgnn_mace *m = (tgnn_mace *)tinyi_alloc(ctx, 1, sizeof *m);
    tgnn_so3 *so3 = NULL;
    int t, l, nu, i, most = 0, degree = 0;
    tiny_status st;
    *out = NULL;
    if (!m) return tiny_ctx_status(ctx);
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->desc = *desc;
    for (i = 0; i <= TGNN_MACE_ELEMENTS; i++) m->place[i] = -1;
    for (i = 0; i < desc->n_elements; i++) m->place[desc->elements[i]] = i;
    st = tgnn_so3_open(ctx, desc->l_max, &so3);
    for (t = 0; !st && t < desc->layers; t++)
        st = tinyi_mace_paths_make(ctx, so3, tinyi_mace_degree(desc, t), desc->l_max, &m->paths[t]);
    tgnn_so3_close(ctx, so3);
    for (t = 0; t < desc->layers; t++) {
        most = desc->correlation[t] > most ? desc->correlation[t] : most;
        degree = tinyi_mace_degree(desc, t + 1) > degree ? tinyi_mace_degree(desc, t + 1) : degree;
    }
    for (l = 0; !st && l <= degree; l++)
        for (nu = 0; !st && nu < most; nu++) {
            if (given && given[l][nu].term) {
                m->basis[l][nu] = given[l][nu];         /* the model's from here on */
                memset(&given[l][nu], 0, sizeof given[l][nu]);
            } else st = tinyi_mace_basis_make(ctx, desc->l_max, l, nu + 1, &m->basis[l][nu]);
        }
    for (t = 0; !st && t < desc->layers; t++) st = tinyi_mace_poly_make(ctx, m, t, &m->poly[t]);
    if (!st) {
        tinyi_mace_list(m);
        if (m->n_values > most_values && path)         /* before memory is taken for them */
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the description needs %.0f numbers, the file has at most %.0f",
                            path, m->n_values, most_values);
        else if (m->n_values > 1e9)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "mace: a model of %.3g numbers, the limit is 1e9", m->n_values);
    }
    if (!st) {
        m->param = (tinyi_mace_param *)tinyi_alloc(ctx, (size_t)m->n_params, sizeof *m->param);
        m->values = (double *)tinyi_alloc(ctx, (size_t)m->n_values, sizeof *m->values);
        if (!m->param || !m->values) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(m->values, 0, (size_t)m->n_values * sizeof *m->values);
        tinyi_mace_list(m);
        for (i = 0; i < desc->n_bessel; i++)
            m->param[m->bessel].value[i] = 3.14159265358979323846 * (i + 1) / desc->r_max;
        *out = m;
    } else tgnn_mace_close(m);
    return st;
}

TINY_REF_BEGIN
static void tinyi_mace_draw(tiny_rng *rng, tinyi_mace_param *p, double by)
{
    tiny_idx n = p->dim[0] * (p->rank > 1 ? p->dim[1] : 1) * (p->rank > 2 ? p->dim[2] : 1), i;
    for (i = 0; i < n; i++) p->value[i] = (double)tiny_rng_normal(rng) * by;
}

/* mace-torch's initial weights, with e3nn's factors: 1 / sqrt(fan in), 1.6790 for a SiLU before */
static void tinyi_mace_random(tgnn_mace *m)
{
    const tgnn_mace_desc *d = &m->desc;
    const double c = d->channels, z = d->n_elements, silu = 1.6791767;
    tiny_rng rng = tiny_rng_make(d->seed, 0x6d616365);
    int t, l, i, nu;
    tinyi_mace_draw(&rng, &m->param[m->embed], 1.0 / tinyi_sqrt(z));
    for (i = 0; (d->zbl || d->agnesi) && i < d->n_elements; i++) m->param[m->radii].value[i] = 0.75;
    for (i = 0; d->zbl && i < 2; i++) m->param[m->zbl].value[i] = i ? 0.4543 : 0.3;
    for (i = 0; d->agnesi && i < 3; i++) m->param[m->agnesi].value[i] = i == 0 ? 1.0805 : i == 1 ? 0.9183 : 4.5791;
    for (t = 0; t < d->layers; t++) {
        const int from = tinyi_mace_degree(d, t), to = tinyi_mace_degree(d, t + 1);
        const int most = d->kind[t] == TGNN_MACE_PLAIN ? d->l_max : from < to ? from : to;
        for (l = 0; l <= from; l++) tinyi_mace_draw(&rng, &m->param[m->up[t][l]], 1.0 / tinyi_sqrt(c));
        for (i = 0; i <= d->n_radial; i++)
            tinyi_mace_draw(&rng, &m->param[m->radial[t][i]],
                            (i ? silu : 1.0) / tinyi_sqrt((double)m->param[m->radial[t][i]].dim[0]));
        for (l = 0; l <= d->l_max; l++)
            tinyi_mace_draw(&rng, &m->param[m->mix[t][l]], 1.0 / tinyi_sqrt((double)m->param[m->mix[t][l]].dim[0]));
        for (l = 0; l <= most; l++) tinyi_mace_draw(&rng, &m->param[m->skip[t][l]], 1.0 / tinyi_sqrt(c * z));
        if (d->density[t]) tinyi_mace_draw(&rng, &m->param[m->density[t]], 1.0 / tinyi_sqrt((double)d->n_bessel));
        for (l = 0; l <= to; l++) {
            for (nu = 0; nu < d->correlation[t]; nu++)
                tinyi_mace_draw(&rng, &m->param[m->weight[t][l][nu]], 1.0 / (double)m->basis[l][nu].n_k);
            tinyi_mace_draw(&rng, &m->param[m->out[t][l]], 1.0 / tinyi_sqrt(c));
        }
        if (tinyi_mace_nonlinear(d, t)) {
            tinyi_mace_draw(&rng, &m->param[m->readin], 1.0 / tinyi_sqrt(c));
            tinyi_mace_draw(&rng, &m->param[m->readout[t]], silu / tinyi_sqrt((double)d->readout));
        } else tinyi_mace_draw(&rng, &m->param[m->readout[t]], 1.0 / tinyi_sqrt(c));
    }
}

/* the cutoff at u = r / r_max, and its slope by u */
static double tinyi_mace_cutoff(double u, int power, double *slope)
{
    const double p = power;
    double up = 1.0;                        /* u^(p - 1) */
    int i;
    *slope = 0.0;
    if (!(u < 1.0)) return 0.0;
    for (i = 1; i < power; i++) up *= u;
    *slope = up * p * (p + 1.0) * (p + 2.0) * (-0.5 + u * (1.0 - 0.5 * u));
    return 1.0 + up * u * (-(p + 1.0) * (p + 2.0) / 2.0 + u * (p * (p + 2.0) - u * (p * (p + 1.0) / 2.0)));
}
static double tinyi_mace_power(double x, double p) { return tinyi_exp64(p * tinyi_log64(x)); }

/* 1 / (1 + a u^q / (1 + u^(q - p))), u = 2 r / (the sum of both radii), and its slope */
static double tinyi_mace_agnesi(const tgnn_mace *m, int z1, int z2, double r, double *slope)
{
    const double *k = m->param[m->agnesi].value, *radius = m->param[m->radii].value;
    const double by = 0.5 * (radius[z1] + radius[z2]), u = r / by, s = k[1] - k[2];
    const double top = k[0] * tinyi_mace_power(u, k[1]), low = tinyi_mace_power(u, s), g = top / (1.0 + low),
                 dg = top / u * (k[1] * (1.0 + low) - s * low) / ((1.0 + low) * (1.0 + low)), y = 1.0 / (1.0 + g);
    *slope = -dg * y * y / by;
    return y;
}

TINYI_FN void tinyi_mace_radial(const tgnn_mace *m, int z1, int z2, double r, double *b, double *db, double *cut)
{
    const double *w = m->param[m->bessel].value, rc = m->desc.r_max, root = tinyi_sqrt(2.0 / rc);
    double df, f = tinyi_mace_cutoff(r / rc, m->desc.power, &df), x = r, dx = 1.0;
    int i;
    df /= rc;
    if (m->desc.agnesi) x = tinyi_mace_agnesi(m, z1, z2, r, &dx);
    cut[0] = m->desc.late ? f : 1.0;
    cut[1] = m->desc.late ? df : 0.0;
    if (m->desc.late) {
        f = 1.0;
        df = 0.0;
    }
    for (i = 0; i < m->desc.n_bessel; i++) {
        double s, c, y, dy;
        tinyi_sincos64(w[i] * x, &s, &c);
        y = root * s / x;
        dy = (root * w[i] * c - y) / x * dx;
        b[i] = y * f;
        db[i] = dy * f + y * df;
    }
}

/* 14.3996 Z1 Z2 / r phi(r / a) f(r / (the sum of both radii)), a = 0.529 k1 / (Z1^k0 + Z2^k0) */
TINYI_FN double tinyi_mace_repel(const tgnn_mace *m, int z1, int z2, double r, double *slope)
{
    static const double c[4] = { 0.1818, 0.5099, 0.2802, 0.02817 }, rate[4] = { 3.2, 0.9423, 0.4028, 0.2016 };
    const double *k = m->param[m->zbl].value, *radius = m->param[m->radii].value, rc = radius[z1] + radius[z2];
    const double q1 = m->desc.elements[z1], q2 = m->desc.elements[z2],
                 a = k[1] * 0.529 / (tinyi_mace_power(q1, k[0]) + tinyi_mace_power(q2, k[0])),
                 v = 14.3996 * q1 * q2 / r;
    double phi = 0.0, dphi = 0.0, f, df;
    int i;
    f = tinyi_mace_cutoff(r / rc, m->desc.zbl, &df);
    for (i = 0; i < 4; i++) {
        const double e = c[i] * tinyi_exp64(-rate[i] * r / a);
        phi += e;
        dphi -= rate[i] / a * e;
    }
    *slope = v * (dphi * f + phi * df / rc - phi * f / r);
    return v * phi * f;
}
TINY_REF_END

TINY_API tiny_status tgnn_mace_open(tiny_ctx *ctx, const tgnn_mace_desc *desc, tgnn_mace **out)
{
    tgnn_mace_desc d;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: a description and an output are needed");
    d = *desc;
    st = tinyi_mace_check(ctx, "mace", &d);
    if (!st) st = tinyi_mace_make(ctx, &d, NULL, NULL, 1e9, out);
    if (!st) tinyi_mace_random(*out);
    return st;
}

TINY_API void tgnn_mace_close(tgnn_mace *m)
{
    int t, l, nu, i;
    tiny_ctx *ctx;
    if (!m) return;
    ctx = m->ctx;
    for (t = 0; t < TGNN_MACE_LAYERS; t++) {
        tiny_free(ctx, m->paths[t].path);
        tiny_free(ctx, m->paths[t].term);
        tiny_free(ctx, m->poly[t].line);
        tiny_free(ctx, m->poly[t].row);
        tiny_free(ctx, m->poly[t].k);
        for (l = 0; l < TINYI_MACE_SIDE; l++)
            for (nu = 0; nu < 3; nu++) tiny_free(ctx, m->poly[t].at[l][nu]);
    }
    for (l = 0; l < TINYI_MACE_SIDE; l++)
        for (nu = 0; nu < 3; nu++) tinyi_mace_basis_free(ctx, &m->basis[l][nu]);
    for (i = 0; i < 2; i++)
        if (m->plan[i]) {
            tiny_free(ctx, m->plan[i]->memory);
            tiny_free(ctx, m->plan[i]);
        }
    tiny_free(ctx, m->param);
    tiny_free(ctx, m->values);
    tiny_free(ctx, m);
}

TINY_API const tgnn_mace_desc *tgnn_mace_desc_of(const tgnn_mace *m) { return m ? &m->desc : NULL; }
TINY_API double tgnn_mace_count(const tgnn_mace *m) { return m ? m->n_values : 0.0; }
