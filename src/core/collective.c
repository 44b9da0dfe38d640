/* src/core/collective.c - collective calls, run step by step
 * Methods  textbook; the steps are those of core/hops.c. J. Bruck et al., "Efficient algorithms for all-to-all
 *          communications in multiport message-passing systems", 1997, for the forms with few messages.
 * Formula  all-gather (Bruck): at step k the first min(2^k, p - 2^k) blocks of a list that begins with the own one go
 *          to rank r - 2^k. All-to-all (Bruck): block i of a list that begins with the own one has to travel i ranks;
 *          at step k those with bit k set go to rank r + 2^k. Barrier: at step k a token goes to rank r + 2^k.
 * Cost     T(n) = a + n b a message; the table of tiny_coll_cost follows from the steps.
 * Waiting  a step sends and receives at the same time, so ranks that all send first do not block each other.
 * Left out numbers of 16 bits on the wire: with doubling, ranks would add differently rounded numbers. */
#include "core/bytes.h"
#include "core/collective.h"
#include "core/hops_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

static size_t tinyi_coll_size(int type) { return type == TINY_COLL_I64 ? 8 : type == TINY_COLL_U8 ? 1 : 4; }

/* ---- a call ------------------------------------------------------------------------------------------------------ */

typedef struct tinyi_coll_call {
    tiny_ctx *ctx;
    tiny_coll *c;
    tiny_net *net;
    size_t size;                            /* of an element */
    uint64_t number, until;
    tiny_status st;
} tinyi_coll_call;

static tiny_status tinyi_coll_end(tinyi_coll_call *k, tiny_status st)
{
    k->st = st;
    return tinyi_net_end(k->ctx, k->net, tinyi_fail(k->ctx, st, "%s", k->net->says));
}

