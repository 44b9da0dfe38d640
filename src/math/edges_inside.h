/* src/math/edges_inside.h - what every operation along edges has: offsets, columns, sizes (edges.c) */
#ifndef TINYI_EDGES_INSIDE_H
#define TINYI_EDGES_INSIDE_H
#include "math/edges.h"
#include "math/table_inside.h"

typedef struct tinyi_edge_op {
    const int64_t *offset;
    const int32_t *col;                     /* NULL: none */
    tiny_idx n, n_x;                        /* rows, and rows of the table that col points into */
    int64_t m;
    int64_t grain;
    tiny_idx pieces;
} tinyi_edge_op;

TINYI_FN void tinyi_edge_read(tinyi_edge_op *o, const tiny_tensor *offset, const tiny_tensor *col, tiny_idx m,
                              tiny_idx n_x);
/* the first row that begins at work u or after */
TINYI_FN tiny_idx tinyi_edge_first(const tinyi_edge_op *o, tiny_idx piece);
TINYI_FN int tinyi_edge_refused(tiny_team *team, const tinyi_edge_op *o, tiny_idx r, const char *name);
/* Shapes that all share. m: edges; type: of all numbers; dense: what must lie so. */
TINYI_FN tiny_status tinyi_edge_shapes(tiny_ctx *ctx, const tiny_op *op, const char *name, const tiny_tensor *col,
                                       tiny_idx m, tiny_idx n_x, tiny_dtype type, const tiny_tensor *dense[3]);
/* where the kernels find the rows of x */
TINYI_FN void tinyi_edge_rows(tinyi_edges *j, const tiny_tensor *x);
/* f64 where the table that the edges point into is f64: the reference alone takes it, for gradients that are checked */
TINYI_FN tiny_status tinyi_edge_float(tiny_ctx *ctx, const char *name, const char *which, const tiny_tensor *t,
                                      tiny_dtype table);
/* longest row of the cases and of the bounds */
TINYI_FN double tinyi_edge_longest(const tiny_op *op);
TINYI_FN tiny_status tinyi_edge_call(tiny_ctx *ctx, int kind, const tiny_tensor *const in[6], const void *params,
                                     const tiny_tensor *out);
/* Bytes that m edges fetch of a table of n rows: one that stays in a near cache is read once. It is also what decides
 * whether a small graph is worth a second thread. */
TINYI_FN double tinyi_edge_bytes(double m, tiny_idx n, tiny_idx f);
/* offsets that ascend from 0 to limit; now and then a row takes half of all */
TINYI_FN void tinyi_edge_fill(tiny_case *c, int i_input, void *data);
/* offset and col of a case with n rows, m edges and a table of n_x rows; i_col: where col stands */
TINYI_FN void tinyi_edge_case(tiny_case *c, tiny_idx n, tiny_idx m, tiny_idx n_x, int i_col);

#endif
