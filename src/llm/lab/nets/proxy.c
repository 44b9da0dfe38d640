/* src/llm/lab/nets/proxy.c - numbers that rank untrained networks
 * Papers   Z. Zhang, Z. Jia, "GradSign", ICLR 2022 (arXiv 2110.08616), algorithm 1; J. Mellor et al., 2021 (arXiv
 *          2006.04647); Fisher, gradient norm and sums of scores: M. Abdelfattah et al., 2021 (arXiv 2101.08134) and
 *          their program zero-cost-nas.
 * Formula  tau = sum_k |sum_i sign(dL_i/dw_k)|. In a dense layer dL_i/dw_jk = d_ij x_ik, where d is the gradient of the
 *          layer's result: its sign is sign(d_ij) sign(x_ik), and the sum over i is a product of two matrices of signs,
 *          exact in f32 below 2^24 samples. d comes from zeros that are added to the results and treated as parameters.
 * Cost     plain: a pass for each sample; else one pass and a product of n * out * in for each layer.
 * Left out the mean over weights, which one published script has: it cancels the size and is another measure. */
#include "llm/lab/nets/proxy.h"
#include "llm/lab/nets/score.h"
#include "llm/lab/nets/nn_inside.h"
#include "llm/lab/nets/share_inside.h"
#include "math/linalg_lu.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

static const char *const tinyi_proxy_names[TLLM_PROXY_KINDS] = { "gradsign", "grad_norm", "snip",   "grasp", "synflow",
                                                                 "fisher",   "naswot",    "params", "flops" };

TINY_API const char *tllm_proxy_name(int kind)
{
    return kind < 0 || kind >= TLLM_PROXY_KINDS ? NULL : tinyi_proxy_names[kind];
}

/* zeros that are added to the results of all layers, as parameters */
typedef struct tinyi_proxy_taps {
    tiny_tensor add[TLLM_NN_LAYERS], in[TLLM_NN_LAYERS], out[TLLM_NN_LAYERS], act[TLLM_NN_LAYERS];
    tiny_param param[TLLM_NN_LAYERS];
    size_t n;
    void *memory;
    tinyi_nn_taps taps;
} tinyi_proxy_taps;

