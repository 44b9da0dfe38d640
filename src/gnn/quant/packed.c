/* src/gnn/quant/packed.c - packed rows, their product with bytes, and sums of nibbles
 * Paper    Z. Zhu et al., A2Q (arXiv 2302.00193), section 3.1: X = diag(a) Xint, W = Wint diag(s), so XW is (Xint Wint) scaled by a_i s_j.
 * Method   Product: some thousand rows at a time are unpacked into bytes, which the house's int8 product takes with both scales. Sum: the
 *          numbers of 18 edges are added in bytes, eight in a 64-bit word, then spilled into 32 bits. Plain C, the same on all targets.
 * Cost     product: the packed bytes, once more as bytes in the cache; sum: f / 2 bytes an edge, a quarter of an operation a number.
 * Error    the sums are exact; each number is scaled by two factors, rounded after each.                                           */
#include <string.h>
#include "gnn/quant/packed.h"
#include "gnn/quant/bits.h"
#include "gnn/graph/inside.h"
#include "core/state.h"
#include "core/target.h"
#include "math/matmul.h"

#define TINYI_PACKED_EIGHT 8                /* rows of a block: any number of them is whole bytes */
#define TINYI_PACKED_TILE ((size_t)1 << 19) /* bytes that are unpacked at once */

/* ---- blocks of up to eight rows of one number of bits */

typedef struct tinyi_packed_block { tiny_idx from, n; int bits; size_t at; } tinyi_packed_block;

static tiny_idx tinyi_packed_blocks(const tgnn_packed *p, int bits) { return (p->first[bits + 1] - p->first[bits] + TINYI_PACKED_EIGHT - 1) / TINYI_PACKED_EIGHT; }

static tinyi_packed_block tinyi_packed_find(const tgnn_packed *p, tiny_idx block)
{
    tinyi_packed_block b;
    b.bits = 1;
    for (; b.bits < TGNN_A2Q_BITS && block >= tinyi_packed_blocks(p, b.bits); b.bits++) block -= tinyi_packed_blocks(p, b.bits);
    b.from = p->first[b.bits] + block * TINYI_PACKED_EIGHT;
    b.n = TINYI_MIN(TINYI_PACKED_EIGHT, p->first[b.bits + 1] - b.from);
    b.at = p->at[b.bits] + (size_t)block * (size_t)p->f * (size_t)(b.bits - p->positive);
    return b;
}

static tiny_idx tinyi_packed_all(const tgnn_packed *p)
{
    tiny_idx n = 0;
    int b;
    for (b = 1; b <= TGNN_A2Q_BITS; b++) n += tinyi_packed_blocks(p, b);
    return n;
}

TINY_API void tgnn_packed_free(tiny_ctx *ctx, tgnn_packed *p)
{
    if (!p) return;
    tiny_free(ctx, p->bits);
    tiny_free(ctx, p->step);
    tiny_free(ctx, p->order);
    tiny_free(ctx, p->data);
    memset(p, 0, sizeof *p);
}

/* ---- packing */

typedef struct tinyi_packing { const tgnn_packed *p; const tiny_tensor *x; tiny_idx blocks; } tinyi_packing;

TINY_REF_BEGIN
static void tinyi_packing_row(const tinyi_packing *g, tiny_idx row, uint8_t *code)
{
    const float *x = (const float *)g->x->data + row * g->x->stride[0], step = g->p->step[row];
    const int limit = tgnn_a2q_limit(g->p->bits[row]), lift = g->p->positive ? 0 : limit;
    const tiny_idx stride = g->x->stride[1];
    tiny_idx j;
    for (j = 0; j < g->p->f; j++) {
        const float v = x[j * stride];
        const int q = tinyi_a2q_code(v, step, (float)limit);
        code[j] = (uint8_t)(lift + (v < 0.0f ? -q : q));
    }
}
TINY_REF_END

