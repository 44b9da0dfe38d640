/* examples/robust_nets.c - which sparse networks break on noisy inputs, and why? Compares tickets of equal size
 *
 *     robust_nets [--method NAME]... [--keep SHARE]... [--seeds N] [--csv FILE] [--json FILE] [--svg FILE]
 *
 * Makes M128 (an MLP of 21760 weights) sparse in seven ways, and tests each network on clean samples and on seven
 * corruptions of five severities. Methods: dense; magnitude (trained, pruned once, tuned at the rate of the last
 * quarter); gradual; lottery (weights rewound) and rewind (only the rate rewound), half of the rest in each round; snip
 * and synflow before training; popup (weights are never trained, only chosen). Data are drawn from the seed, nothing is
 * downloaded. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "robust_nets"
#include "options.h"
#include <math.h>

enum { METHODS = 8, SHARES = 8, KINDS = TLLM_CORRUPTIONS, LEVELS = TLLM_SEVERITIES };
static const char *const names[METHODS] = { "dense", "magnitude", "gradual", "lottery", "rewind", "snip", "synflow",
                                            "popup" };
static const char all_names[] = "dense magnitude gradual lottery rewind snip synflow popup";
enum { DENSE, MAGNITUDE, GRADUAL, LOTTERY, REWIND, SNIP, SYNFLOW, POPUP };

static const char usage[] =
    "robust_nets [options]    prunes networks and tests them on corrupted samples\n"
    "  --method NAME    magnitude, gradual, lottery, rewind, snip, synflow or popup; may be given often;\n"
    "                   default: all. dense is always there, to compare with\n"
    "  --keep SHARE     share of the weights kept; may be given often; default: 0.2, 0.1 and 0.05\n"
    "  --seeds N        seeds 1 to N of data, first weights, order and noise; default: 3\n"
    "  --epochs E       of each training; default: 25\n"
    "  --severity S     of the noise in the second table, the correlations and the files: 1 to 5; default: 3\n"
    "  --list N         list N samples of the dense network that break with the largest drop of margin; default: 0\n"
    "  --csv FILE       write accuracy and medians of each network, corruption and severity\n"
    "  --json FILE      write what changes for the dense network of seed 1 from clean to noisy samples\n"
    "  --svg FILE       draw accuracy over noise, and errors compared with the dense network\n"
    "  --threads N      default: one per processor\n";

typedef struct job {
    tiny_ctx *ctx;
    int epochs, seeds, severity, list, done, of;
    const char *csv, *json, *svg, *now;
    char *text;                             /* of the csv */
    size_t n_text, room;
    tllm_geometry dense;                    /* of this seed, clean */
} job;

/* sums over seeds, but for the least and most */
typedef struct row {
    double right[KINDS][LEVELS + 1];        /* share of right samples; level 0: clean, the same for all kinds */
    double angle[2], length[2], margin[2];  /* medians, clean and noisy */
    double auc, by_angle, by_length, broken, worse, least, most;
    double lost, won, rank;                 /* from dense to this network, clean: shares, correlation of margins */
    int n;
} row;

static int on_step(void *user, const tllm_nn_fit_state *s)
{
    const job *j = (const job *)user;
    if (is_shown() && s->step % 20 == 0)
        fprintf(stderr, "\rnetwork %d of %d, %s: step %d of %d%s   ", j->done + 1, j->of, j->now, (int)s->step,
                (int)s->steps, s->round ? ", again" : "");
    return 0;
}

static tiny_status net_open(const job *j, uint64_t seed, tllm_nn **nn)
{
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = l[1].n_out = 128;
    l[0].relu = l[1].relu = 1;
    l[2].n_out = 10;
    d.in[0] = 32;
    d.layer = l;
    d.n_layer = 3;
    d.seed = seed;
    return tllm_nn_open(j->ctx, &d, nn);
}

