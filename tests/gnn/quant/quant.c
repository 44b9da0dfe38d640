/* tests/gnn/quant/quant.c - nets with learnt steps and bits: their training, the net of whole numbers compared with the
 * same in floats and with an example worked by hand, its files and every fault in them */
#define T_GNN
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum { N = 90, F = 6, WIDE = 40, K = 3 };

typedef struct bed { tgnn_graph *g; tiny_tensor x; int32_t label[N]; char split[N]; tgnn_nodes nodes; } bed;

/* kind: 0 signed numbers, 1 none below 0, 2 sparse 0 and 1, 3 dense 0 and 1 */
static bed *make_bed(tiny_ctx *ctx, int kind)
{
    const int f = kind == 2 ? WIDE : F;
    bed *b = (bed *)t_keep(sizeof *b);
    float *x;
    int i, j;
    T_OK(tgnn_planted(ctx, N, K, 5, 0.9, 7, &b->g));
    x = t_rand((size_t)(N * f), kind == 1 ? 0.0f : -1.0f, 1.0f);
    for (i = 0; i < N; i++) {
        b->label[i] = i % 7 == 6 ? -1 : i % K;
        b->split[i] = "rrvt"[i / K % 4];
        if (kind < 2) x[i * f + i % K] += 1.0f;
        for (j = 0; kind >= 2 && j < f; j++) x[i * f + j] = j == i % K || j == (i * 5) % f ? 1.0f : 0.0f;
    }
    b->x = tiny_tensor_2d(x, TINY_F32, N, f);
    b->nodes.graph = b->g;
    b->nodes.x = &b->x;
    b->nodes.label = b->label;
    b->nodes.split = b->split;
    return b;
}

static tgnn_net *make_net(tiny_ctx *ctx, const char *layers, int rows, uint64_t seed)
{
    char json[1000];
    tgnn_net *net = NULL;
    int n = snprintf(json, sizeof json, "{\"format\":\"tgnn-net 1\",\"rows\":%s,\"layers\":[%s]}",
                     rows ? "true" : "false", layers);
    T_OK(tgnn_net_make(ctx, "test", json, (size_t)n, seed, &net));
    return net;
}

typedef struct chain { const char *layers; int x, rows; } chain;
static const chain chains[] = {
    { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":16,\"act\":\"relu\",\"dropout\":0.2},{\"kind\":\"gcn\","
      "\"name\":\"b\",\"out\":3}",
      0, 0 },
    { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":40,\"out\":5,\"act\":\"relu\",\"dropout\":0.2},{\"kind\":\"gcn\","
      "\"name\":\"b\",\"out\":3}",
      2, 1 },
    { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":20,\"act\":\"elu\"},{\"kind\":\"linear\",\"name\":\"b\","
      "\"out\":3}",
      3, 0 },
    { "{\"kind\":\"gin\",\"name\":\"a\",\"in\":6,\"out\":8,\"hidden\":7,\"act\":\"relu\",\"eps\":0.25},{\"kind\":"
      "\"gin\",\"name\":\"b\",\"out\":3,\"hidden\":17}",
      1, 0 },
    { "{\"kind\":\"gin\",\"name\":\"a\",\"in\":40,\"out\":8,\"act\":\"tanh\"},{\"kind\":\"gcn\",\"name\":\"b\",\"out\":"
      "3,\"add_self_loops\":false}",
      2, 0 },
    /* rows of codes that are longer than the slack after an allocation */
    { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":40,\"out\":160,\"act\":\"relu\"},{\"kind\":\"gcn\",\"name\":\"b\","
      "\"out\":3}",
      2, 1 }
};

