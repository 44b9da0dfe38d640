/* src/gnn/equivariant/mace_plain.c - MACE in plain loops, in double: the formula of mace.c line by line
 *
 * It shares with the fast form the description, the numbers of the model, the 3j and the bases U. Neighbours are found
 * by trying all images; contractions multiply out every term of U. */
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"

typedef struct tinyi_mace_loop {            /* a structure and its features */
    const tgnn_mace *m;
    const tgnn_structure *s;
    tinyi_cell cell;
    int images[3], side;                    /* to each side; components of a row of h */
    double *h, *next, *up;                  /* (n, side, channels) */
    double repel;                           /* half of the repulsion of one atom and its neighbours */
    double *a, *message, *r;                /* of one atom: (rows, channels), (l m, channels); of an edge */
} tinyi_mace_loop;

TINY_REF_BEGIN
static const double *tinyi_mace_of(const tgnn_mace *m, int param) { return m->param[param].value; }

/* y (c) (+)= x (k) w (k, c) */
static void tinyi_mace_linear(double *y, const double *x, const double *w, int k, int c)
{
    int i, j;
    for (j = 0; j < c; j++) y[j] = 0.0;
    for (i = 0; i < k; i++)
        for (j = 0; j < c; j++) y[j] += x[i] * w[(size_t)i * (size_t)c + (size_t)j];
}
static void tinyi_mace_linear_add(double *y, const double *x, const double *w, int k, int c)
{
    int i, j;
    for (i = 0; i < k; i++)
        for (j = 0; j < c; j++) y[j] += x[i] * w[(size_t)i * (size_t)c + (size_t)j];
}
static double tinyi_mace_act(double x) { return x / (1.0 + tinyi_exp64(-x)); }

/* R of all couplings and channels at a distance, and the density */
static double tinyi_mace_network(tinyi_mace_loop *w, int t, int z1, int z2, double r)
{
    const tgnn_mace_desc *d = &w->m->desc;
    double b[64], db[64], cut[2], x[1024], y[1024], s = 0.0;
    int i, q, n = d->n_bessel;
    tinyi_mace_radial(w->m, z1, z2, r, b, db, cut);
    for (i = 0; i < n; i++) x[i] = b[i];
    for (i = 0; i < d->n_radial; i++) {
        tinyi_mace_linear(y, x, tinyi_mace_of(w->m, w->m->radial[t][i]), n, d->radial[i]);
        n = d->radial[i];
        for (q = 0; q < n; q++) x[q] = tinyi_mace_act(y[q]);
    }
    for (q = 0; q < n; q++) x[q] *= cut[0];
    tinyi_mace_linear(w->r, x, tinyi_mace_of(w->m, w->m->radial[t][i]), n, w->m->paths[t].n * d->channels);
    if (!d->density[t]) return 0.0;
    for (i = 0; i < d->n_bessel; i++) s += b[i] * tinyi_mace_of(w->m, w->m->density[t])[i];
    return tinyi_tanh64(s * s) * cut[0];
}

/* a += the message along v from an atom of element z2, whose W_up h is up, to one of z1 */
static double tinyi_mace_message(tinyi_mace_loop *w, int t, int z1, int z2, const double *v, const double *up)
{
    const tinyi_mace_paths *s = &w->m->paths[t];
    const int c = w->m->desc.channels;
    const double length = tinyi_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    const double density = tinyi_mace_network(w, t, z1, z2, length);
    double slope, y[(TGNN_MACE_L + 1) * (TGNN_MACE_L + 1)];
    tgnn_sph_harm_params sph = { 0, 0, 0 };
    int p = 0, e, u;
    sph.l_max = w->m->desc.l_max;
    tinyi_sph_one(v, &sph, y, NULL);
    if (w->m->desc.zbl) w->repel += 0.5 * tinyi_mace_repel(w->m, z1, z2, length, &slope);
    for (e = 0; e < s->n_terms; e++) {
        const tinyi_mace_term *term = &s->term[e];
        while (p + 1 < s->n && term->k >= s->path[p + 1].at) p++;
        {
            const tinyi_mace_path *q = &s->path[p];
            const int n3 = 2 * q->l3 + 1, m1 = (term->k - q->at) / n3, m3 = (term->k - q->at) % n3;
            const double *x = up + (size_t)(q->l1 * q->l1 + m1) * (size_t)c, *r = w->r + (size_t)(p * c);
            double *a = w->a + (size_t)(q->row + m3) * (size_t)c;
            for (u = 0; u < c; u++) a[u] += r[u] * term->value * x[u] * y[term->m2];
        }
    }
    return density;
}

