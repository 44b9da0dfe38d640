/* examples/zero_topo.c - trains a small network whose states are divided over pairs, nodes and all ranks
 *
 *     zero_topo --ranks 8 --w 2 --g 4 --check
 *     zero_topo --ranks 8 --w 8 --g 8 --exact                     ZeRO-3
 *     zero_topo --plan --of 384 --params 20e9                     bytes and memory by the formulas
 *     zero_topo --links --svg times.svg                           step times on a virtual clock
 *
 * Two layers learn a curve drawn from the seed; each rank has its own samples. --check compares with one rank: to 1e-4
 * with --exact, else the loss within 3 %. */
#define TINYLLM_WITH_ZEROTOPO
#define TINYLLM_WITH_CLUSTER
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "zero_topo"
#include "options.h"
#include "svg.h"
#include "world.h"
#include <math.h>

static const char usage[] =
    "zero_topo [options]  trains a network on several ranks, with its states divided on three levels\n"
    WORLD_USAGE
    "  --w N          ranks that share the weights; default: 2\n"
    "  --g N          ranks that share the sums of gradients; default: 8, or as many as divide the ranks\n"
    "  --os N         ranks that share the states of Adam; default: all\n"
    "  --second N     ranks that share a second copy of the codes for the backward pass; default: 0, none\n"
    "  --hop N        gradients in two hops, the first over N ranks; default: 0, one all-to-all\n"
    "  --exact        no codes: weights and gradients travel and stay as 32-bit floats\n"
    "  --wbits N      bits of a weight that travels: 4, 8, 16 or 32; default: 8\n"
    "  --gbits N      bits of a gradient that travels: 4, 8, 16 or 32; default: 4\n"
    "  --chance       gradients are rounded by chance\n"
    "  --block N      numbers with one scale; default: 32\n"
    "  --hidden N     units of the hidden layer; default: 64\n"
    "  --steps N      default: 200\n"
    "  --batches N    small batches of a step; default: 2\n"
    "  --seed N       of the data and the first weights; default: 1\n"
    "  --check        train on one rank too; the exit status is 1 if the results differ\n"
    "  --plan         print bytes and memory for --of ranks and --params weights by the formulas\n"
    "  --of N         with --plan: ranks; default: 384\n"
    "  --params X     with --plan: weights; default: 20e9\n"
    "  --memory GB    with --plan: also the fastest divisions that fit, on links of 200, 50 and 12.5 GB/s\n"
    "  --links        step times of ZeRO-3, ZeRO++ and topo on a virtual clock, 16, 32 and 64 ranks\n"
    "  --svg FILE     draw the losses, or the times of --links\n";

enum { IN = 16, OUT = 4, EACH = 16, STEPS_MOST = 100000 };
typedef struct job {
    int w, g, os, second, hop, exact, wbits, gbits, chance, block, hidden, steps, batches, check, plan, of, links;
    double params, memory;
    uint64_t seed;
    const char *svg;
    float *loss, *loss_one;                 /* (steps) of rank 0 */
    int wrong;
} job;

/* ---- the network: W1 (hidden, IN + 1), tanh, W2 (OUT, hidden + 1), biases last */

static void sample(const job *j, uint64_t number, float *x, float *y)
{
    tiny_rng rng = tiny_rng_make(j->seed, 1000 + number);
    int o;
    tiny_rng_fill_normal(&rng, x, IN);
    for (o = 0; o < OUT; o++) y[o] = sinf(x[o] + 0.5f * x[o + 4] * x[o + 8]) + 0.3f * x[15 - o];
}

