/* examples/phases.c - prompts and answers on devices of their own: is it worth it, and how many of each?
 *
 *     phases goodput --first 400 --each 40                   the rate within two limits, apart and together
 *     phases measure MODEL.gguf -o model.profile             how long this machine takes, fitted
 *     phases place --profile model.profile --rate 20 ...    the best placement on a cluster
 *     phases simulate --rate 11 --prompts 1 --answers 1
 *
 * Only `measure` runs a model; the others compute. Without --profile the times are those of a model of 13 billion
 * weights on one A100, as published with DistServe. */
#define TINYLLM_WITH_SERVE
#define TINYLLM_WITH_PHASES
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "phases"
#include "options.h"
#include <math.h>

static const char usage[] =
    "phases COMMAND [options]\n"
    "  goodput          the highest rate a device within the limits: together, and several placements apart\n"
    "  simulate         one placement at one rate\n"
    "  place            the best placement on a cluster, and whether apart or together is better\n"
    "  measure MODEL    times prompts and answers of a GGUF file on this machine\n"
    "requests\n"
    "  --requests N     to simulate, 10 or more; default: 1000\n"
    "  --rate X         arrivals a second; default: 10\n"
    "  --varies X       deviation of the pauses between them over their mean; default: 1 (Poisson)\n"
    "  --prompt N       median tokens of a prompt; default: 512\n"
    "  --answer N       median tokens of an answer; default: 64\n"
    "  --spread X       deviation of the logarithm of both; default: 0, all equal\n"
    "  --seed N         default: 1\n"
    "limits, for goodput and place: nine in ten requests keep them\n"
    "  --first MS       to the first token; default: 400\n"
    "  --each MS        for each further token; default: 40\n"
    "devices\n"
    "  --profile FILE   times, as `phases measure` writes them\n"
    "  --together N     simulate: N instances that do both\n"
    "  --prompts N      simulate: N instances that read prompts, and\n"
    "  --answers N      N instances that answer\n"
    "  --tp N           devices that a layer is cut over; default: 1\n"
    "  --pp N           stages of an instance; default: 1\n"
    "  --batch N        most tokens of a batch of prompts; default: 512 apart, 2048 together\n"
    "  --cells N        tokens that an instance can hold; default: no limit\n"
    "  --token-bytes N  keys and values of a token; default: 0\n"
    "  --link X         gigabits a second to an instance that answers; default: no time\n"
    "place\n"
    "  --nodes N, --devices N   nodes, and devices of each; default: 1, 8\n"
    "  --memory X, --weights X  gigabytes of a device, and of the model; default: 80, 26\n"
    "  --heads N, --layers N    of the model; default: 40, 40\n"
    "  --slow                   keys and values stay within a node\n"
    "files\n"
    "  -o FILE          measure: write it there; default: standard output\n"
    "  --svg FILE       goodput: draw who keeps the limits at which rate\n"
    "  --threads N      measure: threads of the model; default: all\n";

static struct {
    int command;
    const char *model, *profile, *out, *svg;
    int requests, prompt, answer, together, prompts, answers, tp, pp, batch;
    int nodes, devices, heads, layers, slow, threads;
    double rate, varies, spread, first, each, cells, token_bytes, link, memory, weights;
    uint64_t seed;
    tiny_ctx *ctx;
    tllm_phases_time time[TLLM_PHASES_TIMES];
    tllm_phases d;
    tllm_phases_load load;
} run;

/* ---- profiles as text: "tp 1 few 95 stage 0 prompt A B C token A B C A B C" on a line, # begins a comment */