static tiny_status tinyi_proxy_taps_open(const tllm_nn *nn, tiny_idx n, tinyi_proxy_taps *t)
{
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    size_t l, all = 0, at = 0, bytes;
    tiny_idx shape[4];
    (void)tllm_nn_weights(nn, &t->n);
    for (l = 0; l < t->n; l++) all += (size_t)tinyi_nn_layer_width(nn, l, shape + 1);
    if (!tinyi_size_mul(all, 2 * (size_t)n * tiny_dtype_bytes(type), &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "proxy: results of %td samples are more than can be addressed", n);
    t->memory = tinyi_alloc(ctx, bytes, 1);
    if (!t->memory) return tiny_ctx_status(ctx);
    memset(t->memory, 0, bytes);
    for (l = 0; l < t->n; l++) {
        const tiny_idx width = tinyi_nn_layer_width(nn, l, shape + 1);
        const int dense = tllm_nn_weights(nn, NULL)[l].value.rank == 2;
        shape[0] = n;
        t->add[l] =
            tiny_tensor_nd((unsigned char *)t->memory + at * tiny_dtype_bytes(type), type, dense ? 2 : 4, shape);
        t->param[l].name = "result";
        t->param[l].value = t->param[l].grad = t->add[l];
        t->param[l].grad.data = (unsigned char *)t->add[l].data + all * (size_t)n * tiny_dtype_bytes(type);
        at += (size_t)(width * n);
    }
    t->taps.add = t->add;
    t->taps.in = t->in;
    t->taps.out = t->out;
    t->taps.act = t->act;
    return TINY_OK;
}

static float tinyi_proxy_sign(double x) { return x > 0.0 ? 1.0f : x < 0.0 ? -1.0f : 0.0f; }

static int tinyi_proxy_kept(const tllm_nn *nn, size_t i)
{
    return !tllm_nn_masked(nn) || tllm_mask_has(tllm_nn_masked(nn), i);
}

/* ---- GradSign */

static tiny_status tinyi_gradsign_plain(tllm_nn *nn, const tllm_nn_set *batch, double *score)
{
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const void *grad = tinyi_nn_theta(nn, 1);
    float *sum = (float *)tinyi_alloc(ctx, n, sizeof *sum);
    tinyi_nn_pass p;
    tiny_idx i;
    size_t k, each = (size_t)(tiny_tensor_count(&batch->x) / batch->x.dim[0]) * tiny_dtype_bytes(type);
    tiny_status st;
    if (!sum) return tiny_ctx_status(ctx);
    memset(sum, 0, n * sizeof *sum);
    memset(&p, 0, sizeof p);
    p.nn = nn;
    p.norm = TINYI_NORM_SAMPLE;
    st = tinyi_nn_set_rows(ctx, batch, NULL, 1, type, &p.batch);        /* room for one sample */
    if (!st) st = tinyi_nn_pass_open(&p);
    for (i = 0; !st && i < batch->x.dim[0]; i++) {
        tllm_nn_set one = *batch, row;
        one.x.data = (float *)batch->x.data + (size_t)i * (each / tiny_dtype_bytes(type));
        one.label.data = (int32_t *)batch->label.data + i;
        one.x.dim[0] = one.label.dim[0] = 1;
        st = tinyi_nn_set_rows(ctx, &one, NULL, 1, type, &row);
        if (st) break;
        memcpy(p.batch.x.data, row.x.data, each);
        *(int32_t *)p.batch.label.data = *(const int32_t *)row.label.data;
        tiny_free(ctx, row.x.data);
        st = tinyi_nn_pass_run(&p);
        if (!st && type == TINY_F32) tinyi_share_kernels_of(ctx->k)->signs(sum, (const float *)grad, n);
        else
            for (k = 0; !st && k < n; k++) sum[k] += tinyi_proxy_sign(tinyi_real(grad, type, (tiny_idx)k));
    }
    for (k = 0, *score = 0.0; !st && k < n; k++) *score += (double)(sum[k] < 0.0f ? -sum[k] : sum[k]);
    tinyi_nn_pass_close(&p);
    tiny_free(ctx, p.batch.x.data);
    tiny_free(ctx, sum);
    return st;
}

static tiny_status tinyi_gradsign_signs(const tllm_nn *nn, const tinyi_proxy_taps *t, double *score)
{
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    size_t l, k;
    tiny_status st = TINY_OK;
    *score = 0.0;
    for (l = 0; !st && l < t->n; l++) {
        const tllm_nn_weight *w = &tllm_nn_weights(nn, NULL)[l];
        const tiny_idx n = t->in[l].dim[0], out = w->value.dim[0], in = w->value.dim[1];
        float *memory = (float *)tinyi_alloc(ctx, (size_t)(n * out + n * in + out * in), sizeof *memory);
        tiny_tensor d, x, y, turned;
        if (!memory) return tiny_ctx_status(ctx);
        d = tiny_tensor_2d(memory, TINY_F32, n, out);
        x = tiny_tensor_2d(memory + n * out, TINY_F32, n, in);
        y = tiny_tensor_2d(memory + n * (out + in), TINY_F32, out, in);
        for (k = 0; k < (size_t)(n * out); k++)
            memory[k] = tinyi_proxy_sign(tinyi_real(t->param[l].grad.data, type, (tiny_idx)k));
        for (k = 0; k < (size_t)(n * in); k++)
            memory[(size_t)(n * out) + k] = tinyi_proxy_sign(tinyi_real(t->in[l].data, type, (tiny_idx)k));
        turned = tiny_tensor_swap(d, 0, 1);
        st = tiny_matmul(ctx, &turned, &x, NULL, TINY_ACT_NONE, &y);
        for (k = 0; !st && k < (size_t)(out * in); k++) {
            const float s = ((const float *)y.data)[k];
            if (tinyi_proxy_kept(nn, w->first + k)) *score += (double)(s < 0.0f ? -s : s);
        }
        tiny_free(ctx, memory);
    }
    return st;
}

/* ---- proxies of one pass over all samples */

/* ln |det K| of the codes of all ReLU units; K is exact in f32 */
static tiny_status tinyi_proxy_naswot(const tllm_nn *nn, const tinyi_proxy_taps *t, tiny_idx n, double *score)
{
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tllm_nn_desc *is = tllm_nn_is(nn);
    size_t l, k, units = 0, at = 0, i_weight = 0, i;
    int relu[TLLM_NN_LAYERS];
    tiny_idx shape[3];
    float *code;
    double *m = NULL;
    int32_t *pivot = NULL;
    tiny_tensor c, turned, kt, kd, pt;
    tiny_status st = TINY_OK;
    for (i = 0; i < is->n_layer; i++)
        if (is->layer[i].kind != TLLM_NN_MAX_POOL) relu[i_weight++] = is->layer[i].relu;
    for (l = 0; l < t->n; l++) units += relu[l] ? (size_t)tinyi_nn_layer_width(nn, l, shape) : 0;
    if (!units) return tinyi_fail(ctx, TINY_E_ARGUMENT, "proxy: naswot needs a layer with relu");
    /* each unit twice, as it is and inverted: then K = C C' */
    code = (float *)tinyi_alloc(ctx, (size_t)n * (2 * units + (size_t)n), sizeof *code);
    if (code) m = (double *)tinyi_alloc(ctx, (size_t)(n * n), sizeof *m);
    if (m) pivot = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *pivot);
    if (!pivot) st = tiny_ctx_status(ctx);
    for (l = 0; !st && l < t->n; l++) {
        const size_t width = (size_t)tinyi_nn_layer_width(nn, l, shape);
        for (i = 0; relu[l] && i < (size_t)n; i++)
            for (k = 0; k < width; k++) {
                const int on = tinyi_real(t->act[l].data, is->dtype, (tiny_idx)(i * width + k)) > 0.0;
                code[i * 2 * units + at + k] = on ? 1.0f : 0.0f;
                code[i * 2 * units + units + at + k] = on ? 0.0f : 1.0f;
            }
        if (relu[l]) at += width;
    }
    if (!st) {
        c = tiny_tensor_2d(code, TINY_F32, n, (tiny_idx)(2 * units));
        kt = tiny_tensor_2d(code + (size_t)n * 2 * units, TINY_F32, n, n);
        turned = tiny_tensor_swap(c, 0, 1);
        st = tiny_matmul(ctx, &c, &turned, NULL, TINY_ACT_NONE, &kt);
    }
    if (!st) {
        for (k = 0; k < (size_t)(n * n); k++) m[k] = (double)((const float *)kt.data)[k];
        kd = tiny_tensor_2d(m, TINY_F64, n, n);
        pt = tiny_tensor_1d(pivot, TINY_I32, n);
        *score = 0.0;
        for (i = 0; i < (size_t)n; i++)     /* two equal rows: determinant 0, which rounding would hide */
            for (k = 0; k < i; k++)
                if (m[i * (size_t)n + k] == (double)units) *score = tinyi_log64(0.0);
        if (*score == 0.0) {
            st = tiny_lu(ctx, &kd, &kd, &pt);
            if (st == TINY_E_NUMERIC) {
                st = TINY_OK;
                *score = tinyi_log64(0.0);
            } else for (i = 0; !st && i < (size_t)n; i++) {
                const double x = m[i * (size_t)n + i];
                *score += tinyi_log64(x < 0.0 ? -x : x);
            }
        }
    }
    tiny_free(ctx, pivot);
    tiny_free(ctx, m);
    tiny_free(ctx, code);
    return st;
}

