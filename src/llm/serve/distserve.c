/* src/llm/serve/distserve.c - prefill and decode on devices of their own: queues, a simulation by events, a search
 * Paper    Y. Zhong et al., "DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model
 *          Serving", OSDI 2024 (arXiv 2401.09670), 3 (queues), 4 (placement, algorithms 1 and 2), appendix A (times).
 * Formula  M/D/1: D + R D^2 / (2 (1 - R D)); two stages: D + R D^2 / (4 (2 - R D)); two devices that share each layer:
 *          D / K + R D^2 / (2 K (K - R D)).
 * Method   a heap of (time, order, event). Prompts are read first come, first served, in batches of a few hundred
 *          tokens; a batch is in one stage of pp at a time. Decode fetches keys and values when it has room; until then
 *          their pages stay with prefill, which is its back-pressure. A decode instance computes one token of all its
 *          texts, then looks again. Out of pages it puts the newest text aside; these return first.
 * Cost     of a simulation: a step of decode visits its texts, so about the number of all output tokens.
 * Left out time of swaps; a penalty for prompts and tokens that share a device other than waiting for each other.
 *          Workers that serve a model in this way: handover.c. */
#include "llm/serve/distserve.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- formulas ---------------------------------------------------------------------------------------------------- */

static double tinyi_queue(double service, double rate, double capacity, double fixed, double wait)
{
    if (!(service >= 0) || !(rate >= 0) || !(capacity > 0)) return (double)NAN;
    return rate * service < capacity ? fixed + wait : (double)INFINITY;
}
TINY_API double tllm_queue_single(double d, double r)
{
    return tinyi_queue(d, r, 1, d, r * d * d / (2 * (1 - r * d)));
}
TINY_API double tllm_queue_pipeline(double d, double r)
{
    return tinyi_queue(d, r, 2, d, r * d * d / (4 * (2 - r * d)));
}
TINY_API double tllm_queue_tensor(double d, double r, double k)
{
    return tinyi_queue(d, r, k, d / k, r * d * d / (2 * k * (k - r * d)));
}

TINY_API double tllm_dist_prefill_ms(const tllm_dist_profile *p, int pp, double tokens, double squares)
{
    if (!p || pp < 1) return 0;
    return (p->prefill[0] + p->prefill[1] * tokens + p->prefill[2] * squares) / pp +
           (pp > 1 ? pp * (p->stage_ms > 0 ? p->stage_ms : 1) : 0);
}
TINY_API double tllm_dist_decode_ms(const tllm_dist_profile *p, int pp, double cached, double batch)
{
    const double *d;
    if (!p || pp < 1) return 0;
    d = p->decode[batch / pp >= (p->threshold ? p->threshold : 95)];
    return d[0] + (d[1] * cached + d[2] * batch) / pp + (pp > 1 ? pp * (p->stage_ms > 0 ? p->stage_ms : 1) : 0);
}
TINY_API double tllm_dist_kv(double layers, double kv_heads, double head, double bytes_each, double tokens)
{
    return 2 * layers * kv_heads * head * bytes_each * tokens;
}

static double tinyi_ds_abs(double x) { return x < 0 ? -x : x; }

