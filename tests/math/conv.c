/* tests/math/conv.c - convolution against the definition written out here, identity kernels, and one dimension as
 * two */
#include "t.h"

/* n images, groups, channels of a group in and out, size, taps, stride, pad top left bottom right, dilation */
typedef struct shape { int n, g, c, k, h, w, r, s, sh, sw, p[4], dh, dw; } shape;

static const shape shapes[] = {
    { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, { 0, 0, 0, 0 }, 1, 1 },
    { 1, 1, 3, 8, 10, 10, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
    { 2, 1, 5, 7, 9, 13, 3, 2, 1, 1, { 0, 2, 1, 0 }, 1, 1 },
    { 1, 1, 4, 9, 12, 11, 3, 3, 2, 2, { 1, 1, 1, 1 }, 1, 1 },
    { 1, 1, 3, 16, 23, 31, 7, 7, 2, 2, { 3, 3, 3, 3 }, 1, 1 },
    { 1, 1, 2, 3, 17, 19, 3, 4, 3, 2, { 2, 0, 0, 3 }, 2, 3 },
    { 1, 1, 2, 3, 17, 19, 3, 5, 4, 6, { 5, 7, 9, 2 }, 2, 4 },
    { 1, 1, 33, 17, 7, 7, 1, 1, 1, 1, { 0, 0, 0, 0 }, 1, 1 },
    { 1, 1, 33, 17, 8, 8, 1, 1, 2, 2, { 0, 0, 0, 0 }, 1, 1 },
    { 2, 3, 2, 4, 9, 9, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
    { 1, 19, 1, 1, 15, 17, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
    { 2, 6, 1, 2, 33, 40, 5, 5, 2, 2, { 2, 2, 2, 2 }, 1, 1 },
    { 1, 1, 3, 5, 6, 130, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
    { 1, 1, 1, 2, 3, 2000, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
    { 1, 1, 2, 2, 3, 1000, 1, 3, 1, 2, { 0, 40, 0, 40 }, 1, 30 },
    { 1, 1, 70, 21, 20, 20, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },         /* more channels than a slab holds */
    { 1, 1, 300, 9, 14, 14, 3, 3, 1, 1, { 2, 2, 2, 2 }, 2, 2 },
    { 1, 1, 2, 4, 4, 4, 3, 3, 1, 1, { 6, 6, 6, 6 }, 1, 1 },             /* whole outputs in the padding */
    { 1, 1, 0, 3, 4, 4, 1, 1, 1, 1, { 0, 0, 0, 0 }, 1, 1 },             /* no channels: the bias alone */
    { 0, 1, 2, 3, 4, 4, 3, 3, 1, 1, { 1, 1, 1, 1 }, 1, 1 },
};

static int out_dim(int in, int before, int after, int taps, int stride, int dilation)
{
    return (in + before + after - dilation * (taps - 1) - 1) / stride + 1;
}

static void params_of(const shape *z, int relu, tiny_conv2d_params *p)
{
    memset(p, 0, sizeof *p);
    p->stride[0] = z->sh; p->stride[1] = z->sw;
    p->dilation[0] = z->dh; p->dilation[1] = z->dw;
    memcpy(p->pad, z->p, sizeof p->pad);
    p->groups = z->g;
    p->relu = relu;
}

/* the definition over flat dense arrays; *size is the sum of magnitudes */
static double by_definition(const shape *z, const float *x, const float *w, const float *b, int n, int k, int i, int j,
                            double *size)
{
    double sum = b ? (double)b[k] : 0.0;
    int c, r, s, g = k / z->k;
    *size = fabs(sum);
    for (s = 0; s < z->s; s++)
        for (r = 0; r < z->r; r++)
            for (c = 0; c < z->c; c++) {
                int row = i * z->sh + r * z->dh - z->p[0], col = j * z->sw + s * z->dw - z->p[1];
                double v;
                if (row < 0 || col < 0 || row >= z->h || col >= z->w) continue;
                v = (double)x[((n * z->g * z->c + g * z->c + c) * z->h + row) * z->w + col] *
                    (double)w[((k * z->c + c) * z->r + r) * z->s + s];
                sum += v;
                *size += fabs(v);
            }
    return sum;
}

static void test_definition(tiny_target target)
{
    int threads;
    size_t q;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (q = 0; q < T_COUNT(shapes); q++) {
            const shape *z = &shapes[q];
            int oh = out_dim(z->h, z->p[0], z->p[2], z->r, z->sh, z->dh),
                ow = out_dim(z->w, z->p[1], z->p[3], z->s, z->sw, z->dw), n, k, i, j, with, bad = 0;
            size_t nx = (size_t)(z->n * z->g * z->c * z->h * z->w), nw = (size_t)(z->g * z->k * z->c * z->r * z->s),
                   ny = (size_t)(z->n * z->g * z->k * oh * ow);
            float *x = t_rand(nx, -1.0f, 1.0f), *w = t_rand(nw, -1.0f, 1.0f),
                  *b = t_rand((size_t)(z->g * z->k), -1.0f, 1.0f), *y = t_guarded(ny);
            tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, z->n, z->g * z->c, z->h, z->w),
                        tw = tiny_tensor_4d(w, TINY_F32, z->g * z->k, z->c, z->r, z->s);
            tiny_tensor tb = tiny_tensor_1d(b, TINY_F32, z->g * z->k),
                        ty = tiny_tensor_4d(y, TINY_F32, z->n, z->g * z->k, oh, ow);
            for (with = 0; with < 4; with++) {
                tiny_conv2d_params p;
                double terms = z->c * z->r * z->s + 4;
                params_of(z, with & 1, &p);
                T_OK(tiny_conv2d(ctx, &tx, &tw, with & 2 ? &tb : NULL, &p, &ty));
                T_RAN_ON(ctx, t_vectors(target));
                for (n = 0; n < z->n; n++)
                    for (k = 0; k < z->g * z->k; k++)
                        for (i = 0; i < oh; i++)
                            for (j = 0; j < ow; j++) {
                                double size, want = by_definition(z, x, w, with & 2 ? b : NULL, n, k, i, j, &size);
                                double got = (double)y[((n * z->g * z->k + k) * oh + i) * ow + j];
                                if (with & 1 && want < 0) want = 0;
                                bad += !(fabs(got - want) <= terms / 16777216.0 * size);
                            }
                if (!T_EQ_INT(bad, 0)) printf("conv: shape %d, with %d\n", (int)q, with);
                T_WALLS(y, ny);
            }
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* whole numbers: no rounding anywhere, so the result is exact; and every tensor has unusual strides */
static void test_exact_and_strides(tiny_target target)
{
    int threads, round;
    for (threads = 1; threads <= 2; threads++) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (round = 0; round < 24; round++) {
            const shape *z = &shapes[1 + (size_t)t_rand_below(15)];
            int oh = out_dim(z->h, z->p[0], z->p[2], z->r, z->sh, z->dh),
                ow = out_dim(z->w, z->p[1], z->p[3], z->s, z->sw, z->dw), n, k, i, j, t, bad = 0;
            int K = z->g * z->k;
            tiny_idx dim[4][4];
            tiny_tensor v[4];
            float *dense[4];
            tiny_conv2d_params p;
            dim[0][0] = z->n; dim[0][1] = z->g * z->c; dim[0][2] = z->h; dim[0][3] = z->w;
            dim[1][0] = K; dim[1][1] = z->c; dim[1][2] = z->r; dim[1][3] = z->s;
            dim[2][0] = K;
            dim[3][0] = z->n; dim[3][1] = K; dim[3][2] = oh; dim[3][3] = ow;
            for (t = 0; t < 4; t++) {
                int rank = t == 2 ? 1 : 4, a, order[4] = { 0, 1, 2, 3 };
                tiny_idx step = 1 + (tiny_idx)t_rand_below(2), e, count = 1, low = 0;
                if (rank == 4 && t_rand_below(2)) { order[1] = 2; order[2] = 3; order[3] = 1; }     /* channels last */
                v[t] = tiny_tensor_nd(NULL, TINY_F32, rank, dim[t]);
                for (a = rank - 1; a >= 0; a--) {
                    v[t].stride[order[a]] = step;
                    step = step * dim[t][order[a]] + (tiny_idx)t_rand_below(3);
                    count *= dim[t][a];
                }
                if (t_rand_below(4) == 0) {
                    low = (dim[t][0] - 1) * v[t].stride[0];
                    v[t].stride[0] = -v[t].stride[0];
                }
                v[t].data = t_guarded((size_t)step) + low;
                dense[t] = t_guarded((size_t)count);
                for (e = 0; e < count && t < 3; e++) {
                    tiny_idx rest = e, at = 0;
                    for (a = rank - 1; a >= 0; a--) at += rest % dim[t][a] * v[t].stride[a], rest /= dim[t][a];
                    ((float *)v[t].data)[at] = dense[t][e] = (float)((int)t_rand_below(9) - 4);
                }
            }
            params_of(z, round & 1, &p);
            T_OK(tiny_conv2d(ctx, &v[0], &v[1], &v[2], &p, &v[3]));
            for (n = 0; n < z->n; n++)
                for (k = 0; k < K; k++)
                    for (i = 0; i < oh; i++)
                        for (j = 0; j < ow; j++) {
                            double size, want = by_definition(z, dense[0], dense[1], dense[2], n, k, i, j, &size);
                            if (round & 1 && want < 0) want = 0;
                            bad += (double)((float *)v[3].data)[n * v[3].stride[0] + k * v[3].stride[1] +
                                                                i * v[3].stride[2] + j * v[3].stride[3]] != want;
                        }
            if (!T_EQ_INT(bad, 0)) printf("conv: round %d, shape %d\n", round, (int)(z - shapes));
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* a single 1 in the middle of the taps copies x; moved by one it shifts it */
static void test_identity(tiny_target target)
{
    enum { C = 5, H = 37, W = 67 };
    float *x = t_rand(C * H * W, -9.0f, 9.0f), *y = t_guarded(C * H * W), *w = t_keep(C * C * 9 * sizeof(float));
    tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, 1, C, H, W), ty = tiny_tensor_4d(y, TINY_F32, 1, C, H, W),
                tw = tiny_tensor_4d(w, TINY_F32, C, C, 3, 3);
    tiny_conv2d_params p;
    tiny_ctx *ctx = t_ctx(target, 2);
    int c, i, j;
    memset(&p, 0, sizeof p);
    for (i = 0; i < 4; i++) p.pad[i] = 1;
    for (c = 0; c < C; c++) w[(c * C + c) * 9 + 4] = 1.0f;
    T_OK(tiny_conv2d(ctx, &tx, &tw, NULL, &p, &ty));
    T_SAME(x, y, C * H * W);
    /* one to the right, next channel, doubled */
    for (c = 0; c < C; c++) w[(c * C + c) * 9 + 4] = 0.0f, w[(c * C + (c + 1) % C) * 9 + 5] = 2.0f;
    T_OK(tiny_conv2d(ctx, &tx, &tw, NULL, &p, &ty));
    for (c = 0; c < C; c++)
        for (i = 0; i < H; i++)
            for (j = 0; j < W; j++)
                if (!T_CLOSE(y[(c * H + i) * W + j], j + 1 < W ? 2 * x[((c + 1) % C * H + i) * W + j + 1] : 0, 0))
                    goto out;
out:
    t_close(ctx);
}

/* worked on paper: x = 1 2 3 / 4 5 6 / 7 8 9, taps 1 0 / 0 -1, bias 10 */
static void test_by_hand(tiny_target target)
{
    float x[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, w[4] = { 1, 0, 0, -1 }, b[1] = { 10 }, y[4];
    tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, 1, 1, 3, 3), tw = tiny_tensor_4d(w, TINY_F32, 1, 1, 2, 2),
                tb = tiny_tensor_1d(b, TINY_F32, 1), ty = tiny_tensor_4d(y, TINY_F32, 1, 1, 2, 2);
    tiny_ctx *ctx = t_ctx(target, 1);
    int i;
    T_OK(tiny_conv2d(ctx, &tx, &tw, &tb, NULL, &ty));
    for (i = 0; i < 4; i++) T_CLOSE(y[i], 6, 0);        /* a - d = -4 everywhere */
    t_close(ctx);
}

static void test_1d(tiny_target target)
{
    static const struct { int n, g, c, k, l, s, stride, left, right, dilation;
    } one[] = {
        { 1, 1, 1, 1, 5, 3, 1, 2, 0, 1 },     { 2, 1, 8, 12, 100, 3, 2, 1, 1, 1 },
        { 1, 4, 2, 2, 333, 4, 1, 9, 0, 3 },   { 1, 6, 1, 1, 2000, 4, 1, 3, 0, 1 },
        { 1, 1, 80, 20, 300, 3, 1, 1, 1, 1 }, { 1, 1, 1, 4, 1000, 400, 160, 200, 200, 1 },
    };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t q;
    int i;
    for (q = 0; q < T_COUNT(one); q++) {
        int n = one[q].n, g = one[q].g, c = one[q].c, k = one[q].k, l = one[q].l, s = one[q].s,
            ol = out_dim(l, one[q].left, one[q].right, s, one[q].stride, one[q].dilation);
        float *x = t_rand((size_t)(n * g * c * l), -1, 1), *w = t_rand((size_t)(g * k * c * s), -1, 1),
              *y = t_guarded((size_t)(n * g * k * ol)), *z = t_guarded((size_t)(n * g * k * ol));
        tiny_tensor x1 = tiny_tensor_3d(x, TINY_F32, n, g * c, l), w1 = tiny_tensor_3d(w, TINY_F32, g * k, c, s),
                    y1 = tiny_tensor_3d(y, TINY_F32, n, g * k, ol);
        tiny_tensor x2 = tiny_tensor_4d(x, TINY_F32, n, g * c, 1, l), w2 = tiny_tensor_4d(w, TINY_F32, g * k, c, 1, s),
                    y2 = tiny_tensor_4d(z, TINY_F32, n, g * k, 1, ol);
        tiny_conv1d_params p1;
        tiny_conv2d_params p2;
        memset(&p1, 0, sizeof p1);
        memset(&p2, 0, sizeof p2);
        p1.stride = p2.stride[1] = one[q].stride;
        p1.dilation = p2.dilation[1] = one[q].dilation;
        p1.pad_left = p2.pad[1] = one[q].left;
        p1.pad_right = p2.pad[3] = one[q].right;
        p1.groups = p2.groups = g;
        T_OK(tiny_conv1d(ctx, &x1, &w1, NULL, &p1, &y1));
        T_RAN_ON(ctx, t_vectors(target));
        T_OK(tiny_conv2d(ctx, &x2, &w2, NULL, &p2, &y2));
        T_SAME(y, z, n * g * k * ol);
        T_WALLS(y, n * g * k * ol);
        t_free_blocks();
    }
    {
        /* causal: inputs after position i change nothing up to i */
        float x[20], w[4] = { 0.5f, -1, 2, 3 }, y[20], z[20];
        tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 1, 20), tw = tiny_tensor_3d(w, TINY_F32, 1, 1, 4),
                    ty = tiny_tensor_3d(y, TINY_F32, 1, 1, 20), tz = tiny_tensor_3d(z, TINY_F32, 1, 1, 20);
        tiny_conv1d_params p;
        memset(&p, 0, sizeof p);
        p.pad_left = 3;
        for (i = 0; i < 20; i++) x[i] = (float)(i * i % 7);
        T_OK(tiny_conv1d(ctx, &tx, &tw, NULL, &p, &ty));
        for (i = 10; i < 20; i++) x[i] = 99;
        T_OK(tiny_conv1d(ctx, &tx, &tw, NULL, &p, &tz));
        T_SAME(y, z, 10);
        T_CLOSE(y[0], 3 * x[0], 0);
        T_CLOSE(y[3], 0.5f * x[0] - x[1] + 2 * x[2] + 3 * x[3], 0);
    }
    t_close(ctx);
}

/* NaN passes the ReLU, infinity too, and a zero of the padding times an infinite weight is NaN */
static void test_specials(tiny_target target)
{
    float x[3] = { 1, NAN, 2 }, w[2] = { 1, 0 }, y[4], far[2] = { INFINITY, 1 };
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 1, 3), tw = tiny_tensor_3d(w, TINY_F32, 1, 1, 2),
                ty = tiny_tensor_3d(y, TINY_F32, 1, 1, 3);
    tiny_conv1d_params p;
    int pass;
    for (pass = 0; pass < 2; pass++) {
        tiny_ctx *ctx = t_ctx(pass ? TINY_TARGET_REFERENCE : target, 1);
        memset(&p, 0, sizeof p);
        p.pad_right = 1;
        p.relu = 1;
        tw.data = w;
        T_OK(tiny_conv1d(ctx, &tx, &tw, NULL, &p, &ty));
        T_TRUE(isnan(y[0]) && isnan(y[1]) && y[2] == 2.0f);
        p.pad_right = 0;
        p.pad_left = 1;
        tw.data = far;
        T_OK(tiny_conv1d(ctx, &tx, &tw, NULL, &p, &ty));
        T_TRUE(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
        p.pad_left = 0;
        ty.dim[2] = 2;
        x[1] = 5;
        T_OK(tiny_conv1d(ctx, &tx, &tw, NULL, &p, &ty));
        T_TRUE(isinf(y[0]) && y[0] > 0);
        x[1] = NAN;
        ty.dim[2] = 3;
        t_close(ctx);
    }
}

static void test_refuses(void)
{
    float a[64] = { 0 }, b[64], c[64];
    tiny_tensor x = tiny_tensor_4d(a, TINY_F32, 1, 4, 4, 4), w = tiny_tensor_4d(b, TINY_F32, 2, 4, 2, 2),
                y = tiny_tensor_4d(c, TINY_F32, 1, 2, 3, 3), bias = tiny_tensor_1d(a, TINY_F32, 3);
    tiny_tensor x3 = tiny_tensor_3d(a, TINY_F32, 1, 4, 16), t;
    tiny_conv2d_params p;
    tiny_conv1d_params p1;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&p, 0, sizeof p);
    memset(&p1, 0, sizeof p1);
    T_STATUS(tiny_conv2d(ctx, &x3, &w, NULL, &p, &y), TINY_E_SHAPE, "x has rank 3");
    t = w;
    t.dtype = TINY_F16;
    T_STATUS(tiny_conv2d(ctx, &x, &t, NULL, &p, &y), TINY_E_DTYPE, "w is f16, bias is left out");
    T_STATUS(tiny_conv2d(ctx, &x, &w, &bias, &p, &y), TINY_E_SHAPE, "bias must have 2 values");
    p.groups = 3;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_SHAPE, "w reads 4 channels in each of 3 groups, x has 4");
    p.groups = -1;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_ARGUMENT, "-1 groups");
    p.groups = 4;
    t = w;
    t.dim[1] = 1;
    T_STATUS(tiny_conv2d(ctx, &x, &t, NULL, &p, &y), TINY_E_SHAPE, "2 output channels do not divide into 4 groups");
    p.groups = 0;
    p.stride[1] = -2;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_ARGUMENT, "the stride of the width is -2");
    p.stride[1] = 0;
    p.dilation[0] = 40000;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_ARGUMENT,
             "the dilation of the height is 40000, it must be 1 to 32767");
    p.dilation[0] = 4;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_SHAPE,
             "the height of x is 4 with padding 0 and 0, 2 taps with dilation 4 do not fit");
    p.dilation[0] = 0;
    p.pad[3] = -1;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_ARGUMENT, "the padding of the width is 0 and -1");
    p.pad[3] = 0;
    t = w;
    t.dim[2] = 0;
    T_STATUS(tiny_conv2d(ctx, &x, &t, NULL, &p, &y), TINY_E_SHAPE, "w has 0 taps along the height");
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = 32767;
    p.dilation[0] = p.dilation[1] = 32767;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_UNSUPPORTED, "span more than 67108864 inputs");
    memset(&p, 0, sizeof p);
    p.stride[0] = 2;
    T_STATUS(tiny_conv2d(ctx, &x, &w, NULL, &p, &y), TINY_E_SHAPE, "output 0 is 1x2x3x3 f32, it must be 1x2x2x3 f32");
    T_STATUS(tiny_conv1d(ctx, &x, &w, NULL, &p1, &y), TINY_E_SHAPE, "conv1d: x has rank 4");
    T_STATUS(tiny_conv2d(ctx, &x, NULL, NULL, NULL, &y), TINY_E_ARGUMENT, "input 1 is missing");
    t_close(ctx);
}

