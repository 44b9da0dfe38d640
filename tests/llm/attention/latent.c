/* tests/llm/attention/latent.c - latent attention: absorbed, expanded, and the plain attention that both equal
 *
 * Truth    keys and values of all heads made in double, and plain attention over them, written out here; figures that
 *          numpy 2.4.6 gave once; the identity itself in double through tiny_matmul and tiny_attention; invariants: the
 *          page of a cell, a shift of all positions. And models: their cache is counted in bytes. */
#include "t.h"

enum { BLOCKS = 48, TABLE = 32 };
#define U 5.9604645e-8

typedef struct shape { int heads, nope, rope, v, c, cells, queries, block, format_k, format_w; } shape;
static const shape shapes[] = { { 1, 1, 0, 1, 1, 1, 1, 1, TLLM_FORMAT_F32, TLLM_FORMAT_F32 },
                                { 2, 3, 2, 3, 4, 5, 5, 3, TLLM_FORMAT_F32, TLLM_FORMAT_F32 },
                                { 3, 7, 4, 9, 17, 70, 1, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F16 },
                                { 16, 32, 16, 32, 64, 300, 1, 16, TLLM_FORMAT_F32, TLLM_FORMAT_Q8_0 },
                                { 4, 33, 8, 20, 24, 130, 9, 16, TLLM_FORMAT_F16, TLLM_FORMAT_BF16 },
                                { 2, 65, 32, 66, 96, 257, 8, 16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 },
                                { 5, 16, 0, 16, 32, 100, 100, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F32 },
                                { 2, 16, 16, 16, 48, 480, 200, 16, TLLM_FORMAT_F16, TLLM_FORMAT_F16 },
                                { 1, 8, 2, 5, 6, 63, 64, 7, TLLM_FORMAT_F32, TLLM_FORMAT_F32 } };

typedef struct made {
    shape s;
    tiny_tensor q, k, table, rows, w, o;
    tllm_latent_params p;
    int32_t *row;
    float *flat, *flat_w;                   /* (cells, c + rope), (heads (nope + v), c) as the formats give them back */
} made;

static tiny_dtype dtype_of(int format)
{
    return format == TLLM_FORMAT_F32    ? TINY_F32
           : format == TLLM_FORMAT_F16  ? TINY_F16
           : format == TLLM_FORMAT_BF16 ? TINY_BF16
                                        : TINY_U8;
}
static tiny_tensor matrix(void *at, int format, int rows, int numbers)
{
    const tiny_dtype t = dtype_of(format);
    return tiny_tensor_2d(
        at, t, rows, t == TINY_U8 ? (tiny_idx)tllm_format_bytes(tllm_format_of(format), (uint64_t)numbers) : numbers);
}

