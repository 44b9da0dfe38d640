/* src/math/grad_inside.h - the gradients of the rows of math; how one is written: math/tape.h */
#ifndef TINYI_GRAD_H
#define TINYI_GRAD_H
#include "math/tape.h"
TINYI_C_BEGIN

#define TINYI_GRADIENTS(G)                                                                                            \
    G(binary) G(elem) G(glu) G(reduce) G(extreme) G(softmax) G(cross_entropy) G(norm) G(matmul) G(copy) G(gather) \
    G(scatter_add) \
    G(rope) G(im2col) G(max_pool) G(avg_pool) G(conv) G(attention) G(gla) G(twist)
#define TINYI_GRADIENTS_EDGES(G) G(spmm) G(sddmm) G(segment_softmax) G(edge_attention)

#if TINYI_WHOLE
#define TINYI_GRAD_DECLARE(name) static tiny_status tinyi_grad_##name(tiny_grad *g, const tiny_op *op);
#else
#define TINYI_GRAD_DECLARE(name) tiny_status tinyi_grad_##name(tiny_grad *g, const tiny_op *op);
#endif
TINYI_GRADIENTS(TINYI_GRAD_DECLARE)
#ifndef TINYI_NO_EDGES
TINYI_GRADIENTS_EDGES(TINYI_GRAD_DECLARE)
#endif
#ifndef TINYI_NO_TRANSFORM
TINYI_GRAD_DECLARE(fwht)
#endif
#undef TINYI_GRAD_DECLARE

/* What rows tell their gradients: the label of row r, -1 where it is left out; sizes of windows; params with the
 * defaults put in. */
TINYI_FN tiny_idx tinyi_loss_label(const tiny_op *op, tiny_idx r);
TINYI_FN void tinyi_patch_read(tinyi_patch *q, const tiny_op *op);
#ifndef TINYI_NO_EDGES
TINYI_FN const tiny_spmm_params *tinyi_spmm_params_of(const tiny_op *op);
TINYI_FN tiny_sddmm_params tinyi_sddmm_params_of(const tiny_op *op);
#endif

/* The failure that stays in the tape, unless there is one already. */
TINYI_FN tiny_status tinyi_tape_refuse(tiny_tape *tape, tiny_status st, const char *text);
/* What gradients are written with: a tensor of one number; y = x * factor; x itself where it is dense, else a copy;
 * dense x under another shape. */
TINYI_FN tiny_status tinyi_grad_number(tiny_grad *g, tiny_dtype type, double x, tiny_tensor *y);
TINYI_FN tiny_status tinyi_grad_times(tiny_grad *g, const tiny_tensor *x, double factor, tiny_tensor *y);
TINYI_FN tiny_status tinyi_grad_dense(tiny_grad *g, const tiny_tensor *x, tiny_tensor *y);
TINYI_FN tiny_tensor tinyi_grad_as(const tiny_tensor *x, int rank, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d);
/* The gradient of twisted weights (math/twist.h): d_a, and d_s in the shape of s if s is given. */
TINYI_FN tiny_status tinyi_grad_twisted(tiny_grad *g, const tiny_tensor *a, const tiny_tensor *dy, const tiny_tensor *s,
                                        const tiny_twist_params *params, tiny_tensor *d_a, tiny_tensor *d_s);
/* For gradients that go part by part. view: any view of an input. */
/* tiny_grad_add */
TINYI_FN tiny_status tinyi_grad_put(tiny_grad *g, const tiny_tensor *view, const tiny_tensor *dx);
/* tiny_grad_give */
TINYI_FN tiny_status tinyi_grad_make(tiny_grad *g, const tiny_tensor *view, int kind, const tiny_tensor *a,
                                     const tiny_tensor *b, const void *params);
/* dL/d(view) itself, zeros where there was nothing: for operations that add to their output */
TINYI_FN tiny_status tinyi_grad_begin(tiny_grad *g, const tiny_tensor *view, tiny_tensor *sum);
TINYI_FN size_t tinyi_grad_scratch(tiny_grad *g);           /* bytes in use ... */
TINYI_FN void tinyi_grad_drop(tiny_grad *g, size_t used);   /* ... and back to them */

TINYI_C_END
#endif
