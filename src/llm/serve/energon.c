/* src/llm/serve/energon.c - the non-blocking pipeline
 * Paper    J. Du et al., "EnergonAI", 2022 (arXiv 2209.02341): one controller, non-blocking pipeline parallelism with
 *          consistent order of the ranks. Its program was read for the queues; the rule of order below is ours.
 * Order    batch numbers rise by one on every rank. A rank computes number `next` only; a number that is lower, or that
 *          is not one of the next `depth`, is an error. Rank 0 completes a batch when all T ranks of the last stage
 *          have sent the same number with the same bits; numbers that are complete early wait (parked).
 * Message  head: u32 kind, u32 texts, u32 rows, u32 0, u64 number, u64 hash of the data. Body: i32 lengths, then rows.
 *          Of the last stage only rank 0 of T sends the body; the others send its hash.
 * Threads  the mover calls send and recv of the net, under the lock of the pipeline; so do sums of the stage's ranks,
 *          which run in the computing thread. Nothing computes under the lock, and the net's pause is outside of it.
 * Blocking the receiver of a batch answers with 8 bytes when it takes the batch; the sender computes nothing before. With
 *          one stage only nobody answers: its link to rank 0 carries results already.
 * Failure  a rank that fails closes its net. Every rank watches rank 0 too, and rank 0 all ranks' results; so each
 *          learns of it from a neighbour or from rank 0.
 * Clock    on a virtual clock a batch leaves at the clock of its computation; its time of arrival is the body's. */
#include "llm/serve/energon.h"
#include "core/bytes.h"
#include "core/hash_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TINYI_ENERGON_HEAD = 32,
    TINYI_ENERGON_HELLO = 64,
    TINYI_ENERGON_DEEP = 16,                /* depth, at most */
    TINYI_ENERGON_FLIGHTS = 64,             /* batches between rank 0 and its results, at most */
    TINYI_ENERGON_BATCH = 1,
    TINYI_ENERGON_STOP = 2,
    TINYI_ENERGON_TAG = 247
};

/* a batch in memory: its message, head and body */
typedef struct tinyi_energon_item {
    unsigned char head[TINYI_ENERGON_HEAD];
    unsigned char *body;
    size_t n_body;
    uint64_t number, at;
    int full;                               /* of a queue: there is a batch in it */
} tinyi_energon_item;

/* a batch on its way over one link */
typedef struct tinyi_energon_way {
    tiny_message m;
    int peer, part;                         /* part 0: head, 1: body */
    int on;
    tinyi_energon_item *item;
} tinyi_energon_way;

typedef struct tinyi_energon_request {
    uint64_t uid, since, flight;
    int32_t *token;                         /* (tokens) */
    unsigned char *result;
    tiny_idx n;
    int state;                              /* 0: free, 1: waits, 2: travels, 3: done */
} tinyi_energon_request;

typedef struct tinyi_energon_flight {
    uint64_t number, hash;
    int on, got;                            /* got: ranks whose result is there */
    tiny_idx n;
    int32_t *who;                           /* (texts): slots of its requests */
} tinyi_energon_flight;

typedef struct tinyi_energon_gate { tiny_net net; struct tllm_energon *e; } tinyi_energon_gate;

struct tllm_energon {
    tiny_ctx *ctx;
    tllm_energon_desc d;
    size_t *row;
    tiny_net *net;
    int rank, stage, column;                /* stage -1: rank 0 */
    size_t room;                            /* bytes of a body, at most */
    tiny_status failed;
    char says[200];
    int quit, has_thread, hold;
    int stopping;                           /* 1: the end is known; rank 0: 2: in out[0], 3: sent, 4: it came back */
    uint64_t clock, next, taken;            /* next: the number that is computed or formed next; taken: out of the queue */
    tllm_energon_counts count;
    /* a worker's queues, by number modulo depth; of rank 0, out[0] is the batch that it sends */
    tinyi_energon_item in[TINYI_ENERGON_DEEP], out[TINYI_ENERGON_DEEP], coming[TINY_NET_RANKS], now;
    uint64_t sent;                          /* number of the next batch to send */
    int told, ended;                        /* ranks of stage 0 that have the current batch or the end; of the last one
                                             * whose end came back */
    uint64_t leave;                         /* virtual clock of what rank 0 sends */
    tinyi_energon_way to[TINY_NET_RANKS], from[TINY_NET_RANKS];
    unsigned char watch[TINYI_ENERGON_HEAD], ack[8];
    int32_t *length, *token;                /* of the batch that is computed */
    tiny_message watch_m;
    /* rank 0 */
    tinyi_energon_request *request;
    tinyi_energon_flight flight[TINYI_ENERGON_FLIGHTS];
    uint64_t done, progress;                /* numbers below are complete; when the last result came */
    int32_t *work, *recent;
    double *waited;
    void *pick;                             /* workspace of the choice of a batch */
    tiny_idx n_recent;
    tinyi_energon_gate gate;
    tiny_net_count group_count[TINY_NET_RANKS];
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
#endif
};

#if TINYI_HAVE_PTHREAD
static void tinyi_energon_lock(tllm_energon *e) { (void)pthread_mutex_lock(&e->lock); }
static void tinyi_energon_unlock(tllm_energon *e) { (void)pthread_mutex_unlock(&e->lock); }
#else
static void tinyi_energon_lock(tllm_energon *e) { (void)e; }
static void tinyi_energon_unlock(tllm_energon *e) { (void)e; }
#endif
/* Something changed: threads that wait look again. Under the lock. */
static void tinyi_energon_stir(tllm_energon *e)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_broadcast(&e->wake);
#endif
    e->net->wake(e->net);
}

/* ---- failures; all of this part under the lock ------------------------------------------------------------------- */

/* says: NULL, the net has the sentence */
static tiny_status tinyi_energon_fail(tllm_energon *e, tiny_status st, const char *says)
{
    if (!e->failed) {
        e->failed = st;
        (void)snprintf(e->says, sizeof e->says, "%s", says ? says : e->net->says);
        if (says) (void)snprintf(e->net->says, sizeof e->net->says, "%s", says);
        e->net->why = st;
        e->net->close(e->net);
        tinyi_energon_stir(e);
    }
    return e->failed;
}
static tiny_status tinyi_energon_answer(tllm_energon *e)
{
    return e->failed ? tinyi_fail(e->ctx, e->failed, "%s", e->says) : TINY_OK;
}
static int tinyi_energon_rank(const tllm_energon *e, int stage, int column)
{
    return stage < 0 || stage >= e->d.stages ? 0 : 1 + stage * e->d.tensor + column;
}

