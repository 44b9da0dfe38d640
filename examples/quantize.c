/* examples/quantize.c - writes a model file in fewer bits
 *
 *     quantize IN OUT.gguf TYPE [--imatrix FILE] [--pure] [--tensor-type REGEX=TYPE] [--threads N]
 *     quantize IN OUT.gguf TYPE --gptq --text stories.txt
 *     quantize IN OUT.gguf TYPE --awq --text stories.txt
 *     quantize IN OUT.gguf Q8_0 --smooth 0.5 --text stories.txt
 *     quantize --blocks TYPE [--imatrix FILE.f32] < floats.f32 > q.bin
 *     quantize --unblocks TYPE < q.bin > floats.f32
 *
 * TYPE is a format (Q8_0, Q6_K, IQ4_XS ...) or a mixture of them (Q4_K_M, Q3_K_L ...). A mixture gives more bits to the
 * tensors that lose most. Norms, biases and other small tensors are not quantized. The new file is written as
 * OUT.gguf.part and renamed when it is complete. examples/copy/quantize.c is shorter. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "quantize"
#include "options.h"
#include <inttypes.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static const char usage[] =
    "quantize IN OUT.gguf TYPE [options]        writes IN, a GGUF file or a .bin of llama2.c, with its matrices as\n"
    "                                           TYPE\n"
    "quantize --blocks TYPE                     raw little-endian float32 on standard input to blocks on standard\n"
    "                                           output\n"
    "quantize --unblocks TYPE                   the other way\n"
    "  --imatrix FILE            importance of the columns of each matrix (.gguf or the older .dat); with --blocks\n"
    "                            raw float32, one for each value of a row, and the floats are taken as rows of that\n"
    "                            length\n"
    "  --pure                    TYPE for all matrices, no mixture\n"
    "  --tensor-type REGEX=TYPE  the type of the matrices whose name contains a match; may be repeated, the first\n"
    "                            match counts\n"
    "  --gptq                    GPTQ: the model reads --text, and codes are chosen so that the outputs of each\n"
    "                            matrix change least; for Q8_0, Q4_0 to Q5_1 and Q2_K to Q6_K; other types are packed\n"
    "                            as usual, with --imatrix\n"
    "  --awq                     AWQ: the model reads --text, and important inputs get finer steps: their weights are\n"
    "                            multiplied by factors, and the layer before them is divided by the same; ranges of\n"
    "                            weights are clipped where that helps, but not with --gptq\n"
    "  --smooth ALPHA            SmoothQuant: the model reads --text, and outliers of the inputs move into the\n"
    "                            weights, from 0 (not) to 1; for Q8_0, whose products round the inputs too; also with\n"
    "                            --gptq\n"
    "  --text FILE               the text that the model reads; it should resemble its use\n"
    "  --tokens N                at most this many tokens of the text; default: 32768\n"
    "  --each-layer              read the text once for each layer, with the layers before it rounded; default: as\n"
    "                            many layers in one reading as fit into 1 GB\n"
    "  --threads N               default: one per processor\n"
    "  --list                    print the types\n";

enum { RULES = TLLM_QUANTIZE_RULES };

/* GPTQ, AWQ and SmoothQuant read a text with the model before anything is packed */
typedef struct request {
    tiny_ctx *ctx;
    const char *in, *out, *imatrix, *text;
    int gptq, awq, n_tokens, each_layer;
    double smooth;                          /* below 0: no SmoothQuant */
    char *scaled;                           /* the name of the scaled model, while it is there */
    tllm_gguf *folded;                      /* the scaled model */
    tllm_gptq_tensor *codes;                /* what GPTQ made */
    size_t n_codes;
} request;

static int shown_percent = -1;              /* the percentage in the line of progress; -1: there is no line */
static void show_percent(void *user, const char *what, double done)
{
    static const char *const names[][2] = {
        { "gptq", "GPTQ" }, { "awq", "AWQ" }, { "smooth", "SmoothQuant" }, { "quantize", "packed" }
    };
    const int percent = (int)(100.0 * done);
    size_t i;
    (void)user;
    for (i = 0; i < sizeof names / sizeof names[0] && strcmp(what, names[i][0]); i++) {}
    if (i == sizeof names / sizeof names[0] || percent == shown_percent || !is_shown()) return;
    shown_percent = percent;
    fprintf(stderr, "\r%s %3d %%", names[i][1], percent);
    (void)fflush(stderr);
}
static void end_percent(void)
{
    if (shown_percent >= 0) fputs("\r                    \r", stderr);
    shown_percent = -1;
}

