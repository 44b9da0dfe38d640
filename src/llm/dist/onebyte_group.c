/* src/llm/dist/onebyte_group.c - one-byte fine-tuning on several machines: lists, records, joining, the log
 *
 * List     of a machine to rank 0: machine u8, count u8, step u16 (its lower bits), then room for `samples` codes of 1
 *          byte (floats: 4). A count above 200 is a request: to join by replay or with theta, to get theta, to leave.
 * Record   of rank 0 to all: kind u8, machines u64 (bit m: machine m is in it), codes of all machines (none where there
 *          is none), and the hash of theta before the step when step mod check is 0.
 * Theta    step u64, the codes of the median, numbers.
 * Order    messages of two ranks keep their order, and rank 0 sends each record once to each machine. So a machine
 *          knows the size of what comes next from its own step. Rank 0 never waits for a send: a slow machine gets its
 *          records later, from the log.
 * Log      "ONEBYTE1", digest of the description u64, world u16, samples u16, 4 zero bytes; then the records. */
#include "llm/dist/onebyte_inside.h"
#include "core/bytes.h"
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_OB_LEAVE = 252, TINYI_OB_ASK, TINYI_OB_STATE, TINYI_OB_REPLAY }; /* requests, as counts of lists */
enum { TINYI_OB_CODES, TINYI_OB_THETA, TINYI_OB_END };                        /* kinds of records */
enum { TINYI_OB_LIST_TAG = 'l', TINYI_OB_RECORD_TAG = 'r', TINYI_OB_STATE_TAG = 's' };

static size_t tinyi_ob_width(const tllm_onebyte *o) { return o->desc.floats ? 4 : 1; }
static size_t tinyi_ob_list(const tllm_onebyte *o) { return 4 + (size_t)o->desc.samples * tinyi_ob_width(o); }
static size_t tinyi_ob_state(const tllm_onebyte *o) { return 12 + TINYI_ONEBYTE_RING + 4 * o->n_all; }
static int tinyi_ob_hashed(const tllm_onebyte *o, uint64_t step) { return step % (uint64_t)o->desc.check == 0; }
static size_t tinyi_ob_record(const tllm_onebyte *o, int world, uint64_t step)
{
    return TINYI_ONEBYTE_RECORD + (size_t)world * (size_t)o->desc.samples * tinyi_ob_width(o) +
           (tinyi_ob_hashed(o, step) ? 8 : 0);
}
static size_t tinyi_ob_place(const tllm_onebyte *o, uint64_t step) /* of a record in the log */
{
    return TINYI_ONEBYTE_LOG_HEAD + (size_t)step * tinyi_ob_record(o, o->world, 1 - (uint64_t)(o->desc.check == 1)) -
           (o->desc.check == 1 ? 8 * (size_t)step : 0) +
           8 * (size_t)((step + (uint64_t)o->desc.check - 1) / (uint64_t)o->desc.check);
}
static void tinyi_ob_put(const tllm_onebyte *o, unsigned char *at, float g)
{
    if (o->desc.floats) tinyi_put_le32(at, tinyi_f32_bits(g == g ? g : tinyi_bits_f32(0x7fc00000u)));
    else *at = tllm_onebyte_encode((double)g);
}
static float tinyi_ob_get(const tllm_onebyte *o, const unsigned char *at)
{
    return o->desc.floats ? tinyi_bits_f32(tinyi_le32(at)) : tllm_onebyte_decode(*at);
}

static void tinyi_ob_message(const tllm_onebyte *o, tiny_message *m, int tag, void *data, size_t n)
{
    memset(m, 0, sizeof *m);
    m->tag = (o->digest & ~(uint64_t)255) | (unsigned)tag;
    m->data = data;
    m->n = n;
    m->at = o->clock;
}

/* The transport failed: the group ends for this rank. */
static tiny_status tinyi_ob_broken(tllm_onebyte *o, tiny_status st)
{
    (void)tinyi_net_end(o->ctx, o->desc.net, st);
    return tinyi_fail(o->ctx, st, "one byte: %s%s", o->desc.net->says,
                      st == TINY_E_PROTOCOL ? " (do all machines have the same description?)" : "");
}

