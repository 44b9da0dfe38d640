/* tests/fuzz/net.c - a description and weights from any bytes: two bytes say how long the description is, the rest are
 * the weights; a net that opens, in floats or in whole numbers, runs on a small graph if its rows are narrow */
#define FUZZ_EXTRA ((size_t)2 << 20)        /* a net of 32 layers, and the memory of runs on 4 nodes */
#include "tinygnn.h"
#include <stdlib.h>
#include <string.h>

static void *fuzz_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes);
static void fuzz_log(void *user, tiny_log_level level, const char *sentence);

static void target(tiny_ctx *engine, const uint8_t *data, size_t size)
{
    static const int64_t at[3] = { 0, 1, 4 };
    static float x[4 * 64], e[64 * 8];
    static int32_t relation[64];
    tiny_ctx_desc desc = { 0 };
    tgnn_net_input in = { 0 };
    tiny_tensor tx, te, ty;
    tiny_ctx *ctx;
    tgnn_graph *g;
    tgnn_net *net;
    tgnn_quant *small;
    size_t n_json;
    int i;
    (void)engine;
    desc.allocator.realloc_fn = fuzz_realloc;
    desc.n_threads = 1;
    desc.log = fuzz_log;
    if (size < 2 || tiny_ctx_open(&desc, &ctx)) return;
    n_json = (size_t)data[0] | (size_t)data[1] << 8;
    if (n_json > size - 2) n_json = size - 2;
    if (tgnn_net_read_memory(ctx, "fuzz", data + 2, n_json, data + 2 + n_json, size - 2 - n_json, &net)) {
        if (net || !*tiny_ctx_message(ctx)) abort();
    } else {
        int narrow = net->n_in <= 64, steps = 0;
        for (i = 0; i < net->n_stages; i++) {
            const tgnn_stage *s = &net->stage[i];
            narrow &= s->n_out <= 64 && s->hidden <= 64 && s->out <= 64 && s->layer.heads <= 64 && s->relations <= 64 &&
                      (s->edge == 0 || s->edge == 8);
            steps += s->layer.steps;
        }
        if (narrow && steps <= 100 && !tgnn_planted(ctx, 4, 2, 2.0, 0.5, 1, &g)) {
            const int graphs = net->stage[net->n_stages - 1].kind != TGNN_STAGE_CONV;
            tx = tiny_tensor_2d(x, TINY_F32, 4, net->n_in);
            te = tiny_tensor_2d(e, TINY_F32, (tiny_idx)tgnn_graph_edges(g), 8);
            in.graph = g;
            in.x = &tx;
            in.e = &te;
            in.relation = relation;
            in.n_relation = 64;
            in.graph_at = at;
            in.n_graphs = 2;
            for (i = 0; i < 4 * 64; i++) x[i] = (float)(i % 7) - 3.0f;
            for (; i >= 0; i -= 2) {        /* with as many rows as it may have: one of the two fits */
                ty = tiny_tensor_2d(NULL, TINY_F32, i ? 4 : 2, net->n_out);
                ty.data = tiny_alloc(ctx, (size_t)(4 * net->n_out) * sizeof(float));
                if (!ty.data) abort();
                if (!tgnn_net_run(ctx, net, &in, &ty, NULL) && !graphs && ty.dim[0] != 4) abort();
                tiny_free(ctx, ty.data);
                if (i) i = 2;
            }
            tgnn_graph_close(ctx, g);
        }
        tgnn_net_free(ctx, net);
    }
    if (tgnn_quant_read_memory(ctx, "fuzz", data + 2, n_json, data + 2 + n_json, size - 2 - n_json, &small)) {
        if (small || !*tiny_ctx_message(ctx)) abort();
    } else {
        int narrow = small->net->n_in <= 64 && !small->q->n_nodes;
        for (i = 0; i < small->net->n_stages; i++)
            narrow &= small->net->stage[i].n_out <= 64 && small->net->stage[i].hidden <= 64;
        memset(&in, 0, sizeof in);
        if (narrow && !tgnn_planted(ctx, 4, 2, 2.0, 0.5, 1, &g)) {
            tx = tiny_tensor_2d(x, TINY_F32, 4, small->net->n_in);
            ty = tiny_tensor_2d(tiny_alloc(ctx, (size_t)(4 * small->net->n_out) * sizeof(float)), TINY_F32, 4,
                                small->net->n_out);
            if (!ty.data) abort();
            in.graph = g;
            in.x = &tx;
            for (i = 0; i < 4 * 64; i++) x[i] = (float)(i % 7);
            (void)tgnn_quant_run(ctx, small, &in, &ty, NULL, NULL);
            tiny_free(ctx, ty.data);
            tgnn_graph_close(ctx, g);
        }
        tgnn_quant_free(ctx, small);
    }
    tiny_ctx_close(ctx);
}

#define FUZZ_NAME "net"
#include "engine.h"
