/* examples/tetris.c - learns eight shapes of four blocks, two of them mirror images, however they are turned
 *
 *     tetris                    trains with Clebsch-Gordan products, then with Gaunt's; prints what each one learns
 *     tetris --seed 2 --steps 500
 *
 * The network of "The Price of Freedom" (Y. Xie et al., 2025), section 6: three layers; in each, the features of the
 * neighbours times the harmonics of the edge, the mean over the edges, a linear layer, a gate, and a linear layer of
 * the old features and the new ones. Its last layer gives a number o that changes its sign in a mirror, and seven that
 * do not, e: the logits are o e1, -o e1, e2 ... e7. The first two classes are the mirror images.
 *
 * Gaunt's product has no cross product: from positions it never makes a number that a mirror changes. Then o is 0, both
 * images get the same logits, and no training helps. All edges have length 1, so the network of the length that scales
 * the products is a row of weights here. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "tetris"
#include "options.h"
#include <math.h>

enum { SHAPES = 8, BLOCKS = 4, NODES = SHAPES * BLOCKS, EDGES = SHAPES * BLOCKS * (BLOCKS - 1), COPIES = 8, LAYERS = 3,
       HARMONICS = 9, OUT = 8, IRREPS = 8, MOST_PARAMS = 8 * LAYERS };

static const char usage[] = "tetris [options]   learns eight shapes of four blocks, with two kinds of products\n"
                            "  --seed N      weights and rotations; default: 0\n"
                            "  --steps N     of training; default: 1000\n"
                            "  --quiet       print the results only\n"
                            "  --threads N   default: one per processor\n";

static const int shapes[SHAPES][BLOCKS][3] = {
    { { 0, 0, 0 }, { 0, 0, 1 }, { 1, 0, 0 }, { 1, 1, 0 } },     /* two mirror images */
    { { 0, 0, 0 }, { 0, 0, 1 }, { 1, 0, 0 }, { 1, -1, 0 } },
    { { 0, 0, 0 }, { 1, 0, 0 }, { 0, 1, 0 }, { 1, 1, 0 } },     /* square */
    { { 0, 0, 0 }, { 0, 0, 1 }, { 0, 0, 2 }, { 0, 0, 3 } },     /* line */
    { { 0, 0, 0 }, { 0, 0, 1 }, { 0, 1, 0 }, { 1, 0, 0 } },     /* corner */
    { { 0, 0, 0 }, { 0, 0, 1 }, { 0, 0, 2 }, { 0, 1, 0 } },     /* L */
    { { 0, 0, 0 }, { 0, 0, 1 }, { 0, 0, 2 }, { 0, 1, 1 } },     /* T */
    { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 1, 0 }, { 2, 1, 0 } }      /* zigzag */
};

typedef struct layer {
    tgnn_irrep in[IRREPS], message[3 * IRREPS * 4], hidden[IRREPS], gated[IRREPS], both[2 * IRREPS];
    int n_in, n_message, n_hidden, n_gated, n_both;
    tgnn_product *product;                  /* paths with parity, or Gaunt's */
    tgnn_irreps_linear_desc mix, join;
    tgnn_gate_desc gate;
    tiny_param *scale, *mix_w, *join_w;     /* of each path and copy; of the linear layers */
} layer;

typedef struct net {
    tiny_ctx *ctx;
    int gaunt;
    layer l[LAYERS];
    tgnn_irreps_linear_desc last;
    tgnn_irrep out[2];
    tiny_param *last_w, params[MOST_PARAMS];
    size_t n_params;
    float memory[MOST_PARAMS][2][40000];
    tiny_rng rng;
    float positions[NODES][3];
    float vectors[EDGES][3], harmonics[EDGES][HARMONICS];
    int64_t offset[NODES + 1];
    int32_t col[EDGES];
    int n_edges;
} net;

static tiny_param *new_param(net *n, tiny_idx size, double deviation)
{
    tiny_param *p = &n->params[n->n_params];
    tiny_idx i;
    p->name = "w";
    p->value = tiny_tensor_1d(n->memory[n->n_params][0], TINY_F32, size);
    p->grad = tiny_tensor_1d(n->memory[n->n_params][1], TINY_F32, size);
    tiny_rng_fill_normal(&n->rng, n->memory[n->n_params][0], (size_t)size);
    for (i = 0; i < size; i++) n->memory[n->n_params][0][i] *= (float)deviation;
    n->n_params++;
    return p;
}

