/* src/gnn/operator/spectral.c - spectral convolutions whose weights are whole, CP, Tucker or tensor trains
 * Paper    J. Kossaifi, N. Kovachki, K. Azizzadenesheli, A. Anandkumar, "Multi-Grid Tensorized Fourier Neural Operator
 *          for High-Resolution PDEs", 2023 (arXiv 2310.00120), section 3; Z. Li et al., 2020 (arXiv 2010.08895).
 * Formula  y = F^-1 (W_f F x), W (in, out, modes):
 *            CP      W_io,f = sum_r l_r u_ir v_or prod_k a^k_(f_k r)
 *            Tucker  W_io,f = sum G_(p.. ab) u_ia v_ob prod_k a^k_(f_k p_k)
 *            TT      W_io,f = g^1_i g^2_o g^3_f1 ..., matrices that multiply
 * Method   All complex products are the operation modes_mix, on views. The factors of the modes are joined first, to
 *          one small matrix K_f for each mode: of (R, R), diagonal for CP, (R, out) for TT. Then x goes through the
 *          factor of its channels, K_f, and the factor of the output: the whole weight is never there. Separable
 *          weights are as small as one field of modes and are computed whole.
 *          Joining: the first axis of the core is summed with its factor, and the new axis is put last; after all axes
 *          they are in their order again.
 * Memory   K: modes * R * R complex numbers, on the tape. */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/operator/spectral.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/init.h"
#include "math/layer.h"
#include "math/rows_inside.h"

#define TINYI_SPECTRAL_MOST 1e12            /* numbers of a whole weight */

/* ---- the plan */

static double tinyi_spectral_power(double x, double y) { return x > 0.0 ? tinyi_exp64(y * tinyi_log64(x)) : 0.0; }

static tiny_idx tinyi_spectral_round(double x)
{
    const double r = (double)(tiny_idx)(x + 0.5);
    return r < 1.0 ? 1 : (tiny_idx)r;
}

/* The root c of c^n product + c squares = ratio product, by bisection: the left side grows with c. */
static double tinyi_spectral_share(const tgnn_spectral *s, double product, double squares, double ratio)
{
    double low = 0.0, high = ratio > 1.0 ? ratio : 1.0;
    int i, k;
    for (i = 0; i < 100; i++) {
        const double c = 0.5 * (low + high);
        double sum = product;
        for (k = 0; k < s->n_axes; k++) sum *= c;
        if (sum + c * squares < ratio * product) low = c;
        else high = c;
    }
    return 0.5 * (low + high);
}

static void tinyi_spectral_ranks(tgnn_spectral *s)
{
    const double ratio = s->desc.ratio;
    double product = 1.0, sum = 0.0, squares = 0.0, mean[TGNN_SPECTRAL_AXES], a = 0.0, b, c;
    const int n = s->n_axes;
    int i;
    for (i = 0; i < n; i++) {
        product *= (double)s->axis[i];
        sum += (double)s->axis[i];
        squares += (double)s->axis[i] * (double)s->axis[i];
    }
    switch (s->desc.kind) {
    case TGNN_SPECTRAL_CP: s->rank[0] = tinyi_spectral_round(ratio * product / sum); break;
    case TGNN_SPECTRAL_TUCKER:
        c = tinyi_spectral_share(s, product, squares, ratio);
        for (i = 0; i < n; i++) s->rank[i] = tinyi_spectral_round(c * (double)s->axis[i]);
        break;
    case TGNN_SPECTRAL_TT:
        for (i = 0; i + 1 < n; i++) mean[i] = 0.5 * (double)(s->axis[i] + s->axis[i + 1]);
        for (i = 1; i + 1 < n; i++) a += mean[i - 1] * (double)s->axis[i] * mean[i];
        if (n == 2) a = mean[0] * mean[0] * (double)s->axis[0];
        b = (double)s->axis[0] * mean[0] + (double)s->axis[n - 1] * mean[n - 2];
        c = (tinyi_sqrt(b * b + 4.0 * a * ratio * product) - b) / (2.0 * a);
        s->rank[0] = s->rank[n] = 1;
        for (i = 0; i + 1 < n; i++) s->rank[i + 1] = tinyi_spectral_round(c * mean[i]);
        break;
    default: break;
    }
}

