/* src/gnn/equivariant/neighbours.c - neighbours by a list of cells (D. Allen, M. Tildesley, "Computer Simulation of
 * Liquids", 1987, section 5.3.2), for any cell
 * Method   Positions in units of the cell, wrapped into it, fall into boxes that are at least about `distance` wide
 *          where the cell is that large. The boxes that a sphere of that radius can reach are searched. Their number is
 *          carried over the borders, so a small cell is met again as its images. Each pair is found once and gives two
 *          edges. Two counting sorts order them by atom and neighbour.
 * Cost     O(n + pairs): about 6.4 distances for each neighbour that is found.
 * Error    vectors are those of the given positions, rounded once for each product with the cell. */
#include <math.h>                           /* INFINITY; no function of it is called */
#include <string.h>
#include "gnn/equivariant/neighbours.h"
#include "core/state_inside.h"
#include "math/elem.h"

#define TINYI_NB_FAR 1e6                    /* cells from the origin */
#define TINYI_NB_REACH 4e6                  /* boxes around an atom */
#define TINYI_NB_FLAT 1e-6                  /* volume over the product of the edges: a smaller cell is flat */

TINY_REF_BEGIN
static int tinyi_nb_finite(double x) { return x - x == 0.0; }
static double tinyi_nb_floor(double x)
{
    const double whole = (double)(int64_t)x;
    return whole > x ? whole - 1.0 : whole;
}
static void tinyi_nb_cross(const double *a, const double *b, double *c)
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}
static double tinyi_nb_length(const double *a) { return tinyi_sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

/* rows of directions without period: units that are at right angles to the periodic ones and to each other */
static void tinyi_nb_complete(const int *periodic, double *row)
{
    int k, best = 0, n = 0;
    for (k = 0; k < 3; k++) n += periodic[k] != 0;
    if (n == 3) return;
    if (n == 0) {
        for (k = 0; k < 9; k++) row[k] = k % 4 == 0;
        return;
    }
    for (k = 0; k < 3; k++) {
        double *to = row + 3 * k, *a = row + 3 * ((k + 1) % 3), *b = row + 3 * ((k + 2) % 3), length;
        int j;
        if (periodic[k]) continue;
        if (n == 1) {                       /* b, or a, is not there yet: the axis that is least along the other one */
            double *known = periodic[(k + 1) % 3] ? a : b, axis[3] = { 0, 0, 0 };
            for (j = 1; j < 3; j++)
                if ((known[j] < 0 ? -known[j] : known[j]) < (known[best] < 0 ? -known[best] : known[best])) best = j;
            axis[best] = 1.0;
            tinyi_nb_cross(known, axis, to);
        } else tinyi_nb_cross(a, b, to);
        length = tinyi_nb_length(to);
        for (j = 0; j < 3; j++) to[j] /= length;
        n++;
    }
}

TINYI_FN tiny_status tinyi_cell_of(tiny_ctx *ctx, const tgnn_structure *s, tinyi_cell *cell)
{
    double edges = 1.0, c[3];
    int k, j, any = 0;
    tiny_idx i;
    if (s->n < 0 || s->n > 0x3fffffff)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "structure: %td atoms, there can be 0 to %d", s->n, 0x3fffffff);
    if (s->n && !s->positions) return tinyi_fail(ctx, TINY_E_ARGUMENT, "structure: the positions are missing");
    for (i = 0; i < 3 * s->n; i++)
        if (!tinyi_nb_finite(s->positions[i]))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "structure: the position of atom %td (counted from 1) is not finite",
                              i / 3 + 1);
    for (k = 0; k < 3; k++) any |= s->periodic[k];
    memset(cell, 0, sizeof *cell);
    if (any && !s->cell)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "structure: it is periodic, but its cell is missing");
    for (k = 0; k < 3; k++)
        if (s->periodic[k]) {
            memcpy(cell->row + 3 * k, s->cell + 3 * k, 3 * sizeof(double));
            for (j = 0; j < 3; j++)
                if (!tinyi_nb_finite(cell->row[3 * k + j]) || cell->row[3 * k + j] > 1e6 || cell->row[3 * k + j] < -1e6)
                    return tinyi_fail(ctx, TINY_E_NUMERIC,
                                      "structure: row %d of the cell is not finite, or longer than a million", k + 1);
            edges *= tinyi_nb_length(cell->row + 3 * k);
        }
    if (any && edges == 0.0)
        return tinyi_fail(ctx, TINY_E_NUMERIC,
                          "structure: a periodic row of the cell is zero, so the cell has no volume");
    /* The units that are added leave the size of the volume that of the periodic rows: their length or area. */
    tinyi_nb_complete(s->periodic, cell->row);
    tinyi_nb_cross(cell->row + 3, cell->row + 6, c);
    cell->volume = cell->row[0] * c[0] + cell->row[1] * c[1] + cell->row[2] * c[2];
    {
        const double size = cell->volume < 0 ? -cell->volume : cell->volume;
        /* the unit row of two flat ones is 0 / 0 */
        if (!(size > TINYI_NB_FLAT * edges))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "structure: the cell has no volume: its periodic rows lie in a plane or on a line");
    }
    for (k = 0; k < 3; k++) {
        tinyi_nb_cross(cell->row + 3 * ((k + 1) % 3), cell->row + 3 * ((k + 2) % 3), c);
        for (j = 0; j < 3; j++) cell->inverse[3 * j + k] = c[j] / cell->volume;
        cell->height[k] = (cell->volume < 0 ? -cell->volume : cell->volume) / tinyi_nb_length(c);
    }
    if (cell->volume < 0) cell->volume = -cell->volume;
    return TINY_OK;
}

