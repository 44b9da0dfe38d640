/* src/llm/lab/nets/slim.c - networks cut in two, whose encoder has many widths
 * Paper    J. S. Assine et al., "Slimmable Encoders for Flexible Split DNNs in Bandwidth and Resource Constrained IoT
 *          Systems", 2023 (arXiv 2306.12691). The layout of members is our reading of its "slimmable ensemble
 *          encoders"; the cut by channels and the sandwich rule follow J. Yu, T. Huang, 2019 (arXiv 1903.05134).
 * Formula  member i: conv 3x3 / 2, norm, relu, conv 3x3 / 2, norm, relu, conv 1x1. All members are one convolution of K
 *          groups in training; member i is group i.
 *          q = clamp(round(z / step_i)), step_i = a_i / (2^(b-1) - 1), a_i: quantile 0.999 of |z| of member i
 *          tail: K / m (q step, zeros for missing members); conv 3x3, norm_m, relu, conv 3x3 / 2, norm_m, relu, linear
 *          loss of a step: CE(K) + sum over m = 1 and two random m of KL(softmax of K || softmax of m), or the half of
 *          it and the half of CE(m)
 *          norms after training: mean and variance of a channel are the means over 100 batches of those of each batch
 *          (or as many as the training had), first of the encoder, then, with its codes, of the tail for each m.
 * Data     one block: weights, biases and norms; their gradients; running values, a_i and counts of codes. Norms and
 *          K / m are folded into the kernels that encode and tail run, a copy for each m.
 * Cost     of encode: m times that of a member. A step of training runs the encoder once and the tail four times.
 * Error    a code inside of the clamp is off by at most step / 2. Members run one at a time, so that their bits cannot
 *          depend on m.
 * Left out mimicry of a pretrained head (MSE of features), which is optional: the tasks here
 *          train from nothing in a minute. */
#include "llm/lab/nets/slim_inside.h"
#include "math/init.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include "core/bytes.h"
#include "core/hash_inside.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

TINYI_FN tiny_status tinyi_slim_bad(const tllm_slim *s, const char *why)
{
    return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: %s", why);
}

TINY_API void tllm_slim_close(tllm_slim *s)
{
    int k;
    if (!s) return;
    for (k = 0; k < 4; k++) tiny_free(s->ctx, s->h[k]);
    tiny_free(s->ctx, s->z);
    tiny_free(s->ctx, s->channel);
    tiny_free(s->ctx, s->symbol);
    tiny_free(s->ctx, s->stream);
    tiny_free(s->ctx, s->fold);
    tiny_free(s->ctx, s->name);
    tiny_free(s->ctx, s->numbers);
    tiny_free(s->ctx, s);
}

/* ---- where everything lies; called twice, before and after the numbers have memory */

static int tinyi_slim_add(tllm_slim *s, const char *name, int version, int rank, const tiny_idx *dim, size_t *at)
{
    tiny_param *p = &s->param[s->n_param];
    size_t count = 1;
    int i;
    for (i = 0; i < rank; i++)
        if (!tinyi_size_mul(count, (size_t)dim[i], &count)) return 0;
    if (s->numbers) {
        if (version < 0) (void)snprintf(s->name[s->n_param], sizeof s->name[0], "%s", name);
        else (void)snprintf(s->name[s->n_param], sizeof s->name[0], "%s.%d", name, version + 1);
        p->name = s->name[s->n_param];
        p->group = 0;
        p->value = tiny_tensor_nd(s->numbers + *at, TINY_F32, rank, dim);
        if (*at < s->n_all) p->grad = tiny_tensor_nd(s->numbers + s->n_all + *at, TINY_F32, rank, dim);
    }
    s->n_param++;
    return tinyi_size_add(*at, count, at) && *at <= INT32_MAX;
}

TINYI_FN int tinyi_slim_versions(const tllm_slim *s, int norm) { return norm < 2 && !s->is.prefix ? 1 : s->is.members; }
TINYI_FN tiny_idx tinyi_slim_channels(const tllm_slim *s, int norm, int version)
{
    if (norm > 1) return s->is.tail;
    return s->is.width * (s->is.prefix ? version + 1 : s->is.members);
}

