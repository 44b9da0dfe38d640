/* tests/llm/tools.c - the programs of examples/ that train, measure, compress and serve, as a user runs them */
#include "llm/run.h"

#if defined __unix__ || defined __APPLE__
#include <fcntl.h>

/* a folder of 8 rings of 4 nodes */
static void spill_rings(const char *folds)
{
    char edges[1000], of[400], label[100];
    int i, n = 0, m = 0, k = 0;
    for (i = 0; i < 32; i++) {
        n += snprintf(edges + n, sizeof edges - (size_t)n, "%d\t%d\n", i, i / 4 * 4 + (i + 1) % 4);
        m += snprintf(of + m, sizeof of - (size_t)m, "%d\n", i / 4);
        if (i % 4 == 0) k += snprintf(label + k, sizeof label - (size_t)k, "%d\n", i / 4 % 2);
    }
    spill("edges.tsv", edges);
    spill("graph_of_node.txt", of);
    spill("graph_labels.txt", label);
    spill("meta.txt", "nodes 32\ngraphs 8\n");
    spill("folds.txt", folds);
}

/* Splits and folds that have no part to test with: no averages over nothing, and no failure after the training. */
static void test_gnn_without_test_part(void)
{
    static const char train[] = "gnn train --quiet --threads 1 --epochs 2";
    char text[300];
    int i, n = 0;
    if (!is_there()) return;
    if (run("", "gnn --help")) { t_skip("gnn does not run here"); return; }
    T_EQ_INT(run("", "gnn train --folds 11"), 2);
    T_EQ_INT(run("", "gnn train --fold 0.5"), 2);
    T_EQ_INT(run("", "gnn train --batch 2.5"), 2);
    T_EQ_INT(run("", "gnn train --links --splits 3"), 2);
    T_EQ_INT(run("", "gnn train --fold 2"), 1);
    COMPLAINS("--fold and --batch for graphs");
    T_EQ_INT(run("", "gnn train --rings --area"), 1);
    COMPLAINS("--splits and --area are for nodes");
    T_EQ_INT(run("", "gnn infer"), 2);
    spill("edges.tsv", "0\t1\n1\t2\n2\t3\n");
    T_EQ_INT(run("", "%s %s --links", train, folder), 0);
    SAYS("3 links to learn from, 0 to test with");
    T_TRUE(!strstr(said, "area under"));
    spill("labels.txt", "0\n1\n0\n1\n");
    spill("splits.txt", "r\nr\nv\n-\n");
    T_EQ_INT(run("", "%s %s --seeds 2", train, folder), 0);
    SAYS("seed 1: 2 epochs, validation");
    T_TRUE(!strstr(said, "mean"));
    T_EQ_INT(run("", "%s %s --split 1", train, folder), 1);
    COMPLAINS("no split 1");
    spill("labels.txt", "0\n1\n0\n2147483647\n");
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    for (i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text, "%s/%s.txt", folder, i ? "labels" : "splits");
        (void)remove(text);
    }
    spill_rings("1\n1\n2\n2\n3\n3\n-\n-\n");
    T_EQ_INT(run("", "%s %s --save %s/m", train, folder, folder), 0);
    SAYS("fold 3: 2 epochs");
    SAYS("over 3 folds");
    T_TRUE(!strstr(said, "fold 4") && !strstr(said, "nan"));
    T_EQ_INT(run("", "gnn infer --model %s/m %s", folder, folder), 0);
    SAYS("of 2 right");
    for (i = 0; i < 8; i++) n += snprintf(text + n, sizeof text - (size_t)n, "%d\n", i / 2);
    spill_rings(text);                      /* from 0 on: the first would always be learned from */
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    COMPLAINS("folds count from 1");
    spill_rings("1\n1\n3\n3\n1\n1\n3\n3\n");
    T_EQ_INT(run("", "%s %s", train, folder), 1);
    COMPLAINS("folds count from 1");
}

static void test_needle(void)
{
    if (!is_there()) return;
    T_EQ_INT(run("", "needle --seeds 0"), 2);
    COMPLAINS("--seeds takes a whole number from 1 to 100, not 0");
    T_EQ_INT(run("", "needle --seeds 1 --epochs 1"), 0);
    SAYS("twist - plain");
}

