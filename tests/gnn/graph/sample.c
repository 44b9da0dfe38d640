/* tests/gnn/graph/sample.c - sampled edges are edges, none twice, as many as promised; every set of edges equally
 * often; the same for every target, number of threads and rest of the batch. Limits of chi-square:
 * scipy.stats.chi2.isf(1e-6, degrees of freedom), so a right sampler with other random numbers fails a test once in a
 * million. */
#define T_GNN
#include "t.h"

static tgnn_sampler *sampler(tiny_ctx *ctx, const tgnn_graph *g, int n_layers, int f0, int f1, int f2, int replace)
{
    int32_t fanout[3];
    tgnn_sampler_desc d;
    tgnn_sampler *s = NULL;
    memset(&d, 0, sizeof d);
    fanout[0] = f0;
    fanout[1] = f1;
    fanout[2] = f2;
    d.n_layers = n_layers;
    d.fanout = fanout;
    d.replace = replace;
    T_OK(tgnn_sampler_open(ctx, g, &d, &s));
    return s;
}

/* sources 1 .. d, all with an edge into node 0 */
static tgnn_graph *star(tiny_ctx *ctx, int d)
{
    int32_t *s = (int32_t *)t_keep((size_t)d * 4), *t = (int32_t *)t_keep((size_t)d * 4);
    tgnn_graph *g = NULL;
    tgnn_edges e;
    int i;
    memset(&e, 0, sizeof e);
    for (i = 0; i < d; i++) s[i] = i + 1;
    e.n_src = e.n_dst = d + 1;
    e.n = d;
    e.src = s;
    e.dst = t;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    return g;
}

/* everything that a batch promises */
static void check(const tgnn_graph *g, const tgnn_sample *o, const int32_t *seeds, tiny_idx n_seeds,
                  const int32_t *fanout, int replace)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    char *seen = (char *)t_keep((size_t)a->n_rows + 1), *took = (char *)t_keep((size_t)a->n + 1);
    tiny_idx i, n_src = n_seeds;
    int64_t q, r;
    int l;
    for (i = 0; i < n_seeds; i++) T_TRUE(o->node[i] == seeds[i]);
    for (i = 0; i < o->n_node; i++) {
        if (!T_TRUE(o->node[i] >= 0 && o->node[i] < a->n_rows && !seen[o->node[i]])) return;
        seen[o->node[i]] = 1;
    }
    for (l = 0; l < o->n_layers; l++) {
        const tgnn_block *b = &o->block[l];
        tiny_idx new_at = n_src;
        T_EQ_INT(b->n_dst, n_src);
        T_EQ_INT(b->offset[0], 0);
        T_EQ_INT(b->offset[b->n_dst], b->n);
        for (i = 0; i < b->n_dst; i++) {
            const int64_t p0 = a->offset[o->node[i]], d = a->offset[o->node[i] + 1] - p0,
                          n = b->offset[i + 1] - b->offset[i];
            int64_t want = fanout[l] < 0 || (!replace && d < fanout[l]) ? d : fanout[l];
            if (!d) want = 0;
            if (!T_TRUE(n == want)) return;
            for (q = b->offset[i]; q < b->offset[i + 1]; q++) {
                const int64_t p = b->edge[q];
                if (!T_TRUE(p >= p0 && p < p0 + d && b->col[q] >= 0 && b->col[q] < b->n_src &&
                            o->node[b->col[q]] == a->col[p]))
                    return;
                if (!replace) T_TRUE(!took[p]);
                took[p] = 1;
                if (b->col[q] >= n_src) {               /* places are given in the order of the edges */
                    T_TRUE(b->col[q] <= new_at);
                    if (b->col[q] == new_at) new_at++;
                }
            }
            for (r = b->offset[i]; r < b->offset[i + 1]; r++) took[b->edge[r]] = 0;
        }
        T_EQ_INT(b->n_src, new_at);
        n_src = b->n_src;
    }
    T_EQ_INT(o->n_node, n_src);
}

