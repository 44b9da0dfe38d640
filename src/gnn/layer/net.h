/* src/gnn/layer/net.h - a network of graph layers: a description in JSON, weights in safetensors
 *
 *   tgnn_net *net;
 *   tgnn_net_read(ctx, "model.safetensors", &net);         also reads model.json next to it
 *   in.graph = g; in.x = &x;
 *   tgnn_net_run(ctx, net, &in, &y, NULL);
 *   tgnn_net_free(ctx, net);
 *
 * The weights are a state_dict of torch. The name of a tensor is the name of its layer, a dot, and the name from the
 * table in gnn/layer/layer.h. The description has the kinds, the order and the widths of the layers.
 *
 *   { "format": "tgnn-net 1",
 *     "rows": true,                         first divides each row of x by its sum (unless that is 0)
 *     "layers": [
 *       { "kind": "gat", "name": "conv1", "in": 1433, "out": 8, "heads": 8, "act": "elu" },
 *       { "kind": "gat", "name": "conv2", "out": 7, "concat": false } ] }
 *
 * The members of a layer are the arguments of its class in PyTorch Geometric, with their defaults:
 *   all          kind, name, act (none, relu, elu, tanh: the activation of y), dropout (of x; only for training)
 *                all but appnp and readout: out, in (required for the first layer; else the width of the previous one)
 *   gcn, sgc, appnp
 *                add_self_loops (true), edge_weight (false; true: use the weights of the graph);
 *                K (sgc: 1, appnp: 10), alpha (appnp: 0.1)
 *   sage         aggr (mean; sum, add, max, min), normalize (false)
 *   gat, gatv2   heads (1), concat (true), add_self_loops (true), negative_slope (0.2), dropout_edges (of alpha, only
 *                for training; dropout then applies to the summed rows too, as in the authors' program)
 *   gin, gine    hidden (out: the width between the two Linear), eps (0; used if there is no tensor eps); gine: edge
 *   rgcn         relations, bases (none)
 *   transformer  heads (1), concat (true), edge (features of an edge, none), root_weight (true; false: ignores
 *                lin_skip, which the class saves but does not use)
 *   linear       torch.nn.Linear: weight, bias
 *   readout      makes one row for each graph: aggr (sum), all (false; true: concatenates x and the outputs of all
 *                previous layers)
 * Biases, the second weight of sage, root, lin_skip and eps may be missing. It is an error if a tensor belongs
 * to no layer, a shape does not match, a number is not finite, or a layer has a member that its kind does not list. */
#ifndef TINYI_GNN_NET_H
#define TINYI_GNN_NET_H
#include "gnn/layer/layer.h"
TINYI_C_BEGIN

#define TGNN_NET_MOST 32                    /* layers */
#define TGNN_NET_NAME 64                    /* bytes of a name, with the 0 */
#define TGNN_NET_WIDTH ((tiny_idx)1 << 20)  /* the longest row */

typedef enum tgnn_stage_kind { TGNN_STAGE_CONV, TGNN_STAGE_LINEAR, TGNN_STAGE_READOUT } tgnn_stage_kind;
typedef enum tgnn_act { TGNN_ACT_NONE, TGNN_ACT_RELU, TGNN_ACT_ELU, TGNN_ACT_TANH, TGNN_ACT_COUNT } tgnn_act;

typedef struct tgnn_stage {
    tgnn_stage_kind kind;
    tgnn_layer layer;                       /* CONV; the weights of a LINEAR are w[0] and w[1] */
    char name[TGNN_NET_NAME];
    int act;                                /* tgnn_act */
    tiny_idx n_in, out, n_out;              /* out: from the description; n_out: width of its rows */
    tiny_idx hidden, edge, relations, bases;
    int aggr, all;                          /* READOUT */
    int no_root;                            /* TRANSFORMER: no lin_skip */
    float dropout, dropout_edges;
} tgnn_stage;

typedef struct tgnn_net {
    int n_stages;
    tgnn_stage stage[TGNN_NET_MOST];
    int rows;                               /* rows of x are divided by their sums */
    /* nonzero: the description is that of a quantized net, see gnn/quant/quant.h */
    int quant;
    tiny_idx n_in, n_out;
} tgnn_net;

/* path: "model.safetensors" with the description in model.json next to it, or "model.json" with the weights next to
 * it. */
TINY_API tiny_status tgnn_net_read(tiny_ctx *ctx, const char *path, tgnn_net **out);
/* name is used in error sentences. The bytes are not needed after the call. */
TINY_API tiny_status tgnn_net_read_memory(tiny_ctx *ctx, const char *name, const void *json, size_t n_json,
                                          const void *weights, size_t n_weights, tgnn_net **out);
