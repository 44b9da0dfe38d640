/* tests/llm/lab/vptq/vptq.h - layers for the tests of VPTQ, and a second reader of its bytes, written from the text of
 * src/llm/lab/vptq/vptq.h */
#ifndef T_VPTQ_H
#define T_VPTQ_H
#include "t.h"
#include <float.h>
#include <math.h>

/* ---- layers ------------------------------------------------------------------------------------------------------ */

typedef struct layer { tiny_idx rows, n; float *w; tllm_calib *calib; tiny_tensor h; } layer;

/* inputs that depend on each other, of different sizes: a mixture of n / 4 sources, and noise; one in five is `strong`
 * times as large */
T_FN layer make(tiny_ctx *ctx, tiny_idx rows, tiny_idx n, tiny_idx tokens, float noise, float strong)
{
    layer l;
    const tiny_idx causes = n / 4 + 1;
    float *mix = t_rand((size_t)(causes * n), -1, 1), *x = t_rand((size_t)(tokens * n), -noise, noise),
          *z = t_rand((size_t)(tokens * causes), -1, 1);
    tiny_idx t, i, k;
    memset(&l, 0, sizeof l);
    l.rows = rows;
    l.n = n;
    l.w = t_rand((size_t)(rows * n), -1, 1);
    for (t = 0; t < tokens; t++)
        for (i = 0; i < n; i++) {
            for (k = 0; k < causes; k++) x[t * n + i] += z[t * causes + k] * mix[k * n + i];
            if (i * 7 % 5 == 3) x[t * n + i] *= strong;
        }
    T_OK(tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &l.calib));
    T_OK(tllm_calib_add(ctx, l.calib, x, tokens, n));
    l.h = tllm_calib_products(l.calib);
    return l;
}
T_FN double h_at(const layer *l, tiny_idx i, tiny_idx j)
{
    return ((const double *)l->h.data)[i <= j ? i * l->n + j : j * l->n + i];
}
T_FN double loss_of(const layer *l, const float *v, double add)
{
    double sum = 0, mean = 0;
    tiny_idx r, i, j;
    for (i = 0; i < l->n; i++) mean += h_at(l, i, i) / (double)l->n;
    for (r = 0; r < l->rows; r++)
        for (i = 0; i < l->n; i++)
            for (j = 0; j < l->n; j++)
                sum += ((double)l->w[r * l->n + i] - (double)v[r * l->n + i]) *
                       ((double)l->w[r * l->n + j] - (double)v[r * l->n + j]) *
                       (h_at(l, i, j) + (i == j ? add * mean : 0));
    return sum;
}
T_FN float *expanded(tiny_ctx *ctx, const tllm_vptq *q)
{
    float *v = t_guarded((size_t)(q->rows * q->n));
    T_OK(tllm_vptq_expand(ctx, q, 0, q->rows, v, q->n));
    T_WALLS(v, 0);
    return v;
}
T_FN double *diagonal_h(tiny_idx n, double one)
{
    double *h = (double *)t_keep((size_t)(n * n) * sizeof *h);
    tiny_idx i;
    for (i = 0; i < n; i++) h[i * n + i] = one;
    return h;
}

/* ---- the second reader ------------------------------------------------------------------------------------------- */

