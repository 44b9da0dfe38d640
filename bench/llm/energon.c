/* bench/llm/energon.c - a pipeline that does not wait to send, batches without padding, layers in a peer's memory
 *
 * EnergonAI (arXiv 2209.02341) reports 37 % lower latency of tensor ranks and 10 % better scaling of a pipeline than
 * FasterTransformer, on GPUs. Here: the same kernels with and without padding, on the mix of lengths 128 to 8; the same
 * pipeline blocking and not, with stages that sleep (so that the schedule is measured and not how busy the machine is)
 * and with stages that compute; a pool over a link of 1 Gbit/s next to its formula, with and without loading ahead. */
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TINYLLM_NO_ENERGON
void bench_energon(void) {}
#else

enum { EN_D = 512, EN_LAYERS = 4, EN_VOCAB = 256, EN_SEEDS = 3, EN_TURNS = 7, EN_BATCHES = 24, EN_POOL = 12 };
enum { EN_BYTES = 1 << 22 };                /* of a layer in the pool */

/* ---- a model in memory ------------------------------------------------------------------------------------------- */

static tllm_writer *en_model(tiny_ctx *ctx, const void **at, size_t *n)
{
    static const struct { const char *name; int in, out; } t[] = {
        { "attn_norm", EN_D, 1 },       { "attn_q", EN_D, EN_D },      { "attn_k", EN_D, EN_D },
        { "attn_v", EN_D, EN_D },       { "attn_output", EN_D, EN_D }, { "ffn_norm", EN_D, 1 },
        { "ffn_gate", EN_D, 3 * EN_D }, { "ffn_up", EN_D, 3 * EN_D },  { "ffn_down", 3 * EN_D, EN_D } };
    float *x = (float *)b_alloc((size_t)EN_D * EN_D * 4 * sizeof *x);
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    tiny_rng r = tiny_rng_make(3, 3);
    static char name[EN_LAYERS][9][40];
    int l, i;
    memset(&d, 0, sizeof d);
    tiny_rng_fill_uniform(&r, x, (size_t)EN_D * EN_D * 4, -0.06f, 0.06f);
    b_must(ctx, tllm_writer_open(ctx, &d, &w));
    b_must(ctx, tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.embedding_length", EN_D));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.block_count", EN_LAYERS));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", 3 * EN_D));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.attention.head_count", 8));
    for (l = -1; l <= EN_LAYERS; l++)
        for (i = 0; i < (l < 0 ? 2 : l < EN_LAYERS ? 9 : 1); i++) {
            uint64_t dim[2];
            tllm_text text;
            dim[0] = (uint64_t)(l < 0 || l == EN_LAYERS ? EN_D : t[i].in);
            dim[1] = (uint64_t)(l == EN_LAYERS ? 1 : l < 0 ? EN_VOCAB : t[i].out);
            text.at = l == EN_LAYERS ? "output_norm.weight" : l < 0 ? (i ? "output.weight" : "token_embd.weight")
                                                                    : name[l][i];
            if (l >= 0 && l < EN_LAYERS) (void)snprintf(name[l][i], 40, "blk.%d.%s.weight", l, t[i].name);
            text.n = strlen(text.at);
            b_must(ctx, tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, dim[1] > 1 ? 2 : 1, dim, x));
        }
    b_must(ctx, tllm_writer_finish(ctx, w));
    *at = tllm_writer_memory(w, n);
    b_free(x);
    return w;
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

typedef struct en_rows { tiny_ctx *ctx; tllm_stage_net *net; int32_t *token; float *out; } en_rows;
static const int32_t en_mix[8] = { 128, 64, 32, 32, 16, 16, 16, 8 };

static void en_run(void *arg)
{
    en_rows *j = (en_rows *)arg;
    tllm_energon_batch b;
    memset(&b, 0, sizeof b);
    b.length = en_mix;
    b.n = 8;
    b.most = 128;
    b.valid = 312;
    b_must(j->ctx, tllm_stage_net_run(j->net, &b, j->token, j->out));
}

