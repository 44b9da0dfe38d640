/* src/llm/serve/handover_desk.c - the desk: which worker reads a prompt, and which one continues it
 * Rules    A request goes to the worker that reads with the fewest requests that did not end there; read, to the one
 *          that continues with the fewest. First come, first served. While no worker reads, or none continues, every
 *          worker does both.
 * Tries    have ids of their own, so a message of an earlier try is known by its id and passed by. A request that
 *          begins again makes the same tokens; those that the caller has are not reported again. With a codec it might
 *          make others: so it is sent with the tokens that the caller has. */
#include "llm/serve/handover_inside.h"
#include "core/time.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TINYI_DESK_QUEUED, TINYI_DESK_READS, TINYI_DESK_HELD, TINYI_DESK_WRITES };
enum { TINYI_DESK_TRIES = 5 };

typedef struct tinyi_desk_request {
    struct tinyi_desk_request *next;
    tllm_desk_request of;
    unsigned char *prompt;                  /* as it is sent */
    uint64_t id, try_id;
    int state, prefill, decode, tries, cancelled;
    uint32_t told;                          /* tokens */
    int32_t first_token;
    unsigned char *text;                    /* with a codec: the told tokens, as they are sent; */
    size_t room;                            /* for so many */
    uint64_t submitted, first;
} tinyi_desk_request;

typedef struct tinyi_desk_worker { tinyi_hand_post post; int role, load; } tinyi_desk_worker;

struct tllm_desk {
    tiny_ctx *ctx;
    tllm_desk_desc d;
    tinyi_desk_worker *worker;
    tinyi_desk_request *all;                /* in the order of their arrival */
    uint64_t next_id, next_try;
    tllm_desk_load plan;                    /* rate 0: none yet */
    double prompts, outputs;                /* sums of the window */
    int seen, closing;
    uint64_t since;
};

