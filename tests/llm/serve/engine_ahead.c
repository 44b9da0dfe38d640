/* tests/llm/serve/engine_ahead.c - an engine that puts proposals into its passes
 *
 * Truth    the same request alone in an engine without proposals: tokens, texts and the bits of each logprob. */
#include "requests.h"

enum { ALL = 8 };
static const char small_story[] = "examples/models/story-small.gguf";

/* The prompt has the text, and the grammar makes the answer say it again but for its first word: most proposals are
 * kept. */
static const char quote[] = "one day , Ella had five cakes . then Ella found five more cakes under the fence .";
static char rule[200];
static void quotes(mine *m, const tllm_vocab *vocab, tiny_ctx *ctx, size_t n_most)
{
    tllm_tokens t;
    memset(&t, 0, sizeof t);
    ready(m, 1, 1, n_most);
    T_OK(tllm_encode(ctx, vocab, quote, strlen(quote), TLLM_ENCODE_ENDS, &t));
    m->r.n_prompt = t.n < T_COUNT(m->prompt) ? t.n : T_COUNT(m->prompt);
    memcpy(m->prompt, t.id, m->r.n_prompt * sizeof *t.id);
    tllm_tokens_free(ctx, &t);
    (void)snprintf(rule, sizeof rule, "root ::= \"%s\"", quote + 3);
    m->r.gbnf = rule;
    m->r.n_gbnf = strlen(rule);
}

/* eight requests of all kinds, whose prompts and texts repeat themselves */
static void a_few(mine *m, const tllm_vocab *vocab, tiny_ctx *ctx)
{
    int i;
    a_mix(m, ALL);
    for (i = 0; i < ALL; i++) {
        size_t k;
        m[i].r.n_prompt = (size_t)(3 + i * 17 % 50);
        for (k = 0; k < m[i].r.n_prompt; k++)
            m[i].prompt[k] = (int32_t)(3 + ((size_t)i * 131 + k % 9 * 29 + k % 9 * (k % 9) * 7) % 530);
        m[i].r.n_most = (size_t)(MOST - i);
        if (i % 4 == 1) {                   /* seeded, and sure enough to repeat itself */
            m[i].chain[0] = tllm_step_temperature(0.4f);
            m[i].r.n_steps = 1;
        }
        if (i == 6) {
            m[i].r.gbnf = "root ::= [a-z ,.]+";
            m[i].r.n_gbnf = strlen(m[i].r.gbnf);
        }
        if (i == 2 || i == 4 || i == 5) {
            const mine old = m[i];
            quotes(&m[i], vocab, ctx, MOST);
            memcpy(m[i].chain, old.chain, sizeof old.chain);
            m[i].r.chain = i == 5 ? m[i].chain : NULL;
            m[i].r.n_steps = old.r.n_steps;
            m[i].r.seed = old.r.seed;
            if (i != 4) continue;
            m[i].r.gbnf = NULL;             /* as the model continues it */
            m[i].r.n_gbnf = 0;
        }
    }
}

/* Alone and eight together, with pages, with few pages, in a window, with a small budget, by measured times and always,
 * of repetitions and of a draft model: the bits of a run alone without proposals. */
