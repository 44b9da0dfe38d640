/* src/llm/lab/nets/share.c - all weights of a network from one short array
 * Paper    A. Desai, A. Shrivastava, "In defense of parameter sharing for model-compression", 2023 (arXiv 2310.11611):
 *          RPS, ROAST and STABLE-RPS; hash maps and divisors as in the authors' public programs.
 * Formula  W[i] = lambda g[i] z[at(i)], lambda = sigma / s0, g = +-1
 *          dz[j] = sum of lambda g[i] dW[i] over at(i) = j
 * Hash     r0, r1, r2 odd and below P; each product is reduced mod P, so that nothing overflows for any a. The authors'
 *          program overflows its 64 bits from a = 65536 on; below, the maps are the same.
 * Signs    eight hashes of 64 bits for 512 weights (share_inside.h).
 * Cost     FOLD: a hash for a part of m weights. TILE: one for a tile. HASH: one for a weight. Signs: 1/64 hash a
 *          weight. The product makes 2 rows cols operations a row of x, as the dense one: sharing saves memory and
 *          its traffic, not arithmetic.
 * Error    a sum of cols products in some order: (cols + 2) units of the sum of their sizes.
 * Left out maps that permute within a tile (published without a figure); a training step that never holds all of W. */
#include "llm/lab/nets/share_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "core/state_inside.h"
#include <string.h>

TINYI_TABLE_CHOICE(tinyi_share_kernels, tinyi_share_kernels)

#define TINYI_SHARE_CELLS 4096              /* numbers of z that a thread sums at a time */

struct tllm_share {
    tiny_ctx *ctx;
    tllm_share_desc is;
    tllm_share_matrix *matrix;
    size_t *first;                          /* (n_matrix + 1): number of the first weight of each */
    size_t n;
    float *z;
};

/* ---- maps */

static uint64_t tinyi_share_mod(uint64_t a, uint64_t b)
{
    return a % TLLM_SHARE_PRIME * (b % TLLM_SHARE_PRIME) % TLLM_SHARE_PRIME;
}
static uint64_t tinyi_share_hash(const uint64_t r[3], uint64_t a)
{
    return (tinyi_share_mod(r[0], a) + tinyi_share_mod(r[1], tinyi_share_mod(a, a)) + r[2]) % TLLM_SHARE_PRIME;
}
static uint64_t tinyi_share_hash2(const uint64_t r[3], uint64_t a, uint64_t b)
{
    return (tinyi_share_mod(r[0], a) + tinyi_share_mod(r[1], b) + r[2]) % TLLM_SHARE_PRIME;
}
static uint64_t tinyi_share_mix(uint64_t x)     /* S. Vigna's splitmix64 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

TINYI_FN void tinyi_share_signs(const tllm_share *s, size_t block, size_t n_block, uint32_t *sign)
{
    size_t i;
    for (i = 0; i < n_block * TINYI_SHARE_WORDS / 2; i++) {
        const uint64_t number = (uint64_t)block * (TINYI_SHARE_WORDS / 2) + i + 1;
        const uint64_t x = s->is.plain ? 0 : tinyi_share_mix(s->is.seed + number * 0x9e3779b97f4a7c15ull);
        sign[2 * i] = (uint32_t)x;
        sign[2 * i + 1] = (uint32_t)(x >> 32);
    }
}

/* matrix of weight i */
static size_t tinyi_share_matrix_of(const tllm_share *s, size_t i)
{
    size_t k = 0;
    while (i >= s->first[k + 1]) k++;
    return k;
}

/* Weight c of row r of matrix k: the tile's place, which the rows of a tile share, plus its own. Rows and columns of
 * tiles are counted from the first weight of the matrix and from its columns on, as the authors' program counts. */
static size_t tinyi_share_tile(const tllm_share *s, size_t k, size_t r, size_t c)
{
    const size_t wide = (size_t)s->is.tile[0], high = (size_t)s->is.tile[1], room = s->is.m - wide * high;
    const uint64_t a = c / wide + s->first[k], b = r / high + s->first[k] + (size_t)s->matrix[k].cols;
    return (size_t)(tinyi_share_hash2(s->is.r, a, b) % room) + c % wide * high + r % high;
}

