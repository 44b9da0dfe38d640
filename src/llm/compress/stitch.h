/* src/llm/compress/stitch.h - SN-Net: which networks two or more trained ones can be stitched into, what each costs,
 * and which of them to run
 *
 *   tllm_stitch s[80];
 *   const int depth[3] = { 12, 12, 12 };                   DeiT-Ti, S and B
 *   tllm_stitch_plan(ctx, depth, 3, s, 80, &n);            71 networks
 *   tllm_stitch_cost(size, &s[7], &params, &ops);          size: of each of the three
 *   tllm_stitch_select(ctx, ops, right, n, 4e9, &best);    the most accurate one of at most 4e9 operations
 *
 * Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586). The trained networks are anchors,
 * the cheapest first. A stitch runs the first blocks of an anchor, then one linear layer from its width to that of the
 * next anchor, then the last blocks of that one. llm/lab/nets/snnet.h trains such networks; llm/compress/join.h makes
 * one model file of two. */
#ifndef TINYI_STITCH_H
#define TINYI_STITCH_H
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_STITCH_ANCHORS 8               /* most anchors */
#define TLLM_STITCH_BLOCKS 1024             /* most blocks of one */

/* A network: blocks 0 .. f of anchor front, then blocks e .. of anchor back. An anchor itself: front == back, f -1,
 * e 0, layer -1. */
typedef struct tllm_stitch {
    int front, back;
    int f, e;
    int layer;                              /* number of the linear layer, counted for each pair of anchors from 0 */
} tllm_stitch;

/* All networks: the anchors, then the stitches of anchors 0 and 1, of 1 and 2, and so on. depth: blocks of each anchor,
 * at least 2, none deeper than the next. out may be NULL: then only *n is set. room: networks that fit into out.
 *   equal depths   windows of two blocks {i, i + 1}: all (f, e) of a window that no earlier window has; they share a
 *                  linear layer. 3 L - 2 networks, L - 1 layers
 *   deeper backs   block e of back belongs to block floor(e Lf / Lb) = f of front; (f, e) with e > f. One linear layer
 *                  for each f */
TINY_API tiny_status tllm_stitch_plan(tiny_ctx *ctx, const int *depth, int n_anchor, tllm_stitch *out, size_t room,
                                      size_t *n);
/* linear layers of a pair of anchors; 0: they cannot be stitched */
TINY_API int tllm_stitch_layers(int front_depth, int back_depth);

/* Parameters and operations of the parts of an anchor. Operations are what the caller counts, for one sample; the
 * linear layer adds tokens width(front) width(back). */
typedef enum tllm_stitch_part {
    TLLM_STITCH_FIRST,                      /* everything before block 0 */
    TLLM_STITCH_BLOCK,                      /* a block */
    TLLM_STITCH_LAST,                       /* everything after the last block */
    TLLM_STITCH_ALONE,                      /* what only the whole anchor has; 0 where a network is its parts */
    TLLM_STITCH_PARTS
} tllm_stitch_part;
typedef struct tllm_stitch_size {
    tiny_idx width;                         /* of the features between blocks */
    int depth;
    tiny_idx tokens;                        /* feature vectors of a sample; 0: 1 */
    double params[TLLM_STITCH_PARTS], ops[TLLM_STITCH_PARTS];
} tllm_stitch_size;
/* Of a network: the sum of its parts. size: of all anchors. params and ops may be NULL. */
TINY_API void tllm_stitch_cost(const tllm_stitch_size *size, const tllm_stitch *s, double *params, double *ops);

/* keep[i] = 1 unless another network costs no more and scores no less (of equal ones the first stays). *n_keep: how
 * many; may be NULL. NaN is an error. */
TINY_API tiny_status tllm_stitch_pareto(tiny_ctx *ctx, const double *cost, const double *score, size_t n,
                                        unsigned char *keep, size_t *n_keep);
/* *best: of the networks that cost at most budget, that with the highest score; of equal ones the cheapest, then the
 * first. A budget below the cheapest network is TINY_E_ARGUMENT. */
TINY_API tiny_status tllm_stitch_select(tiny_ctx *ctx, const double *cost, const double *score, size_t n, double budget,
                                        size_t *best);

TINYI_C_END
#endif
