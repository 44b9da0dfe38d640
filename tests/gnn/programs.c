/* tests/gnn/programs.c - graph, gnn and fastrp as a user runs them: refused arguments, outputs that cannot be written,
 * Ctrl-C
 *
 * Exit status 0: done. 1: failed, with a sentence on standard error. 2: an invalid argument, which is named. 130:
 * Ctrl-C. The tests need no data: they make their graphs. */
#define T_GNN
#include "t.h"

#if defined __unix__ || defined __APPLE__
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[200], said[20000], errors[20000];

static const char *at(const char *name)
{
    static char path[4][300];
    static int k;
    k = (k + 1) % 4;
    (void)snprintf(path[k], sizeof path[k], "%s/%s", folder, name);
    return path[k];
}
static long size_of(const char *name)               /* -1: there is none */
{
    struct stat s;
    return stat(at(name), &s) ? -1 : (long)s.st_size;
}
static void slurp(const char *name, char *text, size_t most)
{
    FILE *f = fopen(at(name), "rb");
    text[f ? fread(text, 1, most - 1, f) : 0] = 0;
    if (f) (void)fclose(f);
}
static int same(const char *name, const char *other)       /* the first 2000 bytes, and the length */
{
    char a[2000] = "", b[2000] = "";
    slurp(name, a, sizeof a);
    slurp(other, b, sizeof b);
    return size_of(name) > 0 && size_of(name) == size_of(other) && !memcmp(a, b, sizeof a);
}
static void spill(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "wb");
    T_TRUE(f && fputs(text, f) >= 0);
    if (f) (void)fclose(f);
}

/* Runs BUILD/line, fills `said` and `errors`, returns the exit status. A line with its own > keeps its standard
 * output. */
TINYI_PRINTF(1, 2) static int run(const char *format, ...)
{
    const char *build = getenv("BUILD");
    char line[2000];
    va_list args;
    int n = snprintf(line, sizeof line, "%s/", build ? build : "build"), status;
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    (void)snprintf(line + n, sizeof line - (size_t)n, " </dev/null %s%s 2>%s/err", strchr(format, '>') ? "" : ">",
                   strchr(format, '>') ? "" : at("out"), folder);
    status = system(line);
    slurp("out", said, sizeof said);
    slurp("err", errors, sizeof errors);
    return status == -1 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}
static void has(const char *text, const char *part, int line)
{
    if (!strstr(text, part)) t_fail(__FILE__, line, "\"%.300s\" is without \"%s\"", text, part);
}
#define SAYS(part) has(said, part, __LINE__)
#define COMPLAINS(part) has(errors, part, __LINE__)

static int is_there(void)
{
    static int asked, there;
    const char *tmp = getenv("TMPDIR");
    if (!asked++) {
        (void)snprintf(folder, sizeof folder, "%.150s/tinygraphsXXXXXX", tmp ? tmp : P_tmpdir);
        there = mkdtemp(folder) != NULL && run("graph --help") == 0 && run("gnn --help") == 0 &&
                run("fastrp --help") == 0 && run("graph make planted %s --nodes 200", at("g.tgraph")) == 0;
    }
    if (!there) t_skip("the programs do not run here");
    return there;
}

