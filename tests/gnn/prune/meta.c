/* tests/gnn/prune/meta.c - networks as graphs, groups of channels, the metanetwork and its training */
#define T_GNN
#include "t.h"

#ifdef TINYGNN_NO_METAPRUNE
int main(void) { return t_done(); }
#else
#include "golden/groups.h"

enum { RESIDUAL, BARE, SIDED, MATRICES, KINDS };

/* 1 x 4 x 4 or vectors of 5 numbers; 4 outputs */
static tgnn_cnn *open_net(tiny_ctx *ctx, int kind, tiny_dtype dtype, uint64_t seed)
{
    tgnn_cnn_layer l[6];
    tgnn_cnn_desc d;
    tgnn_cnn *cnn = NULL;
    const tiny_param *p;
    tiny_rng rng = tiny_rng_make(seed, 77);
    size_t n_all, i, n = kind == MATRICES ? 3 : 6;
    tiny_idx k;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    d.in[0] = kind == MATRICES ? 5 : 1;
    d.in[1] = d.in[2] = kind == MATRICES ? 1 : 4;
    for (i = 0; i < n; i++) {
        l[i].size = kind == MATRICES || i + 1 == n ? 0 : 3;
        l[i].n_out = i + 1 == n ? 4 : kind == MATRICES ? 6 : i < 3 ? 3 : 5;
        l[i].relu = i + 1 < n;
        l[i].norm = l[i].size && kind != BARE;
    }
    if (kind == RESIDUAL || kind == SIDED) {
        l[2].add = 1;                       /* 3 channels to 3 */
        l[1].size = 1;
        l[4].add = kind == SIDED ? 3 : 4;   /* 3 channels to 5 through a side, or 5 to 5 */
        l[4].side = kind == SIDED;
        l[3].stride = 2;
    }
    d.layer = l; d.n_layer = n; d.seed = seed; d.dtype = dtype;
    T_OK(tgnn_cnn_open(ctx, &d, &cnn));
    p = tgnn_cnn_params(cnn, NULL, &n_all);
    for (i = 0; i < n_all; i++)             /* no number as it was made */
        for (k = 0; k < tiny_tensor_count(&p[i].value); k++) {
            const double x = 0.2 + 0.8 * (double)tiny_rng_uniform(&rng);
            if (p[i].value.rank > 1) continue;
            if (dtype == TINY_F64) ((double *)p[i].value.data)[k] = x;
            else ((float *)p[i].value.data)[k] = (float)x;
        }
    return cnn;
}

static double at(const tiny_tensor *t, tiny_idx i)
{
    return t->dtype == TINY_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static void put(const tiny_tensor *t, tiny_idx i, double x)
{
    if (t->dtype == TINY_F64) ((double *)t->data)[i] = x;
    else ((float *)t->data)[i] = (float)x;
}

static tgnn_images images(const tgnn_cnn *cnn, tiny_idx n)
{
    const tgnn_cnn_desc *is = tgnn_cnn_is(cnn);
    tgnn_images s;
    tiny_idx i;
    float *x = t_rand((size_t)(n * is->in[0] * is->in[1] * is->in[2]), -1.0f, 1.0f);
    int32_t *label = (int32_t *)t_keep((size_t)n * sizeof *label);
    for (i = 0; i < n; i++) label[i] = (int32_t)(i % 4);
    s.x = tiny_tensor_4d(x, TINY_F32, n, is->in[0], is->in[1], is->in[2]);
    s.label = tiny_tensor_1d(label, TINY_I32, n);
    return s;
}

static void logits(tiny_ctx *ctx, const tgnn_cnn *cnn, const tgnn_images *s, double *y)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor x = s->x, z;
    tiny_idx i;
    double *wide = (double *)t_keep((size_t)tiny_tensor_count(&x) * sizeof *wide);
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 22;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    if (tgnn_cnn_is(cnn)->dtype == TINY_F64) {
        for (i = 0; i < tiny_tensor_count(&x); i++) wide[i] = (double)((float *)x.data)[i];
        x.data = wide;
        x.dtype = TINY_F64;
    }
    z = tgnn_cnn_run(tape, cnn, &x, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; i < tiny_tensor_count(&z); i++) y[i] = at(&z, i);
    tiny_tape_close(tape);
}

