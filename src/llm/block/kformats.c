/* src/llm/block/kformats.c - Q2_K to Q6_K, IQ4_NL and IQ4_XS
 *
 * Data     256 values in groups of 16 or 32; a group has a small integer scale k under the half D of the block, and
 *          Q2_K, Q4_K, Q5_K also a small integer minimum m under the half M: y = D k q, or y = D k q - M m. IQ4: q goes
 *          through a table of 16 unequal steps. IQ4_NL is one group of 32 without k.
 * Search   minimises sum of w (x - y)^2, w the importance or 1, in three steps:
 *          1. each group by itself: codes for a series of trial scales; for each the scale (and minimum) of least
 *             squares given the codes. The best gives the wanted scale s and the curvature c = sum of w q^2.
 *          2. D is the half with the least sum of c (s - D k)^2, tried around (largest s) / k; M likewise.
 *          3. each group again: codes for the neighbouring integers k (and m) with their true errors; the least is
 *             kept. D from least squares given all codes is tried as well.
 * Cost     about 25 trials per value in step 1, 10 in step 3
 * Left out weights derived from the values, which some writers use without importance: the search would then not
 *          minimise the requested error */
#include "llm/block/kformats_inside.h"

TINY_REF_BEGIN

TINYI_FN int tinyi_q_weigh(const float *x, const float *importance, int n, float *y, float *w)
{
    float most = 0.0f, top = 0.0f;
    int i;
    for (i = 0; i < n; i++) {
        y[i] = tinyi_q_in(x[i]);
        if (tinyi_q_abs(y[i]) > most) most = tinyi_q_abs(y[i]);
        w[i] = 1.0f;
        if (importance && importance[i] > top) top = importance[i];
    }
    if (!(most > 9.3132257e-10f)) return 0; /* 2^-30; the least half is 2^-24 */
    if (top > 3e38f) top = 3e38f;
    if (top > 0.0f)
        for (i = 0; i < n; i++) {
            const float v = importance[i];
            w[i] = !(v > 0.0f) ? 0.0f : v >= top ? 1.0f : v / top;
            if (w[i] < 1e-9f) w[i] = 1e-9f; /* a value of no weight still likes its own neighbourhood best */
        }
    return 1;
}

TINYI_FN int tinyi_q_scales(const float *s, const float *c, int n, int lo, int hi, int odd, float *out)
{
    float most = 0.0f, cost[TINYI_Q_KEEP];
    uint16_t kept[TINYI_Q_KEEP];
    int g, side, i, u, n_kept = 0;
    for (g = 0; g < n; g++)
        if (tinyi_q_abs(s[g]) > tinyi_q_abs(most)) most = s[g];
    if (most == 0.0f) return 0;
    for (side = 0; side < (lo < 0 ? 2 : 1); side++) {
        const int end = side == (lo < 0) ? hi : lo, sign = end < 0 ? -1 : 1, tries = end * sign / 3 + 1;
        for (i = 0; i < tries && i < 14; i++) {
            const int k = end - sign * i;
            const uint16_t middle = tinyi_q_to_half(most / (float)(odd ? 2 * k + 1 : k));
            for (u = -1; u <= 1; u++) {
                const int magnitude = tinyi_q_clamp((middle & 0x7fff) + u, 1, 0x7bff);
                const uint16_t half = (uint16_t)((middle & 0x8000) | magnitude);
                const float d = tinyi_f16_to_f32(half), inverse = 1.0f / d;
                float sum = 0.0f;
                int at;
                for (g = 0; g < n; g++) {
                    float m = s[g] * inverse, off;
                    if (odd) m = (m - 1.0f) * 0.5f;
                    m = m < (float)lo ? (float)lo : m > (float)hi ? (float)hi : tinyi_q_nearest(m);
                    if (odd) m = 2.0f * m + 1.0f;
                    off = s[g] - d * m;
                    sum += c[g] * (off * off);
                }
                for (at = 0; at < n_kept && kept[at] != half; at++) { }
                if (at < n_kept) continue;
                for (at = n_kept; at > 0 && sum < cost[at - 1]; at--)
                    if (at < TINYI_Q_KEEP) { cost[at] = cost[at - 1]; kept[at] = kept[at - 1]; }
                if (at < TINYI_Q_KEEP) {
                    cost[at] = sum;
                    kept[at] = half;
                    if (n_kept < TINYI_Q_KEEP) n_kept++;
                }
            }
        }
    }
    for (g = 0; g < n_kept; g++) out[g] = tinyi_f16_to_f32(kept[g]);
    return n_kept;
}

