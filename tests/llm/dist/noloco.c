/* tests/llm/dist/noloco.c - replicas that meet in pairs, over threads and over TCP
 *
 * Truth    the formula in double; DiLoCo written out; a quadratic whose spread was published; counts of messages and a
 *          virtual clock. Faults come from core/fault.h. A deadline only decides where the replica that it waits for is
 *          held back by the test itself. */
#include "llm/dist/net.h"

enum { MOST = T_NETS, STEPS = 200, HISTORY = 4096, WAIT = 300000000 };

typedef struct job {
    t_net net;
    int world, n, steps, group, inner, kind; /* kind: what a rank does between outer steps */
    double alpha, beta, gamma, apart, rate, fall;
    uint64_t seed, wait_ns;
    int held, joiner;                       /* rank that is held back at step 3; that joins; 0: none */
    tiny_idx joined, done, made[MOST];      /* ranks that met often enough; outer steps of each */
    float *theta[MOST];
    float *phi[MOST], *momentum[MOST];      /* at the end */
    tiny_target ran[MOST];
    int met[MOST][HISTORY], late[MOST], refused[MOST], n_met[MOST], same[MOST];
    uint64_t met_mask[MOST], bytes[MOST], messages[MOST], clock[MOST], spend[MOST], first[MOST];
    float copies[2][HISTORY][4];            /* phi of ranks 0 and 1 before each step */
    float sum[MOST];
} job;
static float course[MOST][STEPS][10];       /* phi after each step */

/* the change of an inner phase: fixed numbers, or noisy descent of the quadratic |x - 1|^2 */
static void inner(job *j, int rank, int step, tiny_rng *rng)
{
    float *x = j->theta[rank];
    int i, k;
    if (j->kind == 0)
        for (i = 0; i < j->n; i++) x[i] += (float)((i * 7 + step * 5 + rank * 3) % 11) * 0.125f - 0.5f;
    else {
        double lr = j->rate;
        if (j->fall > 0) lr *= step + 1 >= j->steps ? 0.0 : 1.0 - (double)step / (double)j->steps;
        for (k = 0; k < j->inner; k++)
            for (i = 0; i < j->n; i++)
                x[i] -= (float)(lr * (2.0 * ((double)x[i] - 1.0) + (double)tiny_rng_normal(rng)));
    }
}

static void pause_of(tiny_net *net) { net->pause(net, net->changes(net), tiny_now_ns() + 1000000); }
static int others_made(const job *j, int rank, tiny_idx least)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (r != rank && __atomic_load_n(&j->made[r], __ATOMIC_ACQUIRE) < least) return 0;
    return 1;
}

static tllm_noloco_desc desc_of(job *j, int rank, tiny_net *net)
{
    tllm_noloco_desc d;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.theta = j->theta[rank];
    d.n = (size_t)j->n;
    d.wait_ns = j->wait_ns;
    return d;
}

static void rank_main(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    tllm_noloco *o = NULL;
    tllm_noloco_desc d = desc_of(j, rank, net);
    tllm_noloco_report r;
    tiny_rng rng = tiny_rng_make(9, (uint64_t)rank);
    tiny_status st;
    int i, s, together = 0;
    memset(&r, 0, sizeof r);
    d.group = j->group;
    d.alpha = j->alpha;
    d.beta = j->beta;
    d.gamma = j->gamma;
    d.apart = j->apart;
    d.seed = j->seed;
    if (rank == j->held && j->held) d.wait_ns *= 10;
    d.join = j->joiner && rank == j->joiner;
    while (d.join && !others_made(j, rank, 2)) pause_of(net);
    st = tllm_noloco_open(ctx, &d, &o);
    if (!st && d.join) {
        memcpy(j->copies[0][HISTORY - 1], tllm_noloco_slow(o), sizeof j->copies[0][0]);
        j->same[rank] = !memcmp(j->theta[rank], tllm_noloco_slow(o), (size_t)j->n * sizeof(float));
        for (i = 0; i < j->n; i++) j->same[rank] &= !(tllm_noloco_momentum(o)[i] != 0.0f);
        __atomic_store_n(&j->joined, 1, __ATOMIC_RELEASE);
    }
    for (s = 0; !st && s < HISTORY; s++) {
        const int go_on = j->held || j->joiner ? together < 3 : s < j->steps;
        if (!go_on) break;
        if (j->held && rank == j->held && s == 3) /* until the other replica has made two steps without it */
            while (!others_made(j, rank, 5)) pause_of(net);
        inner(j, rank, s, &rng);
        if (j->spend[rank]) tllm_noloco_spend(o, j->spend[rank]);
        st = tllm_noloco_poll(o);
        if (rank < 2 && j->joiner && s < HISTORY - 1)
            memcpy(j->copies[rank][s], tllm_noloco_slow(o), sizeof j->copies[0][0]);
        if (!st) st = tllm_noloco_outer(o, &r);
        if (st) break;
        j->ran[rank] = tiny_ctx_ran_on(ctx);
        if (j->kind && s < STEPS) memcpy(course[rank][s], tllm_noloco_slow(o), sizeof course[0][0]);
        if (!s) j->first[rank] = r.step;
        if (r.step < HISTORY) j->met[rank][r.step] = r.met;
        j->late[rank] += r.late;
        j->refused[rank] += r.refused;
        j->n_met[rank] += r.met > 1;
        if (r.with >= 0) j->met_mask[rank] |= (uint64_t)1 << r.with;

        if (j->held) together += j->late[rank] && r.met > 1;
        if (j->joiner) together += r.with == j->joiner || (rank == j->joiner && r.met > 1);
        __atomic_store_n(&j->made[rank], (tiny_idx)r.step + 1, __ATOMIC_RELEASE);
    }
    /* the others may need this one until all are done: it answers them */
    if (j->held || j->joiner) {
        (void)__atomic_add_fetch(&j->done, 1, __ATOMIC_ACQ_REL);
        while (o && __atomic_load_n(&j->done, __ATOMIC_ACQUIRE) < j->world) {
            tllm_noloco_report last;
            if (tllm_noloco_outer(o, &last)) break;
        }
    }
    for (i = 0; i < j->world; i++) {
        j->bytes[rank] += net->count[i].bytes_sent;
        j->messages[rank] += net->count[i].messages_sent;
    }
    if (!st) st = tllm_noloco_leave(o, t->tcp || j->world % 2);
    t->st[rank] = st;
    if (o) {
        memcpy(j->phi[rank], tllm_noloco_slow(o), (size_t)j->n * sizeof(float));
        memcpy(j->momentum[rank], tllm_noloco_momentum(o), (size_t)j->n * sizeof(float));
        j->same[rank] &= !memcmp(j->theta[rank], j->phi[rank], (size_t)j->n * sizeof(float));
    }
    j->clock[rank] = r.clock;
    tllm_noloco_close(o);
}