static int tinyi_slim_lay(tllm_slim *s)
{
    static const char *const plain[TINYI_SLIM_PLAIN] = { "encode.1", "encode.2", "encode.3",      "tail.1",
                                                         "tail.2",   "logits",   "local",         "encode.3.bias",
                                                         "logits.bias", "local.bias" };
    static const char *const norm[4] = { "e1", "e2", "t1", "t2" }, *const part[4] = { "gain", "bias", "mean", "var" };
    const tiny_idx k = s->is.members, c = s->is.width, cb = s->is.send;
    const tiny_idx side = s->side[1][0] * s->side[1][1], last = s->side[2][0] * s->side[2][1];
    tiny_idx dim[TINYI_SLIM_PLAIN][4];
    char text[16];
    size_t at = 0;
    int i, v, q, ok = 1;
    memset(dim, 0, sizeof dim);
    dim[TINYI_SLIM_E1][0] = k * c;
    dim[TINYI_SLIM_E1][1] = s->is.in[0];
    dim[TINYI_SLIM_E2][0] = k * c;
    dim[TINYI_SLIM_E2][1] = s->is.prefix ? k * c : c;
    dim[TINYI_SLIM_E3][0] = dim[TINYI_SLIM_E3B][0] = k * cb;
    dim[TINYI_SLIM_E3][1] = s->is.prefix ? k * c : c;
    dim[TINYI_SLIM_E3][2] = dim[TINYI_SLIM_E3][3] = 1;
    dim[TINYI_SLIM_T1][0] = dim[TINYI_SLIM_T2][0] = dim[TINYI_SLIM_T2][1] = s->is.tail;
    dim[TINYI_SLIM_T1][1] = k * cb;
    for (i = 2; i < 4; i++)
        dim[TINYI_SLIM_E1][i] = dim[TINYI_SLIM_E2][i] = dim[TINYI_SLIM_T1][i] = dim[TINYI_SLIM_T2][i] = 3;
    dim[TINYI_SLIM_D][0] = dim[TINYI_SLIM_DB][0] = dim[TINYI_SLIM_L][0] = dim[TINYI_SLIM_LB][0] = s->is.n_class;
    dim[TINYI_SLIM_D][1] = s->is.tail * last;
    dim[TINYI_SLIM_L][1] = cb * side;
    s->n_param = 0;
    for (i = 0; ok && i < TINYI_SLIM_PLAIN; i++)
        ok = tinyi_slim_add(s, plain[i], -1, i < TINYI_SLIM_D ? 4 : i < TINYI_SLIM_E3B ? 2 : 1, dim[i], &at);
    for (q = 0; q < 4; q++) {
        if (q == 2) {                       /* the rest is not trained */
            s->n_trained = s->n_param;
            s->n_all = at;
            at *= 2;
        }
        for (i = 0; i < 4; i++)
            for (v = 0; ok && v < tinyi_slim_versions(s, i); v++) {
                const tiny_idx n = tinyi_slim_channels(s, i, v);
                if (q % 2 == 0) (q ? s->mean : s->gain)[i][v] = (int)s->n_param;
                (void)snprintf(text, sizeof text, "%s.%s", norm[i], part[q]);
                ok = tinyi_slim_add(s, text, v, 1, &n, &at);
            }
    }
    dim[0][0] = k;
    dim[0][1] = s->levels;
    if (s->numbers) s->a = s->numbers + at;
    ok = ok && tinyi_slim_add(s, "scales", -1, 1, dim[0], &at);
    if (s->numbers) s->count = s->numbers + at;
    ok = ok && tinyi_slim_add(s, "counts", -1, 2, dim[0], &at);
    s->n_more = at;
    return ok;
}

TINYI_FN tiny_tensor *tinyi_slim_norm(tllm_slim *s, int norm, int version, int running, int part)
{
    int all = 0, i;
    for (i = 0; i < 4; i++) all += tinyi_slim_versions(s, i);
    return &s->param[(running ? s->mean : s->gain)[norm][version] + part * all].value;
}

