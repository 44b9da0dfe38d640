/* examples/noloco.c - trains a character model on several ranks, with and without a sum over all of them
 *
 *     noloco --ranks 4                                    NoLoCo: replicas meet in pairs
 *     noloco --method diloco --ranks 4 --late 200         a sum of all changes, one replica 200 ms late
 *     noloco --method full --ranks 4                      a sum of all gradients in each step
 *
 * The text is drawn from a Markov chain of 12 characters, whose entropy is known: no file is needed. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* kill, of examples/world.h, is no part of C */
#endif
#define TINYLLM_IMPLEMENTATION
#define TINYLLM_WITH_NOLOCO
#define TINY_WITH_TRAIN
#define TINY_WITH_COLLECTIVES
#define TINY_WITH_TCP
#include "tinyllm.h"
#define PROGRAM "noloco"
#include "options.h"
#include "world.h"
#include "curve.h"
#include <math.h>

static const char usage[] =
    "noloco [options]\n"
    "  --method NAME  noloco, diloco or full (a sum of gradients in each step); default: noloco\n"
    "  --steps N      inner steps of each replica; default: 1500\n"
    "  --inner N      inner steps between outer steps; default: 50; diloco: 100\n"
    "  --rate X       of the inner Adam, falling to 0 along a cosine; default: 2e-3\n"
    "  --alpha X      momentum of the outer steps; default: 0.5; diloco: 0.3\n"
    "  --beta X       weight of the changes; default: 0.7\n"
    "  --gamma X      pull towards the other replica; default: beta\n"
    "  --late MS      rank 1 is that many milliseconds late at each outer step\n"
    "  --wait MS      a replica that is not ready in that time is left alone; default: 10000, 0: wait for ever\n"
    "  --seed N       of the chain, the first weights and the pairs\n"
    "  --svg FILE     draw the course of rank 0\n"
    "  --check        run it again on threads of one process; end with status 1 if a bit of the weights differs\n"
    "  --quiet        print the last lines only\n" WORLD_USAGE;

enum { LETTERS = 12, BACK = 8, IN = LETTERS * BACK, HIDDEN = 320, SECOND = 200, BATCH = 32, TENSORS = 6 };
enum { NOLOCO, DILOCO, FULL };
static world w = { 4, 0, 0, 0 };
static int method, steps = 1500, inner, late, wait_ms = -1, check, quiet;
static double rate = 2e-3, alpha, beta, gamma_;
static uint64_t seed = 1;
static const char *method_name = "noloco", *svg;

/* ---- the text: three or four letters may follow two others ------------------------------------------------------- */

