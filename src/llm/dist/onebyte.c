/* src/llm/dist/onebyte.c - zeroth-order fine-tuning: directions, the byte, the update. The group: onebyte_group.c
 * Paper    E. Zelikman, Q. Huang, P. Liang, N. Haber, N. Goodman, "Just One Byte (per gradient): A Note on
 *          Low-Bandwidth Decentralized Language Model Finetuning Using Shared Randomness", 2023 (arXiv 2306.10015).
 *          The estimator is SPSA: J. Spall, 1992.
 * Formula  g = (L(theta + eps z) - L(theta - eps z)) / (2 eps);  theta -= lr / n sum_j g_j z_j
 *          z of element i of tensor t: bit i mod 128 of the Philox block with key h(seed, step, sample) and counter
 *          (floor(i / 128), t); set is -1. Normal: number i of the stream t of that key (core/rng.h).
 *          byte: q = clamp(round(8 ln |g|), -63, 63) + 64; bit 7 is the sign
 * Bits     c_j = lr / n g_j is rounded to f32 once. Then the signed c_j are summed in f32 in the order of the samples,
 *          and the sum is subtracted: no product that a compiler could fuse, so each target has the same bits. Normal
 *          numbers are multiplied in a region without fusing.
 * Cost     a sample: the numbers of theta +- eps z, two losses; an update: n directions over all numbers. A Philox
 *          block makes 128 signs: 10 rounds, 20 products.
 * Memory   the largest tensor (whole: all of them). A loss never changes theta itself, so nothing has to be undone and
 *          nothing drifts.
 * Left out the published program's perturbed eps and its web server. Its byte has 9 bits (round(16 ln |g|) to +-127 and
 *          a sign); ours has 8 bits with the sign. */
#include "llm/dist/onebyte_inside.h"
#include "core/bytes.h"
#include "core/half_inside.h"
#include "core/hash_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "core/rng.h"
#include <string.h>

TINYI_TABLE_CHOICE(tinyi_onebyte_kernels, tinyi_onebyte_kernels)

enum { TINYI_OB_PIECE = 1024 }; /* numbers that a thread updates at a time */

/* ---- directions -------------------------------------------------------------------------------------------------- */

static uint64_t tinyi_onebyte_mix(uint64_t x) /* S. Vigna's splitmix64 */
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
static uint64_t tinyi_onebyte_key(uint64_t seed, uint64_t step, uint32_t sample)
{
    return tinyi_onebyte_mix(tinyi_onebyte_mix(tinyi_onebyte_mix(seed) ^ step) ^ sample);
}

static void tinyi_onebyte_block(uint64_t key, size_t tensor, size_t block, uint32_t bits[4])
{
    uint32_t counter[4], k[2];
    counter[0] = (uint32_t)block;
    counter[1] = (uint32_t)((uint64_t)block >> 32);
    counter[2] = (uint32_t)tensor;
    counter[3] = (uint32_t)((uint64_t)tensor >> 32);
    k[0] = (uint32_t)key;
    k[1] = (uint32_t)(key >> 32);
    tiny_philox(counter, k, bits);
}
static float tinyi_onebyte_sign(uint64_t key, size_t tensor, size_t i)
{
    uint32_t bits[4];
    tinyi_onebyte_block(key, tensor, i / 128, bits);
    return bits[i / 32 % 4] >> i % 32 & 1u ? -1.0f : 1.0f;
}

TINY_REF_BEGIN
/* the formula, element by element: y = x + c z */
static void tinyi_onebyte_add_ref(float *y, const float *x, uint64_t key, size_t tensor, size_t first, size_t n,
                                  float c)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] = x[i] + c * tinyi_onebyte_sign(key, tensor, first + i);
}
static void tinyi_onebyte_add_normal(float *y, const float *x, uint64_t key, size_t tensor, size_t first, size_t n,
                                     float c)
{
    tiny_rng r = tiny_rng_make(key, tensor);
    size_t i;
    r.at = 2 * (uint64_t)first;
    for (i = 0; i < n; i++) {
        const float z = c * tiny_rng_normal(&r);
        y[i] = x[i] + z;
    }
}
static void tinyi_onebyte_sub(float *y, const float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] -= x[i];
}
TINY_REF_END

