/* src/llm/model/step.c - the steps of a forward pass
 *
 * Each step works on dense rows of floats. If the library has an operation for a step, the step dispatches it on the
 * context's target. The other steps are plain scalar code that gives the same bits on every machine and serves both
 * paths.
 * A dry run computes nothing and only counts scratch memory. */
#include "llm/model/model_inside.h"
#include "llm/block/matmul.h"
#include "llm/block/sparse.h"
#include "llm/attention/place.h"
#include <string.h>

#ifdef TINYI_NO_OPS
/* TINYI_LM_ACTS, TINYI_LM_NORMS: may a model of this program have it? */
#if defined TINYLLM_ONLY_ARCH && TINYI_WHOLE
#define TINYI_LM_ACTS(a, plain) \
    (TINYI_LM_ONLY.act == TINYI_LM_##a && ((TINYI_LM_ONLY.ffn & TINYI_LM_F_PLAIN) != 0) == (plain))
#define TINYI_LM_HAS_ALTUP (TINYI_LM_ONLY.block == TINYI_LM_ALTUP)
#define TINYI_LM_INDEXES ((TINYI_LM_ONLY.attn & TINYI_LM_A_INDEXER) != 0)
#define TINYI_LM_NORMS(n) (TINYI_LM_ONLY.norm == (n) || (TINYI_LM_ONLY.attn & TINYI_LM_A_EPS_SAYS) != 0)
#else
#define TINYI_LM_ACTS(a, plain) 1
#define TINYI_LM_HAS_ALTUP 1
#define TINYI_LM_INDEXES 1
#define TINYI_LM_NORMS(n) 1
#endif
#define TINYI_LM_ALL_ATTN                                                                                     \
    (TINYI_LM_MIXES(TINYI_LM_ATTN) && !TINYI_LM_MIXES(TINYI_LM_DELTA) && !TINYI_LM_MIXES(TINYI_LM_KDA) &&     \
     !TINYI_LM_MIXES(TINYI_LM_RWKV6) && !TINYI_LM_MIXES(TINYI_LM_RWKV7) && !TINYI_LM_MIXES(TINYI_LM_MAMBA) && \
     !TINYI_LM_MIXES(TINYI_LM_MAMBA2) && !TINYI_LM_MIXES(TINYI_LM_PLAMO))
TINYI_FN const tiny_op_row *tinyi_lm_row_of(int kind)
{
    switch (kind) {
#define TINYI_LM_ROW(KIND, name, when) case TINY_OP_##KIND: return (when) ? &tinyi_row_##name : NULL;
    TINYI_LM_ROW(ADD, add, 1)
    TINYI_LM_ROW(MUL, mul, 1)
    TINYI_LM_ROW(SCALE, scale, 1)
    TINYI_LM_ROW(MATMUL, matmul, 1)
    TINYI_LM_ROW(RMSNORM, rmsnorm, TINYI_LM_NORMS(TINYI_LM_RMS) || TINYI_HAS(SLICED) != 0 || !TINYI_LM_ALL_ATTN)
    TINYI_LM_ROW(LAYERNORM, layernorm, TINYI_LM_NORMS(TINYI_LM_LAYERNORM) || TINYI_LM_MIXES(TINYI_LM_MLA))
    TINYI_LM_ROW(SWIGLU, swiglu, TINYI_LM_ACTS(SILU, 0))
    TINYI_LM_ROW(GEGLU_TANH, geglu_tanh, TINYI_LM_ACTS(GELU, 0))
    TINYI_LM_ROW(GEGLU, geglu, TINYI_LM_ACTS(GELU_ERF, 0))
    TINYI_LM_ROW(REGLU, reglu, TINYI_LM_ACTS(RELU, 0))
    TINYI_LM_ROW(SILU, silu, TINYI_LM_ACTS(SILU, 1) || !TINYI_LM_ALL_ATTN)
    TINYI_LM_ROW(GELU_TANH, gelu_tanh, TINYI_LM_ACTS(GELU, 1))
    TINYI_LM_ROW(GELU, gelu, TINYI_LM_ACTS(GELU_ERF, 1))
    TINYI_LM_ROW(RELU, relu, TINYI_LM_ACTS(RELU, 1))
    TINYI_LM_ROW(RELU2, relu2, TINYI_LM_ACTS(RELU2, 1) || TINYI_LM_ACTS(RELU2, 0) || !TINYI_LM_ALL_ATTN)
    TINYI_LM_ROW(L2NORM, l2norm, !TINYI_LM_ALL_ATTN)
    TINYI_LM_ROW(SIGMOID, sigmoid, !TINYI_LM_ALL_ATTN)
    TINYI_LM_ROW(TANH, tanh, !TINYI_LM_ALL_ATTN || TINYI_LM_HAS_ALTUP)
    TINYI_LM_ROW(GLA, gla, TINYI_LM_MIXES(TINYI_LM_RWKV6) || TINYI_LM_MIXES(TINYI_LM_RWKV7))
    TINYI_LM_ROW(ATTENTION, attention,
                 TINYI_LM_MIXES(TINYI_LM_MLA) || TINYI_LM_MIXES(TINYI_LM_COMPRESSED) || TINYI_LM_INDEXES)
#undef TINYI_LM_ROW
    default: return NULL;
    }
}
#endif

/* rows of a product with floats whose sums are those of one row, whatever their number (math/gemm.c) */
#define TINYI_LM_THIN 8
#define TINYI_LM_ALONE 1024 /* numbers of a piece below which a second thread costs more than it brings */

TINYI_FN float *tinyi_lm_take(tinyi_lm_fwd *f, tiny_idx a, tiny_idx b)
{
    size_t n, bytes, at = f->used;
    if (f->st) return NULL;
    if (a < 0 || b < 0 || !tinyi_size_mul((size_t)a, (size_t)b, &n) || !tinyi_size_mul(n, sizeof(float), &bytes) ||
        bytes > SIZE_MAX / 4 || f->used > SIZE_MAX / 4) {
        f->st =
            tinyi_fail(f->ctx, TINY_E_OVERFLOW,
                       "%s: %td times %td numbers of scratch are more than this machine can address", f->m->path, a, b);
        return NULL;
    }
    f->used += (bytes + 63) & ~(size_t)63;
    if (f->used > f->high) f->high = f->used;
    if (f->dry) return (float *)(void *)f->s->scratch;      /* never read or written */
    if (f->used > f->size) {
        f->st = tinyi_fail(f->ctx, TINY_E_WORKSPACE, "%s: a state of %zu bytes of scratch is too small", f->m->path,
                           f->size);
        return NULL;
    }
    if (TINYI_HAS(OPS) && f->ctx->n_away)
        tinyi_accel_drop(f->ctx, f->base + at, bytes); /* the old content of this place is dead */
    return (float *)(void *)(f->base + at);
}

/* workspace of a team: one part for all, one for each thread */
static void tinyi_lm_own(tinyi_lm_fwd *f, size_t shared, size_t own)
{
    size_t n;
    if (shared > SIZE_MAX / 4 || own > SIZE_MAX / 4) return;        /* the step itself will say so */
    shared = (shared + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
    own = (own + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
    if (!tinyi_size_mul(own, (size_t)f->ctx->n_threads, &n) || !tinyi_size_add(n, shared, &n)) return;
    if (n > f->work) f->work = n;
}

typedef struct tinyi_lm_each_arg { tinyi_lm_fn fn; const void *arg; tiny_idx n, grain; } tinyi_lm_each_arg;
static void tinyi_lm_each_team(tiny_team *team, void *arg)
{
    const tinyi_lm_each_arg *e = (const tinyi_lm_each_arg *)arg;
    tiny_idx i0, i1;
    while (tiny_take(team, e->n, e->grain, &i0, &i1)) e->fn(e->arg, i0, i1);
}
TINYI_FN void tinyi_lm_each(tinyi_lm_fwd *f, tiny_idx n, tiny_idx grain, tinyi_lm_fn fn, const void *arg)
{
    tinyi_lm_each_arg e;
    tinyi_lm_host(f, f->base, (tiny_idx)(f->size / sizeof(float)));
    if (f->st || f->dry || n <= 0) return;
    if (n <= grain || f->n * f->m->n_embd < TINYI_LM_ALONE) { fn(arg, 0, n); return; }
    e.fn = fn;
    e.arg = arg;
    e.n = n;
    e.grain = grain > 0 ? grain : 1;
    f->st = tiny_parallel_loose(f->ctx, 0, 0, 0, tinyi_lm_each_team, &e);
}

/* of a dry pass: raises *shared and *own to what the operation needs */
static void tinyi_lm_wants(const tinyi_lm_fwd *f, const tiny_op *op, size_t *shared, size_t *own)
{
    const tiny_op_row *row = tinyi_op_row_in(f->ctx, op);
    size_t s = 0, o = 0;
    if (f->ctx->target == TINY_TARGET_REFERENCE || !row || !row->work) return;
    row->work(op, f->ctx->n_threads, &s, &o);
    *shared = TINYI_MAX(*shared, s);
    *own = TINYI_MAX(*own, o);
}

TINYI_FN void tinyi_lm_door(tinyi_lm_fwd *f, const tiny_op *op)
{
    if (f->st) return;
    if (f->dry) {
        size_t shared = 0, own = 0;
        tinyi_lm_wants(f, op, &shared, &own);
        tinyi_lm_own(f, shared, own);
        return;
    }
    f->st = tinyi_op_known(f->ctx, op);
}

/* Field by field: clearing all of it at once is an instruction that takes as long as a small operation. */
TINYI_FN void tinyi_lm_op_start(tiny_op *op, int kind, const tiny_op_row *row, const void *params)
{
    memset(op->in, 0, sizeof op->in);
    memset(op->out, 0, sizeof op->out);
    op->kind = kind;
    op->row = row;
    op->params = params;
}

static void tinyi_lm_op(tinyi_lm_fwd *f, int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *c,
                        const void *params, const tiny_tensor *y)
{
    tiny_op op;
    if (f->st) return;
    tinyi_lm_op_start(&op, kind, NULL, params);
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = c;
    op.out[0] = y;
    tinyi_lm_door(f, &op);
}

TINYI_FN void tinyi_lm_run(tinyi_lm_fwd *f, int kind, float *y, const float *a, const float *b, tiny_idx n)
{
    tiny_tensor ta = tiny_tensor_1d((void *)(uintptr_t)a, TINY_F32, n),
                tb = tiny_tensor_1d((void *)(uintptr_t)b, TINY_F32, n), ty = tiny_tensor_1d(y, TINY_F32, n);
    tinyi_lm_op(f, kind, &ta, b ? &tb : NULL, NULL, NULL, &ty);
}
TINYI_FN void tinyi_lm_add(tinyi_lm_fwd *f, float *y, const float *a, const float *b, tiny_idx n)
{
    tinyi_lm_run(f, TINY_OP_ADD, y, a, b, n);
}
TINYI_FN void tinyi_lm_mul(tinyi_lm_fwd *f, float *y, const float *a, const float *b, tiny_idx n)
{
    tinyi_lm_run(f, TINY_OP_MUL, y, a, b, n);
}
TINYI_FN void tinyi_lm_scale(tinyi_lm_fwd *f, float *y, const float *x, float alpha, tiny_idx n)
{
    tiny_tensor tx = tiny_tensor_1d((void *)(uintptr_t)x, TINY_F32, n), ty = tiny_tensor_1d(y, TINY_F32, n);
    tiny_scale_params p;
    if (alpha == 1.0f && x == y) return;
    p.alpha = alpha;
    p.beta = 0.0f;
    tinyi_lm_op(f, TINY_OP_SCALE, &tx, NULL, NULL, &p, &ty);
}
TINYI_FN void tinyi_lm_copy(tinyi_lm_fwd *f, float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n,
                            tiny_idx d)
{
    tiny_idx i;
    if (n > 0 && d > 0) {
        tinyi_lm_host(f, y, (n - 1) * ld_y + d);
        tinyi_lm_host(f, x, (n - 1) * ld_x + d);
    }
    if (f->st || f->dry || d <= 0) return;
    for (i = 0; i < n; i++) memmove(y + i * ld_y, x + i * ld_x, (size_t)d * sizeof *y);
}
TINYI_FN void tinyi_lm_zero(tinyi_lm_fwd *f, float *y, tiny_idx n)
{
    tinyi_lm_host(f, y, n);
    if (f->st || f->dry || n <= 0) return;
    memset(y, 0, (size_t)n * sizeof *y);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_lm_norm_view(tinyi_lm_fwd *f, int kind, const float *g, const float *b, float eps,
                                 const tiny_tensor *x, const tiny_tensor *y)
{
    const tiny_idx d = x->dim[x->rank - 1];
    tiny_tensor tg = tiny_tensor_1d((void *)(uintptr_t)g, TINY_F32, d),
                tb = tiny_tensor_1d((void *)(uintptr_t)b, TINY_F32, d);
    tiny_norm_params p;
    memset(&p, 0, sizeof p);
    p.eps = eps > 0.0f ? eps : -1.0f;
    tinyi_lm_op(f, kind, x, g ? &tg : NULL, kind == TINY_OP_LAYERNORM && b ? &tb : NULL, &p, y);
}
TINYI_FN void tinyi_lm_norm(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x, tiny_idx n, tiny_idx d)
{
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, d), ty = tiny_tensor_2d(y, TINY_F32, n, d);
    const int sliced = w && w->widen > 0.0f, rms = sliced || f->m->norm == TINYI_LM_RMS;
    tiny_idx i;
    tinyi_lm_norm_view(f, rms ? TINY_OP_RMSNORM : TINY_OP_LAYERNORM, w ? w->v : NULL, w ? w->bias : NULL,
                       sliced ? f->m->eps * w->widen : f->m->eps, &tx, &ty);
    if (w && w->bias && rms)
        for (i = 0; i < n; i++) tinyi_lm_add(f, y + i * d, y + i * d, w->bias, d);
}
TINYI_FN void tinyi_lm_rms(tinyi_lm_fwd *f, const float *g, float *y, const float *x, tiny_idx n, tiny_idx d)
{
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, d), ty = tiny_tensor_2d(y, TINY_F32, n, d);
    tinyi_lm_norm_view(f, TINY_OP_RMSNORM, g, NULL, f->m->eps, &tx, &ty);
}

TINYI_FN void tinyi_lm_softmax(tinyi_lm_fwd *f, float *y, const float *x, tiny_idx n, tiny_idx d)
{
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, d), ty = tiny_tensor_2d(y, TINY_F32, n, d);
    tinyi_lm_op(f, TINY_OP_SOFTMAX, &tx, NULL, NULL, NULL, &ty);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
/* the scale belongs to the weights: before the bias */
static void tinyi_lm_scale_rows(float *y, tiny_idx ld, const float *bias, float scale, tiny_idx n, tiny_idx d)
{
    tiny_idx i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < d; j++) {
            const float v = y[i * ld + j] * scale;
            y[i * ld + j] = bias ? v + bias[j] : v;
        }
}
TINY_REF_END

/* a product as an operation, and what it points to */
#define TINYI_LM_SHARED 3                   /* products of one x that are run together */
typedef struct tinyi_lm_product {
    tiny_op op;
    tiny_tensor x, w, bias, y;
    tiny_matmul_params plain;
    tllm_matmul_params blocks;
} tinyi_lm_product;

static const tiny_op *tinyi_lm_product_of(tinyi_lm_product *p, const tinyi_lm_w *w, tiny_idx mat, const float *bias,
                                          float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n,
                                          int alone)
{
    void *at = (void *)(uintptr_t)(w->t->data + (size_t)mat * (size_t)w->n_out * w->row_step);
    p->x = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, w->n_in);
    p->x.stride[0] = ld_x;
    p->y = tiny_tensor_2d(y, TINY_F32, n, w->n_out);
    p->y.stride[0] = ld_y;
    if (w->dtype >= 0) {
        p->w = tiny_tensor_2d(at, (tiny_dtype)w->dtype, w->n_out, w->n_in);
        p->w.stride[0] = (tiny_idx)(w->row_step / tiny_dtype_bytes((tiny_dtype)w->dtype));
        p->w = tiny_tensor_swap(p->w, 0, 1);
        p->plain.act = TINY_ACT_NONE;
        tinyi_lm_op_start(&p->op, TINY_OP_MATMUL, NULL, &p->plain);
    } else {
        p->w = tiny_tensor_2d(at, TINY_U8, w->n_out, (tiny_idx)w->row_bytes);
        p->w.stride[0] = (tiny_idx)w->row_step;
        memset(&p->blocks, 0, sizeof p->blocks);
        p->blocks.format = w->format->id | w->repacked;
        p->blocks.alone = alone;
        tinyi_lm_op_start(&p->op, TLLM_OP_MATMUL_BLOCKS, tllm_matmul_row(), &p->blocks);
    }
    p->op.in[0] = &p->x;
    p->op.in[1] = &p->w;
    if (bias) {
        p->bias = tiny_tensor_1d((void *)(uintptr_t)bias, TINY_F32, w->n_out);
        p->op.in[2] = &p->bias;
    }
    p->op.out[0] = &p->y;
    return &p->op;
}

