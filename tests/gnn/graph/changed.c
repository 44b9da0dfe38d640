/* tests/gnn/graph/changed.c - a .tgraph file that another handle rewrites while a graph uses it in place
 *
 * For any new content of the file each call returns: a status and a sentence, or a result. The address sanitizer sees
 * reads and writes outside; without it, numbers far outside (2^40 edges, node 2147483632) crash the program. */
#define T_GNN
#include "t.h"

#if T_PAGES && !defined __EMSCRIPTEN__ && !defined __wasi__
#include <fcntl.h>

enum { N = 3000, CLASSES = 4, PARTS = 4, WIDE = 16 };
static const char path[] = "t-changed.tgraph", other[] = "t-changed-out.tgraph";

/* the new content of the file */
typedef enum change {
    COLUMNS,
    NEGATIVE_COLUMNS,
    OFFSETS_FAR,
    OFFSETS_BELOW,
    ALL_IN_ONE_ROW,
    TO_AND_FRO,
    CHANGES
} change;

static void put(int fd, const void *bytes, size_t n, int64_t at)
{
    T_EQ_INT(pwrite(fd, bytes, n, (off_t)at), (intmax_t)n);
}

/* numbers of 8 bytes from byte 64 on, then columns of 4 at the next multiple of 64: the head of src/gnn/graph/read.c */
static void rewrite(change how, int64_t m)
{
    const int64_t cols = 64 + ((N + 1) * 8 + 63) / 64 * 64;
    static unsigned char all[400000];
    const int32_t far_col = 0x7ffffff0, below = -5;
    int64_t i, v;
    int fd = open(path, O_WRONLY);
    T_TRUE(fd >= 0 && (size_t)m * 4 <= sizeof all);
    if (how == COLUMNS || how == NEGATIVE_COLUMNS) {
        for (i = 0; i < m; i++) memcpy(all + 4 * i, how == COLUMNS ? &far_col : &below, 4);
        put(fd, all, (size_t)m * 4, cols);
    } else {
        for (i = 1; i <= N; i++) {
            v = how == OFFSETS_FAR                ? (int64_t)1 << 40
                : how == OFFSETS_BELOW            ? INT64_MIN + i
                : how == ALL_IN_ONE_ROW || i == N ? m
                : i % 2                           ? m
                                                  : 0;
            memcpy(all + 8 * (i - 1), &v, 8);
        }
        put(fd, all, (size_t)(how == OFFSETS_FAR ? N - 1 : N) * 8, 64 + 8);
    }
    T_EQ_INT(close(fd), 0);
}

static tgnn_graph *mapped(tiny_ctx *ctx)
{
    tgnn_graph *g = NULL;
    if (!T_OK(tgnn_planted(ctx, N, CLASSES, 8.0, 0.8, 1, &g)) || !T_OK(tgnn_graph_write(ctx, path, g))) return NULL;
    tgnn_graph_close(ctx, g);
    return T_OK(tgnn_graph_read(ctx, path, NULL, &g)) ? g : NULL;
}

/* 0 and a skipped test where a .tgraph is copied, as on machines with the other byte order: then a change of the file
 * has no effect */
static int in_place(tiny_ctx *ctx)
{
    tgnn_graph *g = mapped(ctx);
    const int yes = g && !tgnn_graph_in(g)->owned;
    if (g && !yes) T_SKIP("a .tgraph is copied here");
    tgnn_graph_close(ctx, g);
    if (yes) return 1;
    (void)remove(path);
    t_close(ctx);
    return 0;
}

static float *y;
static int32_t *part;
static uint32_t *order;

static tiny_status normalized(tiny_ctx *ctx, tgnn_graph *g, int loops, tgnn_norm norm)
{
    tgnn_normalize_desc d;
    tgnn_graph *h = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.norm = norm;
    d.add_loops = loops;
    st = tgnn_graph_normalize(ctx, g, &d, &h);
    T_TRUE((h == NULL) == (st != TINY_OK));
    tgnn_graph_close(ctx, h);
    return st;
}

static tiny_status layered(tiny_ctx *ctx, tgnn_graph *g, tgnn_layer_kind kind)
{
    static float w[8];
    tgnn_layer l;
    tgnn_graph *h = NULL;
    int32_t *relation = (int32_t *)t_guarded(40000);
    tiny_status st;
    memset(&l, 0, sizeof l);
    memset(relation, 0, 40000 * sizeof *relation);
    l.kind = kind;
    l.w[0] = tiny_tensor_3d(w, TINY_F32, 2, 2, 2);
    st = tgnn_layer_graph(ctx, &l, g, kind == TGNN_LAYER_RGCN ? relation : NULL, kind == TGNN_LAYER_RGCN ? 40000 : 0,
                          &h);
    tgnn_graph_close(ctx, h);
    return st;
}

