/* examples/pipeline.c - trains a small transformer in pieces on several ranks, and draws what each of them does
 *
 *     pipeline --ranks 4                                   four stages: 1F1B, recomputation
 *     pipeline --ranks 4 --tensor 2 --svg run.svg          two stages of two tensor ranks each
 *     pipeline --ranks 4 --check                           compares every step with one rank
 *     pipeline --bubble --ranks 4 --svg bubble.svg         idle time: measured here, simulated to 1024 stages
 *     pipeline --plan --workers 1024                       the fastest splits of a large model, by formulas
 *
 * The text to learn: each sequence counts up in steps of its own, modulo the vocabulary. The loss falls to that of the
 * first step, which nobody can guess. Ranks are threads, or processes over TCP; examples/world.h tells more. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1                   /* nanosleep */
#endif
#define TINYLLM_WITH_MEGATRON
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "pipeline"
#include "nap.h"
#include "options.h"
#include "svg.h"
#include "world.h"
#include <math.h>
#include <time.h>

static const char usage[] =
    "pipeline [options]            trains a small transformer in pieces\n"
    "pipeline --bubble [options]   idle time of three schedules: measured on ranks that sleep, and simulated\n"
    "pipeline --plan [options]     the fastest splits of a large transformer over many workers\n"
    "ranks:\n" WORLD_USAGE
    "  --tensor T     tensor ranks of a stage; default: 1\n"
    "  --data D       copies of the pipeline that share a batch; default: 1\n"
    "  --chunks V     pieces of a stage (interleaved 1F1B); default: 1\n"
    "  --schedule S   gpipe or 1f1b; default: 1f1b\n"
    "  --micros M     micro-batches; default: 8, rounded up to a multiple of the stages\n"
    "  --keep         keep all values instead of computing them again\n"
    "  --scatter      tensor ranks share what passes between stages\n"
    "training:\n"
    "  --layers N     default: the least multiple of the pieces that is 4 or more\n"
    "  --width N      numbers of a token; default: 32\n"
    "  --heads N      default: 4\n"
    "  --context N    tokens of a sequence; default: 16\n"
    "  --batch N      sequences of a step; default: two for each micro-batch\n"
    "  --steps N      default: 60\n"
    "  --drop P       dropout; default: 0\n"
    "  --seed S       seed of weights and data; default: 0\n"
    "  --check        compare losses, and the gradients of the first step, with one rank; status 1 if they differ\n"
    "  --svg FILE     draw ranks over time: the last step; with --bubble the simulated schedules\n"
    "--bubble:\n"
    "  --unit MS      milliseconds that a forward pass sleeps; a backward pass takes twice as long; default: 5\n"
    "--plan (the defaults are those of GPT-3 on processors of the published study):\n"
    "  --workers N    default: 1024\n"
    "  --fast N       workers that a fast network joins; default: 8\n"
    "  --memory GB    of a worker; default: 80\n"
    "  --tflops X     10^12 operations a second that a worker reaches; default: 140\n"
    "  --large N      layers of the large model; default: 96\n"
    "  --wide N       its width; default: 12288\n"
    "  --sequences N  of a step; default: 1536\n";

