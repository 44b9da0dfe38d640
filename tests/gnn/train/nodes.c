/* tests/gnn/train/nodes.c - training of nodes: the step's loss against the net as it is run without a tape, the step of
 * each weight against differences of that loss, early stopping, seeds, and the papers' accuracies on Cora */
#define T_GNN
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum { N = 60, F = 6, K = 3 };

typedef struct bed {
    tgnn_graph *g;
    tiny_tensor x;
    int32_t label[N], relation[4 * N * 8];
    char split[N];
    tgnn_nodes nodes;
} bed;

static bed *make_bed(tiny_ctx *ctx)
{
    bed *b = (bed *)t_keep(sizeof *b);
    int i;
    T_OK(tgnn_planted(ctx, N, K, 4, 0.9, 7, &b->g));
    b->x = tiny_tensor_2d(t_rand(N * F, -1, 1), TINY_F32, N, F);
    for (i = 0; i < N; i++) {
        b->label[i] = i % 7 == 6 ? -1 : i % K;
        b->split[i] = "rrvt"[i / K % 4];
        ((float *)b->x.data)[i * F + i % K] += 1.0f;
    }
    for (i = 0; i < 4 * N * 8; i++) b->relation[i] = i % 2;
    b->nodes.graph = b->g;
    b->nodes.x = &b->x;
    b->nodes.label = b->label;
    b->nodes.split = b->split;
    b->nodes.relation = b->relation;
    b->nodes.n_relation = T_COUNT(b->relation);
    return b;
}

static tgnn_net *make_net(tiny_ctx *ctx, const char *layers, uint64_t seed)
{
    char json[1000];
    tgnn_net *net = NULL;
    int n = snprintf(json, sizeof json, "{\"format\":\"tgnn-net 1\",\"layers\":[%s]}", layers), i, k;
    T_OK(tgnn_net_make(ctx, "test", json, (size_t)n, seed, &net));
    for (i = 0; net && i < net->n_stages; i++)      /* biases too: they begin with 0 */
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
            const tiny_tensor *w = &net->stage[i].layer.w[k];
            tiny_idx j;
            for (j = 0; w->data && w->rank == 1 && j < w->dim[0]; j++)
                ((float *)w->data)[j] = t_rand_float(-0.5f, 0.5f);
        }
    return net;
}

/* cross-entropy of one part, by the net as it is run */
static double loss_of(tiny_ctx *ctx, const tgnn_net *net, const bed *b, char part)
{
    float y[N * K];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, K);
    tgnn_net_input in;
    double sum = 0;
    int i, k, n = 0;
    memset(&in, 0, sizeof in);
    in.graph = b->g;
    in.x = &b->x;
    in.relation = b->relation;
    in.n_relation = T_COUNT(b->relation);
    if (!T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL))) return 0;
    for (i = 0; i < N; i++) {
        double z = 0;
        if (b->split[i] != part || b->label[i] < 0) continue;
        for (k = 0; k < K; k++) z += exp((double)y[i * K + k]);
        sum += log(z) - (double)y[i * K + b->label[i]];
        n++;
    }
    return sum / n;
}