static void test_rank_training(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "onebyte --help") || run("", "noloco --help")) {
        t_skip("onebyte or noloco does not run here");
        return;
    }
    SAYS("--check");
    T_EQ_INT(run("", "onebyte story"), 2);
    COMPLAINS("a model file is needed");
    T_EQ_INT(run("", "onebyte blobs --out %s/x", folder), 2);
    COMPLAINS("only story has an adapter");
    T_EQ_INT(run("", "onebyte blobs --eps 0"), 2);
    COMPLAINS("--eps takes a number from");
    T_EQ_INT(run("", "onebyte blobs --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "onebyte story README.md --ranks 1"), 1);
    COMPLAINS("README.md");
    T_EQ_INT(run("", "onebyte blobs --ranks 3 --steps 8 --check --svg %s/o.svg --log %s/o.log", folder, folder), 0);
    SAYS("the same weights, bit for bit");
    (void)slurp("o.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    T_EQ_INT(run("", "onebyte blobs --ranks 3 --steps 8 --replay %s/o.log", folder), 0);
    T_EQ_INT(run("", "onebyte blobs --ranks 2 --steps 8 --replay %s/o.log", folder), 1);
    COMPLAINS("another description");
    T_EQ_INT(run("", "noloco --method sum"), 2);
    COMPLAINS("there are noloco, diloco and full");
    T_EQ_INT(run("", "noloco --ranks 1"), 2);
    COMPLAINS("2 replicas or more");
    T_EQ_INT(run("", "noloco --ranks 2 --steps 4 --inner 2 --check --svg %s/l.svg", folder), 0);
    SAYS("bit for bit");
    T_EQ_INT(run("", "noloco --ranks 2 --steps 2 --inner 2 --svg %s/no/l.svg", folder), 1);
    COMPLAINS("cannot be written");
}

static void test_nets(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "compress_net --help")) { t_skip("compress_net does not run here"); return; }
    SAYS("--svg FILE");
    T_EQ_INT(run("", "compress_net --task mnist"), 2);
    COMPLAINS("there are mix60 and tex16");
    T_EQ_INT(run("", "compress_net --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "compress_net --keep 0"), 2);
    COMPLAINS("--keep takes 0.0001 to 1");
    T_EQ_INT(run("", "compress_net --keep nan"), 2);
    T_EQ_INT(run("", "compress_net --map sphere"), 2);
    COMPLAINS("there are fold, tile and hash");
    T_EQ_INT(run("", "compress_net --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "compress_net --seeds 2 --epochs 1 --keep 0.5 --keep 0.01 --svg %s/nets.svg", folder), 0);
    SAYS("method");
    SAYS("lottery");
    SAYS("rps");
    SAYS("a layer is empty");
    (void)slurp("nets.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    T_EQ_INT(run("", "compress_net --seeds 1 --epochs 1 --method dense --svg %s/no/n.svg", folder), 1);
    COMPLAINS("no/n.svg");
    T_EQ_INT(run("", "robust_nets --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "robust_nets --keep 1"), 2);
    COMPLAINS("--keep takes 0.001 to 0.99");
    T_EQ_INT(run("", "robust_nets --csv nowhere/r --json nowhere/r"), 2);
    COMPLAINS("nowhere/r: two options would write this file");
    T_EQ_INT(run("", "robust_nets --severity 6"), 2);
    T_EQ_INT(run("", "robust_nets --seeds 1 --epochs 1 --method synflow --keep 0.1 --list 1 --csv %s/r.csv "
                     "--json %s/r.json --svg %s/r.svg", folder, folder, folder), 0);
    SAYS("fragile: sample");
    SAYS("brightness");
    (void)slurp("r.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    (void)slurp("r.csv", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "method,keep,seed,", 17));
    T_EQ_INT(run("", "rank_nets --set all"), 2);
    COMPLAINS("there are grid and equal");
    T_EQ_INT(run("", "rank_nets --seeds 1 --epochs 1 --samples 8 --verbose"), 0);
    SAYS("gradsign");
    SAYS("seed 1, 5 layers, width 4:");
    T_EQ_INT(run("", "rank_nets --seeds 1 --epochs 1 --samples 4 --search"), 0);
    SAYS("the best of 100 by GradSign");
}

static void test_pipeline(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "pipeline --help")) { t_skip("pipeline does not run here"); return; }
    SAYS("--schedule S");
    T_EQ_INT(run("", "pipeline --schedule ring"), 2);
    COMPLAINS("--schedule takes gpipe or 1f1b, not ring");
    T_EQ_INT(run("", "pipeline --ranks 3 --tensor 2"), 2);
    COMPLAINS("3 ranks are no multiple of 2 tensor times 1 data ranks");
    T_EQ_INT(run("", "pipeline --bubble --plan"), 2);
    T_EQ_INT(run("", "pipeline --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    T_EQ_INT(run("", "pipeline --layers 3"), 1);
    COMPLAINS("3 layers in 2 pieces");
    T_EQ_INT(run("", "pipeline --check --steps 2 --ranks 4 --tensor 2 --chunks 2 --scatter --svg %s/p.svg", folder), 0);
    SAYS("check: the same as one rank");
    (void)slurp("p.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    T_EQ_INT(run("", "pipeline --bubble --unit 0.1"), 0);
    SAYS("by the formula");
    T_EQ_INT(run("", "pipeline --plan --memory 0.5"), 1);
    COMPLAINS("no split fits");
    T_EQ_INT(run("", "pipeline --plan"), 0);
    SAYS("174.6 billion parameters");
}

static void test_search_net(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "search_net --help")) { t_skip("search_net does not run here"); return; }
    SAYS("--target SHARE");
    T_EQ_INT(run("", "search_net --method magic"), 2);
    COMPLAINS("there is no such method");
    T_EQ_INT(run("", "search_net --target 2"), 2);
    COMPLAINS("--target takes a number from 0.01 to 1");
    T_EQ_INT(run("", "search_net --method full --svg %s/s.svg", folder), 2);
    COMPLAINS("needs the method tas");
    T_EQ_INT(run("", "search_net --target 0.01 --method tas --samples 100"), 2);
    COMPLAINS("the least widths and depths cost");
    T_EQ_INT(run("", "search_net --samples 100 --width 2 --stages 2 --epochs 1 --search 60 --rate 0.05 --svg %s/s.svg "
                     "--save %s/s.ckpt", folder, folder), 0);
    SAYS("seed 1: the search took 60 steps");
    SAYS("tas+kd");
    (void)slurp("s.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    (void)slurp("s.ckpt", picture, sizeof picture);
    T_TRUE(picture[0] != 0);
}

/* Runs a master, and a worker as soon as it waits for one. Fills `said` and `errors` with what the master says, and
 * `worker` with the messages of the worker. Returns the status of the master. worker_words NULL: no worker. */
static char worker[4000];
static int wait_for_master(const char *sentence)
{
    char status[20] = "";
    int i;
    for (i = 0; i < 3000 && !slurp("m.status", status, sizeof status); i++) {
        (void)slurp("m.err", errors, sizeof errors);
        if (sentence && strstr(errors, sentence)) return -1;
        (void)usleep(10000);
    }
    (void)slurp("m.out", said, sizeof said);
    (void)slurp("m.err", errors, sizeof errors);
    return *status ? atoi(status) : -1;
}
static void start_master(const char *program, const char *options, const char *out)
{
    const char *build = getenv("BUILD");
    char line[2000];
    (void)snprintf(line, sizeof line,
                   "(rm -f %s/m.*; %s/%s master examples/models/story.gguf 'Once upon a time' --key %s/key "
                   "--listen unix:%s/c --threads 1 --n 24 --wait 30 %s >%s/%s 2>%s/m.err; echo $? >%s/m.status) &",
                   folder, build ? build : "build", program, folder, folder, options, folder, out, folder, folder);
    spill("m.status", "");
    T_EQ_INT(system(line), 0);
}
static int together(const char *program, const char *options, const char *worker_words, int *worker_status)
{
    start_master(program, options, "m.out");
    if (worker_words) {
        (void)wait_for_master("waiting for 1 worker at");
        *worker_status = run("", "%s worker %s --key %s/key --threads 1", program, worker_words, folder);
        (void)snprintf(worker, sizeof worker, "%.3900s", errors);
    }
    return wait_for_master(NULL);
}

/* The same, but the worker is killed while the master waits: its first word goes into a pipe that is full. */
static int bereave(const char *program, const char *options)
{
    static const char junk[512];            /* zeros, which a text has none of */
    const char *build = getenv("BUILD");
    char line[2000], path[300], text[2000];
    size_t n_text = 0;
    ssize_t n, k;
    int i, fd = -1, status;
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    if (!T_TRUE(!mkfifo(path, 0600) && (fd = open(path, O_RDWR | O_NONBLOCK)) >= 0)) return -1;
    while (write(fd, junk, sizeof junk) > 0 || write(fd, junk, 1) > 0) {}
    start_master(program, options, "pipe");
    (void)wait_for_master("waiting for 1 worker at");
    spill("w.err", "");                     /* nothing of an earlier worker */
    spill("w.pid", "");
    (void)snprintf(line, sizeof line,
                   "%s/%s worker examples/models/story.gguf unix:%s/c --key %s/key --threads 1 >%s/w.out 2>%s/w.err & "
                   "echo $! >%s/w.pid", build ? build : "build", program, folder, folder, folder, folder, folder);
    T_EQ_INT(system(line), 0);
    for (*worker = 0, i = 0; i < 3000 && !strstr(worker, "rank 1 of 2"); i++) {
        (void)slurp("w.err", worker, sizeof worker);
        (void)usleep(10000);
    }
    (void)usleep(100000);                   /* most of the time the master has its first word then */
    (void)slurp("w.pid", line, sizeof line);
    T_TRUE(atoi(line) > 1 && !kill((pid_t)atoi(line), SIGKILL));
    for (i = 0; i < 3000; i++) {
        const int over = slurp("m.status", line, sizeof line) > 0;
        while ((n = read(fd, line, sizeof line)) > 0)
            for (k = 0; k < n; k++) if (line[k] && n_text < sizeof text - 1) text[n_text++] = line[k];
        if (over) break;
        (void)usleep(10000);
    }
    (void)close(fd);
    (void)remove(path);
    status = wait_for_master(NULL);
    text[n_text] = 0;
    (void)snprintf(said, sizeof said, "%s", text);
    return status;
}

/* a ring over processes that join it: the text of the model in memory, a wrong model, and a worker that is killed */
static void try_prima_group(void)
{
    char words[700], options[300];
    int ended = -1;
    (void)snprintf(words, sizeof words, "%s/key", folder);
    (void)remove(words);                    /* of test_cluster */
    T_EQ_INT(run("", "prima key %s/key", folder), 0);
    (void)snprintf(words, sizeof words, "examples/models/story.gguf unix:%s/c --window 1", folder);
    if (!T_EQ_INT(together("prima", "--check --layers 1,1", words, &ended), 0)) printf("  %s%s\n", errors, worker);
    COMPLAINS("are those of the model in memory");
    COMPLAINS("ring: ");
    T_EQ_INT(ended, 0);
    has(worker, "rank 1 of 2", __LINE__);
    has(worker, "the master has ended", __LINE__);
    spill("devices.txt", "desktop 4 2.4 0\nlaptop 9 2.4 0\n");
    (void)snprintf(options, sizeof options, "--check --devices %s/devices.txt", folder);
    (void)snprintf(words, sizeof words, "examples/models/story.gguf unix:%s/c --resident --rank 1", folder);
    if (!T_EQ_INT(together("prima", options, words, &ended), 0)) printf("  %s%s\n", errors, worker);
    COMPLAINS("are those of the model in memory");
    COMPLAINS("desktop: 3 layers a round\nlaptop: 1 layer a round");
    T_EQ_INT(ended, 0);
    (void)snprintf(words, sizeof words, "%s unix:%s/c", a_story, folder);
    T_EQ_INT(together("prima", "--wait 2", words, &ended), 1);
    T_EQ_INT(ended, 1);
    has(worker, "it has another model", __LINE__);
    (void)snprintf(words, sizeof words, "examples/models/story.gguf unix:%s/c", folder);
    T_EQ_INT(together("prima", "--layers 3,3 --wait 2", words, &ended), 1);
    T_EQ_INT(ended, 1);
    COMPLAINS("4 layers are not whole rounds of 6 layers");
    T_EQ_INT(bereave("prima", ""), 1);
    COMPLAINS("rank 1 is gone");
    T_EQ_INT(run("", "prima master examples/models/story.gguf x --layers 1,1,1 --key %s/key", folder), 2);
    COMPLAINS("for each of 2 ranks");
    T_EQ_INT(run("", "prima worker examples/models/story.gguf --key %s/key", folder), 2);
    COMPLAINS("the address of the master is missing");
    T_EQ_INT(run("", "prima worker examples/models/story.gguf 127.0.0.1:1"), 1);
    COMPLAINS("--key FILE is missing: make one with prima key FILE");
    (void)snprintf(words, sizeof words, "%s/key", folder);
    T_TRUE(!remove(words));
    T_PROOF("distributed 1", "ring: master and worker that join by address and key, killed too: build/prima");
}

/* The system allows the process a third of the model: it runs behind its window, with the same text; without, never. */
static void try_memory(void)
{
    char path[300], text[2000];
    struct stat is;
    if (run("", "make-model --shape 37M --type F32 %s/m.gguf", folder)) return;
    (void)snprintf(path, sizeof path, "%s/m.gguf", folder);
    T_TRUE(!stat(path, &is) && is.st_size >= 3 * 49000000);
    if (run("", "prima run examples/models/story.gguf Once --n 1 --memory 49")) t_skip("no limit of memory here");
    else {
        T_EQ_INT(run("", "prima run %s Once --n 4 --context 64 --batch 4 --resident", path), 0);
        (void)snprintf(text, sizeof text, "%.1900s", said);
        if (!T_EQ_INT(run("", "prima run %s Once --n 4 --context 64 --batch 4 --memory 49", path), 0)) puts(errors);
        T_EQ_TEXT(said, text);
        COMPLAINS("the system allows it 49.0 MB");
        T_EQ_INT(run("", "prima run %s Once --n 4 --context 64 --batch 4 --memory 49 --resident", path), 1);
        COMPLAINS("the allocator could not provide");
        T_PROOF("distributed 1", "a model three times larger than the memory that the system allows: the same text");
    }
    (void)remove(path);
}

static void test_prima(void)
{
    if (!is_there()) return;
    if (run("", "prima --help")) { t_skip("prima does not run here"); return; }
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --ranks 2 --layers 2,1,1"), 2);
    COMPLAINS("for each of 2 ranks");
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --window 0"), 2);
    COMPLAINS("--window");
    T_EQ_INT(run("", "prima plan examples/models/story.gguf"), 2);
    COMPLAINS("table of devices");
    T_EQ_INT(run("", "prima run README.md Once"), 1);
    COMPLAINS("not a GGUF file");
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --ranks 2 --layers 2,1 --n 4"), 1);
    COMPLAINS("4 layers are not whole rounds of 3 layers");
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --n 8 --check"), 0);
    COMPLAINS("MB by the formula");
    COMPLAINS("are those of the model in memory");
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --n 8 --check --ranks 3 --layers 1,2,1 --tcp"), 0);
    COMPLAINS("are those of the model in memory");
    T_EQ_INT(run("", "prima run examples/models/story.gguf Once --n 8 --check --ranks 2 --layers 1,1 --resident"), 0);
    try_prima_group();
    try_memory();
    spill("devices.txt", "# name ms MB MB/s\ndesktop 4 1.7 0\nlaptop 9 1.2 0\nphone 30 1 400 android\n");
    T_EQ_INT(run("", "prima plan examples/models/story.gguf %s/devices.txt --svg %s/plan.svg", folder, folder), 0);
    has(said, "desktop", __LINE__);
    has(said, "round", __LINE__);
    spill("devices.txt", "desktop 4 1.7\n");
    T_EQ_INT(run("", "prima plan examples/models/story.gguf %s/devices.txt", folder), 1);
    COMPLAINS("line 1");
    spill("devices.txt", "desktop 4 0.1 0\n");
    T_EQ_INT(run("", "prima plan examples/models/story.gguf %s/devices.txt", folder), 1);
    COMPLAINS("do not fit the memory");
}

static void test_split(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "split --help")) { t_skip("split does not run here"); return; }
    SAYS("--deadline MS");
    T_EQ_INT(run("", "split --trace 100,x"), 2);
    COMPLAINS("--trace takes up to 32 rates");
    T_EQ_INT(run("", "split --members 17"), 2);
    COMPLAINS("--members takes a whole number from 1 to 16, not 17");
    T_EQ_INT(run("", "split --device 127.0.0.1:1"), 2);
    COMPLAINS("both ends need --net and --key");
    T_EQ_INT(run("", "split --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    spill("split.net.one", "mine");
    T_EQ_INT(run("", "split --compare --net %s/split.net", folder), 2);
    COMPLAINS("writes and removes a file of this name");
    (void)slurp("split.net.one", picture, sizeof picture);
    T_TRUE(!strcmp(picture, "mine"));
    T_EQ_INT(run("", "split --train 200 --epochs 1 --trace 10000,400 --frames 3 --svg %s/split.svg", folder), 0);
    SAYS("controller");
    SAYS("8-bit pixels");
    (void)slurp("split.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
}

static void test_vision(void)
{
    char picture[40];
    if (!is_there()) return;
    if (run("", "vision --help")) { t_skip("vision does not run here"); return; }
    SAYS("--recursive");
    T_EQ_INT(run("", "vision --merge 1,2"), 2);
    COMPLAINS("1,2: --merge takes four whole numbers");
    T_EQ_INT(run("", "vision --train 7"), 2);
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 1 --tune 1 --picture %s/merged.pgm", folder), 0);
    SAYS("seed 1, merged with PYRA, head tuned: ");
    SAYS("65 tokens");
    (void)slurp("merged.pgm", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "P5\n1088 272\n255\n", 16));
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 0 --tune 0 --picture %s/no/m.pgm", folder), 1);
    COMPLAINS("cannot be written");
    T_EQ_INT(run("", "vision --seeds 1 --train 16 --test 8 --epochs 0 --tune 0 --merge 1,-1,1,1"), 1);
    COMPLAINS("-1 merges in block 1");
    T_EQ_INT(run("", "vision --seeds 2 --train 16 --test 8 --epochs 1 --recursive"), 0);
    SAYS("2 seeds, 16 images");
}

/* tables, a stored text, its listing, and a model that continues */
static void test_cache(void)
{
    static const char model[] = "examples/models/story-small.gguf";
    if (!is_there()) return;
    T_EQ_INT(run("", "cache --help"), 0);
    SAYS("cache profile MODEL");
    T_EQ_INT(run("", "cache"), 2);
    T_EQ_INT(run("", "cache read x"), 2);
    T_EQ_INT(run("", "cache save %s text", model), 2);
    COMPLAINS("-o");
    T_EQ_INT(run("", "cache save %s -o x", model), 2);
    COMPLAINS("wrong number of arguments");
    T_EQ_INT(run("", "cache save %s text -o x --level 5", model), 2);
    COMPLAINS("--level takes a whole number from 1 to 4, not 5");
    T_EQ_INT(run("", "cache save %s text -o x --level 2.5", model), 2);
    COMPLAINS("not 2.5");
    T_EQ_INT(run("", "cache info --no-such-option"), 2);
    COMPLAINS("--no-such-option");
    spill("texts", "one day , Ella was in the barn .\n\non a warm evening , Leo had three stones .\n");
    T_EQ_INT(run("", "cache profile %s %s/texts -o %s/tables", model, folder, folder), 0);
    SAYS("2 texts, ");
    T_EQ_INT(run("", "cache save %s 'one day , Leo was in the' -o %s/kept --tables %s/tables --level 4 --chunk 3",
                 model, folder, folder),
             0);
    SAYS("tokens in");
    T_EQ_INT(run("", "cache info %s/kept", folder), 0);
    SAYS("level 4");
    SAYS("chunk 2: tokens 6 to");
    T_EQ_INT(run("", "cache load %s %s/kept --tables %s/tables --n 8", model, folder, folder), 0);
    T_TRUE(strlen(said) > 8);
    COMPLAINS("tokens were loaded");
    T_EQ_INT(run("", "cache save %s 'one day' -o %s/alone", model, folder), 0);
    T_EQ_INT(run("", "cache load %s %s/alone --n 0", model, folder), 0);
    T_EQ_INT(run("", "cache load %s %s/kept", model, folder), 1);
    COMPLAINS("no tables are given");
    T_EQ_INT(run("", "cache load examples/models/story-latent.gguf %s/kept --tables %s/tables", folder, folder), 1);
    COMPLAINS("another model");
    T_EQ_INT(run("", "cache load %s %s/texts", model, folder), 1);
    COMPLAINS("are not a kept cache");
    T_EQ_INT(run("", "cache profile %s %s/nothing -o %s/tables", model, folder, folder), 1);
    COMPLAINS("nothing");
    T_EQ_INT(run("", "cache stream --deadline 2 --traces 5"), 0);
    SAYS("all that is left");
    T_EQ_INT(run("", "cache stream --deadline 0"), 2);
}

/* every option is checked before anything is measured; the JSON is complete for any file name */
static void test_bench_model(void)
{
    static const struct { const char *options, *sentence;
    } bad[] = { { "--target", "--target: a value is missing" },
                { "-t ''", "-t: a value is missing" },
                { "-t 1,x --json", "not 1,x" },
                { "-t 4294967297", "from 1 to 256, not 4294967297" },
                { "-t 257", "from 1 to 256, not 257" },
                { "-p 4x", "-p takes a whole number from 0 to 60000, not 4x" },
                { "-n 2x", "not 2x" },
                { "-r 1x", "not 1x" },
                { "-p 60001", "not 60001" },
                { "-r 32", "from 1 to 31, not 32" },
                { "--batch 257", "from 1 to 256, not 257" },
                { "--batch 1,,2", "not 1,,2" },
                { "-p 60000 -n 1", "not 60001" },
                { "-p 0 -n 0", "not 0" },
                { "--batch 1 -n 0", "nothing is decoded" },
                { "x", "a second model: x" },
                { "--what", "unknown option: --what" } };
    char copy[300];
    size_t i;
    if (!is_there()) return;
    if (run("", "bench-model --help")) { t_skip("bench-model does not run here"); return; }
    SAYS("--batch");
    T_EQ_INT(run("", "bench-model"), 2);
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "bench-model m %s", bad[i].options), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "bench-model there/is/none.gguf"), 1);
    COMPLAINS("there/is/none.gguf: cannot be opened");
    (void)snprintf(copy, sizeof copy, "cp examples/models/story-small.gguf '%s/a\"b\\c'", folder);
    T_EQ_INT(system(copy), 0);
    T_EQ_INT(run("", "bench-model '%s/a\"b\\c' -p 2 -n 2 -r 1 -t 1 --batch 1,2 --no-mixed --json", folder), 0);
    SAYS("/a\\\"b\\\\c\",\"target\":");
    SAYS("{\"sequences\":2,");
    T_TRUE(strlen(said) > 4 && !strcmp(said + strlen(said) - 4, "]}]\n"));
}

static void test_sbp(void)
{
    if (!is_there()) return;
    if (run("", "sbp --help")) { t_skip("sbp does not run here"); return; }
    SAYS("--plan NAME");
    T_EQ_INT(run("", "sbp"), 2);
    T_EQ_INT(run("", "sbp plan --plan magic"), 2);
    COMPLAINS("there are exact greedy data tensor rows copies, not magic");
    T_EQ_INT(run("", "sbp run --grid 2"), 2);
    COMPLAINS("--grid takes AxB");
    T_EQ_INT(run("", "sbp actors --times 1,2"), 2);
    COMPLAINS("--times takes three whole numbers");
    T_EQ_INT(run("", "sbp plan --check"), 2);
    COMPLAINS("plan takes no --check");
    T_EQ_INT(run("", "sbp plan --memory 0.001"), 1);
    COMPLAINS("no plan keeps every rank below 1000 bytes");
    T_EQ_INT(run("", "sbp plan --batch 32 --width 4096"), 0);
    SAYS("exact             3.146");
    SAYS("y: P -> B 3.146 MB");
    T_EQ_INT(run("", "sbp actors"), 0);
    SAYS("2 buffers: 62 units, 16384 bytes");
    T_EQ_INT(run("", "sbp run --ranks 3 --batch 7 --width 24 --tcp --check"), 0);
    SAYS("compared with one rank: the same");
    T_EQ_INT(run("", "sbp run --grid 2x2 --batch 8 --width 24 --tcp --check"), 0);
    SAYS("(0/1) / (2/3)");
    T_EQ_INT(run("", "sbp stages --ranks 3 --items 30 --kilobytes 1 --tcp --check"), 0);
}

static void test_distserve(void)
{
    char picture[200];
    if (!is_there()) return;
    if (run("", "distserve --help")) { t_skip("distserve does not run here"); return; }
    SAYS("--tpot X");
    T_EQ_INT(run("", "distserve queue --rate 16"), 0);
    SAYS("150.0 ms");
    SAYS("58.3 ms");
    T_EQ_INT(run("", "distserve queue --tpot 3"), 2);
    COMPLAINS("queue takes no --tpot");
    T_EQ_INT(run("", "distserve simulate --requests 9"), 2);
    COMPLAINS("--requests takes a whole number from 10");
    T_EQ_INT(run("", "distserve simulate --requests 100 --decodes 0"), 0);
    SAYS("on 1 devices");
    T_EQ_INT(run("", "distserve goodput --requests 200 --seeds 1 --svg %s/g.svg", folder), 0);
    SAYS("split serves");
    (void)slurp("g.svg", picture, sizeof picture);
    T_TRUE(!strncmp(picture, "<svg xmlns", 10));
    T_EQ_INT(run("", "distserve goodput --svg %s", folder), 2);
    COMPLAINS("this is a folder");
    spill("profile", "1 18 .1 0 20 0 .04 7 0 .2 95\n2 11 .06\n");
    T_EQ_INT(run("", "distserve place --profile %s/profile", folder), 1);
    COMPLAINS("line 2 is not 11 numbers");
    spill("profile", "1 18 .1 0 20 0 .04 7 0 .2 95\n");
    T_EQ_INT(run("", "distserve place --profile %s/profile --requests 50 --devices 2", folder), 0);
    SAYS("best split");
    T_EQ_INT(run("", "distserve place --requests 50 --ttft 1"), 1);
    COMPLAINS("no placement keeps limits of 0.001");
    T_EQ_INT(run("", "distserve run"), 2);
    COMPLAINS("which model?");
    T_EQ_INT(run("", "distserve queue examples/models/story.gguf"), 2);
    COMPLAINS("only measure and run");
    T_EQ_INT(run("", "distserve run examples/models/story.gguf --prompt 300"), 1);
    COMPLAINS("the model has a context of 256");
    T_EQ_INT(run("", "distserve run examples/models/story.gguf --requests 10 --rate 200 --prompt 24 --output 8 --tcp "
                     "--check"), 0);
    SAYS("compared with one engine: the same");
    SAYS("took 10 (");
    T_EQ_INT(run("", "distserve measure examples/models/story.gguf -o %s", folder), 2);
    COMPLAINS("this is a folder");
}

/* invalid numbers, or numbers beyond the range of an option: the fault is named, and nothing is done */
static void test_numbers(void)
{
    static const struct { const char *line, *sentence;
    } bad[] = { { "make-model --seed abc x", "--seed takes a whole number below 2^64, not abc" },
                { "make-model --seed 1x x", "1x" },
                { "make-model --seed 18446744073709551616 x", "18446744073709551616" },
                { "make-model --seed", "--seed: a value is missing" },
                { "make-model x y", "a second file: y" },
                { "make-model --shape 9M x", "no shape is called 9M" },
                { "make-model --type Q9 x", "Q9" },
                { "make-model --what x", "unknown option: --what" },
                { "fusemax 1-pass m=12abc", "m: a whole number" },
                { "fusemax 1-pass m=99999999999999999999", "not 99999999999999999999" },
                { "fusemax 1-pass m=-1", "not -1" },
                { "fusemax 1-pass m=0", "not 0" },
                { "fusemax --plan 64 64 1000 1x", "QUERIES: a whole number" },
                { "needle --seeds 1x", "not 1x" },
                { "needle --epochs 2.5", "--epochs takes a whole number" },
                { "needle --what 1", "unknown option: --what" },
                { "needle --seeds", "--seeds: a value is missing" },
                { "ranks m --tokens", "--tokens: a value is missing" },
                { "ranks m --ranks 2x", "--ranks takes a whole number from 1 to 16, not 2x" },
                { "ranks m --ranks 17", "not 17" },
                { "ranks m --ms fast", "not fast" },
                { "ranks m --rules --ladder", "--rules takes none of --ladder, --share and --wire" },
                { "ranks m n", "a second model: n" },
                { "ranks m --what", "unknown option: --what" },
                { "cluster rules m n", "n: rules takes a model only" },
                { "cluster rules m --ranks 65", "not 65" },
                { "cluster rules m --wait 3", "--wait" },
                { "bipolar --weights 9", "from 1 to 8, not 9" },
                { "bipolar --size 0", "not 0" },
                { "prune --zeros 101", "--zeros takes a number from 0 to 100, not 101" },
                { "prune --zeros 80x", "not 80x" },
                { "prune --inputs 0", "not 0" },
                { "prune -o", "-o: a value is missing" },
                { "prune 80", "OUT.gguf: a name for the pruned model is needed" },
                { "prune --heads 25", "--heads, --neurons and --cut need a model" },
                { "prune a b --text c --neurons 10 --zeros 50", "whole units or zeros" },
                { "join a b", "OUT.gguf: a name for the joined file is needed" },
                { "join a b c", "--text: a text is needed, which both models read" },
                { "join a b c --text d --train 0", "--train takes a whole number from 1 to" },
                { "generate m x --stitch 1,", "--stitch: 1," },
                { "generate m x --stitch-every 3", "--stitch-every does nothing without several networks" } };
    static const char *const helps[] = { "make-model", "needle",  "bipolar", "prune", "bytes",    "own_backend", "join",
                                         "ranks",      "fusemax", "train",   "judge", "story-gen" };
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(helps); i++) {
        const int status = run("", "%s --help", helps[i]);
        if (status == 127) { t_skip("not all of the programs are built"); return; }
        T_EQ_INT(status, 0);
        SAYS(helps[i]);
        T_EQ_TEXT(errors, "");
    }
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "%s", bad[i].line), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "own_backend what"), 2);
    COMPLAINS("own_backend [right");
}

/* One reader for all programs: each of them refuses a value that is no number, with the name of the option and the
 * value. */
static void test_same_sentences(void)
{
    static const struct { const char *call, *whole, *number;
    } take[] = { { "generate m x", "--n", "--temp" },
                 { "chat m", "--n", "--min-p" },
                 { "perplexity m x", "--context", NULL },
                 { "embed m", "--threads", NULL },
                 { "logits m --tokens 1", "--position", NULL },
                 { "quantize a b Q8_0", "--threads", NULL },
                 { "judge m", "--stories", NULL },
                 { "story m", "--seed", NULL },
                 { "story-gen", "--tokens", NULL },
                 { "make-model x", "--seed", NULL },
                 { "train mlp", "--epochs", NULL },
                 { "train-story --out x", "--stop", NULL },
                 { "needle", "--seeds", "--t" },
                 { "ranks m", "--ranks", "--ms" },
                 { "vision", "--seeds", "--noise" },
                 { "cache stream", "--traces", "--deadline" },
                 { "bench-model m", "-p", NULL },
                 { "fastrp", "-d", "--beta" },
                 { "graph partition g 2", "--seed", "--imbalance" },
                 { "gnn train", "--epochs", "--lr" } };
    static const char *const no_whole[] = { "12x", "nan", "1.5", "-1", "' 1'", "0x10", "99999999999999999999" },
                             *const no_number[] = { "1x", "nan", "inf", "0x1", "1,5", "1e", "1e999", "--" };
    size_t i, k;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(take); i++)
        for (k = 0; k < T_COUNT(no_whole) + T_COUNT(no_number); k++) {
            const char *option = k < T_COUNT(no_whole) ? take[i].whole : take[i].number,
                       *value = k < T_COUNT(no_whole) ? no_whole[k] : no_number[k - T_COUNT(no_whole)];
            char want[100];
            const int status = option ? run("", "%s %s %s", take[i].call, option, value) : 127;
            if (status == 127) continue;    /* not built here, or no such option */
            T_EQ_INT(status, 2);
            T_EQ_TEXT(said, "");
            (void)snprintf(want, sizeof want, "%.*s: %s takes a ", (int)strcspn(take[i].call, " "), take[i].call,
                           option);
            T_TRUE(!strncmp(errors, want, strlen(want)));
            COMPLAINS(*value == '\'' ? ", not  1\n" : value);
            COMPLAINS(" --help tells more\n");
        }
}