/* the graph: neighbours are blocks at a distance of at most 1.1 */
static void connect(net *n)
{
    int a, b, k;
    n->n_edges = 0;
    for (a = 0; a < NODES; a++) {
        n->offset[a] = n->n_edges;
        for (b = a / BLOCKS * BLOCKS; b < a / BLOCKS * BLOCKS + BLOCKS; b++) {
            double square = 0;
            for (k = 0; k < 3; k++) {
                const double d = shapes[a / BLOCKS][b % BLOCKS][k] - shapes[a / BLOCKS][a % BLOCKS][k];
                square += d * d;
            }
            if (a != b && square <= 1.1 * 1.1) n->col[n->n_edges++] = b;
        }
    }
    n->offset[NODES] = n->n_edges;
}

/* every shape by a rotation of its own; the harmonics of its edges, divided by the neighbours of their node: the sum
 * over edges is then the mean */
static tiny_status turn(net *n, uint64_t seed, uint64_t step)
{
    const tiny_tensor v = tiny_tensor_2d(n->vectors, TINY_F32, n->n_edges, 3),
                      y = tiny_tensor_2d(n->harmonics, TINY_F32, n->n_edges, HARMONICS);
    tgnn_sph_harm_params p = { 0 };
    double r[9];
    int a, i, k, e;
    tiny_status st = TINY_OK;
    for (a = 0; a < NODES && !st; a++) {
        if (a % BLOCKS == 0) st = tgnn_rotation_random(n->ctx, seed, step * SHAPES + (uint64_t)(a / BLOCKS), r);
        for (i = 0; i < 3; i++) {
            double sum = 0;
            for (k = 0; k < 3; k++) sum += r[3 * i + k] * shapes[a / BLOCKS][a % BLOCKS][k];
            n->positions[a][i] = (float)sum;
        }
    }
    for (a = 0; a < NODES; a++)
        for (e = (int)n->offset[a]; e < n->offset[a + 1]; e++)
            for (i = 0; i < 3; i++) n->vectors[e][i] = n->positions[n->col[e]][i] - n->positions[a][i];
    p.l_max = 2;
    if (!st) st = tgnn_sph_harm(n->ctx, &v, &p, &y);
    for (a = 0; a < NODES; a++)
        for (e = (int)n->offset[a]; e < n->offset[a + 1]; e++)
            for (i = 0; i < HARMONICS; i++) n->harmonics[e][i] /= (float)(n->offset[a + 1] - n->offset[a]);
    return st;
}

/* the plan of a layer and the irreps of its products: for Clebsch-Gordan every path up to degree 2, with parity */
static tiny_status plan(net *n, layer *l)
{
    static const tgnn_irrep harmonics[3] = { { 1, 0, 1 }, { 1, 1, -1 }, { 1, 2, 1 } };
    tgnn_path path[3 * IRREPS * 4];
    tgnn_paths_desc d;
    int i, j, k;
    if (n->gaunt) {
        tgnn_product_desc g;
        memset(&g, 0, sizeof g);
        g.kind = TGNN_PRODUCT_GAUNT;
        g.l1 = l->n_in - 1;
        g.l2 = g.l3 = 2;
        l->n_message = 3;
        for (i = 0; i < 3; i++) {
            l->message[i] = harmonics[i];
            l->message[i].mul = l->in[0].mul;
        }
        l->scale = new_param(n, 3 * l->in[0].mul, 1);
        return tgnn_product_open(n->ctx, &g, &l->product);
    }
    memset(&d, 0, sizeof d);
    memset(path, 0, sizeof path);
    for (i = 0; i < l->n_in; i++)
        for (j = 0; j < 3; j++)
            for (k = abs(l->in[i].l - j); k <= l->in[i].l + j && k <= 2; k++) {
                path[l->n_message].in1 = i;
                path[l->n_message].in2 = j;
                path[l->n_message].out = l->n_message;
                path[l->n_message].mode = TGNN_PATH_UVU;
                l->message[l->n_message].mul = l->in[i].mul;
                l->message[l->n_message].l = k;
                l->message[l->n_message++].parity = l->in[i].parity * harmonics[j].parity;
            }
    d.in1 = l->in;
    d.n_in1 = l->n_in;
    d.in2 = harmonics;
    d.n_in2 = 3;
    d.out = l->message;
    d.n_out = d.n_path = l->n_message;
    d.path = path;
    d.last = 1;
    if (tgnn_paths_open(n->ctx, &d, &l->product)) return tiny_ctx_status(n->ctx);
    l->scale = new_param(n, tgnn_product_dim(l->product, TGNN_PRODUCT_W), 1);
    return TINY_OK;
}

