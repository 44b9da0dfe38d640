/* src/llm/round/gptq.c - GPTQ
 *
 * Paper    E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh, "GPTQ: accurate post-training quantization for generative
 *          pre-trained transformers", 2022 (arXiv 2210.17323), algorithm 1; act-order and static groups as in the
 *          authors' program
 * Formula  H_ii = 0: the input is dead, its weights become 0. H += damp mean(diag H) I; U and the loop over columns:
 *          llm/round/columns.c. Scales of a group are fitted to the weights when its first column is next; with
 *          act_order or static_groups they are fitted in advance.
 *          No Cholesky factor: damp doubles, at most ten times; then U = I, which rounds to nearest and is reported.
 * Fast     matrix products propagate the errors, see columns.c; a code of a column is a division and a rounding
 * Cost     rows n^2 / 2 multiply-adds in float, n^3 in double for U; a copy of w, n^2 floats and n^2 doubles of memory,
 *          for blocks a byte per weight
 * Error    see columns.c
 * Left out the order of layers, see llm/round/gptq_model.h; a stored permutation: with act_order scales are fitted in
 *          advance */
#include <string.h>
#include "core/state_inside.h"
#include "core/half_inside.h"
#include "llm/round/gptq.h"
#include "llm/round/columns_inside.h"
#include "llm/round/grid_inside.h"
#include "math/linalg_block_inside.h"
#include "math/sort.h"

typedef struct tinyi_gptq {
    tllm_gptq_desc d;
    tllm_plain_sizes size;
    tinyi_grid grid;                        /* blocks; format NULL: plain codes */
    tiny_idx rows, n, group, groups;        /* of a scale: inputs; in a row */
    int top;                                /* plain: the largest code */
    const float *w;
    const uint32_t *order;                  /* or NULL */
    float *importance;                      /* (n): the diagonal over its mean, in the order of the inputs */
    float *copy, *u;
    /* (groups, rows): of a row, side by side; base: zero, or the m of a block */
    float *scale, *base;
    uint8_t *code;                          /* (rows, n), in the order of the inputs */
    unsigned char *block;                   /* rows of blocks */
    size_t row_bytes;
    const tllm_plain *q;
    tiny_idx strange;                       /* 1 + the first row whose scale could not be had */
} tinyi_gptq;

/* ---- scales ------------------------------------------------------------------------------------------------------ */

/* group g of a row: n numbers, step apart */
static void tinyi_gptq_fit_one(tinyi_gptq *p, tiny_idx row, tiny_idx g, const float *w, tiny_idx n, tiny_idx step)
{
    const size_t at = (size_t)row * (size_t)p->groups + (size_t)g, to = (size_t)g * (size_t)p->rows + (size_t)row;
    float x[256];
    tiny_idx i;
    int k;
    if (!p->grid.format) {
        uint16_t scale = 0x3c00u;
        uint8_t zero = 0;
        if (!tllm_plain_fit(&p->d.grid, w, n, step, p->importance + g * p->group, &scale, &zero))
            tinyi_plain_first(&p->strange, 1 + row);
        p->q->scale[at] = scale;
        p->q->zero[at] = zero;
        p->scale[to] = tinyi_f16_to_f32(scale);
        p->base[to] = (float)zero;
        return;
    }
    for (i = 0; i < n; i++) x[i] = w[i * step];
    g = g * p->grid.size / p->grid.format->values;          /* the block that begins there */
    {
        unsigned char *b = p->block + (size_t)row * p->row_bytes + (size_t)g * (size_t)p->grid.format->bytes;
        const int parts = p->grid.format->values / p->grid.size;
        p->grid.format->pack(x, b, (size_t)p->grid.format->values, p->importance + g * p->grid.format->values);
        for (k = 0; k < parts; k++)
            tinyi_grid_scale(&p->grid, b, k, p->scale + (size_t)(g * parts + k) * (size_t)p->rows + (size_t)row,
                             p->base + (size_t)(g * parts + k) * (size_t)p->rows + (size_t)row);
    }
}

