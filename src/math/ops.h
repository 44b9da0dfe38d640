/* src/math/ops.h - the kinds of operations of core and math */
#ifndef TINYI_OPS_H
#define TINYI_OPS_H
#include "core/op.h"
#include "math/binary.h"
#include "math/elem.h"
#include "math/convert.h"
#include "math/reduce.h"
#include "math/softmax.h"
#include "math/norm.h"
#include "math/matmul.h"
#include "math/layout.h"
#include "math/conv.h"
#include "math/sort.h"
#include "math/linalg.h"
#include "math/fft.h"
#include "math/fwht.h"
#include "math/attention.h"
#include "math/gla.h"
#include "math/gla_grad.h"
#include "math/twist.h"
#include "math/slope.h"
#include "math/loss.h"
#include "math/rope.h"
#include "math/patch.h"
#include "math/edges.h"
#include "math/edges_score.h"
TINYI_C_BEGIN

/* ROW(KIND, name) for operations that are always there; CONV, TRANSFORM, TRAIN and EDGES for those of these features.
 * The number of a kind does not depend on the features. */
#define TINYI_OPS_OF(ROW, CONV, TRANSFORM, TRAIN, EDGES)                                                              \
    TINYI_OPS_BINARY(ROW)                                                                                             \
    TINYI_OPS_ELEM(ROW) TINYI_OPS_CONVERT(ROW) TINYI_OPS_REDUCE(ROW) TINYI_OPS_SOFTMAX(ROW) TINYI_OPS_NORM(ROW)       \
        TINYI_OPS_MATMUL(ROW) TINYI_OPS_LAYOUT(ROW) TINYI_OPS_CONV(CONV) TINYI_OPS_SORT(ROW) TINYI_OPS_FFT(TRANSFORM) \
            TINYI_OPS_FWHT(TRANSFORM) TINYI_OPS_ATTENTION(ROW) TINYI_OPS_SLOPE(TRAIN) TINYI_OPS_LOSS(TRAIN)           \
                TINYI_OPS_ROPE(ROW) TINYI_OPS_PATCH(CONV) TINYI_OPS_EDGES(EDGES) TINYI_OPS_EDGES_SCORE(EDGES)         \
                    TINYI_OPS_GLA(ROW) TINYI_OPS_GLA_GRAD(TRAIN) TINYI_OPS_TWIST(TRAIN)
#define TINYI_OPS(ROW) TINYI_OPS_OF(ROW, ROW, ROW, ROW, ROW)

#define TINYI_ROW_KIND(KIND, name) TINY_OP_##KIND,
/* COUNT is for core and math only; tiny_op_at gives the rows of all operations */
enum { TINY_OP_NONE, TINYI_OPS(TINYI_ROW_KIND) TINY_OP_COUNT };
#undef TINYI_ROW_KIND

TINYI_C_END
#endif
