/* tests/llm/serve/requests.h - requests of an engine, and what came of them */
#include "t.h"

static const char story[] = "examples/models/story.gguf";       /* llama, 544 tokens, a context of 256 */
enum { V = 544, MANY = 14, MOST = 40 };

/* a request and what came of it */
typedef struct mine {
    tllm_request r;
    int32_t prompt[128];
    tllm_step chain[3];
    uint64_t id;
    int32_t got[MOST + 8];
    double logprob[MOST + 8];
    char text[4096], why[200], stop[40];
    size_t n, n_text, n_prompt_probs;
    double prompt_logprob[128];
    int32_t top[4];
    double top_logprob[4];
    int ends, order, stop_at;               /* stop_at: the callback ends it after so many tokens; 0: never */
    tllm_end end;
    tiny_status status;
    tllm_engine_result result;
    struct mine *other;                     /* cancelled, or submitted, by the callback */
    tllm_engine *engine;
    int submits;
} mine;
static int order_of_ends;

T_FN int on_token(void *user, const tllm_engine_token *t)
{
    mine *m = (mine *)user;
    size_t i;
    T_TRUE(t->id == m->id);
    for (i = 0; i < t->n_top && i < 4; i++) {
        m->top[i] = t->top[i].token;
        m->top_logprob[i] = t->top[i].logprob;
    }
    if (t->prompt) {
        T_TRUE(t->index < m->r.n_prompt && t->token == m->prompt[t->index]);
        m->prompt_logprob[t->index] = t->logprob;
        m->n_prompt_probs++;
        return 0;
    }
    T_TRUE(t->index == m->n && !m->ends);
    if (m->n < T_COUNT(m->got)) {
        m->got[m->n] = t->token;
        m->logprob[m->n] = t->logprob;
    }
    m->n++;
    if (m->n_text + t->n_text < sizeof m->text) memcpy(m->text + m->n_text, t->text, t->n_text);
    m->n_text += t->n_text;
    if (m->other && m->n == 2) {
        if (m->submits) T_EQ_INT(tllm_engine_submit(m->engine, &m->other->r, &m->other->id, NULL, 0), TINY_OK);
        else T_EQ_INT(tllm_engine_cancel(m->engine, m->other->id), TINY_OK);
    }
    return m->stop_at && m->n == (size_t)m->stop_at;
}
T_FN void on_end(void *user, const tllm_engine_result *r)
{
    mine *m = (mine *)user;
    m->ends++;
    m->order = order_of_ends++;
    m->end = r->end;
    m->status = r->status;
    m->result = *r;
    (void)snprintf(m->why, sizeof m->why, "%s", r->error);
    (void)snprintf(m->stop, sizeof m->stop, "%s", r->stop ? r->stop : "");
    if (m->n_text + r->n_text < sizeof m->text) memcpy(m->text + m->n_text, r->text, r->n_text);
    m->n_text += r->n_text;
    T_TRUE(r->id == m->id && r->n_made == m->n && r->user == m);
    T_TRUE(r->seconds >= r->first_seconds && r->first_seconds >= r->start_seconds && r->start_seconds >= 0.0);
    T_TRUE(!r->status == !*r->error);
    /* it has ended: its id is unknown from here on */
    if (m->engine) T_EQ_INT(tllm_engine_cancel(m->engine, r->id), TINY_E_ARGUMENT);
}

