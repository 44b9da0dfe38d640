/* tests/gnn/train/pass.c - gradients of nets on the tape that trains them, each number against central differences of
 * the same net written here in double, by the formulas of the papers: GCN eq. 2 (T. Kipf, M. Welling), GAT eq. 1-6 (P.
 * Velickovic et al.) */
#define T_GNN
#define T_INTERNALS
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else
#include "gnn/train/pass_inside.h"

enum { N = 40, F = 32, K = 3, WIDEST = 32, MOST = 384 };

/* a net in double: its graph as a matrix of counts of edges s -> d, weights in the order of the stages and of their
 * names */
typedef struct plain {
    int edges[N][N];                        /* [d][s], with one loop each */
    double x[N][WIDEST];
    double w[2][TGNN_LAYER_WEIGHTS][MOST];
    int32_t label[N];
} plain;

static double y[2][N][WIDEST], h[N][WIDEST];

static void times(double to[N][WIDEST], double from[N][WIDEST], int n_in, const double *w, int n_out)
{
    int i, k, c;
    for (i = 0; i < N; i++)
        for (k = 0; k < n_out; k++) {
            to[i][k] = 0;
            for (c = 0; c < n_in; c++) to[i][k] += from[i][c] * w[k * n_in + c];
        }
}

/* y = S h + b, S = D^-1/2 (A + I) D^-1/2 with the degrees of destinations */
static void gcn(const plain *p, int stage, double x[N][WIDEST], int n_in, int n_out, double to[N][WIDEST])
{
    double degree[N] = { 0 };
    int i, j, k;
    times(h, x, n_in, p->w[stage][0], n_out);
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) degree[i] += p->edges[i][j];
    for (i = 0; i < N; i++)
        for (k = 0; k < n_out; k++) {
            to[i][k] = p->w[stage][1][k];
            for (j = 0; j < N; j++) to[i][k] += p->edges[i][j] / sqrt(degree[i] * degree[j]) * h[j][k];
        }
}

/* heads of c numbers each, side by side or their mean; w: lin.weight, att_src, att_dst, bias */
static void gat(const plain *p, int stage, double x[N][WIDEST], int n_in, int heads, int c, int average,
                double to[N][WIDEST])
{
    int i, j, k, a;
    times(h, x, n_in, p->w[stage][0], heads * c);
    for (i = 0; i < N; i++) {
        for (k = 0; k < (average ? c : heads * c); k++) to[i][k] = p->w[stage][3][k];
        for (a = 0; a < heads; a++) {
            double e[N], sum = 0;
            for (j = 0; j < N; j++) {
                double s = 0;
                for (k = 0; k < c; k++)
                    s += p->w[stage][1][a * c + k] * h[j][a * c + k] + p->w[stage][2][a * c + k] * h[i][a * c + k];
                e[j] = p->edges[i][j] * exp(s > 0 ? s : 0.2 * s);
                sum += e[j];
            }
            for (j = 0; j < N; j++)
                for (k = 0; k < c; k++)
                    to[i][average ? k : a * c + k] += e[j] / sum * h[j][a * c + k] / (average ? heads : 1);
        }
    }
}

static double loss(plain *p, int attends)
{
    double sum = 0;
    int i, k;
    if (attends) gat(p, 0, p->x, F, 3, 4, 0, y[0]);
    else gcn(p, 0, p->x, F, 8, y[0]);
    for (i = 0; i < N; i++)
        for (k = 0; k < (attends ? 12 : 8); k++)
            y[0][i][k] = !attends ? tanh(y[0][i][k]) : y[0][i][k] > 0 ? y[0][i][k] : expm1(y[0][i][k]);
    if (attends) gat(p, 1, y[0], 12, 2, K, 1, y[1]);
    else gcn(p, 1, y[0], 8, K, y[1]);
    for (i = 0; i < N; i++) {
        double z = 0;
        for (k = 0; k < K; k++) z += exp(y[1][i][k]);
        sum += log(z) - y[1][i][p->label[i]];
    }
    return sum / N;
}

typedef struct task { tinyi_pass *pass; tinyi_pass_input in; int32_t *label; } task;

static tiny_tensor taped(tiny_tape *t, void *user)
{
    task *k = (task *)user;
    tiny_tensor z = tinyi_pass_run(t, k->pass, &k->in), label = tiny_tensor_1d(k->label, TINY_I32, N);
    return tiny_tape_cross_entropy(t, &z, &label, 0.0);
}

