/* src/llm/dist/audit.c - audits of the networks of workers
 * Paper    Z. Li et al., "TPI-LLM", 2024 (arXiv 2410.00531) trusts its workers; the audit is the addition of this
 *          library's protocol.
 * Formula  y' = W_down,i (act(W_gate,i h) * (W_up,i h)) of worker i, from the h that rank 0 has, against the y that
 *          came. A lie if max |y - y'| > t max |y'|, t = 1e-3 and the rounding of the wire, r = 2^-11 for F16 and 1/127
 *          for Q8_0; or if the scale <y, y'> / <y', y'> is off by more than 1e-3 + 5 s. s = r max |y'| / sqrt(12 <y',
 *          y'>) is what the rounding does to the scale by chance. So a factor of 1.01 is seen through 8 bits too.
 * Cost     of an audit: one network of a worker on rank 0, after the command. Nothing in the commands between.
 * How      a net around the one of rank 0 copies the message; the forward pass copies h (tinyi_lm_hear). */
#include "llm/dist/audit.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "llm/model/model_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

struct tllm_audit {
    tiny_net net;
    tiny_ctx *ctx;
    tllm_audit_desc d;
    tllm_model *model[TINY_NET_RANKS];      /* cut for a worker, once it was audited */
    tllm_state *state[TINY_NET_RANKS];
    tinyi_lm_ear ear;                       /* the layer, and h */
    float *got, *want;                      /* (n_batch * n_embd) */
    tiny_idx n_layer, n_embd;
    size_t n_most, n_got;                   /* n_got: numbers that came */
    uint64_t commands, passed;
    tiny_rng rng;
    int armed, rank, equal, liar;           /* equal: messages to let pass that have the same tag */
};

static tiny_status tinyi_audit_said(tllm_audit *a, tiny_status st)
{
    if (st) {
        memcpy(a->net.says, a->d.inner->says, sizeof a->net.says);
        a->net.gone = a->d.inner->gone;
    }
    return st;
}
static tiny_status tinyi_audit_send(tiny_net *net, int to, tiny_message *m)
{
    tllm_audit *a = (tllm_audit *)net;
    return tinyi_audit_said(a, a->d.inner->send(a->d.inner, to, m));
}
static tiny_status tinyi_audit_recv(tiny_net *net, int from, tiny_message *m)
{
    tllm_audit *a = (tllm_audit *)net;
    const tiny_status st = tinyi_audit_said(a, a->d.inner->recv(a->d.inner, from, m));
    if (st || !m->whole || !a->armed || from != a->rank) return st;
    if ((m->tag & 255) != (uint64_t)((2 * a->ear.layer + 1) & 127) || a->equal-- > 0) return st;
    a->armed = 0;
    a->n_got = m->n / sizeof(float);
    if (a->n_got <= a->n_most) memcpy(a->got, m->data, m->n);
    return st;
}
static void tinyi_audit_stop(tiny_net *net)
{
    tllm_audit *a = (tllm_audit *)net;
    a->d.inner->why = a->liar ? TINY_E_PROTOCOL : net->why;
    if (net->gone) a->d.inner->gone = net->gone;
    a->d.inner->close(a->d.inner);
}
static uint64_t tinyi_audit_changes(tiny_net *net)
{
    tiny_net *inner = ((tllm_audit *)net)->d.inner;
    return inner->changes(inner);
}
static void tinyi_audit_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_net *inner = ((tllm_audit *)net)->d.inner;
    inner->pause(inner, seen, until);
}
static void tinyi_audit_wake(tiny_net *net)
{
    tiny_net *inner = ((tllm_audit *)net)->d.inner;
    inner->wake(inner);
}

TINYI_FN void tinyi_audit_begin(tllm_audit *a, tllm_state *state)
{
    if (a->net.world < 2 || a->commands++ % (uint64_t)a->d.every) return;
    a->rank = 1 + (int)tiny_rng_below(&a->rng, (uint32_t)a->net.world - 1);
    a->ear.layer = (tiny_idx)tiny_rng_below(&a->rng, (uint32_t)a->n_layer);
    a->ear.n = 0;
    a->n_got = 0;
    a->equal = (int)(a->ear.layer / 64);    /* tags are those of 64 layers */
    a->armed = 1;
    state->ear = &a->ear;
}

/* what the worker should have sent */
static tiny_status tinyi_audit_compute(tllm_audit *a)
{
    const int r = a->rank;
    tllm_state_desc sd;
    tinyi_lm_fwd f;
    tiny_status st = TINY_OK;
    if (!a->state[r]) {
        memset(&sd, 0, sizeof sd);
        sd.n_ctx = sd.n_batch = a->d.n_batch;
        if (!a->model[r]) {
            st = tllm_model_open(a->ctx, a->d.file, &a->model[r]);
            if (!st) st = tllm_model_cut_by(a->ctx, a->model[r], r, a->net.world, a->d.share);
            if (!st) {                      /* it computes by itself */
                a->model[r]->rank = 0;
                a->model[r]->world = 1;
            }
        }
        if (!st) st = tllm_state_open(a->ctx, a->model[r], &sd, &a->state[r]);
        if (st) return st;
    }
    tinyi_lm_begin(&f, a->state[r]);
    f.n = a->ear.n;
    tinyi_lm_ffn_run(&f, &a->model[r]->layer[a->ear.layer], a->want, a->ear.h);
    tinyi_lm_host(&f, a->want, a->ear.n * a->n_embd);
    return f.st;
}

