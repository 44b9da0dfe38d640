/* src/llm/lab/bitweight/bitweight.h - products of int8 matrices digit by digit, as bit-serial arrays of processing
 * elements (PEs) compute them, and their cycles
 *
 *   tllm_bw_design d;
 *   tllm_bw_design_of(ctx, "opt4c", &d);                        or "mac", and tllm_bw_transform(ctx, &d, TLLM_BW_OPT1)
 *   tllm_bw_text(&d, text, sizeof text);                        its loops
 *   tllm_bw_gemm(ctx, &d, &a, &b, &c, &stats);                  C = A B by digits and carry-save adders; counts every
 *                                                               step
 *   tllm_bw_cycles(ctx, &d, &a, n, &stats);                     the same counts without C: for whole models
 *
 * C[m][n] = sum over k and over bw = 0 .. 3 of map(digit bw of A[m][k], B[k][n]) << 2 bw. A design is a nest of loops
 * over m, n, k and bw in some order. Each loop is parallel (over PEs, or lanes of a PE) or runs in time. The design
 * also says how many loops enclose each primitive:
 *
 *   encode       A[m][k] becomes four digits -2 .. 2                 half_reduce  3:2 compressions into a pair (S, C)
 *                                                                    of words
 *   map          a digit selects -2B, -B, 0, B or 2B                 add          S + C, with carries through all bits
 *   shift        by 2 bw bits: before the sum over k, or after it    accumulate   the registers that hold the sums
 *   sync         the lanes wait for each other
 *
 * A primitive runs once for each iteration of the loops around it. If its operands also depend on an inner index, it
 * runs for each value of that index. An encoder outside the loop over n thus serves all n. The nest gives the number of
 * cycles: the iterations of a loop in time add up, and a parallel loop takes as long as its longest iteration. A sparse
 * loop over bw has one step for each digit that is not 0. */
#ifndef TINYI_BITWEIGHT_H
#define TINYI_BITWEIGHT_H
#include "core/op.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

/* ---- digits: sum of digit[i] 4^i is the value */

/* BOOTH: digits from three neighbouring bits. ENT: from the magnitude, with a carry, negated for negative values. BITS:
 * the bits of the magnitude, for statistics only. */
enum { TLLM_BW_BOOTH, TLLM_BW_ENT, TLLM_BW_BITS, TLLM_BW_ENCODERS };
#define TLLM_BW_DIGITS 4
TINY_API const char *tllm_bw_encoder_name(int encoder);    /* "Booth"; NULL: unknown */
TINY_API void tllm_bw_encode(int encoder, int8_t value, int8_t digit[TLLM_BW_DIGITS]);   /* BOOTH or ENT */
/* The wires of a digit. Bit 2 is enable. Bits 1 and 0 give the multiple: 0 for -2B, 1 for B, 2 for 2B, 3 for -B.
 * Returns 0 for digits outside -2 .. 2. */
TINY_API int tllm_bw_select(int digit);
/* 3:2 compression of words of width bits: out[0] + out[1] = in[0] + in[1] + in[2] modulo 2^width */
TINY_API void tllm_bw_compress(const uint32_t in[3], int width, uint32_t out[2]);

/* Adds the number of occurrences of each byte of w to count; the index is the value modulo 256. */
TINY_API tiny_status tllm_bw_count(tiny_ctx *ctx, const int8_t *w, size_t n, uint64_t count[256]);
/* Converts rows of k weights in a format of llm/block/format.h, dense, to int8: scale max|w| / 127 for each row, w /
 * scale rounded to nearest, ties to even. Adds their occurrences to count, as tllm_bw_count does. codes (rows, k) may
 * be NULL. A weight that is not finite gives TINY_E_NUMERIC. */
TINY_API tiny_status tllm_bw_count_rows(tiny_ctx *ctx, int format, const void *w, tiny_idx rows, tiny_idx k,
                                        uint64_t count[256], int8_t *codes);

typedef struct tllm_bw_digits {
    uint64_t n;                             /* values */
    uint64_t nonzero[9];                    /* values by their number of digits that are not 0 */
    uint64_t digit[5];                      /* digits -2 .. 2; unused for BITS */
    /* mean number of digits that are not 0; the same mean if a value of 0 counts as one digit */
    double mean, mean_slot;
} tllm_bw_digits;
TINY_API tiny_status tllm_bw_digits_of(tiny_ctx *ctx, int encoder, const uint64_t count[256], tllm_bw_digits *digits);

/* ---- designs */

enum { TLLM_BW_M, TLLM_BW_N, TLLM_BW_K, TLLM_BW_BW, TLLM_BW_DIMS };
enum {
    TLLM_BW_ENCODE,
    TLLM_BW_MAP,
    TLLM_BW_SHIFT,
    TLLM_BW_HALF_REDUCE,
    TLLM_BW_ADD,
    TLLM_BW_ACCUMULATE,
    TLLM_BW_SYNC,
    TLLM_BW_PRIMITIVES
};
#define TLLM_BW_LOOPS 8
#define TLLM_BW_WIDEST 65536                /* largest size of a parallel loop */

