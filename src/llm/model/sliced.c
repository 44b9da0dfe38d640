/* src/llm/model/sliced.c - running a sliced model: see sliced.h
 *
 * Paper    S. Ashkboos et al., "SliceGPT: Compress Large Language Models by Deleting Rows and Columns", 2024 (arXiv
 *          2401.15024), 3.2 and 3.3
 * Formula  x <- S_attn x + attn(norm(x)), x <- S_ffn x + ffn(norm(x)); parallel: x <- S_attn x + attn(norm(x)) +
 *          ffn(norm(x)). norm(x) = g x / sqrt(sum x^2 / D + eps), D the width of the original. With d numbers in x this
 *          is the RMS norm of d numbers with eps D / d and the gain g sqrt(D / d); files store that product. Layer
 *          norms of the original are such norms too: the mean of its stream is 0 after slicing
 *          A stitch: x <- W x + c before the layer (llm/session/stitched.h)
 * Cost     a product of d_in by d_out numbers for each half, in addition to the smaller products of the half */
#include <string.h>
#include "llm/model/model_inside.h"

TINYI_FN void tinyi_lm_sliced_widths(tinyi_lm_load *ld)
{
    tllm_model *m = ld->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    const char *why = NULL;
    if (ld->st) return;
    if (m->encoder || a->top & (TINYI_LM_T_T5 | TINYI_LM_T_HIDDEN | TINYI_LM_T_OUTPUT_IS_EMBD)) why = "give no logits";
    else if (a->mixer != TINYI_LM_ATTN || a->other) why = "have mixers other than attention";
    else if ((m->block != TINYI_LM_PRE && m->block != TINYI_LM_PARALLEL) ||
             (a->block != TINYI_LM_PRE && a->block != TINYI_LM_PARALLEL))
        why = "do not have a norm before both halves of a layer";
    else if (m->n_ple > 0 || m->n_latent > 0 || m->n_once < m->n_layer || m->rescale > 0 ||
             a->keys & TINYI_LM_K_BANK || a->ffn & (TINYI_LM_F_ROUTER_EARLY | TINYI_LM_F_SIDE_BY_SIDE))
        why = "use the stream in other places than the two halves of a layer";
    if (why) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED, "%s: models of the architecture %s %s: they cannot be sliced",
                            m->path, a->name, why);
        return;
    }
    m->d_first = tinyi_lm_count(ld, "slice.width", 0, -1, 1, m->n_embd);
    m->d_last = tinyi_lm_count(ld, "slice.width", 2 * m->n_layer, -1, 1, m->n_embd);
}

TINYI_FN void tinyi_lm_sliced_numbers(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    l->d_in = tinyi_lm_count(ld, "slice.width", 2 * l->i, -1, 1, m->n_embd);
    l->d_mid = tinyi_lm_count(ld, "slice.width", 2 * l->i + 1, -1, 1, m->n_embd);
    l->d_out = tinyi_lm_count(ld, "slice.width", 2 * l->i + 2, -1, 1, m->n_embd);
    if (m->sliced == TINYI_LM_STITCHED && tinyi_lm_find(ld, l, TINYI_T_STITCH, NULL)) {
        l->d_from = l->d_in;
        l->d_in = l->d_mid;
    }
    if (m->block == TINYI_LM_PARALLEL && l->d_mid != l->d_out)
        tinyi_lm_disagree(ld, l, "parallel halves end in one width, but slice.width has", l->d_mid, l->d_out);
}

TINYI_FN void tinyi_lm_sliced_norm(const tllm_model *m, const tinyi_lm_w *w)
{
    /* memory of the model, which may be changed here */
    if (w && m->sliced != TINYI_LM_STITCHED)
        ((tinyi_lm_w *)(uintptr_t)w)->widen = (float)((double)m->n_embd / (double)w->n_in);
}

static void tinyi_lm_sliced_shortcut(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx from, tiny_idx to)
{
    /* without one the stream goes on as it is */
    if (from == to) tinyi_lm_may(ld, l, t, from, to, 0);
    else tinyi_lm_need(ld, l, t, from, to, 0);
}

