/* src/llm/lab/nets/share_net.c - files of shared parameters, and networks that train with them
 * Step     W = gather(z); the loss and dL/dW of the network; dz = fold(dL/dW) / (1e-12 + A); the optimiser moves z.
 *          Dividing comes before the moments: with A = sum lambda^2 a plain step moves W[i] by the average of the plain
 *          gradients of the weights that share its number, whatever s0 is. Adam divides by the size of the gradient
 *          itself: its steps of W are lambda times the rate, so choose s0 near sigma (1/8 fits layers of 128).
 * Data     the gradient of z and the factors, 2 m numbers; moments of the optimiser, 2 m. */
#include "llm/lab/nets/nn_inside.h"
#include "llm/lab/nets/share.h"
#include "math/elem.h"
#include "math/layer.h"
#include "core/box/checkpoint.h"
#include "core/state_inside.h"
#include <string.h>

/* ---- files */

TINY_API size_t tllm_share_bytes(const tllm_share *s)
{
    const tllm_share_desc *d = tllm_share_is(s);
    return d ? 4 * d->m + 24 * d->n_matrix + 72 : 0;    /* rows, cols, sigma; map, tile, seed, r, plain, s0 */
}

TINY_API tiny_status tllm_share_save(const tllm_share *s, const char *path)
{
    tiny_checkpoint_writer_desc wd;
    tiny_checkpoint_writer *f = NULL;
    const tllm_share_desc *d = tllm_share_is(s);
    tiny_ctx *ctx = tinyi_share_ctx(s);
    int64_t *shape;
    double *sigma;
    int64_t head[8];
    tiny_tensor t;
    size_t k;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a path is needed");
    shape = (int64_t *)tinyi_alloc(ctx, 2 * d->n_matrix, sizeof *shape);
    sigma = shape ? (double *)tinyi_alloc(ctx, d->n_matrix, sizeof *sigma) : NULL;
    if (!sigma) {
        tiny_free(ctx, shape);
        return tiny_ctx_status(ctx);
    }
    for (k = 0; k < d->n_matrix; k++) {
        shape[2 * k] = (int64_t)d->matrix[k].rows;
        shape[2 * k + 1] = (int64_t)d->matrix[k].cols;
        sigma[k] = d->matrix[k].sigma;
    }
    head[0] = d->map;
    head[1] = d->plain != 0;
    head[2] = (int64_t)d->tile[0];
    head[3] = (int64_t)d->tile[1];
    head[4] = (int64_t)d->seed;
    for (k = 0; k < 3; k++) head[5 + k] = (int64_t)d->r[k];
    memset(&wd, 0, sizeof wd);
    wd.path = path;
    st = tiny_checkpoint_create(ctx, &wd, &f);
    t = tiny_tensor_1d(head, TINY_I64, 8);
    if (!st) st = tiny_checkpoint_put_tensor(ctx, f, "share", &t);
    if (!st) st = tiny_checkpoint_put_f64(ctx, f, "s0", d->s0);
    t = tiny_tensor_1d(shape, TINY_I64, (tiny_idx)(2 * d->n_matrix));
    if (!st) st = tiny_checkpoint_put_tensor(ctx, f, "shape", &t);
    t = tiny_tensor_1d(sigma, TINY_F64, (tiny_idx)d->n_matrix);
    if (!st) st = tiny_checkpoint_put_tensor(ctx, f, "sigma", &t);
    t = tiny_tensor_1d(tinyi_share_z(s), TINY_F32, (tiny_idx)d->m);
    if (!st) st = tiny_checkpoint_put_tensor(ctx, f, "z", &t);
    if (!st) st = tiny_checkpoint_finish(ctx, f);
    tiny_checkpoint_writer_close(ctx, f);
    tiny_free(ctx, sigma);
    tiny_free(ctx, shape);
    return st;
}

