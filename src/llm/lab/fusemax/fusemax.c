/* src/llm/lab/fusemax/fusemax.c - attention in 3, 2 or 1 passes over the keys
 * Paper    N. Nayak et al., "FuseMax", 2024 (arXiv 2406.10491), cascades 4 to 6 and section 5; the 1-pass one is that
 *          of T. Dao et al., 2022 (arXiv 2205.14135).
 * Method   One task is p0 queries of one head. Four drivers, one per cascade, use the same steps (product, maximum, exp
 *          and sum, scaling); they differ in what they keep and when they correct. 1-pass without an explicit tile, the
 *          usual case, is tiny_attention.
 * Cost     as tllm_fusemax_predict says; a task keeps p0 x m floats (1-pass: p0 x m0).
 * Error    scores by (e + 3) u sum|q||k| scale, sums by m u: 2e-5 max|v| for unit variance and e <= 128, as
 *          tiny_attention.
 * Model    cycles = sum over Einsums of points * cost / PEs. One pass, arrays in parallel:
 *          max(QK + LM, RD + RNV + AV) + RM + max(SLN + SLD, PRM + SPD) + max(SLNV, SPNV). Other cascades: the sum.
 * Left out masks, bias and soft-cap (tiny_attention has them); the array itself: there is no such machine. */
#include <string.h>
#include "llm/lab/fusemax/fusemax.h"
#include "math/attention.h"
#include "math/table_inside.h"

/* ---- the cascades */

#define TINYI_FUSEMAX_CHUNKS "split m m1 m0\ninput Q[p,e] K[m1,m0,e] V[m1,m0,f]\n"
static const struct { const char *name, *fiber, *text; } tinyi_fusemax[TLLM_FUSEMAX_CASCADES] = {
    { "1-pass", "m1 m0",
      TINYI_FUSEMAX_CHUNKS
      "state RM[m1,p] = -inf\n"
      "state RD[m1,p] = 0\n"
      "state RNV[m1,p,f] = 0\n"
      "BQK[m1,p,m0] = sum e: Q[p,e] * K[m1,m0,e]\n"
      "LM[m1,p] = max m0: BQK[m1,p,m0]\n"
      "RM[m1+1,p] = max(RM[m1,p], LM[m1,p])\n"
      "SLN[m1,p,m0] = exp(BQK[m1,p,m0] - RM[m1+1,p])\n"
      "SLD[m1,p] = sum m0: SLN[m1,p,m0]\n"
      "SLNV[m1,p,f] = sum m0: SLN[m1,p,m0] * V[m1,m0,f]\n"
      "PRM[m1,p] = exp(RM[m1,p] - RM[m1+1,p])\n"
      "SPD[m1,p] = RD[m1,p] * PRM[m1,p]\n"
      "RD[m1+1,p] = SLD[m1,p] + SPD[m1,p]\n"
      "SPNV[m1,p,f] = RNV[m1,p,f] * PRM[m1,p]\n"
      "RNV[m1+1,p,f] = SLNV[m1,p,f] + SPNV[m1,p,f]\n"
      "AV[p,f] = RNV[last,p,f] / RD[last,p]\n" },
    { "2-pass", "m1 m0",
      TINYI_FUSEMAX_CHUNKS
      "BQK[m1,p,m0] = sum e: Q[p,e] * K[m1,m0,e]\n"
      "LM[m1,p] = max m0: BQK[m1,p,m0]\n"
      "SLN[p,m1,m0] = exp(BQK[m1,p,m0] - LM[m1,p])\n"
      "SLD[m1,p] = sum m0: SLN[p,m1,m0]\n"
      "GM[p] = max m1: LM[m1,p]\n"
      "PLM[m1,p] = exp(LM[m1,p] - GM[p])\n"
      "SD[p] = sum m1: SLD[m1,p] * PLM[m1,p]\n"
      "PLD[m1,p] = PLM[m1,p] / SD[p]\n"
      "A[m1,p,m0] = SLN[p,m1,m0] * PLD[m1,p]\n"
      "AV[p,f] = sum m1 m0: A[m1,p,m0] * V[m1,m0,f]\n" },
    { "deferred", "m",
      "input Q[p,e] K[m,e] V[m,f]\n"
      "QK[p,m] = sum e: Q[p,e] * K[m,e]\n"
      "GM[p] = max m: QK[p,m]\n"
      "SN[p,m] = exp(QK[p,m] - GM[p])\n"
      "SD[p] = sum m: SN[p,m]\n"
      "SNV[p,f] = sum m: SN[p,m] * V[m,f]\n"
      "AV[p,f] = SNV[p,f] / SD[p]\n" },
    { "3-pass", "m",
      "input Q[p,e] K[m,e] V[m,f]\n"
      "QK[p,m] = sum e: Q[p,e] * K[m,e]\n"
      "GM[p] = max m: QK[p,m]\n"
      "SN[p,m] = exp(QK[p,m] - GM[p])\n"
      "SD[p] = sum m: SN[p,m]\n"
      "A[p,m] = SN[p,m] / SD[p]\n"
      "AV[p,f] = sum m: A[p,m] * V[m,f]\n" }
};

TINY_API const char *tllm_fusemax_name(int cascade)
{
    return cascade >= 0 && cascade < TLLM_FUSEMAX_CASCADES ? tinyi_fusemax[cascade].name : NULL;
}
TINY_API const char *tllm_fusemax_text(int cascade)
{
    return cascade >= 0 && cascade < TLLM_FUSEMAX_CASCADES ? tinyi_fusemax[cascade].text : NULL;
}