typedef struct tinyi_nb {                   /* a search */
    tiny_ctx *ctx;
    const tgnn_structure *s;
    const int32_t *order;
    tinyi_cell cell;
    double square, lo[3];                   /* of the distance; where the boxes begin, in units of the cell */
    int n_box[3], reach[3];
    double *frac;                           /* (n, 3), wrapped where it is periodic */
    int32_t *wrap, *next, *head;            /* (n, 3): cells that were taken away; chains of boxes */
    int32_t *pair;                          /* (n_pairs, 5): i, j, shift */
    size_t n_pairs, room;
} tinyi_nb;

/* of an atom in sentences */
static tiny_idx tinyi_nb_number(const tinyi_nb *w, tiny_idx i) { return (w->order ? (tiny_idx)w->order[i] : i) + 1; }

static tiny_status tinyi_nb_add(tinyi_nb *w, tiny_idx i, tiny_idx j, const int *image)
{
    int32_t *p;
    int k;
    if (w->n_pairs == w->room) {
        const size_t room = w->room ? 2 * w->room : (size_t)w->s->n * 16 + 64;
        int32_t *more = NULL;
        if (w->n_pairs > 0x3fffffff)
            return tinyi_fail(w->ctx, TINY_E_OVERFLOW, "structure: more than %d pairs of neighbours", 0x3fffffff);
        more = (int32_t *)tinyi_alloc(w->ctx, room, 5 * sizeof *more);
        if (!more) return tiny_ctx_status(w->ctx);
        if (w->n_pairs) memcpy(more, w->pair, w->n_pairs * 5 * sizeof *more);
        tiny_free(w->ctx, w->pair);
        w->pair = more;
        w->room = room;
    }
    p = w->pair + 5 * w->n_pairs++;
    p[0] = (int32_t)i;
    p[1] = (int32_t)j;
    for (k = 0; k < 3; k++) p[2 + k] = image[k] + w->wrap[3 * i + k] - w->wrap[3 * j + k];
    return TINY_OK;
}

/* r_i - (r_j + shift cell) of a pair */
static void tinyi_nb_vector(const tinyi_nb *w, const int32_t *p, double *v)
{
    const double *a = w->s->positions + 3 * (size_t)p[0], *b = w->s->positions + 3 * (size_t)p[1];
    int k, j;
    for (j = 0; j < 3; j++) {
        double to = 0.0;
        for (k = 0; k < 3; k++) if (p[2 + k]) to += p[2 + k] * w->cell.row[3 * k + j];
        v[j] = (a[j] - b[j]) - to;
    }
}

