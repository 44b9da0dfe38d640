/* tests/gnn/layer/layer.c - layers against recorded outputs of a public library's formulas, the worked example of the
 * paper path, and against themselves on a graph with other numbers */
#define T_GNN
#include "t.h"

typedef struct net {
    const char *folder;
    int n, m, f, e, heads, c, out, hidden;
    int32_t *index, *type;
    tgnn_graph *g;
    tiny_tensor x, attr;
    float *weight;
    int files, of;
} net;

static void *load(net *s, const char *file, size_t bytes)
{
    char name[200];
    (void)snprintf(name, sizeof name, "oracle/gnn/%s%s", s->folder, file);
    return t_shared_bytes(name, bytes);
}

static tiny_tensor weight(net *s, const char *file, int rank, int a, int b, int c)
{
    tiny_idx dim[3];
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    return tiny_tensor_nd(load(s, file, (size_t)a * (size_t)(rank > 1 ? b : 1) * (size_t)(rank > 2 ? c : 1) * 4),
                          TINY_F32, rank, dim);
}

static int open_net(tiny_ctx *ctx, net *s, const char *folder, int medium)
{
    tgnn_edges e;
    memset(s, 0, sizeof *s);
    s->folder = folder;
    s->n = medium ? 120 : 17;
    s->m = medium ? 900 : 60;
    s->f = medium ? 33 : 7;
    s->e = 5;
    s->heads = medium ? 4 : 3;
    s->c = medium ? 8 : 4;
    s->out = medium ? 19 : 6;
    s->hidden = medium ? 38 : 12;
    s->index = (int32_t *)load(s, "graph/edge_index.i32", (size_t)s->m * 8);
    if (!s->index) return 0;
    s->type = (int32_t *)load(s, "graph/edge_type.i32", (size_t)s->m * 4);
    s->weight = (float *)load(s, "graph/edge_weight.f32", (size_t)s->m * 4);
    s->x = weight(s, "graph/x.f32", 2, s->n, s->f, 0);
    s->attr = weight(s, "graph/edge_attr.f32", 2, s->m, s->e, 0);
    memset(&e, 0, sizeof e);
    e.n_src = e.n_dst = s->n;
    e.n = s->m;
    e.src = s->index;
    e.dst = s->index + s->m;
    e.weight = s->weight;
    return T_OK(tgnn_graph_make(ctx, &e, NULL, &s->g));
}

/* the place of edge p of row r in the files: edges without loops in their order, then a loop for each node */
static int place_of(const net *s, const tiny_sparse *a, tiny_idx r, int64_t p, int loops)
{
    int k, at = 0, all = 0;
    if (!loops) return (int)a->source[p];
    for (k = 0; k < s->m; k++) {
        if (s->index[k] == s->index[s->m + k]) continue;
        if (k < a->source[p]) at++;
        all++;
    }
    return a->col[p] == r ? all + (int)r : at;
}

/* runs the layer and compares y (and the attention, or the norm of the graph) with files */
static void compare(tiny_ctx *ctx, net *s, const tgnn_layer *l, const tiny_tensor *e, const char *file,
                    const char *alpha_file, const char *norm_file)
{
    const int width = (int)tgnn_layer_width(l, s->f) ? (int)tgnn_layer_width(l, s->f) : s->f;
    float *y = t_guarded((size_t)s->n * (size_t)width), *al = t_guarded((size_t)(s->m + s->n) * (size_t)s->heads);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, s->n, width), ta;
    const double *want = (const double *)load(s, file, (size_t)s->n * (size_t)width * 8), *other = NULL;
    const tiny_sparse *a;
    tgnn_graph *h;
    int loops = l->kind != TGNN_LAYER_TRANSFORMER, heads = norm_file ? 1 : s->heads, i, before = t_now.checks_failed;
    tiny_idx r;
    int64_t p;
    s->of += 1 + (alpha_file || norm_file);
    if (!want || !T_OK(tgnn_layer_graph(ctx, l, s->g, s->type, s->m, &h))) return;
    a = tgnn_graph_in(h);
    ta = tiny_tensor_2d(al, TINY_F32, (tiny_idx)a->n, s->heads);
    if (T_OK(tgnn_layer_run(ctx, l, h, &s->x, e, &ty, NULL)))
        for (i = 0; i < s->n * width; i++) T_CLOSE(y[i], want[i], 1e-5 * (1 + fabs(want[i])));
    T_WALLS(y, s->n * width);
    if (t_now.checks_failed == before) s->files++;
    else printf("%s%s differs\n", s->folder, file);
    if (alpha_file || norm_file) {
        int n_all = (int)a->n;
        before = t_now.checks_failed;
        other = (const double *)load(s, alpha_file ? alpha_file : norm_file, (size_t)n_all * (size_t)heads * 8);
        if (alpha_file && T_OK(tgnn_layer_run(ctx, l, h, &s->x, e, &ty, &ta)))     /* in steps: the same y */
            for (i = 0; i < s->n * width; i++) T_CLOSE(y[i], want[i], 1e-5 * (1 + fabs(want[i])));
        for (r = 0; other && r < a->n_rows; r++)
            for (p = a->offset[r]; p < a->offset[r + 1]; p++)
                for (i = 0; i < heads; i++)
                    T_CLOSE(alpha_file ? al[p * heads + i] : a->value[p],
                            other[place_of(s, a, r, p, loops) * heads + i], 2e-6);
        if (t_now.checks_failed == before) s->files++;
    }
    tgnn_graph_close(ctx, h);
}