enum { VOCAB = 16, MOST_ITEMS = 4096, SHOWN = 10 };
static world w = { 2, 0, 0, 0 };
static struct {
    int tensor, data, chunks, micros, keep, scatter, layers, width, heads, context, batch, steps, check, bubble, plan,
        workers, fast, large, wide, sequences;
    const char *schedule, *svg;
    double drop, unit, memory, tflops;
    uint64_t seed;
    int kind;
} run;

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* One picture of a schedule, `high` pixels below the top. at (stages, items, 2); returns its height. */
static int draw(svg *t, int top, const char *title, const tllm_sched *s, const tllm_sched_item *item, const double *at)
{
    static const char *const forward[4] = { "#9ec5e8", "#6aa5d8", "#3f83c2", "#28609a" },
                      *const backward[4] = { "#b7dfb0", "#86c47c", "#57a34b", "#377f2d" };
    const size_t n = tllm_sched_items(s);
    const int row = s->stages > 16 ? 12 : 22;
    double end = 0.0;
    int r, pass;
    size_t k;
    for (k = 0; k < (size_t)s->stages * n; k++) if (at[2 * k + 1] > end) end = at[2 * k + 1];
    svg_put(t, "<text x=\"60\" y=\"%d\">%s</text>\n", top + 14, title);
    for (r = 0; r < s->stages; r++) {
        const int y = top + 22 + r * row;
        svg_put(t, "<text x=\"54\" y=\"%d\" text-anchor=\"end\">stage %d</text>\n"
               "<rect x=\"60\" y=\"%d\" width=\"880\" height=\"%d\" fill=\"#f3f3f3\"/>\n",
            y + row - 6, r, y, row - 2);
        for (pass = 0; pass < 2; pass++) {  /* boxes, then numbers */
            svg_put(t, "<g %s>",
                    pass ? "text-anchor=\"middle\" font-size=\"10\"" : "stroke=\"#fff\" stroke-width=\".6\"");
            for (k = 0; k < n; k++) {
                const tllm_sched_item *it = &item[(size_t)r * n + k];
                const double *a = at + 2 * ((size_t)r * n + k), x = 60 + 880 * a[0] / end,
                             wide = 880 * (a[1] - a[0]) / end;
                if (pass && (wide < 14 || row < 22)) continue;
                if (pass) svg_put(t, "<text x=\"%.1f\" y=\"%d\">%d</text>", x + wide / 2, y + row - 7, it->micro);
                else
                    svg_put(t, "<path fill=\"%s\" d=\"M%.1f %dh%.1fv%dh-%.1fz\"/>\n",
                        (it->backward ? backward : forward)[it->chunk % 4], x, y, wide, row - 2, wide);
            }
            svg_put(t, "</g>\n");
        }
    }
    return 22 + s->stages * row + 16;
}

static void draw_begin(svg *t, int high)
{
    svg_put(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"%d\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n<rect width=\"960\" height=\"%d\" fill=\"#fff\"/>\n", high, high);
}

