/* tests/gnn/graph/foreign.c - graphs and folders that others wrote, some of them to do harm; every file is put together
 * here, byte by byte */
#define T_GNN
#include "t.h"
#include <locale.h>
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
static size_t tgraph(unsigned char *b, uint64_t n_dst, uint64_t n_src, uint64_t m, const int64_t *offset,
                     const int32_t *col, const int64_t *number)
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

/* A program that has room for the nodes asks about the sources: two sets are read if requested. */
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
    T_STATUS(tgnn_graph_read_memory(ctx, "two", b, n, NULL, &g), TINY_E_SHAPE,
             "two: 100000 sources and 1 destinations are not one set of nodes");
    T_STATUS(tgnn_graph_read_memory(ctx, "two", b, n, &d, &g), TINY_E_SHAPE, "100000 sources and 1 destinations");
    d.bipartite = 1;
    if (T_OK(tgnn_graph_read_memory(ctx, "two", b, n, &d, &g))) {
        T_EQ_INT(tgnn_graph_sources(g), 100000);
        T_EQ_INT(tgnn_graph_nodes(g), 1);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* Calls search links by bisection: in rows that do not ascend they would miss some, and leak part of the test into
 * training. */
static void test_rows_ascend(void)
{
    static const int64_t offset[4] = { 0, 3, 3, 4 };
    static const int32_t wrong[4] = { 2, 0, 1, 0 }, twice[4] = { 0, 1, 1, 0 };
    unsigned char *b = (unsigned char *)t_keep(512);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL;
    size_t n = tgraph(b, 3, 3, 4, offset, wrong, NULL);
    T_STATUS(tgnn_graph_read_memory(ctx, "row", b, n, NULL, &g), TINY_E_FORMAT,
             "row: edge 1 of node 0 comes from 0, the one before from 2");
    memset(&d, 0, sizeof d);
    d.add_loops = 1;
    T_STATUS(tgnn_graph_read_memory(ctx, "row", b, n, &d, &g), TINY_E_FORMAT, "sources of a node must ascend");
    n = tgraph(b, 3, 3, 4, offset, twice, NULL);
    if (T_OK(tgnn_graph_read_memory(ctx, "row", b, n, NULL, &g))) {
        T_EQ_INT(tgnn_graph_edges(g), 4);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* Relations and features belong to edges by their numbers: in every form that is read from a .tgraph they are those of
 * the original text. */
static void test_edges_keep_their_numbers(void)
{
    static const char text[] = "2 1 5\n0 2 4\n1 1 3\n0 1 2\n1 0 1\n0 1 7\n";
    static const int64_t offset[3] = { 0, 1, 2 }, some[2] = { 40, 7 }, wild[2] = { 7, -2 },
                         far_off[2] = { INT64_MAX, 7 };
    static const int32_t col[2] = { 1, 0 };
    unsigned char *b = (unsigned char *)t_keep(512);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL, *h = NULL;
    size_t n;
    int k;
    T_OK(tgnn_graph_read_memory(ctx, "text", text, sizeof text - 1, NULL, &g));
    T_OK(tgnn_graph_write(ctx, "t-foreign.tgraph", g));
    tgnn_graph_close(ctx, g);
    for (k = 0; k < 7; k++) {
        memset(&d, 0, sizeof d);
        d.symmetrize = k == 1 || k > 4;
        d.duplicates = k == 5 ? TINY_DUPLICATES_FIRST : k == 6 ? TINY_DUPLICATES_SUM : TINY_DUPLICATES_KEEP;
        d.add_loops = k == 2 || k == 4;
        d.drop_loops = k == 3 || k == 4;
        T_OK(tgnn_graph_read_memory(ctx, "text", text, sizeof text - 1, &d, &g));
        if (T_OK(tgnn_graph_read(ctx, "t-foreign.tgraph", &d, &h)) &&
            T_EQ_INT(tgnn_graph_edges(h), tgnn_graph_edges(g))) {
            T_SAME(tgnn_graph_in(h)->source, tgnn_graph_in(g)->source, tgnn_graph_edges(g));
            T_SAME(tgnn_graph_in(h)->col, tgnn_graph_in(g)->col, tgnn_graph_edges(g));
            T_SAME(tgnn_graph_in(h)->value, tgnn_graph_in(g)->value, tgnn_graph_edges(g));
        }
        tgnn_graph_close(ctx, g);
        tgnn_graph_close(ctx, h);
    }
    (void)remove("t-foreign.tgraph");
    n = tgraph(b, 2, 2, 2, offset, col, some);      /* of a part of a graph: 7 and 40 of those that there were */
    memset(&d, 0, sizeof d);
    d.add_loops = 1;
    if (T_OK(tgnn_graph_read_memory(ctx, "some", b, n, &d, &g))) {
        static const int64_t want[4] = { -1, 40, 7, -1 };
        if (T_EQ_INT(tgnn_graph_edges(g), 4)) T_SAME(tgnn_graph_in(g)->source, want, 4);
        tgnn_graph_close(ctx, g);
    }
    n = tgraph(b, 2, 2, 2, offset, col, wild);
    T_STATUS(tgnn_graph_read_memory(ctx, "wild", b, n, NULL, &g), TINY_E_FORMAT,
             "wild: edge 1 has the number -2; numbers are below");
    n = tgraph(b, 2, 2, 2, offset, col, far_off);
    T_STATUS(tgnn_graph_read_memory(ctx, "wild", b, n, NULL, &g), TINY_E_FORMAT,
             "wild: edge 0 has the number 9223372036854775807");
    t_close(ctx);
}

/* ---- text */

/* The last nodes may have no edges: a comment that other programs skip gives the number of nodes. */
static void test_text_keeps_its_nodes(void)
{
    static const struct { tiny_idx n_src, n_dst; int64_t n; int bipartite; const char *first;
    } of[] = { { 9, 9, 3, 0, "# nodes 9\n" },   { 3, 3, 3, 0, "2\t0\n" },
               { 5, 5, 0, 0, "# nodes 5\n" },   { 0, 0, 0, 0, "" },
               { 3, 7, 3, 1, "# nodes 3 7\n" }, { 8, 3, 3, 1, "# nodes 8 3\n" },
               { 3, 2, 3, 1, "2\t0\n" } };
    static const int32_t src[3] = { 0, 1, 2 }, dst[3] = { 1, 1, 0 };
    static const struct { const char *text; int nodes;
    } remark[] = {
        /* two numbers are heard of two sets only */
        { "#nodes 9\n0 1\n", 2 },   { "# nodes\n0 1\n", 2 },      { "# nodes 9 edges 1\n0 1\n", 2 },
        { "# Nodes: 9\n0 1\n", 2 }, { "% nodes 9\n0 1\n", 2 },    { "# nodes -9\n0 1\n", 2 },
        { "# nodes 1\n0 1\n", 2 },  { "0 1\n # nodes 9\r\n", 9 }, { "# nodes 4\n# nodes 9\n# nodes 5 7\n0 1", 9 },
        { "# nodes 4 9\n0 1", 2 }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL, *h = NULL;
    size_t i;
    for (i = 0; i < T_COUNT(of); i++) {
        char first[40] = "";
        tgnn_edges e;
        FILE *f;
        memset(&e, 0, sizeof e);
        memset(&d, 0, sizeof d);
        d.bipartite = of[i].bipartite;
        e.n_src = of[i].n_src;
        e.n_dst = of[i].n_dst;
        e.n = of[i].n;
        e.src = src;
        e.dst = dst;
        if (!T_OK(tgnn_graph_make(ctx, &e, &d, &g))) continue;
        T_OK(tgnn_graph_write_text(ctx, "t-foreign.tsv", g));
        f = fopen("t-foreign.tsv", "rb");
        if (f) {
            if (!fgets(first, sizeof first, f)) first[0] = 0;
            (void)fclose(f);
        }
        if (!T_TRUE(!strcmp(first, of[i].first))) printf("  graph %d begins with %s\n", (int)i, first);
        if (T_OK(tgnn_graph_read(ctx, "t-foreign.tsv", &d, &h))) {
            T_EQ_INT(tgnn_graph_sources(h), of[i].n_src);
            T_EQ_INT(tgnn_graph_nodes(h), of[i].n_dst);
            T_EQ_INT(tgnn_graph_edges(h), of[i].n);
            tgnn_graph_close(ctx, h);
        }
        {
            tgnn_convert_desc how;
            tgnn_convert_info info;
            memset(&how, 0, sizeof how);
            how.graph = d;
            how.memory = TGNN_CONVERT_LEAST;
            if (T_OK(tgnn_graph_convert(ctx, "t-foreign.tsv", "t-foreign.tgraph", &how, &info)))
                T_TRUE(info.n_src == of[i].n_src && info.n_dst == of[i].n_dst);
        }
        tgnn_graph_close(ctx, g);
    }
    (void)remove("t-foreign.tsv");
    (void)remove("t-foreign.tgraph");
    for (i = 0; i < T_COUNT(remark); i++)
        if (T_OK(tgnn_graph_read_memory(ctx, "remark", remark[i].text, strlen(remark[i].text), NULL, &g))) {
            T_EQ_INT(tgnn_graph_nodes(g), remark[i].nodes);
            tgnn_graph_close(ctx, g);
        }
    T_STATUS(tgnn_graph_read_memory(ctx, "many", "# nodes 2147483648\n0 1\n", 23, NULL, &g), TINY_E_FORMAT,
             "many: line 1: \"2147483648\", expected a number of nodes");
    T_STATUS(tgnn_graph_read_memory(ctx, "lies", "# nodes 2147483647\n0 1\n", 23, NULL, &g), TINY_E_OVERFLOW,
             "lies: it names node 2147483646 in 23 bytes; set n_nodes");
    memset(&d, 0, sizeof d);
    d.n_nodes = 300000;
    if (T_OK(tgnn_graph_read_memory(ctx, "far", "# nodes 300000\n0 1\n", 19, &d, &g))) {
        T_EQ_INT(tgnn_graph_nodes(g), 300000);
        tgnn_graph_close(ctx, g);
    }
    T_TRUE(t_alloc.most_bytes < (size_t)16 << 20);
    t_close(ctx);
}

/* A file that another program writes to while it is mapped: here its arrays are poked, as they would be. */
static void test_text_of_a_file_that_changes(void)
{
    static const int32_t src[6] = { 0, 1, 2, 3, 0, 2 }, dst[6] = { 1, 1, 0, 2, 3, 3 };
    static const int64_t bad[] = { -5, 7, (int64_t)1 << 40, INT64_MIN, INT64_MAX };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL;
    tgnn_edges e;
    int64_t *offset;
    int32_t *col;
    size_t i, k;
    memset(&e, 0, sizeof e);
    e.n = 6;
    e.src = src;
    e.dst = dst;
    if (!T_OK(tgnn_graph_make(ctx, &e, NULL, &g))) return;
    offset = tgnn_graph_in(g)->offset;
    col = tgnn_graph_in(g)->col;
    for (i = 0; i < T_COUNT(bad); i++)
        for (k = 0; k < 5; k++) {
            const int64_t old = offset[k];
            offset[k] = bad[i];
            T_STATUS(tgnn_graph_write_text(ctx, "t-foreign.tsv", g), TINY_E_FORMAT, "graph has changed");
            offset[k] = old;
        }
    {                                       /* every row begins at 0 and has all of the edges */
        int64_t old[5];
        memcpy(old, offset, sizeof old);
        for (k = 0; k < 5; k += 2) offset[k] = 0;
        for (k = 1; k < 5; k += 2) offset[k] = 6;
        T_STATUS(tgnn_graph_write_text(ctx, "t-foreign.tsv", g), TINY_E_FORMAT, "the file of the graph has changed");
        memcpy(offset, old, sizeof old);
    }
    for (i = 0; i < 2; i++) {
        const int32_t old = col[3];
        col[3] = i ? -1 : 4;
        T_STATUS(tgnn_graph_write_text(ctx, "t-foreign.tsv", g), TINY_E_FORMAT,
                 "edge 3 is not among its 6 edges, or its source is invalid: the file of the graph has changed");
        col[3] = old;
    }
    T_OK(tgnn_graph_write_text(ctx, "t-foreign.tsv", g));
    tgnn_graph_close(ctx, g);
    (void)remove("t-foreign.tsv");
    t_close(ctx);
}

/* A locale with a decimal comma changes neither writing nor reading. */
static void test_text_in_any_locale(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8",         "de_DE", "fr_FR.UTF-8", "fr_FR.utf8",
                                         "ps_AF.UTF-8", "German_Germany.1252" };
    static const char text[] = "0 1 -0.5\n1 2 1.25e-20\n2 0 3\n";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL, *h = NULL;
    char was[100] = "C", line[100];
    const char *now = setlocale(LC_NUMERIC, NULL);
    size_t i;
    FILE *f;
    if (now) (void)snprintf(was, sizeof was, "%s", now);
    for (i = 0; i < T_COUNT(names) && !setlocale(LC_NUMERIC, names[i]); i++) {}
    (void)snprintf(line, sizeof line, "%g", 0.5);
    if (i == T_COUNT(names) || !strcmp(line, "0.5")) {
        T_SKIP("no locale here has another point");
        (void)setlocale(LC_NUMERIC, was);
        t_close(ctx);
        return;
    }
    T_OK(tgnn_graph_read_memory(ctx, "text", text, sizeof text - 1, NULL, &g));
    T_OK(tgnn_graph_write_text(ctx, "t-foreign.tsv", g));
    f = fopen("t-foreign.tsv", "rb");
    if (f) {
        for (i = 0; i < 3 && fgets(line, sizeof line, f); i++)
            T_TRUE(i == 2 || !strcmp(line, i ? "0\t1\t-0.5\n" : "2\t0\t3\n"));
        (void)fclose(f);
    }
    if (T_OK(tgnn_graph_read(ctx, "t-foreign.tsv", NULL, &h)))
        T_SAME(tgnn_graph_in(h)->value, tgnn_graph_in(g)->value, 3);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, h);
    (void)setlocale(LC_NUMERIC, was);
    (void)remove("t-foreign.tsv");
    t_close(ctx);
}

/* Only %%MatrixMarket marks a matrix: another comment may begin with two percent signs, as those of Octave do. */
static void test_comments_of_two_signs(void)
{
    static const char remark[] = "%% a graph of three nodes\n%%\n0 1\n1 2\n",
                      matrix[] = "%%matrixMARKET matrix coordinate pattern general\n3 3 1\n1 3\n";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL;
    if (T_OK(tgnn_graph_read_memory(ctx, "remark", remark, sizeof remark - 1, NULL, &g))) {
        T_EQ_INT(tgnn_graph_edges(g), 2);
        tgnn_graph_close(ctx, g);
    }
    if (T_OK(tgnn_graph_read_memory(ctx, "matrix", matrix, sizeof matrix - 1, NULL, &g))) {
        T_EQ_INT(tgnn_graph_in(g)->col[0], 0);
        T_EQ_INT(tgnn_graph_in(g)->offset[3], 1);
        T_EQ_INT(tgnn_graph_in(g)->offset[2], 0);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* A count in a comment may cost the memory that read.h promises, 512 times the file and 16 megabytes; one node more is
 * refused. */
static void test_most_nodes(void)
{
    enum { N = 100000 };
    char *text = (char *)t_keep(N);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL;
    tgnn_graph_desc d;
    int k;
    memset(&d, 0, sizeof d);
    for (k = 0; k < 5; k++) {
        const int most = 32 * (N + 8192), n = snprintf(text, N, "0 1\n1 1\n# nodes %d\n# ", most + (k == 4));
        memset(text + n, '-', (size_t)(N - n));
        d.symmetrize = k == 1 || k == 2;
        d.duplicates = k == 2 ? TINY_DUPLICATES_FIRST : TINY_DUPLICATES_KEEP;
        d.bipartite = k == 3;
        if (k == 4)
            T_STATUS(tgnn_graph_read_memory(ctx, "most", text, N, &d, &g), TINY_E_OVERFLOW,
                     "in 100000 bytes; set n_nodes");
        else if (T_OK(tgnn_graph_read_memory(ctx, "most", text, N, &d, &g))) {
            T_EQ_INT(tgnn_graph_nodes(g), most);
            tgnn_graph_close(ctx, g);
        }
    }
    printf("most nodes: %lu bytes\n", (unsigned long)t_alloc.most_bytes);
    T_TRUE(t_alloc.most_bytes < (size_t)512 * N + (16 << 20));
    t_close(ctx);
}

/* Windows editors put a byte order mark before a text: only there it is skipped. */
static void test_byte_order_mark(void)
{
    static const char edges[] = "\xef\xbb\xbf"
                                "0 1\n1 2\n",
                      remark[] = "\xef\xbb\xbf# nodes 9\n0 1\n",
                      matrix[] = "\xef\xbb\xbf%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 3\n",
                      features[] = "\xef\xbb\xbf"
                                   "2 2 1\n1 1 .5\n",
                      later[] = "0 1\n\xef\xbb\xbf"
                                "1 2\n",
                      cut[] = "\xef\xbb\xbf";
    static const struct {
        const char *text;
        int nodes, edges;
    } of[] = { { edges, 3, 2 }, { remark, 9, 1 }, { matrix, 3, 1 }, { cut, 0, 0 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL;
    tgnn_array x;
    tgnn_convert_desc how;
    tgnn_convert_info info;
    int32_t *label = NULL;
    tiny_idx n = 0;
    size_t i;
    memset(&how, 0, sizeof how);
    how.memory = TGNN_CONVERT_LEAST;
    for (i = 0; i < T_COUNT(of); i++) {
        if (T_OK(tgnn_graph_read_memory(ctx, "mark", of[i].text, strlen(of[i].text), NULL, &g))) {
            T_EQ_INT(tgnn_graph_nodes(g), of[i].nodes);
            T_EQ_INT(tgnn_graph_edges(g), of[i].edges);
            tgnn_graph_close(ctx, g);
        }
        put_text("t-foreign.tsv", of[i].text);
        if (i == 2)
            T_STATUS(tgnn_graph_convert(ctx, "t-foreign.tsv", "t-foreign.tgraph", &how, &info), TINY_E_UNSUPPORTED,
                     "a Matrix Market file cannot be read in pieces");
        else if (T_OK(tgnn_graph_convert(ctx, "t-foreign.tsv", "t-foreign.tgraph", &how, &info)))
            T_TRUE(info.n_dst == of[i].nodes && info.n == of[i].edges);
    }
    if (T_OK(tgnn_array_read_memory(ctx, "mark.coo", features, sizeof features - 1, NULL, &x))) {
        T_CLOSE(((const float *)x.t.data)[3], 0.5f, 0);
        tgnn_array_free(ctx, &x);
    }
    put_text("t-foreign.tsv", "\xef\xbb\xbf" "3\n4\n");
    if (T_OK(tgnn_integers_read(ctx, "t-foreign.tsv", &label, &n)) && T_EQ_INT(n, 2)) T_EQ_INT(label[0], 3);
    tiny_free(ctx, label);
    for (i = 1; i < 3; i++)
        T_TRUE(tgnn_graph_read_memory(ctx, "cut", edges + i, sizeof edges - 1 - i, NULL, &g) != TINY_OK);
    T_STATUS(tgnn_graph_read_memory(ctx, "later", later, sizeof later - 1, NULL, &g), TINY_E_FORMAT,
             "later: line 2: \"\\xef\\xbb\\xbf1\", expected the number of the source");
    (void)remove("t-foreign.tsv");
    (void)remove("t-foreign.tgraph");
    t_close(ctx);
}

/* ---- matrices of scipy, put together as its save_npz does, without packing */

typedef struct zip { unsigned char b[4096], list[2048]; size_t n, n_list, members; } zip;

static uint32_t crc_of(const unsigned char *b, size_t n)
{
    uint32_t crc = ~0u;
    size_t i;
    int k;
    for (i = 0; i < n; i++)
        for (crc ^= b[i], k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    return ~crc;
}

/* n numbers of `bytes` each; shape "" is one number */
static void zip_add(zip *z, const char *name, const char *type, const char *shape, const void *data, size_t bytes)
{
    unsigned char m[512];
    size_t n = 10, at, k;
    memcpy(m, "\x93NUMPY\1\0", 8);
    n += (size_t)snprintf((char *)m + n, sizeof m - n, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n",
                          type, shape);
    (void)put(m, 8, (uint64_t)(n - 10), 2);
    memcpy(m + n, data, bytes);
    n += bytes;
    for (k = 0; k < 2; k++) {               /* the member, then its line of the directory */
        unsigned char *to = k ? z->list + z->n_list : z->b + z->n;
        memcpy(to, k ? "PK\1\2\24\0" : "PK\3\4", k ? 6 : 4);
        at = k ? 6 : 4;
        at = put(to, at, 20, 2);
        at = put(to, at, 0, 2 + 2 + 4);     /* stored */
        at = put(to, at, crc_of(m, n), 4);
        at = put(to, at, (uint64_t)n, 4);
        at = put(to, at, (uint64_t)n, 4);
        at = put(to, at, strlen(name), 2);
        at = put(to, at, 0, 2);
        if (k) {
            at = put(to, at, 0, 8);
            at = put(to, at, 0, 2);
            at = put(to, at, (uint64_t)z->n, 4);
        }
        memcpy(to + at, name, strlen(name));
        at += strlen(name);
        if (!k) memcpy(to + at, m, n);
        else z->n_list += at;
    }
    z->n += 30 + strlen(name) + n;
    z->members++;
}

static void zip_end(zip *z)
{
    size_t at = z->n;
    memcpy(z->b + at, z->list, z->n_list);
    at += z->n_list;
    memcpy(z->b + at, "PK\5\6", 4);
    at = put(z->b, at + 4, 0, 4);
    at = put(z->b, at, (uint64_t)z->members, 2);
    at = put(z->b, at, (uint64_t)z->members, 2);
    at = put(z->b, at, (uint64_t)z->n_list, 4);
    at = put(z->b, at, (uint64_t)z->n, 4);
    z->n = put(z->b, at, 0, 2);
}

/* Weights of whole numbers may be below 0, and above 2^31; formats that are not read are named. */
static void test_scipy(void)
{
    static const struct { const char *type; int bytes; int64_t v[2];
    } of[] = { { "<i8", 8, { -3, (int64_t)1 << 40 } },
               { "<i4", 4, { -2147483647 - 1, 2147483647 } },
               { "<i2", 2, { -32768, 7 } },
               { "|i1", 1, { -128, 127 } },
               { "|u1", 1, { 255, 0 } },
               { "<i4", 4, { 0, -1 } } };
    static const char *const format[] = { "bsr", "dia", "???" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g = NULL;
    zip *z = (zip *)t_keep(sizeof *z);
    unsigned char dim[16], at[8], row[12], data[16];
    size_t i;
    (void)put(dim, put(dim, 0, 2, 8), 2, 8);
    (void)put(at, put(at, 0, 1, 4), 0, 4);
    (void)put(row, put(row, put(row, 0, 0, 4), 1, 4), 2, 4);
    for (i = 0; i < T_COUNT(of); i++) {
        (void)put(data, put(data, 0, (uint64_t)of[i].v[0], of[i].bytes), (uint64_t)of[i].v[1], of[i].bytes);
        memset(z, 0, sizeof *z);
        zip_add(z, "indices.npy", "<i4", "2,", at, 8);
        zip_add(z, "indptr.npy", "<i4", "3,", row, 12);
        zip_add(z, "format.npy", "|S3", "", "csr", 3);
        zip_add(z, "shape.npy", "<i8", "2,", dim, 16);
        zip_add(z, "data.npy", of[i].type, "2,", data, 2 * (size_t)of[i].bytes);
        zip_end(z);
        if (!T_OK(tgnn_graph_read_memory(ctx, "whole", z->b, z->n, NULL, &g))) continue;
        T_CLOSE(tgnn_graph_in(g)->value[0], (float)of[i].v[1], 0);      /* 1 -> 0 is the second of the matrix */
        T_CLOSE(tgnn_graph_in(g)->value[1], (float)of[i].v[0], 0);
        tgnn_graph_close(ctx, g);
    }
    /* the same letters as unicode, in both orders of bytes: an ignored csc would be read transposed */
    for (i = 0; i < 4; i++) {
        const char *letters = i & 1 ? "csc" : "csr";
        unsigned char wide[12];
        size_t k;
        memset(wide, 0, sizeof wide);
        for (k = 0; k < 3; k++) wide[4 * k + (i < 2 ? 0 : 3)] = (unsigned char)letters[k];
        memset(z, 0, sizeof *z);
        zip_add(z, "indices.npy", "<i4", "2,", at, 8);
        zip_add(z, "indptr.npy", "<i4", "3,", row, 12);
        zip_add(z, "format.npy", i < 2 ? "<U3" : ">U3", "", wide, 12);
        zip_add(z, "shape.npy", "<i8", "2,", dim, 16);
        zip_add(z, "data.npy", "|u1", "2,", "\3\5", 2);
        zip_end(z);
        if (!T_OK(tgnn_graph_read_memory(ctx, "unicode", z->b, z->n, NULL, &g))) continue;
        T_CLOSE(tgnn_graph_in(g)->value[0], i & 1 ? 3 : 5, 0);
        tgnn_graph_close(ctx, g);
    }
    for (i = 0; i < 2; i++) {               /* 2^63 - 1 is the largest number that we have for u64 */
        unsigned char large[16];
        memset(large, 0, sizeof large);
        memset(large + 8, 0xff, 8);
        if (i) memset(large + 8, 0, 7), large[15] = 0x80;
        else large[15] = 0x7f;
        memset(z, 0, sizeof *z);
        zip_add(z, "indices.npy", "<i4", "2,", at, 8);
        zip_add(z, "indptr.npy", "<i4", "3,", row, 12);
        zip_add(z, "format.npy", "|S3", "", "csr", 3);
        zip_add(z, "shape.npy", "<i8", "2,", dim, 16);
        zip_add(z, "data.npy", "<u8", "2,", large, 16);
        zip_end(z);
        if (i)
            T_STATUS(tgnn_graph_read_memory(ctx, "large", z->b, z->n, NULL, &g), TINY_E_FORMAT,
                     "number 1 is 2^63 or above");
        else if (T_OK(tgnn_graph_read_memory(ctx, "large", z->b, z->n, NULL, &g))) {
            T_CLOSE(tgnn_graph_in(g)->value[0], 9223372036854775808.0, 0);
            tgnn_graph_close(ctx, g);
        }
    }
    for (i = 0; i < T_COUNT(format); i++) {
        memset(z, 0, sizeof *z);
        zip_add(z, "format.npy", "|S3", "", format[i], 3);
        zip_add(z, "shape.npy", "<i8", "2,", dim, 16);
        zip_add(z, "data.npy", "|u1", "1, 2", data, 2);
        zip_end(z);
        T_STATUS(tgnn_graph_read_memory(ctx, "other", z->b, z->n, NULL, &g), TINY_E_UNSUPPORTED,
                 "other: its format is none of csr, csc and coo");
    }
    memset(z, 0, sizeof *z);
    zip_add(z, "format.npy", "|S3", "", "csr", 3);
    zip_add(z, "shape.npy", "<i8", "2,", dim, 16);
    zip_add(z, "data.npy", "|u1", "1, 2", data, 2);
    zip_end(z);
    T_STATUS(tgnn_graph_read_memory(ctx, "flat", z->b, z->n, NULL, &g), TINY_E_SHAPE,
             "flat: data is 1x2 u8, it must have one axis");
    T_TRUE(!strstr(tiny_ctx_message(ctx), "-1"));
    t_close(ctx);
}

/* d: a source takes no byte of the file; b: neither does one that n_nodes counts */
static void test_sources_take_no_byte(void)
{
    static const int64_t offset[2] = { 0, 1 };
    static const int32_t col[1] = { 7 };
    static const char far_edge[] = "0 1\n0 2147483646\n";
    unsigned char *b = (unsigned char *)t_keep(512);
    const size_t n = tgraph(b, 1, 0x7fffffff, 1, offset, col, NULL);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph_desc d;
    tgnn_graph *g = NULL;
    memset(&d, 0, sizeof d);
    d.bipartite = 1;
    T_EQ_INT(n, 192);
    T_STATUS(tgnn_graph_read_memory(ctx, "many", b, n, &d, &g), TINY_E_OVERFLOW,
             "many: it names node 2147483646 in 192 bytes");
    memset(&d, 0, sizeof d);
    d.n_nodes = 5;
    T_STATUS(tgnn_graph_read_memory(ctx, "far", far_edge, sizeof far_edge - 1, &d, &g), TINY_E_OVERFLOW,
             "far: it names node 2147483646 in 17 bytes");
    put_text("t-foreign.tsv", far_edge);
    {
        tgnn_convert_desc how;
        memset(&how, 0, sizeof how);
        how.graph.n_nodes = 5;
        how.memory = TGNN_CONVERT_LEAST;
        T_STATUS(tgnn_graph_convert(ctx, "t-foreign.tsv", "t-foreign.tgraph", &how, NULL), TINY_E_OVERFLOW,
                 "it names node 2147483646 in 17 bytes");
    }
    (void)remove("t-foreign.tsv");
    (void)remove("t-foreign.tgraph");
    T_TRUE(t_alloc.most_bytes < (size_t)16 << 20);
    t_close(ctx);
}

/* ---- folders */

#if T_PAGES
#define PLACE "t-foreign-folder"
typedef struct part { const char *name, *text; } part;

static void folder_put(const part *p, size_t n)
{
    char path[100];
    size_t i;
    (void)mkdir(PLACE, 0755);
    for (i = 0; i < n && p[i].name; i++) {
        (void)snprintf(path, sizeof path, PLACE "/%s", p[i].name);
        put_text(path, p[i].text);
    }
}

static void folder_remove(const part *p, size_t n)
{
    char path[100];
    size_t i;
    for (i = 0; i < n && p[i].name; i++) {
        (void)snprintf(path, sizeof path, PLACE "/%s", p[i].name);
        (void)remove(path);
    }
    (void)rmdir(PLACE);
}

/* a few bytes that promise much */
static void test_small_folders_large_counts(void)
{
    static const struct { part file[4]; const char *says;
    } bad[] = {
        { { { "edges.tsv", "0 1\n1 2\n" }, { "meta.txt", "nodes 2000000000\n" } },
          "meta.txt: line 1: 2000000000 are too many for the 25 bytes of the folder" },
        { { { "edges.tsv", "0 1\n" }, { "meta.txt", "# two\ngraphs 2147483647\n" }, { "graph_of_node.txt", "0\n0\n" } },
          "meta.txt: line 2: 2147483647 are too many for the 32 bytes" },
        { { { "edges.tsv", "0 2147483646\n" }, { "meta.txt", "nodes 5\n" } }, "it names node 2147483646 in 13 bytes" },
        { { { "edges.tsv", "0 260000\n" },
            { "splits.txt", "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr" } },
          "splits.txt: line 1 has 60 marks, which for 260001 nodes are more than the 60 bytes" },
        { { { "edges.tsv", "0 200000\n" }, { "splits.txt", "train\nval\n" } },
          "splits.txt: line 1 has 1 marks, which for 200001 nodes are more than the 10 bytes" }
    };
    static const part good[3] = { { "edges.tsv", "0 1\n" },
                                  { "meta.txt", "nodes 200000\ngraphs 100000\n" },
                                  { NULL, NULL } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_data d;
    size_t i;
    for (i = 0; i < T_COUNT(bad); i++) {
        folder_put(bad[i].file, 4);
        T_STATUS(tgnn_data_read(ctx, PLACE, &d), i == 3 || i == 4 ? TINY_E_FORMAT : TINY_E_OVERFLOW, bad[i].says);
        folder_remove(bad[i].file, 4);
    }
    T_TRUE(t_alloc.most_bytes < (size_t)16 << 20);
    folder_put(good, 3);
    if (T_OK(tgnn_data_read(ctx, PLACE, &d))) {
        T_TRUE(d.n_nodes == 200000 && d.n_graphs == 100000);
        tgnn_data_free(ctx, &d);
    }
    folder_remove(good, 3);
    T_TRUE(t_alloc.most_bytes < (size_t)16 << 20);
    t_close(ctx);
}

/* every prefix and every flipped bit of every file: an answer or a sentence, within the memory that so few bytes may
 * take */
static void test_folder_cut_and_flipped(void)
{
    static const part file[] = { { "edges.tsv", "0 1\n2 1\n2 3\n" },
                                 { "meta.txt", "nodes 5\ndirected 1\ngraphs 2\n" },
                                 { "features.coo", "5 2 2\n0 0 1\n4 1 .5\n" },
                                 { "labels.txt", "0\n1\n-1\n0\n1\n" },
                                 { "splits.txt", "rv\nvt\n-r\ntt\nrr\n" },
                                 { "graph_of_node.txt", "0\n0\n0\n1\n1\n" },
                                 { "node_labels.txt", "3\n3\n4\n4\n4\n" },
                                 { "graph_labels.txt", "1\n0\n" },
                                 { "folds.txt", "0\n1\n" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_data d;
    size_t i, k, good = 0, bad = 0;
    folder_put(file, T_COUNT(file));
    if (T_OK(tgnn_data_read(ctx, PLACE, &d))) {
        T_TRUE(d.n_nodes == 5 && d.n_graphs == 2 && d.n_split == 2 && d.x.dim[1] == 2 && d.n_class == 2);
        tgnn_data_free(ctx, &d);
    }
    for (i = 0; i < T_COUNT(file); i++) {
        const size_t n = strlen(file[i].text);
        char path[100];
        (void)snprintf(path, sizeof path, PLACE "/%s", file[i].name);
        for (k = 0; k < 9 * n; k++) {
            char text[100];
            const size_t cut = k % 9 == 8 ? k / 9 : n;
            FILE *f;
            memcpy(text, file[i].text, n);
            if (cut == n) text[k / 9] = (char)(text[k / 9] ^ (1 << k % 9));
            f = fopen(path, "wb");
            if (!f) break;
            (void)fwrite(text, 1, cut, f);
            (void)fclose(f);
            if (tgnn_data_read(ctx, PLACE, &d)) bad += (size_t)T_TRUE(strstr(tiny_ctx_message(ctx), PLACE) != NULL);
            else {
                int64_t *at = NULL;
                if (d.graph_of_node) (void)tgnn_data_graph_at(ctx, &d, &at);
                tiny_free(ctx, at);
                tgnn_data_free(ctx, &d);
                good++;
            }
        }
        put_text(path, file[i].text);
    }
    printf("cut and flipped: %lu refused, %lu still folders\n", (unsigned long)bad, (unsigned long)good);
    T_TRUE(good > 0 && bad > 0 && t_alloc.most_bytes < (size_t)16 << 20);
    folder_remove(file, T_COUNT(file));
    t_close(ctx);
}
#endif

int main(void)
{
    T_RUN(test_two_sets);
    T_RUN(test_rows_ascend);
    T_RUN(test_edges_keep_their_numbers);
    T_RUN(test_sources_take_no_byte);
    T_RUN(test_text_keeps_its_nodes);
    T_RUN(test_text_of_a_file_that_changes);
    T_RUN(test_text_in_any_locale);
    T_RUN(test_comments_of_two_signs);
    T_RUN(test_most_nodes);
    T_RUN(test_byte_order_mark);
    T_RUN(test_scipy);
#if T_PAGES
    T_RUN(test_small_folders_large_counts);
    T_RUN(test_folder_cut_and_flipped);
#endif
    return t_done();
}
