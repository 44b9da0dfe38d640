/* src/llm/serve/api.h - a model behind HTTP, with the endpoints and fields that clients of such servers know
 *
 *   memset(&d, 0, sizeof d);
 *   d.server.address = "127.0.0.1:8080";
 *   tllm_engine_open_file(ctx, "model.gguf", NULL, &engine);
 *   tllm_api_open(ctx, engine, &d, &api);
 *   while (!stop && !tllm_api_step(api, UINT64_MAX)) {}
 *   tllm_api_close(api);
 *   tllm_engine_close(engine);
 *
 *   POST /v1/chat/completions  /v1/completions  /completion  /infill  /v1/responses  /v1/messages  /v1/rerank
 *        /v1/embeddings  /tokenize  /detokenize  /apply-template, and counts of tokens for the first kinds
 *   GET  /v1/models  /health  /props  /slots  /metrics  /
 *
 * docs/guide/serve.md lists the fields of each. A field that is not known is refused, and one that has no effect is
 * named in the member "warnings" of the answer: nothing that was asked for is dropped in silence.
 *
 * One thread does everything: tllm_api_step handles what clients sent and then lets the engine make one step. So a
 * token is written as soon as its step is over, without a lock or a hand-over between threads, and a client that hangs
 * up is noticed before the next step. In exchange an answer that needs no model, such as /health, waits for the step
 * that runs. The matrix products inside a step use all threads of the context.
 *
 * Access. Requests need the key if there is one, all but / and /health. Without a key the server must be local, and
 * then answers only requests whose Host is this machine or a name of `hosts`: otherwise a web page could reach it
 * through a name of its own. Requests from web pages of other origins are refused unless `origins` has them. */
#ifndef TINYI_SERVE_API_H
#define TINYI_SERVE_API_H
#include "llm/serve/engine.h"
#include "llm/serve/server.h"
TINYI_C_BEGIN

typedef struct tllm_api tllm_api;

/* a LoRA adapter or a control vector, and its weight where a request names none (0: 1) */
typedef struct tllm_api_adapter { const tllm_adapter *adapter; float weight; } tllm_api_adapter;

typedef struct tllm_api_desc {              /* all zero: the defaults */
    tllm_server_desc server;                /* request, gone and user are not used */
    const char *name;          /* of the model in answers; NULL: general.name of its file, or "model" */
    const char *keys;                       /* one a line; each is a key that is accepted. NULL: no key is needed */
    size_t n_keys;                          /* bytes; 0: keys ends with a 0 byte */
    /* "https://a.example http://localhost:3000": web pages that may use the server; "*": all of them */
    const char *origins;
    const char *hosts;         /* "box.lan model.example": further names of this server */
    const char *chat_template;              /* NULL: that of the file */
    size_t n_chat_template;                 /* bytes; 0: it ends with a 0 byte */
    const tllm_gguf *file;                  /* of the engine's model; NULL: tllm_engine_file */
    /* Adapters of the engine's model. A request takes one of them by its field "lora", [{"id": 0, "scale": 1}], counted
     * from 0, or none by []; without the field it gets the first. The list and the adapters must outlive the api. */
    const tllm_api_adapter *adapters;
    size_t n_adapters;
    tllm_session *embedder;                 /* for /v1/embeddings; NULL: that endpoint says that there is none */
    const char *metrics;       /* what the names of /metrics begin with; NULL: "tinyllm_" */
    size_t n_most;                          /* tokens of an answer, if the request does not say; 0: what fits */
    /* nonzero: earlier answers in the messages of a chat are encoded again from their text. Otherwise those that this
     * server gave become the tokens that were sampled, if the template shows their text as it was */
    int encode_again;
    int lenient;                            /* nonzero: unknown fields get a warning and are not refused */
    /* the answer to GET /: n_page texts, one after the other; NULL: there is none */
    const char *const *page;
    size_t n_page;
} tllm_api_desc;

/* engine may be NULL if there is an embedder. The caller steps the engine only through the api. Texts of desc are
 * copied, except the page. Engine, embedder and ctx must outlive the api. On failure *out is NULL. */
TINY_API tiny_status tllm_api_open(tiny_ctx *ctx, tllm_engine *engine, const tllm_api_desc *desc, tllm_api **out);
/* Cancels what clients still wait for. a may be NULL. */
TINY_API void tllm_api_close(tllm_api *a);
/* Handles events, waiting for them up to the time `until` (tiny_now_ns) if no request is under way; then lets the
 * engine make a step. */
TINY_API tiny_status tllm_api_step(tllm_api *a, uint64_t until);
TINY_API const char *tllm_api_address(const tllm_api *a); /* tllm_server_address */
TINY_API const char *tllm_api_name(const tllm_api *a);    /* of the model */

TINYI_C_END
#endif
