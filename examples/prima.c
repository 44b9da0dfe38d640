/* examples/prima.c - a model larger than memory: blocks read while others compute, and layers on several ranks
 *
 *     prima run MODEL.gguf "Once upon a time"                          two blocks in memory at a time
 *     prima run MODEL.gguf "Once upon a time" --memory 200             the system allows this process 200 MB
 *     prima run MODEL.gguf "Once upon a time" --ranks 3 --layers 2,1,1 --tcp --check
 *     prima plan MODEL.gguf TABLE                                      which layers for which device
 *     prima master MODEL.gguf "Once upon a time" --key home.key --listen 192.168.1.5:29500 --ranks 3
 *     prima worker MODEL.gguf 192.168.1.5:29500 --key home.key         on each of the other machines
 *
 * The text is that of the model in memory, bit for bit; --check shows it. After a run come the bytes that the window
 * held, next to the formula, and how long the computation waited for the disk. */
#if !defined _DEFAULT_SOURCE && !defined _WIN32
#define _DEFAULT_SOURCE 1                   /* kill, of world.h */
#endif
#define TINYLLM_WITH_RING
#define TINYLLM_WITH_HALDA
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "prima"
#include "options.h"
#include "world.h"
#include "devices.h"
#include "join.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

static const char usage[] =
    "prima run MODEL [PROMPT] [options]     continues a text with a model that stays on disk\n"
    "prima plan MODEL TABLE [options]       the layers of each device; examples/devices.h describes the table\n"
    "prima key FILE                         makes a key of 32 random bytes, as cluster key does\n"
    "prima master MODEL [PROMPT] --key FILE [options]       the same text, by several machines in a ring\n"
    "prima worker MODEL MASTER:PORT --key FILE [options]    computes its layers for that master\n"
    "run, master and worker, each for its own process:\n"
    "  --window W     blocks in memory: attention or network of a layer, or the output; default: 2\n"
    "  --resident     no window: the model is mapped as usual\n"
    "  --keep T       keep the networks of layers 0, T, 2T ... in memory\n"
    "  --memory MB    megabytes of address space that the system allows this process (not on Windows)\n"
    "  --disk MB      megabytes per second: reads no faster; default: no limit\n"
    "  --quiet        writes neither the text nor the figures\n"
    "run and master:\n"
    "  --n N          tokens to write; default: 64\n"
    "  --batch N      tokens of the prompt in one pass over the file; default: 32\n"
    "  --context N    tokens of the context; default: 512\n"
    "  --check        computes the text in memory first, and ends with status 1 if the other one differs\n"
    "  --ranks N      1 to 16, each computes some layers in turn. run: threads; default: 1. master: machines, this\n"
    "                 one included; default: 2\n"
    "  --layers LIST  layers of each rank in a round, such as 2,1,1; default: about equal parts, one round\n"
    "run:\n"
    "  --tcp          ranks are processes that talk over TCP (not on Windows)\n"
    "master:\n"
    "  --listen A:P   where the others connect to; default: 127.0.0.1:29500, this machine only\n"
    "  --devices TABLE  the layers that prima plan computes for this table; the first row is the master\n"
    "worker:\n"
    "  --rank R       its place in --layers, or its row of the table, from 1 on; default: as they come\n"
    "  --here A:P     where the ranks after it connect to; default: its address towards the master, any port\n"
    "master and worker:\n"
    "  --key FILE     the file that prima key or cluster key wrote, the same on all machines\n"
    "  --wait S       seconds to wait for the others at the start; default: 60\n"
    "  --timeout S    seconds that a pass may take; default: 600. A rank that is gone is noticed sooner\n"
    "  --threads N    default: one per processor\n"
    "run and plan:\n"
    "  --ms X         delay of a link, in milliseconds\n"
    "  --mbit X       megabits per second of a link; default: no limit\n"
    "plan:\n"
    "  --context N    tokens of the context; default: 512\n"
    "  --svg FILE     draw two tokens in time\n";

