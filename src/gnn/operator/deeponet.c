/* src/gnn/operator/deeponet.c - DeepONets with several branches, for several equations, and masks for shapes
 * Papers   L. Lu, P. Jin, G. Pang, Z. Zhang, G. Karniadakis, "Learning nonlinear operators via DeepONet", 2021 (arXiv
 *          1910.03193), section 2; V. Kumar, S. Goswami, K. Kontolati, M. Shields, G. Karniadakis, "Synergistic
 *          Learning with Multi-Task DeepONet for Efficient PDE Problem Solving", 2024 (arXiv 2408.02198).
 * Formula  u(y) = m(y) (sum_k B_k T_k(y) + b0), T = act of every layer of the trunk, the last one too; B = product over
 *          the branches b of B_b(input b), whose last layer is linear. A masked branch reads (m f, m).
 * Cost     a sample: the branches once, then p multiply-adds for each point; a point: the trunk once for all samples
 * Memory   the run holds the layers of all samples, and those of the trunk for 4096 points
 * Left out several fields from one network; convolutions in three dimensions; gradients with respect to the input of a
 *          masked branch. How the paper merges its branches is not known here: the product is that of multiple-input
 *          networks (P. Jin, S. Meng, L. Lu, "MIONet", 2022, arXiv 2202.06137). */
#include <stdio.h>
#include <string.h>
#include "gnn/operator/deeponet.h"
#include "core/state_inside.h"
#include "core/file.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/init.h"
#include "math/layer.h"
#include "math/rows_inside.h"
#include "gnn/operator/deeponet_inside.h"

#define TINYI_DON_NAME 56
#define TINYI_DON_CHUNK 4096                /* points of one pass of the trunk */
#define TINYI_DON_MOST (1 << 24)
#define TINYI_DON_NUMBERS 39                /* of a description in a file */

struct tgnn_deeponet {
    tiny_ctx *ctx;
    tgnn_deeponet_desc desc;
    int n_nets;                             /* branches that have layers: 1 when inputs are joined */
    size_t branch[TGNN_DEEPONET_BRANCHES], end;     /* their first parameters; the trunk's is 0, end is that of b0 */
    size_t n, n_floats;
    int too_large;
    tiny_param *params;
    char (*names)[TINYI_DON_NAME];
    float *memory;                          /* values, then gradients */
};

static int tinyi_don_hidden(int layers) { return layers < 0 ? 0 : layers; }

/* numbers that the layers of branch b read */
static tiny_idx tinyi_don_reads(const tgnn_deeponet_desc *d, int b)
{
    tiny_idx n = 0;
    int i;
    for (i = 0; i < d->n_branches; i++)
        if (i == b || d->merge == TGNN_DEEPONET_CONCAT) n += d->branch[i].n_in * (d->branch[i].masked ? 2 : 1);
    return n;
}

/* ---- the list of parameters; without memory it is counted only */

static void tinyi_don_add(tgnn_deeponet *net, const char *name, const char *what, int rank, const tiny_idx *dim)
{
    size_t n = 1;
    int i;
    for (i = 0; i < rank; i++)
        if (!tinyi_size_mul(n, (size_t)dim[i], &n)) net->too_large = 1;
    if (net->memory) {
        tiny_param *p = &net->params[net->n];
        const tiny_tensor t = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
        memset(p, 0, sizeof *p);
        (void)snprintf(net->names[net->n], TINYI_DON_NAME, "%s.%s", name, what);
        p->name = net->names[net->n];
        p->value = p->grad = t;
        p->value.data = net->memory + net->n_floats;
    }
    net->n++;
    if (!tinyi_size_add(net->n_floats, n, &net->n_floats)) net->too_large = 1;
}

/* PLACE.0 ... of `hidden` layers and one to `out` */
static void tinyi_don_chain(tgnn_deeponet *net, const char *place, tiny_idx in, tiny_idx width, int hidden,
                            tiny_idx out)
{
    char name[TINYI_DON_NAME - 16];
    tiny_idx dim[2];
    int i;
    dim[1] = in;
    for (i = 0; i <= hidden; i++) {
        dim[0] = i < hidden ? width : out;
        (void)snprintf(name, sizeof name, "%s.%d", place, i);
        tinyi_don_add(net, name, "weight", 2, dim);
        tinyi_don_add(net, name, "bias", 1, dim);
        dim[1] = dim[0];
    }
}

