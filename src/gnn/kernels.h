/* src/gnn/kernels.h - the kernels that only tinygnn.h has, for one target; included once per pass, see core/target.h */
#include "core/simd.h"
#if !V_EXTRA && !V_AMX
#include "gnn/quant/nibble.simd.h"
#include "gnn/equivariant/harmonics.simd.h"
#include "gnn/equivariant/product.simd.h"
#include "gnn/equivariant/mace.simd.h"
#include "gnn/operator/modes.simd.h"
#include "gnn/operator/lines.simd.h"
#include "gnn/render/spikes.simd.h"
#endif
#include "core/simd_unname.h"
