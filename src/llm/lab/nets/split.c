/* src/llm/lab/nets/split.c - device and server of a network that is cut in two
 * Data     a message is a head of 16 bytes {kind, id, length, zero}, all u32, and that many bytes. An answer is 64
 *          bytes without a head: {kind, id, m, n, label[5], p[5], nanoseconds, zero}.
 * Cost     one frame in flight from each end; memory for one frame and one answer. */
#include "llm/lab/nets/split.h"
#include "math/elem.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <float.h>
#include <string.h>

#define TINYI_SPLIT_TAG UINT64_C(0x74696c7073)
#define TINYI_SPLIT_ANSWER 64

enum { TINYI_SPLIT_FRAME = 1, TINYI_SPLIT_IMAGE, TINYI_SPLIT_PING, TINYI_SPLIT_END, TINYI_SPLIT_REPLY };

struct tllm_split {
    tiny_ctx *ctx;
    tllm_split_desc is;
    size_t room, pixels;
    unsigned char *bytes, head[TLLM_SPLIT_HEAD], reply[TINYI_SPLIT_ANSWER];
    tiny_message in;                        /* device: the answer that is arriving */
    float *x, *z, *logits;
    uint32_t ping;                          /* id of the last one */
};

static tiny_status tinyi_split_bad(const tllm_split *s, const char *why)
{
    return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "split: %s", why);
}

TINY_API void tllm_split_close(tllm_split *s)
{
    if (!s) return;
    tiny_free(s->ctx, s->bytes);
    tiny_free(s->ctx, s->x);
    tiny_free(s->ctx, s);
}

TINY_API tiny_status tllm_split_open(tiny_ctx *ctx, const tllm_split_desc *desc, tllm_split **out)
{
    const tllm_slim_desc *is;
    tllm_split *s;
    tllm_slim_cost cost;
    size_t n_z;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !desc->net || !desc->slim || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "split: a transport, a network and a result pointer are needed");
    if (desc->peer < 0 || desc->peer >= desc->net->world || desc->peer == desc->net->rank)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "split: the peer is rank %d of %d, and this one is %d", desc->peer,
                          desc->net->world, desc->net->rank);
    is = tllm_slim_is(desc->slim);
    st = tllm_slim_cost_of(desc->slim, is->members, &cost);
    if (st) return st;
    s = (tllm_split *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->is = *desc;
    if (!desc->timeout_ns) s->is.timeout_ns = UINT64_C(30000000000);
    s->pixels = (size_t)(is->in[0] * is->in[1] * is->in[2]);
    s->room = TINYI_MAX(tllm_slim_frame_most(desc->slim, is->members), s->pixels + 8);
    n_z = (size_t)cost.numbers;
    s->bytes = (unsigned char *)tinyi_alloc(ctx, s->room, 1);
    s->x = (float *)tinyi_alloc(ctx, s->pixels + n_z + (size_t)is->n_class, sizeof *s->x);
    if (!s->bytes || !s->x) {
        st = tiny_ctx_status(ctx);
        tllm_split_close(s);
        return st;
    }
    s->z = s->x + s->pixels;
    s->logits = s->z + n_z;
    *out = s;
    return TINY_OK;
}

/* Moves one message until it is whole, the clock reaches until (then *whole is 0), or something fails. */
static tiny_status tinyi_split_move(tllm_split *s, int sends, tiny_message *m, uint64_t until, int *whole)
{
    tiny_net *net = s->is.net;
    for (*whole = 0;;) {
        const uint64_t seen = net->changes(net);
        const tiny_status st = sends ? net->send(net, s->is.peer, m) : net->recv(net, s->is.peer, m);
        uint64_t now;
        if (st) return tinyi_fail(s->ctx, st, "split: %s", net->says);
        *whole = m->whole;
        if (m->whole) return TINY_OK;
        if (s->ctx->desc.cancel && s->ctx->desc.cancel(s->ctx->desc.user))
            return tinyi_fail(s->ctx, TINY_E_CANCELLED, "split: the cancel callback asked to stop waiting");
        now = tiny_now_ns();
        if (now >= until) return TINY_OK;
        net->pause(net, seen, TINYI_MIN(until, now + UINT64_C(200000000)));
    }
}

