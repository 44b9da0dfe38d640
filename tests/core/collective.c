/* tests/core/collective.c - collective calls over threads and over TCP
 *
 * Truth    serial sums; the table of costs of the textbooks, worked by hand for 8 ranks, against the virtual clock and
 *          the counts; permutations that are undone again. Faults come from core/fault.h. No test reads the wall
 *          clock: deadlines of a minute only end a test that hangs. */
#include "t.h"

enum { MOST = 16 };
static const char secret[] = "correct horse battery staple";

typedef struct job {
    int world, tcp, way, n, op, kind, root;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    int socket_bytes;
    tiny_fault_at fault;                    /* of rank 1, if has_fault */
    int has_fault;
    uint64_t jitter, until, seed;
    int only;                               /* the rank that has the jitter; 0: all */
    double add_ns;
    void *x[MOST];
    tiny_status st[MOST], later[MOST];
    char says[MOST][240];
    int gone[MOST], wrong[MOST];
    uint64_t clock[MOST], messages[MOST], bytes[MOST];
    tiny_coll_choice choice[MOST];
    void (*run)(struct job *j, int rank, tiny_ctx *ctx, tiny_coll *c);
} job;

static void rank_main(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    tiny_coll c;
    int i;
    memset(&c, 0, sizeof c);
    j->st[rank] = TINY_OK;
    if (j->tcp) {
        tiny_tcp_desc d;
        memset(&d, 0, sizeof d);
        d.rank = rank;
        d.world = j->world;
        d.peers = j->peers;
        d.listener = j->at[rank];
        d.secret = secret;
        d.n_secret = sizeof secret - 1;
        d.no_mac = j->seed % 2 == 0;
        d.socket_bytes = j->socket_bytes;
        j->st[rank] = tiny_tcp_open(ctx, &d, &tcp);
        c.net = tiny_tcp_net(tcp);
    } else c.net = tiny_local_net(j->local, rank);
    if (!j->st[rank] && ((j->jitter && (!j->only || rank == j->only)) || (j->has_fault && rank == 1))) {
        tiny_fault_desc d;
        memset(&d, 0, sizeof d);
        d.inner = c.net;
        d.at = &j->fault;
        d.n_at = j->has_fault && rank == 1;
        d.jitter_ns = j->jitter;
        d.seed = j->seed + (uint64_t)rank * 77;
        j->st[rank] = tiny_fault_open(ctx, &d, &fault);
        c.net = tiny_fault_net(fault);
    }
    if (!j->st[rank]) {
        tiny_net *net = c.net;
        c.n_work = tiny_coll_work(j->world, (size_t)j->n + 1, 8);
        if (j->kind == 99 && c.n_work < TINY_COLL_PROBE_WORK) c.n_work = TINY_COLL_PROBE_WORK;
        c.work = malloc(c.n_work);
        c.until = j->until ? j->until : tiny_now_ns() + UINT64_C(60000000000);
        c.add_ns = j->add_ns;
        j->run(j, rank, ctx, &c);
        (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
        j->gone[rank] = net->gone;
        j->clock[rank] = c.clock;
        for (i = 0; i < j->world; i++) {
            j->messages[rank] += net->count[i].messages_sent;
            j->bytes[rank] += net->count[i].bytes_sent;
        }
        net->close(net);
        free(c.work);
    }
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

/* 0: there are no threads */
static int run_job(job *j, int world, const tiny_local_desc *like)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    j->world = world;
    memset(j->messages, 0, sizeof j->messages);
    memset(j->bytes, 0, sizeof j->bytes);
    if (j->tcp)
        for (i = 0; i < world; i++) {
            tiny_address a;
            tiny_socket at[TINY_ADDRESSES];
            ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
            j->at[i] = at[0];
            tiny_address_text(&a, j->address[i]);
            j->peers[i] = j->address[i];
        }
    else {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        if (like) d = *like;
        d.world = world;
        if (!d.queue_bytes) d.queue_bytes = 65536;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    ok = ok && t_ranks(world, rank_main, j);
    tiny_local_close(ctx, j->local);
    j->local = NULL;
    for (i = 0; j->tcp && i < world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}
static void all_ok(const job *j)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d of %d: %s\n", r, j->world, j->says[r]);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void run_sum(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    c->type = j->kind;
    c->op = j->op;
    j->st[rank] = tiny_coll_allreduce(ctx, c, j->way, j->x[rank], (size_t)j->n);
}

/* kind 0: f32 with small whole numbers, 1: i64, 2: u8, 3: random f32, 4: f32 maximum */
static void check_sum(job *j, int world, int way, int n, int kind)
{
    const size_t size = kind == 1 ? 8 : kind == 2 ? 1 : 4;
    void *was[MOST];
    int r, i;
    j->run = run_sum;
    j->way = way;
    j->n = n;
    j->kind = kind == 1 ? TINY_COLL_I64 : kind == 2 ? TINY_COLL_U8 : TINY_COLL_F32;
    j->op = kind == 2 ? TINY_COLL_OR : kind == 4 ? TINY_COLL_MAX : TINY_COLL_SUM;
    for (r = 0; r < world; r++) {
        j->x[r] = t_guarded_bytes((size_t)n * size);
        for (i = 0; i < n; i++) {
            if (kind == 1) ((int64_t *)j->x[r])[i] = (int64_t)t_rand_u64();
            else if (kind == 2) ((unsigned char *)j->x[r])[i] = (unsigned char)(1u << t_rand_below(9));
            else ((float *)j->x[r])[i] = kind == 0 ? (float)t_rand_below(1000) : t_rand_float(-3.0f, 3.0f);
        }
        was[r] = t_keep((size_t)n * size + 1);
        memcpy(was[r], j->x[r], (size_t)n * size);
    }
    if (!run_job(j, world, NULL)) return;
    all_ok(j);
    for (i = 0; i < n; i++) {
        double s = 0.0, abs = 0.0, most = -1e30;
        uint64_t whole = 0;
        unsigned bits = 0;
        for (r = 0; r < world; r++) {
            if (kind == 1) whole += (uint64_t)((int64_t *)was[r])[i];
            else if (kind == 2) bits |= ((unsigned char *)was[r])[i];
            else {
                const double v = (double)((float *)was[r])[i];
                s += v;
                abs += fabs(v);
                if (v > most) most = v;
            }
        }
        if (!(kind == 1   ? T_TRUE((uint64_t)((int64_t *)j->x[0])[i] == whole)
              : kind == 2 ? T_EQ_INT(((unsigned char *)j->x[0])[i], bits)
                          : T_CLOSE(((float *)j->x[0])[i], kind == 4 ? most : s, kind == 3 ? 1e-5 * abs / 3 : 0.0))) {
            printf("  %d ranks, way %d, element %d of %d, kind %d\n", world, way, i, n, kind);
            break;
        }
    }
    for (r = 0; r < world; r++) {
        T_SAME((char *)j->x[r], (char *)j->x[0], (size_t)n * size);
        T_WALLS(j->x[r], n);
    }
}

static const int worlds[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16 };
static void test_sums(void)
{
    size_t w;
    int way, k;
    for (w = 0; w < T_COUNT(worlds); w++)
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
            const int p = worlds[w], sizes[] = { 0, 1, 3, p - 1, p, p + 1, 1000 };
            for (k = 0; k < 7; k++) {
                job j;
                memset(&j, 0, sizeof j);
                check_sum(&j, p, way, sizes[k], (k + way + p) % 5);
                check_sum(&j, p, way, sizes[k], (k + way + p + 2) % 5);
                t_free_blocks();
            }
        }
    T_PROOF("distributed 0", "sums agree with a serial sum, the same bits on all ranks, 1 to 9 and 16 ranks");
}
static void test_long_sums(void)
{
    static const struct { int p, way; } of[] = { { 2, TINY_COMM_DOUBLING },
                                                 { 3, TINY_COMM_RING },
                                                 { 4, TINY_COMM_STAR },
                                                 { 5, TINY_COMM_TREE },
                                                 { 7, TINY_COMM_HALVING } };
    size_t k;
    for (k = 0; k < T_COUNT(of); k++) {
        job j;
        memset(&j, 0, sizeof j);
        check_sum(&j, of[k].p, of[k].way, 1000000, k % 2 ? 0 : 3);
        t_free_blocks();
    }
}

/* 10^6 whole numbers for every number of ranks and every way. Rank r has (7 i + 13 r) mod 1000, so that the exact sum
 * is known without a copy. */
static void test_million(void)
{
    enum { N = 1000000 };
    float *x[MOST], *want = t_guarded(N);
    tiny_local_desc line;
    size_t w;
    int way, r, i;
    if (T_SLOW) { t_skip("sums of 10^6 numbers on 61 ranks"); return; }
    memset(&line, 0, sizeof line);
    line.queue_bytes = 1 << 18;
    for (r = 0; r < 16; r++) x[r] = t_guarded(N);
    for (w = 0; w < T_COUNT(worlds); w++) {
        int first = 0;
        for (i = 0; i < N; i++) {
            int sum = 0;
            for (r = 0; r < worlds[w]; r++) {
                const int v = first + 13 * r;
                sum += v < 1000 ? v : v - 1000;
            }
            want[i] = (float)sum;
            first += first < 993 ? 7 : -993;
        }
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
            const int p = worlds[w];
            int bad = 0;
            job j;
            memset(&j, 0, sizeof j);
            j.run = run_sum;
            j.way = way;
            j.n = N;
            j.kind = TINY_COLL_F32;
            j.op = TINY_COLL_SUM;
            for (r = 0; r < p; r++) {
                int v = 13 * r % 1000;
                j.x[r] = x[r];
                for (i = 0; i < N; i++) {
                    x[r][i] = (float)v;
                    v += v < 993 ? 7 : -993;
                }
            }
            if (!run_job(&j, p, &line)) return;
            all_ok(&j);
            for (r = 0; r < p; r++) bad += memcmp(x[r], want, N * sizeof(float)) != 0;
            if (!T_EQ_INT(bad, 0)) printf("  %d ranks, way %d\n", p, way);
            for (r = 0; r < p; r++) T_WALLS(x[r], N);
        }
    }
    T_PROOF("distributed 0", "sums of 10^6 numbers, 1 to 9 and 16 ranks, every way: exact, the same bits on all ranks");
}
static void test_tcp_sums(void)
{
    int p, way, k;
    for (p = 2; p <= 5; p++)
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
            for (k = 0; k < 3; k++) {
                job j;
                memset(&j, 0, sizeof j);
                j.tcp = 1;
                j.seed = (uint64_t)(p + k);
                check_sum(&j, p, way, k == 0 ? 0 : k == 1 ? p + 1 : 20000, k == 0 ? 3 : (way + k) % 5);
                t_free_blocks();
            }
    T_PROOF("distributed 0", "sums over TCP");
}

