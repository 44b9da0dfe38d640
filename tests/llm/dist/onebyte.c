/* tests/llm/dist/onebyte.c - fine-tuning with one byte a gradient, over threads and over TCP
 *
 * Truth    the bounds of the code and of the estimator, worked in double; updates written out in double from single
 *          signs; one machine against several, on different SIMD targets. Faults come from core/fault.h. A deadline
 *          only decides where the message that it waits for was lost. */
#include "llm/dist/net.h"

enum { MOST = 4, STEPS = 100, N0 = 130, N1 = 17, N = N0 + N1 };

/* ---- the byte ---------------------------------------------------------------------------------------------------- */

static void test_byte(void)
{
    int c, i;
    double worst = 0.0;
    for (c = 0; c < 256; c++) {
        const float x = tllm_onebyte_decode((unsigned char)c);
        T_EQ_INT(tllm_onebyte_encode((double)x), c);
        if (c == 128) T_TRUE(x != x);
        else if (c & 127) T_CLOSE(x, (c & 128 ? -1 : 1) * exp(((c & 127) - 64) / 8.0), 1e-7 * fabs((double)x));
    }
    for (i = 0; i < 100000; i++) {
        const double x = exp(t_rand_float(-7.8749f, 7.8749f)) * (i % 2 ? -1 : 1),
                     e = fabs((double)tllm_onebyte_decode(tllm_onebyte_encode(x)) / x - 1.0);
        if (e > worst) worst = e;
    }
    T_TRUE(worst <= exp(1.0 / 16) - 1.0 + 1e-7 && worst > 0.0644);
    T_EQ_INT(tllm_onebyte_encode(0.0), 0);
    T_EQ_INT(tllm_onebyte_encode(1.0), 64);
    T_EQ_INT(tllm_onebyte_encode(-1e-30), 129); /* cut to the range, not to zero */
    T_EQ_INT(tllm_onebyte_encode(1e30), 127);
    T_EQ_INT(tllm_onebyte_encode(INFINITY), 128);
    T_EQ_INT(tllm_onebyte_encode(NAN), 128);
    T_CLOSE(tllm_onebyte_decode(127), 2630.0, 1.0);
    T_CLOSE(tllm_onebyte_decode(1), 3.8e-4, 1e-5);
    T_PROOF("distributed 7", "100000 values are off by at most 6.45 %");
    T_PROOF("distributed 7", "all 256 codes decode and encode to themselves");
}

/* the direction as the head of src/llm/dist/onebyte.c writes it */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
static uint64_t z_key(uint64_t seed, uint64_t step, uint32_t sample) { return mix(mix(mix(seed) ^ step) ^ sample); }
static float z_sign(uint64_t key, uint32_t tensor, size_t i)
{
    uint32_t counter[4], half[2], bits[4];
    counter[0] = (uint32_t)(i / 128);
    counter[1] = counter[3] = 0;
    counter[2] = tensor;
    half[0] = (uint32_t)key;
    half[1] = (uint32_t)(key >> 32);
    tiny_philox(counter, half, bits);
    return bits[i % 128 / 32] >> i % 32 & 1 ? -1.0f : 1.0f;
}

/* ---- one machine ------------------------------------------------------------------------------------------------- */

typedef struct model {
    float theta[N];
    tiny_tensor tensor[2];
    double target[N];
    int calls, bad_at, fail_at, lie;
    uint64_t moved_at; /* a number changes by itself at the start of this step */
} model;

static void model_start(model *m)
{
    int i;
    memset(m, 0, sizeof *m);
    for (i = 0; i < N; i++) {
        m->theta[i] = (float)(i % 7) * 0.25f;
        m->target[i] = (double)(i % 5) - 2.0;
    }
    m->tensor[0] = tiny_tensor_2d(m->theta, TINY_F32, 10, 13);
    m->tensor[1] = tiny_tensor_1d(m->theta + N0, TINY_F32, N1);
    m->bad_at = m->fail_at = -1;
    m->moved_at = UINT64_MAX;
}
/* half the squared distance, each sample with its own noise */
static tiny_status model_loss(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    model *m = (model *)user;
    int t, i;
    double sum = 0.0;
    for (t = 0; t < 2; t++) {
        const float *w = tllm_onebyte_tensor(o, (size_t)t);
        const int n = t ? N1 : N0;
        for (i = 0; i < n; i++) {
            const double d =
                (double)w[i] - m->target[t * N0 + i] - 0.01 * (double)((step * 7 + sample * 3 + (uint64_t)i) % 11);
            sum += 0.5 * d * d;
        }
    }
    *loss = m->calls == m->bad_at ? (double)NAN : sum;
    if (m->lie) *loss = m->calls % 2 ? -1e9 : 1e9;
    if (m->calls == m->fail_at) return TINY_E_IO;
    m->calls++;
    return TINY_OK;
}
static tllm_onebyte_desc model_desc(model *m)
{
    tllm_onebyte_desc d;
    memset(&d, 0, sizeof d);
    d.tensor = m->tensor;
    d.n_tensor = 2;
    d.loss = model_loss;
    d.user = m;
    d.lr = 0.004;
    d.seed = 5;
    return d;
}
static double distance(const model *m)
{
    double sum = 0.0;
    int i;
    for (i = 0; i < N; i++) sum += 0.5 * ((double)m->theta[i] - m->target[i]) * ((double)m->theta[i] - m->target[i]);
    return sum;
}