TINYI_FN tiny_status tinyi_onebyte_group_open(tllm_onebyte *o)
{
    const size_t list = tinyi_ob_list(o), record = tinyi_ob_record(o, o->world, 0),
                 peers = o->rank || o->world == 1 ? 0 : (size_t)o->world;
    unsigned char *at;
    size_t r;
    o->memory = (unsigned char *)tinyi_alloc(o->ctx, list + record + peers * (2 * list + record), 1);
    if (!o->memory) return tiny_ctx_status(o->ctx);
    o->list = o->memory;
    o->record = at = o->memory + list;
    at += record;
    if (!o->rank) {
        o->log = (unsigned char *)tinyi_alloc(o->ctx, 4096, 1);
        if (!o->log) return tiny_ctx_status(o->ctx);
        o->cap_log = 4096;
        o->n_log = TINYI_ONEBYTE_LOG_HEAD;
        memcpy(o->log, "ONEBYTE1", 8);
        tinyi_put_le(o->log + 8, o->digest, 8);
        tinyi_put_le16(o->log + 16, (unsigned)o->world);
        tinyi_put_le16(o->log + 18, (unsigned)o->desc.samples);
        tinyi_put_le32(o->log + 20, 0);
    }
    if (!peers) return TINY_OK;
    o->peer = (tinyi_onebyte_peer *)tinyi_alloc(o->ctx, peers, sizeof *o->peer);
    if (!o->peer) return tiny_ctx_status(o->ctx);
    memset(o->peer, 0, peers * sizeof *o->peer);
    for (r = 0; r < peers; r++, at += 2 * list + record) {
        o->peer[r].list = at;
        o->peer[r].held = at + list;
        o->peer[r].record = at + 2 * list;
        tinyi_ob_message(o, &o->peer[r].in, TINYI_OB_LIST_TAG, at, list);
    }
    return TINY_OK;
}
TINYI_FN void tinyi_onebyte_group_close(tllm_onebyte *o)
{
    tiny_free(o->ctx, o->memory);
    tiny_free(o->ctx, o->log);
    tiny_free(o->ctx, o->peer);
    tiny_free(o->ctx, o->state);
}

/* ---- theta as bytes ---------------------------------------------------------------------------------------------- */

