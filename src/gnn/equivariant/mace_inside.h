/* src/gnn/equivariant/mace_inside.h - what the files of MACE share: a model, its packed form, the kernels
 *
 * Numbers of an atom stand as (component, channel): row l l + l + m of a feature holds that component of all channels.
 * In packed form a row has `width` numbers, the channels and zeros up to a whole number of panels of two vectors. */
#ifndef TINYI_GNN_MACE_H
#define TINYI_GNN_MACE_H
#include "gnn/equivariant/mace.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

#define TINYI_MACE_NAME 40
#define TINYI_MACE_SIDE (TGNN_MACE_L + 1)

typedef struct tinyi_mace_param {
    char name[TINYI_MACE_NAME];
    int rank;
    tiny_idx dim[3];
    double *value;
} tinyi_mace_param;

/* One coupling of a layer: features of degree l1, harmonics of l2, message of l3. Its message has the rows from `row`
 * on. Its coefficients for an edge, (2 l1 + 1, 2 l3 + 1) numbers, stand from `at` on. */
typedef struct tinyi_mace_path { int l1, l2, l3, row, at; } tinyi_mace_path;
typedef struct tinyi_mace_term { int32_t k, m2; double value; } tinyi_mace_term;    /* c[k] += value * Y[m2] */
typedef struct tinyi_mace_paths {
    tinyi_mace_path *path;
    tinyi_mace_term *term;
    int n, n_terms, n_rows, n_coefs;
} tinyi_mace_paths;

/* Invariant polynomials of degree nu with values of degree L: n_k of them, term by term: component m of the value, up
 * to three components of x in rising order (-1: none), which polynomial. */
typedef struct tinyi_mace_basis { int n, n_k; int32_t (*term)[5]; double *value; } tinyi_mace_basis;

/* All contractions of a layer as one polynomial of each channel. Coefficients stand in this order: each line
 * (out += c x_i), then each row: out += x_i x_j (c + sum of c x_k). */
typedef struct tinyi_mace_line { int16_t out, i; } tinyi_mace_line;
typedef struct tinyi_mace_row { int16_t out, i, j, unused; int32_t first, end; } tinyi_mace_row;
typedef struct tinyi_mace_poly {
    int n_in, n_out, n_lines, n_rows, n_coefs;
    tinyi_mace_line *line;
    tinyi_mace_row *row;
    uint8_t *k;
    int32_t *at[TINYI_MACE_SIDE][3];        /* of each term of a basis: its coefficient */
} tinyi_mace_poly;

/* Rows of one type. Pointers are to numbers of it.
 *   rows       y[i] (+)= x[i] B for n rows: B (k, n_panels panels), packed panel by panel
 *   couple     c of an edge from its harmonics; uncouple: the gradient of that, added to that of the harmonics
 *   fold       a[m3] += sum over edges e and m1 of r[e] c[e][m1][m3] up[e][m1]: r (n, width), up[e] + up_at the rows
 *   unfold     its gradients for one edge: gx += , gc =, the result is that by the distance, dr the slope of r
 *   outer      s[m][k] = sum over edges of y[e][m] h[e][k], n_y a multiple of 4; outer_back its gradients
 *   poly       the contraction of one atom and its gradient by x (set, not added)
 *   muladd     y += a x for n rows, a one row
 *   silu       z = silu(z), dz *= its slope; dz may be NULL, n whole panels. NULL for float: math has its sigmoid */
typedef struct tinyi_mace_kernels {
    tiny_target from;
    int lanes;
    size_t bytes;
    void (*rows)(void *const *y, const void *const *x, int n, int k, const void *b, int n_panels, int add);
    void (*couple)(void *c, const void *y, const tinyi_mace_term *term, int n_terms, int n);
    void (*uncouple)(void *gy, const void *gc, const tinyi_mace_term *term, int n_terms);
    void (*fold)(void *a, int n3, int n1, size_t width, int n, const void *r, const void *const *up, size_t up_at,
                 const void *c, size_t c_step);
    double (*unfold)(void *gx, void *gc, int n3, int n1, size_t width, const void *r, const void *dr, const void *x,
                     const void *g, const void *c);
    void (*outer)(void *s, const void *const *h, const void *y, int n, int n_y, int width);
    double (*outer_back)(void *gy, const void *q, const void *h, const void *dh, const void *y, int n_y, int width);
    void (*poly)(void *out, const void *x, const tinyi_mace_poly *p, const void *coef, size_t width);
    void (*poly_back)(void *gx, const void *g, const void *x, const tinyi_mace_poly *p, const void *coef,
                      size_t width);
    void (*muladd)(void *y, const void *x, const void *a, int n, size_t width);
    double (*dot)(const void *x, const void *y, size_t n);
    void (*axpy)(void *y, const void *x, double a, size_t n);
    void (*silu)(double *z, double *dz, size_t n);
} tinyi_mace_kernels;
typedef struct tinyi_mace_pair { const tinyi_mace_kernels *of[2]; } tinyi_mace_pair;   /* float, double */
TINYI_TABLES(tinyi_mace_pair, tinyi_mace_pair)

