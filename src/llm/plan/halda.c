/* src/llm/plan/halda.c - layers for the devices of a ring
 * Paper    Z. Li et al., "PRIMA.CPP: Speeding Up 70B-Scale LLM Inference on Low-Resource Everyday Home Clusters", 2025
 *          (arXiv 2504.08791): piped-ring parallelism, Halda (its layer-to-device assignment), device selection.
 * Formula  device m, l = w k layers in all, b bytes of a layer, b' = b + keys and values, head = bi / V + bo for m = 0:
 *          set 4 if the disk is slower than 0.1 GB/s or the device must hold all it gets; else
 *          set 1 (macOS) if l b' + head + c > memory; set 2 (macOS, accelerator): the same with its scratch;
 *          set 3 (Linux, Android) if (l - l_accel) b' + head + c > memory; else set 4
 *          a = layer_s + b' / s (1, 3), layer_s + b / s (2), layer_s (4)
 *          b = 0 (1), accel_s (2), accel_s - b' / s (3), accel_s (4); 0 without an accelerator
 *          z = (memory - head - c) / (L b'), accel_z = max(0, (accel_memory - scratch) / (L b'))
 *          minimise k sum(a w + b n) + kappa over k | L; sum w = W = L / k, 1 <= w, 0 <= n <= min(w, floor(W accel_z));
 *          sets 1, 2: w >= W z; 3: w - n >= W z; 4: w - n <= W z (macOS: w <= W z)
 *          kappa = output_s + (bi / V) / s_0 + [0 not in set 4] bo / s_0 + sum over sets 1, 3 of (c - memory) / s
 * Method   all rows but the sum are of one device, so the program of the paper is a knapsack: f_m(u) = min over w of
 *          f_(m-1)(u - w) + cost_m(w), with the best n at an end of its interval. Exact, O(devices W^2) for each k.
 *          The sets depend on the solution: start from windows in proportion to memory, solve, and set again until
 *          the sets were there before. If an accelerator has room while another device reads from disk, the device
 *          with the slowest disk is forced into set 4. Then devices other than the first with at most one layer are
 *          dropped, and all is solved again.
 * Added    the sets found so are a local choice. Afterwards each device is tried in its other set, and a change that
 *          makes the token faster is kept, until none does. A solution satisfies the rows of its sets, so it is a real
 *          plan in any case. If the first sets have no solution, the same search finds one that has.
 * Left out the hops between devices: the objective of the paper has none. tllm_ring_simulate counts them. */
#include "llm/plan/halda.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include <string.h>

#define TINYI_HALDA_EPS 1e-9
#define TINYI_HALDA_NEVER 1e300

/* the layers on the accelerator that are best with a window of w in rounds of W, or -1: w is not possible */
static tiny_idx tinyi_halda_best(const tllm_halda_row *r, tiny_idx w, tiny_idx W)
{
    const double fits = (double)W * r->z, room = (double)W * r->accel_z + TINYI_HALDA_EPS;
    tiny_idx lo = 0, hi = room >= (double)w ? w : (tiny_idx)room;
    if (r->set < 3) return (double)w >= fits - TINYI_HALDA_EPS ? (r->b < 0 ? hi : 0) : -1;
    if (r->set == 3) {
        const double most = (double)w - fits + TINYI_HALDA_EPS;
        if (most < 0) return -1;
        if (most < (double)hi) hi = (tiny_idx)most;
    } else if (r->macos) {
        if ((double)w > fits + TINYI_HALDA_EPS) return -1;
    } else {
        const double least = (double)w - fits - TINYI_HALDA_EPS;
        if (least > (double)hi) return -1;
        if (least > 0) {
            lo = (tiny_idx)least;
            if ((double)lo < least) lo++;
        }
        if (lo > hi) return -1;
    }
    return r->b < 0 ? hi : lo;
}

/* the best windows for rounds of W: f (W + 1), pick (n, W + 1). The cost, or NEVER. */
static double tinyi_halda_round(const tllm_halda_row *row, int n, tiny_idx W, double *f, int32_t *pick)
{
    tiny_idx u, w;
    int m;
    for (u = 0; u <= W; u++) f[u] = u ? TINYI_HALDA_NEVER : 0.0;
    for (m = 0; m < n; m++) {
        int32_t *p = pick + m * (W + 1);
        for (u = W; u >= 0; u--) {          /* downwards: f[u - w] is still that of the devices before */
            double best = TINYI_HALDA_NEVER;
            p[u] = 0;
            for (w = 1; w <= u; w++) {
                const tiny_idx a = f[u - w] < TINYI_HALDA_NEVER ? tinyi_halda_best(&row[m], w, W) : -1;
                const double cost = a < 0 ? TINYI_HALDA_NEVER : f[u - w] + row[m].a * (double)w + row[m].b * (double)a;
                if (a >= 0 && cost < best) {
                    best = cost;
                    p[u] = (int32_t)w;
                }
            }
            f[u] = best;
        }
    }
    return f[W];
}

