/* tests/llm/attention/paged.c - attention over pages against the plain operation, on pages scattered over the pool
 *
 * Truth    tiny_attention, which has its own oracles, on the same keys laid out one after the other; the worked case of
 *          the paper's formula; and two invariants: the page of a cell, and the cut of a sequence into calls. */
#include "t.h"

enum { BLOCKS = 64, TABLE = 24, SEQS = 3 };

typedef struct shape { int n_kv, group, d, d_v, block, format; } shape;
static const shape shapes[] = { { 1, 1, 1, 1, 1, TLLM_FORMAT_F32 },
                                { 2, 1, 7, 5, 3, TLLM_FORMAT_F32 },
                                { 2, 4, 64, 64, 16, TLLM_FORMAT_F32 },
                                { 1, 8, 65, 33, 16, TLLM_FORMAT_F32 },
                                { 3, 3, 128, 128, 16, TLLM_FORMAT_F32 },
                                { 1, 40, 24, 16, 5, TLLM_FORMAT_F32 },
                                { 2, 2, 17, 17, 70, TLLM_FORMAT_F32 },
                                { 2, 4, 40, 24, 16, TLLM_FORMAT_F16 },
                                { 2, 2, 64, 32, 16, TLLM_FORMAT_Q8_0 },
                                { 4, 2, 8, 8, 16, TLLM_FORMAT_Q8_0 },
                                { 4, 3, 16, 8, 7, TLLM_FORMAT_Q4_0 },
                                { 1, 2, 256, 256, 16, TLLM_FORMAT_Q4_0 },
                                /* one token of these has 1 to 8 rows, which read pages in place: more and fewer numbers
                                 * than whole vectors, pages that do not divide 64 cells and larger ones */
                                { 2, 1, 128, 128, 16, TLLM_FORMAT_F16 },
                                { 1, 7, 64, 80, 16, TLLM_FORMAT_F16 },
                                { 2, 2, 36, 100, 11, TLLM_FORMAT_F16 },
                                { 2, 1, 96, 32, 16, TLLM_FORMAT_Q8_0 },
                                { 1, 4, 128, 128, 5, TLLM_FORMAT_Q8_0 },
                                { 1, 5, 64, 96, 64, TLLM_FORMAT_Q8_0 },
                                { 1, 6, 512, 544, 16, TLLM_FORMAT_Q8_0 },
                                { 2, 1, 31, 1, 100, TLLM_FORMAT_F32 } };

typedef struct made {                       /* the same keys in pages and one after the other */
    tiny_tensor q, k, v, table, rows, pos, o, flat_k[SEQS], flat_v[SEQS];
    int32_t *row;
    tllm_paged_params p;
    int held[SEQS], n;
} made;

/* rows of one head group to a page in a format, and the unpacked numbers to the flat copy */
static void put(const shape *s, int d, int part, int heads, unsigned char *pool, int32_t page, int at, const float *x,
                float *flat, int n_kv)
{
    const tllm_format *f = tllm_format_of(s->format);
    const size_t bytes = tllm_format_bytes(f, (uint64_t)(heads * d));
    unsigned char *row = pool + ((size_t)((int)page * (n_kv / heads) + part) * (size_t)s->block + (size_t)at) * bytes;
    f->pack(x, row, (size_t)(heads * d), NULL);
    f->unpack(row, flat, (size_t)(heads * d));
}

static int heads_of(const shape *s, int d)
{
    const int values = tllm_format_of(s->format)->values;
    int h = 1;
    while (h * d % values) h *= 2;
    return h;
}

