/* examples/slice.c - deletes the least important directions of a model's stream: a smaller, faster model (SliceGPT)
 *
 *     story-gen --stories 2000 --seed 7 > stories.txt
 *     slice MODEL.gguf OUT.gguf --keep 0.75 --text stories.txt
 *     generate OUT.gguf "..."             only this library runs OUT: its architecture is named sliced-...
 *
 * The program reads a part of the text, writes OUT, and measures on another part how far its predictions are from those
 * of MODEL. For story models `judge OUT.gguf --against MODEL.gguf` measures more. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "slice"
#include "options.h"
#include "apart.h"

enum { MOST_LAYERS = 256 };

static const char usage[] =
    "slice MODEL OUT.gguf --text FILE [options]   writes MODEL, a GGUF file or a .bin of llama2.c, with a narrower\n"
    "                                             stream\n"
    "  --keep SHARE     of the width of the stream, above 0 to 1; default: 0.75\n"
    "  --text FILE      the text that the model reads; it should resemble its use\n"
    "  --tokens N       read at most this many tokens of it; default: 16384. The next 2048 measure the result\n"
    "  --by WAY         pca: the directions of the largest energy (default); to compare with: columns, the channels\n"
    "                   of the largest energy; random, random directions; first, the first channels\n"
    "  --widths LIST    the width for each layer, separated by commas, in place of --keep\n"
    "  --round N        widths are multiples of it; default: 8, or the block of the format\n"
    "  --head           slice the output matrix too\n"
    "  --ordered        leave the directions in the order of their energy; default: rotated, which rounds better\n"
    "  --type TYPE      format of matrices that change (F32, F16, Q8_0 ...); default: that of most bytes of MODEL\n"
    "  --seed N         seed of random rotations; default: 0\n"
    "  --threads N      default: one per processor\n";

static int shown_percent = -1;
static void tell_progress(void *user, const char *what, double done)
{
    const int percent = (int)(100.0 * done);
    (void)user;
    if (strcmp(what, "slice") != 0 || percent == shown_percent || !is_shown()) return;
    shown_percent = percent;
    fprintf(stderr, "\rsliced %3d %%", percent);
    (void)fflush(stderr);
}

/* "96,64,96": 3 widths; 0: not a list of whole numbers */
static int widths_of(const char *list, tiny_idx *width)
{
    int n = 0;
    while (*list && n < MOST_LAYERS) {
        char *end;
        const long w = strtol(list, &end, 10);
        if (*list < '0' || *list > '9' || (*end && *end != ',') || w > 1 << 20) return 0;
        width[n++] = w;
        list = end + (*end == ',');
    }
    return *list ? 0 : n;
}

/* the format that most bytes of the matrices have, if it can be written */
static int format_of(const tllm_gguf *g)
{
    uint64_t bytes[1024];
    size_t i;
    int best = TLLM_FORMAT_F32;
    memset(bytes, 0, sizeof bytes);
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const tllm_format *f = tllm_format_of(t->type);
        if (!f || !f->pack || t->rank < 2 || t->type >= 1024) continue;
        bytes[t->type] += t->bytes;
        if (bytes[t->type] > bytes[best]) best = t->type;
    }
    return best;
}

