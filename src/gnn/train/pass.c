/* src/gnn/train/pass.c - layers on a tape
 * Papers   the layers: see gnn/layer/layer.c. Dropout: N. Srivastava et al., JMLR 15, 2014; of attention as in P.
 *          Velickovic et al., 2018.
 *          Batch norm: S. Ioffe, C. Szegedy, 2015; at the end g / sqrt(var + eps) is multiplied into the rows of the
 *          Linear before it.
 * Left out features of edges (gine, and edge of transformer): no data set here has them. */
#include <string.h>
#include "gnn/train/pass_inside.h"
#include "gnn/graph/graph_inside.h"
#include "math/elem.h"

#define TINYI_PASS_EPS 1e-5                 /* of batch norms */

static void tinyi_pass_param(tinyi_pass *p, const char *name, const tiny_tensor *value, int group)
{
    tiny_param *q = &p->param[p->n_params++];
    q->name = name;
    q->value = q->grad = *value;            /* the memory of grad: when all are counted */
    q->group = group;
    p->n_values += (size_t)tiny_tensor_count(value);
}

static int tinyi_pass_is(const tgnn_stage *s, tgnn_layer_kind kind)
{
    return s->kind == TGNN_STAGE_CONV && s->layer.kind == kind;
}

static tiny_status tinyi_pass_norms(tinyi_pass *p)
{
    size_t n = 0;
    float *at;
    int i, k, j;
    for (i = 0; i < p->net->n_stages; i++)
        if (tinyi_pass_is(&p->net->stage[i], TGNN_LAYER_GIN)) {
            n += 4 * (size_t)(p->net->stage[i].hidden + p->net->stage[i].out);
            if (!p->net->stage[i].layer.w[1].data || !p->net->stage[i].layer.w[3].data)
                return tinyi_fail(p->ctx, TINY_E_ARGUMENT,
                                  "train: layer %d (%s): a batch norm needs a bias to be folded into", i + 1,
                                  p->net->stage[i].name);
        }
    at = p->norms = (float *)tinyi_alloc(p->ctx, n, sizeof *at);
    if (!at) return tiny_ctx_status(p->ctx);
    for (i = 0; i < p->net->n_stages; i++)
        for (k = 0; k < 2 && tinyi_pass_is(&p->net->stage[i], TGNN_LAYER_GIN); k++) {
            const tiny_idx c = k ? p->net->stage[i].out : p->net->stage[i].hidden;
            tiny_tensor *part[4];
            part[0] = &p->norm[i][k].g;
            part[1] = &p->norm[i][k].b;
            part[2] = &p->norm[i][k].mean;
            part[3] = &p->norm[i][k].var;
            for (j = 0; j < 4; j++, at += c) {
                tiny_idx q;
                *part[j] = tiny_tensor_1d(at, TINY_F32, c);
                for (q = 0; q < c; q++) at[q] = j % 3 == 0 ? 1.0f : 0.0f;
                if (j < 2) tinyi_pass_param(p, j ? "norm.bias" : "norm.weight", part[j], 1);
                else p->n_values += (size_t)c;
            }
        }
    return TINY_OK;
}

tiny_status tinyi_pass_open(tiny_ctx *ctx, tgnn_net *net, int norms, uint64_t seed, tinyi_pass **out)
{
    tinyi_net_weight w;
    tinyi_pass *p;
    size_t k, n = 0;
    float *at;
    int i, j;
    tiny_status st = TINY_OK;
    *out = NULL;
    p = (tinyi_pass *)tiny_alloc(ctx, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->net = net;
    p->rng = tiny_rng_make(seed, 0x64726f70);
    for (i = 0; !st && i < net->n_stages; i++) {
        if (net->stage[i].edge)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "train: layer %d (%s): features of edges cannot be trained", i + 1,
                            net->stage[i].name);
        for (j = 0; j < TGNN_LAYER_WEIGHTS; j++)
            if (tinyi_net_wants(&net->stage[i], j, &w) && net->stage[i].layer.w[j].data &&
                !(tinyi_pass_is(&net->stage[i], TGNN_LAYER_GIN) && j == 4))
                tinyi_pass_param(p, w.name, &net->stage[i].layer.w[j], i > 0);
    }
    if (!st && norms) st = tinyi_pass_norms(p);
    for (k = 0; k < p->n_params; k++) n += (size_t)tiny_tensor_count(&p->param[k].value);
    p->grads = st ? NULL : (float *)tinyi_alloc(ctx, n, sizeof(float));
    if (!st && !p->grads) st = tiny_ctx_status(ctx);
    for (k = 0, at = p->grads; !st && k < p->n_params; k++) {
        p->param[k].grad.data = at;
        at += tiny_tensor_count(&p->param[k].value);
    }
    if (st) tinyi_pass_close(p);
    else *out = p;
    return st;
}

