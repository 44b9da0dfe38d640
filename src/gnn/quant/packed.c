/* src/gnn/quant/packed.c - packed rows, their product with bytes, and sums of nibbles
 * Paper    Z. Zhu et al., A2Q (arXiv 2302.00193), section 3.1: X = diag(a) Xint, W = Wint diag(s), so XW is (Xint Wint)
 *          scaled by a_i s_j.
 * Method   Product: some thousand rows at a time are unpacked into bytes and go to the int8 product of math/matmul.h
 *          with both scales. Sum: the numbers of 18 edges are added in bytes, then in 32 bits
 *          (gnn/quant/nibble.simd.h).
 * Cost     product: the packed bytes are read once, and written and read as bytes in the cache. sum: f / 2 bytes for
 *          each edge, a quarter of an operation for each number.
 * Error    the sums are exact. Each result is multiplied by two factors and rounded after each. */
#include <string.h>
#include "gnn/quant/packed.h"
#include "gnn/quant/bits.h"
#include "gnn/quant/nibble_inside.h"
#include "gnn/graph/graph_inside.h"
#include "core/state_inside.h"
#include "core/target.h"
#include "math/matmul.h"

#define TINYI_PACKED_EIGHT 8                /* rows of a block: any number of them is whole bytes */
#define TINYI_PACKED_TILE ((size_t)1 << 19) /* bytes that are unpacked at once */

/* ---- blocks of up to eight rows of one number of bits */

typedef struct tinyi_packed_block { tiny_idx from, n; int bits; size_t at; } tinyi_packed_block;

static tiny_idx tinyi_packed_blocks(const tgnn_packed *p, int bits)
{
    return (p->first[bits + 1] - p->first[bits] + TINYI_PACKED_EIGHT - 1) / TINYI_PACKED_EIGHT;
}

static tinyi_packed_block tinyi_packed_find(const tgnn_packed *p, tiny_idx block)
{
    tinyi_packed_block b;
    b.bits = 1;
    for (; b.bits < TGNN_A2Q_BITS && block >= tinyi_packed_blocks(p, b.bits); b.bits++)
        block -= tinyi_packed_blocks(p, b.bits);
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

/* bytes of the codes of a block, to where floats may begin */
static size_t tinyi_packed_dense(tiny_idx f) { return ((size_t)f * TINYI_PACKED_EIGHT + 63) / 64 * 64; }

typedef struct tinyi_packing { const tgnn_packed *p; const tiny_tensor *x; tiny_idx blocks; } tinyi_packing;

static void tinyi_packing_run(tiny_team *team, void *arg)
{
    const tinyi_packing *g = (const tinyi_packing *)arg;
    const tiny_idx f = g->p->f;
    const tinyi_nibble_kernels *kernels = tinyi_nibble_kernels_of(team->k);
    uint8_t *code = (uint8_t *)team->own;
    float *dense = (float *)(void *)(code + tinyi_packed_dense(f));
    tiny_idx k, k1, i, j;
    team->ran_on = kernels->from;
    while (tiny_take(team, g->blocks, 8, &k, &k1))
        for (; k < k1; k++) {
            const tinyi_packed_block b = tinyi_packed_find(g->p, k);
            const int limit = tgnn_a2q_limit(b.bits),
                      refused = g->p->positive ? TINYI_NIBBLE_NAN | TINYI_NIBBLE_BELOW : TINYI_NIBBLE_NAN;
            for (i = 0; i < b.n; i++) {
                const tiny_idx row = (tiny_idx)g->p->order[b.from + i];
                const float *x = (const float *)g->x->data + row * g->x->stride[0];
                if (g->x->stride[1] != 1) {
                    for (j = 0; j < f; j++) dense[j] = x[j * g->x->stride[1]];
                    x = dense;
                }
                if (kernels->codes(code + i * f, x, (size_t)f, g->p->step[row], (float)limit,
                                   g->p->positive ? 0 : limit) &
                    refused) {
                    tiny_team_fail(team, TINY_E_NUMERIC,
                                   g->p->positive ? "packed: a feature is NaN or negative"
                                                  : "packed: a feature is NaN");
                    return;
                }
            }
            tgnn_bits_pack(g->p->data + b.at, code, (size_t)(b.n * f), b.bits - g->p->positive);
        }
}

/* bits, steps, the order, and where the streams begin */
static tiny_status tinyi_packed_plan(tiny_ctx *ctx, const float *step, const float *bits, tiny_idx m,
                                     const int32_t *group, tgnn_packed *p)
{
    tiny_idx i, next[TGNN_A2Q_BITS + 2];
    size_t bytes = 0;
    int b;
    memset(next, 0, sizeof next);
    for (i = 0; i < p->n; i++) {
        const tiny_idx k = group ? (tiny_idx)group[i] : i;
        if (k < 0 || k >= m)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "packed: row %td has the group %td, but there are %td", i, k, m);
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
        if (!tinyi_size_mul(rows, (size_t)p->f, &numbers) ||
            (all = tgnn_bits_bytes(numbers, b - p->positive)) == SIZE_MAX || !tinyi_size_add(bytes, all, &bytes))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "packed: %td rows of %td numbers", p->n, p->f);
        p->n_bits += (uint64_t)numbers * (uint64_t)(b - p->positive);
    }
    p->first[TGNN_A2Q_BITS + 1] = p->n;
    p->at[TGNN_A2Q_BITS + 1] = p->n_bytes = bytes;
    for (i = 0; i < p->n; i++) p->order[next[p->bits[i]]++] = (uint32_t)i;
    return TINY_OK;
}

