/* examples/graph.c - prints, converts, partitions, reorders and samples graphs
 *
 *     graph info FILE                                    prints nodes, edges, degrees, components
 *     graph convert FILE OUT [--symmetrize] [--unique] [--loops] [--bipartite]
 *                                                        OUT ends with .tgraph (mapped, fast), .tsv or .txt
 *     graph partition FILE K [PARTS.npy] [--imbalance X] [--weights] [--stream]
 *                                                        makes K parts of equal size with few edges between them
 *     graph reorder FILE OUT degree|bfs|rcm|community|K [--order ORDER.npy]
 *                                                        K: by the parts of a partition
 *     graph sample FILE OUT --fanout 15,10 [--seeds N | --nodes 3,17,5] [--replace]
 *                                                        samples neighbours of the seeds, and their neighbours
 *     graph make planted|rmat OUT [--nodes N] [--degree D] [--classes K] [--seed S]
 *
 * FILE is an edge list, Matrix Market, .npz, .npy or .tgraph. Text files may be gzipped. Progress is shown after two
 * seconds. */
#define TINYGNN_TOOLS
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "graph"
#include "options.h"

static const char usage[] =
    "graph info FILE                                  nodes, edges, degrees, components\n"
    "graph convert FILE OUT                           OUT ends with .tgraph (mapped, fast), .tsv or .txt\n"
    "graph partition FILE K [PARTS.npy]               K parts with few edges between them\n"
    "graph reorder FILE OUT degree|bfs|rcm|community|K   new numbers for the nodes; K: by the parts of a partition\n"
    "graph sample FILE OUT --fanout 15,10             neighbours of some nodes, and their neighbours\n"
    "graph make planted|rmat OUT                      planted: edges within classes are more likely\n"
    "FILE: edge list, Matrix Market, .npz, .npy or .tgraph; options for reading:\n"
    "  --symmetrize     each edge in both directions\n"
    "  --unique         keep only the first of equal edges\n"
    "  --loops          add an edge from each node to itself\n"
    "convert:\n"
    "  --bipartite      edges lead from one set of nodes into another, each counted from 0; the other commands take\n"
    "                   graphs of one set\n"
    "  --nodes N        at least this many nodes, also without edges\n"
    "  --memory 64M     an edge list (also gzip) or .npy larger than memory becomes a .tgraph in pieces, with this\n"
    "                   much memory\n"
    "partition and reorder:\n"
    "  --imbalance X    a part exceeds the mean by at most this share; default: 0.03\n"
    "  --weights        the weights of edges count\n"
    "  --stream         partition: each node is placed when it is read, and stays\n"
    "  --order FILE.npy reorder: the new numbers\n"
    "sample:\n"
    "  --fanout N,N     neighbours of a node, for each layer; -1: all\n"
    "  --seeds N        random nodes to begin with; default: 1024\n"
    "  --nodes N,N      these nodes instead\n"
    "  --replace        a neighbour may be drawn twice\n"
    "make:\n"
    "  --nodes N        default: 10000; rmat takes a power of two\n"
    "  --degree D       average number of edges of a node; default: 8\n"
    "  --classes K      classes of planted; default: 8\n"
    "partition, reorder, sample and make:\n"
    "  --seed S         seed of the random numbers; default: 0\n";

/* whole numbers separated by commas; how many, or -1 */
static int numbers(const char *text, double least, int32_t *x, int room)
{
    int n = 0;
    char *end;
    for (; *text && n < room; text = end + (*end == ',')) {
        const double v = strtod(text, &end);
        if (end == text || (*end && *end != ',') || (*end && !end[1]) ||
            strspn(text, "-0123456789") != (size_t)(end - text) || v < least || v > 0x7ffffffe)
            return -1;
        x[n++] = (int32_t)v;
    }
    return *text ? -1 : n;
}

/* bytes of "64M"; 0: invalid */
static size_t bytes_of(const char *text)
{
    char *end;
    const double v = strtod(text, &end), times = *end == 'K'   ? 1024
                                                 : *end == 'M' ? 1048576
                                                 : *end == 'G' ? 1073741824
                                                               : 1;
    if (end == text || strspn(text, "0123456789.") != (size_t)(end - text) || *(end + (times > 1)) ||
        !(v * times >= 1 && v * times < 1e18) || v * times >= (double)SIZE_MAX)
        return 0;
    return (size_t)(v * times);
}

