/* tests/gnn/graph/stream.c - files made in pieces equal those made in memory, within the memory limit
 *
 * The expected bytes: tgnn_graph_read and tgnn_graph_write of the same input, and one file written by hand from the
 * description in src/gnn/graph/read.c. The packed inputs were written by Python's gzip. */
#define T_GNN
#include "t.h"

#define FOLDER "tests/fuzz/corpus/graph/"
static const char in_path[] = "t-stream.in", out_path[] = "t-stream.tgraph", whole_path[] = "t-whole.tgraph";

static size_t load(const char *path, unsigned char **out)
{
    FILE *f = fopen(path, "rb");
    long n = 0;
    *out = NULL;
    if (!f) return 0;
    if (!fseek(f, 0, SEEK_END)) n = ftell(f);
    rewind(f);
    *out = (unsigned char *)malloc((size_t)n + 1);
    n = (long)fread(*out, 1, (size_t)n, f);
    (void)fclose(f);
    return (size_t)n;
}

static int there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

static int nothing_left(void)
{
    static const char *const more[] = { ".part", ".runs0.part", ".runs1.part", ".runs0", ".runs1" };
    char path[100];
    size_t i;
    for (i = 0; i < T_COUNT(more); i++) {
        (void)snprintf(path, sizeof path, "%s%s", out_path, more[i]);
        if (there(path)) return 0;
    }
    return 1;
}

/* 1: both ways give one file, and the pieces took no more than memory */
static int same(tiny_ctx *ctx, const char *in, const tgnn_graph_desc *d, size_t memory, tgnn_convert_info *info)
{
    tgnn_convert_desc how;
    unsigned char *a, *b;
    size_t n, m, before = t_alloc.live_bytes;
    tgnn_graph *g;
    int ok = T_OK(tgnn_graph_read(ctx, in, d, &g)) && T_OK(tgnn_graph_write(ctx, whole_path, g));
    if (ok) tgnn_graph_close(ctx, g);
    memset(&how, 0, sizeof how);
    how.graph = *d;
    how.memory = memory;
    t_alloc.most_bytes = before = t_alloc.live_bytes;
    ok = ok && T_OK(tgnn_graph_convert(ctx, in, out_path, &how, info));
    ok = ok && T_TRUE(t_alloc.most_bytes - before <= memory) && T_TRUE(t_alloc.live_bytes == before) &&
         T_TRUE(nothing_left());
    n = load(out_path, &a);
    m = load(whole_path, &b);
    ok = ok && T_EQ_INT((long)n, (long)m) && T_TRUE(n > 0 && !memcmp(a, b, n));
    free(a);
    free(b);
    (void)remove(out_path);
    (void)remove(whole_path);
    return ok;
}

/* edges with duplicates and loops; the last node follows from them */
static void write_edges(int nodes, long edges, int weights, uint64_t seed)
{
    FILE *f = fopen(in_path, "wb");
    tiny_rng r = tiny_rng_make(seed, 1);
    long i;
    if (!f) return;
    fputs("# a remark\n", f);
    for (i = 0; i < edges; i++) {
        const unsigned s = tiny_rng_below(&r, (uint32_t)nodes),
                       t = tiny_rng_below(&r, 8) ? tiny_rng_below(&r, (uint32_t)nodes) : s;
        fprintf(f, "%u %u", s, t);
        if (weights) fprintf(f, "\t%g", (double)tiny_rng_below(&r, 1000) / 64 - 7);
        fputs(i % 7 ? "\n" : "\r\n", f);
    }
    (void)fclose(f);
}

static void test_every_option(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_convert_info info;
    tgnn_graph_desc d;
    int k, weights;
    for (weights = 0; weights < 2; weights++) {
        write_edges(60, 900, weights, 5);
        for (k = 0; k < 4 * 2 * 2 * 2 * 2; k++) {
            memset(&d, 0, sizeof d);
            d.duplicates = (tiny_duplicates)(k & 3);
            d.symmetrize = k >> 2 & 1;
            d.drop_loops = k >> 3 & 1;
            d.add_loops = k >> 4 & 1;
            d.n_nodes = k >> 5 ? 77 : 0;
            if (!same(ctx, in_path, &d, TGNN_CONVERT_LEAST, &info))
                t_fail(__FILE__, __LINE__, "weights %d, duplicates %d, symmetrize %d, drop %d, add %d, nodes %td",
                       weights, (int)d.duplicates, d.symmetrize, d.drop_loops, d.add_loops, d.n_nodes);
            T_EQ_INT(info.n_given, 900);
        }
        memset(&d, 0, sizeof d);
        d.bipartite = 1;
        same(ctx, in_path, &d, TGNN_CONVERT_LEAST, &info);
    }
    {                                       /* nothing was added up: sums of ones are not written */
        FILE *f = fopen(in_path, "wb");
        if (f) {
            fputs("0 1\n1 2\n5 0", f);
            (void)fclose(f);
        }
        memset(&d, 0, sizeof d);
        d.duplicates = TINY_DUPLICATES_SUM;
        same(ctx, in_path, &d, TGNN_CONVERT_LEAST, &info);
        T_EQ_INT(info.n, 3);
        T_EQ_INT(info.n_dst, 6);
    }
    (void)remove(in_path);
    t_close(ctx);
}

