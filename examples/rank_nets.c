/* examples/rank_nets.c - which network will learn best? Asks GradSign and eight other proxies before any training
 *
 *     rank_nets [--set grid|equal] [--seeds N] [--samples N] [--epochs E] [--search]
 *
 * grid: 25 MLPs, widths 4 to 64 and 1 to 5 hidden layers. equal: 25 MLPs of nearly the same number of weights, 1 to 5
 * hidden layers in five shapes; the number of weights says little about them. Each network is trained on MIX60. Printed
 * is how well the order of each proxy agrees with the order of test accuracies, by Spearman and Kendall.
 * --search looks for the best of 7776 MLPs with five trainings, drawing candidates in three ways: each candidate is
 * trained, or only the best of a hundred by GradSign. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "rank_nets"
#include "options.h"

enum { NETS = 25 };

static const char usage[] =
    "rank_nets [options]      ranks untrained networks, trains them, and compares\n"
    "  --set S          grid: 25 MLPs of 4 to 64 units, 1 to 5 hidden layers (default); equal: 25 of equal size\n"
    "  --weights N      of each network of the set equal; default: 4000\n"
    "  --seeds N        seeds 1 to N of data, first weights and samples; default: 3\n"
    "  --samples N      for the proxies; default: 64\n"
    "  --repeat N       first weights over which a proxy is averaged; default: 1\n"
    "  --epochs E       of each training; default: 8\n"
    "  --search         search with and without GradSign, five trainings each, instead of ranking\n"
    "  --verbose        print each network\n"
    "  --threads N      default: one per processor\n";

typedef struct study { tiny_ctx *ctx; int equal, weights, repeat, samples, epochs; } study;

/* hidden layers of one width; growing; shrinking; a waist; a belly */
static double profile(int shape, int i, int n)
{
    const double t = n > 1 ? (double)i / (n - 1) : 0.5, middle = t < 0.5 ? 2 * t : 2 - 2 * t;
    return shape == 0 ? 1 : shape == 1 ? 0.4 + 1.6 * t : shape == 2 ? 2 - 1.6 * t : shape == 3 ? 2 - 1.6 * middle
                                                                                               : 0.4 + 1.6 * middle;
}

static tiny_status make(const study *lab, int which, double scale, uint64_t seed, tllm_nn **nn)
{
    static const int widths[5] = { 4, 8, 16, 32, 64 };
    const int depth = which % 5 + 1;
    tllm_nn_layer l[6];
    tllm_nn_desc d;
    int i;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    for (i = 0; i < depth; i++) {
        l[i].n_out = lab->equal ? (tiny_idx)(scale * profile(which / 5, i, depth) + 0.5) : widths[which / 5];
        if (l[i].n_out < 1) l[i].n_out = 1;
        l[i].relu = 1;
    }
    l[depth].n_out = 10;
    d.in[0] = 32;
    d.layer = l;
    d.n_layer = (size_t)depth + 1;
    d.seed = seed * 100 + (uint64_t)which;
    return tllm_nn_open(lab->ctx, &d, nn);
}

static tiny_status make_sized(const study *lab, int which, uint64_t seed, tllm_nn **nn)
{
    double low = 1, high = 2000, best = 1;
    double least = 1e300;
    int i;
    for (i = 0; lab->equal && i < 40; i++) {
        const double scale = (low + high) / 2;
        tllm_nn *t = NULL;
        double off;
        if (make(lab, which, scale, seed, &t)) return tiny_ctx_status(lab->ctx);
        off = (double)tllm_nn_cost_of(t).n_weight - lab->weights;
        if (off > 0) high = scale;
        else low = scale;
        if ((off < 0 ? -off : off) < least) {
            least = off < 0 ? -off : off;
            best = scale;
        }
        tllm_nn_close(t);
    }
    return make(lab, which, best, seed, nn);
}

/* ---- search: five places, each without a layer or with one of 4 to 64 units */

enum { PLACES = 5, TRAININGS = 5, SCORED = 100 };
typedef struct hunt { const study *lab; const tllm_nn_task *task; uint64_t seed; } hunt;

