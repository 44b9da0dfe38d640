/* tests/gnn/boxes.c - a .tgraph file of the older form is still read, and a box is written
 *
 * tests/golden/boxes/old.tgraph was written by the last program that wrote that form. */
#define T_GNN
#include "t.h"

static const int32_t src[8] = { 0, 1, 2, 2, 3, 4, 4, 0 }, dst[8] = { 1, 2, 0, 3, 3, 0, 1, 1 };
static const float weight[8] = { 0.5f, 1.25f, -2, 3, 1, 0.125f, 7, 2 };
static const char temp[] = "build/boxes.tgraph", text[] = "build/boxes.tsv", old[] = "tests/golden/boxes/old.tgraph";

static tgnn_graph *made(tiny_ctx *ctx)
{
    tgnn_edges e;
    tgnn_graph *g = NULL;
    memset(&e, 0, sizeof e);
    e.src = src;
    e.dst = dst;
    e.weight = weight;
    e.n = 8;
    e.n_src = e.n_dst = 6;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    return g;
}
static void is_same(tiny_ctx *ctx, const tgnn_graph *g, const char *path)
{
    const tiny_sparse *a = tgnn_graph_in(g), *b;
    tgnn_graph *h = NULL;
    if (!T_OK(tgnn_graph_read(ctx, path, NULL, &h))) return;
    b = tgnn_graph_in(h);
    T_TRUE(b->n_rows == a->n_rows && b->n_cols == a->n_cols && b->n == a->n && a->value && a->source && b->value &&
           b->source);
    T_TRUE(!memcmp(a->offset, b->offset, 7 * sizeof *a->offset) && !memcmp(a->col, b->col, 8 * sizeof *a->col));
    T_TRUE(!memcmp(a->value, b->value, 8 * sizeof *a->value) && !memcmp(a->source, b->source, 8 * sizeof *a->source));
    tgnn_graph_close(ctx, h);
}
static void is_box(tiny_ctx *ctx, const char *path)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    const char *what = "";
    memset(&d, 0, sizeof d);
    d.path = path;
    if (!T_OK(tiny_checkpoint_open(ctx, &d, &c))) return;
    T_OK(tiny_checkpoint_get_text(ctx, c, "what", &what));
    T_EQ_TEXT(what, "graph 2");
    T_TRUE((uintptr_t)tiny_checkpoint_find(c, "body")->at % 64 == 0);     /* so that it is used in place */
    tiny_checkpoint_close(ctx, c);
}

static void test_graphs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tgnn_graph *g = made(ctx);
    tgnn_convert_desc how;
    is_same(ctx, g, old);
    T_OK(tgnn_graph_write(ctx, temp, g));
    is_box(ctx, temp);
    is_same(ctx, g, temp);
    T_OK(tgnn_graph_write_text(ctx, text, g));          /* and by the writer of graphs that are larger than memory */
    memset(&how, 0, sizeof how);
    how.graph.n_nodes = 6;
    T_OK(tgnn_graph_convert(ctx, text, temp, &how, NULL));
    is_box(ctx, temp);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

int main(void)
{
    if (getenv("T_RECORD")) {
        char path[500];
        tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
        tgnn_graph *g = made(ctx);
        (void)snprintf(path, sizeof path, "%s/old.tgraph", getenv("T_RECORD"));
        T_OK(tgnn_graph_write(ctx, path, g));
        return t_done();
    }
    T_RUN(test_graphs);
    (void)remove(temp);
    (void)remove(text);
    return t_done();
}
