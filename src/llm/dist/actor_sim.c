/* src/llm/dist/actor_sim.c - a graph of actors on a clock of its own
 * Method   the rules of actor.c, with a heap of the calls that will return and the items that will arrive. At each time
 *          everything that can begin begins, in the order of the list.
 * Formula  an item of n bytes that is announced to another rank at t leaves at max(t + a, landing free) + a, or when
 *          the link is free. The link is busy for n b seconds; then the producer's buffer is free. The item arrives a
 *          later. */
#include "llm/dist/actor_inside.h"
#include <string.h>

static int tinyi_actor_before(const tinyi_actor_event *a, const tinyi_actor_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}
/* a heap; of equal times the earlier one first. kind TINYI_NOTES: the call of actor `edge` returns */
static void tinyi_actor_event_add(tinyi_actors *r, uint64_t at, int kind, int e, int arg)
{
    tinyi_actor_event x;
    size_t i = r->n_event;
    if (i == r->event_room) {
        tinyi_actor_fail(r, TINY_E_OVERFLOW, "the simulation has more events than its graph allows");
        return;
    }
    r->n_event++;
    x.at = at;
    x.order = r->order++;
    x.kind = kind;
    x.edge = e;
    x.arg = arg;
    for (; i && tinyi_actor_before(&x, &r->event[(i - 1) / 2]); i = (i - 1) / 2) r->event[i] = r->event[(i - 1) / 2];
    r->event[i] = x;
}
static tinyi_actor_event tinyi_actor_event_take(tinyi_actors *r)
{
    const tinyi_actor_event first = r->event[0], last = r->event[--r->n_event];
    size_t i = 0, k;
    while ((k = 2 * i + 1) < r->n_event) {
        if (k + 1 < r->n_event && tinyi_actor_before(&r->event[k + 1], &r->event[k])) k++;
        if (!tinyi_actor_before(&r->event[k], &last)) break;
        r->event[i] = r->event[k];
        i = k;
    }
    if (r->n_event) r->event[i] = last;
    return first;
}

/* simulated: the same three steps as times. An item leaves when both sides and the link are free. */
static void tinyi_actor_travel(tinyi_actors *r, int e)
{
    tinyi_actor_edge *x = &r->edge[e];
    const tllm_actor_desc *d = r->d;
    uint64_t *free_at = &r->link_free[d->actor[x->from].rank * r->world + d->actor[x->to].rank];
    while (x->ready.n && x->empty.n && !x->halted) {
        const int b = tinyi_actor_take(&x->ready), l = tinyi_actor_take(&x->empty);
        const uint64_t ask = TINYI_MAX(x->ready_at[b] + d->latency_ns, r->now) + d->latency_ns;
        const double ns = d->bits_per_second > 0 ? 8e9 * (double)x->bytes / d->bits_per_second : 0;
        const uint64_t end = TINYI_MAX(ask, *free_at) + (uint64_t)TINYI_MIN(ns + 0.5, 1e15);
        *free_at = end;
        memcpy(x->landing + (size_t)l * tinyi_actor_room(x->bytes),
               r->actor[x->from].out[x->output].data + (size_t)b * tinyi_actor_room(x->bytes), x->bytes);
        tinyi_actor_event_add(r, end, TINYI_RELEASE, e, b);
        tinyi_actor_event_add(r, end + d->latency_ns, TINYI_DATA, e, l);
        tinyi_actor_put(&x->pulled, l);
    }
    if (x->got_end && !x->ready.n && !x->said_end) {
        x->said_end = 1;                    /* not before the last item */
        tinyi_actor_event_add(r, TINYI_MAX(*free_at, r->now) + d->latency_ns, TINYI_FIN, e, 0);
    }
}

void tinyi_actor_far(tinyi_actors *r, int e, int kind, int arg)
{
    tinyi_actor_edge *x = &r->edge[e];
    if (kind == TINYI_READY) {
        tinyi_actor_put(&x->ready, arg);
        x->ready_at[arg] = r->now;
    } else if (kind == TINYI_END) x->got_end = 1;
    else if (kind == TINYI_RELEASE) tinyi_actor_put(&x->empty, arg);
    else {
        x->halted = 1;
        tinyi_actor_event_add(r, r->now + r->d->latency_ns, TINYI_STOP, e, 0);
    }
    tinyi_actor_travel(r, e);
}

