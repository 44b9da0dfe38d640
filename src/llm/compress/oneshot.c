/* src/llm/compress/oneshot.c - one-shot pruning: magnitude, Wanda, SparseGPT
 *
 * Papers   E. Frantar, D. Alistarh, "SparseGPT: Massive Language Models Can Be Accurately Pruned in One-Shot", 2023
 *          (arXiv 2301.00774), algorithm 1; M. Sun et al., "A Simple and Effective Pruning Approach for Large Language
 *          Models", 2023 (arXiv 2306.11695), eq. 1; magnitude as both compare with it
 * Formula  scores: magnitude |w|; Wanda |w_rc| sqrt(H_cc); SparseGPT w_rc^2 / U_cc^2 with (H + damp mean(diag) I)^-1 =
 *          U^T U. The smallest become 0: of the matrix, of a row, of a block of columns after the corrections so far;
 *          or `zeros` of each `of` neighbours of a row.
 *          SparseGPT then corrects: e_c = (w_c - w'_c) / U_cc, w_j -= e_c U_cj for j > c (llm/round/columns.c)
 * Cost     sorts of rows n numbers; SparseGPT also rows n^2 / 2 multiply-adds in float, n^3 in double for U
 * Error    SparseGPT: see columns.c; where two scores are close, another order of sums may prune the other number
 * Left out shares that differ from layer to layer; pruning and rounding in one pass */
#include <string.h>
#include "core/state_inside.h"
#include "llm/block/format.h"
#include "llm/compress/oneshot.h"
#include "llm/compress/prune.h"
#include "llm/round/columns_inside.h"
#include "llm/round/gptq.h"
#include "llm/round/reading_inside.h"
#include "math/elem.h"
#include "math/matmul.h"
#include "math/sort.h"

typedef struct tinyi_oneshot {
    tllm_oneshot_desc d;
    tiny_idx rows, n;
    /* SparseGPT: of the block that is swept */
    const float *u;                         /* (wide, wide) */
    float *to;                              /* (rows, n): what stays */
    unsigned char *gone;                    /* (rows, wide) */
    tiny_idx i0, wide;
} tinyi_oneshot;

/* ---- which numbers ----------------------------------------------------------------------------------------------- */

/* gone[order of the smallest of n scores] = 1, so many of them */
static void tinyi_oneshot_least(const float *score, tiny_idx n, int zeros, unsigned char *gone)
{
    tiny_idx i;
    int k;
    for (k = 0; k < zeros; k++) {
        tiny_idx best = -1;
        for (i = 0; i < n; i++)
            if (!gone[i] && (best < 0 || score[i] < score[best])) best = i;
        gone[best] = 1;
    }
}

static tiny_idx tinyi_oneshot_count(double share, double n) { return (tiny_idx)(share * n + 0.5); }

/* the smallest of a list of scores, the first of equal ones first */
static tiny_status tinyi_oneshot_share(tiny_ctx *ctx, const float *score, tiny_idx n, tiny_idx count,
                                       unsigned char *gone)
{
    uint32_t *order = (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *order);
    tiny_idx i;
    tiny_status st = order ? tiny_argsort_f32(ctx, score, order, (size_t)n, 0) : tiny_ctx_status(ctx);
    memset(gone, 0, (size_t)n);
    for (i = 0; i < count && !st; i++) gone[order[i]] = 1;
    tiny_free(ctx, order);
    return st;
}

/* magnitude and Wanda: norm (n) or NULL */
static tiny_status tinyi_oneshot_plain(tiny_ctx *ctx, const tinyi_oneshot *p, float *w, const float *norm)
{
    const tiny_idx all = p->rows * p->n, of = p->d.of;
    const tiny_tensor t = tiny_tensor_2d(w, TINY_F32, p->rows, p->n);
    float *score;
    unsigned char *gone;
    tiny_idx i, k;
    tiny_status st = TINY_OK;
    if (norm && !of) return tllm_csl_prune(ctx, &t, norm, p->d.share);
    score = (float *)tinyi_alloc(ctx, (size_t)all, sizeof *score);
    gone = score ? (unsigned char *)tinyi_alloc(ctx, (size_t)all, 1) : NULL;
    if (!gone) st = tiny_ctx_status(ctx);
    for (i = 0; i < all && !st; i++) score[i] = (w[i] < 0.0f ? -w[i] : w[i]) * (norm ? norm[i % p->n] : 1.0f);
    if (!st && !of) st = tinyi_oneshot_share(ctx, score, all, tinyi_oneshot_count(p->d.share, (double)all), gone);
    else if (!st) {
        memset(gone, 0, (size_t)all);
        for (k = 0; k < all; k += of) tinyi_oneshot_least(score + k, of, p->d.zeros, gone + k);
    }
    for (i = 0; i < all && !st; i++)
        if (gone[i]) w[i] = 0.0f;
    tiny_free(ctx, gone);
    tiny_free(ctx, score);
    return st;
}