static job job_start(int world, int n)
{
    job j;
    int r, i;
    memset(&j, 0, sizeof j);
    j.world = world;
    j.n = n;
    j.steps = 5;
    j.seed = 4;
    j.wait_ns = UINT64_C(60000000000);
    j.net.line.queue_bytes = 512;
    for (r = 0; r < world; r++) {
        j.theta[r] = t_guarded((size_t)n);
        j.phi[r] = (float *)t_keep((size_t)n * sizeof(float));
        j.momentum[r] = (float *)t_keep((size_t)n * sizeof(float));
        for (i = 0; i < n; i++) j.theta[r][i] = 1.0f + (float)(i % 3);
        j.same[r] = 1;
    }
    return j;
}
static int run_job(job *j)
{
    int i;
    j->net.body = rank_main;
    j->net.arg = j;
    if (!t_net_run(&j->net, j->world)) return 0;
    t_net_ok(&j->net);
    for (i = 0; i < j->world; i++) {
        T_WALLS(j->theta[i], j->n);
        T_TRUE(j->same[i]);
    }
    return 1;
}

/* ---- the formula ------------------------------------------------------------------------------------------------- */

static void test_formula(tiny_target target)
{
    static const struct {
        int world, group, n;
    } of[] = { { 2, 2, 1 }, { 2, 2, 17 }, { 4, 2, 33 }, { 3, 2, 16 }, { 4, 4, 67 }, { 6, 3, 9 } };
    size_t c;
    for (c = 0; c < T_COUNT(of); c++) {
        const int world = of[c].world, n = of[c].n, groups = world / of[c].group;
        job j = job_start(world, n);
        double phi[MOST][67], m[MOST][67], change[MOST][67];
        int s, r, i, k;
        j.group = of[c].group;
        j.net.target = target;
        for (r = 0; r < world; r++)
            for (i = 0; i < n; i++) {
                j.theta[r][i] += 0.25f * (float)r; /* they do not begin alike */
                phi[r][i] = (double)j.theta[r][i];
                m[r][i] = 0.0;
            }
        for (s = 0; s < j.steps; s++) {
            uint32_t order[MOST];
            double next[MOST][67];
            tllm_noloco_order(4, (uint64_t)s, world, order);
            for (r = 0; r < world; r++)
                for (i = 0; i < n; i++) change[r][i] = (double)((float)((i * 7 + s * 5 + r * 3) % 11) * 0.125f - 0.5f);
            for (k = 0; k < world; k++) {
                const int alone = k >= groups * of[c].group, size = alone ? 1 : of[c].group;
                r = (int)order[k];
                for (i = 0; i < n; i++) {
                    double mean = 0.0, middle = 0.0;
                    int g;
                    for (g = 0; g < size; g++) {
                        const int q = alone ? r : (int)order[k % groups + g * groups];
                        mean += change[q][i] / size;
                        middle += phi[q][i] / size;
                    }
                    m[r][i] = 0.5 * m[r][i] + 0.7 * mean + 0.7 * (middle - phi[r][i]);
                    next[r][i] = phi[r][i] + m[r][i];
                }
            }
            for (r = 0; r < world; r++)
                for (i = 0; i < n; i++) phi[r][i] = next[r][i];
        }
        if (!run_job(&j)) return;
        for (r = 0; r < world && target != TINY_TARGET_AMX; r++) T_EQ_INT(j.ran[r], target);
        for (r = 0; r < world; r++)
            for (i = 0; i < n; i++)
                if (!T_CLOSE(j.phi[r][i], phi[r][i], 2e-5) || !T_CLOSE(j.momentum[r][i], m[r][i], 2e-5)) break;
        t_free_blocks();
    }
    T_PROOF("distributed 6", "slow weights and momenta follow the formula, pairs, triples, all, an odd one out");
}

