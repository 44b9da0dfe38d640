/* examples/fastrp.c - embeds the nodes of a graph: fastrp EDGES -d 128 -o out.npy
 *
 *     fastrp [EDGES] [-d COLUMNS] [-o OUT.npy] [--powers W1,W2,...] [--beta B] [-s S] [--standardize] [--directed] [--tile T] [--seed N]
 *            [--threads N] [--quiet]
 *
 * EDGES: any form that tinygnn.h reads; without it a graph of 10 000 nodes in 8 planted classes. Both directions of each edge are
 * used unless --directed. Row i of OUT belongs to node i. --tile 32 takes a third of the memory, and twice the time. What takes longer
 * than two seconds shows how far it is, unless --quiet.                                                                          */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *to)
{
    fputs("usage: fastrp [EDGES] [-d COLUMNS] [-o OUT.npy] [--powers W1,W2,...] [--beta B] [-s S] [--standardize] [--directed] [--tile T] [--seed N]\n"
          "              [--threads N] [--quiet]\n", to);
    return to == stdout ? 0 : 2;
}

static int wrong(const char *what, const char *why)
{
    fprintf(stderr, "fastrp: %s: %s\nfastrp --help tells more\n", what, why ? why : "a value is missing");
    return 2;
}

/* takes: - nothing, t a text, n a whole number, x a number */
typedef struct option { const char *name; char takes; void *to; double least, most; } option;

static int take(const option *o, const char *value)
{
    const int whole = o->takes == 'n';
    char *end;
    double x;
    if (o->takes == '-') *(int *)o->to = 1;
    if (o->takes == '-') return 0;
    if (!value || !*value) return wrong(o->name, NULL);
    if (o->takes == 't') *(const char **)o->to = value;
    if (o->takes == 't') return 0;
    x = strtod(value, &end);
    if (value[strspn(value, whole ? "0123456789" : "0123456789.+-eE")] || *end || !(x >= o->least && x <= o->most)) {
        fprintf(stderr, "fastrp: %s takes a %s from %.16g to %.16g, not %s\nfastrp --help tells more\n", o->name, whole ? "whole number" : "number", o->least, o->most, value);
        return 2;
    }
    *(double *)o->to = x;
    return 0;
}

/* numbers between commas; 0: they are none */
static int weights(const char *text, tgnn_fastrp_desc *f)
{
    char *end;
    for (;; text = end + 1) {
        const double w = strtod(text, &end);
        if (end == text || strspn(text, "0123456789.+-eE") != (size_t)(end - text) || !(w >= -1e30 && w <= 1e30) || f->n_weights == TGNN_FASTRP_POWERS) return 0;
        f->weight[f->n_weights++] = (float)w;
        if (*end != ',') return !*end;
    }
}

/* after two seconds a line that goes on */
static uint64_t started;
static int shown;
static void progress(void *user, const char *what, double done)
{
    (void)user;
    if (tiny_now_ns() - started < 2000000000u) return;
    fprintf(stderr, "\r%s %3.0f%%", what, 100 * done);
    shown = 1;
}

static volatile sig_atomic_t stopped_by;
static void on_signal(int number)
{
    stopped_by = number;
    (void)signal(number, SIG_DFL);          /* the second one ends the program at once */
}
static int cancelled(void *user) { (void)user; return stopped_by != 0; }

/* some sentences begin with the name of what they are about */
static void say(const char *sentence) { fprintf(stderr, "%s%s\n", strncmp(sentence, "fastrp: ", 8) ? "fastrp: " : "", sentence); }

/* without a context there is nobody to keep the sentence */
static void hear(void *user, tiny_log_level level, const char *sentence)
{
    if (level == TINY_LOG_WARNING || (level == TINY_LOG_ERROR && !*(tiny_ctx **)user)) say(sentence);
}

