/* src/core/conform.h - the conformance kit: checks a back end against the reference
 *
 * For each row of the table the kit makes cases: lengths of 1, odd ones, lengths around vector widths, large ones;
 * strides; alignments; special values. It runs the reference and the candidate on each case and compares the results
 * within the bound of the row. */
#ifndef TINYI_CONFORM_H
#define TINYI_CONFORM_H
#include "core/accel.h"
TINYI_C_BEGIN

/* How an input of a case is filled. Integer types: NORMAL draws from the whole range of 8 bits, else -1000..1000. */
typedef enum tiny_fill {
    /* N(0, 1); about every fourth case also has special values, unless the row forbids it */
    TINY_FILL_NORMAL,
    TINY_FILL_POSITIVE,     /* uniform in (0.1, 2); never special values */
    TINY_FILL_INDEX,        /* integers 0..limit-1 */
    TINY_FILL_ANY,          /* any bits of the type except NaN: for conversions and moves */
    /* normal times 2^(-20..20), 2^(-8..8) for f16, and special values: for functions of one argument */
    TINY_FILL_WIDE,
    TINY_FILL_TABLE         /* the fill function of the case */
} tiny_fill;

typedef union tiny_case_params {
    unsigned char bytes[TINY_OP_MAX_PARAMS];
    double align;
    void *align_p;
} tiny_case_params;

struct tiny_case {          /* the row's cases function sets the members above the line; they start as zero */
    tiny_tensor in[TINY_OP_MAX_IN];         /* dtype, rank, dims; rank -1: this optional input is not given */
    tiny_fill fill[TINY_OP_MAX_IN];
    tiny_idx limit[TINY_OP_MAX_IN];
    int dense[TINY_OP_MAX_IN];              /* nonzero: the kit must not give this input gaps or odd strides */
    /* nonzero: no inf, NaN, denormals or outliers in this case; zeros still occur */
    int no_specials;
    int no_denormals;                       /* nonzero: no case of denormals only (tile units flush bf16 ones) */
    void (*fill_table)(tiny_case *c, int i_input, void *data);  /* for TINY_FILL_TABLE: dense data of in[i] */
    tiny_case_params params;
    /* For a LINEAR bound: the params of the run on absolute values, if the plain ones give no magnitude (a negative
     * factor, an activation that saturates). Used if has_magnitude_params is not 0. */
    int has_magnitude_params;
    tiny_case_params magnitude_params;
    /* ---- set by the kit before the call */
    tiny_rng rng;                           /* draw from this one only */
    int index;                              /* number of the case; make case 0 the smallest */
};

typedef struct tiny_conform_row {
    const tiny_op_row *row;
    /* n_declined: cases that the back end left to the processor; n_cases does not count them */
    int n_cases, n_failed, n_declined;
    /* in ulp of the reference value; large where sums cancel, which a LINEAR bound allows */
    double worst_ulp;
    double worst_nmse;                      /* sum of squared errors / sum of squared references, of the worst case */
    double worst_of_bound;                  /* largest error / allowed error: above 1 is a failure */
    char first_failure[512];                /* a command line and the difference; "" if nothing failed */
} tiny_conform_row;

typedef struct tiny_conform_desc {
    const char *op;                         /* NULL: every row */
    /* rows of your own instead of the table, ended by NULL; may be NULL */
    const tiny_op_row *const *rows;
    int n_cases;                            /* of each row; 0: 40 */
    uint64_t seed;
    int only_case;                          /* 0: all; k: only the k-th, counted from 1 */
    int include_declined;                   /* nonzero: cases that the back end declines count too */
    void (*row)(void *user, const tiny_conform_row *row);   /* called after each row; may be NULL */
    /* called with the reference's result of each case; may be NULL */
    void (*answer)(void *user, const tiny_op_row *row, const tiny_op *op);
    void *user;
} tiny_conform_desc;

/* The candidate is the context: its target, threads and accelerator. *n_failed counts failed cases; desc may be NULL.
 * The status only says whether the kit could run: it reports lack of memory, a cancel, or an unknown operation.
 *
 * Besides the bound of the row, a case requires:
 *   - NaN where the reference has NaN, and infinity of the same sign where it has infinity. Infinity counts as the
 *     neighbour of the largest finite number. If the absolute sums of a LINEAR row overflow although no input is
 *     infinite, any result passes.
 *   - denormals that are not flushed: the absolute part of every bound is k * the smallest denormal;
 *   - equal integers. A 16-bit float output of a LINEAR, NORM or SCALE row may be off by one more ulp of its own type.
 *     A 64-bit output has u = 2^-53.
 *   - unchanged inputs, and no write outside the outputs or into the gaps between their strides;
 *   - the same result in place, where the row allows that, and with inputs uploaded and outputs left on the device,
 *     where the back end can.
 * The reference computes on dense copies. The candidate gets gaps and transposed, repeated and reversed axes. */
TINY_API tiny_status tiny_conform(tiny_ctx *ctx, const tiny_conform_desc *desc, int *n_failed);

TINYI_C_END
#endif