static void tinyi_packing_run(tiny_team *team, void *arg)
{
    const tinyi_packing *g = (const tinyi_packing *)arg;
    const tiny_idx f = g->p->f;
    uint8_t *code = (uint8_t *)team->own;
    tiny_idx k, k1, i, j;
    while (tiny_take(team, g->blocks, 8, &k, &k1))
        for (; k < k1; k++) {
            const tinyi_packed_block b = tinyi_packed_find(g->p, k);
            for (i = 0; i < b.n; i++) {
                const tiny_idx row = (tiny_idx)g->p->order[b.from + i];
                const float *x = (const float *)g->x->data + row * g->x->stride[0];
                int bad = 0;
                for (j = 0; j < f; j++) bad |= g->p->positive ? !(x[j * g->x->stride[1]] >= 0.0f) : x[j * g->x->stride[1]] != x[j * g->x->stride[1]];
                if (bad) {
                    tiny_team_fail(team, TINY_E_NUMERIC, g->p->positive ? "packed: a feature is NaN or below 0, where none should be below 0" : "packed: a feature is NaN");
                    return;
                }
                tinyi_packing_row(g, row, code + i * f);
            }
            tgnn_bits_pack(g->p->data + b.at, code, (size_t)(b.n * f), b.bits - g->p->positive);
        }
}

/* bits, steps, the order, and where the streams begin */
static tiny_status tinyi_packed_plan(tiny_ctx *ctx, const float *step, const float *bits, tiny_idx m, const int32_t *group, tgnn_packed *p)
{
    tiny_idx i, next[TGNN_A2Q_BITS + 2];
    size_t bytes = 0;
    int b;
    memset(next, 0, sizeof next);
    for (i = 0; i < p->n; i++) {
        const tiny_idx k = group ? (tiny_idx)group[i] : i;
        if (k < 0 || k >= m) return tinyi_fail(ctx, TINY_E_ARGUMENT, "packed: row %td has the group %td, there are %td", i, k, m);
        p->bits[i] = (uint8_t)tgnn_a2q_round(bits[k]);
        p->step[i] = tinyi_a2q_step(step[k]);
        next[p->bits[i] + 1]++;
    }
    for (b = 1; b <= TGNN_A2Q_BITS; b++) {
        const size_t rows = (size_t)next[b + 1];
        size_t numbers, all;
        next[b + 1] += next[b];
        p->first[b] = next[b];
        p->at[b] = bytes;
        if (!tinyi_size_mul(rows, (size_t)p->f, &numbers) || (all = tgnn_bits_bytes(numbers, b - p->positive)) == SIZE_MAX || !tinyi_size_add(bytes, all, &bytes))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "packed: %td rows of %td numbers", p->n, p->f);
        p->n_bits += (uint64_t)numbers * (uint64_t)(b - p->positive);
    }
    p->first[TGNN_A2Q_BITS + 1] = p->n;
    p->at[TGNN_A2Q_BITS + 1] = p->n_bytes = bytes;
    for (i = 0; i < p->n; i++) p->order[next[p->bits[i]]++] = (uint32_t)i;
    return TINY_OK;
}

TINY_API tiny_status tgnn_packed_make(tiny_ctx *ctx, const tiny_tensor *x, const float *step, const float *bits, tiny_idx m, const int32_t *group, int positive, tgnn_packed *out)
{
    tinyi_packing g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!x || !step || !bits || !out || tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "packed: x of two axes of f32, steps, bits and a place for the rows are needed");
    if (x->dim[1] < 1 || x->dim[0] > 0x7fffffff || x->dim[1] > 1 << 24) return tinyi_fail(ctx, TINY_E_SHAPE, "packed: %td rows of %td features; there must be 1 to 2^24, and below 2^31 rows", x->dim[0], x->dim[1]);
    if (!group && m != x->dim[0]) return tinyi_fail(ctx, TINY_E_SHAPE, "packed: %td steps for %td rows", m, x->dim[0]);
    st = tgnn_a2q_check(ctx, "packed", step, bits, m);
    if (st) return st;
    out->n = x->dim[0];
    out->f = x->dim[1];
    out->positive = positive != 0;
    out->bits = (uint8_t *)tinyi_alloc(ctx, (size_t)out->n, 1);
    out->step = out->bits ? (float *)tinyi_alloc(ctx, (size_t)out->n, sizeof(float)) : NULL;
    out->order = out->step ? (uint32_t *)tinyi_alloc(ctx, (size_t)out->n, sizeof *out->order) : NULL;
    st = out->order ? tinyi_packed_plan(ctx, step, bits, m, group, out) : tiny_ctx_status(ctx);
    if (!st) out->data = (unsigned char *)tinyi_alloc(ctx, out->n_bytes, 1);
    if (!st && !out->data) st = tiny_ctx_status(ctx);
    g.p = out;
    g.x = x;
    g.blocks = tinyi_packed_all(out);
    if (!st) st = tiny_parallel_loose(ctx, 0, 0, (size_t)out->f * TINYI_PACKED_EIGHT, tinyi_packing_run, &g);
    if (st) tgnn_packed_free(ctx, out);
    return st;
}

