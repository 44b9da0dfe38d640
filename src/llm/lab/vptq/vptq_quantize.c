/* src/llm/lab/vptq/vptq_quantize.c - VPTQ: books by weighted k-means; inputs are coded one after the other and their
 * errors propagated
 *
 * Paper    Y. Liu et al., "VPTQ", 2024 (arXiv 2409.17066), algorithm 1; residual and outlier books of sections 3.2 and
 *          3.3
 * Formula  H_ii = 0: the weights of input i become 0. H += damp mean(diag H) I, H^-1 = U^T U. Inputs by falling H_ii;
 *          the first ones are outliers, the others are split into groups.
 *          Books: k-means over the vectors of a group's inputs, a vector weighted by H_ii of its input; rounded to
 *          halves before coding.
 *          Code of a vector x: argmin |x - C_c|. With a second book the loop first runs with the first book alone and
 *          keeps the residuals x - C_c. Their k-means, weighted as before, gives the second book. Then the loop runs
 *          again from the original weights, c2 = argmin |x - C_c1 - D_c2|.
 *          The loop over inputs, q = code(w), e = (w - q) / U_ii, w_j -= e U_ij: llm/round/columns.c. One input has one
 *          factor 1 / U_ii^2 for all candidates, so the nearest vector is the best one.
 *          Normalized: the books are of (w - bias) / scale, with bias = min and scale = max - min of the input, as
 *          halves; vectors are weighted by H_ii scale^2, and errors are propagated as errors of w. (With H unchanged
 *          for scaled weights the loop would minimise another J.)
 * Cost     rows n k times a difference, a product and a sum for a pass, and the same for an iteration of k-means of all
 *          vectors; n^3 in double for U
 * Left out centred statistics: tllm_calib does not subtract the mean. Training of books and norms after the pass. */
#include <string.h>
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "llm/round/columns_inside.h"
#include "llm/lab/vptq/kmeans_inside.h"
#include "llm/lab/vptq/vptq.h"
#include "llm/lab/vptq/vptq_inside.h"
#include "math/sort.h"
#include "math/table_inside.h"

typedef struct tinyi_vptq {
    tllm_vptq_desc d;
    tllm_vptq q;
    const float *w;
    uint32_t *order;                        /* (n): which input is coded when */
    /* (n): the diagonal over its mean, of the inputs as they are; and of the places, times scale^2 */
    float *importance, *weight;
    float *copy, *u;                        /* (rows, n) in the order of coding; (n, n) */
    float *scale, *bias;                    /* (n), of places; NULL where not normalized */
    float *book;                            /* all books as floats, as they are in the bytes; */
    /* and laid for the search, each at 16 / v of its place, see tinyi_vptq_laid */
    float *laid;
    size_t book_floats, laid_floats;
    uint32_t *code;                         /* of each part (rows of vectors, inputs) */
    /* of each group (rows of vectors, inputs, v): what the first pass leaves; or NULL */
    float *left;
    tinyi_nearest_fn nearest;
    int pass;                               /* 0: the first book alone, and what is left is kept */
    tiny_idx clamped;
} tinyi_vptq;

/* where the books of a part are */
typedef struct tinyi_vptq_books {
    tinyi_vptq_part part;
    float *book, *book2, *laid, *laid2, *left;
    uint32_t *code;
} tinyi_vptq_books;

static void tinyi_vptq_books_of(const tinyi_vptq *p, tiny_idx i, tinyi_vptq_books *b)
{
    const tiny_idx apart = p->q.outliers > 0, g = i - apart;
    tinyi_vptq_part first;
    size_t laid0 = 0, laid, laid2;
    tinyi_vptq_part_of(&p->q, 0, &first);
    tinyi_vptq_part_of(&p->q, i, &b->part);
    b->book = p->book + (b->part.book - first.book) / 2;
    b->book2 = b->part.k2 ? p->book + (b->part.book2 - first.book) / 2 : NULL;
    if (apart) laid0 = tinyi_nearest_floats(p->q.k0, p->q.v0);
    laid = tinyi_nearest_floats(p->q.k, p->q.v);
    laid2 = p->q.k2 ? tinyi_nearest_floats(p->q.k2, p->q.v) : 0;
    b->laid = p->laid + (g < 0 ? 0 : laid0 + (size_t)g * (laid + laid2));
    b->laid2 = b->laid + laid;
    b->code = p->code + (g < 0 ? 0
                               : (apart ? (size_t)first.rows * (size_t)first.n : 0) +
                                     (size_t)g * (size_t)b->part.rows * (size_t)b->part.n);
    b->left =
        p->left && g >= 0 ? p->left + (size_t)g * (size_t)b->part.rows * (size_t)b->part.n * (size_t)b->part.v : NULL;
}

