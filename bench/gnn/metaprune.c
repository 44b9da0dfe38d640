/* bench/gnn/metaprune.c - the metanetwork of meta pruning over the graph of a network: messages as products of dense
 * blocks, against the same formula in plain loops over the edges, one thread */
#include "../bench.h"
#include "tinygnn.h"
#include <math.h>
#include <string.h>

#ifdef TINYGNN_NO_METAPRUNE
void bench_metaprune(void) { }
#else

enum { BM_H = 16, BM_LAYERS = 4 };

typedef struct bm {
    tiny_ctx *ctx;
    tiny_tape *tape;
    tgnn_meta *meta;
    tgnn_net_graph g;
    int *from, *to;
    float *h, *e, *b[4], *all, *node, *edge;
    int *count;
} bm;

static void bm_ours(void *arg)
{
    bm *m = (bm *)arg;
    const tiny_tape_mark mark = tiny_tape_now(m->tape);
    tiny_tensor node, edge;
    b_must(m->ctx, tgnn_meta_run(m->tape, m->meta, &m->g, &node, &edge));
    tiny_tape_release(m->tape, mark);
}

static void bm_lin(const tiny_param *p, const float *x, float *y, int n_in, int n_out, int silu)
{
    const float *w = (const float *)p[0].value.data, *bias = (const float *)p[1].value.data;
    int i, j;
    for (i = 0; i < n_out; i++) {
        float s = bias[i];
        for (j = 0; j < n_in; j++) s += w[i * n_in + j] * x[j];
        y[i] = silu ? s / (1.0f + expf(-s)) : s;
    }
}

static void bm_norm(const float *x, float *y)
{
    float mean = 0.0f, var = 0.0f;
    int i;
    for (i = 0; i < BM_H; i++) mean += x[i] / BM_H;
    for (i = 0; i < BM_H; i++) var += (x[i] - mean) * (x[i] - mean) / BM_H;
    var = 1.0f / sqrtf(var + 1e-5f);
    for (i = 0; i < BM_H; i++) y[i] = (x[i] - mean) * var;
}

static void bm_loops(void *arg)
{
    bm *m = (bm *)arg;
    const int n = (int)m->g.n_node, edges = (int)m->g.n_edge;
    const tiny_param *p = tgnn_meta_params(m->meta, NULL);
    float x[BM_H], y[4 * BM_H], z[9];
    int v, i, f, l, k, dir;
    for (v = 0; v < n; v++) bm_lin(p, (const float *)m->g.node.data + v * 8, m->h + v * BM_H, 8, BM_H, 0);
    for (i = 0; i < edges; i++) bm_lin(p + 2, (const float *)m->g.edge.data + i * 9, m->e + i * BM_H, 9, BM_H, 0);
    for (l = 0; l < BM_LAYERS; l++) {
        const tiny_param *q = p + 4 + 10 * l;
        for (v = 0; v < n; v++) {
            bm_norm(m->h + v * BM_H, x);
            for (k = 0; k < 4; k++) bm_lin(q + 2 * k, x, m->b[k] + v * BM_H, BM_H, BM_H, 1);
        }
        for (dir = 0; dir < 2; dir++) {
            memset(m->count, 0, (size_t)n * sizeof *m->count);
            memset(m->all, 0, (size_t)n * 4 * BM_H * sizeof *m->all);
            for (i = 0; i < edges; i++) {
                const int j = dir ? m->to[i] : m->from[i], t = dir ? m->from[i] : m->to[i];
                float *to = m->all + t * 4 * BM_H;
                for (f = 0; f < BM_H; f++) {
                    const float s = dir && f >= BM_H / 2 ? -1.0f : 1.0f;
                    const float a = m->b[1][t * BM_H + f] * m->b[0][j * BM_H + f] * s * m->e[i * BM_H + f];
                    to[f] += a;
                    to[BM_H + f] += a * a;
                    if (!m->count[t] || a > to[2 * BM_H + f]) to[2 * BM_H + f] = a;
                    if (!m->count[t] || a < to[3 * BM_H + f]) to[3 * BM_H + f] = a;
                }
                m->count[t]++;
            }
            for (v = 0; v < n; v++) {
                float *to = m->all + v * 4 * BM_H;
                for (f = 0; f < BM_H && m->count[v]; f++) {
                    to[f] /= (float)m->count[v];
                    to[BM_H + f] = sqrtf(to[BM_H + f] / (float)m->count[v] - to[f] * to[f] + 1e-5f);
                }
                bm_lin(q + 8, to, y, 4 * BM_H, BM_H, 0);
                for (f = 0; f < BM_H; f++) m->h[v * BM_H + f] += y[f];
            }
        }
        for (i = 0; i < edges; i++)
            for (f = 0; f < BM_H; f++) {
                const int j = m->from[i] * BM_H + f, t = m->to[i] * BM_H + f;
                m->e[i * BM_H + f] += (m->b[2][j] * m->b[3][t] + m->b[2][t] * m->b[3][j]) * m->e[i * BM_H + f];
            }
    }
    p += 4 + 10 * BM_LAYERS;
    for (k = 0; k < 2; k++)
        for (i = 0; i < (k ? edges : n); i++) {
            const int width = k ? 9 : 8;
            bm_norm((k ? m->e : m->h) + i * BM_H, x);
            bm_lin(p + 4 * k, x, y, BM_H, BM_H, 1);
            bm_lin(p + 4 * k + 2, y, z, BM_H, width, 0);
            for (f = 0; f < width; f++)
                (k ? m->edge : m->node)[i * width + f] =
                    ((const float *)(k ? m->g.edge.data : m->g.node.data))[i * width + f] + 0.01f * z[f];
        }
}

