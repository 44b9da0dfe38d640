/* src/gnn/equivariant/product.h - products of two features that turn with space: one plan for every kind
 *
 *   tgnn_product_desc d = { 0 };                           Clebsch-Gordan, the cheapest form
 *   tgnn_product *p;
 *   d.kind = TGNN_PRODUCT_GAUNT;
 *   d.l1 = d.l2 = d.l3 = 4;
 *   tgnn_product_open(ctx, &d, &p);                        puts(tgnn_product_why(p));
 *   tgnn_product_run(ctx, p, &x, &y, NULL, &out);          x, y, out (n, c, 25): n features of c channels
 *   tgnn_product_close(ctx, p);
 *
 * A feature of degrees 0 .. L has (L + 1)^2 numbers for each channel, in the order of gnn/equivariant/harmonics.h.
 * Layouts are strides: (n, c, d) with the d numbers of a channel together, or tiny_tensor_swap(t, 1, 2) of (n, d, c)
 * with the channels together, which needs no transposition. A stride of 0 repeats: harmonics (n, 1, d)
 * of an edge for all channels, or weights for all samples.
 *
 * The kinds compute different functions, and their times compare only between those that compute the same one:
 *   CG       out = C[l1][l2][l3] x y for each path (l1, l2, l3): everything that can couple. All paths of one l3 are
 *            summed, or stand apart. DENSE and SPARSE are two ways to the same numbers.
 *   GAUNT    x and y as functions on the sphere, multiplied point by point: out = G x y, G the integral of three
 *            harmonics (norm: integral). One fixed weight for each path, and none where l1 + l2 + l3 is odd: no cross
 *            product. LIST, FOURIER and GRID are three ways to the same numbers.
 *   VECTOR   x and y as vector fields (degree l in harmonics of degree l + 1), their cross product at each point:
 *            the paths whose sum is odd
 *   MATRIX   x and y as matrices (2 m + 1)^2 with m = ceil((l1 + l2) / 2), multiplied: paths of both parities
 *   FOLD, CP the product of CG again, for one y to many channels of x, such as the harmonics of an edge: y (n, 1, d).
 *            FOLD makes the matrix T = M y once for a sample and multiplies it to the channels; exact. CP goes through
 *            factors of M (gnn/equivariant/cp.h); an approximation, which its bound describes.
 * Plans for irreps with weights are in gnn/equivariant/paths.h; they are of the same type. */
#ifndef TINYI_PRODUCT_H
#define TINYI_PRODUCT_H
#include "gnn/equivariant/so3.h"
#include "math/tape.h"
TINYI_C_BEGIN

enum {
    /* DENSE or SPARSE, and with `channels` FOLD, and with `cp` CP: whichever is the cheapest */
    TGNN_PRODUCT_CG,
    TGNN_PRODUCT_CG_DENSE,                  /* all numbers of C, zeros too */
    TGNN_PRODUCT_CG_SPARSE,                 /* those that are not 0 */
    TGNN_PRODUCT_GAUNT,                     /* LIST, FOURIER or GRID, whichever is the cheapest */
    TGNN_PRODUCT_GAUNT_LIST,                /* the numbers of G that are not 0 */
    TGNN_PRODUCT_GAUNT_FOURIER,             /* series in both angles, convolved */
    TGNN_PRODUCT_GAUNT_GRID,                /* values on a grid of the sphere */
    TGNN_PRODUCT_VECTOR,
    TGNN_PRODUCT_MATRIX,
    TGNN_PRODUCT_FOLD,                      /* of CG, all paths of a degree summed */
    TGNN_PRODUCT_CP,                        /* of CG, all paths, PLAIN, l1 = l2 = l3, by low-rank factors */
    TGNN_PRODUCT_KINDS,
    TGNN_PRODUCT_PATHS = TGNN_PRODUCT_KINDS /* of gnn/equivariant/paths.h */
};

enum {
    TGNN_PRODUCT_PLAIN,                     /* C as it is, sum of squares 1 */
    TGNN_PRODUCT_COMPONENT,                 /* times sqrt(2 l3 + 1): components of size 1 stay of size 1 */
    TGNN_PRODUCT_NORM                       /* times sqrt((2 l1 + 1)(2 l2 + 1)) */
};

typedef struct tgnn_product_desc {          /* all zero: numbers times numbers */
    int kind;                               /* TGNN_PRODUCT_... */
    int l1, l2, l3;                         /* degrees 0 .. l of x, y and the result, at most TGNN_L_MAX */
    /* of CG and FOLD; CP takes `weighted` with `shared` */
    int norm;                               /* TGNN_PRODUCT_PLAIN ... */
    int even;                               /* nonzero: only paths with l1 + l2 + l3 even */
    int apart;                              /* nonzero: a block of 2 l3 + 1 numbers for each path, in their order */
    int weighted;                           /* nonzero: each path has a weight for each channel */
    int shared;                             /* nonzero, with weighted: one weight for each channel, for all paths */
    /* how many channels of x there are for each of y; 0 and 1: y has its own for each. Any plan takes either y: the
     * number is for the choice of CG alone. */
    int channels;
    const struct tgnn_cp *cp;               /* for CP: it is copied. For CG: CP may be chosen too */
    /* of GAUNT_GRID and VECTOR: polar angles and azimuths of the grid; 0: the fewest that are exact */
    int n_polar, n_azimuth;
} tgnn_product_desc;

typedef struct tgnn_product tgnn_product;

