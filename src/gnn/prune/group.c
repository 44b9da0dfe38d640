/* src/gnn/prune/group.c - groups of channels that depend on each other, and their removal
 * Paper    G. Fang et al., "DepGraph: Towards Any Structural Pruning", 2023 (arXiv 2301.12900): groups, and the norm of
 *          a group. Used by Y. Liu et al., "Meta Pruning via Graph Metanetworks", 2025 (arXiv 2506.12041).
 * Formula  see gnn/prune/group.h. A network here ties channels only by shortcuts, so groups are found by uniting the
 *          signals of each shortcut without weights.
 * Cost     importance reads each weight twice; choosing does that once a step. */
#include "gnn/prune/group.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

TINY_API tiny_idx tgnn_cnn_node(const tgnn_cnn *cnn, size_t signal)
{
    tiny_idx at = 0;
    size_t k;
    for (k = 0; k < signal; k++) at += tgnn_cnn_channels(cnn, k);
    return at;
}
TINY_API tiny_idx tgnn_cnn_nodes(const tgnn_cnn *cnn)
{
    return cnn ? tgnn_cnn_node(cnn, tgnn_cnn_is(cnn)->n_layer + 1) : 0;
}

TINY_API void tgnn_cnn_ties(const tgnn_cnn *cnn, size_t *group)
{
    const tgnn_cnn_desc *is = tgnn_cnn_is(cnn);
    size_t i, k;
    if (!cnn || !group) return;
    for (k = 0; k <= is->n_layer; k++) group[k] = k;
    for (i = 0; i < is->n_layer; i++) {
        const size_t a = group[i + 1], b = is->layer[i].add && !is->layer[i].side ? group[is->layer[i].add] : a;
        const size_t low = TINYI_MIN(a, b), high = TINYI_MAX(a, b);
        for (k = 0; low != high && k <= is->n_layer; k++)
            if (group[k] == high) group[k] = low;
    }
}

TINY_API int tgnn_cnn_free(const tgnn_cnn *cnn, const size_t *group, size_t signal)
{
    return cnn && group && group[signal] != group[0] && group[signal] != group[tgnn_cnn_is(cnn)->n_layer];
}

/* Adds, to sum[c], the squares of row c (axis 0) or column c (axis 1) of a weight. Rows and columns that are gone do
 * not count. keep_row, keep_column: of the channels that the axes stand for; NULL: all. */
static void tinyi_group_squares(const tiny_tensor *w, int axis, const unsigned char *keep_row,
                                const unsigned char *keep_column, double *sum)
{
    const tiny_idx rows = w->dim[0], columns = w->rank > 1 ? w->dim[1] : 1;
    const tiny_idx taps = w->rank > 2 ? w->dim[2] * w->dim[3] : 1;
    tiny_idx r, c, t;
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++) {
            double s = 0.0;
            if ((keep_row && !keep_row[r]) || (keep_column && !keep_column[c])) continue;
            for (t = 0; t < taps; t++) {
                const double x = tinyi_real(w->data, w->dtype, (r * columns + c) * taps + t);
                s += x * x;
            }
            sum[axis ? c : r] += s;
        }
}

