/* tests/llm/serve/engine_alone.c - a request among many others has the bits of a request alone
 *
 * Truth    each request alone: in an engine with one slot, and by tllm_generate_tokens in a session. */
#include "requests.h"
#if T_PTHREAD
#include <pthread.h>
#endif

/* Random arrivals, five engines of different kinds, with a second thread, little memory, moves, cuts of prompts, and
 * others that are cancelled meanwhile. Logits are compared by the logprob of each token, bit for bit. */
static void test_same_as_alone(tiny_target target)
{
    const int many = target == TINY_TARGET_REFERENCE || target == TINY_TARGET_SCALAR || T_SLOW ? MANY / 2 : MANY;
    static mine alone[MANY], among[MANY], noise[MANY];
    tllm_engine_desc d[5];
    tllm_engine_counters c;
    tiny_rng rng;
    int i, k, j, again = 0, moves = 0, cached = 0;
    a_mix(alone, many);
    alone_of(target, alone, many);
    memset(d, 0, sizeof d);
    for (k = 0; k < 5; k++) {
        d[k].slots = 4 + k;
        d[k].context = 128;
        d[k].exact = 1;
        d[k].budget = k == 1 ? 7 : 64;
    }
    d[1].cells = 208;
    d[2].mode = d[3].mode = TLLM_ENGINE_WINDOW;
    d[3].holes = 1;
    d[4].cells = 600;
    d[4].reserve = 1;
    rng = tiny_rng_make(77, 0);
    for (k = 0; k < 5; k++) {
        tiny_ctx *ctx = t_ctx(target, 1 + k % 2);
        tllm_engine *e = open_engine(ctx, &d[k]);
        int turn[MANY], more = 1, n = 0, steps = 0;
        a_mix(among, many);
        a_mix(noise, many);
        for (j = 0; j < many; j++) turn[j] = j;
        for (j = many - 1; j > 0; j--) {
            const int o = (int)tiny_rng_below(&rng, (uint32_t)(j + 1)), t = turn[j];
            turn[j] = turn[o];
            turn[o] = t;
        }
        while (e && (n < many || more) && steps++ < 20000) {
            if (n < many && tiny_rng_below(&rng, 3) == 0) {
                submit(e, &among[turn[n]]);
                if (n % 3 == 0) submit(e, &noise[turn[n]]);
                n++;
            }
            if (n && tiny_rng_below(&rng, 8) == 0) (void)tllm_engine_cancel(e, noise[turn[n - 1]].id);
            T_OK(tllm_engine_step(e, &more));
        }
        T_TRUE(n == many && !more);
        for (j = 0; j < many; j++) {
            T_EQ_INT(among[j].ends, 1);
            if (!T_TRUE(!differs(&alone[j], &among[j])))
                printf("  engine %d, request %d: %d and %d tokens\n", k, j, (int)alone[j].n, (int)among[j].n);
        }
        at_rest(e);
        tllm_engine_count(e, &c);
        again += (int)c.again;
        moves += (int)c.moves;
        cached += (int)c.cached_tokens;
        if (k == 0 || k == 2 || k == 4) T_TRUE(c.rows == c.rows_useful);
        if (k == 3) T_TRUE(c.rows > c.rows_useful && c.moves == 0 && c.bytes_moved == 0);
        if (k == 4) T_EQ_INT(c.again, 0);
        tllm_engine_close(e);
        t_close(ctx);
    }
    /* what the test is about did happen */
    T_TRUE(again > 0 && moves > 0 && cached > 0);
    for (i = 0; i < many; i++) T_TRUE(alone[i].n > 0);
    T_PROOF("serving 1", "each request has the bits of a run alone, greedy and seeded, for any order of arrival");
    T_PROOF("serving 1", "used rows are the sum of the live rows, with moves and with pages");
}