/* Tokens of a window: those that the model was made for, at most 512. A longer window would be cut, and its parts would
 * begin without a BOS. */
static tiny_status window_of(tiny_ctx *ctx, const tllm_gguf *g, tiny_idx *window)
{
    tllm_model *model = NULL;
    tllm_about about;
    const tiny_status st = tllm_model_open(ctx, g, &model);
    if (st) return st;
    tllm_model_about(model, &about);
    *window = about.n_context < 512 ? about.n_context : 512;
    tllm_model_close(ctx, model);
    return TINY_OK;
}

/* The tokens of the text, at most --tokens of them. Each window begins as a text does. */
static tiny_status tokens_of_text(const request *r, const tllm_gguf *g, tiny_idx window, tllm_tokens *t)
{
    tllm_vocab *vocab = NULL;
    size_t i, n_text = 0;
    char *text =
        read_text(r->text, (size_t)r->n_tokens < MOST_TEXT / 64 ? (size_t)r->n_tokens * 64 : MOST_TEXT, 1, &n_text);
    tiny_status st = text ? TINY_OK : TINY_E_IO;
    if (!st && !n_text) {
        fprintf(stderr, "quantize: %s: there is no text in it\n", r->text);
        st = TINY_E_ARGUMENT;
    }
    if (!st) st = tllm_vocab_open(r->ctx, g, &vocab);
    if (!st) st = tllm_encode(r->ctx, vocab, text, n_text, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, t);
    if (!st && t->n > (size_t)r->n_tokens) t->n = (size_t)r->n_tokens;
    for (i = (size_t)window; !st && tllm_vocab_adds_bos(vocab) && i < t->n; i += (size_t)window)
        t->id[i] = tllm_vocab_special(vocab, TLLM_BOS);
    tllm_vocab_close(r->ctx, vocab);
    free(text);
    return st;
}

static void gptq_report(const request *r, size_t n_tokens)
{
    unsigned long found = 0, rounded = 0, thin = 0;
    size_t k;
    for (k = 0; k < r->n_codes; k++) {
        const tllm_gptq_tensor *c = &r->codes[k];
        if (!c->found) continue;
        found++;
        rounded += c->about.rounded != 0;
        thin += (uint64_t)c->tokens < c->t->dim[0];
    }
    fprintf(stderr, "GPTQ over %lu tokens: %lu matrices; %lu more had no known inputs and are rounded\n",
            (unsigned long)n_tokens, found, (unsigned long)r->n_codes - found);
    if (r->imatrix && found)
        fprintf(stderr, "quantize: --imatrix is not used for those %lu: the inputs of the text replace it\n",
                found);
    if (rounded)
        fprintf(stderr, "%lu of them were rounded too: their inputs depend on each other too much for GPTQ\n",
                rounded);
    if (thin)
        fprintf(stderr, "%lu of them saw fewer tokens than they have inputs: a longer text would improve them\n", thin);
}

