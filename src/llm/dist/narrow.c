/* src/llm/dist/narrow.c - a tiny_net that rounds the numbers of sums
 * Source   the option of 8-bit activations of the star protocols that home clusters use; TPI-LLM (arXiv 2410.00531)
 *          sends f32. The formats are those of llm/block/format.h.
 * Rounding x becomes D(E(x)) on the sender too, in place, when its message begins, before anything is added to it. Both
 *          formats give E(D(E(x))) = E(x): f16 is exact on f16, and the largest number of a block of Q8_0 stays 127
 *          times its scale. So one sum that is sent to many ranks is the same on all of them.
 * Error    of a sum of p vectors that goes to rank 0 and back: p + 1 roundings, each at most 2^-11 of the number (F16),
 *          or 1/254 of the largest number of its block of 32 (Q8_0).
 * Cost     a pass over the numbers for each message, with the kernels of the context for F16. */
#include "llm/dist/narrow.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "llm/block/format.h"
#include "math/table_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_NARROW_TAGS 128

typedef struct tinyi_narrow_way {           /* messages from or to a rank, one at a time */
    unsigned char *bytes;                   /* NULL: there is no connection */
    tiny_message m;
    int busy;
} tinyi_narrow_way;

struct tllm_narrow {
    tiny_net net;
    tiny_net *inner;
    const tllm_format *format;
    const struct tiny_kernels *k;           /* NULL: the reference */
    size_t n_most, bytes_most;
    tinyi_narrow_way *to, *from;            /* (world) each */
    unsigned char *memory;
};

static size_t tinyi_narrow_blocks(const tllm_format *f, size_t n)
{
    return (n + (size_t)f->values - 1) / (size_t)f->values;
}
TINY_API size_t tllm_narrow_bytes(int format, size_t n)
{
    const tllm_format *f = tllm_format_of(format);
    size_t bytes;
    if (format != TLLM_FORMAT_F32 && format != TLLM_FORMAT_F16 && format != TLLM_FORMAT_Q8_0) return 0;
    return f && tinyi_size_mul(tinyi_narrow_blocks(f, n), (size_t)f->bytes, &bytes) ? bytes : 0;
}

static int tinyi_narrow_is(const tllm_narrow *a, const tiny_message *m)
{
    return a->format->id != TLLM_FORMAT_F32 && (m->tag & 255) < TINYI_NARROW_TAGS;
}

static void tinyi_narrow_unpack(const tllm_narrow *a, const unsigned char *from, float *x, size_t n)
{
    const size_t whole = n - n % (size_t)a->format->values;
    float rest[32];
    if (a->k && a->format->id == TLLM_FORMAT_F16) {
        TINYI_OF(a->k, f16_to_f32)(x, (const uint16_t *)(const void *)from, n);
        return;
    }
    a->format->unpack(from, x, whole);
    if (whole == n) return;
    a->format->unpack(from + whole / 32 * (size_t)a->format->bytes, rest, 32);
    memcpy(x + whole, rest, (n - whole) * sizeof *x);
}

/* x becomes what the receivers get. 0: some number is not finite then */
static int tinyi_narrow_pack(const tllm_narrow *a, float *x, unsigned char *to, size_t n)
{
    const size_t whole = n - n % (size_t)a->format->values;
    float rest[32];
    size_t i;
    if (a->k && a->format->id == TLLM_FORMAT_F16) TINYI_OF(a->k, f32_to_f16)((uint16_t *)(void *)to, x, n);
    else {
        /* blocks would hide what is not finite, and clamp what their scale cannot reach */
        if (a->format->values > 1)
            for (i = 0; i < n; i++) if (!(x[i] >= -8319008.0f && x[i] <= 8319008.0f)) return 0;
        a->format->pack(x, to, whole, NULL);
        if (whole < n) {
            memset(rest, 0, sizeof rest);
            memcpy(rest, x + whole, (n - whole) * sizeof *x);
            a->format->pack(rest, to + whole / 32 * (size_t)a->format->bytes, 32, NULL);
        }
    }
    tinyi_narrow_unpack(a, to, x, n);
    if (a->format->id == TLLM_FORMAT_F16) for (i = 0; i < n; i++) if (!(x[i] - x[i] == 0.0f)) return 0;
    return 1;
}