/* Places of the folded kernels; returns their numbers. */
static size_t tinyi_slim_places(tllm_slim *s, float *at)
{
    const size_t k = (size_t)s->is.members, c = (size_t)s->is.width, cb = (size_t)s->is.send, t = (size_t)s->is.tail;
    size_t n = 0, v, kc, i;
    for (v = 0; v < k; v++) {
        const size_t size[10] = { 0, 0, 0, 0, 0, 0, t * (v + 1) * cb * 9, t, t * t * 9, t };
        size_t need[10];
        memcpy(need, size, sizeof need);
        if (v < (size_t)tinyi_slim_versions(s, 0)) {
            kc = s->is.prefix ? (v + 1) * c : k * c;
            need[0] = kc * (size_t)s->is.in[0] * 9;
            need[1] = need[3] = kc;
            need[2] = kc * (s->is.prefix ? kc : c) * 9;
            need[4] = s->is.prefix ? (v + 1) * cb * kc : k * cb * c;
            need[5] = s->is.prefix ? (v + 1) * cb : k * cb;
        }
        for (i = 0; i < 10; i++) {
            float *p = at ? at + n : NULL;
            if (i < 6) (i % 2 ? s->eb : s->e)[i / 2][v] = p;
            else (i % 2 ? s->tb : s->t)[i / 2 - 3][v] = p;
            n += need[i];
        }
    }
    return n;
}

