/* src/llm/quant/lattice.h - super-blocks of 256 values out of code books: 8 or 4 values are one entry */
#ifndef TINYI_LATTICE_H
#define TINYI_LATTICE_H
#include "llm/quant/blocks.h"
TINYI_C_BEGIN

TINYI_Q_DECLARE(IQ1_S) TINYI_Q_DECLARE(IQ1_M) TINYI_Q_DECLARE(IQ2_XXS) TINYI_Q_DECLARE(IQ2_XS) TINYI_Q_DECLARE(IQ2_S)
TINYI_Q_DECLARE(IQ3_XXS) TINYI_Q_DECLARE(IQ3_S)

TINYI_C_END
#endif
