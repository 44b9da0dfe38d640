/* src/gnn/equivariant/tdn.c - the potential of tensor decomposition networks, on the tape
 * Paper    "Tensor Decomposition Networks for Fast Machine Learning Interatomic Potential Computations", 2025 (arXiv
 *          2507.01131), and the authors' model; its blocks are those of Y.-L. Liao, T. Smidt,
 *          "Equiformer", 2023 (arXiv 2206.11990).
 * Formula  features x (atoms, (l + 1)^2, C); TP(x, Y; w) the product of all paths with one weight for each channel
 *          edge (j -> i): Y = harmonics of r_j - r_i (component), g_k = exp(-((a d / cut + b - mu_k) / sd_k)^2 / 2) /
 *          (sqrt(2 pi) sd_k), sd = |s| + 1e-5; w = a network of g: twice linear, layer norm, SiLU; then linear
 *          x = table[type] at l = 0, + sum over edges of TP(1, Y; w) / sqrt(mean degree)
 *          block: x += attention(norm x); x += network(norm x)
 *          attention: m = TP(W_s x_j + W_d x_i, Y; w); scores: per head a . leaky(scalars of W m), leaky(z) = 0.2 z +
 *          0.8 SiLU(z), which is the smooth one; softmax over the edges of i; value TP(gate(W m), Y; w'); W_o sum
 *          gate: SiLU at l = 0, the others times the sigmoid of a second half at l = 0
 *          norm: l = 0 minus its mean over the channels; each degree / sqrt(mean of squares over m and channels +
 *          1e-5), times a factor of channel and degree. network: C -> 2 C, gate, C.
 *          energy: sum over atoms of linear(SiLU(linear(l = 0 of norm x))) / sqrt(mean atoms)
 *          direct forces: one more attention, its l = 1, channels summed with weights
 *          smooth: q = 1 - (d / cut)^2; 3 log q is added to the scores, w' and the first w are multiplied by q^3
 * Parity   is not kept: all paths of a product have one weight, so a degree mixes both parities, as in the paper.
 * Memory   a run of energies alone keeps one block; forces and gradients keep all
 * Left out drop paths and dropout of the authors' training; periodic cells; lists of cells (neighbours are searched
 *          among all pairs of a molecule) */
#include <stdio.h>
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/harmonics.h"
#include "gnn/equivariant/layers.h"
#include "gnn/equivariant/tdn_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

/* ---- parameters: counted first, then placed */

static void tinyi_tdn_add(tgnn_tdn *net, const char *place, const char *name, int rank, tiny_idx a, tiny_idx b)
{
    tiny_idx dim[2];
    tiny_tensor t;
    dim[0] = a;
    dim[1] = b;
    t = tiny_tensor_nd(NULL, net->desc.wide ? TINY_F64 : TINY_F32, rank, dim);
    if (net->params) {
        tiny_param *p = &net->params[net->n];
        const size_t size = tiny_dtype_bytes(t.dtype);
        memset(p, 0, sizeof *p);
        (void)snprintf(net->names[net->n], TINYI_TDN_NAME, "%s%s", place, name);
        p->name = net->names[net->n];
        p->value = p->grad = t;
        p->value.data = net->memory + net->n_numbers * size;
    }
    net->n++;
    net->n_numbers += (size_t)tiny_tensor_count(&t);
}

