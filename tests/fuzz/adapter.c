/* tests/fuzz/adapter.c - any bytes as a LoRA adapter or a control vector of a small model; an adapter that opens is
 * attached and used */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tllm_model *the_model(void)
{
    static tllm_model *model;
    static tiny_ctx *ctx;
    tllm_gguf *file;
    tiny_ctx_desc d;
    if (model) return model;
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    if (tiny_ctx_open(&d, &ctx) || tllm_gguf_open(ctx, "tests/golden/oracle/llm/llama.gguf", &file) ||
        tllm_model_open(ctx, file, &model)) {
        fputs("adapter: tests/golden/oracle/llm/llama.gguf does not open\n", stderr);
        exit(2);
    }
    return model;
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    const tllm_model *model = the_model();
    tllm_gguf *file;
    tllm_adapter *a = NULL;
    tllm_state *s = NULL;
    tllm_state_desc d;
    const int32_t token[2] = { 1, 5 };
    memset(&d, 0, sizeof d);
    d.n_ctx = 4;
    if (tllm_gguf_open_memory(ctx, data, size, &file)) return;
    if (tllm_adapter_open(ctx, model, file, &a)) {
        if (a || !*tiny_ctx_message(ctx)) abort();
    } else if (!tllm_state_open(ctx, model, &d, &s)) {
        static float out[2 * 320];
        if (!tllm_state_attach(s, a, 1.0f) && tllm_forward(s, token, 2, 0, 2, out)) abort();
    }
    tllm_state_close(ctx, s);
    tllm_adapter_close(ctx, a);
    tllm_gguf_close(ctx, file);
}

#define FUZZ_NAME "adapter"
#define FUZZ_CTX_EACH                        /* a forward pass leaves its scratch with the context */
#define FUZZ_EXTRA ((size_t)16 << 20)       /* numbers of two bits become floats, and there is a state */
#include "engine.h"