/* FOLD: where weight i reads, and how many weights from it on read next to each other */
static size_t tinyi_share_run(const tllm_share *s, size_t i, size_t *n)
{
    const size_t m = s->is.m, part = i / m, place = i % m;
    size_t at;
    if (m > s->n) {
        *n = s->n - i;
        return i;
    }
    at = (size_t)(tinyi_share_hash(s->is.r, part) % m) + place;
    if (at >= m) at -= m;
    *n = TINYI_MIN(m - place, m - at);
    return at;
}

TINY_API size_t tllm_share_at(const tllm_share *s, size_t i)
{
    size_t k, n;
    if (!s || i >= s->n) return 0;
    if (s->is.map == TLLM_SHARE_FOLD || s->is.m > s->n) return tinyi_share_run(s, i, &n);
    if (s->is.map == TLLM_SHARE_HASH) return (size_t)(tinyi_share_hash(s->is.r, i) % s->is.m);
    k = tinyi_share_matrix_of(s, i);
    i -= s->first[k];
    return tinyi_share_tile(s, k, i / (size_t)s->matrix[k].cols, i % (size_t)s->matrix[k].cols);
}

static float tinyi_share_lambda(const tllm_share *s, size_t k) { return (float)(s->matrix[k].sigma / s->is.s0); }

TINY_API float tllm_share_factor(const tllm_share *s, size_t i)
{
    uint32_t sign[TINYI_SHARE_WORDS];
    float c;
    if (!s || i >= s->n) return 0.0f;
    c = tinyi_share_lambda(s, tinyi_share_matrix_of(s, i));
    tinyi_share_signs(s, i / TINYI_SHARE_BLOCK, 1, sign);
    return tinyi_share_minus(sign, i % TINYI_SHARE_BLOCK) ? -c : c;
}

/* ---- a share */

static tiny_status tinyi_share_check(tiny_ctx *ctx, const tllm_share_desc *d, size_t *n)
{
    size_t k, one;
    int i;
    *n = 0;
    if (!d || !d->matrix || !d->n_matrix || d->n_matrix > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: 1 to 65536 matrices are needed");
    if (!d->m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a memory of 0 numbers");
    if (d->m >= TLLM_SHARE_PRIME)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a memory of %zu numbers; it must be below the prime %lu of the "
                          "hash", d->m, (unsigned long)TLLM_SHARE_PRIME);
    if (d->map < 0 || d->map >= TLLM_SHARE_MAPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: map %d; there are 0 to %d", d->map, TLLM_SHARE_MAPS - 1);
    if (!(d->s0 >= 0.0 && d->s0 <= 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a deviation of %g; 0 (the default) to 1e30 is allowed", d->s0);
    for (i = 0; i < 3; i++)
        if (d->r[i] >= TLLM_SHARE_PRIME)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: number %d of the hash must be below the prime %lu", i,
                              (unsigned long)TLLM_SHARE_PRIME);
    for (k = 0; k < d->n_matrix; k++) {
        const tllm_share_matrix *w = &d->matrix[k];
        if (w->rows < 1 || w->cols < 1 || !(w->sigma > 0.0 && w->sigma <= 1e30))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: matrix %zu is %td by %td with a deviation of %g", k,
                              w->rows, w->cols, w->sigma);
        if (!tinyi_size_mul((size_t)w->rows, (size_t)w->cols, &one) || !tinyi_size_add(*n, one, n) ||
            *n > (SIZE_MAX >> 4))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "share: the matrices have more weights than can be counted");
    }
    return TINY_OK;
}

TINY_API void tllm_share_close(tllm_share *s)
{
    if (!s) return;
    tiny_free(s->ctx, s->z);
    tiny_free(s->ctx, s->first);
    tiny_free(s->ctx, s->matrix);
    tiny_free(s->ctx, s);
}

static tiny_status tinyi_share_make(tiny_ctx *ctx, const tllm_share_desc *d, size_t n, tllm_share **out)
{
    tllm_share *s = (tllm_share *)tinyi_alloc(ctx, 1, sizeof *s);
    tiny_rng rng = tiny_rng_make(d->seed, 0x73686172);
    size_t k, tile;
    int i;
    tiny_status st = TINY_OK;
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->is = *d;
    s->n = n;
    if (s->is.s0 == 0.0) s->is.s0 = 0.125;
    for (i = 0; i < 2; i++)
        if (!s->is.tile[i]) s->is.tile[i] = 32;
    if (!d->r[0] && !d->r[1] && !d->r[2])
        for (i = 0; i < 3; i++) s->is.r[i] = 3 + 2 * (uint64_t)tiny_rng_below(&rng, (TLLM_SHARE_PRIME - 3) / 2);
    if (d->map == TLLM_SHARE_TILE && d->m <= n &&
        (s->is.tile[0] < 1 || s->is.tile[1] < 1 ||
         !tinyi_size_mul((size_t)s->is.tile[0], (size_t)s->is.tile[1], &tile) || tile >= d->m))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "share: tiles of %td by %td need a memory of more numbers than %zu",
                        s->is.tile[0], s->is.tile[1], d->m);
    if (!st) {
        s->matrix = (tllm_share_matrix *)tinyi_alloc(ctx, d->n_matrix, sizeof *s->matrix);
        s->first = s->matrix ? (size_t *)tinyi_alloc(ctx, d->n_matrix + 1, sizeof *s->first) : NULL;
        s->z = s->first ? (float *)tinyi_alloc(ctx, d->m, sizeof *s->z) : NULL;
        if (!s->z) st = tiny_ctx_status(ctx);
    }
    if (st) {
        tllm_share_close(s);
        return st;
    }
    memcpy(s->matrix, d->matrix, d->n_matrix * sizeof *s->matrix);
    s->is.matrix = s->matrix;
    s->first[0] = 0;
    for (k = 0; k < d->n_matrix; k++)
        s->first[k + 1] = s->first[k] + (size_t)s->matrix[k].rows * (size_t)s->matrix[k].cols;
    rng = tiny_rng_make(d->seed, 0x6d656d);
    tiny_rng_fill_normal(&rng, s->z, d->m);
    for (k = 0; k < d->m; k++) s->z[k] *= (float)s->is.s0;
    *out = s;
    return TINY_OK;
}