/* a .bin of llama2.c for those that read a model or its vocabulary; safetensors files do not describe their model */
static void test_bin(void)
{
    const char *bin = t_shared("data/tinystories/stories260K.bin"),
               *m = bin ? t_shared("data/tinystories/stories260K-f32.gguf") : NULL;
    static char first[60000];
    char path[300];
    FILE *f;
    if (!m || !is_there()) return;
    T_EQ_INT(run("Once upon a time", "tokenize %s --bos", m), 0);
    memcpy(first, said, sizeof first);
    T_EQ_INT(run("Once upon a time", "tokenize %s --bos", bin), 0);
    T_EQ_TEXT(said, first);
    T_EQ_INT(run("", "quantize %s %s/out.gguf q8_0 --threads 1", bin, folder), 0);
    T_EQ_INT(run("", "generate %s/out.gguf 'Once upon a time' --n 9 --echo --threads 1", folder), 0);
    SAYS("Once upon a time, there was a little girl");
    (void)snprintf(path, sizeof path, "%s/x.safetensors", folder);
    f = fopen(path, "wb");
    T_TRUE(f && fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f) == 10);
    if (f) (void)fclose(f);
    T_EQ_INT(run("", "quantize %s/x.safetensors %s/out2.gguf q8_0", folder, folder), 1);
    COMPLAINS("x.safetensors: a safetensors file has no keys");
    T_EQ_INT(run("", "quantize %s %s/out2.gguf q4_k --imatrix examples/models/story-small.gguf --threads 1", m, folder),
             1);
    COMPLAINS("it has no importance for any of the 28 matrices");
    T_EQ_INT(slurp("out2.gguf", first, sizeof first), 0);
    if (run("", "ranks --help") == 127) return;
    T_EQ_INT(run("", "ranks %s --ranks 1 --tokens 5", bin), 0);
    SAYS("Once upon a time, there was");
    T_EQ_INT(run("", "ranks %s --rules --ranks 4 --tcp --check", a_story), 0);
    SAYS("the same logits as on one rank");
    T_EQ_INT(run("", "ranks examples/models/story-gla.gguf --rules"), 1);
    COMPLAINS("its graph is not known");
}