static tiny_status tinyi_slim_check(tiny_ctx *ctx, tllm_slim *s, const tllm_slim_desc *d)
{
    int i;
    if (!d) return tinyi_fail(ctx, TINY_E_ARGUMENT, "slim: a description is needed");
    s->is = *d;
    if (!d->members) s->is.members = 4;
    if (!d->width) s->is.width = 4;
    if (!d->send) s->is.send = 2;
    if (!d->tail) s->is.tail = 32;
    if (!d->bits) s->is.bits = 4;
    if (s->is.members < 1 || s->is.members > TLLM_SLIM_MEMBERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slim: %d members; there are 1 to %d", d->members, TLLM_SLIM_MEMBERS);
    if (d->in[0] < 1 || d->in[0] > 256 || d->in[1] < 1 || d->in[1] > 1020 || d->in[2] < 1 || d->in[2] > 1020)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "slim: an image of %td x %td x %td; 1 to 256 channels and sides of 1 to 1020 are allowed",
                          d->in[0], d->in[1], d->in[2]);
    if (s->is.width < 1 || s->is.width > 64 || s->is.send < 1 || s->is.send > 64 || s->is.tail < 1 ||
        s->is.tail > 1024 || d->n_class < 1 || d->n_class > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "slim: width %td, send %td, tail %td, %td classes; most are 64, 64, 1024 and 65536",
                          s->is.width, s->is.send, s->is.tail, d->n_class);
    if (s->is.bits < 2 || s->is.bits > 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slim: codes of %d bits; 2 to 8 are allowed", d->bits);
    for (i = 0; i < 2; i++) {
        s->side[0][i] = (d->in[1 + i] - 1) / 2 + 1;
        s->side[1][i] = (s->side[0][i] - 1) / 2 + 1;
        s->side[2][i] = (s->side[1][i] - 1) / 2 + 1;
    }
    s->each = s->is.send * s->side[1][0] * s->side[1][1];
    s->levels = (1 << s->is.bits) - 1;
    return TINY_OK;
}

static tiny_status tinyi_slim_make(tiny_ctx *ctx, const tllm_slim_desc *desc, tllm_slim **out)
{
    tllm_slim *s = (tllm_slim *)tinyi_alloc(ctx, 1, sizeof *s);
    size_t n, k, pixels;
    tiny_status st;
    *out = NULL;
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    st = tinyi_slim_check(ctx, s, desc);
    if (!st && !tinyi_slim_lay(s)) st = tinyi_fail(ctx, TINY_E_OVERFLOW, "slim: more than 2^31 - 1 numbers");
    if (!st) {
        k = (size_t)s->is.members;
        n = (size_t)s->each;
        pixels = (size_t)(s->side[0][0] * s->side[0][1]);
        s->numbers = (float *)tinyi_alloc(ctx, s->n_more, sizeof(float));
        s->name = (char(*)[16])tinyi_alloc(ctx, s->n_param, sizeof *s->name);
        s->fold = (float *)tinyi_alloc(ctx, tinyi_slim_places(s, NULL), sizeof(float));
        s->h[0] = (float *)tinyi_alloc(ctx, k * (size_t)s->is.width * pixels, sizeof(float));
        s->h[1] = (float *)tinyi_alloc(ctx, k * (size_t)s->is.width * n / (size_t)s->is.send, sizeof(float));
        s->h[2] = (float *)tinyi_alloc(ctx, (size_t)s->is.tail * n / (size_t)s->is.send, sizeof(float));
        s->h[3] = (float *)tinyi_alloc(ctx, (size_t)(s->is.tail * s->side[2][0] * s->side[2][1]), sizeof(float));
        s->z = (float *)tinyi_alloc(ctx, k * n, sizeof(float));
        s->channel = (float *)tinyi_alloc(ctx, (2 + k) * k * (size_t)s->is.send, sizeof(float));
        s->symbol = (unsigned char *)tinyi_alloc(ctx, k * n, 1);
        s->stream = (unsigned char *)tinyi_alloc(ctx, tinyi_arith_most(n), 1);
        if (!s->numbers || !s->name || !s->fold || !s->h[0] || !s->h[1] || !s->h[2] || !s->h[3] || !s->z ||
            !s->channel || !s->symbol || !s->stream)
            st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(s->numbers, 0, s->n_more * sizeof(float));
        (void)tinyi_slim_lay(s);
        (void)tinyi_slim_places(s, s->fold);
    }
    if (st) tllm_slim_close(s);
    else *out = s;
    return st;
}

/* ---- folded kernels and tables */

/* to[o][i] = scale gain / sqrt(var + eps) from[o][i], the first n_in of row numbers, and to_b its bias */
static void tinyi_slim_fold(tllm_slim *s, int norm, int version, const float *from, tiny_idx n_out, tiny_idx n_in,
                            tiny_idx row, double scale, float *to, float *to_b)
{
    const float *gain = (const float *)tinyi_slim_norm(s, norm, version, 0, 0)->data,
                *bias = (const float *)tinyi_slim_norm(s, norm, version, 0, 1)->data,
                *mean = (const float *)tinyi_slim_norm(s, norm, version, 1, 0)->data,
                *var = (const float *)tinyi_slim_norm(s, norm, version, 1, 1)->data;
    tiny_idx o, i;
    for (o = 0; o < n_out; o++) {
        const double r = (double)gain[o] / tinyi_sqrt64((double)var[o] + 1e-5);
        for (i = 0; i < n_in; i++) to[o * n_in + i] = (float)(scale * r * (double)from[o * row + i]);
        to_b[o] = (float)((double)bias[o] - r * (double)mean[o]);
    }
}

static const float *tinyi_slim_data(const tllm_slim *s, int i) { return (const float *)s->param[i].value.data; }

TINYI_FN void tinyi_slim_fold_encoder(tllm_slim *s)
{
    const tiny_idx c = s->is.width, cb = s->is.send, k = s->is.members, in = s->is.prefix ? k * c : c;
    const tiny_idx row = in * 9;
    int v;
    tiny_idx o;
    for (v = 0; v < tinyi_slim_versions(s, 0); v++) {
        const tiny_idx n = tinyi_slim_channels(s, 0, v), use = s->is.prefix ? n : c,
                       sent = s->is.prefix ? (v + 1) * cb : k * cb;
        tinyi_slim_fold(s, 0, v, tinyi_slim_data(s, TINYI_SLIM_E1), n, 9 * s->is.in[0], 9 * s->is.in[0], 1.0,
                        s->e[0][v], s->eb[0][v]);
        tinyi_slim_fold(s, 1, v, tinyi_slim_data(s, TINYI_SLIM_E2), n, 9 * use, row, 1.0, s->e[1][v], s->eb[1][v]);
        for (o = 0; o < sent; o++)
            memcpy(s->e[2][v] + o * use, tinyi_slim_data(s, TINYI_SLIM_E3) + o * in, (size_t)use * sizeof(float));
        memcpy(s->eb[2][v], tinyi_slim_data(s, TINYI_SLIM_E3B), (size_t)sent * sizeof(float));
    }
}

TINYI_FN void tinyi_slim_fold_tail(tllm_slim *s)
{
    const tiny_idx k = s->is.members, cb = s->is.send, t = s->is.tail;
    int v;
    for (v = 0; v < s->is.members; v++) {
        tinyi_slim_fold(s, 2, v, tinyi_slim_data(s, TINYI_SLIM_T1), t, (v + 1) * cb * 9, k * cb * 9,
                        (double)k / (double)(v + 1), s->t[0][v], s->tb[0][v]);
        tinyi_slim_fold(s, 3, v, tinyi_slim_data(s, TINYI_SLIM_T2), t, t * 9, t * 9, 1.0, s->t[1][v], s->tb[1][v]);
    }
}

TINY_API float tllm_slim_step(const tllm_slim *s, int member, int bits)
{
    if (s && !bits) bits = s->is.bits;
    if (!s || member < 0 || member >= s->is.members || bits < 2 || bits > 8) return 0.0f;
    return s->a[member] / (float)tinyi_slim_half(bits);
}

TINYI_FN void tinyi_slim_tables(tllm_slim *s)
{
    const int k = s->is.members;
    const tiny_idx cb = s->is.send;
    unsigned char text[4];
    uint32_t count[TINYI_ARITH_SYMBOLS], bits, id = 0;
    tiny_idx c;
    int i, q, m;
    for (i = 0; i < k; i++) {
        for (q = 0; q < s->levels; q++) count[q] = (uint32_t)s->count[i * s->levels + q];
        tinyi_arith_table(s->cdf[i], count, s->levels);
        tinyi_arith_model_set(&s->model[i], s->cdf[i], s->levels);
        for (c = i * cb; c < (i + 1) * cb; c++) {
            s->channel[c] = 1.0f / tllm_slim_step(s, i, 0);
            s->channel[k * cb + c] = tllm_slim_step(s, i, 0);
            for (m = 0; m < k; m++) s->channel[(2 + m) * k * cb + c] = i <= m ? (float)k / (float)(m + 1) : 0.0f;
        }
        memcpy(&bits, &s->a[i], 4);
        tinyi_put_le32(text, bits);
        id = tinyi_crc32(id, text, 4);
        for (q = 0; q < s->levels; q++) {
            tinyi_put_le32(text, count[q]);
            id = tinyi_crc32(id, text, 4);
        }
    }
    s->id = id;
}

TINYI_FN void tinyi_slim_finish(tllm_slim *s)
{
    tinyi_slim_fold_encoder(s);
    tinyi_slim_fold_tail(s);
    tinyi_slim_tables(s);
}

TINY_API tiny_status tllm_slim_open(tiny_ctx *ctx, const tllm_slim_desc *desc, tllm_slim **out)
{
    tllm_slim *s = NULL;
    tiny_rng rng;
    int i, v;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "slim: a result pointer is needed");
    st = tinyi_slim_make(ctx, desc, &s);
    if (st) return st;
    rng = tiny_rng_make(desc->seed, 0x736c696d);
    for (i = 0; !st && i <= TINYI_SLIM_L; i++) st = tiny_init_he(ctx, &rng, &s->param[i].value, 0);
    for (i = 0; !st && i < 4; i++)
        for (v = 0; !st && v < tinyi_slim_versions(s, i); v++) {
            st = tiny_init_constant(ctx, tinyi_slim_norm(s, i, v, 0, 0), 1.0);
            if (!st) st = tiny_init_constant(ctx, tinyi_slim_norm(s, i, v, 1, 1), 1.0);
        }
    for (i = 0; i < s->is.members; i++) s->a[i] = 1.0f;
    if (!st) tinyi_slim_finish(s);
    if (st) tllm_slim_close(s);
    else *out = s;
    return st;
}