static tiny_status train(const job *j, tllm_nn *nn, const tllm_nn_task *task, int method, double keep, uint64_t seed)
{
    const int64_t steps = (int64_t)j->epochs * (task->train.x.dim[0] / 100);
    tllm_nn_fit_desc fit;
    tllm_gradual g;
    memset(&fit, 0, sizeof fit);
    memset(&g, 0, sizeof g);
    fit.epochs = j->epochs;
    fit.seed = seed;
    fit.callback = on_step;
    fit.user = (void *)(uintptr_t)j;
    if (method == MAGNITUDE || method == LOTTERY || method == REWIND) {
        tllm_nn_lottery_desc d;
        memset(&d, 0, sizeof d);
        d.fit = fit;
        d.keep = keep;
        d.share = method == MAGNITUDE ? 1.0 - keep : 0.5;
        d.rate_only = method != LOTTERY;
        if (method == MAGNITUDE) d.rewind = steps * 3 / 4;
        return tllm_nn_lottery(nn, &task->train, &d, NULL);
    }
    if (method == POPUP) {
        tllm_popup_desc d;
        memset(&d, 0, sizeof d);
        d.fit = fit;
        d.fit.lr = 0.02;                    /* of scores that begin between 0 and about 0.1 */
        d.keep = keep;
        return tllm_nn_popup(nn, &task->train, &d, NULL);
    }
    if (method == SNIP || method == SYNFLOW) {
        tllm_score_desc d;
        size_t empty;
        memset(&d, 0, sizeof d);
        d.kind = method == SNIP ? TLLM_SCORE_SNIP : TLLM_SCORE_SYNFLOW;
        d.data = &task->train;
        d.per_class = method == SNIP ? 100 : 0;
        d.seed = seed;
        if (tllm_nn_prune(nn, &d, keep, &empty)) return tiny_ctx_status(j->ctx);
    }
    if (method == GRADUAL) {                /* from 8 % of the steps to 61 % in 40 events, one threshold */
        g.to = 1.0 - keep;
        g.every = steps >= 75 ? steps / 75 : 1;
        g.start = steps * 2 / 25;
        g.n = 40;
        g.global = g.hard = 1;
        fit.gradual = &g;
    }
    return tllm_nn_fit(nn, &task->train, &fit, NULL);
}

static tiny_status medians(const job *j, const tllm_geometry *g, double *angle, double *length, double *margin)
{
    static const int value[3] = { TLLM_GEOMETRY_ANGLE, TLLM_GEOMETRY_LENGTH, TLLM_GEOMETRY_MARGIN };
    static const double half = 0.5;
    double *to[3];
    int k;
    to[0] = angle; to[1] = length; to[2] = margin;
    for (k = 0; k < 3; k++)
        if (tllm_geometry_quantiles(j->ctx, g, value[k], -1, 1, &half, to[k])) return tiny_ctx_status(j->ctx);
    return TINY_OK;
}

static void csv_line(job *j, const char *method, double keep, int seed, int kind, int level, const tllm_geometry *g,
                     const double m[3])
{
    if (!j->text) return;
    j->n_text += (size_t)snprintf(j->n_text < j->room ? j->text + j->n_text : NULL,
                                  j->n_text < j->room ? j->room - j->n_text : 0, "%s,%g,%d,%s,%d,%.6g,%.6g,%.6g,%.6g\n",
                                  method, keep, seed, level ? tllm_corruption_name(kind) : "clean", level,
                                  (double)g->n_right / (double)g->n, m[0], m[1], m[2]);
}

/* A trained network on all sets; dense: errors of the dense network of this seed over all corrupted sets, made by the
 * dense one itself. alike (KINDS KINDS): correlations, may be NULL. */
