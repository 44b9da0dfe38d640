/* src/gnn/prune/cnn.c - small convolution networks with shortcuts
 * Paper    K. He et al., "Deep Residual Learning for Image Recognition", 2015 (arXiv 1512.03385).
 * Formula  layer: y = act(norm(w * x) + s), s = 0, the added signal, or norm'(w' * signal) with w' of 1 x 1.
 * Data     one block: trained numbers, their gradients, running values. */
#include "gnn/prune/cnn.h"
#include "math/layer.h"
#include "math/init.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_CNN_PARAMS (10 * TGNN_CNN_LAYERS)

struct tgnn_cnn {
    tiny_ctx *ctx;
    tgnn_cnn_desc is;
    tgnn_cnn_layer layer[TGNN_CNN_LAYERS];
    tgnn_cnn_at at[TGNN_CNN_LAYERS];
    size_t n_param, n_all, n_trained, n_number;
    tiny_param param[TINYI_CNN_PARAMS];
    char name[TINYI_CNN_PARAMS][32];
    void *numbers;
};

static tiny_tensor tinyi_cnn_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

TINYI_FN tiny_ctx *tinyi_cnn_ctx(const tgnn_cnn *cnn) { return cnn->ctx; }

static tiny_status tinyi_cnn_bad(const tgnn_cnn *cnn, size_t i, const char *why)
{
    return tinyi_fail(cnn->ctx, TINY_E_ARGUMENT, "cnn: layer %zu: %s", i, why);
}

/* One tensor; without memory only counted. grads: where the gradients begin, 0: it has none. */
static int tinyi_cnn_add(tgnn_cnn *cnn, size_t i, const char *what, int rank, const tiny_idx *dim, size_t *at,
                         size_t grads)
{
    tiny_param *p = &cnn->param[cnn->n_all];
    const size_t bytes = tiny_dtype_bytes(cnn->is.dtype);
    size_t n = 1;
    int k;
    for (k = 0; k < rank; k++)
        if (!tinyi_size_mul(n, (size_t)dim[k], &n)) return -1;
    (void)snprintf(cnn->name[cnn->n_all], sizeof cnn->name[0], "%u.%s", (unsigned)i, what);
    p->name = cnn->name[cnn->n_all];
    p->group = 0;
    if (cnn->numbers) {
        p->value = tiny_tensor_nd((unsigned char *)cnn->numbers + *at * bytes, cnn->is.dtype, rank, dim);
        p->grad = p->value;
        if (grads) p->grad.data = (unsigned char *)cnn->numbers + (grads + *at) * bytes;
    }
    cnn->n_all++;
    if (!tinyi_size_add(*at, n, at) || *at > UINT32_MAX / 4) return -1;
    return (int)cnn->n_all - 1;
}