/* GPTQ makes the blocks of all matrices whose format it has. */
static tiny_status gptq(request *r, const tllm_gguf *g, tllm_quantize_tensor *all, size_t n)
{
    tllm_gptq_model_desc d;
    tllm_tokens t;
    size_t i, k;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    d.each_layer = r->each_layer;
    r->codes = (tllm_gptq_tensor *)tiny_alloc(r->ctx, (n ? n : 1) * sizeof *r->codes);
    st = r->codes ? TINY_OK : TINY_E_MEMORY;
    for (i = 0; !st && i < n; i++) {
        const tllm_gguf_tensor *x = all[i].tensor;
        tllm_gptq_tensor *c = &r->codes[r->n_codes];
        if (all[i].from == all[i].to || !tllm_gptq_has(all[i].to)) continue;
        memset(c, 0, sizeof *c);
        c->t = x;
        c->format = all[i].to;
        /* the embedding may give the logits too: codes that suit them may not suit its rows */
        c->damp = x->name.n >= 10 && !memcmp(x->name.at, "token_embd", 10) ? 1.0f : 0.0f;
        c->to = tiny_alloc(r->ctx, x->bytes / tllm_format_bytes(tllm_format_of(all[i].from), x->dim[0]) *
                                       tllm_format_bytes(tllm_format_of(all[i].to), x->dim[0]));
        if (c->to) r->n_codes++;
        else st = TINY_E_MEMORY;
    }
    if (!st) st = window_of(r->ctx, g, &d.window);
    if (!st) st = tokens_of_text(r, g, d.window, &t);
    if (!st && r->n_codes) st = tllm_gptq_model(r->ctx, g, &d, t.id, (tiny_idx)t.n, r->codes, r->n_codes);
    end_percent();
    if (!st) gptq_report(r, t.n);
    for (i = k = 0; !st && k < r->n_codes; i++)     /* in the order of the tensors */
        if (all[i].tensor == r->codes[k].t) {
            all[i].blocks = r->codes[k].found ? r->codes[k].to : NULL;
            k++;
        }
    tllm_tokens_free(r->ctx, &t);
    return st;
}

static int is_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

static void scale_report(const request *r, const tllm_scaled *s, size_t n_tokens)
{
    const tllm_scaled_about a = tllm_scaled_what(s);
    if (r->awq)
        fprintf(stderr, "AWQ over %lu tokens: %lu folds, of a mean power of %.2f; the loss is %.3f of that without",
                (unsigned long)n_tokens, (unsigned long)a.folds, a.alpha, a.plain > 0 ? a.loss / a.plain : 1.0);
    else fprintf(stderr, "SmoothQuant over %lu tokens: %lu folds", (unsigned long)n_tokens, (unsigned long)a.folds);
    if (a.groups) fprintf(stderr, "; %lu of %lu ranges cut", (unsigned long)a.cut, (unsigned long)a.groups);
    if (a.unknown) fprintf(stderr, "; %lu more read inputs that are not known", (unsigned long)a.unknown);
    fprintf(stderr, "\n");
}

/* The tensors that are scaled; AWQ leaves out formats that gain nothing */
static size_t scaled_list(const request *r, const tllm_quantize_tensor *all, size_t n, tllm_scaled_tensor *list)
{
    size_t i, n_list = 0;
    for (i = 0; i < n; i++) {
        const unsigned flags = tllm_format_of(all[i].to)->flags;
        if (!tllm_mixture_takes(all[i].tensor) ||
            (r->awq && flags & (TLLM_FORMAT_PLAIN | TLLM_FORMAT_ACTIVATIONS | TLLM_FORMAT_WANTS_IMPORTANCE)))
            continue;
        list[n_list].t = all[i].tensor;
        list[n_list++].format = all[i].to;
    }
    return n_list;
}

