/* src/gnn/ops.c - the operations of tinygnn.h, added to those of core and math, and the functions that use both */
#include "core/state_inside.h"
#include "gnn/ops.h"
#include "gnn/quant/a2q.h"
#include "gnn/equivariant/harmonics.h"
#include "gnn/equivariant/paths.h"
#include "gnn/operator/modes.h"
#include "gnn/operator/lines.h"


static const tiny_op_row *tinyi_gnn_row(int kind)
{
    switch (kind) {
    TINYI_OPS_GNN(TINYI_WING_CASE)
    default: return NULL;
    }
}

static const tinyi_wing tinyi_gnn_wing = { TGNN_OP_NONE + 1, TGNN_OP_END, tinyi_gnn_row };
static const tinyi_wing *const tinyi_gnn_wings[] = { &tinyi_gnn_wing, TINYI_WINGS_BEFORE NULL };
#undef TINYI_WINGS_BEFORE
#define TINYI_WINGS_BEFORE &tinyi_gnn_wing,

TINYI_DOORS(tinyi_gnn_wings)