/* two replicas with equal phi: gamma changes no bit, and the result is DiLoCo */
static void test_diloco(tiny_target target)
{
    float first[40], phi[40], m[40];
    int g, i, s;
    for (g = 0; g < 2; g++) {
        job j = job_start(2, 40);
        j.net.target = target;
        j.gamma = g ? 1.2 : 0.7;
        for (i = 0; i < 40; i++) {
            phi[i] = j.theta[0][i];
            m[i] = 0.0f;
        }
        if (!run_job(&j)) return;
        T_SAME(j.phi[0], j.phi[1], 40);
        if (!g) memcpy(first, j.phi[0], sizeof first);
        T_SAME(j.phi[0], first, 40);
        for (s = 0; s < j.steps; s++)
            for (i = 0; i < 40; i++) {
                /* theta is rounded, so the change is that of floats */
                const float a = (phi[i] + ((float)((i * 7 + s * 5) % 11) * 0.125f - 0.5f)) - phi[i],
                            b = (phi[i] + ((float)((i * 7 + s * 5 + 3) % 11) * 0.125f - 0.5f)) - phi[i];
                m[i] = 0.5f * m[i] + 0.7f * ((a + b) * 0.5f);
                phi[i] += m[i];
            }
        for (i = 0; i < 40; i++) T_CLOSE(j.phi[0][i], phi[i], target == TINY_TARGET_REFERENCE ? 0.0 : 2e-6);
        t_free_blocks();
    }
    T_PROOF("distributed 6", "two replicas that begin alike are DiLoCo");
}

/* the changes do not depend on phi here: the mean of all phi then has nothing of gamma; all replicas meet */
static void test_mean(void)
{
    static const double gamma[4] = { 0.6, 1.3, 1.4, 2.2 };
    double mean[4][12], spread[4] = { 0, 0, 0, 0 };
    int g, r, i;
    for (g = 0; g < 4; g++) {
        job j = job_start(8, 12);
        j.steps = g < 2 ? 40 : 150;
        j.gamma = gamma[g];
        j.apart = g == 3 ? -1.0 : 0.0;      /* they drift apart */
        for (r = 0; r < 8; r++)
            for (i = 0; i < 12; i++) j.theta[r][i] += (float)r;
        if (!run_job(&j)) return;
        for (i = 0; i < 12; i++) {
            for (mean[g][i] = 0.0, r = 0; r < 8; r++) mean[g][i] += (double)j.phi[r][i] / 8;
            for (r = 0; r < 8; r++) spread[g] += fabs((double)j.phi[r][i] - mean[g][i]) / 96;
        }
        for (r = 0; r < 8; r++) T_EQ_INT(j.met_mask[r] | (uint64_t)1 << r, 255); /* no fixed pairs */
        t_free_blocks();
    }
    for (i = 0; i < 12; i++) T_CLOSE(mean[0][i], mean[1][i], 1e-5 * fabs(mean[0][i]));
    T_TRUE(spread[2] < 20.0 && spread[3] > 1000.0); /* inside the bound, 0.5 to 1.5, and outside */
    T_PROOF("distributed 6", "the mean of all replicas does not depend on gamma");
}

static void test_counts(void)
{
    int world, strict;
    for (world = 2; world <= 8; world += 2)
        for (strict = 0; strict < 2; strict++) {
            job j = job_start(world, 300);
            int r;
            j.steps = 4;
            if (strict) j.wait_ns = UINT64_MAX;
            if (!run_job(&j)) return;
            for (r = 0; r < world; r++) { /* without a deadline phi for the step after the last one has left already */
                T_EQ_INT(j.messages[r] - (strict && j.messages[r] == 9), strict ? 8 : 16);
                if (strict) T_TRUE(j.bytes[r] >= 4 * 8 * 300 && j.bytes[r] <= 4 * 8 * 300 + 4 * 300);
                else T_EQ_INT(j.bytes[r], 4 * (8 * 300 + 2 * 8));
            }
            t_free_blocks();
        }
    T_PROOF("distributed 6", "2 messages and twice the parameters for an outer step, whatever the world");
}

static void test_tcp(void)
{
    float first[4][20];
    int tcp, r;
    for (tcp = 0; tcp < 2; tcp++) {
        job j = job_start(4, 20);
        j.net.tcp = tcp;
        if (!run_job(&j)) return;
        for (r = 0; r < 4; r++) {
            if (!tcp) memcpy(first[r], j.phi[r], sizeof first[r]);
            T_SAME(j.phi[r], first[r], 20);
        }
        t_free_blocks();
    }
}

