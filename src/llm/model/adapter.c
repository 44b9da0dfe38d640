/* src/llm/model/adapter.c - applying adapters to products and to the residual stream, attached or merged
 * Papers   E. J. Hu et al., "LoRA: low-rank adaptation of large language models", 2021 (arXiv 2106.09685), section 4.1:
 *          h = W x + (alpha / r) B A x.
 *          A. Zou et al., "Representation engineering", 2023 (arXiv 2310.01405): x + weight * direction after a layer.
 * File     see adapter_read.c.
 * Cost     a token: r (n_in + n_out) products for each weight; merging: r n_in n_out once.
 * Error    the reference sums in double in index order and rounds once for A x and once for the sum with y. The fast
 *          form uses the float products of the target: the bound of matmul for sums of n_in and of r.
 * Left out activated LoRA (invocation tokens), DoRA, adapters of norms, adapters of weights with a separate scale.
 *          Models with four streams and encoder-decoder models take no control vector. */
#include "core/bytes.h"
#include "llm/model/model_inside.h"
#include "llm/model/adapter.h"
#include "llm/model/adapter_read_inside.h"
#include "core/hash_inside.h"
#include "core/half_inside.h"
#include <string.h>

#define TINYI_ADAPTER_TILE 16
#define TINYI_ADAPTER_ROWS 64               /* tokens whose A x is held at once */

typedef struct tinyi_lm_attached {
    size_t n;
    struct { const tllm_adapter *a; float weight; } list[TLLM_MAX_ATTACHED];
    float *ax;                              /* (TINYI_ADAPTER_ROWS, rank) */
    tiny_idx rank;
} tinyi_lm_attached;

/* ---- products --------------------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_thin {
    const float *w, *x;                     /* (rows, k) dense; (n, k) rows ld_x apart */
    float *y;
    tiny_idx rows, k, n, ld_x, ld_y;
    float scale;
    int add, reference;                     /* y = w x, or y += scale * w x */
} tinyi_lm_thin;

TINY_REF_BEGIN
static void tinyi_lm_thin_ref(const tinyi_lm_thin *p, tiny_idx r0, tiny_idx r1)
{
    tiny_idx i, r, k;
    for (i = 0; i < p->n; i++)
        for (r = r0; r < r1; r++) {
            float *y = p->y + i * p->ld_y + r;
            double s = 0.0;
            for (k = 0; k < p->k; k++) s += (double)p->x[i * p->ld_x + k] * (double)p->w[r * p->k + k];
            *y = (float)(p->add ? (double)*y + (double)p->scale * s : s);
        }
}
TINY_REF_END

static void tinyi_lm_thin_team(tiny_team *team, void *arg)
{
    const tinyi_lm_thin *p = (const tinyi_lm_thin *)arg;
    const tinyi_fn_gemv_dot dot = TINYI_K(team, gemv_dot);
    float part[4 * TINYI_ADAPTER_TILE];
    tiny_idx r0, r1, end, i, j, r;
    while (tiny_take(team, p->rows, TINYI_ADAPTER_TILE, &r0, &end))
        for (; r0 < end; r0 = r1) {         /* a team of one takes all at once */
            r1 = TINYI_MIN(r0 + TINYI_ADAPTER_TILE, end);
            if (p->reference) {
                tinyi_lm_thin_ref(p, r0, r1);
                continue;
            }
            for (i = 0; i < p->n; i += 4) {
                const int m = (int)TINYI_MIN(p->n - i, 4);
                dot(part, 1, TINYI_ADAPTER_TILE, p->w + r0 * p->k, TINY_F32, p->k, (size_t)(r1 - r0),
                    p->x + i * p->ld_x, p->ld_x, m, (size_t)p->k);
                for (j = 0; j < m; j++)
                    for (r = r0; r < r1; r++) {
                        float *y = p->y + (i + j) * p->ld_y + r;
                        const float v = part[j * TINYI_ADAPTER_TILE + r - r0];
                        *y = p->add ? *y + p->scale * v : v;
                    }
            }
        }
}