/* Checks what every call has, and gives it its number. elements: of the longest list. */
static tiny_status tinyi_coll_begin(tinyi_coll_call *k, tiny_ctx *ctx, tiny_coll *c, const char *what, size_t n,
                                    size_t lists, size_t work)
{
    tiny_status st = tinyi_ctx_check(ctx);
    size_t bytes;
    memset(k, 0, sizeof *k);
    if (st) return st;
    if (!c || !c->net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s needs the net of a rank", what);
    if (c->net->world < 1 || c->net->world > TINY_NET_RANKS || c->net->rank < 0 || c->net->rank >= c->net->world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: rank %d of %d: ranks count from 0, and there may be at most %d",
                          what, c->net->rank, c->net->world, TINY_NET_RANKS);
    if (c->type < 0 || c->type >= TINY_COLL_TYPES || c->op < 0 || c->op >= TINY_COLL_OPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: type %d or operation %d is not known", what, c->type, c->op);
    if (c->tag > 255) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tag %u, it must be 0 to 255", what, c->tag);
    k->size = tinyi_coll_size(c->type);
    if (!tinyi_size_mul(n, k->size, &bytes) || !tinyi_size_mul(bytes, lists, &bytes) ||
        !tinyi_size_mul(n, work, &bytes) || !tinyi_size_mul(bytes, k->size, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %zu elements are more than this machine can address", what, n);
    if (bytes > c->n_work || (bytes && !c->work))
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "%s needs a workspace of %zu bytes, not %zu", what, bytes,
                          c->work ? c->n_work : (size_t)0);
    if (c->net->why) return tinyi_fail(ctx, c->net->why, "%s", c->net->says);
    k->ctx = ctx;
    k->c = c;
    k->net = c->net;
    k->until = c->until ? c->until : tiny_now_ns() + UINT64_C(10000000000);
    k->number = c->net->calls++;
    return TINY_OK;
}

static tiny_status tinyi_coll_list(tiny_ctx *ctx, const char *what, const void *x, size_t n)
{
    return x || !n ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the list is NULL", what);
}
static tiny_status tinyi_coll_root(tiny_ctx *ctx, const tiny_coll *c, const char *what, int root)
{
    return root >= 0 && root < c->net->world
               ? TINY_OK
               : tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: root %d of %d ranks", what, root, c->net->world);
}

/* n_out bytes to one rank, n_in bytes from another, at the same time; -1: nothing */
static tiny_status tinyi_coll_pass(tinyi_coll_call *k, int phase, int to, const void *out, size_t n_out, int from,
                                   void *in, size_t n_in)
{
    tiny_net *net = k->net;
    tiny_message send, recv;
    memset(&send, 0, sizeof send);
    memset(&recv, 0, sizeof recv);
    send.tag = recv.tag = k->number << 16 | (uint64_t)(unsigned)(phase & 255) << 8 | k->c->tag;
    send.data = (void *)(uintptr_t)out;     /* it is only read */
    send.n = n_out;
    send.at = k->c->clock;
    send.whole = to < 0;
    recv.data = in;
    recv.n = n_in;
    recv.whole = from < 0;
    while (!send.whole || !recv.whole) {
        const uint64_t seen = net->changes(net);
        uint64_t now, until;
        tiny_status st = TINY_OK;
        if (!send.whole) st = net->send(net, to, &send);
        if (!st && !recv.whole) st = net->recv(net, from, &recv);
        if (st) return tinyi_coll_end(k, st);
        if (send.whole && recv.whole) break;
        now = tiny_now_ns();
        if (now >= k->until) {
            (void)snprintf(net->says, sizeof net->says, "rank %d waited for rank %d until the deadline of call %llu",
                           net->rank, recv.whole ? to : from, (unsigned long long)k->number);
            net->gone = 1 + (recv.whole ? to : from);
            return tinyi_coll_end(k, TINY_E_TIMEOUT);
        }
        /* on its way: it will be here then */
        until = !recv.whole && !net->virtual_clock && recv.at ? TINYI_MIN(recv.at, k->until) : k->until;
        if (net->whole && net->whole->push) net->whole->push(net->whole->push_user);
        net->pause(net, seen, until);
    }
    if (from >= 0 && net->virtual_clock) k->c->clock = TINYI_MAX(k->c->clock, recv.at);
    return TINY_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
/* y = a + b, a the first operand; any alignment, and y may be a or b */
static void tinyi_coll_add(const tiny_coll *c, unsigned char *y, const unsigned char *a, const unsigned char *b,
                           size_t n)
{
    size_t i;
    if (c->type == TINY_COLL_F32)
        for (i = 0; i < n; i++) {
            float u, v;
            memcpy(&u, a + 4 * i, 4);
            memcpy(&v, b + 4 * i, 4);
            u = c->op == TINY_COLL_MAX ? (v > u || v != v ? v : u) : u + v;
            memcpy(y + 4 * i, &u, 4);
        }
    else if (c->type == TINY_COLL_I64)
        for (i = 0; i < n; i++) {
            uint64_t u, v;
            memcpy(&u, a + 8 * i, 8);
            memcpy(&v, b + 8 * i, 8);
            u += v;
            memcpy(y + 8 * i, &u, 8);
        }
    else for (i = 0; i < n; i++) y[i] = a[i] | b[i];
}
TINY_REF_END

static tiny_status tinyi_coll_can_add(tiny_ctx *ctx, const tiny_coll *c, const char *what)
{
    const int ok = c->type == TINY_COLL_F32   ? c->op == TINY_COLL_SUM || c->op == TINY_COLL_MAX
                   : c->type == TINY_COLL_I64 ? c->op == TINY_COLL_SUM
                                              : c->op == TINY_COLL_OR;
    return ok ? TINY_OK
              : tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: type %d has no operation %d", what, c->type, c->op);
}

static tiny_status tinyi_coll_hop(tinyi_coll_call *k, int phase, const tinyi_hop *t, unsigned char *x)
{
    unsigned char *mine = x + t->from_at * k->size, *theirs = t->how == TINYI_HOP_PUT ? mine
                                                                                   : (unsigned char *)k->c->work;
    tiny_status st;
    if (t->to < 0 && t->from < 0) return TINY_OK;
    st = tinyi_coll_pass(k, phase, t->to, x + t->to_at * k->size, t->to_n * k->size, t->from, theirs,
                         t->from_n * k->size);
    if (st || t->from < 0 || t->how == TINYI_HOP_PUT) return st;
    if (t->how == TINYI_HOP_THEIRS) tinyi_coll_add(k->c, mine, theirs, mine, t->from_n);
    else tinyi_coll_add(k->c, mine, mine, theirs, t->from_n);
    if (k->net->virtual_clock) k->c->clock += (uint64_t)(k->c->add_ns * (double)(t->from_n * k->size) + 0.5);
    return TINY_OK;
}

TINY_API tiny_status tiny_coll_broadcast(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, int root)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "broadcast", n, 1, 0);
    if (!st) st = tinyi_coll_list(ctx, "broadcast", x, n);
    if (!st) st = tinyi_coll_root(ctx, c, "broadcast", root);
    for (i = 0; !st && tinyi_hop_broadcast(k.net->rank, k.net->world, root, n, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)x);
    return st;
}

TINY_API tiny_status tiny_coll_reduce(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, int root)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "reduce", n, 1, 1);
    if (!st) st = tinyi_coll_list(ctx, "reduce", x, n);
    if (!st) st = tinyi_coll_can_add(ctx, c, "reduce");
    if (!st) st = tinyi_coll_root(ctx, c, "reduce", root);
    for (i = 0; !st && tinyi_hop_reduce(k.net->rank, k.net->world, root, n, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)x);
    return st;
}

