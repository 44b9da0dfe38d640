/* src/math/fft_way.c - the fast form of Fourier transforms: ways, tables, rows; papers, formula and bounds are in
 * math/fft.c */
#include "math/fft_way_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_FFT_MAX_PRIME 31

float *tinyi_fft_row(const tinyi_fft_side *s, tiny_idx row)
{
    tiny_idx a = row % s->n[2], b = row / s->n[2] % s->n[1], c = row / s->n[2] / s->n[1];
    return s->data + a * s->stride[2] + b * s->stride[1] + c * s->stride[0];
}

/* the radices of n into radix[]; 0: a prime above 31 */
static int tinyi_fft_factor_of(size_t n, unsigned char *radix)
{
    size_t p, twos = 0;
    int k = 0;
    for (; n > 1 && n % 2 == 0; n /= 2) twos++;
    for (; twos >= 3 && twos != 4; twos -= 3) radix[k++] = 8;
    for (; twos >= 2; twos -= 2) radix[k++] = 4;
    if (twos) radix[k++] = 2;
    for (p = 3; p <= TINYI_FFT_MAX_PRIME && n > 1; p += 2)
        for (; n % p == 0; n /= p) radix[k++] = (unsigned char)p;
    return n <= 1 ? k : 0;
}

int tinyi_fft_smooth(size_t n)
{
    unsigned char radix[TINYI_FFT_PASSES];
    return n <= 1 || tinyi_fft_factor_of(n, radix) > 0;
}

/* The largest divisor of n up to the lanes. Of those between 8 and 16, only 10 has a transform of its own, and is
 * faster than the larger ones. */
static size_t tinyi_fft_split_of(size_t n, size_t lanes)
{
    size_t s = lanes;
    while (n % s || (s > 10 && s < 16 && n % 10 == 0)) s--;
    return s;
}

/* Least length >= at_least of factors 2, 3, 5 that is a multiple of the lanes. */
static size_t tinyi_fft_good(size_t at_least, size_t lanes)
{
    size_t best = SIZE_MAX, a, b;
    for (a = 1; a < best; a *= 5)
        for (b = a; b < best; b *= 3) {
            size_t c = b * lanes;
            while (c < at_least) c *= 2;
            if (c < best) best = c;
            if (b > at_least) break;
        }
    return best;
}

