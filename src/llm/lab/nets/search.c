/* src/llm/lab/nets/search.c - TAS: a search for widths and depths under a limit of cost
 * Paper    X. Dong, Y. Yang, "Network Pruning via Transformable Architecture Search", 2019 (arXiv 1905.09717), eq. 1-7.
 * Formula  width of a convolution, with two drawn choices a, b: y = relu(w_a CWI(N_a(z[:C_a])) +
 *          w_b CWI(N_b(z[:C_b])) + shortcut), z = the whole convolution of an input filled up with zeros, N_j
 *          the batch norm of choice j, CWI the mean of neighbouring channels, to max(C_a, C_b); (w_a, w_b) =
 *          softmax(o_a, o_b), o = (log softmax(alpha) + gumbel) / tau. The normaliser cancels:
 *          dL/dalpha_a = (dL/dw_a - dL/dw_b) w_a w_b / tau = -dL/dalpha_b.
 *          depth of a stage, all choices: x = sum over d of q_d CWI(result of block d), q = softmax(o);
 *          dL/dbeta_d = q_d (g_d - sum over e of q_e g_e) / tau, g = dL/dq.
 *          cost: F of the largest logits above the target: + log E[F]; below target - slack: - log E[F]; else 0.
 * Fast     only the first max(C_a, C_b) filters, of the channels that the input has: views of the weights.
 * Data     one block: weights, a gain and a bias for each width of each convolution, a matrix; then their gradients.
 *          The step of the logits records nothing of the weights: only the weights w and q of the choices are
 *          parameters of its tape.
 * Left out no running values of norms: the network of the search is never evaluated. */
#include "llm/lab/nets/search.h"
#include "math/layer.h"
#include "math/init.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

#define TINYI_SUPER_PARAMS (TLLM_SPACE_CONVS * (1 + 2 * TLLM_SPACE_WIDTHS) + 2)
#define TINYI_SUPER_MIX (2 * TLLM_SPACE_CONVS + TLLM_SPACE_STAGES * TLLM_SPACE_DEPTHS)

struct tllm_supernet {
    tiny_ctx *ctx;
    tllm_space space;
    tiny_dtype dtype;
    int whole;
    size_t n_conv, n_param;
    size_t weight[TLLM_SPACE_CONVS];        /* its parameter; the gain of choice j is 1 + 2 j further, then the bias */
    tiny_param param[TINYI_SUPER_PARAMS];
    char name[TINYI_SUPER_PARAMS][24];
    void *numbers;
    tiny_idx width[TLLM_SPACE_CONVS][TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS];
    size_t n_depth[TLLM_SPACE_STAGES];
    double mix_value[TINYI_SUPER_MIX], mix_grad[TINYI_SUPER_MIX];       /* room for either type */
    tiny_param mix;
    tiny_tape *tape[2];                     /* of the weights, of the logits */
    size_t room[2];
};

static tiny_tensor tinyi_super_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

/* ---- the network */

static int tinyi_super_add(tllm_supernet *net, size_t conv, const char *what, int rank, const tiny_idx *dim, size_t *at,
                           size_t grads)
{
    tiny_param *p = &net->param[net->n_param];
    const size_t bytes = tiny_dtype_bytes(net->dtype);
    size_t n = 1;
    int i;
    for (i = 0; i < rank; i++)
        if (!tinyi_size_mul(n, (size_t)dim[i], &n)) return 0;
    (void)snprintf(net->name[net->n_param], sizeof net->name[0], "%u.%s", (unsigned)conv, what);
    p->name = net->name[net->n_param++];
    if (net->numbers) {
        p->value = tiny_tensor_nd((unsigned char *)net->numbers + *at * bytes, net->dtype, rank, dim);
        p->grad = p->value;
        p->grad.data = (unsigned char *)net->numbers + (grads + *at) * bytes;
    }
    return tinyi_size_add(*at, n, at) && *at <= UINT32_MAX / 4;
}