TINY_API tiny_status tllm_share_open(tiny_ctx *ctx, const tllm_share_desc *desc, tllm_share **out)
{
    size_t n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "share: a result pointer is needed");
    st = tinyi_share_check(ctx, desc, &n);
    return st ? st : tinyi_share_make(ctx, desc, n, out);
}

TINY_API const tllm_share_desc *tllm_share_is(const tllm_share *s) { return s ? &s->is : NULL; }
TINY_API float *tllm_share_memory(tllm_share *s) { return s ? s->z : NULL; }
TINYI_FN tiny_ctx *tinyi_share_ctx(const tllm_share *s) { return s ? s->ctx : NULL; }
TINYI_FN float *tinyi_share_z(const tllm_share *s) { return s->z; }
TINY_API size_t tllm_share_count(const tllm_share *s) { return s ? s->n : 0; }

static tiny_status tinyi_share_weights_check(const tllm_share *s, size_t k, const tiny_tensor *w, tiny_dtype type,
                                             const char *what)
{
    if (k >= s->is.n_matrix)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "share: matrix %zu of %zu", k, s->is.n_matrix);
    if (!w || tiny_tensor_check(w) || w->dtype != type || !tiny_tensor_is_dense(w) ||
        (size_t)tiny_tensor_count(w) != s->first[k + 1] - s->first[k])
        return tinyi_fail(s->ctx, TINY_E_SHAPE, "share: %s of matrix %zu must be dense %s with %zu numbers", what, k,
                          tiny_dtype_name(type), s->first[k + 1] - s->first[k]);
    return TINY_OK;
}

TINY_API tiny_status tllm_share_index(const tllm_share *s, size_t k, const tiny_tensor *at, const tiny_tensor *factor)
{
    size_t i;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_share_weights_check(s, k, at, TINY_I32, "places");
    if (!st)
        st = tinyi_share_weights_check(s, k, factor, factor && factor->dtype == TINY_F64 ? TINY_F64 : TINY_F32,
                                       "factors");
    if (!st && s->is.m > INT32_MAX)
        st = tinyi_fail(s->ctx, TINY_E_OVERFLOW, "share: %zu numbers are more than an i32 index reaches", s->is.m);
    for (i = 0; !st && i < s->first[k + 1] - s->first[k]; i++) {
        ((int32_t *)at->data)[i] = (int32_t)tllm_share_at(s, s->first[k] + i);
        tinyi_real_set(factor->data, factor->dtype, (tiny_idx)i, (double)tllm_share_factor(s, s->first[k] + i));
    }
    return st;
}

