/* src/gnn/graph/sample.h - some neighbours of some nodes, and of those, layer by layer: the batches that large graphs
 * are trained on
 *
 *   static const int32_t fanout[2] = { 15, 10 };
 *   tgnn_sampler_desc d = { 0 };
 *   tgnn_sampler *s;
 *   tgnn_sample batch;
 *   d.n_layers = 2;
 *   d.fanout = fanout;
 *   tgnn_sampler_open(ctx, graph, &d, &s);
 *   tgnn_sampler_draw(s, epoch_and_step, seeds, n_seeds, &batch);
 *   x = rows batch.node[0 .. n_node) of the features (tiny_gather); the layer that reads them takes batch.block[1], the
 *   last one block[0]
 *
 * Each block is a matrix of rows for tiny_spmm and tiny_edge_attention: offset, col. Its destinations are the first
 * n_dst nodes of the batch, its sources the first n_src; the seeds stand first of all. What is drawn for a node depends
 * on the seed of the call, the layer and the node alone: not on the threads, the machine, or who else is in the
 * batch. */
#ifndef TINYI_GRAPH_SAMPLE_H
#define TINYI_GRAPH_SAMPLE_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_SAMPLE_LAYERS 16
typedef struct tgnn_sampler tgnn_sampler;

typedef struct tgnn_sampler_desc {
    int n_layers;                           /* 1 .. TGNN_SAMPLE_LAYERS */
    /* (n_layers) edges into a node, of the seeds first; 0: none, -1: all of them */
    const int32_t *fanout;
    /* each draw from all edges of the node; else a node with no more edges than the fanout has all of */
    int replace;
                                            /*   them, in their order, and another one that many different ones. Doubles
                                             *   are different edges */
} tgnn_sampler_desc;

typedef struct tgnn_block {
    tiny_idx n_dst, n_src;
    int64_t n;
    int64_t *offset;                        /* (n_dst + 1) */
    int32_t *col;                           /* (n) places in node, below n_src */
    /* (n) places in tgnn_graph_in(graph): weights and features of edges stand there */
    int64_t *edge;
} tgnn_block;

typedef struct tgnn_sample {                /* it lives in the sampler, until the next draw */
    int n_layers;
    tgnn_block block[TGNN_SAMPLE_LAYERS];   /* block[0]: edges into the seeds */
    tiny_idx n_node;
    int32_t *node;                          /* (n_node) numbers in the graph, none twice */
} tgnn_sample;

/* The graph must stay; of one set of nodes. Takes 4 bytes a node, and memory for the largest batch so far. */
TINY_API tiny_status tgnn_sampler_open(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_sampler_desc *desc,
                                       tgnn_sampler **out);
TINY_API void tgnn_sampler_close(tgnn_sampler *s);                 /* takes NULL */
/* seeds: nodes, none twice. Another number `seed` for each batch and epoch, or the same edges are drawn again. After a
 * failure the sampler can be used on. */
TINY_API tiny_status tgnn_sampler_draw(tgnn_sampler *s, uint64_t seed, const int32_t *seeds, tiny_idx n_seeds,
                                       tgnn_sample *out);

TINYI_C_END
#endif