/* and that is the text of a session with the same option */
static void test_same_as_a_session(tiny_target target)
{
    static mine alone[MANY];
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_state_desc d;
    tllm_session *s = NULL;
    int i;
    a_mix(alone, 6);
    alone_of(target, alone, 6);
    t_use(ctx);
    memset(&d, 0, sizeof d);
    d.n_ctx = 128;
    d.exact = 1;
    T_OK(tllm_session_open(ctx, story, &d, &s));
    for (i = 0; i < 6 && s; i++) {
        tllm_generate_desc g;
        tllm_generate_result r;
        const int32_t *held;
        size_t n = 0;
        memset(&g, 0, sizeof g);
        g.chain = alone[i].r.chain;
        g.n_steps = alone[i].r.n_steps;
        g.seed = alone[i].r.seed;
        g.n_most = alone[i].r.n_most;
        g.past_end = 1;
        T_OK(tllm_generate_tokens(s, alone[i].prompt, alone[i].r.n_prompt, &g, &r));
        held = tllm_session_tokens(s, &n);
        T_EQ_INT(r.n_made, alone[i].n);
        T_EQ_INT(n, r.n_prompt + r.n_made);
        T_TRUE(n >= r.n_made && !memcmp(held + r.n_prompt, alone[i].got, r.n_made * sizeof *held));
        T_TRUE(r.end == alone[i].end);
    }
    tllm_session_close(s);
    t_close(ctx);
}

/* Requests with the same prompt and different adapters, in one engine, each against a session with its adapter alone:
 * the beginning that they share in tokens they do not share in keys and values. */
static void test_adapters(tiny_target target)
{
    enum { WIDTH = 256, RANK = 2, ALL = 4 };
    static const float weight[ALL] = { 0, 1.0f, 0.25f, 1.0f };
    static const uint64_t dim_a[2] = { WIDTH, RANK }, dim_b[2] = { RANK, WIDTH };
    const tllm_text a = { "blk.1.attn_q.weight.lora_a", 26 }, b = { "blk.1.attn_q.weight.lora_b", 26 };
    static mine m[ALL];
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(2 * WIDTH * RANK, -0.5f, 0.5f);
    tllm_engine_desc d;
    tllm_state_desc sd;
    tllm_writer *w = NULL;
    tllm_gguf *file = NULL;
    tllm_adapter *lora = NULL, *mine_too = NULL;
    tllm_engine *e;
    tllm_session *s = NULL;
    const void *bytes = NULL;
    size_t n_bytes = 0, n = 0;
    int i, changed = 0;
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    d.slots = 3;                            /* one waits */
    d.context = sd.n_ctx = 128;
    d.exact = sd.exact = 1;
    e = open_engine(ctx, &d);
    T_OK(tllm_writer_open(ctx, NULL, &w));
    (void)tllm_writer_put_text(ctx, w, "general.type", "adapter");
    (void)tllm_writer_put_text(ctx, w, "general.architecture", "llama");
    (void)tllm_writer_put_text(ctx, w, "adapter.type", "lora");
    (void)tllm_writer_put_f32(ctx, w, "adapter.lora.alpha", 8.0f);
    (void)tllm_writer_put_tensor(ctx, w, a, TLLM_FORMAT_F32, 2, dim_a, x);
    (void)tllm_writer_put_tensor(ctx, w, b, TLLM_FORMAT_F32, 2, dim_b, x + WIDTH * RANK);
    T_OK(tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n_bytes);
    T_OK(tllm_gguf_open_memory(ctx, bytes, n_bytes, &file));
    T_OK(tllm_session_open(ctx, story, &sd, &s));
    T_OK(tllm_adapter_open(ctx, tllm_engine_model(e), file, &lora));
    T_OK(tllm_adapter_open(ctx, tllm_session_model(s), file, &mine_too));
    for (i = 0; i < ALL && e; i++) {
        ready(&m[i], 20, 3, 24);
        m[i].r.adapter = weight[i] > 0 ? lora : NULL;
        m[i].r.adapter_weight = weight[i];
        submit(e, &m[i]);
    }
    if (e) run(e);
    for (i = 0; i < ALL && s && e; i++) {
        tllm_generate_desc g;
        const int32_t *held;
        memset(&g, 0, sizeof g);
        g.n_most = 24;
        g.past_end = 1;
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_session_attach(s, mine_too, weight[i]));
        T_OK(tllm_generate_tokens(s, m[i].prompt, 20, &g, NULL));
        held = tllm_session_tokens(s, &n);
        T_TRUE(m[i].n == 24 && n == 44 && !memcmp(held + 20, m[i].got, 24 * sizeof *held));
        changed += memcmp(m[i].got, m[0].got, 24 * sizeof *held) != 0;
    }
    T_TRUE(changed == 3);                   /* the adapter changes the text, with either weight */
    if (e) at_rest(e);
    tllm_adapter_close(ctx, lora);
    tllm_adapter_close(ctx, mine_too);
    tllm_session_close(s);
    tllm_engine_close(e);
    tllm_gguf_close(ctx, file);
    tllm_writer_close(ctx, w);
    t_close(ctx);
}

