/* bench/llm/sbp.c - plans of tensors over ranks, boxing compared with collective calls, and the cost of an actor
 *
 * OneFlow (arXiv 2110.15032) reports training on a par with or better than libraries that are written for one kind of
 * parallelism. Here the planner stands against the two plans that such libraries have, on the same kernels:
 *   a step   x w1, relu^2, w2, tanh, the gradients, the updates, over two ranks of one thread with a line of 1 Gbit/s
 *            between them; "data" sums gradients, "tensor" splits the weights, "rows" splits every tensor by rows
 *   boxing   P -> B and S0 -> B of 1 MiB over four ranks without a delay, next to the house's ring
 *   actors   an item through three actors on one thread, next to the same calls in a loop; 20 items through stages
 *            that sleep 2, 6 and 2 ms on a thread each, with one and with two buffers. A clock of its own counts 81 and
 *            62 units for them. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BS_RANKS = 4, BS_WORDS = 262144, BS_ITEMS = 1000, BS_PLANS = 4 };

typedef struct bs_rank { tiny_ctx *ctx; tiny_coll c; float *piece[TLLM_SBP_NODES], *x, *y; } bs_rank;
typedef struct bs_group {
    tiny_ctx *team;
    tiny_local *local;
    int world, plan, what;
    bs_rank rank[BS_RANKS];
    tllm_sbp_graph g[BS_PLANS];
    tllm_sbp_plan plans[BS_PLANS];
} bs_group;

static int bs_put(tiny_ctx *ctx, tllm_sbp_graph *g, int op, int a, int b, int act)
{
    tllm_sbp_node n;
    int id = 0;
    memset(&n, 0, sizeof n);
    n.op = op;
    n.in[0] = a;
    n.in[1] = b;
    n.act = act;
    n.axes[0] = 1;
    n.factor = -0.01f;
    if (op == TLLM_SBP_ADD) n.like = 1 + a;
    b_must(ctx, tllm_sbp_put(ctx, g, &n, &id));
    return id;
}
/* plan 0: exact; 1: data; 2: tensor; 3: rows */
static void bs_plan(tiny_ctx *ctx, int ranks, tiny_idx batch, tiny_idx h, int plan, tllm_sbp_graph *g, tllm_sbp_plan *p)
{
    enum { B = TLLM_SBP_B, P = TLLM_SBP_P, S0 = TLLM_SBP_S, S1 = S0 + 1 };
    const tiny_idx dx[2] = { batch, h }, d1[2] = { h, 4 * h }, d2[2] = { 4 * h, h };
    int x, w1, w2, z, a, y, dy, da, dz, g1, g2, i;
    memset(g, 0, sizeof *g);
    g->place.n[0] = ranks;
    b_must(ctx, tllm_sbp_input(ctx, g, "x", 2, dx, &x));
    b_must(ctx, tllm_sbp_input(ctx, g, "w1", 2, d1, &w1));
    b_must(ctx, tllm_sbp_input(ctx, g, "w2", 2, d2, &w2));
    z = bs_put(ctx, g, TLLM_SBP_MATMUL, x, w1, 0);
    a = bs_put(ctx, g, TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU2);
    y = bs_put(ctx, g, TLLM_SBP_MATMUL, a, w2, 0);
    dy = bs_put(ctx, g, TLLM_SBP_ACT, y, 0, TLLM_SBP_TANH);
    da = bs_put(ctx, g, TLLM_SBP_MATMUL, dy, bs_put(ctx, g, TLLM_SBP_TRANSPOSE, w2, 0, 0), 0);
    dz = bs_put(ctx, g, TLLM_SBP_MUL, da, bs_put(ctx, g, TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU), 0);
    g2 = bs_put(ctx, g, TLLM_SBP_MATMUL, bs_put(ctx, g, TLLM_SBP_TRANSPOSE, a, 0, 0), dy, 0);
    g1 = bs_put(ctx, g, TLLM_SBP_MATMUL, bs_put(ctx, g, TLLM_SBP_TRANSPOSE, x, 0, 0), dz, 0);
    (void)bs_put(ctx, g, TLLM_SBP_ADD, w1, bs_put(ctx, g, TLLM_SBP_SCALE, g1, 0, 0), 0);
    (void)bs_put(ctx, g, TLLM_SBP_ADD, w2, bs_put(ctx, g, TLLM_SBP_SCALE, g2, 0, 0), 0);
    if (plan == 1) {
        g->node[w1].s[0] = g->node[w2].s[0] = B;
        g->node[x].s[0] = g->node[z].s[0] = g->node[y].s[0] = g->node[da].s[0] = S0;
        g->node[g1].s[0] = g->node[g2].s[0] = P;
    } else if (plan == 2) {
        g->node[x].s[0] = B;
        g->node[w1].s[0] = S1;
        g->node[w2].s[0] = S0;
    }
    for (i = 0; i < g->n_node && plan == 3; i++) g->node[i].s[0] = S0;
    b_must(ctx, tllm_sbp_plan_make(ctx, g, NULL, p));
}