/* more runs than one merge takes, and the same with memory for fewer */
static void test_many_runs(void)
{
    static const size_t memory[] = { TGNN_CONVERT_LEAST, (size_t)1 << 20, (size_t)16 << 20 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const long edges = T_SLOW ? 130000 : 260000;
    tgnn_convert_info info;
    tgnn_graph_desc d;
    size_t i;
    write_edges(5000, edges, 1, 9);
    memset(&d, 0, sizeof d);
    d.symmetrize = d.add_loops = 1;
    for (i = 0; i < T_COUNT(memory); i++) {
        d.duplicates = i ? TINY_DUPLICATES_SUM : TINY_DUPLICATES_KEEP;
        if (!same(ctx, in_path, &d, memory[i], &info)) t_fail(__FILE__, __LINE__, "%zu bytes", memory[i]);
        if (i == 0) T_TRUE(info.n_runs > 43 && info.n_merges == 1);
        if (i == 2) T_TRUE(info.n_runs < 8 && info.n_merges == 0);
        T_EQ_INT(info.n_given, edges);
    }
    d.symmetrize = d.add_loops = 0;         /* the places of the file are known before: one merge */
    d.duplicates = TINY_DUPLICATES_KEEP;
    same(ctx, in_path, &d, TGNN_CONVERT_LEAST, &info);
    (void)remove(in_path);
    t_close(ctx);
}

/* every form that is read in pieces; the others are refused with a sentence */
static void test_forms(void)
{
    static const char *const good[] = {
        "good.tsv",         "good-crlf.txt", "good.csv",        "good-index.npy",     "good-big-endian.npy",
        "good-fortran.npy", "good.tsv.gz",   "good-two.tsv.gz", "good-stored.tsv.gz", "good-dynamic.gz",
        "empty.tsv"
    };
    static const struct { const char *name, *says;
    } whole[] = { { "good.mtx", "a Matrix Market file cannot be read in pieces" },
                  { "good-csr.npz", "an .npz file cannot be read in pieces" },
                  { "good.tgraph", "a .tgraph file cannot be read in pieces" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_convert_info info;
    tgnn_graph_desc d;
    size_t i;
    char path[200];
    memset(&d, 0, sizeof d);
    for (i = 0; i < T_COUNT(good); i++) {
        (void)snprintf(path, sizeof path, FOLDER "%s", good[i]);
        if (!same(ctx, path, &d, TGNN_CONVERT_LEAST, &info)) t_fail(__FILE__, __LINE__, "%s", good[i]);
    }
    for (i = 0; i < T_COUNT(whole); i++) {
        (void)snprintf(path, sizeof path, FOLDER "%s", whole[i].name);
        T_STATUS(tgnn_graph_convert(ctx, path, out_path, NULL, NULL), TINY_E_UNSUPPORTED, whole[i].says);
        T_TRUE(!there(out_path) && nothing_left());
    }
    t_close(ctx);
}

/* arrays of more pieces than one, in every order and type */
static void test_arrays(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx m = 7001;
    tiny_rng r = tiny_rng_make(3, 3);
    int64_t *x = (int64_t *)t_keep((size_t)m * 2 * sizeof *x);
    tgnn_convert_info info;
    tgnn_graph_desc d;
    tiny_tensor t;
    tiny_idx i;
    int by_row, wide;
    memset(&d, 0, sizeof d);
    d.symmetrize = 1;
    for (wide = 0; wide < 2; wide++)
        for (by_row = 0; by_row < 2; by_row++) {
            for (i = 0; i < 2 * m; i++) {
                const uint32_t v = tiny_rng_below(&r, 900);
                if (wide) x[i] = (int64_t)v;
                else ((int32_t *)(void *)x)[i] = (int32_t)v;
            }
            t = by_row ? tiny_tensor_2d(x, wide ? TINY_I64 : TINY_I32, m, 2)
                       : tiny_tensor_2d(x, wide ? TINY_I64 : TINY_I32, 2, m);
            if (!T_OK(tgnn_array_write(ctx, in_path, &t))) continue;
            same(ctx, in_path, &d, TGNN_CONVERT_LEAST, &info);
            T_EQ_INT(info.n_given, m);
        }
    x[2 * m - 1] = -5;                      /* i64 and (m, 2): the destination of the last edge */
    t = tiny_tensor_2d(x, TINY_I64, m, 2);
    if (T_OK(tgnn_array_write(ctx, in_path, &t)))
        T_STATUS(tgnn_graph_convert(ctx, in_path, out_path, NULL, NULL), TINY_E_FORMAT,
                 "edge 7000 names a node below 0");
    T_TRUE(!there(out_path) && nothing_left());
    (void)remove(in_path);
    t_close(ctx);
}

/* the sentences of the reader of whole files, from the same invalid ones */
static void test_bad(void)
{
    static const char *const bad[] = { "bad-negative.tsv",     "bad-word.tsv",
                                       "bad-one-number.tsv",   "bad-2e31.tsv",
                                       "bad-2e64.tsv",         "bad-node-2e31-in-20-bytes.tsv",
                                       "bad-weight-word.tsv",  "bad-weight-missing.tsv",
                                       "bad-weight-later.tsv", "bad-weight-nan.tsv",
                                       "bad-four-words.tsv",   "bad-object.npy",
                                       "bad-complex.npy",      "bad-float.npy",
                                       "bad-shape-2e62.npy",   "bad-shape-2e64.npy",
                                       "bad-shape-wraps.npy",  "bad-shape-3.npy",
                                       "bad-rank-5.npy",       "bad-short.npy",
                                       "bad-negative.npy",     "bad-u64.npy",
                                       "bad-key.npy",          "bad-head-65535.npy",
                                       "bad-crc.gz",           "bad-cut.gz",
                                       "bad-type-3.gz",        "bad-twice.gz" };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_convert_desc how;
    tgnn_graph *g;
    size_t i;
    char path[200], says[600];
    for (i = 0; i < T_COUNT(bad); i++) {
        tiny_status st, whole;
        (void)snprintf(path, sizeof path, FOLDER "%s", bad[i]);
        whole = tgnn_graph_read(ctx, path, NULL, &g);
        (void)snprintf(says, sizeof says, "%s", tiny_ctx_message(ctx));
        st = tgnn_graph_convert(ctx, path, out_path, NULL, NULL);
        if (st != whole || strcmp(says, tiny_ctx_message(ctx)))
            t_fail(__FILE__, __LINE__, "%s: \"%s\", not \"%s\"", bad[i], tiny_ctx_message(ctx), says);
        T_TRUE(!there(out_path) && nothing_left());
    }
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "bad-bomb.gz", out_path, NULL, NULL), TINY_E_UNSUPPORTED,
             "bad-bomb.gz: line 1 is longer than");
    memset(&how, 0, sizeof how);
    T_STATUS(tgnn_graph_convert(ctx, "no/such/file", out_path, NULL, NULL), TINY_E_IO,
             "no/such/file: cannot be opened");
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "good.tsv", "no/such/folder/out", NULL, NULL), TINY_E_IO,
             "no/such/folder/out.runs0.part: cannot be opened for writing");
    T_STATUS(tgnn_graph_convert(ctx, NULL, out_path, NULL, NULL), TINY_E_ARGUMENT, "the path to read or to write");
    T_STATUS(tgnn_graph_convert(ctx, "x.runs0.part", "x", NULL, NULL), TINY_E_ARGUMENT,
             "it would be overwritten by the sorted runs of x");
    T_STATUS(tgnn_graph_convert(ctx, "x.runs1.part", "x", NULL, NULL), TINY_E_ARGUMENT,
             "it would be overwritten by the sorted runs of x");
    T_STATUS(tgnn_graph_convert(ctx, "x.part", "x", NULL, NULL), TINY_E_ARGUMENT,
             "it would be overwritten on the way to x");
