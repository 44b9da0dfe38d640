/* src/core/op.h - one table of operations and the one door to them
 *
 * An operation computes tensors from tensors. It is a row of the table; a call
 * of it is a tiny_op. Everything else that must know what a computation is
 * (accelerators, conformance kit, recorder, tape, planners, bench, catalogue)
 * reads the row.                                                             */
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
    const tiny_op_row *row;                 /* an operation that is not in the house's table; NULL: the row of kind */
} tiny_op;

/* Kinds stay what they are, whatever else is added or left out. Core and math count from 1 (math/ops.h), each header
 * above a base of its own (llm/ops.h, gnn/ops.h). Rows of your own have kind 0, or one from TINY_OP_BASE_YOURS on. */
enum { TINY_OP_BASE_LLM = 1000, TINY_OP_BASE_GNN = 2000, TINY_OP_BASE_YOURS = 10000 };

typedef struct tiny_cost { double flops, bytes; } tiny_cost;

/* How far a correct fast answer may be from the reference. u = 2^-24.
 *   EXACT    the same bits
 *   ULP      k ulp of the reference value, element by element, or k * 2^-149
 *   LINEAR   k * u * M, M the operation run on the absolute values of its inputs (the condition of a sum of products)
 *   NORM     k * u * max |reference| over the output row (last axis)
 *   SCALE    k * u * max |reference| over the whole output                  */
typedef enum tiny_bound_kind {
    TINY_BOUND_EXACT,
    TINY_BOUND_ULP,
    TINY_BOUND_LINEAR,
    TINY_BOUND_NORM,
    TINY_BOUND_SCALE
} tiny_bound_kind;
/* limit k + k_per_n * n, n = terms summed */
typedef struct tiny_bound { tiny_bound_kind kind; double k, k_per_n; } tiny_bound;

typedef struct tiny_case tiny_case;         /* core/conform.h */

/* The gradient of an operation: g knows dL/d(outputs) and takes dL/d(inputs). op has the inputs as they were and the
 * outputs as they came out. math/tape.h says how one is written and what it may call; it runs further operations and
 * computes nothing by itself that one of them could. NULL in a row: no gradient goes through (the tape says so when one
 * would have to). */
typedef struct tiny_grad tiny_grad;
typedef tiny_status (*tiny_grad_fn)(tiny_grad *g, const tiny_op *op);

struct tiny_op_row {
    const char *name;
    int kind;
    int n_in, n_in_needed, n_out;           /* n_in counts the optional ones too */
    size_t params_size;
    unsigned flags;                         /* TINY_OP_INPLACE ... */
    /* Checks inputs and params, fills dtype, rank, dim of want[0..n_out): what the outputs must be. */
    tiny_status (*shape)(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want);
    void (*ref)(const tiny_op *op);         /* plain scalar, any strides, same bits everywhere */
    void (*fast)(tiny_team *team, const tiny_op *op);   /* called by every thread of the team */
    void (*work)(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes);   /* NULL: none */
    void (*cost)(const tiny_op *op, tiny_cost *cost);
    void (*cases)(tiny_case *c);            /* shapes, params and fills of one generated case */
    tiny_bound bound;
    double (*terms)(const tiny_op *op);     /* n of the bound; NULL: 1 */
    tiny_grad_fn grad;                      /* NULL: none */
    const void *relevance;
    const short *kernels;                   /* slots it uses, ended by -1 */
    const char *formula;                    /* one line for the catalogue */
    const char *params_name;                /* "tiny_softmax_params"; NULL: no params, or a row that does not say */
};

enum {
    TINY_OP_INPLACE = 1,                    /* out[0] may be exactly in[0] */
    TINY_OP_INPLACE_1 = 2,                  /* out[0] may be exactly in[1] */
    TINY_OP_ACCUMULATES = 4,                /* out[0] is read too (its old content is an input) */
    /* fast shares all its work by tiny_take, as all in the house's table do: see thread.h */
    TINY_OP_LOOSE = 16,
    /* and its way depends on shapes and parameters alone, on nothing that it writes: helpers may come in at any
     * barrier */
    TINY_OP_LATE = 32,
    /* the shape rule and the reference take f64 for f32 too; the door sends f64 to the reference */
    TINY_OP_F64 = 8
};

/* Checks, then runs: accelerator, fast path or reference, as the context says. */
TINY_API tiny_status tiny_run(tiny_ctx *ctx, const tiny_op *op);
/* The same for a list, in one parallel region with a barrier after each. */
TINY_API tiny_status tiny_run_list(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);
/* The reference, whatever the context prefers. */
TINY_API tiny_status tiny_run_reference(tiny_ctx *ctx, const tiny_op *op);

/* The table: the rows of core and math, then those of the header whose function this is. In a unit with both
 * implementations the header that was included last knows the rows of both, and so do contexts that were opened by
 * it. */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_find(const char *name);      /* NULL when there is none */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_at(size_t i);                /* the i-th row; NULL past the end */
/* NULL too when it was left out of this program */
TINY_API TINYI_EACH const tiny_op_row *tiny_op_row_of(int kind);
TINY_API tiny_status tiny_op_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want);
TINY_API TINYI_EACH tiny_cost tiny_op_cost(const tiny_op *op);
TINY_API tiny_target tiny_op_target(const tiny_ctx *ctx, int kind); /* where its first kernel comes from */

/* For cases functions: a length that a kernel author would forget. 1, 2, 3, 7, 8, 9, 15 ... up to limit. */
TINY_API tiny_idx tiny_case_dim(tiny_case *c, tiny_idx limit);
TINY_API int tiny_case_pick(tiny_case *c, int n);           /* 0..n-1 */

TINYI_C_END
#endif
