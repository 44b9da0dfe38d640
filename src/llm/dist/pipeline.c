/* src/llm/dist/pipeline.c - a stage of a pipeline: its inputs, its messages, recomputation
 * Paper    Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2018
 *          (arXiv 1811.06965). The schedules are those of llm/dist/schedule.c.
 * Formula  L = sum over micro-batches i of (rows_i / rows) L_i, L_i the mean loss of its rows. The backward pass of the
 *          last piece begins with dL/dL_i = rows_i / rows, so micro-batches of unequal size weigh right.
 * Memory   of a stage with recomputation: inputs of the live micro-batches (GPipe: all rows), and the inside of one
 *          piece for one micro-batch. With `keep`: the inside of all live ones. A dry run measures the inside.
 * Messages A stage receives from each neighbour in the order in which that neighbour sends, which follows from its list
 *          of items, and puts what comes early aside. So it takes no more than what the next item needs, and the number
 *          of buffers is known beforehand. A message leaves as far as the transport takes it. The rest follows during
 *          later calls, those of tensor ranks included, so that no two stages wait for each other to receive.
 * Order    gradients of weights add up in the order of the backward passes, which differs between schedules, not
 *          between numbers of stages.
 * Left out of GPipe: cuts by its heuristic; tllm_sched_cut finds the best ones. */
#include "llm/dist/pipeline.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "math/grad_inside.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_pipe_peer {            /* a neighbour, and what it sends: [chunk of the receiver, micro, pass] */
    int rank;
    tllm_sched_item *sends;
    size_t n, got;
} tinyi_pipe_peer;

typedef struct tinyi_pipe_out {             /* a message under way; whole: its buffer is free */
    tiny_message m;
    int to;
    uint64_t number;
    float *data;
} tinyi_pipe_out;

typedef struct tinyi_pipe_tape {
    tiny_tape *tape;
    float *x;
    tiny_tensor y;
    size_t used;
    int holds;                              /* 1 + chunk micros + micro; 0: nothing that a backward pass could use */
} tinyi_pipe_tape;

struct tllm_pipe {
    tiny_ctx *ctx;
    tllm_pipe_desc d;
    tllm_sched s;
    int rank, v, pieces;
    tiny_idx each, widest;                  /* rows of a micro-batch; numbers of the largest row */
    size_t n, slot;                         /* items; floats of a buffer */
    tllm_sched_item *item;
    tiny_idx *width;                        /* (pieces) */
    tiny_param *params;
    tinyi_pipe_peer peer[2];
    int n_peers;
    /* Buffers of inputs [0] and of gradients [1]. at (chunks, micros): 1 + the buffer of one, 0: none. */
    float *buffer[2];
    int *at[2], *spare[2], n_buffers[2], n_spare[2], most[2];
    tinyi_pipe_tape *tape;
    int n_tapes;
    float *dx;
    tinyi_pipe_out *out;
    size_t n_out;
    uint64_t number, call, clock, waited;
    int n_back;                             /* backward passes of this run */
    double begun;                           /* when the item began, without its waiting */
    size_t tape_bytes, stash;               /* stash: bytes of inputs that are held */
};

/* ---- what goes where --------------------------------------------------------------------------------------------- */

static int tinyi_pipe_owner(const tllm_pipe *p, int piece) { return piece % p->s.stages; }
static int tinyi_pipe_index(const tllm_pipe *p, int chunk, int micro) { return chunk * p->s.micros + micro; }
/* the piece whose result an item needs, or -1 */
static int tinyi_pipe_before(const tllm_pipe *p, int piece, int backward)
{
    const int from = backward ? piece + 1 : piece - 1;
    return from < p->pieces ? from : -1;
}
static tiny_idx tinyi_pipe_rows(const tllm_pipe *p, int micro)
{
    return TINYI_MIN(p->each, p->d.rows - p->each * micro);
}

/* What stage `from` sends to this one, in its order. */
static tiny_status tinyi_pipe_peer_open(tllm_pipe *p, int from)
{
    tinyi_pipe_peer *peer = &p->peer[p->n_peers];
    tllm_sched_item *list = (tllm_sched_item *)tinyi_alloc(p->ctx, p->n, sizeof *list);
    size_t k;
    tiny_status st;
    if (!list) return tiny_ctx_status(p->ctx);
    peer->rank = from;
    peer->sends = list;
    p->n_peers++;
    st = tllm_sched_stage(p->ctx, &p->s, from, list);
    for (k = 0; !st && k < p->n; k++) {     /* shortened in place */
        const int piece = list[k].chunk * p->s.stages + from, to = list[k].backward ? piece - 1 : piece + 1;
        if (to < 0 || to >= p->pieces || tinyi_pipe_owner(p, to) != p->rank) continue;
        list[peer->n] = list[k];
        list[peer->n++].chunk = to / p->s.stages;
    }
    return st;
}

static tinyi_pipe_peer *tinyi_pipe_from(tllm_pipe *p, int rank)
{
    return &p->peer[p->n_peers == 2 && p->peer[1].rank == rank];
}