/* Half of the mean square error of samples from first on; adds to the gradients of both layers. */
static double learn(const job *j, const float *w1, const float *w2, uint64_t first, int n, float *g1, float *g2)
{
    const int hidden = j->hidden;
    float x[IN], y[OUT], d[OUT], *h = floats(hidden);
    double loss = 0;
    int s, i, k, o;
    for (s = 0; s < n; s++) {
        sample(j, first + (uint64_t)s, x, y);
        for (k = 0; k < hidden; k++) {
            float z = w1[k * (IN + 1) + IN];
            for (i = 0; i < IN; i++) z += w1[k * (IN + 1) + i] * x[i];
            h[k] = tanhf(z);
        }
        for (o = 0; o < OUT; o++) {
            float z = w2[o * (hidden + 1) + hidden];
            for (k = 0; k < hidden; k++) z += w2[o * (hidden + 1) + k] * h[k];
            d[o] = z - y[o];
            loss += 0.5 * (double)d[o] * (double)d[o];
            for (k = 0; k < hidden; k++) g2[o * (hidden + 1) + k] += d[o] * h[k];
            g2[o * (hidden + 1) + hidden] += d[o];
        }
        for (k = 0; k < hidden; k++) {
            float back = 0.0f;
            for (o = 0; o < OUT; o++) back += d[o] * w2[o * (hidden + 1) + k];
            back *= 1.0f - h[k] * h[k];
            for (i = 0; i < IN; i++) g1[k * (IN + 1) + i] += back * x[i];
            g1[k * (IN + 1) + IN] += back;
        }
    }
    free(h);
    return loss;
}

static tllm_zero_desc describe(const job *j, int ranks)
{
    tllm_zero_desc d;
    memset(&d, 0, sizeof d);
    d.s_w = j->w;
    d.s_g = j->g;
    d.s_os = j->os;
    d.s_2 = j->second;
    d.hop = j->hop;
    d.weight_bits = j->exact ? 32 : j->wbits;
    d.grad_bits = d.net_bits = j->exact ? 32 : j->gbits;
    d.full = j->exact;
    d.by_chance = j->chance;
    d.block = j->block ? j->block : 32;
    d.seed = j->seed;
    d.optim.lr = 0.005;
    d.timeout_ns = UINT64_C(120000000000);
    /* the defaults of the options, as far as they divide the ranks */
    if (!d.s_os) d.s_os = ranks;
    if (!d.s_g) for (d.s_g = d.s_os < 8 ? d.s_os : 8; d.s_os % d.s_g; d.s_g--) continue;
    if (!d.s_w) d.s_w = d.s_g % 2 ? 1 : 2;
    return d;
}

/* Trains on net, or on one rank alone with the samples of `ranks`; the last weights are in w, the losses in loss. */
static tiny_status train(tiny_ctx *ctx, tiny_net *net, const job *j, int ranks, float *w, float *loss,
                         tllm_zero_count *count)
{
    const tiny_idx n1 = (tiny_idx)j->hidden * (IN + 1), n2 = OUT * ((tiny_idx)j->hidden + 1);
    const int me = net ? net->rank : 0, parts = net ? 1 : ranks;
    tiny_idx layer[2];
    tllm_zero_desc d = describe(j, ranks);
    tllm_zero *z = NULL;
    tiny_rng rng = tiny_rng_make(j->seed, 7);
    float *g = floats(n1 + n2), *first = floats(n1 + n2);
    tiny_coll c;
    tiny_idx k;
    int t, b, p;
    tiny_status st;
    layer[0] = n1;
    layer[1] = n2;
    tiny_rng_fill_normal(&rng, first, (size_t)(n1 + n2));
    for (k = 0; k < n1 + n2; k++) first[k] *= k < n1 ? 0.25f : 0.1f;
    d.net = net;
    d.layer = layer;
    d.n_layer = 2;
    if (!net) {                             /* alone, with nothing rounded */
        d.s_w = d.s_g = d.s_os = 1;
        d.s_2 = d.hop = 0;
        d.weight_bits = d.grad_bits = d.net_bits = 32;
        d.full = 1;
    }
    memset(&c, 0, sizeof c);
    c.net = net;
    st = tllm_zero_open(ctx, &d, first, &z);
    for (t = 0; t < j->steps && !st; t++) {
        float sum[1] = { 0 }, room[1];
        if (!me) show_progress(NULL, net ? "steps" : "steps alone", (double)t / j->steps);
        for (b = 0; b < j->batches * parts && !st; b++) {
            const uint64_t number =
                (uint64_t)((t % 8 * ranks + (net ? me : b / j->batches)) * j->batches + b % j->batches);
            st = tllm_zero_weights(z, 0, 0, w);
            if (!st) st = tllm_zero_weights(z, 1, 0, w + n1);
            memset(g, 0, (size_t)(n1 + n2) * sizeof *g);
            if (!st) sum[0] += (float)learn(j, w, w + n1, number * EACH, EACH, g, g + n1);
            /* a large model would gather each layer again on its way back; this one does it to count the bytes */
            for (p = 1; p >= 0 && !st; p--) {
                st = tllm_zero_weights(z, p, 1, p ? w + n1 : w);
                if (!st) st = tllm_zero_gradient(z, p, p ? g + n1 : g);
            }
        }
        if (!st) st = tllm_zero_step(z, 1.0 / (EACH * j->batches * ranks), 1.0);
        c.work = room;
        c.n_work = sizeof room;
        if (!st && net) st = tiny_coll_allreduce(ctx, &c, TINY_COMM_TREE, sum, 1);
        loss[t] = sum[0] / (float)(EACH * j->batches * ranks);
    }
    if (!me) end_progress();
    if (count) *count = tllm_zero_count_of(z);
    if (!st) st = tllm_zero_weights(z, 0, 0, w);
    if (!st) st = tllm_zero_weights(z, 1, 0, w + n1);
    tllm_zero_close(z);
    free(g);
    free(first);
    return st;
}