static void tinyi_gptq_begin(void *user, tiny_idx i, tiny_idx n, tiny_idx row0, tiny_idx rows, const float *t,
                             tiny_idx column, tiny_idx row)
{
    tinyi_gptq *p = (tinyi_gptq *)user;
    tiny_idx r;
    for (r = 0; r < rows; r++) tinyi_gptq_fit_one(p, row0 + r, i / p->group, t + r * row, n, column);
}

/* all scales beforehand; dead inputs count as the 0 that they become */
static void tinyi_gptq_fit_team(tiny_team *team, void *arg)
{
    tinyi_gptq *p = (tinyi_gptq *)arg;
    const tiny_idx step = p->grid.format ? p->grid.format->values : p->group;
    float *x = (float *)team->own;
    tiny_idx r, r1, i, k;
    while (tiny_take(team, p->rows, 1 + 16384 / p->n, &r, &r1))
        for (; r < r1; r++)
            for (i = 0; i < p->n; i += step) {
                const tiny_idx n = TINYI_MIN(step, p->n - i);
                for (k = 0; k < n; k++) x[k] = p->importance[i + k] > 0.0f ? p->w[r * p->n + i + k] : 0.0f;
                tinyi_gptq_fit_one(p, r, i / p->group, x, n, 1);
            }
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_gptq_code(void *user, tiny_idx i, tiny_idx row0, tiny_idx rows, const float *x, float *q)
{
    const tinyi_gptq *p = (const tinyi_gptq *)user;
    const tiny_idx input = p->order ? (tiny_idx)p->order[i] : i, g = input / p->group;
    const float *scale = p->scale + (size_t)g * (size_t)p->rows + (size_t)row0,
                *base = p->base + (size_t)g * (size_t)p->rows + (size_t)row0, top = (float)p->top;
    uint8_t *code = p->code + row0 * p->n + input;
    float level[64];
    tiny_idx r;
    if (p->grid.format) {
        const float low = (float)p->grid.low, high = (float)p->grid.high;
        for (r = 0; r < rows; r++) {        /* a scale of 0 has no codes: all of them are the base */
            float v = scale[r] != 0.0f ? (x[r] - base[r]) / scale[r] : 0.0f;
            v = v > low ? v < high ? v : high : low;
            v = (v + 12582912.0f) - 12582912.0f;
            q[r] = scale[r] * v + base[r];
            level[r] = v - low;
        }
    } else
        for (r = 0; r < rows; r++) {
            const float low = -base[r], high = top - base[r];
            float v = x[r] / scale[r];
            v = v > low ? v < high ? v : high : low;
            v = (v + 12582912.0f) - 12582912.0f;
            q[r] = scale[r] * v;
            level[r] = v - low;
        }
    for (r = 0; r < rows; r++) code[r * p->n] = (uint8_t)(int)level[r];
}
TINY_REF_END

static void tinyi_gptq_put_team(tiny_team *team, void *arg)
{
    tinyi_gptq *p = (tinyi_gptq *)arg;
    const tiny_idx values = p->grid.format->values;
    tiny_idx r, r1, i;
    while (tiny_take(team, p->rows, 1 + 16384 / p->n, &r, &r1))
        for (; r < r1; r++)
            for (i = 0; i < p->n; i += values)
                tinyi_grid_put(&p->grid,
                               p->block + (size_t)r * p->row_bytes +
                                   (size_t)(i / values) * (size_t)p->grid.format->bytes,
                               p->code + r * p->n + i);
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

/* columns of w in their order, dead ones 0 */
static void tinyi_gptq_copy_team(tiny_team *team, void *arg)
{
    tinyi_gptq *p = (tinyi_gptq *)arg;
    tiny_idx r, r1, i;
    while (tiny_take(team, p->rows, 1 + 16384 / p->n, &r, &r1))
        for (; r < r1; r++)
            for (i = 0; i < p->n; i++) {
                const tiny_idx o = p->order ? (tiny_idx)p->order[i] : i;
                p->copy[r * p->n + i] = p->importance[o] > 0.0f ? p->w[r * p->n + o] : 0.0f;
            }
}

static tiny_status tinyi_gptq_check(tiny_ctx *ctx, tinyi_gptq *p, const tllm_gptq_desc *desc, const float *w,
                                    tiny_idx rows, tiny_idx n)
{
    tllm_plain_desc sizes;
    tiny_idx r, at;
    tiny_status st;
    memset(&sizes, 0, sizeof sizes);
    if (desc) p->d = *desc;
    p->d.grid = tinyi_plain_whole(&p->d.grid);
    if (p->d.damp == 0.0f) p->d.damp = 0.01f;
    if (!p->d.block) p->d.block = 128;
    st = tllm_plain_size(ctx, p->grid.format ? &sizes : &p->d.grid, rows, n, &p->size);
    if (st) return st;
    if (!(p->d.damp > 0.0f && p->d.damp <= 1000.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: damping by %g of the mean diagonal; above 0 and at most 1000",
                          (double)p->d.damp);
    if (p->d.block < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: blocks of %td columns; at least 1 is needed", p->d.block);
    if (!w) return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: the weights are NULL");
    if ((size_t)n > (size_t)TINY_IDX_MAX / sizeof(double) / (size_t)n || n > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "gptq: products of %td inputs are more than this machine can address",
                          n);
    for (r = 0; r < rows; r++)
        if ((at = tinyi_plain_strange(w + r * n, n)) < n)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "gptq: the weight in row %td, input %td is %g", r, at,
                              (double)w[r * n + at]);
    p->w = w;
    p->rows = rows;
    p->n = n;
    return TINY_OK;
}

/* importance, order and U, then the columns */
static tiny_status tinyi_gptq_layer(tiny_ctx *ctx, tinyi_gptq *p, const tiny_tensor *h, uint32_t *order,
                                    tllm_gptq_about *about)
{
    /* inputs that are fitted together */
    const tiny_idx whole = p->grid.format ? p->grid.format->values : p->group;
    const int beforehand = p->d.act_order || p->d.static_groups || p->group >= p->n;
    tinyi_columns c;
    tinyi_factor f;
    tllm_gptq_about a;
    double loss = 0.0;
    tiny_status st = tinyi_factor_diagonal(ctx, h, p->n, p->importance);
    memset(&c, 0, sizeof c);
    memset(&a, 0, sizeof a);
    if (!st && p->d.act_order) {
        st = tiny_argsort_f32(ctx, p->importance, order, (size_t)p->n, TINY_SORT_DESCENDING);
        p->order = order;
    }
    if (!st) st = tinyi_factor_of(ctx, h, p->order, (double)p->d.damp, p->u, &f);
    if (!st) st = tiny_parallel_loose(ctx, p->size.codes < 16384 ? 1 : 0, 0, 0, tinyi_gptq_copy_team, p);
    if (!st && p->d.grid.group == TLLM_PLAIN_TENSOR && !p->grid.format) {
        tiny_idx r;
        tllm_plain_desc one = p->d.grid;
        one.clip = 0;
        if (!tllm_plain_fit(&one, p->copy, p->rows * p->n, 1, NULL, p->q->scale, p->q->zero)) {
            for (r = 0;
                 r + 1 < p->rows && tllm_plain_fit(&one, p->copy + r * p->n, p->n, 1, NULL, p->q->scale, p->q->zero);
                 r++) {}
            p->strange = 1 + r;
        }
        for (r = 0; r < p->rows && !p->strange; r++) {
            p->scale[r] = tinyi_f16_to_f32(p->q->scale[0]);
            p->base[r] = (float)p->q->zero[0];
        }
    } else if (!st && beforehand)
        st = tiny_parallel_loose(ctx, p->size.codes < 16384 ? 1 : 0, 0, (size_t)whole * sizeof(float),
                                 tinyi_gptq_fit_team, p);
    c.w = p->copy;
    c.u = p->u;
    c.rows = p->rows;
    c.n = p->n;
    c.block = p->d.block;
    c.unit = 1;
    c.group = beforehand ? 0 : whole;
    c.begin = beforehand ? NULL : tinyi_gptq_begin;
    c.code = tinyi_gptq_code;
    c.user = p;
    if (!st && !p->strange) st = tinyi_columns_run(ctx, &c, &loss);
    if (!st && p->strange)
        st = tinyi_fail(ctx, TINY_E_NUMERIC,
                        "gptq: row %td: a group of its weights needs a scale above 65504, the largest half, in %d bits",
                        p->strange - 1, p->d.grid.bits);
    if (!st && p->grid.format)
        st = tiny_parallel_loose(ctx, p->size.codes < 16384 ? 1 : 0, 0, 0, tinyi_gptq_put_team, p);
    if (st || !about) return st;
    a.loss = f.identity ? loss : loss * f.mean;
    a.damp = f.damp;
    a.doubled = f.doubled;
    a.rounded = f.identity;
    a.dead = f.dead;
    *about = a;
    return TINY_OK;
}

static tiny_status tinyi_gptq_run(tiny_ctx *ctx, tinyi_gptq *p, const tiny_tensor *h, tllm_gptq_about *about)
{
    const size_t n = (size_t)p->n, rows = (size_t)p->rows;
    uint32_t *order = NULL;
    tiny_status st;
    p->importance = (float *)tinyi_alloc(ctx, n, sizeof(float));
    if (p->importance) p->copy = (float *)tinyi_alloc(ctx, rows * n, sizeof(float));
    if (p->copy) p->u = (float *)tinyi_alloc(ctx, n * n, sizeof(float));
    if (p->u) p->scale = (float *)tinyi_alloc(ctx, rows * (size_t)p->groups, sizeof(float));
    if (p->scale) p->base = (float *)tinyi_alloc(ctx, rows * (size_t)p->groups, sizeof(float));
    if (p->base && p->grid.format) p->code = (uint8_t *)tinyi_alloc(ctx, rows * n, 1);
    if (p->base && p->code && p->d.act_order) order = (uint32_t *)tinyi_alloc(ctx, n, sizeof *order);
    st = p->base && p->code && (order || !p->d.act_order) ? tinyi_gptq_layer(ctx, p, h, order, about)
                                                          : tiny_ctx_status(ctx);
    tiny_free(ctx, order);
    if (p->grid.format) tiny_free(ctx, p->code);
    tiny_free(ctx, p->base);
    tiny_free(ctx, p->scale);
    tiny_free(ctx, p->u);
    tiny_free(ctx, p->copy);
    tiny_free(ctx, p->importance);
    return st;
}

TINY_API tiny_status tllm_gptq(tiny_ctx *ctx, const tllm_gptq_desc *desc, const float *w, tiny_idx rows, tiny_idx n,
                               const tiny_tensor *h, const tllm_plain *q, tllm_gptq_about *about)
{
    tinyi_gptq p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&p, 0, sizeof p);
    st = tinyi_gptq_check(ctx, &p, desc, w, rows, n);
    if (st) return st;
    if (!q || !q->code || !q->scale || !q->zero)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gptq: codes, scales and zeros are needed, but one is NULL");
    if (p.d.grid.group == TLLM_PLAIN_TENSOR && p.d.grid.clip)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "gptq: a search of ranges needs a scale for a row or a group, not one for the tensor");
    p.group = p.size.group;
    p.groups = p.size.groups;
    p.top = (1 << p.d.grid.bits) - 1;
    p.code = q->code;
    p.q = q;
    return tinyi_gptq_run(ctx, &p, h, about);
}

TINY_API int tllm_gptq_has(int format)
{
    tinyi_grid g;
    return tinyi_grid_of(format, &g);
}

TINY_API tiny_status tllm_gptq_blocks(tiny_ctx *ctx, const tllm_gptq_desc *desc, int format, const float *w,
                                      tiny_idx rows, tiny_idx n, const tiny_tensor *h, void *to, tllm_gptq_about *about)
{
    const tllm_format *f = tllm_format_of(format);
    tinyi_gptq p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&p, 0, sizeof p);
    if (!tinyi_grid_of(format, &p.grid))
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "gptq: %s (format %d) is not a grid of whole steps under a scale; Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 "
            "and Q2_K to Q6_K are",
            f ? f->name : "no such format", format);
    st = tinyi_gptq_check(ctx, &p, desc, w, rows, n);
    if (st) return st;
    p.row_bytes = tllm_format_bytes(f, (uint64_t)n);
    if (!p.row_bytes)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: rows of %td numbers are not whole blocks of %s, which has %d", n,
                          f->name, f->values);
    if (!to) return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: the result pointer is NULL");
    p.group = p.grid.size;
    p.groups = n / p.grid.size;
    p.block = (unsigned char *)to;
    return tinyi_gptq_run(ctx, &p, h, about);
}