TINY_API tiny_status tiny_coll_allreduce(tiny_ctx *ctx, tiny_coll *c, int way, void *x, size_t n)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "allreduce", n, 1, 1);
    if (!st) st = tinyi_coll_list(ctx, "allreduce", x, n);
    if (!st) st = tinyi_coll_can_add(ctx, c, "allreduce");
    if (!st && (way <= TINY_COMM_DIRECT || way >= TINY_COMM_WAYS))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "allreduce: way %d must be one of the tiny_comm_way after DIRECT", way);
    for (i = 0; !st && tinyi_hop_allreduce(way, k.net->rank, k.net->world, n, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)x);
    return st;
}

TINY_API tiny_status tiny_coll_reduce_scatter(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, size_t *at, size_t *size)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "reduce-scatter", n, 1, 1);
    if (!st && (!at || !size)) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "reduce-scatter needs pointers for its answers");
    if (!st) st = tinyi_coll_list(ctx, "reduce-scatter", x, n);
    if (!st) st = tinyi_coll_can_add(ctx, c, "reduce-scatter");
    for (i = 0; !st && tinyi_hop_reduce_scatter(k.net->rank, k.net->world, n, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)x);
    if (!st) tinyi_hop_part(n, k.net->world, k.net->rank + 1, at, size);
    return st;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void tinyi_coll_copy(void *to, const void *from, size_t n)
{
    if (n && to != from) memcpy(to, from, n);
}

TINY_API tiny_status tiny_coll_gather(tiny_ctx *ctx, tiny_coll *c, const void *x, size_t n, void *all, int root)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    const int world = c && c->net ? c->net->world : 1;
    tiny_status st =
        tinyi_coll_begin(&k, ctx, c, "gather", n, (size_t)TINYI_MAX(world, 1), (size_t)TINYI_MAX(world, 1));
    const size_t bytes = n * k.size;
    if (!st) st = tinyi_coll_root(ctx, c, "gather", root);
    if (!st) st = tinyi_coll_list(ctx, "gather", x && (all || c->net->rank != root) ? x : NULL, n);
    if (st) return st;
    tinyi_coll_copy((unsigned char *)c->work + (size_t)((k.net->rank - root + world) % world) * bytes, x, bytes);
    k.size = bytes;
    for (i = 0; !st && tinyi_hop_gather(k.net->rank, world, root, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)c->work);
    for (i = 0; i < world && !st && k.net->rank == root; i++)
        tinyi_coll_copy((unsigned char *)all + (size_t)((root + i) % world) * bytes,
                        (unsigned char *)c->work + (size_t)i * bytes, bytes);
    return st;
}

TINY_API tiny_status tiny_coll_scatter(tiny_ctx *ctx, tiny_coll *c, const void *all, size_t n, void *x, int root)
{
    tinyi_coll_call k;
    tinyi_hop t;
    int i;
    const int world = c && c->net ? c->net->world : 1;
    tiny_status st =
        tinyi_coll_begin(&k, ctx, c, "scatter", n, (size_t)TINYI_MAX(world, 1), (size_t)TINYI_MAX(world, 1));
    const size_t bytes = n * k.size;
    if (!st) st = tinyi_coll_root(ctx, c, "scatter", root);
    if (!st) st = tinyi_coll_list(ctx, "scatter", x && (all || c->net->rank != root) ? x : NULL, n);
    if (st) return st;
    for (i = 0; i < world && k.net->rank == root; i++)
        tinyi_coll_copy((unsigned char *)c->work + (size_t)i * bytes,
                        (const unsigned char *)all + (size_t)((root + i) % world) * bytes, bytes);
    k.size = bytes;
    for (i = 0; !st && tinyi_hop_scatter(k.net->rank, world, root, i, &t); i++)
        st = tinyi_coll_hop(&k, i, &t, (unsigned char *)c->work);
    if (!st)
        tinyi_coll_copy(x, (unsigned char *)c->work + (size_t)((k.net->rank - root + world) % world) * bytes, bytes);
    return st;
}