/* A decoder whose file requests pooling gives no text: an earlier generate read past its hidden states. */
static void test_pooled(void)
{
    static const char *const texts[] = { "generate %s a", "generate %s a --beams 2", "generate %s a --parallel 2",
                                         "minimal %s a", "story %s" };
    static const char *const others[] = { "perplexity %s README.md", "ranks %s", "judge %s --stories 2 --tell 0" };
    const char *m = "tests/fuzz/corpus/gguf/model-pooling-decoder.gguf";
    size_t i;
    if (!is_there()) return;
    for (i = 0; i < T_COUNT(texts); i++) {
        T_EQ_INT(run("", texts[i], m), 1);
        COMPLAINS("the file asks for pooling: this llama model gives embeddings, not text");
    }
    T_EQ_INT(run("a\n", "chat %s", m), 1);
    T_EQ_TEXT(said, "");
    COMPLAINS("this llama model gives embeddings, not text");
    for (i = 0; i < T_COUNT(others); i++) {
        T_EQ_INT(run("", others[i], m), 1);
        COMPLAINS("does not predict");
    }
    T_EQ_INT(run("", "logits %s --tokens 1,2", m), 0);
}

static void test_weave(void)
{
    if (!is_there() || run("", "weave --help") == 127) return;
    spill("rows.csv", "\xef\xbb\xbf" "1,2,3\n4,5,7\n2,2,2\n");
    spill("rows.svm", "1 1:3 2:4\n0 2:1\n");
    spill("none.csv", "");
    T_EQ_INT(run("", "weave %s/rows.csv --test %s/rows.csv --epochs 2 --threads 1 --quiet", folder, folder), 0);
    SAYS("rows.csv: 3 samples, 2 features");     /* a byte order mark is no line of names */
    SAYS("rows.csv: 3 samples, mean square error");
    T_EQ_INT(run("", "weave %s/rows.csv --test %s/none.csv --epochs 1 --threads 1 --quiet", folder, folder), 1);
    COMPLAINS("none.csv: no samples");
    T_EQ_INT(run("", "weave %s/rows.svm --label 1 --quiet", folder), 1);
    COMPLAINS("rows.svm: lines of libsvm begin with the label: --label is for columns");
    T_EQ_INT(run("", "weave %s/rows.csv --label 1 --epochs 1 --save %s/rows.csv", folder, folder), 2);
    COMPLAINS("rows.csv: this file is read, so nothing is written to it");
    T_EQ_INT(run("", "weave %s/rows.svm --test %s/rows.csv -o %s/rows.csv", folder, folder, folder), 2);
    COMPLAINS("rows.csv: this file is read, so nothing is written to it");
    spill("rows.svm", "1 4194304:1\n");           /* one row is one row, not a block of 256: 50 MB and not 4 GB */
    T_EQ_INT(run("", "weave %s/rows.svm --epochs 1 --threads 1 --quiet", folder), 0);
    SAYS("1 samples, 4194304 features");
}