/* y of the net in floats with everything quantized, and in whole numbers: they differ by roundings only */
static void test_same(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int form;
    for (c = 0; c < T_COUNT(chains); c++)
        for (form = 0; form < 4; form++) {  /* nodes, groups, groups as published, one for all */
            bed *b = make_bed(ctx, chains[c].x);
            tgnn_net *net = make_net(ctx, chains[c].layers, chains[c].rows, c + 1);
            float *y = t_guarded(N * K), *z = t_guarded(N * K);
            tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, K), tz = tiny_tensor_2d(z, TINY_F32, N, K);
            tgnn_a2q_desc d;
            tgnn_a2q_net *q = NULL;
            tgnn_quant *small = NULL;
            tgnn_train_desc how;
            tgnn_net_input in;
            tgnn_quant_report r;
            tgnn_epoch e;
            double most = 0, numbers = 0, kilobytes = 0;
            int i, k, right = 0, all = 0;
            memset(&d, 0, sizeof d);
            memset(&how, 0, sizeof how);
            memset(&in, 0, sizeof in);
            d.groups = form == 1 || form == 2 ? 50 : 0;
            d.published = form == 2;
            d.uniform = form == 3 ? 4 : 0;
            d.task = form == 2;
            d.seed = c;
            how.epochs = 30;
            T_OK(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q));
            if (!q) break;
            how.a2q = q;
            T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, &e));
            in.graph = b->g;
            in.x = &b->x;
            T_OK(tgnn_a2q_net_run(ctx, net, q, &in, &ty, NULL));
            T_OK(tgnn_quant_make(ctx, net, q, &small));
            T_OK(tgnn_quant_run(ctx, small, &in, &tz, NULL, &r));
            for (i = 0; i < N * K; i++) most = fmax(most, fabs((double)y[i]));
            T_TRUE(most > 0.01);
            /* of each number; a sum that cancels to nearly nothing keeps two roundings of its terms, which are as large
             * as the largest */
            for (i = 0; i < N * K; i++) T_CLOSE(z[i], y[i], 1e-5 * fabs((double)y[i]) + 2 * FLT_EPSILON * most);
            for (i = 0; i < N; i++) {       /* training judged this net */
                int top = 0;
                if (b->split[i] != 't' || b->label[i] < 0) continue;
                for (k = 1; k < K; k++)
                    if (z[i * K + k] > z[i * K + top]) top = k;
                right += top == b->label[i];
                all++;
            }
            T_CLOSE((double)right / all, e.test, 1e-9);
            for (k = 0; k < q->n_maps; k++) {
                const tgnn_a2q_map *m = &small->q->map[k];
                if (m->raw) continue;
                numbers += (double)N * (double)m->n_in;
                if (form == 0) kilobytes += tgnn_a2q_kilobytes(m->bits, N, m->n_in, m->positive);
            }
            T_CLOSE((double)r.numbers, numbers, 0);
            if (form == 0) T_CLOSE((double)r.bits / 8192, kilobytes, 1e-9 * (1 + kilobytes));
            T_WALLS(z, N * K);
            tgnn_quant_free(ctx, small);
            tgnn_a2q_net_close(ctx, q);
            tgnn_net_free(ctx, net);
            tgnn_graph_close(ctx, b->g);
        }
    t_close(ctx);
    T_PROOF("graphs 1", "integer path equals fake-quant path to 1e-5");
}

/* Two nodes, joined, with loops: degrees 2. x = (1, -0.5), (0.5, 2); a = 0.5, 1, b = 3, 2: q = (2, -1), (1, 1), on
 * paper. W = (0.2, 0.4), steps 0.1: codes 2, 4. XW = 0.5 * 0.1 (2*2 - 1*4) = 0, and 1 * 0.1 (1*2 + 1*4) = 0.6. Times
 * 1/sqrt 2: 0, 0.424264; step 0.1: 0, 4. The sum of both for each node: 4 * 0.1 / sqrt 2 = 0.282843; bias 1:
 * 1.282843. */
