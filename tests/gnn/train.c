/* tests/gnn/train.c - the two-layer GCN of T. Kipf, M. Welling, 2017, trained on Cora through the tape, public split, as they did: rows of
 * features sum to 1, dropout 0.5 before both products, 16 hidden, Adam 0.01, decay 5e-4 of the first layer, 200 epochs. They report 81.5 %
 * of the test nodes; the mean over our seeds must be within one point. Features are sparse, so the first product is spmm too.          */
#define T_GNN
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

enum { HIDDEN = 16, EPOCHS = 200, SEEDS = 3 };

typedef struct cora {
    tgnn_data data;
    tgnn_graph *norm;
    tiny_idx n, n_features, n_entries;
    int64_t *offset;                        /* the features as rows of what is not 0 */
    int32_t *col, *train;                   /* train: labels of the training nodes, -1 elsewhere */
    float *entry, *kept, *mask;             /* values; the same after dropout; of the hidden layer */
    tiny_param p[4];
} cora;

/* rows that sum to 1 */
static void sparse_features(cora *c)
{
    const float *x = (const float *)c->data.x.data;
    tiny_idx i, k, m = 0;
    c->n = c->data.x.dim[0];
    c->n_features = c->data.x.dim[1];
    for (i = 0; i < c->n * c->n_features; i++) m += x[i] != 0;
    c->n_entries = m;
    c->offset = (int64_t *)t_keep(((size_t)c->n + 1) * 8);
    c->col = (int32_t *)t_keep((size_t)m * 4);
    c->entry = (float *)t_keep((size_t)m * 4);
    c->kept = (float *)t_keep((size_t)m * 4);
    c->mask = (float *)t_keep((size_t)c->n * HIDDEN * 4);
    for (i = 0, m = 0; i < c->n; i++) {
        float sum = 0.0f;
        for (k = 0; k < c->n_features; k++) sum += x[i * c->n_features + k];
        for (k = 0; k < c->n_features; k++)
            if (x[i * c->n_features + k] != 0) {
                c->col[m] = (int32_t)k;
                c->entry[m++] = x[i * c->n_features + k] / sum;
            }
        c->offset[i + 1] = m;
    }
    c->train = (int32_t *)t_keep((size_t)c->n * 4);
    for (i = 0; i < c->n; i++) c->train[i] = c->data.split[i] == 'r' ? c->data.label[i] : -1;
}

static tiny_tensor sum_over(tiny_tape *t, tiny_tensor offset, tiny_tensor col, tiny_tensor w, const tiny_tensor *x)
{
    return tiny_tape_call(t, TINY_OP_SPMM, &offset, x, &col, &w, NULL);
}

/* logits; dropout 0: as trained */
static tiny_tensor forward(tiny_tape *t, cora *c, int dropout)
{
    const tiny_sparse *a = tgnn_graph_in(c->norm);
    tiny_tensor offset = tiny_tensor_1d(a->offset, TINY_I64, c->n + 1), col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n), w = tiny_tensor_1d(a->value, TINY_F32, (tiny_idx)a->n);
    tiny_tensor mask = tiny_tensor_2d(c->mask, TINY_F32, c->n, HIDDEN), h;
    h = sum_over(t, tiny_tensor_1d(c->offset, TINY_I64, c->n + 1), tiny_tensor_1d(c->col, TINY_I32, c->n_entries),
                 tiny_tensor_1d(dropout ? c->kept : c->entry, TINY_F32, c->n_entries), &c->p[0].value);
    h = sum_over(t, offset, col, w, &h);
    h = tiny_tape_add(t, &h, &c->p[1].value);
    h = tiny_tape_call(t, TINY_OP_RELU, &h, NULL, NULL, NULL, NULL);
    if (dropout) h = tiny_tape_mul(t, &h, &mask);
    h = tiny_tape_linear(t, &h, &c->p[2].value, NULL, TINY_ACT_NONE);
    h = sum_over(t, offset, col, w, &h);
    return tiny_tape_add(t, &h, &c->p[3].value);
}

/* per cent of the nodes of one part that get their label */
static double accuracy(tiny_ctx *ctx, cora *c, char part)
{
    tiny_tape_desc d = { 0 };
    tiny_tape *t;
    tiny_tensor y;
    tiny_idx i, k, right = 0, all = 0;
    d.no_grad = 1;
    if (!T_OK(tiny_tape_open(ctx, &d, &t))) return 0.0;
    y = forward(t, c, 0);
    T_OK(tiny_tape_status(t));
    for (i = 0; i < c->n && y.data; i++) {
        const float *row = (const float *)y.data + i * y.dim[1];
        tiny_idx best = 0;
        if (c->data.split[i] != part) continue;
        for (k = 1; k < y.dim[1]; k++)
            if (row[k] > row[best]) best = k;
        right += best == c->data.label[i];
        all++;
    }
    tiny_tape_close(t);
    return all ? 100.0 * (double)right / (double)all : 0.0;
}

