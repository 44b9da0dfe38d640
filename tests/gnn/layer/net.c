/* tests/gnn/layer/net.c - nets from a description and safetensors: the recorded outputs of a public library's formulas
 * under the names of its state_dict, chains against single layers, and invalid files. The safetensors bytes are written
 * here, not by the library. */
#define T_GNN
#include "t.h"

/* ---- a file of weights, written by hand */

typedef struct pack { char head[4096]; unsigned char data[65536], file[70000]; size_t n_head, n_data, n_file; } pack;

static void pack_add(pack *p, const char *name, const float *v, int rank, int a, int b, int c)
{
    const size_t n = (size_t)(rank > 0 ? a : 1) * (size_t)(rank > 1 ? b : 1) * (size_t)(rank > 2 ? c : 1);
    int dim[3], k;
    size_t i;
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    p->n_head += (size_t)snprintf(p->head + p->n_head, sizeof p->head - p->n_head,
                                  "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", p->n_head ? "," : "{", name);
    for (k = 0; k < rank; k++)
        p->n_head += (size_t)snprintf(p->head + p->n_head, sizeof p->head - p->n_head, k ? ",%d" : "%d", dim[k]);
    p->n_head += (size_t)snprintf(p->head + p->n_head, sizeof p->head - p->n_head, "],\"data_offsets\":[%lu,%lu]}",
                                  (unsigned long)p->n_data, (unsigned long)(p->n_data + 4 * n));
    for (i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, v + i, 4);
        for (k = 0; k < 4; k++) p->data[p->n_data++] = (unsigned char)(bits >> 8 * k);
    }
}

static void pack_end(pack *p)
{
    size_t k;
    p->head[p->n_head++] = '}';
    for (k = 0; k < 8; k++) p->file[k] = (unsigned char)(k < 4 ? p->n_head >> 8 * k : 0);
    memcpy(p->file + 8, p->head, p->n_head);
    memcpy(p->file + 8 + p->n_head, p->data, p->n_data);
    p->n_file = 8 + p->n_head + p->n_data;
}

/* ---- the oracle */

static void *oracle(const char *folder, const char *file, size_t bytes)
{
    char name[200];
    (void)snprintf(name, sizeof name, "oracle/gnn/%s%s", folder, file);
    return t_shared_bytes(name, bytes);
}

/* letters of a shape: f features, o out, h heads, c a head, a heads * c, m hidden, e edge features, r relations, b
 * bases, 1 */
typedef struct one { const char *file, *name, *shape; } one;
typedef struct made_net { const char *layer; one w[10]; const char *want; int edges; } made_net;

static const made_net nets[] = {
    { "\"kind\":\"gcn\",\"out\":%o",
      { { "gcn/weight", "lin.weight", "of" }, { "gcn/bias", "bias", "o" } },
      "gcn/out_unweighted.f64",
      0 },
    { "\"kind\":\"gcn\",\"out\":%o,\"edge_weight\":true",
      { { "gcn/bias", "bias", "o" }, { "gcn/weight", "lin.weight", "of" } },
      "gcn/out_weighted.f64",
      0 },
    { "\"kind\":\"sage\",\"out\":%o",
      { { "sage/weight_l", "lin_l.weight", "of" },
        { "sage/bias_l", "lin_l.bias", "o" },
        { "sage/weight_r", "lin_r.weight", "of" } },
      "sage/out_mean.f64",
      0 },
    { "\"kind\":\"sage\",\"out\":%o,\"aggr\":\"max\"",
      { { "sage/weight_l", "lin_l.weight", "of" },
        { "sage/bias_l", "lin_l.bias", "o" },
        { "sage/weight_r", "lin_r.weight", "of" } },
      "sage/out_max.f64",
      0 },
    { "\"kind\":\"sage\",\"out\":%o,\"aggr\":\"add\"",
      { { "sage/weight_l", "lin_l.weight", "of" },
        { "sage/bias_l", "lin_l.bias", "o" },
        { "sage/weight_r", "lin_r.weight", "of" } },
      "sage/out_sum.f64",
      0 },
    { "\"kind\":\"sage\",\"out\":%o,\"normalize\":true",
      { { "sage/weight_l", "lin_l.weight", "of" },
        { "sage/bias_l", "lin_l.bias", "o" },
        { "sage/weight_r", "lin_r.weight", "of" } },
      "sage/out_mean_l2normalized.f64",
      0 },
    { "\"kind\":\"gat\",\"heads\":%h,\"out\":%c",
      { { "gat/weight", "lin.weight", "af" },
        { "gat/att_src", "att_src", "1hc" },
        { "gat/att_dst", "att_dst", "1hc" },
        { "gat/bias_concat", "bias", "a" } },
      "gat/out_concat.f64",
      0 },
    { "\"heads\":%h,\"out\":%c,\"concat\":false,\"kind\":\"gat\"",
      { { "gat/weight", "lin.weight", "af" },
        { "gat/att_src", "att_src", "hc" },
        { "gat/att_dst", "att_dst", "1hc" },
        { "gat/bias_concat", "bias", "c" } },
      "gat/out_mean_heads.f64",
      0 },
    { "\"kind\":\"gatv2\",\"heads\":%h,\"out\":%c",
      { { "gatv2/weight_l", "lin_l.weight", "af" },
        { "gatv2/bias_l", "lin_l.bias", "a" },
        { "gatv2/weight_r", "lin_r.weight", "af" },
        { "gatv2/bias_r", "lin_r.bias", "a" },
        { "gatv2/att", "att", "1hc" },
        { "gatv2/bias", "bias", "a" } },
      "gatv2/out.f64",
      0 },
    { "\"kind\":\"gin\",\"hidden\":%m,\"eps\":0.1,\"out\":%o",
      { { "gin/weight1", "nn.0.weight", "mf" },
        { "gin/bias1", "nn.0.bias", "m" },
        { "gin/weight2", "nn.2.weight", "om" },
        { "gin/bias2", "nn.2.bias", "o" } },
      "gin/out_eps0.1.f64",
      0 },
    { "\"kind\":\"gine\",\"hidden\":%m,\"eps\":1e-1,\"edge\":%e,\"out\":%o",
      { { "gin/weight1", "nn.0.weight", "mf" },
        { "gin/bias1", "nn.0.bias", "m" },
        { "gin/weight2", "nn.2.weight", "om" },
        { "gin/bias2", "nn.2.bias", "o" },
        { "gine/edge_weight", "lin.weight", "fe" },
        { "gine/edge_bias", "lin.bias", "f" } },
      "gine/out_eps0.1.f64",
      1 },
    { "\"kind\":\"rgcn\",\"relations\":%r,\"out\":%o",
      { { "rgcn/weight", "weight", "rfo" }, { "rgcn/root", "root", "fo" }, { "rgcn/bias", "bias", "o" } },
      "rgcn/out_full.f64",
      0 },
    { "\"kind\":\"rgcn\",\"relations\":%r,\"bases\":%b,\"out\":%o",
      { { "rgcn/basis", "weight", "bfo" },
        { "rgcn/comp", "comp", "rb" },
        { "rgcn/root", "root", "fo" },
        { "rgcn/bias", "bias", "o" } },
      "rgcn/out_basis.f64",
      0 },
    { "\"kind\":\"transformer\",\"heads\":%h,\"out\":%c",
      { { "transformer/weight_q", "lin_query.weight", "af" },
        { "transformer/bias_q", "lin_query.bias", "a" },
        { "transformer/weight_k", "lin_key.weight", "af" },
        { "transformer/bias_k", "lin_key.bias", "a" },
        { "transformer/weight_v", "lin_value.weight", "af" },
        { "transformer/bias_v", "lin_value.bias", "a" },
        { "transformer/weight_skip", "lin_skip.weight", "af" },
        { "transformer/bias_skip", "lin_skip.bias", "a" } },
      "transformer/out_noedge.f64",
      0 },
    { "\"kind\":\"transformer\",\"heads\":%h,\"out\":%c,\"edge\":%e",
      { { "transformer/weight_q", "lin_query.weight", "af" },
        { "transformer/bias_q", "lin_query.bias", "a" },
        { "transformer/weight_k", "lin_key.weight", "af" },
        { "transformer/bias_k", "lin_key.bias", "a" },
        { "transformer/weight_v", "lin_value.weight", "af" },
        { "transformer/bias_v", "lin_value.bias", "a" },
        { "transformer/weight_skip", "lin_skip.weight", "af" },
        { "transformer/bias_skip", "lin_skip.bias", "a" },
        { "transformer/weight_edge", "lin_edge.weight", "ae" } },
      "transformer/out_edge.f64",
      1 },
    { "\"kind\":\"appnp\",\"K\":10,\"alpha\":0.1", { { NULL, NULL, NULL } }, "appnp/out_K10_alpha0.1.f64", 0 }
};