/* ---- one step of moving ------------------------------------------------------------------------------------------ */

static void tinyi_energon_message(tiny_message *m, unsigned kind, void *data, size_t n, uint64_t at)
{
    memset(m, 0, sizeof *m);
    m->tag = (uint64_t)kind << 8 | TINYI_ENERGON_TAG;
    m->data = data;
    m->n = n;
    m->at = at;
}

/* 1: the message is whole. until: the earliest time at which a message arrives that is on its way. */
static int tinyi_energon_step(tllm_energon *e, int peer, int sends, tiny_message *m, uint64_t *until)
{
    tiny_status st;
    if (e->failed) return 0;
    st = sends ? e->net->send(e->net, peer, m) : e->net->recv(e->net, peer, m);
    if (st) { (void)tinyi_energon_fail(e, st, NULL); return 0; }
    if (!m->whole && !sends && m->at && !e->net->virtual_clock && m->at < *until) *until = m->at;
    return m->whole;
}

/* Sends the way's item. 1: the last byte is gone. */
static int tinyi_energon_put(tllm_energon *e, tinyi_energon_way *w, uint64_t *until)
{
    for (;;) {
        if (!w->on) {
            w->on = 1;
            w->part = 0;
            tinyi_energon_message(&w->m, 1, w->item->head, TINYI_ENERGON_HEAD, w->item->at);
        }
        if (!tinyi_energon_step(e, w->peer, 1, &w->m, until)) return 0;
        e->count.bytes += w->m.n;
        if (w->part || !w->item->n_body) { w->on = 0; return 1; }
        w->part = 1;
        tinyi_energon_message(&w->m, 2, w->item->body, w->item->n_body, w->item->at);
    }
}

static tiny_status tinyi_energon_refuse(tllm_energon *e, int peer, const char *what)
{
    char says[160];
    (void)snprintf(says, sizeof says, "rank %d sent %s", peer, what);
    e->net->gone = 1 + peer;
    return tinyi_energon_fail(e, TINY_E_PROTOCOL, says);
}

/* The head of an item from a peer is there: is it one, and how long is its body? */
static void tinyi_energon_judge(tllm_energon *e, tinyi_energon_way *w)
{
    const unsigned char *h = w->item->head;
    const uint64_t kind = tinyi_le32(h), n = tinyi_le32(h + 4), valid = tinyi_le32(h + 8);
    w->item->number = tinyi_le64(h + 16);
    w->item->n_body = 0;
    if (kind == TINYI_ENERGON_STOP && (e->stage >= 0 || e->stopping == 3)) return;
    if (kind != TINYI_ENERGON_BATCH || !n || n > (uint64_t)e->d.texts || valid < n || valid > (uint64_t)e->d.tokens) {
        (void)tinyi_energon_refuse(e, w->peer, "a batch that there is not");
        return;
    }
    if (e->stage >= 0) w->item->n_body = 4 * (size_t)n + (size_t)valid * e->row[e->stage];
    else if ((w->peer - 1) % e->d.tensor == 0) w->item->n_body = (size_t)n * e->row[e->d.stages];
}

/* Receives into the way's item. 1: it is whole. */
static int tinyi_energon_get(tllm_energon *e, tinyi_energon_way *w, uint64_t *until)
{
    for (;;) {
        if (!w->on) {
            w->on = 1;
            w->part = 0;
            tinyi_energon_message(&w->m, 1, w->item->head, TINYI_ENERGON_HEAD, 0);
        }
        if (!tinyi_energon_step(e, w->peer, 0, &w->m, until)) return 0;
        w->item->at = w->m.at;
        if (!w->part) tinyi_energon_judge(e, w);
        if (e->failed) return 0;
        if (w->part || !w->item->n_body) { w->on = 0; return 1; }
        w->part = 1;
        tinyi_energon_message(&w->m, 2, w->item->body, w->item->n_body, 0);
    }
}

/* ---- a worker's messages ----------------------------------------------------------------------------------------- */

/* A batch that is whole goes to its place in the queue. 0: its place is not free yet. */
static int tinyi_energon_park(tllm_energon *e, tinyi_energon_item *got)
{
    tinyi_energon_item *to = &e->in[got->number % (uint64_t)e->d.depth], swap;
    if (got->number < e->taken) (void)tinyi_energon_refuse(e, e->from[0].peer, "a batch a second time");
    if (e->failed) return 0;
    if (to->full) {
        if (to->number == got->number) (void)tinyi_energon_refuse(e, e->from[0].peer, "a batch a second time");
        return 0;
    }
    if (got->number >= e->taken + (uint64_t)e->d.depth) {
        (void)tinyi_energon_refuse(e, e->from[0].peer, "a batch out of its order");
        return 0;
    }
    if (tinyi_le32(got->head) == TINYI_ENERGON_STOP) e->stopping = 1;
    swap = *to;
    *to = *got;
    to->full = 1;
    *got = swap;
    got->full = 0;
    return 1;
}

/* receives: the worker may take a new batch. 1: something moved. */
static int tinyi_energon_worker(tllm_energon *e, int receives, uint64_t *until)
{
    tinyi_energon_item *out = &e->out[e->sent % (uint64_t)e->d.depth];
    int moved = 0;
    if (e->stage > 0 && !e->stopping && !e->watch_m.whole)      /* rank 0 never sends here: only its end is seen */
        (void)tinyi_energon_step(e, 0, 0, &e->watch_m, until);
    if (receives && !e->stopping && !e->failed) {
        tinyi_energon_item *got = &e->coming[0];
        if (!got->full && tinyi_energon_get(e, &e->from[0], until)) got->full = moved = 1;
        if (got->full && !e->failed && tinyi_energon_park(e, got)) moved = 1;
    }
    if (out->full && !e->failed) {
        e->to[0].item = out;
        if (tinyi_energon_put(e, &e->to[0], until)) {
            out->full = 0;
            e->sent++;
            moved = 1;
        }
    }
    return moved;
}

