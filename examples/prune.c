/* examples/prune.c - sets weights of a model to zero; or of a layer: a smaller file and a faster product
 *
 *     prune MODEL OUT.gguf --by sparsegpt --text stories.txt [--zeros 50 | --pattern 2:4]
 *     prune MODEL OUT.gguf --heads 25 --neurons 25 --text stories.txt
 *     prune [--zeros PERCENT] [--outputs N] [--inputs N] [-o FILE] [--seed S] [--threads N] [--target NAME]
 *
 * A model keeps its formats, so with zeros OUT is as large as MODEL: it shows what they cost in accuracy. With --heads
 * and --neurons whole heads and neurons go, and OUT is smaller. The program measures the divergence on a
 * part of the text that it did not read; for story models `judge OUT.gguf --against MODEL.gguf` measures more.
 * Without a model the weights are random, 4096 x 4096 by default. In each row the 80 percent (--zeros) with the
 * smallest |w| |x| are removed; |x| is the norm of that input over a hundred rows. The result is written to a file (in
 * memory without -o) and read back. The size of the file, the time and the result are compared with those of the dense
 * layer in f16. */
#define TINYLLM_TOOLS
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "prune"
#include "options.h"
#include "apart.h"

/* rows of x that are looked at; runs of which the median counts; rows at most in one */
enum { ROWS = 100, TIMES = 31, TOGETHER = 32 };

static const char usage[] =
    "prune MODEL OUT.gguf --text FILE [options]   sets weights of the matrices of layers to zero\n"
    "prune [options]                              no model is read: the weights are random\n"
    "  --zeros PERCENT  weights that become zero; default: 50, of random weights 80\n"
    "with a model:\n"
    "  --by WAY         magnitude, the smallest weights; wanda, weighed by the inputs that they meet (default);\n"
    "                   sparsegpt, by the error of the outputs, with the other weights corrected\n"
    "  --pattern N:M    N zeros of each M neighbours of a row, such as 2:4\n"
    "  --heads PERCENT  in place of zeros: whole heads that go, the same number of each key head; OUT is smaller\n"
    "  --neurons PERCENT  whole neurons of the networks that go; what stays is fitted again\n"
    "  --cut            with these: what stays is not fitted\n"
    "  --text FILE      the text that the model reads; it should resemble its use\n"
    "  --tokens N       read at most this many tokens of it; default: 16384. The next 2048 measure the result\n"
    "without:\n"
    "  --outputs N      outputs of the layer; default: 4096\n"
    "  --inputs N       inputs of the layer; default: 4096\n"
    "  -o FILE          write the result to a file; default: in memory\n"
    "  --seed S         seed of the weights and inputs; default: 1\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n";

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the dense product, or with a the pruned one: median of its microseconds, and y; below 0 where it failed */
static double timed(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tllm_csl *a, const tiny_tensor *y)
{
    double us[TIMES];
    int i;
    for (i = -3; i < TIMES; i++) {
        const uint64_t start = tiny_now_ns();
        if (a ? tllm_flash_matmul(ctx, x, a, y) : tiny_matmul(ctx, x, w, NULL, TINY_ACT_NONE, y)) return -1;
        if (i >= 0) us[i] = (double)(tiny_now_ns() - start) / 1e3;
    }
    qsort(us, TIMES, sizeof *us, order);
    return us[TIMES / 2];
}

/* a becomes what its file holds: what is measured is what was written */
static tiny_status through_a_file(tiny_ctx *ctx, tllm_csl *a, const char *path, size_t *n)
{
    void *bytes;
    tiny_status st = tllm_csl_pack(ctx, a, &bytes, n);
    if (!st && path) st = tllm_csl_save(ctx, a, path);
    tllm_csl_free(ctx, a);
    if (!st) st = path ? tllm_csl_load(ctx, path, a) : tllm_csl_open(ctx, bytes, *n, a);
    tiny_free(ctx, bytes);
    return st;
}