/* Called twice: to count, and with memory. */
static tiny_status tinyi_cnn_lay(tgnn_cnn *cnn)
{
    const size_t grads = cnn->n_trained;
    tiny_idx dim[4], one[4];
    size_t i, at = 0;
    int ok = 1;
    cnn->n_all = 0;
    for (i = 0; i < cnn->is.n_layer; i++) {
        const tgnn_cnn_layer *l = &cnn->layer[i];
        const tiny_idx *from = i ? cnn->at[i - 1].shape : cnn->is.in;
        tgnn_cnn_at *a = &cnn->at[i];
        memset(a, -1, sizeof *a);
        a->side_stride = 1;
        a->shape[0] = l->n_out;
        a->shape[1] = l->size ? (from[1] - 1) / l->stride + 1 : 1;
        a->shape[2] = l->size ? (from[2] - 1) / l->stride + 1 : 1;
        dim[0] = l->n_out;
        dim[1] = from[0];
        dim[2] = dim[3] = l->size;
        a->weight = tinyi_cnn_add(cnn, i, "weight", l->size ? 4 : 2, dim, &at, grads);
        if (l->norm) ok &= (a->gain = tinyi_cnn_add(cnn, i, "gain", 1, dim, &at, grads)) >= 0;
        a->bias = tinyi_cnn_add(cnn, i, "bias", 1, dim, &at, grads);
        ok &= a->weight >= 0 && a->bias >= 0;
        if (l->add) {
            const tiny_idx *added = cnn->at[l->add - 1].shape;
            if (l->side) {
                one[0] = l->n_out;
                one[1] = added[0];
                one[2] = one[3] = 1;
                a->side_stride = (int)(added[1] / a->shape[1]);
                if (added[1] % a->shape[1] || added[2] != a->shape[2] * (tiny_idx)a->side_stride)
                    return tinyi_fail(cnn->ctx, TINY_E_SHAPE,
                                      "cnn: layer %zu: a shortcut from %td x %td to %td x %td", i, added[1], added[2],
                                      a->shape[1], a->shape[2]);
                a->side = tinyi_cnn_add(cnn, i, "side.weight", 4, one, &at, grads);
                a->side_gain = tinyi_cnn_add(cnn, i, "side.gain", 1, one, &at, grads);
                a->side_bias = tinyi_cnn_add(cnn, i, "side.bias", 1, one, &at, grads);
                ok &= a->side >= 0 && a->side_gain >= 0 && a->side_bias >= 0;
            } else if (memcmp(added, a->shape, sizeof a->shape))
                return tinyi_fail(cnn->ctx, TINY_E_SHAPE,
                                  "cnn: layer %zu: a shortcut of %td x %td x %td numbers to %td x %td x %td", i,
                                  added[0], added[1], added[2], a->shape[0], a->shape[1], a->shape[2]);
        }
    }
    cnn->n_param = cnn->n_all;
    cnn->n_trained = at;
    at *= 2;
    for (i = 0; i < cnn->is.n_layer; i++) {
        tgnn_cnn_at *a = &cnn->at[i];
        if (cnn->layer[i].norm) {
            a->mean = tinyi_cnn_add(cnn, i, "mean", 1, &a->shape[0], &at, 0);
            a->variance = tinyi_cnn_add(cnn, i, "variance", 1, &a->shape[0], &at, 0);
            ok &= a->mean >= 0 && a->variance >= 0;
        }
        if (a->side < 0) continue;
        a->side_mean = tinyi_cnn_add(cnn, i, "side.mean", 1, &a->shape[0], &at, 0);
        a->side_variance = tinyi_cnn_add(cnn, i, "side.variance", 1, &a->shape[0], &at, 0);
        ok &= a->side_mean >= 0 && a->side_variance >= 0;
    }
    cnn->n_number = at;
    return ok ? TINY_OK : tinyi_fail(cnn->ctx, TINY_E_OVERFLOW, "cnn: more than 2^30 numbers");
}

static tiny_status tinyi_cnn_check(tgnn_cnn *cnn)
{
    size_t i;
    for (i = 0; i < 3; i++) {
        if (i && !cnn->is.in[i]) cnn->is.in[i] = 1;
        if (cnn->is.in[i] < 1 || cnn->is.in[i] > 65536)
            return tinyi_fail(cnn->ctx, TINY_E_ARGUMENT, "cnn: an image of %td x %td x %td", cnn->is.in[0],
                              cnn->is.in[1], cnn->is.in[2]);
    }
    for (i = 0; i < cnn->is.n_layer; i++) {
        tgnn_cnn_layer *l = &cnn->layer[i];
        if (!l->stride) l->stride = 1;
        if (l->n_out < 1 || l->n_out > 65536) return tinyi_cnn_bad(cnn, i, "1 to 65536 outputs are allowed");
        if (l->size != 0 && l->size != 1 && l->size != 3) return tinyi_cnn_bad(cnn, i, "its size must be 0, 1 or 3");
        if (l->stride < 1 || l->stride > 8) return tinyi_cnn_bad(cnn, i, "a stride is 1 to 8");
        if (!l->size && (l->norm || l->stride != 1)) return tinyi_cnn_bad(cnn, i, "a matrix has no norm and no stride");
        if (i && l->size && !cnn->layer[i - 1].size) return tinyi_cnn_bad(cnn, i, "a convolution after a matrix");
        if (l->add < 0 || (size_t)l->add > i) return tinyi_cnn_bad(cnn, i, "it adds a signal that is not there yet");
        if (l->side && (!l->add || !l->size)) return tinyi_cnn_bad(cnn, i, "a side needs a convolution and a signal");
        if (l->add && !l->side && !l->size != !cnn->layer[l->add - 1].size)
            return tinyi_cnn_bad(cnn, i, "it adds an image to a vector");
    }
    if (cnn->layer[cnn->is.n_layer - 1].size)
        return tinyi_cnn_bad(cnn, cnn->is.n_layer - 1, "the last layer must be a matrix");
    return TINY_OK;
}

