/* examples/sbp.c - plans where tensors are split, copied or partial over ranks, runs the plan, and shows what it moves
 *
 *     sbp plan --ranks 4 --batch 32 --width 4096       which plan, and what others would move
 *     sbp run --ranks 4 --tcp --check                  runs it over processes and compares with one rank
 *     sbp actors --times 1,3,1 --items 20              a pipeline with 1, 2 and 3 buffers
 *     sbp stages --ranks 3 --items 1000 --check        the same three stages with numbers, each on a rank
 *
 * The graph is a step of training of two layers: x w1, relu^2, w2, tanh in place of a loss, the gradients and both
 * updates. A state is drawn as ranks: 0/1 rows, 0|1 columns, 0=1 copies, 0+1 partial sums. */
#define TINYLLM_WITH_SBP
#define TINYLLM_WITH_ACTORS
#define TINY_WITH_TCP
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#define PROGRAM "sbp"
#include "options.h"
#include "world.h"

static const char usage[] =
    "sbp plan | run | actors | stages [options]\n"
    "  plan           prints the plan of a step of training, and the bytes of other plans\n"
    "  run            runs that plan over ranks and counts the bytes\n"
    "  actors         a pipeline of three stages with 1, 2 and 3 buffers, as times and as a picture\n"
    "  stages         three stages on up to three ranks that pass numbers: load, square, sum\n"
    "  --batch N      rows of x; default: 32\n"
    "  --width N      columns of x; the layer between is four times as wide; default: 256\n"
    "  --grid AxB     ranks as a grid of A rows and B columns; default: one line of all ranks\n"
    "  --plan NAME    exact, greedy, data (rows of x, copied weights), tensor (split weights), rows (everything in\n"
    "                 rows), copies (everything everywhere); default: exact, on a grid greedy\n"
    "  --memory X     megabytes of tensors that a rank may hold; default: no limit\n"
    "  --per-flop X   bytes that may be sent in the time of one operation of a rank; default: 0.01\n"
    "  --check        run, stages: status 1 if the result differs from that of one rank\n"
    "  --times A,B,C  actors: how long a call of each stage takes; default: 1,3,1\n"
    "  --items N      actors, stages: items that pass through; default: 20\n"
    "  --buffers N    stages: of each stage; default: 2\n"
    "  --kilobytes N  stages: of an item; default: 64\n" WORLD_USAGE;

enum { NAMES = 6, STAGES = 3, ITEMS = 20 };
static const char plan_names[] = "exact greedy data tensor rows copies";

typedef struct job {
    int batch, width, check, plan, command, items, buffers, kilobytes;
    double memory, per_flop;
    const char *grid, *name, *times;
    int n[2];                               /* the grid, once the number of ranks is known */
    uint64_t time[STAGES];
} job;

/* ---- the graph */