void tinyi_pass_close(tinyi_pass *p)
{
    if (!p) return;
    if (p->guest) p->guest->leave(p->guest->arg);
    tiny_free(p->ctx, p->grads);
    tiny_free(p->ctx, p->norms);
    tiny_free(p->ctx, p);
}

/* the parameters, then the running values; way 1: out of the pass, 0: into it */
static void tinyi_pass_copy(const tinyi_pass *p, float *values, int way)
{
    size_t k, n = 0;
    int i, j, q;
    for (k = 0; k < p->n_params; k++) {
        const size_t c = (size_t)tiny_tensor_count(&p->param[k].value);
        if (way) memcpy(values + n, p->param[k].value.data, c * sizeof(float));
        else memcpy(p->param[k].value.data, values + n, c * sizeof(float));
        n += c;
    }
    for (i = 0; i < TGNN_NET_MOST; i++)
        for (j = 0; j < 2; j++)
            for (q = 0; q < 2; q++) {
                const tiny_tensor *t = q ? &p->norm[i][j].var : &p->norm[i][j].mean;
                const size_t c = t->data ? (size_t)t->dim[0] : 0;
                if (!c) continue;
                if (way) memcpy(values + n, t->data, c * sizeof(float));
                else memcpy(t->data, values + n, c * sizeof(float));
                n += c;
            }
}

void tinyi_pass_keep(const tinyi_pass *p, float *values) { tinyi_pass_copy(p, values, 1); }
void tinyi_pass_back(tinyi_pass *p, const float *values) { tinyi_pass_copy(p, (float *)(uintptr_t)values, 0); }

TINY_REF_BEGIN
void tinyi_pass_fold(tinyi_pass *p)
{
    int i, k;
    tiny_idx r, c;
    for (i = 0; i < p->net->n_stages; i++)
        for (k = 0; k < 2; k++) {
            const tinyi_pass_norm *n = &p->norm[i][k];
            tiny_tensor *w = &p->net->stage[i].layer.w[2 * k], *b = w + 1;
            if (!n->g.data) continue;
            for (r = 0; r < w->dim[0]; r++) {
                const double f =
                    (double)((float *)n->g.data)[r] / tinyi_sqrt64((double)((float *)n->var.data)[r] + TINYI_PASS_EPS);
                for (c = 0; c < w->dim[1]; c++)
                    ((float *)w->data)[r * w->dim[1] + c] = (float)(f * ((float *)w->data)[r * w->dim[1] + c]);
                ((float *)b->data)[r] =
                    (float)(f * (((float *)b->data)[r] - (double)((float *)n->mean.data)[r]) + ((float *)n->b.data)[r]);
            }
        }
    memset(p->norm, 0, sizeof p->norm);
}
TINY_REF_END

/* ---- input */

/* may the first layer be given sparse rows? */
static int tinyi_pass_takes_sparse(const tgnn_net *net)
{
    const tgnn_stage *s = &net->stage[0];
    int i;
    for (i = 0; i < net->n_stages; i++)
        if (net->stage[i].all) return 0;
    if (s->kind != TGNN_STAGE_CONV) return 0;
    return s->layer.kind == TGNN_LAYER_GCN || s->layer.kind == TGNN_LAYER_GAT || s->layer.kind == TGNN_LAYER_GATV2 ||
           s->layer.kind == TGNN_LAYER_GIN || s->layer.kind == TGNN_LAYER_SGC ||
           (s->layer.kind == TGNN_LAYER_SAGE && s->aggr <= TINY_EDGE_MEAN);
}

