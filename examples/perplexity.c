/* examples/perplexity.c - how well a model predicts a text
 *
 *     perplexity MODEL.gguf TEXT [--context N]
 *
 * The text is cut into windows of the context. Only the second half of each window is scored, so that every scored
 * token has at least half a context before it. The first window is scored completely. The program prints exp of the
 * mean of -log p with its standard error, and bits per token and per byte. */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "perplexity"
#include "options.h"
#include <math.h>

static const char usage[] =
    "perplexity MODEL TEXT [options]       TEXT: a file, or - for standard input\n"
    "  --context N      tokens of a window; default: 512, at most the context of the model\n"
    "  --windows N      at most this many windows\n"
    "  --lora FILE[=S]  a LoRA adapter, times S (default 1); up to 8 adapters and control vectors\n"
    "  --lora-merge     merge adapters into the weights; without this they are computed separately\n"
    "  --control-vector FILE[=S]   a control vector, times S\n"
    "  --control-layers A-B        layers that control vectors change; default: all but the first\n"
    "  --cache-type-k T format of the cached keys: f32, f16, q8_0 or q4_0; default: f32\n"
    "  --cache-type-v T format of the cached values\n"
    "  --input-bits N   round the inputs of the matrices of layers to 2 to 8 bits, one scale per token; default: "
    "no rounding\n"
    "  --input-clip S   the scale covers this share of the largest number; default: 0.9\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --json           print one JSON object instead of a line\n"
    "  --quiet          no progress\n";

typedef struct sums { double n, nll, square; size_t n_windows; } sums;

/* the scored tokens of one window: out[i] predicts token i + 1 */
static tiny_status judge(tiny_ctx *ctx, tllm_state *state, const int32_t *token, tiny_idx n, tiny_idx from,
                         tiny_idx n_vocab, float *logits, sums *s)
{
    tiny_idx i;
    tiny_status st;
    tllm_state_clear(state);
    st = tllm_forward(state, token, n, 0, n, logits);
    for (i = from > 0 ? from - 1 : 0; !st && i + 1 < n; i++) {
        double lp;
        st = tllm_logprob(ctx, logits + i * n_vocab, (int32_t)n_vocab, token[i + 1], &lp);
        s->n += 1;
        s->nll -= lp;
        s->square += lp * lp;
    }
    s->n_windows++;
    return st;
}

static double error_of(const sums *s)
{
    const double mean = s->nll / s->n, variance = s->square / s->n - mean * mean;
    return s->n > 1 ? exp(mean) * sqrt((variance > 0 ? variance : 0) / (s->n - 1)) : 0;
}