/* ---- pictures */

static tiny_status draw_losses(tiny_ctx *ctx, const job *j)
{
    const int every = j->steps / 640 + 1;
    double most = 1e-9;
    svg s = { NULL, 0, 0 };
    int t, k;
    for (t = 0; t < j->steps; t++) if ((double)j->loss[t] > most) most = (double)j->loss[t];
    svg_begin(&s, 720, 320);
    svg_put(&s, "<text x=\"60\" y=\"20\">loss of each step: <tspan fill=\"#27a\">divided</tspan>%s</text>\n",
            j->check ? " and <tspan fill=\"#d73\">on one rank</tspan>" : "");
    svg_put(&s, "<path d=\"M60 40V285H700\" fill=\"none\" stroke=\"#333\"/><text x=\"54\" y=\"46\" "
                "text-anchor=\"end\">%.2f</text><text x=\"54\" y=\"289\" text-anchor=\"end\">0</text>"
                "<text x=\"700\" y=\"302\" text-anchor=\"end\">step %d</text>\n", most, j->steps);
    for (k = j->check; k >= 0; k--) {
        svg_put(&s, "<path fill=\"none\" stroke=\"%s\" d=\"M", k ? "#d73" : "#27a");
        for (t = 0; t < j->steps; t += every)
            svg_put(&s, "%s%.1f %.1f", t ? "L" : "", 60 + 640.0 * t / j->steps,
                    285 - 245 * (double)(k ? j->loss_one : j->loss)[t] / most);
        svg_put(&s, "\"/>\n");
    }
    return svg_end(ctx, &s, j->svg);
}

static const char *const system_name[3] = { "ZeRO-3", "ZeRO++", "topo" };
static tiny_status draw_times(tiny_ctx *ctx, double t[3][3], const char *path)
{
    static const char *const colour[3] = { "#999", "#27a", "#d73" };
    double most = 0;
    svg s = { NULL, 0, 0 };
    int r, k;
    for (r = 0; r < 3; r++) for (k = 0; k < 3; k++) if (t[r][k] > most) most = t[r][k];
    svg_begin(&s, 720, 320);
    svg_put(&s, "<text x=\"60\" y=\"20\">transfers of a step, ms, 1e8 weights</text>\n");
    for (r = 0; r < 3; r++) {
        for (k = 0; k < 3; k++) {
            const double high = 245 * t[r][k] / most, x = 80 + 210 * r + 60 * k;
            svg_put(&s, "<path fill=\"%s\" d=\"M%.1f 285v%.1fh50v%.1fz\"/><text x=\"%.1f\" y=\"%.1f\" "
                        "text-anchor=\"middle\">%.1f</text>\n",
                    colour[k], x, -high, high, x + 25, 281 - high, t[r][k]);
            if (!r)
                svg_put(&s, "<text x=\"%d\" y=\"20\" fill=\"%s\">%s</text>", 480 + 70 * k, colour[k], system_name[k]);
        }
        svg_put(&s, "<text x=\"%d\" y=\"302\" text-anchor=\"middle\">%d ranks</text>\n", 165 + 210 * r, 16 << r);
    }
    return svg_end(ctx, &s, path);
}