/* How many buffers of each kind, and how many tapes, a run needs: its steps, counted only. */
static void tinyi_pipe_count(tllm_pipe *p)
{
    int live[2] = { 0, 0 }, open = 0, i;
    size_t k;
    for (k = 0; k < p->n; k++) {
        const tllm_sched_item *it = &p->item[k];
        const int b = it->backward, piece = it->chunk * p->s.stages + p->rank,
                  before = tinyi_pipe_before(p, piece, b), after = b ? piece - 1 : piece + 1;
        if (before >= 0 && tinyi_pipe_owner(p, before) != p->rank) {
            tinyi_pipe_peer *peer = tinyi_pipe_from(p, tinyi_pipe_owner(p, before));
            /* what lies before it in the list comes first; it may be here already */
            while (!p->at[b][tinyi_pipe_index(p, it->chunk, it->micro)]) {
                const tllm_sched_item *next = &peer->sends[peer->got++];
                p->at[next->backward][tinyi_pipe_index(p, next->chunk, next->micro)] = 1;
                live[next->backward]++;
            }
        }
        for (i = 0; i < 2; i++) p->most[i] = TINYI_MAX(p->most[i], live[i]);
        open += b ? -1 : 1;
        p->n_tapes = TINYI_MAX(p->n_tapes, p->d.keep ? open : 1);
        if (before >= 0 && b) live[1]--;
        if (piece > 0 && b == !p->d.keep) live[0]--;
        if (after >= 0 && after < p->pieces && tinyi_pipe_owner(p, after) == p->rank) live[b]++;
        for (i = 0; i < 2; i++) p->most[i] = TINYI_MAX(p->most[i], live[i]);
    }
    for (i = 0; i < p->n_peers; i++) p->peer[i].got = 0;
}

/* bytes of the input of a chunk */
static size_t tinyi_pipe_input(const tllm_pipe *p, int chunk, int micro)
{
    return (size_t)tinyi_pipe_rows(p, micro) * (size_t)p->width[chunk * p->s.stages + p->rank] * sizeof(float);
}

/* all buffers are free, whatever the run before left */
static void tinyi_pipe_empty(tllm_pipe *p)
{
    int i, b;
    for (i = 0; i < 2; i++) {
        memset(p->at[i], 0, (size_t)p->v * (size_t)p->s.micros * sizeof *p->at[i]);
        for (b = 0; b < p->n_buffers[i]; b++) p->spare[i][b] = b;
        p->n_spare[i] = p->n_buffers[i];
    }
    p->stash = 0;
}

