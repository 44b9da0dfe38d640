/* tests/math/layout.c - copy, permute, gather, scatter-add against index arithmetic written out here */
#define T_INTERNALS
#include "t.h"

static const tiny_dtype types[] = { TINY_F32, TINY_F16, TINY_BF16, TINY_F64, TINY_I8,
                                    TINY_U8,  TINY_I16, TINY_I32,  TINY_I64 };

static void fill_bytes(void *p, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++) ((unsigned char *)p)[i] = (unsigned char)t_rand_u64();
}

/* every element of y must be the bytes of x at the permuted index */
static tiny_idx count_wrong(const tiny_tensor *x, const int *axes, const tiny_tensor *y)
{
    tiny_idx i[4], bad = 0;
    tiny_idx d[4] = { 1, 1, 1, 1 };
    size_t es = tiny_dtype_bytes(x->dtype);
    int a;
    for (a = 0; a < y->rank; a++) d[a] = y->dim[a];
    for (i[0] = 0; i[0] < d[0]; i[0]++)
        for (i[1] = 0; i[1] < d[1]; i[1]++)
            for (i[2] = 0; i[2] < d[2]; i[2]++)
                for (i[3] = 0; i[3] < d[3]; i[3]++) {
                    ptrdiff_t ox = 0, oy = 0;
                    for (a = 0; a < y->rank; a++) {
                        oy += i[a] * y->stride[a];
                        ox += i[a] * x->stride[axes[a]];
                    }
                    bad += memcmp((const char *)x->data + ox * (ptrdiff_t)es,
                                  (const char *)y->data + oy * (ptrdiff_t)es, es) != 0;
                }
    return bad;
}

static void check_permute(tiny_ctx *ctx, tiny_dtype type, int rank, const tiny_idx *dim, const int *axes)
{
    size_t es = tiny_dtype_bytes(type), n = 1;
    tiny_tensor x, y;
    tiny_idx ydim[4];
    void *px, *py;
    int a;
    for (a = 0; a < rank; a++) n *= (size_t)dim[a], ydim[a] = dim[axes[a]];
    px = t_guarded_bytes(n * es);
    py = t_guarded_bytes(n * es);
    fill_bytes(px, n * es);
    x = tiny_tensor_nd(px, type, rank, dim);
    y = tiny_tensor_nd(py, type, rank, ydim);
    T_OK(tiny_permute(ctx, &x, axes, &y));
    if (!T_EQ_INT(count_wrong(&x, axes, &y), 0)) printf("permute: rank %d, %s\n", rank, tiny_dtype_name(type));
    T_WALLS(py, n);
}