/* Network to graph to network: every bit; what stands where; sizes. */
static void test_graph(void)
{
    static const double neutral[8] = { 1, 0, 0, 1, 1, 0, 0, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind;
    size_t i, n, all;
    tiny_idx k;
    for (kind = 0; kind < KINDS; kind++) {
        tgnn_cnn *a = open_net(ctx, kind, TINY_F32, 1), *b = open_net(ctx, kind, TINY_F32, 2);
        const tiny_param *p = tgnn_cnn_params(a, &n, &all), *q = tgnn_cnn_params(b, NULL, NULL);
        const tgnn_cnn_at *l = tgnn_cnn_layers(a);
        tgnn_net_graph g;
        T_OK(tgnn_net_graph_open(a, &g));
        T_EQ_INT(g.n_node, tgnn_cnn_nodes(a));
        T_EQ_INT(g.n_feature, kind == MATRICES ? 1 : 9);
        if (kind == MATRICES) {
            T_EQ_INT(g.n_edge, 5 * 6 + 6 * 6 + 6 * 4);
            T_CLOSE(at(&g.node, 5 * 8), at(&p[l[0].bias].value, 0), 0.0);
            T_CLOSE(at(&g.node, 5 * 8 + 1), 0.0, 0.0);
        } else {
            for (k = 0; k < 8; k++) T_CLOSE(at(&g.node, k), neutral[k], 0.0);       /* the input */
            T_CLOSE(at(&g.edge, 4), at(&p[l[0].weight].value, 4), 0.0);
            T_CLOSE(at(&g.node, 8 + 1), at(&p[l[0].bias].value, 0), 0.0);
            T_CLOSE(at(&g.node, 8), kind == BARE ? 1.0 : at(&p[l[0].gain].value, 0), 0.0);
        }
        if (kind == RESIDUAL) {             /* layer, layer of 1 x 1, layer and shortcut 3 x 3 .. */
            T_EQ_INT(g.n_block, 8);
            T_EQ_INT(g.block[3].kind, TGNN_NET_SAME);
            for (k = 0; k < 9 * 9; k++)
                T_CLOSE(at(&g.edge, g.block[3].first * 9 + k), k % 9 == 4 && k / 9 % 4 == 0 ? 1.0 : 0.0, 0.0);
            for (k = 0; k < 9; k++)
                T_CLOSE(at(&g.edge, g.block[1].first * 9 + k), k == 4 ? at(&p[l[1].weight].value, 0) : 0.0, 0.0);
        }
        if (kind == SIDED) {
            T_EQ_INT(g.block[6].kind, TGNN_NET_SIDE);
            T_CLOSE(at(&g.node, tgnn_cnn_node(a, 5) * 8 + 4), at(&p[l[4].side_gain].value, 0), 0.0);
            T_CLOSE(at(&g.edge, g.block[6].first * 9 + 4), at(&p[l[4].side].value, 0), 0.0);
        }
        T_OK(tgnn_net_graph_write(&g, b));
        for (i = 0; i < all; i++)
            T_SAME((float *)p[i].value.data, (float *)q[i].value.data, tiny_tensor_count(&p[i].value));
        tgnn_net_graph_close(ctx, &g);
        tgnn_cnn_close(a);
        tgnn_cnn_close(b);
    }
    t_close(ctx);
    T_PROOF("compression 6", "network to graph to network is bit-exact: norms, biases, shortcuts");
}

static void run_meta(tiny_ctx *ctx, const tgnn_meta *m, const tgnn_net_graph *g, double *node, double *edge)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor a, b;
    tiny_idx i;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 24;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    T_OK(tgnn_meta_run(tape, m, g, &a, &b));
    for (i = 0; i < tiny_tensor_count(&a); i++) node[i] = at(&a, i);
    for (i = 0; i < tiny_tensor_count(&b); i++) edge[i] = at(&b, i);
    tiny_tape_close(tape);
}