/* one sequence in pages of any order, NaN in unwritten cells; the queries are its last tokens */
static void make(made *m, const shape *s, uint32_t order)
{
    const tllm_format *fk = tllm_format_of(s->format_k), *fw = tllm_format_of(s->format_w);
    const int ld = s->c + s->rope, n_w = s->heads * (s->nope + s->v);
    const size_t bk = tllm_format_bytes(fk, (uint64_t)ld), bw = tllm_format_bytes(fw, (uint64_t)s->c);
    int32_t *table = (int32_t *)t_keep(TABLE * sizeof *table), page[BLOCKS];
    unsigned char *k = (unsigned char *)t_keep((size_t)BLOCKS * (size_t)s->block * bk),
                  *w = (unsigned char *)t_keep((size_t)n_w * bw);
    float x[512];
    int i, j;
    memset(m, 0, sizeof *m);
    m->s = *s;
    memset(k, 0xff, (size_t)BLOCKS * (size_t)s->block * bk);
    for (i = 0; i < BLOCKS; i++) page[i] = (int32_t)i;
    for (i = BLOCKS - 1; i > 0; i--) {
        int32_t t = page[i];
        order = order * 1664525u + 1013904223u;
        j = (int)(order >> 8) % (i + 1);
        page[i] = page[j];
        page[j] = t;
    }
    for (i = 0; i < TABLE; i++) table[i] = page[i];
    m->flat = (float *)t_keep((size_t)(s->cells * ld) * sizeof(float));
    m->flat_w = (float *)t_keep((size_t)(n_w * s->c) * sizeof(float));
    for (i = 0; i < s->cells; i++) {
        unsigned char *to = k + ((size_t)table[i / s->block] * (size_t)s->block + (size_t)(i % s->block)) * bk;
        for (j = 0; j < ld; j++) x[j] = t_rand_float(-1.7f, 1.7f);
        fk->pack(x, to, (size_t)ld, NULL);
        fk->unpack(to, m->flat + i * ld, (size_t)ld);
    }
    for (i = 0; i < n_w; i++) {
        for (j = 0; j < s->c; j++) x[j] = t_rand_float(-1.7f, 1.7f) / sqrtf((float)s->c);
        fw->pack(x, w + (size_t)i * bw, (size_t)s->c, NULL);
        fw->unpack(w + (size_t)i * bw, m->flat_w + i * s->c, (size_t)s->c);
    }
    m->row = (int32_t *)t_keep((size_t)(4 * s->queries) * sizeof(int32_t));
    for (i = 0; i < s->queries; i++) m->row[4 * i + 2] = (int32_t)(s->cells - s->queries + i + 1);
    m->q = tiny_tensor_3d(t_rand((size_t)(s->queries * s->heads * (s->nope + s->rope)), -1.7f, 1.7f), TINY_F32,
                          s->queries, s->heads, s->nope + s->rope);
    m->o = tiny_tensor_3d(t_guarded((size_t)(s->queries * s->heads * s->v)), TINY_F32, s->queries, s->heads, s->v);
    m->k = tiny_tensor_4d(k, dtype_of(s->format_k), BLOCKS, 1, s->block,
                          dtype_of(s->format_k) == TINY_U8 ? (tiny_idx)bk : ld);
    m->table = tiny_tensor_2d(table, TINY_I32, 1, TABLE);
    m->rows = tiny_tensor_2d(m->row, TINY_I32, s->queries, 4);
    m->w = matrix(w, s->format_w, n_w, s->c);
    m->p.d_nope = s->nope;
    m->p.d_v = s->v;
    m->p.format_k = s->format_k;
    m->p.format_w = s->format_w;
}

static tiny_status run(tiny_ctx *ctx, const made *m, int form)
{
    tllm_latent_params p = m->p;
    p.form = form;
    return tllm_latent_attention(ctx, &m->q, &m->k, &m->table, &m->rows, &m->w, &p, &m->o);
}

/* keys and values of every head, stored and attended, in double */
static double expanded(const made *m, double *want)
{
    const int H = m->s.heads, dn = m->s.nope, dr = m->s.rope, dv = m->s.v, dc = m->s.c, ld = dc + dr, n = m->s.cells;
    double *k = (double *)t_keep((size_t)(n * (dn + dv)) * sizeof *k), *p = (double *)t_keep((size_t)n * sizeof *p),
           top = 0.0;
    const double scale = m->p.scale != 0.0f ? (double)m->p.scale : 1.0 / sqrt((double)(dn + dr));
    int h, t, j, i, r;
    for (h = 0; h < H; h++) {
        const float *w = m->flat_w + h * (dn + dv) * dc;
        for (j = 0; j < n; j++)
            for (r = 0; r < dn + dv; r++) {
                double s = 0.0;
                for (i = 0; i < dc; i++) s += (double)w[r * dc + i] * (double)m->flat[j * ld + i];
                k[j * (dn + dv) + r] = s;
            }
        for (t = 0; t < m->s.queries; t++) {
            const float *q = (const float *)m->q.data + (t * H + h) * (dn + dr);
            const int lo = m->row[4 * t + 1], hi = m->row[4 * t + 2];
            double most = -INFINITY, sum = 0.0;
            for (j = lo; j < hi; j++) {
                double s = 0.0;
                for (i = 0; i < dn; i++) s += (double)q[i] * k[j * (dn + dv) + i];
                for (i = 0; i < dr; i++) s += (double)q[dn + i] * (double)m->flat[j * ld + dc + i];
                p[j] = s * scale;
                if (p[j] > most) most = p[j];
            }
            for (j = lo; j < hi; j++) sum += p[j] = exp(p[j] - most);
            for (i = 0; i < dv; i++) {
                double s = 0.0;
                for (j = lo; j < hi; j++) s += p[j] / sum * k[j * (dn + dv) + dn + i];
                want[(t * H + h) * dv + i] = s;
                if (fabs(s) > top) top = fabs(s);
            }
        }
    }
    return top;
}

