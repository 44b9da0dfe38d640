/* src/llm/dist/moe_fold.c - grids of ranks, the router, and the exchange of tokens
 * Paper    D. Liu et al., "MoE Parallel Folding: Heterogeneous Parallelism Mappings for Efficient Large-Scale MoE Model
 *          Training with Megatron Core", 2025 (arXiv 2504.14960): abstract, and the structure of the authors' program.
 * Formula  tp cp dp pp = etp ep edp pp = ranks; a rank's number is written in digits of these sizes, fastest first, and
 *          a group along an axis holds the ranks that differ in that digit only. The slowest digit is pp in both.
 *          score = softmax(logits); the k largest (ties: the lower expert); gate = score, or score / sum of the k.
 *          capacity C = ceil(factor T k / E), at least min_capacity
 *          y[t] = sum over its experts e, ascending, of gate[t][e] f_e(x[t])
 *          balance = coefficient E sum_e f_e P_e, f_e the share of the T k pairs, P_e the mean score, of this rank
 * Steps    1 counts of rows for each expert, gathered over etp x ep; 2 rows in the order of experts, then tokens; 3 to
 *          the owners (all-to-all over ep); 4 all-gather over etp; 5 from (etp, source, expert) to (expert, etp,
 *          source); 6 experts; 7 back to (etp, source, expert), summed over etp in rank order; 8 back to the sources;
 *          9 the sum over the experts of a token, in f32.
 * Cost     T k rows of `width` numbers travel twice, those of own experts excepted; etp > 1: each of them etp - 1 times
 *          more in each direction. One sort by expert, three copies of a row each way.
 * Bounds   counts of other ranks are checked before memory is taken for their rows. Of M = most_tokens tokens an expert
 *          gets M rows or C(M), whichever is less, and all experts together k M.
 * Left out gradients: the layer serves models that were trained elsewhere. Gates do not travel with the rows, because
 *          step 9 multiplies at home. */
#include "llm/dist/moe_fold_inside.h"
#include "llm/dist/subnet_inside.h"
#include "core/collective.h"
#include "core/half_inside.h"
#include "core/time.h"
#include "math/elem.h"
#include "math/sort.h"
#include "core/state_inside.h"
#include <string.h>

/* ---- grids */

enum { TINYI_FOLD_DIGITS = 4 };
/* the sizes of a grid, fastest first, and which digits an axis varies */
static unsigned tinyi_folding_grid(const tllm_folding *f, int ranks, int axis, int size[TINYI_FOLD_DIGITS])
{
    const int tp = TINYI_MAX(f->tp, 1), cp = TINYI_MAX(f->cp, 1), dp = TINYI_MAX(f->dp, 1), pp = TINYI_MAX(f->pp, 1);
    const int etp = TINYI_MAX(f->etp, 1), ep = TINYI_MAX(f->ep, 1), edp = ranks / (etp * ep * pp);
    const int expert = axis >= TLLM_FOLD_ETP;
    size[0] = expert ? etp : tp;
    size[1] = expert ? f->across ? edp : ep : cp;
    size[2] = expert ? f->across ? ep : edp : dp;
    size[3] = pp;
    switch (axis) {
    case TLLM_FOLD_TP: case TLLM_FOLD_ETP: return 1;
    case TLLM_FOLD_CP: return 2;
    case TLLM_FOLD_DP: return 4;
    case TLLM_FOLD_PP: return 8;
    case TLLM_FOLD_SEQUENCE: return 1 | 2;
    case TLLM_FOLD_EP: return f->across ? 4 : 2;
    case TLLM_FOLD_EDP: return f->across ? 2 : 4;
    default: return f->across ? 1 | 4 : 1 | 2;
    }
}

TINY_API tiny_status tllm_folding_check(tiny_ctx *ctx, const tllm_folding *f, int ranks)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int part[6], i;
    static const char *const name[6] = { "tp", "cp", "dp", "pp", "etp", "ep" };
    double attention = 1, experts = 1;
    if (st) return st;
    if (!f) return tinyi_fail(ctx, TINY_E_ARGUMENT, "folding: the sizes are missing");
    if (ranks < 1 || ranks > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "folding: %d ranks; there may be 1 to %d", ranks, TINY_NET_RANKS);
    part[0] = f->tp; part[1] = f->cp; part[2] = f->dp; part[3] = f->pp; part[4] = f->etp; part[5] = f->ep;
    for (i = 0; i < 6; i++) {
        if (part[i] < 0 || part[i] > TINY_NET_RANKS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "folding: %s is %d; it must be 1 to %d", name[i], part[i],
                              TINY_NET_RANKS);
        if (i < 4) attention *= TINYI_MAX(part[i], 1);
        if (i >= 3) experts *= TINYI_MAX(part[i], 1);
    }
    if (attention != (double)ranks)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "folding: tp cp dp pp = %d x %d x %d x %d are %.0f ranks, not %d",
                          TINYI_MAX(f->tp, 1), TINYI_MAX(f->cp, 1), TINYI_MAX(f->dp, 1), TINYI_MAX(f->pp, 1),
                          attention, ranks);
    if (experts > (double)ranks || ranks % (int)experts)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "folding: etp ep pp = %d x %d x %d do not divide %d ranks",
                          TINYI_MAX(f->etp, 1), TINYI_MAX(f->ep, 1), TINYI_MAX(f->pp, 1), ranks);
    return TINY_OK;
}