static void tinyi_lm_thin_run(tinyi_lm_fwd *f, tinyi_lm_thin *p)
{
    tinyi_lm_host(f, p->x, (p->n - 1) * p->ld_x + p->k);
    tinyi_lm_host(f, p->y, (p->n - 1) * p->ld_y + p->rows);
    if (f->st) return;
    p->reference = f->ctx->target == TINY_TARGET_REFERENCE;
    f->st = tiny_parallel(f->ctx, (double)p->rows * (double)p->k * (double)p->n < 50000.0 ? 1 : 0, 0, 0,
                          tinyi_lm_thin_team, p);
}

static const tinyi_lm_pair *tinyi_lm_pair_of(const tllm_adapter *a, const tinyi_lm_w *w)
{
    size_t lo = 0, hi = a->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (a->pair[mid].w == w) return &a->pair[mid];
        if ((uintptr_t)a->pair[mid].w < (uintptr_t)w) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

/* y (n, n_out) += weight * scale * B (A x) of every adapter that names w */
TINYI_FN void tinyi_lm_adapt(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx mat, float *y, tiny_idx ld_y,
                             const float *x, tiny_idx ld_x, tiny_idx n)
{
    const tinyi_lm_attached *at = TINYI_LM_ATTACHED(f->s);
    size_t i;
    tiny_idx i0;
    if (!at || f->dry) return;
    for (i = 0; i < at->n; i++) {
        const tllm_adapter *a = at->list[i].a;
        const tinyi_lm_pair *p = a->kind == TLLM_ADAPTER_LORA ? tinyi_lm_pair_of(a, w) : NULL;
        tinyi_lm_thin low;
        if (!p) continue;
        for (i0 = 0; i0 < n && !f->st; i0 += TINYI_ADAPTER_ROWS) {
            low.n = TINYI_MIN(n - i0, TINYI_ADAPTER_ROWS);
            low.w = p->a + mat * p->r * w->n_in;
            low.x = x + i0 * ld_x;
            low.y = at->ax;
            low.rows = low.ld_y = p->r;
            low.k = w->n_in;
            low.ld_x = ld_x;
            low.scale = 1.0f;
            low.add = 0;
            tinyi_lm_thin_run(f, &low);
            low.w = p->b + mat * w->n_out * p->r;
            low.x = at->ax;
            low.y = y + i0 * ld_y;
            low.rows = w->n_out;
            low.k = low.ld_x = p->r;
            low.ld_y = ld_y;
            low.scale = at->list[i].weight * (a->scale_of != 0.0f ? a->scale_of / (float)p->r : 1.0f);
            low.add = 1;
            tinyi_lm_thin_run(f, &low);
        }
    }
}

TINYI_FN int tinyi_lm_adapted(const tinyi_lm_fwd *f, const tinyi_lm_w *w)
{
    const tinyi_lm_attached *at = TINYI_LM_ATTACHED(f->s);
    size_t i;
    for (i = 0; at && i < at->n; i++)
        if (at->list[i].a->kind == TLLM_ADAPTER_LORA && tinyi_lm_pair_of(at->list[i].a, w)) return 1;
    return 0;
}

TINY_REF_BEGIN
/* y += scale * B' (A x) with the rows row0 .. of B, or, turned, y += scale * A^T (B'^T x): for the parts of a matrix
 * that latent attention takes by themselves. Plain: adapters of that one matrix are rare. */
TINYI_FN void tinyi_lm_adapt_part(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx row0, tiny_idx rows, int turned,
                                  float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n)
{
    const tinyi_lm_attached *at = TINYI_LM_ATTACHED(f->s);
    tiny_idx t, r, k;
    size_t i;
    for (i = 0; at && i < at->n && !f->st && !f->dry; i++) {
        const tllm_adapter *a = at->list[i].a;
        const tinyi_lm_pair *p = a->kind == TLLM_ADAPTER_LORA ? tinyi_lm_pair_of(a, w) : NULL;
        double scale;
        if (!p) continue;
        scale = (double)(at->list[i].weight * (a->scale_of != 0.0f ? a->scale_of / (float)p->r : 1.0f));
        for (t = 0; t < n; t++)
            for (k = 0; k < p->r; k++) {
                const float *low = p->a + k * w->n_in, *each = p->b + row0 * p->r + k;
                const float *from = x + t * ld_x;
                float *to = y + t * ld_y;
                double s = 0.0;
                if (turned) {
                    for (r = 0; r < rows; r++) s += (double)from[r] * (double)each[r * p->r];
                    for (r = 0; r < w->n_in; r++) to[r] = (float)((double)to[r] + scale * s * (double)low[r]);
                } else {
                    for (r = 0; r < w->n_in; r++) s += (double)from[r] * (double)low[r];
                    for (r = 0; r < rows; r++) to[r] = (float)((double)to[r] + scale * s * (double)each[r * p->r]);
                }
            }
    }
}
TINY_REF_END

/* y (n, n_embd) += weight * scale * B a[token] */
TINYI_FN void tinyi_lm_adapt_embd(tinyi_lm_fwd *f, float *y, const int32_t *tokens, tiny_idx n)
{
    const tinyi_lm_attached *at = TINYI_LM_ATTACHED(f->s);
    size_t i;
    tiny_idx i0, j;
    if (!at || f->dry) return;
    for (i = 0; i < at->n; i++) {
        const tllm_adapter *a = at->list[i].a;
        const tinyi_lm_pair *p = &a->embd;
        tinyi_lm_thin low;
        if (!p->w) continue;
        for (i0 = 0; i0 < n && !f->st; i0 += TINYI_ADAPTER_ROWS) {
            low.n = TINYI_MIN(n - i0, TINYI_ADAPTER_ROWS);
            for (j = 0; j < low.n; j++)
                memcpy(at->ax + j * p->r, p->a + tokens[i0 + j] * p->r, (size_t)p->r * sizeof *at->ax);
            low.w = p->b;
            low.x = at->ax;
            low.y = y + i0 * p->w->n_in;
            low.rows = low.ld_y = p->w->n_in;
            low.k = low.ld_x = p->r;
            low.scale = at->list[i].weight * (a->scale_of != 0.0f ? a->scale_of / (float)p->r : 1.0f);
            low.add = 1;
            tinyi_lm_thin_run(f, &low);
        }
    }
}

typedef struct tinyi_lm_steer_arg { float *x; const tinyi_lm_attached *at; tiny_idx layer, d; } tinyi_lm_steer_arg;
TINY_REF_BEGIN
static void tinyi_lm_steer_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_steer_arg *q = (const tinyi_lm_steer_arg *)arg;
    tiny_idx i, j;
    size_t k;
    for (i = i0; i < i1; i++)
        for (j = 0; j < q->d; j++) {
            double s = (double)q->x[i * q->d + j];
            for (k = 0; k < q->at->n; k++) {
                const tllm_adapter *a = q->at->list[k].a;
                if (a->direction && a->direction[q->layer] && q->layer >= a->first && q->layer <= a->last)
                    s += (double)q->at->list[k].weight * (double)a->direction[q->layer][j];
            }
            q->x[i * q->d + j] = (float)s;
        }
}
TINY_REF_END