/* ---- unpacking: rows in the order of their bits */

typedef struct tinyi_unpacking { const tgnn_packed *p; tiny_idx k0, k1, from; int8_t *to; const tiny_tensor *y; float *z; tiny_idx n_z; } tinyi_unpacking;

/* the block as signed bytes, b.n rows */
static void tinyi_unpack_block(const tgnn_packed *p, const tinyi_packed_block *b, int8_t *to)
{
    const int lift = p->positive ? 0 : tgnn_a2q_limit(b->bits);
    const tiny_idx n = b->n * p->f;
    tiny_idx i;
    tgnn_bits_unpack((uint8_t *)to, p->data + b->at, (size_t)n, b->bits - p->positive);
    if (!lift) return;
    for (i = 0; i + 16 <= n; i += 16) {     /* of a known length: compilers make vectors of it */
        int k;
        for (k = 0; k < 16; k++) to[i + k] = (int8_t)(uint8_t)((uint8_t)to[i + k] - lift);
    }
    for (; i < n; i++) to[i] = (int8_t)(uint8_t)((uint8_t)to[i] - lift);
}

static void tinyi_unpack_tile(tiny_team *team, void *arg)
{
    const tinyi_unpacking *u = (const tinyi_unpacking *)arg;
    tiny_idx k, k1;
    while (tiny_take(team, u->k1 - u->k0, 8, &k, &k1))
        for (; k < k1; k++) {
            const tinyi_packed_block b = tinyi_packed_find(u->p, u->k0 + k);
            tinyi_unpack_block(u->p, &b, u->to + (b.from - u->from) * u->p->f);
        }
}

TINY_REF_BEGIN
static void tinyi_unpack_floats(tiny_team *team, void *arg)
{
    const tinyi_unpacking *u = (const tinyi_unpacking *)arg;
    const tiny_idx f = u->p->f;
    int8_t *q = (int8_t *)team->own;
    tiny_idx k, k1, i, j;
    while (tiny_take(team, u->k1, 8, &k, &k1))
        for (; k < k1; k++) {
            const tinyi_packed_block b = tinyi_packed_find(u->p, k);
            tinyi_unpack_block(u->p, &b, q);
            for (i = 0; i < b.n; i++) {
                const tiny_idx row = (tiny_idx)u->p->order[b.from + i];
                for (j = 0; j < f; j++) ((float *)u->y->data)[row * f + j] = (float)q[i * f + j] * u->p->step[row];
            }
        }
}
TINY_REF_END

TINY_API tiny_status tgnn_packed_get(tiny_ctx *ctx, const tgnn_packed *p, const tiny_tensor *y)
{
    tinyi_unpacking u;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!p || !y || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) || y->dim[0] != p->n || y->dim[1] != p->f)
        return tinyi_fail(ctx, TINY_E_SHAPE, "packed: y must be %td x %td f32, dense", p ? p->n : 0, p ? p->f : 0);
    memset(&u, 0, sizeof u);
    u.p = p;
    u.k1 = tinyi_packed_all(p);
    u.y = y;
    return tiny_parallel_loose(ctx, 0, 0, (size_t)p->f * TINYI_PACKED_EIGHT, tinyi_unpack_floats, &u);
}

/* ---- product */

static void tinyi_packed_scatter(tiny_team *team, void *arg)
{
    const tinyi_unpacking *u = (const tinyi_unpacking *)arg;
    const tiny_idx n = u->y->dim[1];
    tiny_idx i, i1;
    while (tiny_take(team, u->n_z, 64, &i, &i1))
        for (; i < i1; i++) memcpy((float *)u->y->data + (tiny_idx)u->p->order[u->from + i] * n, u->z + i * n, (size_t)n * sizeof(float));
}