TINYI_FN void tinyi_lm_linear_at(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx mat, float *y, tiny_idx ld_y,
                                 const float *x, tiny_idx ld_x, tiny_idx n)
{
    const float *bias;
    tinyi_lm_product p;
    const tiny_op *op;
    float scale;
    if (f->st || n <= 0) return;
    scale = !w->scale || w->t == NULL ? 1.0f
            : w->n_scale == w->n_mat  ? w->scale[mat]
            : w->n_scale == 1         ? w->scale[0]
                                      : 1.0f;
    bias = w->bias ? w->bias + mat * w->n_out : NULL;
    if (f->s->exact && w->dtype >= 0 && n > TINYI_LM_THIN && !f->dry) {
        tiny_idx i;
        for (i = 0; i < n && !f->st; i += TINYI_LM_THIN)
            tinyi_lm_linear_at(f, w, mat, y + i * ld_y, ld_y, x + i * ld_x, ld_x, TINYI_MIN(n - i, TINYI_LM_THIN));
        return;
    }
    op = tinyi_lm_product_of(&p, w, mat, scale == 1.0f ? bias : NULL, y, ld_y, x, ld_x, n, f->s->exact);
    if (f->dry || w->dtype >= 0) tinyi_lm_door(f, op);
    else f->st = tinyi_blk_products(f->ctx, &op, 1);
    if (f->dry) return;
    if (scale != 1.0f) tinyi_lm_host(f, y, (n - 1) * ld_y + w->n_out);
    if (scale != 1.0f && !f->st) tinyi_lm_scale_rows(y, ld_y, bias, scale, n, w->n_out);
    tinyi_lm_adapt(f, w, mat, y, ld_y, x, ld_x, n);
}
TINYI_FN void tinyi_lm_linears(tinyi_lm_fwd *f, int n_w, const tinyi_lm_w *const *w, tiny_idx mat, float *const *y,
                               const float *x, tiny_idx n)
{
    tinyi_lm_product p[TINYI_LM_SHARED];
    const tiny_op *ops[TINYI_LM_SHARED] = { NULL };
    size_t shared = 0, own = 0;
    int i, together = n_w <= TINYI_LM_SHARED, blocks = 1;
    if (f->st || n <= 0) return;
    for (i = 0; i < n_w; i++) {
        together &= !w[i]->scale;
        blocks &= w[i]->dtype < 0;
    }
    if (!together || (f->s->exact && !blocks && n > TINYI_LM_THIN && !f->dry)) {
        for (i = 0; i < n_w; i++) tinyi_lm_linear_at(f, w[i], mat, y[i], w[i]->n_out, x, w[i]->n_in, n);
        return;
    }
    for (i = 0; i < n_w; i++)
        ops[i] = tinyi_lm_product_of(&p[i], w[i], mat, w[i]->bias ? w[i]->bias + mat * w[i]->n_out : NULL, y[i],
                                     w[i]->n_out, x, w[i]->n_in, n, f->s->exact);
    /* a list takes the most shared memory of one product plus the most own memory of another */
    if (f->dry) {
        for (i = 0; i < n_w; i++) tinyi_lm_wants(f, ops[i], &shared, &own);
        tinyi_lm_own(f, shared, own);
        return;
    }
    f->st = blocks ? tinyi_blk_products(f->ctx, ops, (size_t)n_w) : tinyi_ops_known(f->ctx, ops, (size_t)n_w);
    for (i = 0; i < n_w; i++) tinyi_lm_adapt(f, w[i], mat, y[i], w[i]->n_out, x, w[i]->n_in, n);
}
TINYI_FN void tinyi_lm_linear_both(tinyi_lm_fwd *f, const tinyi_lm_w *w0, float *y0, const tinyi_lm_w *w1, float *y1,
                                   tiny_idx mat, const float *x, tiny_idx n)
{
    const tinyi_lm_w *w[2];
    float *y[2];
    w[0] = w0; y[0] = y0;
    w[1] = w1; y[1] = y1;
    tinyi_lm_linears(f, 2, w, mat, y, x, n);
}
TINYI_FN void tinyi_lm_linear(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x, tiny_idx n)
{
    if (!f->st) tinyi_lm_linear_at(f, w, 0, y, w->n_out, x, w->n_in, n);
}