/* The whole numbers from bottom to top nearest to (x - base) / scale; size is 16 or 32. */
static void tinyi_k_codes(const float *x, int size, float base, float inverse, float bottom, float top, float *q)
{
    int j, h;
    for (j = 0; j < size; j += 8)
        for (h = 0; h < 8; h++) {
            float v = (x[j + h] - base) * inverse;
            v = v > bottom ? v : bottom;
            v = v < top ? v : top;
            q[j + h] = (v + 12582912.0f) - 12582912.0f;
        }
}
/* The sums of w q, w q q, w q x: four of each at once, so that none waits for the one before. */
static void tinyi_k_sums(const float *x, const float *w, const float *q, int size, double *sums)
{
    double a[4] = { 0, 0, 0, 0 }, b[4] = { 0, 0, 0, 0 }, c[4] = { 0, 0, 0, 0 };
    int j, h;
    for (j = 0; j < size; j += 4)
        for (h = 0; h < 4; h++) {
            const double qj = (double)q[j + h], wq = (double)w[j + h] * qj;
            a[h] += wq;
            b[h] += wq * qj;
            c[h] += wq * (double)x[j + h];
        }
    sums[0] = (a[0] + a[1]) + (a[2] + a[3]);
    sums[1] = (b[0] + b[1]) + (b[2] + b[3]);
    sums[2] = (c[0] + c[1]) + (c[2] + c[3]);
}
/* The error of scale * q + base. */
static double tinyi_k_error(const float *x, const float *w, const float *q, int size, float scale, float base)
{
    double a[4] = { 0, 0, 0, 0 };
    int j, h;
    for (j = 0; j < size; j += 4)
        for (h = 0; h < 4; h++) {
            const float off = x[j + h] - (scale * q[j + h] + base);
            a[h] += (double)(w[j + h] * (off * off));
        }
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* ---- y = D k q --------------------------------------------------------------------------------------------------- */

static const signed char tinyi_k_steps[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* codes q from lo to hi (steps: values of the table), scales k from k_lo to k_hi */
typedef struct tinyi_k_even {
    int groups, size, steps, lo, hi, k_lo, k_hi;
    /* scales that put the largest value to lo (hi) times first, first + step, ... */
    struct { float first, step; int count; } trial[2];
} tinyi_k_even;

static const tinyi_k_even tinyi_k_q3 = { 16, 16, 0, -4, 3, -32, 31, { { 0.80f, 0.05f, 11 }, { 0.80f, 0.05f, 11 } } };
static const tinyi_k_even tinyi_k_q6 = {
    16, 16, 0, -32, 31, -128, 127, { { 0.93f, 0.01f, 11 }, { 0.93f, 0.01f, 11 } }
};
static const tinyi_k_even tinyi_k_iq4xs = { 8,   32,  1,  -127,
                                            113, -32, 31, { { 0.88f, 0.008f, 29 }, { 0.88f, 0.015f, 20 } } };
static const tinyi_k_even tinyi_k_iq4nl = {
    1, 32, 1, -127, 113, 1, 1, { { 0.88f, 0.008f, 29 }, { 0.88f, 0.015f, 20 } }
};

static const tinyi_k_even tinyi_k_q40 = { 1, 32, 0, -8, 7, 1, 1, { { 0.80f, 0.025f, 17 }, { 0.80f, 0.025f, 17 } } };
static const tinyi_k_even tinyi_k_q50 = { 1, 32, 0, -16, 15, 1, 1, { { 0.88f, 0.0125f, 17 }, { 0.88f, 0.0125f, 17 } } };

/* The place of the nearest step; v is between the first and the last. */
static int tinyi_k_place(float v)
{
    static const float middle[15] = { -115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                                      7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f };
    int i = v >= middle[7] ? 8 : 0;
    i += v >= middle[i + 3] ? 4 : 0;
    i += v >= middle[i + 1] ? 2 : 0;
    return i + (v >= middle[i] ? 1 : 0);
}

/* All halves from -127 to 113, and the step that what lies from there to the next half becomes: the middles are
 * halves. */
#define TINYI_K_STEP_AT 481
static void tinyi_k_step_table(float *table)
{
    int i;
    for (i = 0; i < TINYI_K_STEP_AT; i++) table[i] = (float)tinyi_k_steps[tinyi_k_place(0.5f * (float)i - 127.0f)];
}

/* What x / scale becomes, as numbers; codes are kept as such: a place is found again from its step. */
static void tinyi_k_values(const tinyi_k_even *f, const float *table, const float *x, float inverse, float *q)
{
    const float lo = (float)f->lo, hi = (float)f->hi;
    int j;
    if (!f->steps) {
        tinyi_k_codes(x, f->size, 0.0f, inverse, lo, hi, q);
        return;
    }
    for (j = 0; j < f->size; j++) {
        float v = x[j] * inverse;
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        q[j] = table[(int)(2.0f * v + 254.0f)];
    }
}

/* The wanted scale and its curvature, for trials that put the largest value to lo (end 0) and to hi (end 1); returns
 * what it gains. */
static double tinyi_k_even_group(const tinyi_k_even *f, const float *table, const float *x, const float *w, int ends,
                                 float *scale, float *curve)
{
    float most = 0.0f, s = 0.0f, c = 0.0f;
    double best = 0.0;
    int j, t, end;
    for (j = 0; j < f->size; j++)
        if (tinyi_q_abs(x[j]) > tinyi_q_abs(most)) most = x[j];
    *scale = *curve = 0.0f;
    if (!(tinyi_q_abs(most) > 1e-12f)) return 0.0;
    for (end = 0; end < 3; end++) {         /* 2: once more from the best */
        const int count = end < 2 ? f->trial[end].count : s != 0.0f;
        if (end < 2 && !(ends >> end & 1)) continue;
        for (t = -1; t < count; t++) {      /* plain first, so that it wins where others are equal */
            const float inverse = end == 2
                                      ? 1.0f / s
                                      : (float)(end ? f->hi : f->lo) *
                                            (t < 0 ? 1.0f : f->trial[end].first + f->trial[end].step * (float)t) / most;
            double xq, qq, sums[3];
            float q[32];
            if (end == 2 && t < 0) continue;
            tinyi_k_values(f, table, x, inverse, q);
            tinyi_k_sums(x, w, q, f->size, sums);
            qq = sums[1];
            xq = sums[2];
            if (qq > 0.0 && xq * xq > best * qq * (1.0 + 1e-9)) {
                best = xq * xq / qq;
                s = (float)(xq / qq);
                c = (float)qq;
            }
        }
    }
    *scale = s;
    *curve = c;
    return best;
}

/* Codes under the scale s, and their error. */
static double tinyi_k_even_codes(const tinyi_k_even *f, const float *table, const float *x, const float *w, float s,
                                 signed char *code)
{
    float q[32];
    int j;
    tinyi_k_values(f, table, x, s != 0.0f ? 1.0f / s : 0.0f, q);
    for (j = 0; j < f->size; j++) code[j] = (signed char)q[j];
    return tinyi_k_error(x, w, q, f->size, s, 0.0f);
}

/* All groups under D; returns the error. */
static double tinyi_k_even_block(const tinyi_k_even *f, const float *table, const float *x, const float *w,
                                 const float *s, const float *other, float d, int *k, signed char *code)
{
    const float inverse = 1.0f / d;
    signed char trial[32];
    double sum = 0.0;
    int g, t;
    for (g = 0; g < f->groups; g++) {
        const int at = g * f->size;
        double least = -1.0;
        int middle = 0;
        /* the integer next to the wish, its neighbours, and the one next to the other wish */
        for (t = 0; t < 4; t++) {
            int m;
            double e;
            if (t == 0 || t == 3) {
                float v = (t ? other[g] : s[g]) * inverse;
                v = v < (float)f->k_lo ? (float)f->k_lo : v > (float)f->k_hi ? (float)f->k_hi : v;
                middle = (int)tinyi_q_nearest(v);
            }
            m = middle + (t == 1 ? -1 : t == 2 ? 1 : 0);
            if (m < f->k_lo || m > f->k_hi) continue;
            e = tinyi_k_even_codes(f, table, x + at, w + at, d * (float)m, trial);
            if (least < 0.0 || e < least) {
                least = e;
                k[g] = m;
                memcpy(code + at, trial, (size_t)f->size);
            }
        }
        sum += least;
    }
    return sum;
}

/* Adds the half next to v to a list, once. */
static int tinyi_k_add(float *list, int n, float v)
{
    int i;
    v = tinyi_f16_to_f32(tinyi_q_to_half(v));
    for (i = 0; i < n && list[i] != v; i++) { }
    if (i < n || v == 0.0f) return n;
    list[n] = v;
    return n + 1;
}

/* Steps 1 to 3. Returns D; 0: the block is nothing, k and code are 0. */
static float tinyi_k_even_search(const tinyi_k_even *f, const float *table, const float *x, const float *importance,
                                 int *k, signed char *code)
{
    float y[256], w[256], s[16], c[16], other[16], d[2 * TINYI_Q_KEEP + 4], best_d = 0.0f;
    signed char trial[256];
    double least = -1.0, e;
    int trial_k[16], g, i, n;
    const int all = f->groups * f->size;
    memset(k, 0, (size_t)f->groups * sizeof *k);
    memset(code, 0, (size_t)all);
    if (!tinyi_q_weigh(x, importance, all, y, w)) return 0.0f;
    if (f->groups == 1) {                   /* no k: D of either sign, and its neighbours */
        for (i = n = 0; i < 2; i++) {
            (void)tinyi_k_even_group(f, table, y, w, 1 << i, s, c);
            for (g = tinyi_q_scales(s, c, 1, 1, 1, 0, d + n); g > 0; g--) n++;
        }
        n = tinyi_k_add(d, n, 5.9604645e-8f);
        n = tinyi_k_add(d, n, -5.9604645e-8f);
    } else {
        float most = 0.0f;
        for (g = 0; g < f->groups; g++) {
            float up_s, up_c;
            if (tinyi_k_even_group(f, table, y + g * f->size, w + g * f->size, 1, s + g, c + g) * (1.0 + 1e-9) >=
                tinyi_k_even_group(f, table, y + g * f->size, w + g * f->size, 2, &up_s, &up_c)) {
                other[g] = up_s;
            } else {
                other[g] = s[g];
                s[g] = up_s;
                c[g] = up_c;
            }
            if (tinyi_q_abs(s[g]) > tinyi_q_abs(most)) most = s[g];
        }
        n = tinyi_q_min(tinyi_q_scales(s, c, f->groups, f->k_lo, f->k_hi, 0, d), 2);
        n = tinyi_k_add(d, n, most / (float)f->k_lo);
        n = tinyi_k_add(d, n, most * (float)f->lo / (float)f->hi / (float)f->k_lo);
    }
    for (i = 0; i < n + 2; i++) {
        if (i >= n) {                       /* twice D of least squares, given the codes */
            double up = 0.0, down = 0.0;
            for (g = 0; g < all; g++) {
                const double q = (double)((f->groups == 1 ? 1 : k[g / f->size]) * code[g]);
                up += (double)w[g] * q * (double)y[g];
                down += (double)w[g] * q * q;
            }
            if (!(down > 0.0) || tinyi_k_add(d, i, (float)(up / down)) == i) break;
        }
        if (f->groups == 1) e = tinyi_k_even_codes(f, table, y, w, d[i], trial);
        else e = tinyi_k_even_block(f, table, y, w, s, other, d[i], trial_k, trial);
        if (least < 0.0 || e < least) {
            least = e;
            best_d = d[i];
            if (f->groups > 1) memcpy(k, trial_k, (size_t)f->groups * sizeof *k);
            memcpy(code, trial, (size_t)all);
        }
    }
    for (g = 0, e = 0.0; g < all; g++) e += (double)w[g] * (double)y[g] * (double)y[g];
    if (least >= 0.0 && least <= e) return best_d;
    memset(k, 0, (size_t)f->groups * sizeof *k);        /* so small that nothing at all is nearer */
    memset(code, 0, (size_t)all);
    return 0.0f;
}

/* ---- y = D k q - M m --------------------------------------------------------------------------------------------- */

/* codes 0..top, scales and minima 0..k_top */
typedef struct tinyi_k_uneven { int groups, size, top, k_top; } tinyi_k_uneven;

static const tinyi_k_uneven tinyi_k_q2 = { 16, 16, 3, 15 };
static const tinyi_k_uneven tinyi_k_q4 = { 8, 32, 15, 63 };
static const tinyi_k_uneven tinyi_k_q5 = { 8, 32, 31, 63 };

/* The best scale s and minimum m of a group, and the sums that give the cost of other ones. */
typedef struct tinyi_k_wish { double s, m, w, q, qq; } tinyi_k_wish;

static void tinyi_k_uneven_group(const tinyi_k_uneven *f, const float *x, const float *w, tinyi_k_wish *wish)
{
    float lowest = 0.0f, highest = x[0];
    double sw = 0.0, sx = 0.0, sxx = 0.0, best = -1.0;
    int j, t;
    const int trials = 54;                  /* 9 scales for each of 6 first values */
    /* in steps above the least */
    static const float at_first[7] = { 0.0f, 0.45f, -0.4f, 0.9f, 0.22f, -0.2f, 0.0f };
    const float first = f->top == 3    ? -0.75f
                        : f->top == 15 ? -1.0f
                                       : -1.6f,
                step = f->top == 3    ? 0.2f
                       : f->top == 15 ? 0.25f
                                      : 0.38f;
    for (j = 0; j < f->size; j++) {
        if (x[j] < lowest) lowest = x[j];
        if (x[j] > highest) highest = x[j];
        sw += (double)w[j];
        sx += (double)w[j] * (double)x[j];
        sxx += (double)w[j] * (double)x[j] * (double)x[j];
    }
    wish->w = sw;
    wish->s = wish->q = wish->qq = 0.0;
    wish->m = (double)-lowest;
    if (!(highest - lowest > 1e-12f)) return;
    /* plain first, so that it wins where others are equal; last twice more from the best */
    for (t = -1; t < trials + 2; t++) {
        const float spread = t < 0 ? 0.0f : first + step * (float)(t % 9);
        const float inverse = t >= trials ? 1.0f / (float)wish->s : ((float)f->top + spread) / (highest - lowest);
        const float base = t >= trials ? -(float)wish->m : lowest + at_first[t < 0 ? 0 : t / 9] / inverse;
        double sq, sqq, sxq, d, s, m, e, sums[3];
        float q[32];
        tinyi_k_codes(x, f->size, base, inverse, 0.0f, (float)f->top, q);
        tinyi_k_sums(x, w, q, f->size, sums);
        sq = sums[0];
        sqq = sums[1];
        sxq = sums[2];
        if (!(sqq > 0.0)) continue;
        d = sw * sqq - sq * sq;
        s = m = 0.0;
        if (d > sw * sqq * 1e-9) {
            s = (sw * sxq - sx * sq) / d;
            m = (sq * sxq - sqq * sx) / d;
        }
        if (!(s > 0.0) || m < 0.0) { m = 0.0; s = sxq / sqq; }
        if (!(s > 0.0)) continue;
        e = sxx + s * s * sqq + m * m * sw - 2.0 * (s * sxq - m * sx + s * m * sq);
        if (best < 0.0 || e < best - 1e-13 * sxx) {
            best = e < 0.0 ? 0.0 : e;
            wish->s = s;
            wish->m = m;
            wish->q = sq;
            wish->qq = sqq;
        }
        if (t == trials - 1 && !(wish->s > 0.0)) break;
    }
}

static double tinyi_k_uneven_codes(const tinyi_k_uneven *f, const float *x, const float *w, float s, float m,
                                   unsigned char *code)
{
    float q[32];
    int j;
    tinyi_k_codes(x, f->size, -m, s != 0.0f ? 1.0f / s : 0.0f, 0.0f, (float)f->top, q);
    for (j = 0; j < f->size; j++) code[j] = (unsigned char)(int)q[j];
    return tinyi_k_error(x, w, q, f->size, s, -m);
}

static int tinyi_k_whole(double v, int top) { return v < 0.0 ? 0 : v > (double)top ? top : (int)(v + 0.5); }

/* What a group loses by k and km instead of its wishes: sum of w (a q - b)^2 for the offs a and b of scale and minimum.
 * The best km for a given k makes up for the off of the scale. */
static double tinyi_k_uneven_loss(const tinyi_k_uneven *f, const tinyi_k_wish *wish, float d, float dm, int k, int *km)
{
    const double a = (double)d * k - wish->s;
    double b;
    *km = dm != 0.0f ? tinyi_k_whole((wish->m + a * wish->q / wish->w) / (double)dm, f->k_top) : 0;
    b = (double)dm * *km - wish->m;
    return a * a * wish->qq - 2.0 * a * b * wish->q + b * b * wish->w;
}

static double tinyi_k_uneven_block(const tinyi_k_uneven *f, const float *x, const float *w, const tinyi_k_wish *wish,
                                   float d, float dm, int *k, int *km, unsigned char *code)
{
    static const signed char around[9][2] = { { 0, 0 },   { 0, -1 }, { 0, 1 },  { -1, 0 }, { 1, 0 },
                                              { -1, -1 }, { 1, 1 },  { -1, 1 }, { 1, -1 } };
    unsigned char trial[32];
    double sum = 0.0;
    int g, t;
    for (g = 0; g < f->groups; g++) {
        const int at = g * f->size, middle = d != 0.0f ? tinyi_k_whole(wish[g].s / (double)d, f->k_top) : 0;
        double least = -1.0;
        for (t = 0; t < 9; t++) {
            const int a = middle + around[t][0];
            int b;
            double e;
            if (a < 0 || a > f->k_top || (d == 0.0f && a)) continue;
            (void)tinyi_k_uneven_loss(f, wish + g, d, dm, a, &b);
            b += around[t][1];
            if (b < 0 || b > f->k_top || (dm == 0.0f && b)) continue;
            e = tinyi_k_uneven_codes(f, x + at, w + at, d * (float)a, dm * (float)b, trial);
            if (least < 0.0 || e < least) {
                least = e;
                k[g] = a;
                km[g] = b;
                memcpy(code + at, trial, (size_t)f->size);
            }
        }
        sum += least;
    }
    return sum;
}

/* D and M of least squares, given codes and small integers. */
static int tinyi_k_uneven_refit(const tinyi_k_uneven *f, const float *x, const float *w, const int *k, const int *km,
                                const unsigned char *code, float *d, float *dm)
{
    double aa = 0.0, ab = 0.0, bb = 0.0, ax = 0.0, bx = 0.0, det;
    int i;
    for (i = 0; i < 256; i++) {
        const double a = (double)(k[i / f->size] * code[i]), b = (double)km[i / f->size], wi = (double)w[i],
                     xi = (double)x[i];
        aa += wi * a * a;
        ab += wi * a * b;
        bb += wi * b * b;
        ax += wi * a * xi;
        bx += wi * b * xi;
    }
    det = aa * bb - ab * ab;
    if (!(aa > 0.0)) return 0;
    if (det > aa * bb * 1e-9) {
        ax = (ax * bb - bx * ab) / det;
        bx = (ax * ab - bx) / bb;
    } else {
        ax = (ax + (double)*dm * ab) / aa;
        bx = (double)*dm;
    }
    if (!(ax > 0.0) || bx < 0.0) return 0;
    *d = tinyi_f16_to_f32(tinyi_q_to_half((float)ax));
    *dm = tinyi_f16_to_f32(tinyi_q_to_half((float)bx));
    return 1;
}

#define TINYI_K_PICK 3                      /* pairs of D and M that are tried out */

static void tinyi_k_uneven_search(const tinyi_k_uneven *f, const float *x, const float *importance, float *best_d,
                                  float *best_m, int *k, int *km, unsigned char *code)
{
    float y[256], w[256], s[16], c[16], m[16], cm[16], d[TINYI_Q_KEEP + 1], dm[TINYI_Q_KEEP + 1],
        most = 0.0f, most_m = 0.0f, pick[TINYI_K_PICK + 3][2];
    tinyi_k_wish wish[16];
    unsigned char trial[256];
    int trial_k[16], trial_m[16], g, i, j, at, n, n_m, n_pick = 0;
    double least = -1.0, e, loss[TINYI_K_PICK];
    memset(k, 0, (size_t)f->groups * sizeof *k);
    memset(km, 0, (size_t)f->groups * sizeof *km);
    memset(code, 0, 256);
    *best_d = *best_m = 0.0f;
    if (!tinyi_q_weigh(x, importance, 256, y, w)) return;
    for (g = 0; g < f->groups; g++) {
        tinyi_k_uneven_group(f, y + g * f->size, w + g * f->size, wish + g);
        s[g] = (float)wish[g].s;
        c[g] = (float)wish[g].qq;
        m[g] = (float)wish[g].m;
        cm[g] = (float)wish[g].w;
        if (s[g] > most) most = s[g];
        if (m[g] > most_m) most_m = m[g];
    }
    n = tinyi_k_add(d, tinyi_q_scales(s, c, f->groups, 0, f->k_top, 0, d), most / (float)f->k_top);
    n_m = tinyi_k_add(dm, tinyi_q_scales(m, cm, f->groups, 0, f->k_top, 0, dm), most_m / (float)f->k_top);
    if (!n) { d[0] = 0.0f; n = 1; }
    if (!n_m) { dm[0] = 0.0f; n_m = 1; }
    for (i = 0; i < n; i++)
        for (j = 0; j < n_m; j++) {
            for (g = 0, e = 0.0; g < f->groups; g++) {
                int b;
                e += tinyi_k_uneven_loss(f, wish + g, d[i], dm[j],
                                         d[i] != 0.0f ? tinyi_k_whole(wish[g].s / (double)d[i], f->k_top) : 0, &b);
            }
            for (at = n_pick; at > 0 && e < loss[at - 1]; at--)
                if (at < TINYI_K_PICK) {
                    loss[at] = loss[at - 1];
                    pick[at][0] = pick[at - 1][0];
                    pick[at][1] = pick[at - 1][1];
                }
            if (at < TINYI_K_PICK) {
                loss[at] = e;
                pick[at][0] = d[i];
                pick[at][1] = dm[j];
                if (n_pick < TINYI_K_PICK) n_pick++;
            }
        }
    pick[n_pick][0] = tinyi_f16_to_f32(tinyi_q_to_half(most / (float)f->k_top));     /* the largest ones exactly */
    pick[n_pick][1] = tinyi_f16_to_f32(tinyi_q_to_half(most_m / (float)f->k_top));
    n_pick++;
    for (i = 0; i < n_pick + 2; i++) {
        if (i >= n_pick) {                  /* twice what least squares makes of the codes */
            pick[i][0] = *best_d;
            pick[i][1] = *best_m;
            if (!tinyi_k_uneven_refit(f, y, w, k, km, code, &pick[i][0], &pick[i][1]) ||
                (pick[i][0] == *best_d && pick[i][1] == *best_m))
                break;
        }
        e = tinyi_k_uneven_block(f, y, w, wish, pick[i][0], pick[i][1], trial_k, trial_m, trial);
        if (least < 0.0 || e < least) {
            least = e;
            *best_d = pick[i][0];
            *best_m = pick[i][1];
            memcpy(k, trial_k, (size_t)f->groups * sizeof *k);
            memcpy(km, trial_m, (size_t)f->groups * sizeof *km);
            memcpy(code, trial, 256);
        }
    }
}

/* ---- Q4_0, Q5_0, Q4_1, Q5_1 with importance ---------------------------------------------------------------------- */

TINYI_FN float tinyi_q_search_even(const float *x, const float *importance, int bits, unsigned char *code)
{
    signed char value[32];
    /* one is written: as many as the search has, for compilers that do not see it */
    int k[16], j;
    const float d = tinyi_k_even_search(bits == 4 ? &tinyi_k_q40 : &tinyi_k_q50, NULL, x, importance, k, value);
    for (j = 0; j < 32; j++) code[j] = (unsigned char)(value[j] + (1 << (bits - 1)));
    return d;
}

TINYI_FN void tinyi_q_search_line(const float *x, const float *importance, int bits, float *d, float *m,
                                  unsigned char *code)
{
    const float top = (float)((1 << bits) - 1);
    float y[32], w[32], lowest, highest;
    double sw = 0.0, sx = 0.0, least = -1.0;
    int j, t;
    memset(code, 0, 32);
    *d = *m = 0.0f;
    if (!tinyi_q_weigh(x, importance, 32, y, w)) return;
    lowest = highest = y[0];
    for (j = 0; j < 32; j++) {
        if (y[j] < lowest) lowest = y[j];
        if (y[j] > highest) highest = y[j];
        sw += (double)w[j];
        sx += (double)w[j] * (double)y[j];
    }
    if (highest == lowest) {                /* one value: m the half below it, d what is left */
        uint16_t h = tinyi_q_to_half(lowest);
        if (tinyi_f16_to_f32(h) > lowest) h = (uint16_t)(h & 0x8000u ? h + 1 : h - 1);
        *m = tinyi_f16_to_f32(tinyi_q_to_half(tinyi_f16_to_f32(h)));
        *d = tinyi_f16_to_f32(tinyi_q_to_half(lowest - *m > 0.0f ? lowest - *m : 0.0f));
        memset(code, *d > 0.0f, 32);
        return;
    }
    for (t = 0; t < 62; t++) {              /* 12 scales for each of 5 first values, then twice from the best */
        const float step = (highest - lowest) / (top + (bits == 4 ? 0.25f : 0.5f) * (float)(t % 12 - 6));
        const float scale = t < 60 ? step : *d, base = t < 60 ? lowest + 0.4f * step * (float)(t / 12 - 1) : *m,
                    inverse = scale > 1e-12f ? 1.0f / scale : 0.0f;
        double sums[3], det, e;
        float td = 0.0f, tm, q[32];
        tinyi_k_codes(y, 32, base, inverse, 0.0f, top, q);
        tinyi_k_sums(y, w, q, 32, sums);
        det = sw * sums[1] - sums[0] * sums[0];
        if (det > sw * sums[1] * 1e-9)
            td = tinyi_f16_to_f32(tinyi_q_to_half((float)((sw * sums[2] - sx * sums[0]) / det)));
        if (td < 0.0f) td = 0.0f;
        tm = tinyi_f16_to_f32(tinyi_q_to_half((float)((sx - (double)td * sums[0]) / sw)));
        tinyi_k_codes(y, 32, tm, td > 0.0f ? 1.0f / td : 0.0f, 0.0f, top, q);
        e = tinyi_k_error(y, w, q, 32, td, tm);
        if (least < 0.0 || e < least) {
            least = e;
            *d = td;
            *m = tm;
            for (j = 0; j < 32; j++) code[j] = (unsigned char)(int)q[j];
        }
    }
}

/* ---- bytes: 2-bit codes of Q2_K and Q3_K ------------------------------------------------------------------------- */

/* Value i has its 2 bits in this byte, at this shift. */
static int tinyi_k_byte2(int i) { return i / 128 * 32 + i % 32; }
static int tinyi_k_shift2(int i) { return i / 32 % 4 * 2; }

TINYI_FN void tinyi_unpack_Q2_K(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int g, i;
    for (; n >= 256; n -= 256, x += 256, b += 84) {
        const float d = tinyi_q_half(b + 80), dm = tinyi_q_half(b + 82);
        for (g = 0; g < 16; g++) {
            const float s = d * (float)(b[g] & 15), m = dm * (float)(b[g] >> 4);
            const unsigned char *code = b + 16 + tinyi_k_byte2(16 * g);
            const int shift = tinyi_k_shift2(16 * g);
            for (i = 0; i < 16; i++) x[16 * g + i] = s * (float)(code[i] >> shift & 3) - m;
        }
    }
}
TINYI_FN void tinyi_q_put_Q2_K(unsigned char *b, const unsigned char *code)
{
    int i;
    memset(b + 16, 0, 64);
    for (i = 0; i < 256; i++)
        b[16 + tinyi_k_byte2(i)] = (unsigned char)(b[16 + tinyi_k_byte2(i)] | code[i] << tinyi_k_shift2(i));
}
TINYI_FN void tinyi_pack_Q2_K(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q, code[256];
    int k[16], m[16], i;
    float d, dm;
    for (; n >= 256; n -= 256, x += 256, b += 84, importance = importance ? importance + 256 : NULL) {
        tinyi_k_uneven_search(&tinyi_k_q2, x, importance, &d, &dm, k, m, code);
        for (i = 0; i < 16; i++) b[i] = (unsigned char)(k[i] | m[i] << 4);
        tinyi_q_put_Q2_K(b, code);
        tinyi_q_put_half(b + 80, d);
        tinyi_q_put_half(b + 82, dm);
    }
}

TINYI_FN int tinyi_q_scale_Q3_K(const unsigned char *b, int g)
{
    return ((g < 8 ? b[96 + g] & 15 : b[88 + g] >> 4) | (b[104 + g % 4] >> g / 4 * 2 & 3) << 4) - 32;
}
TINYI_FN void tinyi_unpack_Q3_K(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int g, i;
    for (; n >= 256; n -= 256, x += 256, b += 110) {
        const float d = tinyi_q_half(b + 108);
        for (g = 0; g < 16; g++) {
            const float s = d * (float)tinyi_q_scale_Q3_K(b, g);
            const unsigned char *code = b + 32 + tinyi_k_byte2(16 * g), *high = b + 16 * g % 32;
            const int shift = tinyi_k_shift2(16 * g), bit = g / 2;
            for (i = 0; i < 16; i++) x[16 * g + i] = s * (float)((code[i] >> shift & 3) - (high[i] >> bit & 1 ? 0 : 4));
        }
    }
}
TINYI_FN void tinyi_q_put_Q3_K(unsigned char *b, const signed char *code)
{
    int i;
    memset(b, 0, 96);
    for (i = 0; i < 256; i++) {
        unsigned char *low = b + 32 + tinyi_k_byte2(i), *high = b + i % 32;
        *low = (unsigned char)(*low | (code[i] & 3) << tinyi_k_shift2(i));
        if (code[i] >= 0) *high = (unsigned char)(*high | 1 << i / 32);
    }
}
TINYI_FN void tinyi_pack_Q3_K(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    signed char code[256];
    int k[16], i;
    for (; n >= 256; n -= 256, x += 256, b += 110, importance = importance ? importance + 256 : NULL) {
        const float d = tinyi_k_even_search(&tinyi_k_q3, NULL, x, importance, k, code);
        memset(b + 96, 0, 12);
        for (i = 0; i < 16; i++) {
            unsigned char *low = b + 96 + i % 8, *up = b + 104 + i % 4;
            *low = (unsigned char)(*low | ((k[i] + 32) & 15) << i / 8 * 4);
            *up = (unsigned char)(*up | (k[i] + 32) >> 4 << i / 4 * 2);
        }
        tinyi_q_put_Q3_K(b, code);
        tinyi_q_put_half(b + 108, d);
    }
}

/* ---- bytes: Q4_K and Q5_K ---------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_q_scale6(const unsigned char *s, int g, int *k, int *m)
{
    if (g < 4) {
        *k = s[g] & 63;
        *m = s[g + 4] & 63;
    } else {
        *k = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *m = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}
static void tinyi_k_put_scale6(unsigned char *s, const int *k, const int *m)
{
    int g;
    for (g = 0; g < 4; g++) {
        s[g] = (unsigned char)(k[g] | k[g + 4] >> 4 << 6);
        s[g + 4] = (unsigned char)(m[g] | m[g + 4] >> 4 << 6);
        s[g + 8] = (unsigned char)((k[g + 4] & 15) | (m[g + 4] & 15) << 4);
    }
}

static void tinyi_k_unpack45(const unsigned char *b, float *x, size_t n, int bits)
{
    const unsigned char *high = b + 16, *code = b + (bits == 5 ? 48 : 16);
    const size_t bytes = bits == 5 ? 176 : 144;
    int g, i, k, m;
    for (; n >= 256; n -= 256, x += 256, b += bytes, high += bytes, code += bytes) {
        const float d = tinyi_q_half(b), dm = tinyi_q_half(b + 2);
        for (g = 0; g < 8; g++) {
            const unsigned char *at = code + g / 2 * 32;
            const int shift = g % 2 * 4;
            float s, base;
            tinyi_q_scale6(b + 4, g, &k, &m);
            s = d * (float)k;
            base = dm * (float)m;
            if (bits == 5)
                for (i = 0; i < 32; i++)
                    x[32 * g + i] = s * (float)((at[i] >> shift & 15) | (high[i] >> g & 1) << 4) - base;
            else
                for (i = 0; i < 32; i++) x[32 * g + i] = s * (float)(at[i] >> shift & 15) - base;
        }
    }
}
TINYI_FN void tinyi_q_put45_K(unsigned char *b, const unsigned char *code, int bits)
{
    unsigned char *high = b + 16, *at = b + (bits == 5 ? 48 : 16);
    int i;
    for (i = 0; i < 128; i++)
        at[i] = (unsigned char)((code[i / 32 * 64 + i % 32] & 15) | (code[i / 32 * 64 + 32 + i % 32] & 15) << 4);
    if (bits != 5) return;
    memset(high, 0, 32);
    for (i = 0; i < 256; i++) high[i % 32] = (unsigned char)(high[i % 32] | code[i] >> 4 << i / 32);
}
static void tinyi_k_pack45(const float *x, unsigned char *b, size_t n, const float *importance, int bits)
{
    unsigned char code[256];
    const size_t bytes = bits == 5 ? 176 : 144;
    int k[16], m[16];
    float d, dm;
    for (; n >= 256; n -= 256, x += 256, b += bytes, importance = importance ? importance + 256 : NULL) {
        tinyi_k_uneven_search(bits == 5 ? &tinyi_k_q5 : &tinyi_k_q4, x, importance, &d, &dm, k, m, code);
        tinyi_q_put_half(b, d);
        tinyi_q_put_half(b + 2, dm);
        tinyi_k_put_scale6(b + 4, k, m);
        tinyi_q_put45_K(b, code, bits);
    }
}
TINYI_FN void tinyi_unpack_Q4_K(const void *q, float *x, size_t n)
{
    tinyi_k_unpack45((const unsigned char *)q, x, n, 4);
}
TINYI_FN void tinyi_unpack_Q5_K(const void *q, float *x, size_t n)
{
    tinyi_k_unpack45((const unsigned char *)q, x, n, 5);
}
TINYI_FN void tinyi_pack_Q4_K(const float *x, void *q, size_t n, const float *importance)
{
    tinyi_k_pack45(x, (unsigned char *)q, n, importance, 4);
}
TINYI_FN void tinyi_pack_Q5_K(const float *x, void *q, size_t n, const float *importance)
{
    tinyi_k_pack45(x, (unsigned char *)q, n, importance, 5);
}

/* ---- bytes: Q6_K ------------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_unpack_Q6_K(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int g, i;
    for (; n >= 256; n -= 256, x += 256, b += 210) {
        const float d = tinyi_q_half(b + 208);
        for (g = 0; g < 16; g++) {          /* group g: quarter g / 2 % 4 of half g / 8 */
            const int quarter = g / 2 % 4, nibble = quarter / 2 * 4;
            const unsigned char *low = b + g / 8 * 64 + quarter % 2 * 32 + g % 2 * 16,
                                *high = b + 128 + g / 8 * 32 + g % 2 * 16;
            const float s = d * (float)((b[192 + g] ^ 128) - 128);
            for (i = 0; i < 16; i++)
                x[16 * g + i] = s * (float)(((low[i] >> nibble & 15) | (high[i] >> 2 * quarter & 3) << 4) - 32);
        }
    }
}
TINYI_FN void tinyi_q_put_Q6_K(unsigned char *b, const signed char *code)
{
    int i;
    memset(b, 0, 192);
    for (i = 0; i < 256; i++) {
        const int quarter = i / 32 % 4, c = code[i] + 32;
        unsigned char *low = b + i / 128 * 64 + quarter % 2 * 32 + i % 32, *high = b + 128 + i / 128 * 32 + i % 32;
        *low = (unsigned char)(*low | (c & 15) << quarter / 2 * 4);
        *high = (unsigned char)(*high | c >> 4 << 2 * quarter);
    }
}
TINYI_FN void tinyi_pack_Q6_K(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    signed char code[256];
    int k[16], i;
    for (; n >= 256; n -= 256, x += 256, b += 210, importance = importance ? importance + 256 : NULL) {
        const float d = tinyi_k_even_search(&tinyi_k_q6, NULL, x, importance, k, code);
        tinyi_q_put_Q6_K(b, code);
        for (i = 0; i < 16; i++) b[192 + i] = (unsigned char)k[i];
        tinyi_q_put_half(b + 208, d);
    }
}