static void tinyi_ob_state_put(const tllm_onebyte *o, unsigned char *at)
{
    size_t t, i;
    tinyi_put_le(at, o->step, 8);
    tinyi_put_le16(at + 8, o->n_ring);
    tinyi_put_le16(at + 10, o->at_ring);
    memcpy(at + 12, o->ring, TINYI_ONEBYTE_RING);
    at += 12 + TINYI_ONEBYTE_RING;
    for (t = 0; t < o->desc.n_tensor; t++)
        for (i = 0; i < o->n_of[t]; i++, at += 4) tinyi_put_le32(at, tinyi_f32_bits(o->theta[t][i]));
}
static tiny_status tinyi_ob_state_take(tllm_onebyte *o, const unsigned char *at)
{
    size_t t, i;
    const unsigned n = tinyi_le16(at + 8), next = tinyi_le16(at + 10);
    for (i = 0; i < o->n_all; i++) {
        const uint32_t bits = tinyi_le32(at + 12 + TINYI_ONEBYTE_RING + 4 * i);
        if ((bits & 0x7f800000u) == 0x7f800000u)
            return tinyi_fail(o->ctx, TINY_E_PROTOCOL, "one byte: number %zu of the theta of rank 0 is not finite", i);
    }
    if (n > TINYI_ONEBYTE_RING || next >= TINYI_ONEBYTE_RING || (n < TINYI_ONEBYTE_RING && next != n))
        return tinyi_fail(o->ctx, TINY_E_PROTOCOL, "one byte: the codes next to the theta of rank 0 are invalid");
    memset(o->histogram, 0, sizeof o->histogram);
    o->n_ring = o->at_ring = 0;
    for (i = 0; i < n; i++) /* the oldest first */
        tinyi_onebyte_remember(o, at[12 + (next + TINYI_ONEBYTE_RING - n + i) % TINYI_ONEBYTE_RING]);
    o->step = tinyi_le64(at);
    at += 12 + TINYI_ONEBYTE_RING;
    for (t = 0; t < o->desc.n_tensor; t++)
        for (i = 0; i < o->n_of[t]; i++, at += 4) o->theta[t][i] = tinyi_bits_f32(tinyi_le32(at));
    return TINY_OK;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Applies the codes of a record of `world` machines; n, machines: how many took part. */
static tiny_status tinyi_ob_apply(tllm_onebyte *o, const unsigned char *record, int world, int *n, int *machines)
{
    const uint64_t who = tinyi_le64(record + 1);
    const size_t width = tinyi_ob_width(o);
    size_t k = 0;
    int m, s;
    *n = *machines = 0;
    for (m = 0; m < world; m++) {
        *machines += (int)(who >> m & 1);
        for (s = 0; s < o->desc.samples && who >> m & 1; s++) {
            const size_t id = (size_t)m * (size_t)o->desc.samples + (size_t)s;
            const float g = tinyi_ob_get(o, record + TINYI_ONEBYTE_RECORD + id * width);
            if (g != g) continue;
            o->samples[k] = (uint32_t)id;
            o->g[k++] = g;
        }
    }
    *n = (int)k;
    return tinyi_onebyte_update(o, o->samples, o->g, k);
}

/* Room for one more record at the end of the log. */
static tiny_status tinyi_ob_log(tllm_onebyte *o, size_t n)
{
    unsigned char *more;
    size_t room = o->cap_log;
    if (n <= room - o->n_log) return TINY_OK;
    while (room - o->n_log < n) {
        if (room > SIZE_MAX / 2) return tinyi_fail(o->ctx, TINY_E_OVERFLOW, "one byte: the log is too long");
        room *= 2;
    }
    more = (unsigned char *)tinyi_alloc(o->ctx, room, 1);
    if (!more) return tiny_ctx_status(o->ctx);
    memcpy(more, o->log, o->n_log);
    tiny_free(o->ctx, o->log);
    o->log = more;
    o->cap_log = room;
    return TINY_OK;
}

TINY_API const void *tllm_onebyte_log(const tllm_onebyte *o, size_t *n_bytes)
{
    if (n_bytes) *n_bytes = o && o->log ? o->n_log : 0;
    return o ? o->log : NULL;
}

TINY_API tiny_status tllm_onebyte_replay(tllm_onebyte *o, const void *log, size_t n_bytes)
{
    const unsigned char *at = (const unsigned char *)log;
    tiny_status st = TINY_OK;
    int world, n, machines;
    size_t left;
    if (!o) return TINY_E_ARGUMENT;
    if (!log) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: the log is NULL");
    if (o->step || o->greeted || o->rank)
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT,
                          o->rank ? "one byte: rank 0 replays a log and sends it to the others"
                                  : "one byte: a log is replayed before the first step");
    if (n_bytes < TINYI_ONEBYTE_LOG_HEAD || memcmp(at, "ONEBYTE1", 8))
        return tinyi_fail(o->ctx, TINY_E_FORMAT, "one byte: these %zu bytes are not a log", n_bytes);
    world = tinyi_le16(at + 16);
    if (tinyi_le64(at + 8) != o->digest || tinyi_le16(at + 18) != o->desc.samples)
        return tinyi_fail(o->ctx, TINY_E_FORMAT, "one byte: this log is of a run with another description");
    if (world < 1 || world != o->world)
        return tinyi_fail(o->ctx, TINY_E_FORMAT, "one byte: this log is of %d machines, the group has %d", world,
                          o->world);
    at += TINYI_ONEBYTE_LOG_HEAD;
    left = n_bytes - TINYI_ONEBYTE_LOG_HEAD;
    while (left && !st) {
        const size_t size = tinyi_ob_record(o, world, o->step);
        if (left < size)
            return tinyi_fail(o->ctx, TINY_E_FORMAT, "one byte: the log ends within step %llu",
                              (unsigned long long)o->step);
        if (at[0] != TINYI_OB_CODES || (world < 64 && tinyi_le64(at + 1) >> world))
            return tinyi_fail(o->ctx, TINY_E_FORMAT, "one byte: step %llu of the log is invalid",
                              (unsigned long long)o->step);
        if (tinyi_ob_hashed(o, o->step) && tinyi_le64(at + size - 8) != tllm_onebyte_hash(o))
            return tinyi_fail(
                o->ctx, TINY_E_FORMAT,
                "one byte: at step %llu theta differs from that of the log: did it begin with other numbers?",
                (unsigned long long)o->step);
        st = tinyi_ob_log(o, size);
        if (st) break;
        memcpy(o->log + o->n_log, at, size);
        st = tinyi_ob_apply(o, at, world, &n, &machines);
        if (!st) o->n_log += size;
        at += size;
        left -= size;
    }
    return st;
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

static void tinyi_ob_drop(tllm_onebyte *o, tinyi_onebyte_peer *p)
{
    p->gone = 1;
    p->joined = 0;
    if (p->wants == 2) o->n_state--;
    p->wants = 0;
}

static void tinyi_ob_hold(const tllm_onebyte *o, tinyi_onebyte_peer *p, const unsigned char *codes, int count)
{
    const size_t width = tinyi_ob_width(o);
    int s;
    for (s = 0; s < o->desc.samples; s++)
        if (s < count) memcpy(p->held + (size_t)s * width, codes + (size_t)s * width, width);
        else tinyi_ob_put(o, p->held + (size_t)s * width, tinyi_bits_f32(0x7fc00000u));
    p->have = count > 0 ? 1 : -1; /* -1: it has none for this step */
}

/* a list of rank r */
static void tinyi_ob_take(tllm_onebyte *o, int r)
{
    tinyi_onebyte_peer *p = &o->peer[r];
    const int count = p->list[1];
    const unsigned behind = ((unsigned)o->step - tinyi_le16(p->list + 2)) & 65535u;
    if (p->list[0] != r || (!p->joined && count < TINYI_OB_LEAVE) || (p->joined && count >= TINYI_OB_STATE) ||
        (count > o->desc.samples && count < TINYI_OB_LEAVE) || (count < TINYI_OB_LEAVE && !behind && p->have) ||
        (count < TINYI_OB_LEAVE && behind >= 32768u)) {
        o->refused++; /* a list for another machine, or a second one */
        if (p->joined && !p->have) tinyi_ob_hold(o, p, NULL, 0);
        return;
    }
    if (count == TINYI_OB_LEAVE) {          /* the end is its answer: what was sent before has then been read */
        p->late = 1;
        if (!p->told) p->told = -1;
    } else if (count == TINYI_OB_ASK) {
        p->late = 1;
        if (!p->wants) p->wants = 1;
    } else if (count >= TINYI_OB_STATE) {
        p->joined = 1;
        p->late = o->step > 0;
        p->wants = count == TINYI_OB_STATE;
    } else if (!behind) {
        tinyi_ob_hold(o, p, p->list + 4, count);
        p->late = 0;
    } else if (behind == 1) p->late = 0; /* the step was closed a little too early for it */
}

/* Takes a copy of theta for the ranks that want it; one copy at a time. */
static tiny_status tinyi_ob_offer(tllm_onebyte *o)
{
    int r, wanted = 0;
    for (r = 1; r < o->world; r++) wanted += o->peer[r].joined && o->peer[r].wants == 1;
    if (!wanted || o->n_state) return TINY_OK;
    if (!o->state) o->state = (unsigned char *)tinyi_alloc(o->ctx, tinyi_ob_state(o), 1);
    if (!o->state) return tiny_ctx_status(o->ctx);
    tinyi_ob_state_put(o, o->state);
    o->state_step = o->step;
    for (r = 1; r < o->world; r++)
        if (o->peer[r].joined && o->peer[r].wants == 1) {
            o->peer[r].wants = 2;
            o->n_state++;
        }
    return TINY_OK;
}

/* Prepares what rank r gets next. 0: nothing. */
static int tinyi_ob_next(tllm_onebyte *o, tinyi_onebyte_peer *p)
{
    const size_t size = tinyi_ob_record(o, o->world, p->cursor);
    if (p->phase == 1) {
        p->phase = 2;
        tinyi_ob_message(o, &p->out, TINYI_OB_STATE_TAG, o->state, tinyi_ob_state(o));
        return 1;
    }
    if (p->told == -1) {
        if (p->wants == 2) o->n_state--;
        p->wants = 0;
        p->told = 3;
        memset(p->record, 0, size);
        p->record[0] = TINYI_OB_END;
    } else if (p->wants == 2 || (p->cursor == o->step && o->ended && !p->told && !p->wants)) {
        memset(p->record, 0, size);
        p->record[0] = p->wants ? TINYI_OB_THETA : TINYI_OB_END;
        if (p->wants) p->phase = 1;
        else p->told = 1;
    } else if (p->cursor < o->step && !p->wants) {
        memcpy(p->record, o->log + tinyi_ob_place(o, p->cursor), size);
        p->cursor++;
    } else return 0;
    tinyi_ob_message(o, &p->out, TINYI_OB_RECORD_TAG, p->record, size);
    return 1;
}
static void tinyi_ob_sent(tllm_onebyte *o, tinyi_onebyte_peer *p)
{
    p->sending = 0;
    if (p->told == 1) p->told = 2;
    if (p->told == 3) tinyi_ob_drop(o, p);
    if (p->phase != 2) return;
    p->phase = p->wants = 0;
    p->cursor = o->state_step;
    o->n_state--;
}

/* Moves messages as far as possible. next: when the first of those on their way arrives */
static tiny_status tinyi_ob_poll(tllm_onebyte *o, uint64_t *next)
{
    tiny_net *net = o->desc.net;
    int r;
    *next = UINT64_MAX;
    for (r = 1; r < o->world; r++) {
        tinyi_onebyte_peer *p = &o->peer[r];
        while (!p->gone) {
            const tiny_status st = net->recv(net, r, &p->in);
            if (st == TINY_E_PEER) {
                tinyi_ob_drop(o, p);
                break;
            }
            if (st) return tinyi_ob_broken(o, st);
            if (!p->in.whole) {
                if (!net->virtual_clock && p->in.at) *next = TINYI_MIN(*next, p->in.at);
                break;
            }
            if (net->virtual_clock) o->clock = TINYI_MAX(o->clock, p->in.at);
            tinyi_ob_take(o, r);
            tinyi_ob_message(o, &p->in, TINYI_OB_LIST_TAG, p->list, tinyi_ob_list(o));
        }
        while (p->joined && !p->gone) {
            tiny_status st;
            if (!p->sending && !tinyi_ob_next(o, p)) break;
            p->sending = 1;
            st = net->send(net, r, &p->out);
            if (st == TINY_E_PEER) {
                tinyi_ob_drop(o, p);
                break;
            }
            if (st) return tinyi_ob_broken(o, st);
            if (!p->out.whole) break;
            tinyi_ob_sent(o, p);
        }
    }
    return TINY_OK;
}

/* Rank 0 waits for one of three things. *done 0: the time is over */
enum { TINYI_OB_FOR_START, TINYI_OB_FOR_LISTS, TINYI_OB_FOR_END };
static int tinyi_ob_ready(const tllm_onebyte *o, int what)
{
    int r, here = 1, open = 0;
    for (r = 1; r < o->world; r++) {
        const tinyi_onebyte_peer *p = &o->peer[r];
        here += p->joined || p->gone;
        if (what == TINYI_OB_FOR_LISTS) open += p->joined && !p->late && !p->have;
        if (what == TINYI_OB_FOR_END) open += p->joined && (p->told != 2 || p->wants);
    }
    return what == TINYI_OB_FOR_START ? here >= o->desc.least : !open;
}
static tiny_status tinyi_ob_wait(tllm_onebyte *o, int what, uint64_t ns, int *done)
{
    tiny_net *net = o->desc.net;
    const uint64_t from = tiny_now_ns(), end = ns > UINT64_MAX - from ? UINT64_MAX : from + ns;
    for (;;) {
        const uint64_t seen = net ? net->changes(net) : 0;
        uint64_t next = UINT64_MAX;
        tiny_status st = o->world > 1 ? tinyi_ob_poll(o, &next) : TINY_OK;
        if (!st && what == TINYI_OB_FOR_END && o->world > 1) st = tinyi_ob_offer(o);
        *done = st || o->world == 1 || tinyi_ob_ready(o, what);
        if (st || *done || tiny_now_ns() >= end) return st;
        if (o->ctx->desc.cancel && o->ctx->desc.cancel(o->ctx->desc.user))
            return tinyi_fail(o->ctx, TINY_E_CANCELLED, "one byte: cancelled while rank 0 waited");
        net->pause(net, seen, TINYI_MIN(next, end));
    }
}

/* before the first step, or the end of a run that a log holds whole */
static tiny_status tinyi_ob_start(tllm_onebyte *o)
{
    int done = 1;
    tiny_status st = o->greeted ? TINY_OK : tinyi_ob_wait(o, TINYI_OB_FOR_START, o->desc.lost_ns, &done);
    if (!st && !done)
        return tinyi_fail(o->ctx, TINY_E_TIMEOUT, "one byte: fewer than %d machines have joined in %.3g s",
                          o->desc.least, 1e-9 * (double)o->desc.lost_ns);
    if (!st) o->greeted = 1;
    return st;
}

/* The codes of this machine, from at on. */
static tiny_status tinyi_ob_compute(tllm_onebyte *o, unsigned char *at, tllm_onebyte_report *r)
{
    tiny_status st = TINY_OK;
    double sum = 0.0;
    int s, done;
    for (s = 0; s < o->desc.samples && !st; s++) {
        float g = 0.0f;
        double loss = 0.0;
        st = tllm_onebyte_gradient(o, (uint32_t)(o->rank * o->desc.samples + s), &g, &loss);
        tinyi_ob_put(o, at + (size_t)s * tinyi_ob_width(o), g);
        r->none += g != g;
        sum += loss;
        if (!st && !o->rank && o->world > 1) st = tinyi_ob_wait(o, TINYI_OB_FOR_LISTS, 0, &done);
    }
    r->loss = sum / o->desc.samples;
    return st;
}

static tiny_status tinyi_ob_lead(tllm_onebyte *o, tllm_onebyte_report *r)
{
    const size_t width = tinyi_ob_width(o), part = (size_t)o->desc.samples * width,
                 size = tinyi_ob_record(o, o->world, o->step);
    uint64_t who = 1, next;
    unsigned char *at;
    int m, done = 1;
    tiny_status st = tinyi_ob_start(o);
    if (!st) st = tinyi_ob_log(o, size);
    if (st) return st;
    if (o->world > 1) st = tinyi_ob_offer(o);
    at = o->log + o->n_log;
    memset(at, 0, size);
    if (!st) st = tinyi_ob_compute(o, at + TINYI_ONEBYTE_RECORD, r);
    if (!st && o->world > 1) st = tinyi_ob_wait(o, TINYI_OB_FOR_LISTS, o->desc.wait_ns, &done);
    if (st) return st;
    for (m = 1; m < o->world; m++) {
        tinyi_onebyte_peer *p = &o->peer[m];
        if (p->joined && !p->have) {
            p->late = 1;
            r->late++;
        }
        if (p->joined && p->have > 0) {
            who |= (uint64_t)1 << m;
            memcpy(at + TINYI_ONEBYTE_RECORD + (size_t)m * part, p->held, part);
        } else
            for (done = 0; done < o->desc.samples; done++)
                tinyi_ob_put(o, at + TINYI_ONEBYTE_RECORD + (size_t)m * part + (size_t)done * width,
                             tinyi_bits_f32(0x7fc00000u));
        p->have = 0;
    }
    tinyi_put_le(at + 1, who, 8);
    if (tinyi_ob_hashed(o, o->step)) tinyi_put_le(at + size - 8, tllm_onebyte_hash(o), 8);
    st = tinyi_ob_apply(o, at, o->world, &r->gradients, &r->machines);
    if (st) return st;
    o->n_log += size;
    r->refused = o->refused;                /* since the last report */
    o->refused = 0;
    if (o->world > 1) st = tinyi_ob_offer(o);
    return st || o->world == 1 ? st : tinyi_ob_poll(o, &next);
}

TINY_API tiny_status tllm_onebyte_end(tllm_onebyte *o)
{
    int done = 1;
    tiny_status st;
    if (!o) return TINY_E_ARGUMENT;
    if (o->rank) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: rank 0 ends the run, not rank %d", o->rank);
    st = tinyi_ob_start(o);
    if (st) return st;
    o->ended = 1;
    if (o->world > 1) st = tinyi_ob_wait(o, TINYI_OB_FOR_END, o->desc.lost_ns, &done);
    if (st || done) return st;
    return tinyi_fail(o->ctx, TINY_E_TIMEOUT, "one byte: a machine has not taken the last records in %.3g s",
                      1e-9 * (double)o->desc.lost_ns);
}

/* ---- the other ranks --------------------------------------------------------------------------------------------- */

/* Sends (out) or receives a whole message; wait 0: only what is there already. *whole 0: it has not begun */
static tiny_status tinyi_ob_move(tllm_onebyte *o, tiny_message *m, int out, int wait, int *whole)
{
    tiny_net *net = o->desc.net;
    const uint64_t from = tiny_now_ns(),
                   end = o->desc.lost_ns > UINT64_MAX - from ? UINT64_MAX : from + o->desc.lost_ns;
    for (;;) {
        const uint64_t seen = net->changes(net);
        const tiny_status st = out ? net->send(net, 0, m) : net->recv(net, 0, m);
        uint64_t until = end;
        if (st) return tinyi_ob_broken(o, st);
        *whole = m->whole;
        if (m->whole || (!wait && !m->begun)) break;
        if (tiny_now_ns() >= end) {
            (void)snprintf(net->says, sizeof net->says, "rank 0 has sent nothing for %.3g s",
                           1e-9 * (double)o->desc.lost_ns);
            net->gone = 1;
            return tinyi_ob_broken(o, TINY_E_TIMEOUT);
        }
        if (o->ctx->desc.cancel && o->ctx->desc.cancel(o->ctx->desc.user))
            return tinyi_fail(o->ctx, TINY_E_CANCELLED, "one byte: cancelled while rank %d waited for rank 0", o->rank);
        if (!out && !net->virtual_clock && m->at) until = TINYI_MIN(until, m->at);
        net->pause(net, seen, until);
    }
    if (*whole && !out && net->virtual_clock) o->clock = TINYI_MAX(o->clock, m->at);
    return TINY_OK;
}

static tiny_status tinyi_ob_tell(tllm_onebyte *o, int count)
{
    tiny_message m;
    int whole;
    o->list[0] = (unsigned char)o->rank;
    o->list[1] = (unsigned char)count;
    tinyi_put_le16(o->list + 2, (unsigned)(o->step & 65535u));
    tinyi_ob_message(o, &m, TINYI_OB_LIST_TAG, o->list, tinyi_ob_list(o));
    return tinyi_ob_move(o, &m, 1, 1, &whole);
}

static tiny_status tinyi_ob_listen(tllm_onebyte *o, int wait)
{
    int whole = 0;
    tiny_status st = TINY_OK;
    if (o->fed) return TINY_OK;
    tinyi_ob_message(o, &o->in, TINYI_OB_RECORD_TAG, o->record, tinyi_ob_record(o, o->world, o->step));
    st = tinyi_ob_move(o, &o->in, 0, wait, &whole);
    o->fed = !st && whole;
    return st;
}

/* after the record that announces it */
static tiny_status tinyi_ob_restore(tllm_onebyte *o)
{
    const size_t n = tinyi_ob_state(o);
    unsigned char *bytes = (unsigned char *)tinyi_alloc(o->ctx, n, 1);
    tiny_message m;
    int whole;
    tiny_status st;
    if (!bytes) return tiny_ctx_status(o->ctx);
    tinyi_ob_message(o, &m, TINYI_OB_STATE_TAG, bytes, n);
    st = tinyi_ob_move(o, &m, 0, 1, &whole);
    if (!st) st = tinyi_ob_state_take(o, bytes);
    tiny_free(o->ctx, bytes);
    return st;
}

/* Acts on the record in hand. The records that are sent before theta arrives only count steps. */
static tiny_status tinyi_ob_follow_record(tllm_onebyte *o, tllm_onebyte_report *r)
{
    int asked = 0;
    for (;;) {
        tiny_status st;
        const int kind = o->record[0];
        const size_t size = tinyi_ob_record(o, o->world, o->step);
        o->fed = 0;
        if (kind == TINYI_OB_END) {
            o->ended = r->ended = 1;
            return TINY_OK;
        }
        if (kind == TINYI_OB_THETA) {
            r->restored = 1;
            return tinyi_ob_restore(o);
        }
        if (kind != TINYI_OB_CODES)
            return tinyi_fail(o->ctx, TINY_E_PROTOCOL, "one byte: rank 0 sent a record of kind %d", kind);
        if (!asked && (!tinyi_ob_hashed(o, o->step) || tinyi_le64(o->record + size - 8) == tllm_onebyte_hash(o)))
            return tinyi_ob_apply(o, o->record, o->world, &r->gradients, &r->machines);
        st = asked ? TINY_OK : tinyi_ob_tell(o, TINYI_OB_ASK);
        asked = 1;
        o->step++;
        if (!st) st = tinyi_ob_listen(o, 1);
        if (st) return st;
    }
}

static tiny_status tinyi_ob_follow(tllm_onebyte *o, tllm_onebyte_report *r)
{
    tiny_status st = TINY_OK;
    if (!o->greeted) {
        st = tinyi_ob_tell(o, o->desc.join == TLLM_ONEBYTE_STATE ? TINYI_OB_STATE : TINYI_OB_REPLAY);
        o->greeted = 1;
        if (!st && o->desc.join == TLLM_ONEBYTE_STATE) {
            st = tinyi_ob_listen(o, 1);
            return st ? st : tinyi_ob_follow_record(o, r);
        }
    }
    if (!st) st = tinyi_ob_listen(o, 0);
    if (!st && o->fed) r->skipped = 1;
    else if (!st) {
        st = tinyi_ob_compute(o, o->list + 4, r);
        if (!st) st = tinyi_ob_tell(o, o->desc.samples);
        if (!st) st = tinyi_ob_listen(o, 1);
    }
    return st ? st : tinyi_ob_follow_record(o, r);
}

TINY_API tiny_status tllm_onebyte_leave(tllm_onebyte *o)
{
    tllm_onebyte_report r;
    tiny_status st;
    if (!o) return TINY_E_ARGUMENT;
    if (!o->rank) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: rank 0 cannot leave, it ends the run");
    if (o->ended) return TINY_OK;
    memset(&r, 0, sizeof r);
    st = tinyi_ob_tell(o, o->greeted ? TINYI_OB_LEAVE : TINYI_OB_REPLAY);
    if (!st && !o->greeted) st = tinyi_ob_tell(o, TINYI_OB_LEAVE);
    while (!st && !o->ended) {
        st = tinyi_ob_listen(o, 1);
        if (!st) st = tinyi_ob_follow_record(o, &r);
    }
    return st;
}

TINY_API tiny_status tllm_onebyte_step(tllm_onebyte *o, tllm_onebyte_report *report)
{
    tllm_onebyte_report r;
    tiny_status st;
    memset(&r, 0, sizeof r);
    if (report) *report = r;
    if (!o) return TINY_E_ARGUMENT;
    if (!o->desc.loss) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: the description has no loss to compute");
    if (o->ended && !o->rank) return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "one byte: rank 0 has ended this run");
    st = o->rank ? tinyi_ob_follow(o, &r) : tinyi_ob_lead(o, &r);
    r.step = o->step;
    r.clock = o->clock;
    if (report && !st) *report = r;
    return st;
}
