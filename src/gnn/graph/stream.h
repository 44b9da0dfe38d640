/* src/gnn/graph/stream.h - converts edge files that are larger than memory to .tgraph
 *
 *   tgnn_convert_desc how = { 0 };
 *   how.graph.symmetrize = 1;
 *   how.memory = 64 << 20;
 *   tgnn_graph_convert(ctx, "edges.tsv.gz", "edges.tgraph", &how, NULL);
 *   tgnn_graph_read(ctx, "edges.tgraph", NULL, &g);            mapped: only the parts in use need memory
 *
 * It reads edge lists, also compressed by gzip, and .npy arrays of edges, once and in pieces. Other forms fail. The
 * output has the same bytes as tgnn_graph_read and tgnn_graph_write with the same desc. While it works it writes
 * OUT.part, OUT.runs0.part and, if one merge is not enough, OUT.runs1.part. A runs file takes 16 bytes for each edge
 * after symmetrize (20 with weights). All of them are removed at the end, also after a failure or a cancel. */
#ifndef TINYI_GRAPH_STREAM_H
#define TINYI_GRAPH_STREAM_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_CONVERT_LEAST ((size_t)256 << 10)
#define TGNN_CONVERT_USUAL ((size_t)64 << 20)

typedef struct tgnn_convert_desc {          /* all zero: the edges unchanged, 64 MB */
    tgnn_graph_desc graph;
    /* the most memory of the context that it uses, at least TGNN_CONVERT_LEAST; 0: TGNN_CONVERT_USUAL */
    size_t memory;
} tgnn_convert_desc;

typedef struct tgnn_convert_info {
    tiny_idx n_src, n_dst;
    int64_t n_given, n;                     /* edges in the file, and in the graph */
    int64_t n_runs;                         /* pieces that were sorted in memory */
    int n_merges;                           /* passes that merge all edges; the last one is not counted */
} tgnn_convert_info;

/* desc and info may be NULL. It calls progress of the context for every thousandth of the input, and cancel for every
 * piece. */
TINY_API tiny_status tgnn_graph_convert(tiny_ctx *ctx, const char *in, const char *out, const tgnn_convert_desc *desc,
                                        tgnn_convert_info *info);

TINYI_C_END
#endif
