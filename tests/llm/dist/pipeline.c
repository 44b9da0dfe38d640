/* tests/llm/dist/pipeline.c - schedules of pipelines, and training in pieces on several ranks
 *
 * Truth    the times and the example list of the papers' formulas; lists of Megatron Core (tests/golden/make/ranks.py);
 *          every cut of small lists; a multi-layer perceptron written out in double (forward, backward, dropout from
 *          the documented Philox blocks); the virtual clock against the formulas; sizes by the formula. Faults come
 *          from core/fault.h. No test reads the wall clock. */
#include "t.h"
#include "ranks.h"

enum { MOST = 8, LAYERS = 4, IN = 5, HIDDEN = 8, CLASSES = 3, ROWS = 64, WEIGHTS = 4 * (HIDDEN + 1) * HIDDEN };
static const char secret[] = "correct horse battery staple";

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static double total_of(tiny_ctx *ctx, int kind, int p, int m, int v, double hop, int *live)
{
    tllm_sched s;
    tllm_sched_time t = { 1.0, 2.0, 0.0, 0.0 };
    double total = -1.0;
    s.kind = kind;
    s.stages = p;
    s.micros = m;
    s.chunks = v;
    t.hop = hop;
    T_OK(tllm_sched_simulate(ctx, &s, NULL, &t, NULL, live, &total));
    return total;
}

static void test_schedules(void)
{
    static const char *const paper = "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0 ";
    static const int warm[4] = { 10, 8, 6, 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sched s = { TLLM_SCHED_1F1B, 2, 4, 2 };
    tllm_sched_item item[32];
    int live[MOST], r, p, m, v;
    char text[200];
    T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, 4, 8, 1, 0.0, live), 33.0, 1e-9);
    for (r = 0; r < 4; r++) T_EQ_INT(live[r], 4 - r);
    T_CLOSE(total_of(ctx, TLLM_SCHED_GPIPE, 4, 8, 1, 0.0, live), 33.0, 1e-9);
    for (r = 0; r < 4; r++) T_EQ_INT(live[r], 8);
    T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, 4, 8, 2, 0.0, live), 28.5, 1e-9);
    for (r = 0; r < 4; r++) T_EQ_INT(live[r], warm[r] + 1);
    T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, 4, 8, 4, 0.0, NULL), 26.25, 1e-9);
    T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, 8, 16, 2, 0.0, NULL), 58.5, 1e-9);
    T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, 2, 4, 2, 0.0, NULL), 13.5, 1e-9);
    T_EQ_INT(tllm_sched_items(&s), 16);
    T_OK(tllm_sched_stage(ctx, &s, 1, item));
    for (r = 0, text[0] = 0; r < 16; r++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%c%d.%d ", item[r].backward ? 'B' : 'F',
                       item[r].micro, item[r].chunk);
    T_EQ_TEXT(text, paper);
    for (p = 1; p <= 8; p++)
        for (m = p; m <= 32; m += p)
            for (v = 1; v <= 4; v++) {
                const double want = (m + (p - 1.0) / v) * 3.0;
                T_CLOSE(total_of(ctx, TLLM_SCHED_1F1B, p, m, v, 0.0, NULL), want, 1e-9);
                s.stages = p;
                s.micros = m;
                s.chunks = v;
                T_CLOSE((want - 3.0 * m) / (3.0 * m), tllm_sched_bubble(&s), 1e-9);
                if (v == 1) T_CLOSE(total_of(ctx, TLLM_SCHED_GPIPE, p, m, 1, 0.0, NULL), want, 1e-9);
            }
    t_close(ctx);
    T_PROOF("distributed 2", "simulated times and peaks: 33, 28.5, 26.25, 58.5, 13.5; live 4 3 2 1, 11 9 7 5");
    T_PROOF("distributed 2", "up to 8 stages, 32 micro-batches, 4 chunks: each pass once, no deadlock, the bubble");
}

/* "stages micros chunks stage: F0.0 ..." of Megatron Core */
static void test_megatron_lists(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t k;
    for (k = 0; k < T_COUNT(schedules); k++) {
        tllm_sched s = { TLLM_SCHED_1F1B, 0, 0, 0 };
        tllm_sched_item item[64];
        char text[512];
        int stage, used = 0, i, n = 0;
        if (!T_EQ_INT(sscanf(schedules[k], "%d %d %d %d:%n", &s.stages, &s.micros, &s.chunks, &stage, &used), 4)) break;
        if (!T_TRUE(tllm_sched_items(&s) <= 64)) break;
        T_OK(tllm_sched_stage(ctx, &s, stage, item));
        for (i = 0; i < (int)tllm_sched_items(&s); i++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %c%d.%d", item[i].backward ? 'B' : 'F', item[i].micro,
                          item[i].chunk);
        T_EQ_TEXT(text, schedules[k] + used);
    }
    T_TRUE(k > 15);
    t_close(ctx);
    T_PROOF("distributed 2", "1F1B and interleaved lists of Megatron Core, 2 to 4 stages, 1 to 4 chunks");
}

