/* examples/distserve.c - should prompts and tokens run on devices of their own? Simulates it, and does it
 *
 *     distserve queue --service 50 --rate 10           three queues by formula
 *     distserve simulate --prefills 1 --decodes 1      one configuration: times to first tokens and between tokens
 *     distserve goodput --tpot 40 --svg curves.svg     how much two devices together and split ones serve
 *     distserve place --nodes 2 --devices 4            the best placement of a model on a cluster
 *     distserve measure MODEL.gguf -o FILE             the times of this machine: a profile for the others
 *     distserve run MODEL.gguf --tcp --check           a desk and two workers; one reads prompts, one continues
 *
 * Times come from a profile of a device. The built-in one is of a 13 B model on one A100. For tp devices that share
 * each layer it assumes 1.7 times the speed for each doubling. --profile FILE replaces it: a line for each tp with 11
 * numbers, tp, a b c of prompts, a b c of tokens in small and in large batches (milliseconds), the threshold between
 * these. */
#if !defined _DEFAULT_SOURCE && !defined _WIN32
#define _DEFAULT_SOURCE 1                   /* kill, of world.h */
#endif
#define TINYLLM_WITH_DISTSERVE
#define TINYLLM_WITH_HANDOVER
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#define PROGRAM "distserve"
#include "options.h"
#include "world.h"

static const char usage[] =
    "distserve queue | simulate | goodput | place [options], distserve measure | run MODEL [options]\n"
    "  queue          mean times of three queues by formula: one device, two stages, two devices that share layers\n"
    "  simulate       one configuration at one rate\n"
    "  goodput        the highest rates of 2 devices together, 1 + 1 split and 2 + 1 split within the limits\n"
    "  place          the best placement on a cluster, split or together\n"
    "  measure        times batches of prompts and of tokens of a model, one thread: a profile of this machine\n"
    "  run            serves requests with a model on several ranks: rank 0 is the desk, the others work\n"
    "  --rate X       requests a second; default: 10\n"
    "  --service X    queue: milliseconds of a request; default: 50\n"
    "  --speedup X    queue: of two devices that share layers; default: 1.6\n"
    "  --profile FILE times of a device, 11 numbers a line; default: a 13 B model on one A100\n"
    "  --prefills N   simulate, run: instances that read prompts; default: 1\n"
    "  --decodes N    simulate, run: instances that continue texts; 0: the prefills do both; default: 1\n"
    "  --link X       simulate: gigabytes of keys and values that an instance fetches in a second; default: no limit\n"
    "  --requests N   of a simulation; default: 500\n"
    "  --seed N       of the requests; default: 0\n"
    "  --seeds N      goodput: this many seeds from --seed on, with their spread; default: 3\n"
    "  --cv X         deviation over mean of the time between requests; default: 1, by chance\n"
    "  --prompt N     median of prompts in tokens; default: 512\n"
    "  --output N     median of outputs in tokens; default: 64\n"
    "  --spread X     sigma of both lengths, log-normal; default: 0, all the same\n"
    "  --ttft X       limit of the time to the first token, milliseconds, for nine of ten; default: 400\n"
    "  --tpot X       limit of the time of each further token, milliseconds, for nine of ten; default: 40\n"
    "  --nodes N      place: default: 1\n"
    "  --devices N    place: of a node; default: 4\n"
    "  --slow         place: keys and values may only travel inside a node\n"
    "  --svg FILE     goodput: draws the time of a token over the rate\n"
    "  -o FILE        measure: writes the profile there; default: standard output\n"
    "  --slots N      run: requests that a worker has at a time; default: 8\n"
    "  --tcp          run: ranks are processes that talk over TCP (not on Windows); default: threads\n"
    "  --ranks N      run: a desk and workers, 2 to 16; half of the workers read; default: by the options above\n"
    "  --check        run: compares each text with that of one engine, and ends with status 1 if one differs; with\n"
    "                 --codec texts may differ: it says by how much\n"
    "  --codec N      run: keys and values travel by the cache codec, which is lossy, at level 1 to 4 (the best);\n"
    "                 default: as they are\n"
    "  --tables FILE  run: its tables, from `cache profile`; default: each text brings its own\n";

enum { KINDS = 3, POINTS = 24, PROFILES = 8 };
static const char *const kind_name[KINDS] = { "2 together", "1 + 1 split", "2 + 1 split" };
typedef struct job {
    double rate, service, speedup, link, ttft, tpot;
    int prefills, decodes, seeds, nodes, devices, slow, n_profile;
    const char *profile_file, *svg;
    tllm_dist_load load;
    double spread;
    tllm_dist_profile profile[PROFILES];
    const char *model, *out;
    int slots, tcp, ranks, check, codec;
    const char *tables;
} job;