TINY_API tiny_status tgnn_packed_product(tiny_ctx *ctx, const tgnn_packed *p, const tiny_tensor *w, const tiny_tensor *scale, const tiny_tensor *y)
{
    tinyi_unpacking u;
    tiny_tensor a, turned, by_row, z;
    float *step = NULL;
    tiny_idx rows, i, blocks;
    size_t room;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!p || !w || !scale || !y || tiny_tensor_check(w) || w->dtype != TINY_I8 || w->rank != 2 || w->dim[1] != p->f || tiny_tensor_check(scale) || scale->dtype != TINY_F32 || scale->rank != 1 ||
        scale->dim[0] != w->dim[0] || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) || y->dim[0] != p->n || y->dim[1] != w->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE, "packed: of %td x %td features, w must be i8 of rows of %td, scale f32 for each of them, and y f32 of %td rows, dense", p ? p->n : 0, p ? p->f : 0, p ? p->f : 0, p ? p->n : 0);
    if (!p->n || !w->dim[0]) return TINY_OK;
    memset(&u, 0, sizeof u);
    u.p = p;
    u.y = y;
    blocks = tinyi_packed_all(p);
    rows = (tiny_idx)(TINYI_PACKED_TILE / (size_t)(p->f + w->dim[0])) / TINYI_PACKED_EIGHT * TINYI_PACKED_EIGHT;
    rows = TINYI_MIN(TINYI_MAX(rows, 64), blocks * TINYI_PACKED_EIGHT);
    if (!tinyi_size_mul((size_t)rows, (size_t)w->dim[0], &room)) return tinyi_fail(ctx, TINY_E_OVERFLOW, "packed: %td x %td numbers", rows, w->dim[0]);
    u.to = (int8_t *)tinyi_alloc(ctx, (size_t)rows, (size_t)p->f);
    u.z = u.to ? (float *)tinyi_alloc(ctx, room, sizeof(float)) : NULL;
    step = u.z ? (float *)tinyi_alloc(ctx, (size_t)rows, sizeof(float)) : NULL;
    if (!step) st = tiny_ctx_status(ctx);
    turned = tiny_tensor_swap(*w, 0, 1);
    while (!st && u.k0 < blocks) {
        tinyi_packed_block last;
        u.k1 = TINYI_MIN(u.k0 + rows / TINYI_PACKED_EIGHT, blocks);
        last = tinyi_packed_find(p, u.k1 - 1);
        u.from = tinyi_packed_find(p, u.k0).from;
        u.n_z = last.from + last.n - u.from;
        for (i = 0; i < u.n_z; i++) step[i] = p->step[p->order[u.from + i]];
        a = tiny_tensor_2d(u.to, TINY_I8, u.n_z, p->f);
        by_row = tiny_tensor_1d(step, TINY_F32, u.n_z);
        z = tiny_tensor_2d(u.z, TINY_F32, u.n_z, w->dim[0]);
        st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_unpack_tile, &u);
        if (!st) st = tiny_matmul_i8(ctx, &a, &turned, &by_row, scale, NULL, TINY_ACT_NONE, &z);
        if (!st) st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_packed_scatter, &u);
        u.k0 = u.k1;
    }
    tiny_free(ctx, u.to);
    tiny_free(ctx, u.z);
    tiny_free(ctx, step);
    return st;
}

/* ---- nibbles */

#define TINYI_NIBBLES UINT64_C(0x0f0f0f0f0f0f0f0f)
#define TINYI_NIBBLES_ZERO UINT64_C(0x7777777777777777)
#define TINYI_NIBBLES_DEEP 18               /* 18 times 14 is below 256 */
#define TINYI_NIBBLES_WIDE 4                /* words that are summed side by side */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_NIBBLES_AHEAD(p) __builtin_prefetch(p)
#else
#define TINYI_NIBBLES_AHEAD(p) ((void)0)
#endif

TINY_API tiny_status tgnn_nibbles_make(tiny_ctx *ctx, tiny_idx n, tiny_idx f, tgnn_nibbles *t)
{
    size_t words, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!t) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nibbles: there is no place for them");
    memset(t, 0, sizeof *t);
    if (n < 0 || f < 1 || f > 1 << 24) return tinyi_fail(ctx, TINY_E_SHAPE, "nibbles: %td rows of %td; a row has 1 to 2^24", n, f);
    t->n = n;
    t->f = f;
    t->words = (f + 15) / 16;
    if (!tinyi_size_mul((size_t)n, (size_t)t->words, &words)) return tinyi_fail(ctx, TINY_E_OVERFLOW, "nibbles: %td rows of %td", n, f);
    t->word = (uint64_t *)tinyi_alloc(ctx, words, sizeof *t->word);
    if (!t->word) return tiny_ctx_status(ctx);
    for (i = 0; i < words; i++) t->word[i] = TINYI_NIBBLES_ZERO;
    return TINY_OK;
}

TINY_API void tgnn_nibbles_free(tiny_ctx *ctx, tgnn_nibbles *t)
{
    if (!t) return;
    tiny_free(ctx, t->word);
    memset(t, 0, sizeof *t);
}