/* ---- rank 0: batches out, results in ----------------------------------------------------------------------------- */

/* Requests that wait, the oldest first, in work; the number of them. */
static tiny_idx tinyi_energon_oldest(tllm_energon *e)
{
    tiny_idx i, k, n = 0;
    for (i = 0; i < e->d.queue; i++) {
        if (e->request[i].state != 1) continue;
        for (k = n++; k > 0 && e->request[e->work[k - 1]].flight > e->request[i].flight; k--)
            e->work[k] = e->work[k - 1];
        e->work[k] = (int32_t)i;
    }
    return n;
}

/* The batch manager: writes the slots of the next batch to work, and returns their number; 0: not yet. */
static tiny_idx tinyi_energon_choose(tllm_energon *e, uint64_t *until)
{
    tiny_idx n = tinyi_energon_oldest(e), i, k = 0, rows = 0;
    if (!n) return 0;
    if (e->d.cost) {
        int32_t *length = e->work + e->d.queue, *chosen = length + e->d.queue;
        const uint64_t now = tiny_now_ns(), ripe = e->request[e->work[0]].since + e->d.wait_ns;
        tllm_rows_queue q;
        if (n < e->d.texts && now < ripe && !e->stopping) {     /* a full batch does not wait */
            *until = TINYI_MIN(*until, ripe);
            return 0;
        }
        memset(&q, 0, sizeof q);
        for (i = 0; i < n; i++) {
            length[i] = (int32_t)e->request[e->work[i]].n;
            e->waited[i] = (double)(now - e->request[e->work[i]].since);
        }
        q.length = length;
        q.wait = e->waited;
        q.n = n;
        q.most = e->d.texts;
        q.wait_most = (double)e->d.wait_ns;
        q.cost = e->d.cost;
        q.user = e->d.cost_user;
        q.recent = e->recent;
        q.n_recent = TINYI_MIN(e->n_recent, e->d.queue);
        q.seed = e->next;
        if (!tinyi_rows_pick(&q, e->pick, chosen, &n)) {
            (void)tinyi_energon_fail(e, TINY_E_ARGUMENT, "the cost of a batch is negative or no number");
            return 0;
        }
        for (i = 0; i < n; i++) e->work[i] = e->work[chosen[i]];        /* chosen ascends: i <= chosen[i] */
    }
    for (i = 0; i < n && k < e->d.texts; i++) {
        const tiny_idx l = e->request[e->work[i]].n;
        if (rows + l > e->d.tokens) break;
        rows += l;
        k++;
    }
    return k;
}

/* The next batch in out[0]. 0: none. */
static int tinyi_energon_form(tllm_energon *e, uint64_t *until)
{
    tinyi_energon_flight *f = &e->flight[e->next % TINYI_ENERGON_FLIGHTS];
    tinyi_energon_item *out = &e->out[0];
    unsigned char *p = out->body;
    tiny_idx i, k, n, rows = 0;
    if (f->on || e->hold || e->stopping) return 0;
    n = tinyi_energon_choose(e, until);
    if (!n) return 0;
    memset(out->head, 0, sizeof out->head);
    for (i = 0; i < n; i++) {
        tinyi_energon_request *q = &e->request[e->work[i]];
        tinyi_put_le(p, (uint64_t)q->n, 4);
        p += 4;
        rows += q->n;
        q->state = 2;
        f->who[i] = e->work[i];
        e->recent[e->n_recent++ % e->d.queue] = (int32_t)q->n;
    }
    for (i = 0; i < n; i++) {
        const tinyi_energon_request *q = &e->request[e->work[i]];
        for (k = 0; k < q->n; k++, p += 4) tinyi_put_le(p, (uint32_t)q->token[k], 4);
    }
    tinyi_put_le(out->head, TINYI_ENERGON_BATCH, 4);
    tinyi_put_le(out->head + 4, (uint64_t)n, 4);
    tinyi_put_le(out->head + 8, (uint64_t)rows, 4);
    tinyi_put_le(out->head + 16, e->next, 8);
    out->n_body = (size_t)(p - out->body);
    out->at = e->leave;
    out->full = 1;
    f->on = 1;
    f->got = 0;
    f->n = n;
    f->number = e->next++;
    e->told = 0;
    e->progress = tiny_now_ns();
    return 1;
}

static void tinyi_energon_result(tllm_energon *e, int column)
{
    tinyi_energon_item *it = &e->coming[column];
    tinyi_energon_flight *f = &e->flight[it->number % TINYI_ENERGON_FLIGHTS];
    const uint64_t hash = tinyi_le64(it->head + 24);
    const int peer = e->from[column].peer;
    tiny_idx i;
    if (!f->on || f->number != it->number || (f->got >> column & 1) || tinyi_le32(it->head + 4) != (uint32_t)f->n) {
        (void)tinyi_energon_refuse(e, peer, "the result of a batch that it did not get");
        return;
    }
    if (f->got && f->hash != hash) {
        (void)tinyi_energon_refuse(e, peer, "a result that differs from that of its stage");
        return;
    }
    if (!column && tinyi_hash_of(it->body, it->n_body) != hash) {
        (void)tinyi_energon_refuse(e, peer, "a result that was damaged");
        return;
    }
    f->hash = hash;
    f->got |= 1 << column;
    e->progress = tiny_now_ns();
    if (e->net->virtual_clock) e->clock = TINYI_MAX(e->clock, it->at);
    for (i = 0; i < f->n && !column; i++)
        memcpy(e->request[f->who[i]].result, it->body + (size_t)i * e->row[e->d.stages], e->row[e->d.stages]);
    if (f->number != e->done && f->got == (1 << e->d.tensor) - 1) e->count.parked++;
    for (;;) {                              /* results become visible in the order of numbers */
        f = &e->flight[e->done % TINYI_ENERGON_FLIGHTS];
        if (!f->on || f->number != e->done || f->got != (1 << e->d.tensor) - 1) return;
        for (i = 0; i < f->n; i++) {
            e->request[f->who[i]].state = 3;
            e->count.rows += (uint64_t)e->request[f->who[i]].n;
        }
        f->on = 0;
        e->done++;
        e->count.batches++;
        e->count.texts += (uint64_t)f->n;
    }
}