TINYI_FN tiny_status tinyi_audit_end(tiny_ctx *ctx, tllm_audit *a, tllm_state *state)
{
    const double slack = a->d.format == TLLM_FORMAT_F16    ? 1.0 / 2048
                         : a->d.format == TLLM_FORMAT_Q8_0 ? 1.0 / 127
                                                           : 0.0;
    const size_t n = (size_t)(a->ear.n * a->n_embd);
    double off = 0.0, size = 0.0, dot = 0.0, norm = 0.0, most;
    size_t i;
    tiny_status st;
    if (!state->ear) return TINY_OK;
    state->ear = NULL;
    a->armed = 0;
    if (!a->ear.n) return TINY_OK;          /* no row reached that layer */
    st = tinyi_audit_compute(a);
    if (st) return st;
    for (i = 0; i < n && a->n_got == n; i++) {
        const double x = (double)a->got[i], y = (double)a->want[i], d = x > y ? x - y : y - x, s = y < 0 ? -y : y;
        off = TINYI_MAX(off, d);
        size = TINYI_MAX(size, s);
        dot += x * y;
        norm += y * y;
    }
    most = 1e-3 * norm + 5.0 * slack * size * tinyi_sqrt64(norm / 12.0);
    if (a->n_got == n && off <= (1e-3 + slack) * size && dot - norm <= most && norm - dot <= most) {
        a->passed++;
        return TINY_OK;
    }
    a->liar = 1;
    a->net.gone = a->rank + 1;
    if (a->n_got != n)
        return tinyi_fail(ctx, TINY_E_PROTOCOL, "audit: rank %d sent %zu numbers for the network of layer %td, not %zu",
                          a->rank, a->n_got, a->ear.layer, n);
    return tinyi_fail(ctx, TINY_E_PROTOCOL,
                      "audit: the network of layer %td of rank %d is off by %.3g of %.3g, and by a factor of %.5f",
                      a->ear.layer, a->rank, off, size, norm > 0.0 ? dot / norm : 0.0);
}

TINY_API tiny_status tllm_audit_open(tiny_ctx *ctx, const tllm_audit_desc *desc, tllm_audit **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_model *m = NULL;
    tllm_audit *a;
    int world;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !desc->inner || !desc->file || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_audit_open needs a net, a file and an output pointer");
    world = desc->inner->world;
    if (desc->inner->rank || desc->every < 0 || desc->n_batch < 0 || desc->n_batch > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "an audit of pieces of %td tokens every %d commands by rank %d: only "
                          "rank 0 audits, and both numbers are 0 or more", desc->n_batch, desc->every,
                          desc->inner->rank);
    a = (tllm_audit *)tinyi_alloc(ctx, 1, sizeof *a);
    if (!a) return tiny_ctx_status(ctx);
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->d = *desc;
    a->d.every = desc->every ? desc->every : 16;
    a->d.n_batch = desc->n_batch ? desc->n_batch : 64;
    st = tllm_model_open(ctx, desc->file, &m);
    if (!st && TINYI_LM_ROUTES(m))
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: layers of other routes than the standard one are not audited",
                        m->path);
    if (!st) {
        a->n_layer = m->n_layer;
        a->n_embd = m->n_embd;
        if (!tinyi_size_mul((size_t)a->d.n_batch, (size_t)m->n_embd, &a->n_most))
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: pieces of %td tokens are more than this machine can address",
                            m->path, a->d.n_batch);
    }
    tllm_model_close(ctx, m);
    if (!st) {
        a->ear.room = a->n_most;
        a->got = (float *)tinyi_alloc(ctx, a->n_most, 3 * sizeof *a->got);
        if (!a->got) st = tiny_ctx_status(ctx);
    }
    a->rng = tiny_rng_make(desc->seed, 0);
    if (!st && !desc->seed) st = tiny_random(ctx, &a->rng.seed, sizeof a->rng.seed);
    if (st) {
        tllm_audit_close(ctx, a);
        return st;
    }
    a->want = a->got + a->n_most;
    a->ear.h = a->want + a->n_most;
    a->net = *desc->inner;
    a->net.star = world > 2;
    a->net.send = tinyi_audit_send;
    a->net.recv = tinyi_audit_recv;
    a->net.close = tinyi_audit_stop;
    a->net.changes = tinyi_audit_changes;
    a->net.pause = tinyi_audit_pause;
    a->net.wake = tinyi_audit_wake;
    *out = a;
    return TINY_OK;
}
TINY_API tiny_net *tllm_audit_net(tllm_audit *a) { return a ? &a->net : NULL; }
TINY_API uint64_t tllm_audit_count(const tllm_audit *a) { return a ? a->passed : 0; }
TINY_API void tllm_audit_close(tiny_ctx *ctx, tllm_audit *a)
{
    int i;
    if (!a) return;
    for (i = 0; i < TINY_NET_RANKS; i++) {
        tllm_state_close(ctx, a->state[i]);
        tllm_model_close(ctx, a->model[i]);
    }
    tiny_free(ctx, a->got);
    tiny_free(ctx, a);
}
