/* src/llm/serve/handover.c - a worker: reads prompts, keeps and gives their keys and values, takes those of others
 * Pull     A text that was read stays in its slot until the worker that will continue it has a free slot and free pages
 *          and asks for it. Meanwhile the slot is not free for other prompts: so a slow reader of texts holds back the
 *          prompts, and no buffer grows.
 * Limits   TINYI_HAND_ASKS texts are asked for at a time, their room counted as taken. One text is stored between two
 *          steps, and only while no other one waits in the engine: so two texts never wait for each other's pages. */
#include "llm/serve/handover_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_HAND_ASKS = 4, TINYI_HAND_NAP = 1000000, TINYI_HAND_PATIENCE = 5000000, TINYI_HAND_SOON = 8000000 };
enum { TINYI_JOB_WAITS, TINYI_JOB_ASKED, TINYI_JOB_CAME, TINYI_JOB_RUNS, TINYI_JOB_KEPT };

typedef struct tinyi_hand_job {
    struct tinyi_hand_job *next;
    struct tllm_hand *hand;
    tinyi_hand_head of;
    int32_t *prompt;                        /* then the tokens that the text begins with */
    size_t n_prompt, n_begin;
    int state, dropped, ended;
    void *body;                             /* CAME */
    size_t n_body;
    int coded;                              /* it is coded */
    int32_t token;                          /* the first one */
    tllm_end end;
    tiny_status status;
    size_t n_made;
    char says[TINYI_HAND_SAYS];
} tinyi_hand_job;

struct tllm_hand {
    tiny_ctx *ctx;
    tllm_engine *engine;
    tinyi_hand_post desk, *peer;
    int n_peer, me, stop;
    uint64_t told_at;                       /* when the desk last learned that a text is read */
    size_t most;                            /* tokens of a prompt and its text */
    const tllm_kvcodec_tables *tables;
    tinyi_hand_job *jobs;                   /* in the order in which they came */
    tiny_status broken;                     /* of a callback */
    tllm_hand_counters count;
};

/* ---- messages to the desk ---------------------------------------------------------------------------------------- */

