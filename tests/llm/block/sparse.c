/* tests/llm/block/sparse.c - products with some rows of a matrix, and the feed-forward network with squared ReLU
 *
 * Truth    a network worked by hand; the whole product in double, which a sparse one must equal for any share of zeros,
 *          0 and 1 among them; and rows that are not in the list, which hold NaN here: a read of them shows. */
#include "t.h"
#define U 5.9604645e-8

static const short formats[] = { TLLM_FORMAT_F32,  TLLM_FORMAT_F16,  TLLM_FORMAT_BF16,
                                 TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q4_K };

static tiny_tensor matrix(void *at, int format, tiny_idx rows, tiny_idx numbers)
{
    const tiny_dtype t = format == TLLM_FORMAT_F32    ? TINY_F32
                         : format == TLLM_FORMAT_F16  ? TINY_F16
                         : format == TLLM_FORMAT_BF16 ? TINY_BF16
                                                      : TINY_U8;
    return tiny_tensor_2d(
        at, t, rows, t == TINY_U8 ? (tiny_idx)tllm_format_bytes(tllm_format_of(format), (uint64_t)numbers) : numbers);
}
/* packed, and unpacked again */
static void *packed(int format, const float *x, size_t n, float *back)
{
    const tllm_format *f = tllm_format_of(format);
    void *w = t_keep(tllm_format_bytes(f, n));
    f->pack(x, w, n, NULL);
    if (back) f->unpack(w, back, n);
    return w;
}