TINY_API tiny_status tgnn_packed_make(tiny_ctx *ctx, const tiny_tensor *x, const float *step, const float *bits,
                                      tiny_idx m, const int32_t *group, int positive, tgnn_packed *out)
{
    tinyi_packing g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!x || !step || !bits || !out || tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "packed: x (f32, 2 axes), steps, bits and an output are required");
    if (x->dim[1] < 1 || x->dim[0] > 0x7fffffff || x->dim[1] > 1 << 21)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "packed: %td rows of %td features; there must be 1 to 2^21, and below 2^31 rows", x->dim[0],
                          x->dim[1]);
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
    if (!st)
        st = tiny_parallel_loose(ctx, 0, 0, tinyi_packed_dense(out->f) + (size_t)out->f * sizeof(float),
                                 tinyi_packing_run, &g);
    if (st) tgnn_packed_free(ctx, out);
    return st;
}

/* ---- unpacking: rows in the order of their bits */

typedef struct tinyi_unpacking {
    const tgnn_packed *p;
    tiny_idx k0, k1, from;
    int8_t *to;
    const tiny_tensor *y;
    const float *scale;
    int32_t *z;
    tiny_idx n_z;
} tinyi_unpacking;

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
    if (!p || !y || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) ||
        y->dim[0] != p->n || y->dim[1] != p->f)
        return tinyi_fail(ctx, TINY_E_SHAPE, "packed: y must be %td x %td f32, dense", p ? p->n : 0, p ? p->f : 0);
    memset(&u, 0, sizeof u);
    u.p = p;
    u.k1 = tinyi_packed_all(p);
    u.y = y;
    return tiny_parallel_loose(ctx, 0, 0, (size_t)p->f * TINYI_PACKED_EIGHT, tinyi_unpack_floats, &u);
}

/* ---- product */

/* sums of a tile, in the order of their bits, to the rows of y */
static void tinyi_packed_scatter(tiny_team *team, void *arg)
{
    const tinyi_unpacking *u = (const tinyi_unpacking *)arg;
    const tinyi_nibble_kernels *kernels = tinyi_nibble_kernels_of(team->k);
    const tiny_idx n = u->y->dim[1];
    tiny_idx i, i1;
    while (tiny_take(team, u->n_z, 64, &i, &i1))
        for (; i < i1; i++) {
            const tiny_idx row = (tiny_idx)u->p->order[u->from + i];
            kernels->finish((float *)u->y->data + row * n, u->z + i * n, 0, u->scale, NULL, (size_t)n, u->p->step[row]);
        }
}