/* each line is refused before anything is done, and the sentence names the invalid argument */
static void test_invalid_arguments(void)
{
    static const struct { const char *line, *complaint;
    } bad[] = { { "graph", "graph info FILE" },
                { "gnn", "gnn train [FOLDER]" },
                { "graph look", "look: there is no such command" },
                { "gnn learn", "learn: there is no such command" },
                { "graph info", "info takes FILE" },
                { "graph info a b", "b: one word too many" },
                { "graph info a --nonsense", "unknown option: --nonsense" },
                { "graph info a --fanout 3", "info takes no --fanout" },
                { "graph convert a b.tgraph --seed 1", "convert takes no --seed" },
                { "graph convert a b.csv", "b.csv: a graph is written as .tgraph" },
                { "graph convert a b.mtx", "b.mtx" },
                { "graph convert a b.npz", "b.npz" },
                { "graph make planted b.npy", "b.npy" },
                { "graph convert a b.tsv --memory 1M", "b.tsv: with --memory" },
                { "graph convert a b.tgraph --memory 64Q", "64Q" },
                { "graph convert a b.tgraph --memory", "--memory: a value is missing" },
                { "graph info a --bipartite", "info takes no --bipartite" },
                { "graph convert a b.tgraph --nodes 1.5",
                  "--nodes takes a whole number from 1 to 2147483646, not 1.5" },
                { "graph partition g 8abc", "not 8abc" },
                { "graph partition g 0", "from 1 to" },
                { "graph partition g 8 --imbalance abc", "--imbalance takes a number from 1e-06 to 1000000, not abc" },
                { "graph partition g 8 --seed abc", "not abc" },
                { "graph partition g 8 --seed -1", "not -1" },
                { "graph partition g 8 --seed 1.5", "not 1.5" },
                { "graph partition g 8 --seed ''", "--seed: a value is missing" },
                { "graph partition g 8 --imbalance nan", "not nan" },
                { "graph partition g 8 --imbalance 0", "not 0" },
                { "graph partition g 8 --imbalance 0x1", "not 0x1" },
                { "graph partition g 8 --imbalance ' 1'", "not  1" },
                { "graph reorder g out 5x", "not 5x" },
                { "graph make planted o --degree abc", "--degree takes a number from 0 to 1000000, not abc" },
                { "graph make star o", "star: this is neither" },
                { "graph make planted o --nodes 3 --classes 4", "--classes" },
                { "graph make rmat o --classes 4", "--classes: rmat has none" },
                { "graph sample g o --fanout 15,", "15,: --fanout" },
                { "graph sample g o --fanout 15,x", "15,x" },
                { "graph sample g o --fanout 1,-2", "1,-2" },
                { "graph sample g o --fanout 5 --nodes 3,-1", "3,-1" },
                { "graph sample g o --fanout 5 --nodes 1 --seeds 2", "--seeds" },
                { "graph sample g o", "sample takes FILE OUT --fanout" },
                { "gnn train --epochs 2.7", "--epochs takes a whole number from 1 to 4000, not 2.7" },
                { "gnn train --epochs 0", "not 0" },
                { "gnn train --seeds 2.5", "not 2.5" },
                { "gnn train --hidden 0.5", "not 0.5" },
                { "gnn train --lr fast", "--lr takes a number" },
                { "gnn train --lr 0", "not 0" },
                { "gnn train --threads 0", "from 1 to 256, not 0" },
                { "gnn train --dropout 1", "not 1" },
                { "gnn train --seed", "--seed: a value is missing" },
                { "gnn train --layers lstm", "lstm" },
                { "gnn train --nothing", "unknown option: --nothing" },
                { "gnn train a b", "a second folder: b" },
                { "gnn train a --rings", "--rings" },
                { "gnn train --bits 2", "train takes no --bits" },
                { "gnn quantize --links", "quantize takes no --links" },
                { "gnn infer --model m --epochs 3", "infer takes no --epochs" },
                { "gnn infer", "there is no --model" },
                { "gnn train --rows --no-rows", "--rows" },
                { "gnn train --splits 2 --seeds 2", "--splits" },
                { "gnn train --links --split 1", "--links" },
                { "gnn train --model m", "train takes no --model" },
                { "fastrp -d 12abc", "-d takes a whole number from 1 to 1048576, not 12abc" },
                { "fastrp -d 0", "not 0" },
                { "fastrp --beta abc", "--beta takes a number" },
                { "fastrp -s abc", "-s takes a number" },
                { "fastrp --tile abc", "--tile takes a whole number" },
                { "fastrp --seed -1", "not -1" },
                { "fastrp --powers 1,,2", "1,,2" },
                { "fastrp --powers 1,2,", "1,2," },
                { "fastrp --powers 1,x", "1,x" },
                { "fastrp -o", "-o: a value is missing" },
                { "fastrp a b", "a second graph: b" },
                { "fastrp --loud", "unknown option: --loud" } };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(bad); i++) {
        if (run("%s", bad[i].line) != 2) t_fail(__FILE__, __LINE__, "%s was not refused", bad[i].line);
        has(errors, bad[i].complaint, __LINE__);
        T_EQ_TEXT(said, "");
    }
}

static void test_graph(void)
{
    char text[300];
    if (!is_there()) return;
    T_EQ_INT(run("graph make rmat %s --nodes 1000 --degree 2", at("r.tgraph")), 0);
    COMPLAINS("a power of two of nodes: 1024, not 1000");
    SAYS("1024 nodes, 2000 edges");
    spill("w.tsv", "0 1 0.5\n1 2 2.5\n2 0 3\n");
    T_EQ_INT(run("graph sample %s %s --fanout 2,2", at("w.tsv"), at("s.tsv")), 0);
    slurp("s.tsv", text, sizeof text);
    T_EQ_TEXT(text, "2\t0\t3\n0\t1\t0.5\n1\t2\t2.5\n");
    T_EQ_INT(run("graph convert %s %s --nodes 7", at("w.tsv"), at("w.tgraph")), 0);
    SAYS("7 nodes, 3 edges");
    T_EQ_INT(run("graph info %s", at("w.tgraph")), 0);
    SAYS("isolated     4");
    T_EQ_INT(run("fastrp %s -d 4 --tile 17 -o %s", at("w.tsv"), at("x.npy")), 1);
    T_TRUE(!strncmp(errors, "fastrp: a tile", 14));         /* its name once */
    T_EQ_INT(run("fastrp %s -d 4 --threads 1 --quiet -o %s", at("w.tsv"), at("x.npy")), 0);
    T_EQ_TEXT(errors, "");
    T_EQ_INT(size_of("x.npy"), 128 + 3 * 4 * 4);
}

/* A file of two sets of nodes, of which one is far larger: a program that refuses it indexes nothing by the other set.
 * convert reads both sets with an option. */