static void odds(int a, int b, int next[4], double p[4])
{
    tiny_rng r = tiny_rng_make(seed, (uint64_t)(a * LETTERS + b) + 500);
    double sum = 0;
    int i;
    for (i = 0; i < 4; i++) {
        next[i] = (int)tiny_rng_below(&r, LETTERS);
        sum += p[i] = 0.05 + tiny_rng_uniform64(&r);
    }
    for (i = 0; i < 4; i++) p[i] /= sum;
}
static int letter(tiny_rng *r, int a, int b)
{
    int next[4], i;
    double p[4], x = tiny_rng_uniform64(r);
    odds(a, b, next, p);
    for (i = 0; i < 3 && x >= p[i]; i++) x -= p[i];
    return next[i];
}
/* one-hot letters x (n, IN) before each label (n) */
static void text(tiny_rng *r, int n, float *x, int32_t *label)
{
    int at[BACK + 1], i, k;
    memset(x, 0, (size_t)n * IN * sizeof *x);
    for (i = 0; i < n; i++) {
        at[0] = (int)tiny_rng_below(r, LETTERS);
        at[1] = (int)tiny_rng_below(r, LETTERS);
        for (k = 2; k <= BACK; k++) at[k] = letter(r, at[k - 2], at[k - 1]);
        for (k = 0; k < BACK; k++) x[i * IN + k * LETTERS + at[k]] = 1.0f;
        label[i] = at[BACK];
    }
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

typedef struct net_model {
    tiny_ctx *ctx;
    tiny_tape *tape;
    tiny_optim *optim;
    tiny_param param[TENSORS];
    float *theta, *grad, *x;
    int32_t *label;
    size_t n;
} net_model;

static const tiny_idx sizes[TENSORS][2] = { { HIDDEN, IN }, { 1, HIDDEN },       { SECOND, HIDDEN },
                                            { 1, SECOND },  { LETTERS, SECOND }, { 1, LETTERS } };
static tiny_status model_open(tiny_ctx *ctx, net_model *m)
{
    tiny_optim_desc od;
    tiny_tape_desc td;
    tiny_rng r = tiny_rng_make(seed, 7);
    size_t at = 0, n;
    int i;
    tiny_status st;
    memset(m, 0, sizeof *m);
    memset(&od, 0, sizeof od);
    memset(&td, 0, sizeof td);
    m->ctx = ctx;
    for (i = 0; i < TENSORS; i++) m->n += (size_t)(sizes[i][0] * sizes[i][1]);
    m->theta = floats((tiny_idx)m->n);
    m->grad = floats((tiny_idx)m->n);
    m->x = floats((tiny_idx)1024 * IN);
    m->label = (int32_t *)need(calloc(1024, sizeof *m->label));
    for (i = 0; i < TENSORS; i++, at += n) {
        const int flat = sizes[i][0] == 1;
        n = (size_t)(sizes[i][0] * sizes[i][1]);
        m->param[i].name = "w";
        m->param[i].value = flat ? tiny_tensor_1d(m->theta + at, TINY_F32, (tiny_idx)n)
                                 : tiny_tensor_2d(m->theta + at, TINY_F32, sizes[i][0], sizes[i][1]);
        m->param[i].grad = m->param[i].value;
        m->param[i].grad.data = m->grad + at;
        if (!flat) tiny_rng_fill_normal(&r, m->theta + at, n);
        for (; !flat && n-- > 0;) m->theta[at + n] *= (float)sqrt(2.0 / (i ? (double)sizes[i][1] : (double)BACK));
        n = (size_t)(sizes[i][0] * sizes[i][1]);
    }
    od.group[0].kind = TINY_OPTIM_ADAM;
    od.group[0].lr = rate;
    od.clip = 1.0;
    st = tiny_optim_open(ctx, m->param, TENSORS, &od, &m->optim);
    td.bytes = (size_t)16 << 20;
    if (!st) st = tiny_tape_open(ctx, &td, &m->tape);
    for (i = 0; i < TENSORS && !st; i++) st = tiny_tape_param(m->tape, &m->param[i]);
    return st;
}
static void model_close(net_model *m)
{
    tiny_tape_close(m->tape);
    tiny_optim_close(m->optim);
    free(m->theta);
    free(m->grad);
    free(m->x);
    free(m->label);
}
/* mean loss in nats of n samples in x and label; their gradient in grad, if `learn` */
static tiny_status model_loss(net_model *m, int n, int learn, double *loss)
{
    const tiny_tape_mark mark = tiny_tape_now(m->tape);
    const tiny_tensor x = tiny_tensor_2d(m->x, TINY_F32, n, IN), label = tiny_tensor_1d(m->label, TINY_I32, n);
    tiny_tensor h = tiny_tape_linear(m->tape, &x, &m->param[0].value, &m->param[1].value, TINY_ACT_RELU), y;
    tiny_status st;
    h = tiny_tape_linear(m->tape, &h, &m->param[2].value, &m->param[3].value, TINY_ACT_RELU);
    h = tiny_tape_linear(m->tape, &h, &m->param[4].value, &m->param[5].value, TINY_ACT_NONE);
    y = tiny_tape_cross_entropy(m->tape, &h, &label, 0.0f);
    st = tiny_tape_status(m->tape);
    if (!st) *loss = (double)*(const float *)y.data;
    if (!st && learn) {
        tiny_tape_zero(m->tape);
        st = tiny_tape_backward(m->tape, &y, NULL);
    }
    tiny_tape_release(m->tape, mark);
    return st;
}
/* nats on text that no replica trains on */
static tiny_status model_judge(net_model *m, double *loss)
{
    tiny_rng r = tiny_rng_make(seed, 8);
    double one;
    int i;
    tiny_status st = TINY_OK;
    for (*loss = 0, i = 0; i < 8 && !st; i++) {
        text(&r, 256, m->x, m->label);
        st = model_loss(m, 256, 0, &one);
        *loss += one / 8;
    }
    return st;
}
/* what the best possible model would have */
static double entropy(void)
{
    double sum = 0;
    int a, b, i, k;
    for (a = 0; a < LETTERS; a++)
        for (b = 0; b < LETTERS; b++) {
            int next[4];
            double p[4], q;
            odds(a, b, next, p);
            for (i = 0; i < 4; i++) {
                for (q = 0, k = 0; k < 4; k++)
                    if (next[k] == next[i]) q += p[k];
                sum -= p[i] * log(q) / (LETTERS * LETTERS);
            }
        }
    return sum;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

typedef struct result {
    double loss, low, high, mean_model, waited_ms, most_ms;
    uint64_t bytes, hash;
    int alone;
} result;

static uint64_t digest(const float *x, size_t n)
{
    uint64_t h = 1469598103934665603u;
    for (; n-- > 0; x++) {
        uint32_t bits;
        memcpy(&bits, x, 4);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

static tiny_status train(tiny_ctx *ctx, tiny_net *net, int loud, result *out, curve *c)
{
    net_model m;
    tllm_noloco *o = NULL;
    tllm_noloco_desc d;
    tllm_noloco_report report;
    tiny_coll all;
    tiny_rng r = tiny_rng_make(seed, 1000 + (uint64_t)net->rank);
    float *phi = NULL, *momentum = NULL, five[5];
    double loss = 0, waited = 0, most = 0;
    uint64_t said = tiny_now_ns(), bytes = 0;
    size_t k;
    int s, i, outer = 0;
    tiny_status st = model_open(ctx, &m);
    memset(out, 0, sizeof *out);
    memset(&d, 0, sizeof d);
    memset(&all, 0, sizeof all);
    all.net = net;
    all.n_work = tiny_coll_work(net->world, m.n, 4);
    all.work = need(malloc(all.n_work));
    phi = floats((tiny_idx)m.n);
    momentum = floats((tiny_idx)m.n);
    memcpy(phi, m.theta, m.n * sizeof *phi);
    d.net = net;
    d.theta = m.theta;
    d.n = m.n;
    d.alpha = alpha;
    d.beta = beta;
    d.gamma = gamma_;
    d.seed = seed;
    d.wait_ns = !wait_ms || !loud || check ? UINT64_MAX : wait_ms < 0 ? 0 : (uint64_t)wait_ms * 1000000u;
    if (!st && method == NOLOCO) st = tllm_noloco_open(ctx, &d, &o);
    for (s = 0; s < steps && !st; s++) {
        text(&r, BATCH, m.x, m.label);
        st = model_loss(&m, BATCH, 1, &loss);
        if (!st && method == FULL) {
            const uint64_t from = tiny_now_ns();
            all.until = from + UINT64_C(600000000000);
            st = tiny_coll_allreduce(ctx, &all, TINY_COMM_RING, m.grad, m.n);
            for (k = 0; k < m.n; k++) m.grad[k] /= (float)net->world;
            waited += 1e-6 * (double)(tiny_now_ns() - from);
        }
        if (!st) st = tiny_optim_step(m.optim, 0.5 * (1.0 + cos(3.14159265358979 * (double)s / (double)steps)));
        if (!st && o) st = tllm_noloco_poll(o);
        if (!st && (s + 1) % inner == 0) {
            uint64_t from;
            double ms;
            outer++;
            if (late && net->rank == 1 && loud) {
                const uint64_t until = tiny_now_ns() + (uint64_t)late * 1000000u;
                while (tiny_now_ns() < until) net->pause(net, net->changes(net), until);
            }
            from = tiny_now_ns();
            if (method == NOLOCO) {
                st = tllm_noloco_outer(o, &report);
                out->alone += report.met == 1;
            } else if (method == DILOCO) {
                for (k = 0; k < m.n; k++) m.theta[k] -= phi[k];
                all.until = from + UINT64_C(600000000000);
                st = tiny_coll_allreduce(ctx, &all, TINY_COMM_RING, m.theta, m.n);
                for (k = 0; k < m.n; k++) {
                    momentum[k] = (float)alpha * momentum[k] + (float)beta * (m.theta[k] / (float)net->world);
                    m.theta[k] = phi[k] += momentum[k];
                }
            }
            ms = 1e-6 * (double)(tiny_now_ns() - from);
            if (method != FULL) waited += ms;
            if (ms > most) most = ms;
            if (!st && !net->rank && loud) {
                st = model_judge(&m, &loss);
                curve_add(c, s + 1, loss);
                if (!quiet) {
                    printf("%8d %12.4f %12.1f\n", s + 1, loss, ms);
                    (void)fflush(stdout);
                }
            }
        }
        if (loud && !net->rank && !quiet && tiny_now_ns() - said > UINT64_C(5000000000)) {
            printf("%8d\n", s + 1);
            (void)fflush(stdout);
            said = tiny_now_ns();
        }
    }
    for (i = 0; i < net->world; i++) bytes += net->count[i].bytes_sent;
    if (!st && o) st = tllm_noloco_leave(o, 1);
    if (!st) st = model_judge(&m, &loss);
    out->hash = digest(m.theta, m.n);
    /* the losses and waits of all replicas, and the model that is their mean */
    waited /= outer ? outer : 1;
    five[0] = five[3] = (float)loss;
    five[1] = five[4] = (float)waited;
    five[2] = (float)-loss;
    all.until = tiny_now_ns() + UINT64_C(600000000000);
    if (!st) st = tiny_coll_allreduce(ctx, &all, TINY_COMM_RING, five, 2);
    all.op = TINY_COLL_MAX;
    if (!st) st = tiny_coll_allreduce(ctx, &all, TINY_COMM_RING, five + 2, 3);
    all.op = TINY_COLL_SUM;
    out->waited_ms = (double)five[1] / net->world;
    if (!st) st = tiny_coll_allreduce(ctx, &all, TINY_COMM_RING, m.theta, m.n);
    for (k = 0; k < m.n; k++) m.theta[k] /= (float)net->world;
    if (!st) st = model_judge(&m, &out->mean_model);
    out->loss = (double)five[0] / net->world;
    out->low = -(double)five[2];
    out->high = (double)five[3];
    out->most_ms = (double)five[4];
    out->bytes = bytes;
    tllm_noloco_close(o);
    model_close(&m);
    free(all.work);
    free(phi);
    free(momentum);
    return st;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

typedef struct twin {
    tiny_local *local;
    uint64_t hash;
    int failed, ran;
} twin;
static void twin_rank(tiny_team *team, void *arg)
{
    twin *t = (twin *)arg;
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    tiny_net *net = tiny_local_net(t->local, team->i);
    result out;
    curve c;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    d.n_threads = 1;
    if (!net) return;
    if (tiny_ctx_open(&d, &ctx) || train(ctx, net, 0, &out, &c)) t->failed = 1;
    else if (!team->i) {
        t->hash = out.hash;
        t->ran = team->n;
    }
    net->close(net);
    tiny_ctx_close(ctx);
}
/* the same run on threads of this process */
static tiny_status again(int ranks, uint64_t hash)
{
    tiny_ctx_desc d;
    tiny_local_desc ld;
    tiny_ctx *ctx = NULL;
    twin t;
    tiny_status st;
    memset(&d, 0, sizeof d);
    memset(&ld, 0, sizeof ld);
    memset(&t, 0, sizeof t);
    d.n_threads = ld.world = ranks;
    st = tiny_ctx_open(&d, &ctx);
    if (!st) st = tiny_local_open(ctx, &ld, &t.local);
    if (!st) st = tiny_parallel(ctx, ranks, 0, 0, twin_rank, &t);
    if (!st && (t.failed || t.ran != ranks)) st = TINY_E_UNSUPPORTED;
    if (!st)
        puts(t.hash == hash ? "threads of one process get the same weights, bit for bit"
                            : "threads of one process get other weights");
    if (!st && t.hash != hash) st = TINY_E_NUMERIC;
    tiny_local_close(ctx, t.local);
    tiny_ctx_close(ctx);
    return st;
}

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    result out;
    curve c;
    char title[120];
    tiny_status st;
    (void)arg;
    memset(&c, 0, sizeof c);
    if (!net->rank && !quiet) {
        printf("%s, %d replicas, %d inner steps; the best possible loss is %.4f\n%8s %12s %12s\n", method_name,
               net->world, inner, entropy(), "step", "nats", "ms waited");
        (void)fflush(stdout);
    }
    st = train(ctx, net, 1, &out, &c);
    if (st || net->rank) return st;
    printf("loss %.4f (%.4f to %.4f), of their mean %.4f, floor %.4f\n", out.loss, out.low, out.high,
           out.mean_model, entropy());
    printf("a replica waited %.1f ms an outer step, one of them %.1f; rank 0 sent %.1f MB\n", out.waited_ms,
           out.most_ms, 1e-6 * (double)out.bytes);
    if (out.alone) printf("rank 0 was left alone %d times\n", out.alone);
    if (svg) {
        (void)snprintf(title, sizeof title, "%s: nats a letter of rank 0; the floor is %.3f", method_name, entropy());
        if (!curve_draw(&c, svg, title, "#1f77b4", entropy(), entropy() + 1e-3)) return TINY_E_IO;
    }
    return check ? again(net->world, out.hash) : TINY_OK;
}

int main(int argc, char **argv)
{
    static const char *const names[3] = { "noloco", "diloco", "full" };
    const option options[] = { A_TEXT("--method", &method_name),
                               A_WHOLE("--steps", &steps, 1, 1e7),
                               A_WHOLE("--inner", &inner, 1, 1e6),
                               A_NUMBER("--rate", &rate, 1e-9, 10),
                               A_NUMBER("--alpha", &alpha, 1e-6, 1),
                               A_NUMBER("--beta", &beta, 1e-6, 10),
                               A_NUMBER("--gamma", &gamma_, 1e-6, 10),
                               A_WHOLE("--late", &late, 0, 60000),
                               A_WHOLE("--wait", &wait_ms, 0, 1e7),
                               A_SEED("--seed", &seed),
                               A_TEXT("--svg", &svg),
                               A_FLAG("--check", &check),
                               A_FLAG("--quiet", &quiet),
                               WORLD_OPTIONS(w) };
    int bad;
    READ_OPTIONS(argc, argv, usage, options);
    for (method = 0; method < 3 && strcmp(method_name, names[method]);) method++;
    if (method == 3) return refused("--method %s: there are noloco, diloco and full", method_name);
#ifndef WORLD_MPI
    if (w.ranks < 2) return wrong("--ranks", "2 replicas or more are needed to meet");
#endif
    if (check && late) return wrong("--check", "not together with --late");
    if (!inner) inner = method == DILOCO ? 100 : 50;
    if (alpha <= 0) alpha = method == DILOCO ? 0.3 : 0.5;
    if (beta <= 0) beta = 0.7;
    if ((bad = must_not_write(svg, 0))) return bad;
    return exit_status(world_run(&w, body, NULL));
}
