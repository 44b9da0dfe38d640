/* tests/gnn/render/nerf.c - radiance fields with spiking colours: worked numbers, the plain form, padded and ragged
 * time, counted additions, gradients, training, files, bad input */
#define T_GNN
#include "t.h"

enum { SIDE = 8, RAYS = 40 };

static tgnn_nerf_desc small(int kind)
{
    tgnn_nerf_desc d;
    int i;
    memset(&d, 0, sizeof d);
    for (i = 0; i < 3; i++) {
        d.size[i] = SIDE + i;
        d.background[i] = 0.25 * (i + 1);
    }
    d.net = kind;
    d.features = kind == TGNN_NERF_DIRECT ? 3 : 5;
    d.hidden = 32;
    d.bands = 2;
    d.repeats = 3;
    d.seed = 7;
    return d;
}

static float *numbers(const tgnn_nerf *net, const char *name, tiny_idx *n, float **grad)
{
    size_t count = 0, i;
    const tiny_param *p = tgnn_nerf_params(net, &count);
    for (i = 0; i < count; i++)
        if (!strcmp(p[i].name, name)) {
            if (n) *n = tiny_tensor_count(&p[i].value);
            if (grad) *grad = (float *)p[i].grad.data;
            return (float *)p[i].value.data;
        }
    t_fail(__FILE__, __LINE__, "there is no %s", name);
    return (float *)t_keep(1 << 16);
}

/* A field with holes, and free space in the middle of axis 0; features and weights large enough for spikes. */
static tgnn_nerf *filled(tiny_ctx *ctx, const tgnn_nerf_desc *d)
{
    tgnn_nerf *net = NULL;
    const tiny_idx layer = d->size[1] * d->size[2];
    tiny_idx n = 0, i;
    float *x;
    int k;
    T_OK(tgnn_nerf_open(ctx, d, &net));
    x = numbers(net, "density", &n, NULL);
    for (i = 0; i < n; i++)
        x[i] = i / layer == 3 || i / layer == 4 || !t_rand_below(8) ? -20.0f : t_rand_float(3, 6);
    x = numbers(net, "features", &n, NULL);
    for (i = 0; i < n; i++) x[i] = t_rand_float(-2, 2);
    for (k = 0; k < 2 && d->net != TGNN_NERF_DIRECT; k++) {
        x = numbers(net, k ? "layer.1" : "layer.0", &n, NULL);
        for (i = 0; i < n; i++) x[i] *= d->net == TGNN_NERF_FLOAT ? 1 : k ? 4 : 2;
    }
    return net;
}

/* from around the box into it; the last ones miss it */
static float *rays_into(int n)
{
    float *r = t_guarded((size_t)n * 6);
    int i, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < 3; k++) {
            r[6 * i + k] = k == i % 3 ? -3.0f : t_rand_float(-1, 1);
            r[6 * i + 3 + k] = i < n - 2 ? t_rand_float(-0.4f, 0.4f) - r[6 * i + k] : k == i % 3 ? -2.0f : 0.0f;
        }
    return r;
}