/* AWQ and SmoothQuant write the scaled model next to OUT for a while; its tensors are packed instead. */
static tiny_status scale(request *r, const tllm_gguf *g, tllm_quantize_tensor *all, size_t n)
{
    tllm_scaled_tensor *list = (tllm_scaled_tensor *)tiny_alloc(r->ctx, (n ? n : 1) * sizeof *list);
    const size_t n_list = list ? scaled_list(r, all, n, list) : 0;
    tllm_scaled_desc d;
    tllm_scaled *s = NULL;
    tllm_writer *w = NULL;
    tllm_writer_desc wd;
    tllm_tokens t;
    size_t i;
    tiny_status st = list ? TINY_OK : TINY_E_MEMORY;
    memset(&d, 0, sizeof d);
    memset(&wd, 0, sizeof wd);
    memset(&t, 0, sizeof t);
    d.way = r->awq ? TLLM_SCALE_AWQ : TLLM_SCALE_SMOOTH;
    d.alpha = r->awq ? 0.0f : (float)r->smooth;
    d.no_clip = r->gptq;
    wd.path = r->scaled;
    if (!st && !n_list) {
        fprintf(stderr, "quantize: %s: no matrix is to be rounded to a format that this could help\n", r->in);
        st = TINY_E_ARGUMENT;
    }
    if (!st) st = window_of(r->ctx, g, &d.window);
    if (!st) st = tokens_of_text(r, g, d.window, &t);
    if (!st) st = tllm_scaled_open(r->ctx, g, &d, t.id, (tiny_idx)t.n, list, n_list, &s);
    end_percent();
    if (!st) scale_report(r, s, t.n);
    if (!st) st = tllm_writer_open(r->ctx, &wd, &w);
    if (!st) st = tllm_scaled_put(r->ctx, s, w);
    if (!st) st = tllm_writer_finish(r->ctx, w);
    tllm_writer_close(r->ctx, w);
    if (!st) st = tllm_gguf_open(r->ctx, r->scaled, &r->folded);
    for (i = 0; !st && i < n; i++) {        /* the same tensors in the same order */
        all[i].tensor = tllm_gguf_tensor_at(r->folded, i);
        all[i].from = all[i].tensor->type;
    }
    tllm_scaled_close(r->ctx, s);
    tllm_tokens_free(r->ctx, &t);
    tiny_free(r->ctx, list);
    return st;
}

static tiny_status prepare(void *user, const tllm_gguf *g, tllm_quantize_tensor *all, size_t n)
{
    request *r = (request *)user;
    tiny_status st = TINY_OK;
    if (r->awq || r->smooth >= 0.0) {
        char *name = (char *)tiny_alloc(r->ctx, strlen(r->out) + 10);
        if (!name) return TINY_E_MEMORY;
        (void)sprintf(name, "%s.scaled", r->out);
        if (is_file(name)) {                /* of another program, or of a run that was killed */
            fprintf(stderr, "quantize: %s exists and would be overwritten\n", name);
            tiny_free(r->ctx, name);
            return TINY_E_IO;
        }
        r->scaled = name;
        st = scale(r, g, all, n);
    }
    return !st && r->gptq ? gptq(r, r->folded ? r->folded : g, all, n) : st;
}

static int quantize_file(request *r, const tllm_quantize_desc *desc)
{
    tllm_quantize_about about;
    const tiny_status st = tllm_quantize_file(r->ctx, r->in, r->out, desc, &about);
    size_t k;
    end_percent();
    if (st && stopped_by) fprintf(stderr, "quantize: stopped; nothing was written\n");
    else if (st && tiny_ctx_message(r->ctx)[0]) say(tiny_ctx_message(r->ctx));
    if (!st) {
        fprintf(stderr, "%s: %.1f MB of tensors, from %.1f MB\n", r->out, (double)about.bytes_after / 1e6,
                (double)about.bytes_before / 1e6);
        if (r->imatrix) fprintf(stderr, "importance used for %lu tensors\n", (unsigned long)about.n_importance);
    }
    tllm_gguf_close(r->ctx, r->folded);
    if (r->scaled) (void)remove(r->scaled);
    tiny_free(r->ctx, r->scaled);
    for (k = 0; k < r->n_codes; k++) tiny_free(r->ctx, r->codes[k].to);
    tiny_free(r->ctx, r->codes);
    return st != TINY_OK;
}

/* ---- standard input to standard output --------------------------------------------------------------------------- */

enum { PIECE = 16384 };                     /* values; whole blocks of every format */

static int pipe_blocks(const tllm_format *f, int back)
{
    static unsigned char in[PIECE * 8], out[PIECE * 8];
    static float x[PIECE];
    const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32);
    const size_t in_bytes = tllm_format_bytes(back ? f : f32, PIECE),
                 block = back ? (size_t)f->bytes : 4 * (size_t)f->values;
    uint64_t total = 0;
    size_t n;
#ifdef _WIN32
    (void)_setmode(0, _O_BINARY);
    (void)_setmode(1, _O_BINARY);
