/* src/llm/lab/vision/pyra.c - the hooks of a vision transformer that merges tokens
 * Paper    Y. Xiong et al., 2024 (arXiv 2403.09192), the authors' code; the logarithm of sizes: D. Bolya et al., 2022,
 *          eq. 1.
 * Formula  after attention of block l: match of the keys, merge (llm/lab/vision/merge.c), sizes summed; attention of
 *          later blocks adds ln size to the scores of a key, once tokens have merged.
 * Data     sizes, matches and places are on the tape of the run.
 * Left out LoRA on q, k and v, which the authors train together with it: the trainer's list of parameters decides what
 *          is frozen. */
#include "llm/lab/vision/pyra.h"
#include "llm/lab/vision/params_inside.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

struct tllm_pyra {
    tiny_ctx *ctx;
    tllm_vit_hooks hooks;
    tiny_idx t, n_block, d;
    int plain, unweighted;
    tiny_idx r[TLLM_VIT_BLOCKS];
    tinyi_params p;
    tiny_tensor w[TLLM_VIT_BLOCKS][4];      /* of a block; data NULL: none */
    tiny_tensor size, place;                /* of the run that is under way */
    int begun;                              /* some have merged: sizes differ */
};

static tiny_tensor tinyi_pyra_bad(tiny_tape *tape, tiny_status st, const char *text)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    (void)tinyi_tape_refuse(tape, st, text);
    return none;
}

/* what the context says of st, said again by the tape: out of a copy, the sentence is written where it stands */
static tiny_tensor tinyi_pyra_failed(tiny_tape *tape, const tllm_pyra *p, tiny_status st)
{
    char says[320];
    (void)snprintf(says, sizeof says, "%.300s", tiny_ctx_message(p->ctx));
    return tinyi_pyra_bad(tape, st, says);
}

static tiny_tensor tinyi_pyra_mix(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *q,
                                  const tiny_tensor *k, const tiny_tensor *v)
{
    tllm_pyra *p = (tllm_pyra *)user;
    tiny_tensor bias;
    tiny_idx dim[2], h, t;
    if (!at->i_block) p->begun = 0;
    if (!p->begun || p->unweighted) return tiny_tape_call(tape, TINY_OP_ATTENTION, q, k, v, NULL, NULL);
    dim[0] = q->dim[1];
    dim[1] = k->dim[0];
    bias = tiny_tape_new(tape, q->dtype, 2, dim);
    if (!bias.data) return bias;
    for (h = 0; h < dim[0] && !tiny_tape_dry(tape); h++)
        for (t = 0; t < dim[1]; t++)
            tinyi_real_set(bias.data, bias.dtype, h * dim[1] + t,
                           tinyi_log64(tinyi_real(p->size.data, p->size.dtype, t * at->batch + h / at->n_head)));
    bias.rank = 3;                          /* the same for all queries */
    bias.dim[1] = q->dim[0]; bias.dim[2] = dim[1];
    bias.stride[1] = 0; bias.stride[2] = 1;
    return tiny_tape_call(tape, TINY_OP_ATTENTION, q, k, v, &bias, NULL);
}

static tiny_tensor tinyi_pyra_between(tiny_tape *tape, void *user, const tllm_vit_at *at, const tiny_tensor *x,
                                      const tiny_tensor *k)
{
    tllm_pyra *p = (tllm_pyra *)user;
    tiny_tensor match, next, y[TINY_OP_MAX_OUT];
    tllm_pyra_weights w;
    tiny_idx dim[2], i;
    tiny_op op;
    const int dry = tiny_tape_dry(tape);
    const tiny_idx r = at->i_block < p->n_block ? p->r[at->i_block] : 0, t = x->dim[0];
    tiny_status st = TINY_OK;
    if (at->i_block >= p->n_block || t != tllm_pyra_tokens(p, at->i_block - 1))
        return tinyi_pyra_bad(tape, TINY_E_SHAPE, "pyra: an unexpected block or number of tokens");
    if (!at->i_block) {                     /* all stand for themselves */
        dim[0] = t; dim[1] = at->batch;
        p->size = tiny_tape_new(tape, x->dtype, 2, dim);
        p->place = tiny_tape_new(tape, TINY_I32, 2, dim);
        if (tiny_tape_status(tape)) return *x;
        for (i = 0; i < t * at->batch && !dry; i++) tinyi_real_set(p->size.data, p->size.dtype, i, 1.0);
        if (!dry) st = tllm_tome_track(p->ctx, &p->place, NULL, 0);
    }
    if (!r || st) return st ? tinyi_pyra_failed(tape, p, st) : *x;
    dim[0] = 2 * t + r; dim[1] = at->batch;
    match = tiny_tape_new(tape, TINY_I32, 2, dim);
    dim[0] = t - r;
    next = tiny_tape_new(tape, x->dtype, 2, dim);
    if (tiny_tape_status(tape)) return *x;
    if (!dry) st = tllm_tome_match(p->ctx, k, at->batch, TLLM_TOME_CLASS, &match);
    if (!dry && !st) st = tllm_tome_sizes(p->ctx, &p->size, &match, &next);
    if (!dry && !st) st = tllm_tome_track(p->ctx, &p->place, &match, t);
    if (st) return tinyi_pyra_failed(tape, p, st);
    w.pa = &p->w[at->i_block][0];
    w.pb = &p->w[at->i_block][1];
    w.norm_g = &p->w[at->i_block][2];
    w.norm_b = &p->w[at->i_block][3];
    tinyi_tmerge_op(&op, 0, x, &p->size, &match, w.pa->data ? &w : NULL);
    if (tiny_tape_op(tape, &op, y)) return *x;
    p->size = next;
    p->begun = 1;
    return y[0];
}