static void check(tiny_ctx *ctx, tiny_target target, const made *m, int form)
{
    const size_t n = (size_t)(m->s.queries * m->s.heads * m->s.v);
    double *want = (double *)t_keep(n * sizeof *want), top = expanded(m, want), off = 0.0;
    float *got = (float *)m->o.data;
    size_t i;
    memset(got, 0xff, n * sizeof *got);
    if (!T_OK(run(ctx, m, form))) return;
    for (i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - want[i]);
        if (!(d <= off)) off = d;
    }
    /* the reference sums in double; it rounds the scale, by half a unit of scores up to 6, and the answer */
    if (!T_CLOSE(off, 0.0, (target == TINY_TARGET_REFERENCE ? 4.0 : 200.0) * U * top))
        printf("  %d cells, %d queries, form %d\n", m->s.cells, m->s.queries, form);
    T_WALLS(got, n);
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
}

static void test_forms(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t c;
    for (c = 0; c < T_COUNT(shapes); c++) {
        shape s = shapes[c];
        made m;
        if (s.queries > s.cells) s.queries = s.cells;
        make(&m, &s, (uint32_t)c);
        check(ctx, target, &m, TLLM_LATENT_AUTO);
        check(ctx, target, &m, TLLM_LATENT_ABSORBED);
        check(ctx, target, &m, TLLM_LATENT_EXPANDED);
        if (s.cells < 300) {                /* a scale of its own, as models with stretched positions have */
            m.p.scale = 0.7f / sqrtf((float)(s.nope + s.rope));
            check(ctx, target, &m, TLLM_LATENT_ABSORBED);
            check(ctx, target, &m, TLLM_LATENT_EXPANDED);
            m.p.scale = 0.0f;
        }
        /* a window, a row that sees one cell, and rows in another order: these are absorbed */
        if (s.queries > 3) {
            m.row[4 * 2 + 1] = m.row[4 * 2 + 2] - 1;
            check(ctx, target, &m, TLLM_LATENT_EXPANDED);
            m.row[2] = 1;
            check(ctx, target, &m, TLLM_LATENT_EXPANDED);
        }
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("attention 7", "absorbed equals expanded to 4e-16 in double");
}

/* 1 to 300 tokens, one after the other: ends of tiles, pages and splits */
static void test_every_length(tiny_target target)
{
    static const shape all = { 2, 6, 4, 5, 8, 300, 1, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F32 };
    tiny_ctx *ctx = t_ctx(target, 2);
    made m;
    int n;
    make(&m, &all, 9);
    for (n = 1; n <= all.cells; n++) {
        m.row[2] = (int32_t)n;
        check(ctx, target, &m, TLLM_LATENT_ABSORBED);
        check(ctx, target, &m, TLLM_LATENT_EXPANDED);
    }
    t_close(ctx);
    T_PROOF("attention 7", "E = R = A for 1 to 300 cached tokens");
}

/* T 5, H 2, d_nope 3, d_rope 2, d_v 3, d_c 4, causal, x[i] = ((a i + b) % 17 - 8) / 8 with (a, b) = (37, 11) for q,
 * (29, 3) for the rows [c, r], (23, 5) for w: numpy 2.4.6 in float64, keys and values expanded; its absorbed form was
 * within 1.2e-16 of that. */
static void test_numpy(tiny_target target)
{
    static const double want[30] = { 0.46875,        -0.484375,      0.421875,       0.859375,       0.4375,
                                     -1.3125,        -0.3704446093,  -0.03385999923, -0.3908187269,  0.7614556512,
                                     -0.06841663568, -0.6542643772,  -0.2963482879,  -0.07796774007, -0.3031866652,
                                     0.2278333301,   0.004419651763, -0.1889937549,  0.2234221347,   0.2312898745,
                                     0.2435994783,   -0.3718596525,  0.006013262938, 0.3547046363,   0.1753160138,
                                     0.01169634704,  0.2198437871,   0.2614610648,   0.208930564,    -0.4900448635 };
    static const shape s = { 2, 3, 2, 3, 4, 5, 5, 2, TLLM_FORMAT_F32, TLLM_FORMAT_F32 };
    tiny_ctx *ctx = t_ctx(target, 2);
    made m;
    int form, i, j;
    make(&m, &s, 1);
    for (i = 0; i < 50; i++) ((float *)m.q.data)[i] = (float)((37 * i + 11) % 17 - 8) / 8.0f;
    for (i = 0; i < 48; i++) ((float *)m.w.data)[i] = (float)((23 * i + 5) % 17 - 8) / 8.0f;
    for (i = 0; i < 5; i++)
        for (j = 0; j < 6; j++)
            ((float *)m.k.data)[(((int32_t *)m.table.data)[i / 2] * 2 + i % 2) * 6 + j] =
                (float)((29 * (i * 6 + j) + 3) % 17 - 8) / 8.0f;
    for (form = 0; form < 3; form++) {
        T_OK(run(ctx, &m, form));
        for (i = 0; i < 30; i++)
            T_CLOSE(((float *)m.o.data)[i], want[i], target == TINY_TARGET_REFERENCE ? 6e-8 : 1e-6);
    }
    t_close(ctx);
}

/* the identity: one key head of [c, r] with c as its value, against keys and values of each head, all of it in
 * double */
static void test_identity(tiny_target target)
{
    enum { T = 5, H = 2, DN = 3, DR = 2, DV = 3, DC = 4 };
    tiny_ctx *ctx = t_ctx(target, 1);
    double q[T * (DN + DR)], w[(DN + DV) * DC], row[T * (DC + DR)], k[T * (DN + DR)], v[T * DV], qa[T * (DC + DR)],
        u[T * DC], want[T * DV], got[T * DV];
    tiny_attention_params p;
    int h, i, j;
    memset(&p, 0, sizeof p);
    p.causal = 1;
    p.scale = 0.4472136f;
    for (i = 0; i < T * (DC + DR); i++) row[i] = (double)t_rand_float(-1, 1);
    for (h = 0; h < H; h++) {
        tiny_tensor tq = tiny_tensor_3d(q, TINY_F64, T, 1, DN + DR), tk = tiny_tensor_3d(k, TINY_F64, T, 1, DN + DR),
                    tv = tiny_tensor_3d(v, TINY_F64, T, 1, DV);
        tiny_tensor to = tiny_tensor_3d(want, TINY_F64, T, 1, DV), a = tiny_tensor_3d(qa, TINY_F64, T, 1, DC + DR),
                    r = tiny_tensor_3d(row, TINY_F64, T, 1, DC + DR), c = r;
        tiny_tensor tu = tiny_tensor_3d(u, TINY_F64, T, 1, DC), qn = tiny_tensor_2d(q, TINY_F64, T, DN),
                    wk = tiny_tensor_2d(w, TINY_F64, DN, DC), wv = tiny_tensor_2d(w + DN * DC, TINY_F64, DV, DC);
        tiny_tensor c2 = tiny_tensor_2d(row, TINY_F64, T, DC), k2 = tiny_tensor_2d(k, TINY_F64, T, DN),
                    v2 = tiny_tensor_2d(v, TINY_F64, T, DV), a2 = tiny_tensor_2d(qa, TINY_F64, T, DC);
        tiny_tensor u2 = tiny_tensor_2d(u, TINY_F64, T, DC), g2 = tiny_tensor_2d(got, TINY_F64, T, DV),
                    kt = tiny_tensor_swap(wk, 0, 1), vt = tiny_tensor_swap(wv, 0, 1);
        c.dim[2] = DC;
        c2.stride[0] = a2.stride[0] = DC + DR;
        qn.stride[0] = k2.stride[0] = DN + DR;
        for (i = 0; i < T * (DN + DR); i++) q[i] = (double)t_rand_float(-1, 1);
        for (i = 0; i < (DN + DV) * DC; i++) w[i] = (double)t_rand_float(-1, 1);
        for (i = 0; i < T; i++)
            for (j = 0; j < DR; j++) {
                k[i * (DN + DR) + DN + j] = row[i * (DC + DR) + DC + j];
                qa[i * (DC + DR) + DC + j] = q[i * (DN + DR) + DN + j];
            }
        T_OK(tiny_matmul(ctx, &c2, &kt, NULL, TINY_ACT_NONE, &k2));
        T_OK(tiny_matmul(ctx, &c2, &vt, NULL, TINY_ACT_NONE, &v2));
        T_OK(tiny_attention(ctx, &tq, &tk, &tv, NULL, &p, &to));
        T_OK(tiny_matmul(ctx, &qn, &wk, NULL, TINY_ACT_NONE, &a2));
        T_OK(tiny_attention(ctx, &a, &r, &c, NULL, &p, &tu));
        T_OK(tiny_matmul(ctx, &u2, &vt, NULL, TINY_ACT_NONE, &g2));
        for (i = 0; i < T * DV; i++) T_CLOSE(got[i], want[i], 4e-16);
    }
    t_close(ctx);
    T_PROOF("attention 7", "absorbed equals expanded to 4e-16 in double");
}

static void test_pages(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    shape s = shapes[7];
    uint32_t order;
    int form;
    float *first = t_guarded((size_t)(s.queries * s.heads * s.v));
    for (form = 1; form < 3; form++)
        for (order = 0; order < 3; order++) {
            made m;
            t_now.rand_at = 77;
            make(&m, &s, order);
            T_OK(run(ctx, &m, form));
            if (!order) memcpy(first, m.o.data, (size_t)(s.queries * s.heads * s.v) * sizeof *first);
            else T_SAME((float *)m.o.data, first, s.queries * s.heads * s.v);
        }
    t_close(ctx);
    T_PROOF("attention 7", "paged equals contiguous");
}

/* pairs (2 i, 2 i + 1) by position times 10000^(-2 i / n) */
static void turn(float *x, int n, double at)
{
    int i;
    for (i = 0; i < n; i += 2) {
        const double angle = at * pow(10000.0, -(double)i / (double)n), a = x[i], b = x[i + 1];
        x[i] = (float)(a * cos(angle) - b * sin(angle));
        x[i + 1] = (float)(a * sin(angle) + b * cos(angle));
    }
}

/* A key is rotated once, before it is stored in the row: then only distances matter. Stored unrotated and never
 * rotated, they do not. */
static void test_positions(tiny_target target)
{
    static const shape s = { 4, 16, 8, 16, 32, 50, 1, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F32 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float first[64];
    int wrong, shift, i, h;
    for (wrong = 0; wrong < 2; wrong++)
        for (shift = 0; shift < 2; shift++) {
            made m;
            double off = 0.0;
            t_now.rand_at = 5;
            make(&m, &s, 3);
            for (i = 0; i < s.cells && !wrong; i++)
                turn((float *)m.k.data + (((int32_t *)m.table.data)[i / 16] * 16 + i % 16) * 40 + 32, s.rope,
                     i + 1000 * shift);
            for (h = 0; h < s.heads; h++) turn((float *)m.q.data + h * 24 + 16, s.rope, 49 + 1000 * shift);
            T_OK(run(ctx, &m, TLLM_LATENT_AUTO));
            for (i = 0; i < 64; i++) {
                if (!shift) first[i] = ((float *)m.o.data)[i];
                off += fabs((double)first[i] - (double)((float *)m.o.data)[i]);
            }
            if (shift) T_TRUE(wrong ? off > 0.1 : off < 1e-4);
        }
    t_close(ctx);
    T_PROOF("attention 7", "rotating kr after caching is caught by relative positions");
}

/* AUTO went by the number of queries alone: pieces of a prompt shorter than the turn, with nothing before them, were
 * absorbed at 1.7 times the time. Which form ran shows in the last bits. */
static void test_auto_counts_earlier_tokens(tiny_target target)
{
    static const struct { int cells, queries, form;
    } c[] = { { 16, 16, TLLM_LATENT_EXPANDED },
              { 60, 60, TLLM_LATENT_EXPANDED },
              { 400, 16, TLLM_LATENT_ABSORBED },
              { 400, 80, TLLM_LATENT_EXPANDED },
              { 8, 8, TLLM_LATENT_ABSORBED } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    T_EQ_INT(tllm_latent_turn(16, 16, 64), 21);
    for (i = 0; i < T_COUNT(c); i++) {
        const shape s = { 3, 16, 8, 16, 64, c[i].cells, c[i].queries, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F16 };
        const size_t n = (size_t)c[i].queries * 48;
        float *o[3];
        made m;
        int form;
        make(&m, &s, 9);
        for (form = 0; form < 3; form++) {
            T_OK(run(ctx, &m, form));
            o[form] = (float *)t_keep(n * sizeof **o);
            memcpy(o[form], m.o.data, n * sizeof **o);
        }
        T_TRUE(memcmp(o[1], o[2], n * sizeof **o) != 0);
        if (!T_TRUE(memcmp(o[0], o[c[i].form], n * sizeof **o) == 0))
            printf("  %d queries, %d cells\n", c[i].queries, c[i].cells);
    }
    t_close(ctx);
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    made m, b;
    make(&m, &shapes[1], 3);
    b = m;
#define BAD(change, status, part) \
    (b = m, change, T_STATUS(tllm_latent_attention(ctx, &b.q, &b.k, &b.table, &b.rows, &b.w, &b.p, &b.o), status, part))
    BAD(b.p.d_nope = 2, TINY_E_SHAPE, "3 rotated numbers of a query are not whole pairs");
    BAD(b.p.d_nope = 0, TINY_E_ARGUMENT, "d_nope is 0 and d_v 3: both must be at least 1");
    BAD(b.p.d_v = 0, TINY_E_ARGUMENT, "d_v 0");
    BAD(b.p.form = 3, TINY_E_ARGUMENT, "form 3 is not 0, 1 or 2");
    BAD((b.q.dim[2] = 9, b.p.d_nope = 3), TINY_E_SHAPE, "a row has 6 numbers, 6 of them rotated");
    BAD(b.k.dim[3] = 5000, TINY_E_SHAPE, "5000 numbers, 2 of them rotated: it needs at least 1 more, and at most 4096");
    BAD(b.k.rank = 3, TINY_E_SHAPE, "they must be (blocks, 1, tokens, numbers)");
    BAD(b.w.dim[0] = 11, TINY_E_SHAPE, "12 rows of 4 numbers");
    BAD(b.w.dim[1] = 3, TINY_E_SHAPE, "");
    BAD(b.w.dtype = TINY_I32, TINY_E_SHAPE, "in f32, f16, bf16 or the bytes of a format");
    BAD((b.w.dtype = TINY_U8, b.p.format_w = TLLM_FORMAT_Q8_0), TINY_E_SHAPE,
        "rows of w have 4 bytes, not 4 numbers of Q8_0");
    BAD(b.o.dim[2] = 4, TINY_E_SHAPE, NULL);
    /* the size of its own memory wrapped */
    BAD((b.q.dim[0] = b.rows.dim[0] = b.o.dim[0] = (tiny_idx)1 << (8 * sizeof(tiny_idx) - 16),
         b.k = tiny_tensor_4d(b.k.data, TINY_F32, 48, 1, 3, 4096), b.w = tiny_tensor_2d(b.w.data, TINY_F32, 12, 4094)),
        TINY_E_OVERFLOW, "queries of 2 heads need");
    m.row[0] = 1;
    BAD((void)0, TINY_E_ARGUMENT, "of sequence 1; there are 1 sequences");
    m.row[0] = 0;
    m.row[2] = 97;                          /* the cache holds 32 pages of 3 */
    BAD((void)0, TINY_E_ARGUMENT, "cells 0 to 97 of sequence 0; there are 1 sequences of 32 pages of 3");
    m.row[2] = 1;
    ((int32_t *)m.table.data)[0] = 48;
    BAD((void)0, TINY_E_ARGUMENT, "is block 48, but there are 48");
#undef BAD
    T_TRUE(tllm_latent_turn(128, 128, 512) == 170 && tllm_latent_turn(64, 64, 64) == TINY_IDX_MAX);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(target, 2);
        ctx = NULL;
        make(&b, &shapes[6], 1);
        if (!tiny_ctx_open(&d, &ctx)) {
            const tiny_status st = run(ctx, &b, TLLM_LATENT_EXPANDED);
            T_TRUE(!st || st == TINY_E_MEMORY);
        }
        tiny_ctx_close(ctx);)
    T_PROOF("attention 7", "bad input: dr odd, dc = 0, cache overflow");
}

/* NaN in a latent reaches the queries that see it, and no other; a query that sees nothing gives zeros */
static void test_hidden(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    made m;
    int form, i;
    make(&m, &shapes[6], 4);
    ((float *)m.k.data)[(((int32_t *)m.table.data)[90 / 16] * 16 + 90 % 16) * 32 + 3] = NAN;
    for (form = 1; form < 3; form++) {
        float *o = (float *)m.o.data;
        T_OK(run(ctx, &m, form));
        for (i = 0; i < 80; i++) T_TRUE(o[89 * 80 + i] == o[89 * 80 + i] && o[90 * 80 + i] != o[90 * 80 + i]);
    }
    m.row[2] = 0;
    T_OK(run(ctx, &m, TLLM_LATENT_AUTO));
    for (i = 0; i < 80; i++) T_TRUE(((float *)m.o.data)[i] == 0.0f);
    t_close(ctx);
    T_PROOF("attention 7", "bad input: NaN activation");
}

/* Two windows of one sequence with a gap between them, upwards and downwards, and windows that only touch; queries that
 * see nothing among others. The table has no pages for cells that no query sees. The expanded form must not follow
 * those entries, though it reads the cells between its rows. */
static void test_gaps(tiny_target target)
{
    static const shape s = { 2, 8, 4, 6, 12, 176, 70, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F32 };
    static const int window[][4] = { /* of the first half of the queries, of the second */
                                     { 0, 16, 160, 176 },   { 160, 176, 0, 16 }, { 32, 64, 64, 90 },
                                     { 64, 90, 32, 64 },    { 0, 0, 160, 176 },  { 160, 176, 40, 40 },
                                     { 160, 176, 176, 176 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int form, i, j;
    for (c = 0; c < T_COUNT(window); c++)
        for (form = 0; form < 3; form++) {
            unsigned char seen[TABLE] = { 0 };
            float *o;
            made m;
            make(&m, &s, (uint32_t)c);
            o = (float *)m.o.data;
            for (i = 0; i < s.queries; i++) {
                const int *w = window[c] + (i < s.queries / 2 ? 0 : 2);
                m.row[4 * i + 1] = (int32_t)w[0];
                m.row[4 * i + 2] = (int32_t)w[1];
                for (j = w[0]; j < w[1]; j++) seen[j / 16] = 1;
            }
            for (i = 0; i < TABLE; i++) if (!seen[i]) ((int32_t *)m.table.data)[i] = -900000;
            if (c < 4) check(ctx, target, &m, form);
            /* those that see nothing give zeros, the others the same as if all saw the same cells */
            else if (T_OK(run(ctx, &m, form))) {
                const int half = s.queries / 2, none = window[c][0] == window[c][1] ? 0 : half, other = half - none;
                float *first = (float *)t_keep((size_t)s.queries * 12 * sizeof *first);
                for (i = 0; i < half * 12; i++) T_TRUE(o[none * 12 + i] == 0.0f);
                memcpy(first, o, (size_t)s.queries * 12 * sizeof *first);
                for (i = 0; i < half; i++) memcpy(m.row + 4 * (none + i), m.row + 4 * other, 4 * sizeof *m.row);
                check(ctx, target, &m, TLLM_LATENT_ABSORBED);
                for (i = other * 12; i < (other + half) * 12; i++) T_CLOSE(first[i], o[i], 400.0 * U * 2.0);
            }
            t_free_blocks();
        }
    t_close(ctx);
}

/* Two sequences over the same pages, through a plan: all forms give the same answers, and an expanded request runs
 * absorbed: the same bits. */
static void test_plan(tiny_target target)
{
    static const shape s = { 3, 16, 8, 12, 24, 100, 40, 16, TLLM_FORMAT_F32, TLLM_FORMAT_F16 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t *table = (int32_t *)t_keep(2 * TABLE * sizeof *table);
    tllm_tree_plan *plan = NULL;
    float *first = t_guarded(40 * 36);
    made m;
    int form, i;
    make(&m, &s, 3);
    for (i = 0; i < 2 * TABLE; i++) table[i] = ((int32_t *)m.table.data)[i % TABLE];
    m.table = tiny_tensor_2d(table, TINY_I32, 2, TABLE);
    for (i = 20; i < 40; i++) m.row[4 * i] = 1;
    T_OK(tllm_tree_plan_open(ctx, NULL, &plan));
    T_OK(tllm_tree_plan_set(plan, &m.rows, &m.table, 16));
    T_EQ_INT(tllm_tree_plan_counts(plan).n_tree, 100);
    T_EQ_INT(tllm_tree_plan_counts(plan).n_path, 80 + 100);
    m.p.tree = plan;
    for (form = TLLM_LATENT_EXPANDED; form >= TLLM_LATENT_AUTO; form--) {
        check(ctx, target, &m, form);
        if (form == TLLM_LATENT_EXPANDED) memcpy(first, m.o.data, 40 * 36 * sizeof *first);
        else T_SAME((float *)m.o.data, first, 40 * 36);
    }
    m.p.tree = NULL;                        /* without it they are two forms */
    T_OK(run(ctx, &m, TLLM_LATENT_EXPANDED));
    T_TRUE(target == TINY_TARGET_REFERENCE || memcmp(m.o.data, first, 40 * 36 * sizeof *first) != 0);
    m.p.tree = plan;
    m.rows.dim[0] = m.q.dim[0] = m.o.dim[0] = 39;
    T_STATUS(run(ctx, &m, TLLM_LATENT_AUTO), TINY_E_ARGUMENT, "the plan was set for 40 queries");
    tllm_tree_plan_close(ctx, plan);
    t_close(ctx);
}

static void test_conformance(tiny_target target) { t_conform(target, tllm_latent_attention_row(), T_SLOW ? 10 : 40); }

int main(void)
{
    T_RUN_TARGETS(test_identity);
    T_RUN_FORMS(test_numpy);
    T_RUN_FORMS(test_forms);
    T_RUN_TARGETS(test_every_length);
    T_RUN_FORMS(test_pages);
    T_RUN_FORMS(test_positions);
    T_RUN_FORMS(test_hidden);
    T_RUN_FORMS(test_gaps);
    T_RUN_FORMS(test_plan);
    T_RUN_TARGETS(test_auto_counts_earlier_tokens);
    T_RUN_TARGETS(test_conformance);
    T_RUN_TARGETS(test_bad_input);
    return t_done();
}