static tiny_status tinyi_split_whole(tllm_split *s, int sends, void *data, size_t n, uint64_t until)
{
    tiny_message m;
    int whole;
    tiny_status st;
    memset(&m, 0, sizeof m);
    m.tag = TINYI_SPLIT_TAG;
    m.data = data;
    m.n = n;
    st = tinyi_split_move(s, sends, &m, until, &whole);
    if (!st && !whole)
        st = tinyi_fail(s->ctx, TINY_E_TIMEOUT, "split: a message of %zu bytes was not %s in time", n,
                        sends ? "taken" : "received");
    return st;
}

static tiny_status tinyi_split_put(tllm_split *s, int kind, uint32_t id, void *bytes, size_t n)
{
    const uint64_t until = tiny_now_ns() + s->is.timeout_ns;
    tiny_status st;
    memset(s->head, 0, sizeof s->head);
    tinyi_put_le32(s->head, (uint32_t)kind);
    tinyi_put_le32(s->head + 4, id);
    tinyi_put_le32(s->head + 8, (uint32_t)n);
    st = tinyi_split_whole(s, 1, s->head, sizeof s->head, until);
    if (!st && n) st = tinyi_split_whole(s, 1, bytes, n, until);
    return st;
}

/* ---- the device */

TINY_API tiny_status tllm_split_send(tllm_split *s, uint32_t id, const void *frame, size_t n)
{
    if (!s) return TINY_E_ARGUMENT;
    if (!frame || !n || !id) return tinyi_split_bad(s, "a frame and an id above 0 are needed");
    if (n > s->room)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "split: a frame of %zu bytes; %zu are the most", n, s->room);
    memcpy(s->bytes, frame, n);
    return tinyi_split_put(s, TINYI_SPLIT_FRAME, id, s->bytes, n);
}

TINY_API size_t tllm_split_image_bytes(const tllm_split *s) { return s ? s->pixels + 8 : 0; }

TINY_API tiny_status tllm_split_send_image(tllm_split *s, uint32_t id, const float *x)
{
    float low, high, step;
    uint32_t bits;
    size_t i;
    if (!s) return TINY_E_ARGUMENT;
    if (!x || !id) return tinyi_split_bad(s, "an image and an id above 0 are needed");
    for (low = high = x[0], i = 0; i < s->pixels; i++) {
        if (!(x[i] >= -FLT_MAX && x[i] <= FLT_MAX))
            return tinyi_fail(s->ctx, TINY_E_NUMERIC, "split: pixel %zu is not finite", i);
        low = TINYI_MIN(low, x[i]);
        high = TINYI_MAX(high, x[i]);
    }
    step = high / 255.0f - low / 255.0f;
    memcpy(&bits, &low, 4);
    tinyi_put_le32(s->bytes, bits);
    memcpy(&bits, &step, 4);
    tinyi_put_le32(s->bytes + 4, bits);
    for (i = 0; i < s->pixels; i++) {
        const float q = step > 0.0f ? (x[i] - low) / step + 0.5f : 0.0f;
        s->bytes[8 + i] = (unsigned char)(q >= 255.0f ? 255.0f : q);
    }
    return tinyi_split_put(s, TINYI_SPLIT_IMAGE, id, s->bytes, s->pixels + 8);
}

static tiny_status tinyi_split_answer(tllm_split *s, uint32_t kind, uint32_t id, uint64_t until, int *got)
{
    uint32_t is;
    tiny_status st;
    for (*got = 0;;) {
        int whole;
        if (!s->in.n) {
            s->in.tag = TINYI_SPLIT_TAG;
            s->in.data = s->reply;
            s->in.n = sizeof s->reply;
        }
        st = tinyi_split_move(s, 0, &s->in, until, &whole);
        if (st || !whole) return st;
        memset(&s->in, 0, sizeof s->in);
        is = tinyi_le32(s->reply);
        if (is != TINYI_SPLIT_REPLY && is != TINYI_SPLIT_PING)
            return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "split: an answer of kind %u", (unsigned)is);
        *got = is == kind && tinyi_le32(s->reply + 4) == id;
        if (*got) return TINY_OK;
    }
}

