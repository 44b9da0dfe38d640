/* examples/distserve.c - should prompts and tokens run on devices of their own? Simulates it, without a model
 *
 *     distserve queue --service 50 --rate 10           three queues by formula
 *     distserve simulate --prefills 1 --decodes 1      one configuration: times to first tokens and between tokens
 *     distserve goodput --tpot 40 --svg curves.svg     how much two devices together and split ones serve
 *     distserve place --nodes 2 --devices 4            the best placement of a model on a cluster
 *
 * Times come from a profile of a device. The built-in one is of a 13 B model on one A100. For tp devices that share
 * each layer it assumes 1.7 times the speed for each doubling. --profile FILE replaces it: a line for each tp with 11
 * numbers, tp, a b c of prompts, a b c of tokens in small and in large batches (milliseconds), the threshold between
 * these. */
#define TINYLLM_WITH_DISTSERVE
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#define PROGRAM "distserve"
#include "options.h"

static const char usage[] =
    "distserve queue | simulate | goodput | place [options]\n"
    "  queue          mean times of three queues by formula: one device, two stages, two devices that share layers\n"
    "  simulate       one configuration at one rate\n"
    "  goodput        the highest rates of 2 devices together, 1 + 1 split and 2 + 1 split within the limits\n"
    "  place          the best placement on a cluster, split or together\n"
    "  --rate X       requests a second; default: 10\n"
    "  --service X    queue: milliseconds of a request; default: 50\n"
    "  --speedup X    queue: of two devices that share layers; default: 1.6\n"
    "  --profile FILE times of a device, 11 numbers a line; default: a 13 B model on one A100\n"
    "  --prefills N   simulate: instances that read prompts; default: 1\n"
    "  --decodes N    simulate: instances that continue texts; 0: the prefills do both; default: 1\n"
    "  --link X       simulate: gigabytes of keys and values that an instance fetches in a second; default: no limit\n"
    "  --requests N   of a simulation; default: 500\n"
    "  --seed N       of the requests; default: 0\n"
    "  --seeds N      goodput: so many seeds from --seed on, with their spread; default: 3\n"
    "  --cv X         deviation over mean of the time between requests; default: 1, by chance\n"
    "  --prompt N     median of prompts in tokens; default: 512\n"
    "  --output N     median of outputs in tokens; default: 64\n"
    "  --spread X     sigma of both lengths, log-normal; default: 0, all the same\n"
    "  --ttft X       limit of the time to the first token, milliseconds, for nine of ten; default: 400\n"
    "  --tpot X       limit of the time of each further token, milliseconds, for nine of ten; default: 40\n"
    "  --nodes N      place: default: 1\n"
    "  --devices N    place: of a node; default: 4\n"
    "  --slow         place: keys and values may only travel inside a node\n"
    "  --svg FILE     goodput: draws the time of a token over the rate\n";

enum { KINDS = 3, POINTS = 24, PROFILES = 8 };
static const char *const kind_name[KINDS] = { "2 together", "1 + 1 split", "2 + 1 split" };
typedef struct job {
    double rate, service, speedup, link, ttft, tpot;
    int prefills, decodes, seeds, nodes, devices, slow, n_profile;
    const char *profile_file, *svg;
    tllm_dist_load load;
    double spread;
    tllm_dist_profile profile[PROFILES];
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
        printf("%8.1f  %-*s %d\n", 1e3 * high * (k + 1) / 12, 50, "##################################################" +
               50 - 50 * count[k] / most, count[k]);
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

int main(int argc, char **argv)
{
    static job j = { 10, 50, 1.6, 0, 400, 40, 1, 1, 3, 1, 4, 0, 0, NULL, NULL, { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0,
                     { { 0, { 0 }, { { 0 } }, 0, 0 } } };
    int command = 0, bad;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    const option options[] = { A_COMMAND("queue simulate goodput place", &command),
                               A_NUMBER("qsp --rate", &j.rate, 1e-6, 1e6),
                               A_NUMBER("q --service", &j.service, 1e-6, 1e6),
                               A_NUMBER("q --speedup", &j.speedup, 1e-3, 1e3),
                               A_TEXT("sgp --profile", &j.profile_file),
                               A_WHOLE("s --prefills", &j.prefills, 1, 4096),
                               A_WHOLE("s --decodes", &j.decodes, 0, 4096),
                               A_NUMBER("s --link", &j.link, 0, 1e6),
                               A_WHOLE("sgp --requests", &j.load.n, 10, 1e6),
                               A_SEED("sgp --seed", &j.load.seed),
                               A_WHOLE("g --seeds", &j.seeds, 1, 100),
                               A_NUMBER("sgp --cv", &j.load.cv, 0, 100),
                               A_WHOLE("sgp --prompt", &j.load.prompt, 1, 1e6),
                               A_WHOLE("sgp --output", &j.load.output, 1, 1e6),
                               A_NUMBER("sgp --spread", &j.spread, 0, 10),
                               A_NUMBER("sgp --ttft", &j.ttft, 1e-3, 1e9),
                               A_NUMBER("sgp --tpot", &j.tpot, 1e-3, 1e9),
                               A_WHOLE("p --nodes", &j.nodes, 1, 64),
                               A_WHOLE("p --devices", &j.devices, 1, 64),
                               A_FLAG("p --slow", &j.slow),
                               A_TEXT("g --svg", &j.svg) };
    j.load.n = 500;
    READ_OPTIONS(argc, argv, usage, options);
    if (j.svg && must_not_write(j.svg, 1, j.profile_file)) return 2;
    j.load.prompt_spread = j.load.output_spread = j.spread;
    if (j.profile_file && !read_profiles(&j)) return 1;
    if (!j.profile_file) own_profiles(&j);
    if (!command) return exit_status(queues(&j));
    memset(&desc, 0, sizeof desc);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    bad = command == 1 ? simulate(ctx, &j) : command == 2 ? goodput(ctx, &j) : place(ctx, &j);
    tiny_ctx_close(ctx);
    return exit_status(bad);
}