/* The metanetwork written edge by edge, in double: h, e, aggregates of each node over a list of all edges. */
typedef struct plain_edge { int from, to; } plain_edge;
enum { HIDDEN = 6 };
static const double *plain_w(const tiny_param *p, size_t k) { return (const double *)p[k].value.data; }
static void plain_lin(const tiny_param *p, size_t k, const double *x, double *y, int silu)
{
    const tiny_idx o = p[2 * k].value.dim[0], n = p[2 * k].value.dim[1];
    tiny_idx i, j;
    for (i = 0; i < o; i++) {
        y[i] = plain_w(p, 2 * k + 1)[i];
        for (j = 0; j < n; j++) y[i] += plain_w(p, 2 * k)[i * n + j] * x[j];
        if (silu) y[i] /= 1.0 + exp(-y[i]);
    }
}
static void plain_norm(const double *x, double *y)
{
    double mean = 0.0, var = 0.0;
    int i;
    for (i = 0; i < HIDDEN; i++) mean += x[i] / HIDDEN;
    for (i = 0; i < HIDDEN; i++) var += (x[i] - mean) * (x[i] - mean) / HIDDEN;
    for (i = 0; i < HIDDEN; i++) y[i] = (x[i] - mean) / sqrt(var + 1e-5);
}
static void plain_meta(const tiny_param *p, int layers, double scale, const tgnn_net_graph *g, double *node,
                       double *edge)
{
    const size_t n = (size_t)g->n_node, m = (size_t)g->n_edge;
    double *h = (double *)t_keep(n * HIDDEN * 8), *e = (double *)t_keep(m * HIDDEN * 8);
    double *b[4], *sum = (double *)t_keep(n * HIDDEN * 8), *d = (double *)t_keep(m * HIDDEN * 8);
    plain_edge *list = (plain_edge *)t_keep(m * sizeof *list);
    size_t i, k, v, out = 2 + 5 * (size_t)layers;
    int l, f, dir;
    for (k = 0; k < 4; k++) b[k] = (double *)t_keep(n * HIDDEN * 8);
    for (k = 0; k < g->n_block; k++) {
        const tgnn_net_block *q = &g->block[k];
        tiny_idx from = 0, to = 0, o, c;
        size_t s;
        for (s = 0; s < g->n_block; s++)    /* the first nodes of both signals */
            if (g->block[s].kind == TGNN_NET_LAYER) {
                if (g->block[s].from < q->from) from += g->block[s].n_in;
                if (g->block[s].from < q->to) to += g->block[s].n_in;
            }
        for (o = 0; o < q->n_out; o++)
            for (c = 0; c < q->n_in; c++) {
                list[q->first + o * q->n_in + c].from = (int)(from + c);
                list[q->first + o * q->n_in + c].to = (int)(to + o);
            }
    }
    for (v = 0; v < n; v++) plain_lin(p, 0, (double *)g->node.data + v * 8, h + v * HIDDEN, 0);
    for (i = 0; i < m; i++) plain_lin(p, 1, (double *)g->edge.data + i * (size_t)g->n_feature, e + i * HIDDEN, 0);
    for (l = 0; l < layers; l++) {
        const size_t at0 = 2 + 5 * (size_t)l;
        double x[HIDDEN];
        memset(sum, 0, n * HIDDEN * 8);
        memset(d, 0, m * HIDDEN * 8);
        for (v = 0; v < n; v++) {
            plain_norm(h + v * HIDDEN, x);
            for (k = 0; k < 4; k++) plain_lin(p, at0 + k, x, b[k] + v * HIDDEN, 1);
        }
        for (dir = 0; dir < 2; dir++)
            for (v = 0; v < n; v++) {
                double all[4 * HIDDEN], y[HIDDEN];
                for (f = 0; f < HIDDEN; f++) {
                    double mean = 0.0, sq = 0.0, most = 0.0, least = 0.0, s = dir && f >= HIDDEN / 2 ? -1.0 : 1.0;
                    size_t count = 0;
                    for (i = 0; i < m; i++) {
                        const size_t j = (size_t)(dir ? list[i].to : list[i].from) * HIDDEN + (size_t)f;
                        const size_t own = v * HIDDEN + (size_t)f, at_e = i * HIDDEN + (size_t)f;
                        double msg;
                        if ((size_t)(dir ? list[i].from : list[i].to) != v) continue;
                        msg = b[1][own] * b[0][j] * s * e[at_e];
                        mean += msg;
                        sq += msg * msg;
                        if (!count || msg > most) most = msg;
                        if (!count || msg < least) least = msg;
                        count++;
                        d[at_e] += s * s * b[2][j] * b[3][own] * e[at_e];
                    }
                    if (count) {
                        mean /= (double)count;
                        sq /= (double)count;
                    }
                    all[f] = mean;
                    all[HIDDEN + f] = count ? sqrt(sq - mean * mean + 1e-5) : 0.0;
                    all[2 * HIDDEN + f] = most;
                    all[3 * HIDDEN + f] = least;
                }
                plain_lin(p, at0 + 4, all, y, 0);
                for (f = 0; f < HIDDEN; f++) sum[v * HIDDEN + (size_t)f] += y[f];
            }
        for (i = 0; i < n * HIDDEN; i++) h[i] += sum[i];
        for (i = 0; i < m * HIDDEN; i++) e[i] += d[i];
    }
    for (k = 0; k < 2; k++)
        for (i = 0; i < (k ? m : n); i++) {
            double x[HIDDEN], y[HIDDEN], z[9];
            const int width = k ? g->n_feature : 8;
            plain_norm((k ? e : h) + i * HIDDEN, x);
            plain_lin(p, out + 2 * k, x, y, 1);
            plain_lin(p, out + 2 * k + 1, y, z, 0);
            for (f = 0; f < width; f++) {
                const size_t c = i * (size_t)width + (size_t)f;
                (k ? edge : node)[c] = ((double *)(k ? g->edge.data : g->node.data))[c] + scale * z[f];
            }
        }
}

static tgnn_meta *open_meta(tiny_ctx *ctx, int layers, int n_feature, double scale, tiny_dtype dtype)
{
    tgnn_meta_desc d;
    tgnn_meta *m = NULL;
    const tiny_param *p;
    tiny_rng rng = tiny_rng_make(3, 3);
    size_t n, i;
    tiny_idx k;
    memset(&d, 0, sizeof d);
    d.hidden = HIDDEN; d.layers = layers; d.n_feature = n_feature; d.scale = scale; d.seed = 5; d.dtype = dtype;
    T_OK(tgnn_meta_open(ctx, &d, &m));
    p = tgnn_meta_params(m, &n);
    for (i = 1; i < n; i += i + 8 < n ? 2 : 1)          /* biases, and decoders, that are not 0 */
        for (k = 0; k < tiny_tensor_count(&p[i].value); k++) put(&p[i].value, k, 0.1 * (double)tiny_rng_normal(&rng));
    return m;
}