TINY_API const tllm_slim_desc *tllm_slim_is(const tllm_slim *s) { return s ? &s->is : NULL; }

TINY_API tiny_status tllm_slim_save(const tllm_slim *s, const char *path)
{
    if (!s) return TINY_E_ARGUMENT;
    if (!path) return tinyi_slim_bad(s, "a path is needed");
    return tiny_params_save(s->ctx, path, s->param, s->n_param, NULL);
}

TINY_API tiny_status tllm_slim_load(tllm_slim *s, const char *path)
{
    tllm_slim *y = NULL, swap;
    size_t i;
    int k;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!path) return tinyi_slim_bad(s, "a path is needed");
    st = tinyi_slim_make(s->ctx, &s->is, &y);
    if (!st) st = tiny_params_load(s->ctx, path, y->param, y->n_param, NULL);
    for (i = 0; !st && i < y->n_more; i++)
        if (!(y->numbers[i] >= -FLT_MAX && y->numbers[i] <= FLT_MAX))
            st = tinyi_fail(s->ctx, TINY_E_FORMAT, "slim: %s: a number is not finite", path);
    for (k = 0; !st && k < y->is.members; k++)
        if (!(y->a[k] > 0.0f)) st = tinyi_fail(s->ctx, TINY_E_FORMAT, "slim: %s: scale %d is not positive", path, k);
    for (i = 0; !st && i < (size_t)(y->is.members * y->levels); i++)
        if (!(y->count[i] >= 0.0f && y->count[i] <= 16777216.0f))
            st = tinyi_fail(s->ctx, TINY_E_FORMAT, "slim: %s: a count of codes is not in 0 to 2^24", path);
    for (i = s->n_trained; !st && i < y->n_param; i++)
        if (strstr(y->name[i], ".var")) {
            const tiny_tensor *v = &y->param[i].value;
            for (k = 0; !st && k < (int)v->dim[0]; k++)
                if (((const float *)v->data)[k] < 0.0f)
                    st = tinyi_fail(s->ctx, TINY_E_FORMAT, "slim: %s: a variance is negative", path);
        }
    if (!st) {
        tinyi_slim_finish(y);
        swap = *s;
        *s = *y;
        *y = swap;
    }
    tllm_slim_close(y);
    return st;
}

