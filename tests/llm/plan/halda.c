/* tests/llm/plan/halda.c - layers for the devices of a ring
 *
 * Truth    a worked example; every division of the layers tried in turn; sums by hand. */
#include "t.h"

/* ---- the problem inside: against every k, window and number of layers on the accelerator ------------------------- */

enum { DEVICES = 3 };
static int may(const tllm_halda_row *r, int w, int n, int W)
{
    const double wz = W * r->z, e = 1e-9;
    if (n > w || n > W * r->accel_z + e) return 0;
    if (r->set <= 2) return w >= wz - e;
    if (r->set == 3) return w - n >= wz - e;
    return r->macos ? w <= wz + e : w - n <= wz + e;
}
static double every(const tllm_halda_row *row, int L)
{
    double best = 1e300;
    int k, a, b, i, n[DEVICES], w[DEVICES];
    for (k = 1; k == 1 || k <= L / 2; k++) {
        const int W = L / k;
        if (L % k) continue;
        for (a = 1; a < W; a++)
            for (b = 1; a + b < W; b++) {
                double cost = 0;
                w[0] = a;
                w[1] = b;
                w[2] = W - a - b;
                for (i = 0; i < DEVICES && cost < 1e300; i++) {
                    double least = 1e300;
                    for (n[i] = 0; n[i] <= w[i]; n[i]++)
                        if (may(&row[i], w[i], n[i], W)) least = fmin(least, row[i].a * w[i] + row[i].b * n[i]);
                    cost = least < 1e300 ? cost + least : 1e300;
                }
                if (cost < 1e300) best = fmin(best, k * cost);
            }
    }
    return best;
}