TINY_API tiny_status tllm_split_wait(tllm_split *s, uint32_t id, uint64_t until, tllm_split_answer *a, int *got)
{
    uint32_t bits, n;
    tiny_status st;
    int i;
    if (got) *got = 0;
    if (a) memset(a, 0, sizeof *a);
    if (!s) return TINY_E_ARGUMENT;
    if (!a || !got) return tinyi_split_bad(s, "room for an answer is needed");
    st = tinyi_split_answer(s, TINYI_SPLIT_REPLY, id, until, got);
    if (st || !*got) return st;
    n = tinyi_le32(s->reply + 12);
    if (n > TLLM_SPLIT_TOP || tinyi_le32(s->reply + 8) > TLLM_SLIM_MEMBERS) {
        *got = 0;
        return tinyi_fail(s->ctx, TINY_E_PROTOCOL, "split: an answer with %u classes", (unsigned)n);
    }
    a->id = id;
    a->m = (int)tinyi_le32(s->reply + 8);
    a->n = (int)n;
    for (i = 0; i < a->n; i++) {
        a->label[i] = (int32_t)tinyi_le32(s->reply + 16 + 4 * i);
        bits = tinyi_le32(s->reply + 36 + 4 * i);
        memcpy(&a->p[i], &bits, 4);
    }
    a->decode = 1e-9 * (double)tinyi_le32(s->reply + 56);
    return TINY_OK;
}

TINY_API tiny_status tllm_split_ping(tllm_split *s, double *seconds)
{
    uint64_t start;
    int got = 0;
    tiny_status st;
    if (seconds) *seconds = 0.0;
    if (!s) return TINY_E_ARGUMENT;
    if (!seconds) return tinyi_split_bad(s, "room for the time of a ping is needed");
    start = tiny_now_ns();
    st = tinyi_split_put(s, TINYI_SPLIT_PING, ++s->ping, NULL, 0);
    if (!st) st = tinyi_split_answer(s, TINYI_SPLIT_PING, s->ping, start + s->is.timeout_ns, &got);
    if (!st && !got) st = tinyi_fail(s->ctx, TINY_E_TIMEOUT, "split: no answer to a ping in time");
    if (!st) *seconds = 1e-9 * (double)(tiny_now_ns() - start);
    return st;
}

TINY_API tiny_status tllm_split_end(tllm_split *s)
{
    return s ? tinyi_split_put(s, TINYI_SPLIT_END, 0, NULL, 0) : TINY_E_ARGUMENT;
}

/* ---- the server */

static void tinyi_split_top(tllm_split *s, unsigned char *to)
{
    const tiny_idx n = tllm_slim_is(s->is.slim)->n_class;
    const int most = (int)TINYI_MIN(n, TLLM_SPLIT_TOP);
    double sum = 0.0, top;
    tiny_idx c, best;
    uint32_t bits;
    float p;
    int i;
    for (top = (double)s->logits[0], c = 1; c < n; c++) top = TINYI_MAX(top, (double)s->logits[c]);
    for (c = 0; c < n; c++) sum += tinyi_exp64((double)s->logits[c] - top);
    for (i = 0; i < most; i++) {
        for (best = 0, c = 1; c < n; c++) if (s->logits[c] > s->logits[best]) best = c;
        p = (float)(tinyi_exp64((double)s->logits[best] - top) / sum);
        memcpy(&bits, &p, 4);
        tinyi_put_le32(to + 16 + 4 * i, (uint32_t)best);
        tinyi_put_le32(to + 36 + 4 * i, bits);
        s->logits[best] = -FLT_MAX;
    }
    tinyi_put_le32(to + 12, (uint32_t)most);
}

