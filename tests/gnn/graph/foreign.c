/* tests/gnn/graph/foreign.c - graphs and folders that others wrote, some of them to do harm; every file is put together here, byte by byte */
#define T_GNN
#include "t.h"
#if T_PAGES
#include <sys/stat.h>
#endif

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (!T_TRUE(f != NULL)) return;
    (void)fputs(text, f);
    (void)fclose(f);
}

/* ---- .tgraph */

static size_t put(unsigned char *b, size_t at, uint64_t v, int bytes)
{
    int k;
    for (k = 0; k < bytes; k++) b[at++] = (unsigned char)(v >> 8 * k);
    return at;
}

/* offset[n_dst + 1], col[m], number[m] (or NULL); answers how many bytes they are */
static size_t tgraph(unsigned char *b, uint64_t n_dst, uint64_t n_src, uint64_t m, const int64_t *offset, const int32_t *col, const int64_t *number)
{
    size_t at = 64;
    uint64_t i;
    for (i = 0; i <= n_dst; i++) at = put(b, at, (uint64_t)offset[i], 8);
    while (at % 64) b[at++] = 0;
    for (i = 0; i < m; i++) at = put(b, at, (uint64_t)(int64_t)col[i], 4);
    while (at % 64) b[at++] = 0;
    for (i = 0; number && i < m; i++) at = put(b, at, (uint64_t)number[i], 8);
    while (at % 64) b[at++] = 0;
    memset(b, 0, 64);
    memcpy(b, "tgraph\r\n", 8);
    (void)put(b, 8, 1, 4);
    (void)put(b, 12, number ? 2 : 0, 4);
    (void)put(b, 16, n_dst, 8);
    (void)put(b, 24, n_src, 8);
    (void)put(b, 32, m, 8);
    (void)put(b, 40, (uint64_t)at, 8);
    return at;
}

/* A program that has room for the nodes asks about the sources: two sets are read where they are asked for. */
static void test_two_sets(void)
{
    static const int64_t offset[2] = { 0, 3 };
    static const int32_t col[3] = { 5, 50000, 99999 };
    unsigned char *b = (unsigned char *)t_keep(512);
    const size_t n = tgraph(b, 1, 100000, 3, offset, col, NULL);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL;
    memset(&d, 0, sizeof d);
    T_STATUS(tgnn_graph_read_memory(ctx, "two", b, n, NULL, &g), TINY_E_SHAPE, "two: 100000 sources and 1 destinations are not one set of nodes");
    T_STATUS(tgnn_graph_read_memory(ctx, "two", b, n, &d, &g), TINY_E_SHAPE, "100000 sources and 1 destinations");
    d.bipartite = 1;
    if (T_OK(tgnn_graph_read_memory(ctx, "two", b, n, &d, &g))) {
        T_EQ_INT(tgnn_graph_sources(g), 100000);
        T_EQ_INT(tgnn_graph_nodes(g), 1);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* Calls look for links by halves: in rows that do not ascend they would not find them, and leak some of a test into training. */
static void test_rows_ascend(void)
{
    static const int64_t offset[4] = { 0, 3, 3, 4 };
    static const int32_t wrong[4] = { 2, 0, 1, 0 }, twice[4] = { 0, 1, 1, 0 };
    unsigned char *b = (unsigned char *)t_keep(512);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL;
    size_t n = tgraph(b, 3, 3, 4, offset, wrong, NULL);
    T_STATUS(tgnn_graph_read_memory(ctx, "row", b, n, NULL, &g), TINY_E_FORMAT, "row: edge 1 of node 0 comes from 0, the one before from 2");
    memset(&d, 0, sizeof d);
    d.add_loops = 1;
    T_STATUS(tgnn_graph_read_memory(ctx, "row", b, n, &d, &g), TINY_E_FORMAT, "the sources of a node ascend");
    n = tgraph(b, 3, 3, 4, offset, twice, NULL);
    if (T_OK(tgnn_graph_read_memory(ctx, "row", b, n, NULL, &g))) {
        T_EQ_INT(tgnn_graph_edges(g), 4);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_two_sets);
    T_RUN(test_rows_ascend);
    return t_done();
}
