/* tests/gnn/operator/modes.c - kept Fourier modes: recorded layers, waves worked by hand, a direct sum written here,
 * round trips, transposes, gradients by differences, every target against double, bad input */
#define T_GNN
#include "t.h"

#define PI 3.14159265358979323846

static tgnn_modes_params grid(int d, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx ka, tiny_idx kb, tiny_idx kc)
{
    tgnn_modes_params p;
    memset(&p, 0, sizeof p);
    p.d = d;
    p.size[0] = a;
    p.size[1] = b;
    p.size[2] = c;
    p.kept[0] = ka;
    p.kept[1] = kb;
    p.kept[2] = kc;
    return p;
}

static tiny_idx product(const tiny_idx *n, int d)
{
    tiny_idx r = 1;
    while (d--) r *= *n++;
    return r;
}

static double *wide(const float *x, size_t n)
{
    double *y = (double *)t_keep(n * sizeof *y);
    size_t i;
    for (i = 0; i < n; i++) y[i] = (double)x[i];
    return y;
}

/* a file of the oracle, or of its second set with other numbers, which a clone does not have */
static void *recorded_file(int second, const char *file, size_t bytes)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%s%.60s", second ? "medium/" : "", file);
    return t_shared_bytes(path, bytes);
}

/* GELU of the spectral part y and a map of each point, in double */
static void recorded_layer(tiny_ctx *ctx, int second, const double *x, const double *y)
{
    enum { POINTS = 256 };
    const float *w = (const float *)recorded_file(second, "fno2d/conv1x1_weight.f32", 12 * 4),
                *b = (const float *)recorded_file(second, "fno2d/conv1x1_bias.f32", 4 * 4);
    const double *want = (const double *)recorded_file(second, "fno2d/layer_out.f64", 2 * 4 * POINTS * 8);
    static double rows[2 * POINTS * 3], sums[2 * POINTS * 4];
    const tiny_tensor tx = tiny_tensor_2d(rows, TINY_F64, 2 * POINTS, 3),
                      ty = tiny_tensor_2d(sums, TINY_F64, 2 * POINTS, 4);
    tiny_tensor tw, tb, t;
    tiny_tape *tape = NULL;
    int i, c;
    if (!w || !b || !want) return;
    tw = tiny_tensor_2d(wide(w, 12), TINY_F64, 4, 3);
    tb = tiny_tensor_1d(wide(b, 4), TINY_F64, 4);
    for (i = 0; i < 2 * POINTS; i++) {
        for (c = 0; c < 3; c++) rows[3 * i + c] = x[(i / POINTS * 3 + c) * POINTS + i % POINTS];
        for (c = 0; c < 4; c++) sums[4 * i + c] = y[(i / POINTS * 4 + c) * POINTS + i % POINTS];
    }
    T_OK(tiny_tape_open(ctx, NULL, &tape));
    t = tiny_tape_linear(tape, &tx, &tw, &tb, TINY_ACT_NONE);
    t = tiny_tape_add(tape, &t, &ty);
    t = tiny_tape_call(tape, TINY_OP_GELU, &t, NULL, NULL, NULL, NULL);
    if (T_OK(tiny_tape_status(tape)))
        for (i = 0; i < 2 * POINTS; i++)
            for (c = 0; c < 4; c++)
                T_CLOSE(((const double *)t.data)[4 * i + c], want[(i / POINTS * 4 + c) * POINTS + i % POINTS], 1e-12);
    tiny_tape_close(tape);
}

/* The recorded layers have their channels before the points, and complex numbers last: views show them as ours. The
 * result is returned. */
static void *recorded(tiny_ctx *ctx, tiny_dtype type, int second, const char *name, const tgnn_modes_params *p,
                      const void *x, const void *w, double bound)
{
    const tiny_idx points = product(p->size, p->d), modes = product(p->kept, p->d);
    const size_t width = tiny_dtype_bytes(type), n_y = (size_t)(2 * 4 * points);
    void *a = t_keep((size_t)(2 * modes * 2 * 3) * width), *b = t_keep((size_t)(2 * modes * 2 * 4) * width),
         *y = t_keep(n_y * width);
    const double *want = (const double *)recorded_file(second, name, n_y * sizeof(double));
    tiny_tensor tx = tiny_tensor_3d((void *)(uintptr_t)x, type, 2, points, 3),
                ta = tiny_tensor_4d(a, type, 2, modes, 2, 3), tb = tiny_tensor_4d(b, type, 2, modes, 2, 4),
                tw = tiny_tensor_4d((void *)(uintptr_t)w, type, modes, 2, 3, 4),
                ty = tiny_tensor_3d(y, type, 2, points, 4);
    size_t i;
    if (!want) return y;
    tx.stride[0] = 3 * points;
    tx.stride[1] = 1;
    tx.stride[2] = points;
    ty.stride[0] = 4 * points;
    ty.stride[1] = 1;
    ty.stride[2] = points;
    tw.stride[0] = 2;
    tw.stride[1] = 1;
    tw.stride[2] = 4 * modes * 2;
    tw.stride[3] = modes * 2;
    T_OK(tgnn_modes(ctx, &tx, p, &ta));
    T_OK(tgnn_modes_mix(ctx, &ta, &tw, NULL, &tb));
    T_OK(tgnn_modes_field(ctx, &tb, p, &ty));
    for (i = 0; i < n_y; i++)
        T_CLOSE(type == TINY_F64 ? ((double *)y)[i] : (double)((float *)y)[i], want[i], bound);
    return y;
}