static int letter(int medium, char c)
{
    static const char *const of = "fohcamerb1";
    static const int size[2][10] = { { 7, 6, 3, 4, 12, 12, 5, 3, 2, 1 }, { 33, 19, 4, 8, 32, 38, 5, 3, 2, 1 } };
    return size[medium][strchr(of, c) - of];
}

static void test_oracle(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    pack *p = (pack *)t_keep(sizeof *p);
    size_t i, k;
    int medium, right = 0, of = 0;
    for (medium = 0; medium < 2; medium++) {
        const char *folder = medium ? "medium/" : "";
        const int n = medium ? 120 : 17, m = medium ? 900 : 60, f = letter(medium, 'f');
        int32_t *index = medium && !t_one_of("oracle/gnn/medium/graph/edge_index.i32")
                             ? NULL
                             : (int32_t *)oracle(folder, "graph/edge_index.i32", (size_t)m * 8),
                *type;
        tiny_tensor x, attr;
        tgnn_graph *g = NULL;
        tgnn_edges e;
        if (!index) break;
        type = (int32_t *)oracle(folder, "graph/edge_type.i32", (size_t)m * 4);
        memset(&e, 0, sizeof e);
        e.n_src = e.n_dst = n;
        e.n = m;
        e.src = index;
        e.dst = index + m;
        e.weight = (const float *)oracle(folder, "graph/edge_weight.f32", (size_t)m * 4);
        x = tiny_tensor_2d(oracle(folder, "graph/x.f32", (size_t)n * (size_t)f * 4), TINY_F32, n, f);
        attr = tiny_tensor_2d(oracle(folder, "graph/edge_attr.f32", (size_t)m * 20), TINY_F32, m, 5);
        if (!T_OK(tgnn_graph_make(ctx, &e, NULL, &g))) break;
        for (i = 0; i < T_COUNT(nets); i++) {
            char json[600], name[80];
            const char *s;
            tgnn_net_input in;
            tgnn_net *net = NULL;
            int at = snprintf(json, sizeof json,
                              "{\"format\":\"tgnn-net 1\",\"layers\":[{\"name\":\"convs.0\",\"in\":%d,", f),
                before = t_now.checks_failed;
            for (s = nets[i].layer; *s; s++) {
                if (*s == '%') at += snprintf(json + at, sizeof json - (size_t)at, "%d", letter(medium, *++s));
                else json[at++] = *s;
            }
            at += snprintf(json + at, sizeof json - (size_t)at, "}]}");
            memset(p, 0, sizeof *p);
            p->head[0] = '{';
            for (k = 0; nets[i].w[k].file; k++) {
                const one *w = &nets[i].w[k];
                const int rank = (int)strlen(w->shape), a = letter(medium, w->shape[0]),
                          b = rank > 1 ? letter(medium, w->shape[1]) : 1,
                          c = rank > 2 ? letter(medium, w->shape[2]) : 1;
                size_t whole = (size_t)(a * b * c) * 4;
                char file[80];
                (void)snprintf(file, sizeof file, "%s.f32", w->file);
                /* the bias of averaged heads: the first c of it */
                if (!strcmp(w->shape, "c")) whole *= (size_t)letter(medium, 'h');
                (void)snprintf(name, sizeof name, "convs.0.%s", w->name);
                pack_add(p, name, (const float *)oracle(folder, file, whole), rank, a, b, c);
            }
            if (!p->n_head) p->n_head = 1;
            pack_end(p);
            of++;
            if (T_OK(tgnn_net_read_memory(ctx, "oracle", json, (size_t)at, p->file, p->n_file, &net))) {
                float *y = t_guarded((size_t)(n * net->n_out));
                tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, n, net->n_out);
                const double *want = (const double *)oracle(folder, nets[i].want, (size_t)(n * net->n_out) * 8);
                memset(&in, 0, sizeof in);
                in.graph = g;
                in.x = &x;
                in.e = nets[i].edges ? &attr : NULL;
                in.relation = type;
                in.n_relation = m;
                if (T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL)))
                    for (k = 0; want && k < (size_t)(n * net->n_out); k++)
                        T_CLOSE(y[k], want[k], 1e-5 * (1 + fabs(want[k])));
                T_WALLS(y, n * net->n_out);
                tgnn_net_free(ctx, net);
            }
            if (t_now.checks_failed == before) right++;
            else printf("%s%s differs\n", folder, nets[i].want);
        }
        tgnn_graph_close(ctx, g);
    }
    T_TRUE(right == of && of >= (int)T_COUNT(nets));
    if (of && target == TINY_TARGET_SCALAR) printf("oracle/gnn, nets from safetensors: %d of %d\n", right, of);
    t_close(ctx);
}