static void test_two_sets(void)
{
    static const int32_t src[2] = { 90000, 4 }, dst[2] = { 0, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_graph_desc how = { 0 };
    tgnn_edges e = { 0 };
    tgnn_graph *g = NULL;
    char text[100];
    size_t i;
    static const char *const command[] = { "info %s",
                                           "partition %s 2",
                                           "reorder %s out.tgraph rcm",
                                           "sample %s out.tgraph --fanout 2",
                                           "convert %s out.tgraph",
                                           "convert %s out.tgraph --bipartite --loops" };
    if (is_there()) {
        e.n = 2;
        e.n_dst = 5;                        /* the last ones have no edges */
        e.src = src;
        e.dst = dst;
        how.bipartite = 1;
        T_OK(tgnn_graph_make(ctx, &e, &how, &g));
        T_OK(tgnn_graph_write(ctx, at("two.tgraph"), g));
        for (i = 0; i < T_COUNT(command); i++) {
            char line[400];
            (void)snprintf(line, sizeof line, command[i], at("two.tgraph"));
            T_EQ_INT(run("graph %s", line), 1);
            COMPLAINS(strstr(line, "--loops") ? "a bipartite graph has no loops" : "two.tgraph");
        }
        T_EQ_INT(run("graph convert %s %s --bipartite", at("two.tgraph"), at("two.tsv")), 0);
        SAYS("90001 sources, 5 destinations, 2 edges");
        slurp("two.tsv", text, sizeof text);
        T_EQ_TEXT(text, "# nodes 90001 5\n90000\t0\n4\t1\n");
        T_EQ_INT(run("graph convert %s %s --bipartite", at("two.tsv"), at("w.tgraph")), 0);
        SAYS("90001 sources, 5 destinations, 2 edges");
        T_EQ_INT(run("graph convert %s %s --bipartite --memory 1M", at("two.tsv"), at("r.tgraph")), 0);
        SAYS("90001 sources, 5 destinations, 2 edges");
        T_TRUE(same("two.tgraph", "w.tgraph") && same("two.tgraph", "r.tgraph"));
    }
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_target(void)
{
    static const char *const line[] = { "graph make planted x.tgraph", "gnn train", "fastrp -o x.npy" };
    size_t i;
    if (!is_there()) return;
    T_TRUE(!setenv("TINY_TARGET", "bogus", 1));
    for (i = 0; i < T_COUNT(line); i++) {
        T_EQ_INT(run("%s", line[i]), 1);
        COMPLAINS("TINY_TARGET=bogus");
        T_TRUE(!*said && !strstr(errors, "no memory"));
    }
    T_TRUE(!unsetenv("TINY_TARGET"));
}

/* an output that cannot be written is reported before the training, and a cut one is reported */
static void test_outputs(void)
{
    static const char *const option[] = { "--save", "--svg", "--curve", "-o", "--log" };
    char text[2000];
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(option); i++) {
        T_EQ_INT(run("gnn train --quiet --epochs 2 %s %s/no/such/m", option[i], folder), 1);
        COMPLAINS("no/such/m");
        T_TRUE(!strstr(said, "epochs"));
    }
    spill("kept.svg", "as it was");
    spill("m.safetensors.part", "as it was");
    T_EQ_INT(run("gnn train --quiet --epochs 2 --svg %s --save %s --curve %s/no/such/c.svg", at("kept.svg"), at("m"),
                 folder),
             1);
    slurp("kept.svg", text, sizeof text);
    T_EQ_TEXT(text, "as it was");
    slurp("m.safetensors.part", text, sizeof text);
    T_EQ_TEXT(text, "as it was");
    T_TRUE(size_of("m.json.part") < 0 && size_of("m.json") < 0 && size_of("m.safetensors") < 0);
    (void)remove(at("m.safetensors.part"));
    (void)mkdir(at("x.npy.part"), 0700);                    /* the growing file cannot be created there */
    T_EQ_INT(run("gnn train --quiet --epochs 2 -o %s", at("x.npy")), 1);
    COMPLAINS("x.npy.part cannot be written");
    (void)rmdir(at("x.npy.part"));
    T_EQ_INT(run("gnn train --quiet --epochs 2 -o /dev/null"), 0);
    T_TRUE(!symlink("c.svg", at("link.svg")));              /* it leads nowhere yet, and stays */
    T_EQ_INT(run("gnn train --quiet --epochs 2 --svg %s", at("link.svg")), 0);
    T_TRUE(size_of("c.svg") > 0);
    T_TRUE(!remove(at("c.svg")));
    T_EQ_INT(run("gnn train --quiet --epochs 2 --svg %s --curve %s/no/such/c.svg", at("link.svg"), folder), 1);
    T_TRUE(!unlink(at("link.svg")));
    T_EQ_INT(run("gnn train --quiet --epochs 3 --curve %s", at("c.svg")), 0);
    slurp("c.svg", text, sizeof text);
    has(text, "epoch 1 to 3;", __LINE__);
    if (access("/dev/full", W_OK)) return;
    T_EQ_INT(run("gnn train --quiet --epochs 2 --svg /dev/full"), 1);
    COMPLAINS("/dev/full could not be written");
    T_EQ_INT(run("gnn train --quiet --epochs 2 --curve /dev/full"), 1);
    COMPLAINS("/dev/full could not be written");
    T_EQ_INT(run("fastrp %s -d 4 -o %s >/dev/full", at("g.tgraph"), at("x.npy")), 1);
    COMPLAINS("standard output could not be written");
    T_EQ_INT(run("gnn train --quiet --epochs 2 >/dev/full"), 1);
    COMPLAINS("standard output could not be written");
    T_EQ_INT(run("graph info %s >/dev/full", at("g.tgraph")), 1);
    COMPLAINS("standard output could not be written");
}

/* an impossible number of nodes is refused, not taken for a comment; text that is no number of nodes is a comment */
static void test_many_nodes(void)
{
    static const struct { const char *head; int nodes;
    } line[] = {
        { "# nodes 4294967296", 0 }, { "# nodes 2147483648", 0 },       { "# nodes 100000000000000000000000000", 0 },
        { "# nodes 12", 12 },        { "# nodes 4294967296 or so", 2 }, { "# nodes: 4294967296", 2 },
        { "# nodes -5", 2 }
    };
    char text[200];
    size_t i;
    int k;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(line); i++)
        for (k = 0; k < 2; k++) {           /* in memory, and in pieces */
            (void)snprintf(text, sizeof text, "%s\n0\t1\n", line[i].head);
            spill("w.tsv", text);
            T_EQ_INT(run("graph convert %s %s %s", at("w.tsv"), at("w.tgraph"), k ? "--memory 1M" : ""),
                     line[i].nodes ? 0 : 1);
            if (!line[i].nodes) {
                COMPLAINS("line 1: \"");
                COMPLAINS("expected a number of nodes, at most 2147483647");
                continue;
            }
            (void)snprintf(text, sizeof text, ": %d nodes, 1 edges", line[i].nodes);
            SAYS(text);
        }
    spill("w.tsv", "# nodes 3 4294967296\n0\t1\n");
    T_EQ_INT(run("graph convert %s %s --bipartite", at("w.tsv"), at("w.tgraph")), 1);
    COMPLAINS("\"4294967296\", expected a number of nodes");
    (void)remove(at("w.tsv"));
    (void)remove(at("w.tgraph"));
}