TINY_API tiny_status tllm_slim_cost_of(const tllm_slim *s, int m, tllm_slim_cost *cost)
{
    double c, cb, kc, px[3], in;
    if (cost) memset(cost, 0, sizeof *cost);
    if (!s) return TINY_E_ARGUMENT;
    if (!cost) return tinyi_slim_bad(s, "a result pointer is needed");
    if (m < 1 || m > s->is.members)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: width %d; there are 1 to %d", m, s->is.members);
    c = (double)s->is.width * m;
    cb = (double)s->is.send * m;
    kc = s->is.prefix ? c : (double)s->is.width;
    in = (double)s->is.in[0];
    px[0] = (double)s->side[0][0] * (double)s->side[0][1];
    px[1] = (double)s->side[1][0] * (double)s->side[1][1];
    px[2] = (double)s->side[2][0] * (double)s->side[2][1];
    cost->n_encoder = (size_t)(c * in * 9.0 + c * kc * 9.0 + cb * kc);
    cost->encoder = c * in * 9.0 * px[0] + (c * kc * 9.0 + cb * kc) * px[1];
    cost->n_tail = (size_t)((double)s->is.tail * (cb * 9.0 + (double)s->is.tail * 9.0 + px[2] * (double)s->is.n_class));
    cost->tail = (double)s->is.tail *
                 (cb * 9.0 * px[1] + (double)s->is.tail * 9.0 * px[2] + px[2] * (double)s->is.n_class);
    cost->numbers = m * s->each;
    cost->bytes = TLLM_SLIM_HEAD + (size_t)m * (((size_t)s->each * (size_t)s->is.bits + 7) / 8);
    return TINY_OK;
}

/* ---- device and server, one image */

static tiny_status tinyi_slim_conv(tllm_slim *s, const float *x, const tiny_idx in[3], const float *w, const float *b,
                                   tiny_idx n_out, int size, int stride, float *y, const tiny_idx out[2])
{
    const tiny_tensor tx = tiny_tensor_4d((void *)(uintptr_t)x, TINY_F32, 1, in[0], in[1], in[2]),
                      tw = tiny_tensor_4d((void *)(uintptr_t)w, TINY_F32, n_out, in[0], size, size),
                      tb = tiny_tensor_1d((void *)(uintptr_t)b, TINY_F32, n_out),
                      ty = tiny_tensor_4d(y, TINY_F32, 1, n_out, out[0], out[1]);
    tiny_conv2d_params p;
    memset(&p, 0, sizeof p);
    p.stride[0] = p.stride[1] = stride;
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = size / 2;
    p.relu = size > 1;                      /* the convolution of one pixel ends the encoder */
    return tiny_conv2d(s->ctx, &tx, &tw, &tb, &p, &ty);
}

