/* src/llm/dist/codes.c - codes of 8 and 4 bits for weights and gradients that travel
 * Paper    L. Xu et al., "Scaling Large Language Model Training on Frontier with Low-Bandwidth Partitioning", 2025
 *          (arXiv 2501.04266); G. Wang et al., "ZeRO++", 2023 (arXiv 2306.10209), whose codes of blocks these are.
 * Formula  scale = max |x| / m, m = 127 or 7; code = x / scale to nearest, ties to even, or floor(x / scale + u) with u
 *          uniform in [0, 1); between -m and m. A block of zeros, or one whose scale rounds to 0, has scale 0 and codes
 *          0.
 * Sum      a rank codes the chunk of each rank once, the chunks are exchanged, decoded and added in f32. Codes are
 *          never added: a ring that codes its partial sums again adds an error at each hop.
 * Error    half of a scale for a number, so half of the sum of the scales of all ranks for a sum, and its own
 *          roundings.
 * Data     division, rounding and products of one step each: the same bits on every target. */
#include "llm/dist/zero_inside.h"
#include "core/bytes.h"
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <string.h>

TINYI_TABLE_CHOICE(tinyi_codes_kernels, tinyi_codes_kernels)

enum { TINYI_CODES_BLOCK = 4096 };          /* the most numbers of a block */

TINYI_FN const tinyi_codes_kernels *tinyi_codes_kernels_for(const tiny_ctx *ctx)
{
    return ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_codes_kernels_of(ctx->k);
}

static tllm_codes tinyi_codes_of(const tllm_codes *c)
{
    tllm_codes is;
    is.bits = c && c->bits ? c->bits : 8;
    is.block = c && c->block ? c->block : 256;
    return is;
}
TINYI_FN tiny_status tinyi_codes_check(tiny_ctx *ctx, const tllm_codes *c, tllm_codes *is)
{
    if (!c) return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: the number of bits is missing");
    *is = tinyi_codes_of(c);
    if (is->bits != 4 && is->bits != 8 && is->bits != 16 && is->bits != 32)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: %d bits; there are codes of 4, 8, 16 and 32", is->bits);
    if (is->block < 2 || is->block % 2 || is->block > TINYI_CODES_BLOCK)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: blocks of %d numbers; they must be even, 2 to %d", is->block,
                          (int)TINYI_CODES_BLOCK);
    return TINY_OK;
}

TINY_API size_t tllm_codes_bytes(const tllm_codes *c, size_t n)
{
    const tllm_codes is = tinyi_codes_of(c);
    size_t scales, codes, all;
    if (is.block < 1 || is.bits < 1) return 0;
    scales = is.bits <= 8 ? n / (size_t)is.block + (n % (size_t)is.block != 0) : 0;
    codes = is.bits == 4 ? n / 2 + n % 2 : is.bits == 8 ? n : 0;
    if (is.bits > 8 && !tinyi_size_mul(n, (size_t)is.bits / 8, &codes)) return SIZE_MAX;
    if (!tinyi_size_mul(scales, 4, &scales) || !tinyi_size_add(scales, codes, &all)) return SIZE_MAX;
    return all;
}

TINY_REF_BEGIN
static float tinyi_codes_top_ref(const float *x, size_t n)
{
    float top = 0.0f;
    size_t i;
    for (i = 0; i < n; i++) {
        const float a = x[i] < 0.0f ? -x[i] : x[i];
        if (!(x[i] - x[i] == 0.0f)) return x[i] - x[i];
        if (a > top) top = a;
    }
    return top;
}
static void tinyi_codes_round_ref(int32_t *y, const float *x, const float *noise, size_t n, float scale, float most)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const float q = x[i] / scale, v = noise ? q + noise[i] : q;
        double down = (double)(int64_t)(v > 1e6f ? 1e6f : v < -1e6f ? -1e6f : v), r;
        if (down > (double)v) down -= 1.0;  /* the floor */
        r = (double)v - down;
        if (!noise && (r > 0.5 || (r == 0.5 && ((int64_t)down & 1)))) down += 1.0;
        y[i] = (int32_t)(down > (double)most ? (double)most : down < -(double)most ? -(double)most : down);
    }
}
static void tinyi_codes_times_ref(float *y, const int8_t *x, size_t n, float scale)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] = (float)x[i] * scale;
}
TINY_REF_END