/* sizes of the ranks that the text has */
static tiny_status tinyi_fusemax_parse(tiny_ctx *ctx, int cascade, const tllm_fusemax_shape *s, tiny_idx m0,
                                       tllm_cascade *c)
{
    static const char name[5][3] = { "e", "f", "m", "p", "m0" };
    const tiny_idx size[5] = { s->e, s->f, s->m, s->p, TINYI_MIN(m0, s->m) };
    tiny_status st = tllm_cascade_parse(ctx, tinyi_fusemax[cascade].text, c);
    int i;
    for (i = 0; i < 5 && !st; i++)
        if (i < 4 || c->split[0] >= 0) st = tllm_cascade_size(ctx, c, name[i], size[i]);
    return st;
}

/* ---- tiles: what they need, and what is far */

#define TINYI_FUSEMAX_P0 64
#define TINYI_FUSEMAX_M0 128
#define TINYI_FUSEMAX_PAD 16                /* a panel's rows begin at multiples of a cache line */
#define TINYI_FUSEMAX_MOST ((tiny_idx)1 << 24)

typedef struct tinyi_fusemax_tile {
    /* chunks; floats of a row of a tile and of a kept row (0: nothing is kept) */
    tiny_idx p0, m0, m1, wide, kept;
    size_t floats, buffer;
    int k_near, v_near, kept_near;          /* read once, or not at all, from far memory */
} tinyi_fusemax_tile;

static tiny_idx tinyi_fusemax_up(tiny_idx n)
{
    return (n + TINYI_FUSEMAX_PAD - 1) / TINYI_FUSEMAX_PAD * TINYI_FUSEMAX_PAD;
}

/* floats of one chunk's tile: queries, scores, sums and rows of the running state; keys transposed, values */
static double tinyi_fusemax_near(const tllm_fusemax_shape *s, tiny_idx p0, tiny_idx m0)
{
    return (double)p0 * (double)(s->e + s->f + tinyi_fusemax_up(m0) + 4) +
           (double)tinyi_fusemax_up(m0) * (double)(s->e + s->f);
}

/* anyway: the tile is not judged, an array of processors keeps its scores in itself */
static tiny_status tinyi_fusemax_fit(tiny_ctx *ctx, const tllm_fusemax_desc *d, const tllm_fusemax_shape *s, int anyway,
                                     tinyi_fusemax_tile *t)
{
    double floats;
    memset(t, 0, sizeof *t);
    if (d->cascade < 0 || d->cascade >= TLLM_FUSEMAX_CASCADES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: there is no cascade %d", d->cascade);
    if (s->e < 1 || s->f < 1 || s->m < 1 || s->p < 1 || s->heads < 1)
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "fusemax: %td queries and %td keys of %td heads with %td and %td numbers: each must be at least 1", s->p,
            s->m, s->heads, s->e, s->f);
    if (d->p0 < 0 || d->m0 < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "fusemax: a tile of %td queries and %td keys; at least 1 of each is needed", d->p0,
                          d->m0);
    if (s->e > TINYI_FUSEMAX_MOST || s->f > TINYI_FUSEMAX_MOST || s->m > TINYI_FUSEMAX_MOST ||
        s->p > TINYI_FUSEMAX_MOST || s->heads > TINYI_FUSEMAX_MOST)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "fusemax: no size may be larger than %td", TINYI_FUSEMAX_MOST);
    t->buffer = d->buffer_bytes ? d->buffer_bytes : ctx->k->cache[2] ? ctx->k->cache[2] : (size_t)256 << 10;
    t->p0 = TINYI_MIN(d->p0 ? d->p0 : TINYI_FUSEMAX_P0, s->p);
    t->m0 = TINYI_MIN(d->m0 ? d->m0 : TINYI_FUSEMAX_M0, s->m);
    while (!anyway && 4.0 * tinyi_fusemax_near(s, t->p0, t->m0) > (double)t->buffer) {
        if (!d->m0 && t->m0 > 1 && (t->m0 >= t->p0 || d->p0 || t->p0 == 1)) t->m0 /= 2;
        else if (!d->p0 && t->p0 > 1) t->p0 /= 2;
        else
            return tinyi_fail(ctx, TINY_E_WORKSPACE,
                              "fusemax: a tile of %td queries and %td keys needs %.0f bytes, but the buffer has %.0f",
                              t->p0, t->m0, 4.0 * tinyi_fusemax_near(s, t->p0, t->m0), (double)t->buffer);
    }
    t->m1 = (s->m - 1) / t->m0 + 1;
    t->wide = tinyi_fusemax_up(t->m0);
    if (d->cascade != TLLM_FUSEMAX_1_PASS) t->kept = tinyi_fusemax_up(s->m);
    floats = tinyi_fusemax_near(s, t->p0, t->m0) + (double)t->p0 * ((double)t->kept + 3.0 * (double)t->m1);
    if (floats > (double)(TINY_IDX_MAX / 8))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "fusemax: the rows of a tile are more than this machine can address");
    /* the state of a row is 4 numbers; the corrections of the 2-pass cascade are 2 a chunk */
    t->floats = (size_t)(t->p0 * (s->e + s->f + t->wide + 4) + t->wide * s->e + t->p0 * t->kept) +
                (d->cascade == TLLM_FUSEMAX_2_PASS ? (size_t)(2 * t->p0 * t->m1) : 0);
    t->k_near = 4.0 * (double)s->m * (double)s->e <= (double)t->buffer;
    t->v_near = 4.0 * (double)s->m * (double)s->f <= (double)t->buffer;
    t->kept_near = 4.0 * (double)t->p0 * (double)s->m <= (double)t->buffer;
    return TINY_OK;
}

static void tinyi_fusemax_scale_ops(tllm_cascade_ops *o, double by)
{
    o->exps *= by; o->multiplies *= by; o->divides *= by; o->adds *= by; o->maxima *= by; o->rescales *= by;
}

