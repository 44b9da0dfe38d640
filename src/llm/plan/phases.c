/* src/llm/plan/phases.c - prompts and answers on devices of their own: an event simulator
 * Paper    Y. Zhong et al., "DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model
 *          Serving", OSDI 2024 (arXiv 2401.09670), sections 3 to 5; the form of the profile is that of its simulator.
 * Events   a heap by time, then by the order in which they were made: an instance takes its next batch of prompts, a
 *          batch has its first tokens, a cache has been fetched, a step of answers is done. Arrivals come from the
 *          list.
 * Prompts  first come, first served: requests until their tokens exceed `batch`; a longer one goes alone. A stage is
 *          busy for tllm_phases_prompt_time; the next batch may follow when the first stage is free.
 * Fetch    an instance of answers fetches one cache at a time, when the pages for the prompt are free and those that
 *          wait there are less than their share. Until it is there the pages stay where the prompt was read, which is
 *          what stops that side.
 * Answers  a lane for each stage: requests of a lane take a step together, lanes do not wait for each other. All that
 *          waits joins at the next step. Where pages run out, the newest request of the instance loses its own, and
 *          returns before anything new.
 * Left out the time of swaps; batches of one instance that differ between stages other than by their own times. */
#include <string.h>
#include "llm/plan/phases.h"
#include "core/state_inside.h"
#include <limits.h>
#include <math.h>

enum { TINYI_PHASE_NEXT, TINYI_PHASE_READ, TINYI_PHASE_FETCHED, TINYI_PHASE_STEP };

typedef struct tinyi_phase_event { double at; uint64_t order; int kind, instance, lane, batch; } tinyi_phase_event;
typedef struct tinyi_phase_list { int first, last; } tinyi_phase_list;      /* linked by next; -1: empty */
typedef struct tinyi_phase_lane { tinyi_phase_list rows; double cells; int n, busy; } tinyi_phase_lane;
typedef struct tinyi_phase_side {           /* an instance */
    tinyi_phase_list queue, bridge, waiting, gone;  /* gone: swapped out, the newest of them first */
    int n_held;                             /* requests that were sent here and have not left */
    int busy;                               /* prompts: the first stage, until NEXT; answers: a cache is on its way */
    double free, waits;                     /* pages; pages of those that wait */
    double stage[TLLM_PHASES_STAGES];       /* when it is free */
    tinyi_phase_lane lane[TLLM_PHASES_STAGES];
} tinyi_phase_side;
typedef struct tinyi_phase_row { int next, made, prompts_at, answers_at; } tinyi_phase_row;

typedef struct tinyi_phases {
    tiny_ctx *ctx;
    const tllm_phases *d;
    const tllm_phases_request *request;
    tllm_phases_times *times;
    tinyi_phase_row *row;
    tinyi_phase_side *prompts, *answers;
    tinyi_phase_event *heap;
    size_t n, n_heap, room, done;
    uint64_t order;
    int page, batch;
    unsigned turn[2];
    double now, pool[2];                    /* pages of an instance of either kind */
    double moved, swaps, area, inside, area_at;
} tinyi_phases;

/* ---- events and lists */

