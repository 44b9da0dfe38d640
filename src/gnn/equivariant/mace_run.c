/* src/gnn/equivariant/mace_run.c - energies and gradients of a potential: the fast form
 * Method   Everything that depends on a distance alone is computed once for a pair of atoms, with its slope next to it:
 *          the radial network needs no backward pass. Its last layer, the largest product of all, is not stored: each
 *          atom makes it for its own edges, one coupling at a time, and uses it while it is in the first cache. The
 *          first layer knows only the elements of the neighbours: there the edges are summed before that product, once
 *          for each element.
 *          Backward, an atom is taken as the sender of its edges, so that no two threads add to one number. What an
 *          edge gives is kept by edge and joined by pair at the end.
 *          Atoms are sorted by element and run in blocks of TINYI_MACE_ATOMS with one set of matrices.
 * Phases   pairs | for each layer: atoms | for each layer from the last: atoms, senders | pairs | atoms
 * Memory   O(atoms (messages + features) + edges (harmonics + a hidden layer)).
 * Error    double: rounding alone. float: distances, harmonics and the radial basis are computed in double and rounded
 *          once. */
#include <string.h>
#include "gnn/equivariant/mace_inside.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"

#define TINYI_MACE_ATOMS 8                  /* in a block */
#define TINYI_MACE_EDGES 48                 /* of an atom at a time */
#define TINYI_MACE_PAIRS 32
#define TINYI_MACE_POINTERS 160             /* the most rows of one product: 8 * 9, 2 * 48, 2 * 32 */

typedef struct tinyi_mace_job {
    tgnn_mace *m;
    const tgnn_mace_desc *d;
    const tinyi_mace_plan *p;
    const tinyi_mace_kernels *k;
    tgnn_neighbours list;                   /* of the sorted atoms */
    tiny_idx n, n_pairs, n_blocks;
    int gradient, n_l;                      /* components of a message */
    size_t bytes, row;                      /* of a number, of a row */
    int32_t *pair;                          /* of an edge; the edge below its reverse has its direction */
    int64_t *edge;                          /* of a pair: that edge */
    int32_t *element, *order, *block;       /* of an atom: in the plan, in the structure; where blocks begin */
    double *atoms, *pull, *slope, *forces;  /* of an atom; by a pair's vector; by an edge's length; of an atom */
    double *repel;                          /* of a pair: value, slope */
    double *density[TGNN_MACE_LAYERS], *crowd[TGNN_MACE_LAYERS];    /* of a pair: value, slope; of an atom: 1 + sum */
    unsigned char *y, *gy;                  /* harmonics of a pair; the gradient, of an edge */
    unsigned char *hide[TGNN_MACE_LAYERS];  /* of a pair: last hidden layer of the radial network, its slope */
    unsigned char *h[TGNN_MACE_LAYERS + 1], *gh[TGNN_MACE_LAYERS + 1], *up[TGNN_MACE_LAYERS],
        *message[TGNN_MACE_LAYERS], *ga;
    unsigned char *memory;
    size_t used;
    double need;                            /* about the same, which cannot overflow */
} tinyi_mace_job;

/* workspace of a thread */
typedef struct tinyi_mace_own {
    const tiny_team *team;
    void **to;
    const void **from, **up;
    unsigned char *basis, *hidden[2], *y, *c, *gc, *r, *a, *b, *gm, *s, *g, *gup, *z[2];
    size_t used;
} tinyi_mace_own;

static unsigned char *tinyi_mace_own_take(unsigned char *base, size_t *used, size_t n, size_t each)
{
    unsigned char *to = base ? base + *used : NULL;
    *used += (n * each + 63) / 64 * 64;
    return to;
}

static void tinyi_mace_own_lay(const tinyi_mace_job *j, unsigned char *base, tinyi_mace_own *w)
{
    const tgnn_mace_desc *d = j->d;
    size_t radial = (size_t)d->n_bessel, rows = 0, coefs = 0, out = 0, up = 0, *used = &w->used;
    const size_t b = j->bytes;
    int i;
    for (i = 0; i < d->n_radial; i++) radial = TINYI_MAX(radial, (size_t)j->p->radial[i]);
    for (i = 0; i < d->layers; i++) {
        const size_t degree = (size_t)tinyi_mace_degree(d, i) + 1, next = (size_t)tinyi_mace_degree(d, i + 1) + 1;
        rows = TINYI_MAX(rows, (size_t)j->m->paths[i].n_rows);
        coefs = TINYI_MAX(coefs, (size_t)j->m->paths[i].n_coefs);
        out = TINYI_MAX(out, next * next);
        up = TINYI_MAX(up, degree * degree);
    }
    w->used = 0;
    w->to = (void **)(void *)tinyi_mace_own_take(base, used, TINYI_MACE_POINTERS, sizeof(void *));
    w->from = (const void **)(void *)tinyi_mace_own_take(base, used, TINYI_MACE_POINTERS, sizeof(void *));
    w->up = (const void **)(void *)tinyi_mace_own_take(base, used, TINYI_MACE_POINTERS, sizeof(void *));
    w->basis = tinyi_mace_own_take(base, used, 2 * TINYI_MACE_PAIRS * (size_t)d->n_bessel, b);
    w->hidden[0] = tinyi_mace_own_take(base, used, 2 * TINYI_MACE_PAIRS * radial, b);
    w->hidden[1] = tinyi_mace_own_take(base, used, 2 * TINYI_MACE_PAIRS * radial, b);
    w->y = tinyi_mace_own_take(base, used, TINYI_MACE_EDGES * (size_t)j->p->n_y, b);
    w->c = tinyi_mace_own_take(base, used, TINYI_MACE_EDGES * coefs, b);
    w->gc = tinyi_mace_own_take(base, used, TINYI_MACE_EDGES * coefs, b);
    w->r = tinyi_mace_own_take(base, used, 2 * TINYI_MACE_EDGES, j->row);
    w->a = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * rows, j->row);
    w->b = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * out, j->row);
    w->gm = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * (size_t)j->n_l, j->row);
    w->s = tinyi_mace_own_take(base, used, (size_t)j->p->n_y * radial, b);
    w->g = tinyi_mace_own_take(base, used, 2 * TINYI_MACE_SIDE, j->row);
    w->gup = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * up, j->row);
    w->z[0] = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * (size_t)j->p->read, b);
    w->z[1] = tinyi_mace_own_take(base, used, TINYI_MACE_ATOMS * (size_t)j->p->read, b);
}

