/* tests/gnn/graph/read.c - one small graph in every form that is read, and every kind of refusal
 *
 * The good files were written by NumPy, SciPy and Python's gzip, the .tgraph ones byte by byte from the description in
 * src/gnn/graph/read.c. All of them hold these eight edges, where a form has weights, with them. */
#define T_GNN
#include "t.h"

#define FOLDER "tests/fuzz/corpus/graph/"
static const int32_t src[8] = { 0, 1, 2, 2, 3, 4, 4, 0 }, dst[8] = { 1, 2, 0, 3, 3, 0, 1, 1 };
static const float weight[8] = { 0.5f, 1.25f, -2, 3, 1, 0.125f, 7, 2 };

/* rows of destinations by hand: (row, column, weight, number of the edge) */
static void look(const tgnn_graph *g, int nodes, int weighted, int merged, int numbered)
{
    static const int row[8] = { 0, 0, 1, 1, 1, 2, 3, 3 }, number[8] = { 2, 5, 0, 7, 6, 1, 3, 4 };
    const tiny_sparse *a = tgnn_graph_in(g);
    int64_t p;
    int i, k = 0;
    T_EQ_INT(tgnn_graph_nodes(g), nodes);
    T_EQ_INT(tgnn_graph_sources(g), nodes);
    T_EQ_INT(tgnn_graph_edges(g), merged ? 7 : 8);
    for (i = 0; i < 4; i++)
        for (p = a->offset[i]; p < a->offset[i + 1]; p++, k++) {
            int e = number[k];
            T_EQ_INT(row[k], i);
            T_EQ_INT(a->col[p], src[e]);
            if (merged && e == 0) {
                T_CLOSE(a->value[p], 2.5, 0);
                k++;
                continue;
            }
            if (weighted) T_CLOSE(a->value[p], weight[e], 0);
            if (numbered) T_EQ_INT(a->source[p], e);
        }
    T_TRUE(weighted || !a->value);
}

