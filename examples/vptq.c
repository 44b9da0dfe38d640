/* examples/vptq.c - codes matrices of a model as vectors from code books, and compares the loss with rounding and GPTQ
 *
 *     vptq MODEL --text stories.txt [--tensor NAME] [--v N] [--k N] [--k2 N] [--outliers PERCENT] [--groups N]
 *     [--normalize] [--save FILE]
 *
 * The model reads three quarters of the text, story by story if the text marks their ends. Each method packs the
 * matrices (or one, --tensor) with the statistics of that reading. Then the model with these matrices predicts the last
 * quarter. The bits include everything: codes, scales, zeros, code books. The story model with --v 4 --k 256 (2.2 bits
 * a weight) loses 0.014 bits a token, GPTQ in 2.3 bits 0.026, plain rounding 0.072, GPTQ in 3.3 bits 0.003
 * (docs/papers/vptq.md). */
#define TINYLLM_ALL
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "vptq"
#include "options.h"
#include <math.h>

static const char usage[] =
    "vptq MODEL --text FILE [options]      MODEL: a GGUF file; FILE: text that resembles its use\n"
    "  --text FILE       the text that the model reads, for statistics of its inputs\n"
    "  --tensor NAME     this matrix, such as blk.0.ffn_up.weight; default: all matrices of the layers\n"
    "  --v N             outputs of a vector, 1 to 16     (without --v and --k three settings are tried: 8 and 256, 4\n"
    "                    and 256, 4 and 256 + 256)\n"
    "  --k N             vectors of the code book, at least 2\n"
    "  --k2 N            vectors of a second code book, for the errors of the first\n"
    "  --outliers P      percent of the inputs, the largest ones, in their own code book\n"
    "  --groups N        groups of inputs with their own code books\n"
    "  --normalize       scale each input to 0 .. 1 first\n"
    "  --seed N          seed of k-means\n"
    "  --save FILE       write the matrix of --tensor with the last setting (tllm_vptq_load reads it)\n"
    "  --tokens N        at most this many tokens of the text; default: 32768\n"
    "  --threads N       default: one per processor\n";

enum { WINDOW = 256 };
typedef struct matrix { const tllm_gguf_tensor *t; const tllm_calib *calib; float *w, *made; double whole; } matrix;
typedef struct work {
    tiny_ctx *ctx;
    tiny_ctx_desc desc;
    tllm_gguf *g;
    tllm_tokens text;
    size_t half;                            /* tokens that are read for the statistics */
    int bos;                                /* a window begins with it; -1: with none */
    /* of a story: a window ends with it, and the next one begins there; -1: there is none */
    int end;
    tiny_idx window, n_vocab;
    matrix *list;
    size_t n;
    const char *save;
} work;

static int is_layer_matrix(const tllm_gguf_tensor *t)
{
    static const char end[] = ".weight";
    return t->rank == 2 && t->dim[0] > 1 && t->dim[1] > 1 && t->name.n > 12 && !memcmp(t->name.at, "blk.", 4) &&
           !memcmp(t->name.at + t->name.n - 7, end, 7) && tllm_format_of(t->type);
}

/* Runs the model over tokens from .. to, window by window, never across the end of a story: a model that was trained on
 * single stories predicts a second one badly, which would hide the differences. *bits: per token; may be NULL */