TINY_API tiny_status tiny_coll_allgather(tiny_ctx *ctx, tiny_coll *c, int form, void *all, size_t n)
{
    tinyi_coll_call k;
    tinyi_hop t;
    const int world = c && c->net ? TINYI_MAX(c->net->world, 1) : 1;
    int i, d;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "allgather", n, (size_t)world,
                                      form == TINY_COLL_BRUCK ? (size_t)world : 0);
    const size_t bytes = n * k.size;
    if (!st) st = tinyi_coll_list(ctx, "allgather", all, n);
    if (!st && form != TINY_COLL_RING && form != TINY_COLL_BRUCK)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "allgather: form %d is not known", form);
    if (st) return st;
    k.size = bytes;
    if (form == TINY_COLL_RING) {
        for (i = 0; !st && tinyi_hop_allgather(k.net->rank, world, k.net->rank, i, &t); i++)
            st = tinyi_coll_hop(&k, i, &t, (unsigned char *)all);
    } else {
        unsigned char *w = (unsigned char *)c->work;
        tinyi_coll_copy(w, (unsigned char *)all + (size_t)k.net->rank * bytes, bytes);
        for (i = 0, d = 1; d < world && !st; d *= 2, i++)
            st = tinyi_coll_pass(&k, i, (k.net->rank - d + world) % world, w,
                                 (size_t)TINYI_MIN(d, world - d) * bytes, (k.net->rank + d) % world,
                                 w + (size_t)d * bytes, (size_t)TINYI_MIN(d, world - d) * bytes);
        for (i = 0; i < world && !st; i++)
            tinyi_coll_copy((unsigned char *)all + (size_t)((k.net->rank + i) % world) * bytes, w + (size_t)i * bytes,
                            bytes);
    }
    return st;
}

/* w: the list that begins with the own block, then room for what is sent and for what comes */
static tiny_status tinyi_coll_bruck(tinyi_coll_call *k, const unsigned char *from, unsigned char *to, size_t bytes)
{
    const int p = k->net->world, r = k->net->rank;
    unsigned char *w = (unsigned char *)k->c->work, *out = w + (size_t)p * bytes, *in = out + (size_t)p * bytes;
    tiny_status st = TINY_OK;
    int i, d, step, n;
    for (i = 0; i < p; i++) tinyi_coll_copy(w + (size_t)i * bytes, from + (size_t)((r + i) % p) * bytes, bytes);
    for (d = 1, step = 0; d < p && !st; d *= 2, step++) {
        for (i = n = 0; i < p; i++)
            if (i & d) tinyi_coll_copy(out + (size_t)n++ * bytes, w + (size_t)i * bytes, bytes);
        st = tinyi_coll_pass(k, step, (r + d) % p, out, (size_t)n * bytes, (r - d + p) % p, in, (size_t)n * bytes);
        for (i = n = 0; i < p && !st; i++)
            if (i & d) tinyi_coll_copy(w + (size_t)i * bytes, in + (size_t)n++ * bytes, bytes);
    }
    for (i = 0; i < p && !st; i++)
        tinyi_coll_copy(to + (size_t)((r - i + p) % p) * bytes, w + (size_t)i * bytes, bytes);
    return st;
}

TINY_API tiny_status tiny_coll_alltoall(tiny_ctx *ctx, tiny_coll *c, int form, const void *from, void *to, size_t n)
{
    tinyi_coll_call k;
    const int world = c && c->net ? TINYI_MAX(c->net->world, 1) : 1;
    const unsigned char *f = (const unsigned char *)from;
    unsigned char *t = (unsigned char *)to;
    int s;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "alltoall", n, (size_t)world,
                                      form == TINY_COLL_BRUCK ? 3 * (size_t)world : 0);
    const size_t bytes = n * k.size;
    if (!st) st = tinyi_coll_list(ctx, "alltoall", from && to ? from : NULL, n);
    if (!st && form != TINY_COLL_RING && form != TINY_COLL_BRUCK)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "alltoall: form %d is not known", form);
    if (!st && n && (uintptr_t)f < (uintptr_t)t + (size_t)world * bytes &&
        (uintptr_t)t < (uintptr_t)f + (size_t)world * bytes)
        st = tinyi_fail(ctx, TINY_E_ALIAS, "alltoall: the two lists overlap");
    if (st || form == TINY_COLL_BRUCK) return st ? st : tinyi_coll_bruck(&k, f, t, bytes);
    tinyi_coll_copy(t + (size_t)k.net->rank * bytes, f + (size_t)k.net->rank * bytes, bytes);
    for (s = 1; s < world && !st; s++) {
        const int dst = (k.net->rank + s) % world, src = (k.net->rank - s + world) % world;
        st = tinyi_coll_pass(&k, s, dst, f + (size_t)dst * bytes, bytes, src, t + (size_t)src * bytes, bytes);
    }
    return st;
}

