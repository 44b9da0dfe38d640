/* tests/gnn/operator/spectral.c - spectral convolutions: a recorded Tucker layer, counts of parameters, factors against
 * the weight that they stand for, identity, resolutions, translations, gradients by differences, bad input */
#define T_GNN
#include "t.h"

static tgnn_spectral_desc desc_of(int d, tiny_idx modes, tiny_idx n_in, tiny_idx n_out, int kind, double ratio)
{
    tgnn_spectral_desc s;
    int i;
    memset(&s, 0, sizeof s);
    s.d = d;
    for (i = 0; i < d; i++) s.modes[i] = modes + 2 * i;
    s.n_in = n_in;
    s.n_out = n_out;
    s.kind = kind;
    s.ratio = ratio;
    return s;
}

/* planned, with memory and numbers; the gradients go to *params */
static void make(tiny_ctx *ctx, const tgnn_spectral_desc *desc, tiny_dtype type, tgnn_spectral *s, tiny_param *params)
{
    int i;
    T_OK(tgnn_spectral_plan(ctx, desc, s));
    for (i = 0; i < s->n_weights; i++) {
        const size_t bytes = (size_t)tiny_tensor_count(&s->weight[i]) * tiny_dtype_bytes(type);
        s->weight[i].dtype = type;
        s->weight[i].data = t_keep(bytes);
        memset(&params[i], 0, sizeof params[i]);
        params[i].name = s->name[i];
        params[i].value = params[i].grad = s->weight[i];
        params[i].grad.data = t_keep(bytes);
    }
    T_OK(tgnn_spectral_init(ctx, s, 7));
}

static tiny_tape *open_tape(tiny_ctx *ctx, int no_grad)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 24;
    d.no_grad = no_grad;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    return tape;
}

static void fill(tiny_tensor *t)
{
    const tiny_idx n = tiny_tensor_count(t);
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float v = t_rand_float(-1, 1);
        if (t->dtype == TINY_F64) ((double *)t->data)[i] = (double)v;
        else ((float *)t->data)[i] = v;
    }
}

static double at(const tiny_tensor *t, tiny_idx i)
{
    return t->dtype == TINY_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void *recorded_file(const char *set, const char *file, size_t bytes)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%.20s%.60s", set, file);
    return t_shared_bytes(path, bytes);
}

/* complex numbers last in the files; ours have them before the last axis, or before the last two */
static void take(const char *set, const char *name, double *to, tiny_idx rows, tiny_idx columns, int first)
{
    const float *x = (const float *)recorded_file(set, name, (size_t)(rows * columns) * 2 * sizeof(float));
    tiny_idx r, c;
    int p;
    if (!x) return;
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++)
            for (p = 0; p < 2; p++)
                to[first ? (p * rows + r) * columns + c : (r * 2 + p) * columns + c] =
                    (double)x[(r * columns + c) * 2 + p];
}

