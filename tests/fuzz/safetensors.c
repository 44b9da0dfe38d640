/* tests/fuzz/safetensors.c - any bytes as a safetensors file; what opens is walked */
#include "tinyllm.h"
#include "llm/file/kit.h"

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    tllm_gguf *g;
    if (tllm_safetensors_open_memory(ctx, data, size, &g)) {
        if (g || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    if (kit_walk(g)) abort();
    tllm_gguf_close(ctx, g);
}

#define FUZZ_NAME "safetensors"
#include "engine.h"
