/* src/llm/serve/easyspec.c - groups of attention sub-layers on threads and ranks
 *
 * Order    layers 0 and L - 1 as always; layers 1 .. L - 2 in groups of n, the last one shorter.
 * Threads  one region for each group. A thread computes whole sub-layers with a context and scratch memory of its own,
 *          so its operations run on one thread and need no barriers. Keys and values go into the pages of their layer,
 *          which no other sub-layer of the group touches.
 * Ranks    before each piece, rank 0 broadcasts six numbers (what, order, cells held, position, tokens, first token)
 *          and the other tokens. The others drop what their state holds beyond, and compute the same piece. An exact
 *          piece needs no further message. A fuzzy one needs one all-gather of rows * n_embd floats per sub-layer of
 *          each group, and a sum for each network with TLLM_EASYSPEC_SPLIT. Tensor parallelism needs two sums for each
 *          layer: with L layers in groups of n, 2 n times as many messages.
 * Cache    a rank holds the fuzzy keys of its own sub-layers only. They are dropped by the next calibration, which
 *          every rank computes as a whole. */
#include "llm/serve/easyspec.h"
#include "llm/session/session_inside.h"
#include "llm/model/model_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

enum { TINYI_EASY_HEAD = 6, TINYI_EASY_FORWARD = 1, TINYI_EASY_STOP = 2 };

struct tllm_easyspec {
    tinyi_lm_order order;                   /* first: what the forward pass sees */
    tiny_ctx *ctx;
    tllm_session *s;
    tllm_easyspec_desc d;
    tllm_model *cut;                        /* of the networks with TLLM_EASYSPEC_SPLIT */
    int rank, world, n_ctx;
    tiny_ctx *one[TLLM_EASYSPEC_GROUP];     /* a context for each thread; n_ctx of them, 0: the session's own */
    unsigned char *scratch[TLLM_EASYSPEC_GROUP];
    float *a;                               /* (room for a group, n_batch, n_embd): A_j; of ranks: by rank */
    void *work;
    int64_t *head;                          /* (TINYI_EASY_HEAD + n_batch) */
    tiny_coll coll;
    int commanded;                          /* a follower computes a command */
    int behind;                             /* 1: a fuzzy piece was begun and not finished */
    tiny_status broken;
    tllm_easyspec_counts count;
    /* of the group that runs */
    const tinyi_lm_fwd *f;
    const float *x;
    tiny_idx first, n_group;
};