static int stop_soon(void *user, const char *text, size_t n)
{
    (void)text;
    (void)n;
    return ++*(int *)user > 4;
}

/* All at once. In the engine: one beginning for all requests, which is taken over from slots; so few pages that
 * requests lose theirs and are computed again; others that are cancelled. In the session that gives the texts to
 * compare with: proposals of a chain or a tree, tokens of the request before that are kept, and a text that was
 * cancelled among its proposals. */
static void test_everything(void)
{
    enum { ALL = 6, SHARED = 40 };
    static const char gbnf[] = "root ::= [a-zA-Z ,.]+";
    static mine m[ALL], noise[ALL];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_engine_desc d;
    tllm_engine_counters c;
    tllm_draft_tree_size size;
    tllm_state_desc sd;
    tllm_session *s = NULL, *small = NULL;
    tllm_grammar *grammar = NULL;
    tllm_engine *e;
    uint64_t kept = 0, reused = 0;
    int i, k, more = 1, steps = 0;
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    d.slots = 4;
    d.context = 128;
    d.cells = 176;
    d.budget = 30;
    d.exact = 1;
    e = open_engine(ctx, &d);
    for (i = 0; i < ALL && e; i++)
        for (k = 0; k < 2; k++) {
            mine *x = k ? &noise[i] : &m[i];
            ready(x, (size_t)(SHARED + 4 + i), 7, 30);
            x->prompt[SHARED + 1] = 100 + 10 * i + k;
            x->chain[0] = tllm_step_penalties(32, 1.2f, 0.1f, 0.0f);
            x->chain[1] = tllm_step_top_p(0.95f);
            x->chain[2] = tllm_step_temperature(0.8f);
            x->r.chain = i % 2 ? x->chain : NULL;
            x->r.n_steps = i % 2 ? 3 : 0;
            x->r.seed = (uint64_t)(70 + i);
            x->stop_at = k && i % 2 ? 3 : 0;
            if (i == 4) {
                x->r.gbnf = gbnf;
                x->r.n_gbnf = sizeof gbnf - 1;
            }
            submit(e, x);
        }
    while (e && more && steps++ < 20000) {
        T_OK(tllm_engine_step(e, &more));
        if (steps % 3 == 0 && steps < 3 * ALL) (void)tllm_engine_cancel(e, noise[steps / 3].id);
    }
    if (e) {
        at_rest(e);
        tllm_engine_count(e, &c);
        T_TRUE(c.again > 0 && c.cancelled >= ALL / 2 && c.cached_tokens >= (ALL - 1) * SHARED && !c.failed);
    }
    (void)tllm_draft_tree_sizes(3, 2, 8, &size);
    sd.n_ctx = 128;
    sd.exact = 1;
    sd.n_seq = size.n_seq;
    T_OK(tllm_session_open(ctx, story, &sd, &s));
    sd.n_seq = size.n_seq_draft;
    T_OK(tllm_session_open(ctx, "examples/models/story-small.gguf", &sd, &small));
    T_OK(tllm_grammar_open(ctx, gbnf, sizeof gbnf - 1, "root", &grammar));
    for (i = 0; i < ALL && s && small && grammar; i++)
        for (k = 0; k < 2; k++) {           /* cancelled; whole */
            tllm_generate_desc g;
            tllm_generate_result r;
            tllm_draft_desc dd;
            tllm_draft_counts n;
            const int32_t *held;
            size_t n_held = 0;
            int heard = 0;
            memset(&g, 0, sizeof g);
            memset(&dd, 0, sizeof dd);
            dd.model = small;
            dd.n = 3;
            dd.always = 1;
            if (i % 3 == 1) T_OK(tllm_draft_tree_open(s, &dd, 2, 8, &g.draft));
            else T_OK(tllm_draft_open(s, &dd, &g.draft));
            g.chain = m[i].r.chain;
            g.n_steps = m[i].r.n_steps;
            g.seed = m[i].r.seed;
            g.n_most = m[i].r.n_most;
            g.past_end = 1;
            g.grammar = i == 4 ? grammar : NULL;
            g.text = k ? NULL : stop_soon;
            g.user = &heard;
            T_OK(tllm_generate_tokens(s, m[i].prompt, m[i].r.n_prompt, &g, &r));
            tllm_draft_count(g.draft, &n);
            tllm_draft_close(g.draft);
            kept += n.kept;
            reused += r.n_reused;
            if (!k) {
                T_TRUE(r.end == TLLM_END_CALLER && r.n_made < 30);
                continue;
            }
            held = tllm_session_tokens(s, &n_held);
            T_TRUE(r.n_reused >= SHARED && r.end == m[i].end);
            if (T_EQ_INT(r.n_made, m[i].n) && T_EQ_INT(n_held, r.n_prompt + r.n_made))
                T_SAME(held + r.n_prompt, m[i].got, r.n_made);
        }
    T_TRUE(kept > ALL && reused > 2 * (ALL - 1) * SHARED);
    T_PROOF("serving 1", "exact: cached beginnings, lost pages, cancels; and the text of a session with drafts");
    tllm_grammar_close(ctx, grammar);
    tllm_session_close(small);
    tllm_session_close(s);
    tllm_engine_close(e);
    t_close(ctx);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

#if T_PTHREAD
typedef struct client { tllm_engine *e; mine *m; int n; } client;
static void *client_main(void *user)
{
    client *c = (client *)user;
    int i;
    for (i = 0; i < c->n; i++) {
        char error[200];
        c->m[i].r.id = c->m[i].id;          /* known before a callback can ask for it */
        while (tllm_engine_submit(c->e, &c->m[i].r, NULL, error, sizeof error) == TINY_E_WORKSPACE) (void)usleep(1000);
        if (i % 4 == 3) (void)tllm_engine_cancel(c->e, c->m[i].id);
    }
    return NULL;
}

/* Three threads submit and cancel while the engine's own one works; texts are those of a run alone. */
static void test_threads(void)
{
    static mine alone[MANY], m[3][MANY];
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tllm_engine_desc d;
    tllm_engine *e;
    pthread_t thread[3];
    client c[3];
    int i, k, started = 0, cancelled = 0;
    tiny_status st;
    a_mix(alone, MANY);
    alone_of(TINY_TARGET_AUTO, alone, MANY);
    memset(&cd, 0, sizeof cd);              /* malloc: that of the tests serves one thread at a time */
    cd.n_threads = 1;
    if (!T_EQ_INT(tiny_ctx_open(&cd, &ctx), TINY_OK)) return;
    t_use(ctx);
    memset(&d, 0, sizeof d);
    d.slots = 5;
    d.context = 128;
    d.queue = 6;
    d.exact = 1;
    e = open_engine(ctx, &d);
    if (!e) return;
    st = tllm_engine_start(e);
    if (st == TINY_E_UNSUPPORTED) {
        T_TRUE(strstr(tiny_ctx_message(ctx), "without threads") != NULL);
        tllm_engine_close(e);
        t_close(ctx);
        T_SKIP("the library has no threads");
        return;
    }
    T_EQ_INT(st, TINY_OK);
    T_EQ_INT(tllm_engine_step(e, NULL), TINY_E_UNSUPPORTED);
    for (k = 0; k < 3; k++) {
        a_mix(m[k], MANY);
        for (i = 0; i < MANY; i++) m[k][i].id = (uint64_t)(1 + 100 * k + i);
        c[k].e = e;
        c[k].m = m[k];
        c[k].n = MANY;
        started += pthread_create(&thread[k], NULL, client_main, &c[k]) == 0;
    }
    for (k = 0; k < started; k++) (void)pthread_join(thread[k], NULL);
    T_TRUE(tllm_engine_idle(e, 60.0));
    tllm_engine_stop(e);
    tllm_engine_stop(e);
    for (k = 0; k < started; k++)
        for (i = 0; i < MANY; i++) {
            T_EQ_INT(m[k][i].ends, 1);
            if (m[k][i].end == TLLM_END_CALLER) cancelled++;
            else T_TRUE(!differs(&alone[i], &m[k][i]));
        }
    T_TRUE(cancelled <= started * 4);
    at_rest(e);
    /* after the stop the caller steps again */
    clear(&alone[0]);
    submit(e, &alone[0]);
    run(e);
    T_EQ_INT(alone[0].ends, 1);
    T_OK(tllm_engine_start(e));             /* and a close stops it */
    tllm_engine_close(e);
    t_close(ctx);
}
#endif

int main(void)
{
    T_RUN_FORMS(test_same_as_alone);
    T_RUN_TARGETS(test_same_as_a_session);
    T_RUN_TARGETS(test_adapters);
    T_RUN(test_everything);
#if T_PTHREAD
    T_RUN(test_threads);
#endif
    return t_done();
}
