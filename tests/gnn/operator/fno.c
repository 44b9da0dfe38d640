/* tests/gnn/operator/fno.c - Fourier neural operators: networks of neuraloperator, gradients by differences, worked
 * patches, losses by hand, random fields, files, bad input */
#define T_GNN
#include "t.h"

static tgnn_fno_desc small(int d, int kind)
{
    tgnn_fno_desc s;
    int i;
    memset(&s, 0, sizeof s);
    s.d = d;
    for (i = 0; i < d; i++) s.modes[i] = 4;
    s.n_in = s.n_out = 1;
    s.width = 6;
    s.layers = 2;
    s.kind = kind;
    s.ratio = 0.5;
    s.seed = 3;
    return s;
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

/* models of the Python package, with their weights and results; by the run and on a tape */
static void test_recorded(tiny_target target)
{
    static const struct { const char *name; int d; tiny_idx size[3], n_in, n_out; double numbers; } nets[] = {
        { "dense2d", 2, { 12, 10, 0 }, 2, 1, 0 },  { "tucker2d", 2, { 12, 10, 0 }, 1, 2, 0 },
        { "cp1d", 1, { 16, 0, 0 }, 1, 1, 0 },      { "tt2d", 2, { 8, 12, 0 }, 1, 1, 0 },
        { "tucker3d", 3, { 6, 4, 8 }, 1, 1, 0 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < T_COUNT(nets); i++) {
        char path[96];
        const char *file;
        const float *data;
        tgnn_fno *net = NULL;
        tiny_tensor x, y, z;
        tiny_tape *tape;
        tiny_idx n = 1, k;
        float *got;
        (void)snprintf(path, sizeof path, "operator/%s.safetensors", nets[i].name);
        file = t_shared(path);
        if (!file) continue;
        for (k = 0; k < nets[i].d; k++) n *= nets[i].size[k];
        (void)snprintf(path, sizeof path, "operator/%s.f32", nets[i].name);
        data = (const float *)t_shared_bytes(path, (size_t)(n * (nets[i].n_in + nets[i].n_out)) * sizeof *data);
        if (!T_OK(tgnn_fno_load(ctx, file, &net)) || !data) continue;
        got = t_guarded((size_t)(n * nets[i].n_out));
        x = tiny_tensor_3d((void *)(uintptr_t)data, TINY_F32, 1, n, nets[i].n_in);
        y = tiny_tensor_3d(got, TINY_F32, 1, n, nets[i].n_out);
        T_OK(tgnn_fno_run(ctx, net, &x, nets[i].size, &y));
        T_WALLS(got, n);
        for (k = 0; k < n * nets[i].n_out; k++) T_CLOSE(got[k], data[n * nets[i].n_in + k], 1e-5);
        tape = open_tape(ctx, 1);
        z = tgnn_tape_fno(tape, net, &x, nets[i].size);
        if (T_OK(tiny_tape_status(tape)))
            for (k = 0; k < n * nets[i].n_out; k++) T_CLOSE(((float *)z.data)[k], got[k], 1e-6);
        tiny_tape_close(tape);
        tgnn_fno_close(net);
    }
    t_close(ctx);
    T_PROOF("geometry 3", "networks of neuraloperator in one to three dimensions: dense, CP, Tucker, TT, norm, tanh");
}

/* The loss by each parameter: central differences of the network itself in float, of a size that float can show, with
 * the largest slope of the parameter as the scale. */
static void test_gradients(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int form;
    for (form = 0; form < 4; form++) {
        const tiny_idx size[2] = { 6, 5 };
        tgnn_fno_desc d = small(2, form);
        tgnn_fno *net = NULL;
        const tiny_param *p;
        float *x = t_rand(60, -1, 1), *t = t_rand(60, -1, 1);
        const tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 2, 30, 1), tt = tiny_tensor_3d(t, TINY_F32, 2, 30, 1);
        tiny_tape *tape;
        tiny_tensor y, loss;
        size_t n = 0, i;
        d.joint = form == 2;
        d.pad = form == 1 ? 0.25 : 0;
        d.norm = form == 3;
        d.tanh = form == 3;
        if (!T_OK(tgnn_fno_open(ctx, &d, &net))) continue;
        p = tgnn_fno_params(net, &n);
        tape = open_tape(ctx, 0);
        for (i = 0; i < n; i++) T_OK(tiny_tape_param(tape, &p[i]));
        y = tgnn_tape_fno(tape, net, &tx, size);
        loss = form & 1 ? tgnn_tape_relative_h1(tape, &y, &tt, 2, size, form == 1)
                        : tgnn_tape_relative_l2(tape, &y, &tt);
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &loss, NULL));
        tiny_tape_close(tape);
        for (i = 0; i < n; i++) {
            float *v = (float *)p[i].value.data, *g = (float *)p[i].grad.data;
            const tiny_idx m = tiny_tensor_count(&p[i].value);
            double most = 1e-3;
            tiny_idx k, worst = 0;
            for (k = 0; k < m; k++)
                if (fabs((double)g[k]) > most) {
                    most = fabs((double)g[k]);
                    worst = k;
                }
            for (k = 0; k < 2; k++) {       /* the steepest number, and one more */
                const tiny_idx at = k ? m / 2 : worst;
                const float old = v[at];
                double side[2];
                int s;
                for (s = 0; s < 2; s++) {
                    tape = open_tape(ctx, 1);
                    v[at] = old + (s ? 4e-3f : -4e-3f);
                    y = tgnn_tape_fno(tape, net, &tx, size);
                    loss = form & 1 ? tgnn_tape_relative_h1(tape, &y, &tt, 2, size, form == 1)
                                    : tgnn_tape_relative_l2(tape, &y, &tt);
                    side[s] = loss.data ? (double)*(float *)loss.data : (double)NAN;
                    tiny_tape_close(tape);
                }
                v[at] = old;
                T_CLOSE((side[1] - side[0]) / 8e-3, g[at], 0.02 * most + 2e-4);
            }
        }
        tgnn_fno_close(net);
        t_free_blocks();
    }
    t_close(ctx);
}