/* FastRP in the place of features is reported, with the file that may have been meant; files of the folder are not
 * overwritten */
static void test_folder(void)
{
    static const char *const bad[] = { "-o %s/labels.txt", "--log %s/splits.txt", "--svg %s/edges.tsv",
                                       "--curve %s/labels.txt", "--save %s/net" };
    char text[300];
    size_t i;
    if (!is_there()) return;
    spill("edges.tsv", "0\t1\n1\t2\n2\t3\n3\t0\n4\t5\n5\t6\n6\t7\n7\t4\n");
    spill("labels.txt", "0\n0\n0\n0\n1\n1\n1\n1\n");
    spill("splits.txt", "train\ntrain\nval\ntest\ntrain\ntrain\nval\ntest\n");
    spill("features.csv", "1,2\n");
    (void)remove(at("features.npy"));
    T_EQ_INT(run("gnn train %s --quiet --epochs 2 --threads 1", folder), 0);
    COMPLAINS("has no features.coo and no features.npy, and features.csv is not read: ");
    COMPLAINS(" columns of FastRP replace the features");
    (void)remove(at("features.csv"));
    T_EQ_INT(run("gnn train %s --epochs 20 --threads 1", folder), 0);
    COMPLAINS("has no features.coo and no features.npy: ");
    T_TRUE(!strchr(errors, '\r') && !strchr(said, '\r'));   /* overwritten lines are for terminals only */
    (void)symlink("labels.txt", at("net.json"));
    for (i = 0; i < T_COUNT(bad); i++) {
        char option[300];
        (void)snprintf(option, sizeof option, bad[i], folder);
        T_EQ_INT(run("gnn train %s --quiet --epochs 2 --threads 1 %s", folder, option), 2);
        COMPLAINS("this file is read, so nothing is written to it");
    }
    slurp("labels.txt", text, sizeof text);
    T_EQ_TEXT(text, "0\n0\n0\n0\n1\n1\n1\n1\n");
    slurp("edges.tsv", text, sizeof text);
    T_TRUE(!strncmp(text, "0\t1\n", 4));
    (void)remove(at("net.json"));
    T_EQ_INT(run("gnn train --quiet --epochs 2 --curve %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("gnn train --net /dev/zero"), 1);
    COMPLAINS("/dev/zero: it has more than 1048576 bytes");
    T_EQ_INT(run("graph convert /dev/zero %s", at("w.tgraph")), 1);
    COMPLAINS("/dev/zero: more than 67108864 bytes");
    T_EQ_INT(run("graph convert /dev/zero %s --memory 1M", at("w.tgraph")), 1);
    T_TRUE(size_of("w.tgraph") < 0);
}

/* infer judges the part that training held out, with the line that train prints */
static void test_infer_judges_held_out(void)
{
    static const char *const what[] = { "--rings --fold 3", "--links --seed 7", "--seeds 2" };
    char line[600], *cut, verdict[300];
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(what); i++) {
        T_EQ_INT(run("gnn train %s --quiet --threads 1 --epochs 3 --save %s", what[i], at("m")), 0);
        cut = strstr(said, "gnn infer --model ");
        if (!T_TRUE(cut != NULL)) return;
        (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(cut, "\n"), cut);
        cut = strstr(said, "test part");
        if (!T_TRUE(cut != NULL)) return;
        (void)snprintf(verdict, sizeof verdict, "%.*s", (int)strcspn(cut, "\n"), cut);
        T_EQ_INT(run("%s --threads 1", line), 0);
        has(said, verdict, __LINE__);
    }
    T_EQ_INT(run("gnn train --split 5"), 1);
    COMPLAINS("planted has no split 5: there is 1");
    T_EQ_INT(run("gnn infer --model %s --split 9", at("m")), 1);
    COMPLAINS("planted has no split 9");
    T_EQ_INT(run("gnn infer --model %s --fold 2", at("m")), 1);
    COMPLAINS("--fold and --batch for graphs");
}

/* A row is divided by its sum where the features are counts; where one is below 0 they are not, and stay. */
static void test_rows(void)
{
    static const char divided[] = "rows divided by their sums";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    float x[8] = { 1, 0, 2, 0, 0, 3, 1, 1 };
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 4, 2);
    if (is_there()) {
        spill("edges.tsv", "0\t1\n1\t2\n2\t3\n");
        spill("labels.txt", "0\n1\n0\n1\n");
        spill("splits.txt", "rr\nrr\nv-\n-t\n");
        T_OK(tgnn_array_write(ctx, at("features.npy"), &t));
        T_EQ_INT(run("gnn train %s --quiet --epochs 1", folder), 0);
        SAYS(divided);
        SAYS("epochs, validation");
        T_TRUE(!strstr(said, "nan") && !strstr(said, ", test"));
        T_EQ_INT(run("gnn train %s --quiet --epochs 1 --no-rows --split 1", folder), 0);
        T_TRUE(!strstr(said, divided) && !strstr(said, "nan") && !strstr(said, "validation"));
        SAYS("test part of split 1");
        x[3] = -1;
        T_OK(tgnn_array_write(ctx, at("features.npy"), &t));
        T_EQ_INT(run("gnn train %s --quiet --epochs 1", folder), 0);
        T_TRUE(!strstr(said, divided));
        T_EQ_INT(run("gnn train %s --quiet --epochs 1 --rows", folder), 0);
        SAYS(divided);
    }
    t_close(ctx);
}