/* ---- one rank */

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    job *j = (job *)arg;
    const tiny_idx n = (tiny_idx)j->hidden * (IN + 1) + OUT * ((tiny_idx)j->hidden + 1);
    const tllm_zero_desc d = describe(j, net->world);
    float *w = floats(n), *one = floats(n), *loss = floats(j->steps);
    tllm_zero_count c;
    double worst = 0, last, alone;
    tiny_idx i;
    tiny_status st = train(ctx, net, j, net->world, w, net->rank ? loss : j->loss, &c);
    if (!st && !net->rank) {
        printf("%d ranks: weights over %d, gradients over %d, states over %d\n", net->world, d.s_w, d.s_g, d.s_os);
        printf("KB received in %d steps: forward %.1f, backward %.1f, gradients %.1f, network %.1f, refresh %.1f; held "
               "%.1f\n",
               j->steps, 1e-3 * (double)c.forward, 1e-3 * (double)c.backward, 1e-3 * (double)c.gradients,
               1e-3 * (double)c.network, 1e-3 * (double)c.refresh, 1e-3 * (double)c.held);
        printf("loss %.5f at the start, %.5f at the end\n", (double)j->loss[0], (double)j->loss[j->steps - 1]);
    }
    if (!st && !net->rank && j->check) {
        st = train(ctx, NULL, j, net->world, one, j->loss_one, NULL);
        for (i = 0; i < n && !st; i++)
            if (fabs((double)w[i] - (double)one[i]) > worst) worst = fabs((double)w[i] - (double)one[i]);
        last = (double)j->loss[j->steps - 1];
        alone = (double)j->loss_one[j->steps - 1];
        j->wrong = j->exact ? !(worst <= 1e-4) : !(last <= 1.03 * alone + 1e-6);
        printf("check: loss on one rank %.5f, largest difference of a weight %.2g: %s\n", alone, worst,
               j->wrong ? "they differ" : "as expected");
    }
    if (!st && !net->rank && j->svg) st = draw_losses(ctx, j);
    free(w);
    free(one);
    free(loss);
    return st;
}

/* ---- formulas and the virtual clock */

static tllm_zero_desc system_of(int k, int ranks, int node)
{
    tllm_zero_desc d;
    memset(&d, 0, sizeof d);
    d.s_os = ranks;
    d.s_w = k < 2 ? ranks : 2;
    d.s_g = k < 2 ? ranks : node;
    d.s_2 = d.hop = k == 1 ? node : 0;
    d.weight_bits = k ? 8 : 16;
    d.grad_bits = d.net_bits = k ? 4 : 16;
    return d;
}

/* the fastest divisions that fit into the memory of a rank */
static int fastest(tiny_ctx *ctx, const job *j)
{
    enum { SHOWN = 8 };
    tllm_level level[3] = { { 2, 0, 1.6e12 }, { 8, 0, 4e11 }, { 0, 0, 1e11 } };
    tllm_zero_plan best[SHOWN];
    size_t n, i;
    level[2].ranks = j->of;
    if (tllm_zero_plans(ctx, j->of, j->params, j->batches, 1e9 * j->memory, level, 3, best, SHOWN, &n)) return 1;
    printf("%lu divisions fit %g GB; the fastest transfers of a step of %d small batches:\n"
           "weights gradients states second hop | bits | seconds | GB held\n",
           (unsigned long)n, j->memory, j->batches);
    for (i = 0; i < n && i < SHOWN; i++)
        printf("%7d %9d %6d %6d %3d | %2d %d | %7.3f | %7.2f\n", best[i].s_w, best[i].s_g, best[i].s_os, best[i].s_2,
               best[i].hop, best[i].weight_bits, best[i].grad_bits, best[i].cost.seconds, 1e-9 * best[i].bytes);
    return 0;
}