/* y = x + c z for at most TINYI_OB_PIECE elements from first, a multiple of 128 */
static void tinyi_onebyte_add(const tllm_onebyte *o, float *y, const float *x, uint64_t key, size_t tensor,
                              size_t first, size_t n, float c)
{
    uint32_t bits[TINYI_OB_PIECE / 32];
    if (o->desc.normal) {
        tinyi_onebyte_add_normal(y, x, key, tensor, first, n, c);
        return;
    }
    if (!o->kernels) {
        tinyi_onebyte_add_ref(y, x, key, tensor, first, n, c);
        return;
    }
    o->kernels->blocks(bits, key, tensor, first / 128);
    o->kernels->add(y, x, bits, n, c);
}

typedef struct tinyi_onebyte_job {
    tllm_onebyte *o;
    size_t tensor, n, n_code;
    float *y;
    const float *x;
    float c;
} tinyi_onebyte_job;

static void tinyi_onebyte_perturb_part(tiny_team *team, void *arg)
{
    const tinyi_onebyte_job *j = (const tinyi_onebyte_job *)arg;
    tiny_idx i0, i1;
    team->ran_on = j->o->kernels && !j->o->desc.normal ? j->o->kernels->from : TINY_TARGET_REFERENCE;
    while (tiny_take(team, (tiny_idx)j->n, TINYI_OB_PIECE, &i0, &i1))
        for (; i0 < i1; i0 += TINYI_OB_PIECE) {
            const size_t at = (size_t)i0;
            tinyi_onebyte_add(j->o, j->y + at, j->x + at, j->o->key, j->tensor, at,
                              TINYI_MIN((size_t)i1 - at, (size_t)TINYI_OB_PIECE), j->c);
        }
}
static void tinyi_onebyte_update_part(tiny_team *team, void *arg)
{
    const tinyi_onebyte_job *j = (const tinyi_onebyte_job *)arg;
    float sum[TINYI_OB_PIECE];
    tiny_idx i0, i1;
    size_t k;
    team->ran_on = j->o->kernels && !j->o->desc.normal ? j->o->kernels->from : TINY_TARGET_REFERENCE;
    while (tiny_take(team, (tiny_idx)j->n, TINYI_OB_PIECE, &i0, &i1))
        for (; i0 < i1; i0 += TINYI_OB_PIECE) {
            const size_t at = (size_t)i0, n = TINYI_MIN((size_t)i1 - at, (size_t)TINYI_OB_PIECE);
            memset(sum, 0, n * sizeof *sum);
            for (k = 0; k < j->n_code; k++)
                tinyi_onebyte_add(j->o, sum, sum, j->o->keys[k], j->tensor, at, n, j->o->slopes[k]);
            tinyi_onebyte_sub(j->y + at, sum, n);
        }
}

static tiny_status tinyi_onebyte_perturb(tllm_onebyte *o, size_t tensor, float *y)
{
    tinyi_onebyte_job j;
    memset(&j, 0, sizeof j);
    j.o = o;
    j.tensor = tensor;
    j.n = o->n_of[tensor];
    j.y = y;
    j.x = o->theta[tensor];
    j.c = o->side;
    return tiny_parallel_loose(o->ctx, 0, 0, 0, tinyi_onebyte_perturb_part, &j);
}

TINY_API const float *tllm_onebyte_tensor(tllm_onebyte *o, size_t i)
{
    tiny_status st;
    if (!o || i >= o->desc.n_tensor) return NULL;
    if (o->side == 0.0f) return o->theta[i];
    if (o->desc.whole) return o->buffer + o->at_of[i];
    st = tinyi_onebyte_perturb(o, i, o->buffer);
    if (st && !o->failed) o->failed = st;
    return o->buffer;
}

