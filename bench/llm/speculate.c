/* bench/llm/speculate.c - texts with drafts, against the same texts drawn token by token
 *
 * Speculative decoding (arXiv 2211.17192) reports 2 to 3 times less time with an unchanged distribution; its formula
 * is (1 - a^(n+1)) / (1 - a) / (n c + 1) for a share a of kept proposals, n of them a pass, and a draft that takes c of
 * the model's time.
 * Here: the two story models, which share a vocabulary. The small one drafts for the other; c is measured, and is
 * large, because both fit into the caches. The second contest is a text that quotes its prompt word by word (a grammar
 * makes it do so), drafted from its own repetitions.
 * Trees of proposals, and EasySpec (arXiv 2502.02493): layers of the draft side by side, up to 1.62 times faster drafts
 * with at most 7 of 100 fewer proposals kept. The same drafts with both, and the share kept for groups of 1, 2 and 4
 * layers where the model drafts for itself: what is lost then is lost by the groups alone. Four layers have one group
 * of two between the exact ends, so 4 is the same as 2. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BS_ROWS = 8 };

typedef struct bs_text {
    tllm_session *s;
    tllm_generate_desc how;
    const char *prompt;
} bs_text;
static void bs_run(void *arg)
{
    bs_text *t = (bs_text *)arg;
    b_must(NULL, tllm_session_trim(t->s, 0));
    b_must(NULL, tllm_generate(t->s, t->prompt, strlen(t->prompt), &t->how, NULL));
}

static const char bs_story[] = "one day , Leo was in the park . he had two red hats . Mia had three blue balls . Leo "
                               "gave one hat to Mia . she said thank you . they played with the balls all day .";

/* What the formula predicts for a chain of n: the chance that a proposal is kept is the one at which its tokens a pass
 * are those that were counted. A pass over all of them counts as one over one token. */
static double bs_predicted(const tllm_draft_counts *c, int n, double cost)
{
    const double tokens = (double)(c->kept + c->passes) / (double)(c->passes + !c->passes);
    double low = 0.0, high = 1.0;
    int i;
    for (i = 0; i < 50; i++) {
        const double keep = (low + high) / 2.0;
        if (tllm_draft_gain(keep, n, 0.0) < tokens) low = keep;
        else high = keep;
    }
    return tllm_draft_gain(low, n, cost);
}

/* The share of proposals kept if story.gguf drafts for itself, in groups of n layers: mean and standard deviation over
 * five texts. */
static void bs_share(tiny_ctx *ctx, tllm_session *s, int n, int no_calibration, double *mean, double *spread)
{
    static const char *const prompt[5] = { "one day , Leo", "Lily had a", "on a sunny morning ,", "Once upon a time",
                                           "Tom" };
    tllm_session *m = NULL;
    tllm_easyspec_desc ed;
    tllm_easyspec *e = NULL;
    double x[5], sum = 0.0, square = 0.0;
    int i;
    memset(&ed, 0, sizeof ed);
    ed.n = n;
    ed.no_calibration = no_calibration;
    b_must(ctx, tllm_session_open(ctx, "examples/models/story.gguf", NULL, &m));
    b_must(ctx, tllm_easyspec_open(m, &ed, &e));
    for (i = 0; i < 5; i++) {
        tllm_draft_desc d;
        tllm_draft_counts c;
        bs_text t;
        memset(&d, 0, sizeof d);
        memset(&t, 0, sizeof t);
        d.model = m;
        d.n = 4;
        d.always = 1;
        t.s = s;
        t.prompt = prompt[i];
        t.how.n_most = 160;
        t.how.past_end = 1;
        b_must(ctx, tllm_draft_open(s, &d, &t.how.draft));
        bs_run(&t);
        tllm_draft_count(t.how.draft, &c);
        tllm_draft_close(t.how.draft);
        x[i] = (double)c.kept / (double)(c.proposed + !c.proposed);
        sum += x[i] / 5;
    }
    for (i = 0; i < 5; i++) square += (x[i] - sum) * (x[i] - sum) / 4;
    *mean = sum;
    *spread = sqrt(square);
    tllm_easyspec_close(e);
    tllm_session_close(m);
}