static int tinyi_energon_controller(tllm_energon *e, uint64_t *until)
{
    tinyi_energon_item *out = &e->out[0];
    int t, moved = 0;
    if (e->watch_m.data && !e->watch_m.whole && tinyi_energon_step(e, 1, 0, &e->watch_m, until)) {
        e->watch_m.data = NULL;             /* stage 0 took the batch */
        e->leave = TINYI_MAX(e->leave, e->watch_m.at);
        moved = 1;
    }
    if (!out->full && !e->watch_m.data) {
        if (tinyi_energon_form(e, until)) moved = 1;
        else if (e->stopping == 1) {        /* the end follows the last batch */
            memset(out->head, 0, sizeof out->head);
            out->head[0] = TINYI_ENERGON_STOP;
            tinyi_put_le(out->head + 16, e->next, 8);
            out->n_body = 0;
            out->full = 1;
            e->told = 0;
            e->stopping = 2;
        }
    }
    if (out->full && !e->failed) {
        for (t = 0; t < e->d.tensor; t++) {
            if (e->told >> t & 1) continue;
            e->to[t].item = out;
            if (tinyi_energon_put(e, &e->to[t], until)) { e->told |= 1 << t; moved = 1; }
        }
        if (e->told == (1 << e->d.tensor) - 1) {
            out->full = 0;
            e->progress = tiny_now_ns();
            if (e->stopping == 2) e->stopping = 3;
            else if (e->d.blocking && e->d.stages > 1) tinyi_energon_message(&e->watch_m, 3, e->ack, sizeof e->ack, 0);
        }
    }
    for (t = 0; t < e->d.tensor; t++)
        while (!e->failed && (e->next > e->done || e->stopping == 3) && !(e->ended >> t & 1) &&
               tinyi_energon_get(e, &e->from[t], until)) {
            moved = 1;
            if (tinyi_le32(e->coming[t].head) == TINYI_ENERGON_STOP) e->ended |= 1 << t;
            else tinyi_energon_result(e, t);
        }
    if (e->stopping == 3 && e->ended == (1 << e->d.tensor) - 1) e->stopping = 4;
    if (!moved && !e->failed && (e->next > e->done || e->stopping == 3) && tiny_now_ns() - e->progress > e->d.timeout_ns) {
        char says[120];
        (void)snprintf(says, sizeof says, "batch %llu did not come back until the time-out",
                       (unsigned long long)e->done);
        (void)tinyi_energon_fail(e, TINY_E_TIMEOUT, says);
    }
    return moved;
}

/* One pass over all links, under the lock. */
static int tinyi_energon_turn(tllm_energon *e, int receives, uint64_t *until)
{
    if (e->failed) return 0;
    return e->stage < 0 ? tinyi_energon_controller(e, until) : tinyi_energon_worker(e, receives, until);
}

/* Moves, or sleeps until something changes; under the lock, which is open meanwhile. The thread that calls moves. */
static void tinyi_energon_move(tllm_energon *e, int receives)
{
    const uint64_t seen = e->net->changes(e->net);
    uint64_t until = UINT64_MAX, now;
    if (tinyi_energon_turn(e, receives, &until)) {
        tinyi_energon_stir(e);
        return;
    }
    if (e->failed) return;
    tinyi_energon_unlock(e);
    now = tiny_now_ns() + UINT64_C(20000000);       /* the time-out is checked so often */
    e->net->pause(e->net, seen, TINYI_MIN(until, now));
    tinyi_energon_lock(e);
}

#if TINYI_HAVE_HELPERS
static void *tinyi_energon_main(void *arg)
{
    tllm_energon *e = (tllm_energon *)arg;
    tinyi_energon_lock(e);
    while (!e->quit && !e->failed && e->stopping != 4) tinyi_energon_move(e, 1);
    tinyi_energon_stir(e);
    tinyi_energon_unlock(e);
    return NULL;
}
#endif

/* Waits for a change of the queues: the mover thread's, or by moving. Under the lock. */
static void tinyi_energon_rest(tllm_energon *e, int receives)
{
#if TINYI_HAVE_HELPERS
    if (e->has_thread) {
        (void)pthread_cond_wait(&e->wake, &e->lock);
        return;
    }
#endif
    tinyi_energon_move(e, receives);
}

/* ---- sums inside a stage: the net of its T ranks, whose calls take the lock -------------------------------------- */

static tiny_status tinyi_energon_gate_move(tiny_net *net, int other, tiny_message *m, int sends)
{
    tllm_energon *e = ((tinyi_energon_gate *)net)->e;
    const int peer = tinyi_energon_rank(e, e->stage, other);
    tiny_status st;
    tinyi_energon_lock(e);
    st = e->failed;
    if (!st) {
        st = sends ? e->net->send(e->net, peer, m) : e->net->recv(e->net, peer, m);
        if (st) (void)tinyi_energon_fail(e, st, NULL);
    }
    if (st) memcpy(net->says, e->says, sizeof net->says);
    tinyi_energon_unlock(e);
    return st;
}
static tiny_status tinyi_energon_gate_send(tiny_net *net, int to, tiny_message *m)
{
    return tinyi_energon_gate_move(net, to, m, 1);
}
static tiny_status tinyi_energon_gate_recv(tiny_net *net, int from, tiny_message *m)
{
    return tinyi_energon_gate_move(net, from, m, 0);
}
static void tinyi_energon_gate_close(tiny_net *net)
{
    tllm_energon *e = ((tinyi_energon_gate *)net)->e;
    tinyi_energon_lock(e);
    (void)tinyi_energon_fail(e, net->why ? net->why : TINY_E_PEER, *net->says ? net->says : "a sum of a stage failed");
    tinyi_energon_unlock(e);
}
static uint64_t tinyi_energon_gate_changes(tiny_net *net)
{
    tllm_energon *e = ((tinyi_energon_gate *)net)->e;
    return e->net->changes(e->net);
}
static void tinyi_energon_gate_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tllm_energon *e = ((tinyi_energon_gate *)net)->e;
    e->net->pause(e->net, seen, until);
}
static void tinyi_energon_gate_wake(tiny_net *net)
{
    tllm_energon *e = ((tinyi_energon_gate *)net)->e;
    e->net->wake(e->net);
}
static void tinyi_energon_gate_make(tllm_energon *e)
{
    tiny_net *g = &e->gate.net;
    e->gate.e = e;
    g->rank = e->column;
    g->world = e->d.tensor;
    g->virtual_clock = e->net->virtual_clock;
    g->send = tinyi_energon_gate_send;
    g->recv = tinyi_energon_gate_recv;
    g->close = tinyi_energon_gate_close;
    g->changes = tinyi_energon_gate_changes;
    g->pause = tinyi_energon_gate_pause;
    g->wake = tinyi_energon_gate_wake;
    g->count = e->group_count;
}
TINY_API tiny_net *tllm_energon_group(tllm_energon *e)
{
    return e && e->stage >= 0 && e->d.tensor > 1 ? &e->gate.net : NULL;
}

