/* tests/llm/dist/ladder.c - routes of layers: which half waits for which sum
 *
 * Truth    numbers worked by hand; the schedule written out in double for scalars, in every pattern of
 *          8 halves. Times come from a virtual clock. Models: tests/llm/dist/cut.c. */
#include "t.h"

enum { MOST = 4 };

/* ---- scalars: attn(x) = 0.1 x + 1, mlp(x) = 0.2 x - 1 ------------------------------------------------------------ */

typedef struct toy {
    tiny_local *local;
    int world, layers, no_thread;
    const unsigned char *route;             /* (layers, 2) */
    double x0;
    uint64_t work;                          /* virtual ns of each half */
    float x[MOST];
    tiny_status st[MOST];
    uint64_t clock[MOST];
} toy;

/* Rank r computes the part (r + 1) / (1 + ... + world) of the product, and the last rank adds the constant. */
static double share(int half, double x, int r, int world)
{
    const double part = (double)(r + 1) / (0.5 * world * (world + 1));
    return (half ? 0.2 : 0.1) * x * part + (r == world - 1 ? half ? -1.0 : 1.0 : 0.0);
}

static void toy_rank(int rank, void *arg)
{
    toy *t = (toy *)arg;
    tiny_ctx *ctx = t_rank_ctx(t_now.target);
    tiny_comm_desc d;
    tllm_ladder a;
    float x = (float)t->x0, y[2];
    int l, half;
    memset(&a, 0, sizeof a);
    memset(&d, 0, sizeof d);
    d.net = tiny_local_net(t->local, rank);
    d.n_most = 16;
    d.no_thread = t->no_thread;
    a.ctx = ctx;
    a.n = 1;
    a.y[0] = &y[0];
    a.y[1] = &y[1];
    if (t->local) t->st[rank] = tiny_comm_open(ctx, &d, &a.comm);
    for (l = 0; l < t->layers; l++)
        for (half = 0; half < 2 && !t->st[rank]; half++) {
            const int route = t->route[2 * l + half];
            t->st[rank] = tllm_ladder_enter(&a, route, half, &x);
            y[half] = (float)share(half, (double)x, rank, t->world);
            tiny_comm_spend(a.comm, t->work);
            if (!t->st[rank]) t->st[rank] = tllm_ladder_leave(&a, route, half, l, &x);
        }
    if (!t->st[rank]) t->st[rank] = tllm_ladder_end(&a, &x);
    t->x[rank] = x;
    t->clock[rank] = tiny_comm_clock(a.comm);
    tiny_comm_close(a.comm);
    tiny_ctx_close(ctx);
}

static int run_toy(toy *t, const tiny_local_desc *line)
{
    tiny_ctx *ctx = t_ctx(t_now.target, 1);
    tiny_local_desc d;
    int ok = 1;
    memset(&d, 0, sizeof d);
    if (line) d = *line;
    d.world = t->world;
    d.queue_bytes = 4096;
    memset(t->st, 0, sizeof t->st);
    t->local = NULL;
    if (t->world > 1 || line) T_OK(tiny_local_open(ctx, &d, &t->local));
    if (t->world == 1) toy_rank(0, t);
    else ok = t_ranks(t->world, toy_rank, t);
    tiny_local_close(ctx, t->local);
    t_close(ctx);
    return ok;
}

