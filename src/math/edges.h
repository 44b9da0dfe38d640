/* src/math/edges.h - sums over the edges of a graph; math/edges_score.h has products along edges and attention
 *
 * A graph is a sparse matrix in CSR form: offset (n + 1, i64) and col (m, i32). The edges of row r are
 * offset[r] <= p < offset[r + 1], and edge p comes from row col[p] of a table. Weights and features of edges are in the
 * same order, one row for each edge. offset, col, w, e and att are dense; the other tensors have any strides. If all
 * tensors of numbers are f64 instead of f32, the reference runs.
 * Offsets and columns are checked while the operation runs. If a column is out of range or an offset decreases, the
 * call fails with a sentence and that row is zeros.
 *
 * heads: a row of h * c features is h heads of c; an edge has one number for each head. */
#ifndef TINYI_EDGES_H
#define TINYI_EDGES_H
#include "core/op.h"
#include "math/sparse.h"
TINYI_C_BEGIN

typedef enum tiny_edge_reduce {
    TINY_EDGE_SUM,
    TINY_EDGE_MEAN,
    TINY_EDGE_MAX,
    TINY_EDGE_MIN,
    TINY_EDGE_REDUCE_COUNT
} tiny_edge_reduce;

/* y[r] = reduce over the edges p of row r of w[p] act(x[col[p]] + e[p]); 0 for a row without edges. The mean divides by
 *   the number of edges. x (n_x, f) f32, y (n, f). col NULL: edge p comes from row p (a reduction over segments,
 *   x (m, f)). w (m) or (m, heads), NULL: ones. e (m, f), NULL: none. relu: act(v) is max(0, v), else v.
 *   max and min are NaN where one value is. */
typedef struct tiny_spmm_params { int reduce, relu; } tiny_spmm_params;
TINY_API tiny_status tiny_spmm(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *x, const tiny_tensor *col,
                               const tiny_tensor *w, const tiny_tensor *e, const tiny_spmm_params *params,
                               const tiny_tensor *y);
/* The same for a matrix a in CSR form. Its values are the weights. */
TINY_API tiny_status tiny_spmm_csr(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *x, tiny_edge_reduce reduce,
                                   const tiny_tensor *y);

#define TINYI_OPS_EDGES(ROW) ROW(SPMM, spmm)

#define TINYI_EDGE_CHUNK 64                 /* edges whose scores are held at once */
#define TINYI_EDGE_LANES 16                 /* of the widest target: the room that buffers have after their ends */

/* ---- inside: what the bodies share ---- */

/* positions of the inputs */
enum { TINYI_SPMM_X = 1, TINYI_SPMM_COL, TINYI_SPMM_W, TINYI_SPMM_E };

/* The operation as the kernels get it; rows are dense along their features. */
typedef struct tinyi_edges {
    const int32_t *col;                     /* NULL: p itself */
    int64_t m, ahead;                       /* edges of the whole matrix; how many before its use a row is fetched */
    const float *x, *then;                  /* rows of sources; rows that are wanted after the scores, NULL: none */
    ptrdiff_t x_row, then_row;
    size_t then_f;
    int askew;                              /* rows of x do not begin where lines of the cache do */
    size_t f, heads;
    const float *w, *e, *att;
    int reduce, relu, add;
    float scale, slope;
} tinyi_edges;

#define TINYI_EDGE_SCORES(heads) (TINYI_EDGE_CHUNK * (size_t)(heads) + TINYI_EDGE_LANES)
#define TINYI_EDGE_STATE(heads) ((3 + TINYI_EDGE_CHUNK) * ((size_t)(heads) + TINYI_EDGE_LANES))
#define TINYI_KERNELS_EDGES(K)                                                                                        \
    /* n rows of y: sum, or mean, over edges offset[i] .. offset[i + 1] of w[p] x[col[p]]; without e, relu, max and   \
     * min */                                                                                                         \
    K(spmm_f32, void, (float *y, ptrdiff_t y_row, const tinyi_edges *j, const int64_t *offset, tiny_idx n))           \
    /* one row of y, also with e, relu, max and min, but without the division of a mean; p0 < p1 */                   \
    K(spmm_any_f32, void, (float *y, const tinyi_edges *j, int64_t p0, int64_t p1))                                   \
    /* s[(p - p0) heads + h] */                                                                                       \
    K(sddmm_f32, void, (float *s, const tinyi_edges *j, const float *a, int64_t p0, int64_t p1))                      \
    /* n edges of one row; p may be s */                                                                              \
    K(segment_softmax_f32, void, (float *p, const float *s, size_t n, size_t heads))                                  \
    /* y = keep y + sum exp(s - max) x[col], max and keep as in softmax by chunks: first and last chunk of a row, the \
     * last divides by the sum; s: TINYI_EDGE_SCORES(heads) floats, overwritten; state: TINYI_EDGE_STATE(heads) */    \
    K(edge_mix_f32, void,                                                                                             \
      (float *y, float *state, float *s, const tinyi_edges *j, int64_t p0, int64_t p1, int first, int last))

TINYI_C_END
#endif