TINY_API double tllm_easyspec_path(int n_layer, int n, double ta, double tm)
{
    double t = 0.0;
    int i, k;
    if (n_layer < 1 || n < 1) return 0.0;
    for (i = 0; i < n_layer; i += k) {
        k = i == 0 || i == n_layer - 1 ? 1 : TINYI_MIN(n, n_layer - 1 - i);
        t += ta + (double)k * tm;
    }
    return t;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_easy_call(tllm_easyspec *e, tiny_status st)
{
    e->coll.until = 0;
    if (st) e->broken = st;
    return st;
}
static tiny_coll *tinyi_easy_coll(tllm_easyspec *e, int type)
{
    e->coll.type = type;
    e->coll.op = TINY_COLL_SUM;
    e->coll.until = tiny_now_ns() + e->d.timeout_ns;
    return &e->coll;
}

static tiny_status tinyi_easy_command(tllm_easyspec *e)
{
    tiny_status st = tinyi_easy_call(
        e, tiny_coll_broadcast(e->ctx, tinyi_easy_coll(e, TINY_COLL_I64), e->head, TINYI_EASY_HEAD, 0));
    const int64_t n = e->head[4];
    e->count.commands++;
    if (!st && e->head[0] == TINYI_EASY_FORWARD && n > 1 && n <= e->s->state->n_batch)
        st = tinyi_easy_call(e, tiny_coll_broadcast(e->ctx, tinyi_easy_coll(e, TINY_COLL_I64),
                                                    e->head + TINYI_EASY_HEAD, (size_t)n - 1, 0));
    return st;
}

/* ---- what the forward pass calls -------------------------------------------------------------------------------- */

static void tinyi_easy_begin(tinyi_lm_order *o, tinyi_lm_fwd *f)
{
    tllm_easyspec *e = (tllm_easyspec *)o;
    tiny_idx i;
    if (o->on) e->count.fuzzy++;
    else e->count.exact++;
    if (!e->d.net || e->commanded) return;
    if (e->behind || e->broken) {
        f->st = tinyi_fail(f->ctx, e->broken ? e->broken : TINY_E_PEER,
                           "%s: the ranks of the draft stopped in the middle of a pass", f->m->path);
        return;
    }
    if (f->n_run != 1 || f->run[0].seq) {
        f->st = tinyi_fail(f->ctx, TINY_E_UNSUPPORTED, "%s: over ranks the draft has sequence 0 alone: no trees",
                           f->m->path);
        return;
    }
    e->head[0] = TINYI_EASY_FORWARD;
    e->head[1] = o->on;
    e->head[2] = f->run[0].at0;
    e->head[3] = f->row[3];
    e->head[4] = f->n;
    for (i = 0; i < f->n; i++) e->head[5 + i] = f->tokens[i];
    e->behind = o->on;
    f->st = tinyi_easy_command(e);
}

/* y (n, n_embd) = attention of layer l over x, with the memory of g */
static void tinyi_easy_attention(tinyi_lm_fwd *g, const tinyi_lm_layer *l, float *y, const float *x)
{
    const size_t used = g->used;
    float *h = tinyi_lm_take(g, g->n, g->m->n_embd);
    if (g->st) return;
    tinyi_lm_norm(g, l->norm1, h, x, g->n, g->m->n_embd);
    if (TINYI_LM_X_BITS(g->s)) tinyi_lm_few_bits(g, h, g->n, g->m->n_embd);
    tinyi_lm_mix(g, l, y, h);
    g->used = used;
}

static void tinyi_easy_team(tiny_team *team, void *arg)
{
    const tllm_easyspec *e = (const tllm_easyspec *)arg;
    const tiny_idx size = e->f->n * e->f->m->n_embd;
    tinyi_lm_fwd g = *e->f;
    tiny_idx k;
    if (team->i >= e->n_ctx) return;
    g.ctx = e->one[team->i];
    g.base = e->scratch[team->i];
    g.used = 0;
    g.want = NULL;
    for (k = team->i; k < e->n_group && !g.st; k += TINYI_MIN(team->n, e->n_ctx))
        tinyi_easy_attention(&g, &g.m->layer[e->first + k], e->a + k * size, e->x);
    if (g.st) tiny_team_fail(team, g.st, tiny_ctx_message(g.ctx));
}

/* where the result of sub-layer k of a group is: ranks give blocks of equal size */
static float *tinyi_easy_at(const tllm_easyspec *e, tiny_idx n, tiny_idx k, tiny_idx size)
{
    const tiny_idx each = (n + e->world - 1) / e->world;
    return e->a + (k % e->world * each + k / e->world) * size;
}

/* the network of layer l: x += network(norm x), whole or as a sum over ranks */
static void tinyi_easy_network(tllm_easyspec *e, tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const size_t used = f->used;
    const tiny_idx D = f->m->n_embd;
    float *h = tinyi_lm_take(f, f->n, D), *y = tinyi_lm_take(f, f->n, D);
    if (f->st) return;
    tinyi_lm_norm(f, l->norm2, h, x, f->n, D);
    if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, h, f->n, D);
    tinyi_lm_feed(f, e->cut ? &e->cut->layer[l->i] : l, y, h);
    if (e->cut && !f->st) {
        f->st = tinyi_easy_call(e, tiny_coll_allreduce(f->ctx, tinyi_easy_coll(e, TINY_COLL_F32), TINY_COMM_DOUBLING, y,
                                                       (size_t)(f->n * D)));
        e->count.sums++;
    }
    tinyi_lm_settle(f, l, 1, y);
    tinyi_lm_add(f, x, x, y, f->n * D);
    f->used = used;
}

