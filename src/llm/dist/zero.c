/* src/llm/dist/zero.c - a training whose weights, gradients and states are divided over pairs, nodes and all ranks
 * Paper    L. Xu et al., "Scaling Large Language Model Training on Frontier with Low-Bandwidth Partitioning"
 *          (ZeRO-topo), 2025 (arXiv 2501.04266): abstract; degrees and bits are a reconstruction, so they are fields.
 * Layout   a layer has N numbers, padded to a multiple of ranks * block. Rank r, q = r mod s_os, has of it
 *          weights    part a = q mod s_w of s_w
 *          gradients  part a (s_g / s_w) + b of s_g, b = q / s_w mod s_g / s_w
 *          states     part (a (s_g / s_w) + b) (s_os / s_g) + c of s_os, c = q / s_g
 *          so each part lies in the one before it.
 * Steps    weights: all-gather over s_w neighbours. Gradient: all-to-all over s_g neighbours, in one hop or two, added
 *          in f32. Step: all-to-all over the ranks of s_os with equal r mod s_g; ring sum over the ranks / s_os copies;
 *          Adam on N / s_os numbers; all-gather of new weights over the ranks of s_os with equal r mod s_w.
 * Memory   2 P / s_w (f16) + 4 P / s_g + 12 P / s_os + P / s_2 bytes (8-bit codes).
 * Bytes    received: weights P (s_w - 1) / s_w a pass, gradients P / 2 (s_g - 1) / s_g, network
 *          P / 2 / s_g (1 - s_g / s_os), refresh 2 P / s_w (1 - s_w / s_os), and 4 / block for the scales of codes.
 * Left out transfers while the caller computes; gradient clipping over all ranks. */
#include "llm/dist/zero_inside.h"
#include "llm/dist/subnet_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

enum { TINYI_ZERO_W, TINYI_ZERO_G, TINYI_ZERO_HOP, TINYI_ZERO_CROSS, TINYI_ZERO_NET, TINYI_ZERO_COPY,
       TINYI_ZERO_REFRESH, TINYI_ZERO_SECOND, TINYI_ZERO_GROUPS };

typedef struct tinyi_zero_layer {
    size_t n, padded;
    size_t at;                              /* first number of the layer in a list of all padded layers */
    int second;                             /* the second copy holds the current weights */
} tinyi_zero_layer;

struct tllm_zero {
    tiny_ctx *ctx;
    tllm_zero_desc is;
    int world, rank, q;
    tinyi_subnet group[TINYI_ZERO_GROUPS];
    uint64_t base[TINYI_ZERO_GROUPS];
    uint64_t clock;
    tiny_status dead;
    tinyi_zero_layer *layer;
    size_t all, largest;                    /* padded numbers of all layers, of the largest one */
    unsigned char *weights;                 /* all / s_w as f32 or f16 */
    float *sum;                             /* all / s_g */
    float *master, *grad;                   /* all / s_os */
    unsigned char *second;                  /* codes of all / s_2 */
    float *full, *part;                     /* (largest) each */
    unsigned char *work;
    size_t n_work;
    tiny_rng rng;
    tiny_optim *optim;
    tllm_zero_count count;
};

/* ---- degrees */

static int tinyi_zero_divides(int want, int n)
{
    while (n % want) want--;
    return want;
}