static void test_permute(tiny_target target)
{
    static const tiny_idx dims2[][2] = { { 1, 1 },    { 2, 3 },    { 16, 16 },  { 17, 33 }, { 64, 64 },
                                         { 65, 130 }, { 3, 1000 }, { 1000, 3 }, { 0, 5 },   { 300, 257 } };
    static const tiny_idx dims3[3] = { 5, 18, 35 }, dims4[4] = { 3, 6, 5, 20 };
    static const int swap[4] = { 1, 0, 2, 3 };
    static const int all3[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    int threads, a, b, c;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(target, threads);
        size_t t, s;
        for (t = 0; t < T_COUNT(types); t++) {
            for (s = 0; s < T_COUNT(dims2); s++) check_permute(ctx, types[t], 2, dims2[s], swap);
            T_RAN_ON(ctx, ctx->cpu & TINY_CPU_HALVES && tiny_dtype_bytes(types[t]) > 2 ? t_narrow(target)
                                                                                       : t_vectors(target));
            for (s = 0; s < 6; s++) check_permute(ctx, types[t], 3, dims3, all3[s]);
            for (a = 0; a < 4; a++)
                for (b = 0; b < 4; b++)
                    for (c = 0; c < 4; c++) {
                        int axes[4];
                        if (a == b || a == c || b == c) continue;
                        axes[0] = a; axes[1] = b; axes[2] = c; axes[3] = 6 - a - b - c;
                        check_permute(ctx, types[t], 4, dims4, axes);
                    }
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* views with gaps, steps, turned axes and repeated axes */
static void test_copy(tiny_target target)
{
    static const int same[4] = { 0, 1, 2, 3 };
    int threads, round;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (round = 0; round < 150; round++) {
            tiny_idx dim[4], n = 1;
            tiny_tensor x, y;
            int rank = (int)t_rand_below(5), a, side;
            tiny_dtype type = types[t_rand_below(9)];
            size_t es = tiny_dtype_bytes(type);
            for (a = 0; a < rank; a++) n *= dim[a] = 1 + (tiny_idx)t_rand_below(rank < 3 ? 90 : 13);
            for (side = 0; side < 2; side++) {
                tiny_tensor v = tiny_tensor_nd(NULL, type, rank, dim);
                tiny_idx step = 1, low = 0;
                int order[4], i, j;
                for (i = 0; i < rank; i++) {
                    j = (int)t_rand_below((uint32_t)i + 1);
                    order[i] = order[j];
                    order[j] = i;
                }
                if (t_rand_below(2)) for (i = 0; i < rank; i++) order[i] = i;
                for (i = rank - 1; i >= 0; i--) {
                    a = order[i];
                    step += t_rand_below(4) ? 0 : (tiny_idx)t_rand_below(3);
                    v.stride[a] = side == 0 && t_rand_below(9) == 0 ? 0 : step;
                    if (t_rand_below(9) == 0) {
                        low += (dim[a] - 1) * v.stride[a];
                        v.stride[a] = -v.stride[a];
                    }
                    step = step * dim[a];
                }
                v.data = (char *)t_guarded_bytes((size_t)step * es) + low * (ptrdiff_t)es;
                fill_bytes((char *)v.data - low * (ptrdiff_t)es, (size_t)step * es);
                if (side == 0) x = v;
                else y = v;
            }
            if (n) T_OK(tiny_copy(ctx, &x, &y));
            if (!T_EQ_INT(count_wrong(&x, same, &y), 0))
                printf("copy: round %d, rank %d, %s\n", round, rank, tiny_dtype_name(type));
            t_free_blocks();
        }
        {
            /* long rows are cut; and a view onto itself is left alone */
            size_t n = 300001;
            char *p = (char *)t_guarded_bytes(n), *q = (char *)t_guarded_bytes(n);
            tiny_tensor x = tiny_tensor_1d(p, TINY_I8, (tiny_idx)n), y = tiny_tensor_1d(q, TINY_I8, (tiny_idx)n);
            fill_bytes(p, n);
            T_OK(tiny_copy(ctx, &x, &y));
            T_RAN_ON(ctx, t_vectors(target));
            T_SAME(p, q, n);
            T_WALLS(q, n);
            T_OK(tiny_copy(ctx, &x, &x));
            T_SAME(p, q, n);
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* large enough for dense copies, large tiles and stores past the caches; odd ends; and y off its lines */
static void test_large(tiny_target target)
{
    static const struct { tiny_dtype type; tiny_idx rows, cols, shift;
    } large[] = {
        { TINY_I8, 1500, 2100, 0 },  { TINY_F16, 1030, 1100, 3 }, { TINY_F64, 500, 700, 0 },
        { TINY_F32, 2880, 3000, 0 }, { TINY_F32, 2880, 3000, 1 }, { TINY_F32, 3001, 2803, 0 },
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t q;
    for (q = 0; q < T_COUNT(large); q++) {
        size_t es = tiny_dtype_bytes(large[q].type), n = (size_t)(large[q].rows * large[q].cols);
        unsigned char *x = (unsigned char *)t_keep(n * es),
                      *y = (unsigned char *)t_keep((n + 4) * es) + (size_t)large[q].shift * es;
        tiny_tensor tx = tiny_tensor_2d(x, large[q].type, large[q].rows, large[q].cols),
                    ty = tiny_tensor_2d(y, large[q].type, large[q].cols, large[q].rows);
        tiny_idx r, c, bad = 0;
        uint64_t i;
        for (i = 0; i < n; i++) {
            uint64_t v = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
            memcpy(x + i * es, &v, es);
        }
        T_OK(tiny_transpose(ctx, &tx, &ty));
        for (r = 0; r < large[q].rows; r++)
            for (c = 0; c < large[q].cols; c++)
                bad +=
                    memcmp(x + (size_t)(r * large[q].cols + c) * es, y + (size_t)(c * large[q].rows + r) * es, es) != 0;
        T_EQ_INT(bad, 0);
        t_free_blocks();
    }
    t_close(ctx);
}

/* a 2 x 3 matrix on paper; a double transpose is the identity */
static void test_transpose_by_hand(tiny_target target)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[6], z[6];
    static const float want[6] = { 1, 4, 2, 5, 3, 6 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 3, 2),
                tz = tiny_tensor_2d(z, TINY_F32, 2, 3);
    tiny_ctx *ctx = t_ctx(target, 1);
    T_OK(tiny_transpose(ctx, &tx, &ty));
    T_SAME(y, want, 6);
    T_OK(tiny_transpose(ctx, &ty, &tz));
    T_SAME(z, x, 6);
    t_close(ctx);
}

/* Where 512 bits go in halves, avx512 lends these of avx2. */
static void test_halves(void)
{
    static const struct { tiny_dtype type; int lent; } each[] = { { TINY_F32, 1 }, { TINY_F64, 1 }, { TINY_U8, 0 } };
    tiny_ctx *ctx;
    size_t q;
    if (!tiny_target_runs_here(TINY_TARGET_AVX512) || !tiny_target_runs_here(TINY_TARGET_AVX2)) return;
    ctx = t_ctx(TINY_TARGET_AVX512, 1);
    tinyi_kernels_fill(ctx->k, TINY_TARGET_AVX512, ctx->cpu | TINY_CPU_HALVES);
    for (q = 0; q < T_COUNT(each); q++) {
        const size_t es = tiny_dtype_bytes(each[q].type);
        unsigned char *x = (unsigned char *)t_keep(37 * 50 * es), *y = (unsigned char *)t_keep(37 * 50 * es);
        const tiny_tensor tx = tiny_tensor_2d(x, each[q].type, 37, 50), ty = tiny_tensor_2d(y, each[q].type, 50, 37);
        size_t r, c, bad = 0;
        fill_bytes(x, 37 * 50 * es);
        T_OK(tiny_transpose(ctx, &tx, &ty));
        T_RAN_ON(ctx, each[q].lent ? TINY_TARGET_AVX2 : TINY_TARGET_AVX512);
        for (r = 0; r < 37; r++)
            for (c = 0; c < 50; c++) bad += memcmp(x + (r * 50 + c) * es, y + (c * 37 + r) * es, es) != 0;
        T_EQ_INT(bad, 0);
    }
    t_close(ctx);
}

static void put_index(void *index, int wide, tiny_idx at, tiny_idx value)
{
    if (wide) ((int64_t *)index)[at] = value;
    else ((int32_t *)index)[at] = (int32_t)value;
}

static void test_gather(tiny_target target)
{
    static const tiny_idx width[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 256, 257, 700
    };
    int threads, wide;
    size_t w, t;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (t = 0; t < T_COUNT(types); t += t == 6 ? 2u : 3u)
            for (wide = 0; wide < 2; wide++)
                for (w = 0; w < T_COUNT(width); w++) {
                    tiny_idx rows = 37, n = w % 2 ? 600 : 20, f = width[w], i, bad = 0;
                    size_t es = tiny_dtype_bytes(types[t]);
                    unsigned char *x = (unsigned char *)t_guarded_bytes((size_t)(rows * f) * es),
                                  *y = (unsigned char *)t_guarded_bytes((size_t)(n * f) * es);
                    void *index = t_guarded_bytes((size_t)n * (wide ? 8 : 4));
                    tiny_idx *at = (tiny_idx *)t_keep((size_t)n * sizeof *at);
                    tiny_tensor tx = tiny_tensor_2d(x, types[t], rows, f),
                                ti = tiny_tensor_2d(index, wide ? TINY_I64 : TINY_I32, n / 4, 4);
                    tiny_tensor ty = tiny_tensor_3d(y, types[t], n / 4, 4, f);
                    fill_bytes(x, (size_t)(rows * f) * es);
                    for (i = 0; i < n; i++) put_index(index, wide, i, at[i] = (tiny_idx)t_rand_below((uint32_t)rows));
                    T_OK(tiny_gather(ctx, &tx, &ti, &ty));
                    T_RAN_ON(ctx, t_vectors(target));
                    for (i = 0; i < n; i++)
                        bad += memcmp(y + (size_t)(i * f) * es, x + (size_t)(at[i] * f) * es, (size_t)f * es) != 0;
                    T_EQ_INT(bad, 0);
                    T_WALLS(y, n * f);
                    t_free_blocks();
                }
        t_close(ctx);
    }
}

/* x and y with strange strides, rows of rank 2, an index of rank 0 and of steps */
static void test_gather_views(tiny_target target)
{
    float x[4 * 3 * 2], y[5 * 3 * 2 * 2];
    int32_t index[10] = { 3, -9, 0, -9, 1, -9, 1, -9, 2, -9 };
    tiny_idx i, a, b;
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 4, 2, 3), ti = tiny_tensor_1d(index, TINY_I32, 5),
                ty = tiny_tensor_3d(y, TINY_F32, 5, 3, 2), one = ti, row = ty;
    tiny_ctx *ctx = t_ctx(target, 2);
    for (i = 0; i < 24; i++) x[i] = (float)i;
    tx = tiny_tensor_swap(tx, 1, 2);        /* (4, 3, 2), element (i, a, b) at 6 i + 3 b + a */
    ti.stride[0] = 2;
    ty.stride[0] = 12;
    ty.stride[1] = 4;
    ty.stride[2] = 2;
    T_OK(tiny_gather(ctx, &tx, &ti, &ty));
    for (i = 0; i < 5; i++)
        for (a = 0; a < 3; a++)
            for (b = 0; b < 2; b++) T_CLOSE(y[12 * i + 4 * a + 2 * b], 6 * index[2 * i] + 3 * b + a, 0);
    one.rank = 0;
    row = tiny_tensor_2d(y, TINY_F32, 3, 2);
    T_OK(tiny_gather(ctx, &tx, &one, &row));
    T_CLOSE(y[5], 6 * 3 + 3 + 2, 0);
    t_close(ctx);
}

static void test_gather_refuses(tiny_target target)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[8];
    int32_t index[4] = { 0, 2, 3, 1 };
    int64_t far[4] = { 0, -1, 0, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 2), ti = tiny_tensor_1d(index, TINY_I32, 4),
                tf = tiny_tensor_1d(far, TINY_I64, 4), ty = tiny_tensor_2d(y, TINY_F32, 4, 2);
    tiny_tensor bad = tiny_tensor_1d(x, TINY_F32, 4), deep = tiny_tensor_4d(index, TINY_I32, 1, 1, 1, 4), scalar = tx,
                empty = tiny_tensor_2d(x, TINY_F32, 0, 2);
    tiny_ctx *ctx = t_ctx(target, 2), *plain;
    T_STATUS(tiny_gather(ctx, &tx, &ti, &ty), TINY_E_ARGUMENT, "gather: index 2 is 3, but x has 3 rows");
    T_STATUS(tiny_gather(ctx, &tx, &tf, &ty), TINY_E_ARGUMENT, "gather: index 1 is -1, but x has 3 rows");
    T_STATUS(tiny_gather(ctx, &empty, &ti, &ty), TINY_E_ARGUMENT, "x has 0 rows");
    T_STATUS(tiny_gather(ctx, &tx, &bad, &ty), TINY_E_DTYPE, "index is f32");
    T_STATUS(tiny_gather(ctx, &tx, &deep, &ty), TINY_E_SHAPE, "gives rank 5");
    scalar.rank = 0;
    T_STATUS(tiny_gather(ctx, &scalar, &ti, &ty), TINY_E_SHAPE, "no rows to choose from");
    index[2] = 0;                           /* the reference checks indices before it compares shapes */
    T_STATUS(tiny_gather(ctx, &tx, &ti, &tx), TINY_E_SHAPE, "output 0 is 3x2 f32, it must be 4x2 f32");
    T_OK(tiny_gather(ctx, &tx, &ti, &ty));
    t_close(ctx);
    plain = t_ctx(TINY_TARGET_REFERENCE, 1);        /* the reference checks before it starts */
    T_STATUS(tiny_gather(plain, &tx, &tf, &ty), TINY_E_ARGUMENT, "gather: index 1 is -1, but x has 3 rows");
    t_close(plain);
}

/* an index that an operation of the same list computes is judged when its row is due */
static void test_gather_in_list(tiny_target target)
{
    float x[4] = { 5, 9, 7, 8 }, best[2], y[2];
    int32_t index[2] = { 77, 99 };
    tiny_topk_params k;
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 4), tb = tiny_tensor_1d(best, TINY_F32, 2),
                ti = tiny_tensor_1d(index, TINY_I32, 2), ty = tiny_tensor_1d(y, TINY_F32, 2);
    tiny_op ops[2];
    const tiny_op *list[2];
    tiny_ctx *ctx = t_ctx(target, 2);
    memset(ops, 0, sizeof ops);
    k.k = 2;
    ops[0].kind = TINY_OP_TOPK;
    ops[0].in[0] = &tx;
    ops[0].out[0] = &tb;
    ops[0].out[1] = &ti;
    ops[0].params = &k;
    ops[1].kind = TINY_OP_GATHER;
    ops[1].in[0] = &tx;
    ops[1].in[1] = &ti;
    ops[1].out[0] = &ty;
    list[0] = &ops[0];
    list[1] = &ops[1];
    T_OK(tiny_run_list(ctx, list, 2));
    T_CLOSE(y[0], 9, 0);
    T_CLOSE(y[1], 8, 0);
    t_close(ctx);
}

static void test_scatter_add(tiny_target target)
{
    static const tiny_idx width[] = { 1, 2, 3, 7, 8, 16, 17, 33, 64, 100, 257, 1000 };
    int threads, wide;
    size_t w;
    for (threads = 1; threads <= 4; threads++) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (wide = 0; wide < 2; wide++)
            for (w = 0; w < T_COUNT(width); w++) {
                tiny_idx rows = 11 + (tiny_idx)w * 9, n = 3000 / width[w] + 50, f = width[w], i, c;
                float *x = t_rand((size_t)(n * f), -1.0f, 1.0f), *y = t_rand((size_t)(rows * f), -1.0f, 1.0f),
                      *want = t_guarded((size_t)(rows * f));
                void *index = t_guarded_bytes((size_t)n * (wide ? 8 : 4));
                tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, f),
                            ti = tiny_tensor_1d(index, wide ? TINY_I64 : TINY_I32, n),
                            ty = tiny_tensor_2d(y, TINY_F32, rows, f);
                memcpy(want, y, (size_t)(rows * f) * sizeof *y);
                for (i = 0; i < n; i++) {
                    tiny_idx at = (tiny_idx)t_rand_below(t_rand_below(3) ? 2 : (uint32_t)rows);      /* two hubs */
                    put_index(index, wide, i, at);
                    for (c = 0; c < f; c++) {
                        volatile float sum = want[at * f + c] + x[i * f + c];
                        want[at * f + c] = sum;
                    }
                }
                T_OK(tiny_scatter_add(ctx, &tx, &ti, &ty));
                T_RAN_ON(ctx, t_vectors(target));
                T_SAME(y, want, rows * f);
                T_WALLS(y, rows * f);
                t_free_blocks();
            }
        t_close(ctx);
    }
}