/* A graph is written as .tgraph, or as text if the name says so. The ending of another form is refused. */
static int is_text(const char *path) { return has_end(path, ".tsv") || has_end(path, ".txt"); }
static int has_form(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return !dot || is_text(path) || has_end(path, ".tgraph");
}

static void say_nodes(tiny_idx n_src, tiny_idx n_dst)
{
    if (n_src == n_dst) printf("%td nodes, ", n_dst);
    else printf("%td sources, %td destinations, ", n_src, n_dst);
}

static tiny_status save(tiny_ctx *ctx, const tgnn_graph *g, const char *path)
{
    tiny_status st = is_text(path) ? tgnn_graph_write_text(ctx, path, g) : tgnn_graph_write(ctx, path, g);
    if (!st) {
        printf("%s: ", path);
        say_nodes(tgnn_graph_sources(g), tgnn_graph_nodes(g));
        printf("%lld edges\n", (long long)tgnn_graph_edges(g));
    }
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
    end_progress();
    if (st) return st;
    printf("%s: ", out);
    say_nodes(done.n_src, done.n_dst);
    printf("%lld edges (%lld in the file, %lld sorted runs, %d merges before the last)\n", (long long)done.n,
           (long long)done.n_given, (long long)done.n_runs, done.n_merges);
    return TINY_OK;
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
    printf("nodes        %td\nedges        %lld%s\nloops        %lld\ndoubles      %lld\nisolated     %td\ncomponents  "
           " %td, the largest has %td nodes\n",
           n, (long long)a->n, a->value ? ", weighted" : "", (long long)loops, (long long)doubles, none, parts,
           largest);
    printf("edges into a node: mean %.2f, most %lld\n", n ? (double)a->n / (double)n : 0.0, (long long)most);
    for (k = 0; k < 20; k++)
        if (count[k]) last = k;
    for (k = 0; k <= last; k++)
        printf("  %7lld%s %7lld %10lld nodes\n", k ? 1LL << (k - 1) : 0LL, " to", k ? (1LL << k) - 1 : 0LL,
               (long long)count[k]);
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

typedef struct choice {
    size_t memory;
    tgnn_partition_desc p;
    int n_parts, unique, stream, replace, n_fanout, n_nodes;
    int32_t fanout[TGNN_SAMPLE_LAYERS], *nodes;
    int seeds;
    uint64_t seed;
} choice;

static tiny_status partition(tiny_ctx *ctx, tgnn_graph *g, int k, const choice *o, const char *out)
{
    tiny_idx n = tgnn_graph_nodes(g);
    int32_t *part = (int32_t *)tiny_alloc(ctx, (size_t)n * sizeof *part);
    tgnn_partition_info info;
    uint64_t start = tiny_now_ns();
    tiny_status st = !part       ? tiny_ctx_status(ctx)
                     : o->stream ? tgnn_partition_stream(ctx, g, k, &o->p, part, &info)
                                 : tgnn_partition(ctx, g, k, &o->p, part, &info);
    end_progress();
    if (!st) {
        const int64_t m = tgnn_graph_edges(g);
        printf("parts        %d, of %lld to %lld nodes; the limit is %lld\ncut          %lld of %lld edges, "
               "%.1f%%%s\nseconds      %.2f\n",
               k, (long long)info.lightest, (long long)info.heaviest, (long long)info.limit, (long long)info.cut_edges,
               (long long)m, m ? 100.0 * (double)info.cut_edges / (double)m : 0.0,
               o->p.edge_weights ? "" : " (both directions of an edge count)", (double)(tiny_now_ns() - start) * 1e-9);
        if (o->p.edge_weights) printf("weight cut   %g\n", info.cut);
    }
    if (!st && out) st = write_numbers(ctx, out, part, n);
    tiny_free(ctx, part);
    return st;
}

static tiny_status reorder(tiny_ctx *ctx, tgnn_graph *g, const char *out, const char *how, const choice *o,
                           const char *order_path)
{
    tgnn_order_kind kind = !strcmp(how, "degree") ? TGNN_ORDER_DEGREE
                           : !strcmp(how, "bfs")  ? TGNN_ORDER_BFS
                                                  : TGNN_ORDER_RCM;
    tiny_idx n = tgnn_graph_nodes(g), k = o->n_parts;
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
    end_progress();
    if (!st) st = tgnn_graph_permute(ctx, g, order, &h);
    if (!st) st = save(ctx, h, out);
    if (!st && order_path) st = write_numbers(ctx, order_path, order, n);      /* below 2^31 */
    tgnn_graph_close(ctx, h);
    tiny_free(ctx, order);
    tiny_free(ctx, label);
    return st;
}

/* the edges of a batch, each once, as a graph of the same nodes */
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

static tiny_status sample(tiny_ctx *ctx, const tgnn_graph *g, const char *out, const choice *o)
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
        for (i = 0; i < batch.n_layers; i++)
            printf("layer %td      %lld edges into %td nodes, from %td\n", i, (long long)batch.block[i].n,
                   batch.block[i].n_dst, batch.block[i].n_src);
        printf("seconds      %.4f\n", (double)(tiny_now_ns() - start) * 1e-9);
        st = sample_graph(ctx, g, &batch, out);
    }
    tgnn_sampler_close(s);
    tiny_free(ctx, any);
    return st;
}