static float *tinyi_pipe_take(tllm_pipe *p, int kind, int chunk, int micro)
{
    const int b = p->spare[kind][--p->n_spare[kind]];
    if (kind == 0) p->stash += tinyi_pipe_input(p, chunk, micro);
    p->at[kind][tinyi_pipe_index(p, chunk, micro)] = b + 1;
    return p->buffer[kind] + (size_t)b * p->slot;
}
static float *tinyi_pipe_held(const tllm_pipe *p, int kind, int chunk, int micro)
{
    return p->buffer[kind] + (size_t)(p->at[kind][tinyi_pipe_index(p, chunk, micro)] - 1) * p->slot;
}
static void tinyi_pipe_give(tllm_pipe *p, int kind, int chunk, int micro)
{
    int *at = &p->at[kind][tinyi_pipe_index(p, chunk, micro)];
    if (*at) p->spare[kind][p->n_spare[kind]++] = *at - 1;
    if (*at && kind == 0) p->stash -= tinyi_pipe_input(p, chunk, micro);
    *at = 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_pipe_lost(tllm_pipe *p, tiny_status st)
{
    return tinyi_net_end(p->ctx, p->d.net, tinyi_fail(p->ctx, st, "%s", p->d.net->says));
}

/* Moves what is under way; *left: messages that are not whole. */
static tiny_status tinyi_pipe_push(tllm_pipe *p, size_t *left)
{
    size_t i, first;
    *left = 0;
    for (;;) {                              /* the oldest message to each peer first */
        int moved = 0, side;
        *left = 0;
        for (side = 0; side < p->n_peers; side++) {
            tiny_status st;
            first = p->n_out;
            for (i = 0; i < p->n_out; i++) {
                if (p->out[i].m.whole || p->out[i].to != p->peer[side].rank) continue;
                ++*left;
                if (first == p->n_out || p->out[i].number < p->out[first].number) first = i;
            }
            if (first == p->n_out) continue;
            st = p->d.net->send(p->d.net, p->out[first].to, &p->out[first].m);
            if (st) return tinyi_pipe_lost(p, st);
            if (!p->out[first].m.whole) continue;
            moved = 1;
            --*left;
        }
        if (!moved) return TINY_OK;
    }
}

static uint64_t tinyi_pipe_tag(const tllm_pipe *p, int piece, int micro, int backward)
{
    return p->call << 16 | (uint64_t)(unsigned)backward << 15 |
           (((uint64_t)(unsigned)piece * (uint64_t)(unsigned)p->s.micros + (uint64_t)(unsigned)micro) & 0x7fff);
}

/* For calls on other parts of the net. A failure stays in the net, where they find it. */
static void tinyi_pipe_push_more(void *pipe)
{
    size_t left;
    (void)tinyi_pipe_push((tllm_pipe *)pipe, &left);
}
/* on: this run has messages under way; off: no longer */
static void tinyi_pipe_share(tllm_pipe *p, int on)
{
    tiny_net *whole = p->d.net ? p->d.net->whole : NULL;
    if (!whole) return;
    whole->push = on ? tinyi_pipe_push_more : NULL;
    whole->push_user = on ? p : NULL;
}

/* Sends n floats for a piece of another stage, from a copy. */
static tiny_status tinyi_pipe_send(tllm_pipe *p, int piece, int micro, int backward, const float *x, size_t n)
{
    tinyi_pipe_out *o;
    size_t i, left;
    for (i = 0; i < p->n_out && !p->out[i].m.whole; i++) {}
    if (i == p->n_out) {
        tinyi_pipe_out *more = (tinyi_pipe_out *)tinyi_alloc(p->ctx, p->n_out + 1, sizeof *more);
        float *data = (float *)tinyi_alloc(p->ctx, p->slot, sizeof *data);
        if (!more || !data) {
            tiny_free(p->ctx, more);
            tiny_free(p->ctx, data);
            return tiny_ctx_status(p->ctx);
        }
        if (p->n_out) memcpy(more, p->out, p->n_out * sizeof *more);
        tiny_free(p->ctx, p->out);
        p->out = more;
        p->out[p->n_out++].data = data;
    }
    o = &p->out[i];
    memcpy(o->data, x, n * sizeof *x);
    memset(&o->m, 0, sizeof o->m);
    o->m.tag = tinyi_pipe_tag(p, piece, micro, backward);
    o->m.data = o->data;
    o->m.n = n * sizeof *x;
    o->m.at = p->clock;
    o->to = tinyi_pipe_owner(p, piece);
    o->number = p->number++;
    return tinyi_pipe_push(p, &left);
}

/* Sleeps until something changes. who: the rank that is awaited. */
static tiny_status tinyi_pipe_sleep(tllm_pipe *p, uint64_t seen, uint64_t deadline, uint64_t until, int who)
{
    tiny_net *net = p->d.net;
    const uint64_t now = tiny_now_ns();
    if (now >= deadline) {
        (void)snprintf(net->says, sizeof net->says, "stage %d waited for stage %d until the time-out", net->rank, who);
        net->gone = 1 + who;
        return tinyi_pipe_lost(p, TINY_E_TIMEOUT);
    }
    net->pause(net, seen, TINYI_MIN(until, deadline));
    p->waited += tiny_now_ns() - now;
    return TINY_OK;
}

/* Waits until what an item needs is in its buffer, and takes whatever its sender sent before. */
static tiny_status tinyi_pipe_await(tllm_pipe *p, const tllm_sched_item *it, int before)
{
    const uint64_t deadline = tiny_now_ns() + p->d.timeout_ns;
    tiny_net *net = p->d.net;
    tinyi_pipe_peer *peer = tinyi_pipe_from(p, tinyi_pipe_owner(p, before));
    while (!p->at[it->backward][tinyi_pipe_index(p, it->chunk, it->micro)]) {
        const tllm_sched_item *next = &peer->sends[peer->got];
        const int piece = next->chunk * p->s.stages + p->rank;
        tiny_message m;
        memset(&m, 0, sizeof m);
        m.tag = tinyi_pipe_tag(p, piece, next->micro, next->backward);
        m.data = tinyi_pipe_take(p, next->backward, next->chunk, next->micro);
        m.n = (size_t)tinyi_pipe_rows(p, next->micro) * (size_t)p->width[next->backward ? piece + 1 : piece] *
              sizeof(float);
        while (!m.whole) {
            const uint64_t seen = net->changes(net);
            const size_t done = m.done;
            size_t left;
            tiny_status st = tinyi_pipe_push(p, &left);
            if (st) return st;
            st = net->recv(net, peer->rank, &m);
            if (st) return tinyi_pipe_lost(p, st);
            if (!m.whole && m.done == done)
                st = tinyi_pipe_sleep(p, seen, deadline, !net->virtual_clock && m.at ? m.at : deadline, peer->rank);
            if (st) return st;
        }
        if (net->virtual_clock) p->clock = TINYI_MAX(p->clock, m.at);
        peer->got++;
    }
    return TINY_OK;
}

static tiny_status tinyi_pipe_flush(tllm_pipe *p)
{
    const uint64_t deadline = tiny_now_ns() + p->d.timeout_ns;
    size_t left = 1;
    while (left && p->n_peers) {
        const uint64_t seen = p->d.net->changes(p->d.net);
        tiny_status st = tinyi_pipe_push(p, &left);
        if (!st && left) st = tinyi_pipe_sleep(p, seen, deadline, deadline, p->peer[0].rank);
        if (st) return st;
    }
    return TINY_OK;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static tllm_pipe_at tinyi_pipe_where(const tllm_pipe *p, int piece, int micro, int64_t step)
{
    tllm_pipe_at at;
    memset(&at, 0, sizeof at);
    at.piece = piece;
    at.micro = micro;
    at.row = p->each * micro;
    at.rows = tinyi_pipe_rows(p, micro);
    at.step = step;
    at.seed = p->d.seed;
    return at;
}

/* The forward pass of a piece on a tape. */
static tiny_status tinyi_pipe_compute(tllm_pipe *p, tinyi_pipe_tape *t, const tllm_pipe_at *at)
{
    const int last = at->piece == p->pieces - 1;
    tiny_tensor x, y;
    tiny_tape_mark none;
    tiny_idx want;
    memset(&none, 0, sizeof none);
    tiny_tape_release(t->tape, none);
    memset(&x, 0, sizeof x);
    if (at->piece) x = tiny_tensor_2d(t->x, TINY_F32, at->rows, p->width[at->piece]);
    y = p->d.run(t->tape, p->d.user, at, at->piece ? &x : NULL);
    if (tiny_tape_status(t->tape)) return tiny_tape_status(t->tape);
    want = last ? 1 : at->rows * p->width[at->piece + 1];
    if (!y.data || y.dtype != TINY_F32 || tiny_tensor_count(&y) != want || !tiny_tensor_is_dense(&y))
        return tinyi_fail(p->ctx, TINY_E_SHAPE,
                          "pipeline: piece %d gave %td numbers for %td rows; it must give %td of f32, dense",
                          at->piece, y.data ? tiny_tensor_count(&y) : (tiny_idx)0, at->rows, want);
    t->y = y;
    t->used = tiny_tape_now(t->tape).used;
    return TINY_OK;
}

/* A first piece without parameters has nothing to do. What other pieces have must be there all the same. */
static tiny_status tinyi_pipe_nothing(tllm_pipe *p)
{
    size_t k;
    for (k = 0; p->n_back == 1 && k < p->d.n_params; k++)
        memset(p->params[k].grad.data, 0, (size_t)tiny_tensor_count(&p->params[k].grad) * sizeof(float));
    return TINY_OK;
}

/* The backward pass of what the tape holds; dy NULL: of the loss. dx is in p->dx. */
static tiny_status tinyi_pipe_back(tllm_pipe *p, tinyi_pipe_tape *t, const tllm_pipe_at *at, float *dy)
{
    float weight = (float)((double)at->rows / (double)p->d.rows_in_all);
    tiny_tensor dt = t->y;
    dt.data = dy ? (void *)dy : (void *)&weight;
    if (at->piece) memset(p->dx, 0, (size_t)at->rows * (size_t)p->width[at->piece] * sizeof *p->dx);
    /* the first pass writes the gradients of all parameters of the stage, the others add to them */
    if (p->n_back++) tiny_tape_keep(t->tape);
    else tiny_tape_zero(t->tape);
    if (!tiny_tape_count(t->tape) && !at->piece) return tinyi_pipe_nothing(p);
    return tiny_tape_backward(t->tape, &t->y, &dt);
}

static tiny_status tinyi_pipe_pass_on(tllm_pipe *p, const tllm_pipe_at *at, int backward, const float *x)
{
    const int to = backward ? at->piece - 1 : at->piece + 1;
    size_t n;
    if (to < 0 || to >= p->pieces) return TINY_OK;
    n = (size_t)at->rows * (size_t)p->width[backward ? at->piece : to];
    if (tinyi_pipe_owner(p, to) != p->rank) return tinyi_pipe_send(p, to, at->micro, backward, x, n);
    memcpy(tinyi_pipe_take(p, backward, to / p->s.stages, at->micro), x, n * sizeof *x);
    return TINY_OK;
}

static void tinyi_pipe_load(tllm_pipe *p, tinyi_pipe_tape *t, const tllm_pipe_at *at, int chunk)
{
    if (at->piece)
        memcpy(t->x, tinyi_pipe_held(p, 0, chunk, at->micro),
               (size_t)at->rows * (size_t)p->width[at->piece] * sizeof *t->x);
}

static void tinyi_pipe_spend(tllm_pipe *p, double ns)
{
    if (p->d.net && p->d.net->virtual_clock) p->clock += (uint64_t)(ns / p->v + 0.5);
}

static tiny_status tinyi_pipe_forward(tllm_pipe *p, const tllm_sched_item *it, tllm_pipe_at *at, double *loss)
{
    const int me = 1 + tinyi_pipe_index(p, it->chunk, it->micro);
    tinyi_pipe_tape *t = p->tape;
    tiny_status st;
    int i;
    for (i = 0; p->d.keep && i < p->n_tapes; i++)
        if (!p->tape[i].holds) t = &p->tape[i];
    t->holds = 0;
    tinyi_pipe_load(p, t, at, it->chunk);
    if (p->d.keep) tinyi_pipe_give(p, 0, it->chunk, it->micro);
    st = tinyi_pipe_compute(p, t, at);
    if (st) return st;
    t->holds = me;
    tinyi_pipe_spend(p, p->d.spend.forward);
    if (at->piece == p->pieces - 1) {
        const double one = (double)*(const float *)t->y.data;
        if (!(one - one == 0.0))
            return tinyi_fail(p->ctx, TINY_E_NUMERIC, "pipeline: the loss of micro-batch %d is %g", it->micro, one);
        *loss += one * (double)at->rows;
    }
    return tinyi_pipe_pass_on(p, at, 0, (const float *)t->y.data);
}

static double tinyi_pipe_now(const tllm_pipe *p)
{
    return p->d.net && p->d.net->virtual_clock ? (double)p->clock : (double)tiny_now_ns();
}

static tiny_status tinyi_pipe_backward(tllm_pipe *p, const tllm_sched_item *it, tllm_pipe_at *at, int *again)
{
    const int me = 1 + tinyi_pipe_index(p, it->chunk, it->micro), before = tinyi_pipe_before(p, at->piece, 1);
    const double begun = tinyi_pipe_now(p);
    double again_ns;
    tinyi_pipe_tape *t = p->tape;
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < p->n_tapes; i++)
        if (p->tape[i].holds == me) t = &p->tape[i];
    if (t->holds != me) {                   /* only without keep; it does not wait for the gradient */
        at->again = 1;
        t->holds = 0;
        tinyi_pipe_load(p, t, at, it->chunk);
        st = tinyi_pipe_compute(p, t, at);
        if (st) return st;
        tinyi_pipe_spend(p, p->d.spend.again);
        ++*again;
    }
    again_ns = tinyi_pipe_now(p) - begun;
    if (before >= 0) st = tinyi_pipe_await(p, it, before);
    p->begun = tinyi_pipe_now(p) - again_ns;
    if (!st) st = tinyi_pipe_back(p, t, at, before >= 0 ? tinyi_pipe_held(p, 1, it->chunk, it->micro) : NULL);
    t->holds = 0;
    if (st) return st;
    tinyi_pipe_spend(p, p->d.spend.backward);
    tinyi_pipe_give(p, 1, it->chunk, it->micro);
    tinyi_pipe_give(p, 0, it->chunk, it->micro);
    return tinyi_pipe_pass_on(p, at, 1, p->dx);
}

static void tinyi_pipe_measure(const tllm_pipe *p, tllm_pipe_result *r)
{
    size_t inner = 0;
    int i;
    for (i = 0; i < p->n_tapes; i++) inner += p->tape[i].holds ? p->tape[i].used : 0;
    r->inner_bytes = TINYI_MAX(r->inner_bytes, inner);
    r->stash_bytes = TINYI_MAX(r->stash_bytes, p->stash);
}

TINY_API tiny_status tllm_pipe_run(tllm_pipe *p, int64_t step, tllm_pipe_result *result)
{
    tllm_pipe_result r;
    tiny_status st;
    size_t k;
    double begin;
    if (!p) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(p->ctx);
    if (st) return st;
    if (p->d.net && p->d.net->why) return tinyi_fail(p->ctx, p->d.net->why, "%s", p->d.net->says);
    memset(&r, 0, sizeof r);
    if (p->d.net) p->call = p->d.net->calls++;
    p->waited = 0;
    p->n_back = 0;
    tinyi_pipe_empty(p);
    for (k = 0; k < (size_t)p->n_tapes; k++) p->tape[k].holds = 0;
    for (k = 0; k < (size_t)p->n_peers; k++) p->peer[k].got = 0;
    begin = tinyi_pipe_now(p);
    tinyi_pipe_share(p, 1);
    for (k = 0; !st && k < p->n; k++) {
        const tllm_sched_item *it = &p->item[k];
        const int piece = it->chunk * p->s.stages + p->rank, before = tinyi_pipe_before(p, piece, 0);
        tllm_pipe_at at = tinyi_pipe_where(p, piece, it->micro, step);
        if (!it->backward && before >= 0) st = tinyi_pipe_await(p, it, before);
        p->begun = tinyi_pipe_now(p);
        if (!st) st = it->backward ? tinyi_pipe_backward(p, it, &at, &r.recomputed)
                                   : tinyi_pipe_forward(p, it, &at, &r.loss);
        if (!st && !it->backward) tinyi_pipe_measure(p, &r);
        if (!st && p->d.at) {
            p->d.at[2 * k] = p->begun - begin;
            p->d.at[2 * k + 1] = tinyi_pipe_now(p) - begin;
        }
    }
    if (!st) st = tinyi_pipe_flush(p);
    tinyi_pipe_share(p, 0);
    if (st) return tinyi_net_end(p->ctx, p->d.net, st);
    r.loss /= (double)p->d.rows;
    r.waited_ns = p->waited;
    r.clock = p->clock;
    if (result) *result = r;
    return TINY_OK;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static tiny_status tinyi_pipe_check(tiny_ctx *ctx, const tllm_pipe_desc *d, tllm_sched *s)
{
    const int world = d->net ? d->net->world : 1;
    tiny_status st;
    int i;
    size_t k;
    *s = d->schedule;
    if (!s->stages) s->stages = world;
    if (!s->micros) s->micros = 1;
    if (!s->chunks) s->chunks = 1;
    st = tinyi_sched_valid(ctx, s);
    if (st) return st;
    if (s->stages != world || (d->net && (d->net->rank < 0 || d->net->rank >= world)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: a schedule of %d stages on %d ranks", s->stages, world);
    if (d->net && d->net->star && world > 2)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "pipeline: in a star of %d ranks neighbours are not connected",
                          world);
    if (d->rows < s->micros || d->rows > TINY_IDX_MAX / 4)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: %td rows in %d micro-batches; each needs one row", d->rows,
                          s->micros);
    if ((d->rows + s->micros - 1) / s->micros * (s->micros - 1) >= d->rows)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "pipeline: %td rows in %d micro-batches of %td leave the last one empty", d->rows, s->micros,
                          (d->rows + s->micros - 1) / s->micros);
    if (d->rows_in_all < 0 || (d->rows_in_all && d->rows_in_all < d->rows))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: %td rows in all, %td of them here", d->rows_in_all, d->rows);
    if (!d->run) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: desc.run is NULL");
    if (!(d->spend.forward >= 0.0 && d->spend.backward >= 0.0 && d->spend.again >= 0.0 &&
          d->spend.forward + d->spend.backward + d->spend.again < 1e18))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: times of passes must not be negative");
    if (!d->width && s->stages * s->chunks > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: desc.width is needed for %d pieces", s->stages * s->chunks);
    for (i = 1; i < s->stages * s->chunks; i++)
        if (d->width[i] < 1 || d->width[i] > TINY_IDX_MAX / 8 / d->rows)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "pipeline: %td rows of %td numbers enter piece %d; it takes 1 or more",
                              d->rows, d->width[i], i);
    if (d->n_params && !d->params) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: desc.params is NULL");
    for (k = 0; k < d->n_params; k++)
        if (tiny_tensor_check(&d->params[k].value) || tiny_tensor_check(&d->params[k].grad) ||
            d->params[k].value.dtype != TINY_F32 || d->params[k].grad.dtype != TINY_F32 ||
            !tiny_tensor_is_dense(&d->params[k].grad))
            return tinyi_fail(ctx, TINY_E_DTYPE, "pipeline: parameter %zu needs a value and a dense gradient of f32",
                              k);
    return TINY_OK;
}

static tiny_status tinyi_pipe_tape_open(tllm_pipe *p, tinyi_pipe_tape *t, size_t bytes, int dry)
{
    tiny_tape_desc d;
    tiny_param x;
    tiny_status st;
    size_t i;
    memset(&d, 0, sizeof d);
    d.bytes = bytes;
    d.dry = dry;
    st = tiny_tape_open(p->ctx, &d, &t->tape);
    for (i = 0; !st && i < p->d.n_params; i++) st = tiny_tape_param(t->tape, &p->params[i]);
    if (st || p->slot == 0) return st;
    memset(&x, 0, sizeof x);
    x.name = "the input of a piece";
    x.value = tiny_tensor_1d(t->x, TINY_F32, (tiny_idx)p->slot);
    x.grad = tiny_tensor_1d(p->dx, TINY_F32, (tiny_idx)p->slot);
    return tiny_tape_param(t->tape, &x);
}

/* How many bytes the pieces of this stage need on a tape. */
static tiny_status tinyi_pipe_dry(tllm_pipe *p, size_t *bytes)
{
    tinyi_pipe_tape t;
    tiny_status st;
    int c;
    memset(&t, 0, sizeof t);
    t.x = p->tape[0].x;
    st = tinyi_pipe_tape_open(p, &t, 0, 1);
    tiny_tape_keep(t.tape);                 /* as in a run */
    for (c = 0; !st && c < p->v; c++) {
        tllm_pipe_at at = tinyi_pipe_where(p, c * p->s.stages + p->rank, 0, 0);
        st = tinyi_pipe_compute(p, &t, &at);
        if (!st && (tiny_tape_count(t.tape) || at.piece)) {
            tiny_tensor dy = t.y;
            st = tiny_tape_backward(t.tape, &t.y, &dy);
        }
    }
    *bytes = TINYI_MAX(tiny_tape_high(t.tape), (size_t)64);
    tiny_tape_close(t.tape);
    return st;
}

static tiny_status tinyi_pipe_setup(tllm_pipe *p)
{
    const size_t each = (size_t)p->v * (size_t)p->s.micros;
    tiny_status st;
    size_t k, bytes = 0;
    int i;
    p->item = (tllm_sched_item *)tinyi_alloc(p->ctx, p->n, sizeof *p->item);
    p->width = (tiny_idx *)tinyi_alloc(p->ctx, (size_t)p->pieces + 1, sizeof *p->width);
    p->params = (tiny_param *)tinyi_alloc(p->ctx, p->d.n_params + 1, sizeof *p->params);
    if (!p->item || !p->width || !p->params) return tiny_ctx_status(p->ctx);
    if (p->d.n_params) memcpy(p->params, p->d.params, p->d.n_params * sizeof *p->params);
    for (i = 0; i < p->pieces; i++) {
        p->width[i] = i ? p->d.width[i] : 0;
        p->widest = TINYI_MAX(p->widest, p->width[i]);
    }
    p->width[p->pieces] = 1;
    p->d.width = p->width;
    p->d.params = p->params;
    p->slot = (size_t)p->each * (size_t)p->widest;
    st = tllm_sched_stage(p->ctx, &p->s, p->rank, p->item);
    for (i = 0; i < 2; i++) {
        p->at[i] = (int *)tinyi_alloc(p->ctx, each, sizeof(int));
        if (!p->at[i]) return tiny_ctx_status(p->ctx);
        memset(p->at[i], 0, each * sizeof(int));
    }
    if (!st && p->s.stages > 1) st = tinyi_pipe_peer_open(p, (p->rank + 1) % p->s.stages);
    if (!st && p->s.stages > 2) st = tinyi_pipe_peer_open(p, (p->rank + p->s.stages - 1) % p->s.stages);
    if (st) return st;
    tinyi_pipe_count(p);
    for (i = 0; i < 2; i++) {
        size_t floats;
        p->n_buffers[i] = p->most[i];
        if (!tinyi_size_mul((size_t)p->n_buffers[i], p->slot, &floats))
            return tinyi_fail(p->ctx, TINY_E_OVERFLOW, "pipeline: the inputs of %d micro-batches cannot be addressed",
                              p->n_buffers[i]);
        p->buffer[i] = (float *)tinyi_alloc(p->ctx, floats + 1, sizeof(float));
        p->spare[i] = (int *)tinyi_alloc(p->ctx, (size_t)p->n_buffers[i] + 1, sizeof(int));
        if (!p->buffer[i] || !p->spare[i]) return tiny_ctx_status(p->ctx);
    }
    p->dx = (float *)tinyi_alloc(p->ctx, p->slot + 1, sizeof(float));
    p->tape = (tinyi_pipe_tape *)tinyi_alloc(p->ctx, (size_t)p->n_tapes, sizeof *p->tape);
    if (p->tape) memset(p->tape, 0, (size_t)p->n_tapes * sizeof *p->tape);
    if (!p->dx || !p->tape) return tiny_ctx_status(p->ctx);
    for (k = 0; k < (size_t)p->n_tapes; k++) {
        p->tape[k].x = (float *)tinyi_alloc(p->ctx, p->slot + 1, sizeof(float));
        if (!p->tape[k].x) return tiny_ctx_status(p->ctx);
    }
    st = tinyi_pipe_dry(p, &bytes);
    for (k = 0; !st && k < (size_t)p->n_tapes; k++) st = tinyi_pipe_tape_open(p, &p->tape[k], bytes, 0);
    p->tape_bytes = bytes;
    return st;
}

TINY_API tiny_status tllm_pipe_open(tiny_ctx *ctx, const tllm_pipe_desc *desc, tllm_pipe **out)
{
    tllm_pipe *p;
    tllm_sched s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pipeline: a description and an output pointer are needed");
    st = tinyi_pipe_check(ctx, desc, &s);
    if (st) return st;
    p = (tllm_pipe *)tinyi_alloc(ctx, 1, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->d = *desc;
    p->s = s;
    p->rank = desc->net ? desc->net->rank : 0;
    p->v = s.chunks;
    p->pieces = s.stages * s.chunks;
    p->each = (desc->rows + s.micros - 1) / s.micros;
    p->n = tllm_sched_items(&s);
    if (!p->d.rows_in_all) p->d.rows_in_all = p->d.rows;
    if (!p->d.timeout_ns) p->d.timeout_ns = UINT64_C(60000000000);
    st = tinyi_pipe_setup(p);
    if (st) {
        tllm_pipe_close(p);
        return st;
    }
    *out = p;
    return TINY_OK;
}

TINY_API void tllm_pipe_close(tllm_pipe *p)
{
    int i;
    size_t k;
    if (!p) return;
    for (i = 0; i < 2; i++) {
        tiny_free(p->ctx, p->peer[i].sends);
        tiny_free(p->ctx, p->buffer[i]);
        tiny_free(p->ctx, p->at[i]);
        tiny_free(p->ctx, p->spare[i]);
    }
    for (i = 0; i < p->n_tapes && p->tape; i++) {
        tiny_tape_close(p->tape[i].tape);
        tiny_free(p->ctx, p->tape[i].x);
    }
    for (k = 0; k < p->n_out; k++) tiny_free(p->ctx, p->out[k].data);
    tiny_free(p->ctx, p->out);
    tiny_free(p->ctx, p->tape);
    tiny_free(p->ctx, p->dx);
    tiny_free(p->ctx, p->item);
    tiny_free(p->ctx, p->width);
    tiny_free(p->ctx, p->params);
    tiny_free(p->ctx, p);
}

TINY_API size_t tllm_pipe_bytes(const tllm_pipe *p)
{
    if (!p) return 0;
    return (size_t)p->n_tapes * (p->tape_bytes + p->slot * sizeof(float)) +
           ((size_t)p->n_buffers[0] + (size_t)p->n_buffers[1] + 1 + p->n_out) * p->slot * sizeof(float);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

TINY_REF_BEGIN
/* number i of row r: word i % 4 of the Philox block (i / 4, r, layer, step) */
static void tinyi_pipe_mask(float *mask, const tllm_pipe_at *at, tiny_idx width, int layer, double p)
{
    const uint32_t below = (uint32_t)(p * 4294967296.0);
    const float scale = (float)(1.0 / (1.0 - p));
    uint32_t counter[4], key[2], out[4];
    tiny_idx r, i;
    key[0] = (uint32_t)at->seed;
    key[1] = (uint32_t)(at->seed >> 32);
    counter[2] = (uint32_t)layer;
    counter[3] = (uint32_t)at->step;
    for (r = 0; r < at->rows; r++)
        for (i = 0; i < width; i++) {
            if (i % 4 == 0) {
                counter[0] = (uint32_t)(i / 4);
                counter[1] = (uint32_t)(at->row + r);
                tiny_philox(counter, key, out);
            }
            mask[r * width + i] = out[i % 4] < below ? 0.0f : scale;
        }
}
TINY_REF_END

TINY_API tiny_tensor tllm_pipe_dropout(tiny_tape *tape, const tllm_pipe_at *at, const tiny_tensor *x, int layer,
                                       double p)
{
    tiny_tensor mask;
    memset(&mask, 0, sizeof mask);
    if (!tape || tiny_tape_status(tape)) return mask;
    if (!at || !x || !(p >= 0.0 && p < 1.0) || at->rows < 1 || tiny_tensor_count(x) % at->rows) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "pipeline: dropout needs the rows of a piece and 0 <= p < 1");
        return mask;
    }
    if (p == 0.0) return *x;
    mask = tiny_tape_new(tape, TINY_F32, x->rank, x->dim);
    if (mask.data && !tiny_tape_dry(tape))
        tinyi_pipe_mask((float *)mask.data, at, tiny_tensor_count(x) / at->rows, layer, p);
    return tiny_tape_mul(tape, x, &mask);
}

TINY_API tiny_tensor tllm_pipe_batch_norm(tiny_tape *tape, const tllm_pipe_at *at, const tiny_tensor *x,
                                          const tiny_tensor *g, const tiny_tensor *b, const tllm_pipe_norm *norm)
{
    tiny_batch_norm_params params;
    tiny_tensor y, mean, var;
    tiny_idx c, i;
    memset(&y, 0, sizeof y);
    memset(&params, 0, sizeof params);
    params.train = 1;
    params.momentum = 1.0f;                 /* the two arrays then hold what was measured */
    if (!tape || tiny_tape_status(tape)) return y;
    if (!at || !x || x->rank != 2 || !norm || !norm->mean || !norm->var || !norm->sum || norm->n < 1) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "pipeline: batch norm needs x (rows, c) and its running values");
        return y;
    }
    c = x->dim[1];
    if (at->again) return tiny_tape_batch_norm(tape, x, g, b, NULL, NULL, &params);
    mean = tiny_tape_new(tape, TINY_F32, 1, &c);
    var = tiny_tape_new(tape, TINY_F32, 1, &c);
    if (!var.data) return y;
    if (!tiny_tape_dry(tape)) {
        memset(mean.data, 0, (size_t)c * sizeof(float));
        memset(var.data, 0, (size_t)c * sizeof(float));
    }
    y = tiny_tape_batch_norm(tape, x, g, b, &mean, &var, &params);
    if (tiny_tape_status(tape) || tiny_tape_dry(tape)) return y;
    if (at->micro == 0) memset(norm->sum, 0, (2 * (size_t)c + 1) * sizeof *norm->sum);
    norm->sum[2 * c] += (double)at->rows;
    for (i = 0; i < c; i++) {
        const double m = (double)((const float *)mean.data)[i];
        norm->sum[i] += (double)at->rows * m;
        norm->sum[c + i] += (double)at->rows * ((double)((const float *)var.data)[i] + m * m);
    }
    for (i = 0; norm->sum[2 * c] >= (double)norm->n && i < c; i++) {
        const double k = norm->momentum > 0.0 ? norm->momentum : 0.1, m = norm->sum[i] / (double)norm->n;
        norm->mean[i] = (float)((1.0 - k) * (double)norm->mean[i] + k * m);
        norm->var[i] = (float)((1.0 - k) * (double)norm->var[i] + k * (norm->sum[c + i] / (double)norm->n - m * m));
    }
    return y;
}