static double tinyi_proxy_grad_norm(const tllm_nn *nn)
{
    double sum = 0.0, square;
    size_t n, l;
    tiny_idx k;
    const tllm_nn_weight *w = tllm_nn_weights(nn, &n);
    for (l = 0; l < n; l++, sum += tinyi_sqrt64(square))
        for (k = 0, square = 0.0; k < tiny_tensor_count(&w[l].grad); k++) {
            const double g = tinyi_real(w[l].grad.data, w[l].grad.dtype, k);
            square += g * g;
        }
    return sum;
}

static double tinyi_proxy_fisher(const tllm_nn *nn, const tinyi_proxy_taps *t, tiny_idx n)
{
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    double sum = 0.0;
    size_t l;
    tiny_idx shape[3], i, c, p;
    for (l = 0; l < t->n; l++) {
        const tiny_idx width = tinyi_nn_layer_width(nn, l, shape), pixels = shape[1] * shape[2];
        for (i = 0; i < n; i++)
            for (c = 0; c < shape[0]; c++) {
                double s = 0.0;
                for (p = 0; p < pixels; p++) {
                    const tiny_idx at = i * width + c * pixels + p;
                    s += tinyi_real(t->out[l].data, type, at) * tinyi_real(t->param[l].grad.data, type, at);
                }
                sum += 0.5 * s * s / (double)n;
            }
    }
    return sum;
}