static int number(char **at, double *x)
{
    char *word = *at + strspn(*at, " \t\r"), *end = word + strcspn(word, " \t\r\n");
    const char kept = *end;
    int good;
    *end = 0;
    good = is_number(word, -1e12, 1e12, x);
    *end = kept;
    *at = end;
    return good;
}
static int word(char **at, const char *what)
{
    char *from = *at + strspn(*at, " \t\r");
    if (strncmp(from, what, strlen(what))) return 0;
    *at = from + strlen(what);
    return **at == ' ' || **at == '\t';
}
static int read_profile(void)
{
    size_t n;
    char *text = read_text(run.profile, MOST_SETTINGS, 0, &n), *at = text, *end;
    int line = 0, i, good = text != NULL;
    for (; good && at && *at; at = end ? end + 1 : NULL) {
        tllm_phases_time *t = &run.time[run.d.n_time];
        double tp, few;
        line++;
        end = strchr(at, '\n');
        if (end) *end = 0;
        at += strspn(at, " \t\r");
        if (!*at || *at == '#') continue;
        good = run.d.n_time < TLLM_PHASES_TIMES && word(&at, "tp") && number(&at, &tp) && word(&at, "few") &&
               number(&at, &few) && word(&at, "stage") && number(&at, &t->stage) && word(&at, "prompt");
        for (i = 0; i < 3 && good; i++) good = number(&at, &t->prompt[i]);
        good = good && word(&at, "token");
        for (i = 0; i < 6 && good; i++) good = number(&at, &t->token[i / 3][i % 3]);
        good = good && !at[strspn(at, " \t\r")] && tp >= 1 && tp <= 4096 && tp == floor(tp) && few >= 0 && few <= 1e9 &&
               few == floor(few);
        if (!good) {
            fprintf(stderr, "phases: %s, line %d: expected \"tp N few N stage X prompt A B C token A B C A B C\", at "
                            "most %d lines\n", run.profile, line, TLLM_PHASES_TIMES);
            break;
        }
        t->tp = (int)tp;
        t->few = (int)few;
        run.d.n_time++;
    }
    if (good && !run.d.n_time) {
        fprintf(stderr, "phases: %s: no line with times\n", run.profile);
        good = 0;
    }
    free(text);
    return good;
}

/* ---- measuring */

enum { MOST_TIMES = 64, STEPS = 8 };
typedef struct sample_list { double x[MOST_TIMES], y[MOST_TIMES], ms[MOST_TIMES]; size_t n; } sample_list;

static double now(void) { return 1e-6 * (double)tiny_now_ns(); }
static void add(sample_list *l, double x, double y, double ms)
{
    if (l->n == MOST_TIMES) return;
    l->x[l->n] = x;
    l->y[l->n] = y;
    l->ms[l->n++] = ms;
}

/* `n` requests of `length` tokens: how long the step takes that reads them, and the steps that answer (the median) */
static tiny_status measure_batch(tllm_engine *e, int n, int length, int32_t n_vocab, double *prompt, double *token)
{
    int32_t ids[4096];
    tllm_request r;
    double ms[STEPS];
    char error[240];
    int i, k, more = 1;
    tiny_status st = TINY_OK;
    memset(&r, 0, sizeof r);
    r.prompt = ids;
    r.n_prompt = (size_t)length;
    r.n_most = STEPS + 1;
    r.past_end = 1;
    for (i = 0; i < n && !st; i++) {
        for (k = 0; k < length; k++) ids[k] = 1 + (i * 7919 + k * 104729) % (n_vocab - 1);
        st = tllm_engine_submit(e, &r, NULL, error, sizeof error);
        if (st) say(error);
    }
    *prompt = now();
    if (!st) st = tllm_engine_step(e, &more);
    *prompt = now() - *prompt;
    for (i = 0; i < STEPS && !st && more; i++) {
        ms[i] = now();
        st = tllm_engine_step(e, &more);
        ms[i] = now() - ms[i];
        for (k = i; k > 0 && ms[k] < ms[k - 1]; k--) {
            const double t = ms[k];
            ms[k] = ms[k - 1];
            ms[k - 1] = t;
        }
    }
    *token = i ? ms[i / 2] : 0;
    while (!st && more) st = tllm_engine_step(e, &more);
    return st;
}