static void recorded_set(tiny_ctx *ctx, int second)
{
    const float *x1 = (const float *)recorded_file(second, "fno1d/x.f32", 2 * 3 * 24 * 4),
                *w1 = (const float *)recorded_file(second, "fno1d/weight.f32", 3 * 4 * 6 * 2 * 4),
                *x2 = (const float *)recorded_file(second, "fno2d/x.f32", 2 * 3 * 256 * 4),
                *up = (const float *)recorded_file(second, "fno2d/weight1.f32", 3 * 4 * 4 * 5 * 2 * 4),
                *down = (const float *)recorded_file(second, "fno2d/weight2.f32", 3 * 4 * 4 * 5 * 2 * 4);
    float w2[3 * 4 * 8 * 5 * 2];
    tgnn_modes_params p = grid(1, 24, 0, 0, 6, 0, 0);
    int i;
    if (!x1 || !w1 || !x2 || !up || !down) return;
    for (i = 0; i < 12; i++) {              /* rows of the negative frequencies first */
        memcpy(w2 + i * 80, down + i * 40, 40 * sizeof *w2);
        memcpy(w2 + i * 80 + 40, up + i * 40, 40 * sizeof *w2);
    }
    (void)recorded(ctx, TINY_F64, second, "fno1d/spectral_out.f64", &p, wide(x1, 144), wide(w1, 144), 1e-13);
    (void)recorded(ctx, TINY_F32, second, "fno1d/spectral_out.f64", &p, x1, w1, 2e-6);
    p = grid(2, 16, 16, 0, 8, 5, 0);
    {
        const double *x = wide(x2, 1536);
        recorded_layer(ctx, second, x, (const double *)recorded(ctx, TINY_F64, second, "fno2d/spectral_out.f64", &p, x,
                                                                wide(w2, 960), 1e-13));
    }
    (void)recorded(ctx, TINY_F32, second, "fno2d/spectral_out.f64", &p, x2, w2, 4e-6);
}

static void test_recorded(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    recorded_set(ctx, 0);
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
    if (t_find("oracle/gnn/medium/fno2d/x.f32")) recorded_set(ctx, 1);
    t_close(ctx);
    T_PROOF("geometry 3", "recorded spectral layers in one and two dimensions");
}

/* cos(2 pi x) and cos(12 pi x) on 16 points, modes 0 .. 4: the one stays, the other goes */
static void test_waves(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tgnn_modes_params p = grid(1, 16, 0, 0, 5, 0, 0);
    double x[32], m[20], y[32];
    const tiny_tensor tx = tiny_tensor_3d(x, TINY_F64, 1, 16, 2), tm = tiny_tensor_4d(m, TINY_F64, 1, 5, 2, 2),
                      ty = tiny_tensor_3d(y, TINY_F64, 1, 16, 2);
    int i;
    for (i = 0; i < 16; i++) {
        x[2 * i] = cos(2 * PI * i / 16);         /* angles below 2 pi: a larger one is rounded */
        x[2 * i + 1] = cos(2 * PI * (6 * i % 16) / 16);
    }
    T_OK(tgnn_modes(ctx, &tx, &p, &tm));
    T_OK(tgnn_modes_field(ctx, &tm, &p, &ty));
    T_CLOSE(m[4], 0.5, 1e-15);              /* frequency 1, real part */
    for (i = 0; i < 16; i++) {
        T_CLOSE(y[2 * i], x[2 * i], 1e-15);
        T_CLOSE(y[2 * i + 1], 0, 1e-15);
    }
    t_close(ctx);
    T_PROOF("geometry 3", "on 16 points with 5 modes cos(2 pi x) survives and cos(12 pi x) vanishes, 1e-15");
}