/* The weights of one type for the elements of a structure, packed for the kernels. A matrix with a second pointer has
 * its transpose there. */
typedef struct tinyi_mace_matrix { const void *to, *back; } tinyi_mace_matrix;
typedef struct tinyi_mace_plan {
    const tinyi_mace_kernels *k;
    unsigned char *memory;
    size_t bytes, used;
    int n_local, local[TGNN_MACE_ELEMENTS], element[TGNN_MACE_ELEMENTS];    /* of an element of the model: or -1 */
    int width, panels, n_y;                 /* of a row; harmonics of an edge, a multiple of 4 */
    int radial[TGNN_MACE_RADIAL], read;     /* padded widths */
    const void *embed, *first;              /* (n_local, width): the features; those of the first layer's messages */
    tinyi_mace_matrix up[TGNN_MACE_LAYERS][TINYI_MACE_SIDE], out[TGNN_MACE_LAYERS][TINYI_MACE_SIDE];
    tinyi_mace_matrix hide[TGNN_MACE_LAYERS][TGNN_MACE_RADIAL];
    tinyi_mace_matrix *weight[TGNN_MACE_LAYERS];    /* of each path: from the last hidden layer */
    tinyi_mace_matrix *mix[TGNN_MACE_LAYERS];       /* (n_local or 1, paths) */
    tinyi_mace_matrix *skip[TGNN_MACE_LAYERS];      /* (n_local, SIDE); residual layers only */
    const void **coef[TGNN_MACE_LAYERS];            /* (n_local) */
    const void *readout[TGNN_MACE_LAYERS];          /* one row each; the last one's is the row after its hidden layer */
    tinyi_mace_matrix readin;
} tinyi_mace_plan;

struct tgnn_mace {
    tiny_ctx *ctx;
    tgnn_mace_desc desc;
    int place[TGNN_MACE_ELEMENTS + 1];      /* of an atomic number among the elements; -1: not there */
    tinyi_mace_paths paths[TGNN_MACE_LAYERS];
    tinyi_mace_basis basis[TINYI_MACE_SIDE][3];
    tinyi_mace_poly poly[TGNN_MACE_LAYERS];
    tinyi_mace_param *param;
    int n_params;
    double *values, n_values;
    /* places in param */
    int energies, bessel, embed, radii, zbl, agnesi;
    int up[TGNN_MACE_LAYERS][TINYI_MACE_SIDE], radial[TGNN_MACE_LAYERS][TGNN_MACE_RADIAL + 1],
        mix[TGNN_MACE_LAYERS][TINYI_MACE_SIDE], skip[TGNN_MACE_LAYERS][TINYI_MACE_SIDE], density[TGNN_MACE_LAYERS],
        weight[TGNN_MACE_LAYERS][TINYI_MACE_SIDE][3], out[TGNN_MACE_LAYERS][TINYI_MACE_SIDE],
        readout[TGNN_MACE_LAYERS], readin;
    tinyi_mace_plan *plan[2];
};

/* the highest degree of the features before layer t, and after the last one for t = layers */
TINYI_FN int tinyi_mace_degree(const tgnn_mace_desc *d, int t);
TINYI_FN int tinyi_mace_nonlinear(const tgnn_mace_desc *d, int t);      /* the readout after layer t */
TINYI_FN tiny_status tinyi_mace_check(tiny_ctx *ctx, const char *what, tgnn_mace_desc *d);
/* A model of a checked description: its paths, and the lists of its parameters, all 0. Bases that are not given are
 * made. */
TINYI_FN tiny_status tinyi_mace_make(tiny_ctx *ctx, const tgnn_mace_desc *desc,
                                     tinyi_mace_basis given[TINYI_MACE_SIDE][3], const char *path, double most_values,
                                     tgnn_mace **out);
TINYI_FN tiny_status tinyi_mace_basis_make(tiny_ctx *ctx, int l_max, int l, int nu, tinyi_mace_basis *out);
TINYI_FN void tinyi_mace_basis_free(tiny_ctx *ctx, tinyi_mace_basis *b);
TINYI_FN tiny_status tinyi_mace_poly_make(tiny_ctx *ctx, const tgnn_mace *m, int t, tinyi_mace_poly *p);
/* coefficient `at` of every channel: to (n_coefs, channels) for an element of the model */
TINYI_FN void tinyi_mace_poly_fill(const tgnn_mace *m, int t, int element, double *to);
/* The plan for a structure's elements (a bit for each element of the model), made or reused. */
TINYI_FN tiny_status tinyi_mace_plan_for(tiny_ctx *ctx, tgnn_mace *m, int type, const unsigned char *present,
                                         const tinyi_mace_plan **out);
/* The radial basis at a distance of two elements of the model and its slope, n_bessel numbers each, and in cut[2] what
 * the last hidden layer and the density are still multiplied by: 1, or with `late` the cutoff and its slope. */
TINYI_FN void tinyi_mace_radial(const tgnn_mace *m, int z1, int z2, double r, double *b, double *db, double *cut);
/* the repulsion of a pair, and its slope */
TINYI_FN double tinyi_mace_repel(const tgnn_mace *m, int z1, int z2, double r, double *slope);

TINYI_C_END
#endif
