/* bench/llm/serve.c - 32 requests that arrive at random: an engine against one after another and static batches
 *
 * Arrivals are a Poisson process, four times as fast as the machine can serve one after another; answers have 16 to 256
 * tokens, uniform, after prompts of 8. Rivals in the same run, in turns, on the same arrivals: an engine with one slot
 * (one after another), and batches of 8 of which the next begins when the longest of the last has ended. That rival is
 * kind: a request that has ended is no longer computed, and its latency ends with its own last token. Time passes
 * between arrivals only as far as there is nothing to do. The limit is the same number of steps of a full batch, with
 * nothing that waits.
 *
 * Models: examples/models/story.gguf, and random ones if they are there:
 *     build/make-model --shape 15M --type Q8_0 build/15M-Q8_0.gguf
 *     build/make-model --shape 110M --type Q4_0 build/110M-Q4_0.gguf */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REQUESTS = 32, PROMPT = 8, SHORTEST = 16, LONGEST = 256, ROUNDS = 5 };
typedef enum bs_way { BS_ONE, BS_STATIC, BS_ENGINE, BS_WINDOW, BS_HOLES, BS_EXACT, BS_WAYS } bs_way;
static const char *const bs_name[BS_WAYS] = { "one after another", "static batches of 8", "engine, pages",
                                              "engine, window", "engine, window with holes", "engine, exact" };

typedef struct bs_request { double arrives, ends; int32_t prompt[PROMPT]; size_t n; int ended; } bs_request;
typedef struct bs_run { double seconds, latency, tokens, rows, useful, moves, moved; } bs_run;
static double bs_skipped;                   /* idle time that was not waited for */
static double bs_now(void) { return b_now() + bs_skipped; }

static void bs_end(void *user, const tllm_engine_result *r)
{
    bs_request *q = (bs_request *)user;
    (void)r;
    q->ends = bs_now();
    q->ended = 1;
}

