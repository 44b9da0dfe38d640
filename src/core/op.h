/* src/core/op.h - the table of operations, and tiny_run, which runs them
 *
 * An operation computes tensors from tensors. Each one is a row of the table (tiny_op_row), and a call of it is a
 * tiny_op. Accelerators, the conformance kit, the recorder, the tape, the planners and the benchmarks read the row. */
#ifndef TINYI_OP_H
#define TINYI_OP_H
#include "core/thread.h"
#include "core/rng.h"
TINYI_C_BEGIN

#define TINY_OP_MAX_IN 8
#define TINY_OP_MAX_OUT 3
#define TINY_OP_MAX_PARAMS 128              /* bytes */

typedef struct tiny_op_row tiny_op_row;
typedef struct tiny_op {
    int kind;                               /* TINY_OP_..., TLLM_OP_..., TGNN_OP_...; where row is given, row->kind */
    const tiny_tensor *in[TINY_OP_MAX_IN];  /* NULL for an optional one that is not given */
    const tiny_tensor *out[TINY_OP_MAX_OUT];
    const void *params;                     /* the params struct of the kind; NULL: all zero, the default */
    const tiny_op_row *row;                 /* an operation that is not in the table; NULL: the row of kind */
} tiny_op;

/* The number of a kind never changes. Core and math count from 1 (math/ops.h). Each header counts from its own base
 * (llm/ops.h, gnn/ops.h). Rows of your own have kind 0, or a kind from TINY_OP_BASE_YOURS on. */
enum { TINY_OP_BASE_LLM = 1000, TINY_OP_BASE_GNN = 2000, TINY_OP_BASE_YOURS = 10000 };

typedef struct tiny_cost { double flops, bytes; } tiny_cost;

/* The largest allowed difference between a fast result and the reference. u = 2^-24.
 *   EXACT    none: the same bits
 *   ULP      k ulp of the reference value, element by element; at least k * 2^-149
 *   LINEAR   k * u * M, where M is the result of the operation on the absolute values of its inputs
 *   NORM     k * u * max |reference| over the output row (last axis)
 *   SCALE    k * u * max |reference| over the whole output                  */
typedef enum tiny_bound_kind {
    TINY_BOUND_EXACT,
    TINY_BOUND_ULP,
    TINY_BOUND_LINEAR,
    TINY_BOUND_NORM,
    TINY_BOUND_SCALE
} tiny_bound_kind;
/* the factor is k + k_per_n * n, n = the number of terms summed */
typedef struct tiny_bound { tiny_bound_kind kind; double k, k_per_n; } tiny_bound;

typedef struct tiny_case tiny_case;         /* core/conform.h */

/* The gradient of an operation: g holds dL/d(outputs) and collects dL/d(inputs). op has the inputs and outputs of the
 * forward call. A gradient runs further operations; math/tape.h says how to write one. NULL in a row: the operation has
 * no gradient, and the tape fails if one is needed. */
typedef struct tiny_grad tiny_grad;
typedef tiny_status (*tiny_grad_fn)(tiny_grad *g, const tiny_op *op);

struct tiny_op_row {
    const char *name;
    int kind;
    int n_in, n_in_needed, n_out;           /* n_in counts the optional ones too */
    size_t params_size;
    unsigned flags;                         /* TINY_OP_INPLACE ... */
    /* Checks inputs and params. Fills dtype, rank and dim of want[0..n_out) with those that the outputs must have. */
    tiny_status (*shape)(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want);
    void (*ref)(const tiny_op *op);         /* plain scalar code, any strides, the same bits on every machine */
    void (*fast)(tiny_team *team, const tiny_op *op);   /* called by every thread of the team */
    /* the workspace that fast needs: of the team, and of each thread; NULL: none */
    void (*work)(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes);
    void (*cost)(const tiny_op *op, tiny_cost *cost);
    void (*cases)(tiny_case *c);            /* shapes, params and fills of one generated case */
    tiny_bound bound;
    double (*terms)(const tiny_op *op);     /* gives n of the bound; NULL: 1 */
    tiny_grad_fn grad;                      /* NULL: none */
    const void *relevance;                  /* reserved: NULL */
    const short *kernels;                   /* the kernel slots that it uses, ended by -1 */
    const char *formula;                    /* one line for the catalogue */
    const char *params_name;                /* "tiny_softmax_params"; NULL: no params, or a row that does not say */
};

enum {
    TINY_OP_INPLACE = 1,                    /* out[0] may be exactly in[0] */
    TINY_OP_INPLACE_1 = 2,                  /* out[0] may be exactly in[1] */
    TINY_OP_ACCUMULATES = 4,                /* out[0] is read too (its old content is an input) */
    /* fast hands out all its work by tiny_take, so it may run in a loose region (core/thread.h) */
    TINY_OP_LOOSE = 16,
    /* LOOSE, and its control flow never depends on data that it writes: threads may join at any barrier */
    TINY_OP_LATE = 32,
    /* of a row of llm or gnn: every target computes it from the same operands, and params begin with a format */
    TINY_OP_TUNED = 64,
    /* shape and ref accept f64 in place of f32; tiny_run sends f64 to the reference */
    TINY_OP_F64 = 8
};

/* Checks op, then runs it: on the accelerator, the fast path or the reference, as the context says. If a check fails,
 * nothing is written. */
TINY_API tiny_status tiny_run(tiny_ctx *ctx, const tiny_op *op);
/* The same for a list, in one parallel region with a barrier after each operation. */
TINY_API tiny_status tiny_run_list(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);
/* Always runs the reference. */
TINY_API tiny_status tiny_run_reference(tiny_ctx *ctx, const tiny_op *op);

/* The table holds the rows of core and math, then those of the header that the function belongs to. In a unit with both
 * implementations, the functions of the header included last have the rows of both, and so have its contexts. */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_find(const char *name);      /* NULL for an unknown name */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_at(size_t i);                /* the i-th row; NULL past the end */
/* NULL for an unknown kind, and for one that was left out of this program */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_row_of(int kind);
TINY_API tiny_status tiny_op_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want);
TINY_API TINYI_EACH tiny_cost tiny_op_cost(const tiny_op *op);
TINY_API tiny_target tiny_op_target(const tiny_ctx *ctx, int kind); /* the target of its first kernel */

/* For cases functions: a length that kernels often get wrong: 1, 2, 3, 7, 8, 9, 15 ... up to limit. */
TINY_API tiny_idx tiny_case_dim(tiny_case *c, tiny_idx limit);
TINY_API int tiny_case_pick(tiny_case *c, int n);           /* 0..n-1 */

TINYI_C_END
#endif