static int failed(const tiny_ctx *ctx) { return say(tiny_ctx_message(ctx)), 1; }

/* 0: the file is not a list of profiles; the reason was printed */
static int read_profiles(job *j)
{
    size_t n;
    char *text = read_text(j->profile_file, MOST_SETTINGS, 0, &n), *at, *end;
    int ok = text != NULL, k;
    for (at = text; ok && *(at += strspn(at, " \t\r\n"));) {
        double x[11];
        tllm_dist_profile *p = &j->profile[j->n_profile];
        for (k = 0; k < 11 && ok; k++, at = end) {
            x[k] = strtod(at, &end);
            ok = end != at && x[k] >= 0 && x[k] < 1e9;
        }
        ok = ok && j->n_profile < PROFILES && x[0] >= 1 && x[0] <= 4096;
        if (!ok) break;
        memset(p, 0, sizeof *p);
        p->tp = (int)x[0];
        for (k = 0; k < 3; k++) {
            p->prefill[k] = x[1 + k];
            p->decode[0][k] = x[4 + k];
            p->decode[1][k] = x[7 + k];
        }
        p->threshold = (int)x[10];
        j->n_profile++;
    }
    if (text && (!ok || !j->n_profile)) {
        fprintf(stderr, PROGRAM ": %s: line %d is not 11 numbers of a profile, or there are more than %d\n",
                j->profile_file, j->n_profile + 1, PROFILES);
        ok = 0;
    }
    free(text);
    return ok;
}
static void own_profiles(job *j)
{
    static const tllm_dist_profile a100 = { 1,
                                            { 18.1025, .1019123, 7.12226e-6 },
                                            { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } },
                                            95,
                                            1 };
    int i, k;
    for (i = 0; i < 4; i++) {
        tllm_dist_profile *p = &j->profile[j->n_profile++];
        *p = a100;
        p->tp = 1 << i;
        for (k = 0; k < 3; k++) {
            p->prefill[k] /= pow(1.7, i);
            p->decode[0][k] /= pow(1.7, i);
            p->decode[1][k] /= pow(1.7, i);
        }
    }
}

static tllm_dist_config config(const job *j, int prefills, int decodes)
{
    tllm_dist_config c;
    memset(&c, 0, sizeof c);
    c.role = decodes ? TLLM_DIST_SPLIT : TLLM_DIST_TOGETHER;
    c.prefill.instances = prefills;
    c.decode.instances = decodes;
    c.prefill.profile = c.decode.profile = &j->profile[0];
    c.kv_bytes = tllm_dist_kv(40, 40, 128, 2, 1);
    c.link = 1e9 * j->link;
    return c;
}
static tllm_dist_config config_of(const job *j, int kind) { return config(j, kind == 1 ? 1 : 2, kind > 0); }

/* ---- one configuration */

static void bars(const char *what, const double *x, int n)
{
    int count[12] = { 0 }, i, k, most = 1;
    double high = 0;
    for (i = 0; i < n; i++) if (x[i] > high) high = x[i];
    for (i = 0; i < n; i++) {
        k = high > 0 ? (int)(12 * x[i] / high) : 0;
        k = k > 11 ? 11 : k;
        if (++count[k] > most) most = count[k];
    }
    printf("\n%s, milliseconds\n", what);
    for (k = 0; k < 12; k++)
        printf("%8.1f  %-*s %d\n", 1e3 * high * (k + 1) / 12, 50, &"##################################################"
               [50 - 50 * count[k] / most], count[k]);
}
static int simulate(tiny_ctx *ctx, const job *j)
{
    const tllm_dist_config c = config(j, j->prefills, j->decodes);
    const int n = j->load.n;
    tllm_dist_request *r = (tllm_dist_request *)need(calloc((size_t)n, sizeof *r));
    tllm_dist_time *t = (tllm_dist_time *)need(calloc((size_t)n, sizeof *t));
    double *x = (double *)need(calloc((size_t)n, sizeof *x));
    tllm_dist_score score;
    tllm_dist_sum sum;
    int i;
    tiny_status st = tllm_dist_requests(ctx, &j->load, j->rate, r);
    if (!st) st = tllm_dist_simulate(ctx, &c, r, (size_t)n, t, &sum);
    if (!st) st = tllm_dist_score_of(ctx, r, t, (size_t)n, &score);
    if (!st) {
        printf("%d requests, %g a second, on %d devices: %.1f s, %.1f in the system on average, %.3f GB fetched, %d "
               "texts put aside\n", n, j->rate, tllm_dist_devices(&c), sum.end, sum.area / sum.end, sum.moved / 1e9,
               sum.swaps);
        printf("nine of ten: first token within %.1f ms (limit %g), a further one within %.1f ms (limit %g): %s\n",
               1e3 * score.ttft, j->ttft, 1e3 * score.tpot, j->tpot,
               1e3 * score.ttft < j->ttft && 1e3 * score.tpot < j->tpot ? "kept" : "not kept");
        for (i = 0; i < n; i++) x[i] = t[i].first - r[i].arrival;
        bars("time to the first token", x, n);
        for (i = 0; i < n; i++) x[i] = r[i].output > 1 ? (t[i].done - t[i].first) / (r[i].output - 1) : 0;
        bars("time of a further token", x, n);
    }
    free(r);
    free(t);
    free(x);
    return st ? failed(ctx) : 0;
}