static void test_oracle(tiny_target target)
{
    static const char *const folders[] = { "", "medium/" };
    tiny_ctx *ctx = t_ctx(target, 2);
    int k, files = 0, of = 0;
    for (k = 0; k < 2; k++) {
        net s;
        tgnn_layer l;
        int hc;
        if (k && !t_one_of("oracle/gnn/medium/graph/edge_index.i32")) break;
        if (!open_net(ctx, &s, folders[k], k)) break;
        hc = s.heads * s.c;
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_GCN;
        l.w[0] = weight(&s, "gcn/weight.f32", 2, s.out, s.f, 0);
        l.w[1] = weight(&s, "gcn/bias.f32", 1, s.out, 0, 0);
        compare(ctx, &s, &l, NULL, "gcn/out_unweighted.f64", NULL, "gcn/norm_unweighted.f64");
        l.weighted = 1;
        compare(ctx, &s, &l, NULL, "gcn/out_weighted.f64", NULL, "gcn/norm_weighted.f64");
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_APPNP;
        compare(ctx, &s, &l, NULL, "appnp/out_K10_alpha0.1.f64", NULL, NULL);
        l.kind = TGNN_LAYER_SGC;
        compare(ctx, &s, &l, NULL, "sgc/out_K2.f64", NULL, NULL);
        l.kind = TGNN_LAYER_SAGE;
        l.w[0] = weight(&s, "sage/weight_l.f32", 2, s.out, s.f, 0);
        l.w[1] = weight(&s, "sage/bias_l.f32", 1, s.out, 0, 0);
        l.w[2] = weight(&s, "sage/weight_r.f32", 2, s.out, s.f, 0);
        compare(ctx, &s, &l, NULL, "sage/out_sum.f64", NULL, NULL);
        l.aggr = TINY_EDGE_MAX;
        compare(ctx, &s, &l, NULL, "sage/out_max.f64", NULL, NULL);
        l.aggr = TINY_EDGE_MEAN;
        compare(ctx, &s, &l, NULL, "sage/out_mean.f64", NULL, NULL);
        l.normalize = 1;
        compare(ctx, &s, &l, NULL, "sage/out_mean_l2normalized.f64", NULL, NULL);
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_GAT;
        l.w[0] = weight(&s, "gat/weight.f32", 2, hc, s.f, 0);
        l.w[1] = weight(&s, "gat/att_src.f32", 3, 1, s.heads, s.c);    /* as PyG keeps it */
        l.w[2] = weight(&s, "gat/att_dst.f32", 2, s.heads, s.c, 0);
        l.w[3] = weight(&s, "gat/bias_concat.f32", 1, hc, 0, 0);
        compare(ctx, &s, &l, NULL, "gat/out_concat.f64", "gat/alpha.f64", NULL);
        l.average = 1;
        l.w[3].dim[0] = s.c;
        compare(ctx, &s, &l, NULL, "gat/out_mean_heads.f64", NULL, NULL);
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_GATV2;
        l.w[0] = weight(&s, "gatv2/weight_l.f32", 2, hc, s.f, 0);
        l.w[1] = weight(&s, "gatv2/bias_l.f32", 1, hc, 0, 0);
        l.w[2] = weight(&s, "gatv2/weight_r.f32", 2, hc, s.f, 0);
        l.w[3] = weight(&s, "gatv2/bias_r.f32", 1, hc, 0, 0);
        l.w[4] = weight(&s, "gatv2/att.f32", 3, 1, s.heads, s.c);
        l.w[5] = weight(&s, "gatv2/bias.f32", 1, hc, 0, 0);
        compare(ctx, &s, &l, NULL, "gatv2/out.f64", "gatv2/alpha.f64", NULL);
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_GIN;
        l.eps = 0.1f;
        l.w[0] = weight(&s, "gin/weight1.f32", 2, s.hidden, s.f, 0);
        l.w[1] = weight(&s, "gin/bias1.f32", 1, s.hidden, 0, 0);
        l.w[2] = weight(&s, "gin/weight2.f32", 2, s.out, s.hidden, 0);
        l.w[3] = weight(&s, "gin/bias2.f32", 1, s.out, 0, 0);
        compare(ctx, &s, &l, NULL, "gin/out_eps0.1.f64", NULL, NULL);
        l.kind = TGNN_LAYER_GINE;
        l.w[5] = weight(&s, "gine/edge_weight.f32", 2, s.f, s.e, 0);
        l.w[6] = weight(&s, "gine/edge_bias.f32", 1, s.f, 0, 0);
        compare(ctx, &s, &l, &s.attr, "gine/out_eps0.1.f64", NULL, NULL);
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_TRANSFORMER;
        l.heads = s.heads;
        l.w[0] = weight(&s, "transformer/weight_q.f32", 2, hc, s.f, 0);
        l.w[1] = weight(&s, "transformer/bias_q.f32", 1, hc, 0, 0);
        l.w[2] = weight(&s, "transformer/weight_k.f32", 2, hc, s.f, 0);
        l.w[3] = weight(&s, "transformer/bias_k.f32", 1, hc, 0, 0);
        l.w[4] = weight(&s, "transformer/weight_v.f32", 2, hc, s.f, 0);
        l.w[5] = weight(&s, "transformer/bias_v.f32", 1, hc, 0, 0);
        l.w[6] = weight(&s, "transformer/weight_edge.f32", 2, hc, s.e, 0);
        l.w[7] = weight(&s, "transformer/weight_skip.f32", 2, hc, s.f, 0);
        l.w[8] = weight(&s, "transformer/bias_skip.f32", 1, hc, 0, 0);
        compare(ctx, &s, &l, NULL, "transformer/out_noedge.f64", NULL, NULL);
        compare(ctx, &s, &l, &s.attr, "transformer/out_edge.f64", "transformer/alpha_edge.f64", NULL);
        memset(&l, 0, sizeof l);
        l.kind = TGNN_LAYER_RGCN;
        l.w[0] = weight(&s, "rgcn/weight.f32", 3, 3, s.f, s.out);
        l.w[1] = weight(&s, "rgcn/root.f32", 2, s.f, s.out, 0);
        l.w[2] = weight(&s, "rgcn/bias.f32", 1, s.out, 0, 0);
        compare(ctx, &s, &l, NULL, "rgcn/out_full.f64", NULL, NULL);
        l.w[0] = weight(&s, "rgcn/basis.f32", 3, 2, s.f, s.out);
        l.w[3] = weight(&s, "rgcn/comp.f32", 2, 3, 2, 0);
        compare(ctx, &s, &l, NULL, "rgcn/out_basis.f64", NULL, NULL);
        files += s.files;
        of += s.of;
        tgnn_graph_close(ctx, s.g);
    }
    T_TRUE(files == of && of > 15);
    if (of && target == TINY_TARGET_SCALAR) printf("oracle/gnn, layers: %d of %d\n", files, of);
    t_close(ctx);
}