/* slopes below 0 are noise: the other one is fitted alone */
static tiny_status fit(const sample_list *l, double abc[3])
{
    double zero[MOST_TIMES];
    size_t i;
    int k;
    tiny_status st = tllm_phases_fit(run.ctx, l->x, l->y, l->ms, l->n, abc);
    for (k = 1; k < 3 && !st; k++)
        if (abc[k] < 0) {
            double one[3];
            for (i = 0; i < l->n; i++) zero[i] = (double)(i * i % 7);
            st = k == 1 ? tllm_phases_fit(run.ctx, zero, l->y, l->ms, l->n, one)
                        : tllm_phases_fit(run.ctx, l->x, zero, l->ms, l->n, one);
            abc[k] = 0;
            if (!st) abc[3 - k] = one[3 - k] > 0 ? one[3 - k] : 0;
        }
    for (abc[0] = 0, i = 0; i < l->n && !st; i++)
        abc[0] += (l->ms[i] - abc[1] * l->x[i] - abc[2] * l->y[i]) / (double)l->n;
    if (abc[0] < 0) abc[0] = 0;
    return st;
}

static tiny_status measure(void)
{
    static const int lengths[] = { 16, 32, 64, 128, 192, 256, 384, 512 }, batches[] = { 1, 2, 4, 8, 16 };
    static sample_list prompts, tokens;
    tllm_engine_desc ed;
    tllm_engine *e = NULL;
    tllm_about about;
    double p, t, abc[2][3];
    char text[400];
    int i, k, n, most;
    tiny_status st;
    memset(&ed, 0, sizeof ed);
    ed.slots = 16;
    ed.budget = 8192;
    ed.forget = 1;
    st = tllm_engine_open_file(run.ctx, run.model, &ed, &e);
    if (st) return st;
    tllm_model_about(tllm_engine_model(e), &about);
    most = (int)tllm_engine_context(e) - STEPS - 2;
    for (i = 0; i < 8 && !st; i++)
        for (k = 0; k < 5 && !st; k++) {
            if (lengths[i] > most || (batches[k] > 1 && lengths[i] * batches[k] > 2048)) continue;
            show_progress(NULL, "measuring", (i * 5 + k) / 40.0);
            st = measure_batch(e, batches[k], lengths[i], (int32_t)about.n_vocab, &p, &t);
            if (st) break;
            n = batches[k];
            /* a request has STEPS / 2 tokens more on average while they are timed */
            add(&tokens, n * (lengths[i] + STEPS / 2.0), n, t);
            add(&prompts, (double)n * lengths[i], (double)n * lengths[i] * lengths[i], p);
        }
    end_progress();
    tllm_engine_close(e);
    if (!st && prompts.n < 4) {
        say("the context of this model is too short to measure");
        return TINY_E_UNSUPPORTED;
    }
    if (!st) st = fit(&prompts, abc[0]);
    if (!st) st = fit(&tokens, abc[1]);
    if (st) return st;
    n = snprintf(text, sizeof text,
                 "# milliseconds: prompts a + b tokens + c squares of lengths; tokens a + b cached + c requests\n"
                 "tp 1 few 0 stage 0 prompt %.6g %.6g %.6g token %.6g %.6g %.6g %.6g %.6g %.6g\n",
                 abc[0][0], abc[0][1], abc[0][2], abc[1][0], abc[1][1], abc[1][2], abc[1][0], abc[1][1], abc[1][2]);
    if (!run.out) fputs(text, stdout);
    return run.out ? tiny_file_write(run.ctx, run.out, text, (size_t)n) : TINY_OK;
}

/* ---- placements */

static const char *group_text(const tllm_phases_group *g, char *to, size_t room)
{
    if (g->tp * g->pp == 1) (void)snprintf(to, room, "%d", g->n);
    else (void)snprintf(to, room, "%d (tp %d, pp %d)", g->n, g->tp, g->pp);
    return to;
}

