/* src/gnn/equivariant/layers.h - layers that turn with space: linear maps of irreps, and gates
 *
 *     y = tgnn_tape_irreps_linear(tape, &d, &x, &w, &bias);
 *     y = tgnn_tape_gate(tape, &gate, &y);
 *
 * On a tape; with a context alone they run the same operations. f32, or f64 by the reference. */
#ifndef TINYI_IRREPS_LAYERS_H
#define TINYI_IRREPS_LAYERS_H
#include "gnn/equivariant/irreps.h"
#include "math/tape.h"
TINYI_C_BEGIN

/* e3nn's o3.Linear: copies of an irrep of x are mixed into those of the same irrep of y, by W / sqrt(s), s the copies
 * of that irrep in x. Weights: (mul in, mul out) for each two blocks of the same irrep, blocks of x in order and for
 * each those of y. Biases: one for each copy of 0e in y. Blocks of y without one of x are 0. */
typedef struct tgnn_irreps_linear_desc {
    const tgnn_irrep *in, *out;
    int n_in, n_out;
    int last;                               /* 0: blocks (mul, 2 l + 1). Nonzero: (2 l + 1, mul), the faster one */
} tgnn_irreps_linear_desc;

/* how many weights and biases; -1: a block is invalid */
TINY_API tiny_idx tgnn_irreps_linear_weights(const tgnn_irreps_linear_desc *desc);
TINY_API tiny_idx tgnn_irreps_linear_biases(const tgnn_irreps_linear_desc *desc);
/* x (n, dim of in), w (weights), bias (biases) or NULL, y (n, dim of out) */
TINY_API tiny_status tgnn_irreps_linear(tiny_ctx *ctx, const tgnn_irreps_linear_desc *desc, const tiny_tensor *x,
                                        const tiny_tensor *w, const tiny_tensor *bias, const tiny_tensor *y);
TINY_API tiny_tensor tgnn_tape_irreps_linear(tiny_tape *tape, const tgnn_irreps_linear_desc *desc,
                                             const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias);

/* e3nn's Gate: a row of x is n_even scalars 0e, n_odd 0o, a gate 0e for each copy of `gated`, then those blocks. A row
 * of y has the scalars through their functions, and each copy times the function of its gate. Functions are multiplied
 * by a constant so that the square of f(z), z normal, is 1 on average. */
typedef struct tgnn_gate_desc {
    int n_even, n_odd;
    const tgnn_irrep *gated;
    int n_gated;                            /* blocks */
    int even, odd, gate;                    /* kinds of one argument; 0: TINY_OP_SILU, TINY_OP_TANH, TINY_OP_SIGMOID */
    int raw;                                /* nonzero: without those constants */
    int last;                               /* as above */
} tgnn_gate_desc;

/* numbers of a row of x and of y; -1: the description is invalid */
TINY_API tiny_idx tgnn_gate_dim_in(const tgnn_gate_desc *desc);
TINY_API tiny_idx tgnn_gate_dim_out(const tgnn_gate_desc *desc);
/* Fails where `odd` is not an odd function: a reflection would then change more than signs. */
TINY_API tiny_status tgnn_gate(tiny_ctx *ctx, const tgnn_gate_desc *desc, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_tensor tgnn_tape_gate(tiny_tape *tape, const tgnn_gate_desc *desc, const tiny_tensor *x);

TINYI_C_END
#endif
