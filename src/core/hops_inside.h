/* src/core/hops_inside.h - collective algorithms as lists of steps
 *
 * Step i of a rank sends one range, receives another, both, or neither. Both sides of a message agree on i, so it can
 * be part of the tag. tiny_comm runs the steps while its caller computes, tiny_coll_* at once; neither knows the
 * algorithms. Numbers of a range are elements, or blocks where that is said. */
#ifndef TINYI_HOPS_H
#define TINYI_HOPS_H
#include "core/comm.h"
TINYI_C_BEGIN

enum { TINYI_HOP_PUT, TINYI_HOP_THEIRS, TINYI_HOP_MINE };     /* how: replace; theirs + mine; mine + theirs */
typedef struct tinyi_hop {
    int to, from;                           /* -1: none */
    size_t to_at, to_n, from_at, from_n;
    int how;
} tinyi_hop;

/* part i (modulo p) of n: floor(i n / p) to floor((i + 1) n / p) */
TINYI_FN void tinyi_hop_part(size_t n, int p, int i, size_t *at, size_t *size);
/* n units in proportion to share (p), whose sum is given; NULL: alike. Each rank gets floor(n share / sum), and the
 * last ranks get one of those that are left, each. part[r * step] is that of rank r. */
TINYI_FN void tinyi_hop_shares(tiny_idx n, int p, const double *share, double sum, tiny_idx *part, size_t step);

/* Each returns 0 after the last step. way: a tiny_comm_way but AUTO and DIRECT. */
TINYI_FN int tinyi_hop_allreduce(int way, int rank, int world, size_t n, int i, tinyi_hop *t);
/* binomial trees from and to a root */
TINYI_FN int tinyi_hop_broadcast(int rank, int world, int root, size_t n, int i, tinyi_hop *t);
TINYI_FN int tinyi_hop_reduce(int rank, int world, int root, size_t n, int i, tinyi_hop *t);
/* Blocks, numbered from the root on: block v belongs to rank (root + v) mod p. */
TINYI_FN int tinyi_hop_gather(int rank, int world, int root, int i, tinyi_hop *t);
TINYI_FN int tinyi_hop_scatter(int rank, int world, int root, int i, tinyi_hop *t);
/* Rank r ends with part (r + 1) mod p of the sum. */
TINYI_FN int tinyi_hop_reduce_scatter(int rank, int world, size_t n, int i, tinyi_hop *t);
/* Blocks: each rank begins with block first, and all end with all. */
TINYI_FN int tinyi_hop_allgather(int rank, int world, int first, int i, tinyi_hop *t);

TINYI_C_END
#endif