tiny_status tinyi_pass_input_open(tinyi_pass *p, const tgnn_graph *g, const int32_t *relation, int64_t n_relation,
                                  const tiny_tensor *x, int sparse, tinyi_pass_input *in)
{
    tiny_sparse_desc d;
    tiny_idx i, n = 0;
    char text[96];
    tiny_status st;
    memset(in, 0, sizeof *in);
    if (tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2 || !tiny_tensor_is_dense(x) ||
        x->dim[0] != tgnn_graph_nodes(g) || x->dim[1] != p->net->n_in)
        return tinyi_fail(p->ctx, TINY_E_SHAPE, "train: x is %s, it must be %td x %td f32, dense",
                          tiny_tensor_check(x) ? "no tensor" : tinyi_shape_text(x, text), tgnn_graph_nodes(g),
                          p->net->n_in);
    in->graph = g;
    in->x = *x;
    st = tinyi_net_graphs_open(p->ctx, p->net, g, relation, n_relation, &in->graphs);
    if (st) return st;
    if (p->net->rows) {
        in->owned = (float *)tinyi_alloc(p->ctx, (size_t)tiny_tensor_count(x), sizeof(float));
        if (!in->owned) st = tiny_ctx_status(p->ctx);
        else {
            tinyi_net_rows(x, in->owned);
            in->x.data = in->owned;
        }
    }
    sparse = sparse && !(p->guest && p->guest->dense);
    for (i = 0; !st && sparse && i < tiny_tensor_count(x); i++) n += ((const float *)in->x.data)[i] != 0.0f;
    if (!st && sparse && x->dim[1] >= 32 && n < tiny_tensor_count(x) / 8 && tinyi_pass_takes_sparse(p->net)) {
        memset(&d, 0, sizeof d);
        d.form = TINY_CSR;
        st = tiny_sparse_from_dense(p->ctx, &in->x, &d, &in->sparse);
        if (!st) in->kept = (float *)tinyi_alloc(p->ctx, (size_t)in->sparse.n, sizeof(float));
        if (!st && !in->kept) st = tiny_ctx_status(p->ctx);
    }
    if (st) tinyi_pass_input_close(p, in);
    return st;
}

void tinyi_pass_input_close(tinyi_pass *p, tinyi_pass_input *in)
{
    tinyi_net_graphs_close(p->ctx, &in->graphs);
    tiny_free(p->ctx, in->owned);
    tiny_free(p->ctx, in->kept);
    tiny_sparse_free(p->ctx, &in->sparse);
    memset(in, 0, sizeof *in);
}

/* ---- what layers are made of */

static void tinyi_pass_mask(tiny_rng *r, float *m, size_t n, float drop)
{
    const uint32_t below = (uint32_t)((double)drop * 65536.0 + 0.5);
    const float keep = 65536.0f / (float)(65536u - below);
    uint32_t counter[4], key[2], out[4];
    size_t i;
    key[0] = (uint32_t)r->seed;
    key[1] = (uint32_t)(r->seed >> 32);
    counter[2] = (uint32_t)r->stream;
    counter[3] = (uint32_t)(r->stream >> 32);
    for (i = 0; i < n; i++) {
        if (i % 8 == 0) {
            counter[0] = (uint32_t)r->at;
            counter[1] = (uint32_t)(r->at >> 32);
            tiny_philox(counter, key, out);
            r->at++;
        }
        m[i] = (out[i % 8 / 2] >> 16 * (i & 1) & 0xffff) < below ? 0.0f : keep;
    }
}

tiny_tensor tinyi_pass_drop(tinyi_pass_at *a, const tiny_tensor *x, float drop)
{
    tiny_tensor m;
    if (!a->p->train || drop <= 0.0f) return *x;
    m = tiny_tape_new(a->t, TINY_F32, x->rank, x->dim);
    if (!m.data) return m;
    if (!tiny_tape_dry(a->t)) tinyi_pass_mask(&a->p->rng, (float *)m.data, (size_t)tiny_tensor_count(&m), drop);
    return tiny_tape_mul(a->t, x, &m);
}