/* every call that walks a graph, by number; how 1: it goes through all rows and all columns, so it must see each
 * change */
enum { CALLS = 25 };
static tiny_status call(tiny_ctx *ctx, tgnn_graph *g, int what, const char **name, int *all)
{
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, WIDE);
    tgnn_graph *h = NULL;
    tiny_status st = TINY_OK;
    tiny_idx n = 0, i;
    *all = 1;
    switch (what) {
    case 0: *name = "normalize, loops"; return normalized(ctx, g, 1, TGNN_NORM_SYMMETRIC);
    case 1: *name = "normalize"; return normalized(ctx, g, 0, TGNN_NORM_SYMMETRIC);
    case 2: *name = "normalize, rows"; return normalized(ctx, g, 0, TGNN_NORM_ROW);
    case 3: *name = "copy"; return normalized(ctx, g, 0, TGNN_NORM_NONE);
    case 4: *name = "degrees of sources"; return tgnn_graph_degrees(ctx, g, 1, 1, y);
    case 5: *name = "degrees"; *all = 0; return tgnn_graph_degrees(ctx, g, 0, 0, y);
    case 6: *name = "fastrp"; return tgnn_fastrp(ctx, g, NULL, &ty);
    case 7: {
        const tgnn_graph *list[2];
        int64_t at[3];
        *name = "batch";
        list[0] = list[1] = g;
        st = tgnn_graph_batch(ctx, list, 2, at, &h);
        break;
    }
    case 8: {
        tgnn_links l;
        *name = "links";
        st = tgnn_links_split(ctx, g, 0.1, 0.1, 1, &l);
        if (!st) tgnn_links_free(ctx, &l);
        return st;
    }
    case 9: *name = "graph of gcn"; return layered(ctx, g, TGNN_LAYER_GCN);
    case 10: *name = "graph of gat"; return layered(ctx, g, TGNN_LAYER_GAT);
    case 11: *name = "graph of gin"; return layered(ctx, g, TGNN_LAYER_GIN);
    case 12: *name = "graph of rgcn"; return layered(ctx, g, TGNN_LAYER_RGCN);
    case 13: {
        const tiny_sparse *out;
        *name = "out";
        return tgnn_graph_out(ctx, g, &out);
    }
    case 14: case 15: case 16:
        *name = "order";
        return tgnn_graph_order(ctx, g, (tgnn_order_kind)(what - 14), order);
    case 17: *name = "partition"; *all = 0; return tgnn_partition(ctx, g, PARTS, NULL, part, NULL);
    case 18: *name = "partition, stream"; *all = 0; return tgnn_partition_stream(ctx, g, PARTS, NULL, part, NULL);
    case 19: *name = "communities"; *all = 0; return tgnn_communities(ctx, g, NULL, part, &n);
    case 20:
        *name = "permute";
        *all = 0;
        for (i = 0; i < N; i++) order[i] = (uint32_t)i;
        st = tgnn_graph_permute(ctx, g, order, &h);
        break;
    case 21:
        *name = "induced";
        *all = 0;
        for (i = 0; i < N; i++) part[i] = (int32_t)i;
        st = tgnn_graph_induced(ctx, g, part, N, &h);
        break;
    case 22: {
        tgnn_halo halo;
        *name = "halo";
        *all = 0;
        for (i = 0; i < N; i++) part[i] = (int32_t)i % PARTS;
        st = tgnn_halo_make(ctx, g, PARTS, part, &halo);
        if (!st) {
            st = tgnn_halo_graph(ctx, g, &halo, 1, &h);
            tgnn_halo_free(ctx, &halo);
        }
        break;
    }
    case 23: {
        static const int32_t fanout[2] = { 5, 100 }, seeds[4] = { 0, 1, 2, 3 };
        tgnn_sampler_desc d;
        tgnn_sampler *s;
        tgnn_sample b;
        *name = "sampler";
        *all = 0;
        memset(&d, 0, sizeof d);
        d.n_layers = 2;
        d.fanout = fanout;
        st = tgnn_sampler_open(ctx, g, &d, &s);
        if (!st) {
            st = tgnn_sampler_draw(s, 1, seeds, 4, &b);
            tgnn_sampler_close(s);
        }
        return st;
    }
    default: *name = "write"; *all = 0; return tgnn_graph_write(ctx, other, g);
    }
    T_TRUE((h == NULL) == (st != TINY_OK));
    tgnn_graph_close(ctx, h);
    return st;
}