static void test_worked(tiny_target target)
{
    static const float alpha[3] = { 0.5f, 0.2f, 0.9f }, background[3] = { 0, 0, 1 },
                       rgb[9] = { 1, 0, 0, 0, 1, 0, 1, 1, 0 };
    static const float x[6] = { 1.5f, 1.5f, 1.5f, 0, 2.5f, 0.4f };
    static const float want[6] = { 0.75f, 1.125f, 0.75f, 0.375f, 1.4375f, 0.2f },
                       fired[6] = { 0, 1, 0, 0, 1, 0 }, steady[4] = { 1, 2, 1.5f, 1 }, grows[3] = { 1.2f, 1.2f, 1.2f };
    static const int32_t gap[3] = { 0, 1, 0 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float w[3], rest, colour[3], h[6], s[6], one = 1.5f;
    int i;
    T_OK(tgnn_nerf_composite(ctx, 3, alpha, rgb, background, w, &rest, colour));
    T_CLOSE(w[0], 0.5, 1e-7);
    T_CLOSE(w[1], 0.1, 1e-7);
    T_CLOSE(w[2], 0.36, 1e-7);
    T_CLOSE(rest, 0.04, 1e-7);
    T_CLOSE(w[0] + w[1] + w[2] + rest, 1, 1e-6);
    T_CLOSE(colour[0], 0.86, 1e-6);
    T_CLOSE(colour[1], 0.46, 1e-6);
    T_CLOSE(colour[2], 0.04, 1e-7);
    T_OK(tgnn_nerf_neuron(ctx, 6, x, NULL, 0.5, h, s));
    for (i = 0; i < 6; i++) T_CLOSE(h[i], want[i], 0);
    T_SAME(s, fired, 6);
    T_PROOF("geometry 5", "worked: alpha (.5,.2,.9), six inputs of a neuron");
    T_PROOF("geometry 5", "sum w + remainder = 1");
    /* 1.5, a gap, 1.5, 1.5: the fourth step fires; condensed, the second of three */
    T_OK(tgnn_nerf_neuron(ctx, 3, x, gap, 0.5, h, s));
    T_TRUE(s[0] == 0 && s[1] == 0 && s[2] == 1);
    T_OK(tgnn_nerf_neuron(ctx, 3, x, NULL, 0.5, h, s));
    T_TRUE(s[0] == 0 && s[1] == 1 && s[2] == 0);
    T_PROOF("geometry 5", "worked: TP spikes 0,0,0,1, TCP on three inputs 0,1,0");
    /* tau = 1: h is the input, each one of at least 1 fires; at tau = 2 a constant 1.2 needs 1.2 (1 - 2^-n) >= 1 */
    T_OK(tgnn_nerf_neuron(ctx, 4, steady, NULL, 1.0, h, s));
    for (i = 0; i < 4; i++) T_TRUE(h[i] == steady[i] && s[i] == 1);
    T_OK(tgnn_nerf_neuron(ctx, 3, grows, NULL, 0.5, h, s));
    for (i = 0; i < 3; i++) T_CLOSE(h[i], 1.2 * (1 - pow(0.5, i + 1)), 1e-7);
    T_TRUE(s[0] == 0 && s[1] == 0 && s[2] == 1);
    T_PROOF("geometry 5", "with tau -> 1, threshold reached every step, analytic cases");
    T_OK(tgnn_nerf_neuron(ctx, 1, &one, NULL, 0.5, NULL, NULL));
    t_close(ctx);
}

/* every kind of network and of time against the plain form, with its counts; and padded tensors to the bit */
static void test_plain(tiny_target target)
{
    static const struct { int net, time, flip, leak; } form[] = {
        { TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 0, 0 }, { TGNN_NERF_SPIKES, TGNN_NERF_PADDED, 0, 0 },
        { TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 1, 1 }, { TGNN_NERF_SPIKES, TGNN_NERF_PADDED, 1, 1 },
        { TGNN_NERF_FLOAT, 0, 0, 0 },                    { TGNN_NERF_REPEAT, 0, 0, 0 },
        { TGNN_NERF_DIRECT, 0, 0, 0 }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t f;
    for (f = 0; f < T_COUNT(form); f++) {
        tgnn_nerf_desc d = small(form[f].net);
        tgnn_nerf *net, *padded;
        float *r = rays_into(RAYS), *got = t_guarded(RAYS * 3), *tensor = t_guarded(RAYS * 3);
        const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, RAYS, 6), seen = tiny_tensor_2d(got, TINY_F32, RAYS, 3),
                          other = tiny_tensor_2d(tensor, TINY_F32, RAYS, 3);
        tgnn_nerf_count count, all, one;
        double part = 1;
        int i, k, pass;
        d.time = form[f].time;
        d.flip = form[f].flip;
        d.learn_leak = form[f].leak;
        net = filled(ctx, &d);
        if (form[f].leak) numbers(net, "leak", NULL, NULL)[0] = 0.7f;
        memset(&all, 0, sizeof all);
        for (pass = 0; pass < 2; pass++) {
            if (pass) T_OK(tgnn_nerf_cull(ctx, net, &part));
            memset(got, 0, RAYS * 3 * sizeof *got);
            T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, &count));
            T_WALLS(got, RAYS * 3);
            for (i = 0; i < RAYS; i++) {
                float exact[3];
                T_OK(tgnn_nerf_ref(ctx, net, r + 6 * i, exact, &one));
                for (k = 0; k < 3; k++) T_CLOSE(got[3 * i + k], exact[k], 1e-5);
                if (pass) continue;
                all.rays += one.rays;
                all.samples += one.samples;
                all.points += one.points;
                all.spikes[0] += one.spikes[0];
                all.spikes[1] += one.spikes[1];
                all.multiply_adds += one.multiply_adds;
                all.additions += one.additions;
                all.steps += one.steps;
                all.gap_steps += one.gap_steps;
            }
            if (!pass) T_EQ_INT(count.samples, all.samples);
            else T_TRUE(count.samples < all.samples && part < 1);
            T_EQ_INT(count.rays, all.rays);
            T_EQ_INT(count.points, all.points);
            T_EQ_INT(count.spikes[0], all.spikes[0]);
            T_EQ_INT(count.spikes[1], all.spikes[1]);
            T_EQ_INT(count.multiply_adds, all.multiply_adds);
            T_EQ_INT(count.additions, all.additions);
            T_EQ_INT(count.steps, all.steps);
            T_EQ_INT(count.gap_steps, all.gap_steps);
        }
        T_TRUE(all.points > RAYS);
        if (form[f].net == TGNN_NERF_SPIKES || form[f].net == TGNN_NERF_REPEAT) {
            T_TRUE(all.spikes[0] > 100 && all.spikes[1] > 10);
            T_EQ_INT(all.additions, all.spikes[0] * 32 + all.spikes[1] * 3);
            T_RAN_ON(ctx, t_vectors(target));
        }
        if (form[f].time == TGNN_NERF_PADDED) T_TRUE(all.gap_steps > 0);
        for (i = RAYS - 2; i < RAYS; i++)
            for (k = 0; k < 3; k++) T_CLOSE(got[3 * i + k], 0.25 * (k + 1), 1e-7);
        if (form[f].net == TGNN_NERF_SPIKES) {
            size_t n = 0, j;
            const tiny_param *from = tgnn_nerf_params(net, &n), *to;
            d.padded = 1;
            padded = filled(ctx, &d);
            to = tgnn_nerf_params(padded, &n);
            for (j = 0; j < n; j++) T_OK(tiny_copy(ctx, &from[j].value, &to[j].value));
            T_OK(tgnn_nerf_render(ctx, padded, &rays, &other, &one));
            T_SAME(tensor, got, RAYS * 3);
            T_EQ_INT(one.additions, count.additions);
            T_EQ_INT(one.padded_steps, count.padded_steps);
            T_TRUE(count.padded_steps > count.steps);
            tgnn_nerf_close(padded);
        }
        tgnn_nerf_close(net);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 5", "ragged = padded result bit for bit: TP and TCP, near to far and far to near");
    T_PROOF("geometry 5", "add count equals brute count");
    T_PROOF("geometry 5", "rays that miss the box give background");
}