/* three sequences of 1 to block * 20 cells in pages of any order; queries at their ends */
static void make(made *m, const shape *s, uint32_t order, int n_each)
{
    const tllm_format *f = tllm_format_of(s->format);
    const int hk = heads_of(s, s->d), hv = heads_of(s, s->d_v), heads = hk > hv ? hk : hv, parts = s->n_kv / heads;
    const size_t bk = tllm_format_bytes(f, (uint64_t)(heads * s->d)),
                 bv = tllm_format_bytes(f, (uint64_t)(heads * s->d_v));
    const tiny_dtype dtype = s->format == TLLM_FORMAT_F32   ? TINY_F32
                             : s->format == TLLM_FORMAT_F16 ? TINY_F16
                                                            : TINY_U8;
    unsigned char *k = (unsigned char *)t_keep(BLOCKS * (size_t)parts * (size_t)s->block * bk),
                  *v = (unsigned char *)t_keep(BLOCKS * (size_t)parts * (size_t)s->block * bv);
    int32_t *table = (int32_t *)t_keep(SEQS * TABLE * sizeof *table),
            *pos = (int32_t *)t_keep(SEQS * TABLE * (size_t)s->block * sizeof *pos);
    int32_t free_page[BLOCKS];
    int i, j, n_free = BLOCKS, part, t = 0, q;
    memset(m, 0, sizeof *m);
    memset(k, 0xff, BLOCKS * (size_t)parts * (size_t)s->block * bk);       /* NaN in unwritten cells */
    memset(v, 0xff, BLOCKS * (size_t)parts * (size_t)s->block * bv);
    for (i = 0; i < BLOCKS; i++) free_page[i] = (int32_t)i;
    for (i = BLOCKS - 1; i > 0; i--) {              /* the order in which pages are handed out */
        int32_t x = free_page[i];
        order = order * 1664525u + 1013904223u;
        j = (int)(order >> 8) % (i + 1);
        free_page[i] = free_page[j];
        free_page[j] = x;
    }
    m->n = 0;
    m->row = (int32_t *)t_keep((size_t)(SEQS * 4 * n_each) * sizeof *m->row);
    for (i = 0; i < SEQS; i++) {
        float *fk, *fv;
        int n = i == 0 ? n_each : n_each + 1 + (int)(t_rand_below((uint32_t)(s->block * 20 - 1)) % 200);
        if (n > s->block * 20) n = s->block * 20;
        if (n < n_each) n = n_each;
        m->held[i] = n;
        fk = (float *)t_keep((size_t)(n * s->n_kv * s->d) * sizeof *fk);
        fv = (float *)t_keep((size_t)(n * s->n_kv * s->d_v) * sizeof *fv);
        for (j = 0; j < n; j++) {
            if (j % s->block == 0) table[i * TABLE + j / s->block] = free_page[--n_free];
            pos[i * TABLE * s->block + j] = (int32_t)(2 * j + i);
            for (part = 0; part < parts; part++) {
                float x[576];
                for (q = 0; q < heads * s->d; q++) x[q] = t_rand_float(-1.7f, 1.7f);
                put(s, s->d, part, heads, k, table[i * TABLE + j / s->block], j % s->block, x,
                    fk + (j * s->n_kv + part * heads) * s->d, s->n_kv);
                for (q = 0; q < heads * s->d_v; q++) x[q] = t_rand_float(-1.7f, 1.7f);
                put(s, s->d_v, part, heads, v, table[i * TABLE + j / s->block], j % s->block, x,
                    fv + (j * s->n_kv + part * heads) * s->d_v, s->n_kv);
            }
        }
        m->flat_k[i] = tiny_tensor_3d(fk, TINY_F32, n, s->n_kv, s->d);
        m->flat_v[i] = tiny_tensor_3d(fv, TINY_F32, n, s->n_kv, s->d_v);
        for (j = 0; j < n_each; j++, t++) {
            m->row[4 * t] = (int32_t)i;
            m->row[4 * t + 1] = 0;
            m->row[4 * t + 2] = (int32_t)(n - n_each + j + 1);
            m->row[4 * t + 3] = (int32_t)(2 * (n - n_each + j) + i);
        }
    }
    m->n = t;
    m->q = tiny_tensor_3d(t_rand((size_t)(t * s->n_kv * s->group * s->d), -1.7f, 1.7f), TINY_F32, t, s->n_kv * s->group,
                          s->d);
    m->o =
        tiny_tensor_3d(t_guarded((size_t)(t * s->n_kv * s->group * s->d_v)), TINY_F32, t, s->n_kv * s->group, s->d_v);
    m->k = tiny_tensor_4d(k, dtype, BLOCKS, parts, s->block, dtype == TINY_U8 ? (tiny_idx)bk : heads * s->d);
    m->v = tiny_tensor_4d(v, dtype, BLOCKS, parts, s->block, dtype == TINY_U8 ? (tiny_idx)bv : heads * s->d_v);
    m->table = tiny_tensor_2d(table, TINY_I32, SEQS, TABLE);
    m->pos = tiny_tensor_2d(pos, TINY_I32, SEQS, TABLE * s->block);
    m->rows = tiny_tensor_2d(m->row, TINY_I32, t, 4);
    m->p.format_k = m->p.format_v = s->format;
    m->p.n_kv = s->n_kv;
    m->p.d_v = s->d_v;
}