enum { RUN, PLAN, KEY, MASTER, WORKER };
typedef struct text { char *at; size_t n, room; } text;
static struct {
    const char *path, *word, *list, *svg, *key, *listen, *here, *devices;
    int command, window, resident, keep, n, n_list, batch, check, quiet, context, rank;
    double memory, disk, wait, timeout;
    world w;
    tiny_idx layers[WORLD_MOST];
    text want;
    double resident_ms;
    /* of master and worker: the line a second, and the counts at the last one */
    tiny_ctx *ctx;
    tllm_ring *ring;
    tllm_disk *from;
    uint64_t said_at, stalled;
    tllm_ring_counts before;
} run;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static double status_mb(const char *key)    /* a line of /proc/self/status; 0: not known */
{
    char line[200];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) kb = strtod(line + strlen(key) + 1, NULL);
    if (f) (void)fclose(f);
    return kb * 1024e-6;
}
static void forget_peak(void)               /* Linux: the peak starts again from what is resident */
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        (void)fputs("5", f);
        (void)fclose(f);
    }
}
static int limit_memory(void)
{
#if defined OPTIONS_UNIX && defined RLIMIT_AS
    struct rlimit r;
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, 1);          /* otherwise each thread reserves 64 MB of address space */
#endif
    r.rlim_cur = r.rlim_max = (rlim_t)(1e6 * run.memory);
    if (!setrlimit(RLIMIT_AS, &r)) return 0;
    fprintf(stderr, "prima: --memory %g: %s\n", run.memory, strerror(errno));
    return 1;
#else
    return refused("this system has no limit for --memory");
#endif
}

/* ---- the line a second ------------------------------------------------------------------------------------------- */

static int every_second(void *user, tllm_ring *ring)
{
    const uint64_t now = tiny_now_ns();
    const tllm_ring_counts c = tllm_ring_count(ring);
    const double n = (double)(c.pieces - run.before.pieces);
    tllm_disk_about a;
    (void)user;
    if (!run.ctx || (run.said_at && (now - run.said_at < UINT64_C(1000000000) || n < 1))) return cancelled(NULL);
    tllm_disk_look(run.from, &a);
    if (run.said_at && !run.quiet)          /* not at the first pass: the prompt counts for nothing */
        fprintf(stderr, "%s%llu passes, %.1f ms each: %.1f waiting for other ranks, %.1f for the disk | %.1f KB in "
                "%.0f messages, %.0f MB\n", run.command == MASTER ? "\n" : "", (unsigned long long)c.pieces,
                1e-6 * (double)(now - run.said_at) / n, 1e-6 * (double)(c.wait_ns - run.before.wait_ns) / n,
                1e-6 * (double)(a.loader.stall_ns - run.stalled) / n, 1e-3 * (double)(c.bytes - run.before.bytes) / n,
                (double)(c.hops - run.before.hops) / n, 1e-6 * (double)tiny_ctx_bytes(run.ctx));
    run.before = c;
    run.stalled = a.loader.stall_ns;
    run.said_at = now;
    return cancelled(NULL);
}

/* ---- a text ------------------------------------------------------------------------------------------------------ */

