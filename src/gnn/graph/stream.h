/* src/gnn/graph/stream.h - a .tgraph file out of edges that are larger than memory
 *
 *   tgnn_convert_desc how = { 0 };
 *   how.graph.symmetrize = 1;
 *   how.memory = 64 << 20;
 *   tgnn_graph_convert(ctx, "edges.tsv.gz", "edges.tgraph", &how, NULL);
 *   tgnn_graph_read(ctx, "edges.tgraph", NULL, &g);            mapped: only what is used of it comes into memory
 *
 * Read are edge lists, also packed by gzip, and .npy arrays of edges, each once and in pieces; the bytes written are
 * those that tgnn_graph_read and tgnn_graph_write give for the same desc. Other forms are refused: they are read as a
 * whole. Beside the file stand OUT.part and, while edges are sorted, OUT.runs0.part and OUT.runs1.part: 16 bytes an
 * edge (20 with weights), counted after symmetrize, in the second one only where one merge is not enough. None of them
 * is left, whether it succeeds, fails or is cancelled. */
#ifndef TINYI_GRAPH_STREAM_H
#define TINYI_GRAPH_STREAM_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_CONVERT_LEAST ((size_t)256 << 10)
#define TGNN_CONVERT_USUAL ((size_t)64 << 20)

typedef struct tgnn_convert_desc {          /* all zero: the edges as they are, 64 MB */
    tgnn_graph_desc graph;
    /* of the context, at most, while it runs; 0: TGNN_CONVERT_USUAL; TGNN_CONVERT_LEAST at least */
    size_t memory;
} tgnn_convert_desc;

typedef struct tgnn_convert_info {
    tiny_idx n_src, n_dst;
    int64_t n_given, n;                     /* edges in the file, and in the graph */
    int64_t n_runs;                         /* pieces that were sorted in memory */
    int n_merges;                           /* times that all edges were read and written again, the last not counted */
} tgnn_convert_info;

/* desc and info may be NULL. Progress of the context hears of every thousandth, cancel is asked in every piece. */
TINY_API tiny_status tgnn_graph_convert(tiny_ctx *ctx, const char *in, const char *out, const tgnn_convert_desc *desc,
                                        tgnn_convert_info *info);

TINYI_C_END
#endif
