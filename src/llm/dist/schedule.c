/* src/llm/dist/schedule.c - schedules of pipelines: their lists, a simulator that checks them, balanced cuts
 * Papers   Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2018
 *          (arXiv 1811.06965). D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
 *          Using Megatron-LM", 2021 (arXiv 2104.04473): 1F1B and interleaved 1F1B.
 * Formula  p stages, m micro-batches, v chunks.
 *          GPipe        F 0 .. m-1, then B m-1 .. 0
 *          1F1B         w = min(m, p - r - 1) times F, then m - w times (F, B), then w times B
 *          interleaved  table: for each group of p micro-batches, chunk 0 for the whole group, then chunk 1 ...; T = m
 *                       v entries; w = min(T, 2 (p - r - 1) + (v - 1) p); the same three phases over the table; a
 *                       backward pass reads it with chunk v - 1 - c
 *          time         (m + (p - 1) / v) (f + b) for all three, messages apart; GPipe has v = 1
 *          cut          best[k][j] = min over i of max(best[k-1][i], cost i .. j-1)
 * Cost     a simulation visits each item once. The cut is O(n_cell n_layer^2). */
#include "llm/dist/schedule.h"
#include "core/state_inside.h"
#include <string.h>

#define TINYI_SCHED_MOST 65536              /* stages, micro-batches, chunks */
#define TINYI_SCHED_ITEMS ((size_t)1 << 28) /* of all stages together */

static int tinyi_sched_chunks(const tllm_sched *s) { return s->chunks ? s->chunks : 1; }

tiny_status tinyi_sched_valid(tiny_ctx *ctx, const tllm_sched *s)
{
    size_t n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s) return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: it is NULL");
    if (s->kind < 0 || s->kind >= TLLM_SCHED_KINDS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: kind %d, there are 0 to %d", s->kind, TLLM_SCHED_KINDS - 1);
    if (s->stages < 1 || s->micros < 1 || s->chunks < 0 || s->stages > TINYI_SCHED_MOST ||
        s->micros > TINYI_SCHED_MOST || s->chunks > TINYI_SCHED_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "schedule: %d stages, %d micro-batches and %d chunks must each be 1 to %d", s->stages,
                          s->micros, s->chunks, TINYI_SCHED_MOST);
    if (s->kind == TLLM_SCHED_GPIPE && s->chunks > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: GPipe has one chunk for each stage, not %d", s->chunks);
    if (s->chunks > 1 && s->micros % s->stages)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "schedule: %d micro-batches are no multiple of %d stages, which more than one chunk needs",
                          s->micros, s->stages);
    n = 2 * (size_t)s->micros * (size_t)tinyi_sched_chunks(s);
    if (n > TINYI_SCHED_ITEMS / (size_t)s->stages)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "schedule: %d stages of %zu items are more than %zu items", s->stages,
                          n, TINYI_SCHED_ITEMS);
    return TINY_OK;
}

TINY_API size_t tllm_sched_items(const tllm_sched *s)
{
    if (!s || s->stages < 1 || s->micros < 1 || s->chunks < 0 || s->micros > TINYI_SCHED_MOST ||
        s->chunks > TINYI_SCHED_MOST)
        return 0;
    return 2 * (size_t)s->micros * (size_t)tinyi_sched_chunks(s);
}

/* entry k of the table */
static tllm_sched_item tinyi_sched_entry(const tllm_sched *s, int k, int backward)
{
    const int v = tinyi_sched_chunks(s), p = s->stages, group = v > 1 ? p : 1;
    tllm_sched_item it;
    it.micro = k / (group * v) * group + k % group;
    it.chunk = k % (group * v) / group;
    if (backward) it.chunk = v - 1 - it.chunk;
    it.backward = backward;
    return it;
}