static tiny_status tinyi_narrow_said(tllm_narrow *a, tiny_status st)
{
    if (st) {
        memcpy(a->net.says, a->inner->says, sizeof a->net.says);
        a->net.gone = a->inner->gone;
    }
    return st;
}

/* the message that travels for m; NULL and *st: there is none */
static tinyi_narrow_way *tinyi_narrow_begin(tllm_narrow *a, tinyi_narrow_way *list, int rank, const tiny_message *m,
                                            tiny_status *st)
{
    const size_t n = m->n / sizeof(float);
    tinyi_narrow_way *w = rank >= 0 && rank < a->net.world ? &list[rank] : NULL;
    if (!w || !w->bytes || m->n % sizeof(float) || n > a->n_most) {
        if (w && w->bytes)
            (void)snprintf(a->net.says, sizeof a->net.says, "a sum of %lu bytes: this narrow net was opened for %lu "
                           "numbers", (unsigned long)m->n, (unsigned long)a->n_most);
        else
            (void)snprintf(a->net.says, sizeof a->net.says, "rank %d has no connection to rank %d: narrow sums go "
                           "through rank 0", a->net.rank, rank);
        *st = TINY_E_ARGUMENT;
        return NULL;
    }
    if (w->busy) return w;
    memset(&w->m, 0, sizeof w->m);
    w->m.tag = m->tag;
    w->m.data = w->bytes;
    w->m.n = tllm_narrow_bytes(a->format->id, n);
    w->m.at = m->at;
    return w;
}

static tiny_status tinyi_narrow_send(tiny_net *net, int to, tiny_message *m)
{
    tllm_narrow *a = (tllm_narrow *)net;
    tinyi_narrow_way *w;
    tiny_status st = TINY_OK;
    if (!tinyi_narrow_is(a, m)) return tinyi_narrow_said(a, a->inner->send(a->inner, to, m));
    w = tinyi_narrow_begin(a, a->to, to, m, &st);
    if (!w) return st;
    if (!w->busy && !tinyi_narrow_pack(a, (float *)m->data, w->bytes, m->n / sizeof(float))) {
        (void)snprintf(net->says, sizeof net->says, "rank %d has a number that is not finite in %s", net->rank,
                       a->format->name);
        net->gone = net->rank + 1;
        return TINY_E_PROTOCOL;
    }
    w->busy = 1;
    m->begun = 1;
    st = tinyi_narrow_said(a, a->inner->send(a->inner, to, &w->m));
    if (st || !w->m.whole) return st;
    w->busy = 0;
    m->done = m->n;
    m->whole = 1;
    return TINY_OK;
}

static tiny_status tinyi_narrow_recv(tiny_net *net, int from, tiny_message *m)
{
    tllm_narrow *a = (tllm_narrow *)net;
    tinyi_narrow_way *w;
    tiny_status st = TINY_OK;
    if (!tinyi_narrow_is(a, m)) return tinyi_narrow_said(a, a->inner->recv(a->inner, from, m));
    w = tinyi_narrow_begin(a, a->from, from, m, &st);
    if (!w) return st;
    w->busy = 1;
    st = tinyi_narrow_said(a, a->inner->recv(a->inner, from, &w->m));
    m->tag = w->m.tag;
    m->begun = w->m.begun;
    m->at = w->m.at;
    if (st || !w->m.whole) return st;
    w->busy = 0;
    tinyi_narrow_unpack(a, w->bytes, (float *)m->data, m->n / sizeof(float));
    m->done = m->n;
    m->whole = 1;
    return TINY_OK;
}

