/* examples/compress_net.c - how small may a network be? Prunes networks that it trains, in ten ways, and compares them
 *
 *     compress_net [--task mix60|tex16] [--method NAME]... [--keep SHARE]... [--seeds N] [--svg FILE]
 *
 * Methods: dense; small (a dense network with as many weights); before training random, magnitude, snip, grasp and
 * synflow; while it trains gradual and oneshot (all at the end of the same schedule); again and again lottery; rps
 * prunes nothing: all weights share that many numbers. Every training has the same number of steps. A lottery trains
 * several times: the table says how often. Data are drawn from the seed, nothing is downloaded. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "compress_net"
#include "options.h"
#include <math.h>

enum { METHODS = 11, SHARES = 16 };
static const char names[] = "dense small random magnitude snip grasp synflow gradual oneshot lottery rps";
enum { DENSE, SMALL, RANDOM, MAGNITUDE, SNIP, GRASP, SYNFLOW, GRADUAL, ONESHOT, LOTTERY, RPS };

static const char usage[] =
    "compress_net [options]   prunes networks in several ways and prints their accuracy\n"
    "  --task T         mix60: points of 10 classes, an MLP (default); tex16: textures, a convolution net\n"
    "  --method NAME    dense, small, random, magnitude, snip, grasp, synflow, gradual, oneshot, lottery or rps;\n"
    "                   may be given often; default: all\n"
    "  --keep SHARE     share of the weights kept; may be given often; default: 0.2, 0.1 and 0.05\n"
    "  --seeds N        seeds 1 to N of data, first weights and order; default: 3\n"
    "  --epochs E       of each training; default: 25, tex16 5\n"
    "  --width N        of the hidden layers of the MLP; default: 128\n"
    "  --depth N        their number; default: 2\n"
    "  --global         gradual, oneshot: one threshold for all layers; default: the same share in each\n"
    "  --soft           gradual, oneshot: masked weights keep their values and may come back\n"
    "  --share S        lottery: removed in a round; default: 0.5\n"
    "  --map MAP        rps: where a weight reads; fold (default), tile (of 8 x 8) or hash\n"
    "  --s0 S           rps: deviation of the shared numbers; default: 0.125\n"
    "  --svg FILE       draw accuracy against size\n"
    "  --threads N      default: one per processor\n";

typedef struct job {
    tiny_ctx *ctx;
    int task, epochs, width, depth, global, soft, seeds, map;
    double share, s0;
    int done, of;                           /* trainings */
} job;

typedef struct row { double sum, least, most, bytes, trainings; size_t kept; int n, cut; } row;

static int on_step(void *user, const tllm_nn_fit_state *s)
{
    const job *j = (const job *)user;
    if (is_shown() && s->step % 20 == 0)
        fprintf(stderr, "\rnetwork %d of %d: step %d of %d%s   ", j->done + 1, j->of, (int)s->step, (int)s->steps,
                s->rounds ? ", a round of the lottery" : "");
    return 0;
}

/* widths times scale, at least 1 */
static tiny_status net_of(const job *j, double scale, uint64_t seed, tllm_nn **nn)
{
    tllm_nn_layer l[TLLM_NN_LAYERS];
    tllm_nn_desc d;
    size_t i;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    d.layer = l;
    d.seed = seed;
    if (j->task) {                          /* 16 x 16: two convolutions with pools, two dense layers; 50 688 weights */
        static const int kind[6] = { TLLM_NN_CONV, TLLM_NN_MAX_POOL, TLLM_NN_CONV, TLLM_NN_MAX_POOL, 0, 0 };
        static const int width[6] = { 16, 0, 32, 0, 88, 10 };
        d.in[0] = 1;
        d.in[1] = d.in[2] = 16;
        d.n_layer = 6;
        for (i = 0; i < 6; i++) {
            l[i].kind = kind[i];
            l[i].n_out = width[i];
            l[i].relu = kind[i] != TLLM_NN_MAX_POOL && i < 5;
            l[i].norm = kind[i] == TLLM_NN_CONV;
        }
    } else {
        d.in[0] = 32;
        d.n_layer = (size_t)j->depth + 1;
        for (i = 0; i + 1 < d.n_layer; i++) {
            l[i].n_out = j->width;
            l[i].relu = 1;
        }
        l[i].n_out = 10;
    }
    for (i = 0; i + 1 < d.n_layer; i++)
        if (l[i].n_out) l[i].n_out = (tiny_idx)((double)l[i].n_out * scale + 0.5);
    for (i = 0; i + 1 < d.n_layer; i++)
        if (l[i].kind != TLLM_NN_MAX_POOL && l[i].n_out < 1) l[i].n_out = 1;
    return tllm_nn_open(j->ctx, &d, nn);
}