/* ---- the byte ---------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
TINY_API unsigned char tllm_onebyte_encode(double g)
{
    const double a = g < 0.0 ? -g : g;
    double q;
    if (!(a <= 1.7e308)) return 128;
    if (a == 0.0) return 0;
    q = 8.0 * tinyi_log64(a);
    q = q < -63.0 ? -63.0 : q > 63.0 ? 63.0 : q;
    return (unsigned char)((int)(q + 64.5) + (g < 0.0 ? 128 : 0));
}
TINY_API float tllm_onebyte_decode(unsigned char code)
{
    float a;
    if (code == 0) return 0.0f;
    if (code == 128) return tinyi_bits_f32(0x7fc00000u);
    a = (float)tinyi_exp64((double)((code & 127) - 64) / 8.0);
    return code & 128 ? -a : a;
}

/* lr / n g of the step, rounded once */
static float tinyi_onebyte_slope(const tllm_onebyte *o, double g, size_t n)
{
    double rate = o->desc.lr;
    if (o->desc.half > 0.0) rate /= 1.0 + (double)o->step / o->desc.half;
    return (float)(rate / (double)n * g);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static double tinyi_onebyte_quotient(const tllm_onebyte *o, const double loss[2])
{
    return (loss[0] - loss[1]) / (2.0 * (double)(float)o->desc.eps);
}
TINY_REF_END

static int tinyi_onebyte_finite(double x) { return x - x == 0.0; }

TINY_API tiny_status tllm_onebyte_gradient(tllm_onebyte *o, uint32_t sample, float *g, double *mean)
{
    double loss[2] = { 0, 0 };
    tiny_status st = TINY_OK;
    size_t i;
    int k;
    if (!o) return TINY_E_ARGUMENT;
    if (!g) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: a gradient needs room for its answer");
    if (!o->desc.loss) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: the description has no loss to compute");
    if (o->side != 0.0f) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: a loss may not ask for a gradient");
    o->key = tinyi_onebyte_key(o->desc.seed, o->step, sample);
    o->failed = TINY_OK;
    for (k = 0; k < 2 && !st; k++) {
        o->side = k ? -(float)o->desc.eps : (float)o->desc.eps;
        for (i = 0; i < o->desc.n_tensor && o->desc.whole && !st; i++)
            st = tinyi_onebyte_perturb(o, i, o->buffer + o->at_of[i]);
        if (!st) st = o->desc.loss(o->desc.user, o, o->step, sample, &loss[k]);
        if (!st) st = o->failed;
    }
    o->side = 0.0f;
    if (st) {
        if (!*tiny_ctx_message(o->ctx) || tiny_ctx_status(o->ctx) != st)
            return tinyi_fail(o->ctx, st, "one byte: the loss of sample %lu in step %llu failed", (unsigned long)sample,
                              (unsigned long long)o->step);
        return st;
    }
    if (mean) *mean = 0.5 * (loss[0] + loss[1]);
    loss[0] = tinyi_onebyte_quotient(o, loss);
    *g = tinyi_onebyte_finite(loss[0]) && loss[0] <= 3e38 && loss[0] >= -3e38 ? (float)loss[0]
                                                                              : tinyi_bits_f32(0x7fc00000u);
    return TINY_OK;
}

/* clip times the median of the last codes, with those of this step. A zero says nothing about the size of others. */
static float tinyi_onebyte_limit(const tllm_onebyte *o)
{
    const unsigned n = o->n_ring - o->histogram[0];
    unsigned i, sum = 0;
    if (o->desc.clip < 0.0 || !n) return 0.0f;
    for (i = 1; i < 128; i++) {
        sum += o->histogram[i];
        if (2 * sum >= n) break;
    }
    return (float)(o->desc.clip * (double)tllm_onebyte_decode((unsigned char)i));
}
TINYI_FN void tinyi_onebyte_remember(tllm_onebyte *o, unsigned char code)
{
    if (o->n_ring == TINYI_ONEBYTE_RING) o->histogram[o->ring[o->at_ring]]--;
    else o->n_ring++;
    o->ring[o->at_ring] = (unsigned char)(code & 127);
    o->histogram[code & 127]++;
    o->at_ring = (o->at_ring + 1) % TINYI_ONEBYTE_RING;
}

TINYI_FN tiny_status tinyi_onebyte_update(tllm_onebyte *o, const uint32_t *sample, const float *g, size_t n)
{
    tinyi_onebyte_job j;
    tiny_status st = TINY_OK;
    size_t i, n_good = 0;
    float limit;
    memset(&j, 0, sizeof j);
    for (i = 0; i < n; i++)
        if (tinyi_onebyte_finite((double)g[i])) tinyi_onebyte_remember(o, tllm_onebyte_encode((double)g[i]));
    limit = tinyi_onebyte_limit(o);
    for (i = 0; i < n; i++) {
        float x = g[i];
        if (!tinyi_onebyte_finite((double)x)) continue;
        if (limit > 0.0f && x > limit) x = limit;
        if (limit > 0.0f && x < -limit) x = -limit;
        o->keys[n_good] = tinyi_onebyte_key(o->desc.seed, o->step, sample[i]);
        o->slopes[n_good++] = x;
    }
    for (i = 0; i < n_good; i++) o->slopes[i] = tinyi_onebyte_slope(o, (double)o->slopes[i], n_good);
    j.o = o;
    j.n_code = n_good;
    for (i = 0; i < o->desc.n_tensor && n_good && !st; i++) {
        j.tensor = i;
        j.n = o->n_of[i];
        j.y = o->theta[i];
        st = tiny_parallel_loose(o->ctx, 0, 0, 0, tinyi_onebyte_update_part, &j);
    }
    o->step += !st;
    return st;
}

TINY_API tiny_status tllm_onebyte_apply(tllm_onebyte *o, const tllm_onebyte_code *code, size_t n)
{
    size_t i;
    if (!o) return TINY_E_ARGUMENT;
    if (!code && n) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: the list of codes is NULL");
    if (n > o->n_most)
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: %zu codes in step %llu, there are at most %zu", n,
                          (unsigned long long)o->step, o->n_most);
    for (i = 0; i < n; i++) {
        if (i && code[i].sample <= code[i - 1].sample)
            return code[i].sample == code[i - 1].sample
                       ? tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: step %llu has two codes of sample %lu",
                                    (unsigned long long)o->step, (unsigned long)code[i].sample)
                       : tinyi_fail(o->ctx, TINY_E_ARGUMENT,
                                    "one byte: step %llu has the code of sample %lu after that of sample %lu",
                                    (unsigned long long)o->step, (unsigned long)code[i].sample,
                                    (unsigned long)code[i - 1].sample);
        o->samples[i] = code[i].sample;
        o->g[i] = tllm_onebyte_decode(code[i].code);
    }
    return tinyi_onebyte_update(o, o->samples, o->g, n);
}