static tiny_status draw_end(tiny_ctx *ctx, svg *t)
{
    tiny_status st;
    svg_put(t, "<text x=\"60\" y=\"14\" fill=\"#555\">blue: forward, green: backward, darker: later chunks, "
               "grey: idle; the numbers are micro-batches</text>\n");
    st = svg_end(ctx, t, run.svg);
    if (!st) printf("wrote %s\n", run.svg);
    return st;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static tllm_mega_desc mega_desc(int p, int t, int d, int v)
{
    tllm_mega_desc m;
    const int pieces = p * v;
    memset(&m, 0, sizeof m);
    m.t = t;
    m.d = d;
    m.p = p;
    m.v = v;
    m.kind = run.kind;
    m.keep = run.keep;
    m.scatter = run.scatter;
    m.layers = run.layers ? run.layers : (4 + pieces - 1) / pieces * pieces;
    m.heads = run.heads;
    m.width = run.width;
    m.vocab = VOCAB;
    m.context = run.context;
    m.micros = run.micros ? run.micros : (8 + p - 1) / p * p;
    m.batch = run.batch ? run.batch : 2 * m.micros * d;
    m.drop = run.drop;
    m.seed = run.seed;
    return m;
}

/* sequences that count up in steps of 1 to 4 */
static void sequences(int32_t *tokens, int batch, int context, int step)
{
    tiny_rng rng = tiny_rng_make(run.seed, 1000 + (uint64_t)(unsigned)step);
    int i, j;
    for (i = 0; i < batch; i++) {
        const int first = (int)tiny_rng_below(&rng, VOCAB), by = 1 + (int)tiny_rng_below(&rng, 4);
        for (j = 0; j <= context; j++) tokens[i * (context + 1) + j] = (first + by * j) % VOCAB;
    }
}

typedef struct trainer { tllm_mega *mega; tiny_optim *optim; const tiny_param *params; size_t n; } trainer;

static tiny_status trainer_open(tiny_ctx *ctx, const tllm_mega_desc *m, trainer *t)
{
    tiny_optim_desc d;
    tiny_status st = tllm_mega_open(ctx, m, &t->mega);
    memset(&d, 0, sizeof d);
    d.group[0].lr = 0.01;
    d.group[0].eps = 1e-4;                  /* gradients that are rounding errors must not become steps */
    t->params = tllm_mega_params(t->mega, &t->n);
    return st ? st : tiny_optim_open(ctx, t->params, t->n, &d, &t->optim);
}
static void trainer_close(trainer *t)
{
    tiny_optim_close(t->optim);
    tllm_mega_close(t->mega);
}

/* the largest difference of a gradient from that of one rank, over the largest number of its tensor */
static double differs(const trainer *part, const trainer *whole)
{
    double worst = 0.0;
    size_t i, k;
    for (i = 0; i < part->n; i++) {
        const tiny_tensor *a = &part->params[i].grad, *b;
        const tiny_idx cols = a->rank == 2 ? a->dim[1] : 1;
        tiny_idx row, col, r, c, all;
        double most = 1e-30, e = 0.0;
        for (k = 0; k < whole->n && strcmp(whole->params[k].name, part->params[i].name); k++) {}
        if (k == whole->n) return 1e30;
        b = &whole->params[k].grad;
        all = b->rank == 2 ? b->dim[1] : 1;
        tllm_mega_place(part->mega, i, &row, &col);
        for (r = 0; r < tiny_tensor_count(b); r++) most = fmax(most, fabs((double)((const float *)b->data)[r]));
        for (r = 0; r < a->dim[0]; r++)
            for (c = 0; c < cols; c++)
                e = fmax(e, fabs((double)((const float *)a->data)[r * cols + c] -
                                 (double)((const float *)b->data)[(row + r) * all + col + c]));
        worst = fmax(worst, e / most);
    }
    return worst;
}

/* Every rank's numbers on all ranks. all: (world, n) */
static tiny_status gather(tiny_ctx *ctx, tiny_net *net, const float *mine, size_t n, float *all)
{
    tiny_coll c;
    memset(&c, 0, sizeof c);
    c.net = net;
    memcpy(all + (size_t)net->rank * n, mine, n * sizeof *mine);
    return tiny_coll_allgather(ctx, &c, TINY_COLL_RING, all, n);
}

static tiny_status draw_run(tiny_ctx *ctx, tiny_net *net, const tllm_mega_desc *m, const tllm_grid *grid, double *at)
{
    tllm_sched s;
    const size_t n = 2 * (size_t)m->micros * (size_t)m->v;
    float *mine = floats((tiny_idx)(2 * n)), *all = floats((tiny_idx)(2 * n) * net->world);
    tllm_sched_item *item = (tllm_sched_item *)need(malloc((size_t)m->p * n * sizeof *item));
    double *when = (double *)need(malloc((size_t)m->p * n * 2 * sizeof *when));
    svg t = { NULL, 0, 0 };
    tiny_status st;
    size_t k;
    int r, where[3] = { 0, 0, 0 };
    for (k = 0; k < 2 * n; k++) mine[k] = (float)(at[k] * 1e-6);
    st = gather(ctx, net, mine, 2 * n, all);
    memset(&s, 0, sizeof s);
    s.kind = m->kind;
    s.stages = m->p;
    s.micros = m->micros;
    s.chunks = m->v;
    for (r = 0; r < m->p && !st; r++) {
        where[TLLM_AXIS_PIPE] = r;
        for (k = 0; k < 2 * n; k++)
            when[(size_t)r * 2 * n + k] = (double)all[(size_t)tllm_grid_rank(grid, where) * 2 * n + k];
        st = tllm_sched_stage(ctx, &s, r, item + (size_t)r * n);
    }
    if (!st && net->rank == 0) {
        draw_begin(&t, 60 + 24 * m->p);
        (void)draw(&t, 20, "the last step, as it was", &s, item, when);
        st = draw_end(ctx, &t);
    }
    free(mine);
    free(all);
    free(item);
    free(when);
    return st;
}

static tiny_status train(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    const int stages = net->world / (run.tensor * run.data);
    tllm_mega_desc m = mega_desc(stages < 1 ? 1 : stages, run.tensor, run.data, run.chunks), alone;
    static double no_time[2];
    double *at = no_time, worst = 0.0, gradient = 0.0, loss_of_one;
    trainer part, one;
    tllm_pipe_result r, q;
    int32_t *tokens;
    float mine[4], *all;
    uint64_t begin, waited = 0;
    tiny_status st;
    int i, k;
    (void)arg;
    memset(&part, 0, sizeof part);
    memset(&one, 0, sizeof one);
    memset(&r, 0, sizeof r);
    if (run.svg) at = m.at = (double *)need(calloc(4 * (size_t)m.micros * (size_t)m.v, sizeof(double)));
    m.net = net;
    tokens = (int32_t *)need(malloc((size_t)m.batch * (size_t)(m.context + 1) * sizeof *tokens));
    all = floats(4 * net->world);
    st = trainer_open(ctx, &m, &part);
    if (!st && run.check) {                 /* the same network, batch and micro-batches on one rank */
        alone = mega_desc(1, 1, 1, 1);
        alone.layers = m.layers;
        alone.micros = 1;
        alone.batch = m.batch;
        st = trainer_open(ctx, &alone, &one);
    }
    if (!st && net->rank == 0)
        printf("%d ranks: %d stages of %d chunks, %d tensor, %d data; %s, %d micro-batches, batch %d, %d layers\n",
               net->world, m.p, m.v, m.t, m.d, run.kind ? "1f1b" : "gpipe", m.micros, m.batch, m.layers);
    begin = tiny_now_ns();
    for (i = 0; !st && i < run.steps; i++) {
        sequences(tokens, m.batch, (int)m.context, i);
        st = tllm_mega_step(part.mega, tokens, i, &r);
        waited += r.waited_ns;
        if (!st && run.check) {
            st = tllm_mega_step(one.mega, tokens, i, &q);
            loss_of_one = q.loss;
            worst = fmax(worst, fabs(r.loss - loss_of_one));
            if (!i) gradient = differs(&part, &one);
            if (!st) st = tiny_optim_step(one.optim, 1.0);
        }
        if (!st) st = tiny_optim_step(part.optim, 1.0);
        if (!st && net->rank == 0 && (i % (run.steps / 10 ? run.steps / 10 : 1) == 0 || i == run.steps - 1)) {
            printf("step %4d  loss %.4f\n", i + 1, r.loss);
            (void)fflush(stdout);
        }
    }
    mine[0] = (float)((double)waited / (double)(tiny_now_ns() - begin + 1));
    mine[1] = (float)r.stash_bytes;
    mine[2] = (float)r.inner_bytes;
    mine[3] = (float)fmax(worst / 1e-3, gradient / 1e-5);       /* above 1: it differs */
    if (!st) st = gather(ctx, net, mine, 4, all);
    for (k = 0; k < net->world && !st; k++) {
        if (net->rank == 0 && !run.check)
            printf("rank %2d waits %2.0f %% of the time; inputs %.1f KB, inside %.1f KB\n", k,
                   100.0 * (double)all[4 * k], (double)all[4 * k + 1] / 1e3, (double)all[4 * k + 2] / 1e3);
        mine[3] = fmaxf(mine[3], all[4 * k + 3]);
    }
    if (!st && run.svg && at != no_time) st = draw_run(ctx, net, &m, tllm_mega_grid(part.mega), at);
    trainer_close(&one);
    trainer_close(&part);
    free(tokens);
    free(all);
    if (at != no_time) free(at);
    if (st || !run.check) return st;
    if (mine[3] <= 1.0f) {
        if (net->rank == 0) printf("check: the same as one rank\n");
        return TINY_OK;
    }
    fprintf(stderr, PROGRAM ": rank %d: differs from one rank: loss by %.2g, a gradient by %.2g of its tensor\n",
            net->rank, worst, gradient);
    return TINY_E_NUMERIC;
}

/* ---- bubbles ----------------------------------------------------------------------------------------------------- */

typedef struct measured { double ms[3]; } measured;
static tiny_status bubble(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    measured *out = (measured *)arg;
    tiny_status st = TINY_OK;
    int k, again;
    for (k = 0; !st && k < 3; k++) {        /* gpipe, 1f1b, two chunks */
        tllm_pipe_desc d;
        tllm_pipe *pipe = NULL;
        tiny_idx width[2 * WORLD_MOST];
        tiny_param p;
        sleeper s;
        double best = 0.0;
        memset(&d, 0, sizeof d);
        sleeper_make(&s);
        memset(&p, 0, sizeof p);
        s.pieces = net->world * (k == 2 ? 2 : 1);
        s.ms = run.unit / (k == 2 ? 2.0 : 1.0);
        p.name = "w";
        p.value = tiny_tensor_2d(s.w, TINY_F32, 1, 4);
        p.grad = tiny_tensor_2d(s.dw, TINY_F32, 1, 4);
        for (again = 0; again < s.pieces; again++) width[again] = 4;
        d.net = net;
        d.schedule.kind = k ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE;
        d.schedule.micros = run.micros ? run.micros : (8 + net->world - 1) / net->world * net->world;
        d.schedule.chunks = k == 2 ? 2 : 1;
        d.rows = d.schedule.micros;
        d.keep = 1;
        d.width = width;
        d.params = &p;
        d.n_params = 1;
        d.run = sleep_piece;
        d.user = &s;
        st = tllm_pipe_open(ctx, &d, &pipe);
        for (again = 0; !st && again < 4; again++) {        /* the first one only brings the ranks together */
            const uint64_t begin = tiny_now_ns();
            st = tllm_pipe_run(pipe, again, NULL);
            if (again && (best == 0.0 || 1e-6 * (double)(tiny_now_ns() - begin) < best))
                best = 1e-6 * (double)(tiny_now_ns() - begin);
        }
        tllm_pipe_close(pipe);
        if (net->rank == 0) out->ms[k] = best;      /* rank 0 is the last to finish */
    }
    return st;
}

static double simulated(tiny_ctx *ctx, const tllm_sched *s, int *live)
{
    const tllm_sched_time t = { 1.0, 2.0, 0.0, 0.0 };
    double total = 0.0;
    if (tllm_sched_simulate(ctx, s, NULL, &t, NULL, live, &total)) say(tiny_ctx_message(ctx));
    return total;
}

static int bubbles(tiny_ctx *ctx)
{
    static const int stages[] = { 4, 8, 16, 64, 256, 1024 };
    static const char *const name[3] = { "gpipe", "1f1b", "1f1b, 2 chunks" };
    int live[1024], i, k, f, status, top = 20;
    measured m;
    svg t = { NULL, 0, 0 };
    memset(&m, 0, sizeof m);
    status = world_run(&w, bubble, &m);
    if (status) return status;
    printf("idle time over useful time; a forward pass takes 1, a backward pass 2; held: inputs on the first stage\n");
    printf("%7s %7s  %-15s %9s %9s %7s  %s\n", "stages", "micros", "schedule", "time", "bubble", "held", "messages");
    for (i = 0; i < 6; i++)
        for (f = 2; f <= 8; f *= 4)
            for (k = 0; k < 3; k++) {
                tllm_sched s;
                double total;
                s.kind = k ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE;
                s.stages = stages[i];
                s.micros = f * stages[i];
                s.chunks = k == 2 ? 2 : 1;
                if ((double)s.stages * s.micros * s.chunks > 1e7) continue;
                total = simulated(ctx, &s, live);
                printf("%7d %7d  %-15s %9.1f %8.1f%% %7d  %d\n", s.stages, s.micros, name[k], total,
                       100.0 * (total / (3.0 * s.micros) - 1.0), live[0], 2 * s.micros * (s.stages * s.chunks - 1));
            }
    printf("measured here: %d ranks%s that sleep %.3g ms a forward pass, the best of three\n", w.ranks,
           w.tcp ? " over TCP" : "", run.unit);
    for (k = 0; k < 3; k++) {
        tllm_sched s;
        double want;
        s.kind = k ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE;
        s.stages = w.ranks;
        s.micros = run.micros ? run.micros : (8 + w.ranks - 1) / w.ranks * w.ranks;
        s.chunks = k == 2 ? 2 : 1;
        want = run.unit * simulated(ctx, &s, NULL);
        printf("%7d %7d  %-15s %6.1f ms, by the formula %.1f ms: %+.1f %%\n", s.stages, s.micros, name[k], m.ms[k],
               want, 100.0 * (m.ms[k] / want - 1.0));
    }
    if (!run.svg) return 0;
    draw_begin(&t, 30 + 3 * (40 + 22 * w.ranks));
    for (k = 0; k < 3; k++) {
        const tllm_sched_time unit = { 1.0, 2.0, 0.0, 0.0 };
        tllm_sched s;
        tllm_sched_item *item;
        double *at, total;
        size_t n;
        s.kind = k ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE;
        s.stages = w.ranks;
        s.micros = run.micros ? run.micros : (8 + w.ranks - 1) / w.ranks * w.ranks;
        s.chunks = k == 2 ? 2 : 1;
        n = tllm_sched_items(&s);
        item = (tllm_sched_item *)need(malloc((size_t)s.stages * n * sizeof *item));
        at = (double *)need(malloc((size_t)s.stages * n * 2 * sizeof *at));
        for (i = 0; i < s.stages; i++) if (tllm_sched_stage(ctx, &s, i, item + (size_t)i * n)) status = 1;
        if (tllm_sched_simulate(ctx, &s, item, &unit, at, NULL, &total)) status = 1;
        if (status) say(tiny_ctx_message(ctx));
        else top += draw(&t, top, name[k], &s, item, at);
        free(item);
        free(at);
    }
    if (status) free(t.at);
    else if (draw_end(ctx, &t)) {
        say(tiny_ctx_message(ctx));
        status = 1;
    }
    return status;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static int plans(tiny_ctx *ctx)
{
    tllm_mega_model m = { 0, 0, 96, 51200, 2048 };
    tllm_mega_machine on;
    tllm_mega_plan best[SHOWN];
    size_t n, i;
    memset(&on, 0, sizeof on);
    m.layers = run.large;
    m.width = run.wide;
    on.workers = run.workers;
    on.fast = run.fast;
    on.flops = 1e12 * run.tflops;
    on.memory = 1e9 * run.memory;
    on.near_line.latency = 5e-6;
    on.near_line.byte = 1.0 / 250e9;
    on.far_line.latency = 1e-5;
    on.far_line.byte = 1.0 / 25e9;
    on.number_bytes = 2.0;
    on.param_bytes = 18.0;
    if (tllm_mega_plans(ctx, &m, &on, run.sequences, best, SHOWN, &n)) {
        say(tiny_ctx_message(ctx));
        return 1;
    }
    printf("%.1f billion parameters; 300 billion tokens take %.1f days at this rate without idle time\n",
           tllm_mega_count(&m) / 1e9, tllm_mega_days(300e9, tllm_mega_count(&m), run.workers, on.flops));
    printf("%lu splits fit; of a step of %d sequences:\n", (unsigned long)n, run.sequences);
    printf("%6s %6s %6s %6s %6s %9s %8s %8s %8s %8s\n", "tensor", "stages", "data", "chunks", "micro", "seconds",
           "idle", "sums", "borders", "GB");
    for (i = 0; i < n && i < SHOWN; i++)
        printf("%6d %6d %6d %6d %6d %9.3f %7.1f%% %7.1f%% %7.1f%% %8.1f\n", best[i].t, best[i].p, best[i].d, best[i].v,
               best[i].micro, best[i].seconds, 100.0 * best[i].bubble / best[i].seconds,
               100.0 * (best[i].sums + best[i].gradients) / best[i].seconds, 100.0 * best[i].borders / best[i].seconds,
               best[i].bytes / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    tiny_ctx *ctx = NULL;
    int status;
    const option options[] = { WORLD_OPTIONS(w),
                               A_WHOLE("--tensor", &run.tensor, 1, WORLD_MOST),
                               A_WHOLE("--data", &run.data, 1, WORLD_MOST),
                               A_WHOLE("--chunks", &run.chunks, 1, 64),
                               A_TEXT("--schedule", &run.schedule),
                               A_WHOLE("--micros", &run.micros, 1, 1024),
                               A_FLAG("--keep", &run.keep),
                               A_FLAG("--scatter", &run.scatter),
                               A_WHOLE("--layers", &run.layers, 1, 1024),
                               A_WHOLE("--width", &run.width, 1, 4096),
                               A_WHOLE("--heads", &run.heads, 1, 256),
                               A_WHOLE("--context", &run.context, 1, 4096),
                               A_WHOLE("--batch", &run.batch, 1, 65536),
                               A_WHOLE("--steps", &run.steps, 1, 1000000),
                               A_NUMBER("--drop", &run.drop, 0, 0.99),
                               A_SEED("--seed", &run.seed),
                               A_FLAG("--check", &run.check),
                               A_TEXT("--svg", &run.svg),
                               A_FLAG("--bubble", &run.bubble),
                               A_NUMBER("--unit", &run.unit, 0.1, 1000),
                               A_FLAG("--plan", &run.plan),
                               A_WHOLE("--workers", &run.workers, 1, 65536),
                               A_WHOLE("--fast", &run.fast, 1, 65536),
                               A_NUMBER("--memory", &run.memory, 0.001, 1e6),
                               A_NUMBER("--tflops", &run.tflops, 1e-6, 1e6),
                               A_WHOLE("--large", &run.large, 1, 4096),
                               A_WHOLE("--wide", &run.wide, 96, 1000000),
                               A_WHOLE("--sequences", &run.sequences, 1, 65536) };
    run.tensor = run.data = run.chunks = 1;
    run.schedule = "1f1b";
    run.width = 32;
    run.heads = 4;
    run.context = 16;
    run.steps = 60;
    run.unit = 5;
    run.workers = 1024;
    run.fast = 8;
    run.memory = 80;
    run.tflops = 140;
    run.large = 96;
    run.wide = 12288;
    run.sequences = 1536;
    READ_OPTIONS(argc, argv, usage, options);
    run.kind = place_in("gpipe 1f1b", run.schedule);
    if (run.kind < 0) return refused("--schedule takes gpipe or 1f1b, not %s", run.schedule);
    if (run.bubble && run.plan) return refused("--bubble and --plan exclude each other");
    if (run.plan && (run.svg || run.check)) return refused("--plan takes neither --svg nor --check");
    if (run.svg && !run.bubble && 2 * run.micros * run.chunks > MOST_ITEMS)
        return refused("--svg draws up to %d passes of a rank, not 2 x %d x %d", (int)MOST_ITEMS, run.micros,
                       run.chunks);
    if (must_not_write(run.svg, 0)) return 2;
#ifdef WORLD_MPI
    if (run.bubble || run.plan) return refused("--bubble and --plan run without mpirun");
#else
    if (w.ranks % (run.tensor * run.data) && !run.bubble && !run.plan)
        return refused("%d ranks are no multiple of %d tensor times %d data ranks", w.ranks, run.tensor, run.data);
#endif
    if (!run.bubble && !run.plan) return exit_status(world_run(&w, train, NULL));
    if (tiny_ctx_open(NULL, &ctx)) return 1;
    status = run.plan ? plans(ctx) : bubbles(ctx);
    tiny_ctx_close(ctx);
    return exit_status(status);
}