static void tinyi_spectral_add(tgnn_spectral *s, const char *name, int rank, tiny_idx a, tiny_idx b, tiny_idx c,
                               tiny_idx d)
{
    tiny_idx dim[4];
    double n = 0.5;
    int i;
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    dim[3] = d;
    s->name[s->n_weights] = name;
    s->weight[s->n_weights++] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    for (i = 0; i < rank; i++) n *= (double)dim[i];
    s->n_numbers += n;
}

/* where the axis of the channels in, or the only one, comes: after that of the layers */
static int tinyi_spectral_first(const tgnn_spectral *s) { return s->desc.layers > 1; }
static int tinyi_spectral_n_channels(const tgnn_spectral *s) { return s->desc.separable ? 1 : 2; }

static void tinyi_spectral_shapes(tgnn_spectral *s)
{
    static const char *const names[TGNN_SPECTRAL_AXES] = { "factor.0", "factor.1", "factor.2",
                                                           "factor.3", "factor.4", "factor.5" };
    const int kind = s->desc.kind, first = tinyi_spectral_first(s), n_channels = tinyi_spectral_n_channels(s);
    tiny_idx modes = 1, core = 1;
    int i;
    for (i = 0; i < s->n_axes; i++) {
        const int channel = i >= first && i < first + n_channels;
        if (!channel) modes *= s->axis[i];
        if (!channel) core *= s->rank[i];
    }
    if (kind == TGNN_SPECTRAL_DENSE)
        tinyi_spectral_add(s, "weight", 2 + n_channels, modes, 2, s->desc.n_in, s->desc.n_out);
    if (kind == TGNN_SPECTRAL_CP) tinyi_spectral_add(s, "lambda", 3, 1, 2, s->rank[0], 1);
    if (kind == TGNN_SPECTRAL_TUCKER)
        tinyi_spectral_add(s, "core", 2 + n_channels, core, 2, s->rank[first], s->rank[first + 1]);
    if (kind == TGNN_SPECTRAL_DENSE) return;
    for (i = 0; i < s->n_axes; i++) {
        const tiny_idx rank = kind == TGNN_SPECTRAL_CP ? s->rank[0] : s->rank[i];
        if (kind == TGNN_SPECTRAL_TT)
            tinyi_spectral_add(s, names[i], 4, 2, s->rank[i], s->axis[i], s->rank[i + 1]);
        else if (i >= first && i < first + n_channels) tinyi_spectral_add(s, names[i], 3, 2, s->axis[i], rank, 1);
        else tinyi_spectral_add(s, names[i], 3, s->axis[i], 2, rank, 1);
    }
}

TINY_API tiny_status tgnn_spectral_plan(tiny_ctx *ctx, const tgnn_spectral_desc *desc, tgnn_spectral *s)
{
    double whole;
    int i;
    if (s) memset(s, 0, sizeof *s);
    if (tinyi_ctx_check(ctx)) return tinyi_ctx_check(ctx);
    if (!desc || !s) return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: a description and an output are needed");
    if (desc->d < 1 || desc->d > 3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: a grid of %d axes, it must have 1 to 3", desc->d);
    if (desc->kind < 0 || desc->kind >= TGNN_SPECTRAL_KINDS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: kind %d of the weight is unknown", desc->kind);
    if (desc->n_in < 1 || desc->n_out < 1 || desc->n_in > 1 << 20 || desc->n_out > 1 << 20)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: %td channels in and %td out, both must be 1 to %d",
                          desc->n_in, desc->n_out, 1 << 20);
    if (desc->separable && desc->n_in != desc->n_out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "spectral: a separable weight has as many channels out as in, not %td and %td", desc->n_out,
                          desc->n_in);
    if (desc->layers < 0 || desc->layers > 1024)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: %d layers share the weight, at most 1024 can", desc->layers);
    if (desc->kind != TGNN_SPECTRAL_DENSE && !(desc->ratio > 0.0 && desc->ratio <= 100.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "spectral: the ratio of ranks is %g, it must be above 0 and at most 100", desc->ratio);
    s->desc = *desc;
    if (desc->layers > 1) s->axis[s->n_axes++] = desc->layers;
    s->axis[s->n_axes++] = desc->n_in;
    if (!desc->separable) s->axis[s->n_axes++] = desc->n_out;
    whole = (double)desc->n_in * (desc->separable ? 1.0 : (double)desc->n_out) * (desc->layers > 1 ? desc->layers : 1);
    for (i = 0; i < desc->d; i++) {
        const tiny_idx m = desc->modes[i];
        const tiny_idx even = m == 1 ? 1 : m - m % 2;
        if (m < 1 || m > 1 << 20)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: axis %d has %td modes, it must have 1 to %d", i, m,
                              1 << 20);
        s->desc.modes[i] = even;
        s->kept[i] = i == desc->d - 1 ? even / 2 + 1 : even;
        s->axis[s->n_axes++] = s->kept[i];
        whole *= (double)s->kept[i];
    }
    if (whole > TINYI_SPECTRAL_MOST || whole * 8.0 > (double)(SIZE_MAX / 64))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "spectral: the whole weight has %.0f numbers, which is too many",
                          whole);
    tinyi_spectral_ranks(s);
    tinyi_spectral_shapes(s);
    return TINY_OK;
}