static int tinyi_nibble_place(int i) { return i < 8 ? 8 * i : 8 * (i - 8) + 4; }      /* of number i of a word */

TINY_API void tgnn_nibbles_put(const tgnn_nibbles *t, tiny_idx row, const int8_t *q)
{
    tiny_idx w;
    int i;
    for (w = 0; w < t->words; w++) {
        uint64_t v = 0;
        for (i = 0; i < 16; i++) v |= (uint64_t)((16 * w + i < t->f ? q[16 * w + i] + 7 : 7) & 15) << tinyi_nibble_place(i);
        t->word[row * t->words + w] = v;
    }
}

TINY_API void tgnn_nibbles_get(const tgnn_nibbles *t, tiny_idx row, int8_t *q)
{
    tiny_idx j;
    for (j = 0; j < t->f; j++) q[j] = (int8_t)((int)(t->word[row * t->words + j / 16] >> tinyi_nibble_place((int)(j % 16)) & 15) - 7);
}

typedef struct tinyi_nibbling { const float *z, *factor, *step; const tgnn_nibbles *t; } tinyi_nibbling;

TINY_REF_BEGIN
static void tinyi_nibbles_row(const tinyi_nibbling *g, tiny_idx row)
{
    const tgnn_nibbles *t = g->t;
    const float *z = g->z + row * t->f, factor = g->factor ? g->factor[row] : 1.0f;
    tiny_idx w;
    for (w = 0; w < t->words; w++) {
        const int n = (int)TINYI_MIN(16, t->f - 16 * w);
        int q[16], i;
        uint64_t low = 0, high = 0;
        for (i = 0; i < n; i++) {
            const float v = z[16 * w + i] * factor;
            const int c = tinyi_a2q_code(v, tinyi_a2q_step(g->step[16 * w + i]), 7.0f);
            q[i] = v < 0.0f ? 7 - c : 7 + c;
        }
        for (; i < 16; i++) q[i] = 7;
        for (i = 8; i-- > 0;) {
            low = low << 8 | (uint64_t)q[i];
            high = high << 8 | (uint64_t)q[i + 8];
        }
        t->word[row * t->words + w] = low | high << 4;
    }
}
TINY_REF_END

static void tinyi_nibbling_run(tiny_team *team, void *arg)
{
    const tinyi_nibbling *g = (const tinyi_nibbling *)arg;
    tiny_idx i, i1, j;
    while (tiny_take(team, g->t->n, 64, &i, &i1))
        for (; i < i1; i++) {
            int bad = 0;
            for (j = 0; j < g->t->f; j++) bad |= g->z[i * g->t->f + j] != g->z[i * g->t->f + j];
            if (bad) tiny_team_fail(team, TINY_E_NUMERIC, "nibbles: a number is NaN");
            else tinyi_nibbles_row(g, i);
        }
}

TINY_API tiny_status tgnn_nibbles_quantize(tiny_ctx *ctx, const tiny_tensor *z, const float *factor, const float *step, const tgnn_nibbles *t)
{
    tinyi_nibbling g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!z || !step || !t || tiny_tensor_check(z) || z->dtype != TINY_F32 || z->rank != 2 || !tiny_tensor_is_dense(z) || z->dim[0] != t->n || z->dim[1] != t->f)
        return tinyi_fail(ctx, TINY_E_SHAPE, "nibbles: z must be %td x %td f32, dense, and have steps", t ? t->n : 0, t ? t->f : 0);
    g.z = (const float *)z->data;
    g.factor = factor;
    g.step = step;
    g.t = t;
    return tiny_parallel_loose(ctx, 0, 0, 0, tinyi_nibbling_run, &g);
}

/* ---- sums */

typedef struct tinyi_nibble_sum { const tiny_sparse *a; const tgnn_nibbles *t; float own; const float *factor, *step, *bias; float *y; } tinyi_nibble_sum;

TINYI_FORCE_INLINE void tinyi_nibbles_spill(int32_t *sum, uint64_t low, uint64_t high)
{
    int i;
    for (i = 0; i < 8; i++) {
        sum[i] += (int32_t)(low >> 8 * i & 255);
        sum[8 + i] += (int32_t)(high >> 8 * i & 255);
    }
}

