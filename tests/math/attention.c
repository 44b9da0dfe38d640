/* tests/math/attention.c - a case worked by hand, the reference on every target, and invariants */
#include "t.h"

static tiny_status run(tiny_ctx *ctx, const float *q, const float *k, const float *v, float *o, tiny_idx t, tiny_idx s,
                       tiny_idx h, tiny_idx hk, tiny_idx d, const tiny_tensor *bias, const tiny_attention_params *p)
{
    tiny_tensor tq = tiny_tensor_3d((void *)(uintptr_t)q, TINY_F32, t, h, d),
                tk = tiny_tensor_3d((void *)(uintptr_t)k, TINY_F32, s, hk, d);
    tiny_tensor tv = tiny_tensor_3d((void *)(uintptr_t)v, TINY_F32, s, hk, d),
                to = tiny_tensor_3d(o, TINY_F32, t, h, d);
    return tiny_attention(ctx, &tq, &tk, &tv, bias, p, &to);
}

/* Q=[[1,0],[0,1],[1,1]], K=[[1,0],[0,2],[1,1]], V=[[1,2],[3,4],[5,6]], causal, scale 1/sqrt 2: worked by hand */
static void test_worked(tiny_target target)
{
    static const float q[6] = { 1, 0, 0, 1, 1, 1 }, k[6] = { 1, 0, 0, 2, 1, 1 }, v[6] = { 1, 2, 3, 4, 5, 6 };
    static const double want[6] = { 1, 2, 2.608859, 3.608859, 3.406673, 4.406673 };
    float o[6], hide[9] = { 0 };
    tiny_attention_params p;
    tiny_tensor bias = tiny_tensor_2d(hide, TINY_F32, 3, 3);
    tiny_ctx *ctx = t_ctx(target, 2);
    int i, r, c;
    memset(&p, 0, sizeof p);
    p.causal = 1;
    T_OK(run(ctx, q, k, v, o, 3, 3, 1, 1, 2, NULL, &p));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 6; i++) T_CLOSE(o[i], want[i], 2e-6);
    p.causal = 0;                           /* the same by a bias that hides */
    for (r = 0; r < 3; r++) for (c = 0; c < 3; c++) hide[3 * r + c] = c > r ? -INFINITY : 0.0f;
    T_OK(run(ctx, q, k, v, o, 3, 3, 1, 1, 2, &bias, &p));
    for (i = 0; i < 6; i++) T_CLOSE(o[i], want[i], 2e-6);
    p.causal = 1;
    p.softcap = 2.0f;
    T_OK(run(ctx, q, k, v, o, 3, 3, 1, 1, 2, NULL, &p));
    T_CLOSE(o[4], 3.322411, 2e-6);
    T_CLOSE(o[5], 4.322411, 2e-6);
    t_close(ctx);
    T_PROOF("attention 0", "worked case: O of three causal queries");
    T_PROOF("attention 0", "worked case: row 2 with soft-cap 2");
}

/* the bound: 2e-5 max|v| for unit variance and d <= 128 */
static void test_against_reference(tiny_target target)
{
    static const tiny_idx shape[][5] = { { 1, 1, 1, 1, 1 },      { 1, 65, 4, 2, 33 }, { 37, 37, 6, 2, 64 },
                                         { 40, 130, 3, 1, 128 }, { 5, 64, 2, 2, 15 }, { 130, 100, 2, 1, 16 } };
    tiny_ctx *ctx = t_ctx(target, 3), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t c;
    for (c = 0; c < T_COUNT(shape); c++) {
        const tiny_idx *s = shape[c];
        size_t nq = (size_t)(s[0] * s[2] * s[4]), nk = (size_t)(s[1] * s[3] * s[4]), i;
        float *q = t_rand(nq, -1.7f, 1.7f), *k = t_rand(nk, -1.7f, 1.7f), *v = t_rand(nk, -1.7f, 1.7f),
              *o = t_guarded(nq), *want = t_guarded(nq);
        tiny_attention_params p;
        memset(&p, 0, sizeof p);
        for (p.causal = 0; p.causal < 2; p.causal++) {
            T_OK(run(ctx, q, k, v, o, s[0], s[1], s[2], s[3], s[4], NULL, &p));
            T_OK(run(plain, q, k, v, want, s[0], s[1], s[2], s[3], s[4], NULL, &p));
            for (i = 0; i < nq; i++) if (!T_CLOSE(o[i], want[i], 2e-5 * 1.7)) break;
            T_WALLS(o, nq);
        }
    }
    t_close(plain);
    t_close(ctx);
    T_PROOF("attention 0", "the fast form is within 2e-5 max v of the reference");
}