/* Defaults and checks of what the formulas need too. */
static tiny_status tinyi_zero_degrees(tiny_ctx *ctx, const tllm_zero_desc *d, int ranks, tllm_zero_desc *is)
{
    const int *bits[3];
    int i;
    *is = *d;
    if (ranks < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: %d ranks", ranks);
    if (d->s_w < 0 || d->s_g < 0 || d->s_os < 0 || d->s_2 < 0 || d->hop < 0 || d->block < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "zero: degrees s_w %d, s_g %d, s_os %d, s_2 %d, hop %d, block %d: none may "
                          "be negative",
                          d->s_w, d->s_g, d->s_os, d->s_2, d->hop, d->block);
    if (!is->s_os) is->s_os = ranks;
    if (!is->s_g) is->s_g = is->s_w ? TINYI_MAX(is->s_w, tinyi_zero_divides(TINYI_MIN(8, is->s_os), is->s_os))
                                    : tinyi_zero_divides(TINYI_MIN(8, is->s_os), is->s_os);
    if (!is->s_w) is->s_w = tinyi_zero_divides(TINYI_MIN(2, is->s_g), is->s_g);
    if (!is->block) is->block = 256;
    if (!is->weight_bits) is->weight_bits = 8;
    if (!is->grad_bits) is->grad_bits = 4;
    if (!is->net_bits) is->net_bits = 4;
    if (is->s_g % is->s_w)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "zero: s_w = %d does not divide s_g = %d: a rank would sum gradients of "
                          "weights that it does not have",
                          is->s_w, is->s_g);
    if (is->s_os % is->s_g)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: s_g = %d does not divide s_os = %d", is->s_g, is->s_os);
    if (ranks % is->s_os)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: s_os = %d does not divide %d ranks", is->s_os, ranks);
    if (is->s_2 && ranks % is->s_2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: s_2 = %d does not divide %d ranks", is->s_2, ranks);
    if (is->hop && is->s_g % is->hop)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: hop = %d does not divide s_g = %d", is->hop, is->s_g);
    bits[0] = &is->weight_bits;
    bits[1] = &is->grad_bits;
    bits[2] = &is->net_bits;
    for (i = 0; i < 3; i++) {
        tllm_codes c, out;
        c.bits = *bits[i];
        c.block = is->block;
        if (tinyi_codes_check(ctx, &c, &out)) return tiny_ctx_status(ctx);
    }
    return TINY_OK;
}

static tiny_status tinyi_zero_end(tllm_zero *z, tiny_status st)
{
    z->dead = st;
    return tinyi_net_end(z->ctx, z->is.net, st);
}
static tiny_status tinyi_zero_ready(tllm_zero *z)
{
    if (z->dead) return tinyi_fail(z->ctx, z->dead, "zero: the group has ended");
    if (z->is.net && z->is.net->why) return tinyi_fail(z->ctx, z->is.net->why, "%s", z->is.net->says);
    return TINY_OK;
}

/* the ranks from first on, step apart, up to last */
static tiny_status tinyi_zero_group(tllm_zero *z, int which, int first, int step, int last)
{
    int member[TINY_NET_RANKS], n = 0, r;
    for (r = first; r < last && n < TINY_NET_RANKS; r += step) member[n++] = r;
    if (!z->is.net) {
        z->group[which].net.world = 1;
        return TINY_OK;
    }
    return tinyi_subnet_make(z->ctx, &z->group[which], z->is.net, member, n, 8 + (unsigned)which);
}
static tiny_status tinyi_zero_groups(tllm_zero *z)
{
    const tllm_zero_desc *d = &z->is;
    const int r = z->rank, in_g = r / d->s_g * d->s_g, in_os = r / d->s_os * d->s_os, hop = d->hop ? d->hop : d->s_g;
    tiny_status st = tinyi_zero_group(z, TINYI_ZERO_W, r / d->s_w * d->s_w, 1, r / d->s_w * d->s_w + d->s_w);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_G, in_g, 1, in_g + d->s_g);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_HOP, r / hop * hop, 1, r / hop * hop + hop);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_CROSS, in_g + r % hop, hop, in_g + d->s_g);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_NET, in_os + r % d->s_g, d->s_g, in_os + d->s_os);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_COPY, r % d->s_os, d->s_os, z->world);
    if (!st) st = tinyi_zero_group(z, TINYI_ZERO_REFRESH, in_os + r % d->s_w, d->s_w, in_os + d->s_os);
    if (!st && d->s_2)
        st = tinyi_zero_group(z, TINYI_ZERO_SECOND, r / d->s_2 * d->s_2, 1, r / d->s_2 * d->s_2 + d->s_2);
    return st;
}

/* the part of s_g that place q of the ranks of s_os sums, and the part of s_os whose states it has */
static size_t tinyi_zero_part_g(const tllm_zero_desc *d, int q)
{
    return (size_t)(q % d->s_w * (d->s_g / d->s_w) + q / d->s_w % (d->s_g / d->s_w));
}
static size_t tinyi_zero_part_os(const tllm_zero_desc *d, int q)
{
    return tinyi_zero_part_g(d, q) * (size_t)(d->s_os / d->s_g) + (size_t)(q / d->s_g);
}

