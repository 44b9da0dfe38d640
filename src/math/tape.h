/* src/math/tape.h - gradients: a tape of operations that ran, walked from its end
 *
 *     tiny_tape_desc d = { 0 };
 *     d.bytes = 1 << 24;                              or what a dry run has told: tiny_tape_high
 *     tiny_tape_open(ctx, &d, &tape);
 *     tiny_tape_param(tape, &w); tiny_tape_param(tape, &b);                   tiny_param: math/optim.h
 *     for (;;) {
 *         tiny_tape_mark mark = tiny_tape_now(tape);
 *         h = tiny_tape_linear(tape, &x, &w.value, &b.value, TINY_ACT_RELU);  (math/layer.h) runs at once, and is
 *         recorded loss = tiny_tape_cross_entropy(tape, &h, &labels, 0.0f);
 *         tiny_tape_zero(tape);
 *         st = tiny_tape_backward(tape, &loss, NULL);                         the first failure of all calls above
 *         ... w.grad and b.grad hold the gradients: tiny_optim_step ...
 *         tiny_tape_release(tape, mark);
 *     }
 *
 * A value is a tiny_tensor in the memory of the tape; any view of it (a transpose, a slice, a reshape, an axis repeated
 * by stride 0) is the value too: its gradient is found by its address. What the tape does not know is a constant and
 * must stay as it is until the backward pass. Only what depends on a parameter is recorded and gets a gradient. A
 * tensor is written once; several operations may write different parts of it (that is how concat works), and axpy and
 * scatter_add may add to one that nobody has read.
 *
 * The first failure stays: later calls answer it and do nothing, tensors come back empty, tiny_tape_status tells.
 *
 * Memory: one block, taken when the tape is opened, and a list of what ran, which is kept. In a dry run (desc.dry)
 * nothing is computed, parameters and inputs may hold anything, and tiny_tape_high tells the bytes that the same calls
 * will need. A model function should therefore read no data of the tape while tiny_tape_dry says so.
 *
 * How the gradient of a row is written. Its function gets the operation as it ran and asks g:
 *     tiny_grad_of(g, i)         dL/d(output i), of the output's shape and strides, or NULL when nothing flows into it
 *     tiny_grad_wants(g, i)      is dL/d(input i) wanted at all?
 *     tiny_grad_run(g, kind, a, b, params, &y)     runs an operation into new scratch memory y
 *     tiny_grad_add(g, i, &dx)   hands dL/d(input i) over: of the input's shape, or of one that the input was repeated
 *                                to
 *     tiny_grad_give(g, i, kind, a, b, params)     the last two in one, where it can without a copy
 * Scratch is given back when the function returns. In a dry run no data may be read: tiny_grad_dry(g). Example, y =
 *     e^x: static tiny_status grad_exp(tiny_grad *g, const tiny_op *op)
 *     {
 *         return tiny_grad_give(g, 0, TINY_OP_MUL, tiny_grad_of(g, 0), op->out[0], NULL);
 *     } */
#ifndef TINYI_TAPE_H
#define TINYI_TAPE_H
#include "math/ops.h"
#include "math/optim.h"
TINYI_C_BEGIN

typedef struct tiny_tape tiny_tape;
typedef struct tiny_tape_desc {
    size_t bytes;                           /* for values, gradients and scratch; 0: 64 MiB */
    int dry;                                /* nonzero: shapes only */
    int no_grad;                            /* nonzero: nothing is recorded, for evaluation */
} tiny_tape_desc;

TINY_API tiny_status tiny_tape_open(tiny_ctx *ctx, const tiny_tape_desc *desc, tiny_tape **out);
TINY_API void tiny_tape_close(tiny_tape *tape);             /* takes NULL */
TINY_API tiny_ctx *tiny_tape_ctx(tiny_tape *tape);
TINY_API tiny_status tiny_tape_status(const tiny_tape *tape);
TINY_API int tiny_tape_dry(const tiny_tape *tape);
TINY_API size_t tiny_tape_high(const tiny_tape *tape);      /* the most bytes that were in use */
TINY_API size_t tiny_tape_count(const tiny_tape *tape);     /* operations recorded */

/* value and grad stay the caller's. A parameter that is given twice counts once. */
TINY_API tiny_status tiny_tape_param(tiny_tape *tape, const tiny_param *param);
/* Gradients of all parameters begin anew; without it, backward adds to what is there. */
TINY_API void tiny_tape_zero(tiny_tape *tape);

typedef struct tiny_tape_mark { size_t nodes, values, used; } tiny_tape_mark;
TINY_API tiny_tape_mark tiny_tape_now(const tiny_tape *tape);
TINY_API void tiny_tape_release(tiny_tape *tape, tiny_tape_mark mark);  /* forgets what came after; clears a failure */

/* A new tensor in the memory of the tape, not cleared. */
TINY_API tiny_tensor tiny_tape_new(tiny_tape *tape, tiny_dtype dtype, int rank, const tiny_idx *dim);
/* Runs and records. Outputs that are NULL are made; out[i] gets a copy of each output that the row has. */
TINY_API tiny_status tiny_tape_op(tiny_tape *tape, const tiny_op *op, tiny_tensor *out);
/* The same for a row with one output. */
TINY_API tiny_tensor tiny_tape_call(tiny_tape *tape, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const tiny_tensor *c, const tiny_tensor *d, const void *params);

/* dL/dy is dy, or 1 where dy is NULL and y a single number. A y that is not finite fails: the sentence names the
 * operation out of which the first such number came. */
TINY_API tiny_status tiny_tape_backward(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *dy);
/* After a backward pass: the gradient of a parameter, or of a part of one. NULL data: none. */
TINY_API tiny_tensor tiny_tape_grad(tiny_tape *tape, const tiny_tensor *x);

/* A part of the model whose inner values are not kept: it is run again in the backward pass (T. Chen et al., "Training
 * Deep Nets with Sublinear Memory Cost", 2016, arXiv 1604.06174). fn may use its in[] and parameters, nothing else of
 * the tape, and must do the same both times. */
typedef tiny_status (*tiny_segment_fn)(tiny_tape *tape, void *user, const tiny_tensor *in, tiny_tensor *out);
#define TINY_SEGMENT_MOST 4
TINY_API tiny_status tiny_tape_segment(tiny_tape *tape, tiny_segment_fn fn, void *user, int n_in, const tiny_tensor *in,
                                       int n_out, tiny_tensor *out);

/* ---- for gradients */

TINY_API const tiny_tensor *tiny_grad_of(tiny_grad *g, int i_output);
TINY_API int tiny_grad_wants(const tiny_grad *g, int i_input);
TINY_API int tiny_grad_dry(const tiny_grad *g);
TINY_API tiny_ctx *tiny_grad_ctx(const tiny_grad *g);
TINY_API tiny_status tiny_grad_new(tiny_grad *g, tiny_dtype dtype, int rank, const tiny_idx *dim, tiny_tensor *y);
TINY_API tiny_status tiny_grad_run(tiny_grad *g, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                   const void *params, tiny_tensor *y);
TINY_API tiny_status tiny_grad_op(tiny_grad *g, const tiny_op *op);         /* any operation, its outputs given */
TINY_API tiny_status tiny_grad_add(tiny_grad *g, int i_input, const tiny_tensor *dx);
TINY_API tiny_status tiny_grad_give(tiny_grad *g, int i_input, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const void *params);

TINYI_C_END
#endif