/* one value for all keys is the result for any scores; a query that sees nothing gives zeros; hidden keys may hold
 * anything */
static void test_invariants(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float *q = t_rand(4 * 8, -9.0f, 9.0f), *k = t_rand(6 * 8, -9.0f, 9.0f), *v = t_guarded(6 * 8),
          *o = t_guarded(4 * 8), *o2 = t_guarded(4 * 8);
    tiny_attention_params p;
    int i;
    memset(&p, 0, sizeof p);
    for (i = 0; i < 48; i++) v[i] = (float)(i % 8) - 3.0f;
    T_OK(run(ctx, q, k, v, o, 4, 6, 1, 1, 8, NULL, &p));
    for (i = 0; i < 32; i++) T_CLOSE(o[i], i % 8 - 3, 1e-6);
    p.causal = 1;
    T_OK(run(ctx, q, k, v, o, 4, 2, 1, 1, 8, NULL, &p));    /* two queries come before the first key */
    for (i = 0; i < 32; i++) T_CLOSE(o[i], i < 16 ? 0 : i % 8 - 3, 1e-6);
    for (i = 0; i < 48; i++) v[i] = t_rand_float(-1.0f, 1.0f);
    T_OK(run(ctx, q, k, v, o, 4, 6, 1, 1, 8, NULL, &p));
    for (i = 40; i < 48; i++) { k[i] = NAN; v[i] = INFINITY; }      /* the last key is seen by the last query only */
    T_OK(run(ctx, q, k, v, o2, 4, 6, 1, 1, 8, NULL, &p));
    T_SAME(o, o2, 24);
    T_TRUE(o2[31] != o2[31]);
    t_close(ctx);
    T_PROOF("attention 0", "bad input: a row with every key masked gives zeros");
}