static void test_meta(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        tgnn_cnn *a = open_net(ctx, kind, TINY_F64, 1), *b = NULL;
        tgnn_meta *m = open_meta(ctx, 2, kind == MATRICES ? 1 : 9, 0.5, TINY_F64);
        tgnn_net_graph g;
        double *node, *edge, *want_node, *want_edge;
        size_t i, n, e;
        const tiny_param *p;
        T_OK(tgnn_net_graph_open(a, &g));
        n = (size_t)g.n_node * 8;
        e = (size_t)(g.n_edge * g.n_feature);
        node = (double *)t_keep(n * 8);
        edge = (double *)t_keep(e * 8);
        want_node = (double *)t_keep(n * 8);
        want_edge = (double *)t_keep(e * 8);
        run_meta(ctx, m, &g, node, edge);
        plain_meta(tgnn_meta_params(m, NULL), 2, 0.5, &g, want_node, want_edge);
        for (i = 0; i < n; i++) T_CLOSE(node[i], want_node[i], 1e-9);
        for (i = 0; i < e; i++) T_CLOSE(edge[i], want_edge[i], 1e-9);
        p = tgnn_meta_params(m, &n);        /* decoders of zeros: the input */
        for (i = n - 8; i < n; i++) {
            tiny_idx k;
            for (k = 0; k < tiny_tensor_count(&p[i].value); k++) put(&p[i].value, k, 0.0);
        }
        T_OK(tgnn_meta_rewrite(m, a, &b));
        p = tgnn_cnn_params(a, NULL, &n);
        for (i = 0; i < n; i++)
            T_SAME((double *)p[i].value.data, (double *)tgnn_cnn_params(b, NULL, NULL)[i].value.data,
                   tiny_tensor_count(&p[i].value));
        tgnn_net_graph_close(ctx, &g);
        tgnn_meta_close(m);
        tgnn_cnn_close(b);
        tgnn_cnn_close(a);
    }
    t_close(ctx);
    T_PROOF("compression 6", "with decoder weights 0 the output is the input");
    T_PROOF("compression 6", "forward and reversed edges with s, against a loop over edges");
}

/* Exchanges two channels of signal 1 of the residual network, and of signal 3, which is tied to it. */
static void swap_channels(tgnn_cnn *cnn, tiny_idx a, tiny_idx b)
{
    const tiny_param *p = tgnn_cnn_params(cnn, NULL, NULL);
    const tgnn_cnn_at *l = tgnn_cnn_layers(cnn);
    const int made[2] = { 0, 2 }, read[2] = { 1, 3 };
    int i, k;
    tiny_idx r, t;
    for (i = 0; i < 2; i++) {
        const tgnn_cnn_at *q = &l[made[i]];
        const int part[5] = { q->weight, q->gain, q->bias, q->mean, q->variance };
        const tiny_tensor *w = &p[l[read[i]].weight].value;
        const tiny_idx taps = w->dim[2] * w->dim[3];
        for (k = 0; k < 5; k++) {
            const tiny_tensor *x = &p[part[k]].value;
            const tiny_idx each = tiny_tensor_count(x) / x->dim[0];
            for (t = 0; t < each; t++) {
                const double keep = at(x, a * each + t);
                put(x, a * each + t, at(x, b * each + t));
                put(x, b * each + t, keep);
            }
        }
        for (r = 0; r < w->dim[0]; r++)
            for (t = 0; t < taps; t++) {
                const double keep = at(w, (r * w->dim[1] + a) * taps + t);
                put(w, (r * w->dim[1] + a) * taps + t, at(w, (r * w->dim[1] + b) * taps + t));
                put(w, (r * w->dim[1] + b) * taps + t, keep);
            }
    }
}

static void test_permuted(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_cnn *a = open_net(ctx, RESIDUAL, TINY_F32, 1), *x = NULL, *y = NULL;
    tgnn_meta *m = open_meta(ctx, 3, 9, 0.2, TINY_F32);
    tgnn_images s = images(a, 6);
    double before[24], after[24];
    size_t n, i;
    tiny_idx k;
    const tiny_param *p, *q;
    logits(ctx, a, &s, before);
    T_OK(tgnn_meta_rewrite(m, a, &x));
    swap_channels(a, 0, 2);
    logits(ctx, a, &s, after);
    for (i = 0; i < 24; i++) T_CLOSE(after[i], before[i], 1e-5);        /* the swap itself changes nothing */
    T_OK(tgnn_meta_rewrite(m, a, &y));
    swap_channels(y, 0, 2);
    p = tgnn_cnn_params(x, NULL, &n);
    q = tgnn_cnn_params(y, NULL, NULL);
    for (i = 0; i < n; i++)
        for (k = 0; k < tiny_tensor_count(&p[i].value); k++)
            T_CLOSE(at(&p[i].value, k), at(&q[i].value, k), 1e-5);
    T_EQ_INT(tiny_op_target(ctx, TINY_OP_MUL), t_vectors(target));
    tgnn_meta_close(m);
    tgnn_cnn_close(x);
    tgnn_cnn_close(y);
    tgnn_cnn_close(a);
    t_close(ctx);
    T_PROOF("compression 6", "permuting hidden channels permutes the output, 1e-5");
}