static tiny_status judge(job *j, const tllm_nn *nn, const tllm_nn_task *task, int method, double keep, int seed,
                         double *dense, double *alike, row *r)
{
    tllm_geometry clean, g[KINDS], *at;
    const tllm_geometry *of[KINDS];
    tllm_geometry_report report;
    tllm_nn_set set = task->test;
    double wrong = 0.0, m[3], ratio;
    int kind, level;
    tiny_status st;
    memset(&clean, 0, sizeof clean);
    memset(g, 0, sizeof g);
    memset(&report, 0, sizeof report);
    set.x.data = malloc((size_t)tiny_tensor_count(&set.x) * sizeof(float));
    if (!set.x.data) return TINY_E_MEMORY;
    st = tllm_nn_geometry(nn, &task->test, &clean);
    if (!st) st = medians(j, &clean, &m[0], &m[1], &m[2]);
    if (!st) {
        csv_line(j, names[method], keep, seed, 0, 0, &clean, m);
        r->angle[0] += m[0];
        r->length[0] += m[1];
        r->margin[0] += m[2];
        for (kind = 0; kind < KINDS; kind++) r->right[kind][0] += (double)clean.n_right / (double)clean.n;
    }
    for (kind = 0; !st && kind < KINDS; kind++)
        for (level = 1; !st && level <= LEVELS; level++) {
            tllm_geometry one;
            memset(&one, 0, sizeof one);
            at = level == j->severity ? &g[kind] : &one;
            st = tllm_corrupt(j->ctx, &task->test.x, kind, level, (uint64_t)seed, &set.x);
            if (!st && at == &one && !j->text) {        /* only the answers are needed */
                tiny_idx right = 0;
                st = tllm_nn_right(nn, &set, &right);
                one.n = set.x.dim[0];
                one.n_right = (size_t)right;
            } else if (!st) st = tllm_nn_geometry(nn, &set, at);
            if (!st && j->text) {
                st = medians(j, at, &m[0], &m[1], &m[2]);
                if (!st) csv_line(j, names[method], keep, seed, kind, level, at, m);
            }
            if (!st) {
                r->right[kind][level] += (double)at->n_right / (double)at->n;
                wrong += 1.0 - (double)at->n_right / (double)at->n;
            }
            tllm_geometry_close(j->ctx, &one);
        }
    for (kind = 0; kind < KINDS; kind++) of[kind] = &g[kind];
    if (!st && method != DENSE) {
        st = tllm_geometry_compare(j->ctx, &j->dense, &clean, &report);
        r->lost += report.share[1][0];
        r->won += report.share[0][1];
        r->rank += report.margin_rank;
        tllm_geometry_report_close(j->ctx, &report);
    }
    if (!st) st = tllm_geometry_compare(j->ctx, &clean, &g[TLLM_CORRUPT_NOISE], &report);
    if (!st) st = medians(j, &g[TLLM_CORRUPT_NOISE], &m[0], &m[1], &m[2]);
    if (!st && alike) st = tllm_geometry_alike(j->ctx, &clean, of, KINDS, alike);
    if (!st && method == DENSE && seed == 1) {
        size_t i;
        if (j->json) st = tllm_geometry_json(j->ctx, &report, j->json);
        for (i = 0; !st && i < (size_t)j->list && i < report.n_fragile; i++) {
            const tllm_geometry_sample *p = &clean.sample[report.fragile[i]],
                                       *q = &g[TLLM_CORRUPT_NOISE].sample[report.fragile[i]];
            if (is_shown()) fprintf(stderr, "\r%60s\r", "");
            printf("fragile: sample %lu of class %d, margin %.2f to %.2f, angle %.0f to %.0f, answered %d\n",
                   (unsigned long)report.fragile[i], (int)p->label, p->value[TLLM_GEOMETRY_MARGIN],
                   q->value[TLLM_GEOMETRY_MARGIN], p->value[TLLM_GEOMETRY_ANGLE], q->value[TLLM_GEOMETRY_ANGLE],
                   (int)q->answer);
        }
    }
    if (!st) {
        if (method == DENSE) *dense = wrong;
        ratio = *dense > 0.0 ? wrong / *dense : 1.0;
        if (!r->n || ratio < r->least) r->least = ratio;
        if (!r->n || ratio > r->most) r->most = ratio;
        r->worse += ratio;
        r->angle[1] += m[0];
        r->length[1] += m[1];
        r->margin[1] += m[2];
        r->auc += report.auc;
        r->by_angle += report.by_angle;
        r->by_length += report.by_length;
        r->broken += report.share[1][0];
        r->n++;
    }
    tllm_geometry_report_close(j->ctx, &report);
    for (kind = 0; kind < KINDS; kind++) tllm_geometry_close(j->ctx, &g[kind]);
    if (!st && method == DENSE) {
        tllm_geometry_close(j->ctx, &j->dense);
        j->dense = clean;
    } else tllm_geometry_close(j->ctx, &clean);
    free(set.x.data);
    return st;
}