static void test_changed(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int how, what, all;
    if (!in_place(ctx)) return;
    y = t_guarded((size_t)N * WIDE);
    part = (int32_t *)t_guarded(N);
    order = (uint32_t *)t_guarded(N);
    for (how = 0; how < CHANGES; how++)
        for (what = 0; what < CALLS; what++) {
            const char *name = "";
            tgnn_graph *g;
            tiny_status st;
            if (T_SLOW && (how + what) % 2 == (target == TINY_TARGET_SCALAR)) continue;
            /* it reads a row for each of its edges */
            if (target == TINY_TARGET_REFERENCE && what == 19 && how >= ALL_IN_ONE_ROW) continue;
            g = mapped(ctx);
            if (!g) return;
            if (!T_OK(call(ctx, g, what, &name, &all))) printf("  %s, file unchanged\n", name);
            tgnn_graph_close(ctx, g);
            g = mapped(ctx);
            if (!g) return;
            rewrite((change)how, tgnn_graph_edges(g));
            st = call(ctx, g, what, &name, &all);
            if (!T_TRUE(st == TINY_OK || tiny_ctx_message(ctx)[0]) ||
                (all && how != ALL_IN_ONE_ROW && !T_STATUS(st, TINY_E_FORMAT, NULL)))
                printf("  %s, change %d: %s\n", name, how, tiny_ctx_message(ctx));
            T_WALLS(y, N * WIDE);
            T_WALLS(part, N);
            T_WALLS(order, N);
            tgnn_graph_close(ctx, g);
        }
    (void)remove(path);
    (void)remove(other);
    t_close(ctx);
}

/* Communities read all columns before the first round; the file may change between two. */
static int told;
static void rewrite_on_progress(void *user, const char *stage, double done)
{
    (void)stage;
    (void)done;
    if (!told++) rewrite(COLUMNS, *(const int64_t *)user);
}
static void test_changed_between_rounds(tiny_target target)
{
    tiny_ctx_desc desc = t_desc(target, 2);
    tiny_ctx *ctx = t_ctx(target, 2), *other_ctx = NULL;
    tgnn_graph *g;
    tiny_status st;
    tiny_idx n = 0, v;
    int64_t m = 0;
    if (!in_place(ctx)) return;
    t_close(ctx);
    told = 0;
    desc.progress = rewrite_on_progress;
    desc.user = &m;
    if (!T_OK(tiny_ctx_open(&desc, &other_ctx))) return;
    t_use(other_ctx);
    part = (int32_t *)t_guarded(N);
    told = 1;                               /* making and reading report progress too */
    g = mapped(other_ctx);
    if (g) {
        m = tgnn_graph_edges(g);
        told = 0;
        st = tgnn_communities(other_ctx, g, NULL, part, &n);
        T_TRUE(told > 0);
        T_TRUE(st == TINY_OK || tiny_ctx_message(other_ctx)[0]);
        for (v = 0; !st && v < N; v++) T_TRUE(part[v] >= 0 && part[v] < n);
        T_WALLS(part, N);
        tgnn_graph_close(other_ctx, g);
    }
    (void)remove(path);
    t_close(other_ctx);
}

/* the sentences */
static void test_sentence(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph *g, *h;
    int64_t m;
    char want[120];
    if (!in_place(ctx)) return;
    g = mapped(ctx);
    if (!g) return;
    m = tgnn_graph_edges(g);
    rewrite(COLUMNS, m);
    (void)snprintf(
        want, sizeof want,
        "graph: the rows no longer hold the %lld edges among 3000 nodes that were there: the file of the graph has "
        "changed",
        (long long)m);
    T_STATUS(tgnn_graph_normalize(ctx, g, NULL, &h), TINY_E_FORMAT, want);
    tgnn_graph_close(ctx, g);
    (void)remove(path);
    t_close(ctx);
}

/* the sampler's tables are made for the longest row that there was when it was opened */
static void test_sampler_open_before(tiny_target target)
{
    static const int32_t fanout[2] = { 100, 100 }, seeds[4] = { 0, 1, 2, 3 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int how;
    if (!in_place(ctx)) return;
    for (how = 0; how < CHANGES; how++) {
        tgnn_graph *g = mapped(ctx);
        tgnn_sampler_desc d;
        tgnn_sampler *s;
        tgnn_sample b;
        tiny_status st;
        if (!g) return;
        memset(&d, 0, sizeof d);
        d.n_layers = 2;
        d.fanout = fanout;
        if (!T_OK(tgnn_sampler_open(ctx, g, &d, &s))) return;
        rewrite((change)how, tgnn_graph_edges(g));
        st = tgnn_sampler_draw(s, 1, seeds, 4, &b);
        T_TRUE(st == TINY_OK || tiny_ctx_message(ctx)[0]);
        tgnn_sampler_close(s);
        tgnn_graph_close(ctx, g);
    }
    (void)remove(path);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_changed);
    T_RUN_FORMS(test_changed_between_rounds);
    T_RUN(test_sentence);
    T_RUN_FORMS(test_sampler_open_before);
    return t_done();
}
#else
int main(void)
{
    T_SKIP("files are not mapped here");
    return t_done();
}
#endif
