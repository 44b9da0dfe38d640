/* src/core/conform.h - the conformance kit: is this back end right?
 *
 * Walks the table of operations, makes cases (shapes 1, odd, around vector widths, large; strides; alignment; special
 * values), runs the reference and the candidate, and compares within the bound of the row.                          */
#ifndef TINYI_CONFORM_H
#define TINYI_CONFORM_H
#include "core/accel.h"
TINYI_C_BEGIN

/* How an input of a case is filled. Integer types: NORMAL draws from the whole range of 8 bits, else -1000..1000. */
typedef enum tiny_fill {
    /* N(0, 1); about every fourth case has special values strewn in unless the row forbids it */
    TINY_FILL_NORMAL,
    TINY_FILL_POSITIVE,     /* uniform in (0.1, 2); never special values */
    TINY_FILL_INDEX,        /* integers 0..limit-1 */
    TINY_FILL_ANY,          /* any bits of the type that are no NaN: for conversions and moves */
    /* normal times 2^(-20..20), 2^(-8..8) for f16: for functions of one argument; special values too */
    TINY_FILL_WIDE,
    TINY_FILL_TABLE         /* the case's own fill function does it */
} tiny_fill;

typedef union tiny_case_params {
    unsigned char bytes[TINY_OP_MAX_PARAMS];
    double align;
    void *align_p;
} tiny_case_params;

struct tiny_case {          /* the row's cases function sets what stands above the line; it gets all zero */
    tiny_tensor in[TINY_OP_MAX_IN];         /* dtype, rank, dims; rank -1: this optional input is left out */
    tiny_fill fill[TINY_OP_MAX_IN];
    tiny_idx limit[TINY_OP_MAX_IN];
    int dense[TINY_OP_MAX_IN];              /* nonzero: the kit must not give this input gaps or odd strides */
    /* nonzero: no inf, NaN, denormals or outliers in this case; zeros come still */
    int no_specials;
    int no_denormals;                       /* nonzero: no case of nothing but denormals (tile units flush bf16 ones) */
    void (*fill_table)(tiny_case *c, int i_input, void *data);  /* for TINY_FILL_TABLE: dense data of in[i] */
    tiny_case_params params;
    /* For a LINEAR bound: params of the run on absolute values, where the plain ones would give no magnitude
     * (a negative factor, an activation that saturates). Used when has_magnitude_params is not 0. */
    int has_magnitude_params;
    tiny_case_params magnitude_params;
    /* ---- set by the kit before */
    tiny_rng rng;                           /* draw from this only */
    int index;                              /* number of the case: 0 should be the smallest */
};

typedef struct tiny_conform_row {
    const tiny_op_row *row;
    /* declined: the back end left it to the processor, not counted in n_cases */
    int n_cases, n_failed, n_declined;
    /* of the reference value; large where sums cancel, which a LINEAR bound allows for */
    double worst_ulp;
    double worst_nmse;                      /* sum of squared errors / sum of squared references, of the worst case */
    double worst_of_bound;                  /* largest error / allowed error: above 1 is a failure */
    char first_failure[512];                /* a command line and what differed; "" when none */
} tiny_conform_row;

typedef struct tiny_conform_desc {
    const char *op;                         /* NULL: every row */
    /* rows of your own, ended by NULL, instead of the house's table; may be NULL */
    const tiny_op_row *const *rows;
    int n_cases;                            /* 0: 40 */
    uint64_t seed;
    int only_case;                          /* 0: all; k: only the k-th, counted from 1 */
    int include_declined;                   /* nonzero: cases that the back end declines count as cases too */
    void (*row)(void *user, const tiny_conform_row *row);   /* called after each row; may be NULL */
    /* called with the reference's answer of each case; may be NULL */
    void (*answer)(void *user, const tiny_op_row *row, const tiny_op *op);
    void *user;
} tiny_conform_desc;

/* The candidate is the context: its target, threads and accelerator. *n_failed counts failed cases; desc may be NULL.
 * The status tells whether the kit could do its work, not whether the candidate is right: memory, cancel, no such op.
 *
 * What a case demands, besides the bound of the row:
 *   - NaN where the reference has NaN, infinity of the same sign where it has infinity (one step beyond the largest
 *     finite number counts as that number's neighbour); anything where the absolute sums of a LINEAR row overflow
 *     although no input is infinite;
 *   - denormals are not flushed: the absolute part of every bound is k * the smallest denormal;
 *   - integers agree exactly; a 16-bit float output of a LINEAR, NORM or SCALE row may be one of its own ulp further;
 *     a 64-bit one has u = 2^-53;
 *   - inputs are left as they were, and nothing is written outside the outputs or into the gaps of their strides;
 *   - the same in place where the row allows it, and with inputs uploaded and outputs left on the device where the
 *     back end can.
 * The reference computes on dense copies; the candidate gets gaps, transposed, repeated and reversed axes. */
TINY_API tiny_status tiny_conform(tiny_ctx *ctx, const tiny_conform_desc *desc, int *n_failed);

TINYI_C_END
#endif
