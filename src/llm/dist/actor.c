/* src/llm/dist/actor.c - actors with credits: the state of each, its threads, the messages between ranks
 * Paper    OneFlow (arXiv 2110.15032), 4: an actor has an in counter for each input, an out counter (free buffers) for
 *          each output, and a reference count for each buffer.
 * Method   fire when all in counters and all out counters are positive. Then READY(buffer) goes to each reader; their
 *          number is the reference count. RELEASE(buffer) goes to each producer, which frees the buffer at 0. END
 *          follows the last READY; STOP goes from a reader that ends to a producer that has not. Back-pressure is
 *          nothing but missing buffers.
 * Threads  an actor's state belongs to its thread. A note to another thread goes to a list without locks. Every note
 *          that can be on its way at once has its own place, so nothing is allocated and a list is never full.
 * Ranks    thread 0 sends and receives. For an edge between ranks it is a reader at the producer's rank and a producer
 *          with buffers of its own at the reader's:
 *              READY  ->     <- PULL  when a buffer is free     DATA  ->  then the producer's buffer is released
 *              END    ->     <- STOP                            <- FIN    neither side sends on this edge any more
 *          Frames carry a hash of the graph, and every number in them is checked against its state. */
#include "core/bytes.h"
#include "core/hash_inside.h"
#include "core/time.h"
#include "llm/dist/actor_inside.h"
#include <stdio.h>
#include <string.h>

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static int tinyi_actor_buffers(const tllm_actor *a) { return a->buffers ? a->buffers : 2; }

tiny_status tinyi_actor_check(tiny_ctx *ctx, const tllm_actor_desc *d, int world)
{
    int i, k;
    if (!d || !d->actor) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a run of actors needs their list");
    if (d->n_actor < 1 || d->n_actor > TLLM_ACTORS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d actors, there may be 1 to %d", d->n_actor, TLLM_ACTORS);
    if (!(d->bits_per_second >= 0 && d->bits_per_second <= 1e15))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "links of %g bits per second, they must be 0 (no limit) to 1e15",
                          d->bits_per_second);
    for (i = 0; i < d->n_actor; i++) {
        const tllm_actor *a = &d->actor[i];
        if (a->rank < 0 || a->rank >= world)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "actor %d is on rank %d of %d", i, a->rank, world);
        if (a->thread < 0 || a->thread > 65535)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "actor %d is on thread %d, threads are 0 to 65535", i, a->thread);
        if (a->n_in < 0 || a->n_in > TLLM_ACTOR_PORTS || a->n_out < 0 || a->n_out > TLLM_ACTOR_PORTS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "actor %d has %d inputs and %d outputs, there may be 0 to %d", i,
                              a->n_in, a->n_out, TLLM_ACTOR_PORTS);
        if (a->buffers < 0 || a->buffers > TLLM_ACTOR_BUFFERS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "actor %d has %d buffers, there may be 1 to %d", i, a->buffers,
                              TLLM_ACTOR_BUFFERS);
        for (k = 0; k < a->n_in; k++) {
            if (a->from[k] < 0 || a->from[k] >= i)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "input %d of actor %d is actor %d, which is not an earlier one",
                                  k, i, a->from[k]);
            if (a->output[k] < 0 || a->output[k] >= d->actor[a->from[k]].n_out)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "input %d of actor %d: actor %d has no output %d", k, i,
                                  a->from[k], a->output[k]);
        }
        for (k = 0; k < a->n_out; k++)
            if (a->bytes[k] > PTRDIFF_MAX / TLLM_ACTOR_BUFFERS / 2)
                return tinyi_fail(ctx, TINY_E_OVERFLOW, "items of actor %d: %zu bytes are more than this machine can "
                                  "address", i, a->bytes[k]);
    }
    return TINY_OK;
}