T_FN void clear(mine *m)                    /* keeps the request, forgets what came of it */
{
    const mine old = *m;
    memset(m, 0, sizeof *m);
    m->r = old.r;
    memcpy(m->prompt, old.prompt, sizeof m->prompt);
    memcpy(m->chain, old.chain, sizeof m->chain);
    m->other = old.other;
    m->submits = old.submits;
    m->stop_at = old.stop_at;
    m->engine = old.engine;
}
T_FN void ready(mine *m, size_t n_prompt, int seed, size_t n_most)
{
    size_t i;
    memset(m, 0, sizeof *m);
    for (i = 0; i < n_prompt; i++) m->prompt[i] = (int32_t)(3 + ((size_t)seed * 131 + i * i * 7 + i * 29) % 530);
    m->prompt[0] = 1;
    m->r.prompt = m->prompt;
    m->r.n_prompt = n_prompt;
    m->r.n_most = n_most;
    m->r.past_end = 1;
    m->r.logprobs = 1;
    m->r.token = on_token;
    m->r.end = on_end;
    m->r.user = m;
}
/* requests of many kinds: greedy and drawn, short and long, some with the same beginning */
T_FN void a_mix(mine *m, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        ready(&m[i], (size_t)(1 + i * 17 % 70), i % 3 ? i : 5, (size_t)(1 + i * 11 % MOST));
        m[i].chain[0] = tllm_step_penalties(32, 1.2f, 0.1f, 0.0f);
        m[i].chain[1] = tllm_step_top_p(0.95f);
        m[i].chain[2] = tllm_step_temperature(0.9f + 0.05f * (float)i);
        m[i].r.chain = i % 2 ? m[i].chain : NULL;
        m[i].r.n_steps = i % 2 ? 3 : 0;
        m[i].r.seed = (uint64_t)(1000 + i);
        m[i].r.priority = i % 5 == 4;
        m[i].r.prompt_logprobs = i % 4 == 3;
    }
}

T_FN tllm_engine *open_engine(tiny_ctx *ctx, const tllm_engine_desc *d)
{
    tllm_engine *e = NULL;
    T_OK(tllm_engine_open_file(ctx, story, d, &e));
    return e;
}
T_FN void submit(tllm_engine *e, mine *m)
{
    char error[200];
    m->engine = e;
    if (!T_EQ_INT(tllm_engine_submit(e, &m->r, &m->id, error, sizeof error), TINY_OK)) printf("  %s\n", error);
    T_TRUE(m->id != 0 && !*error);
}
T_FN void run(tllm_engine *e)
{
    int more = 1, steps = 0;
    while (more && steps++ < 20000) T_OK(tllm_engine_step(e, &more));
    T_TRUE(!more && tllm_engine_idle(e, 0.0));
}
/* nothing runs or waits, and all pages are free or held by free slots */
T_FN void at_rest(tllm_engine *e)
{
    tllm_engine_counters c;
    tllm_engine_slot slot[64];
    size_t n, i, held = 0;
    tllm_engine_count(e, &c);
    T_EQ_INT(c.running + c.waiting, 0);
    T_EQ_INT(c.accepted, c.ended);
    n = tllm_engine_slots(e, slot, 64);
    for (i = 0; i < n; i++) {
        T_TRUE(slot[i].work == TLLM_SLOT_FREE && slot[i].id == 0);
        held += slot[i].n_held > 0;
    }
    if (!held) T_EQ_INT(c.cells_free, c.cells);
}

T_FN int differs(const mine *a, const mine *b)
{
    return a->n != b->n || a->end != b->end || a->n_text != b->n_text || memcmp(a->text, b->text, a->n_text) ||
           memcmp(a->got, b->got, a->n * sizeof *a->got) ||
           memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob) || a->n_prompt_probs != b->n_prompt_probs ||
           memcmp(a->prompt_logprob, b->prompt_logprob, sizeof a->prompt_logprob);
}

T_FN void alone_of(tiny_target target, mine *alone, int n)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_engine_desc d;
    tllm_engine *e;
    int i;
    memset(&d, 0, sizeof d);
    d.slots = 1;
    d.context = 128;
    d.exact = 1;
    d.forget = 1;
    e = open_engine(ctx, &d);
    for (i = 0; i < n && e; i++) {
        submit(e, &alone[i]);
        run(e);
    }
    tllm_engine_close(e);
    t_close(ctx);
}
