/* src/llm/plan/cascade.h - analyses cascades of Einsums: how often an algorithm reads its data, and what it must keep
 * in memory, computed without running it
 *
 *   static const char text[] =
 *       "input Q[p,e] K[m,e] V[m,f]\n"
 *       "QK[p,m] = sum e: Q[p,e] * K[m,e]\n"
 *       "GM[p]   = max m: QK[p,m]\n"
 *       "SN[p,m] = exp(QK[p,m] - GM[p])\n"
 *       "SD[p]   = sum m: SN[p,m]\n"
 *       "A[p,m]  = SN[p,m] / SD[p]\n"
 *       "AV[p,f] = sum m: A[p,m] * V[m,f]\n";
 *   tllm_cascade_parse(ctx, text, &c);
 *   tllm_cascade_size(ctx, &c, "m", 1024); ...                       each rank
 *   tllm_cascade_analyse(ctx, &c, "m", &a);                          a.passes == 3
 *
 * A cascade is a list of Einsums, each computing one tensor from one or two others. A rank is an index of a tensor,
 * such as m. One statement per line, # begins a comment:
 *   input X[ranks] ...         an input tensor with these ranks, outermost first; the last one is contiguous
 *   split m m1 m0              splits rank m into m1 chunks of m0; the last chunk may be shorter. Only m and m0 need
 *                              sizes
 *   state X[m1,ranks] = -inf   a tensor that step m1 passes to step m1 + 1, with its first value (a number, inf, -inf)
 *   X[ranks] = [sum ranks: | max ranks:] E      E is A, A * B, A / B, A + B, max(A, B) or exp(A - B)
 * A state is read as X[m1,...] (before this step), X[m1+1,...] (after it) or X[last,...] (after all), and written as
 * X[m1+1,...].
 * An operand rank that is neither in the output nor reduced is an error, and so is reading a tensor before it is
 * made. */
#ifndef TINYI_CASCADE_H
#define TINYI_CASCADE_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_CASCADE_RANKS 8
#define TLLM_CASCADE_EINSUMS 32
#define TLLM_CASCADE_TENSORS 48
#define TLLM_CASCADE_NAME 16                /* bytes of a name with its final 0 */

typedef enum tllm_einsum_map {
    TLLM_EINSUM_COPY,
    TLLM_EINSUM_MUL,
    TLLM_EINSUM_DIV,
    TLLM_EINSUM_ADD,
    TLLM_EINSUM_MAX,
    TLLM_EINSUM_EXP
} tllm_einsum_map;
typedef enum tllm_einsum_reduce { TLLM_REDUCE_NONE, TLLM_REDUCE_SUM, TLLM_REDUCE_MAX } tllm_einsum_reduce;
typedef enum tllm_einsum_when { TLLM_WHEN_ALWAYS, TLLM_WHEN_NOW, TLLM_WHEN_NEXT, TLLM_WHEN_LAST } tllm_einsum_when;

typedef struct tllm_cascade_tensor {
    char name[TLLM_CASCADE_NAME];
    int n_rank;
    signed char rank[TLLM_CASCADE_RANKS];   /* outermost first; a state is passed along its rank[0] */
    unsigned ranks;                         /* the same as bits */
    int is_input, is_state, made_by;        /* made_by: its Einsum, -1 for an input */
    double start;                           /* first value of a state */
} tllm_cascade_tensor;

typedef struct tllm_einsum {
    int out, n_in, in[2];
    tllm_einsum_when when[2];               /* for operands that are states */
    tllm_einsum_map map;
    tllm_einsum_reduce reduce;
    unsigned over, ranks;                   /* reduced ranks; all ranks of its space */
    int line;
} tllm_einsum;

typedef struct tllm_cascade {
    int n_rank, n_tensor, n_einsum;
    char rank[TLLM_CASCADE_RANKS][TLLM_CASCADE_NAME];
    tiny_idx size[TLLM_CASCADE_RANKS];      /* 0: not given */
    int split[3];                           /* whole, chunks, inside; split[0] -1: none */
    tllm_cascade_tensor tensor[TLLM_CASCADE_TENSORS];
    tllm_einsum einsum[TLLM_CASCADE_EINSUMS];
} tllm_cascade;

/* Operations, one for each point of the space of an Einsum. rescales are multiplications without an input operand:
 * corrections of values that were computed too early. They also count in multiplies. */
typedef struct tllm_cascade_ops { double exps, multiplies, divides, adds, maxima, rescales; } tllm_cascade_ops;

typedef struct tllm_cascade_analysis {
    int passes;                             /* how often the fiber, all values of its ranks, is read as a whole */
    int level[TLLM_CASCADE_EINSUMS];        /* the traversal in which an Einsum runs, from 1; 0: none needed */
    int reads_fiber[TLLM_CASCADE_EINSUMS];  /* nonzero: an operand has every rank of the fiber */
    int tensor_level[TLLM_CASCADE_TENSORS];
    int reads[TLLM_CASCADE_TENSORS];        /* distinct levels at which a tensor is read */
    /* how many of these levels come after the one that makes the tensor; if any, all of it is kept or computed again */
    int kept[TLLM_CASCADE_TENSORS];
    /* live elements: the whole of a kept tensor, else one step along the traversal rank */
    double live[TLLM_CASCADE_TENSORS];
    double live_all;                        /* of all tensors that are not inputs */
    tllm_cascade_ops ops;
} tllm_cascade_analysis;

/* The text is not needed after the call. An error message names the line. */
TINY_API tiny_status tllm_cascade_parse(tiny_ctx *ctx, const char *text, tllm_cascade *c);
TINY_API tiny_status tllm_cascade_size(tiny_ctx *ctx, tllm_cascade *c, const char *rank, tiny_idx size);
TINY_API int tllm_cascade_find(const tllm_cascade *c, const char *tensor);    /* its number, or -1 */
/* fiber: names of ranks, the traversal rank first ("m", "m1 m0"). Every rank must have a size. */
TINY_API tiny_status tllm_cascade_analyse(tiny_ctx *ctx, const tllm_cascade *c, const char *fiber,
                                          tllm_cascade_analysis *a);
/* Runs a parsed cascade, one Einsum after the other, in double; slow, for comparison. data[i] is tensor i, dense:
 * inputs must be given, other tensors are written where data[i] is not NULL. A state has one row more than its first
 * rank. *ops receives the operations counted during the run; ops may be NULL. */
TINY_API tiny_status tllm_cascade_run(tiny_ctx *ctx, const tllm_cascade *c, double *const *data, tllm_cascade_ops *ops);

/* ---- inside: what the bodies share ---- */

/* number of points of the space of ranks (bits) */
TINYI_FN double tinyi_cascade_points(const tllm_cascade *c, unsigned ranks);

TINYI_C_END
#endif
