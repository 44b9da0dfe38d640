/* src/gnn/equivariant/mace.h - MACE: a potential for atoms, its energies, forces and stress
 *
 *   tgnn_mace *model;
 *   tgnn_mace_out out = { 0 };
 *   tgnn_mace_load(ctx, "water.safetensors", &model);      made by ports/mace/export.py of a mace-torch model
 *   out.energy = &energy; out.forces = forces; out.stress = stress;
 *   tgnn_mace_run(ctx, model, &structure, TINY_F32, &out);
 *   tgnn_mace_close(model);
 *
 * Distances, energies and forces have the units of the model: for mace-torch Angstrom, eV, eV / Angstrom. */
#ifndef TINYI_MACE_H
#define TINYI_MACE_H
#include "gnn/equivariant/neighbours.h"
TINYI_C_BEGIN

#define TGNN_MACE_LAYERS 6
#define TGNN_MACE_L 4                       /* the largest degree of harmonics, and of features between layers */
#define TGNN_MACE_ELEMENTS 118
#define TGNN_MACE_RADIAL 6                  /* hidden layers of the radial network */
#define TGNN_MACE_CHANNELS 1024

enum {
    TGNN_MACE_PLAIN,                        /* RealAgnosticInteraction: the skip product works on the message */
    TGNN_MACE_RESIDUAL                      /* RealAgnosticResidualInteraction: on the features before it */
};

typedef struct tgnn_mace tgnn_mace;

typedef struct tgnn_mace_desc {             /* 0 takes the default that stands in brackets */
    int elements[TGNN_MACE_ELEMENTS], n_elements;   /* atomic numbers, in the order of the weights; at least one */
    int channels;                           /* [16] */
    int l_max;                              /* degree of the harmonics; 0 is 0 */
    int hidden;                             /* highest degree of the features between layers; 0 is 0 */
    int last;                               /* of those after the last layer; 0 as in mace-torch */
    int layers;                             /* [2] */
    int correlation[TGNN_MACE_LAYERS];      /* 1 to 3, [3] */
    int kind[TGNN_MACE_LAYERS];             /* TGNN_MACE_...; [plain, then residual] where kinds is 0 */
    int kinds;                              /* nonzero: kind is given */
    int density[TGNN_MACE_LAYERS];          /* nonzero: messages are divided by 1 + a learnt density, not by average */
    int n_bessel, power;                    /* [8], [5]: of the radial basis, and of its cutoff */
    int late;                               /* nonzero: the cutoff multiplies what the network and the density give */
    int zbl;                                /* nonzero: repulsion of Ziegler, Biersack, Littmark; power of its cutoff */
    int agnesi;                             /* nonzero: the basis gets a transformed distance */
    int radial[TGNN_MACE_RADIAL], n_radial; /* widths of the hidden layers of the radial network [64, 64, 64] */
    int readout;                            /* width of the last readout's hidden layer [16] */
    double r_max;                           /* [5] */
    double average;                         /* of neighbours [10] */
    double scale, shift;                    /* of the energy of an atom [1], 0 */
    uint64_t seed;                          /* of the weights of tgnn_mace_open */
} tgnn_mace_desc;

/* A model with random weights. */
TINY_API tiny_status tgnn_mace_open(tiny_ctx *ctx, const tgnn_mace_desc *desc, tgnn_mace **out);
TINY_API tiny_status tgnn_mace_load(tiny_ctx *ctx, const char *path, tgnn_mace **out);
TINY_API tiny_status tgnn_mace_save(tiny_ctx *ctx, const tgnn_mace *model, const char *path);  /* f64 */
TINY_API void tgnn_mace_close(tgnn_mace *model);                                   /* takes NULL */
TINY_API const tgnn_mace_desc *tgnn_mace_desc_of(const tgnn_mace *model);       /* with its defaults; NULL for NULL */
TINY_API double tgnn_mace_count(const tgnn_mace *model);                            /* its numbers */

/* What is wanted; NULL: not. Without forces, virial and stress no gradient is computed. */
typedef struct tgnn_mace_out {
    double *energy;                         /* one number: the sum over the atoms */
    double *atoms;                          /* (n) */
    double *forces;                         /* (n, 3): minus the gradient by the positions */
    double *virial;                         /* (3, 3): minus the gradient by a strain of positions and cell */
    double *stress;                         /* (3, 3): minus the virial over the volume; periodic in all directions */
} tgnn_mace_out;

/* dtype: TINY_F32 or TINY_F64, of everything between the distances and the energy of an atom. The result is the same
 * for every number of threads. A structure without atoms has the energy 0. One thread at a time may run a model: it
 * keeps its weights in the form of the last target and type. */
TINY_API tiny_status tgnn_mace_run(tiny_ctx *ctx, tgnn_mace *model, const tgnn_structure *s, tiny_dtype dtype,
                                   const tgnn_mace_out *out);
/* The formula of the paper in plain loops, in double: energies alone. atoms may be NULL. */
TINY_API tiny_status tgnn_mace_plain(tiny_ctx *ctx, const tgnn_mace *model, const tgnn_structure *s, double *energy,
                                     double *atoms);

TINYI_C_END
#endif