/* The entry as a list of that type, with at least one number. */
static const tiny_checkpoint_entry *tinyi_share_list(const tiny_checkpoint *c, const char *name, tiny_dtype type)
{
    const tiny_checkpoint_entry *e = tiny_checkpoint_find(c, name);
    return e && e->kind == TINY_CHECKPOINT_TENSOR && e->dtype == type && e->rank == 1 && e->dim[0] > 0 ? e : NULL;
}

TINY_API tiny_status tllm_share_load(tiny_ctx *ctx, const char *path, tllm_share **out)
{
    tiny_checkpoint_desc cd;
    tiny_checkpoint *c = NULL;
    const tiny_checkpoint_entry *shape_of, *sigma_of, *z_of;
    tllm_share_matrix *matrix = NULL;
    tllm_share_desc d;
    tllm_share *s = NULL;
    int64_t *shape = NULL, head[8];
    double *sigma = NULL;
    tiny_tensor t;
    size_t k, n = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a path and a result pointer are needed");
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.path = path;
    st = tiny_checkpoint_open(ctx, &cd, &c);
    if (st) return st;
    shape_of = tinyi_share_list(c, "shape", TINY_I64);
    sigma_of = tinyi_share_list(c, "sigma", TINY_F64);
    z_of = tinyi_share_list(c, "z", TINY_F32);
    if (!shape_of || !sigma_of || !z_of || shape_of->dim[0] / 2 != sigma_of->dim[0] || shape_of->dim[0] % 2)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "share: %s: shapes, deviations or numbers are missing", path);
    t = tiny_tensor_1d(head, TINY_I64, 8);
    if (!st) st = tiny_checkpoint_get_tensor(ctx, c, "share", &t);
    if (!st) st = tiny_checkpoint_get_f64(ctx, c, "s0", &d.s0);
    if (!st) {
        n = (size_t)sigma_of->dim[0];
        matrix = (tllm_share_matrix *)tinyi_alloc(ctx, n, sizeof *matrix);
        shape = matrix ? (int64_t *)tinyi_alloc(ctx, 2 * n, sizeof *shape) : NULL;
        sigma = shape ? (double *)tinyi_alloc(ctx, n, sizeof *sigma) : NULL;
        if (!sigma) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        t = tiny_tensor_1d(shape, TINY_I64, (tiny_idx)(2 * n));
        st = tiny_checkpoint_get_tensor(ctx, c, "shape", &t);
    }
    if (!st) {
        t = tiny_tensor_1d(sigma, TINY_F64, (tiny_idx)n);
        st = tiny_checkpoint_get_tensor(ctx, c, "sigma", &t);
    }
    for (k = 0; !st && k < n; k++) {
        matrix[k].rows = shape[2 * k] > 0 && shape[2 * k] <= INT32_MAX ? (tiny_idx)shape[2 * k] : 0;
        matrix[k].cols = shape[2 * k + 1] > 0 && shape[2 * k + 1] <= INT32_MAX ? (tiny_idx)shape[2 * k + 1] : 0;
        matrix[k].sigma = sigma[k];
    }
    if (!st && (head[0] < 0 || head[0] >= TLLM_SHARE_MAPS || head[2] < 1 || head[3] < 1 || head[2] > INT32_MAX ||
                head[3] > INT32_MAX || !(d.s0 > 0.0)))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "share: %s: an unknown map, or tiles or a deviation out of range", path);
    if (!st) {
        d.matrix = matrix;
        d.n_matrix = n;
        d.m = (size_t)z_of->dim[0];
        d.map = (int)head[0];
        d.plain = head[1] != 0;
        d.tile[0] = (tiny_idx)head[2];
        d.tile[1] = (tiny_idx)head[3];
        d.seed = (uint64_t)head[4];
        for (k = 0; k < 3; k++) d.r[k] = (uint64_t)head[5 + k];
        st = tllm_share_open(ctx, &d, &s);
    }
    if (!st) {
        t = tiny_tensor_1d(tllm_share_memory(s), TINY_F32, (tiny_idx)d.m);
        st = tiny_checkpoint_get_tensor(ctx, c, "z", &t);
    }
    tiny_free(ctx, sigma);
    tiny_free(ctx, shape);
    tiny_free(ctx, matrix);
    tiny_checkpoint_close(ctx, c);
    if (st) tllm_share_close(s);
    else *out = s;
    return st;
}