/* Channels that reach each convolution, with everything as wide as it can be. Called twice, as in resnet.c. */
static int tinyi_super_lay(tllm_supernet *net, size_t *count)
{
    const tllm_space *g = &net->space;
    size_t s, b, l, j, n, at = 0;
    tiny_idx dim[4], c = g->in[0];
    int ok = 1;
    net->n_param = 0;
    dim[2] = dim[3] = 3;
    for (s = 0; s <= g->n_stage; s++) {
        const size_t convs = s ? 2 * (size_t)g->stage[s - 1].blocks : 1, first = s ? tinyi_space_first(g, s - 1) : 0;
        tiny_idx in = c;
        for (b = 0; b < convs; b++) {
            l = first + b;
            n = tllm_space_widths(g, l, net->width[l]);
            dim[0] = net->width[l][n - 1];
            dim[1] = in;
            net->weight[l] = net->n_param;
            ok = ok && tinyi_super_add(net, l, "weight", 4, dim, &at, *count);
            for (j = 0; j < n; j++) {
                ok = ok && tinyi_super_add(net, l, "gain", 1, &net->width[l][j], &at, *count);
                ok = ok && tinyi_super_add(net, l, "bias", 1, &net->width[l][j], &at, *count);
            }
            in = dim[0];
            if (!s) c = in;
            else if (b % 2) in = c = g->plain ? in : TINYI_MAX(c, in);
        }
    }
    dim[0] = g->n_class;
    dim[1] = c;
    ok = ok && tinyi_super_add(net, net->n_conv, "head", 2, dim, &at, *count);
    ok = ok && tinyi_super_add(net, net->n_conv, "bias", 1, dim, &at, *count);
    *count = at;
    return ok;
}

TINY_API void tllm_supernet_close(tllm_supernet *net)
{
    if (!net) return;
    tiny_tape_close(net->tape[0]);
    tiny_tape_close(net->tape[1]);
    tiny_free(net->ctx, net->numbers);
    tiny_free(net->ctx, net);
}

TINY_API tiny_status tllm_supernet_open(tiny_ctx *ctx, const tllm_space *space, const tllm_tas_desc *desc,
                                        tllm_supernet **out)
{
    tllm_supernet *net;
    tllm_shape full;
    tiny_rng rng;
    size_t n = 0, l, s, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "search: a description and a result pointer are needed");
    if (desc->dtype != TINY_F32 && desc->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "search: the weights are f32 or f64, not %s",
                          tiny_dtype_name(desc->dtype));
    st = tllm_space_full(ctx, space, &full);
    if (st) return st;
    net = (tllm_supernet *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->space = *space;
    net->dtype = desc->dtype;
    net->whole = desc->whole;
    net->n_conv = tllm_space_convs(space);
    for (s = 0; s < space->n_stage; s++) net->n_depth[s] = tllm_space_depths(space, s, net->depth[s]);
    if (!tinyi_super_lay(net, &n)) st = tinyi_fail(ctx, TINY_E_OVERFLOW, "search: more than 2^30 weights");
    else {
        net->numbers = tinyi_alloc(ctx, 2 * n, tiny_dtype_bytes(desc->dtype));
        if (!net->numbers) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(net->numbers, 0, 2 * n * tiny_dtype_bytes(desc->dtype));
        (void)tinyi_super_lay(net, &n);
        rng = tiny_rng_make(desc->seed, 0x737570);
        for (i = 0; !st && i < net->n_param; i++)
            if (net->param[i].value.rank > 1) st = tiny_init_he(ctx, &rng, &net->param[i].value, 0);
        for (l = 0; !st && l < net->n_conv; l++) {
            const size_t end = l + 1 < net->n_conv ? net->weight[l + 1] : net->n_param - 2;
            for (i = net->weight[l] + 1; !st && i < end; i += 2)
                st = tiny_init_constant(ctx, &net->param[i].value, 1.0);
        }
        net->mix.name = "mix";
        net->mix.value = tiny_tensor_1d(net->mix_value, net->dtype, TINYI_SUPER_MIX);
        net->mix.grad = tiny_tensor_1d(net->mix_grad, net->dtype, TINYI_SUPER_MIX);
    }
    if (st) tllm_supernet_close(net);
    else *out = net;
    return st;
}

TINY_API const tiny_param *tllm_supernet_params(const tllm_supernet *net, size_t *n)
{
    if (n) *n = net ? net->n_param : 0;
    return net ? net->param : NULL;
}

/* ---- draws */

TINY_API double tllm_tas_tau(double progress)
{
    return 0.1 + 4.9 * (1.0 + tinyi_cos64(3.14159265358979323846 * progress)) / 2.0;
}

