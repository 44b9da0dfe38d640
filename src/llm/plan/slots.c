/* src/llm/plan/slots.c - shares of a layer, and the window of blocks that are read while the model computes
 * Paper    Z. Li et al., "TPI-LLM: Serving 70B-scale LLMs Efficiently on Low-resource Edge Devices", 2024 (arXiv
 *          2410.00531): partition of heads and networks by ratios, sliding window, steady conditions, retention.
 * Formula  of a share p: kv = floor(n_kv p), the rest one each from the last rank backwards; query heads with their key
 *          head; neurons floor(n_ff p) down to a multiple of `align`, the rest likewise in units of it.
 *          numbers: attention 2 (1 + n_kv / n_head) h^2 p + h, network 3 h s p + h, input h v, output h v + h
 *          window w: load_end_i = max(load_end_(i-1), release_(i-w)) + load_i; start_i = max(now, load_end_i);
 *          release_i = start_i + compute_i; now = release_i + sum
 *          peak: the largest sum of w blocks that follow each other
 *          conditions, for all l = 1 .. L, with a, f computing, r the sum, A, F loading:
 *          tight   a + r >= F and f + r >= A          loose   a + f + 2 r >= A + F
 *          A       l a + (l - 1) f + (2 l - 1) r >= l F + (l - 1) A
 *          B       (l - 1) a + l f + (2 l - 1) r >= (l - 1) F + l A
 *          keep T  l a + l f + 2 l r >= (l - ceil(l / T)) F + l A and
 *                  l a + (l - 1) f + (2 l - 1) r >= (l - ceil(l / T)) F + (l - 1) A
 *          In the second one the attention of layer 1 is loaded before the start, as in A.
 * Cost     O(blocks) a pass, O(L log L) for the largest T. */
#include "llm/plan/slots.h"
#include "core/hops_inside.h"
#include "core/mem.h"
#include "core/net.h"
#include "core/state_inside.h"

#define TINYI_SLOTS_MOST 1048576            /* layers, ranks' units and slots that are counted one by one */

/* ---- shares ------------------------------------------------------------------------------------------------------ */

