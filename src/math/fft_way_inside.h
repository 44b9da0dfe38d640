/* src/math/fft_way_inside.h - how rows of a length are transformed: the way, its tables, and a call on a team
 *
 * fft.c looks at tensors and makes a tinyi_fft_shape of them; what stands here knows rows and strides only. */
#ifndef TINYI_FFT_WAY_H
#define TINYI_FFT_WAY_H
#include "math/fft.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

#define TINYI_FFT_LANES 16                  /* of the widest target */

typedef struct tinyi_fft_side {             /* one tensor: rows by up to three leading axes */
    float *data;
    tiny_idx n[3], stride[3];
    tiny_idx step, pair;                    /* from value to value, from real to imaginary part */
} tinyi_fft_side;

typedef struct tinyi_fft_shape {
    tiny_fft_kind kind;
    tinyi_fft_side x, y;
    tiny_idx rows;
    size_t n;                               /* length of the transform: of real rows their length */
    int inverse;
    double scale;
} tinyi_fft_shape;

enum { TINYI_FFT_BATCH, TINYI_FFT_SPLIT, TINYI_FFT_CHIRP };
#define TINYI_FFT_PASSES 64

typedef struct tinyi_fft_way {              /* offsets count floats from the start of its table */
    int way;
    size_t n, lanes;                        /* complex values a row; of a vector */
    /* transform of m numbers with `split` lanes in use; for chirp of the convolution */
    size_t split, m;
    size_t conv;                            /* M of chirp */
    size_t n_real;                          /* length of the real rows whose ends are unravelled; 0 for complex ones */
    int n_passes;
    unsigned char radix[TINYI_FFT_PASSES];
    size_t twiddles[TINYI_FFT_PASSES], roots[TINYI_FFT_PASSES];
    size_t last, last_roots, chirp, spectrum, real;
    size_t floats;                          /* of the table */
    size_t own;                             /* floats of workspace of one thread */
} tinyi_fft_way;

struct tiny_fft_plan {
    tinyi_fft_way way;
    tiny_fft_kind kind;
    size_t n, lanes;                        /* lanes: of the context's target */
    const tinyi_kernels *k;                 /* of the context, or narrower */
    tinyi_kernels *narrower;
    float *table;
};

/* The first value of a row. */
TINYI_FN float *tinyi_fft_row(const tinyi_fft_side *s, tiny_idx row);
TINYI_FN int tinyi_fft_smooth(size_t n);                                        /* no prime above 31 */
/* Everything but the table. rows: their number, 0 if unknown; columns: they are next to each other. */
TINYI_FN void tinyi_fft_way_for(tinyi_fft_way *w, tiny_fft_kind kind, size_t n, size_t lanes, size_t rows, int columns);
TINYI_FN void tinyi_fft_way_of_shape(tinyi_fft_way *w, const tinyi_fft_shape *f, size_t lanes);
/* The table, w->floats of them. work: w->own floats; scratch: tinyi_fft_scratch bytes. One thread. */
TINYI_FN void tinyi_fft_fill(tiny_team *team, const tinyi_fft_way *w, float *table, float *work, void *scratch);
TINYI_FN size_t tinyi_fft_scratch(const tinyi_fft_way *w);
/* All threads. own: w->own floats. */
TINYI_FN void tinyi_fft_go(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table);
/* rows [first, first + as many as the way takes at once) */
TINYI_FN void tinyi_fft_group(tiny_team *team, const tinyi_fft_shape *f, const tinyi_fft_way *w, const float *table,
                              tiny_idx first);
TINYI_FN size_t tinyi_fft_at_once(const tinyi_fft_way *w);

TINYI_C_END
#endif