TINYI_FN void tinyi_codes_to_half(const tiny_ctx *ctx, unsigned char *to, const float *x, size_t n, int plain)
{
    size_t i;
    if (!plain && n && !((uintptr_t)to & 1)) {
        TINYI_OF(ctx->k, f32_to_f16)((uint16_t *)(void *)to, x, n);
        return;
    }
    for (i = 0; i < n; i++) {
        const uint16_t h = tinyi_f32_to_f16(x[i]);
        memcpy(to + 2 * i, &h, 2);
    }
}
TINYI_FN void tinyi_codes_from_half(const tiny_ctx *ctx, float *x, const unsigned char *from, size_t n, int plain)
{
    size_t i;
    if (!plain && n && !((uintptr_t)from & 1)) {
        TINYI_OF(ctx->k, f16_to_f32)(x, (const uint16_t *)(const void *)from, n);
        return;
    }
    for (i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, from + 2 * i, 2);
        x[i] = tinyi_f16_to_f32(h);
    }
}

TINYI_FN void tinyi_codes_add(const tiny_ctx *ctx, float *y, const float *x, size_t n)
{
    const tinyi_codes_kernels *k = tinyi_codes_kernels_for(ctx);
    size_t i;
    if (k) k->add(y, x, n);
    else for (i = 0; i < n; i++) y[i] += x[i];
}

/* Two codes a byte, the first one in the lower half; fast: eight at a time in a word. */
static void tinyi_codes_fold(unsigned char *to, const unsigned char *code, size_t n, int fast)
{
    size_t i = 0;
    for (; fast && i + 8 <= n; i += 8) {
        uint64_t u = tinyi_le64(code + i) & 0x0f0f0f0f0f0f0f0fu;
        u = (u | u >> 4) & 0x00ff00ff00ff00ffu;
        u = (u | u >> 8) & 0x0000ffff0000ffffu;
        tinyi_put_le32(to + i / 2, (uint32_t)(u | u >> 16));
    }
    for (; i < n; i += 2) to[i / 2] = (unsigned char)((code[i] & 15) | (i + 1 < n ? (code[i + 1] & 15) << 4 : 0));
}
/* the way back; (b | 0x80) - 8 borrows from no neighbour */
static void tinyi_codes_unfold(int8_t *to, const unsigned char *from, size_t n, int fast)
{
    size_t i = 0;
    for (; fast && i + 8 <= n; i += 8) {
        uint64_t u = tinyi_le32(from + i / 2);
        u = (u | u << 16) & 0x0000ffff0000ffffu;
        u = (u | u << 8) & 0x00ff00ff00ff00ffu;
        u = ((u | u << 4) & 0x0f0f0f0f0f0f0f0fu) ^ 0x0808080808080808u;
        u = ((u | 0x8080808080808080u) - 0x0808080808080808u) ^ 0x8080808080808080u;
        tinyi_put_le32((unsigned char *)to + i, (uint32_t)u);
        tinyi_put_le32((unsigned char *)to + i + 4, (uint32_t)(u >> 32));
    }
    for (; i < n; i++) to[i] = (int8_t)((int)(((unsigned)from[i / 2] >> (4 * (i & 1u)) & 15u) ^ 8u) - 8);
}

/* one block of n numbers; returns its scale, or NaN */
static float tinyi_codes_block(const tinyi_codes_kernels *k, int bits, const float *x, size_t n, tiny_rng *rng,
                               unsigned char *to)
{
    const float most = bits == 8 ? 127.0f : 7.0f, top = (k ? k->top : tinyi_codes_top_ref)(x, n), scale = top / most;
    int32_t code[TINYI_CODES_BLOCK];
    float noise[TINYI_CODES_BLOCK];
    unsigned char byte[TINYI_CODES_BLOCK], *narrow = to;
    size_t i;
    if (!(top == top)) return top;
    if (scale == 0.0f) {
        memset(to, 0, bits == 8 ? n : (n + 1) / 2);
        return 0.0f;
    }
    if (rng) tiny_rng_fill_uniform(rng, noise, n, 0.0f, 1.0f);
    (k ? k->round : tinyi_codes_round_ref)(code, x, rng ? noise : NULL, n, scale, most);
    if (bits == 4) narrow = byte;
    for (i = 0; i < n; i++) narrow[i] = (unsigned char)(code[i] & 255);
    if (bits == 4) tinyi_codes_fold(to, byte, n, k != NULL);
    return scale;
}