/* every target has the bits of the reference, and both follow the formula */
static void test_update(tiny_target target)
{
    static const size_t sizes[] = { 1, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 3001 };
    const tllm_onebyte_code code[3] = { { 1, 64 }, { 2, 200 }, { 9, 57 } };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t k, i, j;
    int normal;
    for (k = 0; k < T_COUNT(sizes); k++)
        for (normal = 0; normal < 2; normal++) {
            const size_t n = sizes[k];
            float *x = t_rand(n, -2.0f, 2.0f), *a = t_guarded(n), *b = t_guarded(n);
            tllm_onebyte *oa = NULL, *ob = NULL;
            tllm_onebyte_desc d;
            tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, (tiny_idx)n), tb = tiny_tensor_1d(b, TINY_F32, (tiny_idx)n);
            memcpy(a, x, n * sizeof *x);
            memcpy(b, x, n * sizeof *x);
            memset(&d, 0, sizeof d);
            d.lr = 0.3;
            d.samples = 10;
            d.n_tensor = 1;
            d.normal = normal;
            d.seed = k;
            d.tensor = &ta;
            T_OK(tllm_onebyte_open(ctx, &d, &oa));
            d.tensor = &tb;
            T_OK(tllm_onebyte_open(plain, &d, &ob));
            for (i = 0; i < 2; i++) {
                T_OK(tllm_onebyte_apply(oa, code, 3));
                T_OK(tllm_onebyte_apply(ob, code, 3));
            }
            T_SAME(a, b, n);
            T_WALLS(a, n);
            T_EQ_INT(tllm_onebyte_at(oa), 2);
            T_TRUE(tllm_onebyte_hash(oa) == tllm_onebyte_hash(ob));
            for (i = 0; i < n && !normal; i++) {
                double want = (double)x[i];
                for (j = 0; j < 6; j++)
                    want -= 0.1 * (double)tllm_onebyte_decode(code[j % 3].code) *
                            (double)z_sign(z_key(k, j / 3, code[j % 3].sample), 0, i);
                if (!T_CLOSE(a[i], want, 1e-4)) break;
            }
            tllm_onebyte_close(oa);
            tllm_onebyte_close(ob);
            t_free_blocks();
        }
    t_close(plain);
    t_close(ctx);
}

/* a loss sees theta +- eps z, by tensors or as a whole; theta itself keeps its bits */
static tiny_status look(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    model *m = (model *)user;
    const uint64_t key = z_key(5, step, sample);
    const float side = m->calls++ % 2 ? -0.125f : 0.125f;
    int t, i, wrong = 0;
    for (t = 0; t < 2; t++) {
        const float *w = tllm_onebyte_tensor(o, (size_t)t);
        for (i = 0; i < (t ? N1 : N0); i++)
            wrong += w[i] != m->theta[t * N0 + i] + side * z_sign(key, (uint32_t)t, (size_t)i);
    }
    *loss = wrong ? 1e6 : (double)side;
    return TINY_OK;
}
static void test_view(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int whole;
    for (whole = 0; whole < 2; whole++) {
        model m, was;
        tllm_onebyte_desc d;
        tllm_onebyte *o = NULL;
        float g = 0.0f;
        double loss = -1.0;
        model_start(&m);
        was = m;
        d = model_desc(&m);
        d.loss = look;
        d.eps = 0.125;
        d.whole = whole;
        T_OK(tllm_onebyte_open(ctx, &d, &o));
        T_OK(tllm_onebyte_gradient(o, 3, &g, &loss));
        if (target != TINY_TARGET_AMX) T_RAN_ON(ctx, target);
        T_CLOSE(g, 1.0, 0.0);
        T_CLOSE(loss, 0.0, 0.0);
        T_SAME(m.theta, was.theta, N);
        T_TRUE(tllm_onebyte_tensor(o, 1) == m.theta + N0); /* outside of a loss */
        T_TRUE(!tllm_onebyte_tensor(o, 2));
        tllm_onebyte_close(o);
    }
    t_close(ctx);
}