TINYI_FN void tinyi_lm_steer(tinyi_lm_fwd *f, tiny_idx layer, float *x)
{
    tinyi_lm_steer_arg q;
    size_t k;
    int any = 0;
    q.at = TINYI_LM_ATTACHED(f->s);
    if (!q.at || f->dry || f->st) return;
    for (k = 0; k < q.at->n; k++) {
        const tllm_adapter *a = q.at->list[k].a;
        any |= a->direction && a->direction[layer] && layer >= a->first && layer <= a->last;
    }
    if (!any) return;
    q.x = x;
    q.layer = layer;
    q.d = f->m->n_embd;
    /* each of the streams */
    tinyi_lm_each(f, TINYI_LM_ARCH(f->m)->block == TINYI_LM_HYPER ? f->n * f->m->n_hyper : f->n, 4, tinyi_lm_steer_fn,
                  &q);
}

/* ---- using ------------------------------------------------------------------------------------------------------ */

static tiny_status tinyi_adapter_enter(tiny_ctx *ctx, const tllm_model *m, const tllm_adapter *a, float weight)
{
    if (!a || a->magic != TINYI_ADAPTER_MAGIC)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the adapter is NULL", m->path);
    if (a->m != m)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the adapter was opened for another model (%s)", m->path,
                          a->m->path);
    if (m->world > 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model cut over %d ranks takes no adapter", m->path,
                          m->world);
    if (!(weight - weight == 0.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the weight of an adapter must be a finite number", m->path);
    return TINY_OK;
}

TINY_API tiny_status tllm_state_attach(tllm_state *s, const tllm_adapter *a, float weight)
{
    tinyi_lm_attached *at;
    tiny_status st;
    size_t i;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(s->ctx);
    if (!st) st = tinyi_adapter_enter(s->ctx, s->m, a, weight);
    if (st) return st;
    if (!s->attached) {
        s->attached = (tinyi_lm_attached *)tinyi_alloc(s->ctx, 1, sizeof *s->attached);
        if (!s->attached) return tiny_ctx_status(s->ctx);
        memset(s->attached, 0, sizeof *s->attached);
    }
    at = s->attached;
    for (i = 0; i < at->n && at->list[i].a != a; i++) {}
    if (weight == 0.0f) {
        if (i == at->n) return TINY_OK;
        memmove(&at->list[i], &at->list[i + 1], (at->n - i - 1) * sizeof at->list[0]);
        at->n--;
        s->n_attach++;
        return TINY_OK;
    }
    if (i < at->n && at->list[i].weight == weight) return TINY_OK;
    if (i == TLLM_MAX_ATTACHED)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %d adapters are attached, which is the limit", s->m->path,
                          TLLM_MAX_ATTACHED);
    if (a->rank > at->rank) {
        float *ax = (float *)tinyi_alloc(s->ctx, (size_t)a->rank, TINYI_ADAPTER_ROWS * sizeof *ax);
        if (!ax) return tiny_ctx_status(s->ctx);
        tiny_free(s->ctx, at->ax);
        at->ax = ax;
        at->rank = a->rank;
    }
    at->list[i].a = a;
    at->list[i].weight = weight;
    if (i == at->n) at->n++;
    s->n_attach++;
    return TINY_OK;
}