/* waits half a minute at most until the file has that many bytes */
static int wait_for(const char *name, long bytes)
{
    int i;
    for (i = 0; i < 3000 && size_of(name) < bytes; i++) (void)usleep(10000);
    return size_of(name) >= bytes;
}
static pid_t start(const char *const *word)
{
    const char *build = getenv("BUILD");
    char program[300];
    pid_t child = fork();
    if (child) return child;
    (void)alarm(120);                                       /* it ends in any case */
    (void)snprintf(program, sizeof program, "%s/%s", build ? build : "build", word[0]);
    if (!freopen("/dev/null", "r", stdin) || !freopen(at("out"), "w", stdout) || !freopen(at("err"), "w", stderr))
        _exit(127);
    (void)execv(program, (char *const *)(intptr_t)word);
    _exit(127);
}
static int ended(pid_t child)
{
    int status = -1;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    slurp("out", said, sizeof said);
    slurp("err", errors, sizeof errors);
    return WEXITSTATUS(status);
}

/* Ctrl-C in training: finished epochs are in --log, the net of the last one is kept and judged */
static void test_stopped_training(void)
{
    const char *word[] = { "gnn",     "train",  "--epochs", "4000",  "--threads", "1",
                           "--quiet", "--save", NULL,       "--log", NULL,        NULL };
    pid_t child;
    if (!is_there()) return;
    (void)remove(at("m.safetensors"));
    word[8] = at("m");
    word[10] = at("log.tsv");
    child = start(word);
    T_TRUE(child > 0 && wait_for("log.tsv", 4096) && !kill(child, SIGINT));
    T_EQ_INT(ended(child), 130);
    COMPLAINS("stopped in seed 0; its epochs are in");
    SAYS("kept: the net of seed 0; gnn infer --model");
    SAYS("test part: ");
    T_TRUE(size_of("m.safetensors") > 0);
    T_EQ_INT(run("gnn infer --model %s", at("m")), 0);
}

/* Ctrl-C while edges are sorted in pieces: no part is left. The edges come through a pipe, so the test controls the
 * time. */
static void test_stopped_convert(void)
{
    const char *word[] = { "graph", "convert", NULL, NULL, "--memory", "256K", NULL };
    static char text[1 << 20];
    size_t n = 0;
    int to, i;
    pid_t child;
    if (!is_there()) return;
    if (mkfifo(at("pipe"), 0600)) { t_skip("there are no pipes with names"); return; }
    for (i = 0; n + 30 < sizeof text; i++) n += (size_t)snprintf(text + n, 30, "%d\t%d\n", i % 1000, i * 7 % 1000);
    (void)signal(SIGPIPE, SIG_IGN);
    word[2] = at("pipe");
    word[3] = at("c.tgraph");
    child = start(word);
    (void)alarm(120);                                       /* unreadable */
    to = open(at("pipe"), O_WRONLY);
    T_TRUE(child > 0 && to >= 0 && write(to, text, n) > 0 && wait_for("c.tgraph.runs0.part", 0) &&
           !kill(child, SIGINT));
    (void)!write(to, text, n);
    (void)close(to);
    T_EQ_INT(ended(child), 130);
    (void)alarm(0);
    COMPLAINS("stopped");
    T_TRUE(size_of("c.tgraph") < 0 && size_of("c.tgraph.part") < 0 && size_of("c.tgraph.runs0.part") < 0 &&
           size_of("c.tgraph.runs1.part") < 0);
    (void)signal(SIGPIPE, SIG_DFL);
}

