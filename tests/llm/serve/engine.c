/* tests/llm/serve/engine.c - many requests in one engine
 *
 * Truth    each request alone: in an engine with one slot, and by tllm_generate_tokens in a session; tllm_forward and
 *          tllm_logprob for logprobs; counts that follow from the lengths of requests. */
#include "requests.h"

/* ---- scheduling -------------------------------------------------------------------------------------------------- */

/* 10002 requests submitted, cancelled and finished at random: each ends once, and nothing is left over. */
static void test_many(void)
{
    enum { ALL = 10002, POOL = 64 };
    static mine pool[POOL];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_engine *e;
    tiny_rng rng;
    long before = 0;
    int k, n = 0, full = 0, cancels = 0, ends = 0, busy[POOL] = { 0 }, more = 1;
    for (k = 0; k < 3; k++) {               /* pages, a window, pages of which nothing is kept */
        rng = tiny_rng_make((uint64_t)(5 + k), 0);
        memset(&d, 0, sizeof d);
        d.slots = 9;
        d.context = 24;
        d.page = 4;
        d.queue = 20;
        d.cells = k == 1 ? 0 : 48;
        d.mode = k == 1 ? TLLM_ENGINE_WINDOW : TLLM_ENGINE_PAGED;
        d.forget = k == 2;
        e = open_engine(ctx, &d);
        if (!e) break;
        for (n = 0, more = 1; n < ALL / 3 || more;) {
            const int at = (int)tiny_rng_below(&rng, POOL), what = (int)tiny_rng_below(&rng, 16);
            if (busy[at] && pool[at].ends) {
                T_EQ_INT(pool[at].ends, 1);
                ends++;
                busy[at] = 0;
            }
            if (n < ALL / 3 && what < 11 && !busy[at]) {
                tiny_status st;
                ready(&pool[at], 1 + (size_t)tiny_rng_below(&rng, 12), (int)tiny_rng_below(&rng, 3),
                      1 + (size_t)tiny_rng_below(&rng, 5));
                pool[at].r.logprobs = 0;
                pool[at].r.priority = (int)tiny_rng_below(&rng, 3);
                pool[at].engine = e;
                st = tllm_engine_submit(e, &pool[at].r, &pool[at].id, NULL, 0);
                n++;
                if (st == TINY_E_WORKSPACE) full++;
                else if (T_EQ_INT(st, TINY_OK)) busy[at] = 1;
            } else if (what == 11 && busy[at]) cancels += tllm_engine_cancel(e, pool[at].id) == TINY_OK;
            else if (what > 13 || n == ALL / 3) T_OK(tllm_engine_step(e, &more));
        }
        at_rest(e);
        tllm_engine_count(e, &c);
        T_EQ_INT(c.accepted + c.refused, ALL / 3);
        T_EQ_INT(c.failed, 0);
        T_TRUE(c.cancelled > 100 && (k == 1 || c.again > 0));
        if (k == 2) T_EQ_INT(c.cells_free, c.cells);
        for (n = 0; n < POOL; n++) {
            if (busy[n]) ends += T_EQ_INT(pool[n].ends, 1);
            busy[n] = 0;
        }
        tllm_engine_close(e);
        /* the context keeps its workspace after the first one */
        if (k) T_EQ_INT(t_alloc.live_blocks, before);
        before = t_alloc.live_blocks;
    }
    T_TRUE(full > 0 && cancels > 100);
    T_EQ_INT(ends + full, ALL);
    t_close(ctx);
    T_PROOF("serving 1", "slots and pages are conserved after 10^4 random submits, cancels and ends");
    T_PROOF("serving 1", "no starvation: every request ends");
}

