/* src/llm/dist/mega_net.c - a transformer split three ways
 * Paper    D. Narayanan et al., 2021 (arXiv 2104.04473), with RMSNorm before each half, as most models of today have
 *          it.
 * Formula  x = x + W_o attention(norm(x)); x = x + W_2 gelu(W_1 norm(x) + b_1) + b_2; logits = head norm(x). W_q, W_k,
 *          W_v, W_1 and the head are split by outputs, W_o and W_2 by inputs. Piece s of p v has layers
 *          s l / (p v) and the following ones; the first one embeds, the last one has the head.
 * Weights  number i of a whole tensor is drawn from the Philox stream of its name, so a part needs no other part.
 * Left out the embedding is not split, and not tied to the head. */
#include "llm/dist/mega_net.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

enum {                                      /* tensors of a layer, then the others */
    TINYI_MEGA_NORM1,
    TINYI_MEGA_Q,
    TINYI_MEGA_K,
    TINYI_MEGA_V,
    TINYI_MEGA_O,
    TINYI_MEGA_NORM2,
    TINYI_MEGA_W1,
    TINYI_MEGA_B1,
    TINYI_MEGA_W2,
    TINYI_MEGA_B2,
    TINYI_MEGA_EACH,
    TINYI_MEGA_EMBD = TINYI_MEGA_EACH,
    TINYI_MEGA_PLACES,
    TINYI_MEGA_NORM,
    TINYI_MEGA_HEAD
};
enum { TINYI_MEGA_ONES, TINYI_MEGA_ZEROS, TINYI_MEGA_DRAWN };
static const char *const tinyi_mega_names[] = { "norm1", "q",  "k",    "v",      "o",    "norm2", "w1",
                                                "b1",    "w2", "b2",   "embd",   "places", "norm", "head" };

typedef struct tinyi_mega_tensor { char name[32]; tiny_idx row, col; } tinyi_mega_tensor;

struct tllm_mega {
    tiny_ctx *ctx;
    tllm_mega_desc d;
    tllm_grid grid;
    tllm_group *tensor, *data, *pipe_group, *all;
    tllm_tp *tp;
    tllm_pipe *pipe;
    int pieces, each;                       /* layers of a piece */
    tiny_idx rows;                          /* sequences of this data rank */
    tiny_param *params;
    tinyi_mega_tensor *part;
    size_t n_params;
    size_t *first;                          /* (v + 1): parameters of a chunk */
    float *weights;
    tiny_idx *width;
    int32_t *id, *label;                    /* (rows, context) */
};

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_mega_shape { tiny_idx rows, cols; int split, how; double deviation; } tinyi_mega_shape;

/* cols 0: a vector. split: 1 by rows, 2 by columns */
static tinyi_mega_shape tinyi_mega_shape_of(const tllm_mega *m, int what)
{
    const tiny_idx h = m->d.width, f = m->d.hidden;
    const double in = 1.0 / tinyi_sqrt((double)h), out = 1.0 / tinyi_sqrt(2.0 * (double)m->d.layers);
    tinyi_mega_shape s;
    s.rows = h;
    s.cols = 0;
    s.split = 0;
    s.how = TINYI_MEGA_DRAWN;
    s.deviation = in;
    switch (what) {
    case TINYI_MEGA_NORM1: case TINYI_MEGA_NORM2: case TINYI_MEGA_NORM: s.how = TINYI_MEGA_ONES; break;
    case TINYI_MEGA_Q: case TINYI_MEGA_K: case TINYI_MEGA_V: s.cols = h; s.split = 1; break;
    case TINYI_MEGA_O: s.cols = h; s.split = 2; s.deviation = in * out; break;
    case TINYI_MEGA_W1: s.rows = f; s.cols = h; s.split = 1; break;
    case TINYI_MEGA_B1: s.rows = f; s.split = 1; s.how = TINYI_MEGA_ZEROS; break;
    case TINYI_MEGA_W2: s.cols = f; s.split = 2; s.deviation = out / tinyi_sqrt((double)f); break;
    case TINYI_MEGA_B2: s.how = TINYI_MEGA_ZEROS; break;
    case TINYI_MEGA_EMBD: s.rows = m->d.vocab; s.cols = h; s.deviation = 0.1; break;
    case TINYI_MEGA_PLACES: s.rows = m->d.context; s.cols = h; s.deviation = 0.1; break;
    default: s.rows = m->d.vocab; s.cols = h; s.split = 1; break;
    }
    return s;
}