/* ---- examples/copy and minimal_gnn: short programs to copy */

/* Four classes by chance are 0.25 of the nodes. A network that was written and is run by minimal_gnn on the same graph
 * names as many test nodes rightly as the program that trained it said. */
static void test_copy_classify(void)
{
    double share = 0, right = 0, all = 0;
    tgnn_data data;
    tiny_ctx *ctx;
    FILE *f;
    const char *line;
    tiny_idx i;
    if (!is_there()) return;
    T_EQ_INT(run("copy/classify"), 0);
    T_EQ_TEXT(errors, "");
    line = strrchr(said, '\n') ? strstr(said, "epoch 200") : NULL;
    T_TRUE(line && (line = strchr(line, '\n')) != NULL);
    T_TRUE(line && sscanf(line, " %lf of the test nodes get the right one of 4 classes", &share) == 1);
    T_TRUE(share > 0.5 && share <= 1);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);       /* the same nodes and edges as a folder */
    T_OK(tgnn_data_planted(ctx, 1000, 4, 10.0, 0.9, 1, &data));
    T_OK(tgnn_array_write(ctx, at("features.npy"), &data.x));
    T_OK(tgnn_graph_write_text(ctx, at("edges.tsv"), data.graph));
    f = fopen(at("labels.txt"), "w");
    for (i = 0; f && i < data.n_nodes; i++) fprintf(f, "%d\n", (int)data.label[i]);
    T_TRUE(f && !fclose(f));
    f = fopen(at("splits.txt"), "w");
    for (i = 0; f && i < data.n_nodes; i++) fprintf(f, "%c\n", data.split[i * data.n_split]);
    T_TRUE(f && !fclose(f));
    T_EQ_INT(run("copy/classify %s %s", folder, at("m.safetensors")), 0);
    line = strstr(said, "epoch 200");
    T_TRUE(line && (line = strchr(line, '\n')) != NULL);
    T_TRUE(line && sscanf(line, " %lf of the test nodes get the right one of 4 classes", &share) == 1 && share > 0.5);
    T_EQ_INT(run("minimal_gnn %s %s %s", at("m.safetensors"), at("edges.tsv"), at("features.npy")), 0);
    for (i = 0, line = said; i < data.n_nodes && *line; i++, line += strcspn(line, "\n") + 1) {
        T_TRUE(*line >= '0' && *line < '4' && line[1] == '\n');
        if (data.split[i * data.n_split] != 't') continue;
        all++;
        right += *line - '0' == data.label[i];
    }
    T_TRUE(i == data.n_nodes && !*line && all > 100);
    T_CLOSE(right / all, share, 0.00051);   /* printed with three digits */
    tgnn_data_free(ctx, &data);
    t_close(ctx);
    (void)remove(at("labels.txt"));
    T_EQ_INT(run("copy/classify %s %s", folder, at("m.safetensors")), 1);
    COMPLAINS("classify: features.coo, labels.txt and splits.txt are needed");
    T_EQ_INT(run("copy/classify there/is/none x"), 1);
    COMPLAINS("there/is/none");
    T_EQ_INT(run("minimal_gnn"), 0);        /* a ring of ten nodes and three classes */
    T_TRUE(strlen(said) == 20 && strspn(said, "012\n") == 20);
    T_EQ_INT(run("minimal_gnn there/is/none a b"), 1);
    COMPLAINS("minimal_gnn: there/is/none");
}

/* Node i is in class i % 4 and most edges stay within a class, so most of its neighbours are of its class: of 20 that
 * are drawn, 5 by chance. */