/* 10 dimensions, 8 replicas, 50 steps of noisy descent between outer steps, the mean over the second half of 200: the
 * published spreads (deviation over replicas) and distances of the mean from the optimum. all: DiLoCo */
static void test_quadratic(void)
{
    static const struct {
        double gamma, rate;
        int fall, all;
        double spread, within, away;
    } of[] = { { -1.0, 0.02, 0, 0, 0.077, 0.006, 0.026 }, { 0.7, 0.02, 0, 0, 0.039, 0.004, 0.026 },
               { 1.4, 0.02, 0, 0, 0.038, 0.008, 0.026 },  { 0.7, 0.01, 0, 0, 0.025, 0.005, 0.018 },
               { 0.7, 0.02, 1, 0, 0.0013, 0.0013, 0.0 },  { 0.7, 0.02, 0, 1, 0.0, 0.0, 0.020 },
               { 2.5, 0.02, 0, 0, 0.0, 0.0, 0.0 } };
    size_t c;
    for (c = 0; c < T_COUNT(of); c++) {
        const int last = of[c].fall || of[c].gamma >= 2.0;
        job j = job_start(8, 10);
        double spread = 0.0, away = 0.0;
        int r, i, s, n = 0;
        j.steps = STEPS;
        j.kind = 1;
        j.inner = 50;
        j.rate = of[c].rate;
        j.fall = of[c].fall;
        j.gamma = of[c].gamma;
        j.apart = of[c].gamma >= 2.0 ? -1.0 : 0.0;
        j.wait_ns = UINT64_MAX;
        if (of[c].all) {
            j.group = 8;
            j.alpha = 0.3;
        }
        if (!run_job(&j)) return;
        for (s = last ? STEPS - 1 : STEPS / 2; s < STEPS; s++, n++)
            for (i = 0; i < 10; i++) {
                double mean = 0.0, square = 0.0;
                for (r = 0; r < 8; r++) mean += (double)course[r][s][i] / 8;
                for (r = 0; r < 8; r++)
                    square += ((double)course[r][s][i] - mean) * ((double)course[r][s][i] - mean) / 8;
                spread += sqrt(square) / 10;
                away += (mean - 1.0) * (mean - 1.0) / 10;
            }
        spread /= n;
        away = sqrt(away / n);
        if (of[c].gamma >= 2.0) T_TRUE(spread > 1.0); /* it grows without end */
        else if (!T_CLOSE(spread, of[c].spread, of[c].within + 1e-7) || (!last && !T_CLOSE(away, of[c].away, 0.006)))
            printf("  gamma %g, rate %g: spread %.4f, mean %.4f away\n", of[c].gamma, of[c].rate, spread, away);
        t_free_blocks();
    }
    T_PROOF("distributed 6",
            "spreads on a quadratic; too large a gamma diverges; the spread falls with the rate; DiLoCo has none");
}

/* ---- trouble ----------------------------------------------------------------------------------------------------- */

/* A replica is held back until the other one's deadline is over: both make that step alone, and meet again later. On a
 * machine that is so busy that a deadline is over elsewhere too, they do not meet again: once more. */
static void test_late(void)
{
    int again, good = 0;
    for (again = 0; again < 10 && !good; again++) {
        job j = job_start(2, 6);
        int s, both = 0, differ = 0, skipped = 0;
        j.held = 1;
        j.wait_ns = WAIT;
        if (!run_job(&j)) return;
        for (s = 0; s < HISTORY; s++) {
            if (j.met[0][s] && j.met[1][s]) differ += j.met[0][s] != j.met[1][s];
            both += j.met[0][s] == 2 && j.met[1][s] == 2;
            skipped += j.met[0][s] == 1 && !j.met[1][s];
        }
        T_EQ_INT(differ, 0);                /* never one with the other and the other alone */
        /* the late one does not repeat what the other one gave up */
        good = both >= 3 && skipped >= 1 && j.late[0] >= 1;
        t_free_blocks();
    }
    T_TRUE(good);
    T_PROOF("distributed 6", "after a deadline both replicas make the step alone, and meet again later");
}

/* Rank 1 ends at each of its first messages: the others go on. Then a number that is infinite. */
static void test_faults(void)
{
    int k;
    for (k = 0; k < 10; k++) {
        job j = job_start(3, 200);
        j.net.has_fault = 1;
        j.net.fault.to = -1;
        j.net.fault.message = (uint64_t)k;
        j.net.fault.kind = TINY_FAULT_KILL;
        j.steps = 8;
        if (!run_job(&j)) return;
        T_TRUE(j.n_met[0] >= 1 && j.n_met[2] >= 1);
        t_free_blocks();
    }
    for (k = 0; k < 2; k++) {
        job j = job_start(2, 3000);         /* 1.0 with its highest exponent bit is infinite */
        j.net.has_fault = 1;
        j.net.fault.to = 0;
        j.net.fault.message = 2;
        j.net.fault.kind = TINY_FAULT_FLIP;
        j.net.fault.by = k ? 32 * 2499 + 30 : 30;
        if (!run_job(&j)) return;
        T_EQ_INT(j.refused[0], 1);
        T_EQ_INT(j.met[0][0], 1);
        T_EQ_INT(j.met[1][0], 2);
        T_EQ_INT(j.met[0][1], 2);
        t_free_blocks();
    }
    T_PROOF("distributed 6", "bad input: a replica that ends, numbers that are not finite");
}

