/* tests/math/sparse.c - every form into every form, against a dense matrix that the test adds up itself */
#include "t.h"

static const tiny_sparse_form forms[] = { TINY_COO, TINY_CSR, TINY_CSC, TINY_ELL, TINY_BSR, TINY_BITMAP };

/* a heap-free COO matrix of n random entries; dup: few places, so that many coincide */
typedef struct coo { tiny_sparse a; float *dense; } coo;

static coo make_coo(tiny_idx rows, tiny_idx cols, int64_t n, int with_value, int hub)
{
    coo c;
    int64_t i;
    memset(&c, 0, sizeof c);
    c.a.form = TINY_COO;
    c.a.n_rows = rows;
    c.a.n_cols = cols;
    c.a.n = rows && cols ? n : 0;
    c.a.row = (int32_t *)t_guarded_bytes((size_t)c.a.n * 4);
    c.a.col = (int32_t *)t_guarded_bytes((size_t)c.a.n * 4);
    if (with_value) c.a.value = t_guarded((size_t)c.a.n);
    c.dense = (float *)t_keep((size_t)(rows * cols) * 4 + 4);
    for (i = 0; i < c.a.n; i++) {
        c.a.row[i] = hub && t_rand_below(3) ? (int32_t)(rows / 2) : (int32_t)t_rand_below((uint32_t)rows);
        c.a.col[i] = (int32_t)t_rand_below((uint32_t)cols);
        if (with_value) c.a.value[i] = (float)((int)t_rand_below(9) + 1);
        /* small whole numbers: exact */
        c.dense[c.a.row[i] * cols + c.a.col[i]] += with_value ? c.a.value[i] : 1.0f;
    }
    return c;
}

static tiny_sparse_desc desc_of(tiny_sparse_form form)
{
    tiny_sparse_desc d;
    memset(&d, 0, sizeof d);
    d.form = form;
    if (form == TINY_BSR) d.block_rows = 3, d.block_cols = 2;
    return d;
}

static void check_dense(tiny_ctx *ctx, const tiny_sparse *a, const float *want, const char *what)
{
    tiny_idx n = a->n_rows * a->n_cols;
    float *y = t_guarded((size_t)n);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, a->n_rows, a->n_cols);
    T_OK(tiny_sparse_check(ctx, a));
    T_OK(tiny_sparse_to_dense(ctx, a, &ty));
    if (!t_same(y, want, (size_t)n, 4, __FILE__, __LINE__, what))
        printf("%s is %s\n", what, tiny_sparse_form_name(a->form));
    T_WALLS(y, n);
}

static void test_round_trips(void)
{
    static const tiny_idx shape[][3] = { { 1, 1, 1 },   { 4, 5, 7 }, { 5, 4, 60 }, { 17, 130, 300 }, { 130, 64, 1000 },
                                         { 64, 65, 0 }, { 0, 5, 0 }, { 5, 0, 0 },  { 3, 500, 700 } };
    int threads, with_value, from, to;
    size_t s;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
        for (s = 0; s < T_COUNT(shape); s++)
            for (with_value = 0; with_value < 2; with_value++)
                for (from = 0; from < 6; from++)
                    for (to = 0; to < 6; to++) {
                        coo c = make_coo(shape[s][0], shape[s][1], shape[s][2], with_value, 0);
                        tiny_sparse_desc d1 = desc_of(forms[from]), d2 = desc_of(forms[to]);
                        tiny_sparse b, e;
                        T_OK(tiny_sparse_convert(ctx, &c.a, &d1, &b));
                        check_dense(ctx, &b, c.dense, "first");
                        if (d1.form <= TINY_CSC) T_EQ_INT(b.n, c.a.n);
                        T_OK(tiny_sparse_convert(ctx, &b, &d2, &e));
                        check_dense(ctx, &e, c.dense, "second");
                        tiny_sparse_free(ctx, &b);
                        tiny_sparse_free(ctx, &e);
                        T_TRUE(b.offset == NULL && e.n == 0);
                        t_free_blocks();
                    }
        t_close(ctx);
    }
    T_EQ_INT(t_alloc.live_blocks, 0);
}