static void test_copy_fastrp(void)
{
    static const int node[] = { 7, 100, 1001, 1998 };
    int same_class = 0, all = 0, first = 0, second = 0;
    double third = 1, cosine = 0;
    size_t k;
    if (!is_there()) return;
    for (k = 0; k < T_COUNT(node); k++) {
        const char *line = said;
        double before = 1.0;
        int n = 0, other;
        T_EQ_INT(run("copy/fastrp %d", node[k]), 0);
        T_EQ_TEXT(errors, "");
        for (; sscanf(line, "%d %lf", &other, &cosine) == 2; line += strcspn(line, "\n") + 1, n++) {
            T_TRUE(other != node[k] && cosine <= before);
            before = cosine;
            same_class += other % 4 == node[k] % 4;
        }
        T_EQ_INT(n, 5);
        all += n;
    }
    T_TRUE(same_class * 4 >= all * 3);
    /* two triangles: the nodes of one are like each other, and nothing like the others */
    spill("edges.tsv", "0 1\n1 2\n2 0\n3 4\n4 5\n5 3\n");
    T_EQ_INT(run("copy/fastrp 4 %s", at("edges.tsv")), 0);
    T_TRUE(sscanf(said, "%d %*f\n%d %*f\n%*d %lf", &first, &second, &third) == 3);
    T_TRUE(first + second == 8 && first * second == 15 && third < 0.5);
    /* two stars whose edges lead outwards: the leaves of one have the same neighbour, seen in both directions only */
    spill("edges.tsv", "0 1\n0 2\n3 4\n3 5\n");
    T_EQ_INT(run("copy/fastrp 1 %s", at("edges.tsv")), 0);
    T_TRUE(sscanf(said, "%d %lf\n%d %*f\n%*d %lf", &first, &cosine, &second, &third) == 4);
    T_TRUE(first + second == 2 && first * second == 0 && cosine > 0.999 && third < 0.5);
    T_EQ_INT(run("copy/fastrp 6 %s", at("edges.tsv")), 1);
    COMPLAINS("fastrp: the nodes are 0 to 5");
    T_EQ_INT(run("copy/fastrp"), 2);
}

/* The paper's Tetris: with couplings all shapes are learnt, with Gaunt's product the mirror images stay tied. */
static void test_tetris(void)
{
    int seed;
    if (!is_there()) return;
    for (seed = 0; seed < 3; seed++) {
        T_EQ_INT(run("tetris --seed %d --steps 500 --quiet --threads 1", seed), 0);
        T_EQ_TEXT(errors, "");
        SAYS("Clebsch-Gordan: 8 of 8 shapes; the mirror images are told apart");
        SAYS("Gaunt: 6 of 8 shapes; the mirror images are tied");
    }
    T_EQ_INT(run("tetris --steps x"), 2);
    COMPLAINS("--steps takes a whole number");
    T_PROOF("geometry 1", "Tetris: all 8 shapes with Clebsch-Gordan over 3 seeds, the mirror images tied with Gaunt");
}