static void test_same_text(tiny_target target)
{
    enum { ENGINES = 9 };
    static mine alone[ALL], m[ALL];
    tllm_engine_desc d[ENGINES];
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_engine *e = open_engine(ctx, NULL);
    int k, i, again = 0;
    if (!e) return;
    a_few(alone, tllm_engine_vocab(e), ctx);
    tllm_engine_close(e);
    t_close(ctx);
    alone_of(target, alone, ALL);
    memset(d, 0, sizeof d);
    for (k = 0; k < ENGINES; k++) {
        d[k].slots = k ? ALL : 1;
        d[k].context = 128;
        d[k].exact = 1;
        d[k].draft_n = k < 6 ? 8 : 0;
        d[k].draft_always = k != 4 && k != 8;
    }
    d[1].draft_match = 1;
    d[2].cells = 180;
    d[2].page = 4;
    d[3].mode = TLLM_ENGINE_WINDOW;
    d[5].budget = 11;
    d[5].draft_n = 32;
    d[6].cells = 180;
    d[6].page = 4;
    d[7].mode = TLLM_ENGINE_WINDOW;
    d[7].budget = 13;
    for (k = 0; k < ENGINES; k++) {
        tllm_session *small = NULL;
        tllm_engine_counters c;
        size_t proposed = 0, kept = 0, made = 0;
        ctx = t_ctx(target, 1 + k % 2);
        if (k > 5) {                        /* the small model is the draft */
            T_OK(tllm_session_open(ctx, small_story, NULL, &small));
            d[k].draft_model = tllm_session_model(small);
            d[k].draft_vocab = tllm_session_vocab(small);
        }
        e = open_engine(ctx, &d[k]);
        if (!e) break;
        a_few(m, tllm_engine_vocab(e), ctx);
        for (i = 0; i < ALL; i++) {
            submit(e, &m[i]);
            if (!k) run(e);
        }
        run(e);
        for (i = 0; i < ALL; i++) {
            T_EQ_INT(m[i].ends, 1);
            if (!T_TRUE(!differs(&alone[i], &m[i])))
                printf("  engine %d, request %d: %d and %d tokens\n", k, i, (int)alone[i].n, (int)m[i].n);
            T_TRUE(m[i].result.n_kept <= m[i].result.n_proposed && m[i].result.n_kept < m[i].n);
            proposed += m[i].result.n_proposed;
            kept += m[i].result.n_kept;
            made += m[i].n;
        }
        tllm_engine_count(e, &c);
        T_TRUE(c.proposed == proposed && c.kept == kept && c.made_tokens == made);
        if (d[k].draft_always) T_TRUE(kept > 20 && proposed > kept);       /* both did happen */
        /* every row that is no use is a refused proposal, or one whose pages were lost */
        T_TRUE(c.rows - c.rows_useful >= proposed - kept);
        if (!c.again) T_EQ_INT(c.rows - c.rows_useful, proposed - kept);
        again += (int)c.again;
        at_rest(e);
        tllm_engine_close(e);
        tllm_session_close(small);
        t_close(ctx);
    }
    T_TRUE(again > 0);
    T_PROOF("serving 1", "with proposals, among eight: the bits of a run alone without them, greedy and seeded");
    T_PROOF("serving 3", "in the engine: the text is that of plain decoding, greedy, seeded and with a grammar");
}

/* ---- a text that is known ---------------------------------------------------------------------------------------- */

static tllm_engine *open_quoting(tiny_ctx *ctx, int draft_n, tiny_idx slots)
{
    tllm_engine_desc d;
    memset(&d, 0, sizeof d);
    d.slots = slots;
    d.context = 128;
    d.exact = 1;
    d.draft_n = draft_n;
    d.draft_match = 1;
    d.draft_always = 1;
    return open_engine(ctx, &d);
}
static size_t held(tllm_engine *e, size_t i)
{
    tllm_engine_slot slot[8];
    T_TRUE(i < tllm_engine_slots(e, slot, 8));
    return slot[i].n_held;
}

/* Limits, stop strings, a full context and tokens that end the text, all of them among proposals that are kept: the
 * same end as without, and the same tokens in the slot. */