static int tinyi_phase_before(const tinyi_phase_event *a, const tinyi_phase_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}
static tiny_status tinyi_phase_post(tinyi_phases *s, double at, int kind, int instance, int lane, int batch)
{
    tinyi_phase_event e;
    size_t i, up;
    if (s->n_heap == s->room) {
        tinyi_phase_event *more = (tinyi_phase_event *)tinyi_alloc(s->ctx, 2 * s->room + 64, sizeof *more);
        if (!more) return TINY_E_MEMORY;
        if (s->n_heap) memcpy(more, s->heap, s->n_heap * sizeof *more);
        tiny_free(s->ctx, s->heap);
        s->heap = more;
        s->room = 2 * s->room + 64;
    }
    e.at = at; e.order = s->order++;
    e.kind = kind; e.instance = instance; e.lane = lane; e.batch = batch;
    for (i = s->n_heap++; i; i = up) {
        up = (i - 1) / 2;
        if (!tinyi_phase_before(&e, &s->heap[up])) break;
        s->heap[i] = s->heap[up];
    }
    s->heap[i] = e;
    return TINY_OK;
}
static tinyi_phase_event tinyi_phase_take(tinyi_phases *s)
{
    const tinyi_phase_event first = s->heap[0], e = s->heap[--s->n_heap];
    size_t i = 0, k;
    while ((k = 2 * i + 1) < s->n_heap) {
        if (k + 1 < s->n_heap && tinyi_phase_before(&s->heap[k + 1], &s->heap[k])) k++;
        if (!tinyi_phase_before(&s->heap[k], &e)) break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = e;
    return first;
}
static void tinyi_phase_push(tinyi_phases *s, tinyi_phase_list *l, int r)
{
    s->row[r].next = -1;
    if (l->last >= 0) s->row[l->last].next = r;
    else l->first = r;
    l->last = r;
}
static int tinyi_phase_pop(tinyi_phases *s, tinyi_phase_list *l)
{
    const int r = l->first;
    l->first = s->row[r].next;
    if (l->first < 0) l->last = -1;
    return r;
}
static void tinyi_phase_cut(tinyi_phases *s, tinyi_phase_list *l, int r)
{
    int before = -1, i;
    for (i = l->first; i != r; i = s->row[i].next) before = i;
    if (before < 0) { (void)tinyi_phase_pop(s, l); return; }
    s->row[before].next = s->row[r].next;
    if (l->last == r) l->last = before;
}

static double tinyi_phase_pages(const tinyi_phases *s, double tokens) { return ceil(tokens / s->page); }
static double tinyi_phase_held(const tinyi_phases *s, int r)
{
    return tinyi_phase_pages(s, (double)s->request[r].prompt + s->row[r].made);
}

/* ---- the profile */

const tllm_phases_time *tinyi_phases_time(const tllm_phases *d, int tp)
{
    int i;
    for (i = 0; i < d->n_time; i++) if (d->time[i].tp == tp) return &d->time[i];
    return NULL;
}
double tllm_phases_prompt_time(const tllm_phases *d, int tp, int pp, double sum, double squares)
{
    const tllm_phases_time *t = d && d->time && pp > 0 ? tinyi_phases_time(d, tp) : NULL;
    if (!t) return (double)NAN;
    return (t->prompt[0] + t->prompt[1] * sum + t->prompt[2] * squares) / pp + (pp > 1 ? t->stage * pp : 0.0);
}
double tllm_phases_token_time(const tllm_phases *d, int tp, int pp, double cells, int requests)
{
    const tllm_phases_time *t = d && d->time && pp > 0 ? tinyi_phases_time(d, tp) : NULL;
    const double *c;
    if (!t) return (double)NAN;
    c = t->token[requests > (t->few ? t->few : 95)];
    return (c[0] + c[1] * cells + c[2] * requests) / pp;
}

/* ---- steps of the simulation */

static void tinyi_phase_there(tinyi_phases *s, int more)
{
    s->area += s->inside * (s->now - s->area_at);
    s->area_at = s->now;
    s->inside += more;
}
static void tinyi_phase_end(tinyi_phases *s, int r)
{
    s->times[r].end = s->now;
    s->done++;
    tinyi_phase_there(s, -1);
}

/* the instance with the least requests, or the next one in turn */
static int tinyi_phase_choose(tinyi_phases *s, const tinyi_phase_side *side, int n, int which)
{
    int i, best = 0;
    if (s->d->in_turn) return (int)(s->turn[which]++ % (unsigned)n);
    for (i = 1; i < n; i++) if (side[i].n_held < side[best].n_held) best = i;
    return best;
}

/* The next batch of prompts of an instance leaves its queue; -1: there is none, or no room. */
static int tinyi_phase_batch(tinyi_phases *s, tinyi_phase_side *p, double *sum, double *squares)
{
    tinyi_phase_list batch;
    const int together = s->d->mode == TLLM_PHASES_TOGETHER;
    batch.first = batch.last = -1;
    *sum = *squares = 0;
    while (p->queue.first >= 0) {
        const int r = p->queue.first;
        const double l = s->request[r].prompt, pages = tinyi_phase_pages(s, l + together);
        if ((batch.first >= 0 && *sum + l > s->batch) || pages > p->free) break;
        tinyi_phase_push(s, &batch, tinyi_phase_pop(s, &p->queue));
        p->free -= pages;
        *sum += l;
        *squares += l * l;
    }
    return batch.first;
}

/* apart: the first stage takes a batch of prompts */
static tiny_status tinyi_phase_read(tinyi_phases *s, int at)
{
    tinyi_phase_side *p = &s->prompts[at];
    const tllm_phases_group *g = &s->d->prompts;
    double sum, squares, stage, t = s->now;
    int head, i;
    if (p->busy || (head = tinyi_phase_batch(s, p, &sum, &squares)) < 0) return TINY_OK;
    stage = tllm_phases_prompt_time(s->d, g->tp, g->pp, sum, squares);
    for (i = 0; i < g->pp; i++) p->stage[i] = t = (t > p->stage[i] ? t : p->stage[i]) + stage;
    p->busy = 1;
    if (tinyi_phase_post(s, t, TINYI_PHASE_READ, at, 0, head)) return TINY_E_MEMORY;
    return tinyi_phase_post(s, p->stage[0], TINYI_PHASE_NEXT, at, 0, 0);
}

/* a cache is fetched, if there is room for it */
static tiny_status tinyi_phase_fetch(tinyi_phases *s, int at)
{
    tinyi_phase_side *a = &s->answers[at];
    const double share = s->d->waiting > 0 ? s->d->waiting : 0.05;
    int r;
    double pages, bytes;
    if (a->busy || a->bridge.first < 0 || a->gone.first >= 0) return TINY_OK;
    pages = tinyi_phase_held(s, a->bridge.first);
    if (pages > a->free || (a->waits > 0 && a->waits >= share * s->pool[1])) return TINY_OK;
    r = tinyi_phase_pop(s, &a->bridge);
    a->free -= pages;
    a->waits += pages;
    a->busy = 1;
    bytes = s->d->mode == TLLM_PHASES_ANSWERS ? 0 : s->d->token_bytes * s->request[r].prompt;
    s->moved += bytes;
    return tinyi_phase_post(s, s->now + (s->d->link > 0 ? 1e3 * bytes / s->d->link : 0), TINYI_PHASE_FETCHED, at, 0, r);
}

static void tinyi_phase_join(tinyi_phases *s, tinyi_phase_lane *l, int r)
{
    tinyi_phase_push(s, &l->rows, r);
    l->n++;
    l->cells += (double)s->request[r].prompt + s->row[r].made;
}

/* Requests join a lane that is free: first those that lost their pages, then those that wait. */
static void tinyi_phase_admit(tinyi_phases *s, tinyi_phase_side *a, tinyi_phase_lane *l, int lanes)
{
    int i, n = 0, most = s->d->most ? s->d->most : INT_MAX;
    for (i = 0; i < lanes; i++) n += a->lane[i].n;
    /* an even share for each lane */
    if (lanes > 1 && most > (n + lanes) / lanes) most = (n + lanes) / lanes;
    while (a->gone.first >= 0 && l->n < most && tinyi_phase_held(s, a->gone.first) <= a->free) {
        a->free -= tinyi_phase_held(s, a->gone.first);
        tinyi_phase_join(s, l, tinyi_phase_pop(s, &a->gone));
        n++;
    }
    while (a->waiting.first >= 0 && l->n < most && (a->gone.first < 0 || !n)) {
        a->waits -= tinyi_phase_held(s, a->waiting.first);
        tinyi_phase_join(s, l, tinyi_phase_pop(s, &a->waiting));
        n++;
    }
}

/* a lane that is free does what comes next */
static tiny_status tinyi_phase_turn(tinyi_phases *s, int at, int lane)
{
    const int together = s->d->mode == TLLM_PHASES_TOGETHER;
    const tllm_phases_group *g = together ? &s->d->prompts : &s->d->answers;
    tinyi_phase_side *a = together ? &s->prompts[at] : &s->answers[at];
    tinyi_phase_lane *l = &a->lane[lane];
    double sum, squares;
    int head = -1;
    if (l->busy) return TINY_OK;
    tinyi_phase_admit(s, a, l, g->pp);
    if (together && a->gone.first < 0 && (!s->d->most || l->n < s->d->most))
        head = tinyi_phase_batch(s, a, &sum, &squares);
    if (head < 0 && !l->n) return TINY_OK;
    l->busy = 1;
    if (head >= 0)
        return tinyi_phase_post(s, s->now + g->pp * tllm_phases_prompt_time(s->d, g->tp, g->pp, sum, squares),
                                TINYI_PHASE_READ, at, lane, head);
    return tinyi_phase_post(s, s->now + g->pp * tllm_phases_token_time(s->d, g->tp, g->pp, l->cells, l->n),
                            TINYI_PHASE_STEP, at, lane, 0);
}
static tiny_status tinyi_phase_turns(tinyi_phases *s, int at)
{
    const int pp = s->d->mode == TLLM_PHASES_TOGETHER ? s->d->prompts.pp : s->d->answers.pp;
    int i;
    tiny_status st = TINY_OK;
    for (i = 0; i < pp && !st; i++) st = tinyi_phase_turn(s, at, i);
    return st;
}

/* Every request of a lane has a token more. Where pages run out, the newest requests of the instance lose theirs. */
static void tinyi_phase_token(tinyi_phases *s, tinyi_phase_side *a, int lanes, int lane)
{
    tinyi_phase_lane *l = &a->lane[lane];
    tinyi_phase_list rows = l->rows;
    double need = 0;
    l->rows.first = l->rows.last = -1;
    l->n = 0;
    l->cells = 0;
    while (rows.first >= 0) {
        const int r = tinyi_phase_pop(s, &rows);
        const double before = tinyi_phase_held(s, r);
        s->row[r].made++;
        if (s->row[r].made >= s->request[r].answer) {
            a->free += before;
            a->n_held--;
            tinyi_phase_end(s, r);
            continue;
        }
        need += tinyi_phase_held(s, r) - before;
        tinyi_phase_join(s, l, r);
    }
    while (need > a->free) {
        int i, r, newest = -1, from = 0, grew = 0;
        for (i = 0; i < lanes; i++)
            for (r = a->lane[i].rows.first; r >= 0; r = s->row[r].next) if (r > newest) { newest = r; from = i; }
        if (newest < 0) break;
        tinyi_phase_cut(s, &a->lane[from].rows, newest);
        a->lane[from].n--;
        a->lane[from].cells -= (double)s->request[newest].prompt + s->row[newest].made;
        if (from == lane)
            grew = tinyi_phase_held(s, newest) >
                   tinyi_phase_pages(s, (double)s->request[newest].prompt + s->row[newest].made - 1);
        need -= grew;
        a->free += tinyi_phase_held(s, newest) - grew;
        s->row[newest].next = a->gone.first;        /* the oldest of them returns first */
        a->gone.first = newest;
        if (a->gone.last < 0) a->gone.last = newest;
        s->times[newest].swaps++;
        s->swaps++;
    }
    a->free -= need;
}

/* a prompt was read: its first token is there */
static tiny_status tinyi_phase_was_read(tinyi_phases *s, int at, int lane, int r)
{
    const tllm_phases *d = s->d;
    tinyi_phase_side *p = &s->prompts[at];
    const int together = d->mode == TLLM_PHASES_TOGETHER;
    s->times[r].first = s->now;
    s->row[r].made = 1;
    if (d->mode == TLLM_PHASES_PROMPTS || s->request[r].answer == 1) {
        p->free += tinyi_phase_pages(s, (double)s->request[r].prompt + together);
        p->n_held--;
        tinyi_phase_end(s, r);
        return TINY_OK;
    }
    if (together) {
        tinyi_phase_join(s, &p->lane[lane], r);
        return TINY_OK;
    }
    p->n_held--;
    s->row[r].answers_at = tinyi_phase_choose(s, s->answers, d->answers.n, 1);
    s->answers[s->row[r].answers_at].n_held++;
    tinyi_phase_push(s, &s->answers[s->row[r].answers_at].bridge, r);
    return tinyi_phase_fetch(s, s->row[r].answers_at);
}

static tiny_status tinyi_phase_happens(tinyi_phases *s, const tinyi_phase_event *e)
{
    const int together = s->d->mode == TLLM_PHASES_TOGETHER;
    tiny_status st = TINY_OK;
    int r, next;
    if (e->kind == TINYI_PHASE_NEXT) {
        s->prompts[e->instance].busy = 0;
        return tinyi_phase_read(s, e->instance);
    }
    if (e->kind == TINYI_PHASE_READ) {
        for (r = e->batch; r >= 0 && !st; r = next) {
            next = s->row[r].next;
            st = tinyi_phase_was_read(s, e->instance, e->lane, r);
        }
        if (st) return st;
        if (!together) return tinyi_phase_read(s, e->instance);
        s->prompts[e->instance].lane[e->lane].busy = 0;
        return tinyi_phase_turns(s, e->instance);
    }
    if (e->kind == TINYI_PHASE_FETCHED) {
        tinyi_phase_side *a = &s->answers[e->instance];
        r = e->batch;
        a->busy = 0;
        tinyi_phase_push(s, &a->waiting, r);
        st = tinyi_phase_turns(s, e->instance);
        if (!st) st = tinyi_phase_fetch(s, e->instance);
        if (st || s->d->mode == TLLM_PHASES_ANSWERS) return st;
        s->prompts[s->row[r].prompts_at].free += tinyi_phase_pages(s, s->request[r].prompt);
        return tinyi_phase_read(s, s->row[r].prompts_at);
    }
    if (together) {
        s->prompts[e->instance].lane[e->lane].busy = 0;
        tinyi_phase_token(s, &s->prompts[e->instance], s->d->prompts.pp, e->lane);
        return tinyi_phase_turns(s, e->instance);
    }
    s->answers[e->instance].lane[e->lane].busy = 0;
    tinyi_phase_token(s, &s->answers[e->instance], s->d->answers.pp, e->lane);
    st = tinyi_phase_turns(s, e->instance);
    return st ? st : tinyi_phase_fetch(s, e->instance);
}

static tiny_status tinyi_phase_arrives(tinyi_phases *s, int r)
{
    const tllm_phases *d = s->d;
    tinyi_phase_there(s, 1);
    if (d->mode == TLLM_PHASES_ANSWERS) {
        s->times[r].first = s->now;
        s->row[r].made = 1;
        if (s->request[r].answer == 1) { tinyi_phase_end(s, r); return TINY_OK; }
        s->row[r].answers_at = tinyi_phase_choose(s, s->answers, d->answers.n, 1);
        s->answers[s->row[r].answers_at].n_held++;
        tinyi_phase_push(s, &s->answers[s->row[r].answers_at].bridge, r);
        return tinyi_phase_fetch(s, s->row[r].answers_at);
    }
    s->row[r].prompts_at = tinyi_phase_choose(s, s->prompts, d->prompts.n, 0);
    s->prompts[s->row[r].prompts_at].n_held++;
    tinyi_phase_push(s, &s->prompts[s->row[r].prompts_at].queue, r);
    if (d->mode == TLLM_PHASES_TOGETHER) return tinyi_phase_turns(s, s->row[r].prompts_at);
    return tinyi_phase_read(s, s->row[r].prompts_at);
}

/* ---- checks */

static tiny_status tinyi_phase_group(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_group *g, const char *what)
{
    if (g->n < 1 || g->n > TLLM_PHASES_INSTANCES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: %d instances for %s, expected 1 to %d", g->n, what,
                          TLLM_PHASES_INSTANCES);
    if (g->pp < 1 || g->pp > TLLM_PHASES_STAGES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: %d stages for %s, expected 1 to %d", g->pp, what,
                          TLLM_PHASES_STAGES);
    if (!tinyi_phases_time(d, g->tp))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: the profile has no row for layers cut over %d devices", g->tp);
    return TINY_OK;
}
tiny_status tinyi_phases_profile(tiny_ctx *ctx, const tllm_phases *d)
{
    int i, j;
    if (!d->time || d->n_time < 1 || d->n_time > TLLM_PHASES_TIMES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a profile of %d rows, expected 1 to %d", d->n_time,
                          TLLM_PHASES_TIMES);
    for (i = 0; i < d->n_time; i++) {
        const tllm_phases_time *t = &d->time[i];
        int bad = t->tp < 1 || t->few < 0 || !(t->stage >= 0) || !(t->stage < (double)INFINITY);
        for (j = 0; j < 3; j++)
            bad |= !(fabs(t->prompt[j]) < 1e12) || !(fabs(t->token[0][j]) < 1e12) || !(fabs(t->token[1][j]) < 1e12);
        /* times that would run backwards */
        bad |= t->prompt[0] + t->prompt[1] + t->prompt[2] <= 0 || t->prompt[1] < 0 || t->prompt[2] < 0;
        for (j = 0; j < 2; j++)
            bad |= t->token[j][0] + t->token[j][1] + t->token[j][2] <= 0 || t->token[j][1] < 0 || t->token[j][2] < 0;
        if (bad)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "phases: row %d of the profile: tp of 1 or more, finite numbers, and times above 0 that "
                              "grow with the tokens are wanted", i);
    }
    return TINY_OK;
}
tiny_status tinyi_phases_check(tiny_ctx *ctx, const tllm_phases *d)
{
    tiny_status st = tinyi_phases_profile(ctx, d);
    if ((int)d->mode < 0 || d->mode > TLLM_PHASES_ANSWERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: unknown mode %d", (int)d->mode);
    if (!st && (d->batch < 0 || d->most < 0 || d->page < 0 || !(d->prompt_cells >= 0) || !(d->answer_cells >= 0) ||
                !(d->waiting >= 0 && d->waiting <= 1) || !(d->token_bytes >= 0 && d->token_bytes < 1e15) ||
                !(d->link >= 0)))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: batch, most, page, cells, waiting, token_bytes and link may not "
                                              "be negative, and waiting not above 1");
    if (!st && d->mode != TLLM_PHASES_ANSWERS) st = tinyi_phase_group(ctx, d, &d->prompts, "prompts");
    if (!st && (d->mode == TLLM_PHASES_APART || d->mode == TLLM_PHASES_ANSWERS))
        st = tinyi_phase_group(ctx, d, &d->answers, "answers");
    return st;
}
static tiny_status tinyi_phase_requests(tiny_ctx *ctx, const tinyi_phases *s)
{
    const int together = s->d->mode == TLLM_PHASES_TOGETHER;
    size_t i;
    for (i = 0; i < s->n; i++) {
        const tllm_phases_request *r = &s->request[i];
        double prompt, whole;
        if (!(r->at >= 0 && r->at < 1e15) || (i && r->at < r[-1].at))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: request %d does not arrive after the one before it",
                              (int)i);
        if (r->prompt < 1 || r->prompt > TLLM_PHASES_TOKENS || r->answer < 1 || r->answer > TLLM_PHASES_TOKENS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: request %d has a prompt of %d tokens and an answer of %d, "
                                                    "expected 1 to %d", (int)i, r->prompt, r->answer,
                              TLLM_PHASES_TOKENS);
        prompt = tinyi_phase_pages(s, (double)r->prompt + together);
        whole = tinyi_phase_pages(s, (double)r->prompt + r->answer);
        if ((s->d->mode != TLLM_PHASES_ANSWERS && prompt > s->pool[0]) || (together && whole > s->pool[0]) ||
            (s->d->mode != TLLM_PHASES_PROMPTS && !together && whole > s->pool[1]))
            return tinyi_fail(ctx, TINY_E_WORKSPACE, "phases: request %d, %d tokens and %d more, is too long for the "
                                                     "cells of an instance", (int)i, r->prompt, r->answer);
    }
    return TINY_OK;
}