/* ---- SparseGPT --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static float tinyi_oneshot_score(float w, float u)
{
    const double v = (double)w / (double)u;
    return (float)TINYI_MIN(v * v, 3e38);
}

/* groups of neighbours, when the first of them is next */
static void tinyi_oneshot_begin(void *user, tiny_idx i, tiny_idx n, tiny_idx row0, tiny_idx rows, const float *t,
                                tiny_idx column, tiny_idx row)
{
    const tinyi_oneshot *p = (const tinyi_oneshot *)user;
    float score[256];
    tiny_idx r, k;
    for (r = 0; r < rows; r++) {
        unsigned char *gone = p->gone + (row0 + r) * p->wide + i;
        for (k = 0; k < n; k++)
            score[k] = tinyi_oneshot_score(t[k * column + r * row], p->u[(i + k) * p->wide + i + k]);
        memset(gone, 0, (size_t)n);
        tinyi_oneshot_least(score, n, p->d.zeros, gone);
    }
}

static void tinyi_oneshot_code(void *user, tiny_idx i, tiny_idx row0, tiny_idx rows, const float *x, float *q)
{
    const tinyi_oneshot *p = (const tinyi_oneshot *)user;
    tiny_idx r;
    for (r = 0; r < rows; r++) {
        q[r] = p->gone[(row0 + r) * p->wide + i] ? 0.0f : x[r];
        p->to[(row0 + r) * p->n + p->i0 + i] = q[r];
    }
}
TINY_REF_END

/* block of columns i0 .. i0 + wide of w, which becomes errors; part, square: scratch (rows, block), (block, block) */
static tiny_status tinyi_oneshot_block(tiny_ctx *ctx, tinyi_oneshot *p, float *w, const float *u, float *part,
                                       float *square)
{
    const tiny_idx n = p->n, wide = p->wide;
    tinyi_columns c;
    float *score;
    tiny_idx r, i;
    tiny_status st = TINY_OK;
    if (p->i0) {                            /* the errors of all columns before */
        tiny_tensor e = tiny_tensor_2d(w, TINY_F32, p->rows, p->i0),
                    v = tiny_tensor_2d((void *)(uintptr_t)(u + p->i0), TINY_F32, p->i0, wide);
        const tiny_tensor y = tiny_tensor_2d(part, TINY_F32, p->rows, wide);
        e.stride[0] = v.stride[0] = n;
        st = tiny_matmul(ctx, &e, &v, NULL, TINY_ACT_NONE, &y);
        if (st) return st;
    } else memset(part, 0, (size_t)(p->rows * wide) * sizeof *part);
    for (r = 0; r < p->rows; r++)
        for (i = 0; i < wide; i++) part[r * wide + i] = w[r * n + p->i0 + i] - part[r * wide + i];
    for (r = 0; r < wide; r++) memcpy(square + r * wide, u + (p->i0 + r) * n + p->i0, (size_t)wide * sizeof *square);
    p->u = square;
    if (!p->d.of) {
        score = (float *)tinyi_alloc(ctx, (size_t)(p->rows * wide), sizeof *score);
        if (!score) return tiny_ctx_status(ctx);
        for (r = 0; r < p->rows; r++)
            for (i = 0; i < wide; i++)
                score[r * wide + i] = tinyi_oneshot_score(part[r * wide + i], square[i * wide + i]);
        st = tinyi_oneshot_share(ctx, score, p->rows * wide,
                                 tinyi_oneshot_count(p->d.share, (double)p->rows * (double)wide), p->gone);
        tiny_free(ctx, score);
    }
    memset(&c, 0, sizeof c);
    c.w = part;
    c.u = square;
    c.rows = p->rows;
    c.n = c.block = wide;
    c.unit = 1;
    c.group = p->d.of;
    c.begin = p->d.of ? tinyi_oneshot_begin : NULL;
    c.code = tinyi_oneshot_code;
    c.user = p;
    if (!st) st = tinyi_columns_run(ctx, &c, NULL);
    for (r = 0; r < p->rows && !st; r++)
        memcpy(w + r * n + p->i0, part + r * wide, (size_t)wide * sizeof *w);
    return st;
}