static tiny_status add(tiny_ctx *ctx, tllm_sbp_graph *g, const char *name, int op, int a, int b, int act, int *id)
{
    tllm_sbp_node n;
    memset(&n, 0, sizeof n);
    (void)snprintf(n.name, sizeof n.name, "%s", name);
    n.op = op;
    n.in[0] = a;
    n.in[1] = b;
    n.act = act;
    n.axes[0] = 1;
    n.factor = -0.01f;
    if (op == TLLM_SBP_ADD) n.like = 1 + a;
    return tllm_sbp_put(ctx, g, &n, id);
}
enum { X, W1, W2, Z, H, Y, DY, W2T, DH, S, DZ, HT, G2, XT, G1 };    /* nodes, in the order of build */
static tiny_status build(tiny_ctx *ctx, const job *j, int p1, int p2, tllm_sbp_graph *g)
{
    const tiny_idx dx[2] = { j->batch, j->width }, d1[2] = { j->width, 4 * j->width };
    const tiny_idx d2[2] = { 4 * j->width, j->width };
    int x, w1, w2, z, h, y, dy, s, w2t, dh, dz, ht, xt, g1, g2, id;
    tiny_status st;
    memset(g, 0, sizeof *g);
    g->place.n[0] = p1;
    g->place.n[1] = p2;
    st = tllm_sbp_input(ctx, g, "x", 2, dx, &x);
    if (!st) st = tllm_sbp_input(ctx, g, "w1", 2, d1, &w1);
    if (!st) st = tllm_sbp_input(ctx, g, "w2", 2, d2, &w2);
    if (!st) st = add(ctx, g, "z = x w1", TLLM_SBP_MATMUL, x, w1, 0, &z);
    if (!st) st = add(ctx, g, "h = relu(z)^2", TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU2, &h);
    if (!st) st = add(ctx, g, "y = h w2", TLLM_SBP_MATMUL, h, w2, 0, &y);
    if (!st) st = add(ctx, g, "dy = tanh(y)", TLLM_SBP_ACT, y, 0, TLLM_SBP_TANH, &dy);
    if (!st) st = add(ctx, g, "w2^T", TLLM_SBP_TRANSPOSE, w2, 0, 0, &w2t);
    if (!st) st = add(ctx, g, "dh = dy w2^T", TLLM_SBP_MATMUL, dy, w2t, 0, &dh);
    if (!st) st = add(ctx, g, "s = relu(z)", TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU, &s);
    if (!st) st = add(ctx, g, "dz = dh s", TLLM_SBP_MUL, dh, s, 0, &dz);
    if (!st) st = add(ctx, g, "h^T", TLLM_SBP_TRANSPOSE, h, 0, 0, &ht);
    if (!st) st = add(ctx, g, "g2 = h^T dy", TLLM_SBP_MATMUL, ht, dy, 0, &g2);
    if (!st) st = add(ctx, g, "x^T", TLLM_SBP_TRANSPOSE, x, 0, 0, &xt);
    if (!st) st = add(ctx, g, "g1 = x^T dz", TLLM_SBP_MATMUL, xt, dz, 0, &g1);
    if (!st) st = add(ctx, g, "u1 = -.01 g1", TLLM_SBP_SCALE, g1, 0, 0, &g1);
    if (!st) st = add(ctx, g, "w1 = w1 + u1", TLLM_SBP_ADD, w1, g1, 0, &id);
    if (!st) st = add(ctx, g, "u2 = -.01 g2", TLLM_SBP_SCALE, g2, 0, 0, &g2);
    if (!st) st = add(ctx, g, "w2 = w2 + u2", TLLM_SBP_ADD, w2, g2, 0, &id);
    return st;
}

/* the plan of a name: exact and greedy choose all states, the others fix some of them */
static tiny_status make(tiny_ctx *ctx, const job *j, int name, tllm_sbp_graph *g, tllm_sbp_plan *plan)
{
    static const int fixed[2][3] = { { TLLM_SBP_S, TLLM_SBP_B, TLLM_SBP_B },
                                     { TLLM_SBP_B, TLLM_SBP_S + 1, TLLM_SBP_S } };
    tllm_sbp_plan_desc d;
    int i, a;
    tiny_status st = build(ctx, j, j->n[0], j->n[1], g);
    if (st) return st;
    memset(&d, 0, sizeof d);
    d.bytes_per_flop = j->per_flop;
    d.memory = 1e6 * j->memory;
    d.search = name == 1 ? TLLM_SBP_GREEDY : TLLM_SBP_EXACT;
    for (i = 0; i < g->n_node && name > 1; i++)
        for (a = 0; a < (j->n[1] > 1 ? 2 : 1); a++) {
            if (name < 4 && i <= W2) g->node[i].s[a] = (unsigned char)fixed[name - 2][i];
            /* products stay in rows, and each rank has the gradients of its rows: they are summed afterwards */
            if (name == 2 && (i == Z || i == Y || i == DH)) g->node[i].s[a] = TLLM_SBP_S;
            if (name == 2 && (i == G1 || i == G2)) g->node[i].s[a] = TLLM_SBP_P;
            if (name > 3) g->node[i].s[a] = name == 4 ? TLLM_SBP_S : TLLM_SBP_B;
        }
    return tllm_sbp_plan_make(ctx, g, &d, plan);
}

/* ---- pictures of states */

