/* bench/llm/ladder.c - layers over two ranks with a slow line: waiting for each sum, compared with the ladder
 *
 * Ladder-residual (arXiv 2501.06589) reports 29 % less time from end to end for 70 billion weights over 8 GPUs, more
 * without fast links.
 * Here: 8 layers, f16, over two threads of one core each; between them a delay line of 0.2 to 2 ms and 50 Mbit/s to 1
 * Gbit/s in each direction. A step is a token after 64 others, 16 sums of d numbers; a prompt is 64 tokens at once.
 * Both sides have the same weights, sums and line, and the same wait for them. The ladder is another function of these
 * weights; a model must be trained for it.
 *   t     the arithmetic of a half of a layer, on average over both ranks; c a sum alone, both measured in the same
 *         contest
 *   may   what the order allows: (t + c) / max(t, (t + c) / 2, w), w the time on the wire: two sums are in the air at
 *         once
 *   one   the same if sums waited for each other: (t + c) / max(t, c) */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { LAYERS = 8, BEFORE = 64, PROMPT = 64, STEPS = 2, RANKS = 2, VOCAB = 32 };

typedef struct bl_rank {
    tiny_ctx *ctx;
    tiny_comm *comm;
    tllm_gguf *file;
    tllm_model *model[2];
    tllm_state *state[2];
    float *x;
} bl_rank;
typedef struct bl_pair {
    tiny_ctx *team;
    tiny_local *local;
    const void *at;
    size_t n;
    int d;
    bl_rank rank[RANKS];
} bl_pair;
/* what: 0 steps, 1 a prompt, 2 sums of d numbers, 3 sums of a prompt, 4 opening, 5 closing */
typedef struct bl_job { bl_pair *pair; int ladder, what; double waited, wall; } bl_job;

static void bl_open(bl_pair *p, int r)
{
    bl_rank *k = &p->rank[r];
    unsigned char route[2 * LAYERS];
    int32_t token[BEFORE];
    tllm_state_desc d;
    tiny_comm_desc cd;
    int i;
    k->ctx = b_ctx(TINY_TARGET_AUTO, 1);
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.net = tiny_local_net(p->local, r);
    cd.n_most = (size_t)(PROMPT * p->d);
    b_must(k->ctx, tiny_comm_open(k->ctx, &cd, &k->comm));
    b_must(k->ctx, tllm_gguf_open_memory(k->ctx, p->at, p->n, &k->file));
    d.comm = k->comm;
    d.n_ctx = BEFORE + PROMPT;
    d.n_batch = PROMPT;
    for (i = 0; i < BEFORE; i++) token[i] = i % VOCAB;
    for (i = 0; i < 2; i++) {
        memset(route, i ? TLLM_ROUTE_LADDER : TLLM_ROUTE_STANDARD, sizeof route);
        b_must(k->ctx, tllm_model_open(k->ctx, k->file, &k->model[i]));
        b_must(k->ctx, tllm_model_routes(k->ctx, k->model[i], route, 2 * LAYERS));
        b_must(k->ctx, tllm_model_cut(k->ctx, k->model[i], r, RANKS));
        b_must(k->ctx, tllm_state_open(k->ctx, k->model[i], &d, &k->state[i]));
        b_must(k->ctx, tllm_forward(k->state[i], token, BEFORE, 0, 0, NULL));
    }
    k->x = (float *)b_alloc((size_t)(PROMPT * p->d) * sizeof(float));
    memset(k->x, 0, (size_t)(PROMPT * p->d) * sizeof(float));
}
static void bl_close(bl_pair *p, int r)
{
    bl_rank *k = &p->rank[r];
    int i;
    for (i = 0; i < 2; i++) {
        tllm_state_close(k->ctx, k->state[i]);
        tllm_model_close(k->ctx, k->model[i]);
    }
    tllm_gguf_close(k->ctx, k->file);
    tiny_comm_close(k->comm);
    b_free(k->x);
    tiny_ctx_close(k->ctx);
}

static void bl_rank_run(tiny_team *team, void *arg)
{
    static const int32_t token[PROMPT] = { 7, 3, 1 };
    float logits[PROMPT * VOCAB];           /* of all rows: without them the last layer would have fewer or no sums */
    const bl_job *j = (const bl_job *)arg;
    bl_rank *k = &j->pair->rank[team->i];
    int i;
    if (team->n != RANKS) b_must(NULL, TINY_E_UNSUPPORTED);
    if (j->what == 4) bl_open(j->pair, team->i);
    if (j->what == 5) bl_close(j->pair, team->i);
    for (i = 0; i < STEPS && j->what == 0; i++)
        b_must(k->ctx, tllm_forward(k->state[j->ladder], token + i, 1, BEFORE + i, 1, logits));
    if (j->what == 1) b_must(k->ctx, tllm_forward(k->state[j->ladder], token, PROMPT, BEFORE, PROMPT, logits));
    if (j->what < 2) b_must(k->ctx, tllm_state_trim(k->state[j->ladder], BEFORE));
    for (i = 0; i < 2 * LAYERS && (j->what == 2 || j->what == 3); i++)
        b_must(k->ctx, tiny_allreduce(k->comm, k->x, (size_t)j->pair->d * (j->what == 3 ? PROMPT : 1), 0));
}
static double bl_waited(const bl_pair *p)
{
    return (double)(tiny_comm_waited(p->rank[0].comm) + tiny_comm_waited(p->rank[1].comm)) / RANKS;
}
static void bl_run(void *arg)
{
    bl_job *j = (bl_job *)arg;
    const double before = bl_waited(j->pair), t = b_now();
    b_must(j->pair->team, tiny_parallel(j->pair->team, RANKS, 0, 0, bl_rank_run, j));
    j->wall += 1e9 * (b_now() - t);
    if (j->what < 4) j->waited += bl_waited(j->pair) - before;
}

