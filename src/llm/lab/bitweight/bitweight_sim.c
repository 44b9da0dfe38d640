/* src/llm/lab/bitweight/bitweight_sim.c - int8 products by digits and carry-save adders in the nest of a design, and
 * their cycles
 * Paper    as src/llm/lab/bitweight/bitweight.c
 * Formula  map selects -2B .. 2B; compress(x, y, z): s = x ^ y ^ z, c = maj(x, y, z) << 1, all modulo 2^width; C = S +
 *          C at add. A loop in time takes the sum of its iterations, a parallel loop the longest; an iteration with all
 *          digits at once is one cycle.
 * Reference runs the nest loop by loop, each primitive in its place.
 * Fast     one row of A and the PEs of a tile of n at a time, 16 lanes of plain C that compilers vectorise; threads
 *          take tiles. Only digits that the design skips are skipped, nothing is multiplied, and cycles are those of
 *          the steps that ran.
 * Cost     a digit of a product: about 12 operations of 32 bits in each lane. Memory: a tile of B as 32-bit words, and
 *          a byte for each step of a tile of A.
 * Counts   half_reduce of all four products with (S, C) is four 3:2 compressions; with S alone, if the sum is completed
 *          at every k, three; of one product one; of the four sums of OPT2 two, or three with an earlier sum. */
#include "llm/lab/bitweight/bitweight_inside.h"
#include "core/thread.h"
#include "math/table_inside.h"
#include <string.h>

/* what a digit's wires do to B, as masks of words */
typedef struct tinyi_bw_pick { uint32_t on, twice, minus; } tinyi_bw_pick;
/* place in stats.maps of a digit with these wires */
static const unsigned char tinyi_bw_map_of[8] = { 2, 2, 2, 2, 0, 3, 4, 1 };

TINYI_INLINE tinyi_bw_pick tinyi_bw_pick_of(unsigned wires)
{
    tinyi_bw_pick p;
    p.on = wires & 4u ? 0xffffffffu : 0u;
    p.twice = wires & 1u ? 0u : 0xffffffffu;
    p.minus = wires == 4u || wires == 7u ? 0xffffffffu : 0u;
    return p;
}
TINYI_FORCE_INLINE uint32_t tinyi_bw_map(int32_t b, tinyi_bw_pick p)
{
    const uint32_t x = (uint32_t)b + ((uint32_t)b & p.twice);
    return ((x ^ p.minus) - p.minus) & p.on;
}
/* (s, c) of x + y + z; under audit 1 where the sum became another */
TINYI_FORCE_INLINE uint32_t tinyi_bw_csa(uint32_t x, uint32_t y, uint32_t z, uint32_t mask, uint32_t *s, uint32_t *c,
                                         int audit)
{
    const uint32_t sum = x ^ y ^ z, carry = ((x & y) | (z & (x | y))) << 1 & mask;
    *s = sum;
    *c = carry;
    return audit ? ((x + y + z) ^ (sum + carry)) & mask ? 1u : 0u : 0u;
}

typedef struct tinyi_bw_run {
    const tllm_bw_design *d;
    tinyi_bw_plan p;
    tinyi_bw_table table;
    const int8_t *a, *b;
    int32_t *c;
    tiny_idx a_m, a_k, b_k, b_n, c_m, c_n;
    int fused;                              /* add at every k: the register holds S alone */
    int encode_each, encode_tile;           /* the encoder works anew for each PE of a row; for each tile of n */
    tllm_bw_stats *stats;                   /* one for each thread */
    uint64_t *busy;
} tinyi_bw_run;

static int32_t tinyi_bw_signed(uint32_t v, int width)
{
    const uint32_t sign = (uint32_t)1 << (width - 1);
    return (int32_t)((v ^ sign) - sign);
}

/* ---- reference: the nest, loop by loop */

typedef struct tinyi_bw_walk {
    const tinyi_bw_run *r;
    tiny_idx index[3];                      /* where the loops around have come to */
    int bw;
    uint32_t product[TLLM_BW_DIGITS];
    uint16_t *code;                         /* (m, k): what encode left */
    uint32_t *s, *c;                        /* (m, n, 4): pairs, those of one weight or only the first */
    uint32_t *sum, *shifted;                /* OPT2: (m, n), (m, n, 4) */
    tllm_bw_stats *st;
    uint64_t busy;
} tinyi_bw_walk;

TINY_REF_BEGIN
static void tinyi_bw_walk_csa(tinyi_bw_walk *w, uint32_t x, uint32_t y, uint32_t z, int width, uint32_t *s, uint32_t *c)
{
    uint32_t in[3], out[2];
    in[0] = x;
    in[1] = y;
    in[2] = z;
    tllm_bw_compress(in, width, out);
    *s = out[0];
    *c = out[1];
    w->st->compressions++;
    w->st->compressed_bits += (uint64_t)width;
    if (((x + y + z) ^ (out[0] + out[1])) & (width < 32 ? ((uint32_t)1 << width) - 1 : 0xffffffffu)) w->st->broken++;
}