/* gather then scatter-add counts how often each row was taken; rows of rank 2 that are not dense */
static void test_scatter_views(tiny_target target)
{
    float x[4 * 2 * 3], y[3 * 3 * 2];
    int64_t index[4] = { 2, 0, 2, 2 };
    tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, 2, 2, 2, 3), ti = tiny_tensor_2d(index, TINY_I64, 2, 2),
                ty = tiny_tensor_3d(y, TINY_F32, 3, 3, 2);
    tiny_ctx *ctx = t_ctx(target, 2);
    int i;
    for (i = 0; i < 24; i++) x[i] = (float)(i % 6);
    for (i = 0; i < 18; i++) y[i] = 100.0f;
    ty = tiny_tensor_swap(ty, 1, 2);        /* (3, 2, 3): element (r, a, b) at 6 r + 2 b + a */
    T_OK(tiny_scatter_add(ctx, &tx, &ti, &ty));
    for (i = 0; i < 18; i++) {
        int r = i / 6, b = i % 6 / 2, a = i % 2, times = r == 2 ? 3 : r == 0 ? 1 : 0;
        T_CLOSE(y[i], 100 + times * (3 * a + b), 0);
    }
    t_close(ctx);
}

static void test_scatter_refuses(tiny_target target)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[4] = { 0, 0, 0, 0 };
    int32_t index[3] = { 0, 2, -1 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 2), ti = tiny_tensor_1d(index, TINY_I32, 3),
                ty = tiny_tensor_2d(y, TINY_F32, 2, 2), t16 = tx, few = ti, wide = ti;
    tiny_ctx *ctx = t_ctx(target, 2);
    T_STATUS(tiny_scatter_add(ctx, &tx, &ti, &ty), TINY_E_ARGUMENT, "scatter_add: index 1 is 2, but y has 2 rows");
    index[1] = 1;
    T_STATUS(tiny_scatter_add(ctx, &tx, &ti, &ty), TINY_E_ARGUMENT, "scatter_add: index 2 is -1, but y has 2 rows");
    t16.dtype = TINY_F16;
    T_STATUS(tiny_scatter_add(ctx, &t16, &ti, &ty), TINY_E_DTYPE, "x is f16");
    few.dim[0] = 2;
    T_STATUS(tiny_scatter_add(ctx, &tx, &few, &ty), TINY_E_SHAPE, "axis 0 of index is 2, of x 3");
    wide.dtype = TINY_U8;
    T_STATUS(tiny_scatter_add(ctx, &tx, &wide, &ty), TINY_E_DTYPE, "index is u8");
    T_STATUS(tiny_scatter_add(ctx, &tx, &ti, NULL), TINY_E_ARGUMENT, "output 0 is missing");
    t_close(ctx);
}

