/* tests/fuzz/ask.c - any bytes as the body of a request: the first byte chooses the endpoint. The server answers with a
 * status from 200 to 503 and JSON or events, goes on serving, and holds no more memory afterwards than before. It has
 * an embedding model, and a vocabulary with tokens for /infill. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FUZZ_NAME "ask"

static tllm_api *fuzz_api;
static tiny_ctx *fuzz_ctx;

/* The vocabulary of the story with tokens 5 to 8 for filling in. */
static tllm_vocab *fuzz_vocab(const tllm_gguf *file)
{
    static const char *const key[4] = { "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id",
                                        "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.fim_sep_token_id" };
    static tllm_writer *w;                  /* these stay: the vocabulary may look into them */
    static tllm_gguf *made;
    tllm_vocab *v = NULL;
    const void *bytes = NULL;
    size_t i, n = 0;
    if (!tllm_writer_open(fuzz_ctx, NULL, &w)) {
        for (i = 0; i < tllm_gguf_n_meta(file); i++)
            (void)tllm_writer_put_meta(fuzz_ctx, w, tllm_gguf_meta_at(file, i));
        for (i = 0; i < 4; i++) (void)tllm_writer_put_u32(fuzz_ctx, w, key[i], (uint32_t)(5 + i));
        if (!tllm_writer_finish(fuzz_ctx, w)) bytes = tllm_writer_memory(w, &n);
    }
    if (!bytes || tllm_gguf_open_memory(fuzz_ctx, bytes, n, &made) || tllm_vocab_open(fuzz_ctx, made, &v)) return NULL;
    return v;
}

static void fuzz_start(void)
{
    static const char a_template[] = "{% for m in messages %}{{ m.content }} {{ m.tool_calls }}{% endfor %}{# tools #}";
    tllm_engine_desc e;
    tllm_api_desc d;
    tllm_engine *engine;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_vocab *vocab = NULL;
    tllm_session *embedder = NULL;
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.context = 48;
    e.slots = 2;
    d.server.address = "127.0.0.1:0";
    d.chat_template = a_template;
    d.n_most = 4;
    if (!tiny_ctx_open(NULL, &fuzz_ctx) && !tllm_file_open(fuzz_ctx, "examples/models/story-small.gguf", &file) &&
        !tllm_model_open(fuzz_ctx, file, &model) &&
        !tllm_session_open(fuzz_ctx, "tests/fuzz/corpus/gguf/model-pooling-decoder.gguf", NULL, &embedder))
        vocab = fuzz_vocab(file);
    d.file = file;
    d.embedder = embedder;
    if (!vocab || tllm_engine_open(fuzz_ctx, model, vocab, &e, &engine) ||
        tllm_api_open(fuzz_ctx, engine, &d, &fuzz_api)) {
        fprintf(stderr, "ask: the server does not start\n");
        exit(2);
    }
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "/v1/chat/completions", "/v1/completions",           "/v1/responses",
                                         "/v1/messages",         "/v1/messages/count_tokens", "/v1/embeddings",
                                         "/tokenize",            "/detokenize",               "/apply-template",
                                         "/completion",          "/infill",                   "/v1/rerank",
                                         "/chat/completions/input_tokens" };
    static char got[1 << 16];
    static size_t held;
    static int runs;
    char head[300];
    size_t n = 0, k, put = 0, n_head;
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    int found = 0, end = 0, rounds;
    (void)ctx;
    if (!size) return;
    if (!fuzz_api) fuzz_start();
    n_head = (size_t)snprintf(head, sizeof head,
                              "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %lu\r\n\r\n",
                              paths[data[0] % (sizeof paths / sizeof *paths)], (unsigned long)size - 1);
    if (tiny_address_find(NULL, tllm_api_address(fuzz_api), a, &found) || tiny_socket_connect(NULL, &a[0], &s)) exit(2);
    (void)tllm_api_step(fuzz_api, 0);
    if (tiny_socket_write(NULL, s, head, n_head, &put) || put != n_head) abort();
    for (k = 0, rounds = 0; !end && rounds < 2000000; rounds++) {
        put = 0;
        if (k < size - 1 && tiny_socket_write(NULL, s, data + 1 + k, size - 1 - k, &put)) break;
        k += put;
        (void)tllm_api_step(fuzz_api, tiny_now_ns() + 1000000);
        for (;;) {                          /* the beginning is kept, the rest is read and dropped */
            char more[4096];
            size_t here = 0, keep;
            if (tiny_socket_read(NULL, s, more, sizeof more, &here, &end)) end = 1;
            keep = here < sizeof got - 1 - n ? here : sizeof got - 1 - n;
            memcpy(got + n, more, keep);
            n += keep;
            if (!here) break;
        }
    }
    tiny_socket_close(s);
    (void)tllm_api_step(fuzz_api, 0);
    got[n] = 0;
    if (strncmp(got, "HTTP/1.1 ", 9) || atoi(got + 9) < 200 || atoi(got + 9) > 503 || !strstr(got, "\r\n\r\n")) {
        fprintf(stderr, "ask: the answer is \"%.200s\"\n", got);
        abort();
    }
    if (runs++ == 200) held = tiny_ctx_bytes(fuzz_ctx);        /* caches are warm */
    if (held && tiny_ctx_bytes(fuzz_ctx) > held + ((size_t)4 << 20)) {
        fprintf(stderr, "ask: %lu bytes are held, %lu were\n", (unsigned long)tiny_ctx_bytes(fuzz_ctx),
                (unsigned long)held);
        abort();
    }
}
#include "engine.h"