TINY_API tiny_status tgnn_spectral_init(tiny_ctx *ctx, const tgnn_spectral *s, uint64_t seed)
{
    double variance, pieces, paths = 1.0, each;
    tiny_status st = TINY_OK;
    int i;
    if (tinyi_ctx_check(ctx)) return tinyi_ctx_check(ctx);
    if (!s || s->n_weights < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: the weights must be planned before they are drawn");
    for (i = 0; i < s->n_weights; i++)
        if (!s->weight[i].data) return tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: %s has no memory", s->name[i]);
    variance = 2.0 / (double)(s->desc.n_in + s->desc.n_out);
    pieces = s->desc.kind == TGNN_SPECTRAL_CP ? s->n_weights - 1 : s->n_weights;
    if (s->desc.kind == TGNN_SPECTRAL_CP) paths = (double)s->rank[0];
    else if (s->desc.kind != TGNN_SPECTRAL_DENSE)
        for (i = 0; i <= s->n_axes && i < TGNN_SPECTRAL_AXES + 1; i++) paths *= s->rank[i] ? (double)s->rank[i] : 1.0;
    /* a number of the weight is a sum of `paths` products; half of its variance is in each part */
    each = tinyi_sqrt(0.5 * tinyi_spectral_power(variance / paths, 1.0 / pieces));
    for (i = 0; !st && i < s->n_weights; i++) {
        tiny_rng rng = tiny_rng_make(seed, (uint64_t)i);
        const int ones = s->desc.kind == TGNN_SPECTRAL_CP && i == 0;
        const tiny_idx n = tiny_tensor_count(&s->weight[i]);
        tiny_idx k;
        st = ones ? tiny_init_constant(ctx, &s->weight[i], 1.0) : tiny_init_normal(ctx, &rng, &s->weight[i], each);
        for (k = n / 2; !st && ones && k < n; k++) tinyi_init_put(&s->weight[i], k, 0.0);
    }
    return st;
}

/* ---- complex products of views */

/* four axes of t from number `from` on */
static tiny_tensor tinyi_spectral_view(const tiny_tensor *t, tiny_idx from, tiny_idx a, tiny_idx as, tiny_idx b,
                                       tiny_idx bs, tiny_idx c, tiny_idx cs, tiny_idx d, tiny_idx ds)
{
    tiny_tensor v = *t;
    v.rank = 4;
    if (v.data) v.data = (unsigned char *)v.data + from * (tiny_idx)tiny_dtype_bytes(v.dtype);
    v.dim[0] = a;
    v.stride[0] = as;
    v.dim[1] = b;
    v.stride[1] = bs;
    v.dim[2] = c;
    v.stride[2] = cs;
    v.dim[3] = d;
    v.stride[3] = ds;
    return v;
}

static tiny_tensor tinyi_spectral_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_spectral_new(tiny_tape *tape, const tiny_tensor *like, tiny_idx a, tiny_idx b, tiny_idx c,
                                      tiny_idx d)
{
    tiny_idx dim[4];
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    dim[3] = d;
    return tiny_tape_new(tape, like->dtype, 4, dim);
}

/* to = x w by modes; to is a view of a new tensor */
static void tinyi_spectral_mix_to(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *to)
{
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TGNN_OP_MODES_MIX;
    op.row = tgnn_modes_mix_row();
    op.in[0] = x;
    op.in[1] = w;
    op.out[0] = to;
    if (!tiny_tape_status(tape)) (void)tiny_tape_op(tape, &op, out);
}

static tiny_tensor tinyi_spectral_mix(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w)
{
    return tiny_tape_status(tape) ? tinyi_spectral_none()
                                  : tiny_tape_call(tape, TGNN_OP_MODES_MIX, x, w, NULL, NULL, NULL);
}

/* What a call needs: the layer, and the modes of each axis that it uses. */
typedef struct tinyi_spectral_use {
    tiny_tape *tape;
    const tgnn_spectral *s;
    int layer, first;                       /* first: weight of the channels in */
    tiny_idx kept[3], from[3], modes;
} tinyi_spectral_use;

/* the used rows of the whole weight of one layer */
static tiny_tensor tinyi_spectral_dense(const tinyi_spectral_use *u)
{
    const tgnn_spectral *s = u->s;
    tiny_tensor t = s->weight[0], part;
    const tiny_idx each = tiny_tensor_count(&t) / t.dim[0];
    tiny_idx modes = 1, dim[4], k[3] = { 1, 1, 1 }, n[3] = { 1, 1, 1 }, from[3] = { 0, 0, 0 };
    int i, whole = 1;
    for (i = 0; i < s->desc.d; i++) {
        const int at = 3 - s->desc.d + i;
        k[at] = u->kept[i];
        n[at] = s->kept[i];
        from[at] = u->from[i];
        modes *= n[at];
        whole &= k[at] == n[at];
    }
    t.data = (unsigned char *)t.data + u->layer * modes * each * (tiny_idx)tiny_dtype_bytes(t.dtype);
    t.dim[0] = u->modes;
    if (whole) return t;
    part = tinyi_spectral_view(&t, ((from[0] * n[1] + from[1]) * n[2] + from[2]) * each, k[0], n[1] * n[2] * each, k[1],
                               n[2] * each, k[2], each, each, 1);
    for (i = 0; i < 4; i++) dim[i] = i < t.rank ? t.dim[i] : 1;
    return tiny_tape_reshape(u->tape, &part, t.rank, dim);
}

/* K (modes, 2, a, b) of the Tucker core, a and b its last two axes; separable: a = 1 */
static tiny_tensor tinyi_spectral_core(const tinyi_spectral_use *u)
{
    const tgnn_spectral *s = u->s;
    const int sep = s->desc.separable != 0, first = u->first;
    tiny_tensor cur = s->weight[0];
    const tiny_idx a = sep ? 1 : cur.dim[2], b = cur.dim[cur.rank - 1], ab = a * b;
    tiny_idx total = cur.dim[0];
    int i;
    for (i = 0; i < s->n_axes; i++) {
        const tiny_tensor *factor = &s->weight[1 + i];
        const int mode = i - first - (sep ? 1 : 2), layer = i < first;
        tiny_tensor x, w, to, y;
        tiny_idx p, rest, m, from;
        if (!layer && mode < 0) continue;
        p = s->rank[i];
        rest = total / p;
        m = layer ? 1 : u->kept[mode];
        from = layer ? u->layer : u->from[mode];
        x = tinyi_spectral_view(factor, from * 2 * p, m, 2 * p, rest, 0, 2, p, p, 1);
        w = tinyi_spectral_view(&cur, 0, rest, 2 * ab, 2, ab, p, rest * 2 * ab, ab, 1);
        y = tinyi_spectral_new(u->tape, factor, rest * m, 2, a, b);
        to = tinyi_spectral_view(&y, 0, m, 2 * ab, rest, m * 2 * ab, 2, ab, ab, 1);
        tinyi_spectral_mix_to(u->tape, &x, &w, &to);
        cur = y;
        total = rest * m;
    }
    return cur;
}

/* the diagonal (modes, 2, R) of CP: lambda times the factors of layers and modes */
static tiny_tensor tinyi_spectral_diagonal(const tinyi_spectral_use *u)
{
    const tgnn_spectral *s = u->s;
    const tiny_idx r = s->rank[0];
    tiny_tensor cur = s->weight[0];
    tiny_idx n = 1, dim[3];
    int i;
    for (i = 0; i < s->n_axes; i++) {
        const tiny_tensor *factor = &s->weight[1 + i];
        const int mode = i - u->first - (s->desc.separable ? 1 : 2), layer = i < u->first;
        const tiny_idx m = layer || mode < 0 ? 1 : u->kept[mode];
        const tiny_idx from = layer ? u->layer : mode < 0 ? 0 : u->from[mode];
        tiny_tensor x, w, to, y;
        if (!layer && mode < 0) continue;
        x = tinyi_spectral_view(&cur, 0, n, 2 * r, r, 1, 2, r, 1, 1);
        w = tinyi_spectral_view(factor, from * 2 * r, r, 1, 2, r, 1, 1, m, 2 * r);
        y = tinyi_spectral_new(u->tape, factor, n, m, 2, r);
        to = tinyi_spectral_view(&y, 0, n, m * 2 * r, r, 1, 2, r, m, 2 * r);
        tinyi_spectral_mix_to(u->tape, &x, &w, &to);
        cur = y;
        n *= m;
    }
    dim[0] = n;
    dim[1] = 2;
    dim[2] = r;
    return tiny_tensor_nd(cur.data, cur.dtype, 3, dim);
}

/* the product (2, R, modes) of the cores of the modes, last one first */
static tiny_tensor tinyi_spectral_train(const tinyi_spectral_use *u, tiny_idx *rank)
{
    const tgnn_spectral *s = u->s;
    const int at = u->first + (s->desc.separable ? 1 : 2);
    tiny_tensor cur = tinyi_spectral_none();
    tiny_idx n = 1, dim[4];
    int i;
    for (i = s->n_axes - 1; i >= at; i--) {
        const tiny_tensor *core = &s->weight[i];
        const tiny_idx ra = s->rank[i], rb = s->rank[i + 1], m = u->kept[i - at];
        tiny_tensor part = *core, x, w, to, y;
        part.data = (unsigned char *)part.data + u->from[i - at] * rb * (tiny_idx)tiny_dtype_bytes(core->dtype);
        part.dim[2] = m;
        memcpy(dim, part.dim, sizeof dim);
        part = tiny_tape_reshape(u->tape, &part, 4, dim);
        if (i == s->n_axes - 1) cur = part;
        else {
            x = tinyi_spectral_view(&part, 0, ra * m, rb, 1, 0, 2, ra * m * rb, rb, 1);
            w = tinyi_spectral_view(&cur, 0, 1, 0, 2, rb * n, rb, n, n, 1);
            y = tinyi_spectral_new(u->tape, core, 2, ra, m, n);
            to = tinyi_spectral_view(&y, 0, ra * m, n, 1, 0, 2, ra * m * n, n, 1);
            tinyi_spectral_mix_to(u->tape, &x, &w, &to);
            cur = y;
        }
        n *= m;
        *rank = ra;
    }
    return cur;
}

/* the core of the first channel axis of a train, (2, axis, R after): the row of the layer multiplied in */
static tiny_tensor tinyi_spectral_head(const tinyi_spectral_use *u)
{
    const tgnn_spectral *s = u->s;
    const tiny_tensor *core = &s->weight[u->first];
    const tiny_idx n = s->axis[u->first] * s->rank[u->first + 1], r = s->rank[u->first];
    tiny_tensor x, w, y, to;
    if (!u->first) return *core;
    x = tinyi_spectral_view(&s->weight[0], u->layer * r, 1, 0, 1, 0, 2, s->axis[0] * r, r, 1);
    w = tinyi_spectral_view(core, 0, 1, 0, 2, r * n, r, n, n, 1);
    y = tinyi_spectral_new(u->tape, core, 2, 1, s->axis[u->first], s->rank[u->first + 1]);
    to = tinyi_spectral_view(&y, 0, 1, 0, 1, 0, 2, n, n, 1);
    tinyi_spectral_mix_to(u->tape, &x, &w, &to);
    return y;
}

/* What stands between the channels: u_in (2, in, a) or nothing, k (modes, 2, a, b) or, for CP and separable weights, k
 * (modes, 2, a) as a diagonal, u_out (2, out, b) or nothing. Of a separable weight that is all but the whole one: k. */
typedef struct tinyi_spectral_parts { tiny_tensor in, k, out; tiny_idx a, b; int has_in, has_out, diagonal; }
    tinyi_spectral_parts;

static tinyi_spectral_parts tinyi_spectral_parts_of(const tinyi_spectral_use *u)
{
    const tgnn_spectral *s = u->s;
    const int first = u->first, sep = s->desc.separable != 0;
    const tiny_idx c = s->desc.n_in;
    tinyi_spectral_parts q;
    tiny_tensor x, w, chain;
    memset(&q, 0, sizeof q);
    q.diagonal = sep;
    switch (s->desc.kind) {
    case TGNN_SPECTRAL_DENSE:
        q.k = tinyi_spectral_dense(u);
        q.a = s->desc.n_in;
        q.b = s->desc.n_out;
        return q;
    case TGNN_SPECTRAL_TUCKER:
    case TGNN_SPECTRAL_CP:
        q.has_in = q.has_out = 1;
        q.in = s->weight[1 + first];
        if (!sep) q.out = s->weight[2 + first];
        q.a = q.in.dim[2];
        q.b = sep ? q.a : q.out.dim[2];
        q.k = s->desc.kind == TGNN_SPECTRAL_CP ? tinyi_spectral_diagonal(u) : tinyi_spectral_core(u);
        q.diagonal = sep || s->desc.kind == TGNN_SPECTRAL_CP;
        if (!sep) return q;
        x = tinyi_spectral_view(&q.k, 0, u->modes, 2 * q.a, 1, 0, 2, q.a, q.a, 1);
        w = tinyi_spectral_view(&q.in, 0, 1, 0, 2, c * q.a, q.a, 1, c, q.a);
        q.k = tinyi_spectral_mix(u->tape, &x, &w);
        q.has_in = q.has_out = 0;
        return q;
    default:
        chain = tinyi_spectral_train(u, &q.b);
        q.in = tinyi_spectral_head(u);
        q.a = s->rank[first + 1];
        if (sep) {                          /* channels in: (2, c, r) r modes */
            x = tinyi_spectral_view(&chain, 0, u->modes, 1, 1, 0, 2, q.b * u->modes, q.b, u->modes);
            w = tinyi_spectral_view(&q.in, 0, 1, 0, 2, c * q.a, q.a, 1, c, q.a);
            q.k = tinyi_spectral_mix(u->tape, &x, &w);
            return q;
        }
        q.has_in = 1;
        w = s->weight[first + 1];           /* (2, a, out, b) */
        x = tinyi_spectral_view(&chain, 0, u->modes, 1, 1, 0, 2, q.b * u->modes, q.b, u->modes);
        w = tinyi_spectral_view(&w, 0, 1, 0, 2, q.a * s->desc.n_out * q.b, q.b, 1, q.a * s->desc.n_out, q.b);
        q.k = tinyi_spectral_mix(u->tape, &x, &w);
        q.b = s->desc.n_out;
        return q;
    }
}

/* (modes, 2, in, out) of the parts, or (modes, 2, channels) */
static tiny_tensor tinyi_spectral_whole(const tinyi_spectral_use *u, const tinyi_spectral_parts *q)
{
    const tiny_idx m = u->modes, ci = u->s->desc.n_in, co = u->s->desc.n_out;
    tiny_tensor t = q->k, x, w, y, to;
    tiny_idx dim[3];
    if (tiny_tape_status(u->tape)) return tinyi_spectral_none();
    if (u->s->desc.separable) {
        dim[0] = m;
        dim[1] = 2;
        dim[2] = ci;
        return tiny_tape_reshape(u->tape, &t, 3, dim);
    }
    if (q->has_in && q->diagonal) {
        y = tinyi_spectral_new(u->tape, &q->in, m, 2, ci, q->a);
        x = tinyi_spectral_view(&q->k, 0, m, 2 * q->a, q->a, 1, 2, q->a, 1, 1);
        w = tinyi_spectral_view(&q->in, 0, q->a, 1, 2, ci * q->a, 1, 1, ci, q->a);
        to = tinyi_spectral_view(&y, 0, m, 2 * ci * q->a, q->a, 1, 2, ci * q->a, ci, q->a);
        tinyi_spectral_mix_to(u->tape, &x, &w, &to);
        t = y;
    } else if (q->has_in) {
        y = tinyi_spectral_new(u->tape, &q->in, m, 2, ci, q->b);
        x = tinyi_spectral_view(&q->in, 0, ci, q->a, m, 0, 2, ci * q->a, q->a, 1);
        w = tinyi_spectral_view(&q->k, 0, m, 2 * q->a * q->b, 2, q->a * q->b, q->a, q->b, q->b, 1);
        to = tinyi_spectral_view(&y, 0, ci, q->b, m, 2 * ci * q->b, 2, ci * q->b, q->b, 1);
        tinyi_spectral_mix_to(u->tape, &x, &w, &to);
        t = y;
    }
    if (!q->has_out) return t;
    y = tinyi_spectral_new(u->tape, &q->in, m, 2, ci, co);
    x = tinyi_spectral_view(&t, 0, ci, q->b, m, 2 * ci * q->b, 2, ci * q->b, q->b, 1);
    w = tinyi_spectral_view(&q->out, 0, m, 0, 2, co * q->b, q->b, 1, co, q->b);
    to = tinyi_spectral_view(&y, 0, ci, co, m, 2 * ci * co, 2, ci * co, co, 1);
    tinyi_spectral_mix_to(u->tape, &x, &w, &to);
    return y;
}

/* x (batch, modes, 2, c) times k (modes, 2, c), number by number */
static tiny_tensor tinyi_spectral_each(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *k)
{
    const tiny_idx b = x->dim[0], m = x->dim[1], c = x->dim[3];
    tiny_tensor part[2], by[2], p[4], y, to, out[TINY_OP_MAX_OUT];
    tiny_op op;
    tiny_idx dim[4];
    int i;
    if (tiny_tape_status(tape)) return tinyi_spectral_none();
    for (i = 0; i < 2; i++) {
        part[i] = tinyi_spectral_view(x, i * c, b, 2 * m * c, m, 2 * c, c, 1, 1, 1);
        by[i] = tinyi_spectral_view(k, i * c, 1, 0, m, 2 * c, c, 1, 1, 1);
        part[i].rank = by[i].rank = 3;
    }
    for (i = 0; i < 4; i++) p[i] = tiny_tape_mul(tape, &part[i / 2], &by[i % 2]);
    memcpy(dim, x->dim, sizeof dim);
    y = tiny_tape_new(tape, x->dtype, 4, dim);
    for (i = 0; i < 2 && !tiny_tape_status(tape); i++) {
        to = tinyi_spectral_view(&y, i * c, b, 2 * m * c, m, 2 * c, c, 1, 1, 1);
        to.rank = 3;
        memset(&op, 0, sizeof op);
        op.kind = i ? TINY_OP_ADD : TINY_OP_SUB;
        op.in[0] = &p[i ? 1 : 0];           /* re re - im im, re im + im re */
        op.in[1] = &p[i ? 2 : 3];
        op.out[0] = &to;
        (void)tiny_tape_op(tape, &op, out);
    }
    return y;
}

/* x (batch, modes, 2, n) times u (2, n, m), or with turned times u (2, m, n) over its last axis: channels only */
static tiny_tensor tinyi_spectral_channels(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *u, int turned)
{
    const tiny_idx b = x->dim[0], f = x->dim[1], n = x->dim[3], m = turned ? u->dim[1] : u->dim[u->rank - 1];
    tiny_tensor rows, w, y;
    tiny_idx dim[4];
    if (tiny_tape_status(tape)) return tinyi_spectral_none();
    rows = tinyi_spectral_view(x, 0, b * f, 2 * n, 1, 0, 2, n, n, 1);
    w = tinyi_spectral_view(u, 0, 1, 0, 2, n * m, n, turned ? 1 : m, m, turned ? n : 1);
    y = tinyi_spectral_mix(tape, &rows, &w);
    dim[0] = b;
    dim[1] = f;
    dim[2] = 2;
    dim[3] = m;
    return tiny_tensor_nd(y.data, y.dtype, 4, dim);
}

/* ---- the calls */

/* The sentence of a failure, which stays in the tape. */
#define TINYI_SPECTRAL_REFUSE(tape, call)                                                                         \
    ((void)(call), (void)tinyi_tape_refuse(tape, tiny_ctx_status(tiny_tape_ctx(tape)),                            \
                                           tiny_ctx_message(tiny_tape_ctx(tape))), 0)

static int tinyi_spectral_begin(tinyi_spectral_use *u, tiny_tape *tape, const tgnn_spectral *s, const tiny_idx *kept,
                                int layer)
{
    tiny_ctx *ctx;
    int i;
    memset(u, 0, sizeof *u);
    if (!tape || tiny_tape_status(tape)) return 0;
    ctx = tiny_tape_ctx(tape);
    if (!s || !kept || s->n_weights < 1)
        return TINYI_SPECTRAL_REFUSE(tape, tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: it must be planned first"));
    if (layer < 0 || layer >= TINYI_MAX(s->desc.layers, 1))
        return TINYI_SPECTRAL_REFUSE(tape, tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: layer %d of %d", layer,
                                                      TINYI_MAX(s->desc.layers, 1)));
    for (i = 0; i < s->n_weights; i++)
        if (!s->weight[i].data)
            return TINYI_SPECTRAL_REFUSE(tape,
                                         tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: %s has no memory", s->name[i]));
    u->tape = tape;
    u->s = s;
    u->layer = layer;
    u->first = tinyi_spectral_first(s);
    u->modes = 1;
    for (i = 0; i < s->desc.d; i++) {
        if (kept[i] < 1 || kept[i] > s->kept[i])
            return TINYI_SPECTRAL_REFUSE(tape, tinyi_fail(ctx, TINY_E_ARGUMENT,
                                                          "spectral: %td modes of axis %d, the weights have %td",
                                                          kept[i], i, s->kept[i]));
        u->kept[i] = kept[i];
        u->from[i] = i == s->desc.d - 1 ? 0 : s->kept[i] / 2 - kept[i] / 2;
        u->modes *= kept[i];
    }
    return 1;
}

TINY_API tiny_tensor tgnn_tape_spectral_weight(tiny_tape *tape, const tgnn_spectral *s, const tiny_idx *kept,
                                               int layer)
{
    tinyi_spectral_use u;
    tinyi_spectral_parts q;
    if (!tinyi_spectral_begin(&u, tape, s, kept, layer)) return tinyi_spectral_none();
    q = tinyi_spectral_parts_of(&u);
    return tinyi_spectral_whole(&u, &q);
}

TINY_API tiny_tensor tgnn_tape_spectral(tiny_tape *tape, const tgnn_spectral *s, const tiny_tensor *x,
                                        const tiny_idx *size, const tiny_idx *to, int layer)
{
    tinyi_spectral_use u;
    tinyi_spectral_parts q;
    tgnn_modes_params p;
    tiny_idx kept[3] = { 0, 0, 0 };
    tiny_tensor a;
    tiny_ctx *ctx;
    char text[96];
    int i;
    if (!tape || tiny_tape_status(tape)) return tinyi_spectral_none();
    ctx = tiny_tape_ctx(tape);
    if (!s || !x || !size || s->desc.d < 1 || s->desc.d > 3) {
        (void)TINYI_SPECTRAL_REFUSE(tape, tinyi_fail(ctx, TINY_E_ARGUMENT,
                                                     "spectral: a plan, x and the size of its grid are needed"));
        return tinyi_spectral_none();
    }
    memset(&p, 0, sizeof p);
    p.d = s->desc.d;
    for (i = 0; i < p.d; i++) {
        const tiny_idx n = to ? TINYI_MIN(size[i], to[i]) : size[i];
        p.size[i] = size[i];
        if (n < 1) {
            (void)TINYI_SPECTRAL_REFUSE(tape,
                                        tinyi_fail(ctx, TINY_E_ARGUMENT, "spectral: axis %d has %td points", i, n));
            return tinyi_spectral_none();
        }
        p.kept[i] = kept[i] = TINYI_MIN(s->kept[i], i == p.d - 1 ? n / 2 + 1 : n);
    }
    if (x->rank != 3 || x->dim[0] < 1 || x->dim[2] != s->desc.n_in) {
        (void)TINYI_SPECTRAL_REFUSE(
            tape, tinyi_fail(ctx, TINY_E_SHAPE, "spectral: x is %s, it must be at least one sample x points x %td",
                             tinyi_shape_text(x, text), s->desc.n_in));
        return tinyi_spectral_none();
    }
    if (!tinyi_spectral_begin(&u, tape, s, kept, layer)) return tinyi_spectral_none();
    a = tiny_tape_call(tape, TGNN_OP_MODES, x, NULL, NULL, NULL, &p);
    q = tinyi_spectral_parts_of(&u);
    if (s->desc.separable) a = tinyi_spectral_each(tape, &a, &q.k);
    else if (s->desc.rebuild || s->desc.kind == TGNN_SPECTRAL_DENSE) {
        q.k = tinyi_spectral_whole(&u, &q);
        a = tinyi_spectral_mix(tape, &a, &q.k);
    } else {
        a = tinyi_spectral_channels(tape, &a, &q.in, 0);
        if (q.diagonal) a = tinyi_spectral_each(tape, &a, &q.k);
        else {
            q.k = tinyi_spectral_view(&q.k, 0, u.modes, 2 * q.a * q.b, 2, q.a * q.b, q.a, q.b, q.b, 1);
            a = tinyi_spectral_mix(tape, &a, &q.k);
        }
        if (q.has_out) a = tinyi_spectral_channels(tape, &a, &q.out, 1);
    }
    if (tiny_tape_status(tape)) return tinyi_spectral_none();
    for (i = 0; to && i < p.d; i++) p.size[i] = to[i];
    return tiny_tape_call(tape, TGNN_OP_MODES_FIELD, &a, NULL, NULL, NULL, &p);
}