/* all ranks at once, in double, from the definition */
static void plain_toy(const toy *t, double *x)
{
    double flight[2] = { 0.0, 0.0 };
    int flies[2] = { 0, 0 }, l, half, r, k;
    for (r = 0; r < t->world; r++) x[r] = t->x0;
    for (l = 0; l < t->layers; l++)
        for (half = 0; half < 2; half++) {
            const int route = t->route[2 * l + half];
            double y[MOST], sum = 0.0;
            for (k = 0; k < 2; k++)
                if (flies[k] && (route != TLLM_ROUTE_LADDER || k == half)) {
                    for (r = 0; r < t->world; r++) x[r] += flight[k];
                    flies[k] = 0;
                }
            for (r = 0; r < t->world; r++) sum += y[r] = share(half, x[r], r, t->world);
            if (route == TLLM_ROUTE_LADDER) { flight[half] = sum; flies[half] = 1; }
            if (route == TLLM_ROUTE_STANDARD) for (r = 0; r < t->world; r++) x[r] += sum;
            if (route == TLLM_ROUTE_LOCAL) for (r = 0; r < t->world; r++) x[r] += y[r];
            if (route == TLLM_ROUTE_JOIN) {
                for (r = 0; r < t->world; r++) sum += x[r] / t->world;
                for (r = 0; r < t->world; r++) x[r] = sum;
            }
        }
    for (r = 0; r < t->world; r++) x[r] += (flies[0] ? flight[0] : 0.0) + (flies[1] ? flight[1] : 0.0);
}

/* x = 10, two layers: standard 17.888, ladder 16.8 */
static void test_worked(tiny_target target)
{
    static const unsigned char standard[4] = { 0, 0, 0, 0 }, ladder[4] = { 1, 1, 1, 1 };
    toy t;
    int r;
    memset(&t, 0, sizeof t);
    t.layers = 2;
    t.x0 = 10.0;
    for (t.world = 1; t.world <= MOST; t.world *= 2) {
        t.route = standard;
        if (!run_toy(&t, NULL)) return;
        for (r = 0; r < t.world; r++) {
            T_EQ_INT(t.st[r], TINY_OK);
            T_CLOSE(t.x[r], 17.888, 4e-6);
            T_SAME(&t.x[r], &t.x[0], 1);
        }
        t.route = ladder;
        if (!run_toy(&t, NULL)) return;
        for (r = 0; r < t.world; r++) {
            T_EQ_INT(t.st[r], TINY_OK);
            T_CLOSE(t.x[r], 16.8, 4e-6);
            T_SAME(&t.x[r], &t.x[0], 1);
        }
    }
    (void)target;                           /* the workers read t_now */
    T_PROOF("attention 8", "scalars: standard 17.888, ladder 16.8");
}

/* 4 layers, each half standard or ladder: 256 patterns; then all routes, in patterns where the ranks end together */
static void test_patterns(tiny_target target)
{
    toy t;
    unsigned char route[8];
    double want[MOST];
    int code, i, r, differs = 0;
    float standard = 0.0f;
    memset(&t, 0, sizeof t);
    t.layers = 4;
    t.x0 = 3.0;
    t.route = route;
    for (t.world = 1; t.world <= 2; t.world++)
        for (code = 0; code < 256; code++) {
            for (i = 0; i < 8; i++) route[i] = code >> i & 1 ? TLLM_ROUTE_LADDER : TLLM_ROUTE_STANDARD;
            t.no_thread = code % 2;
            if (!run_toy(&t, NULL)) return;
            plain_toy(&t, want);
            for (r = 0; r < t.world; r++) {
                T_EQ_INT(t.st[r], TINY_OK);
                T_CLOSE(t.x[r], want[r], 1e-5);
                T_SAME(&t.x[r], &t.x[0], 1);
            }
            if (!code) standard = t.x[0];
            differs += fabsf(t.x[0] - standard) > 1e-3f;
        }
    T_TRUE(differs > 400);                  /* they are other functions */
    for (t.world = 1; t.world <= MOST; t.world *= 2)
        for (code = 0; code < 2187; code += t.world == 1 ? 1 : 29) {
            int c = code, parted = 0;
            for (i = 0; i < 7; i++, c /= 3) {
                route[i] = (unsigned char)(c % 3 == 0   ? TLLM_ROUTE_LOCAL
                                           : c % 3 == 1 ? TLLM_ROUTE_JOIN
                                           : parted     ? TLLM_ROUTE_JOIN
                                           : i % 2      ? TLLM_ROUTE_LADDER
                                                        : TLLM_ROUTE_STANDARD);
                parted = route[i] == TLLM_ROUTE_LOCAL || (parted && route[i] != TLLM_ROUTE_JOIN);
            }
            route[7] = TLLM_ROUTE_JOIN;
            if (!run_toy(&t, NULL)) return;
            plain_toy(&t, want);
            for (r = 0; r < t.world; r++) {
                T_EQ_INT(t.st[r], TINY_OK);
                T_CLOSE(t.x[r], want[r], 2e-5);
                T_SAME(&t.x[r], &t.x[0], 1);
            }
            if (t.world == 1) {             /* alone, both are standard */
                double x = t.x0;
                for (i = c = 0; i < 8; i++) c |= route[i] == TLLM_ROUTE_LADDER;
                for (i = 0; i < 8; i++) x += share(i % 2, x, 0, 1);
                if (!c) T_CLOSE(t.x[0], x, 1e-5);
            }
        }
    (void)target;                           /* the workers read t_now */
    T_PROOF("attention 8", "border handling in every pattern of 4 layers");
}

