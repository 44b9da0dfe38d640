/* examples/easyspec.c - a draft over several ranks, whose layers are computed side by side
 *
 *     easyspec MODEL.gguf "Once upon a time" --draft small.gguf --group 2 --ranks 2
 *     easyspec MODEL.gguf --draft small.gguf --measure --held 1000 --ms 0.2
 *
 * Rank 0 has the model and writes the text. All ranks have the draft, and each computes its share of the attention
 * layers of a group. The text is that of the model alone. --measure compares one step of the draft on one rank, on all
 * ranks side by side, and on all ranks by tensor parallelism. */
#define TINYLLM_WITH_EASYSPEC
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "easyspec"
#include "options.h"
#include "world.h"

static const char usage[] =
    "easyspec MODEL [PROMPT] --draft FILE [options]\n"
    "  --draft FILE   a smaller model with the same vocabulary\n"
    "  --group N      layers of a group, 1 to 32; default: 2; 1: one after the other\n"
    "  --split        the ranks share the networks of the layers too, with one more sum for each of them\n"
    "  --no-calibrate keep approximate keys and values in the draft's cache: fewer proposals are kept\n"
    "  --n N          tokens of the text; default: 64\n"
    "  --propose N    tokens that the draft proposes at once, 1 to 32; default: 4\n"
    "  --check        compare with the text of the model alone and with a draft in one process; status 1 if not the "
    "same\n"
    "  --measure      time a step of the draft in three ways instead of writing a text\n"
    "  --held N       tokens that the draft holds during --measure; default: 100\n"
    "  --steps N      steps that --measure takes the median of; default: 41\n" WORLD_USAGE;

enum { MOST_STEPS = 1001 };
static world w = { 2, 0, 0, 0 };
static struct {
    const char *path, *prompt, *draft;
    int group, split, no_calibrate, n, propose, check, measure, held, steps, differs;
} run = { NULL, NULL, NULL, 2, 0, 0, 64, 4, 0, 0, 100, 41, 0 };

static tiny_status session_of(tiny_ctx *ctx, const char *path, tiny_idx n_ctx, tllm_session **s)
{
    tllm_state_desc d;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.n_batch = 64;
    d.exact = run.check;
    return tllm_session_open(ctx, path, &d, s);
}

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return (n && fwrite(text, 1, n, stdout) != n) || fflush(stdout);
}

/* the text with a draft (or without: NULL); its tokens are those of the session */
static tiny_status write_text(tllm_session *s, tllm_session *draft, int prints, tllm_draft_counts *c,
                              tllm_generate_result *r)
{
    tllm_generate_desc g;
    tllm_draft_desc d;
    tiny_status st = tllm_session_set(s, NULL, 0, NULL, NULL);
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    d.model = draft;
    d.n = run.propose;
    d.always = 1;
    g.n_most = (size_t)run.n;
    g.past_end = 1;
    g.text = prints ? print : NULL;
    if (!st && draft) st = tllm_draft_open(s, &d, &g.draft);
    if (!st) st = tllm_generate(s, run.prompt, strlen(run.prompt), &g, r);
    tllm_draft_count(g.draft, c);
    tllm_draft_close(g.draft);
    return st;
}

/* rank 0, --check: the same text without ranks, and the same proposals kept */
static tiny_status check(tiny_ctx *ctx, tllm_session *s, const tllm_draft_counts *kept)
{
    tllm_session *alone = NULL, *draft = NULL;
    tllm_easyspec_desc d;
    tllm_easyspec *e = NULL;
    tllm_draft_counts c;
    tllm_generate_result r;
    size_t n = 0, n_plain = 0;
    tiny_status st = session_of(ctx, run.path, 0, &alone);
    memset(&d, 0, sizeof d);
    d.n = run.group;
    d.no_calibration = run.no_calibrate;
    if (!st) st = write_text(alone, NULL, 0, &c, &r);
    if (!st) {
        const int32_t *a = tllm_session_tokens(s, &n), *b = tllm_session_tokens(alone, &n_plain);
        run.differs = n != n_plain || memcmp(a, b, n * sizeof *a) != 0;
        printf("text without a draft: %s\n", run.differs ? "another one" : "the same");
    }
    if (!st) st = session_of(ctx, run.draft, tllm_session_context(s), &draft);
    if (!st) st = tllm_easyspec_open(draft, &d, &e);
    if (!st) st = write_text(alone, draft, 0, &c, &r);
    if (!st && !run.split) {                /* shares of networks round differently: other proposals are possible */
        const int other = c.kept != kept->kept || c.proposed != kept->proposed;
        printf("proposals kept in one process: %s\n", other ? "others" : "the same");
        run.differs |= other;
    }
    tllm_easyspec_close(e);
    tllm_session_close(draft);
    tllm_session_close(alone);
    return st;
}