/* the result of the plain operation, with window, slopes and sinks expressed by its bias and one more key */
static void plain(tiny_ctx *ctx, const shape *s, const made *m, int window, const float *slopes, const float *sinks,
                  float *want)
{
    const int H = s->n_kv * s->group, n_each = m->n / SEQS;
    int i, h, t, j;
    for (i = 0; i < SEQS; i++) {
        const int n = m->held[i], wide = n + (sinks != NULL);
        float *bias = (float *)t_keep((size_t)(H * n_each * wide) * sizeof *bias);
        float *fk = (float *)t_keep((size_t)(wide * s->n_kv * s->d) * sizeof *fk),
              *fv = (float *)t_keep((size_t)(wide * s->n_kv * s->d_v) * sizeof *fv);
        tiny_tensor q = m->q, k, v, b = tiny_tensor_3d(bias, TINY_F32, H, n_each, wide), o;
        tiny_attention_params p;
        memcpy(fk, m->flat_k[i].data, (size_t)(n * s->n_kv * s->d) * sizeof *fk);
        memcpy(fv, m->flat_v[i].data, (size_t)(n * s->n_kv * s->d_v) * sizeof *fv);
        for (h = 0; h < H; h++)
            for (t = 0; t < n_each; t++) {
                float *row = bias + (h * n_each + t) * wide;
                for (j = 0; j < n; j++) {
                    const int at = n - n_each + t;
                    row[j] = j > at || (window && j <= at - window) ? -INFINITY
                             : slopes                               ? -slopes[h] * (float)(2 * (at - j))
                                                                    : 0.0f;
                }
                if (sinks) row[n] = sinks[h];
            }
        k = tiny_tensor_3d(fk, TINY_F32, wide, s->n_kv, s->d);
        v = tiny_tensor_3d(fv, TINY_F32, wide, s->n_kv, s->d_v);
        q.data = (float *)q.data + i * n_each * H * s->d;
        q.dim[0] = n_each;
        o = tiny_tensor_3d(want + i * n_each * H * s->d_v, TINY_F32, n_each, H, s->d_v);
        memset(&p, 0, sizeof p);
        p.scale = m->p.scale;
        p.softcap = m->p.softcap;
        T_OK(tiny_attention(ctx, &q, &k, &v, &b, &p, &o));
    }
}

static void windows(made *m, int window)
{
    int t;
    for (t = 0; t < m->n; t++)
        m->row[4 * t + 1] = window && m->row[4 * t + 2] > window ? m->row[4 * t + 2] - (int32_t)window : 0;
}

static void test_against_plain(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t c;
    int form, n_each;
    for (c = 0; c < T_COUNT(shapes); c++)
        for (n_each = 1; n_each <= 13; n_each += 12)
            for (form = T_SLOW; form < 4; form += 1 + T_SLOW) {
                const shape *s = &shapes[c];
                const size_t H = (size_t)(s->n_kv * s->group);
                made m;
                float *want, *got, *slopes, *sinks, top = 0.0f;
                size_t i, n;
                if (n_each > s->block * 20) continue;
                make(&m, s, 7u + (uint32_t)c, n_each);
                n = (size_t)m.n * H * (size_t)s->d_v;
                want = (float *)t_keep(n * sizeof *want);
                got = (float *)m.o.data;
                slopes = t_rand(H, 0.01f, 0.3f);
                sinks = t_rand(H, -2.0f, 2.0f);
                m.p.softcap = form == 2 ? 3.0f : 0.0f;
                m.p.scale = form == 1 ? 0.4f : 0.0f;
                windows(&m, form == 1 ? 19 : 0);
                t_use(ref);
                plain(ref, s, &m, form == 1 ? 19 : 0, form >= 2 ? slopes : NULL, form == 3 || form == 1 ? sinks : NULL,
                      want);
                t_use(ctx);
                {
                    tiny_tensor ts = tiny_tensor_1d(slopes, TINY_F32, (tiny_idx)H),
                                tz = tiny_tensor_1d(sinks, TINY_F32, (tiny_idx)H);
                    T_OK(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, form >= 2 ? &m.pos : NULL,
                                              form >= 2 ? &ts : NULL, form == 3 || form == 1 ? &tz : NULL, &m.p, &m.o));
                }
                for (i = 0; i < n; i++) top = fabsf(want[i]) > top ? fabsf(want[i]) : top;
                if (target == TINY_TARGET_REFERENCE) T_SAME(got, want, n);
                else
                    for (i = 0; i < n; i++)
                        if (!T_CLOSE(got[i], want[i], 200.0 * 5.9604645e-8 * (double)top)) {
                            printf("  shape %d, form %d, %d queries\n", (int)c, form, n_each);
                            break;
                        }
                if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));   /* lent */
                T_WALLS(got, n);
                t_free_blocks();
            }
    t_close(ref);
    t_close(ctx);
}