static void test_permute_refuses(void)
{
    float x[6] = { 0 }, y[6];
    static const int twice[4] = { 1, 1, 0, 0 }, far[4] = { 0, 2, 0, 0 }, good[4] = { 1, 0, 0, 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 3, 2),
                same = tiny_tensor_2d(x, TINY_F32, 3, 2), other = tiny_tensor_2d(y, TINY_I32, 2, 3);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_STATUS(tiny_permute(ctx, &tx, twice, &ty), TINY_E_ARGUMENT, "axis 1 of x occurs twice");
    T_STATUS(tiny_permute(ctx, &tx, far, &ty), TINY_E_ARGUMENT, "axes[1] is 2, x has 2 axes");
    T_STATUS(tiny_permute(ctx, &tx, good, &same), TINY_E_ALIAS, "overlaps");
    T_STATUS(tiny_permute(ctx, NULL, good, &ty), TINY_E_ARGUMENT, "input 0 is missing");
    T_STATUS(tiny_copy(ctx, &tx, &other), TINY_E_DTYPE, "output 0 is 2x3 i32, it must be 2x3 f32");
    T_STATUS(tiny_copy(ctx, &tx, &ty), TINY_E_SHAPE, "it must be 2x3 f32");
    t_close(ctx);
}

/* nothing is copied for any other axis: a loop over it would take centuries */
static void test_long_and_empty(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x = 1.0f, y = 2.0f;
    tiny_tensor from = tiny_tensor_2d(&x, TINY_F32, TINY_IDX_MAX / 64, 0),
                to = tiny_tensor_2d(&y, TINY_F32, TINY_IDX_MAX / 64, 0);
    T_OK(tiny_copy(ctx, &from, &to));
    T_TRUE(y == 2.0f);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_long_and_empty);
    T_RUN_FORMS(test_permute);
    T_RUN_FORMS(test_copy);
    T_RUN_FORMS(test_transpose_by_hand);
    T_RUN_FORMS(test_large);
    T_RUN_FORMS(test_gather);
    T_RUN_FORMS(test_gather_views);
    T_RUN_FORMS(test_gather_refuses);
    T_RUN_FORMS(test_gather_in_list);
    T_RUN_FORMS(test_scatter_add);
    T_RUN_FORMS(test_scatter_views);
    T_RUN_FORMS(test_scatter_refuses);
    T_RUN(test_permute_refuses);
    T_RUN(test_halves);
    return t_done();
}