/* A simulator that accepted everything would pass the test above. */
static void test_bad_schedules(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sched s = { TLLM_SCHED_GPIPE, 2, 2, 1 }, bad;
    tllm_sched_time t = { 1.0, 1.0, 0.0, 0.0 };
    tllm_sched_item item[8];
    double total;
    T_OK(tllm_sched_stage(ctx, &s, 0, item));
    T_OK(tllm_sched_stage(ctx, &s, 1, item + 4));
    T_OK(tllm_sched_simulate(ctx, &s, item, &t, NULL, NULL, &total));
    T_CLOSE(total, 6.0, 1e-12);
    item[5] = item[4];
    T_STATUS(tllm_sched_simulate(ctx, &s, item, &t, NULL, NULL, &total), TINY_E_ARGUMENT,
             "forward pass of micro-batch 0");
    T_OK(tllm_sched_stage(ctx, &s, 1, item + 4));
    item[4] = item[7];
    item[7].backward = 0;
    T_STATUS(tllm_sched_simulate(ctx, &s, item, &t, NULL, NULL, &total), TINY_E_ARGUMENT,
             "stage 0 waits for ever before item 2 of 4");
    item[4].micro = 2;
    T_STATUS(tllm_sched_simulate(ctx, &s, item, &t, NULL, NULL, &total), TINY_E_ARGUMENT, "there are 2 micro-batches");
    bad = s;
    bad.chunks = 2;
    T_STATUS(tllm_sched_stage(ctx, &bad, 0, item), TINY_E_ARGUMENT, "GPipe has one chunk");
    bad.kind = TLLM_SCHED_1F1B;
    bad.micros = 3;
    T_STATUS(tllm_sched_stage(ctx, &bad, 0, item), TINY_E_ARGUMENT, "3 micro-batches are no multiple of 2 stages");
    bad.micros = 0;
    T_STATUS(tllm_sched_stage(ctx, &bad, 0, item), TINY_E_ARGUMENT, "0 micro-batches");
    bad.kind = 7;
    T_STATUS(tllm_sched_stage(ctx, &bad, 0, item), TINY_E_ARGUMENT, "kind 7");
    T_STATUS(tllm_sched_stage(ctx, &s, 2, item), TINY_E_ARGUMENT, "stage 2 of 2");
    t.hop = -1.0;
    T_STATUS(tllm_sched_simulate(ctx, &s, NULL, &t, NULL, NULL, &total), TINY_E_ARGUMENT, "must not be negative");
    T_STATUS(tllm_sched_simulate(ctx, &s, NULL, NULL, NULL, NULL, &total), TINY_E_ARGUMENT, "times");
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        tllm_sched_time u = { 1.0, 1.0, 0.0, 0.0 };
        if (!tiny_ctx_open(&d, &c)) (void)tllm_sched_simulate(c, &s, NULL, &u, NULL, NULL, &total);
        tiny_ctx_close(c);)
    t_close(ctx);
}

static double largest(const double *cost, const int *first, int k)
{
    double most = 0.0;
    int c, i;
    for (c = 0; c < k; c++) {
        double sum = 0.0;
        for (i = first[c]; i < first[c + 1]; i++) sum += cost[i];
        if (sum > most) most = sum;
    }
    return most;
}

static void test_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double cost[7] = { 3, 1, 4, 1, 5, 9, 2 };
    int first[8], n, k, code, again;
    for (again = 0; again < 20; again++)
        for (n = 1; n <= 7; n++)
            for (k = 1; k <= n; k++) {
                double best = 1e30;
                T_OK(tllm_sched_cut(ctx, cost, n, k, first));
                T_TRUE(first[0] == 0 && first[k] == n);
                for (code = 0; code < k; code++) T_TRUE(first[code] < first[code + 1]);
                for (code = 0; code < 1 << (n - 1); code++) {       /* a bit for each gap */
                    int f[8], c = 1, i;
                    f[0] = 0;
                    for (i = 1; i < n; i++) if (code >> (i - 1) & 1 && c <= k) f[c++] = i;
                    if (c != k) continue;
                    f[k] = n;
                    if (largest(cost, f, k) < best) best = largest(cost, f, k);
                }
                T_CLOSE(largest(cost, first, k), best, 1e-12);
                if (n == 7 && k == 7) for (code = 0; code < 7; code++) cost[code] = (double)t_rand_below(10);
            }
    T_STATUS(tllm_sched_cut(ctx, cost, 3, 4, first), TINY_E_ARGUMENT, "4 cells, but only 3 layers");
    cost[1] = -1.0;
    T_STATUS(tllm_sched_cut(ctx, cost, 3, 2, first), TINY_E_ARGUMENT, "cost of layer 1");
    T_STATUS(tllm_sched_cut(ctx, cost, 3, 0, first), TINY_E_ARGUMENT, "0 cells");
    t_close(ctx);
    T_PROOF("distributed 3", "balanced cuts: the best of all; bad: more cells than layers");
}