static void tinyi_tdn_radial_list(tgnn_tdn *net, const char *place, tiny_idx out)
{
    const tiny_idx h = net->desc.hidden, k = net->desc.n_basis;
    tinyi_tdn_add(net, place, "radial.0.weight", 2, h, k);
    tinyi_tdn_add(net, place, "radial.0.bias", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.0.gain", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.0.shift", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.1.weight", 2, h, h);
    tinyi_tdn_add(net, place, "radial.1.bias", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.1.gain", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.1.shift", 1, h, 0);
    tinyi_tdn_add(net, place, "radial.2.weight", 2, out, h);
    tinyi_tdn_add(net, place, "radial.2.offset", 1, out, 0);
}

static void tinyi_tdn_attend_list(tgnn_tdn *net, const char *place)
{
    const tiny_idx c = net->desc.width, l = net->desc.l, all = c * c * (l + 1);
    tinyi_tdn_add(net, place, "src.linear", 1, all, 0);
    tinyi_tdn_add(net, place, "dst.linear", 1, all, 0);
    tinyi_tdn_add(net, place, "dst.bias", 1, c, 0);
    tinyi_tdn_add(net, place, "mix.linear", 1, all + 2 * c * c, 0);
    tinyi_tdn_add(net, place, "mix.bias", 1, 3 * c, 0);
    tinyi_tdn_add(net, place, "attention", 1, c, 0);
    tinyi_tdn_add(net, place, "out.linear", 1, all, 0);
    tinyi_tdn_add(net, place, "out.bias", 1, c, 0);
}

static void tinyi_tdn_list(tgnn_tdn *net)
{
    const tgnn_tdn_desc *d = &net->desc;
    const tiny_idx c = d->width, all = c * c * (d->l + 1);
    char place[TINYI_TDN_NAME];
    int i;
    net->n = net->n_numbers = 0;
    tinyi_tdn_add(net, "", "types", 2, d->n_types, c);
    tinyi_tdn_add(net, "", "basis.scale", 1, 1, 0);
    tinyi_tdn_add(net, "", "basis.shift", 1, 1, 0);
    tinyi_tdn_add(net, "", "basis.mean", 1, d->n_basis, 0);
    tinyi_tdn_add(net, "", "basis.width", 1, d->n_basis, 0);
    tinyi_tdn_radial_list(net, "degree.", c);
    net->at_block = net->n;
    for (i = 0; i < d->blocks; i++) {
        (void)snprintf(place, sizeof place, "block.%d.", i);
        tinyi_tdn_add(net, place, "norm.0.gain", 2, d->l + 1, c);
        tinyi_tdn_add(net, place, "norm.1.gain", 2, d->l + 1, c);
        tinyi_tdn_radial_list(net, place, 2 * c);
        tinyi_tdn_attend_list(net, place);
        tinyi_tdn_add(net, place, "inner.0.linear", 1, 2 * all + 2 * c * c, 0);
        tinyi_tdn_add(net, place, "inner.0.bias", 1, 4 * c, 0);
        tinyi_tdn_add(net, place, "inner.1.linear", 1, 2 * all, 0);
        tinyi_tdn_add(net, place, "inner.1.bias", 1, c, 0);
    }
    net->at_end = net->n;
    tinyi_tdn_add(net, "", "norm.gain", 2, d->l + 1, c);
    tinyi_tdn_add(net, "energy.", "0.weight", 2, c, c);
    tinyi_tdn_add(net, "energy.", "0.bias", 1, c, 0);
    tinyi_tdn_add(net, "energy.", "1.weight", 2, 1, c);
    tinyi_tdn_add(net, "energy.", "1.bias", 1, 1, 0);
    if (!d->direct) return;
    tinyi_tdn_radial_list(net, "force.", 2 * c);
    tinyi_tdn_attend_list(net, "force.");
    tinyi_tdn_add(net, "force.", "vector", 2, c, 1);
}

/* Weights of linear maps of irreps, of which a layer takes W / sqrt(inputs), are normal; those of other linear layers
 * and the score vectors uniform of deviation 1 / sqrt(inputs); gains 1; the basis spread over the cutoff. */
static void tinyi_tdn_draw(tgnn_tdn *net)
{
    size_t i;
    tiny_idx k;
    for (i = 0; i < net->n; i++) {
        const tiny_tensor *t = &net->params[i].value;
        const char *name = net->params[i].name, *end = strrchr(name, '.');
        const tiny_idx n = tiny_tensor_count(t);
        const double ways = t->rank == 2 ? (double)t->dim[1] : (double)net->desc.width / net->desc.heads,
                     most = tinyi_sqrt(3.0 / ways);
        tiny_rng rng = tiny_rng_make(net->desc.seed, i);
        for (k = 0; k < n; k++) {
            const double part = ((double)k + 0.5) / (double)n;
            double v = 0.0;
            if (!strcmp(name, "types") || !strcmp(name, "force.vector") || (end && !strcmp(end, ".linear")))
                v = (double)tiny_rng_normal(&rng);
            else if (end && (!strcmp(end, ".weight") || !strcmp(end, ".attention")))
                v = most * (2.0 * tiny_rng_uniform64(&rng) - 1.0);
            else if ((end && !strcmp(end, ".gain")) || !strcmp(name, "basis.scale")) v = 1.0;
            else if (!strcmp(name, "basis.mean")) v = part;
            else if (!strcmp(name, "basis.width")) v = 1.5 / (double)n;
            tinyi_real_set(t->data, t->dtype, k, v);
        }
    }
}

void tinyi_tdn_clear(tgnn_tdn *net)
{
    const size_t size = net->desc.wide ? sizeof(double) : sizeof(float);
    memset(net->memory + net->n_numbers * size, 0, net->n_numbers * size);
}

/* ---- open and close */

static tiny_status tinyi_tdn_check(tiny_ctx *ctx, tgnn_tdn_desc *d)
{
    int *size[6], i;
    static const int usual[6] = { 128, 4, 8, 80, 128, 64 };
    static const char *const what[6] = { "channels", "blocks", "heads", "types of atoms", "basis functions",
                                         "hidden numbers" };
    size[0] = &d->width;
    size[1] = &d->blocks;
    size[2] = &d->heads;
    size[3] = &d->n_types;
    size[4] = &d->n_basis;
    size[5] = &d->hidden;
    if (!d->l) d->l = 2;
    if (d->l < 1 || d->l > TGNN_CP_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: degree %d, it must be 1 to %d", d->l, TGNN_CP_L_MAX);
    for (i = 0; i < 6; i++) {
        const int most = i == 1 ? TINYI_TDN_BLOCKS : i == 3 ? 65536 : 1024;
        if (!*size[i]) *size[i] = usual[i];
        if (*size[i] < 1 || *size[i] > most)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: %d %s, there can be 1 to %d", *size[i], what[i], most);
    }
    if (d->width % d->heads)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: %d heads do not divide %d channels", d->heads, d->width);
    if (!(d->cutoff > 0.0 && d->cutoff < 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: the cutoff is %g, it must be above 0 and below 1e6", d->cutoff);
    if (d->mean_degree == 0.0) d->mean_degree = 1.0;
    if (d->mean_atoms == 0.0) d->mean_atoms = 1.0;
    if (!(d->mean_degree > 0.0 && d->mean_degree < 1e9) || !(d->mean_atoms > 0.0 && d->mean_atoms < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: %g neighbours and %g atoms on average, both must be above 0",
                          d->mean_degree, d->mean_atoms);
    if (d->product != TGNN_PRODUCT_CG && d->product != TGNN_PRODUCT_CG_DENSE && d->product != TGNN_PRODUCT_CG_SPARSE &&
        d->product != TGNN_PRODUCT_FOLD && d->product != TGNN_PRODUCT_CP)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: the product is %s, it must be of Clebsch-Gordan, fold or CP",
                          tgnn_product_kind_name(d->product));
    return TINY_OK;
}

static void tinyi_tdn_irreps(tgnn_tdn *net)
{
    const int c = net->desc.width;
    int i, l;
    for (i = 0; i < 4; i++)
        for (l = 0; l <= net->desc.l; l++) {
            net->irreps[i][l].l = l;
            net->irreps[i][l].parity = 1;   /* not kept: see the head comment */
            net->irreps[i][l].mul = i >= 2 ? 2 * c : c;
        }
    net->irreps[1][0].mul = 3 * c;          /* scores, values, gates */
    net->irreps[2][0].mul = 4 * c;
}

TINY_API tiny_status tgnn_tdn_open(tiny_ctx *ctx, const tgnn_tdn_desc *desc, tgnn_tdn **out)
{
    tgnn_product_desc p;
    tgnn_tdn *net;
    size_t size, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tdn: a description and an output are needed");
    net = (tgnn_tdn *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->desc = *desc;
    st = tinyi_tdn_check(ctx, &net->desc);
    memset(&p, 0, sizeof p);
    p.kind = desc->product;
    p.l1 = p.l2 = p.l3 = net->desc.l;
    p.weighted = p.shared = 1;
    p.channels = net->desc.width;
    p.cp = desc->product == TGNN_PRODUCT_CG || desc->product == TGNN_PRODUCT_CP ? desc->cp : NULL;
    net->desc.cp = NULL;
    if (!st) st = tgnn_product_open(ctx, &p, &net->plan);
    if (!st) {
        tinyi_tdn_irreps(net);
        tinyi_tdn_list(net);
        size = net->desc.wide ? sizeof(double) : sizeof(float);
        net->names = (char (*)[TINYI_TDN_NAME])tinyi_alloc(ctx, net->n, sizeof *net->names);
        if (net->names) net->memory = (unsigned char *)tinyi_alloc(ctx, net->n_numbers, 2 * size);
        if (net->memory) net->params = (tiny_param *)tinyi_alloc(ctx, net->n, sizeof *net->params);
        if (!net->params) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        tinyi_tdn_list(net);
        for (i = 0; i < net->n; i++)
            net->params[i].grad.data = (unsigned char *)net->params[i].value.data + net->n_numbers * size;
        tinyi_tdn_clear(net);
        tinyi_tdn_draw(net);
    }
    if (st) tgnn_tdn_close(net);
    else *out = net;
    return st;
}

TINY_API void tgnn_tdn_close(tgnn_tdn *net)
{
    tiny_ctx *ctx;
    if (!net) return;
    ctx = net->ctx;
    tiny_tape_close(net->room[0].tape);
    tiny_tape_close(net->room[1].tape);
    tiny_free(ctx, net->pos);
    tgnn_product_close(ctx, net->plan);
    tiny_free(ctx, net->params);
    tiny_free(ctx, net->memory);
    tiny_free(ctx, net->names);
    tiny_free(ctx, net);
}

TINY_API const tgnn_tdn_desc *tgnn_tdn_description(const tgnn_tdn *net) { return net ? &net->desc : NULL; }
TINY_API const tiny_param *tgnn_tdn_params(const tgnn_tdn *net, size_t *n)
{
    if (n) *n = net ? net->n : 0;
    return net ? net->params : NULL;
}
TINY_API double tgnn_tdn_count(const tgnn_tdn *net) { return net ? (double)net->n_numbers : 0.0; }
TINY_API const tgnn_product *tgnn_tdn_product(const tgnn_tdn *net) { return net ? net->plan : NULL; }


/* ---- pieces of the network */

static tiny_tensor tinyi_tdn_one(tiny_tape *tape, int kind, const tiny_tensor *x)
{
    return tiny_tape_call(tape, kind, x, NULL, NULL, NULL, NULL);
}

/* numbers first .. first + n - 1 of each row */
static tiny_tensor tinyi_tdn_part(const tiny_tensor *t, tiny_idx first, tiny_idx n)
{
    tiny_tensor b = *t;
    if (b.data) b.data = (unsigned char *)b.data + first * b.stride[1] * (tiny_idx)tiny_dtype_bytes(b.dtype);
    b.dim[1] = n;
    return b;
}

/* rows of a * c numbers as (rows, a, c) */
static tiny_tensor tinyi_tdn_split(const tiny_tensor *t, tiny_idx a, tiny_idx c)
{
    tiny_tensor b = *t;
    b.rank = 3;
    b.dim[1] = a;
    b.dim[2] = c;
    b.stride[2] = t->stride[1];
    b.stride[1] = c * t->stride[1];
    return b;
}

/* dense (rows, a, c) as rows */
static tiny_tensor tinyi_tdn_flat(tiny_tape *tape, const tiny_tensor *t)
{
    tiny_idx dim[2];
    dim[0] = t->dim[0];
    dim[1] = t->dim[1] * t->dim[2] * (t->rank == 4 ? t->dim[3] : 1);
    return tiny_tape_reshape(tape, t, 2, dim);
}

/* a constant of the tape's kind: one number */
static tiny_tensor tinyi_tdn_number(tiny_tape *tape, const tgnn_tdn *net, double v)
{
    const tiny_idx dim[1] = { 1 };
    const tiny_tensor t = tiny_tape_new(tape, net->desc.wide ? TINY_F64 : TINY_F32, 1, dim);
    if (t.data && !tiny_tape_dry(tape)) tinyi_real_set(t.data, t.dtype, 0, v);
    return t;
}

static tiny_tensor tinyi_tdn_linear(tiny_tape *tape, const tgnn_tdn *net, const tiny_tensor *x, int in, int out,
                                    const tiny_param *w, const tiny_param *bias)
{
    tgnn_irreps_linear_desc d;
    memset(&d, 0, sizeof d);
    d.in = net->irreps[in];
    d.out = net->irreps[out];
    d.n_in = d.n_out = net->desc.l + 1;
    d.last = 1;
    return tgnn_tape_irreps_linear(tape, &d, x, &w->value, bias ? &bias->value : NULL);
}

/* two layers with norm and SiLU, one linear */
static tiny_tensor tinyi_tdn_radial(tiny_tape *tape, const tiny_param *p, const tiny_tensor *basis)
{
    tiny_norm_params eps;
    tiny_tensor h = *basis;
    int i;
    memset(&eps, 0, sizeof eps);
    for (i = 0; i < 2; i++, p += 4) {
        h = tiny_tape_linear(tape, &h, &p[0].value, &p[1].value, TINY_ACT_NONE);
        h = tiny_tape_call(tape, TINY_OP_LAYERNORM, &h, &p[2].value, &p[3].value, NULL, &eps);
        h = tinyi_tdn_one(tape, TINY_OP_SILU, &h);
    }
    return tiny_tape_linear(tape, &h, &p[0].value, &p[1].value, TINY_ACT_NONE);
}

/* each degree over m and channels */
static tiny_tensor tinyi_tdn_norm(tiny_tape *tape, const tgnn_tdn *net, const tiny_tensor *x, const tiny_param *gain)
{
    const tiny_idx c = net->desc.width;
    tiny_tensor part[TINYI_TDN_DEGREES], mean, g;
    tiny_reduce_params keep;
    tiny_norm_params eps;
    int l;
    memset(&keep, 0, sizeof keep);
    memset(&eps, 0, sizeof eps);
    keep.keep = 1;
    eps.eps = TINYI_TDN_EPS;
    for (l = 0; l <= net->desc.l; l++) {
        part[l] = tinyi_tdn_part(x, l * l * c, (2 * l + 1) * c);
        if (!l) {
            mean = tiny_tape_call(tape, TINY_OP_MEAN, &part[0], NULL, NULL, NULL, &keep);
            part[0] = tiny_tape_sub(tape, &part[0], &mean);
        }
        part[l] = tiny_tape_call(tape, TINY_OP_RMSNORM, &part[l], NULL, NULL, NULL, &eps);
        part[l] = tinyi_tdn_split(&part[l], 2 * l + 1, c);
        g = gain->value;
        g.rank = 1;
        g.dim[0] = c;
        g.stride[0] = 1;
        g.data = (unsigned char *)g.data + l * c * (tiny_idx)tiny_dtype_bytes(g.dtype);
        part[l] = tiny_tape_mul(tape, &part[l], &g);
    }
    g = tiny_tape_concat(tape, net->desc.l + 1, part, 1);
    return tiny_tape_status(tape) ? g : tinyi_tdn_flat(tape, &g);
}

/* rows: `skip` numbers, c scalars, c gates, then (d - 1, c) */
static tiny_tensor tinyi_tdn_gate(tiny_tape *tape, const tgnn_tdn *net, const tiny_tensor *x, tiny_idx skip, tiny_idx c)
{
    const tiny_idx d = (net->desc.l + 1) * (net->desc.l + 1);
    tiny_tensor part[2], g, rest;
    if (tiny_tape_status(tape)) return *x;
    part[0] = tinyi_tdn_part(x, skip, c);
    part[0] = tinyi_tdn_one(tape, TINY_OP_SILU, &part[0]);
    part[0] = tinyi_tdn_split(&part[0], 1, c);
    g = tinyi_tdn_part(x, skip + c, c);
    g = tinyi_tdn_one(tape, TINY_OP_SIGMOID, &g);
    g = tinyi_tdn_split(&g, 1, c);
    rest = tinyi_tdn_part(x, skip + 2 * c, (d - 1) * c);
    rest = tinyi_tdn_split(&rest, d - 1, c);
    part[1] = tiny_tape_mul(tape, &rest, &g);
    g = tiny_tape_concat(tape, 2, part, 1);
    return tiny_tape_status(tape) ? g : tinyi_tdn_flat(tape, &g);
}

/* TP(x, Y; w): x (edges, d C), w (edges, C) */
static tiny_tensor tinyi_tdn_product_of(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_edges *e,
                                        const tiny_tensor *x, const tiny_tensor *w)
{
    const tiny_idx c = net->desc.width, d = (net->desc.l + 1) * (net->desc.l + 1);
    tiny_tensor tx, ty = tinyi_tdn_split(&e->y, 1, d), tw = tinyi_tdn_split(w, c, 1), y;
    if (tiny_tape_status(tape)) return *x;
    tx = x->rank == 3 ? *x : tinyi_tdn_split(x, d, c);
    y = tgnn_tape_product_last(tape, net->plan, &tx, &ty, &tw);
    return tiny_tape_status(tape) ? y : tinyi_tdn_flat(tape, &y);
}

/* sums of rows of edges, or of atoms, over the segments of offset */
static tiny_tensor tinyi_tdn_sum(tiny_tape *tape, const tiny_tensor *offset, const tiny_tensor *x)
{
    tiny_spmm_params sum;
    memset(&sum, 0, sizeof sum);
    return tiny_tape_call(tape, TINY_OP_SPMM, offset, x, NULL, NULL, &sum);
}

/* zeros that no operation recorded */
static tiny_tensor tinyi_tdn_zeros(tiny_tape *tape, const tgnn_tdn *net, tiny_idx rows, tiny_idx columns)
{
    tiny_idx dim[2];
    tiny_tensor t;
    dim[0] = rows;
    dim[1] = columns;
    t = tiny_tape_new(tape, net->desc.wide ? TINY_F64 : TINY_F32, 2, dim);
    if (t.data && !tiny_tape_dry(tape)) memset(t.data, 0, (size_t)(rows * columns) * tiny_dtype_bytes(t.dtype));
    return t;
}

/* p: src, dst, bias, mix, bias, vector of scores, out, bias; radial before them */
static tiny_tensor tinyi_tdn_attention(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_edges *e,
                                       const tiny_tensor *x, const tiny_param *radial, const tiny_param *p)
{
    const tiny_idx c = net->desc.width, d = (net->desc.l + 1) * (net->desc.l + 1), heads = net->desc.heads;
    tiny_tensor w, w1, w2, s, t, m;
    if (!e->src.dim[0]) {                   /* sums over nothing */
        m = tinyi_tdn_zeros(tape, net, x->dim[0], d * c);
        return tinyi_tdn_linear(tape, net, &m, 0, 0, &p[6], &p[7]);
    }
    w = tinyi_tdn_radial(tape, radial, &e->basis);
    if (tiny_tape_status(tape)) return w;
    w1 = tinyi_tdn_part(&w, 0, c);
    w2 = tinyi_tdn_part(&w, c, c);
    if (net->desc.smooth) w2 = tiny_tape_mul(tape, &w2, &e->env);
    s = tinyi_tdn_linear(tape, net, x, 0, 0, &p[0], NULL);
    t = tinyi_tdn_linear(tape, net, x, 0, 0, &p[1], &p[2]);
    s = tiny_tape_call(tape, TINY_OP_GATHER, &s, &e->src, NULL, NULL, NULL);
    t = tiny_tape_call(tape, TINY_OP_GATHER, &t, &e->dst, NULL, NULL, NULL);
    m = tiny_tape_add(tape, &s, &t);
    m = tinyi_tdn_product_of(tape, net, e, &m, &w1);
    m = tinyi_tdn_linear(tape, net, &m, 0, 1, &p[3], &p[4]);
    if (tiny_tape_status(tape)) return m;
    t = tinyi_tdn_part(&m, 0, c);
    s = tinyi_tdn_one(tape, TINY_OP_SILU, &t);
    s = tiny_tape_scale(tape, &s, 0.8, 0.0);
    t = tiny_tape_scale(tape, &t, 0.2, 0.0);
    s = tiny_tape_add(tape, &s, &t);
    s = tiny_tape_mul(tape, &s, &p[5].value);
    s = tinyi_tdn_split(&s, heads, c / heads);
    s = tinyi_tdn_one(tape, TINY_OP_SUM, &s);
    if (net->desc.smooth) s = tiny_tape_add(tape, &s, &e->score);
    s = tiny_tape_call(tape, TINY_OP_SEGMENT_SOFTMAX, &e->offset, &s, NULL, NULL, NULL);
    m = tinyi_tdn_gate(tape, net, &m, c, c);
    m = tinyi_tdn_product_of(tape, net, e, &m, &w2);
    if (tiny_tape_status(tape)) return m;
    m = tinyi_tdn_split(&m, d, c);          /* (edges, d, heads, C / heads) times (edges, 1, heads, 1) */
    m.rank = 4;
    m.dim[2] = heads;
    m.dim[3] = c / heads;
    m.stride[3] = m.stride[2];
    m.stride[2] = c / heads * m.stride[3];
    s = tinyi_tdn_split(&s, heads, 1);
    s.rank = 4;
    s.dim[3] = s.dim[1] = 1;
    s.dim[2] = heads;
    s.stride[3] = s.stride[2];
    s.stride[2] = s.stride[3];
    s.stride[1] = 0;
    m = tiny_tape_mul(tape, &m, &s);
    if (tiny_tape_status(tape)) return m;
    m = tinyi_tdn_flat(tape, &m);
    m = tinyi_tdn_sum(tape, &e->offset, &m);
    return tinyi_tdn_linear(tape, net, &m, 0, 0, &p[6], &p[7]);
}

tiny_tensor tinyi_tdn_block(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_edges *e, const tiny_tensor *x,
                                   int i)
{
    const tiny_param *p = net->params + net->at_block + (size_t)i * TINYI_TDN_BLOCK, *inner = p + TINYI_TDN_BLOCK - 4;
    tiny_tensor h = tinyi_tdn_norm(tape, net, x, &p[0]), y;
    h = tinyi_tdn_attention(tape, net, e, &h, p + 2, p + 2 + TINYI_TDN_RADIAL);
    y = tiny_tape_add(tape, x, &h);
    h = tinyi_tdn_norm(tape, net, &y, &p[1]);
    h = tinyi_tdn_linear(tape, net, &h, 0, 2, &inner[0], &inner[1]);
    h = tinyi_tdn_gate(tape, net, &h, 0, 2 * net->desc.width);
    h = tinyi_tdn_linear(tape, net, &h, 3, 0, &inner[2], &inner[3]);
    return tiny_tape_add(tape, &y, &h);
}

/* distances to basis functions */
static tiny_tensor tinyi_tdn_basis(tiny_tape *tape, const tgnn_tdn *net, const tiny_tensor *square)
{
    const tiny_param *p = net->params + 1;
    tiny_tensor t = tinyi_tdn_one(tape, TINY_OP_SQRT, square), sd, by = tinyi_tdn_number(tape, net, net->desc.cutoff);
    t = tiny_tape_call(tape, TINY_OP_DIV, &t, &by, NULL, NULL, NULL);
    t = tiny_tape_mul(tape, &t, &p[0].value);
    t = tiny_tape_add(tape, &t, &p[1].value);
    t = tiny_tape_sub(tape, &t, &p[2].value);
    sd = tinyi_tdn_one(tape, TINY_OP_ABS, &p[3].value);
    by = tinyi_tdn_number(tape, net, 1e-5);
    sd = tiny_tape_add(tape, &sd, &by);
    t = tiny_tape_call(tape, TINY_OP_DIV, &t, &sd, NULL, NULL, NULL);
    t = tiny_tape_mul(tape, &t, &t);
    t = tiny_tape_scale(tape, &t, -0.5, 0.0);
    t = tinyi_tdn_one(tape, TINY_OP_EXP, &t);
    by = tinyi_tdn_number(tape, net, 2.50662827463100050242);       /* sqrt(2 pi) */
    sd = tiny_tape_mul(tape, &sd, &by);
    return tiny_tape_call(tape, TINY_OP_DIV, &t, &sd, NULL, NULL, NULL);
}

/* the edges, and the first features of the atoms */
tiny_tensor tinyi_tdn_begin(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g,
                                   const tiny_tensor *pos, tinyi_tdn_edges *e)
{
    static const double one[(TGNN_CP_L_MAX + 1) * (TGNN_CP_L_MAX + 1)] = { 1.0 };
    static const float one_f32[(TGNN_CP_L_MAX + 1) * (TGNN_CP_L_MAX + 1)] = { 1.0f };
    const tiny_idx c = net->desc.width, d = (net->desc.l + 1) * (net->desc.l + 1);
    const tiny_tensor type = tiny_tensor_1d(g->type, TINY_I32, g->n);
    tgnn_sph_harm_params harmonics;
    tiny_tensor r, s, x, w, part[2];
    tiny_op op;
    memset(&harmonics, 0, sizeof harmonics);
    harmonics.l_max = net->desc.l;
    e->offset = tiny_tensor_1d(g->offset, TINY_I64, g->n + 1);
    e->src = tiny_tensor_1d(g->src, TINY_I32, g->m);
    e->dst = tiny_tensor_1d(g->dst, TINY_I32, g->m);
    if (!g->m) {
        part[0] = tiny_tape_call(tape, TINY_OP_GATHER, &net->params[0].value, &type, NULL, NULL, NULL);
        part[1] = tinyi_tdn_zeros(tape, net, g->n, (d - 1) * c);
        return tiny_tape_concat(tape, 2, part, 1);
    }
    r = tiny_tape_call(tape, TINY_OP_GATHER, pos, &e->src, NULL, NULL, NULL);
    s = tiny_tape_call(tape, TINY_OP_GATHER, pos, &e->dst, NULL, NULL, NULL);
    r = tiny_tape_sub(tape, &r, &s);
    memset(&op, 0, sizeof op);
    memset(&e->y, 0, sizeof e->y);
    op.row = tgnn_sph_harm_row();
    op.kind = TGNN_OP_SPH_HARM;
    op.in[0] = &r;
    op.params = &harmonics;
    (void)tiny_tape_op(tape, &op, &e->y);
    {
        tiny_reduce_params keep;
        memset(&keep, 0, sizeof keep);
        keep.keep = 1;
        s = tiny_tape_call(tape, TINY_OP_NORM2, &r, NULL, NULL, NULL, &keep);
    }
    e->basis = tinyi_tdn_basis(tape, net, &s);
    if (net->desc.smooth) {
        tiny_tensor q = tinyi_tdn_number(tape, net, -net->desc.cutoff * net->desc.cutoff);
        q = tiny_tape_call(tape, TINY_OP_DIV, &s, &q, NULL, NULL, NULL);
        q = tiny_tape_scale(tape, &q, 1.0, 1.0);
        e->env = tiny_tape_mul(tape, &q, &q);
        e->env = tiny_tape_mul(tape, &e->env, &q);
        q = tiny_tape_clamp(tape, &q, 1e-4, 1.0);
        e->score = tinyi_tdn_one(tape, TINY_OP_LOG, &q);
        e->score = tiny_tape_scale(tape, &e->score, 3.0, 0.0);
    }
    w = tinyi_tdn_radial(tape, net->params + 5, &e->basis);
    if (net->desc.smooth) w = tiny_tape_mul(tape, &w, &e->env);
    x = tiny_tensor_3d(net->desc.wide ? (void *)(uintptr_t)one : (void *)(uintptr_t)one_f32,
                       net->desc.wide ? TINY_F64 : TINY_F32, g->m, d, c);
    x.stride[0] = x.stride[2] = 0;
    x.stride[1] = 1;
    x = tinyi_tdn_product_of(tape, net, e, &x, &w);
    x = tinyi_tdn_sum(tape, &e->offset, &x);
    if (tiny_tape_status(tape)) return x;
    w = tinyi_tdn_number(tape, net, tinyi_sqrt(net->desc.mean_degree));
    x = tiny_tape_call(tape, TINY_OP_DIV, &x, &w, NULL, NULL, NULL);
    if (tiny_tape_status(tape)) return x;
    s = tiny_tape_call(tape, TINY_OP_GATHER, &net->params[0].value, &type, NULL, NULL, NULL);
    part[0] = tinyi_tdn_part(&x, 0, c);
    part[0] = tiny_tape_add(tape, &part[0], &s);
    part[1] = tinyi_tdn_part(&x, c, (d - 1) * c);
    return tiny_tape_concat(tape, 2, part, 1);
}

/* energies (molecules, 1), and forces (n, 3) of the direct head if wanted */
tiny_tensor tinyi_tdn_end(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g,
                                 const tinyi_tdn_edges *e, const tiny_tensor *x, tiny_tensor *forces)
{
    const tiny_idx c = net->desc.width;
    const tiny_param *p = net->params + net->at_end;
    const tiny_tensor first = tiny_tensor_1d(g->first, TINY_I64, g->molecules + 1);
    tiny_tensor h = tinyi_tdn_norm(tape, net, x, &p[0]), s, by;
    if (tiny_tape_status(tape)) return h;
    s = tinyi_tdn_part(&h, 0, c);
    s = tiny_tape_linear(tape, &s, &p[1].value, &p[2].value, TINY_ACT_NONE);
    s = tinyi_tdn_one(tape, TINY_OP_SILU, &s);
    s = tiny_tape_linear(tape, &s, &p[3].value, &p[4].value, TINY_ACT_NONE);
    s = tinyi_tdn_sum(tape, &first, &s);
    by = tinyi_tdn_number(tape, net, tinyi_sqrt(net->desc.mean_atoms));
    s = tiny_tape_call(tape, TINY_OP_DIV, &s, &by, NULL, NULL, NULL);
    if (forces && net->desc.direct) {
        h = tinyi_tdn_attention(tape, net, e, &h, p + 5, p + 5 + TINYI_TDN_RADIAL);
        if (tiny_tape_status(tape)) return h;
        h = tinyi_tdn_part(&h, c, 3 * c);
        h = tinyi_tdn_split(&h, 3, c);
        h = tiny_tape_call(tape, TINY_OP_MATMUL, &h, &p[5 + TINYI_TDN_RADIAL + TINYI_TDN_ATTEND].value, NULL, NULL,
                           NULL);
        by = tinyi_tdn_number(tape, net, tinyi_sqrt((double)c));
        h = tiny_tape_call(tape, TINY_OP_DIV, &h, &by, NULL, NULL, NULL);
        if (!tiny_tape_status(tape)) *forces = tinyi_tdn_flat(tape, &h);
    }
    return s;
}
