/* tests/llm/dist/megatron.c - grids, tensor-parallel layers, a transformer split three ways, formulas and plans
 *
 * Truth    the published sizes and days; operations of products, counted; a plan worked by hand; loss and gradients of
 *          the same transformer by PyTorch, groups of ranks by Megatron Core (tests/golden/make/ranks.py);
 *          cross-entropy in double; gradients of one rank, against which every split is compared number by number, and
 *          which differences of the loss confirm; bytes of messages by the formula. */
#include "t.h"
#include "ranks.h"

enum { MOST = 8, LAYERS = 4, WIDTH = 16, HEADS = 4, VOCAB = 12, CONTEXT = 6, BATCH = 8, PARAMS = 96 };

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static void test_grid(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int size[4] = { 2, 3, 4, 2 }, bad[2] = { 2, 0 };
    tllm_grid g;
    int rank, axes, ranks[48], me, n, i, k, seen = 0;
    for (rank = 0; rank < 48; rank++) {
        T_OK(tllm_grid_make(ctx, size, 4, rank, 48, &g));
        T_EQ_INT(rank, g.at[0] + 2 * (g.at[1] + 3 * (g.at[2] + 4 * g.at[3])));
        T_EQ_INT(tllm_grid_rank(&g, NULL), rank);
        for (axes = 0; axes < 16; axes++) {
            int want = 1;
            for (k = 0; k < 4; k++) if (axes >> k & 1) want *= size[k];
            n = tllm_grid_group(&g, (unsigned)axes, ranks, &me);
            T_EQ_INT(n, want);
            T_EQ_INT(ranks[me], rank);
            for (i = 0; i < n; i++) {
                tllm_grid other;
                T_OK(tllm_grid_make(ctx, size, 4, ranks[i], 48, &other));
                if (i) T_TRUE(ranks[i] > ranks[i - 1]);
                for (k = 0; k < 4; k++) if (!(axes >> k & 1)) T_EQ_INT(other.at[k], g.at[k]);
            }
        }
    }
    T_STATUS(tllm_grid_make(ctx, size, 4, 0, 47, &g), TINY_E_ARGUMENT, "48 ranks together, the world has 47");
    T_STATUS(tllm_grid_make(ctx, bad, 2, 0, 2, &g), TINY_E_ARGUMENT, "axis 1 has 0 ranks");
    T_STATUS(tllm_grid_make(ctx, size, 7, 0, 2, &g), TINY_E_ARGUMENT, "7 axes");
    T_STATUS(tllm_grid_make(ctx, size, 4, 48, 48, &g), TINY_E_ARGUMENT, "rank 48 of a world of 48");
    /* Megatron's own lists, where nothing is split by sequences: "tp cp dp pp etp ep axis: ranks|ranks" */
    for (k = 0; k < (int)T_COUNT(rank_groups); k++) {
        static const char *const axis[3] = { "tp", "dp", "pp" };
        ranks_line l;
        int three[3];
        if (!ranks_read(rank_groups[k], &l) || l.size[1] != 1) continue;
        three[0] = l.size[0];
        three[1] = l.size[2];
        three[2] = l.size[3];
        for (axes = 0; axes < 3 && strcmp(axis[axes], l.axis); axes++) {}
        for (rank = 0; axes < 3 && rank < l.ranks; rank++) {
            T_OK(tllm_grid_make(ctx, three, 3, rank, l.ranks, &g));
            n = tllm_grid_group(&g, 1u << axes, ranks, &me);
            if (!T_EQ_INT(n, l.each)) break;
            for (i = 0; i < n; i++) T_EQ_INT(ranks[i], l.group[l.of[rank]][i]);
            seen++;
        }
    }
    T_TRUE(seen > 40);
    t_close(ctx);
    T_PROOF("distributed 2", "rank grid: tensor fastest, groups over any axes; the lists of Megatron Core");
}

/* ---- formulas and plans ------------------------------------------------------------------------------------------ */

static void test_formulas(void)
{
    const tllm_mega_model gpt3 = { 96, 12288, 96, 51200, 2048 }, trillion = { 128, 25600, 160, 51200, 2048 };
    int again;
    T_CLOSE(tllm_mega_count(&gpt3), 174.6e9, 0.05e9);
    T_CLOSE(tllm_mega_count(&trillion), 1008e9, 0.5e9);
    T_CLOSE(tllm_mega_days(300e9, 175e9, 1024, 140e12), 33.9, 0.05);
    T_CLOSE(tllm_mega_days(450e9, 1e12, 3072, 163e12), 83.2, 0.05);
    /* Products of a forward pass: a layer 24 S h^2 + 4 S^2 h, the head 2 S h V. A backward pass takes twice as much.
     * The second forward pass is one of the layers only. */
    for (again = 0; again < 2; again++) {
        const double s = 2048.0, h = 12288.0, layer = 24.0 * s * h * h + 4.0 * s * s * h, head = 2.0 * s * h * 51200.0;
        const double want = 5.0 * (96.0 * (3.0 + again) * layer + 3.0 * head);
        T_CLOSE(tllm_mega_flops(&gpt3, 5.0, again), want, 1e-12 * want);
    }
    T_CLOSE(tllm_mega_time(8.0, 1.0, 1.0, 4.0, 1.0, 3.0), 33.0, 1e-12);
    T_CLOSE(tllm_mega_time(8.0, 1.0, 1.0, 4.0, 2.0, 3.0), 28.5, 1e-12);
    T_CLOSE(tllm_mega_checkpoints(24.0, 2.0, 12.0), 12.0, 1e-12);
    T_PROOF("distributed 2", "174.6 and 1008 billion parameters; 33.9 and 83.2 days");
}

