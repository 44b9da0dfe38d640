/* examples/gnn.c - trains, quantizes and runs a network on graphs
 *
 *     gnn train [FOLDER] --save m         learns the classes of nodes, or of graphs if the folder has graphs; with
 *                                         --links, which pairs have an edge
 *     gnn quantize [FOLDER] --save m      the same with weights of 4 bits, and as few bits for the features of each
 *                                         node as it needs (A2Q)
 *     gnn infer --model m [FOLDER]        prints its classes next to the labels; a quantized network runs in integers
 *
 * FOLDER holds edges.tsv, labels.txt, splits.txt, features.coo ... (docs/guide/graphs.md). Without FOLDER a graph of
 * 1500 nodes in 5 classes is made; with --rings, 200 rings with few or many chords. --net reads the layers from a
 * description (src/gnn/layer/net.h). */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "gnn"
#include "options.h"
#include <math.h>

enum { MOST_EPOCHS = 4000, MOST_RUNS = 1000 };
typedef struct job {
    tiny_ctx *ctx;                          /* the first member: hear() looks for it there */
    const char *folder, *layers, *net, *save, *model, *svg, *curve, *out, *log_path;
    int hidden, heads, depth, seeds, epochs, patience, split, splits, folds, fold, batch, halve;
    uint64_t seed;
    double lr, decay, dropout;
    double bits, lambda;                    /* quantize */
    int groups, uniform;
    int quiet, links, rings, quantize, task, area, rows, no_rows;
    int judged;                             /* the split or fold whose test part is judged */
    /* a signal ends the training after the epoch */
    int ends_itself;
    int shown;                              /* lines that are overwritten */
    FILE *log;                              /* --log: a line an epoch */
    tgnn_data d;
    tgnn_links pairs;
    int64_t *graph_at;
    tiny_idx n;                             /* of what is classified: nodes, or graphs */
    int32_t *label, n_class;
    char *part;                             /* of each: r, v, t, - */
    int run, n_points;
    /* of the first run: loss; validation (graphs: test); loss of the validation part */
    float point[MOST_EPOCHS][3];
    double all_test[MOST_EPOCHS];           /* by epoch, of all runs */
} job;

static const char usage[] =
    "gnn train [FOLDER] [options]      learns classes of nodes, or of graphs if the folder has graphs (in folds)\n"
    "gnn quantize [FOLDER] [options]   the same with weights of 4 bits, and features of few bits, as each node needs\n"
    "                                  (A2Q)\n"
    "gnn infer --model MODEL [FOLDER]  runs a network that --save wrote\n"
    "  Without FOLDER a graph of 1500 nodes in 5 classes is made. Ctrl-C ends training after the epoch and writes the\n"
    "  network, except with --quiet and neither --log nor --curve.\n"
    "train and quantize:\n"
    "  --layers KIND    gcn, sage, gat, gatv2, gin or transformer, for quantize gcn or gin; default: gin for graphs,\n"
    "                   else gcn\n"
    "  --net FILE.json  read the layers from a description instead\n"
    "  --hidden N       numbers of a node, or of a head, between layers; default: 16, of a head 8, graphs and links\n"
    "                   32\n"
    "  --heads N        heads of attention of gat, gatv2 and transformer; default: 8\n"
    "  --depth N        layers; default: 2, graphs 4\n"
    "  --dropout P      share of the inputs of a layer that is dropped; default: 0.5, gat and gatv2 0.6, links 0\n"
    "  --epochs N       at most this many; default: 200, gat and gatv2 1000, graphs 100\n"
    "  --patience N     stop after this many epochs without a better validation loss; 0: never\n"
    "  --lr X           size of a step; default: 0.01, gat and gatv2 0.005\n"
    "  --decay X        weight decay; default: 0.0005, graphs and links 0\n"
    "  --halve N        halve the step every N epochs; default: 50 for graphs, never for nodes\n"
    "  --batch N        graphs at once, 1 to 256\n"
    "  --area           two classes of nodes, measured by the area under the ROC curve; with --patience the best\n"
    "                   epoch of the validation part\n"
    "  --seeds N        runs with different seeds; default: 1\n"
    "  --splits N       N splits from --split on, with different seeds\n"
    "  --folds N        folds of the graphs, at most 10; default: 10\n"
    "  --rows           divide each row of features by its sum; default for features of nodes in FOLDER if none is\n"
    "                   below 0\n"
    "  --no-rows        do not divide the rows\n"
    "  --quiet          print no line for each epoch\n"
    "  --save MODEL     write the network to MODEL.safetensors and MODEL.json\n"
    "  --log FILE.tsv   write a line for each epoch\n"
    "  --curve FILE.svg draw the losses of the first run\n"
    "quantize alone:\n"
    "  --bits X         average bits of a stored feature; default: 2\n"
    "  --lambda X       weight of that goal in the loss; default: 2.5\n"
    "  --groups N       steps for N groups of nodes, which fit other graphs too (1000 for many graphs); default:\n"
    "                   steps for each node\n"
    "  --uniform N      one step and N bits for all nodes, for comparison\n"
    "  --task           learn steps and bits from the loss, for comparison\n"
    "all three:\n"
    "  --model MODEL    for infer: what --save wrote\n"
    "  --links          train and infer: predict which pairs of nodes have an edge\n"
    "  --rings          use 200 rings with few or many chords instead of FOLDER\n"
    "  --seed N         seed of the first run; for infer --links: the seed of the split; default: 0\n"
    "  --split N        the split of the folder; default: 0\n"
    "  --fold N         only this fold\n"
    "  -o FILE.npy      write the classes, one for each node, graph or link\n"
    "  --svg FILE.svg   draw the nodes as the last layer places them, coloured by class\n"
    "  --threads N      default: one per processor\n";