/* the rate of step t is lr / (1 + t / half), and of n gradients each counts 1 / n */
static void test_rate(void)
{
    const tllm_onebyte_code code[2] = { { 0, 64 }, { 1, 128 } };           /* 1, and none: n is 1 */
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    float w = 0.0f;
    double want = 0.0;
    tiny_tensor tensor = tiny_tensor_1d(&w, TINY_F32, 1);
    int t;
    memset(&d, 0, sizeof d);
    d.tensor = &tensor;
    d.n_tensor = 1;
    d.samples = 2;
    d.lr = 0.5;
    d.half = 2.0;
    T_OK(tllm_onebyte_open(ctx, &d, &o));
    for (t = 0; t < 5; t++) {
        T_OK(tllm_onebyte_apply(o, code, 2));
        want -= 0.5 / (1.0 + t / 2.0) * (double)z_sign(z_key(0, (uint64_t)t, 0), 0, 0);
        T_CLOSE(w, want, 1e-6);
    }
    tllm_onebyte_close(o);
    t_close(ctx);
}

/* 20 dimensions, 20000 directions: the mean is the gradient within sqrt((d - 1) / n) (signs), sqrt((d + 1) / n) (N) */
static tiny_status bowl(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss)
{
    const float *w = tllm_onebyte_tensor(o, 0);
    int i;
    (void)user;
    (void)step;
    (void)sample;
    for (*loss = 0.0, i = 0; i < 20; i++) *loss += 0.5 * (i + 1.0) * (double)w[i] * (double)w[i];
    return TINY_OK;
}
static void test_estimator(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int normal, i, k;
    for (normal = 0; normal < 2; normal++) {
        float w[20];
        double mean[20], dot = 0, gg = 0, mm = 0, off = 0;
        tiny_tensor t = tiny_tensor_1d(w, TINY_F32, 20);
        tllm_onebyte_desc d;
        tllm_onebyte *o = NULL;
        memset(mean, 0, sizeof mean);
        memset(&d, 0, sizeof d);
        for (i = 0; i < 20; i++) w[i] = (float)(i % 3) - 0.7f;
        d.tensor = &t;
        d.n_tensor = 1;
        d.loss = bowl;
        d.lr = 1.0;
        d.normal = normal;
        d.eps = 1.0 / 256;
        T_OK(tllm_onebyte_open(ctx, &d, &o));
        for (k = 0; k < 20000; k++) {
            const uint64_t key = z_key(0, 0, (uint32_t)k);
            tiny_rng r = tiny_rng_make(key, 0);
            float g;
            if (tllm_onebyte_gradient(o, (uint32_t)k, &g, NULL)) break;
            for (i = 0; i < 20; i++)
                mean[i] +=
                    (double)g * (normal ? (double)tiny_rng_normal(&r) : (double)z_sign(key, 0, (size_t)i)) / 20000.0;
        }
        T_EQ_INT(k, 20000);
        for (i = 0; i < 20; i++) {
            const double g = (i + 1.0) * (double)w[i];
            dot += g * mean[i];
            gg += g * g;
            mm += mean[i] * mean[i];
            off += (g - mean[i]) * (g - mean[i]);
        }
        T_TRUE(dot / sqrt(gg * mm) > 0.9990);
        T_CLOSE(sqrt(off / gg), sqrt((normal ? 21.0 : 19.0) / 20000.0), 0.009);
        tllm_onebyte_close(o);
    }
    t_close(ctx);
    T_PROOF("distributed 7", "the mean of 20000 slopes times z is the gradient within the theory's error");
}

/* ---- a group ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    t_net net;
    int world, samples, floats, no_limit, check;
    int joins[MOST], late[MOST], leaves[MOST]; /* how; waits until rank 0 has made 30 steps; leaves after so many */
    int least, steps;
    uint64_t wait_ns, lost_ns;
    uint64_t moved_at;                      /* on rank 2 */
    int lie_rank, bad_rank;
    int odd;                                /* rank 1 has another description: the field that differs, from 1 on */
    tiny_idx there, caught;                 /* steps of rank 0; a rank that was late is part of a step again */
    model m[MOST];
    uint64_t hash[MOST], steps_of[MOST], bytes[MOST], messages[MOST];
    int restored[MOST], skipped[MOST], none[MOST], refused, missing;
    tllm_onebyte_report last[MOST];
    unsigned char *log;
    size_t n_log;
    const struct job *old;                  /* rank 0 replays its log first, and the others come 30 ms later */
} job;

/* machines of a step, of which none is late */
static int all_of(const job *j, uint64_t step)
{
    int r, n = 0;
    for (r = 0; r < j->world; r++) n += !j->leaves[r] || step <= (uint64_t)j->leaves[r];
    return n;
}

