/* src/gnn/targets.c - compiles the kernels that only tinygnn.h has, once for each target */
#include "gnn/quant/nibble_inside.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "gnn/equivariant/product_inside.h"
#include "gnn/equivariant/mace_inside.h"
#include "gnn/operator/modes_inside.h"
#include "gnn/operator/lines_inside.h"
#include "gnn/render/spikes_inside.h"
#include "core/target.h"

#define TINYI_PASS_FILE "gnn/kernels.h"
#include "core/each_target.h"
