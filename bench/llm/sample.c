/* bench/llm/sample.c - the time to choose a token, and the speed of matching a text with a grammar
 *
 * Sampling: one call over 128 256 logits (the vocabulary of Llama 3), hills of random heights as models give them,
 * compared with one plain pass that finds the largest. Grammars: a JSON text in pieces of four bytes, as tokens are,
 * each first tested (accepts), then consumed (advance), compared with a plain loop over the bytes that only counts
 * brackets and quotes. Masks: which of 128000 pieces may come next, tested one by one and all at once. */
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BS_VOCAB = 128256 };
typedef struct bs_arg { tiny_ctx *ctx; tllm_sampler *s; const float *logits; } bs_arg;

static volatile int32_t bs_sink;
static void bs_sample(void *arg)
{
    bs_arg *a = (bs_arg *)arg;
    int32_t token;
    b_must(a->ctx, tllm_sample(a->s, a->logits, &token));
    b_must(a->ctx, tllm_sampler_accept(a->s, token));
}
static void bs_largest(void *arg)
{
    const float *x = ((const bs_arg *)arg)->logits;
    int32_t i, best = 0;
    for (i = 1; i < BS_VOCAB; i++) if (x[i] > x[best]) best = i;
    bs_sink = best;
}

typedef struct bs_text { tiny_ctx *ctx; tllm_grammar *g; const char *text; size_t n; int asks; } bs_text;
static void bs_follow(void *arg)
{
    const bs_text *a = (const bs_text *)arg;
    tllm_grammar_state *s;
    size_t i;
    int may = 1;
    b_must(a->ctx, tllm_grammar_begin(a->ctx, a->g, &s));
    for (i = 0; i < a->n; i += 4) {
        const size_t k = a->n - i < 4 ? a->n - i : 4;
        if (a->asks) b_must(a->ctx, tllm_grammar_accepts(a->ctx, s, a->text + i, k, &may));
        b_must(a->ctx, tllm_grammar_advance(a->ctx, s, a->text + i, k));
    }
    if (!may || !tllm_grammar_may_end(s)) b_must(a->ctx, TINY_E_FORMAT);
    tllm_grammar_free(a->ctx, s);
}
static void bs_brackets(void *arg)
{
    const bs_text *a = (const bs_text *)arg;
    size_t i;
    int32_t depth = 0, quoted = 0;
    for (i = 0; i < a->n; i++) {
        const char c = a->text[i];
        if (c == '"') quoted = !quoted;
        else if (!quoted) depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    bs_sink = depth + quoted;
}

static void bs_sampling(void)
{
    enum { CHAINS = 9 };
    static const char *const what[CHAINS] = {
        "largest",    "greedy",     "temperature", "top-k 40", "top-p 0.95", "penalties to draw", "top-k, top-p, temp.",
        "min-p 0.05", "typical 0.9"
    };
    bs_arg a[CHAINS];
    b_row rows[CHAINS];
    float *logits = (float *)b_alloc(BS_VOCAB * sizeof *logits);
    uint32_t state = 1;
    int k, i;
    memset(rows, 0, sizeof rows);
    for (i = 0; i < BS_VOCAB; i++) {
        float sum = 0;
        for (k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 8) / 16777216.0f - 0.5f;
        }
        logits[i] = 4.5f * sum;             /* about normal, deviation 2.6 */
    }
    for (k = 0; k < CHAINS; k++) {
        tllm_step chain[5];
        size_t n = 0;
        if (k == 5) chain[n++] = tllm_step_penalties(64, 1.1f, 0.1f, 0.1f);
        if (k == 3 || k == 5 || k == 6) chain[n++] = tllm_step_top_k(40);
        if (k == 4 || k == 5 || k == 6) chain[n++] = tllm_step_top_p(0.95f);
        if (k == 7) chain[n++] = tllm_step_min_p(0.05f);
        if (k == 8) chain[n++] = tllm_step_typical(0.9f);
        if (k == 1) chain[n++] = tllm_step_greedy();
        if (k == 2 || k == 5 || k == 6) chain[n++] = tllm_step_temperature(0.8f);
        a[k].ctx = b_ctx(TINY_TARGET_AUTO, 1);
        a[k].logits = logits;
        a[k].s = NULL;
        if (k) b_must(a[k].ctx, tllm_sampler_open(a[k].ctx, chain, n, BS_VOCAB, 1, &a[k].s));
        rows[k].what = what[k];
        rows[k].target = k ? "chain" : "plain loop";
        rows[k].threads = 1;
        rows[k].limit = B_READ;
        rows[k].bytes = BS_VOCAB * sizeof *logits;
        rows[k].run = k ? bs_sample : bs_largest;
        rows[k].arg = &a[k];
        b_shape(&rows[k], "%d logits", (int)BS_VOCAB);
    }
    b_contest("Sampling, one token", rows, CHAINS);
    b_note("a whole chain (penalties, top-k, top-p, temperature, draw): %.0f tokens a second, %.1f plain passes",
           1e9 / rows[5].median_ns, rows[5].median_ns / rows[0].median_ns);
    for (k = 0; k < CHAINS; k++) {
        tllm_sampler_close(a[k].s);
        tiny_ctx_close(a[k].ctx);
    }
}

