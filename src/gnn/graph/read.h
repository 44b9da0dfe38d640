/* src/gnn/graph/read.h - reads and writes files of graphs
 *
 *   edge list       lines "source destination [weight]", numbers from 0, separated by spaces, tabs or commas. # and %
 *                   begin comments. "# nodes N" means at least N nodes; if desc is bipartite, "# nodes N M" means N
 *                   sources and M destinations
 *   Matrix Market   "%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric", numbers from 1
 *   .npz            scipy.sparse.save_npz (csr, csc, coo), or an archive with an array `edges` (m, 2) or `edge_index`
 *                   (2, m)
 *   .npy            an integer array (2, m) or (m, 2)
 *   .tgraph         the format of tgnn_graph_write: little-endian, mapped and used in place
 * The text forms may be compressed by gzip. The form of a file is detected from its first bytes, not from its name.
 *
 * Entry (i, j) of a matrix is an edge i -> j, as in scipy and SuiteSparse. A symmetric matrix gives both directions. */
#ifndef TINYI_GRAPH_READ_H
#define TINYI_GRAPH_READ_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

/* desc NULL: the edges unchanged. A .tgraph file is used in place if desc is NULL or all zero. A bipartite file fails
 * unless desc is bipartite. The edges of a .tgraph file always keep their numbers. Weights must be finite. Reading a
 * file takes at most 512 times its size plus 16 megabytes of memory. The factor is 4096 for dense features, and 64
 * times as large for a compressed file. */
TINY_API tiny_status tgnn_graph_read(tiny_ctx *ctx, const char *path, const tgnn_graph_desc *desc, tgnn_graph **out);
/* name is used in error sentences. The bytes are not needed after the call. */
TINY_API tiny_status tgnn_graph_read_memory(tiny_ctx *ctx, const char *name, const void *bytes, size_t n_bytes,
                                            const tgnn_graph_desc *desc, tgnn_graph **out);

/* Writes a .tgraph file. */
TINY_API tiny_status tgnn_graph_write(tiny_ctx *ctx, const char *path, const tgnn_graph *g);
/* Writes an edge list in the order of the destinations; weights with 9 digits. If the last nodes have no edges, the
 * first line is "# nodes N", for a bipartite graph "# nodes SOURCES DESTINATIONS". */
TINY_API tiny_status tgnn_graph_write_text(tiny_ctx *ctx, const char *path, const tgnn_graph *g);

/* ---- a folder with edges.tsv and any of features.coo (or .npy), labels.txt, splits.txt, meta.txt, graph_of_node.txt,
 * graph_labels.txt, node_labels.txt, folds.txt */
typedef struct tgnn_data {
    tgnn_graph *graph;                      /* unless meta.txt has "directed 1": both directions, no duplicates */
    int directed;
    /* n_graphs 0: node data. The counts in meta.txt are at most 262144 plus 32 for each byte of the folder */
    tiny_idx n_nodes, n_graphs;
    tiny_tensor x;                          /* (n_nodes, features) f32; data NULL: none */
    int32_t *label, n_class;                /* of each node; -1: none. NULL: no labels */
    char *split;                            /* (n_nodes, n_split): r train, v validation, t test, - none; NULL: none */
    tiny_idx n_split;
    /* lengths: n_nodes, n_nodes, n_graphs, n_graphs; NULL: none */
    int32_t *graph_of_node, *node_label, *graph_label, *fold, n_graph_class;
} tgnn_data;
TINY_API tiny_status tgnn_data_read(tiny_ctx *ctx, const char *folder, tgnn_data *out);
TINY_API void tgnn_data_free(tiny_ctx *ctx, tgnn_data *data);      /* takes NULL */

TINYI_C_END
#endif