static tllm_codes tinyi_zero_codes(const tllm_zero *z, int bits)
{
    tllm_codes c;
    c.bits = bits;
    c.block = z->is.block;
    return c;
}
static tiny_coll tinyi_zero_coll(tllm_zero *z, int group)
{
    tiny_coll c;
    memset(&c, 0, sizeof c);
    c.net = &z->group[group].net;
    c.work = z->work;
    c.n_work = z->n_work;
    c.until = tiny_now_ns() + (z->is.timeout_ns ? z->is.timeout_ns : UINT64_C(10000000000));
    c.clock = z->clock;
    return c;
}
static tiny_status tinyi_zero_called(tllm_zero *z, const tiny_coll *c, int group, uint64_t *count, tiny_status st)
{
    const uint64_t now = tinyi_subnet_received(&z->group[group]);
    z->clock = c->clock;
    *count += now - z->base[group];
    z->base[group] = now;
    return st ? tinyi_zero_end(z, st) : TINY_OK;
}

/* ---- open and close */

TINY_API void tllm_zero_close(tllm_zero *z)
{
    if (!z) return;
    tiny_optim_close(z->optim);
    tiny_free(z->ctx, z->layer);
    tiny_free(z->ctx, z->weights);
    tiny_free(z->ctx, z->sum);
    tiny_free(z->ctx, z->master);
    tiny_free(z->ctx, z->grad);
    tiny_free(z->ctx, z->second);
    tiny_free(z->ctx, z->full);
    tiny_free(z->ctx, z->part);
    tiny_free(z->ctx, z->work);
    tiny_free(z->ctx, z);
}

static size_t tinyi_zero_each(const tllm_zero *z) { return z->is.full ? 4 : 2; }

static tiny_status tinyi_zero_layers(tllm_zero *z)
{
    const tllm_zero_desc *d = &z->is;
    size_t unit = (size_t)z->world * (size_t)d->block;
    int i;
    z->layer = (tinyi_zero_layer *)tinyi_alloc(z->ctx, (size_t)d->n_layer, sizeof *z->layer);
    if (!z->layer) return tiny_ctx_status(z->ctx);
    for (i = 0; i < d->n_layer; i++) {
        tinyi_zero_layer *l = &z->layer[i];
        memset(l, 0, sizeof *l);
        if (d->layer[i] < 1 || (size_t)d->layer[i] > (SIZE_MAX >> 6) - unit)
            return tinyi_fail(z->ctx, TINY_E_ARGUMENT, "zero: layer %d has %td numbers", i, d->layer[i]);
        l->n = (size_t)d->layer[i];
        l->padded = (l->n + unit - 1) / unit * unit;
        l->at = z->all;
        z->largest = TINYI_MAX(z->largest, l->padded);
        if (!tinyi_size_add(z->all, l->padded, &z->all) || z->all > (SIZE_MAX >> 4))
            return tinyi_fail(z->ctx, TINY_E_OVERFLOW, "zero: the layers are more than this machine can address");
    }
    return TINY_OK;
}