/* W1 = [1 0; 0 1; 1 1; 2 1], x = (1, -1): before 1 -1 0 1, fired 1 0 0 1; W2 = [1 2 3 4; 5 6 7 8] gives 5, 13 */
static void test_by_hand(tiny_target target)
{
    static const float up[8] = { 1, 0, 0, 1, 1, 1, 2, 1 }, down[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, x[2] = { 1, -1 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_relu2_ffn_desc f;
    tllm_relu2_stats stats;
    float y[2], turned[8];
    float *h;
    void *work;
    int32_t *list;
    T_OK(tllm_turn_rows(ctx, TLLM_FORMAT_F32, down, 2, 4, TLLM_FORMAT_F32, turned));
    T_TRUE(turned[0] == 1 && turned[1] == 5 && turned[6] == 4 && turned[7] == 8);
    memset(&f, 0, sizeof f);
    f.d = 2; f.n_ff = 4; f.up = up; f.down = turned;
    work = t_keep(tllm_relu2_ffn_work(&f, 1));
    T_OK(tllm_relu2_ffn(ctx, &f, x, 1, work, y, &stats));
    T_TRUE(y[0] == 5 && y[1] == 13 && stats.n_active == 2 && stats.sparse == 1);
    h = (float *)work;
    T_TRUE(h[0] == 1 && h[1] == 0 && h[2] == 0 && h[3] == 1);
    list = (int32_t *)(void *)((char *)work + 64);
    T_TRUE(list[0] == 0 && list[1] == 3);
    f.most = 0.4f;                          /* two of four are too many: the whole, and the same answer */
    T_OK(tllm_relu2_ffn(ctx, &f, x, 1, work, y, &stats));
    T_TRUE(y[0] == 5 && y[1] == 13 && stats.n_active == 2 && stats.sparse == 0);
    t_close(ctx);
    T_PROOF("attention 7", "tiny FFN: h = 1 0 0 1, y = 5, 13");
    T_PROOF("attention 7", "active list exact");
}

static void test_list(void)
{
    float h[12] = { 0, 1, 0, -0.0f, NAN, 0,  0, 0, 2, 0, 0, 0 };
    int32_t list[6];
    T_EQ_INT(tllm_active_list(h, 1, 6, list), 2);
    T_TRUE(list[0] == 1 && list[1] == 4);
    T_EQ_INT(tllm_active_list(h, 2, 6, list), 3);           /* of either row */
    T_TRUE(list[0] == 1 && list[1] == 2 && list[2] == 4);
    T_EQ_INT(tllm_active_list(h, 0, 6, list), 0);
    T_PROOF("attention 7", "active list exact");
}

/* any share of the rows, against the sum in double; the others hold NaN */
static void test_rows(tiny_target target)
{
    static const short widths[] = { 1, 7, 31, 256, 300, 1280 };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t c, k;
    for (c = 0; c < T_COUNT(formats); c++)
        for (k = 0; k < T_COUNT(widths); k++) {
            const tllm_format *f = tllm_format_of(formats[c]);
            enum { K = 130 };
            const int d = f->values > 1 ? 256 * (1 + widths[k] / 500) : widths[k];
            const size_t row = tllm_format_bytes(f, (uint64_t)d);
            static const short shares[] = { 0, 1, 3, 4, 5, 13, 64, 65, 130 };
            float *x = t_rand(2 * K, -1, 1), *w = t_rand((size_t)(K * d), -1, 1), *back = t_guarded((size_t)(K * d)),
                  *y = t_guarded((size_t)(2 * d));
            size_t s;
            for (s = 0; s < T_COUNT(shares); s += 1 + T_SLOW) {
                const int m = shares[s];
                unsigned char *at = (unsigned char *)packed(formats[c], w, (size_t)(K * d), back);
                int32_t *list = (int32_t *)t_keep((size_t)(m ? m : 1) * sizeof *list);
                tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, K), tw = matrix(at, formats[c], K, d),
                            tl = tiny_tensor_1d(list, TINY_I32, m), ty = tiny_tensor_2d(y, TINY_F32, 2, d);
                int i, j, t;
                char named[K] = { 0 };
                for (i = 0; i < m; i++) {           /* spread out, downwards */
                    list[i] = (int32_t)(K - 1 - i * K / (m ? m : 1));
                    named[list[i]] = 1;
                }
                for (i = 0; i < K; i++)
                    if (!named[i]) memset(at + (size_t)i * row, 0xff, row);
                T_OK(tllm_mix_rows(ctx, &tx, formats[c], &tw, &tl, &ty));
                for (t = 0; t < 2; t++)
                    for (j = 0; j < d; j++) {
                        double sum = 0.0, size = 0.0;
                        for (i = 0; i < m; i++) {
                            const double one = (double)x[t * K + list[i]] * (double)back[list[i] * d + j];
                            sum += one;
                            size += fabs(one);
                        }
                        T_CLOSE(y[t * d + j], sum, (m + 2) * U * size);
                    }
                T_WALLS(y, 2 * d);
                if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
                if (m == K) {               /* all of them without a list: in order, so only the order differs */
                    T_OK(tllm_mix_rows(ctx, &tx, formats[c], &tw, NULL, &ty));
                    for (t = 0; t < 2; t++)
                        for (j = 0; j < d; j++) {
                            double sum = 0.0, size = 0.0;
                            for (i = 0; i < K; i++) {
                                sum += (double)x[t * K + i] * (double)back[i * d + j];
                                size += fabs((double)x[t * K + i] * (double)back[i * d + j]);
                            }
                            T_CLOSE(y[t * d + j], sum, (K + 2) * U * size);
                        }
                }
            }
            t_free_blocks();
        }
    t_close(ctx);
}

/* the network, sparse against dense, at any share; one token and several; the same answer on one thread and three */
static void test_network(tiny_target target)
{
    enum { D = 64, FF = 256, N = 5 };
    static const float levels[] = { 9.0f, 1.2f, 0.6f, 0.0f, -9.0f };
    tiny_ctx *ctx = t_ctx(target, 3), *alone = t_ctx(target, 1);
    float *up = t_rand(FF * D, -1, 1), *down = t_rand(D * FF, -1, 1), *turned = t_guarded(FF * D),
          *x = t_rand(N * D, 0.5f, 1.0f), *y = t_guarded(N * D), *z = t_guarded(N * D);
    double h[FF], want;
    size_t c;
    int n, i, j, t;
    T_OK(tllm_turn_rows(ctx, TLLM_FORMAT_F32, down, D, FF, TLLM_FORMAT_F32, turned));
    T_OK(tllm_turned_check(ctx, TLLM_FORMAT_F32, down, D, FF, TLLM_FORMAT_F32, turned));
    for (c = 0; c < T_COUNT(levels); c++)
        for (n = 1; n <= N; n += N - 1) {
            tllm_relu2_ffn_desc f;
            tllm_relu2_stats stats;
            void *work;
            int fired = 0;
            float *w = (float *)t_keep(FF * D * sizeof *w);
            /* x is positive: fewer fire at a higher level */
            for (i = 0; i < FF * D; i++) w[i] = up[i] - levels[c] * 0.4f;
            memset(&f, 0, sizeof f);
            f.d = D; f.n_ff = FF; f.up = w; f.down = turned;
            f.most = 1.0f;
            work = t_keep(tllm_relu2_ffn_work(&f, n));
            T_OK(tllm_relu2_ffn(ctx, &f, x, n, work, y, &stats));
            T_TRUE(stats.sparse == 1);
            for (t = 0; t < n; t++) {
                for (i = 0; i < FF; i++) {
                    for (h[i] = 0.0, j = 0; j < D; j++) h[i] += (double)w[i * D + j] * (double)x[t * D + j];
                    h[i] = h[i] > 0.0 ? h[i] * h[i] : 0.0;
                    fired += h[i] > 0.0;
                }
                for (j = 0; j < D; j++) {
                    double size = 0.0;
                    for (want = 0.0, i = 0; i < FF; i++) {
                        want += h[i] * (double)down[j * FF + i];
                        size += h[i] * fabs((double)down[j * FF + i]);
                    }
                    T_CLOSE(y[t * D + j], want, 1e-4 * (1.0 + size));
                }
            }
            if (n == 1) T_EQ_INT(stats.n_active, fired);
            else T_TRUE(stats.n_active <= fired && stats.n_active * n >= fired);
            if (c == 0) T_TRUE(stats.n_active == 0 && y[0] == 0.0f);
            if (c == 4) T_EQ_INT(stats.n_active, FF);
            T_OK(tllm_relu2_ffn(alone, &f, x, n, work, z, NULL));
            if (stats.sparse) T_SAME(z, y, n * D);
        }
    x[3] = NAN;                             /* is kept, as in the whole product */
    {
        tllm_relu2_ffn_desc f;
        void *work;
        memset(&f, 0, sizeof f);
        f.d = D; f.n_ff = FF; f.up = up; f.down = turned;
        work = t_keep(tllm_relu2_ffn_work(&f, 1));
        T_OK(tllm_relu2_ffn(ctx, &f, x, 1, work, y, NULL));
        T_TRUE(y[0] != y[0] && y[D - 1] != y[D - 1]);
    }
    t_close(alone);
    t_close(ctx);
    T_PROOF("attention 7", "sparse equals dense for any sparsity, 0 and 1 among them");
    T_PROOF("attention 7", "bad input: NaN activation");
}

/* blocks: rows of neurons packed along their outputs */
static void test_blocks(tiny_target target)
{
    enum { D = 256, FF = 512 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *up = t_rand(FF * D, -1.03f, 0.97f), *down = t_rand(D * FF, -1, 1), *x = t_rand(D, 0, 1), *y = t_guarded(D);
    static const short kinds[] = { TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    size_t c;
    int i, j;
    for (c = 0; c < T_COUNT(kinds); c++) {
        const tllm_format *g = tllm_format_of(kinds[c]);
        const size_t row = tllm_format_bytes(g, D);
        unsigned char *turned = (unsigned char *)t_guarded_bytes(FF * row);
        float one[D];
        tllm_relu2_ffn_desc f;
        tllm_relu2_stats stats;
        void *work;
        double want[D] = { 0 }, size = 0.0;
        memset(&f, 0, sizeof f);
        f.d = D; f.n_ff = FF; f.format_up = TLLM_FORMAT_F32; f.format_down = kinds[c];
        f.up = up;
        T_OK(tllm_turn_rows(ctx, TLLM_FORMAT_F32, down, D, FF, kinds[c], turned));
        T_WALLS(turned, FF * row);
        T_OK(tllm_turned_check(ctx, TLLM_FORMAT_F32, down, D, FF, kinds[c], turned));
        f.down = turned;
        work = t_keep(tllm_relu2_ffn_work(&f, 1));
        T_OK(tllm_relu2_ffn(ctx, &f, x, 1, work, y, &stats));
        T_TRUE(stats.sparse && stats.n_active > 0 && stats.n_active < FF / 2);
        for (i = 0; i < FF; i++) {
            double h = 0.0;
            for (j = 0; j < D; j++) h += (double)up[i * D + j] * (double)x[j];
            if (h <= 0.0) continue;
            g->unpack(turned + (size_t)i * row, one, D);
            for (j = 0; j < D; j++) {
                T_TRUE(fabsf(one[j] - down[j * FF + i]) < (c == 0 ? 6e-4f : c == 1 ? 5e-3f : 0.14f));
                want[j] += h * h * (double)one[j];
                size += h * h / D;
            }
        }
        for (j = 0; j < D; j++) T_CLOSE(y[j], want[j], 1e-4 * (1.0 + size));
    }
    t_close(ctx);
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float *w = t_rand(64 * 96, -1, 1), *turned = t_guarded(64 * 96), *round = t_guarded(64 * 96), x[96] = { 0 }, y[96];
    int32_t list[3] = { 0, 5, 63 };
    int i;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 64), tw = tiny_tensor_2d(w, TINY_F32, 64, 96),
                tl = tiny_tensor_1d(list, TINY_I32, 3), ty = tiny_tensor_2d(y, TINY_F32, 1, 96), b;
    tllm_relu2_ffn_desc f, d;
    float work[512];
    T_OK(tllm_mix_rows(ctx, &tx, 0, &tw, &tl, &ty));
    T_EQ_INT(tllm_active_list(NULL, 64, 3, list), 0);
    T_EQ_INT(tllm_active_list(x, 64, 3, NULL), 0);
    list[1] = 64;
    T_STATUS(tllm_mix_rows(ctx, &tx, 0, &tw, &tl, &ty), TINY_E_ARGUMENT, "entry 1 of the list is row 64, but");
    list[1] = -1;
    T_STATUS(tllm_mix_rows(ctx, &tx, 0, &tw, &tl, &ty), TINY_E_ARGUMENT, "entry 1 of the list is row -1");
    list[1] = 5;
    b = tiny_tensor_swap(tw, 0, 1);
    b.dim[0] = 64;
    T_STATUS(tllm_mix_rows(ctx, &tx, 0, &b, &tl, &ty), TINY_E_UNSUPPORTED, "must be contiguous");
    b = tw;
    b.dim[0] = 63;
    T_STATUS(tllm_mix_rows(ctx, &tx, 0, &b, &tl, &ty), TINY_E_SHAPE, "it must be 64 rows");
    b = tw;
    b.dtype = TINY_U8;
    T_STATUS(tllm_mix_rows(ctx, &tx, 999, &b, &tl, &ty), TINY_E_ARGUMENT, "format 999");
    T_STATUS(tllm_mix_rows(ctx, &tx, TLLM_FORMAT_Q8_0, &b, &tl, &ty), TINY_E_ARGUMENT,
             "rows of 96 bytes are not whole blocks");
    b = tl;
    b.dtype = TINY_F32;
    T_STATUS(tllm_mix_rows(ctx, &tx, 0, &tw, &b, &ty), TINY_E_SHAPE, "dense i32");
    /* a transposed matrix: the check of imports finds it */
    T_OK(tllm_turn_rows(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, turned));
    T_OK(tllm_turned_check(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, turned));
    memcpy(round, turned, 64 * 96 * sizeof *round);
    /* 91 rows go round: an earlier count of columns wrapped after 7, and all of these passed */
    for (i = 7; i < 91; i += 7) {
        memcpy(round, turned + 64 * i, (size_t)(91 - i) * 64 * sizeof *round);
        memcpy(round + 64 * (91 - i), turned, (size_t)i * 64 * sizeof *round);
        T_STATUS(tllm_turned_check(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, round), TINY_E_FORMAT,
                 "another order");
    }
    T_STATUS(tllm_turned_check(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, w), TINY_E_FORMAT,
             "the copy has another order, or is of another matrix");
    turned[5] += 3.0f;
    T_STATUS(tllm_turned_check(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, turned), TINY_E_FORMAT,
             "products with the 64 x 96 matrix");
    T_STATUS(tllm_turn_rows(ctx, TLLM_FORMAT_F32, w, 63, 96, TLLM_FORMAT_Q8_0, turned), TINY_E_UNSUPPORTED,
             "of 63 as Q8_0");
    T_STATUS(tllm_turn_rows(ctx, TLLM_FORMAT_F32, w, 0, 96, TLLM_FORMAT_F32, turned), TINY_E_ARGUMENT, "0 rows");
    memset(&f, 0, sizeof f);
    f.d = 96; f.n_ff = 64; f.d_out = 96; f.up = w; f.down = w;
#define BAD(change, part) (d = f, change, T_STATUS(tllm_relu2_ffn(ctx, &d, x, 1, work, y, NULL), TINY_E_ARGUMENT, part))
    T_OK(tllm_relu2_ffn(ctx, &f, x, 1, work, y, NULL));
    BAD(d.n_ff = 0, "through 0 neurons");
    BAD(d.d = 0, "rows of 0 numbers");
    BAD(d.up = NULL, "weights, x, work and y are needed");
    BAD(d.most = 1.5f, "a share of 1.5");
    BAD(d.most = NAN, "a share of");
    BAD(d.format_down = TLLM_FORMAT_Q4_K, "not whole blocks");
    BAD(d.format_up = -3, "as format -3");
#undef BAD
    T_TRUE(tllm_relu2_ffn_work(&f, 1) <= sizeof work && tllm_relu2_ffn_work(NULL, 1) == 0);
    f.n_ff = TINY_IDX_MAX;
    T_TRUE(tllm_relu2_ffn_work(&f, 3) == 0);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(target, 2);
        ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tiny_status st = tllm_turn_rows(ctx, TLLM_FORMAT_F32, w, 64, 96, TLLM_FORMAT_F32, turned);
            T_TRUE(!st || st == TINY_E_MEMORY);
            st = tllm_mix_rows(ctx, &tx, 0, &tw, &tl, &ty);
            T_TRUE(!st || st == TINY_E_MEMORY);
        }
        tiny_ctx_close(ctx);)
    T_PROOF("attention 7", "bad input: W2 stored in the wrong order");
}

static void test_conformance(tiny_target target) { t_conform(target, tllm_mix_rows_row(), T_SLOW ? 12 : 48); }

static void test_reference(void)
{
    test_by_hand(TINY_TARGET_REFERENCE);
    test_rows(TINY_TARGET_REFERENCE);
    test_network(TINY_TARGET_REFERENCE);
    test_blocks(TINY_TARGET_REFERENCE);
}

int main(void)
{
    T_RUN(test_reference);
    T_RUN(test_list);
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_rows);
    T_RUN_TARGETS(test_network);
    T_RUN_TARGETS(test_blocks);
    T_RUN_TARGETS(test_conformance);
    T_RUN_TARGETS(test_bad_input);
    return t_done();
}