TINY_API void tgnn_cnn_close(tgnn_cnn *cnn)
{
    if (!cnn) return;
    tiny_free(cnn->ctx, cnn->numbers);
    tiny_free(cnn->ctx, cnn);
}

TINY_API tiny_status tgnn_cnn_open(tiny_ctx *ctx, const tgnn_cnn_desc *desc, tgnn_cnn **out)
{
    tgnn_cnn *cnn;
    tiny_rng rng;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->layer || desc->n_layer < 1 || desc->n_layer > TGNN_CNN_LAYERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cnn: 1 to %d layers and a result pointer are needed", TGNN_CNN_LAYERS);
    if (desc->dtype != TINY_F32 && desc->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "cnn: the weights are f32 or f64, not %s", tiny_dtype_name(desc->dtype));
    cnn = (tgnn_cnn *)tinyi_alloc(ctx, 1, sizeof *cnn);
    if (!cnn) return tiny_ctx_status(ctx);
    memset(cnn, 0, sizeof *cnn);
    cnn->ctx = ctx;
    cnn->is = *desc;
    memcpy(cnn->layer, desc->layer, desc->n_layer * sizeof *desc->layer);
    cnn->is.layer = cnn->layer;
    st = tinyi_cnn_check(cnn);
    if (!st) st = tinyi_cnn_lay(cnn);
    if (!st) {
        cnn->numbers = tinyi_alloc(ctx, cnn->n_number, tiny_dtype_bytes(desc->dtype));
        if (!cnn->numbers) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(cnn->numbers, 0, cnn->n_number * tiny_dtype_bytes(desc->dtype));
        st = tinyi_cnn_lay(cnn);
    }
    rng = tiny_rng_make(desc->seed, 0x636e6e);
    for (i = 0; !st && i < cnn->is.n_layer; i++) {
        const tgnn_cnn_at *a = &cnn->at[i];
        st = tiny_init_he(ctx, &rng, &cnn->param[a->weight].value, 0);
        if (!st && a->gain >= 0) st = tiny_init_constant(ctx, &cnn->param[a->gain].value, 1.0);
        if (!st && a->variance >= 0) st = tiny_init_constant(ctx, &cnn->param[a->variance].value, 1.0);
        if (st || a->side < 0) continue;
        st = tiny_init_he(ctx, &rng, &cnn->param[a->side].value, 0);
        if (!st) st = tiny_init_constant(ctx, &cnn->param[a->side_gain].value, 1.0);
        if (!st) st = tiny_init_constant(ctx, &cnn->param[a->side_variance].value, 1.0);
    }
    if (st) tgnn_cnn_close(cnn);
    else *out = cnn;
    return st;
}

TINY_API tiny_status tgnn_cnn_copy(const tgnn_cnn *cnn, tgnn_cnn **out)
{
    tiny_status st;
    if (out) *out = NULL;
    if (!cnn) return TINY_E_ARGUMENT;
    st = tgnn_cnn_open(cnn->ctx, &cnn->is, out);
    if (!st) memcpy((*out)->numbers, cnn->numbers, cnn->n_number * tiny_dtype_bytes(cnn->is.dtype));
    return st;
}