static bs_run bs_serve(tiny_ctx *ctx, const tllm_model *m, const tllm_vocab *v, bs_way way, double gap)
{
    static bs_request q[REQUESTS];
    tllm_engine_counters c;
    tllm_engine_desc d;
    tllm_engine *e = NULL;
    tllm_about about;
    tiny_rng rng = tiny_rng_make(11, 0);
    bs_run r;
    double at = 0.0, start;
    int i, j, sent = 0, done, more = 0;
    tllm_model_about(m, &about);
    memset(q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    for (i = 0; i < REQUESTS; i++) {
        at -= gap * log(1.0 - tiny_rng_uniform64(&rng));
        q[i].arrives = at;
        q[i].n = SHORTEST + tiny_rng_below(&rng, LONGEST - SHORTEST + 1);
        r.tokens += (double)q[i].n;
        for (j = 0; j < PROMPT; j++) q[i].prompt[j] = (int32_t)(3 + tiny_rng_below(&rng, (uint32_t)about.n_vocab - 3));
    }
    memset(&d, 0, sizeof d);
    d.slots = way == BS_ONE ? 1 : way == BS_STATIC ? 8 : 16;
    d.context = PROMPT + LONGEST + 8;
    d.mode = way == BS_WINDOW || way == BS_HOLES ? TLLM_ENGINE_WINDOW : TLLM_ENGINE_PAGED;
    d.holes = way == BS_HOLES;
    d.exact = way == BS_EXACT;
    d.forget = 1;
    b_must(ctx, tllm_engine_open(ctx, m, v, &d, &e));
    bs_skipped = 0.0;
    start = bs_now();
    for (done = 0; done < REQUESTS;) {
        int ready;
        for (ready = sent; ready < REQUESTS && q[ready].arrives <= bs_now() - start; ready++) {}
        /* a static batch begins when the last one has ended, with what has arrived */
        if (way != BS_STATIC || !more)
            for (j = 0; sent < ready && (way != BS_STATIC || j < 8); sent++, j++) {
                tllm_request t;
                memset(&t, 0, sizeof t);
                t.prompt = q[sent].prompt;
                t.n_prompt = PROMPT;
                t.n_most = q[sent].n;
                t.past_end = 1;
                t.end = bs_end;
                t.user = &q[sent];
                b_must(ctx, tllm_engine_submit(e, &t, NULL, NULL, 0));
                more = 1;
            }
        if (more) b_must(ctx, tllm_engine_step(e, &more));
        else if (sent < REQUESTS) bs_skipped += q[sent].arrives - (bs_now() - start) + 1e-9;
        for (i = done = 0; i < REQUESTS; i++) done += q[i].ended;
    }
    r.seconds = bs_now() - start;
    for (i = 0; i < REQUESTS; i++) r.latency += (q[i].ends - start - q[i].arrives) / REQUESTS;
    tllm_engine_count(e, &c);
    r.rows = (double)c.rows;
    r.useful = (double)c.rows_useful;
    r.moves = (double)c.moves;
    r.moved = (double)c.bytes_moved;
    tllm_engine_close(e);
    return r;
}

static double bs_median(double *x, int n)
{
    int i, j;
    for (i = 1; i < n; i++)
        for (j = i; j > 0 && x[j - 1] > x[j]; j--) {
            const double t = x[j];
            x[j] = x[j - 1];
            x[j - 1] = t;
        }
    return x[n / 2];
}

/* seconds of a step of n rows at position 100 */
static double bs_step(tiny_ctx *ctx, const tllm_model *m, int n, float *out)
{
    tllm_state_desc d;
    tllm_state *s = NULL;
    tllm_item item[16 * 100];
    double t[9];
    int i, k, at = 0;
    memset(&d, 0, sizeof d);
    d.n_ctx = 160;
    d.n_seq = n;
    b_must(ctx, tllm_state_open(ctx, m, &d, &s));
    for (k = 0; k < n; k++)
        for (i = 0; i < 100; i++, at++) {
            item[at].token = 5 + i;
            item[at].seq = k;
            item[at].pos = i;
            item[at].want = 0;
        }
    b_must(ctx, tllm_forward_batch(s, item, at, NULL));
    for (i = 0; i < 9; i++) {
        for (k = 0; k < n; k++) {
            item[k].token = 5 + k + i;
            item[k].seq = k;
            item[k].pos = -1;
            item[k].want = 1;
        }
        t[i] = b_now();
        b_must(ctx, tllm_forward_batch(s, item, n, out));
        t[i] = b_now() - t[i];
    }
    tllm_state_close(ctx, s);
    return bs_median(t, 9);
}

static void bs_model(const char *path, const char *name, const char *headline)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    tllm_gguf *g = NULL;
    tllm_model *m = NULL;
    tllm_vocab *v = NULL;
    tllm_about about;
    float *out;
    double seconds[BS_WAYS][ROUNDS], latency[BS_WAYS][ROUNDS], batch[BS_WAYS][ROUNDS], late[BS_WAYS][ROUNDS], gap,
        one, eight, sixteen;
    bs_run r[BS_WAYS];
    int rounds = b_quick ? 1 : ROUNDS;
    int i, k;
    b_must(ctx, tllm_gguf_open(ctx, path, &g));
    b_must(ctx, tllm_model_open(ctx, g, &m));
    b_must(ctx, tllm_vocab_open(ctx, g, &v));
    tllm_model_about(m, &about);
    if (about.n_params > 1e7 && rounds > 3) rounds = 3;
    out = (float *)b_alloc(16 * (size_t)about.n_vocab * sizeof *out);
    one = bs_step(ctx, m, 1, out);
    eight = bs_step(ctx, m, 8, out);
    sixteen = bs_step(ctx, m, 16, out);
    gap = one * (PROMPT + (SHORTEST + LONGEST) / 2) / 4;
    b_note("%s: %.1f M numbers, %d threads; a step of 1, 8, 16 rows takes %.3f, %.3f, %.3f ms: 8 rows give %.2f times "
           "the tokens of one, 16 rows %.2f", name, about.n_params * 1e-6, b_threads, one * 1e3, eight * 1e3,
           sixteen * 1e3, 8 * one / eight, 16 * one / sixteen);
    for (i = 0; i < rounds; i++)
        for (k = 0; k < BS_WAYS; k++) {
            r[k] = bs_serve(ctx, m, v, (bs_way)k, gap);
            seconds[k][i] = r[k].seconds;
            latency[k][i] = r[k].latency;
            batch[k][i] = r[BS_ONE].seconds / r[k].seconds;
            late[k][i] = r[k].latency / (k >= BS_STATIC ? r[BS_STATIC].latency : r[k].latency);
        }
    for (k = 0; k < BS_WAYS; k++) {
        const double s = bs_median(seconds[k], rounds);
        b_note("  %-26s %8.0f tokens/s, %7.1f ms mean latency, %4.1f %% of the rows wasted, %3.0f moves of %.0f KB",
               bs_name[k], r[k].tokens / s, 1e3 * bs_median(latency[k], rounds),
               100.0 * (r[k].rows - r[k].useful) / r[k].rows, r[k].moves,
               r[k].moves > 0 ? r[k].moved / r[k].moves / 1024 : 0.0);
    }
    {
        const double against_one = bs_median(batch[BS_ENGINE], rounds),
                     against_static = against_one / bs_median(batch[BS_STATIC], rounds),
                     latency_share = bs_median(late[BS_ENGINE], rounds),
                     exact = bs_median(batch[BS_EXACT], rounds) / against_one;
        b_verdict("tokens/s of the engine over one after another", against_one, ">=", 3.0);
        b_verdict("tokens/s of the engine over static batches", against_static, ">=", 1.5);
        b_verdict("mean latency of static batches over that of the engine", 1.0 / latency_share, ">=", 2.0);
        b_verdict("tokens/s of exact over the default", exact, ">=", 0.5);
        b_headline("flover", headline, name,
                   "%.1fx the tokens/s of one after another and %.2fx of static batches, %.1fx lower mean latency than "
                   "static batches; rows wasted %.0f %% without compaction, 0 %% with; exact results: %.2fx the "
                   "tokens/s of the default",
                   against_one, against_static, 1.0 / latency_share,
                   100.0 * (r[BS_HOLES].rows - r[BS_HOLES].useful) / r[BS_HOLES].rows, exact);
    }
    b_free(out);
    tllm_vocab_close(ctx, v);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, g);
    tiny_ctx_close(ctx);
}

void bench_serve(void);
void bench_serve(void)
{
    static const char *const headline =
        "more than 11x (GPT-J) and 16x (LLaMA) over FasterTransformer for concurrent requests with random arrivals";
    static const char *const random[2] = { "build/15M-Q8_0.gguf", "build/110M-Q4_0.gguf" };
    int i;
    b_note("32 requests, Poisson arrivals, 16 to 256 tokens");
    bs_model("examples/models/story.gguf", "examples/models/story.gguf", headline);
    for (i = 0; i < 2; i++) {
        FILE *f = b_quick ? NULL : fopen(random[i], "rb");
        if (!f) continue;
        (void)fclose(f);
        bs_model(random[i], i ? "a random model of 110M in Q4_0" : "a random model of 15M in Q8_0",
                 i ? "the same, 110M" : "the same, 15M");
    }
}