static void test_meta_prune(void)
{
    char picture[64];
    if (!is_there()) return;
    T_EQ_INT(run("meta_prune --help"), 0);
    SAYS("--speedup X");
    T_EQ_INT(run("meta_prune --speedup 0.5"), 2);
    COMPLAINS("--speedup takes 1 to 100");
    T_EQ_INT(run("meta_prune --nets 0"), 2);
    COMPLAINS("--nets takes a whole number");
    T_EQ_INT(run("meta_prune --hidden 3 --nets 1 --tests 1 --samples 100 --epochs 1 --width 2"), 1);
    COMPLAINS("3 hidden numbers");
    T_EQ_INT(run("meta_prune --nets 1 --tests 1 --samples 100 --epochs 1 --width 2 --hidden 4 --layers 1 --meta 1 "
                 "--before 1 --after 1 --speedup 1.5 --svg %s", at("m.svg")), 0);
    SAYS("rewritten");
    slurp("m.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
}

/* A small potential is trained, its pictures are drawn and its parameters read again; the energy of the dynamics stays.
 * Options that do not fit are refused. */
static void test_tdn(void)
{
    static const char few[] = "--atoms 4 --clusters 10 --width 4 --blocks 1 --degree 1 --threads 1";
    char first[120];
    const char *line;
    if (!is_there()) return;
    T_EQ_INT(run("tdn train %s --epochs 2 --steps 40 --save %s --energies %s --forces %s", few, at("net.ckpt"),
                 at("e.svg"), at("f.svg")), 0);
    T_EQ_TEXT(errors, "");
    SAYS("product: fold, the cheapest");
    SAYS("40 steps of 0.005: energy");
    T_TRUE(size_of("e.svg") > 2000 && size_of("f.svg") > 2000);
    line = strstr(said, "2 new clusters: ");
    (void)snprintf(first, sizeof first, "%.60s", line ? line : "?");
    T_EQ_INT(run("tdn train %s --load %s --steps 0 --quiet", few, at("net.ckpt")), 0);
    SAYS(first);
    T_EQ_INT(run("tdn table --degree 1 --sweeps 2 --threads 1"), 0);
    SAYS("Clebsch-Gordan, sparse");
    T_EQ_INT(run("tdn train --product gaunt"), 2);
    COMPLAINS("gaunt: the product must be exact, dense, sparse, fold or cp");
    T_EQ_INT(run("tdn train --rank 8"), 2);
    COMPLAINS("--rank and --factors are for --product cp");
    T_EQ_INT(run("tdn train --degree 0"), 2);
    COMPLAINS("--degree");
    T_EQ_INT(run("tdn train --steps 0 --energies e.svg"), 2);
    COMPLAINS("--steps is 0");
    T_EQ_INT(run("tdn table --save net.ckpt"), 2);
    COMPLAINS("are for train");
    T_EQ_INT(run("tdn train %s --load /nowhere/net --steps 0", few), 1);
    COMPLAINS("/nowhere/net");
}

/* potential: a tiny model from a seed, the same from its file; structures that are cut or wrong; outputs */
static void test_potential(void)
{
    static const struct { const char *text, *part; } wrong[] = {
        { "", "there is no structure" },
        { "x\n", "line 1: a structure begins with its number of atoms" },
        { "3000000\n\n", "at most 2000000" },
        { "2\n", "the line with the cell is missing" },
        { "2\n\nH 0 0 0\n", "the file ends after 1 of 2 atoms" },
        { "1\n\nH 0 0\n", "line 3: an atom needs an element and three coordinates" },
        { "1\n\nQq 0 0 0\n", "no symbol of an element" },
        { "1\n\nH 0 nan 0\n", "a coordinate is no number" },
        { "1\nLattice=\"1 2 3\"\nH 0 0 0\n", "Lattice needs nine numbers" },
        { "1\npbc=\"T T T\"\nH 0 0 0\n", "periodic, but has no Lattice" },
        { "1\nLattice=\"1 0 0 2 0 0 0 0 1\"\nH 0 0 0\n", "the cell has no volume" },
        { "2\n\nH 0 0 0\nH 0 0 0\n", "atoms 1 and 2 (counted from 1) are in one place" }
    };
    char first[300];
    size_t i;
    if (!is_there()) return;
    spill("two.tsv", "3\nLattice=\"4 0 0 0 4 0 0 0 4\" Properties=id:I:1:species:S:1:pos:R:3\n1 O 0 0 0\n2 H 1 0 0\n"
                     "3 H -.3 .9 0\n");
    T_EQ_INT(run("potential tiny %s --f64 --forces --stress --save %s", at("two.tsv"), at("m.safetensors")), 0);
    T_EQ_TEXT(errors, "");
    SAYS("structure 1: 3 atoms, ");
    (void)snprintf(first, sizeof first, "%.60s", strstr(said, "3 atoms, ") ? strstr(said, "3 atoms, ") : "-");
    T_EQ_INT(run("potential %s %s --f64", at("m.safetensors"), at("two.tsv")), 0);
    SAYS(first);
    T_EQ_INT(run("potential tiny %s --md 4 --every 2 --out %s", at("two.tsv"), at("w.tsv")), 0);
    SAYS("drift of the total energy");
    slurp("w.tsv", said, sizeof said);
    SAYS("Lattice=\"4 0 0 0 4 0 0 0 4\" pbc=\"T T T\" energy=");
    T_EQ_INT(run("potential tiny %s --relax 3", at("w.tsv")), 0);      /* what it wrote it reads */
    SAYS("largest force");
    for (i = 0; i < T_COUNT(wrong); i++) {
        spill("s.tsv", wrong[i].text);
        T_EQ_INT(run("potential tiny %s", at("s.tsv")), 1);
        COMPLAINS(wrong[i].part);
    }
    spill("s.tsv", "1\n\nFe 0 0 0\n");
    T_EQ_INT(run("potential %s %s", at("m.safetensors"), at("s.tsv")), 1);
    COMPLAINS("atomic number 26, which the model does not know");
    T_EQ_INT(run("potential tiny %s --out %s", at("s.tsv"), at("s.tsv")), 2);
    COMPLAINS("nothing is written to it");
    T_EQ_INT(run("potential tiny %s --md 3 --relax 3", at("s.tsv")), 2);
    COMPLAINS("do not go together");
    T_EQ_INT(run("potential tiny %s --every 5", at("s.tsv")), 2);
    COMPLAINS("are for --md");
    T_EQ_INT(run("potential tiny %s --md 3 --limit 5", at("s.tsv")), 2);
    COMPLAINS("--limit is for --relax");
    T_EQ_INT(run("potential tiny"), 2);
}

static void tidy(void)
{
    static const char *const names[] = { "out",        "err",        "g.tgraph",     "r.tgraph",      "w.tsv",
                                         "s.tsv",      "w.tgraph",   "x.npy",        "two.tgraph",    "two.tsv",
                                         "kept.svg",   "c.svg",      "m.json",       "m.safetensors", "edges.tsv",
                                         "labels.txt", "splits.txt", "features.npy", "log.tsv",       "pipe",
                                         "net.ckpt",   "e.svg",      "f.svg",        "m.svg" };
    size_t i;
    for (i = 0; i < T_COUNT(names); i++) (void)remove(at(names[i]));
    (void)rmdir(folder);
}

int main(void)
{
    T_RUN(test_invalid_arguments);
    T_RUN(test_graph);
    T_RUN(test_two_sets);
    T_RUN(test_target);
    T_RUN(test_outputs);
    T_RUN(test_many_nodes);
    T_RUN(test_folder);
    T_RUN(test_infer_judges_held_out);
    T_RUN(test_rows);
    T_RUN(test_stopped_training);
    T_RUN(test_stopped_convert);
    T_RUN(test_copy_classify);
    T_RUN(test_copy_fastrp);
    T_RUN(test_tetris);
    T_RUN(test_meta_prune);
    T_RUN(test_tdn);
    T_RUN(test_potential);
    tidy();
    return t_done();
}
#else
int main(void)
{
    puts("skipped: main: it needs a shell");
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
}
#endif