static tiny_status tinyi_fusemax_predict(tiny_ctx *ctx, const tllm_fusemax_desc *desc, const tllm_fusemax_shape *shape,
                                         tiny_idx heads_kv, int anyway, tllm_fusemax_counts *counts)
{
    const tllm_fusemax_desc plain = { 0, 0, 0, 0.0f, 0 }, *d = desc ? desc : &plain;
    tllm_cascade_analysis a;
    tllm_cascade c;
    tinyi_fusemax_tile t;
    tllm_fusemax_shape s;
    double blocks, heads;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (!shape || !counts)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: the shape or the result pointer is NULL");
    s = *shape;
    if (!s.heads) s.heads = 1;
    if (heads_kv < 1 || s.heads % heads_kv)
        return tinyi_fail(ctx, TINY_E_SHAPE, "fusemax: %td query heads are not a multiple of %td key heads", s.heads,
                          heads_kv);
    st = tinyi_fusemax_fit(ctx, d, &s, anyway, &t);
    if (!st) st = tinyi_fusemax_parse(ctx, d->cascade, &s, t.m0, &c);
    if (!st) st = tllm_cascade_analyse(ctx, &c, tinyi_fusemax[d->cascade].fiber, &a);
    if (st) return st;
    memset(counts, 0, sizeof *counts);
    heads = (double)s.heads;
    blocks = (double)((s.p - 1) / t.p0 + 1);
    counts->ops = a.ops;
    tinyi_fusemax_scale_ops(&counts->ops, heads);
    counts->read_q = heads * (double)s.p * (double)s.e;
    counts->written_o = heads * (double)s.p * (double)s.f;
    counts->read_k = (t.k_near ? (double)heads_kv : heads * blocks) * (double)s.m * (double)s.e *
                     a.reads[tllm_cascade_find(&c, "K")];
    counts->read_v = (t.v_near ? (double)heads_kv : heads * blocks) * (double)s.m * (double)s.f *
                     a.reads[tllm_cascade_find(&c, "V")];
    for (i = 0; i < c.n_tensor; i++) {      /* what is kept for all keys, where the rows of a tile do not fit */
        const double n = tinyi_cascade_points(&c, c.tensor[i].ranks);
        if (c.tensor[i].is_input || !a.kept[i] || t.kept_near || n < (double)s.p * (double)s.m) continue;
        counts->written_kept += heads * n;
        counts->read_kept += heads * n * a.kept[i];
    }
    counts->live_bytes = t.floats * sizeof(float);
    return TINY_OK;
}

TINY_API tiny_status tllm_fusemax_predict(tiny_ctx *ctx, const tllm_fusemax_desc *desc, const tllm_fusemax_shape *shape,
                                          tiny_idx heads_kv, tllm_fusemax_counts *counts)
{
    return tinyi_fusemax_predict(ctx, desc, shape, heads_kv, 0, counts);
}

/* ---- the run */

typedef struct tinyi_fusemax_job {
    int cascade;
    const tiny_tensor *q, *k, *v, *o;
    tllm_fusemax_shape s;
    tinyi_fusemax_tile t;
    tiny_idx group;
    float scale;
    tllm_fusemax_counts *counts;            /* one a thread; NULL: not counted */
} tinyi_fusemax_job;

/* one task: n queries of a head */
typedef struct tinyi_fusemax_task {
    const tinyi_fusemax_job *job;
    const tinyi_kernels *kn;
    tinyi_gemm_shape shape;
    const float *k, *v;
    /* chunk: maxima and sums of all chunks, (2, m1, p0) */
    float *q, *kt, *tile, *acc, *kept, *chunk, *top, *sum, *old;
    tiny_idx n;
    int new_k, new_v;                       /* these keys and values come from far memory */
    tllm_fusemax_counts *c;
} tinyi_fusemax_task;

/* y (m, n) = or += s (m, k) v (k, n), all rows where they are */
static void tinyi_fusemax_product(const tinyi_fusemax_task *t, float *y, tiny_idx y_row, const float *s, tiny_idx s_row,
                                  const float *v, tiny_idx v_row, tiny_idx m, tiny_idx n, tiny_idx k, int add)
{
    tiny_idx i, j;
    for (j = 0; j < n; j += t->shape.nr)
        for (i = 0; i < m; i += t->shape.mr)
            TINYI_OF(t->kn, gemm_f32_rows)
            (y + i * y_row + j, y_row, s + i * s_row, s_row, v + j, v_row, (size_t)k,
             (int)TINYI_MIN(m - i, t->shape.mr), (int)TINYI_MIN(n - j, t->shape.nr), add);
    t->c->ops.multiplies += (double)m * (double)n * (double)k;
    t->c->ops.adds += (double)m * (double)n * (double)k;
}

/* scores of the chunk of keys at c0: y (n, n_c) */
static void tinyi_fusemax_scores(const tinyi_fusemax_task *t, float *y, tiny_idx y_row, tiny_idx c0, tiny_idx n_c)
{
    const tinyi_fusemax_job *job = t->job;
    const tiny_idx step = job->k->stride[0];
    TINYI_OF(t->kn, gemm_f32_turn)(t->kt, job->t.wide, t->k + c0 * step, TINY_F32, step, (size_t)n_c, (size_t)job->s.e);
    tinyi_fusemax_product(t, y, y_row, t->q, job->s.e, t->kt, job->t.wide, t->n, n_c, job->s.e, 0);
    if (t->new_k) t->c->read_k += (double)n_c * (double)job->s.e;
}

/* acc (n, f) = or += w (n, n_c) times the values at c0 */
static void tinyi_fusemax_mix(const tinyi_fusemax_task *t, const float *w, tiny_idx w_row, tiny_idx c0, tiny_idx n_c,
                              int add)
{
    const tinyi_fusemax_job *job = t->job;
    const tiny_idx step = job->v->stride[0];
    tinyi_fusemax_product(t, t->acc, job->s.f, w, w_row, t->v + c0 * step, step, t->n, job->s.f, n_c, add);
    if (t->new_v) t->c->read_v += (double)n_c * (double)job->s.f;
}