static tiny_status build(net *n, uint64_t seed)
{
    int i, k, at;
    tiny_status st = TINY_OK;
    n->rng = tiny_rng_make(seed, 0);
    n->n_params = 0;
    connect(n);
    for (k = 0; k < LAYERS && !st; k++) {
        layer *l = &n->l[k];
        memset(l, 0, sizeof *l);
        if (k == 0) {
            l->n_in = 1;                    /* a block has no features but a one */
            l->in[0].mul = l->in[0].parity = 1;
        } else {
            const tgnn_irreps_linear_desc *before = &n->l[k - 1].join;
            l->n_in = before->n_out;
            memcpy(l->in, before->out, (size_t)before->n_out * sizeof *l->in);
        }
        st = plan(n, l);
        /* hidden: 8 copies of degrees 0, 1, 2 in both parities; Gaunt's product leaves one half of them empty, and it
         * is left out there */
        for (i = 0; i < (n->gaunt ? 3 : 6); i++) {
            tgnn_irrep *to = &l->both[IRREPS + i];
            to->mul = COPIES;
            to->l = n->gaunt ? i : i / 2;
            to->parity = i & 1 ? -1 : 1;
        }
        l->n_both = n->gaunt ? 3 : 6;       /* the irreps after the gate stand from both + IRREPS on */
        l->gate.n_even = COPIES;
        l->gate.n_odd = n->gaunt ? 0 : COPIES;
        at = n->gaunt ? 1 : 2;
        for (i = at; i < l->n_both; i++) l->gated[l->n_gated++] = l->both[IRREPS + i];
        l->gate.gated = l->gated;
        l->gate.n_gated = l->n_gated;
        l->gate.last = 1;
        for (i = 0; i < at; i++) l->hidden[l->n_hidden++] = l->both[IRREPS + i];
        l->hidden[l->n_hidden].mul = COPIES * l->n_gated;
        l->hidden[l->n_hidden].l = 0;
        l->hidden[l->n_hidden++].parity = 1;
        for (i = 0; i < l->n_gated; i++) l->hidden[l->n_hidden++] = l->gated[i];
        l->mix.in = l->message;
        l->mix.n_in = l->n_message;
        l->mix.out = l->hidden;
        l->mix.n_out = l->n_hidden;
        l->mix.last = l->join.last = 1;
        l->mix_w = new_param(n, tgnn_irreps_linear_weights(&l->mix), 1);
        for (i = 0; i < l->n_both; i++) l->both[l->n_in + i] = l->both[IRREPS + i];
        memcpy(l->both, l->in, (size_t)l->n_in * sizeof *l->in);
        l->join.in = l->both;
        l->join.n_in = l->n_in + l->n_both;
        l->join.out = l->both + l->n_in;
        l->join.n_out = l->n_both;
        l->join_w = new_param(n, tgnn_irreps_linear_weights(&l->join), 1);
    }
    n->last.in = n->l[LAYERS - 1].join.out;
    n->last.n_in = n->l[LAYERS - 1].join.n_out;
    n->out[0].mul = 1;
    n->out[0].l = n->out[1].l = 0;
    n->out[0].parity = -1;
    n->out[1].mul = OUT - 1;
    n->out[1].parity = 1;
    n->last.out = n->out;
    n->last.n_out = 2;
    n->last.last = 1;
    n->last_w = new_param(n, tgnn_irreps_linear_weights(&n->last), 1);
    return st;
}

/* numbers first .. first + n - 1 of each row */
static tiny_tensor columns(tiny_tensor t, tiny_idx first, tiny_idx n)
{
    t.data = (float *)t.data + first * t.stride[1];
    t.dim[1] = n;
    return t;
}

static tiny_tensor copies_last(tiny_tensor t, tiny_idx numbers, tiny_idx copies)
{
    t.rank = 3;
    t.dim[1] = numbers;
    t.dim[2] = copies;
    t.stride[2] = t.stride[1];
    t.stride[1] = copies * t.stride[2];
    return t;
}

