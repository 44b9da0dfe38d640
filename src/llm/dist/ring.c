/* src/llm/dist/ring.c - a pass that goes from rank to rank
 * Paper    Z. Li et al., "PRIMA.CPP", 2025 (arXiv 2504.08791): piped-ring parallelism with small windows of layers.
 * Order    layer i belongs to the rank whose window of i mod W it is in, W = sum of the windows; k = layers / W rounds.
 *          A piece begins with its head, which each rank hands on to the next one before it computes. Then hidden
 *          states go around: n numbers of n_embd from the owner of layer i to that of layer i + 1 where these differ,
 *          and to rank 0 after the last layer.
 * Head     u32 kind, u32 n, u32 rows, u32 0, u64 position of the first token, u64 tokens that are held before it.
 *          What a follower gets is checked as if it came from a file. Rank 0 may have dropped tokens: then a follower
 *          drops them too.
 * Rows     the last layer goes on with the wanted rows alone; each rank drops the same ones, so that the products have
 *          the rows, and thus the bits, of one process.
 * Cost     k p messages of 4 n n_embd bytes a pass for p ranks, one after the other. */
#include "llm/dist/ring.h"
#include "llm/model/model_inside.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_RING_HEAD = 32, TINYI_RING_HELLO = 64, TINYI_RING_PIECE = 1, TINYI_RING_STOP = 2 };

