/* src/gnn/quant/nibble.c - chooses the loops over codes for the target */
#include "gnn/quant/nibble_inside.h"

TINYI_TABLE_CHOICE(tinyi_nibble_kernels, tinyi_nibble_kernels)