/* what the neighbours of each node send: (nodes, numbers of message) */
static tiny_tensor messages(tiny_tape *tape, net *n, layer *l, const tiny_tensor *x)
{
    tiny_tensor offset = tiny_tensor_1d(n->offset, TINY_I64, NODES + 1),
                col = tiny_tensor_1d(n->col, TINY_I32, n->n_edges),
                y = tiny_tensor_2d(n->harmonics, TINY_F32, n->n_edges, HARMONICS), w = l->scale->value;
    tiny_tensor edge, out, scaled;
    tiny_op op;
    tiny_spmm_params sum;
    tiny_idx dim[3];
    const tiny_idx c = l->in[0].mul, d = x->dim[1] / c;
    int i;
    if (!n->gaunt) {
        w.rank = 2;
        w.dim[1] = w.dim[0];
        w.stride[1] = 1;
        w.dim[0] = 1;
        w.stride[0] = w.dim[1];
        return tgnn_tape_paths_conv(tape, l->product, &offset, x, &col, &y, &w);
    }
    edge = copies_last(tiny_tape_call(tape, TINY_OP_GATHER, x, &col, NULL, NULL, NULL), d, c);
    edge = tiny_tensor_swap(edge, 1, 2);
    y = tiny_tensor_3d(n->harmonics, TINY_F32, n->n_edges, c, HARMONICS);
    y.stride[0] = HARMONICS;
    y.stride[1] = 0;
    out = tgnn_tape_product(tape, l->product, &edge, &y, NULL);        /* (edges, copies, 9) */
    dim[0] = n->n_edges;
    dim[1] = HARMONICS;
    dim[2] = c;
    scaled = tiny_tape_new(tape, TINY_F32, 3, dim);
    for (i = 0; i < 3 && !tiny_tape_status(tape); i++) {
        tiny_tensor a = out, b = scaled, s = w, got[TINY_OP_MAX_OUT];
        a.data = (float *)a.data + i * i * a.stride[2];
        a.dim[2] = 2 * i + 1;
        a = tiny_tensor_swap(a, 1, 2);
        b.data = (float *)b.data + i * i * b.stride[1];
        b.dim[1] = 2 * i + 1;
        s.data = (float *)s.data + i * c;
        s.dim[0] = c;
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_MUL;
        op.in[0] = &a;
        op.in[1] = &s;
        op.out[0] = &b;
        (void)tiny_tape_op(tape, &op, got);
    }
    dim[1] = HARMONICS * c;
    scaled = tiny_tape_reshape(tape, &scaled, 2, dim);
    memset(&op, 0, sizeof op);
    memset(&sum, 0, sizeof sum);
    op.kind = TINY_OP_SPMM;
    op.in[0] = &offset;
    op.in[1] = &scaled;
    op.params = &sum;
    memset(&out, 0, sizeof out);
    (void)tiny_tape_op(tape, &op, &out);
    return out;
}

/* (shapes, 8) logits */
static tiny_tensor forward(tiny_tape *tape, net *n)
{
    static float ones[NODES];
    tiny_tensor x = tiny_tensor_2d(ones, TINY_F32, NODES, 1), pair[2], parts[3], o, e, y, by;
    tiny_idx dim[3];
    int k;
    for (k = 0; k < NODES; k++) ones[k] = 1;
    for (k = 0; k < LAYERS; k++) {
        layer *l = &n->l[k];
        tiny_tensor h = messages(tape, n, l, &x);
        h = tgnn_tape_irreps_linear(tape, &l->mix, &h, &l->mix_w->value, NULL);
        h = tgnn_tape_gate(tape, &l->gate, &h);
        if (tiny_tape_status(tape)) return h;
        pair[0] = x;
        pair[1] = h;
        x = tiny_tape_concat(tape, 2, pair, 1);
        x = tgnn_tape_irreps_linear(tape, &l->join, &x, &l->join_w->value, NULL);
    }
    y = tgnn_tape_irreps_linear(tape, &n->last, &x, &n->last_w->value, NULL);
    if (tiny_tape_status(tape)) return y;
    dim[0] = SHAPES;                        /* the sum over the blocks of a shape */
    dim[1] = BLOCKS;
    dim[2] = OUT;
    y = tiny_tape_reshape(tape, &y, 3, dim);
    {
        tiny_reduce_params along;
        memset(&along, 0, sizeof along);
        along.axis = 1;
        y = tiny_tape_call(tape, TINY_OP_SUM, &y, NULL, NULL, NULL, &along);
    }
    if (tiny_tape_status(tape)) return y;
    o = columns(y, 0, 1);
    e = columns(y, 1, 1);
    by = tiny_tape_mul(tape, &o, &e);
    parts[0] = by;
    parts[1] = tiny_tape_scale(tape, &by, -1, 0);
    parts[2] = columns(y, 2, OUT - 2);
    return tiny_tape_status(tape) ? by : tiny_tape_concat(tape, 3, parts, 1);
}

