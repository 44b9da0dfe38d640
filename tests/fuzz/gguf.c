/* tests/fuzz/gguf.c - any bytes as a GGUF file; a file that opens is read in full, written and read again; its
 * vocabulary encodes and decodes a text, and a model runs one token */
#include "tinyllm.h"
#include "llm/file/kit.h"

static void again(tiny_ctx *ctx, const tllm_gguf *g)
{
    tllm_writer *w;
    tllm_gguf *copy;
    size_t i, n;
    const void *file;
    if (tllm_writer_open(ctx, NULL, &w)) abort();
    for (i = 0; i < tllm_gguf_n_meta(g); i++)
        if (tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i))) abort();
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data)) abort();
    }
    if (tllm_gguf_alignment(g) <= 4096) {
        if (tllm_writer_finish(ctx, w)) abort();
        file = tllm_writer_memory(w, &n);
        if (tllm_gguf_open_memory(ctx, file, n, &copy) || kit_walk(copy) ||
            tllm_gguf_n_tensors(copy) != tllm_gguf_n_tensors(g))
            abort();
        tllm_gguf_close(ctx, copy);
    }
    tllm_writer_close(ctx, w);
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    tllm_gguf *g;
    kit_used used;
    if (tllm_gguf_open_memory(ctx, data, size, &g)) {
        if (g || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    if (kit_use(ctx, g, &used)) abort();
    if (size < 4000) again(ctx, g);
    tllm_gguf_close(ctx, g);
}

#define FUZZ_NAME "gguf"
#define FUZZ_CTX_EACH
#define FUZZ_EXTRA \
    ((size_t)1 << 22) /* scratch of a token; tests/llm/model/corpus.c checks the memory of opening against its limit */
#include "engine.h"