TINY_REF_BEGIN
TINY_API tiny_status tllm_gptq_triangle(tiny_ctx *ctx, const tiny_tensor *h, float damp, float *u)
{
    tinyi_factor f;
    float *diagonal;
    tiny_idx n, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    n = h && h->rank == 2 ? h->dim[0] : 0;
    if (!u || n < 1 || n > TINY_IDX_MAX / (tiny_idx)sizeof(double) / n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gptq: products of %td inputs and a result pointer are needed", n);
    if (damp == 0.0f) damp = 0.01f;
    if (!(damp > 0.0f && damp <= 1000.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: damping by %g of the mean diagonal; above 0 and at most 1000",
                          (double)damp);
    diagonal = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *diagonal);
    if (!diagonal) return tiny_ctx_status(ctx);
    st = tinyi_factor_diagonal(ctx, h, n, diagonal);
    tiny_free(ctx, diagonal);
    if (!st) st = tinyi_factor_of(ctx, h, NULL, (double)damp, u, &f);
    if (!st && f.identity)
        st = tinyi_fail(ctx, TINY_E_NUMERIC,
                        "gptq: h is not positive definite, even with %g of its mean diagonal added", f.damp);
    for (i = 0; !st && i < n * n; i++) u[i] = (float)((double)u[i] / tinyi_sqrt64(f.mean));
    return st;
}
TINY_REF_END

/* ---- what is lost ------------------------------------------------------------------------------------------------ */

#define TINYI_GPTQ_LOSS_ROWS 128
typedef struct tinyi_gptq_loss_job {
    tinyi_la_run run;
    tinyi_la_view h;
    const float *w, *v;
    /* rows of the difference; h above the diagonal, half of it on it; their product */
    double *d, *s, *y;
    tiny_idx rows, n;
    size_t ld;
    double loss;
} tinyi_gptq_loss_job;

TINY_REF_BEGIN
static void tinyi_gptq_loss_rows(tinyi_gptq_loss_job *j, tiny_idx row0, tiny_idx rows)
{
    tiny_idx r, i;
    for (r = 0; r < rows; r++)
        for (i = 0; i < j->n; i++) {
            const size_t at = (size_t)((row0 + r) * j->n + i);
            j->d[(size_t)r * j->ld + (size_t)i] = (double)j->w[at] - (j->v ? (double)j->v[at] : 0.0);
            j->y[(size_t)r * j->ld + (size_t)i] = 0.0;
        }
}
static void tinyi_gptq_loss_sum(tinyi_gptq_loss_job *j, tiny_idx rows)
{
    tiny_idx r;
    for (r = 0; r < rows; r++)
        j->loss += 2.0 * tinyi_la_dot(j->d + (size_t)r * j->ld, j->y + (size_t)r * j->ld, (size_t)j->n);
}
static void tinyi_gptq_loss_plain(tinyi_gptq_loss_job *j, tiny_idx rows)
{
    tiny_idx r, i, k;
    for (r = 0; r < rows; r++)
        for (i = 0; i < j->n; i++)
            for (k = i; k < j->n; k++)
                j->y[(size_t)r * j->ld + (size_t)k] +=
                    j->d[(size_t)r * j->ld + (size_t)i] * j->s[(size_t)i * j->ld + (size_t)k];
}
TINY_REF_END

static void tinyi_gptq_loss_team(tiny_team *team, void *arg)
{
    tinyi_gptq_loss_job *j = (tinyi_gptq_loss_job *)arg;
    tinyi_la_product g;
    tiny_idx row0, rows, i;
    tinyi_la_fill(team, j->s, j->ld, (size_t)j->n, (size_t)j->n, 0.0);
    if (tinyi_la_load(team, &j->run, &j->h, TINYI_LA_UPPER, j->s, j->ld)) return;
    if (team->i == 0)
        for (i = 0; i < j->n; i++) j->s[(size_t)i * j->ld + (size_t)i] *= 0.5;
    memset(&g, 0, sizeof g);
    for (row0 = 0; row0 < j->rows; row0 += rows) {
        rows = TINYI_MIN(j->rows - row0, TINYI_GPTQ_LOSS_ROWS);
        if (team->i == 0) tinyi_gptq_loss_rows(j, row0, rows);
        tiny_barrier(team);
        if (j->run.plain) tinyi_gptq_loss_plain(j, rows);
        else {
            g.c = j->y;
            g.a = j->d;
            g.b = j->s;
            g.ldc = g.lda = g.ldb = j->ld;
            g.m = (size_t)rows;
            g.n = g.k = (size_t)j->n;
            g.alpha = 1.0;
            tinyi_la_gemm(team, &g);
        }
        if (team->i == 0) tinyi_gptq_loss_sum(j, rows);
        tiny_barrier(team);
    }
}

TINY_API tiny_status tllm_gptq_loss(tiny_ctx *ctx, const float *w, const float *v, tiny_idx rows, tiny_idx n,
                                    const tiny_tensor *h, double *loss)
{
    tinyi_gptq_loss_job j;
    size_t ld;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&j, 0, sizeof j);
    if (!w || !loss || rows < 0 || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gptq: the loss of %td rows of %td weights: weights, h and a result pointer are needed", rows,
                          n);
    st = tinyi_la_look(ctx, "gptq", "h", h, 0, &j.h);
    if (!st) st = tinyi_la_want(ctx, "gptq", &j.h, (size_t)n, (size_t)n);
    if (st) return st;
    j.w = w;
    j.v = v;
    j.rows = rows;
    j.n = n;
    j.ld = ld = tinyi_la_ld((size_t)n);
    j.s = tinyi_la_alloc(ctx, (size_t)n, ld);
    if (j.s) j.d = tinyi_la_alloc(ctx, TINYI_GPTQ_LOSS_ROWS, ld);
    if (j.d) j.y = tinyi_la_alloc(ctx, TINYI_GPTQ_LOSS_ROWS, ld);
    /* products are as high as TINYI_GPTQ_LOSS_ROWS, which may be more than n: the packed blocks must have room for
     * them */
    st = j.y ? tinyi_la_go(ctx, "gptq", 2.0 * (double)rows * (double)n * (double)n,
                           (size_t)TINYI_MAX(n, TINYI_GPTQ_LOSS_ROWS), tinyi_gptq_loss_team, &j)
             : tiny_ctx_status(ctx);
    tiny_free(ctx, j.y);
    tiny_free(ctx, j.d);
    tiny_free(ctx, j.s);
    if (!st) *loss = j.loss;
    return st;
}