static void test_plans(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_mega_model model = { 24, 2048, 16, 51200, 1024 }, bad;
    tllm_mega_machine w;
    tllm_mega_plan plan[300], few[3];
    size_t n, m, i;
    memset(&w, 0, sizeof w);
    w.workers = 32;
    w.fast = 8;
    w.flops = 100e12;
    w.memory = 16e9;
    w.near_line.latency = 5e-6;
    w.near_line.byte = 1.0 / 300e9;
    w.far_line.latency = 1e-5;
    w.far_line.byte = 1.0 / 25e9;
    T_OK(tllm_mega_plans(ctx, &model, &w, 64, plan, 300, &n));
    T_TRUE(n > 10 && n <= 300);
    for (i = 0; i < n; i++) {
        const tllm_mega_plan *k = &plan[i];
        T_TRUE(k->t * k->p * k->d == 32 && k->t <= 8 && 16 % k->t == 0 && 24 % (k->p * k->v) == 0 &&
               64 % (k->d * k->micro) == 0 && (k->v == 1 || 64 / k->d / k->micro % k->p == 0));
        T_TRUE(k->bytes <= w.memory && (!i || plan[i - 1].seconds <= k->seconds));
    }
    T_OK(tllm_mega_plans(ctx, &model, &w, 64, few, 3, &m));
    T_TRUE(m == n && few[0].seconds == plan[0].seconds && few[2].seconds == plan[2].seconds);
    /* without tensor ranks and messages that cost nothing, the fewest stages that fit win */
    w.fast = 1;
    w.far_line.latency = w.far_line.byte = 0.0;
    w.memory = 1e12;
    T_OK(tllm_mega_plans(ctx, &model, &w, 64, plan, 300, &n));
    T_TRUE(plan[0].p == 1 && plan[0].d == 32);
    T_STATUS(tllm_mega_plans(ctx, &model, &w, 65537, plan, 300, &n), TINY_E_ARGUMENT, "go up to 65536");
    w.memory = 1e9;
    T_STATUS(tllm_mega_plans(ctx, &model, &w, 64, plan, 300, &n), TINY_E_ARGUMENT, "no split fits");
    w.memory = 16e9;
    T_STATUS(tllm_mega_plans(ctx, &model, &w, 0, plan, 300, &n), TINY_E_ARGUMENT, "count from 1");
    bad = model;
    bad.layers = 0;
    T_STATUS(tllm_mega_plans(ctx, &bad, &w, 64, plan, 300, &n), TINY_E_ARGUMENT, "count from 1");
    w.workers = 31;
    T_STATUS(tllm_mega_plans(ctx, &model, &w, 64, plan, 300, &n), TINY_E_ARGUMENT, "divides heads, layers and batch");
    w.flops = 0;
    T_STATUS(tllm_mega_plans(ctx, &model, &w, 64, plan, 300, &n), TINY_E_ARGUMENT, "0 operations");
    t_close(ctx);
    T_PROOF("distributed 2", "plans: only splits that divide and fit, the fastest first");
}

/* 4 layers of width 4, 2 heads, 8 tokens, 4 places; 8 sequences on 8 workers as 2 x 2 x 2, a sequence at a time. A sum
 * of 64 bytes between two neighbours takes 2 ms + 64 us, a border of 32 bytes 2 ms + 96 us. */