/* all neighbours of atom i within r_max */
static double tinyi_mace_gather_all(tinyi_mace_loop *w, int t, tiny_idx i)
{
    const double most = w->m->desc.r_max * w->m->desc.r_max;
    double density = 0.0;
    tiny_idx j;
    int x, y, z, k;
    for (j = 0; j < w->s->n; j++)
        for (x = -w->images[0]; x <= w->images[0]; x++)
            for (y = -w->images[1]; y <= w->images[1]; y++)
                for (z = -w->images[2]; z <= w->images[2]; z++) {
                    double v[3], square = 0.0;
                    for (k = 0; k < 3; k++) {
                        v[k] = w->s->positions[3 * i + k] - w->s->positions[3 * j + k] - x * w->cell.row[k] -
                               y * w->cell.row[3 + k] - z * w->cell.row[6 + k];
                        square += v[k] * v[k];
                    }
                    if ((j == i && !x && !y && !z) || !(square < most)) continue;
                    density += tinyi_mace_message(w, t, w->m->place[w->s->numbers[i]], w->m->place[w->s->numbers[j]], v,
                                                  w->up + (size_t)j * (size_t)(w->side * w->m->desc.channels));
                }
    return density;
}

/* h of atom i after layer t from its messages */
static void tinyi_mace_atom(tinyi_mace_loop *w, int t, tiny_idx i)
{
    const tgnn_mace *m = w->m;
    const tgnn_mace_desc *d = &m->desc;
    const tinyi_mace_paths *s = &m->paths[t];
    const int c = d->channels, z = m->place[w->s->numbers[i]], to = tinyi_mace_degree(d, t + 1),
              from = tinyi_mace_degree(d, t);
    const size_t square = (size_t)c * (size_t)c;
    double *row = w->r, by;                 /* w->r has room for more than a row: its edges are done */
    int p, l, q, k, u, seen = 0, last = -1;
    memset(w->a, 0, (size_t)(s->n_rows * c) * sizeof *w->a);
    w->repel = 0.0;
    by = 1.0 + tinyi_mace_gather_all(w, t, i);
    if (!d->density[t]) by = d->average;
    memset(w->message, 0, (size_t)((d->l_max + 1) * (d->l_max + 1) * c) * sizeof *w->message);
    for (p = 0; p < s->n; p++) {
        l = s->path[p].l3;
        seen = l == last ? seen + 1 : 0;
        last = l;
        for (q = 0; q < 2 * l + 1; q++)
            tinyi_mace_linear_add(w->message + (size_t)((l * l + q) * c), w->a + (size_t)((s->path[p].row + q) * c),
                                  tinyi_mace_of(m, m->mix[t][l]) + (size_t)seen * square, c, c);
    }
    for (l = 0; l <= d->l_max; l++)
        for (q = l * l; q < (l + 1) * (l + 1); q++) {
            double *x = w->message + (size_t)(q * c);
            for (u = 0; u < c; u++) x[u] /= by;
            if (d->kind[t] != TGNN_MACE_PLAIN) continue;
            tinyi_mace_linear(row, x, tinyi_mace_of(m, m->skip[t][l]) + (size_t)z * square, c, c);
            memcpy(x, row, (size_t)c * sizeof *x);
        }
    for (l = 0; l <= to; l++) {
        double *h = w->next + ((size_t)i * (size_t)w->side + (size_t)(l * l)) * (size_t)c;
        double *b = w->r;                   /* (2 l + 1, c) */
        memset(b, 0, (size_t)((2 * l + 1) * c) * sizeof *b);
        for (k = 0; k < d->correlation[t]; k++) {
            const tinyi_mace_basis *basis = &m->basis[l][k];
            const double *weight = tinyi_mace_of(m, m->weight[t][l][k]) + (size_t)z * (size_t)(basis->n_k * c);
            for (q = 0; q < basis->n; q++) {
                const int32_t *e = basis->term[q];
                for (u = 0; u < c; u++) {
                    double x = basis->value[q] * weight[e[4] * c + u];
                    int f;
                    for (f = 1; f <= k + 1; f++) x *= w->message[e[f] * c + u];
                    b[e[0] * c + u] += x;
                }
            }
        }
        for (q = 0; q < 2 * l + 1; q++) {
            tinyi_mace_linear(h + (size_t)(q * c), b + (size_t)(q * c), tinyi_mace_of(m, m->out[t][l]), c, c);
            if (d->kind[t] == TGNN_MACE_RESIDUAL && l <= from)
                tinyi_mace_linear_add(h + (size_t)(q * c),
                                      w->h + ((size_t)i * (size_t)w->side + (size_t)(l * l + q)) * (size_t)c,
                                      tinyi_mace_of(m, m->skip[t][l]) + (size_t)z * square, c, c);
        }
    }
}