static void test_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const int32_t src[2] = { 0, 1 }, dst[2] = { 1, 0 };
    float x[4] = { 1.0f, -0.5f, 0.5f, 2.0f }, y[2];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 2), ty = tiny_tensor_2d(y, TINY_F32, 2, 1);
    tgnn_net *net = make_net(ctx, "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":2,\"out\":1}", 0, 1);
    tgnn_a2q_net *q = NULL;
    tgnn_quant *small = NULL;
    tgnn_net_input in;
    tgnn_edges e;
    tgnn_graph *g = NULL;
    memset(&in, 0, sizeof in);
    memset(&e, 0, sizeof e);
    e.n_src = e.n_dst = 2;
    e.n = 2;
    e.src = src;
    e.dst = dst;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_OK(tgnn_a2q_net_open(ctx, net, NULL, &tx, &q));
    q->map[0].step[0] = 0.5f;
    q->map[0].step[1] = 1.0f;
    q->map[0].bits[0] = 3.2f;
    q->map[0].bits[1] = -2.0f;
    q->map[0].weight_step[0] = q->map[0].sum_step[0] = 0.1f;
    ((float *)net->stage[0].layer.w[0].data)[0] = 0.2f;
    ((float *)net->stage[0].layer.w[0].data)[1] = 0.4f;
    ((float *)net->stage[0].layer.w[1].data)[0] = 1.0f;
    in.graph = g;
    in.x = &tx;
    T_OK(tgnn_quant_make(ctx, net, q, &small));
    T_OK(tgnn_quant_run(ctx, small, &in, &ty, NULL, NULL));
    T_CLOSE(y[0], 1.282843, 1e-6);
    T_CLOSE(y[1], 1.282843, 1e-6);
    T_OK(tgnn_a2q_net_run(ctx, net, q, &in, &ty, NULL));
    T_CLOSE(y[0], 1.282843, 1e-6);
    T_CLOSE(y[1], 1.282843, 1e-6);
    tgnn_quant_free(ctx, small);
    tgnn_a2q_net_close(ctx, q);
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 1", "a net of two nodes, worked on paper");
}

/* the penalty moves the bits towards the target, and only then: without it they stay above; one step of Adam goes
 * against its slope */
static void test_penalty(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double average[3];
    int form, i, k;
    for (form = 0; form < 3; form++) {      /* none, strong, by kilobytes */
        bed *b = make_bed(ctx, 0);
        tgnn_net *net = make_net(ctx, chains[0].layers, 0, 1);
        tgnn_a2q_desc d;
        tgnn_a2q_net *q = NULL;
        tgnn_train_desc how;
        double bits = 0, n = 0;
        memset(&d, 0, sizeof d);
        memset(&how, 0, sizeof how);
        d.lambda = form ? 5000 : -1;
        d.bits = 2;
        d.kilobytes = form == 2 ? 2.0 * N * (F + 16) / 8192.0 : 0;      /* 2 bits a number: the same target */
        how.epochs = 100;
        T_OK(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q));
        how.a2q = q;
        T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
        for (k = 0; k < q->n_maps; k++)
            for (i = 0; i < q->map[k].n_steps; i++) {
                bits += (q->map[k].bits[i] - (q->map[k].positive ? 1 : 0)) * (double)q->map[k].n_in;
                n += (double)q->map[k].n_in;
                T_TRUE(q->map[k].bits[i] >= 1 && q->map[k].bits[i] <= 8);
            }
        average[form] = bits / n;
        tgnn_a2q_net_close(ctx, q);
        tgnn_net_free(ctx, net);
        tgnn_graph_close(ctx, b->g);
    }
    T_TRUE(average[0] > 3.5);
    T_TRUE(average[1] < 2.15 && average[1] > 1.5);
    T_TRUE(average[2] < 2.15 && average[2] > 1.5);
    t_close(ctx);
}

typedef struct losses { double first; int n, others; } losses;
static int compare_losses(void *user, const tgnn_epoch *e)
{
    losses *l = (losses *)user;
    if (!l->n++) l->first = e->loss;
    else l->others += fabs(e->loss - l->first) > 1e-4;
    return 0;
}

/* Dropout comes before the quantized products as before the others: with rates so small that nothing moves, the loss
 * of an epoch is always the same without dropout, and rarely with it. */
static void test_dropout(void)
{
    static const char *const layers[2] = { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3}",
                                           "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3,\"dropout\":0.5}" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int form;
    for (form = 0; form < 2; form++) {
        bed *b = make_bed(ctx, 0);
        tgnn_net *net = make_net(ctx, layers[form], 0, 1);
        tgnn_a2q_desc d;
        tgnn_a2q_net *q = NULL;
        tgnn_train_desc how;
        losses l = { 0, 0, 0 };
        memset(&d, 0, sizeof d);
        memset(&how, 0, sizeof how);
        d.lambda = -1;
        d.lr_bits = d.lr_step = d.lr_weight = d.lr_sum = 1e-12;
        how.lr = 1e-12;
        how.epochs = 40;
        how.callback = compare_losses;
        how.user = &l;
        T_OK(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q));
        how.a2q = q;
        T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
        T_EQ_INT(l.n, 40);
        T_TRUE(form ? l.others > 30 : l.others == 0);
        tgnn_a2q_net_close(ctx, q);
        tgnn_net_free(ctx, net);
        tgnn_graph_close(ctx, b->g);
    }
    t_close(ctx);
}