/* Other pages, the same bits; queries one by one, the same within the bound; on the reference the same bits too. */
static void test_order_does_not_matter(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    for (c = 0; c < T_COUNT(shapes); c++) {
        const shape *s = &shapes[c];
        const uint64_t start = t_now.rand_at;
        const int n_each = s->block > 1 ? 5 : 2;
        made m;
        float *first;
        size_t n, i, row;
        int t;
        make(&m, s, 1, n_each);
        n = (size_t)(m.n * s->n_kv * s->group * s->d_v);
        row = n / (size_t)m.n;
        T_OK(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &m.p, &m.o));
        first = (float *)m.o.data;
        for (t = 0; t < m.n; t++) {
            tiny_tensor q = m.q, rows = m.rows,
                        o = tiny_tensor_3d(t_guarded(row), TINY_F32, 1, s->n_kv * s->group, s->d_v);
            q.data = (float *)q.data + t * s->n_kv * s->group * s->d;
            q.dim[0] = rows.dim[0] = 1;
            rows.data = m.row + 4 * t;
            T_OK(tllm_paged_attention(ctx, &q, &m.k, &m.v, &m.table, &rows, NULL, NULL, NULL, &m.p, &o));
            if (target == TINY_TARGET_REFERENCE) T_SAME((float *)o.data, first + (size_t)t * row, row);
            else
                for (i = 0; i < row; i++)
                    T_CLOSE(((float *)o.data)[i], first[(size_t)t * row + i], 200.0 * 5.9604645e-8 * 1.7);
        }
        t_now.rand_at = start;
        make(&m, s, 99, n_each);
        T_OK(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &m.p, &m.o));
        T_SAME((float *)m.o.data, first, n);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("attention 0", "permuting blocks in the page table changes nothing");
}

/* Values that are a part of the keys; long sequences, few heads: the keys are split among threads. */
static void test_latent_and_long(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 4), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    enum { LONG = 2000, D = 40, DV = 24, H = 36 };
    float *k = t_rand((LONG + 16) * D, -1.0f, 1.0f), *q = t_rand(2 * H * D, -1.0f, 1.0f), *want = t_guarded(H * DV),
          *got = t_guarded(2 * H * DV), *bias = (float *)t_keep(LONG * sizeof *bias);
    int32_t *table = (int32_t *)t_keep(126 * sizeof *table), rows[8] = { 0, 3, LONG, LONG, 0, 5, 5, 9 };
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 2, H, D), tk = tiny_tensor_4d(k, TINY_F32, 126, 1, 16, D),
                tt = tiny_tensor_2d(table, TINY_I32, 1, 126);
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 1, 4), to = tiny_tensor_3d(got, TINY_F32, 1, H, DV);
    tiny_tensor pq, pk, pv, po, pb;
    tllm_paged_params p;
    int i;
    for (i = 0; i < 126; i++) table[i] = (int32_t)i;
    memset(&p, 0, sizeof p);
    p.d_v = DV;
    tq.dim[0] = 1;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
    pq = tq;
    pk = tiny_tensor_3d(k, TINY_F32, LONG, 1, D);
    pv = pk;
    pv.dim[2] = DV;
    po = tiny_tensor_3d(want, TINY_F32, 1, H, DV);
    for (i = 0; i < 3; i++) bias[i] = -INFINITY;
    pb = tiny_tensor_2d(bias, TINY_F32, 1, LONG);
    T_OK(tiny_attention(ref, &pq, &pk, &pv, &pb, NULL, &po));
    if (target == TINY_TARGET_REFERENCE) T_SAME(got, want, H * DV);
    else for (i = 0; i < H * DV; i++) T_CLOSE(got[i], want[i], 200.0 * 5.9604645e-8);
    /* the second row sees nothing */
    tq.dim[0] = tr.dim[0] = to.dim[0] = 2;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
    for (i = 0; i < H * DV; i++) T_TRUE(got[H * DV + i] == 0.0f);
    /* NaN in a key reaches the rows that may see it, and no other */
    k[7 * D] = NAN;
    rows[5] = 8;
    rows[6] = 40;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
    for (i = 0; i < DV; i++) T_TRUE(got[i] != got[i] && got[H * DV + i] == got[H * DV + i]);
    t_close(ref);
    t_close(ctx);
}

/* worked by hand: Q, K, V, causal, scale 1 / sqrt 2; softcap 2; a sink of 0 */
static void test_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[6] = { 1, 0, 0, 1, 1, 1 }, k[8] = { 1, 1, 9, 9, 1, 0, 0, 2 }, v[8] = { 5, 6, 9, 9, 1, 2, 3, 4 }, o[6],
          z = 0.0f;
    /* pages of two, the second one first in the pool */
    int32_t table[2] = { 1, 0 }, rows[12] = { 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 3, 2 };
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 3, 1, 2), tk = tiny_tensor_4d(k, TINY_F32, 2, 1, 2, 2),
                tv = tiny_tensor_4d(v, TINY_F32, 2, 1, 2, 2);
    tiny_tensor tt = tiny_tensor_2d(table, TINY_I32, 1, 2), tr = tiny_tensor_2d(rows, TINY_I32, 3, 4),
                to = tiny_tensor_3d(o, TINY_F32, 3, 1, 2), tz = tiny_tensor_1d(&z, TINY_F32, 1);
    tllm_paged_params p;
    memset(&p, 0, sizeof p);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    T_CLOSE(o[0], 1, 1e-6); T_CLOSE(o[1], 2, 1e-6);
    T_CLOSE(o[2], 2.608859, 1e-6); T_CLOSE(o[3], 3.608859, 1e-6);
    T_CLOSE(o[4], 3.406673, 1e-6); T_CLOSE(o[5], 4.406673, 1e-6);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, &tz, &p, &to));
    T_CLOSE(o[4], 0.180203 + 3 * 0.365472 + 5 * 0.365472, 4e-6);
    p.softcap = 2.0f;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    T_CLOSE(o[4], 3.322411, 1e-6); T_CLOSE(o[5], 4.322411, 1e-6);
    t_close(ctx);
}