/* a signal ends an operation unless the training ends after its epoch */
static int cut_short(void *user) { return stopped_by && !((const job *)user)->ends_itself; }

/* 1: a file of this name can be written. An existing file stays as it is; what the trial creates is removed. */
static int tried(const char *name)
{
    FILE *f;
    int made = 0;
    errno = 0;
    f = fopen(name, "r+b");                 /* a pipe is not waited for */
    if (!f && errno == ENOENT) {
        f = fopen(name, "wbx");             /* x: not where a link leads nowhere */
        made = f != NULL;
    }
    /* what such a link leads to is made, and what may only be written is there */
    if (!f) f = fopen(name, "ab");
    if (!f) fprintf(stderr, "gnn: %s cannot be written (%s)\n", name, strerror(errno));
    if (!f) return 0;
    (void)fclose(f);
    if (made) (void)remove(name);
    return 1;
}

/* The same for what the library writes: it grows as path.part, and takes its place when it is whole. With an ending,
 * which takes the place of one of a net. What is there without a length may be a device, which is written to itself. */
static int replaceable(const char *path, const char *ending)
{
    const size_t n = strlen(path) - (!*ending                        ? 0
                                     : has_end(path, ".safetensors") ? 12
                                     : has_end(path, ".json")        ? 5
                                                                     : 0),
                 m = strlen(ending);
    char *name = (char *)malloc(n + m + sizeof ".part");
    FILE *f;
    int ok, device;
    if (!name) return 0;
    memcpy(name, path, n);
    memcpy(name + n, ending, m + 1);
    errno = 0;
    f = fopen(name, "r+b");
    /* a folder is in the way, but no file that may only be read */
    ok = f || errno == ENOENT || errno == EACCES;
    device = f && (fseek(f, 0, SEEK_END) || ftell(f) <= 0);
    if (!ok) fprintf(stderr, "gnn: %s cannot be written (%s)\n", name, strerror(errno));
    if (f) (void)fclose(f);
    memcpy(name + n + m, ".part", sizeof ".part");
    ok = ok && (device || tried(name));
    free(name);
    return ok;
}

static tgnn_layer_kind kind_of(const char *name)
{
    int k = 0;
    while (k < TGNN_LAYER_COUNT && strcmp(name, tgnn_layer_name((tgnn_layer_kind)k))) k++;
    return (tgnn_layer_kind)k;
}

/* how many folds there are; 0: they are not 1, 2, 3 ... */
static int folds_of(const job *j)
{
    int there[11] = { 0 }, k = 0, n = 0;
    tiny_idx i;
    for (i = 0; i < j->n; i++) {
        const int32_t f = j->d.fold[i];
        if (f == 0 || f > 10) return 0;
        if (f > 0) n += !there[f]++;
    }
    while (k < n && there[k + 1]) k++;
    return k == n ? n : 0;
}

static const char *data_name(const job *j) { return j->folder ? j->folder : j->rings ? "rings" : "planted"; }

/* whether the options fit the data; prints a message if not */
static int fits(const job *j, int infer, int graphs)
{
    const char *name = data_name(j), *what = graphs ? "graph_labels.txt" : "labels.txt";
    const int n_folds = graphs && j->d.fold ? folds_of(j) : 0, needed = !infer || j->split >= 0 || j->fold > 0;
    const double last = (j->split > 0 ? j->split : 0) + j->splits - 1;
    if (j->links) return 1;
    if (graphs ? j->splits > 1 || j->area || j->split >= 0 : j->fold > 0 || j->batch > 0) {
        fprintf(stderr, "gnn: --split, --splits and --area are for nodes, --fold and --batch for graphs; %s has %s\n",
                name, graphs ? "graphs" : "nodes");
        return 0;
    }
    if (!needed) return 1;
    if (!j->label || (graphs ? !j->d.fold : !j->d.split)) {
        fprintf(stderr, "gnn: %s has no %s\n", name, !j->label ? what : graphs ? "folds.txt" : "splits.txt");
        return 0;
    }
    if (!graphs && last >= (double)j->d.n_split) {
        fprintf(stderr, "gnn: %s has no split %g: %s %td, counted from 0\n", name, last,
                j->d.n_split == 1 ? "there is" : "there are", j->d.n_split);
        return 0;
    }
    if (graphs && (n_folds < 1 || j->fold > n_folds)) {
        fprintf(stderr,
                "gnn: %s/folds.txt: folds count from 1 to 10 at most, none of them is empty, and --fold names one of "
                "them\n",
                name);
        return 0;
    }
    return 1;
}

/* the part of each node or graph in this split or fold */
static void judge_by(job *j, int split_or_fold)
{
    tiny_idx i;
    j->judged = split_or_fold;
    for (i = 0; i < j->n; i++)
        j->part[i] = !j->graph_at                    ? j->d.split[i * j->d.n_split + split_or_fold]
                     : j->d.fold[i] < 0              ? '-'
                     : j->d.fold[i] == split_or_fold ? 't'
                                                     : 'r';
}