static tiny_tensor tinyi_pass_one(tinyi_pass_at *a, int kind, const tiny_tensor *x)
{
    return tiny_tape_call(a->t, kind, x, NULL, NULL, NULL, NULL);
}

tiny_tensor tinyi_pass_spmm(tinyi_pass_at *a, const tiny_tensor *x, const tiny_tensor *w, int reduce)
{
    tiny_spmm_params q;
    memset(&q, 0, sizeof q);
    q.reduce = reduce;
    return tiny_tape_call(a->t, TINY_OP_SPMM, &a->offset, x, &a->col, w, &q);
}

static const tiny_tensor *tinyi_pass_weight(const tinyi_pass_at *a, int i)
{
    return a->l->w[i].data ? &a->l->w[i] : NULL;
}

tiny_tensor tinyi_pass_plus(tinyi_pass_at *a, const tiny_tensor *y, int i_bias)
{
    const tiny_tensor *b = i_bias < 0 ? NULL : tinyi_pass_weight(a, i_bias);
    return b ? tiny_tape_add(a->t, y, b) : *y;
}

tiny_tensor tinyi_pass_product(tinyi_pass_at *a, const tiny_tensor *x, const tiny_tensor *w)
{
    tiny_tensor turned;
    if (x) return tiny_tape_linear(a->t, x, w, NULL, TINY_ACT_NONE);
    turned = tiny_tensor_swap(*w, 0, 1);
    turned = tinyi_pass_one(a, TINY_OP_COPY, &turned);
    return tiny_tape_call(a->t, TINY_OP_SPMM, &a->s_offset, &turned, &a->s_col, &a->s_value, NULL);
}

/* x W' + b of weights i and i_bias (below 0: none) */
static tiny_tensor tinyi_pass_linear(tinyi_pass_at *a, const tiny_tensor *x, int i, int i_bias)
{
    const tiny_tensor y = tinyi_pass_product(a, x, &a->l->w[i]);
    return tinyi_pass_plus(a, &y, i_bias);
}

static tiny_tensor tinyi_pass_cube(tinyi_pass_at *a, const tiny_tensor *x, tiny_idx heads)
{
    tiny_idx dim[3];
    dim[0] = x->rank ? x->dim[0] : 0;
    dim[1] = heads;
    dim[2] = x->rank > 1 ? x->dim[1] / heads : 0;
    return tiny_tape_reshape(a->t, x, 3, dim);
}

static tiny_tensor tinyi_pass_heads_out(tinyi_pass_at *a, const tiny_tensor *h, int i_bias)
{
    tiny_tensor y = *h;
    if (a->l->average) {
        tiny_reduce_params r;
        memset(&r, 0, sizeof r);
        r.axis = 1;
        y = tinyi_pass_cube(a, h, a->l->heads);
        y = tiny_tape_call(a->t, TINY_OP_MEAN, &y, NULL, NULL, NULL, &r);
    }
    return tinyi_pass_plus(a, &y, i_bias);
}

/* sum of softmax(scores of q and k) v, with dropout of the softmax, and then of v too: the program of the authors of
 * GAT does so */
static tiny_tensor tinyi_pass_attend(tinyi_pass_at *a, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v,
                                     const tiny_tensor *att, const tiny_sddmm_params *params)
{
    tiny_tensor out[TINY_OP_MAX_OUT], s;
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(out, 0, sizeof out);
    op.in[0] = &a->offset;
    op.in[1] = &a->col;
    op.params = params;
    op.in[2] = q;
    op.in[3] = k;
    if (!a->p->train || a->s->dropout_edges <= 0.0f) {
        op.kind = TINY_OP_EDGE_ATTENTION;
        op.in[TINYI_EDGE_ATT_V] = v;
        op.in[TINYI_EDGE_ATT_ATT] = att;
        (void)tiny_tape_op(a->t, &op, out);
        return out[0];
    }
    op.kind = TINY_OP_SDDMM;
    op.in[TINYI_SDDMM_ATT] = att;
    (void)tiny_tape_op(a->t, &op, out);
    s = tiny_tape_call(a->t, TINY_OP_SEGMENT_SOFTMAX, &a->offset, &out[0], NULL, NULL, NULL);
    s = tinyi_pass_drop(a, &s, a->s->dropout_edges);
    out[0] = tinyi_pass_drop(a, v, a->s->dropout);
    return tinyi_pass_spmm(a, &out[0], &s, TINY_EDGE_SUM);
}