/* ---- bytes: IQ4 -------------------------------------------------------------------------------------------------- */

static void tinyi_k_unpack16(const unsigned char *code, float d, float *x)
{
    int j;
    for (j = 0; j < 16; j++) {
        x[j] = d * (float)tinyi_k_steps[code[j] & 15];
        x[j + 16] = d * (float)tinyi_k_steps[code[j] >> 4];
    }
}
static void tinyi_k_pack16(const signed char *value, unsigned char *b)
{
    int j;
    for (j = 0; j < 16; j++)
        b[j] = (unsigned char)(tinyi_k_place((float)value[j]) | tinyi_k_place((float)value[j + 16]) << 4);
}

TINYI_FN void tinyi_unpack_IQ4_NL(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    for (; n >= 32; n -= 32, x += 32, b += 18) tinyi_k_unpack16(b + 2, tinyi_q_half(b), x);
}
TINYI_FN void tinyi_pack_IQ4_NL(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    signed char value[32];
    float table[TINYI_K_STEP_AT];
    int k;
    tinyi_k_step_table(table);
    for (; n >= 32; n -= 32, x += 32, b += 18, importance = importance ? importance + 32 : NULL) {
        tinyi_q_put_half(b, tinyi_k_even_search(&tinyi_k_iq4nl, table, x, importance, &k, value));
        tinyi_k_pack16(value, b + 2);
    }
}