TINY_API int tllm_folding_group(const tllm_folding *f, int ranks, int axis, int rank, int *member)
{
    int size[TINYI_FOLD_DIGITS], n = 0, r, i;
    unsigned varies;
    if (!f || !member || axis < 0 || axis >= TLLM_FOLD_AXES || rank < 0 || rank >= ranks ||
        tllm_folding_stage(f, ranks, rank) < 0)
        return 0;
    varies = tinyi_folding_grid(f, ranks, axis, size);
    for (r = 0; r < ranks; r++) {
        int a = r, b = rank, same = 1;
        for (i = 0; i < TINYI_FOLD_DIGITS; i++) {
            if (!(varies >> i & 1u) && a % size[i] != b % size[i]) same = 0;
            a /= size[i];
            b /= size[i];
        }
        if (same) member[n++] = r;
    }
    return n;
}

TINY_API int tllm_folding_stage(const tllm_folding *f, int ranks, int rank)
{
    int i, part[6], experts;
    double all = 1;
    if (!f || ranks < 1 || ranks > TINY_NET_RANKS || rank < 0 || rank >= ranks) return -1;
    part[0] = f->tp; part[1] = f->cp; part[2] = f->dp; part[3] = f->pp; part[4] = f->etp; part[5] = f->ep;
    for (i = 0; i < 6; i++)
        if (part[i] < 0 || part[i] > TINY_NET_RANKS) return -1;
    for (i = 0; i < 4; i++) all *= TINYI_MAX(part[i], 1);
    experts = TINYI_MAX(part[4], 1) * TINYI_MAX(part[5], 1) * TINYI_MAX(part[3], 1);
    if (all != (double)ranks || ranks % experts) return -1;
    return rank / (ranks / TINYI_MAX(f->pp, 1));
}

/* ---- a layer */

typedef struct tinyi_moe_room { void *at; size_t bytes; } tinyi_moe_room;
enum {
    TINYI_MOE_COUNTS, TINYI_MOE_EXPERT, TINYI_MOE_GATE, TINYI_MOE_SCORE, TINYI_MOE_KEEP, TINYI_MOE_TOKEN,
    TINYI_MOE_ROW_GATE, TINYI_MOE_SEND, TINYI_MOE_RECV, TINYI_MOE_ALL, TINYI_MOE_ROWS, TINYI_MOE_WIRE,
    TINYI_MOE_WIRE_IN, TINYI_MOE_SORT, TINYI_MOE_PART, TINYI_MOE_ROOMS
};

struct tllm_moe {
    tiny_ctx *ctx;
    tllm_moe_desc is;
    tllm_folding folding;
    int world, ep, etp, i_ep, i_etp;
    tiny_idx own;                           /* experts of a rank */
    tinyi_subnet by_ep, by_etp, by_experts, by_sequence;
    uint64_t clock;
    tiny_status dead;
    int stage;                              /* 0: nothing, 1: routed, 2: dispatched */
    tllm_moe_plan plan;
    tiny_idx *count;                        /* (own) rows of each own expert */
    int64_t *n;                             /* (ep, etp, E): rows for each expert from each rank */
    tinyi_moe_room room[TINYI_MOE_ROOMS];
    float *weights;                         /* of tllm_moe_read */
};

TINYI_FN const tllm_moe_desc *tinyi_moe_desc_of(const tllm_moe *m) { return &m->is; }
TINYI_FN tiny_ctx *tinyi_moe_ctx(const tllm_moe *m) { return m->ctx; }

TINYI_FN tiny_idx tinyi_moe_capacity(const tllm_moe_desc *d, tiny_idx tokens)
{
    const double exact = (d->factor > 0.0 ? d->factor : 1.0) * (double)tokens * (double)d->k / (double)d->n_expert;
    tiny_idx c = exact < (double)(TINY_IDX_MAX / 2) ? (tiny_idx)exact : TINY_IDX_MAX / 2;
    /* a product such as 1.1 * 10 may end a few units above a whole number */
    if (exact - (double)c > 1e-9 * (exact + 1.0)) c++;
    return TINYI_MAX(c, d->min_capacity);
}