/* ---- layers */

static tiny_tensor tinyi_pass_gcn(tinyi_pass_at *a)
{
    tiny_tensor h;
    if (a->x && a->s->n_in < a->s->out) {
        h = tinyi_pass_spmm(a, a->x, &a->value, TINY_EDGE_SUM);
        return tinyi_pass_linear(a, &h, 0, 1);
    }
    h = tinyi_pass_linear(a, a->x, 0, -1);
    h = tinyi_pass_spmm(a, &h, &a->value, TINY_EDGE_SUM);
    return tinyi_pass_plus(a, &h, 1);
}

static tiny_tensor tinyi_pass_sage(tinyi_pass_at *a)
{
    tiny_tensor h, own;
    if (a->x && (a->s->n_in < a->s->out || a->s->aggr > TINY_EDGE_MEAN)) {
        h = tinyi_pass_spmm(a, a->x, NULL, a->s->aggr);
        h = tinyi_pass_linear(a, &h, 0, 1);
    } else {
        h = tinyi_pass_linear(a, a->x, 0, -1);
        h = tinyi_pass_spmm(a, &h, NULL, a->s->aggr);
        h = tinyi_pass_plus(a, &h, 1);
    }
    if (tinyi_pass_weight(a, 2)) {
        own = tinyi_pass_linear(a, a->x, 2, -1);
        h = tiny_tape_add(a->t, &h, &own);
    }
    if (a->l->normalize) {
        tiny_norm_params q;
        memset(&q, 0, sizeof q);
        q.eps = 1e-12f;
        h = tiny_tape_call(a->t, TINY_OP_L2NORM, &h, NULL, NULL, NULL, &q);
    }
    return h;
}

static tiny_tensor tinyi_pass_gat(tinyi_pass_at *a)
{
    tiny_tensor h = tinyi_pass_linear(a, a->x, 0, -1), cube = tinyi_pass_cube(a, &h, a->l->heads), side[2], t;
    tiny_sddmm_params q;
    int k;
    memset(&q, 0, sizeof q);
    for (k = 0; k < 2; k++) {               /* att (1, heads, c) or (heads, c): repeated for each node */
        t = tiny_tape_mul(a->t, &cube, &a->l->w[1 + k]);
        side[k] = tiny_tape_call(a->t, TINY_OP_SUM, &t, NULL, NULL, NULL, NULL);
    }
    q.add = 1;
    q.heads = a->l->heads;
    q.slope = a->l->slope == 0.0f ? 0.2f : a->l->slope;
    t = tinyi_pass_attend(a, &side[1], &side[0], &h, NULL, &q);
    return tinyi_pass_heads_out(a, &t, 3);
}

static tiny_tensor tinyi_pass_gatv2(tinyi_pass_at *a)
{
    tiny_tensor l = tinyi_pass_linear(a, a->x, 0, 1), r = tinyi_pass_linear(a, a->x, 2, 3), att, y;
    tiny_sddmm_params q;
    tiny_idx n = tiny_tensor_count(&a->l->w[4]);
    memset(&q, 0, sizeof q);
    q.add = 1;
    q.heads = a->l->heads;
    q.slope = a->l->slope == 0.0f ? 0.2f : a->l->slope;
    att = tiny_tape_reshape(a->t, &a->l->w[4], 1, &n);
    y = tinyi_pass_attend(a, &r, &l, &l, &att, &q);
    return tinyi_pass_heads_out(a, &y, 5);
}