static void draw(const tllm_sbp_layout *l)
{
    static const char between[] = "?=+/|";
    const int p = l->place.n[0], w = l->place.n[1] ? l->place.n[1] : 1;
    int i, k;
    for (i = 0; i < p; i++) {
        if (i) printf(w > 1 ? " %c " : "%c", between[l->s[0]]);
        if (w > 1) putchar('(');
        for (k = 0; k < w; k++) {
            if (k) putchar(between[l->s[1]]);
            printf("%d", i * w + k);
        }
        if (w > 1) putchar(')');
    }
}
static void show(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan *plan)
{
    int i, k;
    printf("%-15s %-13s %-8s %-22s %s\n", "tensor", "shape", "state", "ranks", "boxing of its operands");
    for (i = 0; i < g->n_node; i++) {
        const tllm_sbp_node *n = &g->node[i];
        char text[TLLM_SBP_NAME], shape[40], other[TLLM_SBP_NAME];
        tllm_sbp_layout l;
        (void)tllm_sbp_layout_of(ctx, g, plan, i, &l);
        (void)snprintf(shape, sizeof shape, "%td x %td", n->dim[0], n->dim[1]);
        printf("%-15s %-13s %-8s ", n->name, shape, tllm_sbp_text(&l, text));
        draw(&l);
        for (k = 0; k < 2 && n->op != TLLM_SBP_INPUT; k++) {
            tllm_sbp_layout from, to = l;
            (void)tllm_sbp_layout_of(ctx, g, plan, n->in[k], &from);
            memcpy(to.s, plan->node[i].in[k], 2);
            if (!memcmp(from.s, to.s, 2) || (k && n->op != TLLM_SBP_MATMUL && n->op < TLLM_SBP_ADD) ||
                (k && n->op > TLLM_SBP_MUL))
                continue;
            printf("  %.*s: %s -> %s %.3f MB", (int)strcspn(g->node[n->in[k]].name, " "), g->node[n->in[k]].name,
                   tllm_sbp_text(&from, text), tllm_sbp_text(&to, other), plan->node[i].bytes[k] / 1e6);
        }
        putchar('\n');
    }
}

static tiny_status plans(tiny_ctx *ctx, const job *j)
{
    static const char *const what[NAMES] = { "exact", "greedy", "data", "tensor", "rows", "copies" };
    tllm_sbp_graph g;
    tllm_sbp_plan plan;
    int i;
    tiny_status st = make(ctx, j, j->plan, &g, &plan);
    if (st) return st;
    printf("a step of training, x %d x %d, on %d x %d ranks, plan %s\n\n", j->batch, j->width, j->n[0], j->n[1],
           what[j->plan]);
    show(ctx, &g, &plan);
    printf("\n%-8s %14s %20s %18s\n", "plan", "MB sent", "Mflop of a rank", "MB on a rank");
    for (i = 0; i < NAMES; i++) {
        if (make(ctx, j, i, &g, &plan)) printf("%-8s %s\n", what[i], tiny_ctx_message(ctx));
        else printf("%-8s %14.3f %20.3f %18.3f\n", what[i], plan.bytes / 1e6, plan.flops / 1e6, plan.held / 1e6);
    }
    return TINY_OK;
}

/* ---- a run */

static void numbers(float *x, int node, tiny_idx n, tiny_idx row)
{
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const uint32_t u = (uint32_t)i * 2654435761u + (uint32_t)node * 40503u;
        x[i] = ((float)(u >> 8 & 1023) - 511.5f) / 512.0f / sqrtf((float)row);
    }
}
/* rank 0 of one rank alone: the whole results */
static tiny_status alone(tiny_ctx *ctx, const job *j, float *const *whole, float **result)
{
    job one = *j;
    tllm_sbp_graph g;
    tllm_sbp_plan plan;
    tiny_local *local = NULL;
    const float *in[TLLM_SBP_NODES] = { NULL };
    tiny_coll c;
    int i;
    tiny_status st;
    one.n[0] = 1;
    one.n[1] = 1;
    one.memory = 0;
    st = make(ctx, &one, 0, &g, &plan);
    if (!st) st = tiny_local_open(ctx, NULL, &local);
    if (st) return st;
    memset(&c, 0, sizeof c);
    c.net = tiny_local_net(local, 0);
    for (i = 0; i < g.n_node; i++) {
        in[i] = i <= W2 ? whole[i] : NULL;
        result[i] = floats(g.node[i].dim[0] * g.node[i].dim[1]);
    }
    st = tllm_sbp_run(ctx, &c, &g, &plan, in, result);
    tiny_local_close(ctx, local);
    return st;
}
static int64_t sent(const tiny_net *net)
{
    uint64_t n = 0;
    int i;
    for (i = 0; i < net->world; i++) n += net->count[i].bytes_sent;
    return (int64_t)n;
}