/* story.gguf with BS_IDLE more layers in F32 whose output matrices are zero: the same function, at the cost of a model
 * that does not fit into the caches. */
enum { BS_IDLE = 48, BS_KINDS = 9 };
static tllm_writer *bs_large(tiny_ctx *ctx, tllm_gguf **from, float **data)
{
    static const char *const kind[BS_KINDS] = { "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                                                "ffn_gate", "ffn_up", "ffn_down" };
    tllm_writer *w = NULL;
    const tllm_gguf_tensor *t;
    char name[64];
    size_t i, k, at, n;
    b_must(ctx, tllm_gguf_open(ctx, "examples/models/story.gguf", from));
    b_must(ctx, tllm_writer_open(ctx, NULL, &w));
    for (i = 0; i < tllm_gguf_n_meta(*from); i++)
        b_must(ctx, tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(*from, i)));
    b_must(ctx, tllm_writer_put_u32(ctx, w, "llama.block_count", 4 + BS_IDLE));
    for (i = 0; i < tllm_gguf_n_tensors(*from); i++) {
        t = tllm_gguf_tensor_at(*from, i);
        b_must(ctx, tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data));
    }
    *data = NULL;
    for (k = at = 0; k < 2 * BS_KINDS; k++) {           /* first their size, then their numbers */
        snprintf(name, sizeof name, "blk.0.%s.weight", kind[k % BS_KINDS]);
        t = tllm_gguf_tensor_find(*from, name);
        if (!t) continue;
        if (k == BS_KINDS) {
            *data = (float *)calloc(at, sizeof **data);
            if (!*data) exit(1);
            at = 0;
        }
        n = (size_t)(t->dim[0] * (t->rank > 1 ? t->dim[1] : 1));
        for (i = 0; k >= BS_KINDS && i < BS_IDLE; i++) {
            tllm_text text;
            snprintf(name, sizeof name, "blk.%d.%s.weight", (int)(4 + i), kind[k % BS_KINDS]);
            text.at = name;
            text.n = strlen(name);
            b_must(ctx, tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, t->rank, t->dim, *data + at));
        }
        if (k >= BS_KINDS && k % BS_KINDS != 4 && k % BS_KINDS != 8) {
            if (t->type == TLLM_FORMAT_F32) memcpy(*data + at, t->data, n * sizeof **data);
            else tllm_format_of(t->type)->unpack(t->data, *data + at, n);
        }
        at += n;
    }
    b_must(ctx, tllm_writer_finish(ctx, w));
    return w;
}