TINY_API const tgnn_cnn_desc *tgnn_cnn_is(const tgnn_cnn *cnn) { return cnn ? &cnn->is : NULL; }
TINY_API const tgnn_cnn_at *tgnn_cnn_layers(const tgnn_cnn *cnn) { return cnn ? cnn->at : NULL; }
TINY_API const tiny_param *tgnn_cnn_params(const tgnn_cnn *cnn, size_t *n, size_t *n_all)
{
    if (n) *n = cnn ? cnn->n_param : 0;
    if (n_all) *n_all = cnn ? cnn->n_all : 0;
    return cnn ? cnn->param : NULL;
}
TINY_API tiny_idx tgnn_cnn_channels(const tgnn_cnn *cnn, size_t signal)
{
    if (!cnn || signal > cnn->is.n_layer) return 0;
    return signal ? cnn->at[signal - 1].shape[0] : cnn->is.in[0];
}

TINY_API double tgnn_cnn_flops(const tgnn_cnn *cnn)
{
    double f = 0.0;
    size_t i;
    for (i = 0; cnn && i < cnn->is.n_layer; i++) {
        const tgnn_cnn_at *a = &cnn->at[i];
        double n = (double)tiny_tensor_count(&cnn->param[a->weight].value);
        if (a->side >= 0) n += (double)tiny_tensor_count(&cnn->param[a->side].value);
        f += 2.0 * n * (double)(a->shape[1] * a->shape[2]);
    }
    return f;
}

/* ---- the run */

static tiny_tensor tinyi_cnn_conv(tiny_tape *tape, const tgnn_cnn *cnn, const tiny_tensor *x, int weight, int stride,
                                  const tiny_tensor *bias)
{
    const tiny_tensor *w = &cnn->param[weight].value;
    tiny_conv2d_params p;
    memset(&p, 0, sizeof p);
    p.stride[0] = p.stride[1] = stride;
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = (int)w->dim[2] / 2;
    return tiny_tape_call(tape, TINY_OP_CONV2D, x, w, bias, NULL, &p);
}

static tiny_tensor tinyi_cnn_norm(tiny_tape *tape, const tgnn_cnn *cnn, const tiny_tensor *x, int gain, int bias,
                                  int mean, int variance, int train)
{
    tiny_batch_norm_params p;
    memset(&p, 0, sizeof p);
    p.train = train;
    return tiny_tape_batch_norm(tape, x, &cnn->param[gain].value, &cnn->param[bias].value, &cnn->param[mean].value,
                                &cnn->param[variance].value, &p);
}

TINY_API tiny_tensor tgnn_cnn_run(tiny_tape *tape, const tgnn_cnn *cnn, const tiny_tensor *x, int train)
{
    tiny_tensor signal[TGNN_CNN_LAYERS + 1], h, s;
    tiny_idx dim[3];
    size_t i;
    if (!tape || tiny_tape_status(tape)) return tinyi_cnn_none();
    if (!cnn || !x || tiny_tensor_check(x) || x->dtype != cnn->is.dtype || x->rank != 4 || x->dim[0] < 1 ||
        x->dim[1] != cnn->is.in[0] || x->dim[2] != cnn->is.in[1] || x->dim[3] != cnn->is.in[2]) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "cnn: x must be (at least 1, channels, height, width), of the type "
                                                    "of the weights");
        return tinyi_cnn_none();
    }
    signal[0] = *x;
    for (i = 0; i < cnn->is.n_layer; i++) {
        const tgnn_cnn_layer *l = &cnn->layer[i];
        const tgnn_cnn_at *a = &cnn->at[i];
        h = signal[i];
        if (l->size) {
            h = tinyi_cnn_conv(tape, cnn, &h, a->weight, l->stride, l->norm ? NULL : &cnn->param[a->bias].value);
            if (l->norm) h = tinyi_cnn_norm(tape, cnn, &h, a->gain, a->bias, a->mean, a->variance, train);
        } else {
            if (h.rank == 4) {              /* the mean over the image */
                dim[0] = h.dim[0];
                dim[1] = h.dim[1];
                dim[2] = h.dim[2] * h.dim[3];
                h = tiny_tape_reshape(tape, &h, 3, dim);
                h = tiny_tape_call(tape, TINY_OP_MEAN, &h, NULL, NULL, NULL, NULL);
            }
            h = tiny_tape_linear(tape, &h, &cnn->param[a->weight].value, &cnn->param[a->bias].value, TINY_ACT_NONE);
        }
        if (l->add) {
            s = signal[l->add];
            if (l->side) {
                s = tinyi_cnn_conv(tape, cnn, &s, a->side, a->side_stride, NULL);
                s = tinyi_cnn_norm(tape, cnn, &s, a->side_gain, a->side_bias, a->side_mean, a->side_variance, train);
            }
            h = tiny_tape_add(tape, &h, &s);
        }
        if (l->relu) h = tiny_tape_call(tape, TINY_OP_RELU, &h, NULL, NULL, NULL, NULL);
        if (tiny_tape_status(tape)) return tinyi_cnn_none();
        signal[i + 1] = h;
    }
    return h;
}

