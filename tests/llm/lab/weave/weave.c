/* tests/llm/lab/weave/weave.c - data sets stored by the weight of their bits: the layout word by word, any precision of
 * one copy, products in three ways */
#include "t.h"

static const tiny_idx sizes_n[] = { 1, 7, 8, 9, 17 }, sizes_f[] = { 1, 63, 64, 65, 130, 300 };

/* multiples of 2^-24; the first two samples have the ends of each range where there are two */
static float *numbers(tiny_idx n, tiny_idx f)
{
    float *x = t_guarded((size_t)(n * f));
    tiny_idx i;
    for (i = 0; i < n * f; i++) x[i] = (float)(t_rand_u64() >> 40) / 16777216.0f;
    for (i = 0; i < f; i++) {
        x[i] = 0.0f;
        if (n > 1) x[f + i] = 1.0f;
    }
    return x;
}
/* floor(x (2^32 - 1)) of a multiple of 2^-24, without a product: x 2^32 is whole, and x itself is less than one off */
static uint32_t code_of(float x)
{
    return x == 1.0f ? 0xffffffffu : x > 0.0f ? (uint32_t)((double)x * 4294967296.0) - 1u : 0u;
}

/* the address formula: a 32-bit word, and a bit of it */
static int bit_at(const unsigned char *lines, tiny_idx f, tiny_idx i, tiny_idx j, int k)
{
    const size_t word =
        (size_t)((i / 8) * ((f + 63) / 64) + j / 64) * 512 + (size_t)(16 * k + 2 * (i % 8) + j % 64 / 32);
    return lines[4 * word + (size_t)(j % 32 / 8)] >> (j % 8) & 1;
}

static void test_layout(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t a, b;
    for (a = 0; a < T_COUNT(sizes_n); a++)
        for (b = 0; b < T_COUNT(sizes_f); b++) {
            const tiny_idx n = sizes_n[a], f = sizes_f[b], full_n = (n + 7) / 8 * 8, full_f = (f + 63) / 64 * 64;
            float *x = numbers(n, f);
            tiny_tensor t = tiny_tensor_2d(x, TINY_F32, n, f);
            tllm_weave w;
            tiny_idx i, j;
            int k, wrong = 0;
            T_OK(tllm_weave_make(ctx, &t, &w));
            T_EQ_INT(tllm_weave_bytes(n, f), 4 * full_n * full_f);
            T_EQ_INT(w.n_bytes, 4 * full_n * full_f);
            for (i = 0; i < full_n; i++)
                for (j = 0; j < full_f; j++)
                    for (k = 0; k < 32; k++) {
                        const int inside = i < n && j < f && n > 1;       /* of one sample every feature is constant */
                        wrong +=
                            bit_at(w.lines, f, i, j, k) != (inside ? (int)(code_of(x[i * f + j]) >> (31 - k) & 1u) : 0);
                    }
            T_EQ_INT(wrong, 0);
            tllm_weave_close(ctx, &w);
        }
    T_PROOF("quantization 7", "address formula against brute force; sizes N = 1, 63, 64, 65 and n = 1, 7, 8, 9");
    t_close(ctx);
}