static void bs_slow(tiny_ctx *ctx, const char *target)
{
    static const char *const what[6] = { "token by token", "draft", "draft, as many as pay", "tree, two candidates",
                                         "tree, where it pays", "tree, two candidates" };
    tllm_session *s = NULL, *small = NULL;
    tllm_draft_tree_size size;
    tllm_state_desc sd, sd_draft;
    tllm_gguf *from = NULL;
    float *data = NULL;
    tllm_writer *w = bs_large(ctx, &from, &data);
    size_t n = 0;
    const void *bytes = tllm_writer_memory(w, &n);
    bs_text t[6];
    b_row r[6];
    tllm_draft_counts c[6];
    double x[6], a, cost;
    int i;
    memset(&sd, 0, sizeof sd);
    memset(t, 0, sizeof t);
    memset(r, 0, sizeof r);
    memset(c, 0, sizeof c);
    (void)tllm_draft_tree_sizes(4, 2, 0, &size);
    sd.n_ctx = 256;
    sd_draft = sd;
    sd.n_seq = size.n_seq;
    sd.n_cells = 256 + size.n_more;
    sd_draft.n_seq = size.n_seq_draft;
    b_must(ctx, tllm_session_open_memory(ctx, bytes, n, &sd, &s));
    b_must(ctx, tllm_session_open(ctx, "examples/models/story-small.gguf", &sd_draft, &small));
    for (i = 0; i < 6; i++) {
        tllm_draft_desc d;
        memset(&d, 0, sizeof d);
        d.model = small;
        d.n = 4;
        d.always = i == 1 || i == 3 || i == 5;
        t[i].s = s;
        t[i].prompt = "one day , Leo was in the park . he had two red hats .";
        t[i].how.n_most = 96;
        t[i].how.past_end = 1;
        if (i > 2) b_must(ctx, tllm_draft_tree_open(s, &d, 2, i == 5 ? 0 : 8, &t[i].how.draft));
        else if (i) b_must(ctx, tllm_draft_open(s, &d, &t[i].how.draft));
        r[i].what = what[i];
        r[i].target = target;
        r[i].threads = b_threads;
        r[i].run = bs_run;
        r[i].arg = &t[i];
        b_shape(&r[i], i == 5 ? "4 levels, 30 tokens" : i > 2 ? "4 levels, 8 tokens" : i ? "4 at once"
                                                                                       : "96 tokens, %.0f MB",
                (double)n * 1e-6);
    }
    b_contest("A model of the same text that does not fit into the caches", r, 6);
    for (i = 1; i < 6; i++) {
        tllm_draft_count(t[i].how.draft, &c[i]);
        tllm_draft_close(t[i].how.draft);
        x[i] = r[0].median_ns / r[i].median_ns;
    }
    a = (double)c[1].kept / (double)(c[1].proposed + !c[1].proposed);
    cost = c[1].draft_seconds / (double)(c[1].proposed + !c[1].proposed) / (r[0].median_ns * 1e-9 / 96.0);
    b_note("%.2f of the chain's proposals kept, %.2f tokens a pass; trees of 8 and 30: %.2f and %.2f tokens a pass; a "
           "step of the draft takes %.2f of one of the model", a,
           (double)(c[1].kept + c[1].passes) / (double)(c[1].passes + !c[1].passes),
           (double)(c[3].kept + c[3].passes) / (double)(c[3].passes + !c[3].passes),
           (double)(c[5].kept + c[5].passes) / (double)(c[5].passes + !c[5].passes), cost);
    b_note("a chain of 4: %.2f times as fast by the formula, %.2f measured", bs_predicted(&c[1], 4, cost), x[1]);
    b_headline("speculate", "up to 2.5 times faster where a pass over five tokens costs little more than one",
               "story.gguf with 48 idle layers in F32, story-small.gguf as the draft, greedy, 96 tokens",
               "%.2f (a chain of 4; by the formula %.2f), %.2f (as many as pay), %.2f (a tree of 8), %.2f (where it "
               "pays), %.2f (a tree of 30)", x[1], bs_predicted(&c[1], 4, cost), x[2], x[3], x[4], x[5]);
    tllm_session_close(small);
    tllm_session_close(s);
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, from);
    free(data);
}

/* milliseconds of a step of the draft in groups of n, after 200 tokens; n 0: one layer after the other */
typedef struct bs_step { tllm_session *m; tllm_easyspec *e; } bs_step;
static void bs_feed(void *arg)
{
    const bs_step *t = (const bs_step *)arg;
    static const int32_t token = 300;
    const float *logits;
    b_must(NULL, tllm_session_trim(t->m, 200));
    b_must(NULL, tllm_session_feed(t->m, &token, 1, &logits));
}