static tiny_status simulate(void)
{
    tllm_phases_request *r = (tllm_phases_request *)need(malloc((size_t)run.requests * sizeof *r));
    tllm_phases_report got;
    tiny_status st = tllm_phases_draw(run.ctx, &run.load, r);
    if (!st) st = tllm_phases_simulate(run.ctx, &run.d, r, (size_t)run.requests, NULL, &got);
    free(r);
    if (st) return st;
    printf("to the first token  mean %.1f ms, nine in ten within %.1f ms\n", got.first, got.first_90);
    printf("each further token  mean %.1f ms, nine in ten within %.1f ms\n", got.each, got.each_90);
    printf("requests inside     %.1f on average, each for %.0f ms; all took %.1f s\n", got.inside, got.stay,
           got.span / 1e3);
    if (got.moved > 0) printf("caches that moved   %.3f GB\n", got.moved / 1e9);
    if (got.swaps > 0) printf("lost their cells    %.0f times\n", got.swaps);
    return TINY_OK;
}

enum { ROWS = 6 };
static void place_row(int row, tllm_phases *d)
{
    static const int prompts[ROWS] = { 2, 1, 2, 3, 1, 1 }, answers[ROWS] = { 0, 1, 1, 1, 2, 3 };
    *d = run.d;
    d->mode = answers[row] ? TLLM_PHASES_APART : TLLM_PHASES_TOGETHER;
    d->prompts.n = prompts[row];
    d->answers.n = answers[row] ? answers[row] : 1;
}
static const char *const row_name[ROWS] = { "2 together", "1 + 1", "2 + 1", "3 + 1", "1 + 2", "1 + 3" };

/* the share of requests that keep both limits, over the rate a device */
static tiny_status draw(const double *goodput)
{
    static const char *const colour[ROWS] = { "#888", "#1f77b4", "#d62728", "#ff7f0e", "#2ca02c", "#9467bd" };
    enum { POINTS = 40 };
    static char text[65536];
    double most = 0;
    size_t n = 0, room = sizeof text;
    int row, i, k;
    tllm_phases_request *r = (tllm_phases_request *)need(malloc((size_t)run.requests * sizeof *r));
    tllm_phases_times *t = (tllm_phases_times *)need(malloc((size_t)run.requests * sizeof *t));
    tiny_status st = TINY_OK;
    for (row = 0; row < ROWS; row++) if (goodput[row] > most) most = goodput[row];
    most = most > 0 ? 1.5 * most : 1;
#define PUT(...) (n += (size_t)snprintf(n < room ? text + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"360\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"640\" height=\"360\" fill=\"#fff\"/>\n"
        "<path d=\"M60 20V310H620\" fill=\"none\" stroke=\"#000\"/>\n"
        "<path d=\"M60 49H620\" stroke=\"#bbb\" stroke-dasharray=\"4 3\"/><text x=\"54\" y=\"53\" "
        "text-anchor=\"end\">90 %%</text><text x=\"54\" y=\"24\" text-anchor=\"end\">100 %%</text>"
        "<text x=\"54\" y=\"314\" text-anchor=\"end\">0</text>\n"
        "<text x=\"340\" y=\"348\" text-anchor=\"middle\">requests a second and device; within %.4g ms to the first "
        "token and %.4g ms for each other</text>\n", run.first, run.each);
    for (i = 0; i <= 4; i++)
        PUT("<text x=\"%d\" y=\"328\" text-anchor=\"middle\">%.3g</text>\n", 60 + 140 * i, most * i / 4);
    for (row = 0; row < ROWS && !st; row++) {
        tllm_phases d;
        place_row(row, &d);
        PUT("<text x=\"%d\" y=\"14\" fill=\"%s\">%s</text>\n<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"",
            64 + 92 * row, colour[row], row_name[row], colour[row]);
        for (i = 1; i <= POINTS && !st; i++) {
            tllm_phases_load load = run.load;
            tllm_phases_report got;
            int good = 0;
            load.rate = most * i / POINTS * (d.prompts.n + (d.mode == TLLM_PHASES_APART ? d.answers.n : 0)) *
                        run.tp * run.pp;
            st = tllm_phases_draw(run.ctx, &load, r);
            if (!st) st = tllm_phases_simulate(run.ctx, &d, r, (size_t)run.requests, t, &got);
            for (k = 0; k < run.requests && !st; k++)
                good += t[k].first - r[k].at < run.first &&
                        (r[k].answer < 2 || (t[k].end - t[k].first) / (r[k].answer - 1) < run.each);
            PUT("%c%.1f %.1f", i > 1 ? 'L' : 'M', 60 + 560.0 * i / POINTS, 310 - 290.0 * good / run.requests);
        }
        PUT("\"/>\n");
    }
    PUT("</svg>\n");
