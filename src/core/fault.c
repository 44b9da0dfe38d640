/* src/core/fault.c - a tiny_net around another one
 *
 * A message is counted for its receiver when it begins. A flipped bit is flipped in the caller's bytes and flipped back
 * after each attempt to send, because transports copy what they take. */
#include "core/fault.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_FAULT_FIRST 4096

typedef struct tinyi_fault_to {             /* the message on its way to a rank */
    uint64_t messages, until;               /* until: it is held back */
    int busy, kind;                         /* -1: nothing is done to it */
    uint64_t by;
    tiny_message other;                     /* what is sent in its place, or after it */
    int second;                             /* the copy of TWICE is on its way */
    size_t n_first;
    uint64_t first_tag;
    unsigned char first[TINYI_FAULT_FIRST];
} tinyi_fault_to;

struct tiny_fault {
    tiny_net net;
    tiny_fault_desc desc;
    uint64_t rng;
    uint64_t free_at;                       /* the link has sent everything before by then */
    int dead;
    tinyi_fault_to *to;                     /* (world) */
};

static void tinyi_fault_begin(tiny_fault *f, tinyi_fault_to *t, int to, const tiny_message *m)
{
    size_t i;
    t->busy = 1;
    t->kind = -1;
    t->second = 0;
    t->until = 0;
    for (i = 0; i < f->desc.n_at; i++) {
        const tiny_fault_at *a = &f->desc.at[i];
        if ((a->to != to && a->to != -1) || a->message != t->messages) continue;
        t->kind = a->kind;
        t->by = a->by;
    }
    if (f->desc.jitter_ns) {
        f->rng = f->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        t->until = tiny_now_ns() + (f->rng >> 33) % f->desc.jitter_ns;
    }
    if (t->kind == TINY_FAULT_DELAY) t->until = tiny_now_ns() + t->by;
    if (f->desc.bits_per_second > 0.0) {
        const double ns = 8e9 * (double)m->n / f->desc.bits_per_second;
        const uint64_t start = TINYI_MAX(tiny_now_ns(), f->free_at);
        f->free_at = start + (ns < 9e18 ? (uint64_t)ns : UINT64_C(9000000000000000000));
        t->until = TINYI_MAX(t->until, f->free_at);
    }
    memset(&t->other, 0, sizeof t->other);
    t->other.tag = m->tag;
    t->other.data = m->data;
    t->other.n = m->n;
    t->other.at = m->at;
    if (t->kind == TINY_FAULT_CUT) t->other.n = m->n > t->by ? m->n - (size_t)t->by : 0;
    if (t->kind == TINY_FAULT_REPLAY && t->messages) {
        t->other.tag = t->first_tag;
        t->other.data = t->first;
        t->other.n = t->n_first;
    }
    if (!t->messages) {
        t->n_first = TINYI_MIN(m->n, (size_t)TINYI_FAULT_FIRST);
        t->first_tag = m->tag;
        if (t->n_first) memcpy(t->first, m->data, t->n_first);
    }
    t->messages++;
}

static tiny_status tinyi_fault_said(tiny_fault *f, tiny_status st)
{
    if (st) {
        memcpy(f->net.says, f->desc.inner->says, sizeof f->net.says);
        f->net.gone = f->desc.inner->gone;
    }
    return st;
}

