/* src/gnn/operator/deeponet.h - DeepONets: one network for the fields of several equations and shapes
 *
 *   tgnn_deeponet_desc d = { 0 };
 *   tgnn_deeponet_query q = { 0 };
 *   d.n_branches = 2;  d.branch[0].n_in = 128;  d.branch[1].n_in = 4;      a start, and the numbers of an equation
 *   d.d = 2;                                                               queries: a place and a time
 *   tgnn_deeponet_open(ctx, &d, &net);
 *   q.in = sensors;  q.points = &points;
 *   tgnn_deeponet_fit(ctx, net, &fit, NULL);               training, on the data of several tasks
 *   tgnn_deeponet_run(ctx, net, &q, &y);                   y (samples, points)
 *
 * u(y) = sum_k B_k T_k(y) + b0: the branches read the input field at fixed sensors, the trunk reads a point. A network
 * answers for any list of points. For shapes, branch 0 reads the field on a grid and a mask of ones (inside the shape)
 * and zeros; nothing outside the mask has an influence. */
#ifndef TINYI_DEEPONET_H
#define TINYI_DEEPONET_H
#include "math/tape.h"
#include "math/train.h"
TINYI_C_BEGIN

#define TGNN_DEEPONET_BRANCHES 4
enum { TGNN_DEEPONET_PRODUCT, TGNN_DEEPONET_CONCAT };
enum { TGNN_DEEPONET_TANH, TGNN_DEEPONET_GELU };

typedef struct tgnn_deeponet_branch {
    tiny_idx n_in;                          /* sensors */
    int masked;                             /* branch 0 alone: it reads field * mask, and the mask */
    int conv;                               /* convolutions before the linear layers, 3 x 3 of stride 2, at most 5 */
    tiny_idx side[2];                       /* conv: rows and columns, whose product is n_in */
    tiny_idx filters;                       /* of the first one, twice as many in each that follows; 0: 8 */
    int layers;                             /* hidden linear layers; 0: 2; -1: none; at most 8 */
    tiny_idx width;                         /* of each; 0: 128 */
} tgnn_deeponet_branch;

typedef struct tgnn_deeponet_desc {
    int n_branches;                         /* 0: 1 */
    tgnn_deeponet_branch branch[TGNN_DEEPONET_BRANCHES];
    int merge;                              /* TGNN_DEEPONET_PRODUCT: of what the branches give, number by number;
                                             * _CONCAT: the inputs one after the other, as the input of branch 0 */
    int d;                                  /* coordinates of a point, 1 to 8 */
    int layers;                             /* hidden layers of the trunk; 0: 2; -1: none; at most 8 */
    tiny_idx width;                         /* 0: 128 */
    tiny_idx p;                             /* terms of the sum; 0: 128 */
    int act;                                /* TGNN_DEEPONET_TANH or _GELU */
    uint64_t seed;                          /* of the first weights */
} tgnn_deeponet_desc;

typedef struct tgnn_deeponet tgnn_deeponet;
/* The network and its gradients, in memory of the context. Weights are drawn (Xavier). */
TINY_API tiny_status tgnn_deeponet_open(tiny_ctx *ctx, const tgnn_deeponet_desc *desc, tgnn_deeponet **out);
TINY_API void tgnn_deeponet_close(tgnn_deeponet *net);     /* takes NULL */
TINY_API const tgnn_deeponet_desc *tgnn_deeponet_description(const tgnn_deeponet *net);    /* defaults filled in */
TINY_API double tgnn_deeponet_count(const tgnn_deeponet *net);      /* numbers of all parameters */
/* All parameters: "trunk.0.weight", "branch.0.conv.0.weight", "branch.0.0.bias" ... and "bias". */
TINY_API const tiny_param *tgnn_deeponet_params(const tgnn_deeponet *net, size_t *n);
/* For transfer: the last `layers` linear layers of each branch and the bias b0. list NULL: the number alone. Give these
 * to an optimiser, and the trunk and the rest of the branches stay as they are. */
