/* src/llm/serve/energon_move.c - the messages of a pipeline: what one thread moves between queues and links, the
 * batches that rank 0 forms, and the results that it puts together. energon.c has the paper and the protocol. */
#include "llm/serve/energon_inside.h"
#include "core/bytes.h"
#include "core/hash_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#if TINYI_HAVE_PTHREAD
TINYI_FN void tinyi_energon_lock(tllm_energon *e) { (void)pthread_mutex_lock(&e->lock); }
TINYI_FN void tinyi_energon_unlock(tllm_energon *e) { (void)pthread_mutex_unlock(&e->lock); }
#else
TINYI_FN void tinyi_energon_lock(tllm_energon *e) { (void)e; }
TINYI_FN void tinyi_energon_unlock(tllm_energon *e) { (void)e; }
#endif
/* Something changed: threads that wait look again. Under the lock. */
TINYI_FN void tinyi_energon_stir(tllm_energon *e)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_broadcast(&e->wake);
#endif
    e->net->wake(e->net);
}

/* ---- failures; all of this part under the lock ------------------------------------------------------------------- */

/* says: NULL, the net has the sentence */
TINYI_FN tiny_status tinyi_energon_fail(tllm_energon *e, tiny_status st, const char *says)
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
TINYI_FN tiny_status tinyi_energon_answer(tllm_energon *e)
{
    return e->failed ? tinyi_fail(e->ctx, e->failed, "%s", e->says) : TINY_OK;
}
TINYI_FN int tinyi_energon_rank(const tllm_energon *e, int stage, int column)
{
    return stage < 0 || stage >= e->d.stages ? 0 : 1 + stage * e->d.tensor + column;
}

/* ---- one step of moving ------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_energon_message(tiny_message *m, unsigned kind, void *data, size_t n, uint64_t at)
{
    memset(m, 0, sizeof *m);
    m->tag = (uint64_t)kind << 8 | TINYI_ENERGON_TAG;
    m->data = data;
    m->n = n;
    m->at = at;
}

/* 1: the message is whole. until: the earliest time at which a message arrives that is on its way. */
TINYI_FN int tinyi_energon_step(tllm_energon *e, int peer, int sends, tiny_message *m, uint64_t *until)
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

TINYI_FN tiny_status tinyi_energon_refuse(tllm_energon *e, int peer, const char *what)
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
    if (!moved && !e->failed && (e->next > e->done || e->stopping == 3) &&
        tiny_now_ns() - e->progress > e->d.timeout_ns) {
        char says[120];
        (void)snprintf(says, sizeof says, "batch %llu did not come back until the time-out",
                       (unsigned long long)e->done);
        (void)tinyi_energon_fail(e, TINY_E_TIMEOUT, says);
    }
    return moved;
}

/* One pass over all links, under the lock. */
TINYI_FN int tinyi_energon_turn(tllm_energon *e, int receives, uint64_t *until)
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
TINYI_FN void *tinyi_energon_main(void *arg)
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
TINYI_FN void tinyi_energon_rest(tllm_energon *e, int receives)
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
TINYI_FN void tinyi_energon_gate_make(tllm_energon *e)
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