static tiny_status read_on(work *w, tiny_ctx *ctx, const tllm_gguf *g, size_t from, size_t to, const char *what,
                           double *bits)
{
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc room;
    float *logits = NULL;
    int32_t token[WINDOW];
    double sum = 0, n = 0;
    tiny_status st = tllm_model_open(ctx, g, &model);
    memset(&room, 0, sizeof room);
    room.n_ctx = w->window;
    if (!st) st = tllm_state_open(ctx, model, &room, &state);
    if (!st && bits && !(logits = (float *)tiny_alloc(ctx, (size_t)(w->window * w->n_vocab) * sizeof *logits)))
        st = tiny_ctx_status(ctx);
    while (!st && from < to) {
        const tiny_idx most = to - from < (size_t)w->window ? (tiny_idx)(to - from) : w->window;
        tiny_idx m = 1, i;
        while (m < most && (m == 1 || w->end < 0 || w->text.id[from + (size_t)m - 1] != w->end)) m++;
        memcpy(token, w->text.id + from, (size_t)m * sizeof *token);
        if (w->bos >= 0) token[0] = w->bos;
        tllm_state_clear(state);
        st = tllm_forward(state, token, m, 0, bits ? m : 0, logits);
        for (i = 0; !st && bits && i + 1 < m; i++) {
            double lp;
            st = tllm_logprob(ctx, logits + i * w->n_vocab, (int32_t)w->n_vocab, token[i + 1], &lp);
            sum -= lp;
            n += 1;
        }
        show_progress(NULL, what, (double)from / (double)to);
        from += m > 1 && w->text.id[from + (size_t)m - 1] == w->end ? (size_t)m - 1 : (size_t)m;
    }
    end_progress();
    if (!st && bits) *bits = n > 0 ? sum / n / log(2.0) : 0;
    if (st && ctx != w->ctx) say(tiny_ctx_message(ctx));
    tiny_free(ctx, logits);
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return st;
}

/* statistics of the inputs of all matrices in the list; those that nothing was multiplied with go */
static tiny_status watch_text(work *w, tllm_watch **watch)
{
    tiny_ctx_desc d = w->desc;
    tiny_ctx *run = NULL;
    size_t i, kept = 0;
    tiny_status st = tllm_watch_open(w->ctx, w->g, watch);
    for (i = 0; !st && i < w->n; i++) st = tllm_watch_pick(*watch, w->list[i].t, TLLM_CALIB_PRODUCTS);
    if (st) return st;
    d.accel = tllm_watch_hook(*watch);
    st = tiny_ctx_open(&d, &run);
    if (!st) st = read_on(w, run, w->g, 0, w->half, "reading", NULL);
    if (!st) st = tllm_watch_status(*watch);
    tiny_ctx_close(run);
    for (i = 0; !st && i < w->n; i++) {
        w->list[i].calib = tllm_watch_of(*watch, w->list[i].t, 0);
        if (w->list[i].calib) w->list[kept++] = w->list[i];
    }
    if (!st && kept < w->n)
        fprintf(stderr, "vptq: %lu matrices are unchanged: no product of the model uses the whole matrix\n",
                (unsigned long)(w->n - kept));
    if (!st) w->n = kept;
    return st;
}

/* the model with the matrices of the list as floats, in memory */
static tiny_status model_of(work *w, tllm_writer **out, tllm_gguf **g)
{
    tllm_writer_desc d;
    const void *memory;
    size_t i, k, bytes;
    tiny_status st;
    memset(&d, 0, sizeof d);
    st = tllm_writer_open(w->ctx, &d, out);
    for (i = 0; !st && i < tllm_gguf_n_meta(w->g); i++)
        st = tllm_writer_put_meta(w->ctx, *out, tllm_gguf_meta_at(w->g, i));
    for (i = 0; !st && i < tllm_gguf_n_tensors(w->g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(w->g, i);
        for (k = 0; k < w->n && w->list[k].t != t; k++) {}
        st = tllm_writer_put_tensor(w->ctx, *out, t->name, k < w->n ? TLLM_FORMAT_F32 : t->type, t->rank, t->dim,
                                    k < w->n ? (const void *)w->list[k].made : t->data);
    }
    if (!st) st = tllm_writer_finish(w->ctx, *out);
    memory = st ? NULL : tllm_writer_memory(*out, &bytes);
    return st ? st : tllm_gguf_open_memory(w->ctx, memory, bytes, g);
}

/* one matrix on a plain grid of `bits` bits, in groups of 64; returns all its bits */
static tiny_status on_a_grid(work *w, matrix *m, int bits, int gptq, double *all)
{
    const tiny_idx rows = (tiny_idx)m->t->dim[1], n = (tiny_idx)m->t->dim[0];
    const tiny_tensor h = tllm_calib_products(m->calib);
    tllm_plain_sizes size;
    tllm_gptq_desc d;
    tllm_plain q;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&q, 0, sizeof q);
    d.grid.kind = TLLM_PLAIN_ASYM;
    d.grid.bits = bits;
    d.grid.group = 64;
    d.grid.clip = 75;
    st = tllm_plain_size(w->ctx, &d.grid, rows, n, &size);
    if (!st && (!(q.code = (uint8_t *)tiny_alloc(w->ctx, size.codes)) ||
                !(q.scale = (uint16_t *)tiny_alloc(w->ctx, 2 * size.scales)) ||
                !(q.zero = (uint8_t *)tiny_alloc(w->ctx, size.scales))))
        st = tiny_ctx_status(w->ctx);
    if (!st)
        st = gptq ? tllm_gptq(w->ctx, &d, m->w, rows, n, &h, &q, NULL)
                  : tllm_plain_round(w->ctx, &d.grid, m->w, rows, n, NULL, &q);
    if (!st) st = tllm_plain_expand(w->ctx, &d.grid, &q, rows, n, m->made);
    if (!st) *all += (double)size.codes * bits + (double)size.scales * (16 + bits);
    tiny_free(w->ctx, q.zero);
    tiny_free(w->ctx, q.scale);
    tiny_free(w->ctx, q.code);
    return st;
}