/* What keys and values depend on besides the tokens, as a number that is another one after each change. */
static uint64_t tinyi_lm_weights_now(const tllm_state *s)
{
    uint64_t v[2 + 2 * TLLM_MAX_ATTACHED];
    size_t n = 0, i;
    v[n++] = s->m->n_merged;
    v[n++] = s->n_attach;
    for (i = 0; s->attached && i < s->attached->n; i++) {      /* layers may be chosen after the call of attach */
        v[n++] = (uint64_t)s->attached->list[i].a->first;
        v[n++] = (uint64_t)s->attached->list[i].a->last;
    }
    return tinyi_hash_of(v, n * sizeof *v);
}

TINYI_FN void tinyi_lm_pages_now(tllm_state *s)
{
    const uint64_t now = tinyi_lm_weights_now(s);
    if (now == s->paged_with) return;
    tllm_pages_forget(&s->pages);
    s->paged_with = now;
}

/* kind, strength, how many places and numbers, and up to 1024 of the numbers, in the order of the model's weights */
static uint64_t tinyi_lm_adapter_print(const tllm_adapter *a, float weight)
{
    const size_t step = a->n_floats / 1024 + 1;
    tinyi_hash h;
    size_t i;
    tinyi_hash_start(&h);
    tinyi_lm_hash_u64(&h, (uint64_t)a->kind);
    tinyi_lm_hash_u64(&h, (uint64_t)tinyi_f32_bits(weight) << 32 | tinyi_f32_bits(a->scale_of));
    tinyi_lm_hash_u64(&h, (uint64_t)a->first << 32 | (uint64_t)a->last);
    tinyi_lm_hash_u64(&h, (uint64_t)a->n_floats);
    tinyi_lm_hash_u64(&h, (uint64_t)a->n << 32 | (uint64_t)a->rank);
    for (i = 0; a->direction && i < (size_t)a->m->n_layer; i++)
        tinyi_lm_hash_u64(&h, a->direction[i] ? (uint64_t)(a->direction[i] - a->data) + 1 : 0);
    for (i = 0; i < a->n_floats; i += step) tinyi_lm_hash_u64(&h, tinyi_f32_bits(a->data[i]));
    return tinyi_hash_value(&h);
}