static void test_read(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t a, b;
    for (a = 0; a < T_COUNT(sizes_n); a++)
        for (b = 0; b < T_COUNT(sizes_f); b++) {
            const tiny_idx n = sizes_n[a], f = sizes_f[b], first = n / 3;
            float *x = numbers(n, f), *values = t_guarded((size_t)(n * f));
            uint32_t *got = (uint32_t *)t_guarded_bytes((size_t)(n * f) * 4);
            uint16_t *half = (uint16_t *)t_guarded_bytes((size_t)(n * f) * 2);
            uint8_t *byte = (uint8_t *)t_guarded_bytes((size_t)(n * f));
            tiny_tensor t = tiny_tensor_2d(x, TINY_F32, n, f), out;
            tllm_weave w;
            tiny_idx i;
            int s, wrong = 0;
            T_OK(tllm_weave_make(ctx, &t, &w));
            for (s = 1; s <= 32; s++) {
                out = tiny_tensor_2d(got, TINY_I32, n - first, f);
                T_OK(tllm_weave_read(ctx, &w, first, s, &out));
                out = tiny_tensor_2d(values, TINY_F32, n - first, f);
                T_OK(tllm_weave_read(ctx, &w, first, s, &out));
                out = tiny_tensor_2d(half, TINY_I16, n - first, f);
                if (s <= 16) T_OK(tllm_weave_read(ctx, &w, first, s, &out));
                out = tiny_tensor_2d(byte, TINY_U8, n - first, f);
                if (s <= 8) T_OK(tllm_weave_read(ctx, &w, first, s, &out));
                for (i = 0; i < (n - first) * f; i++) {
                    const uint32_t want = (n > 1 ? code_of(x[first * f + i]) : 0) >> (32 - s);
                    wrong += got[i] != want || values[i] != (float)ldexp((double)want, -s) ||
                             (s <= 16 && half[i] != want) || (s <= 8 && byte[i] != want);
                }
            }
            T_EQ_INT(wrong, 0);
            T_WALLS(got, n * f);
            T_WALLS(values, n * f);
            T_WALLS(half, n * f);
            T_WALLS(byte, n * f);
            tllm_weave_close(ctx, &w);
        }
    T_PROOF("quantization 7", "read at 32 bits returns the exact codes");
    T_PROOF("quantization 7", "s-bit read = code >> (32-s) for every s");
    t_close(ctx);
}

static void test_worked(void)
{
    static const float x[5] = { 0.0f, 0.25f, 0.5f, 0.75f, 1.0f }, y[5] = { -3.0f, -2.0f, -1.0f, 0.0f, 1.0f };
    static const uint32_t code[5] = { 0, 0x3fffffffu, 0x7fffffffu, 0xbfffffffu, 0xffffffffu };
    static const float two[5] = { 0.0f, 0.0f, 0.25f, 0.5f, 0.75f };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float rows[15], got[15];
    int32_t codes[15];
    tiny_tensor t = tiny_tensor_2d(rows, TINY_F32, 5, 3), out = tiny_tensor_2d(codes, TINY_I32, 5, 3),
                v = tiny_tensor_2d(got, TINY_F32, 5, 3);
    tllm_weave w;
    int i;
    for (i = 0; i < 5; i++) {
        rows[3 * i] = x[i];
        rows[3 * i + 1] = y[i];             /* the same range, from -3 to 1 */
        rows[3 * i + 2] = 7.5f;             /* constant */
    }
    T_OK(tllm_weave_make(ctx, &t, &w));
    T_OK(tllm_weave_read(ctx, &w, 0, 32, &out));
    T_OK(tllm_weave_read(ctx, &w, 0, 2, &v));
    for (i = 0; i < 5; i++) {
        T_EQ_INT((uint32_t)codes[3 * i], code[i]);
        T_EQ_INT((uint32_t)codes[3 * i + 1], code[i]);
        T_EQ_INT(codes[3 * i + 2], 0);
        T_CLOSE(got[3 * i], two[i], 0);
    }
    tllm_weave_close(ctx, &w);
    T_PROOF("quantization 7", "0.25 becomes 0 at 2 bits; a constant feature is 0");
    t_close(ctx);
}