/* Makes a net from a description and draws initial weights (Glorot's uniform distribution for matrices, 0 for biases
 * and eps). The same seed gives the same weights on every machine. */
TINY_API tiny_status tgnn_net_make(tiny_ctx *ctx, const char *name, const void *json, size_t n_json, uint64_t seed,
                                   tgnn_net **out);
/* Draws new initial weights for an existing net. */
TINY_API tiny_status tgnn_net_draw(tiny_ctx *ctx, tgnn_net *net, uint64_t seed);
/* The usual networks of the papers, without a description: depth layers of one kind (conv1, conv2 ...). Each but the
 * last has an activation: elu for gat and gatv2, else relu. With readout, the sums of x and of the outputs of all
 * layers go into one linear layer ("lin"). */
typedef struct tgnn_net_desc {
    tgnn_layer_kind kind;                   /* gcn, sage, gat, gatv2, gin, transformer */
    tiny_idx n_in, n_out;
    tiny_idx hidden;                        /* of a head; 0: 8 for gat, gatv2 and transformer, else 16 */
    int heads;                              /* gat, gatv2, transformer: 0 means 8; the last layer has one */
    int depth;                              /* 0: 2, with a readout 4 */
    int readout, rows;
    /* before each layer and of alpha; with a readout only before the linear layer */
    float dropout;
} tgnn_net_desc;
TINY_API tiny_status tgnn_net_usual(tiny_ctx *ctx, const tgnn_net_desc *desc, uint64_t seed, tgnn_net **out);
/* Writes both files, each completely or not at all. PyTorch reads the weights with safetensors.torch.load_file. */
TINY_API tiny_status tgnn_net_write(tiny_ctx *ctx, const char *path, const tgnn_net *net);
TINY_API void tgnn_net_free(tiny_ctx *ctx, tgnn_net *net);         /* takes NULL */

typedef struct tgnn_net_input {
    const tgnn_graph *graph;
    const tiny_tensor *x;                   /* (nodes, n_in) */
    const tiny_tensor *e;                   /* (edges in input order, features): gine, transformer; NULL: none */
    const int32_t *relation;                /* rgcn: of each edge in input order */
    int64_t n_relation;                     /* number of edges in the input */
    /* readout: where the nodes of each graph begin, n_graphs + 1; NULL: all are one graph */
    const int64_t *graph_at;
    tiny_idx n_graphs;
} tgnn_net_input;

/* y (nodes, n_out), with a readout (graphs, n_out). before: receives the input of the last layer (its n_in columns),
 * for example to plot the nodes; may be NULL. Two threads may run one net in two contexts. */
TINY_API tiny_status tgnn_net_run(tiny_ctx *ctx, const tgnn_net *net, const tgnn_net_input *in, const tiny_tensor *y,
                                  const tiny_tensor *before);

/* ---- inside: what the bodies share ---- */

/* tgnn_net_run, with another function for convolutions and linear layers. Activations and readouts stay those of the
 * net. by NULL: no other function. */
typedef tiny_status (*tinyi_net_stage_fn)(void *arg, int i, const tgnn_graph *g, const tiny_tensor *x,
                                          const tiny_tensor *y);
TINYI_FN tiny_status tinyi_net_run_by(tiny_ctx *ctx, const tgnn_net *net, const tgnn_net_input *in,
                                      const tiny_tensor *y, const tiny_tensor *before, tinyi_net_stage_fn by,
                                      void *arg);

/* Weight i of a stage: its name in the layer, and the shape that it must have. 0: the stage has no such weight. */
typedef struct tinyi_net_weight { const char *name; int rank, optional; tiny_idx dim[3]; } tinyi_net_weight;
TINYI_FN int tinyi_net_wants(const tgnn_stage *s, int i, tinyi_net_weight *w);

/* The graphs that the stages sum over; stages that need the same graph share it. */
typedef struct tinyi_net_graphs { tgnn_graph *of[TGNN_NET_MOST]; int shared[TGNN_NET_MOST]; } tinyi_net_graphs;
TINYI_FN tiny_status tinyi_net_graphs_open(tiny_ctx *ctx, const tgnn_net *net, const tgnn_graph *g,
                                           const int32_t *relation, int64_t n_relation, tinyi_net_graphs *out);
TINYI_FN void tinyi_net_graphs_close(tiny_ctx *ctx, tinyi_net_graphs *g);
/* rows of x into y, each divided by its sum; y may be x */
TINYI_FN void tinyi_net_rows(const tiny_tensor *x, float *y);

TINYI_C_END
#endif