/* ---- networks */

TINY_API tiny_status tllm_nn_share(const tllm_nn *nn, const tllm_share_desc *desc, tllm_share **out)
{
    tllm_share_matrix matrix[TLLM_NN_LAYERS];
    tllm_share_desc d;
    const tllm_nn_weight *w;
    size_t k, n;
    if (out) *out = NULL;
    if (!nn) return TINY_E_ARGUMENT;
    if (!desc || !out || desc->matrix || desc->n_matrix)
        return tinyi_fail(tinyi_nn_ctx(nn), TINY_E_ARGUMENT,
                          "share: a description without matrices and a result pointer are needed");
    w = tllm_nn_weights(nn, &n);
    for (k = 0; k < n; k++) {
        matrix[k].rows = w[k].value.dim[0];
        matrix[k].cols = tiny_tensor_count(&w[k].value) / w[k].value.dim[0];
        matrix[k].sigma = tinyi_sqrt64(2.0 / (double)matrix[k].cols);
    }
    d = *desc;
    d.matrix = matrix;
    d.n_matrix = n;
    return tllm_share_open(tinyi_nn_ctx(nn), &d, out);
}

static tiny_status tinyi_share_fits(const tllm_nn *nn, const tllm_share *s)
{
    const tllm_share_desc *d = tllm_share_is(s);
    const tllm_nn_weight *w;
    size_t k, n;
    w = tllm_nn_weights(nn, &n);
    if (!d || tllm_nn_is(nn)->dtype != TINY_F32 || tllm_nn_masked(nn))
        return tinyi_fail(tinyi_nn_ctx(nn), TINY_E_ARGUMENT, "share: an f32 network without a mask, and a share of it");
    for (k = 0; k < n && k < d->n_matrix; k++)
        if (w[k].value.dim[0] != d->matrix[k].rows ||
            tiny_tensor_count(&w[k].value) != d->matrix[k].rows * d->matrix[k].cols)
            break;
    if (k < n || n != d->n_matrix)
        return tinyi_fail(tinyi_nn_ctx(nn), TINY_E_SHAPE, "share: its %zu matrices are not the %zu of the network",
                          d->n_matrix, n);
    return TINY_OK;
}

static tiny_status tinyi_share_to(const tllm_nn *nn, const tllm_share *s)
{
    size_t k, n;
    const tllm_nn_weight *w = tllm_nn_weights(nn, &n);
    tiny_status st = TINY_OK;
    for (k = 0; !st && k < n; k++) st = tllm_share_gather(s, k, &w[k].value);
    return st;
}

TINY_API tiny_status tllm_nn_share_weights(tllm_nn *nn, const tllm_share *s)
{
    tiny_status st;
    if (!nn) return TINY_E_ARGUMENT;
    st = tinyi_share_fits(nn, s);
    return st ? st : tinyi_share_to(nn, s);
}

typedef struct tinyi_share_fit {
    tllm_nn *nn;
    tllm_share *share;
    const tllm_share_fit_desc *d;
    tllm_nn_set set;
    tllm_nn_fit_state state;
    float *grad, *factor;                   /* of z */
    tiny_status st;
} tinyi_share_fit;

static tiny_tensor tinyi_share_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tinyi_share_fit *f = (const tinyi_share_fit *)user;
    return tinyi_nn_loss(tape, f->nn, &f->set, sample, n);
}

static tiny_status tinyi_share_gradients(void *user)
{
    tinyi_share_fit *f = (tinyi_share_fit *)user;
    const size_t m = tllm_share_is(f->share)->m;
    size_t k, i, n;
    const tllm_nn_weight *w = tllm_nn_weights(f->nn, &n);
    tiny_status st = TINY_OK;
    for (k = 0; !st && k < n; k++) st = tllm_share_fold(f->share, k, &w[k].grad, f->grad);
    for (i = 0; !st && i < m; i++) f->grad[i] *= f->factor[i];
    return st;
}