/* Two slabs with free space between them, then with more of it: the same points at other steps. Condensed time sees the
 * same; padded time lets the neurons fade longer. */
static void test_free_space(tiny_target target)
{
    enum { LONG = 12 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int time;
    for (time = 0; time < 2; time++) {
        tgnn_nerf_desc d = small(TGNN_NERF_SPIKES);
        tgnn_nerf *net;
        float got[2][3], r[6] = { -3, 0.1f, 0.1f, 1, 0, 0 }, *x;
        const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, 1, 6);
        tgnn_nerf_count count[2];
        tiny_idx n = 0, i;
        int far, k;
        d.size[0] = LONG;
        d.size[1] = d.size[2] = 4;
        d.low[0] = 0;
        d.high[0] = LONG - 1;
        for (k = 1; k < 3; k++) {
            d.low[k] = -1.5;
            d.high[k] = 1.5;
        }
        d.time = time;
        T_OK(tgnn_nerf_open(ctx, &d, &net));
        x = numbers(net, "layer.0", &n, NULL);
        for (i = 0; i < n; i++) x[i] *= 3;
        x = numbers(net, "layer.1", &n, NULL);
        for (i = 0; i < n; i++) x[i] *= 4;
        x = numbers(net, "features", &n, NULL);
        for (i = 0; i < n; i++) x[i] = 1.0f + (float)(i % 5);
        x = numbers(net, "density", &n, NULL);
        for (far = 0; far < 2; far++) {
            const tiny_tensor seen = tiny_tensor_2d(got[far], TINY_F32, 1, 3);
            for (i = 0; i < n; i++) {
                const tiny_idx layer = i / 16;
                x[i] = layer == 1 || layer == (far ? 7 : 3) || layer == (far ? 8 : 4) ? 4.0f : -30.0f;
            }
            T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, &count[far]));
        }
        T_EQ_INT(count[0].points, count[1].points);
        T_TRUE(count[0].points >= 4 && count[0].spikes[1] > 0);
        if (time == TGNN_NERF_CONDENSED) {
            for (k = 0; k < 3; k++) T_CLOSE(got[1][k], got[0][k], 1e-6);
            T_EQ_INT(count[0].additions, count[1].additions);
        } else {
            T_EQ_INT(count[1].gap_steps - count[0].gap_steps, 8);   /* four voxels of two steps */
            T_TRUE(count[0].additions != count[1].additions);
        }
        tgnn_nerf_close(net);
    }
    t_close(ctx);
    T_PROOF("geometry 5", "TCP invariance to adding masked points");
}

