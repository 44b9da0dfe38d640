/* src/gnn/equivariant/paths_inside.h - what weighted products (paths.c), their sums over edges (paths_conv.c) and their
 * plans (paths_plan.c) share */
#ifndef TINYI_GNN_PATHS_H
#define TINYI_GNN_PATHS_H
#include "gnn/equivariant/product_inside.h"
#include "math/edges_inside.h"
TINYI_C_BEGIN

#define TINYI_TP_SIDE (2 * TGNN_L_MAX + 1)

/* inputs of the operations */
enum { TINYI_TP_X, TINYI_TP_Y, TINYI_TP_TABLE, TINYI_TP_ENTRY, TINYI_TP_VALUE, TINYI_TP_W, TINYI_TP_G = 5,
       TINYI_TP_BACK_W, TINYI_TC_OFFSET = 0, TINYI_TC_X, TINYI_TC_COL, TINYI_TC_Y, TINYI_TC_TABLE, TINYI_TC_ENTRY,
       TINYI_TC_VALUE, TINYI_TC_W };

typedef struct tinyi_tp_op {
    const tiny_tensor *x, *y, *w, *g;       /* w: NULL without weights */
    const tinyi_tp_path *path;
    const int32_t *entry;
    const double *value;
    tiny_idx n_paths, n_entries, n;         /* n: samples, or edges */
    int shared;                             /* one row of weights for all */
} tinyi_tp_op;

/* What a thread has: the values as floats, one row of shared weights without gaps, and blocks of lanes. */
typedef struct tinyi_tp_room { float *value, *weight, *x, *y, *w, *g, *dx, *dy, *dw, *t; } tinyi_tp_room;

typedef struct tinyi_tc_job {
    tinyi_tp_op o;
    tinyi_edge_op edges;
    const tinyi_product_kernels *k;
    tinyi_tp_room r;
    float *acc, *turned, *y, *w, *t, *room; /* rows of the result (2), of y and w, a matrix, a row of x */
    const float *x;
    tiny_idx x_row;
    int fold, last;
} tinyi_tc_job;

/* table: the three tensors of a plan */
TINYI_FN tinyi_tp_op tinyi_tp_read(const tiny_tensor *const *table, const tiny_tensor *x, const tiny_tensor *y,
                                   const tiny_tensor *w);
TINYI_FN int64_t tinyi_tp_weights(const tinyi_tp_path *p);
/* the number `at` of a result (axis 2), of dx (0) or of dy (1), from row zx of x and row z of the others */
TINYI_FN double tinyi_tp_number(const tinyi_tp_op *o, int axis, tiny_idx at, tiny_idx zx, tiny_idx z);
/* n rounded up to 16 */
TINYI_FN size_t tinyi_tp_padded(tiny_idx n);
TINYI_FN size_t tinyi_tp_room_floats(const tinyi_tp_op *o, tiny_idx d_out, int back);
TINYI_FN tinyi_tp_room tinyi_tp_room_of(const tinyi_tp_op *o, float *at, tiny_idx d_out, int lanes, int back);
/* rows z .. z + n - 1 side by side, zeros in the lanes after them */
TINYI_FN void tinyi_tp_in(const tiny_team *team, float *block, const tiny_tensor *t, tiny_idx z, tiny_idx n, int lanes);
TINYI_FN int tinyi_tp_mode_fits(const tinyi_tp_path *p);
/* checks every number of the tables */
TINYI_FN tiny_status tinyi_tp_tables(tiny_ctx *ctx, const char *name, const tiny_tensor *const *table, tiny_idx d1,
                                     tiny_idx d2, tiny_idx d3, const tiny_tensor *w);
/* checks a tensor of n rows, or of one */
TINYI_FN tiny_status tinyi_tp_rows(tiny_ctx *ctx, const char *name, const char *what, const tiny_tensor *t,
                                   tiny_dtype type, tiny_idx n, int one);
TINYI_FN double tinyi_tp_operations(const tinyi_tp_op *o);
TINYI_FN double tinyi_tp_terms_of(const tinyi_tp_op *o);
/* tables of a case of the kit, from input `table` on; d: numbers of x, y, result, weights */
TINYI_FN void tinyi_tp_case_tables(tiny_case *c, int table, int fold, tiny_idx d[4]);
TINYI_FN void tinyi_tp_back_op(tiny_op *back, const tiny_tensor *const *table, const tiny_tensor *x,
                               const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *g);
/* runs it into new scratch */
TINYI_FN tiny_status tinyi_tp_back_run(tiny_grad *g, tiny_op *back, tiny_tensor d[3]);
/* every path is UVU with one copy of y, and no two paths see the same numbers of x in two ways */
TINYI_FN int tinyi_tc_folds(const tinyi_tp_op *o);
/* one row of x, copies next to each other: in place, or in room */
TINYI_FN const float *tinyi_tc_row_of_x(const tiny_team *team, const tinyi_tp_op *o, tiny_idx row, int last, float *to,
                                        float *room);
/* acc += the product of such a row with rows p of y and w */
TINYI_FN void tinyi_tc_fold_row(tinyi_tc_job *j, const float *x, tiny_idx p);
TINYI_FN void tinyi_tc_row_out(const tiny_team *team, tinyi_tc_job *j, const tiny_tensor *out, tiny_idx row);
TINYI_FN void tinyi_tc_open(tinyi_tc_job *j, tinyi_tp_op o, const tiny_team *team, tiny_idx d_out);
TINYI_FN size_t tinyi_tc_floats(const tinyi_tp_op *o, tiny_idx d_out);

TINYI_C_END
#endif
