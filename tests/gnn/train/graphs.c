/* tests/gnn/train/graphs.c - training on graphs: the step's loss against the net without a tape, with batch norms
 * against loops in double, the same after folding, batches, and two kinds of rings that must be distinguished */
#define T_GNN
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

static const char json[] = "{\"format\":\"tgnn-net "
                           "1\",\"layers\":[{\"kind\":\"gin\",\"name\":\"a\",\"in\":16,\"out\":6,\"hidden\":5,\"act\":"
                           "\"relu\"},{\"kind\":\"gin\",\"name\":\"b\",\"out\":4,\"act\":\"relu\"},"
                           "{\"kind\":\"readout\",\"all\":true},{\"kind\":\"linear\",\"name\":\"l\",\"out\":2}]}";
static const char one_json[] = "{\"format\":\"tgnn-net "
                               "1\",\"layers\":[{\"kind\":\"gin\",\"name\":\"a\",\"in\":16,\"out\":4,\"hidden\":5},{"
                               "\"kind\":\"readout\",\"aggr\":\"mean\"},"
                               "{\"kind\":\"linear\",\"name\":\"l\",\"out\":2}]}";

typedef struct rings { tgnn_data d; int64_t *at; char *part; tgnn_graphs all; } rings;

static void open_rings(tiny_ctx *ctx, rings *r, tiny_idx n)
{
    tiny_idx i;
    memset(r, 0, sizeof *r);
    if (!T_OK(tgnn_data_rings(ctx, n, 3, &r->d)) || !T_OK(tgnn_data_features(ctx, &r->d)) ||
        !T_OK(tgnn_data_graph_at(ctx, &r->d, &r->at)))
        return;
    r->part = (char *)t_keep((size_t)n);
    for (i = 0; i < n; i++) r->part[i] = r->d.fold[i] == 1 ? 't' : r->d.fold[i] == 2 ? 'v' : 'r';
    r->all.graph = r->d.graph;
    r->all.x = &r->d.x;
    r->all.graph_at = r->at;
    r->all.n_graphs = n;
    r->all.label = r->d.graph_label;
    r->all.split = r->part;
}

static void close_rings(tiny_ctx *ctx, rings *r)
{
    tiny_free(ctx, r->at);
    tgnn_data_free(ctx, &r->d);
}

static double entropy(const float *y, int label)
{
    return log(exp((double)y[0]) + exp((double)y[1])) - (double)y[label];
}

static double loss_of(tiny_ctx *ctx, const tgnn_net *net, const rings *r, char part)
{
    const tiny_idx n = r->all.n_graphs;
    float *y = t_guarded((size_t)n * 2);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, n, 2);
    tgnn_net_input in;
    double sum = 0;
    tiny_idx i;
    int all = 0;
    memset(&in, 0, sizeof in);
    in.graph = r->d.graph;
    in.x = &r->d.x;
    in.graph_at = r->at;
    in.n_graphs = n;
    if (!T_OK(tgnn_net_run(ctx, net, &in, &ty, NULL))) return 0;
    for (i = 0; i < n; i++) {
        if (r->part[i] != part) continue;
        sum += entropy(y + i * 2, (int)r->d.graph_label[i]);
        all++;
    }
    return sum / all;
}

static void test_step(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_train_desc how;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    rings r;
    double before;
    open_rings(ctx, &r, 60);
    memset(&how, 0, sizeof how);
    how.epochs = 1;
    how.batch = 200;                        /* all in one step */
    if (T_OK(tgnn_net_make(ctx, "rings", json, sizeof json - 1, 4, &net))) {
        before = loss_of(ctx, net, &r, 'r');
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        T_CLOSE(e.loss, before, 1e-5 * (1 + before));
        T_CLOSE(e.val_loss, loss_of(ctx, net, &r, 'v'), 1e-5 * (1 + before));
        T_TRUE(loss_of(ctx, net, &r, 'r') < before);
        /* 48 graphs in 7 steps of 6 or 7: a loss at the weights of each step, so only near */
        how.batch = 7;
        how.lr = 1e-9;
        T_OK(tgnn_net_draw(ctx, net, 4));
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        T_CLOSE(e.loss, before, 0.05 * before);
        T_CLOSE(e.val_loss, loss_of(ctx, net, &r, 'v'), 1e-5 * (1 + before));
    }
    tgnn_net_free(ctx, net);
    close_rings(ctx, &r);
    t_close(ctx);
}

/* (rows, c) by the mean and the biased variance of each column */
static void normed(double *h, int rows, int c)
{
    int i, k;
    for (k = 0; k < c; k++) {
        double mean = 0, var = 0;
        for (i = 0; i < rows; i++) mean += h[i * c + k] / rows;
        for (i = 0; i < rows; i++) var += (h[i * c + k] - mean) * (h[i * c + k] - mean) / rows;
        for (i = 0; i < rows; i++) h[i * c + k] = (h[i * c + k] - mean) / sqrt(var + 1e-5);
    }
}