/* ---- coding ------------------------------------------------------------------------------------------------------ */

TINY_REF_BEGIN
static void tinyi_vptq_code_column(void *user, tiny_idx i, tiny_idx row0, tiny_idx rows, const float *x, float *q)
{
    const tinyi_vptq *p = (const tinyi_vptq *)user;
    const tiny_idx wide = (p->q.n - p->q.outliers) / p->q.groups;
    tinyi_vptq_books b;
    float t[64], distance[64];
    uint32_t c1[64], c2[64];
    tiny_idx v, s, n, j, r, at;
    tinyi_vptq_books_of(p, i < p->q.outliers ? 0 : (i - p->q.outliers) / wide + (p->q.outliers > 0), &b);
    v = b.part.v;
    n = (rows + v - 1) / v;
    for (r = 0; r < n * v; r++) t[r] = r >= rows ? 0.0f : p->scale ? (x[r] - p->bias[i]) / p->scale[i] : x[r];
    p->nearest(c1, distance, t, (size_t)n, (size_t)v, b.laid, (size_t)((b.part.k + 15) / 16 * 16));
    at = row0 / v * b.part.n + i - b.part.at;
    for (s = 0; s < n; s++)
        for (j = 0; j < v; j++) t[s * v + j] -= b.book[(tiny_idx)c1[s] * v + j];
    if (p->pass && b.part.k2)
        p->nearest(c2, distance, t, (size_t)n, (size_t)v, b.laid2, (size_t)((b.part.k2 + 15) / 16 * 16));
    for (s = 0; s < n; s++) {
        const tiny_idx to = at + s * b.part.n;
        const int both = p->pass && b.part.k2;
        b.code[to] = both ? c2[s] << b.part.bits | c1[s] : c1[s];
        if (!p->pass && b.left) memcpy(b.left + to * v, t + s * v, (size_t)v * sizeof *t);
        for (j = 0; j < v && s * v + j < rows; j++) {
            float y = b.book[(tiny_idx)c1[s] * v + j];
            if (both) y += b.book2[(tiny_idx)c2[s] * v + j];
            if (p->scale) {
                y *= p->scale[i];
                y += p->bias[i];
            }
            q[s * v + j] = y;
        }
    }
}
TINY_REF_END

/* ---- before it --------------------------------------------------------------------------------------------------- */

static void tinyi_vptq_copy_team(tiny_team *team, void *arg)
{
    tinyi_vptq *p = (tinyi_vptq *)arg;
    tiny_idx r, r1, i;
    while (tiny_take(team, p->q.rows, 1 + 16384 / p->q.n, &r, &r1))
        for (; r < r1; r++)
            for (i = 0; i < p->q.n; i++)
                p->copy[r * p->q.n + i] =
                    p->importance[p->order[i]] > 0.0f ? p->w[r * p->q.n + (tiny_idx)p->order[i]] : 0.0f;
}

TINY_REF_BEGIN
/* scale and bias of each place, as halves; a constant input has scale 1 */
static void tinyi_vptq_normal(tinyi_vptq *p)
{
    tiny_idx i, r;
    for (i = 0; i < p->q.n; i++) {
        float low = p->copy[i], high = p->copy[i];
        for (r = 1; r < p->q.rows; r++) {
            const float x = p->copy[r * p->q.n + i];
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        p->bias[i] = tinyi_f16_to_f32(tinyi_f32_to_f16(low));
        high -= low;
        p->scale[i] = high > 65504.0f ? 65504.0f : tinyi_f16_to_f32(tinyi_f32_to_f16(high));
        if (!(p->scale[i] > 0.0f)) p->scale[i] = 1.0f;
    }
}
static void tinyi_vptq_weigh(tinyi_vptq *p)
{
    tiny_idx i;
    for (i = 0; i < p->q.n; i++)
        p->weight[i] = p->importance[p->order[i]] * (p->scale ? p->scale[i] * p->scale[i] : 1.0f);
}
TINY_REF_END

/* a book as halves; numbers that are none become the largest */
static void tinyi_vptq_round(tinyi_vptq *p, float *book, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const float x = book[i] > 65504.0f ? 65504.0f : book[i] < -65504.0f ? -65504.0f : book[i];
        p->clamped += x != book[i];
        book[i] = tinyi_f16_to_f32(tinyi_f32_to_f16(x));
    }
}