size_t tinyi_actor_room(size_t bytes) { return (bytes + TINYI_ALIGN - 1) / TINYI_ALIGN * TINYI_ALIGN; }
/* rank -1: of all */
static size_t tinyi_actor_bytes(const tllm_actor_desc *d, int rank)
{
    size_t all = 0, one;
    int i, k;
    for (i = 0; i < d->n_actor; i++) {
        const tllm_actor *a = &d->actor[i];
        if (rank >= 0 && a->rank != rank) continue;
        for (k = 0; k < a->n_out; k++)
            if (!tinyi_size_mul(tinyi_actor_room(a->bytes[k]), (size_t)tinyi_actor_buffers(a), &one) ||
                !tinyi_size_add(all, one, &all))
                return SIZE_MAX;
        for (k = 0; k < a->n_in; k++) {
            const tllm_actor *p = &d->actor[a->from[k]];
            if (p->rank == a->rank) continue;
            if (!tinyi_size_mul(tinyi_actor_room(p->bytes[a->output[k]]), (size_t)tinyi_actor_buffers(p), &one) ||
                !tinyi_size_add(all, one, &all))
                return SIZE_MAX;
        }
    }
    return all;
}
TINY_API size_t tllm_actor_memory(const tllm_actor_desc *desc, int rank)
{
    if (tinyi_actor_check(NULL, desc, TINY_NET_RANKS)) return SIZE_MAX;
    return tinyi_actor_bytes(desc, rank < 0 ? TINY_NET_RANKS : rank);
}

static void tinyi_actor_list_set(tinyi_actor_list *l, int **numbers, int most)
{
    l->at = *numbers;
    l->most = most;
    *numbers += most;
}
void tinyi_actor_put(tinyi_actor_list *l, int x) { l->at[(l->first + l->n++) % l->most] = x; }
int tinyi_actor_take(tinyi_actor_list *l)
{
    const int x = l->at[l->first];
    l->first = (l->first + 1) % l->most;
    l->n--;
    return x;
}

static uint64_t tinyi_actor_hash(const tllm_actor_desc *d)
{
    tinyi_hash h;
    unsigned char b[8];
    int i, k;
    tinyi_hash_start(&h);
    for (i = 0; i < d->n_actor; i++) {
        const tllm_actor *a = &d->actor[i];
        uint64_t x[4 + 3 * TLLM_ACTOR_PORTS];
        int n = 0;
        x[n++] = (uint64_t)a->rank;
        x[n++] = (uint64_t)a->n_in;
        x[n++] = (uint64_t)a->n_out;
        x[n++] = (uint64_t)tinyi_actor_buffers(a);
        for (k = 0; k < a->n_in; k++) x[n++] = (uint64_t)a->from[k], x[n++] = (uint64_t)a->output[k];
        for (k = 0; k < a->n_out; k++) x[n++] = (uint64_t)a->bytes[k];
        for (k = 0; k < n; k++) {
            tinyi_put_le(b, x[k], 8);
            tinyi_hash_add(&h, b, 8);
        }
    }
    return tinyi_hash_value(&h);
}

void tinyi_actors_close(tinyi_actors *r)
{
    tiny_free(r->ctx, r->actor);
    tiny_free(r->ctx, r->edge);
    tiny_free(r->ctx, r->numbers);
    tiny_free(r->ctx, r->data);
    tiny_free(r->ctx, r->note);
    tiny_free(r->ctx, r->note_at);
    tiny_free(r->ctx, r->inbox);
    tiny_free(r->ctx, r->peer);
    tiny_free(r->ctx, r->frames);
    tiny_free(r->ctx, r->event);
    tiny_free(r->ctx, r->link_free);
    tiny_free(r->ctx, r->ready_at);
    tiny_free(r->ctx, r->thread_of);
    tiny_free(r->ctx, r->thread_busy);
}
void *tinyi_actor_zeros(tinyi_actors *r, size_t n, size_t bytes)
{
    void *p = tinyi_alloc(r->ctx, n + 1, bytes);
    if (p) memset(p, 0, (n + 1) * bytes);
    return p;
}