static void bs_part(tiny_team *team, void *arg)
{
    bs_group *b = (bs_group *)arg;
    bs_rank *r = &b->rank[team->i];
    static const tiny_idx dim[2] = { 512, 512 };
    tllm_sbp_layout f, t;
    if (team->n != b->world) b_must(NULL, TINY_E_UNSUPPORTED);
    memset(&f, 0, sizeof f);
    f.place.n[0] = b->world;
    f.s[0] = b->what == 1 ? TLLM_SBP_P : TLLM_SBP_S;
    t = f;
    t.s[0] = TLLM_SBP_B;
    r->c.until = 0;
    if (b->what == 0)
        b_must(r->ctx, tllm_sbp_run(r->ctx, &r->c, &b->g[b->plan], &b->plans[b->plan], (const float *const *)r->piece,
                                    NULL));
    else if (b->what < 3) b_must(r->ctx, tllm_sbp_boxing(r->ctx, &r->c, 2, dim, &f, &t, r->x, r->y));
    else if (b->what == 3) b_must(r->ctx, tiny_coll_allreduce(r->ctx, &r->c, TINY_COMM_RING, r->y, BS_WORDS));
    else b_must(r->ctx, tiny_coll_allgather(r->ctx, &r->c, TINY_COLL_RING, r->y, BS_WORDS / BS_RANKS));
}
static void bs_run(void *arg)
{
    bs_group *b = (bs_group *)arg;
    b_must(b->team, tiny_parallel(b->team, b->world, 0, 0, bs_part, b));
}
static void bs_open(bs_group *b, int world, double mbit)
{
    tiny_local_desc d;
    int r;
    memset(b, 0, sizeof *b);
    memset(&d, 0, sizeof d);
    b->team = b_ctx(TINY_TARGET_AUTO, world);
    b->world = d.world = world;
    d.queue_bytes = (size_t)8 << 20;
    d.bits_per_second = 1e6 * mbit;
    b_must(b->team, tiny_local_open(b->team, &d, &b->local));
    for (r = 0; r < world; r++) {
        b->rank[r].ctx = b_ctx(TINY_TARGET_AUTO, 1);
        b->rank[r].c.net = tiny_local_net(b->local, r);
        b->rank[r].x = (float *)b_alloc(BS_WORDS * sizeof(float));
        b->rank[r].y = (float *)b_alloc(BS_WORDS * sizeof(float));
        b->rank[r].c.n_work = 3 * BS_WORDS * sizeof(float);
        b->rank[r].c.work = b_alloc(b->rank[r].c.n_work);
    }
}
static void bs_close(bs_group *b)
{
    int r, i;
    for (r = 0; r < b->world; r++) {
        b_free(b->rank[r].x);
        b_free(b->rank[r].y);
        b_free(b->rank[r].c.work);
        for (i = 0; i < TLLM_SBP_NODES; i++) b_free(b->rank[r].piece[i]);
        tiny_ctx_close(b->rank[r].ctx);
    }
    tiny_local_close(b->team, b->local);
    tiny_ctx_close(b->team);
}

/* ---- actors */