static double tinyi_super_gumbel(tiny_rng *rng)
{
    double u;
    do u = tiny_rng_uniform64(rng);
    while (!(u > 0.0));
    u = -tinyi_log64(u);                    /* Exp(1); of the largest u still above 0 */
    return -tinyi_log64(u);
}

static size_t tinyi_super_pick(const double *p, size_t n, size_t not_this, tiny_rng *rng)
{
    double sum = 0.0, u;
    size_t j, last = n;
    for (j = 0; j < n; j++)
        if (j != not_this) sum += p[j] + 1e-7;
    u = tiny_rng_uniform64(rng) * sum;
    for (j = 0; j < n; j++) {
        if (j == not_this) continue;
        last = j;
        u -= p[j] + 1e-7;
        if (u < 0.0) break;
    }
    return last;
}

TINY_API void tllm_supernet_draw(const tllm_supernet *net, const tllm_logits *logits, double tau, tiny_rng *rng,
                                 tllm_draws *draws)
{
    double p[TLLM_SPACE_WIDTHS];
    tiny_idx width[TLLM_SPACE_WIDTHS];
    size_t l, s, j, n;
    if (!net || !logits || !rng || !draws) return;
    memset(draws, 0, sizeof *draws);
    draws->tau = tau;
    for (l = 0; l < net->n_conv; l++) {
        n = tllm_space_widths(&net->space, l, width);
        for (j = 0; j < n; j++) draws->gumbel.width[l][j] = tinyi_super_gumbel(rng);
        tllm_space_soften(n, logits->width[l], draws->gumbel.width[l], tau, NULL, p);
        draws->pair[l][0] = tinyi_super_pick(p, n, n, rng);
        draws->pair[l][1] = n > 1 ? tinyi_super_pick(p, n, draws->pair[l][0], rng) : draws->pair[l][0];
    }
    for (s = 0; s < net->space.n_stage; s++)
        for (j = 0; j < net->n_depth[s]; j++) draws->gumbel.depth[s][j] = tinyi_super_gumbel(rng);
}

/* The weights of the choices into mix. */
static void tinyi_super_mix(tllm_supernet *net, const tllm_logits *logits, const tllm_draws *d)
{
    double o[TLLM_SPACE_DEPTHS], p[TLLM_SPACE_DEPTHS], w[2];
    tiny_idx width[TLLM_SPACE_WIDTHS];
    size_t l, s, j, n;
    for (l = 0; l < net->n_conv; l++) {
        n = tllm_space_widths(&net->space, l, width);
        tllm_space_soften(n, logits->width[l], d->gumbel.width[l], d->tau, o, p);
        tllm_space_pair(o[d->pair[l][0]], o[d->pair[l][1]], w);
        for (j = 0; j < 2; j++) tinyi_real_set(net->mix_value, net->dtype, (tiny_idx)(2 * l + j), w[j]);
    }
    for (s = 0; s < net->space.n_stage; s++) {
        tllm_space_soften(net->n_depth[s], logits->depth[s], d->gumbel.depth[s], d->tau, NULL, p);
        for (j = 0; j < net->n_depth[s]; j++)
            tinyi_real_set(net->mix_value, net->dtype,
                           (tiny_idx)(2 * TLLM_SPACE_CONVS + s * TLLM_SPACE_DEPTHS + j), p[j]);
    }
}

/* The gradient of mix to that of the logits. */
static void tinyi_super_back(const tllm_supernet *net, const tllm_draws *d, tllm_logits *g)
{
    size_t l, s, j;
    memset(g, 0, sizeof *g);
    for (l = 0; l < net->n_conv; l++) {
        const tiny_idx at = (tiny_idx)(2 * l);
        const double w_a = tinyi_real(net->mix_value, net->dtype, at);
        const double w_b = tinyi_real(net->mix_value, net->dtype, at + 1);
        const double by = (tinyi_real(net->mix_grad, net->dtype, at) - tinyi_real(net->mix_grad, net->dtype, at + 1)) *
                          w_a * w_b / d->tau;
        if (d->pair[l][0] == d->pair[l][1]) continue;
        g->width[l][d->pair[l][0]] += by;
        g->width[l][d->pair[l][1]] -= by;
    }
    for (s = 0; s < net->space.n_stage; s++) {
        const tiny_idx at = (tiny_idx)(2 * TLLM_SPACE_CONVS + s * TLLM_SPACE_DEPTHS);
        double mean = 0.0;
        for (j = 0; j < net->n_depth[s]; j++)
            mean += tinyi_real(net->mix_value, net->dtype, at + (tiny_idx)j) *
                    tinyi_real(net->mix_grad, net->dtype, at + (tiny_idx)j);
        for (j = 0; j < net->n_depth[s]; j++)
            g->depth[s][j] = tinyi_real(net->mix_value, net->dtype, at + (tiny_idx)j) *
                             (tinyi_real(net->mix_grad, net->dtype, at + (tiny_idx)j) - mean) / d->tau;
    }
}