static tiny_idx tinyi_easy_group(tinyi_lm_order *o, tinyi_lm_fwd *f, tiny_idx i, float *x)
{
    tllm_easyspec *e = (tllm_easyspec *)o;
    const tllm_model *m = f->m;
    const tiny_idx D = m->n_embd, size = f->n * D;
    tiny_idx n, k;
    if (!o->on || i < 1 || i >= m->n_layer - 1) {
        if (i == m->n_layer - 1) e->behind = 0;         /* no message is left */
        return 0;
    }
    n = TINYI_MIN((tiny_idx)e->d.n, m->n_layer - 1 - i);
    if (!e->d.net && n > 1 && e->n_ctx > 1) {
        e->f = f;
        e->x = x;
        e->first = i;
        e->n_group = n;
        f->st = tiny_parallel(f->ctx, (int)TINYI_MIN(n, (tiny_idx)e->n_ctx), 0, 0, tinyi_easy_team, e);
    } else
        for (k = e->rank; k < n && !f->st; k += e->world)
            tinyi_easy_attention(f, &m->layer[i + k], tinyi_easy_at(e, n, k, size), x);
    if (e->world > 1 && !f->st) {
        f->st = tinyi_easy_call(e, tiny_coll_allgather(f->ctx, tinyi_easy_coll(e, TINY_COLL_F32), TINY_COLL_BRUCK, e->a,
                                                       (size_t)((n + e->world - 1) / e->world * size)));
        e->count.gathers++;
    }
    for (k = 0; k < n && !f->st; k++) {
        const tinyi_lm_layer *l = &m->layer[i + k];
        float *y = tinyi_easy_at(e, n, k, size);
        tinyi_lm_settle(f, l, 0, y);
        tinyi_lm_add(f, x, x, y, size);
        tinyi_easy_network(e, f, l, x);
        tinyi_lm_steer(f, i + k, x);
    }
    e->count.groups++;
    return n;
}

/* ---- the public face -------------------------------------------------------------------------------------------- */

static tiny_status tinyi_easy_may(const tllm_session *s, const tllm_easyspec_desc *d)
{
    const tllm_model *m = s->model;
    const char *why = NULL;
    tiny_idx i;
    if (s->ctx->desc.accel) why = "with an accelerator";
    else if (m->world > 1 || m->routes) why = "of a model that is split over ranks or has other routes";
    else if (m->encoder || m->loop_norm || m->recurrent) why = "of this architecture";
    else if (d->mode == TLLM_EASYSPEC_SPLIT && (m->n_merged || m->eights))
        why = "as shares of networks, when adapters were merged or matrices repacked";
    for (i = 0; i < m->n_layer && !why; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (!tinyi_lm_can_ladder(m, l) || l->mix2 != TINYI_LM_NO_MIX || l->kv_from != i ||
            (l->mix != TINYI_LM_ATTN && l->mix != TINYI_LM_MLA))
            why = "of layers other than attention and a network, each added to the stream";
    }
    if (!why) return TINY_OK;
    return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: layers cannot be computed side by side %s", m->path, why);
}

static tiny_status tinyi_easy_contexts(tllm_easyspec *e)
{
    const tllm_state *state = e->s->state;
    const int n = e->d.net ? 0 : TINYI_MIN(e->d.n, tiny_ctx_threads(e->ctx));
    tiny_ctx_desc d;
    int i;
    tiny_status st = TINY_OK;
    if (n < 2) return TINY_OK;
    memset(&d, 0, sizeof d);
    d.allocator = e->ctx->desc.allocator;
    d.n_threads = 1;
    d.target = e->ctx->target;
    for (i = 0; i < n && !st; i++) {
        st = tiny_ctx_open(&d, &e->one[i]);
        if (st) return tinyi_fail(e->ctx, st, "there is no memory for the context of a thread");
        st = tinyi_work_reserve(e->one[i], state->work);
        if (st) return tinyi_fail(e->ctx, st, "%s", tiny_ctx_message(e->one[i]));
        e->scratch[i] = (unsigned char *)tinyi_alloc(e->ctx, state->scratch_bytes, 1);
        if (!e->scratch[i]) return tiny_ctx_status(e->ctx);
        e->n_ctx = i + 1;
    }
    return st;
}