/* the part of this rank: its shape, and where it begins */
static tinyi_mega_shape tinyi_mega_part(const tllm_mega *m, int what, tiny_idx *row, tiny_idx *col)
{
    tinyi_mega_shape s = tinyi_mega_shape_of(m, what);
    *row = *col = 0;
    if (s.split == 1) {
        s.rows /= m->d.t;
        *row = s.rows * m->grid.at[TLLM_AXIS_TENSOR];
    }
    if (s.split == 2) {
        s.cols /= m->d.t;
        *col = s.cols * m->grid.at[TLLM_AXIS_TENSOR];
    }
    return s;
}

/* the tensors of a piece, one after the other: fn(m, what, layer) */
typedef void (*tinyi_mega_fn)(tllm_mega *m, int what, int layer, size_t *floats);
static void tinyi_mega_walk(tllm_mega *m, int piece, tinyi_mega_fn fn, size_t *floats)
{
    int l, what;
    if (piece == 0) {
        fn(m, TINYI_MEGA_EMBD, 0, floats);
        fn(m, TINYI_MEGA_PLACES, 0, floats);
    }
    for (l = piece * m->each; l < (piece + 1) * m->each; l++)
        for (what = 0; what < TINYI_MEGA_EACH; what++) fn(m, what, l, floats);
    if (piece < m->pieces - 1) return;
    fn(m, TINYI_MEGA_NORM, 0, floats);
    fn(m, TINYI_MEGA_HEAD, 0, floats);
}

static void tinyi_mega_count_one(tllm_mega *m, int what, int layer, size_t *floats)
{
    tiny_idx row, col;
    const tinyi_mega_shape s = tinyi_mega_part(m, what, &row, &col);
    (void)layer;
    *floats += 2 * (size_t)s.rows * (size_t)TINYI_MAX(s.cols, 1);
    m->n_params++;
}