TINY_API tiny_status tiny_coll_alltoallv(tiny_ctx *ctx, tiny_coll *c, const void *from, const uint64_t *n_from,
                                         void *to, uint64_t *n_to, size_t room)
{
    tinyi_coll_call k;
    const int world = c && c->net ? TINYI_MAX(c->net->world, 1) : 1;
    const unsigned char *f = (const unsigned char *)from;
    unsigned char *t = (unsigned char *)to;
    size_t from_at[TINY_NET_RANKS], to_at[TINY_NET_RANKS], sent = 0, here = 0, bytes;
    unsigned char count[16];
    int s, i, fits = 1;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "alltoallv", room, 1, 0);
    if (!st && (!n_from || !n_to)) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "alltoallv needs the lengths of the blocks");
    for (i = 0; i < world && !st; i++) {
        from_at[i] = sent;
        if (n_from[i] > SIZE_MAX || !tinyi_size_add(sent, (size_t)n_from[i], &sent) ||
            !tinyi_size_mul(sent, k.size, &bytes))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "alltoallv: the blocks are more than this machine can address");
    }
    if (!st) st = tinyi_coll_list(ctx, "alltoallv", from, sent);
    if (!st) st = tinyi_coll_list(ctx, "alltoallv", to, room);
    if (st) return st;
    n_to[k.net->rank] = n_from[k.net->rank];
    for (s = 1; s < world && !st; s++) {
        const int dst = (k.net->rank + s) % world, src = (k.net->rank - s + world) % world;
        tinyi_put_le(count, n_from[dst], 8);
        st = tinyi_coll_pass(&k, s, dst, count, 8, src, count + 8, 8);
        n_to[src] = tinyi_le64(count + 8);
    }
    if (st) return st;
    for (i = 0; i < world; i++) {
        to_at[i] = here;
        if (n_to[i] > room - here) fits = 0;
        else here += (size_t)n_to[i];
    }
    /* Does it fit everywhere? One rank's small room must not leave the others waiting. */
    for (s = 1; s < world && !st; s *= 2) {
        count[0] = (unsigned char)fits;
        st = tinyi_coll_pass(&k, 64 + s, (k.net->rank + s) % world, count, 1, (k.net->rank - s + world) % world,
                             count + 1, 1);
        fits &= !st && count[1] == 1;
    }
    if (st) return st;
    if (!fits)
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "alltoallv: the blocks of a rank do not fit its %zu elements", room);
    tinyi_coll_copy(t + to_at[k.net->rank] * k.size, f + from_at[k.net->rank] * k.size,
                    (size_t)n_from[k.net->rank] * k.size);
    for (s = 1; s < world && !st; s++) {
        const int dst = (k.net->rank + s) % world, src = (k.net->rank - s + world) % world;
        st = tinyi_coll_pass(&k, 128 + s, dst, f + from_at[dst] * k.size, (size_t)n_from[dst] * k.size, src,
                             t + to_at[src] * k.size, (size_t)n_to[src] * k.size);
    }
    return st;
}

TINY_API tiny_status tiny_coll_exchange(tiny_ctx *ctx, tiny_coll *c, const void *from, const uint64_t *from_at,
                                        const uint64_t *n_from, void *to, const uint64_t *n_to)
{
    tinyi_coll_call k;
    const int world = c && c->net ? TINYI_MAX(c->net->world, 1) : 1;
    const unsigned char *f = (const unsigned char *)from;
    unsigned char *t = (unsigned char *)to;
    size_t at[TINY_NET_RANKS], to_at[TINY_NET_RANKS], sent = 0, end = 0, here = 0, bytes;
    int s, i;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "exchange", 0, 1, 0);
    if (!st && (!n_from || !n_to)) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "exchange needs the lengths of the blocks");
    if (!st && n_from[k.net->rank] != n_to[k.net->rank])
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "exchange: the own block has two lengths");
    for (i = 0; i < world && !st; i++) {
        to_at[i] = here;
        at[i] = sent;
        if (from_at && from_at[i] > SIZE_MAX) st = TINY_E_OVERFLOW;
        else if (from_at) at[i] = (size_t)from_at[i];
        if (st || n_from[i] > SIZE_MAX || n_to[i] > SIZE_MAX || !tinyi_size_add(sent, (size_t)n_from[i], &sent) ||
            !tinyi_size_add(here, (size_t)n_to[i], &here) || !tinyi_size_add(at[i], (size_t)n_from[i], &end) ||
            !tinyi_size_mul(sent, k.size, &bytes) || !tinyi_size_mul(here, k.size, &bytes) ||
            !tinyi_size_mul(end, k.size, &bytes))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "exchange: the blocks are more than this machine can address");
    }
    if (!st) st = tinyi_coll_list(ctx, "exchange", from, sent);
    if (!st) st = tinyi_coll_list(ctx, "exchange", to, here);
    if (st) return st;
    tinyi_coll_copy(t + to_at[k.net->rank] * k.size, f + at[k.net->rank] * k.size,
                    (size_t)n_from[k.net->rank] * k.size);
    for (s = 1; s < world && !st; s++) {
        const int dst = (k.net->rank + s) % world, src = (k.net->rank - s + world) % world;
        st = tinyi_coll_pass(&k, s, dst, f + at[dst] * k.size, (size_t)n_from[dst] * k.size, src,
                             t + to_at[src] * k.size, (size_t)n_to[src] * k.size);
    }
    return st;
}