/* The list has every row of tinyllm.h, and the options of the conformance program are checked. */
static void test_conformance(void)
{
    static const struct { const char *options, *sentence;
    } bad[] = { { "--cases 0", "--cases takes a whole number from 1 to 1000000000: 0" },
                { "--case 0", "--case takes a whole number from 1" },
                { "--seed 18446744073709551616", "below 2^64: 18446744073709551616" },
                { "--threads 257", "from 1 to 256: 257" },
                { "--threads 0", "from 1 to 256: 0" },
                { "--cases 1x", "1x" },
                { "--op", "a value is missing after: --op" },
                { "--what 1", "unknown option: --what" },
                { "--op nothing", "no such operation, --list names them: nothing" },
                { "--target z80", "z80" } };
    char line[1000];
    size_t i;
    FILE *f = fopen("src/llm/ops.h", "r");
    if (!f || !is_there()) { if (f) (void)fclose(f); return; }
    (void)fclose(f);
    (void)snprintf(line, sizeof line,
                   "grep -rhoE 'tllm_[a-z0-9_]+_row\\(void\\);' src/llm --include='*.h' | sed 's/(void);//' >%s/out; "
                   "while read -r row; do grep -q \", $row,\" src/llm/ops.h || echo $row; done <%s/out >%s/err",
                   folder, folder, folder);
    T_EQ_INT(system(line), 0);
    (void)slurp("out", said, sizeof said);
    (void)slurp("err", errors, sizeof errors);
    SAYS("tllm_matmul_row");
    T_EQ_TEXT(errors, "");
    if (run("", "conformance --help")) { t_skip("conformance does not run here"); return; }
    SAYS("counted from 1");
    for (i = 0; i < T_COUNT(bad); i++) {
        T_EQ_INT(run("", "conformance %s", bad[i].options), 2);
        T_EQ_TEXT(said, "");
        COMPLAINS(bad[i].sentence);
    }
    T_EQ_INT(run("", "conformance --op tome_merge --cases 3 --target reference"), 0);
    SAYS("3 cases passed, 0 failed");
}

