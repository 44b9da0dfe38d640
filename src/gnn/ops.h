/* src/gnn/ops.h - the kinds of operations that tinygnn.h adds to those of core and math: see llm/ops.h */
#ifndef TINYI_GNN_OPS_H
#define TINYI_GNN_OPS_H
#include "core/op.h"
TINYI_C_BEGIN

/* ROW(kind, function that returns its row, 1 if it is in this program, else 0); add new operations at the end */
#define TINYI_OPS_GNN(ROW)                                                  \
    ROW(TGNN_OP_A2Q, tgnn_a2q_row, TINYI_HAS(QUANT))                                 \
    ROW(TGNN_OP_A2Q_BACK, tgnn_a2q_back_row, TINYI_HAS(QUANT))                       \
    ROW(TGNN_OP_SPH_HARM, tgnn_sph_harm_row, TINYI_HAS(EQUIVARIANT))                 \
    ROW(TGNN_OP_SPH_HARM_SLOPES, tgnn_sph_harm_slopes_row, TINYI_HAS(EQUIVARIANT))   \
    ROW(TGNN_OP_SPH_HARM_BACK, tgnn_sph_harm_back_row, TINYI_HAS(EQUIVARIANT))       \
    ROW(TGNN_OP_PRODUCT, tgnn_product_row, TINYI_HAS(EQUIVARIANT))                   \
    ROW(TGNN_OP_PRODUCT_BACK, tgnn_product_back_row, TINYI_HAS(EQUIVARIANT))         \
    ROW(TGNN_OP_PATHS, tgnn_paths_row, TINYI_HAS(EQUIVARIANT))                       \
    ROW(TGNN_OP_PATHS_BACK, tgnn_paths_back_row, TINYI_HAS(EQUIVARIANT))             \
    ROW(TGNN_OP_PATHS_CONV, tgnn_paths_conv_row, TINYI_HAS(EQUIVARIANT))             \
    ROW(TGNN_OP_MODES, tgnn_modes_row, TINYI_HAS(OPERATOR))                          \
    ROW(TGNN_OP_MODES_FIELD, tgnn_modes_field_row, TINYI_HAS(OPERATOR))              \
    ROW(TGNN_OP_MODES_MIX, tgnn_modes_mix_row, TINYI_HAS(OPERATOR))                  \
    ROW(TGNN_OP_PRODUCT_FOLD, tgnn_product_fold_row, TINYI_HAS(EQUIVARIANT))         \
    ROW(TGNN_OP_PRODUCT_CP, tgnn_product_cp_row, TINYI_HAS(EQUIVARIANT))         \
    ROW(TGNN_OP_LINES, tgnn_lines_row, TINYI_HAS(OPERATOR))                          \
    ROW(TGNN_OP_SPH_HARM_HESSIANS, tgnn_sph_harm_hessians_row, TINYI_HAS(EQUIVARIANT)) \
    ROW(TGNN_OP_SPH_HARM_TWICE, tgnn_sph_harm_twice_row, TINYI_HAS(EQUIVARIANT))

#define TINYI_GNN_KIND(kind, row, here) kind,
enum { TGNN_OP_NONE = TINY_OP_BASE_GNN, TINYI_OPS_GNN(TINYI_GNN_KIND) TGNN_OP_END };
#undef TINYI_GNN_KIND

TINYI_C_END
#endif