TINY_API tiny_status tiny_coll_barrier(tiny_ctx *ctx, tiny_coll *c)
{
    tinyi_coll_call k;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "barrier", 0, 0, 0);
    int d, i;
    for (d = 1, i = 0; !st && d < k.net->world; d *= 2, i++)
        st = tinyi_coll_pass(&k, i, (k.net->rank + d) % k.net->world, NULL, 0,
                             (k.net->rank - d + k.net->world) % k.net->world, NULL, 0);
    return st;
}

TINY_API size_t tiny_coll_work(int world, size_t n, size_t n_bytes)
{
    size_t all;
    if (world < 1) return 0;
    if (!tinyi_size_mul(n, n_bytes, &all) || !tinyi_size_mul(all, 3 * (size_t)world, &all)) return SIZE_MAX;
    return all;
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

TINY_API double tiny_coll_cost(int what, int world, double n, const tiny_coll_line *line)
{
    const double a = line ? line->latency : 0, b = line ? line->byte : 0, g = line ? line->add : 0, p = (double)world;
    int bits = 0, low = 0, more;
    if (world < 2 || world > TINY_NET_RANKS) return 0.0;
    while ((1 << bits) < world) bits++;
    while ((2 << low) <= world) low++;
    more = bits > low ? 2 : 0;              /* steps of the pairs before and after a power of two */
    switch (what) {
    case TINY_COST_MESSAGE: return a + n * b;
    case TINY_COST_BROADCAST: return bits * (a + n * b);
    case TINY_COST_REDUCE: return bits * (a + n * b + n * g);
    case TINY_COST_REDUCE_SCATTER: return (p - 1) * a + (p - 1) / p * n * (b + g);
    case TINY_COST_ALLGATHER: case TINY_COST_ALLTOALL: return (p - 1) * a + (p - 1) / p * n * b;
    case TINY_COST_ALLTOALL_BRUCK: return bits * (a + n / 2 * b);
    case TINY_COST_BARRIER: return bits * a;
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_DIRECT: return a + (p - 1) * n * (b + g);
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_STAR: return 2 * a + 2 * (p - 1) * n * b + (p - 1) * n * g;
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_TREE: return 2 * bits * (a + n * b) + bits * n * g;
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_DOUBLING:
        return low * (a + n * b + n * g) + more * (a + n * b) + more / 2 * n * g;
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_RING:
        return 2 * (p - 1) * a + 2 * (p - 1) / p * n * b + (p - 1) / p * n * g;
    case TINY_COST_ALLREDUCE + (int)TINY_COMM_HALVING: {
        const double q = (double)(1 << low);
        return 2 * low * a + 2 * (q - 1) / q * n * b + (q - 1) / q * n * g + more * (a + n * b) + more / 2 * n * g;
    }
    default: return 0.0;
    }
}

TINY_API void tiny_coll_choose(int world, int star, const tiny_coll_line *line, tiny_coll_choice *choice)
{
    int i, way;
    if (!line || !choice) return;
    memset(choice, 0, sizeof *choice);
    choice->line = *line;
    for (i = 0; i < TINY_COLL_SIZES; i++) {
        const double n = (double)((size_t)1024 << i);
        choice->way[i] = TINY_COMM_STAR;
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS && !star; way++)
            if (tiny_coll_cost(TINY_COST_ALLREDUCE + way, world, n, line) <
                tiny_coll_cost(TINY_COST_ALLREDUCE + choice->way[i], world, n, line))
                choice->way[i] = (unsigned char)way;
    }
}