static void other_description(tllm_onebyte_desc *d, int field)
{
    switch (field) {
    case 1: d->lr *= 2; break;
    case 2: d->eps = 2e-3; break;
    case 3: d->half = 100; break;
    case 4: d->clip = 9; break;
    case 5: d->seed++; break;
    case 6: d->check = 15; break;
    case 7: d->normal = 1; break;
    case 8: d->floats = 1; break;
    case 9: d->samples++; break;
    default:;
    }
}

static void rank_main(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    tllm_onebyte *o = NULL;
    tllm_onebyte_desc d;
    tllm_onebyte_report r;
    model *m = &j->m[rank];
    tiny_status st;
    uint64_t up = 0;                        /* steps until all had caught up */
    int i;
    memset(&r, 0, sizeof r);
    model_start(m);
    m->lie = j->lie_rank == rank;
    m->bad_at = j->bad_rank == rank ? 7 : -1;
    m->moved_at = rank == 2 && j->moved_at ? j->moved_at : UINT64_MAX;
    if (j->joins[rank] == TLLM_ONEBYTE_STATE) memset(m->theta, 0, sizeof m->theta); /* it knows nothing yet */
    d = model_desc(m);
    d.net = net;
    d.samples = j->samples ? j->samples : 1;
    d.floats = j->floats;
    d.check = j->check;
    d.clip = j->no_limit ? -1.0 : 0.0;
    d.wait_ns = j->wait_ns ? j->wait_ns : UINT64_C(60000000000);
    d.lost_ns = j->lost_ns;
    d.join = j->joins[rank];
    d.least = j->least;
    if (rank == 1) other_description(&d, j->odd);
    while (j->late[rank] && __atomic_load_n(&j->there, __ATOMIC_ACQUIRE) < 30)
        net->pause(net, net->changes(net), tiny_now_ns() + 1000000);
    if (j->old && rank) {
        const uint64_t from = tiny_now_ns();
        while (tiny_now_ns() - from < 30000000) net->pause(net, net->changes(net), from + 30000000);
    }
    st = tllm_onebyte_open(ctx, &d, &o);
    if (!st && j->old && !rank) st = tllm_onebyte_replay(o, j->old->log, j->old->n_log);
    while (!st && !r.ended) {
        if (rank == 0) {
            int wait = 0;
            for (i = 1; i < j->world; i++) wait |= j->late[i] && !__atomic_load_n(&j->caught, __ATOMIC_ACQUIRE);
            if (wait && tllm_onebyte_at(o) >= 60) net->pause(net, net->changes(net), tiny_now_ns() + 1000000);
            if (!wait && tllm_onebyte_at(o) >= (uint64_t)j->steps + up) break;
            if (wait) up = tllm_onebyte_at(o);
        }
        if (tllm_onebyte_at(o) == m->moved_at) m->theta[5] += 0.5f;
        if (j->leaves[rank] && (int)tllm_onebyte_at(o) >= j->leaves[rank]) {
            st = tllm_onebyte_leave(o);
            break;
        }
        st = tllm_onebyte_step(o, &r);
        if (st) break;
        if (!r.ended) j->last[rank] = r;
        j->restored[rank] += r.restored;
        j->skipped[rank] += r.skipped;
        if (rank == 0) {
            j->refused += r.refused;
            j->missing += r.late;
            __atomic_store_n(&j->there, (tiny_idx)r.step, __ATOMIC_RELEASE);
        } else if (j->late[rank] && r.machines == all_of(j, r.step))    /* from here on rank 0 waits for it */
            __atomic_store_n(&j->caught, 1, __ATOMIC_RELEASE);
        j->none[rank] += r.none;
    }
    if (!st && rank == 0) st = tllm_onebyte_end(o);
    if (rank == 0) __atomic_store_n(&j->there, 1 << 20, __ATOMIC_RELEASE);
    t->st[rank] = st;
    if (o) {
        size_t n;
        const void *log = tllm_onebyte_log(o, &n);
        j->hash[rank] = tllm_onebyte_hash(o);
        j->steps_of[rank] = tllm_onebyte_at(o);
        if (log) {
            j->log = (unsigned char *)malloc(n);
            if (j->log) memcpy(j->log, log, n);
            j->n_log = n;
        } else if (rank) {
            j->bytes[rank] = net->count[0].bytes_sent;
            j->messages[rank] = net->count[0].messages_sent;
        }
    }
    tllm_onebyte_close(o);
}
static job job_start(int world)
{
    job j;
    memset(&j, 0, sizeof j);
    j.world = world;
    j.steps = STEPS;
    j.lie_rank = j.bad_rank = -1;
    j.net.line.queue_bytes = 512;           /* less than theta: it goes in pieces */
    return j;
}
static int run_job(job *j)
{
    j->net.body = rank_main;
    j->net.arg = j;
    return t_net_run(&j->net, j->world);
}
static void all_equal(const job *j)
{
    int r;
    for (r = 0; r < j->world; r++) {
        if (!T_EQ_INT(j->net.st[r], TINY_OK)) printf("  rank %d: %s\n", r, j->net.says[r]);
        T_EQ_INT(j->steps_of[r], j->steps_of[0]);
        if (!T_TRUE(j->hash[r] == j->hash[0])) printf("  rank %d of %d\n", r, j->world);
        T_SAME(j->m[r].theta, j->m[0].theta, N);
    }
}