static const char *const chains[] = {
    "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":4,\"act\":\"relu\"},{\"kind\":\"gcn\",\"name\":\"b\",\"out\":5,"
    "\"act\":\"tanh\"},{\"kind\":\"linear\",\"name\":\"c\",\"out\":3}",
    "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":8,\"act\":\"elu\",\"add_self_loops\":false},{\"kind\":\"gcn\","
    "\"name\":\"b\",\"out\":3}",
    "{\"kind\":\"sage\",\"name\":\"a\",\"in\":6,\"out\":8,\"act\":\"elu\",\"aggr\":\"max\",\"normalize\":true},{"
    "\"kind\":\"sage\",\"name\":\"b\",\"out\":3}",
    "{\"kind\":\"sage\",\"name\":\"a\",\"in\":6,\"out\":4,\"aggr\":\"sum\",\"act\":\"tanh\"},{\"kind\":\"sage\","
    "\"name\":\"b\",\"out\":3,\"aggr\":\"min\"}",
    "{\"kind\":\"gat\",\"name\":\"a\",\"in\":6,\"out\":4,\"heads\":3,\"act\":\"elu\"},{\"kind\":\"gat\",\"name\":\"b\","
    "\"out\":3,\"heads\":2,\"concat\":false,\"negative_slope\":0.1}",
    "{\"kind\":\"gatv2\",\"name\":\"a\",\"in\":6,\"out\":4,\"heads\":3,\"act\":\"elu\"},{\"kind\":\"gatv2\",\"name\":"
    "\"b\",\"out\":3,\"heads\":2,\"concat\":false}",
    "{\"kind\":\"gin\",\"name\":\"a\",\"in\":6,\"out\":4,\"hidden\":7,\"eps\":0.2},{\"kind\":\"gin\",\"name\":\"b\","
    "\"out\":3,\"hidden\":3}",
    "{\"kind\":\"rgcn\",\"name\":\"a\",\"in\":6,\"out\":4,\"relations\":2,\"act\":\"tanh\"},{\"kind\":\"rgcn\","
    "\"name\":\"b\",\"out\":3,\"relations\":2,\"bases\":1}",
    "{\"kind\":\"transformer\",\"name\":\"a\",\"in\":6,\"out\":4,\"heads\":2,\"act\":\"tanh\"},{\"kind\":"
    "\"transformer\",\"name\":\"b\",\"out\":3,\"heads\":2,\"concat\":false}",
    "{\"kind\":\"sgc\",\"name\":\"a\",\"in\":6,\"out\":5,\"K\":2},{\"kind\":\"linear\",\"name\":\"b\",\"out\":3},{"
    "\"kind\":\"appnp\",\"K\":4,\"alpha\":0.2}"
};

/* One step of Adam moves a weight by lr against the sign of its gradient: the sign must be that of a difference of the
 * loss, and the loss of the step that of the net without a tape. Weights whose difference is inconclusive are
 * skipped. */
static void test_steps(tiny_target target)
{
    const double lr = 1e-4;
    tiny_ctx *ctx = t_ctx(target, 2);
    bed *b = make_bed(ctx);
    size_t c;
    for (c = 0; c < T_COUNT(chains); c++) {
        tgnn_net *net = make_net(ctx, chains[c], c + 1), *moved = make_net(ctx, chains[c], c + 1);
        tgnn_train_desc how;
        tgnn_epoch e;
        double before;
        int i, k, seen = 0, wanted = 0;
        if (!net || !moved) break;
        for (i = 0; i < net->n_stages; i++)
            for (k = 0; k < TGNN_LAYER_WEIGHTS; k++)
                if (net->stage[i].layer.w[k].data)
                    memcpy(moved->stage[i].layer.w[k].data, net->stage[i].layer.w[k].data,
                           (size_t)tiny_tensor_count(&net->stage[i].layer.w[k]) * 4);
        before = loss_of(ctx, net, b, 'r');
        memset(&how, 0, sizeof how);
        how.epochs = 1;
        how.lr = lr;
        T_OK(tgnn_train_nodes(ctx, moved, &b->nodes, &how, &e));
        T_CLOSE(e.loss, before, 2e-6 * (1 + before));
        T_CLOSE(e.val_loss, loss_of(ctx, moved, b, 'v'), 1e-5);
        T_TRUE(loss_of(ctx, moved, b, 'r') < before);
        for (i = 0; i < net->n_stages; i++)
            for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
                float *w = (float *)net->stage[i].layer.w[k].data, *m = (float *)moved->stage[i].layer.w[k].data;
                const tiny_idx n = w ? tiny_tensor_count(&net->stage[i].layer.w[k]) : 0;
                int tried, sure = 0;
                if (!w) continue;
                /* eps is fixed, not learnt */
                if (net->stage[i].kind == TGNN_STAGE_CONV && net->stage[i].layer.kind == TGNN_LAYER_GIN && k == 4) {
                    T_TRUE(m[0] == w[0]);
                    continue;
                }
                for (tried = 0; tried < 12 && sure < 4; tried++) {
                    const tiny_idx at = (tiny_idx)t_rand_below((uint32_t)n);
                    const float was = w[at];
                    double up, down;
                    w[at] = was + 1e-2f;
                    up = loss_of(ctx, net, b, 'r');
                    w[at] = was - 1e-2f;
                    down = loss_of(ctx, net, b, 'r');
                    w[at] = was;
                    if (!((up > before && down < before) || (up < before && down > before)) || fabs(up - down) < 2e-5 ||
                        fabs(up + down - 2 * before) > 0.3 * fabs(up - down))
                        continue;
                    sure++;
                    T_CLOSE((m[at] - was) / lr, up > down ? -1 : 1, 0.05);
                }
                seen += sure > 0;
                wanted++;
            }
        T_TRUE(seen >= wanted - 2 && seen * 4 >= wanted * 3);      /* biases that a softmax cancels have no gradient */
        tgnn_net_free(ctx, net);
        tgnn_net_free(ctx, moved);
    }
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

