/* src/gnn/quant/nibble.c - chooses among the loops over codes of each target */
#include "gnn/quant/nibble_inside.h"

TINYI_TABLE_CHOICE(tinyi_nibble_kernels, tinyi_nibble_kernels)
