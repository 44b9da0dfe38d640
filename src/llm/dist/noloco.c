/* src/llm/dist/noloco.c - replicas that meet in pairs
 * Paper    J. Kolehmainen, N. Blagoev, J. Donaghy, O. Ersoy, C. Nies, "NoLoCo: No-all-reduce Low Communication Training
 *          Method for Large Models", 2025 (arXiv 2506.10911). With all replicas in one group and equal phi it is DiLoCo
 *          (A. Douillard et al., 2023, arXiv 2311.08105) with Nesterov replaced by plain momentum.
 * Formula  change_i = theta_i - phi_i; means over the group of this outer step, added in the order of ranks:
 *          m_i = alpha m_i + beta mean change + gamma (mean phi - phi_i); phi_i += m_i; theta_i = phi_i
 *          alone: m_i = alpha m_i + beta change_i
 *          The printed equation has a minus before beta; the authors' program and convergence need plus.
 * Bound    the spread stays bounded for sqrt(n / (2 (n - 1))) alpha < gamma < sqrt(n (2 + alpha^2) / (2 (n - 1))), n
 *          the group: 0.5 to 1.5 for pairs and alpha 0.5. Outside of it a warning is logged.
 * Messages 8 bytes: (step << 8 | kind). READY(t) of both; then CONFIRM(t) of both, or GIVEUP(t) of the one whose
 *          deadline is over; LEAVE before an end. Numbers follow only two CONFIRMs, so none are sent to a replica that
 *          is late. Numbers: phi, then change, in this machine's byte order.
 * Error    fast against formula: 3 units of |alpha m| + |beta change| + |gamma (mean - phi)| + |phi| (fused or not).
 * Trust    |phi_j - phi_i| and |change_j - change_i| are at most apart (|phi_i| + |change_i|): sums of squares in
 *          double, which no float overflows. Both replicas of a pair compare, each with its own norms.
 * Cost     memory: 7 n floats. A step: 8 n bytes out and in, for each partner, and four passes that compare.
 * Left out the mean of all replicas at the end: tiny_coll_allreduce has it. */
#include "llm/dist/noloco.h"
#include "llm/dist/noloco_inside.h"
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "math/elem.h"
#include "core/half_inside.h"
#include <stdio.h>
#include <string.h>

TINYI_TABLE_CHOICE(tinyi_noloco_kernels, tinyi_noloco_kernels)

enum { TINYI_NL_READY, TINYI_NL_CONFIRM, TINYI_NL_GIVEUP, TINYI_NL_JOIN, TINYI_NL_WELCOME, TINYI_NL_LEAVE };
enum { TINYI_NL_QUEUE = 32, TINYI_NL_AHEAD = 1 << 20 }; /* words to one rank; steps that another may be ahead */
enum { TINYI_NL_WORD_TAG = 0x4e4c77, TINYI_NL_PHI_TAG = 0x4e4c70, TINYI_NL_CHANGE_TAG = 0x4e4c63 };

/* Steps are stored plus 1; 0: none. */
typedef struct tinyi_nl_peer {
    int left, gone, joins;                                /* joins: 1 it asked, 2 welcomed, its phi is next */
    uint64_t ready, confirm, giveup, welcome, mine; /* mine: what we have confirmed */
    uint64_t at;                                    /* virtual clock of its last word */
    tiny_message in, out, phi;
    unsigned char word[8], queue[TINYI_NL_QUEUE][8];
    uint64_t queue_at[TINYI_NL_QUEUE];
    int first, count, sending; /* of the queue; sending: its first word is in out */
} tinyi_nl_peer;

struct tllm_noloco {
    tiny_ctx *ctx;
    tllm_noloco_desc desc;
    const tinyi_noloco_kernels *kernels; /* NULL: the reference */
    int rank, world, strict;             /* strict: no deadline, no words */
    uint64_t step, clock;
    float *phi, *momentum, *change, *in, *sum; /* in: phi, then change; sum: change, then phi */
    tinyi_nl_peer *peer;                       /* (world) */
    int early;                                 /* 1 + the rank that gets phi already */
};

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_nl_move_ref(float *theta, float *phi, float *momentum, const float *change, const float *slow,
                              size_t n, const tinyi_noloco_step *s)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const float m =
            s->alpha * momentum[i] + s->beta * s->part * change[i] + s->gamma * (s->part * slow[i] - phi[i]);
        momentum[i] = m;
        phi[i] += m;
        theta[i] = phi[i];
    }
}
static void tinyi_nl_add_ref(float *y, const float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] += x[i];
}
static void tinyi_nl_sub_ref(float *y, const float *a, const float *b, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] = a[i] - b[i];
}