/* Gradient of sum v node' + sum v edge' in the weights of the metanetwork, against differences. */
static void test_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_cnn *a = open_net(ctx, SIDED, TINY_F64, 4);
    tgnn_meta *m = open_meta(ctx, 2, 9, 0.5, TINY_F64);
    tgnn_net_graph g;
    tgnn_images s = images(a, 8);
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor node, edge, u, v;
    const tiny_param *p;
    double loss, low, high, pull, h = 1e-5;
    size_t n, i, j;
    int side;
    T_OK(tgnn_net_graph_open(a, &g));
    p = tgnn_meta_params(m, &n);
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 24;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    for (i = 0; i < n; i++) T_OK(tiny_tape_param(tape, &p[i]));
    for (i = 0; i < n; i += 3) {
        double value[2], kept = at(&p[i].value, 0);
        for (side = 0; side < 3; side++) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            put(&p[i].value, 0, side == 2 ? kept : kept + (side ? h : -h));
            T_OK(tgnn_meta_run(tape, m, &g, &node, &edge));
            u = tiny_tape_mul(tape, &node, &node);
            v = tiny_tape_mul(tape, &edge, &edge);
            u = tiny_tape_mean(tape, &u);
            v = tiny_tape_mean(tape, &v);
            u = tiny_tape_add(tape, &u, &v);
            if (side < 2) value[side] = at(&u, 0);
            tiny_tape_zero(tape);
            if (side == 2) T_OK(tiny_tape_backward(tape, &u, NULL));
            tiny_tape_release(tape, mark);
        }
        T_CLOSE(at(&p[i].grad, 0), (value[1] - value[0]) / (2.0 * h), 1e-8);
    }
    tiny_tape_close(tape);
    T_PROOF("compression 6", "gradient check of the segment standard deviation and of the rest of the metanetwork");
    p = tgnn_cnn_params(a, &n, NULL);       /* the gradient that trains it; alpha 1: forces do not depend on weights */
    T_OK(tgnn_meta_gradient(a, &s, 4, 1.0, 0.3, &loss, &pull));
    T_TRUE(loss > 0.0 && pull > 0.0);
    for (i = 0; i < n; i++)
        for (j = 0; j < 2; j++) {
            const tiny_idx k = (tiny_idx)j * (tiny_tensor_count(&p[i].value) - 1);
            double got, kept = at(&p[i].value, k), pl, ph;
            T_OK(tgnn_meta_gradient(a, &s, 4, 1.0, 0.3, &loss, &pull));
            got = at(&p[i].grad, k);
            put(&p[i].value, k, kept + h);
            T_OK(tgnn_meta_gradient(a, &s, 4, 1.0, 0.3, &high, &ph));
            put(&p[i].value, k, kept - h);
            T_OK(tgnn_meta_gradient(a, &s, 4, 1.0, 0.3, &low, &pl));
            put(&p[i].value, k, kept);
            T_CLOSE(got, (2.0 * (high - low) + ph - pl) / (2.0 * h), 2e-6);     /* two batches: their sum */
        }
    for (i = 0; i < 4; i++) {               /* forces of 1: one for each axis whose channels may be removed */
        const tgnn_cnn_at *l = tgnn_cnn_layers(a);
        const int part[4] = { l[0].weight, l[1].weight, l[1].gain, l[1].bias }, times[4] = { 1, 2, 1, 0 };
        double with;
        T_OK(tgnn_meta_gradient(a, &s, 8, 1.0, 0.3, NULL, NULL));
        with = at(&p[part[i]].grad, 0);
        T_OK(tgnn_meta_gradient(a, &s, 8, 1.0, 0.0, NULL, NULL));
        T_CLOSE(with - at(&p[part[i]].grad, 0), 0.3 * times[i] * at(&p[part[i]].value, 0), 1e-12);
    }
    {                                       /* the whole chain: the loss of the rewritten network, two batches */
        const tgnn_cnn *one = a;
        tgnn_meta_train_desc td;
        const tiny_param *q = tgnn_meta_params(m, &n);
        memset(&td, 0, sizeof td);
        td.epochs = 1; td.batch = 4; td.lr = 1e-14; td.alpha = 1.0; td.reg = 0.3;
        T_OK(tgnn_meta_train(m, &one, 1, &s, &td));
        for (i = 0; i < n; i += 5) {
            double value[2], kept = at(&q[i].value, 0), want = at(&q[i].grad, 0);
            for (side = 0; side < 2; side++) {
                tgnn_cnn *y = NULL;
                put(&q[i].value, 0, kept + (side ? h : -h));
                T_OK(tgnn_meta_rewrite(m, a, &y));
                T_OK(tgnn_meta_gradient(y, &s, 4, 1.0, 0.3, &loss, &pull));
                value[side] = 2.0 * loss + pull;
                tgnn_cnn_close(y);
            }
            put(&q[i].value, 0, kept);
            T_CLOSE(want, (value[1] - value[0]) / (2.0 * h), 1e-5 * (1.0 + fabs(want)));
        }
    }
    tgnn_net_graph_close(ctx, &g);
    tgnn_meta_close(m);
    tgnn_cnn_close(a);
    t_close(ctx);
}