/* sparse features are the same as dense ones */
static void test_sparse(void)
{
    enum { WIDE = 64 };
    static const char *const layers[] = { "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":64,\"out\":3}",
                                          "{\"kind\":\"sage\",\"name\":\"a\",\"in\":64,\"out\":3}",
                                          "{\"kind\":\"gat\",\"name\":\"a\",\"in\":64,\"out\":3}",
                                          "{\"kind\":\"gatv2\",\"name\":\"a\",\"in\":64,\"out\":3}",
                                          "{\"kind\":\"gin\",\"name\":\"a\",\"in\":64,\"out\":3}",
                                          "{\"kind\":\"sgc\",\"name\":\"a\",\"in\":64,\"out\":3}" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    bed *b = make_bed(ctx);
    float *thin = (float *)t_keep(N * WIDE * 4);
    tgnn_train_desc how;
    tgnn_epoch e;
    size_t c;
    int i;
    for (i = 0; i < N; i++) thin[i * WIDE + (i * 5) % WIDE] = thin[i * WIDE + i % K] = 1.0f + (float)(i % 3);
    b->x = tiny_tensor_2d(thin, TINY_F32, N, WIDE);
    memset(&how, 0, sizeof how);
    how.epochs = 1;
    for (c = 0; c < T_COUNT(layers); c++) {
        tgnn_net *net = make_net(ctx, layers[c], c + 1);
        const double before = net ? loss_of(ctx, net, b, 'r') : 0;
        T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, &e));
        T_CLOSE(e.loss, before, 1e-5);
        T_CLOSE(e.val_loss, loss_of(ctx, net, b, 'v'), 1e-5);
        tgnn_net_free(ctx, net);
    }
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

/* ---- dropout: with weights that hardly move and small outputs, the loss is nearly linear in the dropped values, so
 * its mean over many steps is the loss without dropout, and the steps differ */
typedef struct spread { double sum, square; int n; } spread;

static int gather(void *user, const tgnn_epoch *e)
{
    spread *s = (spread *)user;
    s->sum += e->loss;
    s->square += e->loss * e->loss;
    s->n++;
    return 0;
}

