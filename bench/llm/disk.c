/* bench/llm/disk.c - a model that is read from a slow disk while it computes, alone and in a ring of two ranks
 *
 * TPI-LLM (arXiv 2410.00531) keeps two blocks of a 7B model in memory: 2.6 s a token at 1.7 GB instead of 1.2 s at
 * 4.5 GB. prima.cpp (arXiv 2504.08791) adds a ring, in which a device reads while others compute. Here the loader is
 * slowed down to a disk that takes 1.5 times as long for a block as its computation on one rank. Passes of 128 tokens,
 * so that a pass takes about as long as reading it from an ordinary disk. The ranks of the cut model compute half of
 * each block, read half, and are 4 ms apart, so their sums hide what is left of the reading. All rows take turns. */
#include "bench.h"
#include <stdio.h>
#include <string.h>

enum { BD_EMBD = 512, BD_FF = 1376, BD_LAYERS = 8, BD_VOCAB = 2048, BD_TOKENS = 128, BD_ROWS = 9, BD_ROUNDS = 7 };
#define BD_DELAY 4000000u                   /* of a line between the ranks of the cut model, ns */
static const char bd_path[] = "bench-disk.part";

static const struct { const char *name; int in, out; } bd_t[] = {
    { "attn_norm", BD_EMBD, 1 },       { "attn_q", BD_EMBD, BD_EMBD },      { "attn_k", BD_EMBD, BD_EMBD },
    { "attn_v", BD_EMBD, BD_EMBD },    { "attn_output", BD_EMBD, BD_EMBD }, { "ffn_norm", BD_EMBD, 1 },
    { "ffn_gate", BD_EMBD, BD_FF },    { "ffn_up", BD_EMBD, BD_FF },        { "ffn_down", BD_FF, BD_EMBD },
};
static void bd_tensor(tiny_ctx *ctx, tllm_writer *w, const char *name, int in, int out)
{
    uint64_t dim[2];
    tllm_text text;
    dim[0] = (uint64_t)in;
    dim[1] = (uint64_t)out;
    text.at = name;
    text.n = strlen(name);
    b_must(ctx, tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, out > 1 ? 2 : 1, dim, NULL));
}
static void bd_write(tiny_ctx *ctx)
{
    const size_t most = (size_t)BD_EMBD * BD_VOCAB;
    float *x = (float *)b_alloc(most * sizeof *x), ones[BD_EMBD];
    tiny_rng rng = tiny_rng_make(5, 0);
    tllm_writer_desc wd;
    tllm_writer *w = NULL;
    char name[64];
    int i;
    size_t k;
    memset(&wd, 0, sizeof wd);
    wd.path = bd_path;
    b_must(ctx, tllm_writer_open(ctx, &wd, &w));
    b_must(ctx, tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.embedding_length", BD_EMBD));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.block_count", BD_LAYERS));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", BD_FF));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.attention.head_count", 8));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.context_length", 1024));
    b_must(ctx, tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    bd_tensor(ctx, w, "token_embd.weight", BD_EMBD, BD_VOCAB);
    for (i = 0; i < BD_LAYERS; i++)
        for (k = 0; k < sizeof bd_t / sizeof *bd_t; k++) {
            (void)snprintf(name, sizeof name, "blk.%d.%s.weight", i, bd_t[k].name);
            bd_tensor(ctx, w, name, bd_t[k].in, bd_t[k].out);
        }
    bd_tensor(ctx, w, "output_norm.weight", BD_EMBD, 1);
    bd_tensor(ctx, w, "output.weight", BD_EMBD, BD_VOCAB);
    tiny_rng_fill_uniform(&rng, x, (tiny_idx)most, -0.06f, 0.06f);
    for (k = 0; k < BD_EMBD; k++) ones[k] = 1.0f;
    b_must(ctx, tllm_writer_data(ctx, w, x, most * 4));
    for (i = 0; i < BD_LAYERS; i++)
        for (k = 0; k < sizeof bd_t / sizeof *bd_t; k++)
            b_must(ctx, tllm_writer_data(ctx, w, bd_t[k].out > 1 ? x + (i * 977 + (int)k * 131) % 4096 : ones,
                                         (size_t)bd_t[k].in * (size_t)bd_t[k].out * 4));
    b_must(ctx, tllm_writer_data(ctx, w, ones, sizeof ones));
    b_must(ctx, tllm_writer_data(ctx, w, x, most * 4));
    b_must(ctx, tllm_writer_finish(ctx, w));
    tllm_writer_close(ctx, w);
    b_free(x);
}

typedef struct bd_row {
    const char *what;
    int world, window, cut;                 /* window 0: in memory; cut: over ranks, otherwise a ring */
    double ms[BD_ROUNDS], stall[BD_ROUNDS], times[BD_ROUNDS];       /* times: as long as in memory */
    double median, ratio;
    tllm_disk_about about;
} bd_row;
typedef struct bd_job { bd_row *row; int round, passes; double rate; tiny_local *local; int ran; } bd_job;