static int plan(const job *j)
{
    tiny_ctx *ctx = NULL;
    tiny_ctx_desc cd;
    int k, bad = 0;
    const int node = j->of % 8 ? 2 : 8;
    memset(&cd, 0, sizeof cd);
    cd.log = hear;
    cd.user = &ctx;
    if (j->of % 2) return refused("--of %d: pairs need an even number of ranks", j->of);
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    printf("%d ranks, %g weights; GB received by a rank for a small batch | for a step | GB held\n"
           "          forward backward gradients | network refresh | weights gradients states second\n",
           j->of, j->params);
    for (k = 0; k < 3 && !bad; k++) {
        const tllm_zero_desc d = system_of(k, j->of, node);
        tllm_zero_cost c;
        bad = tllm_zero_cost_of(ctx, &d, j->of, j->params, 1, NULL, 0, &c) != TINY_OK;
        if (!bad)
            printf("%-8s %8.2f %8.2f %9.2f | %7.2f %7.2f | %7.2f %9.2f %6.3f %6.2f\n", system_name[k], 1e-9 * c.forward,
                   1e-9 * c.backward, 1e-9 * c.gradients, 1e-9 * c.network, 1e-9 * c.refresh, 1e-9 * c.weights,
                   1e-9 * c.gradient_sums, 1e-9 * c.states, 1e-9 * c.second);
    }
    if (!bad && j->memory > 0.0) bad = fastest(ctx, j);
    if (bad) say(tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return bad;
}

/* A step of 2^18 weights on links so much slower that it takes as long as 1e8 weights on pairs of 200 GB/s, nodes of
 * 50 GB/s and a network of 12.5 GB/s. */
enum { SIM = 64, SMALL = 1 << 18 };
typedef struct sim {
    tiny_local *local;
    int ranks, system, batches;
    uint64_t ns[SIM];
    tiny_status st[SIM];
    char says[SIM][200];
} sim;
static void sim_rank(tiny_team *team, void *arg)
{
    static const tiny_idx layer[1] = { SMALL };
    sim *s = (sim *)arg;
    const double scale = (double)SMALL / 1e8;
    tiny_ctx_desc cd;
    tllm_levels_desc l;
    tllm_levels *levels = NULL;
    tllm_zero_desc d = system_of(s->system, s->ranks, 8);
    tllm_zero *z = NULL;
    tiny_ctx *ctx = NULL;
    float *w;
    int b;
    tiny_status st;
    if (team->n != s->ranks) return;
    w = floats(SMALL);
    memset(&cd, 0, sizeof cd);
    memset(&l, 0, sizeof l);
    cd.n_threads = 1;
    st = tiny_ctx_open(&cd, &ctx);
    l.net = tiny_local_net(s->local, team->i);
    l.n_level = 3;
    l.level[0].ranks = 2;
    l.level[0].bits_per_second = 1.6e12 * scale;
    l.level[1].ranks = 8;
    l.level[1].bits_per_second = 4e11 * scale;
    l.level[2].ranks = s->ranks;
    l.level[2].bits_per_second = 1e11 * scale;
    if (!st) st = tllm_levels_open(ctx, &l, &levels);
    d.net = tllm_levels_net(levels);
    d.layer = layer;
    d.n_layer = 1;
    d.timeout_ns = UINT64_C(300000000000);
    if (!st) st = tllm_zero_open(ctx, &d, w, &z);
    for (b = 0; b < s->batches && !st; b++) {
        st = tllm_zero_weights(z, 0, 0, w);
        if (!st) st = tllm_zero_weights(z, 0, 1, w);
        if (!st) st = tllm_zero_gradient(z, 0, w);
    }
    if (!st) st = tllm_zero_step(z, 1.0, 1.0);
    s->ns[team->i] = tllm_zero_clock(z, 0);
    s->st[team->i] = st;
    if (ctx) (void)snprintf(s->says[team->i], sizeof s->says[team->i], "%s", tiny_ctx_message(ctx));
    tllm_zero_close(z);
    if (d.net) d.net->close(d.net);
    tllm_levels_close(ctx, levels);
    tiny_ctx_close(ctx);
    free(w);
}

static int links(const job *j)
{
    static const tllm_level level[3] = { { 2, 0, 1.6e12 }, { 8, 0, 4e11 }, { SIM, 0, 1e11 } };
    tiny_ctx *ctx = NULL;
    tiny_ctx_desc cd;
    double time[3][3] = { { 0 } };
    int r, k, i, bad = 0;
    memset(&cd, 0, sizeof cd);
    cd.n_threads = SIM;
    cd.log = hear;
    cd.user = &ctx;
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    printf("transfers of a step of 1e8 weights, %d small batches; links of 200, 50 and 12.5 GB/s\n"
           "ranks  system   ms on the virtual clock  ms by the formulas  ZeRO-3 / this\n", j->batches);
    for (r = 0; r < 3 && !bad; r++)
        for (k = 0; k < 3 && !bad; k++) {
            sim *s = (sim *)need(calloc(1, sizeof *s));
            const tllm_zero_desc d = system_of(k, 16 << r, 8);
            tllm_zero_cost c;
            tiny_local_desc ld;
            uint64_t most = 0;
            show_progress(NULL, "runs", (double)(3 * r + k) / 9);
            memset(&ld, 0, sizeof ld);
            s->ranks = ld.world = 16 << r;
            ld.queue_bytes = 16384;
            ld.virtual_clock = 1;
            s->system = k;
            s->batches = j->batches;
            bad = tiny_local_open(ctx, &ld, &s->local) || tiny_parallel(ctx, s->ranks, 0, 0, sim_rank, s) ||
                  tllm_zero_cost_of(ctx, &d, s->ranks, 1e8, j->batches, level, 3, &c);
            for (i = 0; i < s->ranks && !bad; i++) {
                if (s->st[i]) say(s->says[i]);
                bad |= s->st[i] != TINY_OK;
                if (s->ns[i] > most) most = s->ns[i];
            }
            tiny_local_close(ctx, s->local);
            free(s);
            if (bad) break;
            time[r][k] = 1e-6 * (double)most;
            end_progress();
            printf("%5d  %-8s %23.2f %19.2f %14.2f\n", 16 << r, system_name[k], time[r][k], 1e3 * c.seconds,
                   time[r][0] / time[r][k]);
        }
    end_progress();
    if (!bad && j->svg) bad = draw_times(ctx, time, j->svg) != TINY_OK;
    if (bad && *tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return bad;
}

int main(int argc, char **argv)
{
    static job j;
    static world w = { 8, 0, 0, 0 };
    int bad;
    const option options[] = { WORLD_OPTIONS(w),
                               A_WHOLE("--w", &j.w, 1, WORLD_MOST),
                               A_WHOLE("--g", &j.g, 1, WORLD_MOST),
                               A_WHOLE("--os", &j.os, 1, WORLD_MOST),
                               A_WHOLE("--second", &j.second, 0, WORLD_MOST),
                               A_WHOLE("--hop", &j.hop, 0, WORLD_MOST),
                               A_FLAG("--exact", &j.exact),
                               A_WHOLE("--wbits", &j.wbits, 4, 32),
                               A_WHOLE("--gbits", &j.gbits, 4, 32),
                               A_FLAG("--chance", &j.chance),
                               A_WHOLE("--block", &j.block, 2, 4096),
                               A_WHOLE("--hidden", &j.hidden, 1, 4096),
                               A_WHOLE("--steps", &j.steps, 1, STEPS_MOST),
                               A_WHOLE("--batches", &j.batches, 1, 64),
                               A_SEED("--seed", &j.seed),
                               A_FLAG("--check", &j.check),
                               A_FLAG("--plan", &j.plan),
                               A_WHOLE("--of", &j.of, 2, 1048576),
                               A_NUMBER("--params", &j.params, 1, 1e18),
                               A_NUMBER("--memory", &j.memory, 1e-6, 1e9),
                               A_FLAG("--links", &j.links),
                               A_TEXT("--svg", &j.svg) };
    j.wbits = 8;
    j.gbits = 4;
    j.hidden = 64;
    j.steps = 200;
    j.batches = 2;
    j.seed = 1;
    j.of = 384;
    j.params = 20e9;
    READ_OPTIONS(argc, argv, usage, options);
    if ((j.wbits & (j.wbits - 1)) || (j.gbits & (j.gbits - 1)))
        return refused("--wbits and --gbits take 4, 8, 16 or 32");
    if (j.block % 2) return refused("--block %d: it must be even", j.block);
    if (must_not_write(j.svg, 0)) return 2;
    if (j.plan && (j.links || j.check || j.svg)) return refused("--plan takes neither --links nor --check nor --svg");
    if (j.links && j.check) return refused("--links takes no --check");
    if (j.plan) return exit_status(plan(&j));
    if (j.links) return exit_status(links(&j));
    j.loss = floats(j.steps);
    j.loss_one = floats(j.steps);
    bad = world_run(&w, body, &j);
    free(j.loss);
    free(j.loss_one);
    return exit_status(bad || j.wrong);
}