/* the bits do not depend on when messages come */
static void test_jitter(void)
{
    int way, tcp, again;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
        static float first[777];
        for (tcp = 0; tcp < 2; tcp++)
            for (again = 0; again < 3; again++) {
                job j;
                int r;
                memset(&j, 0, sizeof j);
                j.tcp = tcp;
                j.jitter = again ? 300000 : 0;
                j.seed = (uint64_t)again;
                j.run = run_sum;
                j.way = way;
                j.n = 777;
                t_now.rand_at = 5;
                for (r = 0; r < 5; r++) j.x[r] = t_rand(777, -3.0f, 3.0f);
                if (!run_job(&j, 5, NULL)) return;
                all_ok(&j);
                if (!tcp && !again) memcpy(first, j.x[0], sizeof first);
                for (r = 0; r < 5; r++) T_SAME((float *)j.x[r], first, 777);
                t_free_blocks();
            }
    }
    T_PROOF("distributed 0", "the same bits in repeated runs with random delays");
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static int32_t mark(int from, int to, int i) { return from * 10000 + to * 100 + i % 97; }
static void run_blocks(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    const int p = j->world, n = j->n, root = j->root;
    int32_t *a = (int32_t *)malloc(((size_t)(p * n) + 1) * 4), *b = (int32_t *)malloc(((size_t)(p * n) + 1) * 4),
            *d = (int32_t *)malloc(((size_t)(p * n) + 1) * 4);
    uint64_t n_from[MOST], n_to[MOST], n_back[MOST];
    int r, i, form, wrong = 0, at;
    size_t part_at = 0, part = 0;
    tiny_status st = TINY_OK;
    /* broadcast */
    for (i = 0; i < n; i++) a[i] = rank == root ? mark(root, 7, i) : -1;
    st = tiny_coll_broadcast(ctx, c, a, (size_t)n, root);
    for (i = 0; i < n; i++) wrong += a[i] != mark(root, 7, i);
    /* reduce */
    for (i = 0; i < n; i++) { const float v = (float)(rank + i % 11); memcpy(&a[i], &v, 4); }
    if (!st) st = tiny_coll_reduce(ctx, c, a, (size_t)n, root);
    for (i = 0; i < n && rank == root; i++) {
        float v;
        memcpy(&v, &a[i], 4);
        wrong += v != (float)(p * (p - 1) / 2 + p * (i % 11));
    }
    /* gather, then scatter */
    for (i = 0; i < n; i++) a[i] = mark(rank, 0, i);
    memset(b, 0, (size_t)(p * n) * 4);
    if (!st) st = tiny_coll_gather(ctx, c, a, (size_t)n, rank == root ? b : NULL, root);
    for (r = 0; r < p && rank == root; r++) for (i = 0; i < n; i++) wrong += b[r * n + i] != mark(r, 0, i);
    if (!st) st = tiny_coll_scatter(ctx, c, rank == root ? b : NULL, (size_t)n, d, root);
    for (i = 0; i < n; i++) wrong += d[i] != mark(rank, 0, i);
    /* reduce-scatter, then all-gather would be an allreduce: here its part alone */
    for (i = 0; i < n; i++) { const float v = (float)(rank * 2 + i % 11); memcpy(&a[i], &v, 4); }
    if (!st) st = tiny_coll_reduce_scatter(ctx, c, a, (size_t)n, &part_at, &part);
    for (i = (int)part_at; i < (int)(part_at + part); i++) {
        float v;
        memcpy(&v, &a[i], 4);
        wrong += v != (float)(p * (p - 1) + p * (i % 11));
    }
    j->bytes[rank] = 0;
    for (form = TINY_COLL_RING; form <= TINY_COLL_BRUCK && !st; form++) {
        for (r = 0; r < p; r++) for (i = 0; i < n; i++) a[r * n + i] = r == rank ? mark(rank, 3, i) : -1;
        st = tiny_coll_allgather(ctx, c, form, a, (size_t)n);
        for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += a[r * n + i] != mark(r, 3, i);
        /* to all and back again: the identity */
        for (r = 0; r < p; r++) for (i = 0; i < n; i++) a[r * n + i] = mark(rank, r, i);
        if (!st) st = tiny_coll_alltoall(ctx, c, form, a, b, (size_t)n);
        for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += b[r * n + i] != mark(r, rank, i);
        if (!st) st = tiny_coll_alltoall(ctx, c, form, b, d, (size_t)n);
        for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += d[r * n + i] != a[r * n + i];
    }
    /* blocks of other lengths for each pair, and back */
    for (r = 0; r < p; r++) n_from[r] = (uint64_t)((rank * 3 + r * 5) % (n + 1));
    for (r = at = 0; r < p; r++) for (i = 0; i < (int)n_from[r]; i++) a[at++] = mark(rank, r, i);
    if (!st) st = tiny_coll_alltoallv(ctx, c, a, n_from, b, n_to, (size_t)(p * n));
    for (r = at = 0; r < p && !st; r++) {
        wrong += n_to[r] != (uint64_t)((r * 3 + rank * 5) % (n + 1));
        for (i = 0; i < (int)n_to[r]; i++) wrong += b[at++] != mark(r, rank, i);
    }
    if (!st) st = tiny_coll_alltoallv(ctx, c, b, n_to, d, n_back, (size_t)(p * n));
    for (r = at = 0; r < p && !st; r++) {
        wrong += n_back[r] != n_from[r];
        for (i = 0; i < (int)n_back[r]; i++, at++) wrong += d[at] != a[at];
    }
    /* the same where both sides know the lengths, and one block for all (an all-gather of blocks of any sizes) */
    if (!st) st = tiny_coll_exchange(ctx, c, b, NULL, n_to, d, n_from);
    for (r = at = 0; r < p && !st; r++) for (i = 0; i < (int)n_from[r]; i++, at++) wrong += d[at] != a[at];
    for (r = 0; r < p; r++) {
        n_back[r] = 0;
        n_from[r] = (uint64_t)((rank * 3) % (n + 1));
        n_to[r] = (uint64_t)((r * 3) % (n + 1));
    }
    for (i = 0; i < (int)n_from[0]; i++) a[i] = mark(rank, 5, i);
    if (!st) st = tiny_coll_exchange(ctx, c, a, n_back, n_from, b, n_to);
    for (r = at = 0; r < p && !st; r++) for (i = 0; i < (int)n_to[r]; i++) wrong += b[at++] != mark(r, 5, i);
    if (!st) st = tiny_coll_barrier(ctx, c);
    j->st[rank] = st;
    j->wrong[rank] = wrong;
    free(a);
    free(b);
    free(d);
}
static void test_blocks(void)
{
    size_t w;
    int k, tcp, r;
    for (tcp = 0; tcp < 2; tcp++)
        for (w = 0; w < T_COUNT(worlds) - (size_t)tcp * 6; w++)
            for (k = 0; k < 4; k++) {
                static const int n_of[] = { 0, 1, 13, 300 };
                job j;
                memset(&j, 0, sizeof j);
                j.tcp = tcp;
                j.run = run_blocks;
                j.n = n_of[k];
                j.seed = (uint64_t)k;
                j.root = (k * 5 + 1) % worlds[w];
                if (!run_job(&j, worlds[w], NULL)) return;
                all_ok(&j);
                for (r = 0; r < j.world; r++)
                    if (!T_EQ_INT(j.wrong[r], 0)) printf("  rank %d of %d, n %d, tcp %d\n", r, j.world, j.n, tcp);
            }
    T_PROOF("distributed 0", "all-to-all followed by its inverse is the identity");
}