static void tinyi_mega_make_one(tllm_mega *m, int what, int layer, size_t *floats)
{
    tinyi_mega_tensor *part = &m->part[m->n_params];
    tiny_param *p = &m->params[m->n_params++];
    const tinyi_mega_shape s = tinyi_mega_part(m, what, &part->row, &part->col), whole = tinyi_mega_shape_of(m, what);
    const size_t n = (size_t)s.rows * (size_t)TINYI_MAX(s.cols, 1);
    float *value = m->weights + *floats;
    tiny_rng rng = tiny_rng_make(m->d.seed, (uint64_t)(unsigned)layer * 16 + (uint64_t)(unsigned)what);
    tiny_idx r, c;
    *floats += 2 * n;
    memset(p, 0, sizeof *p);
    if (what < TINYI_MEGA_EACH)
        (void)snprintf(part->name, sizeof part->name, "%d.%s", layer, tinyi_mega_names[what]);
    else (void)snprintf(part->name, sizeof part->name, "%s", tinyi_mega_names[what]);
    p->name = part->name;
    p->value = s.cols ? tiny_tensor_2d(value, TINY_F32, s.rows, s.cols) : tiny_tensor_1d(value, TINY_F32, s.rows);
    p->grad = p->value;
    p->grad.data = value + n;
    memset(value, 0, 2 * n * sizeof *value);
    for (r = 0; r < s.rows && s.how != TINYI_MEGA_ZEROS; r++)
        for (c = 0; c < TINYI_MAX(s.cols, 1); c++) {
            /* a normal number takes two draws */
            rng.at = 2 * ((uint64_t)(part->row + r) * (uint64_t)TINYI_MAX(whole.cols, 1) + (uint64_t)(part->col + c));
            value[r * TINYI_MAX(s.cols, 1) + c] =
                s.how == TINYI_MEGA_ONES ? 1.0f : (float)(s.deviation * (double)tiny_rng_normal(&rng));
        }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tiny_tensor tinyi_mega_norm(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *g)
{
    return tiny_tape_call(tape, TINY_OP_RMSNORM, x, g, NULL, NULL, NULL);
}

/* each sequence by itself: q, k, v (rows context, n) of this rank's heads */
static tiny_tensor tinyi_mega_attend(tiny_tape *tape, const tllm_mega *m, const tiny_tensor *q, const tiny_tensor *k,
                                     const tiny_tensor *v)
{
    const tiny_idx heads = m->d.heads / m->d.t, d_head = m->d.width / m->d.heads, s = m->d.context;
    const tiny_tensor *from[3];
    tiny_attention_params params;
    tiny_tensor y, none;
    tiny_idx i;
    int j;
    memset(&params, 0, sizeof params);
    memset(&none, 0, sizeof none);
    params.causal = 1;
    from[0] = q;
    from[1] = k;
    from[2] = v;
    if (tiny_tape_status(tape)) return none;
    y = tiny_tape_new(tape, TINY_F32, 2, q->dim);
    for (i = 0; y.data && i < q->dim[0] / s; i++) {
        tiny_tensor in[3], part = tiny_tensor_3d((float *)y.data + i * s * q->dim[1], TINY_F32, s, heads, d_head),
                           out[TINY_OP_MAX_OUT];
        tiny_op op;
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_ATTENTION;
        for (j = 0; j < 3; j++) {
            in[j] = tiny_tensor_3d((float *)from[j]->data + i * s * q->dim[1], TINY_F32, s, heads, d_head);
            op.in[j] = &in[j];
        }
        op.out[0] = &part;
        op.params = &params;
        if (tiny_tape_op(tape, &op, out)) return none;
    }
    return y;
}

static tiny_tensor tinyi_mega_layer(tiny_tape *tape, tllm_mega *m, const tllm_pipe_at *at, int layer, tiny_tensor x,
                                    const tiny_param *w)
{
    tiny_tensor h, q, k, v, y;
    h = tinyi_mega_norm(tape, &x, &w[TINYI_MEGA_NORM1].value);
    h = tllm_tp_enter(tape, m->tp, &h);
    q = tiny_tape_linear(tape, &h, &w[TINYI_MEGA_Q].value, NULL, TINY_ACT_NONE);
    k = tiny_tape_linear(tape, &h, &w[TINYI_MEGA_K].value, NULL, TINY_ACT_NONE);
    v = tiny_tape_linear(tape, &h, &w[TINYI_MEGA_V].value, NULL, TINY_ACT_NONE);
    y = tinyi_mega_attend(tape, m, &q, &k, &v);
    y = tllm_tp_row(tape, m->tp, &y, &w[TINYI_MEGA_O].value, NULL);
    y = tllm_pipe_dropout(tape, at, &y, 2 * layer, m->d.drop);
    x = tiny_tape_add(tape, &x, &y);
    h = tinyi_mega_norm(tape, &x, &w[TINYI_MEGA_NORM2].value);
    h = tllm_tp_column(tape, m->tp, &h, &w[TINYI_MEGA_W1].value, &w[TINYI_MEGA_B1].value, TINY_ACT_GELU);
    y = tllm_tp_row(tape, m->tp, &h, &w[TINYI_MEGA_W2].value, &w[TINYI_MEGA_B2].value);
    y = tllm_pipe_dropout(tape, at, &y, 2 * layer + 1, m->d.drop);
    return tiny_tape_add(tape, &x, &y);
}

static tiny_tensor tinyi_mega_piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *in)
{
    tllm_mega *m = (tllm_mega *)user;
    tllm_pipe_at drops = *at;               /* rows of the whole batch: dropout is the same for any split */
    const tiny_param *w = m->params + m->first[at->piece / m->d.p];
    const tiny_idx s = m->d.context, h = m->d.width, n = at->rows * s;
    tiny_tensor x, label;
    tiny_idx dim[2];
    int l;
    drops.row += m->rows * m->grid.at[TLLM_AXIS_DATA];
    dim[0] = n;
    dim[1] = m->d.scatter ? h / m->d.t : h;
    if (at->piece == 0) {
        const tiny_tensor id = tiny_tensor_1d(m->id + at->row * s, TINY_I32, n);
        tiny_idx cube[3];
        cube[0] = at->rows;
        cube[1] = s;
        cube[2] = h;
        x = tiny_tape_call(tape, TINY_OP_GATHER, &w[0].value, &id, NULL, NULL, NULL);
        x = tiny_tape_reshape(tape, &x, 3, cube);
        x = tiny_tape_add(tape, &x, &w[1].value);
        dim[1] = h;
        x = tiny_tape_reshape(tape, &x, 2, dim);
        w += 2;
    } else {
        x = tiny_tape_reshape(tape, in, 2, dim);
        if (m->d.scatter) x = tllm_tp_gather(tape, m->tp, &x);
    }
    for (l = 0; l < m->each; l++)
        x = tinyi_mega_layer(tape, m, &drops, at->piece * m->each + l, x, w + l * TINYI_MEGA_EACH);
    w += m->each * TINYI_MEGA_EACH;
    if (at->piece < m->pieces - 1) return m->d.scatter ? tllm_tp_scatter(tape, m->tp, &x) : x;
    x = tinyi_mega_norm(tape, &x, &w[0].value);
    x = tllm_tp_column(tape, m->tp, &x, &w[1].value, NULL, TINY_ACT_NONE);
    label = tiny_tensor_1d(m->label + at->row * s, TINY_I32, n);
    return tllm_tp_cross_entropy(tape, m->tp, &x, &label);
}