/* times of padded and mixed, divided by that without padding */
static void en_padding(tiny_ctx *ctx, const tllm_gguf *file, double *all, double *mixed)
{
    static const char *const what[3] = { "valid rows", "padded", "padded attention" };
    tllm_stage_net_desc d;
    en_rows j[3];
    b_row r[3];
    int i, k;
    memset(r, 0, sizeof r);
    for (i = 0; i < 3; i++) {
        memset(&d, 0, sizeof d);
        d.file = file;
        d.tokens = 512;
        d.form = i;
        j[i].ctx = ctx;
        b_must(ctx, tllm_stage_net_open(ctx, &d, &j[i].net));
        j[i].token = (int32_t *)b_alloc(512 * sizeof(int32_t));
        j[i].out = (float *)b_alloc(8 * EN_VOCAB * sizeof(float));
        for (k = 0; k < 512; k++) j[i].token[k] = (k * 37 + 11) % EN_VOCAB;
        r[i].what = what[i];
        r[i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
        r[i].threads = 1;
        r[i].run = en_run;
        r[i].arg = &j[i];
        b_shape(&r[i], "128 to 8, d 512");
    }
    b_contest("EnergonAI: 8 texts of 312 tokens through 4 layers", r, 3);
    *all = r[1].median_ns / r[0].median_ns;
    *mixed = r[2].median_ns / r[0].median_ns;
    b_verdict("padded over valid rows", *all, ">", 1.5);
    for (i = 0; i < 3; i++) {
        tllm_stage_net_close(j[i].net);
        b_free(j[i].token);
        b_free(j[i].out);
    }
}

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

typedef struct en_line {
    int stages, blocking, ran;
    const void *at;                         /* of the model; NULL: stages sleep */
    size_t n;
    const double *take;                     /* (EN_BATCHES, stages) ms */
    tiny_local *local;
    double ms;
} en_line;
typedef struct en_stage { tiny_net *net; const en_line *l; int s; } en_stage;

static void en_sleep(tiny_net *net, double ms)
{
    const uint64_t until = tiny_now_ns() + (uint64_t)(1e6 * ms);
    while (tiny_now_ns() < until) net->pause(net, net->changes(net), until);
}
static tiny_status en_stage_sleeps(void *user, tllm_energon_batch *b, const void *in, void *out)
{
    const en_stage *g = (const en_stage *)user;
    (void)in;
    memset(out, 0, 4);
    en_sleep(g->net, g->l->take[(int)b->number % EN_BATCHES * g->l->stages + g->s]);
    return TINY_OK;
}

static void en_rank(tiny_team *team, void *arg)
{
    en_line *l = (en_line *)arg;
    const int rank = team->i;
    tiny_net *net = tiny_local_net(l->local, rank);
    tllm_energon_desc d;
    tllm_stage_net_desc nd;
    tllm_stage_net *m = NULL;
    tllm_gguf *file = NULL;
    tllm_energon *e = NULL;
    en_stage g;
    size_t row[8] = { 4, 4, 4, 4, 4, 4, 4, 4 };
    tiny_ctx *ctx;
    int i, k;
    if (team->n != l->stages + 1) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    memset(&d, 0, sizeof d);
    memset(&nd, 0, sizeof nd);
    g.net = net;
    g.l = l;
    g.s = rank - 1;
    d.net = net;
    d.stages = l->stages;
    d.row = row;
    d.run = en_stage_sleeps;
    d.user = &g;
    d.texts = l->at ? 8 : 1;
    d.tokens = 1024;
    d.blocking = l->blocking;
    d.timeout_ns = UINT64_C(60000000000);
    d.queue = 256;
    if (l->at) {
        b_must(ctx, tllm_gguf_open_memory(ctx, l->at, l->n, &file));
        b_must(ctx, tllm_stage_net_rows(ctx, file, l->stages, row, &d.print));
        nd.file = file;
        nd.stages = l->stages;
        nd.stage = rank ? rank - 1 : 0;
        if (rank) b_must(ctx, tllm_stage_net_open(ctx, &nd, &m));
        d.run = tllm_stage_net_run;
        d.user = m;
    }
    b_must(ctx, tllm_energon_open(ctx, &d, &e));
    if (rank) b_must(ctx, tllm_energon_follow(e));
    else {
        const int n = l->at ? 64 : EN_BATCHES;
        static int32_t token[128];
        float *out = (float *)b_alloc(EN_VOCAB * sizeof(float));
        tiny_rng r = tiny_rng_make(7, 7);
        uint64_t from;
        b_must(ctx, tllm_energon_hold(e, 1));
        for (i = 0; i < n; i++) {
            const int size = l->at ? 4 << tiny_rng_below(&r, 5) : 1;
            for (k = 0; k < size; k++) token[k] = (i * 13 + k) % EN_VOCAB;
            b_must(ctx, tllm_energon_submit(e, (uint64_t)i, token, size));
        }
        from = tiny_now_ns();
        b_must(ctx, tllm_energon_hold(e, 0));
        for (i = 0; i < n; i++) b_must(ctx, tllm_energon_wait(e, (uint64_t)i, out));
        l->ms = 1e-6 * (double)(tiny_now_ns() - from);
        l->ran = 1;
        b_must(ctx, tllm_energon_stop(e));
        b_free(out);
    }
    tllm_energon_close(e);
    tllm_stage_net_close(m);
    tllm_gguf_close(ctx, file);
    net->close(net);
    tiny_ctx_close(ctx);
}
static double en_turn(tiny_ctx *ctx, en_line *l, double latency_ms)
{
    tiny_local_desc d;
    memset(&d, 0, sizeof d);
    d.world = l->stages + 1;
    d.latency_ns = (uint64_t)(1e6 * latency_ms);
    d.queue_bytes = (size_t)1 << 24;
    l->ran = 0;
    b_must(ctx, tiny_local_open(ctx, &d, &l->local));
    b_must(ctx, tiny_parallel(ctx, l->stages + 1, 0, 0, en_rank, l));
    tiny_local_close(ctx, l->local);
    return l->ran ? l->ms : 0;
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

/* load_ms, slept_ms: of a lent layer and of a layer, as they were; load_ms only if it is loaded when needed */
typedef struct en_pool {
    tiny_local *local;
    int ahead, ran;
    double layer_ms, ms, load_ms, slept_ms;
    unsigned char *block;
} en_pool;
static void en_pool_rank(tiny_team *team, void *arg)
{
    en_pool *j = (en_pool *)arg;
    const void *block[EN_POOL], *data;
    tllm_pool_desc d;
    tllm_pool *p = NULL;
    tiny_net *net = tiny_local_net(j->local, team->i);
    tiny_ctx *ctx;
    tllm_pool_about about;
    uint64_t from, began;
    double slept = 0;
    int i;
    if (team->n != 2) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    for (i = 0; i < EN_POOL; i++) block[i] = j->block;
    if (team->i) b_must(ctx, tllm_pool_lend(ctx, net, block, EN_POOL, EN_BYTES, 1));
    else {
        memset(&d, 0, sizeof d);
        d.layers = EN_POOL;
        d.k = 4;
        d.bytes = EN_BYTES;
        d.resident = block;
        d.net = net;
        d.print = 1;
        d.ahead = j->ahead ? 0 : -1;
        b_must(ctx, tllm_pool_open(ctx, &d, &p));
        from = tiny_now_ns();
        for (i = 0; i < 2 * EN_POOL; i++) {
            b_must(ctx, tllm_pool_acquire(p, i % EN_POOL, &data));
            began = tiny_now_ns();
            en_sleep(net, j->layer_ms);
            slept += 1e-6 * (double)(tiny_now_ns() - began);
        }
        j->ms = 1e-6 * (double)(tiny_now_ns() - from);
        j->slept_ms = slept / (2 * EN_POOL);
        tllm_pool_look(p, &about);
        j->load_ms = 1e-6 * (double)about.loader.read_ns / (double)(about.loader.blocks ? about.loader.blocks : 1);
        j->ran = 1;
        tllm_pool_close(p);
    }
    net->close(net);
    tiny_ctx_close(ctx);
}
static double en_pool_turn(tiny_ctx *ctx, en_pool *j, double bits)
{
    tiny_local_desc d;
    memset(&d, 0, sizeof d);
    d.world = 2;
    d.bits_per_second = bits;
    d.latency_ns = 200000;
    d.queue_bytes = (size_t)4 * EN_BYTES;
    j->ran = 0;
    b_must(ctx, tiny_local_open(ctx, &d, &j->local));
    b_must(ctx, tiny_parallel(ctx, 2, 0, 0, en_pool_rank, j));
    tiny_local_close(ctx, j->local);
    return j->ran ? j->ms : 0;
}

static void en_span(const double *x, int n, double *least, double *mid, double *most)
{
    double y[9], t;
    int i, k;
    memcpy(y, x, (size_t)n * sizeof *x);
    for (i = 1; i < n; i++) for (k = i; k > 0 && y[k] < y[k - 1]; k--) { t = y[k]; y[k] = y[k - 1]; y[k - 1] = t; }
    *least = y[0];
    *mid = y[n / 2];
    *most = y[n - 1];
}

void bench_energon(void)
{
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *ctx = b_ctx(TINY_TARGET_AUTO, 5);
    static double take[EN_BATCHES * 4];
    double all, mixed, ratio[EN_SEEDS], off[EN_SEEDS], work[EN_TURNS], lo[3], mid[3], hi[3], ms[2];
    tllm_gguf *file = NULL;
    const void *at;
    size_t n;
    tllm_writer *w = en_model(one, &at, &n);
    en_line l;
    en_pool p;
    int k, i;
    b_must(one, tllm_gguf_open_memory(one, at, n, &file));
    en_padding(one, file, &all, &mixed);
    for (k = 0; k < EN_SEEDS; k++) {
        tiny_rng r = tiny_rng_make((uint64_t)k, 11);
        double form;
        memset(&l, 0, sizeof l);
        for (i = 0; i < EN_BATCHES * 4; i++) take[i] = 5 + 10 * tiny_rng_uniform64(&r);
        l.stages = 4;
        l.take = take;
        form = tllm_energon_makespan(take, EN_BATCHES, 4, 1, 0) + 2;
        ms[0] = en_turn(ctx, &l, 1);
        l.blocking = 1;
        ms[1] = en_turn(ctx, &l, 1);
        if (!(ms[0] > 0 && ms[1] > 0)) { b_note("not every rank had a thread"); break; }
        ratio[k] = ms[1] / ms[0];
        off[k] = ms[0] / form;
        b_note("seed %d: 4 stages of 5 to 15 ms, 24 batches, messages of 1 ms: %.1f ms, by the recurrence %.1f; "
               "blocking %.1f", k, ms[0], form, ms[1]);
    }
    for (i = 0; i < EN_TURNS && k == EN_SEEDS; i++) {           /* two stages that compute, 1 ms between them */
        l.at = at;
        l.n = n;
        l.stages = 2;
        l.blocking = 1;
        ms[1] = en_turn(ctx, &l, 1);
        l.blocking = 0;
        ms[0] = en_turn(ctx, &l, 1);
        work[i] = ms[1] / ms[0];
    }
    if (k == EN_SEEDS) {
        en_span(ratio, EN_SEEDS, &lo[0], &mid[0], &hi[0]);
        en_span(off, EN_SEEDS, &lo[1], &mid[1], &hi[1]);
        en_span(work, EN_TURNS, &lo[2], &mid[2], &hi[2]);
        b_verdict("blocking over not blocking, 4 stages", mid[0], ">", 1.1);
        if (!b_quick)
            b_headline("energonai", "EnergonAI: 37 % lower latency of tensor ranks, 10 % better scaling of a pipeline "
                       "than FasterTransformer",
                       "lengths 128, 64, 32, 32, 16, 16, 16, 8 at d 512, 4 layers, one thread; 4 stages that sleep 5 "
                       "to 15 ms, 24 batches, messages of 1 ms; 2 stages that compute on 2 cores; medians of 3 "
                       "draws and 7 turns (lowest to highest)",
                       "padded batches take %.2f times as long as valid rows, with padded attention alone %.2f; a "
                       "blocking pipeline takes %.2f (%.2f to %.2f) times as long as one that is not, whose time is "
                       "%.2f (%.2f to %.2f) of the recurrence; with stages that compute %.2f (%.2f to %.2f)",
                       all, mixed, mid[0], lo[0], hi[0], mid[1], lo[1], hi[1], mid[2], lo[2], hi[2]);
    }
    memset(&p, 0, sizeof p);
    p.block = (unsigned char *)b_alloc(EN_BYTES);
    {
        double t[3], ratio_all[3], late[3], with[3], load[3], lo2, hi2, none, loaded;
        p.layer_ms = 10;
        for (k = 0; k < 3; k++) {           /* the formula for the times that a load and a layer had in that round */
            p.ahead = 0;
            late[k] = en_pool_turn(ctx, &p, 1e9);
            load[k] = p.load_ms;
            p.ahead = 1;
            with[k] = en_pool_turn(ctx, &p, 1e9);
            ratio_all[k] = with[k] / tllm_pool_time(2 * EN_POOL, 4, p.slept_ms, load[k], 2);
        }
        en_span(late, 3, &lo2, &none, &hi2);
        en_span(load, 3, &lo2, &loaded, &hi2);
        en_span(with, 3, &lo2, &t[1], &hi2);
        en_span(ratio_all, 3, &lo2, &t[2], &hi2);
        b_note("24 layers of 10 ms, every fourth lent, 4 MiB over 1 Gbit/s in %.1f ms: %.1f ms, %.2f (%.2f to %.2f) of "
               "the formula; loaded when needed %.1f", loaded, t[1], t[2], lo2, hi2, none);
        b_verdict("pool, measured over its formula", t[2], "<", 1.1);
        if (!b_quick && none > 0)
            b_headline("energonai",
                       "EnergonAI: larger models on one GPU, layers in the memory of a peer, at limited loss",
                       "24 layers of 10 ms that sleep, k = 4, 4 MiB a layer over a link of 1 Gbit/s and 0.2 ms, "
                       "medians of 3 (lowest to highest); the formula for the measured time of a load",
                       "a load takes %.1f ms; all layers %.0f ms, %.2f (%.2f to %.2f) of the formula; loaded "
                       "when needed %.0f; all of them here 240", loaded, t[1], t[2], lo2, hi2, none);
    }
    b_free(p.block);
    tllm_gguf_close(one, file);
    tllm_writer_close(one, w);
    tiny_ctx_close(one);
    tiny_ctx_close(ctx);
}
#endif