static void tinyi_mace_write(const tinyi_mace_job *j, void *to, size_t i, double v)
{
    if (j->bytes == sizeof(double)) ((double *)to)[i] = v;
    else ((float *)to)[i] = (float)v;
}
static double tinyi_mace_read(const tinyi_mace_job *j, const void *from, size_t i)
{
    return j->bytes == sizeof(double) ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static int tinyi_mace_side(const tinyi_mace_job *j, int t)      /* components of the features before layer t */
{
    const int degree = tinyi_mace_degree(j->d, t) + 1;
    return degree * degree;
}
static unsigned char *tinyi_mace_feature(const tinyi_mace_job *j, unsigned char *const *h, int t, tiny_idx i, int l)
{
    return h[t] + ((size_t)i * (size_t)tinyi_mace_side(j, t) + (size_t)(l * l)) * j->row;
}
static unsigned char *tinyi_mace_hidden(const tinyi_mace_job *j, int t, int32_t pair, int slope)
{
    return j->hide[t] + (2 * (size_t)pair + (size_t)slope) * (size_t)j->p->radial[j->d->n_radial - 1] * j->bytes;
}

/* SiLU of a row of n numbers, and its slope times dz */
static void tinyi_mace_silu(const tinyi_mace_job *j, const tiny_team *team, void *z, void *dz, int n)
{
    int i;
    if (j->bytes == sizeof(float)) {
        float *x = (float *)z, *dx = (float *)dz, s[64];
        int at, m;
        for (at = 0; at < n; at += 64) {
            m = TINYI_MIN(64, n - at);
            TINYI_OF(team->k, sigmoid_f32)(s, x + at, (size_t)m);
            for (i = 0; dx && i < m; i++) dx[at + i] *= s[i] * (1.0f + x[at + i] * (1.0f - s[i]));
            for (i = 0; i < m; i++) x[at + i] *= s[i];
        }
    } else j->k->silu((double *)z, (double *)dz, (size_t)n);
}

/* ---- pairs */

static void tinyi_mace_pairs(tinyi_mace_job *j, tinyi_mace_own *w, tiny_idx p0, tiny_idx p1)
{
    const tgnn_mace_desc *d = j->d;
    const int n = (int)(p1 - p0), each = j->gradient ? 2 : 1, panel = 2 * j->k->lanes;
    double y[(TGNN_MACE_L + 1) * (TGNN_MACE_L + 1)], b[64], db[64], cut[TINYI_MACE_PAIRS][2];
    tgnn_sph_harm_params sph = { 0, 0, 0 };
    int i, q, t, l;
    sph.l_max = d->l_max;
    for (i = 0; i < n; i++) {
        const tiny_idx pair = p0 + i;
        const double *v = j->list.vector + 3 * j->edge[pair];
        unsigned char *to = j->y + (size_t)pair * (size_t)j->p->n_y * j->bytes;
        tinyi_sph_one(v, &sph, y, NULL);
        for (q = 0; q < j->p->n_y; q++) tinyi_mace_write(j, to, (size_t)q, q < j->n_l ? y[q] : 0.0);
        {
            const double r = tinyi_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
            const int z1 = j->p->element[j->element[j->list.col[j->edge[pair]]]],
                      z2 = j->p->element[j->element[j->list.col[j->list.reverse[j->edge[pair]]]]];
            tinyi_mace_radial(j->m, z1, z2, r, b, db, cut[i]);
            if (d->zbl) j->repel[2 * pair] = tinyi_mace_repel(j->m, z1, z2, r, &j->repel[2 * pair + 1]);
        }
        for (q = 0; q < d->n_bessel; q++) {
            tinyi_mace_write(j, w->basis, (size_t)(each * i * d->n_bessel + q), b[q]);
            if (each == 2) tinyi_mace_write(j, w->basis, (size_t)((2 * i + 1) * d->n_bessel + q), db[q]);
        }
        for (t = 0; t < d->layers; t++) {
            const double *weight = j->m->param[j->m->density[t]].value;
            double s = 0.0, ds = 0.0, value;
            if (!d->density[t]) continue;
            for (q = 0; q < d->n_bessel; q++) {
                s += weight[q] * b[q];
                ds += weight[q] * db[q];
            }
            value = tinyi_tanh64(s * s);
            j->density[t][2 * pair] = value * cut[i][0];
            j->density[t][2 * pair + 1] = (1.0 - value * value) * 2.0 * s * ds * cut[i][0] + value * cut[i][1];
        }
    }
    for (t = 0; t < d->layers; t++)
        for (l = 0; l < d->n_radial; l++) {
            const size_t in = l ? (size_t)j->p->radial[l - 1] : (size_t)d->n_bessel;
            const int wide = j->p->radial[l];
            const unsigned char *from = l ? w->hidden[(l - 1) & 1] : w->basis;
            for (i = 0; i < each * n; i++) {
                w->from[i] = from + (size_t)i * in * j->bytes;
                w->to[i] = l < d->n_radial - 1
                               ? w->hidden[l & 1] + (size_t)i * (size_t)wide * j->bytes
                               : tinyi_mace_hidden(j, t, (int32_t)(p0 + i / each), i % each);
            }
            j->k->rows(w->to, w->from, each * n, l ? d->radial[l - 1] : d->n_bessel, j->p->hide[t][l].to, wide / panel,
                       0);
            for (i = 0; i < n; i++) {
                tinyi_mace_silu(j, w->team, w->to[each * i], each == 2 ? w->to[2 * i + 1] : NULL, wide);
                if (!d->late || l < d->n_radial - 1) continue;
                if (each == 2) {            /* (f h)' = f' h + f h' */
                    j->k->axpy(w->to[2 * i + 1], w->to[2 * i + 1], cut[i][0] - 1.0, (size_t)wide);
                    j->k->axpy(w->to[2 * i + 1], w->to[2 * i], cut[i][1], (size_t)wide);
                }
                j->k->axpy(w->to[each * i], w->to[each * i], cut[i][0] - 1.0, (size_t)wide);
            }
        }
}

/* harmonics of n edges from e0 on, in their direction or, with back, in that of their reverse */
static void tinyi_mace_edges_y(const tinyi_mace_job *j, int64_t e0, int n, int back, unsigned char *to)
{
    const size_t n_y = (size_t)j->p->n_y;
    int i, l, m;
    for (i = 0; i < n; i++, to += n_y * j->bytes) {
        const int64_t e = e0 + i;
        memcpy(to, j->y + (size_t)j->pair[e] * n_y * j->bytes, n_y * j->bytes);
        if ((e < j->list.reverse[e]) != back) continue;
        for (l = 1; l <= j->d->l_max; l += 2)
            for (m = l * l; m < (l + 1) * (l + 1); m++)
                if (j->bytes == sizeof(double)) ((double *)(void *)to)[m] = -((double *)(void *)to)[m];
                else ((float *)(void *)to)[m] = -((float *)(void *)to)[m];
    }
}

/* neighbours of one element from e on, at most TINYI_MACE_EDGES */
static int tinyi_mace_same(const tinyi_mace_job *j, int64_t e, int64_t end)
{
    const int32_t z = j->element[j->list.col[e]];
    int n = 1;
    while (n < TINYI_MACE_EDGES && e + n < end && j->element[j->list.col[e + n]] == z) n++;
    return n;
}

/* ---- messages: a (rows, width) of atom i */

static void tinyi_mace_gather_first(const tinyi_mace_job *j, tinyi_mace_own *w, tiny_idx i, unsigned char *a)
{
    const tgnn_mace_desc *d = j->d;
    const int wide = j->p->radial[d->n_radial - 1];
    const int64_t end = j->list.offset[i + 1];
    int64_t e = j->list.offset[i];
    int l, m, q, n;
    for (; e < end; e += n) {
        const size_t z = (size_t)j->element[j->list.col[e]];
        n = tinyi_mace_same(j, e, end);
        tinyi_mace_edges_y(j, e, n, 0, w->y);
        for (q = 0; q < n; q++) w->from[q] = tinyi_mace_hidden(j, 0, j->pair[e + q], 0);
        j->k->outer(w->s, w->from, w->y, n, j->p->n_y, wide);
        for (l = 0; l <= d->l_max; l++) {
            for (m = 0; m < 2 * l + 1; m++) {
                w->to[m] = w->g + (size_t)m * j->row;
                w->from[m] = w->s + (size_t)(l * l + m) * (size_t)wide * j->bytes;
            }
            j->k->rows(w->to, w->from, 2 * l + 1, d->radial[d->n_radial - 1], j->p->weight[0][l].to, j->p->panels, 0);
            j->k->muladd(a + (size_t)(l * l) * j->row, w->g, (const unsigned char *)j->p->first + z * j->row,
                         2 * l + 1, (size_t)j->p->width);
        }
    }
}

static void tinyi_mace_gather(const tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i, unsigned char *a)
{
    const tgnn_mace_desc *d = j->d;
    const tinyi_mace_paths *s = &j->m->paths[t];
    const int64_t end = j->list.offset[i + 1];
    const size_t width = (size_t)j->p->width;
    int64_t e = j->list.offset[i];
    int q, n, p;
    for (; e < end; e += n) {
        n = (int)TINYI_MIN((int64_t)TINYI_MACE_EDGES, end - e);
        tinyi_mace_edges_y(j, e, n, 0, w->y);
        for (q = 0; q < n; q++) {
            j->k->couple(w->c + (size_t)(q * s->n_coefs) * j->bytes, w->y + (size_t)(q * j->p->n_y) * j->bytes,
                         s->term, s->n_terms, s->n_coefs);
            w->from[q] = tinyi_mace_hidden(j, t, j->pair[e + q], 0);
            w->to[q] = w->r + (size_t)q * j->row;
            w->up[q] = tinyi_mace_feature(j, j->up, t, j->list.col[e + q], 0);
        }
        for (p = 0; p < s->n; p++) {
            const tinyi_mace_path *path = &s->path[p];
            j->k->rows(w->to, w->from, n, d->radial[d->n_radial - 1], j->p->weight[t][p].to, j->p->panels, 0);
            j->k->fold(a + (size_t)path->row * j->row, 2 * path->l3 + 1, 2 * path->l1 + 1, width, n, w->r, w->up,
                       (size_t)(path->l1 * path->l1) * width, w->c + (size_t)path->at * j->bytes, (size_t)s->n_coefs);
        }
    }
}

/* y rows of degree l of n atoms, y_side rows apart, (+)= x rows times b */
static void tinyi_mace_degree_rows(const tinyi_mace_job *j, tinyi_mace_own *w, int n, int l, unsigned char *y,
                                   int y_side, const unsigned char *x, int x_side, int k, const void *b, int panels,
                                   int add)
{
    int i, m, at = 0;
    for (i = 0; i < n; i++)
        for (m = 0; m < 2 * l + 1; m++, at++) {
            w->to[at] = y + (size_t)(i * y_side + m) * j->row;
            w->from[at] = x + (size_t)(i * x_side + m) * j->row;
        }
    j->k->rows(w->to, w->from, at, k, b, panels, add);
}

static const tinyi_mace_matrix *tinyi_mace_mix_of(const tinyi_mace_job *j, int t, int z)
{
    return j->p->mix[t] + (j->d->kind[t] == TGNN_MACE_PLAIN ? z * j->m->paths[t].n : 0);
}

/* ---- a layer */

static void tinyi_mace_readout(tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i0, int n)
{
    const tgnn_mace_desc *d = j->d;
    const int side = tinyi_mace_side(j, t + 1), read = j->p->read, panel = 2 * j->k->lanes;
    const size_t wide = (size_t)read * j->bytes;
    unsigned char *h = tinyi_mace_feature(j, j->h, t + 1, i0, 0);
    unsigned char *g = j->gradient ? tinyi_mace_feature(j, j->gh, t + 1, i0, 0) : NULL;
    int i, q;
    if (!tinyi_mace_nonlinear(d, t)) {
        for (i = 0; i < n; i++) {
            j->atoms[i0 + i] += j->k->dot(h + (size_t)(i * side) * j->row, j->p->readout[t], (size_t)j->p->width);
            if (g) j->k->axpy(g + (size_t)(i * side) * j->row, j->p->readout[t], 1.0, (size_t)j->p->width);
        }
        return;
    }
    for (i = 0; i < n; i++) {
        w->to[i] = w->z[0] + (size_t)i * wide;
        w->from[i] = h + (size_t)(i * side) * j->row;
    }
    j->k->rows(w->to, w->from, n, d->channels, j->p->readin.to, read / panel, 0);
    for (i = 0; i < n; i++) {
        memcpy(w->z[1] + (size_t)i * wide, j->p->readout[t], wide);         /* its slopes times the last row */
        tinyi_mace_silu(j, w->team, w->z[0] + (size_t)i * wide, w->z[1] + (size_t)i * wide, read);
        j->atoms[i0 + i] += j->k->dot(w->z[0] + (size_t)i * wide, j->p->readout[t], (size_t)read);
    }
    for (q = 0; g && q < n; q++) {
        w->to[q] = g + (size_t)(q * side) * j->row;
        w->from[q] = w->z[1] + (size_t)q * wide;
    }
    if (g) j->k->rows(w->to, w->from, n, d->readout, j->p->readin.back, j->p->panels, 1);
}

static void tinyi_mace_forward(tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i0, int n)
{
    const tgnn_mace_desc *d = j->d;
    const tinyi_mace_paths *s = &j->m->paths[t];
    const int z = j->element[i0], from = tinyi_mace_degree(d, t), to = tinyi_mace_degree(d, t + 1),
              side = tinyi_mace_side(j, t + 1), c = d->channels;
    unsigned char *message = j->message[t] + (size_t)i0 * (size_t)j->n_l * j->row;
    const tinyi_mace_matrix *mix = tinyi_mace_mix_of(j, t, z);
    int i, p, l;
    memset(w->a, 0, (size_t)(n * s->n_rows) * j->row);
    for (i = 0; i < n && d->zbl && !t; i++) {
        int64_t e;
        for (e = j->list.offset[i0 + i]; e < j->list.offset[i0 + i + 1]; e++)
            j->atoms[i0 + i] += 0.5 * j->repel[2 * (size_t)j->pair[e]];
    }
    for (i = 0; i < n; i++) {
        unsigned char *a = w->a + (size_t)(i * s->n_rows) * j->row;
        if (t) tinyi_mace_gather(j, w, t, i0 + i, a);
        else tinyi_mace_gather_first(j, w, i0 + i, a);
    }
    for (p = 0, l = -1; p < s->n; p++) {
        const tinyi_mace_path *path = &s->path[p];
        tinyi_mace_degree_rows(j, w, n, path->l3, message + (size_t)(path->l3 * path->l3) * j->row, j->n_l,
                               w->a + (size_t)path->row * j->row, s->n_rows, c, mix[p].to, j->p->panels,
                               path->l3 == l);
        l = path->l3;
    }
    for (i = 0; i < n; i++) {
        unsigned char *at = message + (size_t)(i * j->n_l) * j->row;
        if (d->density[t]) {
            double sum = 1.0;
            int64_t e;
            for (e = j->list.offset[i0 + i]; e < j->list.offset[i0 + i + 1]; e++)
                sum += j->density[t][2 * (size_t)j->pair[e]];
            j->crowd[t][i0 + i] = sum;
            /* x + (1 / sum - 1) x */
            j->k->axpy(at, at, 1.0 / sum - 1.0, (size_t)(j->n_l * j->p->width));
        }
        j->k->poly(w->b + (size_t)(i * side) * j->row, at, &j->m->poly[t], j->p->coef[t][z], (size_t)j->p->width);
    }
    for (l = 0; l <= to; l++) {
        unsigned char *h = tinyi_mace_feature(j, j->h, t + 1, i0, l);
        tinyi_mace_degree_rows(j, w, n, l, h, side, w->b + (size_t)(l * l) * j->row, side, c, j->p->out[t][l].to,
                               j->p->panels, 0);
        if (d->kind[t] == TGNN_MACE_RESIDUAL && l <= from)
            tinyi_mace_degree_rows(j, w, n, l, h, side,
                                   t ? tinyi_mace_feature(j, j->h, t, i0, l)
                                     : (const unsigned char *)j->p->embed + (size_t)z * j->row,
                                   t ? tinyi_mace_side(j, t) : 0, c, j->p->skip[t][z * TINYI_MACE_SIDE + l].to,
                                   j->p->panels, 1);
        if (t + 1 < d->layers)
            tinyi_mace_degree_rows(j, w, n, l, tinyi_mace_feature(j, j->up, t + 1, i0, l), side, h, side, c,
                                   j->p->up[t + 1][l].to, j->p->panels, 0);
    }
    tinyi_mace_readout(j, w, t, i0, n);
}

/* ---- gradients */

/* of the edges to atom i in the first layer: ga (n_y, width) is that by its sums */
static void tinyi_mace_scatter_first(tinyi_mace_job *j, tinyi_mace_own *w, tiny_idx i, const unsigned char *ga)
{
    const tgnn_mace_desc *d = j->d;
    const int wide = j->p->radial[d->n_radial - 1], panel = 2 * j->k->lanes;
    const int64_t end = j->list.offset[i + 1];
    int64_t e = j->list.offset[i];
    int l, m, q, n;
    memset(w->s, 0, (size_t)(j->p->n_y * wide) * j->bytes);
    for (; e < end; e += n) {
        const unsigned char *by = (const unsigned char *)j->p->first + (size_t)j->element[j->list.col[e]] * j->row;
        n = tinyi_mace_same(j, e, end);
        tinyi_mace_edges_y(j, e, n, 0, w->y);
        for (l = 0; l <= d->l_max; l++) {
            memset(w->g, 0, (size_t)(2 * l + 1) * j->row);
            j->k->muladd(w->g, ga + (size_t)(l * l) * j->row, by, 2 * l + 1, (size_t)j->p->width);
            for (m = 0; m < 2 * l + 1; m++) {
                w->to[m] = w->s + (size_t)((l * l + m) * wide) * j->bytes;
                w->from[m] = w->g + (size_t)m * j->row;
            }
            j->k->rows(w->to, w->from, 2 * l + 1, d->channels, j->p->weight[0][l].back, wide / panel, 0);
        }
        for (q = 0; q < n; q++)
            j->slope[e + q] += j->k->outer_back(j->gy + (size_t)(e + q) * (size_t)j->p->n_y * j->bytes, w->s,
                                                tinyi_mace_hidden(j, 0, j->pair[e + q], 0),
                                                tinyi_mace_hidden(j, 0, j->pair[e + q], 1),
                                                w->y + (size_t)(q * j->p->n_y) * j->bytes, j->p->n_y, wide);
    }
}

/* from the features after layer t to the sums over its edges */
static void tinyi_mace_back_atoms(tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i0, int n)
{
    const tgnn_mace_desc *d = j->d;
    const tinyi_mace_paths *s = &j->m->paths[t];
    const int z = j->element[i0], from = tinyi_mace_degree(d, t), to = tinyi_mace_degree(d, t + 1),
              side = tinyi_mace_side(j, t + 1), c = d->channels;
    const unsigned char *message = j->message[t] + (size_t)i0 * (size_t)j->n_l * j->row;
    const tinyi_mace_matrix *mix = tinyi_mace_mix_of(j, t, z);
    unsigned char *ga = t ? j->ga + (size_t)i0 * (size_t)s->n_rows * j->row : w->a;
    int i, p, l;
    for (l = 0; l <= to; l++) {
        const unsigned char *g = tinyi_mace_feature(j, j->gh, t + 1, i0, l);
        tinyi_mace_degree_rows(j, w, n, l, w->b + (size_t)(l * l) * j->row, side, g, side, c, j->p->out[t][l].back,
                               j->p->panels, 0);
        if (t && d->kind[t] == TGNN_MACE_RESIDUAL && l <= from)
            tinyi_mace_degree_rows(j, w, n, l, tinyi_mace_feature(j, j->gh, t, i0, l), tinyi_mace_side(j, t), g, side,
                                   c, j->p->skip[t][z * TINYI_MACE_SIDE + l].back, j->p->panels, 1);
    }
    for (i = 0; i < n; i++) {
        const unsigned char *x = message + (size_t)(i * j->n_l) * j->row;
        unsigned char *gm = w->gm + (size_t)(i * j->n_l) * j->row;
        j->k->poly_back(gm, w->b + (size_t)(i * side) * j->row, x, &j->m->poly[t], j->p->coef[t][z],
                        (size_t)j->p->width);
        if (d->density[t]) {
            const double crowd = j->crowd[t][i0 + i],
                         g = -j->k->dot(x, gm, (size_t)(j->n_l * j->p->width)) / crowd;
            int64_t e;
            for (e = j->list.offset[i0 + i]; e < j->list.offset[i0 + i + 1]; e++)
                j->slope[e] += g * j->density[t][2 * (size_t)j->pair[e] + 1];
            j->k->axpy(gm, gm, 1.0 / crowd - 1.0, (size_t)(j->n_l * j->p->width));
        }
    }
    for (p = 0; p < s->n; p++) {
        const tinyi_mace_path *path = &s->path[p];
        tinyi_mace_degree_rows(j, w, n, path->l3, ga + (size_t)path->row * j->row, s->n_rows,
                               w->gm + (size_t)(path->l3 * path->l3) * j->row, j->n_l, c, mix[p].back, j->p->panels, 0);
    }
    for (i = 0; !t && i < n; i++) tinyi_mace_scatter_first(j, w, i0 + i, ga + (size_t)(i * s->n_rows) * j->row);
}

/* of the edges that atom i sends in layer t, and of its features before that layer */
static void tinyi_mace_back_sender(tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i, unsigned char *gup)
{
    const tgnn_mace_desc *d = j->d;
    const tinyi_mace_paths *s = &j->m->paths[t];
    const int64_t end = j->list.offset[i + 1];
    const size_t width = (size_t)j->p->width;
    const unsigned char *up = tinyi_mace_feature(j, j->up, t, i, 0);
    int64_t e = j->list.offset[i];
    int q, n, p;
    for (; e < end; e += n) {
        n = (int)TINYI_MIN((int64_t)TINYI_MACE_EDGES, end - e);
        tinyi_mace_edges_y(j, e, n, 1, w->y);
        for (q = 0; q < n; q++) {
            j->k->couple(w->c + (size_t)(q * s->n_coefs) * j->bytes, w->y + (size_t)(q * j->p->n_y) * j->bytes,
                         s->term, s->n_terms, s->n_coefs);
            w->from[2 * q] = tinyi_mace_hidden(j, t, j->pair[e + q], 0);
            w->from[2 * q + 1] = tinyi_mace_hidden(j, t, j->pair[e + q], 1);
            w->to[2 * q] = w->r + (size_t)(2 * q) * j->row;
            w->to[2 * q + 1] = w->r + (size_t)(2 * q + 1) * j->row;
        }
        for (p = 0; p < s->n; p++) {
            const tinyi_mace_path *path = &s->path[p];
            const size_t at = (size_t)(path->l1 * path->l1) * j->row;
            j->k->rows(w->to, w->from, 2 * n, d->radial[d->n_radial - 1], j->p->weight[t][p].to, j->p->panels, 0);
            for (q = 0; q < n; q++) {
                const size_t c = (size_t)(q * s->n_coefs + path->at) * j->bytes;
                const unsigned char *g = j->ga + ((size_t)j->list.col[e + q] * (size_t)s->n_rows +
                                                  (size_t)path->row) * j->row;
                j->slope[j->list.reverse[e + q]] +=
                    j->k->unfold(gup + at, w->gc + c, 2 * path->l3 + 1, 2 * path->l1 + 1, width, w->to[2 * q],
                                 w->to[2 * q + 1], up + at, g, w->c + c);
            }
        }
        for (q = 0; q < n; q++)
            j->k->uncouple(j->gy + (size_t)j->list.reverse[e + q] * (size_t)j->p->n_y * j->bytes,
                           w->gc + (size_t)(q * s->n_coefs) * j->bytes, s->term, s->n_terms);
    }
}

static void tinyi_mace_back_senders(tinyi_mace_job *j, tinyi_mace_own *w, int t, tiny_idx i0, int n)
{
    const int side = tinyi_mace_side(j, t);
    int i, l;
    memset(w->gup, 0, (size_t)(n * side) * j->row);
    for (i = 0; i < n; i++) tinyi_mace_back_sender(j, w, t, i0 + i, w->gup + (size_t)(i * side) * j->row);
    for (l = 0; l <= tinyi_mace_degree(j->d, t); l++)
        tinyi_mace_degree_rows(j, w, n, l, tinyi_mace_feature(j, j->gh, t, i0, l), side,
                               w->gup + (size_t)(l * l) * j->row, side, j->d->channels, j->p->up[t][l].back,
                               j->p->panels, 1);
}

/* dE / dv of pairs: by the length, and by the harmonics of both directions */
static void tinyi_mace_pull(tinyi_mace_job *j, tiny_idx p0, tiny_idx p1)
{
    double y[(TGNN_MACE_L + 1) * (TGNN_MACE_L + 1)], dy[3 * (TGNN_MACE_L + 1) * (TGNN_MACE_L + 1)];
    tgnn_sph_harm_params sph = { 0, 0, 0 };
    tiny_idx p;
    sph.l_max = j->d->l_max;
    for (p = p0; p < p1; p++) {
        const int64_t e = j->edge[p], r = j->list.reverse[e];
        const double *v = j->list.vector + 3 * e;
        const double length = tinyi_sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        const unsigned char *a = j->gy + (size_t)e * (size_t)j->p->n_y * j->bytes,
                            *b = j->gy + (size_t)r * (size_t)j->p->n_y * j->bytes;
        double g[3];
        int k, l, m;
        for (k = 0; k < 3; k++)
            g[k] = (j->slope[e] + j->slope[r] + (j->d->zbl ? j->repel[2 * p + 1] : 0.0)) * v[k] / length;
        tinyi_sph_one(v, &sph, y, dy);
        for (l = 1; l <= j->d->l_max; l++)
            for (m = l * l; m < (l + 1) * (l + 1); m++) {
                const double back = tinyi_mace_read(j, b, (size_t)m),
                             both = tinyi_mace_read(j, a, (size_t)m) + (l & 1 ? -back : back);
                for (k = 0; k < 3; k++) g[k] += both * dy[k * j->n_l + m];
            }
        for (k = 0; k < 3; k++) j->pull[3 * p + k] = g[k] * j->d->scale;
    }
}

static void tinyi_mace_force(tinyi_mace_job *j, tiny_idx i)
{
    double f[3] = { 0.0, 0.0, 0.0 };
    int64_t e;
    int k;
    for (e = j->list.offset[i]; e < j->list.offset[i + 1]; e++) {
        const double *g = j->pull + 3 * (size_t)j->pair[e];
        for (k = 0; k < 3; k++) f[k] += e < j->list.reverse[e] ? -g[k] : g[k];
    }
    for (k = 0; k < 3; k++) j->forces[3 * i + k] = f[k];
}

/* ---- the run */

static int tinyi_mace_block(const tinyi_mace_job *j, tiny_idx b) { return (int)(j->block[b + 1] - j->block[b]); }

static void tinyi_mace_region(tiny_team *team, void *arg)
{
    tinyi_mace_job *j = (tinyi_mace_job *)arg;
    tinyi_mace_own w;
    tiny_idx b, b0, b1;
    int t;
    memset(&w, 0, sizeof w);
    w.team = team;
    tinyi_mace_own_lay(j, (unsigned char *)team->own, &w);
    team->ran_on = j->k->from;
    while (tiny_take(team, j->n_pairs, TINYI_MACE_PAIRS, &b0, &b1))
        for (b = b0; b < b1; b += TINYI_MACE_PAIRS) /* one thread may get all at once */
            tinyi_mace_pairs(j, &w, b, TINYI_MIN(b + TINYI_MACE_PAIRS, b1));
    tiny_barrier(team);
    for (t = 0; t < j->d->layers; t++) {
        while (tiny_take(team, j->n_blocks, 1, &b0, &b1))
            for (b = b0; b < b1; b++) tinyi_mace_forward(j, &w, t, j->block[b], tinyi_mace_block(j, b));
        tiny_barrier(team);
    }
    if (!j->gradient) return;
    for (t = j->d->layers - 1; t >= 0; t--) {
        while (tiny_take(team, j->n_blocks, 1, &b0, &b1))
            for (b = b0; b < b1; b++) tinyi_mace_back_atoms(j, &w, t, j->block[b], tinyi_mace_block(j, b));
        tiny_barrier(team);
        while (t && tiny_take(team, j->n_blocks, 1, &b0, &b1))
            for (b = b0; b < b1; b++) tinyi_mace_back_senders(j, &w, t, j->block[b], tinyi_mace_block(j, b));
        if (t) tiny_barrier(team);
    }
    while (tiny_take(team, j->n_pairs, TINYI_MACE_PAIRS, &b0, &b1)) tinyi_mace_pull(j, b0, b1);
    tiny_barrier(team);
    while (tiny_take(team, j->n, 64, &b0, &b1))
        for (b = b0; b < b1; b++) tinyi_mace_force(j, b);
}

static unsigned char *tinyi_mace_keep(tinyi_mace_job *j, double n, size_t each)
{
    unsigned char *to = j->memory ? j->memory + j->used : NULL;
    j->need += n * (double)each + 64.0;
    if (j->need < (double)(SIZE_MAX / 2)) j->used += ((size_t)n * each + 63) / 64 * 64;
    return to;
}

static void tinyi_mace_keep_all(tinyi_mace_job *j)
{
    const tgnn_mace_desc *d = j->d;
    const double n = (double)j->n, pairs = (double)j->n_pairs, edges = 2.0 * pairs;
    const int wide = j->p->radial[d->n_radial - 1];
    int t, rows = 0;
    j->used = 0;
    j->need = 0.0;
    j->atoms = (double *)(void *)tinyi_mace_keep(j, n, sizeof(double));
    j->y = tinyi_mace_keep(j, pairs * j->p->n_y, j->bytes);
    j->pair = (int32_t *)(void *)tinyi_mace_keep(j, edges, sizeof(int32_t));
    j->edge = (int64_t *)(void *)tinyi_mace_keep(j, pairs, sizeof(int64_t));
    j->repel = (double *)(void *)tinyi_mace_keep(j, d->zbl ? 2.0 * pairs : 0.0, sizeof(double));
    for (t = 0; t < d->layers; t++) {
        j->hide[t] = tinyi_mace_keep(j, 2.0 * pairs * wide, j->bytes);
        j->density[t] = (double *)(void *)tinyi_mace_keep(j, d->density[t] ? 2.0 * pairs : 0.0, sizeof(double));
        j->crowd[t] = (double *)(void *)tinyi_mace_keep(j, d->density[t] ? n : 0.0, sizeof(double));
        j->message[t] = tinyi_mace_keep(j, n * j->n_l, j->row);
        j->up[t] = tinyi_mace_keep(j, t ? n * tinyi_mace_side(j, t) : 0.0, j->row);
        j->h[t + 1] = tinyi_mace_keep(j, n * tinyi_mace_side(j, t + 1), j->row);
        if (t) rows = TINYI_MAX(rows, j->m->paths[t].n_rows);
    }
    if (!j->gradient) return;
    for (t = 1; t <= d->layers; t++) j->gh[t] = tinyi_mace_keep(j, n * tinyi_mace_side(j, t), j->row);
    j->ga = tinyi_mace_keep(j, n * rows, j->row);
    j->gy = tinyi_mace_keep(j, edges * j->p->n_y, j->bytes);
    j->slope = (double *)(void *)tinyi_mace_keep(j, edges, sizeof(double));
    j->pull = (double *)(void *)tinyi_mace_keep(j, 3.0 * pairs, sizeof(double));
    j->forces = (double *)(void *)tinyi_mace_keep(j, 3.0 * n, sizeof(double));
}

/* the atoms sorted by element of the model, their blocks, and which elements there are */
static tiny_status tinyi_mace_sort(tinyi_mace_job *j, tiny_ctx *ctx, const tgnn_structure *s, unsigned char *present,
                                   double *positions)
{
    tiny_idx start[TGNN_MACE_ELEMENTS + 1], i;
    int z, k;
    memset(start, 0, sizeof start);
    memset(present, 0, TGNN_MACE_ELEMENTS);
    for (i = 0; i < s->n; i++) {
        z = s->numbers[i];
        if (z < 1 || z > TGNN_MACE_ELEMENTS || j->m->place[z] < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "mace: atom %td (counted from 1) has the atomic number %d, which the model does not know",
                              i + 1, z);
        present[j->m->place[z]] = 1;
        start[j->m->place[z] + 1]++;
    }
    for (z = 0; z < j->d->n_elements; z++) start[z + 1] += start[z];
    for (i = 0; i < s->n; i++) {
        const tiny_idx at = start[j->m->place[s->numbers[i]]]++;
        j->order[at] = (int32_t)i;
        j->element[at] = j->m->place[s->numbers[i]];
        for (k = 0; k < 3; k++) positions[3 * at + k] = s->positions[3 * i + k];
    }
    j->n_blocks = 0;
    for (i = 0; i < s->n; i++)
        if (i == 0 || j->element[i] != j->element[i - 1] ||
            i - j->block[j->n_blocks - 1] == TINYI_MACE_ATOMS)
            j->block[j->n_blocks++] = (int32_t)i;
    j->block[j->n_blocks] = (int32_t)s->n;
    return TINY_OK;
}

static void tinyi_mace_give(const tinyi_mace_job *j, const tgnn_structure *s, double volume, const tgnn_mace_out *out)
{
    const double *e0 = j->m->param[j->m->energies].value;
    double sum = 0.0, virial[9];
    tiny_idx i, p;
    int k, q;
    for (i = 0; i < j->n; i++) {
        const tiny_idx at = j->order[i];
        const double e = e0[j->m->place[s->numbers[at]]] + (j->d->shift + j->d->scale * j->atoms[i]);
        if (out->atoms) out->atoms[at] = e;
        sum += e;
        if (j->gradient && out->forces) memcpy(out->forces + 3 * at, j->forces + 3 * i, 3 * sizeof(double));
    }
    if (out->energy) *out->energy = sum;
    if (!out->virial && !out->stress) return;
    memset(virial, 0, sizeof virial);
    for (p = 0; p < j->n_pairs; p++)
        for (k = 0; k < 3; k++)
            for (q = 0; q < 3; q++)
                virial[3 * k + q] -= j->list.vector[3 * j->edge[p] + k] * j->pull[3 * p + q];
    for (k = 0; k < 3; k++)
        for (q = 0; q < 3; q++) {           /* its antisymmetric part is a rotation, which costs no energy */
            const double v = 0.5 * (virial[3 * k + q] + virial[3 * q + k]);
            if (out->virial) out->virial[3 * k + q] = v;
            if (out->stress) out->stress[3 * k + q] = -v / volume;
        }
}

TINY_API tiny_status tgnn_mace_run(tiny_ctx *ctx, tgnn_mace *m, const tgnn_structure *s, tiny_dtype dtype,
                                   const tgnn_mace_out *out)
{
    unsigned char present[TGNN_MACE_ELEMENTS];
    tinyi_mace_job j;
    tinyi_mace_own own;
    tinyi_cell cell;
    tgnn_structure sorted;
    double *positions = NULL;
    tiny_idx e;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!m || !s || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: a model, a structure and an output are needed");
    if (m->ctx != ctx) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: the model belongs to another context");
    if (dtype != TINY_F32 && dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "mace: the type of the numbers must be f32 or f64");
    st = tinyi_cell_of(ctx, s, &cell);
    if (st) return st;
    if (s->n && !s->numbers) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: the atomic numbers are missing");
    if (out->stress && !(s->periodic[0] && s->periodic[1] && s->periodic[2]))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mace: stress needs a structure that is periodic in three directions");
    memset(&j, 0, sizeof j);
    memset(&own, 0, sizeof own);
    j.m = m;
    j.d = &m->desc;
    j.n = s->n;
    j.n_l = (j.d->l_max + 1) * (j.d->l_max + 1);
    j.gradient = out->forces || out->virial || out->stress;
    j.order = (int32_t *)tinyi_alloc(ctx, (size_t)s->n + 1, sizeof *j.order);
    j.element = (int32_t *)tinyi_alloc(ctx, (size_t)s->n + 1, sizeof *j.element);
    j.block = (int32_t *)tinyi_alloc(ctx, (size_t)s->n + 1, sizeof *j.block);
    positions = (double *)tinyi_alloc(ctx, (size_t)s->n + 1, 3 * sizeof *positions);
    if (!j.order || !j.element || !j.block || !positions) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_mace_sort(&j, ctx, s, present, positions);
    if (!st) {
        sorted = *s;
        sorted.positions = positions;
        st = tinyi_neighbours_sorted(ctx, &sorted, j.d->r_max, j.order, &j.list);
    }
    if (!st) st = tinyi_mace_plan_for(ctx, m, dtype == TINY_F64, present, &j.p);
    if (!st) {
        j.k = j.p->k;
        j.bytes = j.k->bytes;
        j.row = (size_t)j.p->width * j.bytes;
        j.n_pairs = j.list.n_edges / 2;
        for (e = 0; e < s->n; e++) j.element[e] = j.p->local[j.element[e]];
        tinyi_mace_keep_all(&j);
        if (j.need < (double)(SIZE_MAX / 2)) j.memory = (unsigned char *)tinyi_alloc(ctx, j.used, 1);
        else (void)tinyi_fail(ctx, TINY_E_OVERFLOW, "mace: the structure needs %.3g bytes", j.need);
        if (!j.memory) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        tiny_idx p = 0;
        tinyi_mace_keep_all(&j);
        for (e = 0; e < j.list.n_edges; e++)
            if (e < j.list.reverse[e]) {
                j.edge[p] = e;
                j.pair[e] = j.pair[j.list.reverse[e]] = (int32_t)p++;
            }
        memset(j.atoms, 0, (size_t)s->n * sizeof *j.atoms);
        if (j.gradient) {
            int t;
            for (t = 1; t <= j.d->layers; t++)
                memset(j.gh[t], 0, (size_t)s->n * (size_t)tinyi_mace_side(&j, t) * j.row);
            memset(j.gy, 0, (size_t)j.list.n_edges * (size_t)j.p->n_y * j.bytes);
            memset(j.slope, 0, (size_t)j.list.n_edges * sizeof *j.slope);
        }
        tinyi_mace_own_lay(&j, NULL, &own);
        st = tinyi_region_open(ctx, 0, 0, own.used, tinyi_mace_region, &j, 0);
    }
    if (!st) tinyi_mace_give(&j, s, cell.volume, out);
    tgnn_neighbours_free(ctx, &j.list);
    tiny_free(ctx, j.memory);
    tiny_free(ctx, j.order);
    tiny_free(ctx, j.element);
    tiny_free(ctx, j.block);
    tiny_free(ctx, positions);
    return st;
}
