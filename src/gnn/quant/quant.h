/* src/gnn/quant/quant.h - integer nets: weights of 4 bits, features of 1 to 8
 *
 *   tgnn_quant_make(ctx, net, q, &small);                  q: learnt steps and bits, see gnn/quant/a2q_net.h
 *   tgnn_quant_write(ctx, "model.safetensors", small);     also writes model.json next to it
 *   tgnn_quant_run(ctx, small, &in, &y, NULL, NULL);       gives the classes of the trained net
 *
 * Products multiply bytes, and sums along edges add nibbles. Between them rows are scaled and quantized again. Features
 * are packed from layer to layer.
 *
 * The files are those of a net (gnn/layer/net.h). The description also has "quant": "a2q INPUT STEPS". INPUT is raw
 * (each row holds only zeros and one positive value), positive or signed. STEPS is nodes, groups or published (groups
 * as in tgnn_nearest). Instead of a matrix NAME (out, in) the file has
 *   NAME         U8 (out, (in + 1) / 2)     q + 7 of 4 bits; each row begins at a whole byte
 *   NAME.scale   F32 (out)                  step of each row
 *   NAME.step    F32 (nodes or groups)      of the features that go in, and
 *   NAME.bits    U8, the same number        their bits, 1 to 8; both are missing if the input is raw
 *   NAME.sum     F32 (out)                  step of each column of the product, if it is summed along edges
 * If STEPS is nodes, the net fits only the graph that it was trained on: another number of nodes is an error. */
#ifndef TINYI_GNN_QUANT_H
#define TINYI_GNN_QUANT_H
#include "gnn/quant/a2q_net.h"
#include "gnn/quant/packed.h"
TINYI_C_BEGIN

typedef struct tgnn_quant {
    tgnn_net *net;                          /* the layers; their only weights here are biases and eps */
    tgnn_a2q_net *q;                        /* steps and rounded bits */
    int8_t *code[TGNN_A2Q_MAPS];            /* of each map, (n_out, n_in), -7 .. 7 */
    tgnn_nibbles turned;                    /* code[0] transposed, if the input is raw */
} tgnn_quant;

typedef struct tgnn_quant_report {          /* of the features that were packed in a run */
    uint64_t numbers, bits;
    size_t bytes, step_bytes;               /* bytes: with padding; step_bytes: 5 for each row, step and bits */
} tgnn_quant_report;

TINY_API tiny_status tgnn_quant_make(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q, tgnn_quant **out);
TINY_API void tgnn_quant_free(tiny_ctx *ctx, tgnn_quant *quant);   /* takes NULL */
/* Like tgnn_net_run; report may be NULL. */
TINY_API tiny_status tgnn_quant_run(tiny_ctx *ctx, const tgnn_quant *quant, const tgnn_net_input *in,
                                    const tiny_tensor *y, const tiny_tensor *before, tgnn_quant_report *report);
/* Size of weights, steps and biases in the file, in bytes. */
TINY_API size_t tgnn_quant_bytes(const tgnn_quant *quant);

/* Writes both files, each completely or not at all. */
TINY_API tiny_status tgnn_quant_write(tiny_ctx *ctx, const char *path, const tgnn_quant *quant);
TINY_API tiny_status tgnn_quant_read(tiny_ctx *ctx, const char *path, tgnn_quant **out);
TINY_API tiny_status tgnn_quant_read_memory(tiny_ctx *ctx, const char *name, const void *json, size_t n_json,
                                            const void *weights, size_t n_weights, tgnn_quant **out);
/* *is: 1 if the description next to path is one of a quantized net, else 0. */
TINY_API tiny_status tgnn_quant_known(tiny_ctx *ctx, const char *path, int *is);

/* ---- inside: what the bodies share ---- */

/* The "quant" member of the description as a number: 1 + 3 input + steps, in the order of the manual above; 0: not
 * quantized. */
enum { TINYI_QUANT_RAW, TINYI_QUANT_POSITIVE, TINYI_QUANT_SIGNED };
enum { TINYI_QUANT_NODES, TINYI_QUANT_GROUPS, TINYI_QUANT_PUBLISHED };
/* codes -> the form that a raw input needs */
TINYI_FN tiny_status tinyi_quant_turn(tiny_ctx *ctx, tgnn_quant *quant);

TINYI_C_END
#endif
