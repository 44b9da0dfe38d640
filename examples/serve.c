/* examples/serve.c - a model behind HTTP, for the programs that speak to such servers, and a page for people
 *
 *     serve MODEL.gguf --port 8080       then open http://127.0.0.1:8080
 *     serve MODEL.gguf --address '*:8080' --key-file keys.txt
 *
 * docs/guide/serve.md shows the endpoints, and how to call them from curl, Python and editors. Ctrl-C ends it. */
#define TINYLLM_WITH_SERVER
#define TINY_WITH_TUNE                      /* TINY_TUNE in the environment */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "serve"
#include "options.h"
#include "serve-page.h"

#define MOST_ADAPTERS 8

static const char usage[] =
    "serve MODEL [options]\n"
    "  --port N         listen at port N of this machine, 0: any free one; default: 8080\n"
    "  --address A      HOST:PORT, PORT, unix:PATH, or *:PORT for every interface; default: 127.0.0.1:8080\n"
    "  --key-file F     a file with keys, one a line: a request must bring one of them\n"
    "  --slots N        requests that run at the same time; default: 8\n"
    "  --context N      most tokens of a request, prompt and answer; default: as the file says, at most 4096\n"
    "  --queue N        most requests that wait; default: 256\n"
    "  --cells N        tokens that all requests hold together; default: slots times context\n"
    "  --budget N       most tokens of prompts that a step reads; default: 256\n"
    "  --window         each slot has the room of a whole context and the busy ones stay together; default: pages\n"
    "  --cache-type-k T format of the cached keys: f32, f16, q8_0 or q4_0; default: f32\n"
    "  --cache-type-v T format of the cached values\n"
    "  --lora FILE[=S]  a LoRA adapter or control vector, times S (default 1); up to 8, of which a request takes one\n"
    "  --n N            most tokens of an answer that names no limit; default: 0, what the context holds\n"
    "  --exact          the same bits for a request whoever else is served; slower\n"
    "  --draft FILE     a smaller model with the same vocabulary proposes tokens, and this one checks several in one "
    "pass\n"
    "  --draft-repeat   the same without a model: what followed the same words before is proposed, for answers that "
    "quote their prompt\n"
    "  --draft-n N      propose at most N tokens at once, 1 to 32; default: 4, with --draft-repeat 8\n"
    "  --draft-always   propose as many each time, also where that is slower\n"
    "  --embed FILE     an embedding model for /v1/embeddings; MODEL itself may be one\n"
    "  --name TEXT      the name of the model in answers; default: as the file says\n"
    "  --template FILE  a chat template instead of the file's own\n"
    "  --origins TEXT   web pages that may call, \"https://a.example http://localhost:3000\"; \"*\": all\n"
    "  --hosts TEXT     further names of this server, \"box.lan model.example\"\n"
    "  --metrics TEXT   what the names in /metrics begin with; default: tinyllm_\n"
    "  --lenient        unknown fields of requests get a warning and are not refused\n"
    "  --connections N  most connections; default: 512\n"
    "  --repack         repack all weights at the start, eight rows interleaved, for faster answers\n"
    "  --no-repack      leave them in the file; default: repack on processors that gain, if memory "
    "suffices\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n";

/* Tells what made the start longer. */
static tiny_status repack_weights(tiny_ctx *ctx, tllm_model *model, int all)
{
    tllm_repack_desc desc;
    tllm_repacked about;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    desc.automatic = !all;
    st = tllm_model_repack(ctx, model, &desc, &about);
    end_progress();
    if (!st && about.n)
        fprintf(stderr, "serve: repacked %.1f MB of weights in %.2f s; --no-repack leaves them in the file\n",
                (double)about.bytes / 1e6, about.seconds);
    return st;
}