static tiny_status tinyi_fault_send(tiny_net *net, int to, tiny_message *m)
{
    tiny_fault *f = (tiny_fault *)net;
    tinyi_fault_to *t;
    unsigned char *flip = NULL;
    unsigned char bit = 0;
    tiny_status st;
    if (to < 0 || to >= net->world) return tinyi_fault_said(f, f->desc.inner->send(f->desc.inner, to, m));
    t = &f->to[to];
    if (!t->busy) tinyi_fault_begin(f, t, to, m);
    if (t->kind == TINY_FAULT_KILL || f->dead) {
        f->dead = 1;
        f->desc.inner->close(f->desc.inner);
        (void)snprintf(net->says, sizeof net->says, "rank %d was killed on purpose", net->rank);
        net->gone = net->rank + 1;
        return TINY_E_PEER;
    }
    if (t->until && t->until > tiny_now_ns()) return TINY_OK;
    if (t->kind == TINY_FAULT_DROP) t->other.whole = 1;
    if (t->kind == TINY_FAULT_FLIP && m->n) {
        const uint64_t at = t->by % (8 * (uint64_t)m->n);
        flip = (unsigned char *)m->data + at / 8;
        bit = (unsigned char)(1 << at % 8);
        *flip ^= bit;
    }
    st = t->other.whole ? TINY_OK : tinyi_fault_said(f, f->desc.inner->send(f->desc.inner, to, &t->other));
    if (flip) *flip ^= bit;
    if (st || !t->other.whole) return st;
    if (t->kind == TINY_FAULT_TWICE && !t->second) {
        t->second = 1;
        t->other.begun = t->other.whole = 0;
        t->other.done = 0;
        st = tinyi_fault_said(f, f->desc.inner->send(f->desc.inner, to, &t->other));
        if (st || !t->other.whole) return st;
    }
    t->busy = 0;
    m->begun = m->whole = 1;
    m->done = m->n;
    return TINY_OK;
}
static tiny_status tinyi_fault_recv(tiny_net *net, int from, tiny_message *m)
{
    tiny_fault *f = (tiny_fault *)net;
    return tinyi_fault_said(f, f->desc.inner->recv(f->desc.inner, from, m));
}
static void tinyi_fault_end(tiny_net *net)
{
    tiny_fault *f = (tiny_fault *)net;
    if (!f->dead) {
        f->desc.inner->why = net->why;
        f->desc.inner->gone = net->gone;
    }
    f->desc.inner->close(f->desc.inner);
}
static uint64_t tinyi_fault_changes(tiny_net *net)
{
    tiny_net *inner = ((tiny_fault *)net)->desc.inner;
    return inner->changes(inner);
}
static void tinyi_fault_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_fault *f = (tiny_fault *)net;
    int i;
    for (i = 0; i < net->world; i++) if (f->to[i].busy && f->to[i].until) until = TINYI_MIN(until, f->to[i].until);
    f->desc.inner->pause(f->desc.inner, seen, until);
}
static void tinyi_fault_wake(tiny_net *net) { ((tiny_fault *)net)->desc.inner->wake(((tiny_fault *)net)->desc.inner); }

TINY_API tiny_status tiny_fault_open(tiny_ctx *ctx, const tiny_fault_desc *desc, tiny_fault **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_fault *f;
    size_t i;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !desc->inner || !out || (desc->n_at && !desc->at))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_fault_open needs a net, a list and an output pointer");
    for (i = 0; i < desc->n_at; i++)
        if (desc->at[i].kind < 0 || desc->at[i].kind >= TINY_FAULT_KINDS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "fault %zu: kind %d is not known", i, desc->at[i].kind);
    if (!(desc->bits_per_second >= 0.0 && desc->bits_per_second <= 1e15))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fault: %g bits a second is not in 0 to 1e15", desc->bits_per_second);
    f = (tiny_fault *)tinyi_alloc(ctx, 1, sizeof *f);
    if (!f) return tiny_ctx_status(ctx);
    memset(f, 0, sizeof *f);
    f->to = (tinyi_fault_to *)tinyi_alloc(ctx, (size_t)desc->inner->world, sizeof *f->to);
    if (!f->to) {
        tiny_free(ctx, f);
        return tiny_ctx_status(ctx);
    }
    memset(f->to, 0, (size_t)desc->inner->world * sizeof *f->to);
    f->net = *desc->inner;
    f->desc = *desc;
    f->rng = desc->seed * 2 + 1;
    f->net.send = tinyi_fault_send;
    f->net.recv = tinyi_fault_recv;
    f->net.close = tinyi_fault_end;
    f->net.changes = tinyi_fault_changes;
    f->net.pause = tinyi_fault_pause;
    f->net.wake = tinyi_fault_wake;
    *out = f;
    return TINY_OK;
}
TINY_API tiny_net *tiny_fault_net(tiny_fault *f) { return f ? &f->net : NULL; }
TINY_API tiny_status tiny_fault_rate(tiny_ctx *ctx, tiny_fault *f, double bits_per_second)
{
    if (!f) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_fault_rate needs a fault");
    if (!(bits_per_second >= 0.0 && bits_per_second <= 1e15))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fault: %g bits a second is not in 0 to 1e15", bits_per_second);
    f->desc.bits_per_second = bits_per_second;
    f->free_at = 0;
    return TINY_OK;
}
TINY_API void tiny_fault_close(tiny_ctx *ctx, tiny_fault *f)
{
    if (!f) return;
    tiny_free(ctx, f->to);
    tiny_free(ctx, f);
}