/* ---- open, step, close ------------------------------------------------------------------------------------------- */

static tiny_status tinyi_mega_check(tiny_ctx *ctx, tllm_mega_desc *d)
{
    const int world = d->net ? d->net->world : 1;
    const double most = (double)TINY_IDX_MAX / 16.0, h = (double)d->width;
    if (!d->t) d->t = 1;
    if (!d->d) d->d = 1;
    if (!d->p) d->p = 1;
    if (!d->v) d->v = 1;
    if (!d->micros) d->micros = 1;
    if (!d->hidden && d->width <= 65536) d->hidden = 4 * d->width;
    if (d->t < 1 || d->d < 1 || d->p < 1 || d->v < 1 || d->p > TINY_NET_RANKS || d->v > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: t %d, d %d, p %d, v %d must be at least 1", d->t, d->d, d->p,
                          d->v);
    if (d->layers < 1 || d->heads < 1 || d->width < 1 || d->hidden < 1 || d->vocab < 1 || d->context < 1 ||
        d->batch < 1 || d->layers > 65536 || d->width > 65536 || d->hidden > 262144 || d->vocab > 1048576 ||
        d->context > 65536 || d->batch > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "megatron: layers, heads, width, hidden, vocabulary, context and batch must be at least 1, "
                          "and the model not too large");
    if (d->micros < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: %d micro-batches", d->micros);
    if ((h * ((double)d->vocab + (double)d->context) + d->layers * h * (4.0 * h + 2.0 * (double)d->hidden) > most) ||
        d->batch * ((double)d->context + 1.0) * h > most)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "megatron: model or batch are more than this machine can address");
    if ((double)d->t * d->d * d->p != (double)world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: %d x %d x %d ranks in a world of %d", d->t, d->d, d->p,
                          world);
    if (d->heads % d->t)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: %d heads on %d tensor ranks", d->heads, d->t);
    if (d->width % d->heads)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: a width of %td for %d heads", d->width, d->heads);
    if (d->hidden % d->t || d->vocab % d->t)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "megatron: %td hidden numbers, %td tokens of the vocabulary on %d ranks",
                          d->hidden, d->vocab, d->t);
    if (d->layers % (d->p * d->v))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: %d layers in %d pieces", d->layers, d->p * d->v);
    if (d->batch % d->d)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: %d sequences on %d data ranks", d->batch, d->d);
    if (!(d->drop >= 0.0 && d->drop < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: dropout %g must be 0 or more and below 1", d->drop);
    return TINY_OK;
}

static tiny_status tinyi_mega_groups(tllm_mega *m)
{
    int size[3];
    tiny_status st;
    tiny_net *net = m->d.net;
    size[TLLM_AXIS_TENSOR] = m->d.t;
    size[TLLM_AXIS_DATA] = m->d.d;
    size[TLLM_AXIS_PIPE] = m->d.p;
    st = tllm_grid_make(m->ctx, size, 3, net ? net->rank : 0, net ? net->world : 1, &m->grid);
    if (st || !net) return st;
    st = tllm_group_open(m->ctx, net, &m->grid, 1u << TLLM_AXIS_TENSOR, &m->tensor);
    if (!st) st = tllm_group_open(m->ctx, net, &m->grid, 1u << TLLM_AXIS_DATA, &m->data);
    if (!st) st = tllm_group_open(m->ctx, net, &m->grid, 1u << TLLM_AXIS_PIPE, &m->pipe_group);
    if (!st) st = tllm_group_open(m->ctx, net, &m->grid, 7, &m->all);
    return st;
}

static tiny_status tinyi_mega_weights(tllm_mega *m)
{
    size_t floats = 0;
    int c;
    for (c = 0; c < m->d.v; c++)
        tinyi_mega_walk(m, c * m->d.p + m->grid.at[TLLM_AXIS_PIPE], tinyi_mega_count_one, &floats);
    m->params = (tiny_param *)tinyi_alloc(m->ctx, m->n_params, sizeof *m->params);
    m->part = (tinyi_mega_tensor *)tinyi_alloc(m->ctx, m->n_params, sizeof *m->part);
    m->first = (size_t *)tinyi_alloc(m->ctx, (size_t)m->d.v + 1, sizeof *m->first);
    m->weights = (float *)tinyi_alloc(m->ctx, floats, sizeof(float));
    if (!m->params || !m->part || !m->first || !m->weights) return tiny_ctx_status(m->ctx);
    m->n_params = 0;
    floats = 0;
    for (c = 0; c < m->d.v; c++) {
        m->first[c] = m->n_params;
        tinyi_mega_walk(m, c * m->d.p + m->grid.at[TLLM_AXIS_PIPE], tinyi_mega_make_one, &floats);
    }
    return TINY_OK;
}

static tiny_status tinyi_mega_setup(tllm_mega *m)
{
    const size_t n = (size_t)m->rows * (size_t)m->d.context;
    const size_t each = (size_t)((m->rows + m->d.micros - 1) / m->d.micros) * (size_t)m->d.context;
    tllm_tp_desc td;
    tllm_pipe_desc pd;
    tiny_status st = tinyi_mega_groups(m);
    int i;
    if (!st) st = tinyi_mega_weights(m);
    if (st) return st;
    m->id = (int32_t *)tinyi_alloc(m->ctx, n, sizeof *m->id);
    m->label = (int32_t *)tinyi_alloc(m->ctx, n, sizeof *m->label);
    m->width = (tiny_idx *)tinyi_alloc(m->ctx, (size_t)m->pieces, sizeof *m->width);
    if (!m->id || !m->label || !m->width) return tiny_ctx_status(m->ctx);
    memset(m->id, 0, n * sizeof *m->id);
    memset(m->label, 0, n * sizeof *m->label);
    for (i = 0; i < m->pieces; i++) m->width[i] = m->d.context * (m->d.scatter ? m->d.width / m->d.t : m->d.width);
    memset(&td, 0, sizeof td);
    td.net = tllm_group_net(m->tensor);
    td.n_most = each * (size_t)TINYI_MAX(m->d.width, 2);
    td.timeout_ns = m->d.timeout_ns;
    if (m->d.t > 1) st = tllm_tp_open(m->ctx, &td, &m->tp);
    if (st) return st;
    memset(&pd, 0, sizeof pd);
    pd.net = m->d.p > 1 ? tllm_group_net(m->pipe_group) : NULL;
    pd.schedule.kind = m->d.kind;
    pd.schedule.micros = m->d.micros;
    pd.schedule.chunks = m->d.v;
    pd.keep = m->d.keep;
    pd.rows = m->rows;
    pd.rows_in_all = m->d.batch;
    pd.width = m->width;
    pd.params = m->params;
    pd.n_params = m->n_params;
    pd.run = tinyi_mega_piece;
    pd.user = m;
    pd.seed = m->d.seed;
    pd.timeout_ns = m->d.timeout_ns;
    pd.at = m->d.at;
    return tllm_pipe_open(m->ctx, &pd, &m->pipe);
}

TINY_API tiny_status tllm_mega_open(tiny_ctx *ctx, const tllm_mega_desc *desc, tllm_mega **out)
{
    tllm_mega_desc d;
    tllm_mega *m;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "megatron: a description and an output are needed");
    d = *desc;
    st = tinyi_mega_check(ctx, &d);
    if (st) return st;
    m = (tllm_mega *)tinyi_alloc(ctx, 1, sizeof *m);
    if (!m) return tiny_ctx_status(ctx);
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->d = d;
    m->pieces = d.p * d.v;
    m->each = d.layers / m->pieces;
    m->rows = d.batch / d.d;
    st = tinyi_mega_setup(m);
    if (st) {
        tllm_mega_close(m);
        return st;
    }
    *out = m;
    return TINY_OK;
}