/* the vectors of a part as they are before anything is coded, input by input within a row of them */
static void tinyi_vptq_vectors(const tinyi_vptq *p, const tinyi_vptq_part *part, float *to)
{
    tiny_idx s, i, j;
    for (s = 0; s < part->rows; s++)
        for (i = 0; i < part->n; i++, to += part->v)
            for (j = 0; j < part->v; j++) {
                const tiny_idx r = s * part->v + j, at = part->at + i;
                to[j] = r >= p->q.rows ? 0.0f
                        : p->scale     ? (p->copy[r * p->q.n + at] - p->bias[at]) / p->scale[at]
                                       : p->copy[r * p->q.n + at];
            }
}

/* one book: x NULL, the vectors of the part */
static tiny_status tinyi_vptq_make(tiny_ctx *ctx, tinyi_vptq *p, tiny_idx i, int second, const float *x,
                                   const float *given)
{
    tinyi_vptq_books b;
    tllm_kmeans_desc d;
    float *to, *mine = NULL, *weight = NULL;
    tiny_idx k, n, at, c;
    tiny_status st = TINY_OK;
    tinyi_vptq_books_of(p, i, &b);
    k = second ? b.part.k2 : b.part.k;
    n = b.part.rows * b.part.n;
    to = second ? b.book2 : b.book;
    if (given) memcpy(to, given, (size_t)(k * b.part.v) * sizeof *to);
    else {
        memset(&d, 0, sizeof d);
        d.k = k;
        d.iters = p->d.iters;
        d.tol = p->d.tol;
        d.seed = p->d.seed + 2 * (uint64_t)i + (uint64_t)second;
        d.sample = p->d.sample;
        if (k > n)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "vptq: a book of %td vectors for only %td vectors in %td inputs", k, n, b.part.n);
        weight = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *weight);
        if (weight && !x) x = mine = (float *)tinyi_alloc(ctx, (size_t)n * (size_t)b.part.v, sizeof *mine);
        if (!weight || !x) st = tiny_ctx_status(ctx);
        if (mine) tinyi_vptq_vectors(p, &b.part, mine);
        for (at = 0; !st && at < n; at++) weight[at] = p->weight[b.part.at + at % b.part.n];
        if (!st) st = tllm_kmeans(ctx, &d, x, n, b.part.v, weight, to, NULL, NULL);
        tiny_free(ctx, mine);
        tiny_free(ctx, weight);
        if (st) return st;
    }
    tinyi_vptq_round(p, to, (size_t)(k * b.part.v));
    for (c = 0; c < k * b.part.v; c++)
        if (!(to[c] - to[c] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "vptq: number %td of a given book is %g", c, (double)to[c]);
    tinyi_nearest_lay(second ? b.laid2 : b.laid, to, k, b.part.v);
    return TINY_OK;
}

