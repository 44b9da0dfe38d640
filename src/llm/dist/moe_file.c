/* src/llm/dist/moe_file.c - mixture layers of model files, for the ranks of llm/dist/moe_fold.h
 * Method   blk.N.ffn_gate_inp (width, experts) is the router; ffn_gate_exps, ffn_up_exps (width, hidden, experts) and
 *          ffn_down_exps (hidden, width, experts) are the experts. In a file a row holds what goes into one number that
 *          comes out; here a matrix is (in, out), so each is turned around while it is unpacked. A rank unpacks its own
 *          experts only, and with etp above 1 keeps its hidden numbers of them.
 * Left out routers with a bias, groups of experts, sigmoids, scaled gates, and experts that every token takes. */
#include "llm/dist/moe_fold_inside.h"
#include "llm/block/format.h"
#include "core/state_inside.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_MOE_ROUTER, TINYI_MOE_GATES, TINYI_MOE_UPS, TINYI_MOE_DOWNS, TINYI_MOE_TENSORS };

/* blk.layer.what; NULL: the file does not have it */
static const tllm_gguf_tensor *tinyi_moe_tensor(const tllm_gguf *g, tiny_idx layer, const char *what)
{
    char name[80];
    (void)snprintf(name, sizeof name, "blk.%ld.%s", (long)layer, what);
    return tllm_gguf_tensor_find(g, name);
}
/* a key of the file's architecture */
static const tllm_meta *tinyi_moe_meta(const tllm_gguf *g, tllm_text arch, const char *name)
{
    char key[120];
    (void)snprintf(key, sizeof key, "%.*s.%s", (int)TINYI_MIN(arch.n, (size_t)60), arch.at, name);
    return tllm_gguf_find(g, key);
}

/* The four tensors and what the description says of the layer. */
static tiny_status tinyi_moe_find(tiny_ctx *ctx, const tllm_gguf *g, tiny_idx layer, tllm_moe_desc *d,
                                  const tllm_gguf_tensor *t[TINYI_MOE_TENSORS])
{
    static const struct { const char *arch; int plain_gates; } known[] = {
        { "llama", 0 }, { "qwen3moe", 0 }, { "granitemoe", 0 }, { "olmoe", 1 } };
    static const char *const name[TINYI_MOE_TENSORS] = { "ffn_gate_inp.weight", "ffn_gate_exps.weight",
                                                         "ffn_up_exps.weight", "ffn_down_exps.weight" };
    static const char *const other[] = { "ffn_gate_inp.bias",  "exp_probs_b.bias",   "ffn_up_shexp.weight",
                                         "ffn_gate_exps.bias", "ffn_up_exps.bias",   "ffn_down_exps.bias",
                                         "ffn_gate_exps.scale", "ffn_up_exps.scale", "ffn_down_exps.scale" };
    static const char *const key[] = { "expert_gating_func", "expert_group_count", "expert_weights_scale" };
    const tllm_meta *said = tllm_gguf_find(g, "general.architecture"), *k;
    const char *path = tllm_gguf_path(g, 0);
    tllm_text arch;
    double one = 0.0;
    int64_t used = 0;
    size_t i;
    if (!said || !tllm_meta_text(said, 0, &arch))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the file does not name its architecture", path);
    for (i = 0; i < sizeof known / sizeof *known && !tllm_text_is(arch, known[i].arch); i++) {}
    if (i == sizeof known / sizeof *known)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: mixture layers of %.*s are not known here; those of llama, "
                          "qwen3moe, granitemoe and olmoe are", path, (int)TINYI_MIN(arch.n, (size_t)60), arch.at);
    d->plain_gates = known[i].plain_gates;
    for (i = 0; i < TINYI_MOE_TENSORS; i++) {
        t[i] = tinyi_moe_tensor(g, layer, name[i]);
        if (!t[i])
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: layer %td is no mixture layer: it has no %s", path, layer,
                              name[i]);
    }
    for (i = 0; i < sizeof other / sizeof *other; i++)
        if (tinyi_moe_tensor(g, layer, other[i]))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: layer %td has %s, which mixture layers over ranks do not "
                              "compute", path, layer, other[i]);
    for (i = 0; i < sizeof key / sizeof *key; i++) {
        k = tinyi_moe_meta(g, arch, key[i]);
        if (k && (!tllm_meta_f64(k, 0, &one) || one != 1.0))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %s is not 1: mixture layers over ranks do not compute it",
                              path, key[i]);
    }
    k = tinyi_moe_meta(g, arch, "expert_used_count");
    if (!k || !tllm_meta_i64(k, 0, &used) || used < 1 || used > 65536)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: expert_used_count is missing, or not 1 to 65536", path);
    for (i = 0; i < TINYI_MOE_TENSORS; i++) {
        const tllm_format *f = tllm_format_of(t[i]->type);
        const uint64_t in = i == TINYI_MOE_DOWNS ? t[TINYI_MOE_GATES]->dim[1] : t[TINYI_MOE_ROUTER]->dim[0],
                       out = i == TINYI_MOE_ROUTER  ? t[i]->dim[1]
                             : i == TINYI_MOE_DOWNS ? t[TINYI_MOE_ROUTER]->dim[0]
                                                    : t[TINYI_MOE_GATES]->dim[1],
                       many = i == TINYI_MOE_ROUTER ? 1 : t[TINYI_MOE_ROUTER]->dim[1];
        if (t[i]->rank != (i == TINYI_MOE_ROUTER ? 2 : 3) || t[i]->dim[0] != in || t[i]->dim[1] != out ||
            t[i]->dim[2] != many || in > (uint64_t)1 << 24 || out > (uint64_t)1 << 24)
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: layer %td: %s does not fit the other matrices of the experts",
                              path, layer, name[i]);
        if (!f || f->flags & TLLM_FORMAT_ACTIVATIONS || !tllm_format_bytes(f, in) ||
            t[i]->bytes != tllm_format_bytes(f, in) * out * many)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: layer %td: the numbers of %s cannot be read", path, layer,
                              name[i]);
    }
    d->k = (tiny_idx)used;
    d->n_expert = (tiny_idx)t[TINYI_MOE_ROUTER]->dim[1];
    d->width = (tiny_idx)t[TINYI_MOE_ROUTER]->dim[0];
    d->hidden = (tiny_idx)t[TINYI_MOE_GATES]->dim[1];
    return TINY_OK;
}