/* ---- a chain, files, and back */

static const char chain_json[] =
    "{ \"format\": \"tgnn-net 1\", \"rows\": true, \"layers\": ["
    " { \"kind\": \"gat\", \"name\": \"a\", \"in\": 5, \"out\": 3, \"heads\": 2, \"act\": \"elu\", \"dropout\": 0.5, "
    "\"dropout_edges\": 0.25, \"negative_slope\": 0.1 },"
    " { \"kind\": \"gin\", \"name\": \"b\", \"out\": 4, \"hidden\": 7, \"eps\": 0.3, \"act\": \"relu\" },"
    " { \"kind\": \"sgc\", \"name\": \"s\", \"out\": 4, \"K\": 2, \"add_self_loops\": false },"
    " { \"kind\": \"transformer\", \"name\": \"t\", \"out\": 2, \"heads\": 2, \"concat\": false, \"act\": \"tanh\" },"
    " { \"kind\": \"appnp\", \"K\": 3, \"alpha\": 0.2 },"
    " { \"kind\": \"rgcn\", \"name\": \"r\", \"out\": 3, \"relations\": 2, \"bases\": 1 },"
    " { \"kind\": \"readout\", \"aggr\": \"max\", \"all\": true },"
    " { \"kind\": \"linear\", \"name\": \"lin\", \"out\": 3 } ] }";

static int64_t chain_given = 4000;           /* relations */
static tiny_status chain_run(tiny_ctx *ctx, const tgnn_net *net, float y[6])
{
    static const int64_t at[3] = { 0, 40, 100 };
    static float x[500];
    static int32_t relation[4000];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 100, 5), ty = tiny_tensor_2d(y, TINY_F32, 2, 3);
    tgnn_net_input in;
    tgnn_graph *g;
    int i;
    tiny_status st = tgnn_planted(ctx, 100, 4, 6, 0.8, 3, &g);
    if (st) return st;
    /* node 0 .. 4 of 5 rows; some rows sum to 0 nowhere */
    for (i = 0; i < 500; i++) x[i] = (float)((i * 7919) % 13) * 0.1f;
    for (i = 0; i < 4000; i++) relation[i] = i % 2;
    memset(&in, 0, sizeof in);
    in.graph = g;
    in.x = &tx;
    in.relation = relation;
    in.n_relation = chain_given;
    in.graph_at = at;
    in.n_graphs = 2;
    st = tgnn_net_run(ctx, net, &in, &ty, NULL);
    tgnn_graph_close(ctx, g);
    return st;
}

static void test_chain(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_net *net = NULL, *back = NULL, *other = NULL;
    const char *build = getenv("BUILD");
    char path[300];
    float y[6], z[6];
    int i, k;
    (void)snprintf(path, sizeof path, "%s/net-%s.safetensors", build ? build : "build", tiny_target_name(target));
    if (T_OK(tgnn_net_make(ctx, "chain", chain_json, sizeof chain_json - 1, 5, &net)) &&
        T_OK(tgnn_net_make(ctx, "chain", chain_json, sizeof chain_json - 1, 6, &other))) {
        T_EQ_INT(net->n_stages, 8);
        T_EQ_INT(net->n_in, 5);
        T_EQ_INT(net->stage[6].n_out, 5 + 6 + 4 + 4 + 2 + 2 + 3);
        T_CLOSE(*(float *)net->stage[1].layer.w[4].data, 0.3, 1e-7);
        chain_given = 5;                    /* the graph has more edges: they have no relation */
        T_STATUS(chain_run(ctx, net, y), TINY_E_FORMAT, "there are relations for 5 edges");
        chain_given = 4000;
        T_OK(chain_run(ctx, net, y));
        T_OK(chain_run(ctx, other, z));
        T_TRUE(memcmp(y, z, sizeof y) != 0);        /* another seed, other weights */
        T_OK(tgnn_net_draw(ctx, other, 5));
        T_OK(chain_run(ctx, other, z));
        T_SAME(y, z, 6);
        if (T_OK(tgnn_net_write(ctx, path, net)) && T_OK(tgnn_net_read(ctx, path, &back))) {
            T_OK(chain_run(ctx, back, z));
            T_SAME(y, z, 6);
            T_EQ_INT(back->rows, 1);
            for (i = 0; i < 8; i++) {
                const tgnn_stage *a = &net->stage[i], *b = &back->stage[i];
                T_TRUE(!strcmp(a->name, b->name) && a->kind == b->kind && a->act == b->act && a->n_out == b->n_out &&
                       a->dropout == b->dropout && a->dropout_edges == b->dropout_edges);
                for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) T_TRUE(!a->layer.w[k].data == !b->layer.w[k].data);
            }
        }
    }
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, back);
    tgnn_net_free(ctx, other);
    t_close(ctx);
}

/* TransformerConv(root_weight=False) saves lin_skip and does not use it: its output is that of the whole layer without
 * x W' + b. */