/* the boxes: sizes, and the chain of each */
static tiny_status tinyi_nb_boxes(tinyi_nb *w, double distance)
{
    const tiny_idx n = w->s->n;
    double hi[3], reach = 1.0, boxes = 1.0, width[3];
    int k;
    tiny_idx i;
    for (k = 0; k < 3; k++) {
        w->lo[k] = w->s->periodic[k] ? 0.0 : (double)INFINITY;
        hi[k] = w->s->periodic[k] ? 1.0 : -(double)INFINITY;
    }
    for (i = 0; i < n; i++)
        for (k = 0; k < 3; k++) {
            const double *x = w->s->positions + 3 * i;
            double f = x[0] * w->cell.inverse[k] + x[1] * w->cell.inverse[3 + k] + x[2] * w->cell.inverse[6 + k];
            if (!(f < TINYI_NB_FAR && f > -TINYI_NB_FAR))
                return tinyi_fail(w->ctx, TINY_E_NUMERIC,
                                  "structure: atom %td (counted from 1) is more than a million %s away",
                                  tinyi_nb_number(w, i), w->s->periodic[k] ? "cells" : "lengths");
            w->wrap[3 * i + k] = 0;
            if (w->s->periodic[k]) {
                const double whole = tinyi_nb_floor(f);
                w->wrap[3 * i + k] = (int32_t)whole;
                f -= whole;
                if (f >= 1.0) f = 0.0;      /* a tiny negative number rounds up to 1; the edge is the same */
            } else {
                if (f < w->lo[k]) w->lo[k] = f;
                if (f > hi[k]) hi[k] = f;
            }
            w->frac[3 * i + k] = f;
        }
    for (k = 0; k < 3; k++) {
        const double span = hi[k] - w->lo[k], size = span * w->cell.height[k];
        w->n_box[k] = size < 2.0 * distance ? 1 : size > 1000.0 * distance ? 1000 : (int)(size / distance);
        width[k] = size;
    }
    while ((boxes = (double)w->n_box[0] * w->n_box[1] * w->n_box[2]) > 2.0 * (double)n + 64.0) {
        k = w->n_box[0] >= w->n_box[1] && w->n_box[0] >= w->n_box[2] ? 0 : w->n_box[1] >= w->n_box[2] ? 1 : 2;
        w->n_box[k] = (w->n_box[k] + 1) / 2;
    }
    for (k = 0; k < 3; k++) {
        const double each = width[k] / w->n_box[k], r = each > 0.0 ? distance / each : 0.0;
        if (w->s->periodic[k]) {
            reach *= 2.0 * r + 3.0;
            w->reach[k] = r < 1e6 ? (int)r + 1 : 1000000;
        } else w->reach[k] = r < w->n_box[k] ? (int)r + 1 : w->n_box[k];
    }
    if (reach > TINYI_NB_REACH)
        return tinyi_fail(w->ctx, TINY_E_ARGUMENT,
                          "structure: the cell is so small that it has %.3g images within the distance of %g, the "
                          "limit is %g", reach, distance, TINYI_NB_REACH);
    w->head = (int32_t *)tinyi_alloc(w->ctx, (size_t)boxes, sizeof *w->head);
    if (!w->head) return tiny_ctx_status(w->ctx);
    for (i = 0; i < (tiny_idx)boxes; i++) w->head[i] = -1;
    for (i = n; i-- > 0;) {
        int box[3];
        tiny_idx at;
        for (k = 0; k < 3; k++) {
            const double span = hi[k] - w->lo[k];
            const double part = span > 0.0 ? (w->frac[3 * i + k] - w->lo[k]) / span * w->n_box[k] : 0.0;
            box[k] = (int)part < w->n_box[k] ? (int)part : w->n_box[k] - 1;
        }
        at = ((tiny_idx)box[0] * w->n_box[1] + box[1]) * w->n_box[2] + box[2];
        w->next[i] = w->head[at];
        w->head[at] = (int32_t)i;
    }
    return TINY_OK;
}

/* pairs of atom i, which is in box[], with those of the box `at` in the image: j > i, or i with a later image */
static tiny_status tinyi_nb_meet(tinyi_nb *w, tiny_idx i, tiny_idx at, const int *image, tiny_idx *found)
{
    const int later = image[0] ? image[0] > 0 : image[1] ? image[1] > 0 : image[2] > 0;
    int32_t j;
    for (j = w->head[at]; j >= 0; j = w->next[j]) {
        const double *a = w->frac + 3 * i, *b = w->frac + 3 * (size_t)j;
        double d[3], square = 0.0;
        int32_t p[5];
        int k, m;
        tiny_status st;
        if (j < i || (j == i && !later)) continue;
        for (k = 0; k < 3; k++) d[k] = a[k] - b[k] - image[k];
        for (m = 0; m < 3; m++) {
            const double x = d[0] * w->cell.row[m] + d[1] * w->cell.row[3 + m] + d[2] * w->cell.row[6 + m];
            square += x * x;
        }
        if (square > w->square * 1.0000001) continue;
        p[0] = (int32_t)i;
        p[1] = j;
        for (k = 0; k < 3; k++) p[2 + k] = image[k] + w->wrap[3 * i + k] - w->wrap[3 * j + k];
        tinyi_nb_vector(w, p, d);
        square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        if (!(square < w->square)) continue;
        if (square < 1e-20)
            return tinyi_fail(w->ctx, TINY_E_NUMERIC, "structure: atoms %td and %td (counted from 1) are in one place",
                              TINYI_MIN(tinyi_nb_number(w, i), tinyi_nb_number(w, j)),
                              TINYI_MAX(tinyi_nb_number(w, i), tinyi_nb_number(w, j)));
        if (++*found > TGNN_NEIGHBOURS_MOST)
            return tinyi_fail(w->ctx, TINY_E_ARGUMENT,
                              "structure: atom %td (counted from 1) has more than %d neighbours: the cell is too small "
                              "or the distance too large", tinyi_nb_number(w, i), TGNN_NEIGHBOURS_MOST);
        st = tinyi_nb_add(w, i, j, image);
        if (st) return st;
    }
    return TINY_OK;
}