/* classes of graphs: groups of rows, steps that learn from the loss */
static void test_graphs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_net_desc nd;
    tgnn_a2q_desc d;
    tgnn_train_desc how;
    tgnn_graphs graphs;
    tgnn_net_input in;
    tgnn_data data;
    tgnn_net *net = NULL;
    tgnn_a2q_net *q = NULL;
    tgnn_quant *small = NULL;
    tgnn_epoch e;
    char split[60];
    float y[120], z[120];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 60, 2), tz = tiny_tensor_2d(z, TINY_F32, 60, 2);
    int64_t *at = NULL;
    double most = 0;
    int i;
    memset(&nd, 0, sizeof nd);
    memset(&d, 0, sizeof d);
    memset(&how, 0, sizeof how);
    memset(&graphs, 0, sizeof graphs);
    memset(&in, 0, sizeof in);
    T_OK(tgnn_data_rings(ctx, 60, 1, &data));
    T_OK(tgnn_data_features(ctx, &data));
    T_OK(tgnn_data_graph_at(ctx, &data, &at));
    nd.kind = TGNN_LAYER_GIN;
    nd.n_in = data.x.dim[1];
    nd.n_out = 2;
    nd.depth = 2;
    nd.readout = 1;
    T_OK(tgnn_net_usual(ctx, &nd, 1, &net));
    for (i = 0; i < 60; i++) split[i] = i < 45 ? 'r' : 't';
    graphs.graph = in.graph = data.graph;
    graphs.x = in.x = &data.x;
    graphs.graph_at = in.graph_at = at;
    graphs.n_graphs = in.n_graphs = 60;
    graphs.label = data.graph_label;
    graphs.split = split;
    d.groups = 200;
    d.task = 1;
    d.bits = 4;
    how.epochs = 25;
    T_OK(tgnn_a2q_net_open(ctx, net, &d, &data.x, &q));
    how.a2q = q;
    how.batch_norm = 1;
    T_STATUS(tgnn_train_graphs(ctx, net, &graphs, &how, &e), TINY_E_UNSUPPORTED,
             "batch norms cannot be trained with quantization");
    how.batch_norm = 0;
    T_OK(tgnn_train_graphs(ctx, net, &graphs, &how, &e));
    T_TRUE(e.train > 0.7);
    T_OK(tgnn_a2q_net_run(ctx, net, q, &in, &ty, NULL));
    T_OK(tgnn_quant_make(ctx, net, q, &small));
    T_OK(tgnn_quant_run(ctx, small, &in, &tz, NULL, NULL));
    for (i = 0; i < 120; i++) most = fmax(most, fabs((double)y[i]));
    for (i = 0; i < 120; i++) T_CLOSE(z[i], y[i], 1e-5 * fabs((double)y[i]) + 2 * FLT_EPSILON * most);
    tgnn_quant_free(ctx, small);
    tgnn_a2q_net_close(ctx, q);
    tgnn_net_free(ctx, net);
    tiny_free(ctx, at);
    tgnn_data_free(ctx, &data);
    t_close(ctx);
}

/* ---- files */

/* a small quantized net, written; the bytes of both files */
typedef struct written { tgnn_quant *net; unsigned char *bytes, *json; size_t n_bytes, n_json; } written;

static unsigned char *whole(const char *path, size_t *n)
{
    static unsigned char room[1 << 16];
    FILE *f = fopen(path, "rb");
    unsigned char *kept;
    *n = f ? fread(room, 1, sizeof room, f) : 0;
    T_TRUE(f != NULL);
    if (f) (void)fclose(f);
    kept = (unsigned char *)t_guarded_bytes(*n);
    if (*n) memcpy(kept, room, *n);
    return kept;
}

static written make_written(tiny_ctx *ctx, bed *b, const chain *c, tiny_idx groups)
{
    tgnn_net *net = make_net(ctx, c->layers, c->rows, 1);
    tgnn_a2q_desc d;
    tgnn_a2q_net *q = NULL;
    tgnn_train_desc how;
    written w;
    memset(&w, 0, sizeof w);
    memset(&d, 0, sizeof d);
    memset(&how, 0, sizeof how);
    d.groups = groups;
    how.epochs = 5;
    T_OK(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q));
    how.a2q = q;
    T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
    T_OK(tgnn_quant_make(ctx, net, q, &w.net));
    T_OK(tgnn_quant_write(ctx, "t-quant.safetensors", w.net));
    w.bytes = whole("t-quant.safetensors", &w.n_bytes);
    w.json = whole("t-quant.json", &w.n_json);
    tgnn_a2q_net_close(ctx, q);
    tgnn_net_free(ctx, net);
    return w;
}