/* Names files that look like features and are not read. */
static void say_no_features(const char *folder, tiny_idx n)
{
    static const char *const other[] = { "csv", "tsv", "txt", "npz", "mtx" };
    char name[700];
    size_t i;
    FILE *f = NULL;
    for (i = 0; i < sizeof other / sizeof *other && !f; i++) {
        (void)snprintf(name, sizeof name, "%.600s/features.%s", folder, other[i]);
        f = fopen(name, "rb");
    }
    fprintf(stderr,
            "gnn: %s has no features.coo and no features.npy%s%s%s: %td columns of FastRP replace the features\n",
            folder, f ? ", and " : "", f ? strrchr(name, '/') + 1 : "", f ? " is not read" : "", n);
    if (f) (void)fclose(f);
}

static tiny_status load(job *j, int infer)
{
    tiny_status st = j->folder  ? tgnn_data_read(j->ctx, j->folder, &j->d)
                     : j->rings ? tgnn_data_rings(j->ctx, 200, 1, &j->d)
                                : tgnn_data_planted(j->ctx, 1500, 5, 6.0, 0.75, 1, &j->d);
    const int graphs = !st && !j->links && j->d.n_graphs > 0 && j->d.graph_of_node,
              read = !st && j->folder && j->d.x.data;
    tiny_idx i;
    if (!st) st = tgnn_data_features(j->ctx, &j->d);
    if (!st && graphs) st = tgnn_data_graph_at(j->ctx, &j->d, &j->graph_at);
    if (!st && j->links) st = tgnn_links_split(j->ctx, j->d.graph, 0.05, 0.1, j->seed, &j->pairs);
    if (st) return st;
    j->n = graphs ? j->d.n_graphs : j->d.n_nodes;
    j->label = graphs ? j->d.graph_label : j->d.label;
    j->n_class = graphs ? j->d.n_graph_class : j->d.n_class;
    j->part = (char *)tiny_alloc(j->ctx, (size_t)j->n);
    if (!j->part) return tiny_ctx_status(j->ctx);
    if (!fits(j, infer, graphs)) return TINY_E_ARGUMENT;
    if (!infer && graphs && j->folds > folds_of(j)) j->folds = folds_of(j);
    if (j->split < 0) j->split = 0;
    memset(j->part, '-', (size_t)j->n);
    if (!j->links && j->label && (graphs ? j->d.fold != NULL : j->d.split && j->split < j->d.n_split))
        judge_by(j, graphs ? j->fold > 0 ? j->fold : 1 : j->split);
    /* a row of counts is divided by its sum, as the papers have it; where a number is below 0 they are no counts, and
     * the sum may be 0 */
    for (i = 0; read && !graphs && i < j->d.x.dim[0] * j->d.x.dim[1] && ((const float *)j->d.x.data)[i] >= 0; i++) {}
    if (!j->no_rows && !j->net && read && !graphs && i == j->d.x.dim[0] * j->d.x.dim[1]) j->rows = 1;
    if (j->folder && !read) say_no_features(j->folder, j->d.x.dim[1]);
    printf("%s: %td nodes, %lld edges, %td features", data_name(j), j->d.n_nodes,
           (long long)tgnn_graph_edges(j->d.graph), j->d.x.dim[1]);
    if (!infer && j->rows) fputs(" (rows divided by their sums)", stdout);
    if (j->links) printf(", %td links to learn from, %td to test with\n", j->pairs.n[0], j->pairs.n[2]);
    else if (graphs) printf(", %td graphs, %d classes\n", j->n, (int)j->n_class);
    else printf(", %d classes\n", (int)j->n_class);
    return TINY_OK;
}

/* ---- pictures */

static const char *colour(int c)
{
    static const char *const of[] = { "#4477aa", "#ee6677", "#228833", "#ccbb44",
                                      "#66ccee", "#aa3377", "#777777", "#dd8833" };
    return c < 0 ? "#dddddd" : of[c % 8];
}

/* rows of h where they spread the most, coloured by their class; without h the course of the first run */
static tiny_status draw(job *j, const char *path, const tiny_tensor *h)
{
    const char *const name[3] = { "loss",
                                  j->links      ? "validation area"
                                  : j->graph_at ? "test accuracy"
                                                : "validation accuracy",
                                  "validation loss" };
    const tiny_idx n = h ? h->dim[0] : 0;
    float *at = (float *)tiny_alloc(j->ctx, (size_t)n * 2 * sizeof *at), low[2] = { 1e30f, 1e30f },
          high[2] = { -1e30f, -1e30f }, most = 1e-9f;
    tiny_tensor plane = tiny_tensor_2d(at, TINY_F32, n, 2);
    tiny_status st = !at ? tiny_ctx_status(j->ctx) : h ? tgnn_plane(j->ctx, h, &plane) : TINY_OK;
    FILE *f = st ? NULL : fopen(path, "w");
    tiny_idx i;
    int k, bad;
    if (!st && !f) fprintf(stderr, "gnn: %s cannot be written (%s)\n", path, strerror(errno));
    if (!f) st = st ? st : TINY_E_IO;
    else
        fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 420\" font-size=\"12\"><rect width=\"640\" "
              "height=\"420\" fill=\"#fff\"/>\n",
              f);
    for (i = 0; f && i < n * 2; i++) {
        low[i & 1] = fminf(low[i & 1], at[i]);
        high[i & 1] = fmaxf(high[i & 1], at[i]);
    }
    for (i = 0; f && i < n; i++)
        fprintf(f, "<circle cx=\"%d\" cy=\"%d\" r=\"2\" fill=\"%s\"/>\n",
                20 + (int)(600 * (at[i * 2] - low[0]) / (high[0] - low[0] + 1e-30f)),
                400 - (int)(380 * (at[i * 2 + 1] - low[1]) / (high[1] - low[1] + 1e-30f)),
                colour(j->label ? j->label[i] : 0));
    for (i = 0; i < j->n_points; i++) most = fmaxf(most, fmaxf(j->point[i][0], j->point[i][2]));
    for (k = 0; f && !h && k < (j->graph_at ? 2 : 3); k++) {
        fprintf(f, "<text x=\"500\" y=\"%d\" fill=\"%s\">%s</text>\n<polyline fill=\"none\" stroke=\"%s\" points=\"",
                24 + 16 * k, colour(k), name[k], colour(k));
        for (i = 0; i < j->n_points; i++)
            fprintf(f, "%d,%d ", 40 + 580 * (int)i / j->n_points,
                    390 - (int)(370 * j->point[i][k] / (k == 1 ? 1 : most)));
        fputs("\"/>\n", f);
    }
    if (f && !h)
        fprintf(f, "<text x=\"40\" y=\"410\">epoch 1 to %d; losses 0 to %d.%02d, accuracy 0 to 1</text>\n", j->n_points,
                (int)most, (int)(most * 100) % 100);
    bad = f && (fputs("</svg>\n", f) < 0 || ferror(f));
    if (f && (fclose(f) || bad)) {
        fprintf(stderr, "gnn: %s could not be written as a whole\n", path);
        st = TINY_E_IO;
    }
    tiny_free(j->ctx, at);
    return st;
}