/* ---- gather, fold, product */

typedef struct tinyi_share_job {
    const tllm_share *s;
    const tinyi_share_kernels *kernels;
    size_t k, rows, cols, b;
    const float *x, *dw;
    float *y, *w, *dz;
    ptrdiff_t x_step, y_step;
    float lambda;
} tinyi_share_job;

TINY_REF_BEGIN
static void tinyi_share_gather_ref(const tinyi_share_job *j)
{
    size_t i;
    for (i = 0; i < j->rows * j->cols; i++) {
        const size_t at = j->s->first[j->k] + i;
        j->w[i] = tllm_share_factor(j->s, at) * j->s->z[tllm_share_at(j->s, at)];
    }
}
static void tinyi_share_fold_ref(const tinyi_share_job *j)
{
    size_t i;
    for (i = 0; i < j->rows * j->cols; i++) {
        const size_t at = j->s->first[j->k] + i;
        const float by = tllm_share_factor(j->s, at) * j->dw[i];
        j->dz[tllm_share_at(j->s, at)] += by;
    }
}
static void tinyi_share_linear_ref(const tinyi_share_job *j)
{
    size_t q, r, c;
    for (q = 0; q < j->b; q++)
        for (r = 0; r < j->rows; r++) {
            double sum = 0.0;
            for (c = 0; c < j->cols; c++) {
                const size_t at = j->s->first[j->k] + r * j->cols + c;
                const float w = tllm_share_factor(j->s, at) * j->s->z[tllm_share_at(j->s, at)];
                sum += (double)w * (double)j->x[(ptrdiff_t)q * j->x_step + (ptrdiff_t)c];
            }
            j->y[(ptrdiff_t)q * j->y_step + (ptrdiff_t)r] = tinyi_round_f32(sum);
        }
}
TINY_REF_END

/* Row r without signs and lambda: a place in z, or in w where it had to be put together. */
static const float *tinyi_share_row(const tinyi_share_job *j, size_t r, float *w)
{
    const tllm_share *s = j->s;
    const size_t first = s->first[j->k] + r * j->cols;
    size_t c, n, at;
    if (s->is.map == TLLM_SHARE_FOLD || s->is.m > s->n) {
        at = tinyi_share_run(s, first, &n);
        if (n >= j->cols) return s->z + at;
        for (c = 0; c < j->cols; c += n) {
            at = tinyi_share_run(s, first + c, &n);
            n = TINYI_MIN(n, j->cols - c);
            memcpy(w + c, s->z + at, n * sizeof *w);
        }
    } else
        for (c = 0; c < j->cols; c++) w[c] = s->z[tinyi_share_hash(s->is.r, first + c) % s->is.m];
    return w;
}

/* own: signs of a row, and the row */
static void tinyi_share_rows_team(tiny_team *team, void *arg)
{
    const tinyi_share_job *j = (const tinyi_share_job *)arg;
    uint32_t *sign = (uint32_t *)team->own;
    float *w = (float *)(void *)(sign + tinyi_share_room(j->cols));
    const tiny_idx grain = (tiny_idx)TINYI_MAX(1, 16384 / j->cols);
    size_t q;
    tiny_idx r, r1;
    while (tiny_take(team, (tiny_idx)j->rows, grain, &r, &r1))
        for (; r < r1; r++) {
            const size_t first = j->s->first[j->k] + (size_t)r * j->cols, place = first % TINYI_SHARE_BLOCK;
            const float *row = tinyi_share_row(j, (size_t)r, w);
            tinyi_share_signs(j->s, first / TINYI_SHARE_BLOCK,
                              (place + j->cols + TINYI_SHARE_BLOCK - 1) / TINYI_SHARE_BLOCK, sign);
            if (j->w) {
                j->kernels->put(j->w + (size_t)r * j->cols, row, sign, place, j->cols, j->lambda);
                continue;
            }
            for (q = 0; q < j->b; q++) j->y[(ptrdiff_t)q * j->y_step + r] = 0.0f;
            j->kernels->dot(j->y + r, j->y_step, row, sign, place, j->cols, j->x, j->x_step, j->b, j->lambda);
        }
}

/* TILE: as many rows as a tile has, about 512 columns at a time: tiles hold columns one after the other, and are turned
 * on their way to the second cache. */