TINY_API tiny_status tgnn_packed_product(tiny_ctx *ctx, const tgnn_packed *p, const tiny_tensor *w,
                                         const tiny_tensor *scale, const tiny_tensor *y)
{
    tinyi_unpacking u;
    tiny_tensor a, turned, z;
    tiny_idx rows, blocks;
    size_t room;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!p || !w || !scale || !y || tiny_tensor_check(w) || w->dtype != TINY_I8 || w->rank != 2 || w->dim[1] != p->f ||
        tiny_tensor_check(scale) || scale->dtype != TINY_F32 || scale->rank != 1 || !tiny_tensor_is_dense(scale) ||
        scale->dim[0] != w->dim[0] || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 ||
        !tiny_tensor_is_dense(y) || y->dim[0] != p->n || y->dim[1] != w->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "packed: of %td x %td features, w must be i8 of rows of %td, scale f32 for each of them, and "
                          "y f32 of %td rows, dense",
                          p ? p->n : 0, p ? p->f : 0, p ? p->f : 0, p ? p->n : 0);
    if (!p->n || !w->dim[0]) return TINY_OK;
    memset(&u, 0, sizeof u);
    u.p = p;
    u.y = y;
    u.scale = (const float *)scale->data;
    blocks = tinyi_packed_all(p);
    rows = (tiny_idx)(TINYI_PACKED_TILE / (size_t)(p->f + w->dim[0])) / TINYI_PACKED_EIGHT * TINYI_PACKED_EIGHT;
    rows = TINYI_MIN(TINYI_MAX(rows, 64), blocks * TINYI_PACKED_EIGHT);
    if (!tinyi_size_mul((size_t)rows, (size_t)w->dim[0], &room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "packed: %td x %td numbers", rows, w->dim[0]);
    u.to = (int8_t *)tinyi_alloc(ctx, (size_t)rows, (size_t)p->f);
    u.z = u.to ? (int32_t *)tinyi_alloc(ctx, room, sizeof *u.z) : NULL;
    if (!u.z) st = tiny_ctx_status(ctx);
    turned = tiny_tensor_swap(*w, 0, 1);
    while (!st && u.k0 < blocks) {
        tinyi_packed_block last;
        u.k1 = TINYI_MIN(u.k0 + rows / TINYI_PACKED_EIGHT, blocks);
        last = tinyi_packed_find(p, u.k1 - 1);
        u.from = tinyi_packed_find(p, u.k0).from;
        u.n_z = last.from + last.n - u.from;
        a = tiny_tensor_2d(u.to, TINY_I8, u.n_z, p->f);
        z = tiny_tensor_2d(u.z, TINY_I32, u.n_z, w->dim[0]);
        st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_unpack_tile, &u);
        if (!st) st = tiny_matmul_i8(ctx, &a, &turned, NULL, NULL, NULL, TINY_ACT_NONE, &z);
        if (!st) st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_packed_scatter, &u);
        u.k0 = u.k1;
    }
    tiny_free(ctx, u.to);
    tiny_free(ctx, u.z);
    return st;
}

/* ---- nibbles */

#define TINYI_NIBBLES_ZERO 0x77             /* two numbers that are 0 */
#define TINYI_NIBBLES_WIDE 16               /* groups of a row that are summed in one go */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_NIBBLES_AHEAD(p) __builtin_prefetch(p)
#else
#define TINYI_NIBBLES_AHEAD(p) ((void)0)
#endif

TINY_API tiny_status tgnn_nibbles_make(tiny_ctx *ctx, tiny_idx n, tiny_idx f, tgnn_nibbles *t)
{
    size_t bytes;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!t) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nibbles: the output pointer is missing");
    memset(t, 0, sizeof *t);
    if (n < 0 || f < 1 || f > 1 << 24)
        return tinyi_fail(ctx, TINY_E_SHAPE, "nibbles: %td rows of %td; a row has 1 to 2^24", n, f);
    t->n = n;
    t->f = f;
    t->groups = (f + 15) / 16;
    if (!tinyi_size_mul((size_t)n, (size_t)t->groups * 8, &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "nibbles: %td rows of %td", n, f);
    t->data = (unsigned char *)tiny_alloc(ctx, bytes);
    if (!t->data) return tiny_ctx_status(ctx);
    if (bytes) memset(t->data, TINYI_NIBBLES_ZERO, bytes);
    return TINY_OK;
}