enum { MOST_SEEDS = 65536 };
struct made { int nodes, classes; double degree; };

enum { INFO, CONVERT, PARTITION, REORDER, SAMPLE, MAKE, COMMANDS };
static const char commands[] = "info convert partition reorder sample make";
static const char *const words_of[COMMANDS] = { "FILE",
                                                "FILE OUT",
                                                "FILE K [PARTS.npy]",
                                                "FILE OUT degree|bfs|rcm|community|K",
                                                "FILE OUT --fanout N,N",
                                                "planted|rmat OUT" };

/* the words that are not options; 2: they do not fit the command, after a message */
static int check(int c, const char *command, char *const *word, int n, choice *o)
{
    static const int least[COMMANDS] = { 1, 2, 2, 3, 2, 2 }, most[COMMANDS] = { 1, 2, 3, 3, 2, 2 };
    const option parts = A_WHOLE("K", &o->n_parts, 1, 1e6);
    if (n > most[c]) return wrong(word[most[c]], "one word too many");
    if (n < least[c] || (c == SAMPLE && !o->n_fanout)) return refused("%s takes %s", command, words_of[c]);
    if (c != INFO && c != PARTITION && !has_form(word[1]))
        return wrong(word[1], "a graph is written as .tgraph, .tsv or .txt");
    if (c == CONVERT && o->memory && is_text(word[1]))
        return wrong(word[1], "with --memory a graph is written as .tgraph only");
    if (c == PARTITION && read_value(&parts, "K", word[1])) return 2;
    if (c == REORDER && strcmp(word[2], "degree") && strcmp(word[2], "bfs") && strcmp(word[2], "rcm") &&
        strcmp(word[2], "community") && read_value(&parts, "K", word[2]))
        return 2;
    if (c == MAKE && strcmp(word[0], "planted") && strcmp(word[0], "rmat"))
        return wrong(word[0], "this is neither planted nor rmat");
    return 0;
}

static tiny_status run(tiny_ctx *ctx, int c, char *const *word, const tgnn_graph_desc *d, const choice *o,
                       const char *order, const struct made *make)
{
    tgnn_graph *g = NULL;
    int scale = 0;
    tiny_status st;
    while (scale < 29 && 1 << scale < make->nodes) scale++;
    if (c == MAKE && !strcmp(word[0], "rmat") && 1 << scale != make->nodes)
        fprintf(stderr, "graph: rmat needs a power of two of nodes: %d, not %d\n", 1 << scale, make->nodes);
    if (o->memory) st = in_pieces(ctx, word[0], word[1], d, o->memory);
    else if (c != MAKE) st = tgnn_graph_read(ctx, word[0], d, &g);
    else if (!strcmp(word[0], "rmat")) st = tgnn_rmat(ctx, scale, (int64_t)(make->nodes * make->degree), o->seed, &g);
    else st = tgnn_planted(ctx, make->nodes, make->classes, make->degree, 0.8, o->seed, &g);
    if (!st && stopped_by) st = TINY_E_CANCELLED;
    if (!st && c == INFO) st = info(ctx, g);
    if (!st && !o->memory && (c == CONVERT || c == MAKE)) st = save(ctx, g, word[1]);
    if (!st && c == PARTITION) st = partition(ctx, g, o->n_parts, o, word[2]);
    if (!st && c == REORDER) st = reorder(ctx, g, word[1], word[2], o, order);
    if (!st && c == SAMPLE) st = sample(ctx, g, word[1], o);
    end_progress();
    if (st == TINY_E_CANCELLED && stopped_by) say("stopped; nothing was written");
    else if (st) say(tiny_ctx_message(ctx));
    tgnn_graph_close(ctx, g);
    return st;
}