#define TINYI_SHARE_ACROSS 512
static size_t tinyi_share_across(const tllm_share *s)
{
    return (size_t)s->is.tile[0] * TINYI_MAX((size_t)1, TINYI_SHARE_ACROSS / (size_t)s->is.tile[0]);
}
static void tinyi_share_tiles_team(tiny_team *team, void *arg)
{
    const tinyi_share_job *j = (const tinyi_share_job *)arg;
    const tllm_share *s = j->s;
    const size_t wide = (size_t)s->is.tile[0], high = (size_t)s->is.tile[1], across = tinyi_share_across(s);
    uint32_t *sign = (uint32_t *)team->own;
    float *w = (float *)(void *)(sign + tinyi_share_room(across));
    size_t q, r, c, c0, n;
    tiny_idx u, u1;
    while (tiny_take(team, (tiny_idx)((j->rows + high - 1) / high), 1, &u, &u1))
        for (; u < u1; u++) {
            const size_t r0 = (size_t)u * high, rows = TINYI_MIN(high, j->rows - r0);
            for (q = 0; !j->w && q < j->b; q++)
                for (r = 0; r < rows; r++) j->y[(ptrdiff_t)q * j->y_step + (ptrdiff_t)(r0 + r)] = 0.0f;
            for (c0 = 0; c0 < j->cols; c0 += across) {
                n = TINYI_MIN(across, j->cols - c0);
                for (c = 0; c < n; c += wide)
                    TINYI_K(team, transpose_b4)((unsigned char *)(w + c), (ptrdiff_t)(4 * across),
                                                (const unsigned char *)(s->z + tinyi_share_tile(s, j->k, r0, c0 + c)),
                                                (ptrdiff_t)(4 * high), rows, TINYI_MIN(wide, n - c));
                for (r = 0; r < rows; r++) {
                    const size_t first = s->first[j->k] + (r0 + r) * j->cols + c0, place = first % TINYI_SHARE_BLOCK;
                    tinyi_share_signs(s, first / TINYI_SHARE_BLOCK,
                                      (place + n + TINYI_SHARE_BLOCK - 1) / TINYI_SHARE_BLOCK, sign);
                    if (j->w)
                        j->kernels->put(j->w + (r0 + r) * j->cols + c0, w + r * across, sign, place, n, j->lambda);
                    else
                        j->kernels->dot(j->y + r0 + r, j->y_step, w + r * across, sign, place, n, j->x + c0, j->x_step,
                                        j->b, j->lambda);
                }
            }
        }
}

/* FOLD: a thread takes numbers of z; each part of the weights reaches them in at most two runs. The order of a sum
 * does not depend on the threads. */
static void tinyi_share_cells_team(tiny_team *team, void *arg)
{
    const tinyi_share_job *j = (const tinyi_share_job *)arg;
    const tllm_share *s = j->s;
    uint32_t *sign = (uint32_t *)team->own;
    const size_t m = s->is.m, low = s->first[j->k], high = s->first[j->k + 1];
    tiny_idx z0, z1;
    while (tiny_take(team, (tiny_idx)m, TINYI_SHARE_CELLS, &z0, &z1)) {
        size_t part;
        for (part = low / m; part * m < high; part++) {
            const size_t turn = m > s->n ? 0 : (size_t)(tinyi_share_hash(s->is.r, part) % m);
            size_t at = (size_t)z0, n;
            for (; at < (size_t)z1; at += n) {      /* z[at] is read by weight i of the part */
                const size_t place = at >= turn ? at - turn : at + m - turn;
                size_t i = part * m + place, to = at, more;
                n = at < turn ? TINYI_MIN((size_t)z1, turn) - at : (size_t)z1 - at;
                more = n;
                if (i < low) {
                    if (low - i >= more) continue;
                    to += low - i;
                    more -= low - i;
                    i = low;
                }
                if (i >= high) continue;
                if (more > high - i) more = high - i;
                tinyi_share_signs(s, i / TINYI_SHARE_BLOCK,
                                  (i % TINYI_SHARE_BLOCK + more + TINYI_SHARE_BLOCK - 1) / TINYI_SHARE_BLOCK, sign);
                j->kernels->add(j->dz + to, j->dw + (i - low), sign, i % TINYI_SHARE_BLOCK, more, j->lambda);
            }
        }
    }
}