typedef struct reader {
    const unsigned char *p;
    size_t bytes, index0, index, book, row0, row;
    tiny_idx rows, n, v, k, k2, groups, v0, k0, apart, wide;
    unsigned flags, width, width0, bits;
} reader;
T_FN uint64_t number_at(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    while (bytes--) x = x * 256 + p[bytes];
    return x;
}
T_FN unsigned log_up(tiny_idx k) { return (unsigned)ceil(log2((double)k) - 1e-9); }
T_FN double half_at(const unsigned char *p)
{
    const unsigned h = (unsigned)number_at(p, 2), e = h >> 10 & 31, m = h & 1023;
    const double x = e ? ldexp(1024.0 + m, (int)e - 25) : ldexp((double)m, -24);
    return h >> 15 ? -x : x;
}
T_FN uint32_t bits_at(const unsigned char *p, size_t bit, unsigned n)
{
    uint32_t x = 0;
    unsigned i;
    for (i = 0; i < n; i++) x |= (uint32_t)(p[(bit + i) / 8] >> (bit + i) % 8 & 1) << i;
    return x;
}
T_FN size_t order_bytes(const reader *r) { return r->flags & 1 ? (size_t)r->n * (r->n > 65536 ? 4 : 2) : 0; }
T_FN reader read_head(const unsigned char *p)
{
    reader r;
    size_t at;
    memset(&r, 0, sizeof r);
    r.p = p;
    r.flags = (unsigned)number_at(p + 12, 4);
    r.rows = (tiny_idx)number_at(p + 16, 8);
    r.n = (tiny_idx)number_at(p + 24, 8);
    r.v = (tiny_idx)number_at(p + 32, 4);
    r.k = (tiny_idx)number_at(p + 36, 4);
    r.k2 = (tiny_idx)number_at(p + 40, 4);
    r.groups = (tiny_idx)number_at(p + 44, 4);
    r.v0 = (tiny_idx)number_at(p + 48, 4);
    r.k0 = (tiny_idx)number_at(p + 52, 4);
    r.apart = (tiny_idx)number_at(p + 56, 8);
    r.wide = (r.n - r.apart) / r.groups;
    r.bits = log_up(r.k);
    r.width = r.bits + (r.k2 ? log_up(r.k2) : 0);
    r.width0 = r.apart ? log_up(r.k0) : 0;
    at = 80 + order_bytes(&r) + (r.flags & 2 ? 4 * (size_t)r.n : 0);
    r.index0 = (at + 3) / 4 * 4;
    r.row0 = ((size_t)r.apart * r.width0 + 31) / 32 * 4;
    r.row = ((size_t)r.wide * r.width + 31) / 32 * 4;
    r.index = r.index0 + (r.apart ? (size_t)((r.rows + r.v0 - 1) / r.v0) * r.row0 : 0);
    r.book = r.index + (size_t)r.groups * (size_t)((r.rows + r.v - 1) / r.v) * r.row;
    r.bytes = (r.book + 2 * (size_t)(r.k0 * r.v0 + r.groups * r.v * (r.k + r.k2)) + 3) / 4 * 4 + 8;
    return r;
}
T_FN uint32_t word_at(const reader *r, tiny_idx row, tiny_idx place)
{
    const tiny_idx g = (place - r->apart) / r->wide, high = (r->rows + r->v - 1) / r->v;
    if (place < r->apart)
        return bits_at(r->p + r->index0 + (size_t)(row / r->v0) * r->row0, (size_t)place * r->width0, r->width0);
    return bits_at(r->p + r->index + (size_t)(g * high + row / r->v) * r->row,
                   (size_t)((place - r->apart) % r->wide) * r->width, r->width);
}
T_FN tiny_idx input_at(const reader *r, tiny_idx place)
{
    const int each = r->n > 65536 ? 4 : 2;
    return r->flags & 1 ? (tiny_idx)number_at(r->p + 80 + (size_t)(place * each), each) : place;
}
/* w' by the description of the format, C + D and the rest in float, since the fast form and the reference must not
 * differ in it */
T_FN float weight_at(const reader *r, tiny_idx row, tiny_idx place)
{
    const uint32_t word = word_at(r, row, place);
    const size_t group = r->book + 2 * (size_t)(r->k0 * r->v0);
    float x;
    if (place < r->apart)
        x = (float)half_at(r->p + r->book + 2 * ((size_t)word * (size_t)r->v0 + (size_t)(row % r->v0)));
    else {
        const size_t at = group + 2 * (size_t)((place - r->apart) / r->wide * r->v * (r->k + r->k2)),
                     j = (size_t)(row % r->v);
        const uint32_t c1 = r->k2 ? word & ((1u << r->bits) - 1u) : word, c2 = r->k2 ? word >> r->bits : 0;
        x = (float)half_at(r->p + at + 2 * ((size_t)c1 * (size_t)r->v + j));
        if (r->k2)
            x = (float)((double)x +
                        half_at(r->p + at + 2 * (size_t)(r->k * r->v) + 2 * ((size_t)c2 * (size_t)r->v + j)));
    }
    if (r->flags & 2) {
        const unsigned char *s = r->p + 80 + order_bytes(r);
        const float scaled = (float)((double)x * half_at(s + 2 * place));
        x = (float)((double)scaled + half_at(s + 2 * (r->n + place)));
    }
    return x;
}

#endif