static tiny_status run(tiny_ctx *ctx, tiny_net *net, const job *j)
{
    float *whole[3], *piece[TLLM_SBP_NODES] = { NULL }, *out[TLLM_SBP_NODES] = { NULL };
    float *want[TLLM_SBP_NODES] = { NULL };
    const float *in[TLLM_SBP_NODES] = { NULL };
    tllm_sbp_graph g;
    tllm_sbp_plan plan;
    tiny_coll c;
    int64_t bytes, room[3 * WORLD_MOST];
    double worst = 0;
    uint64_t start;
    int i;
    tiny_status st = make(ctx, j, j->plan, &g, &plan);
    if (st) return st;
    memset(&c, 0, sizeof c);
    c.net = net;
    c.type = TINY_COLL_I64;
    c.work = room;
    c.n_work = sizeof room;
    c.until = tiny_now_ns() + UINT64_C(600000000000);
    for (i = 0; i < 3; i++) {
        whole[i] = floats(g.node[i].dim[0] * g.node[i].dim[1]);
        numbers(whole[i], i, g.node[i].dim[0] * g.node[i].dim[1], i ? g.node[i].dim[0] : 1);
    }
    for (i = 0; i < g.n_node && !st; i++) {
        tllm_sbp_layout l;
        tllm_sbp_box b;
        st = tllm_sbp_layout_of(ctx, &g, &plan, i, &l);
        if (!st) st = tllm_sbp_piece(ctx, &l, 2, g.node[i].dim, net->rank, &b);
        if (st) break;
        out[i] = piece[i] = floats(b.n[0] * b.n[1]);
        if (i <= W2) st = tllm_sbp_cut(ctx, &l, 2, g.node[i].dim, net->rank, whole[i], piece[i]);
        if (i <= W2) in[i] = piece[i], out[i] = NULL;
    }
    if (!st) st = tiny_coll_barrier(ctx, &c);
    start = tiny_now_ns();
    bytes = -sent(net);
    if (!st) st = tllm_sbp_run(ctx, &c, &g, &plan, in, out);
    bytes += sent(net);
    start = tiny_now_ns() - start;
    if (!st) st = tiny_coll_allreduce(ctx, &c, TINY_COMM_TREE, &bytes, 1);
    if (!st && net->rank == 0) {
        show(ctx, &g, &plan);
        printf("\nplanned %.0f bytes, sent %lld, %.1f ms\n", plan.bytes, (long long)bytes, 1e-6 * (double)start);
    }
    if (!st && j->check) {
        int64_t differs = plan.bytes < (double)bytes || plan.bytes > (double)bytes;
        st = alone(ctx, j, whole, want);
        for (i = W2 + 1; i < g.n_node && !st; i++) {
            tllm_sbp_layout l;
            tllm_sbp_box b;
            tiny_idx r, k;
            st = tllm_sbp_layout_of(ctx, &g, &plan, i, &l);
            if (!st) st = tllm_sbp_piece(ctx, &l, 2, g.node[i].dim, net->rank, &b);
            if (l.s[0] == TLLM_SBP_P || l.s[1] == TLLM_SBP_P) continue;     /* its sum is in a later tensor */
            for (r = 0; r < b.n[0] && !st; r++)
                for (k = 0; k < b.n[1]; k++) {
                    const double v = (double)want[i][(b.at[0] + r) * g.node[i].dim[1] + b.at[1] + k];
                    const double off = fabs((double)piece[i][r * b.n[1] + k] - v) / (1e-3 + fabs(v));
                    if (!(off <= worst)) worst = off;
                }
        }
        differs += !(worst < 1e-3);
        if (!st) st = tiny_coll_allreduce(ctx, &c, TINY_COMM_TREE, &differs, 1);
        if (!st && net->rank == 0)
            printf("compared with one rank: %s (here %.1e at most)\n", differs ? "it differs" : "the same", worst);
        if (differs) st = TINY_E_NUMERIC;
        for (i = 0; i < g.n_node; i++) free(want[i]);
    }
    for (i = 0; i < g.n_node; i++) free(piece[i]);
    for (i = 0; i < 3; i++) free(whole[i]);
    return st;
}

/* ---- actors */