static void tinyi_narrow_end(tiny_net *net)
{
    tllm_narrow *a = (tllm_narrow *)net;
    a->inner->why = net->why;
    if (net->gone) a->inner->gone = net->gone;
    a->inner->close(a->inner);
}
static uint64_t tinyi_narrow_changes(tiny_net *net)
{
    tiny_net *inner = ((tllm_narrow *)net)->inner;
    return inner->changes(inner);
}
static void tinyi_narrow_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_net *inner = ((tllm_narrow *)net)->inner;
    inner->pause(inner, seen, until);
}
static void tinyi_narrow_wake(tiny_net *net)
{
    tiny_net *inner = ((tllm_narrow *)net)->inner;
    inner->wake(inner);
}

TINY_API tiny_status tllm_narrow_open(tiny_ctx *ctx, const tllm_narrow_desc *desc, tllm_narrow **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_narrow *a;
    size_t n_ways;
    int i, world;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !desc->inner || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_narrow_open needs a net and an output pointer");
    if (!tllm_narrow_bytes(desc->format, 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sums cannot travel in format %d: use F32, F16 or Q8_0", desc->format);
    world = desc->inner->world;
    a = (tllm_narrow *)tinyi_alloc(ctx, 1, sizeof *a);
    if (!a) return tiny_ctx_status(ctx);
    memset(a, 0, sizeof *a);
    a->inner = desc->inner;
    a->format = tllm_format_of(desc->format);
    a->k = ctx->target == TINY_TARGET_REFERENCE ? NULL : ctx->k;
    a->n_most = desc->n_most ? desc->n_most : 65536;
    a->bytes_most = tllm_narrow_bytes(desc->format, a->n_most);
    /* rank 0 has a way to and from each other rank, the others to and from rank 0 */
    n_ways = 2 * (size_t)(desc->inner->rank || world < 2 ? 1 : world - 1);
    if (!a->bytes_most) st = tinyi_fail(ctx, TINY_E_OVERFLOW, "sums of %zu numbers are more than this machine can "
                                        "address", a->n_most);
    if (!st) {
        a->bytes_most = (a->bytes_most + 63) & ~(size_t)63;
        a->to = (tinyi_narrow_way *)tinyi_alloc(ctx, 2 * (size_t)world, sizeof *a->to);
        if (a->to) {
            memset(a->to, 0, 2 * (size_t)world * sizeof *a->to);
            a->memory = (unsigned char *)tinyi_alloc(ctx, n_ways, desc->format == TLLM_FORMAT_F32 ? 1 : a->bytes_most);
        }
        if (!a->memory) st = tiny_ctx_status(ctx);
    }
    if (st) {
        tllm_narrow_close(ctx, a);
        return st;
    }
    a->from = a->to + world;
    n_ways = 0;
    for (i = 0; i < world && desc->format != TLLM_FORMAT_F32; i++) {
        if (i == desc->inner->rank || (desc->inner->rank && i)) continue;
        a->to[i].bytes = a->memory + n_ways++ * a->bytes_most;
        a->from[i].bytes = a->memory + n_ways++ * a->bytes_most;
    }
    a->net = *desc->inner;
    if (desc->format != TLLM_FORMAT_F32) a->net.star = world > 2;
    a->net.send = tinyi_narrow_send;
    a->net.recv = tinyi_narrow_recv;
    a->net.close = tinyi_narrow_end;
    a->net.changes = tinyi_narrow_changes;
    a->net.pause = tinyi_narrow_pause;
    a->net.wake = tinyi_narrow_wake;
    *out = a;
    return TINY_OK;
}
TINY_API tiny_net *tllm_narrow_net(tllm_narrow *a) { return a ? &a->net : NULL; }
TINY_API void tllm_narrow_close(tiny_ctx *ctx, tllm_narrow *a)
{
    if (!a) return;
    tiny_free(ctx, a->memory);
    tiny_free(ctx, a->to);
    tiny_free(ctx, a);
}