/* Rank 1 sends a word that no replica sends: a step that is a billion years away, or a kind that does not exist. Or it
 * is ready for step 0 and then says nothing. Rank 0 goes on without it, and waits for it once at most. */
static void liar_rank(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    tllm_noloco_desc d = desc_of(j, 0, net);
    tllm_noloco_report r;
    tllm_noloco *o = NULL;
    unsigned char word[8];
    int s;
    if (rank) {
        tiny_message m;
        memset(&m, 0, sizeof m);
        for (s = 0; s < 8; s++) word[s] = (unsigned char)(j->spend[0] >> 8 * s);
        m.tag = 0x4e4c77;
        m.data = word;
        m.n = 8;
        while (!m.whole && !net->send(net, 0, &m)) {}
        __atomic_store_n(&j->joined, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&j->done, __ATOMIC_ACQUIRE)) pause_of(net);
        return;
    }
    while (!__atomic_load_n(&j->joined, __ATOMIC_ACQUIRE)) pause_of(net);
    t->st[0] = tllm_noloco_open(ctx, &d, &o);
    for (s = 0; s < 2 && !t->st[0]; s++) {
        t->st[0] = tllm_noloco_outer(o, &r);
        j->n_met[0] += r.met;
        j->late[0] += r.late;
        j->first[0] = r.step;
    }
    __atomic_store_n(&j->done, 1, __ATOMIC_RELEASE);
    tllm_noloco_close(o);
}
static void test_liar(void)
{
    static const uint64_t words[3] = { UINT64_MAX << 8 | 2, 77, 0 };
    int k;
    for (k = 0; k < 3; k++) {
        job j = job_start(2, 8);
        if (k == 2) j.wait_ns = WAIT;
        j.spend[0] = words[k];
        j.net.body = liar_rank;
        j.net.arg = &j;
        if (!t_net_run(&j.net, 2)) return;
        t_net_ok(&j.net);
        T_EQ_INT(j.n_met[0], 2);
        T_EQ_INT(j.first[0], 1);
        T_EQ_INT(j.late[0], k == 2);
        t_free_blocks();
    }
    T_PROOF("distributed 6", "bad input: words that no replica sends, a replica that is ready and then silent");
}

/* Two numbers: rank 0 has phi (3, 4), of norm 5, and rank 1 has (3, 4 + d). Rank 1 changes theta by (0, e), and rank 0
 * by (0, c). */
typedef struct distance { double apart, d, e, c; int refuses; const char *says; } distance;
static void distance_rank(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    const distance *of = (const distance *)(const void *)j->theta[2];
    float x[2] = { 3.0f, 4.0f };
    tllm_noloco_desc d;
    tllm_noloco_report r;
    tllm_noloco *o = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&r, 0, sizeof r);
    if (rank) x[1] += (float)of->d;
    d.net = net;
    d.theta = x;
    d.n = 2;
    d.wait_ns = j->wait_ns;
    d.apart = rank ? -1.0 : of->apart;
    st = tllm_noloco_open(ctx, &d, &o);
    x[1] += (float)(rank ? of->e : of->c);
    if (!st) st = tllm_noloco_outer(o, &r);
    j->met[rank][0] = r.met;
    j->refused[rank] = r.refused;
    j->late[rank] = r.liar;
    j->theta[rank][0] = x[1];
    t->st[rank] = st;
    st = tllm_noloco_leave(o, 1);           /* which leaves the sentence of the refusal */
    if (!t->st[rank]) t->st[rank] = st;
    tllm_noloco_close(o);
}
static void test_apart(void)
{
    static const distance of[] = {
        { 0.5, 2.5, 0.0, 0.0, 0, NULL },
        { 0.5, -2.5, 0.0, 0.0, 0, NULL },
        { 0.5, 2.53125, 0.0, 0.0, 1,
          "replica 1 is 2.531 away from that of replica 0 in outer step 0; at most 2.5 is believed (apart 0.5)" },
        { 0.5, 0.0, 2.5, 0.0, 0, NULL },
        { 0.5, 0.0, -2.53125, 0.0, 1, "the change of replica 1 is 2.531 away from that of replica 0" },
        { 0.5, 4.0, 0.0, 4.0, 0, NULL },
        { 0.5, 5.0, 0.0, 4.0, 1, "at most 4.5 is believed" },
        { 0.0, 496.0, 0.0, 0.0, 0, NULL },
        { 0.0, 504.0, 0.0, 0.0, 1,
          "phi of replica 1 is 504 away from that of replica 0 in outer step 0; at most 500 is believed (apart 100)" },
        { 0.0, 0.0, 3e38, 0.0, 1, "at most 500 is believed" },
        { -1.0, 3e30, 0.0, 0.0, 0, NULL }
    };
    size_t k;
    for (k = 0; k < T_COUNT(of); k++) {
        distance one = of[k];
        job j = job_start(2, 2);
        const double mean = 0.7 * (of[k].refuses ? of[k].c : 0.5 * (of[k].d + of[k].e + of[k].c));
        j.theta[2] = (float *)(void *)&one;
        j.net.body = distance_rank;
        j.net.arg = &j;
        if (!t_net_run(&j.net, 2)) return;
        T_EQ_INT(j.net.st[0], of[k].refuses ? TINY_E_PROTOCOL : TINY_OK);
        T_EQ_INT(j.net.st[1], TINY_OK);
        if (of[k].refuses && !T_TRUE(strstr(j.net.says[0], of[k].says) != NULL)) printf("  \"%s\"\n", j.net.says[0]);
        T_EQ_INT(j.met[0][0], of[k].refuses ? 1 : 2);
        T_EQ_INT(j.met[1][0], 2);           /* it believes everything */
        T_EQ_INT(j.refused[0], of[k].refuses);
        T_EQ_INT(j.late[0], of[k].refuses ? 2 : 0);
        T_EQ_INT(j.late[1], 0);
        T_CLOSE(j.theta[0][0], 4.0 + mean, 1e-6 * (4.0 + fabs(mean)));
        t_free_blocks();
    }
    T_PROOF("distributed 6", "bad input: numbers that are finite and too far are refused, with the replica's name");
}

