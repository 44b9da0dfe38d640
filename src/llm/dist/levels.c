/* src/llm/dist/levels.c - links of several classes on a virtual clock
 * Rule     a message of n bytes given to a level at time t leaves from t0 = max(t, port out free) on and keeps that
 *          port for n b. It reaches the other end from t1 = max(t0 + a, port in free) on and is there at t1 + n b. a
 *          and b are those of the level; each rank has two ports for each level.
 * Data     times are whole nanoseconds: a message may be off by half of one. */
#include "llm/dist/levels.h"
#include "core/state_inside.h"
#include <string.h>

struct tllm_levels {
    tiny_net net;
    tiny_net *of;
    int n_level;
    tllm_level level[TLLM_LEVELS];
    uint64_t out_free[TLLM_LEVELS], in_free[TLLM_LEVELS], received[TLLM_LEVELS];
    unsigned char timed[TINY_NET_RANKS];    /* the message to that rank has its time */
};

static int tinyi_levels_of(const tllm_levels *l, int a, int b)
{
    int i = 0;
    while (i < l->n_level - 1 && a / l->level[i].ranks != b / l->level[i].ranks) i++;
    return i;
}
static uint64_t tinyi_levels_ns(const tllm_level *l, size_t n)
{
    return l->bits_per_second > 0.0 ? (uint64_t)TINYI_MIN((double)n * (8e9 / l->bits_per_second) + 0.5, 1e15) : 0;
}
static tiny_status tinyi_levels_failed(tllm_levels *l, tiny_status st)
{
    memcpy(l->net.says, l->of->says, sizeof l->net.says);
    l->net.gone = l->of->gone;
    return st;
}

static tiny_status tinyi_levels_send(tiny_net *net, int to, tiny_message *m)
{
    tllm_levels *l = (tllm_levels *)net;
    tiny_status st;
    if (net->virtual_clock && to >= 0 && to < net->world && !l->timed[to]) {
        const int i = tinyi_levels_of(l, net->rank, to);
        l->out_free[i] = TINYI_MAX(m->at, l->out_free[i]) + tinyi_levels_ns(&l->level[i], m->n);
        m->at = l->out_free[i] + l->level[i].latency_ns;
        l->timed[to] = 1;
    }
    st = l->of->send(l->of, to, m);
    if (st) return tinyi_levels_failed(l, st);
    if (m->whole) l->timed[to] = 0;
    return TINY_OK;
}

static tiny_status tinyi_levels_recv(tiny_net *net, int from, tiny_message *m)
{
    tllm_levels *l = (tllm_levels *)net;
    const tiny_status st = l->of->recv(l->of, from, m);
    if (st) return tinyi_levels_failed(l, st);
    if (m->whole) {
        const int i = tinyi_levels_of(l, net->rank, from);
        l->received[i] += m->n;
        if (net->virtual_clock) {
            const uint64_t ns = tinyi_levels_ns(&l->level[i], m->n);
            l->in_free[i] = TINYI_MAX(m->at - TINYI_MIN(m->at, ns), l->in_free[i]) + ns;
            m->at = l->in_free[i];
        }
    }
    return TINY_OK;
}

static void tinyi_levels_gone(tiny_net *net)
{
    tiny_net *of = ((tllm_levels *)net)->of;
    if (!of->why) {
        of->why = net->why;
        of->gone = net->gone;
    }
    of->close(of);
}
static uint64_t tinyi_levels_changes(tiny_net *net)
{
    tiny_net *of = ((tllm_levels *)net)->of;
    return of->changes(of);
}
static void tinyi_levels_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_net *of = ((tllm_levels *)net)->of;
    of->pause(of, seen, until);
}
static void tinyi_levels_wake(tiny_net *net)
{
    tiny_net *of = ((tllm_levels *)net)->of;
    of->wake(of);
}

TINY_API tiny_status tllm_levels_open(tiny_ctx *ctx, const tllm_levels_desc *d, tllm_levels **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_levels *l;
    int i;
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !d || !d->net)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "levels: a net and an output pointer are needed");
    if (d->n_level < 1 || d->n_level > TLLM_LEVELS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "levels: %d of them; there may be 1 to %d", d->n_level, TLLM_LEVELS);
    for (i = 0; i < d->n_level; i++) {
        const tllm_level *v = &d->level[i];
        if (v->ranks < 1 || (i && v->ranks % d->level[i - 1].ranks))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "levels: groups of %d ranks on level %d; each level must be a "
                              "multiple of the one before", v->ranks, i);
        if (!(v->bits_per_second >= 0.0 && v->bits_per_second <= 1e15))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "levels: %g bits per second on level %d; 0 (no limit) to 1e15 are "
                              "allowed", v->bits_per_second, i);
    }
    if (d->level[d->n_level - 1].ranks < d->net->world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "levels: the last one has %d of %d ranks; it must have all",
                          d->level[d->n_level - 1].ranks, d->net->world);
    l = (tllm_levels *)tinyi_alloc(ctx, 1, sizeof *l);
    if (!l) return tiny_ctx_status(ctx);
    memset(l, 0, sizeof *l);
    l->of = d->net;
    l->n_level = d->n_level;
    memcpy(l->level, d->level, sizeof l->level);
    for (i = 0; i < l->n_level; i++)
        l->level[i].latency_ns = TINYI_MIN(l->level[i].latency_ns, UINT64_C(1000000000000));
    l->net.rank = d->net->rank;
    l->net.world = d->net->world;
    l->net.virtual_clock = d->net->virtual_clock;
    l->net.star = d->net->star;
    l->net.send = tinyi_levels_send;
    l->net.recv = tinyi_levels_recv;
    l->net.close = tinyi_levels_gone;
    l->net.changes = tinyi_levels_changes;
    l->net.pause = tinyi_levels_pause;
    l->net.wake = tinyi_levels_wake;
    l->net.count = d->net->count;
    *out = l;
    return TINY_OK;
}

TINY_API tiny_net *tllm_levels_net(tllm_levels *l) { return l ? &l->net : NULL; }
TINY_API uint64_t tllm_levels_received(const tllm_levels *l, int level)
{
    return l && level >= 0 && level < l->n_level ? l->received[level] : 0;
}
TINY_API void tllm_levels_close(tiny_ctx *ctx, tllm_levels *l)
{
    if (l) tiny_free(ctx, l);
}