TINY_API tiny_status tgnn_cnn_importance(const tgnn_cnn *cnn, const unsigned char *keep, int plain, double *importance)
{
    size_t group[TGNN_CNN_LAYERS + 1], members[TGNN_CNN_LAYERS + 1], i, k;
    double *of[TGNN_CNN_LAYERS + 1], most;
    const unsigned char *left[TGNN_CNN_LAYERS + 1];
    const tgnn_cnn_desc *is = tgnn_cnn_is(cnn);
    const tgnn_cnn_at *at = tgnn_cnn_layers(cnn);
    const tiny_param *p = tgnn_cnn_params(cnn, NULL, NULL);
    tiny_idx c, n;
    if (!cnn) return TINY_E_ARGUMENT;
    if (!importance)
        return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT, "prune: a place for the importance is needed");
    tgnn_cnn_ties(cnn, group);
    for (c = 0; c < tgnn_cnn_nodes(cnn); c++) importance[c] = 0.0;
    for (k = 0; k <= is->n_layer; k++) {    /* the sums of a group are those of its first signal */
        members[k] = 0;
        left[k] = keep ? keep + tgnn_cnn_node(cnn, k) : NULL;
        of[k] = importance + tgnn_cnn_node(cnn, group[k]);
    }
    for (i = 0; i < is->n_layer; i++) {     /* layer i reads signal i, makes i + 1, and its side reads `add` */
        const size_t made = i + 1, added = (size_t)is->layer[i].add;
        tinyi_group_squares(&p[at[i].weight].value, 0, left[made], left[i], of[made]);
        tinyi_group_squares(&p[at[i].weight].value, 1, left[made], left[i], of[i]);
        members[group[made]]++;
        members[group[i]]++;
        if (at[i].gain >= 0) {
            tinyi_group_squares(&p[at[i].gain].value, 0, left[made], NULL, of[made]);
            members[group[made]]++;
        }
        if (at[i].side < 0) continue;
        tinyi_group_squares(&p[at[i].side].value, 0, left[made], left[added], of[made]);
        tinyi_group_squares(&p[at[i].side].value, 1, left[made], left[added], of[added]);
        tinyi_group_squares(&p[at[i].side_gain].value, 0, left[made], NULL, of[made]);
        members[group[made]] += 2;
        members[group[added]]++;
    }
    for (k = 0; k <= is->n_layer; k++) {
        if (group[k] != k) {
            memcpy(importance + tgnn_cnn_node(cnn, k), of[k], (size_t)tgnn_cnn_channels(cnn, k) * sizeof *importance);
            continue;
        }
        n = tgnn_cnn_channels(cnn, k);
        for (most = 0.0, c = 0; c < n; c++) {
            of[k][c] = tgnn_cnn_free(cnn, group, k) ? tinyi_sqrt64(of[k][c] / (double)members[k]) : 0.0;
            most = TINYI_MAX(most, of[k][c]);
            if (of[k][c] != of[k][c])
                return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_NUMERIC,
                                  "prune: channel %td of signal %zu has NaN weights", c, k);
        }
        for (c = 0; !plain && most > 0.0 && c < n; c++) of[k][c] /= most;
    }
    return TINY_OK;
}

TINY_API double tgnn_cnn_flops_kept(const tgnn_cnn *cnn, const unsigned char *keep)
{
    const tgnn_cnn_desc *is = tgnn_cnn_is(cnn);
    const tgnn_cnn_at *at = tgnn_cnn_layers(cnn);
    double n[TGNN_CNN_LAYERS + 1], f = 0.0;
    size_t i, k;
    tiny_idx c;
    if (!cnn || !keep) return 0.0;
    for (k = 0; k <= is->n_layer; k++)
        for (n[k] = 0.0, c = 0; c < tgnn_cnn_channels(cnn, k); c++) n[k] += keep[tgnn_cnn_node(cnn, k) + c] != 0;
    for (i = 0; i < is->n_layer; i++) {
        const double taps = is->layer[i].size ? (double)(is->layer[i].size * is->layer[i].size) : 1.0;
        const double places = (double)(at[i].shape[1] * at[i].shape[2]);
        f += 2.0 * taps * places * n[i] * n[i + 1];
        if (at[i].side >= 0) f += 2.0 * places * n[is->layer[i].add] * n[i + 1];
    }
    return f;
}

