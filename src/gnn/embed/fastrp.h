/* src/gnn/embed/fastrp.h - node embeddings by very sparse random projection, without training
 *
 *   float *y = ...;                                          nodes x 128
 *   tiny_tensor t = tiny_tensor_2d(y, TINY_F32, n, 128);
 *   tgnn_fastrp(ctx, graph, NULL, &t);
 *
 * Each node gets the sum over k of weight[k - 1] U_k, with U_1 = P L R / sqrt(d) and U_k = P U_(k-1). P is the mean
 * over the edges into a node; give undirected graphs both directions. R is a sparse random matrix: one entry in s is
 * +-sqrt(s), the others are 0. L = diag((degree / sum of degrees)^beta). The same seed gives the same numbers for any
 * number of threads and any tile. */
#ifndef TINYI_FASTRP_H
#define TINYI_FASTRP_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_FASTRP_POWERS 16

typedef struct tgnn_fastrp_desc {           /* all zero: powers 2 and 3, rows of length 1, s = sqrt(nodes) */
    int n_weights;                          /* powers; 0: three, with the weights 0, 1, 1 */
    float weight[TGNN_FASTRP_POWERS];
    double s;                               /* 0: sqrt(nodes); at least 1. 3 is the denser choice */
    double beta; /* below 0 hubs weigh less; the authors try -1 .. 1. Fails if a factor is outside of 1e-30 .. 1e30
                  * (relative to the largest, if rows are scaled to length 1) */
    int adjacency;                          /* P = A instead of the mean */
    int no_l2;                              /* do not scale the rows of each U_k to length 1 */
    int raw;                                /* without the factor 1 / sqrt(d) */
    /* finally shift and scale each column to mean 0 and variance 1, as the authors' program does; a constant one is
     * 0 */
    int standardize;
    int tile; /* columns at a time, a multiple of 16; 0: all. 16 or 32 needs little more memory than y, but if rows are
               * scaled to length 1, everything is computed twice */
    uint64_t seed;
    const tiny_tensor *projection;          /* R itself (nodes, d), f32; NULL: drawn from seed */
} tgnn_fastrp_desc;

/* y (nodes, d) dense f32. Isolated nodes get zeros (before standardize). Edge weights must not be negative. A context
 * on target REFERENCE computes the formula in double, and needs memory for two matrices of that size. */
TINY_API tiny_status tgnn_fastrp(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_fastrp_desc *desc,
                                 const tiny_tensor *y);
/* Row j of R for d columns: writes up to d columns, ascending, to col and their signs (1 or -1) to sign. Returns their
 * number. */
TINY_API int tgnn_fastrp_row(uint64_t seed, uint64_t j, int d, double s, int32_t *col, int8_t *sign);

TINYI_C_END
#endif