/* rows of x times the dense matrix, turned, and the pruned one; 0: it failed */
static int show(tiny_ctx *ctx, int rows, tiny_tensor x, const tiny_tensor *turned, const tllm_csl *a, tiny_tensor one,
                tiny_tensor two)
{
    const float *y, *z;
    double dense, sparse, off = 0.0, size = 0.0;
    size_t i;
    x.dim[0] = one.dim[0] = two.dim[0] = rows;
    dense = timed(ctx, &x, turned, NULL, &one);
    sparse = dense < 0 ? -1 : timed(ctx, &x, turned, a, &two);
    if (sparse < 0) return 0;
    y = (const float *)one.data;
    z = (const float *)two.data;
    for (i = 0; i < (size_t)tiny_tensor_count(&one); i++) {
        off += ((double)y[i] - (double)z[i]) * ((double)y[i] - (double)z[i]);
        size += (double)y[i] * (double)y[i];
    }
    printf("%2d row%s of x: dense f16 %7.0f us, pruned %7.0f us: %.2f times as fast; answers differ by %.1e of their "
           "size\n",
           rows, rows > 1 ? "s" : " ", dense, sparse, dense / sparse, size > 0.0 ? sqrt(off / size) : 0.0);
    return 1;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

typedef struct request {
    tiny_ctx *ctx;
    tllm_oneshot_desc d;
    tllm_thin_desc thin;
    divided text;
    tllm_oneshot_tensor *list;
    void **blocks;
    size_t n;
} request;

static int shown_percent = -1;
static void tell_progress(void *user, const char *what, double done)
{
    const int percent = (int)(100.0 * done);
    (void)user;
    if ((strcmp(what, "oneshot") != 0 && strcmp(what, "thin") != 0) || percent == shown_percent || !is_shown()) return;
    shown_percent = percent;
    fprintf(stderr, "\rpruned %3d %%", percent);
    (void)fflush(stderr);
}

/* a matrix of a layer, but not the small one that chooses experts */
static int is_pruned(const tllm_gguf_tensor *t)
{
    static const char router[] = "ffn_gate_inp";
    size_t i;
    if (t->rank < 2 || t->dim[1] < 2 || t->name.n < 4 || memcmp(t->name.at, "blk.", 4)) return 0;
    for (i = 0; i + sizeof router - 1 <= t->name.n; i++)
        if (!memcmp(t->name.at + i, router, sizeof router - 1)) return 0;
    return 1;
}

/* the floats of the pruned matrices, and from them blocks in their formats */
static tiny_status prepare(void *user, const tllm_gguf *g, tllm_quantize_tensor *all, size_t n)
{
    request *r = (request *)user;
    size_t i, k;
    tiny_status st;
    r->list = (tllm_oneshot_tensor *)tiny_alloc(r->ctx, (n ? n : 1) * sizeof *r->list);
    r->blocks = r->list ? (void **)tiny_alloc(r->ctx, (n ? n : 1) * sizeof *r->blocks) : NULL;
    st = r->blocks ? TINY_OK : TINY_E_MEMORY;
    for (i = 0; i < n && !st; i++) {
        const tllm_gguf_tensor *t = all[i].tensor;
        size_t count = t->rank < 3 ? 1 : (size_t)t->dim[2];
        if (!is_pruned(t)) continue;
        count *= (size_t)t->dim[0] * (size_t)t->dim[1];
        memset(&r->list[r->n], 0, sizeof r->list[r->n]);
        r->list[r->n].t = t;
        r->list[r->n].to = (float *)tiny_alloc(r->ctx, count * sizeof(float));
        r->blocks[r->n] = tiny_alloc(r->ctx, tllm_format_bytes(tllm_format_of(all[i].to), count));
        if (!r->list[r->n].to || !r->blocks[r->n++]) st = TINY_E_MEMORY;
    }
    if (!st) st = tllm_oneshot_model(r->ctx, g, &r->d, r->text.t.id, (tiny_idx)r->text.n, r->list, r->n);
    if (shown_percent >= 0) fputs("\r             \r", stderr);
    for (i = k = 0; i < n && k < r->n && !st; i++) {
        const tllm_gguf_tensor *t = all[i].tensor;
        if (t != r->list[k].t) continue;
        tllm_format_of(all[i].to)->pack(r->list[k].to, r->blocks[k],
                                        (size_t)t->dim[0] * (size_t)t->dim[1] * (t->rank < 3 ? 1 : (size_t)t->dim[2]),
                                        NULL);
        all[i].blocks = r->blocks[k++];
    }
    return st;
}

/* the format that most bytes of the matrices have, if it can be written */
static const char *format_of(const tllm_gguf *g)
{
    uint64_t bytes[1024];
    size_t i;
    int best = TLLM_FORMAT_F16;
    memset(bytes, 0, sizeof bytes);
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const tllm_format *f = tllm_format_of(t->type);
        if (!f || !f->pack || t->rank < 2 || t->type < 0 || t->type >= 1024) continue;
        bytes[t->type] += t->bytes;
        if (bytes[t->type] > bytes[best]) best = t->type;
    }
    return tllm_format_of(best)->name;
}