typedef struct bs_chain { tiny_ctx *ctx; tllm_actor list[3]; tllm_actor_desc d; int sum; } bs_chain;
static tiny_status bs_act(tllm_actor_call *c)
{
    const int x = c->in[0] ? *(const int *)c->in[0] + 1 : (int)c->item;
    if (c->out[0]) *(int *)c->out[0] = x;
    else *(int *)c->user += x;
    if (!c->in[0] && c->item + 1 == BS_ITEMS) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static void bs_actors(void *arg)
{
    bs_chain *k = (bs_chain *)arg;
    b_must(k->ctx, tllm_actor_run(k->ctx, &k->d, NULL));
}
static void bs_loop(void *arg)
{
    bs_chain *k = (bs_chain *)arg;
    tllm_actor_call c[3];
    int value[2], i, s;
    memset(c, 0, sizeof c);
    for (s = 0; s < 3; s++) {
        c[s].user = k->list[s].user;
        c[s].in[0] = s ? &value[s - 1] : NULL;
        c[s].out[0] = s < 2 ? &value[s] : NULL;
    }
    for (i = 0; i < BS_ITEMS; i++)
        for (s = 0; s < 3; s++) {
            c[s].item = (uint64_t)i;
            b_must(k->ctx, k->list[s].act(&c[s]));
        }
}
/* a stage that sleeps, and does not need a processor of its own */
typedef struct bs_sleeper { tiny_net *net; uint64_t ns; } bs_sleeper;
static tiny_status bs_sleep(tllm_actor_call *c)
{
    const bs_sleeper *s = (const bs_sleeper *)c->user;
    const uint64_t until = tiny_now_ns() + s->ns;
    while (tiny_now_ns() < until) s->net->pause(s->net, s->net->changes(s->net), until);
    if (!c->in[0] && c->item == 19) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static double bs_units(bs_chain *k, int buffers)
{
    uint64_t end = 0;
    int i;
    for (i = 0; i < 3; i++) {
        k->list[i].buffers = buffers;
        k->list[i].thread = i;
        k->list[i].ns = i == 1 ? 3 : 1;
    }
    b_must(k->ctx, tllm_actor_simulate(k->ctx, &k->d, NULL, &end));
    for (i = 0; i < 3; i++) k->list[i].thread = 0;
    return (double)end;
}

void bench_sbp(void)
{
    static const tiny_idx size[2][2] = { { 32, 4096 }, { 8192, 256 } };
    static const char *const name[BS_PLANS] = { "planned", "data parallel", "tensor parallel", "all in rows" };
    static bs_group b;
    static bs_chain k;
    double mega[2][BS_PLANS], ms[BS_PLANS], units[2], slept;
    b_row row[BS_PLANS];
    int i, p, r, n;
    for (i = 0; i < 2; i++) {               /* bytes of the paper's sizes, four ranks: planned only */
        tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
        for (p = 0; p < BS_PLANS; p++) {
            tllm_sbp_graph g;
            tllm_sbp_plan plan;
            bs_plan(ctx, BS_RANKS, size[i][0], size[i][1], p, &g, &plan);
            mega[i][p] = plan.bytes / 1e6;
        }
        b_note("a step of training, batch %td, width %td, 4 ranks, MB sent: planned %.3f, data %.1f, tensor %.3f, "
               "all in rows %.1f", size[i][0], size[i][1], mega[i][0], mega[i][1], mega[i][2], mega[i][3]);
        tiny_ctx_close(ctx);
    }
    bs_open(&b, 2, 1000);
    memset(row, 0, sizeof row);
    for (p = 0; p < BS_PLANS; p++) {        /* the pieces of inputs are large enough for every plan */
        bs_plan(b.team, 2, 64, 256, p, &b.g[p], &b.plans[p]);
        for (r = 0; r < 2 && !p; r++)
            for (n = 0; n < 3; n++)
                b.rank[r].piece[n] = (float *)b_alloc((size_t)(b.g[0].node[n].dim[0] * b.g[0].node[n].dim[1]) *
                                                      sizeof(float));
    }
    for (p = 0; p < BS_PLANS; p++) {
        row[p].what = "a step of training";
        row[p].target = name[p];
        row[p].threads = 2;
        row[p].flops = 2 * b.plans[p].flops;
        row[p].bytes = b.plans[p].bytes;
        row[p].run = bs_run;
        b_shape(&row[p], "64x256, 2 ranks, 1 Gbit/s");
    }
    {
        static bs_group each[BS_PLANS];
        for (p = 0; p < BS_PLANS; p++) {
            each[p] = b;                    /* the same ranks and nets; only the plan differs */
            each[p].plan = p;
            row[p].arg = &each[p];
        }
        b_contest("A step of training over two ranks", row, BS_PLANS);
    }
    for (p = 0; p < BS_PLANS; p++) ms[p] = row[p].median_ns * 1e-6;
    b_verdict("data parallel / planned", ms[1] / ms[0], ">", 1.0);
    bs_close(&b);

    bs_open(&b, BS_RANKS, 0);
    memset(row, 0, sizeof row);
    {
        static bs_group each[4];
        static const int what[4] = { 1, 3, 2, 4 };
        static const char *const says[4] = { "P -> B", "allreduce, ring", "S0 -> B", "allgather, ring" };
        for (p = 0; p < 4; p++) {
            each[p] = b;
            each[p].what = what[p];
            row[p].what = says[p];
            row[p].target = p % 2 ? "collective" : "boxing";
            row[p].threads = BS_RANKS;
            row[p].bytes = 4.0 * BS_WORDS * (p < 2 ? 6 : 3);
            row[p].run = bs_run;
            row[p].arg = &each[p];
            b_shape(&row[p], "1 MiB, 4 ranks");
        }
        b_contest("Boxing over four ranks in memory", row, 4);
    }
    b_verdict("ring allreduce / P -> B", row[1].median_ns / row[0].median_ns, ">", 0.8);
    bs_close(&b);

    memset(&k, 0, sizeof k);
    k.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    k.d.actor = k.list;
    k.d.n_actor = 3;
    for (i = 0; i < 3; i++) {
        k.list[i].n_in = i > 0;
        k.list[i].from[0] = i - 1;
        k.list[i].n_out = i < 2;
        k.list[i].bytes[0] = sizeof(int);
        k.list[i].act = bs_act;
        k.list[i].user = &k.sum;
    }
    memset(row, 0, sizeof row);
    row[0].what = row[1].what = "1000 items, 3 stages";
    row[0].target = "actors";
    row[1].target = "a loop";
    row[0].run = bs_actors;
    row[1].run = bs_loop;
    for (i = 0; i < 2; i++) {
        row[i].threads = 1;
        row[i].arg = &k;
        b_shape(&row[i], "empty calls");
    }
    b_contest("Actors on one thread", row, 2);
    b_note("a call of an actor costs %.0f ns beside the call itself",
           (row[0].median_ns - row[1].median_ns) / (3.0 * BS_ITEMS));
    units[0] = bs_units(&k, 1);
    units[1] = bs_units(&k, 2);
    {
        static const uint64_t nap[3] = { 2, 6, 2 };
        static bs_chain pipe[2];
        tiny_local *local[3] = { NULL, NULL, NULL };
        bs_sleeper sleeper[3];
        b_row sleeps[2];
        memset(sleeps, 0, sizeof sleeps);
        for (i = 0; i < 3; i++) {
            b_must(k.ctx, tiny_local_open(k.ctx, NULL, &local[i]));
            sleeper[i].net = tiny_local_net(local[i], 0);
            sleeper[i].ns = nap[i] * 1000000;
        }
        for (p = 0; p < 2; p++) {
            pipe[p] = k;
            pipe[p].ctx = b_ctx(TINY_TARGET_AUTO, 3);
            pipe[p].d.actor = pipe[p].list;
            for (i = 0; i < 3; i++) {
                pipe[p].list[i].act = bs_sleep;
                pipe[p].list[i].user = &sleeper[i];
                pipe[p].list[i].thread = i;
                pipe[p].list[i].buffers = 1 + p;
            }
            sleeps[p].what = "20 items";
            sleeps[p].target = p ? "two buffers" : "one buffer";
            sleeps[p].threads = 3;
            sleeps[p].run = bs_actors;
            sleeps[p].arg = &pipe[p];
            b_shape(&sleeps[p], "stages of 2, 6, 2 ms");
        }
        b_contest("A pipeline on three threads", sleeps, 2);
        slept = sleeps[0].median_ns / sleeps[1].median_ns;
        b_note("two buffers are %.2f times as fast as one; 81 / 62 = 1.31 on the clock of the simulation", slept);
        for (p = 0; p < 2; p++) tiny_ctx_close(pipe[p].ctx);
        for (i = 0; i < 3; i++) tiny_local_close(k.ctx, local[i]);
    }
    b_headline("oneflow", "OneFlow: on a par with specialised libraries by annotations alone (GPUs)",
               "bytes: 4 ranks, planned; times: 2 ranks of one thread, 64 x 256, 1 Gbit/s in memory; buffers: stages "
               "of 1, 3, 1, which sleep on three threads, and on the clock of the simulation",
               "a step of training sends, planned, %.1f MB at batch 32, width 4096 (data parallel %.0f, all in rows "
               "%.0f) and %.1f MB at batch 8192, width 256 (data %.1f, tensor %.1f); a step takes %.2f ms planned, "
               "%.2f data, %.2f tensor parallel; two buffers are %.2f times as fast as one (%.2f by the clock); a "
               "call costs %.0f ns",
               mega[0][0], mega[0][1], mega[0][3], mega[1][0], mega[1][1], mega[1][2], ms[0], ms[1], ms[2],
               slept, units[0] / units[1], (row[0].median_ns - row[1].median_ns) / (3.0 * BS_ITEMS));
    tiny_ctx_close(k.ctx);
}