#ifdef __unix__
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "good.tsv", "/dev/null", NULL, NULL), TINY_E_UNSUPPORTED,
             "/dev/null: it is not a regular file");
#endif
    how.memory = 1000;
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "good.tsv", out_path, &how, NULL), TINY_E_ARGUMENT,
             "a memory of 1000 bytes; the minimum is 262144");
    how.memory = 0;
    how.graph.bipartite = how.graph.add_loops = 1;
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "good.tsv", out_path, &how, NULL), TINY_E_ARGUMENT,
             "a bipartite graph has no loops");
    how.graph.bipartite = how.graph.add_loops = 0;
    how.graph.duplicates = (tiny_duplicates)9;
    T_STATUS(tgnn_graph_convert(ctx, FOLDER "good.tsv", out_path, &how, NULL), TINY_E_ARGUMENT,
             "9 is not a valid tiny_duplicates");
    {
        FILE *f = fopen(in_path, "wb");
        for (i = 0; f && i < 100000; i++) fputc(i == 3 ? '\n' : '#', f);
        if (f) (void)fclose(f);
        how.graph.duplicates = TINY_DUPLICATES_KEEP;
        how.memory = TGNN_CONVERT_LEAST;
        T_STATUS(tgnn_graph_convert(ctx, in_path, out_path, &how, NULL), TINY_E_UNSUPPORTED,
                 "line 2 is longer than 81920 bytes");
    }
    T_TRUE(!there(out_path) && nothing_left());
    (void)remove(in_path);
    t_close(ctx);
}