static const char *verdict(const row *r)
{
    return r->most < 1.0 ? "robust" : r->worse <= 1.1 * r->n ? "near dense" : "fragile";
}

static void print(const job *j, row r[METHODS][SHARES], const int *use, const double *keep, int n_keep,
                  const double *alike)
{
    int m, k, kind, other, level;
    printf("M128, MIX60, %d seeds, %d epochs a training. Right answers in %% with noise of severity 0 to 5; "
           "errors\nover all corruptions and severities compared with the dense network (least to most of the seeds)\n",
           j->seeds, j->epochs);
    printf("%-10s %6s %7s %6s %6s %6s %6s %6s %8s %16s\n", "method", "keep", "clean", "1", "2", "3", "4", "5", "errors",
           "");
    for (k = 0; k < n_keep; k++)
        for (m = 0; m < METHODS; m++) {
            const row *q = &r[m][m ? k : 0];
            if (!use[m] || (!m && k)) continue;
            printf("%-10s %5.1f%% ", names[m], m ? 100 * keep[k] : 100.0);
            for (level = 0; level <= LEVELS; level++)
                printf(" %6.1f", 100 * q->right[TLLM_CORRUPT_NOISE][level] / q->n);
            printf(" %8.2f (%.2f to %.2f) %s\n", q->worse / q->n, q->least, q->most, m ? verdict(q) : "");
        }
    printf("\nFrom clean samples to noise of severity %d: medians of angle, length and margin; of the right samples "
           "that break,\nthose that the angle or the length alone explains; AUC of the clean margin as a forecast\n",
           j->severity);
    printf("%-10s %6s %15s %15s %15s %7s %7s %7s %6s\n", "method", "keep", "angle", "length", "margin", "break",
           "angle", "length", "AUC");
    for (k = 0; k < n_keep; k++)
        for (m = 0; m < METHODS; m++) {
            const row *q = &r[m][m ? k : 0];
            if (!use[m] || (!m && k)) continue;
            printf("%-10s %5.1f%% %6.1f to %5.1f %6.2f to %5.2f %6.2f to %5.2f %6.1f%% %6.1f%% %6.1f%% %6.3f\n",
                   names[m], m ? 100 * keep[k] : 100.0, q->angle[0] / q->n, q->angle[1] / q->n, q->length[0] / q->n,
                   q->length[1] / q->n, q->margin[0] / q->n, q->margin[1] / q->n, 100 * q->broken / q->n,
                   100 * q->by_angle / q->n, 100 * q->by_length / q->n, q->auc / q->n);
        }
    printf("\nFrom the dense network to each on clean samples: right that become wrong, wrong that become right, rank "
           "correlation\nof the margins\n%-10s %6s %7s %7s %7s\n", "method", "keep", "lost", "won", "rank");
    for (k = 0; k < n_keep; k++)
        for (m = 1; m < METHODS; m++) {
            const row *q = &r[m][k];
            if (use[m])
                printf("%-10s %5.1f%% %6.1f%% %6.1f%% %7.3f\n", names[m], 100 * keep[k], 100 * q->lost / q->n,
                       100 * q->won / q->n, q->rank / q->n);
        }
    printf("\nDense, seed 1: correlation of the changes of margin, severity %d\n%-10s", j->severity, "");
    for (kind = 0; kind < KINDS; kind++) printf(" %10s", tllm_corruption_name(kind));
    for (kind = 0; kind < KINDS; kind++) {
        printf("\n%-10s", tllm_corruption_name(kind));
        for (other = 0; other < KINDS; other++) printf(" %10.2f", alike[kind * KINDS + other]);
    }
    printf("\n");
}