static void test_file(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    size_t c;
    int groups, known;
    for (c = 0; c < T_COUNT(chains); c++)
        for (groups = 0; groups <= 20; groups += 20) {
            bed *b = make_bed(ctx, chains[c].x);
            written w = make_written(ctx, b, &chains[c], groups);
            float y[N * K], z[N * K];
            tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, K), tz = tiny_tensor_2d(z, TINY_F32, N, K);
            tgnn_net_input in;
            tgnn_quant *back = NULL;
            tgnn_net *net = NULL;
            size_t n;
            unsigned char *again;
            memset(&in, 0, sizeof in);
            in.graph = b->g;
            in.x = &b->x;
            T_OK(tgnn_quant_known(ctx, "t-quant", &known));
            T_EQ_INT(known, 1);
            T_OK(tgnn_quant_read(ctx, "t-quant", &back));
            if (!back) break;
            T_OK(tgnn_quant_run(ctx, w.net, &in, &ty, NULL, NULL));
            T_OK(tgnn_quant_run(ctx, back, &in, &tz, NULL, NULL));
            T_SAME(y, z, N * K);
            T_EQ_INT(tgnn_quant_bytes(back), tgnn_quant_bytes(w.net));
            T_OK(tgnn_quant_write(ctx, "t-quant", back));
            again = whole("t-quant.safetensors", &n);
            T_EQ_INT(n, w.n_bytes);
            T_SAME(again, w.bytes, n < w.n_bytes ? n : w.n_bytes);
            T_STATUS(tgnn_net_read(ctx, "t-quant", &net), TINY_E_UNSUPPORTED, "the net is quantized");
            tgnn_quant_free(ctx, back);
            tgnn_quant_free(ctx, w.net);
            tgnn_graph_close(ctx, b->g);
        }
    {                                       /* steps of groups fit another graph, those of nodes do not */
        bed *b = make_bed(ctx, 0);
        written g = make_written(ctx, b, &chains[0], 20), n = make_written(ctx, b, &chains[0], 0);
        float y[120 * K];
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 120, K),
                    tx = tiny_tensor_2d(t_rand(120 * F, -1, 1), TINY_F32, 120, F);
        tgnn_net_input in;
        tgnn_graph *other = NULL;
        memset(&in, 0, sizeof in);
        T_OK(tgnn_planted(ctx, 120, K, 5, 0.9, 8, &other));
        in.graph = other;
        in.x = &tx;
        T_OK(tgnn_quant_run(ctx, g.net, &in, &ty, NULL, NULL));
        T_STATUS(tgnn_quant_run(ctx, n.net, &in, &ty, NULL, NULL), TINY_E_SHAPE,
                 "steps for each of 90 nodes, the graph has 120");
        ((float *)tx.data)[7] = NAN;
        T_STATUS(tgnn_quant_run(ctx, g.net, &in, &ty, NULL, NULL), TINY_E_NUMERIC, "a feature is NaN");
        tgnn_quant_free(ctx, g.net);
        tgnn_quant_free(ctx, n.net);
        tgnn_graph_close(ctx, other);
        tgnn_graph_close(ctx, b->g);
    }
    (void)remove("t-quant.safetensors");
    (void)remove("t-quant.json");
    t_close(ctx);
}

/* every beginning of both files and every flipped bit: a sentence, or a net that runs. In guarded memory: a read past
 * the end stops the test */
