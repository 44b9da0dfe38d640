/* src/llm/model/rotated.c - running a rotated model: see rotated.h
 *
 * Paper    S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", 2024 (arXiv 2404.00456)
 * Formula  FEED   y = (W H^T) (H g), H of math/fwht.h over the inputs of W, in blocks if there is no matrix of that
 *                 order
 *          HEADS  y = (W (H x I)^T) ((H x I) o), H over the heads
 *          KEYS   (H q) . (H k) = q . k
 * Cost     log2 n + r additions for each of n numbers, next to a product with a matrix of n columns */
#include <string.h>
#include "llm/model/model_inside.h"

/* y (n, ...) = blocks of the rows of x turned; x and y do not overlap */
static void tinyi_lm_turn_view(tinyi_lm_fwd *f, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_fwht_params p;
    tiny_op op;
    if (f->st) return;
    memset(&p, 0, sizeof p);
    p.block = tiny_fwht_block(x->dim[x->rank - 1]);
    tinyi_lm_op_start(&op, TINY_OP_FWHT, NULL, &p);
    op.in[0] = x;
    op.out[0] = y;
    tinyi_lm_door(f, &op);
}

TINYI_FN void tinyi_lm_turn_rows(tinyi_lm_fwd *f, float *y, const float *x, tiny_idx n, tiny_idx d)
{
    const tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, d), ty = tiny_tensor_2d(y, TINY_F32, n, d);
    tinyi_lm_turn_view(f, &tx, &ty);
}

TINYI_FN float *tinyi_lm_turn_across(tinyi_lm_fwd *f, const float *o, tiny_idx n, tiny_idx n_head, tiny_idx d)
{
    float *y = tinyi_lm_take(f, n, n_head * d);
    tiny_tensor tx = tiny_tensor_3d((void *)(uintptr_t)o, TINY_F32, n, n_head, d),
                ty = tiny_tensor_3d(y, TINY_F32, n, n_head, d);
    tx = tiny_tensor_swap(tx, 1, 2);
    ty = tiny_tensor_swap(ty, 1, 2);
    tinyi_lm_turn_view(f, &tx, &ty);
    return y;
}

TINYI_FN tinyi_lm_heads tinyi_lm_turn_heads(tinyi_lm_fwd *f, tinyi_lm_heads x)
{
    const tinyi_lm_heads y = tinyi_lm_heads_of(tinyi_lm_take(f, f->n, x.n_head * x.d), x.n_head, x.d, x.n_head * x.d);
    tiny_tensor tx = tiny_tensor_3d(x.p, TINY_F32, f->n, x.n_head, x.d),
                ty = tiny_tensor_3d(y.p, TINY_F32, f->n, x.n_head, x.d);
    tx.stride[0] = x.ld;
    tx.stride[1] = x.head;
    tinyi_lm_turn_view(f, &tx, &ty);
    return y;
}

/* ---- inputs in few bits ------------------------------------------------------------------------------------------ */

/* fast NULL: the reference */
typedef struct tinyi_lm_few {
    float *x;
    tiny_idx n, ld;
    int bits;
    float clip;
    tinyi_fn_few_bits_f32 fast;
} tinyi_lm_few;

TINY_REF_BEGIN
static void tinyi_lm_few_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_few *q = (const tinyi_lm_few *)arg;
    const float high = (float)((1 << (q->bits - 1)) - 1), low = -high - 1.0f;
    tiny_idx t, i;
    for (t = t0; t < t1; t++) {
        float *x = q->x + t * q->ld, most = 0.0f, s;
        if (q->fast) {
            q->fast(x, (size_t)q->n, q->clip, high);
            continue;
        }
        for (i = 0; i < q->n; i++) {
            const float a = x[i] < 0.0f ? -x[i] : x[i];
            most = a > most || a != a ? a : most;
        }
        s = q->clip * most / high;
        if (!(s > 0.0f && s <= 3e38f)) continue;
        for (i = 0; i < q->n; i++) {
            const float v = x[i] / s, c = v < low ? low : v > high ? high : v;
            /* rint: 1.5 * 2^23 leaves no fraction, and ties go to even */
            x[i] = s * ((c + 12582912.0f) - 12582912.0f);
        }
    }
}
TINY_REF_END

static tinyi_fn_few_bits_f32 tinyi_lm_few_fast(const tiny_ctx *ctx)
{
    return ctx->target == TINY_TARGET_REFERENCE ? NULL : TINYI_OF(ctx->k, few_bits_f32);
}

TINYI_FN void tinyi_lm_few_bits(tinyi_lm_fwd *f, float *x, tiny_idx n, tiny_idx d)
{
    tinyi_lm_few q;
    q.x = x;
    q.n = q.ld = d;
    q.bits = f->s->x_bits;
    q.clip = f->s->x_clip;
    q.fast = tinyi_lm_few_fast(f->ctx);
    if (q.bits) tinyi_lm_each(f, n, 4, tinyi_lm_few_fn, &q);
}

typedef struct tinyi_lm_few_team { tinyi_lm_few q; tiny_idx rows; } tinyi_lm_few_team;
static void tinyi_lm_few_loop(tiny_team *team, void *arg)
{
    const tinyi_lm_few_team *a = (const tinyi_lm_few_team *)arg;
    tiny_idx t0, t1;
    while (tiny_take(team, a->rows, 4, &t0, &t1)) tinyi_lm_few_fn(&a->q, t0, t1);
}

TINY_API tiny_status tllm_round_rows(tiny_ctx *ctx, float *x, tiny_idx rows, tiny_idx n, tiny_idx ld, int bits,
                                     float clip)
{
    tinyi_lm_few_team a;
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || rows < 0 || n < 0 || ld < n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "round: %td rows of %td numbers, %td apart: not a matrix", rows, n,
                          ld);
    if (bits < 2 || bits > 8 || !(clip > 0.0f && clip <= 1.0f))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "round: %d bits with a clip of %g: the limits are 2 to 8 bits, and a clip above 0 and at most 1", bits,
            (double)clip);
    memset(&a, 0, sizeof a);
    a.q.x = x;
    a.q.n = n;
    a.q.ld = ld;
    a.q.bits = bits;
    a.q.clip = clip;
    a.q.fast = tinyi_lm_few_fast(ctx);
    a.rows = rows;
    return tiny_parallel(ctx, 0, 0, 0, tinyi_lm_few_loop, &a);
}