/* Blocks that do not fit the room of rank 1 alone: every rank hears of it, and the group goes on. */
static void run_little_room(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    int32_t a[MOST], b[MOST];
    uint64_t n_from[MOST], n_to[MOST];
    int r;
    for (r = 0; r < j->world; r++) {
        a[r] = mark(rank, r, 0);
        n_from[r] = 1;
    }
    j->st[rank] = tiny_coll_alltoallv(ctx, c, a, n_from, b, n_to, rank == 1 ? (size_t)j->world - 1 : MOST);
    if (!tiny_coll_alltoallv(ctx, c, a, n_from, b, n_to, (size_t)j->world))
        for (r = 0; r < j->world; r++) j->wrong[rank] += b[r] != mark(r, rank, 0) || n_to[r] != 1;
    else j->wrong[rank] = 99;
}
static void test_little_room(void)
{
    int tcp, p, r;
    for (tcp = 0; tcp < 2; tcp++)
        for (p = 2; p <= 6; p++) {
            job j;
            memset(&j, 0, sizeof j);
            j.tcp = tcp;
            j.run = run_little_room;
            if (!run_job(&j, p, NULL)) return;
            for (r = 0; r < p; r++)
                if (!T_EQ_INT(j.st[r], TINY_E_WORKSPACE) || !T_EQ_INT(j.wrong[r], 0))
                    printf("  rank %d of %d, tcp %d: %s\n", r, p, tcp, j.says[r]);
        }
}