void bench_metaprune(void)
{
    tgnn_cnn_layer l[7];
    tgnn_cnn_desc d;
    tgnn_cnn *cnn = NULL;
    tgnn_meta_desc md;
    tiny_tape_desc td;
    bm m;
    b_row r[2];
    size_t k;
    int i;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    memset(&md, 0, sizeof md);
    memset(&td, 0, sizeof td);
    memset(&m, 0, sizeof m);
    memset(r, 0, sizeof r);
    m.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    for (i = 0; i < 6; i++) {               /* the family of examples/meta_prune.c */
        l[i].n_out = 8 << i / 2;
        l[i].size = 3;
        l[i].stride = i % 2 ? 1 : 2;
        l[i].norm = l[i].relu = 1;
        if (i % 2) l[i].add = i;
    }
    l[6].n_out = 10;
    d.in[0] = 1;
    d.in[1] = d.in[2] = 16;
    d.layer = l;
    d.n_layer = 7;
    md.hidden = BM_H;
    md.layers = BM_LAYERS;
    td.bytes = (size_t)1 << 26;
    td.no_grad = 1;
    b_must(m.ctx, tgnn_cnn_open(m.ctx, &d, &cnn));
    b_must(m.ctx, tgnn_net_graph_open(cnn, &m.g));
    b_must(m.ctx, tgnn_meta_open(m.ctx, &md, &m.meta));
    b_must(m.ctx, tiny_tape_open(m.ctx, &td, &m.tape));
    m.from = (int *)b_alloc((size_t)m.g.n_edge * 2 * sizeof(int));
    m.to = m.from + m.g.n_edge;
    m.count = (int *)b_alloc((size_t)m.g.n_node * sizeof(int));
    m.h = (float *)b_alloc((size_t)m.g.n_node * (9 * BM_H + 8) * sizeof(float));
    for (i = 0; i < 4; i++) m.b[i] = m.h + (size_t)(i + 1) * (size_t)m.g.n_node * BM_H;
    m.all = m.h + 5 * (size_t)m.g.n_node * BM_H;
    m.node = m.h + 9 * (size_t)m.g.n_node * BM_H;
    m.e = (float *)b_alloc((size_t)m.g.n_edge * (BM_H + 9) * sizeof(float));
    m.edge = m.e + (size_t)m.g.n_edge * BM_H;
    for (k = 0; k < m.g.n_block; k++) {
        const tgnn_net_block *b = &m.g.block[k];
        tiny_idx o, c;
        for (o = 0; o < b->n_out; o++)
            for (c = 0; c < b->n_in; c++) {
                m.from[b->first + o * b->n_in + c] = (int)(tgnn_cnn_node(cnn, b->from) + c);
                m.to[b->first + o * b->n_in + c] = (int)(tgnn_cnn_node(cnn, b->to) + o);
            }
    }
    for (k = 0; k < 2; k++) {
        r[k].what = k ? "metanetwork, blocks" : "metanetwork, loops over edges";
        r[k].run = k ? bm_ours : bm_loops;
        r[k].arg = &m;
        r[k].target = k ? tiny_target_name(tiny_op_target(m.ctx, TINY_OP_MUL)) : "C";
        r[k].threads = 1;
        b_shape(&r[k], "%d nodes, %d edges, 4 layers of 16", (int)m.g.n_node, (int)m.g.n_edge);
    }
    b_contest("Meta pruning: a network through the metanetwork", r, 2);
    b_verdict("loops over blocks", r[0].median_ns / r[1].median_ns, ">", 1.0);
    b_headline("meta-pruning", "one pass of the metanetwork prepares a network",
               "8-16-32 channels, 4 layers of 16, one thread", "%.2f ms: %.1f times as fast as loops over the edges",
               r[1].median_ns * 1e-6, r[0].median_ns / r[1].median_ns);
    b_free(m.e);
    b_free(m.h);
    b_free(m.count);
    b_free(m.from);
    tiny_tape_close(m.tape);
    tgnn_meta_close(m.meta);
    tgnn_net_graph_close(m.ctx, &m.g);
    tgnn_cnn_close(cnn);
    tiny_ctx_close(m.ctx);
}
#endif