static float tinyi_fusemax_top(const tinyi_fusemax_task *t, const float *x, tiny_idx n)
{
    t->c->ops.maxima += (double)n;
    return TINYI_OF(t->kn, softmax_top_f32)(x, (size_t)n, 1.0f);
}

/* y = exp(x - top), and the sum of it */
static float tinyi_fusemax_exp(const tinyi_fusemax_task *t, float *y, const float *x, tiny_idx n, float top)
{
    t->c->ops.exps += (double)n;
    t->c->ops.adds += (double)n;
    return TINYI_OF(t->kn, softmax_sum_f32)(y, x, (size_t)n, 1.0f, top);
}

static float tinyi_fusemax_exp1(const tinyi_fusemax_task *t, float x)
{
    t->c->ops.exps += 1.0;
    return tinyi_exp_ref(x);
}

static void tinyi_fusemax_rescale(const tinyi_fusemax_task *t, float *y, const float *x, tiny_idx n, float by)
{
    t->c->ops.multiplies += (double)n;
    t->c->ops.rescales += (double)n;
    TINYI_OF(t->kn, scale_f32)(y, x, (size_t)n, by, 0.0f);
}

static void tinyi_fusemax_divide(const tinyi_fusemax_task *t, float *y, const float *x, tiny_idx n, float by)
{
    t->c->ops.divides += (double)n;
    TINYI_OF(t->kn, binary_f32)(TINYI_BINARY_DIV, y, x, &by, (size_t)n, 1, 0);
}

static void tinyi_fusemax_wrote(const tinyi_fusemax_task *t, tiny_idx n)
{
    if (!t->job->t.kept_near) t->c->written_kept += (double)n;
}
static void tinyi_fusemax_read(const tinyi_fusemax_task *t, tiny_idx n)
{
    if (!t->job->t.kept_near) t->c->read_kept += (double)n;
}

static void tinyi_fusemax_put(const tinyi_fusemax_task *t, float *o, int divide)
{
    const tinyi_fusemax_job *job = t->job;
    tiny_idx r;
    for (r = 0; r < t->n; r++)
        if (divide) tinyi_fusemax_divide(t, o + r * job->o->stride[0], t->acc + r * job->s.f, job->s.f, t->sum[r]);
        else memcpy(o + r * job->o->stride[0], t->acc + r * job->s.f, (size_t)job->s.f * sizeof *o);
    t->c->written_o += (double)t->n * (double)job->s.f;
}

/* QK for all keys, and its maximum: the first pass of two of the cascades */
static void tinyi_fusemax_all_scores(const tinyi_fusemax_task *t)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tiny_idx m = t->job->s.m;
    tiny_idx c0, r;
    for (c0 = 0; c0 < m; c0 += tile->m0) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        tinyi_fusemax_scores(t, t->kept + c0, tile->kept, c0, n_c);
        tinyi_fusemax_wrote(t, t->n * n_c);
        for (r = 0; r < t->n; r++) {
            const float top = tinyi_fusemax_top(t, t->kept + r * tile->kept + c0, n_c);
            t->top[r] = c0 && !(top > t->top[r]) ? t->top[r] : top;
        }
    }
}

static void tinyi_fusemax_3_pass(const tinyi_fusemax_task *t, float *o)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tiny_idx m = t->job->s.m;
    tiny_idx c0, r;
    tinyi_fusemax_all_scores(t);
    for (r = 0; r < t->n; r++) {
        float *row = t->kept + r * tile->kept;
        t->sum[r] = tinyi_fusemax_exp(t, row, row, m, t->top[r]);
        tinyi_fusemax_read(t, m);
        tinyi_fusemax_wrote(t, m);
    }
    for (c0 = 0; c0 < m; c0 += tile->m0) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        for (r = 0; r < t->n; r++)
            tinyi_fusemax_divide(t, t->tile + r * tile->wide, t->kept + r * tile->kept + c0, n_c, t->sum[r]);
        tinyi_fusemax_read(t, t->n * n_c);
        tinyi_fusemax_mix(t, t->tile, tile->wide, c0, n_c, c0 > 0);
    }
    tinyi_fusemax_put(t, o, 0);
}

static void tinyi_fusemax_deferred(const tinyi_fusemax_task *t, float *o)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tiny_idx m = t->job->s.m;
    tiny_idx c0, r;
    tinyi_fusemax_all_scores(t);
    for (c0 = 0; c0 < m; c0 += tile->m0) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        for (r = 0; r < t->n; r++) {
            const float sum =
                tinyi_fusemax_exp(t, t->tile + r * tile->wide, t->kept + r * tile->kept + c0, n_c, t->top[r]);
            t->sum[r] = c0 ? t->sum[r] + sum : sum;
        }
        tinyi_fusemax_read(t, t->n * n_c);
        tinyi_fusemax_mix(t, t->tile, tile->wide, c0, n_c, c0 > 0);
    }
    tinyi_fusemax_put(t, o, 1);
}

