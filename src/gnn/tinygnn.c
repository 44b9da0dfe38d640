/* src/gnn/tinygnn.c - the .c files of src/gnn that have no header of their own, for the stitched header */
#include "gnn/tinygnn.h"
#ifdef TINYI_STITCHED
#include "gnn/train/pass.c"
#include "gnn/train/kit.c"
#include "gnn/train/nodes.c"
#include "gnn/train/graphs.c"
#include "gnn/train/links.c"
#include "gnn/train/tape_pool.c"
#include "gnn/quant/quant_file.c"
#include "gnn/equivariant/product_code.c"
#include "gnn/equivariant/product_kinds.c"
#include "gnn/equivariant/product_measure.c"
#include "gnn/equivariant/paths_conv.c"
#include "gnn/equivariant/paths_plan.c"
#include "gnn/operator/patches.c"
#include "gnn/operator/deeponet_fit.c"
#include "gnn/targets.c"
#endif
