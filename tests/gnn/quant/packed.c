/* tests/gnn/quant/packed.c - packed rows against the quantizer, their product and the sums of nibbles against plain
 * loops of whole numbers */
#define T_GNN
#include "t.h"

typedef struct rows { tiny_idx n, f; float *x, *step, *bits; tiny_tensor tx; } rows;

static rows make_rows(tiny_idx n, tiny_idx f, int positive)
{
    rows r;
    tiny_idx i;
    r.n = n;
    r.f = f;
    r.x = t_rand((size_t)(n * f), positive ? 0.0f : -1.0f, 1.0f);
    r.step = t_rand((size_t)n, 0.01f, 0.4f);
    r.bits = t_guarded((size_t)n);
    for (i = 0; i < n; i++) r.bits[i] = (float)(1 + t_rand_below(8));
    r.tx = tiny_tensor_2d(r.x, TINY_F32, n, f);
    return r;
}

/* of every width around eight and sixteen: unpacked rows equal those of the quantizer, and the bytes are those of the
 * paper's measure */
static void test_rows(tiny_target target)
{
    static const tiny_idx sizes[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t a, b;
    int positive;
    for (a = 0; a < T_COUNT(sizes); a++)
        for (b = 0; b < T_COUNT(sizes); b++)
            for (positive = 0; positive < 2; positive++) {
                rows r = make_rows(sizes[a], sizes[b], positive);
                const size_t count = (size_t)(r.n * r.f);
                float *want = t_guarded(count), *got = t_guarded(count);
                tiny_tensor tw = tiny_tensor_2d(want, TINY_F32, r.n, r.f), tg = tiny_tensor_2d(got, TINY_F32, r.n, r.f);
                tiny_tensor step = tiny_tensor_1d(r.step, TINY_F32, r.n), bits = tiny_tensor_1d(r.bits, TINY_F32, r.n);
                tgnn_packed p;
                T_OK(tgnn_packed_make(ctx, &r.tx, r.step, r.bits, r.n, NULL, positive, &p));
                T_OK(tgnn_packed_get(ctx, &p, &tg));
                T_OK(tgnn_a2q(ctx, &r.tx, &step, &bits, NULL, NULL, &tw));
                { size_t i, bad = 0; for (i = 0; i < count; i++) bad += got[i] != want[i]; T_EQ_INT(bad, 0); }
                T_WALLS(got, count);
                T_CLOSE((double)p.n_bits, tgnn_a2q_kilobytes(r.bits, r.n, r.f, positive) * 8192.0,
                        1e-6 * (double)(count + 1));
                /* less than a byte for each number of bits */
                T_TRUE(p.n_bytes * 8 >= p.n_bits && p.n_bytes * 8 < p.n_bits + 8 * 8);
                tgnn_packed_free(ctx, &p);
            }
    t_close(ctx);
    T_PROOF("graphs 1", "M matches the count of packed bits");
    T_PROOF("graphs 1", "pack and unpack of rows is the identity");
}

/* sums of whole numbers are exact; each is scaled twice, and every target gives the same */
static void test_product(tiny_target target)
{
    static const struct {
        tiny_idx n, f, out;
    } each[] = { { 1, 1, 1 }, { 5, 16, 7 }, { 9, 17, 16 }, { 300, 33, 5 }, { 3000, 200, 64 }, { 40, 600, 3 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int positive;
    for (c = 0; c < T_COUNT(each); c++)
        for (positive = 0; positive < 2; positive++) {
            rows r = make_rows(each[c].n, each[c].f, positive);
            const tiny_idx out = each[c].out;
            int8_t *w = (int8_t *)t_guarded_bytes((size_t)(out * r.f));
            float *scale = t_rand((size_t)out, 0.01f, 1.0f), *y = t_guarded((size_t)(r.n * out));
            tiny_tensor tw = tiny_tensor_2d(w, TINY_I8, out, r.f), ts = tiny_tensor_1d(scale, TINY_F32, out),
                        ty = tiny_tensor_2d(y, TINY_F32, r.n, out);
            tgnn_packed p;
            tiny_idx i, j, k;
            int bad = 0;
            for (i = 0; i < out * r.f; i++) w[i] = (int8_t)((int)t_rand_below(15) - 7);
            T_OK(tgnn_packed_make(ctx, &r.tx, r.step, r.bits, r.n, NULL, positive, &p));
            T_OK(tgnn_packed_product(ctx, &p, &tw, &ts, &ty));
            for (i = 0; i < r.n; i++) {
                const int limit = (1 << ((int)r.bits[i] - 1)) - 1;
                for (j = 0; j < out; j++) {
                    long sum = 0;
                    float want;
                    for (k = 0; k < r.f; k++) {
                        const float z = fabsf(r.x[i * r.f + k]) / r.step[i];
                        const long q = (long)((z < (float)limit ? z : (float)limit) + 0.5f);
                        sum += (r.x[i * r.f + k] < 0 ? -q : q) * w[j * r.f + k];
                    }
                    want = (float)sum * r.step[i] * scale[j];
                    bad += fabsf(y[i * out + j] - want) > 3e-7f * fabsf(want);
                }
            }
            T_EQ_INT(bad, 0);
            T_WALLS(y, r.n * out);
            tgnn_packed_free(ctx, &p);
        }
    t_close(ctx);
}

/* rows with more edges than a byte holds sums of, and rows with none */
static void test_sums(tiny_target target)
{
    static const tiny_idx widths[] = { 1, 5, 8, 15, 16, 17, 64, 65, 130 };
    enum { N = 70, M = 3000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    for (c = 0; c < T_COUNT(widths); c++) {
        const tiny_idx f = widths[c];
        int64_t *offset = (int64_t *)t_guarded_bytes((N + 1) * 8);
        int32_t *col = (int32_t *)t_guarded_bytes(M * 4);
        int8_t *q = (int8_t *)t_guarded_bytes((size_t)(N * f)), *back = (int8_t *)t_guarded_bytes((size_t)f);
        float *factor = t_rand(N, 0.1f, 2.0f), *step = t_rand((size_t)f, 0.1f, 2.0f),
              *bias = t_rand((size_t)f, -1.0f, 1.0f), *y = t_guarded((size_t)(N * f));
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, f);
        tgnn_nibbles t;
        tiny_sparse a;
        tiny_idx i, j;
        int64_t p;
        int bad = 0, k;
        /* row 0 is empty, row 1 has 1501 */
        for (i = 0; i <= N; i++) offset[i] = i < 2 ? 0 : i == N ? M : (int64_t)(M / 2 + i * i / 4);
        for (p = 0; p < M; p++) col[p] = (int32_t)t_rand_below(N);
        for (i = 0; i < N * f; i++) q[i] = (int8_t)((int)t_rand_below(15) - 7);
        for (j = 0; j < f; j++) q[3 * f + j] = 7;
        for (p = 0; p < 600; p++) col[p] = 3;                  /* the largest again and again */
        memset(&a, 0, sizeof a);
        a.form = TINY_CSR;
        a.n_rows = a.n_cols = N;
        a.n = M;
        a.offset = offset;
        a.col = col;
        T_OK(tgnn_nibbles_make(ctx, N, f, &t));
        for (i = 0; i < N; i++) {
            tgnn_nibbles_put(&t, i, q + i * f);
            tgnn_nibbles_get(&t, i, back);
            bad += memcmp(back, q + i * f, (size_t)f) != 0;
        }
        T_EQ_INT(bad, 0);
        for (k = 0; k < 2; k++) {
            T_OK(tgnn_nibbles_sum(ctx, &a, &t, k ? 1.25f : 0.0f, k ? NULL : factor, step, k ? NULL : bias, &ty));
            for (i = 0; i < N; i++)
                for (j = 0; j < f; j++) {
                    float want;
                    long sum = 0;
                    for (p = offset[i]; p < offset[i + 1]; p++) sum += q[col[p] * f + j];
                    want = k ? ((float)sum + 1.25f * (float)q[i * f + j]) * step[j]
                             : (float)sum * step[j] * factor[i] + bias[j];
                    bad += fabsf(y[i * f + j] - want) > 1e-6f * (1.0f + fabsf(want));
                }
            T_EQ_INT(bad, 0);
        }
        T_WALLS(y, N * f);
        tgnn_nibbles_free(ctx, &t);
    }
    t_close(ctx);
}

static void test_quantize_nibbles(void)
{
    enum { N = 40, F = 21 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float *z = t_rand(N * F, -2.0f, 2.0f), *factor = t_rand(N, 0.2f, 1.0f), *step = t_rand(F, 0.01f, 0.5f),
          *want = t_guarded(N * F), *scaled = t_guarded(N * F);
    tiny_tensor tz = tiny_tensor_2d(z, TINY_F32, N, F), ts = tiny_tensor_2d(scaled, TINY_F32, N, F),
                tw = tiny_tensor_2d(want, TINY_F32, N, F), steps = tiny_tensor_1d(step, TINY_F32, F);
    tgnn_a2q_params p;
    tgnn_nibbles t;
    int8_t q[F];
    int i, j, bad = 0;
    memset(&p, 0, sizeof p);
    p.by_column = 1;
    p.bits = 4;
    for (i = 0; i < N * F; i++) scaled[i] = z[i] * factor[i / F];
    T_OK(tgnn_a2q(ctx, &ts, &steps, NULL, NULL, &p, &tw));
    T_OK(tgnn_nibbles_make(ctx, N, F, &t));
    T_OK(tgnn_nibbles_quantize(ctx, &tz, factor, step, &t));
    for (i = 0; i < N; i++) {
        tgnn_nibbles_get(&t, i, q);
        for (j = 0; j < F; j++) bad += (float)q[j] * step[j] != want[i * F + j];
    }
    T_EQ_INT(bad, 0);
    z[5 * F + 3] = NAN;
    T_STATUS(tgnn_nibbles_quantize(ctx, &tz, factor, step, &t), TINY_E_NUMERIC, "a number is NaN");
    tgnn_nibbles_free(ctx, &t);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[6] = { 1, 2, 3, -4, 5, 6 }, step[2] = { 0.5f, 0.25f }, bits[2] = { 3, 4 }, y[6];
    int32_t group[2] = { 0, 2 };
    int64_t offset[3] = { 0, 1, 2 };
    int32_t col[2] = { 0, 2 };
    int8_t w[6] = { 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), none = tiny_tensor_2d(x, TINY_F32, 2, 0),
                ty = tiny_tensor_2d(y, TINY_F32, 2, 3), tw = tiny_tensor_2d(w, TINY_I8, 2, 2),
                ts = tiny_tensor_1d(step, TINY_F32, 2);
    tgnn_packed p;
    tgnn_nibbles t;
    tiny_sparse a;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 3, NULL, 0, &p), TINY_E_SHAPE, "3 steps for 2 rows");
    T_STATUS(tgnn_packed_make(ctx, &none, step, bits, 2, NULL, 0, &p), TINY_E_SHAPE, "2 rows of 0 features");
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, group, 0, &p), TINY_E_ARGUMENT,
             "row 1 has the group 2, but there are 2");
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 1, &p), TINY_E_NUMERIC, "NaN or negative");
    step[1] = 0;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p), TINY_E_NUMERIC,
             "step 1 is 0; it must be finite and not 0");
    step[1] = NAN;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p), TINY_E_NUMERIC, "step 1 is");
    step[1] = 0.25f;
    bits[0] = 0;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p), TINY_E_NUMERIC,
             "0 bits at 0; there must be 1 to 8");
    bits[0] = 9;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p), TINY_E_NUMERIC, "9 bits at 0");
    bits[0] = 3;
    x[1] = NAN;
    T_STATUS(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p), TINY_E_NUMERIC, "a feature is NaN");
    x[1] = INFINITY;                        /* clipped like any large number */
    T_OK(tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 0, &p));
    T_OK(tgnn_packed_get(ctx, &p, &ty));
    T_CLOSE(y[1], 1.5, 0);
    T_STATUS(tgnn_packed_product(ctx, &p, &tw, &ts, &ty), TINY_E_SHAPE, "w must be i8 of rows of 3");
    ty.dim[1] = 2;
    T_STATUS(tgnn_packed_get(ctx, &p, &ty), TINY_E_SHAPE, "y must be 2 x 3 f32");
    tgnn_packed_free(ctx, &p);
    T_STATUS(tgnn_nibbles_make(ctx, 3, 0, &t), TINY_E_SHAPE, "3 rows of 0");
    T_OK(tgnn_nibbles_make(ctx, 2, 3, &t));
    memset(&a, 0, sizeof a);
    a.form = TINY_CSR;
    a.n_rows = a.n_cols = a.n = 2;
    a.offset = offset;
    a.col = col;
    ty = tiny_tensor_2d(y, TINY_F32, 2, 3);
    T_STATUS(tgnn_nibbles_sum(ctx, &a, &t, 0, NULL, x, NULL, &ty), TINY_E_FORMAT, "an edge is out of range");
    a.n_cols = 3;
    T_STATUS(tgnn_nibbles_sum(ctx, &a, &t, 0, NULL, x, NULL, &ty), TINY_E_SHAPE, "have a row for each");
    tgnn_nibbles_free(ctx, &t);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&d, &ctx)) {
            float x[6] = { 1, 2, 3, 4, 5, 6 };
            float step[2] = { 0.5f, 0.25f };
            float bits[2] = { 3, 4 };
            float y[4];
            int8_t w[6] = { 1, 2, 3, 4, 5, 6 };
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3);
            tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 2, 2);
            tiny_tensor tw = tiny_tensor_2d(w, TINY_I8, 2, 3);
            tiny_tensor ts = tiny_tensor_1d(step, TINY_F32, 2);
            tgnn_packed p;
            if (!tgnn_packed_make(ctx, &tx, step, bits, 2, NULL, 1, &p))
                (void)tgnn_packed_product(ctx, &p, &tw, &ts, &ty);
            tgnn_packed_free(ctx, &p);
            tiny_ctx_close(ctx);
        })
}

int main(void)
{
    T_RUN_FORMS(test_rows);
    T_RUN_FORMS(test_product);
    T_RUN_FORMS(test_sums);
    T_RUN(test_quantize_nibbles);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