/* "2:4" */
static int pattern_of(const char *text, tllm_oneshot_desc *d)
{
    char *end;
    const long zeros = strtol(text, &end, 10), of = *end == ':' ? strtol(end + 1, &end, 10) : 0;
    d->zeros = (int)zeros;
    d->of = (int)of;
    return !*end && !text[strspn(text, "0123456789:")] && zeros >= 1 && of > zeros && of <= 256;
}

/* OUT without some heads and neurons */
static tiny_status thin_model(request *r, const tllm_gguf *g, const char *out)
{
    tllm_writer_desc wd;
    tllm_writer *w = NULL;
    tllm_thin *t = NULL;
    tllm_thin_about a;
    tiny_status st;
    memset(&wd, 0, sizeof wd);
    wd.path = out;
    r->thin.window = r->d.window;
    st = tllm_thin_open(r->ctx, g, &r->thin, &t);
    if (!st) st = tllm_writer_open(r->ctx, &wd, &w);
    if (!st) st = tllm_thin_put(r->ctx, t, r->text.t.id, (tiny_idx)r->text.n, w);
    if (!st) st = tllm_writer_finish(r->ctx, w);
    if (shown_percent >= 0) fputs("\r             \r", stderr);
    a = tllm_thin_what(t);
    if (!st)
        printf("%s: %ld query and %ld key heads, %ld neurons a layer; %.3f million parameters, %.1f %% of %.3f; %.2f "
               "MB, %.1f %% of %.2f; %lu tokens read, of what the output matrices gave %.3f %% is lost\n",
               out, (long)a.n_head, (long)a.n_kv, (long)a.n_ff, a.params / 1e6, 100.0 * a.params / a.params_before,
               a.params_before / 1e6, (double)a.bytes / 1e6, 100.0 * (double)a.bytes / (double)a.bytes_before,
               (double)a.bytes_before / 1e6, (unsigned long)a.tokens, 100.0 * a.lost);
    tllm_writer_close(r->ctx, w);
    tllm_thin_close(r->ctx, t);
    return st;
}

