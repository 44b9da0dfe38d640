/* tests/fuzz/safetensors.c - any bytes as a safetensors file; a file that opens is read in full, and a model runs one
 * token */
#include "tinyllm.h"
#include "llm/file/kit.h"

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    tllm_gguf *g;
    kit_used used;
    if (tllm_safetensors_open_memory(ctx, data, size, &g)) {
        if (g || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    if (kit_use(ctx, g, &used)) abort();
    tllm_gguf_close(ctx, g);
}

#define FUZZ_NAME "safetensors"
#define FUZZ_CTX_EACH
#define FUZZ_EXTRA ((size_t)1 << 22)        /* scratch of a token */
#include "engine.h"