TINY_API int tiny_coll_way(const tiny_coll_choice *choice, size_t n_bytes)
{
    int i = 0;
    if (!choice) return TINY_COMM_STAR;
    while (i < TINY_COLL_SIZES - 1 && n_bytes > (size_t)1024 << i) i++;
    return choice->way[i];
}

enum { TINYI_PROBES = 5, TINYI_PROBE_ROUNDS = 20 };

/* a + n b through five points. Relative errors count: else only the longest message would decide. */
static void tinyi_coll_fit(const double n[TINYI_PROBES], const double t[TINYI_PROBES], double *a, double *b)
{
    double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0, det;
    int i;
    for (i = 0; i < TINYI_PROBES; i++) {
        const double k = 1 / (t[i] * t[i]);
        w += k;
        wn += k * n[i];
        wnn += k * n[i] * n[i];
        wt += k * t[i];
        wnt += k * n[i] * t[i];
    }
    det = w * wnn - wn * wn;
    *b = det > 0 ? TINYI_MAX((w * wnt - wn * wt) / det, 0.0) : 0.0;
    *a = TINYI_MAX((wt - *b * wn) / w, 1e-9);
}

/* Times every way at four lengths, and lets rank 0 choose. A table knows neither that two messages at the same time
 * slow each other down, nor how many ranks share a processor. A time is that of the slowest rank, because a rank that
 * starts late finds its messages there already. The second shortest time counts, not the median: whatever else the
 * machine does only adds to a time. */
enum { TINYI_TRIES = 4, TINYI_TRY_ROUNDS = 7, TINYI_TRY_RANK = 1 };
static tiny_status tinyi_coll_try(tiny_ctx *ctx, const tiny_coll *c, tiny_coll_choice *choice)
{
    static const size_t size[TINYI_TRIES] = { 1024, 8192, 65536, 524288 };
    static const int from[TINYI_TRIES + 1] = { 0, 2, 5, 8, TINY_COLL_SIZES };       /* the sizes that take that way */
    double took[TINY_COMM_WAYS][TINYI_TRY_ROUNDS];
    tiny_coll sum = *c, most;
    tiny_status st;
    int i, way, k, m;
    sum.type = TINY_COLL_F32;
    sum.op = TINY_COLL_SUM;
    sum.work = (unsigned char *)c->work + TINY_COLL_PROBE_WORK / 2;
    sum.n_work = TINY_COLL_PROBE_WORK / 2;
    most = sum;
    most.op = TINY_COLL_MAX;
    st = tiny_coll_barrier(ctx, &sum);
    for (i = 0; i < TINYI_TRIES && !st; i++) {
        int best = TINY_COMM_DOUBLING;
        for (k = 0; k < TINYI_TRY_ROUNDS && !st; k++)
            for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS && !st; way++) {
                const uint64_t start = tiny_now_ns();
                double *t = took[way];
                float ns;
                st = tiny_coll_allreduce(ctx, &sum, way, c->work, size[i] / 4);
                ns = (float)(tiny_now_ns() - start);
                if (!st) st = tiny_coll_allreduce(ctx, &most, TINY_COMM_DOUBLING, &ns, 1);      /* and a barrier */
                t[k] = (double)ns;
                for (m = k; m > 0 && t[m] < t[m - 1]; m--) {
                    const double x = t[m];
                    t[m] = t[m - 1];
                    t[m - 1] = x;
                }
            }
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS && !st; way++)
            if (took[way][TINYI_TRY_RANK] < took[best][TINYI_TRY_RANK]) best = way;
        for (k = from[i]; k < from[i + 1]; k++) choice->way[k] = (unsigned char)best;
    }
    return st;
}