/* a megabyte both ways at once through small buffers of sockets, and through queues of four kilobytes */
static void run_swap(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    unsigned char *to = (unsigned char *)malloc(2 * 1048576);
    size_t i;
    int wrong = 0;
    c->type = TINY_COLL_U8;
    memset(to, 0, 2 * 1048576);
    j->st[rank] = tiny_coll_alltoall(ctx, c, TINY_COLL_RING, j->x[rank], to, 1048576);
    for (i = 0; i < 1048576; i++)
        wrong += to[(size_t)(1 - rank) * 1048576 + i] != (unsigned char)((i + 1u - (unsigned)rank) * 31);
    j->wrong[rank] = wrong;
    free(to);
}
static void test_swap(void)
{
    static const tiny_local_desc small = { 0, 4096, 0, 0.0, 0 };
    int tcp, r, i;
    for (tcp = 0; tcp < 2; tcp++) {
        job j;
        memset(&j, 0, sizeof j);
        j.tcp = tcp;
        j.socket_bytes = 32768;
        j.run = run_swap;
        for (r = 0; r < 2; r++) {
            j.x[r] = t_guarded_bytes(2 * 1048576);
            for (i = 0; i < 2 * 1048576; i++) ((unsigned char *)j.x[r])[i] = (unsigned char)((i % 1048576 + r) * 31);
        }
        if (!run_job(&j, 2, &small)) return;
        all_ok(&j);
        for (r = 0; r < 2; r++) T_EQ_INT(j.wrong[r], 0);
    }
    T_PROOF("distributed 0", "bad input: 1 MB both ways through small buffers");
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* 8 ranks, 32768 bytes, 300 Mbit/s: worked figures, in milliseconds */
static const struct { int way; double at_4, at_01; } worked[] = { { TINY_COMM_STAR, 20.23, 12.43 },
                                                                  { TINY_COMM_TREE, 29.24, 5.84 },
                                                                  { TINY_COMM_DOUBLING, 14.62, 2.92 },
                                                                  { TINY_COMM_RING, 57.53, 2.93 },
                                                                  { TINY_COMM_HALVING, 25.53, 2.13 } };
static void test_costs(void)
{
    tiny_coll_line line = { 0.004, 8.0 / 300e6, 0.0 };
    tiny_coll_choice choice;
    size_t i;
    int k;
    for (k = 0; k < 2; k++)
        for (i = 0; i < T_COUNT(worked); i++) {
            line.latency = k ? 0.0001 : 0.004;
            T_CLOSE(1e3 * tiny_coll_cost(TINY_COST_ALLREDUCE + worked[i].way, 8, 32768, &line),
                    k ? worked[i].at_01 : worked[i].at_4, 0.00501);
        }
    /* where the star passes the ring, the tree, and doubling */
    for (k = -1; k <= 1; k += 2) {
        double star;
        line.latency = 0.892e-3 * (1 + 0.001 * k);
        star = tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_STAR, 8, 32768, &line);
        T_EQ_INT(star < tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_RING, 8, 32768, &line), k > 0);
        line.latency = 2 * 32768 * line.byte * (1 + 0.001 * k);
        star = tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_STAR, 8, 32768, &line);
        T_EQ_INT(star < tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_TREE, 8, 32768, &line), k > 0);
        line.latency = 11 * 32768 * line.byte * (1 + 0.001 * k);
        star = tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_STAR, 8, 32768, &line);
        T_EQ_INT(star < tiny_coll_cost(TINY_COST_ALLREDUCE + TINY_COMM_DOUBLING, 8, 32768, &line), k > 0);
    }
    line.latency = 0.1;
    tiny_coll_choose(8, 0, &line, &choice);
    T_EQ_INT(tiny_coll_way(&choice, 32768), TINY_COMM_STAR);
    line.latency = 0.0001;
    tiny_coll_choose(8, 0, &line, &choice);
    T_EQ_INT(tiny_coll_way(&choice, 32768), TINY_COMM_HALVING);
    T_EQ_INT(tiny_coll_way(&choice, 1), TINY_COMM_DOUBLING);
    tiny_coll_choose(8, 1, &line, &choice);
    T_EQ_INT(tiny_coll_way(&choice, SIZE_MAX), TINY_COMM_STAR);
    T_CLOSE(tiny_coll_cost(TINY_COST_BARRIER, 9, 0, &line), 4 * line.latency, 0.0);
    T_CLOSE(tiny_coll_cost(TINY_COST_BARRIER, 1, 0, &line), 0.0, 0.0);
    T_PROOF("distributed 0", "worked figures for 8 ranks, and where the star passes ring, tree and doubling");
}

