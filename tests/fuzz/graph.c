/* tests/fuzz/graph.c - any bytes as a graph in each of the forms, and as an array; a graph that opens is checked and
 * used */
#define FUZZ_EXTRA ((size_t)96 << 20)       /* packed forms may grow 64 times, with as much for the edges */
#include "tinygnn.h"
#include <stdlib.h>

static void *fuzz_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes);
static void fuzz_log(void *user, tiny_log_level level, const char *sentence);

/* a context for each input: workspace kept by sorting is not a leak */
static void target(tiny_ctx *engine, const uint8_t *data, size_t size)
{
    tiny_ctx_desc desc = { 0 };
    tgnn_graph_desc d = { 0 };
    tiny_ctx *ctx;
    tgnn_graph *g;
    tgnn_array a;
    const tiny_sparse *out;
    d.symmetrize = size & 1;
    d.add_loops = size >> 1 & 1;
    d.bipartite = !d.symmetrize && !d.add_loops;
    (void)engine;
    desc.allocator.realloc_fn = fuzz_realloc;
    desc.n_threads = 1;
    desc.log = fuzz_log;
    if (size > 65536 || tiny_ctx_open(&desc, &ctx)) return;
    if (!tgnn_graph_read_memory(ctx, "fuzz", data, size, &d, &g)) {
        if (tiny_sparse_check(ctx, tgnn_graph_in(g)) || tgnn_graph_out(ctx, g, &out) || tiny_sparse_check(ctx, out))
            abort();
        tgnn_graph_close(ctx, g);
    } else if (g || !*tiny_ctx_message(ctx)) abort();
    if (!tgnn_array_read_memory(ctx, "fuzz", data, size, NULL, &a)) {
        if (tiny_tensor_check(&a.t) || !tiny_tensor_is_dense(&a.t)) abort();
        tgnn_array_free(ctx, &a);
    }
    tiny_ctx_close(ctx);
}

#define FUZZ_NAME "graph"
#include "engine.h"
