/* examples/logits.c - what a model makes of a list of tokens, as raw float32 on standard output
 *
 *     logits MODEL.gguf --tokens 1,2,3 > logits.f32
 *
 * Decoders: a row of logits for each token. Encoders and embedding models: the hidden state of each token before pooling.
 * Rerankers: one row, the probabilities of the labels. Models with an encoder and a decoder: logits for --decoder-tokens. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static const char usage[] =
    "logits MODEL.gguf --tokens 1,2,3 [options]\n"
    "Writes raw little-endian float32: a row of logits for each token; hidden states where the model gives those.\n"
    "  --tokens LIST          the tokens, commas between them\n"
    "  --decoder-tokens LIST  for models with an encoder (which reads --tokens) and a decoder\n"
    "  --ref                  plain scalar code: the same bits on every machine\n"
    "  --target T             scalar, w128, neon, avx2, avx512, amx; the best one without this\n"
    "  --threads N            one per processor without this\n"
    "  --context N            tokens that the state has room for; 64, 256, 1024 ... as the list needs, without this\n"
    "  --position N           of the first token; 0 without this\n"
    "  --lora FILE[=S]        a LoRA adapter, times S (1 without); up to 8 of these and of control vectors\n"
    "  --lora-merge           adapters are merged into the weights they touch, instead of computed beside them\n"
    "  --control-vector FILE[=S]   a control vector, times S\n"
    "  --control-layers A-B        layers that control vectors change; all but the first without this\n";

static int fail(const char *what)
{
    fprintf(stderr, "logits: %s\n", what);
    return 1;
}
static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "logits: %s%s%s\nlogits --help tells more\n", what, *value ? ": " : "", value);
    return 2;
}

/* whole numbers from 0 with commas between them; NULL: something else, or no memory */
static int32_t *read_tokens(const char *text, tiny_idx *n)
{
    int32_t *t = (int32_t *)malloc((strlen(text) / 2 + 1) * sizeof *t);
    *n = 0;
    while (t && *text) {
        char *end;
        long v;
        errno = 0;
        v = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
        if (v < 0 || errno || v > 0x7fffffffL || (*end && *end != ',') || (*end == ',' && !end[1])) { free(t); return NULL; }
        t[(*n)++] = (int32_t)v;
        text = *end ? end + 1 : end;
    }
    if (t && !*n) { free(t); t = NULL; }
    return t;
}

