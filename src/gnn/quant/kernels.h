/* src/gnn/quant/kernels.h - the kernels of packed features for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#include "gnn/quant/nibble.simd.h"
#include "core/simd_unname.h"