/* sqrt sum (a - w b)^2, w 0 or 1. Four sums, which do not wait for each other. */
static double tinyi_nl_norm(const float *a, const float *b, double w, size_t n)
{
    double s[4] = { 0.0, 0.0, 0.0, 0.0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const double d0 = (double)a[i] - w * (double)b[i], d1 = (double)a[i + 1] - w * (double)b[i + 1],
                     d2 = (double)a[i + 2] - w * (double)b[i + 2], d3 = (double)a[i + 3] - w * (double)b[i + 3];
        s[0] += d0 * d0;
        s[1] += d1 * d1;
        s[2] += d2 * d2;
        s[3] += d3 * d3;
    }
    for (; i < n; i++) {
        const double d = (double)a[i] - w * (double)b[i];
        s[i % 4] += d * d;
    }
    return tinyi_sqrt64((s[0] + s[1]) + (s[2] + s[3]));
}

static void tinyi_nl_bounds(const tllm_noloco_desc *d, double *low, double *high)
{
    const double n = (double)d->group;
    *low = tinyi_sqrt64(n / (2.0 * (n - 1.0))) * d->alpha;
    *high = tinyi_sqrt64(n * (2.0 + d->alpha * d->alpha) / (2.0 * (n - 1.0)));
}
TINY_REF_END

enum { TINYI_NL_MOVE, TINYI_NL_ADD, TINYI_NL_SUB, TINYI_NL_PIECE = 8192 };
typedef struct tinyi_nl_job {
    tllm_noloco *o;
    int what;
    float *y;
    const float *a, *b;
    tinyi_noloco_step s;
} tinyi_nl_job;
static void tinyi_nl_part(tiny_team *team, void *arg)
{
    const tinyi_nl_job *j = (const tinyi_nl_job *)arg;
    tllm_noloco *o = j->o;
    const tinyi_noloco_kernels *k = o->kernels;
    tiny_idx i0, i1;
    team->ran_on = k ? k->from : TINY_TARGET_REFERENCE;
    while (tiny_take(team, (tiny_idx)o->desc.n, TINYI_NL_PIECE, &i0, &i1)) {
        const size_t n = (size_t)(i1 - i0);
        if (j->what == TINYI_NL_MOVE)
            (k ? k->step : tinyi_nl_move_ref)(o->desc.theta + i0, o->phi + i0, o->momentum + i0, j->a + i0, j->b + i0,
                                              n, &j->s);
        else if (j->what == TINYI_NL_ADD) (k ? k->add : tinyi_nl_add_ref)(j->y + i0, j->a + i0, n);
        else (k ? k->sub : tinyi_nl_sub_ref)(j->y + i0, j->a + i0, j->b + i0, n);
    }
}
static tiny_status tinyi_nl_run(tllm_noloco *o, int what, float *y, const float *a, const float *b, double part)
{
    tinyi_nl_job j;
    j.o = o;
    j.what = what;
    j.y = y;
    j.a = a;
    j.b = b;
    j.s.alpha = (float)o->desc.alpha;
    j.s.beta = (float)o->desc.beta;
    j.s.gamma = (float)o->desc.gamma;
    j.s.part = (float)part;
    return tiny_parallel_loose(o->ctx, 0, 0, 0, tinyi_nl_part, &j);
}

/* the first number that is not finite; n: none. Blocks without a branch inside: the compiler makes vectors of them. */
static size_t tinyi_nl_odd(const float *x, size_t n)
{
    size_t i, k, end;
    for (i = 0; i < n; i = end) {
        uint32_t odd = 0;
        end = TINYI_MIN(i + 1024, n);
        for (k = i; k < end; k++) odd |= (uint32_t)((tinyi_f32_bits(x[k]) & 0x7f800000u) == 0x7f800000u);
        if (!odd) continue;
        while ((tinyi_f32_bits(x[i]) & 0x7f800000u) != 0x7f800000u) i++;
        return i;
    }
    return n;
}

/* ---- who meets --------------------------------------------------------------------------------------------------- */