/* TINY_E_UNSUPPORTED without a sentence: no solution is an answer here */
static tiny_status tinyi_halda_solve(tiny_ctx *ctx, const tllm_halda_row *row, int n, tiny_idx n_layer,
                                     tllm_halda_plan *plan)
{
    double *f, best = TINYI_HALDA_NEVER;
    int32_t *pick;
    tiny_idx k, u;
    int m;
    for (m = 0; m < n; m++)
        if (row[m].set < 1 || row[m].set > 4 || !(row[m].a >= 0 && row[m].a < 1e30) ||
            !(row[m].b > -1e30 && row[m].b < 1e30) || !(row[m].z > -1e6 && row[m].z < 1e12) ||
            !(row[m].accel_z >= 0 && row[m].accel_z < 1e12))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "row %d: set %d, a %g, b %g, z %g, %g: not a device", m,
                              row[m].set, row[m].a, row[m].b, row[m].z, row[m].accel_z);
    memset(plan, 0, sizeof *plan);
    f = (double *)tinyi_alloc(ctx, (size_t)n_layer + 1, sizeof *f);
    pick = f ? (int32_t *)tinyi_alloc(ctx, ((size_t)n_layer + 1) * (size_t)n, sizeof *pick) : NULL;
    if (!pick) {
        tiny_free(ctx, f);
        return tiny_ctx_status(ctx);
    }
    for (k = 1; k == 1 || k <= n_layer / 2; k++) {
        const tiny_idx W = n_layer / k;
        double cost;
        if (n_layer % k || W < n) continue;
        cost = tinyi_halda_round(row, n, W, f, pick);
        if (cost >= TINYI_HALDA_NEVER || (double)k * cost >= best * (1 - 1e-12)) continue;
        best = (double)k * cost;
        plan->k = k;
        for (m = n - 1, u = W; m >= 0; m--) {
            plan->window[m] = pick[m * (W + 1) + u];
            plan->accel[m] = tinyi_halda_best(&row[m], plan->window[m], W);
            plan->set[m] = row[m].set;
            u -= plan->window[m];
        }
    }
    tiny_free(ctx, pick);
    tiny_free(ctx, f);
    if (!plan->k) return TINY_E_UNSUPPORTED;
    plan->n_used = n;
    plan->n_solved = 1;
    plan->layers_s = plan->seconds = best;
    return TINY_OK;
}

TINY_API tiny_status tllm_halda_solve(tiny_ctx *ctx, const tllm_halda_row *row, int n, tiny_idx n_layer,
                                      tllm_halda_plan *plan)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!row || !plan) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_halda_solve: a pointer is NULL");
    if (n < 1 || n > TLLM_HALDA_DEVICES || n_layer < 1 || n_layer > TLLM_HALDA_LAYERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td layers on %d devices: the limits are %d layers and %d devices",
                          n_layer, n, TLLM_HALDA_LAYERS, TLLM_HALDA_DEVICES);
    st = tinyi_halda_solve(ctx, row, n, n_layer, plan);
    if (st == TINY_E_UNSUPPORTED)
        return tinyi_fail(ctx, st, "%td layers cannot be divided among %d devices within these limits", n_layer, n);
    return st;
}

/* ---- the sets ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_halda {
    const tllm_halda_model *m;
    const tllm_device *d[TLLM_HALDA_DEVICES];       /* those that are left */
    int of[TLLM_HALDA_DEVICES], n;                  /* their numbers */
    tllm_halda_row row[TLLM_HALDA_DEVICES];
    double b2, head;
} tinyi_halda;

