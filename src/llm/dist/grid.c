/* src/llm/dist/grid.c - a grid of ranks, and a net that shows a group of them
 * Paper    D. Narayanan et al., 2021 (arXiv 2104.04473): tensor, data and pipeline parallelism on one grid of workers.
 * Formula  stride_0 = 1, stride_j = stride_(j-1) size_(j-1); rank = sum i_j stride_j
 * Method   A group's net calls the functions of the whole net with translated ranks. It has its own count of collective
 *          calls, because groups do different things. Counts of messages are those of its members' links. */
#include "llm/dist/grid.h"
#include "core/state_inside.h"
#include <string.h>

TINY_API tiny_status tllm_grid_make(tiny_ctx *ctx, const int *size, int n, int rank, int world, tllm_grid *grid)
{
    tiny_status st = tinyi_ctx_check(ctx);
    double all = 1.0;
    int i, left = rank;
    if (st) return st;
    if (!size || !grid || n < 1 || n > TLLM_GRID_AXES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grid: %d axes; there must be 1 to %d, with their sizes", n,
                          TLLM_GRID_AXES);
    memset(grid, 0, sizeof *grid);
    for (i = 0; i < n; i++) {
        if (size[i] < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "grid: axis %d has %d ranks; it needs 1", i, size[i]);
        all *= (double)size[i];
    }
    if (all != (double)world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grid: its axes have %.0f ranks together, the world has %d", all,
                          world);
    if (rank < 0 || rank >= world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "grid: rank %d of a world of %d", rank, world);
    grid->n = n;
    for (i = 0; i < n; i++) {
        grid->size[i] = size[i];
        grid->at[i] = left % size[i];
        left /= size[i];
    }
    return TINY_OK;
}

TINY_API int tllm_grid_rank(const tllm_grid *grid, const int *at)
{
    int i, rank = 0;
    if (!grid || grid->n < 1 || grid->n > TLLM_GRID_AXES) return -1;
    if (!at) at = grid->at;
    for (i = grid->n - 1; i >= 0; i--) {
        if (at[i] < 0 || at[i] >= grid->size[i]) return -1;
        rank = rank * grid->size[i] + at[i];
    }
    return rank;
}

TINY_API int tllm_grid_group(const tllm_grid *grid, unsigned axes, int *ranks, int *me)
{
    int at[TLLM_GRID_AXES], i, n = 0;
    if (!grid || !ranks || grid->n < 1 || grid->n > TLLM_GRID_AXES) return 0;
    memcpy(at, grid->at, sizeof at);
    for (i = 0; i < grid->n; i++) if (axes >> i & 1) at[i] = 0;
    for (;;) {                              /* counts through the indexes of the axes */
        if (me && !memcmp(at, grid->at, (size_t)grid->n * sizeof *at)) *me = n;
        ranks[n++] = tllm_grid_rank(grid, at);
        for (i = 0; i < grid->n; i++) {
            if (!(axes >> i & 1)) continue;
            if (++at[i] < grid->size[i]) break;
            at[i] = 0;
        }
        if (i == grid->n) return n;
    }
}

/* ---- a group as a net -------------------------------------------------------------------------------------------- */

struct tllm_group {
    tiny_net net;
    tiny_net *all;
    int rank[TINY_NET_RANKS];               /* of the whole net */
    tiny_net_count count[TINY_NET_RANKS];
};

/* A failure of the whole net, perhaps met in another group, in the words of this one. */
static tiny_status tinyi_group_said(tllm_group *g, tiny_status st)
{
    int i;
    if (!st) return st;
    memcpy(g->net.says, g->all->says, sizeof g->net.says);
    for (i = 0; i < g->net.world; i++) if (g->rank[i] == g->all->gone - 1) g->net.gone = i + 1;
    return st;
}

static void tinyi_group_counts(tllm_group *g, int i)
{
    if (g->rank[i] != g->all->rank) g->count[i] = g->all->count[g->rank[i]];
}

static tiny_status tinyi_group_send(tiny_net *net, int to, tiny_message *m)
{
    tllm_group *g = (tllm_group *)net;
    tiny_status st;
    if (to < 0 || to >= net->world) return TINY_E_ARGUMENT;
    st = g->all->why ? g->all->why : g->all->send(g->all, g->rank[to], m);
    tinyi_group_counts(g, to);
    return tinyi_group_said(g, st);
}

static tiny_status tinyi_group_recv(tiny_net *net, int from, tiny_message *m)
{
    tllm_group *g = (tllm_group *)net;
    tiny_status st;
    if (from < 0 || from >= net->world) return TINY_E_ARGUMENT;
    st = g->all->why ? g->all->why : g->all->recv(g->all, g->rank[from], m);
    tinyi_group_counts(g, from);
    return tinyi_group_said(g, st);
}

static void tinyi_group_end(tiny_net *net)
{
    tllm_group *g = (tllm_group *)net;
    if (!g->all->why) {
        g->all->why = net->why;
        if (net->gone > 0 && net->gone <= net->world) g->all->gone = g->rank[net->gone - 1] + 1;
        if (!*g->all->says) memcpy(g->all->says, net->says, sizeof net->says);
    }
    g->all->close(g->all);
}
static uint64_t tinyi_group_changes(tiny_net *net)
{
    return ((tllm_group *)net)->all->changes(((tllm_group *)net)->all);
}
static void tinyi_group_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((tllm_group *)net)->all->pause(((tllm_group *)net)->all, seen, until);
}
static void tinyi_group_wake(tiny_net *net) { ((tllm_group *)net)->all->wake(((tllm_group *)net)->all); }

TINY_API tiny_status tllm_group_open(tiny_ctx *ctx, tiny_net *net, const tllm_grid *grid, unsigned axes,
                                     tllm_group **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_group *g;
    if (out) *out = NULL;
    if (st) return st;
    if (!net || !grid || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "group: a net, a grid and an output are needed");
    if (net->world > TINY_NET_RANKS || tllm_grid_rank(grid, NULL) != net->rank)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "group: the grid is that of rank %d, the net of rank %d of %d",
                          tllm_grid_rank(grid, NULL), net->rank, net->world);
    if (net->star && net->world > 2)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "group: only rank 0 of this net is connected to all others");
    g = (tllm_group *)tinyi_alloc(ctx, 1, sizeof *g);
    if (!g) return tiny_ctx_status(ctx);
    memset(g, 0, sizeof *g);
    g->all = net;
    g->net.world = tllm_grid_group(grid, axes, g->rank, &g->net.rank);
    g->net.virtual_clock = net->virtual_clock;
    g->net.send = tinyi_group_send;
    g->net.recv = tinyi_group_recv;
    g->net.close = tinyi_group_end;
    g->net.changes = tinyi_group_changes;
    g->net.pause = tinyi_group_pause;
    g->net.wake = tinyi_group_wake;
    g->net.count = g->count;
    *out = g;
    return TINY_OK;
}

TINY_API tiny_net *tllm_group_net(tllm_group *g) { return g ? &g->net : NULL; }
TINY_API void tllm_group_close(tiny_ctx *ctx, tllm_group *g) { tiny_free(ctx, g); }
