/* src/gnn/train/data.h - data to train on where a folder has less than a net wants, or where there is no folder; nodes
 * in a plane */
#ifndef TINYI_GNN_DATA_H
#define TINYI_GNN_DATA_H
#include "gnn/graph/read.h"
TINYI_C_BEGIN

/* A tgnn_data as if it had been read: a planted partition of n nodes in k classes (gnn/graph/graph.h), features of k
 * numbers and 11 more: normal noise of deviation 1, and 1 more at the class. Of each class 20 nodes are for training, a
 * quarter for validation, the rest for the test. The same for a seed on every machine. */
TINY_API tiny_status tgnn_data_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                       tgnn_data *out);
/* n_graphs rings of 8 to 23 nodes, with a chord for every fourth node (class 0) or for every second (class 1); ten
 * folds. */
TINY_API tiny_status tgnn_data_rings(tiny_ctx *ctx, tiny_idx n_graphs, uint64_t seed, tgnn_data *out);

/* Features where there are none: of graphs node_label as one 1 of so many as there are labels, without labels the
 * degree in the same way, 0 .. 15 and more; of one graph 64 columns of gnn/embed/fastrp.h. */
TINY_API tiny_status tgnn_data_features(tiny_ctx *ctx, tgnn_data *data);
/* graph_of_node as offsets: where the nodes of each graph begin, n_graphs + 1 numbers; tiny_free gives them back. */
TINY_API tiny_status tgnn_data_graph_at(tiny_ctx *ctx, const tgnn_data *data, int64_t **out);

/* The rows of x (n, f) in the plane in which they spread the most: their two first principal components, y (n, 2). The
 * sign of each direction is that which makes its largest component positive. f below 2: the second column is 0. */
TINY_API tiny_status tgnn_plane(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);

TINYI_C_END
#endif
