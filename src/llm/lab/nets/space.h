/* src/llm/lab/nets/space.h - stages of residual blocks whose widths and depths can be chosen, and what a choice costs
 *
 *     tllm_space s = { { 0 } };
 *     s.in[0] = 1; s.in[1] = s.in[2] = 16; s.n_class = 10; s.stem = 16;
 *     s.n_stage = 2;
 *     s.stage[0].width = 16; s.stage[0].blocks = 3;
 *     s.stage[1].width = 32; s.stage[1].blocks = 3; s.stage[1].stride = 2;
 *     tllm_space_full(ctx, &s, &shape);
 *     tllm_space_flops(&s, &shape);
 *
 * A network: a convolution (the stem), then stages of blocks, the mean over the image, a matrix. A block is two
 * convolutions of 3 x 3, each with a batch norm, and a shortcut around them; ReLU after the first and after the sum.
 * The first block of a stage has its stride; its shortcut is a mean pool. The shortcut has no weights: where the
 * numbers of channels differ, the common ones are added and the others stay ("additive rule"). So the result of a
 * block has the larger of both numbers. Convolutions are counted from the input: 0 is the stem, then two a block, with
 * all blocks of the space counted. */
#ifndef TINYI_LLM_SPACE_H
#define TINYI_LLM_SPACE_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_SPACE_STAGES 8
#define TLLM_SPACE_CONVS 65                 /* most convolutions: the stem and 32 blocks */
#define TLLM_SPACE_WIDTHS 8                 /* most choices of a width: shares .3, .4 .. 1 of the full one */
#define TLLM_SPACE_DEPTHS 17                /* most choices of a depth */

typedef struct tllm_stage {
    tiny_idx width;                         /* channels of its convolutions, at most */
    int blocks;                             /* at most */
    int stride;                             /* of the first block; 0: 1 */
} tllm_stage;

typedef struct tllm_space {
    tiny_idx in[3];                         /* channels, height, width of an image */
    tiny_idx n_class;
    tiny_idx stem;                          /* channels of the first convolution, at most */
    int stem_stride;                        /* 0: 1 */
    size_t n_stage;
    tllm_stage stage[TLLM_SPACE_STAGES];
    int plain;                              /* nonzero: no shortcuts */
    int fixed_depth;                        /* nonzero: every stage keeps all its blocks; only widths are chosen */
} tllm_space;

typedef struct tllm_shape {                 /* a choice */
    tiny_idx width[TLLM_SPACE_CONVS];       /* of each convolution; of blocks that are left out too, unused */
    int depth[TLLM_SPACE_STAGES];           /* blocks that are kept, the first ones */
} tllm_shape;

/* Checks the space and sets the choice of all channels and all blocks. A stage of one block has no depth to choose: it
 * is refused unless fixed_depth is set. */
TINY_API tiny_status tllm_space_full(tiny_ctx *ctx, const tllm_space *space, tllm_shape *shape);
/* These expect a space that passed tllm_space_full. */
TINY_API size_t tllm_space_convs(const tllm_space *space);
TINY_API tiny_idx tllm_space_width(const tllm_space *space, size_t conv);           /* at most */
/* floor(r width) for r = .3, .4 .. 1, at least 1, ascending, each once; returns their number */
TINY_API size_t tllm_space_widths(const tllm_space *space, size_t conv, tiny_idx width[TLLM_SPACE_WIDTHS]);
/* 2 blocks: 1, 2; 3: 1, 2, 3; more: 1, 3, 5 .. and all of them; returns their number */
TINY_API size_t tllm_space_depths(const tllm_space *space, size_t stage, int depth[TLLM_SPACE_DEPTHS]);
TINY_API tiny_status tllm_space_check(tiny_ctx *ctx, const tllm_space *space, const tllm_shape *shape);
/* Of one image: two for each product of the convolutions and of the matrix. Norms and sums are not counted. */
TINY_API double tllm_space_flops(const tllm_space *space, const tllm_shape *shape);

/* The same share of all widths, the largest whose cost is at most this; all blocks. */
TINY_API tiny_status tllm_space_uniform(tiny_ctx *ctx, const tllm_space *space, double flops, tllm_shape *shape);
/* Choices drawn until the cost is between low and high. */
TINY_API tiny_status tllm_space_random(tiny_ctx *ctx, const tllm_space *space, double low, double high, uint64_t seed,
                                       tllm_shape *shape);

/* ---- probabilities of choices: a row of logits for each convolution and for each stage, the ends of rows unused */

typedef struct tllm_logits {
    double width[TLLM_SPACE_CONVS][TLLM_SPACE_WIDTHS];
    double depth[TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS];
} tllm_logits;

/* Expected cost if every choice is drawn by the softmax of its row, and its gradient (may be NULL; unused ends are 0):
 *     E[C] = sum over j of softmax(row)_j C_j;  E[F] = 2 k^2 H W E[C in] E[C out] P(the block is kept)
 * Exact without shortcuts. With them the cost of a choice is larger where a shortcut is wider than its block. */
TINY_API double tllm_space_expected(const tllm_space *space, const tllm_logits *logits, tllm_logits *gradient);
/* The choice of the largest logit of each row. */
TINY_API void tllm_space_argmax(const tllm_space *space, const tllm_logits *logits, tllm_shape *shape);
/* o_j = (log softmax(logit)_j + gumbel_j) / tau;  p = softmax(o). gumbel NULL: zeros; o may be NULL. */
TINY_API void tllm_space_soften(size_t n, const double *logit, const double *gumbel, double tau, double *o, double *p);
/* The weights of two choices: the softmax of their o. */
TINY_API void tllm_space_pair(double o_a, double o_b, double weight[2]);

/* ---- inside: what the bodies share ---- */

typedef struct tinyi_space_place { tiny_idx h, w; } tinyi_space_place;      /* size of a result */
TINYI_FN void tinyi_space_places(const tllm_space *space, tinyi_space_place *stem, tinyi_space_place *stage);
TINYI_FN size_t tinyi_space_first(const tllm_space *space, size_t stage);       /* its first convolution */

TINYI_C_END
#endif