/* ---- open, close ------------------------------------------------------------------------------------------------- */

/* One whole message outside of the queues: at the open, and answers of the blocking form. Under the lock. */
static tiny_status tinyi_energon_one(tllm_energon *e, int peer, int sends, unsigned kind, void *data, size_t n,
                                     uint64_t timeout_ns)
{
    const uint64_t until = timeout_ns ? tiny_now_ns() + timeout_ns : UINT64_MAX;
    tiny_message m;
    tinyi_energon_message(&m, kind, data, n, sends ? e->clock : 0);
    for (;;) {
        const uint64_t seen = e->net->changes(e->net);
        uint64_t wake = until;
        if (tinyi_energon_step(e, peer, sends, &m, &wake)) break;
        if (e->failed) return tinyi_energon_answer(e);
        if (e->stage > 0 && timeout_ns == 0) (void)tinyi_energon_step(e, 0, 0, &e->watch_m, &wake);
        if (e->failed) return tinyi_energon_answer(e);
        if (tiny_now_ns() >= until) {
            char says[120];
            (void)snprintf(says, sizeof says, "rank %d waited for rank %d until the time-out", e->rank, peer);
            (void)tinyi_energon_fail(e, TINY_E_TIMEOUT, says);
            return tinyi_energon_answer(e);
        }
        tinyi_energon_unlock(e);
        e->net->pause(e->net, seen, wake);
        tinyi_energon_lock(e);
    }
    if (!sends && e->net->virtual_clock) e->clock = TINYI_MAX(e->clock, m.at);
    return TINY_OK;
}

static tiny_status tinyi_energon_hello(tllm_energon *e)
{
    unsigned char mine[TINYI_ENERGON_HELLO], got[TINYI_ENERGON_HELLO];
    tinyi_hash h;
    int i, s;
    tiny_status st = TINY_OK;
    memset(mine, 0, sizeof mine);
    memcpy(mine, "energon1", 8);
    tinyi_put_le(mine + 8, e->d.print, 8);
    tinyi_hash_start(&h);
    for (s = 0; s <= e->d.stages; s++) {
        unsigned char row[8];
        tinyi_put_le(row, (uint64_t)e->row[s], 8);
        tinyi_hash_add(&h, row, sizeof row);
    }
    tinyi_put_le(mine + 16, tinyi_hash_value(&h), 8);
    tinyi_put_le(mine + 24, (uint64_t)e->d.texts, 8);
    tinyi_put_le(mine + 32, (uint64_t)e->d.tokens, 8);
    tinyi_put_le(mine + 40, (uint64_t)e->d.stages << 8 | (uint64_t)e->d.tensor, 8);
    tinyi_put_le(mine + 48, e->d.blocking != 0, 8);
    for (i = 1; i < e->net->world && !st && !e->rank; i++)
        st = tinyi_energon_one(e, i, 1, 4, mine, sizeof mine, e->d.timeout_ns);
    for (i = 1; i < e->net->world && !st; i++) {
        const int peer = e->rank ? 0 : i;
        st = tinyi_energon_one(e, peer, 0, 4, got, sizeof got, e->d.timeout_ns);
        if (!st && memcmp(mine, got, sizeof mine)) {
            char says[120];
            (void)snprintf(says, sizeof says, "rank %d has another %s than rank %d", e->rank ? e->rank : peer,
                           memcmp(mine + 8, got + 8, 8) ? "model" : "description of the pipeline",
                           e->rank ? peer : e->rank);
            (void)tinyi_energon_fail(e, TINY_E_PROTOCOL, says);
            st = tinyi_energon_answer(e);
        }
        if (e->rank) break;
    }
    if (!st && e->rank) st = tinyi_energon_one(e, 0, 1, 4, mine, sizeof mine, e->d.timeout_ns);
    return st;
}

static tiny_status tinyi_energon_check(tiny_ctx *ctx, const tllm_energon_desc *d)
{
    const int S = d->stages ? d->stages : 1, T = d->tensor ? d->tensor : 1;
    int s;
    if (!d->net || !d->row || (d->net->rank && !d->run))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pipeline needs a net, the bytes of rows, and a function for the stage");
    if (S < 1 || T < 1 || S > TINY_NET_RANKS || T > 16 || d->net->world != 1 + S * T)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d stages of %d ranks and a controller are %d ranks, the net has %d", S,
                          T, 1 + S * T, d->net->world);
    if (d->net->star && d->net->world > 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pipeline needs links between all ranks, not a star");
    if (d->texts < 0 || d->texts > 4096 || d->tokens < 0 || d->tokens > TLLM_ROWS_MOST || d->queue < 0 ||
        d->queue > 4096 || d->depth < 0 || d->depth > TINYI_ENERGON_DEEP)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "batches of %td texts and %td tokens, %td requests, queues of %td "
                          "batches: at most 4096, %d, 4096 and %d", d->texts, d->tokens, d->queue, d->depth,
                          TLLM_ROWS_MOST, TINYI_ENERGON_DEEP);
    for (s = 0; s <= S; s++)
        if (!d->row[s] || d->row[s] > ((size_t)1 << 28) || (!s && d->row[0] != 4))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "rows of %zu bytes at stage %d: 1 to 2^28, and 4 for tokens",
                              d->row[s], s);
    return TINY_OK;
}