static const char bs_json[] =
    "root ::= ws value ws\nvalue ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws ( member (ws \",\" ws member)* )? ws \"}\"\nmember ::= string ws \":\" ws value\n"
    "array ::= \"[\" ws ( value (ws \",\" ws value)* )? ws \"]\"\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x00-\\x1f] | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4} ) )* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= [ \\t\\n\\r]*\n";

static void bs_grammars(void)
{
    static const char schema[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"},\"name\":{"
        "\"type\":\"string\"},\"tags\":{\"type\":\"array\","
        "\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]}},\"price\":{\"type\":\"number\"},\"sold\":{\"type\":"
        "\"boolean\"}},\"required\":[\"id\",\"name\",\"tags\",\"price\",\"sold\"]}}";
    enum { ROOM = 70000 };
    static char text[ROOM];
    bs_text a[4];
    b_row rows[4];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    char *from_schema = NULL;
    size_t n = 0, n_schema = 0;
    int k;
    text[n++] = '[';
    for (k = 0; n < ROOM - 400; k++)
        n += (size_t)snprintf(text + n, ROOM - n,
                              "%s{\"id\": %d, \"name\": \"thing number %d, in plain words\", \"tags\": [\"red\", "
                              "\"blue\"], \"price\": %d.25, \"sold\": %s}",
                              k ? ", " : "", k, k, k * 7, k % 3 ? "true" : "false");
    text[n++] = ']';
    memset(rows, 0, sizeof rows);
    memset(a, 0, sizeof a);
    b_must(ctx, tllm_schema_grammar(ctx, schema, sizeof schema - 1, &from_schema, &n_schema));
    for (k = 0; k < 4; k++) {
        a[k].ctx = ctx;
        a[k].text = text;
        a[k].n = n;
        a[k].asks = k != 2;
        if (k)
            b_must(ctx, tllm_grammar_open(ctx, k == 3 ? from_schema : bs_json, k == 3 ? n_schema : sizeof bs_json - 1,
                                          "root", &a[k].g));
        rows[k].what = k == 0 ? "brackets and quotes" : k == 3 ? "a JSON schema" : "JSON";
        rows[k].target = k == 0 ? "plain loop" : k == 2 ? "advance" : "ask, advance";
        rows[k].threads = 1;
        rows[k].bytes = (double)n;
        rows[k].run = k ? bs_follow : bs_brackets;
        rows[k].arg = &a[k];
        b_shape(&rows[k], "%lu KB of JSON", (unsigned long)(n / 1000));
    }
    b_contest("Grammars, a text in pieces of 4 bytes", rows, 4);
    b_note("MB/s: %.1f JSON tested and taken, %.1f only taken, %.1f by a schema",
           rows[1].bytes / rows[1].median_ns * 1e3, rows[2].bytes / rows[2].median_ns * 1e3,
           rows[3].bytes / rows[3].median_ns * 1e3);
    for (k = 0; k < 4; k++) tllm_grammar_close(ctx, a[k].g);
    tiny_free(ctx, from_schema);
    tiny_ctx_close(ctx);
}

typedef struct bs_mask {
    tiny_ctx *ctx;
    tllm_grammar_state *s;
    tllm_pieces *p;
    const char *bytes;
    const uint32_t *end;
    unsigned char *may;
    size_t n;
} bs_mask;

static void bs_each(void *arg)
{
    bs_mask *a = (bs_mask *)arg;
    size_t i;
    int yes;
    for (i = 0; i < a->n; i++) {
        const uint32_t from = i ? a->end[i - 1] : 0;
        b_must(a->ctx, tllm_grammar_accepts(a->ctx, a->s, a->bytes + from, a->end[i] - from, &yes));
        a->may[i] = (unsigned char)yes;
    }
}
static void bs_at_once(void *arg)
{
    bs_mask *a = (bs_mask *)arg;
    b_must(a->ctx, tllm_grammar_mask(a->ctx, a->s, a->p, a->may));
}

/* words of one to four syllables, half of them after a blank, and the tokens of JSON */
static void bs_masks(void)
{
    enum { N = 128000 };
    static const char *const syllable[] = { "an", "ber", "co", "du", "er", "fi", "gra", "he", "in", "ka",
                                            "lo", "mi",  "ne", "or", "pa", "ri", "sto", "te", "un", "wa" };
    static const char *const mark[] = { "{", "}",  "[", "]",  "\"",   "\":",  "\", \"", ",",   "\"}",
                                        "1", "23", "-", ".5", "true", "null", "\n",     "\\n", "\"]" };
    static const char *const text[2] = { "[1, ", "{\"a" };
    static char bytes[N * 16];
    static uint32_t end[N];
    static unsigned char may[N];
    tiny_rng r = tiny_rng_make(1, 3);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    tllm_grammar *g = NULL;
    tllm_pieces *p = NULL;
    bs_mask a[2];
    b_row rows[4];
    size_t at = 0;
    int i, k;
    for (i = 0; i < N; i++) {
        if (tiny_rng_u32(&r) % 16 == 0) at += (size_t)snprintf(bytes + at, 16, "%s", mark[tiny_rng_u32(&r) % 18]);
        else {
            if (tiny_rng_u32(&r) % 2) bytes[at++] = ' ';
            for (k = (int)(tiny_rng_u32(&r) % 4); k >= 0; k--)
                at += (size_t)snprintf(bytes + at, 4, "%s", syllable[tiny_rng_u32(&r) % 20]);
        }
        end[i] = (uint32_t)at;
    }
    memset(rows, 0, sizeof rows);
    b_must(ctx, tllm_pieces_open(ctx, bytes, end, N, &p));
    b_must(ctx, tllm_grammar_open(ctx, bs_json, sizeof bs_json - 1, "root", &g));
    for (k = 0; k < 4; k++) {
        bs_mask *m = &a[k / 2];
        if (k % 2 == 0) {
            m->ctx = ctx;
            m->p = p;
            m->bytes = bytes;
            m->end = end;
            m->may = may;
            m->n = N;
            b_must(ctx, tllm_grammar_begin(ctx, g, &m->s));
            b_must(ctx, tllm_grammar_advance(ctx, m->s, text[k / 2], strlen(text[k / 2])));
        }
        rows[k].what = k / 2 ? "inside of a text" : "a value comes";
        rows[k].target = k % 2 ? "mask" : "each alone";
        rows[k].threads = 1;
        rows[k].bytes = (double)at;
        rows[k].run = k % 2 ? bs_at_once : bs_each;
        rows[k].arg = m;
        b_shape(&rows[k], "%d pieces", (int)N);
    }
    b_contest("Grammars, which of 128000 pieces may come next, JSON", rows, 4);
    b_note("ms: %.2f and %.2f at once, %.2f and %.2f one by one", rows[1].median_ns * 1e-6, rows[3].median_ns * 1e-6,
           rows[0].median_ns * 1e-6, rows[2].median_ns * 1e-6);
    for (k = 0; k < 2; k++) tllm_grammar_free(ctx, a[k].s);
    tllm_grammar_close(ctx, g);
    tllm_pieces_close(ctx, p);
    tiny_ctx_close(ctx);
}

void bench_sample(void)
{
    bs_sampling();
    bs_grammars();
    bs_masks();
}
