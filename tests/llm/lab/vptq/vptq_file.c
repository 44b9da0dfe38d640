/* tests/llm/lab/vptq/vptq_file.c - matrices of VPTQ as bytes, and products with them
 *
 * Truth    the bytes read bit by bit by a second reader, written from the text of vptq.h; products in double of that
 *          reader's output */
#include "llm/lab/vptq/vptq.h"

static void test_widths(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int width;
    for (width = 1; width <= 32; width++) {
        const int first = width == 1   ? 1
                          : width == 2 ? 2
                          : width % 2  ? width / 2 + 1
                          : width > 8  ? width / 2
                                       : width,
                  rest = width - first;
        const tiny_idx n = 1 + (tiny_idx)t_rand_below(70), rows = 1 + (tiny_idx)t_rand_below(5);
        tllm_vptq_desc d;
        tllm_vptq q, again;
        unsigned char *copy;
        float *back;
        reader r;
        tiny_idx row, i;
        memset(&d, 0, sizeof d);
        d.v = 1;
        d.k = (tiny_idx)1 << first;
        d.k2 = rest ? (tiny_idx)1 << rest : 0;
        if (width % 5 == 3) d.k -= width % 2;       /* a code of that many bits for fewer vectors */
        T_OK(tllm_vptq_random(ctx, &d, rows, n, (uint64_t)width, &q));
        r = read_head(q.bytes);
        T_EQ_INT(r.bytes, q.n_bytes);
        T_EQ_INT(r.width, width);
        /* as unaligned as possible, and nothing after it */
        copy = (unsigned char *)t_guarded_bytes(q.n_bytes);
        memcpy(copy, q.bytes, q.n_bytes);
        T_OK(tllm_vptq_open(ctx, copy, q.n_bytes, &again));
        T_TRUE(again.bytes == copy && !again.block);
        back = expanded(ctx, &again);
        for (row = 0; row < rows; row++)
            for (i = 0; i < n; i++) {
                T_EQ_INT(tllm_vptq_code(&again, row, i), word_at(&r, row, i));
                T_TRUE(back[row * n + i] == weight_at(&r, row, i));
            }
        tllm_vptq_close(ctx, &q);
        tllm_vptq_close(ctx, &again);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("quantization 1", "packed round trip for code widths 1..32");
}

/* sizes of all kinds: packed bytes follow the description of the format, and single rows equal those of the whole */
static tllm_vptq_desc any_desc(int s, tiny_idx *rows, tiny_idx *n)
{
    tllm_vptq_desc d;
    memset(&d, 0, sizeof d);
    *rows = 1 + (tiny_idx)t_rand_below(150);
    *n = 1 + (tiny_idx)t_rand_below(280);
    d.v = 1 + (int)t_rand_below((uint32_t)(*rows < 16 ? *rows : 16));
    d.k = 2 + (tiny_idx)t_rand_below(s % 3 ? 60 : 600);
    d.k2 = s % 2 ? 2 + (tiny_idx)t_rand_below(40) : 0;
    d.groups = *n > 8 && s % 4 > 1 ? 1 + (tiny_idx)t_rand_below(5) : 1;
    d.outliers = *n > 8 && s % 5 > 2 ? 10.0f : 0.0f;
    d.v0 = d.v % 2 ? d.v : d.v / 2;
    d.k0 = 2 + (tiny_idx)t_rand_below(40);
    d.normalize = s % 7 > 4;
    d.in_order = s % 11 == 0;
    return d;
}
static void test_format(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int s;
    for (s = 0; s < 40; s++) {
        tiny_idx rows, n, row, i, row0, some;
        const tllm_vptq_desc d = any_desc(s, &rows, &n);
        float *back, *part;
        double bits;
        size_t bytes;
        tllm_vptq q;
        reader r;
        T_OK(tllm_vptq_random(ctx, &d, rows, n, (uint64_t)s, &q));
        r = read_head(q.bytes);
        T_EQ_INT(r.bytes, q.n_bytes);
        back = expanded(ctx, &q);
        for (row = 0; row < rows; row++)
            for (i = 0; i < n; i++) T_TRUE(back[row * n + input_at(&r, i)] == weight_at(&r, row, i));
        row0 = (tiny_idx)t_rand_below((uint32_t)rows);
        some = 1 + (tiny_idx)t_rand_below((uint32_t)(rows - row0));
        part = t_guarded((size_t)(some * n));
        T_OK(tllm_vptq_expand(ctx, &q, row0, some, part, n));
        T_SAME(part, back + row0 * n, some * n);
        T_WALLS(part, 0);
        /* bits by the formula are the bytes, except for head, tail, and the padding of rows of codes and vectors */
        T_OK(tllm_vptq_rate(ctx, &d, rows, n, &bits, &bytes));
        T_EQ_INT(bytes, q.n_bytes);
        {
            const double all = 8.0 * (double)bytes, rowsv = ceil((double)rows / (double)r.v),
                         rows0 = r.apart ? ceil((double)rows / (double)r.v0) : 0;
            const double codes = 8.0 * (rowsv * (double)r.groups * (double)r.row + rows0 * (double)r.row0);
            const double exact = (double)rows * ((double)(r.wide * r.groups) * r.width / (double)r.v +
                                                 (r.apart ? (double)r.apart * r.width0 / (double)r.v0 : 0));
            T_TRUE(codes >= exact - 1e-6 &&
                   codes < exact + 32 * (rowsv * (double)r.groups + rows0) + 16.0 * (double)n * (r.width + r.width0));
            /* filled up to fours twice */
            T_TRUE(fabs(all - codes + exact - bits * (double)(rows * n) - 8 * 88) <= 2 * 24);
        }
        T_OK(tllm_vptq_expand(ctx, &q, rows, 0, part, n));
        T_STATUS(tllm_vptq_expand(ctx, &q, 0, rows + 1, part, n), TINY_E_ARGUMENT, "they must exist");
        T_STATUS(tllm_vptq_expand(ctx, &q, -1, 1, part, n), TINY_E_ARGUMENT, "they must exist");
        T_STATUS(tllm_vptq_expand(ctx, &q, 0, 1, part, n - 1), TINY_E_ARGUMENT, "be at least");
        T_STATUS(tllm_vptq_expand(ctx, &q, 0, 1, NULL, n), TINY_E_ARGUMENT, "they must exist");
        T_EQ_INT(tllm_vptq_code(&q, rows, 0), UINT32_MAX);
        T_EQ_INT(tllm_vptq_code(&q, 0, n), UINT32_MAX);
        tllm_vptq_close(ctx, &q);
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_product(tiny_target target)
{
    static const short tokens[] = { 1, 2, 3, 7, 8, 13, 64, 65, 130 };
    tiny_ctx *ctx = t_ctx(target, 2), *one = t_ctx(target, 1);
    int s, form;
    t_use(ctx);
    for (s = 0; s < 27; s++) {
        tiny_idx rows, n, t, r, i;
        const tllm_vptq_desc d = any_desc(s, &rows, &n);
        const tiny_idx m = tokens[s % 9], far = n + 3;
        float *x = t_rand((size_t)(m * far), -1, 1), *v, *first = NULL;
        tllm_vptq q;
        T_OK(tllm_vptq_random(ctx, &d, rows, n, (uint64_t)s, &q));
        v = expanded(ctx, &q);
        for (form = 0; form < TLLM_VPTQ_FORMS; form++) {
            float *y = t_guarded((size_t)(m * rows)), *z = t_guarded((size_t)(m * rows));
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, m, n), ty = tiny_tensor_2d(y, TINY_F32, m, rows);
            tx.stride[0] = far;
            T_OK(tllm_vptq_matmul_as(ctx, &tx, &q, (tllm_vptq_form)form, &ty));
            T_RAN_ON(ctx, t_vectors(target));
            for (t = 0; t < m; t++)
                for (r = 0; r < rows; r++) {
                    double sum = 0, size = 0;
                    for (i = 0; i < n; i++) {
                        sum += (double)x[t * far + i] * (double)v[r * n + i];
                        size += fabs((double)x[t * far + i] * (double)v[r * n + i]);
                    }
                    /* scaled by hand: bias and the rest may cancel */
                    T_CLOSE(y[t * rows + r], sum, 1e-5 * size + (d.normalize ? 2e-5 * (double)n : 0));
                }
            T_WALLS(y, 0);
            ty.data = z;
            T_OK(tllm_vptq_matmul_as(one, &tx, &q, (tllm_vptq_form)form, &ty));
            T_SAME(z, y, m * rows);         /* the number of threads does not matter */
            if (form == TLLM_VPTQ_AUTO) first = y;
            else if (form == (int)tllm_vptq_form_of(ctx, &q, m)) T_SAME(y, first, m * rows);
        }
        tllm_vptq_close(ctx, &q);
        t_free_blocks();
    }
    t_close(one);
    t_close(ctx);
    t_conform(target, tllm_vptq_row(), 60);
    T_PROOF("quantization 1", "GEMV equals dequant + dense to 1e-5");
}

/* Numbers of x that become infinite times a scale, or where two of them meet in a bucket, in sums that are finite:
 * every form agrees with the plain one. */
static void test_large(tiny_target target)
{
    enum { ROWS = 8, N = 30 };
    tiny_ctx *ctx = t_ctx(target, 1), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *x = t_guarded(2 * N), *y = t_guarded(2 * ROWS), *z = t_guarded(2 * ROWS),
          *w = t_rand(ROWS * N, -1e-5f, 1e-5f);
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, N), ty = tiny_tensor_2d(y, TINY_F32, 2, ROWS),
                      tz = tiny_tensor_2d(z, TINY_F32, 2, ROWS);
    const tiny_tensor h = tiny_tensor_2d(diagonal_h(N, 1.0), TINY_F64, N, N);
    tllm_vptq_desc d;
    tllm_vptq q;
    int way, form, i;
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 8;
    for (way = 0; way < 2; way++) {
        d.normalize = way;
        /* normalized: scales of 60000, books of 0 to 1 */
        for (i = 0; i < ROWS * N; i++) w[i] = way ? (float)(i / N % 4) * 20000.0f : w[i];
        for (i = 0; i < 2 * N; i++) x[i] = i >= N ? 1.0f : way ? (i % 2 ? 1e34f : -1e34f) : i < 4 ? 1.5e38f : 0.0f;
        t_use(ctx);
        T_OK(tllm_vptq_quantize(ctx, &d, w, ROWS, N, &h, &q, NULL));
        T_OK(tllm_vptq_matmul(plain, &tx, &q, &tz));
        for (form = 0; form < TLLM_VPTQ_FORMS; form++) {
            T_OK(tllm_vptq_matmul_as(ctx, &tx, &q, (tllm_vptq_form)form, &ty));
            for (i = 0; i < 2 * ROWS; i++)
                T_TRUE(z[i] - z[i] == 0.0f &&
                       fabs((double)y[i] - (double)z[i]) <=
                           (i < ROWS ? 1e-6 * fabs((double)z[i]) : 1e-5 * N * (way ? 60000.0 : 1e-5)));
        }
        tllm_vptq_close(ctx, &q);
    }
    t_close(plain);
    t_close(ctx);
}

static void seal(unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    for (i = 0; i + 4 < n; i++)
        for (c ^= p[i], k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    for (i = 0; i < 4; i++) p[n - 4 + i] = (unsigned char)(~c >> 8 * i);
}

static void test_hostile(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_vptq_desc d;
    tllm_vptq q, got;
    unsigned char *b;
    float *x = t_rand(64, -1, 1), y[64];
    reader r;
    size_t n, i, cut;
    int flip, taken = 0;
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 5;
    d.k2 = 3;
    d.groups = 2;
    d.outliers = 10;
    d.v0 = 2;
    d.k0 = 6;
    d.normalize = 1;
    T_OK(tllm_vptq_random(ctx, &d, 10, 21, 5, &q));
    r = read_head(q.bytes);
    n = q.n_bytes;
    for (cut = 0; cut < n; cut++) {         /* every length: as it is, and with head and checksum corrected */
        b = (unsigned char *)t_guarded_bytes(cut);
        memcpy(b, q.bytes, cut);
        T_STATUS(tllm_vptq_open(ctx, b, cut, &got), TINY_E_FORMAT, NULL);
        T_TRUE(!got.bytes && !got.block);
        if (cut < 88) continue;
        memset(b + 64, 0, 8);
        for (i = 0; i < 4; i++) b[64 + i] = (unsigned char)(cut >> 8 * i);
        seal(b, cut);
        T_STATUS(tllm_vptq_open(ctx, b, cut, &got), TINY_E_FORMAT, "bytes, but the header says");
    }
    t_free_blocks();
    x = t_rand(64, -1, 1);
    b = (unsigned char *)t_guarded_bytes(n);
    /* every byte, in three ways: the checksum sees it; without it the head shows it, or nothing is touched outside */
    for (i = 0; i < n; i++)
        for (flip = 0; flip < 3; flip++) {
            const unsigned char mask = flip == 0 ? 0xff : flip == 1 ? 1 : 0x80;
            tiny_status st;
            memcpy(b, q.bytes, n);
            b[i] = (unsigned char)(b[i] ^ mask);
            T_STATUS(tllm_vptq_open(ctx, b, n, &got), TINY_E_FORMAT, NULL);
            T_TRUE(!got.bytes);
            seal(b, n);
            st = tllm_vptq_open(ctx, b, n, &got);
            if (i < 80) T_EQ_INT(st, TINY_E_FORMAT);        /* nothing in the head is of no account */
            else if (i >= n - 4) T_EQ_INT(st, TINY_OK);     /* the checksum itself, corrected */
            taken += st == TINY_OK;
            if (!st && got.n <= 64 && got.rows <= 64) {
                const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, got.n),
                                  ty = tiny_tensor_2d(y, TINY_F32, 1, got.rows);
                int form;
                for (form = 0; form < TLLM_VPTQ_FORMS; form++)
                    T_OK(tllm_vptq_matmul_as(ctx, &tx, &got, (tllm_vptq_form)form, &ty));
                (void)expanded(ctx, &got);
            }
        }
    T_TRUE(taken > 300);                    /* codes and books, most of them */
    /* one at a time, with its sentence */
#define SPOILT(at, value, part)                                     \
    memcpy(b, q.bytes, n);                                          \
    b[at] = (unsigned char)(value);                                 \
    seal(b, n);                                                     \
    T_STATUS(tllm_vptq_open(ctx, b, n, &got), TINY_E_FORMAT, part)
    SPOILT(0, 't', "are not a matrix of vectors");
    SPOILT(8, 2, "version 2 with flags 3");
    SPOILT(12, 7, "flags 7");
    SPOILT(72, 1, "version 1 with flags 3");
    SPOILT(19, 0x80, "all sizes are below 2^31");
    SPOILT(16, 0, "0 rows of 21 inputs");
    SPOILT(32, 0, "a vector of 0 outputs");
    SPOILT(32, 11, "a vector of 11 outputs in a matrix of 10");
    SPOILT(36, 1, "a book of 1 vectors");
    SPOILT(40, 1, "a second book of 1 vectors");
    SPOILT(44, 0, "cannot be divided into 0 groups");
    SPOILT(44, 4, "cannot be divided into 4 groups");
    SPOILT(48, 0, "the outliers have a book");
    SPOILT(48, 11, "the outliers have a book");
    SPOILT(52, 1, "the outliers have a book of 1 vectors");
    SPOILT(56, 21, "21 of them outliers");
    SPOILT(64, n + 1, "but the header says");
    SPOILT(24, 22, "cannot be divided");
    SPOILT(80, 21, "place 0 is input 21 of 21");
    SPOILT(80, q.bytes[82], "which occurs before");
    SPOILT(80 + 42 + 1, 0x7c, "the scale of place 0 is not finite");
    SPOILT(80 + 42 + 42 + 1, 0xff, "the bias of place 0 is not finite");
    SPOILT(r.index0 - 1, 1, "padding byte");
    SPOILT(r.index0, 0xff, "the code in row 0 of vectors, place 0 is 7, 0 of books of 6 and 0");
    SPOILT(r.index, 0x06, "the code in row 0 of vectors, place 3 is 6");
    SPOILT(r.index, 0x18, "0, 3 of books of 5 and 3");
    SPOILT(r.index0 + r.row0 - 1, 0x80, "bits are set after the codes of row 0");
    SPOILT(r.index + r.row - 1, 0x80, "bits are set after the codes of row 0");
    SPOILT(r.book + 1, 0x7c, "number 0 of the books for place 0 on is not finite");
    SPOILT(n - 8, 1, "padding byte");
    tllm_vptq_close(ctx, &q);
    /* one group with a false order; a book for outliers without outliers */
    d.groups = 1;
    d.outliers = 0;
    d.normalize = 0;
    T_OK(tllm_vptq_random(ctx, &d, 10, 21, 5, &q));
    n = q.n_bytes;
    SPOILT(12, 1, "without outliers keeps its order, but another is stored");
    SPOILT(48, 2, "no input is an outlier, but there is a book");
    /* sizes that would be more than there is: nothing is taken for them */
    SPOILT(18, 0x7f, "but the header says");
    SPOILT(26, 0x7f, "but the header says");
    SPOILT(38, 0x0f, "but the header says");
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
    T_PROOF("quantization 1", "bad input: k not a power of two (round bits up), index out of range in a file");
}

/* codes outside a book, through tiny_run, which does not check them: zeros, and nothing
 * outside */
static void test_codes_unchecked(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    tllm_vptq_desc d;
    tllm_vptq q;
    float *x = t_rand(3 * 50, -1, 1), *y = t_guarded(3 * 20), *z = t_guarded(3 * 20);
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 50), ty = tiny_tensor_2d(y, TINY_F32, 3, 20),
                      tz = tiny_tensor_2d(z, TINY_F32, 3, 20);
    unsigned char *b;
    reader r;
    int form, i;
    memset(&d, 0, sizeof d);
    d.v = 5;
    d.k = 130;
    d.k2 = 70;
    t_use(ctx);
    T_OK(tllm_vptq_random(ctx, &d, 20, 50, 3, &q));
    r = read_head(q.bytes);
    b = (unsigned char *)t_guarded_bytes(q.n_bytes);
    memcpy(b, q.bytes, q.n_bytes);
    memset(b + r.index, 0xff, r.book - r.index);
    for (i = 0; i < 100; i++) b[r.index + 30 + (size_t)i] = (unsigned char)(i * 37);
    tllm_vptq_close(ctx, &q);
    q.rows = 20;
    q.n = 50;
    q.bytes = b;
    q.n_bytes = r.bytes;
    t_use(plain);
    T_OK(tllm_vptq_matmul(plain, &tx, &q, &tz));
    t_use(ctx);
    for (form = 1; form < TLLM_VPTQ_FORMS; form++) {
        T_OK(tllm_vptq_matmul_as(ctx, &tx, &q, (tllm_vptq_form)form, &ty));
        for (i = 0; i < 60; i++) T_CLOSE(y[i], z[i], 1e-3);
    }
    t_close(plain);
    t_close(ctx);
}