static void test_group(void)
{
    static const tiny_target targets[4] = { TINY_TARGET_AUTO, TINY_TARGET_SCALAR, TINY_TARGET_REFERENCE,
                                            TINY_TARGET_AUTO };
    uint64_t alone = 0;
    int tcp, r;
    for (tcp = -1; tcp < 2; tcp++) { /* -1: one machine with 4 samples */
        job j = job_start(tcp < 0 ? 1 : 4);
        j.samples = tcp < 0 ? 4 : 1;
        j.net.tcp = tcp > 0;
        memcpy(j.net.targets, targets, sizeof targets);
        if (!run_job(&j)) return;
        all_equal(&j);
        if (tcp < 0) alone = j.hash[0];
        T_TRUE(j.hash[0] == alone);
        T_TRUE(distance(&j.m[0]) < 100.0); /* of 219 at the start */
        T_EQ_INT(j.last[0].gradients, 4);
        T_EQ_INT(j.last[0].machines, tcp < 0 ? 1 : 4);
        for (r = 1; r < j.world; r++) { /* 4 bytes and a sample: to join, 100 steps, and one that ended before */
            T_EQ_INT(j.bytes[r], 5 * j.messages[r]);
            T_TRUE(j.messages[r] >= STEPS + 1 && j.messages[r] <= STEPS + 2);
        }
        free(j.log);
    }
    T_PROOF("distributed 7",
            "after 100 steps theta has the same bits on 4 machines, threads and TCP, three SIMD targets");
    T_PROOF("distributed 7", "1 machine with 4 samples equals 4 machines with 1 sample, bit for bit");
    T_PROOF("distributed 7", "a machine sends samples + 4 bytes a step");
}

static void test_join(void)
{
    int how, tcp;
    for (tcp = 0; tcp < 2; tcp++)
        for (how = TLLM_ONEBYTE_REPLAY; how <= TLLM_ONEBYTE_STATE; how++) {
            job j = job_start(4);
            j.net.tcp = tcp;
            j.late[3] = 1;
            j.joins[3] = how;
            j.least = 3;
            j.leaves[1] = 80;
            j.check = tcp ? 3 : how == TLLM_ONEBYTE_REPLAY;             /* 0: the default */
            if (how == TLLM_ONEBYTE_STATE) {
                j.samples = 4;              /* more than 256 slopes: the codes that come with theta have wrapped */
                j.lie_rank = 2;             /* and the median counts in each step */
            }
            if (!run_job(&j)) return;
            T_EQ_INT(j.net.st[1], TINY_OK);
            T_TRUE(j.steps_of[1] == 80);
            j.hash[1] = j.hash[0]; /* it has left */
            j.steps_of[1] = j.steps_of[0];
            memcpy(j.m[1].theta, j.m[0].theta, sizeof j.m[0].theta);
            all_equal(&j);
            T_EQ_INT(j.restored[3], how == TLLM_ONEBYTE_STATE);
            T_EQ_INT(j.last[0].machines, 3);
            T_EQ_INT(j.refused, 0);
            free(j.log);
        }
    T_PROOF("distributed 7", "a machine that joins late by replay, or with theta, has the same bits");
}

/* a number of theta changes by itself on one machine: the next hash shows it, and rank 0 sends theta */
static void test_check(void)
{
    job j = job_start(3), k = job_start(3);
    j.moved_at = 20;
    if (!run_job(&j) || !run_job(&k)) return;
    all_equal(&j);
    T_EQ_INT(j.restored[2], 1);
    T_EQ_INT(j.restored[1], 0);
    T_TRUE(j.hash[0] != k.hash[0]); /* the damaged machine's slopes were taken until then */
    free(j.log);
    free(k.log);
    T_PROOF("distributed 7", "a machine whose theta differs gets it again");
}