/* Every call on the virtual clock with ports, against the table: 1 us a byte, 5 ms, 3 ns to add a byte. n divides. */
static void run_clock(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    const size_t n = (size_t)j->n;
    size_t at, size;
    float *x = (float *)calloc((size_t)j->world * n, 4), *y = (float *)calloc((size_t)j->world * n, 4);
    tiny_status st;
    switch (j->kind) {
    case TINY_COST_BROADCAST: st = tiny_coll_broadcast(ctx, c, x, n, 0); break;
    case TINY_COST_REDUCE: st = tiny_coll_reduce(ctx, c, x, n, 0); break;
    case TINY_COST_REDUCE_SCATTER: st = tiny_coll_reduce_scatter(ctx, c, x, n, &at, &size); break;
    case TINY_COST_ALLGATHER: st = tiny_coll_allgather(ctx, c, TINY_COLL_RING, x, n / (size_t)j->world); break;
    case TINY_COST_ALLTOALL: st = tiny_coll_alltoall(ctx, c, TINY_COLL_RING, x, y, n / (size_t)j->world); break;
    case TINY_COST_ALLTOALL_BRUCK: st = tiny_coll_alltoall(ctx, c, TINY_COLL_BRUCK, x, y, n / (size_t)j->world); break;
    case TINY_COST_BARRIER: st = tiny_coll_barrier(ctx, c); break;
    default: st = tiny_coll_allreduce(ctx, c, j->kind - TINY_COST_ALLREDUCE, x, n); break;
    }
    j->st[rank] = st;
    free(x);
    free(y);
}
static void test_clock(void)
{
    static const tiny_local_desc sim = { 0, 0, 5000000, 8e6, 2 };
    const tiny_coll_line line = { 5e-3, 1e-6, 3e-9 };
    int p, kind, r;
    for (p = 2; p <= 16; p *= 2)
        for (kind = TINY_COST_BROADCAST; kind < TINY_COST_ALLREDUCE + TINY_COMM_WAYS; kind++) {
            job j;
            uint64_t last = 0;
            double want;
            if (kind == TINY_COST_ALLREDUCE || kind == TINY_COST_ALLREDUCE + TINY_COMM_DIRECT) continue;
            memset(&j, 0, sizeof j);
            j.run = run_clock;
            j.kind = kind;
            j.n = 1600;
            j.add_ns = 3.0;
            if (!run_job(&j, p, &sim)) return;
            all_ok(&j);
            for (r = 0; r < p; r++) if (j.clock[r] > last) last = j.clock[r];
            want = 1e9 * tiny_coll_cost(kind, p, 4.0 * j.n, &line);
            /* the table adds after the last arrival; the star adds while the next message comes, all but the last */
            if (kind == TINY_COST_ALLREDUCE + TINY_COMM_STAR) want -= 3.0 * 4.0 * j.n * (p - 2);
            if (!T_CLOSE((double)last, want, 1e-9 * want)) printf("  call %d of %d ranks\n", kind, p);
        }
    T_PROOF("distributed 0", "the virtual clock equals the table for powers of two");
}
/* the worked figures again, as what the simulated network measures */
static void test_worked(void)
{
    size_t i;
    int k, r;
    for (k = 0; k < 2; k++)
        for (i = 0; i < T_COUNT(worked); i++) {
            tiny_local_desc sim = { 0, 0, 4000000, 300e6, 2 };
            job j;
            uint64_t last = 0;
            if (k) sim.latency_ns = 100000;
            memset(&j, 0, sizeof j);
            j.run = run_clock;
            j.kind = TINY_COST_ALLREDUCE + worked[i].way;
            j.n = 8192;
            if (!run_job(&j, 8, &sim)) return;
            all_ok(&j);
            for (r = 0; r < 8; r++) if (j.clock[r] > last) last = j.clock[r];
            T_CLOSE(1e-6 * (double)last, k ? worked[i].at_01 : worked[i].at_4, 0.00501);
        }
}