TINYI_FN uint64_t tinyi_lm_adapters_print(const tllm_state *s)
{
    uint64_t sum = s->m->merged;
    size_t i;
    for (i = 0; s->attached && i < s->attached->n; i++)
        sum += tinyi_lm_adapter_print(s->attached->list[i].a, s->attached->list[i].weight);
    return sum;
}

TINYI_FN void tinyi_lm_attached_free(tllm_state *s)
{
    if (!TINYI_LM_ATTACHED(s)) return;
    tiny_free(s->ctx, s->attached->ax);
    tiny_free(s->ctx, s->attached);
    s->attached = NULL;
}

/* ---- merging ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_merge {
    const tinyi_lm_w *w;
    const float *each, *low;                /* row r gets scale * sum_k each[r k] * low[k step_k + c step_c] */
    tiny_idx r, step_k, step_c, mat;
    double scale;
    unsigned char *to;
    size_t row_bytes;
    int half;
} tinyi_lm_merge;

TINY_REF_BEGIN
static void tinyi_lm_merge_rows(const tinyi_lm_merge *q, double *sum, float *old, tiny_idx r0, tiny_idx r1)
{
    const tinyi_lm_w *w = q->w;
    tiny_idx r, k, c;
    for (r = r0; r < r1; r++) {
        unsigned char *to = q->to + (size_t)r * q->row_bytes;
        const size_t row = (size_t)(q->mat * w->n_out + r);
        w->format->unpack(w->t->data + row * w->row_bytes, old, (size_t)w->n_in);
        for (c = 0; c < w->n_in; c++) sum[c] = 0.0;
        for (k = 0; k < q->r; k++)
            for (c = 0; c < w->n_in; c++)
                sum[c] += (double)q->each[r * q->r + k] * (double)q->low[k * q->step_k + c * q->step_c];
        for (c = 0; c < w->n_in; c++) {     /* little endian, as in a file */
            const float v = (float)((double)old[c] + q->scale * sum[c]);
            const uint32_t bits = q->half ? (uint32_t)tinyi_f32_to_f16(v) : tinyi_f32_bits(v);
            const size_t wide = q->half ? 2 : 4;
            tinyi_put_le(to, bits, wide);
            to += wide;
        }
    }
}
TINY_REF_END

static void tinyi_lm_merge_team(tiny_team *team, void *arg)
{
    const tinyi_lm_merge *q = (const tinyi_lm_merge *)arg;
    double *sum = (double *)team->own;
    tiny_idx r0, r1;
    while (tiny_take(team, q->w->n_out, 16, &r0, &r1))
        tinyi_lm_merge_rows(q, sum, (float *)(void *)(sum + q->w->n_in), r0, r1);
}

