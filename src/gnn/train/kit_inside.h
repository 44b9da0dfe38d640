/* src/gnn/train/kit_inside.h - the loop that nodes, links and graphs have in common */
#ifndef TINYI_GNN_KIT_H
#define TINYI_GNN_KIT_H
#include "gnn/train/train.h"
#include "gnn/train/pass_inside.h"
TINYI_C_BEGIN

/* The area under the ROC curve: the first scores should be the larger ones. order: room for n numbers. NaN where one of
 * the two kinds has none. */
TINYI_FN tiny_status tinyi_area(tiny_ctx *ctx, const float *score, uint32_t *order, tiny_idx first, tiny_idx n,
                                double *area);

typedef struct tinyi_kit {
    tiny_ctx *ctx;
    tinyi_pass *pass;
    const tgnn_train_desc *desc;
    void *task;                             /* given to the functions */
    int steps;                              /* of an epoch */
    tiny_status (*next)(void *task, int epoch, int step);          /* makes ready what the loss reads; NULL: nothing */
    tiny_tensor (*loss)(tiny_tape *t, void *task);
    tiny_status (*judge)(void *task, tgnn_epoch *e);                /* val_loss, train, val, test */
    int last;                               /* the training is over: judge everything */
} tinyi_kit;

TINYI_FN tiny_status tinyi_kit_run(tinyi_kit *k, tgnn_epoch *last);

/* numbers of the desc that make no sense */
TINYI_FN tiny_status tinyi_kit_check(tiny_ctx *ctx, const tgnn_net *net, const tgnn_train_desc *desc);
/* log sum e^y - y[label] of a row, in double, and whether its largest number (the first of equals) stands at the
 * label */
TINYI_FN double tinyi_kit_row(const float *y, tiny_idx n, int32_t label, int *right);

TINYI_C_END
#endif