static tiny_status candidate(const hunt *h, const int *choice, tllm_nn **nn)
{
    tllm_nn_layer l[PLACES + 1];
    tllm_nn_desc d;
    int i, n = 0;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    for (i = 0; i < PLACES; i++)
        if (choice[i]) {
            l[n].n_out = 2 << choice[i];
            l[n++].relu = 1;
        }
    l[n].n_out = 10;
    d.in[0] = 32;
    d.layer = l;
    d.n_layer = (size_t)n + 1;
    d.seed = h->seed;
    return tllm_nn_open(h->lab->ctx, &d, nn);
}
static tiny_status by_gradsign(void *user, const int *choice, double *score)
{
    const hunt *h = (const hunt *)user;
    tllm_proxy_desc d;
    tllm_nn *nn = NULL;
    tiny_status st = candidate(h, choice, &nn);
    memset(&d, 0, sizeof d);
    d.data = &h->task->train;
    d.n = h->lab->samples;
    d.seed = h->seed;
    if (!st) st = tllm_nn_proxy(nn, &d, score);
    tllm_nn_close(nn);
    return st;
}
static tiny_status by_training(void *user, const int *choice, double *score)
{
    const hunt *h = (const hunt *)user;
    tllm_nn_fit_desc fit;
    tllm_nn *nn = NULL;
    tiny_idx right = 0;
    tiny_status st = candidate(h, choice, &nn);
    memset(&fit, 0, sizeof fit);
    fit.epochs = h->lab->epochs;
    fit.seed = h->seed;
    if (!st) st = tllm_nn_fit(nn, &h->task->train, &fit, NULL);
    if (!st) st = tllm_nn_right(nn, &h->task->test, &right);
    *score = 100.0 * (double)right / (double)h->task->test.x.dim[0];
    tllm_nn_close(nn);
    return st;
}

static tiny_status search(const study *lab, int seeds)
{
    static const char *const kinds[3] = { "random", "evolution", "reinforce" };
    static const int options[PLACES] = { 6, 6, 6, 6, 6 };
    double sum[3][2], least[3][2], most[3][2], score;
    int kind, helped, seed, best[PLACES];
    tiny_status st = TINY_OK;
    memset(sum, 0, sizeof sum);
    for (seed = 1; !st && seed <= seeds; seed++) {
        tllm_nn_task task;
        hunt h;
        st = tllm_nn_task_open(lab->ctx, TLLM_TASK_MIX60, (uint64_t)seed, 0, 0, &task);
        h.lab = lab;
        h.task = &task;
        h.seed = (uint64_t)seed;
        for (kind = 0; kind < 3; kind++)
            for (helped = 0; !st && helped < 2; helped++) {
                tllm_search_desc d;
                memset(&d, 0, sizeof d);
                d.kind = kind;
                d.n_place = PLACES;
                d.n_option = options;
                d.cheap = helped ? by_gradsign : NULL;
                d.exact = by_training;
                d.user = &h;
                d.per_step = SCORED;
                d.steps = TRAININGS;
                d.population = 2;
                d.rate = 0.1;
                d.seed = (uint64_t)seed;
                if (is_shown()) fprintf(stderr, "\rseed %d of %d, %s ", seed, seeds, kinds[kind]);
                st = tllm_search(lab->ctx, &d, best, &score);
                sum[kind][helped] += score;
                if (seed == 1 || score < least[kind][helped]) least[kind][helped] = score;
                if (seed == 1 || score > most[kind][helped]) most[kind][helped] = score;
            }
        tllm_nn_task_close(lab->ctx, &task);
    }
    if (is_shown()) fprintf(stderr, "\r%40s\r", "");
    if (st) return st;
    printf("%d trainings of %d epochs, %d seeds: accuracy of the best network found (worst to best)\n", TRAININGS,
           lab->epochs, seeds);
    for (kind = 0; kind < 3; kind++)
        printf("%-10s alone %6.2f (%.2f to %.2f), the best of %d by GradSign %6.2f (%.2f to %.2f)\n", kinds[kind],
               sum[kind][0] / seeds, least[kind][0], most[kind][0], SCORED, sum[kind][1] / seeds, least[kind][1],
               most[kind][1]);
    return TINY_OK;
}