/* running values take a tenth of those of the batch; the variance the unbiased one, as torch does */
static void tinyi_pass_running(const tiny_tensor *run, const tiny_tensor *of, double factor)
{
    tiny_idx c;
    for (c = 0; c < run->dim[0]; c++) {
        float *v = (float *)run->data + c;
        *v = (float)(0.9 * (double)*v + 0.1 * factor * (double)((const float *)of->data)[c]);
    }
}

/* By columns of x (nodes, c), in operations that go along its rows: those of a norm would walk down them. */
static tiny_tensor tinyi_pass_norm_of(tinyi_pass_at *a, const tiny_tensor *x, int k)
{
    const tinyi_pass_norm *n = &a->p->norm[a->s - a->p->net->stage][k];
    tiny_reduce_params down;
    tiny_tensor mean, var, d, y;
    if (!n->g.data) return *x;
    memset(&down, 0, sizeof down);
    down.axis = 1;
    mean = a->p->train ? tiny_tape_call(a->t, TINY_OP_MEAN, x, NULL, NULL, NULL, &down) : n->mean;
    d = tiny_tape_sub(a->t, x, &mean);
    if (a->p->train) {
        y = tiny_tape_mul(a->t, &d, &d);
        var = tiny_tape_call(a->t, TINY_OP_MEAN, &y, NULL, NULL, NULL, &down);
    } else var = n->var;
    if (a->p->train && var.data && !tiny_tape_dry(a->t) && !tiny_tape_status(a->t)) {
        tinyi_pass_running(&n->mean, &mean, 1.0);
        tinyi_pass_running(&n->var, &var, x->dim[0] > 1 ? (double)x->dim[0] / (double)(x->dim[0] - 1) : 1.0);
    }
    y = tiny_tape_scale(a->t, &var, 1.0, TINYI_PASS_EPS);
    y = tinyi_pass_one(a, TINY_OP_RSQRT, &y);
    y = tiny_tape_mul(a->t, &y, &n->g);
    y = tiny_tape_mul(a->t, &d, &y);
    return tiny_tape_add(a->t, &y, &n->b);
}

static tiny_tensor tinyi_pass_gin(tinyi_pass_at *a)
{
    const double eps = a->l->w[4].data ? (double)*(const float *)a->l->w[4].data : (double)a->l->eps;
    const int sum_first = a->x && a->s->n_in <= a->s->hidden;
    tiny_tensor h = sum_first ? *a->x : tinyi_pass_linear(a, a->x, 0, -1),
                sum = tinyi_pass_spmm(a, &h, NULL, TINY_EDGE_SUM);
    h = tiny_tape_scale(a->t, &h, 1.0 + eps, 0.0);
    h = tiny_tape_add(a->t, &h, &sum);
    h = sum_first ? tinyi_pass_linear(a, &h, 0, 1) : tinyi_pass_plus(a, &h, 1);
    h = tinyi_pass_norm_of(a, &h, 0);
    h = tinyi_pass_one(a, TINY_OP_RELU, &h);
    h = tinyi_pass_linear(a, &h, 2, 3);
    return tinyi_pass_norm_of(a, &h, 1);
}

static tiny_tensor tinyi_pass_transformer(tinyi_pass_at *a)
{
    tiny_tensor q = tinyi_pass_linear(a, a->x, 0, 1), k = tinyi_pass_linear(a, a->x, 2, 3),
                v = tinyi_pass_linear(a, a->x, 4, 5), y;
    tiny_sddmm_params params;
    memset(&params, 0, sizeof params);
    params.heads = a->l->heads;
    params.scale = (float)(1.0 / tinyi_sqrt64((double)a->s->out));
    y = tinyi_pass_attend(a, &q, &k, &v, NULL, &params);
    y = tinyi_pass_heads_out(a, &y, -1);
    if (!tinyi_pass_weight(a, 7)) return y;
    q = tinyi_pass_linear(a, a->x, 7, 8);
    return tiny_tape_add(a->t, &y, &q);
}