static void test_root_weight(void)
{
    enum { N = 30, F = 5, C = 3 };
    static const char
        whole[] = "{\"format\":\"tgnn-net "
                  "1\",\"layers\":[{\"kind\":\"transformer\",\"name\":\"t\",\"in\":5,\"out\":3,\"root_weight\":true}]}",
        none[] = "{\"format\":\"tgnn-net "
                 "1\",\"layers\":[{\"kind\":\"transformer\",\"name\":\"t\",\"in\":5,\"out\":3,\"root_weight\":false}]}",
        number[] = "{\"format\":\"tgnn-net "
                   "1\",\"layers\":[{\"kind\":\"transformer\",\"name\":\"t\",\"in\":5,\"out\":3,\"root_weight\":1}]}",
        other[] = "{\"format\":\"tgnn-net "
                  "1\",\"layers\":[{\"kind\":\"gat\",\"name\":\"t\",\"in\":5,\"out\":3,\"root_weight\":false}]}";
    static const char *const names[] = { "lin_query", "lin_key", "lin_value", "lin_skip" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    pack *p = (pack *)t_keep(sizeof *p);
    float *x = t_rand(N * F, -1, 1), *w = NULL, *b = NULL, y[N * C], z[N * C];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), ty = tiny_tensor_2d(y, TINY_F32, N, C),
                tz = tiny_tensor_2d(z, TINY_F32, N, C);
    tgnn_net *net = NULL, *bare = NULL, *back = NULL;
    tgnn_net_input in;
    tgnn_graph *g = NULL;
    const char *build = getenv("BUILD");
    char name[300];
    int i, k, c;
    memset(p, 0, sizeof *p);
    for (k = 0; k < 4; k++) {
        w = t_rand(C * F, -1, 1);
        b = t_rand(C, -1, 1);
        (void)snprintf(name, sizeof name, "t.%s.weight", names[k]);
        pack_add(p, name, w, 2, C, F, 1);
        (void)snprintf(name, sizeof name, "t.%s.bias", names[k]);
        pack_add(p, name, b, 1, C, 1, 1);
    }
    pack_end(p);
    memset(&in, 0, sizeof in);
    in.x = &tx;
    if (T_OK(tgnn_planted(ctx, N, 2, 4, 0.7, 1, &g)) &&
        T_OK(tgnn_net_read_memory(ctx, "root", whole, sizeof whole - 1, p->file, p->n_file, &net)) &&
        T_OK(tgnn_net_read_memory(ctx, "root", none, sizeof none - 1, p->file, p->n_file, &bare))) {
        in.graph = g;
        T_TRUE(!bare->stage[0].layer.w[7].data && !bare->stage[0].layer.w[8].data);
        T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL));
        T_OK(tgnn_net_run(ctx, bare, &in, &tz, NULL));
        for (i = 0; i < N; i++)
            for (c = 0; c < C; c++) {
                double skip = b[c];
                for (k = 0; k < F; k++) skip += (double)w[c * F + k] * (double)x[i * F + k];
                T_CLOSE(z[i * C + c], (double)y[i * C + c] - skip, 1e-5);
            }
        (void)snprintf(name, sizeof name, "%s/net-root.safetensors", build ? build : "build");
        if (T_OK(tgnn_net_write(ctx, name, bare)) && T_OK(tgnn_net_read(ctx, name, &back))) {
            T_OK(tgnn_net_run(ctx, back, &in, &ty, NULL));
            T_SAME(y, z, N * C);
            T_EQ_INT(back->stage[0].no_root, 1);
        }
    }
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, bare);
    tgnn_net_free(ctx, back);
    if (T_OK(tgnn_net_make(ctx, "root", none, sizeof none - 1, 1, &net))) {
        T_TRUE(!net->stage[0].layer.w[7].data && net->stage[0].layer.w[4].data);
        tgnn_net_free(ctx, net);
    }
    memset(p, 0, sizeof *p);
    pack_add(p, "t.lin_skip.weight", x, 2, F, C, 1);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "root", none, sizeof none - 1, p->file, p->n_file, &net), TINY_E_SHAPE,
             "the tensor t.lin_skip.weight is 5 x 3, but the description says 3 x 5");
    T_STATUS(tgnn_net_read_memory(ctx, "root", number, sizeof number - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "layer 1: root_weight must be true or false");
    T_STATUS(tgnn_net_read_memory(ctx, "root", other, sizeof other - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "layer 1: gat has no root_weight");
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* A state_dict as PyTorch Geometric 2.8.1 (torch 2.15) writes it, by safetensors.torch.save_file, and the outputs of
 * its model in double: GCNConv(3, 4), SAGEConv(4, 5), GATConv(5, 2, heads=3), GATv2Conv(6, 3, heads=2, concat=False),
 * GINConv(Sequential(Linear(3, 6), ReLU(), Linear(6, 4)), eps=0.25), RGCNConv(4, 4, 2, num_bases=2), TransformerConv(4,
 * 2, heads=2), SGConv(4, 4, K=2), APPNP(3, 0.2), Linear(4, 2) with the activations of gnn-pyg.json, every weight
 * uniform in -1 .. 1. A ring of 8 nodes in both directions and the arcs 0 -> 3, 5 -> 2, 2 -> 2; edge k is of relation k
 * % 2; x[i][k] = (7 (3 i + k) % 11) / 5 - 1. */
static void test_pyg(tiny_target target)
{
    static const double want[8][2] = { { -0.8332816, -1.7547645 }, { -0.7415196, -1.8060627 },
                                       { -0.9167408, -2.0116674 }, { -0.9228628, -2.0130282 },
                                       { -0.7056092, -1.7974469 }, { -0.7757914, -1.7413350 },
                                       { -0.8721456, -1.6782081 }, { -0.8970664, -1.6840305 } };
    static const int32_t arc[2][3] = { { 0, 5, 2 }, { 3, 2, 2 } };
    tiny_ctx *ctx = t_ctx(target, 1);
    int32_t src[19], dst[19], relation[19];
    float x[24], y[16];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 8, 3), ty = tiny_tensor_2d(y, TINY_F32, 8, 2);
    tgnn_net_input in;
    tgnn_graph *g = NULL;
    tgnn_net *net = NULL;
    tgnn_edges e;
    int i;
    for (i = 0; i < 19; i++) {
        src[i] = i < 8 ? i : i < 16 ? (i - 7) % 8 : arc[0][i - 16];
        dst[i] = i < 8 ? (i + 1) % 8 : i < 16 ? i - 8 : arc[1][i - 16];
        relation[i] = i % 2;
    }
    for (i = 0; i < 24; i++) x[i] = (float)(i * 7 % 11) / 5.0f - 1.0f;
    memset(&e, 0, sizeof e);
    memset(&in, 0, sizeof in);
    e.n_src = e.n_dst = 8;
    e.n = 19;
    e.src = src;
    e.dst = dst;
    if (T_OK(tgnn_graph_make(ctx, &e, NULL, &g)) &&
        T_OK(tgnn_net_read(ctx, "tests/golden/gnn-pyg.safetensors", &net))) {
        in.graph = g;
        in.x = &tx;
        in.relation = relation;
        in.n_relation = T_COUNT(relation);
        if (T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL)))
            for (i = 0; i < 16; i++) T_CLOSE(y[i], want[i / 2][i % 2], 5e-6);
    }
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* Nodes of two graphs renumbered, each graph's among its own: sums, means and maxima over a graph stay the same. */
static void test_readouts_relabelled(tiny_target target)
{
    enum { N = 60, CUT = 25, F = 7 };
    static const char *const aggr[] = { "sum", "mean", "max" };
    static const int64_t at[3] = { 0, CUT, N };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(N * F, -1, 1), *px = t_guarded(N * F), y[2 * 3], z[2 * 3];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), tpx = tiny_tensor_2d(px, TINY_F32, N, F),
                ty = tiny_tensor_2d(y, TINY_F32, 2, 3), tz = tiny_tensor_2d(z, TINY_F32, 2, 3);
    int32_t src[300], dst[300];
    uint32_t order[N];
    tiny_rng rng = tiny_rng_make(4, 2);
    tgnn_graph *g = NULL, *pg = NULL;
    tgnn_edges e;
    size_t k;
    int i;
    memset(&e, 0, sizeof e);
    for (i = 0; i < 300; i++) {
        const int first = i % 2 ? CUT : 0, n = i % 2 ? N - CUT : CUT;
        src[i] = (int32_t)(first + (int)t_rand_below((uint32_t)n));
        dst[i] = (int32_t)(first + (int)t_rand_below((uint32_t)n));
    }
    e.n_src = e.n_dst = N;
    e.n = 300;
    e.src = src;
    e.dst = dst;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    tiny_rng_permutation(&rng, order, CUT);
    tiny_rng_permutation(&rng, order + CUT, N - CUT);
    for (i = CUT; i < N; i++) order[i] += CUT;
    T_OK(tgnn_graph_permute(ctx, g, order, &pg));
    for (i = 0; i < N; i++) memcpy(px + i * F, x + (int)order[i] * F, F * 4);
    for (k = 0; k < T_COUNT(aggr); k++) {
        char json[400];
        tgnn_net *net = NULL;
        tgnn_net_input in;
        const int n =
            snprintf(json, sizeof json,
                     "{\"format\":\"tgnn-net "
                     "1\",\"layers\":[{\"kind\":\"gin\",\"name\":\"a\",\"in\":7,\"out\":5,\"hidden\":6,\"act\":"
                     "\"relu\"},{\"kind\":\"gcn\",\"name\":\"b\",\"out\":4},"
                     "{\"kind\":\"readout\",\"aggr\":\"%s\"},{\"kind\":\"linear\",\"name\":\"l\",\"out\":3}]}",
                     aggr[k]);
        memset(&in, 0, sizeof in);
        in.graph_at = at;
        in.n_graphs = 2;
        if (!T_OK(tgnn_net_make(ctx, "readout", json, (size_t)n, 3 + k, &net))) break;
        in.graph = g;
        in.x = &tx;
        T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL));
        in.graph = pg;
        in.x = &tpx;
        T_OK(tgnn_net_run(ctx, net, &in, &tz, NULL));
        T_TRUE(fabsf(y[0] - y[3]) > 1e-3f);             /* the two graphs differ */
        for (i = 0; i < 6; i++) T_CLOSE(z[i], y[i], 2e-5 * (1 + fabs((double)y[i])));
        tgnn_net_free(ctx, net);
    }
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, pg);
    t_close(ctx);
    T_PROOF("graphs 0", "relabelling leaves readouts unchanged");
}