static void test_without_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        float x[64] = { 0 };
        float w[16] = { 0 };
        float y[9];
        tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, 1, 4, 4, 4);
        tiny_tensor tw = tiny_tensor_4d(w, TINY_F32, 1, 4, 2, 2);
        tiny_tensor ty = tiny_tensor_4d(y, TINY_F32, 1, 1, 3, 3);
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_status st = tiny_conv2d(ctx, &tx, &tw, NULL, NULL, &ty);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tiny_ctx_close(ctx);
        })
}

/* Patches of 2 x 2 of an image of 2 x 3 with padding below and on the right only, written out on paper: columns of
 * patches, how many of them hold each pixel, and the largest number of each. */
static void test_patches_by_hand(tiny_target target)
{
    static const float x[6] = { 1, 2, 3, 4, 5, 6 },
                       columns[24] = { 1, 2, 3, 4, 5, 6, 2, 3, 0, 5, 6, 0, 4, 5, 6, 0, 0, 0, 5, 6, 0, 0, 0, 0 },
                       cover[6] = { 1, 2, 2, 2, 4, 4 }, most[6] = { 5, 6, 6, 5, 6, 6 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *got = t_guarded(24), *ones = t_guarded(24), *image = t_guarded(6), *pool = t_guarded(6);
    const tiny_idx dim[4] = { 1, 1, 2, 3 };
    tiny_tensor tx = tiny_tensor_nd((void *)(uintptr_t)x, TINY_F32, 4, dim), tc = tiny_tensor_2d(got, TINY_F32, 4, 6),
                to = tiny_tensor_2d(ones, TINY_F32, 4, 6), ti = tiny_tensor_nd(image, TINY_F32, 4, dim),
                tp = tiny_tensor_nd(pool, TINY_F32, 4, dim), small = tiny_tensor_2d(got, TINY_F32, 4, 3);
    tiny_patch_params p;
    int i;
    memset(&p, 0, sizeof p);
    p.size[0] = p.size[1] = 2;
    p.stride[0] = p.stride[1] = 1;
    p.pad[2] = p.pad[3] = 1;
    T_OK(tiny_im2col(ctx, &tx, &p, &tc));
    T_SAME(got, columns, 24);
    T_STATUS(tiny_im2col(ctx, &tx, &p, &small), TINY_E_SHAPE, NULL);
    T_OK(tiny_max_pool(ctx, &tx, &p, &tp));
    T_SAME(pool, most, 6);
    for (i = 0; i < 24; i++) ones[i] = 1;
    p.image[0] = 2;
    p.image[1] = 3;
    T_OK(tiny_col2im(ctx, &to, &p, &ti));
    T_SAME(image, cover, 6);
    T_WALLS(got, 24);
    T_WALLS(image, 6);
    T_WALLS(pool, 6);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_patches_by_hand);
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_definition);
    T_RUN_TARGETS(test_exact_and_strides);
    T_RUN_TARGETS(test_identity);
    T_RUN_TARGETS(test_1d);
    T_RUN_TARGETS(test_specials);
    T_RUN(test_refuses);
    T_RUN(test_without_memory);
    return t_done();
}