static void tinyi_fusemax_2_pass(const tinyi_fusemax_task *t, float *o)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tiny_idx m = t->job->s.m, p0 = tile->p0;
    float *top = t->chunk, *sum = t->chunk + tile->m1 * p0;
    tiny_idx c0, r, j;
    for (c0 = 0, j = 0; c0 < m; c0 += tile->m0, j++) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        tinyi_fusemax_scores(t, t->tile, tile->wide, c0, n_c);
        for (r = 0; r < t->n; r++) {
            const float *row = t->tile + r * tile->wide;
            top[j * p0 + r] = tinyi_fusemax_top(t, row, n_c);
            sum[j * p0 + r] = tinyi_fusemax_exp(t, t->kept + r * tile->kept + c0, row, n_c, top[j * p0 + r]);
        }
        tinyi_fusemax_wrote(t, t->n * n_c);
    }
    for (r = 0; r < t->n; r++) {
        t->top[r] = top[r];
        t->sum[r] = 0.0f;
        for (j = 0; j < tile->m1; j++) if (top[j * p0 + r] > t->top[r]) t->top[r] = top[j * p0 + r];
        for (j = 0; j < tile->m1; j++) {
            top[j * p0 + r] = tinyi_fusemax_exp1(t, top[j * p0 + r] - t->top[r]);
            t->sum[r] += sum[j * p0 + r] * top[j * p0 + r];
        }
        for (j = 0; j < tile->m1; j++) top[j * p0 + r] /= t->sum[r];
    }
    t->c->ops.maxima += (double)(t->n * tile->m1);
    t->c->ops.multiplies += (double)(t->n * tile->m1);
    t->c->ops.rescales += (double)(t->n * tile->m1);
    t->c->ops.adds += (double)(t->n * tile->m1);
    t->c->ops.divides += (double)(t->n * tile->m1);
    for (c0 = 0, j = 0; c0 < m; c0 += tile->m0, j++) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        for (r = 0; r < t->n; r++)
            tinyi_fusemax_rescale(t, t->tile + r * tile->wide, t->kept + r * tile->kept + c0, n_c, top[j * p0 + r]);
        tinyi_fusemax_read(t, t->n * n_c);
        tinyi_fusemax_mix(t, t->tile, tile->wide, c0, n_c, c0 > 0);
    }
    tinyi_fusemax_put(t, o, 0);
}

static void tinyi_fusemax_1_pass(const tinyi_fusemax_task *t, float *o)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tiny_idx m = t->job->s.m, f = t->job->s.f;
    tiny_idx c0, r;
    for (r = 0; r < t->n; r++) {
        t->top[r] = -INFINITY;
        t->sum[r] = 0.0f;
    }
    memset(t->acc, 0, (size_t)(t->n * f) * sizeof *t->acc);
    for (c0 = 0; c0 < m; c0 += tile->m0) {
        const tiny_idx n_c = TINYI_MIN(tile->m0, m - c0);
        tinyi_fusemax_scores(t, t->tile, tile->wide, c0, n_c);
        for (r = 0; r < t->n; r++) {
            float *row = t->tile + r * tile->wide, top = tinyi_fusemax_top(t, row, n_c), by;
            if (!(top > t->top[r])) top = t->top[r];
            by = tinyi_fusemax_exp1(t, t->top[r] - top);
            t->sum[r] = t->sum[r] * by + tinyi_fusemax_exp(t, row, row, n_c, top);
            t->top[r] = top;
            tinyi_fusemax_rescale(t, t->acc + r * f, t->acc + r * f, f, by);
        }
        t->c->ops.maxima += (double)t->n;               /* RM */
        t->c->ops.multiplies += (double)t->n;           /* SPD */
        t->c->ops.rescales += (double)t->n;
        t->c->ops.adds += (double)t->n * (1.0 + (double)f);     /* RD, RNV */
        tinyi_fusemax_mix(t, t->tile, tile->wide, c0, n_c, 1);
    }
    tinyi_fusemax_put(t, o, 1);
}

static void tinyi_fusemax_lay(tinyi_fusemax_task *t, float *own)
{
    const tinyi_fusemax_tile *tile = &t->job->t;
    const tllm_fusemax_shape *s = &t->job->s;
    t->kt = own;
    t->tile = t->kt + tile->wide * s->e;
    t->kept = t->tile + tile->p0 * tile->wide;
    t->q = t->kept + tile->p0 * tile->kept;
    t->acc = t->q + tile->p0 * s->e;
    t->top = t->acc + tile->p0 * s->f;
    t->sum = t->top + tile->p0;
    t->chunk = t->sum + tile->p0;
}

static void tinyi_fusemax_team(tiny_team *team, void *arg)
{
    const tinyi_fusemax_job *job = (const tinyi_fusemax_job *)arg;
    const tllm_fusemax_shape *s = &job->s;
    const tiny_idx blocks = (s->p - 1) / job->t.p0 + 1;
    tllm_fusemax_counts unused;
    tinyi_fusemax_task t;
    tiny_idx task, end, r, i;
    memset(&t, 0, sizeof t);
    memset(&unused, 0, sizeof unused);
    t.job = job;
    t.kn = team->k;
    t.c = job->counts ? &job->counts[team->i] : &unused;
    TINYI_K(team, gemm_f32_shape)(&t.shape);
    tinyi_fusemax_lay(&t, (float *)team->own);
    while (tiny_take(team, blocks * s->heads, 1, &task, &end)) for (; task < end; task++) {
        const tiny_idx h = task / blocks, row0 = task % blocks * job->t.p0, kv = h / job->group;
        const float *from = (const float *)job->q->data + row0 * job->q->stride[0] + h * job->q->stride[1];
        float *o = (float *)job->o->data + row0 * job->o->stride[0] + h * job->o->stride[1];
        const int first = row0 == 0 && h % job->group == 0;
        t.n = TINYI_MIN(job->t.p0, s->p - row0);
        t.k = (const float *)job->k->data + kv * job->k->stride[1];
        t.v = (const float *)job->v->data + kv * job->v->stride[1];
        t.new_k = first || !job->t.k_near;
        t.new_v = first || !job->t.v_near;
        for (r = 0; r < t.n; r++)
            for (i = 0; i < s->e; i++) t.q[r * s->e + i] = from[r * job->q->stride[0] + i] * job->scale;
        t.c->read_q += (double)t.n * (double)s->e;
        switch (job->cascade) {
        case TLLM_FUSEMAX_3_PASS: tinyi_fusemax_3_pass(&t, o); break;
        case TLLM_FUSEMAX_DEFERRED: tinyi_fusemax_deferred(&t, o); break;
        case TLLM_FUSEMAX_2_PASS: tinyi_fusemax_2_pass(&t, o); break;
        default: tinyi_fusemax_1_pass(&t, o);
        }
    }
}

