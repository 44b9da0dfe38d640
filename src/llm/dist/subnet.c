/* src/llm/dist/subnet.c - some ranks of a net as a net of their own: see subnet_inside.h */
#include "llm/dist/subnet_inside.h"
#include "core/state_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_SUBNET_TAG ((UINT64_C(1) << 56) - 1)

/* The net has failed: the same sentence for the subnet. */
static tiny_status tinyi_subnet_failed(tinyi_subnet *s, tiny_status st)
{
    int i;
    memcpy(s->net.says, s->of->says, sizeof s->net.says);
    for (i = 0; i < s->net.world; i++) if (s->member[i] == s->of->gone - 1) s->net.gone = i + 1;
    return st;
}

static tiny_status tinyi_subnet_move(tiny_net *net, int other, tiny_message *m, int sends)
{
    tinyi_subnet *s = (tinyi_subnet *)net;
    const size_t done = m->done;
    const int whole = m->whole;
    tiny_net_count *count;
    tiny_status st;
    if (other < 0 || other >= net->world || other == net->rank) {
        (void)snprintf(net->says, sizeof net->says, "rank %d of a group has no link to rank %d of it", net->rank,
                       other);
        return TINY_E_ARGUMENT;
    }
    if (s->of->why) return tinyi_subnet_failed(s, s->of->why);
    m->tag = (m->tag & TINYI_SUBNET_TAG) | s->number << 56;
    st = (sends ? s->of->send : s->of->recv)(s->of, s->member[other], m);
    count = &s->count[other];
    if (sends) {
        count->bytes_sent += m->done - done;
        count->messages_sent += (uint64_t)(m->whole && !whole);
    } else {
        count->bytes_received += m->done - done;
        count->messages_received += (uint64_t)(m->whole && !whole);
    }
    return st ? tinyi_subnet_failed(s, st) : TINY_OK;
}
static tiny_status tinyi_subnet_send(tiny_net *net, int to, tiny_message *m)
{
    return tinyi_subnet_move(net, to, m, 1);
}
static tiny_status tinyi_subnet_recv(tiny_net *net, int from, tiny_message *m)
{
    return tinyi_subnet_move(net, from, m, 0);
}

static void tinyi_subnet_close(tiny_net *net)
{
    tinyi_subnet *s = (tinyi_subnet *)net;
    if (!s->of->why) {
        s->of->why = net->why;
        if (net->gone > 0 && net->gone <= net->world) s->of->gone = s->member[net->gone - 1] + 1;
        if (!*s->of->says) memcpy(s->of->says, net->says, sizeof net->says);
    }
    s->of->close(s->of);
}
static uint64_t tinyi_subnet_changes(tiny_net *net)
{
    tiny_net *of = ((tinyi_subnet *)net)->of;
    return of->changes(of);
}
static void tinyi_subnet_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_net *of = ((tinyi_subnet *)net)->of;
    of->pause(of, seen, until);
}
static void tinyi_subnet_wake(tiny_net *net)
{
    tiny_net *of = ((tinyi_subnet *)net)->of;
    of->wake(of);
}

TINYI_FN tiny_status tinyi_subnet_make(tiny_ctx *ctx, tinyi_subnet *s, tiny_net *of, const int *member, int n,
                                       unsigned number)
{
    int i, me = -1;
    memset(s, 0, sizeof *s);
    if (!of || n < 1 || n > of->world || of->world > TINY_NET_RANKS || number > 127)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a group of %d ranks does not fit its net", n);
    for (i = 0; i < n; i++) {
        if (member[i] < 0 || member[i] >= of->world)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank %d of a group: there are %d ranks", member[i], of->world);
        s->member[i] = member[i];
        if (member[i] == of->rank) me = i;
    }
    if (me < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank %d is not in its own group", of->rank);
    s->of = of;
    s->number = number;
    s->net.rank = me;
    s->net.world = n;
    s->net.virtual_clock = of->virtual_clock;
    s->net.whole = of->whole ? of->whole : of;
    s->net.send = tinyi_subnet_send;
    s->net.recv = tinyi_subnet_recv;
    s->net.close = tinyi_subnet_close;
    s->net.changes = tinyi_subnet_changes;
    s->net.pause = tinyi_subnet_pause;
    s->net.wake = tinyi_subnet_wake;
    s->net.count = s->count;
    return TINY_OK;
}

TINYI_FN uint64_t tinyi_subnet_received(const tinyi_subnet *s)
{
    uint64_t n = 0;
    int i;
    for (i = 0; i < s->net.world; i++) n += s->count[i].bytes_received;
    return n;
}
