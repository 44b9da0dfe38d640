/* src/gnn/graph/read.h - graphs from files, and into them
 *
 *   edge list       "source destination [weight]" a line, numbers from 0, separated by spaces, tabs or commas; # and %
 *                   begin remarks, "# nodes N" says that there are N nodes at least, "# nodes N M" only where desc is
 *                   bipartite: N sources, M destinations
 *   Matrix Market   "%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric", numbers from 1
 *   .npz            scipy.sparse.save_npz (csr, csc, coo), or an archive with an array `edges` (m, 2) or `edge_index`
 *                   (2, m)
 *   .npy            an integer array (2, m) or (m, 2)
 *   .tgraph         ours: little-endian, mapped and used in place (tgnn_graph_write)
 * each of the text forms also packed by gzip. Which one it is, the first bytes say, never the name.
 *
 * Entry (i, j) of a matrix is an edge i -> j, as in scipy and SuiteSparse; a symmetric matrix gives both directions. */
#ifndef TINYI_GRAPH_READ_H
#define TINYI_GRAPH_READ_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

/* desc: what becomes of the edges; NULL: as they are. A .tgraph file is taken as it is where desc asks for nothing; one
 * of two sets of nodes is refused where desc is not bipartite. Its edges keep their numbers in either case. A file may
 * make the context take at most 512 times its size and 16 megabytes (dense features: 4096 times) (a packed one 64 times
 * that); weights must be finite. */
TINY_API tiny_status tgnn_graph_read(tiny_ctx *ctx, const char *path, const tgnn_graph_desc *desc, tgnn_graph **out);
/* name stands in the sentences. The bytes may go afterwards. */
TINY_API tiny_status tgnn_graph_read_memory(tiny_ctx *ctx, const char *name, const void *bytes, size_t n_bytes,
                                            const tgnn_graph_desc *desc, tgnn_graph **out);

/* Our binary form. */
TINY_API tiny_status tgnn_graph_write(tiny_ctx *ctx, const char *path, const tgnn_graph *g);
/* An edge list, in the order of the destinations; weights with 9 digits, where there are any. Where the last nodes have
 * no edges, the first line is "# nodes N", of two sets "# nodes SOURCES DESTINATIONS": a remark to others, a least
 * number of nodes to tgnn_graph_read. */
TINY_API tiny_status tgnn_graph_write_text(tiny_ctx *ctx, const char *path, const tgnn_graph *g);

/* ---- a folder with edges.tsv, and as much as there is of features.coo (or .npy), labels.txt, splits.txt, meta.txt,
 * graph_of_node.txt, graph_labels.txt, node_labels.txt, folds.txt */
typedef struct tgnn_data {
    tgnn_graph *graph;                      /* "directed 0" in meta.txt, or no such line: both directions, no doubles */
    int directed;
    /* n_graphs 0: node data. meta.txt may count at most 32 for each byte of the folder's files, and 262144 */
    tiny_idx n_nodes, n_graphs;
    tiny_tensor x;                          /* (n_nodes, features) f32; data NULL: none */
    int32_t *label, n_class;                /* of each node; -1: none. NULL: no labels */
    char *split;                            /* (n_nodes, n_split): r train, v validation, t test, - none; NULL: none */
    tiny_idx n_split;
    /* n_nodes, n_nodes, n_graphs, n_graphs; NULL: none */
    int32_t *graph_of_node, *node_label, *graph_label, *fold, n_graph_class;
} tgnn_data;
TINY_API tiny_status tgnn_data_read(tiny_ctx *ctx, const char *folder, tgnn_data *out);
TINY_API void tgnn_data_free(tiny_ctx *ctx, tgnn_data *data);      /* takes NULL */

TINYI_C_END
#endif