static tiny_status tinyi_easy_ranks(tllm_easyspec *e)
{
    const tllm_state *state = e->s->state;
    const size_t size = (size_t)(state->n_batch * e->s->model->n_embd),
                 each = (size_t)((e->d.n + e->world - 1) / e->world) * size;
    int64_t said, mine;
    tinyi_hash h;
    tiny_status st = TINY_OK, told;
    e->coll.net = e->d.net;
    e->coll.n_work = TINYI_MAX(tiny_coll_work(e->world, each, 4), tiny_coll_work(e->world, (size_t)state->n_batch, 8));
    if (e->coll.n_work == SIZE_MAX) return tinyi_fail(e->ctx, TINY_E_OVERFLOW, "groups of this size are too large");
    e->work = e->coll.work = tinyi_alloc(e->ctx, e->coll.n_work, 1);
    if (!e->work) return tiny_ctx_status(e->ctx);
    if (e->d.mode == TLLM_EASYSPEC_SPLIT) {
        st = tllm_model_open(e->ctx, e->s->model->file, &e->cut);
        if (!st) st = tllm_model_cut(e->ctx, e->cut, e->rank, e->world);
    }
    /* the same model, groups and pieces on all ranks, or none begins; a rank that failed so far says so */
    tinyi_hash_start(&h);
    tinyi_lm_hash_u64(&h, tinyi_lm_model_print(e->s->model));
    tinyi_lm_hash_u64(&h, (uint64_t)e->d.n);
    tinyi_lm_hash_u64(&h, (uint64_t)e->d.mode);
    tinyi_lm_hash_u64(&h, (uint64_t)state->n_batch);
    tinyi_lm_hash_u64(&h, (uint64_t)state->n_ctx);
    mine = said = st ? -1 : (int64_t)(tinyi_hash_value(&h) >> 8);
    told = tinyi_easy_call(e, tiny_coll_broadcast(e->ctx, tinyi_easy_coll(e, TINY_COLL_I64), &said, 1, 0));
    said = st || said != mine;
    if (!told)
        told = tinyi_easy_call(
            e, tiny_coll_allreduce(e->ctx, tinyi_easy_coll(e, TINY_COLL_I64), TINY_COMM_DOUBLING, &said, 1));
    if (st || told) return st ? st : told;
    if (said)
        return tinyi_fail(e->ctx, TINY_E_PROTOCOL, "%s: the ranks opened drafts with different models, groups or sizes",
                          e->s->model->path);
    return TINY_OK;
}

TINY_API tiny_status tllm_easyspec_open(tllm_session *s, const tllm_easyspec_desc *desc, tllm_easyspec **out)
{
    tllm_easyspec_desc d;
    tllm_easyspec *e;
    tiny_idx size;
    tiny_status st = tinyi_session_text(s, 1);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "tllm_easyspec_open: the result pointer is NULL");
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!d.n) d.n = 4;
    if (!d.timeout_ns) d.timeout_ns = UINT64_C(60000000000);
    if (d.n < 1 || d.n > TLLM_EASYSPEC_GROUP)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a group has 1 to %d layers, not %d", TLLM_EASYSPEC_GROUP, d.n);
    if (d.mode != TLLM_EASYSPEC_REPEAT && d.mode != TLLM_EASYSPEC_SPLIT)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "there is no mode %d of the networks", d.mode);
    if (d.mode == TLLM_EASYSPEC_SPLIT && !d.net)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "shares of networks need several ranks");
    if (s->state->order) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the session has fuzzy layers already");
    st = tinyi_easy_may(s, &d);
    if (st) return st;
    e = (tllm_easyspec *)tinyi_alloc(s->ctx, 1, sizeof *e);
    if (!e) return tiny_ctx_status(s->ctx);
    memset(e, 0, sizeof *e);
    e->order.begin = tinyi_easy_begin;
    e->order.group = tinyi_easy_group;
    e->order.keeps = d.no_calibration;
    e->ctx = s->ctx;
    e->s = s;
    e->d = d;
    e->world = d.net ? d.net->world : 1;
    e->rank = d.net ? d.net->rank : 0;
    size = s->state->n_batch * s->model->n_embd;
    e->a = (float *)tinyi_alloc(s->ctx, (size_t)((d.n + e->world - 1) / e->world * e->world),
                                (size_t)size * sizeof *e->a);
    e->head = e->a ? (int64_t *)tinyi_alloc(s->ctx, (size_t)(TINYI_EASY_HEAD + s->state->n_batch), sizeof *e->head)
                   : NULL;
    if (!e->head) st = tiny_ctx_status(s->ctx);
    if (!st) st = d.net ? tinyi_easy_ranks(e) : tinyi_easy_contexts(e);
    if (st) {
        e->broken = st;
        tllm_easyspec_close(e);
        return st;
    }
    s->state->order = &e->order;
    *out = e;
    return TINY_OK;
}

