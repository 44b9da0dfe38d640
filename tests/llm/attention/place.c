/* tests/llm/attention/place.c - rotary positions and rows of pages as operations: by hand, against the older code of
 * the models, and by the kit */
#include "t.h"
#include <math.h>

static void test_rotation(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[2 * 6] = { 3, 4, 1, 0, 9, 9, 1, 2, 3, 4, 5, 6 }, y[12];
    const float c[4] = { 0, 1, 0.6f, 0.8f }, s[4] = { 1, 0, 0.8f, 0.6f };
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 2, 1, 6), ty = tiny_tensor_3d(y, TINY_F32, 2, 1, 6),
                tc = tiny_tensor_2d((void *)(uintptr_t)c, TINY_F32, 2, 2), ts = tc;
    tllm_turn_params p = { 0 };
    ts.data = (void *)(uintptr_t)s;
    T_OK(tllm_turn_pairs(ctx, &tx, &tc, &ts, NULL, &ty));
    T_CLOSE(y[0], -4, 0);                   /* a quarter: (3, 4) to (-4, 3) */
    T_CLOSE(y[1], 3, 0);
    T_CLOSE(y[2], 1, 0);                    /* not at all */
    T_CLOSE(y[3], 0, 0);
    T_CLOSE(y[4], 9, 0);                    /* past the pairs */
    T_CLOSE(y[6], 0.6 - 1.6, 1e-6);
    T_CLOSE(y[7], 0.8 + 1.2, 1e-6);
    p.halves = 1;
    T_OK(tllm_turn_pairs(ctx, &tx, &tc, &ts, &p, &tx));         /* pairs (0, 2) and (1, 3), in place */
    T_CLOSE(x[0], -1, 0);
    T_CLOSE(x[2], 3, 0);
    T_CLOSE(x[1], 4, 0);
    T_CLOSE(x[3], 0, 0);
    T_CLOSE(x[5], 9, 0);
    tc.dim[1] = ts.dim[1] = 4;
    T_STATUS(tllm_turn_pairs(ctx, &tx, &tc, &ts, &p, &tx), TINY_E_SHAPE,
             "the cosines are 2x4 f32, they must be (2 rows, pairs) of f32, up to 3 pairs");
    tc.dim[1] = 2;
    ts.dim[1] = 1;
    T_STATUS(tllm_turn_pairs(ctx, &tx, &tc, &ts, &p, &tx), TINY_E_SHAPE, "the sines are 2x1 f32");
    tx.rank = 2;
    T_STATUS(tllm_turn_pairs(ctx, &tx, &tc, &tc, &p, &tx), TINY_E_SHAPE, "it must be (rows, heads, numbers)");
    t_close(ctx);
}

/* Three pages of two parts, four rows each. */
static void test_put(tiny_target target)
{
    static const int formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t place[8] = { 2, 1, 0, 3, 2, 1, 1, 0 };              /* the third goes to the place of the first */
    tiny_tensor tp = tiny_tensor_2d(place, TINY_I32, 4, 2);
    size_t k;
    for (k = 0; k < T_COUNT(formats); k++) {
        const tllm_format *f = tllm_format_of(formats[k]);
        const tiny_dtype type = k == 0 ? TINY_F32 : k == 1 ? TINY_F16 : TINY_U8;
        const size_t row = (size_t)tllm_format_bytes(f, 32), size = 3 * 2 * 4 * row;
        float *x = t_rand(4 * 64, -2, 2);
        unsigned char *pages = (unsigned char *)t_keep(size), *want = (unsigned char *)t_keep(size),
                      *other = (unsigned char *)t_keep(size);
        tiny_tensor t = tiny_tensor_4d(pages, type, 3, 2, 4, (tiny_idx)(row / tiny_dtype_bytes(type))), to = t,
                    tx = tiny_tensor_2d(x, TINY_F32, 4, 64);
        tllm_put_params p;
        int i, part;
        p.format = f->id;
        memset(pages, 0x3c, size);
        memcpy(want, pages, size);
        for (i = 1; i < 4; i++)
            for (part = 0; part < 2; part++) {
                unsigned char *at = want + (size_t)((place[2 * i] * 2 + part) * 4 + place[2 * i + 1]) * row;
                if (k == 0) memcpy(at, x + 64 * i + 32 * part, row);
                else f->pack(x + 64 * i + 32 * part, at, 32, NULL);
            }
        to.data = other;
        T_OK(tllm_put_rows(ctx, &t, &tx, &tp, &p, &to));
        T_TRUE(!memcmp(other, want, size) && pages[0] == 0x3c && pages[size - 1] == 0x3c);
        T_OK(tllm_put_rows(ctx, &t, &tx, &tp, &p, &t));
        T_TRUE(!memcmp(pages, want, size));
        tx.dim[1] = 63;
        T_STATUS(tllm_put_rows(ctx, &t, &tx, &tp, &p, &t), TINY_E_SHAPE, "it must be (rows, 64) of f32");
        tx.dim[1] = 64;
        place[6] = 3;
        T_STATUS(tllm_put_rows(ctx, &t, &tx, &tp, &p, &t), TINY_E_ARGUMENT,
                 "row 3 is for row 0 of page 3, but there are 3 pages of 4");
        place[6] = 1;
        place[7] = -1;
        T_STATUS(tllm_put_rows(ctx, &t, &tx, &tp, &p, &t), TINY_E_ARGUMENT, "row 3 is for row -1");
        place[7] = 0;
        p.format = TLLM_FORMAT_Q6_K;
        if (k > 1)
            T_STATUS(tllm_put_rows(ctx, &t, &tx, &tp, &p, &t), TINY_E_UNSUPPORTED,
                     "blocks of Q8_0 or Q4_0, not of Q6_K");
        if (k > 1) T_STATUS(tllm_put_rows(ctx, &t, &tx, &tp, NULL, &t), TINY_E_UNSUPPORTED, "not of");
        T_TRUE(!memcmp(pages, want, size));
    }
    t_close(ctx);
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tllm_turn_pairs_row(), T_SLOW ? 20 : 60);
    t_conform(target, tllm_put_rows_row(), T_SLOW ? 20 : 60);
}

int main(void)
{
    T_RUN_TARGETS(test_rotation);
    T_RUN_TARGETS(test_put);
    T_RUN_TARGETS(test_conformance);
    return t_done();
}