TINY_API void tllm_mega_close(tllm_mega *m)
{
    if (!m) return;
    tllm_pipe_close(m->pipe);
    tllm_tp_close(m->tp);
    tllm_group_close(m->ctx, m->tensor);
    tllm_group_close(m->ctx, m->data);
    tllm_group_close(m->ctx, m->pipe_group);
    tllm_group_close(m->ctx, m->all);
    tiny_free(m->ctx, m->params);
    tiny_free(m->ctx, m->part);
    tiny_free(m->ctx, m->first);
    tiny_free(m->ctx, m->weights);
    tiny_free(m->ctx, m->width);
    tiny_free(m->ctx, m->id);
    tiny_free(m->ctx, m->label);
    tiny_free(m->ctx, m);
}

TINY_API const tiny_param *tllm_mega_params(const tllm_mega *m, size_t *n)
{
    if (n) *n = m ? m->n_params : 0;
    return m ? m->params : NULL;
}

TINY_API void tllm_mega_place(const tllm_mega *m, size_t i, tiny_idx *row, tiny_idx *col)
{
    if (row) *row = m && i < m->n_params ? m->part[i].row : 0;
    if (col) *col = m && i < m->n_params ? m->part[i].col : 0;
}

TINY_API const tllm_grid *tllm_mega_grid(const tllm_mega *m) { return m ? &m->grid : NULL; }