/* 4 x 4, worked on paper: (2,1)=5 (0,3)=1 (2,1)=7 (0,0)=2 (3,2)=-4 */
static void test_by_hand(void)
{
    static int32_t row[5] = { 2, 0, 2, 0, 3 }, col[5] = { 1, 3, 1, 0, 2 };
    static float value[5] = { 5, 1, 7, 2, -4 };
    static const int64_t offset[5] = { 0, 2, 2, 4, 5 }, from[5] = { 3, 1, 0, 2, 4 },
                         column_offset[5] = { 0, 1, 3, 4, 5 }, column_from[5] = { 3, 0, 2, 4, 1 };
    static const int32_t cols[5] = { 0, 3, 1, 1, 2 }, kept[5] = { 3, 0, 1, 1, 2 };
    static const float values[5] = { 2, 1, 5, 7, -4 };
    static const uint64_t bits[4] = { 9, 0, 2, 4 };
    static const float blocks[12] = { 2, 0, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0 };
    tiny_sparse a, b;
    tiny_sparse_desc d;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&a, 0, sizeof a);
    a.n_rows = a.n_cols = 4;
    a.n = 5;
    a.row = row;
    a.col = col;
    a.value = value;
    d = desc_of(TINY_CSR);
    d.with_source = 1;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_SAME(b.offset, offset, 5);
    T_SAME(b.col, cols, 5);
    T_SAME(b.value, values, 5);
    T_SAME(b.source, from, 5);
    tiny_sparse_free(ctx, &b);
    d.keep_order = 1;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_SAME(b.col, kept, 5);
    tiny_sparse_free(ctx, &b);
    d = desc_of(TINY_CSC);
    d.with_source = 1;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_SAME(b.offset, column_offset, 5);
    T_SAME(b.source, column_from, 5);
    tiny_sparse_free(ctx, &b);
    d = desc_of(TINY_CSR);
    d.duplicates = TINY_DUPLICATES_SUM;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_EQ_INT(b.n, 4);
    T_CLOSE(b.value[2], 12, 0);
    tiny_sparse_free(ctx, &b);
    d.duplicates = TINY_DUPLICATES_FIRST;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_CLOSE(b.value[2], 5, 0);
    tiny_sparse_free(ctx, &b);
    d.duplicates = TINY_DUPLICATES_MAX;
    d.with_source = 1;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_CLOSE(b.value[2], 7, 0);
    T_EQ_INT(b.source[2], 2);
    tiny_sparse_free(ctx, &b);
    d = desc_of(TINY_BITMAP);
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_SAME(b.bits, bits, 4);
    T_EQ_INT(b.n, 4);
    tiny_sparse_free(ctx, &b);
    d = desc_of(TINY_BSR);
    d.block_rows = d.block_cols = 2;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_EQ_INT(b.n, 4);
    T_SAME(b.value, blocks, 12);
    T_CLOSE(b.value[14], -4, 0);
    tiny_sparse_free(ctx, &b);
    d = desc_of(TINY_ELL);
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_EQ_INT(b.width, 2);
    T_EQ_INT(b.col[3], -1);
    T_EQ_INT(b.col[5], -1);
    tiny_sparse_free(ctx, &b);
    t_close(ctx);
}