struct tllm_ring {
    tiny_ctx *ctx;
    tllm_model *m;
    tiny_net *net;
    tiny_idx layers[TINY_NET_RANKS];
    int rank, world;
    tiny_idx n_ctx, n_batch;
    uint64_t timeout_ns, clock;
    double layer_ns;
    tllm_state *state;                      /* of a follower */
    float *out;                             /* its results, which are not computed */
    int32_t *token;                         /* (n_batch) zeros: it does not see tokens */
    unsigned char head[TINYI_RING_HEAD];    /* of the piece that a follower computes */
    tiny_status failed;
    tllm_ring_counts count;
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_ring_fail(tllm_ring *r, tiny_status st)
{
    if (!r->failed) r->failed = tinyi_net_end(r->ctx, r->net, st);
    return tinyi_fail(r->ctx, st, "%s", r->net->says);
}

/* One message, to the end or the deadline. patient: rank 0 may rest as long as it likes. */
static tiny_status tinyi_ring_move(tllm_ring *r, int peer, int sends, unsigned kind, void *data, size_t n, int patient)
{
    const uint64_t until = patient ? UINT64_MAX : tiny_now_ns() + r->timeout_ns;
    tiny_net *net = r->net;
    tiny_message m;
    if (r->failed) return tinyi_fail(r->ctx, r->failed, "%s", net->says);
    memset(&m, 0, sizeof m);
    m.tag = (uint64_t)kind << 8 | 251;
    m.data = data;
    m.n = n;
    if (sends) m.at = r->clock;
    for (;;) {
        const uint64_t seen = net->changes(net);
        const tiny_status st = sends ? net->send(net, peer, &m) : net->recv(net, peer, &m);
        uint64_t now;
        if (st) return tinyi_ring_fail(r, st);
        if (m.whole) break;
        now = tiny_now_ns();
        if (now >= until) {
            (void)snprintf(net->says, sizeof net->says, "rank %d waited for rank %d until the time-out", r->rank, peer);
            net->gone = 1 + peer;
            return tinyi_ring_fail(r, TINY_E_TIMEOUT);
        }
        if (patient && r->ctx->desc.cancel && r->ctx->desc.cancel(r->ctx->desc.user)) {
            (void)snprintf(net->says, sizeof net->says, "rank %d was asked to stop", r->rank);
            return tinyi_ring_fail(r, TINY_E_CANCELLED);
        }
        now = patient ? now + UINT64_C(100000000) : until;      /* the cancel callback is asked ten times a second */
        net->pause(net, seen, !sends && m.at && m.at < now ? m.at : now);
    }
    if (!sends && net->virtual_clock) r->clock = TINYI_MAX(r->clock, m.at);
    return TINY_OK;
}
static int tinyi_ring_next(const tllm_ring *r) { return (r->rank + 1) % r->world; }
static int tinyi_ring_before(const tllm_ring *r) { return (r->rank + r->world - 1) % r->world; }

static tiny_status tinyi_ring_states(tllm_ring *r, int peer, int sends, tiny_idx layer, float *x, tiny_idx n)
{
    const uint64_t from = tiny_now_ns();
    const size_t bytes = (size_t)n * (size_t)r->m->n_embd * sizeof *x;
    tiny_idx i;
    tiny_status st = tinyi_ring_move(r, peer, sends, (unsigned)(16 + layer), x, bytes, 0);
    if (st) return st;
    if (sends) {
        r->count.hops++;
        r->count.bytes += bytes;
        return TINY_OK;
    }
    r->count.wait_ns += tiny_now_ns() - from;
    for (i = 0; i < n * r->m->n_embd; i++)
        if (!(x[i] - x[i] == 0.0f)) {       /* it would spread to the text, and nobody would know from where */
            (void)snprintf(r->net->says, sizeof r->net->says, "rank %d sent a number that is not finite", peer);
            r->net->gone = 1 + peer;
            return tinyi_ring_fail(r, TINY_E_PROTOCOL);
        }
    return TINY_OK;
}

/* ---- what the pass calls ----------------------------------------------------------------------------------------- */

TINYI_FN int tinyi_lm_ring_head(const tllm_model *m) { return m->ring->rank == 0; }
TINYI_FN void tinyi_lm_ring_abort(const tllm_model *m)
{
    tllm_ring *r = m->ring;
    if (r->failed) return;
    (void)snprintf(r->net->says, sizeof r->net->says, "rank %d could not go on", r->rank);
    r->failed = tinyi_net_end(r->ctx, r->net, TINY_E_PEER);
}

TINYI_FN void tinyi_lm_ring_begin(tinyi_lm_fwd *f, tiny_idx rows, const int32_t *want)
{
    tllm_ring *r = f->m->ring;
    tiny_idx i;
    if (f->st || f->dry) return;
    if (!r->rank) {
        int plain = !f->encoding && f->n_run == 1 && f->run[0].seq == 0 && f->n <= r->n_batch;
        for (i = 0; i < rows && want; i++) plain &= want[i] == f->n - rows + i;
        for (i = 1; i < f->n && plain; i++) plain &= f->row[4 * i + 3] == f->row[3] + i;
        if (!plain) {
            f->st = tinyi_fail(f->ctx, TINY_E_UNSUPPORTED,
                               "%s: a ring computes up to %td tokens of sequence 0 at a time, at positions one after "
                               "the other, with the results of the last ones", f->m->path, r->n_batch);
            return;
        }
        tinyi_put_le(r->head, TINYI_RING_PIECE, 4);
        tinyi_put_le(r->head + 4, (uint64_t)f->n, 4);
        tinyi_put_le(r->head + 8, (uint64_t)rows, 4);
        tinyi_put_le(r->head + 12, 0, 4);
        tinyi_put_le(r->head + 16, (uint64_t)f->row[3], 8);
        tinyi_put_le(r->head + 24, (uint64_t)f->run[0].at0, 8);
    }
    r->count.pieces++;
    if (tinyi_ring_next(r)) f->st = tinyi_ring_move(r, tinyi_ring_next(r), 1, 1, r->head, TINYI_RING_HEAD, 0);
}

TINYI_FN int tinyi_lm_ring_here(tinyi_lm_fwd *f, tiny_idx i, float *x)
{
    tllm_ring *r = f->m->ring;
    int before;
    if (f->dry) return 1;
    if (f->st || tllm_ring_owner(r->layers, r->world, i) != r->rank) return 0;
    before = i ? tllm_ring_owner(r->layers, r->world, i - 1) : 0;
    if (before != r->rank) f->st = tinyi_ring_states(r, before, 0, i, x, f->n);
    if (!f->st && r->net->virtual_clock) r->clock += (uint64_t)r->layer_ns;
    return !f->st;
}

TINYI_FN void tinyi_lm_ring_pass(tinyi_lm_fwd *f, tiny_idx i, float *x)
{
    tllm_ring *r = f->m->ring;
    const int next = i + 1 < f->m->n_layer ? tllm_ring_owner(r->layers, r->world, i + 1) : 0;
    if (f->st || f->dry || next == r->rank) return;
    f->st = tinyi_ring_states(r, next, 1, i + 1, x, f->n);
}

TINYI_FN int tinyi_lm_ring_ends(tinyi_lm_fwd *f, float *x)
{
    tllm_ring *r = f->m->ring;
    const tiny_idx L = f->m->n_layer;
    if (f->st || f->dry) return 0;
    if (r->rank) return 1;
    if (tllm_ring_owner(r->layers, r->world, L - 1))
        f->st = tinyi_ring_states(r, tllm_ring_owner(r->layers, r->world, L - 1), 0, L, x, f->n);
    return f->st != TINY_OK;
}

/* ---- what is called ---------------------------------------------------------------------------------------------- */

/* Rank 0 sends what it has around the ring. A rank that has something else ends the group; the last one hands the
 * message back to rank 0. */
static tiny_status tinyi_ring_hello(tllm_ring *r, const tllm_ring_desc *d)
{
    unsigned char mine[TINYI_RING_HELLO], got[TINYI_RING_HELLO];
    tinyi_hash h;
    tiny_status st = TINY_OK;
    int i;
    memset(mine, 0, sizeof mine);
    tinyi_hash_start(&h);
    for (i = 0; i < r->world; i++) tinyi_lm_hash_u64(&h, (uint64_t)r->layers[i]);
    memcpy(mine, "ring 1\0", 8);
    tinyi_put_le(mine + 8, tinyi_lm_model_print(r->m), 8);
    tinyi_put_le(mine + 16, tinyi_hash_value(&h), 8);
    tinyi_put_le(mine + 24, (uint64_t)r->n_ctx, 8);
    tinyi_put_le(mine + 32, (uint64_t)r->n_batch, 8);
    tinyi_put_le(mine + 40, (uint64_t)d->type_k, 8);
    tinyi_put_le(mine + 48, (uint64_t)d->type_v, 8);
    tinyi_put_le(mine + 56, (uint64_t)r->world, 8);
    if (r->world == 1) return TINY_OK;
    if (!r->rank) st = tinyi_ring_move(r, tinyi_ring_next(r), 1, 0, mine, sizeof mine, 0);
    if (!st) st = tinyi_ring_move(r, tinyi_ring_before(r), 0, 0, got, sizeof got, 0);
    if (!st && memcmp(mine, got, sizeof mine)) {
        (void)snprintf(r->net->says, sizeof r->net->says,
                       "rank %d has another %s than the ranks before it", r->rank,
                       memcmp(mine + 8, got + 8, 8) ? "model" : memcmp(mine + 16, got + 16, 8) ? "list of layers"
                                                                                               : "size of a state");
        return tinyi_ring_fail(r, TINY_E_PROTOCOL);
    }
    if (!st && r->rank) st = tinyi_ring_move(r, tinyi_ring_next(r), 1, 0, mine, sizeof mine, 0);
    return st;
}

TINY_API tiny_status tllm_ring_open(tiny_ctx *ctx, const tllm_ring_desc *d, tllm_ring **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_state_desc sd;
    tllm_ring *r;
    tiny_idx i;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || !d->model || !d->net || !d->layers)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_ring_open needs a model, the net of a rank, the layers of each "
                          "rank, and an output pointer");
    st = tinyi_ring_check(ctx, d->model->path, d->model->n_layer, d->layers, d->net->rank, d->net->world);
    if (st) return st;
    if (d->model->ring || d->model->world > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the model is cut, or is in a ring already", d->model->path);
    if (d->net->star && d->net->world > 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: a ring needs a connection from each rank to the next one, not a star", d->model->path);
    if (ctx->desc.accel || TINYI_LM_OUTPUT(d->model) != TLLM_LOGITS || TINYI_LM_ENCODER(d->model) ||
        TINYI_LM_N_ENC(d->model) || TINYI_LM_SLICED(d->model) || d->model->bank > 0 || d->model->n_ple > 0 ||
        TINYI_LM_ROUTES(d->model) || TINYI_LM_ARCH(d->model)->block > TINYI_LM_POST || d->model->loop_norm ||
        TINYI_LM_ARCH(d->model)->mixer == TINYI_LM_RWKV7)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: models of the architecture %s, and accelerators, cannot be in a ring", d->model->path,
                          TINYI_LM_ARCH(d->model)->name);
    if (d->n_ctx < 0 || d->n_ctx > TINYI_LM_MOST || d->n_batch < 0 || d->n_batch > 65536 || !(d->layer_ns >= 0) ||
        d->layer_ns > 1e18)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a context of %td, pieces of %td, %g ns a layer: out of range",
                          d->n_ctx, d->n_batch, d->layer_ns);
    r = (tllm_ring *)tinyi_alloc(ctx, 1, sizeof *r);
    if (!r) return tiny_ctx_status(ctx);
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->m = d->model;
    r->net = d->net;
    r->rank = d->net->rank;
    r->world = d->net->world;
    for (i = 0; i < r->world; i++) r->layers[i] = d->layers[i];
    r->n_ctx = d->n_ctx ? d->n_ctx : TINYI_MIN(d->model->n_context, 4096);
    r->n_batch = TINYI_MIN(d->n_batch ? d->n_batch : 64, r->n_ctx);
    r->timeout_ns = d->timeout_ns ? d->timeout_ns : UINT64_C(10000000000);
    r->layer_ns = d->layer_ns;
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = r->n_ctx;
    sd.n_batch = r->n_batch;
    sd.type_k = d->type_k;
    sd.type_v = d->type_v;
    r->m->ring = r;
    if (r->rank) {
        st = tllm_state_open(ctx, r->m, &sd, &r->state);
        if (!st) r->out = (float *)tinyi_alloc(ctx, (size_t)r->n_batch * (size_t)r->m->n_out, sizeof *r->out);
        if (r->out) r->token = (int32_t *)tinyi_alloc(ctx, (size_t)r->n_batch, sizeof *r->token);
        if (r->token) memset(r->token, 0, (size_t)r->n_batch * sizeof *r->token);
        else if (!st) st = tiny_ctx_status(ctx);
        if (st) tinyi_lm_ring_abort(r->m);
    }
    if (!st) st = tinyi_ring_hello(r, d);
    if (st) tllm_ring_close(r);
    else *out = r;
    return st;
}