/* TINY_TARGET names a missing target: each program prints the variable and its value, once */
static void test_target_of_the_environment(void)
{
    static const char *const lines[] = { "generate m x",
                                         "chat m",
                                         "perplexity m README.md",
                                         "embed m",
                                         "inspect m",
                                         "logits m --tokens 1",
                                         "tokenize m",
                                         "quantize m out Q8_0",
                                         "cache info x",
                                         "judge m",
                                         "story",
                                         "minimal m",
                                         "demo",
                                         "bench-model m",
                                         "make-model out",
                                         "ranks m",
                                         "fusemax 1-pass",
                                         "needle",
                                         "own_backend right",
                                         "vision",
                                         "train mlp",
                                         "train-story --out out",
                                         "bipolar --size 8",
                                         "prune --inputs 8 --outputs 8" };
    size_t i;
    const char *was = getenv("TINY_TARGET");
    char kept[64];
    if (!is_there()) return;
    (void)snprintf(kept, sizeof kept, "%s", was ? was : "");
    (void)setenv("TINY_TARGET", "z80", 1);
    for (i = 0; i < T_COUNT(lines); i++) {
        const int status = run("", "%s", lines[i]);
        const char *at;
        if (status == 127) continue;        /* not built here */
        T_EQ_INT(status, 1);
        COMPLAINS("TINY_TARGET=z80 in the environment names no target");
        at = strstr(errors, "TINY_TARGET");
        T_TRUE(at && !strstr(at + 1, "TINY_TARGET") && !strstr(errors, "out of its range"));
    }
    if (was) (void)setenv("TINY_TARGET", kept, 1);
    else (void)unsetenv("TINY_TARGET");
}