static void test_brute(void)
{
    static const int layers[] = { 12, 16, 18, 24 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int turn, i, n_some = 0, n_none = 0;
    for (turn = 0; n_some < 200 && turn < 2000; turn++) {
        tllm_halda_row row[DEVICES];
        tllm_halda_plan p;
        const int L = layers[t_rand_below(4)];
        double want;
        tiny_status st;
        for (i = 0; i < DEVICES; i++) {
            row[i].set = 1 + (int)t_rand_below(4);
            row[i].macos = row[i].set < 3;
            row[i].a = 1 + (double)t_rand_below(60);
            row[i].b = row[i].set == 1 || t_rand_below(2) ? 0 : -(double)t_rand_below(30) + 6;
            row[i].z = (double)t_rand_below(20) / L - 0.05;
            row[i].accel_z = row[i].b != 0 ? (double)t_rand_below(12) / L : 0;
        }
        want = every(row, L);
        st = tllm_halda_solve(ctx, row, DEVICES, L, &p);
        if (want >= 1e300) {
            n_none++;
            T_EQ_INT(st, TINY_E_UNSUPPORTED);
            continue;
        }
        n_some++;
        T_EQ_INT(st, TINY_OK);
        T_CLOSE(p.layers_s, want, 1e-9 * want);
        {                                   /* and the answer is one of those divisions */
            double cost = 0;
            tiny_idx sum = 0;
            for (i = 0; i < DEVICES; i++) {
                sum += p.window[i];
                cost += row[i].a * (double)p.window[i] + row[i].b * (double)p.accel[i];
                T_TRUE(p.window[i] >= 1 && may(&row[i], (int)p.window[i], (int)p.accel[i], (int)(L / p.k)));
            }
            T_EQ_INT(sum * p.k, L);
            T_CLOSE((double)p.k * cost, want, 1e-9 * want);
        }
    }
    T_EQ_INT(n_some, 200);
    T_TRUE(n_none > 10);
    T_PROOF("distributed 1", "Halda equals brute force on 200 random instances of 3 devices");
    t_close(ctx);
}

/* ---- the worked example ------------------------------------------------------------------------------------------ */

static void test_worked(void)
{
    tllm_halda_row row[3] = { { 8, 0, 10 / 24.0, 0, 4, 0 },
                              { 12, 0, 8 / 24.0, 0, 4, 0 },
                              { 50, 0, 4 / 24.0, 0, 3, 0 } };
    const double gb = 1e9;
    tllm_halda_model m;
    tllm_device d[3];
    tllm_halda_plan p;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i;
    T_OK(tllm_halda_solve(ctx, row, 3, 24, &p));
    T_TRUE(p.k == 1 && p.window[0] == 10 && p.window[1] == 8 && p.window[2] == 6);
    T_CLOSE(p.layers_s, 476, 1e-9);
    row[0].z = 14 / 24.0;
    row[1].z = 10 / 24.0;
    T_OK(tllm_halda_solve(ctx, row, 2, 24, &p));
    T_TRUE(p.window[0] == 14 && p.window[1] == 10);
    T_CLOSE(p.layers_s, 232, 1e-9);
    /* the same by devices: a layer has 2 GB, the third disk reads 0.1 GB/s, so it needs 20 s for a layer */
    memset(&m, 0, sizeof m);
    memset(d, 0, sizeof d);
    m.n_layer = 24;
    m.layer_bytes = 2 * gb;
    d[0].layer_s = 8;
    d[1].layer_s = 12;
    d[2].layer_s = 30;
    d[0].memory = 10 * m.layer_bytes;
    d[1].memory = 8 * m.layer_bytes;
    d[2].memory = 4 * m.layer_bytes;
    d[2].disk = 0.1 * gb;                   /* the others have none that could be used */
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_CLOSE(p.layers_s, 476, 1e-9);
    T_TRUE(p.k == 1 && p.window[0] == 10 && p.window[1] == 8 && p.window[2] == 6 && p.n_used == 3);
    T_TRUE(p.set[0] == 4 && p.set[1] == 4 && p.set[2] == 3);
    T_CLOSE(p.seconds, 476 - 80, 1e-9);     /* of its 6 layers it reads only the 2 that do not fit: 6 x 20 - 4 x 20 */
    d[0].memory = 14 * m.layer_bytes;
    d[1].memory = 10 * m.layer_bytes;
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.window[0] == 14 && p.window[1] == 10 && p.window[2] == 0 && p.n_used == 2);
    T_CLOSE(p.layers_s, 232, 1e-9);
    T_PROOF("distributed 1", "Halda worked: (10,8,6) at 476; with more memory the slow one is dropped, (14,10) at 232");
    /* device 1 gets an accelerator of 4 layers that is 10 s faster: it has 4 layers there, and 10 in memory */
    d[1].accel_s = -10;
    d[1].accel_memory = 4 * m.layer_bytes;
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.window[0] == 14 && p.window[1] == 10 && p.accel[1] == 4 && p.accel[0] == 0);
    T_CLOSE(p.layers_s, 232 - 40, 1e-9);
    /* the head needs room for the output and one row of the input */
    memset(d, 0, sizeof d);
    m.input_bytes = m.output_bytes = 2 * gb;
    m.n_vocab = 1000;
    for (i = 0; i < 2; i++) {
        d[i].layer_s = i ? 12 : 8;
        d[i].memory = 13.5 * m.layer_bytes;
    }
    T_OK(tllm_halda(ctx, &m, d, 2, &p));
    T_TRUE(p.window[0] == 12 && p.window[1] == 12);         /* 12.5 layers fit, less a row */
    t_close(ctx);
}

/* The worked example with a third device that runs macOS, and keys and values of half a GB a layer: without an
 * accelerator it reads 2.5 GB of each layer again, with one the weights alone; only in the first case the layers that
 * stay in its memory count for less. */