/* ---- reference: the description itself, head by head */

static tiny_status tinyi_fusemax_ref(tiny_ctx *ctx, const tinyi_fusemax_job *job, tllm_cascade_ops *ops)
{
    const tllm_fusemax_shape *s = &job->s;
    const size_t n_q = (size_t)(s->p * s->e), n_k = (size_t)(s->m * s->e), n_v = (size_t)(s->m * s->f),
                 n_o = (size_t)(s->p * s->f);
    double *data[TLLM_CASCADE_TENSORS] = { NULL }, *x;
    tllm_cascade c;
    tllm_cascade_ops one;
    tiny_idx h, i, j;
    tiny_status st = tinyi_fusemax_parse(ctx, job->cascade, s, job->t.m0, &c);
    if (st) return st;
    x = (double *)tinyi_alloc(ctx, n_q + n_k + n_v + n_o, sizeof *x);
    if (!x) return tiny_ctx_status(ctx);
    data[tllm_cascade_find(&c, "Q")] = x;
    data[tllm_cascade_find(&c, "K")] = x + n_q;
    data[tllm_cascade_find(&c, "V")] = x + n_q + n_k;
    data[tllm_cascade_find(&c, "AV")] = x + n_q + n_k + n_v;
    memset(ops, 0, sizeof *ops);
    for (h = 0; h < s->heads && !st; h++) {
        const float *q = (const float *)job->q->data + h * job->q->stride[1],
                    *k = (const float *)job->k->data + h / job->group * job->k->stride[1];
        const float *v = (const float *)job->v->data + h / job->group * job->v->stride[1];
        float *o = (float *)job->o->data + h * job->o->stride[1];
        for (i = 0; i < s->p; i++)
            for (j = 0; j < s->e; j++) x[i * s->e + j] = (double)q[i * job->q->stride[0] + j] * (double)job->scale;
        for (i = 0; i < s->m; i++)
            for (j = 0; j < s->e; j++) x[(tiny_idx)n_q + i * s->e + j] = (double)k[i * job->k->stride[0] + j];
        for (i = 0; i < s->m; i++)
            for (j = 0; j < s->f; j++) x[(tiny_idx)(n_q + n_k) + i * s->f + j] = (double)v[i * job->v->stride[0] + j];
        st = tllm_cascade_run(ctx, &c, data, &one);
        for (i = 0; i < s->p && !st; i++)
            for (j = 0; j < s->f; j++)
                o[i * job->o->stride[0] + j] = (float)x[(tiny_idx)(n_q + n_k + n_v) + i * s->f + j];
    }
    if (!st) {
        *ops = one;
        tinyi_fusemax_scale_ops(ops, (double)s->heads);
    }
    tiny_free(ctx, x);
    return st;
}

static tiny_status tinyi_fusemax_look(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v,
                                      const tiny_tensor *o, tinyi_fusemax_job *job)
{
    const tiny_tensor *all[4];
    static const char name[4][2] = { "q", "k", "v", "o" };
    ptrdiff_t low[4], end[4];
    int i;
    all[0] = q; all[1] = k; all[2] = v; all[3] = o;
    for (i = 0; i < 4; i++) {
        tiny_status st = all[i] ? tiny_tensor_check(all[i]) : TINY_E_ARGUMENT;
        if (st) return tinyi_fail(ctx, st, "fusemax: %s is missing, or its size overflows", name[i]);
        if (all[i]->dtype != TINY_F32)
            return tinyi_fail(ctx, TINY_E_DTYPE, "fusemax: %s is %s, it must be f32", name[i],
                              tiny_dtype_name(all[i]->dtype));
        if (all[i]->rank != 3 || (all[i]->dim[2] > 1 && all[i]->stride[2] != 1))
            return tinyi_fail(ctx, TINY_E_SHAPE, "fusemax: %s must have three axes, the last one contiguous",
                              name[i]);
        tiny_tensor_span(all[i], &low[i], &end[i]);
    }
    if (k->dim[0] != v->dim[0] || k->dim[1] != v->dim[1] || q->dim[2] != k->dim[2] || o->dim[0] != q->dim[0] ||
        o->dim[1] != q->dim[1] || o->dim[2] != v->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "fusemax: q, k, v and o must be (queries, heads, e), (keys, key heads, e), (keys, key heads, "
                          "f), (queries, heads, f)");
    if (k->dim[1] < 1 || q->dim[1] % k->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "fusemax: %td query heads are not a multiple of %td key heads", q->dim[1],
                          k->dim[1]);
    for (i = 0; i < 3; i++)
        if ((const char *)all[i]->data + low[i] < (const char *)o->data + end[3] &&
            (const char *)o->data + low[3] < (const char *)all[i]->data + end[i])
            return tinyi_fail(ctx, TINY_E_ALIAS, "fusemax: o overlaps %s", name[i]);
    job->q = q; job->k = k; job->v = v; job->o = o;
    job->s.e = q->dim[2]; job->s.f = v->dim[2]; job->s.m = k->dim[0]; job->s.p = q->dim[0]; job->s.heads = q->dim[1];
    job->group = q->dim[1] / k->dim[1];
    return TINY_OK;
}