TINY_API void tllm_ring_close(tllm_ring *r)
{
    if (!r) return;
    tllm_state_close(r->ctx, r->state);
    if (r->m->ring == r) r->m->ring = NULL;
    tiny_free(r->ctx, r->token);
    tiny_free(r->ctx, r->out);
    tiny_free(r->ctx, r);
}

TINY_API tiny_status tllm_ring_stop(tllm_ring *r)
{
    if (!r) return TINY_E_ARGUMENT;
    if (r->rank) return tinyi_fail(r->ctx, TINY_E_ARGUMENT, "rank %d follows: only rank 0 stops a ring", r->rank);
    if (r->world == 1) return TINY_OK;
    memset(r->head, 0, sizeof r->head);
    r->head[0] = TINYI_RING_STOP;
    return tinyi_ring_move(r, 1, 1, 1, r->head, TINYI_RING_HEAD, 0);
}

TINY_API tiny_status tllm_ring_follow(tllm_ring *r, int (*each)(void *user, tllm_ring *ring), void *user)
{
    tiny_status st = TINY_OK;
    if (!r) return TINY_E_ARGUMENT;
    if (!r->rank) return tinyi_fail(r->ctx, TINY_E_ARGUMENT, "rank 0 leads a ring: it cannot follow");
    while (!st) {
        uint64_t kind, n, rows, pos, held;
        st = tinyi_ring_move(r, tinyi_ring_before(r), 0, 1, r->head, TINYI_RING_HEAD, 1);
        if (st) return st;
        kind = tinyi_le32(r->head);
        n = tinyi_le32(r->head + 4);
        rows = tinyi_le32(r->head + 8);
        pos = tinyi_le64(r->head + 16);
        held = tinyi_le64(r->head + 24);
        if (kind == TINYI_RING_STOP)
            return tinyi_ring_next(r) ? tinyi_ring_move(r, tinyi_ring_next(r), 1, 1, r->head, TINYI_RING_HEAD, 0)
                                      : TINY_OK;
        if (kind != TINYI_RING_PIECE || !n || n > (uint64_t)r->n_batch || rows > n || pos > INT32_MAX ||
            held > (uint64_t)tllm_state_length(r->state)) {
            (void)snprintf(r->net->says, sizeof r->net->says, "rank %d sent a piece that there is not",
                           tinyi_ring_before(r));
            return tinyi_ring_fail(r, TINY_E_PROTOCOL);
        }
        st = tllm_state_trim(r->state, (tiny_idx)held);
        if (!st) st = tllm_forward(r->state, r->token, (tiny_idx)n, (int64_t)pos, (tiny_idx)rows, rows ? r->out : NULL);
        if (!st && each && each(user, r)) {
            st = tinyi_fail(r->ctx, TINY_E_CANCELLED, "rank %d was asked to stop", r->rank);
        }
    }
    tinyi_lm_ring_abort(r->m);
    return st;
}

TINY_API tllm_ring_counts tllm_ring_count(const tllm_ring *r)
{
    tllm_ring_counts none;
    memset(&none, 0, sizeof none);
    return r ? r->count : none;
}
TINY_API uint64_t tllm_ring_clock(const tllm_ring *r) { return r ? r->clock : 0; }
