/* src/math/rope.h - rotary position embeddings */
#ifndef TINYI_ROPE_H
#define TINYI_ROPE_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_rope_params {
    float base, scale;                      /* 0: 10000 and 1 */
    int n_rot;                              /* even; the first n_rot numbers of a head are rotated; 0: all */
    int interleaved;                        /* nonzero: pairs (2i, 2i + 1); else (i, i + n_rot / 2) */
    int backward;                           /* nonzero: rotates back, by minus the angle */
} tiny_rope_params;

/* Rotates pair i of token t by angle = position[t] scale base^(-2i / n_rot): y0 = x0 cos - x1 sin,
 * y1 = x0 sin + x1 cos.
 * x, y (token, head, d); position (token), i32 or i64, or NULL for 0, 1, 2 ... y may be x. */
TINY_API tiny_status tiny_rope(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *position,
                               const tiny_rope_params *params, const tiny_tensor *y);

#define TINYI_OPS_ROPE(ROW) ROW(ROPE, rope)

TINYI_C_END
#endif