/* the network whose number of weights is nearest to want */
static tiny_status small_of(const job *j, size_t want, uint64_t seed, tllm_nn **nn)
{
    double low = 0.0, high = 1.0, best = 0.0, scale;
    size_t least = SIZE_MAX;
    int i;
    for (i = 0; i < 40; i++) {
        tllm_nn *t = NULL;
        size_t n, off;
        scale = (low + high) / 2;
        if (net_of(j, scale, seed, &t)) return tiny_ctx_status(j->ctx);
        n = tllm_nn_cost_of(t).n_weight;
        off = n > want ? n - want : want - n;
        if (off < least) { least = off; best = scale; }
        if (n > want) high = scale;
        else low = scale;
        tllm_nn_close(t);
    }
    return net_of(j, best, seed, nn);
}

/* The network with all its weights read from share keep of as many numbers. */
static tiny_status share_of(const job *j, tllm_nn *nn, const tllm_nn_task *task, const tllm_nn_fit_desc *fit,
                            double keep, tllm_nn_fit_state *state, size_t *bytes)
{
    tllm_share_desc d;
    tllm_share_fit_desc f;
    tllm_share *share = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&f, 0, sizeof f);
    d.m = tllm_mask_part(keep, tllm_nn_cost_of(nn).n_weight);
    d.map = j->map;
    d.tile[0] = d.tile[1] = 8;
    d.seed = fit->seed;
    d.s0 = j->s0;
    f.fit = *fit;
    st = tllm_nn_share(nn, &d, &share);
    if (!st) st = tllm_nn_share_fit(nn, share, &task->train, &f, state);
    *bytes = tllm_share_bytes(share);
    tllm_share_close(share);
    return st;
}

/* One network: made, pruned, trained, tested. */
static tiny_status one(job *j, const tllm_nn_task *task, int method, double keep, uint64_t seed, row *r)
{
    const int64_t steps = (int64_t)j->epochs * (task->train.x.dim[0] / 100);
    tllm_nn_fit_desc fit;
    tllm_nn_fit_state state;
    tllm_nn *nn = NULL;
    tllm_gradual g;
    tiny_idx right = 0;
    size_t bytes = 0;
    double accuracy;
    tiny_status st = net_of(j, 1.0, seed, &nn);
    if (!st && method == SMALL) {
        const size_t want = tllm_mask_part(keep, tllm_nn_cost_of(nn).n_weight);
        tllm_nn_close(nn);
        nn = NULL;
        st = small_of(j, want, seed, &nn);
    }
    memset(&fit, 0, sizeof fit);
    memset(&state, 0, sizeof state);
    memset(&g, 0, sizeof g);
    fit.epochs = j->epochs;
    fit.seed = seed;
    fit.callback = on_step;
    fit.user = j;
    if (!st && method >= RANDOM && method <= SYNFLOW) {
        tllm_score_desc d;
        size_t empty;
        memset(&d, 0, sizeof d);
        d.kind = method - RANDOM;
        d.data = &task->train;
        d.per_class = method == SNIP ? 100 : 0;
        d.seed = seed;
        st = tllm_nn_prune(nn, &d, keep, &empty);
        r->cut += empty > 0;
    }
    if (method == GRADUAL || method == ONESHOT) {       /* from 8 % of the steps to 61 % in 40 events */
        g.to = 1.0 - keep;
        g.every = steps >= 75 ? steps / 75 : 1;
        g.start = steps * 2 / 25;
        g.n = 40;
        if (method == ONESHOT) {
            g.start += g.every * 39;
            g.n = 1;
        }
        g.global = j->global;
        g.hard = !j->soft;
        fit.gradual = &g;
    }
    if (!st && method == LOTTERY) {
        tllm_nn_lottery_desc d;
        memset(&d, 0, sizeof d);
        d.fit = fit;
        d.keep = keep;
        d.share = j->share;
        st = tllm_nn_lottery(nn, &task->train, &d, &state);
    } else if (!st && method == RPS) st = share_of(j, nn, task, &fit, keep, &state, &bytes);
    else if (!st) st = tllm_nn_fit(nn, &task->train, &fit, &state);
    if (!st) st = tllm_nn_right(nn, &task->test, &right);
    if (!st && method != RPS) st = tllm_nn_bytes(nn, tllm_nn_masked(nn) ? TLLM_NN_BITS : TLLM_NN_PLAIN, &bytes);
    if (!st) {
        accuracy = 100.0 * (double)right / (double)task->test.x.dim[0];
        if (!r->n || accuracy < r->least) r->least = accuracy;
        if (!r->n || accuracy > r->most) r->most = accuracy;
        r->sum += accuracy;
        r->bytes = (double)bytes;
        r->kept = method == RPS ? state.n_kept : tllm_nn_cost_of(nn).n_kept;
        r->trainings = state.rounds + 1;
        r->n++;
    }
    tllm_nn_close(nn);
    j->done++;
    return st;
}