static void test_macos(void)
{
    const double gb = 1e9;
    tllm_halda_model m;
    tllm_device d[3];
    tllm_halda_plan p;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&m, 0, sizeof m);
    memset(d, 0, sizeof d);
    m.n_layer = 24;
    m.layer_bytes = 2 * gb;
    m.held_bytes = 0.5 * gb;
    d[0].layer_s = 8;
    d[1].layer_s = 12;
    d[2].layer_s = 30;
    d[0].memory = 10 * 2.5 * gb;
    d[1].memory = 8 * 2.5 * gb;
    d[2].memory = 4 * 2.5 * gb;
    d[2].disk = 0.1 * gb;
    d[2].system = TLLM_SYSTEM_MACOS;
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.window[0] == 10 && p.window[1] == 8 && p.window[2] == 6 && p.set[2] == 1 && p.accel[2] == 0);
    T_CLOSE(p.layers_s, 80 + 96 + 6 * (30 + 25), 1e-9);
    T_CLOSE(p.seconds, 506 - 100, 1e-9);    /* 10 GB that stay, at 0.1 GB/s */
    d[2].accel_s = -5;
    d[2].accel_memory = 2 * 2.5 * gb;
    d[2].unified = 1;
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.window[0] == 10 && p.window[1] == 8 && p.window[2] == 6 && p.set[2] == 2 && p.accel[2] == 2);
    T_CLOSE(p.layers_s, 80 + 96 + 6 * (30 + 20) - 2 * 5, 1e-9);
    T_CLOSE(p.seconds, 466, 1e-9);
    d[2].accel_scratch = 2.5 * gb;          /* takes the room of one layer of the accelerator */
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.set[2] == 2 && p.accel[2] == 1);
    d[2].accel_scratch = 0;
    d[2].memory = 6 * 2.5 * gb;             /* everything fits: no reading */
    T_OK(tllm_halda(ctx, &m, d, 3, &p));
    T_TRUE(p.window[2] == 6 && p.set[2] == 4 && p.accel[2] == 2);
    T_CLOSE(p.seconds, 80 + 96 + 6 * 30 - 2 * 5, 1e-9);
    d[2].memory = 4 * 2.5 * gb;             /* a slow disk is none, and 22 layers fit: no division */
    d[2].disk = 0.09 * gb;
    T_STATUS(tllm_halda(ctx, &m, d, 3, &p), TINY_E_UNSUPPORTED, "do not fit");
    t_close(ctx);
}

/* the search for the sets, against every choice of sets */
static void test_sets(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int turn, i, n = 0, n_best = 0;
    for (turn = 0; turn < 100; turn++) {
        tllm_halda_model m;
        tllm_device d[DEVICES];
        tllm_halda_plan p, q;
        double best = 1e300;
        unsigned sets;
        memset(&m, 0, sizeof m);
        memset(d, 0, sizeof d);
        m.n_layer = 24;
        m.layer_bytes = 1e9;
        for (i = 0; i < DEVICES; i++) {
            d[i].layer_s = 0.01 * (1 + t_rand_below(20));
            d[i].memory = 1e9 * t_rand_below(14);
            d[i].disk = 1e8 * (1 + t_rand_below(30));
        }
        for (sets = 0; sets < 8; sets++) {  /* bit i: device i reads from disk */
            tllm_halda_row row[DEVICES];
            double kappa = 0;
            for (i = 0; i < DEVICES; i++) {
                const int reads = (sets >> i & 1) != 0;
                row[i].set = reads ? 3 : 4;
                row[i].macos = 0;
                row[i].a = d[i].layer_s + (reads ? 1e9 / d[i].disk : 0);
                row[i].b = row[i].accel_z = 0;
                row[i].z = d[i].memory / 24e9;
                kappa -= reads ? d[i].memory / d[i].disk : 0;
            }
            if (!tllm_halda_solve(ctx, row, DEVICES, 24, &q)) best = fmin(best, q.layers_s + kappa);
        }
        if (tllm_halda(ctx, &m, d, DEVICES, &p)) { T_TRUE(best >= 1e300); continue; }
        if (p.n_used < DEVICES) continue;   /* a device was dropped: another problem */
        n++;
        T_TRUE(p.seconds >= best - 1e-9 * fabs(best));
        n_best += p.seconds <= best + 1e-9 * fabs(best);
    }
    printf("  sets: the best choice in %d of %d\n", n_best, n);
    T_TRUE(n > 20 && n_best >= n - n / 10);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_halda_row row;
    tllm_halda_model m;
    tllm_device d[2];
    tllm_halda_plan p;
    memset(&row, 0, sizeof row);
    memset(&m, 0, sizeof m);
    memset(d, 0, sizeof d);
    T_STATUS(tllm_halda_solve(ctx, NULL, 1, 4, &p), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_halda_solve(ctx, &row, 0, 4, &p), TINY_E_ARGUMENT, "0 devices");
    T_STATUS(tllm_halda_solve(ctx, &row, 1, 4, &p), TINY_E_ARGUMENT, "set 0");
    row.set = 4;
    T_STATUS(tllm_halda_solve(ctx, &row, 1, 4, &p), TINY_E_UNSUPPORTED, "within these limits");
    T_STATUS(tllm_halda(ctx, &m, d, 2, NULL), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_ARGUMENT, "0 layers");
    m.n_layer = 8;
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_ARGUMENT, "a layer of 0 bytes");
    m.layer_bytes = 1e9;
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_UNSUPPORTED, "do not fit the memory");
    d[1].layer_s = NAN;
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_ARGUMENT, "device 1");
    d[1].layer_s = 0;
    d[1].memory = -1;
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_ARGUMENT, "device 1");
    d[1].memory = 0;
    d[0].system = 9;
    T_STATUS(tllm_halda(ctx, &m, d, 2, &p), TINY_E_ARGUMENT, "system 9");
    t_close(ctx);
}