static void test_put(tiny_target target)    /* in pieces, strided, backwards, beyond the range */
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const tiny_idx n = 37, f = 70;
    float *x = t_rand((size_t)(n * f), -2.0f, 3.0f), *low = t_guarded((size_t)f), *high = t_guarded((size_t)f),
          *turned = t_guarded((size_t)(n * f));
    tiny_tensor whole = tiny_tensor_2d(x, TINY_F32, n, f), part;
    tllm_weave a, b;
    tiny_idx i, j;
    for (i = 0; i < n; i++) for (j = 0; j < f; j++) turned[j * n + i] = x[i * f + j];
    T_OK(tllm_weave_make(ctx, &whole, &a));
    part = tiny_tensor_2d(x, TINY_F32, 10, f);
    T_OK(tllm_weave_range(ctx, &part, 0, low, high));
    part = tiny_tensor_2d(x + 10 * f, TINY_F32, n - 10, f);
    T_OK(tllm_weave_range(ctx, &part, 1, low, high));
    T_SAME(low, a.low, f);
    T_SAME(high, a.high, f);
    T_OK(tllm_weave_open(ctx, n, f, low, high, &b));
    for (i = n; i > 0; i -= j) {
        j = i < 5 ? i : 5;
        part = tiny_tensor_swap(tiny_tensor_2d(turned, TINY_F32, f, n), 0, 1);
        part.data = turned + i - j;
        part.dim[0] = j;
        T_OK(tllm_weave_put(ctx, &b, i - j, &part));
    }
    T_SAME(a.lines, b.lines, a.n_bytes);
    for (i = 0; i < f; i++) x[i] = i % 2 ? 100.0f : -100.0f;        /* beyond: the ends */
    part = tiny_tensor_2d(x, TINY_F32, 1, f);
    T_OK(tllm_weave_put(ctx, &b, 3, &part));
    part = tiny_tensor_2d(turned, TINY_I32, 1, f);
    T_OK(tllm_weave_read(ctx, &b, 3, 32, &part));
    for (i = 0; i < f; i++) T_EQ_INT(((uint32_t *)(void *)turned)[i], i % 2 ? 0xffffffffu : 0);
    T_WALLS(low, f);
    T_WALLS(high, f);
    tllm_weave_close(ctx, &a);
    tllm_weave_close(ctx, &b);
    t_close(ctx);
}

static void test_dot(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t a, b;
    double worst = 0.0;
    for (a = 0; a < T_COUNT(sizes_n); a++)
        for (b = 0; b < T_COUNT(sizes_f); b++) {
            const tiny_idx n = sizes_n[a], f = sizes_f[b], first = n / 3, m = n - first;
            float *x = numbers(n, f), *v = t_rand((size_t)f, -2.0f, 2.0f), *y = t_guarded((size_t)m);
            tiny_tensor t = tiny_tensor_2d(x, TINY_F32, n, f);
            tllm_weave w;
            int s, form;
            T_OK(tllm_weave_make(ctx, &t, &w));
            for (s = 1; s <= 32; s += s < 10 ? 1 : 7 - s % 2)
                for (form = TLLM_WEAVE_AUTO; form <= TLLM_WEAVE_SHIFTED; form++) {
                    tiny_idx i, j;
                    T_OK(tllm_weave_dot(ctx, &w, first, m, s, form, v, y));
                    for (i = 0; i < m; i++) {
                        double want = 0.0, size = 1e-30;
                        for (j = 0; j < f; j++) {
                            const double p =
                                ldexp((double)((n > 1 ? code_of(x[(first + i) * f + j]) : 0) >> (32 - s)), -s) *
                                (double)v[j];
                            want += p;
                            size += fabs(p);
                        }
                        T_CLOSE(y[i], want, 1e-5 * size);
                        if (fabs((double)y[i] - want) / size > worst) worst = fabs((double)y[i] - want) / size;
                    }
                }
            T_WALLS(y, m);
            tllm_weave_close(ctx, &w);
        }
    T_TRUE(worst < 2e-6);
    T_RAN_ON(ctx, t_vectors(target));
    T_PROOF("quantization 7", "dot(a), (b), (c) agree to 1e-5");
    t_close(ctx);
}