/* ---- what a net says: a row for each class there is, a column for each that it takes them for */

static tiny_status report(job *j, const tgnn_net *net, const tgnn_quant *quant)
{
    tgnn_quant_report kept;
    const tiny_idx n = j->n, c = net->n_out, w = net->stage[net->n_stages - 1].n_in;
    float *y = (float *)tiny_alloc(j->ctx, (size_t)(n * (c + w)) * sizeof *y);
    int32_t *answer = (int32_t *)tiny_alloc(j->ctx, (size_t)(n + c * c) * sizeof *answer),
            *count = answer ? answer + n : NULL;
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, n, c), before = tiny_tensor_2d(y ? y + n * c : NULL, TINY_F32, n, w),
                answers = tiny_tensor_1d(answer, TINY_I32, n);
    tgnn_net_input in = { 0 };
    tiny_idx i, k, right = 0, all = 0;
    double area = 0;
    tiny_status st = y && answer ? TINY_OK : tiny_ctx_status(j->ctx);
    in.graph = j->links ? j->pairs.graph : j->d.graph;
    in.x = &j->d.x;
    in.graph_at = j->graph_at;
    in.n_graphs = j->d.n_graphs;
    if (!st)
        st = quant ? tgnn_quant_run(j->ctx, quant, &in, &ty, &before, &kept)
                   : tgnn_net_run(j->ctx, net, &in, &ty, &before);
    if (!st && quant) {
        printf("weights: %.1f KB", (double)tgnn_quant_bytes(quant) / 1024);
        if (kept.numbers)
            printf("; features: %.2f bits on average, %.2f KB packed, %.2f KB with their steps and bits, %.1f KB as "
                   "floats",
                   (double)kept.bits / (double)kept.numbers, (double)kept.bytes / 1024,
                   (double)(kept.bytes + kept.step_bytes) / 1024, (double)kept.numbers / 256);
        putchar('\n');
    }
    if (!st) st = tiny_argmax(j->ctx, &ty, NULL, &answers);
    if (!st && j->links && j->pairs.n[2])
        st = tgnn_links_area(j->ctx, &ty, j->pairs.link[2], j->pairs.none[2], j->pairs.n[2], &area);
    if (!st && j->links && j->pairs.n[2])
        printf("test part of the links that seed %llu draws: area under the curve %.2f %%\n",
               (unsigned long long)j->seed, 100 * area);
    if (!st) memset(count, 0, (size_t)(c * c) * sizeof *count);
    for (i = 0; !st && i < n; i++) {
        if (j->part[i] != 't' || j->label[i] < 0 || j->label[i] >= c) continue;   /* without labels there are no t */
        count[j->label[i] * c + answer[i]]++;
        right += answer[i] == j->label[i];
        all++;
    }
    if (!st && all) {
        fputs("test part", stdout);
        if (j->graph_at || j->d.n_split > 1) printf(" of %s %d", j->graph_at ? "fold" : "split", j->judged);
        printf(": %td of %td right, %.1f %%; rows: the class it is, columns: the class it is taken for\n", right, all,
               100.0 * (double)right / (double)all);
    }
    for (i = 0; !st && all && i < c && c <= 40; i++) {
        printf("%4td |", i);
        for (k = 0; k < c; k++) printf(" %5d", (int)count[i * c + k]);
        putchar('\n');
    }
    if (!st && j->svg) st = draw(j, j->svg, j->links ? &ty : &before);
    if (!st && j->out) st = tgnn_array_write(j->ctx, j->out, j->links ? &ty : &answers);
    tiny_free(j->ctx, y);
    tiny_free(j->ctx, answer);
    return st;
}

/* ---- training */

