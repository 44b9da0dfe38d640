/* src/gnn/equivariant/mace_plan.c - the weights of a potential packed for the kernels of a target
 *
 * A matrix is cut into panels of two vectors of columns; a panel holds its rows one after another. Rows of features and
 * columns of matrices are padded with zeros to whole panels. The matrices of elements are packed for the elements of
 * the structure alone; a structure with others makes the plan anew, for both.
 * Exact changes of the formula: W_mix and the skip product of a plain layer are one matrix for each element; 1 /
 * average is part of W_mix; the first layer's features go through W_up once for each element. */
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "core/state_inside.h"

typedef struct tinyi_mace_packer {
    tiny_ctx *ctx;
    tgnn_mace *m;
    tinyi_mace_plan *p;
    double *wide;                           /* scratch */
} tinyi_mace_packer;

static int tinyi_mace_padded(const tinyi_mace_plan *p, int n)
{
    const int panel = 2 * p->k->lanes;
    return (n + panel - 1) / panel * panel;
}

/* n numbers; NULL while they are counted */
static void *tinyi_mace_take(tinyi_mace_packer *w, size_t n)
{
    tinyi_mace_plan *p = w->p;
    void *to = p->memory ? p->memory + p->used : NULL;
    p->used += (n * p->k->bytes + 63) / 64 * 64;
    return to;
}

static void tinyi_mace_set(const tinyi_mace_plan *p, void *to, size_t i, double v)
{
    if (p->k->bytes == sizeof(double)) ((double *)to)[i] = v;
    else ((float *)to)[i] = (float)v;
}

/* element (i, j) of the packed matrix is x[i * row + j * col] */
static const void *tinyi_mace_pack(tinyi_mace_packer *w, const double *x, int rows, int columns, int row, int col)
{
    const tinyi_mace_plan *p = w->p;
    const int panel = 2 * p->k->lanes, n = tinyi_mace_padded(p, columns);
    void *to = tinyi_mace_take(w, (size_t)rows * (size_t)n);
    size_t at = 0;
    int q, i, j;
    if (!to) return NULL;
    for (q = 0; q < n; q += panel)
        for (i = 0; i < rows; i++)
            for (j = q; j < q + panel; j++, at++)
                tinyi_mace_set(p, to, at, j < columns ? x[(size_t)i * (size_t)row + (size_t)j * (size_t)col] : 0.0);
    return to;
}

static tinyi_mace_matrix tinyi_mace_both(tinyi_mace_packer *w, const double *x, int rows, int columns, int row)
{
    tinyi_mace_matrix m;
    m.to = tinyi_mace_pack(w, x, rows, columns, row, 1);
    m.back = tinyi_mace_pack(w, x, columns, rows, 1, row);
    return m;
}

static const void *tinyi_mace_pad(tinyi_mace_packer *w, const double *x, int n)
{
    const int wide = tinyi_mace_padded(w->p, n);
    void *to = tinyi_mace_take(w, (size_t)wide);
    int i;
    if (!to) return NULL;
    for (i = 0; i < wide; i++) tinyi_mace_set(w->p, to, (size_t)i, i < n ? x[i] : 0.0);
    return to;
}

static const double *tinyi_mace_value(const tinyi_mace_packer *w, int param) { return w->m->param[param].value; }

/* y (rows, c) = by x (rows, c) a (c, c), or x alone */
static void tinyi_mace_times(double *y, const double *x, const double *a, int rows, int c, double by)
{
    int i, j, k;
    for (i = 0; i < rows; i++) {
        double *to = y + (size_t)i * (size_t)c;
        const double *from = x + (size_t)i * (size_t)c;
        for (j = 0; j < c; j++) to[j] = a ? 0.0 : by * from[j];
        for (k = 0; a && k < c; k++)
            for (j = 0; j < c; j++) to[j] += by * from[k] * a[(size_t)k * (size_t)c + (size_t)j];
    }
}