int main(int argc, char **argv)
{
    static word_list files;                 /* of adapters and control vectors */
    const char *path = NULL, *text_path = NULL, *layers = NULL, *type[2] = { NULL, NULL };
    int context = 512, windows = 0, json = 0, quiet = 0, merge = 0, bits = 0, k;
    double clip = 0;
    long first_layer = 0, last_layer = 0;
    double scale[8];
    tllm_adapter *adapter[8] = { NULL };
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_vocab *vocab = NULL;
    tllm_state *state = NULL;
    tllm_tokens t;
    tllm_about about;
    tllm_state_desc room;
    float *logits = NULL;
    char *text = NULL;
    size_t n_text = 0;
    sums s = { 0, 0, 0, 0 };
    tiny_status st;
    const option options[] = { THE_WORD("model", &path),
                               THE_WORD("text", &text_path),
                               A_WHOLE("--context", &context, 2, 1e9),
                               A_WHOLE("--windows", &windows, 1, 1e9),
                               A_LIST("--lora", &files, 8),
                               A_LIST("--control-vector", &files, 8),
                               A_TEXT("--control-layers", &layers),
                               A_FLAG("--lora-merge", &merge),
                               A_TEXT("--cache-type-k", &type[0]),
                               A_TEXT("--cache-type-v", &type[1]),
                               A_WHOLE("--input-bits", &bits, 2, 8),
                               A_NUMBER("--input-clip", &clip, 1e-3, 1),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target),
                               A_FLAG("--json", &json),
                               A_FLAG("--quiet", &quiet) };
    memset(&desc, 0, sizeof desc);
    memset(&t, 0, sizeof t);
    memset(&room, 0, sizeof room);
    READ_OPTIONS(argc, argv, usage, options);
    if (layers && !is_range(layers, 1000000, &first_layer, &last_layer))
        return wrong(layers, "--control-layers takes FIRST-LAST, counted from 1");
    for (k = 0; k < 2; k++)
        if (type[k] && !tllm_format_by_name(type[k])) return wrong(k ? "--cache-type-v" : "--cache-type-k", type[k]);
    for (k = 0; k < files.n; k++)
        if (!is_scaled(files.at[k], -1e6, 1e6, &scale[k]))
            return wrong(files.at[k], "this is neither a file nor FILE=NUMBER");
    text = read_text(text_path, MOST_TEXT, 0, &n_text);
    if (!text) return 1;
    desc.log = hear;
    desc.user = &ctx;
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tllm_file_open(ctx, path, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) st = tllm_vocab_open(ctx, file, &vocab);
    if (!st) st = tllm_encode(ctx, vocab, text, n_text, TLLM_ENCODE_ENDS, &t);
    if (!st) {
        tllm_model_about(model, &about);
        if (context > about.n_context) context = (int)about.n_context;
        room.n_ctx = context;
        room.n_batch = context < 64 ? context : 64;
        room.type_k = type[0] ? tllm_format_by_name(type[0])->id : 0;
        room.type_v = type[1] ? tllm_format_by_name(type[1])->id : 0;
        room.x_bits = bits;
        room.x_clip = (float)clip;
        if (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder) {
            fprintf(stderr, "perplexity: %s: a %s model does not predict its text\n", path, about.arch);
            st = TINY_E_UNSUPPORTED;
        } else if (t.n < 2) {
            fprintf(stderr, "perplexity: %s has %zu token%s, two are needed\n", text_path, t.n, t.n == 1 ? "" : "s");
            st = TINY_E_ARGUMENT;
        } else {
            st = tllm_state_open(ctx, model, &room, &state);
            for (k = 0; k < files.n && !st; k++) {
                tllm_adapter_about kind;
                st = tllm_adapter_load(ctx, model, files.at[k], &adapter[k]);
                tllm_adapter_tell(adapter[k], &kind);
                if (!st && first_layer && kind.kind == TLLM_ADAPTER_VECTOR)
                    st = tllm_adapter_layers(ctx, adapter[k], first_layer, last_layer);
                if (!st)
                    st = merge && kind.kind == TLLM_ADAPTER_LORA
                             ? tllm_adapter_merge(ctx, model, adapter[k], (float)scale[k], TINY_F32)
                             : tllm_state_attach(state, adapter[k], (float)scale[k]);
            }
            if (st) say(tiny_ctx_message(ctx));
            logits = (float *)malloc((size_t)context * (size_t)about.n_vocab * sizeof *logits);
            if (!st && !logits) {
                fprintf(stderr, "perplexity: there is no memory for the logits of %d tokens\n", context);
                st = TINY_E_MEMORY;
            }
        }
        if (st) goto close;
    }
    if (!st) {
        const int shown = !quiet && is_shown();
        const tiny_idx half = context > 1 ? context / 2 : 1;
        const int first = tllm_vocab_adds_bos(vocab) ? tllm_vocab_special(vocab, TLLM_BOS) : -1;
        tiny_idx at;
        for (at = 0; !st && at + 1 < (tiny_idx)t.n && (!windows || (int)s.n_windows < windows); at += half) {
            const tiny_idx n = (tiny_idx)t.n - at < context ? (tiny_idx)t.n - at : context;
            const int32_t saved = t.id[at];
            if (at && n <= context - half) break;       /* this part was scored before */
            if (first >= 0) t.id[at] = first;           /* each window begins as a text does */
            st = judge(ctx, state, t.id + at, n, at ? context - half : 0, about.n_vocab, logits, &s);
            t.id[at] = saved;
            if (shown && !st) {
                fprintf(stderr, "\r%zu windows, %3.0f %%, perplexity %.4f +- %.4f ", s.n_windows,
                        100.0 * (double)(at + n) / (double)t.n, exp(s.nll / s.n), error_of(&s));
                (void)fflush(stderr);
            }
        }
        if (shown) fputs("\n", stderr);
    }
    if (!st && json)
        printf("{\"perplexity\": %.6f, \"error\": %.6f, \"bits_per_token\": %.6f, \"tokens\": %.0f, \"windows\": %zu, "
               "\"context\": %d}\n",
               exp(s.nll / s.n), error_of(&s), s.nll / s.n / log(2.0), s.n, s.n_windows, context);
    else if (!st)
        printf("perplexity %.4f +- %.4f over %.0f tokens (%.4f bits a token, %.4f bits a byte of the text)\n",
               exp(s.nll / s.n), error_of(&s), s.n, s.nll / s.n / log(2.0),
               s.nll / s.n / log(2.0) * (double)t.n / (double)n_text);
    if (st && ctx) say(tiny_ctx_message(ctx));
close:
    free(logits);
    free(text);
    if (ctx) {
        tllm_state_close(ctx, state);
        for (k = 0; k < files.n; k++) tllm_adapter_close(ctx, adapter[k]);
        tllm_tokens_free(ctx, &t);
        tllm_vocab_close(ctx, vocab);
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, file);
    }
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