static int tinyi_share_step(void *user, const tiny_train_state *s)
{
    tinyi_share_fit *f = (tinyi_share_fit *)user;
    f->st = tinyi_share_to(f->nn, f->share);
    f->state.step = s->step;
    f->state.steps = s->steps;
    f->state.loss = s->loss;
    return f->st || (f->d->fit.callback && f->d->fit.callback(f->d->fit.user, &f->state));
}

TINY_API tiny_status tllm_nn_share_fit(tllm_nn *nn, tllm_share *share, const tllm_nn_set *set,
                                       const tllm_share_fit_desc *desc, tllm_nn_fit_state *last)
{
    tiny_param param[3 * TLLM_NN_LAYERS + 1];
    tllm_share_fit_desc zero;
    tinyi_share_fit f;
    tiny_train_desc t;
    const tiny_param *p;
    tiny_ctx *ctx;
    double lr;
    size_t n_param, n_weight, m;
    tiny_status st;
    if (last) memset(last, 0, sizeof *last);
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    memset(&zero, 0, sizeof zero);
    memset(&f, 0, sizeof f);
    memset(&t, 0, sizeof t);
    f.nn = nn;
    f.share = share;
    f.d = desc ? desc : &zero;
    lr = f.d->fit.lr != 0.0 ? f.d->fit.lr : f.d->sgd ? 1e-2 : 2e-3;
    st = tinyi_share_fits(nn, share);
    if (!st) st = tinyi_nn_set_check(ctx, set, tllm_nn_is(nn)->layer[tllm_nn_is(nn)->n_layer - 1].n_out);
    if (!st && (f.d->fit.gradual || !(lr > 0.0 && lr < 1e6)))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a rate of %g in 0 to 1e6 is needed, and no gradual pruning", lr);
    if (st) return st;
    f.set = *set;
    m = tllm_share_is(share)->m;
    f.grad = (float *)tinyi_alloc(ctx, 2 * m, sizeof *f.grad);
    if (!f.grad) return tiny_ctx_status(ctx);
    f.factor = f.grad + m;
    st = tllm_share_rates(share, f.d->scale, f.factor);
    if (!st) st = tinyi_share_to(nn, share);
    p = tllm_nn_params(nn, &n_param);
    (void)tllm_nn_weights(nn, &n_weight);
    memset(&param[0], 0, sizeof param[0]);
    param[0].name = "z";
    param[0].value = tiny_tensor_1d(tllm_share_memory(share), TINY_F32, (tiny_idx)m);
    param[0].grad = tiny_tensor_1d(f.grad, TINY_F32, (tiny_idx)m);
    memcpy(param + 1, p + n_weight, (n_param - n_weight) * sizeof *p);
    t.params = param;
    t.n_params = n_param - n_weight + 1;
    t.model = tinyi_share_loss;
    t.gradients = tinyi_share_gradients;
    t.callback = tinyi_share_step;
    t.user = &f;
    t.n_samples = (uint32_t)f.set.x.dim[0];
    t.batch = f.d->fit.batch ? f.d->fit.batch : TINYI_MIN(100, f.set.x.dim[0]);
    t.epochs = f.d->fit.epochs ? f.d->fit.epochs : 25;
    t.seed = f.d->fit.seed;
    t.first = f.d->fit.first;
    t.optim.group[0].kind = t.optim.group[1].kind = f.d->sgd ? TINY_OPTIM_SGD : TINY_OPTIM_ADAM;
    t.optim.group[0].lr = t.optim.group[1].lr = lr;
    t.schedule.kind = TINY_SCHEDULE_COSINE;
    f.state.n_kept = m;
    if (!st) st = tiny_train(ctx, &t, NULL);
    if (!st) st = f.st;
    tiny_free(ctx, f.grad);
    if (last) *last = f.state;
    return st;
}