static void test_file(tiny_target target)
{
    static const char path[] = "weave-test.weave";
    tiny_ctx *ctx = t_ctx(target, 2);
    const tiny_idx n = 21, f = 67;
    float *x = t_rand((size_t)(n * f), -1.0f, 1.0f), *label = t_rand((size_t)n, 0.0f, 1.0f);
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, n, f);
    tllm_weave a, b;
    tiny_file file;
    unsigned char *bytes;
    size_t i;
    T_OK(tllm_weave_make(ctx, &t, &a));
    T_OK(tllm_weave_save(ctx, &a, label, path));
    T_OK(tllm_weave_load(ctx, path, &b));
    T_EQ_INT(b.n, n);
    T_EQ_INT(b.n_feature, f);
    T_SAME(a.lines, b.lines, a.n_bytes);
    T_SAME(a.low, b.low, f);
    T_SAME(a.high, b.high, f);
    T_SAME(label, b.label, n);
    T_STATUS(tllm_weave_put(ctx, &b, 0, &t), TINY_E_ARGUMENT, "read-only");
    tllm_weave_close(ctx, &b);
    T_OK(tllm_weave_save(ctx, &a, NULL, path));
    T_OK(tllm_weave_load(ctx, path, &b));
    T_TRUE(b.label == NULL);
    tllm_weave_close(ctx, &b);
    T_OK(tiny_file_copy(ctx, path, &file));
    bytes = (unsigned char *)t_guarded_bytes(file.n_bytes);
    memcpy(bytes, file.bytes, file.n_bytes);
    for (i = 0; i < file.n_bytes; i += 37 + i / 50) {     /* cut anywhere, flipped anywhere: refused, with a sentence */
        unsigned char *cut = (unsigned char *)t_keep(i);
        memcpy(cut, bytes, i);
        T_TRUE(tllm_weave_load_bytes(ctx, cut, i, &b) != TINY_OK && *tiny_ctx_message(ctx) && !b.lines);
        bytes[i] ^= 16;
        T_TRUE(tllm_weave_load_bytes(ctx, bytes, file.n_bytes, &b) != TINY_OK && *tiny_ctx_message(ctx));
        bytes[i] ^= 16;
    }
    T_OK(tllm_weave_load_bytes(ctx, bytes, file.n_bytes, &b));
    tllm_weave_close(ctx, &b);
    tiny_file_close(ctx, &file);
    T_STATUS(tllm_weave_save(ctx, &a, NULL, "no/such/folder/x.weave"), TINY_E_IO, "no/such/folder");
    T_STATUS(tllm_weave_load(ctx, "no-such.weave", &b), TINY_E_IO, "no-such.weave");
    (void)remove(path);
    tllm_weave_close(ctx, &a);
    t_close(ctx);
}