#endif
    while ((n = fread(in, 1, in_bytes, stdin)) > 0) {
        const size_t values = n / block * (size_t)f->values, n_out = back ? 4 * values : tllm_format_bytes(f, values);
        total += n;
        if (back) {
            f->unpack(in, x, values);
            f32->pack(x, out, values, NULL);
        } else {
            f32->unpack(in, x, values);
            f->pack(x, out, values, NULL);
        }
        if (fwrite(out, 1, n_out, stdout) != n_out) {
            fprintf(stderr, "quantize: standard output cannot be written\n");
            return 1;
        }
        if (n % block) {
            fprintf(stderr, "quantize: %" PRIu64 " bytes are not whole blocks: one of %s is %lu bytes here\n", total,
                    f->name, (unsigned long)block);
            return 1;
        }
    }
    if (ferror(stdin) || fflush(stdout)) { fprintf(stderr, "quantize: standard input or output failed\n"); return 1; }
    return 0;
}

/* rows as long as the importances; the last one may be shorter by whole blocks */
static int pipe_weighted(tiny_ctx *ctx, const tllm_format *f, const char *path)
{
    const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32);
    tiny_file file;
    float *x = NULL;
    unsigned char *in = NULL, *out = NULL;
    size_t n_row, i, n, total = 0;
    int status = 1;
    memset(&file, 0, sizeof file);
    if (tiny_file_open(ctx, path, &file)) goto sentence;
    n_row = file.n_bytes / 4;
    if (!n_row || file.n_bytes % 4 || n_row % (size_t)f->values || n_row > ((size_t)1 << 26)) {
        fprintf(stderr,
                "quantize: %s has %lu bytes; rows of floats that are whole blocks of %d and at most 2^26 are needed\n",
                path, (unsigned long)file.n_bytes, f->values);
        goto out;
    }
    x = (float *)tiny_alloc(ctx, 2 * n_row * sizeof *x);
    in = (unsigned char *)tiny_alloc(ctx, 4 * n_row);
    out = (unsigned char *)tiny_alloc(ctx, tllm_format_bytes(f, n_row));
    if (!x || !in || !out) goto sentence;
    f32->unpack(file.bytes, x + n_row, n_row);
    for (i = 0; i < n_row; i++)
        if (!(x[n_row + i] >= 0.0f && x[n_row + i] <= 3e38f)) {
            fprintf(stderr, "quantize: %s: value %lu is %g; an importance is at least 0 and finite\n", path,
                    (unsigned long)i, (double)x[n_row + i]);
            goto out;
        }
#ifdef _WIN32
    (void)_setmode(0, _O_BINARY);
    (void)_setmode(1, _O_BINARY);
#endif
    while ((n = fread(in, 1, 4 * n_row, stdin)) > 0) {
        const size_t values = n / 4 / (size_t)f->values * (size_t)f->values, n_out = tllm_format_bytes(f, values);
        total += n;
        f32->unpack(in, x, values);
        f->pack(x, out, values, f->flags & TLLM_FORMAT_IMPORTANCE ? x + n_row : NULL);
        if (fwrite(out, 1, n_out, stdout) != n_out) {
            fprintf(stderr, "quantize: standard output cannot be written\n");
            goto out;
        }
        if (n != 4 * values) {
            fprintf(stderr, "quantize: %lu bytes are not whole blocks: one of %s is %d floats\n", (unsigned long)total,
                    f->name, f->values);
            goto out;
        }
    }
    if (ferror(stdin) || fflush(stdout)) { fprintf(stderr, "quantize: standard input or output failed\n"); goto out; }
    status = 0;
    goto out;
sentence:
    fprintf(stderr, "quantize: %s\n", tiny_ctx_message(ctx));
out:
    tiny_free(ctx, x);
    tiny_free(ctx, in);
    tiny_free(ctx, out);
    tiny_file_close(ctx, &file);
    return status;
}