static int tinyi_halda_reads(const tllm_device *d) /* the set of this device when it reads from disk; 4: it may not */
{
    if (d->disk < 1e8 || d->resident) return 4;
    if (d->system == TLLM_SYSTEM_MACOS) return d->accel_memory > 0 ? d->unified ? 2 : 4 : 1;
    return d->system == TLLM_SYSTEM_OTHER ? 4 : 3;
}
static int tinyi_halda_set(const tinyi_halda *h, int i, double l, double l_accel)
{
    const tllm_device *d = h->d[i];
    const double need = (i ? 0.0 : h->head) + d->scratch;
    const int set = tinyi_halda_reads(d);
    if (set == 1 && l * h->b2 + need > d->memory) return 1;
    if (set == 2 && l * h->b2 + need + d->accel_scratch > d->memory) return 2;
    if (set == 3 && (l - l_accel) * h->b2 + need > d->memory) return 3;
    return 4;
}
static void tinyi_halda_row(tinyi_halda *h, int i, int set)
{
    const tllm_device *d = h->d[i];
    const double all = (double)h->m->n_layer * h->b2, beta = d->accel_memory > 0 ? d->accel_s : 0.0;
    const double again = set == 4 ? 0.0 : set == 2 ? h->m->layer_bytes / d->disk : h->b2 / d->disk;
    tllm_halda_row *r = &h->row[i];
    r->set = set;
    r->macos = d->system == TLLM_SYSTEM_MACOS;
    r->a = d->layer_s + again;
    r->b = set == 1 ? 0.0 : set == 3 && d->accel_memory > 0 ? beta - again : beta;
    r->z = (d->memory - (i ? 0.0 : h->head) - d->scratch) / all;
    r->accel_z = d->accel_memory > d->accel_scratch ? (d->accel_memory - d->accel_scratch) / all : 0.0;
}
static double tinyi_halda_kappa(const tinyi_halda *h)
{
    const double row = h->m->n_vocab > 0 ? h->m->input_bytes / (double)h->m->n_vocab : 0.0;
    double kappa = h->m->output_s;
    int i;
    if (h->d[0]->disk > 0) kappa += (row + (h->row[0].set != 4 ? h->m->output_bytes : 0.0)) / h->d[0]->disk;
    for (i = 0; i < h->n; i++)
        if (h->row[i].set == 1 || h->row[i].set == 3) kappa += (h->d[i]->scratch - h->d[i]->memory) / h->d[i]->disk;
    return kappa;
}
/* solves for the sets of h, and keeps the plan if it is better than *best */
static tiny_status tinyi_halda_try(tiny_ctx *ctx, tinyi_halda *h, tllm_halda_plan *best, int *better, int *n_solved)
{
    tllm_halda_plan p;
    tiny_status st = TINY_OK;
    *better = 0;
    st = tinyi_halda_solve(ctx, h->row, h->n, h->m->n_layer, &p);
    (*n_solved)++;
    if (st) return st;
    p.seconds = p.layers_s + tinyi_halda_kappa(h);
    if (!best->k || p.seconds < best->seconds * (best->seconds > 0 ? 1 - 1e-12 : 1)) {
        *best = p;
        *better = 1;
    }
    return TINY_OK;
}