static tiny_status tinyi_oneshot_sweep(tiny_ctx *ctx, tinyi_oneshot *p, const float *diagonal, float *w,
                                       const tiny_tensor *h)
{
    const tiny_idx rows = p->rows, n = p->n, block = TINYI_MIN(p->d.block, n);
    float *e = (float *)tinyi_alloc(ctx, (size_t)rows, (size_t)n * sizeof *e),
          *u = e ? (float *)tinyi_alloc(ctx, (size_t)n, (size_t)n * sizeof *u) : NULL,
          *part = u ? (float *)tinyi_alloc(ctx, (size_t)(rows + block), (size_t)block * sizeof *part) : NULL;
    tinyi_factor f;
    tiny_idx i, r;
    tiny_status st = TINY_OK;
    p->gone = part ? (unsigned char *)tinyi_alloc(ctx, (size_t)rows, (size_t)block) : NULL;
    if (!p->gone) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_factor_of(ctx, h, NULL, (double)p->d.damp, u, &f);
    for (r = 0; r < rows && !st; r++)       /* a dead input needs no weights */
        for (i = 0; i < n; i++) e[r * n + i] = diagonal[i] > 0.0f ? w[r * n + i] : 0.0f;
    p->to = w;
    for (p->i0 = 0; p->i0 < n && !st; p->i0 += p->wide) {
        p->wide = TINYI_MIN(block, n - p->i0);
        st = tinyi_oneshot_block(ctx, p, e, u, part, part + rows * block);
    }
    tiny_free(ctx, p->gone);
    tiny_free(ctx, part);
    tiny_free(ctx, u);
    tiny_free(ctx, e);
    return st;
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_oneshot_desc(tiny_ctx *ctx, const tllm_oneshot_desc *desc, tllm_oneshot_desc *d)
{
    memset(d, 0, sizeof *d);
    if (desc) *d = *desc;
    if (d->share == 0.0) d->share = 0.5;
    if (d->damp == 0.0f) d->damp = 0.01f;
    if (!d->block) d->block = 128;
    if (d->by < 0 || d->by >= TLLM_ONESHOT_WAYS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: way %d: the ways are 0 to %d", d->by, TLLM_ONESHOT_WAYS - 1);
    if (!(d->share > 0.0 && d->share < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: a share of %g: it must be above 0 and below 1", d->share);
    if (d->of < 0 || d->of > 256 || d->zeros < 0 || (d->of && (d->zeros < 1 || d->zeros >= d->of)) ||
        (!d->of && d->zeros))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "oneshot: %d zeros of %d neighbours: at least one zero and one number of at most 256",
                          d->zeros, d->of);
    if (!(d->damp > 0.0f && d->damp <= 1000.0f) || d->block < 1 || d->window < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "oneshot: damping by %g of the mean diagonal, blocks of %td, windows of %td: none can be "
                          "below 0",
                          (double)d->damp, d->block, d->window);
    if (d->of && d->block % d->of) d->block += d->of - d->block % d->of;
    return TINY_OK;
}

TINY_API tiny_status tllm_oneshot(tiny_ctx *ctx, const tllm_oneshot_desc *desc, float *w, tiny_idx rows, tiny_idx n,
                                  const tiny_tensor *h, tllm_oneshot_about *about)
{
    tinyi_oneshot p;
    tllm_oneshot_about a;
    float *norm = NULL, *was = NULL;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&p, 0, sizeof p);
    memset(&a, 0, sizeof a);
    st = tinyi_oneshot_desc(ctx, desc, &p.d);
    if (st) return st;
    if (!w || rows < 1 || n < 1 || n > INT32_MAX || rows > INT32_MAX / n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "oneshot: a matrix of %td rows of %td numbers: at least one number, and at most 2^31 - 1",
                          rows, n);
    if (!h && p.d.by != TLLM_ONESHOT_MAGNITUDE)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: the products of the inputs are NULL");
    if (p.d.of && n % p.d.of)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: rows of %td numbers are not whole groups of %d", n, p.d.of);
    for (i = 0; i < rows * n; i++)
        if (!(w[i] - w[i] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "oneshot: the weight in row %td, input %td is %g", i / n, i % n,
                              (double)w[i]);
    p.rows = rows;
    p.n = n;
    if (h) {
        norm = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *norm);
        was = norm ? (float *)tinyi_alloc(ctx, (size_t)(rows * n), sizeof *was) : NULL;
        st = was ? tinyi_factor_diagonal(ctx, h, n, norm) : tiny_ctx_status(ctx);
        if (!st) memcpy(was, w, (size_t)(rows * n) * sizeof *was);
    }
    if (!st && p.d.by == TLLM_ONESHOT_SPARSEGPT) st = tinyi_oneshot_sweep(ctx, &p, norm, w, h);
    else if (!st) {
        for (i = 0; norm && i < n; i++) norm[i] = tinyi_sqrtf(norm[i]);
        st = tinyi_oneshot_plain(ctx, &p, w, p.d.by == TLLM_ONESHOT_WANDA ? norm : NULL);
    }
    a.numbers = (uint64_t)(rows * n);
    for (i = 0; i < rows * n && !st; i++) a.zeros += w[i] == 0.0f;
    if (!st && h && about) st = tllm_gptq_loss(ctx, was, w, rows, n, h, &a.loss);
    tiny_free(ctx, was);
    tiny_free(ctx, norm);
    if (about && !st) *about = a;
    return st;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_oneshot_model {
    tiny_ctx *ctx;
    tllm_oneshot_desc d;
    tinyi_reading read;
    tllm_oneshot_tensor *list;
} tinyi_oneshot_model;

static tiny_status tinyi_oneshot_one(void *user, size_t k)
{
    tinyi_oneshot_model *m = (tinyi_oneshot_model *)user;
    tllm_oneshot_tensor *q = &m->list[k];
    const tiny_idx n = (tiny_idx)q->t->dim[0], rows = (tiny_idx)q->t->dim[1], matrices = tinyi_reading_matrices(q->t);
    tiny_idx i;
    tiny_status st = TINY_OK;
    for (i = 0; i < matrices && !tllm_watch_of(m->read.watch, q->t, i); i++) {}
    q->found = i < matrices;
    for (i = 0; q->found && !st && i < matrices; i++) {
        const tllm_calib *c = tllm_watch_of(m->read.watch, q->t, i);
        const tiny_tensor h = tllm_calib_products(c);
        tllm_oneshot_about a;
        tllm_oneshot_desc d = m->d;
        if (!c) d.by = TLLM_ONESHOT_MAGNITUDE;              /* an expert that no token came to */
        st = tllm_oneshot(m->ctx, &d, q->to + i * rows * n, rows, n, c ? &h : NULL, &a);
        if (st) break;
        q->about.zeros += a.zeros;
        q->about.numbers += a.numbers;
        q->about.loss += a.loss;
    }
    if (st) q->found = 0;
    return st || !q->found ? st : tllm_watch_replace(m->read.watch, q->t, TLLM_FORMAT_F32, q->to);
}

TINY_API tiny_status tllm_oneshot_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_oneshot_desc *desc,
                                        const int32_t *token, tiny_idx n_token, tllm_oneshot_tensor *list, size_t n)
{
    tinyi_oneshot_model m;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&m, 0, sizeof m);
    m.ctx = ctx;
    m.list = list;
    if (!file || !token || n_token < 1 || !list || !n || n > UINT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "oneshot: a file, at least one token of text and at least one tensor are needed");
    st = tinyi_oneshot_desc(ctx, desc, &m.d);
    for (i = 0; i < n && !st; i++) {
        const tllm_gguf_tensor *t = list[i].t;
        if (!t || !list[i].to)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: entry %zu of the list has no tensor or no result pointer",
                              i);
        if (t->rank < 2 || !tinyi_reading_matrices(t) || t->dim[0] > INT32_MAX || t->dim[1] > INT32_MAX / t->dim[0])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "oneshot: %.*s is not a readable matrix",
                              (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at);
    }
    m.read.what = "oneshot";
    m.read.ctx = ctx;
    m.read.token = token;
    m.read.n_token = n_token;
    m.read.window = m.d.window;
    if (!st) st = tinyi_reading_open(&m.read, file);
    for (i = 0; i < n && !st; i++) {
        const tllm_gguf_tensor *t = list[i].t;
        tllm_format_of(t->type)->unpack(t->data, list[i].to,
                                        (size_t)t->dim[0] * (size_t)t->dim[1] * (size_t)tinyi_reading_matrices(t));
        list[i].found = 0;
        memset(&list[i].about, 0, sizeof list[i].about);
    }
    if (!st) st = tinyi_reading_passes(&m.read, &list->t, sizeof *list, n, 0, 1, tinyi_oneshot_one, &m);
    tinyi_reading_close(&m.read);
    return st;
}