TINY_API tiny_status tllm_sched_stage(tiny_ctx *ctx, const tllm_sched *s, int stage, tllm_sched_item *item)
{
    tiny_status st = tinyi_sched_valid(ctx, s);
    int v, n, warm, k, at = 0;
    if (st) return st;
    if (!item || stage < 0 || stage >= s->stages)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: stage %d of %d, and a list of items, are needed", stage,
                          s->stages);
    v = tinyi_sched_chunks(s);
    n = s->micros * v;
    if (s->kind == TLLM_SCHED_GPIPE) {
        for (k = 0; k < n; k++) item[at++] = tinyi_sched_entry(s, k, 0);
        for (k = n - 1; k >= 0; k--) item[at++] = tinyi_sched_entry(s, k, 1);
        return TINY_OK;
    }
    warm = v > 1 ? 2 * (s->stages - stage - 1) + (v - 1) * s->stages : s->stages - stage - 1;
    if (warm > n) warm = n;
    for (k = 0; k < warm; k++) item[at++] = tinyi_sched_entry(s, k, 0);
    for (k = 0; k < n - warm; k++) {
        item[at++] = tinyi_sched_entry(s, warm + k, 0);
        item[at++] = tinyi_sched_entry(s, k, 1);
    }
    for (; k < n; k++) item[at++] = tinyi_sched_entry(s, k, 1);
    return TINY_OK;
}

TINY_API double tllm_sched_bubble(const tllm_sched *s)
{
    if (!s || s->stages < 1 || s->micros < 1 || s->chunks < 0) return 0.0;
    return (double)(s->stages - 1) / ((double)tinyi_sched_chunks(s) * (double)s->micros);
}

/* ---- the simulator ----------------------------------------------------------------------------------------------- */

typedef struct tinyi_sched_sim {
    const tllm_sched *s;
    int v;
    size_t n;                               /* items of a stage */
    const tllm_sched_item *item;
    double *done[2];                        /* (pieces, micros): when F and B end; below 0: not yet */
    size_t *next;                           /* (stages) */
    double *free_at;
    int *held;
    int *queue;                             /* stages that may go on; each is in it once at most */
    unsigned char *queued;
    double *at;
    int *live;
} tinyi_sched_sim;

static double *tinyi_sched_done(const tinyi_sched_sim *m, int backward, int piece, int micro)
{
    return &m->done[backward][(size_t)piece * (size_t)m->s->micros + (size_t)micro];
}

/* Runs the next item of a stage. 0: it has to wait, or there is none. */
static int tinyi_sched_step(tinyi_sched_sim *m, int stage, const tllm_sched_time *t)
{
    const int p = m->s->stages, pieces = p * m->v;
    const size_t k = m->next[stage];
    const tllm_sched_item *it = &m->item[(size_t)stage * m->n + k];
    int piece, from;
    double start, ready = 0.0, end;
    if (k == m->n) return 0;
    piece = it->chunk * p + stage;
    from = it->backward ? piece + 1 : piece - 1;
    if (it->backward && *tinyi_sched_done(m, 0, piece, it->micro) < 0.0) return 0;
    if (from >= 0 && from < pieces) {
        ready = *tinyi_sched_done(m, it->backward, from, it->micro);
        if (ready < 0.0) return 0;
        if (from % p != stage) ready += t->hop;
    }
    start = m->free_at[stage];
    if (it->backward) {
        const tllm_sched_item *last = k ? it - 1 : NULL;
        const int fresh = last && !last->backward && last->micro == it->micro && last->chunk == it->chunk;
        end = start + (fresh ? 0.0 : t->again / m->v);
        if (end < ready) end = ready;
        if (fresh || t->again <= 0.0) start = end;
        end += t->backward / m->v;
        m->held[stage]--;
    } else {
        start = TINYI_MAX(start, ready);
        end = start + t->forward / m->v;
        m->held[stage]++;
        if (m->live && m->held[stage] > m->live[stage]) m->live[stage] = m->held[stage];
    }
    *tinyi_sched_done(m, it->backward, piece, it->micro) = m->free_at[stage] = end;
    if (m->at) {
        m->at[((size_t)stage * m->n + k) * 2] = start;
        m->at[((size_t)stage * m->n + k) * 2 + 1] = end;
    }
    m->next[stage]++;
    return 1;
}