TINY_API tiny_status tgnn_cnn_choose(const tgnn_cnn *cnn, const tgnn_cut_desc *desc, unsigned char *keep)
{
    size_t group[TGNN_CNN_LAYERS + 1], k, q;
    tiny_idx left[TGNN_CNN_LAYERS + 1], c, all = 0, gone = 0, due;
    double *importance, whole;
    tiny_ctx *ctx;
    int step, steps;
    tiny_status st = TINY_OK;
    if (!cnn) return TINY_E_ARGUMENT;
    ctx = tinyi_cnn_ctx(cnn);
    if (!desc || !keep || !(desc->speedup >= 1.0 && desc->speedup < 1e9) || desc->steps < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "prune: a speed-up of %g in %d steps; at least 1 is allowed",
                          desc ? desc->speedup : 0.0, desc ? desc->steps : 0);
    steps = desc->steps ? desc->steps : 200;
    importance = (double *)tinyi_alloc(ctx, (size_t)tgnn_cnn_nodes(cnn), sizeof *importance);
    if (!importance) return tiny_ctx_status(ctx);
    memset(keep, 1, (size_t)tgnn_cnn_nodes(cnn));
    tgnn_cnn_ties(cnn, group);
    whole = tgnn_cnn_flops_kept(cnn, keep);
    for (k = 0; k <= tgnn_cnn_is(cnn)->n_layer; k++) {
        left[k] = tgnn_cnn_channels(cnn, k);
        if (group[k] == k && tgnn_cnn_free(cnn, group, k)) all += left[k];
    }
    for (step = 1; !st && whole < desc->speedup * tgnn_cnn_flops_kept(cnn, keep); step++) {
        due = (tiny_idx)((double)all * (double)step / (double)steps + 0.5);
        if (step > steps) {
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "prune: one channel of each signal is left, and the speed-up is "
                                                  "%.2f, not %.2f", whole / tgnn_cnn_flops_kept(cnn, keep),
                            desc->speedup);
            break;
        }
        if (gone < due) st = tgnn_cnn_importance(cnn, keep, 0, importance);
        while (!st && gone < due) {         /* the lowest of all groups; of equal ones the first */
            size_t best = 0;
            tiny_idx best_c = -1;
            double least = 0.0;
            for (k = 1; k < tgnn_cnn_is(cnn)->n_layer; k++)
                for (c = 0; group[k] == k && tgnn_cnn_free(cnn, group, k) && left[k] > 1 &&
                            c < tgnn_cnn_channels(cnn, k); c++) {
                    const tiny_idx node = tgnn_cnn_node(cnn, k) + c;
                    if (keep[node] && (best_c < 0 || importance[node] < least)) {
                        best = k;
                        best_c = c;
                        least = importance[node];
                    }
                }
            if (best_c < 0) break;
            for (q = 0; q <= tgnn_cnn_is(cnn)->n_layer; q++)
                if (group[q] == best) keep[tgnn_cnn_node(cnn, q) + best_c] = 0;
            left[best]--;
            gone++;
        }
    }
    tiny_free(ctx, importance);
    return st;
}

/* ---- removal: of every tensor the rows and columns that stay */

typedef struct tinyi_group_part { int param; size_t row, column; } tinyi_group_part;    /* signals of its axes */

/* every tensor of layer i with the signals of its axes; returns their number */
static int tinyi_group_parts(const tgnn_cnn *cnn, size_t i, tinyi_group_part part[10])
{
    const tgnn_cnn_at *a = tgnn_cnn_layers(cnn) + i;
    const int param[10] = { a->weight, a->gain, a->bias, a->mean, a->variance,
                            a->side, a->side_gain, a->side_bias, a->side_mean, a->side_variance };
    int k, n = 0;
    for (k = 0; k < 10; k++) {
        if (param[k] < 0) continue;
        part[n].param = param[k];
        part[n].row = i + 1;
        part[n++].column = k == 0 ? i : (size_t)tgnn_cnn_is(cnn)->layer[i].add;
    }
    return n;
}