int main(int argc, char **argv)
{
    static int32_t nodes[MOST_SEEDS];
    static tiny_ctx *ctx;
    static word_list word;
    const char *order = NULL, *memory = NULL, *list = NULL, *fanout = NULL;
    struct made make = { 10000, 0, 8 };
    int c = 0, at_least = 0;
    tiny_ctx_desc desc = { 0 };
    tgnn_graph_desc d = { 0 };
    choice o = { 0 };
    const option options[] = { /* the letters: info, convert, partition, reorder, sample, make */
                               A_COMMAND(commands, &c),
                               WORDS(&word, 4),
                               A_FLAG("icprs --symmetrize", &d.symmetrize),
                               A_FLAG("icprs --unique", &o.unique),
                               A_FLAG("icprs --loops", &d.add_loops),
                               A_FLAG("c --bipartite", &d.bipartite),
                               A_TEXT("c --memory", &memory),
                               A_WHOLE("c --nodes", &at_least, 1, 0x7ffffffe),
                               A_TEXT("s --nodes", &list),
                               A_WHOLE("m --nodes", &make.nodes, 1, 1e9),
                               A_NUMBER("m --degree", &make.degree, 0, 1e6),
                               A_WHOLE("m --classes", &make.classes, 1, 1e9),
                               A_SEED("prsm --seed", &o.seed),
                               A_WHOLE("s --seeds", &o.seeds, 1, MOST_SEEDS),
                               A_NUMBER("pr --imbalance", &o.p.imbalance, 1e-6, 1e6),
                               A_FLAG("pr --weights", &o.p.edge_weights),
                               A_FLAG("p --stream", &o.stream),
                               A_TEXT("s --fanout", &fanout),
                               A_FLAG("s --replace", &o.replace),
                               A_TEXT("r --order", &order)
    };
    tiny_status st;
    o.seed = 1;
    READ_OPTIONS(argc, argv, usage, options);
    if (memory && !(o.memory = bytes_of(memory))) return wrong(memory, "--memory takes bytes, as in 64M");
    if (list && o.seeds) return wrong("--seeds", "it cannot be combined with --nodes");
    if (list && (o.n_nodes = numbers(list, 0, nodes, MOST_SEEDS)) < 1)
        return wrong(list, "--nodes takes up to 65536 numbers of nodes with commas between them");
    if (fanout && (o.n_fanout = numbers(fanout, -1, o.fanout, TGNN_SAMPLE_LAYERS)) < 1)
        return wrong(fanout, "--fanout takes a number for each layer with commas between them, -1 for all edges");
    if (check(c, argv[1], word.at, word.n, &o)) return 2;
    if (make.classes && !strcmp(word.at[0], "rmat")) return wrong("--classes", "rmat has none");
    if (!make.classes) make.classes = make.nodes < 8 ? make.nodes : 8;
    if (make.classes > make.nodes) return wrong("--classes", "there are fewer nodes than classes");
    if (c != INFO && must_not_write(word.at[c == PARTITION ? 2 : 1], 1, c == MAKE ? NULL : word.at[0])) return 2;
    if (must_not_write(order, 1, word.at[0])) return 2;
    if (o.unique) d.duplicates = TINY_DUPLICATES_FIRST;
    d.n_nodes = at_least;
    o.nodes = nodes;
    o.p.seed = o.seed;
    if (!o.seeds) o.seeds = 1024;
    desc.progress = show_progress;
    desc.cancel = cancelled;
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    stop_on_signals_whole();
    st = run(ctx, c, word.at, &d, &o, order, &make);
    tiny_ctx_close(ctx);
    return exit_status(st == TINY_E_CANCELLED && stopped_by ? 128 + stopped_by : st != TINY_OK);
}