/* ---- the run */

static tiny_tensor tinyi_super_weighed(tiny_tape *tape, const tllm_supernet *net, const tiny_tensor *x, size_t mix)
{
    tiny_tensor w = net->mix.value;
    w.data = (unsigned char *)w.data + mix * tiny_dtype_bytes(net->dtype);
    w.rank = 0;
    return tiny_tape_mul(tape, x, &w);
}

static tiny_tensor tinyi_super_pool(tiny_tape *tape, const tiny_tensor *x, tiny_idx n)
{
    return tiny_tape_status(tape) || x->dim[1] == n ? *x : tiny_tape_channel_pool(tape, x, n);
}

/* Zeros up to c channels, where the formula is computed as it is written. */
static tiny_tensor tinyi_super_fill(tiny_tape *tape, const tllm_supernet *net, const tiny_tensor *x, tiny_idx c)
{
    const tiny_idx none[4] = { 0, 0, 0, 0 };
    tiny_idx more[4] = { 0, 0, 0, 0 };
    if (tiny_tape_status(tape) || !net->whole || x->dim[1] == c) return *x;
    more[1] = c - x->dim[1];
    return tiny_tape_pad(tape, x, none, more);
}

static tiny_tensor tinyi_super_conv(tiny_tape *tape, const tllm_supernet *net, size_t l, const tiny_tensor *x,
                                    int stride, const tllm_draws *d)
{
    const tiny_param *p = &net->param[net->weight[l]];
    const tiny_idx c_a = net->width[l][d->pair[l][0]], c_b = net->width[l][d->pair[l][1]], c = TINYI_MAX(c_a, c_b);
    tiny_tensor w = p->value, h, z, part[2];
    tiny_batch_norm_params norm;
    size_t j;
    h = tinyi_super_fill(tape, net, x, w.dim[1]);
    if (tiny_tape_status(tape)) return tinyi_super_none();
    if (!net->whole) {
        w.dim[0] = c;
        w.dim[1] = h.dim[1];
    }
    z = tinyi_res_conv(tape, &h, &w, stride);
    memset(&norm, 0, sizeof norm);
    norm.train = 1;
    for (j = 0; j < 2 && !tiny_tape_status(tape); j++) {
        const size_t choice = d->pair[l][j];
        tiny_tensor y = z;
        y.dim[1] = j ? c_b : c_a;
        y = tiny_tape_batch_norm(tape, &y, &p[1 + 2 * choice].value, &p[2 + 2 * choice].value, NULL, NULL, &norm);
        y = tinyi_super_pool(tape, &y, c);
        if (d->pair[l][0] == d->pair[l][1]) return y;
        part[j] = tinyi_super_weighed(tape, net, &y, 2 * l + j);
    }
    if (tiny_tape_status(tape)) return tinyi_super_none();
    return tiny_tape_add(tape, &part[0], &part[1]);
}