/* the sum of modes.h, without any of its symmetries */
static void direct(const tgnn_modes_params *p, const float *x, tiny_idx channels, double *y)
{
    const tiny_idx points = product(p->size, p->d), modes = product(p->kept, p->d);
    tiny_idx f, n, c;
    int k;
    for (f = 0; f < modes; f++)
        for (c = 0; c < channels; c++) {
            double re = 0, im = 0;
            for (n = 0; n < points; n++) {
                double turns = 0;
                tiny_idx g = f, m = n;
                for (k = p->d - 1; k >= 0; k--) {
                    const tiny_idx at = g % p->kept[k];
                    turns += (double)(k == p->d - 1 ? at : at - p->kept[k] / 2) * (double)(m % p->size[k]) /
                             (double)p->size[k];
                    g /= p->kept[k];
                    m /= p->size[k];
                }
                re += (double)x[n * channels + c] * cos(2 * PI * turns);
                im -= (double)x[n * channels + c] * sin(2 * PI * turns);
            }
            y[(2 * f) * channels + c] = re / (double)points;
            y[(2 * f + 1) * channels + c] = im / (double)points;
        }
}

/* every target: grids of one to three axes, odd sizes, channels around the width; transposes; all modes give x again */
static void test_fast(tiny_target target)
{
    static const tiny_idx grids[][7] = {
        { 1, 1, 0, 0, 1, 0, 0 },  { 1, 7, 0, 0, 3, 0, 0 },   { 1, 32, 0, 0, 17, 0, 0 }, { 1, 129, 0, 0, 9, 0, 0 },
        { 2, 8, 6, 0, 8, 4, 0 },  { 2, 9, 11, 0, 5, 6, 0 },  { 2, 16, 16, 0, 7, 5, 0 }, { 2, 5, 1, 0, 4, 1, 0 },
        { 3, 4, 6, 8, 3, 4, 5 },  { 3, 5, 3, 7, 5, 3, 4 },   { 3, 1, 4, 9, 1, 2, 2 }
    };
    static const tiny_idx channels[] = { 1, 3, 4, 8, 15, 16, 17, 33 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i, c, k;
    for (i = 0; i < T_COUNT(grids); i++)
        for (c = 0; c < T_COUNT(channels); c++) {
            const tiny_idx *g = grids[i], n_c = channels[c];
            tgnn_modes_params p = grid((int)g[0], g[1], g[2], g[3], g[4], g[5], g[6]);
            const tiny_idx points = product(p.size, p.d), modes = product(p.kept, p.d);
            const size_t n_x = (size_t)(points * n_c), n_m = (size_t)(modes * 2 * n_c);
            float *x = t_rand(n_x, -1, 1), *m = t_guarded(n_m), *y = t_guarded(n_x), *z = t_rand(n_m, -1, 1);
            double *want = (double *)t_keep(n_m * sizeof *want), left = 0, right = 0, size = 0;
            const tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, points, n_c),
                              tm = tiny_tensor_4d(m, TINY_F32, 1, modes, 2, n_c),
                              ty = tiny_tensor_3d(y, TINY_F32, 1, points, n_c),
                              tz = tiny_tensor_4d(z, TINY_F32, 1, modes, 2, n_c);
            int all = 1, a;
            for (a = 0; a < p.d; a++) all &= p.kept[a] == (a == p.d - 1 ? p.size[a] / 2 + 1 : p.size[a]);
            direct(&p, x, n_c, want);
            T_OK(tgnn_modes(ctx, &tx, &p, &tm));
            T_RAN_ON(ctx, t_vectors(target));
            T_WALLS(m, n_m);
            /* |x| <= 1, so a mode is at most 1; each axis adds the terms that are left after folding */
            for (k = 0; k < n_m; k++) T_CLOSE(m[k], want[k], 4e-7);
            /* <modes x, z> = <x, modes_field' z>, and so for the other pair */
            p.adjoint = 1;
            T_OK(tgnn_modes_field(ctx, &tz, &p, &ty));
            T_WALLS(y, n_x);
            for (k = 0; k < n_m; k++) left += (double)m[k] * (double)z[k];
            for (k = 0; k < n_x; k++) right += (double)x[k] * (double)y[k];
            for (k = 0; k < n_m; k++) size += fabs((double)m[k] * (double)z[k]);
            T_CLOSE(left, right, 1e-6 * (size + 1));
            T_OK(tgnn_modes(ctx, &tx, &p, &tm));
            p.adjoint = 0;
            T_OK(tgnn_modes_field(ctx, &tz, &p, &ty));
            for (left = right = size = 0, k = 0; k < n_m; k++) left += (double)m[k] * (double)z[k];
            for (k = 0; k < n_x; k++) right += (double)x[k] * (double)y[k];
            for (k = 0; k < n_m; k++) size += fabs((double)m[k] * (double)z[k]);
            T_CLOSE(left, right, 1e-6 * (size + 1));
            if (all) {
                T_OK(tgnn_modes(ctx, &tx, &p, &tm));
                T_OK(tgnn_modes_field(ctx, &tm, &p, &ty));
                for (k = 0; k < n_x; k++) T_CLOSE(y[k], x[k], 4e-6);
            }
            t_free_blocks();
        }
    t_close(ctx);
}