static tiny_status text_body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    tllm_session *s = NULL, *m = NULL;
    tllm_easyspec_desc d;
    tllm_easyspec *e = NULL;
    tllm_easyspec_counts f;
    tllm_draft_counts c;
    tllm_generate_result r;
    tiny_status st = TINY_OK;
    (void)arg;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    d.n = run.group;
    d.mode = run.split ? TLLM_EASYSPEC_SPLIT : TLLM_EASYSPEC_REPEAT;
    d.no_calibration = run.no_calibrate;
    d.net = net;
    if (!net->rank) st = session_of(ctx, run.path, 0, &s);
    if (!st) st = session_of(ctx, run.draft, 0, &m);
    if (!st) st = tllm_easyspec_open(m, &d, &e);
    if (net->rank) {
        if (!st) st = tllm_easyspec_follow(e);
    } else if (!st) {
        st = write_text(s, m, 1, &c, &r);
        tllm_easyspec_count(e, &f);
        if (!st)
            printf("\n%llu of %llu proposals kept, %.2f tokens a pass, %.1f tokens a second; draft: %llu exact and "
                   "%llu fuzzy passes, %.3f ms a proposal; %llu commands, %llu gathers, %llu sums\n",
                   (unsigned long long)c.kept, (unsigned long long)c.proposed,
                   (double)(c.kept + c.passes) / (double)(c.passes + !c.passes),
                   (double)r.n_made / (r.made_seconds + 1e-9), (unsigned long long)f.exact, (unsigned long long)f.fuzzy,
                   1e3 * c.draft_seconds / (double)(c.proposed + !c.proposed), (unsigned long long)f.commands,
                   (unsigned long long)f.gathers, (unsigned long long)f.sums);
    }
    tllm_easyspec_close(e);                 /* the others end */
    if (!st && !net->rank && run.check) st = check(ctx, s, &c);
    tllm_session_close(m);
    tllm_session_close(s);
    return st;
}

/* ---- --measure ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* milliseconds of a step of one token after run.held others */
static tiny_status steps_of(tllm_session *m, tllm_easyspec *e, double *ms)
{
    static const int32_t token = 5;
    double t[MOST_STEPS];
    int i;
    tiny_status st = TINY_OK;
    if (e) (void)tllm_easyspec_fuzzy(e, 1);
    for (i = 0; i < run.steps && !st; i++) {
        const float *logits;
        const uint64_t from = tiny_now_ns();
        st = tllm_session_feed(m, &token, 1, &logits);
        t[i] = 1e-6 * (double)(tiny_now_ns() - from);
        if (!st) st = tllm_session_trim(m, (size_t)run.held);
    }
    if (e) (void)tllm_easyspec_fuzzy(e, 0);
    *ms = median(t, run.steps);
    return st;
}