/* ---- a perceptron in pieces -------------------------------------------------------------------------------------- */

typedef struct mlp {                        /* a rank's own copy; layer l has its matrix and bias in w + at(l) */
    int pieces, first[MOST + 1];
    float w[WEIGHTS], g[WEIGHTS], x[ROWS * IN];
    int32_t label[ROWS];
    double drop;
    int no_weights;                         /* a piece whose layer only drops */
    int bad;                                /* 1: a wrong size, 2: NaN, 3: fails */
} mlp;

static int wide(int l) { return l < 0 ? IN : l == LAYERS - 1 ? CLASSES : HIDDEN; }
static int at_of(int l) { return l * (HIDDEN + 1) * HIDDEN; }

static void mlp_make(mlp *n, int pieces, double drop)
{
    tiny_rng rng = tiny_rng_make(7, 1);
    int i;
    memset(n, 0, sizeof *n);
    n->pieces = pieces;
    n->drop = drop;
    n->no_weights = -1;
    for (i = 0; i <= pieces; i++) n->first[i] = i * LAYERS / pieces;
    for (i = 0; i < WEIGHTS; i++) n->w[i] = 0.5f * tiny_rng_normal(&rng);
    for (i = 0; i < ROWS * IN; i++) n->x[i] = tiny_rng_normal(&rng);
    for (i = 0; i < ROWS; i++) n->label[i] = (int32_t)tiny_rng_below(&rng, CLASSES);
}
static size_t mlp_params(mlp *n, int piece, tiny_param *p)
{
    size_t k = 0;
    int l;
    for (l = n->first[piece]; l < n->first[piece + 1]; l++) {
        if (piece == n->no_weights) continue;
        memset(&p[k], 0, 2 * sizeof *p);
        p[k].value = tiny_tensor_2d(n->w + at_of(l), TINY_F32, wide(l), wide(l - 1));
        p[k].grad = tiny_tensor_2d(n->g + at_of(l), TINY_F32, wide(l), wide(l - 1));
        p[k + 1].value = tiny_tensor_1d(n->w + at_of(l) + wide(l) * wide(l - 1), TINY_F32, wide(l));
        p[k + 1].grad = tiny_tensor_1d(n->g + at_of(l) + wide(l) * wide(l - 1), TINY_F32, wide(l));
        k += 2;
    }
    return k;
}
static tiny_tensor mlp_piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x)
{
    mlp *n = (mlp *)user;
    tiny_tensor h, label;
    int l;
    if (x) h = *x;
    else h = tiny_tensor_2d(n->x + at->row * IN, TINY_F32, at->rows, IN);
    for (l = n->first[at->piece]; l < n->first[at->piece + 1]; l++) {
        const tiny_tensor w = tiny_tensor_2d(n->w + at_of(l), TINY_F32, wide(l), wide(l - 1)),
                          b = tiny_tensor_1d(n->w + at_of(l) + wide(l) * wide(l - 1), TINY_F32, wide(l));
        if (at->piece != n->no_weights)
            h = tiny_tape_linear(tape, &h, &w, &b, l < LAYERS - 1 ? TINY_ACT_RELU : TINY_ACT_NONE);
        if (l < LAYERS - 1) h = tllm_pipe_dropout(tape, at, &h, l, n->drop);
    }
    if (n->bad == 1 && !tiny_tape_dry(tape)) h.dim[0]--;
    if (n->bad == 2 && !tiny_tape_dry(tape)) *(float *)h.data = (float)NAN;
    if (n->bad == 3 && !tiny_tape_dry(tape)) h = tiny_tape_add(tape, &h, NULL);
    if (at->piece < n->pieces - 1) return h;
    label = tiny_tensor_1d(n->label + at->row, TINY_I32, at->rows);
    return tiny_tape_cross_entropy(tape, &h, &label, 0.0);
}