static tgnn_graph *path(tiny_ctx *ctx)      /* 0-1-2-3, both directions */
{
    static const int32_t s[3] = { 0, 1, 2 }, d[3] = { 1, 2, 3 };
    tgnn_graph_desc how;
    tgnn_graph *g = NULL;
    tgnn_edges e;
    memset(&e, 0, sizeof e);
    memset(&how, 0, sizeof how);
    e.n = 3;
    e.src = s;
    e.dst = d;
    how.symmetrize = 1;
    T_OK(tgnn_graph_make(ctx, &e, &how, &g));
    return g;
}

/* worked on paper */
static void test_worked(tiny_target target)
{
    static float x[8] = { 1, 0, 0, 1, 1, 1, 2, -1 }, w[4] = { 1, 0, 2, 1 }, src[2] = { 0.5f, -0.25f },
                 dst[2] = { 0.1f, 0.2f };
    static const double gcn[8] = { 0.5, 1.408248, 0.741582, 2.149830, 1.149830, 2.558078, 1.408248, 2.724745 },
                        gin[8] = { 1.1, 1, 2, 2.1, 3.1, 1.1, 3.2, -0.1 };
    static const double alpha[3] = { 0.381509, 0.309245, 0.309245 };
    static float both[8] = { 1, 0, 0, 1, -1, 0, 0, -1 }, back[8] = { 1, 0, -1, 0, 0, 1, 0, -1 }, eps = 0.1f;
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_graph *g = path(ctx), *h;
    tgnn_layer l;
    float y[8], a[10];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 4, 2),
                ta = tiny_tensor_2d(a, TINY_F32, 10, 1);
    int i, k;
    memset(&l, 0, sizeof l);
    l.w[0] = tiny_tensor_2d(w, TINY_F32, 2, 2);     /* (out, in): W = [[1, 2], [0, 1]] turned */
    T_OK(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h));
    T_OK(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL));
    for (i = 0; i < 8; i++) T_CLOSE(y[i], gcn[i], 1e-6);
    tgnn_graph_close(ctx, h);
    l.kind = TGNN_LAYER_GAT;
    l.w[1] = tiny_tensor_2d(src, TINY_F32, 1, 2);
    l.w[2] = tiny_tensor_2d(dst, TINY_F32, 1, 2);
    T_OK(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h));
    T_OK(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, &ta));
    for (i = 0; i < 3; i++) T_CLOSE(a[tgnn_graph_in(h)->offset[1] + i], alpha[i], 1e-6);
    T_CLOSE(y[2], 0.690755, 1e-6);
    T_CLOSE(y[3], 2.0, 1e-6);
    tgnn_graph_close(ctx, h);
    /* GIN: 1.1 x_i + sum x_j through a network that returns it, relu(v) - relu(-v) = v; eps as a tensor and as a
     * number */
    memset(&l, 0, sizeof l);
    l.kind = TGNN_LAYER_GIN;
    l.w[0] = tiny_tensor_2d(both, TINY_F32, 4, 2);
    l.w[2] = tiny_tensor_2d(back, TINY_F32, 2, 4);
    T_OK(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h));
    for (k = 0; k < 2; k++) {
        l.eps = k ? 0.1f : 7.0f;
        l.w[4] = tiny_tensor_1d(k ? NULL : &eps, TINY_F32, 1);
        for (i = 0; i < 8; i++) y[i] = NAN;
        T_OK(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL));
        for (i = 0; i < 8; i++) T_CLOSE(y[i], gin[i], 1e-6);
    }
    tgnn_graph_close(ctx, h);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 0", "worked path: GCN");
    T_PROOF("graphs 0", "worked path: GIN sum with eps 0.1");
    T_PROOF("graphs 0", "worked path: GAT alpha and output of node 1");
}