/* One slot: the higher priority first, then the order of arrival. */
static void test_order(void)
{
    static mine m[5];
    static const int priority[5] = { 0, 0, 2, 1, 2 }, order[5] = { 3, 4, 0, 2, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine *e;
    int i;
    memset(&d, 0, sizeof d);
    d.slots = 1;
    e = open_engine(ctx, &d);
    order_of_ends = 0;
    for (i = 0; i < 5 && e; i++) {
        ready(&m[i], 5, i, 3);
        m[i].r.priority = priority[i];
        submit(e, &m[i]);
    }
    run(e);
    for (i = 0; i < 5; i++) T_EQ_INT(m[i].order, order[i]);
    tllm_engine_close(e);
    t_close(ctx);
}

/* A long prompt goes in pieces of the budget, and the others make a token in each step meanwhile. */
static void test_budget(void)
{
    static mine m[2];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine_slot slot[2];
    tllm_engine *e;
    int i, more;
    memset(&d, 0, sizeof d);
    d.slots = 2;
    d.budget = 10;
    e = open_engine(ctx, &d);
    if (!e) return;
    ready(&m[0], 5, 1, 30);
    ready(&m[1], 95, 2, 3);
    submit(e, &m[0]);
    T_OK(tllm_engine_step(e, &more));
    T_EQ_INT(m[0].n, 1);
    submit(e, &m[1]);
    for (i = 1; i <= 9; i++) {
        T_OK(tllm_engine_step(e, &more));
        T_EQ_INT(m[0].n, 1 + i);
        T_EQ_INT(m[1].n, 0);
        T_EQ_INT(tllm_engine_slots(e, slot, 2), 2);
        T_EQ_INT(slot[1].n_held, 10 * i + 1);   /* the first token is that of the other one */
        T_TRUE(slot[1].work == TLLM_SLOT_READS && slot[0].work == TLLM_SLOT_WRITES && slot[0].n_made == m[0].n);
    }
    T_OK(tllm_engine_step(e, &more));
    T_EQ_INT(m[1].n, 1);
    run(e);
    tllm_engine_close(e);
    t_close(ctx);
    T_PROOF("serving 1", "a prompt is read in pieces of the budget, and decoding never waits for a whole one");
}

/* n_cached: of a free slot, of a busy one, of a turn of a talk; none with logprobs of the prompt or another adapter. */
static void test_prefix(void)
{
    static mine m[6];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k, more;
    for (k = 0; k < 3; k++) {
        tllm_engine_desc d;
        tllm_engine_counters c;
        tllm_engine *e;
        memset(&d, 0, sizeof d);
        d.slots = 3;
        d.exact = 1;
        d.forget = k == 2;
        d.mode = k == 1 ? TLLM_ENGINE_WINDOW : TLLM_ENGINE_PAGED;
        e = open_engine(ctx, &d);
        if (!e) return;
        ready(&m[0], 50, 1, 10);
        submit(e, &m[0]);
        run(e);
        T_EQ_INT(m[0].result.n_cached, 0);
        /* the talk goes on: the prompt and the answer, without its last token, which was never computed */
        ready(&m[1], 50, 1, 10);
        memcpy(m[1].prompt + 50, m[0].got, 10 * sizeof(int32_t));
        m[1].prompt[60] = 7;
        m[1].r.n_prompt = 61;
        submit(e, &m[1]);
        run(e);
        T_EQ_INT(m[1].result.n_cached, k == 2 ? 0 : 59);
        /* the same prompt again: all but the last token; the bits of the first time */
        ready(&m[2], 50, 1, 10);
        submit(e, &m[2]);
        run(e);
        T_EQ_INT(m[2].result.n_cached, k == 2 ? 0 : 49);
        T_TRUE(!differs(&m[0], &m[2]));
        /* of a busy slot, for two at once */
        ready(&m[3], 80, 9, 30);
        submit(e, &m[3]);
        T_OK(tllm_engine_step(e, &more));
        ready(&m[4], 60, 9, 5);
        ready(&m[5], 70, 9, 5);
        submit(e, &m[4]);
        submit(e, &m[5]);
        run(e);
        T_EQ_INT(m[3].result.n_cached, k == 2 ? 0 : 1);     /* the first token of all of them */
        T_EQ_INT(m[4].result.n_cached, k == 2 ? 59 : 59);   /* busy slots lend in any case */
        T_EQ_INT(m[5].result.n_cached, 69);
        ready(&m[2], 50, 1, 10);
        m[2].r.prompt_logprobs = 1;
        submit(e, &m[2]);
        run(e);
        T_EQ_INT(m[2].result.n_cached, 0);
        T_EQ_INT(m[2].n_prompt_probs, 49);
        m[2].n_prompt_probs = 0;
        memcpy(m[2].prompt_logprob, m[0].prompt_logprob, sizeof m[0].prompt_logprob);
        T_TRUE(!differs(&m[0], &m[2]));
        tllm_engine_count(e, &c);
        T_EQ_INT(c.cached_tokens + c.prompt_tokens, 50 + 61 + 50 + 80 + 60 + 70 + 50);
        tllm_engine_close(e);
    }
    t_close(ctx);
}

/* With `reserve` a request waits until its longest text has pages, next to those of a text that is kept. */
static void test_reserve(void)
{
    static mine kept, later;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_engine *e;
    int i, more;
    memset(&d, 0, sizeof d);
    d.slots = 2;
    d.context = d.cells = 96;
    d.reserve = 1;
    e = open_engine(ctx, &d);
    if (!e) return;
    ready(&kept, 64, 1, 1);
    kept.r.keep = 1;
    submit(e, &kept);
    run(e);
    ready(&later, 10, 2, 30);
    submit(e, &later);
    for (i = 0; i < 5; i++) T_OK(tllm_engine_step(e, &more));
    tllm_engine_count(e, &c);
    T_TRUE(later.n == 0 && c.running == 0 && c.waiting == 1);  /* 40 tokens need three pages of two that are left */
    T_OK(tllm_engine_release(e, kept.id));
    run(e);
    T_TRUE(later.n == 30 && later.result.n_again == 0);
    at_rest(e);
    tllm_engine_close(e);
    t_close(ctx);
}

/* Four answers to one prompt that arrive together, and one with a shorter beginning: it is computed once. The first one
 * may be cancelled while the others wait for it. */
static void test_together(void)
{
    static mine m[5], alone[5];
    int k, i;
    for (k = 0; k < 3; k++) {
        tiny_ctx *ctx;
        tllm_engine_desc d;
        tllm_engine_counters c;
        tllm_engine *e;
        int more;
        for (i = 0; i < 5; i++) {
            ready(&m[i], 70, 3, 12);
            m[i].chain[0] = tllm_step_temperature(1.2f);
            m[i].r.chain = m[i].chain;
            m[i].r.n_steps = 1;
            m[i].r.seed = (uint64_t)(50 + i);
        }
        m[4].prompt[40] = 9;
        memcpy(alone, m, sizeof alone);
        for (i = 0; i < 5; i++) {
            alone[i].r.prompt = alone[i].prompt;
            alone[i].r.chain = alone[i].chain;
            alone[i].r.user = &alone[i];
        }
        alone_of(TINY_TARGET_AUTO, alone, 5);
        ctx = t_ctx(TINY_TARGET_AUTO, 1);
        memset(&d, 0, sizeof d);
        d.slots = 5;
        d.context = 128;
        d.budget = 30;
        d.exact = 1;
        d.mode = k == 1 ? TLLM_ENGINE_WINDOW : TLLM_ENGINE_PAGED;
        e = open_engine(ctx, &d);
        for (i = 0; i < 5 && e; i++) submit(e, &m[i]);
        if (k == 2) {                       /* 30 tokens are read, then the reader goes */
            T_OK(tllm_engine_step(e, &more));
            T_EQ_INT(tllm_engine_cancel(e, m[0].id), TINY_OK);
        }
        run(e);
        tllm_engine_count(e, &c);
        /* the second one goes on; for ten tokens more than the 30 the last one does not wait */
        T_EQ_INT(c.prompt_tokens, k < 2 ? 70 + 3 + 30 : 30 + 40 + 2 + 40);
        T_TRUE(c.rows == c.rows_useful);
        for (i = k == 2; i < 5; i++) {
            T_TRUE(!differs(&m[i], &alone[i]));
            if (k < 2) T_EQ_INT(m[i].result.n_cached, i == 0 ? 0 : i < 4 ? 69 : 40);
        }
        tllm_engine_close(e);
        t_close(ctx);
    }
}

static void test_callbacks(void)
{
    static mine a, b, c, later;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine *e = open_engine(ctx, NULL);
    if (!e) return;
    ready(&a, 5, 1, 20);
    ready(&b, 6, 2, 20);
    ready(&c, 7, 3, 20);
    ready(&later, 8, 4, 6);
    later.engine = e;
    a.other = &b;                           /* cancels it */
    c.other = &later;                       /* submits it */
    c.submits = 1;
    b.stop_at = 0;
    c.stop_at = 5;                          /* and ends itself */
    submit(e, &a);
    submit(e, &b);
    submit(e, &c);
    run(e);
    T_TRUE(a.end == TLLM_END_LENGTH && a.n == 20);
    T_TRUE(b.end == TLLM_END_CALLER && b.n >= 1 && b.n <= 3 && !b.status);
    T_TRUE(c.end == TLLM_END_CALLER && c.n == 5);
    T_TRUE(later.end == TLLM_END_LENGTH && later.n == 6);
    at_rest(e);
    /* one that cancels itself, and a close with requests at work, in the queue and in the inbox */
    ready(&a, 5, 1, 20);
    a.other = &a;
    submit(e, &a);
    run(e);
    T_TRUE(a.end == TLLM_END_CALLER && a.n == 2);
    ready(&a, 5, 1, 20);
    ready(&b, 5, 1, 20);
    submit(e, &a);
    T_OK(tllm_engine_step(e, NULL));
    submit(e, &b);
    a.engine = b.engine = NULL;
    tllm_engine_close(e);
    T_TRUE(a.ends == 1 && b.ends == 1 && a.end == TLLM_END_CALLER && a.n == 1 && b.n == 0);
    t_close(ctx);
    T_PROOF("serving 1", "a callback may submit and cancel");
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int to_text(void *user, const char *text, size_t n)
{
    mine *m = (mine *)user;
    memcpy(m->text + m->n_text, text, n);
    m->n_text += n;
    return 0;
}

/* Text, ends and held bytes as tllm_generate has them: stop strings, grammar, schema, length, context. */
static void test_text(void)
{
    static const char *const stops[2] = { "zebra", ". " };
    static const char gbnf[] = "root ::= \"the \" (\"cat\" | \"dog\") \" \" [a-z]{3,9} \".\"", schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]}},\"required\":[\"a\"]}";
    static mine m, want;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_state_desc sd;
    tllm_session *s = NULL;
    tllm_engine *e;
    tllm_grammar *g = NULL;
    int k;
    memset(&d, 0, sizeof d);
    d.exact = 1;
    d.context = 64;
    e = open_engine(ctx, &d);
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 64;
    sd.exact = 1;
    T_OK(tllm_session_open(ctx, story, &sd, &s));
    T_OK(tllm_grammar_open(ctx, gbnf, sizeof gbnf - 1, "root", &g));
    for (k = 0; k < 7 && e && s && g; k++) {
        tllm_generate_desc gd;
        tllm_generate_result r;
        memset(&gd, 0, sizeof gd);
        memset(&want, 0, sizeof want);
        ready(&m, 12, 1 + k, k == 4 ? 0 : 40);
        m.r.past_end = gd.past_end = k > 3;
        gd.n_most = m.r.n_most;
        gd.text = to_text;
        gd.user = &want;
        if (k == 0) {
            m.r.stop = gd.stop = stops;
            m.r.n_stop = gd.n_stop = 2;
        }
        if (k == 1) m.r.grammar = gd.grammar = g;
        if (k == 2) {
            gd.grammar = g;
            m.r.gbnf = gbnf;
            m.r.n_gbnf = sizeof gbnf - 1;
        }
        if (k == 3) {
            m.r.schema = schema;
            m.r.n_schema = sizeof schema - 1;
        }
        if (k == 5) {
            m.chain[0] = tllm_step_temperature(1.1f);
            m.r.chain = gd.chain = m.chain;
            m.r.n_steps = gd.n_steps = 1;
            m.r.seed = gd.seed = 9;
        }
        if (k == 6) m.r.special = gd.special = 1;
        submit(e, &m);
        run(e);
        T_EQ_INT(m.status, TINY_OK);
        if (k == 3) {
            T_TRUE(m.n_text < sizeof m.text && strspn(m.text, " \t\r\n{") == strcspn(m.text, "\"") &&
                   strstr(m.text, "\"a\"") && strchr(m.text, '}'));
            T_TRUE(m.end == TLLM_END_GRAMMAR || m.end == TLLM_END_TOKEN);
            continue;
        }
        T_OK(tllm_generate_tokens(s, m.prompt, m.r.n_prompt, &gd, &r));
        T_EQ_INT(m.end, r.end);
        T_EQ_INT(m.n, r.n_made);
        if (T_EQ_INT(m.n_text, want.n_text)) T_TRUE(!memcmp(m.text, want.text, m.n_text));
        if (k == 0 && m.end == TLLM_END_STRING) T_EQ_TEXT(m.stop, ". ");
        if (k == 4) T_TRUE(m.end == TLLM_END_CONTEXT && m.n == 64 - 12 + 1);
    }
    tllm_grammar_close(ctx, g);
    tllm_session_close(s);
    tllm_engine_close(e);
    t_close(ctx);
}