/* The recorded layer has weights on the frequencies 0 .. 3 of the first axis alone: the others get rows of zeros. */
static void recorded(const char *set)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const double *want = (const double *)recorded_file(set, "tfno/spectral_out.f64", 2 * 4 * 256 * 8);
    const double *whole = (const double *)recorded_file(set, "tfno/weight.f64", 3 * 4 * 4 * 5 * 2 * 8);
    const float *x = (const float *)recorded_file(set, "fno2d/x.f32", 2 * 3 * 256 * 4);
    const float *core = (const float *)recorded_file(set, "tfno/core.f32", 2 * 3 * 3 * 3 * 2 * 4);
    tgnn_spectral_desc d = desc_of(2, 8, 3, 4, TGNN_SPECTRAL_TUCKER, 0.5);
    const tiny_idx size[2] = { 16, 16 }, kept[2] = { 8, 5 };
    tgnn_spectral s;
    tiny_param params[TGNN_SPECTRAL_WEIGHTS];
    tiny_tape *tape;
    tiny_tensor tx, y, w;
    double *xd, g[3 * 3 * 2 * 2 * 3], u[2 * 3 * 2], v[2 * 4 * 3], a[8 * 2 * 3], b[5 * 2 * 3];
    int i, k, p, r, c, form;
    if (!want || !whole || !x || !core) {
        t_close(ctx);
        return;
    }
    d.modes[1] = 8;
    memset(a, 0, sizeof a);
    take(set, "tfno/factor0.f32", u, 3, 2, 1);
    take(set, "tfno/factor1.f32", v, 4, 3, 1);
    take(set, "tfno/factor2.f32", a + 4 * 2 * 3, 4, 3, 0);
    take(set, "tfno/factor3.f32", b, 5, 3, 0);
    for (i = 0; i < 2; i++)
        for (k = 0; k < 3; k++)
            for (r = 0; r < 9; r++)
                for (p = 0; p < 2; p++) g[((r * 2 + p) * 2 + i) * 3 + k] = (double)core[((i * 3 + k) * 9 + r) * 2 + p];
    xd = (double *)t_keep(1536 * sizeof *xd);
    for (i = 0; i < 1536; i++) xd[i] = (double)x[i];
    tx = tiny_tensor_3d(xd, TINY_F64, 2, 256, 3);
    tx.stride[0] = 768;
    tx.stride[1] = 1;
    tx.stride[2] = 256;
    for (form = 0; form < 2; form++) {
        d.rebuild = form;
        make(ctx, &d, TINY_F64, &s, params);
        /* the file's ranks are 2 3 3 3 */
        s.rank[0] = 2;
        s.rank[1] = s.rank[2] = s.rank[3] = 3;
        s.weight[0] = tiny_tensor_4d(g, TINY_F64, 9, 2, 2, 3);
        s.weight[1] = tiny_tensor_3d(u, TINY_F64, 2, 3, 2);
        s.weight[2] = tiny_tensor_3d(v, TINY_F64, 2, 4, 3);
        s.weight[3] = tiny_tensor_3d(a, TINY_F64, 8, 2, 3);
        s.weight[4] = tiny_tensor_3d(b, TINY_F64, 5, 2, 3);
        tape = open_tape(ctx, 1);
        y = tgnn_tape_spectral(tape, &s, &tx, size, NULL, 0);
        w = tgnn_tape_spectral_weight(tape, &s, kept, 0);
        if (T_OK(tiny_tape_status(tape))) {
            for (i = 0; i < 2; i++)
                for (k = 0; k < 256; k++)
                    for (c = 0; c < 4; c++) T_CLOSE(at(&y, (i * 256 + k) * 4 + c), want[(i * 4 + c) * 256 + k], 1e-12);
            for (r = 0; r < 20; r++)
                for (p = 0; p < 2; p++)
                    for (i = 0; i < 12; i++)
                        T_CLOSE(at(&w, ((20 + r) * 2 + p) * 12 + i), whole[(i * 20 + r) * 2 + p], 1e-12);
        }
        tiny_tape_close(tape);
    }
    t_close(ctx);
}

/* the second set of files has other numbers; a clone does not have it */
static void test_recorded(void)
{
    recorded("");
    if (t_find("oracle/gnn/medium/tfno/core.f32")) recorded("medium/");
    T_PROOF("geometry 3", "a recorded Tucker layer, factorized and rebuilt, to 1e-12");
}