TINY_API tiny_status tllm_mega_step(tllm_mega *m, const int32_t *tokens, int64_t step, tllm_pipe_result *result)
{
    tllm_pipe_result r;
    tiny_param loss;
    tiny_status st;
    tiny_idx i, j, s;
    float value[2];
    if (!m) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(m->ctx);
    if (st) return st;
    if (!tokens) return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "megatron: tokens are NULL");
    s = m->d.context;
    for (i = 0; i < m->d.batch * (s + 1); i++)
        if (tokens[i] < 0 || tokens[i] >= m->d.vocab)
            return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "megatron: token %td is %ld, the vocabulary has %td", i,
                              (long)tokens[i], m->d.vocab);
    for (i = 0; i < m->rows; i++)
        for (j = 0; j < s; j++) {
            const int32_t *at = tokens + (i + m->rows * m->grid.at[TLLM_AXIS_DATA]) * (s + 1) + j;
            m->id[i * s + j] = at[0];
            m->label[i * s + j] = at[1];
        }
    st = tllm_pipe_run(m->pipe, step, &r);
    if (!st) st = tinyi_tpar_sum_list(m->ctx, tllm_group_net(m->data), m->params, m->n_params, m->d.timeout_ns);
    if (st) return tinyi_net_end(m->ctx, m->d.net, st);     /* others may wait for this rank in another group */
    /* the loss of each data rank is known to its last stage, on every tensor rank alike */
    value[0] = m->grid.at[TLLM_AXIS_TENSOR] ? 0.0f : (float)(r.loss / m->d.d);
    memset(&loss, 0, sizeof loss);
    loss.grad = tiny_tensor_1d(value, TINY_F32, 1);
    st = tinyi_tpar_sum_list(m->ctx, tllm_group_net(m->all), &loss, 1, m->d.timeout_ns);
    r.loss = (double)value[0];
    if (result && !st) *result = r;
    return st;
}
