/* tests/fuzz/gguf.c - any bytes as a GGUF file; what opens is walked, written again and read once more; its vocabulary takes
 * and gives a text, and if it is a model one token is run */
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
        if (tllm_gguf_open_memory(ctx, file, n, &copy) || kit_walk(copy) || tllm_gguf_n_tensors(copy) != tllm_gguf_n_tensors(g)) abort();
        tllm_gguf_close(ctx, copy);
    }
    tllm_writer_close(ctx, w);
}

static void token(tiny_ctx *ctx, const tllm_gguf *g)
{
    static const char text[] = "ab \xe2\x96\x81<s> a\xff 12\n";
    tllm_vocab *v = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    tllm_about about;
    tllm_tokens t;
    tllm_bytes back;
    size_t bytes = 0;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    memset(&back, 0, sizeof back);
    d.n_ctx = 4;
    if (!tllm_vocab_open(ctx, g, &v)) {
        if (!tllm_encode(ctx, v, text, sizeof text - 1, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &t) && tllm_decode(ctx, v, t.id, t.n, 0, &back)) abort();
        tllm_tokens_free(ctx, &t);
        tllm_bytes_free(ctx, &back);
        tllm_vocab_close(ctx, v);
    } else if (!*tiny_ctx_message(ctx)) abort();
    if (tllm_model_open(ctx, g, &model)) {
        if (model || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    tllm_model_about(model, &about);
    if (!tllm_state_memory(ctx, model, &d, &bytes) && bytes < 1u << 26 && about.n_out < 1 << 16 && !tllm_state_open(ctx, model, &d, &state)) {
        float *out = (float *)malloc((size_t)about.n_out * sizeof *out);
        const int32_t one[1] = { 0 };
        if (!out) abort();
        if (about.is_encoder || about.has_decoder || about.output != TLLM_LOGITS) (void)tllm_forward_all(state, one, 1, about.has_decoder ? NULL : out);
        else (void)tllm_forward(state, one, 1, 0, 1, out);
        free(out);
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    tllm_gguf *g;
    if (tllm_gguf_open_memory(ctx, data, size, &g)) {
        if (g || !*tiny_ctx_message(ctx)) abort();
        return;
    }
    if (kit_walk(g)) abort();
    if (size < 4000) again(ctx, g);
    token(ctx, g);
    tllm_gguf_close(ctx, g);
}

#define FUZZ_NAME "gguf"
#define FUZZ_CTX_EACH
#define FUZZ_EXTRA ((size_t)1 << 22)        /* scratch of a token; tests/llm/model/corpus.c holds what opening takes against its limit */
#include "engine.h"