static tiny_status tinyi_group_check(const tgnn_cnn *cnn, const unsigned char *keep)
{
    size_t group[TGNN_CNN_LAYERS + 1], k;
    tiny_idx c;
    if (!keep) return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT, "prune: the channels to keep are missing");
    tgnn_cnn_ties(cnn, group);
    for (k = 0; k <= tgnn_cnn_is(cnn)->n_layer; k++) {
        const unsigned char *mine = keep + tgnn_cnn_node(cnn, k), *first = keep + tgnn_cnn_node(cnn, group[k]);
        tiny_idx n = 0;
        for (c = 0; c < tgnn_cnn_channels(cnn, k); c++) {
            n += mine[c] != 0;
            if (!mine[c] != !first[c])
                return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT,
                                  "prune: channel %td of signal %zu is tied to that of signal %zu", c, k, group[k]);
            if (!mine[c] && !tgnn_cnn_free(cnn, group, k))
                return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT,
                                  "prune: channel %td of signal %zu belongs to the input or to the last layer", c, k);
        }
        if (!n) return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT, "prune: no channel of signal %zu is kept", k);
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_cnn_zero(tgnn_cnn *cnn, const unsigned char *keep)
{
    tinyi_group_part part[10];
    const tiny_param *p = tgnn_cnn_params(cnn, NULL, NULL);
    tiny_idx r, c, t;
    size_t i;
    int k, n;
    tiny_status st;
    if (!cnn) return TINY_E_ARGUMENT;
    st = tinyi_group_check(cnn, keep);
    for (i = 0; !st && i < tgnn_cnn_is(cnn)->n_layer; i++)
        for (n = tinyi_group_parts(cnn, i, part), k = 0; k < n; k++) {
            const tiny_tensor *w = &p[part[k].param].value;
            const tiny_idx columns = w->rank > 1 ? w->dim[1] : 1, taps = w->rank > 2 ? w->dim[2] * w->dim[3] : 1;
            const unsigned char *row = keep + tgnn_cnn_node(cnn, part[k].row),
                                *column = w->rank > 1 ? keep + tgnn_cnn_node(cnn, part[k].column) : NULL;
            for (r = 0; r < w->dim[0]; r++)
                for (c = 0; c < columns; c++)
                    for (t = 0; t < taps && (!row[r] || (column && !column[c])); t++)
                        tinyi_real_set(w->data, w->dtype, (r * columns + c) * taps + t, 0.0);
        }
    return st;
}

TINY_API tiny_status tgnn_cnn_cut(const tgnn_cnn *cnn, const unsigned char *keep, tgnn_cnn **out)
{
    tgnn_cnn_layer layer[TGNN_CNN_LAYERS];
    tinyi_group_part part[10];
    tgnn_cnn_desc d;
    tgnn_cnn *y = NULL;
    const tiny_param *from, *to;
    tiny_idx r, c, t, at;
    size_t i;
    int k, n;
    tiny_status st;
    if (out) *out = NULL;
    if (!cnn) return TINY_E_ARGUMENT;
    if (!out) return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT, "prune: a result pointer is needed");
    st = tinyi_group_check(cnn, keep);
    if (st) return st;
    d = *tgnn_cnn_is(cnn);
    memcpy(layer, d.layer, d.n_layer * sizeof *layer);
    d.layer = layer;
    for (i = 0; i < d.n_layer; i++) {
        for (layer[i].n_out = 0, c = 0; c < tgnn_cnn_channels(cnn, i + 1); c++)
            layer[i].n_out += keep[tgnn_cnn_node(cnn, i + 1) + c] != 0;
    }
    st = tgnn_cnn_open(tinyi_cnn_ctx(cnn), &d, &y);
    if (st) return st;
    from = tgnn_cnn_params(cnn, NULL, NULL);
    to = tgnn_cnn_params(y, NULL, NULL);    /* the same tensors in the same order */
    for (i = 0; i < d.n_layer; i++)
        for (n = tinyi_group_parts(cnn, i, part), k = 0; k < n; k++) {
            const tiny_tensor *w = &from[part[k].param].value, *x = &to[part[k].param].value;
            const tiny_idx columns = w->rank > 1 ? w->dim[1] : 1, taps = w->rank > 2 ? w->dim[2] * w->dim[3] : 1;
            const unsigned char *row = keep + tgnn_cnn_node(cnn, part[k].row),
                                *column = w->rank > 1 ? keep + tgnn_cnn_node(cnn, part[k].column) : NULL;
            for (at = r = 0; r < w->dim[0]; r++)
                for (c = 0; row[r] && c < columns; c++)
                    for (t = 0; t < taps && (!column || column[c]); t++)
                        tinyi_real_set(x->data, x->dtype, at++,
                                       tinyi_real(w->data, w->dtype, (r * columns + c) * taps + t));
        }
    *out = y;
    return TINY_OK;
}