/* A readout of everything, worked on paper: a path of 0 - 1, 2 alone; x = 1 10, 2 20, 4 40; a gin layer that takes the
 * first column: h = 3, 3, 4; sums of x and h: 3 30 6 and 4 40 4, times 1 10 100, and 1. Rows divided by their sums,
 * where that is not 0. */
static void test_worked(void)
{
    static const char json[] =
        "{\"format\":\"tgnn-net "
        "1\",\"layers\":[{\"kind\":\"gin\",\"name\":\"g\",\"in\":2,\"out\":1},{\"kind\":\"readout\",\"all\":true},"
        "{\"kind\":\"linear\",\"name\":\"l\",\"out\":1}]}";
    static const char rows[] =
        "{\"format\":\"tgnn-net "
        "1\",\"rows\":true,\"layers\":[{\"kind\":\"linear\",\"name\":\"l\",\"in\":2,\"out\":1}]}";
    static const float ones[2] = { 1, 0 }, ten[3] = { 1, 10, 100 };
    static const int32_t s[2] = { 0, 1 }, d[2] = { 1, 0 };
    static const int64_t at[3] = { 0, 2, 3 };
    float x[6] = { 1, 10, 2, 20, 4, 40 }, z[6] = { 1, 3, -2, 2, 5, 0 }, y[3], before[6];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 2), ty = tiny_tensor_2d(y, TINY_F32, 2, 1),
                tb = tiny_tensor_2d(before, TINY_F32, 2, 3), tz = tiny_tensor_2d(z, TINY_F32, 3, 2);
    pack *p = (pack *)t_keep(sizeof *p);
    tgnn_net_input in;
    tgnn_graph *g = NULL;
    tgnn_edges e;
    tgnn_net *net;
    memset(&e, 0, sizeof e);
    memset(&in, 0, sizeof in);
    e.n_src = e.n_dst = 3;
    e.n = 2;
    e.src = s;
    e.dst = d;
    pack_add(p, "g.nn.0.weight", ones, 2, 1, 2, 0);
    pack_add(p, "g.nn.2.weight", ones, 2, 1, 1, 0);
    pack_add(p, "l.weight", ten, 2, 1, 3, 0);
    pack_add(p, "l.bias", ones, 1, 1, 0, 0);
    pack_end(p);
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    in.graph = g;
    in.x = &tx;
    in.graph_at = at;
    in.n_graphs = 2;
    if (T_OK(tgnn_net_read_memory(ctx, "worked", json, sizeof json - 1, p->file, p->n_file, &net))) {
        T_OK(tgnn_net_run(ctx, net, &in, &ty, &tb));
        T_CLOSE(before[1], 30, 0);
        T_CLOSE(before[5], 4, 0);
        T_CLOSE(y[0], 3 + 300 + 600 + 1, 0);
        T_CLOSE(y[1], 4 + 400 + 400 + 1, 0);
        tgnn_net_free(ctx, net);
    }
    memset(p, 0, sizeof *p);
    pack_add(p, "l.weight", ten, 2, 1, 2, 0);
    pack_end(p);
    ty = tiny_tensor_2d(y, TINY_F32, 3, 1);
    in.x = &tz;
    if (T_OK(tgnn_net_read_memory(ctx, "rows", rows, sizeof rows - 1, p->file, p->n_file, &net))) {
        T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL));
        T_CLOSE(y[0], 0.25 + 7.5, 0);
        T_CLOSE(y[1], -2 + 20, 0);
        T_CLOSE(y[2], 1, 0);
        tgnn_net_free(ctx, net);
    }
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* the networks that need no description */
static void test_default_networks(void)
{
    static const struct { tgnn_layer_kind kind; int readout; tiny_idx width, weights; int act;
    } of[] = { { TGNN_LAYER_GCN, 0, 16, 5 * 16 + 16 + 16 * 3 + 3, TGNN_ACT_RELU },
               { TGNN_LAYER_SAGE, 0, 16, 2 * 5 * 16 + 16 + 2 * 16 * 3 + 3, TGNN_ACT_RELU },
               { TGNN_LAYER_GAT, 0, 64, 5 * 64 + 3 * 64 + 64 * 3 + 3 * 3, TGNN_ACT_ELU },
               { TGNN_LAYER_GATV2, 0, 64, 2 * (5 * 64 + 64) + 2 * 64 + 2 * (64 * 3 + 3) + 2 * 3, TGNN_ACT_ELU },
               { TGNN_LAYER_GIN, 1, 16, (5 * 16 + 16 * 16 + 33) + 3 * (2 * 16 * 16 + 33) + (5 + 4 * 16) * 3 + 3,
                 TGNN_ACT_RELU },
               { TGNN_LAYER_TRANSFORMER, 0, 64, 4 * (5 * 64 + 64) + 4 * (64 * 3 + 3), TGNN_ACT_RELU } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_net_desc d;
    tgnn_net *net;
    size_t i;
    memset(&d, 0, sizeof d);
    d.n_in = 5;
    d.n_out = 3;
    d.rows = 1;
    d.dropout = 0.25f;
    for (i = 0; i < T_COUNT(of); i++) {
        tiny_idx n = 0;
        int k, j;
        d.kind = of[i].kind;
        d.readout = of[i].readout;
        if (!T_OK(tgnn_net_usual(ctx, &d, 1, &net))) continue;
        for (k = 0; k < net->n_stages; k++)
            for (j = 0; j < TGNN_LAYER_WEIGHTS; j++)
                if (net->stage[k].layer.w[j].data) n += tiny_tensor_count(&net->stage[k].layer.w[j]);
        T_EQ_INT(n, of[i].weights);
        T_EQ_INT(net->stage[0].n_out, of[i].width);
        T_EQ_INT(net->stage[0].act, of[i].act);
        T_EQ_INT(net->n_out, 3);
        T_EQ_INT(net->rows, 1);
        T_TRUE(net->stage[net->n_stages - 1].dropout == 0.25f && net->stage[net->n_stages - 1].act == TGNN_ACT_NONE);
        tgnn_net_free(ctx, net);
    }
    d.kind = TGNN_LAYER_RGCN;
    T_STATUS(tgnn_net_usual(ctx, &d, 1, &net), TINY_E_UNSUPPORTED, "rgcn needs a description");
    d.kind = TGNN_LAYER_GCN;
    d.n_out = 0;
    T_STATUS(tgnn_net_usual(ctx, &d, 1, &net), TINY_E_ARGUMENT, "n_in and n_out are at least 1");
    t_close(ctx);
}

/* ---- bad input */

static const char small_json[] =
    "{\"format\":\"tgnn-net 1\",\"layers\":[{\"kind\":\"gat\",\"name\":\"c\",\"in\":2,\"out\":1,\"heads\":2}]}";

static void small_pack(pack *p)
{
    static const float w[4] = { 1, 2, 3, -4 };
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    pack_add(p, "c.att_src", w, 3, 1, 2, 1);
    pack_add(p, "c.att_dst", w, 3, 1, 2, 1);
    pack_add(p, "c.bias", w, 1, 2, 0, 0);
    pack_end(p);
}

/* 1: it opened, and ran */
static int small_try(tiny_ctx *ctx, const tgnn_graph *g, const char *json, size_t n_json, const unsigned char *bytes,
                     size_t n)
{
    static float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 4, 2), ty;
    tgnn_net_input in;
    tgnn_net *net;
    if (tgnn_net_read_memory(ctx, "try", json, n_json, bytes, n, &net)) {
        T_TRUE(net == NULL && tiny_ctx_message(ctx)[0] != 0);
        return 0;
    }
    memset(&in, 0, sizeof in);
    in.graph = g;
    in.x = &tx;
    if (net->n_in == 2 && net->n_out <= 64) {
        ty = tiny_tensor_2d(t_keep((size_t)net->n_out * 16), TINY_F32, 4, net->n_out);
        (void)tgnn_net_run(ctx, net, &in, &ty, NULL);
    }
    tgnn_net_free(ctx, net);
    return 1;
}