static tiny_status tinyi_nb_search(tinyi_nb *w)
{
    tiny_idx i, found;
    int box[3], d[3], to[3], image[3], k;
    tiny_status st = TINY_OK;
    for (box[0] = 0; !st && box[0] < w->n_box[0]; box[0]++)
        for (box[1] = 0; !st && box[1] < w->n_box[1]; box[1]++)
            for (box[2] = 0; !st && box[2] < w->n_box[2]; box[2]++) {
                const tiny_idx here = ((tiny_idx)box[0] * w->n_box[1] + box[1]) * w->n_box[2] + box[2];
                if (w->ctx->desc.cancel && w->ctx->desc.cancel(w->ctx->desc.user))
                    return tinyi_fail(w->ctx, TINY_E_CANCELLED, "structure: cancelled while neighbours were searched");
                for (i = w->head[here]; !st && i >= 0; i = w->next[i]) {
                    found = 0;
                    for (d[0] = -w->reach[0]; !st && d[0] <= w->reach[0]; d[0]++)
                        for (d[1] = -w->reach[1]; !st && d[1] <= w->reach[1]; d[1]++)
                            for (d[2] = -w->reach[2]; !st && d[2] <= w->reach[2]; d[2]++) {
                                int inside = 1;
                                for (k = 0; k < 3; k++) {
                                    const int n = w->n_box[k];
                                    to[k] = box[k] + d[k];
                                    image[k] = 0;
                                    if (to[k] >= 0 && to[k] < n) continue;
                                    if (!w->s->periodic[k]) inside = 0;
                                    image[k] = to[k] >= 0 ? to[k] / n : -((n - 1 - to[k]) / n);
                                    to[k] -= image[k] * n;
                                }
                                if (inside)
                                    st = tinyi_nb_meet(w, i,
                                                       ((tiny_idx)to[0] * w->n_box[1] + to[1]) * w->n_box[2] + to[2],
                                                       image, &found);
                            }
                }
            }
    return st;
}

/* Edge 2 p is that of the first atom of pair p, 2 p + 1 that of the second one. Its atom, or with `other` its
 * neighbour. */
static size_t tinyi_nb_end(const tinyi_nb *w, size_t e, size_t other)
{
    return (size_t)w->pair[5 * (e / 2) + ((e ^ other) & 1)];
}

/* where the edges with each atom at that end begin */
static void tinyi_nb_count(const tinyi_nb *w, size_t other, int64_t *start)
{
    const size_t n = (size_t)w->s->n;
    size_t e;
    memset(start, 0, (n + 1) * sizeof *start);
    for (e = 0; e < 2 * w->n_pairs; e++) start[tinyi_nb_end(w, e, other) + 1]++;
    for (e = 0; e < n; e++) start[e + 1] += start[e];
}