static void bs_fuzzy(tiny_ctx *ctx, tllm_session *s, const char *target)
{
    bs_step step[2];
    b_row r[2];
    double mean[4], spread[4];
    int32_t held[200];
    int i;
    memset(r, 0, sizeof r);
    memset(step, 0, sizeof step);
    for (i = 0; i < 200; i++) held[i] = 260 + i * 37 % 200;
    for (i = 0; i < 2; i++) {
        tllm_easyspec_desc d;
        memset(&d, 0, sizeof d);
        d.n = 2;
        b_must(ctx, tllm_session_open(ctx, "examples/models/story.gguf", NULL, &step[i].m));
        if (i) b_must(ctx, tllm_easyspec_open(step[i].m, &d, &step[i].e));
        b_must(ctx, tllm_session_feed(step[i].m, held, 200, NULL));
        if (i) b_must(ctx, tllm_easyspec_fuzzy(step[i].e, 1));
        r[i].what = i ? "middle layers side by side" : "layer by layer";
        r[i].target = target;
        r[i].threads = b_threads;
        r[i].run = bs_feed;
        r[i].arg = &step[i];
        b_shape(&r[i], "story.gguf, 200 tokens held");
    }
    b_contest("A step of a draft of 4 layers", r, 2);
    for (i = 0; i < 2; i++) {
        tllm_easyspec_close(step[i].e);
        tllm_session_close(step[i].m);
    }
    for (i = 0; i < 4; i++) bs_share(ctx, s, i == 3 ? 2 : 1 << i, i == 3, &mean[i], &spread[i]);
    b_note("the model drafts for itself, 4 at once, five texts: kept %.3f (sd %.3f) in groups of 1, %.3f (%.3f) of 2, "
           "%.3f (%.3f) of 4; of 2 without calibration %.3f (%.3f)", mean[0], spread[0], mean[1], spread[1], mean[2],
           spread[2], mean[3], spread[3]);
    b_headline("easyspec", "drafting up to 1.62 times faster, at most 7 % fewer proposals kept",
               "story.gguf drafts for itself, 4 at once, 160 tokens of five texts; 4 layers, one group of 2; threads",
               "a step %.2f times faster with %d thread%s; kept %.3f in groups of 2, %.3f exact, %.3f without "
               "calibration", r[0].median_ns / r[1].median_ns, b_threads, b_threads == 1 ? "" : "s", mean[1], mean[0],
               mean[3]);
}