/* nodes under other numbers: the outputs follow them */
static void test_relabelled(tiny_target target)
{
    enum { N = 200, F = 12, H = 2, C = 6 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(N * F, -1, 1), *px = t_guarded(N * F), *y = t_guarded(N * H * C), *py = t_guarded(N * H * C);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), tpx = tiny_tensor_2d(px, TINY_F32, N, F),
                ty = tiny_tensor_2d(y, TINY_F32, N, H * C), tpy = tiny_tensor_2d(py, TINY_F32, N, H * C);
    uint32_t order[N];
    tiny_rng rng = tiny_rng_make(8, 8);
    tgnn_graph *g, *pg, *h;
    tgnn_layer l;
    int k, i, j;
    tiny_rng_permutation(&rng, order, N);
    for (i = 0; i < N; i++) memcpy(px + i * F, x + (int)order[i] * F, F * 4);
    T_OK(tgnn_planted(ctx, N, 4, 6, 0.8, 3, &g));
    T_OK(tgnn_graph_permute(ctx, g, order, &pg));
    for (k = 0; k < 3; k++) {
        memset(&l, 0, sizeof l);
        l.kind = k == 0 ? TGNN_LAYER_GCN : k == 1 ? TGNN_LAYER_GATV2 : TGNN_LAYER_TRANSFORMER;
        l.heads = H;
        for (i = 0; i < (k == 0 ? 2 : k == 1 ? 6 : 6); i++) {
            int matrix = k == 0 ? i == 0 : k == 1 ? i == 0 || i == 2 : i % 2 == 0;
            l.w[i] = matrix ? tiny_tensor_2d(t_rand(H * C * F, -1, 1), TINY_F32, H * C, F)
                            : tiny_tensor_1d(t_rand(H * C, -1, 1), TINY_F32, H * C);
        }
        if (k == 1) l.w[4] = tiny_tensor_2d(l.w[4].data, TINY_F32, H, C);
        T_OK(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h));
        T_OK(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL));
        tgnn_graph_close(ctx, h);
        T_OK(tgnn_layer_graph(ctx, &l, pg, NULL, 0, &h));
        T_OK(tgnn_layer_run(ctx, &l, h, &tpx, NULL, &tpy, NULL));
        tgnn_graph_close(ctx, h);
        for (i = 0; i < N; i++)
            for (j = 0; j < H * C; j++) T_CLOSE(py[i * H * C + j], y[(int)order[i] * H * C + j], 2e-5);
    }
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, pg);
    t_close(ctx);
    T_PROOF("graphs 0", "relabelling permutes the outputs");
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = path(ctx), *h;
    float x[8] = { 0 }, w[12] = { 0 }, y[12];
    int32_t relation[6] = { 0, 1, 0, 1, 2, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 4, 3),
                small = tiny_tensor_2d(x, TINY_F32, 3, 2);
    tgnn_layer l;
    int i;
    memset(&l, 0, sizeof l);
    l.w[0] = tiny_tensor_2d(w, TINY_F32, 3, 2);
    T_OK(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h));
    T_STATUS(tgnn_layer_run(ctx, &l, g, &tx, NULL, &ty, NULL), TINY_E_ARGUMENT, "gcn: the graph is not normalised");
    T_STATUS(tgnn_layer_run(ctx, &l, h, &small, NULL, &ty, NULL), TINY_E_SHAPE, "gcn: x has 3 rows for 4 nodes");
    T_STATUS(tgnn_layer_run(ctx, &l, h, &tx, NULL, &tx, NULL), TINY_E_SHAPE, "gcn: y is 4 x 2, the weights give 4 x 3");
    l.w[0] = tiny_tensor_2d(w, TINY_F32, 3, 4);
    T_STATUS(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL), TINY_E_SHAPE,
             "gcn: lin.weight is 3x4 f32, it must be 0 x 2");
    l.w[0] = tiny_tensor_2d(w, TINY_F32, 3, 2);
    l.w[1] = tiny_tensor_1d(w, TINY_F32, 2);
    T_STATUS(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL), TINY_E_SHAPE,
             "gcn: bias is 2 f32, it must have 3 numbers");
    l.kind = TGNN_LAYER_GAT;
    memset(&l.w[1], 0, sizeof l.w[1]);
    T_STATUS(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL), TINY_E_ARGUMENT, "gat: the weight att_src is missing");
    tgnn_graph_close(ctx, h);
    l.kind = TGNN_LAYER_RGCN;
    l.w[0] = tiny_tensor_3d(w, TINY_F32, 2, 2, 3);
    T_STATUS(tgnn_layer_graph(ctx, &l, g, NULL, 0, &h), TINY_E_ARGUMENT,
             "rgcn: the relations of the edges are missing");
    T_OK(tgnn_layer_graph(ctx, &l, g, relation, 6, &h));
    for (i = 0; i < 12; i++) y[i] = NAN;    /* without a root no old value of y may stay */
    T_OK(tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL));
    for (i = 0; i < 12; i++) T_TRUE(y[i] == 0.0f);
    tgnn_graph_close(ctx, h);
    l.kind = TGNN_LAYER_GAT;                /* weights of a file may have no heads */
    l.average = 1;
    l.w[0] = tiny_tensor_2d(w, TINY_F32, 3, 2);
    l.w[1] = tiny_tensor_3d(w, TINY_F32, 1, 0, 3);
    (void)tgnn_layer_width(&l, 2);
    l.average = 0;
    l.kind = TGNN_LAYER_RGCN;
    l.w[0] = tiny_tensor_3d(w, TINY_F32, 2, 2, 3);
    memset(&l.w[1], 0, sizeof l.w[1]);
    relation[1] = 2;                        /* edges of the graph carry the numbers 0 .. 2 */
    T_STATUS(tgnn_layer_graph(ctx, &l, g, relation, 6, &h), TINY_E_FORMAT, "rgcn: edge 1 has relation 2, there are 2");
    relation[1] = 1;
    /* numbers of edges come from a file too: those beyond the relations were looked up without a check */
    {
        int32_t *few = (int32_t *)t_guarded(2);
        int64_t *number = (int64_t *)(uintptr_t)tgnn_graph_in(g)->source;
        few[0] = few[1] = 0;
        T_STATUS(tgnn_layer_graph(ctx, &l, g, few, 2, &h), TINY_E_FORMAT,
                 "rgcn: an edge has the number 2, but there are relations for 2 edges");
        T_TRUE(h == NULL);
        T_STATUS(tgnn_layer_graph(ctx, &l, g, few, 0, &h), TINY_E_FORMAT, "there are relations for 0 edges");
        T_STATUS(tgnn_layer_graph(ctx, &l, g, few, -1, &h), TINY_E_ARGUMENT,
                 "rgcn: the relations of the edges are missing");
        number[0] = (int64_t)1 << 50;
        T_STATUS(tgnn_layer_graph(ctx, &l, g, relation, 6, &h), TINY_E_FORMAT,
                 "rgcn: an edge has the number 1125899906842624, but there are relations for 6 edges");
        number[0] = -7;
        T_STATUS(tgnn_layer_graph(ctx, &l, g, relation, 6, &h), TINY_E_FORMAT,
                 "rgcn: an edge has the number -7, but there are relations for 6 edges");
    }
    T_STATUS(tgnn_layer_read(ctx, "tests/fuzz/corpus/graph/good-csr.npz", "conv1.", TGNN_LAYER_GCN, &l), TINY_E_FORMAT,
             "there is no weight conv1.lin.weight");
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* weights written by numpy.savez under the names of a state_dict: ones, so that the answer is known */
static void test_read(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_layer l;
    if (T_OK(tgnn_layer_read(ctx, "tests/golden/gnn-state.npz", "conv1.", TGNN_LAYER_GAT, &l))) {
        T_EQ_INT(l.heads, 3);
        T_EQ_INT(l.w[0].dim[0], 12);
        T_EQ_INT(tgnn_layer_width(&l, 7), 12);
        T_TRUE(((float *)l.w[3].data)[11] == 11.0f);
        tgnn_layer_free(ctx, &l);
    }
    if (T_OK(tgnn_layer_read(ctx, "tests/golden/gnn-state.npz", "conv2.", TGNN_LAYER_SAGE, &l))) {
        T_TRUE(l.w[1].data == NULL && l.w[2].data != NULL);
        tgnn_layer_free(ctx, &l);
    }
    T_STATUS(tgnn_layer_read(ctx, "tests/golden/gnn-state.npz", "conv3.", TGNN_LAYER_GCN, &l), TINY_E_DTYPE,
             "conv3.lin.weight is f64, weights are f32");
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        static const int32_t s[3] = { 0, 1, 2 };
        static const int32_t d[3] = { 1, 2, 0 };
        static float x[6];
        static float w[8];
        float y[6];
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 2);
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 3, 2);
        tgnn_layer l;
        tgnn_edges e;
        tgnn_graph *g;
        tgnn_graph *h;
        tiny_ctx *ctx;
        int kind;
        memset(&e, 0, sizeof e);
        e.n = 3;
        e.src = s;
        e.dst = d;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_graph_make(ctx, &e, NULL, &g)) {
                for (kind = 0; kind < TGNN_LAYER_RGCN; kind++) {
                    int i;
                    memset(&l, 0, sizeof l);
                    l.kind = (tgnn_layer_kind)kind;
                    for (i = 0; i < 6; i++) l.w[i] = tiny_tensor_2d(w, TINY_F32, 2, 2);
                    if (kind == TGNN_LAYER_GAT) l.w[1] = l.w[2] = tiny_tensor_2d(w, TINY_F32, 1, 2);
                    if (kind == TGNN_LAYER_GATV2) l.w[4] = tiny_tensor_2d(w, TINY_F32, 1, 2);
                    memset(&l.w[kind == TGNN_LAYER_GAT ? 3 : 1], 0, sizeof l.w[1]);
                    if (!tgnn_layer_graph(ctx, &l, g, NULL, 0, &h)) {
                        (void)tgnn_layer_run(ctx, &l, h, &tx, NULL, &ty, NULL);
                        tgnn_graph_close(ctx, h);
                    }
                }
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_oracle);
    T_RUN_FORMS(test_worked);
    T_RUN_FORMS(test_relabelled);
    T_RUN(test_bad);
    T_RUN(test_read);
    T_RUN(test_no_memory);
    return t_done();
}