/* TILE and HASH: a row with signs and lambda, then number by number to its place; one thread. own as for rows */
static void tinyi_share_spread_team(tiny_team *team, void *arg)
{
    const tinyi_share_job *j = (const tinyi_share_job *)arg;
    const tllm_share *s = j->s;
    const size_t wide = s->is.map == TLLM_SHARE_TILE ? (size_t)s->is.tile[0] : 1,
                 high = s->is.map == TLLM_SHARE_TILE ? (size_t)s->is.tile[1] : 1;
    uint32_t *sign = (uint32_t *)team->own;
    float *w = (float *)(void *)(sign + tinyi_share_room(j->cols));
    size_t r, c, n;
    if (team->i) return;
    for (r = 0; r < j->rows; r++) {
        const size_t first = s->first[j->k] + r * j->cols, place = first % TINYI_SHARE_BLOCK;
        tinyi_share_signs(s, first / TINYI_SHARE_BLOCK,
                          (place + j->cols + TINYI_SHARE_BLOCK - 1) / TINYI_SHARE_BLOCK, sign);
        j->kernels->put(w, j->dw + r * j->cols, sign, place, j->cols, j->lambda);
        for (c = 0; c < j->cols; c += wide) {
            float *to = j->dz + (wide > 1 || high > 1 ? tinyi_share_tile(s, j->k, r, c)
                                                      : tllm_share_at(s, first + c));
            for (n = 0; n < wide && c + n < j->cols; n++) to[n * high] += w[c + n];
        }
    }
}

static tinyi_share_job tinyi_share_job_of(const tllm_share *s, size_t k)
{
    tinyi_share_job j;
    memset(&j, 0, sizeof j);
    j.s = s;
    j.kernels = s->ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_share_kernels_of(s->ctx->k);
    j.k = k;
    j.rows = (size_t)s->matrix[k].rows;
    j.cols = (size_t)s->matrix[k].cols;
    j.lambda = tinyi_share_lambda(s, k);
    return j;
}

static tiny_status tinyi_share_rows(tinyi_share_job *j)
{
    const tllm_share *s = j->s;
    const int tiles = s->is.map == TLLM_SHARE_TILE && s->is.m <= s->n, alone = j->rows * j->cols < 65536 / (j->b + 1);
    size_t wide = tiles ? tinyi_share_across(s) : j->cols, own;
    if (!tinyi_size_mul(wide, tiles ? (size_t)s->is.tile[1] : 1, &own) ||
        !tinyi_size_add(own, tinyi_share_room(wide), &own) || !tinyi_size_mul(own, 4, &own))
        return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "share: rows of %zu numbers", j->cols);
    return tiny_parallel_loose(s->ctx, alone ? 1 : 0, 0, own, tiles ? tinyi_share_tiles_team : tinyi_share_rows_team,
                               j);
}

TINY_API tiny_status tllm_share_gather(const tllm_share *s, size_t k, const tiny_tensor *w)
{
    tinyi_share_job j;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_share_weights_check(s, k, w, TINY_F32, "the weights");
    if (st) return st;
    j = tinyi_share_job_of(s, k);
    j.w = (float *)w->data;
    if (j.kernels) return tinyi_share_rows(&j);
    tinyi_share_gather_ref(&j);
    return TINY_OK;
}

TINY_API tiny_status tllm_share_fold(const tllm_share *s, size_t k, const tiny_tensor *dw, float *dz)
{
    tinyi_share_job j;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if (!dz) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "share: a gradient of z is needed");
    st = tinyi_share_weights_check(s, k, dw, TINY_F32, "the gradient");
    if (st) return st;
    j = tinyi_share_job_of(s, k);
    j.dw = (const float *)dw->data;
    j.dz = dz;
    if (!j.kernels) {
        tinyi_share_fold_ref(&j);
        return TINY_OK;
    }
    if (s->is.map != TLLM_SHARE_FOLD && s->is.m <= s->n)
        return tiny_parallel_loose(s->ctx, 1, 0, 4 * (tinyi_share_room(j.cols) + j.cols), tinyi_share_spread_team, &j);
    return tiny_parallel_loose(s->ctx, j.rows * j.cols < 65536 ? 1 : 0, 0, 4 * tinyi_share_room(TINYI_SHARE_CELLS),
                               tinyi_share_cells_team, &j);
}