static int keep_text(void *user, const char *bytes, size_t n)
{
    text *t = (text *)user;
    if (t->n + n > t->room) {
        t->room = 2 * (t->n + n) + 1024;
        t->at = (char *)need(realloc(t->at, t->room));
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    return 0;
}
static int show_text(void *user, const char *bytes, size_t n)
{
    (void)keep_text(user, bytes, n);
    (void)fwrite(bytes, 1, n, stdout);
    (void)fflush(stdout);
    return every_second(NULL, run.ring);
}

static tiny_status write_text(tiny_ctx *ctx, tllm_model *m, int shows, text *t, tllm_generate_result *result)
{
    tllm_generate_desc g;
    tllm_state_desc sd;
    tllm_session *s = NULL;
    tiny_status st;
    memset(&g, 0, sizeof g);
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = run.context;
    sd.n_batch = run.batch;
    g.n_most = (size_t)run.n;
    g.text = shows ? show_text : keep_text;
    g.user = t;
    st = tllm_session_over(ctx, m, &sd, &s);
    if (!st) st = tllm_generate(s, run.word, strlen(run.word), &g, result);
    tllm_session_close(s);
    if (!st && shows) putchar('\n');
    return st;
}

/* the text of the model in memory, before anything is limited */
static tiny_status in_memory(tiny_ctx *ctx, text *t, double *ms)
{
    tllm_generate_result result;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tiny_status st = tllm_file_open(ctx, run.path, &file);
    memset(&result, 0, sizeof result);
    if (!st) st = tllm_model_open(ctx, file, &m);
    if (!st) st = write_text(ctx, m, 0, t, &result);
    *ms = result.n_made > 1 ? 1e3 * result.made_seconds / (double)result.n_made : 0;
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    return st;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

static void tell(const tllm_disk_about *a, const tllm_ring_counts *c, const tllm_generate_result *r, int ranks,
                 tiny_idx n_layer)
{
    const double tokens = (double)(r->n_made ? r->n_made : 1), mb = 1e-6;
    fprintf(stderr, "\n%zu tokens, %.1f ms each", r->n_made, 1e3 * r->made_seconds / tokens);
    if (run.check) fprintf(stderr, "; in memory %.1f ms", run.resident_ms);
    fputc('\n', stderr);
    if (run.resident) fprintf(stderr, "the model is mapped\n");
    else if (!a->n_blocks) fprintf(stderr, "all %td blocks, %.1f MB, are in memory\n", a->n_kept,
                              mb * (double)a->fixed_bytes);
    else
        fprintf(stderr,
                "matrices %.1f MB in %td blocks, and %td kept. Window of %td: %.1f MB by the formula, "
                "%.1f MB held at most; always in memory: %.1f MB\n"
                "it read %.1f MB a token at %.0f MB/s, and waited %.1f ms a token for the disk\n",
                mb * (double)a->model_bytes, a->n_blocks, a->n_kept, a->window,
                mb * (double)a->window_bytes, mb * (double)a->loader.peak, mb * (double)a->fixed_bytes,
                mb * (double)a->loader.bytes / (tokens + 1),
                a->loader.read_ns ? 1e3 * (double)a->loader.bytes / (double)a->loader.read_ns : 0.0,
                1e-6 * (double)a->loader.stall_ns / (tokens + 1));
    if (ranks == 1)
        fprintf(stderr, "for a table of devices: %.3g ms a layer, %.0f MB/s of disk\n",
                (1e3 * r->made_seconds / tokens - 1e-6 * (double)a->loader.stall_ns / (tokens + 1)) / (double)n_layer,
                a->loader.read_ns ? 1e3 * (double)a->loader.bytes / (double)a->loader.read_ns : 0.0);
    if (ranks > 1)
        fprintf(stderr, "ring: %llu passes, %llu messages of %.1f KB from this rank, %.1f ms a pass for the others\n",
                (unsigned long long)c->pieces, (unsigned long long)c->hops,
                c->hops ? 1e-3 * (double)c->bytes / (double)c->hops : 0.0,
                c->pieces ? 1e-6 * (double)c->wait_ns / (double)c->pieces : 0.0);
    if (status_mb("VmHWM:") > 0 && (run.w.tcp || ranks == 1)) {
        fprintf(stderr, "this process: %.1f MB resident at most", status_mb("VmHWM:"));
        if (!run.check) fprintf(stderr, ", %.1f MB of address space", status_mb("VmPeak:"));
        if (run.memory > 0) fprintf(stderr, "; the system allows it %.1f MB", run.memory);
        fputc('\n', stderr);
    }
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    tllm_generate_result result;
    tllm_ring_counts counts;
    tllm_disk_about about;
    tllm_disk_desc dd;
    tllm_ring_desc rd;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tllm_disk *disk = NULL;
    tllm_ring *ring = NULL;
    text got = { NULL, 0, 0 };
    tiny_idx layers[WORLD_MOST];
    tllm_about what;
    int i;
    tiny_status st = TINY_OK;
    (void)arg;
    memset(&dd, 0, sizeof dd);
    memset(&rd, 0, sizeof rd);
    memset(&result, 0, sizeof result);
    memset(layers, 0, sizeof layers);
    if (net->world > WORLD_MOST || (run.list && run.n_list != net->world)) {
        fprintf(stderr, "prima: --layers has %d numbers for %d ranks, of which there are at most %d\n", run.n_list,
                net->world, WORLD_MOST);
        return TINY_E_ARGUMENT;
    }
    for (i = 0; i < net->world && run.list; i++) layers[i] = run.layers[i];
    dd.path = run.path;
    if (!run.list && net->world > 1) {      /* the number of layers, from a file that is not mapped */
        dd.window = dd.no_thread = 1;
        st = tllm_disk_open(ctx, &dd, &disk);
        if (st) return st;
        tllm_model_about(tllm_disk_model(disk), &what);
        tllm_disk_close(disk);
        disk = NULL;
        dd.no_thread = 0;
        for (i = 0; i < net->world; i++)    /* from one rounded end to the next */
            layers[i] = what.n_layer * (i + 1) / net->world - what.n_layer * i / net->world;
    }
    dd.window = run.window;
    dd.keep = run.keep;
    dd.bytes_per_second = 1e6 * run.disk;
    dd.layers = net->world > 1 ? layers : NULL;
    dd.rank = net->rank;
    dd.world = net->world;
    if (!run.resident) {
        st = tllm_disk_open(ctx, &dd, &disk);
        m = tllm_disk_model(disk);
    } else {
        st = tllm_file_open(ctx, run.path, &file);
        if (!st) st = tllm_model_open(ctx, file, &m);
    }
    rd.model = m;
    rd.net = net;
    rd.layers = layers;
    rd.n_ctx = run.context;
    rd.n_batch = run.batch;
    rd.timeout_ns = (uint64_t)(1e9 * run.timeout);
    if (!st && net->world > 1) st = tllm_ring_open(ctx, &rd, &ring);
    if (run.ctx) {                          /* the only rank of this process */
        run.ring = ring;
        run.from = disk;
    }
    if (!st && net->rank) st = tllm_ring_follow(ring, run.ctx ? every_second : NULL, NULL);
    if (!st && !net->rank) st = write_text(ctx, m, !run.quiet, &got, &result);
    if (!st && !net->rank && ring) st = tllm_ring_stop(ring);
    counts = tllm_ring_count(ring);
    tllm_disk_look(disk, &about);
    if (!st && !net->rank && !run.quiet) {
        tllm_model_about(m, &what);
        tell(&about, &counts, &result, net->world, what.n_layer);
    }
    if (!st && !net->rank && run.check) {
        if (got.n == run.want.n && !memcmp(got.at, run.want.at, got.n))
            fprintf(stderr, "check: the %zu bytes of text are those of the model in memory\n", got.n);
        else {
            fprintf(stderr, "check: the text differs from that of the model in memory\n");
            run.check = 2;
        }
    }
    tllm_ring_close(ring);
    if (disk) tllm_disk_close(disk);
    else tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    free(got.at);
    return st;
}

static int read_layers(void)
{
    char *copy, *at;
    int n = 0, bad = 0;
    if (!run.list) return 0;
    copy = (char *)need(malloc(strlen(run.list) + 1));
    strcpy(copy, run.list);
    for (at = strtok(copy, ","); at && !bad; at = strtok(NULL, ",")) {
        uint64_t v;
        if (n == WORLD_MOST || !is_whole(at, 1, 4096, &v)) bad = 1;
        else run.layers[n++] = (tiny_idx)v;
    }
    free(copy);
    run.n_list = n;
#ifndef WORLD_MPI                           /* there mpirun tells how many ranks there are */
    bad |= n != (run.w.ranks ? run.w.ranks : run.command == MASTER ? 2 : 1);
#endif
    if (bad)
        return refused("--layers %s: one whole number for each of %d ranks, such as 2,1", run.list,
                       run.w.ranks ? run.w.ranks : run.command == MASTER ? 2 : 1);
    return 0;
}

/* ---- ranks on several machines ----------------------------------------------------------------------------------- */

/* What rank 0 tells the others: context, batch, layers of each rank or none. 0: the plan is not one */
static int take_plan(const join_desc *j, int ranks)
{
    int i;
    if (j->n_plan != 12 + 4 * (size_t)WORLD_MOST || ranks > WORLD_MOST) return 0;
    run.context = (int)number_at(j->plan, 4);
    run.batch = (int)number_at(j->plan + 4, 4);
    run.n_list = (int)number_at(j->plan + 8, 4);
    if (run.context < 2 || run.context > 1e7 || run.batch < 1 || run.batch > 4096) return 0;
    for (i = 0; i < run.n_list && i < WORLD_MOST; i++) {
        run.layers[i] = (tiny_idx)number_at(j->plan + 12 + 4 * i, 4);
        if (run.layers[i] < 1 || run.layers[i] > 4096) return 0;
    }
    run.list = run.n_list ? "of the master" : NULL;
    return !run.n_list || run.n_list == ranks;
}
static void give_plan(join_desc *j)
{
    int i;
    j->n_plan = 12 + 4 * (size_t)WORLD_MOST;
    number_to(j->plan, (uint64_t)run.context, 4);
    number_to(j->plan + 4, (uint64_t)run.batch, 4);
    number_to(j->plan + 8, (uint64_t)run.n_list, 4);
    for (i = 0; i < run.n_list; i++) number_to(j->plan + 12 + 4 * i, (uint64_t)run.layers[i], 4);
}

/* the layers of each row of a table */
static tiny_status layers_by_table(tiny_ctx *ctx)
{
    static devices all;
    tllm_halda_model m;
    tllm_about about;
    tllm_halda_plan p;
    int i;
    tiny_status st = devices_choose(ctx, run.path, run.devices, run.context, &all, &m, &about, &p);
    if (st) return st;
    if (run.w.ranks && run.w.ranks != all.n) {
        fprintf(stderr, "prima: %s has %d devices, but there are %d ranks\n", run.devices, all.n, run.w.ranks);
        return TINY_E_ARGUMENT;
    }
    run.w.ranks = run.n_list = all.n;
    run.list = run.devices;
    for (i = 0; i < all.n; i++) {
        run.layers[i] = p.window[i];
        if (p.window[i]) {
            fprintf(stderr, "%s: %td layer%s a round\n", all.name[i], p.window[i], p.window[i] > 1 ? "s" : "");
            continue;
        }
        fprintf(stderr, "prima: %s is better left out: take it out of %s, and start a worker less\n", all.name[i],
                run.devices);
        return TINY_E_ARGUMENT;
    }
    return TINY_OK;
}

/* Joins the group and takes part to its end. The exit status; the reason of a failure was printed. */
static int take_part(const tiny_ctx_desc *cd, tiny_ctx **ctx)
{
    join_desc j;
    tllm_disk_desc dd;
    tllm_disk *disk = NULL;
    tiny_tcp *tcp = NULL;
    tiny_net *net;
    char *key;
    tiny_status st;
    memset(&j, 0, sizeof j);
    memset(&dd, 0, sizeof dd);
    key = read_key(run.key, &j.n_key);
    j.key = key;
    if (!key || tiny_ctx_open(cd, ctx)) { free(key); return 1; }
    dd.path = run.path;                     /* which model it is, from a file that is not mapped */
    dd.window = dd.no_thread = 1;
    st = tllm_disk_open(*ctx, &dd, &disk);
    if (!st) tllm_file_digest(tllm_disk_file(disk), j.model);
    tllm_disk_close(disk);
    if (st) say(tiny_ctx_message(*ctx));
    if (!st && run.devices) st = layers_by_table(*ctx);
    if (st) {
        tiny_wipe(key, j.n_key);
        free(key);
        tiny_ctx_close(*ctx);
        return 1;
    }
    j.rank = run.command == MASTER ? 0 : run.rank ? run.rank : TINY_TCP_ANY;
    j.world = run.command == MASTER ? run.w.ranks ? run.w.ranks : 2 : 0;
    j.at = run.command == MASTER ? run.listen : run.word;
    j.here = run.here;
    j.settings = "prima 1";
    j.wait = run.wait;
    if (run.command == MASTER) give_plan(&j);
    st = join_mesh(*ctx, &j, &tcp);
    tiny_wipe(key, j.n_key);
    free(key);
    net = tiny_tcp_net(tcp);
    if (!st && net->rank && !take_plan(&j, net->world)) {
        st = tiny_tcp_net(tcp)->why = TINY_E_PROTOCOL;
        say("the master sent a plan that this program does not know");
    } else if (!st) {
        if (net->rank) fprintf(stderr, "rank %d of %d\n", net->rank, net->world);
        run.ctx = *ctx;
        run.w.tcp = 1;
        st = body(*ctx, net, NULL);
        net->why = st;
        if (!st && net->rank) fputs("the master has ended\n", stderr);
    }
    if (st && *tiny_ctx_message(*ctx)) say(tiny_ctx_message(*ctx));
    tiny_tcp_close(*ctx, tcp);
    run.ctx = NULL;
    tiny_ctx_close(*ctx);
    return st != TINY_OK;
}

int main(int argc, char **argv)
{
    static tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tiny_status st = TINY_OK;
    int failed;
    const option options[] = { A_COMMAND("run plan key master worker", &run.command),
                               THE_WORD("file", &run.path),
                               A_WORD("prompt, table or address", &run.word),
                               A_WHOLE("rpm --context", &run.context, 2, 1e7),
                               A_WHOLE("rmw --window", &run.window, 1, 1e6),
                               A_FLAG("rmw --resident", &run.resident),
                               A_WHOLE("rmw --keep", &run.keep, 1, 1e6),
                               A_NUMBER("rmw --memory", &run.memory, 1, 1e9),
                               A_NUMBER("rmw --disk", &run.disk, 0.001, 1e6),
                               A_WHOLE("rm --n", &run.n, 1, 1e6),
                               A_WHOLE("rm --batch", &run.batch, 1, 4096),
                               A_FLAG("rm --check", &run.check),
                               A_FLAG("rmw --quiet", &run.quiet),
                               A_TEXT("rm --layers", &run.list),
                               A_TEXT("p --svg", &run.svg),
                               A_WHOLE("rm --ranks", &run.w.ranks, 1, WORLD_MOST),
                               A_FLAG("r --tcp", &run.w.tcp),
                               A_TEXT("m --listen", &run.listen),
                               A_TEXT("m --devices", &run.devices),
                               A_WHOLE("w --rank", &run.rank, 1, WORLD_MOST - 1),
                               A_TEXT("w --here", &run.here),
                               A_TEXT("mw --key", &run.key),
                               A_NUMBER("mw --wait", &run.wait, 0, 1e6),
                               A_NUMBER("mw --timeout", &run.timeout, 0.01, 1e6),
                               A_WHOLE("mw --threads", &cd.n_threads, 1, TINY_MAX_THREADS),
                               A_NUMBER("rp --ms", &run.w.ms, 0, 1e4),
                               A_NUMBER("rp --mbit", &run.w.mbit, 0, 1e9) };
    run.window = 2;
    run.n = 64;
    run.context = 512;
    run.batch = 32;
    run.listen = "127.0.0.1:29500";
    run.wait = 60;
    run.timeout = 600;
    READ_OPTIONS(argc, argv, usage, options);
    if (run.command == KEY && run.word) return refused("%s: key takes a file only", run.word);
    if (run.command == KEY) return exit_status(make_key(run.path));
    if (read_layers()) return 2;
    if (run.command == PLAN && !run.word) return refused("the table of devices is missing");
    if (run.command == WORKER && !run.word) return refused("the address of the master is missing");
    if (run.devices && run.list) return refused("either --layers or --devices");
    if (run.command == RUN && !run.w.ranks) run.w.ranks = 1;
    if (must_not_write(run.svg, 2, run.path, run.word)) return 2;
    if (!run.word) run.word = "";
    stop_on_signals();
    cd.log = hear;
    cd.user = &ctx;
    cd.cancel = cancelled;
    if (run.command < MASTER) cd.n_threads = 1;
    if (run.check && !run.quiet) fputs("the text of the model in memory comes first, for --check\n", stderr);
    if (run.command == PLAN || run.check) {
        if (tiny_ctx_open(&cd, &ctx)) return 1;
        if (run.command == PLAN)
            st = devices_plan(ctx, run.path, run.word, run.context, run.w.ms, run.w.mbit, run.svg);
        else {
            st = in_memory(ctx, &run.want, &run.resident_ms);
            if (st) say(tiny_ctx_message(ctx));
        }
        tiny_ctx_close(ctx);
        if (st || run.command == PLAN) return exit_status(st != TINY_OK);
    }
    forget_peak();
    if (run.memory > 0 && limit_memory()) return 1;
    failed = run.command == RUN ? world_run(&run.w, body, NULL) : take_part(&cd, &ctx);
    free(run.want.at);
    return exit_status(stopped_by ? 128 + stopped_by : failed || run.check == 2);
}