static tiny_tensor tinyi_super_run(tiny_tape *tape, const tllm_supernet *net, const tiny_tensor *x, const tllm_draws *d)
{
    const tllm_space *g = &net->space;
    tiny_tensor after[TLLM_SPACE_DEPTHS], h, y, z, w;
    size_t s, b, l, j;
    tiny_idx c;
    h = tinyi_super_conv(tape, net, 0, x, g->stem_stride, d);
    h = tinyi_res_relu(tape, &h);
    for (s = 0; s < g->n_stage && !tiny_tape_status(tape); s++) {
        c = 0;
        for (b = j = 0; b < (size_t)g->stage[s].blocks && !tiny_tape_status(tape); b++) {
            const int stride = b ? 1 : g->stage[s].stride;
            l = tinyi_space_first(g, s) + 2 * b;
            y = tinyi_super_conv(tape, net, l, &h, stride, d);
            y = tinyi_res_relu(tape, &y);
            y = tinyi_super_conv(tape, net, l + 1, &y, 1, d);
            if (!g->plain) {
                z = tinyi_res_short(tape, &h, stride);
                y = tinyi_res_sum(tape, &y, &z);
            }
            h = tinyi_res_relu(tape, &y);
            if (!tiny_tape_status(tape) && net->depth[s][j] == (int)b + 1) {
                after[j++] = h;
                c = TINYI_MAX(c, h.dim[1]);
            }
        }
        for (j = 0; net->n_depth[s] > 1 && j < net->n_depth[s] && !tiny_tape_status(tape); j++) {
            z = tinyi_super_pool(tape, &after[j], c);
            z = tinyi_super_weighed(tape, net, &z, 2 * TLLM_SPACE_CONVS + s * TLLM_SPACE_DEPTHS + j);
            h = j ? tiny_tape_add(tape, &h, &z) : z;
        }
    }
    if (tiny_tape_status(tape)) return tinyi_super_none();
    h = tinyi_res_mean(tape, &h);
    if (tiny_tape_status(tape)) return tinyi_super_none();
    w = net->param[net->n_param - 2].value;
    if (net->whole && h.dim[1] < w.dim[1]) {
        tiny_idx none[2] = { 0, 0 }, more[2] = { 0, 0 };
        more[1] = w.dim[1] - h.dim[1];
        h = tiny_tape_pad(tape, &h, none, more);
    }
    if (!net->whole) w.dim[1] = h.dim[1];
    return tiny_tape_linear(tape, &h, &w, &net->param[net->n_param - 1].value, TINY_ACT_NONE);
}

static tiny_status tinyi_super_once(tiny_tape *tape, tllm_supernet *net, const tiny_tensor *x, const tiny_tensor *label,
                                    const tllm_draws *d, double *loss)
{
    tiny_tensor y = tinyi_super_run(tape, net, x, d);
    y = tiny_tape_cross_entropy(tape, &y, label, 0.0);
    tiny_tape_zero(tape);
    if (!tiny_tape_status(tape) && !tiny_tape_dry(tape)) *loss = tinyi_real(y.data, y.dtype, 0);
    return tiny_tape_backward(tape, &y, NULL);
}

/* tapes of all parameters that this kind of step trains */
static tiny_status tinyi_super_tape(tllm_supernet *net, int choices, int dry, size_t bytes, tiny_tape **tape)
{
    tiny_tape_desc t;
    size_t i;
    tiny_status st;
    memset(&t, 0, sizeof t);
    t.dry = dry;
    t.bytes = bytes;
    st = tiny_tape_open(net->ctx, &t, tape);
    for (i = 0; !st && !choices && i < net->n_param; i++) st = tiny_tape_param(*tape, &net->param[i]);
    if (!st && choices) st = tiny_tape_param(*tape, &net->mix);
    return st;
}

TINY_API tiny_status tllm_supernet_loss(tllm_supernet *net, const tllm_nn_set *set, const uint32_t *sample, tiny_idx n,
                                        const tllm_logits *logits, const tllm_draws *draws, double *loss,
                                        tllm_logits *gradient)
{
    const int choices = gradient != NULL;
    tiny_tape *dry = NULL;
    tllm_nn_set batch;
    size_t l, j, need;
    tiny_status st;
    if (!net) return TINY_E_ARGUMENT;
    if (!logits || !draws || !loss || !sample || n < 1 || !(draws->tau > 0.0))
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT,
                          "search: samples, logits, draws and a place for the loss are needed");
    st = tinyi_res_images(net->ctx, &net->space, set);
    if (st) return st;
    for (j = 0; j < (size_t)n; j++)
        if ((tiny_idx)sample[j] >= set->x.dim[0])
            return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "search: sample %u of %td", (unsigned)sample[j],
                              set->x.dim[0]);
    for (l = 0; l < net->n_conv; l++) {
        tiny_idx width[TLLM_SPACE_WIDTHS];
        const size_t most = tllm_space_widths(&net->space, l, width);
        if (draws->pair[l][0] >= most || draws->pair[l][1] >= most)
            return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "search: convolution %zu has %zu widths, not %zu and %zu", l,
                              most, draws->pair[l][0], draws->pair[l][1]);
    }
    tinyi_super_mix(net, logits, draws);
    st = tinyi_nn_set_rows(net->ctx, set, sample, n, net->dtype, &batch);
    if (st) return st;
    st = tinyi_super_tape(net, choices, 1, 0, &dry);    /* draws differ in their memory */
    if (!st) st = tinyi_super_once(dry, net, &batch.x, &batch.label, draws, loss);
    need = dry ? tiny_tape_high(dry) : 0;
    tiny_tape_close(dry);
    if (!st && need > net->room[choices]) {
        tiny_tape_close(net->tape[choices]);
        net->tape[choices] = NULL;
        net->room[choices] = 0;
        st = tinyi_super_tape(net, choices, 0, need + need / 4, &net->tape[choices]);
        if (!st) net->room[choices] = need + need / 4;
    }
    if (!st) {
        const tiny_tape_mark mark = tiny_tape_now(net->tape[choices]);
        st = tinyi_super_once(net->tape[choices], net, &batch.x, &batch.label, draws, loss);
        tiny_tape_release(net->tape[choices], mark);
    }
    if (!st && choices) tinyi_super_back(net, draws, gradient);
    tiny_free(net->ctx, batch.x.data);
    return st;
}

