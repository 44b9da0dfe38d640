/* examples/graph.c - looks at a graph, and turns it into another form or order
 *
 *     graph info FILE                           nodes, edges, degrees, components
 *     graph convert FILE OUT [--symmetrize] [--unique] [--loops]      OUT ends with .tgraph (mapped, fast) or .tsv
 *     graph reorder FILE OUT degree|bfs|rcm [--order ORDER.npy]
 *     graph make planted|rmat OUT [--nodes N] [--degree D] [--classes K] [--seed S]
 *
 * FILE is an edge list, Matrix Market, .npz, .npy or .tgraph, each text also packed by gzip.                                       */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *to)
{
    fputs("usage: graph info FILE\n"
          "       graph convert FILE OUT [--symmetrize] [--unique] [--loops]\n"
          "       graph reorder FILE OUT degree|bfs|rcm [--order ORDER.npy]\n"
          "       graph make planted|rmat OUT [--nodes N] [--degree D] [--classes K] [--seed S]\n", to);
    return to == stdout ? 0 : 2;
}

static int ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);
    return n >= m && !strcmp(text + n - m, with);
}

static tiny_status save(tiny_ctx *ctx, const tgnn_graph *g, const char *path)
{
    tiny_status st = ends(path, ".tsv") || ends(path, ".txt") ? tgnn_graph_write_text(ctx, path, g) : tgnn_graph_write(ctx, path, g);
    if (!st) printf("%s: %td nodes, %lld edges\n", path, tgnn_graph_nodes(g), (long long)tgnn_graph_edges(g));
    return st;
}

/* rows of the component that holds node v, by both kinds of edges; seen is filled with its number */
static tiny_idx component(const tiny_sparse *a, const tiny_sparse *b, tiny_idx v, int32_t *queue, unsigned char *seen)
{
    tiny_idx head = 0, tail = 1;
    queue[0] = (int32_t)v;
    seen[v] = 1;
    for (; head < tail; head++) {
        int side;
        for (side = 0; side < 2; side++) {
            const tiny_sparse *m = side ? b : a;
            int64_t p;
            for (p = m->offset[queue[head]]; p < m->offset[queue[head] + 1]; p++)
                if (!seen[m->col[p]]) {
                    seen[m->col[p]] = 1;
                    queue[tail++] = m->col[p];
                }
        }
    }
    return tail;
}

static tiny_status info(tiny_ctx *ctx, tgnn_graph *g)
{
    const tiny_sparse *a = tgnn_graph_in(g), *b;
    tiny_idx n = tgnn_graph_nodes(g), i, none = 0, parts = 0, largest = 0;
    int64_t loops = 0, doubles = 0, most = 0, p, count[20] = { 0 };
    int32_t *queue = NULL;
    unsigned char *seen = NULL;
    int k, last = 0;
    tiny_status st = tgnn_graph_out(ctx, g, &b);
    if (st) return st;
    queue = (int32_t *)tiny_alloc(ctx, (size_t)n * sizeof *queue);
    seen = (unsigned char *)tiny_alloc(ctx, (size_t)n);
    if (!queue || !seen) {
        tiny_free(ctx, queue);
        tiny_free(ctx, seen);
        return tiny_ctx_status(ctx);
    }
    if (n) memset(seen, 0, (size_t)n);
    for (i = 0; i < n; i++) {
        int64_t d = a->offset[i + 1] - a->offset[i];
        if (d > most) most = d;
        for (k = 0; k < 19 && d >> k; k++) {}
        count[k]++;
        none += d == 0 && b->offset[i] == b->offset[i + 1];
        for (p = a->offset[i]; p < a->offset[i + 1]; p++) {
            loops += a->col[p] == i;
            doubles += p > a->offset[i] && a->col[p] == a->col[p - 1];
        }
    }
    for (i = 0; i < n; i++)
        if (!seen[i]) {
            tiny_idx size = component(a, b, i, queue, seen);
            parts++;
            if (size > largest) largest = size;
        }
    printf("nodes        %td\nedges        %lld%s\nloops        %lld\ndoubles      %lld\nisolated     %td\ncomponents   %td, the largest has %td nodes\n", n, (long long)a->n,
           a->value ? ", weighted" : "", (long long)loops, (long long)doubles, none, parts, largest);
    printf("edges into a node: mean %.2f, most %lld\n", n ? (double)a->n / (double)n : 0.0, (long long)most);
    for (k = 0; k < 20; k++)
        if (count[k]) last = k;
    for (k = 0; k <= last; k++) printf("  %7lld%s %7lld %10lld nodes\n", k ? 1LL << (k - 1) : 0LL, " to", k ? (1LL << k) - 1 : 0LL, (long long)count[k]);
    tiny_free(ctx, queue);
    tiny_free(ctx, seen);
    return TINY_OK;
}