/* ---- the picture: accuracy over noise at the first share, and errors compared with dense: red fragile, yellow near
 * dense, green robust */
static const char *const colour[METHODS] = { "#222",    "#1f77b4", "#d62728", "#ff7f0e", "#9467bd", "#17becf",
                                             "#2ca02c", "#8c564b" };

static size_t draw(char *to, size_t room, const job *j, row r[METHODS][SHARES], const int *use, double keep)
{
    double most = 1.2;
    size_t n = 0;
    int m, i, line = 0;
    for (m = 0; m < METHODS; m++)
        if (use[m] && r[m][0].most > most) most = r[m][0].most;
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"400\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"860\" height=\"400\" fill=\"#fff\"/>\n");
    PUT("<text x=\"50\" y=\"20\">M128 with %.3g %% of its weights: accuracy (%%) over severity of noise, %d "
        "seeds</text>\n<text x=\"520\" y=\"20\">errors under seven corruptions, dense = 1</text>\n", 100 * keep,
        j->seeds);
    for (i = 0; i <= 5; i++)
        PUT("<path d=\"M50 %dH410\" stroke=\"#ddd\"/><text x=\"44\" y=\"%d\" text-anchor=\"end\">%d</text>"
            "<text x=\"%d\" y=\"378\" text-anchor=\"middle\">%d</text>\n", 360 - 64 * i, 364 - 64 * i, 20 * i,
            50 + 72 * i, i);
    for (m = 0; m < METHODS; m++) {
        const row *q = &r[m][0];
        const double x = 520 + 280 * (q->worse / q->n) / most;
        int y;
        if (!use[m]) continue;
        y = 50 + 38 * line;
        PUT("<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"M", colour[m]);
        for (i = 0; i <= LEVELS; i++)
            PUT("%s%d %.1f", i ? "L" : "", 50 + 72 * i, 360 - 320 * q->right[TLLM_CORRUPT_NOISE][i] / q->n);
        PUT("\"/>\n<text x=\"512\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">%s</text>", y + 15, colour[m], names[m]);
        PUT("<rect x=\"520\" y=\"%d\" width=\"%.1f\" height=\"22\" fill=\"%s\"/>", y, x - 520,
            !m ? "#bbb" : q->most < 1.0 ? "#80c080" : q->worse <= 1.1 * q->n ? "#d8d080" : "#e08080");
        PUT("<path stroke=\"#222\" d=\"M%.1f %dH%.1f\"/><text x=\"%.1f\" y=\"%d\">%.2f</text>\n",
            520 + 280 * q->least / most, y + 11, 520 + 280 * q->most / most, 526 + 280 * q->most / most, y + 15,
            q->worse / q->n);
        line++;
    }
    PUT("<path stroke=\"#222\" stroke-dasharray=\"4\" d=\"M%.1f 40V360\"/>\n"
        "<text x=\"520\" y=\"378\">red: over 10 %% more errors, green: fewer in every seed</text>\n</svg>\n",
        520 + 280 / most);
#undef PUT
    return n;
}

int main(int argc, char **argv)
{
    static row r[METHODS][SHARES];
    static char picture[32768];
    double alike[KINDS * KINDS] = { 0 };
    tiny_ctx_desc cd = { 0 };
    tllm_nn_task task;
    tiny_ctx *ctx = NULL;
    word_list methods, keeps;
    double keep[SHARES] = { 0.2, 0.1, 0.05 }, dense = 0.0;
    int use[METHODS] = { 0 }, n_keep = 3, m, k, seed, failed = 0;
    job j;
    tiny_status st = TINY_OK;
    const option options[] = { A_LIST("--method", &methods, 16),
                               A_LIST("--keep", &keeps, SHARES),
                               A_WHOLE("--seeds", &j.seeds, 1, 100),
                               A_WHOLE("--epochs", &j.epochs, 1, 10000),
                               A_WHOLE("--severity", &j.severity, 1, LEVELS),
                               A_WHOLE("--list", &j.list, 0, 1000),
                               A_TEXT("--csv", &j.csv),
                               A_TEXT("--json", &j.json),
                               A_TEXT("--svg", &j.svg),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    memset(&methods, 0, sizeof methods);
    memset(&keeps, 0, sizeof keeps);
    memset(&j, 0, sizeof j);
    j.seeds = j.severity = 3;
    j.epochs = 25;
    READ_OPTIONS(argc, argv, usage, options);
    for (m = 0; m < METHODS; m++) use[m] = !methods.n || !m;
    for (k = 0; k < methods.n; k++) {
        m = place_in(all_names, methods.at[k]);
        if (m < 0) return wrong(methods.at[k], "there is no such method; --help names them");
        use[m] = 1;
    }
    if (keeps.n) n_keep = keeps.n;
    for (k = 0; k < keeps.n; k++)
        if (!is_number(keeps.at[k], 1e-3, 0.99, &keep[k])) return wrong(keeps.at[k], "--keep takes 0.001 to 0.99");
    if (must_not_write(j.csv, 0) || must_not_write(j.json, 0) || must_not_write(j.svg, 0) ||
        same_output(j.csv, j.json) || same_output(j.csv, j.svg) || same_output(j.json, j.svg))
        return 2;
    for (m = 0; m < METHODS; m++) j.of += use[m] * j.seeds * (m ? n_keep : 1);
    if (j.csv) {
        j.room = (size_t)j.of * (KINDS * LEVELS + 1) * 120 + 200;
        j.text = (char *)malloc(j.room);
        if (!j.text) return 1;
        j.n_text = (size_t)snprintf(j.text, j.room, "method,keep,seed,corruption,severity,right,angle,length,margin\n");
    }
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    j.ctx = ctx;
    for (seed = 1; !st && seed <= j.seeds; seed++) {
        st = tllm_nn_task_open(ctx, TLLM_TASK_MIX60, (uint64_t)seed, 0, 0, &task);
        for (m = 0; !st && m < METHODS; m++)
            for (k = 0; !st && use[m] && k < (m ? n_keep : 1); k++) {
                tllm_nn *nn = NULL;
                j.now = names[m];
                st = net_open(&j, (uint64_t)seed, &nn);
                if (!st) st = train(&j, nn, &task, m, keep[k], (uint64_t)seed);
                if (!st) st = judge(&j, nn, &task, m, m ? keep[k] : 1.0, seed, &dense,
                                    !m && seed == 1 ? alike : NULL, &r[m][k]);
                tllm_nn_close(nn);
                j.done++;
            }
        tllm_nn_task_close(ctx, &task);
    }
    if (is_shown()) fprintf(stderr, "\r%70s\r", "");
    if (st) failed = 1;
    else {
        print(&j, r, use, keep, n_keep, alike);
        if (j.csv) failed = tiny_file_write(ctx, j.csv, j.text, j.n_text) != TINY_OK;
        if (!failed && j.svg) {
            const size_t n = draw(picture, sizeof picture, &j, r, use, keep[0]);
            failed = tiny_file_write(ctx, j.svg, picture, n) != TINY_OK;
        }
    }
    if (failed) say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
    free(j.text);
    tllm_geometry_close(ctx, &j.dense);
    tiny_ctx_close(ctx);
    return failed ? stopped_by ? 128 + stopped_by : 1 : exit_status(0);
}