TINY_API tiny_status tllm_moe_describe(tiny_ctx *ctx, const tllm_gguf *file, tiny_idx layer, tllm_moe_desc *desc)
{
    const tllm_gguf_tensor *t[TINYI_MOE_TENSORS];
    tllm_moe_desc d;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!file || !desc || layer < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a file, a layer and a description are needed");
    d = *desc;
    st = tinyi_moe_find(ctx, file, layer, &d, t);
    if (!st) st = tinyi_moe_check(ctx, &d);
    if (!st) *desc = d;
    return st;
}

/* to (in, n) = columns c0 .. c0 + n of the matrix at `from`, whose rows, `out` of them, have `in` numbers each; with
 * `across`, to (n, out) = its columns c0 .. c0 + n as rows */
static void tinyi_moe_turn(const tllm_format *f, const unsigned char *from, size_t in, size_t out, size_t c0, size_t n,
                           int across, float *to, float *strip)
{
    const size_t bytes = tllm_format_bytes(f, in), first = across ? 0 : c0, rows = across ? out : n;
    size_t r, i;
    for (r = first; r < first + rows; r++) {
        f->unpack(from + r * bytes, strip, in);
        if (across) for (i = 0; i < n; i++) to[i * out + r] = strip[c0 + i];
        else for (i = 0; i < in; i++) to[i * n + (r - first)] = strip[i];
    }
}

TINY_API tiny_status tllm_moe_read(tllm_moe *m, const tllm_gguf *file, tiny_idx layer, tllm_moe_weights *w)
{
    const tllm_gguf_tensor *t[TINYI_MOE_TENSORS];
    const tllm_format *f[TINYI_MOE_TENSORS];
    const tllm_moe_desc *is;
    tiny_ctx *ctx;
    tllm_moe_desc d;
    tiny_idx first, h0;
    size_t own, hidden, width, all, e, part, n, i;
    float *at, *strip;
    tiny_status st;
    if (!m) return TINY_E_ARGUMENT;
    ctx = tinyi_moe_ctx(m);
    if (!file || !w || layer < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a file, a layer and room for its weights are needed");
    is = tinyi_moe_desc_of(m);
    d = *is;
    st = tinyi_moe_find(ctx, file, layer, &d, t);
    if (st) return st;
    if (d.n_expert != is->n_expert || d.k != is->k || d.width != is->width || d.hidden != is->hidden ||
        d.plain_gates != (is->plain_gates != 0))
        return tinyi_fail(ctx, TINY_E_SHAPE, "mixture: layer %td has %td of %td experts of %td x %td%s; the ranks were "
                          "opened for another shape", layer, d.k, d.n_expert, d.width, d.hidden,
                          d.plain_gates ? ", plain gates" : "");
    own = (size_t)tllm_moe_own(m, &first);
    hidden = (size_t)tllm_moe_hidden(m, &h0);
    width = (size_t)d.width;
    all = (size_t)d.hidden;
    part = own * width * hidden;            /* not more than what tinyi_moe_check has allowed */
    n = width * (size_t)d.n_expert;
    if (!tinyi_size_mul(part, 3, &i) || !tinyi_size_add(i, n, &n) || !tinyi_size_add(n, TINYI_MAX(width, all), &n))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "mixture: the experts are more than this machine can address");
    at = (float *)tinyi_moe_weights_room(m, n);
    if (!at) return tiny_ctx_status(ctx);
    for (i = 0; i < TINYI_MOE_TENSORS; i++) f[i] = tllm_format_of(t[i]->type);
    w->router = at;
    at += width * (size_t)d.n_expert;
    w->gate = at;
    w->up = at + part;
    w->down = at + 2 * part;
    strip = at + 3 * part;
    tinyi_moe_turn(f[TINYI_MOE_ROUTER], t[TINYI_MOE_ROUTER]->data, width, (size_t)d.n_expert, 0, (size_t)d.n_expert, 0,
                   at - width * (size_t)d.n_expert, strip);
    for (e = 0; e < own; e++)
        for (i = TINYI_MOE_GATES; i < TINYI_MOE_TENSORS; i++) {
            const size_t bytes = t[i]->bytes / (size_t)d.n_expert;
            const unsigned char *from = t[i]->data + ((size_t)first + e) * bytes;
            float *to = at + (i - TINYI_MOE_GATES) * part + e * width * hidden;
            if (i == TINYI_MOE_DOWNS)
                tinyi_moe_turn(f[i], from, all, width, (size_t)h0, hidden, 1, to, strip);
            else tinyi_moe_turn(f[i], from, width, all, (size_t)h0, hidden, 0, to, strip);
        }
    return TINY_OK;
}
