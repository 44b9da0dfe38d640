/* examples/logits.c - writes the logits of a list of tokens to standard output, as raw float32
 *
 *     logits MODEL.gguf --tokens 1,2,3 > logits.f32
 *
 * Decoders give a row of logits for each token. Encoders and embedding models give the hidden state of each token
 * before pooling. Rerankers give one row, the probabilities of the labels. Models with an encoder and a decoder give
 * logits for --decoder-tokens. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "logits"
#include "options.h"
#include <errno.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static const char usage[] =
    "logits MODEL.gguf --tokens 1,2,3 [options]\n"
    "Writes raw little-endian float32: a row of logits for each token; hidden states if the model gives those.\n"
    "  --tokens LIST          the tokens, separated by commas\n"
    "  --decoder-tokens LIST  for models with an encoder (which reads --tokens) and a decoder\n"
    "  --ref                  plain scalar code: the same bits on every machine\n"
    "  --target T             scalar, w128, neon, avx2, avx512 or amx; default: the best one here\n"
    "  --threads N            default: one per processor\n"
    "  --context N            tokens of the context; default: 64, 256, 1024 ... as the list needs\n"
    "  --position N           position of the first token; default: 0\n"
    "  --lora FILE[=S]        a LoRA adapter, times S (default 1); up to 8 adapters and control vectors\n"
    "  --lora-merge           merge adapters into the weights; without this they are computed separately\n"
    "  --control-vector FILE[=S]   a control vector, times S\n"
    "  --control-layers A-B        layers that control vectors change; default: all but the first\n";

static int fail(const char *what)
{
    fprintf(stderr, "logits: %s\n", what);
    return 1;
}
/* whole numbers separated by commas; NULL: something else, or no memory */
static int32_t *read_tokens(const char *text, tiny_idx *n)
{
    int32_t *t = (int32_t *)malloc((strlen(text) / 2 + 1) * sizeof *t);
    *n = 0;
    while (t && *text) {
        char *end;
        long v;
        errno = 0;
        v = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
        if (v < 0 || errno || v > 0x7fffffffL || (*end && *end != ',') || (*end == ',' && !end[1])) {
            free(t);
            return NULL;
        }
        t[(*n)++] = (int32_t)v;
        text = *end ? end + 1 : end;
    }
    if (t && !*n) { free(t); t = NULL; }
    return t;
}

static int write_floats(const float *x, size_t n)
{
    unsigned char b[4 * 256];
    size_t i, k;
    for (i = 0; i < n; i += k) {
        k = n - i < 256 ? n - i : 256;
        {
            size_t j;
            for (j = 0; j < k; j++) {
                uint32_t u;
                memcpy(&u, x + i + j, 4);
                b[4 * j] = (unsigned char)u;
                b[4 * j + 1] = (unsigned char)(u >> 8);
                b[4 * j + 2] = (unsigned char)(u >> 16);
                b[4 * j + 3] = (unsigned char)(u >> 24);
            }
        }
        if (fwrite(b, 4, k, stdout) != k) return 0;
    }
    return fflush(stdout) == 0;
}

typedef struct adapting { word_list files; double scale[8]; tllm_adapter *a[8]; int merge; long first, last; } adapting;