static void test_counts(void)
{
    static const struct { double ratio; int rank[4]; double numbers; int cp; } tucker[] = {
        { .5, { 53, 53, 10, 6 }, 175486, 1170 },
        { .1, { 35, 35, 7, 4 }, 38892, 234 },
        { .05, { 28, 28, 5, 3 }, 15425, 117 },
        { .01, { 16, 16, 3, 2 }, 3634, 23 }
    };
    /* tensorly 0.10: validate_tt_rank((64, 64, 12, 7), rank) */
    static const struct { double ratio; int rank[5]; } tt[] = { { .5, { 1, 66, 39, 10, 1 } },
                                                                { .1, { 1, 29, 17, 4, 1 } } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_spectral_desc d = desc_of(2, 12, 64, 64, TGNN_SPECTRAL_DENSE, 0);
    tgnn_spectral s;
    size_t i;
    int k;
    d.modes[1] = 12;
    T_OK(tgnn_spectral_plan(ctx, &d, &s));
    T_TRUE(s.n_numbers == 64.0 * 64 * 12 * 7);
    for (i = 0; i < T_COUNT(tucker); i++) {
        d.kind = TGNN_SPECTRAL_TUCKER;
        d.ratio = tucker[i].ratio;
        T_OK(tgnn_spectral_plan(ctx, &d, &s));
        for (k = 0; k < 4; k++) T_EQ_INT(s.rank[k], tucker[i].rank[k]);
        T_CLOSE(s.n_numbers, tucker[i].numbers, 0);
        d.kind = TGNN_SPECTRAL_CP;
        T_OK(tgnn_spectral_plan(ctx, &d, &s));
        T_EQ_INT(s.rank[0], tucker[i].cp);
        T_CLOSE(s.n_numbers, tucker[i].cp * (1.0 + 64 + 64 + 12 + 7), 0);
    }
    d.kind = TGNN_SPECTRAL_TT;
    for (i = 0; i < T_COUNT(tt); i++) {
        d.ratio = tt[i].ratio;
        T_OK(tgnn_spectral_plan(ctx, &d, &s));
        for (k = 0; k < 5; k++) T_EQ_INT(s.rank[k], tt[i].rank[k]);
    }
    t_close(ctx);
    T_PROOF("geometry 3", "parameter counts and ranks of Tucker and CP at .5, .1, .05, .01");
}

/* Every kind, separable and joint, in one to three dimensions, on grids with fewer modes than the weights have: the
 * factors give what the whole weight gives, and that is what the three operations give with it. */
static void test_factors(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    int kind, d, form;
    for (kind = 0; kind < TGNN_SPECTRAL_KINDS; kind++)
        for (d = 1; d <= 3; d++)
            for (form = 0; form < 8; form++) {
                const int separable = form & 1, layers = form & 2 ? 3 : 0, layer = layers ? 2 : 0;
                const tiny_idx n_in = 5, n_out = separable ? 5 : 4;
                tgnn_spectral_desc desc = desc_of(d, 4, n_in, n_out, kind, 0.6);
                tiny_idx size[3] = { 9, 8, 11 }, points = 1, modes = 1;
                tgnn_modes_params p;
                tgnn_spectral s;
                tiny_param params[TGNN_SPECTRAL_WEIGHTS];
                tiny_tape *tape;
                tiny_tensor x, y, z, w, a, b, c, one;
                tiny_idx f, r, i, j;
                int k;
                desc.separable = separable;
                desc.layers = layers;
                if (form & 4) size[0] = size[1] = 3, size[2] = 2;
                make(ctx, &desc, TINY_F32, &s, params);
                memset(&p, 0, sizeof p);
                p.d = d;
                for (k = 0; k < d; k++) {
                    p.size[k] = size[k];
                    p.kept[k] = k == d - 1 ? size[k] / 2 + 1 : size[k];
                    if (p.kept[k] > s.kept[k]) p.kept[k] = s.kept[k];
                    points *= size[k];
                    modes *= p.kept[k];
                }
                x = tiny_tensor_3d(t_keep((size_t)(2 * points * n_in) * 4), TINY_F32, 2, points, n_in);
                fill(&x);
                tape = open_tape(ctx, 1);
                y = tgnn_tape_spectral(tape, &s, &x, size, NULL, layer);
                s.desc.rebuild = 1;
                z = tgnn_tape_spectral(tape, &s, &x, size, NULL, layer);
                w = tgnn_tape_spectral_weight(tape, &s, p.kept, layer);
                if (separable) {            /* as a weight that mixes nothing */
                    one = tiny_tensor_4d(t_keep((size_t)(modes * 2 * 25) * 4), TINY_F32, modes, 2, 5, 5);
                    for (f = 0; f < 2 * modes && w.data; f++)
                        for (i = 0; i < 5; i++)
                            ((float *)one.data)[f * 25 + i * 6] = ((const float *)w.data)[f * 5 + i];
                    w = one;
                }
                a = tiny_tape_call(tape, TGNN_OP_MODES, &x, NULL, NULL, NULL, &p);
                b = tiny_tape_call(tape, TGNN_OP_MODES_MIX, &a, &w, NULL, NULL, NULL);
                c = tiny_tape_call(tape, TGNN_OP_MODES_FIELD, &b, NULL, NULL, NULL, &p);
                if (T_OK(tiny_tape_status(tape))) {
                    r = tiny_tensor_count(&y);
                    T_EQ_INT(r, 2 * points * n_out);
                    for (j = 0; j < r; j++) {
                        T_CLOSE(at(&y, j), at(&z, j), 1e-5);
                        T_CLOSE(at(&y, j), at(&c, j), 1e-5);
                    }
                }
                tiny_tape_close(tape);
                t_free_blocks();
            }
    t_close(ctx);
    T_PROOF("geometry 3", "factorized = reconstructed, 1e-5: dense, CP, Tucker, TT, separable, joint");
}

/* one channel, weight 1 at every mode: the field again. The same weights on 16 and on 64 points: the same low modes */
static void test_identity(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_spectral_desc d = desc_of(2, 16, 1, 1, TGNN_SPECTRAL_DENSE, 0);
    const tiny_idx size[2] = { 16, 15 }, coarse[1] = { 16 }, fine[1] = { 64 };
    tgnn_spectral s;
    tiny_param params[TGNN_SPECTRAL_WEIGHTS];
    tiny_tape *tape = open_tape(ctx, 1);
    tiny_tensor x, y, z;
    tiny_idx i;
    int k;
    make(ctx, &d, TINY_F64, &s, params);
    for (i = 0; i < tiny_tensor_count(&s.weight[0]); i++) ((double *)s.weight[0].data)[i] = i % 2 ? 0 : 1;
    x = tiny_tensor_3d(t_keep(240 * 8), TINY_F64, 1, 240, 1);
    fill(&x);
    y = tgnn_tape_spectral(tape, &s, &x, size, NULL, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; i < 240 && y.data; i++) T_CLOSE(at(&y, i), at(&x, i), 1e-14);
    d = desc_of(1, 8, 2, 3, TGNN_SPECTRAL_DENSE, 0);
    make(ctx, &d, TINY_F64, &s, params);
    x = tiny_tensor_3d(t_keep(64 * 2 * 8), TINY_F64, 1, 64, 2);
    for (i = 0; i < 64; i++)
        for (k = 0; k < 2; k++) {           /* frequencies 0 to 4 alone, which both grids hold */
            const double t = 2 * 3.14159265358979323846 * (double)i / 64;
            ((double *)x.data)[2 * i + k] = 0.3 + cos(t + k) - 0.5 * sin(3 * t) + 0.25 * k * cos(4 * t);
        }
    y = tgnn_tape_spectral(tape, &s, &x, fine, NULL, 0);
    x.dim[1] = 16;
    x.stride[1] *= 4;
    z = tgnn_tape_spectral(tape, &s, &x, coarse, NULL, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; i < 16 * 3 && z.data; i++) T_CLOSE(at(&z, i), at(&y, i / 3 * 4 * 3 + i % 3), 3e-15);
    /* and from 16 points to 64 in one call */
    y = tgnn_tape_spectral(tape, &s, &x, coarse, fine, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; i < 16 * 3 && y.data; i++) T_CLOSE(at(&z, i), at(&y, i / 3 * 4 * 3 + i % 3), 3e-15);
    tiny_tape_close(tape);
    t_close(ctx);
    T_PROOF("geometry 3", "identity weights and enough modes return the input");
    T_PROOF("geometry 3", "the same weights on 16 and 64 points give equal low modes");
}

/* Weights of more modes than a grid has: a field of the frequencies -2 .. 2 on 15 x 15 points, and on every third one
 * of them. Both grids hold these frequencies, so the results agree where their points do. */
static void test_fewer(void)
{
    static const int kinds[4] = { TGNN_SPECTRAL_DENSE, TGNN_SPECTRAL_CP, TGNN_SPECTRAL_TUCKER, TGNN_SPECTRAL_TT };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx fine[2] = { 15, 15 }, coarse[2] = { 5, 5 };
    int k;
    for (k = 0; k < 4; k++) {
        tgnn_spectral_desc d = desc_of(2, 8, 2, 3, kinds[k], 0.8);
        tgnn_spectral s;
        tiny_param params[TGNN_SPECTRAL_WEIGHTS];
        tiny_tape *tape = open_tape(ctx, 1);
        tiny_tensor x, y, z;
        double *v;
        tiny_idx i, j, c;
        int a, b;
        d.modes[1] = 10;
        make(ctx, &d, TINY_F64, &s, params);
        x = tiny_tensor_3d(t_keep((225 + 25) * 2 * 8), TINY_F64, 1, 225, 2);
        v = (double *)x.data;
        for (a = -2; a <= 2; a++)
            for (b = 0; b <= 2; b++)
                for (c = 0; c < 2; c++) {
                    const double size = (double)t_rand_float(-1, 1), phase = (double)t_rand_float(0, 6);
                    for (i = 0; i < 15; i++)
                        for (j = 0; j < 15; j++)
                            v[(i * 15 + j) * 2 + c] +=
                                size * cos(2 * 3.14159265358979323846 * (double)(a * i + b * j) / 15 + phase);
                }
        y = tgnn_tape_spectral(tape, &s, &x, fine, NULL, 0);
        for (i = 0; i < 5; i++)
            for (j = 0; j < 5; j++)
                for (c = 0; c < 2; c++) v[(225 + i * 5 + j) * 2 + c] = v[(i * 3 * 15 + j * 3) * 2 + c];
        x = tiny_tensor_3d(v + 450, TINY_F64, 1, 25, 2);
        z = tgnn_tape_spectral(tape, &s, &x, coarse, NULL, 0);
        if (T_OK(tiny_tape_status(tape)))
            for (i = 0; i < 5; i++)
                for (j = 0; j < 5; j++)
                    for (c = 0; c < 3; c++)
                        T_CLOSE(at(&z, (i * 5 + j) * 3 + c), at(&y, (i * 3 * 15 + j * 3) * 3 + c), 1e-13);
        tiny_tape_close(tape);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 3", "modes > grid: the middle of the weights, frequency by frequency");
}

/* A joint weight is linear in the row of its layer: a row three times another one gives three times the result. */
static void test_layers(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx size[1] = { 8 };
    int kind, separable;
    for (kind = 0; kind < TGNN_SPECTRAL_KINDS; kind++)
        for (separable = 0; separable < 2; separable++) {
            tgnn_spectral_desc d = desc_of(1, 4, 3, 3, kind, 0.9);
            tgnn_spectral s;
            tiny_param params[TGNN_SPECTRAL_WEIGHTS];
            tiny_tape *tape = open_tape(ctx, 1);
            tiny_tensor x, y, z;
            double *v;
            tiny_idx i, n, row;
            d.layers = 2;
            d.separable = separable;
            make(ctx, &d, TINY_F64, &s, params);
            v = (double *)s.weight[kind == TGNN_SPECTRAL_CP || kind == TGNN_SPECTRAL_TUCKER].data;
            n = tiny_tensor_count(&s.weight[kind == TGNN_SPECTRAL_CP || kind == TGNN_SPECTRAL_TUCKER]);
            row = kind == TGNN_SPECTRAL_TT ? s.rank[1] : n / 2;     /* TT: (2, 1, layers, R) */
            for (i = 0; i < n; i++)
                if (i / row % 2) v[i] = 3 * v[i - row];
            x = tiny_tensor_3d(t_keep(24 * 8), TINY_F64, 1, 8, 3);
            fill(&x);
            y = tgnn_tape_spectral(tape, &s, &x, size, NULL, 0);
            z = tgnn_tape_spectral(tape, &s, &x, size, NULL, 1);
            if (T_OK(tiny_tape_status(tape)))
                for (i = 0; i < 24; i++) T_CLOSE(at(&z, i), 3 * at(&y, i), 1e-13);
            tiny_tape_close(tape);
            t_free_blocks();
        }
    t_close(ctx);
}

/* a field moved by whole points gives the result moved by as many */
static void test_translation(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tgnn_spectral_desc d = desc_of(2, 6, 3, 3, TGNN_SPECTRAL_TUCKER, 0.5);
    const tiny_idx size[2] = { 12, 10 };
    tgnn_spectral s;
    tiny_param params[TGNN_SPECTRAL_WEIGHTS];
    tiny_tape *tape = open_tape(ctx, 1);
    tiny_tensor x, m, y, z;
    tiny_idx i, j, c;
    make(ctx, &d, TINY_F32, &s, params);
    x = tiny_tensor_3d(t_keep(360 * 4), TINY_F32, 1, 120, 3);
    m = tiny_tensor_3d(t_keep(360 * 4), TINY_F32, 1, 120, 3);
    fill(&x);
    for (i = 0; i < 12; i++)
        for (j = 0; j < 10; j++)
            for (c = 0; c < 3; c++)
                ((float *)m.data)[((i + 5) % 12 * 10 + (j + 3) % 10) * 3 + c] =
                    ((float *)x.data)[(i * 10 + j) * 3 + c];
    y = tgnn_tape_spectral(tape, &s, &x, size, NULL, 0);
    z = tgnn_tape_spectral(tape, &s, &m, size, NULL, 0);
    T_OK(tiny_tape_status(tape));
    for (i = 0; i < 12 && z.data; i++)
        for (j = 0; j < 10; j++)
            for (c = 0; c < 3; c++)
                T_CLOSE(at(&z, ((i + 5) % 12 * 10 + (j + 3) % 10) * 3 + c), at(&y, (i * 10 + j) * 3 + c), 2e-6);
    tiny_tape_close(tape);
    t_close(ctx);
    T_PROOF("geometry 3", "translation equivariance on a periodic grid");
}

/* the derivative of sum y g by each weight and each number of x, against central differences in double */
static void test_gradients(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind, form, i;
    for (kind = 0; kind < TGNN_SPECTRAL_KINDS; kind++)
        for (form = 0; form < 6; form++) {
            const int d = form % 3 + 1, separable = form == 4, layers = form > 2 ? 2 : 0;
            const tiny_idx n_out = separable ? 3 : 2, size[3] = { 5, 4, 6 }, to[3] = { 6, 4, 5 };
            tgnn_spectral_desc desc = desc_of(d, 2, 3, n_out, kind, 0.7);
            tgnn_spectral s;
            tiny_param params[TGNN_SPECTRAL_WEIGHTS + 1];
            tiny_tape *tape = open_tape(ctx, 0);
            tiny_tensor y, g;
            tiny_idx points = 1, k, n;
            int n_params;
            desc.separable = separable;
            desc.layers = layers;
            make(ctx, &desc, TINY_F64, &s, params);
            n_params = s.n_weights;
            for (i = 0; i < d; i++) points *= size[i];
            params[n_params] = params[0];
            params[n_params].name = "x";
            params[n_params].value = tiny_tensor_3d(t_keep((size_t)points * 2 * 3 * 8), TINY_F64, 2, points, 3);
            params[n_params].grad = tiny_tensor_3d(t_keep((size_t)points * 2 * 3 * 8), TINY_F64, 2, points, 3);
            fill(&params[n_params].value);
            for (i = 0; i <= n_params; i++) T_OK(tiny_tape_param(tape, &params[i]));
            y = tgnn_tape_spectral(tape, &s, &params[n_params].value, size, form > 2 ? to : NULL, layers ? 1 : 0);
            T_OK(tiny_tape_status(tape));
            n = tiny_tensor_count(&y);
            g = y;
            g.data = t_keep((size_t)n * 8);
            fill(&g);
            tiny_tape_zero(tape);
            T_OK(tiny_tape_backward(tape, &y, &g));
            for (i = 0; i <= n_params; i++)
                for (k = 0; k < tiny_tensor_count(&params[i].value); k += i == n_params ? 7 : 3) {
                    double *v = (double *)params[i].value.data + k, old = *v, sum[2];
                    int side;
                    for (side = 0; side < 2; side++) {
                        tiny_tape *t = open_tape(ctx, 1);
                        tiny_idx j;
                        *v = old + (side ? 1e-5 : -1e-5);
                        y = tgnn_tape_spectral(t, &s, &params[n_params].value, size, form > 2 ? to : NULL,
                                               layers ? 1 : 0);
                        for (sum[side] = 0, j = 0; j < n && y.data; j++) sum[side] += at(&y, j) * at(&g, j);
                        tiny_tape_close(t);
                    }
                    *v = old;
                    T_CLOSE(at(&params[i].grad, k), (sum[1] - sum[0]) / 2e-5, 1e-8);
                }
            tiny_tape_close(tape);
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("geometry 3", "gradients of x and of every weight by finite differences");
}

/* The numbers of the whole weight have the standard deviation that was asked for. Factors have few numbers, so the mean
 * square of one weight scatters by up to a half: 40 of them are drawn. */
static void test_drawn(void)
{
    enum { DRAWS = 40 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind, draw;
    for (kind = 0; kind < TGNN_SPECTRAL_KINDS; kind++) {
        const tgnn_spectral_desc d = desc_of(2, 8, 16, 24, kind, 0.2);
        const tiny_idx kept[2] = { 8, 6 };
        tgnn_spectral s;
        tiny_param params[TGNN_SPECTRAL_WEIGHTS];
        double sum = 0;
        tiny_idx i, n = 0;
        make(ctx, &d, TINY_F32, &s, params);
        for (draw = 0; draw < DRAWS; draw++) {
            tiny_tape *tape = open_tape(ctx, 1);
            tiny_tensor w;
            T_OK(tgnn_spectral_init(ctx, &s, (uint64_t)draw));
            w = tgnn_tape_spectral_weight(tape, &s, kept, 0);
            T_OK(tiny_tape_status(tape));
            n = w.data ? tiny_tensor_count(&w) : 0;
            T_EQ_INT(n, 8 * 6 * 2 * 16 * 24);
            for (i = 0; i < n; i++) sum += at(&w, i) * at(&w, i);
            tiny_tape_close(tape);
        }
        T_CLOSE(2 * sum / (double)n / DRAWS / (2.0 / 40), 1, kind == TGNN_SPECTRAL_DENSE ? 0.01 : 0.2);
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_spectral_desc d = desc_of(1, 8, 2, 2, TGNN_SPECTRAL_CP, 0);
    const tiny_idx size[1] = { 16 }, none[1] = { 0 };
    tgnn_spectral s;
    tiny_param params[TGNN_SPECTRAL_WEIGHTS];
    tiny_tape *tape;
    float x[64] = { 0 };
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 0, 16, 2), y;
    int i;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "the ratio of ranks is 0");
    T_EQ_INT(s.n_weights, 0);
    d.ratio = (double)NAN;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "the ratio of ranks is");
    d.ratio = 0.5;
    d.n_out = 3;
    d.separable = 1;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "as many channels out as in, not 3 and 2");
    d.separable = 0;
    d.modes[0] = 0;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "axis 0 has 0 modes");
    d.modes[0] = 7;                         /* as 6 */
    T_OK(tgnn_spectral_plan(ctx, &d, &s));
    T_EQ_INT(s.kept[0], 4);
    d.d = 0;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "a grid of 0 axes");
    d = desc_of(3, 1 << 20, 1 << 20, 1 << 20, TGNN_SPECTRAL_DENSE, 0);
    d.modes[1] = d.modes[2] = 1 << 20;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_OVERFLOW, "the whole weight has");
    d = desc_of(1, 8, 2, 2, TGNN_SPECTRAL_DENSE, 0);
    d.kind = 9;
    T_STATUS(tgnn_spectral_plan(ctx, &d, &s), TINY_E_ARGUMENT, "kind 9 of the weight is unknown");
    d.kind = 0;
    T_OK(tgnn_spectral_plan(ctx, &d, &s));
    T_STATUS(tgnn_spectral_init(ctx, &s, 1), TINY_E_ARGUMENT, "weight has no memory");
    make(ctx, &d, TINY_F32, &s, params);
    for (i = 0; i < 5; i++) {
        static const char *const says[5] = { "x is 0x16x2 f32, it must be at least one sample", "axis 0 has 0 points",
                                             "layer 1 of 1", "x is 1x16x4 f32",
                                             "x is 1x8x2 f32, it must be batch x 16" };
        tape = open_tape(ctx, 1);
        if (i == 1) tx.dim[0] = 1;
        if (i == 3) tx = tiny_tensor_3d(x, TINY_F32, 1, 16, 4);
        if (i == 4) tx = tiny_tensor_3d(x, TINY_F32, 1, 8, 2);
        y = tgnn_tape_spectral(tape, &s, &tx, i == 1 ? none : size, NULL, i == 2);
        T_TRUE(tiny_tape_status(tape) != TINY_OK && !y.data);
        T_STATUS(tiny_tape_status(tape), tiny_tape_status(tape), says[i]);
        tiny_tape_close(tape);
    }
    t_close(ctx);
    T_PROOF("geometry 3", "odd modes are rounded; ratio 0, batch 0 and other shapes are refused with a sentence");
}

int main(void)
{
    T_RUN(test_recorded);
    T_RUN(test_counts);
    T_RUN_TARGETS(test_factors);
    T_RUN(test_identity);
    T_RUN(test_fewer);
    T_RUN(test_layers);
    T_RUN_TARGETS(test_translation);
    T_RUN(test_gradients);
    T_RUN(test_drawn);
    T_RUN(test_bad);
    return t_done();
}
