/* examples/join.c - joins two models of different widths, and all stitches between them, in one file (SN-Net)
 *
 *     story-gen --stories 500 --seed 7 > stories.txt
 *     join examples/models/story-small.gguf examples/models/story.gguf OUT.gguf --text stories.txt
 *     generate OUT.gguf "..." --stitch 6          runs network 6; without --stitch the larger model
 *
 * A stitch runs the first layers of the small model, a linear layer, and the last layers of the large one. The linear
 * layers are fitted to a part of the text; with --train all networks are then trained together. On another part every
 * network is measured; OUT holds what was found. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "join"
#include "options.h"
#include "apart.h"

static const char usage[] =
    "join SMALL LARGE OUT.gguf --text FILE [options]   one file of two models and of the stitches between them\n"
    "  --text FILE      the text that both models read; it should resemble their use\n"
    "  --tokens N       fit the linear layers to this many tokens of it; default: 4096. After these, and those of the\n"
    "                   training, 2048 measure the networks\n"
    "  --train STEPS    train all networks together, each step one of them on a window of the text; default: 0\n"
    "  --rate R         of the training, falling to 0; default: 0.0003\n"
    "  --seed N         of the training; default: 0\n"
    "  --type TYPE      format of the linear layers (F32, F16, Q8_0 ...); default: F16\n"
    "  --window N       tokens that are read together; default: the context, at most 256\n"
    "  --svg FILE       draw bits per token against the numbers of weights\n"
    "  --threads N      default: one per processor\n";

typedef struct network { tllm_stitched_about is; double bits, seconds; unsigned char best; } network;

static int shown_percent = -1;
static void tell_progress(void *user, const char *what, double done)
{
    const int percent = (int)(100.0 * done);
    (void)user;
    if (strcmp(what, "join") != 0 || percent == shown_percent || !is_shown()) return;
    shown_percent = percent;
    fprintf(stderr, "\rread and solved %3d %%", percent);
    (void)fflush(stderr);
}

static int on_step(void *user, const tllm_snnet_fit_state *s)
{
    (void)user;
    if (is_shown() && s->step % 10 == 0)
        fprintf(stderr, "\rtrained step %ld of %ld: %.3f bits, network %lu   ", (long)s->step, (long)s->steps,
                s->loss / log(2.0), (unsigned long)s->network);
    return stopped_by != 0;
}

/* bits per token of a model over a text in windows, and the seconds of its passes */
static tiny_status measure(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, tiny_idx n, tiny_idx window,
                           network *to)
{
    side s;
    tllm_about about;
    tiny_idx at, now, i, best, counted = 0;
    tiny_status st;
    double nats = 0;
    memset(&s, 0, sizeof s);
    st = side_open(ctx, g, window, &s);
    if (!st) tllm_model_about(s.model, &about);
    to->seconds = 0;
    for (at = 0; at < n && !st; at += now) {
        const int64_t start = (int64_t)tiny_now_ns();
        now = n - at < window ? n - at : window;
        tllm_state_clear(s.state);
        st = tllm_forward(s.state, token + at, now, 0, now, s.y);
        to->seconds += 1e-9 * (double)((int64_t)tiny_now_ns() - start);
        for (i = 0; i + 1 < now && !st; i++, counted++) {
            const float *y = s.y + i * about.n_out;
            nats += log_sum(y, about.n_out, &best) - (double)y[token[at + i + 1]];
        }
    }
    to->bits = counted ? nats / log(2.0) / (double)counted : 0;
    to->seconds /= n > 0 ? (double)n : 1;
    side_close(ctx, &s);
    return st;
}

