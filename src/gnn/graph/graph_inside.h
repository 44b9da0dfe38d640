/* src/gnn/graph/graph_inside.h - what a graph is inside */
#ifndef TINYI_GRAPH_INSIDE_H
#define TINYI_GRAPH_INSIDE_H
#include "core/state_inside.h"
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

struct tgnn_graph {
    tiny_sparse in;                         /* CSR with source */
    tiny_sparse by_source;                  /* CSC of in, the owner of out's arrays */
    tiny_sparse out;                        /* the same arrays, seen as CSR of sources */
    int has_out;
    tiny_file file;                         /* where the arrays of in lie in a mapped file */
};

/* A graph around in, which passed tiny_sparse_check and whose arrays it takes over, also when this fails. */
TINYI_FN tiny_status tinyi_graph_wrap(tiny_ctx *ctx, tiny_sparse *in, tgnn_graph **out);

/* what a desc asks for can be done */
TINYI_FN tiny_status tinyi_graph_desc_check(tiny_ctx *ctx, const tgnn_graph_desc *d);

/* Row r of a matrix: p0 .. p1, also when its file changed since it was checked; columns outside are for the caller to
 * see. */
TINYI_INLINE void tinyi_row_range(const tiny_sparse *a, tiny_idx r, int64_t *p0, int64_t *p1)
{
    /* once */
    const int64_t from = *(const volatile int64_t *)(a->offset + r),
                  to = *(const volatile int64_t *)(a->offset + r + 1);
    *p0 = from;
    *p1 = from >= 0 && to <= a->n && from < to ? to : from;
}

/* Row r of all rows in order: p0 .. p1, where p1 came in as the end of the row before, 0 at first. A row begins there
 * and nowhere else, so that each edge is seen once whatever a file has become. 0: the rows do not go on, or do not end
 * with the last edge. */
TINYI_INLINE int tinyi_row_next(const tiny_sparse *a, tiny_idx r, int64_t *p0, int64_t *p1)
{
    /* read once: what was looked at is what counts */
    const int64_t to = *(const volatile int64_t *)(a->offset + r + 1);
    *p0 = *p1;
    if (to < *p1 || to > a->n || (r + 1 == a->n_rows && to != a->n)) return 0;
    *p1 = to;
    return 1;
}

/* The column of edge p; where it is none, 0 and a 1 into bad. */
TINYI_INLINE int32_t tinyi_row_col(const tiny_sparse *a, int64_t p, int *bad)
{
    const int32_t c = *(const volatile int32_t *)(a->col + p);
    if ((uint32_t)c < (uint32_t)a->n_cols) return c;
    *bad = 1;
    return 0;
}

/* the sentence for a matrix whose rows or columns are no longer what was checked */
TINYI_FN tiny_status tinyi_rows_changed(tiny_ctx *ctx, const char *where, const tiny_sparse *a);

TINYI_C_END
#endif