/* The same in double, all rows at once: loss, and gradients in g. */
static double mlp_plain(const mlp *n, int rows, uint64_t seed, int64_t step, double *g)
{
    static double h[LAYERS + 1][ROWS][HIDDEN], d[ROWS][HIDDEN], e[ROWS][HIDDEN];
    static double mask[LAYERS][ROWS][HIDDEN];
    double loss = 0.0;
    int r, l, i, j;
    memset(g, 0, WEIGHTS * sizeof *g);
    for (r = 0; r < rows; r++) for (i = 0; i < IN; i++) h[0][r][i] = n->x[r * IN + i];
    for (l = 0; l < LAYERS; l++) {
        const float *w = n->w + at_of(l), *b = w + wide(l) * wide(l - 1);
        for (r = 0; r < rows; r++)
            for (i = 0; i < wide(l); i++) {
                double s = b[i];
                const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) },
                               c[4] = { (uint32_t)i / 4, (uint32_t)r, (uint32_t)l, (uint32_t)step };
                uint32_t out[4];
                tiny_philox(c, key, out);
                mask[l][r][i] = l == LAYERS - 1 || n->drop == 0.0 ? 1.0
                                : (double)out[i % 4] < n->drop * 4294967296.0 ? 0.0 : 1.0 / (1.0 - n->drop);
                for (j = 0; j < wide(l - 1); j++) s += (double)w[i * wide(l - 1) + j] * h[l][r][j];
                if (l < LAYERS - 1 && s < 0.0) s = 0.0;
                h[l + 1][r][i] = s * mask[l][r][i];
            }
    }
    for (r = 0; r < rows; r++) {
        const double *z = h[LAYERS][r];
        double most = fmax(z[0], fmax(z[1], z[2])), sum = 0.0;
        for (i = 0; i < CLASSES; i++) sum += exp(z[i] - most);
        loss += (log(sum) + most - z[n->label[r]]) / rows;
        for (i = 0; i < CLASSES; i++) d[r][i] = (exp(z[i] - most) / sum - (i == n->label[r])) / rows;
    }
    for (l = LAYERS - 1; l >= 0; l--) {
        const float *w = n->w + at_of(l);
        double *gw = g + at_of(l), *gb = gw + wide(l) * wide(l - 1);
        memset(e, 0, sizeof e);
        for (r = 0; r < rows; r++)
            for (i = 0; i < wide(l); i++) {
                const double dz = l < LAYERS - 1 ? (h[l + 1][r][i] > 0.0 ? d[r][i] * mask[l][r][i] : 0.0) : d[r][i];
                gb[i] += dz;
                for (j = 0; j < wide(l - 1); j++) {
                    gw[i * wide(l - 1) + j] += dz * h[l][r][j];
                    e[r][j] += dz * (double)w[i * wide(l - 1) + j];
                }
            }
        memcpy(d, e, sizeof d);
    }
    return loss;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct job {
    int world, chunks, micros, rows, kind, keep, tcp, steps;
    double drop;
    tllm_sched_time spend;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    tiny_fault_at fault;                    /* of rank 1, if has_fault */
    int has_fault, bad, no_weights;
    uint64_t jitter, timeout;
    tiny_status st[MOST];
    char says[MOST][240];
    tllm_pipe_result result[MOST];
    uint64_t sent[MOST];
    size_t bytes[MOST];
    mlp net[MOST];
} job;

static void rank_body(job *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    tiny_idx width[MOST];
    tiny_param params[2 * LAYERS + 2];
    mlp *n = &j->net[rank];
    tllm_pipe_desc d;
    tllm_pipe *pipe = NULL;
    int i;
    memset(&d, 0, sizeof d);
    mlp_make(n, j->world * j->chunks, j->drop);
    n->no_weights = j->no_weights - 1;
    n->bad = rank == j->world - (j->bad == 1 ? 2 : 1) ? j->bad : 0;
    for (i = 0; i < j->chunks; i++) d.n_params += mlp_params(n, i * j->world + rank, params + d.n_params);
    for (i = 0; i < n->pieces; i++) width[i] = wide(n->first[i] - 1);
    d.net = net;
    d.schedule.kind = j->kind;
    d.schedule.micros = j->micros;
    d.schedule.chunks = j->chunks;
    d.keep = j->keep;
    d.rows = j->rows;
    d.width = width;
    d.params = params;
    d.run = mlp_piece;
    d.user = n;
    d.seed = 99;
    d.timeout_ns = j->timeout;
    d.spend = j->spend;
    j->st[rank] = tllm_pipe_open(ctx, &d, &pipe);
    for (i = 0; !j->st[rank] && i < j->steps; i++) j->st[rank] = tllm_pipe_run(pipe, 3, &j->result[rank]);
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    for (i = 0; net && i < j->world; i++) j->sent[rank] += net->count[i].messages_sent;
    j->bytes[rank] = tllm_pipe_bytes(pipe);
    tllm_pipe_close(pipe);
}