static size_t tinyi_fft_round(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* floats of one set of m numbers, with room for whole blocks */
static size_t tinyi_fft_set(const tinyi_fft_way *w) { return tinyi_fft_round(w->m, w->lanes) * 2 * w->lanes; }

/* Everything but the table. rows: how many there will be, 0 when nobody knows; columns: they lie side by side. */
static void tinyi_fft_way_of(tinyi_fft_way *w, size_t n, size_t n_real, size_t lanes, size_t rows, int columns)
{
    size_t at = 0, rest, z;
    int i;
    memset(w, 0, sizeof *w);
    w->n = n;
    w->n_real = n_real;
    w->lanes = lanes;
    if (!tinyi_fft_smooth(n)) {
        w->way = TINYI_FFT_CHIRP;
        w->conv = tinyi_fft_good(2 * n - 1, lanes);
        w->split = lanes;
        w->m = w->conv / lanes;
    } else {
        size_t split = tinyi_fft_split_of(n, lanes), fill = rows ? TINYI_MIN(rows, lanes) : 1;
        /* Numbers that each way handles a row. Split rows end in blocks of whole vectors, which is half of the work or
         * more; a batch of long rows leaves the second cache. */
        double by_split = (double)(n / split + tinyi_fft_round(n / split, lanes)) / 2,
               by_batch = (double)n / (double)fill * (n * lanes * 16 > 262144 ? 1.5 : 1.0);
        w->way = columns || lanes == 1 || by_batch < 0.8 * by_split ? TINYI_FFT_BATCH : TINYI_FFT_SPLIT;
        w->split = w->way == TINYI_FFT_BATCH ? 1 : split;
        w->m = w->way == TINYI_FFT_BATCH ? n : n / split;
    }
    w->n_passes = tinyi_fft_factor_of(w->m, w->radix);
    for (rest = w->m, i = 0; i < w->n_passes; i++) {
        size_t r = w->radix[i];
        rest /= r;
        w->twiddles[i] = at;
        at += 2 * (r - 1) * rest;
        w->roots[i] = at;
        if (r > 5 && r != 8) at += 2 * r;
    }
    if (w->way != TINYI_FFT_BATCH) {
        w->last_roots = at;
        at += 2 * w->split;
        at = tinyi_fft_round(at, 16);
        w->last = at;
        at += w->m * 2 * lanes;
    }
    if (w->way == TINYI_FFT_CHIRP) {
        w->chirp = at;
        at += 2 * n;
        w->spectrum = tinyi_fft_round(at, 16);
        at = w->spectrum + 2 * w->conv;
    }
    if (n_real) {
        w->real = at;
        at += 2 * (n / 2 + 1);
    }
    w->floats = tinyi_fft_round(at, 16);
    /* two sets of numbers, the two arrays of chirp, and rows on their way in and out */
    z = 2 * tinyi_fft_set(w) + (w->way == TINYI_FFT_CHIRP ? 2 * tinyi_fft_round(2 * w->conv, 16) : 0);
    w->own = z + (w->way == TINYI_FFT_BATCH && !columns ? lanes : 1) * 2 * tinyi_fft_round(2 * (n + 1), 16);
}

/* exp(-2 pi i k / n) as a product of two entries, in double */
typedef struct tinyi_fft_roots {
    double *low, *high;                     /* (64, 2), (n / 64 + 1, 2) */
    size_t n;
} tinyi_fft_roots;

static size_t tinyi_fft_roots_bytes(size_t n) { return (64 + n / 64 + 1) * 2 * sizeof(double); }

static void tinyi_fft_roots_make(tinyi_fft_roots *r, size_t n, void *memory)
{
    size_t k;
    r->n = n;
    r->low = (double *)memory;
    r->high = r->low + 128;
    for (k = 0; k < 64 && k < n; k++) tinyi_cis64(k, n, &r->low[2 * k], &r->low[2 * k + 1]);
    for (k = 0; k <= n / 64 && k * 64 < n; k++) tinyi_cis64(k * 64, n, &r->high[2 * k], &r->high[2 * k + 1]);
}

static void tinyi_fft_root(const tinyi_fft_roots *r, size_t k, float *re, float *im)
{
    const double *a = r->low + 2 * (k % 64), *b = r->high + 2 * (k / 64);
    *re = (float)(a[0] * b[0] - a[1] * b[1]);
    *im = (float)-(a[0] * b[1] + a[1] * b[0]);
}

/* the most roots that tinyi_fft_fill makes at a time */
size_t tinyi_fft_scratch(const tinyi_fft_way *w)
{
    size_t n = TINYI_MAX(w->way == TINYI_FFT_CHIRP ? TINYI_MAX(2 * w->n, w->conv) : w->n, w->n_real);
    return tinyi_fft_roots_bytes(n);
}

static void tinyi_fft_split_row(tiny_team *team, const tinyi_fft_way *w, const float *table, float *y, const float *x,
                                float scale, int swap, float *z);

void tinyi_fft_fill(tiny_team *team, const tinyi_fft_way *w, float *table, float *work, void *scratch)
{
    tinyi_fft_roots roots;
    size_t n = w->split * w->m, rest = w->m, p, t, l;
    int i;
    tinyi_fft_roots_make(&roots, n, scratch);
    for (i = 0; i < w->n_passes; i++) {
        size_t r = w->radix[i], step = n / rest;        /* the root of order `rest` is root `step` of order n */
        float *to = table + w->twiddles[i];
        rest /= r;
        for (p = 0; p < rest; p++)
            for (t = 1; t < r; t++, to += 2) tinyi_fft_root(&roots, p * t * step, to, to + 1);
        if (r > 5 && r != 8)
            for (t = 0, to = table + w->roots[i]; t < r; t++, to += 2) {
                tinyi_fft_root(&roots, n / r * t, to, to + 1);
                to[1] = -to[1];
            }
    }
    if (w->way != TINYI_FFT_BATCH) {
        float *to = table + w->last_roots;
        for (l = 0; l < w->split; l++, to += 2) {
            tinyi_fft_root(&roots, w->m * l, to, to + 1);
            to[1] = -to[1];
        }
        for (p = 0, to = table + w->last; p < w->m; p++, to += 2 * w->lanes)
            for (l = 0; l < w->lanes; l++) {
                if (l < w->split) tinyi_fft_root(&roots, l * p, to + l, to + w->lanes + l);
                else to[l] = to[w->lanes + l] = 0.0f;
            }
    }
    if (w->way == TINYI_FFT_CHIRP) {
        float *c = table + w->chirp, *s = table + w->spectrum;
        float *a = work + 2 * tinyi_fft_set(w);
        tinyi_fft_roots_make(&roots, 2 * w->n, scratch);
        for (p = 0, t = 0; p < w->n; t = (t + 2 * p + 1) % (2 * w->n), p++)
            tinyi_fft_root(&roots, t, c + 2 * p, c + 2 * p + 1);
        memset(a, 0, 2 * w->conv * sizeof *a);
        for (p = 0; p < w->n; p++) {        /* conj c, at p and at -p */
            a[2 * p] = c[2 * p];
            a[2 * p + 1] = -c[2 * p + 1];
            if (p == 0) continue;
            a[2 * (w->conv - p)] = a[2 * p];
            a[2 * (w->conv - p) + 1] = a[2 * p + 1];
        }
        tinyi_fft_split_row(team, w, table, s, a, (float)(1.0 / (double)w->conv), 0, work);
    }
    if (w->n_real) {
        float *to = table + w->real;
        tinyi_fft_roots_make(&roots, w->n_real, scratch);
        for (p = 0; p <= w->n / 2; p++, to += 2) tinyi_fft_root(&roots, p, to, to + 1);
    }
}

/* ---- one row, or one vector of rows */

/* the passes: from *z, the answer in *z again; *other is the room between */
static void tinyi_fft_numbers(tiny_team *team, const tinyi_fft_way *w, const float *table, float **z, float **other)
{
    const tinyi_fn_fft_pass pass = TINYI_K(team, fft_pass);
    size_t rest = w->m, s = 1;
    int i;
    for (i = 0; i < w->n_passes; i++) {
        float *t = *z;
        rest /= w->radix[i];
        pass(*other, *z, table + w->twiddles[i], table + w->roots[i], w->radix[i], rest, s);
        s *= w->radix[i];
        *z = *other;
        *other = t;
    }
}

/* y = scale * the transform of x, n = split * m values; z: room for two sets of numbers. y may be x. */
static void tinyi_fft_split_row(tiny_team *team, const tinyi_fft_way *w, const float *table, float *y, const float *x,
                                float scale, int swap, float *z)
{
    float *other = z + tinyi_fft_set(w);
    TINYI_K(team, fft_in)(z, x, w->m, (ptrdiff_t)(2 * w->split), w->split, swap);
    tinyi_fft_numbers(team, w, table, &z, &other);
    TINYI_K(team, fft_last)(y, z, table + w->last, table + w->last_roots, w->m, w->split, scale, swap);
}

static void tinyi_fft_chirp_row(tiny_team *team, const tinyi_fft_way *w, const float *table, float *y, const float *x,
                                float scale, int swap, float *z)
{
    const tinyi_fn_fft_mul mul = TINYI_K(team, fft_mul);
    float *a = z + 2 * tinyi_fft_set(w), *b = a + tinyi_fft_round(2 * w->conv, 16);
    mul(a, x, table + w->chirp, w->n, 1.0f, swap, 0);
    memset(a + 2 * w->n, 0, 2 * (w->conv - w->n) * sizeof *a);
    tinyi_fft_split_row(team, w, table, b, a, 1.0f, 0, z);
    mul(b, b, table + w->spectrum, w->conv, 1.0f, 0, 0);
    tinyi_fft_split_row(team, w, table, a, b, 1.0f, 1, z);
    mul(y, a, table + w->chirp, w->n, scale, 0, swap);
}

/* dense rows of n complex values: as many as the way takes at once */
static void tinyi_fft_rows(tiny_team *team, const tinyi_fft_way *w, const float *table, float *const *y,
                           const float *const *x, size_t n_rows, float scale, int swap, float *z)
{
    size_t r;
    if (w->way == TINYI_FFT_BATCH) {
        float *other = z + tinyi_fft_set(w);
        TINYI_K(team, fft_in_rows)(z, x, n_rows, w->n, swap);
        tinyi_fft_numbers(team, w, table, &z, &other);
        TINYI_K(team, fft_out_rows)(y, z, n_rows, w->n, scale, swap);
        return;
    }
    for (r = 0; r < n_rows; r++) {
        if (w->way == TINYI_FFT_SPLIT) tinyi_fft_split_row(team, w, table, y[r], x[r], scale, swap, z);
        else tinyi_fft_chirp_row(team, w, table, y[r], x[r], scale, swap, z);
    }
}

/* ---- a call on a team */

size_t tinyi_fft_at_once(const tinyi_fft_way *w) { return w->way == TINYI_FFT_BATCH ? w->lanes : 1; }

/* one row of x as dense complex values in `to`; or where it lies, when it is that already */
static const float *tinyi_fft_row_in(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w,
                                     const float *table, tiny_idx row, float *to, float *more)
{
    const tinyi_fft_side *s = &f->x;
    const float *x = tinyi_fft_row(s, row);
    size_t j, n = f->n, bins = n / 2 + 1;
    float *t;
    if (f->kind == TINY_FFT_COMPLEX) {
        if (s->pair == 1 && (s->step == 2 || n == 1)) return x;
        for (j = 0; j < n; j++, x += s->step) {
            to[2 * j] = x[0];
            to[2 * j + 1] = x[s->pair];
        }
        return to;
    }
    if (f->kind == TINY_FFT_REAL) {
        if (w->n_real && s->step == 1) return x;
        for (j = 0; j < n; j++, x += s->step) {
            if (w->n_real) to[j] = *x;
            else {
                to[2 * j] = *x;
                to[2 * j + 1] = 0.0f;
            }
        }
        return to;
    }
    if (w->n_real) {
        if (s->pair != 1 || s->step != 2) {
            for (j = 0, t = more; j < bins; j++, x += s->step, t += 2) {
                t[0] = x[0];
                t[1] = x[s->pair];
            }
            x = more;
        }
        TINYI_K(team, fft_unreal)(to, x, table + w->real, n / 2);
        return to;
    }
    for (j = 0; j < bins; j++, x += s->step) {
        to[2 * j] = x[0];
        to[2 * j + 1] = j && 2 * j != n ? x[s->pair] : 0.0f;
        if (j && 2 * j != n) {
            to[2 * (n - j)] = to[2 * j];
            to[2 * (n - j) + 1] = -to[2 * j + 1];
        }
    }
    return to;
}

/* where the transform may write row `row`: its place in y, or room when it needs more work */
static float *tinyi_fft_row_place(const tinyi_fft_shape *f, const tinyi_fft_way *w, tiny_idx row, float *room)
{
    const tinyi_fft_side *s = &f->y;
    if (f->kind == TINY_FFT_COMPLEX && s->pair == 1 && (s->step == 2 || f->n == 1)) return tinyi_fft_row(s, row);
    if (f->kind == TINY_FFT_REAL_INVERSE && w->n_real && s->step == 1) return tinyi_fft_row(s, row);
    return room;
}

static void tinyi_fft_row_out(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table,
                              tiny_idx row, float *from, float *more)
{
    const tinyi_fft_side *s = &f->y;
    float *y = tinyi_fft_row(s, row);
    size_t j, n = f->n;
    if (from == y) return;
    if (f->kind == TINY_FFT_REAL_INVERSE) {
        for (j = 0; j < n; j++, y += s->step) *y = from[w->n_real ? j : 2 * j];
        return;
    }
    if (f->kind == TINY_FFT_REAL) {
        if (w->n_real && s->pair == 1 && s->step == 2) {
            TINYI_K(team, fft_real)(y, from, table + w->real, n / 2);
            return;
        }
        if (w->n_real) {
            TINYI_K(team, fft_real)(more, from, table + w->real, n / 2);
            from = more;
        }
        n = n / 2 + 1;
    }
    for (j = 0; j < n; j++, y += s->step) {
        y[0] = from[2 * j];
        y[s->pair] = from[2 * j + 1];
    }
}

/* columns: axis `lead` of x and y runs from complex value to complex value */
static int tinyi_fft_columns(const tinyi_fft_shape *f)
{
    int a;
    if (f->kind != TINY_FFT_COMPLEX || f->x.pair != 1 || f->y.pair != 1 || f->n < 2) return -1;
    for (a = 2; a >= 0; a--)
        if (f->x.n[a] > 1 && f->x.stride[a] == 2 && f->y.stride[a] == 2) return a;
    return -1;
}

void tinyi_fft_way_for(tinyi_fft_way *w, tiny_fft_kind kind, size_t n, size_t lanes, size_t rows, int columns)
{
    const int halved = kind != TINY_FFT_COMPLEX && n % 2 == 0;
    const size_t m = halved ? n / 2 : n;
    tinyi_fft_way_of(w, m, halved ? n : 0, lanes, rows, columns && tinyi_fft_smooth(m));
}

void tinyi_fft_way_of_shape(tinyi_fft_way *w, const tinyi_fft_shape *f, size_t lanes)
{
    tinyi_fft_way_for(w, f->kind, f->n, lanes, (size_t)f->rows, tinyi_fft_columns(f) >= 0);
}

static void tinyi_fft_go_columns(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table,
                                 int axis)
{
    const tinyi_fn_fft_in in = TINYI_K(team, fft_in);
    const tinyi_fn_fft_out out = TINYI_K(team, fft_out);
    const int a = axis == 0 ? 1 : 0, b = axis == 2 ? 1 : 2;
    const tiny_idx lanes = (tiny_idx)w->lanes, strips = (f->x.n[axis] + lanes - 1) / lanes;
    tiny_idx t, t0, t1;
    while (tiny_take(team, strips * f->x.n[a] * f->x.n[b], 1, &t0, &t1))
        for (t = t0; t < t1; t++) {
            const tiny_idx c = t % strips * lanes, i = t / strips % f->x.n[a], j = t / strips / f->x.n[a];
            const size_t used = (size_t)TINYI_MIN(lanes, f->x.n[axis] - c);
            float *z = (float *)team->own, *other = z + tinyi_fft_set(w);
            in(z, f->x.data + 2 * c + i * f->x.stride[a] + j * f->x.stride[b], w->n, f->x.step, used, f->inverse);
            tinyi_fft_numbers(team, w, table, &z, &other);
            out(f->y.data + 2 * c + i * f->y.stride[a] + j * f->y.stride[b], z, w->n, f->y.step, used, (float)f->scale,
                f->inverse);
        }
}

void tinyi_fft_group(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table,
                     tiny_idx first)
{
    const size_t at_once = tinyi_fft_at_once(w), room = tinyi_fft_round(2 * (w->n + 1), 16);
    const size_t n_rows = (size_t)TINYI_MIN((tiny_idx)at_once, f->rows - first);
    float *z = (float *)team->own, *in = z + w->own - at_once * 2 * room, *out = in + at_once * room;
    const float *x[TINYI_FFT_LANES];
    float *y[TINYI_FFT_LANES];
    size_t r;
    for (r = 0; r < n_rows; r++) {
        x[r] = tinyi_fft_row_in(team, f, w, table, first + (tiny_idx)r, in + r * room, out + r * room);
        y[r] = tinyi_fft_row_place(f, w, first + (tiny_idx)r, out + r * room);
    }
    tinyi_fft_rows(team, w, table, y, x, n_rows, (float)f->scale, f->inverse, z);
    for (r = 0; r < n_rows; r++) tinyi_fft_row_out(team, f, w, table, first + (tiny_idx)r, y[r], in + r * room);
}

void tinyi_fft_go(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table)
{
    const tiny_idx at_once = (tiny_idx)tinyi_fft_at_once(w), groups = (f->rows + at_once - 1) / at_once,
                   grain = 32768 / ((tiny_idx)w->n * at_once) + 1;
    const int axis = tinyi_fft_columns(f);
    tiny_idx g, g0, g1;
    if (w->way == TINYI_FFT_BATCH && axis >= 0) {
        tinyi_fft_go_columns(team, f, w, table, axis);
        return;
    }
    while (tiny_take(team, groups, grain, &g0, &g1))
        for (g = g0; g < g1; g++) tinyi_fft_group(team, f, w, table, g * at_once);
}