/* Positions as far apart as they can be: the distance is 2^32 - 1, which an earlier version computed in 32 bits as -1.
 * With slope 2^-31 and scores of 0 the second key, at distance 0, has the weight 1 / (1 + exp(-2)). In a tree too. */
static void test_far_positions(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[2] = { 1, 1 }, k[2] = { 0, 0 }, v[2] = { 0, 1 }, o[2], slope = 1.0f / 2147483648.0f;
    int32_t table[1] = { 0 }, rows[8] = { 0, 0, 2, INT32_MAX, 0, 0, 2, INT32_MAX }, pos[2] = { INT32_MIN, INT32_MAX };
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 2, 1, 1), tk = tiny_tensor_4d(k, TINY_F32, 1, 1, 2, 1),
                tv = tiny_tensor_4d(v, TINY_F32, 1, 1, 2, 1), tt = tiny_tensor_2d(table, TINY_I32, 1, 1);
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 2, 4), tp = tiny_tensor_2d(pos, TINY_I32, 1, 2),
                ts = tiny_tensor_1d(&slope, TINY_F32, 1), to = tiny_tensor_3d(o, TINY_F32, 2, 1, 1);
    tllm_paged_params p;
    tllm_tree_plan *plan;
    int tree;
    memset(&p, 0, sizeof p);
    T_OK(tllm_tree_plan_open(ctx, NULL, &plan));
    T_OK(tllm_tree_plan_set(plan, &tr, &tt, 2));
    for (tree = 0; tree < 2; tree++) {
        p.tree = tree ? plan : NULL;
        T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, &tp, &ts, NULL, &p, &to));
        T_CLOSE(o[0], 0.880797, 1e-6);
        T_CLOSE(o[1], 0.880797, 1e-6);
    }
    tllm_tree_plan_close(ctx, plan);
    t_close(ctx);
}

/* The cells that the kernels read from the pages: each once for all heads of a key head up to 96, with any number of
 * threads where the split over keys gives them work: heads are not looped over outside the tile of keys. (33 heads read
 * everything twice, 128 four times.) A text too short for a split is read once for 32 heads on several threads. */