static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    bed *b = make_bed(ctx, 3);
    static const chain small = { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3,\"act\":\"relu\"},{\"kind\":"
                                 "\"gcn\",\"name\":\"b\",\"out\":3}",
                                 3, 0 };
    written w = make_written(ctx, b, &small, 2);
    float y[N * K];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, K);
    tgnn_net_input in;
    size_t i;
    int part, bit, ran = 0, refused = 0, silent = 0;
    memset(&in, 0, sizeof in);
    in.graph = b->g;
    in.x = &b->x;
    for (part = 0; part < 2; part++) {
        const size_t n = part ? w.n_json : w.n_bytes;
        unsigned char *from = part ? w.json : w.bytes;
        for (i = 0; i <= n; i++)
            for (bit = i < n ? -1 : 7; bit < 8; bit += i < n && T_SLOW ? 3 : 1) {
                tgnn_quant *q = NULL;
                unsigned char *cut = NULL;
                tiny_status st;
                if (bit < 0) {              /* the first i bytes */
                    cut = (unsigned char *)t_guarded_bytes(i);
                    if (i) memcpy(cut, from, i);
                } else if (i < n) from[i] ^= (unsigned char)(1 << bit);
                st = part ? tgnn_quant_read_memory(ctx, "t", cut ? cut : from, cut ? i : n, w.bytes, w.n_bytes, &q)
                          : tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, cut ? cut : from, cut ? i : n, &q);
                if (!st) {
                    ran++;
                    T_TRUE(cut == NULL || part);
                    if (q->net->n_in == 6 && q->net->n_out == K) (void)tgnn_quant_run(ctx, q, &in, &ty, NULL, NULL);
                } else {
                    refused++;
                    silent += q != NULL || !strstr(tiny_ctx_message(ctx), "t: ");
                }
                tgnn_quant_free(ctx, q);
                if (bit >= 0 && i < n) from[i] ^= (unsigned char)(1 << bit);
            }
    }
    T_EQ_INT(silent, 0);
    T_TRUE(ran > 100 && refused > 1000);
    tgnn_quant_free(ctx, w.net);
    tgnn_graph_close(ctx, b->g);
    (void)remove("t-quant.safetensors");
    (void)remove("t-quant.json");
    t_close(ctx);
}

