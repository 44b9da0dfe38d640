/* src/gnn/operator/modes_inside.h - the kernels of modes, as modes.c calls them and each target has them
 *
 * A block holds `lanes` channels of a field, one in each lane: all values are vectors of them. Steps count floats. */
#ifndef TINYI_GNN_MODES_H
#define TINYI_GNN_MODES_H
#include "gnn/operator/modes.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

#define TINYI_MODES_LANES 16                /* of the widest target */

/* A line has n points; n / 2 + 1 of them are left when points i and n - i are joined.
 *   fold     s[i] = x[i] + x[n - i], d[i] = x[i] - x[n - i]; s = x and d = 0 at i = 0 and i = n / 2 (n even)
 *   unfold   y[i] = e[i] - o[i], y[n - i] = e[i] + o[i]
 *   dots     y[j] = sum over k of t[k][j][0] a[k], z[j] = sum over k of t[k][j][1] b[k]; t holds n_out pairs a row
 *   apart    the frequencies f and -f of a complex line from the dots of its real parts (r, s: cosines, sines) and its
 *            imaginary parts (q, p): (r + p, q - s) to up, (r - p, q + s) to down, which may be NULL
 *   pair     (u + v) to sum and (u - v) to difference; v NULL: u is both; u NULL: v, and -v to difference
 *   mix      y[c] = sum over k of x[k] w[k][c], complex, for up to TINYI_MODES_ROWS rows: imaginary parts are `pair`
 *            floats after the real ones; sign: that of the product of the imaginary parts, out: of the imaginary part
 *            of y
 * n_a numbers of x are dense, and so are n_c of w and y. */
#define TINYI_MODES_ROWS 2
typedef struct tinyi_modes_side { ptrdiff_t row, pair; } tinyi_modes_side;
typedef struct tinyi_modes_kernels {
    tiny_target from;
    int lanes;
    void (*fold)(float *s, float *d, const float *x, size_t n, ptrdiff_t step);
    void (*unfold)(float *y, const float *e, const float *o, size_t n, ptrdiff_t step);
    void (*dots)(float *y, float *z, size_t y_step, const float *a, const float *b, size_t a_step, const float *t,
                 size_t n_in, size_t n_out);
    void (*apart)(float *up, float *down, const float *r, const float *s, const float *q, const float *p);
    void (*pair)(float *sum, float *difference, const float *u, const float *v);
    void (*mix)(float *y, tinyi_modes_side ys, const float *x, tinyi_modes_side xs, const float *w, tinyi_modes_side ws,
                size_t k, size_t n_rows, size_t n_c, float sign, float out);
} tinyi_modes_kernels;
TINYI_TABLES(tinyi_modes_kernels, tinyi_modes_kernels)

TINYI_C_END
#endif