static tiny_status tinyi_codes_pack(tiny_ctx *ctx, const tllm_codes *c, const float *x, size_t n, tiny_rng *rng,
                                    void *out, int plain)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const tinyi_codes_kernels *k;
    unsigned char *to = (unsigned char *)out, *codes;
    tllm_codes is;
    size_t at, some;
    if (!st) st = tinyi_codes_check(ctx, c, &is);
    if (st) return st;
    if (n && (!x || !out)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: the numbers or the room for codes are NULL");
    if (tllm_codes_bytes(&is, n) == SIZE_MAX) return tinyi_fail(ctx, TINY_E_OVERFLOW, "codes: %zu numbers", n);
    k = plain ? NULL : tinyi_codes_kernels_for(ctx);
    if (is.bits == 32) {
        if (n) memcpy(to, x, n * sizeof *x);
        return TINY_OK;
    }
    if (is.bits == 16) {
        tinyi_codes_to_half(ctx, to, x, n, plain);
        return TINY_OK;
    }
    codes = to + 4 * (n / (size_t)is.block + (n % (size_t)is.block != 0));
    for (at = 0; at < n; at += some, to += 4) {
        float scale;
        some = TINYI_MIN(n - at, (size_t)is.block);
        scale = tinyi_codes_block(k, is.bits, x + at, some, rng, codes + (is.bits == 8 ? at : at / 2));
        if (scale != scale)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "codes: a number of block %zu is not finite", at / (size_t)is.block);
        memcpy(to, &scale, 4);
    }
    if (k && n) ctx->ran_on = k->from;
    return TINY_OK;
}

static tiny_status tinyi_codes_unpack(tiny_ctx *ctx, const tllm_codes *c, const void *in, size_t n, float *x, int plain)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const tinyi_codes_kernels *k;
    const unsigned char *from = (const unsigned char *)in, *codes;
    int8_t wide[TINYI_CODES_BLOCK];
    tllm_codes is;
    size_t at, some;
    if (!st) st = tinyi_codes_check(ctx, c, &is);
    if (st) return st;
    if (n && (!x || !in)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: the codes or the room for numbers are NULL");
    k = plain ? NULL : tinyi_codes_kernels_for(ctx);
    if (is.bits == 32) {
        if (n) memcpy(x, from, n * sizeof *x);
        return TINY_OK;
    }
    if (is.bits == 16) {
        tinyi_codes_from_half(ctx, x, from, n, plain);
        return TINY_OK;
    }
    codes = from + 4 * (n / (size_t)is.block + (n % (size_t)is.block != 0));
    for (at = 0; at < n; at += some, from += 4) {
        const int8_t *q = (const int8_t *)codes + at;
        float scale;
        some = TINYI_MIN(n - at, (size_t)is.block);
        memcpy(&scale, from, 4);
        if (is.bits == 4) {
            tinyi_codes_unfold(wide, codes + at / 2, some, k != NULL);
            q = wide;
        }
        (k ? k->times : tinyi_codes_times_ref)(x + at, q, some, scale);
    }
    if (k && n) ctx->ran_on = k->from;
    return TINY_OK;
}

TINY_API tiny_status tllm_codes_pack(tiny_ctx *ctx, const tllm_codes *c, const float *x, size_t n, tiny_rng *rng,
                                     void *to)
{
    return tinyi_codes_pack(ctx, c, x, n, rng, to, 0);
}
TINY_API tiny_status tllm_codes_unpack(tiny_ctx *ctx, const tllm_codes *c, const void *from, size_t n, float *x)
{
    return tinyi_codes_unpack(ctx, c, from, n, x, 0);
}
TINY_API tiny_status tllm_codes_pack_ref(tiny_ctx *ctx, const tllm_codes *c, const float *x, size_t n, tiny_rng *rng,
                                         void *to)
{
    return tinyi_codes_pack(ctx, c, x, n, rng, to, 1);
}
TINY_API tiny_status tllm_codes_unpack_ref(tiny_ctx *ctx, const tllm_codes *c, const void *from, size_t n, float *x)
{
    return tinyi_codes_unpack(ctx, c, from, n, x, 1);
}