int main(int argc, char **argv)
{
    double score[TLLM_PROXY_KINDS][NETS], accuracy[NETS], rho, tau, best = 0, chance = 0;
    double sum[TLLM_PROXY_KINDS][3], least[TLLM_PROXY_KINDS], most[TLLM_PROXY_KINDS], found[TLLM_PROXY_KINDS];
    tiny_ctx_desc cd = { 0 };
    const char *set = "grid";
    tiny_ctx *ctx = NULL;
    study lab;
    int seeds = 3, seed, i, k, verbose = 0, searching = 0;
    tiny_status st = TINY_OK;
    const option options[] = { A_TEXT("--set", &set),
                               A_WHOLE("--weights", &lab.weights, 100, 1e6),
                               A_WHOLE("--seeds", &seeds, 1, 1000),
                               A_WHOLE("--samples", &lab.samples, 1, 6000),
                               A_WHOLE("--repeat", &lab.repeat, 1, 1000),
                               A_WHOLE("--epochs", &lab.epochs, 1, 1000),
                               A_FLAG("--search", &searching),
                               A_FLAG("--verbose", &verbose),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    memset(&lab, 0, sizeof lab);
    memset(sum, 0, sizeof sum);
    memset(found, 0, sizeof found);
    lab.weights = 4000;
    lab.samples = 64;
    lab.repeat = 1;
    lab.epochs = 8;
    READ_OPTIONS(argc, argv, usage, options);
    lab.equal = place_in("grid equal", set);
    if (lab.equal < 0) return wrong(set, "there is no such set; there are grid and equal");
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals();
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    lab.ctx = ctx;
    if (searching) st = search(&lab, seeds);
    for (seed = 1; !st && !searching && seed <= seeds; seed++) {
        tllm_nn_task task;
        st = tllm_nn_task_open(ctx, TLLM_TASK_MIX60, (uint64_t)seed, 0, 0, &task);
        for (i = 0; !st && i < NETS; i++) {
            tllm_nn *nn = NULL;
            tllm_nn_fit_desc fit;
            tllm_proxy_desc d;
            tiny_idx right = 0;
            if (is_shown()) fprintf(stderr, "\rseed %d of %d, network %d of %d ", seed, seeds, i + 1, NETS);
            st = make_sized(&lab, i, (uint64_t)seed, &nn);
            for (k = 0; !st && k < TLLM_PROXY_KINDS; k++) {
                memset(&d, 0, sizeof d);
                d.kind = k;
                d.data = &task.train;
                d.n = lab.samples;
                d.repeat = lab.repeat;
                d.seed = (uint64_t)seed;
                st = tllm_nn_proxy(nn, &d, &score[k][i]);
                if (!st && !(score[k][i] - score[k][i] == 0.0)) score[k][i] = -1e300;     /* naswot: equal codes */
            }
            memset(&fit, 0, sizeof fit);
            fit.epochs = lab.epochs;
            fit.seed = (uint64_t)seed;
            if (!st) st = tllm_nn_fit(nn, &task.train, &fit, NULL);
            if (!st) st = tllm_nn_right(nn, &task.test, &right);
            accuracy[i] = 100.0 * (double)right / (double)task.test.x.dim[0];
            if (verbose && !st)
                printf("seed %d, %d layers, %s %d: %lu weights, gradsign %.0f, accuracy %.2f %%\n", seed, i % 5 + 1,
                       lab.equal ? "shape" : "width", i / 5, (unsigned long)tllm_nn_cost_of(nn).n_weight,
                       score[TLLM_PROXY_GRADSIGN][i], accuracy[i]);
            tllm_nn_close(nn);
        }
        for (k = 0; !st && k < TLLM_PROXY_KINDS; k++) {
            int top = 0;
            if (tllm_rank_spearman(ctx, score[k], accuracy, NETS, &rho)) rho = 0;       /* all scores equal */
            if (tllm_rank_kendall(ctx, score[k], accuracy, NETS, &tau)) tau = 0;
            for (i = 1; i < NETS; i++) if (score[k][i] > score[k][top]) top = i;
            for (i = 0, best = 0; i < NETS; i++) if (accuracy[i] > best) best = accuracy[i];
            sum[k][0] += rho;
            sum[k][1] += tau;
            found[k] += accuracy[top] - best;
            if (seed == 1 || rho < least[k]) least[k] = rho;
            if (seed == 1 || rho > most[k]) most[k] = rho;
        }
        for (i = 0; !st && i < NETS; i++) chance += (best - accuracy[i]) / NETS;
        tllm_nn_task_close(ctx, &task);
    }
    if (is_shown()) fprintf(stderr, "\r%40s\r", "");
    if (st) say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
    else if (!searching) {
        printf("%d networks (%s), MIX60, %d epochs, %d samples, %d seeds\n", NETS, set, lab.epochs, lab.samples, seeds);
        printf("%-10s %9s %18s %9s %26s\n", "proxy", "Spearman", "(worst to best)", "Kendall",
               "its first choice loses");
        for (k = 0; k < TLLM_PROXY_KINDS; k++)
            printf("%-10s %9.3f %9.3f to %5.3f %9.3f %19.2f points\n", tllm_proxy_name(k), sum[k][0] / seeds, least[k],
                   most[k], sum[k][1] / seeds, -found[k] / seeds);
        printf("a network chosen at random loses %.2f points\n", chance / seeds);
    }
    tiny_ctx_close(ctx);
    return st ? stopped_by ? 128 + stopped_by : 1 : exit_status(0);
}