static void rank_main(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(t_now.target ? t_now.target : TINY_TARGET_AUTO);
    tiny_net *net = tiny_local_net(j->local, rank);
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
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
        j->st[rank] = tiny_tcp_open(ctx, &d, &tcp);
        net = tiny_tcp_net(tcp);
    }
    if (!j->st[rank] && (j->jitter || (j->has_fault && rank == 1))) {
        tiny_fault_desc d;
        memset(&d, 0, sizeof d);
        d.inner = net;
        d.at = &j->fault;
        d.n_at = j->has_fault && rank == 1;
        d.jitter_ns = j->jitter;
        d.seed = (uint64_t)rank;
        j->st[rank] = tiny_fault_open(ctx, &d, &fault);
        net = tiny_fault_net(fault);
    }
    if (!j->st[rank]) rank_body(j, rank, ctx, net);
    if (net) net->close(net);
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

/* 0: there are no threads */
static int run_job(job *j, const tiny_local_desc *like)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    if (!j->steps) j->steps = 1;
    if (!j->chunks) j->chunks = 1;
    memset(j->sent, 0, sizeof j->sent);
    j->local = NULL;
    if (j->tcp)
        for (i = 0; i < j->world; i++) {
            tiny_address a;
            tiny_socket at[TINY_ADDRESSES];
            ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
            j->at[i] = at[0];
            tiny_address_text(&a, j->address[i]);
            j->peers[i] = j->address[i];
        }
    else if (j->world > 1 || like) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        if (like) d = *like;
        d.world = j->world;
        if (!d.queue_bytes) d.queue_bytes = 256;        /* a message does not fit */
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    if (ok && j->world == 1) rank_main(0, j);
    else ok = ok && t_ranks(j->world, rank_main, j);
    tiny_local_close(ctx, j->local);
    for (i = 0; j->tcp && i < j->world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}

static int all_ok(const job *j)
{
    int r, ok = 1;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) ok = (printf("  rank %d of %d: %s\n", r, j->world, j->says[r]), 0);
    return ok;
}

/* the gradient of layer l is on the rank that owns its piece */
static const float *grad_of(const job *j, int l)
{
    const mlp *n = &j->net[0];
    int c = 0;
    while (n->first[c + 1] <= l) c++;
    return j->net[c % j->world].g + at_of(l);
}
static int layer_size(int l) { return wide(l) * (wide(l - 1) + 1); }

static void check_plain(const job *j, int64_t step)
{
    static double g[WEIGHTS];
    const double loss = mlp_plain(&j->net[0], j->rows, 99, step, g);
    double most = 0.0;
    int l, i, wrong = 0;
    for (i = 0; i < WEIGHTS; i++) most = fmax(most, fabs(g[i]));
    for (l = 0; l < LAYERS; l++)
        for (i = 0; i < layer_size(l); i++) wrong += !(fabs(grad_of(j, l)[i] - g[at_of(l) + i]) <= 1e-5 * most);
    T_EQ_INT(wrong, 0);
    T_CLOSE(j->result[j->world - 1].loss, loss, 1e-5 * (1.0 + loss));
}

/* 1 to 4 stages, 1 to 8 micro-batches, even and uneven, both schedules, with dropout and without */
static void test_gradients(tiny_target target)
{
    static job j, one;
    int drop, micros, world, kind, keep, l, rows;
    for (drop = 0; drop < 2; drop++)
        for (rows = 13; rows <= 16; rows += 3)
            for (micros = 1; micros <= (rows == 16 ? 8 : 4); micros *= 2)
                for (kind = 0; kind < 2; kind++) {
                    for (world = 1; world <= 4; world++)
                        for (keep = 0; keep < 2; keep++) {
                            memset(&j, 0, sizeof j);
                            j.world = world;
                            j.micros = micros;
                            j.rows = rows;
                            j.kind = kind;
                            j.keep = keep;
                            j.drop = drop ? 0.5 : 0.0;
                            j.steps = keep + 1;             /* a second batch leaves nothing of the first */
                            if (!run_job(&j, NULL) || !all_ok(&j)) return;
                            if (!keep && kind == 0)
                                T_EQ_INT(j.result[0].recomputed, micros - 1);
                            if (keep) T_EQ_INT(j.result[0].recomputed, 0);
                            if (world == 1 && !keep) {
                                check_plain(&j, 3);
                                one = j;
                                continue;
                            }
                            for (l = 0; l < LAYERS; l++)
                                T_SAME(grad_of(&j, l), grad_of(&one, l), (size_t)layer_size(l));
                        }
                }
    (void)target;                           /* the ranks read t_now */
    T_PROOF("distributed 3", "gradients of 1 to 4 cells and 1 to 8 micro-batches: those of the plain network, 1e-5");
    T_PROOF("distributed 3", "bitwise for any number of cells at fixed micro-batches");
    T_PROOF("distributed 3", "recomputation on and off: the same bits, also with dropout 0.5");
    T_PROOF("distributed 3", "a last micro-batch that is smaller weighs right");
}