TINY_API tiny_status tllm_tp_split(tiny_ctx *ctx, const tllm_tp_shape *s, int world, const double *ratio,
                                   tiny_idx align, tllm_tp_part *part)
{
    const size_t step = sizeof *part / sizeof part->n_kv;       /* of a list of structs of this one type */
    tiny_idx group;
    double sum = 0.0;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s || !ratio || !part) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_tp_split: a pointer is NULL");
    if (world < 1 || world > TINYI_SLOTS_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a model cannot be split over %d ranks", world);
    if (s->n_kv < 1 || s->n_head < 1 || s->n_ff < 1 || s->n_head % s->n_kv)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%td heads, %td key heads, %td neurons: all at least 1, and the heads a "
                          "multiple of the key heads", s->n_head, s->n_kv, s->n_ff);
    if (align < 1 || s->n_ff % align)
        return tinyi_fail(ctx, TINY_E_SHAPE, "a network of %td neurons cannot be split in units of %td", s->n_ff,
                          align);
    for (i = 0; i < world; i++) {
        if (!(ratio[i] > 0.0 && ratio[i] <= 1.0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "the share of rank %d is %g: it must be above 0 and at most 1", i,
                              ratio[i]);
        sum += ratio[i];
    }
    if (!(sum > 1.0 - 1e-6 && sum < 1.0 + 1e-6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the shares of %d ranks sum up to %.9g, not to 1", world, sum);
    group = s->n_head / s->n_kv;
    tinyi_hop_shares(s->n_kv, world, ratio, 1.0, &part->n_kv, step);
    tinyi_hop_shares(s->n_ff / align, world, ratio, 1.0, &part->n_ff, step);
    for (i = 0; i < world; i++) {
        if (!part[i].n_kv)
            return tinyi_fail(ctx, TINY_E_SHAPE,
                              "rank %d with a share of %g gets none of the %td key heads: take fewer ranks", i,
                              ratio[i], s->n_kv);
        if (!part[i].n_ff)
            return tinyi_fail(ctx, TINY_E_SHAPE, "rank %d with a share of %g gets no neurons: take fewer ranks", i,
                              ratio[i]);
        part[i].n_ff *= align;
        part[i].n_head = part[i].n_kv * group;
        part[i].kv0 = i ? part[i - 1].kv0 + part[i - 1].n_kv : 0;
        part[i].head0 = i ? part[i - 1].head0 + part[i - 1].n_head : 0;
        part[i].ff0 = i ? part[i - 1].ff0 + part[i - 1].n_ff : 0;
    }
    return TINY_OK;
}

TINY_API tllm_tp_numbers tllm_tp_sizes(const tllm_tp_shape *s, const tllm_tp_part *part)
{
    tllm_tp_numbers n = { 0.0, 0.0, 0.0, 0.0 };
    double h, d;
    if (!s || !part || s->n_head < 1) return n;
    h = (double)s->n_embd;
    d = h / (double)s->n_head;
    n.attn = 2.0 * h * d * (double)(part->n_head + part->n_kv) + h;
    n.ffn = 3.0 * h * (double)part->n_ff + h;
    n.input = h * (double)s->n_vocab;
    n.output = n.input + h;
    return n;
}

TINY_API int tllm_ring_owner(const tiny_idx *layers, int world, tiny_idx i)
{
    tiny_idx sum = 0;
    int r;
    if (!layers || world < 1 || i < 0) return -1;
    for (r = 0; r < world; r++) {
        if (layers[r] < 0) return -1;
        sum += layers[r];
    }
    if (sum < 1) return -1;
    i %= sum;
    for (r = 0; i >= layers[r]; r++) i -= layers[r];
    return r;
}

TINYI_FN tiny_status tinyi_ring_check(tiny_ctx *ctx, const char *path, tiny_idx n_layer, const tiny_idx *layers,
                                      int rank, int world)
{
    tiny_idx sum = 0;
    int r;
    if (world < 1 || world > TINY_NET_RANKS || rank < 0 || rank >= world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: rank %d of %d: ranks count from 0, and there are at most %d", path,
                          rank, world, TINY_NET_RANKS);
    for (r = 0; r < world; r++) {
        if (layers[r] < 1 || layers[r] > n_layer)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: rank %d has %td of %td layers in a round: at least 1", path, r,
                              layers[r], n_layer);
        sum += layers[r];
    }
    if (n_layer % sum)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %td layers are not whole rounds of %td layers", path, n_layer, sum);
    return TINY_OK;
}

/* ---- a window ---------------------------------------------------------------------------------------------------- */

TINY_API uint64_t tllm_slots_peak(const uint64_t *bytes, tiny_idx n, tiny_idx window)
{
    uint64_t sum = 0, most;
    tiny_idx i;
    if (!bytes || n < 1 || window < 1) return 0;
    if (window > n) window = n;
    for (i = 0; i < window; i++) sum += bytes[i];
    most = sum;
    for (i = 0; i + 1 < n; i++) {           /* the window from block i + 1 on */
        sum += bytes[(i + window) % n] - bytes[i];
        if (sum > most) most = sum;
    }
    return most;
}

static tiny_status tinyi_slots_check(tiny_ctx *ctx, const tllm_slots_times *t)
{
    if (t->n_layer < 1 || t->n_layer > TINYI_SLOTS_MOST || t->window < 1 || t->window > TINYI_SLOTS_MOST ||
        t->keep < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%td layers, a window of %td, every network of %td layers kept: the limits are 1 and %d, and "
                          "keep is not negative", t->n_layer, t->window, t->keep, TINYI_SLOTS_MOST);
    if (!(t->attn >= 0 && t->attn < 1e30 && t->ffn >= 0 && t->ffn < 1e30 && t->sum >= 0 && t->sum < 1e30 &&
          t->load_attn >= 0 && t->load_attn < 1e30 && t->load_ffn >= 0 && t->load_ffn < 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a time of a block is negative or not finite");
    return TINY_OK;
}

TINY_API tiny_status tllm_slots_run(tiny_ctx *ctx, const tllm_slots_times *t, int passes, tllm_slots_answer *a)
{
    double now = 0.0, loaded = 0.0, *release;
    tiny_idx i, n_read = 0, block = 0;      /* blocks that went through slots; of all passes */
    int pass;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!t || !a || passes < 1 || passes > TINYI_SLOTS_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_slots_run: a pointer is NULL, or there are no passes");
    a->seconds = a->stall = a->first_stall = a->second_stall = 0.0;
    a->n_stalls = 0;
    st = tinyi_slots_check(ctx, t);
    if (st) return st;
    release = (double *)tinyi_alloc(ctx, (size_t)t->window, sizeof *release);
    if (!release) return tiny_ctx_status(ctx);
    for (pass = 0; pass < passes; pass++)
        for (i = 0; i < 2 * t->n_layer; i++, block++) {
            const int ffn = (int)(i % 2), kept = ffn && t->keep && i / 2 % t->keep == 0;
            double start = now;
            if (!kept) {
                if (n_read >= t->window && release[n_read % t->window] > loaded) loaded = release[n_read % t->window];
                loaded += ffn ? t->load_ffn : t->load_attn;
                if (loaded > start) start = loaded;
            }
            if (start > now) {
                a->stall += start - now;
                a->n_stalls++;
                if (block == 0) a->first_stall = start - now;
                if (block == 1) a->second_stall = start - now;
            }
            now = start + (ffn ? t->ffn : t->attn);
            if (!kept) release[n_read++ % t->window] = now;
            now += t->sum;
        }
    tiny_free(ctx, release);
    a->seconds = now;
    return TINY_OK;
}

TINY_API unsigned tllm_slots_steady(const tllm_slots_times *t)
{
    unsigned holds = 0, a = TLLM_STEADY_A, b = TLLM_STEADY_B;
    int last;
    if (!t) return 0;
    if (t->attn + t->sum >= t->load_ffn && t->ffn + t->sum >= t->load_attn) holds |= TLLM_STEADY_TIGHT;
    if (t->attn + t->ffn + 2 * t->sum >= t->load_attn + t->load_ffn) holds |= TLLM_STEADY_LOOSE;
    for (last = 0; last < 2 && t->n_layer > 0; last++) {            /* both sides are linear in l: the ends decide */
        const double n = last ? (double)t->n_layer : 1.0, m = n - 1, sums = (2 * n - 1) * t->sum;
        if (!(n * t->attn + m * t->ffn + sums >= n * t->load_ffn + m * t->load_attn)) a = 0;
        if (!(m * t->attn + n * t->ffn + sums >= m * t->load_ffn + n * t->load_attn)) b = 0;
    }
    return holds | a | b;
}

/* no wait in any layer with every T-th network in memory */
static int tinyi_slots_keeps(const tllm_slots_times *t, tiny_idx T)
{
    tiny_idx l;
    for (l = 1; l <= t->n_layer; l++) {
        const double n = (double)l, m = (double)(l - 1);
        const double load = (double)(l - (l + T - 1) / T) * t->load_ffn + m * t->load_attn;
        if (!(n * (t->attn + t->ffn) + 2 * n * t->sum >= load + t->load_attn &&
              n * t->attn + m * t->ffn + (2 * n - 1) * t->sum >= load))
            return 0;
    }
    return 1;
}

TINY_API tiny_idx tllm_slots_keep(const tllm_slots_times *t)
{
    tiny_idx least = 1, most;
    if (!t || t->n_layer < 1 || t->n_layer > TINYI_SLOTS_MOST) return -1;
    if (tllm_slots_steady(t) & TLLM_STEADY_LOOSE) return 0;
    if (!tinyi_slots_keeps(t, 1)) return -1;
    for (most = t->n_layer; least < most;) {            /* a larger T loads more: halving finds the last that holds */
        const tiny_idx T = most - (most - least) / 2;
        if (tinyi_slots_keeps(t, T)) least = T;
        else most = T - 1;
    }
    return least;
}