/* Everything that a run needs. The graph is valid. */
tiny_status tinyi_actors_open(tinyi_actors *r)
{
    const tllm_actor_desc *d = r->d;
    const size_t bytes = tinyi_actor_bytes(d, r->simulated ? -1 : r->rank);
    size_t n_edge = 0, n_number = 0, n_note = 0, n_frame = 0, n_ready = 0;
    int i, k, *numbers;
    unsigned char *data;
    tinyi_actor_frame *frames;
    tiny_idx note = 0;
    size_t ready = 0;
    for (i = 0; i < d->n_actor; i++) {
        const tllm_actor *a = &d->actor[i];
        n_edge += (size_t)a->n_in;
        n_number += (size_t)a->n_out * (size_t)tinyi_actor_buffers(a);
        for (k = 0; k < a->n_in; k++) {
            const size_t c = (size_t)tinyi_actor_buffers(&d->actor[a->from[k]]);
            n_number += 4 * c;
            n_note += 2 * c + 2;
            n_frame += 3 * c + 3;
            n_ready += c;
        }
    }
    if (bytes == SIZE_MAX)
        return tinyi_fail(r->ctx, TINY_E_OVERFLOW, "the buffers of the actors are more than this machine can address");
    r->actor = (tinyi_actor_state *)tinyi_actor_zeros(r, (size_t)d->n_actor, sizeof *r->actor);
    r->edge = (tinyi_actor_edge *)tinyi_actor_zeros(r, n_edge, sizeof *r->edge);
    r->numbers = numbers = (int *)tinyi_actor_zeros(r, n_number, sizeof *r->numbers);
    r->data = data = (unsigned char *)tinyi_alloc(r->ctx, bytes + TINYI_ALIGN, 1);
    r->note = (tinyi_actor_note *)tinyi_actor_zeros(r, n_note, sizeof *r->note);
    r->note_at = (tiny_idx *)tinyi_actor_zeros(r, n_edge, sizeof *r->note_at);
    r->peer = (tinyi_actor_peer *)tinyi_actor_zeros(r, (size_t)r->world, sizeof *r->peer);
    r->frames = frames = (tinyi_actor_frame *)tinyi_actor_zeros(r, n_frame, sizeof *r->frames);
    r->ready_at = (uint64_t *)tinyi_actor_zeros(r, n_ready, sizeof *r->ready_at);
    if (!r->actor || !r->edge || !numbers || !data || !r->note || !r->note_at || !r->peer || !frames ||
        !r->ready_at)
        return tiny_ctx_status(r->ctx);
    memset(data, 0, bytes);
    for (i = 0; i < d->n_actor; i++) {
        const tllm_actor *a = &d->actor[i];
        tinyi_actor_state *s = &r->actor[i];
        s->c = tinyi_actor_buffers(a);
        s->here = r->simulated || a->rank == r->rank;
        if (s->here && !a->act) return tinyi_fail(r->ctx, TINY_E_ARGUMENT, "actor %d has no function", i);
        if (s->here) {
            r->alive++;
            r->n_threads = TINYI_MAX(r->n_threads, a->thread + 1);
        }
        for (k = 0; k < a->n_out; k++) {
            tinyi_actor_out *o = &s->out[k];
            o->first = -1;
            o->n_free = s->c;
            o->refs = numbers;
            numbers += s->c;
            if (!s->here) continue;
            o->data = data;
            data += (size_t)s->c * tinyi_actor_room(a->bytes[k]);
        }
        for (k = 0; k < a->n_in; k++) {
            tinyi_actor_edge *e = &r->edge[r->n_edge];
            const tllm_actor *p = &d->actor[a->from[k]];
            tinyi_actor_out *o = &r->actor[a->from[k]].out[a->output[k]];
            int l;
            s->edge[k] = r->n_edge;
            e->from = a->from[k];
            e->output = a->output[k];
            e->to = i;
            e->c = tinyi_actor_buffers(p);
            e->bytes = p->bytes[e->output];
            e->remote = p->rank != a->rank;
            e->next = o->first;
            o->first = r->n_edge;
            o->n_edge++;
            tinyi_actor_list_set(&e->queue, &numbers, e->c);
            tinyi_actor_list_set(&e->ready, &numbers, e->c);
            tinyi_actor_list_set(&e->pulled, &numbers, e->c);
            tinyi_actor_list_set(&e->empty, &numbers, e->c);
            for (l = 0; l < e->c; l++) tinyi_actor_put(&e->empty, l);
            if (e->remote && s->here) {
                e->landing = data;
                data += (size_t)e->c * tinyi_actor_room(e->bytes);
            }
            if (e->remote && !r->simulated && (p->rank == r->rank || s->here)) {
                tinyi_actor_peer *other = &r->peer[p->rank == r->rank ? a->rank : p->rank];
                other->n_open++;
                other->most += 3 * e->c + 3;
            }
            e->ready_at = r->ready_at + ready;
            ready += (size_t)e->c;
            r->note_at[r->n_edge] = note;
            note += 2 * e->c + 2;
            r->n_edge++;
        }
    }
    for (i = 0; i < r->world; i++) {
        r->peer[i].frame = frames;
        frames += r->peer[i].most;
    }
    return TINY_OK;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

void tinyi_actor_fail(tinyi_actors *r, tiny_status st, const char *says)
{
    if (!tinyi_atomic_swap_if(&r->failed, 0, 1)) return;
    r->st = st;
    (void)snprintf(r->says, sizeof r->says, "%s", says);
    (void)tinyi_atomic_add(&r->failed, 1);  /* the sentence is complete */
    if (r->net) r->net->wake(r->net);
}

static void tinyi_actor_note_of(tinyi_actors *r, int thread, int e, int kind, int arg);

static void tinyi_actor_frame_put(tinyi_actors *r, int rank, int kind, int e, int arg)
{
    tinyi_actor_peer *p = &r->peer[rank];
    tinyi_actor_frame *f = &p->frame[(p->first + p->n++) % p->most];
    f->kind = kind;
    f->edge = e;
    f->arg = arg;
}

/* The actor has ended: end marks to its readers, stops to the producers that have not. Runs on its own thread. */
static void tinyi_actor_ends(tinyi_actors *r, int a)
{
    tinyi_actor_state *s = &r->actor[a];
    int k, e;
    if (s->ended) return;
    s->ended = 1;
    for (k = 0; k < r->d->actor[a].n_out; k++)
        for (e = s->out[k].first; e >= 0; e = r->edge[e].next) tinyi_actor_note_of(r, s->thread, e, TINYI_END, 0);
    for (k = 0; k < r->d->actor[a].n_in; k++) {
        tinyi_actor_edge *in = &r->edge[s->edge[k]];
        if (in->ended || in->stopped) continue;
        in->stopped = 1;
        tinyi_actor_note_of(r, s->thread, s->edge[k], TINYI_STOP, 0);
    }
    if (tinyi_atomic_add(&r->alive, -1) == 1 && r->net) r->net->wake(r->net);
}
static void tinyi_actor_look(tinyi_actors *r, int a)   /* has an input ended, with nothing left of it? */
{
    tinyi_actor_state *s = &r->actor[a];
    int k;
    if (s->ended || s->busy) return;
    for (k = 0; k < r->d->actor[a].n_in; k++) {
        const tinyi_actor_edge *e = &r->edge[s->edge[k]];
        if (e->ended && !e->queue.n) s->stop = 1;
    }
    if (s->stop) tinyi_actor_ends(r, a);
}

/* thread 0 at the reader's rank: asks for items while landings are free, and ends the edge when all are here */
static void tinyi_actor_pull(tinyi_actors *r, int e)
{
    tinyi_actor_edge *x = &r->edge[e];
    const int from = r->d->actor[x->from].rank;
    if (x->closed) return;
    while (!x->halted && x->ready.n && x->empty.n) {
        tinyi_actor_put(&x->pulled, tinyi_actor_take(&x->empty));
        tinyi_actor_frame_put(r, from, TINYI_PULL, e, tinyi_actor_take(&x->ready));
    }
    if (!x->got_end || x->pulled.n || (x->ready.n && !x->halted)) return;
    if (!x->said_end && !x->halted) tinyi_actor_note_of(r, 0, e, TINYI_END, 0);
    x->said_end = 1;
    x->closed = 1;
    tinyi_actor_frame_put(r, from, TINYI_FIN, e, 0);
    r->peer[from].n_open--;
}

/* A note has come to the thread that it is for. */
void tinyi_actor_deliver(tinyi_actors *r, int e, int kind, int arg)
{
    tinyi_actor_edge *x = &r->edge[e];
    const int here = x->remote && !r->simulated ? r->d->actor[x->from].rank == r->rank : 0;   /* far, its beginning */
    if (kind == TINYI_READY || kind == TINYI_END) {
        if (here) tinyi_actor_frame_put(r, r->d->actor[x->to].rank, kind, e, arg);
        else if (kind == TINYI_READY) tinyi_actor_put(&x->queue, arg);
        else {
            x->ended = 1;
            tinyi_actor_look(r, x->to);
        }
        return;
    }
    if (x->remote && !here && !r->simulated) { /* thread 0 owns the landings */
        if (kind == TINYI_RELEASE) tinyi_actor_put(&x->empty, arg);
        else {
            x->halted = 1;
            if (!x->closed) tinyi_actor_frame_put(r, r->d->actor[x->from].rank, TINYI_STOP, e, 0);
        }
        tinyi_actor_pull(r, e);
        return;
    }
    {
        tinyi_actor_state *s = &r->actor[x->from];
        tinyi_actor_out *o = &s->out[x->output];
        if (kind == TINYI_STOP) {
            s->stop = 1;
            if (!s->busy) tinyi_actor_ends(r, x->from);
        } else if (--o->refs[arg] == 0) o->n_free++;
    }
}

/* A note to the other end of an edge, or to what stands for it on this rank. thread: of the caller */
static void tinyi_actor_note_of(tinyi_actors *r, int thread, int e, int kind, int arg)
{
    tinyi_actor_edge *x = &r->edge[e];
    const int forth = kind == TINYI_READY || kind == TINYI_END;
    const tinyi_actor_state *other = &r->actor[forth ? x->to : x->from];
    const int to = other->here ? other->thread : 0;
    if (r->simulated && x->remote) tinyi_actor_far(r, e, kind, arg);
    else if (to == thread) tinyi_actor_deliver(r, e, kind, arg);
    else {
        const tiny_idx i = r->note_at[e] + (kind == TINYI_READY     ? arg
                                            : kind == TINYI_RELEASE ? x->c + arg
                                                                    : 2 * x->c + (kind == TINYI_STOP));
        tinyi_actor_note *n = &r->note[i];
        tiny_idx head;
        n->kind = kind;
        n->edge = e;
        n->arg = arg;
        do {
            head = tinyi_atomic_get(&r->inbox[to].head);
            n->next = head;
        } while (!tinyi_atomic_swap_if(&r->inbox[to].head, head, i + 1));
        r->net->wake(r->net);
    }
}

/* what came from other threads, in the order in which it was sent */
static int tinyi_actor_inbox_read(tinyi_actors *r, int thread)
{
    tiny_idx head, turned = 0, next;
    do head = tinyi_atomic_get(&r->inbox[thread].head);
    while (head && !tinyi_atomic_swap_if(&r->inbox[thread].head, head, 0));
    if (!head) return 0;
    for (; head; head = next) {
        next = r->note[head - 1].next;
        r->note[head - 1].next = turned;
        turned = head;
    }
    for (; turned; turned = next) {
        const tinyi_actor_note n = r->note[turned - 1];     /* a copy: its place may be used again at once */
        next = n.next;
        tinyi_actor_deliver(r, n.edge, n.kind, n.arg);
    }
    return 1;
}

/* ---- firing ------------------------------------------------------------------------------------------------------ */

int tinyi_actor_fires(const tinyi_actors *r, int a)
{
    const tinyi_actor_state *s = &r->actor[a];
    int k;
    if (s->ended || s->busy) return 0;
    for (k = 0; k < r->d->actor[a].n_in; k++) if (!r->edge[s->edge[k]].queue.n) return 0;
    for (k = 0; k < r->d->actor[a].n_out; k++) if (!s->out[k].n_free) return 0;
    return 1;
}

/* takes items and buffers, and calls the function */
tiny_status tinyi_actor_begin(tinyi_actors *r, int a)
{
    const tllm_actor *d = &r->d->actor[a];
    tinyi_actor_state *s = &r->actor[a];
    int k, b;
    memset(&s->call, 0, sizeof s->call);
    for (k = 0; k < d->n_in; k++) {
        tinyi_actor_edge *e = &r->edge[s->edge[k]];
        e->holds = tinyi_actor_take(&e->queue);
        s->call.in[k] = (e->remote ? e->landing : r->actor[e->from].out[e->output].data) +
                        (size_t)e->holds * tinyi_actor_room(e->bytes);
    }
    for (k = 0; k < d->n_out; k++) {
        tinyi_actor_out *o = &s->out[k];
        for (b = 0; o->refs[b]; b++) {}
        o->refs[b] = o->n_edge + 1;         /* taken; the 1 is this call */
        o->taken = b;
        o->n_free--;
        o->live = TINYI_MAX(o->live, s->c - o->n_free);
        s->call.out[k] = o->data + (size_t)b * tinyi_actor_room(d->bytes[k]);
    }
    s->call.user = d->user;
    s->call.id = (uint64_t)d->rank << 48 | (uint64_t)d->thread << 32 | (uint64_t)a;
    s->call.item = s->fired;
    s->call.ns = d->ns;
    s->call.at = r->now;
    s->busy = 1;
    return d->act(&s->call);
}

/* the function has returned: items to the readers, inputs back */
void tinyi_actor_finish(tinyi_actors *r, int a)
{
    const tllm_actor *d = &r->d->actor[a];
    tinyi_actor_state *s = &r->actor[a];
    int k, e;
    s->busy = 0;
    s->fired++;
    s->last = r->now;
    for (k = 0; k < d->n_out; k++) {
        tinyi_actor_out *o = &s->out[k];
        const int b = o->taken, given = s->call.end != TLLM_ACTOR_END;
        o->refs[b] = given ? o->n_edge : 0;
        if (!o->refs[b]) o->n_free++;
        for (e = o->first; e >= 0 && given; e = r->edge[e].next)
            tinyi_actor_note_of(r, s->thread, e, TINYI_READY, b);
    }
    for (k = 0; k < d->n_in; k++)
        tinyi_actor_note_of(r, s->thread, s->edge[k], TINYI_RELEASE, r->edge[s->edge[k]].holds);
    if (s->call.end || s->stop) tinyi_actor_ends(r, a);
    else tinyi_actor_look(r, a);
}

void tinyi_actor_refuses(tinyi_actors *r, int a, tiny_status st)
{
    char says[160];
    (void)snprintf(says, sizeof says, "actor %d failed at its call %llu: %s", a,
                   (unsigned long long)r->actor[a].fired, tiny_status_text(st));
    tinyi_actor_fail(r, st, says);
}

/* ---- messages of a rank ------------------------------------------------------------------------------------------ */

static void tinyi_actor_unfit(tinyi_actors *r, int from)
{
    (void)snprintf(r->net->says, sizeof r->net->says,
                   "rank %d sent a message of actors that does not fit: its graph or its state differs", from);
    r->net->gone = from + 1;
    tinyi_actor_fail(r, TINY_E_PROTOCOL, r->net->says);
}

/* a frame from another rank; 0: it does not fit */
static int tinyi_actor_frame_got(tinyi_actors *r, int from, const tinyi_actor_frame *f)
{
    tinyi_actor_edge *x;
    int forth;
    if (f->edge < 0 || f->edge >= r->n_edge) return 0;
    x = &r->edge[f->edge];
    forth = f->kind == TINYI_READY || f->kind == TINYI_DATA || f->kind == TINYI_END;
    if (!x->remote || x->closed || f->arg < 0 || f->arg >= x->c || r->d->actor[forth ? x->from : x->to].rank != from ||
        r->d->actor[forth ? x->to : x->from].rank != r->rank)
        return 0;
    switch (f->kind) {
    case TINYI_READY:
        if (x->ready.n + x->pulled.n >= x->c || x->got_end) return 0;
        tinyi_actor_put(&x->ready, f->arg);
        tinyi_actor_pull(r, f->edge);
        return 1;
    case TINYI_END:
        if (x->got_end) return 0;
        x->got_end = 1;
        tinyi_actor_pull(r, f->edge);
        return 1;
    case TINYI_DATA: {
        const int l = tinyi_actor_take(&x->pulled);
        if (x->halted) tinyi_actor_put(&x->empty, l);
        else tinyi_actor_note_of(r, 0, f->edge, TINYI_READY, l);
        tinyi_actor_pull(r, f->edge);
        return 1;
    }
    case TINYI_PULL:                        /* of the oldest item that was announced */
        if (!x->ready.n || tinyi_actor_take(&x->ready) != f->arg) return 0;
        tinyi_actor_frame_put(r, from, TINYI_DATA, f->edge, f->arg);
        return 1;
    case TINYI_STOP:
        if (x->halted) return 0;
        x->halted = 1;
        tinyi_actor_note_of(r, 0, f->edge, TINYI_STOP, 0);
        return 1;
    case TINYI_FIN:
        if (!x->said_end) return 0;         /* an edge that closes early would leave the producer without time-out */
        x->closed = 1;
        r->peer[from].n_open--;
        return 1;
    default: return 0;
    }
}

static void tinyi_actor_message(const tinyi_actors *r, tiny_message *m, int what, void *data, size_t n)
{
    memset(m, 0, sizeof *m);
    m->tag = r->number << 16 | (uint64_t)what << 8;
    m->data = data;
    m->n = n;
}

/* 1: something moved */
static int tinyi_actor_sends(tinyi_actors *r, int to)
{
    tinyi_actor_peer *p = &r->peer[to];
    int moved = 0;
    for (;;) {
        tinyi_actor_edge *x;
        tiny_status st;
        if (!p->sending) {
            if (!p->n) return moved;
            p->sends = p->frame[p->first];
            p->first = (p->first + 1) % p->most;
            p->n--;
            tinyi_put_le(p->head_out, r->hash, 8);
            tinyi_put_le(p->head_out + 8, (uint64_t)p->sends.kind, 4);
            tinyi_put_le(p->head_out + 12, (uint64_t)p->sends.edge, 4);
            tinyi_put_le(p->head_out + 16, (uint64_t)p->sends.arg, 4);
            tinyi_actor_message(r, &p->send, 1, p->head_out, TINYI_FRAME);
            p->sending = 1;
        }
        st = r->net->send(r->net, to, &p->send);
        if (st) return tinyi_actor_fail(r, st, r->net->says), moved;
        if (!p->send.whole) return moved;
        moved = 1;
        x = &r->edge[p->sends.edge];
        if (p->sends.kind == TINYI_DATA && p->sending == 1 && x->bytes) {
            tinyi_actor_message(r, &p->send, 2, r->actor[x->from].out[x->output].data +
                                (size_t)p->sends.arg * tinyi_actor_room(x->bytes), x->bytes);
            p->sending = 2;
            continue;
        }
        p->sending = 0;
        if (p->sends.kind == TINYI_READY) tinyi_actor_put(&x->ready, p->sends.arg);
        if (p->sends.kind == TINYI_END) x->said_end = 1;
        if (p->sends.kind == TINYI_DATA) tinyi_actor_note_of(r, 0, p->sends.edge, TINYI_RELEASE, p->sends.arg);
    }
}
static int tinyi_actor_receives(tinyi_actors *r, int from)
{
    tinyi_actor_peer *p = &r->peer[from];
    int moved = 0;
    while (p->n_open && !tinyi_atomic_get(&r->failed)) {
        tiny_status st;
        if (!p->receiving) {
            tinyi_actor_message(r, &p->recv, 1, p->head_in, TINYI_FRAME);
            p->receiving = 1;
        }
        st = r->net->recv(r->net, from, &p->recv);
        if (st) return tinyi_actor_fail(r, st, r->net->says), moved;
        if (!p->recv.whole) return moved;
        moved = 1;
        if (p->receiving == 1) {
            tinyi_actor_edge *x;
            p->recvs.kind = (int)(tinyi_le32(p->head_in + 8) & 255);
            p->recvs.edge = (int)(tinyi_le32(p->head_in + 12) & 0x7fffffff);
            p->recvs.arg = (int)(tinyi_le32(p->head_in + 16) & 0x7fffffff);
            if (tinyi_le64(p->head_in) != r->hash) return tinyi_actor_unfit(r, from), moved;
            if (p->recvs.kind == TINYI_DATA) {
                x = &r->edge[TINYI_MIN(p->recvs.edge, TINYI_MAX(r->n_edge - 1, 0))];
                if (p->recvs.edge >= r->n_edge || !x->remote || !x->pulled.n || !x->landing)
                    return tinyi_actor_unfit(r, from), moved;
                if (x->bytes) {
                    tinyi_actor_message(r, &p->recv, 2, x->landing +
                                        (size_t)x->pulled.at[x->pulled.first] * tinyi_actor_room(x->bytes), x->bytes);
                    p->receiving = 2;
                    continue;
                }
            }
        }
        p->receiving = 0;
        if (!tinyi_actor_frame_got(r, from, &p->recvs)) return tinyi_actor_unfit(r, from), moved;
    }
    return moved;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static int tinyi_actor_done(const tinyi_actors *r, int thread)
{
    int i;
    if (tinyi_atomic_get((tiny_idx *)(uintptr_t)&r->alive)) return 0;
    for (i = 0; i < r->world && !thread; i++)
        if (r->peer[i].n_open || r->peer[i].n || r->peer[i].sending) return 0;
    return 1;
}

static void tinyi_actor_thread(tiny_team *team, void *arg)
{
    tinyi_actors *r = (tinyi_actors *)arg;
    const tllm_actor_desc *d = r->d;
    uint64_t quiet = tiny_now_ns();
    int a, i, failed = 0;
    if (!team->i)                           /* before the barrier: every thread sees the same */
        for (a = 0; a < d->n_actor; a++) r->actor[a].thread = d->actor[a].thread % team->n;
    tiny_barrier(team);
    while (!failed && !tinyi_actor_done(r, team->i)) {
        const uint64_t seen = r->net->changes(r->net);
        int moved = tinyi_actor_inbox_read(r, team->i);
        for (i = 0; i < r->world && !team->i; i++)
            if (r->peer[i].most) moved |= tinyi_actor_sends(r, i) | tinyi_actor_receives(r, i);
        for (a = 0; a < d->n_actor && !tinyi_atomic_get(&r->failed); a++) {
            tiny_status st;
            if (!r->actor[a].here || r->actor[a].thread != team->i || !tinyi_actor_fires(r, a)) continue;
            (void)tinyi_atomic_add(&r->busy, 1);
            st = tinyi_actor_begin(r, a);
            (void)tinyi_atomic_add(&r->busy, -1);
            if (st) tinyi_actor_refuses(r, a, st);
            else tinyi_actor_finish(r, a);
            moved = 1;
        }
        failed = tinyi_atomic_get(&r->failed) != 0;
        if (moved || failed || tinyi_actor_done(r, team->i)) {
            quiet = tiny_now_ns();
            continue;
        }
        {
            const uint64_t now = tiny_now_ns();
            int open = 0;
            for (i = 0; i < r->world && !team->i; i++) open += r->peer[i].n_open;
            if (!open || tinyi_atomic_get(&r->busy)) quiet = now;
            if (now - quiet >= r->timeout) {
                (void)snprintf(r->net->says, sizeof r->net->says,
                               "rank %d waited for another rank's actors until its time-out", r->rank);
                tinyi_actor_fail(r, TINY_E_TIMEOUT, r->net->says);
            } else r->net->pause(r->net, seen, now + TINYI_MIN(r->timeout - (now - quiet), UINT64_C(1000000000)));
        }
    }
}

void tinyi_actor_counts(const tinyi_actors *r, tllm_actor_count *count)
{
    int i, k;
    if (!count) return;
    memset(count, 0, (size_t)r->d->n_actor * sizeof *count);
    for (i = 0; i < r->d->n_actor; i++) {
        if (!r->actor[i].here) continue;
        count[i].fired = r->actor[i].fired;
        count[i].ended = r->actor[i].ended;
        count[i].last = r->actor[i].last;
        for (k = 0; k < r->d->actor[i].n_out; k++) count[i].live = TINYI_MAX(count[i].live, r->actor[i].out[k].live);
    }
}

TINY_API tiny_status tllm_actor_run(tiny_ctx *ctx, const tllm_actor_desc *desc, tllm_actor_count *count)
{
    tinyi_actors r;
    tiny_local *local = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&r, 0, sizeof r);
    r.ctx = ctx;
    r.d = desc;
    r.net = desc ? desc->net : NULL;
    r.world = r.net ? r.net->world : 1;
    r.rank = r.net ? r.net->rank : 0;
    st = tinyi_actor_check(ctx, desc, r.world);
    if (st) return st;
    if (r.net && r.net->why) return tinyi_fail(ctx, r.net->why, "%s", r.net->says);
    r.timeout = desc->timeout_ns ? desc->timeout_ns : UINT64_C(10000000000);
    r.hash = tinyi_actor_hash(desc);
    if (!r.net) {
        st = tiny_local_open(ctx, NULL, &local);
        if (st) return st;
        r.net = tiny_local_net(local, 0);
    }
    r.number = r.net->calls++;
    st = tinyi_actors_open(&r);
    if (!st) {
        r.inbox = (tinyi_actor_inbox *)tinyi_actor_zeros(&r, (size_t)r.n_threads + 1, sizeof *r.inbox);
        if (!r.inbox) st = tiny_ctx_status(ctx);
    }
    if (!st) st = tiny_parallel(ctx, TINYI_MAX(r.n_threads, 1), 0, 0, tinyi_actor_thread, &r);
    if (!st && r.st) st = tinyi_fail(ctx, r.st, "%s", r.says);
    if (st) (void)tinyi_net_end(ctx, r.net, st);        /* the others learn it */
    else tinyi_actor_counts(&r, count);
    tinyi_actors_close(&r);
    tiny_local_close(ctx, local);
    return st;
}