static double tinyi_mace_read_atom(const tinyi_mace_loop *w, int t, const double *h)
{
    const tgnn_mace_desc *d = &w->m->desc;
    double e = 0.0, x[1024];
    int i;
    if (!tinyi_mace_nonlinear(d, t)) {
        for (i = 0; i < d->channels; i++) e += h[i] * tinyi_mace_of(w->m, w->m->readout[t])[i];
        return e;
    }
    tinyi_mace_linear(x, h, tinyi_mace_of(w->m, w->m->readin), d->channels, d->readout);
    for (i = 0; i < d->readout; i++) e += tinyi_mace_act(x[i]) * tinyi_mace_of(w->m, w->m->readout[t])[i];
    return e;
}

static void tinyi_mace_layers(tinyi_mace_loop *w, double *atoms)
{
    const tgnn_mace *m = w->m;
    const tgnn_mace_desc *d = &m->desc;
    const int c = d->channels;
    const size_t row = (size_t)w->side * (size_t)c;
    tiny_idx i;
    int t, l, q;
    for (i = 0; i < w->s->n; i++) {
        const int z = m->place[w->s->numbers[i]];
        memcpy(w->h + (size_t)i * row, tinyi_mace_of(m, m->embed) + (size_t)z * (size_t)c, (size_t)c * sizeof *w->h);
        atoms[i] = 0.0;
    }
    for (t = 0; t < d->layers; t++) {
        double *old;
        for (i = 0; i < w->s->n; i++)
            for (l = 0; l <= tinyi_mace_degree(d, t); l++)
                for (q = l * l; q < (l + 1) * (l + 1); q++) {
                    const size_t at = (size_t)i * row + (size_t)(q * c);
                    tinyi_mace_linear(w->up + at, w->h + at, tinyi_mace_of(m, m->up[t][l]), c, c);
                }
        for (i = 0; i < w->s->n; i++) {
            tinyi_mace_atom(w, t, i);
            atoms[i] += tinyi_mace_read_atom(w, t, w->next + (size_t)i * row) + (t ? 0.0 : w->repel);
        }
        old = w->h;
        w->h = w->next;
        w->next = old;
    }
    for (i = 0; i < w->s->n; i++)
        atoms[i] = tinyi_mace_of(m, m->energies)[m->place[w->s->numbers[i]]] + (d->shift + d->scale * atoms[i]);
}
TINY_REF_END

