/* examples/copy/fastrp.c - vectors for the nodes of a graph, without training: which nodes are like this one?
 *
 *     cc -O2 -fopenmp examples/copy/fastrp.c -I. -o fastrp && ./fastrp 7 [EDGES]
 *
 * EDGES: an edge list, Matrix Market, .npz ...; without it a graph of 2000 nodes is made, node i in class i % 4, most
 * edges within a class. */
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

/* the node that is most like `node`, among those whose cosine is below `below` */
static tiny_idx nearest(const float *y, tiny_idx n, tiny_idx node, double below, double *cosine)
{
    const float *a = y + node * COLUMNS;
    const double own = product(a, a);
    tiny_idx i, best = -1;
    *cosine = -2;
    for (i = 0; i < n; i++) {
        const float *b = y + i * COLUMNS;
        const double square = own * product(b, b), dot = product(a, b);
        /* the cosine with its sign, squared: the order is the same, and no root is needed */
        const double c = square > 0 ? (dot < 0 ? -dot * dot : dot * dot) / square : -1;
        if (i == node || c >= below || c <= *cosine) continue;
        *cosine = c;
        best = i;
    }
    return best;
}

int main(int argc, char **argv)
{
    tgnn_graph_desc both = { 0 };
    tgnn_graph *graph = NULL;
    tiny_tensor y = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_idx node = argc > 1 ? (tiny_idx)strtol(argv[1], NULL, 10) : -1, n = 0, next;
    double below = 2, cosine;
    int k;
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
    for (k = 0; !st && k < SHOWN && (next = nearest((const float *)y.data, n, node, below, &cosine)) >= 0; k++) {
        printf("%ld  %.3f\n", (long)next, cosine);
        below = cosine;
    }
    tiny_free(ctx, y.data);
    tgnn_graph_close(ctx, graph);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