/* many threads, a hub, long lines: the same bits as one thread, and the sources lead back */
static void test_large(void)
{
    tiny_sparse a, b, one, t;
    tiny_sparse_desc d;
    int64_t n = 600000, i, bad;
    int threads, dup;
    memset(&a, 0, sizeof a);
    memset(&one, 0, sizeof one);
    a.n_rows = 20000;
    a.n_cols = 30000;
    a.n = n;
    a.row = (int32_t *)t_guarded_bytes((size_t)n * 4);
    a.col = (int32_t *)t_guarded_bytes((size_t)n * 4);
    a.value = t_guarded((size_t)n);
    for (i = 0; i < n; i++) {
        a.row[i] = t_rand_below(4) ? (int32_t)t_rand_below(20000) : 777;
        a.col[i] = (int32_t)t_rand_below(30000);
        a.value[i] = t_rand_float(-1, 1);
    }
    for (dup = 0; dup < 4; dup++)
        for (threads = 1; threads <= 4; threads++) {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
            d = desc_of(TINY_CSR);
            d.with_source = 1;
            d.duplicates = (tiny_duplicates)dup;
            T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
            T_OK(tiny_sparse_check(ctx, &b));
            for (bad = 0, i = 0; i < b.n; i++) {
                int64_t s = b.source[i];
                bad +=
                    s < 0 || s >= n || a.col[s] != b.col[i] || (dup != TINY_DUPLICATES_SUM && a.value[s] != b.value[i]);
                if (i && b.col[i] == b.col[i - 1] && i != b.offset[777] && i != b.offset[778])
                    bad += dup == 0 && b.source[i] < b.source[i - 1] && a.row[b.source[i]] == a.row[b.source[i - 1]];
            }
            for (i = 0; i < 20000; i++) {
                int64_t p;
                for (p = b.offset[i]; p < b.offset[i + 1]; p++)
                    bad += a.row[b.source[p]] != i || (p > b.offset[i] && b.col[p] < b.col[p - 1] + (dup != 0));
            }
            T_EQ_INT(bad, 0);
            if (threads == 1) one = b;
            else {
                T_EQ_INT(b.n, one.n);
                T_SAME(b.offset, one.offset, 20001);
                T_SAME(b.col, one.col, b.n);
                T_SAME(b.value, one.value, b.n);
                T_SAME(b.source, one.source, b.n);
                /* and transposed twice it is unchanged */
                d = desc_of(TINY_CSC);
                T_OK(tiny_sparse_convert(ctx, &b, &d, &t));
                tiny_sparse_free(ctx, &b);
                d = desc_of(TINY_CSR);
                T_OK(tiny_sparse_convert(ctx, &t, &d, &b));
                T_SAME(b.offset, one.offset, 20001);
                T_SAME(b.col, one.col, b.n);
                T_SAME(b.value, one.value, b.n);
                tiny_sparse_free(ctx, &t);
                tiny_sparse_free(ctx, &b);
            }
            if (threads == 1) {             /* the arrays of one outlive their context */
                int64_t *offset = (int64_t *)t_guarded_bytes(20001 * 8),
                        *source = (int64_t *)t_guarded_bytes((size_t)one.n * 8);
                int32_t *col = (int32_t *)t_guarded_bytes((size_t)one.n * 4);
                float *value = t_guarded((size_t)one.n);
                memcpy(offset, one.offset, 20001 * 8);
                memcpy(source, one.source, (size_t)one.n * 8);
                memcpy(col, one.col, (size_t)one.n * 4);
                memcpy(value, one.value, (size_t)one.n * 4);
                tiny_sparse_free(ctx, &b);
                one.offset = offset;
                one.source = source;
                one.col = col;
                one.value = value;
                one.owned = 0;
            }
            t_close(ctx);
        }
    T_EQ_INT(t_alloc.live_blocks, 0);
}

/* a sum of duplicates is computed in double and rounded once: 1 + 2^-24 + 2^-24 */
static void test_duplicate_sum(void)
{
    int32_t row[3] = { 0, 0, 0 }, col[3] = { 0, 0, 0 };
    float value[3] = { 1.0f, 5.9604644775390625e-8f, 5.9604644775390625e-8f }, y[1];
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 1, 1);
    tiny_sparse a, b;
    tiny_sparse_desc d = desc_of(TINY_BITMAP);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&a, 0, sizeof a);
    a.n_rows = a.n_cols = 1;
    a.n = 3;
    a.row = row;
    a.col = col;
    a.value = value;
    T_OK(tiny_sparse_to_dense(ctx, &a, &ty));
    T_CLOSE(y[0], 1.00000011920928955, 0);
    value[1] = NAN;
    d = desc_of(TINY_CSR);
    d.duplicates = TINY_DUPLICATES_MAX;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_TRUE(isnan(b.value[0]));
    tiny_sparse_free(ctx, &b);
    a.value = NULL;                         /* ones add up, in every form */
    T_OK(tiny_sparse_to_dense(ctx, &a, &ty));
    T_CLOSE(y[0], 3, 0);
    d = desc_of(TINY_ELL);
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_CLOSE(b.value[0], 3, 0);
    tiny_sparse_free(ctx, &b);
    a.n = 1;
    T_OK(tiny_sparse_convert(ctx, &a, &d, &b));
    T_TRUE(b.value == NULL && b.n == 1);
    tiny_sparse_free(ctx, &b);
    t_close(ctx);
}