/* All forms by central differences where the formula is smooth: density and the last layer of all, everything of the
 * float network and of the direct colours. */
static void test_gradients(void)
{
    enum { N = 12 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind;
    for (kind = 0; kind < TGNN_NERF_NETS; kind++) {
        tgnn_nerf_desc d = small(kind);
        tgnn_nerf *net;
        float *r = rays_into(N), *slope = t_rand(N * 3, -1, 1), *seen = t_guarded(N * 3), *x;
        const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, N, 6), ds = tiny_tensor_2d(slope, TINY_F32, N, 3),
                          to = tiny_tensor_2d(seen, TINY_F32, N, 3);
        const tiny_param *p;
        size_t n = 0, i;
        tiny_idx k;
        d.bound = 1e-6;
        d.flip = kind != TGNN_NERF_REPEAT;
        d.time = kind == TGNN_NERF_SPIKES ? TGNN_NERF_PADDED : 0;
        net = filled(ctx, &d);
        p = tgnn_nerf_params(net, &n);
        x = (float *)p[0].value.data;
        for (k = 0; k < tiny_tensor_count(&p[0].value); k++) x[k] = x[k] < 0 ? 1.0f + x[k] / 40 : x[k];
        T_OK(tgnn_nerf_backward(ctx, net, &rays, &ds, &to));
        for (i = 0; i < n; i++) {
            float *v = (float *)p[i].value.data;
            const float *g = (const float *)p[i].grad.data;
            const tiny_idx m = tiny_tensor_count(&p[i].value);
            const float e = i == 0 ? 2e-2f : 4e-3f;
            double most = 1e-3;
            tiny_idx worst = 0;
            int which, s;
            if (kind != TGNN_NERF_FLOAT && kind != TGNN_NERF_DIRECT && i != 0 && strcmp(p[i].name, "layer.2")) continue;
            for (k = 0; k < m; k++)
                if (fabs((double)g[k]) > most) {
                    most = fabs((double)g[k]);
                    worst = k;
                }
            if (most < 1e-2) t_fail(__FILE__, __LINE__, "kind %d, %s: no slope above %g", kind, p[i].name, most);
            for (which = 0; which < 3; which++) {
                const tiny_idx at = which == 0 ? worst : which * m / 3;
                const float old = v[at];
                double side[2] = { 0, 0 };
                for (s = 0; s < 2; s++) {
                    v[at] = old + (s ? e : -e);
                    T_OK(tgnn_nerf_render(ctx, net, &rays, &to, NULL));
                    for (k = 0; k < N * 3; k++) side[s] += (double)slope[k] * (double)seen[k];
                }
                v[at] = old;
                T_CLOSE((side[1] - side[0]) / (2 * (double)e), g[at], 0.03 * most + 2e-3);
            }
        }
        tgnn_nerf_close(net);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 5", "gradient of the composite and of the grids by finite differences");
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double slope_of(double h) { return 4 * sigmoid(4 * (h - 1)) * (1 - sigmoid(4 * (h - 1))); }

/* One neuron: dh_k/dx_t is written out as a product over the steps between; dh/dleak goes forward in time. Then a
 * weight of the first and of the second layer, forward through both layers, in a field that is the same everywhere. */
static void test_surrogate(void)
{
    enum { N = 9, H = 32, IN = 5 + 3 + 12 };
    static const int32_t gap[N] = { 0, 2, 0, 0, 1, 0, 3, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(N, -0.5f, 3.5f), *ds = t_rand(N, -1, 1), h[N], s[N], dx[N];
    double d_leak = 0, want_leak = 0, dv = 0, v = 0;
    const double p = 0.4;
    int t, k, j, spikes = 0;
    T_OK(tgnn_nerf_neuron(ctx, N, x, gap, p, h, s));
    T_OK(tgnn_nerf_neuron_back(ctx, N, x, gap, p, ds, dx, &d_leak));
    for (t = 0; t < N; t++) {
        double sum = 0, way = p;
        for (k = t; k < N; k++) {
            if (k > t) way *= (1 - p) * (1 - (double)s[k - 1]) * pow(1 - p, gap[k]);
            sum += (double)ds[k] * slope_of((double)h[k]) * way;
        }
        T_CLOSE(dx[t], sum, 1e-6);
        spikes += s[t] > 0;
    }
    for (t = 0; t < N; t++) {
        double dh;
        for (k = 0; k < gap[t]; k++) {
            dv = dv * (1 - p) - v;
            v *= 1 - p;
        }
        dh = dv * (1 - p) + ((double)x[t] - v);
        want_leak += (double)ds[t] * slope_of((double)h[t]) * dh;
        v = (double)h[t] * (1 - (double)s[t]);
        dv = dh * (1 - (double)s[t]);
    }
    T_CLOSE(d_leak, want_leak, 1e-5);
    T_TRUE(spikes > 1 && spikes < N);
    {                                       /* tau = 1: nothing is left of the step before, and nothing is divided */
        double want_one = 0;
        T_OK(tgnn_nerf_neuron_back(ctx, N, x, gap, 1, ds, dx, &d_leak));
        for (t = 0; t < N; t++) {
            const double before = t && !gap[t] && x[t - 1] < 1 ? (double)x[t - 1] : 0;
            want_one += (double)ds[t] * slope_of((double)x[t]) * ((double)x[t] - before);
            T_CLOSE(dx[t], (double)ds[t] * slope_of((double)x[t]), 1e-6);
        }
        T_CLOSE(d_leak, want_one, 1e-5);
    }
    for (j = 0; j < 2; j++) {               /* the layer whose weight moves */
        tgnn_nerf_desc d = small(TGNN_NERF_SPIKES);
        tgnn_nerf *net;
        float r[6] = { -3, 0, 0, 1, 0, 0 }, ask[3] = { 0.7f, -1, 0.4f }, seen[3], *grad = NULL, *w[3], *g;
        const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, 1, 6), to = tiny_tensor_2d(seen, TINY_F32, 1, 3),
                          slopes = tiny_tensor_2d(ask, TINY_F32, 1, 3);
        double in[IN], v1[H], v2[H], dv1 = 0, dv2[H], want = 0, light = 1, alpha;
        tgnn_nerf_count count;
        tiny_idx n = 0, i;
        int c, b, from, into;
        T_OK(tgnn_nerf_open(ctx, &d, &net));
        w[0] = numbers(net, "density", &n, NULL);
        for (i = 0; i < n; i++) w[0][i] = 2.5f;
        w[0] = numbers(net, "features", &n, NULL);
        for (i = 0; i < n; i++) w[0][i] = (float)(i % 5) - 1.5f;
        for (c = 0; c < 3; c++) {
            static const char *const names[3] = { "layer.0", "layer.1", "layer.2" };
            w[c] = numbers(net, names[c], &n, c == j ? &grad : &g);
            for (i = 0; i < n; i++) w[c][i] *= c == 1 ? 4 : 2;
        }
        T_OK(tgnn_nerf_backward(ctx, net, &rays, &slopes, &to));
        T_OK(tgnn_nerf_render(ctx, net, &rays, &to, &count));
        for (k = 0, i = 0; i < (j ? H : IN) * H; i++) if (fabs((double)grad[i]) > fabs((double)grad[k])) k = (int)i;
        from = k / H;
        into = k % H;
        for (i = 0; i < 5; i++) in[i] = (double)i - 1.5;
        for (c = 0; c < 3; c++) in[5 + c] = c == 0;
        for (c = 0; c < 3; c++)
            for (b = 0; b < 2; b++) {
                in[8 + 2 * c + b] = c ? 0 : sin(1 << b);
                in[14 + 2 * c + b] = c ? 1 : cos(1 << b);
            }
        memset(v1, 0, sizeof v1);
        memset(v2, 0, sizeof v2);
        memset(dv2, 0, sizeof dv2);
        alpha = 1 - pow(1 + exp(2.5 + log(1 / 0.99 - 1)), -0.5);
        for (t = 0; t < (int)count.points; t++) {
            double s1[H], out[3] = { 0, 0, 0 }, d_out[3] = { 0, 0, 0 }, ds1 = 0;
            for (k = 0; k < H; k++) {
                double pre = 0, z, dz;
                for (i = 0; i < IN; i++) pre += in[i] * (double)w[0][i * H + k];
                z = v1[k] + (pre - v1[k]) / 2;
                s1[k] = z >= 1;
                if (k == into && !j) {
                    dz = dv1 / 2 + in[from] / 2;
                    ds1 = slope_of(z) * dz;
                    dv1 = dz * (1 - s1[k]);
                }
                v1[k] = z * (1 - s1[k]);
            }
            for (k = 0; k < H; k++) {
                double pre = 0, z, fires, d_pre = j ? (k == into ? s1[from] : 0) : ds1 * (double)w[1][into * H + k], dz;
                for (i = 0; i < H; i++) pre += s1[i] * (double)w[1][i * H + k];
                z = v2[k] + (pre - v2[k]) / 2;
                fires = z >= 1;
                dz = dv2[k] / 2 + d_pre / 2;
                dv2[k] = dz * (1 - fires);
                v2[k] = z * (1 - fires);
                for (c = 0; c < 3; c++) {
                    out[c] += fires * (double)w[2][3 * k + c];
                    d_out[c] += slope_of(z) * dz * (double)w[2][3 * k + c];
                }
            }
            for (c = 0; c < 3; c++)
                want += (double)ask[c] * light * alpha * sigmoid(out[c]) * (1 - sigmoid(out[c])) * d_out[c];
            light *= 1 - alpha;
        }
        T_TRUE(fabs(want) > 1e-4 && count.spikes[1] > 0);
        T_CLOSE(grad[from * H + into], want, 1e-4 * fabs(want) + 1e-6);
        tgnn_nerf_close(net);
    }
    t_close(ctx);
    T_PROOF("geometry 5", "surrogate gradient against a written-out reference: one neuron, a weight of each layer");
}

static int stop_at, steps_seen;
static int watch(void *user, const tgnn_nerf_fit_state *s)
{
    (void)user;
    steps_seen = (int)s->step;
    return stop_at && s->step == stop_at;
}

static double distance(const float *a, const float *b, int n)
{
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]) / n;
    return sum;
}