TINY_API void tllm_noloco_order(uint64_t seed, uint64_t step, int world, uint32_t *order)
{
    tiny_rng r = tiny_rng_make(seed, step + 1);
    if (order && world > 0) tiny_rng_permutation(&r, order, (uint32_t)world);
}
TINY_API void tllm_noloco_route(uint64_t seed, uint64_t step, uint64_t micro, int stage, int stages, int world,
                                uint32_t *to)
{
    tiny_rng r =
        tiny_rng_make(seed ^ 0x726f757465ull, (step + micro) * (uint64_t)(stages > 0 ? stages : 1) + (uint64_t)stage);
    if (to && world > 0) tiny_rng_permutation(&r, to, (uint32_t)world);
}

/* the others of the own group, as bits */
static uint64_t tinyi_nl_group(const tllm_noloco *o)
{
    uint32_t order[TINY_NET_RANKS];
    const int groups = o->world / o->desc.group;
    uint64_t who = 0;
    int i, own = 0;
    tllm_noloco_order(o->desc.seed, o->step, o->world, order);
    while (order[own] != (uint32_t)o->rank) own++;
    for (i = own % groups; i < groups * o->desc.group && own < groups * o->desc.group; i += groups)
        if (i != own) who |= (uint64_t)1 << order[i];
    return who;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void tinyi_nl_message(const tllm_noloco *o, tiny_message *m, unsigned tag, void *data, size_t n)
{
    memset(m, 0, sizeof *m);
    m->tag = tag;
    m->data = data;
    m->n = n;
    m->at = o->clock;
}
static void tinyi_nl_say(tllm_noloco *o, int r, int kind, uint64_t step)
{
    tinyi_nl_peer *p = &o->peer[r];
    const int at = (p->first + p->count) % TINYI_NL_QUEUE;
    if (p->gone) return;
    if (p->count == TINYI_NL_QUEUE) {
        p->gone = 1;
        return;
    } /* it has read nothing for many steps */
    tinyi_put_le(p->queue[at], step << 8 | (unsigned)kind, 8);
    p->queue_at[at] = o->clock;
    p->count++;
}
static void tinyi_nl_hear(tllm_noloco *o, tinyi_nl_peer *p)
{
    const uint64_t word = tinyi_le64(p->word), step = (word >> 8) + 1;
    const int kind = (int)(word & 255);
    switch (kind) {
    case TINYI_NL_READY: p->ready = step; break;
    case TINYI_NL_CONFIRM: p->confirm = step; break;
    case TINYI_NL_GIVEUP: p->giveup = step; break;
    case TINYI_NL_JOIN: p->joins = 1; break;
    case TINYI_NL_WELCOME: p->welcome = step; break;
    case TINYI_NL_LEAVE: p->left = 1; break;
    default: p->gone = 1; /* no word of ours */
    }
    /* such a GIVEUP would make tinyi_nl_missed count to it */
    if (kind <= TINYI_NL_GIVEUP && step > o->step + TINYI_NL_AHEAD) p->gone = 1;
    p->at = p->in.at;
    tinyi_nl_message(o, &p->in, TINYI_NL_WORD_TAG, p->word, 8);
}

/* to replica r: the words of its queue, and phi after a WELCOME */
static void tinyi_nl_speak(tllm_noloco *o, int r)
{
    tiny_net *net = o->desc.net;
    tinyi_nl_peer *p = &o->peer[r];
    while (!p->gone && (p->count || p->joins)) {
        if (!p->count && p->joins == 1) {
            tinyi_nl_say(o, r, TINYI_NL_WELCOME, o->step);
            p->joins = 2;
            tinyi_nl_message(o, &p->phi, TINYI_NL_PHI_TAG, o->phi, o->desc.n * sizeof(float));
        }
        if (p->count && !p->sending) {
            tinyi_nl_message(o, &p->out, TINYI_NL_WORD_TAG, p->queue[p->first], 8);
            p->out.at = p->queue_at[p->first];
            p->sending = 1;
        }
        if (p->count) {
            if (net->send(net, r, &p->out)) p->gone = 1;
            if (p->gone || !p->out.whole) break;
            p->sending = 0;
            p->first = (p->first + 1) % TINYI_NL_QUEUE;
            p->count--;
        } else {
            if (net->send(net, r, &p->phi)) p->gone = 1;
            if (p->gone || !p->phi.whole) break;
            p->joins = 0;
        }
    }
}

/* Words of all replicas, as far as they go. A replica whose link fails is gone; the others go on. */
static void tinyi_nl_words(tllm_noloco *o, uint64_t *next)
{
    tiny_net *net = o->desc.net;
    int r;
    for (r = 0; r < o->world && !o->strict; r++) {
        tinyi_nl_peer *p = &o->peer[r];
        if (r == o->rank) continue;
        tinyi_nl_speak(o, r);
        /* after two CONFIRMs, and after a WELCOME, numbers come */
        while (!p->gone && !p->left && !(p->mine && p->confirm == p->mine) && !p->welcome) {
            if (net->recv(net, r, &p->in)) p->gone = 1;
            if (p->gone || !p->in.whole) {
                if (!net->virtual_clock && p->in.at && p->in.at < *next) *next = p->in.at;
                break;
            }
            tinyi_nl_hear(o, p);
        }
        if (p->joins == 1) tinyi_nl_speak(o, r); /* a JOIN is answered before this replica sleeps */
    }
}

enum {
    TINYI_NL_FOR_READY,
    TINYI_NL_FOR_CONFIRM,
    TINYI_NL_FOR_WELCOME,
    TINYI_NL_FOR_JOINED,
    TINYI_NL_FOR_SENT,
    TINYI_NL_FOR_LEFT
};
static int tinyi_nl_over(const tllm_noloco *o, int r, int what)
{
    const tinyi_nl_peer *p = &o->peer[r];
    const uint64_t step = o->step + 1;
    int i;
    if (what >= TINYI_NL_FOR_JOINED) {
        for (i = 0; i < o->world; i++)
            if (i != o->rank && !o->peer[i].gone &&
                (what == TINYI_NL_FOR_JOINED ? o->peer[i].joins
                                             : o->peer[i].count || (what == TINYI_NL_FOR_LEFT && !o->peer[i].left)))
                return 0;
        return 1;
    }
    if (p->gone || p->left) return 1;
    if (what == TINYI_NL_FOR_WELCOME) return p->welcome > 0;
    return p->giveup >= step || (what == TINYI_NL_FOR_READY ? p->ready : p->confirm) >= step;
}
/* Returns when it is over, or after wait_ns (FOR_LEFT: never before). Only a cancel fails. */
static tiny_status tinyi_nl_wait(tllm_noloco *o, int r, int what)
{
    tiny_net *net = o->desc.net;
    const uint64_t from = tiny_now_ns(), end = what == TINYI_NL_FOR_LEFT || o->desc.wait_ns > UINT64_MAX - from
                                                   ? UINT64_MAX
                                                   : from + o->desc.wait_ns;
    for (;;) {
        const uint64_t seen = net->changes(net);
        uint64_t next = end;
        tinyi_nl_words(o, &next);
        if (tinyi_nl_over(o, r, what) || tiny_now_ns() >= end) return TINY_OK;
        if (o->ctx->desc.cancel && o->ctx->desc.cancel(o->ctx->desc.user))
            return tinyi_fail(o->ctx, TINY_E_CANCELLED, "NoLoCo: cancelled while replica %d waited for replica %d",
                              o->rank, r);
        net->pause(net, seen, next);
    }
}

/* ---- numbers to and from replica r ------------------------------------------------------------------------------- */

/* Ends when all four messages are whole. wait_ns counts from the last byte that moved. A failure of the link makes the
 * replica gone. only: 1 its phi, 2 both phi, without the changes */
static tiny_status tinyi_nl_numbers(tllm_noloco *o, int r, int only, int *whole)
{
    tiny_net *net = o->desc.net;
    tinyi_nl_peer *p = &o->peer[r];
    const size_t n = o->desc.n, bytes = n * sizeof(float);
    tiny_message change, in[2];
    uint64_t end = 0, moved = 0;
    int k, had_early = o->early == r + 1;
    *whole = 0;
    if (!had_early) tinyi_nl_message(o, &p->phi, TINYI_NL_PHI_TAG, o->phi, bytes);
    o->early = had_early ? 0 : o->early;
    tinyi_nl_message(o, &change, TINYI_NL_CHANGE_TAG, o->change, bytes);
    tinyi_nl_message(o, &in[0], TINYI_NL_PHI_TAG, o->in, bytes);
    tinyi_nl_message(o, &in[1], TINYI_NL_CHANGE_TAG, o->in + n, bytes);
    if (only) change.whole = in[1].whole = 1;
    if (only == 1) p->phi.whole = 1;
    for (;;) {
        const uint64_t seen = net->changes(net), now = tiny_now_ns();
        uint64_t next = UINT64_MAX, sum;
        tinyi_nl_words(o, &next); /* our CONFIRM before the numbers; other replicas may ask something */
        if (!p->count && !p->phi.whole && net->send(net, r, &p->phi)) p->gone = 1;
        if (p->phi.whole && !change.whole && !p->gone && net->send(net, r, &change)) p->gone = 1;
        for (k = 0; k < 2 && !p->gone; k++)
            if (!in[k].whole && (!k || in[0].whole) && net->recv(net, r, &in[k])) p->gone = 1;
        if (p->gone) return TINY_OK;
        *whole = p->phi.whole && change.whole && in[0].whole && in[1].whole;
        if (*whole) break;
        sum = p->phi.done + change.done + in[0].done + in[1].done + 1;
        if (sum != moved) {
            moved = sum;
            end = o->desc.wait_ns > UINT64_MAX - now ? UINT64_MAX : now + o->desc.wait_ns;
        } else if (now >= end) { /* in the middle of a message nothing else can be said to it */
            p->gone = 1;
            return TINY_OK;
        }
        if (o->ctx->desc.cancel && o->ctx->desc.cancel(o->ctx->desc.user)) {
            p->gone = 1;
            return tinyi_fail(o->ctx, TINY_E_CANCELLED, "NoLoCo: cancelled while replicas %d and %d met", o->rank, r);
        }
        next = TINYI_MIN(next, end);
        for (k = 0; k < 2; k++)
            if (!net->virtual_clock && !in[k].whole && !in[k].begun && in[k].at && in[k].at < next) next = in[k].at;
        net->pause(net, seen, next);
    }
    if (net->virtual_clock)
        for (k = 0; k < 2 - (only != 0); k++) o->clock = TINYI_MAX(o->clock, in[k].at);
    return TINY_OK;
}

/* Are the numbers of replica r, which are in o->in, near the own ones? size: |phi| + |change| of this replica */
static int tinyi_nl_believes(tllm_noloco *o, int r, double size)
{
    const size_t n = o->desc.n;
    const double most = o->desc.apart * size;
    int k;
    for (k = 0; k < 2 && o->desc.apart >= 0.0; k++) {
        const double off = tinyi_nl_norm(o->in + (size_t)k * n, k ? o->change : o->phi, 1.0, n);
        if (off <= most) continue;
        (void)tinyi_fail(o->ctx, TINY_E_PROTOCOL,
                         "NoLoCo: the %s of replica %d is %.4g away from that of replica %d in outer step %llu; at "
                         "most %.4g is believed (apart %g)", k ? "change" : "phi", r, off, o->rank,
                         (unsigned long long)o->step, most, o->desc.apart);
        return 0;
    }
    return 1;
}

/* size: as for tinyi_nl_believes */
static tiny_status tinyi_nl_meet(tllm_noloco *o, int r, double size, tllm_noloco_report *report, int *met)
{
    tinyi_nl_peer *p = &o->peer[r];
    const uint64_t step = o->step + 1;
    tiny_status st = TINY_OK;
    *met = 0;
    if (p->gone || p->left) return TINY_OK;
    if (!o->strict) {
        tinyi_nl_say(o, r, TINYI_NL_READY, o->step);
        st = tinyi_nl_wait(o, r, TINYI_NL_FOR_READY);
        if (st || p->gone || p->left || p->ready != step || p->giveup >= step) {
            tinyi_nl_say(o, r, TINYI_NL_GIVEUP, o->step);
            report->late += !p->gone;
            return st;
        }
        o->clock = TINYI_MAX(o->clock, p->at);
        p->mine = step;
        tinyi_nl_say(o, r, TINYI_NL_CONFIRM, o->step);
        st = tinyi_nl_wait(o, r, TINYI_NL_FOR_CONFIRM);
        if (p->confirm != step) {
            /* It gave up. Or it said nothing: it may confirm later and send numbers then, so it is not heard again. */
            p->mine = 0;
            report->late += !p->gone;
            if (p->giveup < step) p->gone = 1;
            return st;
        }
        o->clock = TINYI_MAX(o->clock, p->at);
    }
    if (!st) st = tinyi_nl_numbers(o, r, 0, met);
    p->mine = p->confirm = 0;
    if (st || !*met) return st;
    if (tinyi_nl_odd(o->in, 2 * o->desc.n) < 2 * o->desc.n) {
        report->refused++;
        *met = 0;
    } else if (!tinyi_nl_believes(o, r, size)) {
        report->refused++;
        if (!report->liar) report->liar = r + 1;
        *met = 0;
    }
    return st;
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

static tiny_status tinyi_nl_check(tiny_ctx *ctx, const tllm_noloco_desc *d)
{
    const double *v[3];
    static const char *const name[3] = { "alpha", "beta", "gamma" };
    double low, high;
    size_t bytes;
    int i;
    v[0] = &d->alpha;
    v[1] = &d->beta;
    v[2] = &d->gamma;
    if (!d->net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo needs the net of a rank");
    if (d->net->world < 2 || d->net->world > TINY_NET_RANKS || d->net->rank < 0 || d->net->rank >= d->net->world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: replica %d of %d: 2 to %d replicas are needed to meet",
                          d->net->rank, d->net->world, TINY_NET_RANKS);
    if (d->net->star && d->net->world > 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: in a star of %d ranks not all replicas can meet",
                          d->net->world);
    if (!d->theta || !d->n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: there are no numbers to train");
    if (!tinyi_size_mul(d->n, 8 * sizeof(float), &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "NoLoCo: %zu numbers are more than this machine can address", d->n);
    if (d->group < 2 || d->group > d->net->world || (d->group > 2 && d->net->world % d->group))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: groups of %d among %d replicas: 2, or a divisor of %d",
                          d->group, d->net->world, d->net->world);
    for (i = 0; i < 3; i++)
        if (!(*v[i] >= 0.0 && *v[i] <= 1e6))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: %s is %g, it must be 0 to 1e6", name[i], *v[i]);
    if (!(d->apart <= 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: apart is %g, it must be a number up to 1e30", d->apart);
    if (d->join && d->wait_ns == UINT64_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: a replica can only join a group with a deadline");
    if (tinyi_nl_odd(d->theta, d->n) < d->n && !d->join)
        return tinyi_fail(ctx, TINY_E_NUMERIC, "NoLoCo: number %zu of theta is not finite",
                          tinyi_nl_odd(d->theta, d->n));
    tinyi_nl_bounds(d, &low, &high);
    if (!(d->gamma > low && d->gamma < high))
        tinyi_log(ctx, TINY_LOG_WARNING,
                  "NoLoCo: gamma %g: the replicas may drift apart, since it is not between %.3g "
                  "and %.3g",
                  d->gamma, low, high);
    return TINY_OK;
}

/* A random replica, then the others, until one answers. */
static tiny_status tinyi_nl_enter(tllm_noloco *o)
{
    uint32_t order[TINY_NET_RANKS];
    tiny_rng rng = tiny_rng_make(o->desc.seed ^ 0x6a6f696eull, (uint64_t)o->rank);
    int i, whole = 0;
    tiny_status st = TINY_OK;
    tiny_rng_permutation(&rng, order, (uint32_t)o->world);
    for (i = 0; i < o->world && !st && !whole; i++) {
        const int r = (int)order[i];
        tinyi_nl_peer *p = &o->peer[r];
        if (r == o->rank) continue;
        tinyi_nl_say(o, r, TINYI_NL_JOIN, 0);
        st = tinyi_nl_wait(o, r, TINYI_NL_FOR_WELCOME);
        if (st || p->gone || p->left) continue;
        if (!p->welcome) {
            p->gone = 1;
            continue;
        } /* it may answer later, and nobody would listen */
        o->step = p->welcome - 1;
        st = tinyi_nl_numbers(o, r, 1, &whole);
        p->welcome = 0;
        o->clock = TINYI_MAX(o->clock, p->at);
        if (whole && tinyi_nl_odd(o->in, o->desc.n) < o->desc.n) whole = 0;
    }
    if (st) return st;
    if (!whole)
        return tinyi_fail(o->ctx, TINY_E_TIMEOUT, "NoLoCo: no replica has answered replica %d, which wants to join",
                          o->rank);
    memcpy(o->phi, o->in, o->desc.n * sizeof(float));
    memcpy(o->desc.theta, o->in, o->desc.n * sizeof(float));
    return TINY_OK;
}

TINY_API tiny_status tllm_noloco_open(tiny_ctx *ctx, const tllm_noloco_desc *desc, tllm_noloco **out)
{
    tllm_noloco_desc d;
    tllm_noloco *o;
    tiny_status st = tinyi_ctx_check(ctx);
    int r;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "NoLoCo: a description and an output pointer are needed");
    d = *desc;
    if (!d.group) d.group = 2;
    if (d.alpha == 0.0) d.alpha = 0.5;
    if (d.beta == 0.0) d.beta = 0.7;
    if (d.gamma == 0.0) d.gamma = d.beta;
    if (d.apart == 0.0) d.apart = 100.0;
    if (d.alpha < 0.0) d.alpha = 0.0;
    if (d.gamma < 0.0) d.gamma = 0.0;
    if (!d.wait_ns) d.wait_ns = UINT64_C(10000000000);
    st = tinyi_nl_check(ctx, &d);
    if (st) return st;
    o = (tllm_noloco *)tinyi_alloc(ctx, 1, sizeof *o);
    if (!o) return tiny_ctx_status(ctx);
    memset(o, 0, sizeof *o);
    o->ctx = ctx;
    o->desc = d;
    o->kernels = ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_noloco_kernels_of(ctx->k);
    o->rank = d.net->rank;
    o->world = d.net->world;
    o->strict = d.wait_ns == UINT64_MAX;
    o->peer = (tinyi_nl_peer *)tinyi_alloc(ctx, (size_t)o->world, sizeof *o->peer);
    o->phi = (float *)tinyi_alloc(ctx, 7 * d.n, sizeof(float));
    if (!o->peer || !o->phi) {
        tllm_noloco_close(o);
        return tiny_ctx_status(ctx);
    }
    memset(o->peer, 0, (size_t)o->world * sizeof *o->peer);
    for (r = 0; r < o->world; r++) tinyi_nl_message(o, &o->peer[r].in, TINYI_NL_WORD_TAG, o->peer[r].word, 8);
    o->momentum = o->phi + d.n;
    o->change = o->phi + 2 * d.n;
    o->in = o->phi + 3 * d.n;
    o->sum = o->phi + 5 * d.n;
    memset(o->momentum, 0, d.n * sizeof(float));
    memcpy(o->phi, d.theta, d.n * sizeof(float));
    if (d.join) st = tinyi_nl_enter(o);
    if (st) {
        tllm_noloco_close(o);
        return st;
    }
    *out = o;
    return TINY_OK;
}

TINY_API void tllm_noloco_close(tllm_noloco *o)
{
    if (!o) return;
    tiny_free(o->ctx, o->peer);
    tiny_free(o->ctx, o->phi);
    tiny_free(o->ctx, o);
}

TINY_API const float *tllm_noloco_slow(const tllm_noloco *o) { return o ? o->phi : NULL; }
TINY_API const float *tllm_noloco_momentum(const tllm_noloco *o) { return o ? o->momentum : NULL; }
TINY_API void tllm_noloco_spend(tllm_noloco *o, uint64_t ns)
{
    if (o) o->clock += ns;
}

/* phi for the replica of the next step, if there is one and no deadline */
static void tinyi_nl_early(tllm_noloco *o)
{
    const uint64_t who = tinyi_nl_group(o);
    int r = 0;
    if (!o->strict || !who || (who & (who - 1))) return;
    while (!(who >> r & 1)) r++;
    if (o->peer[r].gone) return;
    o->early = r + 1;
    tinyi_nl_message(o, &o->peer[r].phi, TINYI_NL_PHI_TAG, o->phi, o->desc.n * sizeof(float));
    if (o->desc.net->send(o->desc.net, r, &o->peer[r].phi)) o->peer[r].gone = 1;
}

TINY_API tiny_status tllm_noloco_poll(tllm_noloco *o)
{
    uint64_t next = UINT64_MAX;
    if (!o) return TINY_E_ARGUMENT;
    tinyi_nl_words(o, &next);
    if (o->early) {
        tinyi_nl_peer *p = &o->peer[o->early - 1];
        if (!p->gone && !p->phi.whole && o->desc.net->send(o->desc.net, o->early - 1, &p->phi)) p->gone = 1;
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_noloco_leave(tllm_noloco *o, int all)
{
    tiny_status st;
    int r;
    if (!o) return TINY_E_ARGUMENT;
    if (o->strict) { /* phi that left already, in both directions */
        st = all && o->early ? tinyi_nl_numbers(o, o->early - 1, 2, &r) : TINY_OK;
        o->early = 0;
        return st;
    }
    for (r = 0; r < o->world; r++)
        if (r != o->rank) tinyi_nl_say(o, r, TINYI_NL_LEAVE, 0);
    st = tinyi_nl_wait(o, 0, TINYI_NL_FOR_SENT);
    if (!st && all) st = tinyi_nl_wait(o, 0, TINYI_NL_FOR_LEFT);
    for (r = 0; r < o->world; r++) o->peer[r].gone = 1;
    return st;
}

/* Nobody of the group of this step is waiting any more: each gave up, which it says before it makes a later step. */
static int tinyi_nl_missed(const tllm_noloco *o)
{
    const uint64_t who = tinyi_nl_group(o);
    int r, there = 0;
    for (r = 0; r < o->world; r++) there += (who >> r & 1) && (o->peer[r].gone || o->peer[r].giveup <= o->step);
    return who && !there;
}

TINY_API tiny_status tllm_noloco_outer(tllm_noloco *o, tllm_noloco_report *report)
{
    tllm_noloco_report r;
    const uint64_t from = tiny_now_ns();
    uint64_t who, next = UINT64_MAX;
    size_t n, odd;
    double size;
    char says[200] = "";
    int k, met;
    tiny_status st;
    memset(&r, 0, sizeof r);
    r.with = -1;
    if (report) *report = r;
    if (!o) return TINY_E_ARGUMENT;
    n = o->desc.n;
    odd = tinyi_nl_odd(o->desc.theta, n);
    if (odd < n)
        return tinyi_fail(o->ctx, TINY_E_NUMERIC, "NoLoCo: number %zu of theta is not finite in outer step %llu", odd,
                          (unsigned long long)o->step);
    tinyi_nl_words(o, &next);
    while (tinyi_nl_missed(o)) o->step++;
    st = tinyi_nl_run(o, TINYI_NL_SUB, o->change, o->desc.theta, o->phi, 1.0);
    who = tinyi_nl_group(o);
    size = tinyi_nl_norm(o->phi, o->phi, 0.0, n) + tinyi_nl_norm(o->change, o->change, 0.0, n);
    for (k = 0; k < o->world && !st; k++) { /* in the order of ranks: the same sums in the whole group */
        const float *change = o->in + n, *slow = o->in;
        met = k == o->rank;
        if (met) {
            change = o->change;
            slow = o->phi;
        } else if (who >> k & 1) {
            const int lies = r.liar;
            st = tinyi_nl_meet(o, k, size, &r, &met);
            if (!lies && r.liar) tinyi_keep_says(says, sizeof says, tiny_ctx_message(o->ctx));
        }
        if (st || !met) continue;
        r.met++;
        if (k != o->rank) r.with = k;
        if (r.met == 1) {                   /* the first of them */
            memcpy(o->sum, change, n * sizeof(float));
            memcpy(o->sum + n, slow, n * sizeof(float));
            continue;
        }
        st = tinyi_nl_run(o, TINYI_NL_ADD, o->sum, change, NULL, 1.0);
        if (!st) st = tinyi_nl_run(o, TINYI_NL_ADD, o->sum + n, slow, NULL, 1.0);
    }
    /* a replica that joins gets the phi that it was promised, before it changes */
    if (!st && !o->strict) st = tinyi_nl_wait(o, 0, TINYI_NL_FOR_JOINED);
    if (st) return st;
    for (k = 0; k < o->world; k++)
        if (o->peer[k].joins) o->peer[k].gone = 1;
    st = tinyi_nl_run(o, TINYI_NL_MOVE, NULL, o->sum, o->sum + n, 1.0 / r.met);
    if (st) return st;
    r.step = o->step++;
    tinyi_nl_early(o);
    r.waited_ns = tiny_now_ns() - from;
    r.clock = o->clock;
    if (report) *report = r;
    return r.liar ? tinyi_fail(o->ctx, TINY_E_PROTOCOL, "%s", says) : TINY_OK;
}
