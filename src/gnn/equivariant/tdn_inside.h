/* src/gnn/equivariant/tdn_inside.h - what the network (tdn.c) and its runs and training (tdn_run.c) share */
#ifndef TINYI_GNN_TDN_H
#define TINYI_GNN_TDN_H
#include "gnn/equivariant/tdn.h"
TINYI_C_BEGIN

#define TINYI_TDN_BLOCKS 16
#define TINYI_TDN_NAME 32
#define TINYI_TDN_DEGREES (TGNN_CP_L_MAX + 1)
#define TINYI_TDN_EPS 1e-5f
enum { TINYI_TDN_RADIAL = 10, TINYI_TDN_ATTEND = 8, TINYI_TDN_BLOCK = 2 + TINYI_TDN_RADIAL + TINYI_TDN_ATTEND + 4 };

/* A tape that is kept, and what it has room for. */
typedef struct tinyi_tdn_room {
    tiny_tape *tape;
    tiny_tape_mark begin;
    tiny_idx n, m, molecules;
    int seeds;
} tinyi_tdn_room;

struct tgnn_tdn {
    tiny_ctx *ctx;
    tgnn_tdn_desc desc;
    tgnn_product *plan;
    tgnn_irrep irreps[4][TINYI_TDN_DEGREES];        /* of features, mix, the inner network before and after its gate */
    size_t n, n_numbers, at_block, at_end;
    tiny_param *params;
    char (*names)[TINYI_TDN_NAME];
    unsigned char *memory;                  /* values, then gradients */
    tinyi_tdn_room room[2];                 /* of positions, of parameters */
    unsigned char *pos;                     /* positions and dE/dr of n_pos atoms, which the first tape knows */
    tiny_idx n_pos;
};

/* the edges of a call, and its atoms in the type of the network */
typedef struct tinyi_tdn_graph {
    tiny_idx n, m, molecules;
    int64_t *offset, *first;
    int32_t *type, *src, *dst;
    unsigned char *pos, *slope;             /* positions and dE/dr */
    void *memory;
} tinyi_tdn_graph;

/* what the edges have in all blocks */
typedef struct tinyi_tdn_edges { tiny_tensor offset, src, dst, y, basis, env, score; } tinyi_tdn_edges;

/* positions as a parameter */
TINYI_FN tiny_param tinyi_tdn_pos(const tgnn_tdn *net, const tinyi_tdn_graph *g);
TINYI_FN void tinyi_tdn_clear(tgnn_tdn *net);               /* the gradients */
/* the edges, and the first features of the atoms; a block; energies (molecules, 1), and forces (n, 3) of the direct
 * head if wanted */
TINYI_FN tiny_tensor tinyi_tdn_begin(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g,
                                     const tiny_tensor *pos, tinyi_tdn_edges *e);
TINYI_FN tiny_tensor tinyi_tdn_block(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_edges *e,
                                     const tiny_tensor *x, int i);
TINYI_FN tiny_tensor tinyi_tdn_end(tiny_tape *tape, const tgnn_tdn *net, const tinyi_tdn_graph *g,
                                   const tinyi_tdn_edges *e, const tiny_tensor *x, tiny_tensor *forces);

TINYI_C_END
#endif