/* one past the last index of dim that loops further inside come to */
static tiny_idx tinyi_bw_walk_end(const tinyi_bw_walk *w, int dim, int depth)
{
    const tllm_bw_design *d = w->r->d;
    tiny_idx wide = 1;
    int i;
    for (i = depth; i < d->n_loops; i++) if (d->loop[i].dim == dim) wide *= w->r->p.trips[i];
    return TINYI_MIN(w->index[dim] + wide, w->r->p.size[dim]);
}

static void tinyi_bw_walk_encode(tinyi_bw_walk *w, int depth)
{
    const tiny_idx m1 = tinyi_bw_walk_end(w, TLLM_BW_M, depth), k1 = tinyi_bw_walk_end(w, TLLM_BW_K, depth);
    const tinyi_bw_run *r = w->r;
    tiny_idx m, k;
    int i;
    for (m = w->index[TLLM_BW_M]; m < m1; m++)
        for (k = w->index[TLLM_BW_K]; k < k1; k++) {
            int8_t digit[TLLM_BW_DIGITS];
            unsigned code = 0;
            tllm_bw_encode(r->d->encoder, r->a[m * r->a_m + k * r->a_k], digit);
            for (i = 0; i < TLLM_BW_DIGITS; i++) code |= (unsigned)tllm_bw_select(digit[i]) << 3 * i;
            w->code[m * r->p.size[TLLM_BW_K] + k] = (uint16_t)code;
            w->st->encodes++;
        }
}

static void tinyi_bw_walk_map(tinyi_bw_walk *w)
{
    const tinyi_bw_run *r = w->r;
    const tiny_idx m = w->index[TLLM_BW_M], n = w->index[TLLM_BW_N], k = w->index[TLLM_BW_K],
                   mn = m * r->p.size[TLLM_BW_N] + n;
    const unsigned wires = (unsigned)w->code[m * r->p.size[TLLM_BW_K] + k] >> 3 * w->bw & 7u;
    const int32_t b = r->b[k * r->b_k + n * r->b_n];
    const int32_t x = wires == 4u ? -2 * b : wires == 5u ? b : wires == 6u ? 2 * b : wires == 7u ? -b : 0;
    uint32_t *s = &w->s[4 * mn], *c = &w->c[4 * mn];
    w->st->maps[tinyi_bw_map_of[wires]]++;
    w->busy += !r->p.bw_parallel || w->bw == 0;
    if (r->p.late) {
        tinyi_bw_walk_csa(w, (uint32_t)x & r->p.narrow_mask, s[w->bw], c[w->bw], r->p.narrow, &s[w->bw], &c[w->bw]);
        return;
    }
    w->product[w->bw] = (uint32_t)x << 2 * w->bw & r->p.mask;
    w->st->shifts++;
    if (!r->p.bw_parallel) tinyi_bw_walk_csa(w, w->product[w->bw], s[0], c[0], r->p.width, &s[0], &c[0]);
}

/* four products and S, or S and C */
static void tinyi_bw_walk_reduce(tinyi_bw_walk *w)
{
    const tinyi_bw_run *r = w->r;
    const tiny_idx mn = w->index[TLLM_BW_M] * r->p.size[TLLM_BW_N] + w->index[TLLM_BW_N];
    uint32_t *s = &w->s[4 * mn], *c = &w->c[4 * mn], s1, c1, s2, c2, s3, c3;
    tinyi_bw_walk_csa(w, w->product[0], w->product[1], w->product[2], r->p.width, &s1, &c1);
    if (r->fused) {
        tinyi_bw_walk_csa(w, w->product[3], *s, s1, r->p.width, &s2, &c2);
        tinyi_bw_walk_csa(w, c1, s2, c2, r->p.width, s, c);
    } else {
        tinyi_bw_walk_csa(w, w->product[3], *s, *c, r->p.width, &s2, &c2);
        tinyi_bw_walk_csa(w, s1, c1, s2, r->p.width, &s3, &c3);
        tinyi_bw_walk_csa(w, s3, c3, c2, r->p.width, s, c);
    }
}

static void tinyi_bw_walk_shift(tinyi_bw_walk *w, tiny_idx mn)
{
    const tinyi_bw_run *r = w->r;
    const tiny_idx at = 4 * mn + w->bw;
    w->shifted[at] =
        (uint32_t)tinyi_bw_signed((w->s[at] + w->c[at]) & r->p.narrow_mask, r->p.narrow) << 2 * w->bw & r->p.mask;
    w->s[at] = w->c[at] = 0;
    w->st->shifts++;
    w->st->narrow_adds++;
}

static void tinyi_bw_walk_add(tinyi_bw_walk *w, tiny_idx mn)
{
    const tinyi_bw_run *r = w->r;
    if (r->p.late) {
        const uint32_t *x = &w->shifted[4 * mn];
        uint32_t s, c;
        tinyi_bw_walk_csa(w, x[0], x[1], x[2], r->p.width, &s, &c);
        tinyi_bw_walk_csa(w, x[3], s, c, r->p.width, &s, &c);
        if (r->p.carried) tinyi_bw_walk_csa(w, w->sum[mn], s, c, r->p.width, &s, &c);
        w->sum[mn] = (s + c) & r->p.mask;
    } else {
        w->s[4 * mn] = (w->s[4 * mn] + w->c[4 * mn]) & r->p.mask;
        w->c[4 * mn] = 0;
    }
    w->st->adds++;
}