static void test_plan_by_hand(void)
{
    static const struct { int v; double seconds, bubble, borders, bytes; } of[] = {
        { 1, 5 * 36.32e-3 + 7.072e-3, 36.32e-3, 16.768e-3, 4096 + 2 * 64 + 2 * 1536 },
        { 2, 4.5 * 40.512e-3 + 7.072e-3, 20.256e-3, 33.536e-3, 4096 + 5 * 64 + 1536 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tllm_mega_model model = { 4, 4, 2, 8, 4 };
    tllm_mega_machine w;
    tllm_mega_plan plan[200];
    size_t n, i, k, found = 0;
    memset(&w, 0, sizeof w);
    w.workers = 8;
    w.fast = 2;
    w.flops = 1e6;
    w.memory = 1e6;
    w.near_line.latency = 1e-3;
    w.near_line.byte = 1e-6;
    w.far_line.latency = 2e-3;
    w.far_line.byte = 3e-6;
    T_CLOSE(tllm_mega_count(&model), 1024.0, 1e-9);
    T_CLOSE(tllm_mega_flops(&model, 1.0, 1), 29440.0, 1e-9);
    T_OK(tllm_mega_plans(ctx, &model, &w, 8, plan, 200, &n));
    T_TRUE(n <= 200);
    for (i = 0; i < n; i++)
        for (k = 0; k < T_COUNT(of); k++) {
            const tllm_mega_plan *p = &plan[i];
            if (p->t != 2 || p->p != 2 || p->d != 2 || p->v != of[k].v || p->micro != 1) continue;
            T_CLOSE(p->sums, 4 * 24.768e-3, 1e-9);
            T_CLOSE(p->gradients, 7.072e-3, 1e-9);
            T_CLOSE(p->borders, of[k].borders, 1e-9);
            T_CLOSE(p->bubble, of[k].bubble, 1e-9);
            T_CLOSE(p->seconds, of[k].seconds, 1e-9);
            T_CLOSE(p->bytes, of[k].bytes, 1e-6);
            found++;
        }
    T_EQ_INT(found, 2);
    t_close(ctx);
    T_PROOF("distributed 2", "a plan worked by hand: sums, borders, gradients, idle time, bytes; with chunks too");
}

/* ---- a transformer on every split -------------------------------------------------------------------------------- */

typedef struct whole { size_t n; char name[PARAMS][32]; tiny_idx dim[PARAMS][2]; float *grad[PARAMS]; } whole;
typedef struct job {
    tllm_mega_desc d;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    int world, tcp, has_fault, poison;      /* poison: rank 1 has a weight that is no number */
    int torch;                              /* with the weights of tests/golden/make/ranks.py */
    tiny_fault_at fault;
    const int32_t *tokens;
    whole *serial;                          /* compared with; `make`: filled instead */
    int make, compared[MOST];
    double worst[MOST];
    tiny_status st[MOST];
    char says[MOST][240];
    tllm_pipe_result result[MOST];
    uint64_t bytes[MOST];
} job;

static void compare(job *j, int rank, const tllm_mega *mega)
{
    size_t n, i, k;
    const tiny_param *p = tllm_mega_params(mega, &n);
    for (i = 0; i < n; i++) {
        const tiny_idx cols = p[i].value.rank == 2 ? p[i].value.dim[1] : 1;
        tiny_idx row, col, r, c;
        double most = 0.0;
        for (k = 0; k < j->serial->n && strcmp(j->serial->name[k], p[i].name); k++) {}
        if (k == j->serial->n) { j->worst[rank] = 1e9; continue; }
        for (r = 0; r < j->serial->dim[k][0] * j->serial->dim[k][1]; r++)
            most = fmax(most, fabs((double)j->serial->grad[k][r]));
        tllm_mega_place(mega, i, &row, &col);
        for (r = 0; r < p[i].value.dim[0]; r++)
            for (c = 0; c < cols; c++) {
                const double want = j->serial->grad[k][(row + r) * j->serial->dim[k][1] + col + c];
                const double e = fabs(((const float *)p[i].grad.data)[r * cols + c] - want) / most;
                if (!(e <= j->worst[rank])) j->worst[rank] = e;
                j->compared[rank]++;
            }
    }
}

static void keep_all(job *j, const tllm_mega *mega)
{
    size_t i;
    const tiny_param *p = tllm_mega_params(mega, &j->serial->n);
    for (i = 0; i < j->serial->n; i++) {
        const tiny_idx n = tiny_tensor_count(&p[i].grad);
        (void)snprintf(j->serial->name[i], sizeof j->serial->name[i], "%s", p[i].name);
        j->serial->dim[i][0] = p[i].value.dim[0];
        j->serial->dim[i][1] = n / p[i].value.dim[0];
        j->serial->grad[i] = (float *)t_keep((size_t)n * sizeof(float));
        memcpy(j->serial->grad[i], p[i].grad.data, (size_t)n * sizeof(float));
    }
}

/* number n of a whole tensor: a fraction, and 1 more in a norm. Only o and w2 are cut by columns. */
static void torch_weights(const tllm_mega *mega, int t)
{
    size_t n, i;
    const tiny_param *p = tllm_mega_params(mega, &n);
    for (i = 0; i < n; i++) {
        const char *name = p[i].name, *last = strchr(name, '.') ? strchr(name, '.') + 1 : name;
        const int cut = !strcmp(last, "o") || !strcmp(last, "w2");
        const tiny_idx cols = p[i].value.rank == 2 ? p[i].value.dim[1] : 1, all = cut ? t * cols : cols;
        tiny_idx row, col, r, c;
        int seed = 0;
        for (; *name; name++) seed += *name;
        tllm_mega_place(mega, i, &row, &col);
        for (r = 0; r < p[i].value.dim[0]; r++)
            for (c = 0; c < cols; c++)
                ((float *)p[i].value.data)[r * cols + c] =
                    (float)((((row + r) * all + col + c) * 37 + 11 * seed) % 97 - 48) / 128.0f +
                    (strstr(last, "norm") ? 1.0f : 0.0f);
    }
}

static uint64_t sent_by(const tiny_net *net)
{
    uint64_t n = 0;
    int i;
    for (i = 0; net && i < net->world; i++) n += net->count[i].bytes_sent;
    return n;
}

static void rank_main(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_net *net = tiny_local_net(j->local, rank);
    tllm_mega_desc d = j->d;
    tllm_mega *mega = NULL;
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    int i;
    j->st[rank] = TINY_OK;
    if (j->tcp) {
        tiny_tcp_desc td;
        memset(&td, 0, sizeof td);
        td.rank = rank;
        td.world = j->world;
        td.peers = j->peers;
        td.listener = j->at[rank];
        td.secret = "correct horse battery staple";
        td.n_secret = 28;
        j->st[rank] = tiny_tcp_open(ctx, &td, &tcp);
        net = tiny_tcp_net(tcp);
    }
    if (!j->st[rank] && j->has_fault && rank == 1) {
        tiny_fault_desc fd;
        memset(&fd, 0, sizeof fd);
        fd.inner = net;
        fd.at = &j->fault;
        fd.n_at = 1;
        j->st[rank] = tiny_fault_open(ctx, &fd, &fault);
        net = tiny_fault_net(fault);
    }
    d.net = net;
    if (!j->st[rank]) j->st[rank] = tllm_mega_open(ctx, &d, &mega);
    if (!j->st[rank] && j->poison && rank == 1)
        *(float *)tllm_mega_params(mega, NULL)[3].value.data = (float)NAN;
    if (!j->st[rank] && j->torch) torch_weights(mega, j->d.t);
    for (i = 0; !j->st[rank] && i < 2; i++) {       /* the second step leaves nothing of the first */
        const uint64_t before = sent_by(net);
        j->st[rank] = tllm_mega_step(mega, j->tokens, 5, &j->result[rank]);
        j->bytes[rank] = sent_by(net) - before;
    }
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    if (!j->st[rank] && j->serial) {
        if (j->make) keep_all(j, mega);
        else compare(j, rank, mega);
    }
    tllm_mega_close(mega);
    if (net) net->close(net);
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

static int run_job(job *j)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    j->world = (j->d.t ? j->d.t : 1) * (j->d.d ? j->d.d : 1) * (j->d.p ? j->d.p : 1);
    if (j->tcp)
        for (i = 0; i < j->world; i++) {
            tiny_address a;
            tiny_socket at[TINY_ADDRESSES];
            ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
            j->at[i] = at[0];
            tiny_address_text(&a, j->address[i]);
            j->peers[i] = j->address[i];
        }
    else if (j->world > 1) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = j->world;
        d.queue_bytes = 2048;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    if (ok && j->world == 1) rank_main(0, j);
    else ok = ok && t_ranks(j->world, rank_main, j);
    tiny_local_close(ctx, j->local);
    for (i = 0; j->tcp && i < j->world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}

static int32_t tokens[12 * (CONTEXT + 1)];
static void job_make(job *j, int t, int d, int p, int v)
{
    tiny_rng rng = tiny_rng_make(3, 3);
    int i;
    for (i = 0; i < (int)T_COUNT(tokens); i++) tokens[i] = (int32_t)tiny_rng_below(&rng, VOCAB);
    memset(j, 0, sizeof *j);
    j->tokens = tokens;
    j->d.t = t;
    j->d.d = d;
    j->d.p = p;
    j->d.v = v;
    j->d.layers = LAYERS;
    j->d.width = WIDTH;
    j->d.heads = HEADS;
    j->d.vocab = VOCAB;
    j->d.context = CONTEXT;
    j->d.batch = BATCH;
    j->d.micros = 4 < BATCH / d ? 4 : BATCH / d;
    j->d.drop = 0.1;
    j->d.seed = 11;
    j->d.kind = TLLM_SCHED_1F1B;
}

static void test_splits(void)
{
    static job j;
    static whole serial;
    double loss;
    int t, d, p, v, r, n = 0;
    job_make(&j, 1, 1, 1, 1);
    j.serial = &serial;
    j.make = 1;
    j.d.micros = 1;
    if (!run_job(&j) || !T_EQ_INT(j.st[0], TINY_OK)) { printf("  %s\n", j.says[0]); return; }
    loss = j.result[0].loss;
    T_TRUE(loss > 1.5 && loss < 3.5);
    for (t = 1; t <= 4; t *= 2)
        for (d = 1; d <= 8; d *= 2)
            for (p = 1; p <= 4; p *= 2)
                for (v = 1; p * v <= LAYERS; v *= 2) {
                    if (t * d * p > 8) continue;
                    job_make(&j, t, d, p, v);
                    if (v > 1 && j.d.micros % p) continue;
                    j.serial = &serial;
                    j.d.scatter = n % 2;
                    j.d.keep = n % 3 == 0;
                    j.d.kind = v == 1 && n % 4 == 0 ? TLLM_SCHED_GPIPE : TLLM_SCHED_1F1B;
                    j.tcp = t == 2 && d == 2 && p == 2 && v == 2;
                    n++;
                    if (!run_job(&j)) return;
                    for (r = 0; r < j.world; r++) {
                        if (!T_EQ_INT(j.st[r], TINY_OK)) {
                            printf("  %d %d %d %d: %s\n", t, d, p, v, j.says[r]);
                            return;
                        }
                        T_TRUE(j.compared[r] > 0);
                        if (!(j.worst[r] <= 1e-5))
                            t_fail(__FILE__, __LINE__, "%d %d %d %d rank %d: %g", t, d, p, v, r, j.worst[r]);
                        T_CLOSE(j.result[r].loss, loss, 1e-6 * loss);
                    }
                }
    T_TRUE(n >= 25);
    T_PROOF("distributed 2", "gradients of a 4-layer transformer on every split of up to 8 ranks: one rank's, 1e-5");
}

/* models whose heads, layers and sequences other numbers of ranks divide: the splits that are left, up to 8 ranks */
static const struct { int layers, width, heads, vocab, batch; } shape_of[] = {
    { 4, 16, 4, 12, 8 }, { 6, 24, 6, 12, 12 }, { 8, 16, 8, 16, 8 }, { 5, 20, 5, 15, 10 }, { 7, 14, 7, 14, 7 } };
static void job_shape(job *j, size_t s, int rows)
{
    j->d.layers = shape_of[s].layers;
    j->d.width = shape_of[s].width;
    j->d.heads = shape_of[s].heads;
    j->d.vocab = shape_of[s].vocab;
    j->d.batch = shape_of[s].batch;
    j->d.micros = j->d.v > 1 ? j->d.p : rows < 3 ? rows : 3;
    while (j->d.micros > 1 && j->d.v == 1 && (rows + j->d.micros - 1) / j->d.micros * (j->d.micros - 1) >= rows)
        j->d.micros--;
}
static void test_more_splits(void)
{
    static unsigned char done[9][9][9][5];
    static job j;
    size_t s;
    int t, d, p, v, r, n = 0;
    for (s = 0; s < T_COUNT(shape_of); s++) {
        whole serial;
        double loss;
        memset(&serial, 0, sizeof serial);
        job_make(&j, 1, 1, 1, 1);
        job_shape(&j, s, shape_of[s].batch);
        j.serial = &serial;
        j.make = 1;
        if (!run_job(&j) || !T_EQ_INT(j.st[0], TINY_OK)) { printf("  %s\n", j.says[0]); return; }
        loss = j.result[0].loss;
        for (t = 1; t <= 8; t++)
            for (d = 1; d * t <= 8; d++)
                for (p = 1; p * d * t <= 8; p++)
                    for (v = 1; v <= 4; v++) {
                        const int rows = shape_of[s].batch / d;
                        if (shape_of[s].heads % t || shape_of[s].vocab % t || shape_of[s].batch % d ||
                            shape_of[s].layers % (p * v) || done[t][d][p][v])
                            continue;
                        if (v > 1 && (rows + p - 1) / p * (p - 1) >= rows) continue;
                        done[t][d][p][v] = 1;
                        if (!s) continue;   /* above */
                        job_make(&j, t, d, p, v);
                        job_shape(&j, s, rows);
                        j.serial = &serial;
                        j.d.scatter = n++ % 2;
                        if (!run_job(&j)) return;
                        for (r = 0; r < j.world; r++) {
                            if (!T_EQ_INT(j.st[r], TINY_OK)) {
                                printf("  %d %d %d %d: %s\n", t, d, p, v, j.says[r]);
                                return;
                            }
                            if (!(j.worst[r] <= 1e-5))
                                t_fail(__FILE__, __LINE__, "%d %d %d %d rank %d: %g", t, d, p, v, r, j.worst[r]);
                            T_CLOSE(j.result[r].loss, loss, 1e-6 * loss);
                        }
                    }
        t_free_blocks();
    }
    for (n = 0, t = 1; t <= 8; t++)
        for (d = 1; d * t <= 8; d++)
            for (p = 1; p * d * t <= 8; p++) n += done[t][d][p][1];
    T_EQ_INT(n, 38);                        /* all t d p up to 8 */
    T_PROOF("distributed 2", "gradients on all 38 grids of up to 8 ranks, of 3, 5, 6 and 7 too");
}

/* the same transformer by PyTorch, on several splits */
static void test_torch(void)
{
    static const struct { int t, d, p, v; } of[] = { { 1, 1, 1, 1 }, { 1, 1, 1, 2 }, { 2, 1, 1, 1 }, { 1, 2, 2, 1 },
                                                     { 2, 2, 2, 1 }, { 1, 4, 1, 1 }, { 2, 1, 2, 1 } };
    static job j;
    whole serial;
    size_t i, at = 0;
    int k, r;
    memset(&serial, 0, sizeof serial);
    for (serial.n = 0; serial.n < T_COUNT(torch_names); serial.n++) {
        const char *name = torch_names[serial.n], *last = strchr(name, '.') ? strchr(name, '.') + 1 : name;
        const tiny_idx rows = !strcmp(last, "embd") || !strcmp(last, "head") ? 6 : !strcmp(last, "places") ? 4
                              : !strcmp(last, "w1") || !strcmp(last, "b1")   ? 32 : 8;
        const tiny_idx cols = strstr(last, "norm") || *last == 'b' ? 1 : !strcmp(last, "w2") ? 32 : 8;
        (void)snprintf(serial.name[serial.n], sizeof serial.name[0], "%s", name);
        serial.dim[serial.n][0] = rows;
        serial.dim[serial.n][1] = cols;
        serial.grad[serial.n] = (float *)t_keep((size_t)(rows * cols) * sizeof(float));
        for (i = 0; i < (size_t)(rows * cols); i++) serial.grad[serial.n][i] = (float)torch_gradients[at++];
    }
    T_EQ_INT(at, T_COUNT(torch_gradients));
    for (k = 0; k < (int)T_COUNT(of); k++) {
        job_make(&j, of[k].t, of[k].d, of[k].p, of[k].v);
        for (i = 0; i < 20; i++) tokens[i] = (int32_t)((3 * i * i + 5 * i) % 6);
        j.serial = &serial;
        j.torch = 1;
        j.d.layers = 2;
        j.d.width = 8;
        j.d.heads = 2;
        j.d.vocab = 6;
        j.d.context = 4;
        j.d.batch = 4;
        j.d.micros = 4 / of[k].d;
        j.d.drop = 0.0;
        j.d.scatter = k % 2;
        if (!run_job(&j)) return;
        for (r = 0; r < j.world; r++) {
            if (!T_EQ_INT(j.st[r], TINY_OK)) { printf("  %s\n", j.says[r]); return; }
            T_TRUE(j.compared[r] > 0);
            if (!(j.worst[r] <= 5e-6)) t_fail(__FILE__, __LINE__, "case %d rank %d: %g", k, r, j.worst[r]);
            T_CLOSE(j.result[r].loss, torch_loss, 1e-6);
        }
    }
    T_PROOF("distributed 2", "loss and all gradients of a transformer by PyTorch, on seven splits");
}

/* the slope of the loss along the gradient is its squared length */
static void test_slope(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_pipe_result a, b;
    tllm_mega *mega = NULL;
    job j;
    const tiny_param *p;
    double length = 0.0;
    const double step = 1e-3;
    size_t n, i;
    tiny_idx k;
    float *g[PARAMS];
    job_make(&j, 1, 1, 1, 1);
    T_OK(tllm_mega_open(ctx, &j.d, &mega));
    T_OK(tllm_mega_step(mega, tokens, 0, NULL));
    p = tllm_mega_params(mega, &n);
    for (i = 0; i < n; i++) {
        g[i] = (float *)t_keep((size_t)tiny_tensor_count(&p[i].grad) * sizeof(float));
        memcpy(g[i], p[i].grad.data, (size_t)tiny_tensor_count(&p[i].grad) * sizeof(float));
        for (k = 0; k < tiny_tensor_count(&p[i].grad); k++) {
            length += (double)g[i][k] * g[i][k];
            ((float *)p[i].value.data)[k] += (float)step * g[i][k];
        }
    }
    T_OK(tllm_mega_step(mega, tokens, 0, &a));
    for (i = 0; i < n; i++)
        for (k = 0; k < tiny_tensor_count(&p[i].grad); k++)
            ((float *)p[i].value.data)[k] -= 2.0f * (float)step * g[i][k];
    T_OK(tllm_mega_step(mega, tokens, 0, &b));
    T_CLOSE((a.loss - b.loss) / (2.0 * step), length, 2e-3 * length);
    tllm_mega_close(mega);
    t_close(ctx);
}

/* a step sends, for each worker, layer and micro-batch of b sequences: 8 b s h (t - 1) / t numbers */
static void test_bytes(void)
{
    static job j;
    int t, r;
    for (t = 2; t <= 4; t *= 2) {
        const double n = 2.0 * CONTEXT, part = (t - 1.0) / t;
        job_make(&j, t, 1, 1, 1);
        j.d.keep = 1;
        if (!run_job(&j)) return;
        for (r = 0; r < t; r++) {
            /* besides: the input of the head, and three numbers a row for the loss; a sum of one number at the end */
            const double want = 4.0 * 4.0 * part * (LAYERS * 8.0 * n * WIDTH + 2.0 * n * WIDTH + 2.0 * 3.0 * n);
            T_EQ_INT(j.st[r], TINY_OK);
            T_CLOSE((double)j.bytes[r], want, 16.0);
        }
    }
    T_PROOF("distributed 2", "bytes of a layer and micro-batch: 8 b s h (t - 1) / t numbers sent by each tensor rank");
}

/* ---- the loss of a split vocabulary ------------------------------------------------------------------------------ */

enum { N = 7, V = 12 };
typedef struct split {
    int world;
    tiny_local *local;
    float x[N * V], dx[N * V], loss[MOST];
    int32_t label[N];
    tiny_status st[MOST];
} split;
static void split_rank(int rank, void *arg)
{
    split *s = (split *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    const int v = V / s->world;
    float w[N * V], g[N * V];
    tiny_param p;
    tiny_tape *tape = NULL;
    tllm_tp_desc d;
    tllm_tp *tp = NULL;
    tiny_tensor loss, label = tiny_tensor_1d(s->label, TINY_I32, N);
    int r, c;
    memset(&d, 0, sizeof d);
    memset(&p, 0, sizeof p);
    for (r = 0; r < N; r++) for (c = 0; c < v; c++) w[r * v + c] = s->x[r * V + rank * v + c];
    p.value = tiny_tensor_2d(w, TINY_F32, N, v);
    p.grad = tiny_tensor_2d(g, TINY_F32, N, v);
    d.net = tiny_local_net(s->local, rank);
    d.n_most = 2 * N;
    s->st[rank] = tllm_tp_open(ctx, &d, &tp);
    if (!s->st[rank]) s->st[rank] = tiny_tape_open(ctx, NULL, &tape);
    (void)tiny_tape_param(tape, &p);
    loss = tllm_tp_cross_entropy(tape, tp, &p.value, &label);
    if (!s->st[rank]) s->st[rank] = tiny_tape_backward(tape, &loss, NULL);
    if (!s->st[rank]) s->loss[rank] = *(const float *)loss.data;
    for (r = 0; r < N; r++) for (c = 0; c < v; c++) s->dx[r * V + rank * v + c] = g[r * v + c];
    tiny_tape_close(tape);
    tllm_tp_close(tp);
    tiny_ctx_close(ctx);
}
static void test_entropy(void)
{
    static split s;
    int world, r, c;
    for (world = 1; world <= 4; world++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tiny_local_desc d;
        double loss = 0.0;
        memset(&s, 0, sizeof s);
        memset(&d, 0, sizeof d);
        d.world = s.world = world;
        T_OK(tiny_local_open(ctx, &d, &s.local));
        for (r = 0; r < N; r++) {
            s.label[r] = (5 * r) % V;
            for (c = 0; c < V; c++)
                s.x[r * V + c] = t_rand_float(-4.0f, 4.0f) + (r == 3 ? 500.0f : r == 4 ? -500.0f : 0.0f);
        }
        if (!t_ranks(world, split_rank, &s)) { tiny_local_close(ctx, s.local); t_close(ctx); return; }
        for (r = 0; r < N; r++) {
            double most = -1e30, sum = 0.0;
            for (c = 0; c < V; c++) most = fmax(most, (double)s.x[r * V + c]);
            for (c = 0; c < V; c++) sum += exp((double)s.x[r * V + c] - most);
            loss += (log(sum) + most - (double)s.x[r * V + s.label[r]]) / N;
            for (c = 0; c < V; c++)
                T_CLOSE(s.dx[r * V + c], (exp((double)s.x[r * V + c] - most) / sum - (c == s.label[r])) / N, 1e-6);
        }
        for (r = 0; r < world; r++) {
            T_EQ_INT(s.st[r], TINY_OK);
            T_CLOSE(s.loss[r], loss, 1e-5);
        }
        tiny_local_close(ctx, s.local);
        t_close(ctx);
    }
    T_PROOF("distributed 2", "vocabulary-parallel cross-entropy: loss and gradient of the whole, three numbers a row");
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_mega *mega = NULL;
    tllm_tp *tp = NULL;
    tllm_tp_desc td;
    tllm_mega_desc d;
    tllm_grid g;
    tllm_group *group = NULL;
    job j;
    job_make(&j, 1, 1, 1, 1);
#define REFUSED(change, text)                                         \
    d = j.d;                                                          \
    change;                                                           \
    T_STATUS(tllm_mega_open(ctx, &d, &mega), TINY_E_ARGUMENT, text);  \
    T_TRUE(!mega)
    REFUSED(d.t = 2, "2 x 1 x 1 ranks in a world of 1");
    REFUSED(d.layers = 0, "at least 1");
    REFUSED(d.context = 0, "at least 1");
    REFUSED(d.p = -1, "p -1");
    REFUSED(d.heads = 3, "a width of 16 for 3 heads");
    REFUSED(d.v = 3, "4 layers in 3 pieces");
    REFUSED(d.drop = 1.0, "dropout 1");
    REFUSED(d.micros = 9, "8 rows in 9 micro-batches");
    REFUSED(d.micros = -1, "-1 micro-batches");
#undef REFUSED
    T_OK(tllm_mega_open(ctx, &j.d, &mega));
    tokens[3] = VOCAB;
    T_STATUS(tllm_mega_step(mega, tokens, 0, NULL), TINY_E_ARGUMENT, "token 3 is 12");
    T_STATUS(tllm_mega_step(mega, NULL, 0, NULL), TINY_E_ARGUMENT, "tokens are NULL");
    tllm_mega_close(mega);
    memset(&td, 0, sizeof td);
    td.way = TINY_COMM_DIRECT;
    T_STATUS(tllm_tp_open(ctx, &td, &tp), TINY_E_ARGUMENT, "way 1");
    memset(&g, 0, sizeof g);
    T_STATUS(tllm_group_open(ctx, NULL, &g, 1, &group), TINY_E_ARGUMENT, "a net");
    {                                       /* a grid of more ranks than a group may have */
        const int many[2] = { 4, 4096 };
        tiny_local_desc ld;
        tiny_local *local = NULL;
        memset(&ld, 0, sizeof ld);
        ld.world = 4;
        T_OK(tiny_local_open(ctx, &ld, &local));
        T_OK(tllm_grid_make(ctx, many, 2, 3, 16384, &g));
        T_STATUS(tllm_group_open(ctx, tiny_local_net(local, 3), &g, 3, &group), TINY_E_ARGUMENT,
                 "that of rank 3 of 16384, the net of rank 3 of 4");
        T_TRUE(!group);
        tiny_local_close(ctx, local);
    }
    job_make(&j, 1, 1, 1, 1);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        mega = NULL;
        if (!tiny_ctx_open(&cd, &c)) (void)tllm_mega_open(c, &j.d, &mega);
        tllm_mega_close(mega);
        tiny_ctx_close(c);)
    t_close(ctx);
}

/* heads that t does not divide, layers that p v does not divide, a killed rank: every rank fails with a sentence */
static void test_groups_fail(void)
{
    static job j;
    int k, r;
    for (k = 0; k < 8; k++) {
        job_make(&j, k == 2 || k == 3 || k == 7 ? 1 : 2, 2, k == 7 ? 1 : 2, k == 3 ? 2 : 1);
        j.poison = k == 7;
        if (k == 0) { j.d.heads = 1; }
        if (k == 1) { j.d.vocab = 13; }
        if (k == 2) { j.d.layers = 3; }
        if (k == 3) { j.d.micros = 3; }
        if (k > 3 && k < 7) {
            j.has_fault = 1;
            j.fault.to = -1;
            j.fault.kind = TINY_FAULT_KILL;
            j.fault.message = (uint64_t)(k - 4) * 3;
        }
        if (!run_job(&j)) return;
        for (r = 0; r < j.world; r++) {
            T_TRUE(j.st[r] && *j.says[r]);
            if (k < 4) T_EQ_INT(j.st[r], TINY_E_ARGUMENT);
            if (k == 7) T_EQ_INT(j.st[r], r ? TINY_E_NUMERIC : TINY_E_PEER);
            if (k < 4)
                T_TRUE(strstr(j.says[r], k == 0   ? "1 heads on 2 tensor ranks"
                                         : k == 1 ? "13 tokens of the vocabulary on 2"
                                         : k == 2 ? "3 layers in 2 pieces"
                                                  : "3 micro-batches are no multiple of 2 stages") != NULL);
        }
    }
    T_PROOF("distributed 2", "bad input: micro-batches, heads, layers, world, zero sizes; a killed rank ends all");
}

int main(void)
{
    T_RUN(test_grid);
    T_RUN(test_formulas);
    T_RUN(test_plans);
    T_RUN(test_plan_by_hand);
    T_RUN(test_entropy);
    T_RUN(test_splits);
    T_RUN(test_more_splits);
    T_RUN(test_torch);
    T_RUN(test_slope);
    T_RUN(test_bytes);
    T_RUN(test_refused);
    T_RUN(test_groups_fail);
    return t_done();
}
