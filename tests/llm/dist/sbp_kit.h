/* tests/llm/dist/sbp_kit.h - the states of tensors number by number, and graphs in double by plain loops: what
 * tests/llm/dist/sbp.c compares with */
#ifndef T_SBP_KIT_H
#define T_SBP_KIT_H
#include "llm/dist/net.h"

enum { B = TLLM_SBP_B, P = TLLM_SBP_P, S0 = TLLM_SBP_S, S1, S2, ROOM = 4096 };

/* ---- the definition, number by number ---------------------------------------------------------------------------- */

T_FN int width(const tllm_sbp_layout *l) { return l->place.n[1] ? l->place.n[1] : 1; }
T_FN int ranks_of(const tllm_sbp_layout *l) { return l->place.n[0] * width(l); }
T_FN tllm_sbp_layout layout(int first, int p1, int p2, int s0, int s1)
{
    tllm_sbp_layout l;
    memset(&l, 0, sizeof l);
    l.place.first = first;
    l.place.n[0] = p1;
    l.place.n[1] = p2;
    l.s[0] = (unsigned char)s0;
    l.s[1] = (unsigned char)s1;
    return l;
}
/* Does member m hold the number with this index? Ranges are floor(i n / p), the second one inside the first. */
T_FN int holds(const tllm_sbp_layout *l, const tiny_idx *dim, int m, const tiny_idx *index)
{
    const int i[2] = { m / width(l), m % width(l) }, p[2] = { l->place.n[0], width(l) };
    tiny_idx lo[4] = { 0, 0, 0, 0 }, n[4] = { dim[0], dim[1], dim[2], dim[3] };
    int a;
    for (a = 0; a < 2; a++) {
        const int k = l->s[a] - S0;
        tiny_idx from, to;
        if (k < 0) continue;
        from = i[a] * n[k] / p[a];
        to = (i[a] + 1) * n[k] / p[a];
        lo[k] += from;
        n[k] = to - from;
        if (index[k] < lo[k] || index[k] >= lo[k] + n[k]) return 0;
    }
    return 1;
}
T_FN int part(const tllm_sbp_layout *l, int m)       /* which addend a member has: 0 without P */
{
    return (l->s[0] == P ? m / width(l) : 0) * 8 + (l->s[1] == P ? m % width(l) : 0);
}
T_FN int first_copy(const tllm_sbp_layout *l, int m)
{
    return (l->s[0] != B || m / width(l) == 0) && (l->s[1] != B || m % width(l) == 0);
}
T_FN float addend(int which, int e) { return (float)((which * 131 + e * 7 + which * e) % 9 - 4); }

T_FN int count(const tiny_idx *dim) { return (int)(dim[0] * dim[1] * dim[2] * dim[3]); }
T_FN void index_of(const tiny_idx *dim, int e, tiny_idx *index)
{
    int k;
    for (k = 3; k >= 0; k--) {
        index[k] = e % dim[k];
        e = (int)(e / dim[k]);
    }
}
/* whole: the values that these pieces stand for. Returns how many copies differ. */
T_FN int rebuild(const tllm_sbp_layout *l, const tiny_idx *dim, float *const *piece, double *whole)
{
    int e, m, at[T_NETS] = { 0 }, differ = 0;
    for (e = 0; e < count(dim); e++) {
        tiny_idx index[4];
        float one[64];
        index_of(dim, e, index);
        whole[e] = 0;
        for (m = 0; m < ranks_of(l); m++) {
            float v;
            if (!holds(l, dim, m, index)) continue;
            v = piece[l->place.first + m][at[m]++];
            if (!first_copy(l, m)) { differ += memcmp(&v, &one[part(l, m)], 4) != 0; continue; }
            one[part(l, m)] = v;
            whole[e] += (double)v;
        }
    }
    return differ;
}

/* ---- graphs, evaluated in double --------------------------------------------------------------------------------- */

typedef struct values { double *at[TLLM_SBP_NODES]; } values;