TINYI_FN void tinyi_lm_linear_part(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx row0, tiny_idx rows, int turned,
                                   float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n)
{
    const float scale = w->scale && w->n_scale == 1 ? w->scale[0] : 1.0f;
    tllm_gguf_tensor t;
    tinyi_lm_product p;
    tllm_mix_params mix;
    tiny_tensor tx, tw, ty;
    tinyi_lm_w part = *w;
    tiny_op op;
    if (f->st || n <= 0) return;
    t = *w->t;
    t.data = w->t->data + (size_t)row0 * w->row_bytes;
    part.t = &t;
    part.n_out = rows;
    if (!turned) tinyi_lm_door(f, tinyi_lm_product_of(&p, &part, 0, NULL, y, ld_y, x, ld_x, n, 0));
    else {
        memset(&op, 0, sizeof op);
        memset(&mix, 0, sizeof mix);
        mix.format = w->format->id;
        tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, rows);
        tx.stride[0] = ld_x;
        tw = w->dtype >= 0 ? tiny_tensor_2d((void *)(uintptr_t)t.data, (tiny_dtype)w->dtype, rows, w->n_in)
                           : tiny_tensor_2d((void *)(uintptr_t)t.data, TINY_U8, rows, (tiny_idx)w->row_bytes);
        ty = tiny_tensor_2d(y, TINY_F32, n, w->n_in);
        ty.stride[0] = ld_y;
        op.kind = TLLM_OP_MIX_ROWS;
        op.row = tllm_mix_rows_row();
        op.in[0] = &tx;
        op.in[1] = &tw;
        op.out[0] = &ty;
        op.params = &mix;
        tinyi_lm_door(f, &op);
    }
    if (f->st || f->dry) return;
    if (scale != 1.0f) tinyi_lm_scale_rows(y, ld_y, NULL, scale, n, turned ? w->n_in : rows);
    tinyi_lm_adapt_part(f, w, row0, rows, turned, y, ld_y, x, ld_x, n);
}