TINY_API void tgnn_nibbles_free(tiny_ctx *ctx, tgnn_nibbles *t)
{
    if (!t) return;
    tiny_free(ctx, t->data);
    memset(t, 0, sizeof *t);
}

static unsigned char *tinyi_nibbles_row(const tgnn_nibbles *t, tiny_idx row) { return t->data + row * t->groups * 8; }
static int tinyi_nibbles_one(const unsigned char *row, tiny_idx j)
{
    return (row[j / 16 * 8 + j % 8] >> (j % 16 < 8 ? 0 : 4) & 15) - 7;
}

TINY_API void tgnn_nibbles_put(const tgnn_nibbles *t, tiny_idx row, const int8_t *q)
{
    unsigned char *to;
    tiny_idx j;
    if (!t || !t->data || !q) return;
    to = tinyi_nibbles_row(t, row);
    memset(to, TINYI_NIBBLES_ZERO, (size_t)t->groups * 8);
    for (j = 0; j < t->f; j++) {
        unsigned char *at = to + j / 16 * 8 + j % 8;
        const int c = (q[j] + 7) & 15;
        *at = (unsigned char)(j % 16 < 8 ? (*at & 0xf0) | c : (*at & 0x0f) | c << 4);
    }
}

TINY_API void tgnn_nibbles_get(const tgnn_nibbles *t, tiny_idx row, int8_t *q)
{
    tiny_idx j;
    for (j = 0; t && q && j < t->f; j++) q[j] = (int8_t)tinyi_nibbles_one(tinyi_nibbles_row(t, row), j);
}

typedef struct tinyi_nibbling { const float *z, *factor, *step; const tgnn_nibbles *t; } tinyi_nibbling;

static void tinyi_nibbling_run(tiny_team *team, void *arg)
{
    const tinyi_nibbling *g = (const tinyi_nibbling *)arg;
    const tinyi_nibble_kernels *kernels = tinyi_nibble_kernels_of(team->k);
    const tiny_idx f = g->t->f;
    uint8_t *code = (uint8_t *)team->own;
    tiny_idx i, i1, k;
    memset(code, 7, (size_t)g->t->groups * 16);
    team->ran_on = kernels->from;
    while (tiny_take(team, g->t->n, 64, &i, &i1))
        for (; i < i1; i++) {
            unsigned char *to = tinyi_nibbles_row(g->t, i);
            if (kernels->columns(code, g->z + i * f, g->step, (size_t)f, g->factor ? g->factor[i] : 1.0f))
                tiny_team_fail(team, TINY_E_NUMERIC, "nibbles: a number is NaN");
            for (k = 0; k < g->t->groups; k++) {   /* bytes below 16: no bit goes from one to the next */
                uint64_t low, high;
                memcpy(&low, code + 16 * k, 8);
                memcpy(&high, code + 16 * k + 8, 8);
                low |= high << 4;
                memcpy(to + 8 * k, &low, 8);
            }
        }
}

TINY_API tiny_status tgnn_nibbles_quantize(tiny_ctx *ctx, const tiny_tensor *z, const float *factor, const float *step,
                                           const tgnn_nibbles *t)
{
    tinyi_nibbling g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!z || !step || !t || tiny_tensor_check(z) || z->dtype != TINY_F32 || z->rank != 2 || !tiny_tensor_is_dense(z) ||
        z->dim[0] != t->n || z->dim[1] != t->f)
        return tinyi_fail(ctx, TINY_E_SHAPE, "nibbles: z must be %td x %td f32, dense, and have steps", t ? t->n : 0,
                          t ? t->f : 0);
    g.z = (const float *)z->data;
    g.factor = factor;
    g.step = step;
    g.t = t;
    return tiny_parallel_loose(ctx, 0, 0, (size_t)t->groups * 16, tinyi_nibbling_run, &g);
}

/* ---- sums */