TINY_API tiny_status tllm_dist_fit(tiny_ctx *ctx, const double *rows, size_t n, double out[3])
{
    double a[3][4] = { { 0 } }, scale[3] = { 1, 0, 0 };
    size_t i;
    int j, k, l;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!rows || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a fit needs measured rows and room for three numbers");
    if (n < 3) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a fit of three numbers needs 3 measured rows, not %zu", n);
    for (i = 0; i < n; i++)
        for (k = 0; k < 2; k++) scale[k + 1] = TINYI_MAX(scale[k + 1], tinyi_ds_abs(rows[3 * i + (size_t)k]));
    for (i = 0; i < n; i++) {               /* columns of the same size: the normal equations are well scaled */
        const double *m = rows + 3 * i;
        const double x[3] = { 1, m[0] / (scale[1] > 0 ? scale[1] : 1), m[1] / (scale[2] > 0 ? scale[2] : 1) };
        for (j = 0; j < 3; j++) {
            for (k = 0; k < 3; k++) a[j][k] += x[j] * x[k];
            a[j][3] += x[j] * m[2];
        }
    }
    for (j = 0; j < 3; j++) {
        int best = j;
        for (k = j + 1; k < 3; k++) if (tinyi_ds_abs(a[k][j]) > tinyi_ds_abs(a[best][j])) best = k;
        for (l = 0; l < 4; l++) {
            const double t = a[j][l];
            a[j][l] = a[best][l];
            a[best][l] = t;
        }
        if (!(tinyi_ds_abs(a[j][j]) > 1e-12 * (double)n))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "the measured rows do not vary enough for three numbers");
        for (k = 0; k < 3; k++) {
            const double f = k == j ? 0 : a[k][j] / a[j][j];
            for (l = 0; l < 4 && k != j; l++) a[k][l] -= f * a[j][l];
        }
    }
    for (j = 0; j < 3; j++) out[j] = a[j][3] / a[j][j] / (scale[j] > 0 ? scale[j] : 1);
    return TINY_OK;
}

/* ---- the state of a simulation ----------------------------------------------------------------------------------- */

enum { TINYI_DS_ARRIVE, TINYI_DS_STAGE, TINYI_DS_READ, TINYI_DS_FETCHED, TINYI_DS_STEP, TINYI_DS_DIES };
enum { TINYI_DS_STAGES = 64 };
typedef struct tinyi_ds_event { double at; uint64_t order; int kind, who, what; } tinyi_ds_event;
typedef struct tinyi_ds_queue { int first, last, n; } tinyi_ds_queue;          /* of requests, by next */
typedef struct tinyi_ds_instance {
    tinyi_ds_queue queue;                   /* prefill: prompts that wait */
    tinyi_ds_queue bridge, waiting, aside, rows;    /* decode: to be fetched; here; without pages; running */
    double stage[TINYI_DS_STAGES];          /* prefill: when each stage is free */
    int load, busy, fetching, dead;         /* fetching: 1 + the request on the link */
    int flying;                             /* prefill: batches in the stages, at most one in each */
    long free;                              /* pages */
} tinyi_ds_instance;
typedef struct tinyi_ds_request { int next, made, pages_read, pages, in_read; } tinyi_ds_request;

typedef struct tinyi_ds {
    tiny_ctx *ctx;
    const tllm_dist_config *c;
    const tllm_dist_request *request;
    tllm_dist_time *time;
    tllm_dist_sum sum;
    size_t n, n_event, done, room;
    int together, page, rows, prompt_tokens, turn[2], n_part[2], pp[2];
    double now, accept;
    uint64_t order;
    tinyi_ds_event *event;
    tinyi_ds_request *state;
    tinyi_ds_instance *part[2];
} tinyi_ds;

static int tinyi_ds_before(const tinyi_ds_event *a, const tinyi_ds_event *b)
{
    return a->at < b->at || (!(a->at > b->at) && a->order < b->order);
}
static void tinyi_ds_add(tinyi_ds *s, double at, int kind, int who, int what)
{
    tinyi_ds_event x;
    size_t i = s->n_event++;                /* there is room for every event that can be open */
    x.at = at;
    x.order = s->order++;
    x.kind = kind;
    x.who = who;
    x.what = what;
    for (; i && tinyi_ds_before(&x, &s->event[(i - 1) / 2]); i = (i - 1) / 2) s->event[i] = s->event[(i - 1) / 2];
    s->event[i] = x;
}
static tinyi_ds_event tinyi_ds_next(tinyi_ds *s)
{
    const tinyi_ds_event first = s->event[0], last = s->event[--s->n_event];
    size_t i = 0, k;
    while ((k = 2 * i + 1) < s->n_event) {
        if (k + 1 < s->n_event && tinyi_ds_before(&s->event[k + 1], &s->event[k])) k++;
        if (!tinyi_ds_before(&s->event[k], &last)) break;
        s->event[i] = s->event[k];
        i = k;
    }
    if (s->n_event) s->event[i] = last;
    return first;
}