TINYI_FN tiny_status tinyi_slim_range(const tllm_slim *s, int first, int count)
{
    if (first < 0 || count < 1 || first > s->is.members - 1 || count > s->is.members - first)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: members %d to %d; there are 0 to %d", first,
                          first + count - 1, s->is.members - 1);
    if (first && s->is.prefix)
        return tinyi_slim_bad(s, "a stack cut by channels has no members that could follow");
    return TINY_OK;
}

/* One stack from the image to what it sends: c channels inside, `sent` out. */
static tiny_status tinyi_slim_stack(tllm_slim *s, const float *x, int v, tiny_idx from, tiny_idx c, tiny_idx sent,
                                    float *z)
{
    const tiny_idx a[3] = { c, s->side[0][0], s->side[0][1] }, b[3] = { c, s->side[1][0], s->side[1][1] };
    tiny_status st = tinyi_slim_conv(s, x, s->is.in, s->e[0][v] + from * c * s->is.in[0] * 9, s->eb[0][v] + from * c, c,
                                     3, 2, s->h[0], s->side[0]);
    if (!st)
        st = tinyi_slim_conv(s, s->h[0], a, s->e[1][v] + from * c * c * 9, s->eb[1][v] + from * c, c, 3, 2, s->h[1],
                             s->side[1]);
    if (!st)
        st = tinyi_slim_conv(s, s->h[1], b, s->e[2][v] + from * sent * c, s->eb[2][v] + from * sent, sent, 1, 1, z,
                             s->side[1]);
    return st;
}

TINY_API tiny_status tllm_slim_encode(tllm_slim *s, const float *x, int first, int count, float *z)
{
    tiny_status st;
    int i;
    if (!s) return TINY_E_ARGUMENT;
    if (!x || !z) return tinyi_slim_bad(s, "an image and room for its numbers are needed");
    st = tinyi_slim_range(s, first, count);
    if (st) return st;
    if (s->is.prefix) return tinyi_slim_stack(s, x, count - 1, 0, count * s->is.width, count * s->is.send, z);
    for (i = 0; !st && i < count; i++)      /* one at a time: the same calls whatever the width */
        st = tinyi_slim_stack(s, x, 0, first + i, s->is.width, s->is.send, z + i * s->each);
    return st;
}

TINY_API tiny_status tllm_slim_tail(tllm_slim *s, const float *z, int m, float *logits)
{
    tiny_idx in[3], mid[3], last;
    tiny_tensor x, w, y;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!z || !logits) return tinyi_slim_bad(s, "numbers of members and room for logits are needed");
    st = tinyi_slim_range(s, 0, m);
    if (st) return st;
    in[0] = m * s->is.send;
    mid[0] = s->is.tail;
    in[1] = mid[1] = s->side[1][0];
    in[2] = mid[2] = s->side[1][1];
    last = s->is.tail * s->side[2][0] * s->side[2][1];
    st = tinyi_slim_conv(s, z, in, s->t[0][m - 1], s->tb[0][m - 1], s->is.tail, 3, 1, s->h[2], s->side[1]);
    if (!st)
        st = tinyi_slim_conv(s, s->h[2], mid, s->t[1][m - 1], s->tb[1][m - 1], s->is.tail, 3, 2, s->h[3], s->side[2]);
    if (st) return st;
    x = tiny_tensor_2d(s->h[3], TINY_F32, 1, last);
    w = tiny_tensor_swap(s->param[TINYI_SLIM_D].value, 0, 1);
    y = tiny_tensor_2d(logits, TINY_F32, 1, s->is.n_class);
    return tiny_matmul(s->ctx, &x, &w, &s->param[TINYI_SLIM_DB].value, TINY_ACT_NONE, &y);
}

TINY_API tiny_status tllm_slim_local(tllm_slim *s, const float *z, float *logits)
{
    tiny_tensor x, w, y;
    if (!s) return TINY_E_ARGUMENT;
    if (!z || !logits) return tinyi_slim_bad(s, "numbers of member 0 and room for logits are needed");
    x = tiny_tensor_2d((void *)(uintptr_t)z, TINY_F32, 1, s->each);
    w = tiny_tensor_swap(s->param[TINYI_SLIM_L].value, 0, 1);
    y = tiny_tensor_2d(logits, TINY_F32, 1, s->is.n_class);
    return tiny_matmul(s->ctx, &x, &w, &s->param[TINYI_SLIM_LB].value, TINY_ACT_NONE, &y);
}