static void test_faults(void)
{
    static const struct {
        int kind;
        uint64_t by;
    } of[] = { { TINY_FAULT_DROP, 0 },  { TINY_FAULT_FLIP, 1 }, { TINY_FAULT_FLIP, 15 },
               { TINY_FAULT_TWICE, 0 }, { TINY_FAULT_KILL, 0 }, { TINY_FAULT_CUT, 1 } };
    size_t k;
    int again = 0;
    for (k = 0; k < T_COUNT(of); k++) {
        job j = job_start(3);
        j.net.has_fault = 1;
        j.net.fault.to = 0;
        j.net.fault.message = 11; /* the list of step 10 */
        j.net.fault.kind = of[k].kind;
        j.net.fault.by = of[k].by;
        j.wait_ns = of[k].kind == TINY_FAULT_DROP ? 1000000 : 0;
        j.steps = 40;
        if (!run_job(&j)) return;
        if (of[k].kind == TINY_FAULT_CUT) { /* not a list at all: the group ends */
            T_EQ_INT(j.net.st[0], TINY_E_PROTOCOL);
            T_TRUE(strstr(j.net.says[0], "same description") != NULL);
        } else {
            if (of[k].kind == TINY_FAULT_KILL) {
                T_EQ_INT(j.net.st[1], TINY_E_PEER);
                j.net.st[1] = TINY_OK;
                j.hash[1] = j.hash[0];
                j.steps_of[1] = j.steps_of[0];
                memcpy(j.m[1].theta, j.m[0].theta, sizeof j.m[0].theta);
            }
            all_equal(&j);
            if (of[k].kind == TINY_FAULT_DROP) T_TRUE(j.missing >= 1);
            /* the second of two lists may come when its step is closed, and is then only late: once more */
            if (of[k].kind == TINY_FAULT_TWICE && !j.refused && again++ < 50) k--;
            else if (of[k].kind == TINY_FAULT_FLIP || of[k].kind == TINY_FAULT_TWICE) T_TRUE(j.refused >= 1);
        }
        free(j.log);
    }
    T_PROOF("distributed 7", "a missing list is left out by all machines");
    T_PROOF("distributed 7", "bad input: a list for another machine, two lists of one step");
}

/* slopes of 2630 from one machine: cut at ten times the median */
static void test_lies(void)
{
    const tllm_onebyte_code code[4] = { { 0, 64 }, { 1, 64 }, { 2, 192 }, { 3, 127 } };
    double at_end[2];
    int limit, i;
    for (limit = 0; limit < 2; limit++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        job j = job_start(4);
        model m, was;
        tllm_onebyte_desc d;
        tllm_onebyte *o = NULL;
        double most = 0.0;
        model_start(&m);
        was = m;
        d = model_desc(&m);
        d.samples = 4;
        d.lr = 0.4;
        d.clip = limit ? 0.0 : -1.0;
        T_OK(tllm_onebyte_open(ctx, &d, &o));
        T_OK(tllm_onebyte_apply(o, code, 4));
        for (i = 0; i < N; i++) {
            const double moved = fabs((double)m.theta[i] - (double)was.theta[i]);
            if (moved > most) most = moved;
        }
        T_CLOSE(most, 0.1 * ((limit ? 10.0 : (double)tllm_onebyte_decode(127)) + 3.0), 1e-3);
        tllm_onebyte_close(o);
        t_close(ctx);
        j.lie_rank = 3;
        j.no_limit = !limit;
        if (!run_job(&j)) return;
        all_equal(&j);
        at_end[limit] = distance(&j.m[0]);
        free(j.log);
    }
    T_TRUE(at_end[1] < 0.1 * at_end[0]);
    {
        job j = job_start(2); /* a loss that is not a number: no gradient, and no harm */
        j.bad_rank = 1;
        if (!run_job(&j)) return;
        all_equal(&j);
        T_EQ_INT(j.none[0] + j.none[1], 1);
        free(j.log);
    }
    T_PROOF("distributed 7", "bad input: slopes that lie are bounded, a loss that is not a number");
}

/* slopes of zero, as of a loss that does not see the weights, do not lift the limit of the others */
static void test_zeros(void)
{
    const tllm_onebyte_code code[8] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 64 }, { 6, 192 },
                                        { 7, 127 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    model m, was;
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    double most = 0.0;
    int i;
    model_start(&m);
    was = m;
    d = model_desc(&m);
    d.samples = 8;
    d.lr = 0.8;
    T_OK(tllm_onebyte_open(ctx, &d, &o));
    T_OK(tllm_onebyte_apply(o, code, 5));
    T_SAME(m.theta, was.theta, N);
    T_OK(tllm_onebyte_apply(o, code, 8));
    for (i = 0; i < N; i++) {
        const double moved = fabs((double)m.theta[i] - (double)was.theta[i]);
        if (moved > most) most = moved;
    }
    T_CLOSE(most, 0.1 * (10.0 + 1.0 + 1.0), 1e-3);
    tllm_onebyte_close(o);
    t_close(ctx);
}