/* the load generator counts the tokens that the server at folder/socket was asked for, and names what failed */
static void try_load(void)
{
    char path[400];
    if (run("", "load --help") == 127) return;              /* not built here */
    T_EQ_INT(run("", "load unix:%s/socket --requests 6 --clients 3 --prompt 3,9 --answer 8 --field ignore_eos=true "
                     "--json --csv %s/load.csv --svg %s/load.svg", folder, folder, folder), 0);
    SAYS("\"requests\": 6, \"answered\": 6");
    SAYS("\"tokens\": 48,");
    SAYS("\"first\": {\"n\": 6,");
    T_EQ_TEXT(errors, "");
    T_TRUE(slurp("load.svg", said, sizeof said) > 0 && strstr(said, "</svg>"));
    T_TRUE(slurp("load.csv", said, sizeof said) > 0 && strstr(said, ",8,200,\n"));
    spill("words", "One day \"Ella\" saw\na\tcat .");
    (void)snprintf(path, sizeof path, "%s/words", folder);
    T_EQ_INT(run("", "load unix:%s/socket --requests 3 --rate 1000 --prompt 5 --answer 2 --text %s", folder, path), 0);
    SAYS("3 of 3 requests answered");
    T_EQ_INT(run("", "load unix:%s/socket --requests 2 --path /none", folder), 1);
    SAYS("0 of 2 requests answered");
    COMPLAINS("2 failed: another status than 200 (HTTP 404)");
    T_EQ_INT(run("", "load unix:%s/none --requests 2", folder), 1);
    COMPLAINS("2 failed: no connection");
    T_EQ_INT(run("", "load 80 --prompt 8,0"), 2);
    COMPLAINS("separated by commas");
    T_EQ_INT(run("", "load 80 --field x"), 2);
    COMPLAINS("NAME=JSON");
}

/* A server at a local socket: it answers, and a signal ends it with status 0. */
static void test_serve(void)
{
    static const char ask[] = "POST /v1/completions HTTP/1.1\r\nHost: any\r\nConnection: close\r\n"
                              "Content-Length: 59\r\n\r\n"
                              "{\"prompt\":\"one day , Ella\",\"max_tokens\":20,\"temperature\":0}";
    const char *build = getenv("BUILD");
    char line[3000], got[4000] = "", want[1000];
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    size_t n = 0, put = 0, k;
    int tries, is_end = 0, count = 0;
    if (!is_there()) return;
    if (run("", "serve --help") == 127) return;             /* not built here */
    T_EQ_INT(run("", "serve"), 2);
    T_EQ_INT(run("", "serve there/is/none"), 1);
    COMPLAINS("there/is/none");
    T_EQ_INT(run("", "serve %s --address '*:0'", a_story), 1);
    COMPLAINS("without a key");
    spill("keys", "\n");
    T_EQ_INT(run("", "serve %s --key-file %s/keys", a_story, folder), 2);
    COMPLAINS("no key");
    T_EQ_INT(run("", "serve %s --origins a.example", a_story), 1);
    COMPLAINS("a.example is not an origin");
    T_EQ_INT(run("", "generate %s 'one day , Ella' --n 20 --temp 0", a_story), 0);
    (void)snprintf(want, sizeof want, "%.*s", (int)strcspn(said, "\n"), said);
    (void)snprintf(line, sizeof line,
                   "(%s/serve %s --no-repack --address unix:%s/socket >%s/serve.out 2>%s/serve.err & "
                   "echo $! >%s/pid; wait $!; echo $? >%s/status) &",
                   build ? build : "build", a_story, folder, folder, folder, folder, folder);
    T_EQ_INT(system(line), 0);
    (void)snprintf(line, sizeof line, "unix:%s/socket", folder);
    T_OK(tiny_address_find(NULL, line, a, &count));
    for (tries = 0; tries < 2000 && s == TINY_NO_SOCKET; tries++) {
        (void)usleep(10000);
        if (tiny_socket_connect(NULL, &a[0], &s)) s = TINY_NO_SOCKET;
        else if (tiny_socket_write(NULL, s, ask, sizeof ask - 1, &put) || put < sizeof ask - 1) {
            tiny_socket_close(s);
            s = TINY_NO_SOCKET;
        }
    }
    for (tries = 0; tries < 2000 && s != TINY_NO_SOCKET && !is_end; tries++) {
        k = 0;
        if (tiny_socket_read(NULL, s, got + n, sizeof got - 1 - n, &k, &is_end)) break;
        got[n += k] = 0;
        if (!k) (void)usleep(10000);
    }
    tiny_socket_close(s);
    T_TRUE(!strncmp(got, "HTTP/1.1 200 OK\r\n", 17));
    has(got, want, __LINE__);
    try_load();
    (void)snprintf(line, sizeof line, "kill -INT $(cat %s/pid)", folder);
    T_EQ_INT(system(line), 0);
    for (tries = 0; tries < 1000 && !slurp("status", line, sizeof line); tries++) (void)usleep(10000);
    T_EQ_TEXT(line, "0\n");
    (void)slurp("serve.out", said, sizeof said);
    SAYS("serving story at unix:");
    (void)slurp("serve.err", errors, sizeof errors);
    T_EQ_TEXT(errors, "");
}