/* Builds the plan. It never changes: threads and contexts may share it. Fails where a degree is not possible, where a
 * grid is too small to be exact, and where the plan would need more than TGNN_PRODUCT_REGISTERS numbers for a channel.
 * On failure *out is NULL. */
#define TGNN_PRODUCT_REGISTERS 8192
TINY_API tiny_status tgnn_product_open(tiny_ctx *ctx, const tgnn_product_desc *desc, tgnn_product **out);
TINY_API void tgnn_product_close(tiny_ctx *ctx, tgnn_product *product);     /* takes NULL */

/* The form that the plan has: never CG or GAUNT. -1 for NULL. */
TINY_API int tgnn_product_kind(const tgnn_product *product);
TINY_API const char *tgnn_product_kind_name(int kind);      /* "Gaunt by grid"; "?" for an unknown one */
/* A sentence: the form, and the cost of each that was considered: multiply-adds, and 4 for each sum. Valid as long as
 * the plan. */
TINY_API const char *tgnn_product_why(const tgnn_product *product);
/* multiply-adds for one channel of one sample (for irreps: for a sample) */
TINY_API double tgnn_product_operations(const tgnn_product *product);
/* How many numbers a channel of x, y, w or the result has (for irreps: a sample). */
enum { TGNN_PRODUCT_X, TGNN_PRODUCT_Y, TGNN_PRODUCT_W, TGNN_PRODUCT_OUT };
TINY_API tiny_idx tgnn_product_dim(const tgnn_product *product, int which);
/* Paths of CG, in the order of weights and of blocks: l1, l2, l3 of the i-th. Returns 0 past the end. */
TINY_API int tgnn_product_path(const tgnn_product *product, int i, int l[3]);

/* x (n, c, dim of x), y (n, c, dim of y) or (n, 1, dim of y), w (n, c, dim of w) or NULL where the plan has none, out
 * (n, c, dim of out); f32, any strides. f64 tensors are computed in double, by the reference. */
TINY_API tiny_status tgnn_product_run(tiny_ctx *ctx, const tgnn_product *product, const tiny_tensor *x,
                                      const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *out);
/* Gradients of a loss by x, y and w from that by out, g. dy has a row for each channel, and so must y: (n, c, dim of
 * y). dw is an empty tensor (n, c, 0) or NULL where the plan has no weights. */
TINY_API tiny_status tgnn_product_back(tiny_ctx *ctx, const tgnn_product *product, const tiny_tensor *x,
                                       const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *g,
                                       const tiny_tensor *dx, const tiny_tensor *dy, const tiny_tensor *dw);
/* The same on a tape. Keep the plan until the backward pass. */
TINY_API tiny_tensor tgnn_tape_product(tiny_tape *tape, const tgnn_product *product, const tiny_tensor *x,
                                       const tiny_tensor *y, const tiny_tensor *w);

/* The same for channels next to each other: x (n, dim of x, c), the result (n, dim of out, c). */
TINY_API tiny_tensor tgnn_tape_product_last(tiny_tape *tape, const tgnn_product *product, const tiny_tensor *x,
                                            const tiny_tensor *y, const tiny_tensor *w);
/* The same where channels are mixed, with one weight for all paths of each u, v and w: mode is TGNN_PATH_UVW ... of
 * gnn/equivariant/paths.h, x (n, u, dim of x), y (n, v, dim of y). The plan has no weights of its own.
 *   UVW   w (u, v, w)    out_w = sum over u, v of w[u][v][w] m(x_u, y_v)
 *   UVU   w (u, v)       out_u = sum over v of w[u][v] m(x_u, y_v)
 *   UVV   w (u, v)       out_v = sum over u
 *   UUW   w (u, w)       out_w = sum over u of w[u][w] m(x_u, y_u)
 *   UUU   w (u)          out_u = w[u] m(x_u, y_u)
 * The product is linear in x and in y, so all but UVW mix x, y or the results and make one product for each result. */
TINY_API tiny_tensor tgnn_tape_product_mode(tiny_tape *tape, const tgnn_product *product, int mode,
                                            const tiny_tensor *x, const tiny_tensor *y, const tiny_tensor *w);

/* ---- what a product can express (Y. Xie et al., 2025, sections 4 and 5)
 *
 * Give each degree of x, of y and of the result a number, and each path one where the plan has weights. The
 * expressivity is the rank of the derivative of the bilinear map by these numbers, at a random point. The
 * interactability is the set of degrees that the product couples. */
TINY_API tiny_status tgnn_product_expressivity(tiny_ctx *ctx, const tgnn_product *product, uint64_t seed, int *rank);
/* nonzero in couples[(l1 (L2 + 1) + l2) (L3 + 1) + l3] for each triple that couples; returns their number in *count */
TINY_API tiny_status tgnn_product_interactions(tiny_ctx *ctx, const tgnn_product *product, uint8_t *couples,
                                               int *count);

/* The plan of an operation, for its gradient; the program of a plan is not checked again. */
typedef struct tgnn_product_params { const tgnn_product *plan; } tgnn_product_params;
TINY_API const tiny_op_row *tgnn_product_row(void);
TINY_API const tiny_op_row *tgnn_product_back_row(void);
/* The operations of FOLD and CP where y has one channel. dim: numbers of a result of FOLD. plan: NULL, or for its
 * gradient. */
typedef struct tgnn_fold_params { const tgnn_product *plan; int dim; } tgnn_fold_params;
TINY_API const tiny_op_row *tgnn_product_fold_row(void);
TINY_API const tiny_op_row *tgnn_product_cp_row(void);

TINYI_C_END
#endif
