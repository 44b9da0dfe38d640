/* tests/llm/dist/zero.c - codes of blocks, their collectives, and trainings whose states are divided
 *
 * Truth    codes worked by hand; plain loops (the same bits); the bound of an error; a ring that codes its sums again,
 *          built here to compare with; bytes that transports count, against the formulas and the worked figures for
 *          20e9 weights on 384 ranks; a training in plain loops, in double, that knows no ranks; steps of AdamW and
 *          Adam with decay by PyTorch (tests/golden/make/ranks.py). No test reads the wall clock. */
#include "t.h"
#include "ranks.h"

enum { MOST = 8 };
static const char secret[] = "correct horse battery staple";

/* ---- codes ------------------------------------------------------------------------------------------------------- */

static void test_codes_by_hand(void)
{
    static const float x8[6] = { 127.0f, -63.5f, 0.5f, 1.5f, -0.0f, 0.0f }, x4[5] = { 7.0f, -3.5f, 2.5f, 0.5f, -7.0f };
    static const signed char want8[6] = { 127, -64, 0, 2, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_codes c = { 8, 4 };
    unsigned char to[64];
    float scale, y[6];
    int i;
    T_EQ_INT(tllm_codes_bytes(&c, 6), 8 + 6);
    T_OK(tllm_codes_pack(ctx, &c, x8, 6, NULL, to));
    memcpy(&scale, to, 4);
    T_CLOSE(scale, 1.0, 0.0);
    memcpy(&scale, to + 4, 4);
    T_CLOSE(scale, 0.0, 0.0);               /* a block of zeros */
    for (i = 0; i < 6; i++) T_EQ_INT((signed char)to[8 + i], want8[i]);
    T_OK(tllm_codes_unpack(ctx, &c, to, 6, y));
    T_CLOSE(y[1], -64.0, 0.0);
    c.bits = 4;
    T_EQ_INT(tllm_codes_bytes(&c, 5), 8 + 3);
    T_OK(tllm_codes_pack(ctx, &c, x4, 5, NULL, to));
    T_EQ_INT(to[8], 0xc7);                  /* 7 in the lower half, -4 in the upper one */
    T_EQ_INT(to[9], 0x02);                  /* 2 (2.5 to even), 0 */
    T_EQ_INT(to[10], 0x09);                 /* -7, and nothing */
    T_OK(tllm_codes_unpack(ctx, &c, to, 5, y));
    T_CLOSE(y[0], 7.0, 0.0);
    T_CLOSE(y[1], -4.0, 0.0);
    T_CLOSE(y[4], -7.0, 1e-6);
    c.bits = 16;
    T_EQ_INT(tllm_codes_bytes(&c, 5), 10);
    c.bits = 32;
    T_EQ_INT(tllm_codes_bytes(&c, 5), 20);
    t_close(ctx);
    T_PROOF("distributed 10", "codes: blocks, scale, ties to even, zero blocks, the lower half first, worked by hand");
}

static void test_codes(tiny_target target)
{
    static const size_t len[] = { 1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 257, 600 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t k, i;
    int bits, form;
    for (k = 0; k < T_COUNT(len); k++)
        for (bits = 4; bits <= 8; bits += 4)
            for (form = 0; form < 4; form++) {
                const size_t n = len[k];
                const tllm_codes c = { bits, form == 1 ? 14 : 64 };
                const size_t bytes = tllm_codes_bytes(&c, n);
                float *x = t_rand(n, -3.0f, 3.0f), *y = t_guarded(n), *want = t_guarded(n);
                unsigned char *a = (unsigned char *)t_guarded_bytes(bytes),
                              *b = (unsigned char *)t_guarded_bytes(bytes);
                tiny_rng r1 = tiny_rng_make(3, 4), r2 = r1;
                if (form == 2) for (i = 0; i < n; i++) x[i] = (float)((int)(i % 15) - 7) * 0.5f;     /* ties */
                if (form == 3) for (i = 0; i < n; i++) x[i] *= 3e-44f;                               /* subnormal */
                if (n > 3) x[n / 2] = 0.0f;
                T_OK(tllm_codes_pack(ctx, &c, x, n, NULL, a));
                if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
                T_OK(tllm_codes_pack_ref(ctx, &c, x, n, NULL, b));
                T_SAME(a, b, bytes);
                T_OK(tllm_codes_unpack(ctx, &c, a, n, y));
                T_OK(tllm_codes_unpack_ref(ctx, &c, a, n, want));
                T_SAME(y, want, n);
                for (i = 0; i < n; i++) {
                    float scale;
                    memcpy(&scale, a + 4 * (i / (size_t)c.block), 4);
                    if (form != 3 && !T_TRUE(fabs((double)y[i] - (double)x[i]) <= 0.5000001 * (double)scale)) break;
                }
                T_OK(tllm_codes_pack(ctx, &c, x, n, &r1, a));
                T_OK(tllm_codes_pack_ref(ctx, &c, x, n, &r2, b));
                T_SAME(a, b, bytes);
                T_WALLS(a, bytes);
                T_WALLS(y, n);
                x[n - 1] = k % 2 ? NAN : -INFINITY;
                T_STATUS(tllm_codes_pack(ctx, &c, x, n, NULL, a), TINY_E_NUMERIC, "is not finite");
                T_STATUS(tllm_codes_pack_ref(ctx, &c, x, n, NULL, a), TINY_E_NUMERIC, "is not finite");
                t_free_blocks();
            }
    t_close(ctx);
    T_PROOF("distributed 10", "codes of every target are those of plain loops; errors are at most half a scale");
}

/* rounded by chance, the mean of many is the number */
static void test_chance(void)
{
    enum { N = 64, ROUNDS = 4000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_codes c = { 4, N };
    float *x = t_rand(N, -1.0f, 1.0f), y[N];
    unsigned char to[64];
    double sum[N] = { 0 };
    tiny_rng rng = tiny_rng_make(5, 6);
    int r, i;
    x[0] = 1.0f;
    for (r = 0; r < ROUNDS; r++) {
        T_OK(tllm_codes_pack(ctx, &c, x, N, &rng, to));
        T_OK(tllm_codes_unpack(ctx, &c, to, N, y));
        for (i = 0; i < N; i++) sum[i] += (double)y[i] / ROUNDS;
    }
    for (i = 0; i < N; i++) T_CLOSE(sum[i], x[i], 4.5 * 0.5 / 7 / sqrt((double)ROUNDS));
    t_close(ctx);
    T_PROOF("distributed 10", "rounding by chance has the right mean");
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct job {
    int world, tcp;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    tiny_fault_at fault;
    int has_fault;
    void (*run)(struct job *j, int rank, tiny_ctx *ctx, tiny_net *net);
    tllm_codes codes;
    size_t n;
    float *x[MOST], *y[MOST];
    int kind, map[MOST];
    tllm_zero_desc d;
    const float *first;
    int steps, batches;
    double loss[MOST];
    tllm_zero_count count[MOST];
    uint64_t clock[MOST], level[MOST][3];
    tiny_status st[MOST], later[MOST];
    char says[MOST][240];
} job;

static void rank_main(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    tiny_net *net = j->tcp ? NULL : tiny_local_net(j->local, rank);
    tiny_status st = TINY_OK;
    if (j->tcp) {
        tiny_tcp_desc t;
        memset(&t, 0, sizeof t);
        t.rank = rank;
        t.world = j->world;
        t.peers = j->peers;
        t.listener = j->at[rank];
        t.secret = secret;
        t.n_secret = sizeof secret - 1;
        st = tiny_tcp_open(ctx, &t, &tcp);
        net = tiny_tcp_net(tcp);
    }
    if (!st && j->has_fault && rank == 1) {
        tiny_fault_desc f;
        memset(&f, 0, sizeof f);
        f.inner = net;
        f.at = &j->fault;
        f.n_at = 1;
        st = tiny_fault_open(ctx, &f, &fault);
        net = tiny_fault_net(fault);
    }
    j->st[rank] = st;
    if (!st) j->run(j, rank, ctx, net);
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    if (net) net->close(net);
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}
static int run_job(job *j, int virtual_clock)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    for (i = 0; j->tcp && i < j->world; i++) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
        j->at[i] = at[0];
        tiny_address_text(&a, j->address[i]);
        j->peers[i] = j->address[i];
    }
    if (!j->tcp) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = j->world;
        d.queue_bytes = 32768;
        d.virtual_clock = virtual_clock;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    ok = ok && t_ranks(j->world, rank_main, j);
    tiny_local_close(ctx, j->local);
    j->local = NULL;
    for (i = 0; j->tcp && i < j->world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}
static void all_ok(const job *j)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d of %d: %s\n", r, j->world, j->says[r]);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static void run_codes(job *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    tiny_coll c;
    const int from = j->map[rank];
    memset(&c, 0, sizeof c);
    c.net = net;
    c.n_work = tllm_codes_work(j->world, &j->codes, j->n);
    c.work = malloc(c.n_work + 1);
    j->st[rank] = j->kind ? tllm_codes_reduce_scatter(ctx, &c, &j->codes, j->x[from], j->n, NULL, j->y[rank])
                          : tllm_codes_allgather(ctx, &c, &j->codes, j->x[from], j->n, j->y[rank]);
    free(c.work);
}
static job codes_job(int world, int bits, int block, size_t n, int kind)
{
    job j;
    int r;
    memset(&j, 0, sizeof j);
    j.world = world;
    j.run = run_codes;
    j.codes.bits = bits;
    j.codes.block = block;
    j.n = n;
    j.kind = kind;
    for (r = 0; r < world; r++) {
        j.map[r] = r;
        j.x[r] = t_rand(kind ? n * (size_t)world : n, -1.0f, 1.0f);
        j.y[r] = t_guarded(kind ? n : n * (size_t)world);
    }
    return j;
}
static void test_allgather(void)
{
    static const int worlds[] = { 1, 2, 3, 5, 8 }, bits[] = { 4, 8, 16, 32 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t w, b, n = 96;
    int r;
    for (w = 0; w < T_COUNT(worlds); w++)
        for (b = 0; b < 4; b++) {
            job j = codes_job(worlds[w], bits[b], 32, n, 0);
            const size_t all = n * (size_t)j.world;
            float *whole = t_guarded(all), *want = t_guarded(all);
            void *to = t_keep(tllm_codes_bytes(&j.codes, all) + 1);
            if (!run_job(&j, 0)) return;
            all_ok(&j);
            for (r = 0; r < j.world; r++) memcpy(whole + (size_t)r * n, j.x[r], n * sizeof(float));
            T_OK(tllm_codes_pack(ctx, &j.codes, whole, all, NULL, to));
            T_OK(tllm_codes_unpack(ctx, &j.codes, to, all, want));
            for (r = 0; r < j.world; r++) {
                T_SAME(j.y[r], want, all);
                T_WALLS(j.y[r], all);
            }
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("distributed 10", "an all-gather of codes is coding and decoding of the whole vector, bit by bit");
}

/* the largest error of each number that its scales allow, over all ranks */
static double scale_of(const float *x, size_t block, int most)
{
    double top = 0;
    size_t i;
    for (i = 0; i < block; i++) if (fabs((double)x[i]) > top) top = fabs((double)x[i]);
    return top / most;
}
static void test_reduce_scatter(void)
{
    static const int worlds[] = { 1, 2, 3, 5, 8 };
    size_t w, i, n = 96;
    int bits, r, q, turn;
    for (w = 0; w < T_COUNT(worlds); w++)
        for (bits = 4; bits <= 8; bits += 4) {
            job j = codes_job(worlds[w], bits, 32, n, 1);
            float *first[MOST];
            for (turn = 0; turn < 2; turn++) {
                for (r = 0; r < j.world; r++) j.map[r] = turn ? (r * 3 + 1) % j.world : r;
                if (j.world == 3) for (r = 0; r < 3; r++) j.map[r] = turn ? 2 - r : r;
                if (!run_job(&j, 0)) return;
                all_ok(&j);
                for (r = 0; r < j.world; r++)
                    for (i = 0; i < n; i++) {
                        double sum = 0, bound = 0;
                        for (q = 0; q < j.world; q++) {
                            const float *x = j.x[q] + (size_t)r * n;
                            sum += (double)x[i];
                            bound += 0.5 * scale_of(x + i / 32 * 32, 32, bits == 8 ? 127 : 7);
                        }
                        if (!T_CLOSE(j.y[r][i], sum, bound * 1.000001 + 1e-6)) break;
                    }
                for (r = 0; r < j.world && !turn; r++) {
                    first[r] = (float *)t_keep(n * sizeof(float));
                    memcpy(first[r], j.y[r], n * sizeof(float));
                }
                for (r = 0; r < j.world && turn; r++)
                    for (i = 0; i < n; i++) if (!T_CLOSE(j.y[r][i], first[r][i], 2e-6)) break;
            }
            t_free_blocks();
        }
    T_PROOF("distributed 10",
            "reduce-scatter by one all-to-all: error at most p scale / 2, whatever the order of ranks");
}

/* What the all-to-all avoids: a ring that codes each partial sum again. Sums of p ranks, both on one machine. */
static void test_ring(void)
{
    enum { N = 4096, P = 16 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_codes c = { 4, 256 };
    unsigned char *to = (unsigned char *)t_keep(N);
    float *sum = t_guarded(N), *one = t_guarded(N), *ring = t_guarded(N), *x[P];
    int p, shift, r, i;
    for (r = 0; r < P; r++) {
        tiny_rng rng = tiny_rng_make(31, (uint64_t)r);
        x[r] = t_guarded(N);
        tiny_rng_fill_normal(&rng, x[r], N);
    }
    for (shift = 0; shift < 4; shift += 3)
        for (p = 4; p <= P; p *= 2) {
            double error = 0, again = 0, ratio;
            for (i = 0; i < N; i++) sum[i] = ring[i] = 0.0f;
            for (r = 0; r < p; r++) {
                for (i = 0; i < N; i++) one[i] = x[r][i] + (float)shift;
                for (i = 0; i < N; i++) ring[i] += one[i];
                T_OK(tllm_codes_pack(ctx, &c, one, N, NULL, to));
                T_OK(tllm_codes_unpack(ctx, &c, to, N, one));
                for (i = 0; i < N; i++) sum[i] += one[i];
                if (r == p - 1) continue;   /* the last rank keeps its sum */
                T_OK(tllm_codes_pack(ctx, &c, ring, N, NULL, to));
                T_OK(tllm_codes_unpack(ctx, &c, to, N, ring));
            }
            for (i = 0; i < N; i++) {
                double exact = 0;
                for (r = 0; r < p; r++) exact += (double)(x[r][i] + (float)shift);
                error += ((double)sum[i] - exact) * ((double)sum[i] - exact);
                again += ((double)ring[i] - exact) * ((double)ring[i] - exact);
            }
            ratio = sqrt(again / error);
            /* sums that grow like sqrt(k): sqrt((p - 1) / 2). Sums that grow like k: up to p / sqrt(3) */
            if (!shift) T_CLOSE(ratio, sqrt((p - 1) / 2.0), 0.25 * ratio);
            else T_TRUE(ratio > 1.2 * sqrt((p - 1) / 2.0) && ratio < p / sqrt(3.0));
        }
    t_close(ctx);
    T_PROOF("distributed 10", "a ring that codes its sums again is sqrt(p / 2) to p / sqrt(3) times worse");
}

/* ---- a training -------------------------------------------------------------------------------------------------- */

/* Two layers, 12 inputs, 20 tanh units, 3 outputs; W1 (20, 13), W2 (3, 21), each with its bias last. */
enum { IN = 12, HID = 20, OUT = 3, N1 = HID * (IN + 1), N2 = OUT * (HID + 1), SAMPLES = 64 };
static float data_x[SAMPLES * IN], data_y[SAMPLES * OUT];
static void make_data(void)
{
    tiny_rng rng = tiny_rng_make(11, 12);
    int i, o;
    tiny_rng_fill_normal(&rng, data_x, SAMPLES * IN);
    for (i = 0; i < SAMPLES; i++)
        for (o = 0; o < OUT; o++)
            data_y[i * OUT + o] =
                (float)sin((double)(data_x[i * IN + o] + 0.5f * data_x[i * IN + o + 3] * data_x[i * IN + 7]));
}
/* The loss of samples first to last, half of the mean square; adds gradients unless g1 is NULL. Sums in double. */
static double net(const float *w1, const float *w2, int first, int last, double *g1, double *g2)
{
    double loss = 0, h[HID], d[OUT], back;
    int s, i, o, k;
    for (s = first; s < last; s++) {
        const float *x = data_x + s * IN, *y = data_y + s * OUT;
        for (k = 0; k < HID; k++) {
            double z = (double)w1[k * (IN + 1) + IN];
            for (i = 0; i < IN; i++) z += (double)w1[k * (IN + 1) + i] * (double)x[i];
            h[k] = tanh(z);
        }
        for (o = 0; o < OUT; o++) {
            double z = (double)w2[o * (HID + 1) + HID];
            for (k = 0; k < HID; k++) z += (double)w2[o * (HID + 1) + k] * h[k];
            d[o] = z - (double)y[o];
            loss += 0.5 * d[o] * d[o];
        }
        if (!g1) continue;
        for (o = 0; o < OUT; o++) {
            for (k = 0; k < HID; k++) g2[o * (HID + 1) + k] += d[o] * h[k];
            g2[o * (HID + 1) + HID] += d[o];
        }
        for (k = 0; k < HID; k++) {
            for (back = 0, o = 0; o < OUT; o++) back += d[o] * (double)w2[o * (HID + 1) + k];
            back *= 1 - h[k] * h[k];
            for (i = 0; i < IN; i++) g1[k * (IN + 1) + i] += back * (double)x[i];
            g1[k * (IN + 1) + IN] += back;
        }
    }
    return loss;
}
/* Adam in double on one machine: the weights after some steps; the loss over all samples */
static double alone(const float *first, int steps, double lr, float *w)
{
    static double m[N1 + N2], v[N1 + N2], p[N1 + N2], g[N1 + N2];
    int t, i;
    for (i = 0; i < N1 + N2; i++) {
        m[i] = v[i] = 0;
        p[i] = (double)first[i];
    }
    for (t = 1; t <= steps; t++) {
        for (i = 0; i < N1 + N2; i++) {
            g[i] = 0;
            w[i] = (float)p[i];
        }
        (void)net(w, w + N1, 0, SAMPLES, g, g + N1);
        for (i = 0; i < N1 + N2; i++) {
            g[i] /= SAMPLES;
            m[i] += 0.1 * (g[i] - m[i]);
            v[i] += 0.001 * (g[i] * g[i] - v[i]);
            p[i] -= lr * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
        }
    }
    for (i = 0; i < N1 + N2; i++) w[i] = (float)p[i];
    return net(w, w + N1, 0, SAMPLES, NULL, NULL) / SAMPLES;
}

static const tiny_idx layers[2] = { N1, N2 };
static void run_train(job *j, int rank, tiny_ctx *ctx, tiny_net *of)
{
    tllm_zero_desc d = j->d;
    tllm_zero *z = NULL;
    float w[N1 + N2], again[N1], g[N1 + N2];
    double sum[N1 + N2];
    int t, b, i, each = SAMPLES / (j->world * j->batches), wrong = 0;
    tiny_status st;
    d.net = of;
    d.layer = layers;
    d.n_layer = 2;
    d.timeout_ns = UINT64_C(60000000000);
    st = tllm_zero_open(ctx, &d, j->first, &z);
    for (t = 0; t < j->steps && !st; t++) {
        for (b = 0; b < j->batches && !st; b++) {
            const int first = (rank * j->batches + b) * each;
            memset(sum, 0, sizeof sum);
            st = tllm_zero_weights(z, 0, 0, w);
            if (!st) st = tllm_zero_weights(z, 1, 0, w + N1);
            if (st) break;
            (void)net(w, w + N1, first, first + each, sum, sum + N1);
            for (i = 0; i < N1 + N2; i++) g[i] = (float)sum[i];
            st = tllm_zero_weights(z, 0, 1, again);
            wrong += memcmp(again, w, sizeof again) != 0;       /* the same in both directions */
            if (!st) st = tllm_zero_gradient(z, 1, g + N1);
            if (!st) st = tllm_zero_gradient(z, 0, g);
        }
        if (!st) st = tllm_zero_step(z, 1.0 / SAMPLES, 1.0);
    }
    j->count[rank] = tllm_zero_count_of(z);
    if (!st) st = tllm_zero_weights(z, 0, 0, w);
    if (!st) st = tllm_zero_weights(z, 1, 0, w + N1);
    if (!st && wrong) st = TINY_E_FORMAT;
    if (!st) {
        memcpy(j->y[rank], w, sizeof w);
        j->loss[rank] = net(w, w + N1, 0, SAMPLES, NULL, NULL) / SAMPLES;
    }
    j->st[rank] = st;
    if (st && z) j->later[rank] = tllm_zero_weights(z, 0, 0, w);
    tllm_zero_close(z);
}
static job train_job(int world, int s_w, int s_g, int s_os, int steps)
{
    job j;
    tiny_rng rng = tiny_rng_make(21, 22);
    float *first = (float *)t_keep((N1 + N2) * sizeof(float));
    int r;
    make_data();
    memset(&j, 0, sizeof j);
    j.world = world;
    j.run = run_train;
    j.d.s_w = s_w;
    j.d.s_g = s_g;
    j.d.s_os = s_os;
    j.d.block = 4;
    j.d.optim.lr = 0.01;
    j.steps = steps;
    j.batches = 2;
    tiny_rng_fill_normal(&rng, first, N1 + N2);
    for (r = 0; r < N1 + N2; r++) first[r] *= 0.25f;
    j.first = first;
    for (r = 0; r < world; r++) j.y[r] = (float *)t_keep((N1 + N2) * sizeof(float));
    return j;
}
static void exact(job *j)
{
    j->d.full = 1;
    j->d.weight_bits = j->d.grad_bits = j->d.net_bits = 32;
}

static void test_train_exact(void)
{
    static const struct { int world, s_w, s_g, s_os, s_2, hop; } of[] = {
        { 8, 2, 4, 8, 0, 0 }, { 8, 8, 8, 8, 0, 0 }, { 8, 1, 1, 8, 0, 0 }, { 8, 1, 8, 8, 0, 0 }, { 8, 1, 1, 1, 0, 0 },
        { 8, 2, 4, 4, 0, 0 }, { 8, 1, 2, 4, 0, 0 }, { 8, 2, 8, 8, 0, 2 }, { 8, 8, 8, 8, 4, 4 }, { 8, 2, 4, 8, 1, 2 },
        { 4, 4, 4, 4, 2, 2 }, { 1, 1, 1, 1, 1, 0 }, { 2, 0, 0, 0, 0, 0 } };
    static float want[N1 + N2];
    size_t k;
    int r, i;
    for (k = 0; k < T_COUNT(of); k++) {
        job j = train_job(of[k].world, of[k].s_w, of[k].s_g, of[k].s_os, 6);
        exact(&j);
        j.d.s_2 = of[k].s_2;
        j.d.hop = of[k].hop;
        (void)alone(j.first, j.steps, 0.01, want);
        if (!run_job(&j, 0)) return;
        all_ok(&j);
        for (r = 0; r < j.world; r++)
            for (i = 0; i < N1 + N2; i++)
                if (!T_CLOSE(j.y[r][i], want[i], 1e-5)) { printf("  case %d\n", (int)k); break; }
        t_free_blocks();
    }
    T_PROOF("distributed 10", "without codes, (2,4,8) and ZeRO-1, 2, 3 on 8 ranks train as one machine does, to 1e-5");
    T_PROOF("distributed 10", "layers whose numbers the ranks do not divide are padded");
}

/* AdamW, whose decay is apart, and Adam, whose decay is part of the gradient: six steps of PyTorch */
static void test_train_torch(void)
{
    static const struct { int s_w, s_g, s_os, hop, kind; } of[] = {
        { 2, 4, 8, 0, TINY_OPTIM_ADAMW }, { 8, 8, 8, 2, TINY_OPTIM_ADAM }, { 1, 2, 4, 0, TINY_OPTIM_ADAMW } };
    size_t k;
    int r, i;
    for (k = 0; k < T_COUNT(of); k++) {
        job j = train_job(8, of[k].s_w, of[k].s_g, of[k].s_os, 6);
        const double *want = of[k].kind == TINY_OPTIM_ADAM ? adam_weights : adamw_weights;
        exact(&j);
        j.d.hop = of[k].hop;
        j.d.optim.kind = of[k].kind;
        j.d.optim.decay = 0.125;
        for (i = 0; i < SAMPLES * IN; i++) data_x[i] = (float)((i * 37 + 11) % 97 - 48) / 32.0f;
        for (i = 0; i < SAMPLES * OUT; i++) data_y[i] = (float)((i * 23 + 5) % 31 - 15) / 16.0f;
        for (i = 0; i < N1 + N2; i++) ((float *)(uintptr_t)j.first)[i] = (float)((i * 29 + 7) % 101 - 50) / 128.0f;
        if (!run_job(&j, 0)) return;
        all_ok(&j);
        for (r = 0; r < j.world; r++)
            for (i = 0; i < N1 + N2; i++)
                if (!T_CLOSE(j.y[r][i], want[i], 2e-6)) { printf("  case %d\n", (int)k); break; }
        t_free_blocks();
    }
    T_PROOF("distributed 10", "six steps of AdamW and of Adam with decay on 8 ranks: the weights of PyTorch");
}

static void test_train_codes(void)
{
    static float want[N1 + N2];
    int form, r;
    double loss;
    for (form = 0; form < 3; form++) {
        job j = train_job(8, 2, 4, 8, 60);
        j.d.by_chance = form == 1;
        j.d.seed = 1;
        j.tcp = form == 2;
        if (form == 2) j.steps = 3;
        loss = alone(j.first, j.steps, 0.01, want);
        if (!run_job(&j, 0)) return;
        all_ok(&j);
        for (r = 0; r < 8; r++) {
            if (!T_TRUE(j.loss[r] <= (form == 1 ? 1.05 : 1.01) * loss))
                printf("  form %d: %g alone, %g by codes\n", form, loss, j.loss[r]);
            T_SAME(j.y[r], j.y[0], N1 + N2);
        }
        t_free_blocks();
    }
    T_PROOF("distributed 10",
            "two layers by (2,4,8) with codes of 8 and 4 bits reach the loss of one machine within 1 %");
    T_PROOF("distributed 10", "over TCP");
}

/* ---- bytes and time ---------------------------------------------------------------------------------------------- */

static const tiny_idx even[1] = { 4096 };
static void run_bytes(job *j, int rank, tiny_ctx *ctx, tiny_net *of)
{
    static const float zeros[4096] = { 0 };
    float w[4096];
    tllm_levels_desc l;
    tllm_levels *levels = NULL;
    tllm_zero_desc d = j->d;
    tllm_zero *z = NULL;
    int b;
    tiny_status st;
    memset(&l, 0, sizeof l);
    l.net = of;
    l.n_level = 3;
    l.level[0].ranks = 2;
    l.level[0].bits_per_second = 8e9;
    l.level[1].ranks = 4;
    l.level[1].bits_per_second = 4e9;
    l.level[2].ranks = 8;
    l.level[2].bits_per_second = 1e9;
    l.level[2].latency_ns = 100;
    st = tllm_levels_open(ctx, &l, &levels);
    d.net = tllm_levels_net(levels);
    d.layer = even;
    d.n_layer = 1;
    if (!st) st = tllm_zero_open(ctx, &d, zeros, &z);
    for (b = 0; b < j->batches && !st; b++) {
        st = tllm_zero_weights(z, 0, 0, w);
        if (!st && !b) j->clock[rank] = tllm_zero_clock(z, 0);
        if (!st) st = tllm_zero_weights(z, 0, 1, w);
        if (!st) st = tllm_zero_gradient(z, 0, w);
    }
    if (!st) st = tllm_zero_step(z, 1.0, 1.0);
    j->count[rank] = tllm_zero_count_of(z);
    for (b = 0; b < 3; b++) j->level[rank][b] = tllm_levels_received(levels, b);
    j->st[rank] = st;
    tllm_zero_close(z);
    if (d.net) d.net->close(d.net);
    tllm_levels_close(ctx, levels);
}
static void test_bytes(void)
{
    static const struct { int s_w, s_g, s_os, s_2, hop, weight, grad; } of[] = {
        { 2, 4, 8, 0, 0, 8, 4 }, { 8, 8, 8, 0, 0, 16, 16 }, { 8, 8, 8, 4, 4, 8, 4 }, { 1, 1, 8, 0, 0, 8, 4 },
        { 2, 4, 4, 2, 0, 8, 8 }, { 1, 1, 1, 0, 0, 32, 32 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t k;
    int r;
    for (k = 0; k < T_COUNT(of); k++) {
        job j;
        tllm_zero_cost c;
        memset(&j, 0, sizeof j);
        j.world = 8;
        j.run = run_bytes;
        j.batches = 3;
        j.d.s_w = of[k].s_w;
        j.d.s_g = of[k].s_g;
        j.d.s_os = of[k].s_os;
        j.d.s_2 = of[k].s_2;
        j.d.hop = of[k].hop;
        j.d.weight_bits = of[k].weight;
        j.d.grad_bits = of[k].grad;
        j.d.block = 32;
        T_OK(tllm_zero_cost_of(ctx, &j.d, 8, 4096, 3, NULL, 0, &c));
        if (!run_job(&j, 1)) return;
        all_ok(&j);
        for (r = 0; r < 8; r++) {
            const tllm_zero_count *n = &j.count[r];
            const double more = of[k].weight == 8 ? 1.125 : 1.0;    /* 8-bit codes and a scale for 32 of them */
            const double all = 3 * (c.forward + c.backward + c.gradients) + c.network + c.refresh + c.scales;
            T_CLOSE((double)n->forward, 3 * c.forward * more, 0.0);
            T_CLOSE((double)n->backward, 3 * c.backward * more, 0.0);
            T_CLOSE((double)n->refresh, c.refresh, 0.0);
            T_CLOSE((double)(n->forward + n->backward + n->gradients + n->network + n->refresh), all, 0.0);
            T_CLOSE((double)(j.level[r][0] + j.level[r][1] + j.level[r][2]), all, 0.0);
            T_CLOSE((double)n->held, c.weights + c.gradient_sums + c.states + c.second, 0.0);
            if (k == 0) {                   /* weights in the pair, gradients in the node, the rest everywhere */
                /* the ring of the refresh enters a node at its first pair only: three parts of 512 f16 */
                T_EQ_INT(j.level[r][2], 256 + 64 + (r % 4 < 2 ? 3 * 1024 : 0));
                T_EQ_INT(j.clock[r], 2048 + 256);       /* one message over the link of the pair, a byte a nanosecond */
            }
        }
    }
    t_close(ctx);
    T_PROOF("distributed 10", "bytes that the transport counts are those of the formulas, for six divisions");
}

static void test_worked(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const tllm_level links[3] = { { 2, 0, 1.6e12 }, { 8, 0, 4e11 }, { 64, 0, 1e11 } };
    tllm_zero_desc d;
    tllm_zero_cost topo, zero3, plus;
    memset(&d, 0, sizeof d);
    T_OK(tllm_zero_cost_of(ctx, &d, 384, 20e9, 1, NULL, 0, &topo));     /* the default: 2, 8, all */
    T_CLOSE(topo.forward, 10e9, 0.0);
    T_CLOSE(topo.backward, 10e9, 0.0);
    T_CLOSE(topo.gradients, 8.75e9, 0.0);
    T_CLOSE(topo.network, 1.22e9, 0.005e9);
    T_CLOSE(topo.refresh, 19.9e9, 0.05e9);
    T_CLOSE(topo.weights, 20e9, 0.0);
    T_CLOSE(topo.gradient_sums, 2 * 5e9, 0.0);          /* the sums are f32, twice the f16 of the worked figure */
    T_CLOSE(topo.states, 0.625e9, 0.0);
    d.s_w = d.s_g = d.s_os = 384;
    d.weight_bits = d.grad_bits = 16;
    T_OK(tllm_zero_cost_of(ctx, &d, 384, 20e9, 1, NULL, 0, &zero3));
    T_CLOSE(zero3.forward + zero3.backward + zero3.gradients + zero3.network + zero3.refresh, 119.7e9, 0.05e9);
    T_CLOSE(zero3.weights + zero3.gradient_sums / 2 + zero3.states, 0.83e9, 0.005e9);
    T_CLOSE(zero3.scales, 0.0, 0.0);
    T_PROOF("distributed 10", "worked: 20e9 weights on 384 ranks: bytes of each kind and memory");
    /* 64 ranks, pairs, nodes and a network of 200, 50 and 12.5 GB/s */
    d.s_w = d.s_g = d.s_os = 64;
    T_OK(tllm_zero_cost_of(ctx, &d, 64, 1e8, 1, links, 3, &zero3));
    d.s_2 = d.hop = 8;
    d.weight_bits = 8;
    d.grad_bits = 4;
    T_OK(tllm_zero_cost_of(ctx, &d, 64, 1e8, 1, links, 3, &plus));
    memset(&d, 0, sizeof d);
    T_OK(tllm_zero_cost_of(ctx, &d, 64, 1e8, 1, links, 3, &topo));
    T_CLOSE(zero3.seconds, 3 * 2e8 * 63 / 64 / 12.5e9, 1e-12);
    T_TRUE(zero3.seconds > plus.seconds && plus.seconds > topo.seconds && zero3.seconds > 2 * topo.seconds);
    /* all three, term by term, with a microsecond a message; scales are 4 bytes for 256 numbers */
    {
        static const tllm_level slow[3] = { { 2, 1000, 1.6e12 }, { 8, 1000, 4e11 }, { 64, 1000, 1e11 } };
        const double p = 1e8, codes8 = 1 + 4.0 / 256, codes4 = 0.5 + 4.0 / 256;
        double want = 1e-6 * (1 + 1 + 7 + 7 + 31) + 2 * p / 2 * codes8 / 200e9 + p * 7 / 8 * codes4 / 50e9 +
                      p / 8 * 7 / 8 * codes4 / 12.5e9 + 2 * p / 2 * 31 / 32 / 12.5e9;
        T_OK(tllm_zero_cost_of(ctx, &d, 64, p, 1, slow, 3, &topo));
        T_CLOSE(topo.seconds, want, 1e-9 * want);
        d.s_w = d.s_g = d.s_os = 64;
        d.s_2 = d.hop = 8;
        want = 1e-6 * (63 + 7 + 7 + 7) + p * 63 / 64 * codes8 / 12.5e9 + p * 7 / 8 * codes8 / 50e9 +
               p * 7 / 8 * codes4 / 50e9 + p / 8 * 7 / 8 * codes4 / 12.5e9;
        T_OK(tllm_zero_cost_of(ctx, &d, 64, p, 1, slow, 3, &plus));
        T_CLOSE(plus.seconds, want, 1e-9 * want);
        memset(&d, 0, sizeof d);            /* four copies of the states: a ring of f32 over them, both ways */
        d.s_w = d.s_g = d.s_os = 16;
        want = 2 * (1e-6 * 3 + 4 * p / 16 * 3 / 4 / 12.5e9);
        T_OK(tllm_zero_cost_of(ctx, &d, 16, p, 1, slow, 3, &topo));
        want += topo.seconds;
        T_OK(tllm_zero_cost_of(ctx, &d, 64, p, 1, slow, 3, &topo));
        T_CLOSE(topo.seconds, want, 1e-9 * want);
    }
    T_PROOF("distributed 10",
            "links of 200, 50, 12.5 GB/s, 64 ranks: topo before ZeRO++ before ZeRO-3, more than 2 times");
    t_close(ctx);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_bad(void)
{
    static const float w[4] = { 1, 2, 3, 4 };
    static const tiny_idx one[1] = { 4 }, none[1] = { 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc ld;
    tiny_local *local = NULL;
    tllm_zero_desc d;
    tllm_zero *z = NULL;
    tllm_zero_cost cost;
    tllm_codes c = { 5, 0 };
    tiny_coll coll;
    float x[64] = { 0 }, y[64];
    memset(&ld, 0, sizeof ld);
    memset(&d, 0, sizeof d);
    memset(&coll, 0, sizeof coll);
    ld.world = 4;
    T_OK(tiny_local_open(ctx, &ld, &local));
    T_STATUS(tllm_codes_pack(ctx, &c, x, 4, NULL, y), TINY_E_ARGUMENT, "codes: 5 bits");
    c.bits = 4;
    c.block = 7;
    T_STATUS(tllm_codes_pack(ctx, &c, x, 4, NULL, y), TINY_E_ARGUMENT, "blocks of 7 numbers");
    c.block = 8;
    T_STATUS(tllm_codes_pack(ctx, NULL, x, 4, NULL, y), TINY_E_ARGUMENT, "missing");
    T_STATUS(tllm_codes_pack(ctx, &c, NULL, 4, NULL, y), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_codes_unpack(ctx, &c, NULL, 4, y), TINY_E_ARGUMENT, "NULL");
    T_EQ_INT(tllm_codes_work(2, &c, SIZE_MAX / 2), SIZE_MAX);
    T_STATUS(tllm_codes_allgather(ctx, &coll, &c, x, 8, y), TINY_E_ARGUMENT, "the net of a rank");
    coll.net = tiny_local_net(local, 0);
    T_STATUS(tllm_codes_allgather(ctx, &coll, &c, x, 12, y), TINY_E_SHAPE,
             "12 numbers is no multiple of the block of 8");
    T_STATUS(tllm_codes_reduce_scatter(ctx, &coll, &c, x, 4, NULL, y), TINY_E_SHAPE, "no multiple of the block");
    T_STATUS(tllm_codes_allgather(ctx, &coll, &c, x, 8, y), TINY_E_WORKSPACE, "a workspace of");
    T_PROOF("distributed 10", "bad input: a block that does not divide the chunk");
    d.net = coll.net;
    d.layer = one;
    d.n_layer = 1;
    d.s_w = 2;
    d.s_g = 1;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "s_w = 2 does not divide s_g = 1");
    d.s_g = 3;
    d.s_w = 3;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "s_g = 3 does not divide s_os = 4");
    d.s_os = 3;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "s_os = 3 does not divide 4 ranks");
    T_PROOF("distributed 10", "bad input: degrees that do not divide each other");
    d.s_w = d.s_g = d.s_os = 0;
    d.s_2 = 3;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "s_2 = 3");
    d.s_2 = 0;
    d.hop = 3;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "hop = 3 does not divide s_g = 4");
    d.hop = -1;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "hop -1");
    d.hop = 0;
    d.grad_bits = 3;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "codes: 3 bits");
    d.grad_bits = 0;
    d.layer = none;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_ARGUMENT, "layer 0 has 0 numbers");
    d.layer = one;
    d.optim.kind = TINY_OPTIM_MUON;
    T_STATUS(tllm_zero_open(ctx, &d, w, &z), TINY_E_UNSUPPORTED, "optimiser 3");
    d.optim.kind = 0;
    T_STATUS(tllm_zero_open(ctx, &d, NULL, &z), TINY_E_ARGUMENT, "first weights");
    T_STATUS(tllm_zero_cost_of(ctx, &d, 0, 1e6, 1, NULL, 0, &cost), TINY_E_ARGUMENT, "0 ranks");
    T_STATUS(tllm_zero_cost_of(ctx, &d, 4, NAN, 1, NULL, 0, &cost), TINY_E_ARGUMENT, "numbers");
    T_STATUS(tllm_zero_cost_of(ctx, &d, 4, 1e6, 0, NULL, 0, &cost), TINY_E_ARGUMENT, "0 small batches");
    d.net = NULL;
    d.s_2 = 1;
    T_OK(tllm_zero_open(ctx, &d, w, &z));
    T_STATUS(tllm_zero_weights(z, 1, 0, y), TINY_E_ARGUMENT, "layer 1 of 1");
    T_STATUS(tllm_zero_weights(z, 0, 1, y), TINY_E_ARGUMENT, "no second copy before its forward pass");
    T_STATUS(tllm_zero_gradient(z, -1, x), TINY_E_ARGUMENT, "layer -1");
    T_STATUS(tllm_zero_step(z, 0.0, 1.0), TINY_E_ARGUMENT, "gradients times 0");
    /* a step leaves the second copy behind: it has the old weights */
    T_OK(tllm_zero_weights(z, 0, 0, y));
    T_OK(tllm_zero_weights(z, 0, 1, y));
    T_OK(tllm_zero_gradient(z, 0, w));
    T_OK(tllm_zero_step(z, 1.0, 1.0));
    T_STATUS(tllm_zero_weights(z, 0, 1, y), TINY_E_ARGUMENT, "no second copy before its forward pass");
    x[2] = NAN;
    T_OK(tllm_zero_gradient(z, 0, x));
    T_STATUS(tllm_zero_step(z, 1.0, 1.0), TINY_E_NUMERIC, NULL);
    T_STATUS(tllm_zero_weights(z, 0, 0, y), TINY_E_NUMERIC, "the group has ended");
    tllm_zero_close(z);
    tiny_local_close(ctx, local);
    t_close(ctx);
}

static void test_killed(void)
{
    int at, r;
    for (at = 0; at < 400; at += at < 12 ? 1 : 7) {
        job j = train_job(4, 2, 2, 4, 1);
        int ended = 0;
        j.has_fault = 1;
        j.fault.to = -1;
        j.fault.message = (uint64_t)at;
        j.fault.kind = TINY_FAULT_KILL;
        if (!run_job(&j, 0)) return;
        for (r = 0; r < 4; r++) ended += j.st[r] != TINY_OK;
        if (!ended) break;
        for (r = 0; r < 4; r++) {
            if (r != 1 && j.st[r]) T_TRUE(j.st[r] == TINY_E_PEER || j.st[r] == TINY_E_PROTOCOL);
            if (j.st[r]) T_EQ_INT(j.later[r], j.st[r]);
        }
        t_free_blocks();
    }
    T_TRUE(at > 5 && at < 400);
    T_PROOF("distributed 10", "bad input: a rank ends at one of its messages");
}

static void test_memory(void)
{
    static const float first[40] = { 0.5f };
    static const tiny_idx two[2] = { 30, 10 };
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_zero *z = NULL;
        tllm_zero_desc d;
        float w[30];
        tiny_status st = tiny_ctx_open(&desc, &ctx);
        memset(&d, 0, sizeof d);
        d.layer = two;
        d.n_layer = 2;
        d.s_2 = 1;
        d.block = 8;
        if (!st) st = tllm_zero_open(ctx, &d, first, &z);
        if (!st) st = tllm_zero_weights(z, 0, 0, w);
        if (!st) st = tllm_zero_weights(z, 0, 1, w);
        if (!st) st = tllm_zero_gradient(z, 0, w);
        if (!st) st = tllm_zero_step(z, 1.0, 1.0);
        T_TRUE(!st || st == TINY_E_MEMORY);
        tllm_zero_close(z);
        tiny_ctx_close(ctx);
    })
}

int main(void)
{
    T_RUN(test_codes_by_hand);
    T_RUN_FORMS(test_codes);
    T_RUN(test_chance);
    T_RUN(test_allgather);
    T_RUN(test_reduce_scatter);
    T_RUN(test_ring);
    T_RUN(test_train_exact);
    T_RUN(test_train_torch);
    T_RUN(test_train_codes);
    T_RUN(test_bytes);
    T_RUN(test_worked);
    T_RUN(test_bad);
    T_RUN(test_killed);
    T_RUN(test_memory);
    return t_done();
}
