/* examples/graph.c - looks at a graph, divides it, samples it, and turns it into another form or order
 *
 *     graph info FILE                           nodes, edges, degrees, components
 *     graph convert FILE OUT [--symmetrize] [--unique] [--loops]      OUT ends with .tgraph (mapped, fast) or .tsv
 *     graph partition FILE K [PARTS.npy] [--imbalance X] [--weights] [--stream]      K parts of one size with few edges between
 *     graph reorder FILE OUT degree|bfs|rcm|community|K [--order ORDER.npy]           K: by the parts of a partition
 *     graph sample FILE OUT --fanout 15,10 [--seeds N | --nodes 3,17,5] [--replace]   neighbours of seeds, and theirs
 *     graph make planted|rmat OUT [--nodes N] [--degree D] [--classes K] [--seed S]
 *
 * FILE is an edge list, Matrix Market, .npz, .npy or .tgraph, each text also packed by gzip. What takes longer than two seconds
 * shows how far it is.                                                                                                          */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *to)
{
    fputs("usage: graph info FILE\n"
          "       graph convert FILE OUT [--symmetrize] [--unique] [--loops] [--memory 64M [--nodes N]]\n"
          "           --memory: an edge list (also gzip) or .npy larger than memory becomes a .tgraph in pieces, with so much of it\n"
          "       graph partition FILE K [PARTS.npy] [--imbalance 0.03] [--weights] [--stream] [--seed S]\n"
          "       graph reorder FILE OUT degree|bfs|rcm|community|K [--order ORDER.npy] [--seed S]\n"
          "       graph sample FILE OUT --fanout 15,10 [--seeds N | --nodes 3,17,5] [--replace] [--seed S]\n"
          "       graph make planted|rmat OUT [--nodes N] [--degree D] [--classes K] [--seed S]\n"
          "FILE: edge list, Matrix Market, .npz, .npy or .tgraph; with --symmetrize, --unique or --loops it is changed when it is read.\n", to);
    return to == stdout ? 0 : 2;
}

/* after two seconds a line that goes on, until `shown` is asked for */
static uint64_t started;
static int shown;

static void progress(void *user, const char *what, double done)
{
    (void)user;
    if (!started) started = tiny_now_ns();
    if (tiny_now_ns() - started < 2000000000u) return;
    fprintf(stderr, "\r%s %3.0f%%", what, 100 * done);
    shown = 1;
}

static void progress_end(void)
{
    if (shown) fputs("\r                         \r", stderr);
    shown = 0;
}

/* whole numbers between commas; how many, or -1 */
static int numbers(const char *text, int32_t *x, int room)
{
    int n = 0;
    char *end;
    for (; *text && n < room; text = end + (*end == ',')) {
        const long v = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || v < -1 || v > 0x7ffffffe) return -1;
        x[n++] = (int32_t)v;
    }
    return *text ? -1 : n;
}