TINYI_FN tiny_status tinyi_cnn_set_check(const tgnn_cnn *cnn, const tgnn_images *set)
{
    const tiny_idx classes = cnn->layer[cnn->is.n_layer - 1].n_out;
    tiny_idx i;
    if (!set || tiny_tensor_check(&set->x) || tiny_tensor_check(&set->label) || set->x.dtype != TINY_F32 ||
        set->label.dtype != TINY_I32 || set->x.rank != 4 || set->label.rank != 1 || set->x.dim[0] < 1 ||
        set->x.dim[0] != set->label.dim[0] || set->x.dim[0] > INT32_MAX || !tiny_tensor_is_dense(&set->x) ||
        !tiny_tensor_is_dense(&set->label) || set->x.dim[1] != cnn->is.in[0] || set->x.dim[2] != cnn->is.in[1] ||
        set->x.dim[3] != cnn->is.in[2])
        return tinyi_fail(cnn->ctx, TINY_E_SHAPE,
                          "cnn: images are (n, %td, %td, %td) f32 and labels (n) i32, both dense", cnn->is.in[0],
                          cnn->is.in[1], cnn->is.in[2]);
    for (i = 0; i < set->label.dim[0]; i++)
        if (((const int32_t *)set->label.data)[i] < 0 || ((const int32_t *)set->label.data)[i] >= classes)
            return tinyi_fail(cnn->ctx, TINY_E_ARGUMENT,
                              "cnn: image %td has the label %d; there are classes 0 to %td", i,
                              (int)((const int32_t *)set->label.data)[i], classes - 1);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_cnn_rows(const tgnn_cnn *cnn, const tgnn_images *set, tiny_idx first, tiny_idx n,
                                    tgnn_images *out)
{
    const tiny_idx each = cnn->is.in[0] * cnn->is.in[1] * cnn->is.in[2];
    const size_t bytes = tiny_dtype_bytes(cnn->is.dtype);
    void *memory = tinyi_alloc(cnn->ctx, (size_t)n, (size_t)each * bytes + 4);
    tiny_idx i;
    memset(out, 0, sizeof *out);
    if (!memory) return tiny_ctx_status(cnn->ctx);
    out->x = tiny_tensor_nd(memory, cnn->is.dtype, 4, set->x.dim);
    out->x.dim[0] = n;
    out->label = tiny_tensor_1d((unsigned char *)memory + (size_t)(n * each) * bytes, TINY_I32, n);
    for (i = 0; i < n * each; i++)
        tinyi_real_set(memory, cnn->is.dtype, i, (double)((const float *)set->x.data)[first * each + i]);
    memcpy(out->label.data, (const int32_t *)set->label.data + first, (size_t)n * 4);
    return TINY_OK;
}

TINY_API tiny_status tgnn_cnn_right(const tgnn_cnn *cnn, const tgnn_images *set, tiny_idx *n_right)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_idx at, n, i, k, best, classes;
    tiny_status st;
    int dry;
    if (n_right) *n_right = 0;
    if (!cnn) return TINY_E_ARGUMENT;
    if (!n_right) return tinyi_fail(cnn->ctx, TINY_E_ARGUMENT, "cnn: a result pointer is needed");
    st = tinyi_cnn_set_check(cnn, set);
    if (st) return st;
    classes = cnn->layer[cnn->is.n_layer - 1].n_out;
    n = TINYI_MIN(set->x.dim[0], 250);
    memset(&d, 0, sizeof d);
    d.no_grad = 1;
    for (dry = 1; !st && dry >= 0; dry--) {
        d.dry = dry;
        st = tiny_tape_open(cnn->ctx, &d, &tape);
        for (at = 0; !st && at < (dry ? 1 : set->x.dim[0]); at += n) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            tgnn_images part;
            tiny_tensor y;
            st = tinyi_cnn_rows(cnn, set, at, TINYI_MIN(n, set->x.dim[0] - at), &part);
            if (st) break;
            y = tgnn_cnn_run(tape, cnn, &part.x, 0);
            st = tiny_tape_status(tape);
            for (i = 0; !st && !dry && i < part.x.dim[0]; i++) {
                for (best = 0, k = 1; k < classes; k++)
                    if (tinyi_real(y.data, y.dtype, i * classes + k) > tinyi_real(y.data, y.dtype, i * classes + best))
                        best = k;
                *n_right += ((const int32_t *)part.label.data)[i] == (int32_t)best;
            }
            tiny_free(cnn->ctx, part.x.data);
            tiny_tape_release(tape, mark);
        }
        d.bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    return st;
}