static tiny_status reorder(tiny_ctx *ctx, tgnn_graph *g, const char *out, const char *how, const char *order_path)
{
    tgnn_order_kind kind = !strcmp(how, "degree") ? TGNN_ORDER_DEGREE : !strcmp(how, "bfs") ? TGNN_ORDER_BFS : TGNN_ORDER_RCM;
    tiny_idx n = tgnn_graph_nodes(g);
    uint32_t *order = (uint32_t *)tiny_alloc(ctx, (size_t)n * sizeof *order);
    tgnn_graph *h = NULL;
    tiny_status st = order ? tgnn_graph_order(ctx, g, kind, order) : tiny_ctx_status(ctx);
    if (!st) st = tgnn_graph_permute(ctx, g, order, &h);
    if (!st) st = save(ctx, h, out);
    if (!st && order_path) {
        tiny_tensor t = tiny_tensor_1d(order, TINY_I32, n);     /* below 2^31 */
        st = tgnn_array_write(ctx, order_path, &t);
    }
    tgnn_graph_close(ctx, h);
    tiny_free(ctx, order);
    return st;
}

int main(int argc, char **argv)
{
    const char *order = NULL, *what = argc > 1 ? argv[1] : "";
    double nodes = 10000, degree = 8, classes = 8, seed = 1;
    tgnn_graph_desc d = { 0 };
    tgnn_graph *g = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    int i, n = 0;
    const char *word[3] = { NULL, NULL, NULL };
    if (!strcmp(what, "--help") || !strcmp(what, "-h")) return usage(stdout);
    for (i = 2; i < argc; i++) {
        double *number = !strcmp(argv[i], "--nodes") ? &nodes : !strcmp(argv[i], "--degree") ? &degree : !strcmp(argv[i], "--classes") ? &classes : !strcmp(argv[i], "--seed") ? &seed : NULL;
        if (number && i + 1 < argc) *number = atof(argv[++i]);
        else if (!strcmp(argv[i], "--symmetrize")) d.symmetrize = 1;
        else if (!strcmp(argv[i], "--unique")) d.duplicates = TINY_DUPLICATES_FIRST;
        else if (!strcmp(argv[i], "--loops")) d.add_loops = 1;
        else if (!strcmp(argv[i], "--order") && i + 1 < argc) order = argv[++i];
        else if (argv[i][0] == '-' || n == 3) return usage(stderr);
        else word[n++] = argv[i];
    }
    if (!(!strcmp(what, "info") && n == 1) && !(!strcmp(what, "convert") && n == 2) && !(!strcmp(what, "make") && n == 2 && (!strcmp(word[0], "planted") || !strcmp(word[0], "rmat"))) &&
        !(!strcmp(what, "reorder") && n == 3 && (!strcmp(word[2], "degree") || !strcmp(word[2], "bfs") || !strcmp(word[2], "rcm"))))
        return usage(stderr);
    if (!(nodes >= 1 && nodes < 1e9 && degree >= 0 && degree < 1e6 && classes >= 1 && classes <= nodes && seed >= 0 && seed < 1e15)) return usage(stderr);
    if (tiny_ctx_open(NULL, &ctx)) {
        fputs("graph: no memory\n", stderr);
        return 1;
    }
    if (!strcmp(what, "make")) {
        int scale = 0;
        while (scale < 29 && (double)((tiny_idx)1 << scale) < nodes) scale++;
        st = !strcmp(word[0], "rmat") ? tgnn_rmat(ctx, scale, (int64_t)(nodes * degree), (uint64_t)seed, &g)
                                      : tgnn_planted(ctx, (tiny_idx)nodes, (int)classes, degree, 0.8, (uint64_t)seed, &g);
        if (!st) st = save(ctx, g, word[1]);
    } else {
        st = tgnn_graph_read(ctx, word[0], &d, &g);
        if (!st && !strcmp(what, "info")) st = info(ctx, g);
        if (!st && !strcmp(what, "convert")) st = save(ctx, g, word[1]);
        if (!st && !strcmp(what, "reorder")) st = reorder(ctx, g, word[1], word[2], order);
    }
    if (st) fprintf(stderr, "graph: %s\n", tiny_ctx_message(ctx));
    tgnn_graph_close(ctx, g);
    tiny_ctx_close(ctx);
    if (fflush(stdout) || ferror(stdout)) return 1;
    return st != TINY_OK;
}