static void test_ends(tiny_target target)
{
    enum { KINDS = 17 };
    static const char *const stop[] = { "five more", "." };
    static mine plain[KINDS], m[KINDS];
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_engine *e[2];
    size_t kept = 0, n_held[KINDS] = { 0 };
    int k, i, by[8] = { 0 };
    e[0] = open_quoting(ctx, 0, 2);
    e[1] = open_quoting(ctx, 8, 2);
    for (k = 0; k < 2 && e[0] && e[1]; k++)
        for (i = 0; i < KINDS; i++) {
            mine *x = k ? &m[i] : &plain[i];
            const tllm_vocab *vocab = tllm_engine_vocab(e[k]);
            quotes(x, vocab, ctx, i < 12 ? (size_t)(i + 1) : 0);
            x->r.stop = stop + (i == 13);
            x->r.n_stop = i == 12 || i == 13;
            if (i == 14 || i == 15) {       /* the context ends after so many tokens */
                const size_t n = x->r.n_prompt, more = i == 14 ? 128 - 2 * n : 128 - n - 6;
                size_t j;
                memmove(x->prompt + more, x->prompt, n * sizeof *x->prompt);
                for (j = 0; j < more; j++) x->prompt[j] = 3;
                x->r.n_prompt += more;
            } else if (i == 16) {           /* the text, its end, and the text: the end is proposed too */
                const size_t n = x->r.n_prompt;
                int32_t end = 0;
                while (end < V - 1 && !tllm_vocab_is_end(vocab, end)) end++;
                T_TRUE(tllm_vocab_is_end(vocab, end));
                x->prompt[n] = end;
                memcpy(x->prompt + n + 1, x->prompt, n * sizeof *x->prompt);
                x->r.n_prompt = 2 * n + 1;
            }
            submit(e[k], x);
            run(e[k]);
            if (!k) n_held[i] = held(e[k], 0) + 1000 * held(e[k], 1);
            else T_EQ_INT(held(e[k], 0) + 1000 * held(e[k], 1), n_held[i]);
        }
    for (i = 0; i < KINDS; i++) {
        if (!T_TRUE(plain[i].ends == 1 && m[i].ends == 1 && !differs(&plain[i], &m[i]))) printf("  kind %d\n", i);
        T_EQ_TEXT(m[i].stop, plain[i].stop);
        T_EQ_INT(plain[i].result.n_proposed, 0);
        kept += m[i].result.n_kept;
        if (i > 1) T_TRUE(m[i].result.n_kept > 0);
        if (i < 12) T_TRUE(m[i].result.n_proposed <= (size_t)i);        /* none after the last token */
        if ((int)m[i].end < 8) by[m[i].end]++;
    }
    T_TRUE(kept > 60 && by[TLLM_END_LENGTH] == 12 && by[TLLM_END_STRING] == 2 && by[TLLM_END_CONTEXT] == 1);
    T_TRUE(by[TLLM_END_TOKEN] == 2);
    T_PROOF("serving 3", "in the engine: limit, stop string, end token and end of the context among kept proposals");
    T_PROOF("serving 3", "in the engine: the length of the cache after each end");
    tllm_engine_close(e[0]);
    tllm_engine_close(e[1]);
    t_close(ctx);
}

/* A request that is cancelled among its proposals makes no further token, and its slot is free after one step. The
 * text of its neighbour does not change. */