static void test_good(void)
{
    /* merged: scipy's CSR and CSC have added the two edges 0 -> 1 */
    static const struct { const char *name; int nodes, weighted, merged, numbered;
    } file[] = { { "good.tsv", 5, 1, 0, 1 },         { "good-crlf.txt", 5, 0, 0, 1 },
                 { "good.csv", 5, 0, 0, 1 },         { "good.mtx", 6, 1, 0, 1 },
                 { "good-csr.npz", 6, 1, 1, 0 },     { "good-csc.npz", 6, 1, 1, 0 },
                 { "good-coo.npz", 6, 1, 0, 1 },     { "good-edges.npz", 5, 0, 0, 1 },
                 { "good-index.npy", 5, 0, 0, 1 },   { "good-big-endian.npy", 5, 0, 0, 1 },
                 { "good-fortran.npy", 5, 0, 0, 1 }, { "good.tsv.gz", 5, 1, 0, 1 },
                 { "good-two.tsv.gz", 5, 1, 0, 1 },  { "good-stored.tsv.gz", 5, 1, 0, 1 },
                 { "good.tgraph", 6, 1, 0, 1 },      { "good-box.tgraph", 6, 1, 0, 1 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph *g;
    size_t i;
    char path[200];
    for (i = 0; i < T_COUNT(file); i++) {
        (void)snprintf(path, sizeof path, FOLDER "%s", file[i].name);
        if (!T_OK(tgnn_graph_read(ctx, path, NULL, &g))) continue;
        look(g, file[i].nodes, file[i].weighted, file[i].merged, file[i].numbered);
        tgnn_graph_close(ctx, g);
    }
    if (T_OK(tgnn_graph_read(ctx, FOLDER "good-symmetric.mtx", NULL, &g))) {    /* 2-1, 3-2, 4-2, both ways */
        T_EQ_INT(tgnn_graph_edges(g), 6);
        T_EQ_INT(tgnn_graph_in(g)->offset[2] - tgnn_graph_in(g)->offset[1], 3);
        tgnn_graph_close(ctx, g);
    }
    if (T_OK(tgnn_graph_read(ctx, FOLDER "good-dynamic.gz", NULL, &g))) {       /* i % 50 -> i * i % 50, 400 times */
        T_EQ_INT(tgnn_graph_edges(g), 400);
        for (i = 0; i < 400; i++) {
            const tiny_sparse *a = tgnn_graph_in(g);
            int64_t p, row = (int64_t)(i * i % 50);
            for (p = a->offset[row]; p < a->offset[row + 1] && a->source[p] != (int64_t)i; p++) {}
            T_TRUE(p < a->offset[row + 1] && a->col[p] == (int32_t)(i % 50));
        }
        tgnn_graph_close(ctx, g);
    }
    if (T_OK(tgnn_graph_read(ctx, FOLDER "empty.tsv", NULL, &g))) {
        T_EQ_INT(tgnn_graph_nodes(g), 0);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

static void test_bad(void)
{
    static const struct { const char *name, *says; } file[] = {
        { "bad-negative.tsv", "line 2: \"-1\", expected the number of the source" },
        { "bad-word.tsv", "line 2: \"alice\", expected the number of the source" },
        { "bad-one-number.tsv", "line 2 ends, expected the number of the destination" },
        { "bad-2e31.tsv", "line 2: \"2147483648\", expected the number of the source" },
        { "bad-2e64.tsv", "line 2: \"18446744073709551616\"" },
        { "bad-node-2e31-in-20-bytes.tsv", "it names node 2147483646 in 13 bytes" },
        { "bad-weight-word.tsv", "line 2: \"x\", expected a weight" },
        { "bad-weight-missing.tsv", "line 2 ends, expected a weight" },
        { "bad-weight-later.tsv", "line 2: \"5\", expected the end of the line" },
        { "bad-weight-nan.tsv", "edge 1: its weight is not a finite number" },
        { "bad-four-words.tsv", "line 1: \"1\", expected the end of the line" },
        { "bad-array.mtx", "line 1: \"array\", expected coordinate" },
        { "bad-complex.mtx", "line 1: \"complex\", expected pattern, real or integer" },
        { "bad-skew.mtx", "line 1: \"skew-symmetric\", expected general or symmetric" },
        { "bad-row-0.mtx", "line 3: \"0\", expected a row of the matrix, counted from 1" },
        { "bad-column-3.mtx", "line 3: \"3\", expected a column of the matrix" },
        { "bad-fewer.mtx", "1 entries, but the header says 2" },
        { "bad-more.mtx", "line 4 has an entry more than the 1" },
        { "bad-entries-2e62.mtx", "4611686018427387904 entries are too many for the 4 bytes after it" },
        { "bad-rows-2e31.mtx", "2147483647 rows or columns are too many for a file of" },
        { "bad-no-size.mtx", "it ends before the line of its size" },
        { "bad-object.npy", "numbers of type O8 are not supported" },
        { "bad-complex.npy", "numbers of type c8 are not supported" },
        { "bad-float.npy", "an array 2x2 f32 is no list of edges" },
        { "bad-shape-2e62.npy", "its shape is larger than this machine can address" },
        { "bad-shape-2e64.npy", "a shape too large for this machine" },
        { "bad-shape-wraps.npy", "its shape is larger than this machine can address" },
        { "bad-shape-3.npy", "an array 3x3 i32 is no list of edges" },
        { "bad-rank-5.npy", "more than 4 dimensions" },
        { "bad-short.npy", "8 numbers of 4 bytes, but the file has 28 bytes" },
        { "bad-negative.npy", "edge 0 names a node below 0" },
        { "bad-u64.npy", "number 1 is 2^63 or above" },
        { "bad-key.npy", "a key that is not descr, fortran_order or shape" },
        { "bad-head-65535.npy", "a header of 65535 bytes, but the file has only 2 more" },
        { "bad-column-7.npz", "node 7, but there are 6 nodes" },
        { "bad-indptr-falls.npz", "indptr[2] is not in 7 to 7" },
        { "bad-indptr-end.npz", "indptr[6] is not in" },
        { "bad-indptr-short.npz", "indptr is 6 i32, it must have one axis of 7" },
        { "bad-shape-2e31.npz", "its shape must be two sizes" },
        { "bad-no-data.npz", "there is no data.npy among its 4 members" },
        { "bad-crc.npz", "the size or the checksum of" },
        { "bad-method-12.npz", "is compressed by method 12" },
        { "bad-member-2e31.npz", "begins at byte 2147483647, the file ends at" },
        { "bad-count.npz", "the directory of the zip file is damaged" },
        { "bad-crc.gz", "the checksum or the size in the gzip data does not match" },
        { "bad-cut.gz", "the stream ends" },
        { "bad-bomb.gz", "it unpacks to more than" },
        { "bad-type-3.gz", "a block of type 3" },
        { "bad-twice.gz", "it is compressed by gzip twice" },
        { "bad-offset-falls.tgraph", "offset[2] is 1, less than the previous 3" },
        { "bad-offset-0.tgraph", "offset[0] is 1, it must be 0" },
        { "bad-column-6.tgraph", "entry 7 is in column 6, the matrix has 6" },
        { "bad-column-negative.tgraph", "entry 7 is in column -1" },
        { "bad-weight-nan.tgraph", "edge 7: its weight is not a finite number" },
        { "bad-edges-2e61.tgraph", "2305843009213693952 edges" },
        { "bad-edges-2e31.tgraph", "6 nodes and 2147483648 edges need" },
        { "bad-nodes-2e32.tgraph", "4294967296 destinations" },
        { "bad-version-2.tgraph", "version 2 of the older form" },
        { "bad-flags.tgraph", "flags 0x8 of the .tgraph format" },
        { "bad-one-byte-more.tgraph", "its header says 320, it has 321" },
        { "bad-head.tgraph", "truncated: a body of 40 bytes" },
        { "bad-box-cut.tgraph", "damaged or truncated: its 400 bytes" },
        { "bad-box-of-tiles.tgraph", "this is \"csl 2\", not a .tgraph file" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g;
    size_t i;
    char path[200];
    for (i = 0; i < T_COUNT(file); i++) {
        tiny_status st;
        (void)snprintf(path, sizeof path, FOLDER "%s", file[i].name);
        st = tgnn_graph_read(ctx, path, NULL, &g);
        if (!st || g || !strstr(tiny_ctx_message(ctx), file[i].says) || !strstr(tiny_ctx_message(ctx), file[i].name))
            t_fail(__FILE__, __LINE__, "%s: %s: \"%s\", without \"%s\"", file[i].name, tiny_status_text(st),
                   st ? tiny_ctx_message(ctx) : "", file[i].says);
        if (!st) tgnn_graph_close(ctx, g);
    }
    T_STATUS(tgnn_graph_read(ctx, "no/such/file", NULL, &g), TINY_E_IO, "no/such/file: cannot be opened");
    t_close(ctx);
}

static size_t load(const char *name, unsigned char *b, size_t room)
{
    char path[200];
    size_t n = 0;
    FILE *f;
    (void)snprintf(path, sizeof path, FOLDER "%s", name);
    f = fopen(path, "rb");
    if (f) {
        n = fread(b, 1, room, f);
        (void)fclose(f);
    }
    T_TRUE(n > 0);
    return n;
}

/* every prefix and every flipped bit: a graph or a sentence, within the memory that a file may cost */
static void test_cut_and_flipped(void)
{
    static const char *const names[] = { "good.tsv",    "good.mtx",        "good-coo.npz", "good-index.npy",
                                         "good.tsv.gz", "good-dynamic.gz", "good.tgraph",  "good-box.tgraph" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char *b = (unsigned char *)t_keep(8192);
    size_t i, k, n;
    int bit, good = 0, bad = 0;
    tgnn_graph *g;
    for (i = 0; i < T_COUNT(names); i++) {
        n = load(names[i], b, 8192);
        for (k = 0; k < n; k++) {
            unsigned char *cut = (unsigned char *)malloc(k ? k : 1);
            memcpy(cut, b, k);
            if (!tgnn_graph_read_memory(ctx, names[i], cut, k, NULL, &g)) {
                tgnn_graph_close(ctx, g);
                good++;
            } else {
                T_TRUE(strstr(tiny_ctx_message(ctx), names[i]) != NULL);
                bad++;
            }
            free(cut);
        }
        for (k = 0; k < n; k++)
            for (bit = 0; bit < 8; bit++) {
                b[k] ^= (unsigned char)(1 << bit);
                if (!tgnn_graph_read_memory(ctx, names[i], b, n, NULL, &g)) {
                    T_TRUE(!tiny_sparse_check(ctx, tgnn_graph_in(g)));
                    tgnn_graph_close(ctx, g);
                    good++;
                } else bad++;
                b[k] ^= (unsigned char)(1 << bit);
            }
    }
    T_TRUE(t_alloc.most_bytes < 64u << 20);
    printf("cut and flipped: %d refused, %d still graphs\n", bad, good);
    t_close(ctx);
}

static void test_no_memory(void)
{
    static const char *const names[] = { "good.tsv",    "good.mtx",        "good-csr.npz",  "good-two.tsv.gz",
                                         "good.tgraph", "good-box.tgraph", "good-edges.npz" };
    static unsigned char b[8192];
    size_t i, n;
    for (i = 0; i < T_COUNT(names); i++) {
        n = load(names[i], b, sizeof b);
        T_EACH_ALLOCATION({
            tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
            tgnn_graph_desc d;
            tgnn_graph *g;
            tiny_ctx *ctx;
            memset(&d, 0, sizeof d);
            d.symmetrize = d.add_loops = 1;
            if (!tiny_ctx_open(&desc, &ctx)) {
                if (!tgnn_graph_read_memory(ctx, names[i], b, n, &d, &g)) {
                    const tiny_sparse *out;
                    (void)tgnn_graph_out(ctx, g, &out);
                    tgnn_graph_close(ctx, g);
                }
                tiny_ctx_close(ctx);
            }
        })
    }
}

static void test_written_and_read(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph *g, *h;
    tgnn_edges e;
    const tiny_sparse *a, *b;
    tgnn_array x;
    int i;
    memset(&e, 0, sizeof e);
    e.n_src = e.n_dst = 6;
    e.n = 8;
    e.src = src;
    e.dst = dst;
    e.weight = weight;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_OK(tgnn_graph_write(ctx, "t-read.tgraph", g));
    {
        unsigned char *want = (unsigned char *)t_keep(512), *got = (unsigned char *)t_keep(1024);
        size_t n = load("good.tgraph", want, 512), m = 0;
        FILE *f = fopen("t-read.tgraph", "rb");
        if (f) {
            m = fread(got, 1, 1024, f);
            (void)fclose(f);
        }
        T_EQ_INT(m, 192 + n + 32);          /* the body of the box, byte for byte as the description says */
        if (m == 192 + n + 32) T_SAME(got + 192 + 12, want + 12, n - 12);
    }
    T_OK(tgnn_graph_read(ctx, "t-read.tgraph", NULL, &h));
    a = tgnn_graph_in(g);
    b = tgnn_graph_in(h);
    T_TRUE(!b->owned);                      /* used in place */
    T_SAME(a->offset, b->offset, 7);
    T_SAME(a->col, b->col, 8);
    T_SAME(a->value, b->value, 8);
    T_SAME(a->source, b->source, 8);
    tgnn_graph_close(ctx, h);
    T_OK(tgnn_graph_write_text(ctx, "t-read.tsv", g));
    T_OK(tgnn_graph_read(ctx, "t-read.tsv", NULL, &h));
    b = tgnn_graph_in(h);
    T_SAME(a->col, b->col, 8);
    T_SAME(a->value, b->value, 8);
    tgnn_graph_close(ctx, h);
    tgnn_graph_close(ctx, g);
    for (i = 0; i < 2; i++) {               /* arrays: dense and turned, which is written in several pieces */
        float *v = t_rand(3500, -2, 2);
        tiny_tensor t = tiny_tensor_2d(v, TINY_F32, 70, 50);
        int r, c;
        if (i) t = tiny_tensor_swap(t, 0, 1);
        T_STATUS(tgnn_array_write(ctx, NULL, &t), TINY_E_ARGUMENT, "needs a path");
        T_STATUS(tgnn_array_write(ctx, "no/such/folder.npy", &t), TINY_E_IO, "no/such/folder.npy");
        T_OK(tgnn_array_write(ctx, "t-read.npy", &t));
        if (!T_OK(tgnn_array_read(ctx, "t-read.npy", NULL, &x))) continue;
        T_TRUE(x.t.rank == 2 && x.t.dim[0] == t.dim[0] && x.t.dim[1] == t.dim[1]);
        for (r = 0; r < (int)t.dim[0]; r++)
            for (c = 0; c < (int)t.dim[1]; c++)
                T_TRUE(((float *)x.t.data)[r * x.t.dim[1] + c] == v[r * t.stride[0] + c * t.stride[1]]);
        tgnn_array_free(ctx, &x);
    }
    (void)remove("t-read.tgraph");
    (void)remove("t-read.tsv");
    (void)remove("t-read.npy");
    t_close(ctx);
}

static void test_numbers(void)
{
    /* the nearest float of each, from IEEE 754; the last two are halfway and one decimal digit beyond */
    static const struct { const char *text; float v;
    } good[] = { { "0 0 1", 1.0f },
                 { "0 0 -0.1", -0.1f },
                 { "0 0 3.4028234663852886e38", FLT_MAX },
                 { "0 0 1e-45", 1.401298464e-45f },
                 { "0 0 .5", 0.5f },
                 { "0 0 5.", 5.0f },
                 { "0 0 16777217", 16777216.0f },
                 { "0 0 1.17549435e-38", FLT_MIN },
                 { "0 0 123456789012345678901234567890", 1.23456789e29f },
                 { "0 0 +2e+2", 200.0f } };
    static const char *const bad[] = { "0 0 1e",    "0 0 .",   "0 0 1.2.3", "0 0 0x10",
                                       "0 0 1e400", "0 0 --1", "0 0 1f",    "0 0 inf" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g;
    size_t i;
    for (i = 0; i < T_COUNT(good); i++)
        if (T_OK(tgnn_graph_read_memory(ctx, "n", good[i].text, strlen(good[i].text), NULL, &g))) {
            T_CLOSE(tgnn_graph_in(g)->value[0], good[i].v, 0);
            tgnn_graph_close(ctx, g);
        }
    for (i = 0; i < T_COUNT(bad); i++)
        if (!T_TRUE(tgnn_graph_read_memory(ctx, "n", bad[i], strlen(bad[i]), NULL, &g) != TINY_OK))
            tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* A small file must not cost much: features of 585841 x 141, of which the file names one, took 330 MB. */
static void test_features_of_zeros(void)
{
    static const char big[] = "585841 141 1\n0 0 1\n", small[] = "1000 1000 1\n999 998 0.5\n";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_array a;
    size_t before = t_alloc.live_bytes;
    t_alloc.most_bytes = before;
    T_STATUS(tgnn_array_read(ctx, FOLDER "bad-features-zeros.coo", NULL, &a), TINY_E_OVERFLOW,
             "585841 x 141 zeros out of 19 bytes");
    T_STATUS(tgnn_array_read_memory(ctx, "zeros", big, sizeof big - 1, NULL, &a), TINY_E_OVERFLOW,
             "zeros: 585841 x 141 zeros out of 19 bytes");
    T_TRUE(t_alloc.most_bytes - before < 1u << 20);
    if (T_OK(tgnn_array_read_memory(ctx, "zeros", small, sizeof small - 1, NULL, &a))) {
        T_CLOSE(((const float *)a.t.data)[999998], 0.5f, 0);
        tgnn_array_free(ctx, &a);
    }
    memset(&a, 1, sizeof a);                /* a file that is not there leaves nothing to free */
    T_STATUS(tgnn_array_read(ctx, "t-read-none.npy", NULL, &a), TINY_E_IO, "t-read-none.npy");
    T_TRUE(a.t.data == NULL && a.t.rank == 0);
    t_close(ctx);
}

/* ---- gzip of many members ---------------------------------------------------------------------------------------- */

static size_t asked_bytes;                  /* of all calls together: copies of growing blocks are no more than that */
static void *ask(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    asked_bytes += n_bytes;
    return t_alloc_realloc(user, old, old_bytes, n_bytes);
}

/* an edge list of n lines, each packed as a member of its own that stores it */
static unsigned char *many_members(size_t n, size_t *n_bytes)
{
    static const unsigned char head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255 };
    unsigned char *b = (unsigned char *)t_keep(n * 40), *p = b;
    char line[16];
    size_t i, j;
    int k;
    for (i = 0; i < n; i++) {
        const size_t m = (size_t)snprintf(line, sizeof line, "%d %d\n", (int)(i % 100), (int)(i * 7 % 100));
        uint32_t crc = ~0u;
        for (j = 0; j < m; j++)
            for (crc ^= (unsigned char)line[j], k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        crc = ~crc;
        memcpy(p, head, 10);
        p += 10;
        *p++ = 1;                           /* the last block, stored: its length, and the length inverted */
        *p++ = (unsigned char)m;
        *p++ = 0;
        *p++ = (unsigned char)~m;
        *p++ = 255;
        memcpy(p, line, m);
        p += m;
        for (k = 0; k < 4; k++) *p++ = (unsigned char)(crc >> 8 * k);
        for (k = 0; k < 4; k++) *p++ = (unsigned char)(m >> 8 * k);
    }
    *n_bytes = (size_t)(p - b);
    return b;
}

/* Twice as many members are twice the work: an earlier version copied all bytes before each of them. */
static void test_gzip_members(void)
{
    size_t i, n, asked[2];
    for (i = 0; i < 2; i++) {
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        const size_t members = 3000 << i;
        unsigned char *b = many_members(members, &n);
        tgnn_graph *g = NULL;
        tiny_ctx *ctx = NULL;
        desc.allocator.realloc_fn = ask;
        if (!T_OK(tiny_ctx_open(&desc, &ctx))) return;
        asked_bytes = 0;
        if (T_OK(tgnn_graph_read_memory(ctx, "members", b, n, NULL, &g))) T_EQ_INT(tgnn_graph_edges(g), members);
        asked[i] = asked_bytes;
        tgnn_graph_close(ctx, g);
        tiny_ctx_close(ctx);
    }
    if (!T_TRUE(asked[1] < 3 * asked[0]))
        printf("  %lu bytes held for 3000 members, %lu for 6000\n", (unsigned long)asked[0], (unsigned long)asked[1]);
}

static void test_folders(void)
{
    static const struct { const char *name; int nodes, edges, features, classes, splits, directed, graphs;
    } set[] = { { "karate", 34, 78, 0, 2, 0, 0, 0 },
                { "cora", 2708, 5278, 1433, 7, 1, 0, 0 },
                { "citeseer", 3327, 4552, 3703, 6, 1, 0, 0 },
                { "cornell", 183, 298, 1703, 5, 10, 1, 0 },
                { "minesweeper", 10000, 39402, 7, 2, 10, 0, 0 },
                { "MUTAG", 3371, 3721, 0, 0, 0, 0, 188 },
                { "ENZYMES", 19580, 37282, 0, 0, 0, 0, 600 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_data d;
    size_t i;
    for (i = 0; i < T_COUNT(set); i++) {
        char name[200], folder[600];
        const char *path;
        (void)snprintf(name, sizeof name, "data/graphs/%s/edges.tsv", set[i].name);
        path = t_shared(name);
        if (!path) break;
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(strlen(path) - strlen("/edges.tsv")), path);
        if (!T_OK(tgnn_data_read(ctx, folder, &d))) continue;
        T_EQ_INT(d.n_nodes, set[i].nodes);
        T_EQ_INT(tgnn_graph_edges(d.graph), set[i].directed ? set[i].edges : 2 * set[i].edges);
        T_EQ_INT(d.x.data ? d.x.dim[1] : 0, set[i].features);
        T_EQ_INT(d.n_class, set[i].classes);
        T_EQ_INT(d.n_split, set[i].splits);
        T_EQ_INT(d.directed, set[i].directed);
        T_EQ_INT(d.n_graphs, set[i].graphs);
        tgnn_data_free(ctx, &d);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_good);
    T_RUN(test_bad);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_no_memory);
    T_RUN(test_written_and_read);
    T_RUN(test_numbers);
    T_RUN(test_features_of_zeros);
    T_RUN(test_gzip_members);
    T_RUN(test_folders);
    return t_done();
}