T_FN int put(tiny_ctx *ctx, tllm_sbp_graph *g, int op, int a, int b, int k, float factor)
{
    tllm_sbp_node n;
    int id = -1;
    memset(&n, 0, sizeof n);
    n.op = op;
    n.in[0] = a;
    n.in[1] = b;
    n.axis = n.act = k;
    n.factor = factor;
    n.axes[0] = 1;
    T_OK(tllm_sbp_put(ctx, g, &n, &id));
    return id < 0 ? 0 : id;
}
T_FN int input(tiny_ctx *ctx, tllm_sbp_graph *g, tiny_idx a, tiny_idx b)
{
    const tiny_idx dim[2] = { a, b };
    int id = -1;
    T_OK(tllm_sbp_input(ctx, g, "in", b ? 2 : 1, dim, &id));
    return id < 0 ? 0 : id;
}
T_FN double act_of(int act, double x)
{
    switch (act) {
    case TLLM_SBP_RELU: return x > 0 ? x : 0;
    case TLLM_SBP_RELU2: return x > 0 ? x * x : 0;
    case TLLM_SBP_TANH: return tanh(x);
    case TLLM_SBP_GELU: return x / 2 * (1 + erf(x / sqrt(2.0)));
    default: return x / (1 + exp(-x));
    }
}
T_FN void serial(const tllm_sbp_graph *g, values *v)     /* the inputs are there */
{
    int i, e, k;
    for (i = 0; i < g->n_node; i++) {
        const tllm_sbp_node *n = &g->node[i], *x = &g->node[n->in[0]], *w = &g->node[n->in[1]];
        const double *a = v->at[n->in[0]], *b = v->at[n->in[1]];
        double *y;
        if (n->op == TLLM_SBP_INPUT) continue;
        v->at[i] = y = (double *)t_keep((size_t)count(n->dim) * sizeof *y);
        if (n->op == TLLM_SBP_SUM) for (e = 0; e < count(n->dim); e++) y[e] = 0;
        for (e = 0; e < count(n->op == TLLM_SBP_SUM || n->op == TLLM_SBP_SOFTMAX ? x->dim : n->dim); e++) {
            tiny_idx at[4];
            index_of(n->op == TLLM_SBP_SUM || n->op == TLLM_SBP_SOFTMAX ? x->dim : n->dim, e, at);
            switch (n->op) {
            case TLLM_SBP_MATMUL: {
                const int columns = (int)n->dim[n->n_dim - 1], inner = (int)x->dim[n->n_dim - 1], j = e % columns;
                const int row = e / columns, batch = w->n_dim > 2 ? row / (int)x->dim[n->n_dim - 2] : 0;
                for (y[e] = 0, k = 0; k < inner; k++) y[e] += a[row * inner + k] * b[(batch * inner + k) * columns + j];
                break;
            }
            case TLLM_SBP_SCALE: y[e] = (double)n->factor * a[e]; break;
            case TLLM_SBP_ACT: y[e] = act_of(n->act, a[e]); break;
            case TLLM_SBP_ADD: y[e] = a[e] + b[e]; break;
            case TLLM_SBP_MUL: y[e] = a[e] * b[e]; break;
            case TLLM_SBP_LOOKUP: {
                const int width_of = (int)w->dim[1];
                y[e] = b[(int)a[e / width_of] * width_of + e % width_of];
                break;
            }
            case TLLM_SBP_TRANSPOSE: y[e] = a[at[1] * x->dim[1] + at[0]]; break;
            case TLLM_SBP_SUM: case TLLM_SBP_SOFTMAX: {
                tiny_idx stride = 1, to = 0;
                double sum = 0;
                for (k = n->axis + 1; k < x->n_dim; k++) stride *= x->dim[k];
                for (k = 0; k < x->n_dim; k++) if (k != n->axis) to = to * x->dim[k] + at[k];
                if (n->op == TLLM_SBP_SUM) { y[to] += a[e]; break; }
                for (k = 0; k < x->dim[n->axis]; k++) sum += exp(a[e + (k - at[n->axis]) * stride]);
                y[e] = exp(a[e]) / sum;
                break;
            }
            default: y[e] = a[e];
            }
        }
    }
}
#endif
