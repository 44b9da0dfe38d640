/* src/gnn/train/data.h - synthetic training data, missing features, and a projection of nodes to a plane */
#ifndef TINYI_GNN_DATA_H
#define TINYI_GNN_DATA_H
#include "gnn/graph/read.h"
TINYI_C_BEGIN

/* A planted partition of n nodes in k classes (gnn/graph/graph.h) as a tgnn_data. Features are k + 11 numbers: normal
 * noise of deviation 1, plus 1 at the number of the class. 20 nodes of each class are for training, a quarter for
 * validation and the rest for the test. The same seed gives the same data on every machine. */
TINY_API tiny_status tgnn_data_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                       tgnn_data *out);
/* n_graphs rings of 8 to 23 nodes, with a chord for every fourth node (class 0) or for every second (class 1); ten
 * folds. */
TINY_API tiny_status tgnn_data_rings(tiny_ctx *ctx, tiny_idx n_graphs, uint64_t seed, tgnn_data *out);

/* Makes features if data has none. Several graphs: the one-hot node_label or, without labels, the one-hot degree,
 * 0 .. 15 and more. One graph: 64 columns of gnn/embed/fastrp.h. */
TINY_API tiny_status tgnn_data_features(tiny_ctx *ctx, tgnn_data *data);
/* graph_of_node as offsets: where the nodes of each graph begin, n_graphs + 1 numbers. Free *out with tiny_free. */
TINY_API tiny_status tgnn_data_graph_at(tiny_ctx *ctx, const tgnn_data *data, int64_t **out);

/* The first two principal components of the rows of x (n, f): y (n, 2), for example to plot them. The largest component
 * of each direction is positive. With f below 2 the second column is 0. */
TINY_API tiny_status tgnn_plane(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);

TINYI_C_END
#endif