static tinyi_hand_head tinyi_hand_make(int kind, uint64_t id)
{
    tinyi_hand_head h;
    memset(&h, 0, sizeof h);
    h.kind = kind;
    h.id = id;
    return h;
}
/* of the codec, as the desk asks for it */
static int tinyi_hand_level(const tinyi_hand_head *m) { return (int)(m->flags >> TINYI_HAND_LEVEL); }
static tiny_status tinyi_hand_tell(tllm_hand *h, int kind, uint64_t id, uint32_t a, uint32_t b)
{
    tinyi_hand_head m = tinyi_hand_make(kind, id);
    m.a = a;
    m.b = b;
    return tinyi_hand_put(h->ctx, &h->desk, &m, NULL, 0);
}
static tiny_status tinyi_hand_tell_end(tllm_hand *h, uint64_t id, tllm_end end, size_t made, int32_t token,
                                       tiny_status status, const char *says)
{
    tinyi_hand_head m = tinyi_hand_make(TINYI_HAND_END, id);
    const size_t n = status ? TINYI_MIN(strlen(says), (size_t)TINYI_HAND_SAYS - 1) : 0;
    void *body = n ? tinyi_hand_copy(h->ctx, says, n) : NULL;
    if (n && !body) return tiny_ctx_status(h->ctx);
    m.a = (uint32_t)end;
    m.b = (uint32_t)made;
    m.n_most = (uint32_t)status;
    m.top_k = token;
    return tinyi_hand_put(h->ctx, &h->desk, &m, body, n);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static tinyi_hand_job **tinyi_hand_find(tllm_hand *h, uint64_t id)
{
    tinyi_hand_job **at = &h->jobs;
    while (*at && (*at)->of.id != id) at = &(*at)->next;
    return at;
}
static void tinyi_hand_remove(tllm_hand *h, tinyi_hand_job **at)
{
    tinyi_hand_job *j = *at;
    *at = j->next;
    tiny_free(h->ctx, j->body);
    tiny_free(h->ctx, j->prompt);
    tiny_free(h->ctx, j);
}

static int tinyi_hand_on_token(void *user, const tllm_engine_token *t)
{
    tinyi_hand_job *j = (tinyi_hand_job *)user;
    tiny_status st = TINY_OK;
    if (!t->index) j->token = t->token;
    if (j->of.kind != TINYI_HAND_READ && !j->dropped)
        st = tinyi_hand_tell(j->hand, TINYI_HAND_TOKEN, j->of.id, (uint32_t)t->token, (uint32_t)t->index);
    if (st) j->hand->broken = st;
    return st != TINY_OK;
}
static void tinyi_hand_on_end(void *user, const tllm_engine_result *r)
{
    tinyi_hand_job *j = (tinyi_hand_job *)user;
    j->ended = 1;
    j->end = r->end;
    j->status = r->status;
    j->n_made = r->n_made;
    (void)snprintf(j->says, sizeof j->says, "%s", r->error);
}

TINY_API size_t tllm_desk_chain(const tllm_desk_request *r, tllm_step step[3])
{
    size_t n = 0;
    if (!r || !step || r->temperature == 0.0f) return 0;
    if (r->top_k) step[n++] = tllm_step_top_k(r->top_k);
    if (r->top_p != 0.0f) step[n++] = tllm_step_top_p(r->top_p);
    step[n++] = tllm_step_temperature(r->temperature);
    return n;
}

static tiny_status tinyi_hand_submit(tllm_hand *h, tinyi_hand_job *j)
{
    tllm_desk_request like;
    tllm_request r;
    tllm_step step[3];
    memset(&like, 0, sizeof like);
    memset(&r, 0, sizeof r);
    like.temperature = j->of.temperature;
    like.top_p = j->of.top_p;
    like.top_k = j->of.top_k;
    r.prompt = j->prompt;
    r.n_prompt = j->n_prompt;
    r.begin = j->prompt + j->n_prompt;
    r.n_begin = j->n_begin;
    r.n_steps = tllm_desk_chain(&like, step);
    r.chain = r.n_steps ? step : NULL;
    r.seed = j->of.seed;
    r.n_most = j->of.kind == TINYI_HAND_READ ? 1 : j->of.n_most;
    r.past_end = (j->of.flags & TINYI_HAND_PAST_END) != 0;
    r.keep = j->of.kind == TINYI_HAND_READ && j->of.n_most != 1;
    r.id = j->of.id;
    r.token = tinyi_hand_on_token;
    r.end = tinyi_hand_on_end;
    r.user = j;
    j->state = TINYI_JOB_RUNS;
    return tllm_engine_submit(h->engine, &r, NULL, j->says, sizeof j->says);
}

static tiny_status tinyi_hand_new_job(tllm_hand *h)
{
    tinyi_hand_head *m = &h->desk.got;
    const unsigned char *bytes = (const unsigned char *)h->desk.body;
    tinyi_hand_job *j, **end = &h->jobs;
    size_t i;
    tiny_status st = TINY_OK;
    if (m->kind == TINYI_HAND_TAKE && m->a == (uint32_t)h->me) {
        /* its part has changed meanwhile: it continues what it has read, whose tokens are still in the slot */
        tinyi_hand_job **old = tinyi_hand_find(h, m->id);
        if (*old && (*old)->state == TINYI_JOB_KEPT) {
            (void)tllm_engine_release(h->engine, m->id);
            tinyi_hand_remove(h, old);
        }
        m->kind = TINYI_HAND_WHOLE;
    }
    if (!m->id || m->n_body % 4 || !m->n_body || *tinyi_hand_find(h, m->id) ||
        (m->kind == TINYI_HAND_TAKE && m->a >= (uint32_t)h->n_peer))
        return tinyi_hand_wrong(h->ctx, &h->desk, "a request without a prompt, with an id twice, or from no worker");
    if (m->b >= m->n_body / 4 || tinyi_hand_level(m) > TLLM_KVCODEC_LEVELS)
        return tinyi_hand_wrong(h->ctx, &h->desk, "a request whose text begins before its prompt, or a level of the "
                                                  "codec that there is not");
    if (m->n_body / 4 - m->b >= h->most) {
        char says[TINYI_HAND_SAYS];
        (void)snprintf(says, sizeof says, "the prompt has %lu tokens, but worker %d has room for %lu with the answer",
                       (unsigned long)(m->n_body / 4 - m->b), h->me, (unsigned long)h->most);
        return tinyi_hand_tell_end(h, m->id, TLLM_END_CALLER, 0, 0, TINY_E_WORKSPACE, says);
    }
    j = (tinyi_hand_job *)tiny_alloc(h->ctx, sizeof *j);
    if (!j) return tiny_ctx_status(h->ctx);
    memset(j, 0, sizeof *j);
    j->hand = h;
    j->of = *m;
    j->n_begin = (size_t)m->b;
    j->n_prompt = (size_t)(m->n_body / 4) - j->n_begin;
    j->prompt = (int32_t *)tinyi_alloc(h->ctx, j->n_prompt + j->n_begin, sizeof *j->prompt);
    if (!j->prompt) {
        st = tiny_ctx_status(h->ctx);
        tiny_free(h->ctx, j);
        return st;
    }
    for (i = 0; i < j->n_prompt + j->n_begin; i++) j->prompt[i] = (int32_t)tinyi_le32(bytes + 4 * i);
    while (*end) end = &(*end)->next;
    *end = j;
    h->count.reads += m->kind == TINYI_HAND_READ;
    h->count.wholes += m->kind == TINYI_HAND_WHOLE;
    h->count.takes += m->kind == TINYI_HAND_TAKE;
    if (m->kind == TINYI_HAND_TAKE) return TINY_OK;
    st = tinyi_hand_submit(h, j);
    if (!st) return TINY_OK;
    st = tinyi_hand_tell_end(h, j->of.id, TLLM_END_CALLER, 0, 0, st, j->says);
    tinyi_hand_remove(h, end);
    return st;
}

static void tinyi_hand_drop(tllm_hand *h, uint64_t id)
{
    tinyi_hand_job **at = tinyi_hand_find(h, id);
    if (!*at) return;
    (*at)->dropped = 1;
    if ((*at)->state == TINYI_JOB_RUNS) {   /* leaves with the end that the engine reports */
        (void)tllm_engine_cancel(h->engine, id);
        return;
    }
    if ((*at)->state == TINYI_JOB_KEPT) (void)tllm_engine_release(h->engine, id);
    tinyi_hand_remove(h, at);
}

static tiny_status tinyi_hand_lost(tllm_hand *h, tinyi_hand_job **at)
{
    const uint64_t id = (*at)->of.id;
    tinyi_hand_remove(h, at);
    h->count.lost++;
    return tinyi_hand_tell(h, TINYI_HAND_LOST, id, 0, 0);
}

/* ---- messages that came ------------------------------------------------------------------------------------------ */

static tiny_status tinyi_hand_give(tllm_hand *h, tinyi_hand_post *to)
{
    const uint64_t id = to->got.id, tables = to->got.seed;
    const uint32_t level = to->got.a;
    tinyi_hand_head m = tinyi_hand_make(TINYI_HAND_PAGES, id);
    tinyi_hand_job **at = tinyi_hand_find(h, id);
    void *bytes = NULL;
    size_t n = 0;
    tiny_status st = TINY_OK;
    if (level > TLLM_KVCODEC_LEVELS)
        return tinyi_hand_wrong(h->ctx, to, "a wish for a level of the codec that there is not");
    if (*at && (*at)->state == TINYI_JOB_KEPT) {
        const int same = h->tables && tllm_kvcodec_tables_id(h->tables) == tables;
        const uint64_t from = tiny_now_ns();
        if (level) st = tinyi_hand_code(h->engine, id, (int)level, same ? h->tables : NULL, &bytes, &n);
        if (level) h->count.codec_seconds += 1e-9 * (double)(tiny_now_ns() - from);
        h->count.gave_coded += bytes != NULL;
        if (bytes) m.flags = TINYI_HAND_CODED;
        else if (!st) st = tllm_engine_pack(h->engine, id, &bytes, &n);
        if (st) return st;
        (void)tllm_engine_release(h->engine, id);
        tinyi_hand_remove(h, at);
    }
    return tinyi_hand_put(h->ctx, to, &m, bytes, n);
}

static tiny_status tinyi_hand_came(tllm_hand *h, int peer)
{
    tinyi_hand_post *p = &h->peer[peer];
    tinyi_hand_job **at = tinyi_hand_find(h, p->got.id), *j = *at;
    size_t plain;
    int coded;
    if (!j || j->state != TINYI_JOB_ASKED || (int)j->of.a != peer) return TINY_OK;      /* dropped meanwhile */
    if (!p->got.n_body) return tinyi_hand_lost(h, at);
    coded = (p->got.flags & TINYI_HAND_CODED) != 0;
    plain = tllm_engine_bytes(h->engine, j->n_prompt);
    if (coded ? !tinyi_hand_level(&j->of) || p->got.n_body >= plain : p->got.n_body != plain)
        return tinyi_hand_wrong(h->ctx, p, coded ? "keys and values by a codec that was not asked for, or no smaller "
                                                   "than without"
                                                 : "keys and values of another size than the prompt needs here");
    j->coded = coded;
    j->body = p->body;
    j->n_body = (size_t)p->got.n_body;
    p->body = NULL;
    j->state = TINYI_JOB_CAME;
    h->count.pulled++;
    h->count.pulled_bytes += j->n_body;
    h->count.coded += (uint64_t)coded;
    h->count.plain_bytes += plain;
    return TINY_OK;
}

/* a failure: of the desk, or of memory. A peer that fails is only shut */
static tiny_status tinyi_hand_receive(tllm_hand *h, int *moved)
{
    int i, whole = 1;
    tiny_status st = TINY_OK;
    while (!st && whole) {
        st = tinyi_hand_recv(h->ctx, &h->desk, &whole);
        if (st || !whole) break;
        *moved = 1;
        switch (h->desk.got.kind) {
        case TINYI_HAND_READ:
        case TINYI_HAND_WHOLE:
        case TINYI_HAND_TAKE: st = tinyi_hand_new_job(h); break;
        case TINYI_HAND_DROP: tinyi_hand_drop(h, h->desk.got.id); break;
        case TINYI_HAND_STOP: h->stop = 1; return TINY_OK;
        default: st = tinyi_hand_wrong(h->ctx, &h->desk, "a message that no desk sends");
        }
    }
    for (i = 0; i < h->n_peer && !st; i++) {
        tinyi_hand_post *p = &h->peer[i];
        for (whole = 1; !st && whole && p->open;) {
            if (tinyi_hand_recv(h->ctx, p, &whole) || !whole) break;
            *moved = 1;
            if (p->got.kind == TINYI_HAND_PULL) st = tinyi_hand_give(h, p);
            else if (p->got.kind == TINYI_HAND_PAGES) st = tinyi_hand_came(h, i);
            else if (p->got.kind == TINYI_HAND_BYE) tinyi_hand_shut(h->ctx, p);
            else (void)tinyi_hand_wrong(h->ctx, p, "a message that no worker sends to another");
            if (st && !p->open) st = TINY_OK;
        }
    }
    return st;
}

/* ---- one round --------------------------------------------------------------------------------------------------- */

/* Asks for texts while there is room for them, in order; texts of a worker that is gone are lost. */
static tiny_status tinyi_hand_ask(tllm_hand *h, int *moved)
{
    tinyi_hand_job **at, *j;
    size_t asked = 0, tokens = 0, busy = 0;
    tiny_status st = TINY_OK;
    for (j = h->jobs; j; j = j->next) {
        busy += j->state != TINYI_JOB_WAITS;
        if (j->state != TINYI_JOB_ASKED && j->state != TINYI_JOB_CAME) continue;
        asked++;
        tokens += j->n_prompt;
    }
    for (at = &h->jobs; *at && !st;) {
        j = *at;
        if ((j->state == TINYI_JOB_WAITS || j->state == TINYI_JOB_ASKED) && !h->peer[j->of.a].open) {
            st = tinyi_hand_lost(h, at);
            *moved = 1;
            continue;
        }
        at = &j->next;
        if (j->state != TINYI_JOB_WAITS || asked >= TINYI_HAND_ASKS) continue;
        /* an empty engine has room for every prompt that it accepts */
        if (busy && !tllm_engine_room(h->engine, asked + 1, tokens + j->n_prompt)) {
            asked = TINYI_HAND_ASKS;        /* no text overtakes another */
            continue;
        }
        {
            tinyi_hand_head m = tinyi_hand_make(TINYI_HAND_PULL, j->of.id);
            m.a = (uint32_t)tinyi_hand_level(&j->of);
            m.seed = m.a && h->tables ? tllm_kvcodec_tables_id(h->tables) : 0;
            st = tinyi_hand_put(h->ctx, &h->peer[j->of.a], &m, NULL, 0);
        }
        j->state = TINYI_JOB_ASKED;
        asked++;
        busy++;
        tokens += j->n_prompt;
        *moved = 1;
    }
    return st;
}

/* Stores one text that has come, and submits its request. */
static tiny_status tinyi_hand_store(tllm_hand *h, int *moved)
{
    tinyi_hand_job **at = &h->jobs, *j, *other;
    tllm_engine_counters c;
    uint64_t from;
    int runs = 0;
    tiny_status st;
    tllm_engine_count(h->engine, &c);
    while (*at && (*at)->state != TINYI_JOB_CAME) at = &(*at)->next;
    j = *at;
    if (!j || c.waiting) return TINY_OK;
    for (other = h->jobs; other; other = other->next) runs |= other->state == TINYI_JOB_RUNS;
    from = tiny_now_ns();
    st = j->coded ? tinyi_hand_uncode(h->engine, j->of.id, h->tables, (const unsigned char *)j->body, j->n_body,
                                      j->prompt, j->n_prompt)
                  : tllm_engine_put(h->engine, j->of.id, j->body, j->n_body);
    if (j->coded) h->count.codec_seconds += 1e-9 * (double)(tiny_now_ns() - from);
    if (st == TINY_E_WORKSPACE && runs) return TINY_OK;         /* later */
    *moved = 1;
    if (!st) {
        tiny_free(h->ctx, j->body);
        j->body = NULL;
        st = tinyi_hand_submit(h, j);
        if (!st) return TINY_OK;
        (void)tllm_engine_release(h->engine, j->of.id);
    } else tinyi_keep_says(j->says, sizeof j->says, tiny_ctx_message(h->ctx));
    st = tinyi_hand_tell_end(h, j->of.id, TLLM_END_CALLER, 0, 0, st, j->says);
    tinyi_hand_remove(h, at);
    return st;
}

/* Tells the desk what has ended in the last step. */
static tiny_status tinyi_hand_finish(tllm_hand *h, int *runs)
{
    tinyi_hand_job **at = &h->jobs;
    tiny_status st = TINY_OK;
    *runs = 0;
    h->count.kept = 0;
    while (*at && !st) {
        tinyi_hand_job *j = *at;
        const int read = j->of.kind == TINYI_HAND_READ;
        if (j->state == TINYI_JOB_KEPT) h->count.kept++;
        if (j->state != TINYI_JOB_RUNS || !j->ended) {
            *runs |= j->state == TINYI_JOB_RUNS;
            at = &j->next;
            continue;
        }
        if (!j->dropped && read && !j->status && j->end == TLLM_END_LENGTH && j->of.n_most != 1) {
            st = tinyi_hand_tell(h, TINYI_HAND_FIRST, j->of.id, (uint32_t)j->token, 0);
            h->told_at = tiny_now_ns();
            j->state = TINYI_JOB_KEPT;
            h->count.kept++;
            at = &j->next;
            continue;
        }
        if (read) (void)tllm_engine_release(h->engine, j->of.id);
        if (!j->dropped)
            st = tinyi_hand_tell_end(h, j->of.id, j->end, j->n_made, j->token, j->status, j->says);
        tinyi_hand_remove(h, at);
    }
    return st;
}

/* Sends keys and values on until all is sent, or until nothing moves for TINYI_HAND_PATIENCE: a step of the engine that
 * reads a prompt takes long, and the worker that asked waits for them. */
static void tinyi_hand_flush(tllm_hand *h, int *moved)
{
    tiny_net *net = h->desk.to.net;
    uint64_t until = tiny_now_ns() + TINYI_HAND_PATIENCE;
    int left = 1;
    while (left && tiny_now_ns() < until) {
        const uint64_t seen = net->changes(net);
        int i, some = 0;
        for (i = left = 0; i < h->n_peer; i++) {
            (void)tinyi_hand_send(h->ctx, &h->peer[i], &some);
            left |= h->peer[i].open && h->peer[i].first;
        }
        *moved |= some;
        if (some) until = tiny_now_ns() + TINYI_HAND_PATIENCE;
        else if (left) net->pause(net, seen, tiny_now_ns() + TINYI_HAND_NAP / 4);
    }
}

/* A text that has just been read is asked for soon, and a step that reads the next prompt would make it wait. So that
 * step begins when all are given, or TINYI_HAND_SOON later, unless it also continues texts. */
static tiny_status tinyi_hand_soon(tllm_hand *h, int *moved)
{
    tiny_net *net = h->desk.to.net;
    tiny_status st = TINY_OK;
    while (!st && !h->stop && tiny_now_ns() < h->told_at + TINYI_HAND_SOON) {
        const uint64_t seen = net->changes(net);
        const tinyi_hand_job *j;
        int some = 0, kept = 0, continues = 0;
        for (j = h->jobs; j; j = j->next) {
            kept |= j->state == TINYI_JOB_KEPT;
            continues |= j->state == TINYI_JOB_RUNS && j->of.kind != TINYI_HAND_READ;
        }
        if (!kept || continues) break;
        st = tinyi_hand_send(h->ctx, &h->desk, &some);
        if (!st) st = tinyi_hand_receive(h, &some);
        *moved |= some;
        if (!some) net->pause(net, seen, tiny_now_ns() + TINYI_HAND_NAP / 4);
    }
    return st;
}

/* The desk has closed: the others learn that this worker sends nothing more. */
static tiny_status tinyi_hand_leave(tllm_hand *h)
{
    const tinyi_hand_head bye = tinyi_hand_make(TINYI_HAND_BYE, 0);
    const uint64_t until = tiny_now_ns() + UINT64_C(2000000000);
    int i, left = 1;
    for (i = 0; i < h->n_peer; i++) (void)tinyi_hand_put(h->ctx, &h->peer[i], &bye, NULL, 0);
    while (left && tiny_now_ns() < until) {
        const uint64_t seen = h->desk.to.net->changes(h->desk.to.net);
        int moved = 0;
        for (i = left = 0; i < h->n_peer; i++) {
            (void)tinyi_hand_send(h->ctx, &h->peer[i], &moved);
            left |= h->peer[i].open && h->peer[i].first;
        }
        if (left && !moved) h->desk.to.net->pause(h->desk.to.net, seen, tiny_now_ns() + TINYI_HAND_NAP);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_hand_step(tllm_hand *h, int *more)
{
    tiny_net *net;
    uint64_t seen;
    uint64_t rows;
    int moved = 0, runs = 0, i;
    tiny_status st;
    if (more) *more = 0;
    if (!h) return TINY_E_ARGUMENT;
    if (h->stop) return TINY_OK;
    if (h->broken) return h->broken;
    net = h->desk.to.net;
    seen = net->changes(net);
    rows = h->engine->now.rows;
    st = tinyi_hand_receive(h, &moved);
    if (!st && h->stop) return tinyi_hand_leave(h);
    if (!st) st = tinyi_hand_soon(h, &moved);
    if (!st && h->stop) return tinyi_hand_leave(h);
    if (!st) st = tinyi_hand_ask(h, &moved);
    if (!st) st = tinyi_hand_store(h, &moved);
    if (!st) {
        tinyi_hand_job *j;
        for (j = h->jobs; j; j = j->next) runs |= j->state == TINYI_JOB_RUNS;
        tinyi_hand_flush(h, &moved);
        if (runs) st = tllm_engine_step(h->engine, NULL);
    }
    if (!st) st = h->broken;
    if (!st) st = tinyi_hand_finish(h, &i);
    if (!st) st = tinyi_hand_send(h->ctx, &h->desk, &moved);
    if (st) {
        h->broken = st;
        return st;
    }
    if (more) *more = 1;
    /* an engine that waits for the pages of kept texts computes nothing */
    if (!moved && h->engine->now.rows == rows) net->pause(net, seen, tiny_now_ns() + TINYI_HAND_NAP);
    return TINY_OK;
}

TINY_API tiny_status tllm_hand_run(tllm_hand *h)
{
    int more = 1;
    tiny_status st = TINY_OK;
    if (!h) return TINY_E_ARGUMENT;
    while (!st && more) st = tllm_hand_step(h, &more);
    return st;
}

TINY_API void tllm_hand_count(const tllm_hand *h, tllm_hand_counters *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (h) *out = h->count;
}

TINY_API tiny_status tllm_hand_open(tiny_ctx *ctx, const tllm_hand_desc *d, tllm_hand **out)
{
    tllm_hand *h;
    size_t most;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || !d->engine || !d->desk.net)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_hand_open: the desc, its engine, the link to the desk or the "
                                                "result pointer is NULL");
    if (d->n_peer < 1 || d->n_peer > TLLM_HAND_WORKERS || !d->peer || d->me < 0 || d->me >= d->n_peer)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "worker %d of %d: from 0, and there are 1 to %d workers", d->me,
                          d->n_peer, TLLM_HAND_WORKERS);
    if (d->engine->ctx != ctx || d->engine->d.mode != TLLM_ENGINE_PAGED || !d->engine->d.exact)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a worker needs an engine of its own context with pages and `exact`: "
                                                "else a text that moves could change");
    if (d->tables && (st = tinyi_hand_tables(d->engine, d->tables)) != TINY_OK) return st;
    h = (tllm_hand *)tiny_alloc(ctx, sizeof *h);
    if (!h) return tiny_ctx_status(ctx);
    memset(h, 0, sizeof *h);
    h->ctx = ctx;
    h->engine = d->engine;
    h->n_peer = d->n_peer;
    h->me = d->me;
    h->tables = d->tables;
    h->most = (size_t)tllm_engine_context(d->engine);
    h->peer = (tinyi_hand_post *)tinyi_alloc(ctx, (size_t)d->n_peer, sizeof *h->peer);
    if (!h->peer) {
        tiny_free(ctx, h);
        return tiny_ctx_status(ctx);
    }
    most = tllm_engine_bytes(d->engine, h->most);
    tinyi_hand_open(&h->desk, &d->desk, 4 * (size_t)TINYI_HAND_PROMPT);
    for (i = 0; i < d->n_peer; i++) {
        tinyi_hand_open(&h->peer[i], &d->peer[i], most);
        if (i == d->me) h->peer[i].open = 0;
    }
    *out = h;
    return TINY_OK;
}

TINY_API void tllm_hand_close(tllm_hand *h)
{
    tinyi_hand_job *j;
    int i, more = 1;
    if (!h) return;
    for (j = h->jobs; j; j = j->next) {     /* the engine must not call back into what is gone */
        j->dropped = 1;
        if (j->state == TINYI_JOB_RUNS && !j->ended) (void)tllm_engine_cancel(h->engine, j->of.id);
        if (j->state == TINYI_JOB_KEPT) (void)tllm_engine_release(h->engine, j->of.id);
    }
    while (more) if (tllm_engine_step(h->engine, &more)) break;
    while (h->jobs) tinyi_hand_remove(h, &h->jobs);
    tinyi_hand_shut(h->ctx, &h->desk);
    for (i = 0; i < h->n_peer; i++) tinyi_hand_shut(h->ctx, &h->peer[i]);
    tiny_free(h->ctx, h->peer);
    tiny_free(h->ctx, h);
}
