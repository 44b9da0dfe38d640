/* bench/gnn/deepwalk.h - DeepWalk, the rival that the paper of FastRP names; no part of the library */
#ifndef BENCH_DEEPWALK_H
#define BENCH_DEEPWALK_H
#include "../bench.h"
#include "tinygnn.h"

/* walks from each node, nodes of one, window, negatives */
enum { B_WALKS = 80, B_WALK = 40, B_WINDOW = 10, B_NOISE = 5 };

typedef struct b_deepwalk b_deepwalk;
/* NULL where this compiler has no vectors of GNU C. d is a multiple of 8. The rows are made here, before any clock
 * runs. */
b_deepwalk *b_deepwalk_open(tiny_ctx *ctx, const tgnn_graph *g, tiny_idx d, uint64_t seed);
/* The next share of all walks, 0 to 1. After the last walk it starts again at the first, with the first learning
 * rate. */
void b_deepwalk_run(b_deepwalk *w, double share);
const float *b_deepwalk_rows(const b_deepwalk *w);                  /* (nodes, d) */
void b_deepwalk_close(b_deepwalk *w);
#endif
