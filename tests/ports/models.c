/* tests/ports/models.c - the same bits everywhere, for whole models: the reference's outputs for the token rows of an
 * oracle */
#include "tinyllm.h"
#include "hash.h"
#include <stdlib.h>
#include <string.h>

int print_models(const char *folder);

static int read_tokens(const char *text, int32_t *out, int most)
{
    int n = 0;
    char *end;
    for (; *text >= '0' && *text <= '9' && n < most; text = *end == ',' ? end + 1 : end)
        out[n++] = (int32_t)strtol(text, &end, 10);
    return n;
}

/* rows * n_out numbers, or the vectors of an encoder for each token */
static tiny_status answer(tllm_state *state, const tllm_about *about, const int32_t *tokens, int n,
                          const int32_t *decoder, int n_decoder, float *out)
{
    tiny_status st;
    if (about->is_encoder || about->output != TLLM_LOGITS) return tllm_forward_all(state, tokens, n, out);
    if (!about->has_decoder) return tllm_forward(state, tokens, n, 0, n, out);
    st = tllm_forward_all(state, tokens, n, NULL);
    return st ? st : tllm_forward(state, decoder, n_decoder, 0, n_decoder, out);
}

static int print_model(tiny_ctx *ctx, const char *folder, char **field)
{
    int32_t tokens[128], decoder[128];
    const int n = read_tokens(field[6], tokens, 128), n_decoder = read_tokens(field[7], decoder, 128);
    char path[512], name[96];
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc desc;
    tllm_about about;
    float *out = NULL;
    tiny_status st;
    size_t count, i;
    uint32_t u;
    memset(&desc, 0, sizeof desc);
    desc.n_ctx = 128;
    (void)snprintf(path, sizeof path, "%.300s/%.60s.gguf", folder, field[0]);
    (void)snprintf(name, sizeof name, "model:%.60s", field[0]);
    st = tllm_gguf_open(ctx, path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) st = tllm_state_open(ctx, model, &desc, &state);
    if (!st) {
        tllm_model_about(model, &about);
        count = (size_t)atoi(field[4]) * (size_t)about.n_out;       /* rows that the index speaks of */
        out = (float *)calloc(count ? count : 1, sizeof *out);
        st = out ? answer(state, &about, tokens, n, decoder, n_decoder, out) : TINY_E_MEMORY;
        hash_start();
        for (i = 0; !st && i < count; i++) {
            memcpy(&u, &out[i], 4);
            hash_bits((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : u, 4);
        }
    }
    if (st) fprintf(stderr, "%s: %s\n", name, tiny_ctx_message(ctx));
    else (void)print_line(name, 0);
    free(out);
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    return st ? -1 : 1;
}

static int is_in(const char *folder, const char *name)
{
    char path[512];
    FILE *f;
    (void)snprintf(path, sizeof path, "%.300s/%.60s.gguf", folder, name);
    f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

/* the models in the index of a folder, except those in `done` and those with fewer numbers (15 columns), which have the
 * name of another model; returns their number, or -1 */
static int print_folder(tiny_ctx *ctx, const char *folder, const char *done)
{
    static char line[65536];
    char path[512], *field[15], *p;
    FILE *f;
    int n = 0, k, bad = 0;
    (void)snprintf(path, sizeof path, "%.300s/index.tsv", folder);
    f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "no %s\n", path);
        return -1;
    }
    while (fgets(line, (int)sizeof line, f)) {
        for (k = 0, field[k++] = p = line; *p && k < 15; p++)
            if (*p == '\t') {
                *p = 0;
                field[k++] = p + 1;
            }
        if (k < 12 || k == 15 || !strcmp(field[0], "name") || (done && is_in(done, field[0]))) continue;
        if (print_model(ctx, folder, field) > 0) n++;
        else bad = 1;
    }
    (void)fclose(f);
    return bad ? -1 : n;
}

/* the models of a folder, then those of tests/golden that it has not */
int print_models(const char *folder)
{
    static const char golden[] = "tests/golden/oracle/llm";
    tiny_ctx_desc desc;
    tiny_ctx *ctx;
    int n, more = 0;
    memset(&desc, 0, sizeof desc);
    desc.n_threads = 1;
    desc.target = TINY_TARGET_REFERENCE;
    if (tiny_ctx_open(&desc, &ctx)) return -1;
    n = print_folder(ctx, folder, NULL);
    if (n >= 0 && strcmp(folder, golden)) more = print_folder(ctx, golden, folder);
    tiny_ctx_close(ctx);
    return n < 0 || more < 0 ? -1 : n + more;
}