/* Each item is known and there once: done[] marks what was seen. */
static tiny_status tinyi_sched_once(tiny_ctx *ctx, tinyi_sched_sim *m)
{
    const int p = m->s->stages;
    int stage;
    size_t k;
    for (stage = 0; stage < p; stage++)
        for (k = 0; k < m->n; k++) {
            const tllm_sched_item *it = &m->item[(size_t)stage * m->n + k];
            double *seen;
            if (it->micro < 0 || it->micro >= m->s->micros || it->chunk < 0 || it->chunk >= m->v || it->backward < 0 ||
                it->backward > 1)
                return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                  "schedule: item %zu of stage %d is micro-batch %d, chunk %d, pass %d; there are %d "
                                  "micro-batches, %d chunks and 2 passes",
                                  k, stage, it->micro, it->chunk, it->backward, m->s->micros, m->v);
            seen = tinyi_sched_done(m, it->backward, it->chunk * p + stage, it->micro);
            if (*seen > -1.5)
                return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                  "schedule: stage %d has the %s pass of micro-batch %d, chunk %d, twice", stage,
                                  it->backward ? "backward" : "forward", it->micro, it->chunk);
            *seen = -1.0;
        }
    return TINY_OK;
}

static tiny_status tinyi_sched_go(tiny_ctx *ctx, tinyi_sched_sim *m, const tllm_sched_time *t, double *total)
{
    const int p = m->s->stages;
    size_t head = 0, waiting = (size_t)p;
    int i;
    tiny_status st = tinyi_sched_once(ctx, m);
    if (st) return st;
    *total = 0.0;
    for (i = 0; i < p; i++) {
        m->queue[i] = i;
        m->queued[i] = 1;
        m->next[i] = 0;
        m->free_at[i] = 0.0;
        m->held[i] = 0;
        if (m->live) m->live[i] = 0;
    }
    while (waiting) {                       /* a stage that moved may have what its neighbours wait for */
        const int stage = m->queue[head];
        int moved = 0, k;
        head = (head + 1) % (size_t)p;
        waiting--;
        m->queued[stage] = 0;
        while (tinyi_sched_step(m, stage, t)) moved = 1;
        for (k = -1; moved && k <= 1; k += 2) {
            const int other = (stage + k + p) % p;
            if (m->queued[other]) continue;
            m->queue[(head + waiting++) % (size_t)p] = other;
            m->queued[other] = 1;
        }
    }
    for (i = 0; i < p; i++) {
        if (m->next[i] < m->n)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: stage %d waits for ever before item %zu of %zu", i,
                              m->next[i], m->n);
        *total = TINYI_MAX(*total, m->free_at[i]);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_sched_simulate(tiny_ctx *ctx, const tllm_sched *s, const tllm_sched_item *item,
                                         const tllm_sched_time *time, double *at, int *live, double *total)
{
    tiny_status st = tinyi_sched_valid(ctx, s);
    tinyi_sched_sim m;
    tllm_sched_item *made = NULL;
    size_t stages, each, i;
    if (st) return st;
    if (!time || !total)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: times and a place for the total are needed");
    if (!(time->forward >= 0.0 && time->backward >= 0.0 && time->again >= 0.0 && time->hop >= 0.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "schedule: times %g, %g, %g, %g must not be negative", time->forward,
                          time->backward, time->again, time->hop);
    memset(&m, 0, sizeof m);
    m.s = s;
    m.v = tinyi_sched_chunks(s);
    m.n = tllm_sched_items(s);
    m.at = at;
    m.live = live;
    stages = (size_t)s->stages;
    each = stages * m.n / 2;
    if (!item) {
        made = (tllm_sched_item *)tinyi_alloc(ctx, stages * m.n, sizeof *made);
        for (i = 0; made && !st && i < stages; i++) st = tllm_sched_stage(ctx, s, (int)i, made + i * m.n);
        if (!made) st = tiny_ctx_status(ctx);
    }
    m.item = item ? item : made;
    if (!st) {
        m.done[0] = (double *)tinyi_alloc(ctx, each, 2 * sizeof(double));
        m.next = (size_t *)tinyi_alloc(ctx, stages, sizeof *m.next);
        m.free_at = (double *)tinyi_alloc(ctx, stages, sizeof *m.free_at);
        m.held = (int *)tinyi_alloc(ctx, stages, sizeof *m.held);
        m.queue = (int *)tinyi_alloc(ctx, stages, sizeof *m.queue);
        m.queued = (unsigned char *)tinyi_alloc(ctx, stages, 1);
        if (!m.done[0] || !m.next || !m.free_at || !m.held || !m.queue || !m.queued) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        m.done[1] = m.done[0] + each;
        for (i = 0; i < 2 * each; i++) m.done[0][i] = -2.0;
        st = tinyi_sched_go(ctx, &m, time, total);
    }
    tiny_free(ctx, made);
    tiny_free(ctx, m.done[0]);
    tiny_free(ctx, m.next);
    tiny_free(ctx, m.free_at);
    tiny_free(ctx, m.held);
    tiny_free(ctx, m.queue);
    tiny_free(ctx, m.queued);
    return st;
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_sched_cut(tiny_ctx *ctx, const double *cost, int n_layer, int n_cell, int *first)
{
    tiny_status st = tinyi_ctx_check(ctx);
    double *best, sum;
    int *from, k, i, j;
    size_t row, each;
    if (st) return st;
    if (!cost || !first) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cut: costs and a place for the cuts are needed");
    if (n_cell < 1 || n_layer > TINYI_SCHED_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cut: %d cells of %d layers; there may be up to %d layers", n_cell,
                          n_layer, TINYI_SCHED_MOST);
    if (n_cell > n_layer)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cut: %d cells, but only %d layers", n_cell, n_layer);
    for (i = 0; i < n_layer; i++)
        if (!(cost[i] >= 0.0 && cost[i] <= 1e300))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cut: the cost of layer %d is %g; it must be 0 or more", i,
                              cost[i]);
    row = (size_t)n_layer + 1;
    if (!tinyi_size_mul((size_t)n_cell, row, &each))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "cut: %d cells of %d layers are more than this machine can address",
                          n_cell, n_layer);
    best = (double *)tinyi_alloc(ctx, 2 * row, sizeof *best);
    from = (int *)tinyi_alloc(ctx, each, sizeof *from);
    if (!best || !from) st = tiny_ctx_status(ctx);
    for (k = 0; !st && k < n_cell; k++) {   /* best[k % 2][j]: layers 0 .. j-1 in k + 1 cells */
        double *now = best + (size_t)(k % 2) * row;
        const double *old = best + (size_t)((k + 1) % 2) * row;
        for (j = k + 1; j <= n_layer; j++) {
            sum = 0.0;
            now[j] = -1.0;
            for (i = j - 1; i >= k; i--) {  /* the last cell is i .. j-1 */
                double most;
                sum += cost[i];
                if (k == 0 && i > 0) continue;
                most = k == 0 ? sum : TINYI_MAX(sum, old[i]);
                if (now[j] < 0.0 || most < now[j]) {
                    now[j] = most;
                    from[(size_t)k * row + (size_t)j] = i;
                }
                if (k > 0 && sum > now[j]) break;
            }
        }
    }
    if (!st) {
        first[n_cell] = j = n_layer;
        for (k = n_cell - 1; k >= 0; k--) first[k] = j = from[(size_t)k * row + (size_t)j];
    }
    tiny_free(ctx, best);
    tiny_free(ctx, from);
    return st;
}