/* One pass over all samples; its tensors are there until the tape is closed. */
static tiny_status tinyi_proxy_pass(tllm_nn *nn, const tllm_nn_set *batch, int kind, double *score)
{
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tiny_idx n = batch->x.dim[0];
    tinyi_proxy_taps t;
    tinyi_nn_pass p;
    tiny_status st;
    memset(&t, 0, sizeof t);
    memset(&p, 0, sizeof p);
    st = tinyi_proxy_taps_open(nn, n, &t);
    if (!st) st = tinyi_nn_set_rows(ctx, batch, NULL, n, tllm_nn_is(nn)->dtype, &p.batch);
    p.nn = nn;
    p.norm = kind == TLLM_PROXY_GRADSIGN ? TINYI_NORM_RUNNING : TINYI_NORM_BATCH;
    p.taps = &t.taps;
    p.more = t.param;
    p.n_more = t.n;
    p.stay = 1;
    if (!st) st = tinyi_nn_pass_open(&p);
    if (!st) st = tinyi_nn_pass_run(&p);
    if (!st && kind == TLLM_PROXY_GRADSIGN) st = tinyi_gradsign_signs(nn, &t, score);
    if (!st && kind == TLLM_PROXY_NASWOT) st = tinyi_proxy_naswot(nn, &t, n, score);
    if (!st && kind == TLLM_PROXY_GRAD_NORM) *score = tinyi_proxy_grad_norm(nn);
    if (!st && kind == TLLM_PROXY_FISHER) *score = tinyi_proxy_fisher(nn, &t, n);
    tinyi_nn_pass_close(&p);
    tiny_free(ctx, p.batch.x.data);
    tiny_free(ctx, t.memory);
    return st;
}

/* running values of the norms from the whole batch */
static tiny_status tinyi_proxy_fill(tllm_nn *nn, const tllm_nn_set *batch)
{
    tinyi_nn_pass p;
    tiny_status st;
    memset(&p, 0, sizeof p);
    p.nn = nn;
    p.norm = TINYI_NORM_FILL;
    st = tinyi_nn_set_rows(tinyi_nn_ctx(nn), batch, NULL, batch->x.dim[0], tllm_nn_is(nn)->dtype, &p.batch);
    if (!st) st = tinyi_nn_pass_open(&p);
    if (!st) st = tinyi_nn_pass_run(&p);
    tinyi_nn_pass_close(&p);
    tiny_free(tinyi_nn_ctx(nn), p.batch.x.data);
    return st;
}

static tiny_status tinyi_proxy_scores(const tllm_nn *nn, const tllm_nn_set *batch, int kind, double *score)
{
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    double *s = (double *)tinyi_alloc(ctx, n, sizeof *s), shift, sum = 0.0;
    tllm_score_desc d;
    size_t i;
    tiny_status st;
    if (!s) return tiny_ctx_status(ctx);
    memset(&d, 0, sizeof d);
    d.kind = kind == TLLM_PROXY_SNIP    ? TLLM_SCORE_SNIP
             : kind == TLLM_PROXY_GRASP ? TLLM_SCORE_GRASP
                                        : TLLM_SCORE_SYNFLOW;
    d.as = TLLM_SCORE_ZERO_COST;
    d.data = batch;
    d.per_class = -1;
    st = tllm_nn_score(nn, &d, s, &shift);
    for (i = 0; !st && i < n; i++) sum += s[i];
    *score = kind == TLLM_PROXY_SYNFLOW ? tinyi_log64(sum) + shift * 0.693147180559945309417 : sum;
    tiny_free(ctx, s);
    return st;
}