static void gradients(tiny_target target, int attends, int sparse)
{
    static const char *const layers[2] = {
        "{\"format\":\"tgnn-net "
        "1\",\"layers\":[{\"kind\":\"gcn\",\"name\":\"a\",\"in\":32,\"out\":8,\"act\":\"tanh\"},{\"kind\":\"gcn\","
        "\"name\":\"b\",\"out\":3}]}",
        "{\"format\":\"tgnn-net "
        "1\",\"layers\":[{\"kind\":\"gat\",\"name\":\"a\",\"in\":32,\"out\":4,\"heads\":3,\"act\":\"elu\"},"
        "{\"kind\":\"gat\",\"name\":\"b\",\"out\":3,\"heads\":2,\"concat\":false}]}"
    };
    const double step = 1e-5;
    tiny_ctx *ctx = t_ctx(target, 2);
    plain *p = (plain *)t_keep(sizeof *p);
    float *x = t_rand(N * F, -1, 1);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), got;
    tgnn_graph *g = NULL;
    tgnn_net *net = NULL;
    tiny_tape *tape = NULL;
    task t;
    size_t q = 0;
    int i, k, j;
    memset(&t, 0, sizeof t);
    for (i = 0; i < N; i++) {
        p->label[i] = (int32_t)t_rand_below(K);
        for (k = 0; k < F; k++) {
            if (sparse && (i * F + k) % 11) x[i * F + k] = 0;
            p->x[i][k] = (double)x[i * F + k];
        }
    }
    t.label = p->label;
    if (T_OK(tgnn_planted(ctx, N, K, 5, 0.7, 3, &g)) &&
        T_OK(tgnn_net_make(ctx, "try", layers[attends], strlen(layers[attends]), 5, &net)) &&
        T_OK(tinyi_pass_open(ctx, net, 0, 1, &t.pass))) {
        const tiny_sparse *a = tgnn_graph_in(g);
        int64_t e;
        for (i = 0; i < N; i++)
            for (p->edges[i][i] = 1, e = a->offset[i]; e < a->offset[i + 1]; e++) p->edges[i][a->col[e]]++;
        for (i = 0; i < 2; i++)
            for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
                tiny_tensor *w = &net->stage[i].layer.w[k];
                for (j = 0; w->data && j < tiny_tensor_count(w); j++) {
                    if (w->rank == 1) ((float *)w->data)[j] = t_rand_float(-0.5f, 0.5f);    /* biases begin with 0 */
                    p->w[i][k][j] = (double)((float *)w->data)[j];
                }
            }
        if (T_OK(tinyi_pass_input_open(t.pass, g, NULL, 0, &tx, sparse, &t.in)) &&
            T_OK(tinyi_pass_tape(t.pass, taped, &t, 0, &tape))) {
            T_EQ_INT(t.in.sparse.offset != NULL, sparse);    /* the path for rows that are mostly zeros */
            got = taped(tape, &t);
            tiny_tape_zero(tape);
            T_OK(tiny_tape_backward(tape, &got, NULL));
            T_CLOSE(*(const float *)got.data, loss(p, attends), 1e-6);
            for (i = 0; i < 2; i++)
                for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
                    const tiny_tensor *w = &net->stage[i].layer.w[k];
                    const float *grad = (const float *)t.pass->param[q].grad.data;
                    if (!w->data) continue;
                    T_TRUE(t.pass->param[q++].value.data == w->data);
                    for (j = 0; j < tiny_tensor_count(w); j++) {
                        const double was = p->w[i][k][j];
                        double up, down;
                        p->w[i][k][j] = was + step;
                        up = loss(p, attends);
                        p->w[i][k][j] = was - step;
                        down = loss(p, attends);
                        p->w[i][k][j] = was;
                        T_CLOSE(grad[j], (up - down) / (2 * step), 1e-6 + 1e-5 * fabs((up - down) / (2 * step)));
                    }
                }
            T_EQ_INT(q, t.pass->n_params);
        }
    }
    tiny_tape_close(tape);
    if (t.pass) tinyi_pass_input_close(t.pass, &t.in);
    tinyi_pass_close(t.pass);
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_gcn(tiny_target target)
{
    gradients(target, 0, 0);
    gradients(target, 0, 1);
    T_PROOF("graphs 0", "finite differences through two GCN layers as they are trained");
}

static void test_gat(tiny_target target)
{
    gradients(target, 1, 0);
    gradients(target, 1, 1);
    T_PROOF("graphs 0", "finite differences through two GAT layers as they are trained");
}

int main(void)
{
    T_RUN_FORMS(test_gcn);
    T_RUN_FORMS(test_gat);
    return t_done();
}
#endif
