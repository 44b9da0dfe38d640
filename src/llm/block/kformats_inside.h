/* src/llm/block/kformats_inside.h - super-blocks of 256 values: groups with small scales under one or two halves */
#ifndef TINYI_KFORMATS_H
#define TINYI_KFORMATS_H
#include "llm/block/blocks_inside.h"
TINYI_C_BEGIN

TINYI_Q_DECLARE(Q2_K) TINYI_Q_DECLARE(Q3_K) TINYI_Q_DECLARE(Q4_K) TINYI_Q_DECLARE(Q5_K) TINYI_Q_DECLARE(Q6_K)
TINYI_Q_DECLARE(IQ4_NL) TINYI_Q_DECLARE(IQ4_XS)

TINYI_C_END
#endif