static void test_each_cell_is_read_once(tiny_target target)
{
    enum { LONG = 2100, SHORT = 200, D = 20, DV = 12, PAGE = 16, PAGES = LONG / PAGE + 1, MOST = 128, THREADS = 4 };
    static const int heads[] = { 1, 9, 32, 33, 40, 96, 97, 128 };
    tiny_ctx *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *k = t_rand(2 * PAGES * PAGE * D, -1.0f, 1.0f), *q = t_rand(2 * MOST * D, -1.0f, 1.0f),
          *want = t_guarded(2 * MOST * DV), *got = t_guarded(2 * MOST * DV);
    int32_t table[PAGES], rows[4] = { 0, 0, LONG, LONG };
    tiny_tensor tk, tt = tiny_tensor_2d(table, TINY_I32, 1, PAGES), tr = tiny_tensor_2d(rows, TINY_I32, 1, 4);
    tllm_paged_params p;
    size_t h;
    int i, parts, n;
    if (target == TINY_TARGET_REFERENCE) { t_close(ref); return; }
    for (i = 0; i < PAGES; i++) table[i] = (int32_t)((7 * i) % PAGES);
    memset(&p, 0, sizeof p);
    p.d_v = DV;
    for (h = 0; h < T_COUNT(heads); h++)
        for (parts = 1; parts <= 2; parts++) {
            const tiny_idx H = heads[h] * parts;
            const int tiles = (heads[h] + 95) / 96;
            tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 1, H, D), to = tiny_tensor_3d(want, TINY_F32, 1, H, DV);
            tk = tiny_tensor_4d(k, TINY_F32, PAGES, parts, PAGE, D);
            rows[2] = LONG;
            p.n_load = NULL;
            t_use(ref);
            T_OK(tllm_paged_attention(ref, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
            to.data = got;
            for (n = 1; n <= THREADS; n *= 2) {
                tiny_ctx *ctx = t_ctx(target, n);
                tiny_idx load[THREADS] = { 0 }, sum = 0;
                rows[2] = LONG;
                p.n_load = load;
                T_OK(tllm_paged_attention(ctx, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
                for (i = 0; i < H * DV; i++) if (!T_CLOSE(got[i], want[i], 200.0 * 5.9604645e-8)) break;
                for (i = 0; i < THREADS; i++) sum += load[i];
                if (!T_EQ_INT(sum, LONG * parts * tiles))
                    printf("  %d heads, %d parts, %d threads\n", heads[h], parts, n);
                rows[2] = SHORT;
                memset(load, 0, sizeof load);
                T_OK(tllm_paged_attention(ctx, &tq, &tk, NULL, &tt, &tr, NULL, NULL, NULL, &p, &to));
                for (i = 0, sum = 0; i < THREADS; i++) sum += load[i];
                T_TRUE(sum >= SHORT * parts * tiles && sum <= SHORT * parts * ((heads[h] + 31) / 32));
                if (n == 1) T_EQ_INT(sum, SHORT * parts * tiles);
                T_WALLS(got, 2 * MOST * DV);
                t_close(ctx);
            }
        }
    t_close(ref);
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    made m;
    tllm_paged_params p;
    tiny_tensor t, few;
    make(&m, &shapes[2], 3, 2);
    p = m.p;
    m.row[0] = 3;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o),
             TINY_E_ARGUMENT, "row 0 asks for cells 0 to 1 of sequence 3");
    m.row[0] = 0;
    m.row[2] = 24 * 16 + 1;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o),
             TINY_E_ARGUMENT, "3 sequences of 24 pages of 16");
    m.row[2] = 1;
    ((int32_t *)m.table.data)[0] = BLOCKS;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o),
             TINY_E_ARGUMENT, "page 0 of sequence 0 is block 64, but there are 64");
    ((int32_t *)m.table.data)[0] = 1;
    p.n_kv = 3;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o), TINY_E_SHAPE,
             "8 query heads, 3 key heads and 2 parts");
    p = m.p;
    p.d_v = 63;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o), TINY_E_SHAPE,
             "a row of values holds 64 numbers, but its heads have 63");
    p.d_v = 65;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, NULL, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o), TINY_E_SHAPE,
             "values of 65 numbers do not fit into keys of 64");
    p = m.p;
    p.softcap = -1.0f;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o),
             TINY_E_ARGUMENT, "softcap -1");
    t = m.rows;
    t.dtype = TINY_F32;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &t, NULL, NULL, NULL, &m.p, &m.o), TINY_E_SHAPE,
             "rows is 6x4 f32, it must have 2 axes of i32, dense");
    t = m.k;
    t.dtype = TINY_U8;
    p = m.p;
    p.format_k = 0;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &t, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &p, &m.o), TINY_E_DTYPE,
             "format 0 has no rows");
    t = m.k;
    t.stride[0] += 3;
    T_STATUS(tllm_paged_attention(ctx, &m.q, &t, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &m.p, &m.o), TINY_E_SHAPE,
             "must be dense");
    t = tiny_tensor_1d(m.q.data, TINY_F32, 8);
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, NULL, &t, NULL, &m.p, &m.o), TINY_E_SHAPE,
             "and the positions of the cells");
    /* of two sequences of three */
    few = tiny_tensor_2d(t_keep(2 * 24 * 16 * sizeof(int32_t)), TINY_I32, 2, 24 * 16);
    T_STATUS(tllm_paged_attention(ctx, &m.q, &m.k, &m.v, &m.table, &m.rows, &few, &t, NULL, &m.p, &m.o), TINY_E_SHAPE,
             "and the positions of the cells of 3 sequences");
    T_STATUS(tllm_paged_attention(ctx, &m.q, NULL, &m.v, &m.table, &m.rows, NULL, NULL, NULL, &m.p, &m.o),
             TINY_E_ARGUMENT, "input 1 is missing");
    t_close(ctx);
    T_PROOF("attention 0", "bad input: position beyond capacity, table id out of range");
}

/* Three queries with windows of every kind, one entry of the table that leads nowhere: refused exactly if a window of
 * any query includes a cell of that page, whatever the queries before it read. */