/* n words, 4 or 1, from word w on, of the edges of a row */
TINYI_FORCE_INLINE void tinyi_nibbles_add(const uint64_t *table, tiny_idx words, const int32_t *col, int64_t edges, int n, int32_t *sum)
{
    int64_t p = 0;
    int k;
    while (p < edges) {
        const int64_t end = TINYI_MIN(edges, p + TINYI_NIBBLES_DEEP);
        uint64_t low[TINYI_NIBBLES_WIDE] = { 0, 0, 0, 0 }, high[TINYI_NIBBLES_WIDE] = { 0, 0, 0, 0 };
        for (; p < end; p++) {
            const uint64_t *v = table + (tiny_idx)col[p] * words;
            for (k = 0; k < n; k++) {
                low[k] += v[k] & TINYI_NIBBLES;
                high[k] += v[k] >> 4 & TINYI_NIBBLES;
            }
        }
        for (k = 0; k < n; k++) tinyi_nibbles_spill(sum + 16 * k, low[k], high[k]);
    }
}

TINY_REF_BEGIN
static void tinyi_nibbles_finish(const tinyi_nibble_sum *s, tiny_idx row, tiny_idx w, int n, int64_t edges, const int32_t *sum)
{
    const tgnn_nibbles *t = s->t;
    const float factor = s->factor ? s->factor[row] : 1.0f;
    tiny_idx j;
    for (j = 16 * w; j < TINYI_MIN(16 * (w + n), t->f); j++) {
        float v = (float)((int64_t)sum[j - 16 * w] - 7 * edges);
        if (s->own != 0.0f) v += s->own * (float)((int)(t->word[row * t->words + j / 16] >> tinyi_nibble_place((int)(j % 16)) & 15) - 7);
        v = v * tinyi_a2q_step(s->step[j]) * factor;
        s->y[row * t->f + j] = s->bias ? v + s->bias[j] : v;
    }
}
TINY_REF_END

static void tinyi_nibble_sum_run(tiny_team *team, void *arg)
{
    const tinyi_nibble_sum *s = (const tinyi_nibble_sum *)arg;
    const tgnn_nibbles *t = s->t;
    int32_t sum[16 * TINYI_NIBBLES_WIDE];
    tiny_idx r, r1, w;
    int64_t p, p0, p1;
    while (tiny_take(team, s->a->n_rows, 64, &r, &r1))
        for (; r < r1; r++) {
            int bad = 0;
            tinyi_row_range(s->a, r, &p0, &p1);
            for (p = p0; p < p1; p++) bad |= s->a->col[p] < 0 || (tiny_idx)s->a->col[p] >= t->n;
            if (bad) {
                tiny_team_fail(team, TINY_E_FORMAT, "nibbles: an edge comes from a row that is not there");
                return;
            }
            if (r + 1 < r1)                 /* what the next row will want */
                for (p = p1; p < TINYI_MIN(p1 + 16, s->a->n); p++)
                    if ((tiny_idx)s->a->col[p] < t->n && s->a->col[p] >= 0) TINYI_NIBBLES_AHEAD(t->word + (tiny_idx)s->a->col[p] * t->words);
            for (w = 0; w < t->words;) {
                const int n = t->words - w >= TINYI_NIBBLES_WIDE ? TINYI_NIBBLES_WIDE : 1;
                memset(sum, 0, sizeof sum);
                if (n == 1) tinyi_nibbles_add(t->word + w, t->words, s->a->col + p0, p1 - p0, 1, sum);
                else tinyi_nibbles_add(t->word + w, t->words, s->a->col + p0, p1 - p0, TINYI_NIBBLES_WIDE, sum);
                tinyi_nibbles_finish(s, r, w, n, p1 - p0, sum);
                w += n;
            }
        }
}

TINY_API tiny_status tgnn_nibbles_sum(tiny_ctx *ctx, const tiny_sparse *a, const tgnn_nibbles *t, float own, const float *factor, const float *step, const float *bias, const tiny_tensor *y)
{
    tinyi_nibble_sum s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!a || !t || !step || !y || a->form != TINY_CSR || a->n_cols > t->n || (own != 0.0f && a->n_rows > t->n) || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) ||
        y->dim[0] != a->n_rows || y->dim[1] != t->f || a->n >= (int64_t)1 << 27)
        return tinyi_fail(ctx, TINY_E_SHAPE, "nibbles: a must be in CSR form with fewer than 2^27 edges, the table have a row for each of its columns, and y be f32 of its rows, dense");
    s.a = a;
    s.t = t;
    s.own = own;
    s.factor = factor;
    s.step = step;
    s.bias = bias;
    s.y = (float *)y->data;
    return tiny_parallel_loose(ctx, 0, 0, 0, tinyi_nibble_sum_run, &s);
}