/* ---- after it ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_vptq_pack(tiny_ctx *ctx, tinyi_vptq *p)
{
    const int stored = p->q.permuted;
    const size_t wide = p->q.n > 65536 ? 4 : 2;
    unsigned char *to = tinyi_vptq_begin(ctx, &p->q);
    tinyi_vptq_books b;
    tiny_idx i, g, s;
    size_t k;
    if (!to) return tiny_ctx_status(ctx);
    for (i = 0; i < p->q.n; i++) {
        const tiny_idx place = stored ? i : (tiny_idx)p->order[i];     /* not stored: it is undone, or there is none */
        if (stored) tinyi_put_le(to + TINYI_VPTQ_HEAD + (size_t)i * wide, (uint64_t)p->order[i], wide);
        for (k = 0; p->scale && k < 2; k++) {
            unsigned char *at = to + tinyi_vptq_scales(&p->q) + 2 * ((size_t)place + k * (size_t)p->q.n);
            tinyi_put_le16(at, tinyi_f32_to_f16(k ? p->bias[i] : p->scale[i]));
        }
    }
    for (g = 0; g < tinyi_vptq_parts(&p->q); g++) {
        tinyi_vptq_books_of(p, g, &b);
        for (s = 0; s < b.part.rows; s++)
            for (i = 0; i < b.part.n; i++)
                tinyi_vptq_put(to + b.part.index + (size_t)s * b.part.row_bytes,
                               stored                         ? i
                               : tinyi_vptq_parts(&p->q) == 1 ? (tiny_idx)p->order[i]
                                                              : i,
                               b.part.bits + b.part.bits2, b.code[s * b.part.n + i]);
        for (k = 0; k < (size_t)(b.part.v * (b.part.k + b.part.k2)); k++)
            tinyi_put_le16(to + b.part.book + 2 * k, tinyi_f32_to_f16(b.book[k]));
    }
    tinyi_vptq_seal(to, p->q.n_bytes);
    return TINY_OK;
}

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_vptq_layer(tiny_ctx *ctx, tinyi_vptq *p, const tiny_tensor *h, tllm_vptq_about *about)
{
    const tiny_idx parts = tinyi_vptq_parts(&p->q), apart = p->q.outliers > 0;
    const size_t per = (size_t)p->q.v * (size_t)p->q.k, per2 = (size_t)p->q.v * (size_t)p->q.k2;
    tinyi_columns c;
    tinyi_factor f;
    tinyi_vptq_books b;
    double loss = 0.0;
    tiny_idx i;
    tiny_status st = tinyi_factor_diagonal(ctx, h, p->q.n, p->importance);
    memset(&f, 0, sizeof f);
    if (!st && !p->d.in_order)
        st = tiny_argsort_f32(ctx, p->importance, p->order, (size_t)p->q.n, TINY_SORT_DESCENDING);
    for (i = 0; p->d.in_order && i < p->q.n; i++) p->order[i] = (uint32_t)i;
    if (!st) st = tinyi_factor_of(ctx, h, p->order, (double)p->d.damp, p->u, &f);
    if (!st) st = tiny_parallel_loose(ctx, p->q.rows * p->q.n < 16384 ? 1 : 0, 0, 0, tinyi_vptq_copy_team, p);
    if (!st && p->scale) tinyi_vptq_normal(p);
    if (!st) tinyi_vptq_weigh(p);
    for (i = 0; !st && i < parts; i++) {
        const float *given = i < apart ? p->d.book0 : p->d.book ? p->d.book + (size_t)(i - apart) * per : NULL;
        st = tinyi_vptq_make(ctx, p, i, 0, NULL, given);
    }
    memset(&c, 0, sizeof c);
    c.w = p->copy;
    c.u = p->u;
    c.rows = p->q.rows;
    c.n = p->q.n;
    c.block = p->d.block;
    c.unit = tinyi_vptq_unit(&p->q);
    c.code = tinyi_vptq_code_column;
    c.user = p;
    if (!st && p->left) {                   /* what the first books leave, and books of that */
        st = tinyi_columns_run(ctx, &c, NULL);
        for (i = apart; !st && i < parts; i++) {
            tinyi_vptq_books_of(p, i, &b);
            st = tinyi_vptq_make(ctx, p, i, 1, b.left, NULL);
        }
        if (!st) st = tiny_parallel_loose(ctx, p->q.rows * p->q.n < 16384 ? 1 : 0, 0, 0, tinyi_vptq_copy_team, p);
    } else
        for (i = apart; !st && p->q.k2 && i < parts; i++)
            st = tinyi_vptq_make(ctx, p, i, 1, NULL, p->d.book2 + (size_t)(i - apart) * per2);
    p->pass = 1;
    if (!st) st = tinyi_columns_run(ctx, &c, &loss);
    if (!st) st = tinyi_vptq_pack(ctx, p);
    if (st || !about) return st;
    about->loss = f.identity ? loss : loss * f.mean;
    about->damp = f.damp;
    about->doubled = f.doubled;
    about->rounded = f.identity;
    about->dead = f.dead;
    about->clamped = p->clamped;
    return TINY_OK;
}