static void test_each_page_is_checked(tiny_target target)
{
    enum { D = 4, BLOCK = 4, PAGES = 4, Q = 3 };
    static const int window[][2] = { { 0, 4 }, { 2, 6 }, { 0, 16 }, { 8, 12 }, { 5, 5 }, { 12, 16 }, { 7, 13 } };
    static const int32_t nowhere[2] = { -1, PAGES };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(Q * D, -1.0f, 1.0f), *kv = t_rand(PAGES * BLOCK * D, -1.0f, 1.0f), o[Q * D];
    int32_t table[2 * PAGES], rows[4 * Q];
    const tiny_tensor q = tiny_tensor_3d(x, TINY_F32, Q, 1, D), k = tiny_tensor_4d(kv, TINY_F32, PAGES, 1, BLOCK, D),
                      tt = tiny_tensor_2d(table, TINY_I32, 2, PAGES), tr = tiny_tensor_2d(rows, TINY_I32, Q, 4),
                      to = tiny_tensor_3d(o, TINY_F32, Q, 1, D);
    const int kinds = (int)T_COUNT(window);
    int at, i, bad;
    for (at = 0; at < 2 * kinds * kinds * kinds; at++) {
        int pick = at;
        for (i = 0; i < Q; i++, pick /= kinds) {
            rows[4 * i] = 0;
            rows[4 * i + 1] = (int32_t)window[pick % kinds][0];
            rows[4 * i + 2] = rows[4 * i + 3] = (int32_t)window[pick % kinds][1];
        }
        rows[4] = (int32_t)pick;                            /* the second query of another sequence, every other time */
        for (bad = 0; bad < 2 * PAGES; bad++) {
            const int seq = bad / PAGES, lo = bad % PAGES * BLOCK, hi = lo + BLOCK;
            int shown = 0;
            for (i = 0; i < 2 * PAGES; i++) table[i] = (int32_t)(i % PAGES);
            table[bad] = nowhere[at % 2];
            for (i = 0; i < Q; i++)
                shown |= rows[4 * i] == seq && rows[4 * i + 1] < hi && rows[4 * i + 2] > lo &&
                         rows[4 * i + 1] < rows[4 * i + 2];
            if (shown ? !T_STATUS(tllm_paged_attention(ctx, &q, &k, NULL, &tt, &tr, NULL, NULL, NULL, NULL, &to),
                                  TINY_E_ARGUMENT, "is block")
                      : !T_OK(tllm_paged_attention(ctx, &q, &k, NULL, &tt, &tr, NULL, NULL, NULL, NULL, &to)))
                break;
        }
        if (bad < 2 * PAGES) { printf("  windows %d, entry %d\n", at, bad); break; }
    }
    t_close(ctx);
}

/* Cells of neighbouring queries with a hole between them: the page numbers in the hole are undefined. An earlier fast
 * form walked the hole and followed them. */
static void test_hole(tiny_target target)
{
    enum { D = 32, BLOCK = 16, PAGES = 10 };
    tiny_ctx *ctx = t_ctx(target, 1), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    int32_t table[PAGES], rows[8] = { 0, 0, 16, 0, 0, 144, 160, 0 };
    float *want = t_guarded(2 * D), *got = t_guarded(2 * D);
    tiny_tensor q = tiny_tensor_3d(t_rand(2 * D, -1.0f, 1.0f), TINY_F32, 2, 1, D),
                k = tiny_tensor_4d(t_rand(2 * BLOCK * D, -1.0f, 1.0f), TINY_F32, 2, 1, BLOCK, D),
                v = tiny_tensor_4d(t_rand(2 * BLOCK * D, -1.0f, 1.0f), TINY_F32, 2, 1, BLOCK, D),
                tt = tiny_tensor_2d(table, TINY_I32, 1, PAGES), tr = tiny_tensor_2d(rows, TINY_I32, 2, 4),
                o = tiny_tensor_3d(want, TINY_F32, 2, 1, D);
    size_t i;
    for (i = 0; i < PAGES; i++) table[i] = 0x20000000;
    table[0] = 0;
    table[9] = 1;
    T_OK(tllm_paged_attention(ref, &q, &k, &v, &tt, &tr, NULL, NULL, NULL, NULL, &o));
    o.data = got;
    T_OK(tllm_paged_attention(ctx, &q, &k, &v, &tt, &tr, NULL, NULL, NULL, NULL, &o));
    for (i = 0; i < 2 * D; i++) T_CLOSE(got[i], want[i], 200.0 * 5.9604645e-8);    /* values are below 1 */
    t_close(ref);
    t_close(ctx);
}

/* The bound of the rounding in the pages, from the step of a block. With m the largest number of a block, one number is
 *   off by at most
 *   f16   |x| 2^-11 + 2^-25                 half a unit in the last place; denormals
 *   q8_0  m / 254 + m 2^-11                 half a step of m / 127, and 127 steps whose length is rounded to f16
 *   q4_0  m / 8 + m 2^-11                   a step of m / 8 where the far side is cut at 7 of 8, else half of one
 * A query c e_i reads number i of each key alone: a score is off by c e_k(i). Of two keys the second has the weight w =
 * 1 / (1 + exp(s0 - s1)), |dw / ds| <= 1/4, so w v1 + (1 - w) v0 is off by at most max e_v + |v1 - v0| c (e_k0(i) +
 * e_k1(i)) / 4, and 200 u for the fast form.
 * The last query sees the first key alone: its value, off by e_v. */
