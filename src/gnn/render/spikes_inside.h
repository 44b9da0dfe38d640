/* src/gnn/render/spikes_inside.h - the kernels of spiking layers, as spikes.c calls them and each target has them
 *
 * Spikes are bit sets: bit i % 32 of word i / 32. Sums go in the order of the inputs, and additions of weights are
 * exact to the bit on every target; a kernel gives the same bits for a row whatever rows stand next to it. */
#ifndef TINYI_GNN_SPIKES_H
#define TINYI_GNN_SPIKES_H
#include "gnn/render/nerf.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

/* n is the number of neurons of a layer, a multiple of 32 for fire.
 *   dense    y[r][j] = sum over k of x[r][k] w[k][j]; n_in numbers of x, n of y in a row
 *   fire     h = v + (x - v) leak; bit = h >= 1; v = h or 0. h may be NULL
 *   fade     the same `times` times with x = 0, from a v below 1: no neuron fires
 *   add      y[j] = sum over the set bits k of w[k][j], or y[j] += with more; returns the number of set bits */
typedef struct tinyi_spike_kernels {
    tiny_target from;
    void (*dense)(float *y, const float *x, const float *w, size_t rows, size_t n_in, size_t n);
    void (*fire)(uint32_t *bits, float *h, float *v, const float *x, float leak, size_t n);
    void (*fade)(float *v, float leak, size_t times, size_t n);
    size_t (*add)(float *y, const uint32_t *bits, const float *w, size_t words, size_t n, int more);
} tinyi_spike_kernels;
TINYI_TABLES(tinyi_spike_kernels, tinyi_spike_kernels)

TINYI_C_END
#endif