/* the same by tensor parallelism: all ranks call it */
static tiny_status cut_steps(tiny_ctx *ctx, tiny_net *net, const int32_t *held, double *ms)
{
    static const int32_t token = 5;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tiny_comm *comm = NULL;
    tiny_comm_desc cd;
    tllm_state_desc sd;
    tllm_about about;
    float *logits = NULL;
    double t[MOST_STEPS];
    int i;
    tiny_status st;
    memset(&cd, 0, sizeof cd);
    memset(&sd, 0, sizeof sd);
    cd.net = net;
    cd.timeout_ns = UINT64_C(60000000000);
    st = tllm_file_open(ctx, run.draft, &file);
    if (!st) st = tllm_model_open(ctx, file, &model);
    tllm_model_about(model, &about);
    cd.n_most = st ? 1 : (size_t)(64 * about.n_embd);
    if (!st) st = tiny_comm_open(ctx, &cd, &comm);
    if (!st) st = tllm_model_cut(ctx, model, net->rank, net->world);
    sd.comm = comm;
    sd.n_batch = 64;
    sd.n_ctx = run.held + 2;
    if (!st) st = tllm_state_open(ctx, model, &sd, &state);
    if (!st && !(logits = (float *)malloc((size_t)about.n_out * sizeof *logits))) st = TINY_E_MEMORY;
    if (!st) st = tllm_forward(state, held, run.held, 0, 0, NULL);
    for (i = 0; i < run.steps && !st; i++) {
        const uint64_t from = tiny_now_ns();
        st = tllm_forward(state, &token, 1, run.held, 1, logits);
        t[i] = 1e-6 * (double)(tiny_now_ns() - from);
        if (!st) st = tllm_state_trim(state, run.held);
    }
    if (!st) *ms = median(t, run.steps);
    free(logits);
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    tiny_comm_close(comm);
    return st;
}

static tiny_status measure_body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    tllm_session *m = NULL;
    tllm_easyspec_desc d;
    tllm_easyspec *e = NULL;
    tllm_about about;
    double exact = 0, fuzzy = 0, cut = 0;
    int32_t *held = (int32_t *)malloc((size_t)run.held * sizeof *held);
    int i;
    tiny_status st = held ? session_of(ctx, run.draft, run.held + 2, &m) : TINY_E_MEMORY;
    (void)arg;
    memset(&d, 0, sizeof d);
    d.n = run.group;
    d.mode = run.split ? TLLM_EASYSPEC_SPLIT : TLLM_EASYSPEC_REPEAT;
    d.net = net;
    for (i = 0; held && i < run.held; i++) held[i] = 260 + i * 37 % 200;
    if (!st) tllm_model_about(tllm_session_model(m), &about);
    if (!st && !net->rank) st = tllm_session_feed(m, held, (size_t)run.held, NULL);
    if (!st && !net->rank) st = steps_of(m, NULL, &exact);
    if (!st && !net->rank) st = tllm_session_set(m, NULL, 0, NULL, NULL);
    if (!st) st = tllm_easyspec_open(m, &d, &e);
    if (!st && net->rank) st = tllm_easyspec_follow(e);
    if (!st && !net->rank) st = tllm_session_feed(m, held, (size_t)run.held, NULL);
    if (!st && !net->rank) st = steps_of(m, e, &fuzzy);
    tllm_easyspec_close(e);
    if (!st) st = cut_steps(ctx, net, held, &cut);
    if (!st && !net->rank)
        printf("%d layers, groups of %d, %d ranks, %d tokens held, link %.3g ms: a step takes %.3f ms on one rank, "
               "%.3f ms side by side, %.3f ms by tensor parallelism\n",
               (int)about.n_layer, run.group, net->world, run.held, w.ms, exact, fuzzy, cut);
    tllm_session_close(m);
    free(held);
    return st;
}

int main(int argc, char **argv)
{
    const option options[] = { THE_WORD("model", &run.path),
                               A_WORD("prompt", &run.prompt),
                               A_TEXT("--draft", &run.draft),
                               A_WHOLE("--group", &run.group, 1, TLLM_EASYSPEC_GROUP),
                               A_FLAG("--split", &run.split),
                               A_FLAG("--no-calibrate", &run.no_calibrate),
                               A_WHOLE("--n", &run.n, 1, 1e6),
                               A_WHOLE("--propose", &run.propose, 1, TLLM_DRAFT_TOKENS),
                               A_FLAG("--check", &run.check),
                               A_FLAG("--measure", &run.measure),
                               A_WHOLE("--held", &run.held, 1, 1e6),
                               A_WHOLE("--steps", &run.steps, 1, MOST_STEPS),
                               WORLD_OPTIONS(w) };
    int status;
    READ_OPTIONS(argc, argv, usage, options);
    if (!run.prompt) run.prompt = "Once upon a time";
    if (!run.draft) return refused("--draft FILE is missing: a model whose layers are computed side by side");
    if (run.check && run.measure) return wrong("--check and --measure", "one of them");
    status = world_run(&w, run.measure ? measure_body : text_body, NULL);
    return exit_status(status || run.differs);
}