static void test_counts(void)
{
    int tcp, p, way;
    for (tcp = 0; tcp < 2; tcp++)
        for (p = 2; p <= 8; p += p < 4 ? 1 : 4)
            for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
                const int power = (p & (p - 1)) == 0, bits = p == 2 ? 1 : p == 4 ? 2 : 3;
                uint64_t all = 0, bytes = 0;
                job j;
                int r;
                memset(&j, 0, sizeof j);
                j.tcp = tcp;
                j.run = run_sum;
                j.way = way;
                j.n = 1001;
                for (r = 0; r < p; r++) j.x[r] = t_rand(1001, -1.0f, 1.0f);
                if (!run_job(&j, p, NULL)) return;
                all_ok(&j);
                for (r = 0; r < p; r++) {
                    all += j.messages[r];
                    bytes += j.bytes[r];
                    if (way == TINY_COMM_RING) {
                        T_EQ_INT(j.messages[r], 2 * (p - 1));
                        T_CLOSE(j.bytes[r], 2.0 * (p - 1) / p * 4004, 8.0);
                    }
                    if (way == TINY_COMM_STAR) T_EQ_INT(j.bytes[r], r ? 4004 : 4004 * (p - 1));
                    if (way == TINY_COMM_DOUBLING && power) T_EQ_INT(j.bytes[r], 4004 * bits);
                    if (way == TINY_COMM_HALVING && power) {
                        T_EQ_INT(j.messages[r], 2 * bits);
                        T_CLOSE(j.bytes[r], 2.0 * (p - 1) / p * 4004, 4.0 * 2 * bits);
                    }
                }
                if (way == TINY_COMM_TREE || way == TINY_COMM_STAR) {
                    T_EQ_INT(all, 2 * (p - 1));
                    T_EQ_INT(bytes, 2 * (p - 1) * 4004);
                }
                t_free_blocks();
            }
    T_PROOF("distributed 0", "counters equal the table, over threads and TCP");
}

static void run_probe(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    float *x = (float *)j->x[rank];
    c->type = TINY_COLL_F32;
    j->st[rank] = tiny_coll_probe(ctx, c, &j->choice[rank]);
    if (!j->st[rank])
        j->st[rank] = tiny_coll_allreduce(ctx, c, tiny_coll_way(&j->choice[rank], 400), x, 100);
}
static void test_probe(void)
{
    static const tiny_local_desc sim = { 0, 0, 5000000, 8e6, 2 };
    int tcp, r, i;
    for (tcp = 0; tcp < 2; tcp++) {
        job j;
        memset(&j, 0, sizeof j);
        j.tcp = tcp;
        j.run = run_probe;
        j.kind = 99;
        j.add_ns = 3.0;
        for (r = 0; r < 4; r++) {
            j.x[r] = t_guarded(100);
            for (i = 0; i < 100; i++) ((float *)j.x[r])[i] = (float)i;
        }
        if (!run_job(&j, 4, &sim)) return;
        all_ok(&j);
        for (r = 0; r < 4; r++) {
            T_TRUE(!memcmp(&j.choice[r], &j.choice[0], sizeof j.choice[0]));
            T_CLOSE(((float *)j.x[r])[99], 396.0, 0.0);
        }
        if (!tcp) {                         /* the line that the clock has */
            T_CLOSE(j.choice[0].line.latency, 5e-3, 1e-8);
            T_CLOSE(j.choice[0].line.byte, 1e-6, 1e-12);
            T_CLOSE(j.choice[0].line.add, 3e-9, 1e-20);
        } else T_TRUE(j.choice[0].line.latency > 0 && j.choice[0].line.byte > 0 && j.choice[0].line.add > 0);
    }
}

/* Rank 1 of three sends late, by up to 2 ms: its line counts, although a better one is probed after it. What else this
 * machine does can only add to the time. */
