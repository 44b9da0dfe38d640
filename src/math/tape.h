/* src/math/tape.h - gradients: a tape of operations that ran, walked from its end
 *
 * How a gradient is written. The function of a row gets the operation as it ran and asks g:
 *     tiny_grad_of(g, i)         dL/d(output i), dense, or NULL when nothing flows into it
 *     tiny_grad_wants(g, i)      is dL/d(input i) wanted at all?
 *     tiny_grad_run(g, kind, a, b, c, d, params, &y)     runs an operation into new scratch memory y
 *     tiny_grad_add(g, i, &dx)   hands dL/d(input i) over: of the input's shape
 * Scratch is given back when the function returns. In a dry run nothing is computed and no data may be read:
 * tiny_grad_dry(g). Example, y = e^x:
 *     static tiny_status tinyi_grad_exp(tiny_grad *g, const tiny_op *op)
 *     {
 *         tiny_tensor dx;
 *         tiny_status st = tiny_grad_run(g, TINY_OP_MUL, tiny_grad_of(g, 0), op->out[0], NULL, NULL, NULL, &dx);
 *         return st ? st : tiny_grad_add(g, 0, &dx);
 *     }                                                                                                               */
#ifndef TINYI_TAPE_H
#define TINYI_TAPE_H
#include "math/ops.h"
TINYI_C_BEGIN
#ifndef TINY_NO_TRAIN

TINY_API const tiny_tensor *tiny_grad_of(const tiny_grad *g, int i_output);
TINY_API int tiny_grad_wants(const tiny_grad *g, int i_input);
TINY_API int tiny_grad_dry(const tiny_grad *g);
TINY_API tiny_ctx *tiny_grad_ctx(const tiny_grad *g);
/* new scratch: dense, not cleared */
TINY_API tiny_status tiny_grad_new(tiny_grad *g, tiny_dtype dtype, int rank, const tiny_idx *dim, tiny_tensor *y);
/* y has the shape that the row asks for */
TINY_API tiny_status tiny_grad_run(tiny_grad *g, int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *c, const tiny_tensor *d,
                                    const void *params, tiny_tensor *y);
/* any operation, its outputs given */
TINY_API tiny_status tiny_grad_op(tiny_grad *g, const tiny_op *op);
TINY_API tiny_status tiny_grad_add(tiny_grad *g, int i_input, const tiny_tensor *dx);

#endif
TINYI_C_END
#endif