static void tinyi_mace_pack_mix(tinyi_mace_packer *w, int t)
{
    const tgnn_mace_desc *d = &w->m->desc;
    const tinyi_mace_paths *s = &w->m->paths[t];
    const int c = d->channels, plain = d->kind[t] == TGNN_MACE_PLAIN, n = plain ? w->p->n_local : 1;
    const double by = d->density[t] ? 1.0 : 1.0 / d->average;
    int z, i, seen, l = -1;
    for (z = 0; z < n; z++)
        for (i = 0, seen = 0; i < s->n; i++, seen++) {
            const double *x;
            if (s->path[i].l3 != l) seen = 0;
            l = s->path[i].l3;
            if (!w->p->memory) {
                (void)tinyi_mace_both(w, NULL, c, c, c);
                continue;
            }
            x = tinyi_mace_value(w, w->m->mix[t][l]) + (size_t)seen * (size_t)(c * c);
            tinyi_mace_times(w->wide, x,
                             plain ? tinyi_mace_value(w, w->m->skip[t][l]) + (size_t)w->p->element[z] * (size_t)(c * c)
                                   : NULL,
                             c, c, by);
            w->p->mix[t][z * s->n + i] = tinyi_mace_both(w, w->wide, c, c, c);
        }
}

static void tinyi_mace_pack_layer(tinyi_mace_packer *w, int t)
{
    const tgnn_mace *m = w->m;
    const tgnn_mace_desc *d = &m->desc;
    tinyi_mace_plan *p = w->p;
    const int c = d->channels, from = tinyi_mace_degree(d, t), to = tinyi_mace_degree(d, t + 1),
              last = d->n_radial - 1, k = d->radial[last], poly = m->poly[t].n_coefs, lanes = p->k->lanes;
    int l, i, z, u, j;
    for (l = 0; t && l <= from; l++) p->up[t][l] = tinyi_mace_both(w, tinyi_mace_value(w, m->up[t][l]), c, c, c);
    for (i = 0; i < d->n_radial; i++)
        p->hide[t][i].to = tinyi_mace_pack(w, tinyi_mace_value(w, m->radial[t][i]), i ? d->radial[i - 1] : d->n_bessel,
                                           d->radial[i], d->radial[i], 1);
    for (i = 0; i < m->paths[t].n; i++) {
        const double *x = tinyi_mace_value(w, m->radial[t][last + 1]) + (size_t)i * (size_t)c;
        tinyi_mace_matrix a;
        a.to = tinyi_mace_pack(w, x, k, c, m->paths[t].n * c, 1);
        a.back = t ? NULL : tinyi_mace_pack(w, x, c, k, 1, m->paths[t].n * c);
        if (p->memory) p->weight[t][i] = a;
    }
    tinyi_mace_pack_mix(w, t);
    for (l = 0; d->kind[t] == TGNN_MACE_RESIDUAL && l <= (from < to ? from : to); l++)
        for (z = 0; z < p->n_local; z++) {
            const double *x = tinyi_mace_value(w, m->skip[t][l]) + (size_t)p->element[z] * (size_t)(c * c);
            const tinyi_mace_matrix a = tinyi_mace_both(w, x, c, c, c);
            if (p->memory) p->skip[t][z * TINYI_MACE_SIDE + l] = a;
        }
    for (l = 0; l <= to; l++) p->out[t][l] = tinyi_mace_both(w, tinyi_mace_value(w, m->out[t][l]), c, c, c);
    for (z = 0; z < p->n_local; z++) {
        void *coef = tinyi_mace_take(w, (size_t)poly * (size_t)p->width);
        size_t at = 0;
        if (!coef) continue;
        tinyi_mace_poly_fill(m, t, p->element[z], w->wide);
        for (u = 0; u < p->width; u += lanes)
            for (i = 0; i < poly; i++)
                for (j = u; j < u + lanes; j++)
                    tinyi_mace_set(p, coef, at++, j < c ? w->wide[(size_t)i * (size_t)c + (size_t)j] : 0.0);
        p->coef[t][z] = coef;
    }
    if (tinyi_mace_nonlinear(d, t)) {
        p->readin = tinyi_mace_both(w, tinyi_mace_value(w, m->readin), c, d->readout, d->readout);
        p->readout[t] = tinyi_mace_pad(w, tinyi_mace_value(w, m->readout[t]), d->readout);
    } else p->readout[t] = tinyi_mace_pad(w, tinyi_mace_value(w, m->readout[t]), c);
}