/* Rank 1 flips the exponent of a number that it sends at step 0: 3.7e19 for 2, or a change of -4e37. Rank 0 makes the
 * step without it, names it, and meets it again. */
static void huge_rank(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    tllm_noloco_desc d = desc_of(j, rank, net);
    tllm_noloco_report r;
    tllm_noloco *o = NULL;
    tiny_status st;
    int s;
    st = tllm_noloco_open(ctx, &d, &o);
    for (s = 0; s < j->steps && !st; s++) {
        inner(j, rank, s, NULL);
        st = tllm_noloco_outer(o, &r);
        j->met[rank][s] = r.met;
        j->refused[rank] += r.refused;
        if (!rank && !s && st == TINY_E_PROTOCOL && r.step == 0 && r.liar == 2) st = TINY_OK;
    }
    for (s = 0; s < j->n; s++) j->same[rank] &= fabsf(j->theta[rank][s]) < 1000.0f;
    if (!st) st = tllm_noloco_leave(o, 1);
    t->st[rank] = st;
    tllm_noloco_close(o);
}
static void test_huge(void)
{
    int k, strict;
    for (strict = 0; strict < 2; strict++)
        for (k = 0; k < 2; k++) {
            job j = job_start(2, 300);
            if (strict) j.wait_ns = UINT64_MAX;
            j.net.body = huge_rank;
            j.net.arg = &j;
            j.net.has_fault = 1;
            j.net.fault.to = 0;
            j.net.fault.message = (uint64_t)(k + (strict ? 0 : 2));
            j.net.fault.kind = TINY_FAULT_FLIP;
            j.net.fault.by = k ? 30 : 32 + 29;
            if (!t_net_run(&j.net, 2)) return;
            t_net_ok(&j.net);
            T_TRUE(j.same[0] && j.same[1]);
            T_EQ_INT(j.refused[0], 1);
            T_EQ_INT(j.met[0][0], 1);
            T_EQ_INT(j.met[0][1], 2);
            T_EQ_INT(j.met[0][4], 2);
            T_TRUE(strstr(j.net.says[0], "of replica 1 is") != NULL);
            t_free_blocks();
        }
    T_PROOF("distributed 6", "bad input: huge finite numbers of a replica, which are refused");
}

static void test_join(void)
{
    int tcp;
    for (tcp = 0; tcp < 2; tcp++) {
        job j = job_start(3, 4);
        int r, s, found = 0;
        uint32_t order[4][3], asks[3];
        do {    /* ranks 0 and 1 meet in steps 0, 1, 3; in step 2 one waits for the joiner, which asks that one first */
            tiny_rng rng = tiny_rng_make(++j.seed ^ 0x6a6f696e, 2);
            tiny_rng_permutation(&rng, asks, 3);
            for (s = 0; s < 4; s++) tllm_noloco_order(j.seed, (uint64_t)s, 3, order[s]);
        } while (order[0][2] != 2 || order[1][2] != 2 || order[2][2] == 2 || order[3][2] != 2 ||
                 order[2][2] == (asks[0] == 2 ? asks[1] : asks[0]));
        j.net.tcp = tcp;
        j.joiner = 2;
        j.wait_ns = UINT64_C(2000000000);
        if (!run_job(&j)) return;
        T_TRUE(j.first[2] >= 2);           /* it goes on with the step of the others */
        for (r = 0; r < 2; r++)
            for (s = 0; s < HISTORY - 1; s++)
                found |= !memcmp(j.copies[r][s], j.copies[0][HISTORY - 1], sizeof j.copies[0][0]);
        T_TRUE(found);
        T_TRUE(j.n_met[2] >= 3);
        t_free_blocks();
    }
    T_PROOF("distributed 6", "a replica that joins gets phi from another one");
}