static tiny_tensor tinyi_pass_rgcn(tinyi_pass_at *a)
{
    const tiny_idx n = a->x->dim[0], in = a->s->n_in, out = a->s->out;
    tiny_tensor all = tinyi_pass_spmm(a, a->x, NULL, TINY_EDGE_MEAN), w = a->l->w[0], y, part;
    tiny_idx r, dim[3];
    memset(&y, 0, sizeof y);
    if (a->s->bases) {
        dim[0] = a->s->bases;
        dim[1] = in * out;
        w = tiny_tape_reshape(a->t, &w, 2, dim);
        w = tiny_tape_call(a->t, TINY_OP_MATMUL, &a->l->w[3], &w, NULL, NULL, NULL);
    }
    if (tinyi_pass_weight(a, 1)) y = tiny_tape_call(a->t, TINY_OP_MATMUL, a->x, &a->l->w[1], NULL, NULL, NULL);
    for (r = 0; r < a->s->relations && all.data && w.data; r++) {
        tiny_tensor rows = tiny_tensor_2d((float *)all.data + r * n * in, TINY_F32, n, in),
                    weight = tiny_tensor_2d((float *)w.data + r * in * out, TINY_F32, in, out);
        part = tiny_tape_call(a->t, TINY_OP_MATMUL, &rows, &weight, NULL, NULL, NULL);
        y = y.data ? tiny_tape_add(a->t, &y, &part) : part;
    }
    return tinyi_pass_plus(a, &y, 2);
}

static tiny_tensor tinyi_pass_spread(tinyi_pass_at *a)
{
    const int sgc = a->l->kind == TGNN_LAYER_SGC, steps = a->l->steps > 0 ? a->l->steps : sgc ? 2 : 10;
    const double alpha = a->l->alpha == 0.0f ? 0.1 : (double)a->l->alpha;
    tiny_tensor z = sgc ? tinyi_pass_linear(a, a->x, 0, -1) : *a->x, own;
    int k;
    if (!sgc) own = tiny_tape_scale(a->t, a->x, alpha, 0.0);
    else memset(&own, 0, sizeof own);
    for (k = 0; k < steps; k++) {
        z = tinyi_pass_spmm(a, &z, &a->value, TINY_EDGE_SUM);
        if (sgc) continue;
        z = tiny_tape_scale(a->t, &z, 1.0 - alpha, 0.0);
        z = tiny_tape_add(a->t, &z, &own);
    }
    return sgc ? tinyi_pass_plus(a, &z, 1) : z;
}

static tiny_tensor tinyi_pass_readout(tinyi_pass_at *a, const tiny_tensor *h, int n)
{
    tiny_tensor part[TGNN_NET_MOST + 1],
        offset = tiny_tensor_1d((void *)(uintptr_t)a->in->graph_at, TINY_I64, a->in->n_graphs + 1);
    tiny_spmm_params q;
    int k, first = a->s->all ? 0 : n;
    memset(&q, 0, sizeof q);
    q.reduce = a->s->aggr;
    for (k = first; k <= n; k++) part[k - first] = tiny_tape_call(a->t, TINY_OP_SPMM, &offset, &h[k], NULL, NULL, &q);
    return n == first ? part[0] : tiny_tape_concat(a->t, n - first + 1, part, 1);
}

static tiny_tensor tinyi_pass_act(tinyi_pass_at *a, const tiny_tensor *y)
{
    tiny_tensor r, d;
    switch (a->s->act) {
    case TGNN_ACT_RELU: return tinyi_pass_one(a, TINY_OP_RELU, y);
    case TGNN_ACT_TANH: return tinyi_pass_one(a, TINY_OP_TANH, y);
    case TGNN_ACT_ELU:                      /* max(y, 0) + e^(y - max(y, 0)) - 1 */
        r = tinyi_pass_one(a, TINY_OP_RELU, y);
        d = tiny_tape_sub(a->t, y, &r);
        d = tinyi_pass_one(a, TINY_OP_EXP, &d);
        r = tiny_tape_add(a->t, &r, &d);
        return tiny_tape_scale(a->t, &r, 1.0, -1.0);
    default: return *y;
    }
}