TINYI_FN void tinyi_lm_rows(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const int32_t *tokens, tiny_idx n)
{
    tiny_idx i;
    if (f->st || f->dry) return;
    if (TINYI_LM_DISK(f->m) && w == f->m->top.w[TINYI_T_TOKEN_EMBD]) {
        tinyi_lm_disk_rows(f, y, tokens, n);
        return;
    }
    for (i = 0; i < n && w->repacked; i++) tinyi_lm_eight_unpack(w, tokens[i], y + i * w->n_in);
    for (i = 0; i < n && !w->repacked; i++)
        w->format->unpack(w->t->data + (size_t)tokens[i] * w->row_bytes, y + i * w->n_in, (size_t)w->n_in);
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

TINY_REF_BEGIN
TINYI_FN double tinyi_lm_softplus(double x)
{
    if (x > 20.0) return x + tinyi_exp64(-x);
    if (x < -30.0) return tinyi_exp64(x);
    return tinyi_log64(1.0 + tinyi_exp64(x));
}

static double tinyi_lm_expm1(double x)
{
    /* near 0 the series: exp(x) - 1 would lose what matters */
    if (x > -1e-2 && x < 1e-2) return x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))));
    return tinyi_exp64(x) - 1.0;
}

/* xIELU: A. H. Huang, I. Schlag, "Deriving activation functions using integration", 2024 (arXiv 2411.13010), eq. 13 */
static float tinyi_lm_xielu(float z, const float *p)
{
    const double beta = (double)p[2], x = (double)z;
    double low;
    if (z > 0.0f) return (float)(tinyi_lm_softplus((double)p[0]) * x * x + beta * x);
    low = x < (double)p[3] ? x : (double)p[3];
    return (float)((beta + tinyi_lm_softplus((double)p[1])) * (tinyi_lm_expm1(low) - x) + beta * x);
}