typedef struct tllm_bw_loop {
    int dim;                                /* TLLM_BW_M ... */
    tiny_idx size;                          /* parallel: iterations; in time: 0, as many as needed; bw: 4 */
    int parallel, sparse;                   /* sparse: bw in time, only over digits that are not 0 */
} tllm_bw_loop;

typedef struct tllm_bw_design {
    /* the outermost first: m, n and k in time once each, parallel at most once each, bw once */
    tllm_bw_loop loop[TLLM_BW_LOOPS];
    int n_loops;
    int place[TLLM_BW_PRIMITIVES];          /* number of enclosing loops; sync -1: no sync */
    int encoder;
    int width;                              /* bits of a sum, 16 to 32; 0: 32 */
    int zero_slot;                          /* nonzero, sparse: a value of 0 takes one cycle */
    int pipeline;                           /* extra cycles of a tile, to fill and drain */
    int audit;                              /* nonzero: checks each compression by a plain addition: stats.broken */
} tllm_bw_design;

/* OPT1: add moves out of the loop over k; sums stay (S, C). OPT2: bw moves out of k; products of the same bw are
 * summed unshifted in narrow words. OPT3: bw runs in time over digits that are not 0. OPT4: the encoder moves out of
 * the loop over n. GROUP: lanes of k, each with an encoder, share the registers of a PE. SYNC_K: lanes wait at every
 * k, not at the end of a tile. */
enum { TLLM_BW_OPT1, TLLM_BW_OPT2, TLLM_BW_OPT3, TLLM_BW_OPT4, TLLM_BW_GROUP, TLLM_BW_SYNC_K, TLLM_BW_TRANSFORMS };
/* size: lanes of GROUP. Fails if the transformation does not apply to the nest; the design is then unchanged. */
TINY_API tiny_status tllm_bw_transform(tiny_ctx *ctx, tllm_bw_design *design, int transform, tiny_idx size);
/* Fails for designs that cannot be built, and with k > 0 if the accumulator cannot hold sums of k products. */
TINY_API tiny_status tllm_bw_check(tiny_ctx *ctx, const tllm_bw_design *design, tiny_idx k);
/* Writes the nest as text: at most n_bytes, always with a final 0. Returns the bytes needed. "": an invalid design. */
TINY_API size_t tllm_bw_text(const tllm_bw_design *design, char *text, size_t n_bytes);

/* Named designs, with the results of the authors' synthesis (32 nm, typical corner, 0.85 V). */
typedef struct tllm_bw_unit {
    const char *name, *what;
    double mm2, mhz;                        /* at the highest frequency; 0: not published */
    int wires;                              /* nonzero: the area includes wires; 0: cells only */
} tllm_bw_unit;
TINY_API const tllm_bw_unit *tllm_bw_unit_at(size_t i);    /* row i of the table; NULL after the last */
TINY_API tiny_status tllm_bw_design_of(tiny_ctx *ctx, const char *name, tllm_bw_design *design);
/* The operations (two per product) per second, and per second and mm2, for these products and cycles; 0 if the unit has
 * no published figures. */
TINY_API void tllm_bw_rate(const tllm_bw_unit *unit, double products, double cycles, double *per_second,
                           double *per_mm2);

/* ---- the run */

typedef struct tllm_bw_stats {
    uint64_t cycles;
    uint64_t encodes, shifts;
    uint64_t maps[5];                       /* by digit, -2 .. 2 */
    uint64_t compressions, compressed_bits; /* 3:2, and the bits of their words */
    uint64_t adds, narrow_adds;             /* additions of whole sums; of the narrow sums of one bw (OPT2) */
    /* PEs times lanes of k; cycles in which a lane had no digit to map */
    uint64_t lanes, bubbles;
    uint64_t register_bits;                 /* of the accumulators of the array */
    uint64_t broken;                        /* compressions that failed the audit */
} tllm_bw_stats;

/* a (m, k) i8, b (k, n) i8, c (m, n) i32, any strides; c must not overlap a or b. stats may be NULL. c is the signed
 * product modulo 2^width. A design whose accumulator cannot hold sums of k products is refused. A context with the
 * target REFERENCE runs the nest loop by loop. Other contexts compute the same numbers and counts by rows of PEs. */
TINY_API tiny_status tllm_bw_gemm(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a,
                                  const tiny_tensor *b, const tiny_tensor *c, tllm_bw_stats *stats);
/* The counts of tllm_bw_gemm for a b of n columns, without computing C. */
TINY_API tiny_status tllm_bw_cycles(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a, tiny_idx n,
                                    tllm_bw_stats *stats);

TINYI_C_END
#endif