TINYI_FN tiny_status tinyi_moe_check(tiny_ctx *ctx, const tllm_moe_desc *d)
{
    size_t n;
    if (d->n_expert < 1 || d->n_expert > 65536)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: %td experts; there may be 1 to 65536", d->n_expert);
    if (d->k < 1 || d->k > d->n_expert)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a token goes to %td of %td experts", d->k, d->n_expert);
    if (d->width < 1 || d->hidden < 0 || d->width > ((tiny_idx)1 << 24) || d->hidden > ((tiny_idx)1 << 24))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: rows of %td numbers, experts of %td", d->width, d->hidden);
    if (!tinyi_size_mul((size_t)d->width, (size_t)TINYI_MAX(d->hidden, 1), &n) ||
        !tinyi_size_mul(n, (size_t)d->n_expert, &n) || !tinyi_size_mul(n, sizeof(float), &n) ||
        !tinyi_size_mul((size_t)d->hidden, 4 * TINYI_MOE_BLOCK * sizeof(float), &n))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "mixture: the experts are more than this machine can address");
    if (d->drop < 0 || d->drop >= TLLM_MOE_DROPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: %d is no way to drop tokens", d->drop);
    if (!(d->factor >= 0.0 && d->factor <= 1e6) || d->min_capacity < 0 || d->min_capacity > ((tiny_idx)1 << 30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a capacity factor of %g and a least capacity of %td",
                          d->factor, d->min_capacity);
    if (d->most_tokens < 0 || d->most_tokens > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: most_tokens is %td; it must be 0 to %ld", d->most_tokens,
                          (long)INT32_MAX);
    if (!(d->balance >= 0.0 && d->balance <= 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a balancing factor of %g", d->balance);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_moe_end(tllm_moe *m, tiny_status st)
{
    m->dead = st;
    m->stage = 0;
    return tinyi_net_end(m->ctx, m->is.net, st);
}

static tiny_status tinyi_moe_group(tllm_moe *m, tinyi_subnet *s, int axis, unsigned number)
{
    int member[TINY_NET_RANKS];
    const int n = tllm_folding_group(&m->folding, m->world, axis, m->is.net->rank, member);
    return tinyi_subnet_make(m->ctx, s, m->is.net, member, n, number);
}

TINY_API void tllm_moe_close(tllm_moe *m)
{
    int i;
    if (!m) return;
    for (i = 0; i < TINYI_MOE_ROOMS; i++) tiny_free(m->ctx, m->room[i].at);
    tiny_free(m->ctx, m->weights);
    tiny_free(m->ctx, m->count);
    tiny_free(m->ctx, m->n);
    tiny_free(m->ctx, m);
}

TINYI_FN float *tinyi_moe_weights_room(tllm_moe *m, size_t n)
{
    tiny_free(m->ctx, m->weights);
    m->weights = (float *)tinyi_alloc(m->ctx, n, sizeof *m->weights);
    return m->weights;
}

TINY_API tiny_status tllm_moe_open(tiny_ctx *ctx, const tllm_moe_desc *d, tllm_moe **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_folding f;
    tllm_moe *m;
    int world;
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: a description and an output pointer are needed");
    st = tinyi_moe_check(ctx, d);
    if (st) return st;
    world = d->net ? d->net->world : 1;
    memset(&f, 0, sizeof f);
    if (d->folding) f = *d->folding;
    else f.dp = f.ep = world;
    st = tllm_folding_check(ctx, &f, world);
    if (st) return st;
    if (d->net && (d->net->rank < 0 || d->net->rank >= world))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: rank %d of %d", d->net->rank, world);
    if (d->n_expert % TINYI_MAX(f.ep, 1))
        return tinyi_fail(ctx, TINY_E_SHAPE, "mixture: %td experts cannot be divided evenly by ep = %d", d->n_expert,
                          f.ep);
    if (d->hidden % TINYI_MAX(f.etp, 1))
        return tinyi_fail(ctx, TINY_E_SHAPE, "mixture: %td hidden numbers cannot be divided evenly by etp = %d",
                          d->hidden, f.etp);
    if (d->pad && (d->drop == TLLM_MOE_DROPLESS || d->whole_sequence))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "mixture: padding needs a capacity for each rank: drop tokens, and "
                          "not over the whole sequence");
    m = (tllm_moe *)tinyi_alloc(ctx, 1, sizeof *m);
    if (!m) return tiny_ctx_status(ctx);
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->is = *d;
    m->folding = f;
    m->is.folding = &m->folding;
    m->world = world;
    m->ep = TINYI_MAX(f.ep, 1);
    m->etp = TINYI_MAX(f.etp, 1);
    m->own = d->n_expert / m->ep;
    if (m->is.balance == 0.0) m->is.balance = 1.0;
    if (!m->is.most_tokens) m->is.most_tokens = 65536;
    if (d->net) {
        st = tinyi_moe_group(m, &m->by_ep, TLLM_FOLD_EP, 1);
        if (!st) st = tinyi_moe_group(m, &m->by_etp, TLLM_FOLD_ETP, 2);
        if (!st) st = tinyi_moe_group(m, &m->by_experts, TLLM_FOLD_EXPERTS, 3);
        if (!st) st = tinyi_moe_group(m, &m->by_sequence, TLLM_FOLD_SEQUENCE, 4);
        m->i_ep = m->by_ep.net.rank;
        m->i_etp = m->by_etp.net.rank;
    } else m->by_ep.net.world = m->by_etp.net.world = m->by_experts.net.world = m->by_sequence.net.world = 1;
    m->count = st ? NULL : (tiny_idx *)tinyi_alloc(ctx, (size_t)m->own, sizeof *m->count);
    m->n = m->count ? (int64_t *)tinyi_alloc(ctx, (size_t)d->n_expert * (size_t)m->ep * (size_t)m->etp, sizeof *m->n)
                    : NULL;
    if (!st && !m->n) st = tiny_ctx_status(ctx);
    if (st) {
        tllm_moe_close(m);
        return st;
    }
    *out = m;
    return TINY_OK;
}

TINY_API tllm_moe_plan tllm_moe_plan_of(const tllm_moe *m)
{
    tllm_moe_plan none;
    memset(&none, 0, sizeof none);
    return m ? m->plan : none;
}
TINY_API tiny_idx tllm_moe_own(const tllm_moe *m, tiny_idx *first)
{
    if (first) *first = m ? m->i_ep * m->own : 0;
    return m ? m->own : 0;
}
TINY_API tiny_idx tllm_moe_hidden(const tllm_moe *m, tiny_idx *first)
{
    if (first) *first = m ? m->i_etp * (m->is.hidden / m->etp) : 0;
    return m ? m->is.hidden / m->etp : 0;
}
TINY_API uint64_t tllm_moe_clock(tllm_moe *m, uint64_t ns)
{
    if (!m) return 0;
    m->clock = TINYI_MAX(m->clock, ns);
    return m->clock;
}

/* n things of `each` bytes in room i, which only grows; what was there is lost. NULL: the group has ended. */
static void *tinyi_moe_take(tllm_moe *m, int i, size_t n, size_t each)
{
    tinyi_moe_room *r = &m->room[i];
    size_t bytes;
    if (!tinyi_size_mul(n, each, &bytes)) {
        (void)tinyi_fail(m->ctx, TINY_E_OVERFLOW, "mixture: %zu rows are more than this machine can address", n);
        (void)tinyi_moe_end(m, TINY_E_OVERFLOW);
        return NULL;
    }
    if (r->at && bytes <= r->bytes) return r->at;
    tiny_free(m->ctx, r->at);
    if (!tinyi_size_add(bytes, bytes / 4, &r->bytes)) r->bytes = bytes;
    r->at = tiny_alloc(m->ctx, r->bytes);
    if (!r->at) {
        r->bytes = 0;
        (void)tinyi_moe_end(m, tiny_ctx_status(m->ctx));
    }
    return r->at;
}

static tiny_status tinyi_moe_ready(tllm_moe *m, int stage, const char *first)
{
    if (m->dead) return tinyi_fail(m->ctx, m->dead, "mixture: the group has ended");
    if (m->is.net && m->is.net->why) return tinyi_fail(m->ctx, m->is.net->why, "%s", m->is.net->says);
    return m->stage >= stage ? TINY_OK : tinyi_fail(m->ctx, TINY_E_ARGUMENT, "mixture: call %s before", first);
}

/* ---- exchanges: the clock is handed from one group to the next */

static tiny_coll tinyi_moe_coll(tllm_moe *m, tinyi_subnet *s, int type)
{
    tiny_coll c;
    memset(&c, 0, sizeof c);
    c.net = &s->net;
    c.type = type;
    c.until = tiny_now_ns() + (m->is.timeout_ns ? m->is.timeout_ns : UINT64_C(10000000000));
    c.clock = m->clock;
    return c;
}
static tiny_status tinyi_moe_called(tllm_moe *m, const tiny_coll *c, tiny_status st)
{
    m->clock = c->clock;
    return st ? tinyi_moe_end(m, st) : TINY_OK;
}

/* Member i of a group claims what cannot be; the context has the sentence. */
static tiny_status tinyi_moe_liar(tllm_moe *m, const tinyi_subnet *s, int i)
{
    m->is.net->gone = s->member[i] + 1;
    return tinyi_moe_end(m, TINY_E_PROTOCOL);
}

/* all (members, n): every member's n numbers */
static tiny_status tinyi_moe_gather(tllm_moe *m, tinyi_subnet *s, int64_t *all, size_t n)
{
    tiny_coll c = tinyi_moe_coll(m, s, TINY_COLL_I64);
    if (s->net.world == 1) return TINY_OK;
    return tinyi_moe_called(m, &c, tiny_coll_allgather(m->ctx, &c, TINY_COLL_RING, all, n));
}

static void tinyi_moe_to_half(tiny_ctx *ctx, uint16_t *y, const float *x, size_t n)
{
    if (n) TINYI_OF(ctx->k, f32_to_f16)(y, x, n);
}
static void tinyi_moe_from_half(tiny_ctx *ctx, float *y, const uint16_t *x, size_t n)
{
    if (n) TINYI_OF(ctx->k, f16_to_f32)(y, x, n);
}

/* Blocks of rows to each member, n_out[i] rows from row at[i] of `from` on (NULL: one after the other), and n_in[i]
 * rows from each, one after the other, into `to`. rows: of the whole list `from`. */
static tiny_status tinyi_moe_rows(tllm_moe *m, tinyi_subnet *s, const float *from, size_t rows, const uint64_t *at,
                                  const uint64_t *n_out, float *to, const uint64_t *n_in)
{
    const size_t width = (size_t)m->is.width, each = width * (m->is.half ? 2 : 1);
    uint64_t from_at[TINY_NET_RANKS], out[TINY_NET_RANKS], in[TINY_NET_RANKS], n = 0;
    const int world = s->net.world;
    uint16_t *wire = NULL, *wire_in = NULL;
    tiny_status st = TINY_OK;
    int i;
    for (i = 0; i < world; i++) {
        from_at[i] = at ? at[i] * each : 0;
        out[i] = n_out[i] * each;
        in[i] = n_in[i] * each;
        n += n_in[i];
    }
    if (m->is.half) {
        wire = (uint16_t *)tinyi_moe_take(m, TINYI_MOE_WIRE, rows, width * 2);
        wire_in = wire ? (uint16_t *)tinyi_moe_take(m, TINYI_MOE_WIRE_IN, (size_t)n, width * 2) : NULL;
        if (!wire_in) return m->dead;
        tinyi_moe_to_half(m->ctx, wire, from, rows * width);
    }
    if (world == 1) {
        if (m->is.half) tinyi_moe_from_half(m->ctx, to, wire, (size_t)n * width);
        else if (n) memcpy(to, from, (size_t)n * width * sizeof *to);
        return TINY_OK;
    }
    {
        tiny_coll c = tinyi_moe_coll(m, s, m->is.half ? TINY_COLL_U8 : TINY_COLL_F32);
        st = tinyi_moe_called(m, &c,
                              tiny_coll_exchange(m->ctx, &c, m->is.half ? (const void *)wire : (const void *)from,
                                                 at ? from_at : NULL, out, m->is.half ? (void *)wire_in : (void *)to,
                                                 in));
    }
    if (!st && m->is.half) tinyi_moe_from_half(m->ctx, to, wire_in, (size_t)n * width);
    return st;
}

/* ---- the router */

TINY_REF_BEGIN
/* The k most probable experts of a token, scores in *score of all experts. Returns the first expert whose logit is not
 * a number, or -1. */
static tiny_idx tinyi_moe_choose(const float *logits, tiny_idx n_expert, tiny_idx k, int plain, double *score,
                                 int32_t *expert, float *probability, float *gate)
{
    double sum = 0.0, chosen = 0.0;
    float top = logits[0];
    tiny_idx e, i;
    for (e = 0; e < n_expert; e++) {
        if (!(logits[e] - logits[e] == 0.0f)) return e;
        if (logits[e] > top) top = logits[e];
    }
    tinyi_exp64_below(score, logits, (double)top, (size_t)n_expert);
    for (e = 0; e < n_expert; e++) sum += score[e];
    for (e = 0; e < n_expert; e++) score[e] /= sum;
    for (i = 0; i < k; i++) {               /* the list is kept in order: insertion from its end */
        expert[i] = -1;
        probability[i] = -1.0f;
    }
    for (e = 0; e < n_expert; e++) {
        const float p = (float)score[e];
        for (i = k; i > 0 && p > probability[i - 1]; i--)
            if (i < k) {
                probability[i] = probability[i - 1];
                expert[i] = expert[i - 1];
            }
        if (i < k) {
            probability[i] = p;
            expert[i] = (int32_t)e;
        }
    }
    for (i = 0; i < k; i++) chosen += (double)probability[i];
    for (i = 0; i < k; i++)
        gate[i] = plain || chosen == 0.0 ? probability[i] : (float)((double)probability[i] / chosen);
    return -1;
}
TINY_REF_END

/* Drops: list (n) holds an entry for each pair of one expert, of all ranks: descending probability, then ascending
 * place in the sequence. Larger keys are dropped first. */
static uint64_t tinyi_moe_key(int drop, float probability, uint64_t place)
{
    return drop == TLLM_MOE_DROP_PROBS ? (uint64_t)(UINT32_MAX - tinyi_f32_bits(probability)) << 32 | place : place;
}

/* Marks in keep (tokens, k) the pairs that stay. Places of the own tokens in the sequence begin at first; all (n_all)
 * are the tokens of the sequence: k experts and k probabilities each. */
static tiny_status tinyi_moe_drop(tllm_moe *m, const float *all, size_t n_all, size_t first, size_t tokens,
                                  unsigned char *keep)
{
    const size_t k = (size_t)m->is.k, n_expert = (size_t)m->is.n_expert;
    const size_t capacity = (size_t)m->plan.capacity;
    uint64_t *key;
    uint32_t *who;
    size_t *at, i, j, e, n;
    unsigned char *room;
    tiny_status st = TINY_OK;
    if (!tinyi_size_mul(n_all, k, &n) || n_all >= UINT32_MAX || n >= UINT32_MAX)
        return tinyi_fail(m->ctx, TINY_E_OVERFLOW, "mixture: a sequence of %zu tokens", n_all);
    room = (unsigned char *)tinyi_moe_take(m, TINYI_MOE_SORT, n + n_expert + 1, sizeof *key + sizeof *who + sizeof *at);
    if (!room) return m->dead;
    key = (uint64_t *)(void *)room;
    at = (size_t *)(void *)(key + n + n_expert + 1);
    who = (uint32_t *)(void *)(at + n + n_expert + 1);
    memset(at, 0, (n_expert + 1) * sizeof *at);
    for (i = 0; i < n_all; i++)
        for (j = 0; j < k; j++) at[(size_t)all[2 * k * i + j] + 1]++;
    for (e = 0; e < n_expert; e++) at[e + 1] += at[e];
    for (i = 0; i < n_all; i++)
        for (j = 0; j < k; j++) {
            const size_t to = at[(size_t)all[2 * k * i + j]]++;
            key[to] = tinyi_moe_key(m->is.drop, all[2 * k * i + k + j], i);
            who[to] = (uint32_t)(k * i + j);
        }
    for (e = 0; e < n_expert && !st; e++) {
        const size_t from = e ? at[e - 1] : 0, some = at[e] - from;     /* at was moved on to the ends */
        if (some > capacity) st = tiny_sort_u64(m->ctx, key + from, who + from, some, 0);
        for (i = 0; i < some && !st; i++) {
            const size_t pair = who[from + i];
            if (pair / k >= first && pair / k < first + tokens) keep[pair - k * first] = i < capacity;
        }
    }
    return st;
}

/* The tokens of the whole sequence: (tokens, 2 k) of each rank of tp x cp, gathered. */
static tiny_status tinyi_moe_sequence(tllm_moe *m, const float *mine, size_t tokens, float **all, size_t *n_all,
                                      size_t *first)
{
    const size_t each = 2 * (size_t)m->is.k;
    uint64_t at[TINY_NET_RANKS], out[TINY_NET_RANKS], in[TINY_NET_RANKS];
    int64_t n[TINY_NET_RANKS];
    const float *x;
    tiny_coll c;
    tiny_status st;
    size_t t;
    int i;
    memset(n, 0, sizeof n);
    n[m->by_sequence.net.rank] = (int64_t)tokens;
    st = tinyi_moe_gather(m, &m->by_sequence, n, 1);
    *n_all = 0;
    for (i = 0; i < m->by_sequence.net.world && !st; i++) {
        if (n[i] < 0 || n[i] > m->is.most_tokens) {
            (void)tinyi_fail(m->ctx, TINY_E_PROTOCOL, "mixture: rank %d claims %lld tokens; a rank has at most %td",
                             m->by_sequence.member[i], (long long)n[i], m->is.most_tokens);
            return tinyi_moe_liar(m, &m->by_sequence, i);
        }
        at[i] = 0;
        out[i] = tokens * each;
        in[i] = (uint64_t)n[i] * each;
        if (i == m->by_sequence.net.rank) *first = *n_all;
        *n_all += (size_t)n[i];
    }
    if (st) return st;
    *all = (float *)tinyi_moe_take(m, TINYI_MOE_ALL, *n_all, each * sizeof(float));
    if (!*all) return m->dead;
    c = tinyi_moe_coll(m, &m->by_sequence, TINY_COLL_F32);
    st = tinyi_moe_called(m, &c, tiny_coll_exchange(m->ctx, &c, mine, at, out, *all, in));
    for (i = 0, x = *all; i < m->by_sequence.net.world && !st; i++)
        for (t = 0; t < (size_t)n[i] * each; t++) {         /* another rank wrote these: they become indices */
            const int chance = t % each >= each / 2;
            const float v = *x++, most = chance ? 1.0f : (float)(m->is.n_expert - 1);
            if (v >= 0.0f && v <= most && (chance || v == (float)(int32_t)v)) continue;
            (void)tinyi_fail(m->ctx, TINY_E_PROTOCOL, "mixture: rank %d claims %s %g for a token; it must be 0 to %g",
                             m->by_sequence.member[i], chance ? "the probability" : "expert", (double)v, (double)most);
            return tinyi_moe_liar(m, &m->by_sequence, i);
        }
    return st;
}

TINY_API tiny_status tllm_moe_route(tllm_moe *m, const float *logits, tiny_idx tokens)
{
    const size_t k = m ? (size_t)m->is.k : 0;
    const tiny_idx n_expert = m ? m->is.n_expert : 0;
    int32_t *expert;
    float *gate, *pair, *all;
    double *score, *mean, loss = 0.0;
    size_t n_all, first = 0, pairs;
    unsigned char *keep;
    int64_t *count;
    tiny_idx t, e, bad;
    size_t i;
    tiny_status st;
    if (!m) return TINY_E_ARGUMENT;
    st = tinyi_moe_ready(m, 0, "");
    if (st) return st;
    if (tokens < 0 || (!logits && tokens))
        return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "mixture: logits of %td tokens are needed", tokens);
    if (tokens > m->is.most_tokens)
        return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "mixture: %td tokens, and most_tokens is %td", tokens,
                          m->is.most_tokens);
    m->stage = 0;
    n_all = (size_t)tokens;
    pairs = n_all * k;
    expert = (int32_t *)tinyi_moe_take(m, TINYI_MOE_EXPERT, n_all, k * sizeof *expert);
    gate = expert ? (float *)tinyi_moe_take(m, TINYI_MOE_GATE, n_all, k * sizeof *gate) : NULL;
    /* for each token k experts as floats, then k probabilities; one more place for the probabilities of the last one */
    pair = gate ? (float *)tinyi_moe_take(m, TINYI_MOE_SCORE, n_all, 2 * k * sizeof *pair) : NULL;
    keep = pair ? (unsigned char *)tinyi_moe_take(m, TINYI_MOE_KEEP, n_all, k) : NULL;
    score = keep ? (double *)tinyi_moe_take(m, TINYI_MOE_COUNTS, (size_t)n_expert, 2 * sizeof(double) + sizeof *count)
                 : NULL;
    if (!score) return m->dead;
    mean = score + n_expert;
    count = (int64_t *)(void *)(mean + n_expert);
    for (e = 0; e < n_expert; e++) {
        mean[e] = 0.0;
        count[e] = 0;
    }
    for (t = 0; t < tokens; t++) {
        int32_t *at = expert + (size_t)t * k;
        float *to = pair + 2 * k * (size_t)t;
        bad = tinyi_moe_choose(logits + t * n_expert, n_expert, m->is.k, m->is.plain_gates, score, at, to + k,
                               gate + (size_t)t * k);
        if (bad >= 0) {
            (void)tinyi_fail(m->ctx, TINY_E_NUMERIC, "mixture: token %td has a logit for expert %td that is not finite",
                             t, bad);
            return tinyi_moe_end(m, TINY_E_NUMERIC);
        }
        for (i = 0; i < k; i++) {
            to[i] = (float)at[i];
            count[at[i]]++;
        }
        for (e = 0; e < n_expert; e++) mean[e] += score[e];
    }
    for (e = 0; e < n_expert && tokens; e++)
        loss += (double)count[e] / (double)pairs * mean[e] / (double)tokens;
    memset(&m->plan, 0, sizeof m->plan);
    m->plan.tokens = tokens;
    m->plan.pairs = (tiny_idx)pairs;
    m->plan.balance = m->is.balance * (double)n_expert * loss;
    m->plan.expert = expert;
    m->plan.gate = gate;
    m->plan.keep = keep;
    memset(keep, 1, pairs);
    if (m->is.drop) {
        all = pair;
        if (m->is.whole_sequence && m->by_sequence.net.world > 1)
            st = tinyi_moe_sequence(m, pair, (size_t)tokens, &all, &n_all, &first);
        if (st) return st;
        m->plan.capacity = tinyi_moe_capacity(&m->is, (tiny_idx)n_all);
        st = tinyi_moe_drop(m, all, n_all, first, (size_t)tokens, keep);
        if (st) return m->dead ? st : tinyi_moe_end(m, st);
    }
    for (i = 0; i < pairs; i++) m->plan.kept += keep[i];
    m->stage = 1;
    return TINY_OK;
}

/* ---- dispatch and combine */

/* Step 2: where each expert's rows begin, and the token and the gate of each row; -1: padding. */
static tiny_status tinyi_moe_order(tllm_moe *m)
{
    const size_t k = (size_t)m->is.k, n_expert = (size_t)m->is.n_expert, tokens = (size_t)m->plan.tokens;
    int64_t *mine = m->n + (size_t)m->by_experts.net.rank * n_expert, *next;
    size_t rows = 0, i, e;
    int32_t *token;
    float *gate;
    memset(mine, 0, n_expert * sizeof *mine);
    for (i = 0; i < tokens * k; i++)
        if (m->plan.keep[i]) mine[m->plan.expert[i]]++;
    if (m->is.pad && (size_t)m->plan.capacity > SIZE_MAX / 4 / n_expert) {
        (void)tinyi_fail(m->ctx, TINY_E_OVERFLOW, "mixture: %td rows for each of %zu experts", m->plan.capacity,
                         n_expert);
        return tinyi_moe_end(m, TINY_E_OVERFLOW);
    }
    if (m->is.pad)                          /* no pair beyond the capacity was kept */
        for (e = 0; e < n_expert; e++) mine[e] = m->plan.capacity;
    for (e = 0; e < n_expert; e++) rows += (size_t)mine[e];
    m->plan.rows_sent = (tiny_idx)rows;
    token = (int32_t *)tinyi_moe_take(m, TINYI_MOE_TOKEN, rows, sizeof *token);
    gate = token ? (float *)tinyi_moe_take(m, TINYI_MOE_ROW_GATE, rows, sizeof *gate) : NULL;
    next = gate ? (int64_t *)tinyi_moe_take(m, TINYI_MOE_COUNTS, n_expert, sizeof *next) : NULL;
    if (!next) return m->dead;
    for (e = rows = 0; e < n_expert; e++) {
        next[e] = (int64_t)rows;
        rows += (size_t)mine[e];
    }
    for (i = 0; i < rows; i++) token[i] = -1;
    for (i = 0; i < tokens * k; i++)
        if (m->plan.keep[i]) {
            const int64_t to = next[m->plan.expert[i]]++;
            token[to] = (int32_t)(i / k);
            gate[to] = m->plan.gate[i];
        }
    return TINY_OK;
}

/* rows of own experts of the member (etp i, ep j), and of all members with this i */
static uint64_t tinyi_moe_from(const tllm_moe *m, int i, int j)
{
    const int64_t *n = m->n + (size_t)(i + m->etp * j) * (size_t)m->is.n_expert + (size_t)m->i_ep * (size_t)m->own;
    uint64_t sum = 0;
    tiny_idx e;
    for (e = 0; e < m->own; e++) sum += (uint64_t)n[e];
    return sum;
}
static uint64_t tinyi_moe_from_etp(const tllm_moe *m, int i)
{
    uint64_t sum = 0;
    int j;
    for (j = 0; j < m->ep; j++) sum += tinyi_moe_from(m, i, j);
    return sum;
}
/* rows of this rank for the experts of ep place j */
static uint64_t tinyi_moe_for(const tllm_moe *m, int j)
{
    const int64_t *n = m->n + (size_t)m->by_experts.net.rank * (size_t)m->is.n_expert + (size_t)j * (size_t)m->own;
    uint64_t sum = 0;
    tiny_idx e;
    for (e = 0; e < m->own; e++) sum += (uint64_t)n[e];
    return sum;
}

/* Steps 5 and 7: chunks of (etp, source, expert) and those of (expert, etp, source) */
static void tinyi_moe_sort(const tllm_moe *m, const float *from, float *to, int back)
{
    const size_t width = (size_t)m->is.width, n_expert = (size_t)m->is.n_expert;
    size_t next[TINY_NET_RANKS], at = 0, start = 0, n;
    tiny_idx e;
    int i, j;
    for (i = 0; i < m->etp; i++)
        for (j = 0; j < m->ep; j++) {
            next[i * m->ep + j] = start;
            start += (size_t)tinyi_moe_from(m, i, j);
        }
    for (e = 0; e < m->own; e++)
        for (i = 0; i < m->etp; i++)
            for (j = 0; j < m->ep; j++) {
                size_t *chunk = &next[i * m->ep + j];
                n = (size_t)m->n[(size_t)(i + m->etp * j) * n_expert + (size_t)(m->i_ep * m->own + e)];
                if (n && back) memcpy(to + *chunk * width, from + at * width, n * width * sizeof *to);
                else if (n) memcpy(to + at * width, from + *chunk * width, n * width * sizeof *to);
                *chunk += n;
                at += n;
            }
}

/* The counts that the other ranks sent: no more rows than most_tokens tokens have. */
static tiny_status tinyi_moe_claims(tllm_moe *m)
{
    const tiny_idx most = m->is.most_tokens, shared = m->is.whole_sequence ? m->by_sequence.net.world : 1;
    const int64_t all = (int64_t)most * m->is.k;
    const tiny_idx one = m->is.drop && most <= TINY_IDX_MAX / shared
                             ? TINYI_MIN(most, tinyi_moe_capacity(&m->is, most * shared))
                             : most;
    const int64_t *n = m->n;
    int i;
    for (i = 0; i < m->by_experts.net.world; i++) {
        int64_t sum = 0;
        tiny_idx e;
        for (e = 0; e < m->is.n_expert; e++, n++) {
            if (*n < 0 || *n > one) {
                (void)tinyi_fail(m->ctx, TINY_E_PROTOCOL, "mixture: rank %d claims %lld rows for expert %td; it gets "
                                 "at most %td from a rank", m->by_experts.member[i], (long long)*n, e, one);
                return tinyi_moe_liar(m, &m->by_experts, i);
            }
            sum += *n;
        }
        if (sum <= all) continue;
        (void)tinyi_fail(m->ctx, TINY_E_PROTOCOL, "mixture: rank %d claims %lld rows; its %td tokens have at most %lld",
                         m->by_experts.member[i], (long long)sum, most, (long long)all);
        return tinyi_moe_liar(m, &m->by_experts, i);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_moe_dispatch(tllm_moe *m, const float *x, const float **rows, const tiny_idx **count)
{
    uint64_t out[TINY_NET_RANKS], in[TINY_NET_RANKS], at[TINY_NET_RANKS];
    const size_t width = m ? (size_t)m->is.width : 0;
    const int members = m ? m->ep * m->etp : 1;
    size_t received = 0, total = 0, i;
    const int32_t *token;
    float *send, *recv, *all, *sorted;
    tiny_status st;
    tiny_idx e;
    int a, b;
    if (!m) return TINY_E_ARGUMENT;
    st = tinyi_moe_ready(m, 1, "tllm_moe_route");
    if (st) return st;
    if (!rows || !count || (!x && m->plan.tokens))
        return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "mixture: dispatch needs the tokens and two output pointers");
    m->stage = 1;
    st = tinyi_moe_order(m);
    if (st) return st;
    if (m->is.pad)                          /* every rank has the same counts, or the exchange fails */
        for (a = 0; a < members; a++)
            for (e = 0; e < m->is.n_expert; e++)
                m->n[(size_t)a * (size_t)m->is.n_expert + (size_t)e] = m->plan.capacity;
    else st = tinyi_moe_gather(m, &m->by_experts, m->n, (size_t)m->is.n_expert);
    if (!st && !m->is.pad) st = tinyi_moe_claims(m);
    if (st) return st;
    for (a = 0; a < m->ep; a++) {
        out[a] = tinyi_moe_for(m, a);
        in[a] = tinyi_moe_from(m, m->i_etp, a);
        received += (size_t)in[a];
    }
    for (a = 0; a < m->etp; a++) total += (size_t)tinyi_moe_from_etp(m, a);
    m->plan.rows_received = (tiny_idx)received;
    m->plan.rows = (tiny_idx)total;
    send = (float *)tinyi_moe_take(m, TINYI_MOE_SEND, (size_t)m->plan.rows_sent, width * sizeof *send);
    recv = send ? (float *)tinyi_moe_take(m, TINYI_MOE_RECV, received, width * sizeof *recv) : NULL;
    all = recv ? (float *)tinyi_moe_take(m, TINYI_MOE_ALL, total, width * sizeof *all) : NULL;
    sorted = all ? (float *)tinyi_moe_take(m, TINYI_MOE_ROWS, total, width * sizeof *sorted) : NULL;
    if (!sorted) return m->dead;
    token = (const int32_t *)m->room[TINYI_MOE_TOKEN].at;
    for (i = 0; i < (size_t)m->plan.rows_sent; i++)
        if (token[i] < 0) memset(send + i * width, 0, width * sizeof *send);
        else memcpy(send + i * width, x + (size_t)token[i] * width, width * sizeof *send);
    st = tinyi_moe_rows(m, &m->by_ep, send, (size_t)m->plan.rows_sent, NULL, out, recv, in);
    if (st) return st;
    if (m->etp > 1) {
        for (a = 0; a < m->etp; a++) {
            at[a] = 0;
            out[a] = received;
            in[a] = tinyi_moe_from_etp(m, a);
        }
        st = tinyi_moe_rows(m, &m->by_etp, recv, received, at, out, all, in);
        if (st) return st;
        recv = all;
    }
    tinyi_moe_sort(m, recv, sorted, 0);
    for (e = 0; e < m->own; e++) {
        m->count[e] = 0;
        for (a = 0; a < m->etp; a++)
            for (b = 0; b < m->ep; b++)
                m->count[e] += (tiny_idx)m->n[(size_t)(a + m->etp * b) * (size_t)m->is.n_expert +
                                              (size_t)m->i_ep * (size_t)m->own + (size_t)e];
    }
    *rows = sorted;
    *count = m->count;
    m->stage = 2;
    return TINY_OK;
}

TINY_API tiny_status tllm_moe_combine(tllm_moe *m, const float *rows, float *y)
{
    uint64_t out[TINY_NET_RANKS], in[TINY_NET_RANKS];
    const size_t width = m ? (size_t)m->is.width : 0;
    const tinyi_moe_kernels *k;
    const int32_t *token;
    const float *gate;
    float *all, *recv, *send, *part;
    size_t received, i, j;
    tiny_status st;
    int a;
    if (!m) return TINY_E_ARGUMENT;
    st = tinyi_moe_ready(m, 2, "tllm_moe_dispatch");
    if (st) return st;
    if ((!rows && m->plan.rows) || (!y && m->plan.tokens))
        return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "mixture: combine needs the rows and room for the tokens");
    received = (size_t)m->plan.rows_received;
    all = (float *)m->room[TINYI_MOE_ALL].at;
    recv = (float *)m->room[TINYI_MOE_RECV].at;
    send = (float *)m->room[TINYI_MOE_SEND].at;
    tinyi_moe_sort(m, rows, m->etp > 1 ? all : recv, 1);
    k = tinyi_moe_kernels_for(m->ctx);
    if (m->etp > 1) {
        /* the shares of the own rows, one list from each rank of etp */
        part = (float *)tinyi_moe_take(m, TINYI_MOE_PART, received * (size_t)m->etp, width * sizeof *part);
        if (!part) return m->dead;
        for (a = 0; a < m->etp; a++) {
            out[a] = tinyi_moe_from_etp(m, a);
            in[a] = received;
        }
        st = tinyi_moe_rows(m, &m->by_etp, all, (size_t)m->plan.rows, NULL, out, part, in);
        if (st) return st;
        if (received) memcpy(recv, part, received * width * sizeof *recv);
        for (a = 1; a < m->etp; a++)
            for (i = 0; i < received * width; i++) recv[i] += part[(size_t)a * received * width + i];
    }
    for (a = 0; a < m->ep; a++) {
        out[a] = tinyi_moe_from(m, m->i_etp, a);
        in[a] = tinyi_moe_for(m, a);
    }
    st = tinyi_moe_rows(m, &m->by_ep, recv, received, NULL, out, send, in);
    if (st) return st;
    token = (const int32_t *)m->room[TINYI_MOE_TOKEN].at;
    gate = (const float *)m->room[TINYI_MOE_ROW_GATE].at;
    if (m->plan.tokens) memset(y, 0, (size_t)m->plan.tokens * width * sizeof *y);
    for (i = 0; i < (size_t)m->plan.rows_sent; i++) { /* rows are in the order of experts: ascending for a token */
        if (token[i] < 0) continue;
        if (k) k->add(y + (size_t)token[i] * width, send + i * width, gate[i], width);
        else for (j = 0; j < width; j++) y[(size_t)token[i] * width + j] += gate[i] * send[i * width + j];
    }
    m->stage = 1;                           /* the plan may be dispatched again */
    return TINY_OK;
}