static void times(double *y, const double *x, const tgnn_layer *l, int i_w, int rows, int in, int out)
{
    const float *w = (const float *)l->w[i_w].data, *b = (const float *)l->w[i_w + 1].data;
    int i, j, k;
    for (i = 0; i < rows; i++)
        for (j = 0; j < out; j++) {
            y[i * out + j] = b[j];
            for (k = 0; k < in; k++) y[i * out + j] += x[i * in + k] * (double)w[j * in + k];
        }
}

typedef struct end { double val_loss; int n; } end;
static int keep_end(void *user, const tgnn_epoch *e)
{
    ((end *)user)->val_loss = e->val_loss;
    ((end *)user)->n++;
    return 0;
}

static void test_norms(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tiny_sparse *g;
    tgnn_train_desc how;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    end last = { 0, 0 };
    rings r;
    open_rings(ctx, &r, 40);
    memset(r.part, 'r', 40);
    r.part[3] = r.part[8] = 'v';
    memset(&how, 0, sizeof how);
    how.epochs = 1;
    how.batch = 200;
    how.batch_norm = 1;
    g = tgnn_graph_in(r.d.graph);
    if (T_OK(tgnn_net_make(ctx, "rings", one_json, sizeof one_json - 1, 4, &net))) {
        double *x = (double *)t_keep((size_t)g->n_rows * 16 * 8), *h = (double *)t_keep((size_t)g->n_rows * 5 * 8),
               *z = (double *)t_keep((size_t)g->n_rows * 4 * 8), want = 0;
        int *of = (int *)t_keep((size_t)g->n_rows * sizeof *of), rows = 0, i, k, graphs = 0;
        tiny_idx q, node;
        int64_t p;
        for (q = 0; q < 40; q++)            /* the rows of the graphs that are trained on */
            for (node = (tiny_idx)r.at[q]; r.part[q] == 'r' && node < (tiny_idx)r.at[q + 1]; node++, rows++) {
                of[rows] = (int)q;
                for (k = 0; k < 16; k++) x[rows * 16 + k] = ((float *)r.d.x.data)[node * 16 + k];
                for (p = g->offset[node]; p < g->offset[node + 1]; p++)
                    for (k = 0; k < 16; k++) x[rows * 16 + k] += (double)((float *)r.d.x.data)[g->col[p] * 16 + k];
            }
        times(h, x, &net->stage[0].layer, 0, rows, 16, 5);
        normed(h, rows, 5);
        for (i = 0; i < rows * 5; i++) h[i] = h[i] > 0 ? h[i] : 0;
        times(z, h, &net->stage[0].layer, 2, rows, 5, 4);
        normed(z, rows, 4);
        for (q = 0; q < 40; q++) {
            double mean[4] = { 0, 0, 0, 0 }, y[2];
            float yf[2];
            if (r.part[q] != 'r') continue;
            for (i = 0; i < rows; i++)
                for (k = 0; k < 4 && of[i] == (int)q; k++) mean[k] += z[i * 4 + k] / (double)(r.at[q + 1] - r.at[q]);
            times(y, mean, &net->stage[2].layer, 0, 1, 4, 2);
            yf[0] = (float)y[0];
            yf[1] = (float)y[1];
            want += entropy(yf, (int)r.d.graph_label[q]);
            graphs++;
        }
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        T_CLOSE(e.loss, want / graphs, 1e-5);
        how.epochs = 40;
        how.batch = 8;
        how.callback = keep_end;
        how.user = &last;
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        T_EQ_INT(last.n, 40);
        T_TRUE(e.val_loss < 0.5);
        T_CLOSE(e.val_loss, last.val_loss, 2e-4 * (1 + last.val_loss));        /* norms of their own, and folded */
        T_CLOSE(e.val_loss, loss_of(ctx, net, &r, 'v'), 1e-5);
    }
    tgnn_net_free(ctx, net);
    close_rings(ctx, &r);
    t_close(ctx);
}

typedef struct course { double least; int n, best; } course;
static int keep_best(void *user, const tgnn_epoch *e)
{
    course *c = (course *)user;
    if (!c->n++ || e->val_loss < c->least) {
        c->least = e->val_loss;
        c->best = c->n;
    }
    return 0;
}

/* Steps are so long that the loss of the validation part jumps about: the result is the best epoch, with the means
 * and variances that it had. */
static void test_stopping(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_train_desc how;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    course c = { 0, 0, 0 };
    rings r;
    open_rings(ctx, &r, 60);
    memset(&how, 0, sizeof how);
    how.epochs = 300;
    how.patience = 12;
    how.batch = 8;
    how.batch_norm = 1;
    how.lr = 0.1;
    how.callback = keep_best;
    how.user = &c;
    if (T_OK(tgnn_net_make(ctx, "rings", one_json, sizeof one_json - 1, 4, &net))) {
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        T_TRUE(c.n < 300);
        T_EQ_INT(c.n, c.best + 12);
        T_EQ_INT(e.epoch, c.best);
        T_CLOSE(e.val_loss, c.least, 1e-3 * c.least + 1e-9);                   /* norms of their own, and folded */
        T_CLOSE(loss_of(ctx, net, &r, 'v'), c.least, 1e-3 * c.least + 1e-9);
    }
    tgnn_net_free(ctx, net);
    close_rings(ctx, &r);
    t_close(ctx);
}