/* ---- goodput */

/* the time of a token over the rate a device, three curves and the limit */
static size_t draw(char *to, size_t room, const job *j, double most, double y[KINDS][POINTS])
{
    static const char *const colour[KINDS] = { "#b44", "#248", "#384" };
    size_t n = 0;
    int i, k;
    double high = 2 * j->tpot;
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n"
        "<text x=\"60\" y=\"20\">milliseconds of a token, nine of ten, over requests a second and device; broken: the "
        "first token is late</text>\n");
    for (i = 0; i <= 5; i++)
        PUT("<path d=\"M60 %dH580\" stroke=\"#ddd\"/><text x=\"54\" y=\"%d\" text-anchor=\"end\">%.0f</text>"
            "<text x=\"%d\" y=\"398\" text-anchor=\"middle\">%.1f</text>\n",
            380 - 68 * i, 384 - 68 * i, high * i / 5, 60 + 104 * i, most * i / 5);
    PUT("<path d=\"M60 210H580\" stroke=\"#888\" stroke-dasharray=\"4 4\"/><text x=\"588\" y=\"214\">limit</text>\n");
    for (k = 0; k < KINDS; k++) {
        PUT("<text x=\"588\" y=\"%d\" fill=\"%s\">%s</text>\n", 50 + 16 * k, colour[k], kind_name[k]);
        for (i = 0; i + 1 < POINTS; i++) {
            const double a = fabs(y[k][i]), b = fabs(y[k][i + 1]);
            if (a > high || b > high) continue;
            PUT("<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n",
                60 + 520.0 * (i + 1) / POINTS, 380 - 340 * a / high, 60 + 520.0 * (i + 2) / POINTS,
                380 - 340 * b / high, colour[k], y[k][i + 1] < 0 ? " stroke-dasharray=\"3 4\"" : "");
        }
    }
    PUT("</svg>\n");
#undef PUT
    return n;
}
static tiny_status curves(tiny_ctx *ctx, const job *j, double most, double y[KINDS][POINTS])
{
    tllm_dist_request *r = (tllm_dist_request *)need(calloc((size_t)j->load.n, sizeof *r));
    tllm_dist_time *t = (tllm_dist_time *)need(calloc((size_t)j->load.n, sizeof *t));
    tiny_status st = TINY_OK;
    int k, i;
    for (k = 0; k < KINDS && !st; k++) {
        const tllm_dist_config c = config_of(j, k);
        for (i = 0; i < POINTS && !st; i++) {
            tllm_dist_score s = { 0, 0 };
            show_progress(NULL, "curves", (double)(k * POINTS + i) / (KINDS * POINTS));
            st = tllm_dist_requests(ctx, &j->load, most * (i + 1) / POINTS * tllm_dist_devices(&c), r);
            if (!st) st = tllm_dist_simulate(ctx, &c, r, (size_t)j->load.n, t, NULL);
            if (!st) st = tllm_dist_score_of(ctx, r, t, (size_t)j->load.n, &s);
            y[k][i] = (1e3 * s.ttft < j->ttft ? 1e3 : -1e3) * s.tpot;
        }
    }
    end_progress();
    free(r);
    free(t);
    return st;
}
static int goodput(tiny_ctx *ctx, job *j)
{
    static char picture[65536];
    static double y[KINDS][POINTS];
    const tllm_dist_limits limits = { 1e-3 * j->ttft, 1e-3 * j->tpot };
    const uint64_t seed = j->load.seed;
    double most = 1, mean[KINDS], together;
    int k, s;
    printf("%-12s %30s %24s\n", "devices", "requests a second and device", "lowest to highest seed");
    for (k = 0; k < KINDS; k++) {
        const tllm_dist_config c = config_of(j, k);
        double low = 1e300, high = 0, sum = 0, rate;
        for (s = 0; s < j->seeds; s++) {
            show_progress(NULL, "goodput", (double)(k * j->seeds + s) / (KINDS * j->seeds));
            j->load.seed = seed + (uint64_t)s;
            if (tllm_dist_goodput(ctx, &c, &j->load, &limits, NULL, &rate)) return end_progress(), failed(ctx);
            sum += rate;
            if (rate < low) low = rate;
            if (rate > high) high = rate;
        }
        end_progress();
        mean[k] = sum / j->seeds;
        if (1.3 * high > most) most = 1.3 * high;
        printf("%-12s %30.2f %15.2f to %5.2f\n", kind_name[k], mean[k], low, high);
    }
    together = mean[0];
    k = mean[2] > mean[1] ? 2 : 1;
    if (together >= mean[k]) printf("together serves more: these limits need no split\n");
    else if (together > 0) printf("%s serves %.2f times as much as together\n", kind_name[k], mean[k] / together);
    else printf("only split devices keep these limits\n");
    if (j->svg) {
        size_t n;
        j->load.seed = seed;
        if (curves(ctx, j, most, y)) return failed(ctx);
        n = draw(picture, sizeof picture, j, most, y);
        if (n >= sizeof picture) return say("the picture is too large"), 1;
        if (tiny_file_write(ctx, j->svg, picture, n)) return failed(ctx);
    }
    return 0;
}