int main(int argc, char **argv)
{
    const char *path = NULL, *key_path = NULL, *template_path = NULL, *embed_path = NULL, *draft_path = NULL;
    const char *type_k = NULL, *type_v = NULL;
    char *keys = NULL, *source = NULL;
    size_t n_keys = 0, n_source = 0;
    int slots = 0, context = 0, queue = 0, cells = 0, n_most = 0, connections = 0, repack = 0, no_repack = 0;
    int port = -1, budget = 0, window = 0, repeats = 0, short_of_memory = 0, i;
    word_list loras = { { NULL }, 0 };
    double scale[MOST_ADAPTERS];
    tllm_adapter *lora[MOST_ADAPTERS] = { NULL };
    tllm_api_adapter adapters[MOST_ADAPTERS];
    const tllm_format *format_k = NULL, *format_v = NULL;
    char at_port[40];
    tiny_ctx_desc desc;
    tllm_engine_desc engine_desc;
    tllm_state_desc room;
    tllm_api_desc api_desc;
    tllm_about about;
    tiny_ctx *ctx = NULL;
    tllm_gguf *file = NULL, *draft_file = NULL;
    tllm_model *model = NULL, *draft = NULL;
    tllm_vocab *vocab = NULL, *draft_vocab = NULL;
    tllm_session *embedder = NULL;
    tllm_engine *engine = NULL;
    tllm_api *api = NULL;
    tiny_status st;
    const option options[] = { THE_WORD("file", &path),
                               A_WHOLE("--port", &port, 0, 65535),
                               A_TEXT("--address", &api_desc.server.address),
                               A_TEXT("--key-file", &key_path),
                               A_WHOLE("--slots", &slots, 1, TLLM_ENGINE_MOST_SLOTS),
                               A_WHOLE("--context", &context, 8, 1e9),
                               A_WHOLE("--queue", &queue, 1, 1e6),
                               A_WHOLE("--cells", &cells, 8, 1e9),
                               A_WHOLE("--budget", &budget, 1, 1e6),
                               A_FLAG("--window", &window),
                               A_TEXT("--cache-type-k", &type_k),
                               A_TEXT("--cache-type-v", &type_v),
                               A_LIST("--lora", &loras, MOST_ADAPTERS),
                               A_WHOLE("--n", &n_most, 0, 1e9),
                               A_FLAG("--exact", &engine_desc.exact),
                               A_TEXT("--draft", &draft_path),
                               A_FLAG("--draft-repeat", &repeats),
                               A_WHOLE("--draft-n", &engine_desc.draft_n, 1, TLLM_DRAFT_TOKENS),
                               A_FLAG("--draft-always", &engine_desc.draft_always),
                               A_TEXT("--embed", &embed_path),
                               A_TEXT("--name", &api_desc.name),
                               A_TEXT("--template", &template_path),
                               A_TEXT("--origins", &api_desc.origins),
                               A_TEXT("--hosts", &api_desc.hosts),
                               A_TEXT("--metrics", &api_desc.metrics),
                               A_FLAG("--lenient", &api_desc.lenient),
                               A_WHOLE("--connections", &connections, 1, 1e5),
                               A_FLAG("--repack", &repack),
                               A_FLAG("--no-repack", &no_repack),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target) };
    memset(&desc, 0, sizeof desc);
    memset(&engine_desc, 0, sizeof engine_desc);
    memset(&room, 0, sizeof room);
    memset(&api_desc, 0, sizeof api_desc);
    READ_OPTIONS(argc, argv, usage, options);
    if (port >= 0 && api_desc.server.address) return wrong("--port and --address", "one of them");
    if (window && cells) return wrong("--window and --cells", "one of them");
    if (repack && no_repack) return wrong("--repack and --no-repack", "one of them");
    if (type_k && !(format_k = tllm_format_by_name(type_k))) return wrong("--cache-type-k", type_k);
    if (type_v && !(format_v = tllm_format_by_name(type_v))) return wrong("--cache-type-v", type_v);
    for (i = 0; i < loras.n; i++)
        if (!is_scaled(loras.at[i], -1e5, 1e5, &scale[i]) || scale[i] == 0)
            return wrong(loras.at[i], "this is neither a file nor FILE=NUMBER");
    if (draft_path && repeats) return wrong("--draft and --draft-repeat", "one of them");
    if (!draft_path && !repeats && (engine_desc.draft_n || engine_desc.draft_always))
        return refused("%s does nothing without --draft or --draft-repeat",
                       engine_desc.draft_n ? "--draft-n" : "--draft-always");
    if (repeats && !engine_desc.draft_n) engine_desc.draft_n = 8;
    if (key_path && !(keys = read_text(key_path, MOST_SETTINGS, 0, &n_keys))) return 1;
    if (key_path && !keys[strspn(keys, "\r\n")]) return free(keys), wrong(key_path, "the file has no key");
    if (template_path && !(source = read_text(template_path, TLLM_TEMPLATE_MAX_BYTES, 0, &n_source)))
        return free(keys), 1;
    desc.cancel = cancelled;
    desc.progress = show_progress;
    desc.log = hear;
    desc.user = &ctx;
    engine_desc.slots = slots;
    engine_desc.context = context;
    engine_desc.queue = (size_t)queue;
    engine_desc.cells = cells;
    engine_desc.budget = budget;
    engine_desc.mode = window ? TLLM_ENGINE_WINDOW : TLLM_ENGINE_PAGED;
    if (format_k) engine_desc.type_k = format_k->id;
    if (format_v) engine_desc.type_v = format_v->id;
    (void)snprintf(at_port, sizeof at_port, "127.0.0.1:%d", port);
    if (port >= 0) api_desc.server.address = at_port;
    room.n_ctx = context;
    api_desc.keys = keys;
    api_desc.n_keys = n_keys;
    api_desc.chat_template = source;
    api_desc.n_chat_template = n_source;
    api_desc.n_most = (size_t)n_most;
    api_desc.encode_again = engine_desc.exact;
    api_desc.server.connections = (size_t)connections;
    api_desc.page = serve_page;
    api_desc.n_page = sizeof serve_page / sizeof *serve_page;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tllm_file_open(ctx, path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) {
        tllm_model_about(model, &about);
        if (about.output == TLLM_LOGITS) {
            st = tllm_vocab_open(ctx, file, &vocab);
            if (!st && !no_repack) st = repack_weights(ctx, model, repack);
            if (!st && draft_path) st = tllm_file_open(ctx, draft_path, &draft_file);
            if (!st && draft_path) st = tllm_model_open(ctx, draft_file, &draft);
            if (!st && draft_path) st = tllm_vocab_open(ctx, draft_file, &draft_vocab);
            engine_desc.draft_model = draft;
            engine_desc.draft_vocab = draft_vocab;
            if (!st) st = tllm_engine_open(ctx, model, vocab, &engine_desc, &engine);
            for (i = 0; !st && i < loras.n; i++) {
                st = tllm_adapter_load(ctx, model, loras.at[i], &lora[i]);
                adapters[i].adapter = lora[i];
                adapters[i].weight = (float)scale[i];
            }
        } else if (!embed_path) embed_path = path;
    }
    if (!st && embed_path) st = tllm_session_open(ctx, embed_path, &room, &embedder);
    api_desc.file = file;
    api_desc.embedder = embedder;
    api_desc.adapters = adapters;
    api_desc.n_adapters = (size_t)loras.n;
    if (!st) st = tllm_api_open(ctx, engine, &api_desc, &api);
    if (!st) {
        const char *address = tllm_api_address(api);
        stop_on_signals_whole();            /* before the line that others wait for */
        printf("serving %s at %s%s\n", tllm_api_name(api), strncmp(address, "unix:", 5) ? "http://" : "", address);
        (void)fflush(stdout);
        while (!stopped_by && !st) {
            st = tllm_api_step(api, UINT64_MAX);
            if (st == TINY_E_MEMORY && !short_of_memory++) say(tiny_ctx_message(ctx));
            if (st == TINY_E_MEMORY || st == TINY_E_CANCELLED) st = TINY_OK; /* tried again; by the signal */
        }
    }
    if (st && ctx) say(*tiny_ctx_message(ctx) ? tiny_ctx_message(ctx) : tiny_status_text(st));
    tllm_api_close(api);
    tllm_engine_close(engine);
    for (i = 0; i < loras.n && ctx; i++) tllm_adapter_close(ctx, lora[i]);
    tllm_session_close(embedder);
    tllm_vocab_close(ctx, draft_vocab);
    tllm_model_close(ctx, draft);
    tllm_gguf_close(ctx, draft_file);
    tllm_vocab_close(ctx, vocab);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    tiny_ctx_close(ctx);
    free(keys);
    free(source);
    return exit_status(st != TINY_OK);
}