/* ---- the search */

typedef struct tinyi_tas {
    tiny_ctx *ctx;
    const tllm_space *space;
    const tllm_nn_set *set;
    tllm_tas_desc d;
    tllm_supernet *net;
    tiny_optim *of_weights, *of_choices;
    tllm_logits *logits, *gradient;         /* two of one block */
    tllm_draws *draws;
    uint32_t *half[2];                      /* numbers of the samples of each half, in the order of the epoch */
    tiny_idx n_half;
    double most, least, whole;              /* cost: limits, and of the whole space */
    tllm_tas_state state;
} tinyi_tas;

static tiny_status tinyi_tas_check(tinyi_tas *s)
{
    tllm_shape full;
    size_t i;
    double lowest;
    tllm_tas_desc *d = &s->d;
    tiny_status st = tllm_space_full(s->ctx, s->space, &full);
    if (!st) st = tinyi_res_images(s->ctx, s->space, s->set);
    if (st) return st;
    if (d->slack == 0.0) d->slack = 0.05;
    if (d->cost_weight == 0.0) d->cost_weight = 2.0;
    if (d->lr == 0.0) d->lr = 0.1;
    if (d->choice_lr == 0.0) d->choice_lr = 1e-2;
    if (!d->epochs) d->epochs = 30;
    s->whole = tllm_space_flops(s->space, &full);
    for (i = 0; i < tllm_space_convs(s->space); i++) {
        tiny_idx width[TLLM_SPACE_WIDTHS];
        (void)tllm_space_widths(s->space, i, width);
        full.width[i] = width[0];
    }
    for (i = 0; i < s->space->n_stage; i++) {
        int depth[TLLM_SPACE_DEPTHS];
        (void)tllm_space_depths(s->space, i, depth);
        full.depth[i] = depth[0];
    }
    lowest = tllm_space_flops(s->space, &full);
    if (!(d->slack > 0.0 && d->slack < 1.0 && d->cost_weight > 0.0 && d->lr > 0.0 && d->lr < 1e6 &&
          d->choice_lr > 0.0 && d->choice_lr < 1e6 && d->epochs > 0))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "search: slack %g, weight %g, rates %g and %g, %lld epochs: "
                          "all are above 0, and slack is below 1", d->slack, d->cost_weight, d->lr, d->choice_lr,
                          (long long)d->epochs);
    if (!(d->target <= s->whole))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "search: a target of %g; the whole network costs %g", d->target,
                          s->whole);
    if (d->target < lowest)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "search: a target of %g; the least choices cost %g", d->target,
                          lowest);
    s->most = d->target;
    s->least = d->target - d->slack * s->whole;
    s->n_half = s->set->x.dim[0] / 2;
    if (s->n_half < 1) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "search: at least two samples are needed");
    if (!d->batch) d->batch = TINYI_MIN(32, s->n_half);
    if (d->batch < 1 || d->batch > s->n_half)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "search: batches of %td; each half has %td samples", d->batch,
                          s->n_half);
    return TINY_OK;
}