static void bd_rank(tiny_team *team, void *arg)
{
    bd_job *j = (bd_job *)arg;
    static const tiny_idx layers[2] = { 1, 1 };
    const int rank = team->i, world = j->row->world;
    tiny_ctx *ctx;
    tllm_disk_desc dd;
    tllm_ring_desc rd;
    tllm_state_desc sd;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tllm_disk *disk = NULL;
    tllm_ring *ring = NULL;
    tiny_comm_desc cd;
    tiny_comm *comm = NULL;
    tllm_state *s = NULL;
    int32_t token[BD_TOKENS];
    float *out;
    double from = 0, stall = 0;
    int i;
    if (team->n != world) return;
    if (!rank) j->ran = 1;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    memset(&dd, 0, sizeof dd);
    memset(&rd, 0, sizeof rd);
    memset(&sd, 0, sizeof sd);
    dd.path = bd_path;
    dd.window = j->row->window;
    dd.bytes_per_second = j->rate;
    dd.layers = world > 1 && !j->row->cut ? layers : NULL;
    dd.rank = rank;
    dd.world = world;
    if (j->row->window) {
        b_must(ctx, tllm_disk_open(ctx, &dd, &disk));
        m = tllm_disk_model(disk);
    } else {
        b_must(ctx, tllm_file_open(ctx, bd_path, &file));
        b_must(ctx, tllm_model_open(ctx, file, &m));
        if (j->row->cut) b_must(ctx, tllm_model_cut(ctx, m, rank, world));
    }
    if (j->row->cut) {
        memset(&cd, 0, sizeof cd);
        cd.net = tiny_local_net(j->local, rank);
        cd.n_most = (size_t)BD_TOKENS * BD_EMBD;
        cd.timeout_ns = UINT64_C(600000000000);
        b_must(ctx, tiny_comm_open(ctx, &cd, &comm));
    }
    rd.model = m;
    rd.net = tiny_local_net(j->local, rank);
    rd.layers = layers;
    rd.n_ctx = rd.n_batch = BD_TOKENS;
    rd.timeout_ns = UINT64_C(600000000000);
    if (world > 1 && !j->row->cut) b_must(ctx, tllm_ring_open(ctx, &rd, &ring));
    if (ring && rank) b_must(ctx, tllm_ring_follow(ring, NULL, NULL));
    else {
        sd.comm = comm;
        sd.n_ctx = sd.n_batch = BD_TOKENS;
        out = (float *)b_alloc(BD_VOCAB * sizeof *out);
        b_must(ctx, tllm_state_open(ctx, m, &sd, &s));
        for (i = 0; i < BD_TOKENS; i++) token[i] = (int32_t)(i * 37 % BD_VOCAB);
        for (i = 0; i <= j->passes; i++) {  /* the first one fills the window */
            tllm_state_clear(s);
            if (i == 1 && !rank) {
                tllm_disk_look(disk, &j->row->about);
                stall = 1e-6 * (double)j->row->about.loader.stall_ns;
                from = b_now();
            }
            b_must(ctx, tllm_forward(s, token, BD_TOKENS, 0, 1, out));
        }
        if (!rank) {
            j->row->ms[j->round] = 1e3 * (b_now() - from) / j->passes;
            tllm_disk_look(disk, &j->row->about);
            j->row->stall[j->round] = (1e-6 * (double)j->row->about.loader.stall_ns - stall) / j->passes;
        }
        tllm_state_close(ctx, s);
        b_free(out);
        if (ring) b_must(ctx, tllm_ring_stop(ring));
    }
    tllm_ring_close(ring);
    tiny_comm_close(comm);
    if (disk) tllm_disk_close(disk);
    else tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    tiny_ctx_close(ctx);
}

static void bd_turn(tiny_ctx *ctx, bd_row *row, int round, double rate)
{
    tiny_local_desc d;
    bd_job j;
    memset(&d, 0, sizeof d);
    memset(&j, 0, sizeof j);
    d.world = row->world;
    d.latency_ns = row->cut ? BD_DELAY : 0;
    j.row = row;
    j.round = round;
    j.passes = b_quick ? 1 : 3;
    j.rate = rate;
    b_must(ctx, tiny_local_open(ctx, &d, &j.local));
    b_must(ctx, tiny_parallel(ctx, row->world, 0, 0, bd_rank, &j));
    tiny_local_close(ctx, j.local);
}

static double bd_median(const double *x, int n)
{
    double s[BD_ROUNDS];
    int i, k;
    for (i = 0; i < n; i++) {
        for (k = i; k > 0 && s[k - 1] > x[i]; k--) s[k] = s[k - 1];
        s[k] = x[i];
    }
    return s[n / 2];
}