/* Groups and importance as another program has them; forces; choosing and cutting. */
static void test_groups(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_cnn *a;
    size_t group[TGNN_CNN_LAYERS + 1], i, n;
    double score[64], force[64];
    const tiny_param *p;
    tiny_idx k;
    int kind;
    for (kind = 0; kind < 2; kind++) {
        size_t w = 0, v = 0;
        a = open_net(ctx, kind ? SIDED : RESIDUAL, TINY_F64, 1);
        p = tgnn_cnn_params(a, &n, NULL);
        for (i = 0; i < n; i++)             /* as tests/golden/make/groups.py makes them, in its order of tensors */
            for (k = 0; k < tiny_tensor_count(&p[i].value); k++)
                if (p[i].value.rank > 1) {
                    put(&p[i].value, k, ((double)((w * 37 + 11) % 97) - 48.0) / 64.0);
                    w++;
                } else {
                    put(&p[i].value, k, ((double)((v * 23 + 5) % 31) - 15.0) / 64.0);
                    v++;
                }
        tgnn_cnn_ties(a, group);
        T_EQ_INT(group[1], group[3]);
        T_EQ_INT(group[4] == group[5], !kind);
        T_TRUE(!tgnn_cnn_free(a, group, 0) && !tgnn_cnn_free(a, group, 6) && tgnn_cnn_free(a, group, 1));
        T_OK(tgnn_cnn_importance(a, NULL, 1, score));
        for (i = 0; i < (kind ? T_COUNT(groups_sided) : T_COUNT(groups_residual)); i += 3) {
            const double *g = kind ? groups_sided : groups_residual;        /* signal, channel, mean of squares */
            const double got = score[tgnn_cnn_node(a, (size_t)g[i]) + (tiny_idx)g[i + 1]];
            T_CLOSE(got * got, g[i + 2], 5e-7);        /* recorded in floats */
        }
        tgnn_cnn_close(a);
    }
    T_PROOF("compression 6", "groups and importance of another project");
    a = open_net(ctx, MATRICES, TINY_F64, 1);           /* I = 1, 2, 4: forces 16, 6.35, 1 */
    p = tgnn_cnn_params(a, NULL, NULL);
    for (i = 0; i < 3; i++)
        for (k = 0; k < tiny_tensor_count(&p[2 * i].value); k++) put(&p[2 * i].value, k, 0.0);
    for (k = 0; k < 6; k++) put(&p[0].value, k * 5, k == 0 ? 1.0 : k == 1 ? 2.0 : 4.0);
    T_OK(tgnn_meta_forces(a, 16.0, force));
    T_CLOSE(force[5], 16.0, 1e-12);
    T_CLOSE(force[6], 6.35, 5e-3);
    T_CLOSE(force[7], 1.0, 1e-12);
    T_CLOSE(force[0], 0.0, 0.0);
    T_CLOSE(force[11], 1.0, 0.0);           /* all zeros: equal */
    T_PROOF("compression 6", "forces of I = 1, 2, 4: 16, 6.35, 1");
    T_PROOF("compression 6", "bad input: a group whose channels are equal has forces of 1");
    tgnn_cnn_close(a);
    t_close(ctx);
}

static void test_cut(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        tgnn_cnn *a = open_net(ctx, kind, TINY_F32, 3), *small = NULL, *masked = NULL;
        tgnn_images s = images(a, 5);
        unsigned char keep[64];
        tgnn_cut_desc d;
        double y[20], z[20], whole = tgnn_cnn_flops(a);
        tiny_idx i, n = 0;
        memset(&d, 0, sizeof d);
        d.speedup = 1.6;
        T_OK(tgnn_cnn_choose(a, &d, keep));
        T_OK(tgnn_cnn_cut(a, keep, &small));
        T_OK(tgnn_cnn_copy(a, &masked));
        T_OK(tgnn_cnn_zero(masked, keep));
        for (i = 0; i < tgnn_cnn_nodes(a); i++) n += keep[i];
        T_EQ_INT(tgnn_cnn_nodes(small), n);
        T_CLOSE(tgnn_cnn_flops(small), tgnn_cnn_flops_kept(a, keep), 0.0);
        T_TRUE(whole >= 1.6 * tgnn_cnn_flops(small) && whole < 4.0 * tgnn_cnn_flops(small));
        logits(ctx, small, &s, y);
        logits(ctx, masked, &s, z);
        for (i = 0; i < 20; i++) T_CLOSE(y[i], z[i], 1e-5);
        if (kind == RESIDUAL) {
            T_CLOSE(whole, 2.0 * (16 * 27 + 16 * 9 + 16 * 81 + 4 * 135 + 4 * 225 + 20), 0.0);
            T_SAME(keep + tgnn_cnn_node(a, 1), keep + tgnn_cnn_node(a, 3), 3);
        }
        d.speedup = 1e6;                    /* all channels selected: one of each signal stays */
        T_STATUS(tgnn_cnn_choose(a, &d, keep), TINY_E_ARGUMENT, "one channel of each signal is left");
        for (n = 0, i = 0; i < tgnn_cnn_nodes(a); i++) n += keep[i];
        T_EQ_INT(n, kind == MATRICES ? 5 + 1 + 1 + 4 : 1 + 5 + 4);
        T_STATUS(tgnn_cnn_choose(a, NULL, keep), TINY_E_ARGUMENT, "a speed-up of 0");
        memset(keep, 0, sizeof keep);
        T_STATUS(tgnn_cnn_zero(a, keep), TINY_E_ARGUMENT, "input or to the last layer");
        memset(keep, 1, sizeof keep);
        memset(keep + tgnn_cnn_node(a, 2), 0, (size_t)tgnn_cnn_channels(a, 2));
        T_STATUS(tgnn_cnn_zero(a, keep), TINY_E_ARGUMENT, "no channel of signal 2");
        if (kind == RESIDUAL) {
            memset(keep, 1, sizeof keep);
            keep[tgnn_cnn_node(a, 3)] = 0;
            tgnn_cnn_close(masked);
            T_STATUS(tgnn_cnn_cut(a, keep, &masked), TINY_E_ARGUMENT, "tied to that of signal 1");
        }
        tgnn_cnn_close(masked);
        tgnn_cnn_close(small);
        tgnn_cnn_close(a);
    }
    T_EQ_INT(tiny_op_target(ctx, TINY_OP_CONV2D), t_vectors(target));
    t_close(ctx);
    T_PROOF("compression 6", "the compact network equals the masked one, 1e-5");
    T_PROOF("compression 6", "FLOP count");
    T_PROOF("compression 6", "bad input: all channels of a layer selected: one stays");
}