static tiny_status tinyi_desk_send(tllm_desk *d, int worker, int kind, uint64_t id, const tinyi_desk_request *r)
{
    tinyi_hand_head h;
    void *body = NULL;
    const size_t begin = r && d->d.codec ? kind == TINYI_HAND_READ ? TINYI_MIN(r->told, 1u) : r->told : 0;
    const size_t n = r ? 4 * (r->of.n_prompt + begin) : 0;
    memset(&h, 0, sizeof h);
    h.kind = kind;
    h.id = id;
    if (r) {
        h.seed = r->of.seed;
        h.flags = r->of.past_end ? TINYI_HAND_PAST_END : 0;
        h.n_most = (uint32_t)r->of.n_most;
        h.temperature = r->of.temperature;
        h.top_p = r->of.top_p;
        h.top_k = r->of.top_k;
        h.a = kind == TINYI_HAND_TAKE ? (uint32_t)r->prefill : 0;
        h.b = (uint32_t)begin;
        if (kind == TINYI_HAND_TAKE) h.flags |= (unsigned)d->d.codec << TINYI_HAND_LEVEL;
        body = tiny_alloc(d->ctx, n);
        if (!body) return tiny_ctx_status(d->ctx);
        memcpy(body, r->prompt, 4 * r->of.n_prompt);
        if (begin) memcpy((unsigned char *)body + 4 * r->of.n_prompt, r->text, 4 * begin);
    }
    return tinyi_hand_put(d->ctx, &d->worker[worker].post, &h, body, n);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static int tinyi_desk_apart(double a, double b, double factor)
{
    a = TINYI_MAX(a, 1e-9);
    b = TINYI_MAX(b, 1e-9);
    return a > b * factor || b > a * factor;
}
static void tinyi_desk_watch(tllm_desk *d, size_t n_prompt, size_t n_made)
{
    const uint64_t now = tiny_now_ns();
    tllm_desk_load load;
    d->prompts += (double)n_prompt;
    d->outputs += (double)n_made;
    if (++d->seen < d->d.window) return;
    load.prompt = d->prompts / d->seen;
    load.output = d->outputs / d->seen;
    load.rate = d->seen / TINYI_MAX(1e-9 * (double)(now - d->since), 1e-9);
    d->since = now;
    d->seen = 0;
    d->prompts = d->outputs = 0.0;
    if (d->plan.rate == 0.0) d->plan = load;
    else if (tinyi_desk_apart(load.prompt, d->plan.prompt, d->d.factor) ||
             tinyi_desk_apart(load.output, d->plan.output, d->d.factor) ||
             tinyi_desk_apart(load.rate, d->plan.rate, d->d.factor)) {
        const tllm_desk_load was = d->plan;
        d->plan = load;
        if (d->d.replan) d->d.replan(d->d.user, d, &load, &was);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* It is no longer at the workers that have it. */
static tiny_status tinyi_desk_recall(tllm_desk *d, tinyi_desk_request *r)
{
    tiny_status st = TINY_OK;
    if (r->state == TINYI_DESK_QUEUED) return st;
    d->worker[r->state == TINYI_DESK_READS ? r->prefill : r->decode].load--;
    if (r->prefill >= 0) st = tinyi_desk_send(d, r->prefill, TINYI_HAND_DROP, r->try_id, NULL);
    if (!st && r->decode >= 0 && r->decode != r->prefill)
        st = tinyi_desk_send(d, r->decode, TINYI_HAND_DROP, r->try_id, NULL);
    r->state = TINYI_DESK_QUEUED;
    r->try_id = 0;
    return st;
}

static void tinyi_desk_end(tllm_desk *d, tinyi_desk_request *r, tllm_end end, tiny_status status, const char *why)
{
    tinyi_desk_request **at = &d->all;
    const uint64_t now = tiny_now_ns();
    tllm_desk_result o;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    memset(&o, 0, sizeof o);
    o.id = r->id;
    o.status = status;
    o.error = status ? why : "";
    o.end = end;
    o.n_prompt = r->of.n_prompt;
    o.n_made = r->told;
    o.prefill = r->prefill;
    o.decode = r->decode;
    o.tries = r->tries;
    o.seconds = 1e-9 * (double)(now - r->submitted);
    o.first_seconds = r->told ? 1e-9 * (double)(r->first - r->submitted) : o.seconds;
    o.user = r->of.user;
    if (!status && end != TLLM_END_CALLER) tinyi_desk_watch(d, r->of.n_prompt, r->told);
    if (r->of.end) r->of.end(r->of.user, &o);
    tiny_free(d->ctx, r->prompt);
    tiny_free(d->ctx, r->text);
    tiny_free(d->ctx, r);
}

/* Back to the queue after the loss of a worker. */
static tiny_status tinyi_desk_again(tllm_desk *d, tinyi_desk_request *r)
{
    const tiny_status st = tinyi_desk_recall(d, r);
    r->prefill = r->decode = -1;
    if (!st && r->tries >= TINYI_DESK_TRIES)
        tinyi_desk_end(d, r, TLLM_END_CALLER, TINY_E_PEER, "the workers of this request were lost five times");
    return st;
}

static tiny_status tinyi_desk_told(tllm_desk *d, tinyi_desk_request *r, uint32_t index, int32_t token)
{
    if (index < r->told) return TINY_OK;    /* of an earlier try */
    if (d->d.codec && index >= r->room) {
        const size_t room = 2 * r->room + 16;
        unsigned char *text = (unsigned char *)tinyi_alloc(d->ctx, room, 4);
        if (!text) return tiny_ctx_status(d->ctx);
        if (r->text) memcpy(text, r->text, 4 * (size_t)r->told);
        tiny_free(d->ctx, r->text);
        r->text = text;
        r->room = room;
    }
    if (d->d.codec) tinyi_put_le32(r->text + 4 * (size_t)index, (uint32_t)token);
    if (!index) {
        r->first = tiny_now_ns();
        r->first_token = token;
    }
    r->told = index + 1;
    if (r->of.token && r->of.token(r->of.user, r->id, index, token)) r->cancelled = 1;
    return TINY_OK;
}

/* a worker with one of these roles and the fewest requests; -1: none */
static int tinyi_desk_pick(const tllm_desk *d, unsigned roles)
{
    int i, best = -1;
    for (i = 0; i < d->d.n_worker; i++)
        if (d->worker[i].post.open && (roles >> d->worker[i].role & 1u) &&
            (best < 0 || d->worker[i].load < d->worker[best].load))
            best = i;
    return best;
}

static tiny_status tinyi_desk_dispatch(tllm_desk *d, int *moved)
{
    const unsigned both = 1u << TLLM_HAND_BOTH, reads = 1u << TLLM_HAND_PREFILL, writes = 1u << TLLM_HAND_DECODE;
    tinyi_desk_request *r, *next;
    tiny_status st = TINY_OK;
    for (r = d->all; r && !st; r = next) {
        int split, at;
        next = r->next;
        if (r->cancelled) {
            *moved = 1;
            st = tinyi_desk_recall(d, r);
            tinyi_desk_end(d, r, TLLM_END_CALLER, TINY_OK, "");
            continue;
        }
        if (r->state != TINYI_DESK_QUEUED) continue;
        split = tinyi_desk_pick(d, reads) >= 0 && tinyi_desk_pick(d, writes) >= 0;
        at = tinyi_desk_pick(d, split ? both | reads : both | reads | writes);
        if (at < 0) {
            *moved = 1;
            tinyi_desk_end(d, r, TLLM_END_CALLER, TINY_E_PEER, "all workers are gone");
            continue;
        }
        if (d->worker[at].load >= d->d.most) break;
        r->prefill = at;
        r->tries++;
        r->try_id = d->next_try++;
        split = split && d->worker[at].role == TLLM_HAND_PREFILL;
        r->state = split ? TINYI_DESK_READS : TINYI_DESK_WRITES;
        r->decode = split ? -1 : at;
        d->worker[at].load++;
        *moved = 1;
        st = tinyi_desk_send(d, at, split ? TINYI_HAND_READ : TINYI_HAND_WHOLE, r->try_id, r);
    }
    return st;
}

/* ---- messages that came ------------------------------------------------------------------------------------------ */

static tiny_status tinyi_desk_read(tllm_desk *d, tinyi_desk_request *r, int32_t token)
{
    const tiny_status st = tinyi_desk_told(d, r, 0, token);
    if (st || r->cancelled) return st;      /* recalled by the next dispatch */
    r->decode = tinyi_desk_pick(d, 1u << TLLM_HAND_DECODE);
    if (r->decode < 0) return tinyi_desk_again(d, r);
    d->worker[r->prefill].load--;
    d->worker[r->decode].load++;
    r->state = TINYI_DESK_HELD;
    return tinyi_desk_send(d, r->decode, TINYI_HAND_TAKE, r->try_id, r);
}

static tiny_status tinyi_desk_message(tllm_desk *d, int worker)
{
    tinyi_hand_post *p = &d->worker[worker].post;
    const tinyi_hand_head h = p->got;
    tinyi_desk_request *r = d->all;
    char says[TINYI_HAND_SAYS];
    tiny_status st = TINY_OK;
    const int known = h.kind == TINYI_HAND_FIRST || h.kind == TINYI_HAND_TOKEN || h.kind == TINYI_HAND_END ||
                      h.kind == TINYI_HAND_LOST;
    if (!known || (h.n_body && h.kind != TINYI_HAND_END))
        return tinyi_hand_wrong(d->ctx, p, "a message that no worker sends to the desk");
    while (r && r->try_id != h.id) r = r->next;
    if (!r || !h.id || r->cancelled) return TINY_OK;    /* of an earlier try, or cancelled meanwhile */
    if (worker != (r->state == TINYI_DESK_READS ? r->prefill : r->decode) ||
        (h.kind == TINYI_HAND_FIRST) > (r->state == TINYI_DESK_READS) ||
        (h.kind == TINYI_HAND_TOKEN && (r->state == TINYI_DESK_READS || h.b > r->told ||
                                          (r->of.n_most && h.b >= r->of.n_most))) ||
        (h.kind == TINYI_HAND_LOST && r->state != TINYI_DESK_HELD))
        return tinyi_hand_wrong(d->ctx, p, "a message about a request that it does not have, or out of order");
    switch (h.kind) {
    case TINYI_HAND_FIRST: return tinyi_desk_read(d, r, (int32_t)h.a);
    case TINYI_HAND_LOST: return tinyi_desk_again(d, r);
    case TINYI_HAND_TOKEN:
        r->state = TINYI_DESK_WRITES;
        if (!h.b && r->told && (int32_t)h.a != r->first_token) {
            st = tinyi_desk_recall(d, r);
            tinyi_desk_end(d, r, TLLM_END_CALLER, TINY_E_PROTOCOL,
                           "two workers drew different first tokens: their models or targets differ");
        } else st = tinyi_desk_told(d, r, h.b, (int32_t)h.a);
        return st;
    default:
        if (r->state == TINYI_DESK_READS && h.b == 1 && !r->told) st = tinyi_desk_told(d, r, 0, h.top_k);
        if (st) return st;
        /* a text that ended well has as many tokens as were reported */
        if (h.n_most >= (uint32_t)TINY_STATUS_COUNT || h.a > (uint32_t)TLLM_END_CALLER ||
            (!h.n_most && !r->cancelled && (h.a == (uint32_t)TLLM_END_CALLER || h.b != r->told)))
            return tinyi_hand_wrong(d->ctx, p, "the end of a text that it did not write to its end");
        d->worker[worker].load--;
        (void)snprintf(says, sizeof says, "%.*s", (int)TINYI_MIN(h.n_body, (uint64_t)TINYI_HAND_SAYS - 1),
                       p->body ? (const char *)p->body : "");
        tinyi_desk_end(d, r, (tllm_end)h.a, (tiny_status)h.n_most, *says ? says : "the worker gave no reason");
        return TINY_OK;
    }
}

/* A worker is gone: what it had begins again. */
static tiny_status tinyi_desk_gone(tllm_desk *d, int worker)
{
    tinyi_desk_request *r, *next;
    tiny_status st = TINY_OK;
    for (r = d->all; r && !st; r = next) {
        next = r->next;
        if (r->state == TINYI_DESK_QUEUED) continue;
        if (worker == (r->state == TINYI_DESK_READS ? r->prefill : r->decode)) st = tinyi_desk_again(d, r);
    }
    d->worker[worker].load = 0;
    return st;
}

TINY_API tiny_status tllm_desk_step(tllm_desk *d, int *more)
{
    tiny_net *net = NULL;
    uint64_t seen = 0;
    int i, moved = 0, whole;
    tiny_status st = TINY_OK;
    if (more) *more = 0;
    if (!d) return TINY_E_ARGUMENT;
    for (i = 0; i < d->d.n_worker; i++)
        if (d->worker[i].post.open && !net) {
            net = d->worker[i].post.to.net;
            seen = net->changes(net);
        }
    for (i = 0; i < d->d.n_worker && !st; i++) {
        tinyi_hand_post *p = &d->worker[i].post;
        const int was = p->open;
        while (!st && p->open) {
            if (tinyi_hand_recv(d->ctx, p, &whole) || !whole) break;
            moved = 1;
            st = tinyi_desk_message(d, i);
            if (!p->open) st = TINY_OK;
        }
        if (!st && p->open) (void)tinyi_hand_send(d->ctx, p, &moved);
        if (!st && was && !p->open) st = tinyi_desk_gone(d, i);
    }
    if (!st) st = tinyi_desk_dispatch(d, &moved);
    for (i = 0; i < d->d.n_worker && !st; i++) {
        tinyi_hand_post *p = &d->worker[i].post;
        const int was = p->open;
        if (p->open) (void)tinyi_hand_send(d->ctx, p, &moved);
        if (was && !p->open) st = tinyi_desk_gone(d, i);
    }
    if (more) *more = d->all != NULL;
    if (!st && !moved && net) net->pause(net, seen, tiny_now_ns() + 1000000);
    return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_desk_submit(tllm_desk *d, const tllm_desk_request *r, uint64_t *id)
{
    tinyi_desk_request *n, **end;
    size_t i;
    if (id) *id = 0;
    if (!d) return TINY_E_ARGUMENT;
    if (d->closing) return tinyi_fail(d->ctx, TINY_E_UNSUPPORTED, "the desk is closing and takes no requests");
    if (!r || !r->prompt || !r->n_prompt || r->n_prompt > TINYI_HAND_PROMPT || r->n_most > TINYI_HAND_PROMPT)
        return tinyi_fail(d->ctx, TINY_E_ARGUMENT, "a request needs a prompt of 1 to %d tokens, and a text of no more",
                          (int)TINYI_HAND_PROMPT);
    if (!(r->temperature >= 0.0f && r->temperature < 1e6f) || !(r->top_p >= 0.0f && r->top_p <= 1.0f) || r->top_k < 0)
        return tinyi_fail(d->ctx, TINY_E_ARGUMENT, "temperature %g, top_p %g and top_k %d: not below 0, and top_p not "
                                                   "above 1", (double)r->temperature, (double)r->top_p, (int)r->top_k);
    n = (tinyi_desk_request *)tiny_alloc(d->ctx, sizeof *n);
    if (!n) return tiny_ctx_status(d->ctx);
    memset(n, 0, sizeof *n);
    n->of = *r;
    n->prompt = (unsigned char *)tinyi_alloc(d->ctx, r->n_prompt, 4);
    if (!n->prompt) {
        tiny_free(d->ctx, n);
        return tiny_ctx_status(d->ctx);
    }
    for (i = 0; i < r->n_prompt; i++) tinyi_put_le32(n->prompt + 4 * i, (uint32_t)r->prompt[i]);
    n->of.prompt = NULL;
    n->prefill = n->decode = -1;
    n->id = d->next_id++;
    n->submitted = tiny_now_ns();
    if (!d->since) d->since = n->submitted;
    for (end = &d->all; *end; end = &(*end)->next) {}
    *end = n;
    if (id) *id = n->id;
    return TINY_OK;
}

TINY_API tiny_status tllm_desk_cancel(tllm_desk *d, uint64_t id)
{
    tinyi_desk_request *r;
    if (!d) return TINY_E_ARGUMENT;
    for (r = d->all; r; r = r->next)
        if (r->id == id && !r->cancelled) {
            r->cancelled = 1;
            return TINY_OK;
        }
    return tinyi_fail(d->ctx, TINY_E_ARGUMENT, "there is no request %llu, or it has ended", (unsigned long long)id);
}

TINY_API int tllm_desk_alive(const tllm_desk *d, int worker)
{
    return d && worker >= 0 && worker < d->d.n_worker && d->worker[worker].post.open;
}

TINY_API tiny_status tllm_desk_role(tllm_desk *d, int worker, int role)
{
    if (!d) return TINY_E_ARGUMENT;
    if (worker < 0 || worker >= d->d.n_worker || role < 0 || role >= TLLM_HAND_ROLES)
        return tinyi_fail(d->ctx, TINY_E_ARGUMENT, "worker %d of %d, role %d of %d", worker, d->d.n_worker, role,
                          (int)TLLM_HAND_ROLES);
    d->worker[worker].role = role;
    return TINY_OK;
}

TINY_API tiny_status tllm_desk_open(tiny_ctx *ctx, const tllm_desk_desc *desc, tllm_desk **out)
{
    tllm_desk *d;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->worker)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_desk_open: the desc, its workers or the result pointer is NULL");
    if (desc->n_worker < 1 || desc->n_worker > TLLM_HAND_WORKERS || desc->most < 0 || desc->window < 0 ||
        !(desc->factor == 0.0 || (desc->factor > 1.0 && desc->factor < 1e9)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d workers with %d requests, a window of %d, a factor of %g: 1 to "
                                                "%d workers, no counts below 0, and a factor above 1", desc->n_worker,
                          desc->most, desc->window, desc->factor, TLLM_HAND_WORKERS);
    if (desc->codec < 0 || desc->codec > TLLM_KVCODEC_LEVELS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "level %d of the cache codec: 1 to %d, or 0: none", desc->codec,
                          TLLM_KVCODEC_LEVELS);
    for (i = 0; i < desc->n_worker; i++)
        if (!desc->worker[i].net || (desc->role && (desc->role[i] < 0 || desc->role[i] >= TLLM_HAND_ROLES)))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "worker %d has no link, or role %d, which is none", i,
                              desc->role ? desc->role[i] : 0);
    d = (tllm_desk *)tiny_alloc(ctx, sizeof *d);
    if (!d) return tiny_ctx_status(ctx);
    memset(d, 0, sizeof *d);
    d->ctx = ctx;
    d->d = *desc;
    d->d.most = desc->most ? desc->most : 64;
    d->d.window = desc->window ? desc->window : 64;
    d->d.factor = desc->factor == 0.0 ? 2.0 : desc->factor;
    d->next_id = d->next_try = 1;
    d->worker = (tinyi_desk_worker *)tinyi_alloc(ctx, (size_t)desc->n_worker, sizeof *d->worker);
    if (!d->worker) {
        tiny_free(ctx, d);
        return tiny_ctx_status(ctx);
    }
    for (i = 0; i < desc->n_worker; i++) {
        tinyi_hand_open(&d->worker[i].post, &desc->worker[i], TINYI_HAND_SAYS);
        d->worker[i].role = desc->role ? desc->role[i] : TLLM_HAND_BOTH;
        d->worker[i].load = 0;
    }
    *out = d;
    return TINY_OK;
}

TINY_API void tllm_desk_close(tllm_desk *d)
{
    const uint64_t until = tiny_now_ns() + UINT64_C(2000000000);
    int i, left = 1;
    if (!d) return;
    d->closing = 1;
    while (d->all) tinyi_desk_end(d, d->all, TLLM_END_CALLER, TINY_OK, "");
    for (i = 0; i < d->d.n_worker; i++) (void)tinyi_desk_send(d, i, TINYI_HAND_STOP, 0, NULL);
    while (left && tiny_now_ns() < until) {
        tiny_net *net = NULL;
        int moved = 0;
        for (i = left = 0; i < d->d.n_worker; i++) {
            tinyi_hand_post *p = &d->worker[i].post;
            (void)tinyi_hand_send(d->ctx, p, &moved);
            if (!p->open || !p->first) continue;
            left = 1;
            net = p->to.net;
        }
        if (net && !moved) net->pause(net, net->changes(net), tiny_now_ns() + 1000000);
    }
    for (i = 0; i < d->d.n_worker; i++) tinyi_hand_shut(d->ctx, &d->worker[i].post);
    tiny_free(d->ctx, d->worker);
    tiny_free(d->ctx, d);
}