static void test_dropout(void)
{
    static const char *const layers[] = { "{\"kind\":\"gat\",\"name\":\"a\",\"in\":6,\"out\":3}",
                                          "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3}" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    bed *b = make_bed(ctx);
    double spreads[4];
    int i, k;
    /* of alpha; of x, where alpha does not depend on it; of x before alpha; the same, and the rows that alpha sums */
    for (i = 0; i < 4; i++) {
        tgnn_net *net = make_net(ctx, layers[i == 1], 1);
        tgnn_train_desc how;
        spread s;
        double base, deviation, mean;
        memset(&how, 0, sizeof how);
        memset(&s, 0, sizeof s);
        how.epochs = 60;
        T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
        for (k = 0; k < 18; k++) ((float *)net->stage[0].layer.w[0].data)[k] *= 0.2f;
        memset(net->stage[0].layer.w[i == 1 ? 1 : 3].data, 0, 12);
        base = loss_of(ctx, net, b, 'r');
        T_TRUE(base < log(3.0) - 0.03);     /* the loss if all were dropped */
        net->stage[0].dropout_edges = i == 0 ? 0.5f : i == 3 ? 2e-5f : 0.0f;    /* one number of 65536: hardly any */
        net->stage[0].dropout = i ? 0.5f : 0.0f;
        for (k = 0; i > 1 && k < 3; k++) {
            ((float *)net->stage[0].layer.w[1].data)[k] = ((float *)net->stage[0].layer.w[2].data)[k] = 0.0f;
            base = loss_of(ctx, net, b, 'r');
        }
        how.epochs = 600;
        how.lr = 1e-12;
        how.callback = gather;
        how.user = &s;
        T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
        mean = s.sum / s.n;
        deviation = sqrt(s.square / s.n - mean * mean);
        T_TRUE(deviation > 0.002);
        T_CLOSE(mean, base, 0.006);
        spreads[i] = deviation;
        tgnn_net_free(ctx, net);
    }
    T_TRUE(spreads[3] > 1.2 * spreads[2]);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

/* ---- stopping, seeds */

static const char drop_net[] =
    "{\"kind\":\"gat\",\"name\":\"a\",\"in\":6,\"out\":8,\"heads\":2,\"act\":\"elu\",\"dropout\":0.4,\"dropout_edges\":"
    "0.3},{\"kind\":\"gcn\",\"name\":\"b\",\"out\":3,\"dropout\":0.5}";

typedef struct course { double val_loss[400], least, loss; int n, best; } course;

static int remember(void *user, const tgnn_epoch *e)
{
    course *c = (course *)user;
    c->val_loss[c->n++] = e->val_loss;
    T_EQ_INT(e->epoch, c->n);
    if (c->n == 1 || e->val_loss < c->least) {
        c->least = e->val_loss;
        c->loss = e->loss;
        c->best = c->n;
    }
    return c->n == 400;
}

static void test_stopping(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    bed *b = make_bed(ctx);
    tgnn_net *net = make_net(ctx, drop_net, 3);
    tgnn_train_desc how;
    course c;
    tgnn_epoch e;
    memset(&how, 0, sizeof how);
    memset(&c, 0, sizeof c);
    how.epochs = 400;
    how.patience = 15;
    how.lr = 0.05;
    how.callback = remember;
    how.user = &c;
    T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, &e));
    T_TRUE(c.n < 400);
    T_EQ_INT(c.n, c.best + 15);
    T_EQ_INT(e.epoch, c.best);
    T_CLOSE(e.val_loss, c.least, 1e-12);    /* the weights of that epoch are restored */
    T_CLOSE(e.loss, c.loss, 0);             /* and its loss, not that of the last one */
    T_CLOSE(loss_of(ctx, net, b, 'v'), c.least, 1e-5);
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

/* the share of pairs of a 1 and a 0 in the right order, ties half, by the net as it is run */
static double area_of(tiny_ctx *ctx, const tgnn_net *net, const bed *b, char part)
{
    float y[N * 2];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, 2);
    tgnn_net_input in;
    double right = 0, pairs = 0;
    int i, k;
    memset(&in, 0, sizeof in);
    in.graph = b->g;
    in.x = &b->x;
    if (!T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL))) return 0;
    for (i = 0; i < N; i++)
        for (k = 0; k < N; k++) {
            const float up = y[i * 2 + 1] - y[i * 2], down = y[k * 2 + 1] - y[k * 2];
            if (b->split[i] != part || b->split[k] != part || b->label[i] != 1 || b->label[k] != 0) continue;
            right += up > down ? 1 : up == down ? 0.5 : 0;
            pairs++;
        }
    return right / pairs;
}