/* Logprobs of answer and prompt, and alternatives, against tllm_forward on the reference. */
static void test_logprobs(void)
{
    static mine m, b;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_session *s = NULL;
    tllm_engine_desc d;
    tllm_engine *e;
    static float logits[60 * V];
    int32_t all[60], top[4];
    double p, tops[4];
    size_t i;
    memset(&d, 0, sizeof d);
    d.budget = 25;
    e = open_engine(ctx, &d);
    T_OK(tllm_session_open(ctx, story, NULL, &s));
    if (!e || !s) return;
    ready(&m, 45, 3, 8);
    m.r.prompt_logprobs = 1;
    m.r.n_top = 4;
    ready(&b, 45, 4, 8);                    /* and another one that wants them at the same time */
    b.r.prompt_logprobs = 1;
    submit(e, &m);
    submit(e, &b);
    run(e);
    T_EQ_INT(m.n_prompt_probs, 44);
    T_EQ_INT(b.n_prompt_probs, 44);
    memcpy(all, m.prompt, 45 * sizeof *all);
    memcpy(all + 45, m.got, 8 * sizeof *all);
    T_OK(tllm_forward(tllm_session_state(s), all, 53, 0, 53, logits));
    for (i = 0; i + 1 < 53; i++) {
        T_OK(tllm_logprob(ctx, logits + i * V, V, all[i + 1], &p));
        T_CLOSE(i + 1 < 45 ? m.prompt_logprob[i + 1] : m.logprob[i + 1 - 45], p, 0.0);
    }
    T_OK(tllm_logprobs(ctx, logits + 51 * V, V, 4, top, tops));
    T_SAME(m.top, top, 4);
    T_SAME(m.top_logprob, tops, 4);
    /* the prompt alone: what evaluation programs ask for */
    ready(&m, 45, 3, 0);
    m.r.prompt_logprobs = m.r.prompt_only = 1;
    submit(e, &m);
    run(e);
    T_TRUE(m.n == 0 && m.n_prompt_probs == 44 && m.end == TLLM_END_LENGTH);
    T_OK(tllm_logprob(ctx, logits + 43 * V, V, all[44], &p));
    T_CLOSE(m.prompt_logprob[44], p, 0.0);
    /* a bias before the chain */
    ready(&m, 45, 3, 3);
    {
        const tllm_bias bias[2] = { { 77, 1000.0f }, { 78, 900.0f } };
        m.r.bias = bias;
        m.r.n_bias = 2;
        submit(e, &m);
    }
    run(e);
    T_TRUE(m.n == 3 && m.got[0] == 77 && m.got[2] == 77 && m.logprob[0] < 0.0);
    tllm_engine_close(e);
    tllm_session_close(s);
    t_close(ctx);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refused(tllm_engine *e, mine *m, tiny_status want, const char *part)
{
    char error[240] = "?";
    uint64_t id = 5;
    T_EQ_INT(tllm_engine_submit(e, &m->r, &id, error, sizeof error), want);
    if (!T_TRUE(strstr(error, part) != NULL)) printf("  \"%s\" is without \"%s\"\n", error, part);
    T_TRUE(id == 0);
}

static void test_bad_input(void)
{
    static mine m, other;
    static const char *const empty[1] = { "" }, *const none[1] = { NULL };
    static const int32_t wrong[3] = { 1, 2, V };
    tllm_bias bias = { V, 1.0f };
    tllm_step chain[2];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_engine *e = NULL;
    memset(&d, 0, sizeof d);
    d.slots = 1;
    d.context = 32;
    d.queue = 2;
    e = open_engine(ctx, &d);
    if (!e) return;
    ready(&m, 32, 1, 1);
    refused(e, &m, TINY_E_WORKSPACE, "the prompt has 32 tokens, but prompt and answer together may have 32");
    ready(&m, 5, 1, 1);
    m.r.n_prompt = 0;
    refused(e, &m, TINY_E_ARGUMENT, "no tokens");
    m.r.n_prompt = 5;
    m.r.prompt = NULL;
    refused(e, &m, TINY_E_ARGUMENT, "no tokens");
    m.r.prompt = wrong;
    m.r.n_prompt = 3;
    refused(e, &m, TINY_E_ARGUMENT, "token 2 of the prompt is 544, but the vocabulary has 544");
    ready(&m, 5, 1, 1);
    m.r.n_steps = 65;
    m.r.chain = chain;
    refused(e, &m, TINY_E_ARGUMENT, "65 steps");
    chain[0] = tllm_step_temperature(-1.0f);
    m.r.n_steps = 1;
    refused(e, &m, TINY_E_ARGUMENT, "temperature: t is -1");
    chain[0] = tllm_step_bias(&bias, 1);
    refused(e, &m, TINY_E_ARGUMENT, "token 544 is outside");
    chain[0] = tllm_step_bias(&bias, 1000000);          /* of which one is there */
    refused(e, &m, TINY_E_ARGUMENT, "1000000 biases");
    m.r.chain = NULL;
    refused(e, &m, TINY_E_ARGUMENT, "but is NULL");
    m.r.n_steps = 0;
    m.r.bias = &bias;
    m.r.n_bias = 1;
    refused(e, &m, TINY_E_ARGUMENT, "token 544 is outside");
    m.r.n_bias = 1000000;
    refused(e, &m, TINY_E_ARGUMENT, "1000000 biases");
    m.r.n_bias = 0;
    m.r.stop = empty;
    m.r.n_stop = 1;
    refused(e, &m, TINY_E_ARGUMENT, "stop string 0 is empty");
    m.r.stop = none;
    refused(e, &m, TINY_E_ARGUMENT, "stop string 0 is NULL");
    m.r.n_stop = 65;
    refused(e, &m, TINY_E_ARGUMENT, "65 stop strings");
    m.r.n_stop = 0;
    m.r.gbnf = "root ::= x";
    m.r.n_gbnf = 10;
    refused(e, &m, TINY_E_FORMAT, "x");
    m.r.schema = "{\"not\": {}}";
    m.r.n_schema = 11;
    refused(e, &m, TINY_E_ARGUMENT, "not 2 of them");
    m.r.gbnf = NULL;
    refused(e, &m, TINY_E_UNSUPPORTED, "not");
    m.r.schema = NULL;
    m.r.n_top = 65;
    refused(e, &m, TINY_E_ARGUMENT, "65 alternatives");
    m.r.n_top = 0;
    m.r.adapter_weight = NAN;
    refused(e, &m, TINY_E_ARGUMENT, "weight");
    m.r.adapter_weight = 0.0f;
    m.r.id = 99;
    m.id = 99;
    submit(e, &m);
    T_EQ_INT(m.id, 99);
    ready(&other, 5, 1, 1);
    other.r.id = 99;
    refused(e, &other, TINY_E_ARGUMENT, "the id 99 is that of a request that did not end");
    other.r.id = 0;
    submit(e, &other);
    refused(e, &other, TINY_E_WORKSPACE, "the queue is full: 2 requests wait");
    T_EQ_INT(tllm_engine_cancel(e, 12345), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_cancel(e, 0), TINY_E_ARGUMENT);
    run(e);
    T_TRUE(m.n == 1 && other.n == 1);
    T_EQ_INT(tllm_engine_cancel(e, 99), TINY_E_ARGUMENT);       /* it has ended */
    m.r.id = 99;                            /* and its id is free again */
    clear(&m);
    m.id = 99;
    submit(e, &m);
    run(e);
    /* n_most 0: no limit but the context */
    ready(&m, 5, 1, 0);
    submit(e, &m);
    run(e);
    T_TRUE(m.end == TLLM_END_CONTEXT && m.n == 28);
    tllm_engine_count(e, &c);
    T_EQ_INT(c.refused, 21);
    T_EQ_INT(c.accepted, 4);
    at_rest(e);
    tllm_engine_close(e);
    /* engines that cannot be */
    d.slots = -1;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "-1 slots");
    T_TRUE(e == NULL);
    d.slots = 1025;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "at most 1024 slots");
    d.slots = 2;
    d.mode = (tllm_engine_mode)7;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "7 is no mode");
    d.mode = TLLM_ENGINE_WINDOW;
    d.cells = 100;
    T_STATUS(tllm_engine_open_file(ctx, story, &d, &e), TINY_E_ARGUMENT, "cells and reserve are for pages");
    T_STATUS(tllm_engine_open_file(ctx, "nowhere.gguf", NULL, &e), TINY_E_IO, "nowhere.gguf");
    T_STATUS(tllm_engine_open_file(ctx, NULL, NULL, &e), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_engine_open_file(ctx, story, NULL, NULL), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_engine_open(ctx, NULL, NULL, NULL, &e), TINY_E_ARGUMENT, "NULL");
    /* NULL everywhere */
    T_EQ_INT(tllm_engine_submit(NULL, &m.r, NULL, NULL, 0), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_cancel(NULL, 1), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_step(NULL, NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_start(NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_slots(NULL, NULL, 0), 0);
    tllm_engine_count(NULL, &c);
    tllm_engine_count(NULL, NULL);
    tllm_engine_stop(NULL);
    tllm_engine_close(NULL);
    T_TRUE(tllm_engine_idle(NULL, 1.0) && !tllm_engine_model(NULL) && !tllm_engine_vocab(NULL) &&
           !tllm_engine_file(NULL) && !tllm_engine_context(NULL));
    t_close(ctx);
    T_PROOF("serving 1", "refused: long and empty prompts, a duplicate id, unknown and ended ids, a full queue");
}

/* Where positions are learned, a request ends with the last of them. */
static void test_learned_positions(void)
{
    static mine m;
    const char *path = t_one_of("oracle/llm/gpt2.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc d;
    tllm_engine *e = NULL;
    tllm_about about;
    memset(&d, 0, sizeof d);
    d.context = 5000;
    d.slots = 1;
    d.cells = 5000;
    if (path && T_OK(tllm_engine_open_file(ctx, path, &d, &e))) {
        tllm_model_about(tllm_engine_model(e), &about);
        T_EQ_INT(tllm_engine_context(e), about.n_context);
        ready(&m, 5, 1, 0);
        m.prompt[0] = m.prompt[1] = m.prompt[2] = m.prompt[3] = m.prompt[4] = 1;
        m.r.logprobs = 0;
        submit(e, &m);
        run(e);
        T_TRUE(m.end == TLLM_END_CONTEXT && m.n == (size_t)about.n_context - 5 + 1 && !m.status);
    }
    tllm_engine_close(e);
    t_close(ctx);
}

/* Every allocation fails once and for ever: a request is refused or ends, and nothing is left over. */
static void test_allocations(void)
{
    static mine m[2];
    static const char *const stop[1] = { "x" };
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *ctx = NULL;
        tllm_engine_desc d;
        tllm_engine *e = NULL;
        int more = 1, steps = 0, i, in[2] = { 0, 0 };
        memset(&d, 0, sizeof d);
        d.slots = 2;
        d.context = 16;
        if (tiny_ctx_open(&cd, &ctx) == TINY_OK) {
            if (!tllm_engine_open_file(ctx, story, &d, &e)) {
                for (i = 0; i < 2; i++) {
                    ready(&m[i], 4, i, 2);
                    m[i].r.gbnf = "root ::= [a-z]*";
                    m[i].r.n_gbnf = 15;
                    m[i].r.stop = stop;
                    m[i].r.n_stop = 1;
                    m[i].engine = e;
                    in[i] = tllm_engine_submit(e, &m[i].r, &m[i].id, NULL, 0) == TINY_OK;
                }
                while (more && steps++ < 40) (void)tllm_engine_step(e, &more);
                for (i = 0; i < 2; i++) m[i].engine = NULL;
            }
            tllm_engine_close(e);
            for (i = 0; i < 2; i++) if (in[i]) T_EQ_INT(m[i].ends, 1);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN(test_many);
    T_RUN(test_order);
    T_RUN(test_budget);
    T_RUN(test_prefix);
    T_RUN(test_reserve);
    T_RUN(test_together);
    T_RUN(test_callbacks);
    T_RUN(test_text);
    T_RUN(test_logprobs);
    T_RUN(test_bad_input);
    T_RUN(test_learned_positions);
    T_RUN(test_allocations);
    return t_done();
}