/* ---- placement */

static void part(const char *what, const tllm_dist_part *p, int n)
{
    const int tp = p->profile->tp ? p->profile->tp : 1, pp = p->pp ? p->pp : 1;
    printf("  %-8s %d instance%s of %d device%s: %d stage%s, layers shared by %d\n", what, n, n > 1 ? "s" : "", tp * pp,
           tp * pp > 1 ? "s" : "", pp, pp > 1 ? "s" : "", tp);
}
static int place(tiny_ctx *ctx, const job *j)
{
    const tllm_dist_limits limits = { 1e-3 * j->ttft, 1e-3 * j->tpot };
    const tllm_dist_model model = { 40, 40, 26e9 };
    tllm_dist_cluster cluster;
    tllm_dist_plan plan;
    memset(&cluster, 0, sizeof cluster);
    cluster.nodes = j->nodes;
    cluster.devices = j->devices;
    cluster.memory = 80e9;
    cluster.slow = j->slow;
    if (tllm_dist_place(ctx, &cluster, &model, j->profile, j->n_profile, NULL, &j->load, &limits, j->rate, &plan))
        return failed(ctx);
    printf("13 B model, 26 GB, devices of 80 GB; %d placements tried\nbest split %.2f, best together %.2f requests a "
           "second and device; for %g a second:\n", plan.tried, plan.split, plan.together, j->rate);
    if (plan.best.role == TLLM_DIST_TOGETHER) part("together", &plan.best.prefill, plan.prefills);
    else {
        part("prefill", &plan.best.prefill, plan.prefills);
        part("decode", &plan.best.decode, plan.decodes);
    }
    return 0;
}

static int queues(const job *j)
{
    const double d = 1e-3 * j->service;
    if (j->rate * d >= 1)
        printf("one device: %g requests a second of %g ms are more than it can do\n", j->rate, j->service);
    else printf("one device                       %8.1f ms\n", 1e3 * tllm_queue_single(d, j->rate));
    if (j->rate * d < 2) printf("two stages                       %8.1f ms\n", 1e3 * tllm_queue_pipeline(d, j->rate));
    if (j->rate * d < j->speedup)
        printf("two devices that share layers    %8.1f ms\n", 1e3 * tllm_queue_tensor(d, j->rate, j->speedup));
    return 0;
}

/* ---- times of this machine */

enum { MOST_TIMES = 64, STEPS = 8 };