/* the median forgets what is 256 slopes ago: many of e^4, then 264 of e^-4, then 2630, which counts 10 e^-4 */
static void test_median(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_onebyte_code code[8];
    model m, was;
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    int i, k;
    model_start(&m);
    d = model_desc(&m);
    d.samples = 8;
    d.lr = 0.5;
    T_OK(tllm_onebyte_open(ctx, &d, &o));
    for (k = 0; k < 40 + 33; k++) {
        for (i = 0; i < 8; i++) {
            code[i].sample = (uint32_t)i;
            code[i].code = k < 40 ? 96 : 32;
        }
        T_OK(tllm_onebyte_apply(o, code, 8));
    }
    was = m;
    code[0].code = 127;
    T_OK(tllm_onebyte_apply(o, code, 1));
    T_CLOSE(fabs((double)m.theta[0] - (double)was.theta[0]), 0.5 * 10.0 * exp(-4.0), 1e-4);
    tllm_onebyte_close(o);
    t_close(ctx);
}

/* machines whose descriptions differ do not train with each other; one that nobody joins does not wait for ever */
static void test_descriptions(void)
{
    int k;
    for (k = 1; k <= 9; k++) {
        job j = job_start(2);
        j.odd = k;
        if (!run_job(&j)) return;
        if (!T_EQ_INT(j.net.st[0], TINY_E_PROTOCOL)) printf("  field %d\n", k);
        T_TRUE(strstr(j.net.says[0], "same description") != NULL);
        T_TRUE(j.net.st[1] != TINY_OK);
        free(j.log);
    }
    {
        job j = job_start(2);
        j.late[1] = 1;
        j.lost_ns = 20000000;
        if (!run_job(&j)) return;
        T_EQ_INT(j.net.st[0], TINY_E_TIMEOUT);
        T_TRUE(strstr(j.net.says[0], "fewer than 2 machines have joined in 0.02 s") != NULL);
        free(j.log);
    }
    T_PROOF("distributed 7", "bad input: another description, machines that do not come");
}

/* the log restores the run; damaged ones are refused */
static void test_log(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    job j = job_start(1);
    model m;
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    size_t n;
    int floats;
    for (floats = 0; floats < 2; floats++) {
        j = job_start(1);
        j.samples = 4;
        j.floats = floats;
        if (!run_job(&j)) return;
        t_use(ctx);
        T_EQ_INT(j.n_log, 24 + STEPS * (9 + (floats ? 16 : 4)) + 7 * 8);
        model_start(&m);
        d = model_desc(&m);
        d.samples = 4;
        d.floats = floats;
        T_OK(tllm_onebyte_open(ctx, &d, &o));
        T_OK(tllm_onebyte_replay(o, j.log, j.n_log));
        T_SAME(m.theta, j.m[0].theta, N);
        T_SAME((const unsigned char *)tllm_onebyte_log(o, &n), j.log, j.n_log);
        T_OK(tllm_onebyte_step(o, NULL)); /* and it goes on from there */
        T_EQ_INT(tllm_onebyte_at(o), STEPS + 1);
        T_STATUS(tllm_onebyte_replay(o, j.log, j.n_log), TINY_E_ARGUMENT, "before the first step");
        tllm_onebyte_close(o);
        if (floats) break;
        model_start(&m);
        T_OK(tllm_onebyte_open(ctx, &d, &o));
        T_STATUS(tllm_onebyte_replay(o, j.log, 20), TINY_E_FORMAT, "not a log");
        T_STATUS(tllm_onebyte_replay(o, NULL, 20), TINY_E_ARGUMENT, "NULL");
        j.log[9] ^= 1;
        T_STATUS(tllm_onebyte_replay(o, j.log, j.n_log), TINY_E_FORMAT, "another description");
        j.log[9] ^= 1;
        j.log[16] = 2;
        T_STATUS(tllm_onebyte_replay(o, j.log, j.n_log), TINY_E_FORMAT, "of 2 machines");
        j.log[16] = 1;
        m.theta[0] += 1.0f;
        T_STATUS(tllm_onebyte_replay(o, j.log, j.n_log), TINY_E_FORMAT, "begin with other numbers");
        m.theta[0] -= 1.0f;
        j.log[24 + 1] = 3;
        T_STATUS(tllm_onebyte_replay(o, j.log, j.n_log), TINY_E_FORMAT, "step 0 of the log is invalid");
        j.log[24 + 1] = 1;
        T_STATUS(tllm_onebyte_replay(o, j.log, 24 + 21 + 5), TINY_E_FORMAT, "within step 1");
        T_EQ_INT(tllm_onebyte_at(o), 1);
        tllm_onebyte_close(o);
        free(j.log);
    }
    free(j.log);
    t_close(ctx);
}

/* A log holds the whole run: rank 0 has no step to make, and still waits for the others before it ends. */
static void test_whole_log(void)
{
    job first = job_start(3), j = job_start(3);
    if (!run_job(&first)) return;
    j.old = &first;
    if (run_job(&j)) {
        all_equal(&j);
        T_EQ_INT(j.steps_of[0], STEPS);
        T_TRUE(j.hash[0] == first.hash[0]);
        free(j.log);
    }
    free(first.log);
}