static int run(tiny_ctx *ctx, const char *path, adapting *with, const int32_t *tokens, tiny_idx n,
               const int32_t *decoder, tiny_idx n_decoder, int context, int position)
{
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc desc;
    tllm_about about;
    float *out = NULL;
    tiny_idx most = n > n_decoder ? n : n_decoder, rows = n;
    int i, result = 1;
    memset(&desc, 0, sizeof desc);
    for (desc.n_ctx = 256; desc.n_ctx < most; desc.n_ctx *= 4) {}
    if (context) desc.n_ctx = context;
    if (tllm_file_open(ctx, path, &file) || tllm_model_open(ctx, file, &model)) {
        fail(tiny_ctx_message(ctx));
        goto done;
    }
    tllm_model_about(model, &about);
    if (about.has_decoder && !decoder) {
        result = wrong(path, "this model has an encoder and a decoder: --decoder-tokens is needed");
        goto done;
    }
    if (!about.has_decoder && decoder) {
        result = wrong(path, "this model has no encoder and decoder: it takes no --decoder-tokens");
        goto done;
    }
    if (about.has_decoder) rows = n_decoder;
    if (about.output == TLLM_RANK) rows = 1;
    if ((size_t)about.n_out > ((size_t)-1) / sizeof *out / (size_t)rows ||
        !(out = (float *)malloc((size_t)rows * (size_t)about.n_out * sizeof *out))) {
        fail("no memory for the results");
        goto done;
    }
    if (tllm_state_open(ctx, model, &desc, &state)) { fail(tiny_ctx_message(ctx)); goto done; }
    for (i = 0; i < with->files.n; i++) {
        const float scale = (float)with->scale[i];
        tllm_adapter_about kind;
        tiny_status st = tllm_adapter_load(ctx, model, with->files.at[i], &with->a[i]);
        tllm_adapter_tell(with->a[i], &kind);
        if (!st && with->first && kind.kind == TLLM_ADAPTER_VECTOR)
            st = tllm_adapter_layers(ctx, with->a[i], with->first, with->last);
        if (!st)
            st = with->merge && kind.kind == TLLM_ADAPTER_LORA
                     ? tllm_adapter_merge(ctx, model, with->a[i], scale, TINY_F32)
                     : tllm_state_attach(state, with->a[i], scale);
        if (st) { fail(tiny_ctx_message(ctx)); goto done; }
    }
    if (about.has_decoder) {
        if (tllm_forward_all(state, tokens, n, NULL) || tllm_forward(state, decoder, n_decoder, position, rows, out)) {
            fail(tiny_ctx_message(ctx));
            goto done;
        }
    } else if (about.is_encoder || about.output != TLLM_LOGITS) {
        if (tllm_forward_all(state, tokens, n, out)) { fail(tiny_ctx_message(ctx)); goto done; }
    } else if (tllm_forward(state, tokens, n, position, rows, out)) {
        fail(tiny_ctx_message(ctx));
        goto done;
    }
    if (!write_floats(out, (size_t)rows * (size_t)about.n_out)) { fail("standard output failed"); goto done; }
    result = 0;
done:
    tllm_state_close(ctx, state);
    for (i = 0; i < with->files.n; i++) tllm_adapter_close(ctx, with->a[i]);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    free(out);
    return result;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    const char *path = NULL, *layers = NULL, *list = NULL, *decoder_list = NULL;
    int32_t *tokens = NULL, *decoder = NULL;
    tiny_idx n = 0, n_decoder = 0;
    int context = 0, position = 0, ref = 0, k, result;
    static adapting with;
    const option options[] = { THE_WORD("model", &path),
                               A_TEXT("--tokens", &list),
                               A_TEXT("--decoder-tokens", &decoder_list),
                               A_FLAG("--ref", &ref),
                               A_TARGET("--target", &desc.target),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_WHOLE("--context", &context, 1, 1e9),
                               A_WHOLE("--position", &position, 0, 2e9),
                               A_LIST("--lora", &with.files, 8),
                               A_LIST("--control-vector", &with.files, 8),
                               A_TEXT("--control-layers", &layers),
                               A_FLAG("--lora-merge", &with.merge) };
    memset(&desc, 0, sizeof desc);
    READ_OPTIONS(argc, argv, usage, options);
    if (!list) return wrong("--tokens", "a model and tokens for it are needed");
    if (layers && !is_range(layers, 1000000, &with.first, &with.last))
        return wrong(layers, "--control-layers takes FIRST-LAST, counted from 1");
    for (k = 0; k < with.files.n; k++)
        if (!is_scaled(with.files.at[k], -1e6, 1e6, &with.scale[k]))
            return wrong(with.files.at[k], "this is neither a file nor FILE=NUMBER");
    if (ref) desc.target = TINY_TARGET_REFERENCE;
    tokens = read_tokens(list, &n);
    if (decoder_list) decoder = read_tokens(decoder_list, &n_decoder);
    desc.log = hear;
    desc.user = &ctx;
    if (!tokens || (decoder_list && !decoder)) result = wrong(tokens ? decoder_list : list, "no list of tokens");
    else if (tiny_ctx_open(&desc, &ctx)) result = 1;
    else {
#ifdef _WIN32
        (void)_setmode(_fileno(stdout), _O_BINARY);
#endif
        result = run(ctx, path, &with, tokens, n, decoder, n_decoder, context, position);
        tiny_ctx_close(ctx);
    }
    free(tokens);
    free(decoder);
    return result;
}