void bench_disk(void)
{
    static const char *const what[BD_ROWS] = { "in memory",            "window 1",            "window 2",
                                               "ring of 2, in memory", "ring of 2, window 1", "ring of 2, window 2",
                                               "cut, in memory",       "cut, window 1",       "cut, window 2" };
    static bd_row row[BD_ROWS];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 2);
    const double layer = 4.0 * (4.0 * BD_EMBD * BD_EMBD + 3.0 * BD_EMBD * BD_FF);
    const int rounds = b_quick ? 1 : BD_ROUNDS;
    tllm_slots_times t;
    tllm_slots_answer a;
    double rate[BD_ROUNDS];
    int i, k;
    for (i = 0; i < BD_ROWS; i++) {
        row[i].what = what[i];
        row[i].world = 1 + (i > 2);
        row[i].cut = i > 5;
        row[i].window = i % 3;
    }
    bd_write(ctx);
    bd_turn(ctx, &row[0], 0, 0);            /* the file into the system's cache */
    for (k = 0; k < rounds; k++) {          /* its disk takes 1.5 times as long for a block as computing */
        bd_turn(ctx, &row[0], k, 0);
        rate[k] = layer * BD_LAYERS / (1.5e-3 * row[0].ms[k]);
        for (i = 1; i < BD_ROWS; i++) bd_turn(ctx, &row[i], k, row[i].window ? rate[k] : 0);
        for (i = 0; i < BD_ROWS; i++) row[i].times[k] = row[i].ms[k] / row[i / 3 * 3].ms[k];
    }
    b_note("a model of %.0f MB in f32, %d layers, passes of %d tokens, one thread a rank; the disk reads %.0f MB/s",
           1e-6 * layer * BD_LAYERS, BD_LAYERS, BD_TOKENS, 1e-6 * bd_median(rate, rounds));
    for (i = 0; i < BD_ROWS; i++) {
        double least = row[i].times[0], most = least;
        for (k = 1; k < rounds; k++) {
            least = row[i].times[k] < least ? row[i].times[k] : least;
            most = row[i].times[k] > most ? row[i].times[k] : most;
        }
        row[i].median = bd_median(row[i].ms, rounds);
        row[i].ratio = bd_median(row[i].times, rounds);
        b_note("  %-20s %7.1f ms a pass, %4.2f (%.2f to %.2f) times in memory; rank 0 waits %5.1f ms; window %4.1f MB, "
               "peak %4.1f MB", row[i].what, row[i].median, row[i].ratio, least, most,
               bd_median(row[i].stall, rounds), 1e-6 * (double)row[i].about.window_bytes,
               1e-6 * (double)row[i].about.loader.peak);
    }
    /* the predictor, for one rank: computing in proportion to the bytes, reading at the rate of the disk */
    memset(&t, 0, sizeof t);
    t.n_layer = BD_LAYERS;
    t.load_attn = 1e3 * 16.0 * BD_EMBD * BD_EMBD / bd_median(rate, rounds);
    t.load_ffn = 1e3 * 12.0 * BD_EMBD * BD_FF / bd_median(rate, rounds);
    t.attn = row[0].median / BD_LAYERS * 16.0 * BD_EMBD * BD_EMBD / layer;
    t.ffn = row[0].median / BD_LAYERS - t.attn;
    for (i = 1; i < 3; i++) {
        t.window = i;
        b_must(ctx, tllm_slots_run(ctx, &t, 8, &a));
        b_note("  predictor, window %d: %.1f ms a pass", i, a.seconds / 8);
    }
    if (!b_quick) {
        b_verdict("one rank, window 1, against in memory", row[1].ratio, ">", 1.5);
        b_verdict("cut over 2, window 2, against its own in memory", row[8].ratio, "<", 1.1);
        b_verdict("ring of 2, window 2, against its own in memory", row[5].ratio, "<", 1.1);
        b_headline("prima", "TPI-LLM, 7B: 2.6 s a token at 1.7 GB, 1.2 s at 4.5 GB in memory: 2.2 times as long",
                   "model of 101 MB, disk 1.5 times as slow as computing, passes of 128 tokens, medians of 7",
                   "one rank, window 1: %.2f times as long as in memory, window 2: %.2f with %.1f MB of %.0f MB held; "
                   "cut over two ranks 4 ms apart %.2f and %.2f, with %.1f MB held",
                   row[1].ratio, row[2].ratio, 1e-6 * (double)row[2].about.loader.peak, 1e-6 * layer * BD_LAYERS,
                   row[7].ratio, row[8].ratio, 1e-6 * (double)row[8].about.loader.peak);
        b_headline("prima", "prima.cpp, 70B on four home devices: 674 ms a token, one device with llama.cpp 10120 ms",
                   "the same model and disk, ring of two ranks on two cores, one layer in turn",
                   "window 2: %.2f times as long as the ring in memory, window 1: %.2f; one rank alone %.2f",
                   row[5].ratio, row[4].ratio, row[2].ratio);
    }
    (void)remove(bd_path);
    tiny_ctx_close(ctx);
}