static int tinyi_energon_room(tllm_energon *e, tinyi_energon_item *it)
{
    it->body = (unsigned char *)tinyi_alloc(e->ctx, e->room, 1);
    return it->body != NULL;
}

/* all memory; 0: there is not enough */
static int tinyi_energon_memory(tllm_energon *e)
{
    const int S = e->d.stages;
    size_t most = e->row[S] * (size_t)e->d.texts;
    tiny_idx i;
    int s, ok = 1;
    for (s = 0; s <= S; s++) most = TINYI_MAX(most, e->row[s] * (size_t)e->d.tokens);
    e->room = most + 4 * (size_t)e->d.texts;
    e->length = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.texts, sizeof *e->length);
    e->token = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.tokens, sizeof *e->token);
    ok = e->length && e->token;
    if (e->stage >= 0) {
        for (i = 0; i < e->d.depth && ok; i++) ok = tinyi_energon_room(e, &e->in[i]) && tinyi_energon_room(e, &e->out[i]);
        return ok && tinyi_energon_room(e, &e->coming[0]) && tinyi_energon_room(e, &e->now);
    }
    for (s = 0; s < e->d.tensor && ok; s++) ok = tinyi_energon_room(e, &e->coming[s]);
    ok = ok && tinyi_energon_room(e, &e->out[0]);
    for (i = 0; i < TINYI_ENERGON_FLIGHTS && ok; i++)
        ok = (e->flight[i].who = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.texts, sizeof(int32_t))) != NULL;
    if (!ok) return 0;
    e->request = (tinyi_energon_request *)tinyi_alloc(e->ctx, (size_t)e->d.queue, sizeof *e->request);
    if (e->request) memset(e->request, 0, (size_t)e->d.queue * sizeof *e->request);
    e->work = (int32_t *)tinyi_alloc(e->ctx, 3 * (size_t)(e->d.queue + e->d.texts), sizeof *e->work);
    e->recent = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.queue, sizeof *e->recent);
    e->waited = (double *)tinyi_alloc(e->ctx, (size_t)e->d.queue, sizeof *e->waited);
    e->pick = tinyi_alloc(e->ctx, tinyi_rows_next_work(e->d.queue, e->d.texts), 1);
    ok = e->request && e->work && e->recent && e->waited && e->pick;
    for (i = 0; i < e->d.queue && ok; i++) {
        tinyi_energon_request *q = &e->request[i];
        q->token = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.tokens, sizeof *q->token);
        q->result = q->token ? (unsigned char *)tinyi_alloc(e->ctx, e->row[S], 1) : NULL;
        ok = q->result != NULL;
    }
    return ok;
}

TINY_API tiny_status tllm_energon_open(tiny_ctx *ctx, const tllm_energon_desc *d, tllm_energon **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_energon *e;
    int t;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pipeline needs a description and an output pointer");
    st = tinyi_energon_check(ctx, d);
    if (st) return st;
    e = (tllm_energon *)tinyi_alloc(ctx, 1, sizeof *e);
    if (!e) return tiny_ctx_status(ctx);
    memset(e, 0, sizeof *e);
    e->ctx = ctx;
    e->d = *d;
    e->net = d->net;
    if (!d->stages) e->d.stages = 1;
    if (!d->tensor) e->d.tensor = 1;
    if (!d->texts) e->d.texts = 8;
    if (!d->tokens) e->d.tokens = 1024;
    if (!d->queue) e->d.queue = 64;
    if (!d->depth || d->blocking) e->d.depth = 1;
    if (!d->timeout_ns) e->d.timeout_ns = UINT64_C(10000000000);
    e->rank = d->net->rank;
    e->stage = e->rank ? (e->rank - 1) / e->d.tensor : -1;
    e->column = e->rank ? (e->rank - 1) % e->d.tensor : 0;
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
#endif
    e->row = (size_t *)tinyi_alloc(ctx, (size_t)e->d.stages + 1, sizeof *e->row);
    if (e->row) memcpy(e->row, d->row, ((size_t)e->d.stages + 1) * sizeof *e->row);
    if (!e->row || !tinyi_energon_memory(e)) {
        st = tiny_ctx_status(ctx);
        e->net->why = st;
        (void)snprintf(e->net->says, sizeof e->net->says, "rank %d has not enough memory", e->rank);
        e->net->close(e->net);
        tllm_energon_close(e);
        return st;
    }
    tinyi_energon_gate_make(e);
    tinyi_energon_message(&e->watch_m, 9, e->watch, sizeof e->watch, 0);
    if (e->stage < 0) e->watch_m.data = NULL;
    for (t = 0; t < e->d.tensor; t++) {
        e->to[t].peer = e->stage < 0 ? tinyi_energon_rank(e, 0, t) : tinyi_energon_rank(e, e->stage + 1, e->column);
        e->from[t].peer = e->stage < 0 ? tinyi_energon_rank(e, e->d.stages - 1, t)
                                       : tinyi_energon_rank(e, e->stage - 1, e->column);
        e->from[t].item = &e->coming[t];
    }
    tinyi_energon_lock(e);
    st = tinyi_energon_hello(e);
    tinyi_energon_unlock(e);
    if (st) {
        tllm_energon_close(e);
        return st;
    }
    e->clock = 0;
#if TINYI_HAVE_HELPERS
    if (e->stage < 0 || !e->d.blocking) e->has_thread = pthread_create(&e->thread, NULL, tinyi_energon_main, e) == 0;
#endif
    e->count.has_thread = e->has_thread;
    *out = e;
    return TINY_OK;
}