static void test_dense(void)
{
    float x[6 * 14], y[6 * 14];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 6, 7), ty = tiny_tensor_2d(y, TINY_F32, 6, 7);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int i, f;
    tx.stride[0] = 14;
    tx.stride[1] = 2;
    ty.stride[0] = 1;
    ty.stride[1] = 6;
    for (i = 0; i < 6 * 14; i++) x[i] = i % 2 ? 99.0f : i % 5 == 0 ? (float)i : i % 7 == 0 ? NAN : i % 3 ? 0.0f : -0.0f;
    for (f = 0; f < 6; f++) {
        tiny_sparse_desc d = desc_of(forms[f]);
        tiny_sparse a;
        int r, c;
        T_OK(tiny_sparse_from_dense(ctx, &tx, &d, &a));
        T_OK(tiny_sparse_check(ctx, &a));
        memset(y, 0x55, sizeof y);
        T_OK(tiny_sparse_to_dense(ctx, &a, &ty));
        for (r = 0; r < 6; r++)
            for (c = 0; c < 7; c++) T_CLOSE(y[r + 6 * c], x[14 * r + 2 * c], 0);
        tiny_sparse_free(ctx, &a);
    }
    t_close(ctx);
}

static void test_into(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int f, dup;
    for (f = 0; f < 6; f++)
        for (dup = 0; dup < 2; dup++) {
            coo c = make_coo(9, 70, 100, 1, 1);
            tiny_sparse_desc d = desc_of(forms[f]);
            tiny_sparse_room room, small;
            tiny_sparse out;
            size_t *each = &small.offset, *whole = &room.offset;
            int i;
            d.duplicates = dup ? TINY_DUPLICATES_SUM : TINY_DUPLICATES_KEEP;
            d.with_source = 1;
            T_OK(tiny_sparse_size(ctx, &c.a, &d, &room));
            memset(&out, 0, sizeof out);
            if (room.offset) out.offset = (int64_t *)t_guarded_bytes(room.offset * 8);
            if (room.row) out.row = (int32_t *)t_guarded_bytes(room.row * 4);
            if (room.col) out.col = (int32_t *)t_guarded_bytes(room.col * 4);
            if (room.bits) out.bits = (uint64_t *)t_guarded_bytes(room.bits * 8);
            if (room.value) out.value = t_guarded(room.value);
            if (room.source) out.source = (int64_t *)t_guarded_bytes(room.source * 8);
            for (i = 0; i < 6; i++) {       /* one too few, each in turn */
                small = room;
                if (!whole[i]) continue;
                each[i]--;
                T_STATUS(tiny_sparse_convert_into(ctx, &c.a, &d, &small, &out), TINY_E_WORKSPACE, "are needed");
            }
            T_OK(tiny_sparse_convert_into(ctx, &c.a, &d, &room, &out));
            check_dense(ctx, &out, c.dense, "into");
            if (out.offset) T_WALLS(out.offset, room.offset);
            if (out.value) T_WALLS(out.value, room.value);
            if (out.bits) T_WALLS(out.bits, room.bits);
            tiny_sparse_free(ctx, &out);    /* owns nothing */
            t_free_blocks();
        }
    t_close(ctx);
}