typedef struct tinyi_lm_act_arg { float *y; const float *a, *b, *p; float cap; int kind; } tinyi_lm_act_arg;
static void tinyi_lm_act_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_act_arg *q = (const tinyi_lm_act_arg *)arg;
    tiny_idx i;
    for (i = i0; i < i1; i++) {
        if (q->kind == TINYI_LM_XIELU) q->y[i] = tinyi_lm_xielu(q->a[i], q->p);
        else if (q->kind == TINYI_LM_SITU) {
            const double g = (double)q->a[i], u = (double)q->b[i], b = (double)q->p[0], c = (double)q->p[1];
            q->y[i] =
                (float)(b * tinyi_tanh64(g / b) / (1.0 + tinyi_exp64(-g)) * (c > 0.0 ? c * tinyi_tanh64(u / c) : u));
        }
        else {                              /* CLAMPED, gpt-oss: g sigmoid(1.702 g) (u + 1), g <= 7, |u| <= 7 */
            const float g = q->a[i] < 7.0f ? q->a[i] : 7.0f;
            const float u = q->b[i] < -7.0f ? -7.0f : q->b[i] < 7.0f ? q->b[i] : 7.0f;
            const double s = 1.0 / (1.0 + tinyi_exp64(-1.702 * (double)g));
            q->y[i] = (float)((double)g * s * ((double)u + 1.0));
        }
    }
}
static void tinyi_lm_cap_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_act_arg *q = (const tinyi_lm_act_arg *)arg;
    tiny_idx i;
    for (i = i0; i < i1; i++) q->y[i] = (float)((double)q->cap * tinyi_tanh64((double)q->y[i] / (double)q->cap));
}
TINY_REF_END

