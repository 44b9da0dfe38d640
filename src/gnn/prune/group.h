/* src/gnn/prune/group.h - channels that can only be removed together, which of them matter least, and their removal
 *
 *     tgnn_cut_desc d = { 0 };
 *     d.speedup = 2.0;
 *     tgnn_cnn_choose(cnn, &d, keep);                     keep (tgnn_cnn_nodes): 1 for each channel that stays
 *     tgnn_cnn_cut(cnn, keep, &small);                    a smaller network that computes the same as the masked one
 *
 * Removing channel c of a signal removes row c of the layer that makes it, its norm, and column c of every layer that
 * reads it. A shortcut without weights ties two signals: their channels c go together. The input and the last layer
 * keep all channels. */
#ifndef TINYI_GNN_GROUP_H
#define TINYI_GNN_GROUP_H
#include "gnn/prune/cnn.h"
TINYI_C_BEGIN

/* Channels of all signals, the input first, one signal after the other: the nodes of the network's graph. */
TINY_API tiny_idx tgnn_cnn_nodes(const tgnn_cnn *cnn);
TINY_API tiny_idx tgnn_cnn_node(const tgnn_cnn *cnn, size_t signal);        /* the first of a signal */
/* The number of the group of layers of each signal (layers + 1): tied signals have the same one, the lowest of their
 * numbers. */
TINY_API void tgnn_cnn_ties(const tgnn_cnn *cnn, size_t *group);
/* Nonzero: the channels of this signal may be removed. */
TINY_API int tgnn_cnn_free(const tgnn_cnn *cnn, const size_t *group, size_t signal);

/* Importance of each channel (tgnn_cnn_nodes), the same for tied ones; 0 where no channel may be removed:
 *     I_c = sqrt(mean over the members of the group of the sum of their squares) / the largest of these roots
 * Members: rows of each layer that makes the signal, gains of its norms, columns of each layer that reads it. keep (may
 * be NULL): only what is left counts. plain: without the division. */
TINY_API tiny_status tgnn_cnn_importance(const tgnn_cnn *cnn, const unsigned char *keep, int plain, double *importance);

typedef struct tgnn_cut_desc {              /* zero: the value in brackets */
    double speedup;                         /* stops when the cost of the whole / that of the rest is at least this */
    int steps;                              /* in which all channels would go [200] */
} tgnn_cut_desc;
/* Removes the channels of the lowest importance of the whole network, step by step; after each step the importance of
 * the rest is computed again. At least one channel of each signal stays. Fails if the speed-up cannot be reached. */
TINY_API tiny_status tgnn_cnn_choose(const tgnn_cnn *cnn, const tgnn_cut_desc *desc, unsigned char *keep);
/* Cost of an image with the channels that stay. */
TINY_API double tgnn_cnn_flops_kept(const tgnn_cnn *cnn, const unsigned char *keep);
/* Sets the rows, norms and columns of all other channels to 0. */
TINY_API tiny_status tgnn_cnn_zero(tgnn_cnn *cnn, const unsigned char *keep);
TINY_API tiny_status tgnn_cnn_cut(const tgnn_cnn *cnn, const unsigned char *keep, tgnn_cnn **out);

TINYI_C_END
#endif