static void test_refuses(void)
{
    int32_t row[4] = { 0, 1, 2, 3 }, col[4] = { 0, 1, 2, 3 }, ell[8] = { 0, -1, 1, -1, -1, 2, 3, -1 };
    int64_t offset[5] = { 0, 1, 2, 3, 4 };
    uint64_t bits[4] = { 1, 2, 4, 8 };
    float value[64] = { 0 };
    tiny_tensor wrong = tiny_tensor_2d(value, TINY_F32, 4, 5), half = tiny_tensor_2d(value, TINY_F16, 4, 4),
                line = tiny_tensor_1d(value, TINY_F32, 4);
    tiny_sparse a, base, out;
    tiny_sparse_desc d = desc_of(TINY_CSR);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&base, 0, sizeof base);
    base.n_rows = base.n_cols = 4;
    base.n = 4;
    base.row = row;
    base.col = col;
    base.offset = offset;
    base.bits = bits;
    base.value = value;
    base.block_rows = base.block_cols = 1;
    a = base;
    T_STATUS(tiny_sparse_check(ctx, NULL), TINY_E_ARGUMENT, "the matrix is missing");
    a.form = (tiny_sparse_form)17;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "form 17 is unknown");
    a = base; a.n_rows = -1;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_SHAPE, "-1 rows and 4 columns");
    if (sizeof(tiny_idx) > 4) {
        a = base; a.n_cols = (tiny_idx)((int64_t)1 << 31);
        T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_OVERFLOW, "2147483648 columns");
    }
    a = base; a.n = -5;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_OVERFLOW, "-5 entries");
    a.n = INT64_MAX;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_OVERFLOW, "9223372036854775807 entries");
    a = base; a.row = NULL;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "sparse coo: the rows are missing");
    a = base; a.n_rows = 3;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "entry 3 is at (3, 3), the matrix is 3x4");
    col[1] = -1;
    a = base;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "entry 1 is at (1, -1)");
    a.form = TINY_CSR;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_FORMAT, "entry 1 is in column -1, the matrix has 4");
    col[1] = 1;
    a.offset = NULL;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "sparse csr: the offsets are missing");
    a.offset = offset;
    offset[0] = 1;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "offset[0] is 1");
    offset[0] = 0; offset[2] = 0;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "offset[2] is 0, less than the previous 1");
    offset[2] = 2; offset[4] = 5;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "the last offset is 5, but there are 4 entries");
    offset[4] = 4;
    a.col = NULL;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "the columns are missing");
    a = base; a.form = TINY_CSC; a.row = NULL;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "the rows are missing");
    a = base; a.form = TINY_CSC; row[3] = 4;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "entry 3 is in row 4, the matrix has 4");
    row[3] = 3;
    a = base; a.form = TINY_ELL; a.col = ell; a.width = 2;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "row 2, slot 1: column 2 after the padding");
    ell[4] = 9;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "row 2, slot 0: column 9, the matrix has 4");
    ell[4] = 0;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "the rows hold 5 entries, n is 4");
    a.width = -1;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "a width of -1");
    a = base; a.form = TINY_BSR; a.block_cols = 0;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "blocks of 1x0");
    a.block_cols = 2;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "block 2: column 2, there are 2 columns of blocks");
    a.block_cols = 1; a.block_rows = 2; a.n_rows = 8; col[1] = 0; offset[1] = 2;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "row of blocks 0: column 0 follows 0");
    col[1] = 1; offset[1] = 1;
    a = base; a.form = TINY_BSR; a.value = NULL;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_ARGUMENT, "the values are missing");
    a = base; a.form = TINY_BITMAP; bits[2] = 16;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "row 2 has bits beyond column 3");
    bits[2] = 6;
    T_STATUS(tiny_sparse_check(ctx, &a), TINY_E_FORMAT, "row 2 has 2 bits, its offsets count 1");
    bits[2] = 4;
    T_OK(tiny_sparse_check(ctx, &a));

    a = base;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &a), TINY_E_ARGUMENT, "the result must be another struct");
    d.form = (tiny_sparse_form)-1;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_ARGUMENT, "is unknown");
    d = desc_of(TINY_CSR);
    d.duplicates = (tiny_duplicates)4;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_ARGUMENT, "is not a valid tiny_duplicates");
    d.duplicates = TINY_DUPLICATES_SUM;
    d.keep_order = 1;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_ARGUMENT, "cannot be merged with keep_order");
    d = desc_of(TINY_BSR);
    d.block_cols = 0;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_ARGUMENT, "blocks of 3x0");
    d = desc_of(TINY_ELL);
    d.width = -2;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_ARGUMENT, "a width of -2");
    d.width = 1;
    row[0] = 1;
    T_STATUS(tiny_sparse_convert(ctx, &a, &d, &out), TINY_E_SHAPE, "a row has 2 entries, the width is 1");
    row[0] = 0;
    T_STATUS(tiny_sparse_to_dense(ctx, &a, &wrong), TINY_E_SHAPE, "the matrix is 4x4, the dense one 4x5");
    T_STATUS(tiny_sparse_to_dense(ctx, &a, &half), TINY_E_DTYPE, "it must be f32 of rank 2");
    T_STATUS(tiny_sparse_from_dense(ctx, &line, &d, &out), TINY_E_SHAPE, "it must be f32 of rank 2");
    T_STATUS(tiny_sparse_from_dense(ctx, NULL, &d, &out), TINY_E_ARGUMENT, "is not a valid tensor");
    T_STATUS(tiny_sparse_size(ctx, &a, &d, NULL), TINY_E_ARGUMENT, "the output for the sizes is missing");
    tiny_sparse_free(ctx, NULL);
    T_EQ_TEXT(tiny_sparse_form_name((tiny_sparse_form)9), "?");
    t_close(ctx);
}

