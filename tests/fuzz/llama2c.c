/* tests/fuzz/llama2c.c - any bytes as a .bin of llama2.c and its tokenizer: two bytes of length, the tokenizer, the
 * model; a model that opens is read in full and runs one token */
#include "tinyllm.h"
#include "llm/file/kit.h"

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    size_t n_tok = size < 2 ? 0 : data[0] | (size_t)data[1] << 8;
    tllm_gguf *g;
    kit_used used;
    if (size < 2) return;
    if (n_tok > size - 2) n_tok = size - 2;
    if (tllm_llama2c_open_memory(ctx, data + 2 + n_tok, size - 2 - n_tok, n_tok ? data + 2 : NULL, n_tok, &g)) {
        if (g || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    if (kit_use(ctx, g, &used)) abort();
    tllm_gguf_close(ctx, g);
}

#define FUZZ_NAME "llama2c"
#define FUZZ_CTX_EACH
#define FUZZ_EXTRA ((size_t)1 << 22)        /* scratch of a token */
#include "engine.h"