tllm_writer *b_layers(tiny_ctx *ctx, int d, const void **at, size_t *n)
{
    static const char *const name[9] = { "attn_norm",   "ffn_norm", "attn_q", "attn_k",  "attn_v",
                                         "attn_output", "ffn_gate", "ffn_up", "ffn_down" };
    const int ff = d * 8 / 3 / 64 * 64, width[9] = { 0, 0, d, d, d, d, ff, ff, d },
              depth[9] = { d, d, d, d, d, d, d, d, ff };
    const size_t most = (size_t)ff * (size_t)d;
    float *x = (float *)b_alloc(most * sizeof *x), *ones = (float *)b_alloc((size_t)d * sizeof *ones);
    static char full[9 * LAYERS][40];
    uint16_t *h = (uint16_t *)b_alloc(most * sizeof *h);
    tllm_writer *w = NULL;
    tllm_writer_desc desc;
    tllm_text text;
    uint64_t dim[2];
    size_t i;
    int l, k;
    memset(&desc, 0, sizeof desc);
    for (i = 0; i < most; i++) x[i] *= 0.03f;
    for (i = 0; i < (size_t)d; i++) ones[i] = 1.0f;
    tllm_format_of(TLLM_FORMAT_F16)->pack(x, h, most, NULL);
    b_must(ctx, tllm_writer_open(ctx, &desc, &w));
    b_must(ctx, tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.embedding_length", (uint32_t)d));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.block_count", LAYERS));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.context_length", 1024));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", (uint32_t)ff));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.attention.head_count", (uint32_t)(d / 64)));
    b_must(ctx, tllm_writer_put_f32(ctx, w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    text.at = "token_embd.weight";
    text.n = strlen(text.at);
    dim[0] = (uint64_t)d;
    dim[1] = VOCAB;
    b_must(ctx, tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F16, 2, dim, h));
    text.at = "output_norm.weight";
    text.n = strlen(text.at);
    b_must(ctx, tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 1, dim, ones));
    for (l = 0; l < LAYERS; l++)
        for (k = 0; k < 9; k++) {
            (void)snprintf(full[9 * l + k], sizeof full[0], "blk.%d.%s.weight", l, name[k]);
            text.at = full[9 * l + k];
            text.n = strlen(text.at);
            dim[0] = (uint64_t)depth[k];
            dim[1] = (uint64_t)width[k];
            b_must(ctx, tllm_writer_put_tensor(ctx, w, text, width[k] ? TLLM_FORMAT_F16 : TLLM_FORMAT_F32,
                                               width[k] ? 2 : 1, dim, width[k] ? (const void *)h : (const void *)ones));
        }
    b_must(ctx, tllm_writer_finish(ctx, w));
    *at = tllm_writer_memory(w, n);
    b_free(x);
    b_free(h);
    b_free(ones);
    return w;
}

typedef struct bl_figure { double t, c, speed, may, hidden; } bl_figure;

/* standard and ladder over one line, and the sums alone */
static bl_figure bl_contest(bl_pair *p, int prompt, double ms, double mbit)
{
    bl_job job[3];
    b_row r[3];
    bl_figure g;
    const double per = prompt ? 1.0 : STEPS;
    char title[80];
    int i;
    memset(r, 0, sizeof r);
    memset(job, 0, sizeof job);
    memset(&g, 0, sizeof g);
    for (i = 0; i < 3; i++) {
        job[i].pair = p;
        job[i].ladder = i == 1;
        job[i].what = (i == 2 ? 2 : 0) + prompt;
        r[i].what = i == 0 ? "standard" : i == 1 ? "ladder" : "16 sums alone";
        r[i].target = tiny_target_name(tiny_op_target(p->team, TINY_OP_MATMUL));
        r[i].threads = RANKS;
        r[i].run = bl_run;
        r[i].arg = &job[i];
        b_shape(&r[i], "d%d %s", p->d, prompt ? "prompt 64" : i < 2 ? "2 tokens" : "");
    }
    tiny_local_delay(p->local, (uint64_t)(ms * 1e6), mbit * 1e6);
    (void)snprintf(title, sizeof title, "Ladder, %g ms, %g Mbit/s%s", ms, mbit, prompt ? ", prompt" : "");
    if (mbit <= 0.0) (void)snprintf(title, sizeof title, "Ladder, no delay%s", prompt ? ", prompt" : "");
    b_contest(title, r, 3);
    g.c = r[2].median_ns / (2 * LAYERS);
    g.t = r[0].median_ns / per / (2 * LAYERS) * (1.0 - job[0].waited / job[0].wall);
    g.hidden = 1.0 - job[1].waited / job[1].wall * r[1].median_ns / (job[0].waited / job[0].wall * r[0].median_ns);
    g.speed = r[0].median_ns / r[1].median_ns;
    return g;
}