static tiny_status in_books(work *w, matrix *m, const tllm_vptq_desc *d, double *all)
{
    const tiny_tensor h = tllm_calib_products(m->calib);
    tllm_vptq q;
    tiny_status st = tllm_vptq_quantize(w->ctx, d, m->w, (tiny_idx)m->t->dim[1], (tiny_idx)m->t->dim[0], &h, &q, NULL);
    if (!st) st = tllm_vptq_expand(w->ctx, &q, 0, q.rows, m->made, q.n);
    if (!st) *all += 8.0 * (double)q.n_bytes;
    if (!st && w->save) st = tllm_vptq_save(w->ctx, &q, w->save);
    tllm_vptq_close(w->ctx, &q);
    return st;
}

/* one line of the table. vptq NULL: a grid of `bits` bits; bits 0: unchanged */
static int line(work *w, const char *name, const tllm_vptq_desc *vptq, int bits, int gptq)
{
    tllm_writer *out = NULL;
    tllm_gguf *g = NULL;
    double all = 0, weights = 0, lost = 0, one, told;
    tiny_status st = TINY_OK;
    size_t i;
    for (i = 0; !st && i < w->n; i++) {
        matrix *m = &w->list[i];
        const tiny_tensor h = tllm_calib_products(m->calib);
        const double count = (double)m->t->dim[0] * (double)m->t->dim[1];
        if (vptq) st = in_books(w, m, vptq, &all);
        else if (bits) st = on_a_grid(w, m, bits, gptq, &all);
        else memcpy(m->made, m->w, (size_t)count * sizeof(float));
        if (!st) st = tllm_gptq_loss(w->ctx, m->w, m->made, (tiny_idx)m->t->dim[1], (tiny_idx)m->t->dim[0], &h, &one);
        if (!st && m->whole > 0) lost += one / m->whole / (double)w->n;
        weights += count;
        show_progress(NULL, name, (double)i / (double)w->n);
    }
    end_progress();
    if (!st) st = model_of(w, &out, &g);
    if (!st) st = read_on(w, w->ctx, g, w->half, w->text.n, "judging", &told);
    tllm_gguf_close(w->ctx, g);
    tllm_writer_close(w->ctx, out);
    if (st) {
        say(tiny_ctx_message(w->ctx));
        return 0;
    }
    if (bits || vptq) printf("%-24s %6.3f %12.5f %12.4f\n", name, all / weights, lost, told);
    else printf("%-24s %6s %12s %12.4f\n", name, "", "", told);
    (void)fflush(stdout);
    return 1;
}

static int table(work *w, const tllm_vptq_desc *set, int n)
{
    int i;
    char name[80];
    printf("%lu matrices, %lu tokens read, %lu judged\n%-24s %6s %12s %12s\n", (unsigned long)w->n,
           (unsigned long)w->half, (unsigned long)(w->text.n - w->half), "", "bits", "of outputs", "bits a token");
    if (!line(w, "original", NULL, 0, 0)) return 1;
    for (i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof name, "%s, %d bits", i % 2 ? "GPTQ" : "rounded", 2 + i / 2);
        if (!line(w, name, NULL, 2 + i / 2, i % 2)) return 1;
    }
    for (i = 0; i < n; i++) {
        if (set[i].k2)
            (void)snprintf(name, sizeof name, "VPTQ %d, %ld + %ld", set[i].v ? set[i].v : 8,
                           (long)(set[i].k ? set[i].k : 256), (long)set[i].k2);
        else
            (void)snprintf(name, sizeof name, "VPTQ %d, %ld", set[i].v ? set[i].v : 8,
                           (long)(set[i].k ? set[i].k : 256));
        if (!line(w, name, &set[i], 0, 0)) return 1;
    }
    return 0;
}