/* the worked indices; the patches of neuraloperator; split and join; a network of points alone */
static void test_patches(tiny_target target)
{
    static const float row8[2][4] = { { 6, 0, 2, 4 }, { 2, 4, 6, 0 } },
                       row16[2][4] = { { 14, 0, 2, 4 }, { 2, 4, 6, 8 } },
                       rest16[2][4] = { { 8, 12, 0, 4 }, { 12, 0, 4, 8 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_patches p;
    float *x = t_guarded(1024), *y, *z = t_guarded(1024);
    const float *want = (const float *)t_shared_bytes("operator/patches.f32", 16 * 100 * 3 * sizeof *want);
    tiny_tensor tx, ty, tz = tiny_tensor_3d(z, TINY_F32, 1, 1024, 1), first;
    tiny_idx patch[2], i, r;
    for (i = 0; i < 1024; i++) x[i] = (float)i;
    memset(&p, 0, sizeof p);
    p.levels = 1;
    p.size[0] = p.size[1] = 8;
    T_OK(tgnn_patch_size(ctx, &p, patch));
    T_EQ_INT(patch[0], 4);
    y = t_guarded(4 * 16 * 2);
    tx = tiny_tensor_3d(x, TINY_F32, 1, 64, 1);
    ty = tiny_tensor_3d(y, TINY_F32, 4, 16, 2);
    T_OK(tgnn_patch_split(ctx, &p, &tx, &ty));
    T_WALLS(y, 128);
    for (i = 0; i < 2; i++)
        for (r = 0; r < 4; r++) {           /* patch (i, i): row r, column r of level 1 */
            T_CLOSE(y[((i * 3) * 16 + r * 4 + r) * 2 + 1], 9 * row8[i][r], 0);
            T_CLOSE(y[((i * 3) * 16 + r * 4 + r) * 2], 9 * (4 * (float)i + (float)r), 0);
        }
    p.levels = 2;
    p.size[0] = p.size[1] = 16;
    y = t_guarded(16 * 16 * 3);
    tx = tiny_tensor_3d(x, TINY_F32, 1, 256, 1);
    ty = tiny_tensor_3d(y, TINY_F32, 16, 16, 3);
    T_OK(tgnn_patch_split(ctx, &p, &tx, &ty));
    for (i = 0; i < 2; i++)
        for (r = 0; r < 4; r++) {
            T_CLOSE(y[((i * 5) * 16 + r * 5) * 3 + 1], 17 * row16[i][r], 0);
            T_CLOSE(y[((i * 5) * 16 + r * 5) * 3 + 2], 17 * rest16[i][r], 0);
        }
    p.size[0] = p.size[1] = 32;
    p.pad[0] = p.pad[1] = 1;
    y = t_guarded(16 * 100 * 3);
    tx = tiny_tensor_3d(x, TINY_F32, 1, 1024, 1);
    ty = tiny_tensor_3d(y, TINY_F32, 16, 100, 3);
    T_OK(tgnn_patch_split(ctx, &p, &tx, &ty));
    if (want) T_SAME(y, want, 16 * 100 * 3);
    first = ty;                             /* level 0 */
    first.dim[2] = 1;
    T_OK(tgnn_patch_join(ctx, &p, &first, &tz));
    T_WALLS(z, 1024);
    T_SAME(z, x, 1024);
    {
        tiny_tape *tape = open_tape(ctx, 1);
        const tiny_tensor t = tgnn_tape_patch_join(tape, &p, &first);
        if (T_OK(tiny_tape_status(tape))) T_SAME((float *)t.data, x, 1024);
        tiny_tape_close(tape);
    }
    t_close(ctx);
    T_PROOF("geometry 3", "patches: the worked indices, and those of neuraloperator with padding");
    T_PROOF("geometry 3", "patch then stitch of level 0 = identity");
}

/* Without spectral weights a network works point by point: on patches, with nothing from the coarse level, it gives
 * what it gives on the whole field. Memory of a run: that of a patch. */
static void test_points(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_fno_desc d = small(2, TGNN_SPECTRAL_DENSE);
    const tiny_idx size[2] = { 16, 16 }, part[2] = { 8, 8 };
    tgnn_fno *net = NULL;
    const tiny_param *params;
    tgnn_patches p;
    float *x = t_guarded(256 * 2), *f = t_rand(256, -1, 1), *y = t_guarded(256), *in = t_guarded(256 * 2),
          *out = t_guarded(256), *joined = t_guarded(256);
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 256, 2), ty = tiny_tensor_3d(y, TINY_F32, 1, 256, 1),
                tf = tiny_tensor_3d(f, TINY_F32, 1, 256, 1), tin = tiny_tensor_3d(in, TINY_F32, 4, 64, 2),
                tout = tiny_tensor_3d(out, TINY_F32, 4, 64, 1), tj = tiny_tensor_3d(joined, TINY_F32, 1, 256, 1);
    size_t n = 0, i, whole = 0, piece = 0;
    int k;
    memset(&p, 0, sizeof p);
    p.levels = 1;
    p.size[0] = p.size[1] = 16;
    d.n_in = 2;
    d.no_grid = 1;
    if (T_OK(tgnn_fno_open(ctx, &d, &net))) {
        params = tgnn_fno_params(net, &n);
        for (i = 0; i < n; i++) {
            float *v = (float *)params[i].value.data;
            if (!strncmp(params[i].name, "block", 5) && strstr(params[i].name, ".weight") &&
                !strstr(params[i].name, "mlp"))
                memset(v, 0, (size_t)tiny_tensor_count(&params[i].value) * sizeof *v);
            if (!strcmp(params[i].name, "lift.0.weight"))
                for (k = 0; k < 12; k++) v[2 * k + 1] = 0;
        }
        for (k = 0; k < 256; k++) {
            x[2 * k] = f[k];
            x[2 * k + 1] = 5;
        }
        T_OK(tgnn_fno_run(ctx, net, &tx, size, &ty));
        T_OK(tgnn_patch_split(ctx, &p, &tf, &tin));
        T_OK(tgnn_fno_run(ctx, net, &tin, part, &tout));
        T_OK(tgnn_patch_join(ctx, &p, &tout, &tj));
        for (k = 0; k < 256; k++) T_CLOSE(joined[k], y[k], 1e-6);
        T_OK(tgnn_fno_workspace(ctx, net, size, &whole));
        T_OK(tgnn_fno_workspace(ctx, net, part, &piece));
        T_TRUE(piece * 3 < whole);          /* a quarter, and what does not depend on the grid */
    }
    tgnn_fno_close(net);
    t_close(ctx);
    T_PROOF("geometry 3", "a stitched network without modes equals the pointwise layers of the whole domain");
}

static void test_losses(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tape *tape = open_tape(ctx, 1);
    float a[8] = { 3, 4, 0, 0, 1, 1, 1, 1 }, b[8] = { 3, 0, 0, 0, 2, 2, 2, 2 }, u[5] = { 0, 1, 4, 9, 16 },
          v[5] = { 1, 1, 1, 1, 1 };
    const tiny_tensor ta = tiny_tensor_3d(a, TINY_F32, 2, 4, 1), tb = tiny_tensor_3d(b, TINY_F32, 2, 4, 1),
                      tu = tiny_tensor_3d(u, TINY_F32, 1, 5, 1), tv = tiny_tensor_3d(v, TINY_F32, 1, 5, 1);
    const tiny_idx five[1] = { 5 }, two[2] = { 2, 2 };
    tiny_tensor t = tgnn_tape_relative_l2(tape, &ta, &tb);
    if (T_OK(tiny_tape_status(tape))) T_CLOSE(*(float *)t.data, (4.0 / 3 + 0.5) / 2, 1e-6);
    /* u - v = -1 0 3 8 15 and its slopes 1 2 4 6 7 (times 5), those of v 0: (299 + 25 106) / 5 */
    t = tgnn_tape_relative_h1(tape, &tu, &tv, 1, five, 0);
    if (T_OK(tiny_tape_status(tape))) T_CLOSE(*(float *)t.data, sqrt((299 + 25 * 106) / 5.0), 1e-4);
    /* periodic: the slopes are (1 - 16) / 2, 2, 4, 6, (0 - 9) / 2 */
    t = tgnn_tape_relative_h1(tape, &tu, &tv, 1, five, 1);
    if (T_OK(tiny_tape_status(tape)))
        T_CLOSE(*(float *)t.data, sqrt((299 + 25 * (56.25 + 4 + 16 + 36 + 20.25)) / 5.0), 1e-4);
    t = tgnn_tape_relative_h1(tape, &ta, &tb, 2, two, 1);
    T_STATUS(tiny_tape_status(tape), TINY_E_SHAPE, "with 3 points or more");
    T_TRUE(!t.data);
    tiny_tape_close(tape);
    t_close(ctx);
}

/* each mode has the variance of the spectrum, the mean is 0, and a field depends on its number alone */
static void test_fields(tiny_target target)
{
    enum { N = 2000, SIDE = 8 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_random_field f;
    tgnn_modes_params p;
    float *y = t_guarded(N * SIDE * SIDE), *one = t_guarded(SIDE * SIDE), *m = t_guarded(N * SIDE * 5 * 2);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, N, SIDE * SIDE), to = tiny_tensor_2d(one, TINY_F32, 1, SIDE * SIDE),
                tx, tm;
    int a, b, i;
    memset(&f, 0, sizeof f);
    f.d = 2;
    f.size[0] = f.size[1] = SIDE;
    f.alpha = 1;
    f.tau = 2;
    f.scale = 3;
    T_OK(tgnn_random_fields(ctx, &f, 9, 0, &ty));
    T_OK(tgnn_random_fields(ctx, &f, 9, 1234, &to));
    T_SAME(one, y + 1234 * SIDE * SIDE, SIDE * SIDE);
    memset(&p, 0, sizeof p);
    p.d = 2;
    p.size[0] = p.size[1] = p.kept[0] = SIDE;
    p.kept[1] = 5;
    tx = tiny_tensor_3d(y, TINY_F32, N, SIDE * SIDE, 1);
    tm = tiny_tensor_4d(m, TINY_F32, N, SIDE * 5, 2, 1);
    T_OK(tgnn_modes(ctx, &tx, &p, &tm));
    for (a = 0; a < SIDE; a++)
        for (b = 0; b < 5; b++) {
            const double k2 = (a - 4.0) * (a - 4.0) + b * b, want = k2 > 0 ? 9 / (k2 + 4) : 0;
            double sum = 0;
            for (i = 0; i < N; i++) {
                const float *z = m + (i * SIDE * 5 + a * 5 + b) * 2;
                sum += (double)z[0] * (double)z[0] + (double)z[1] * (double)z[1];
            }
            /* 2000 draws of a square with deviation 1 or, where the mode is real, 2^0.5: five deviations */
            T_CLOSE(sum / N, want, 5 * want * sqrt(2.0 / N) + 1e-9);
        }
    f.d = 1;
    f.size[0] = 30;
    to = tiny_tensor_2d(one, TINY_F32, 1, 30);
    T_OK(tgnn_random_fields(ctx, &f, 9, 0, &to));
    f.d = 3;
    T_STATUS(tgnn_random_fields(ctx, &f, 9, 0, &to), TINY_E_ARGUMENT, "a grid of 3 axes");
    f.d = 1;
    f.tau = (double)NAN;
    T_STATUS(tgnn_random_fields(ctx, &f, 9, 0, &to), TINY_E_ARGUMENT, "none may be negative");
    f.tau = 1;
    f.size[0] = 31;
    T_STATUS(tgnn_random_fields(ctx, &f, 9, 0, &to), TINY_E_SHAPE, "it must be n x 31");
    t_close(ctx);
}

static void test_files(void)
{
    static const char *const cut[] = { "", "{", "not a file of tensors at all" };
    static const struct { const char *text, *says; } bad[] = {
        { "{}", "must have one \"fno\"" },
        { "{\"__metadata__\":{\"fno\":\"{}\"}}", "0 channels in" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":1,\\\"modes\\\":[4],\\\"in\\\":1,\\\"out\\\":1}\"}}",
          "tensor lift.0.weight is missing" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":\\\"x\\\"}\"}}", "has \"d\" with an unknown value" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"depth\\\":1}\"}}", "has \"depth\" with an unknown value" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":1,\\\"modes\\\":[4],\\\"in\\\":1,\\\"out\\\":1,\\\"kind\\\":"
          "\\\"best\\\"}\"}}", "kind 4 of the weight is unknown" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":3,\\\"modes\\\":[1048576,1048576,1048576],\\\"in\\\":1,"
          "\\\"out\\\":1}\"}}", "the whole weight has" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":1,\\\"modes\\\":[4],\\\"in\\\":1,\\\"out\\\":1}\"},\"lift.9\":"
          "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", "tensor lift.9 is not part of the network" },
        { "{\"__metadata__\":{\"fno\":\"{\\\"d\\\":1,\\\"modes\\\":[4],\\\"in\\\":1,\\\"out\\\":1}\"},"
          "\"lift.0.bias\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
          "tensor lift.0.bias must be there once, as 64 f32" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_fno *net = NULL, *again = NULL;
    const char *folder = getenv("TMPDIR");
    char path[256];
    size_t i, n = 0, m = 0;
    int kind;
    (void)snprintf(path, sizeof path, "%s/t_fno_%ld.safetensors", folder && *folder ? folder : "/tmp", (long)getpid());
    for (kind = 0; kind < TGNN_SPECTRAL_KINDS; kind++) {
        tgnn_fno_desc d = small(2, kind);
        const tiny_param *p, *q;
        d.joint = kind & 1;
        d.pad = 0.1;
        if (!T_OK(tgnn_fno_open(ctx, &d, &net))) continue;
        T_OK(tgnn_fno_save(ctx, net, path));
        if (T_OK(tgnn_fno_load(ctx, path, &again))) {
            p = tgnn_fno_params(net, &n);
            q = tgnn_fno_params(again, &m);
            T_EQ_INT(n, m);
            for (i = 0; i < n && n == m; i++) {
                T_EQ_TEXT(p[i].name, q[i].name);
                T_SAME((float *)p[i].value.data, (float *)q[i].value.data, tiny_tensor_count(&p[i].value));
            }
            T_TRUE(tgnn_fno_description(again)->pad == (double)0.1);
        }
        tgnn_fno_close(again);
        tgnn_fno_close(net);
        again = net = NULL;
    }
    for (i = 0; i < T_COUNT(cut) + T_COUNT(bad); i++) {
        unsigned char bytes[700];
        const char *text = i < T_COUNT(cut) ? cut[i] : bad[i - T_COUNT(cut)].text;
        const size_t length = strlen(text), head = i < T_COUNT(cut) ? 0 : 8;
        memset(bytes, 0, 8);
        bytes[0] = (unsigned char)length;
        bytes[1] = (unsigned char)(length >> 8);
        memcpy(bytes + head, text, length);
        T_OK(tiny_file_write(ctx, path, bytes, head + length));
        T_TRUE(tgnn_fno_load(ctx, path, &net) != TINY_OK && !net);
        if (i >= T_COUNT(cut))
            T_STATUS(tiny_ctx_status(ctx), tiny_ctx_status(ctx), bad[i - T_COUNT(cut)].says);
    }
    (void)remove(path);
    T_TRUE(tgnn_fno_load(ctx, path, &net) == TINY_E_IO && !net);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_fno_desc d = small(1, 0);
    tgnn_fno *net = NULL;
    tgnn_patches p;
    tiny_idx patch[2];
    float x[32] = { 0 }, y[32];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 0, 16, 1), ty = tiny_tensor_3d(y, TINY_F32, 1, 16, 1);
    const tiny_idx size[1] = { 16 }, none[1] = { 0 };
    size_t bytes;
    d.layers = 17;
    T_STATUS(tgnn_fno_open(ctx, &d, &net), TINY_E_ARGUMENT, "17 blocks, there can be 1 to 16");
    d.layers = 1;
    d.pad = 1.5;
    T_STATUS(tgnn_fno_open(ctx, &d, &net), TINY_E_ARGUMENT, "a padding of 1.5");
    d.pad = 0;
    d.n_in = 0;
    T_STATUS(tgnn_fno_open(ctx, &d, &net), TINY_E_ARGUMENT, "0 channels in");
    T_TRUE(!net);
    d.n_in = 1;
    if (T_OK(tgnn_fno_open(ctx, &d, &net))) {
        T_STATUS(tgnn_fno_run(ctx, net, &tx, size, &ty), TINY_E_SHAPE,
                 "x is 0x16x1 f32, it must be at least one sample");
        tx.dim[0] = 1;
        T_STATUS(tgnn_fno_run(ctx, net, &tx, none, &ty), TINY_E_ARGUMENT, "axis 0 has 0 points");
        T_STATUS(tgnn_fno_workspace(ctx, net, none, &bytes), TINY_E_ARGUMENT, "axis 0 has 0 points");
        ty.dim[1] = 8;
        T_STATUS(tgnn_fno_run(ctx, net, &tx, size, &ty), TINY_E_SHAPE, "y is 1x8x1 f32, it must be 1 x 16 x 1");
    }
    tgnn_fno_close(net);
    memset(&p, 0, sizeof p);
    p.levels = 1;
    p.size[0] = 8;
    p.size[1] = 10;
    T_STATUS(tgnn_patch_size(ctx, &p, patch), TINY_E_SHAPE,
             "10 points on axis 1, with 1 levels it must be a multiple of 4");
    p.levels = 9;
    T_STATUS(tgnn_patch_size(ctx, &p, patch), TINY_E_ARGUMENT, "9 levels");
    p.levels = 1;
    p.size[1] = 8;
    p.pad[0] = -1;
    T_STATUS(tgnn_patch_size(ctx, &p, patch), TINY_E_ARGUMENT, "-1 points of padding");
    p.pad[0] = 0;
    T_STATUS(tgnn_patch_split(ctx, &p, &tx, &tx), TINY_E_SHAPE, "fields of 8 x 8 points have 4 patches of 4 x 4");
    t_close(ctx);
    T_PROOF("geometry 3", "grids that no patch divides, other shapes and files are refused with a sentence");
}

/* missing arguments: a sentence, or nothing at all */
static void test_nothing(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx size[1] = { 4 };
    tgnn_patches p;
    tiny_tape *tape;
    tiny_idx patch[2];
    size_t n = 1;
    int i;
    memset(&p, 0, sizeof p);
    T_STATUS(tgnn_fno_open(ctx, NULL, NULL), TINY_E_ARGUMENT, "a description and an output are needed");
    T_STATUS(tgnn_fno_load(ctx, NULL, NULL), TINY_E_ARGUMENT, "a path and an output are needed");
    T_STATUS(tgnn_fno_save(ctx, NULL, NULL), TINY_E_ARGUMENT, "a network and a path are needed");
    T_STATUS(tgnn_fno_run(ctx, NULL, NULL, NULL, NULL), TINY_E_ARGUMENT, "a network, x and its grid are needed");
    T_STATUS(tgnn_fno_workspace(ctx, NULL, NULL, NULL), TINY_E_ARGUMENT, "a network, a grid and an output");
    T_STATUS(tgnn_spectral_plan(ctx, NULL, NULL), TINY_E_ARGUMENT, "a description and an output are needed");
    T_STATUS(tgnn_spectral_init(ctx, NULL, 1), TINY_E_ARGUMENT, "must be planned");
    T_STATUS(tgnn_random_fields(ctx, NULL, 1, 0, NULL), TINY_E_ARGUMENT, "a description and a tensor are needed");
    T_STATUS(tgnn_patch_size(ctx, NULL, patch), TINY_E_ARGUMENT, "a description and an output are needed");
    T_STATUS(tgnn_patch_split(ctx, NULL, NULL, NULL), TINY_E_ARGUMENT, "a description");
    p.size[0] = p.size[1] = 4;
    T_STATUS(tgnn_patch_join(ctx, &p, NULL, NULL), TINY_E_ARGUMENT, "both tensors are needed");
    T_TRUE(tgnn_fno_open(NULL, NULL, NULL) != TINY_OK && tgnn_spectral_plan(NULL, NULL, NULL) != TINY_OK &&
           tgnn_random_fields(NULL, NULL, 1, 0, NULL) != TINY_OK && tgnn_patch_size(NULL, NULL, NULL) != TINY_OK);
    T_TRUE(!tgnn_fno_params(NULL, &n) && n == 0 && !tgnn_fno_description(NULL) && tgnn_fno_count(NULL) == 0);
    tgnn_fno_close(NULL);
    for (i = 0; i < 6; i++) {
        tiny_tensor t;
        tape = open_tape(ctx, 1);
        t = i == 0   ? tgnn_tape_fno(tape, NULL, NULL, NULL)
            : i == 1 ? tgnn_tape_spectral(tape, NULL, NULL, NULL, NULL, 0)
            : i == 2 ? tgnn_tape_spectral_weight(tape, NULL, NULL, 0)
            : i == 3 ? tgnn_tape_patch_join(tape, &p, NULL)
            : i == 4 ? tgnn_tape_relative_l2(tape, NULL, NULL)
                     : tgnn_tape_relative_h1(tape, NULL, NULL, 1, size, 0);
        T_TRUE(!t.data && tiny_tape_status(tape) != TINY_OK);
        tiny_tape_close(tape);
    }
    T_TRUE(!tgnn_tape_fno(NULL, NULL, NULL, NULL).data && !tgnn_tape_spectral(NULL, NULL, NULL, NULL, NULL, 0).data);
    T_TRUE(!tgnn_tape_relative_l2(NULL, NULL, NULL).data && !tgnn_tape_patch_join(NULL, NULL, NULL).data);
    t_close(ctx);
}

/* every allocation fails once, and then all after it: nothing is left over */
static void test_memory(void)
{
    const tiny_idx size[1] = { 12 };
    float x[24], y[24];
    int i;
    for (i = 0; i < 24; i++) x[i] = 0.1f * (float)i;
    T_EACH_ALLOCATION({
        const tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tgnn_fno *net = NULL;
        tgnn_random_field f;
        tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 2, 12, 1);
        tiny_tensor ty = tiny_tensor_3d(y, TINY_F32, 2, 12, 1);
        tiny_tensor to = tiny_tensor_2d(y, TINY_F32, 2, 12);
        const tgnn_fno_desc d = small(1, TGNN_SPECTRAL_TUCKER);
        memset(&f, 0, sizeof f);
        f.d = 1;
        f.size[0] = 12;
        if (tiny_ctx_open(&desc, &ctx) == TINY_OK) {
            if (tgnn_fno_open(ctx, &d, &net) == TINY_OK) (void)tgnn_fno_run(ctx, net, &tx, size, &ty);
            (void)tgnn_random_fields(ctx, &f, 1, 0, &to);
            tgnn_fno_close(net);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN(test_gradients);
    T_RUN_TARGETS(test_patches);
    T_RUN_TARGETS(test_points);
    T_RUN(test_losses);
    T_RUN_TARGETS(test_fields);
    T_RUN(test_files);
    T_RUN(test_bad);
    T_RUN(test_nothing);
    T_RUN(test_memory);
    return t_done();
}