static tiny_tensor tinyi_pass_layer(tinyi_pass_at *a)
{
    switch (a->l->kind) {
    case TGNN_LAYER_GCN: return tinyi_pass_gcn(a);
    case TGNN_LAYER_SAGE: return tinyi_pass_sage(a);
    case TGNN_LAYER_GAT: return tinyi_pass_gat(a);
    case TGNN_LAYER_GATV2: return tinyi_pass_gatv2(a);
    case TGNN_LAYER_GIN: case TGNN_LAYER_GINE: return tinyi_pass_gin(a);
    case TGNN_LAYER_RGCN: return tinyi_pass_rgcn(a);
    case TGNN_LAYER_TRANSFORMER: return tinyi_pass_transformer(a);
    default: return tinyi_pass_spread(a);
    }
}

tiny_tensor tinyi_pass_run(tiny_tape *t, tinyi_pass *p, const tinyi_pass_input *in)
{
    const tiny_sparse *sx = &in->sparse;
    tiny_tensor h[TGNN_NET_MOST + 1], x;
    tinyi_pass_at a;
    int i;
    memset(&a, 0, sizeof a);
    a.t = t;
    a.p = p;
    a.in = in;
    h[0] = in->x;
    for (i = 0; i < p->net->n_stages; i++) {
        a.s = &p->net->stage[i];
        a.l = &a.s->layer;
        a.x = &x;
        if (i == 0 && sx->offset) {
            const int drop = p->train && a.s->dropout > 0.0f;
            int64_t k;
            if (drop && !tiny_tape_dry(t)) {
                tinyi_pass_mask(&p->rng, in->kept, (size_t)sx->n, a.s->dropout);
                for (k = 0; k < sx->n; k++) in->kept[k] *= sx->value ? sx->value[k] : 1.0f;
            }
            a.x = NULL;
            a.s_offset = tiny_tensor_1d(sx->offset, TINY_I64, sx->n_rows + 1);
            a.s_col = tiny_tensor_1d(sx->col, TINY_I32, (tiny_idx)sx->n);
            a.s_value = tiny_tensor_1d(drop ? in->kept : sx->value, TINY_F32, (tiny_idx)sx->n);
        } else x = p->guest ? h[i] : tinyi_pass_drop(&a, &h[i], a.s->dropout);
        if (a.s->kind == TGNN_STAGE_CONV) {
            const tiny_sparse *g = tgnn_graph_in(in->graphs.of[i]);
            a.offset = tiny_tensor_1d(g->offset, TINY_I64, g->n_rows + 1);
            a.col = tiny_tensor_1d(g->col, TINY_I32, (tiny_idx)g->n);
            a.value = tiny_tensor_1d(g->value, TINY_F32, (tiny_idx)g->n);
            h[i + 1] = p->guest ? p->guest->stage(&a, i) : tinyi_pass_layer(&a);
        } else if (a.s->kind == TGNN_STAGE_LINEAR)
            h[i + 1] = p->guest ? p->guest->stage(&a, i) : tinyi_pass_linear(&a, &x, 0, 1);
        else h[i + 1] = tinyi_pass_readout(&a, h, i);
        h[i + 1] = tinyi_pass_act(&a, &h[i + 1]);
    }
    return h[p->net->n_stages];
}

tiny_status tinyi_pass_tape(tinyi_pass *p, tinyi_pass_fn fn, void *user, int no_grad, tiny_tape **out)
{
    tiny_tape_desc d;
    tiny_tape *t = NULL;
    tiny_tensor y;
    tiny_status st;
    size_t i;
    int dry;
    *out = NULL;
    memset(&d, 0, sizeof d);
    for (dry = 1; dry >= 0; dry--) {
        d.dry = dry;
        d.no_grad = no_grad;
        st = tiny_tape_open(p->ctx, &d, &t);
        for (i = 0; !st && i < p->n_params; i++) st = tiny_tape_param(t, &p->param[i]);
        if (!st && dry) {
            y = fn(t, user);
            st = tiny_tape_status(t);
            if (!st && !no_grad) {
                tiny_tape_zero(t);
                st = tiny_tape_backward(t, &y, NULL);
            }
            d.bytes = tiny_tape_high(t);
        }
        if (st || dry) {
            tiny_tape_close(t);
            t = NULL;
        }
        if (st) return st;
    }
    *out = t;
    return TINY_OK;
}