/* ---- reports */

/* The k-th smallest, counted from 0; x is put into another order. */
static double tinyi_phase_kth(double *x, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        const double pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            double t;
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i >= j) break;
            t = x[i]; x[i++] = x[j]; x[j--] = t;
        }
        if (x[j] > pivot) j--;
        if (k <= j) high = j;
        else low = j + 1;
    }
    return x[k];
}
static void tinyi_phase_report(const tinyi_phases *s, double *x, tllm_phases_report *out)
{
    const size_t n = s->n, k = (9 * n + 9) / 10 - 1;
    double last = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        x[i] = s->times[i].first - s->request[i].at;
        out->first += x[i] / (double)n;
        out->stay += (s->times[i].end - s->request[i].at) / (double)n;
        if (s->times[i].end > last) last = s->times[i].end;
    }
    out->first_90 = tinyi_phase_kth(x, n, k);
    for (i = 0; i < n; i++) {
        const int more = s->request[i].answer - 1;
        x[i] = more && s->d->mode != TLLM_PHASES_PROMPTS ? (s->times[i].end - s->times[i].first) / more : 0;
        out->each += x[i] / (double)n;
    }
    out->each_90 = tinyi_phase_kth(x, n, k);
    out->span = last - s->request[0].at;
    out->inside = out->span > 0 ? s->area / out->span : 0;
    out->moved = s->moved;
    out->swaps = s->swaps;
}