/* the header of a written file with one text in the place of another */
static tiny_status with(tiny_ctx *ctx, const written *w, const char *from, const char *to, int in_json, tgnn_quant **q)
{
    const size_t n = in_json ? w->n_json : w->n_bytes, a = strlen(from), b = strlen(to);
    const unsigned char *bytes = in_json ? w->json : w->bytes;
    unsigned char *made = (unsigned char *)t_keep(n + b);
    size_t i, m;
    for (i = in_json ? 0 : 8; i + a <= n && memcmp(bytes + i, from, a) != 0; i++) {}
    T_TRUE(i + a <= n);
    memcpy(made, bytes, i);
    memcpy(made + i, to, b);
    memcpy(made + i + b, bytes + i + a, n - i - a);
    m = n - a + b;
    if (!in_json) {                         /* the length of the header */
        uint64_t head = 0;
        for (i = 0; i < 8; i++) head |= (uint64_t)bytes[i] << 8 * i;
        head = head - a + b;
        for (i = 0; i < 8; i++) made[i] = (unsigned char)(head >> 8 * i);
    }
    return in_json ? tgnn_quant_read_memory(ctx, "t", made, m, w->bytes, w->n_bytes, q)
                   : tgnn_quant_read_memory(ctx, "t", w->json, w->n_json, made, m, q);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    bed *b = make_bed(ctx, 0);
    static const chain small = { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3,\"act\":\"relu\"},{\"kind\":"
                                 "\"gcn\",\"name\":\"b\",\"out\":3}",
                                 0, 0 };
    written w = make_written(ctx, b, &small, 3);
    tgnn_net *gat = make_net(ctx, "{\"kind\":\"gat\",\"name\":\"a\",\"in\":6,\"out\":3}", 0, 1),
             *net = make_net(ctx, small.layers, 0, 1),
             *one = make_net(ctx, "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3}", 0, 1);
    tgnn_a2q_desc d;
    tgnn_a2q_net *q = NULL;
    tgnn_quant *n = NULL;
    tgnn_train_desc how;
    tgnn_net_input in;
    float y[N * K];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, K), narrow = tiny_tensor_2d(b->x.data, TINY_F32, N, 5);
    memset(&d, 0, sizeof d);
    memset(&how, 0, sizeof how);
    memset(&in, 0, sizeof in);
    T_STATUS(tgnn_a2q_net_open(ctx, gat, NULL, &b->x, &q), TINY_E_UNSUPPORTED, "layer 1 (a) is gat; gcn and gin");
    T_STATUS(tgnn_a2q_net_open(ctx, net, NULL, &narrow, &q), TINY_E_ARGUMENT, "features (nodes, 6) f32");
    d.bits = 9;
    T_STATUS(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q), TINY_E_ARGUMENT, "9 bits");
    d.bits = 0;
    d.groups = -1;
    T_STATUS(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q), TINY_E_ARGUMENT, "-1 groups");
    d.groups = 0;
    d.lr_step = -1;
    T_STATUS(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q), TINY_E_ARGUMENT, "none may be negative");
    d.lr_step = 0;
    T_OK(tgnn_a2q_net_open(ctx, net, &d, &b->x, &q));
    how.a2q = q;
    T_STATUS(tgnn_train_nodes(ctx, one, &b->nodes, &how, NULL), TINY_E_ARGUMENT, "made for another");
    T_STATUS(tgnn_quant_make(ctx, one, q, &n), TINY_E_ARGUMENT, "made for another");
    in.graph = b->g;
    in.x = &b->x;
    T_STATUS(tgnn_a2q_net_run(ctx, one, q, &in, &ty, NULL), TINY_E_ARGUMENT, "made for another");
    q->map[1].step[3] = 0;
    T_STATUS(tgnn_quant_make(ctx, net, q, &n), TINY_E_NUMERIC, "layer 2 (b): step 3 is 0");
    q->map[1].step[3] = 0.1f;
    q->map[0].bits[4] = 8.7f;
    T_STATUS(tgnn_quant_make(ctx, net, q, &n), TINY_E_NUMERIC, "layer 1 (a): 8.7 bits at 4");
    q->map[0].bits[4] = 8;
    ((float *)net->stage[0].layer.w[0].data)[2] = NAN;
    T_STATUS(tgnn_quant_make(ctx, net, q, &n), TINY_E_NUMERIC, "layer 1 (a): weight 2 is NaN");
    T_STATUS(with(ctx, &w, "a2q signed groups", "a2q signed", 1, &n), TINY_E_UNSUPPORTED, "quant must be");
    T_STATUS(with(ctx, &w, "a2q signed groups", "a2q raw groups", 1, &n), TINY_E_FORMAT, "belongs to no layer");
    T_STATUS(with(ctx, &w, "\"quant\": \"a2q signed groups\",", "", 1, &n), TINY_E_FORMAT, "not a quantized net");
    T_STATUS(with(ctx, &w, "\"in\": 6", "\"in\": 8", 1, &n), TINY_E_SHAPE, "does not have the shape");
    T_STATUS(with(ctx, &w, "a.lin.weight.bits", "a.lin.weight.bots", 0, &n), TINY_E_FORMAT, "belongs to no layer");
    T_STATUS(with(ctx, &w, "b.lin.weight.step", "a.lin.weight.step", 0, &n), TINY_E_FORMAT, "occurs twice");
    T_STATUS(with(ctx, &w, "\"a.lin.weight\":{\"dtype\":\"U8\"", "\"a.lin.weight\":{\"dtype\":\"I8\"", 0, &n),
             TINY_E_DTYPE, "is not of type U8");
    {
        unsigned char *bytes = (unsigned char *)t_keep(w.n_bytes);
        size_t head = 0, i;
        for (i = 0; i < 8; i++) head |= (size_t)w.bytes[i] << 8 * i;
        memcpy(bytes, w.bytes, w.n_bytes);  /* in the file: a.lin.weight 3 x 3 bytes, its scale 12, steps 12, bits 3 */
        bytes[8 + head] = 0xff;
        T_STATUS(tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, bytes, w.n_bytes, &n), TINY_E_FORMAT,
                 "number 0 of row 0 of the tensor a.lin.weight is 15");
        bytes[8 + head] = w.bytes[8 + head];
        bytes[8 + head + 9 + 12 + 12] = 9;
        T_STATUS(tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, bytes, w.n_bytes, &n), TINY_E_FORMAT,
                 "number 0 of the tensor a.lin.weight.bits is 9; it must be 1 to 8 bits");
        bytes[8 + head + 9 + 12 + 12] = 0;
        T_STATUS(tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, bytes, w.n_bytes, &n), TINY_E_FORMAT,
                 "is 0; it must be 1 to 8 bits");
        bytes[8 + head + 9 + 12 + 12] = 3;
        memset(bytes + 8 + head + 9, 0, 4);
        T_STATUS(tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, bytes, w.n_bytes, &n), TINY_E_NUMERIC,
                 "a.lin.weight.scale is 0; a step is at least 1e-8");
        memset(bytes + 8 + head + 9, 0xff, 4);
        T_STATUS(tgnn_quant_read_memory(ctx, "t", w.json, w.n_json, bytes, w.n_bytes, &n), TINY_E_NUMERIC,
                 "number 0 of the tensor a.lin.weight.scale is");
    }
    T_STATUS(tgnn_quant_read(ctx, "no/such", &n), TINY_E_IO, "no/such.json");
    T_STATUS(tgnn_quant_write(ctx, "no/such/folder/m", w.net), TINY_E_IO, "no/such/folder/m");
    tgnn_a2q_net_close(ctx, q);
    tgnn_quant_free(ctx, w.net);
    tgnn_net_free(ctx, gat);
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, one);
    tgnn_graph_close(ctx, b->g);
    (void)remove("t-quant.safetensors");
    (void)remove("t-quant.json");
    t_close(ctx);
}