static void refuse(tiny_ctx *ctx, const tllm_onebyte_desc *d, const char *part)
{
    tllm_onebyte *o = NULL;
    T_STATUS(tllm_onebyte_open(ctx, d, &o), TINY_E_ARGUMENT, part);
    T_TRUE(!o);
}
static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_onebyte_code code[2] = { { 3, 64 }, { 3, 64 } };
    model m;
    tllm_onebyte *o = NULL;
    tllm_onebyte_desc d, ok;
    tiny_tensor t[2];
    float g;
    model_start(&m);
    ok = model_desc(&m);
    ok.samples = 8;
#define BAD(change, part) \
    d = ok;               \
    change;               \
    refuse(ctx, &d, part)
    BAD(d.eps = -1e-3, "eps is -0.001");
    BAD(d.eps = (double)NAN, "eps is");
    BAD(d.eps = 1e-60, "eps is 1e-60");
    BAD(d.lr = 0, "lr is 0");
    BAD(d.lr = (double)INFINITY, "lr is");
    BAD(d.half = -1, "half is -1");
    BAD(d.clip = (double)NAN, "clip is");
    BAD(d.samples = 201, "201 samples");
    BAD(d.samples = -1, "-1 samples");
    BAD(d.check = -1, "every -1 steps");
    BAD(d.least = 2, "at least 2 machines of a group of 1");
    BAD(d.join = 2, "join 2");
    BAD(d.n_tensor = 0, "no tensor");
    memcpy(t, m.tensor, sizeof t);
    t[1].dtype = TINY_F16;
    BAD(d.tensor = t, "tensor 1 must be dense f32");
    T_STATUS(tllm_onebyte_open(ctx, NULL, &o), TINY_E_ARGUMENT, "a description");
    T_OK(tllm_onebyte_open(ctx, &ok, &o));
    T_STATUS(tllm_onebyte_apply(o, code, 2), TINY_E_ARGUMENT, "step 0 has two codes of sample 3");
    code[1].sample = 2;
    T_STATUS(tllm_onebyte_apply(o, code, 2), TINY_E_ARGUMENT, "sample 2 after that of sample 3");
    T_STATUS(tllm_onebyte_apply(o, code, 9), TINY_E_ARGUMENT, "9 codes in step 0, there are at most 8");
    T_STATUS(tllm_onebyte_apply(o, NULL, 1), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tllm_onebyte_gradient(o, 0, NULL, NULL), TINY_E_ARGUMENT, "room for its answer");
    T_STATUS(tllm_onebyte_leave(o), TINY_E_ARGUMENT, "rank 0 cannot leave");
    m.fail_at = 4;
    T_STATUS(tllm_onebyte_step(o, NULL), TINY_E_IO, "the loss of sample 2 in step 0 failed");
    T_EQ_INT(tllm_onebyte_at(o), 0);
    m.fail_at = -1;
    T_OK(tllm_onebyte_step(o, NULL));
    T_OK(tllm_onebyte_end(o));
    tllm_onebyte_close(o);
    ok.loss = NULL;
    T_OK(tllm_onebyte_open(ctx, &ok, &o));
    T_STATUS(tllm_onebyte_step(o, NULL), TINY_E_ARGUMENT, "no loss");
    T_STATUS(tllm_onebyte_gradient(o, 0, &g, NULL), TINY_E_ARGUMENT, "no loss");
    T_OK(tllm_onebyte_apply(o, code + 1, 1));
    tllm_onebyte_close(o);
    t_close(ctx);
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        if (!tiny_ctx_open(&cd, &c)) {
            int i;
            model_start(&m);
            d = model_desc(&m);
            d.samples = 16;
            o = NULL;
            if (!tllm_onebyte_open(c, &d, &o))
                for (i = 0; i < 200; i++)
                    if (tllm_onebyte_step(o, NULL)) break; /* the log grows */
            tllm_onebyte_close(o);
            tiny_ctx_close(c);
        }
    })
    T_PROOF("distributed 7", "bad input: eps, rates, two codes of one sample");
}

int main(void)
{
    T_RUN(test_byte);
    T_RUN_TARGETS(test_update);
    T_RUN_TARGETS(test_view);
    T_RUN(test_rate);
    T_RUN(test_estimator);
    T_RUN(test_group);
    T_RUN(test_join);
    T_RUN(test_check);
    T_RUN(test_faults);
    T_RUN(test_lies);
    T_RUN(test_zeros);
    T_RUN(test_median);
    T_RUN(test_descriptions);
    T_RUN(test_log);
    T_RUN(test_whole_log);
    T_RUN(test_bad);
    return t_done();
}