static void tinyi_actor_happens(tinyi_actors *r, const tinyi_actor_event *v)
{
    tinyi_actor_edge *x = &r->edge[v->edge];
    switch (v->kind) {
    case TINYI_NOTES:
        r->thread_busy[r->thread_of[v->edge]] = 0;
        tinyi_actor_finish(r, v->edge);
        return;
    case TINYI_DATA:
        (void)tinyi_actor_take(&x->pulled);
        if (!r->actor[x->to].ended) tinyi_actor_put(&x->queue, v->arg);
        return;
    case TINYI_FIN: tinyi_actor_deliver(r, v->edge, TINYI_END, 0); return;
    default: tinyi_actor_deliver(r, v->edge, v->kind, v->arg);
    }
}

TINY_API tiny_status tllm_actor_simulate(tiny_ctx *ctx, const tllm_actor_desc *desc, tllm_actor_count *count,
                                         uint64_t *end)
{
    tinyi_actors r;
    int a, b, moved;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&r, 0, sizeof r);
    r.ctx = ctx;
    r.d = desc;
    r.simulated = 1;
    st = tinyi_actor_check(ctx, desc, TINY_NET_RANKS);
    if (st) return st;
    for (a = 0; a < desc->n_actor; a++) r.world = TINYI_MAX(r.world, desc->actor[a].rank + 1);
    st = tinyi_actors_open(&r);
    if (!st) {
        r.event_room = (size_t)desc->n_actor + 8;
        for (a = 0; a < r.n_edge; a++) r.event_room += 2 * (size_t)r.edge[a].c + 2;
        r.event = (tinyi_actor_event *)tinyi_actor_zeros(&r, r.event_room, sizeof *r.event);
        r.link_free = (uint64_t *)tinyi_actor_zeros(&r, (size_t)r.world * (size_t)r.world, sizeof *r.link_free);
        r.thread_of = (int *)tinyi_actor_zeros(&r, (size_t)desc->n_actor, sizeof *r.thread_of);
        r.thread_busy = (unsigned char *)tinyi_actor_zeros(&r, (size_t)desc->n_actor, 1);
        if (!r.event || !r.link_free || !r.thread_of || !r.thread_busy) st = tiny_ctx_status(ctx);
    }
    for (a = 0; a < desc->n_actor && !st; a++)
        for (b = 0; b <= a; b++)
            if (desc->actor[b].rank == desc->actor[a].rank && desc->actor[b].thread == desc->actor[a].thread) {
                r.thread_of[a] = b;
                break;
            }
    while (!st) {
        do {                                /* everything that can begin at this time */
            moved = 0;
            for (a = 0; a < desc->n_actor && !st; a++) {
                if (r.thread_busy[r.thread_of[a]] || !tinyi_actor_fires(&r, a)) continue;
                st = tinyi_actor_begin(&r, a);
                if (st) tinyi_actor_refuses(&r, a, st);
                r.thread_busy[r.thread_of[a]] = 1;
                if (!st && r.actor[a].call.ns != TLLM_ACTOR_NEVER)
                    tinyi_actor_event_add(&r, r.now + TINYI_MIN(r.actor[a].call.ns, UINT64_MAX / 4 - r.now / 4),
                                          TINYI_NOTES, a, 0);
                moved = 1;
            }
        } while (moved && !st);
        if (r.st) st = r.st;
        if (st || !r.n_event) break;
        r.now = r.event[0].at;
        while (r.n_event && r.event[0].at == r.now) {
            const tinyi_actor_event v = tinyi_actor_event_take(&r);
            if (v.kind == TINYI_NOTES) r.end = r.now;
            tinyi_actor_happens(&r, &v);
        }
    }
    if (st && r.st) (void)tinyi_fail(ctx, r.st, "%s", r.says);
    if (!st) tinyi_actor_counts(&r, count);
    if (!st && end) *end = r.end;
    tinyi_actors_close(&r);
    return st;
}