/* Classes of a frame or an image; damaged ones leave TINY_E_FORMAT. */
static tiny_status tinyi_split_compute(tllm_split *s, uint32_t kind, size_t n, int *have)
{
    const int members = tllm_slim_is(s->is.slim)->members;
    float low, step;
    uint32_t bits;
    size_t i;
    tiny_status st;
    if (kind == TINYI_SPLIT_FRAME) {
        st = tllm_slim_unpack(s->is.slim, s->bytes, n, have, s->z);
        return st ? st : tllm_slim_tail(s->is.slim, s->z, *have, s->logits);
    }
    if (n != s->pixels + 8)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "split: an image of %zu bytes, not %zu", n, s->pixels + 8);
    bits = tinyi_le32(s->bytes);
    memcpy(&low, &bits, 4);
    bits = tinyi_le32(s->bytes + 4);
    memcpy(&step, &bits, 4);
    if (!(low >= -FLT_MAX && low <= FLT_MAX && step >= 0.0f && step <= FLT_MAX / 256.0f))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "split: an image whose scale is not valid");
    for (i = 0; i < s->pixels; i++) s->x[i] = low + step * (float)s->bytes[8 + i];
    *have = members;
    st = tllm_slim_encode(s->is.slim, s->x, 0, members, s->z);
    return st ? st : tllm_slim_tail(s->is.slim, s->z, members, s->logits);
}

TINY_API tiny_status tllm_split_serve(tllm_split *s, tllm_split_served *served)
{
    tllm_split_served count;
    unsigned char reply[TINYI_SPLIT_ANSWER];
    uint32_t kind, id, n, now = 0;
    uint64_t start;
    int have = 0;
    tiny_status st = TINY_OK;
    if (served) memset(served, 0, sizeof *served);
    if (!s) return TINY_E_ARGUMENT;
    memset(&count, 0, sizeof count);
    while (!st) {
        st = tinyi_split_whole(s, 0, s->head, sizeof s->head, UINT64_MAX);
        if (st) break;
        kind = tinyi_le32(s->head);
        id = tinyi_le32(s->head + 4);
        n = tinyi_le32(s->head + 8);
        if (kind < TINYI_SPLIT_FRAME || kind > TINYI_SPLIT_END || tinyi_le32(s->head + 12)) {
            st = tinyi_fail(s->ctx, TINY_E_PROTOCOL, "split: a message of kind %u", (unsigned)kind);
            break;
        }
        if (n > s->room || (kind > TINYI_SPLIT_IMAGE && n)) {
            st = tinyi_fail(s->ctx, TINY_E_PROTOCOL, "split: a message of %u bytes; %zu are the most", (unsigned)n,
                            s->room);
            break;
        }
        if (n) st = tinyi_split_whole(s, 0, s->bytes, n, tiny_now_ns() + s->is.timeout_ns);
        if (st || kind == TINYI_SPLIT_END) break;
        memset(reply, 0, sizeof reply);
        tinyi_put_le32(reply, kind == TINYI_SPLIT_PING ? TINYI_SPLIT_PING : TINYI_SPLIT_REPLY);
        tinyi_put_le32(reply + 4, id);
        if (kind == TINYI_SPLIT_PING) count.pings++;
        else {
            tiny_status bad;
            if (id < now) {                 /* its successor is here already */
                count.late++;
                continue;
            }
            if (id != now) have = 0;
            now = id;
            start = tiny_now_ns();
            bad = tinyi_split_compute(s, kind, n, &have);
            if (bad && bad != TINY_E_FORMAT && bad != TINY_E_SHAPE) st = bad;
            else if (bad) count.refused++;
            else {
                if (kind == TINYI_SPLIT_FRAME) count.frames++;
                else count.images++;
                tinyi_split_top(s, reply);
                tinyi_put_le32(reply + 8, (uint32_t)have);
                start = tiny_now_ns() - start;
                tinyi_put_le32(reply + 56, (uint32_t)TINYI_MIN(start, UINT32_MAX));
            }
        }
        if (!st) st = tinyi_split_whole(s, 1, reply, sizeof reply, tiny_now_ns() + s->is.timeout_ns);
    }
    if (served) *served = count;
    return st;
}