TINY_API tiny_status tllm_adapter_merge(tiny_ctx *ctx, tllm_model *model, const tllm_adapter *a, float weight,
                                        tiny_dtype dtype)
{
    const size_t each = dtype == TINY_F16 ? 2 : 4, n = a ? a->n + (a->embd.w ? 1 : 0) : 0;
    const uint16_t one = 1;
    unsigned char little, *data;
    tllm_gguf_tensor *t;
    tinyi_lm_w *fresh;
    tinyi_lm_load ld;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t bytes = 0, i;
    int ok = 1;
    memcpy(&little, &one, 1);
    if (st) return st;
    if (!model) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_adapter_merge: the model is NULL");
    st = tinyi_adapter_enter(ctx, model, a, weight);
    if (st) return st;
    if (model->eights)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: the model is repacked: merge adapters before that, or attach them", model->path);
    if (TINYI_LM_DISK(model))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: the model stays on disk: adapters cannot be merged, only attached", model->path);
    if (a->kind != TLLM_ADAPTER_LORA)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a control vector cannot be merged, only attached", model->path);
    if (dtype != TINY_F32 && dtype != TINY_F16)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: merged weights must be f32 or f16, not %s", model->path,
                          tiny_dtype_name(dtype));
    for (i = 0; i < n && ok; i++) {
        const tinyi_lm_w *w = i < a->n ? a->pair[i].w : a->embd.w;
        size_t b = 0;
        ok = tinyi_size_mul((size_t)w->n_in, (size_t)w->n_out, &b) && tinyi_size_mul(b, (size_t)w->n_mat, &b) &&
             tinyi_size_mul(b, each, &b) && b <= SIZE_MAX - 64 && tinyi_size_add(bytes, (b + 63) & ~(size_t)63, &bytes);
    }
    if (!ok)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the merged weights are more than this machine can address",
                          model->path);
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = model->file;
    ld.m = model;
    fresh = (tinyi_lm_w *)tinyi_lm_keep(&ld, 1, sizeof *fresh);
    t = (tllm_gguf_tensor *)tinyi_lm_keep(&ld, n, sizeof *t);
    data = (unsigned char *)tinyi_lm_keep(&ld, bytes, 1);
    if (ld.st) return ld.st;
    for (i = 0; i < n && !st; i++) {        /* first all numbers, so that a cancelled call changes nothing */
        const int embd = i == a->n;
        const tinyi_lm_pair *p = embd ? &a->embd : &a->pair[i];
        tinyi_lm_merge q;
        size_t own;
        /* that of the embedding may be another since an earlier merge */
        q.w = embd ? model->top.w[TINYI_T_TOKEN_EMBD] : p->w;
        q.r = p->r;
        q.half = dtype == TINY_F16;
        q.scale = (double)(weight * (a->scale_of != 0.0f ? a->scale_of / (float)p->r : 1.0f));
        q.row_bytes = (size_t)q.w->n_in * each;
        q.step_k = embd ? 1 : q.w->n_in;
        q.step_c = embd ? q.r : 1;
        t[i] = *q.w->t;
        t[i].data = data;
        t[i].bytes = (size_t)q.w->n_out * (size_t)q.w->n_mat * q.row_bytes;
        t[i].type = q.half ? (int)TLLM_FORMAT_F16 : (int)TLLM_FORMAT_F32;
        if (!tinyi_size_mul((size_t)q.w->n_in, sizeof(double) + sizeof(float), &own)) own = SIZE_MAX;
        for (q.mat = 0; q.mat < q.w->n_mat && !st; q.mat++) {
            q.each = embd ? p->a : p->b + q.mat * q.w->n_out * q.r;
            q.low = embd ? p->b : p->a + q.mat * q.r * q.w->n_in;
            q.to = data + (size_t)q.mat * (size_t)q.w->n_out * q.row_bytes;
            st = tiny_parallel(ctx, 0, 0, own, tinyi_lm_merge_team, &q);
        }
        data += (t[i].bytes + 63) & ~(size_t)63;
    }
    if (!st) tinyi_lm_weights_up(ctx, model, 0);
    for (i = 0; i < n && !st; i++) {
        /* memory of the model, which may be changed here */
        tinyi_lm_w *w = (tinyi_lm_w *)(uintptr_t)(i < a->n ? a->pair[i].w : a->embd.w);
        if (i == a->n) {                    /* an output that is the embedding stays what it was */
            *fresh = *model->top.w[TINYI_T_TOKEN_EMBD];
            model->top.w[TINYI_T_TOKEN_EMBD] = w = fresh;
        }
        w->t = &t[i];
        w->format = tllm_format_of(t[i].type);
        w->row_bytes = w->row_step = (size_t)w->n_in * each;
        w->dtype = little ? (int)dtype : -1;
        w->turned = NULL;                   /* it was of the weights before */
    }
    if (!st) {
        tinyi_lm_weights_up(ctx, model, 1);
        model->n_merged++;
        /* merged is not attached: the weights were rounded */
        model->merged += tinyi_lm_adapter_print(a, weight) + (uint64_t)dtype + 1;
    }
    return st;
}