/* two chunks on each of two stages, over threads and TCP, with jitter: the bits of one rank with the same order */
static void test_chunks_and_tcp(void)
{
    static job j, one;
    int k, l;
    memset(&one, 0, sizeof one);
    one.world = 1;
    one.chunks = 4;
    one.micros = 4;
    one.rows = 16;
    one.kind = TLLM_SCHED_1F1B;
    one.drop = 0.25;
    if (!run_job(&one, NULL) || !all_ok(&one)) return;
    check_plain(&one, 3);
    for (k = 0; k < 5; k++) {
        memset(&j, 0, sizeof j);
        j.world = k < 3 ? 2 : 4;
        j.chunks = k < 3 ? 2 : 1;
        j.micros = 4;
        j.rows = 16;
        j.kind = TLLM_SCHED_1F1B;
        j.drop = 0.25;
        j.tcp = k == 2 || k == 4;
        j.keep = k == 2;
        j.jitter = k == 1 ? 200000 : 0;
        j.steps = 2;
        if (!run_job(&j, NULL) || !all_ok(&j)) return;
        check_plain(&j, 3);
        for (l = 0; l < LAYERS; l++) T_SAME(grad_of(&j, l), grad_of(&one, l), (size_t)layer_size(l));
        /* two batches, 4 micro-batches: F to the next piece, B to the one before, 3 borders */
        if (k < 2) T_EQ_INT(j.sent[0] + j.sent[1], 2 * 4 * 3 * 2);
    }
    T_PROOF("distributed 2", "interleaved and plain 1F1B over threads and TCP: the bits of one rank");
}

/* bytes that are held, by the formulas: inputs of all rows, and the inside of one micro-batch */
static void test_memory(void)
{
    static job j;
    int micros, r, keep, kind;
    for (kind = 0; kind < 2; kind++)
        for (keep = 0; keep < 2; keep++)
            for (micros = 1; micros <= 8; micros *= 2) {
                memset(&j, 0, sizeof j);
                j.world = 4;
                j.rows = ROWS;
                j.micros = micros;
                j.keep = keep;
                j.kind = kind;
                if (!run_job(&j, NULL) || !all_ok(&j)) return;
                for (r = 0; r < 3; r++) {
                    const int live = kind == TLLM_SCHED_GPIPE || micros < 4 - r ? micros : 4 - r;
                    const size_t row = HIDDEN * sizeof(float), each = (size_t)(ROWS / micros) * row;
                    if (r) T_EQ_INT(j.result[r].stash_bytes, keep ? 0 : (size_t)live * each);
                    T_EQ_INT(j.result[r].inner_bytes, keep ? (size_t)live * each : each);
                }
            }
    T_PROOF("distributed 3", "bytes: inputs of all rows, one micro-batch of the inside; with keep all of it");
    T_PROOF("distributed 2", "held micro-batches 4, 3, 2, 1 where GPipe holds all 8");
}

/* (M + K - 1)(f + b) on the virtual clock; with recomputation and latency what the simulator says */
static void test_clock(void)
{
    static job j;
    tiny_local_desc line;
    int k, r;
    for (k = 0; k < 24; k++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_sched s;
        tllm_sched_time t;
        uint64_t end = 0;
        double total;
        memset(&j, 0, sizeof j);
        memset(&line, 0, sizeof line);
        line.virtual_clock = 1;
        line.latency_ns = k & 4 ? 70 : 0;
        j.world = k & 1 ? 2 : 4;
        j.chunks = k >= 16 && k & 1 ? 2 : 1;
        j.micros = 8;
        j.rows = 16;
        j.kind = k & 2 || k >= 16 ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE;
        j.spend.forward = 1000.0;
        j.spend.backward = 2000.0;
        j.spend.again = k & 8 ? 1000.0 : 0.0;
        if (!run_job(&j, &line) || !all_ok(&j)) return;
        for (r = 0; r < j.world; r++) if (j.result[r].clock > end) end = j.result[r].clock;
        s.kind = j.kind;
        s.stages = j.world;
        s.micros = 8;
        s.chunks = j.chunks;
        t = j.spend;
        t.hop = (double)line.latency_ns;
        T_OK(tllm_sched_simulate(ctx, &s, NULL, &t, NULL, NULL, &total));
        T_CLOSE((double)end, total, 0.0);
        if (!(k & 12)) T_CLOSE((double)end, (8.0 + (j.world - 1.0) / j.chunks) * 3000.0, 0.0);
        t_close(ctx);
    }
    T_PROOF("distributed 3", "time of cells that take f and b: (M + K - 1)(f + b)");
}

