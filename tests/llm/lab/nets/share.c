/* tests/llm/lab/nets/share.c - weights shared in one array: maps, gradients, products, training, files */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else
#include "golden/rps.h"

static const tllm_share_matrix two[2] = { { 6, 10, 0.25 }, { 12, 20, 0.5 } };

static tllm_share_desc desc_of(const tllm_share_matrix *matrix, size_t n, size_t m, int map)
{
    tllm_share_desc d;
    memset(&d, 0, sizeof d);
    d.matrix = matrix;
    d.n_matrix = n;
    d.m = m;
    d.map = map;
    return d;
}

static tllm_nn *mlp_open(tiny_ctx *ctx, tiny_idx hidden, uint64_t seed)
{
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    tllm_nn *nn = NULL;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l[0].n_out = l[1].n_out = hidden;
    l[0].relu = l[1].relu = 1;
    l[2].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 3; d.seed = seed;
    T_OK(tllm_nn_open(ctx, &d, &nn));
    return nn;
}

/* ---- maps */

/* The example of the specification: r makes h(0) = 2 and h(1) = h(2) = 3. */
static void test_load(void)
{
    static const size_t want[13] = { 2, 3, 4, 0, 1, 3, 4, 0, 1, 2, 3, 4, 0 };
    static const int loads[5] = { 3, 2, 2, 3, 3 };
    static const tllm_share_matrix one = { 13, 1, 1.0 }, large = { 100, 37, 1.0 };
    static const uint64_t r[3] = { 9, 7, 7 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_share_desc d = desc_of(&one, 1, 5, TLLM_SHARE_FOLD);
    tllm_share *s = NULL;
    int load[5] = { 0 }, *count;
    size_t i, m;
    memcpy(d.r, r, sizeof r);
    T_OK(tllm_share_open(ctx, &d, &s));
    for (i = 0; i < 13; i++) {
        T_EQ_INT(tllm_share_at(s, i), want[i]);
        load[tllm_share_at(s, i)]++;
    }
    for (i = 0; i < 5; i++) T_EQ_INT(load[i], loads[i]);
    tllm_share_close(s);
    for (m = 1; m <= 3700; m = m * 5 + 3) {             /* floor(n/m) or ceil(n/m), for seeds of our own */
        d = desc_of(&large, 1, m, TLLM_SHARE_FOLD);
        d.seed = m;
        T_OK(tllm_share_open(ctx, &d, &s));
        count = (int *)t_keep(m * sizeof *count);
        memset(count, 0, m * sizeof *count);
        for (i = 0; i < 3700; i++) count[tllm_share_at(s, i)]++;
        for (i = 0; i < m; i++) T_TRUE(count[i] == (int)(3700 / m) || count[i] == (int)((3700 + m - 1) / m));
        tllm_share_close(s);
    }
    for (m = 3700; m <= 3701; m++) {                    /* a rotation; more numbers than weights: the identity */
        size_t step = 0;
        d = desc_of(&large, 1, m, TLLM_SHARE_FOLD);
        d.seed = 5;
        T_OK(tllm_share_open(ctx, &d, &s));
        step = tllm_share_at(s, 0);
        for (i = 0; i < 3700; i++) T_EQ_INT(tllm_share_at(s, i), m == 3700 ? (step + i) % m : i);
        tllm_share_close(s);
    }
    t_close(ctx);
    T_PROOF("compression 4", "load histogram of m = 5, n = 13");
    T_PROOF("compression 4", "bad input: m > n is the identity");
}

static void test_golden(void)
{
    static const struct { int map, m; const int16_t *at; } q[3] = { { TLLM_SHARE_FOLD, rps_fold_m, rps_fold },
                                                                    { TLLM_SHARE_TILE, rps_tile_m, rps_tile },
                                                                    { TLLM_SHARE_HASH, rps_hash_m, rps_hash } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k;
    size_t i;
    for (k = 0; k < 3; k++) {
        tllm_share_desc d = desc_of(two, 2, (size_t)q[k].m, q[k].map);
        tllm_share *s = NULL;
        memcpy(d.r, rps_r, sizeof rps_r);
        d.tile[0] = 8;
        d.tile[1] = 4;
        T_OK(tllm_share_open(ctx, &d, &s));
        for (i = 0; i < 240; i++) T_EQ_INT(tllm_share_at(s, 60 + i), q[k].at[i]);
        tllm_share_close(s);
    }
    t_close(ctx);
    T_PROOF("compression 4", "index maps of the authors' program");
}

/* ---- gather, fold and product against the definition, on every target: rows of many widths, of every map */

static void test_forms(tiny_target target)
{
    static const tllm_share_matrix shape[5] = { { 3, 1, .5 }, { 5, 17, .25 }, { 33, 64, 2.0 }, { 7, 577, .125 },
                                                { 20, 32, 1.0 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    int map, part;
    for (map = 0; map < 3; map++)
        for (part = 0; part < 3; part++) {
            tllm_share_desc d = desc_of(shape, 5, part == 2 ? 9000 : part ? 613 : 5003, map);
            tllm_share *s = NULL;
            size_t k, i, first = 0, n;
            float *z, *dz;
            double *back;
            d.tile[0] = 16;
            d.tile[1] = 8;
            d.seed = 11 + (uint64_t)part;
            T_OK(tllm_share_open(ctx, &d, &s));
            z = tllm_share_memory(s);
            n = tllm_share_is(s)->m;
            dz = t_guarded(n);
            back = (double *)t_keep(n * sizeof *back);
            for (k = 0; k < 5; k++) {
                const size_t rows = (size_t)shape[k].rows, cols = (size_t)shape[k].cols, all = rows * cols;
                float *w = t_guarded(all), *dw = t_rand(all, -1.0f, 1.0f);
                const tiny_tensor wt = tiny_tensor_2d(w, TINY_F32, shape[k].rows, shape[k].cols),
                                  dwt = tiny_tensor_2d(dw, TINY_F32, shape[k].rows, shape[k].cols);
                tiny_idx b;
                double got = 0.0, want = 0.0;
                T_OK(tllm_share_gather(s, k, &wt));
                T_WALLS(w, all);
                for (i = 0; i < all; i++)
                    if (w[i] != tllm_share_factor(s, first + i) * z[tllm_share_at(s, first + i)]) {
                        t_fail(__FILE__, __LINE__, "map %d, matrix %d: weight %d", map, (int)k, (int)i);
                        break;
                    }
                for (i = 0; i < n; i++) {
                    dz[i] = 0.5f;
                    back[i] = 0.5;
                }
                T_OK(tllm_share_fold(s, k, &dwt, dz));
                T_WALLS(dz, n);
                for (i = 0; i < all; i++)
                    back[tllm_share_at(s, first + i)] += (double)tllm_share_factor(s, first + i) * (double)dw[i];
                for (i = 0; i < n; i++) T_CLOSE(dz[i], back[i], 1e-4);
                for (i = 0; i < all; i++) want += (double)w[i] * (double)dw[i];         /* <W, dW> = <z, dz> */
                for (i = 0; i < n; i++) got += (double)z[i] * ((double)dz[i] - 0.5);
                T_CLOSE(got, want, 1e-3);
                for (b = 1; b <= 6; b += b == 1 ? 1 : 4) {
                    float *x = t_rand((size_t)b * cols, -1.0f, 1.0f), *y = t_guarded((size_t)b * rows);
                    const tiny_tensor xt = tiny_tensor_2d(x, TINY_F32, b, (tiny_idx)cols),
                                      yt = tiny_tensor_2d(y, TINY_F32, b, (tiny_idx)rows);
                    tiny_idx q;
                    size_t r, c;
                    T_OK(tllm_share_linear(s, k, &xt, &yt));
                    T_WALLS(y, (size_t)b * rows);
                    for (q = 0; q < b; q++)
                        for (r = 0; r < rows; r++) {
                            double sum = 0.0, size = 0.0;
                            for (c = 0; c < cols; c++) {
                                const double t = (double)w[r * cols + c] * (double)x[(size_t)q * cols + c];
                                sum += t;
                                size += fabs(t);
                            }
                            T_CLOSE(y[(size_t)q * rows + r], sum, 1e-6 * size + 1e-9);
                        }
                }
                first += all;
            }
            tllm_share_close(s);
        }
    t_close(ctx);
    T_PROOF("compression 4", "the fused product equals that of the materialised weights to 1e-6");
}

/* dL/dz through hash_gather on a tape, in double, against central differences; and fold gives the same */
static double loss_of(tiny_ctx *ctx, const tllm_share *s, double *z, double *grad)
{
    static double x[4 * 20], target[4 * 12];
    int32_t at[240];
    double c[240], out;
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    tiny_param p;
    tiny_tensor w, y, loss, xt = tiny_tensor_2d(x, TINY_F64, 4, 20), tt = tiny_tensor_2d(target, TINY_F64, 4, 12),
                            att = tiny_tensor_1d(at, TINY_I32, 240), ct = tiny_tensor_1d(c, TINY_F64, 240);
    const tiny_idx dim[2] = { 12, 20 };
    int i;
    memset(&td, 0, sizeof td);
    memset(&p, 0, sizeof p);
    for (i = 0; i < 80; i++) x[i] = (i * 37 % 97 - 48) / 64.0;
    for (i = 0; i < 48; i++) target[i] = (i * 23 % 31 - 15) / 16.0;
    T_OK(tllm_share_index(s, 1, &att, &ct));
    p.value = tiny_tensor_1d(z, TINY_F64, 97);
    p.grad = tiny_tensor_1d(grad, TINY_F64, 97);
    td.bytes = 1 << 18;
    T_OK(tiny_tape_open(ctx, &td, &tape));
    T_OK(tiny_tape_param(tape, &p));
    w = tiny_tape_hash_gather(tape, &p.value, &att, &ct);
    w = tiny_tape_reshape(tape, &w, 2, dim);
    y = tiny_tape_linear(tape, &xt, &w, NULL, TINY_ACT_NONE);
    y = tiny_tape_call(tape, TINY_OP_TANH, &y, NULL, NULL, NULL, NULL);
    loss = tiny_tape_mse(tape, &y, &tt);
    tiny_tape_zero(tape);
    T_OK(tiny_tape_backward(tape, &loss, NULL));
    out = *(const double *)loss.data;
    tiny_tape_close(tape);
    return out;
}

static void test_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int map;
    for (map = 0; map < 3; map++) {
        tllm_share_desc d = desc_of(two, 2, 97, map);
        tllm_share *s = NULL;
        double z[97], grad[97], other[97];
        int i;
        d.tile[0] = 8; d.tile[1] = 4; d.seed = 3;
        T_OK(tllm_share_open(ctx, &d, &s));
        for (i = 0; i < 97; i++) z[i] = (double)tllm_share_memory(s)[i];
        (void)loss_of(ctx, s, z, grad);
        for (i = 0; i < 97; i++) {
            const double keep = z[i];
            double up, down;
            z[i] = keep + 1e-5;
            up = loss_of(ctx, s, z, other);
            z[i] = keep - 1e-5;
            down = loss_of(ctx, s, z, other);
            z[i] = keep;
            T_CLOSE(grad[i], (up - down) / 2e-5, 1e-6 * fabs(grad[i]) + 1e-9);
        }
        tllm_share_close(s);
    }
    t_close(ctx);
    T_PROOF("compression 4", "gradient check of hash_gather");
}

/* ---- training */

typedef struct curve { double loss[64]; int n; } curve;
static int on_step(void *user, const tllm_nn_fit_state *state)
{
    curve *c = (curve *)user;
    if (c->n < 64) c->loss[c->n++] = state->loss;
    return 0;
}

/* The dense network, trained without our loop: the loss by tllm_nn_run, the same order, plain steps. */
typedef struct dense { tllm_nn *nn; const tllm_nn_set *set; curve c; } dense;
static tiny_tensor dense_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const dense *q = (const dense *)user;
    const tiny_tensor x = tiny_tape_rows(tape, &q->set->x, sample, n),
                      label = tiny_tape_rows(tape, &q->set->label, sample, n);
    tiny_tensor y = tllm_nn_run(tape, q->nn, &x, 1);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}
static int dense_step(void *user, const tiny_train_state *s)
{
    dense *q = (dense *)user;
    if (q->c.n < 64) q->c.loss[q->c.n++] = s->loss;
    return 0;
}

/* Layers of 8 have sigma 1/4 and 1/2: lambda is a power of two, and the curves agree to the last bit. */
static void test_dense(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_nn_task task;
    tllm_nn *nn = mlp_open(ctx, 8, 4), *shared = mlp_open(ctx, 8, 4);
    tllm_share_desc sd;
    tllm_share_fit_desc fd;
    tllm_share *s = NULL;
    tiny_train_desc t;
    dense q;
    curve c;
    size_t n = tllm_nn_cost_of(nn).n_weight;
    int i;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
    memset(&q, 0, sizeof q);
    memset(&t, 0, sizeof t);
    memset(&sd, 0, sizeof sd);
    memset(&fd, 0, sizeof fd);
    memset(&c, 0, sizeof c);
    sd.m = n;
    sd.seed = 9;
    T_OK(tllm_nn_share(shared, &sd, &s));
    T_OK(tllm_share_set(s, (const float *)tllm_nn_weights(nn, NULL)[0].value.data));     /* z = g W / lambda */
    q.nn = nn;
    q.set = &task.train;
    t.params = tllm_nn_params(nn, &t.n_params);
    t.model = dense_loss;
    t.callback = dense_step;
    t.user = &q;
    t.n_samples = 300;
    t.batch = 30;
    t.epochs = 3;
    t.seed = 5;
    t.optim.group[0].kind = t.optim.group[1].kind = TINY_OPTIM_SGD;
    t.optim.group[0].lr = t.optim.group[1].lr = 0.1;
    t.schedule.kind = TINY_SCHEDULE_COSINE;
    T_OK(tiny_train(ctx, &t, NULL));
    fd.sgd = 1;
    fd.fit.lr = 0.1;
    fd.fit.batch = 30;
    fd.fit.epochs = 3;
    fd.fit.seed = 5;
    fd.fit.callback = on_step;
    fd.fit.user = &c;
    T_OK(tllm_nn_share_fit(shared, s, &task.train, &fd, NULL));
    T_EQ_INT(c.n, 30);
    for (i = 0; i < 30; i++) T_TRUE(c.loss[i] == q.c.loss[i]);
    T_TRUE(c.loss[29] < 0.9 * c.loss[0]);
    T_SAME((float *)tllm_nn_weights(nn, NULL)[0].value.data, (float *)tllm_nn_weights(shared, NULL)[0].value.data, n);
    tllm_share_close(s);
    tllm_nn_close(nn);
    tllm_nn_close(shared);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 4", "with m = n the training curve is that of the dense network");
}

static void test_s0(void)
{
    static const double s0[2] = { 0.01, 1.0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_nn_task task;
    curve c[2][2];
    tiny_status st[2][2];
    int scaled, k, i;
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 300, 100, &task));
    memset(c, 0, sizeof c);
    for (scaled = 0; scaled < 2; scaled++)
        for (k = 0; k < 2; k++) {
            tllm_nn *nn = mlp_open(ctx, 16, 4);
            tllm_share_desc sd;
            tllm_share_fit_desc fd;
            tllm_share *s = NULL;
            memset(&sd, 0, sizeof sd);
            memset(&fd, 0, sizeof fd);
            sd.m = 200;
            sd.s0 = s0[k];
            sd.seed = 2;
            T_OK(tllm_nn_share(nn, &sd, &s));
            fd.sgd = 1;
            fd.scale = scaled ? TLLM_SHARE_SQUARES : TLLM_SHARE_UNSCALED;
            fd.fit.lr = 0.1;
            fd.fit.batch = 30;
            fd.fit.epochs = 4;
            fd.fit.callback = on_step;
            fd.fit.user = &c[scaled][k];
            st[scaled][k] = tllm_nn_share_fit(nn, s, &task.train, &fd, NULL);
            tllm_share_close(s);
            tllm_nn_close(nn);
        }
    T_EQ_INT(st[1][0], TINY_OK);
    T_EQ_INT(st[1][1], TINY_OK);
    T_EQ_INT(c[1][0].n, 40);
    for (i = 0; i < 40; i++) T_CLOSE(c[1][0].loss[i], c[1][1].loss[i], 1e-4);
    T_TRUE(c[1][0].loss[39] < 0.9 * c[1][0].loss[0]);
    /* without: steps of W are lambda^2 = 600 to 1300 times as long, or 1/8 to 1/16 */
    T_TRUE(st[0][0] == TINY_E_NUMERIC || c[0][0].loss[39] > c[1][0].loss[39] + 0.2);
    T_TRUE(c[0][1].loss[39] > c[1][1].loss[39] + 0.05);
    tllm_nn_task_close(ctx, &task);
    t_close(ctx);
    T_PROOF("compression 4", "s0 of 0.01 and 1 give the same curve with scaling, and diverge or stall without");
}

/* The divisors by hand: three weights read one number, lambda 2, 4 and 4. */
static void test_rates(void)
{
    static const tllm_share_matrix w[2] = { { 1, 1, 0.25 }, { 2, 1, 0.5 } };
    static const double want[TLLM_SHARE_SCALES] = { 36.0, 100.0 / 3.0, 10.0, 10.0 / 3.0, 6.0, 1.0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_share_desc d = desc_of(w, 2, 1, TLLM_SHARE_FOLD);
    tllm_share *s = NULL;
    float f[8];
    int k;
    T_OK(tllm_share_open(ctx, &d, &s));
    for (k = 0; k < TLLM_SHARE_SCALES; k++) {
        T_OK(tllm_share_rates(s, k, f));
        T_CLOSE(f[0], 1.0 / want[k], 1e-7);
    }
    tllm_share_close(s);
    d.m = 8;                                /* numbers that no weight reads */
    T_OK(tllm_share_open(ctx, &d, &s));
    T_OK(tllm_share_rates(s, 0, f));
    T_CLOSE(f[2], 1.0 / 16.0, 1e-7);
    T_TRUE(f[3] == 0.0f && f[7] == 0.0f);
    T_STATUS(tllm_share_rates(s, 6, f), TINY_E_ARGUMENT, "scale 6 of 0 to 5");
    tllm_share_close(s);
    t_close(ctx);
}

/* Sums in shared numbers keep products: the mean of <S x, S y> over seeds is <x, y>; pruning keeps only its part. */
static void test_inner(void)
{
    static const tllm_share_matrix one = { 1, 64, 1.0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float *x = t_rand(64, -1.0f, 1.0f), *y = t_rand(64, -1.0f, 1.0f);
    const tiny_tensor xt = tiny_tensor_1d(x, TINY_F32, 64), yt = tiny_tensor_1d(y, TINY_F32, 64);
    double mean = 0.0, want = 0.0;
    int seed, i;
    for (i = 0; i < 64; i++) want += (double)x[i] * (double)y[i];
    for (seed = 0; seed < 2000; seed++) {
        tllm_share_desc d = desc_of(&one, 1, 16, TLLM_SHARE_FOLD);
        tllm_share *s = NULL;
        float sx[16] = { 0 }, sy[16] = { 0 };
        d.seed = (uint64_t)seed;
        d.s0 = 1.0;
        if (tllm_share_open(ctx, &d, &s)) break;
        T_OK(tllm_share_fold(s, 0, &xt, sx));
        T_OK(tllm_share_fold(s, 0, &yt, sy));
        for (i = 0; i < 16; i++) mean += (double)sx[i] * (double)sy[i] / 2000.0;
        tllm_share_close(s);
    }
    T_CLOSE(mean, want, 0.5);               /* a deviation of about 5 for one seed, 0.11 for the mean */
    t_close(ctx);
}

/* ---- files, bad input, memory */

static void test_file(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const char path[] = "build/t-share.ckpt";
    tllm_share_desc d = desc_of(two, 2, 97, TLLM_SHARE_TILE);
    tllm_share *s = NULL, *back = NULL;
    float *w = t_guarded(240), *w2 = t_guarded(240);
    const tiny_tensor wt = tiny_tensor_2d(w, TINY_F32, 12, 20), w2t = tiny_tensor_2d(w2, TINY_F32, 12, 20);
    d.tile[0] = 8; d.tile[1] = 4; d.seed = 77; d.s0 = 0.3;
    T_OK(tllm_share_open(ctx, &d, &s));
    tllm_share_memory(s)[3] = 5.0f;
    T_EQ_INT(tllm_share_bytes(s), 4 * 97 + 2 * 24 + 72);
    T_OK(tllm_share_save(s, path));
    T_OK(tllm_share_load(ctx, path, &back));
    T_OK(tllm_share_gather(s, 1, &wt));
    T_OK(tllm_share_gather(back, 1, &w2t));
    T_SAME(w, w2, 240);
    tllm_share_close(back);
    T_STATUS(tllm_share_save(s, NULL), TINY_E_ARGUMENT, "a path");
    T_STATUS(tllm_share_load(ctx, NULL, &back), TINY_E_ARGUMENT, "a path");
    {                                       /* a file without its parts */
        tiny_checkpoint_writer_desc wd;
        tiny_checkpoint_writer *f = NULL;
        memset(&wd, 0, sizeof wd);
        wd.path = path;
        T_OK(tiny_checkpoint_create(ctx, &wd, &f));
        T_OK(tiny_checkpoint_put_f64(ctx, f, "s0", 1.0));
        T_OK(tiny_checkpoint_finish(ctx, f));
        tiny_checkpoint_writer_close(ctx, f);
        T_STATUS(tllm_share_load(ctx, path, &back), TINY_E_FORMAT, "are missing");
        T_TRUE(!back);
    }
    (void)remove(path);
    tllm_share_close(s);
    t_close(ctx);
    T_PROOF("compression 4", "a file of z, seed and shapes gives the same weights");
}

static void test_bad(void)
{
    static const tllm_share_matrix bad = { 3, 0, 1.0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_share_desc d = desc_of(two, 2, 0, TLLM_SHARE_FOLD);
    tllm_share *s = NULL, *of_nn = NULL;
    tllm_nn *nn = mlp_open(ctx, 8, 1);
    tllm_nn_task task;
    tllm_share_fit_desc fd;
    tllm_gradual g;
    float x[64] = { 0 };
    tiny_tensor xt = tiny_tensor_2d(x, TINY_F32, 1, 19), yt = tiny_tensor_2d(x, TINY_F32, 1, 12);
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "a memory of 0 numbers");
    d.m = TLLM_SHARE_PRIME;
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "below the prime 2038074743");
    d = desc_of(two, 2, 97, TLLM_SHARE_TILE);
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "tiles of 32 by 32");
    d.map = 3;
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "map 3");
    d.map = 0; d.s0 = NAN;
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "a deviation of");
    d.s0 = 0.0; d.r[1] = 1ull << 40;
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "number 1 of the hash");
    d = desc_of(&bad, 1, 97, 0);
    T_STATUS(tllm_share_open(ctx, &d, &s), TINY_E_ARGUMENT, "matrix 0 is 3 by 0");
    T_STATUS(tllm_share_open(ctx, NULL, &s), TINY_E_ARGUMENT, "1 to 65536 matrices");
    T_TRUE(!s);
    T_PROOF("compression 4", "bad input: m = 0");
    T_PROOF("compression 4", "bad input: a tile larger than m");
    T_PROOF("compression 4", "bad input: P <= m");
    d = desc_of(two, 2, 97, 0);
    T_OK(tllm_share_open(ctx, &d, &s));
    T_STATUS(tllm_share_linear(s, 1, &xt, &yt), TINY_E_SHAPE, "x must be (b, 20) and y (b, 12)");
    T_STATUS(tllm_share_linear(s, 2, &xt, &yt), TINY_E_ARGUMENT, "matrix 2 of 2");
    T_STATUS(tllm_share_gather(s, 0, &xt), TINY_E_SHAPE, "60 numbers");
    T_STATUS(tllm_share_fold(s, 0, &xt, NULL), TINY_E_ARGUMENT, "a gradient of z");
    T_EQ_INT(tllm_share_at(s, 300), 0);
    T_OK(tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 30, 10, &task));
    T_STATUS(tllm_nn_share_fit(nn, s, &task.train, NULL, NULL), TINY_E_SHAPE, "its 2 matrices are not the 3");
    T_STATUS(tllm_nn_share_weights(nn, s), TINY_E_SHAPE, "its 2 matrices");
    T_STATUS(tllm_nn_share(nn, &d, &of_nn), TINY_E_ARGUMENT, "without matrices");
    d.matrix = NULL; d.n_matrix = 0;
    T_OK(tllm_nn_share(nn, &d, &of_nn));
    memset(&fd, 0, sizeof fd);
    memset(&g, 0, sizeof g);
    fd.fit.gradual = &g;
    T_STATUS(tllm_nn_share_fit(nn, of_nn, &task.train, &fd, NULL), TINY_E_ARGUMENT, "no gradual pruning");
    tllm_share_close(of_nn);
    tllm_share_close(s);
    tllm_nn_task_close(ctx, &task);
    tllm_nn_close(nn);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_nn_task task;
            tllm_nn_layer l[1];
            tllm_nn_desc d;
            tllm_share_desc sd;
            tllm_share_fit_desc fd;
            tllm_nn *nn = NULL;
            tllm_share *s = NULL, *back = NULL;
            memset(l, 0, sizeof l);
            memset(&d, 0, sizeof d);
            memset(&sd, 0, sizeof sd);
            memset(&fd, 0, sizeof fd);
            l[0].n_out = 10;
            d.in[0] = 32; d.layer = l; d.n_layer = 1;
            sd.m = 50;
            fd.fit.batch = 10; fd.fit.epochs = 1;
            if (!tllm_nn_task_open(ctx, TLLM_TASK_MIX60, 2, 20, 10, &task) && !tllm_nn_open(ctx, &d, &nn) &&
                !tllm_nn_share(nn, &sd, &s) && !tllm_nn_share_fit(nn, s, &task.train, &fd, NULL) &&
                !tllm_share_set(s, (const float *)tllm_nn_weights(nn, NULL)[0].value.data) &&
                !tllm_share_save(s, "build/t-share-memory.ckpt"))
                (void)tllm_share_load(ctx, "build/t-share-memory.ckpt", &back);
            tllm_share_close(back);
            tllm_share_close(s);
            tllm_nn_close(nn);
            tllm_nn_task_close(ctx, &task);
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("build/t-share-memory.ckpt");
}

int main(void)
{
    T_RUN(test_load);
    T_RUN(test_golden);
    T_RUN_FORMS(test_forms);
    T_RUN(test_gradient);
    T_RUN_TARGETS(test_dense);
    T_RUN(test_s0);
    T_RUN(test_rates);
    T_RUN(test_inner);
    T_RUN(test_file);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