/* ---- the picture */

static const char *const colour[METHODS] = { "#222",    "#888",    "#bbb",    "#1f77b4", "#17becf",
                                             "#9467bd", "#2ca02c", "#d62728", "#ff9896", "#ff7f0e",
                                             "#e377c2" };

static void name_of(int method, char text[16])
{
    const char *at = names;
    size_t n;
    for (; method; method--) at = strchr(at, ' ') + 1;
    n = strcspn(at, " ");
    memcpy(text, at, n);
    text[n] = 0;
}

/* accuracy over bytes, logarithmic; a line for each method, a bar from the worst seed to the best */
static size_t draw(char *to, size_t room, const job *j, row r[METHODS][SHARES], const int *use, int n_keep)
{
    double low = 1e300, high = 0.0, worst = 100.0, best = 0.0, x, y;
    char name[16];
    size_t n = 0;
    int m, k, i, line = 0;
    for (m = 0; m < METHODS; m++)
        for (k = 0; use[m] && k < (m ? n_keep : 1); k++) {
            if (r[m][k].bytes < low) low = r[m][k].bytes;
            if (r[m][k].bytes > high) high = r[m][k].bytes;
            if (r[m][k].least < worst) worst = r[m][k].least;
            if (r[m][k].most > best) best = r[m][k].most;
        }
    low = log(low * 0.9);
    high = log(high * 1.1);
    worst = floor(worst / 10) * 10;
    best = ceil(best / 10) * 10;
    if (best <= worst) best = worst + 10;
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n");
    PUT("<text x=\"60\" y=\"20\">%s: test accuracy (%%) over bytes of the weights, %d seeds, %d epochs each</text>\n",
        j->task ? "TEX16" : "MIX60", j->seeds, j->epochs);
    for (i = 0; i <= 5; i++) {
        y = 380 - 340.0 * i / 5;
        PUT("<path d=\"M60 %.0fH580\" stroke=\"#ddd\"/><text x=\"54\" y=\"%.0f\" text-anchor=\"end\">%.0f</text>\n", y,
            y + 4, worst + (best - worst) * i / 5);
        x = exp(low + (high - low) * i / 5);
        PUT("<text x=\"%.0f\" y=\"398\" text-anchor=\"middle\">%.3g KB</text>\n", 60 + 520.0 * i / 5, x / 1000);
    }
    for (m = 0; m < METHODS; m++) {
        if (!use[m]) continue;
        name_of(m, name);
        PUT("<text x=\"592\" y=\"%d\" fill=\"%s\">%s</text>\n<g stroke=\"%s\" fill=\"none\">\n", 50 + 16 * line++,
            colour[m], name, colour[m]);
        for (i = 0; i < 2; i++)
            for (k = 0; k < (m ? n_keep : 1); k++) {
                const row *q = &r[m][k];
                x = 60 + 520 * (log(q->bytes) - low) / (high - low);
                y = 380 - 340 * (q->sum / q->n - worst) / (best - worst);
                if (!i) {
                    PUT("%s%.1f %.1f", k ? "L" : "<path stroke-width=\"2\" d=\"M", x, y);
                } else
                    PUT("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/><path d=\"M%.1f %.1fV%.1f\"/>", x, y, x,
                        380 - 340 * (q->least - worst) / (best - worst),
                        380 - 340 * (q->most - worst) / (best - worst));
                if (!i && k + 1 == (m ? n_keep : 1)) PUT("\"/>\n");
            }
        PUT("\n</g>\n");
    }
    PUT("</svg>\n");
#undef PUT
    return n;
}