static void test_area(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    bed *b = make_bed(ctx);
    tgnn_net *net = make_net(ctx,
                             "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":8,\"act\":\"relu\"},{\"kind\":\"gcn\","
                             "\"name\":\"b\",\"out\":2}",
                             4);
    tgnn_net *three = make_net(ctx, "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3}", 1);
    tgnn_train_desc how;
    tgnn_epoch e;
    course c;
    int i;
    for (i = 0; i < N; i++) b->label[i] = b->label[i] < 0 ? -1 : b->label[i] == 2;
    memset(&how, 0, sizeof how);
    memset(&c, 0, sizeof c);
    how.area = 1;
    how.epochs = 300;
    how.patience = 25;
    how.lr = 0.02;
    how.callback = remember;
    how.user = &c;
    T_STATUS(tgnn_train_nodes(ctx, three, &b->nodes, &how, NULL), TINY_E_ARGUMENT,
             "needs two classes, the net has 3");
    T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, &e));
    T_EQ_INT(e.epoch, c.best);              /* the epoch with the largest area of the validation part */
    T_CLOSE(e.val_loss, c.least, 0);
    T_CLOSE(e.val_loss, 1 - e.val, 0);
    T_CLOSE(e.train, area_of(ctx, net, b, 'r'), 1e-12);
    T_CLOSE(e.val, area_of(ctx, net, b, 'v'), 1e-12);
    T_CLOSE(e.test, area_of(ctx, net, b, 't'), 1e-12);
    T_TRUE(e.train > 0.5 && e.val > 0.5);
    how.callback = NULL;
    how.patience = 0;
    how.epochs = 1;
    for (i = 0; i < N; i++) if (b->split[i] == 't') b->label[i] = 0;
    T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, &e));
    T_TRUE(e.test != e.test);               /* one class: there is no pair */
    for (i = 0; i < N; i++) if (b->split[i] == 'v') b->label[i] = 1;
    how.patience = 3;
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL), TINY_E_ARGUMENT,
             "all nodes of the validation part have the same class");
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, three);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

static void seeded(int threads, uint64_t seed, float *weights)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
    bed *b;
    tgnn_net *net;
    tgnn_train_desc how;
    t_now.rand_at = 0;
    b = make_bed(ctx);
    net = make_net(ctx, drop_net, 3);
    memset(&how, 0, sizeof how);
    how.epochs = 20;
    how.seed = seed;
    T_OK(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL));
    memcpy(weights, net->stage[0].layer.w[0].data, 96 * 4);
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

static void test_seeds(void)
{
    float a[96], b[96], c[96], d[96];
    seeded(1, 1, a);
    seeded(1, 1, b);
    seeded(2, 1, c);
    seeded(1, 2, d);
    T_SAME(a, b, 96);
    T_SAME(a, c, 96);
    T_TRUE(memcmp(a, d, sizeof a) != 0);
}

/* ---- nets that cannot be trained */

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    bed *b = make_bed(ctx);
    tgnn_net *net = make_net(ctx, "{\"kind\":\"gcn\",\"name\":\"a\",\"in\":6,\"out\":3}", 1),
             *out = make_net(ctx, "{\"kind\":\"readout\",\"in\":6},{\"kind\":\"linear\",\"name\":\"a\",\"out\":3}", 1);
    tgnn_net *edge = make_net(ctx, "{\"kind\":\"transformer\",\"name\":\"a\",\"in\":6,\"out\":3,\"edge\":2}", 1),
             *related = make_net(ctx, "{\"kind\":\"rgcn\",\"name\":\"a\",\"in\":6,\"out\":3,\"relations\":2}", 1);
    tiny_tensor x = b->x;
    tgnn_train_desc how;
    tgnn_nodes none = b->nodes;
    memset(&how, 0, sizeof how);
    none.n_relation = 1;
    T_STATUS(tgnn_train_nodes(ctx, related, &none, NULL, NULL), TINY_E_FORMAT, "there are relations for 1 edges");
    T_STATUS(tgnn_train_nodes(ctx, NULL, &b->nodes, NULL, NULL), TINY_E_ARGUMENT, "there is no net");
    T_STATUS(tgnn_train_nodes(ctx, out, &b->nodes, NULL, NULL), TINY_E_ARGUMENT, "gives results for graphs");
    T_STATUS(tgnn_train_nodes(ctx, edge, &b->nodes, NULL, NULL), TINY_E_UNSUPPORTED,
             "features of edges cannot be trained");
    none.label = NULL;
    T_STATUS(tgnn_train_nodes(ctx, net, &none, NULL, NULL), TINY_E_ARGUMENT, "labels and split are required");
    how.patience = -1;
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL), TINY_E_ARGUMENT, "patience -1");
    how.patience = 0;
    b->label[4] = 3;
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, NULL, NULL), TINY_E_FORMAT,
             "node 4 has the label 3, the net has 3 classes");
    b->label[4] = 1;
    x.dim[0] = N - 1;
    none = b->nodes;
    none.x = &x;
    T_STATUS(tgnn_train_nodes(ctx, net, &none, NULL, NULL), TINY_E_SHAPE, "x is 59x6 f32, it must be 60 x 6 f32");
    ((float *)b->x.data)[3 * F] = NAN;
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, NULL, NULL), TINY_E_NUMERIC, NULL);
    ((float *)b->x.data)[3 * F] = 0;
    memset(b->split, 't', N);
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, NULL, NULL), TINY_E_ARGUMENT,
             "no node of the training part has a label");
    b->split[0] = 'r';
    how.patience = 3;
    T_STATUS(tgnn_train_nodes(ctx, net, &b->nodes, &how, NULL), TINY_E_ARGUMENT,
             "patience 3, but no node is in the validation part");
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, out);
    tgnn_net_free(ctx, edge);
    tgnn_net_free(ctx, related);
    tgnn_graph_close(ctx, b->g);
    t_close(ctx);
}