static tiny_status tinyi_tas_optims(tinyi_tas *s)
{
    tiny_optim_desc o;
    tiny_param choice[2];
    size_t n;
    const tiny_param *p = tllm_supernet_params(s->net, &n);
    tiny_status st;
    memset(&o, 0, sizeof o);
    memset(choice, 0, sizeof choice);
    o.group[0].kind = TINY_OPTIM_SGD;
    o.group[0].lr = s->d.lr;
    o.group[0].momentum = 0.9;
    o.group[0].nesterov = 1;
    o.group[0].decay = 5e-4;
    st = tiny_optim_open(s->ctx, p, n, &o, &s->of_weights);
    if (st) return st;
    memset(&o, 0, sizeof o);
    o.group[0].kind = TINY_OPTIM_ADAM;
    o.group[0].lr = s->d.choice_lr;
    o.group[0].decay = 1e-3;
    choice[0].name = "width";
    choice[0].value = tiny_tensor_2d(s->logits->width, TINY_F64, TLLM_SPACE_CONVS, TLLM_SPACE_WIDTHS);
    choice[0].grad = tiny_tensor_2d(s->gradient->width, TINY_F64, TLLM_SPACE_CONVS, TLLM_SPACE_WIDTHS);
    choice[1].name = "depth";
    choice[1].value = tiny_tensor_2d(s->logits->depth, TINY_F64, TLLM_SPACE_STAGES, TLLM_SPACE_DEPTHS);
    choice[1].grad = tiny_tensor_2d(s->gradient->depth, TINY_F64, TLLM_SPACE_STAGES, TLLM_SPACE_DEPTHS);
    return tiny_optim_open(s->ctx, choice, 2, &o, &s->of_choices);
}

static tiny_status tinyi_tas_open(tinyi_tas *s)
{
    tiny_rng rng = tiny_rng_make(s->d.seed, 0x68616c66);
    const size_t n = (size_t)(2 * s->n_half);
    size_t i, j;
    uint32_t *order;
    tiny_status st = tllm_supernet_open(s->ctx, s->space, &s->d, &s->net);
    if (st) return st;
    s->logits = (tllm_logits *)tinyi_alloc(s->ctx, 2, sizeof *s->logits);
    s->draws = s->logits ? (tllm_draws *)tinyi_alloc(s->ctx, 1, sizeof *s->draws) : NULL;
    order = s->draws ? (uint32_t *)tinyi_alloc(s->ctx, n + 1, sizeof *order) : NULL;
    s->half[0] = order;
    if (!order) return tiny_ctx_status(s->ctx);
    s->half[1] = order + s->n_half;
    s->gradient = s->logits + 1;
    memset(s->logits, 0, 2 * sizeof *s->logits);
    tiny_rng_permutation(&rng, order, (uint32_t)s->set->x.dim[0]);  /* n, or one more that no half has */
    for (i = 0; i < TLLM_SPACE_CONVS; i++)
        for (j = 0; j < TLLM_SPACE_WIDTHS; j++) s->logits->width[i][j] = 0.01 * (double)tiny_rng_normal(&rng);
    for (i = 0; i < TLLM_SPACE_STAGES; i++)
        for (j = 0; j < TLLM_SPACE_DEPTHS; j++) s->logits->depth[i][j] = 0.01 * (double)tiny_rng_normal(&rng);
    if (s->d.start) *s->logits = *s->d.start;
    return tinyi_tas_optims(s);
}

static void tinyi_tas_shuffle(tiny_rng *rng, uint32_t *p, uint32_t n)
{
    uint32_t i, j, t;
    for (i = n; i > 1; i--) {
        j = tiny_rng_below(rng, i);
        t = p[i - 1];
        p[i - 1] = p[j];
        p[j] = t;
    }
}

