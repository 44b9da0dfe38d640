/* src/math/tape.h - gradients: a tape records the operations that run and walks them backwards
 *
 *     tiny_tape_desc d = { 0 };
 *     d.bytes = 1 << 24;                              or the size from a dry run: tiny_tape_high
 *     tiny_tape_open(ctx, &d, &tape);
 *     tiny_tape_param(tape, &w); tiny_tape_param(tape, &b);                   tiny_param: math/optim.h
 *     for (;;) {
 *         tiny_tape_mark mark = tiny_tape_now(tape);
 *         h = tiny_tape_linear(tape, &x, &w.value, &b.value, TINY_ACT_RELU);  math/layer.h: runs at once, is recorded
 *         loss = tiny_tape_cross_entropy(tape, &h, &labels, 0.0f);
 *         tiny_tape_zero(tape);
 *         st = tiny_tape_backward(tape, &loss, NULL);                         the first failure of all calls above
 *         ... w.grad and b.grad hold the gradients: tiny_optim_step ...
 *         tiny_tape_release(tape, mark);
 *     }
 *
 * A value is a tiny_tensor in the memory of the tape. A view of it (a transpose, a slice, a reshape, an axis of stride
 * 0) is the same value: gradients are found by address. Any other tensor is a constant and must not change until
 * the backward pass. Only operations that depend on a parameter are recorded and get gradients. Write each tensor once.
 * Several operations may write different parts of it, as concat does. axpy and scatter_add may add to a tensor that no
 * operation has read yet.
 *
 * The first failure stays: later calls return it and do nothing, tensors come back empty, and tiny_tape_status has it.
 *
 * Memory: one block that is allocated when the tape is opened, and the list of recorded operations. A dry run
 * (desc.dry) computes nothing; parameters and inputs may hold anything. Afterwards tiny_tape_high is the size that the
 * same calls need. So a model function must not read data of the tape while tiny_tape_dry is nonzero.
 *
 * To write the gradient of a row, use the operation as it ran and these functions of g:
 *     tiny_grad_of(g, i)         dL/d(output i), of the output's shape and strides, or NULL if the loss does
 *                                not depend on it
 *     tiny_grad_wants(g, i)      nonzero if dL/d(input i) is needed
 *     tiny_grad_run(g, kind, a, b, params, &y)     runs an operation into new scratch memory y
 *     tiny_grad_add(g, i, &dx)   adds dx to dL/d(input i); dx has the shape of the input, or a shape that the input was
 *                                repeated to
 *     tiny_grad_give(g, i, kind, a, b, params)     tiny_grad_run and tiny_grad_add in one, mostly without
 *                                a copy
 * Scratch is freed when the function returns. In a dry run (tiny_grad_dry) it must not read data. Example, y = e^x:
 *     static tiny_status grad_exp(tiny_grad *g, const tiny_op *op)
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

/* The caller keeps value and grad. Adding a parameter twice has no effect. */
TINY_API tiny_status tiny_tape_param(tiny_tape *tape, const tiny_param *param);
/* Sets the gradients of all parameters to zero; without it, backward adds to them. */
TINY_API void tiny_tape_zero(tiny_tape *tape);
/* The gradients of all parameters hold numbers already, and backward adds to them: for tapes that share parameters. */
TINY_API void tiny_tape_keep(tiny_tape *tape);

typedef struct tiny_tape_mark { size_t nodes, values, used; } tiny_tape_mark;
TINY_API tiny_tape_mark tiny_tape_now(const tiny_tape *tape);
TINY_API void tiny_tape_release(tiny_tape *tape, tiny_tape_mark mark);  /* drops all later records and any failure */

/* A new tensor in the memory of the tape, not cleared. */
TINY_API tiny_tensor tiny_tape_new(tiny_tape *tape, tiny_dtype dtype, int rank, const tiny_idx *dim);
/* Runs and records op. An output that is NULL is made on the tape; out[i] gets a copy of each output's tensor. */
TINY_API tiny_status tiny_tape_op(tiny_tape *tape, const tiny_op *op, tiny_tensor *out);
/* The same for a row with one output. */
TINY_API tiny_tensor tiny_tape_call(tiny_tape *tape, int kind, const tiny_tensor *a, const tiny_tensor *b,
                                    const tiny_tensor *c, const tiny_tensor *d, const void *params);

/* dL/dy is dy. dy may be NULL if y is a single number; dL/dy is then 1. Fails if y is not finite; the sentence names
 * the operation that produced the first such number. */
TINY_API tiny_status tiny_tape_backward(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *dy);
/* After a backward pass: the gradient of a parameter, or of a part of one. Its data is NULL if there is none. */
TINY_API tiny_tensor tiny_tape_grad(tiny_tape *tape, const tiny_tensor *x);

/* A part of the model whose inner values are not kept: the backward pass runs it again (T. Chen et al., "Training Deep
 * Nets with Sublinear Memory Cost", 2016, arXiv 1604.06174). fn may use only its in[] and parameters of the tape, and
 * must do the same both times. */
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