/* n requests of `length` tokens: how long the step takes that reads them, and a step that continues (the median) */
static tiny_status measure_batch(tllm_engine *e, int n, int length, int32_t n_vocab, double *prompt, double *token)
{
    int32_t ids[512];
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
        for (k = 0; k < length; k++) ids[k] = (i * 7919 + k * 104729) % n_vocab;
        st = tllm_engine_submit(e, &r, NULL, error, sizeof error);
        if (st) say(error);
    }
    *prompt = 1e-6 * (double)tiny_now_ns();
    if (!st) st = tllm_engine_step(e, &more);
    *prompt = 1e-6 * (double)tiny_now_ns() - *prompt;
    for (i = 0; i < STEPS && !st && more; i++) {
        ms[i] = 1e-6 * (double)tiny_now_ns();
        st = tllm_engine_step(e, &more);
        ms[i] = 1e-6 * (double)tiny_now_ns() - ms[i];
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
/* times are not below 0: a number that the fit makes negative is noise, and becomes 0 */
static tiny_status fit(tiny_ctx *ctx, const double *rows, size_t n, double abc[3])
{
    double sum = 0;
    size_t i;
    int k;
    const tiny_status st = tllm_dist_fit(ctx, rows, n, abc);
    for (k = 1; k < 3 && !st; k++) if (!(abc[k] > 0)) abc[k] = 0;
    for (i = 0; i < n && !st; i++) sum += rows[3 * i + 2] - abc[1] * rows[3 * i] - abc[2] * rows[3 * i + 1];
    if (!st) abc[0] = sum > 0 ? sum / (double)n : 0;
    return st;
}
/* budget: a worker looks after its messages between pieces of prompts of so many tokens */
static tiny_status open_engine(tiny_ctx *ctx, const job *j, int slots, int forget, int budget, tllm_engine **e)
{
    tllm_engine_desc d;
    memset(&d, 0, sizeof d);
    d.slots = slots;
    d.forget = forget;
    d.exact = 1;
    d.budget = budget;
    return tllm_engine_open_file(ctx, j->model, &d, e);
}
static int measure(tiny_ctx *ctx, const job *j)
{
    static const int lengths[] = { 16, 32, 64, 128, 192, 256, 384, 512 }, batches[] = { 1, 2, 4, 8, 16 };
    static double prompts[3 * MOST_TIMES], tokens[3 * MOST_TIMES];
    tllm_engine *e = NULL;
    tllm_about about;
    double p = 0, t = 0, a[3], b[3];
    char text[400];
    int i, k, n, times = 0, most;
    tiny_status st = open_engine(ctx, j, 16, 1, 8192, &e);
    if (st) return failed(ctx);
    tllm_model_about(tllm_engine_model(e), &about);
    most = (int)tllm_engine_context(e) - STEPS - 2;
    for (i = 0; i < 8 && !st; i++)
        for (k = 0; k < 5 && !st; k++) {
            double *to = &prompts[3 * times], *to_token = &tokens[3 * times];
            if (lengths[i] > most || (k && lengths[i] * batches[k] > 1024)) continue;
            show_progress(NULL, "measuring", (i * 5 + k) / 40.0);
            n = batches[k];
            st = measure_batch(e, n, lengths[i], (int32_t)about.n_vocab, &p, &t);
            to[0] = (double)n * lengths[i];
            to[1] = (double)n * lengths[i] * lengths[i];
            to[2] = p;
            to_token[0] = n * (lengths[i] + STEPS / 2.0);       /* the mean while they are timed */
            to_token[1] = n;
            to_token[2] = t;
            times++;
        }
    end_progress();
    tllm_engine_close(e);
    if (!st && times < 4) return say("the context of this model is too short to be measured"), 1;
    if (!st) st = fit(ctx, prompts, (size_t)times, a);
    if (!st) st = fit(ctx, tokens, (size_t)times, b);
    if (st) return failed(ctx);
    n = snprintf(text, sizeof text, "1 %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g 95\n", a[0], a[1], a[2], b[0], b[1],
                 b[2], b[0], b[1], b[2]);
    if (!j->out) return fputs(text, stdout) < 0;
    return tiny_file_write(ctx, j->out, text, (size_t)n) ? failed(ctx) : 0;
}

/* ---- a desk and workers */

typedef struct served {
    int32_t *prompt, *got;
    size_t n_prompt, n_most, n;
    double at, first, done;
    int ended;
} served;
typedef struct serving { const job *j; int workers, prefills; } serving;

static double since(uint64_t start) { return 1e-9 * (double)(tiny_now_ns() - start); }
static int got_token(void *user, uint64_t id, size_t index, int32_t token)
{
    served *s = (served *)user;
    (void)id;
    if (index < s->n_most) s->got[index] = token;
    s->n = index + 1;
    return stopped_by != 0;
}
static void got_end(void *user, const tllm_desk_result *r)
{
    served *s = (served *)user;
    s->first = s->at + r->first_seconds;
    s->done = s->at + r->seconds;
    s->ended = r->status ? -1 : 1;
    if (r->status) fprintf(stderr, PROGRAM ": request %lu: %s\n", (unsigned long)r->id, r->error);
}
static tllm_desk_request ask(const job *j, served *s, int i)
{
    tllm_desk_request r;
    memset(&r, 0, sizeof r);
    r.prompt = s->prompt;
    r.n_prompt = s->n_prompt;
    r.n_most = s->n_most;
    r.seed = j->load.seed + (uint64_t)i;
    r.temperature = 0.8f;
    r.top_k = 40;
    r.past_end = 1;
    r.token = got_token;
    r.end = got_end;
    r.user = s;
    return r;
}

typedef struct compared { const served *s; size_t n, wrong, alike; } compared;  /* alike: before the first difference */
static int compare(void *user, const tllm_engine_token *t)
{
    compared *c = (compared *)user;
    c->wrong += t->index >= c->s->n || t->token != c->s->got[t->index];
    c->n = t->index + 1;
    if (!c->wrong) c->alike = c->n;
    return 0;
}
/* each text against that of one engine, alone; 1: one differs that must not */
static int check_texts(tiny_ctx *ctx, const job *j, served *s, int n)
{
    tllm_engine *e = NULL;
    int i, wrong = 0, more;
    size_t tokens = 0, alike = 0;
    tiny_status st = open_engine(ctx, j, 1, 1, 8192, &e);
    for (i = 0; i < n && !st; i++) {
        const tllm_desk_request of = ask(j, &s[i], i);
        compared c = { NULL, 0, 0, 0 };
        tllm_request r;
        tllm_step step[3];
        c.s = &s[i];
        memset(&r, 0, sizeof r);
        r.prompt = of.prompt;
        r.n_prompt = of.n_prompt;
        r.n_most = of.n_most;
        r.seed = of.seed;
        r.past_end = 1;
        r.n_steps = tllm_desk_chain(&of, step);
        r.chain = step;
        r.token = compare;
        r.user = &c;
        st = tllm_engine_submit(e, &r, NULL, NULL, 0);
        for (more = 1; !st && more;) st = tllm_engine_step(e, &more);
        wrong += c.wrong || c.n != s[i].n;
        tokens += c.n;
        alike += c.alike;
        show_progress(NULL, "checking", (double)i / n);
    }
    end_progress();
    tllm_engine_close(e);
    if (st) return failed(ctx);
    if (j->codec && wrong)
        printf("compared with one engine: %d of %d texts differ; %.1f %% of the tokens are before the first "
               "difference\n", wrong, n, 100.0 * (double)alike / (double)(tokens ? tokens : 1));
    else printf("compared with one engine: %s\n", wrong ? "TEXTS DIFFER" : "the same");
    return wrong && !j->codec;
}

static tiny_status serve(tiny_ctx *ctx, const serving *v, tllm_desk *desk, served *s, tllm_dist_request *r,
                         tllm_dist_time *t)
{
    const job *j = v->j;
    const int n = j->load.n;
    const uint64_t start = tiny_now_ns();
    tllm_dist_score score;
    int i, sent = 0, ended = 0, more = 1, bad = 0;
    tiny_status st = TINY_OK;
    while (!st && (sent < n || more)) {
        while (sent < n && !st && r[sent].arrival <= since(start)) {
            const tllm_desk_request one = ask(j, &s[sent], sent);
            s[sent].at = since(start);
            st = tllm_desk_submit(desk, &one, NULL);
            sent++;
        }
        if (!st) st = tllm_desk_step(desk, &more);
        for (i = ended = 0; i < n; i++) ended += s[i].ended != 0;
        show_progress(NULL, "serving", (double)ended / n);
        if (stopped_by) st = TINY_E_CANCELLED;
    }
    end_progress();
    for (i = 0; i < n && !st; i++) {
        bad += s[i].ended < 0;
        t[i].first = s[i].first + r[i].arrival - s[i].at;
        t[i].done = s[i].done + r[i].arrival - s[i].at;
        r[i].output = (int)s[i].n;
    }
    if (st || bad) return st ? st : TINY_E_IO;
    st = tllm_dist_score_of(ctx, r, t, (size_t)n, &score);
    if (!st)
        printf("%d requests, %g a second, %d worker%s %s: %.1f s\nnine of ten: first token within %.1f ms, a further "
               "one within %.1f ms\n", n, j->rate, v->workers, v->workers > 1 ? "s" : "",
               v->prefills < v->workers ? "split" : "together", since(start), 1e3 * score.ttft, 1e3 * score.tpot);
    return st;
}

static tiny_status run_desk(tiny_ctx *ctx, const serving *v, const tllm_hand_link *link)
{
    const job *j = v->j;
    const int n = j->load.n;
    served *s = (served *)need(calloc((size_t)n, sizeof *s));
    tllm_dist_request *r = (tllm_dist_request *)need(calloc((size_t)n, sizeof *r));
    tllm_dist_time *t = (tllm_dist_time *)need(calloc((size_t)n, sizeof *t));
    tllm_dist_load load = j->load;
    tllm_desk_desc d;
    tllm_desk *desk = NULL;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    tiny_rng rng;
    int role[WORLD_MOST], i, context;
    size_t k;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&about, 0, sizeof about);
    for (i = 0; i < v->workers; i++)
        role[i] = v->prefills >= v->workers ? TLLM_HAND_BOTH : i < v->prefills ? TLLM_HAND_PREFILL : TLLM_HAND_DECODE;
    d.worker = link;
    d.role = role;
    d.n_worker = v->workers;
    d.codec = j->codec;
    st = tllm_desk_open(ctx, &d, &desk);
    if (!st) st = tllm_file_open(ctx, j->model, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) tllm_model_about(model, &about);
    context = about.n_context < 4096 ? (int)about.n_context : 4096;
    if (!st && (load.prompt ? load.prompt : 512) + (load.output ? load.output : 64) > context) {
        fprintf(stderr, PROGRAM ": the model has a context of %d: shorter --prompt and --output\n", context);
        st = TINY_E_ARGUMENT;
    }
    load.output_most = load.output ? 2 * load.output : 128;
    if (load.output_most > context / 2) load.output_most = context / 2;
    load.prompt_most = context - load.output_most;
    if (!st && (load.prompt ? load.prompt : 512) > load.prompt_most) {
        load.prompt_most = context - (load.output ? load.output : 64);
        load.output_most = context - load.prompt_most;
    }
    if (!st) st = tllm_dist_requests(ctx, &load, j->rate, r);
    rng = tiny_rng_make(load.seed, 7);
    for (i = 0; i < n && !st; i++) {
        s[i].n_prompt = (size_t)r[i].prompt;
        s[i].n_most = (size_t)r[i].output;
        s[i].prompt = (int32_t *)need(calloc(s[i].n_prompt, sizeof *s[i].prompt));
        s[i].got = (int32_t *)need(calloc(s[i].n_most, sizeof *s[i].got));
        for (k = 0; k < s[i].n_prompt; k++)
            s[i].prompt[k] = (int32_t)tiny_rng_below(&rng, (uint32_t)about.n_vocab);
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    if (!st) st = serve(ctx, v, desk, s, r, t);
    tllm_desk_close(desk);
    if (!st && j->n_profile) {              /* what the simulation says of the same requests */
        tllm_dist_config c = config(j, v->prefills, v->workers - v->prefills);
        tllm_dist_score score;
        c.kv_bytes = 0;
        c.prompt_tokens = 256;
        st = tllm_dist_simulate(ctx, &c, r, (size_t)n, t, NULL);
        if (!st) st = tllm_dist_score_of(ctx, r, t, (size_t)n, &score);
        if (!st) printf("simulated:   first token within %.1f ms, a further one within %.1f ms\n", 1e3 * score.ttft,
                        1e3 * score.tpot);
    }
    if (!st && j->check && check_texts(ctx, j, s, n)) st = TINY_E_IO;
    for (i = 0; i < n; i++) {
        free(s[i].prompt);
        free(s[i].got);
    }
    free(s);
    free(r);
    free(t);
    return st;
}
static tiny_status run_worker(tiny_ctx *ctx, const serving *v, const tllm_hand_link *link, tiny_net *net)
{
    tllm_hand_desc d;
    tllm_hand_counters c;
    tllm_engine *e = NULL;
    tllm_hand *h = NULL;
    tllm_kvcodec_tables *tables = NULL;
    tiny_status st = open_engine(ctx, v->j, v->j->slots, 0, v->prefills < v->workers ? 64 : 256, &e);
    memset(&d, 0, sizeof d);
    d.engine = e;
    d.desk.net = net;
    d.peer = link;
    d.n_peer = v->workers;
    d.me = net->rank - 1;
    if (!st && v->j->tables) st = tllm_kvcodec_tables_load(ctx, v->j->tables, &tables);
    d.tables = tables;
    if (!st) st = tllm_hand_open(ctx, &d, &h);
    if (!st) st = tllm_hand_run(h);
    tllm_hand_count(h, &c);
    if (!st) {
        printf("worker %d: read %lu, did %lu alone, took %lu (%.3f MB of keys and values", d.me,
               (unsigned long)c.reads, (unsigned long)c.wholes, (unsigned long)c.pulled, 1e-6 * (double)c.pulled_bytes);
        if (c.coded) printf("; %lu coded, %.3f MB without", (unsigned long)c.coded, 1e-6 * (double)c.plain_bytes);
        fputs(")", stdout);
        if (c.coded + c.gave_coded)
            printf(", %.2f ms of the codec for each", 1e3 * c.codec_seconds / (double)(c.coded + c.gave_coded));
        puts("");
        (void)fflush(stdout);
    }
    tllm_hand_close(h);
    tllm_engine_close(e);
    tllm_kvcodec_tables_close(ctx, tables);
    return st;
}
static tiny_status run_rank(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    serving v = *(const serving *)arg;
    tllm_hand_link link[WORLD_MOST];
    int i;
    memset(link, 0, sizeof link);
    v.workers = net->world - 1;
    if (v.workers < 1) return say("a desk and at least one worker are needed: two ranks or more"), TINY_E_ARGUMENT;
    if (v.prefills > v.workers) v.prefills = v.workers;
    for (i = 0; i < v.workers; i++) {
        link[i].net = net;
        link[i].rank = i + 1;
    }
    return net->rank ? run_worker(ctx, &v, link, net) : run_desk(ctx, &v, link);
}
static int run(const job *j)
{
    world w = { 3, 0, 0, 0 };
    serving v;
    memset(&v, 0, sizeof v);
    v.j = j;
    w.ranks = j->ranks ? j->ranks : 1 + j->prefills + j->decodes;
    w.tcp = j->tcp;
    v.prefills = !j->decodes ? WORLD_MOST : j->ranks ? (j->ranks - 1) / 2 : j->prefills;
    if (v.prefills < 1) v.prefills = 1;
    if (w.ranks > WORLD_MOST) return say("at most 16 ranks: a desk and 15 workers"), 2;
    return world_run(&w, run_rank, &v);
}

int main(int argc, char **argv)
{
    static job j = { 10, 50, 1.6, 0, 400, 40, 1, 1, 3, 1, 4, 0, 0, NULL, NULL, { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0,
                     { { 0, { 0 }, { { 0 } }, 0, 0 } }, NULL, NULL, 8, 0, 0, 0, 0, NULL };
    int command = 0, bad;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    const option options[] = { A_COMMAND("queue simulate goodput place measure run", &command),
                               A_WORD("MODEL", &j.model),
                               A_NUMBER("qspr --rate", &j.rate, 1e-6, 1e6),
                               A_NUMBER("q --service", &j.service, 1e-6, 1e6),
                               A_NUMBER("q --speedup", &j.speedup, 1e-3, 1e3),
                               A_TEXT("sgpr --profile", &j.profile_file),
                               A_WHOLE("sr --prefills", &j.prefills, 1, 4096),
                               A_WHOLE("sr --decodes", &j.decodes, 0, 4096),
                               A_NUMBER("s --link", &j.link, 0, 1e6),
                               A_WHOLE("sgpr --requests", &j.load.n, 10, 1e6),
                               A_SEED("sgpr --seed", &j.load.seed),
                               A_WHOLE("g --seeds", &j.seeds, 1, 100),
                               A_NUMBER("sgpr --cv", &j.load.cv, 0, 100),
                               A_WHOLE("sgpr --prompt", &j.load.prompt, 1, 1e6),
                               A_WHOLE("sgpr --output", &j.load.output, 1, 1e6),
                               A_NUMBER("sgpr --spread", &j.spread, 0, 10),
                               A_NUMBER("sgp --ttft", &j.ttft, 1e-3, 1e9),
                               A_NUMBER("sgp --tpot", &j.tpot, 1e-3, 1e9),
                               A_WHOLE("p --nodes", &j.nodes, 1, 64),
                               A_WHOLE("p --devices", &j.devices, 1, 64),
                               A_FLAG("p --slow", &j.slow),
                               A_TEXT("g --svg", &j.svg),
                               A_TEXT("m -o", &j.out),
                               A_WHOLE("r --slots", &j.slots, 1, 256),
                               A_FLAG("r --tcp", &j.tcp),
                               A_WHOLE("r --ranks", &j.ranks, 2, WORLD_MOST),
                               A_FLAG("r --check", &j.check),
                               A_WHOLE("r --codec", &j.codec, 1, TLLM_KVCODEC_LEVELS),
                               A_TEXT("r --tables", &j.tables) };
    j.load.n = 500;
    READ_OPTIONS(argc, argv, usage, options);
    if (command < 4 && j.model) return wrong(j.model, "only measure and run read a model");
    if (command >= 4 && !j.model) return refused("which model? measure and run need a GGUF file");
    if (j.tables && !j.codec) return wrong(j.tables, "tables are for --codec");
    if (j.out && must_not_write(j.out, 1, j.model)) return 2;
    if (j.svg && must_not_write(j.svg, 1, j.profile_file)) return 2;
    j.load.prompt_spread = j.load.output_spread = j.spread;
    if (j.profile_file && !read_profiles(&j)) return 1;
    if (command == 5) return exit_status(run(&j));
    if (!j.profile_file) own_profiles(&j);
    if (!command) return exit_status(queues(&j));
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    desc.n_threads = command == 4;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    bad = command == 1 ? simulate(ctx, &j)
        : command == 2 ? goodput(ctx, &j)
        : command == 3 ? place(ctx, &j)
                       : measure(ctx, &j);
    tiny_ctx_close(ctx);
    return exit_status(bad);
}