/* all networks of a file in memory */
static tiny_status measure_all(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, tiny_idx n, tiny_idx window,
                               network *to, size_t n_networks)
{
    tiny_status st = TINY_OK;
    size_t k;
    for (k = 0; k < n_networks && !st; k++) {
        tllm_gguf *view = NULL;
        if (is_shown()) fprintf(stderr, "\rmeasured network %lu of %lu ", (unsigned long)k, (unsigned long)n_networks);
        st = tllm_stitched_what(ctx, g, k, &to[k].is);
        if (!st) st = tllm_stitched_view(ctx, g, k, &view);
        if (!st) st = measure(ctx, view, token, n, window, &to[k]);
        tllm_gguf_close(ctx, view);
    }
    return st;
}

static tiny_status best_of(tiny_ctx *ctx, network *net, size_t n)
{
    double *cost = (double *)tiny_alloc(ctx, 2 * n * sizeof *cost);
    unsigned char *keep = (unsigned char *)tiny_alloc(ctx, n);
    tiny_status st = cost && keep ? TINY_OK : TINY_E_MEMORY;
    size_t k;
    for (k = 0; k < n && !st; k++) {
        cost[k] = net[k].is.params;
        cost[n + k] = -net[k].bits;
    }
    if (!st) st = tllm_stitch_pareto(ctx, cost, cost + n, n, keep, NULL);
    for (k = 0; k < n && !st; k++) net[k].best = keep[k];
    tiny_free(ctx, keep);
    tiny_free(ctx, cost);
    return st;
}

static void print_table(const network *net, size_t n)
{
    size_t k;
    printf("%7s  %-30s %8s %8s %14s %9s\n", "network", "layers", "million", "MB", "bits a token", "tokens/s");
    for (k = 0; k < n; k++) {
        const tllm_stitch *s = &net[k].is.stitch;
        char layers[64];
        if (s->front == s->back) (void)snprintf(layers, sizeof layers, "%s", s->back ? "LARGE" : "SMALL");
        else (void)snprintf(layers, sizeof layers, "SMALL 0-%d, linear %d, LARGE %d-", s->f, s->layer, s->e);
        printf("%7lu  %-30s %8.3f %8.2f %12.4f %s %9.0f\n", (unsigned long)k, layers, net[k].is.params / 1e6,
               (double)net[k].is.bytes / 1e6, net[k].bits, net[k].best ? "*" : " ", 1 / (net[k].seconds + 1e-12));
    }
    printf("* no network is both smaller and better\n");
}