static void tinyi_mace_pack_all(tinyi_mace_packer *w)
{
    const tgnn_mace *m = w->m;
    const tgnn_mace_desc *d = &m->desc;
    tinyi_mace_plan *p = w->p;
    const int c = d->channels;
    int t, z;
    void *rows[2];
    p->used = 0;
    for (t = 0; t < d->layers; t++) {       /* lists of matrices and pointers, a few bytes more than they need */
        const size_t each = sizeof(tinyi_mace_matrix) / sizeof(float), n = (size_t)m->paths[t].n;
        p->weight[t] = (tinyi_mace_matrix *)tinyi_mace_take(w, n * each);
        p->mix[t] = (tinyi_mace_matrix *)tinyi_mace_take(w, n * (size_t)p->n_local * each);
        p->skip[t] = (tinyi_mace_matrix *)tinyi_mace_take(w, (size_t)(p->n_local * TINYI_MACE_SIDE) * each);
        p->coef[t] = (const void **)tinyi_mace_take(w, (size_t)p->n_local * each);
    }
    for (t = 0; t < 2; t++) rows[t] = tinyi_mace_take(w, (size_t)(p->n_local * p->width));
    p->embed = rows[0];
    p->first = rows[1];
    for (z = 0; p->memory && z < p->n_local; z++) {
        const double *x = tinyi_mace_value(w, m->embed) + (size_t)p->element[z] * (size_t)c;
        int u;
        tinyi_mace_times(w->wide, x, tinyi_mace_value(w, m->up[0][0]), 1, c, 1.0);
        for (u = 0; u < p->width; u++) {
            tinyi_mace_set(p, rows[0], (size_t)(z * p->width + u), u < c ? x[u] : 0.0);
            tinyi_mace_set(p, rows[1], (size_t)(z * p->width + u), u < c ? w->wide[u] : 0.0);
        }
    }
    for (t = 0; t < d->layers; t++) tinyi_mace_pack_layer(w, t);
}

static void tinyi_mace_plan_free(tiny_ctx *ctx, tinyi_mace_plan **p)
{
    if (*p) tiny_free(ctx, (*p)->memory);
    tiny_free(ctx, *p);
    *p = NULL;
}

TINYI_FN tiny_status tinyi_mace_plan_for(tiny_ctx *ctx, tgnn_mace *m, int type, const unsigned char *present,
                                         const tinyi_mace_plan **out)
{
    const tgnn_mace_desc *d = &m->desc;
    const tinyi_mace_kernels *k = tinyi_mace_pair_of(ctx->k)->of[type];
    tinyi_mace_plan *p = m->plan[type];
    tinyi_mace_packer w;
    size_t wide = (size_t)d->channels * (size_t)d->channels;
    int z, t, covered = p && p->k == k;
    for (z = 0; covered && z < d->n_elements; z++) covered = !present[z] || p->local[z] >= 0;
    if (covered) {
        *out = p;
        return TINY_OK;
    }
    p = (tinyi_mace_plan *)tinyi_alloc(m->ctx, 1, sizeof *p);
    if (!p) return tiny_ctx_status(m->ctx);
    memset(p, 0, sizeof *p);
    p->k = k;
    for (z = 0; z < d->n_elements; z++) {
        const tinyi_mace_plan *old = m->plan[type];
        p->local[z] = -1;
        if (!present[z] && !(old && old->local[z] >= 0)) continue;
        p->element[p->n_local] = z;
        p->local[z] = p->n_local++;
    }
    tinyi_mace_plan_free(m->ctx, &m->plan[type]);
    p->width = tinyi_mace_padded(p, d->channels);
    p->panels = p->width / (2 * k->lanes);
    p->n_y = ((d->l_max + 1) * (d->l_max + 1) + 3) / 4 * 4;
    for (t = 0; t < d->n_radial; t++) p->radial[t] = tinyi_mace_padded(p, d->radial[t]);
    p->read = tinyi_mace_padded(p, d->readout);
    for (t = 0; t < d->layers; t++)
        wide = TINYI_MAX(wide, (size_t)m->poly[t].n_coefs * (size_t)d->channels);
    memset(&w, 0, sizeof w);
    w.ctx = m->ctx;
    w.m = m;
    w.p = p;
    tinyi_mace_pack_all(&w);
    p->bytes = p->used;
    p->memory = (unsigned char *)tinyi_alloc(m->ctx, p->bytes, 1);
    w.wide = (double *)tinyi_alloc(m->ctx, wide, sizeof *w.wide);
    if (!p->memory || !w.wide) {
        tiny_free(m->ctx, w.wide);
        tinyi_mace_plan_free(m->ctx, &p);
        return tiny_ctx_status(m->ctx);
    }
    tinyi_mace_pack_all(&w);
    tiny_free(m->ctx, w.wide);
    m->plan[type] = p;
    *out = p;
    return TINY_OK;
}
