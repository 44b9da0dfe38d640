/* tests/llm/dist/folding.c - the ranks of a layer of experts as two grids, and links of several classes
 *
 * Truth    groups of 8 ranks worked by hand; all groups of five foldings by Megatron Core (tests/golden/make/ranks.py);
 *          times on the virtual clock worked by hand. */
#include "t.h"
#include "ranks.h"

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static void group_is(const tllm_folding *f, int axis, int rank, int n, const int *want)
{
    int member[TINY_NET_RANKS], i;
    if (!T_EQ_INT(tllm_folding_group(f, 8, axis, rank, member), n)) return;
    for (i = 0; i < n; i++) T_EQ_INT(member[i], want[i]);
}
static void test_grids(void)
{
    static const int all[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, tp1[2] = { 2, 3 }, even[4] = { 0, 2, 4, 6 },
                     odd[4] = { 1, 3, 5, 7 }, pair[2] = { 0, 1 }, cp[2] = { 1, 3 }, dp[2] = { 2, 6 },
                     four[4] = { 4, 5, 6, 7 }, across[2] = { 1, 5 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_folding f;
    int axis, rank, ranks, r, i, member[TINY_NET_RANKS], again[TINY_NET_RANKS];
    memset(&f, 0, sizeof f);
    f.tp = f.cp = f.dp = 2;
    f.ep = 8;
    T_OK(tllm_folding_check(ctx, &f, 8));
    group_is(&f, TLLM_FOLD_TP, 3, 2, tp1);
    group_is(&f, TLLM_FOLD_CP, 1, 2, cp);
    group_is(&f, TLLM_FOLD_DP, 6, 2, dp);
    group_is(&f, TLLM_FOLD_SEQUENCE, 5, 4, four);
    group_is(&f, TLLM_FOLD_EP, 5, 8, all);
    group_is(&f, TLLM_FOLD_ETP, 5, 1, all + 5);
    f.etp = 2;
    f.ep = 4;
    group_is(&f, TLLM_FOLD_ETP, 0, 2, pair);
    group_is(&f, TLLM_FOLD_EP, 2, 4, even);
    group_is(&f, TLLM_FOLD_EP, 5, 4, odd);
    group_is(&f, TLLM_FOLD_EXPERTS, 5, 8, all);
    f.etp = 1;
    f.ep = 2;
    group_is(&f, TLLM_FOLD_EDP, 0, 4, even);
    f.across = 1;
    group_is(&f, TLLM_FOLD_EP, 1, 2, across);
    T_PROOF("distributed 5", "worked: the groups of 8 ranks, tp = cp = dp = 2, with etp 1, ep 8 and etp 2, ep 4");
    /* every axis divides the ranks into groups, and both grids give a rank the same stage */
    for (ranks = 1; ranks <= 48; ranks++)
        for (i = 0; i < 64; i++) {
            memset(&f, 0, sizeof f);
            f.tp = 1 + i % 2;
            f.cp = 1 + i / 2 % 2;
            f.pp = 1 + i / 4 % 3;
            f.etp = 1 + i / 12 % 2;
            f.ep = 1 + i / 24;
            f.across = i % 3 == 0;
            if (ranks % (f.tp * f.cp * f.pp) || ranks % (f.etp * f.ep * f.pp)) continue;
            f.dp = ranks / (f.tp * f.cp * f.pp);
            T_OK(tllm_folding_check(ctx, &f, ranks));
            for (rank = 0; rank < ranks; rank++) {
                T_EQ_INT(tllm_folding_stage(&f, ranks, rank), rank / (ranks / f.pp));
                for (axis = 0; axis < TLLM_FOLD_AXES; axis++) {
                    const int n = tllm_folding_group(&f, ranks, axis, rank, member);
                    int in = 0;
                    for (r = 0; r < n; r++) {
                        in += member[r] == rank;
                        if (axis != TLLM_FOLD_PP)
                            T_EQ_INT(tllm_folding_stage(&f, ranks, member[r]), tllm_folding_stage(&f, ranks, rank));
                    }
                    T_EQ_INT(in, 1);
                    T_EQ_INT(tllm_folding_group(&f, ranks, axis, member[n - 1], again), n);
                    T_SAME(again, member, n);
                }
                T_EQ_INT(tllm_folding_group(&f, ranks, TLLM_FOLD_EDP, rank, member), ranks / (f.etp * f.ep * f.pp));
            }
        }
    t_close(ctx);
    T_PROOF("distributed 5", "both grids hold all ranks, edp = ranks / (etp ep pp), and a rank has one stage");
}

/* every group of both grids, as Megatron Core lists them: "tp cp dp pp etp ep axis: ranks|ranks" */
static void test_megatron_groups(void)
{
    static const char *const axis[TLLM_FOLD_AXES] = { "tp",  "cp", "dp",  "pp",     "sequence",
                                                      "etp", "ep", "edp", "experts" };
    size_t k;
    for (k = 0; k < T_COUNT(rank_groups); k++) {
        ranks_line l;
        tllm_folding f;
        int a, rank, i, member[TINY_NET_RANKS];
        if (!T_TRUE(ranks_read(rank_groups[k], &l))) break;
        memset(&f, 0, sizeof f);
        f.tp = l.size[0];
        f.cp = l.size[1];
        f.dp = l.size[2];
        f.pp = l.size[3];
        f.etp = l.size[4];
        f.ep = l.size[5];
        for (a = 0; a < TLLM_FOLD_AXES && strcmp(axis[a], l.axis); a++) {}
        if (!T_TRUE(a < TLLM_FOLD_AXES)) break;
        for (rank = 0; rank < l.ranks; rank++) {
            if (!T_EQ_INT(tllm_folding_group(&f, l.ranks, a, rank, member), l.each)) break;
            for (i = 0; i < l.each; i++) T_EQ_INT(member[i], l.group[l.of[rank]][i]);
        }
    }
    T_TRUE(k >= 45);
    T_PROOF("distributed 5", "groups of five foldings, of both grids, as Megatron Core lists them");
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* One thread plays all ranks. Sends n bytes from one rank to another at a time, receives them there, and returns when
 * they arrived. */
static uint64_t carry(tiny_net *from, tiny_net *to, size_t n, uint64_t at)
{
    static unsigned char bytes[4096], got[4096];
    tiny_message m;
    memset(&m, 0, sizeof m);
    m.tag = 1;
    m.data = bytes;
    m.n = n;
    m.at = at;
    T_EQ_INT(from->send(from, to->rank, &m), TINY_OK);
    T_EQ_INT(m.whole, 1);
    memset(&m, 0, sizeof m);
    m.tag = 1;
    m.data = got;
    m.n = n;
    T_EQ_INT(to->recv(to, from->rank, &m), TINY_OK);
    T_EQ_INT(m.whole, 1);
    return m.at;
}

/* pairs: 1 ns a byte, 10 ns away; others: 2 ns a byte, 100 ns away. A port takes one message at a time. */
static void test_ports(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local *local = NULL;
    tllm_levels *levels[4] = { NULL, NULL, NULL, NULL };
    tiny_net *net[4];
    tiny_local_desc ld;
    int r;
    memset(&ld, 0, sizeof ld);
    ld.world = 4;
    ld.virtual_clock = 1;
    T_OK(tiny_local_open(ctx, &ld, &local));
    for (r = 0; r < 4; r++) {
        tllm_levels_desc d;
        memset(&d, 0, sizeof d);
        d.net = tiny_local_net(local, r);
        d.n_level = 2;
        d.level[0].ranks = 2;
        d.level[0].latency_ns = 10;
        d.level[0].bits_per_second = 8e9;
        d.level[1].ranks = 4;
        d.level[1].latency_ns = 100;
        d.level[1].bits_per_second = 4e9;
        if (!T_OK(tllm_levels_open(ctx, &d, &levels[r]))) return;
        net[r] = tllm_levels_net(levels[r]);
    }
    T_EQ_INT(carry(net[0], net[1], 1000, 0), 1010);
    T_EQ_INT(carry(net[0], net[1], 1000, 0), 2010);         /* behind the first one */
    T_EQ_INT(carry(net[0], net[2], 1000, 0), 2100);         /* another port */
    T_EQ_INT(carry(net[0], net[3], 1000, 50), 4100);        /* leaves 2000 to 4000 */
    T_EQ_INT(carry(net[1], net[2], 1000, 0), 4100);         /* would be there at 2100; the port in takes until 2100 */
    T_EQ_INT(carry(net[1], net[0], 1000, 9000), 10010);
    T_EQ_INT((int)tllm_levels_received(levels[2], 1), 2000);
    T_EQ_INT((int)tllm_levels_received(levels[2], 0), 0);
    T_EQ_INT((int)tllm_levels_received(levels[0], 0), 1000);
    for (r = 0; r < 4; r++) tllm_levels_close(ctx, levels[r]);
    tiny_local_close(ctx, local);
    t_close(ctx);
    T_PROOF("distributed 10", "two classes of links: a port for each, in and out, on the virtual clock");
}

/* ---- time on a virtual clock ------------------------------------------------------------------------------------- */

enum { SIM_RANKS = 16, SIM_WIDTH = 32 };
typedef struct sim {
    tiny_local *local;
    tllm_folding f;
    uint64_t ns[SIM_RANKS], far[SIM_RANKS];
    tiny_status st[SIM_RANKS];
} sim;
static void sim_rank(int rank, void *arg)
{
    sim *s = (sim *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tllm_levels_desc l;
    tllm_levels *levels = NULL;
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    const tiny_idx *count;
    const float *rows;
    float logits[32 * 16];
    static const float x[32 * SIM_WIDTH] = { 0 };
    int i, e;
    tiny_status st;
    memset(&l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l.net = tiny_local_net(s->local, rank);
    l.n_level = 2;
    l.level[0].ranks = 4;
    l.level[0].bits_per_second = 8e8;
    l.level[1].ranks = SIM_RANKS;
    l.level[1].bits_per_second = 8e7;
    st = tllm_levels_open(ctx, &l, &levels);
    d.net = tllm_levels_net(levels);
    d.folding = &s->f;
    d.n_expert = 16;
    d.k = 1;
    d.width = SIM_WIDTH;
    d.drop = TLLM_MOE_DROP_POSITION;
    d.pad = 1;                              /* two rows for each expert: no message of counts */
    if (!st) st = tllm_moe_open(ctx, &d, &moe);
    for (i = 0; i < 32; i++) for (e = 0; e < 16; e++) logits[16 * i + e] = e == i % 16 ? 9.0f : 0.0f;
    if (!st) st = tllm_moe_route(moe, logits, 32);
    if (!st) st = tllm_moe_dispatch(moe, x, &rows, &count);
    s->st[rank] = st;
    s->ns[rank] = tllm_moe_clock(moe, 0);
    s->far[rank] = tllm_levels_received(levels, 1);
    tllm_moe_close(moe);
    d.net->close(d.net);
    tllm_levels_close(ctx, levels);
    tiny_ctx_close(ctx);
}
static void test_levels(void)
{
    static const struct { int ep, across; double ns; } of[] = {
        /* 32 rows of 128 bytes; 3/4 of them leave a rank, in three messages of 1024 bytes at 10 or 100 ns a byte */
        { 4, 0, 3 * 1024 * 10.0 }, { 4, 1, 3 * 1024 * 100.0 },
        /* all 16: fifteen messages of 256 bytes, twelve of them over slow links */
        { 16, 0, 0 }, { 16, 1, 0 } };
    size_t i;
    int r;
    double both = 0;
    for (i = 0; i < T_COUNT(of); i++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tiny_local_desc d;
        sim s;
        memset(&d, 0, sizeof d);
        memset(&s, 0, sizeof s);
        d.world = SIM_RANKS;
        d.queue_bytes = 4096;
        d.virtual_clock = 1;
        s.f.tp = s.f.cp = 2;
        s.f.dp = 4;
        s.f.ep = of[i].ep;
        s.f.across = of[i].across;
        T_OK(tiny_local_open(ctx, &d, &s.local));
        if (!t_ranks(SIM_RANKS, sim_rank, &s)) return;
        for (r = 0; r < SIM_RANKS; r++) {
            T_EQ_INT(s.st[r], TINY_OK);
            if (of[i].ns > 0) T_CLOSE((double)s.ns[r], of[i].ns, 0.0);
            T_EQ_INT(s.far[r], of[i].ep == 16 ? 12 * 256 : of[i].across ? 3 * 1024 : 0);
            if (i == 2) both += (double)s.ns[r];
            if (i == 3) both -= (double)s.ns[r];
        }
        tiny_local_close(ctx, s.local);
        t_close(ctx);
    }
    T_CLOSE(both, 0.0, 0.0);
    T_PROOF("distributed 5", "two classes of links: ten times faster folded with ep 4, the same with ep 16");
}

int main(void)
{
    T_RUN(test_grids);
    T_RUN(test_megatron_groups);
    T_RUN(test_ports);
    T_RUN(test_levels);
    return t_done();
}
