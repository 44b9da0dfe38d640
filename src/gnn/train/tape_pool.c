/* src/gnn/train/tape_pool.c - top-k pooling on the tape: gradients flow through the scores of the nodes that are
 * kept */
#include "gnn/train/train.h"
#include "math/layer.h"
#include <string.h>

TINY_API tiny_tensor tgnn_tape_pool_score(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *p)
{
    tiny_norm_params q;
    tiny_tensor u;
    memset(&q, 0, sizeof q);
    q.eps = 1e-12f;
    u = tiny_tape_call(tape, TINY_OP_L2NORM, p, NULL, NULL, NULL, &q);
    return tiny_tape_linear(tape, x, &u, NULL, TINY_ACT_NONE);
}

TINY_API tiny_tensor tgnn_tape_pool(tiny_tape *tape, const tgnn_pool *pool, const tiny_tensor *x,
                                    const tiny_tensor *score)
{
    tiny_tensor index = tiny_tensor_1d(pool ? pool->node : NULL, TINY_I32, pool ? pool->n : 0),
                rows = tiny_tape_call(tape, TINY_OP_GATHER, x, &index, NULL, NULL, NULL),
                kept = tiny_tape_call(tape, TINY_OP_GATHER, score, &index, NULL, NULL, NULL);
    kept = tiny_tape_call(tape, TINY_OP_TANH, &kept, NULL, NULL, NULL, NULL);
    return tiny_tape_mul(tape, &rows, &kept);
}