static void test_file(void)
{
    const char *folder = getenv("TMPDIR");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char path[400];
    tllm_vptq_desc d;
    tllm_vptq q, back;
    FILE *f;
    memset(&d, 0, sizeof d);
    (void)snprintf(path, sizeof path, "%s/tiny-vptq-%ld-%ld.vptq", folder ? folder : "/tmp", (long)time(NULL),
                   (long)t_rand_below(1000000));
    T_OK(tllm_vptq_random(ctx, &d, 30, 40, 9, &q));
    T_OK(tllm_vptq_save(ctx, &q, path));
    T_OK(tllm_vptq_load(ctx, path, &back));
    T_EQ_INT(back.n_bytes, q.n_bytes);
    T_SAME(back.bytes, q.bytes, q.n_bytes);
    T_TRUE(back.block != NULL);
    tllm_vptq_close(ctx, &back);
    f = fopen(path, "r+b");
    T_TRUE(f && !fseek(f, 200, SEEK_SET) && fputc(q.bytes[200] ^ 1, f) != EOF && !fclose(f));
    T_STATUS(tllm_vptq_load(ctx, path, &back), TINY_E_FORMAT, path);
    T_TRUE(!back.block && strstr(tiny_ctx_message(ctx), "damaged or truncated"));
    (void)remove(path);
    T_STATUS(tllm_vptq_load(ctx, path, &back), TINY_E_IO, path);
    tllm_vptq_close(ctx, &q);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_widths);
    T_RUN_FORMS(test_format);
    T_RUN_FORMS(test_product);
    T_RUN_FORMS(test_large);
    T_RUN(test_hostile);
    T_RUN_FORMS(test_codes_unchecked);
    T_RUN(test_file);
    return t_done();
}
