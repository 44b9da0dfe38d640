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
 * Blocking the receiver of a batch answers with 8 bytes when it takes the batch; the sender computes nothing before.
 *          A single stage does not answer: its link to rank 0 carries results already.
 * Failure  a rank that fails closes its net. Every rank watches rank 0 too, and rank 0 all ranks' results; so each
 *          learns of it from a neighbour or from rank 0.
 * Clock    on a virtual clock a batch leaves at the clock of its computation; its time of arrival is the body's. */
#include "llm/serve/energon_inside.h"
#include "core/bytes.h"
#include "core/hash_inside.h"
#include "core/time.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a pipeline needs a net, the bytes of rows, and a function for "
                          "the stage");
    if (S < 1 || T < 1 || S > TINY_NET_RANKS || T > 16 || d->net->world != 1 + S * T)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d stages of %d ranks and a controller are %d ranks, the net has "
                          "%d", S, T, 1 + S * T, d->net->world);
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
    size_t most = 0, bytes;
    tiny_idx i;
    int s, ok = 1;
    for (s = 0; s <= S; s++) {              /* a row for each token, of the last stage for each text */
        ok = ok && tinyi_size_mul(e->row[s], (size_t)TINYI_MAX(e->d.tokens, s == S ? e->d.texts : 0), &bytes);
        most = ok ? TINYI_MAX(most, bytes) : most;
    }
    if (!ok || !tinyi_size_add(most, 4 * (size_t)e->d.texts, &e->room)) {
        (void)tinyi_fail(e->ctx, TINY_E_OVERFLOW, "batches of %td tokens with rows of these sizes are too large",
                         e->d.tokens);
        return 0;
    }
    e->length = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.texts, sizeof *e->length);
    e->token = (int32_t *)tinyi_alloc(e->ctx, (size_t)e->d.tokens, sizeof *e->token);
    ok = e->length && e->token;
    if (e->stage >= 0) {
        for (i = 0; i < e->d.depth && ok; i++)
            ok = tinyi_energon_room(e, &e->in[i]) && tinyi_energon_room(e, &e->out[i]);
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
        (void)snprintf(e->net->says, sizeof e->net->says, "rank %d has not enough memory", e->rank);
        (void)tinyi_net_end(ctx, e->net, st);
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
    while (!st && waits && q->state != 3 && !e->failed && e->stopping != 4) tinyi_energon_rest(e, 1);
    if (!st && q->state != 3) st = tinyi_energon_answer(e);
    if (!st && waits && q->state != 3)      /* another thread called stop meanwhile */
        st = tinyi_fail(e->ctx, TINY_E_ARGUMENT, "request %llu was dropped by the stop", (unsigned long long)uid);
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
    if (e->d.blocking && e->d.stages > 1 && tinyi_le32(e->now.head) == TINYI_ENERGON_BATCH &&
        (e->stage || !e->column)) {
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
