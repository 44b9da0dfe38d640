/* examples/prima.c - a model larger than memory: blocks read while others compute, and layers on several ranks
 *
 *     prima run MODEL.gguf "Once upon a time"                          two blocks in memory at a time
 *     prima run MODEL.gguf "Once upon a time" --memory 200             the system allows this process 200 MB
 *     prima run MODEL.gguf "Once upon a time" --ranks 3 --layers 2,1,1 --tcp --check
 *     prima plan MODEL.gguf TABLE                                      which layers for which device
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
#ifdef OPTIONS_UNIX
#include <sys/resource.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

static const char usage[] =
    "prima run MODEL [PROMPT] [options]     continues a text with a model that stays on disk\n"
    "prima plan MODEL TABLE [options]       the layers of each device; examples/devices.h describes the table\n"
    "  --context N    tokens of the context; default: 512\n"
    "  --ms X         delay of a link, in milliseconds\n"
    "  --mbit X       megabits per second of a link; default: no limit\n"
    "run:\n"
    "  --window W     blocks in memory: attention or network of a layer, or the output; default: 2\n"
    "  --resident     no window: the model is mapped as usual\n"
    "  --keep T       keep the networks of layers 0, T, 2T ... in memory\n"
    "  --memory MB    megabytes of address space that the system allows this process (not on Windows)\n"
    "  --disk MB      megabytes per second: reads no faster; default: no limit\n"
    "  --n N          tokens to write; default: 64\n"
    "  --batch N      tokens of the prompt in one pass over the file; default: 32\n"
    "  --check        computes the text in memory first, and ends with status 1 if the other one differs\n"
    "  --quiet        writes neither the text nor the figures\n"
    "  --ranks N      ranks on this machine, 1 to 16: threads; each computes some layers in turn\n"
    "  --layers LIST  layers of each rank in a round, such as 2,1,1; default: about equal parts, one round\n"
    "  --tcp          ranks are processes that talk over TCP (not on Windows)\n"
    "plan:\n"
    "  --svg FILE     draw two tokens in time\n";

enum { RUN, PLAN };
typedef struct text { char *at; size_t n, room; } text;
static struct {
    const char *path, *word, *list, *svg;
    int command, window, resident, keep, n, n_list, batch, check, quiet, context;
    double memory, disk;
    world w;
    tiny_idx layers[WORLD_MOST];
    text want;
    double resident_ms;
    uint64_t said_at;
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
    return cancelled(NULL);
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
    rd.timeout_ns = UINT64_C(600000000000);
    if (!st && net->world > 1) st = tllm_ring_open(ctx, &rd, &ring);
    if (!st && net->rank) st = tllm_ring_follow(ring, NULL, NULL);
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
    bad |= n != run.w.ranks;
#endif
    if (bad)
        return refused("--layers %s: one whole number for each of %d ranks, such as 2,1", run.list, run.w.ranks);
    return 0;
}

int main(int argc, char **argv)
{
    static tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tiny_status st = TINY_OK;
    int failed;
    const option options[] = { A_COMMAND("run plan", &run.command),
                               THE_WORD("model", &run.path),
                               A_WORD("prompt or table", &run.word),
                               A_WHOLE("--context", &run.context, 2, 1e7),
                               A_WHOLE("r --window", &run.window, 1, 1e6),
                               A_FLAG("r --resident", &run.resident),
                               A_WHOLE("r --keep", &run.keep, 1, 1e6),
                               A_NUMBER("r --memory", &run.memory, 1, 1e9),
                               A_NUMBER("r --disk", &run.disk, 0.001, 1e6),
                               A_WHOLE("r --n", &run.n, 1, 1e6),
                               A_WHOLE("r --batch", &run.batch, 1, 4096),
                               A_FLAG("r --check", &run.check),
                               A_FLAG("r --quiet", &run.quiet),
                               A_TEXT("r --layers", &run.list),
                               A_TEXT("p --svg", &run.svg),
                               A_WHOLE("r --ranks", &run.w.ranks, 1, WORLD_MOST),
                               A_FLAG("r --tcp", &run.w.tcp),
                               A_NUMBER("--ms", &run.w.ms, 0, 1e4),
                               A_NUMBER("--mbit", &run.w.mbit, 0, 1e9) };
    run.window = 2;
    run.n = 64;
    run.context = 512;
    run.batch = 32;
    run.w.ranks = 1;
    READ_OPTIONS(argc, argv, usage, options);
    if (read_layers()) return 2;
    if (run.command == PLAN && !run.word) return refused("the table of devices is missing");
    if (must_not_write(run.svg, 2, run.path, run.word)) return 2;
    if (!run.word) run.word = "";
    stop_on_signals();
    cd.log = hear;
    cd.user = &ctx;
    cd.n_threads = 1;
    cd.cancel = cancelled;
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
    failed = world_run(&run.w, body, NULL);
    free(run.want.at);
    return exit_status(stopped_by ? 128 + stopped_by : failed || run.check == 2);
}