/* virtual clock: rank 3 computes 200 ms longer. A step later only its partner of that step is late as well. */
static void test_clock(void)
{
    uint32_t order[8];
    int r, k;
    job j = job_start(8, 250);
    j.net.line.virtual_clock = 1;
    j.net.line.latency_ns = 1000000;
    j.net.line.bits_per_second = 8e6;       /* 1000 bytes: 1 ms */
    j.steps = 1;
    j.wait_ns = UINT64_MAX;
    for (r = 0; r < 8; r++) j.spend[r] = r == 3 ? 201000000 : 1000000;
    if (!run_job(&j)) return;
    tllm_noloco_order(4, 0, 8, order);
    for (k = 0; k < 8; k++) { /* computing, two messages of 1 ms each on the line, and their way */
        const int r3 = order[k] == 3, with_3 = order[(k + 4) % 8] == 3;
        T_EQ_INT(j.clock[order[k]], r3 ? 201000000 : (with_3 ? 201000000 : 1000000) + 3000000);
    }
    t_free_blocks();
    T_PROOF("distributed 6", "a slow replica delays one other replica");
}

static int same_route(uint64_t step, uint64_t micro, int stage, uint64_t step2, uint64_t micro2, int stage2)
{
    uint32_t a[8], b[8];
    tllm_noloco_route(3, step, micro, stage, 4, 8, a);
    tllm_noloco_route(3, step2, micro2, stage2, 4, 8, b);
    return !memcmp(a, b, sizeof a);
}
/* routes of a pipeline: a permutation for each stage, micro-batch and step; the way back ends where it began */
static void test_routes(void)
{
    enum { STAGES = 4, WORLD = 5 };
    int u, q, a, moved = 0;
    for (u = 0; u < 20; u++)
        for (a = 0; a < WORLD; a++) {
            uint32_t to[STAGES][WORLD];
            int at = a, path[STAGES + 1], seen = 0;
            path[0] = a;
            for (q = 0; q < STAGES; q++) {
                tllm_noloco_route(3, 10, (uint64_t)u, q, STAGES, WORLD, to[q]);
                at = (int)to[q][at];
                path[q + 1] = at;
                moved += at != path[q];
            }
            for (q = STAGES; q-- > 0;) { /* the recorded way back */
                int from = 0;
                while ((int)to[q][from] != at) from++;
                at = from;
                T_EQ_INT(at, path[q]);
            }
            T_EQ_INT(at, a);
            for (q = 0; q < WORLD; q++) seen |= 1 << to[0][q];
            T_EQ_INT(seen, (1 << WORLD) - 1);
        }
    T_TRUE(moved > 200);
    /* the stream of the routes is (step + micro) stages + stage */
    T_TRUE(!same_route(10, 0, 0, 10, 0, 1) && !same_route(10, 0, 0, 10, 1, 0) && !same_route(10, 0, 3, 11, 0, 3));
    T_TRUE(same_route(10, 2, 1, 11, 1, 1) && same_route(10, 0, 4, 10, 1, 0));
    T_PROOF("distributed 6", "random routes of a pipeline, and back");
}

/* replicas that are done at different times leave together; the net is free for other calls then */
static void after_rank(t_net *t, int rank, tiny_ctx *ctx, tiny_net *net)
{
    job *j = (job *)t->arg;
    tllm_noloco_desc d = desc_of(j, rank, net);      /* its wait is never over: a replica that left says so */
    tllm_noloco *o = NULL;
    tiny_coll c;
    float work[4], from[4], to[4];
    tiny_status st;
    int s;
    memset(&c, 0, sizeof c);
    st = tllm_noloco_open(ctx, &d, &o);
    for (s = 0; s < (d.wait_ns == UINT64_MAX ? 3 : 2 + rank % 2) && !st; s++) st = tllm_noloco_outer(o, NULL);
    if (!st) st = tllm_noloco_leave(o, 1);
    j->sum[rank] = (float)rank;
    c.net = net;
    c.work = work;
    c.n_work = sizeof work;
    c.until = tiny_now_ns() + UINT64_C(60000000000);
    if (!st) st = tiny_coll_allreduce(ctx, &c, TINY_COMM_TREE, &j->sum[rank], 1);
    for (s = 0; s < 4; s++) from[s] = (float)(4 * rank + s);
    if (!st) st = tiny_coll_alltoall(ctx, &c, TINY_COLL_RING, from, to, 1);        /* each pair: nothing old is left */
    for (s = 0; s < 4 && !st; s++) j->same[rank] &= !(to[s] < (float)(4 * s + rank) || to[s] > (float)(4 * s + rank));
    t->st[rank] = st;
    tllm_noloco_close(o);
}
static void test_leave(void)
{
    int strict, r;
    for (strict = 0; strict < 2; strict++) {
        job j = job_start(4, 300);
        if (strict) j.wait_ns = UINT64_MAX;
        j.net.body = after_rank;
        j.net.arg = &j;
        if (!t_net_run(&j.net, 4)) return;
        t_net_ok(&j.net);
        for (r = 0; r < 4; r++) T_TRUE(j.same[r]);
        for (r = 0; r < 4; r++) T_CLOSE(j.sum[r], 6.0, 0.0);
        t_free_blocks();
    }
}