void bench_speculate(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_ctx_target(ctx));
    tllm_session *s = NULL, *small = NULL;
    tllm_grammar *g = NULL;
    bs_text t[BS_ROWS];
    b_row r[BS_ROWS];
    tllm_draft_counts c[BS_ROWS];
    tllm_session *fuzzy = NULL;
    tllm_easyspec *e = NULL;
    tllm_easyspec_desc ed;
    tllm_draft_tree_size size;
    tllm_state_desc sd, sd_draft;
    char rule[512];
    int i, contest, n;
    memset(&sd, 0, sizeof sd);
    memset(&ed, 0, sizeof ed);
    ed.n = 2;
    (void)tllm_draft_tree_sizes(3, 2, 0, &size);
    sd_draft = sd;
    sd.n_seq = size.n_seq;
    sd_draft.n_seq = size.n_seq_draft;
    if (tllm_session_open(ctx, "examples/models/story.gguf", &sd, &s) ||
        tllm_session_open(ctx, "examples/models/story-small.gguf", &sd_draft, &small) ||
        tllm_session_open(ctx, "examples/models/story-small.gguf", &sd_draft, &fuzzy)) {
        b_note("drafts: the story models are not in examples/models");
        tllm_session_close(small);
        tllm_session_close(s);
        tiny_ctx_close(ctx);
        return;
    }
    snprintf(rule, sizeof rule, "root ::= \" %s\"", bs_story);
    b_must(ctx, tllm_easyspec_open(fuzzy, &ed, &e));
    b_must(ctx, tllm_grammar_open(ctx, rule, strlen(rule), "root", &g));
    for (contest = 0; contest < 2; contest++) {
        /* a chain of that many, or levels of a tree */
        static const int at_once[BS_ROWS] = { 0, 2, 4, 4, 8, 3, 3, 4 };
        static const char *const what[BS_ROWS] = { "token by token", "draft", "draft", "draft, as many as pay", "draft",
                                                   "tree, two candidates", "tree, where it pays",
                                                   "draft, layers side by side" };
        double a, cost;
        n = contest ? 5 : BS_ROWS;
        memset(t, 0, sizeof t);
        memset(r, 0, sizeof r);
        for (i = 0; i < n; i++) {
            tllm_draft_desc d;
            memset(&d, 0, sizeof d);
            t[i].s = s;
            t[i].prompt = contest ? bs_story : "one day , Leo was in the park . he had two red hats .";
            t[i].how.n_most = 128;
            t[i].how.past_end = 1;
            t[i].how.grammar = contest ? g : NULL;
            d.model = contest ? NULL : i == 7 ? fuzzy : small;
            d.n = at_once[i];
            d.always = i != 3 && i != 6;
            if (i == 5 || i == 6) b_must(ctx, tllm_draft_tree_open(s, &d, 2, 0, &t[i].how.draft));
            else if (i) b_must(ctx, tllm_draft_open(s, &d, &t[i].how.draft));
            r[i].what = what[i];
            r[i].target = target;
            r[i].threads = b_threads;
            r[i].run = bs_run;
            r[i].arg = &t[i];
            b_shape(&r[i], i ? i == 5 || i == 6 ? "%d levels" : "at most %d at once" : "128 tokens", at_once[i]);
        }
        b_contest(contest ? "A text that quotes its prompt" : "Texts of the story model, the small one drafts", r, n);
        for (i = 1; i < n; i++) tllm_draft_count(t[i].how.draft, &c[i]);
        a = (double)c[2].kept / (double)(c[2].proposed + !c[2].proposed);
        cost = c[2].proposed && c[2].passes ? (c[2].draft_seconds / (double)c[2].proposed) /
                                                  (r[0].median_ns * 1e-9 / 128.0) : 0.0;
        b_note("4 at once: %.2f of the proposals kept, %.2f tokens a pass; a step of the draft takes %.2f of a pass "
               "over one token",
               a, (double)(c[2].kept + c[2].passes) / (double)(c[2].passes + !c[2].passes), cost);
        b_note("4 at once: %.2f times as fast by the formula, %.2f measured", bs_predicted(&c[2], 4, cost),
               r[0].median_ns / r[2].median_ns);
        if (!contest)
            b_note("tree of 14: %.2f of the proposals kept, %.2f tokens a pass; side by side, 4 at once: %.2f kept",
                   (double)c[5].kept / (double)(c[5].proposed + !c[5].proposed),
                   (double)(c[5].kept + c[5].passes) / (double)(c[5].passes + !c[5].passes),
                   (double)c[7].kept / (double)(c[7].proposed + !c[7].proposed));
        for (i = 1; i < n; i++) tllm_draft_close(t[i].how.draft);
        if (!contest)
            b_headline("speculate", "2 to 3 times faster, the distribution unchanged",
                       "story.gguf, story-small.gguf as the draft, greedy, 128 tokens; both fit into the caches",
                       "%.2f (2 at once), %.2f (4; by the formula %.2f), %.2f (as many as pay), %.2f (a tree of 14), "
                       "%.2f (where it pays), %.2f (4, layers side by side); %.2f of the proposals kept, a step of the "
                       "draft takes %.2f of one of the model", r[0].median_ns / r[1].median_ns,
                       r[0].median_ns / r[2].median_ns, bs_predicted(&c[2], 4, cost), r[0].median_ns / r[3].median_ns,
                       r[0].median_ns / r[5].median_ns, r[0].median_ns / r[6].median_ns,
                       r[0].median_ns / r[7].median_ns, a, cost);
        else {
            b_verdict("quoting its prompt: token by token / at most 8 at once", r[0].median_ns / r[4].median_ns, ">",
                      1.5);
            b_headline("speculate", "prompt lookup: at least 1.5 times faster where a text quotes its prompt",
                       "story.gguf, a text of 43 words that its prompt contains, under a grammar",
                       "%.2f (4 at once), %.2f (8)", r[0].median_ns / r[2].median_ns, r[0].median_ns / r[4].median_ns);
        }
    }
    bs_fuzzy(ctx, s, target);
    bs_slow(ctx, target);
    tllm_grammar_close(ctx, g);
    tllm_easyspec_close(e);
    tllm_session_close(fuzzy);
    tllm_session_close(small);
    tllm_session_close(s);
    tiny_ctx_close(ctx);
}