static void test_cancel(void)
{
    static mine alone, other, m;
    tiny_ctx *ctx;
    tllm_engine *e;
    tllm_engine_counters c;
    int k, more = 1;
    ready(&alone, 30, 5, MOST);
    alone.chain[0] = tllm_step_temperature(0.7f);
    alone.r.chain = alone.chain;
    alone.r.n_steps = 1;
    alone.r.seed = 9;
    other = alone;
    alone_of(TINY_TARGET_AUTO, &alone, 1);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    e = open_quoting(ctx, 8, 2);
    for (k = 0; k < 4 && e; k++) {
        size_t before = 0, most = 0;
        int steps = 0;
        clear(&other);
        other.r.prompt = other.prompt;
        other.r.chain = other.chain;
        other.r.user = &other;
        other.other = k == 3 ? &m : NULL;   /* its second token cancels the request */
        submit(e, &other);
        quotes(&m, tllm_engine_vocab(e), ctx, 0);
        m.other = k == 0 ? &m : NULL;       /* by itself, at the second token */
        m.stop_at = k == 1 ? 3 : 0;         /* by what the callback returns */
        submit(e, &m);
        while (more && !m.ends && steps++ < 50) {
            before = m.n;
            T_OK(tllm_engine_step(e, &more));
            most = m.n - before > most ? m.n - before : most;
            if (k == 2 && most > 4) T_EQ_INT(tllm_engine_cancel(e, m.id), TINY_OK);
            if (k == 1 || m.n < 2 || (k == 2 && most <= 4)) continue;
            /* cancelled: one step later it is gone */
            T_EQ_INT(m.ends, 0);
            before = m.n;
            T_OK(tllm_engine_step(e, &more));
            T_EQ_INT(m.ends, 1);
            T_EQ_INT(m.n, before);
        }
        T_TRUE(m.ends == 1 && m.end == TLLM_END_CALLER && !m.status);
        if (k != 2) T_EQ_INT(m.n, k == 1 ? 3 : 2);
        T_TRUE(k == 2 ? m.n > 4 : m.result.n_proposed >= 8);    /* more would have come in that step */
        tllm_engine_count(e, &c);
        T_TRUE(c.running == 1 && c.waiting == 0 && !other.ends);
        T_EQ_INT(held(e, 1), m.r.n_prompt + m.n - 1);
        run(e);
        T_TRUE(other.ends == 1 && !differs(&alone, &other));
        at_rest(e);
        more = 1;
    }
    T_PROOF("serving 1", "a cancel among proposals: no further token, the slot is free after a step, others unchanged");
    tllm_engine_close(e);
    t_close(ctx);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* A step has at most a token of each request and the budget, and prompts are served before proposals. */
static void test_budget(void)
{
    enum { SLOTS = 4, BUDGET = 10 };
    static mine m[SLOTS];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_engine *e;
    int i, more = 1, full = 0, steps = 0;
    memset(&d, 0, sizeof d);
    d.slots = SLOTS;
    d.context = 128;
    d.budget = BUDGET;
    d.draft_n = 32;
    d.draft_match = 1;
    d.draft_always = 1;
    e = open_engine(ctx, &d);
    for (i = 0; i < SLOTS && e; i++) {
        if (i + 1 < SLOTS) quotes(&m[i], tllm_engine_vocab(e), ctx, 24);
        else ready(&m[i], 75, 2, 24);
        m[i].r.priority = -i;
    }
    for (i = 0; i < SLOTS - 1 && e; i++) submit(e, &m[i]);
    memset(&c, 0, sizeof c);
    while (e && more && steps++ < 200) {
        const tllm_engine_counters was = c;
        const size_t read = m[3].n ? 0 : was.prompt_tokens;
        T_OK(tllm_engine_step(e, &more));
        tllm_engine_count(e, &c);
        T_TRUE(c.rows - was.rows <= SLOTS + BUDGET);
        T_TRUE(c.proposed - was.proposed <= BUDGET);
        full += c.proposed - was.proposed == BUDGET;
        if (read && c.prompt_tokens - was.prompt_tokens == BUDGET) T_EQ_INT(c.proposed, was.proposed);
        if (m[2].n > 1 && !m[3].id) submit(e, &m[3]);
    }
    T_TRUE(full > 0 && m[3].ends == 1);
    if (e) at_rest(e);
    T_PROOF("serving 1", "proposals take what prompts leave of the budget of a step");
    tllm_engine_close(e);
    t_close(ctx);
}

/* Proposals take free pages only: what a free slot keeps is not dropped for them. */
static void test_pages(void)
{
    static mine first, m;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine *e;
    int more = 1, kept = 0, gone = 0;
    memset(&d, 0, sizeof d);
    d.slots = 2;
    d.context = d.cells = 96;               /* six pages */
    d.draft_n = 8;
    d.draft_match = 1;
    d.draft_always = 1;
    e = open_engine(ctx, &d);
    if (!e) return;
    ready(&first, 60, 1, 2);                /* holds 61 tokens: four */
    submit(e, &first);
    run(e);
    quotes(&m, tllm_engine_vocab(e), ctx, 0);
    T_TRUE(m.r.n_prompt < 26);
    submit(e, &m);
    while (more && kept + gone < 100) {
        T_OK(tllm_engine_step(e, &more));
        if (m.r.n_prompt + m.n <= 33) kept += T_EQ_INT(held(e, 0), 61);
        else gone += held(e, 0) == 0;
    }
    T_TRUE(kept > 1 && gone > 0 && m.result.n_kept > 8 && !m.status && m.result.n_again == 0);
    at_rest(e);
    tllm_engine_close(e);
    t_close(ctx);
}

/* A text that refuses nearly all proposals soon gets none, by the share that was kept alone. */
static void test_silence(void)
{
    static mine m[2];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k;
    for (k = 0; k < 2; k++) {
        tllm_engine_desc d;
        tllm_engine *e;
        memset(&d, 0, sizeof d);
        d.slots = 1;
        d.draft_n = 8;
        d.draft_match = 1;
        d.draft_always = k;
        e = open_engine(ctx, &d);
        if (!e) break;
        ready(&m[k], 60, 1, 180);
        m[k].chain[0] = tllm_step_temperature(100.0f);
        m[k].r.chain = m[k].chain;
        m[k].r.n_steps = 1;
        m[k].r.seed = 4;
        m[k].r.gbnf = "root ::= [a-z]{2000}";
        m[k].r.n_gbnf = strlen(m[k].r.gbnf);
        submit(e, &m[k]);
        run(e);
        T_EQ_INT(m[k].n, 180);
        tllm_engine_close(e);
    }
    T_TRUE(m[0].result.n_proposed <= 20 * 8);
T_TRUE(m[1].result.n_proposed >= 60 * 8);
    T_PROOF("serving 3", "in the engine: a request whose proposals are refused gets no more of them");
    t_close(ctx);
}

/* A vocabulary with another text of token 333, and one that ends before it. */
static void other_vocab(tiny_ctx *ctx, const tllm_session *s)
{
    static tllm_text text[V];
    tllm_vocab_desc vd;
    tllm_engine_desc d;
    tllm_engine *e = NULL;
    int32_t t;
    int k;
    memset(&vd, 0, sizeof vd);
    memset(&d, 0, sizeof d);
    d.draft_model = tllm_session_model(s);
    for (t = 0; t < V; t++) text[t] = tllm_vocab_text(tllm_session_vocab(s), t);
    text[333].at = "xyzzy";
    text[333].n = 5;
    vd.model = "llama";
    vd.text = text;
    for (k = 0; k < 2; k++) {
        tllm_vocab *vocab = NULL;
        vd.n_tokens = k ? 333 : V;
        T_OK(tllm_vocab_make(ctx, &vd, &vocab));
        d.draft_vocab = vocab;
        T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "token 333 of the draft is another text");
        T_TRUE(e == NULL);
        tllm_vocab_close(ctx, vocab);
    }
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine *e = NULL;
    tllm_session *s = NULL, *gla = NULL;
    memset(&d, 0, sizeof d);
    d.draft_n = -1;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "0 to 32 tokens");
    T_TRUE(e == NULL);
    d.draft_n = 33;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "not 33");
    d.draft_n = 8;
    d.draft_match = -1;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "after -1");
    d.draft_match = 0;
    T_STATUS(tllm_engine_open_file(ctx, "examples/models/story-gla.gguf", &d, &e), TINY_E_UNSUPPORTED,
             "refused tokens cannot be taken back");
    T_TRUE(e == NULL);
    /* drafts that cannot be */
    T_OK(tllm_session_open(ctx, small_story, NULL, &s));
    T_OK(tllm_session_open(ctx, "examples/models/story-gla.gguf", NULL, &gla));
    d.draft_model = tllm_session_model(s);
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "no vocabulary");
    d.draft_model = tllm_session_model(gla);
    d.draft_vocab = tllm_session_vocab(gla);
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_UNSUPPORTED, "refused tokens cannot be taken back");
    T_TRUE(e == NULL);
    d.draft_n = 0;
    T_STATUS(tllm_engine_open_file(ctx, "examples/models/story-gla.gguf", &d, &e), TINY_E_UNSUPPORTED,
             "refused tokens cannot be taken back");
    other_vocab(ctx, s);
    tllm_session_close(s);
    tllm_session_close(gla);
    t_close(ctx);
}