static tiny_status tinyi_vptq_whole(tiny_ctx *ctx, tinyi_vptq *p, const tiny_tensor *h, tllm_vptq_about *about)
{
    const size_t n = (size_t)p->q.n, rows = (size_t)p->q.rows;
    const tiny_idx parts = tinyi_vptq_parts(&p->q);
    tinyi_vptq_part first, last;
    size_t codes, left;
    tiny_status st;
    tinyi_vptq_part_of(&p->q, 0, &first);
    tinyi_vptq_part_of(&p->q, parts - 1, &last);
    p->book_floats = (last.book2 - first.book) / 2 + (size_t)(last.v * last.k2);
    p->laid_floats = (p->q.outliers ? tinyi_nearest_floats(p->q.k0, p->q.v0) : 0) +
                     (size_t)p->q.groups *
                         (tinyi_nearest_floats(p->q.k, p->q.v) + (p->q.k2 ? tinyi_nearest_floats(p->q.k2, p->q.v) : 0));
    left = (size_t)last.rows * (size_t)(p->q.n - p->q.outliers);
    codes = left + (p->q.outliers ? (size_t)first.rows * (size_t)first.n : 0);
    p->importance = (float *)tinyi_alloc(ctx, n, 2 * sizeof(float));
    if (p->importance) p->order = (uint32_t *)tinyi_alloc(ctx, n, sizeof(uint32_t));
    if (p->order) p->copy = (float *)tinyi_alloc(ctx, rows * n, sizeof(float));
    if (p->copy) p->u = (float *)tinyi_alloc(ctx, n * n, sizeof(float));
    if (p->u) p->book = (float *)tinyi_alloc(ctx, p->book_floats, sizeof(float));
    if (p->book) p->laid = (float *)tinyi_alloc(ctx, p->laid_floats, sizeof(float));
    if (p->laid) p->code = (uint32_t *)tinyi_alloc(ctx, codes, sizeof(uint32_t));
    st = p->code ? TINY_OK : tiny_ctx_status(ctx);
    if (!st && p->q.normalized && !(p->scale = (float *)tinyi_alloc(ctx, n, 2 * sizeof(float))))
        st = tiny_ctx_status(ctx);
    if (!st && p->q.k2 && !p->d.book2 && !(p->left = (float *)tinyi_alloc(ctx, left, (size_t)p->q.v * sizeof(float))))
        st = tiny_ctx_status(ctx);
    if (!st) {
        p->weight = p->importance + n;
        p->bias = p->scale ? p->scale + n : NULL;
        p->nearest = tinyi_nearest_of(ctx);
        st = tinyi_vptq_layer(ctx, p, h, about);
    }
    tiny_free(ctx, p->left);
    tiny_free(ctx, p->scale);
    tiny_free(ctx, p->code);
    tiny_free(ctx, p->laid);
    tiny_free(ctx, p->book);
    tiny_free(ctx, p->u);
    tiny_free(ctx, p->copy);
    tiny_free(ctx, p->order);
    tiny_free(ctx, p->importance);
    return st;
}

TINY_API tiny_status tllm_vptq_quantize(tiny_ctx *ctx, const tllm_vptq_desc *desc, const float *w, tiny_idx rows,
                                        tiny_idx n, const tiny_tensor *h, tllm_vptq *out, tllm_vptq_about *about)
{
    tinyi_vptq p;
    tiny_idx r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (about) memset(about, 0, sizeof *about);
    if (st) return st;
    memset(&p, 0, sizeof p);
    if (!w || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq: weights and a result pointer are needed");
    st = tinyi_vptq_sizes(ctx, "vptq", desc, &p.d, rows, n, &p.q);
    if (st) return st;
    if (!(p.d.damp > 0.0f && p.d.damp <= 1000.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq: damping by %g of the mean diagonal; above 0 and at most 1000",
                          (double)p.d.damp);
    if (p.d.block < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq: blocks of %td inputs; at least 1 is needed", p.d.block);
    if ((size_t)n > (size_t)TINY_IDX_MAX / sizeof(double) / (size_t)n ||
        n > TINY_IDX_MAX / (tiny_idx)sizeof(double) / (rows + TLLM_VPTQ_MOST_V))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "vptq: products of %td inputs, or %td rows of them, are more than this machine can address",
                          n, rows);
    for (r = 0; r < rows * n; r++)
        if (!(w[r] >= -65504.0f && w[r] <= 65504.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "vptq: the weight in row %td, input %td is %g; books hold halves, up to 65504", r / n,
                              r % n, (double)w[r]);
    p.w = w;
    st = tinyi_vptq_whole(ctx, &p, h, about);
    if (st) tllm_vptq_close(ctx, &p.q);
    else *out = p.q;
    return st;
}

