/* src/gnn/equivariant/neighbours.h - atoms, and lists of their neighbours within a distance
 *
 *   tgnn_structure s = { 0 };
 *   tgnn_neighbours list;
 *   s.n = 2; s.positions = xyz; s.numbers = z; s.cell = cell; s.periodic[0] = s.periodic[1] = s.periodic[2] = 1;
 *   tgnn_neighbours_find(ctx, &s, 5.0, &list);
 *   for (e = list.offset[i]; e < list.offset[i + 1]; e++) ... list.col[e], list.vector[3 * e] ...
 *   tgnn_neighbours_free(ctx, &list);
 *
 * Any cell that has a volume will do, also one that is smaller than the distance: an atom is then a neighbour of its
 * own images. Without periodic directions the cell is not read. */
#ifndef TINYI_NEIGHBOURS_H
#define TINYI_NEIGHBOURS_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TGNN_NEIGHBOURS_MOST 200000         /* neighbours of an atom: a cell that gives more is refused */

typedef struct tgnn_structure {
    tiny_idx n;
    const double *positions;                /* (n, 3) */
    const int *numbers;                     /* (n): atomic numbers; may be NULL where only neighbours are wanted */
    const double *cell;                     /* (3, 3), a vector a row; NULL where nothing is periodic */
    int periodic[3];                        /* nonzero: the structure repeats along this row */
} tgnn_structure;

/* Edges in CSR form, sorted by atom, then by neighbour. Edge e of atom i to atom j and its image `shift`:
 * vector = r_i - (r_j + shift * cell), the direction in which a message travels. Its reverse is the edge of j to i. */
typedef struct tgnn_neighbours {
    tiny_idx n, n_edges;
    int64_t *offset;                        /* (n + 1) */
    int32_t *col;                           /* (n_edges) */
    int32_t *shift;                         /* (n_edges, 3) */
    int64_t *reverse;                       /* (n_edges) */
    double *vector;                         /* (n_edges, 3) */
} tgnn_neighbours;

/* All pairs closer than `distance`. Fails, with *out empty, where a position is not finite, the cell has no volume, two
 * atoms are in one place, or an atom has too many neighbours. */
TINY_API tiny_status tgnn_neighbours_find(tiny_ctx *ctx, const tgnn_structure *s, double distance,
                                          tgnn_neighbours *out);
TINY_API void tgnn_neighbours_free(tiny_ctx *ctx, tgnn_neighbours *list);          /* takes an empty one */

/* ---- inside: what the bodies share ---- */

/* The cell that is searched: rows, those without period replaced by unit vectors that complete the others. */
typedef struct tinyi_cell {
    double row[9], inverse[9];              /* x = f row, f = x inverse */
    double height[3];                       /* between the planes f_k = 0 and f_k = 1 */
    double volume;
} tinyi_cell;
/* tgnn_neighbours_find of sorted atoms: sentences name atom i as order[i] + 1 */
TINYI_FN tiny_status tinyi_neighbours_sorted(tiny_ctx *ctx, const tgnn_structure *s, double distance,
                                             const int32_t *order, tgnn_neighbours *out);
/* checks all that neighbours need, and fills the cell */
TINYI_FN tiny_status tinyi_cell_of(tiny_ctx *ctx, const tgnn_structure *s, tinyi_cell *cell);

TINYI_C_END
#endif
