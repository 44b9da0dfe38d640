/* bench/llm/speculate.c - texts with drafts, against the same texts drawn token by token
 *
 * Speculative decoding (arXiv 2211.17192) reports 2 to 3 times less time with an unchanged distribution; its formula
 * is (1 - a^(n+1)) / (1 - a) / (n c + 1) for a share a of kept proposals, n of them a pass, and a draft that takes c of
 * the model's time.
 * Here: the two story models, which share a vocabulary. The small one drafts for the other; c is measured, and is
 * large, because both fit into the caches. The second contest is a text that quotes its prompt word by word (a grammar
 * makes it do so), drafted from its own repetitions. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

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

void bench_speculate(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_ctx_target(ctx));
    tllm_session *s = NULL, *small = NULL;
    tllm_grammar *g = NULL;
    bs_text t[5];
    b_row r[5];
    tllm_draft_counts c[5];
    char rule[512];
    int i, contest;
    if (tllm_session_open(ctx, "examples/models/story.gguf", NULL, &s) ||
        tllm_session_open(ctx, "examples/models/story-small.gguf", NULL, &small)) {
        b_note("drafts: the story models are not in examples/models");
        tllm_session_close(s);
        tiny_ctx_close(ctx);
        return;
    }
    snprintf(rule, sizeof rule, "root ::= \" %s\"", bs_story);
    b_must(ctx, tllm_grammar_open(ctx, rule, strlen(rule), "root", &g));
    for (contest = 0; contest < 2; contest++) {
        static const int at_once[5] = { 0, 2, 4, 4, 8 };
        double a, cost;
        memset(t, 0, sizeof t);
        memset(r, 0, sizeof r);
        for (i = 0; i < 5; i++) {
            tllm_draft_desc d;
            memset(&d, 0, sizeof d);
            t[i].s = s;
            t[i].prompt = contest ? bs_story : "one day , Leo was in the park . he had two red hats .";
            t[i].how.n_most = 128;
            t[i].how.past_end = 1;
            t[i].how.grammar = contest ? g : NULL;
            d.model = contest ? NULL : small;
            d.n = at_once[i];
            d.always = i != 3;
            if (i) b_must(ctx, tllm_draft_open(s, &d, &t[i].how.draft));
            r[i].what = !i ? "token by token" : i == 3 ? "draft, as many as pay" : "draft";
            r[i].target = target;
            r[i].threads = b_threads;
            r[i].run = bs_run;
            r[i].arg = &t[i];
            b_shape(&r[i], i ? "at most %d at once" : "128 tokens", at_once[i]);
        }
        b_contest(contest ? "A text that quotes its prompt" : "Texts of the story model, the small one drafts", r, 5);
        for (i = 1; i < 5; i++) tllm_draft_count(t[i].how.draft, &c[i]);
        a = (double)c[2].kept / (double)(c[2].proposed + !c[2].proposed);
        cost = c[2].proposed && c[2].passes ? (c[2].draft_seconds / (double)c[2].proposed) /
                                                  (r[0].median_ns * 1e-9 / 128.0) : 0.0;
        b_note("4 at once: %.2f of the proposals kept, %.2f tokens a pass; a step of the draft takes %.2f of a pass "
               "over one token",
               a, (double)(c[2].kept + c[2].passes) / (double)(c[2].passes + !c[2].passes), cost);
        for (i = 1; i < 5; i++) tllm_draft_close(t[i].how.draft);
        if (!contest)
            b_headline("speculate", "2 to 3 times faster, the distribution unchanged",
                       "story.gguf, story-small.gguf as the draft, greedy, 128 tokens; both fit into the caches",
                       "%.2f (2 at once), %.2f (4), %.2f (as many as pay); %.2f of the proposals kept, a step of the "
                       "draft takes %.2f of one of the model", r[0].median_ns / r[1].median_ns,
                       r[0].median_ns / r[2].median_ns, r[0].median_ns / r[3].median_ns, a, cost);
        else {
            b_verdict("quoting its prompt: token by token / at most 8 at once", r[0].median_ns / r[4].median_ns, ">",
                      1.5);
            b_headline("speculate", "prompt lookup: at least 1.5 times faster where a text quotes its prompt",
                       "story.gguf, a text of 43 words that its prompt contains, under a grammar",
                       "%.2f (4 at once), %.2f (8)", r[0].median_ns / r[2].median_ns, r[0].median_ns / r[4].median_ns);
        }
    }
    tllm_grammar_close(ctx, g);
    tllm_session_close(small);
    tllm_session_close(s);
    tiny_ctx_close(ctx);
}