int main(int argc, char **argv)
{
    static row r[METHODS][SHARES];
    static char picture[65536];
    tiny_ctx_desc cd = { 0 };
    tllm_nn_task task;
    tiny_ctx *ctx = NULL;
    const char *task_name = "mix60", *svg = NULL, *map = "fold";
    word_list methods, keeps;
    double keep[SHARES] = { 0.2, 0.1, 0.05 };
    int use[METHODS] = { 0 }, n_keep = 3, m, k, seed;
    char name[16];
    job j;
    tiny_status st = TINY_OK;
    const option options[] = { A_TEXT("--task", &task_name),
                               A_LIST("--method", &methods, 16),
                               A_LIST("--keep", &keeps, SHARES),
                               A_WHOLE("--seeds", &j.seeds, 1, 1000),
                               A_WHOLE("--epochs", &j.epochs, 1, 10000),
                               A_WHOLE("--width", &j.width, 1, 4096),
                               A_WHOLE("--depth", &j.depth, 1, 32),
                               A_FLAG("--global", &j.global),
                               A_FLAG("--soft", &j.soft),
                               A_NUMBER("--share", &j.share, 0.01, 0.99),
                               A_TEXT("--map", &map),
                               A_NUMBER("--s0", &j.s0, 1e-6, 1e6),
                               A_TEXT("--svg", &svg),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    memset(&methods, 0, sizeof methods);
    memset(&keeps, 0, sizeof keeps);
    memset(&j, 0, sizeof j);
    j.seeds = 3;
    j.width = 128;
    j.depth = 2;
    j.share = 0.5;
    j.s0 = 0.125;
    READ_OPTIONS(argc, argv, usage, options);
    j.task = place_in("mix60 tex16", task_name);
    if (j.task < 0) return wrong(task_name, "there is no such task; there are mix60 and tex16");
    j.map = place_in("fold tile hash", map);
    if (j.map < 0) return wrong(map, "there is no such map; there are fold, tile and hash");
    if (!j.epochs) j.epochs = j.task ? 5 : 25;
    for (m = 0; m < METHODS; m++) use[m] = !methods.n;
    for (k = 0; k < methods.n; k++) {
        m = place_in(names, methods.at[k]);
        if (m < 0) return wrong(methods.at[k], "there is no such method; --help names them");
        use[m] = 1;
    }
    if (keeps.n) n_keep = keeps.n;
    for (k = 0; k < keeps.n; k++)
        if (!is_number(keeps.at[k], 1e-4, 1.0, &keep[k])) return wrong(keeps.at[k], "--keep takes 0.0001 to 1");
    if (must_not_write(svg, 0)) return 2;
    for (m = 0; m < METHODS; m++) j.of += use[m] * j.seeds * (m ? n_keep : 1);
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    j.ctx = ctx;
    for (seed = 1; !st && seed <= j.seeds; seed++) {
        st = tllm_nn_task_open(ctx, j.task, (uint64_t)seed, 0, 0, &task);
        for (m = 0; !st && m < METHODS; m++)
            for (k = 0; !st && use[m] && k < (m ? n_keep : 1); k++)
                st = one(&j, &task, m, m ? keep[k] : 1.0, (uint64_t)seed, &r[m][k]);
        tllm_nn_task_close(ctx, &task);
    }
    if (is_shown()) fprintf(stderr, "\r%60s\r", "");
    if (st) {
        say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
        tiny_ctx_close(ctx);
        return stopped_by ? 128 + stopped_by : 1;
    }
    printf("%s, %d seeds, %d epochs a training, %s\n", j.task ? "TEX16" : "MIX60", j.seeds, j.epochs,
           j.global ? "one threshold for all layers" : "each layer alike (gradual, oneshot)");
    printf("%-10s %8s %9s %9s %8s %17s %6s\n", "method", "keep", "weights", "bytes", "accuracy", "(worst to best)",
           "trained");
    for (m = 0; m < METHODS; m++)
        for (k = 0; use[m] && k < (m ? n_keep : 1); k++) {
            const row *q = &r[m][k];
            name_of(m, name);
            printf("%-10s %7.2f%% %9lu %9.0f %7.2f%% %8.2f to %5.2f %5.0fx%s\n", name, m ? 100 * keep[k] : 100.0,
                   (unsigned long)q->kept, q->bytes, q->sum / q->n, q->least, q->most, q->trainings,
                   q->cut ? "  a layer is empty" : "");
        }
    if (svg) {
        const size_t n = draw(picture, sizeof picture, &j, r, use, n_keep);
        if (n >= sizeof picture || tiny_file_write(ctx, svg, picture, n)) {
            say(n >= sizeof picture ? "the picture is too large" : tiny_ctx_message(ctx));
            tiny_ctx_close(ctx);
            return 1;
        }
    }
    tiny_ctx_close(ctx);
    return exit_status(0);
}