static tiny_status tinyi_zero_memory(tllm_zero *z)
{
    const tllm_zero_desc *d = &z->is;
    const size_t w = z->all / (size_t)d->s_w, g = z->all / (size_t)d->s_g, os = z->all / (size_t)d->s_os;
    size_t second = 0;
    int i;
    const tllm_codes exact = { 32, 256 };   /* no collective of a layer moves more */
    tllm_codes c = tinyi_zero_codes(z, d->weight_bits);
    for (i = 0; i < d->n_layer && d->s_2; i++)
        second += tllm_codes_bytes(&c, z->layer[i].padded / (size_t)d->s_2);
    z->n_work = tllm_codes_work(1, &exact, z->largest);
    z->weights = (unsigned char *)tinyi_alloc(z->ctx, w, tinyi_zero_each(z));
    z->sum = z->weights ? (float *)tinyi_alloc(z->ctx, g, sizeof(float)) : NULL;
    z->master = z->sum ? (float *)tinyi_alloc(z->ctx, os, sizeof(float)) : NULL;
    z->grad = z->master ? (float *)tinyi_alloc(z->ctx, os, sizeof(float)) : NULL;
    z->full = z->grad ? (float *)tinyi_alloc(z->ctx, z->largest, sizeof(float)) : NULL;
    z->part = z->full ? (float *)tinyi_alloc(z->ctx, z->largest, sizeof(float)) : NULL;
    z->work = z->part ? (unsigned char *)tinyi_alloc(z->ctx, z->n_work, 1) : NULL;
    z->second = z->work && d->s_2 ? (unsigned char *)tinyi_alloc(z->ctx, second, 1) : NULL;
    if (!z->work || (d->s_2 && !z->second)) return tiny_ctx_status(z->ctx);
    memset(z->sum, 0, g * sizeof(float));
    memset(z->grad, 0, os * sizeof(float));
    z->count.held = w * tinyi_zero_each(z) + g * 4 + os * 12 + second;
    return TINY_OK;
}

/* numbers first to first + n of the held weights, from floats or to floats */
static void tinyi_zero_hold(tllm_zero *z, size_t first, const float *x, size_t n)
{
    if (z->is.full) memcpy(z->weights + 4 * first, x, n * 4);
    else tinyi_codes_to_half(z->ctx, z->weights + 2 * first, x, n, 0);
}
static void tinyi_zero_held(const tllm_zero *z, size_t first, float *x, size_t n)
{
    if (z->is.full) memcpy(x, z->weights + 4 * first, n * 4);
    else tinyi_codes_from_half(z->ctx, x, z->weights + 2 * first, n, 0);
}

static void tinyi_zero_first(tllm_zero *z, const float *weights)
{
    const tllm_zero_desc *d = &z->is;
    int i;
    for (i = 0; i < d->n_layer; i++) {
        const tinyi_zero_layer *l = &z->layer[i];
        const size_t w = l->padded / (size_t)d->s_w, os = l->padded / (size_t)d->s_os;
        memset(z->full, 0, l->padded * sizeof(float));
        memcpy(z->full, weights, l->n * sizeof(float));
        weights += l->n;
        tinyi_zero_hold(z, l->at / (size_t)d->s_w, z->full + (size_t)(z->q % d->s_w) * w, w);
        memcpy(z->master + l->at / (size_t)d->s_os, z->full + tinyi_zero_part_os(d, z->q) * os, os * sizeof(float));
    }
}

static tiny_status tinyi_zero_optim(tllm_zero *z)
{
    const size_t n = z->all / (size_t)z->is.s_os;
    tiny_optim_desc od;
    tiny_param p;
    memset(&od, 0, sizeof od);
    memset(&p, 0, sizeof p);
    od.group[0] = z->is.optim;
    p.name = "states";
    p.value = tiny_tensor_1d(z->master, TINY_F32, (tiny_idx)n);
    p.grad = tiny_tensor_1d(z->grad, TINY_F32, (tiny_idx)n);
    return tiny_optim_open(z->ctx, &p, 1, &od, &z->optim);
}