TINY_API void tllm_easyspec_close(tllm_easyspec *e)
{
    tiny_ctx *ctx;
    int i;
    if (!e) return;
    ctx = e->ctx;
    if (e->s->state->order == &e->order) e->s->state->order = NULL;
    if (e->d.net && !e->rank && !e->broken && !e->behind) {
        memset(e->head, 0, TINYI_EASY_HEAD * sizeof *e->head);
        e->head[0] = TINYI_EASY_STOP;
        (void)tinyi_easy_command(e);
    }
    for (i = 0; i < TLLM_EASYSPEC_GROUP; i++) {
        tiny_free(ctx, e->scratch[i]);
        tiny_ctx_close(e->one[i]);
    }
    tllm_model_close(ctx, e->cut);
    tiny_free(ctx, e->work);
    tiny_free(ctx, e->head);
    tiny_free(ctx, e->a);
    tiny_free(ctx, e);
}

TINY_API tiny_status tllm_easyspec_fuzzy(tllm_easyspec *e, int on)
{
    if (!e) return TINY_E_ARGUMENT;
    e->order.on = on != 0;
    return TINY_OK;
}

TINY_API void tllm_easyspec_count(const tllm_easyspec *e, tllm_easyspec_counts *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!e) return;
    *out = e->count;
    out->clock = e->coll.clock;
}

TINY_API tiny_status tllm_easyspec_follow(tllm_easyspec *e)
{
    tllm_state *state;
    tiny_status st = TINY_OK;
    if (!e) return TINY_E_ARGUMENT;
    if (!e->d.net || !e->rank)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "only ranks above 0 follow: rank 0 drafts");
    state = e->s->state;
    while (!st) {
        tiny_idx i;
        int32_t *token = e->s->token;
        const int64_t *h = e->head;
        st = tinyi_easy_command(e);
        if (st || h[0] == TINYI_EASY_STOP) return st;
        if (h[0] != TINYI_EASY_FORWARD || h[1] < 0 || h[1] > 1 || h[2] < 0 || h[2] > tllm_state_length(state) ||
            h[4] < 1 || h[4] > state->n_batch || h[4] > e->s->n_ctx - h[2]) {
            e->broken = TINY_E_PROTOCOL;
            return tinyi_fail(e->ctx, TINY_E_PROTOCOL, "rank 0 sent a command that cannot be followed");
        }
        for (i = 0; i < h[4]; i++)
            token[i] = h[5 + i] < 0 || h[5 + i] > INT32_MAX ? -1 : (int32_t)h[5 + i];
        st = tllm_seq_trim(state, 0, (tiny_idx)h[2]);
        e->order.on = (int)h[1];
        e->commanded = 1;
        if (!st) st = tllm_forward(state, token, (tiny_idx)h[4], h[3], 0, NULL);
        e->commanded = 0;
        e->order.on = 0;
        e->s->n = 0;                        /* its text is not that of rank 0 */
        if (st && !e->broken) e->broken = st;
    }
    return st;
}