/* shift after the sum, or add, of all outputs that are further inside */
static void tinyi_bw_walk_outputs(tinyi_bw_walk *w, int depth, void (*what)(tinyi_bw_walk *, tiny_idx))
{
    const tiny_idx m1 = tinyi_bw_walk_end(w, TLLM_BW_M, depth), n1 = tinyi_bw_walk_end(w, TLLM_BW_N, depth);
    tiny_idx m, n;
    for (m = w->index[TLLM_BW_M]; m < m1; m++)
        for (n = w->index[TLLM_BW_N]; n < n1; n++) what(w, m * w->r->p.size[TLLM_BW_N] + n);
}

static uint64_t tinyi_bw_walk_nest(tinyi_bw_walk *w, int depth)
{
    const tinyi_bw_run *r = w->r;
    const tllm_bw_design *d = r->d;
    const int *at = d->place;
    uint64_t time = 1;
    if (at[TLLM_BW_ENCODE] == depth) tinyi_bw_walk_encode(w, depth);
    if (depth == d->n_loops) tinyi_bw_walk_map(w);
    else {
        const tllm_bw_loop *l = &d->loop[depth];
        tiny_idx i;
        time = 0;
        for (i = 0; i < r->p.trips[depth]; i++) {
            uint64_t turn = 0;
            if (l->dim == TLLM_BW_BW) {
                w->bw = (int)i;
                if (!l->sparse ||
                    (unsigned)w->code[w->index[TLLM_BW_M] * r->p.size[TLLM_BW_K] + w->index[TLLM_BW_K]] >> 3 * i & 4u)
                    turn = tinyi_bw_walk_nest(w, depth + 1);
            } else {
                w->index[l->dim] += i * r->p.stride[depth];
                if (w->index[l->dim] < r->p.size[l->dim]) turn = tinyi_bw_walk_nest(w, depth + 1);
                w->index[l->dim] -= i * r->p.stride[depth];
            }
            time = !l->parallel ? time + turn : turn > time ? turn : time;
        }
        if (l->sparse && d->zero_slot && !time) time = 1;
    }
    if (at[TLLM_BW_HALF_REDUCE] == depth && depth == r->p.bw && r->p.bw_parallel) tinyi_bw_walk_reduce(w);
    if (r->p.late && at[TLLM_BW_SHIFT] == depth) tinyi_bw_walk_outputs(w, depth, tinyi_bw_walk_shift);
    if (at[TLLM_BW_ADD] == depth) tinyi_bw_walk_outputs(w, depth, tinyi_bw_walk_add);
    return time;
}
TINY_REF_END

static tiny_status tinyi_bw_reference(tiny_ctx *ctx, const tinyi_bw_run *r)
{
    const tiny_idx m = r->p.size[TLLM_BW_M], n = r->p.size[TLLM_BW_N], k = r->p.size[TLLM_BW_K];
    tinyi_bw_walk w;
    size_t mn, mk, words;
    tiny_idx i, j;
    memset(&w, 0, sizeof w);
    if (!tinyi_size_mul((size_t)m, (size_t)n, &mn) || !tinyi_size_mul(mn, 13, &words) ||
        !tinyi_size_mul((size_t)m, (size_t)k, &mk))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "bit weights: %td x %td outputs are more than this machine can address",
                          m, n);
    w.r = r;
    w.st = r->stats;
    w.s = (uint32_t *)tinyi_alloc(ctx, words, sizeof *w.s);
    w.code = w.s ? (uint16_t *)tinyi_alloc(ctx, mk, sizeof *w.code) : NULL;
    if (!w.code) {
        tiny_free(ctx, w.s);
        return tiny_ctx_status(ctx);
    }
    memset(w.s, 0, words * sizeof *w.s);
    memset(w.code, 0, mk * sizeof *w.code);
    w.c = w.s + 4 * mn;
    w.shifted = w.c + 4 * mn;
    w.sum = w.shifted + 4 * mn;
    w.st->cycles = tinyi_bw_walk_nest(&w, 0);
    *r->busy = w.busy;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            r->c[i * r->c_m + j * r->c_n] =
                tinyi_bw_signed(r->p.late ? w.sum[i * n + j] : w.s[4 * (i * n + j)], r->p.width);
    tiny_free(ctx, w.s);
    tiny_free(ctx, w.code);
    return TINY_OK;
}

/* ---- rows of PEs */

#define TINYI_BW_LANES 16                   /* a number that the compiler knows, so that it makes vectors of them */

/* Each takes n lanes, whole sixteens, and gives back how many compressions were broken. */
typedef struct tinyi_bw_row { uint32_t *s, *c; const int32_t *b; tiny_idx n; uint32_t mask; } tinyi_bw_row;