/* bits per token over weights: a circle for each stitch, squares for the two models, a line through the best */
static size_t draw(char *to, size_t room, const network *net, size_t n)
{
    double low = 1e300, high = 0, least = 1e300, most = 0, x, y, from = -1;
    size_t at = 0, k, step;
    int i;
    for (k = 0; k < n; k++) {
        if (net[k].is.params < low) low = net[k].is.params;
        if (net[k].is.params > high) high = net[k].is.params;
        if (net[k].bits < least) least = net[k].bits;
        if (net[k].bits > most) most = net[k].bits;
    }
    high += 0.05 * (high - low);
    low -= 0.05 * (high - low);
    most += 0.05 * (most - least) + 1e-6;
    least -= 0.05 * (most - least);
#define PUT(...) (at += (size_t)snprintf(at < room ? to + at : NULL, at < room ? room - at : 0, __VA_ARGS__))
#define X_OF(k) (70 + 620 * (net[k].is.params - low) / (high - low))
#define Y_OF(k) (370 - 330 * (net[k].bits - least) / (most - least))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n");
    PUT("<text x=\"70\" y=\"22\">bits per token over million weights: two models and the stitches between "
        "them</text>\n");
    for (i = 0; i <= 5; i++) {
        y = 370 - 330.0 * i / 5;
        x = 70 + 620.0 * i / 5;
        PUT("<path d=\"M70 %.0fH690\" stroke=\"#ddd\"/><text x=\"64\" y=\"%.0f\" text-anchor=\"end\">%.2f</text>\n", y,
            y + 4, least + (most - least) * i / 5);
        PUT("<text x=\"%.0f\" y=\"390\" text-anchor=\"middle\">%.2f</text>\n", x, (low + (high - low) * i / 5) / 1e6);
    }
    PUT("<path fill=\"none\" stroke=\"#1f77b4\" d=\"");
    for (step = 0; step < n; step++) {      /* the best ones from the smallest on */
        size_t next = n;
        for (k = 0; k < n; k++)
            if (net[k].best && net[k].is.params > from && (next == n || net[k].is.params < net[next].is.params))
                next = k;
        if (next == n) break;
        PUT("%c%.1f %.1f", step ? 'L' : 'M', X_OF(next), Y_OF(next));
        from = net[next].is.params;
    }
    PUT("\"/>\n");
    for (k = 0; k < n; k++) {
        const int anchor = net[k].is.stitch.front == net[k].is.stitch.back;
        if (anchor)
            PUT("<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"#d62728\"/>", X_OF(k) - 4, Y_OF(k) - 4);
        else PUT("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#1f77b4\"/>", X_OF(k), Y_OF(k));
        PUT("<text x=\"%.1f\" y=\"%.1f\" fill=\"#555\">%lu</text>\n", X_OF(k) + 6, Y_OF(k) - 5, (unsigned long)k);
    }
    PUT("</svg>\n");
#undef PUT
#undef X_OF
#undef Y_OF
    return at;
}

int main(int argc, char **argv)
{
    static char picture[65536];
    const char *in[2] = { NULL, NULL }, *out = NULL, *text = NULL, *type = "F16", *svg = NULL;
    int n_tokens = 4096, window = 0, steps = 0, i;
    tllm_join_train_desc td;
    size_t n_fit = 0;
    tiny_ctx_desc desc;
    tllm_join_desc d;
    tllm_join_about a;
    tllm_writer_desc wd;
    const tllm_format *f;
    const option options[] = { THE_WORD("SMALL", &in[0]),
                               A_WORD("LARGE", &in[1]),
                               A_WORD("OUT.gguf", &out),
                               A_TEXT("--text", &text),
                               A_WHOLE("--tokens", &n_tokens, 1, 1e8),
                               A_WHOLE("--train", &steps, 1, 1e7),
                               A_NUMBER("--rate", &td.lr, 1e-9, 1),
                               A_SEED("--seed", &td.seed),
                               A_TEXT("--type", &type),
                               A_WHOLE("--window", &window, 2, 1e6),
                               A_TEXT("--svg", &svg),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS) };
    tiny_ctx *ctx = NULL;
    tllm_gguf *g[2] = { NULL, NULL }, *made = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    tllm_join *j = NULL;
    tllm_writer *w = NULL, *first = NULL;
    divided text_of;
    network *net = NULL;
    double *bits = NULL;
    const void *bytes;
    size_t n_bytes = 0, k;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    memset(&d, 0, sizeof d);
    memset(&td, 0, sizeof td);
    memset(&wd, 0, sizeof wd);
    memset(&text_of, 0, sizeof text_of);
    memset(&a, 0, sizeof a);
    READ_OPTIONS(argc, argv, usage, options);
    if (!in[1]) return wrong("LARGE", "two models are needed");
    if (!out) return wrong("OUT.gguf", "a name for the joined file is needed");
    if (!text) return wrong("--text", "a text is needed, which both models read");
    if (must_not_write(out, 4, in[0], in[1], text, svg) || must_not_write(svg, 3, in[0], in[1], text)) return 2;
    f = tllm_format_by_name(type);
    if (!f || !f->pack || f->flags & TLLM_FORMAT_ACTIVATIONS)
        return wrong(type, "--type takes a format of weights: F32, F16, Q8_0 ...");
    d.format = f->id;
    desc.log = hear;
    desc.progress = tell_progress;
    desc.cancel = cancelled;                /* OUT.part is removed then too */
    desc.user = &ctx;
    stop_on_signals_whole();
    st = tiny_ctx_open(&desc, &ctx);
    for (i = 0; i < 2 && !st; i++) st = tllm_file_open(ctx, in[i], &g[i]);
    if (!st) st = tllm_model_open(ctx, g[1], &model);
    if (!st) {
        tllm_model_about(model, &about);
        d.window = window ? window : about.n_context < 256 ? about.n_context : 256;
        st = tllm_join_open(ctx, g[0], g[1], &d, &j);
    }
    tllm_model_close(ctx, model);
    if (!st) {
        const size_t all = (size_t)steps * (size_t)d.window + 1;
        st = divide(ctx, g[1], text, all > (size_t)n_tokens ? all : (size_t)n_tokens, (size_t)d.window, &text_of);
        n_fit = text_of.n < (size_t)n_tokens ? text_of.n : (size_t)n_tokens;
    }
    if (!st) st = tllm_join_fit(ctx, j, text_of.t.id, (tiny_idx)n_fit);
    td.steps = steps;
    td.callback = on_step;
    if (!st && steps) st = tllm_join_train(ctx, j, text_of.t.id, (tiny_idx)text_of.n, &td, NULL);
    if (!st && stopped_by) st = TINY_E_CANCELLED;
    if (!st) {                              /* once in memory, to measure it; then with what was measured */
        a = tllm_join_what(j);
        net = (network *)calloc(a.n, sizeof *net);
        bits = (double *)calloc(a.n, sizeof *bits);
        st = net && bits ? tllm_writer_open(ctx, NULL, &first) : TINY_E_MEMORY;
    }
    if (!st) st = tllm_join_put(ctx, j, NULL, first);
    if (!st) st = tllm_writer_finish(ctx, first);
    if (!st) {
        bytes = tllm_writer_memory(first, &n_bytes);
        st = tllm_gguf_open_memory(ctx, bytes, n_bytes, &made);
    }
    if (!st) st = measure_all(ctx, made, text_of.t.id + text_of.n, (tiny_idx)text_of.rest, d.window, net, a.n);
    if (!st) st = best_of(ctx, net, a.n);
    for (k = 0; k < a.n && !st; k++) bits[k] = net[k].bits;
    wd.path = out;
    if (!st) st = tllm_writer_open(ctx, &wd, &w);
    if (!st) st = tllm_join_put(ctx, j, bits, w);
    if (!st) st = tllm_writer_finish(ctx, w);
    if (is_shown()) fprintf(stderr, "\r%60s\r", "");
    if (!st) {
        printf("%s: %.2f MB, %lu networks of %ld and %ld layers, %lu linear layers; %lu tokens read, of which the "
               "linear layers leave %.1f %% of the squares; bits over %lu others\n",
               out, (double)n_bytes / 1e6, (unsigned long)a.n, (long)a.n_layer[0], (long)a.n_layer[1],
               (unsigned long)a.n_linear, (unsigned long)a.tokens, 100 * a.left, (unsigned long)text_of.rest);
        print_table(net, a.n);
        if (svg) {
            const size_t n = draw(picture, sizeof picture, net, a.n);
            st = n < sizeof picture ? tiny_file_write(ctx, svg, picture, n) : TINY_E_OVERFLOW;
            if (st) say(n < sizeof picture ? tiny_ctx_message(ctx) : "the picture is too large: too many networks");
        }
    } else if (stopped_by) say("stopped; nothing was written");
    else if (ctx && tiny_ctx_message(ctx)[0]) say(tiny_ctx_message(ctx));
    free(bits);
    free(net);
    tllm_tokens_free(ctx, &text_of.t);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, first);
    tllm_writer_close(ctx, w);
    tllm_join_close(ctx, j);
    tllm_gguf_close(ctx, g[1]);
    tllm_gguf_close(ctx, g[0]);
    tiny_ctx_close(ctx);
    return exit_status(st && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