/* sorted by neighbour, then by atom; order and place stay in the pairs' numbers until the end */
static tiny_status tinyi_nb_sort(tinyi_nb *w, tgnn_neighbours *out)
{
    const size_t n = (size_t)w->s->n, m = 2 * w->n_pairs;
    int64_t *start = NULL, *order = NULL, *place = NULL;
    size_t e, i;
    tiny_status st = TINY_OK;
    int k;
    out->n = w->s->n;
    out->n_edges = (tiny_idx)m;
    out->offset = (int64_t *)tinyi_alloc(w->ctx, n + 1, sizeof *out->offset);
    out->col = (int32_t *)tinyi_alloc(w->ctx, m + 1, sizeof *out->col);
    out->shift = (int32_t *)tinyi_alloc(w->ctx, m + 1, 3 * sizeof *out->shift);
    out->reverse = (int64_t *)tinyi_alloc(w->ctx, m + 1, sizeof *out->reverse);
    out->vector = (double *)tinyi_alloc(w->ctx, m + 1, 3 * sizeof *out->vector);
    start = (int64_t *)tinyi_alloc(w->ctx, n + 1, sizeof *start);
    order = (int64_t *)tinyi_alloc(w->ctx, m + 1, sizeof *order);
    place = (int64_t *)tinyi_alloc(w->ctx, m + 1, sizeof *place);
    if (!out->offset || !out->col || !out->shift || !out->reverse || !out->vector || !start || !order || !place)
        st = tiny_ctx_status(w->ctx);
    if (!st) {
        tinyi_nb_count(w, 1, start);
        for (e = 0; e < m; e++) order[start[tinyi_nb_end(w, e, 1)]++] = (int64_t)e;
        tinyi_nb_count(w, 0, start);
        memcpy(out->offset, start, (n + 1) * sizeof *start);
        for (i = 0; i < m; i++) place[order[i]] = start[tinyi_nb_end(w, (size_t)order[i], 0)]++;
    }
    for (e = 0; !st && e < m; e++) {
        const int32_t *p = w->pair + 5 * (e / 2);
        const size_t at = (size_t)place[e];
        double v[3];
        tinyi_nb_vector(w, p, v);
        out->col[at] = p[1 - (e & 1)];
        out->reverse[at] = place[e ^ 1];
        for (k = 0; k < 3; k++) {
            out->shift[3 * at + (size_t)k] = e & 1 ? -p[2 + k] : p[2 + k];
            out->vector[3 * at + (size_t)k] = e & 1 ? -v[k] : v[k];
        }
    }
    tiny_free(w->ctx, start);
    tiny_free(w->ctx, order);
    tiny_free(w->ctx, place);
    return st;
}
TINY_REF_END

TINY_API void tgnn_neighbours_free(tiny_ctx *ctx, tgnn_neighbours *list)
{
    if (!list || tinyi_ctx_check(ctx)) return;
    tiny_free(ctx, list->offset);
    tiny_free(ctx, list->col);
    tiny_free(ctx, list->shift);
    tiny_free(ctx, list->reverse);
    tiny_free(ctx, list->vector);
    memset(list, 0, sizeof *list);
}

TINY_API tiny_status tgnn_neighbours_find(tiny_ctx *ctx, const tgnn_structure *s, double distance,
                                          tgnn_neighbours *out)
{
    return tinyi_neighbours_sorted(ctx, s, distance, NULL, out);
}

TINYI_FN tiny_status tinyi_neighbours_sorted(tiny_ctx *ctx, const tgnn_structure *s, double distance,
                                             const int32_t *order, tgnn_neighbours *out)
{
    tinyi_nb w;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!s || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "neighbours: a structure and an output are needed");
    if (!(distance > 0.0 && distance < 1000.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "neighbours: the distance is %g, it must be above 0 and below 1000",
                          distance);
    memset(&w, 0, sizeof w);
    w.ctx = ctx;
    w.s = s;
    w.order = order;
    w.square = distance * distance;
    st = tinyi_cell_of(ctx, s, &w.cell);
    if (st) return st;
    w.frac = (double *)tinyi_alloc(ctx, (size_t)s->n + 1, 3 * sizeof *w.frac);
    w.wrap = (int32_t *)tinyi_alloc(ctx, (size_t)s->n + 1, 3 * sizeof *w.wrap);
    w.next = (int32_t *)tinyi_alloc(ctx, (size_t)s->n + 1, sizeof *w.next);
    if (!w.frac || !w.wrap || !w.next) st = tiny_ctx_status(ctx);
    if (!st && s->n) st = tinyi_nb_boxes(&w, distance);
    if (!st && s->n) st = tinyi_nb_search(&w);
    if (!st) st = tinyi_nb_sort(&w, out);
    tiny_free(ctx, w.frac);
    tiny_free(ctx, w.wrap);
    tiny_free(ctx, w.next);
    tiny_free(ctx, w.head);
    tiny_free(ctx, w.pair);
    if (st) tgnn_neighbours_free(ctx, out);
    return st;
}
