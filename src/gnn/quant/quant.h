/* src/gnn/quant/quant.h - a net of whole numbers: weights of 4 bits, features of 1 to 8
 *
 *   tgnn_quant_make(ctx, net, q, &small);                  from what gnn/quant/a2q_net.h has learnt
 *   tgnn_quant_write(ctx, "model.safetensors", small);     and model.json beside it
 *   tgnn_quant_run(ctx, small, &in, &y, NULL, NULL);       the classes that the trained net gave
 *
 * Each product is one of bytes, each sum along edges one of nibbles; between them rows are scaled, and quantized again.
 * Features go packed from layer to layer.
 *
 * The files are those of a net (gnn/layer/net.h), with "quant": "a2q INPUT STEPS" in the description: INPUT is raw (0
 * or one number a row), positive or signed, STEPS nodes, groups or published (groups as in tgnn_nearest). Instead of a
 *   matrix NAME (out, in) stand
 *   NAME         U8 (out, (in + 1) / 2)     q + 7 of 4 bits, each row from its own byte on
 *   NAME.scale   F32 (out)                  step of each row
 *   NAME.step    F32 (nodes or groups)      of the features that go in, and
 *   NAME.bits    U8, as many                their bits, 1 to 8; both are missing where the input is raw
 *   NAME.sum     F32 (out)                  step of each column of the product, where it is summed along edges
 * With STEPS nodes the files belong to the graph that they were trained on: another number of nodes is refused. */
#ifndef TINYI_GNN_QUANT_H
#define TINYI_GNN_QUANT_H
#include "gnn/quant/a2q_net.h"
#include "gnn/quant/packed.h"
TINYI_C_BEGIN

typedef struct tgnn_quant {
    tgnn_net *net;                          /* its layers; of the weights only biases and eps */
    tgnn_a2q_net *q;                        /* steps and bits, whole */
    int8_t *code[TGNN_A2Q_MAPS];            /* of each map, (n_out, n_in), -7 .. 7 */
    tgnn_nibbles turned;                    /* code[0] by input, where the input is raw */
} tgnn_quant;

typedef struct tgnn_quant_report {          /* of the features that were packed in a run */
    uint64_t numbers, bits;
    size_t bytes, step_bytes;               /* with the bytes filled up; a step of 4 bytes and 1 of bits for each row */
} tgnn_quant_report;

TINY_API tiny_status tgnn_quant_make(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q, tgnn_quant **out);
TINY_API void tgnn_quant_free(tiny_ctx *ctx, tgnn_quant *quant);   /* takes NULL */
/* As tgnn_net_run; report may be NULL. */
TINY_API tiny_status tgnn_quant_run(tiny_ctx *ctx, const tgnn_quant *quant, const tgnn_net_input *in,
                                    const tiny_tensor *y, const tiny_tensor *before, tgnn_quant_report *report);
/* Bytes of weights, steps and biases, as they are in the file. */
TINY_API size_t tgnn_quant_bytes(const tgnn_quant *quant);

/* Both files, each written as a whole or not at all. */
TINY_API tiny_status tgnn_quant_write(tiny_ctx *ctx, const char *path, const tgnn_quant *quant);
TINY_API tiny_status tgnn_quant_read(tiny_ctx *ctx, const char *path, tgnn_quant **out);
TINY_API tiny_status tgnn_quant_read_memory(tiny_ctx *ctx, const char *name, const void *json, size_t n_json,
                                            const void *weights, size_t n_weights, tgnn_quant **out);
/* Whether the description beside path is one of a quantized net. */
TINY_API tiny_status tgnn_quant_known(tiny_ctx *ctx, const char *path, int *is);

/* ---- inside: what the bodies share ---- */

/* What the description says, as a number from 1 on (0: not quantized): 1 + 3 input + steps, in the order of the
 * head. */
enum { TINYI_QUANT_RAW, TINYI_QUANT_POSITIVE, TINYI_QUANT_SIGNED };
enum { TINYI_QUANT_NODES, TINYI_QUANT_GROUPS, TINYI_QUANT_PUBLISHED };
/* codes -> the form that a raw input wants */
TINYI_FN tiny_status tinyi_quant_turn(tiny_ctx *ctx, tgnn_quant *quant);

TINYI_C_END
#endif