/* one number of a valid matrix is replaced by any other: it is refused, or still valid */
static void test_mutations(void)
{
    int round, f;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    for (round = 0; round < 3000; round++) {
        coo c = make_coo(1 + (tiny_idx)t_rand_below(9), 1 + (tiny_idx)t_rand_below(140), (int64_t)t_rand_below(40),
                         (int)t_rand_below(2), 0);
        tiny_sparse_desc d = desc_of(forms[t_rand_below(6)]), e = desc_of(forms[t_rand_below(6)]);
        tiny_sparse_room room;
        tiny_sparse a, b;
        int64_t any = t_rand_below(3) ? (int64_t)t_rand_below(20) - 5 : (int64_t)t_rand_u64();
        T_OK(tiny_sparse_size(ctx, &c.a, &d, &room));
        T_OK(tiny_sparse_convert(ctx, &c.a, &d, &a));
        f = (int)t_rand_below(9);
        if (f == 0 && room.offset) a.offset[t_rand_below((uint32_t)room.offset)] = any;
        if (f == 1 && room.row) a.row[t_rand_below((uint32_t)room.row)] = (int32_t)any;
        if (f == 2 && room.col) a.col[t_rand_below((uint32_t)room.col)] = (int32_t)any;
        if (f == 3 && room.bits) a.bits[t_rand_below((uint32_t)room.bits)] = (uint64_t)any;
        /* a larger one, or more rows, only the owner of the arrays can check */
        if (f == 4) a.n = TINYI_MIN(a.n, any);
        if (f == 5) a.n_cols = TINYI_MIN(a.n_cols, (tiny_idx)any);
        if (f == 6) a.n_rows = TINYI_MIN(a.n_rows, (tiny_idx)any);
        if (f == 7) a.width = TINYI_MIN(a.width, (tiny_idx)any);
        if (f == 8 && a.value && a.form != TINY_BSR) {
            tiny_free(ctx, a.value);
            a.value = NULL;
        }
        if (!tiny_sparse_convert(ctx, &a, &e, &b)) {
            T_OK(tiny_sparse_check(ctx, &b));
            tiny_sparse_free(ctx, &b);
        }
        tiny_sparse_free(ctx, &a);
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_without_memory(void)
{
    int f, g;
    for (f = 0; f < 6; f++)
        for (g = 0; g < 6; g++) {
            coo c = make_coo(40, 40, 120, 1, 1);
            tiny_sparse_desc d1 = desc_of(forms[f]), d2 = desc_of(forms[g]);
            d2.duplicates = TINY_DUPLICATES_SUM;
            T_EACH_ALLOCATION(
                tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
                tiny_ctx *ctx = NULL;
                if (!tiny_ctx_open(&desc, &ctx)) {
                    tiny_sparse b;
                    tiny_sparse e;
                    tiny_status st = tiny_sparse_convert(ctx, &c.a, &d1, &b);
                    if (st) T_TRUE(st == TINY_E_MEMORY && b.offset == NULL && b.owned == 0);
                    else {
                        st = tiny_sparse_convert(ctx, &b, &d2, &e);
                        if (st) T_TRUE(st == TINY_E_MEMORY && e.offset == NULL && e.owned == 0);
                        tiny_sparse_free(ctx, &e);
                        tiny_sparse_free(ctx, &b);
                    }
                    tiny_ctx_close(ctx);
                })
            t_free_blocks();
        }
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_round_trips);
    T_RUN(test_duplicate_sum);
    T_RUN(test_dense);
    T_RUN(test_large);
    T_RUN(test_into);
    T_RUN(test_refuses);
    T_RUN(test_mutations);
    T_RUN(test_without_memory);
    return t_done();
}