TINY_API void tllm_energon_close(tllm_energon *e)
{
    tiny_idx i;
    int k;
    if (!e) return;
    tinyi_energon_lock(e);
    e->quit = 1;
    if (e->has_thread) tinyi_energon_stir(e);
    tinyi_energon_unlock(e);
#if TINYI_HAVE_HELPERS
    if (e->has_thread) (void)pthread_join(e->thread, NULL);
#endif
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->lock);
#endif
    for (i = 0; e->request && i < e->d.queue; i++) {
        tiny_free(e->ctx, e->request[i].result);
        tiny_free(e->ctx, e->request[i].token);
    }
    for (k = 0; k < TINYI_ENERGON_FLIGHTS; k++) tiny_free(e->ctx, e->flight[k].who);
    for (k = 0; k < TINYI_ENERGON_DEEP; k++) {
        tiny_free(e->ctx, e->in[k].body);
        tiny_free(e->ctx, e->out[k].body);
    }
    for (k = 0; k < TINY_NET_RANKS; k++) tiny_free(e->ctx, e->coming[k].body);
    tiny_free(e->ctx, e->now.body);
    tiny_free(e->ctx, e->pick);
    tiny_free(e->ctx, e->waited);
    tiny_free(e->ctx, e->recent);
    tiny_free(e->ctx, e->work);
    tiny_free(e->ctx, e->request);
    tiny_free(e->ctx, e->token);
    tiny_free(e->ctx, e->length);
    tiny_free(e->ctx, e->row);
    tiny_free(e->ctx, e);
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

static tiny_status tinyi_energon_leads(tllm_energon *e)
{
    if (!e) return TINY_E_ARGUMENT;
    if (e->rank) return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "rank %d follows: requests are those of rank 0", e->rank);
    return TINY_OK;
}

TINY_API tiny_status tllm_energon_submit(tllm_energon *e, uint64_t uid, const int32_t *token, tiny_idx n)
{
    tinyi_energon_request *q = NULL;
    tiny_idx i;
    tiny_status st = tinyi_energon_leads(e);
    if (st) return st;
    if (!token || n < 1 || n > e->d.tokens)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "request %llu has %td tokens: 1 to %td are possible",
                          (unsigned long long)uid, n, e->d.tokens);
    tinyi_energon_lock(e);
    st = tinyi_energon_answer(e);
    if (!st && e->stopping) st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "the pipeline was stopped");
    for (i = 0; i < e->d.queue && !st; i++) {
        if (!e->request[i].state) q = q ? q : &e->request[i];
        else if (e->request[i].uid == uid)
            st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "request %llu is in the queue already", (unsigned long long)uid);
    }
    if (!st && !q)
        st = tinyi_fail(e->ctx, TINY_E_WORKSPACE, "the queue holds %td requests and is full", e->d.queue);
    if (!st) {
        q->uid = uid;
        q->n = n;
        q->since = tiny_now_ns();
        q->flight = ++e->sent;              /* the order of requests */
        memcpy(q->token, token, (size_t)n * sizeof *token);
        q->state = 1;
        tinyi_energon_stir(e);
    }
    tinyi_energon_unlock(e);
    return st;
}

TINY_API tiny_status tllm_energon_hold(tllm_energon *e, int hold)
{
    tiny_status st = tinyi_energon_leads(e);
    if (st) return st;
    tinyi_energon_lock(e);
    e->hold = hold;
    tinyi_energon_stir(e);
    st = tinyi_energon_answer(e);
    tinyi_energon_unlock(e);
    return st;
}

static tiny_status tinyi_energon_take(tllm_energon *e, uint64_t uid, void *result, int waits, int *ready)
{
    tinyi_energon_request *q = NULL;
    tiny_idx i;
    tiny_status st = tinyi_energon_leads(e);
    if (st) return st;
    if (!result) return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "a result needs room");
    tinyi_energon_lock(e);
    for (i = 0; i < e->d.queue; i++) if (e->request[i].state && e->request[i].uid == uid) q = &e->request[i];
    if (!q) st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "there is no request %llu", (unsigned long long)uid);
    else if (waits && e->hold && q->state == 1)
        st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "request %llu waits for the end of a hold", (unsigned long long)uid);
    else if (waits && e->stopping && q->state == 1)
        st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "request %llu was dropped by the stop", (unsigned long long)uid);
    if (!st && !waits && !e->has_thread) {
        uint64_t until = UINT64_MAX;
        (void)tinyi_energon_turn(e, 1, &until);
    }
    while (!st && waits && q->state != 3 && !e->failed) tinyi_energon_rest(e, 1);
    if (!st && q->state != 3) st = tinyi_energon_answer(e);
    if (!st && q->state == 3) {
        memcpy(result, q->result, e->row[e->d.stages]);
        q->state = 0;
        if (ready) *ready = 1;
    }
    tinyi_energon_unlock(e);
    return st;
}

TINY_API tiny_status tllm_energon_wait(tllm_energon *e, uint64_t uid, void *result)
{
    return tinyi_energon_take(e, uid, result, 1, NULL);
}
TINY_API tiny_status tllm_energon_poll(tllm_energon *e, uint64_t uid, void *result, int *ready)
{
    tiny_status st = tinyi_energon_leads(e);
    if (ready) *ready = 0;
    if (st) return st;
    if (!ready) return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "polling needs room for its answer");
    return tinyi_energon_take(e, uid, result, 0, ready);
}