int main(int argc, char **argv)
{
    static request r;
    static word_list place, rules;
    const char *blocks = NULL, *unblocks = NULL, *reads;
    const tllm_format *f;
    tllm_quantize_desc how;
    tiny_ctx_desc desc;
    size_t i;
    int list = 0, status;
    const option options[] = { WORDS(&place, 3),
                               A_TEXT("--blocks", &blocks),
                               A_TEXT("--unblocks", &unblocks),
                               A_TEXT("--imatrix", &r.imatrix),
                               A_FLAG("--pure", &how.pure),
                               A_LIST("--tensor-type", &rules, RULES),
                               A_FLAG("--gptq", &r.gptq),
                               A_FLAG("--awq", &r.awq),
                               A_NUMBER("--smooth", &r.smooth, 0, 1),
                               A_TEXT("--text", &r.text),
                               A_WHOLE("--tokens", &r.n_tokens, 1, 1e8),
                               A_FLAG("--each-layer", &r.each_layer),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_FLAG("--list", &list) };
    memset(&desc, 0, sizeof desc);
    memset(&how, 0, sizeof how);
    desc.log = hear;
    desc.progress = show_percent;
    desc.user = &r.ctx;
    r.smooth = -1.0;
    READ_OPTIONS(argc, argv, usage, options);
    if (list) {
        for (i = 0; tllm_mixture_at(i); i++) printf("%s\n", tllm_mixture_at(i)->name);
        for (i = 0; (f = tllm_format_at(i)) != NULL; i++)
            if (f->pack && !(f->flags & TLLM_FORMAT_ACTIVATIONS) && !tllm_mixture_by_name(f->name))
                printf("%s\n", f->name);
        return exit_status(0);
    }
    reads = r.gptq ? "--gptq" : r.awq ? "--awq" : r.smooth >= 0.0 ? "--smooth" : NULL;
    if (blocks || unblocks) {
        if (reads) return wrong(reads, "it needs a model, not --blocks or --unblocks");
        if (place.n) return wrong("--blocks and --unblocks take no files", place.at[0]);
        if (blocks && unblocks) return wrong("--blocks and --unblocks", "one of them");
        f = tllm_format_by_name(blocks ? blocks : unblocks);
        if (!f || (blocks && !f->pack)) return wrong("there is no type", blocks ? blocks : unblocks);
        if (!r.imatrix) return pipe_blocks(f, unblocks != NULL);
        if (unblocks) return wrong("--unblocks", "it takes no --imatrix");
        if (tiny_ctx_open(&desc, &r.ctx)) return 1;
        status = pipe_weighted(r.ctx, f, r.imatrix);
        tiny_ctx_close(r.ctx);
        return status;
    }
    if (place.n != 3) return wrong("IN OUT.gguf TYPE", "all three are needed");
    r.in = place.at[0];
    r.out = place.at[1];
    if (must_not_write(r.out, 3, r.in, r.imatrix, r.text)) return 2;
    if (reads && !r.text) return wrong(reads, "it needs --text, which the model reads");
    if (!reads && (r.text || r.n_tokens || r.each_layer))
        return wrong(r.text       ? "--text"
                     : r.n_tokens ? "--tokens"
                                  : "--each-layer",
                     "only --gptq, --awq and --smooth read a text");
    if (r.awq && r.smooth >= 0.0)
        return wrong("--awq and --smooth", "one of them: both choose the factors of the same inputs");
    if (r.each_layer && !r.gptq) return wrong("--each-layer", "only --gptq can read the text once for each layer");
    if (r.imatrix && (r.awq || r.smooth >= 0.0))
        return wrong("--imatrix",
                     "it describes the original model; --awq and --smooth change the inputs of its matrices");
    if (!r.n_tokens) r.n_tokens = 32768;
    how.type = place.at[2];
    how.importance = r.imatrix;
    how.rule = (const char *const *)rules.at;
    how.n_rules = (size_t)rules.n;
    how.wide = r.awq || r.smooth >= 0.0;    /* divided norms keep all their digits */
    how.prepare = reads ? prepare : NULL;
    how.user = &r;
    desc.cancel = cancelled;                /* files next to OUT are removed then too */
    if (tiny_ctx_open(&desc, &r.ctx)) return 1;
    if (tllm_quantize_check(r.ctx, &how)) {
        say(tiny_ctx_message(r.ctx));
        fputs("quantize --help tells more\n", stderr);
        status = 2;
    } else {
        stop_on_signals_whole();
        status = quantize_file(&r, &how);
    }
    tiny_ctx_close(r.ctx);
    return status && stopped_by ? 128 + stopped_by : status;
}
