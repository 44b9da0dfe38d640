/* src/gnn/graph/sample.h - neighbour sampling, layer by layer: batches for training on large graphs
 *
 *   static const int32_t fanout[2] = { 15, 10 };
 *   tgnn_sampler_desc d = { 0 };
 *   tgnn_sampler *s;
 *   tgnn_sample batch;
 *   d.n_layers = 2;
 *   d.fanout = fanout;
 *   tgnn_sampler_open(ctx, graph, &d, &s);
 *   tgnn_sampler_draw(s, epoch_and_step, seeds, n_seeds, &batch);
 *   x = rows batch.node[0 .. n_node) of the features (tiny_gather); the first layer uses batch.block[1], the last one
 *   batch.block[0]
 *
 * Each block holds offset and col for tiny_spmm and tiny_edge_attention. Its destinations are the first n_dst nodes of
 * the batch, its sources the first n_src; the seeds come first. The draw for a node depends only on the seed of the
 * call, the layer and the node: not on threads, machine or the other nodes of the batch. */
#ifndef TINYI_GRAPH_SAMPLE_H
#define TINYI_GRAPH_SAMPLE_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_SAMPLE_LAYERS 16
typedef struct tgnn_sampler tgnn_sampler;

typedef struct tgnn_sampler_desc {
    int n_layers;                           /* 1 .. TGNN_SAMPLE_LAYERS */
    /* (n_layers) number of edges into a node, for the seeds first; 0: none, -1: all */
    const int32_t *fanout;
    /* Nonzero: each draw is from all edges of the node. Zero: a node with more edges than the fanout gets that many
     * different ones; any other node gets all its edges, in their order. Duplicate edges are different edges. */
    int replace;
} tgnn_sampler_desc;

typedef struct tgnn_block {
    tiny_idx n_dst, n_src;
    int64_t n;
    int64_t *offset;                        /* (n_dst + 1) */
    int32_t *col;                           /* (n) positions in node, below n_src */
    /* (n) positions in tgnn_graph_in(graph), for weights and features of edges */
    int64_t *edge;
} tgnn_block;

typedef struct tgnn_sample {                /* the arrays belong to the sampler and stay valid until the next draw */
    int n_layers;
    tgnn_block block[TGNN_SAMPLE_LAYERS];   /* block[0]: edges into the seeds */
    tiny_idx n_node;
    int32_t *node;                          /* (n_node) numbers in the graph, all different */
} tgnn_sample;

/* The graph must not be bipartite, and must stay open. Takes 4 bytes for each node, and memory for the largest batch so
 * far. */
TINY_API tiny_status tgnn_sampler_open(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_sampler_desc *desc,
                                       tgnn_sampler **out);
TINY_API void tgnn_sampler_close(tgnn_sampler *s);                 /* takes NULL */
/* seeds: different nodes. Use another `seed` for each batch and epoch, or the same edges are drawn again. The sampler
 * is still usable after a failure. */
TINY_API tiny_status tgnn_sampler_draw(tgnn_sampler *s, uint64_t seed, const int32_t *seeds, tiny_idx n_seeds,
                                       tgnn_sample *out);

TINYI_C_END
#endif