TINY_API tiny_status tllm_energon_stop(tllm_energon *e)
{
    tiny_status st = tinyi_energon_leads(e);
    if (st) return st;
    tinyi_energon_lock(e);
    if (!e->stopping) e->stopping = 1;
    tinyi_energon_stir(e);
    while (e->stopping != 4 && !e->failed) tinyi_energon_rest(e, 1);
    st = e->stopping == 4 ? TINY_OK : tinyi_energon_answer(e);
    tinyi_energon_unlock(e);
    return st;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Lengths and tokens of the batch in `now`; NULL: its sizes do not agree. */
static const void *tinyi_energon_open_batch(tllm_energon *e, tllm_energon_batch *b)
{
    const unsigned char *p = e->now.body;
    tiny_idx i;
    memset(b, 0, sizeof *b);
    b->number = e->now.number;
    b->n = (tiny_idx)tinyi_le32(e->now.head + 4);
    b->length = e->length;
    for (i = 0; i < b->n; i++, p += 4) {
        const uint32_t l = tinyi_le32(p);
        if (!l || l > (uint32_t)e->d.tokens) return NULL;
        e->length[i] = (int32_t)l;
        b->most = TINYI_MAX(b->most, (tiny_idx)l);
        b->valid += (tiny_idx)l;
    }
    if (b->valid != (tiny_idx)tinyi_le32(e->now.head + 8)) return NULL;
    if (e->stage) return p;
    for (i = 0; i < b->valid; i++, p += 4) e->token[i] = (int32_t)tinyi_le32(p);
    return e->token;
}

/* The result of run is in out->body behind the lengths, or at its start in the last stage. */
static void tinyi_energon_finish(tllm_energon *e, const tllm_energon_batch *b, tinyi_energon_item *out)
{
    const int last = e->stage == e->d.stages - 1;
    memcpy(out->head, e->now.head, sizeof out->head);
    memcpy(out->body, e->now.body, last ? 0 : 4 * (size_t)b->n);
    out->n_body = last ? (size_t)b->n * e->row[e->stage + 1]
                       : 4 * (size_t)b->n + (size_t)b->valid * e->row[e->stage + 1];
    tinyi_put_le(out->head + 24, last ? tinyi_hash_of(out->body, out->n_body) : 0, 8);
    if (last && e->column) out->n_body = 0;
}

static tiny_status tinyi_energon_compute(tllm_energon *e)
{
    tinyi_energon_item *place = &e->in[e->next % (uint64_t)e->d.depth], *out = &e->out[e->next % (uint64_t)e->d.depth];
    const int last = e->stage == e->d.stages - 1;
    uint64_t from = tiny_now_ns();
    tllm_energon_batch b;
    tinyi_energon_item swap;
    const void *in;
    tiny_status st = TINY_OK;
    while (!e->failed && !(place->full && place->number == e->next)) tinyi_energon_rest(e, 1);
    if (e->failed) return tinyi_energon_answer(e);
    e->count.idle_ns += tiny_now_ns() - from;
    swap = e->now;                          /* its place is free while this one is computed */
    e->now = *place;
    *place = swap;
    place->full = 0;
    e->taken++;
    if (e->net->virtual_clock) e->clock = TINYI_MAX(e->clock, e->now.at);
    if (e->d.blocking && e->d.stages > 1 && tinyi_le32(e->now.head) == TINYI_ENERGON_BATCH && (e->stage || !e->column)) {
        tinyi_put_le(e->ack, e->now.number, 8);
        st = tinyi_energon_one(e, e->from[0].peer, 1, 3, e->ack, sizeof e->ack, 0);
        if (st) return st;
    }
    tinyi_energon_stir(e);
    from = tiny_now_ns();
    while (!e->failed && out->full) tinyi_energon_rest(e, !e->d.blocking);
    e->count.send_ns += tiny_now_ns() - from;
    if (e->failed) return tinyi_energon_answer(e);
    if (tinyi_le32(e->now.head) == TINYI_ENERGON_STOP) {
        memcpy(out->head, e->now.head, sizeof out->head);
        out->n_body = 0;
    } else {
        in = tinyi_energon_open_batch(e, &b);
        if (!in) {
            (void)tinyi_energon_refuse(e, e->from[0].peer, "lengths that do not fit their batch");
            return tinyi_energon_answer(e);
        }
        tinyi_energon_unlock(e);
        st = e->d.run(e->d.user, &b, in, out->body + (last ? 0 : 4 * (size_t)b.n));
        if (!st) tinyi_energon_finish(e, &b, out);
        tinyi_energon_lock(e);
        if (st) {
            (void)tinyi_energon_fail(e, st, tiny_ctx_message(e->ctx));
            return tinyi_energon_answer(e);
        }
        if (e->net->virtual_clock) e->clock += (uint64_t)b.ns;
        e->count.batches++;
        e->count.texts += (uint64_t)b.n;
        e->count.rows += (uint64_t)b.valid;
    }
    out->number = e->next;
    out->at = e->clock;
    out->full = 1;
    e->next++;
    tinyi_energon_stir(e);
    return TINY_OK;
}

TINY_API tiny_status tllm_energon_follow(tllm_energon *e)
{
    tiny_status st;
    int stops = 0;
    if (!e) return TINY_E_ARGUMENT;
    if (!e->rank) return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "rank 0 leads a pipeline: it cannot follow");
    tinyi_energon_lock(e);
    st = tinyi_energon_answer(e);
    while (!st && !stops) {
        uint64_t from;
        st = tinyi_energon_compute(e);
        stops = !st && tinyi_le32(e->now.head) == TINYI_ENERGON_STOP;
        from = tiny_now_ns();
        while (!st && !e->failed && (stops || e->d.blocking) && e->sent < e->next)
            tinyi_energon_rest(e, !e->d.blocking);
        if (!st && e->failed) st = tinyi_energon_answer(e);
        if (!st && e->d.blocking && !stops && e->stage < e->d.stages - 1)   /* until the next stage takes it */
            st = tinyi_energon_one(e, e->to[0].peer, 0, 3, e->ack, sizeof e->ack, 0);
        if (e->d.blocking) e->count.send_ns += tiny_now_ns() - from;
    }
    tinyi_energon_unlock(e);
    return st;
}

TINY_API tllm_energon_counts tllm_energon_count(tllm_energon *e)
{
    tllm_energon_counts c;
    memset(&c, 0, sizeof c);
    if (!e) return c;
    tinyi_energon_lock(e);
    c = e->count;
    tinyi_energon_unlock(e);
    return c;
}
TINY_API uint64_t tllm_energon_clock(tllm_energon *e)
{
    uint64_t clock;
    if (!e) return 0;
    tinyi_energon_lock(e);
    clock = e->clock;
    tinyi_energon_unlock(e);
    return clock;
}

TINY_API double tllm_energon_makespan(const double *take, tiny_idx n, int stages, double comm, int blocking)
{
    double ready[TINY_NET_RANKS + 1];       /* of each stage: when it may begin its next batch */
    double end = 0;
    tiny_idx i;
    int s;
    if (!take || n < 1 || stages < 1 || stages > TINY_NET_RANKS || !(comm >= 0) || blocking < 0 || blocking > 2)
        return (double)NAN;
    for (s = 0; s <= stages; s++) ready[s] = 0;
    for (i = 0; i < n; i++) {
        double start = ready[0];
        for (s = 0; s < stages; s++) {
            end = start + take[i * stages + s];
            ready[s] = end;
            if (s + 1 == stages) break;
            if (blocking == 1) ready[s] = start = TINYI_MAX(end, ready[s + 1]) + comm;
            else start = TINYI_MAX(end + comm, ready[s + 1]);
            if (blocking == 2) ready[s] = start + comm;
        }
    }
    return end;
}