static void test_promises(tiny_target target)
{
    static const int32_t fans[][3] = { { 5, 3, 2 },           { 0, 4, 4 },    { -1, 3, 0 },
                                       { 40, 1, 1000000000 }, { 200, 33, 7 }, { 1, 1, 1 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t seeds[300];
    uint32_t order[2048];
    tgnn_sample o;
    tgnn_graph *g;
    size_t f;
    int i, replace;
    T_OK(tgnn_rmat(ctx, 11, 30000, 9, &g));             /* duplicates, loops, hubs, isolated nodes */
    for (f = 0; f < T_COUNT(fans); f++)
        for (replace = 0; replace < 2; replace++) {
            tgnn_sampler *s;
            tiny_rng rng = tiny_rng_make(f, 1);
            if (replace && (fans[f][0] < 0 || fans[f][2] > 1000)) continue;
            s = sampler(ctx, g, 3, fans[f][0], fans[f][1], fans[f][2], replace);
            tiny_rng_permutation(&rng, order, 2048);
            for (i = 0; i < 300; i++) seeds[i] = (int32_t)order[i];
            for (i = 0; i < 3; i++) {                   /* batches of other sizes, one after the other */
                T_OK(tgnn_sampler_draw(s, (uint64_t)i, seeds + i, i == 1 ? 10 : 290, &o));
                check(g, &o, seeds + i, i == 1 ? 10 : 290, fans[f], replace);
            }
            T_OK(tgnn_sampler_draw(s, 1, NULL, 0, &o));
            T_TRUE(o.n_node == 0 && o.block[2].n == 0);
            tgnn_sampler_close(s);
        }
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 0", "sampling: no duplicates");
}

/* all targets, 1, 2 and 4 threads; a node draws the same when it is alone */
static void test_same_everywhere(tiny_target target)
{
    int32_t *node = (int32_t *)t_keep(8192 * 4), seeds[256];
    int64_t *edge = (int64_t *)t_keep(200000 * 8), n_edge = 0, p0 = 0, n0 = 0;
    tiny_idx n_node = 0;
    int run, i, replace;
    for (replace = 0; replace < 2; replace++)
        for (run = 0; run < 5; run++) {
            tiny_ctx *ctx = t_ctx(run == 1 ? TINY_TARGET_REFERENCE : target, run == 2 ? 1 : run == 3 ? 4 : 2);
            tgnn_sampler *s;
            tgnn_sample o;
            tgnn_graph *g;
            T_OK(tgnn_rmat(ctx, 13, 150000, 2, &g));
            s = sampler(ctx, g, 2, 50, 10, 0, replace);
            for (i = 0; i < 256; i++) seeds[i] = i * 31;
            if (run == 4) seeds[0] = 77;                /* alone, but for itself in the second place */
            T_OK(tgnn_sampler_draw(s, 12345, run == 4 ? seeds + 100 : seeds, run == 4 ? 1 : 256, &o));
            if (!run) {
                n_node = o.n_node;
                n_edge = o.block[1].n;
                T_TRUE(n_node <= 8192 && n_edge <= 200000);
                memcpy(node, o.node, (size_t)n_node * 4);
                memcpy(edge, o.block[1].edge, (size_t)n_edge * 8);
                p0 = o.block[0].edge[o.block[0].offset[100]];
                n0 = o.block[0].offset[101] - o.block[0].offset[100];
            } else if (run < 4) {
                T_EQ_INT(o.n_node, n_node);
                T_EQ_INT(o.block[1].n, n_edge);
                T_SAME(o.node, node, n_node);
                T_SAME(o.block[1].edge, edge, n_edge);
            } else {
                T_EQ_INT(o.block[0].n, n0);
                if (n0) T_TRUE(o.block[0].edge[0] == p0);
            }
            tgnn_sampler_close(s);
            tgnn_graph_close(ctx, g);
            t_close(ctx);
        }
    T_PROOF("graphs 0", "sampling: same with 1, 2, 4 threads");
}

/* every edge equally often (5 of 20, and 40 of 200 by the table), every pair (2 of 6), every draw with replacement (3
 * of 10) */
static void test_distribution(tiny_target target)
{
    static const struct {
        int d, f, replace;
        double limit;
    } each[] = { { 20, 5, 0, 63.68 }, { 200, 40, 0, 308.6 }, { 10, 3, 1, 44.81 } };
    static const int32_t seed_node = 0;
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c;
    int i, k, pairs[36] = { 0 };
    double chi = 0;
    tgnn_sample o;
    tgnn_graph *g;
    tgnn_sampler *s;
    for (c = 0; c < T_COUNT(each); c++) {
        const int d = each[c].d, f = each[c].f, n = 20000;
        int count[200] = { 0 };
        g = star(ctx, d);
        s = sampler(ctx, g, 1, f, 0, 0, each[c].replace);
        for (i = 0; i < n; i++) {
            T_OK(tgnn_sampler_draw(s, (uint64_t)i, &seed_node, 1, &o));
            for (k = 0; k < f; k++) count[o.block[0].edge[k]]++;
        }
        for (i = 0, chi = 0; i < d; i++) {
            const double want = (double)n * f / d;
            chi += (count[i] - want) * (count[i] - want) / want;
        }
        /* without replacement the counts vary less by this factor */
        if (!each[c].replace) chi *= (double)(d - 1) / (d - f);
        if (!T_TRUE(chi < each[c].limit)) printf("chi-square %g of %d degrees\n", chi, d - 1);
        tgnn_sampler_close(s);
        tgnn_graph_close(ctx, g);
    }
    g = star(ctx, 6);
    s = sampler(ctx, g, 1, 2, 0, 0, 0);
    for (i = 0; i < 15000; i++) {
        int64_t x, y;
        T_OK(tgnn_sampler_draw(s, (uint64_t)i + 7, &seed_node, 1, &o));
        x = o.block[0].edge[0];
        y = o.block[0].edge[1];
        pairs[x < y ? x * 6 + y : y * 6 + x]++;
    }
    for (i = 0, chi = 0; i < 36; i++)
        if (i / 6 < i % 6) chi += (pairs[i] - 1000.0) * (pairs[i] - 1000.0) / 1000.0;
    T_TRUE(chi < 54.64);                    /* 14 degrees */
    tgnn_sampler_close(s);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 0", "sampling: frequencies by chi-square");
}

/* the numbers that are promised: number i of the generator (seed, layer << 32 | node); seeds whose low halves are the
 * same among them */
static void test_numbers(tiny_target target)
{
    static const uint64_t seed[] = {
        5, 5 | UINT64_C(1) << 32, 5 | UINT64_C(1) << 33, 5 | UINT64_C(1) << 63, UINT64_C(0xfedcba9876543210), UINT64_MAX
    };
    static const int32_t node = 0;
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_graph *g = star(ctx, 1000);
    tgnn_sampler *s = sampler(ctx, g, 1, 40, 0, 0, 1);
    tgnn_sample o;
    size_t c;
    int i;
    for (c = 0; c < T_COUNT(seed); c++) {
        tiny_rng r = tiny_rng_make(seed[c], 0);
        T_OK(tgnn_sampler_draw(s, seed[c], &node, 1, &o));
        T_EQ_INT(o.block[0].n, 40);
        for (i = 0; i < 40; i++) T_EQ_INT(o.block[0].edge[i], tiny_rng_below(&r, 1000));
    }
    tgnn_sampler_close(s);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* all edges of all layers: the sums of the whole graph over two layers, for the seeds */
static void test_whole(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float *x = t_rand(512 * 4, -1, 1), *h = t_guarded(512 * 4), *y = t_guarded(512 * 4), *xs = t_guarded(512 * 4),
          *hs = t_guarded(512 * 4), *ys = t_guarded(512 * 4);
    static const int32_t seeds[5] = { 3, 99, 500, 0, 41 };
    const tiny_sparse *a;
    tgnn_sampler *s;
    tgnn_sample o;
    tgnn_graph *g;
    int i, k;
    T_OK(tgnn_rmat(ctx, 9, 3000, 4, &g));
    a = tgnn_graph_in(g);
    s = sampler(ctx, g, 2, -1, 1000000, 0, 0);
    T_OK(tgnn_sampler_draw(s, 1, seeds, 5, &o));
    {
        tiny_tensor off = tiny_tensor_1d(a->offset, TINY_I64, 513),
                    col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 512, 4), th = tiny_tensor_2d(h, TINY_F32, 512, 4),
                    ty = tiny_tensor_2d(y, TINY_F32, 512, 4);
        T_OK(tiny_spmm(ctx, &off, &tx, &col, NULL, NULL, NULL, &th));
        T_OK(tiny_spmm(ctx, &off, &th, &col, NULL, NULL, NULL, &ty));
    }
    {
        const tgnn_block *b1 = &o.block[1], *b0 = &o.block[0];
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 512, 4), at = tiny_tensor_1d(o.node, TINY_I32, o.n_node),
                    txs = tiny_tensor_2d(xs, TINY_F32, o.n_node, 4);
        tiny_tensor o1 = tiny_tensor_1d(b1->offset, TINY_I64, b1->n_dst + 1),
                    c1 = tiny_tensor_1d(b1->col, TINY_I32, (tiny_idx)b1->n),
                    ths = tiny_tensor_2d(hs, TINY_F32, b1->n_dst, 4);
        tiny_tensor o0 = tiny_tensor_1d(b0->offset, TINY_I64, b0->n_dst + 1),
                    c0 = tiny_tensor_1d(b0->col, TINY_I32, (tiny_idx)b0->n),
                    tys = tiny_tensor_2d(ys, TINY_F32, b0->n_dst, 4);
        T_OK(tiny_gather(ctx, &tx, &at, &txs));
        T_OK(tiny_spmm(ctx, &o1, &txs, &c1, NULL, NULL, NULL, &ths));
        T_OK(tiny_spmm(ctx, &o0, &ths, &c0, NULL, NULL, NULL, &tys));
    }
    for (i = 0; i < 5; i++)
        for (k = 0; k < 4; k++) T_CLOSE(ys[i * 4 + k], y[seeds[i] * 4 + k], 1e-4 * (1 + fabs(y[seeds[i] * 4 + k])));
    tgnn_sampler_close(s);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_bad(tiny_target target)
{
    static const int32_t fanout[2] = { 2, -2 }, all = -1, two = 2, none = 0;
    static const int32_t twice[3] = { 1, 2, 1 }, outside[2] = { 1, 4 }, negative[1] = { -1 }, ok[2] = { 0, 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_graph *g = star(ctx, 3);
    tgnn_sampler_desc d;
    tgnn_sampler *s;
    tgnn_sample o;
    memset(&d, 0, sizeof d);
    T_STATUS(tgnn_sampler_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "the fanout");
    d.fanout = fanout;
    T_STATUS(tgnn_sampler_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "0 layers");
    d.n_layers = 17;
    T_STATUS(tgnn_sampler_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "17 layers, there must be 1 to 16");
    d.n_layers = 2;
    T_STATUS(tgnn_sampler_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "fanout[1] is -2");
    d.n_layers = 1;
    d.fanout = &all;
    d.replace = 1;
    T_STATUS(tgnn_sampler_open(ctx, g, &d, &s), TINY_E_ARGUMENT, "which replace does not allow");
    d.replace = 0;
    d.fanout = &none;
    T_OK(tgnn_sampler_open(ctx, g, &d, &s));
    T_OK(tgnn_sampler_draw(s, 1, ok, 2, &o));           /* fanout 0: the seeds alone */
    T_TRUE(o.n_node == 2 && o.block[0].n == 0);
    tgnn_sampler_close(s);
    d.fanout = &two;
    T_OK(tgnn_sampler_open(ctx, g, &d, &s));
    T_STATUS(tgnn_sampler_draw(s, 1, twice, 3, &o), TINY_E_ARGUMENT, "node 1 is seed 0 and seed 2");
    T_STATUS(tgnn_sampler_draw(s, 1, outside, 2, &o), TINY_E_ARGUMENT, "seed 1 is node 4, but there are 4 nodes");
    T_STATUS(tgnn_sampler_draw(s, 1, negative, 1, &o), TINY_E_ARGUMENT, "seed 0 is node -1");
    T_STATUS(tgnn_sampler_draw(s, 1, ok, 5, &o), TINY_E_ARGUMENT, "5 seeds, but 4 nodes");
    T_STATUS(tgnn_sampler_draw(s, 1, NULL, 2, &o), TINY_E_ARGUMENT, "the seeds");
    T_OK(tgnn_sampler_draw(s, 1, ok, 2, &o));           /* and it goes on; an isolated node has no edges */
    T_TRUE(o.block[0].offset[1] == 2 && o.block[0].offset[2] == 2);
    tgnn_sampler_close(s);
    tgnn_sampler_close(NULL);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 0", "bad input: fanout 0");
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        static const int32_t fanout[2] = { 40, 2 };
        static const int32_t seeds[3] = { 5, 0, 9 };
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tgnn_sampler_desc d;
        tgnn_sampler *s;
        tgnn_sample o;
        tgnn_graph *g;
        tiny_ctx *ctx;
        memset(&d, 0, sizeof d);
        d.n_layers = 2;
        d.fanout = fanout;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_rmat(ctx, 6, 2000, 1, &g)) {
                if (!tgnn_sampler_open(ctx, g, &d, &s)) {
                    if (tgnn_sampler_draw(s, 1, seeds, 1, &o)) T_TRUE(o.n_node == 0);
                    /* also after a failure */
                    if (!tgnn_sampler_draw(s, 1, seeds, 3, &o)) check(g, &o, seeds, 3, fanout, 0);
                    tgnn_sampler_close(s);
                }
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

/* thousands of edges of one node: the table of drawn edges grows to match */
static void test_hub(tiny_target target)
{
    static const int32_t seed = 0, fans[] = { 63, 64, 65, 300, 5000, 11999, 12000 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    tgnn_graph *g = star(ctx, 12000);
    size_t i;
    for (i = 0; i < T_COUNT(fans); i++) {
        tgnn_sampler *s = sampler(ctx, g, 1, fans[i], 0, 0, 0), *ref = sampler(plain, g, 1, fans[i], 0, 0, 0);
        tgnn_sample o, want;
        if (T_OK(tgnn_sampler_draw(s, 7, &seed, 1, &o)) && T_OK(tgnn_sampler_draw(ref, 7, &seed, 1, &want))) {
            check(g, &o, &seed, 1, &fans[i], 0);
            if (T_EQ_INT(o.block[0].n, want.block[0].n)) T_SAME(o.block[0].edge, want.block[0].edge, want.block[0].n);
        }
        tgnn_sampler_close(s);
        tgnn_sampler_close(ref);
    }
    tgnn_graph_close(ctx, g);
    t_close(plain);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_promises);
    T_RUN_FORMS(test_same_everywhere);
    T_RUN_FORMS(test_hub);
    T_RUN_FORMS(test_distribution);
    T_RUN_TARGETS(test_numbers);
    T_RUN(test_whole);
    T_RUN_FORMS(test_bad);
    T_RUN(test_no_memory);
    return t_done();
}