/* every prefix of a packed file and every flipped bit of it: a graph or a sentence, and no file is left */
static void test_cut_and_flipped(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const char *const names[] = { "good.tsv.gz", "good-two.tsv.gz", "good-index.npy" };
    tgnn_convert_desc how;
    unsigned char *b;
    size_t i, k, n;
    int bit, good = 0, bad = 0;
    memset(&how, 0, sizeof how);
    how.memory = TGNN_CONVERT_LEAST;
    for (i = 0; i < T_COUNT(names); i++) {
        char path[200];
        (void)snprintf(path, sizeof path, FOLDER "%s", names[i]);
        n = load(path, &b);
        for (k = 0; k < n; k++)
            for (bit = -1; bit < 8; bit += T_SLOW ? 4 : 1) {
                FILE *f = fopen(in_path, "wb");
                if (!f) break;
                if (bit >= 0) b[k] ^= (unsigned char)(1 << bit);
                (void)fwrite(b, 1, bit < 0 ? k : n, f);
                (void)fclose(f);
                if (bit >= 0) b[k] ^= (unsigned char)(1 << bit);
                if (tgnn_graph_convert(ctx, in_path, out_path, &how, NULL))
                    bad += T_TRUE(strstr(tiny_ctx_message(ctx), in_path) != NULL && !there(out_path));
                else good += T_TRUE(there(out_path) && !remove(out_path));
            }
        free(b);
    }
    T_TRUE(good > 0 && bad > 0 && nothing_left());
    (void)remove(in_path);
    t_close(ctx);
}

static struct { double last; int calls, stop_at, back; } heard;

static void progress(void *user, const char *what, double done)
{
    (void)user;
    heard.back += done < heard.last || done > 1 || strcmp(what, "convert") != 0;
    heard.last = done;
}

static int cancel(void *user)
{
    (void)user;
    return ++heard.calls == heard.stop_at;
}

/* progress rises to 1; wherever it is cancelled the old file stays, and nothing else */
static void test_progress_and_cancel(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tgnn_convert_desc how;
    unsigned char *old;
    tiny_ctx *ctx;
    int all, i;
    memset(&how, 0, sizeof how);
    how.memory = TGNN_CONVERT_LEAST;
    how.graph.symmetrize = how.graph.add_loops = 1;
    cd.progress = progress;
    cd.cancel = cancel;
    memset(&heard, 0, sizeof heard);
    T_OK(tiny_ctx_open(&cd, &ctx));
    write_edges(300, 60000, 0, 2);
    T_OK(tgnn_graph_convert(ctx, in_path, out_path, &how, NULL));
    T_TRUE(heard.last == 1.0 && !heard.back);
    all = heard.calls;
    T_TRUE(all > 50);
    (void)remove(out_path);
    for (i = 1; i <= all; i += i < 4 || i > all - 3 ? 1 : T_SLOW ? 40 : 7) {
        FILE *f = fopen(out_path, "wb");
        if (f) {
            fputs("old", f);
            (void)fclose(f);
        }
        memset(&heard, 0, sizeof heard);
        heard.stop_at = i;
        T_TRUE(tgnn_graph_convert(ctx, in_path, out_path, &how, NULL) == TINY_E_CANCELLED &&
               strstr(tiny_ctx_message(ctx), "convert: the cancel callback asked to stop"));
        T_EQ_INT((long)load(out_path, &old), 3);
        free(old);
        T_TRUE(nothing_left());
        (void)remove(out_path);
    }
    (void)remove(in_path);
    t_close(ctx);
}

static void test_no_memory(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    write_edges(50, 200, 1, 4);
    T_EACH_ALLOCATION(
        tiny_ctx *ctx = NULL;
        tiny_status st = tiny_ctx_open(&cd, &ctx);
        if (!st) st = tgnn_graph_convert(ctx, in_path, out_path, NULL, NULL);
        if (st) T_TRUE(!there(out_path) && nothing_left());
        (void)remove(out_path);
        tiny_ctx_close(ctx);
    )
    (void)remove(in_path);
}

int main(void)
{
    T_RUN(test_every_option);
    T_RUN(test_many_runs);
    T_RUN(test_forms);
    T_RUN(test_arrays);
    T_RUN(test_bad);
    T_RUN(test_cut_and_flipped);
    T_RUN(test_progress_and_cancel);
    T_RUN(test_no_memory);
    return t_done();
}