/* each allocation fails once: of training, making, reading, running */
static void memory_of(written *w, int what)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
    static const int32_t src[2] = { 0, 1 };
    static const int32_t dst[2] = { 1, 0 };
    static const char json[] =
        "{\"format\":\"tgnn-net 1\",\"layers\":[{\"kind\":\"gcn\",\"name\":\"a\",\"in\":2,\"out\":2}]}";
    float x[4] = { 1.0f, -0.5f, 0.5f, 2.0f }, y[4];
    int32_t label[2] = { 0, 1 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 2), ty = tiny_tensor_2d(y, TINY_F32, 2, 2);
    tgnn_quant *n = NULL;
    tgnn_net *net = NULL;
    tgnn_a2q_net *q = NULL;
    tgnn_graph *g = NULL;
    tgnn_a2q_desc d;
    tgnn_net_input in;
    tgnn_edges e;
    tiny_ctx *ctx = NULL;
    if (tiny_ctx_open(&desc, &ctx)) return;
    memset(&in, 0, sizeof in);
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.n_src = e.n_dst = 2;
    e.n = 2;
    e.src = src;
    e.dst = dst;
    d.groups = what == 1 ? 2 : 0;
    if (what == 2) (void)tgnn_quant_read_memory(ctx, "t", w->json, w->n_json, w->bytes, w->n_bytes, &n);
    else if (!tgnn_graph_make(ctx, &e, NULL, &g) && !tgnn_net_make(ctx, "t", json, sizeof json - 1, 1, &net) &&
             !tgnn_a2q_net_open(ctx, net, &d, &tx, &q)) {
        tgnn_nodes nodes;
        tgnn_train_desc how;
        memset(&nodes, 0, sizeof nodes);
        memset(&how, 0, sizeof how);
        nodes.graph = in.graph = g;
        nodes.x = in.x = &tx;
        nodes.label = label;
        nodes.split = "rr";
        how.epochs = 1;
        how.a2q = q;
        if (!tgnn_train_nodes(ctx, net, &nodes, &how, NULL) && !tgnn_a2q_net_run(ctx, net, q, &in, &ty, NULL) &&
            !tgnn_quant_make(ctx, net, q, &n))
            (void)tgnn_quant_run(ctx, n, &in, &ty, NULL, NULL);
    }
    tgnn_quant_free(ctx, n);
    tgnn_a2q_net_close(ctx, q);
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    tiny_ctx_close(ctx);
}

static void test_memory(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    bed *b = make_bed(ctx, 0);
    written w = make_written(ctx, b, &chains[0], 3);
    tgnn_quant_free(ctx, w.net);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
    T_EACH_ALLOCATION(memory_of(&w, 0);)
    T_EACH_ALLOCATION(memory_of(&w, 1);)
    T_EACH_ALLOCATION(memory_of(&w, 2);)
    (void)remove("t-quant.safetensors");
    (void)remove("t-quant.json");
}

int main(void)
{
    T_RUN_FORMS(test_same);
    T_RUN_FORMS(test_by_hand);
    T_RUN(test_penalty);
    T_RUN(test_dropout);
    T_RUN(test_graphs);
    T_RUN(test_file);
    T_RUN(test_hostile);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