/* ---- collectives */

TINY_API size_t tllm_codes_work(int world, const tllm_codes *c, size_t n)
{
    size_t bytes = tllm_codes_bytes(c, n), more;
    if (world < 1) return 0;
    if (bytes == SIZE_MAX || !tinyi_size_mul(bytes, 2 * (size_t)world, &bytes) ||
        !tinyi_size_mul(n, sizeof(float), &more) || !tinyi_size_add(bytes, more, &bytes))
        return SIZE_MAX;
    return bytes;
}

static tiny_status tinyi_codes_call(tiny_ctx *ctx, tiny_coll *coll, const tllm_codes *c, const void *x, size_t n,
                                    const void *out, tllm_codes *is, tiny_coll *bytes)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!coll || !coll->net || coll->net->world < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: the net of a rank is needed");
    st = tinyi_codes_check(ctx, c, is);
    if (st) return st;
    if (n && (!x || !out)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "codes: a list is NULL");
    if (n % (size_t)is->block)
        return tinyi_fail(ctx, TINY_E_SHAPE, "codes: a chunk of %zu numbers is no multiple of the block of %d", n,
                          is->block);
    if (tllm_codes_work(coll->net->world, is, n) == SIZE_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "codes: %zu numbers are more than this machine can address", n);
    if (n && (!coll->work || coll->n_work < tllm_codes_work(coll->net->world, is, n)))
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "codes: a workspace of %zu bytes is needed, not %zu",
                          tllm_codes_work(coll->net->world, is, n), coll->work ? coll->n_work : (size_t)0);
    *bytes = *coll;
    bytes->type = TINY_COLL_U8;
    bytes->op = TINY_COLL_OR;
    bytes->work = NULL;
    bytes->n_work = 0;
    return TINY_OK;
}
TINY_API tiny_status tllm_codes_allgather(tiny_ctx *ctx, tiny_coll *coll, const tllm_codes *c, const float *x, size_t n,
                                          float *all)
{
    tllm_codes is;
    tiny_coll bytes;
    tiny_status st = tinyi_codes_call(ctx, coll, c, x, n, all, &is, &bytes);
    size_t each;
    unsigned char *w;
    int r;
    if (st) return st;
    w = (unsigned char *)coll->work;
    each = tllm_codes_bytes(&is, n);
    st = tllm_codes_pack(ctx, &is, x, n, NULL, w + (size_t)coll->net->rank * each);
    if (st) return tinyi_net_end(ctx, coll->net, st);
    st = tiny_coll_allgather(ctx, &bytes, TINY_COLL_RING, w, each);
    coll->clock = bytes.clock;
    for (r = 0; r < coll->net->world && !st; r++)
        st = tllm_codes_unpack(ctx, &is, w + (size_t)r * each, n, all + (size_t)r * n);
    return st;
}

TINY_API tiny_status tllm_codes_reduce_scatter(tiny_ctx *ctx, tiny_coll *coll, const tllm_codes *c, const float *x,
                                               size_t n, tiny_rng *rng, float *sum)
{
    tllm_codes is;
    tiny_coll bytes;
    tiny_status st = tinyi_codes_call(ctx, coll, c, x, n, sum, &is, &bytes);
    size_t each;
    unsigned char *w, *in;
    float *one;
    int r, world;
    if (st || !n) return st;
    world = coll->net->world;
    each = tllm_codes_bytes(&is, n);
    one = (float *)coll->work;              /* first, so that it is aligned */
    w = (unsigned char *)(one + n);
    in = w + (size_t)world * each;
    for (r = 0; r < world && !st; r++)
        st = tllm_codes_pack(ctx, &is, x + (size_t)r * n, n, rng, w + (size_t)r * each);
    if (st) return tinyi_net_end(ctx, coll->net, st);
    st = tiny_coll_alltoall(ctx, &bytes, TINY_COLL_RING, w, in, each);
    coll->clock = bytes.clock;
    for (r = 0; r < world && !st; r++) {
        st = tllm_codes_unpack(ctx, &is, in + (size_t)r * each, n, r ? one : sum);
        if (r && !st) tinyi_codes_add(ctx, sum, one, n);
    }
    return st;
}