static double train(tiny_ctx *ctx, cora *c, uint64_t seed)
{
    const tiny_cross_entropy_params skip = { 0, 1 };
    tiny_tensor label = tiny_tensor_1d(c->train, TINY_I32, c->n);
    tiny_rng rng = tiny_rng_make(seed, 1);
    tiny_optim_desc d;
    tiny_optim *opt;
    tiny_tape *t;
    tiny_idx i;
    int epoch;
    for (i = 0; i < 4; i += 2) {
        T_OK(tiny_init_xavier(ctx, &rng, &c->p[i].value));
        T_OK(tiny_init_constant(ctx, &c->p[i + 1].value, 0.0));
    }
    memset(&d, 0, sizeof d);
    d.group[0].kind = d.group[1].kind = TINY_OPTIM_ADAM;
    d.group[0].lr = d.group[1].lr = 0.01;
    d.group[0].decay = 5e-4;
    if (!T_OK(tiny_optim_open(ctx, c->p, 4, &d, &opt))) return 0.0;
    if (T_OK(tiny_tape_open(ctx, NULL, &t))) {
        for (i = 0; i < 4; i++) T_OK(tiny_tape_param(t, &c->p[i]));
        for (epoch = 0; epoch < EPOCHS; epoch++) {
            tiny_tape_mark mark = tiny_tape_now(t);
            tiny_tensor y;
            for (i = 0; i < c->n_entries; i++) c->kept[i] = tiny_rng_u32(&rng) >> 31 ? 2.0f * c->entry[i] : 0.0f;
            for (i = 0; i < c->n * HIDDEN; i++) c->mask[i] = tiny_rng_u32(&rng) >> 31 ? 2.0f : 0.0f;
            y = forward(t, c, 1);
            y = tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &y, &label, NULL, NULL, &skip);
            tiny_tape_zero(t);
            if (!T_OK(tiny_tape_backward(t, &y, NULL)) || !T_OK(tiny_optim_step(opt, 1.0))) break;
            tiny_tape_release(t, mark);
        }
        tiny_tape_close(t);
    }
    tiny_optim_close(opt);
    return accuracy(ctx, c, 't');
}

static void parameter(cora *c, int i, const char *name, int rank, tiny_idx a, tiny_idx b)
{
    tiny_idx dim[2];
    dim[0] = a;
    dim[1] = b;
    c->p[i].name = name;
    c->p[i].group = i > 1;
    c->p[i].value = tiny_tensor_nd(t_keep((size_t)a * (size_t)(rank > 1 ? b : 1) * 4), TINY_F32, rank, dim);
    c->p[i].grad = tiny_tensor_nd(t_keep((size_t)a * (size_t)(rank > 1 ? b : 1) * 4), TINY_F32, rank, dim);
}

static void test_cora(void)
{
    const char *folder = t_shared("data/graphs/cora/edges.tsv");
    tiny_ctx *ctx;
    tgnn_normalize_desc how;
    char path[1000];
    double sum = 0.0, got;
    cora c;
    int seed;
    if (!folder) {
        T_SKIP("data/graphs/cora is not there");
        return;
    }
    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(folder) - strlen("/edges.tsv")), folder);
    ctx = t_ctx(TINY_TARGET_AUTO, 2);
    memset(&c, 0, sizeof c);
    memset(&how, 0, sizeof how);
    how.norm = TGNN_NORM_SYMMETRIC;
    how.add_loops = 1;
    if (T_OK(tgnn_data_read(ctx, path, &c.data)) && T_OK(tgnn_graph_normalize(ctx, c.data.graph, &how, &c.norm))) {
        sparse_features(&c);
        parameter(&c, 0, "w1", 2, c.n_features, HIDDEN);
        parameter(&c, 1, "b1", 1, HIDDEN, 0);
        parameter(&c, 2, "w2", 2, c.data.n_class, HIDDEN);
        parameter(&c, 3, "b2", 1, c.data.n_class, 0);
        for (seed = 0; seed < SEEDS; seed++) {
            got = train(ctx, &c, (uint64_t)seed);
            printf("    cora, seed %d: %.1f %% of the test nodes\n", seed, got);
            sum += got;
        }
        T_CLOSE(sum / SEEDS, 81.5, 1.0);
    }
    tgnn_graph_close(ctx, c.norm);
    tgnn_data_free(ctx, &c.data);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_cora);
    return t_done();
}
#endif