/* batch norm: statistics of micro-batches, running averages of the whole batch */
typedef struct normed { float mean[3], var[3], g[6], w[6], x[12 * 3]; double sum[7]; int n_again; } normed;
static tiny_tensor normed_piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x)
{
    normed *n = (normed *)user;
    const tiny_tensor h = tiny_tensor_2d(n->x + at->row * 3, TINY_F32, at->rows, 3),
                      g = tiny_tensor_1d(n->w, TINY_F32, 3), b = tiny_tensor_1d(n->w + 3, TINY_F32, 3);
    tllm_pipe_norm norm;
    tiny_tensor y;
    (void)x;
    norm.mean = n->mean;
    norm.var = n->var;
    norm.sum = n->sum;
    norm.momentum = 0.25;
    norm.n = 12;
    n->n_again += at->again;
    y = tllm_pipe_batch_norm(tape, at, &h, &g, &b, &norm);
    y = tiny_tape_mul(tape, &y, &h);
    return tiny_tape_mean(tape, &y);
}
static void test_batch_norm(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    normed n;
    tllm_pipe_desc d;
    tllm_pipe *pipe = NULL;
    tiny_param p[2];
    int i, c;
    memset(&n, 0, sizeof n);
    memset(&d, 0, sizeof d);
    memset(p, 0, sizeof p);
    for (i = 0; i < 36; i++) n.x[i] = (float)(i * i % 17) - 5.0f;
    for (c = 0; c < 3; c++) n.var[c] = n.w[c] = 1.0f;
    for (i = 0; i < 2; i++) {
        p[i].value = tiny_tensor_1d(n.w + 3 * i, TINY_F32, 3);
        p[i].grad = tiny_tensor_1d(n.g + 3 * i, TINY_F32, 3);
    }
    d.rows = 12;
    d.schedule.micros = 3;
    d.params = p;
    d.n_params = 2;
    d.run = normed_piece;
    d.user = &n;
    T_OK(tllm_pipe_open(ctx, &d, &pipe));
    T_OK(tllm_pipe_run(pipe, 0, NULL));
    T_EQ_INT(n.n_again, 2);
    for (c = 0; c < 3; c++) {
        double mean = 0.0, var = 0.0;
        for (i = 0; i < 12; i++) mean += n.x[3 * i + c] / 12.0;
        for (i = 0; i < 12; i++) var += (n.x[3 * i + c] - mean) * (n.x[3 * i + c] - mean) / 12.0;
        T_CLOSE(n.mean[c], 0.25 * mean, 1e-5);
        T_CLOSE(n.var[c], 0.75 + 0.25 * var, 1e-4);
    }
    tllm_pipe_close(pipe);
    t_close(ctx);
    T_PROOF("distributed 3", "batch norm: micro-batches in training, running averages of the mini-batch");
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static mlp n;
    tiny_param params[2 * LAYERS + 2];
    tiny_idx width[2] = { 0, HIDDEN };
    static double plain[WEIGHTS];
    tllm_pipe_desc ok, d;
    tllm_pipe_result result;
    tllm_pipe *pipe = NULL;
    tiny_local_desc line = { 0 };
    tiny_local *local = NULL;
    tiny_net star;
    int i;
    line.world = 3;
    T_OK(tiny_local_open(ctx, &line, &local));
    mlp_make(&n, 1, 0.0);
    memset(&ok, 0, sizeof ok);
    ok.rows = 16;
    ok.schedule.micros = 4;
    ok.width = width;
    ok.params = params;
    ok.n_params = mlp_params(&n, 0, params);
    ok.run = mlp_piece;
    ok.user = &n;
    T_STATUS(tllm_pipe_run(NULL, 0, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_pipe_open(ctx, &ok, NULL), TINY_E_ARGUMENT, "output pointer");
#define REFUSED(change, status, text)                        \
    d = ok;                                                  \
    change;                                                  \
    T_STATUS(tllm_pipe_open(ctx, &d, &pipe), status, text);  \
    T_TRUE(!pipe)
    REFUSED(d.rows = 3, TINY_E_ARGUMENT, "3 rows in 4 micro-batches; each needs one row");
    REFUSED(d.rows = 6, TINY_E_ARGUMENT, "6 rows in 4 micro-batches of 2 leave the last one empty");
    REFUSED(d.rows_in_all = 8, TINY_E_ARGUMENT, "8 rows in all");
    REFUSED(d.run = NULL, TINY_E_ARGUMENT, "desc.run");
    REFUSED(d.schedule.stages = 2, TINY_E_ARGUMENT, "a schedule of 2 stages on 1 ranks");
    REFUSED(d.spend.forward = -1.0, TINY_E_ARGUMENT, "times of passes");
    REFUSED(d.params = NULL, TINY_E_ARGUMENT, "desc.params");
    star = *tiny_local_net(local, 0);
    star.star = 1;
    REFUSED(d.net = &star, TINY_E_UNSUPPORTED, "in a star of 3 ranks neighbours are not connected");
    REFUSED((d.schedule.chunks = 2, d.schedule.kind = 1, d.width = NULL), TINY_E_ARGUMENT, "desc.width");
    REFUSED((d.schedule.chunks = 2, d.schedule.kind = 1, width[1] = 0), TINY_E_ARGUMENT, "enter piece 1");
    params[0].value.dtype = TINY_F64;
    REFUSED((void)0, TINY_E_DTYPE, "parameter 0");
    params[0].value.dtype = TINY_F32;
    width[1] = HIDDEN;
#undef REFUSED
    /* a run that failed leaves nothing behind */
    d = ok;
    mlp_make(&n, 2, 0.0);
    d.schedule.chunks = 2;
    d.schedule.kind = TLLM_SCHED_1F1B;
    T_OK(tllm_pipe_open(ctx, &d, &pipe));
    for (i = 0; i < 20; i++) {
        n.bad = i % 2 ? 0 : 2;
        if (n.bad) T_STATUS(tllm_pipe_run(pipe, 0, NULL), TINY_E_NUMERIC, "the loss of micro-batch 0");
        else T_OK(tllm_pipe_run(pipe, 0, &result));
        if (!n.bad) T_CLOSE(result.loss, mlp_plain(&n, 16, 0, 0, plain), 1e-5);
    }
    tllm_pipe_close(pipe);
    pipe = NULL;
    mlp_make(&n, 1, 0.0);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        pipe = NULL;
        if (!tiny_ctx_open(&cd, &c) && !tllm_pipe_open(c, &ok, &pipe)) (void)tllm_pipe_run(pipe, 0, NULL);
        tllm_pipe_close(pipe);
        tiny_ctx_close(c);)
    tiny_local_close(ctx, local);
    t_close(ctx);
    T_PROOF("distributed 3", "bad input: each has its sentence");
}