/* Every allocation fails once and for ever. */
static void allocations(int model)
{
    static mine m[2];
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx = NULL;
        tllm_engine_desc d;
        tllm_engine *e = NULL;
        int more = 1, steps = 0, i, in[2] = { 0, 0 };
        memset(&d, 0, sizeof d);
        d.slots = 2;
        d.context = 24;
        d.page = 4;
        d.draft_n = 3;
        d.draft_match = 1;
        d.draft_always = 1;
        if (tiny_ctx_open(&cd, &ctx) == TINY_OK) {
            tllm_session *s = NULL;
            if (model && !tllm_session_open(ctx, small_story, NULL, &s)) {
                d.draft_model = tllm_session_model(s);
                d.draft_vocab = tllm_session_vocab(s);
            }
            if ((!model || s) && !tllm_engine_open_file(ctx, story, &d, &e)) {
                for (i = 0; i < 2; i++) {
                    ready(&m[i], 5, i, 4);
                    m[i].prompt[4] = m[i].prompt[1];
                    m[i].engine = e;
                    in[i] = tllm_engine_submit(e, &m[i].r, &m[i].id, NULL, 0) == TINY_OK;
                }
                while (more && steps++ < 40) (void)tllm_engine_step(e, &more);
                for (i = 0; i < 2; i++) m[i].engine = NULL;
            }
            tllm_engine_close(e);
            tllm_session_close(s);
            for (i = 0; i < 2; i++) if (in[i]) T_EQ_INT(m[i].ends, 1);
            tiny_ctx_close(ctx);
        }
    )
}