/* Colours learnt from another field; the grids grow on the way. */
static void test_fit(void)
{
    enum { N = 200 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_nerf_desc d = small(TGNN_NERF_DIRECT);
    tgnn_nerf *truth = filled(ctx, &d), *net = NULL, *again = NULL;
    float *r = rays_into(N), *c = t_guarded(N * 3), *y = t_guarded(N * 3), *z = t_guarded(N * 3);
    const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, N, 6), colours = tiny_tensor_2d(c, TINY_F32, N, 3),
                      seen = tiny_tensor_2d(y, TINY_F32, N, 3), other = tiny_tensor_2d(z, TINY_F32, N, 3);
    tgnn_nerf_fit_desc fit;
    char path[300];
    const char *tmp = getenv("TMPDIR");
    int i;
    T_OK(tgnn_nerf_render(ctx, truth, &rays, &colours, NULL));
    d = small(TGNN_NERF_SPIKES);
    for (i = 0; i < 3; i++) d.size[i] = SIDE - 1;
    d.learn_leak = 1;
    T_OK(tgnn_nerf_open(ctx, &d, &net));
    T_OK(tgnn_nerf_shape(ctx, net, truth));
    T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, NULL));
    memset(&fit, 0, sizeof fit);
    fit.rays = &rays;
    fit.colours = &colours;
    fit.batch = 40;
    fit.steps = 120;
    fit.rate_net = 1e-2;
    for (i = 0; i < 3; i++) fit.size[i] = SIDE;
    fit.variation = 1e-4;
    fit.entropy = 1e-3;
    fit.callback = watch;
    T_OK(tgnn_nerf_fit(ctx, net, &fit));
    T_EQ_INT(steps_seen, 120);
    T_OK(tgnn_nerf_render(ctx, net, &rays, &other, NULL));
    T_CLOSE(distance(z, c, 3 * N), 0, 0.6 * distance(y, c, 3 * N));
    T_EQ_INT(tgnn_nerf_description(net)->size[2], SIDE);
    fit.size[0] = fit.size[1] = fit.size[2] = 0;
    stop_at = 2;
    T_OK(tgnn_nerf_fit(ctx, net, &fit));
    T_EQ_INT(steps_seen, 2);
    stop_at = 0;
    (void)snprintf(path, sizeof path, "%.200s/nerf-%lu.ckpt", tmp ? tmp : P_tmpdir, (unsigned long)clock());
    T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, NULL));
    T_OK(tgnn_nerf_save(ctx, net, path));
    if (T_OK(tgnn_nerf_load(ctx, path, &again))) {
        T_OK(tgnn_nerf_render(ctx, again, &rays, &other, NULL));
        T_SAME(y, z, N * 3);
    }
    tgnn_nerf_close(again);
    {                                       /* a description that is none */
        double v[26];
        tiny_param p;
        memset(v, 0, sizeof v);
        memset(&p, 0, sizeof p);
        p.name = "nerf";
        p.value = p.grad = tiny_tensor_1d(v, TINY_F64, 26);
        v[25] = 0;
        for (i = 0; i < 4; i++) {
            v[2] = i == 0 ? (double)NAN : 1e9;
            if (i == 2) v[2] = 0;
            if (i == 3) {                   /* grids of 512^3 corners, in a file of a few bytes */
                v[0] = v[1] = v[2] = 512;
                v[24] = 1;
            }
            T_OK(tiny_params_save(ctx, path, &p, 1, NULL));
            T_STATUS(tgnn_nerf_load(ctx, path, &again), TINY_E_FORMAT,
                     i < 2    ? "number 2 of the description"
                     : i == 2 ? "a voxel of length 0"
                              : "more numbers than the file");
        }
    }
    (void)remove(path);
    c[4] = (float)NAN;
    T_STATUS(tgnn_nerf_fit(ctx, net, &fit), TINY_E_NUMERIC, "the colour of ray 1 is not finite");
    c[4] = 0;
    fit.decay = 2;
    T_STATUS(tgnn_nerf_fit(ctx, net, &fit), TINY_E_ARGUMENT, "the decay must be 0 to 1");
    tgnn_nerf_close(net);
    tgnn_nerf_close(truth);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_nerf_desc d = small(TGNN_NERF_SPIKES), bad;
    tgnn_nerf *net = filled(ctx, &d), *none = NULL;
    float r[12] = { -3, 0, 0, 1, 0, 0, -3, 0, 0, 1, 0, 0 }, c[9], x[2] = { 1, 1 }, *density;
    tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, 2, 6), seen = tiny_tensor_2d(c, TINY_F32, 2, 3), t;
    tgnn_nerf_count count;
    int32_t gap[2] = { 0, -1 };
    tgnn_nerf_fit_desc fit;
    tiny_idx n = 0, i, size[3] = { 1, 2, 3 };
    float w[2], rest;
    density = numbers(net, "density", &n, NULL);
    density[40] = (float)NAN;
    T_STATUS(tgnn_nerf_render(ctx, net, &rays, &seen, NULL), TINY_E_NUMERIC, "the density at the corner (0, 4, 0)");
    for (i = 0; i < n; i++) density[i] = -30;
    /* all points masked: no time at all, with and without empty voxels */
    T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, &count));
    T_TRUE(count.samples > 0 && !count.points && !count.steps && !count.padded_steps && !count.additions);
    for (i = 0; i < 3; i++) T_CLOSE(c[i], 0.25 * (double)(i + 1), 0);
    T_OK(tgnn_nerf_cull(ctx, net, NULL));
    T_OK(tgnn_nerf_render(ctx, net, &rays, &seen, &count));
    T_EQ_INT(count.samples, 0);
    for (i = 0; i < 3; i++) T_CLOSE(c[i], 0.25 * (double)(i + 1), 0);
    T_OK(tgnn_nerf_neuron(ctx, 0, NULL, NULL, 0.5, NULL, NULL));
    T_OK(tgnn_nerf_composite(ctx, 0, NULL, NULL, r, w, &rest, c));
    T_CLOSE(rest, 1, 0);
    t = tiny_tensor_2d(r, TINY_F32, 0, 6);
    seen.dim[0] = 0;
    T_OK(tgnn_nerf_render(ctx, net, &t, &seen, NULL));
    seen.dim[0] = 2;
    r[9] = 0;
    T_STATUS(tgnn_nerf_render(ctx, net, &rays, &seen, NULL), TINY_E_ARGUMENT, "ray 1 has no direction");
    r[9] = (float)INFINITY;
    T_STATUS(tgnn_nerf_render(ctx, net, &rays, &seen, NULL), TINY_E_NUMERIC, "number 3 of ray 1 is not finite");
    r[9] = 1;
    T_PROOF("geometry 5", "bad input: all points masked, T = 0, NaN density, degenerate direction");
    t = tiny_tensor_2d(c, TINY_F32, 3, 3);
    T_STATUS(tgnn_nerf_render(ctx, net, &rays, &t, NULL), TINY_E_SHAPE, "the colours are 3x3");
    T_STATUS(tgnn_nerf_resize(ctx, net, size), TINY_E_ARGUMENT, "1 corners on axis 0");
    memset(&fit, 0, sizeof fit);            /* before the first step, though the size changes a third later */
    fit.rays = &rays;
    fit.colours = &seen;
    fit.callback = watch;
    fit.size[1] = 1;
    steps_seen = 0;
    memset(c, 0, sizeof c);
    T_STATUS(tgnn_nerf_fit(ctx, net, &fit), TINY_E_ARGUMENT, "0 corners on axis 0");
    T_EQ_INT(steps_seen, 0);
    T_STATUS(tgnn_nerf_neuron(ctx, 2, x, NULL, 0.0, NULL, NULL), TINY_E_ARGUMENT, "a leak of 0");
    T_STATUS(tgnn_nerf_neuron(ctx, 2, x, gap, 0.5, NULL, NULL), TINY_E_ARGUMENT, "a gap of -1 steps");
    x[1] = 2;
    T_STATUS(tgnn_nerf_composite(ctx, 2, x, NULL, NULL, w, &rest, NULL), TINY_E_ARGUMENT, "alpha 1 is 2");
    tgnn_nerf_close(net);