static void tinyi_pyra_lay(tllm_pyra *p)
{
    static const char *const name[4] = { "pa", "pb", "norm.weight", "norm.bias" };
    static const tinyi_first first[4] = { TINYI_FIRST_UNIFORM, TINYI_FIRST_ZERO, TINYI_FIRST_ONE, TINYI_FIRST_ZERO };
    tiny_idx i;
    int k;
    for (i = 0; i < p->n_block; i++)
        for (k = 0; k < 4 && p->r[i] && !p->plain; k++)
            tinyi_params_add(&p->p, &p->w[i][k], first[k], 2, 1, k ? &p->d : &p->r[i], "pyra.%d.%s", (int)i, name[k]);
}

TINY_API tiny_status tllm_pyra_open(tiny_ctx *ctx, const tllm_vit *vit, const tllm_pyra_desc *desc, tllm_pyra **out)
{
    const tllm_vit_desc *is = tllm_vit_is(vit);
    tllm_pyra *p;
    tiny_idx i, t;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !is || !desc || !desc->r)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "pyra: a network, the merges of each block, and a result pointer are needed");
    if (desc->n_block != is->n_block)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pyra: numbers for %td blocks, but the network has %td", desc->n_block,
                          is->n_block);
    t = tllm_vit_tokens(vit);
    if (t > TLLM_TOME_TOKENS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pyra: %td tokens, %d at most", t, TLLM_TOME_TOKENS);
    for (i = 0; i < desc->n_block; i++)
        if (desc->r[i] < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pyra: %td merges in block %td", desc->r[i], i);
    p = (tllm_pyra *)tiny_alloc(ctx, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->hooks.user = p;
    p->hooks.mix = tinyi_pyra_mix;
    p->hooks.between = tinyi_pyra_between;
    p->t = t;
    p->n_block = is->n_block;
    p->d = is->d;
    p->plain = desc->plain;
    p->unweighted = desc->unweighted;
    for (i = 0; i < p->n_block; i++) {
        p->r[i] = tllm_tome_count(t, desc->r[i], TLLM_TOME_CLASS);
        t -= p->r[i];
        if (!p->plain && p->r[i] > TLLM_PYRA_PAIRS)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "pyra: %td merges with weights in block %td, %d at most", p->r[i],
                            i, TLLM_PYRA_PAIRS);
    }
    tinyi_params_begin(&p->p, ctx, is->dtype, tiny_rng_make(desc->seed, 0x70797261));
    tinyi_pyra_lay(p);
    if (!st) st = tinyi_params_place(&p->p, "pyra");
    if (!st) {
        tinyi_pyra_lay(p);
        st = p->p.st;
    }
    if (st) tllm_pyra_close(p);
    else *out = p;
    return st;
}

TINY_API void tllm_pyra_close(tllm_pyra *p)
{
    if (!p) return;
    tinyi_params_free(&p->p);
    tiny_free(p->ctx, p);
}

TINY_API const tllm_vit_hooks *tllm_pyra_hooks(tllm_pyra *p) { return p ? &p->hooks : NULL; }
TINY_API tiny_tensor tllm_pyra_place(const tllm_pyra *p)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    return p ? p->place : none;
}
TINY_API const tiny_param *tllm_pyra_params(const tllm_pyra *p, size_t *n)
{
    if (n) *n = p ? p->p.n : 0;
    return p ? p->p.param : NULL;
}
TINY_API tiny_idx tllm_pyra_tokens(const tllm_pyra *p, tiny_idx i_block)
{
    tiny_idx i, t = p ? p->t : 0;
    for (i = 0; p && i <= i_block && i < p->n_block; i++) t -= p->r[i];
    return t;
}