/* checkpoints with a good checksum that are no store */
static void put_file(tiny_ctx *ctx, const char *path, const char *what, uint64_t n, uint64_t f, tiny_idx low,
                     tiny_idx lines, float top)
{
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *w;
    tiny_tensor t;
    float ends[64];
    unsigned char *room = (unsigned char *)t_keep((size_t)lines);
    int i;
    memset(&d, 0, sizeof d);
    d.path = path;
    for (i = 0; i < 64; i++) ends[i] = 0.0f;
    T_OK(tiny_checkpoint_create(ctx, &d, &w));
    (void)tiny_checkpoint_put_text(ctx, w, "what", what);
    (void)tiny_checkpoint_put_u64(ctx, w, "samples", n);
    (void)tiny_checkpoint_put_u64(ctx, w, "features", f);
    t = tiny_tensor_1d(ends, TINY_F32, low);
    (void)tiny_checkpoint_put_tensor(ctx, w, "low", &t);
    ends[0] = top;
    (void)tiny_checkpoint_put_tensor(ctx, w, "high", &t);
    t = tiny_tensor_1d(room, TINY_U8, lines);
    (void)tiny_checkpoint_put_tensor(ctx, w, "lines", &t);
    T_OK(tiny_checkpoint_finish(ctx, w));
    tiny_checkpoint_writer_close(ctx, w);
}
static void test_bad_files(void)
{
    static const char path[] = "weave-bad.weave";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_weave b;
    put_file(ctx, path, "weave 1", 9, 3, 3, 4096, 1.0f);
    T_OK(tllm_weave_load(ctx, path, &b));
    tllm_weave_close(ctx, &b);
    put_file(ctx, path, "something", 9, 3, 3, 4096, 1.0f);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_FORMAT, "not a supported store");
    put_file(ctx, path, "weave 1", 9, 3, 3, 2048, 1.0f);
    T_TRUE(tllm_weave_load(ctx, path, &b) != TINY_OK && strstr(tiny_ctx_message(ctx), "lines"));
    put_file(ctx, path, "weave 1", 9, 3, 2, 4096, 1.0f);
    T_TRUE(tllm_weave_load(ctx, path, &b) != TINY_OK && strstr(tiny_ctx_message(ctx), "low"));
    put_file(ctx, path, "weave 1", UINT64_C(1) << 61, 64, 3, 4096, 1.0f);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_FORMAT, "too large for this machine");
    put_file(ctx, path, "weave 1", 0, 3, 3, 4096, 1.0f);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_FORMAT, "0 samples");
    put_file(ctx, path, "weave 1", 9, 0, 3, 4096, 1.0f);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_FORMAT, "0 features");
    put_file(ctx, path, "weave 1", 9, 3, 3, 4096, -1.0f);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_NUMERIC, "not a range");
    put_file(ctx, path, "weave 1", 9, 3, 3, 4096, NAN);
    T_STATUS(tllm_weave_load(ctx, path, &b), TINY_E_NUMERIC, "not a range");
    T_TRUE(!b.block && !b.file);
    (void)remove(path);
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[6] = { 1, 2, 3, 4, 5, 6 }, low[3] = { 0, 0, 0 }, high[3] = { 1, 1, 1 }, y[2], v[3] = { 1, 1, 1 };
    double wide[6];
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 2, 3), bad, out = tiny_tensor_2d(wide, TINY_U8, 2, 3);
    tllm_weave w, short_one;
    memset(wide, 0, sizeof wide);
    T_EQ_INT(tllm_weave_bytes(0, 3), 0);
    T_EQ_INT(tllm_weave_bytes(3, 0), 0);
    T_EQ_INT(tllm_weave_bytes(-1, 3), 0);
    T_EQ_INT(tllm_weave_bytes(TINY_IDX_MAX, 3), 0);
    T_EQ_INT(tllm_weave_bytes(3, TINY_IDX_MAX), 0);
    T_EQ_INT(tllm_weave_bytes(TINY_IDX_MAX / 4, TINY_IDX_MAX / 512), 0);
    x[4] = NAN;
    T_STATUS(tllm_weave_make(ctx, &t, &w), TINY_E_NUMERIC, "feature 1 of sample 1 is");
    T_TRUE(!w.lines && !w.block);
    x[4] = INFINITY;
    T_STATUS(tllm_weave_make(ctx, &t, &w), TINY_E_NUMERIC, "feature 1 of sample 1 is inf");
    x[4] = 5;
    bad = tiny_tensor_2d(x, TINY_F32, 2, 0);
    T_STATUS(tllm_weave_make(ctx, &bad, &w), TINY_E_ARGUMENT, "2 samples of 0 features");
    bad = tiny_tensor_2d(x, TINY_F32, 0, 3);
    T_STATUS(tllm_weave_make(ctx, &bad, &w), TINY_E_ARGUMENT, "0 samples");
    bad = tiny_tensor_1d(x, TINY_F32, 6);
    T_STATUS(tllm_weave_make(ctx, &bad, &w), TINY_E_SHAPE, "the rows are 6 f32");
    bad = tiny_tensor_2d(wide, TINY_F64, 2, 3);
    T_STATUS(tllm_weave_make(ctx, &bad, &w), TINY_E_DTYPE, "f64");
    T_STATUS(tllm_weave_make(ctx, NULL, &w), TINY_E_ARGUMENT, "not a tensor");
    T_TRUE(tllm_weave_make(NULL, &t, &w) != TINY_OK);
    T_STATUS(tllm_weave_open(ctx, 2, 3, high, low, &w), TINY_E_NUMERIC, "from 1 to 0");
    T_STATUS(tllm_weave_open(ctx, 2, 0, low, high, &w), TINY_E_ARGUMENT, "0 features");
    T_STATUS(tllm_weave_open(ctx, 2, 3, NULL, high, &w), TINY_E_ARGUMENT, "one is NULL");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 2, 3, 0, v, y), TINY_E_ARGUMENT, "the store is NULL or closed");
    T_OK(tllm_weave_open(ctx, 2, 3, low, high, &w));
    x[0] = NAN;
    T_STATUS(tllm_weave_put(ctx, &w, 0, &t), TINY_E_NUMERIC, "it must be finite");
    x[0] = 1;
    T_STATUS(tllm_weave_put(ctx, &w, 1, &t), TINY_E_ARGUMENT, "2 samples from index 1 on");
    T_STATUS(tllm_weave_put(ctx, &w, -1, &t), TINY_E_ARGUMENT, "the store has 2");
    T_OK(tllm_weave_put(ctx, &w, 0, &t));
    T_STATUS(tllm_weave_read(ctx, &w, 0, 0, &out), TINY_E_ARGUMENT, "not 0");
    T_STATUS(tllm_weave_read(ctx, &w, 0, 33, &out), TINY_E_ARGUMENT, "not 33");
    T_STATUS(tllm_weave_read(ctx, &w, 0, 9, &out), TINY_E_DTYPE, "9 bits do not fit into u8");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 2, 0, 0, v, y), TINY_E_ARGUMENT, "not 0");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 2, 33, 0, v, y), TINY_E_ARGUMENT, "not 33");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 3, 8, 0, v, y), TINY_E_ARGUMENT, "3 samples from index 0 on");
    T_STATUS(tllm_weave_dot(ctx, &w, TINY_IDX_MAX, 3, 8, 0, v, y), TINY_E_ARGUMENT, "the store has 2");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 2, 8, 7, v, y), TINY_E_ARGUMENT, "no form 7");
    T_STATUS(tllm_weave_dot(ctx, &w, 0, 2, 8, 0, NULL, y), TINY_E_ARGUMENT, "one is NULL");
    T_OK(tllm_weave_dot(ctx, &w, 2, 0, 8, 0, v, y));
    short_one = w;
    short_one.n_bytes--;                    /* a buffer that ends before the last line does */
    T_STATUS(tllm_weave_dot(ctx, &short_one, 0, 2, 8, 0, v, y), TINY_E_ARGUMENT,
             "the lines have 2047 bytes, but 2 samples of 3 features have 2048");
    T_STATUS(tllm_weave_save(ctx, &short_one, NULL, "x.weave"), TINY_E_ARGUMENT, "2047");
    tllm_weave_close(ctx, &w);
    tllm_weave_close(ctx, &w);
    tllm_weave_close(ctx, NULL);
    T_PROOF("quantization 7", "bad input: NaN features, s = 0 or 33, N = 0, truncated buffer");
    t_close(ctx);
}