static void test_allocations(void) { allocations(0); }
static void test_allocations_model(void) { allocations(1); }

/* A draft model: its sequences follow the texts. The first proposals of a text come after the draft has read it, a long
 * one in pieces of the budget; the model that is its own draft has all of them kept; and a draft that is wrong is asked
 * more and more rarely. */
static void test_model(void)
{
    static mine m[3];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *self = NULL;
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_engine *e = NULL;
    tllm_state_desc sd;
    int i, more = 1;
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 16;                          /* the engine has states of its own */
    T_OK(tllm_session_open(ctx, story, &sd, &self));
    d.slots = 2;
    d.budget = 20;
    d.draft_always = 1;
    d.draft_model = tllm_session_model(self);
    d.draft_vocab = tllm_session_vocab(self);
    T_OK(tllm_engine_open(ctx, d.draft_model, d.draft_vocab, &d, &e));
    ready(&m[0], 70, 1, 41);
    if (e) submit(e, &m[0]);
    for (i = 0; i < 4 && e; i++) T_OK(tllm_engine_step(e, &more));
    T_EQ_INT(m[0].n, 1);
    /* 71 tokens to be read: in the fourth step of the draft the last 11, and then it proposes */
    for (i = 0; i < 3 && e; i++) T_OK(tllm_engine_step(e, &more));
    tllm_engine_count(e, &c);
    T_TRUE(m[0].n == 4 && c.proposed == 0);
    if (e) T_OK(tllm_engine_step(e, &more));
    tllm_engine_count(e, &c);
    T_EQ_INT(c.proposed, 4);
    T_TRUE(m[0].n > 6);
    if (e) run(e);
    /* the same rows in other passes round a little differently, no more */
    T_TRUE(m[0].n == 41 && m[0].result.n_kept * 10 >= m[0].result.n_proposed * 9);
    T_TRUE(m[0].result.n_proposed >= 28 && m[0].result.n_proposed <= 40);
    /* two at once, one in the slot that was used. Part of the drawn one is refused, and the draft drops that */
    ready(&m[1], 30, 3, 41);
    ready(&m[2], 8, 2, 120);
    m[2].chain[0] = tllm_step_temperature(0.7f);
    m[2].r.chain = m[2].chain;
    m[2].r.n_steps = 1;
    m[2].r.seed = 6;
    for (i = 2; i > 0 && e; i--) submit(e, &m[i]);
    if (e) run(e);
    T_TRUE(m[1].n == 41 && m[1].result.n_kept * 10 >= m[1].result.n_proposed * 9);
    T_TRUE(m[2].n == 120 && m[2].result.n_kept * 5 >= m[2].result.n_proposed * 2);
    for (i = 0; i < 2; i++) ready(&m[i], 40, 5 + i, 41);    /* both slots have other texts */
    for (i = 0; i < 2 && e; i++) submit(e, &m[i]);
    if (e) run(e);
    for (i = 0; i < 2; i++) T_TRUE(m[i].n == 41 && m[i].result.n_kept * 10 >= m[i].result.n_proposed * 9);
    tllm_engine_close(e);
    e = NULL;
    /* always wrong: tokens are drawn nearly uniformly. After some fifteen refusals only trials are left */
    d.draft_always = 0;
    T_OK(tllm_engine_open(ctx, d.draft_model, d.draft_vocab, &d, &e));
    ready(&m[1], 8, 1, 240);
    m[1].chain[0] = tllm_step_temperature(100.0f);
    m[1].r.chain = m[1].chain;
    m[1].r.n_steps = 1;
    m[1].r.seed = 4;
    if (e) {
        submit(e, &m[1]);
        run(e);
        T_EQ_INT(m[1].n, 240);
        T_TRUE(m[1].result.n_proposed > 0 && m[1].result.n_proposed <= 20 * 4 + 4);
    }
    tllm_engine_close(e);
    tllm_session_close(self);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_same_text);
    T_RUN_TARGETS(test_ends);
    T_RUN(test_cancel);
    T_RUN(test_budget);
    T_RUN(test_pages);
    T_RUN(test_silence);
    T_RUN(test_bad_input);
    T_RUN(test_model);
    T_RUN(test_allocations);
    T_RUN(test_allocations_model);
    return t_done();
}