TINYI_FN void tinyi_lm_cap(tinyi_lm_fwd *f, float *y, float cap, tiny_idx n)
{
    tinyi_lm_act_arg q;
    if (cap <= 0.0f) return;
    memset(&q, 0, sizeof q);
    q.y = y;
    q.cap = cap;
    tinyi_lm_host(f, y, n);
    tinyi_lm_each(f, n, 1024, tinyi_lm_cap_fn, &q);
}

TINYI_FN void tinyi_lm_act(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *a, const float *b,
                           tiny_idx n)
{
    static const short alone[] = { TINY_OP_SILU, TINY_OP_GELU_TANH, TINY_OP_GELU, TINY_OP_RELU, TINY_OP_RELU2 };
    static const short gated[] = { TINY_OP_SWIGLU, TINY_OP_GEGLU_TANH, TINY_OP_GEGLU, TINY_OP_REGLU, 0 };
    /* the first T5 has no gate, and relu */
    const int kind = TINYI_LM_ARCH(f->m)->top & TINYI_LM_T_T5 && !b ? (int)TINYI_LM_RELU : TINYI_LM_ARCH(f->m)->act;
    if (kind == TINYI_LM_XIELU || ((kind == TINYI_LM_CLAMPED || kind == TINYI_LM_SITU) && b)) {
        tinyi_lm_act_arg q;
        memset(&q, 0, sizeof q);
        q.y = y;
        q.a = a;
        q.b = b;
        q.p = kind == TINYI_LM_SITU ? f->m->situ : f->m->xielu ? f->m->xielu + 4 * l->i : NULL;
        q.kind = kind;
        tinyi_lm_each(f, n, 1024, tinyi_lm_act_fn, &q);
        return;
    }
    if (kind >= (int)TINYI_COUNT(alone)) return;
    if (b && gated[kind]) { tinyi_lm_run(f, gated[kind], y, a, b, n); return; }
    tinyi_lm_run(f, alone[kind], y, a, NULL, n);
    if (b) tinyi_lm_mul(f, y, y, b, n);
}