static tiny_status tinyi_proxy_one(tllm_nn *nn, const tllm_nn_set *batch, const tllm_proxy_desc *d, double *score)
{
    const tllm_nn_desc *is = tllm_nn_is(nn);
    const tllm_nn_cost c = tllm_nn_cost_of(nn);
    int fast = !d->plain, normed = 0;
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; i < is->n_layer; i++) {
        fast = fast && is->layer[i].kind == TLLM_NN_DENSE;
        normed |= is->layer[i].norm && is->layer[i].kind == TLLM_NN_DENSE;
    }
    switch (d->kind) {
    case TLLM_PROXY_PARAMS: *score = (double)c.n_kept; return TINY_OK;
    case TLLM_PROXY_FLOPS: *score = c.flops_kept; return TINY_OK;
    case TLLM_PROXY_SNIP:
    case TLLM_PROXY_GRASP:
    case TLLM_PROXY_SYNFLOW: return tinyi_proxy_scores(nn, batch, d->kind, score);
    case TLLM_PROXY_GRADSIGN:
        if (normed) st = tinyi_proxy_fill(nn, batch);
        if (!st && !fast) return tinyi_gradsign_plain(nn, batch, score);
        break;
    default: break;
    }
    return st ? st : tinyi_proxy_pass(nn, batch, d->kind, score);
}

TINY_API tiny_status tllm_nn_proxy(const tllm_nn *nn, const tllm_proxy_desc *d, double *score)
{
    tllm_nn_set batch;
    tllm_nn *copy = NULL;
    uint32_t *index = NULL;
    tiny_idx n, i, all;
    tiny_rng rng;
    tiny_ctx *ctx;
    double sum = 0.0, each = 0.0;
    int r, repeat, needs;
    tiny_status st = TINY_OK;
    if (score) *score = 0.0;
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    if (!d || !score || d->kind < 0 || d->kind >= TLLM_PROXY_KINDS || d->repeat < 0 || d->repeat > 1000)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "proxy: a known kind, at most 1000 first weights, and where to put the score");
    needs = d->kind != TLLM_PROXY_SYNFLOW && d->kind != TLLM_PROXY_PARAMS && d->kind != TLLM_PROXY_FLOPS;
    memset(&batch, 0, sizeof batch);
    if (needs) {
        st = tinyi_nn_set_check(ctx, d->data, tllm_nn_is(nn)->layer[tllm_nn_is(nn)->n_layer - 1].n_out);
        if (st) return st;
        all = d->data->x.dim[0];
        n = d->n ? d->n : TINYI_MIN(64, all);
        if (n < 1 || n > all || n > 32767)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "proxy: %td samples of %td; 1 to 32767 are possible", n, all);
        index = (uint32_t *)tinyi_alloc(ctx, (size_t)all, sizeof *index);
        if (!index) return tiny_ctx_status(ctx);
        for (i = 0; i < all; i++) index[i] = (uint32_t)i;
        rng = tiny_rng_make(d->seed, 0x70726f78);
        if (n < all) tiny_rng_permutation(&rng, index, (uint32_t)all);
        st = tinyi_nn_set_rows(ctx, d->data, index, n, TINY_F32, &batch);
        tiny_free(ctx, index);
    }
    repeat = d->repeat ? d->repeat : 1;
    for (r = 0; !st && r < repeat; r++) {
        if (!r) st = tllm_nn_copy(nn, tllm_nn_is(nn)->dtype, &copy);
        else {
            tllm_nn_desc other = *tllm_nn_is(nn);
            other.seed = d->seed + (uint64_t)r;
            st = tllm_nn_open(ctx, &other, &copy);
            if (!st) st = tllm_nn_mask(copy, tllm_nn_masked(nn));
        }
        if (!st) st = tinyi_proxy_one(copy, &batch, d, &each);
        sum += each;
        tllm_nn_close(copy);
        copy = NULL;
    }
    tiny_free(ctx, batch.x.data);
    if (!st) *score = sum / repeat;
    return st;
}