TINYI_FN void tinyi_lm_sliced_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const int parallel = m->block == TINYI_LM_PARALLEL;
    if (ld->st) return;
    if (l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX || l->cross || l->post1 || l->post2 || !l->norm1 ||
        !l->ffn || (!l->norm2 && !parallel) || l->w[TINYI_T_LAYER_SCALE]) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                            "%s: layer %td is not attention and a network, each after a norm and without one behind "
                            "it: such layers cannot be sliced",
                            m->path, l->i);
        return;
    }
    if (l->d_from) tinyi_lm_need(ld, l, TINYI_T_STITCH, l->d_from, l->d_in, 0);
    tinyi_lm_sliced_shortcut(ld, l, TINYI_T_ATTN_SHORTCUT, l->d_in, l->d_mid);
    if (!parallel) tinyi_lm_sliced_shortcut(ld, l, TINYI_T_FFN_SHORTCUT, l->d_mid, l->d_out);
    tinyi_lm_sliced_norm(m, l->norm1);
    tinyi_lm_sliced_norm(m, l->norm2);
    tinyi_lm_sliced_norm(m, l->w[TINYI_T_ATTN_NORM_2]);
}

/* x = shortcut x + y, z: scratch of the width after the half */
static void tinyi_lm_sliced_add(tinyi_lm_fwd *f, const tinyi_lm_w *shortcut, float *x, const float *y, float *z,
                                tiny_idx d)
{
    if (shortcut) tinyi_lm_linear(f, shortcut, z, x, f->n);
    tinyi_lm_add(f, x, shortcut ? z : x, y, f->n * d);
}

TINYI_FN void tinyi_lm_sliced_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const int parallel = f->m->block == TINYI_LM_PARALLEL, few = TINYI_LM_X_BITS(f->s);
    const tiny_idx wide = TINYI_MAX(l->d_in, TINYI_MAX(l->d_mid, l->d_out));
    const size_t used = f->used;
    float *h = tinyi_lm_take(f, f->n, wide), *y = tinyi_lm_take(f, f->n, wide), *z = tinyi_lm_take(f, f->n, wide), *u;
    if (f->st) return;
    if (l->d_from) {                        /* x = W x + c */
        tinyi_lm_linear(f, l->w[TINYI_T_STITCH], z, x, f->n);
        tinyi_lm_copy(f, x, l->d_in, z, l->d_in, f->n, l->d_in);
    }
    f->layer_in = f->in_layer[0] = x;
    f->in_layer[1] = h;
    f->n_in_layer = 2;
    f->d_layer = l->d_in;
    u = parallel ? tinyi_lm_take(f, f->n, wide) : NULL;
    tinyi_lm_norm(f, l->norm1, h, x, f->n, l->d_in);
    if (few) tinyi_lm_few_bits(f, h, f->n, l->d_in);
    if (parallel && l->w[TINYI_T_ATTN_NORM_2]) {
        f->in_layer[f->n_in_layer++] = z;
        tinyi_lm_norm(f, l->w[TINYI_T_ATTN_NORM_2], z, x, f->n, l->d_in);
        if (few) tinyi_lm_few_bits(f, z, f->n, l->d_in);
        tinyi_lm_mix(f, l, y, z);
    } else tinyi_lm_mix(f, l, y, h);
    if (!f->n || f->st) { f->used = used; return; }
    if (parallel) {
        if (l->norm2) tinyi_lm_norm(f, l->norm2, h, x, f->n, l->d_in);
        if (few && l->norm2) tinyi_lm_few_bits(f, h, f->n, l->d_in);
        tinyi_lm_feed(f, l, u, h);
        tinyi_lm_add(f, y, y, u, f->n * l->d_out);
        tinyi_lm_sliced_add(f, l->w[TINYI_T_ATTN_SHORTCUT], x, y, z, l->d_out);
    } else {
        tinyi_lm_settle(f, l, 0, y);
        tinyi_lm_sliced_add(f, l->w[TINYI_T_ATTN_SHORTCUT], x, y, z, l->d_mid);
        tinyi_lm_norm(f, l->norm2, h, x, f->n, l->d_mid);
        if (few) tinyi_lm_few_bits(f, h, f->n, l->d_mid);
        tinyi_lm_feed(f, l, y, h);
        tinyi_lm_settle(f, l, 1, y);
        tinyi_lm_sliced_add(f, l->w[TINYI_T_FFN_SHORTCUT], x, y, z, l->d_out);
    }
    f->used = used;
}