TINYI_FN void tinyi_unpack_IQ4_XS(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int g;
    for (; n >= 256; n -= 256, x += 256, b += 136) {
        const float d = tinyi_q_half(b);
        const int high = tinyi_q_u16(b + 2);
        for (g = 0; g < 8; g++) {
            const int k = (b[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
            tinyi_k_unpack16(b + 8 + 16 * g, d * (float)(k - 32), x + 32 * g);
        }
    }
}
TINYI_FN void tinyi_pack_IQ4_XS(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    signed char value[256];
    float table[TINYI_K_STEP_AT];
    int k[8], g;
    tinyi_k_step_table(table);
    for (; n >= 256; n -= 256, x += 256, b += 136, importance = importance ? importance + 256 : NULL) {
        const float d = tinyi_k_even_search(&tinyi_k_iq4xs, table, x, importance, k, value);
        unsigned high = 0;
        memset(b + 4, 0, 4);
        for (g = 0; g < 8; g++) {
            b[4 + g / 2] = (unsigned char)(b[4 + g / 2] | ((k[g] + 32) & 15) << g % 2 * 4);
            high |= (unsigned)((k[g] + 32) >> 4) << 2 * g;
            tinyi_k_pack16(value + 32 * g, b + 8 + 16 * g);
        }
        tinyi_q_put_half(b, d);
        tinyi_put_le16(b + 2, high);
    }
}

TINY_REF_END