static void test_no_memory(void)
{
    static float x[12] = { 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0 };
    static const int32_t label[6] = { 0, 1, 0, 1, 0, 1 };
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 6, 2);
        static const char json[] =
            "{\"format\":\"tgnn-net "
            "1\",\"rows\":true,\"layers\":[{\"kind\":\"gin\",\"name\":\"a\",\"in\":2,\"out\":2,\"dropout\":0.5}]}";
        tgnn_train_desc how;
        tgnn_nodes d;
        tgnn_net *net;
        tgnn_graph *g;
        tiny_ctx *ctx;
        memset(&d, 0, sizeof d);
        memset(&how, 0, sizeof how);
        how.epochs = 2;
        how.patience = 2;
        how.batch_norm = 1;
        d.x = &tx;
        d.label = label;
        d.split = "rrvvtt";
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_planted(ctx, 6, 2, 2, 0.5, 1, &g)) {
                d.graph = g;
                if (!tgnn_net_make(ctx, "net", json, sizeof json - 1, 1, &net)) {
                    (void)tgnn_train_nodes(ctx, net, &d, &how, NULL);
                    tgnn_net_free(ctx, net);
                }
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

/* the public split, as T. Kipf and M. Welling had it, 2017: they report 81.5 % of the test nodes */
static void test_cora(void)
{
    enum { SEEDS = 3 };
    static const char json[] = "{\"format\":\"tgnn-net "
                               "1\",\"rows\":true,\"layers\":[{\"kind\":\"gcn\",\"name\":\"conv1\",\"in\":1433,\"out\":"
                               "16,\"act\":\"relu\",\"dropout\":0.5},"
                               "{\"kind\":\"gcn\",\"name\":\"conv2\",\"out\":7,\"dropout\":0.5}]}";
    const char *folder = t_shared("data/graphs/cora/edges.tsv");
    tgnn_train_desc how;
    tgnn_data data;
    tgnn_nodes d;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    tiny_ctx *ctx;
    char path[1000];
    double sum = 0;
    int seed;
    if (!folder) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 2);
    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(folder) - strlen("/edges.tsv")), folder);
    memset(&how, 0, sizeof how);
    memset(&d, 0, sizeof d);
    how.decay = 5e-4;
    if (T_OK(tgnn_data_read(ctx, path, &data)) && T_OK(tgnn_net_make(ctx, "gcn", json, sizeof json - 1, 0, &net))) {
        d.graph = data.graph;
        d.x = &data.x;
        d.label = data.label;
        d.split = data.split;
        for (seed = 0; seed < SEEDS; seed++) {
            how.seed = (uint64_t)seed;
            T_OK(tgnn_net_draw(ctx, net, (uint64_t)seed));
            T_OK(tgnn_train_nodes(ctx, net, &d, &how, &e));
            T_EQ_INT(e.epoch, 200);
            printf("    cora, seed %d: %.1f %% of the test nodes\n", seed, 100 * e.test);
            sum += 100 * e.test;
        }
        T_CLOSE(sum / SEEDS, 81.5, 1.0);
        tgnn_data_free(ctx, &data);
    }
    tgnn_net_free(ctx, net);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_steps);
    T_RUN(test_sparse);
    T_RUN(test_dropout);
    T_RUN(test_stopping);
    T_RUN(test_area);
    T_RUN(test_seeds);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
    T_RUN(test_cora);
    return t_done();
}
#endif