/* C. Spearman's: of the places in order, equal ones in the middle of their places */
static double rank_correlation(const float *a, const float *b, tiny_idx n)
{
    double ab = 0, aa = 0, bb = 0;
    tiny_idx i, k;
    for (i = 0; i < n; i++) {
        double ra = 0, rb = 0;
        for (k = 0; k < n; k++) {
            ra += (a[k] < a[i]) - (a[k] > a[i]);
            rb += (b[k] < b[i]) - (b[k] > b[i]);
        }
        ab += ra * rb;
        aa += ra * ra;
        bb += rb * rb;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static int heard(void *user, const tgnn_epoch *e)
{
    job *j = (job *)user;
    const double shown = j->graph_at ? e->test : e->val;
    if (j->run == 0 && j->n_points < MOST_EPOCHS) {
        j->point[j->n_points][0] = (float)e->loss;
        j->point[j->n_points][1] = shown == shown ? (float)shown : 0;
        j->point[j->n_points++][2] = e->val_loss == e->val_loss ? (float)e->val_loss : 0;
    }
    j->all_test[e->epoch - 1] += e->test;
    if (j->log)
        fprintf(j->log, "%d\t%d\t%.6f\t%.6f\t%.6f\t%.6f\n", j->run, e->epoch, e->loss, e->val_loss, e->val, e->test);
    if (j->shown && e->epoch % 10 == 0) {
        fprintf(stderr, "\rrun %d  epoch %4d  loss %.4f", j->run, e->epoch, e->loss);
        if (shown == shown) fprintf(stderr, "  %s %.1f %%", j->graph_at ? "test" : "validation", 100 * shown);
        fputs("   ", stderr);
    }
    return stopped_by != 0;
}

/* the layers of --net, or the networks of the papers */
static tiny_status describe(job *j, tgnn_net **net)
{
    const int gat = !strncmp(j->layers, "gat", 3);
    tgnn_net_desc d = { TGNN_LAYER_GCN, 0, 0, 0, 0, 0, 0, 0, 0 };
    tiny_status st;
    if (j->net) {
        size_t n = 0;
        char *text = read_text(j->net, MOST_SETTINGS, 0, &n);
        st = text ? tgnn_net_make(j->ctx, j->net, text, n, 0, net) : TINY_E_IO;
        free(text);
        return st;
    }
    d.kind = kind_of(j->layers);
    d.n_in = j->d.x.dim[1];
    d.n_out = j->links ? 16 : j->n_class;
    d.hidden = j->hidden ? j->hidden : j->graph_at || j->links ? 32 : 0;
    d.heads = j->heads;
    d.depth = j->depth;
    d.readout = j->graph_at != NULL;
    d.rows = j->rows;
    d.dropout = (float)(j->dropout >= 0 ? j->dropout : j->links ? 0 : gat ? 0.6 : 0.5);
    return tgnn_net_usual(j->ctx, &d, 0, net);
}

/* steps and bits for the net; of all the graphs there are groups */
static tiny_status steps_for(job *j, const tgnn_net *net, uint64_t seed, tgnn_a2q_net **out)
{
    tgnn_a2q_desc d = { 0 };
    d.bits = j->bits;
    d.lambda = j->lambda;
    d.groups = j->groups ? j->groups : j->graph_at ? 1000 : 0;
    d.uniform = j->uniform;
    d.task = j->task || j->graph_at;
    d.seed = seed;
    return tgnn_a2q_net_open(j->ctx, net, &d, &j->d.x, out);
}

/* the classes of the packed network compared with those in floats, and its bits by layer */
static tiny_status judge_small(job *j, const tgnn_net *net, const tgnn_a2q_net *q, const tgnn_quant *small)
{
    const size_t n = (size_t)(j->n * net->n_out);
    float *y = (float *)tiny_alloc(j->ctx, (2 * n + 2 * (size_t)j->d.n_nodes) * sizeof *y),
          *degree = y ? y + 2 * n : NULL;
    tiny_tensor a = tiny_tensor_2d(y, TINY_F32, j->n, net->n_out),
                b = tiny_tensor_2d(y ? y + n : NULL, TINY_F32, j->n, net->n_out);
    tgnn_net_input in = { 0 };
    tiny_idx i, k, same = 0, of[2];
    tiny_status st = y ? TINY_OK : tiny_ctx_status(j->ctx);
    int m, bits;
    in.graph = j->d.graph;
    in.x = &j->d.x;
    in.graph_at = j->graph_at;
    in.n_graphs = j->d.n_graphs;
    if (!st) st = tgnn_a2q_net_run(j->ctx, net, q, &in, &a, NULL);
    if (!st) st = tgnn_quant_run(j->ctx, small, &in, &b, NULL, NULL);
    if (!st) st = tgnn_graph_degrees(j->ctx, j->d.graph, 0, 1, degree);
    for (i = 0; !st && i < j->n; i++) {
        for (m = 0; m < 2; m++)
            for (k = 1, of[m] = 0; k < net->n_out; k++)
                if (y[(size_t)m * n + (size_t)(i * net->n_out + k)] >
                    y[(size_t)m * n + (size_t)(i * net->n_out + of[m])])
                    of[m] = k;
        same += of[0] == of[1];
    }
    if (!st) printf("whole numbers give the class of the floats %td times of %td\n", same, j->n);
    for (m = 0; !st && m < q->n_maps; m++) {
        const tgnn_a2q_map *map = &q->map[m];
        if (map->raw) continue;
        printf("layer %d, %s of 1 to 8 bits:", map->stage + 1, q->n_nodes ? "nodes" : "groups");
        for (bits = 1; bits <= TGNN_A2Q_BITS; bits++) {
            for (i = k = 0; i < map->n_steps; i++) k += tgnn_a2q_round(map->bits[i]) == bits;
            printf(" %td", k);
        }
        for (i = 0; q->n_nodes && i < map->n_steps; i++) degree[j->d.n_nodes + i] = (float)tgnn_a2q_round(map->bits[i]);
        if (q->n_nodes && j->d.n_nodes <= 20000)
            printf("%s; rank correlation with the edges into a node %.2f",
                   map->positive ? " (the sign is not stored)" : "",
                   rank_correlation(degree, degree + j->d.n_nodes, j->d.n_nodes));
        putchar('\n');
    }
    tiny_free(j->ctx, y);
    return st;
}

/* runs are folds, splits or seeds */
static const char *run_word(const job *j) { return j->graph_at ? "fold" : j->splits > 1 ? "split" : "seed"; }
static int run_number(const job *j, int run)
{
    return run + (j->graph_at ? j->fold > 0 ? j->fold : 1 : j->splits > 1 ? j->split : 0);
}
static unsigned long long run_shown(const job *j, int run)
{
    return j->graph_at || j->splits > 1 ? (unsigned long long)run_number(j, run) : j->seed + (unsigned long long)run;
}

/* what is there after a signal, or with --save */
static void say_kept(const job *j, int kept, int ran)
{
    if (stopped_by)
        fprintf(stderr, "gnn: stopped in %s %llu%s%s\n", run_word(j), run_shown(j, j->run),
                j->log ? "; its epochs are in " : "", j->log ? j->log_path : "");
    if (stopped_by && (!ran || !j->save))
        fprintf(stderr, "gnn: no net is kept%s\n", j->save ? ", as no run came to an end" : ": there is no --save");
    if (!j->save || !ran) return;
    printf("kept: the net of %s %llu; gnn infer --model %s", run_word(j), run_shown(j, kept), j->save);
    if (j->folder) printf(" %s", j->folder);
    if (j->rings) fputs(" --rings", stdout);
    if (j->links) fputs(" --links", stdout);
    if (j->links && j->seed > 0) printf(" --seed %llu", (unsigned long long)j->seed);
    if (j->graph_at ? j->judged != 1 : !j->links && j->d.n_split > 1)
        printf(j->graph_at ? " --fold %d" : " --split %d", j->judged);
    putchar('\n');
}

static tiny_status train_once(job *j, tgnn_net *net, const tgnn_train_desc *how, tgnn_epoch *e)
{
    tgnn_nodes nodes = { 0 };
    tgnn_graphs graphs = { 0 };
    if (j->links) return tgnn_train_links(j->ctx, net, &j->pairs, &j->d.x, how, e);
    if (j->graph_at || j->splits > 1) judge_by(j, run_number(j, j->run));
    nodes.graph = graphs.graph = j->d.graph;
    nodes.x = graphs.x = &j->d.x;
    nodes.label = graphs.label = j->label;
    nodes.split = graphs.split = j->part;
    graphs.graph_at = j->graph_at;
    graphs.n_graphs = j->n;
    return j->graph_at ? tgnn_train_graphs(j->ctx, net, &graphs, how, e)
                       : tgnn_train_nodes(j->ctx, net, &nodes, how, e);
}

static tiny_status train(job *j)
{
    const int gat = !strncmp(j->layers, "gat", 3), runs = j->graph_at     ? j->fold > 0 ? 1 : j->folds
                                                          : j->splits > 1 ? j->splits
                                                                          : j->seeds;
    double sum = 0, squares = 0, least = 1e9, most = -1, best = -1, started;
    int ran = 0, cut = 0;                   /* runs that came to an end, if by a signal; the last one did not */
    tgnn_train_desc how = { 0 };
    tgnn_net *net = NULL;
    tgnn_a2q_net *steps = NULL;
    tgnn_quant *small = NULL, *last = NULL;
    tgnn_epoch e;
    int k, top = 0, kept = 0;
    tiny_status st = describe(j, &net);
    how.epochs = j->epochs ? j->epochs : j->graph_at ? 100 : gat ? 1000 : 200;
    how.patience = j->patience >= 0 ? j->patience : gat && !j->graph_at ? 100 : 0;
    how.lr = j->lr > 0 ? j->lr : gat ? 0.005 : 0.01;
    how.decay = j->decay >= 0 ? j->decay : j->graph_at || j->links ? 0 : 5e-4;
    how.decay_all = gat;
    how.batch_norm = j->graph_at != NULL && !j->quantize;
    how.halve_every = j->halve >= 0 ? j->halve : j->graph_at ? 50 : 0;
    how.batch = j->batch;
    how.area = j->area;
    how.callback = j->quiet && !j->log && !j->curve ? NULL : heard;    /* it costs a look at all parts in each epoch */
    how.user = j;
    for (j->run = 0; !st && j->run < runs && !stopped_by; j->run++) {
        how.seed = j->seed + (uint64_t)j->run;
        started = (double)tiny_now_ns();
        st = tgnn_net_draw(j->ctx, net, how.seed);
        if (!st && j->quantize) st = steps_for(j, net, how.seed, &steps);
        how.a2q = steps;
        j->ends_itself = how.callback != NULL;
        if (!st) st = train_once(j, net, &how, &e);
        cut = st == TINY_E_CANCELLED && stopped_by;
        if (st) break;
        j->ends_itself = 1;                 /* the result is tested and written */
        ran++;
        if (j->shown) fputs("\r", stderr);
        printf("%s %llu: %d epochs, ", run_word(j), run_shown(j, j->run), e.epoch);
        if (!j->graph_at && e.val == e.val) printf("validation %.1f %%, ", 100 * e.val);
        if (e.test == e.test) printf("test %.1f %%, ", 100 * e.test);
        printf("%.2f s\n", ((double)tiny_now_ns() - started) * 1e-9);
        (void)fflush(stdout);
        sum += e.test;
        squares += e.test * e.test;
        least = fmin(least, e.test);
        most = fmax(most, e.test);
        if (j->run == 0 || (!j->save && !j->quantize) || e.val > best) kept = j->run;
        if (j->quantize) {
            st = tgnn_quant_make(j->ctx, net, steps, &last);
            if (!st) st = judge_small(j, net, steps, last);
            if (!small || e.val > best) {
                tgnn_quant_free(j->ctx, small);
                small = last;
            } else tgnn_quant_free(j->ctx, last);
            tgnn_a2q_net_close(j->ctx, steps);
            steps = NULL;
        } else if (j->save && (j->run == 0 || e.val > best))
            st = tgnn_net_write(j->ctx, j->save, net); /* the best of the validation part is kept; of folds the first */
        best = fmax(best, e.val);
        if (stopped_by) break;
    }
    tgnn_a2q_net_close(j->ctx, steps);
    j->ends_itself = 1;
    if (cut && ran) st = TINY_OK;           /* the runs before it count */
    if (!st && small && j->save) st = tgnn_quant_write(j->ctx, j->save, small);
    if (!st && ran > 1 && sum == sum)
        printf("test: mean %.2f %%, deviation %.2f, %.1f to %.1f, over %d %ss\n", 100 * sum / ran,
               100 * sqrt(fmax(0, (squares - sum * sum / ran) / (ran - 1))), 100 * least, 100 * most, ran, run_word(j));
    for (k = 1; k < how.epochs; k++)
        if (j->all_test[k] > j->all_test[top]) top = k;
    if (!st && j->graph_at && !j->quiet && runs > 1 && !stopped_by)
        printf("the epoch that is best over all folds, as papers choose it: %d, %.2f %%\n", top + 1,
               100 * j->all_test[top] / runs);
    if (j->graph_at || j->splits > 1) judge_by(j, run_number(j, kept));
    if (!st || cut) say_kept(j, kept, ran);
    if (!st && j->save && runs > 1 && !small) {
        tgnn_net_free(j->ctx, net);
        net = NULL;
        st = tgnn_net_read(j->ctx, j->save, &net);
    }
    if (!st && (runs == 1 || j->save || !j->graph_at) && (!cut || j->save || small))
        st = report(j, small ? small->net : net, small);
    tgnn_quant_free(j->ctx, small);
    if (!st && j->curve) st = draw(j, j->curve, NULL);
    tgnn_net_free(j->ctx, net);
    return st;
}

/* 2 and a message if an output is also an input */
static int outputs_apart(const job *j)
{
    static const char *const read[] = { "meta.txt",         "edges.tsv",  "features.coo",      "features.npy",
                                        "labels.txt",       "splits.txt", "graph_of_node.txt", "node_labels.txt",
                                        "graph_labels.txt", "folds.txt" };
    const char *to[6] = { NULL, NULL, j->svg, j->curve, j->out, j->log_path };
    char save[2][1100], name[700];
    size_t i, k, n = j->save ? strlen(j->save) : 0;
    int bad = 0;
    if (n > 1000) return wrong(j->save, "the name is too long");
    n -= !j->save ? 0 : has_end(j->save, ".safetensors") ? 12 : has_end(j->save, ".json") ? 5 : 0;
    for (k = 0; j->save && k < 2; k++) {
        (void)snprintf(save[k], sizeof save[k], "%.*s.%s", (int)n, j->save, k ? "json" : "safetensors");
        to[k] = save[k];
    }
    for (k = 0; k < 6 && !bad; k++) {
        bad = must_not_write(to[k], 2, j->net, j->model);
        for (i = 0; i < sizeof read / sizeof *read && j->folder && !bad; i++) {
            (void)snprintf(name, sizeof name, "%.600s/%s", j->folder, read[i]);
            bad = must_not_write(to[k], 1, name);
        }
    }
    return bad;
}

/* tries all outputs before hours of work */
static int outputs_writable(const job *j)
{
    return (!j->save || (replaceable(j->save, ".safetensors") && replaceable(j->save, ".json"))) &&
           (!j->svg || tried(j->svg)) && (!j->curve || tried(j->curve)) && (!j->out || replaceable(j->out, ""));
}

int main(int argc, char **argv)
{
    static job j;
    tiny_ctx_desc desc = { 0 };
    int c = 0;
    const option options[] = { /* the letters: train, quantize, infer */
                               A_COMMAND("train quantize infer", &c),
                               A_WORD("folder", &j.folder),
                               A_TEXT("tq --layers", &j.layers),
                               A_TEXT("tq --net", &j.net),
                               A_TEXT("tq --save", &j.save),
                               A_TEXT("i --model", &j.model),
                               A_TEXT("tqi --svg", &j.svg),
                               A_TEXT("tq --curve", &j.curve),
                               A_TEXT("tqi -o", &j.out),
                               A_TEXT("tq --log", &j.log_path),
                               A_WHOLE("tq --hidden", &j.hidden, 1, 1e6),
                               A_WHOLE("tq --heads", &j.heads, 1, 1e6),
                               A_WHOLE("tq --depth", &j.depth, 1, 20),
                               A_NUMBER("tq --dropout", &j.dropout, 0, 0.999),
                               A_WHOLE("tq --epochs", &j.epochs, 1, MOST_EPOCHS),
                               A_WHOLE("tq --patience", &j.patience, 0, 1e6),
                               A_NUMBER("tq --lr", &j.lr, 1e-9, 1e6),
                               A_NUMBER("tq --decay", &j.decay, 0, 1e6),
                               A_WHOLE("tq --halve", &j.halve, 0, 1e6),
                               A_WHOLE("tq --batch", &j.batch, 1, 256),
                               A_WHOLE("tq --seeds", &j.seeds, 1, MOST_RUNS),
                               A_SEED("tqi --seed", &j.seed),
                               A_WHOLE("tqi --split", &j.split, 0, 1e6),
                               A_WHOLE("tq --splits", &j.splits, 1, MOST_RUNS),
                               A_WHOLE("tq --folds", &j.folds, 1, 10),
                               A_WHOLE("tqi --fold", &j.fold, 1, 10),
                               A_WHOLE("tqi --threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_NUMBER("q --bits", &j.bits, 0.001, 8),
                               A_NUMBER("q --lambda", &j.lambda, 1e-9, 1e6),
                               A_WHOLE("q --groups", &j.groups, 1, 1e6),
                               A_WHOLE("q --uniform", &j.uniform, 1, 7),
                               A_FLAG("q --task", &j.task),
                               A_FLAG("tq --area", &j.area),
                               A_FLAG("tq --quiet", &j.quiet),
                               A_FLAG("ti --links", &j.links),
                               A_FLAG("tqi --rings", &j.rings),
                               A_FLAG("tq --rows", &j.rows),
                               A_FLAG("tq --no-rows", &j.no_rows)
    };
    tgnn_net *net = NULL;
    tgnn_quant *small = NULL;
    tiny_status st;
    int infer, bad, is_small = 0;
    j.seeds = j.splits = 1;
    j.folds = 10;
    j.halve = j.patience = j.split = -1;
    j.decay = j.dropout = -1;
    READ_OPTIONS(argc, argv, usage, options);
    j.quantize = c == 1;
    infer = c == 2;
    if (j.layers && kind_of(j.layers) == TGNN_LAYER_COUNT) return wrong(j.layers, "--layers knows no such kind");
    if (infer && !j.model) return wrong("infer", "there is no --model");
    if (j.folder && j.rings) return wrong("--rings", "it cannot be combined with a folder");
    if (j.splits > 1 && j.seeds > 1)
        return wrong("--splits", "each split has its own seed: it cannot be combined with --seeds");
    if (j.links && (j.splits > 1 || j.split >= 0 || j.area || j.fold > 0 || j.batch > 0))
        return wrong("--links", "there are no splits, folds, batches or --area of links");
    if (j.net && j.layers) return wrong("--layers", "the file of --net has the layers");
    if ((j.rows || j.no_rows) && (j.net || (j.rows && j.no_rows)))
        return wrong("--rows", j.net ? "with --net the description says it" : "and --no-rows");
    if (outputs_apart(&j)) return 2;
    j.shown = !j.quiet && is_shown();
    desc.cancel = cut_short;
    desc.log = hear;
    desc.user = &j;
    if (tiny_ctx_open(&desc, &j.ctx)) return 1;
    stop_on_signals_whole();
    st = infer || outputs_writable(&j) ? load(&j, infer) : TINY_E_IO;
    if (!st && j.log_path) {
        j.log = fopen(j.log_path, "w");
        if (!j.log) fprintf(stderr, "gnn: %s cannot be written (%s)\n", j.log_path, strerror(errno));
        if (!j.log) st = TINY_E_IO;
        else fputs("run\tepoch\tloss\tval_loss\tval\ttest\n", j.log);
    }
    if (!j.layers) j.layers = j.graph_at ? "gin" : "gcn";
    if (!st && !infer) st = train(&j);
    if (!st && infer) st = tgnn_quant_known(j.ctx, j.model, &is_small);
    if (!st && infer) st = is_small ? tgnn_quant_read(j.ctx, j.model, &small) : tgnn_net_read(j.ctx, j.model, &net);
    if (!st && infer) st = report(&j, is_small ? small->net : net, small);
    bad = j.log && ferror(j.log);
    if (j.log && (fclose(j.log) || bad) && !st) {
        fprintf(stderr, "gnn: %s could not be written\n", j.log_path);
        st = TINY_E_IO;
    }
    if (st == TINY_E_CANCELLED && stopped_by && !j.ends_itself) say("stopped");
    else if (st == TINY_E_CANCELLED && stopped_by) {}      /* said: what is kept */
    else if (st && *tiny_ctx_message(j.ctx)) say(tiny_ctx_message(j.ctx));
    tgnn_net_free(j.ctx, net);
    tgnn_quant_free(j.ctx, small);
    tgnn_links_free(j.ctx, &j.pairs);
    tgnn_data_free(j.ctx, &j.d);
    tiny_free(j.ctx, j.graph_at);
    tiny_free(j.ctx, j.part);
    tiny_ctx_close(j.ctx);
    return exit_status(stopped_by ? 128 + stopped_by : st != TINY_OK);
}
