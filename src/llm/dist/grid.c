/* src/llm/dist/grid.c - a grid of ranks, and a net that shows a group of them
 * Paper    D. Narayanan et al., 2021 (arXiv 2104.04473): tensor, data and pipeline parallelism on one grid of workers.
 * Formula  stride_0 = 1, stride_j = stride_(j-1) size_(j-1); rank = sum i_j stride_j
 * Method   A group is a subnet whose number says which axes it has: groups do different things, so each counts its own
 *          collective calls. */
#include "llm/dist/grid.h"
#include "llm/dist/subnet_inside.h"
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

struct tllm_group { tinyi_subnet sub; };

TINY_API tiny_status tllm_group_open(tiny_ctx *ctx, tiny_net *net, const tllm_grid *grid, unsigned axes,
                                     tllm_group **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_group *g;
    int ranks[TINY_NET_RANKS], n, i;
    double all = 1.0;
    if (out) *out = NULL;
    if (st) return st;
    if (!net || !grid || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "group: a net, a grid and an output are needed");
    for (i = 0; i < grid->n && i < TLLM_GRID_AXES; i++) all *= (double)grid->size[i];
    if (net->world > TINY_NET_RANKS || all != (double)net->world || tllm_grid_rank(grid, NULL) != net->rank)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "group: the grid is that of rank %d of %.0f, the net of rank %d of %d",
                          tllm_grid_rank(grid, NULL), all, net->rank, net->world);
    if (net->star && net->world > 2)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "group: only rank 0 of this net is connected to all others");
    g = (tllm_group *)tinyi_alloc(ctx, 1, sizeof *g);
    if (!g) return tiny_ctx_status(ctx);
    n = tllm_grid_group(grid, axes, ranks, NULL);
    st = tinyi_subnet_make(ctx, &g->sub, net, ranks, n, axes & ((1u << TLLM_GRID_AXES) - 1));
    if (st) tiny_free(ctx, g);
    else *out = g;
    return st;
}

TINY_API tiny_net *tllm_group_net(tllm_group *g) { return g ? &g->sub.net : NULL; }
TINY_API void tllm_group_close(tiny_ctx *ctx, tllm_group *g) { tiny_free(ctx, g); }