static float learn(int threads, uint64_t seed, double *test)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
    tgnn_train_desc how;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    rings r;
    float w = 0;
    open_rings(ctx, &r, 120);
    memset(&how, 0, sizeof how);
    memset(&e, 0, sizeof e);
    how.epochs = 15;
    how.seed = seed;
    how.batch_norm = 1;
    how.patience = 15;
    if (T_OK(tgnn_net_make(ctx, "rings", json, sizeof json - 1, 1, &net))) {
        T_OK(tgnn_train_graphs(ctx, net, &r.all, &how, &e));
        w = ((float *)net->stage[1].layer.w[0].data)[7];
        *test = e.test;
        T_TRUE(e.train > 0.9);
    }
    tgnn_net_free(ctx, net);
    close_rings(ctx, &r);
    t_close(ctx);
    return w;
}

static void test_learns(void)
{
    double test[4];
    float w[4];
    w[0] = learn(1, 1, &test[0]);
    w[1] = learn(1, 1, &test[1]);
    w[2] = learn(2, 1, &test[2]);
    w[3] = learn(1, 2, &test[3]);
    T_TRUE(test[0] >= 0.9 && test[3] >= 0.9);      /* chance is a half */
    T_TRUE(w[0] == w[1] && w[0] == w[2] && w[0] != w[3]);
}

static void test_bad(void)
{
    static const char nodes_json[] =
        "{\"format\":\"tgnn-net 1\",\"layers\":[{\"kind\":\"gin\",\"name\":\"a\",\"in\":16,\"out\":2}]}";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_net *net = NULL, *nodes = NULL;
    tgnn_train_desc how;
    tgnn_graphs all;
    int64_t at[11];
    rings r;
    open_rings(ctx, &r, 10);
    memset(r.part, 'r', 10);
    memcpy(at, r.at, sizeof at);
    memset(&how, 0, sizeof how);
    T_OK(tgnn_net_make(ctx, "rings", json, sizeof json - 1, 1, &net));
    T_OK(tgnn_net_make(ctx, "nodes", nodes_json, sizeof nodes_json - 1, 1, &nodes));
    T_STATUS(tgnn_train_graphs(ctx, nodes, &r.all, NULL, NULL), TINY_E_ARGUMENT, "gives results for nodes");
    all = r.all;
    all.graph_at = NULL;
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_ARGUMENT,
             "graph_at, labels and split are required");
    all.graph_at = at;
    at[4]++;                                /* a ring is cut in two */
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_FORMAT, "leads from node");
    at[4] = at[3] - 1;
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_FORMAT, "train: graph 3 has the nodes");
    at[4] = r.at[4];
    at[10]--;
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_FORMAT, "graph_at must begin with 0 and end with");
    at[10]++;
    r.d.graph_label[2] = 2;
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_FORMAT,
             "graph 2 has the label 2, the net has 2 classes");
    r.d.graph_label[2] = 0;
    how.patience = 2;
    T_STATUS(tgnn_train_graphs(ctx, net, &all, &how, NULL), TINY_E_ARGUMENT,
             "patience 2, but no graph is in the validation part");
    memset(r.part, 't', 10);
    T_STATUS(tgnn_train_graphs(ctx, net, &all, NULL, NULL), TINY_E_ARGUMENT,
             "no graph of the training part has a label");
    tgnn_net_free(ctx, net);
    tgnn_net_free(ctx, nodes);
    close_rings(ctx, &r);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tgnn_train_desc how;
        tgnn_graphs all;
        tgnn_data d;
        tgnn_net *net;
        int64_t *at;
        tiny_ctx *ctx;
        memset(&how, 0, sizeof how);
        memset(&all, 0, sizeof all);
        how.epochs = 1;
        how.batch = 2;
        how.batch_norm = 1;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_data_rings(ctx, 4, 1, &d)) {
                if (!tgnn_data_features(ctx, &d) && !tgnn_data_graph_at(ctx, &d, &at)) {
                    all.graph = d.graph;
                    all.x = &d.x;
                    all.graph_at = at;
                    all.n_graphs = 4;
                    all.label = d.graph_label;
                    all.split = "rrrt";
                    if (!tgnn_net_make(ctx, "net", one_json, sizeof one_json - 1, 1, &net)) {
                        (void)tgnn_train_graphs(ctx, net, &all, &how, NULL);
                        tgnn_net_free(ctx, net);
                    }
                    tiny_free(ctx, at);
                }
                tgnn_data_free(ctx, &d);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_step);
    T_RUN_FORMS(test_norms);
    T_RUN(test_stopping);
    T_RUN(test_learns);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
    return t_done();
}
#endif