/* all digits of a k with (S, C) */
TINYI_FORCE_INLINE uint32_t tinyi_bw_all(uint32_t *TINYI_RESTRICT s, uint32_t *TINYI_RESTRICT c,
                                         const int32_t *TINYI_RESTRICT b, const tinyi_bw_pick *p, uint32_t mask,
                                         int audit)
{
    const tinyi_bw_pick p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];
    uint32_t bad = 0;
    int j;
    for (j = 0; j < TINYI_BW_LANES; j++) {
        uint32_t s1, c1, s2, c2;
        bad += tinyi_bw_csa(tinyi_bw_map(b[j], p0) & mask, tinyi_bw_map(b[j], p1) << 2 & mask,
                            tinyi_bw_map(b[j], p2) << 4 & mask, mask, &s1, &c1, audit);
        bad += tinyi_bw_csa(tinyi_bw_map(b[j], p3) << 6 & mask, s[j], c[j], mask, &s2, &c2, audit);
        bad += tinyi_bw_csa(s1, c1, s2, mask, &s1, &c1, audit);
        bad += tinyi_bw_csa(s1, c1, c2, mask, &s[j], &c[j], audit);
    }
    return bad;
}
/* all digits of a k with S, and the add */
TINYI_FORCE_INLINE uint32_t tinyi_bw_all_and_add(uint32_t *TINYI_RESTRICT s, uint32_t *TINYI_RESTRICT c,
                                                 const int32_t *TINYI_RESTRICT b, const tinyi_bw_pick *p, uint32_t mask,
                                                 int audit)
{
    const tinyi_bw_pick p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];
    uint32_t bad = 0;
    int j;
    (void)c;
    for (j = 0; j < TINYI_BW_LANES; j++) {
        uint32_t s1, c1, s2, c2;
        bad += tinyi_bw_csa(tinyi_bw_map(b[j], p0) & mask, tinyi_bw_map(b[j], p1) << 2 & mask,
                            tinyi_bw_map(b[j], p2) << 4 & mask, mask, &s1, &c1, audit);
        bad += tinyi_bw_csa(tinyi_bw_map(b[j], p3) << 6 & mask, s[j], s1, mask, &s2, &c2, audit);
        bad += tinyi_bw_csa(c1, s2, c2, mask, &s1, &c1, audit);
        s[j] = (s1 + c1) & mask;
    }
    return bad;
}
/* one digit with a pair; by: the bits that it is shifted */
TINYI_FORCE_INLINE uint32_t tinyi_bw_one(uint32_t *TINYI_RESTRICT s, uint32_t *TINYI_RESTRICT c,
                                         const int32_t *TINYI_RESTRICT b, tinyi_bw_pick p, int by, uint32_t mask,
                                         int audit)
{
    uint32_t bad = 0;
    int j;
    for (j = 0; j < TINYI_BW_LANES; j++)
        bad += tinyi_bw_csa(tinyi_bw_map(b[j], p) << by & mask, s[j], c[j], mask, &s[j], &c[j], audit);
    return bad;
}

enum { TINYI_BW_ALL, TINYI_BW_FUSED, TINYI_BW_ONE };
TINYI_FORCE_INLINE uint32_t tinyi_bw_lanes(int kind, tinyi_bw_row w, const tinyi_bw_pick *p, int by, int audit)
{
    uint32_t bad = 0;
    tiny_idx j;
    for (j = 0; j < w.n; j += TINYI_BW_LANES)
        bad += kind == TINYI_BW_ALL     ? tinyi_bw_all(w.s + j, w.c + j, w.b + j, p, w.mask, audit)
               : kind == TINYI_BW_FUSED ? tinyi_bw_all_and_add(w.s + j, w.c + j, w.b + j, p, w.mask, audit)
                                        : tinyi_bw_one(w.s + j, w.c + j, w.b + j, *p, by, w.mask, audit);
    return bad;
}
static TINYI_NOINLINE uint32_t tinyi_bw_lanes_all(tinyi_bw_row w, const tinyi_bw_pick *p)
{
    return tinyi_bw_lanes(TINYI_BW_ALL, w, p, 0, 0);
}
static TINYI_NOINLINE uint32_t tinyi_bw_lanes_fused(tinyi_bw_row w, const tinyi_bw_pick *p)
{
    return tinyi_bw_lanes(TINYI_BW_FUSED, w, p, 0, 0);
}
static TINYI_NOINLINE uint32_t tinyi_bw_lanes_one(tinyi_bw_row w, const tinyi_bw_pick *p, int by)
{
    return tinyi_bw_lanes(TINYI_BW_ONE, w, p, by, 0);
}
static TINYI_NOINLINE uint32_t tinyi_bw_lanes_audit(int kind, tinyi_bw_row w, const tinyi_bw_pick *p, int by)
{
    return kind == TINYI_BW_ALL     ? tinyi_bw_lanes(TINYI_BW_ALL, w, p, by, 1)
           : kind == TINYI_BW_FUSED ? tinyi_bw_lanes(TINYI_BW_FUSED, w, p, by, 1)
                                    : tinyi_bw_lanes(TINYI_BW_ONE, w, p, by, 1);
}
static void tinyi_bw_reduce(tllm_bw_stats *st, int kind, const tinyi_bw_row *w, const tinyi_bw_pick *p, int by,
                            int audit)
{
    if (audit) st->broken += tinyi_bw_lanes_audit(kind, *w, p, by);
    else if (kind == TINYI_BW_ALL) (void)tinyi_bw_lanes_all(*w, p);
    else if (kind == TINYI_BW_FUSED) (void)tinyi_bw_lanes_fused(*w, p);
    else (void)tinyi_bw_lanes_one(*w, p, by);
}