/* one model over two processes: the text of one, however it is cut and sent */
static void test_cluster(void)
{
    static const char *const ways[][2] = { { "--share 3,1 --stats", "" },
                                           { "--wire f16 --policy replan", "--wire f16 --stats" },
                                           { "--wire q8 --audit 3 --hide-tokens", "--wire q8" },
                                           { "--no-slices --share measured", "" } };
    char text[2000], words[700];
    struct stat is;
    int ended = -1;
    size_t k;
    if (!is_there()) return;
    if (run("", "cluster --help")) { t_skip("cluster does not run here"); return; }
    T_EQ_INT(run("", "cluster key %s/key", folder), 0);
    T_EQ_INT(run("", "cluster key %s/key", folder), 1);
    COMPLAINS("cannot be written, or is there already");
    (void)snprintf(words, sizeof words, "%s/key", folder);
    T_TRUE(!stat(words, &is) && (is.st_mode & 077) == 0 && is.st_size == 65);
    T_EQ_INT(together("cluster", "--ranks 1", NULL, NULL), 0);
    (void)snprintf(text, sizeof text, "%.1900s", said);
    T_TRUE(strlen(text) > 40);
    for (k = 0; k < T_COUNT(ways); k++) {
        (void)snprintf(words, sizeof words, "examples/models/story.gguf unix:%s/c %s", folder, ways[k][1]);
        if (!T_EQ_INT(together("cluster", ways[k][0], words, &ended), 0)) printf("  %s%s\n", errors, worker);
        T_EQ_INT(ended, 0);
        T_EQ_TEXT(said, text);
        has(worker, "rank 1 of 2", __LINE__);
        has(worker, "the master has ended: ", __LINE__);
        if (k == 0) COMPLAINS("rank   share   computing     waiting        sent   messages   memory");
        if (k == 0) COMPLAINS("by these times, the next run: --share 0.");
        if (k == 1) has(worker, "   1   50.0%", __LINE__);
        if (k == 3) COMPLAINS("measured shares: ");
    }
    if (!T_EQ_INT(bereave("cluster", "--policy replan"), 0)) printf("  %s%s\n", errors, worker);
    T_EQ_TEXT(said, text);
    COMPLAINS("rank 1 is gone");
    COMPLAINS("going on with 1 rank: the text so far is read again");
    T_EQ_INT(bereave("cluster", ""), 1);
    COMPLAINS("rank 1 is gone");
    for (k = 0; k < 2; k++) {               /* without the model file; the second time its part is there */
        (void)snprintf(words, sizeof words, "unix:%s/c --fetch %s", folder, folder);
        if (!T_EQ_INT(together("cluster", "--share 3,1", words, &ended), 0))
            printf("  %s%s\n", errors, worker);
        T_EQ_INT(ended, 0);
        T_EQ_TEXT(said, text);
        T_TRUE((strstr(worker, " MB of slices in ") != NULL) == !k);
    }
    (void)snprintf(words, sizeof words, "examples/models/story.gguf unix:%s/c --wire f16", folder);
    T_EQ_INT(together("cluster", "--wait 2", words, &ended), 1);
    T_EQ_INT(ended, 1);
    has(worker, "it has other settings", __LINE__);
    has(worker, "all machines need the same --wire", __LINE__);
    (void)snprintf(words, sizeof words, "unix:%s/c --fetch %s", folder, folder);
    /* a worker without the file, and a master that does not send it */
    T_EQ_INT(together("cluster", "--no-slices --wait 2", words, &ended), 1);
    T_EQ_INT(ended, 1);
    has(worker, "give this worker the model file", __LINE__);
    (void)snprintf(words, sizeof words, "%s unix:%s/c", a_story, folder);
    T_EQ_INT(together("cluster", "--wait 2", words, &ended), 1);
    T_EQ_INT(ended, 1);
    has(worker, "it has another model", __LINE__);
    T_TRUE(!strstr(worker, "give this worker"));
    {                                       /* no folder named: that of the user's cache */
        char was[300], cache[300];
        const char *kept = getenv("XDG_CACHE_HOME");
        (void)snprintf(was, sizeof was, "%.290s", kept ? kept : "");
        (void)snprintf(cache, sizeof cache, "%s/cache", folder);
        (void)setenv("XDG_CACHE_HOME", cache, 1);
        (void)snprintf(words, sizeof words, "unix:%s/c", folder);
        if (!T_EQ_INT(together("cluster", "", words, &ended), 0)) printf("  %s%s\n", errors, worker);
        T_EQ_INT(ended, 0);
        T_EQ_TEXT(said, text);
        has(worker, "this worker keeps its part of the model in", __LINE__);
        has(worker, " MB of slices in ", __LINE__);
        if (kept) (void)setenv("XDG_CACHE_HOME", was, 1);
        else (void)unsetenv("XDG_CACHE_HOME");
        (void)snprintf(words, sizeof words, "rm -r %s/cache", folder);
        T_EQ_INT(system(words), 0);
    }
    (void)snprintf(words, sizeof words, "%s/short", folder);
    {
        FILE *f = fopen(words, "w");
        if (f) {
            (void)fputs("fifteen letters\n", f);
            (void)fclose(f);
        }
        T_EQ_INT(run("", "cluster master examples/models/story.gguf x --key %s/short --ranks 2", folder), 1);
        COMPLAINS("a secret of 15 bytes: it must have at least 16");
    }
    if (run("", "ranks --help") == 0) {     /* the same over threads and over processes of one program */
        T_EQ_INT(run("", "ranks examples/models/story.gguf --tokens 24 --share 3,1 --check"), 0);
        SAYS("the same text as on one rank");
        T_EQ_INT(run("", "ranks examples/models/story.gguf --tokens 24 --tcp --wire f16 --check"), 0);
        SAYS("the same text as on one rank");
        T_EQ_INT(run("", "ranks examples/models/story.gguf --share 3,1,2"), 2);
        COMPLAINS("--share takes a number above 0 for each of 2 ranks, such as 3,1, not 3,1,2");
    }
    T_EQ_INT(run("", "cluster master x --share 3,0"), 2);
    COMPLAINS("--share takes even, measured, or a number above 0 for each of 2 ranks, such as 3,1, not 3,0");
    T_EQ_INT(run("", "cluster master x --share 3"), 2);
    COMPLAINS("--share 3 has 1 numbers, but there are 2 ranks");
    T_EQ_INT(run("", "cluster master x --wire f8"), 2);
    COMPLAINS("--wire takes f32, f16 or q8, not f8");
    T_EQ_INT(run("", "cluster master x --policy pray"), 2);
    COMPLAINS("--policy takes fail or replan, not pray");
    T_EQ_INT(run("", "cluster worker x y --fetch z"), 2);
    COMPLAINS("x: with --fetch a worker takes no model");
    T_EQ_INT(run("", "cluster worker x"), 2);
    COMPLAINS("the address of the master is missing");
    T_PROOF("distributed 1", "the program, master and worker: the text of one process, whatever is cut or sent");
}

int main(void)
{
    T_RUN(test_cluster);
    T_RUN(test_cache);
    T_RUN(test_pooled);
    T_RUN(test_gnn_without_test_part);
    T_RUN(test_prima);
    T_RUN(test_split);
    T_RUN(test_vision);
    T_RUN(test_rank_training);
    T_RUN(test_nets);
    T_RUN(test_sbp);
    T_RUN(test_distserve);
    T_RUN(test_pipeline);
    T_RUN(test_search_net);
    T_RUN(test_needle);
    T_RUN(test_bench_model);
    T_RUN(test_numbers);
    T_RUN(test_same_sentences);
    T_RUN(test_bin);
    T_RUN(test_weave);
    T_RUN(test_conformance);
    T_RUN(test_target_of_the_environment);
    T_RUN(test_serve);
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