TINY_API tiny_status tllm_share_linear(const tllm_share *s, size_t k, const tiny_tensor *x, const tiny_tensor *y)
{
    tinyi_share_job j;
    if (!s) return TINY_E_ARGUMENT;
    if (k >= s->is.n_matrix)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "share: matrix %zu of %zu", k, s->is.n_matrix);
    j = tinyi_share_job_of(s, k);
    if (!x || !y || tiny_tensor_check(x) || tiny_tensor_check(y) || x->dtype != TINY_F32 || y->dtype != TINY_F32 ||
        x->rank != 2 || y->rank != 2 || x->dim[0] != y->dim[0] || (size_t)x->dim[1] != j.cols ||
        (size_t)y->dim[1] != j.rows || (j.cols > 1 && x->stride[1] != 1) || (j.rows > 1 && y->stride[1] != 1))
        return tinyi_fail(s->ctx, TINY_E_SHAPE,
                          "share: x must be (b, %zu) and y (b, %zu), f32 with dense rows, for matrix %zu", j.cols,
                          j.rows, k);
    j.b = (size_t)x->dim[0];
    if (!j.b) return TINY_OK;
    j.x = (const float *)x->data;
    j.y = (float *)y->data;
    j.x_step = x->stride[0];
    j.y_step = y->stride[0];
    if (j.kernels) return tinyi_share_rows(&j);
    tinyi_share_linear_ref(&j);
    return TINY_OK;
}

/* ---- z */

TINY_API tiny_status tllm_share_rates(const tllm_share *s, int scale, float *factor)
{
    double *sum;
    uint32_t *count;
    size_t i, k;
    if (!s) return TINY_E_ARGUMENT;
    if (!factor || scale < 0 || scale >= TLLM_SHARE_SCALES)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "share: scale %d of 0 to %d, and where to put the factors", scale,
                          TLLM_SHARE_SCALES - 1);
    sum = (double *)tinyi_alloc(s->ctx, s->is.m, sizeof *sum);
    count = sum ? (uint32_t *)tinyi_alloc(s->ctx, s->is.m, sizeof *count) : NULL;
    if (!count) {
        tiny_free(s->ctx, sum);
        return tiny_ctx_status(s->ctx);
    }
    for (i = 0; i < s->is.m; i++) {
        sum[i] = 0.0;
        count[i] = 0;
    }
    for (k = i = 0; i < s->n; i++) {
        const size_t at = tllm_share_at(s, i);
        double c;
        if (i >= s->first[k + 1]) k++;
        c = (double)tinyi_share_lambda(s, k);
        sum[at] += scale == TLLM_SHARE_SQUARES || scale == TLLM_SHARE_ROOT ? c * c : c;
        count[at]++;
    }
    for (i = 0; i < s->is.m; i++) {
        double a = sum[i];
        if (scale == TLLM_SHARE_LENGTH && count[i]) a = a * a / count[i];
        if (scale == TLLM_SHARE_MEAN && count[i]) a /= count[i];
        if (scale == TLLM_SHARE_ROOT) a = tinyi_sqrt64(a);
        if (scale == TLLM_SHARE_UNSCALED) a = 1.0;
        factor[i] = count[i] ? (float)(1.0 / (1e-12 + a)) : 0.0f;
    }
    tiny_free(s->ctx, count);
    tiny_free(s->ctx, sum);
    return TINY_OK;
}

TINY_API tiny_status tllm_share_set(tllm_share *s, const float *weight)
{
    double *sum;
    size_t i, k;
    if (!s) return TINY_E_ARGUMENT;
    if (!weight) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "share: weights are needed");
    sum = (double *)tinyi_alloc(s->ctx, 2 * s->is.m, sizeof *sum);
    if (!sum) return tiny_ctx_status(s->ctx);
    for (i = 0; i < 2 * s->is.m; i++) sum[i] = 0.0;
    for (k = i = 0; i < s->n; i++) {
        const size_t at = tllm_share_at(s, i);
        const double c = (double)tllm_share_factor(s, i);
        if (i >= s->first[k + 1]) k++;
        sum[2 * at] += c * (double)weight[i];
        sum[2 * at + 1] += c * c;
    }
    for (i = 0; i < s->is.m; i++)
        if (sum[2 * i + 1] > 0.0) s->z[i] = (float)(sum[2 * i] / sum[2 * i + 1]);
    tiny_free(s->ctx, sum);
    return TINY_OK;
}