int main(int argc, char **argv)
{
    static tiny_idx width[MOST_LAYERS];
    const char *in = NULL, *out = NULL, *type = NULL, *text = NULL, *by = "pca", *list = NULL;
    int n_tokens = 16384, round = 0;
    tiny_ctx_desc desc;
    tllm_sliced_desc d;
    tllm_sliced_about a;
    tllm_writer_desc wd;
    const option options[] = { THE_WORD("MODEL", &in),
                               A_WORD("OUT.gguf", &out),
                               A_NUMBER("--keep", &d.keep, 1e-6, 1),
                               A_TEXT("--text", &text),
                               A_WHOLE("--tokens", &n_tokens, 1, 1e8),
                               A_TEXT("--by", &by),
                               A_TEXT("--widths", &list),
                               A_WHOLE("--round", &round, 1, 1e6),
                               A_FLAG("--head", &d.head),
                               A_FLAG("--ordered", &d.ordered),
                               A_TEXT("--type", &type),
                               A_SEED("--seed", &d.seed),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS) };
    tiny_ctx *ctx = NULL;
    tllm_gguf *g = NULL, *made = NULL;
    tllm_sliced *s = NULL;
    tllm_writer *w = NULL;
    divided text_of;
    tllm_model *model = NULL;
    tllm_about about;
    size_t n = 0;
    double kl = 0, same = 0;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    memset(&d, 0, sizeof d);
    memset(&wd, 0, sizeof wd);
    memset(&text_of, 0, sizeof text_of);
    d.format = -1;
    READ_OPTIONS(argc, argv, usage, options);
    if (!out) return wrong("OUT.gguf", "a name for the sliced model is needed");
    if (!text) return wrong("--text", "a text is needed, which shows the directions that matter");
    if (must_not_write(out, 2, in, text)) return 2;
    d.by = place_in("pca columns random first", by);
    if (d.by < 0) return wrong("--by", by);
    if (list && (d.n_width = widths_of(list, width)) == 0) return wrong("--widths", list);
    d.width = list ? width : NULL;
    d.round = round;
    if (type) {
        const tllm_format *f = tllm_format_by_name(type);
        if (!f || !f->pack || f->flags & TLLM_FORMAT_ACTIVATIONS)
            return wrong(type, "--type takes a format of weights: F32, F16, Q8_0 ...");
        d.format = f->id;
    }
    desc.log = hear;
    desc.progress = tell_progress;
    desc.cancel = cancelled;                /* OUT.part is removed then too */
    desc.user = &ctx;
    stop_on_signals_whole();
    st = tiny_ctx_open(&desc, &ctx);
    if (!st) st = tllm_file_open(ctx, in, &g);
    if (!st && d.format < 0) d.format = format_of(g);
    if (!st) st = tllm_model_open(ctx, g, &model);
    if (!st) {
        tllm_model_about(model, &about);
        d.window = about.n_context < 512 ? about.n_context : 512;
        st = tllm_sliced_open(ctx, g, &d, &s);
    }
    tllm_model_close(ctx, model);
    if (!st) st = divide(ctx, g, text, (size_t)n_tokens, (size_t)d.window, &text_of);
    if (!st) {
        n = text_of.n;
        if (n < (size_t)about.n_embd) {     /* the axes would be arbitrary */
            const size_t want = ((size_t)about.n_embd * 8 + 6) / 7;
            (void)refused("%s has %lu tokens, of which %lu are read; the stream has %ld channels, so at least %lu "
                          "tokens are needed, and ten times as many are better",
                          text, (unsigned long)text_of.t.n, (unsigned long)n, (long)about.n_embd, (unsigned long)want);
            st = TINY_E_ARGUMENT;
        }
    }
    wd.path = out;
    if (!st) st = tllm_writer_open(ctx, &wd, &w);
    if (!st) st = tllm_sliced_put(ctx, s, text_of.t.id, (tiny_idx)n, w);
    if (!st) st = tllm_writer_finish(ctx, w);
    if (shown_percent >= 0) fputs("\r               \r", stderr);
    if (!st) {
        a = tllm_sliced_what(s);
        printf("%s: a stream of %ld to %ld of %ld channels; %lu tokens read, %.2f %% of the stream's energy deleted\n",
               out, (long)a.least, (long)a.most, (long)a.n_embd, (unsigned long)n, 100.0 * a.lost);
        printf("  %.3f million parameters, %.1f %% of %.3f; %.2f MB, %.1f %% of %.2f%s\n", a.params / 1e6,
               100.0 * a.params / a.params_before, a.params_before / 1e6, (double)a.bytes / 1e6,
               100.0 * (double)a.bytes / (double)a.bytes_before, (double)a.bytes_before / 1e6,
               a.untied ? "; output.weight is new, the embedding gave the logits before" : "");
        (void)fflush(stdout);
        st = tllm_gguf_open(ctx, out, &made);
        if (!st) st = divergence(ctx, g, made, text_of.t.id + n, (tiny_idx)text_of.rest, d.window, &kl, &same);
        if (!st)
            printf("  divergence from %s %.4f bits per token, the same best guess at %.2f %%, over %lu tokens that "
                   "were not read\n",
                   in, kl, 100.0 * same, (unsigned long)text_of.rest);
    } else if (stopped_by) say("stopped; nothing was written");
    else if (ctx && tiny_ctx_message(ctx)[0]) say(tiny_ctx_message(ctx));
    if (st && made && tiny_ctx_message(ctx)[0]) say(tiny_ctx_message(ctx));
    tllm_tokens_free(ctx, &text_of.t);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, w);
    tllm_sliced_close(ctx, s);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
    return exit_status(st && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