static void tinyi_don_list(tgnn_deeponet *net)
{
    const tgnn_deeponet_desc *d = &net->desc;
    const tiny_idx one = 1;
    char name[TINYI_DON_NAME - 16];
    int b, i;
    net->n = net->n_floats = 0;
    tinyi_don_chain(net, "trunk", d->d, d->width, tinyi_don_hidden(d->layers), d->p);
    for (b = 0; b < net->n_nets; b++) {
        const tgnn_deeponet_branch *a = &d->branch[b];
        tiny_idx dim[4], side[2], in = tinyi_don_reads(d, b);
        net->branch[b] = net->n;
        dim[1] = a->masked ? 2 : 1;
        dim[2] = dim[3] = 3;
        side[0] = a->side[0];
        side[1] = a->side[1];
        for (i = 0; i < a->conv; i++) {
            dim[0] = a->filters << i;
            (void)snprintf(name, sizeof name, "branch.%d.conv.%d", b, i);
            tinyi_don_add(net, name, "weight", 4, dim);
            tinyi_don_add(net, name, "bias", 1, dim);
            side[0] = (side[0] - 1) / 2 + 1;
            side[1] = (side[1] - 1) / 2 + 1;
            in = dim[0] * side[0] * side[1];
            dim[1] = dim[0];
        }
        (void)snprintf(name, sizeof name, "branch.%d", b);
        tinyi_don_chain(net, name, in, a->width, tinyi_don_hidden(a->layers), d->p);
    }
    net->end = net->n;
    tinyi_don_add(net, "output", "bias", 1, &one);
}

/* ---- open and close */

