/* src/llm/model/sparse.c - networks with squared ReLU in decode: reads only the columns of active neurons
 * Formula  y = W_down h = sum over h[i] != 0 of h[i] W_down[., i]; W_down is stored a second time, column by column
 *          (llm/block/sparse.h)
 * Rule     for each layer and step the active neurons of all its tokens are counted. The list is used if at most half
 *          of the neurons are active, and their columns have at most half of the bytes of W_down in the file.
 *          Otherwise, and for more than TINYI_LM_FIRED tokens, the full product is used. docs/papers/plm.md has
 *          the measurements that gave these limits. */
#include "llm/model/model_inside.h"
#include "llm/block/sparse.h"
#include <string.h>

#define TINYI_LM_FIRED 8                    /* tokens of a step at most: of many some neuron fires almost everywhere */

TINYI_FN int tinyi_lm_fires(const tllm_model *m)
{
    return TINYI_LM_ARCH(m)->act == TINYI_LM_RELU2 && (TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_PLAIN) != 0;
}

TINY_API tiny_status tllm_model_sparse(tiny_ctx *ctx, tllm_model *m, int format, size_t *bytes)
{
    tinyi_lm_load ld;
    size_t sum = 0, one;
    tiny_idx i, found = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (bytes) *bytes = 0;
    if (st) return st;
    if (!m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse networks: the model is NULL");
    if (TINYI_LM_DISK(m))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model that stays on disk has no second copy", m->path);
    if (m->eights)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: the model is repacked: call tllm_model_sparse before that", m->path);
    if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_FEED)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: its networks are rotated: after that no neuron is inactive",
                          m->path);
    if (m->world > 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: the networks of a model cut over %d ranks cannot be read by columns", m->path,
                          m->world);
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = m->file;
    ld.m = m;
    for (i = 0; i < m->n_layer && !ld.st && !st; i++) {
        /* memory of the model, which may be changed here */
        tinyi_lm_w *w = (tinyi_lm_w *)(uintptr_t)m->layer[i].w[TINYI_T_FFN_DOWN];
        const tllm_format *to;
        void *turned;
        if (!tinyi_lm_fires(m) || !w || m->layer[i].moe || m->layer[i].w[TINYI_T_FFN_GATE] ||
            m->layer[i].w[TINYI_T_FFN_SUB_NORM] || w->scale || w->n_in > INT32_MAX)
            continue;
        to = tllm_format_of(format >= 0                            ? format
                            : w->format->flags & TLLM_FORMAT_PLAIN ? w->format->id
                                                                   : (int)TLLM_FORMAT_F16);
        found++;
        if (!to || !to->pack || (to->flags & TLLM_FORMAT_ACTIVATIONS) || !tllm_format_bytes(to, (uint64_t)w->n_out) ||
            !tinyi_size_mul(tllm_format_bytes(to, (uint64_t)w->n_out), (size_t)w->n_in, &one))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "%s: layer %td: columns of %td numbers cannot be stored as %s (format %d)", m->path, i,
                              w->n_out, to ? to->name : "?", format);
        if (w->turned && w->turned_format == to) { sum += one; continue; }
        turned = tinyi_lm_keep(&ld, one, 1);
        if (!turned) break;
        st = tllm_turn_rows(ctx, w->format->id, w->t->data, w->n_out, w->n_in, to->id, turned);
        if (st) break;
        w->turned = turned;
        w->turned_format = to;
        sum += one;
    }
    if (!st) st = ld.st;
    if (!st && !found)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: %s has no plain network with squared ReLU, whose inactive neurons are exactly 0",
                          m->path, TINYI_LM_ARCH(m)->name);
    if (bytes && !st) *bytes = sum;
    return st;
}

TINY_API void tllm_state_sparsity(const tllm_state *s, tllm_sparsity *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (s) *out = s->sparsity;
}

TINYI_FN void tinyi_lm_down(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_lm_w *w, float *y, float *g)
{
    const size_t used = f->used;
    const tiny_idx n = f->n, ff = w->n_in;
    tllm_mix_params params;
    tiny_tensor tx, tw, tl, ty;
    int32_t *list;
    double fired, whole;
    tiny_idx m;
    tiny_op op;
    int pays;
    if (TINYI_LM_ROTATED(f->m) & TLLM_ROTATE_FEED) {
        float *turned = tinyi_lm_take(f, n, ff);
        tinyi_lm_turn_rows(f, turned, g, n, ff);
        if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, turned, n, ff);
        tinyi_lm_linear(f, w, y, turned, n);
        f->used = used;
        return;
    }
    if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, g, n, ff);
    if (!tinyi_lm_fires(f->m) || f->s->exact || n > TINYI_LM_FIRED || l->w[TINYI_T_FFN_DOWN] != w ||
        l->w[TINYI_T_FFN_GATE] || l->w[TINYI_T_FFN_SUB_NORM]) {
        tinyi_lm_linear(f, w, y, g, n);
        return;
    }
    list = (int32_t *)(void *)tinyi_lm_take(f, 1, ff);
    if (f->st) return;
    m = f->dry ? ff : tllm_active_list(g, n, ff, list);
    fired = (double)m * (w->turned ? (double)tllm_format_bytes(w->turned_format, (uint64_t)w->n_out) : 0.0);
    whole = (double)w->n_out * (double)w->row_bytes;
    pays = w->turned && 2 * m <= ff && 2.0 * fired <= whole;
    if (f->dry || !pays) tinyi_lm_linear(f, w, y, g, n);
    if (!f->dry) {
        tllm_sparsity *s = &f->s->sparsity;
        s->n_products++;
        s->n_sparse += (uint64_t)pays;
        s->fired += ((double)m / (double)ff - s->fired) / (double)s->n_products;
    }
    if (f->dry || pays) {
        const tllm_format *t = f->dry ? w->format : w->turned_format;
        memset(&op, 0, sizeof op);
        memset(&params, 0, sizeof params);
        params.format = t->id;
        tx = tiny_tensor_2d((void *)(uintptr_t)g, TINY_F32, n, ff);
        tl = tiny_tensor_1d(list, TINY_I32, m);
        tw = tiny_tensor_2d((void *)(uintptr_t)w->turned, TINY_U8, ff,
                            (tiny_idx)tllm_format_bytes(t, (uint64_t)w->n_out));
        /* the copy may come later, in any format: work depends on its shape alone */
        if (f->dry) tw = tiny_tensor_2d(NULL, TINY_F32, ff, w->n_out);
        else if (tinyi_lm_in_place(t))
            tw = tiny_tensor_2d((void *)(uintptr_t)w->turned,
                                t->id == TLLM_FORMAT_F32   ? TINY_F32
                                : t->id == TLLM_FORMAT_F16 ? TINY_F16
                                                           : TINY_BF16,
                                ff, w->n_out);
        ty = tiny_tensor_2d(y, TINY_F32, n, w->n_out);
        op.kind = TLLM_OP_MIX_ROWS;
        op.row = tllm_mix_rows_row();
        op.in[0] = &tx;
        op.in[1] = &tw;
        op.in[2] = f->dry ? NULL : &tl;
        op.out[0] = &ty;
        op.params = &params;
        tinyi_lm_door(f, &op);
        if (!f->dry) {
            tiny_idx i;
            for (i = 0; w->bias && i < n; i++) tinyi_lm_add(f, y + i * w->n_out, y + i * w->n_out, w->bias, w->n_out);
            tinyi_lm_adapt(f, w, 0, y, w->n_out, g, ff, n);
        }
    }
    f->used = used;
}