static void test_worst_line(void)
{
    job j;
    int r;
    memset(&j, 0, sizeof j);
    j.run = run_probe;
    j.kind = 99;
    j.jitter = 2000000;
    j.only = 1;
    j.seed = 4;
    for (r = 0; r < 3; r++) j.x[r] = t_rand(100, 0.0f, 1.0f);
    if (!run_job(&j, 3, NULL)) return;
    all_ok(&j);
    for (r = 0; r < 3; r++)                 /* half of the median */
        if (!T_TRUE(j.choice[r].line.latency > 0.15e-3)) printf("  %g s\n", j.choice[r].line.latency);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void run_three(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    int i;
    for (i = 0; i < 3 && !j->st[rank]; i++)
        j->st[rank] = tiny_coll_allreduce(ctx, c, j->way, j->x[rank], (size_t)j->n);
    j->later[rank] = tiny_coll_allreduce(ctx, c, j->way, j->x[rank], (size_t)j->n);
}
/* Rank 1 is killed at each of its messages: every other rank gets PEER with its number, in this call or the next. */
static void test_killed(void)
{
    int tcp, way, p, i, r;
    for (tcp = 0; tcp < 2; tcp++)
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
            for (p = 3; p <= 4; p++)
                for (i = 0;; i++) {
                    job j;
                    int to, hit = 0;
                    memset(&j, 0, sizeof j);
                    for (to = 0; to < p; to++) {        /* the message to each rank */
                        if (to == 1) continue;
                        j.has_fault = 1;
                        j.fault.to = to;
                        j.fault.message = (uint64_t)i;
                        j.fault.kind = TINY_FAULT_KILL;
                        j.tcp = tcp;
                        j.run = run_three;
                        j.way = way;
                        j.n = 9;
                        memset(j.st, 0, sizeof j.st);
                        for (r = 0; r < p; r++) j.x[r] = t_rand(9, -1.0f, 1.0f);
                        if (!run_job(&j, p, NULL)) return;
                        if (!j.st[1]) continue;                         /* there is no such message in three sums */
                        hit = 1;
                        for (r = 0; r < p; r++) {
                            const tiny_status st = j.st[r] ? j.st[r] : j.later[r];
                            if (!T_EQ_INT(st, TINY_E_PEER) || !T_EQ_INT(j.gone[r], 2))
                                printf("  way %d, rank %d of %d, message %d to %d, tcp %d: %s\n", way, r, p, i, to,
                                       tcp, j.says[r]);
                        }
                        t_free_blocks();
                    }
                    if (!hit) break;
                }
    T_PROOF("distributed 0", "bad input: killed peer at each message index, over threads and TCP");
}

/* the other faults: an error on every rank, unless the message was only late or its bits are not seen by anyone */
static void test_faults(void)
{
    int tcp, way, kind, r;
    for (tcp = 0; tcp < 2; tcp++)
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
            for (kind = TINY_FAULT_DELAY; kind < TINY_FAULT_KINDS; kind++) {
                job j;
                int failed = 0;
                if (kind == TINY_FAULT_KILL || kind == TINY_FAULT_DROP) continue;
                memset(&j, 0, sizeof j);
                j.tcp = tcp;
                j.has_fault = 1;
                j.fault.to = -1;
                j.fault.message = 1;
                j.fault.kind = kind;
                j.fault.by = kind == TINY_FAULT_DELAY ? 5000000 : 3;
                j.run = run_three;
                j.way = way;
                j.n = 9;
                for (r = 0; r < 4; r++) j.x[r] = t_rand(9, -1.0f, 1.0f);
                if (!run_job(&j, 4, NULL)) return;
                for (r = 0; r < 4; r++) failed += j.st[r] || j.later[r];
                if (!T_EQ_INT(failed, kind == TINY_FAULT_DELAY || kind == TINY_FAULT_FLIP ? 0 : 4))
                    printf("  way %d, fault %d, tcp %d: %s\n", way, kind, tcp, j.says[0]);
                t_free_blocks();
            }
}
static void test_lost(void)
{
    job j;
    int r, late = 0;
    memset(&j, 0, sizeof j);
    j.has_fault = 1;
    j.fault.to = -1;
    j.fault.kind = TINY_FAULT_DROP;
    j.run = run_sum;
    j.way = TINY_COMM_STAR;
    j.n = 9;
    j.until = tiny_now_ns() + 30000000;
    for (r = 0; r < 4; r++) j.x[r] = t_rand(9, -1.0f, 1.0f);
    if (!run_job(&j, 4, NULL)) return;
    for (r = 0; r < 4; r++) {
        T_TRUE(j.st[r] == TINY_E_TIMEOUT || j.st[r] == TINY_E_PEER);
        late += j.st[r] == TINY_E_TIMEOUT;
    }
    T_TRUE(late > 0);
}

static void run_differ(job *j, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    c->tag = j->kind == 1 && rank == 2 ? 4 : 3;
    j->st[rank] = tiny_coll_allreduce(ctx, c, j->way, j->x[rank], rank == 2 && j->kind == 0 ? 8 : 9);
}
static void test_differ(void)
{
    int tcp, way, kind, p, r;
    for (tcp = 0; tcp < 2; tcp++)
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
            for (kind = 0; kind < 2; kind++)
                for (p = 3; p <= 4; p++) {
                    job j;
                    memset(&j, 0, sizeof j);
                    j.tcp = tcp;
                    j.run = run_differ;
                    j.way = way;
                    j.kind = kind;
                    for (r = 0; r < p; r++) j.x[r] = t_rand(9, -1.0f, 1.0f);
                    if (!run_job(&j, p, NULL)) return;
                    for (r = 0; r < p; r++)
                        if (!T_EQ_INT(j.st[r], TINY_E_PROTOCOL))
                            printf("  way %d, kind %d, rank %d of %d, tcp %d: %s\n", way, kind, r, p, tcp, j.says[r]);
                    t_free_blocks();
                }
    T_PROOF("distributed 0", "bad input: mismatched counts give PROTOCOL on every rank, over threads and TCP");
}

static void test_bad_calls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    tiny_local *l = NULL;
    tiny_net odd;
    tiny_message m;
    tiny_coll c;
    tiny_fault *f = NULL;
    tiny_fault_desc fd;
    tiny_fault_at fa = { 0, 0, TINY_FAULT_KINDS, 0 };
    tiny_coll_choice choice;
    float x[8] = { 0 };
    uint64_t n_from[2] = { 1, 1 }, n_to[2];
    size_t at, size;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    memset(&m, 0, sizeof m);
    memset(&fd, 0, sizeof fd);
    d.virtual_clock = 3;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "virtual_clock 3");
    d.virtual_clock = 0;
    d.world = 2;
    T_OK(tiny_local_open(ctx, &d, &l));
    T_STATUS(tiny_coll_barrier(ctx, NULL), TINY_E_ARGUMENT, "needs the net");
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_ARGUMENT, "needs the net");
    odd = *tiny_local_net(l, 0);
    c.net = &odd;
    odd.world = 0;
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_ARGUMENT, "rank 0 of 0");
    odd.world = 2;
    odd.rank = 2;
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_ARGUMENT, "rank 2 of 2");
    c.net = tiny_local_net(l, 0);
    T_EQ_INT(c.net->send(c.net, 0, &m), TINY_E_ARGUMENT);       /* to itself */
    T_EQ_INT(c.net->recv(c.net, 0, &m), TINY_E_ARGUMENT);
    T_EQ_INT(c.net->send(c.net, 2, &m), TINY_E_ARGUMENT);
    T_EQ_INT(c.net->recv(c.net, -1, &m), TINY_E_ARGUMENT);
    c.work = x;
    c.n_work = sizeof x;
    T_STATUS(tiny_coll_broadcast(ctx, &c, NULL, 1, 0), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_broadcast(ctx, &c, x, 1, 2), TINY_E_ARGUMENT, "root 2 of 2");
    T_STATUS(tiny_coll_broadcast(ctx, &c, x, 1, -1), TINY_E_ARGUMENT, "root -1");
    T_STATUS(tiny_coll_reduce(ctx, &c, NULL, 1, 0), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_RING, NULL, 1), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_RING, x, SIZE_MAX / 2), TINY_E_OVERFLOW, "more than this machine");
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_RING, x, 9), TINY_E_WORKSPACE, "a workspace of 36 bytes, not 32");
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_AUTO, x, 1), TINY_E_ARGUMENT, "way 0");
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_WAYS, x, 1), TINY_E_ARGUMENT, "way 7");
    T_STATUS(tiny_coll_reduce_scatter(ctx, &c, x, 1, NULL, &size), TINY_E_ARGUMENT, "pointers");
    T_STATUS(tiny_coll_reduce_scatter(ctx, &c, NULL, 1, &at, &size), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_gather(ctx, &c, x, 1, NULL, 0), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_scatter(ctx, &c, NULL, 1, x, 0), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_allgather(ctx, &c, 2, x, 1), TINY_E_ARGUMENT, "form 2");
    T_STATUS(tiny_coll_allgather(ctx, &c, 0, NULL, 1), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_alltoall(ctx, &c, 0, x, x + 1, 2), TINY_E_ALIAS, "overlap");
    T_STATUS(tiny_coll_alltoall(ctx, &c, 0, x, NULL, 2), TINY_E_ARGUMENT, "NULL");
    T_STATUS(tiny_coll_alltoallv(ctx, &c, x, NULL, x, n_to, 1), TINY_E_ARGUMENT, "lengths");
    n_from[1] = UINT64_MAX;
    T_STATUS(tiny_coll_alltoallv(ctx, &c, x, n_from, x, n_to, 1), TINY_E_OVERFLOW, "more than this machine");
    T_STATUS(tiny_coll_exchange(ctx, &c, x, NULL, n_from, x, NULL), TINY_E_ARGUMENT, "lengths");
    n_from[0] = n_to[0] = n_to[1] = 1;
    T_STATUS(tiny_coll_exchange(ctx, &c, x, NULL, n_from, x, n_to), TINY_E_OVERFLOW, "more than this machine");
    n_from[1] = 1;
    T_STATUS(tiny_coll_exchange(ctx, &c, NULL, NULL, n_from, x, n_to), TINY_E_ARGUMENT, "NULL");
    n_to[0] = 2;
    T_STATUS(tiny_coll_exchange(ctx, &c, x, NULL, n_from, x, n_to), TINY_E_ARGUMENT, "two lengths");
    c.op = TINY_COLL_OR;
    T_STATUS(tiny_coll_allreduce(ctx, &c, TINY_COMM_RING, x, 1), TINY_E_UNSUPPORTED, "type 0 has no operation 2");
    c.op = TINY_COLL_OPS;
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_ARGUMENT, "operation 3");
    c.op = 0;
    c.tag = 256;
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_ARGUMENT, "tag 256");
    c.tag = 0;
    T_STATUS(tiny_coll_probe(ctx, &c, NULL), TINY_E_ARGUMENT, "room");
    T_STATUS(tiny_coll_probe(ctx, &c, &choice), TINY_E_WORKSPACE, "1048576");
    T_EQ_INT(tiny_coll_work(64, SIZE_MAX / 2, 4), SIZE_MAX);
    T_EQ_INT(tiny_coll_work(4, 10, 8), 960);
    T_STATUS(tiny_fault_open(ctx, NULL, &f), TINY_E_ARGUMENT, "needs a net");
    fd.inner = c.net;
    fd.n_at = 1;
    T_STATUS(tiny_fault_open(ctx, &fd, &f), TINY_E_ARGUMENT, "needs a net");
    fd.at = &fa;
    T_STATUS(tiny_fault_open(ctx, &fd, &f), TINY_E_ARGUMENT, "kind 7");
    c.until = 1;                            /* long ago */
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_TIMEOUT, "waited for rank 1 until the deadline");
    T_STATUS(tiny_coll_barrier(ctx, &c), TINY_E_TIMEOUT, "waited for rank 1");      /* the group is over */
    tiny_local_close(ctx, l);
    t_close(ctx);
    T_PROOF("distributed 0", "bad input: world 0, rank, self-send, null, overflow, deadline already past");
}

int main(void)
{
    T_RUN(test_sums);
    T_RUN(test_long_sums);
    T_RUN(test_million);
    T_RUN(test_tcp_sums);
    T_RUN(test_jitter);
    T_RUN(test_blocks);
    T_RUN(test_little_room);
    T_RUN(test_swap);
    T_RUN(test_costs);
    T_RUN(test_clock);
    T_RUN(test_worked);
    T_RUN(test_counts);
    T_RUN(test_probe);
    T_RUN(test_worst_line);
    T_RUN(test_killed);
    T_RUN(test_faults);
    T_RUN(test_lost);
    T_RUN(test_differ);
    T_RUN(test_bad_calls);
    return t_done();
}