static void test_cut_and_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    pack *p = (pack *)t_keep(sizeof *p);
    unsigned char *copy;
    char json[sizeof small_json];
    tgnn_graph *g;
    size_t i, n_json = sizeof small_json - 1;
    int opened = 0;
    small_pack(p);
    copy = (unsigned char *)t_keep(p->n_file);
    if (!T_OK(tgnn_planted(ctx, 4, 2, 2, 0.5, 1, &g))) return;
    T_EQ_INT(small_try(ctx, g, small_json, n_json, p->file, p->n_file), 1);
    for (i = 0; i < p->n_file; i++) {
        unsigned char *cut = (unsigned char *)t_guarded_bytes(i);      /* the byte after it is a wall */
        memcpy(cut, p->file, i);
        T_EQ_INT(small_try(ctx, g, small_json, n_json, cut, i), 0);
    }
    for (i = 0; i < n_json; i++) {
        char *cut = (char *)t_guarded_bytes(i);
        memcpy(cut, small_json, i);
        T_EQ_INT(small_try(ctx, g, cut, i, p->file, p->n_file), 0);
    }
    for (i = 0; i < p->n_file * 8; i++) {
        memcpy(copy, p->file, p->n_file);
        copy[i / 8] = (unsigned char)(copy[i / 8] ^ 1u << i % 8);
        opened += small_try(ctx, g, small_json, n_json, copy, p->n_file);
    }
    T_TRUE(opened > 100 && opened <= (int)p->n_data * 8);  /* any bits of a float, except those of infinities and NaN */
    for (i = 0, opened = 0; i < n_json * 8; i++) {
        memcpy(json, small_json, sizeof json);
        json[i / 8] = (char)((unsigned char)json[i / 8] ^ 1u << i % 8);
        opened += small_try(ctx, g, json, n_json, p->file, p->n_file);
    }
    T_EQ_INT(opened, 0);                    /* every character of the description counts */
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