/* ---- convolution over time -------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_conv_arg {
    float *y; const float *x, *w, *b; float *past;
    tiny_idx ld_y, ld_x, n, n_tap;
    tiny_idx n_channel;
    int silu;
} tinyi_lm_conv_arg;

TINY_REF_BEGIN
static void tinyi_lm_conv_fn(const void *arg, tiny_idx c0, tiny_idx c1)
{
    const tinyi_lm_conv_arg *q = (const tinyi_lm_conv_arg *)arg;
    const tiny_idx K = q->n_tap, C = q->n_channel;
    tiny_idx c, t, j;
    for (c = c0; c < c1; c++) {
        const float *w = q->w + c * K;
        for (t = 0; t < q->n; t++) {
            double s = q->b ? (double)q->b[c] : 0.0;
            for (j = 0; j < K; j++) {
                const tiny_idx at = t - K + 1 + j;
                s += (double)w[j] * (double)(at < 0 ? q->past[(at + K - 1) * C + c] : q->x[at * q->ld_x + c]);
            }
            q->y[t * q->ld_y + c] = q->silu ? tinyi_silu_ref((float)s) : (float)s;
        }
    }
}
TINY_REF_END

TINYI_FN void tinyi_lm_conv(tinyi_lm_fwd *f, float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, const float *w,
                            const float *b, float *past, tiny_idx n_tap, tiny_idx n_channel, int silu)
{
    tinyi_lm_conv_arg q;
    tiny_idx i, j;
    for (i = 0; i < f->n_run && !f->st && !f->dry; i++) {
        const tinyi_lm_span *r = &f->run[i];
        q.y = y + r->row0 * ld_y; q.x = x + r->row0 * ld_x; q.w = w; q.b = b; q.past = tinyi_lm_of(f, r, past);
        q.ld_y = ld_y; q.ld_x = ld_x; q.n = r->n; q.n_tap = n_tap; q.n_channel = n_channel; q.silu = silu;
        tinyi_lm_each(f, n_channel, 32, tinyi_lm_conv_fn, &q);
        for (j = 0; j < n_tap - 1 && !f->st; j++) {     /* row j of past is the input n_tap - 1 - j steps back */
            const tiny_idx at = r->n - (n_tap - 1) + j;
            memmove(q.past + j * n_channel, at < 0 ? q.past + (j + r->n) * n_channel : q.x + at * ld_x,
                    (size_t)n_channel * sizeof *past);
        }
    }
}