/* A stage that ends, fails or falls silent ends the group. */
static void test_faults(void)
{
    static const struct { int bad, fault; tiny_status st; const char *says; } of[] = {
        { 1, -1, TINY_E_SHAPE, "piece 2 gave" },       { 2, -1, TINY_E_NUMERIC, "the loss of micro-batch 0 is" },
        { 3, -1, TINY_E_WORKSPACE, "tape: " },         { 0, TINY_FAULT_KILL, TINY_E_PEER, "" },
        { 0, TINY_FAULT_TWICE, TINY_E_PROTOCOL, "" },  { 0, TINY_FAULT_DROP, TINY_OK, "" }
    };
    static job j;
    size_t k;
    int r, message;
    for (k = 0; k < T_COUNT(of); k++)
        for (message = 0; message < (of[k].bad ? 1 : 3); message++) {
            memset(&j, 0, sizeof j);
            j.world = 4;
            j.micros = 4;
            j.rows = 16;
            j.kind = message % 2;
            j.bad = of[k].bad;
            j.has_fault = !of[k].bad;
            j.fault.to = -1;
            j.fault.message = (uint64_t)message;
            j.fault.kind = of[k].fault;
            j.timeout = of[k].fault == TINY_FAULT_DROP ? 50000000 : 0;
            if (!run_job(&j, NULL)) return;
            for (r = 0; r < 4; r++) T_TRUE(j.st[r] != TINY_OK && *j.says[r]);
            r = of[k].bad == 1 ? 2 : 3;
            if (of[k].bad) T_TRUE(j.st[r] == of[k].st && strstr(j.says[r], of[k].says));
        }
    T_PROOF("distributed 3", "a stage that ends, fails or falls silent ends the group");
}

/* a cell without parameters: the first, and one inside */
static void test_no_parameters(void)
{
    static job j;
    int r;
    for (r = 0; r < 2; r++) {
        memset(&j, 0, sizeof j);
        j.world = 4;
        j.micros = 2;
        j.rows = 16;
        j.no_weights = 2 + r;
        if (!run_job(&j, NULL) || !all_ok(&j)) return;
        T_TRUE(j.net[3].g[at_of(3)] != 0.0f && j.net[0].g[at_of(0)] != 0.0f);
        T_EQ_INT(j.net[1 + r].g[at_of(1 + r)] == 0.0f, 1);
    }
    T_PROOF("distributed 3", "a cell with zero parameters passes gradients on");
}

int main(void)
{
    T_RUN(test_schedules);
    T_RUN(test_megatron_lists);
    T_RUN(test_bad_schedules);
    T_RUN(test_cut);
    T_RUN_TARGETS(test_gradients);
    T_RUN(test_chunks_and_tcp);
    T_RUN(test_memory);
    T_RUN(test_clock);
    T_RUN(test_batch_norm);
    T_RUN(test_refused);
    T_RUN(test_faults);
    T_RUN(test_no_parameters);
    return t_done();
}