/* ---- theta as a whole -------------------------------------------------------------------------------------------- */

TINY_API uint64_t tllm_onebyte_at(const tllm_onebyte *o) { return o ? o->step : 0; }

TINY_API uint64_t tllm_onebyte_hash(const tllm_onebyte *o)
{
    unsigned char bytes[256];
    tinyi_hash h;
    size_t t, i, k;
    if (!o) return 0;
    tinyi_hash_start(&h);
    for (t = 0; t < o->desc.n_tensor; t++)
        for (i = 0; i < o->n_of[t]; i += k) {
            for (k = 0; k < 64 && i + k < o->n_of[t]; k++)
                tinyi_put_le32(bytes + 4 * k, tinyi_f32_bits(o->theta[t][i + k]));
            tinyi_hash_add(&h, bytes, 4 * k);
        }
    return tinyi_hash_value(&h);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_onebyte_check(tiny_ctx *ctx, const tllm_onebyte_desc *d)
{
    const tiny_net *net = d->net;
    if (net && (net->world < 1 || net->world > TINY_NET_RANKS || net->rank < 0 || net->rank >= net->world))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: rank %d of %d: ranks count from 0, and there may be %d",
                          net->rank, net->world, TINY_NET_RANKS);
    if (!d->tensor || !d->n_tensor) return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: there is no tensor to tune");
    if (!(d->eps >= 1e-30 && d->eps <= 1e3)) /* below, its float is 0 or loses digits */
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: eps is %g, it must be 1e-30 to 1000", d->eps);
    if (!(d->lr > 0.0 && d->lr <= 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: lr is %g, it must be above 0 and at most 1e6", d->lr);
    if (!(d->half >= 0.0 && d->half <= 1e18))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: half is %g steps, it must be 0 (constant rate) to 1e18",
                          d->half);
    if (!(d->clip <= 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: clip is %g, it must be at most 1e9", d->clip);
    if (d->samples < 1 || d->samples > TLLM_ONEBYTE_SAMPLES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: %d samples a step, there must be 1 to %d", d->samples,
                          TLLM_ONEBYTE_SAMPLES);
    if (d->check < 1 || d->check > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: a hash every %d steps, it must be 1 to 65536", d->check);
    if (d->least < 0 || d->least > (net ? net->world : 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: at least %d machines of a group of %d", d->least,
                          net ? net->world : 1);
    if (d->join < 0 || d->join > TLLM_ONEBYTE_STATE)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: join %d is neither REPLAY nor STATE", d->join);
    return TINY_OK;
}

/* what must be the same on all machines; the numbers of theta are not, since a machine may join with others */
static uint64_t tinyi_onebyte_digest(const tllm_onebyte *o)
{
    const tllm_onebyte_desc *d = &o->desc;
    const double real[4] = { d->eps, d->lr, d->half, d->clip };
    unsigned char b[8];
    tinyi_hash h;
    size_t i;
    tinyi_hash_start(&h);
    for (i = 0; i < 4; i++) {
        tinyi_put_le(b, tinyi_f64_bits(real[i]), 8);
        tinyi_hash_add(&h, b, 8);
    }
    tinyi_put_le(b, d->seed, 8);
    tinyi_hash_add(&h, b, 8);
    tinyi_put_le16(b, (unsigned)d->samples);
    tinyi_put_le32(b + 2, (uint32_t)d->check);
    b[6] = (unsigned char)(d->normal != 0);
    b[7] = (unsigned char)(d->floats != 0);
    tinyi_hash_add(&h, b, 8);
    for (i = 0; i < d->n_tensor; i++) {
        tinyi_put_le(b, o->n_of[i], 8);
        tinyi_hash_add(&h, b, 8);
    }
    return tinyi_hash_value(&h);
}

static tiny_status tinyi_onebyte_tensors(tllm_onebyte *o)
{
    size_t i, most = 0, all = 0;
    for (i = 0; i < o->desc.n_tensor; i++) {
        const tiny_tensor *t = &o->desc.tensor[i];
        if (t->dtype != TINY_F32 || !tiny_tensor_is_dense(t) || (!t->data && tiny_tensor_count(t)))
            return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: tensor %zu must be dense f32 with data", i);
        o->theta[i] = (float *)t->data;
        o->n_of[i] = (size_t)tiny_tensor_count(t);
        o->at_of[i] = all;
        if (o->n_of[i] > SIZE_MAX / 8 - all)
            return tinyi_fail(o->ctx, TINY_E_OVERFLOW, "one byte: the tensors are more than this machine can address");
        all += o->n_of[i];
        most = TINYI_MAX(most, o->n_of[i]);
    }
    o->n_all = all;
    o->buffer = (float *)tinyi_alloc(o->ctx, o->desc.whole ? all : most, sizeof *o->buffer);
    return o->buffer ? TINY_OK : tiny_ctx_status(o->ctx);
}

TINY_API tiny_status tllm_onebyte_open(tiny_ctx *ctx, const tllm_onebyte_desc *desc, tllm_onebyte **out)
{
    tllm_onebyte *o;
    tllm_onebyte_desc d;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t n;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "one byte: a description and an output pointer are needed");
    d = *desc;
    if (d.eps == 0.0) d.eps = 1e-3;
    if (d.clip == 0.0) d.clip = 10.0;
    if (!d.samples) d.samples = 1;
    if (!d.check) d.check = 16;
    if (!d.wait_ns) d.wait_ns = UINT64_C(10000000000);
    if (!d.lost_ns) d.lost_ns = UINT64_C(60000000000);
    st = tinyi_onebyte_check(ctx, &d);
    if (st) return st;
    if (!d.least) d.least = d.net ? d.net->world : 1;
    o = (tllm_onebyte *)tinyi_alloc(ctx, 1, sizeof *o);
    if (!o) return tiny_ctx_status(ctx);
    memset(o, 0, sizeof *o);
    o->ctx = ctx;
    o->desc = d;
    o->kernels = ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_onebyte_kernels_of(ctx->k);
    o->world = d.net ? d.net->world : 1;
    o->rank = d.net ? d.net->rank : 0;
    o->n_most = (size_t)o->world * (size_t)d.samples;
    n = d.n_tensor;
    o->theta = (float **)tinyi_alloc(ctx, n, sizeof *o->theta);
    o->n_of = (size_t *)tinyi_alloc(ctx, n, sizeof *o->n_of);
    o->at_of = (size_t *)tinyi_alloc(ctx, n, sizeof *o->at_of);
    o->samples = (uint32_t *)tinyi_alloc(ctx, o->n_most, sizeof *o->samples);
    o->g = (float *)tinyi_alloc(ctx, o->n_most, sizeof *o->g);
    o->slopes = (float *)tinyi_alloc(ctx, o->n_most, sizeof *o->slopes);
    o->keys = (uint64_t *)tinyi_alloc(ctx, o->n_most, sizeof *o->keys);
    st = o->theta && o->n_of && o->at_of && o->samples && o->g && o->slopes && o->keys ? tinyi_onebyte_tensors(o)
                                                                                       : tiny_ctx_status(ctx);
    if (!st) {
        o->digest = tinyi_onebyte_digest(o);
        o->desc.tensor = NULL; /* copied */
        st = tinyi_onebyte_group_open(o);
    }
    if (st) {
        tllm_onebyte_close(o);
        return st;
    }
    *out = o;
    return TINY_OK;
}

TINY_API void tllm_onebyte_close(tllm_onebyte *o)
{
    if (!o) return;
    tinyi_onebyte_group_close(o);
    tiny_free(o->ctx, o->theta);
    tiny_free(o->ctx, o->n_of);
    tiny_free(o->ctx, o->at_of);
    tiny_free(o->ctx, o->samples);
    tiny_free(o->ctx, o->g);
    tiny_free(o->ctx, o->slopes);
    tiny_free(o->ctx, o->keys);
    tiny_free(o->ctx, o->buffer);
    tiny_free(o->ctx, o);
}