int main(int argc, char **argv)
{
    static tiny_ctx *ctx;
    const char *edges = NULL, *out = "embedding.npy", *powers = NULL;
    double d = 128, tile = 0, seed = 0, threads = 0;
    int directed = 0, quiet = 0, i;
    tgnn_graph_desc how = { 0 };
    tgnn_fastrp_desc f = { 0 };
    tiny_ctx_desc desc = { 0 };
    const option option_of[] = {
        { "-d", 'n', &d, 1, 1 << 20 }, { "-o", 't', &out, 0, 0 }, { "--powers", 't', &powers, 0, 0 }, { "--beta", 'x', &f.beta, -1e6, 1e6 }, { "-s", 'x', &f.s, 1, 1e15 }, { "--tile", 'n', &tile, 16, 1 << 20 },
        { "--seed", 'n', &seed, 0, 1e15 }, { "--threads", 'n', &threads, 1, TINY_MAX_THREADS }, { "--standardize", '-', &f.standardize, 0, 0 }, { "--directed", '-', &directed, 0, 0 }, { "--quiet", '-', &quiet, 0, 0 } };
    const size_t n_options = sizeof option_of / sizeof *option_of;
    size_t k;
    tgnn_graph *g = NULL;
    tiny_tensor y;
    tiny_status st;
    uint64_t read, done;
    for (i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return usage(stdout);
    for (i = 1; i < argc; i++) {
        for (k = 0; k < n_options && strcmp(argv[i], option_of[k].name); k++) {}
        if (k == n_options && argv[i][0] == '-') return wrong(argv[i], "there is no such option");
        if (k == n_options && edges) return wrong(argv[i], "a second graph");
        if (k == n_options) edges = argv[i];
        else if (take(&option_of[k], option_of[k].takes == '-' ? NULL : argv[i + 1])) return 2;
        else i += option_of[k].takes != '-';
    }
    if (powers && !weights(powers, &f)) return wrong(powers, "--powers takes up to 16 numbers with commas between them");
    how.symmetrize = !directed;
    how.duplicates = TINY_DUPLICATES_FIRST;
    f.tile = (int)tile;
    f.seed = (uint64_t)seed;
    desc.n_threads = (int)threads;
    desc.progress = quiet ? NULL : progress;
    desc.cancel = cancelled;
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    started = tiny_now_ns();
    st = edges ? tgnn_graph_read(ctx, edges, &how, &g) : tgnn_planted(ctx, 10000, 8, 10.0, 0.8, 1, &g);
    read = tiny_now_ns();
    y = tiny_tensor_2d(NULL, TINY_F32, g ? tgnn_graph_nodes(g) : 0, (tiny_idx)d);
    if (!st) {
        y.data = tiny_alloc(ctx, (size_t)y.dim[0] * (size_t)y.dim[1] * sizeof(float));
        st = y.data ? tgnn_fastrp(ctx, g, &f, &y) : tiny_ctx_status(ctx);
    }
    done = tiny_now_ns();
    if (!st && stopped_by) st = TINY_E_CANCELLED;
    if (!st) st = tgnn_array_write(ctx, out, &y);
    if (shown) fputs("\r                         \r", stderr);
    if (st == TINY_E_CANCELLED && stopped_by) say("stopped; nothing was written");
    else if (st) say(tiny_ctx_message(ctx));
    else printf("%s: %td nodes x %td; %lld edges read in %.2f s, embedded in %.2f s\n", out, y.dim[0], y.dim[1], (long long)tgnn_graph_edges(g), (double)(read - started) * 1e-9, (double)(done - read) * 1e-9);
    tiny_free(ctx, y.data);
    tgnn_graph_close(ctx, g);
    tiny_ctx_close(ctx);
    if (fflush(stdout) || ferror(stdout)) {
        say("standard output could not be written");
        return 1;
    }
    return st == TINY_E_CANCELLED && stopped_by ? 128 + stopped_by : st != TINY_OK;
}
