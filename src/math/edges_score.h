/* src/math/edges_score.h - scores of edges, softmax over the edges of a row, attention; rows, edges and heads as in
 * math/edges.h */
#ifndef TINYI_EDGES_SCORE_H
#define TINYI_EDGES_SCORE_H
#include "math/edges.h"
TINYI_C_BEGIN

/* A score for each edge and head, s (m, heads), from a row of a and a row of b. With t = b[col[p]] + e[p], head h gets
 *   DOT    scale * sum_c a[r][h c] t[h c]
 *   ADD    with att (f), as in GATv2: sum_c att[h c] leaky(a[r][h c] + t[h c])
 *          without att, as in GAT: leaky(a[r][h] + t[h]), and f = heads
 * leaky(v) is v where v > 0 and slope * v elsewhere. a (n, f), b (n_b, f), e (m, f) or NULL. heads 0: 1. scale 0: 1. */
typedef struct tiny_sddmm_params { int add, heads; float scale, slope; } tiny_sddmm_params;
TINY_API tiny_status tiny_sddmm(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *col, const tiny_tensor *a,
                                const tiny_tensor *b, const tiny_tensor *att, const tiny_tensor *e,
                                const tiny_sddmm_params *params, const tiny_tensor *s);

/* p = exp(s - max) / sum exp(s - max) over the edges of each row, for each head: s, p (m) or (m, heads); p may be s. */
TINY_API tiny_status tiny_segment_softmax(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *s,
                                          const tiny_tensor *p);

/* Scores, softmax and weighted sum in one pass over the edges: y[r] = sum_p softmax_p(s[p]) v[col[p]], with s from
 * tiny_sddmm without e. v (n_b, g), y (n, g), g a multiple of heads. It needs no memory in proportion to the edges. */
TINY_API tiny_status tiny_edge_attention(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *col,
                                         const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *v,
                                         const tiny_tensor *att, const tiny_sddmm_params *params, const tiny_tensor *y);

#define TINYI_OPS_EDGES_SCORE(ROW) \
    ROW(SDDMM, sddmm) ROW(SEGMENT_SOFTMAX, segment_softmax) ROW(EDGE_ATTENTION, edge_attention)

/* positions of the inputs */
enum { TINYI_SDDMM_COL = 1, TINYI_SDDMM_A, TINYI_SDDMM_B, TINYI_SDDMM_ATT, TINYI_SDDMM_E };
enum { TINYI_EDGE_ATT_A = 2, TINYI_EDGE_ATT_B, TINYI_EDGE_ATT_V, TINYI_EDGE_ATT_ATT };

TINYI_C_END
#endif