typedef struct stage { int items, first, n; char line[80]; } stage;
static tiny_status act(tllm_actor_call *c)
{
    stage *s = (stage *)c->user;
    uint64_t t;
    for (t = c->at; t < c->at + c->ns && t < sizeof s->line - 1; t++)
        s->line[t] = (char)('a' + c->item % 26);
    if (s->first && c->item + 1 == (uint64_t)s->items) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static tiny_status actors(tiny_ctx *ctx, const job *j)
{
    static const char *const name[STAGES] = { "load", "decode", "compute" };
    int buffers, i;
    for (buffers = 1; buffers <= 3; buffers++) {
        stage s[STAGES];
        tllm_actor list[STAGES];
        tllm_actor_desc d;
        uint64_t end = 0;
        tiny_status st;
        memset(list, 0, sizeof list);
        memset(&d, 0, sizeof d);
        for (i = 0; i < STAGES; i++) {
            s[i].items = j->items;
            s[i].first = !i;
            memset(s[i].line, '.', sizeof s[i].line);
            list[i].thread = i;
            list[i].n_in = i > 0;
            list[i].from[0] = i - 1;
            list[i].n_out = i < STAGES - 1;
            list[i].bytes[0] = 4096;
            list[i].buffers = buffers;
            list[i].act = act;
            list[i].user = &s[i];
            list[i].ns = j->time[i];
        }
        d.actor = list;
        d.n_actor = STAGES;
        st = tllm_actor_simulate(ctx, &d, NULL, &end);
        if (st) return st;
        printf("%d buffer%s: %llu units, %zu bytes\n", buffers, buffers > 1 ? "s" : "", (unsigned long long)end,
               tllm_actor_memory(&d, 0));
        for (i = 0; i < STAGES; i++) {
            s[i].line[end < sizeof s[i].line - 1 ? (size_t)end : sizeof s[i].line - 1] = 0;
            printf("  %-8s %s\n", name[i], s[i].line);
        }
    }
    return TINY_OK;
}

/* ---- a pipeline over ranks */

typedef struct pipe_stage { int items, n; double sum; } pipe_stage;
static tiny_status pipe_load(tllm_actor_call *c)
{
    const pipe_stage *s = (const pipe_stage *)c->user;
    float *y = (float *)c->out[0];
    int i;
    for (i = 0; i < s->n; i++) y[i] = (float)((c->item + (uint64_t)i) % 256);
    if (c->item + 1 == (uint64_t)s->items) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static tiny_status pipe_square(tllm_actor_call *c)
{
    const float *x = (const float *)c->in[0];
    float *y = (float *)c->out[0];
    int i;
    for (i = 0; i < ((const pipe_stage *)c->user)->n; i++) y[i] = x[i] * x[i];
    return TINY_OK;
}
static tiny_status pipe_sum(tllm_actor_call *c)
{
    pipe_stage *s = (pipe_stage *)c->user;
    int i;
    for (i = 0; i < s->n; i++) s->sum += (double)((const float *)c->in[0])[i];
    return TINY_OK;
}
static tiny_status pipeline(tiny_ctx *ctx, tiny_net *net, const job *j)
{
    static const tllm_actor_fn fn[STAGES] = { pipe_load, pipe_square, pipe_sum };
    tllm_actor list[STAGES];
    tllm_actor_count count[STAGES];
    tllm_actor_desc d;
    pipe_stage s;
    double want = 0;
    uint64_t start;
    int i, k;
    tiny_status st;
    memset(list, 0, sizeof list);
    memset(&d, 0, sizeof d);
    s.items = j->items;
    s.n = j->kilobytes * 256;
    s.sum = 0;
    for (i = 0; i < STAGES; i++) {
        list[i].rank = i < net->world ? i : net->world - 1;
        list[i].n_in = i > 0;
        list[i].from[0] = i - 1;
        list[i].n_out = i < STAGES - 1;
        list[i].bytes[0] = (size_t)s.n * sizeof(float);
        list[i].buffers = j->buffers;
        list[i].act = fn[i];
        list[i].user = &s;
    }
    d.actor = list;
    d.n_actor = STAGES;
    d.net = net;
    start = tiny_now_ns();
    st = tllm_actor_run(ctx, &d, count);
    start = tiny_now_ns() - start;
    if (st || net->rank != list[STAGES - 1].rank) return st;
    printf("%d items of %d kB through %d stages on %d rank%s: %.1f ms, %.0f MB/s, sum %.0f, %zu bytes of buffers "
           "here\n",
           j->items, j->kilobytes, STAGES, net->world < STAGES ? net->world : STAGES, net->world > 1 ? "s" : "",
           1e-6 * (double)start, (double)j->items * (double)j->kilobytes * 1.024e6 / (double)start, s.sum,
           tllm_actor_memory(&d, net->rank));
    for (k = 0; k < j->items && j->check; k++)
        for (i = 0; i < s.n; i++) want += (double)((k + i) % 256) * (double)((k + i) % 256);
    if (j->check) printf("compared with one rank: %s\n", want < s.sum || want > s.sum ? "it differs" : "the same");
    (void)fflush(stdout);                   /* it may be another process than the first */
    return j->check && (want < s.sum || want > s.sum) ? TINY_E_NUMERIC : TINY_OK;
}

/* ---- the command line */

static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg)
{
    job j = *(const job *)arg;
    if (j.command == 3) return pipeline(ctx, net, &j);
    if (!j.grid) j.n[0] = net->world;
    if (j.n[0] * j.n[1] != net->world) {
        if (!net->rank)
            fprintf(stderr, PROGRAM ": a grid of %d x %d ranks, and there are %d\n", j.n[0], j.n[1], net->world);
        return TINY_E_ARGUMENT;
    }
    return run(ctx, net, &j);
}

static int is_grid(const char *text, int n[2])
{
    char *end;
    const long a = strtol(text, &end, 10), b = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
    if (*end || text[strspn(text, "0123456789x")] || a < 1 || b < 1 || a > WORLD_MOST || b > WORLD_MOST) return 0;
    n[0] = (int)a;
    n[1] = (int)b;
    return 1;
}
static int are_times(const char *text, uint64_t *t)
{
    int i;
    char *end;
    for (i = 0; i < STAGES; i++, text = end + 1) {
        if (*text < '0' || *text > '9') return 0;
        t[i] = strtoull(text, &end, 10);
        if (t[i] > 1000000 || *end != (i < STAGES - 1 ? ',' : 0)) return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static world w = { 4, 0, 0, 0 };
    static job j;
    const option options[] = { A_COMMAND("plan run actors stages", &j.command), A_WHOLE("pr --batch", &j.batch, 1, 1e6),
                               A_WHOLE("pr --width", &j.width, 1, 65536), A_TEXT("pr --grid", &j.grid),
                               A_TEXT("pr --plan", &j.name), A_NUMBER("pr --memory", &j.memory, 0, 1e9),
                               A_NUMBER("pr --per-flop", &j.per_flop, 0, 1e9), A_FLAG("rs --check", &j.check),
                               A_TEXT("a --times", &j.times), A_WHOLE("as --items", &j.items, 1, 1e6),
                               A_WHOLE("s --buffers", &j.buffers, 1, TLLM_ACTOR_BUFFERS),
                               A_WHOLE("s --kilobytes", &j.kilobytes, 1, 1e5), WORLD_OPTIONS(w) };
    tiny_ctx *ctx = NULL;
    tiny_status st;
    j.batch = 32;
    j.width = 256;
    j.items = ITEMS;
    j.buffers = 2;
    j.kilobytes = 64;
    READ_OPTIONS(argc, argv, usage, options);
    j.n[0] = w.ranks;
    j.n[1] = 1;
    if (j.grid && !is_grid(j.grid, j.n)) return refused("--grid takes AxB, two numbers from 1 to 16, not %s", j.grid);
    if (j.grid && j.n[0] * j.n[1] > WORLD_MOST) return refused("--grid: there may be at most 16 ranks");
    if (j.grid) w.ranks = j.n[0] * j.n[1];
    j.plan = j.name ? place_in(plan_names, j.name) : j.n[1] > 1;
    if (j.plan < 0) return refused("--plan: there are %s, not %s", plan_names, j.name);
    if (!are_times(j.times ? j.times : "1,3,1", j.time))
        return refused("--times takes three whole numbers up to 1000000, such as 1,3,1, not %s", j.times);
    if (j.command == 1 || j.command == 3) return exit_status(world_run(&w, body, &j));
    if (tiny_ctx_open(NULL, &ctx)) return 1;
    st = j.command ? actors(ctx, &j) : plans(ctx, &j);
    if (st) say(tiny_ctx_message(ctx));
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