static double step_of(int format, const float *block, int n, float x)
{
    double m = 0.0;
    int i;
    for (i = 0; i < n; i++) m = fabs((double)block[i]) > m ? fabs((double)block[i]) : m;
    if (format == TLLM_FORMAT_F16) return fabs((double)x) / 2048 + 1.0 / 33554432;
    return (format == TLLM_FORMAT_Q8_0 ? m / 254 : m / 8) + m / 2048;
}
static void test_rounded(tiny_target target)
{
    enum { D = 64, CELLS = 2 };
    static const int format[3] = { TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    static int32_t table[1] = { 0 }, rows[4 * D + 4];
    tiny_ctx *ctx = t_ctx(target, 2);
    int f, i, j;
    for (f = 0; f < 3; f++) {
        const tllm_format *of = tllm_format_of(format[f]);
        const size_t bytes = tllm_format_bytes(of, D);
        const tiny_idx width = format[f] == TLLM_FORMAT_F16 ? D : (tiny_idx)bytes;
        const tiny_dtype dtype = format[f] == TLLM_FORMAT_F16 ? TINY_F16 : TINY_U8;
        float *k = t_rand(CELLS * D, -1.7f, 1.7f), *v = t_rand(CELLS * D, -0.9f, 0.9f),
              *q = t_rand((D + 1) * D, 0.0f, 0.0f), *out = t_guarded((D + 1) * D);
        unsigned char *pk = (unsigned char *)t_keep(CELLS * bytes), *pv = (unsigned char *)t_keep(CELLS * bytes);
        tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, D + 1, 1, D), to = tiny_tensor_3d(out, TINY_F32, D + 1, 1, D),
                    tk = tiny_tensor_4d(pk, dtype, 1, 1, CELLS, width),
                    tv = tiny_tensor_4d(pv, dtype, 1, 1, CELLS, width), tt = tiny_tensor_2d(table, TINY_I32, 1, 1),
                    tr = tiny_tensor_2d(rows, TINY_I32, D + 1, 4);
        tllm_paged_params p;
        double worst = 0.0;
        memset(&p, 0, sizeof p);
        p.format_k = p.format_v = format[f];
        p.scale = 1.0f;
        for (j = 0; j < CELLS; j++) {
            of->pack(k + j * D, pk + (size_t)j * bytes, D, NULL);
            of->pack(v + j * D, pv + (size_t)j * bytes, D, NULL);
        }
        for (i = 0; i < D; i++) {
            q[i * D + i] = 1.5f;
            rows[4 * i + 2] = CELLS;
            rows[4 * i + 3] = 1;
        }
        rows[4 * D + 2] = 1;
        T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
        for (j = 0; j < D; j++) T_CLOSE(out[D * D + j], v[j], step_of(format[f], v + j / 32 * 32, 32, v[j]));
        for (i = 0; i < D; i++) {
            const int b = i / 32 * 32;
            const double s0 = 1.5 * (double)k[i], s1 = 1.5 * (double)k[D + i], w = 1.0 / (1.0 + exp(s0 - s1));
            const double ds = 1.5 * (step_of(format[f], k + b, 32, k[i]) + step_of(format[f], k + D + b, 32, k[D + i]));
            for (j = 0; j < D; j++) {
                const int c = j / 32 * 32;
                const double want = w * (double)v[D + j] + (1.0 - w) * (double)v[j],
                             e0 = step_of(format[f], v + c, 32, v[j]), e1 = step_of(format[f], v + D + c, 32, v[D + j]);
                const double most = (e0 > e1 ? e0 : e1) + (fabs((double)v[D + j] - (double)v[j]) + e0 + e1) * ds / 4.0 +
                                    200.0 * 5.9604645e-8,
                             off = fabs((double)out[i * D + j] - want);
                T_CLOSE(out[i * D + j], want, most);
                worst = off / most > worst ? off / most : worst;
            }
        }
        T_TRUE(worst > 0.2);                /* the bound is not so wide that a few percent would hide in it */
    }
    T_RAN_ON(ctx, t_vectors(target));
    t_close(ctx);
}

static void test_conformance(tiny_target target) { t_conform(target, tllm_paged_attention_row(), T_SLOW ? 8 : 32); }

static void test_reference(void)
{
    test_rounded(TINY_TARGET_REFERENCE);
    test_by_hand(TINY_TARGET_REFERENCE);
    test_against_plain(TINY_TARGET_REFERENCE);
    test_order_does_not_matter(TINY_TARGET_REFERENCE);
    test_latent_and_long(TINY_TARGET_REFERENCE);
}

int main(void)
{
    T_RUN(test_reference);
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_against_plain);
    T_RUN_TARGETS(test_hole);
    T_RUN_TARGETS(test_order_does_not_matter);
    T_RUN_TARGETS(test_latent_and_long);
    T_RUN_TARGETS(test_rounded);
    T_RUN_TARGETS(test_conformance);
    T_RUN_TARGETS(test_far_positions);
    T_RUN_TARGETS(test_each_cell_is_read_once);
    T_RUN_FORMS(test_each_page_is_checked);
    T_RUN_TARGETS(test_bad_input);
    return t_done();
}