#undef PUT
    free(r);
    free(t);
    return st ? st : tiny_file_write(run.ctx, run.svg, text, n < room ? n : room - 1);
}

static tiny_status goodput(void)
{
    tllm_phases_limit limit = { run.first, run.each, 0, 0.05 };
    double rate[ROWS];
    int row;
    tiny_status st = TINY_OK;
    printf("%-12s %s\n", "devices", "requests a second and device");
    for (row = 0; row < ROWS && !st; row++) {
        tllm_phases d;
        place_row(row, &d);
        st = tllm_phases_goodput(run.ctx, &d, &run.load, &limit, &rate[row]);
        if (!st) printf("%-12s %.2f\n", row_name[row], rate[row]);
    }
    return st || !run.svg ? st : draw(rate);
}

static tiny_status place(void)
{
    tllm_phases_limit limit = { run.first, run.each, 0, 0 };
    tllm_phases_cluster c;
    tllm_phases_placement p;
    char text[2][80];
    tiny_status st;
    memset(&c, 0, sizeof c);
    c.nodes = run.nodes;
    c.devices = run.devices;
    c.memory = 1e9 * run.memory;
    c.weights = 1e9 * run.weights;
    c.heads = run.heads;
    c.layers = run.layers;
    c.slow = run.slow;
    st = tllm_phases_search(run.ctx, &run.d, &c, &run.load, &limit, run.rate, &p);
    if (st) return st;
    printf("%d placements simulated, %d too large for their devices\n", p.tried, p.too_large);
    if (p.apart > 0)
        printf("apart     %s for prompts, %s for answers: %.2f requests a second and device\n",
               group_text(&p.prompts, text[0], sizeof text[0]), group_text(&p.answers, text[1], sizeof text[1]),
               p.apart);
    else puts("apart     no placement keeps the limits");
    if (p.one > 0)
        printf("together  %s: %.2f requests a second and device\n",
               group_text(&p.together, text[0], sizeof text[0]), p.one);
    else puts("together  no placement keeps the limits");
    if (p.devices)
        printf("%s is better: %d devices for %g requests a second\n", p.apart_wins ? "apart" : "together", p.devices,
               run.rate);
    return TINY_OK;
}

