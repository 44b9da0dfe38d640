/* src/gnn/equivariant/tdn.h - an interatomic potential: energies and forces of molecules
 *
 *   tgnn_tdn_desc d = { 0 };
 *   tgnn_tdn *net;
 *   d.cutoff = 4.5;
 *   tgnn_tdn_open(ctx, &d, &net);                          128 channels, 4 blocks, degrees to 2; tgnn_tdn_params
 *   atoms.n = 5;  atoms.type = type;  atoms.pos = pos;
 *   tgnn_tdn_run(ctx, net, &atoms, &energy, forces);       forces = -dE/dr
 *
 * Energies do not change when a molecule moves, turns, or numbers its atoms in another order, and forces turn with it:
 * with factors (TGNN_PRODUCT_CP) up to their bound, with all other products up to rounding. Mirror images may get
 * different energies. Training on energies and forces is for small networks: tgnn_tdn_gradient. */
#ifndef TINYI_TDN_H
#define TINYI_TDN_H
#include "gnn/equivariant/cp.h"
#include "gnn/equivariant/product.h"
TINYI_C_BEGIN

typedef struct tgnn_tdn_desc {
    int l;                                  /* degrees 0 .. l of features; 0: 2; at most 6 */
    int width;                              /* channels; 0: 128 */
    int blocks;                             /* 0: 4; at most 16 */
    int heads;                              /* of attention; they divide the width; 0: 8 */
    int n_types;                            /* of atoms; 0: 80 */
    int n_basis, hidden;                    /* functions of the distance, and the width of their networks; 0: 128, 64 */
    double cutoff;                          /* atoms closer than this are neighbours; it must be given */
    double mean_degree, mean_atoms;         /* neighbours and atoms on average: sums are divided by their roots; 0: 1 */
    /* TGNN_PRODUCT_CG: the cheapest exact one, or CP where cp is given and cheaper; or DENSE, SPARSE, FOLD, CP */
    int product;
    const tgnn_cp *cp;                      /* factors of degree l; they are copied */
    int direct;                             /* nonzero: forces are a head of their own, not -dE/dr */
    int smooth;                             /* nonzero: edges fade out towards the cutoff; for dynamics */
    int wide;                               /* nonzero: f64 parameters, computed by the references */
    uint64_t seed;                          /* of the first weights */
} tgnn_tdn_desc;

typedef struct tgnn_tdn tgnn_tdn;
TINY_API tiny_status tgnn_tdn_open(tiny_ctx *ctx, const tgnn_tdn_desc *desc, tgnn_tdn **out);
TINY_API void tgnn_tdn_close(tgnn_tdn *net);               /* takes NULL */
TINY_API const tgnn_tdn_desc *tgnn_tdn_description(const tgnn_tdn *net);    /* with the defaults; cp is NULL */
/* For an optimiser, and for tiny_params_save and tiny_params_load. */
TINY_API const tiny_param *tgnn_tdn_params(const tgnn_tdn *net, size_t *n);
TINY_API double tgnn_tdn_count(const tgnn_tdn *net);        /* numbers of all parameters */
TINY_API const tgnn_product *tgnn_tdn_product(const tgnn_tdn *net);         /* the plan: tgnn_product_why */

/* Molecules one after the other. */
typedef struct tgnn_atoms {
    tiny_idx n;                             /* atoms of all molecules */
    const int32_t *type;                    /* (n) from 0 */
    const double *pos;                      /* (n, 3) */
    const int64_t *first;                   /* (molecules + 1): where each begins, and n; NULL: one molecule */
    tiny_idx molecules;                     /* with first */
} tgnn_atoms;

/* energy (molecules), forces (n, 3) or NULL. Fails where two atoms of a molecule are at the same place. An atom without
 * neighbours is allowed. A network is for one thread at a time: it keeps its memory from call to call. */
TINY_API tiny_status tgnn_tdn_run(tiny_ctx *ctx, tgnn_tdn *net, const tgnn_atoms *atoms, double *energy,
                                  double *forces);

/* loss = energy_weight mean over molecules of (E - energy)^2 + force_weight mean over 3 n numbers of (F - force)^2, and
 * its gradient in those of the parameters. For forces -dE/dr the second part needs
 * second derivatives, and they are differences of first ones: with v = dloss/dF, d<F, v>/dtheta = -(g(r + e v) -
 * g(r - e v)) / (2 e), g = dE/dtheta. The largest step of an atom is 1e-5 (wide) or 3e-3 units of length; the gradient
 * is exact to about 1e-9 or 1e-3 of its size. */
typedef struct tgnn_tdn_target {
    const double *energy, *forces;          /* (molecules), (n, 3); either may be NULL */
    double energy_weight, force_weight;     /* 0: 1 */
} tgnn_tdn_target;
TINY_API tiny_status tgnn_tdn_gradient(tiny_ctx *ctx, tgnn_tdn *net, const tgnn_atoms *atoms,
                                       const tgnn_tdn_target *target, double *loss);

TINYI_C_END
#endif