/* the matrices, and memory for their new forms */
static tiny_status choose(work *w, const char *tensor)
{
    size_t i;
    w->list = (matrix *)tiny_alloc(w->ctx, (tllm_gguf_n_tensors(w->g) + 1) * sizeof *w->list);
    if (!w->list) return tiny_ctx_status(w->ctx);
    memset(w->list, 0, (tllm_gguf_n_tensors(w->g) + 1) * sizeof *w->list);
    for (i = 0; i < tllm_gguf_n_tensors(w->g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(w->g, i);
        if (tensor ? !tllm_text_is(t->name, tensor) : !is_layer_matrix(t)) continue;
        w->list[w->n++].t = t;
    }
    if (tensor && w->n &&
        (w->list[0].t->rank != 2 || w->list[0].t->dim[1] < 2 || !tllm_format_of(w->list[0].t->type))) {
        fprintf(stderr, "vptq: %s is not a matrix\n", tensor);
        return TINY_E_ARGUMENT;
    }
    if (w->n) return TINY_OK;
    fprintf(stderr,
            tensor ? "vptq: there is no tensor %s in the model\n"
                   : "vptq: the model has no matrices blk.N.NAME.weight%s\n",
            tensor ? tensor : "");
    return TINY_E_ARGUMENT;
}

static tiny_status take_weights(work *w)
{
    size_t i;
    tiny_status st = TINY_OK;
    for (i = 0; !st && i < w->n; i++) {
        matrix *m = &w->list[i];
        const size_t count = (size_t)(m->t->dim[0] * m->t->dim[1]);
        const tiny_tensor h = tllm_calib_products(m->calib);
        m->w = (float *)tiny_alloc(w->ctx, count * sizeof(float));
        m->made = m->w ? (float *)tiny_alloc(w->ctx, count * sizeof(float)) : NULL;
        if (!m->made) return tiny_ctx_status(w->ctx);
        tllm_format_of(m->t->type)->unpack(m->t->data, m->w, count);
        st = tllm_gptq_loss(w->ctx, m->w, NULL, (tiny_idx)m->t->dim[1], (tiny_idx)m->t->dim[0], &h, &m->whole);
    }
    return st;
}

static int run(work *w, const char *path, const char *text_path, const char *tensor, int n_tokens,
               const tllm_vptq_desc *set, int n_set)
{
    tllm_vocab *vocab = NULL;
    tllm_watch *watch = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    char *text = NULL;
    size_t n_text = 0;
    int status = 1, said = 0;
    size_t i;
    tiny_status st;
    st = tllm_file_open(w->ctx, path, &w->g);
    if (!st) st = tllm_model_open(w->ctx, w->g, &model);
    if (!st) {
        tllm_model_about(model, &about);
        w->window = about.n_context < WINDOW ? about.n_context : WINDOW;
        w->n_vocab = about.n_vocab;
        if (about.output != TLLM_LOGITS || about.is_encoder || about.has_decoder) {
            fprintf(stderr, "vptq: %s: a %s model does not predict its text\n", path, about.arch);
            said = 1;
            st = TINY_E_UNSUPPORTED;
        }
    }
    tllm_model_close(w->ctx, model);
    if (!st && (st = choose(w, tensor)) != TINY_OK) said = 1;
    if (!st && !(text = read_text(text_path, (size_t)n_tokens < MOST_TEXT / 64 ? (size_t)n_tokens * 64 : MOST_TEXT, 1,
                                  &n_text))) {
        said = 1;
        st = TINY_E_IO;
    }
    if (!st) st = tllm_vocab_open(w->ctx, w->g, &vocab);
    if (!st) st = tllm_encode(w->ctx, vocab, text, n_text, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &w->text);
    if (!st) {
        if (w->text.n > (size_t)n_tokens) w->text.n = (size_t)n_tokens;
        w->half = w->text.n / 4 * 3;
        w->end = tllm_vocab_special(vocab, TLLM_EOS);
        for (i = w->half; i < w->text.n && w->text.id[i] != w->end; i++) {}
        if (i < w->text.n) w->half = i;     /* a story is read, or judged */
        w->bos = tllm_vocab_adds_bos(vocab) ? tllm_vocab_special(vocab, TLLM_BOS) : -1;
        if (w->text.n < 64) {
            fprintf(stderr, "vptq: %s has %lu tokens; at least 64 are needed, some thousands are better\n", text_path,
                    (unsigned long)w->text.n);
            said = 1;
            st = TINY_E_ARGUMENT;
        }
    }
    if (!st) st = watch_text(w, &watch);
    if (!st && !w->n) {
        fprintf(stderr, "vptq: no product of the model uses the whole of %s\n", tensor ? tensor : "any of them");
        said = 1;
        st = TINY_E_ARGUMENT;
    }
    if (!st) st = take_weights(w);
    if (!st) status = table(w, set, n_set);
    else if (!said && tiny_ctx_message(w->ctx)[0]) say(tiny_ctx_message(w->ctx));
    for (i = 0; w->list && i < w->n; i++) {
        tiny_free(w->ctx, w->list[i].made);
        tiny_free(w->ctx, w->list[i].w);
    }
    tiny_free(w->ctx, w->list);
    tllm_watch_close(watch);
    tllm_tokens_free(w->ctx, &w->text);
    tllm_vocab_close(w->ctx, vocab);
    free(text);
    tllm_gguf_close(w->ctx, w->g);
    return status;
}

int main(int argc, char **argv)
{
    static work w;
    const char *path = NULL, *text = NULL, *tensor = NULL;
    int v = 0, k = 0, k2 = 0, groups = 0, normalize = 0, n_tokens = 32768, status, i;
    double outliers = 0;
    uint64_t seed = 0;
    tllm_vptq_desc set[3];
    const option options[] = { THE_WORD("model", &path),
                               A_TEXT("--text", &text),
                               A_TEXT("--tensor", &tensor),
                               A_WHOLE("--v", &v, 1, TLLM_VPTQ_MOST_V),
                               A_WHOLE("--k", &k, 2, 1048576),
                               A_WHOLE("--k2", &k2, 2, 1048576),
                               A_NUMBER("--outliers", &outliers, 0, 99),
                               A_WHOLE("--groups", &groups, 1, 1e6),
                               A_FLAG("--normalize", &normalize),
                               A_SEED("--seed", &seed),
                               A_TEXT("--save", &w.save),
                               A_WHOLE("--tokens", &n_tokens, 64, 1e8),
                               A_WHOLE("--threads", &w.desc.n_threads, 1, TINY_MAX_THREADS) };
    READ_OPTIONS(argc, argv, usage, options);
    if (!text) return wrong("--text", "a text for the model is needed");
    if (w.save && !tensor) return wrong("--save", "it needs --tensor, the matrix to save");
    memset(set, 0, sizeof set);
    for (i = 0; i < 3; i++) {
        set[i].v = v || k ? v : i ? 4 : 8;
        set[i].k = v || k ? k : 256;
        set[i].k2 = v || k ? k2 : k2 ? k2 : i == 2 ? 256 : 0;
        set[i].outliers = (float)outliers;
        set[i].groups = groups;
        set[i].normalize = normalize;
        set[i].seed = seed;
    }
    if (must_not_write(w.save, 2, path, text)) return 2;
    w.desc.cancel = cancelled;
    w.desc.log = hear;
    stop_on_signals_whole();
    w.desc.progress = show_progress;
    w.desc.user = &w.ctx;
    if (tiny_ctx_open(&w.desc, &w.ctx)) return 1;
    status = run(&w, path, text, tensor, n_tokens, set, v || k ? 1 : k2 ? 2 : 3);
    tiny_ctx_close(w.ctx);
    return exit_status(status && stopped_by ? 128 + stopped_by : status);
}