/* ---- training */

typedef struct tinyi_cnn_fit { const tgnn_cnn *cnn; tgnn_images set; const tgnn_cnn_fit_desc *d; } tinyi_cnn_fit;

static tiny_tensor tinyi_cnn_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tinyi_cnn_fit *f = (const tinyi_cnn_fit *)user;
    const tiny_tensor x = tiny_tape_rows(tape, &f->set.x, sample, n),
                      label = tiny_tape_rows(tape, &f->set.label, sample, n);
    const tiny_tensor y = tgnn_cnn_run(tape, f->cnn, &x, 1);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}

static int tinyi_cnn_step(void *user, const tiny_train_state *state)
{
    const tinyi_cnn_fit *f = (const tinyi_cnn_fit *)user;
    return f->d->callback(f->d->user, state);
}

TINY_API tiny_status tgnn_cnn_fit(tgnn_cnn *cnn, const tgnn_images *set, const tgnn_cnn_fit_desc *desc)
{
    tgnn_cnn_fit_desc d;
    tinyi_cnn_fit f;
    tiny_train_desc t;
    tiny_status st;
    if (!cnn) return TINY_E_ARGUMENT;
    st = tinyi_cnn_set_check(cnn, set);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    memset(&t, 0, sizeof t);
    if (!(d.lr >= 0.0 && d.lr < 1e6))
        return tinyi_fail(cnn->ctx, TINY_E_ARGUMENT, "cnn: a rate of %g is not in 0 (the default) to 1e6", d.lr);
    f.cnn = cnn;
    f.d = &d;
    st = tinyi_cnn_rows(cnn, set, 0, set->x.dim[0], &f.set);
    if (st) return st;
    t.params = cnn->param;
    t.n_params = cnn->n_param;
    t.model = tinyi_cnn_loss;
    t.callback = d.callback ? tinyi_cnn_step : NULL;
    t.user = &f;
    t.n_samples = (uint32_t)set->x.dim[0];
    t.batch = d.batch ? d.batch : TINYI_MIN(50, set->x.dim[0]);
    t.epochs = d.epochs ? d.epochs : 10;
    t.seed = d.seed;
    t.optim.group[0].kind = TINY_OPTIM_SGD;
    t.optim.group[0].lr = d.lr != 0.0 ? d.lr : 0.05;
    t.optim.group[0].momentum = 0.9;
    t.optim.group[0].nesterov = 1;
    t.optim.group[0].decay = 5e-4;
    t.schedule.kind = TINY_SCHEDULE_COSINE;
    st = tiny_train(cnn->ctx, &t, NULL);
    tiny_free(cnn->ctx, f.set.x.data);
    return st;
}