/* the best plan for the devices that are left */
static tiny_status tinyi_halda_find(tiny_ctx *ctx, tinyi_halda *h, tllm_halda_plan *best, int *n_solved)
{
    const tiny_idx L = h->m->n_layer;
    double memory = 0.0, upto = 0.0;
    tllm_halda_plan now;
    unsigned char seen[64][TLLM_HALDA_DEVICES];
    int forced[TLLM_HALDA_DEVICES], i, better, turn, n_seen = 0;
    tiny_status st = TINY_OK;
    memset(best, 0, sizeof *best);
    memset(&now, 0, sizeof now);
    memset(forced, 0, sizeof forced);
    for (i = 0; i < h->n; i++) memory += h->d[i]->memory + (h->d[i]->unified ? 0.0 : h->d[i]->accel_memory);
    now.k = 1;
    for (i = 0; i < h->n; i++) {            /* in proportion to memory: from one rounded end to the next */
        const double from = upto;
        upto += h->d[i]->memory + (h->d[i]->unified ? 0.0 : h->d[i]->accel_memory);
        now.window[i] = memory > 0 ? (tiny_idx)((double)L * upto / memory + 0.5) - (tiny_idx)((double)L * from / memory
                                     + 0.5) : L / h->n;
        if (now.window[i] < 1) now.window[i] = 1;
        now.accel[i] = h->d[i]->accel_memory > 0 ? now.window[i] : 0;
    }
    for (turn = 0; turn < 64; turn++) {
        int again = 0, spare = 0, reads = -1, weak = 0;
        for (i = 0; i < h->n; i++) {
            seen[n_seen][i] = (unsigned char)(forced[i] ? 4 : tinyi_halda_set(h, i, (double)(now.window[i] * now.k),
                                                                              (double)(now.accel[i] * now.k)));
            tinyi_halda_row(h, i, seen[n_seen][i]);
        }
        for (i = 0; i < n_seen; i++) again |= !memcmp(seen[i], seen[n_seen], (size_t)h->n);
        if (again) {                        /* an accelerator has room, and another device reads from disk */
            for (i = 0; i < h->n; i++) {
                const double room = (double)(L / now.k) * h->row[i].accel_z;
                spare |= now.accel[i] < now.window[i] && (double)(now.accel[i] + 1) <= room;
                weak |= now.window[i] == 1 && !now.accel[i];
                if (h->row[i].set != 4 && (reads < 0 || h->d[i]->disk < h->d[reads]->disk)) reads = i;
            }
            if (!spare || weak || reads < 0) break;
            forced[reads] = 1;
            tinyi_halda_row(h, reads, 4);
            seen[n_seen][reads] = 4;
        }
        n_seen += n_seen < 63;
        {
            tllm_halda_plan next;
            memset(&next, 0, sizeof next);
            st = tinyi_halda_try(ctx, h, &next, &better, n_solved);
            if (st && st != TINY_E_UNSUPPORTED) return st;
            if (st) break;
            now = next;
            if (!best->k || now.seconds < best->seconds) *best = now;
        }
    }
    /* each device in its other set: from the best plan, or from the last sets if they had no solution */
    for (turn = 0; turn < 4 * h->n; turn++) {
        int some = 0;
        for (i = 0; i < h->n; i++) tinyi_halda_row(h, i, best->k ? best->set[i] : h->row[i].set);
        for (i = 0; i < h->n; i++) {
            const int was = h->row[i].set, other = was == 4 ? tinyi_halda_reads(h->d[i]) : 4;
            if (other == was) continue;
            tinyi_halda_row(h, i, other);
            st = tinyi_halda_try(ctx, h, best, &better, n_solved);
            if (st && st != TINY_E_UNSUPPORTED) return st;
            some |= better;
            if (!better && (best->k || other == 4)) tinyi_halda_row(h, i, was);     /* without any plan: read more */
        }
        if (!some) break;
    }
    return best->k ? TINY_OK : TINY_E_UNSUPPORTED;
}