/* Views of stride 0 have more numbers than a workspace can hold: the sizes of a tile must not wrap. */
static void test_longer_than_memory(tiny_target target)
{
    static const int shift[] = { 48, 55, 57, 58, 59 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float one[1] = { 1 }, out[1] = { 5 };
    int8_t byte[1] = { 1 };
    int32_t sum[64] = { 5 };
    size_t i;
    for (i = 0; i < T_COUNT(shift) && sizeof(tiny_idx) == 8; i++) {
        tiny_idx d = (tiny_idx)((uint64_t)1 << shift[i]);
        tiny_tensor q = tiny_tensor_3d(one, TINY_F32, 1, 1, d), v = tiny_tensor_3d(one, TINY_F32, 1, 1, 1),
                    o = tiny_tensor_3d(out, TINY_F32, 1, 1, 1);
        tiny_tensor a = tiny_tensor_2d(byte, TINY_I8, 8, d), b = tiny_tensor_2d(byte, TINY_I8, d, 8),
                    y = tiny_tensor_2d(sum, TINY_I32, 8, 8);
        tiny_status st;
        q.stride[0] = q.stride[1] = q.stride[2] = a.stride[0] = a.stride[1] = b.stride[0] = b.stride[1] = 0;
        st = tiny_attention(ctx, &q, &q, &v, NULL, NULL, &o);
        T_TRUE(st == TINY_E_OVERFLOW || st == TINY_E_MEMORY);
        st = tiny_matmul_i8(ctx, &a, &b, NULL, NULL, NULL, TINY_ACT_NONE, &y);
        T_TRUE(st == TINY_E_OVERFLOW || st == TINY_E_MEMORY);
        T_TRUE(out[0] == 5 && sum[0] == 5);
    }
    t_close(ctx);
    T_PROOF("attention 0", "bad input: sizes that overflow size_t");
}

/* Values that are not finite: the value of a hidden key, by bias or by order, does not matter; that of a visible key
 * does, and a NaN in a score reaches every output of its row. The fast forms agree with the reference. */
static void test_not_finite(tiny_target target)
{
    enum { NQ = 5, NK = 70, D = 3, DV = 19 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *q = t_rand(NQ * D, -1, 1), *k = t_rand(NK * D, -1, 1), *v = t_rand(NK * DV, -1, 1),
          *bias = t_guarded(NQ * NK), *o = t_guarded(NQ * DV), *want = t_guarded(NQ * DV);
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, NQ, 1, D), tk = tiny_tensor_3d(k, TINY_F32, NK, 1, D),
                tv = tiny_tensor_3d(v, TINY_F32, NK, 1, DV);
    tiny_tensor tb = tiny_tensor_2d(bias, TINY_F32, NQ, NK), to = tiny_tensor_3d(o, TINY_F32, NQ, 1, DV),
                tw = tiny_tensor_3d(want, TINY_F32, NQ, 1, DV);
    tiny_op op;
    int i, kind;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = &tq; op.in[1] = &tk; op.in[2] = &tv; op.in[3] = &tb;
    op.out[0] = &tw;
    for (kind = 0; kind < 4; kind++) {
        for (i = 0; i < NQ * NK; i++)
            bias[i] = i % NK == 3 || i % NK == 67 || (i / NK == 2 && i % NK < 66) ? -INFINITY : 0.0f;
        v[3 * DV + 4] = kind & 1 ? NAN : INFINITY;
        v[67 * DV + 18] = NAN;
        if (kind == 2) q[1 * D] = NAN;
        if (kind == 3) { q[1 * D] = 0.5f; bias[4 * NK + 3] = 0.0f; bias[3 * NK + 10] = NAN; }
        T_OK(tiny_attention(ctx, &tq, &tk, &tv, &tb, NULL, &to));
        T_OK(tiny_run_reference(ctx, &op));
        for (i = 0; i < NQ * DV; i++) {
            int row = i / DV, lost = (kind == 2 && row == 1) || (kind == 3 && (row == 3 || (row == 4 && i % DV == 4)));
            if (!T_TRUE((o[i] != o[i]) == lost) || !T_TRUE((want[i] != want[i]) == lost)) {
                printf("    kind %d, row %d, value %d\n", kind, row, i % DV);
                break;
            }
            if (!lost) T_CLOSE(o[i], want[i], 2e-6);
        }
    }
    t_close(ctx);
    T_PROOF("attention 0", "bad input: NaN in k reaches only the rows that may see it");
}

static void test_refused(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[64] = { 0 }, o[64];
    tiny_tensor q = tiny_tensor_3d(x, TINY_F32, 2, 3, 4), k = tiny_tensor_3d(x, TINY_F32, 2, 2, 4),
                y = tiny_tensor_3d(o, TINY_F32, 2, 3, 4), b = tiny_tensor_2d(x, TINY_F32, 3, 2);
    tiny_attention_params p;
    memset(&p, 0, sizeof p);
    T_STATUS(tiny_attention(ctx, &q, &k, &k, NULL, NULL, &y), TINY_E_SHAPE, "3 query heads are not a multiple of 2");
    k.dim[1] = 1;
    T_OK(tiny_attention(ctx, &q, &k, &k, NULL, NULL, &y));
    T_STATUS(tiny_attention(ctx, &q, &k, &k, &b, NULL, &y), TINY_E_SHAPE, "the bias is 3x2 f32");
    k.dim[2] = 3;
    T_STATUS(tiny_attention(ctx, &q, &k, &k, NULL, NULL, &y), TINY_E_SHAPE, "q is 2x3x4 f32, k is 2x1x3 f32");
    k.dim[2] = 4;
    p.softcap = -1.0f;
    T_STATUS(tiny_attention(ctx, &q, &k, &k, NULL, &p, &y), TINY_E_ARGUMENT, "softcap -1");
    p.softcap = NAN;
    T_STATUS(tiny_attention(ctx, &q, &k, &k, NULL, &p, &y), TINY_E_ARGUMENT, "must be finite");
    T_STATUS(tiny_attention(ctx, NULL, &k, &k, NULL, NULL, &y), TINY_E_ARGUMENT, "input 0 is missing");
    T_STATUS(tiny_attention(ctx, &q, &k, NULL, NULL, NULL, &y), TINY_E_ARGUMENT, "input 2 is missing");
    T_STATUS(tiny_attention(ctx, &q, &k, &k, NULL, NULL, NULL), TINY_E_ARGUMENT, "output 0 is missing");
    T_STATUS(tiny_attention(NULL, &q, &k, &k, NULL, NULL, &y), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
    T_PROOF("attention 0", "bad input: query heads no multiple of key heads");
    T_PROOF("attention 0", "bad input: null pointers");
}

int main(void)
{
    T_RUN_TARGETS(test_worked);
    T_RUN_TARGETS(test_against_reference);
    T_RUN_TARGETS(test_invariants);
    T_RUN_TARGETS(test_longer_than_memory);
    T_RUN_TARGETS(test_not_finite);
    T_RUN_TARGETS(test_refused);
    return t_done();
}