static int prune_model(const char *in, const char *out, const char *text, int n_tokens, request *r)
{
    tllm_quantize_desc q;
    tllm_gguf *g = NULL, *made = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    double kl = 0, same = 0, zeros = 0, numbers = 0;
    size_t k;
    tiny_status st = tllm_gguf_open(r->ctx, in, &g);
    memset(&q, 0, sizeof q);
    if (!st) st = tllm_model_open(r->ctx, g, &model);
    if (!st) {
        tllm_model_about(model, &about);
        r->d.window = about.n_context < 512 ? about.n_context : 512;
        q.type = format_of(g);
        q.pure = 1;
        q.prepare = prepare;
        q.user = r;
        st = divide(r->ctx, g, text, (size_t)n_tokens, (size_t)r->d.window, &r->text);
    }
    tllm_model_close(r->ctx, model);
    if (!st && r->text.n < (size_t)about.n_embd) {
        (void)refused("%s has %lu tokens, of which %lu are read; matrices have %ld inputs, so at least %lu tokens are "
                      "needed, and ten times as many are better",
                      text, (unsigned long)r->text.t.n, (unsigned long)r->text.n, (long)about.n_embd,
                      (unsigned long)((about.n_embd * 8 + 6) / 7));
        st = TINY_E_ARGUMENT;
    }
    if (!st)
        st = r->thin.heads > 0 || r->thin.neurons > 0 ? thin_model(r, g, out)
                                                      : tllm_quantize_file(r->ctx, in, out, &q, NULL);
    for (k = 0; k < r->n && !st; k++) {
        zeros += (double)r->list[k].about.zeros;
        numbers += (double)r->list[k].about.numbers;
    }
    if (!st) {
        if (r->n) printf("%s: %.2f %% zeros in %lu matrices of layers, by %s, over %lu tokens\n", out,
               numbers > 0 ? 100.0 * zeros / numbers : 0.0, (unsigned long)r->n,
               r->d.by == TLLM_ONESHOT_MAGNITUDE ? "magnitude"
               : r->d.by == TLLM_ONESHOT_WANDA   ? "wanda"
                                                 : "sparsegpt",
               (unsigned long)r->text.n);
        (void)fflush(stdout);
        st = tllm_gguf_open(r->ctx, out, &made);
        if (!st)
            st = divergence(r->ctx, g, made, r->text.t.id + r->text.n, (tiny_idx)r->text.rest, r->d.window, &kl, &same);
        if (!st)
            printf("  divergence from %s %.4f bits per token, the same best guess at %.2f %%, over %lu tokens that "
                   "were not read\n",
                   in, kl, 100.0 * same, (unsigned long)r->text.rest);
    }
    if (st && stopped_by) say("stopped; nothing was written");
    else if (st && tiny_ctx_message(r->ctx)[0]) say(tiny_ctx_message(r->ctx));
    for (k = 0; k < r->n; k++) {
        tiny_free(r->ctx, r->blocks[k]);
        tiny_free(r->ctx, r->list[k].to);
    }
    tiny_free(r->ctx, r->blocks);
    tiny_free(r->ctx, r->list);
    tllm_tokens_free(r->ctx, &r->text.t);
    tllm_gguf_close(r->ctx, made);
    tllm_gguf_close(r->ctx, g);
    return st != TINY_OK;
}