/* the kit's own cases, more of them: strides, gaps, reversed and repeated axes */
static void test_kit(tiny_target target)
{
    static const char *const names[] = { "modes", "modes_field", "modes_mix" };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < T_COUNT(names); i++) {
        tiny_conform_desc d;
        int n_failed = -1;
        memset(&d, 0, sizeof d);
        d.op = names[i];
        d.n_cases = 60;
        d.seed = 11;
        T_OK(tiny_conform(ctx, &d, &n_failed));
        T_EQ_INT(n_failed, 0);
    }
    t_close(ctx);
}

/* the same bits for any number of threads */
static void test_threads(tiny_target target)
{
    const tgnn_modes_params p = grid(2, 24, 20, 0, 8, 5, 0);
    const size_t n_x = 3 * 480 * 37, n_m = 3 * 40 * 2 * 37;
    float *x = t_rand(n_x, -1, 1), *w = t_rand(40 * 2 * 37 * 19, -1, 1), *out[2][3];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 3, 480, 37), tw = tiny_tensor_4d(w, TINY_F32, 40, 2, 37, 19);
    int i;
    for (i = 0; i < 2; i++) {
        tiny_ctx *ctx = t_ctx(target, 1 + 2 * i);
        tiny_tensor a, b, c;
        out[i][0] = t_guarded(n_m);
        out[i][1] = t_guarded(3 * 40 * 2 * 19);
        out[i][2] = t_guarded(3 * 480 * 19);
        a = tiny_tensor_4d(out[i][0], TINY_F32, 3, 40, 2, 37);
        b = tiny_tensor_4d(out[i][1], TINY_F32, 3, 40, 2, 19);
        c = tiny_tensor_3d(out[i][2], TINY_F32, 3, 480, 19);
        T_OK(tgnn_modes(ctx, &tx, &p, &a));
        T_OK(tgnn_modes_mix(ctx, &a, &tw, NULL, &b));
        T_OK(tgnn_modes_field(ctx, &b, &p, &c));
        t_close(ctx);
    }
    T_SAME(out[0][0], out[1][0], n_m);
    T_SAME(out[0][1], out[1][1], 3 * 40 * 2 * 19);
    T_SAME(out[0][2], out[1][2], 3 * 480 * 19);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[64], m[64];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 16, 2), tm = tiny_tensor_4d(m, TINY_F32, 1, 5, 2, 2),
                none = tiny_tensor_3d(x, TINY_F32, 0, 16, 2), few = tiny_tensor_4d(m, TINY_F32, 0, 5, 2, 2);
    tgnn_modes_params p = grid(1, 16, 0, 0, 5, 0, 0);
    T_OK(tgnn_modes(ctx, &none, &p, &few));
    p.kept[0] = 10;
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "axis 0 keeps 10 modes, it must keep 1 to 9 of 16 points");
    p.kept[0] = 0;
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "axis 0 keeps 0 modes");
    p = grid(2, 4, 4, 0, 5, 3, 0);
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "axis 0 keeps 5 modes, it must keep 1 to 4");
    p = grid(1, 0, 0, 0, 1, 0, 0);
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "axis 0 has 0 points");
    p = grid(1, TINY_IDX_MAX, 0, 0, 1, 0, 0);
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "points, it must have 1 to");
    p.d = 4;
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_ARGUMENT, "a grid of 4 axes, it must have 1 to 3");
    T_STATUS(tgnn_modes(ctx, &tx, NULL, &tm), TINY_E_ARGUMENT, "a grid of 0 axes");
    p = grid(1, 15, 0, 0, 5, 0, 0);
    T_STATUS(tgnn_modes(ctx, &tx, &p, &tm), TINY_E_SHAPE, "x is 1x16x2 f32, it must be batch x 15 x channels");
    T_STATUS(tgnn_modes_field(ctx, &tm, &p, &tx), TINY_E_SHAPE, NULL);
    T_STATUS(tgnn_modes_mix(ctx, &tm, &tm, NULL, &tm), TINY_E_SHAPE, "x is 1x5x2x2 f32 and w is 1x5x2x2 f32");
    t_close(ctx);
    T_PROOF("geometry 3", "more modes than the grid has, and grids that do not fit, are refused with a sentence");
}

int main(void)
{
    T_RUN_FORMS(test_recorded);
    T_RUN(test_waves);
    T_RUN_TARGETS(test_fast);
    T_RUN_TARGETS(test_kit);
    T_RUN_TARGETS(test_threads);
    T_RUN(test_bad);
    return t_done();
}