#define NET(layers) "{\"format\":\"tgnn-net 1\",\"layers\":[" layers "]}"

static void test_bad_description(void)
{
    static const struct { const char *json; tiny_status st; const char *says;
    } bad[] = {
        { "[]", TINY_E_FORMAT, "try: the description must be a map" },
        { "{\"layers\":[]}", TINY_E_FORMAT, "there is no \"format\"" },
        { "{\"format\":\"tgnn-net 2\",\"layers\":[]}", TINY_E_UNSUPPORTED, "format must be" },
        { NET(""), TINY_E_FORMAT, "try: there are no layers" },
        { "{\"format\":\"tgnn-net 1\",\"layers\":{}}", TINY_E_FORMAT, "layers must be a list" },
        { "{\"format\":\"tgnn-net 1\",\"rows\":1,\"layers\":[]}", TINY_E_FORMAT, "rows must be true or false" },
        { "{\"format\":\"tgnn-net 1\",\"layers\":[],\"layers\":[]}", TINY_E_FORMAT,
          "layers is not a member of a description, or occurs twice" },
        { NET("1"), TINY_E_FORMAT, "layer 1 must be a map" },
        { NET("{\"name\":\"c\"}"), TINY_E_FORMAT, "layer 1 has no kind" },
        { NET("{\"kind\":\"gnc\"}"), TINY_E_UNSUPPORTED, "the kind gnc is unknown" },
        { NET("{\"kind\":\"gcn\",\"in\":2,\"out\":2}"), TINY_E_FORMAT, "layer 1 has no name" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"out\":2}"), TINY_E_FORMAT, "layer 1 has no in" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2}"), TINY_E_FORMAT, "layer 1 (c) has no out" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"heads\":2}"), TINY_E_FORMAT,
          "layer 1: gcn has no heads" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"width\":2}"), TINY_E_FORMAT,
          "no layer has a member width" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"in\":2,\"out\":2}"), TINY_E_FORMAT,
          "in occurs twice" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":0,\"out\":2}"), TINY_E_FORMAT, "in is 0, it must be 1 to" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":4294967296,\"out\":2}"), TINY_E_FORMAT, "in is 4.29497e+09" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":\"2\",\"out\":2}"), TINY_E_FORMAT, "in must be a whole number" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c/d\",\"in\":2,\"out\":2}"), TINY_E_FORMAT, "the name c/d; names have" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"act\":\"sin\"}"), TINY_E_UNSUPPORTED,
          "act is sin" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"dropout\":1}"), TINY_E_FORMAT, "dropout is 1" },
        { NET("{\"kind\":\"sage\",\"name\":\"c\",\"in\":2,\"out\":2,\"aggr\":\"std\"}"), TINY_E_UNSUPPORTED,
          "aggr is std" },
        { NET("{\"kind\":\"gat\",\"name\":\"c\",\"in\":2,\"out\":1048576,\"heads\":2}"), TINY_E_FORMAT,
          "wide, the maximum is 1048576" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2},{\"kind\":\"gcn\",\"name\":\"c\",\"out\":2}"),
          TINY_E_FORMAT, "layers 1 and 2 are both named c" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2},{\"kind\":\"linear\",\"name\":\"c.lin\",\"out\":"
              "2}"),
          TINY_E_FORMAT, "layers 1 and 2 both have a tensor c.lin.weight" },
        { NET("{\"kind\":\"linear\",\"name\":\"c.nn.2\",\"in\":2,\"out\":2},{\"kind\":\"gcn\",\"name\":\"b\",\"out\":2}"
              ",{\"kind\":\"gin\",\"name\":\"c\",\"out\":2}"),
          TINY_E_FORMAT, "layers 3 and 1 both have a tensor c.nn.2.weight" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"dropout\":1e300}"), TINY_E_FORMAT,
          "dropout is 1e+300" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2},{\"kind\":\"gcn\",\"name\":\"d\",\"in\":3,\"out\":"
              "2}"),
          TINY_E_FORMAT, "layer 2: in is 3, the layer before it gives 2" },
        { NET("{\"kind\":\"readout\",\"in\":2},{\"kind\":\"gcn\",\"name\":\"d\",\"out\":2}"), TINY_E_FORMAT,
          "only linear layers can follow a readout" },
        { NET("{\"kind\":\"rgcn\",\"name\":\"c\",\"in\":2,\"out\":2}"), TINY_E_FORMAT, "rgcn needs relations" },
        { NET("{\"kind\":\"gine\",\"name\":\"c\",\"in\":2,\"out\":2}"), TINY_E_FORMAT, "gine needs edge" },
        { NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":[2],\"out\":2}"), TINY_E_FORMAT, "in must be a whole number" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char *many = (char *)t_keep(4000);
    tgnn_net *net;
    size_t i;
    int n = 0;
    for (i = 0; i < T_COUNT(bad); i++)
        T_STATUS(tgnn_net_make(ctx, "try", bad[i].json, strlen(bad[i].json), 1, &net), bad[i].st, bad[i].says);
    n = snprintf(many, 4000, "{\"format\":\"tgnn-net 1\",\"layers\":[");
    for (i = 0; i < TGNN_NET_MOST + 1; i++)
        n += snprintf(many + n, (size_t)(4000 - n), "%s{\"kind\":\"appnp\",\"in\":3}", i ? "," : "");
    n += snprintf(many + n, (size_t)(4000 - n), "]}");
    T_STATUS(tgnn_net_make(ctx, "try", many, (size_t)n, 1, &net), TINY_E_UNSUPPORTED, "more than 32 layers");
    T_STATUS(tgnn_net_read(ctx, "build/there-is-no-such-net", &net), TINY_E_IO, "there-is-no-such-net.json");
    T_STATUS(tgnn_net_make(ctx, "try", NULL, 0, 1, &net), TINY_E_ARGUMENT, "the description");
    t_close(ctx);
}

