/* examples/fastrp.c - embeds the nodes of a graph: fastrp EDGES -d 128 -o out.npy
 *
 *     fastrp [EDGES] [-d COLUMNS] [-o OUT.npy] [--powers W1,W2,...] [--beta B] [-s S] [--standardize] [--directed] [--tile T] [--seed N]
 *
 * EDGES: any form that tinygnn.h reads; without it a graph of 10 000 nodes in 8 planted classes. Both directions of each edge are
 * used unless --directed. Row i of OUT belongs to node i. --tile 32 takes a third of the memory, and twice the time.             */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void progress(void *user, const char *what, double done)
{
    (void)user;
    fprintf(stderr, "\r%s %3.0f%%", what, 100 * done);
}

static int usage(FILE *to)
{
    fputs("usage: fastrp [EDGES] [-d COLUMNS] [-o OUT.npy] [--powers W1,W2,...] [--beta B] [-s S] [--standardize] [--directed] [--tile T] [--seed N]\n", to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *edges = NULL, *out = "embedding.npy", *powers = NULL;
    tgnn_graph_desc how = { 0 };
    tgnn_fastrp_desc f = { 0 };
    tiny_ctx_desc desc = { 0 };
    tgnn_graph *g = NULL;
    tiny_ctx *ctx = NULL;
    tiny_tensor y;
    tiny_status st;
    long d = 128;
    uint64_t start, read, done;
    int i;
    how.symmetrize = 1;
    how.duplicates = TINY_DUPLICATES_FIRST;
    for (i = 1; i < argc; i++) {
        int more = i + 1 < argc;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return usage(stdout);
        else if (!strcmp(argv[i], "--standardize")) f.standardize = 1;
        else if (!strcmp(argv[i], "--directed")) how.symmetrize = 0;
        else if (!strcmp(argv[i], "-d") && more) d = strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-o") && more) out = argv[++i];
        else if (!strcmp(argv[i], "--powers") && more) powers = argv[++i];
        else if (!strcmp(argv[i], "--beta") && more) f.beta = atof(argv[++i]);
        else if (!strcmp(argv[i], "-s") && more) f.s = atof(argv[++i]);
        else if (!strcmp(argv[i], "--tile") && more) f.tile = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seed") && more) f.seed = strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] == '-' || edges) return usage(stderr);
        else edges = argv[i];
    }
    for (; powers && *powers && f.n_weights < TGNN_FASTRP_POWERS; powers += *powers == ',') {
        char *end;
        f.weight[f.n_weights++] = (float)strtod(powers, &end);
        if (end == powers || (*end && *end != ',')) return usage(stderr);
        powers = end;
    }
    if (d < 1 || d > 1 << 20 || (powers && *powers)) return usage(stderr);
    desc.progress = progress;
    if (tiny_ctx_open(&desc, &ctx)) {
        fputs("fastrp: no memory\n", stderr);
        return 1;
    }
    start = tiny_now_ns();
    st = edges ? tgnn_graph_read(ctx, edges, &how, &g) : tgnn_planted(ctx, 10000, 8, 10.0, 0.8, 1, &g);
    read = tiny_now_ns();
    y = tiny_tensor_2d(NULL, TINY_F32, g ? tgnn_graph_nodes(g) : 0, (tiny_idx)d);
    if (!st) {
        y.data = tiny_alloc(ctx, (size_t)y.dim[0] * (size_t)d * sizeof(float));
        st = y.data ? tgnn_fastrp(ctx, g, &f, &y) : tiny_ctx_status(ctx);
    }
    done = tiny_now_ns();
    if (!st) st = tgnn_array_write(ctx, out, &y);
    fputc('\n', stderr);
    if (st) fprintf(stderr, "fastrp: %s\n", tiny_ctx_message(ctx));
    else printf("%s: %td nodes x %ld; %lld edges read in %.2f s, embedded in %.2f s\n", out, y.dim[0], d, (long long)tgnn_graph_edges(g), (double)(read - start) * 1e-9, (double)(done - read) * 1e-9);
    tiny_free(ctx, y.data);
    tgnn_graph_close(ctx, g);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