TINY_API size_t tgnn_deeponet_last(const tgnn_deeponet *net, int layers, tiny_param *list);
/* A checkpoint (core/box/checkpoint.h) with the description. A file is written completely or not at all. */
TINY_API tiny_status tgnn_deeponet_save(tiny_ctx *ctx, const tgnn_deeponet *net, const char *path);
TINY_API tiny_status tgnn_deeponet_load(tiny_ctx *ctx, const char *path, tgnn_deeponet **out);

/* What is asked. Tensors are f32 and dense. */
typedef struct tgnn_deeponet_query {
    const tiny_tensor *in;                  /* n_branches tensors (samples, n_in) */
    const tiny_tensor *mask;                /* masked: (samples, n_in of branch 0), ones and zeros */
    const tiny_tensor *points;              /* (points, d), the same for all samples; or NULL, and a grid: */
    tiny_idx grid[3];                       /* points (i + 1/2) / grid[k] in row-major order, d at most 3 */
    const tiny_tensor *basis;               /* NULL, or (points, p) of tgnn_deeponet_basis: the trunk does not run */
    const tiny_tensor *inside;              /* NULL, or (samples, points): results are multiplied by it. On a grid of
                                             * n_in points of a masked network the mask is used without being given */
} tgnn_deeponet_query;

/* y (samples, points), one product of matrices after trunk and branches. Points go in pieces of 4096. */
TINY_API tiny_status tgnn_deeponet_run(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                       const tiny_tensor *y);
/* What the trunk gives for a fixed list of points (q->points or q->grid): basis (points, p) */
TINY_API tiny_status tgnn_deeponet_basis(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                         const tiny_tensor *basis);
/* On a tape. A failure stays in the tape. Parameters get gradients once they were given to it (tiny_tape_param). */
TINY_API tiny_tensor tgnn_tape_deeponet(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q);
/* The formula in double, in plain loops, for one sample and one point of the query. Convolutions are not in it. */
TINY_API tiny_status tgnn_deeponet_ref(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                       tiny_idx sample, tiny_idx point, double *y);

/* The mean over samples of |m (y - t)|^2 / |m t|^2, or with plain nonzero the sum of (m (y - t))^2 over the sum of m.
 * y, t and m (samples, points); m NULL: ones. */
TINY_API tiny_tensor tgnn_tape_masked_l2(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t,
                                         const tiny_tensor *m, int plain);
/* Without a tape: the mean of |m (y - t)| / |m t| */
TINY_API tiny_status tgnn_masked_error(tiny_ctx *ctx, const tiny_tensor *y, const tiny_tensor *t, const tiny_tensor *m,
                                       double *error);

/* ---- training */

typedef struct tgnn_deeponet_task {         /* samples of one equation or shape */
    tgnn_deeponet_query query;
    tiny_tensor truth;                      /* (samples, points) */
    const tiny_tensor *mask;                /* of the loss, (samples, points); NULL: query.inside */
} tgnn_deeponet_task;

typedef struct tgnn_deeponet_fit_desc {
    const tgnn_deeponet_task *task;
    int n_tasks;                            /* at most 64. Tasks with the same points share one pass of the trunk */
    tiny_idx batch;                         /* samples of each task in a step; 0: 8. Small tasks begin anew sooner */
    int64_t steps;                          /* 0: 1000 */
    double rate, decay;                     /* of Adam, 0: 1e-3; its factor at the end, reached in eight
                                             * equal ratios, 0: 0.05 */
    int last;                               /* above 0: only tgnn_deeponet_last of that many layers is trained */
    int plain;                              /* of tgnn_tape_masked_l2 */
    uint64_t seed;
    int (*callback)(void *user, const tiny_train_state *state);     /* as in math/train.h */
    void *user;
} tgnn_deeponet_fit_desc;
/* Checks all data first. last may be NULL. */
TINY_API tiny_status tgnn_deeponet_fit(tiny_ctx *ctx, tgnn_deeponet *net, const tgnn_deeponet_fit_desc *desc,
                                       tiny_train_state *last);

TINYI_C_END
#endif