/* ---- a ring in time ---------------------------------------------------------------------------------------------- */

static void test_ring(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_ring_device d[2] = { { 4, 0.010, 0, 0 }, { 2, 0.020, 0, 0 } };
    double s[3];
    T_OK(tllm_ring_simulate(ctx, d, 2, 2, 0.001, 0.005, s, 3));
    T_CLOSE(s[0], 2 * (0.040 + 0.040 + 0.002) + 0.005, 1e-12);      /* nothing is read: the sum of Halda, and hops */
    T_CLOSE(s[2], 3 * s[0], 1e-12);
    /* device 1 reads 30 MB at 1 GB/s after each of its turns: 30 ms, while the other one computes 40 ms and two hops */
    d[1].missing = 30e6;
    d[1].disk = 1e9;
    T_OK(tllm_ring_simulate(ctx, d, 2, 2, 0.001, 0.005, s, 3));
    T_CLOSE(s[0], 2 * (0.040 + 0.040 + 0.002) + 0.005, 1e-12);
    /* 100 ms instead: each of its turns but the first begins when it has read, 100 ms after the end of the last one */
    d[1].missing = 100e6;
    T_OK(tllm_ring_simulate(ctx, d, 2, 2, 0.001, 0.005, s, 3));
    T_CLOSE(s[0], 0.041 + 0.040 + 0.100 + 0.040 + 0.001 + 0.005, 1e-12);
    T_CLOSE(s[1], s[0] + 2 * 0.140, 1e-12);
    T_STATUS(tllm_ring_simulate(ctx, d, 0, 2, 0, 0, s, 3), TINY_E_ARGUMENT, "not a ring");
    T_STATUS(tllm_ring_simulate(ctx, NULL, 2, 2, 0, 0, s, 3), TINY_E_ARGUMENT, "NULL");
    d[1].disk = 0;
    T_STATUS(tllm_ring_simulate(ctx, d, 2, 2, 0, 0, s, 3), TINY_E_ARGUMENT, "device 1");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_brute);
    T_RUN(test_worked);
    T_RUN(test_macos);
    T_RUN(test_sets);
    T_RUN(test_bad);
    T_RUN(test_ring);
    return t_done();
}