TINY_API tiny_status tgnn_mace_plain(tiny_ctx *ctx, const tgnn_mace *m, const tgnn_structure *s, double *energy,
                                     double *atoms)
{
    tinyi_mace_loop w;
    double *e = NULL, images = 1.0;
    size_t c, rows = 0;
    tiny_idx i;
    int k, t, n = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!m || !s || !energy)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: a model, a structure and an output are needed");
    memset(&w, 0, sizeof w);
    st = tinyi_cell_of(ctx, s, &w.cell);
    if (st) return st;
    if (s->n && !s->numbers) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: the atomic numbers are missing");
    for (i = 0; i < s->n; i++)
        if (s->numbers[i] < 1 || s->numbers[i] > TGNN_MACE_ELEMENTS || m->place[s->numbers[i]] < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "mace: atom %td (counted from 1) has the atomic number %d, which the model does not know",
                              i + 1, s->numbers[i]);
    w.m = m;
    w.s = s;
    for (k = 0; k < 3; k++) {               /* atoms may lie outside of the cell: by as much as they are apart */
        double least = 0.0, most = 0.0;
        for (i = 0; i < s->n; i++) {
            const double *x = s->positions + 3 * i;
            const double f = x[0] * w.cell.inverse[k] + x[1] * w.cell.inverse[3 + k] + x[2] * w.cell.inverse[6 + k];
            if (i == 0 || f < least) least = f;
            if (i == 0 || f > most) most = f;
        }
        if (s->periodic[k]) {
            const double reach = m->desc.r_max / w.cell.height[k] + (most - least) + 1.0;
            images *= 2.0 * reach + 1.0;
            w.images[k] = reach < 1e5 ? (int)reach : 100000;
        }
    }
    if (images > 1e6)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: the cell is so small that it has %.3g images, the limit is 1e6",
                          images);
    for (t = 0; t <= m->desc.layers; t++) {
        const int degree = tinyi_mace_degree(&m->desc, t) + 1;
        w.side = TINYI_MAX(w.side, degree * degree);
        if (t == m->desc.layers) break;
        rows = TINYI_MAX(rows, (size_t)m->paths[t].n_rows);
        n = TINYI_MAX(n, m->paths[t].n);
    }
    c = (size_t)m->desc.channels * sizeof(double);
    w.h = (double *)tinyi_alloc(ctx, (size_t)s->n + 1, (size_t)w.side * c);
    w.next = (double *)tinyi_alloc(ctx, (size_t)s->n + 1, (size_t)w.side * c);
    w.up = (double *)tinyi_alloc(ctx, (size_t)s->n + 1, (size_t)w.side * c);
    w.a = (double *)tinyi_alloc(ctx, rows, c);
    w.message = (double *)tinyi_alloc(ctx, (size_t)((m->desc.l_max + 1) * (m->desc.l_max + 1)), c);
    w.r = (double *)tinyi_alloc(ctx, (size_t)TINYI_MAX(n, 2 * TINYI_MACE_SIDE), c);
    e = atoms ? atoms : (double *)tinyi_alloc(ctx, (size_t)s->n + 1, sizeof *e);
    if (!w.h || !w.next || !w.up || !w.a || !w.message || !w.r || !e) st = tiny_ctx_status(ctx);
    if (!st) {
        tinyi_mace_layers(&w, e);
        for (i = 0, *energy = 0.0; i < s->n; i++) *energy += e[i];
    }
    if (e != atoms) tiny_free(ctx, e);
    tiny_free(ctx, w.h);
    tiny_free(ctx, w.next);
    tiny_free(ctx, w.up);
    tiny_free(ctx, w.a);
    tiny_free(ctx, w.message);
    tiny_free(ctx, w.r);
    return st;
}