static void test_memory(void)
{
    float x[30], v[3] = { 1, 2, 3 }, y[10];
    int i;
    for (i = 0; i < 30; i++) x[i] = (float)(i * i % 7);
    T_EACH_ALLOCATION(tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
                      tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 10, 3); tiny_ctx *ctx = NULL; tllm_weave w;
                      if (!tiny_ctx_open(&desc, &ctx)) {
                          if (!tllm_weave_make(ctx, &t, &w) && !tllm_weave_dot(ctx, &w, 0, 10, 5, 0, v, y) &&
                              !tllm_weave_save(ctx, &w, y, "weave-memory.weave")) {
                              tllm_weave b;
                              if (!tllm_weave_load(ctx, "weave-memory.weave", &b)) tllm_weave_close(ctx, &b);
                          }
                          tllm_weave_close(ctx, &w);
                      } tiny_ctx_close(ctx);)
    (void)remove("weave-memory.weave");
}

int main(void)
{
    T_RUN_FORMS(test_layout);
    T_RUN_FORMS(test_read);
    T_RUN(test_worked);
    T_RUN_FORMS(test_put);
    T_RUN_FORMS(test_dot);
    T_RUN_FORMS(test_file);
    T_RUN(test_bad_files);
    T_RUN(test_bad_input);
    T_RUN(test_memory);
    return t_done();
}