/* ---- rotary positions ------------------------------------------------------------------------------------------- */

TINYI_FN tinyi_lm_heads tinyi_lm_heads_of(float *p, tiny_idx n_head, tiny_idx d, tiny_idx ld)
{
    tinyi_lm_heads h;
    h.p = p;
    h.n_head = n_head;
    h.d = d;
    h.ld = ld;
    h.head = d;
    return h;
}

typedef struct tinyi_lm_rope_arg {
    const double *freq;
    float *c, *s;
    tiny_idx half, n_rot;
    const int32_t *row;                     /* (n, 4) */
    float size;
    tinyi_lm_heads x;
    int style;
} tinyi_lm_rope_arg;

TINY_REF_BEGIN
/* J. Su et al., "RoFormer", 2021 (arXiv 2104.09864): pair i turns by pos * freq_i; angles in double, for large
 * positions */
static void tinyi_lm_rope_table_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_rope_arg *q = (const tinyi_lm_rope_arg *)arg;
    tiny_idx i, j;
    for (i = i0; i < i1; i++)
        for (j = 0; j < q->half; j++) {
            double c, s;
            tinyi_sincos64((double)q->row[4 * i + 3] * q->freq[j], &s, &c);
            q->c[i * q->half + j] = (float)(c * (double)q->size);
            q->s[i * q->half + j] = (float)(s * (double)q->size);
        }
}
static void tinyi_lm_rotate_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_rope_arg *q = (const tinyi_lm_rope_arg *)arg;
    const tiny_idx half = q->half, a_step = q->style == TINYI_LM_PAIRS ? 2 : 1,
                   b_at = q->style == TINYI_LM_PAIRS ? 1 : q->half;
    tiny_idx i, h, j;
    for (i = i0; i < i1; i++)
        for (h = 0; h < q->x.n_head; h++) {
            float *x = q->x.p + i * q->x.ld + h * q->x.head;
            const float *c = q->c + i * half, *s = q->s + i * half;
            for (j = 0; j < half; j++) {
                const float a = x[j * a_step], b = x[j * a_step + b_at];
                x[j * a_step] = a * c[j] - b * s[j];
                x[j * a_step + b_at] = a * s[j] + b * c[j];
            }
        }
}
TINY_REF_END

TINYI_FN void tinyi_lm_rope_tables(tinyi_lm_fwd *f)
{
    int i;
    for (i = 0; i < f->m->n_rope; i++) {
        const tinyi_lm_rope *r = &f->m->rope[i];
        tinyi_lm_rope_arg q;
        memset(&q, 0, sizeof q);
        q.half = r->n_rot / 2;
        f->rope_cos[i] = q.c = tinyi_lm_take(f, f->n, q.half);
        f->rope_sin[i] = q.s = tinyi_lm_take(f, f->n, q.half);
        if (f->st || f->dry) continue;
        q.freq = r->freq_long && f->s->n_ctx > f->m->rope_original ? r->freq_long : r->freq;
        q.row = f->row;
        q.size = r->size;
        tinyi_lm_each(f, f->n, 16, tinyi_lm_rope_table_fn, &q);
    }
}

TINYI_FN void tinyi_lm_rotate(tinyi_lm_fwd *f, int rope, int style, tinyi_lm_heads x)
{
    tinyi_lm_rope_arg q;
    if (f->st || f->dry || rope < 0 || style == TINYI_LM_NO_ROPE) return;
    if (TINYI_HAS(OPS) && tinyi_op_watched(f->ctx) && 2 * (f->m->rope[rope].n_rot / 2) <= x.d) {
        const tiny_idx half = f->m->rope[rope].n_rot / 2;
        tiny_tensor tx = tiny_tensor_3d(x.p, TINY_F32, f->n, x.n_head, x.d),
                    tc = tiny_tensor_2d(f->rope_cos[rope], TINY_F32, f->n, half), ts = tc;
        tllm_turn_params p;
        tx.stride[0] = x.ld;
        tx.stride[1] = x.head;
        ts.data = f->rope_sin[rope];
        p.halves = style != TINYI_LM_PAIRS;
        f->st = tllm_turn_pairs(f->ctx, &tx, &tc, &ts, &p, &tx);
        return;
    }
    memset(&q, 0, sizeof q);
    q.half = f->m->rope[rope].n_rot / 2;
    q.c = f->rope_cos[rope];
    q.s = f->rope_sin[rope];
    q.x = x;
    q.style = style;
    tinyi_lm_each(f, f->n, 16, tinyi_lm_rotate_fn, &q);
}