int main(int argc, char **argv)
{
    static const int rows[] = { 1, 8, TOGETHER };
    double zeros = -1, heads = 0, neurons = 0;
    int m = 4096, k = 4096, c, ok = 0, n_tokens = 16384, cut = 0;
    const char *path = NULL, *in = NULL, *out = NULL, *text = NULL, *by = "wanda", *pattern = NULL;
    uint64_t seed = 1;
    tiny_ctx_desc desc = { 0 };
    const option options[] = { A_WORD("MODEL", &in),
                               A_WORD("OUT.gguf", &out),
                               A_TEXT("--by", &by),
                               A_TEXT("--pattern", &pattern),
                               A_NUMBER("--heads", &heads, 0, 99.99),
                               A_NUMBER("--neurons", &neurons, 0, 99.99),
                               A_FLAG("--cut", &cut),
                               A_TEXT("--text", &text),
                               A_WHOLE("--tokens", &n_tokens, 1, 1e8),
                               A_NUMBER("--zeros", &zeros, 0, 100),
                               A_WHOLE("--outputs", &m, 1, 16384),
                               A_WHOLE("--inputs", &k, 1, 16384),
                               A_TEXT("-o", &path),
                               A_SEED("--seed", &seed),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target) };
    tiny_ctx *ctx = NULL;
    tllm_csl_desc how = { 0 };
    float *w, *x, *y, *norm;
    void *half;
    tllm_csl a;
    request r;
    size_t i, n, n_bytes;
    memset(&r, 0, sizeof r);
    READ_OPTIONS(argc, argv, usage, options);
    if (must_not_write(path, 0) || must_not_write(out, 2, in, text)) return 2;
    if (in && !out) return wrong("OUT.gguf", "a name for the pruned model is needed");
    if (in && !text) return wrong("--text", "a text is needed, which shows the inputs that matter");
    r.d.by = place_in("magnitude wanda sparsegpt", by);
    if (r.d.by < 0) return wrong("--by", by);
    if (pattern && !pattern_of(pattern, &r.d)) return wrong("--pattern", pattern);
    if (in && zeros >= 0 && !(zeros > 0 && zeros < 100)) return refused("--zeros must be above 0 and below 100");
    if ((heads > 0 || neurons > 0) && (zeros >= 0 || pattern))
        return wrong("--zeros and --pattern", "whole units or zeros");
    if ((heads > 0 || neurons > 0 || cut) && !in) return refused("--heads, --neurons and --cut need a model");
    if (cut && !(heads > 0 || neurons > 0)) return refused("--cut does nothing without --heads or --neurons");
    r.thin.plain = cut;
    r.thin.heads = heads / 100.0;
    r.thin.neurons = neurons / 100.0;
    r.d.share = zeros > 0 ? zeros / 100.0 : 0.5;
    if (zeros < 0) zeros = 80;
    desc.progress = in ? tell_progress : NULL;
    desc.cancel = cancelled;
    desc.log = hear;
    stop_on_signals_whole();
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (in) {
        r.ctx = ctx;
        ok = !prune_model(in, out, text, n_tokens, &r);
        tiny_ctx_close(ctx);
        return exit_status(!ok && stopped_by ? 128 + stopped_by : !ok);
    }
    memset(&a, 0, sizeof a);
    n = (size_t)m * (size_t)k;
    w = (float *)tiny_alloc(ctx, n * sizeof *w);
    half = tiny_alloc(ctx, n * 2);
    x = (float *)tiny_alloc(ctx, (size_t)k * ROWS * sizeof *x);
    y = (float *)tiny_alloc(ctx, (size_t)m * 2 * TOGETHER * sizeof *y);
    norm = (float *)tiny_alloc(ctx, (size_t)k * sizeof *norm);
    if (w && half && x && y && norm) {
        const tiny_tensor weights = tiny_tensor_2d(w, TINY_F32, m, k),
                          turned = tiny_tensor_swap(tiny_tensor_2d(half, TINY_F16, m, k), 0, 1),
                          some = tiny_tensor_2d(x, TINY_F32, ROWS, k);
        const tiny_tensor one = tiny_tensor_2d(y, TINY_F32, TOGETHER, m),
                          two = tiny_tensor_2d(y + (size_t)m * TOGETHER, TINY_F32, TOGETHER, m);
        tiny_rng rng = tiny_rng_make(seed, 1);
        for (i = 0; i < n; i++) w[i] = 0.02f * tiny_rng_normal(&rng);
        for (i = 0; i < (size_t)k; i++) norm[i] = 0.0f;
        for (i = 0; i < (size_t)k * ROWS; i++) {        /* some inputs are larger than others */
            x[i] = tiny_rng_normal(&rng) * (i % (size_t)k % 16 ? 1.0f : 4.0f);
            norm[i % (size_t)k] += x[i] * x[i];
        }
        for (i = 0; i < (size_t)k; i++) norm[i] = sqrtf(norm[i]);
        how.profile = TLLM_CSL_WOVEN;                   /* for products; what others read is TLLM_CSL_PUBLISHED */
        ok = !tllm_csl_prune(ctx, &weights, norm, zeros / 100.0) && !tllm_csl_build(ctx, &weights, &how, &a) &&
             !through_a_file(ctx, &a, path, &n_bytes);
        if (ok) {
            tllm_format_of(TLLM_FORMAT_F16)->pack(w, half, n, NULL);
            printf("%d x %d, %.0f %% zeros: %s has %.1f MB, the dense layer in f16 %.1f MB: %.2f times smaller\n", m, k,
                   100.0 - 100.0 * (double)a.n_nonzero / (double)n, path ? path : "its file", (double)n_bytes / 1e6,
                   2.0 * (double)n / 1e6, 2.0 * (double)n / (double)n_bytes);
        }
        for (c = 0; ok && c < 3; c++) ok = show(ctx, rows[c], some, &turned, &a, one, two);
    }
    if (!ok) say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
    tllm_csl_free(ctx, &a);
    tiny_free(ctx, norm);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    tiny_free(ctx, half);
    tiny_free(ctx, w);
    tiny_ctx_close(ctx);
    return exit_status(!ok && stopped_by ? 128 + stopped_by : !ok);
}