int main(int argc, char **argv)
{
    static const tllm_phases_time published = {
        1, { 18.1025, .1019123, 7.12226e-6 },
        { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } }, 0, 1
    };
    tiny_ctx_desc cd;
    tiny_status st;
    int bad;
    const option options[] = { A_COMMAND("goodput simulate place measure", &run.command),
                               A_WORD("MODEL", &run.model),
                               A_WHOLE("gsp --requests", &run.requests, 10, 1e6),
                               A_NUMBER("sp --rate", &run.rate, 1e-6, 1e6),
                               A_NUMBER("gsp --varies", &run.varies, 0, 100),
                               A_WHOLE("gsp --prompt", &run.prompt, 1, 1e6),
                               A_WHOLE("gsp --answer", &run.answer, 1, 1e6),
                               A_NUMBER("gsp --spread", &run.spread, 0, 10),
                               A_SEED("gsp --seed", &run.seed),
                               A_NUMBER("gp --first", &run.first, 1e-6, 1e9),
                               A_NUMBER("gp --each", &run.each, 1e-6, 1e9),
                               A_TEXT("gsp --profile", &run.profile),
                               A_WHOLE("s --together", &run.together, 1, TLLM_PHASES_INSTANCES),
                               A_WHOLE("s --prompts", &run.prompts, 1, TLLM_PHASES_INSTANCES),
                               A_WHOLE("s --answers", &run.answers, 1, TLLM_PHASES_INSTANCES),
                               A_WHOLE("gs --tp", &run.tp, 1, 4096),
                               A_WHOLE("gs --pp", &run.pp, 1, TLLM_PHASES_STAGES),
                               A_WHOLE("gsp --batch", &run.batch, 1, 1e9),
                               A_NUMBER("gs --cells", &run.cells, 1, 1e12),
                               A_NUMBER("gsp --token-bytes", &run.token_bytes, 0, 1e12),
                               A_NUMBER("gs --link", &run.link, 1e-6, 1e9),
                               A_WHOLE("p --nodes", &run.nodes, 1, 64),
                               A_WHOLE("p --devices", &run.devices, 1, 64),
                               A_NUMBER("p --memory", &run.memory, 1e-6, 1e9),
                               A_NUMBER("p --weights", &run.weights, 1e-6, 1e9),
                               A_WHOLE("p --heads", &run.heads, 1, 4096),
                               A_WHOLE("p --layers", &run.layers, 1, 4096),
                               A_FLAG("p --slow", &run.slow),
                               A_TEXT("m -o", &run.out),
                               A_TEXT("g --svg", &run.svg),
                               A_WHOLE("m --threads", &run.threads, 1, 1024) };
    run.requests = 1000;
    run.rate = 10;
    run.prompt = 512;
    run.answer = 64;
    run.seed = 1;
    run.first = 400;
    run.each = 40;
    run.tp = run.pp = run.nodes = 1;
    run.devices = 8;
    run.memory = 80;
    run.weights = 26;
    run.heads = run.layers = 40;
    READ_OPTIONS(argc, argv, usage, options);
    if (run.command == 3 && !run.model) return refused("measure: which model? A GGUF file is needed");
    if (run.command != 3 && run.model) return wrong(run.model, "only measure reads a model");
    if (run.together && (run.prompts || run.answers))
        return refused("--together is one kind of instance, --prompts and --answers are two");
    bad = must_not_write(run.out, 2, run.model, run.profile);
    if (!bad) bad = must_not_write(run.svg, 1, run.profile);
    if (bad) return bad;
    if (run.profile) { if (!read_profile()) return 1; }
    else {
        run.time[0] = published;
        run.d.n_time = 1;
    }
    run.d.time = run.time;
    run.d.mode = run.together ? TLLM_PHASES_TOGETHER : TLLM_PHASES_APART;
    run.d.prompts.n = run.together ? run.together : run.prompts ? run.prompts : 1;
    run.d.answers.n = run.answers ? run.answers : 1;
    run.d.prompts.tp = run.d.answers.tp = run.tp;
    run.d.prompts.pp = run.d.answers.pp = run.pp;
    run.d.batch = run.batch;
    run.d.prompt_cells = run.d.answer_cells = run.cells;
    run.d.token_bytes = run.token_bytes;
    run.d.link = 1.25e8 * run.link;
    run.load.n = run.requests;
    run.load.rate = run.rate;
    run.load.varies = run.varies;
    run.load.prompt = run.prompt;
    run.load.answer = run.answer;
    run.load.prompt_sigma = run.load.answer_sigma = run.spread;
    run.load.seed = run.seed;
    memset(&cd, 0, sizeof cd);
    cd.n_threads = run.threads;
    cd.log = hear;
    cd.user = &run.ctx;
    if (tiny_ctx_open(&cd, &run.ctx)) return 1;
    st = run.command == 0 ? goodput() : run.command == 1 ? simulate() : run.command == 2 ? place() : measure();
    if (st) say(tiny_ctx_message(run.ctx));
    tiny_ctx_close(run.ctx);
    return exit_status(st != TINY_OK);
}