static void tinyi_fusemax_gather(tllm_fusemax_counts *sum, const tllm_fusemax_counts *c)
{
    sum->ops.exps += c->ops.exps; sum->ops.multiplies += c->ops.multiplies; sum->ops.divides += c->ops.divides;
    sum->ops.adds += c->ops.adds; sum->ops.maxima += c->ops.maxima; sum->ops.rescales += c->ops.rescales;
    sum->read_q += c->read_q; sum->read_k += c->read_k; sum->read_v += c->read_v;
    sum->read_kept += c->read_kept; sum->written_kept += c->written_kept; sum->written_o += c->written_o;
}

TINY_API tiny_status tllm_fusemax(tiny_ctx *ctx, const tllm_fusemax_desc *desc, const tiny_tensor *q,
                                  const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *o,
                                  tllm_fusemax_counts *counts)
{
    const tllm_fusemax_desc plain = { 0, 0, 0, 0.0f, 0 }, *d = desc ? desc : &plain;
    tinyi_fusemax_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    memset(&job, 0, sizeof job);
    st = tinyi_fusemax_look(ctx, q, k, v, o, &job);
    if (st) return st;
    if (!(d->scale > -INFINITY && d->scale < INFINITY))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: scale %g must be finite", (double)d->scale);
    job.cascade = d->cascade;
    st = tinyi_fusemax_fit(ctx, d, &job.s, 0, &job.t);
    if (st) return st;
    job.scale = d->scale != 0.0f ? d->scale : (float)(1.0 / tinyi_sqrt64((double)job.s.e));
    if (counts) memset(counts, 0, sizeof *counts);
    if (ctx->target == TINY_TARGET_REFERENCE) {
        tllm_cascade_ops ops;
        st = tinyi_fusemax_ref(ctx, &job, &ops);
        ctx->ran_on = TINY_TARGET_REFERENCE;
        if (!st && counts) counts->ops = ops;
        return st;
    }
    if (d->cascade == TLLM_FUSEMAX_1_PASS && !d->p0 && !d->m0 && !counts) {
        tiny_attention_params p;
        memset(&p, 0, sizeof p);
        p.scale = job.scale;
        return tiny_attention(ctx, q, k, v, NULL, &p, o);
    }
    if (counts) {
        job.counts = (tllm_fusemax_counts *)tinyi_alloc(ctx, (size_t)ctx->n_threads, sizeof *job.counts);
        if (!job.counts) return tiny_ctx_status(ctx);
        memset(job.counts, 0, (size_t)ctx->n_threads * sizeof *job.counts);
    }
    st = tiny_parallel_loose(ctx, 0, 0, job.t.floats * sizeof(float), tinyi_fusemax_team, &job);
    for (i = 0; counts && !st && i < ctx->n_threads; i++) tinyi_fusemax_gather(counts, &job.counts[i]);
    if (counts && !st) counts->live_bytes = job.t.floats * sizeof(float);
    tiny_free(ctx, job.counts);
    return st;
}

/* ---- the mapping model */

TINY_API tllm_machine tllm_machine_of(const tiny_ctx *ctx, double hertz, double bytes_per_s)
{
    tllm_machine m;
    memset(&m, 0, sizeof m);
    if (!tinyi_ctx_check(ctx)) {
        const tiny_target t = ctx->target;
        const double lanes = t >= TINY_TARGET_AVX512 ? 16.0
                             : t == TINY_TARGET_AVX2 ? 8.0
                             : t >= TINY_TARGET_W128 ? 4.0
                                                     : 1.0;
        m.pe2d = lanes * 2.0 * ctx->n_threads;
        m.pe1d = 4.0 * ctx->n_threads;
        m.buffer_bytes = (double)(ctx->k->cache[2] ? ctx->k->cache[2] : (size_t)256 << 10);
    }
    m.edge = TINYI_FUSEMAX_M0;
    m.hertz = hertz > 0.0 ? hertz : 3e9;
    m.bytes_per_s = bytes_per_s;
    m.element_bytes = 4;
    m.serial = 1;
    return m;
}

static tllm_machine tinyi_fusemax_machine(const tllm_machine *given)
{
    tllm_machine m;
    memset(&m, 0, sizeof m);
    if (given) m = *given;
    if (!m.edge) m.edge = 256;
    if (m.pe2d == 0.0) m.pe2d = (double)m.edge * (double)m.edge;
    if (m.pe1d == 0.0) m.pe1d = (double)m.edge;
    if (m.buffer_bytes == 0.0) m.buffer_bytes = 16777216.0;
    if (m.hertz == 0.0) m.hertz = 940e6;
    if (!m.element_bytes) m.element_bytes = 2;
    return m;
}

/* Queries of a tile: P1 * edge, P1 the largest factor of P / edge for which queries, running maxima and sums, and
 * outputs fit together with one chunk of keys and values. 0: not even one. */
static tiny_idx tinyi_fusemax_queries(const tllm_machine *m, const tllm_fusemax_shape *s)
{
    const tiny_idx all = (s->p - 1) / m->edge + 1;
    const double e = m->edge, row = (double)s->e + 1.0 + 1.0 + (double)s->f,
                 left = m->buffer_bytes - e * 2.0 * (double)(s->e + s->f);
    tiny_idx p1, best = 0;
    for (p1 = 1; p1 <= all; p1++) if (all % p1 == 0 && (double)p1 * e * row * m->element_bytes <= left) best = p1;
    return best * m->edge;
}

TINY_REF_BEGIN
/* cycles of the Einsum that makes this tensor; 0 when the cascade has none */
static double tinyi_fusemax_cycles(const tllm_machine *m, const tllm_cascade *c, const char *tensor, double *on_2d)
{
    const int t = tllm_cascade_find(c, tensor);
    const tllm_einsum *e;
    double cycles;
    int rank;
    if (t < 0 || c->tensor[t].made_by < 0) return 0.0;
    e = &c->einsum[c->tensor[t].made_by];
    rank = c->split[0] >= 0 ? c->split[2] : -1;
    if (rank < 0) for (rank = 0; strcmp(c->rank[rank], "m"); rank++) {}
    cycles = tinyi_cascade_points(c, e->ranks) * (e->map == TLLM_EINSUM_EXP ? 7.0 : 1.0);
    if (!(e->ranks >> rank & 1)) return cycles / m->pe1d;
    *on_2d += cycles / m->pe2d;
    return cycles / m->pe2d;
}