static tiny_status tinyi_don_check_branch(tiny_ctx *ctx, tgnn_deeponet_desc *d, int b)
{
    tgnn_deeponet_branch *a = &d->branch[b];
    if (a->layers == 0) a->layers = 2;
    if (a->width == 0) a->width = 128;
    if (a->filters == 0) a->filters = 8;
    if (a->n_in < 1 || a->n_in > TINYI_DON_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: branch %d has %td sensors, it needs 1 to %d", b, a->n_in,
                          TINYI_DON_MOST);
    if (a->layers < -1 || a->layers > 8 || a->width < 1 || a->width > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "deeponet: branch %d has %d layers of width %td, there can be -1 (none) to 8 of 1 to 65536",
                          b, a->layers, a->width);
    if (a->masked && b)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: branch %d is masked, only branch 0 can be", b);
    if (a->conv < 0 || a->conv > 5 || a->filters < 1 || a->filters > 1024)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "deeponet: branch %d has %d convolutions and %td filters, there can be 0 to 5 and 1 to 1024",
                          b, a->conv, a->filters);
    if (!a->conv) return TINY_OK;
    if (d->merge == TGNN_DEEPONET_CONCAT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: joined inputs cannot go through convolutions");
    if (a->side[0] < 1 || a->side[1] < 1 || a->side[0] > a->n_in || a->n_in % a->side[0] ||
        a->n_in / a->side[0] != a->side[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: branch %d has %td x %td points for its convolutions, but %td "
                          "sensors", b, a->side[0], a->side[1], a->n_in);
    return TINY_OK;
}

static tiny_status tinyi_don_check(tiny_ctx *ctx, tgnn_deeponet_desc *d)
{
    tiny_status st = TINY_OK;
    int b;
    if (d->n_branches == 0) d->n_branches = 1;
    if (d->layers == 0) d->layers = 2;
    if (d->width == 0) d->width = 128;
    if (d->p == 0) d->p = 128;
    if (d->n_branches < 1 || d->n_branches > TGNN_DEEPONET_BRANCHES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: %d branches, there can be 1 to %d", d->n_branches,
                          TGNN_DEEPONET_BRANCHES);
    if (d->merge != TGNN_DEEPONET_PRODUCT && d->merge != TGNN_DEEPONET_CONCAT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: no way to merge has the number %d", d->merge);
    if (d->act != TGNN_DEEPONET_TANH && d->act != TGNN_DEEPONET_GELU)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: no activation has the number %d", d->act);
    if (d->d < 1 || d->d > 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: points of %d coordinates, they need 1 to 8", d->d);
    if (d->layers < -1 || d->layers > 8 || d->width < 1 || d->width > 65536 || d->p < 1 || d->p > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "deeponet: a trunk of %d layers of width %td and %td terms; there can be -1 (none) to 8, "
                          "and 1 to 65536", d->layers, d->width, d->p);
    for (b = 0; !st && b < d->n_branches; b++) st = tinyi_don_check_branch(ctx, d, b);
    for (; b < TGNN_DEEPONET_BRANCHES; b++) memset(&d->branch[b], 0, sizeof d->branch[b]);
    return st;
}

/* Weights by Xavier, biases 0. Every branch after the first begins near 1, so that the product begins as a network of
 * one task. */
static tiny_status tinyi_don_draw(tgnn_deeponet *net)
{
    tiny_status st = TINY_OK;
    size_t i;
    for (i = 0; !st && i < net->n; i++) {
        const tiny_tensor *t = &net->params[i].value;
        tiny_rng rng = tiny_rng_make(net->desc.seed, i);
        int b, one = 0;
        for (b = 1; b < net->n_nets; b++) one |= i + 1 == (b + 1 < net->n_nets ? net->branch[b + 1] : net->end);
        st = t->rank > 1 ? tiny_init_xavier(net->ctx, &rng, t) : tiny_init_constant(net->ctx, t, one);
    }
    return st;
}

TINY_API tiny_status tgnn_deeponet_open(tiny_ctx *ctx, const tgnn_deeponet_desc *desc, tgnn_deeponet **out)
{
    tgnn_deeponet *net;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a description and an output are needed");
    net = (tgnn_deeponet *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->desc = *desc;
    st = tinyi_don_check(ctx, &net->desc);
    net->n_nets = net->desc.merge == TGNN_DEEPONET_CONCAT ? 1 : net->desc.n_branches;
    if (!st) {
        tinyi_don_list(net);
        if (net->too_large)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "deeponet: more parameters than this machine can address");
    }
    if (!st) {
        net->params = (tiny_param *)tinyi_alloc(ctx, net->n, sizeof *net->params);
        if (net->params) net->names = (char (*)[TINYI_DON_NAME])tinyi_alloc(ctx, net->n, sizeof *net->names);
        if (net->names) net->memory = (float *)tinyi_alloc(ctx, net->n_floats, 2 * sizeof *net->memory);
        if (!net->memory) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        float *grad = net->memory + net->n_floats;
        tinyi_don_list(net);
        memset(grad, 0, net->n_floats * sizeof *grad);
        for (i = 0; i < net->n; i++) {
            net->params[i].grad.data = grad;
            grad += tiny_tensor_count(&net->params[i].grad);
        }
        st = tinyi_don_draw(net);
    }
    if (st) tgnn_deeponet_close(net);
    else *out = net;
    return st;
}

TINY_API void tgnn_deeponet_close(tgnn_deeponet *net)
{
    tiny_ctx *ctx;
    if (!net) return;
    ctx = net->ctx;
    tiny_free(ctx, net->memory);
    tiny_free(ctx, net->names);
    tiny_free(ctx, net->params);
    tiny_free(ctx, net);
}

TINY_API const tgnn_deeponet_desc *tgnn_deeponet_description(const tgnn_deeponet *net)
{
    return net ? &net->desc : NULL;
}
TINY_API double tgnn_deeponet_count(const tgnn_deeponet *net) { return net ? (double)net->n_floats : 0.0; }
TINY_API const tiny_param *tgnn_deeponet_params(const tgnn_deeponet *net, size_t *n)
{
    if (n) *n = net ? net->n : 0;
    return net ? net->params : NULL;
}

TINY_API size_t tgnn_deeponet_last(const tgnn_deeponet *net, int layers, tiny_param *list)
{
    size_t n = 0, i;
    int b;
    if (!net || layers < 1) return 0;
    for (b = 0; b < net->n_nets; b++) {
        const size_t end = b + 1 < net->n_nets ? net->branch[b + 1] : net->end;
        const int linear = tinyi_don_hidden(net->desc.branch[b].layers) + 1;
        for (i = end - 2 * (size_t)TINYI_MIN(layers, linear); i < end; i++, n++) if (list) list[n] = net->params[i];
    }
    if (list) list[n] = net->params[net->end];
    return n + 1;
}

/* ---- files */

static size_t tinyi_don_numbers(double *v, tgnn_deeponet_desc *d, int read)
{
    size_t n = 0;
    int b;
#define TINYI_DON_NUMBER(type, field)          \
    if (read) (field) = (type)v[n];            \
    else v[n] = (double)(field);               \
    n++;
    TINYI_DON_NUMBER(int, d->n_branches)
    for (b = 0; b < TGNN_DEEPONET_BRANCHES; b++) {
        tgnn_deeponet_branch *a = &d->branch[b];
        TINYI_DON_NUMBER(tiny_idx, a->n_in)
        TINYI_DON_NUMBER(int, a->masked)
        TINYI_DON_NUMBER(int, a->conv)
        TINYI_DON_NUMBER(tiny_idx, a->side[0])
        TINYI_DON_NUMBER(tiny_idx, a->side[1])
        TINYI_DON_NUMBER(tiny_idx, a->filters)
        TINYI_DON_NUMBER(int, a->layers)
        TINYI_DON_NUMBER(tiny_idx, a->width)
    }
    TINYI_DON_NUMBER(int, d->merge)
    TINYI_DON_NUMBER(int, d->d)
    TINYI_DON_NUMBER(int, d->layers)
    TINYI_DON_NUMBER(tiny_idx, d->width)
    TINYI_DON_NUMBER(tiny_idx, d->p)
    TINYI_DON_NUMBER(int, d->act)
#undef TINYI_DON_NUMBER
    return n;
}

static tiny_param tinyi_don_described(double *v)
{
    tiny_param p;
    memset(&p, 0, sizeof p);
    p.name = "deeponet";
    p.value = tiny_tensor_1d(v, TINY_F64, TINYI_DON_NUMBERS);
    p.grad = p.value;
    return p;
}

TINY_API tiny_status tgnn_deeponet_save(tiny_ctx *ctx, const tgnn_deeponet *net, const char *path)
{
    double v[TINYI_DON_NUMBERS];
    tgnn_deeponet_desc d;
    tiny_param *list;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a network and a path are needed");
    d = net->desc;
    (void)tinyi_don_numbers(v, &d, 0);
    list = (tiny_param *)tinyi_alloc(ctx, net->n + 1, sizeof *list);
    if (!list) return tiny_ctx_status(ctx);
    list[0] = tinyi_don_described(v);
    memcpy(list + 1, net->params, net->n * sizeof *list);
    st = tiny_params_save(ctx, path, list, net->n + 1, NULL);
    tiny_free(ctx, list);
    return st;
}

/* Before memory is taken: a file has the parameters that its description asks for. */
static tiny_status tinyi_don_holds(tiny_ctx *ctx, const char *path, const tgnn_deeponet_desc *d)
{
    tgnn_deeponet plan;
    tiny_file file;
    tiny_status st;
    memset(&plan, 0, sizeof plan);
    plan.desc = *d;
    st = tinyi_don_check(ctx, &plan.desc);
    if (!st) st = tiny_file_open(ctx, path, &file);
    if (st) return st;
    plan.n_nets = plan.desc.merge == TGNN_DEEPONET_CONCAT ? 1 : plan.desc.n_branches;
    tinyi_don_list(&plan);
    if (plan.too_large || plan.n_floats > file.n_bytes / sizeof(float))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the network that is described has more parameters than the file",
                        path);
    tiny_file_close(ctx, &file);
    return st;
}

TINY_API tiny_status tgnn_deeponet_load(tiny_ctx *ctx, const char *path, tgnn_deeponet **out)
{
    double v[TINYI_DON_NUMBERS];
    tgnn_deeponet_desc d;
    tiny_param p = tinyi_don_described(v);
    tiny_status st = tinyi_ctx_check(ctx);
    tgnn_deeponet *net = NULL;
    size_t i;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a path and an output are needed");
    st = tiny_params_load(ctx, path, &p, 1, NULL);
    for (i = 0; !st && i < TINYI_DON_NUMBERS; i++)
        if (!(v[i] >= -1 && v[i] <= TINYI_DON_MOST))
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: number %zu of the description of the network is %g", path, i,
                            v[i]);
    if (st) return st;
    memset(&d, 0, sizeof d);
    (void)tinyi_don_numbers(v, &d, 1);
    st = tinyi_don_holds(ctx, path, &d);
    if (!st) st = tgnn_deeponet_open(ctx, &d, &net);
    if (!st) st = tiny_params_load(ctx, path, net->params, net->n, NULL);
    if (st) tgnn_deeponet_close(net);
    else *out = net;
    return st;
}

/* ---- what is asked */

TINYI_FN tiny_idx tinyi_don_points(const tgnn_deeponet *net, const tgnn_deeponet_query *q)
{
    tiny_idx n = 1;
    int i;
    if (q->basis) return q->basis->dim[0];
    if (q->points) return q->points->dim[0];
    for (i = 0; i < net->desc.d && i < 3; i++) {
        if (q->grid[i] < 1 || q->grid[i] > TINYI_DON_MOST / n) return 0;
        n *= q->grid[i];
    }
    return n;
}

TINYI_FN const tiny_tensor *tinyi_don_inside(const tgnn_deeponet *net, const tgnn_deeponet_query *q)
{
    if (q->inside) return q->inside;
    return q->mask && !q->points && tinyi_don_points(net, q) == net->desc.branch[0].n_in ? q->mask : NULL;
}

static tiny_status tinyi_don_tensor(tiny_ctx *ctx, const tiny_tensor *t, const char *what, tiny_idx rows,
                                    tiny_idx columns)
{
    char text[96];
    if (!t || tiny_tensor_check(t)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: %s is no tensor", what);
    if (t->dtype != TINY_F32) return tinyi_fail(ctx, TINY_E_DTYPE, "deeponet: %s must be f32", what);
    if (t->rank != 2 || t->dim[1] != columns || (rows >= 0 && t->dim[0] != rows) || t->dim[0] < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: %s is %s, it must be %td x %td", what,
                          tinyi_shape_text(t, text), rows >= 0 ? rows : TINYI_MAX(t->rank ? t->dim[0] : 1, 1), columns);
    if (!tiny_tensor_is_dense(t)) return tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: %s must be dense", what);
    return TINY_OK;
}

/* ones and zeros, and in each row a one */
static tiny_status tinyi_don_mask(tiny_ctx *ctx, const tiny_tensor *t, const char *what)
{
    const float *m = (const float *)t->data;
    tiny_idx i, k;
    for (i = 0; i < t->dim[0]; i++, m += t->dim[1]) {
        int any = 0;
        for (k = 0; k < t->dim[1]; k++) {
            if (m[k] == 1.0f) any = 1;
            else if (m[k] != 0.0f)
                return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                  "deeponet: number %td of %s of sample %td is %g, it must be 0 or 1", k, what, i,
                                  (double)m[k]);
        }
        if (!any) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: %s of sample %td is all zeros", what, i);
    }
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_don_fits(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q, int data)
{
    tiny_status st = TINY_OK;
    tiny_idx samples, points, i, k;
    char what[48];
    int b;
    if (!net || !q || !q->in)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a network, a query and its inputs are needed");
    samples = q->in[0].rank == 2 ? q->in[0].dim[0] : -1;
    for (b = 0; !st && b < net->desc.n_branches; b++) {
        (void)snprintf(what, sizeof what, "the input of branch %d", b);
        st = tinyi_don_tensor(ctx, &q->in[b], what, b ? samples : -1, net->desc.branch[b].n_in);
    }
    if (st) return st;
    if (!net->desc.branch[0].masked && q->mask)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a mask was given, but branch 0 is not masked");
    if (net->desc.branch[0].masked) {
        if (!q->mask) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: branch 0 is masked and needs a mask");
        st = tinyi_don_tensor(ctx, q->mask, "the mask", samples, net->desc.branch[0].n_in);
    }
    if (!st && q->basis) {
        if (q->basis->rank == 2 && q->basis->dim[1] != net->desc.p)
            return tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: a basis of %td terms, the network has p = %td",
                              q->basis->dim[1], net->desc.p);
        st = tinyi_don_tensor(ctx, q->basis, "the basis", -1, net->desc.p);
    } else if (!st && q->points) st = tinyi_don_tensor(ctx, q->points, "the list of points", -1, net->desc.d);
    else if (!st && net->desc.d > 3)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: points of %d coordinates need a list", net->desc.d);
    if (st) return st;
    points = tinyi_don_points(net, q);
    if (points < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: each axis of a grid needs a point, all of it at most %d",
                          TINYI_DON_MOST);
    if (q->inside) st = tinyi_don_tensor(ctx, q->inside, "the mask of the results", samples, points);
    if (st || !data) return st;
    if (q->mask) st = tinyi_don_mask(ctx, q->mask, "the mask");
    if (!st && q->inside && q->inside != q->mask) st = tinyi_don_mask(ctx, q->inside, "the mask of the results");
    for (b = 0; !st && b < net->desc.n_branches; b++) {
        const tiny_idx n = net->desc.branch[b].n_in;
        const float *x = (const float *)q->in[b].data, *m = b || !q->mask ? NULL : (const float *)q->mask->data;
        for (i = 0; i < samples; i++)
            for (k = 0; k < n; k++)
                if (!(x[i * n + k] - x[i * n + k] == 0.0f) && (!m || m[i * n + k] != 0.0f))
                    return tinyi_fail(ctx, TINY_E_NUMERIC, "deeponet: sensor %td of sample %td of branch %d is not a "
                                      "finite number", k, i, b);
    }
    for (i = 0; !st && !q->basis && q->points && i < points * net->desc.d; i++) {
        const float x = ((const float *)q->points->data)[i];
        if (!(x - x == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "deeponet: a coordinate of point %td is not a finite number",
                              i / net->desc.d);
    }
    return st;
}

/* ---- the formula in plain loops */

TINY_REF_BEGIN
static double tinyi_don_act_ref(int act, double x)
{
    return act == TGNN_DEEPONET_TANH ? tinyi_tanh64(x) : tinyi_elem_ref_of(TINY_OP_GELU, x);
}

/* linear layers with the activation between them, and after the last one if `all`; x and z have the largest width */
static void tinyi_don_chain_ref(const tgnn_deeponet *net, size_t first, int linear, int all, double *x, double *z)
{
    int i;
    tiny_idx o, k;
    for (i = 0; i < linear; i++) {
        const tiny_tensor *w = &net->params[first + 2 * (size_t)i].value;
        const float *v = (const float *)w->data,
            *bias = (const float *)net->params[first + 2 * (size_t)i + 1].value.data;
        for (o = 0; o < w->dim[0]; o++) {
            double sum = 0.0;
            for (k = 0; k < w->dim[1]; k++) sum += (double)v[o * w->dim[1] + k] * x[k];
            sum += (double)bias[o];
            z[o] = all || i + 1 < linear ? tinyi_don_act_ref(net->desc.act, sum) : sum;
        }
        for (o = 0; o < w->dim[0]; o++) x[o] = z[o];
    }
}

static double tinyi_don_one_ref(const tgnn_deeponet *net, const tgnn_deeponet_query *q, tiny_idx sample, tiny_idx point,
                                double *x, double *z, double *terms, double *basis)
{
    const tgnn_deeponet_desc *d = &net->desc;
    const tiny_tensor *inside = tinyi_don_inside(net, q);
    tiny_idx k, at = point, n = 0;
    double u = 0.0;
    int b, i;
    for (i = d->d - 1; i >= 0 && !q->basis; i--) {
        if (q->points) x[i] = (double)((const float *)q->points->data)[point * d->d + i];
        else {
            x[i] = ((double)(at % q->grid[i]) + 0.5) / (double)q->grid[i];
            at /= q->grid[i];
        }
    }
    if (!q->basis) tinyi_don_chain_ref(net, 0, tinyi_don_hidden(d->layers) + 1, 1, x, z);
    for (k = 0; k < d->p; k++) {
        basis[k] = q->basis ? (double)((const float *)q->basis->data)[point * d->p + k] : x[k];
        terms[k] = 1.0;
    }
    for (b = 0; b < d->n_branches; b++) {
        const float *f = (const float *)q->in[b].data + sample * d->branch[b].n_in;
        const float *m = d->branch[b].masked ? (const float *)q->mask->data + sample * d->branch[b].n_in : NULL;
        if (b < net->n_nets) n = 0;
        for (k = 0; k < d->branch[b].n_in; k++) x[n++] = m && m[k] == 0.0f ? 0.0 : (double)f[k];
        for (k = 0; m && k < d->branch[b].n_in; k++) x[n++] = (double)m[k];
        if (net->n_nets == 1 && b + 1 < d->n_branches) continue;        /* joined: one network for all of it */
        tinyi_don_chain_ref(net, net->branch[net->n_nets == 1 ? 0 : b],
                            tinyi_don_hidden(d->branch[net->n_nets == 1 ? 0 : b].layers) + 1, 0, x, z);
        for (k = 0; k < d->p; k++) terms[k] *= x[k];
    }
    for (k = 0; k < d->p; k++) u += terms[k] * basis[k];
    u += (double)*(const float *)net->params[net->end].value.data;
    if (inside) u *= (double)((const float *)inside->data)[sample * tinyi_don_points(net, q) + point];
    return u;
}
TINY_REF_END

TINY_API tiny_status tgnn_deeponet_ref(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                       tiny_idx sample, tiny_idx point, double *y)
{
    tiny_idx most;
    double *work;
    int b;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: an output is needed");
    st = tinyi_don_fits(ctx, net, q, 1);
    if (st) return st;
    if (sample < 0 || sample >= q->in[0].dim[0] || point < 0 || point >= tinyi_don_points(net, q))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: there is no sample %td or no point %td", sample, point);
    most = TINYI_MAX(TINYI_MAX(net->desc.p, net->desc.width), 8);
    for (b = 0; b < net->n_nets; b++) {
        if (net->desc.branch[b].conv)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "deeponet: the reference has no convolutions");
        most = TINYI_MAX(TINYI_MAX(most, net->desc.branch[b].width), tinyi_don_reads(&net->desc, b));
    }
    work = (double *)tinyi_alloc(ctx, (size_t)most, 4 * sizeof *work);
    if (!work) return tiny_ctx_status(ctx);
    *y = tinyi_don_one_ref(net, q, sample, point, work, work + most, work + 2 * most, work + 3 * most);
    tiny_free(ctx, work);
    return TINY_OK;
}

/* ---- the network on a tape */

static tiny_tensor tinyi_don_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_don_act(tiny_tape *tape, const tgnn_deeponet *net, const tiny_tensor *x)
{
    return tiny_tape_call(tape, net->desc.act == TGNN_DEEPONET_TANH ? TINY_OP_TANH : TINY_OP_GELU, x, NULL, NULL, NULL,
                          NULL);
}

static tiny_tensor tinyi_don_layers(tiny_tape *tape, const tgnn_deeponet *net, size_t first, int linear, int all,
                                    const tiny_tensor *x)
{
    tiny_tensor h = *x;
    int i;
    for (i = 0; i < linear && !tiny_tape_status(tape); i++) {
        const tiny_param *p = &net->params[first + 2 * (size_t)i];
        h = tiny_tape_linear(tape, &h, &p[0].value, &p[1].value, TINY_ACT_NONE);
        if (all || i + 1 < linear) h = tinyi_don_act(tape, net, &h);
    }
    return h;
}

TINYI_FN tiny_tensor tinyi_don_trunk(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                     tiny_idx first, tiny_idx n)
{
    const int d = net->desc.d;
    tiny_tensor x;
    if (q->points) {
        x = *q->points;
        x.data = (float *)x.data + first * d;
        x.dim[0] = n;
    } else {
        tiny_idx dim[2], i;
        int k;
        dim[0] = n;
        dim[1] = d;
        x = tiny_tape_new(tape, TINY_F32, 2, dim);
        for (i = 0; x.data && !tiny_tape_dry(tape) && i < n; i++) {
            tiny_idx at = first + i;
            for (k = d - 1; k >= 0; k--) {
                ((float *)x.data)[i * d + k] = (float)(((double)(at % q->grid[k]) + 0.5) / (double)q->grid[k]);
                at /= q->grid[k];
            }
        }
    }
    return tinyi_don_layers(tape, net, 0, tinyi_don_hidden(net->desc.layers) + 1, 1, &x);
}

/* (m f, m) as one row for each sample */
static tiny_tensor tinyi_don_masked(tiny_tape *tape, const tiny_tensor *f, const tiny_tensor *mask)
{
    const tiny_idx n = f->dim[1];
    tiny_idx dim[2], i, k;
    tiny_tensor t;
    dim[0] = f->dim[0];
    dim[1] = 2 * n;
    t = tiny_tape_new(tape, TINY_F32, 2, dim);
    for (i = 0; t.data && !tiny_tape_dry(tape) && i < dim[0]; i++) {
        const float *x = (const float *)f->data + i * n, *m = (const float *)mask->data + i * n;
        float *to = (float *)t.data + i * 2 * n;
        for (k = 0; k < n; k++) {           /* a NaN outside must not come in */
            to[k] = m[k] != 0.0f ? x[k] : 0.0f;
            to[n + k] = m[k];
        }
    }
    return t;
}

static tiny_tensor tinyi_don_branch(tiny_tape *tape, const tgnn_deeponet *net, int b, const tiny_tensor *x)
{
    const tgnn_deeponet_branch *a = &net->desc.branch[b];
    size_t at = net->branch[b];
    tiny_tensor h = *x;
    tiny_idx dim[4];
    int i;
    if (a->conv) {
        dim[0] = x->dim[0];
        dim[1] = a->masked ? 2 : 1;
        dim[2] = a->side[0];
        dim[3] = a->side[1];
        h = tiny_tape_reshape(tape, x, 4, dim);
    }
    for (i = 0; i < a->conv && !tiny_tape_status(tape); i++, at += 2) {
        tiny_conv2d_params p;
        memset(&p, 0, sizeof p);
        p.stride[0] = p.stride[1] = 2;
        p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = 1;
        h = tiny_tape_call(tape, TINY_OP_CONV2D, &h, &net->params[at].value, &net->params[at + 1].value, NULL, &p);
        h = tinyi_don_act(tape, net, &h);
    }
    if (a->conv && !tiny_tape_status(tape)) {
        dim[1] = h.dim[1] * h.dim[2] * h.dim[3];
        h = tiny_tape_reshape(tape, &h, 2, dim);
    }
    return tinyi_don_layers(tape, net, at, tinyi_don_hidden(a->layers) + 1, 0, &h);
}

/* what all branches give: (samples, p) */
static tiny_tensor tinyi_don_terms(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q)
{
    tiny_tensor in[TGNN_DEEPONET_BRANCHES], h = tinyi_don_none(), all;
    int b;
    for (b = 0; b < net->desc.n_branches; b++)
        in[b] = net->desc.branch[b].masked ? tinyi_don_masked(tape, &q->in[b], q->mask) : q->in[b];
    if (tiny_tape_status(tape)) return h;
    if (net->desc.n_branches > net->n_nets) in[0] = tiny_tape_concat(tape, net->desc.n_branches, in, 1);
    for (b = 0; b < net->n_nets && !tiny_tape_status(tape); b++) {
        all = h;
        h = tinyi_don_branch(tape, net, b, &in[b]);
        if (b) h = tiny_tape_mul(tape, &all, &h);
    }
    return h;
}

/* m (B T' + b0); inside NULL: no m */
static tiny_tensor tinyi_don_sum(tiny_tape *tape, const tgnn_deeponet *net, const tiny_tensor *terms,
                                 const tiny_tensor *basis, const tiny_tensor *inside)
{
    tiny_tensor u = tiny_tape_linear(tape, terms, basis, NULL, TINY_ACT_NONE);
    u = tiny_tape_add(tape, &u, &net->params[net->end].value);
    return inside ? tiny_tape_mul(tape, &u, inside) : u;
}

TINY_API tiny_tensor tgnn_tape_deeponet(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q)
{
    tiny_tensor basis, terms;
    tiny_ctx *ctx;
    if (!tape || tiny_tape_status(tape)) return tinyi_don_none();
    ctx = tiny_tape_ctx(tape);
    if (tinyi_don_fits(ctx, net, q, !tiny_tape_dry(tape))) {
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
        return tinyi_don_none();
    }
    basis = q->basis ? *q->basis : tinyi_don_trunk(tape, net, q, 0, tinyi_don_points(net, q));
    terms = tinyi_don_terms(tape, net, q);
    if (tiny_tape_status(tape)) return tinyi_don_none();
    return tinyi_don_sum(tape, net, &terms, &basis, tinyi_don_inside(net, q));
}

/* ---- without a tape of the caller */

/* All pieces, or, dry, the first one. to: y, or for terms_too = 0 the basis. */
static tiny_status tinyi_don_steps(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                   int terms_too, const tiny_tensor *to)
{
    const tiny_idx points = tinyi_don_points(net, q), chunk = TINYI_MIN(points, TINYI_DON_CHUNK);
    const tiny_tensor *inside = terms_too ? tinyi_don_inside(net, q) : NULL;
    tiny_tensor terms = terms_too ? tinyi_don_terms(tape, net, q) : tinyi_don_none();
    const tiny_tape_mark mark = tiny_tape_now(tape);
    tiny_idx from, n;
    for (from = 0; from < points; from += n) {
        tiny_tensor t, part = *to, in;
        tiny_status st;
        n = TINYI_MIN(chunk, points - from);
        if (terms_too && q->basis) {
            t = *q->basis;
            t.data = (float *)t.data + from * net->desc.p;
            t.dim[0] = n;
        } else t = tinyi_don_trunk(tape, net, q, from, n);
        if (terms_too && !tiny_tape_status(tape)) {
            if (inside) {
                in = *inside;
                in.data = (float *)in.data + from;
                in.dim[1] = n;
            }
            t = tinyi_don_sum(tape, net, &terms, &t, inside ? &in : NULL);
        }
        st = tiny_tape_status(tape);
        if (st || tiny_tape_dry(tape)) return st;
        part.data = (float *)to->data + from * to->stride[terms_too ? 1 : 0];
        part.dim[terms_too ? 1 : 0] = n;
        st = tiny_copy(tiny_tape_ctx(tape), &t, &part);
        if (st) return st;
        tiny_tape_release(tape, mark);
    }
    return TINY_OK;
}

static tiny_status tinyi_don_on_tape(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                     int terms_too, const tiny_tensor *to)
{
    tiny_tape_desc d;
    tiny_tape *tape;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.dry = d.no_grad = 1;
    st = tiny_tape_open(ctx, &d, &tape);
    if (st) return st;
    st = tinyi_don_steps(tape, net, q, terms_too, to);
    d.bytes = tiny_tape_high(tape);
    d.dry = 0;
    tiny_tape_close(tape);
    if (!st) st = tiny_tape_open(ctx, &d, &tape);
    if (st) return st;
    st = tinyi_don_steps(tape, net, q, terms_too, to);
    tiny_tape_close(tape);
    return st;
}

TINY_API tiny_status tgnn_deeponet_run(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                       const tiny_tensor *y)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_don_fits(ctx, net, q, 1);
    if (!st) st = tinyi_don_tensor(ctx, y, "y", q->in[0].dim[0], tinyi_don_points(net, q));
    return st ? st : tinyi_don_on_tape(ctx, net, q, 1, y);
}

TINY_API tiny_status tgnn_deeponet_basis(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                         const tiny_tensor *basis)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !q || q->basis)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a network and a query without a basis are needed");
    if (q->points) st = tinyi_don_tensor(ctx, q->points, "the list of points", -1, net->desc.d);
    else if (net->desc.d > 3 || tinyi_don_points(net, q) < 1)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a list of points, or a grid of at most 3 axes, is needed");
    if (!st) st = tinyi_don_tensor(ctx, basis, "the basis", tinyi_don_points(net, q), net->desc.p);
    return st ? st : tinyi_don_on_tape(ctx, net, q, 0, basis);
}