static void tinyi_phase_empty(tinyi_phase_side *side, int n, double pages)
{
    int i, k;
    for (i = 0; i < n; i++) {
        memset(&side[i], 0, sizeof side[i]);
        side[i].queue.first = side[i].queue.last = side[i].bridge.first = side[i].bridge.last = -1;
        side[i].waiting = side[i].gone = side[i].queue;
        side[i].free = pages;
        for (k = 0; k < TLLM_PHASES_STAGES; k++) side[i].lane[k].rows = side[i].queue;
    }
}

tiny_status tllm_phases_simulate(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_request *request, size_t n,
                                 tllm_phases_times *times, tllm_phases_report *report)
{
    tinyi_phases s;
    double *x = NULL;
    size_t i;
    int np, na;
    tiny_status st;
    if (report) memset(report, 0, sizeof *report);
    if (!ctx) return TINY_E_ARGUMENT;
    if (!d || !request || !report || !n || n > INT_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a description, requests and a report are needed");
    st = tinyi_phases_check(ctx, d);
    if (st) return st;
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    s.d = d;
    s.request = request;
    s.n = n;
    s.page = d->page ? d->page : 16;
    s.batch = d->batch ? d->batch : d->mode == TLLM_PHASES_TOGETHER ? 2048 : 512;
    s.pool[0] = d->prompt_cells > 0 ? floor(d->prompt_cells / s.page) : (double)INFINITY;
    s.pool[1] = d->answer_cells > 0 ? floor(d->answer_cells / s.page) : (double)INFINITY;
    st = tinyi_phase_requests(ctx, &s);
    if (st) return st;
    np = d->mode == TLLM_PHASES_ANSWERS ? 0 : d->prompts.n;
    na = d->mode == TLLM_PHASES_APART || d->mode == TLLM_PHASES_ANSWERS ? d->answers.n : 0;
    s.times = times ? times : (tllm_phases_times *)tinyi_alloc(ctx, n, sizeof *times);
    s.row = (tinyi_phase_row *)tinyi_alloc(ctx, n, sizeof *s.row);
    s.prompts = (tinyi_phase_side *)tinyi_alloc(ctx, (size_t)np + (size_t)na, sizeof *s.prompts);
    x = (double *)tinyi_alloc(ctx, n, sizeof *x);
    if (!s.times || !s.row || !s.prompts || !x) st = TINY_E_MEMORY;
    if (!st) {
        s.answers = s.prompts + np;
        memset(s.times, 0, n * sizeof *s.times);
        memset(s.row, 0, n * sizeof *s.row);
        tinyi_phase_empty(s.prompts, np, s.pool[0]);
        tinyi_phase_empty(s.answers, na, s.pool[1]);
        s.area_at = request[0].at;
    }
    for (i = 0; !st && (i < n || s.n_heap);) {
        if (i < n && (!s.n_heap || request[i].at <= s.heap[0].at)) {
            s.now = request[i].at;
            st = tinyi_phase_arrives(&s, (int)i++);
        } else {
            const tinyi_phase_event e = tinyi_phase_take(&s);
            s.now = e.at;
            st = tinyi_phase_happens(&s, &e);
        }
    }
    if (!st && s.done < n) st = tinyi_fail(ctx, TINY_E_WORKSPACE, "phases: %d requests never ended", (int)(n - s.done));
    if (!st) tinyi_phase_report(&s, x, report);
    tiny_free(ctx, x);
    tiny_free(ctx, s.heap);
    tiny_free(ctx, s.prompts);
    tiny_free(ctx, s.row);
    if (!times) tiny_free(ctx, s.times);
    return st;
}