TINY_API tiny_status tllm_zero_open(tiny_ctx *ctx, const tllm_zero_desc *d, const float *weights, tllm_zero **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_zero_desc is;
    tllm_zero *z;
    int world;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || !weights || !d->layer || d->n_layer < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: layers, first weights and an output pointer are needed");
    world = d->net ? d->net->world : 1;
    if (world < 1 || world > TINY_NET_RANKS || (d->net && (d->net->rank < 0 || d->net->rank >= world)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: rank %d of %d", d->net ? d->net->rank : 0, world);
    st = tinyi_zero_degrees(ctx, d, world, &is);
    if (st) return st;
    if (is.optim.kind != TINY_OPTIM_ADAMW && is.optim.kind != TINY_OPTIM_ADAM)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "zero: optimiser %d; there are ADAMW and ADAM, whose states are numbers "
                          "of their own for each weight",
                          is.optim.kind);
    z = (tllm_zero *)tinyi_alloc(ctx, 1, sizeof *z);
    if (!z) return tiny_ctx_status(ctx);
    memset(z, 0, sizeof *z);
    z->ctx = ctx;
    z->is = is;
    z->world = world;
    z->rank = d->net ? d->net->rank : 0;
    z->q = z->rank % is.s_os;
    z->rng = tiny_rng_make(d->seed, 0x7a65726f + (uint64_t)z->rank);
    st = tinyi_zero_groups(z);
    if (!st) st = tinyi_zero_layers(z);
    if (!st) st = tinyi_zero_memory(z);
    if (!st) {
        tinyi_zero_first(z, weights);
        st = tinyi_zero_optim(z);
    }
    z->is.layer = NULL;                     /* the caller's */
    if (st) {
        tllm_zero_close(z);
        return st;
    }
    *out = z;
    return TINY_OK;
}

TINY_API tllm_zero_count tllm_zero_count_of(const tllm_zero *z)
{
    tllm_zero_count none;
    memset(&none, 0, sizeof none);
    return z ? z->count : none;
}
TINY_API uint64_t tllm_zero_clock(tllm_zero *z, uint64_t ns)
{
    if (!z) return 0;
    z->clock = TINYI_MAX(z->clock, ns);
    return z->clock;
}

/* ---- weights */

/* Where the second copy of a layer begins, in bytes. */
static size_t tinyi_zero_second_at(const tllm_zero *z, int layer)
{
    const tllm_codes c = tinyi_zero_codes(z, z->is.weight_bits);
    size_t at = 0;
    int i;
    for (i = 0; i < layer; i++) at += tllm_codes_bytes(&c, z->layer[i].padded / (size_t)z->is.s_2);
    return at;
}

/* Keeps this rank's blocks of the codes that an all-gather left in the workspace. */
static void tinyi_zero_keep(tllm_zero *z, int layer)
{
    const tllm_codes c = tinyi_zero_codes(z, z->is.weight_bits);
    const size_t block = (size_t)z->is.block, chunk = z->layer[layer].padded / (size_t)z->is.s_w;
    const size_t mine = z->layer[layer].padded / (size_t)z->is.s_2, place = (size_t)(z->rank % z->is.s_2);
    const size_t each = tllm_codes_bytes(&c, chunk), scale = c.bits <= 8 ? 4 : 0, codes = block * (size_t)c.bits / 8;
    unsigned char *to = z->second + tinyi_zero_second_at(z, layer);
    size_t i;
    for (i = 0; i < mine / block; i++) {
        const size_t number = place * mine + i * block;
        const unsigned char *from = z->work + number / chunk * each;
        const size_t b = number % chunk / block;
        memcpy(to + i * scale, from + b * scale, scale);
        memcpy(to + mine / block * scale + i * codes, from + chunk / block * scale + b * codes, codes);
    }
    z->layer[layer].second = 1;
}

static tiny_status tinyi_zero_from_second(tllm_zero *z, int layer, float *full)
{
    const tllm_codes c = tinyi_zero_codes(z, z->is.weight_bits);
    const size_t n = z->layer[layer].padded / (size_t)z->is.s_2, each = tllm_codes_bytes(&c, n);
    tiny_coll coll = tinyi_zero_coll(z, TINYI_ZERO_SECOND);
    tiny_status st = TINY_OK;
    int r;
    coll.type = TINY_COLL_U8;
    memcpy(z->work + (size_t)(z->rank % z->is.s_2) * each, z->second + tinyi_zero_second_at(z, layer), each);
    if (z->group[TINYI_ZERO_SECOND].net.world > 1)
        st = tinyi_zero_called(z, &coll, TINYI_ZERO_SECOND, &z->count.backward,
                               tiny_coll_allgather(z->ctx, &coll, TINY_COLL_RING, z->work, each));
    for (r = 0; r < z->is.s_2 && !st; r++)
        st = tllm_codes_unpack(z->ctx, &c, z->work + (size_t)r * each, n, full + (size_t)r * n);
    return st && !z->dead ? tinyi_zero_end(z, st) : st;
}

TINY_API tiny_status tllm_zero_weights(tllm_zero *z, int layer, int backward, float *w)
{
    tinyi_zero_layer *l;
    size_t chunk;
    tllm_codes c;
    tiny_status st;
    if (!z) return TINY_E_ARGUMENT;
    st = tinyi_zero_ready(z);
    if (st) return st;
    if (layer < 0 || layer >= z->is.n_layer || !w)
        return tinyi_fail(z->ctx, TINY_E_ARGUMENT, "zero: layer %d of %d, and room for its weights", layer,
                          z->is.n_layer);
    l = &z->layer[layer];
    if (backward && z->is.s_2) {
        if (!l->second)
            return tinyi_fail(z->ctx, TINY_E_ARGUMENT, "zero: layer %d has no second copy before its forward pass",
                              layer);
        st = tinyi_zero_from_second(z, layer, z->full);
    } else {
        chunk = l->padded / (size_t)z->is.s_w;
        c = tinyi_zero_codes(z, z->is.weight_bits);
        tinyi_zero_held(z, l->at / (size_t)z->is.s_w, z->part, chunk);
        if (z->group[TINYI_ZERO_W].net.world > 1) {
            tiny_coll coll = tinyi_zero_coll(z, TINYI_ZERO_W);
            st = tinyi_zero_called(z, &coll, TINYI_ZERO_W, backward ? &z->count.backward : &z->count.forward,
                                   tllm_codes_allgather(z->ctx, &coll, &c, z->part, chunk, z->full));
        } else {                            /* alone with all weights, but the same codes as everywhere */
            st = tllm_codes_pack(z->ctx, &c, z->part, chunk, NULL, z->work);
            if (!st) st = tllm_codes_unpack(z->ctx, &c, z->work, chunk, z->full);
            if (st) st = tinyi_zero_end(z, st);
        }
        if (!st && z->is.s_2) tinyi_zero_keep(z, layer);
    }
    if (!st) memcpy(w, z->full, l->n * sizeof *w);
    return st;
}

/* ---- gradients */

/* One all-to-all: chunks of z->full, n numbers each, into z->part; or what is left of it is exact. */
static tiny_status tinyi_zero_scatter(tllm_zero *z, int group, int bits, const float *from, size_t n, float *to,
                                      uint64_t *count)
{
    tiny_coll coll = tinyi_zero_coll(z, group);
    const tllm_codes c = tinyi_zero_codes(z, bits);
    if (z->group[group].net.world == 1) {
        memcpy(to, from, n * sizeof *to);
        return TINY_OK;
    }
    return tinyi_zero_called(
        z, &coll, group, count,
        tllm_codes_reduce_scatter(z->ctx, &coll, &c, from, n, z->is.by_chance ? &z->rng : NULL, to));
}

TINY_API tiny_status tllm_zero_gradient(tllm_zero *z, int layer, const float *g)
{
    const tllm_zero_desc *d = z ? &z->is : NULL;
    const tinyi_zero_layer *l;
    size_t chunk, i, have;
    float *from;
    int hop, u, t;
    tiny_status st;
    if (!z) return TINY_E_ARGUMENT;
    st = tinyi_zero_ready(z);
    if (st) return st;
    if (layer < 0 || layer >= d->n_layer || !g)
        return tinyi_fail(z->ctx, TINY_E_ARGUMENT, "zero: layer %d of %d, and its gradient", layer, d->n_layer);
    l = &z->layer[layer];
    chunk = l->padded / (size_t)d->s_g;
    hop = d->hop ? d->hop : d->s_g;
    /* The chunks in the order of the ranks that get them: first the ranks of a hop, then those across. */
    for (u = 0; u < hop; u++)
        for (t = 0; t < d->s_g / hop; t++) {
            float *to = z->full + (size_t)(u * (d->s_g / hop) + t) * chunk;
            i = tinyi_zero_part_g(d, u + hop * t) * chunk;
            have = i < l->n ? TINYI_MIN(l->n - i, chunk) : 0;
            memcpy(to, g + (have ? i : 0), have * sizeof *to);
            memset(to + have, 0, (chunk - have) * sizeof *to);
        }
    st = tinyi_zero_scatter(z, TINYI_ZERO_HOP, d->grad_bits, z->full, chunk * (size_t)(d->s_g / hop), z->part,
                            &z->count.gradients);
    from = z->part;
    if (!st && hop < d->s_g) {
        st = tinyi_zero_scatter(z, TINYI_ZERO_CROSS, d->grad_bits, z->part, chunk, z->full, &z->count.gradients);
        from = z->full;
    }
    if (!st) tinyi_codes_add(z->ctx, z->sum + l->at / (size_t)d->s_g, from, chunk);
    return st;
}

/* ---- the step */

static tiny_status tinyi_zero_network(tllm_zero *z, const tinyi_zero_layer *l, double scale)
{
    const tllm_zero_desc *d = &z->is;
    const size_t n = l->padded / (size_t)d->s_os;
    float *sum = z->sum + l->at / (size_t)d->s_g, *grad = z->grad + l->at / (size_t)d->s_os;
    tiny_status st = tinyi_zero_scatter(z, TINYI_ZERO_NET, d->net_bits, sum, n, grad, &z->count.network);
    const int copies = z->group[TINYI_ZERO_COPY].net.world;
    size_t i;
    if (!st && copies > 1) {                /* other ranks have these states too, and sums of other ranks */
        tiny_coll c = tinyi_zero_coll(z, TINYI_ZERO_COPY);
        st = tinyi_zero_called(z, &c, TINYI_ZERO_COPY, &z->count.network,
                               tiny_coll_allreduce(z->ctx, &c, TINY_COMM_RING, grad, n));
    }
    for (i = 0; i < n && !st; i++) grad[i] = (float)((double)grad[i] * scale);
    memset(sum, 0, l->padded / (size_t)d->s_g * sizeof *sum);
    return st;
}

static tiny_status tinyi_zero_refresh(tllm_zero *z, tinyi_zero_layer *l)
{
    const tllm_zero_desc *d = &z->is;
    const size_t n = l->padded / (size_t)d->s_os, w = l->padded / (size_t)d->s_w;
    const int ranks = z->group[TINYI_ZERO_REFRESH].net.world, in_g = d->s_g / d->s_w;
    const tllm_codes c = tinyi_zero_codes(z, d->full ? 32 : 16);
    const float *mine = z->master + l->at / (size_t)d->s_os;
    tiny_coll coll = tinyi_zero_coll(z, TINYI_ZERO_REFRESH);
    tiny_status st = TINY_OK;
    int j;
    if (ranks > 1)
        st = tinyi_zero_called(z, &coll, TINYI_ZERO_REFRESH, &z->count.refresh,
                               tllm_codes_allgather(z->ctx, &coll, &c, mine, n, z->full));
    else memcpy(z->full, mine, n * sizeof *mine);
    for (j = 0; j < ranks && !st; j++)      /* rank j of the group has place a + s_w j */
        memcpy(z->part + (size_t)(j % in_g * (d->s_os / d->s_g) + j / in_g) * n, z->full + (size_t)j * n,
               n * sizeof *z->part);
    if (!st) tinyi_zero_hold(z, l->at / (size_t)d->s_w, z->part, w);
    l->second = 0;
    return st;
}

TINY_API tiny_status tllm_zero_step(tllm_zero *z, double scale, double factor)
{
    tiny_status st;
    int i;
    if (!z) return TINY_E_ARGUMENT;
    st = tinyi_zero_ready(z);
    if (st) return st;
    if (!(scale > 0.0 && scale <= 1e30) || !(factor >= 0.0 && factor <= 1e30))
        return tinyi_fail(z->ctx, TINY_E_ARGUMENT, "zero: gradients times %g, rates times %g", scale, factor);
    for (i = 0; i < z->is.n_layer && !st; i++) st = tinyi_zero_network(z, &z->layer[i], scale);
    if (!st) {
        st = tiny_optim_step(z->optim, factor);
        if (st) return tinyi_zero_end(z, st);
    }
    for (i = 0; i < z->is.n_layer && !st; i++) st = tinyi_zero_refresh(z, &z->layer[i]);
    return st;
}

/* ---- formulas */

/* seconds of an exchange whose members receive `bytes` each: the links of the widest level among `span` neighbours */
static double tinyi_zero_seconds(const tllm_level *level, int n_level, int span, int members, double bytes)
{
    int i = 0;
    if (members < 2 || !level) return 0.0;
    while (i < n_level - 1 && (level[i].ranks < span || level[i].ranks % span)) i++;
    return (members - 1) * 1e-9 * (double)level[i].latency_ns +
           (level[i].bits_per_second > 0.0 ? 8.0 * bytes / level[i].bits_per_second : 0.0);
}
static double tinyi_zero_scales(int bits, double numbers, int block)
{
    return bits <= 8 ? 4.0 * numbers / (double)block : 0.0;
}

TINY_API tiny_status tllm_zero_cost_of(tiny_ctx *ctx, const tllm_zero_desc *desc, int ranks, double params, int batches,
                                       const tllm_level *level, int n_level, tllm_zero_cost *cost)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_zero_desc d;
    double numbers[6], bits[6], bytes[6], ring;
    int members[6], span[6], times[6], i, hop, copies;
    if (st) return st;
    if (!desc || !cost || !(params >= 1.0 && params <= 1e18) || batches < 1 ||
        (level && (n_level < 1 || n_level > TLLM_LEVELS)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: %g numbers, %d small batches, %d levels", params, batches,
                          n_level);
    for (i = 0; i < n_level && level; i++)
        if (level[i].ranks < 1 || !(level[i].bits_per_second >= 0.0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: level %d has %d ranks and %g bits per second", i,
                              level[i].ranks, level[i].bits_per_second);
    st = tinyi_zero_degrees(ctx, desc, ranks, &d);
    if (st) return st;
    memset(cost, 0, sizeof *cost);
    hop = d.hop ? d.hop : d.s_g;
    copies = ranks / d.s_os;
    /* numbers received, for each small batch or step: forward, backward, gradients in two hops, network, refresh */
    members[0] = d.s_w; span[0] = d.s_w; bits[0] = d.weight_bits; times[0] = batches;
    members[1] = d.s_2 ? d.s_2 : d.s_w; span[1] = members[1]; bits[1] = d.weight_bits; times[1] = batches;
    members[2] = hop; span[2] = hop; bits[2] = d.grad_bits; times[2] = batches;
    members[3] = d.s_g / hop; span[3] = d.s_g; bits[3] = d.grad_bits; times[3] = batches;
    members[4] = d.s_os / d.s_g; span[4] = d.s_os; bits[4] = d.net_bits; times[4] = 1;
    members[5] = d.s_os / d.s_w; span[5] = d.s_os; bits[5] = d.full ? 32 : 16; times[5] = 1;
    numbers[0] = params * (members[0] - 1) / members[0];
    numbers[1] = params * (members[1] - 1) / members[1];
    numbers[2] = params * (members[2] - 1) / members[2];
    numbers[3] = params / hop * (members[3] - 1) / members[3];
    numbers[4] = params / d.s_g * (members[4] - 1) / members[4];
    numbers[5] = params / d.s_w * (members[5] - 1) / members[5];
    for (i = 0; i < 6; i++) {
        const double scales = tinyi_zero_scales((int)bits[i], numbers[i], d.block);
        bytes[i] = numbers[i] * bits[i] / 8.0;
        cost->scales += times[i] * scales;
        cost->seconds += times[i] * tinyi_zero_seconds(level, n_level, span[i], members[i], bytes[i] + scales);
    }
    cost->forward = bytes[0];
    cost->backward = bytes[1];
    cost->gradients = bytes[2] + bytes[3];
    ring = 4.0 * params / d.s_os * (copies - 1) / copies;         /* either half of a ring over the copies */
    cost->network = bytes[4] + 2.0 * ring;
    cost->refresh = bytes[5];
    cost->seconds += 2.0 * tinyi_zero_seconds(level, n_level, ranks, copies, ring);
    cost->weights = (d.full ? 4.0 : 2.0) * params / d.s_w;
    cost->gradient_sums = 4.0 * params / d.s_g;
    cost->states = 12.0 * params / d.s_os;
    cost->second =
        d.s_2 ? (d.weight_bits / 8.0 * params + tinyi_zero_scales(d.weight_bits, params, d.block)) / d.s_2 : 0.0;
    return TINY_OK;
}
