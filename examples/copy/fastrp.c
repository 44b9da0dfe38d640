/* examples/copy/fastrp.c - vectors for the nodes of a graph without training, and the nodes most like one
 *
 *     cc -O2 -fopenmp examples/copy/fastrp.c -I. -o fastrp && ./fastrp 7 [EDGES]
 *
 * EDGES is an edge list, Matrix Market, .npz ... Without it a graph of 2000 nodes is made: node i is in class i % 4,
 * and most edges are within a class. */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 64, SHOWN = 5 };

static double product(const float *a, const float *b)
{
    double sum = 0;
    int i;
    for (i = 0; i < COLUMNS; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The cosine with its sign, squared: the order is the same, and no root is needed. -1 for an isolated node. */
static double likeness(const float *a, const float *b)
{
    const double dot = product(a, b), squares = product(a, a) * product(b, b);
    return squares > 0 ? (dot < 0 ? -dot : dot) * dot / squares : -1;
}

int main(int argc, char **argv)
{
    tgnn_graph_desc both = { 0 };
    tgnn_graph *graph = NULL;
    tiny_tensor y = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_idx node = argc > 1 ? (tiny_idx)strtol(argv[1], NULL, 10) : -1, n = 0, i, best[SHOWN + 1];
    double like[SHOWN + 1];
    int k, n_best = 0;
    tiny_status st;
    if (argc < 2 || argc > 3) return fputs("fastrp NODE [EDGES]\n", stderr), 2;
    both.symmetrize = 1;                    /* messages go along each edge in both directions */
    st = tiny_ctx_open(NULL, &ctx);
    if (!st)
        st = argc > 2 ? tgnn_graph_read(ctx, argv[2], &both, &graph) : tgnn_planted(ctx, 2000, 4, 10, 0.9, 1, &graph);
    if (!st) n = tgnn_graph_nodes(graph);
    y = tiny_tensor_2d(st ? NULL : tiny_alloc(ctx, (size_t)n * COLUMNS * sizeof(float)), TINY_F32, n, COLUMNS);
    if (!st) st = y.data ? tgnn_fastrp(ctx, graph, NULL, &y) : tiny_ctx_status(ctx);
    if (st) fprintf(stderr, "fastrp: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else if (node < 0 || node >= n) {
        fprintf(stderr, "fastrp: the nodes are 0 to %ld\n", (long)n - 1);
        st = TINY_E_ARGUMENT;
    }
    for (i = 0; !st && i < n; i++) {        /* the nodes that are most like this one, in order */
        const double c = likeness((const float *)y.data + node * COLUMNS, (const float *)y.data + i * COLUMNS);
        if (i == node) continue;
        for (k = n_best; k > 0 && like[k - 1] < c; k--) { like[k] = like[k - 1]; best[k] = best[k - 1]; }
        like[k] = c;
        best[k] = i;
        if (n_best < SHOWN) n_best++;
    }
    for (k = 0; !st && k < n_best; k++) printf("%ld  %.3f\n", (long)best[k], like[k]);
    tiny_free(ctx, y.data);
    tgnn_graph_close(ctx, graph);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