#define T_BAD(change, says)              \
    bad = small(TGNN_NERF_SPIKES);       \
    change;                              \
    T_STATUS(tgnn_nerf_open(ctx, &bad, &none), TINY_E_ARGUMENT, says)
    T_BAD(bad.net = 9, "there is no network 9");
    T_BAD(bad.size[1] = 1, "1 corners on axis 1");
    T_BAD(bad.hidden = 40, "40 neurons in a layer");
    T_BAD(bad.features = 65, "65 features");
    T_BAD(bad.bands = 9, "9 bands");
    T_BAD(bad.high[0] = -4, "the box reaches from 0 to -4 on axis 0");
    T_BAD(bad.alpha = 1, "alpha 1 and bound");
    T_BAD(bad.background[2] = (double)NAN, "the background is not finite");
    T_BAD((bad.net = TGNN_NERF_DIRECT, bad.features = 4), "4 features");
#undef T_BAD
    T_TRUE(!none);
    T_CLOSE(tgnn_nerf_energy(&count), 0, 0);
    count.multiply_adds = 1000;
    count.additions = 2000;
    T_CLOSE(tgnn_nerf_energy(&count), 6.4e-9, 1e-15);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        const tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        const tgnn_nerf_desc d = small(TGNN_NERF_SPIKES);
        const tiny_idx size[3] = { 3, 3, 3 };
        float r[6] = { -3, 0, 0, 1, 0, 0 }; float c[3] = { 0, 0, 0 };
        const tiny_tensor rays = tiny_tensor_2d(r, TINY_F32, 1, 6);
        const tiny_tensor seen = tiny_tensor_2d(c, TINY_F32, 1, 3);
        tgnn_nerf_fit_desc fit;
        tiny_ctx *ctx = NULL;
        tgnn_nerf *net = NULL;
        memset(&fit, 0, sizeof fit);
        fit.rays = &rays;
        fit.colours = &seen;
        fit.batch = 2;
        fit.steps = 1;
        if (tiny_ctx_open(&desc, &ctx) == TINY_OK) {
            if (tgnn_nerf_open(ctx, &d, &net) == TINY_OK) {
                (void)tgnn_nerf_render(ctx, net, &rays, &seen, NULL);
                (void)tgnn_nerf_resize(ctx, net, size);
                (void)tgnn_nerf_fit(ctx, net, &fit);
                (void)tgnn_nerf_ref(ctx, net, r, c, NULL);
            }
            tgnn_nerf_close(net);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_worked);
    T_RUN_TARGETS(test_plain);
    T_RUN_TARGETS(test_free_space);
    T_RUN(test_gradients);
    T_RUN(test_surrogate);
    T_RUN(test_fit);
    T_RUN(test_refused);
    T_RUN(test_no_memory);
    return t_done();
}