static tiny_status tinyi_halda_check(tiny_ctx *ctx, const tllm_halda_model *m, const tllm_device *d, int n)
{
    int i;
    if (n < 1 || n > TLLM_HALDA_DEVICES || m->n_layer < 1 || m->n_layer > TLLM_HALDA_LAYERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td layers on %d devices: the limits are %d layers and %d devices",
                          m->n_layer, n, TLLM_HALDA_LAYERS, TLLM_HALDA_DEVICES);
    if (!(m->layer_bytes > 0 && m->layer_bytes < 1e18) || !(m->held_bytes >= 0 && m->held_bytes < 1e18) ||
        !(m->input_bytes >= 0 && m->input_bytes < 1e18) || !(m->output_bytes >= 0 && m->output_bytes < 1e18) ||
        !(m->output_s >= 0 && m->output_s < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a layer of %g bytes with %g of keys and values, %g and %g bytes at "
                          "the ends, %g s: negative or not finite", m->layer_bytes, m->held_bytes, m->input_bytes,
                          m->output_bytes, m->output_s);
    for (i = 0; i < n; i++) {
        if (!(d[i].layer_s >= 0 && d[i].layer_s < 1e9) || !(d[i].accel_s > -1e9 && d[i].accel_s < 1e9) ||
            d[i].layer_s + d[i].accel_s < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "device %d: a layer takes %g s, and %g s more on its accelerator",
                              i, d[i].layer_s, d[i].accel_s);
        if (!(d[i].memory >= 0 && d[i].memory < 1e18) || !(d[i].accel_memory >= 0 && d[i].accel_memory < 1e18) ||
            !(d[i].disk >= 0 && d[i].disk < 1e18) || !(d[i].scratch >= 0 && d[i].scratch < 1e18) ||
            !(d[i].accel_scratch >= 0 && d[i].accel_scratch < 1e18))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "device %d: %g bytes of memory, %g of its accelerator, %g bytes a "
                              "second from disk: negative or not finite", i, d[i].memory, d[i].accel_memory, d[i].disk);
        if (d[i].system < TLLM_SYSTEM_LINUX || d[i].system > TLLM_SYSTEM_OTHER)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "device %d: system %d is not known", i, d[i].system);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_halda(tiny_ctx *ctx, const tllm_halda_model *model, const tllm_device *device, int n,
                                tllm_halda_plan *plan)
{
    tinyi_halda h;
    tllm_halda_plan best, next;
    int of[TLLM_HALDA_DEVICES], i, n_solved = 0, n_best;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!model || !device || !plan) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_halda: a pointer is NULL");
    memset(plan, 0, sizeof *plan);
    st = tinyi_halda_check(ctx, model, device, n);
    if (st) return st;
    memset(&h, 0, sizeof h);
    h.m = model;
    h.b2 = model->layer_bytes + model->held_bytes;
    h.head = (model->n_vocab > 0 ? model->input_bytes / (double)model->n_vocab : 0.0) + model->output_bytes;
    for (i = 0; i < n; i++) h.of[i] = of[i] = i;
    h.n = n_best = n < model->n_layer ? n : (int)model->n_layer;       /* each device has a layer at least */
    memset(&best, 0, sizeof best);
    for (;;) {
        int left = 0;
        for (i = 0; i < h.n; i++) h.d[i] = &device[h.of[i]];
        st = tinyi_halda_find(ctx, &h, &next, &n_solved);
        if (st && (st != TINY_E_UNSUPPORTED || !best.k)) break;
        if (st) { st = TINY_OK; break; }    /* they were needed after all */
        best = next;
        n_best = h.n;
        memcpy(of, h.of, sizeof of);
        for (i = 0; i < h.n; i++)
            if (!i || best.window[i] > 1) h.of[left++] = h.of[i];
        if (left == h.n) break;
        h.n = left;
    }
    if (st == TINY_E_UNSUPPORTED)
        return tinyi_fail(ctx, st, "%td layers of %g bytes do not fit the memory of %d devices, and too few of them "
                          "may read from disk", model->n_layer, h.b2, n);
    if (st) return st;
    *plan = best;
    memset(plan->window, 0, sizeof plan->window);
    memset(plan->accel, 0, sizeof plan->accel);
    memset(plan->set, 0, sizeof plan->set);
    for (i = 0; i < n_best; i++) {
        plan->window[of[i]] = best.window[i];
        plan->accel[of[i]] = best.accel[i];
        plan->set[of[i]] = best.set[i];
    }
    plan->n_used = n_best;
    plan->n_solved = n_solved;
    return TINY_OK;
}

/* ---- a ring in time ---------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_ring_simulate(tiny_ctx *ctx, const tllm_ring_device *d, int n, tiny_idx k, double hop_s,
                                        double output_s, double *seconds, tiny_idx n_tokens)
{
    double loaded[TLLM_HALDA_DEVICES], now = 0.0;
    tiny_idx t, c;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d || (!seconds && n_tokens)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_ring_simulate: a pointer is NULL");
    if (n < 1 || n > TLLM_HALDA_DEVICES || k < 1 || n_tokens < 0 || !(hop_s >= 0 && hop_s < 1e9) ||
        !(output_s >= 0 && output_s < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td rounds of %d devices, %g s from one to the next, %td tokens: "
                          "not a ring", k, n, hop_s, n_tokens);
    for (i = 0; i < n; i++) {
        if (d[i].window < 1 || !(d[i].layer_s >= 0 && d[i].layer_s < 1e9) ||
            !(d[i].missing >= 0 && d[i].missing < 1e18) || !(d[i].disk >= 0) || (d[i].missing > 0 && d[i].disk <= 0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "device %d: %td layers of %g s, %g bytes to read at %g bytes a "
                              "second: not a device", i, d[i].window, d[i].layer_s, d[i].missing, d[i].disk);
        loaded[i] = 0.0;
    }
    for (t = 0; t < n_tokens; t++) {
        for (c = 0; c < k; c++)
            for (i = 0; i < n; i++) {
                const double start = now > loaded[i] ? now : loaded[i];
                const double finish = start + (double)d[i].window * d[i].layer_s;
                loaded[i] = finish + (d[i].missing > 0 ? d[i].missing / d[i].disk : 0.0);
                now = finish + (n > 1 ? hop_s : 0.0);
            }
        seconds[t] = now += output_s;
    }
    return TINY_OK;
}