/* 64M: bytes; 0: it is none */
static size_t bytes_of(const char *text)
{
    char *end;
    const double v = strtod(text, &end), times = *end == 'K' ? 1024 : *end == 'M' ? 1048576 : *end == 'G' ? 1073741824 : 1;
    if (end == text || *(end + (times > 1)) || !(v * times >= 1 && v * times < 1e18) || v * times >= (double)SIZE_MAX) return 0;
    return (size_t)(v * times);
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

static tiny_status in_pieces(tiny_ctx *ctx, const char *in, const char *out, const tgnn_graph_desc *d, size_t memory)
{
    tgnn_convert_desc how = { 0 };
    tgnn_convert_info done;
    tiny_status st;
    how.graph = *d;
    how.memory = memory;
    st = tgnn_graph_convert(ctx, in, out, &how, &done);
    progress_end();
    if (!st) printf("%s: %td nodes, %lld edges (%lld in the file, %lld sorted runs, %d merges before the last)\n", out, done.n_dst, (long long)done.n, (long long)done.n_given, (long long)done.n_runs, done.n_merges);
    return st;
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

static tiny_status write_numbers(tiny_ctx *ctx, const char *path, void *x, tiny_idx n)
{
    tiny_tensor t = tiny_tensor_1d(x, TINY_I32, n);
    tiny_status st = tgnn_array_write(ctx, path, &t);
    if (!st) printf("%s: %td numbers\n", path, n);
    return st;
}

typedef struct options { size_t memory; tgnn_partition_desc p; int stream, replace, n_fanout, n_nodes; int32_t fanout[TGNN_SAMPLE_LAYERS], *nodes; tiny_idx seeds; uint64_t seed; } options;

static tiny_status partition(tiny_ctx *ctx, tgnn_graph *g, int k, const options *o, const char *out)
{
    tiny_idx n = tgnn_graph_nodes(g);
    int32_t *part = (int32_t *)tiny_alloc(ctx, (size_t)n * sizeof *part);
    tgnn_partition_info info;
    uint64_t start = tiny_now_ns();
    tiny_status st = !part ? tiny_ctx_status(ctx) : o->stream ? tgnn_partition_stream(ctx, g, k, &o->p, part, &info) : tgnn_partition(ctx, g, k, &o->p, part, &info);
    progress_end();
    if (!st) {
        const int64_t m = tgnn_graph_edges(g);
        printf("parts        %d, of %lld to %lld nodes; the limit is %lld\ncut          %lld of %lld edges, %.1f%%%s\nseconds      %.2f\n", k, (long long)info.lightest, (long long)info.heaviest,
               (long long)info.limit, (long long)info.cut_edges, (long long)m, m ? 100.0 * (double)info.cut_edges / (double)m : 0.0, o->p.edge_weights ? "" : " (both directions of an edge count)",
               (double)(tiny_now_ns() - start) * 1e-9);
        if (o->p.edge_weights) printf("weight cut   %g\n", info.cut);
    }
    if (!st && out) st = write_numbers(ctx, out, part, n);
    tiny_free(ctx, part);
    return st;
}

static tiny_status reorder(tiny_ctx *ctx, tgnn_graph *g, const char *out, const char *how, const options *o, const char *order_path)
{
    tgnn_order_kind kind = !strcmp(how, "degree") ? TGNN_ORDER_DEGREE : !strcmp(how, "bfs") ? TGNN_ORDER_BFS : TGNN_ORDER_RCM;
    tiny_idx n = tgnn_graph_nodes(g), k = atoi(how);
    uint32_t *order = (uint32_t *)tiny_alloc(ctx, (size_t)n * sizeof *order);
    int32_t *label = (int32_t *)tiny_alloc(ctx, (size_t)n * sizeof *label);
    tgnn_communities_desc c = { 0 };
    tgnn_graph *h = NULL;
    tiny_status st = order && label ? TINY_OK : tiny_ctx_status(ctx);
    c.seed = o->seed;
    if (!st && !strcmp(how, "community")) {
        st = tgnn_communities(ctx, g, &c, label, &k);
        if (!st) printf("%td communities\n", k);
        if (!st) st = tgnn_order_by_part(ctx, n, k, label, order);
    } else if (!st && k) {
        st = tgnn_partition(ctx, g, (int)k, &o->p, label, NULL);
        if (!st) st = tgnn_order_by_part(ctx, n, k, label, order);
    } else if (!st) st = tgnn_graph_order(ctx, g, kind, order);
    progress_end();
    if (!st) st = tgnn_graph_permute(ctx, g, order, &h);
    if (!st) st = save(ctx, h, out);
    if (!st && order_path) st = write_numbers(ctx, order_path, order, n);      /* below 2^31 */
    tgnn_graph_close(ctx, h);
    tiny_free(ctx, order);
    tiny_free(ctx, label);
    return st;
}

/* the edges that a batch takes, each once, as a graph of the same nodes */
static tiny_status sample_graph(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_sample *s, const char *out)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    tgnn_graph_desc how = { 0 };
    tgnn_edges e = { 0 };
    tgnn_graph *h = NULL;
    int32_t *src, *dst;
    float *weight;
    unsigned char *took = (unsigned char *)tiny_alloc(ctx, (size_t)a->n);
    tiny_idx i;
    int64_t q, room = 0;
    int l;
    tiny_status st;
    for (l = 0; l < s->n_layers; l++) room += s->block[l].n;
    src = (int32_t *)tiny_alloc(ctx, (size_t)room * sizeof *src);
    dst = (int32_t *)tiny_alloc(ctx, (size_t)room * sizeof *dst);
    weight = a->value ? (float *)tiny_alloc(ctx, (size_t)room * sizeof *weight) : NULL;
    st = took && src && dst && (weight || !a->value) ? TINY_OK : tiny_ctx_status(ctx);
    if (!st) memset(took, 0, (size_t)a->n);
    for (l = 0; !st && l < s->n_layers; l++)
        for (i = 0; i < s->block[l].n_dst; i++)
            for (q = s->block[l].offset[i]; q < s->block[l].offset[i + 1]; q++) {
                if (took[s->block[l].edge[q]]) continue;
                took[s->block[l].edge[q]] = 1;
                if (weight) weight[e.n] = a->value[s->block[l].edge[q]];
                src[e.n] = a->col[s->block[l].edge[q]];
                dst[e.n++] = s->node[i];
            }
    e.src = src;
    e.dst = dst;
    e.weight = weight;
    how.n_nodes = a->n_rows;
    if (!st) st = tgnn_graph_make(ctx, &e, &how, &h);
    if (!st) st = save(ctx, h, out);
    tgnn_graph_close(ctx, h);
    tiny_free(ctx, took);
    tiny_free(ctx, src);
    tiny_free(ctx, dst);
    tiny_free(ctx, weight);
    return st;
}

static tiny_status sample(tiny_ctx *ctx, const tgnn_graph *g, const char *out, const options *o)
{
    tiny_idx n = tgnn_graph_nodes(g), n_seeds = o->n_nodes ? (tiny_idx)o->n_nodes : o->seeds < n ? o->seeds : n, i;
    uint32_t *any = (uint32_t *)tiny_alloc(ctx, (size_t)n * sizeof *any);
    tiny_rng rng = tiny_rng_make(o->seed, 1);
    tgnn_sampler_desc d = { 0 };
    tgnn_sampler *s = NULL;
    tgnn_sample batch;
    uint64_t start;
    tiny_status st = any ? TINY_OK : tiny_ctx_status(ctx);
    d.n_layers = o->n_fanout;
    d.fanout = o->fanout;
    d.replace = o->replace;
    if (!st) {
        tiny_rng_permutation(&rng, any, (uint32_t)n);
        for (i = 0; !o->n_nodes && i < n_seeds; i++) o->nodes[i] = (int32_t)any[i];
        st = tgnn_sampler_open(ctx, g, &d, &s);
    }
    start = tiny_now_ns();
    if (!st) st = tgnn_sampler_draw(s, o->seed, o->nodes, n_seeds, &batch);
    if (!st) {
        printf("seeds        %td\n", n_seeds);
        for (i = 0; i < batch.n_layers; i++) printf("layer %td      %lld edges into %td nodes, from %td\n", i, (long long)batch.block[i].n, batch.block[i].n_dst, batch.block[i].n_src);
        printf("seconds      %.4f\n", (double)(tiny_now_ns() - start) * 1e-9);
        st = sample_graph(ctx, g, &batch, out);
    }
    tgnn_sampler_close(s);
    tiny_free(ctx, any);
    return st;
}

enum { MOST_SEEDS = 65536 };

/* -1: the words are no command */
static int run(tiny_ctx *ctx, const char *what, const char *const *word, int n, const tgnn_graph_desc *d, const options *o, const char *order, const double *make)
{
    static const char *const commands[] = { "info", "convert", "partition", "reorder", "sample", "make" };
    static const int least[] = { 1, 2, 2, 3, 2, 2 }, most[] = { 1, 2, 3, 3, 2, 2 };
    tgnn_graph *g = NULL;
    int c, k = word[1] ? atoi(word[1]) : 0, scale = 0;
    tiny_status st;
    for (c = 0; c < 6 && strcmp(what, commands[c]); c++) {}
    if (c == 6 || n < least[c] || n > most[c] || (c == 2 && k < 1) || (c == 4 && !o->n_fanout) || (o->memory && (c != 1 || ends(word[1], ".tsv") || ends(word[1], ".txt")))) return -1;
    if (c == 3 && strcmp(word[2], "degree") && strcmp(word[2], "bfs") && strcmp(word[2], "rcm") && strcmp(word[2], "community") && atoi(word[2]) < 1) return -1;
    if (c == 5 && strcmp(word[0], "planted") && strcmp(word[0], "rmat")) return -1;
    while (scale < 29 && (double)((tiny_idx)1 << scale) < make[0]) scale++;
    if (o->memory) st = in_pieces(ctx, word[0], word[1], d, o->memory);
    else if (c < 5) st = tgnn_graph_read(ctx, word[0], d, &g);
    else if (!strcmp(word[0], "rmat")) st = tgnn_rmat(ctx, scale, (int64_t)(make[0] * make[1]), o->seed, &g);
    else st = tgnn_planted(ctx, (tiny_idx)make[0], (int)make[2], make[1], 0.8, o->seed, &g);
    if (!st && c == 0) st = info(ctx, g);
    if (!st && !o->memory && (c == 1 || c == 5)) st = save(ctx, g, word[1]);
    if (!st && c == 2) st = partition(ctx, g, k, o, word[2]);
    if (!st && c == 3) st = reorder(ctx, g, word[1], word[2], o, order);
    if (!st && c == 4) st = sample(ctx, g, word[1], o);
    progress_end();
    if (st) fprintf(stderr, "graph: %s\n", tiny_ctx_message(ctx));
    tgnn_graph_close(ctx, g);
    return st != TINY_OK;
}

int main(int argc, char **argv)
{
    static int32_t nodes[MOST_SEEDS];
    const char *order = NULL, *what = argc > 1 ? argv[1] : "";
    double make[3] = { 10000, 8, 8 }, seed = 1, seeds = 1024;       /* nodes, degree, classes */
    tiny_ctx_desc desc = { 0 };
    tgnn_graph_desc d = { 0 };
    options o = { 0 };
    tiny_ctx *ctx = NULL;
    int i, n = 0, rc, bad = 0;
    const char *word[3] = { NULL, NULL, NULL };
    o.nodes = nodes;
    for (i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return usage(stdout);
    for (i = 2; i < argc; i++) {
        const int more = i + 1 < argc;
        double *number = !strcmp(argv[i], "--degree") ? &make[1] : !strcmp(argv[i], "--classes") ? &make[2] : !strcmp(argv[i], "--seed") ? &seed
                       : !strcmp(argv[i], "--seeds") ? &seeds : !strcmp(argv[i], "--imbalance") ? &o.p.imbalance : NULL;
        if (number && more) *number = atof(argv[++i]);
        else if (!strcmp(argv[i], "--memory") && more) bad |= !(o.memory = bytes_of(argv[++i]));
        else if (!strcmp(argv[i], "--nodes") && more && !strcmp(what, "convert")) bad |= numbers(argv[++i], nodes, 1) != 1 || (d.n_nodes = nodes[0]) < 1;
        else if (!strcmp(argv[i], "--nodes") && more && strcmp(what, "sample")) make[0] = atof(argv[++i]);
        else if (!strcmp(argv[i], "--nodes") && more) bad |= (o.n_nodes = numbers(argv[++i], nodes, MOST_SEEDS)) < 1;
        else if (!strcmp(argv[i], "--fanout") && more) bad |= (o.n_fanout = numbers(argv[++i], o.fanout, TGNN_SAMPLE_LAYERS)) < 1;
        else if (!strcmp(argv[i], "--symmetrize")) d.symmetrize = 1;
        else if (!strcmp(argv[i], "--unique")) d.duplicates = TINY_DUPLICATES_FIRST;
        else if (!strcmp(argv[i], "--loops")) d.add_loops = 1;
        else if (!strcmp(argv[i], "--weights")) o.p.edge_weights = 1;
        else if (!strcmp(argv[i], "--stream")) o.stream = 1;
        else if (!strcmp(argv[i], "--replace")) o.replace = 1;
        else if (!strcmp(argv[i], "--order") && more) order = argv[++i];
        else if (argv[i][0] == '-' || n == 3) bad = 1;
        else word[n++] = argv[i];
    }
    if (bad || !(make[0] >= 1 && make[0] < 1e9 && make[1] >= 0 && make[1] < 1e6 && make[2] >= 1 && make[2] <= make[0] && seed >= 0 && seed < 1e15 && seeds >= 1 && seeds <= MOST_SEEDS)) return usage(stderr);
    o.seed = o.p.seed = (uint64_t)seed;
    o.seeds = (tiny_idx)seeds;
    desc.progress = progress;
    if (tiny_ctx_open(&desc, &ctx)) {
        fputs("graph: no memory\n", stderr);
        return 1;
    }
    rc = run(ctx, what, word, n, &d, &o, order, make);
    tiny_ctx_close(ctx);
    if (rc < 0) return usage(stderr);
    return fflush(stdout) || ferror(stdout) ? 1 : rc;
}
