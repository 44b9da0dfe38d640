/* src/gnn/equivariant/paths.h - weighted products of irreps, as e3nn's TensorProduct, and their sums over edges
 *
 *   tgnn_irrep in1[3], in2[3];                             "8x0e+6x1o+4x2e", "1x0e+1x1o+1x2e": tgnn_irreps_parse
 *   tgnn_paths_desc d = { 0 };
 *   tgnn_product *p;
 *   d.in1 = d.out = in1; d.in2 = in2; d.n_in1 = d.n_in2 = d.n_out = 3;
 *   tgnn_paths_open(ctx, &d, &p);                          every path, fully connected
 *   tgnn_paths_run(ctx, p, &x, &y, &w, &out);              x (n, 46), y (n, 9), w (1, 376), out (n, 46)
 *
 * out_w = coef sum_uv W_uvw C x_u y_v for each path, u, v, w copies of its three blocks. coef^2 = a f / s: a is 2 l3 +
 * 1 (component) or (2 l1 + 1)(2 l2 + 1) (norm); s is the sum, over the paths with the same result block, of
 *   UVW mul1 mul2   UVU mul2   UVV mul1   UUW mul1   UUU 1
 * (element), or this number of the path times the number of those paths (path); f is the factor of the path, e3nn's
 * path_weight. Weights stand path by path, each in the order of its letters that differ: (u, v, w), (u, v), (u, v),
 * (u, w), (u). */
#ifndef TINYI_PATHS_H
#define TINYI_PATHS_H
#include "gnn/equivariant/product.h"
TINYI_C_BEGIN

enum {
    TGNN_PATH_UVW,                          /* every pair of copies to every copy */
    TGNN_PATH_UVU,                          /* out_u from x_u and all y_v: mul3 = mul1 */
    TGNN_PATH_UVV,                          /* out_v from all x_u and y_v: mul3 = mul2 */
    TGNN_PATH_UUW,                          /* every x_u y_u to every copy: mul1 = mul2 */
    TGNN_PATH_UUU                           /* copy by copy: all three the same */
};
enum { TGNN_PATHS_COMPONENT, TGNN_PATHS_NORM };             /* of irreps */
enum { TGNN_PATHS_ELEMENT, TGNN_PATHS_PATH };               /* of paths */

typedef struct tgnn_path {
    int in1, in2, out;                      /* blocks, counted from 0 */
    int mode;                               /* TGNN_PATH_... */
    int unweighted;                         /* nonzero: no weights; not for UVW and UUW */
    double factor;                          /* 0: 1 */
} tgnn_path;

typedef struct tgnn_paths_desc {
    const tgnn_irrep *in1, *in2, *out;
    int n_in1, n_in2, n_out;
    const tgnn_path *path;                  /* NULL: UVW for every three blocks that couple */
    int n_path;
    int irrep_norm, path_norm;              /* TGNN_PATHS_... */
    int last;                               /* 0: a block is (mul, 2 l + 1), as in e3nn. Nonzero: (2 l + 1, mul) */
} tgnn_paths_desc;

/* Fails where a path joins blocks that do not couple: degrees, parity, or copies that its mode needs to be the same. */
TINY_API tiny_status tgnn_paths_open(tiny_ctx *ctx, const tgnn_paths_desc *desc, tgnn_product **out);
/* x (n, dim of x), y (n, dim of y), out (n, dim of out). w (n, weights) for each sample, (1, weights) for all, NULL
 * without weights. f32, any strides; f64 by the reference. Blocks of out without a path are 0. */
TINY_API tiny_status tgnn_paths_run(tiny_ctx *ctx, const tgnn_product *product, const tiny_tensor *x,
                                    const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *out);
/* Gradients by x, y and w from g, that by out. dw has the shape of w: for (1, weights) it is summed over the samples,
 * in the same order for any number of threads. NULL without weights. */
TINY_API tiny_status tgnn_paths_back(tiny_ctx *ctx, const tgnn_product *product, const tiny_tensor *x,
                                     const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *g,
                                     const tiny_tensor *dx, const tiny_tensor *dy, const tiny_tensor *dw);
TINY_API tiny_tensor tgnn_tape_paths(tiny_tape *tape, const tgnn_product *product, const tiny_tensor *x,
                                     const tiny_tensor *y, const tiny_tensor *w);

/* out[r] = the sum over the edges p of row r of the product of x[col[p]], y[p] and w[p]: offset (rows + 1) i64, col (m)
 * i32 as in math/edges.h, x (n, dim), y (m, dim), w (m, weights) or (1, weights), out (rows, dim). The products are
 * never stored. Fastest where all paths are UVU and y has one copy of each irrep, from 16 copies of x on. */
TINY_API tiny_status tgnn_paths_conv(tiny_ctx *ctx, const tgnn_product *product, const tiny_tensor *offset,
                                     const tiny_tensor *x, const tiny_tensor *col, const tiny_tensor *y,
                                     const tiny_tensor *w, const tiny_tensor *out);
/* On a tape. Its backward pass stores the rows of x and of the gradient for each edge. */
TINY_API tiny_tensor tgnn_tape_paths_conv(tiny_tape *tape, const tgnn_product *product, const tiny_tensor *offset,
                                          const tiny_tensor *x, const tiny_tensor *col, const tiny_tensor *y,
                                          const tiny_tensor *w);

typedef struct tgnn_paths_params { int dim; } tgnn_paths_params;            /* numbers of a result */
TINY_API const tiny_op_row *tgnn_paths_row(void);
TINY_API const tiny_op_row *tgnn_paths_back_row(void);
TINY_API const tiny_op_row *tgnn_paths_conv_row(void);

TINYI_C_END
#endif