typedef struct tinyi_nibble_sum {
    const tiny_sparse *a;
    const tgnn_nibbles *t;
    float own;
    const float *factor, *step, *bias;
    float *y;
} tinyi_nibble_sum;

/* own q is added before the steps: by loops, for the layers that want it */
TINY_REF_BEGIN
static void tinyi_nibbles_own(const tinyi_nibble_sum *s, tiny_idx row, tiny_idx j, tiny_idx n, int64_t edges,
                              const int32_t *sum)
{
    const float factor = s->factor ? s->factor[row] : 1.0f;
    float *y = s->y + row * s->t->f;
    for (n += j; j < n; j++, sum++) {
        const float v =
            ((float)((int64_t)*sum - 7 * edges) + s->own * (float)tinyi_nibbles_one(tinyi_nibbles_row(s->t, row), j)) *
            tinyi_a2q_step(s->step[j]) * factor;
        y[j] = s->bias ? v + s->bias[j] : v;
    }
}
TINY_REF_END

static void tinyi_nibble_sum_run(tiny_team *team, void *arg)
{
    const tinyi_nibble_sum *s = (const tinyi_nibble_sum *)arg;
    const tinyi_nibble_kernels *kernels = tinyi_nibble_kernels_of(team->k);
    const tgnn_nibbles *t = s->t;
    const size_t row_bytes = (size_t)t->groups * 8;
    int32_t sum[16 * TINYI_NIBBLES_WIDE];
    tiny_idx r, r1, w;
    int64_t p, p0, p1;
    team->ran_on = kernels->from;
    while (tiny_take(team, s->a->n_rows, 64, &r, &r1))
        for (; r < r1; r++) {
            int bad = 0;
            tinyi_row_range(s->a, r, &p0, &p1);
            for (p = p0; p < p1; p++) bad |= s->a->col[p] < 0 || (tiny_idx)s->a->col[p] >= t->n;
            if (bad) {
                tiny_team_fail(team, TINY_E_FORMAT, "nibbles: the source of an edge is out of range");
                return;
            }
            if (r + 1 < r1)                 /* what the next row will want */
                for (p = p1; p < TINYI_MIN(p1 + 16, s->a->n); p++)
                    if (s->a->col[p] >= 0 && (tiny_idx)s->a->col[p] < t->n)
                        TINYI_NIBBLES_AHEAD(tinyi_nibbles_row(t, s->a->col[p]));
            for (w = 0; w < t->groups; w += TINYI_NIBBLES_WIDE) {
                const tiny_idx groups = TINYI_MIN(TINYI_NIBBLES_WIDE, t->groups - w),
                               n = TINYI_MIN(16 * groups, t->f - 16 * w);
                kernels->sums(sum, t->data + 8 * w, row_bytes, s->a->col + p0, p1 - p0, (size_t)groups);
                if (s->own != 0.0f) tinyi_nibbles_own(s, r, 16 * w, n, p1 - p0, sum);
                else
                    kernels->finish(s->y + r * t->f + 16 * w, sum, (int32_t)(7 * (p1 - p0)), s->step + 16 * w,
                                    s->bias ? s->bias + 16 * w : NULL, (size_t)n, s->factor ? s->factor[r] : 1.0f);
            }
        }
}

TINY_API tiny_status tgnn_nibbles_sum(tiny_ctx *ctx, const tiny_sparse *a, const tgnn_nibbles *t, float own,
                                      const float *factor, const float *step, const float *bias, const tiny_tensor *y)
{
    tinyi_nibble_sum s;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!a || !t || !step || !y || a->form != TINY_CSR || a->n_cols > t->n || (own != 0.0f && a->n_rows > t->n) ||
        tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) ||
        y->dim[0] != a->n_rows || y->dim[1] != t->f || a->n >= (int64_t)1 << 27)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "nibbles: a must be in CSR form with fewer than 2^27 edges, the table have a row for each of "
                          "its columns, and y be f32 of its rows, dense");
    s.a = a;
    s.t = t;
    s.own = own;
    s.factor = factor;
    s.step = step;
    s.bias = bias;
    s.y = (float *)y->data;
    return tiny_parallel_loose(ctx, 0, 0, 0, tinyi_nibble_sum_run, &s);
}