/* how many shapes are right, each turned anew; *apart: the largest difference of the logits of the mirror images, each
 * by the other's, 0 where they cannot be told apart */
static tiny_status judge(net *n, tiny_tape *tape, uint64_t seed, int *right, double *apart)
{
    const tiny_tape_mark mark = tiny_tape_now(tape);
    tiny_tensor y;
    int s, k;
    tiny_status st = turn(n, seed + 1000, 0);
    if (st) return st;
    y = forward(tape, n);
    st = tiny_tape_status(tape);
    for (s = 0, *right = 0, *apart = 0; !st && s < SHAPES; s++) {
        const float *row = (const float *)y.data + s * OUT;
        int best = 0, ties = 0;
        for (k = 1; k < OUT; k++)
            if (row[k] > row[best]) best = k;
        for (k = 0; k < OUT; k++) ties += k != best && row[k] >= row[best];
        *right += best == s && !ties;
    }
    for (k = 0; !st && k < OUT; k++)
        *apart = fmax(*apart, fabs((double)((const float *)y.data)[k] - (double)((const float *)y.data)[OUT + k]));
    tiny_tape_release(tape, mark);
    return st;
}

static tiny_status train(net *n, uint64_t seed, int steps, int quiet, int *right, double *apart)
{
    static int32_t label[SHAPES];
    const tiny_tensor labels = tiny_tensor_1d(label, TINY_I32, SHAPES);
    tiny_tape_desc td;
    tiny_optim_desc od;
    tiny_tape *tape = NULL;
    tiny_optim *optim = NULL;
    size_t i;
    int step;
    tiny_status st;
    memset(&td, 0, sizeof td);
    memset(&od, 0, sizeof od);
    td.bytes = (size_t)64 << 20;
    od.group[0].kind = TINY_OPTIM_ADAM;
    od.group[0].lr = 1e-3;
    for (i = 0; i < SHAPES; i++) label[i] = (int32_t)i;
    st = tiny_tape_open(n->ctx, &td, &tape);
    if (!st) st = tiny_optim_open(n->ctx, n->params, n->n_params, &od, &optim);
    for (i = 0; !st && i < n->n_params; i++) st = tiny_tape_param(tape, &n->params[i]);
    for (step = 0; !st && step < steps && !stopped_by; step++) {
        const tiny_tape_mark mark = tiny_tape_now(tape);
        tiny_tensor y, loss;
        st = turn(n, seed, (uint64_t)step);
        if (st) break;
        y = forward(tape, n);
        loss = tiny_tape_cross_entropy(tape, &y, &labels, 0);
        tiny_tape_zero(tape);
        st = tiny_tape_backward(tape, &loss, NULL);
        if (!st && !quiet && (step + 1) % 200 == 0)
            printf("  step %4d  loss %.4f\n", step + 1, (double)*(float *)loss.data);
        tiny_tape_release(tape, mark);
        if (!st) st = tiny_optim_step(optim, 1);
    }
    if (!st) st = judge(n, tape, seed, right, apart);
    tiny_optim_close(optim);
    tiny_tape_close(tape);
    return st;
}

int main(int argc, char **argv)
{
    static net n;
    tiny_ctx_desc desc;
    uint64_t seed = 0;
    int steps = 1000, quiet = 0, right = 0, k;
    double apart = 0;
    tiny_status st = TINY_OK;
    memset(&desc, 0, sizeof desc);
    {
        const option options[] = { A_SEED("--seed", &seed), A_WHOLE("--steps", &steps, 0, 1e6),
                                   A_FLAG("--quiet", &quiet), A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    st = tiny_ctx_open(&desc, &n.ctx);
    for (n.gaunt = 0; !st && n.gaunt < 2; n.gaunt++) {
        st = build(&n, seed);
        if (!st && !quiet) printf("%s\n", tgnn_product_why(n.l[1].product));
        if (!st) st = train(&n, seed, steps, quiet, &right, &apart);
        if (!st)
            printf("%s: %d of 8 shapes; the mirror images are %s, their logits differ by %.1g\n",
                   n.gaunt ? "Gaunt" : "Clebsch-Gordan", right, apart < 1e-3 ? "tied" : "told apart", apart);
        for (k = 0; k < LAYERS; k++) {
            tgnn_product_close(n.ctx, n.l[k].product);
            n.l[k].product = NULL;
        }
    }
    if (st) fprintf(stderr, "tetris: %s\n", n.ctx ? tiny_ctx_message(n.ctx) : tiny_status_text(st));
    tiny_ctx_close(n.ctx);
    return st != TINY_OK;
}