/* A step of the weights on one half, a step of the logits on the other, each with its own draws. */
static tiny_status tinyi_tas_step(tinyi_tas *s, int64_t at, double factor, tiny_rng *rng, tllm_shape *shape,
                                     tllm_shape *found)
{
    tllm_logits cost;
    double expected, f, sign;
    double *g = &s->gradient->width[0][0], *c = &cost.width[0][0], *gd = &s->gradient->depth[0][0],
           *cd = &cost.depth[0][0];
    size_t i;
    tiny_status st;
    tllm_supernet_draw(s->net, s->logits, s->state.tau, rng, s->draws);
    st = tllm_supernet_loss(s->net, s->set, s->half[0] + at, s->d.batch, s->logits, s->draws, &s->state.loss, NULL);
    if (!st) st = tiny_optim_step(s->of_weights, factor);
    if (st) return st;
    tllm_supernet_draw(s->net, s->logits, s->state.tau, rng, s->draws);
    st = tllm_supernet_loss(s->net, s->set, s->half[1] + at, s->d.batch, s->logits, s->draws, &s->state.choice_loss,
                            s->gradient);
    if (st) return st;
    tllm_space_argmax(s->space, s->logits, shape);
    f = tllm_space_flops(s->space, shape);
    expected = tllm_space_expected(s->space, s->logits, &cost);
    sign = f > s->most ? 1.0 : f < s->least ? -1.0 : 0.0;
    for (i = 0; i < TLLM_SPACE_CONVS * TLLM_SPACE_WIDTHS; i++) g[i] += sign * s->d.cost_weight * c[i] / expected;
    for (i = 0; i < TLLM_SPACE_STAGES * TLLM_SPACE_DEPTHS; i++) gd[i] += sign * s->d.cost_weight * cd[i] / expected;
    st = tiny_optim_step(s->of_choices, 1.0);
    if (st) return st;
    tllm_space_argmax(s->space, s->logits, shape);
    s->state.flops = tllm_space_flops(s->space, shape);
    s->state.expected = tllm_space_expected(s->space, s->logits, NULL);
    s->state.step++;
    if (s->state.flops <= s->most && s->state.flops >= s->least) {
        *found = *shape;
        s->state.found = s->state.step;
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_tas(tiny_ctx *ctx, const tllm_space *space, const tllm_nn_set *set,
                                 const tllm_tas_desc *desc, tllm_shape *shape, tllm_tas_state *last)
{
    tinyi_tas s;
    tllm_shape now, found;
    tiny_schedule cosine;
    tiny_rng draws, order;
    int64_t epoch;
    tiny_idx at;
    int stop = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (last) memset(last, 0, sizeof *last);
    if (shape) memset(shape, 0, sizeof *shape);
    if (st) return st;
    if (!desc || !shape) return tinyi_fail(ctx, TINY_E_ARGUMENT, "search: a description and a place for the shape");
    memset(&s, 0, sizeof s);
    memset(&found, 0, sizeof found);
    s.ctx = ctx;
    s.space = space;
    s.set = set;
    s.d = *desc;
    st = tinyi_tas_check(&s);
    if (!st) st = tinyi_tas_open(&s);
    draws = tiny_rng_make(s.d.seed, 0x64726177);
    order = tiny_rng_make(s.d.seed, 0x6f7264);
    memset(&cosine, 0, sizeof cosine);
    cosine.kind = TINY_SCHEDULE_COSINE;
    if (!st) cosine.total = s.state.steps = s.d.epochs * (s.n_half / s.d.batch);
    s.state.logits = s.logits;
    for (epoch = 0; !st && !stop && epoch < s.d.epochs; epoch++) {
        tinyi_tas_shuffle(&order, s.half[0], (uint32_t)s.n_half);
        tinyi_tas_shuffle(&order, s.half[1], (uint32_t)s.n_half);
        for (at = 0; !st && !stop && at + s.d.batch <= s.n_half; at += s.d.batch) {
            s.state.tau = tllm_tas_tau((double)s.state.step / (double)s.state.steps);
            st = tinyi_tas_step(&s, at, tiny_schedule_at(&cosine, s.state.step), &draws, &now, &found);
            if (!st && s.d.callback) stop = s.d.callback(s.d.user, &s.state);
        }
    }
    if (!st && !s.state.found)
        st = tinyi_fail(ctx, TINY_E_NUMERIC, "search: no step had a cost between %g and %g; the last one had %g: more "
                                              "epochs or a higher choice_lr may reach it", s.least, s.most,
                        s.state.flops);
    if (!st) *shape = found;
    s.state.logits = NULL;                  /* freed below */
    if (last) *last = s.state;
    tiny_optim_close(s.of_choices);
    tiny_optim_close(s.of_weights);
    tiny_free(ctx, s.half[0]);
    tiny_free(ctx, s.draws);
    tiny_free(ctx, s.logits);
    tllm_supernet_close(s.net);
    return st;
}