static tiny_status judge(void *user, const tgnn_meta *meta, int64_t epoch, double *score)
{
    double *seen = (double *)user;
    seen[epoch] = at(&tgnn_meta_params(meta, NULL)[0].value, 0);
    *score = epoch == 2 ? 1.0 : 0.0;        /* the second is the best */
    return TINY_OK;
}

static int on_step(void *user, const tgnn_meta_state *s)
{
    ((double *)user)[8 + s->step] = s->loss + s->penalty;
    return 0;
}

static void test_train(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_cnn *nets[2];
    tgnn_meta *m = open_meta(ctx, 1, 9, 0.3, TINY_F32);
    tgnn_images s;
    tgnn_cnn_fit_desc fit;
    tgnn_meta_train_desc d;
    double seen[64], first, last;
    tiny_idx right;
    size_t i;
    nets[0] = open_net(ctx, RESIDUAL, TINY_F32, 1);
    nets[1] = open_net(ctx, RESIDUAL, TINY_F32, 2);
    s = images(nets[0], 16);
    memset(&fit, 0, sizeof fit);
    fit.epochs = 3;
    fit.batch = 8;
    T_OK(tgnn_cnn_fit(nets[0], &s, &fit));
    T_OK(tgnn_cnn_right(nets[0], &s, &right));
    T_TRUE(right >= 0 && right <= 16);
    memset(&d, 0, sizeof d);
    memset(seen, 0, sizeof seen);
    d.epochs = 8;
    d.lr = 0.01;
    d.drop = 8;
    d.judge = judge;
    d.callback = on_step;
    d.user = seen;
    d.reg = 1.0;
    T_OK(tgnn_meta_train(m, (const tgnn_cnn *const *)nets, 2, &s, &d));
    T_CLOSE(at(&tgnn_meta_params(m, NULL)[0].value, 0), seen[2], 0.0);
    T_TRUE(seen[2] != seen[8]);
    for (first = last = 0.0, i = 0; i < 4; i++) {
        first += seen[8 + 1 + i];
        last += seen[8 + 13 + i];
    }
    T_TRUE(last < 0.9 * first);             /* it learns */
    tgnn_meta_close(m);
    tgnn_cnn_close(nets[0]);
    tgnn_cnn_close(nets[1]);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_cnn_layer l[3];
    tgnn_cnn_desc d;
    tgnn_cnn *cnn = NULL, *other, *y = NULL;
    tgnn_net_graph g;
    tgnn_meta_desc md;
    tgnn_meta *m = NULL;
    tgnn_images s;
    tgnn_meta_train_desc td;
    const tgnn_cnn *none = NULL;
    const tiny_param *p;
    double x[64];
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    memset(&md, 0, sizeof md);
    memset(&td, 0, sizeof td);
    l[0].n_out = 3; l[0].size = 3;
    l[1] = l[0];
    l[1].n_out = 4;
    l[1].add = 1;
    l[2].n_out = 4;
    d.in[0] = 1; d.in[1] = d.in[2] = 4; d.layer = l; d.n_layer = 3;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_SHAPE, "a shortcut of 3 x 4 x 4 numbers to 4 x 4 x 4");
    l[1].n_out = 3;
    l[1].stride = 3;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_SHAPE, "a shortcut of 3 x 4 x 4 numbers to 3 x 2 x 2");
    l[1].stride = 1;
    T_PROOF("compression 6", "bad input: shortcut shape mismatch");
    l[1].add = 2;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "a signal that is not there yet");
    l[1].add = 1;
    l[1].size = 5;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "size must be 0, 1 or 3");
    l[1].size = 3;
    l[2].size = 1;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "the last layer must be a matrix");
    l[2].size = 0;
    l[2].norm = 1;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "a matrix has no norm");
    l[2].norm = 0;
    l[0].n_out = 0;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "1 to 65536 outputs");
    l[0].n_out = 3;
    d.n_layer = 0;
    T_STATUS(tgnn_cnn_open(ctx, &d, &cnn), TINY_E_ARGUMENT, "1 to 48 layers");
    cnn = open_net(ctx, RESIDUAL, TINY_F32, 1);
    other = open_net(ctx, MATRICES, TINY_F32, 1);
    s = images(cnn, 4);
    p = tgnn_cnn_params(cnn, NULL, NULL);
    put(&p[tgnn_cnn_layers(cnn)[0].variance].value, 1, NAN);
    T_STATUS(tgnn_net_graph_open(cnn, &g), TINY_E_NUMERIC, "number 1 of 0.variance is nan");
    put(&p[tgnn_cnn_layers(cnn)[0].variance].value, 1, -1.0);
    T_STATUS(tgnn_net_graph_open(cnn, &g), TINY_E_NUMERIC, "number 1 of 0.variance is -1");
    put(&p[tgnn_cnn_layers(cnn)[0].variance].value, 1, 1.0);
    T_PROOF("compression 6", "bad input: NaN running variance");
    T_OK(tgnn_net_graph_open(cnn, &g));
    T_STATUS(tgnn_net_graph_write(&g, other), TINY_E_SHAPE, "another shape");
    md.hidden = 3;
    T_STATUS(tgnn_meta_open(ctx, &md, &m), TINY_E_ARGUMENT, "3 hidden numbers");
    md.hidden = 4;
    md.layers = 1;
    md.n_feature = 1;
    T_OK(tgnn_meta_open(ctx, &md, &m));
    T_STATUS(tgnn_meta_rewrite(m, cnn, &y), TINY_E_SHAPE, "edges of 9 numbers");
    T_STATUS(tgnn_meta_train(m, &none, 1, &s, &td), TINY_E_ARGUMENT, "network 0 is missing");
    td.epochs = -1;
    T_STATUS(tgnn_meta_train(m, &none, 1, &s, &td), TINY_E_ARGUMENT, "-1 epochs");
    T_STATUS(tgnn_meta_forces(cnn, 0.0, x), TINY_E_ARGUMENT, "alpha 0");
    T_STATUS(tgnn_meta_gradient(cnn, &s, 5, 16.0, 1.0, NULL, NULL), TINY_E_ARGUMENT, "batches of 5 of 4");
    ((int32_t *)s.label.data)[0] = 4;
    T_STATUS(tgnn_meta_gradient(cnn, &s, 4, 16.0, 1.0, NULL, NULL), TINY_E_ARGUMENT, "label 4");
    tgnn_net_graph_close(ctx, &g);
    tgnn_meta_close(m);
    tgnn_cnn_close(other);
    tgnn_cnn_close(cnn);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tgnn_cnn_layer l[2];
            tgnn_cnn_desc d;
            tgnn_cnn *a = NULL, *b = NULL, *c = NULL;
            tgnn_meta_desc md;
            tgnn_meta *m = NULL;
            tgnn_meta_train_desc td;
            tgnn_images s;
            tgnn_cut_desc cut;
            unsigned char keep[8];
            tiny_idx right;
            static float x[4];
            static int32_t label[1];
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&md, 0, sizeof md);
            memset(&td, 0, sizeof td);
            memset(&cut, 0, sizeof cut);
            l[0].n_out = 2; l[0].size = 1; l[0].norm = 1;
            l[1].n_out = 2;
            d.in[0] = 1; d.in[1] = d.in[2] = 2; d.layer = l; d.n_layer = 2;
            md.hidden = 2; md.layers = 1;
            td.epochs = 1;
            cut.speedup = 1.5;
            s.x = tiny_tensor_4d(x, TINY_F32, 1, 1, 2, 2);
            s.label = tiny_tensor_1d(label, TINY_I32, 1);
            if (!tgnn_cnn_open(ctx, &d, &a) && !tgnn_meta_open(ctx, &md, &m)) {
                (void)tgnn_meta_train(m, (const tgnn_cnn *const *)&a, 1, &s, &td);
                (void)tgnn_cnn_right(a, &s, &right);
                if (!tgnn_meta_rewrite(m, a, &b) && !tgnn_cnn_choose(b, &cut, keep)) (void)tgnn_cnn_cut(b, keep, &c);
            }
            tgnn_cnn_close(c);
            tgnn_cnn_close(b);
            tgnn_meta_close(m);
            tgnn_cnn_close(a);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_graph);
    T_RUN(test_meta);
    T_RUN_TARGETS(test_permuted);
    T_RUN(test_gradient);
    T_RUN(test_groups);
    T_RUN_TARGETS(test_cut);
    T_RUN(test_train);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