/* one thread's memory: B of a tile (k, wide) as words, four pairs of rows, sums, steps of a tile (m, k) */
typedef struct tinyi_bw_own { int32_t *b; uint32_t *s, *c, *sum; unsigned char *steps; tiny_idx wide; } tinyi_bw_own;

static tiny_idx tinyi_bw_wide(const tinyi_bw_plan *p)
{
    return (TINYI_MIN(p->lanes[TLLM_BW_N], p->size[TLLM_BW_N]) + TINYI_BW_LANES - 1) / TINYI_BW_LANES * TINYI_BW_LANES;
}

static int tinyi_bw_own_bytes(const tinyi_bw_plan *p, int product, size_t *bytes)
{
    const size_t wide = (size_t)tinyi_bw_wide(p), k = (size_t)p->size[TLLM_BW_K],
                 m = (size_t)TINYI_MIN(p->lanes[TLLM_BW_M], p->size[TLLM_BW_M]);
    size_t words = 0, steps;
    if (!tinyi_size_mul(m, k, &steps)) return 0;
    if (product && (!tinyi_size_mul(k + 9, wide, &words) || !tinyi_size_mul(words, 4, &words))) return 0;
    return tinyi_size_add(words, steps, bytes);
}

/* time of a tile from its steps; order: m lanes 0, k lanes 1, k in time 2, the outermost first */
static uint64_t tinyi_bw_fold(const tinyi_bw_plan *p, const unsigned char *steps, tiny_idx n_m, const int *order,
                              int level, tiny_idx m, tiny_idx k)
{
    const int what = order[level], is_m = what == 0;
    const tiny_idx trips = what == 2 ? p->turns[TLLM_BW_K] : p->lanes[is_m ? TLLM_BW_M : TLLM_BW_K],
                   step = is_m ? 1 : p->stride[what == 1 ? p->par[TLLM_BW_K] : p->time[TLLM_BW_K]];
    const tiny_idx left = is_m ? n_m - m : (p->size[TLLM_BW_K] - k + step - 1) / step, n = TINYI_MIN(trips, left);
    uint64_t time = 0;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const tiny_idx mi = is_m ? m + i : m, ki = is_m ? k : k + i * step;
        const uint64_t turn = level == 2 || order[level + 1] < 0
                                  ? steps[mi * p->size[TLLM_BW_K] + ki]
                                  : tinyi_bw_fold(p, steps, n_m, order, level + 1, mi, ki);
        time = what == 2 ? time + turn : turn > time ? turn : time;
    }
    return time;
}