/* Numbers at their bounds are stored as floats, which round past the bounds: the reader refused our own file. */
static void test_bounds_round_trip(void)
{
    static const char *const json[] = {
        NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2,\"dropout\":0.999}"),
        NET("{\"kind\":\"appnp\",\"in\":2,\"alpha\":1e-6}"),
        NET("{\"kind\":\"gat\",\"name\":\"c\",\"in\":2,\"out\":2,\"negative_slope\":1e-6,\"dropout_edges\":0.999}"),
        NET("{\"kind\":\"gin\",\"name\":\"c\",\"in\":2,\"out\":2,\"eps\":-1e6}"),
        NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2},{\"kind\":\"linear\",\"name\":\"c.more\",\"out\":"
            "2}")
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_net_desc usual;
    tgnn_net *net, *back;
    size_t i;
    for (i = 0; i < T_COUNT(json); i++) {
        if (!T_OK(tgnn_net_make(ctx, "try", json[i], strlen(json[i]), 1, &net))) continue;
        T_OK(tgnn_net_write(ctx, "build/net-bounds", net));
        if (T_OK(tgnn_net_read(ctx, "build/net-bounds", &back))) {
            T_TRUE(back->stage[0].dropout == net->stage[0].dropout &&
                   back->stage[0].layer.alpha == net->stage[0].layer.alpha &&
                   back->stage[0].layer.slope == net->stage[0].layer.slope);
            T_TRUE(back->stage[0].layer.eps == net->stage[0].layer.eps);
        }
        tgnn_net_free(ctx, back);
        tgnn_net_free(ctx, net);
    }
    memset(&usual, 0, sizeof usual);
    usual.kind = TGNN_LAYER_GAT;
    usual.n_in = usual.n_out = 2;
    usual.hidden = TINY_IDX_MAX / 2;        /* times the heads more than the type holds */
    usual.heads = 8;
    T_STATUS(tgnn_net_usual(ctx, &usual, 1, &net), TINY_E_ARGUMENT, "hidden at most 1048576");
    usual.hidden = 4;
    usual.heads = 1025;
    T_STATUS(tgnn_net_usual(ctx, &usual, 1, &net), TINY_E_ARGUMENT, "heads 1024");
    usual.heads = 2;
    usual.dropout = 0.9995f;
    T_STATUS(tgnn_net_usual(ctx, &usual, 1, &net), TINY_E_ARGUMENT, "dropout 0 to 0.999");
    usual.dropout = 0.999f;
    T_OK(tgnn_net_usual(ctx, &usual, 1, &net));
    tgnn_net_free(ctx, net);
    t_close(ctx);
}

static void test_bad_weights(void)
{
    static const float w[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const float nan_[4] = { 1, NAN, 1, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    pack *p = (pack *)t_keep(sizeof *p);
    static const char json[] = NET("{\"kind\":\"gcn\",\"name\":\"c\",\"in\":2,\"out\":2}");
    tgnn_net_input in;
    tgnn_graph *g;
    tgnn_net *net;
    float x[8] = { 0 }, y[8];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 4, 2),
                wide = tiny_tensor_2d(x, TINY_F32, 2, 4);
    pack_add(p, "c.lin.weight", w, 2, 2, 4, 0);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_SHAPE,
             "the tensor c.lin.weight is 2 x 4, but the description says 2 x 2");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.bias", w, 1, 2, 0, 0);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "the tensor c.lin.weight is missing");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", nan_, 2, 2, 2, 0);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_NUMERIC,
             "number 1 of the tensor c.lin.weight is not finite");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    pack_add(p, "d.lin.weight", w, 2, 2, 2, 0);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "the tensor d.lin.weight belongs to no layer");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "the tensor c.lin.weight occurs twice");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    /* c.bias from byte 8 on, inside of the matrix; the sum of all is the file */
    p->n_data = 8;
    pack_add(p, "c.bias", w, 1, 2, 0, 0);
    p->n_data = 24;
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_FORMAT,
             "the tensor c.bias overlaps another one");
    memset(p, 0, sizeof *p);
    pack_add(p, "c.lin.weight", w, 2, 2, 2, 0);
    memcpy(strstr(p->head, "F32"), "I32", 3);
    pack_end(p);
    T_STATUS(tgnn_net_read_memory(ctx, "try", json, sizeof json - 1, p->file, p->n_file, &net), TINY_E_DTYPE,
             "c.lin.weight is not of type F32");
    if (T_OK(tgnn_net_make(ctx, "try", json, sizeof json - 1, 1, &net)) &&
        T_OK(tgnn_planted(ctx, 4, 2, 2, 0.5, 1, &g))) {
        memset(&in, 0, sizeof in);
        in.graph = g;
        in.x = &wide;
        T_STATUS(tgnn_net_run(ctx, net, &in, &ty, NULL), TINY_E_SHAPE, "x is 2x4 f32, it must be 4 x 2 f32");
        in.x = &tx;
        T_STATUS(tgnn_net_run(ctx, net, &in, &wide, NULL), TINY_E_SHAPE, "y is 2x4 f32, it must be 4 x 2 f32");
        T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL));
        tgnn_graph_close(ctx, g);
    }
    tgnn_net_free(ctx, net);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tgnn_net *net = NULL;
        tgnn_net *back = NULL;
        tgnn_net_desc usual;
        tiny_ctx *ctx;
        float y[6];
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_net_make(ctx, "chain", chain_json, sizeof chain_json - 1, 1, &net)) {
                (void)chain_run(ctx, net, y);
                if (!tgnn_net_write(ctx, "build/net-memory", net) &&
                    !tgnn_net_read(ctx, "build/net-memory.json", &back))
                    tgnn_net_free(ctx, back);
            }
            tgnn_net_free(ctx, net);
            memset(&usual, 0, sizeof usual);
            usual.n_in = usual.n_out = 2;
            if (!tgnn_net_usual(ctx, &usual, 1, &net)) tgnn_net_free(ctx, net);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_oracle);
    T_RUN_FORMS(test_pyg);
    T_RUN_FORMS(test_chain);
    T_RUN_FORMS(test_readouts_relabelled);
    T_RUN(test_root_weight);
    T_RUN(test_worked);
    T_RUN(test_default_networks);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_bad_description);
    T_RUN(test_bounds_round_trip);
    T_RUN(test_bad_weights);
    T_RUN(test_no_memory);
    return t_done();
}