static void tinyi_ds_push(tinyi_ds *s, tinyi_ds_queue *q, int r)
{
    s->state[r].next = -1;
    if (q->n++) s->state[q->last].next = r;
    else q->first = r;
    q->last = r;
}
static int tinyi_ds_pop(tinyi_ds *s, tinyi_ds_queue *q)
{
    const int r = q->first;
    q->first = s->state[r].next;
    q->n--;
    return r;
}
static int tinyi_ds_tokens(const tinyi_ds *s, int r) { return s->request[r].prompt + s->state[r].made; }
static int tinyi_ds_pages(const tinyi_ds *s, int tokens) { return (tokens + s->page - 1) / s->page; }
static int tinyi_ds_has(const tinyi_ds *s, int part, const tinyi_ds_instance *x, int pages)
{
    return !(part ? s->c->decode.pages : s->c->prefill.pages) || x->free >= pages;
}

static int tinyi_ds_choose(tinyi_ds *s, int part)
{
    int i, best = -1;
    if (s->c->in_turn) {
        do best = s->turn[part]++ % s->n_part[part];
        while (s->part[part][best].dead);
        return best;
    }
    for (i = 0; i < s->n_part[part]; i++)
        if (!s->part[part][i].dead && (best < 0 || s->part[part][i].load < s->part[part][best].load)) best = i;
    return best;
}

/* ---- prefill ----------------------------------------------------------------------------------------------------- */

static void tinyi_ds_done(tinyi_ds *s, int r)
{
    s->time[r].done = s->now;
    s->done++;
}

/* A batch of prompts in the order of arrival: its first request, or -1. *ms: of a stage */
static int tinyi_ds_batch(tinyi_ds *s, tinyi_ds_instance *x, double *ms)
{
    double tokens = 0, squares = 0;
    tinyi_ds_queue batch = { -1, -1, 0 };
    while (x->queue.n) {
        const int r = x->queue.first, l = tinyi_ds_tokens(s, r), pages = tinyi_ds_pages(s, l + 1);
        if (batch.n && tokens + l > s->prompt_tokens) break;
        if (!tinyi_ds_has(s, 0, x, pages) || (s->together && x->rows.n + batch.n >= s->rows)) break;
        (void)tinyi_ds_pop(s, &x->queue);
        x->free -= pages;
        s->state[r].pages_read = pages;
        s->time[r].prefills++;
        tokens += l;
        squares += (double)l * l;
        tinyi_ds_push(s, &batch, r);
    }
    *ms = tllm_dist_prefill_ms(s->c->prefill.profile, s->pp[0], tokens, squares);
    return batch.n ? batch.first : -1;
}

/* split: the first stage takes a batch when it is free */
static void tinyi_ds_start(tinyi_ds *s, int p)
{
    tinyi_ds_instance *x = &s->part[0][p];
    double ms, t = s->now;
    int first, k;
    if (x->busy || x->flying >= s->pp[0]) return;
    first = tinyi_ds_batch(s, x, &ms);
    if (first < 0) return;
    x->flying++;
    for (k = 0; k < s->pp[0]; k++) t = x->stage[k] = TINYI_MAX(t, x->stage[k]) + 1e-3 * ms;
    x->busy = 1;
    tinyi_ds_add(s, x->stage[0], TINYI_DS_STAGE, p, 0);
    tinyi_ds_add(s, t, TINYI_DS_READ, p, first);
}

/* together: prompts first, else a token of every text */
static void tinyi_ds_turn(tinyi_ds *s, int p)
{
    tinyi_ds_instance *x = &s->part[0][p];
    double ms, cached = 0;
    int first, r;
    if (x->busy) return;
    first = tinyi_ds_batch(s, x, &ms);
    if (first >= 0) tinyi_ds_add(s, s->now + 1e-3 * s->pp[0] * ms, TINYI_DS_READ, p, first);
    else if (x->rows.n) {
        for (r = x->rows.first; r >= 0; r = s->state[r].next) cached += tinyi_ds_tokens(s, r);
        ms = tllm_dist_decode_ms(s->c->prefill.profile, s->pp[0], cached, x->rows.n);
        tinyi_ds_add(s, s->now + 1e-3 * ms, TINYI_DS_STEP, p, 0);
    } else return;
    x->busy = 1;
}