static int read_number(const char *text, long least, long most, long *v)
{
    char *end;
    errno = 0;
    *v = strtol(text, &end, 10);
    return *text && !*end && !errno && *v >= least && *v <= most;
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

/* --lora and --control-vector: FILE or FILE=SCALE */
typedef struct extra { const char *path; double scale; tllm_adapter *a; } extra;
static int read_extra(char *text, extra *e)
{
    char *cut = text ? strrchr(text, '=') : NULL, *end;
    memset(e, 0, sizeof *e);
    e->path = text;
    e->scale = 1;
    if (!text || !*text) return 0;
    if (cut) {
        e->scale = strtod(cut + 1, &end);
        if (end == cut + 1 || *end || !(e->scale >= -1e6 && e->scale <= 1e6)) return 0;
        *cut = 0;
    }
    return 1;
}
static int read_layers(const char *text, tiny_idx *first, tiny_idx *last)
{
    long a, b;
    char rest;
    if (!text || sscanf(text, "%ld-%ld%c", &a, &b, &rest) != 2 || a < 1 || b < a || b > 1000000) return 0;
    *first = a;
    *last = b;
    return 1;
}
typedef struct adapting { extra e[8]; size_t n; int merge; tiny_idx first, last; } adapting;

static int run(tiny_ctx *ctx, const char *path, adapting *with, const int32_t *tokens, tiny_idx n, const int32_t *decoder, tiny_idx n_decoder, long context, long position)
{
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc desc;
    tllm_about about;
    float *out = NULL;
    tiny_idx most = n > n_decoder ? n : n_decoder, rows = n;
    size_t i;
    int result = 1;
    memset(&desc, 0, sizeof desc);
    for (desc.n_ctx = 256; desc.n_ctx < most; desc.n_ctx *= 4) {}
    if (context) desc.n_ctx = context;
    if (tllm_file_open(ctx, path, &file) || tllm_model_open(ctx, file, &model)) {
        fail(tiny_ctx_message(ctx));
        goto done;
    }
    tllm_model_about(model, &about);
    if (about.has_decoder && !decoder) { result = wrong("this model has an encoder and a decoder: --decoder-tokens is needed", ""); goto done; }
    if (!about.has_decoder && decoder) { result = wrong("this model has no decoder beside an encoder: --decoder-tokens says nothing to it", ""); goto done; }
    if (about.has_decoder) rows = n_decoder;
    if (about.output == TLLM_RANK) rows = 1;
    if ((size_t)about.n_out > ((size_t)-1) / sizeof *out / (size_t)rows || !(out = (float *)malloc((size_t)rows * (size_t)about.n_out * sizeof *out))) {
        fail("no memory for the results");
        goto done;
    }
    if (tllm_state_open(ctx, model, &desc, &state)) { fail(tiny_ctx_message(ctx)); goto done; }
    for (i = 0; i < with->n; i++) {
        extra *e = &with->e[i];
        tllm_adapter_about kind;
        tiny_status st = tllm_adapter_load(ctx, model, e->path, &e->a);
        tllm_adapter_tell(e->a, &kind);
        if (!st && with->first && kind.kind == TLLM_ADAPTER_VECTOR) st = tllm_adapter_layers(ctx, e->a, with->first, with->last);
        if (!st) st = with->merge && kind.kind == TLLM_ADAPTER_LORA ? tllm_adapter_merge(ctx, model, e->a, (float)e->scale, TINY_F32) : tllm_state_attach(state, e->a, (float)e->scale);
        if (st) { fail(tiny_ctx_message(ctx)); goto done; }
    }
    if (about.has_decoder) {
        if (tllm_forward_all(state, tokens, n, NULL) || tllm_forward(state, decoder, n_decoder, position, rows, out)) { fail(tiny_ctx_message(ctx)); goto done; }
    } else if (about.is_encoder || about.output != TLLM_LOGITS) {
        if (tllm_forward_all(state, tokens, n, out)) { fail(tiny_ctx_message(ctx)); goto done; }
    } else if (tllm_forward(state, tokens, n, position, rows, out)) {
        fail(tiny_ctx_message(ctx));
        goto done;
    }
    if (!write_floats(out, (size_t)rows * (size_t)about.n_out)) { fail("standard output takes no more"); goto done; }
    result = 0;
done:
    tllm_state_close(ctx, state);
    for (i = 0; i < with->n; i++) tllm_adapter_close(ctx, with->e[i].a);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    free(out);
    return result;
}

/* why no context was opened; what comes later stands in its message */
static void say(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_ERROR && !*(tiny_ctx **)user) fprintf(stderr, "logits: %s\n", sentence);
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    const char *path = NULL;
    int32_t *tokens = NULL, *decoder = NULL;
    tiny_idx n = 0, n_decoder = 0;
    long context = 0, position = 0, threads = 0;
    int i, result = 0;
    static adapting with;
    memset(&desc, 0, sizeof desc);
    for (i = 1; i < argc && !result; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) { fputs(usage, stdout); free(tokens); free(decoder); return 0; }
        if (!strcmp(a, "--ref")) { desc.target = TINY_TARGET_REFERENCE; continue; }
        if (a[0] != '-') {
            if (path) result = wrong("one model at a time", a);
            path = a;
            continue;
        }
        if (!strcmp(a, "--lora-merge")) { with.merge = 1; continue; }
        if (!strcmp(a, "--lora") || !strcmp(a, "--control-vector")) {
            if (with.n == 8 || !read_extra(++i < argc ? argv[i] : NULL, &with.e[with.n])) result = wrong("no adapter", a);
            else with.n++;
            continue;
        }
        if (!strcmp(a, "--control-layers")) {
            if (!read_layers(value, &with.first, &with.last)) result = wrong("no layers", a);
            i++;
            continue;
        }
        if (strcmp(a, "--tokens") && strcmp(a, "--decoder-tokens") && strcmp(a, "--target") && strcmp(a, "--threads") && strcmp(a, "--context") && strcmp(a, "--position")) {
            result = wrong("no such option", a);
        } else if (!value) result = wrong("a value is missing after", a);
        else if (!strcmp(a, "--tokens")) {
            free(tokens);
            if (!(tokens = read_tokens(value, &n))) result = wrong("no list of tokens", value);
        } else if (!strcmp(a, "--decoder-tokens")) {
            free(decoder);
            if (!(decoder = read_tokens(value, &n_decoder))) result = wrong("no list of tokens", value);
        } else if (!strcmp(a, "--target")) {
            desc.target = tiny_target_by_name(value);
            if (desc.target == TINY_TARGET_COUNT) result = wrong("no such target", value);
        } else if (!strcmp(a, "--threads")) {
            if (!read_number(value, 1, TINY_MAX_THREADS, &threads)) result = wrong("threads go from 1 to 256, not", value);
            desc.n_threads = (int)threads;
        } else if (!strcmp(a, "--context")) {
            if (!read_number(value, 1, 1000000000L, &context)) result = wrong("no context", value);
        } else if (!read_number(value, 0, 2000000000L, &position)) result = wrong("no position", value);
        i++;
    }
    if (!result && (!path || !tokens)) result = wrong("a model and --tokens are needed", "");
    if (!result) {
        tiny_status st;
        desc.log = say;
        desc.user = &ctx;
        st = tiny_ctx_open(&desc, &ctx);
#ifdef _WIN32
        (void)_setmode(_fileno(stdout), _O_BINARY);
#endif
        if (st) result = 1;
        else {
            result = run(ctx, path, &with, tokens, n, decoder, n_decoder, context, position);
            tiny_ctx_close(ctx);
        }
    }
    free(tokens);
    free(decoder);
    return result;
}