static void tinyi_bw_order(const tinyi_bw_plan *p, int order[3])
{
    const int at[3] = { p->par[TLLM_BW_M], p->par[TLLM_BW_K], p->time[TLLM_BW_K] };
    int i, j, n = 0;
    for (i = 0; i < 3; i++) {
        if (at[i] < 0) continue;
        for (j = n++; j > 0 && at[order[j - 1]] > at[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (; n < 3; n++) order[n] = -1;
}

/* steps of A[m][k], and the counts of its digits, which every form shares: for n PEs */
TINYI_INLINE unsigned tinyi_bw_steps(const tinyi_bw_run *r, unsigned value, uint64_t n, tllm_bw_stats *st,
                                     uint64_t *busy)
{
    const unsigned code = r->table.code[value], nonzero = r->table.nonzero[value];
    int i;
    for (i = 0; i < TLLM_BW_DIGITS; i++) {
        const unsigned wires = code >> 3 * i & 7u;
        if (wires || !r->p.sparse) st->maps[tinyi_bw_map_of[wires]] += n;
    }
    if (!r->p.sparse) {
        *busy += r->p.bw_parallel ? n : TLLM_BW_DIGITS * n;
        return r->p.bw_parallel ? 1 : TLLM_BW_DIGITS;
    }
    *busy += nonzero * n;
    return nonzero ? nonzero : r->d->zero_slot ? 1u : 0u;
}

/* row m of a tile: n PEs, from column n0 on */
static void tinyi_bw_row_run(const tinyi_bw_run *r, tinyi_bw_own *o, tllm_bw_stats *st, uint64_t *busy, tiny_idx m,
                             tiny_idx n0, tiny_idx n, unsigned char *steps)
{
    const tinyi_bw_plan *p = &r->p;
    const uint64_t pes = (uint64_t)n, width = (uint64_t)p->width;
    const size_t words = (size_t)o->wide;
    tiny_idx k0, k, j;
    int i;
    memset(o->s, 0, 9 * words * sizeof *o->s);              /* s, c, sum */
    for (k0 = 0; k0 < p->size[TLLM_BW_K]; k0 += p->run) {
        const tiny_idx k1 = TINYI_MIN(k0 + p->run, p->size[TLLM_BW_K]);
        for (k = k0; k < k1; k++) {
            const unsigned value = (unsigned char)r->a[m * r->a_m + k * r->a_k], code = r->table.code[value];
            tinyi_bw_pick pick[TLLM_BW_DIGITS];
            tinyi_bw_row w;
            w.s = o->s;
            w.c = o->c;
            w.b = o->b + k * o->wide;
            w.n = o->wide;
            w.mask = p->late ? p->narrow_mask : p->mask;
            steps[k] = (unsigned char)tinyi_bw_steps(r, value, pes, st, busy);
            st->encodes += r->encode_each ? pes : r->encode_tile || n0 == 0;
            for (i = 0; i < TLLM_BW_DIGITS; i++) pick[i] = tinyi_bw_pick_of(code >> 3 * i & 7u);
            if (p->late)
                for (i = 0; i < TLLM_BW_DIGITS; i++, w.s += o->wide, w.c += o->wide) {
                    tinyi_bw_reduce(st, TINYI_BW_ONE, &w, &pick[i], 0, r->d->audit);
                    st->compressions += pes;
                    st->compressed_bits += pes * (uint64_t)p->narrow;
                }
            else if (p->bw_parallel) {
                tinyi_bw_reduce(st, r->fused ? TINYI_BW_FUSED : TINYI_BW_ALL, &w, pick, 0, r->d->audit);
                st->compressions += (r->fused ? 3 : 4) * pes;
                st->compressed_bits += (r->fused ? 3 : 4) * pes * width;
                st->shifts += TLLM_BW_DIGITS * pes;
            } else
                for (i = 0; i < TLLM_BW_DIGITS; i++) {
                    if (p->sparse && !(code >> 3 * i & 4u)) continue;
                    tinyi_bw_reduce(st, TINYI_BW_ONE, &w, &pick[i], 2 * i, r->d->audit);
                    st->compressions += pes;
                    st->compressed_bits += pes * width;
                    st->shifts += pes;
                }
        }
        st->adds += pes;
        if (p->late) {                      /* four narrow sums, shifted, become one */
            for (j = 0; j < n; j++) {
                uint32_t x[TLLM_BW_DIGITS], s, c;
                for (i = 0; i < TLLM_BW_DIGITS; i++)
                    x[i] = (uint32_t)tinyi_bw_signed((o->s[i * o->wide + j] + o->c[i * o->wide + j]) & p->narrow_mask,
                                                     p->narrow)
                               << 2 * i &
                           p->mask;
                st->broken += tinyi_bw_csa(x[0], x[1], x[2], p->mask, &s, &c, r->d->audit);
                st->broken += tinyi_bw_csa(x[3], s, c, p->mask, &s, &c, r->d->audit);
                if (p->carried) st->broken += tinyi_bw_csa(o->sum[j], s, c, p->mask, &s, &c, r->d->audit);
                o->sum[j] = (s + c) & p->mask;
            }
            memset(o->s, 0, 8 * words * sizeof *o->s);
            st->shifts += TLLM_BW_DIGITS * pes;
            st->narrow_adds += TLLM_BW_DIGITS * pes;
            st->compressions += (p->carried ? 3 : 2) * pes;
            st->compressed_bits += (p->carried ? 3 : 2) * pes * width;
        } else if (!r->fused)
            for (j = 0; j < o->wide; j++) {
                o->s[j] = (o->s[j] + o->c[j]) & p->mask;
                o->c[j] = 0;
            }
    }
    for (j = 0; j < n; j++)
        r->c[m * r->c_m + (n0 + j) * r->c_n] = tinyi_bw_signed(p->late ? o->sum[j] : o->s[j], p->width);
}

static void tinyi_bw_team(tiny_team *team, void *arg)
{
    const tinyi_bw_run *r = (const tinyi_bw_run *)arg;
    const tinyi_bw_plan *p = &r->p;
    const tiny_idx m_turns = p->turns[TLLM_BW_M], lanes_m = p->lanes[TLLM_BW_M], lanes_n = p->lanes[TLLM_BW_N],
                   k_all = p->size[TLLM_BW_K];
    tllm_bw_stats *st = &r->stats[team->i];
    tiny_idx tile, end, packed = -1, m, k, j;
    tinyi_bw_own o;
    int order[3];
    tinyi_bw_order(p, order);
    o.wide = tinyi_bw_wide(p);
    o.b = (int32_t *)team->own;
    o.s = (uint32_t *)(o.b + k_all * o.wide);
    o.c = o.s + 4 * o.wide;
    o.sum = o.c + 4 * o.wide;
    o.steps = (unsigned char *)(o.sum + o.wide);
    while (tiny_take(team, m_turns * p->turns[TLLM_BW_N], lanes_m >= 32 ? 1 : 32 / lanes_m, &tile, &end))
        for (; tile < end; tile++) {
            const tiny_idx n0 = tile / m_turns * lanes_n, m0 = tile % m_turns * lanes_m,
                           n = TINYI_MIN(lanes_n, p->size[TLLM_BW_N] - n0),
                           n_m = TINYI_MIN(lanes_m, p->size[TLLM_BW_M] - m0);
            if (packed != n0) {
                memset(o.b, 0, (size_t)(k_all * o.wide) * sizeof *o.b);
                for (k = 0; k < k_all; k++)
                    for (j = 0; j < n; j++) o.b[k * o.wide + j] = r->b[k * r->b_k + (n0 + j) * r->b_n];
                packed = n0;
            }
            for (m = 0; m < n_m; m++)
                tinyi_bw_row_run(r, &o, st, &r->busy[team->i], m0 + m, n0, n, o.steps + m * k_all);
            st->cycles += tinyi_bw_fold(p, o.steps, n_m, order, 0, 0, 0);
        }
}

static void tinyi_bw_cycles_team(tiny_team *team, void *arg)
{
    const tinyi_bw_run *r = (const tinyi_bw_run *)arg;
    const tinyi_bw_plan *p = &r->p;
    const tiny_idx lanes = p->lanes[TLLM_BW_M], k_all = p->size[TLLM_BW_K];
    const uint64_t n = (uint64_t)p->size[TLLM_BW_N];
    unsigned char *steps = (unsigned char *)team->own;
    tllm_bw_stats *st = &r->stats[team->i];
    tiny_idx tile, end, m, k;
    int order[3];
    tinyi_bw_order(p, order);
    while (tiny_take(team, p->turns[TLLM_BW_M], lanes >= 32 ? 1 : 32 / lanes, &tile, &end)) for (; tile < end; tile++) {
        const tiny_idx m0 = tile * lanes, n_m = TINYI_MIN(lanes, p->size[TLLM_BW_M] - m0);
        for (m = 0; m < n_m; m++)
            for (k = 0; k < k_all; k++)
                steps[m * k_all + k] = (unsigned char)tinyi_bw_steps(
                    r, (unsigned char)r->a[(m0 + m) * r->a_m + k * r->a_k], n, st, &r->busy[team->i]);
        st->cycles += (uint64_t)p->turns[TLLM_BW_N] * tinyi_bw_fold(p, steps, n_m, order, 0, 0, 0);
    }
}

/* what follows from the sizes and from the digits that were counted */
static void tinyi_bw_follow(const tinyi_bw_run *r, tllm_bw_stats *st)
{
    const tinyi_bw_plan *p = &r->p;
    const uint64_t mn = (uint64_t)p->size[TLLM_BW_M] * (uint64_t)p->size[TLLM_BW_N],
                   mk = (uint64_t)p->size[TLLM_BW_M] * (uint64_t)p->size[TLLM_BW_K];
    const uint64_t runs = (uint64_t)((p->size[TLLM_BW_K] - 1) / p->run + 1),
                   mapped = st->maps[0] + st->maps[1] + st->maps[2] + st->maps[3] + st->maps[4];
    const uint64_t early = p->late || !p->bw_parallel ? mapped : mapped / TLLM_BW_DIGITS * (r->fused ? 3 : 4),
                   late = p->late ? mn * runs * (p->carried ? 3 : 2) : 0;
    st->encodes = mk * (r->encode_each   ? (uint64_t)p->size[TLLM_BW_N]
                        : r->encode_tile ? (uint64_t)p->turns[TLLM_BW_N]
                                         : 1);
    st->shifts = p->late ? TLLM_BW_DIGITS * mn * runs : mapped;
    st->adds = mn * runs;
    st->narrow_adds = p->late ? TLLM_BW_DIGITS * mn * runs : 0;
    st->compressions = early + late;
    st->compressed_bits = early * (uint64_t)(p->late ? p->narrow : p->width) + late * (uint64_t)p->width;
}

/* runs one of the teams, or the reference, and adds the threads up */
static tiny_status tinyi_bw_start(tiny_ctx *ctx, tinyi_bw_run *r, int product, tllm_bw_stats *stats)
{
    const int reference = product && ctx->target == TINY_TARGET_REFERENCE, threads = reference ? 1 : ctx->n_threads;
    tllm_bw_stats all;
    uint64_t busy = 0;
    size_t own;
    tiny_status st;
    int i, j;
    tinyi_bw_table_fill(&r->table, r->d->encoder);
    r->fused = tinyi_bw_fused(r->d);
    r->encode_tile = r->d->place[TLLM_BW_ENCODE] > r->p.time[TLLM_BW_N];
    r->encode_each = r->p.par[TLLM_BW_N] >= 0 && r->d->place[TLLM_BW_ENCODE] > r->p.par[TLLM_BW_N];
    if (!tinyi_bw_own_bytes(&r->p, product, &own))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bit weights: a tile of %td x %td x %td is more than this machine can address", r->p.lanes[0],
                          r->p.lanes[1], r->p.size[2]);
    r->stats = (tllm_bw_stats *)tinyi_alloc(ctx, (size_t)threads, sizeof *r->stats + sizeof *r->busy);
    if (!r->stats) return tiny_ctx_status(ctx);
    memset(r->stats, 0, (size_t)threads * (sizeof *r->stats + sizeof *r->busy));
    r->busy = (uint64_t *)(void *)(r->stats + threads);
    st = reference ? tinyi_bw_reference(ctx, r)
                   : tiny_parallel(ctx, threads, 0, own, product ? tinyi_bw_team : tinyi_bw_cycles_team, r);
    memset(&all, 0, sizeof all);
    for (i = 0; i < threads; i++) {
        const tllm_bw_stats *t = &r->stats[i];
        all.cycles += t->cycles;
        all.encodes += t->encodes;
        all.shifts += t->shifts;
        for (j = 0; j < 5; j++) all.maps[j] += t->maps[j];
        all.compressions += t->compressions;
        all.compressed_bits += t->compressed_bits;
        all.adds += t->adds;
        all.narrow_adds += t->narrow_adds;
        all.broken += t->broken;
        busy += r->busy[i];
    }
    tiny_free(ctx, r->stats);
    if (st || !stats) return st;
    if (!product) tinyi_bw_follow(r, &all);
    all.cycles += (uint64_t)r->d->pipeline * r->p.fills;
    all.lanes = (uint64_t)r->p.lanes[0] * (uint64_t)r->p.lanes[1] * (uint64_t)r->p.lanes[2];
    all.bubbles = all.lanes * all.cycles - busy;
    all.register_bits = r->p.registers;
    *stats = all;
    return TINY_OK;
}

static tiny_status tinyi_bw_tensor(tiny_ctx *ctx, const tiny_tensor *t, const char *name, tiny_dtype dtype,
                                   uintptr_t *first, uintptr_t *end)
{
    char text[96];
    tiny_status st = t ? tinyi_tensor_reach(t, first, end) : TINY_E_ARGUMENT;
    if (!t) return tinyi_fail(ctx, st, "bit weights: there is no %s", name);
    if (st) return tinyi_fail(ctx, st, "bit weights: %s: %s", name, tiny_status_text(st));
    if (t->rank != 2 || t->dtype != dtype)
        return tinyi_fail(ctx, t->rank != 2 ? TINY_E_SHAPE : TINY_E_DTYPE, "bit weights: %s is %s, not a matrix of %s",
                          name, tinyi_shape_text(t, text), tiny_dtype_name(dtype));
    return TINY_OK;
}

TINY_API tiny_status tllm_bw_gemm(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a,
                                  const tiny_tensor *b, const tiny_tensor *c, tllm_bw_stats *stats)
{
    uintptr_t first[3], end[3];
    tinyi_bw_run r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_bw_tensor(ctx, a, "a", TINY_I8, &first[0], &end[0]);
    if (!st) st = tinyi_bw_tensor(ctx, b, "b", TINY_I8, &first[1], &end[1]);
    if (!st) st = tinyi_bw_tensor(ctx, c, "c", TINY_I32, &first[2], &end[2]);
    if (st) return st;
    if (a->dim[1] != b->dim[0] || c->dim[0] != a->dim[0] || c->dim[1] != b->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "bit weights: %td x %td times %td x %td is not %td x %td", a->dim[0],
                          a->dim[1], b->dim[0], b->dim[1], c->dim[0], c->dim[1]);
    if ((first[2] < end[0] && first[0] < end[2]) || (first[2] < end[1] && first[1] < end[2]))
        return tinyi_fail(ctx, TINY_E_ALIAS, "bit weights: c overlaps a or b");
    memset(&r, 0, sizeof r);
    st = tinyi_bw_plan_make(ctx, design, a->dim[0], b->dim[1], a->dim[1], &r.p);
    if (st) return st;
    r.d = design;
    r.a = (const int8_t *)a->data;
    r.b = (const int8_t *)b->data;
    r.c = (int32_t *)c->data;
    r.a_m = a->stride[0];
    r.a_k = a->stride[1];
    r.b_k = b->stride[0];
    r.b_n = b->stride[1];
    r.c_m = c->stride[0];
    r.c_n = c->stride[1];
    return tinyi_bw_start(ctx, &r, 1, stats);
}

TINY_API tiny_status tllm_bw_cycles(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a, tiny_idx n,
                                    tllm_bw_stats *stats)
{
    uintptr_t first, end;
    tinyi_bw_run r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_bw_tensor(ctx, a, "a", TINY_I8, &first, &end);
    if (st) return st;
    memset(&r, 0, sizeof r);
    st = tinyi_bw_plan_make(ctx, design, a->dim[0], n, a->dim[1], &r.p);
    if (st) return st;
    r.d = design;
    r.a = (const int8_t *)a->data;
    r.a_m = a->stride[0];
    r.a_k = a->stride[1];
    return tinyi_bw_start(ctx, &r, 0, stats);
}