static void tinyi_ds_arrive(tinyi_ds *s, int r)
{
    const int p = tinyi_ds_choose(s, 0);
    s->time[r].prefill = p;
    s->state[r].in_read = 1;
    s->part[0][p].load++;
    tinyi_ds_push(s, &s->part[0][p].queue, r);
    if (s->together) tinyi_ds_turn(s, p);
    else tinyi_ds_start(s, p);
}
/* the request leaves its prefill instance, with its pages */
static void tinyi_ds_leaves(tinyi_ds *s, int r)
{
    tinyi_ds_instance *x;
    if (!s->state[r].in_read) return;
    x = &s->part[0][s->time[r].prefill];
    s->state[r].in_read = 0;
    x->free += s->state[r].pages_read;
    s->state[r].pages_read = 0;
    x->load--;
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

static void tinyi_ds_fetch(tinyi_ds *s, int d)
{
    tinyi_ds_instance *x = &s->part[1][d];
    double held = 0;
    int r, pages;
    if (x->dead || x->fetching || !x->bridge.n) return;
    for (r = x->waiting.n ? x->waiting.first : -1; r >= 0; r = s->state[r].next) held += s->state[r].pages;
    r = x->bridge.first;
    pages = tinyi_ds_pages(s, tinyi_ds_tokens(s, r) + 1);
    if (s->c->decode.pages && (!(held < s->accept * s->c->decode.pages) || x->aside.n)) return;
    if (!tinyi_ds_has(s, 1, x, pages)) return;
    (void)tinyi_ds_pop(s, &x->bridge);
    x->free -= pages;
    s->state[r].pages = pages;
    x->fetching = 1 + r;
    {
        const double bytes = s->c->role == TLLM_DIST_SPLIT ? s->c->kv_bytes * tinyi_ds_tokens(s, r) : 0;
        s->sum.moved += bytes;
        tinyi_ds_add(s, s->now + (s->c->link > 0 ? bytes / s->c->link : 0), TINYI_DS_FETCHED, d, r);
    }
}
/* texts without pages return first, then those that wait; a step begins if there are any */
static void tinyi_ds_step(tinyi_ds *s, int d)
{
    tinyi_ds_instance *x = &s->part[1][d];
    double cached = 0;
    int r;
    if (x->busy || x->dead) return;
    while (x->aside.n && x->rows.n < s->rows) {
        const int pages = tinyi_ds_pages(s, tinyi_ds_tokens(s, x->aside.first) + 1);
        if (!tinyi_ds_has(s, 1, x, pages)) break;
        r = tinyi_ds_pop(s, &x->aside);
        x->free -= pages;
        s->state[r].pages = pages;
        tinyi_ds_push(s, &x->rows, r);
    }
    /* those that wait hold pages: with no row left one of them must go on, or nothing would */
    while ((!x->aside.n || !x->rows.n) && x->waiting.n && x->rows.n < s->rows)
        tinyi_ds_push(s, &x->rows, tinyi_ds_pop(s, &x->waiting));
    tinyi_ds_fetch(s, d);
    if (!x->rows.n) return;
    for (r = x->rows.first; r >= 0; r = s->state[r].next) cached += tinyi_ds_tokens(s, r);
    x->busy = 1;
    tinyi_ds_add(s, s->now + 1e-3 * tllm_dist_decode_ms(s->c->decode.profile, s->pp[1], cached, x->rows.n),
                 TINYI_DS_STEP, d, 0);
}

static void tinyi_ds_to_decode(tinyi_ds *s, int r)
{
    const int d = tinyi_ds_choose(s, 1);
    s->time[r].decode = d;
    s->part[1][d].load++;
    tinyi_ds_push(s, &s->part[1][d].bridge, r);
    tinyi_ds_fetch(s, d);
}

/* Every text has one more token: those that are complete leave, the others may need a page. */
static void tinyi_ds_token(tinyi_ds *s, int part, tinyi_ds_instance *x)
{
    tinyi_ds_queue old = x->rows;
    int r, next, i, n = old.n;
    x->rows.n = 0;
    for (i = 0, r = old.first; i < n; i++, r = next) {
        tinyi_ds_request *q = &s->state[r];
        next = q->next;
        q->made++;
        if (s->time[r].first < 0) s->time[r].first = s->now;       /* a role without prefill */
        if (q->made < s->request[r].output) {
            tinyi_ds_push(s, &x->rows, r);
            continue;
        }
        if (part) {
            x->free += q->pages;
            q->pages = 0;
            x->load--;
        } else tinyi_ds_leaves(s, r);
        tinyi_ds_done(s, r);
    }
    old = x->rows;
    for (i = 0, r = old.first, n = old.n; i < n && i < x->rows.n; i++, r = next) {
        int *pages = part ? &s->state[r].pages : &s->state[r].pages_read;
        next = s->state[r].next;
        while (tinyi_ds_pages(s, tinyi_ds_tokens(s, r) + 1) > *pages && i < x->rows.n) {
            if (tinyi_ds_has(s, part, x, 1)) {
                x->free--;
                ++*pages;
            } else {                        /* the newest text gives its pages back; it may be this one */
                int before = -1, last = x->rows.first, *back;
                while (s->state[last].next >= 0) before = last, last = s->state[last].next;
                back = part ? &s->state[last].pages : &s->state[last].pages_read;
                x->free += *back;
                *back = 0;
                x->rows.n--;
                x->rows.last = before;
                if (before >= 0) s->state[before].next = -1;
                s->sum.swaps++;
                if (part) tinyi_ds_push(s, &x->aside, last);
                else {                      /* together: its prompt is read again, with what it has */
                    tinyi_ds_queue q = x->queue;
                    x->queue.n = 0;
                    tinyi_ds_push(s, &x->queue, last);
                    if (q.n) {
                        s->state[last].next = q.first;
                        x->queue.last = q.last;
                        x->queue.n = q.n + 1;
                    }
                }
            }
        }
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void tinyi_ds_read(tinyi_ds *s, int p, int first)
{
    tinyi_ds_instance *x = &s->part[0][p];
    int r, next;
    for (r = first; r >= 0; r = next) {
        next = s->state[r].next;
        s->state[r].made++;
        if (s->time[r].first < 0) s->time[r].first = s->now;
        if (s->state[r].made >= s->request[r].output || s->c->role == TLLM_DIST_PREFILL) {
            tinyi_ds_leaves(s, r);
            tinyi_ds_done(s, r);
        } else if (s->together) tinyi_ds_push(s, &x->rows, r);
        else tinyi_ds_to_decode(s, r);
    }
    if (s->together) {
        x->busy = 0;
        tinyi_ds_turn(s, p);
    } else {
        x->flying--;
        tinyi_ds_start(s, p);               /* a stage is free, and perhaps pages */
    }
}

static void tinyi_ds_dies(tinyi_ds *s, int d)
{
    tinyi_ds_instance *x = &s->part[1][d];
    tinyi_ds_queue *of[4];
    int i;
    of[0] = &x->rows;
    of[1] = &x->aside;
    of[2] = &x->waiting;
    of[3] = &x->bridge;
    x->dead = 1;
    if (x->fetching) tinyi_ds_push(s, &x->bridge, x->fetching - 1);
    for (i = 0; i < 4; i++)
        while (of[i]->n) {
            const int r = tinyi_ds_pop(s, of[i]);
            s->state[r].pages = 0;
            tinyi_ds_leaves(s, r);
            tinyi_ds_arrive(s, r);
        }
}

static void tinyi_ds_happens(tinyi_ds *s, const tinyi_ds_event *e)
{
    tinyi_ds_instance *x;
    switch (e->kind) {
    case TINYI_DS_ARRIVE:
        if (e->what + 1 < (int)s->n) tinyi_ds_add(s, s->request[e->what + 1].arrival, TINYI_DS_ARRIVE, 0, e->what + 1);
        if (s->c->role == TLLM_DIST_DECODE) tinyi_ds_to_decode(s, e->what);
        else tinyi_ds_arrive(s, e->what);
        return;
    case TINYI_DS_STAGE:
        s->part[0][e->who].busy = 0;
        tinyi_ds_start(s, e->who);
        return;
    case TINYI_DS_READ: tinyi_ds_read(s, e->who, e->what); return;
    case TINYI_DS_FETCHED:
        x = &s->part[1][e->who];
        if (x->dead) return;
        x->fetching = 0;
        tinyi_ds_push(s, &x->waiting, e->what);
        if (s->state[e->what].in_read) {
            tinyi_ds_leaves(s, e->what);
            tinyi_ds_start(s, s->time[e->what].prefill);
        }
        tinyi_ds_fetch(s, e->who);
        tinyi_ds_step(s, e->who);
        return;
    case TINYI_DS_STEP:
        x = &s->part[s->together ? 0 : 1][e->who];
        if (x->dead) return;
        x->busy = 0;
        tinyi_ds_token(s, !s->together, x);
        if (s->together) tinyi_ds_turn(s, e->who);
        else tinyi_ds_step(s, e->who);
        return;
    default: tinyi_ds_dies(s, e->who);
    }
}

/* ---- a simulation ------------------------------------------------------------------------------------------------ */

static int tinyi_ds_uses(const tllm_dist_config *c, int part)
{
    return part ? c->role == TLLM_DIST_SPLIT || c->role == TLLM_DIST_DECODE : c->role != TLLM_DIST_DECODE;
}

static tiny_status tinyi_ds_profile_check(tiny_ctx *ctx, const tllm_dist_profile *p)
{
    int i;
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a part has no profile");
    for (i = 0; i < 3; i++)
        if (!(p->prefill[i] >= 0 && p->decode[0][i] >= 0 && p->decode[1][i] >= 0 && p->prefill[i] < 1e12 &&
              p->decode[0][i] < 1e12 && p->decode[1][i] < 1e12))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "number %d of a profile is negative or not finite", i);
    if (!(p->prefill[0] + p->prefill[1] > 0) || !(p->decode[0][0] + p->decode[0][2] > 0) ||
        !(p->decode[1][0] + p->decode[1][2] > 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a profile whose prompts or tokens take no time");
    if (p->tp < 0 || p->threshold < 0 || !(p->stage_ms >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tp, threshold or stage_ms of a profile is negative");
    return TINY_OK;
}
static tiny_status tinyi_ds_check(tiny_ctx *ctx, const tllm_dist_config *c)
{
    int k;
    if (!c) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the configuration is NULL");
    if (c->role < 0 || c->role >= TLLM_DIST_ROLES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "role %d is not known", c->role);
    for (k = 0; k < 2; k++) {
        const tllm_dist_part *p = k ? &c->decode : &c->prefill;
        tiny_status st;
        if (!tinyi_ds_uses(c, k)) continue;
        if (p->instances < 1 || p->instances > 4096 || p->pp < 0 || p->pp > TINYI_DS_STAGES || p->pages < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %d instances of %d stages with %d pages",
                              k ? "decode" : "prefill", p->instances, p->pp, p->pages);
        st = tinyi_ds_profile_check(ctx, p->profile);
        if (st) return st;
    }
    if (c->prompt_tokens < 0 || c->rows < 0 || c->page < 0 || !(c->accept >= 0) || !(c->kv_bytes >= 0) ||
        !(c->link >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "prompt_tokens, rows, page, accept, kv_bytes or link is negative");
    if (c->dies && (c->role != TLLM_DIST_SPLIT || c->decode.instances < 2 || c->dies < 0 ||
                    c->dies > c->decode.instances || !(c->dies_at >= 0)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "decode instance %d of %d cannot fail: another one must be left",
                          c->dies - 1, c->decode.instances);
    return TINY_OK;
}
TINY_API int tllm_dist_devices(const tllm_dist_config *c)
{
    int n = 0, k;
    for (k = 0; k < 2 && c; k++) {
        const tllm_dist_part *p = k ? &c->decode : &c->prefill;
        if (tinyi_ds_uses(c, k))
            n += p->instances * TINYI_MAX(p->pp, 1) * (p->profile && p->profile->tp ? p->profile->tp : 1);
    }
    return n;
}

TINY_API tiny_status tllm_dist_simulate(tiny_ctx *ctx, const tllm_dist_config *c, const tllm_dist_request *request,
                                        size_t n, tllm_dist_time *time, tllm_dist_sum *sum)
{
    tinyi_ds s;
    size_t i;
    int k, j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_ds_check(ctx, c);
    if (st) return st;
    if (!request || !time || !n || n > INT32_MAX / 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a simulation needs requests and room for their times");
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    s.c = c;
    s.request = request;
    s.time = time;
    s.n = n;
    s.together = c->role == TLLM_DIST_TOGETHER;
    s.page = c->page ? c->page : 16;
    s.rows = c->rows ? c->rows : 256;
    s.prompt_tokens = c->prompt_tokens ? c->prompt_tokens : s.together ? 2048 : 512;
    s.accept = c->accept > 0 ? c->accept : 0.05;
    for (i = 0; i < n; i++) {
        const tllm_dist_request *r = &request[i];
        if (!(r->arrival >= (i ? request[i - 1].arrival : 0)) || !(r->arrival < 1e300) || r->prompt < 1 ||
            r->output < 1 || r->prompt > 1 << 28 || r->output > 1 << 28)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "request %zu: arrival %g, prompt %d, output %d", i, r->arrival,
                              r->prompt, r->output);
        for (k = 0; k < 2; k++) {
            const int pages = tinyi_ds_uses(c, k) ? (k ? c->decode.pages : c->prefill.pages) : 0;
            if (pages && tinyi_ds_pages(&s, r->prompt + r->output + 1) > pages)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "request %zu needs %d pages, an instance has %d", i,
                                  tinyi_ds_pages(&s, r->prompt + r->output + 1), pages);
        }
    }
    s.state = (tinyi_ds_request *)tinyi_alloc(ctx, n, sizeof *s.state);
    for (k = 0; k < 2; k++) {
        const tllm_dist_part *p = k ? &c->decode : &c->prefill;
        s.n_part[k] = tinyi_ds_uses(c, k) ? p->instances : 0;
        s.pp[k] = TINYI_MAX(p->pp, 1);
        s.part[k] = (tinyi_ds_instance *)tinyi_alloc(ctx, (size_t)s.n_part[k] + 1, sizeof *s.part[k]);
        if (s.part[k]) memset(s.part[k], 0, ((size_t)s.n_part[k] + 1) * sizeof *s.part[k]);
        for (j = 0; j < s.n_part[k] && s.part[k]; j++) s.part[k][j].free = p->pages;
    }
    /* open at once: an arrival, a failure, of each instance a stage, a fetch, a step and a batch in each stage */
    s.room = 2 + (size_t)s.n_part[0] * ((size_t)s.pp[0] + 2) + 2 * (size_t)s.n_part[1];
    s.event = (tinyi_ds_event *)tinyi_alloc(ctx, s.room + 1, sizeof *s.event);
    if (!s.state || !s.part[0] || !s.part[1] || !s.event) st = tiny_ctx_status(ctx);
    else {
        double last = 0;
        memset(s.state, 0, n * sizeof *s.state);
        for (i = 0; i < n; i++) {
            time[i].first = time[i].done = -1;
            time[i].prefill = time[i].decode = -1;
            time[i].prefills = 0;
        }
        tinyi_ds_add(&s, request[0].arrival, TINYI_DS_ARRIVE, 0, 0);
        if (c->dies) tinyi_ds_add(&s, c->dies_at, TINYI_DS_DIES, c->dies - 1, 0);
        while (s.n_event && s.done < n) {
            const tinyi_ds_event e = tinyi_ds_next(&s);
            s.now = e.at;
            s.sum.area -= (double)s.done * (s.now - last);
            last = s.now;
            tinyi_ds_happens(&s, &e);
        }
        s.sum.end = s.now;
        for (i = 0; i < n; i++) s.sum.area += s.sum.end - request[i].arrival;  /* less those that were done before */
        if (s.done < n) st = tinyi_fail(ctx, TINY_E_NUMERIC, "%zu of %zu requests never end", n - s.done, n);
    }
    if (!st && sum) *sum = s.sum;
    tiny_free(ctx, s.state);
    tiny_free(ctx, s.part[0]);
    tiny_free(ctx, s.part[1]);
    tiny_free(ctx, s.event);
    return st;
}