static void bl_tell(bl_figure *g, const bl_pair *p, int prompt, double ms, double mbit)
{
    const double w = (double)p->d * (prompt ? PROMPT : 1) * 32e3 / mbit, t = g->t, c = g->c, both = t + c;
    double most = t > both / 2 ? t : both / 2;
    if (w > most) most = w;
    g->may = both / most;
    b_note("d %d%s, %g ms, %g Mbit/s: t %.2f ms, c %.2f ms; standard / ladder %.2f, may %.2f (sums one after the other "
           "%.2f), %.2f of it; %.0f %% of the waiting avoided",
           p->d, prompt ? ", prompt" : "", ms, mbit, t * 1e-6, c * 1e-6, g->speed, g->may, both / (t > c ? t : c),
           g->speed / g->may, 100.0 * g->hidden);
}

void bench_ladder(void)
{
    static const int width[3] = { 512, 768, 1024 };
    static const double delay[4] = { 0.2, 0.5, 1.0, 2.0 }, mbit[3] = { 50.0, 100.0, 300.0 };
    static double x[4], y[3][4], may[3][4];
    static const char *const name[6] = { "d 512", "d 512, may", "d 768", "d 768, may", "d 1024", "d 1024, may" };
    double all[3][2], token[3][4];
    b_curve curve[6];
    int i, k;
    memset(all, 0, sizeof all);
    memset(token, 0, sizeof token);
    for (i = 0; i < 3; i++) {
        bl_pair p;
        bl_job job;
        tllm_writer *w;
        tiny_local_desc d;
        bl_figure none, g;
        double best = 0.0;
        if (b_quick && i == 1) continue;
        memset(&p, 0, sizeof p);
        memset(&d, 0, sizeof d);
        p.team = b_ctx(TINY_TARGET_AUTO, RANKS);
        p.d = width[i];
        w = b_layers(p.team, p.d, &p.at, &p.n);
        d.world = RANKS;
        b_must(p.team, tiny_local_open(p.team, &d, &p.local));
        memset(&job, 0, sizeof job);
        job.pair = &p;
        job.what = 4;
        bl_run(&job);
        none = bl_contest(&p, 0, 0.0, 0.0);
        b_verdict("no delay: standard / ladder", none.speed, ">", 0.95);
        all[i][0] = none.speed;
        for (k = 0; k < 4; k++) {
            g = bl_contest(&p, 0, delay[k], 1000.0);
            bl_tell(&g, &p, 0, delay[k], 1000.0);
            x[k] = 1000.0 * delay[k];
            y[i][k] = token[i][k] = g.speed;
            may[i][k] = g.may;
            if (g.speed > best) best = g.speed;
        }
        for (k = 0; k < 3; k++) {
            g = bl_contest(&p, 0, 0.2, mbit[k]);
            bl_tell(&g, &p, 0, 0.2, mbit[k]);
        }
        b_verdict("best standard / ladder of a token", best, ">", 1.6);
        g = bl_contest(&p, 1, 0.2, 1000.0);
        bl_tell(&g, &p, 1, 0.2, 1000.0);
        all[i][1] = g.speed;
        job.what = 5;
        bl_run(&job);
        tiny_local_close(p.team, p.local);
        tllm_writer_close(p.team, w);
        tiny_ctx_close(p.team);
    }
    b_headline("ladder", "Ladder-residual: 29 % less time from end to end (70 B, 8 GPUs)",
               "2 ranks of one thread, 8 layers, f16, a line of 1 Gbit/s in memory; the ladder is another function of "
               "the same weights",
               "standard / ladder, a token at d 512 with 0.2, 0.5, 1, 2 ms: %.2f, %.2f, %.2f, %.2f; at d 1024: %.2f, "
               "%.2f, %.2f, %.2f; without a delay %.2f and %.2f; 64 tokens with 0.2 ms %.2f and %.2f",
               token[0][0], token[0][1], token[0][2], token[0][3], token[2][0], token[2][1], token[2][2], token[2][3],
               all[0][0], all[2][0], all[0][1], all[2][1]);
    for (i = k = 0; i < 6; i++) {
        if (b_quick && i / 2 == 1) continue;
        curve[k].name = name[i];
        curve[k].x = x;
        curve[k].y = i % 2 ? may[i / 2] : y[i / 2];
        curve[k++].n = 4;
    }
    b_svg("ladder", "Two ranks, 8 layers, 1 Gbit/s: time of the standard order over that of the ladder",
          "delay of a link, microseconds", "standard / ladder", curve, k);
}