static double tinyi_fusemax_side_by_side(const tllm_machine *m, const tllm_cascade *c, double *on_2d)
{
#define TINYI_CYCLES(tensor) tinyi_fusemax_cycles(m, c, tensor, on_2d)
    const double qk = TINYI_CYCLES("BQK") + TINYI_CYCLES("LM"),
                 out = TINYI_CYCLES("RD") + TINYI_CYCLES("RNV") + TINYI_CYCLES("AV"), rm = TINYI_CYCLES("RM");
    const double sln = TINYI_CYCLES("SLN") + TINYI_CYCLES("SLD"), prm = TINYI_CYCLES("PRM") + TINYI_CYCLES("SPD");
    const double slnv = TINYI_CYCLES("SLNV"), spnv = TINYI_CYCLES("SPNV");
#undef TINYI_CYCLES
    return TINYI_MAX(qk, out) + rm + TINYI_MAX(sln, prm) + TINYI_MAX(slnv, spnv);
}

TINY_API tiny_status tllm_fusemax_model(tiny_ctx *ctx, const tllm_machine *machine, const tllm_fusemax_shape *shape,
                                        tllm_fusemax_plan *plan)
{
    const tllm_machine m = tinyi_fusemax_machine(machine);
    tllm_fusemax_shape s;
    tllm_fusemax_desc d;
    tllm_fusemax_counts n;
    tllm_cascade c;
    double heads, on_2d = 0.0, cycles = 0.0, far_seconds;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (!shape || !plan)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: the shape or the result pointer is NULL");
    if (m.edge < 1 || !(m.pe2d > 0.0) || !(m.pe1d > 0.0) || !(m.buffer_bytes > 0.0 && m.buffer_bytes < 9e15) ||
        !(m.hertz > 0.0) || !(m.bytes_per_s >= 0.0) || m.element_bytes < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: the machine must have arrays, a buffer and a clock above 0");
    s = *shape;
    if (!s.heads) s.heads = 1;
    memset(&d, 0, sizeof d);
    d.cascade = plan->cascade;
    d.m0 = plan->m0 ? plan->m0 : m.edge;
    d.p0 = plan->p0;
    if (!d.p0 && s.p > 0 && s.e > 0 && s.f > 0) {
        d.p0 = tinyi_fusemax_queries(&m, &s);
        if (!d.p0)
            return tinyi_fail(
                ctx, TINY_E_WORKSPACE,
                "fusemax: a buffer of %.0f bytes is too small for a tile of %d queries with %td and %td numbers",
                m.buffer_bytes, m.edge, s.e, s.f);
    }
    /* as many floats in the buffer as the machine has elements in its own */
    d.buffer_bytes = (size_t)(m.buffer_bytes * 4.0 / m.element_bytes);
    st = tinyi_fusemax_predict(ctx, &d, &s, s.heads, !m.serial, &n);
    if (!st) st = tinyi_fusemax_parse(ctx, d.cascade, &s, d.m0, &c);
    if (st) return st;
    heads = (double)s.heads;
    if (!m.serial && d.cascade == TLLM_FUSEMAX_1_PASS) cycles = tinyi_fusemax_side_by_side(&m, &c, &on_2d);
    else for (i = 0; i < c.n_tensor; i++) cycles += tinyi_fusemax_cycles(&m, &c, c.tensor[i].name, &on_2d);
    /* keys transposed, once a tile of queries */
    if (m.serial) cycles += (double)((s.p - 1) / TINYI_MIN(d.p0, s.p) + 1) * (double)s.m * (double)s.e / m.pe1d;
    plan->p0 = TINYI_MIN(d.p0, s.p);
    plan->m0 = TINYI_MIN(d.m0, s.m);
    plan->cycles = heads * cycles;
    plan->use_2d = on_2d / cycles;
    plan->bytes = (n.read_q + n.read_k + n.read_v + n.read_kept + n.written_kept + n.written_o) * m.element_bytes;
    plan->seconds = plan->cycles / m.hertz;
    far_seconds = m.bytes_per_s > 0.0 ? plan->bytes / m.bytes_per_s : 0.0;
    if (far_seconds > plan->seconds) plan->seconds = far_seconds;
    return TINY_OK;
}
TINY_REF_END

TINY_API tiny_status tllm_fusemax_best(tiny_ctx *ctx, const tllm_machine *machine, const tllm_fusemax_shape *shape,
                                       tllm_fusemax_plan *plan)
{
    tiny_status st = tinyi_ctx_check(ctx), last = TINY_OK;
    tllm_fusemax_plan p;
    tiny_idx p0, m0;
    int cascade, found = 0;
    if (st) return st;
    if (!shape || !plan)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fusemax: the shape or the result pointer is NULL");
    for (cascade = 0; cascade < TLLM_FUSEMAX_CASCADES; cascade++)
        for (p0 = 4096; p0 >= 4; p0 /= 2)
            for (m0 = 4096; m0 >= 16; m0 /= 2) {
                memset(&p, 0, sizeof p);
                p.cascade = cascade;
                p.p0 = p0;
                p.m0 = m0;
                st = tllm_fusemax_model(ctx, machine, shape, &p);
                if (st == TINY_E_WORKSPACE) last = st;
                else if (st) return st;
                if (st ||
                    (found && (p.seconds > plan->seconds || (p.seconds >= plan->seconds && p.bytes >= plan->bytes))))
                    continue;
                *plan = p;
                found = 1;
            }
    return found ? TINY_OK : last;
}
