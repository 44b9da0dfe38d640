/* src/gnn/operator/deeponet_inside.h - what the network and its training share */
#ifndef TINYI_DEEPONET_INSIDE_H
#define TINYI_DEEPONET_INSIDE_H
#include "gnn/operator/deeponet.h"
TINYI_C_BEGIN

/* points of a query; 0: a grid that is not valid */
TINYI_FN tiny_idx tinyi_don_points(const tgnn_deeponet *net, const tgnn_deeponet_query *q);
/* what the results are multiplied by, or NULL */
TINYI_FN const tiny_tensor *tinyi_don_inside(const tgnn_deeponet *net, const tgnn_deeponet_query *q);
/* data nonzero: the numbers are checked too */
TINYI_FN tiny_status tinyi_don_fits(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_query *q, int data);
/* (n, p), of the points first .. first + n - 1 */
TINYI_FN tiny_tensor tinyi_don_trunk(tiny_tape *tape, const tgnn_deeponet *net, const tgnn_deeponet_query *q,
                                     tiny_idx first, tiny_idx n);

TINYI_C_END
#endif