TINY_API tiny_status tiny_coll_probe(tiny_ctx *ctx, tiny_coll *c, tiny_coll_choice *choice)
{
    static const size_t size[TINYI_PROBES] = { 1, 1024, 8192, 65536, 524288 };
    tinyi_coll_call k;
    tiny_coll_line line;
    double n[TINYI_PROBES], t[TINYI_PROBES];
    unsigned char *w;
    uint64_t start;
    int r, i, j, m;
    tiny_status st = tinyi_coll_begin(&k, ctx, c, "probe", 0, 0, 0);
    if (st) return st;
    if (!choice) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the probe needs room for its answer");
    if (!c->work || c->n_work < TINY_COLL_PROBE_WORK)
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "the probe needs a workspace of %zu bytes", TINY_COLL_PROBE_WORK);
    w = (unsigned char *)c->work;
    memset(w, 0, TINY_COLL_PROBE_WORK);
    memset(&line, 0, sizeof line);
    for (r = 1; r < k.net->world && !st; r++) {
        for (i = 0; i < TINYI_PROBES && !st; i++) {
            double took[TINYI_PROBE_ROUNDS];
            for (j = 0; j < TINYI_PROBE_ROUNDS && !st; j++) {
                const uint64_t from = tiny_now_ns(), clock = c->clock;
                if (k.net->rank == 0) {
                    st = tinyi_coll_pass(&k, r, r, w, size[i], -1, NULL, 0);
                    if (!st) st = tinyi_coll_pass(&k, r, -1, NULL, 0, r, w, size[i]);
                } else if (k.net->rank == r) {
                    st = tinyi_coll_pass(&k, r, -1, NULL, 0, 0, w, size[i]);
                    if (!st) st = tinyi_coll_pass(&k, r, 0, w, size[i], -1, NULL, 0);
                }
                took[j] = 1e-9 * (double)(k.net->virtual_clock ? c->clock - clock : tiny_now_ns() - from);
                for (m = j; m > 0 && took[m] < took[m - 1]; m--) {
                    const double x = took[m];
                    took[m] = took[m - 1];
                    took[m - 1] = x;
                }
            }
            n[i] = (double)size[i];
            t[i] = TINYI_MAX(took[TINYI_PROBE_ROUNDS / 2] / 2, 1e-9);
        }
        if (k.net->rank == 0 && !st) {
            double a, b;
            tinyi_coll_fit(n, t, &a, &b);
            line.latency = TINYI_MAX(line.latency, a);
            line.byte = TINYI_MAX(line.byte, b);
        }
    }
    if (st) return st;
    if (k.net->virtual_clock) line.add = 1e-9 * c->add_ns;
    else {
        tiny_coll sum = *c;
        sum.type = TINY_COLL_F32;
        sum.op = TINY_COLL_SUM;
        start = tiny_now_ns();
        for (i = 0; i < 8; i++) tinyi_coll_add(&sum, w, w, w + 262144, 65536);
        line.add = 1e-9 * (double)(tiny_now_ns() - start) / (8 * 262144);
    }
    tiny_coll_choose(k.net->world, k.net->star, &line, choice);
    if (!k.net->virtual_clock && !k.net->star) st = tinyi_coll_try(ctx, c, choice);
    if (st) return st;
    /* the choice of rank 0, not of each: their figures differ. As bytes, because machines differ too. */
    {
        unsigned char all[24 + TINY_COLL_SIZES];
        uint64_t bits[3];
        const double v[3] = { choice->line.latency, choice->line.byte, choice->line.add };
        tiny_coll bytes = *c;
        memcpy(bits, v, sizeof bits);
        for (i = 0; i < 3; i++) tinyi_put_le(all + 8 * i, bits[i], 8);
        memcpy(all + 24, choice->way, TINY_COLL_SIZES);
        bytes.type = TINY_COLL_U8;
        bytes.op = TINY_COLL_OR;
        if (k.net->star) {                  /* a tree would need other connections */
            for (r = 1; r < k.net->world && !st; r++)
                if (k.net->rank == 0) st = tinyi_coll_pass(&k, 200, r, all, sizeof all, -1, NULL, 0);
                else if (k.net->rank == r) st = tinyi_coll_pass(&k, 200, -1, NULL, 0, 0, all, sizeof all);
        } else st = tiny_coll_broadcast(ctx, &bytes, all, sizeof all, 0);
        c->clock = TINYI_MAX(c->clock, bytes.clock);
        if (st) return st;
        for (i = 0; i < 3; i++) bits[i] = tinyi_le64(all + 8 * i);
        {
            double got[3];
            memcpy(got, bits, sizeof got);
            choice->line.latency = got[0];
            choice->line.byte = got[1];
            choice->line.add = got[2];
        }
        memcpy(choice->way, all + 24, TINY_COLL_SIZES);
        for (i = 0; i < TINY_COLL_SIZES; i++)
            if (choice->way[i] <= TINY_COMM_DIRECT || choice->way[i] >= TINY_COMM_WAYS) {
                (void)snprintf(k.net->says, sizeof k.net->says, "rank 0 chose a way of sums that there is not");
                return tinyi_coll_end(&k, TINY_E_PROTOCOL);
            }
    }
    return TINY_OK;
}