/* 8 layers on a virtual clock, t of arithmetic and c of a sum for each half. Standard: 16 (t + c). Ladder: the
 * recurrence below, which is near 16 max(t, c) where sums follow each other on the line, and near 16 max(t, (t + c) /
 * 2) where they are in flight together. Both with the comm's thread and without: the order of the program decides. */
static void test_overlap(void)
{
    static const struct {
        uint64_t work, latency, wire;
    } k[] = { { 100, 0, 0 },    { 1000, 10, 0 },   { 1000, 1000, 0 }, { 1000, 4000, 0 },
              { 1000, 0, 250 }, { 1000, 0, 1000 }, { 1000, 0, 3000 }, { 700, 300, 400 } };
    unsigned char route[16];
    size_t i;
    int thread;
    for (i = 0; i < T_COUNT(k); i++)
        for (thread = 0; thread < 2; thread++) {
            const double t1 = (double)k[i].work, c = (double)(k[i].latency + k[i].wire), both = t1 + c;
            double now = 0.0, end[2] = { 0.0, 0.0 }, line = 0.0, most;
            tiny_local_desc d;
            toy t;
            int h;
            memset(&d, 0, sizeof d);
            memset(&t, 0, sizeof t);
            d.latency_ns = k[i].latency;
            d.bits_per_second = k[i].wire ? 8e9 * 4.0 / (double)k[i].wire : 0.0;    /* 4 bytes in that many ns */
            d.virtual_clock = 1;
            t.world = 2;
            t.layers = 8;
            t.route = route;
            t.work = k[i].work;
            t.no_thread = !thread;
            memset(route, TLLM_ROUTE_STANDARD, sizeof route);
            if (!run_toy(&t, &d)) return;
            T_CLOSE((double)t.clock[0], 16.0 * both, 16.0);
            T_EQ_INT(t.clock[1], t.clock[0]);
            memset(route, TLLM_ROUTE_LADDER, sizeof route);
            if (!run_toy(&t, &d)) return;
            for (h = 0; h < 16; h++) {
                now = (now > end[h % 2] ? now : end[h % 2]) + t1;
                line = (now > line ? now : line) + (double)k[i].wire;
                end[h % 2] = line + (double)k[i].latency;
            }
            if (end[0] > now) now = end[0];
            if (end[1] > now) now = end[1];
            T_CLOSE((double)t.clock[0], now, 16.0);
            T_EQ_INT(t.clock[1], t.clock[0]);
            most = k[i].latency ? t1 > 0.5 * both ? t1 : 0.5 * both : t1 > c ? t1 : c;
            /* a beginning and an end */
            if (!k[i].latency || !k[i].wire) T_CLOSE((double)t.clock[0], 16.0 * most, both);
        }
}

int main(void)
{
    T_RUN_TARGETS(test_worked);
    T_RUN_TARGETS(test_patterns);
    T_RUN(test_overlap);
    return t_done();
}