static int warnings;
static void listen(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    warnings += level == TINY_LOG_WARNING && strstr(sentence, "drift apart") != NULL;
}
static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *loud = NULL;
    tiny_ctx_desc cd;
    tiny_local_desc ld;
    tiny_local *local[3];
    tllm_noloco_desc d, ok;
    tllm_noloco *o = NULL;
    float x[4] = { 1, 2, 3, 4 };
    int i;
    static const int worlds[3] = { 1, 4, 6 };
    memset(&ld, 0, sizeof ld);
    for (i = 0; i < 3; i++) {
        ld.world = worlds[i];
        T_OK(tiny_local_open(ctx, &ld, &local[i]));
    }
    memset(&ok, 0, sizeof ok);
    ok.net = tiny_local_net(local[1], 0);
    ok.theta = x;
    ok.n = 4;
#define BAD(change, status, part)                          \
    d = ok;                                                \
    change;                                                \
    T_STATUS(tllm_noloco_open(ctx, &d, &o), status, part); \
    T_TRUE(!o)
    BAD(d.net = NULL, TINY_E_ARGUMENT, "needs the net");
    BAD(d.net = tiny_local_net(local[0], 0), TINY_E_ARGUMENT, "2 to 64 replicas are needed to meet");
    BAD(d.theta = NULL, TINY_E_ARGUMENT, "no numbers");
    BAD(d.n = 0, TINY_E_ARGUMENT, "no numbers");
    BAD(d.n = SIZE_MAX / 4, TINY_E_OVERFLOW, "more than this machine");
    BAD(d.group = 3, TINY_E_ARGUMENT, "groups of 3 among 4 replicas");
    BAD(d.group = 1, TINY_E_ARGUMENT, "groups of 1");
    BAD(d.group = 8, TINY_E_ARGUMENT, "groups of 8");
    BAD(d.beta = -1, TINY_E_ARGUMENT, "beta is -1");
    BAD(d.gamma = (double)NAN, TINY_E_ARGUMENT, "gamma is");
    BAD(d.apart = (double)NAN, TINY_E_ARGUMENT, "apart is");
    BAD(d.apart = (double)INFINITY, TINY_E_ARGUMENT, "apart is inf, it must be a number up to 1e30");
    BAD(d.join = 1; d.wait_ns = UINT64_MAX, TINY_E_ARGUMENT, "with a deadline");
    BAD(d.join = 1; d.wait_ns = 1000, TINY_E_TIMEOUT, "no replica has answered replica 0");
    x[2] = NAN;
    BAD((void)0, TINY_E_NUMERIC, "number 2 of theta is not finite");
    x[2] = 3;
    T_STATUS(tllm_noloco_open(ctx, NULL, &o), TINY_E_ARGUMENT, "a description");
    d = ok;
    d.net = tiny_local_net(local[2], 0);
    d.group = 3;
    d.wait_ns = 1000;
    T_OK(tllm_noloco_open(ctx, &d, &o));
    x[1] = INFINITY;
    T_STATUS(tllm_noloco_outer(o, NULL), TINY_E_NUMERIC, "number 1 of theta is not finite in outer step 0");
    x[1] = 2;
    T_OK(tllm_noloco_outer(o, NULL)); /* the others are not there */
    tllm_noloco_close(o);
    t_close(ctx);
    cd = t_desc(TINY_TARGET_AUTO, 1);
    cd.log = listen;
    if (!T_OK(tiny_ctx_open(&cd, &loud))) return;
    for (i = 0; i < 4; i++) {
        d = ok;
        d.gamma = i == 0 ? 0.49 : i == 1 ? 1.51 : i == 2 ? 0.51 : 1.49;
        T_OK(tllm_noloco_open(loud, &d, &o));
        tllm_noloco_close(o);
        T_EQ_INT(warnings, i == 0 ? 1 : 2);
    }
    T_EACH_ALLOCATION({
        tiny_ctx_desc each = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        if (!tiny_ctx_open(&each, &c)) {
            d = ok;
            d.wait_ns = 1000;
            o = NULL;
            if (!tllm_noloco_open(c, &d, &o)) (void)tllm_noloco_outer(o, NULL);
            tllm_noloco_close(o);
            tiny_ctx_close(c);
        }
    })
    for (i = 0; i < 3; i++) tiny_local_close(loud, local[i]);
    tiny_ctx_close(loud);
    T_PROOF("distributed 6", "bad input: one replica, groups that do not divide, gamma out of its range");
}

int main(void)
{
    T_RUN_FORMS(test_formula);
    T_RUN_FORMS(test_diloco);
    T_RUN(test_mean);
    T_RUN(test_counts);
    T_RUN(test_tcp);
    T_RUN(test_quadratic);
    T_RUN(test_late);
    T_RUN(test_faults);
    T_RUN(test_liar);
    T_RUN(test_apart);
    T_RUN(test_huge);
    T_RUN(test_join);
    T_RUN(test_clock);
    T_RUN(test_leave);
    T_RUN(test_routes);
    T_RUN(test_bad);
    return t_done();
}
