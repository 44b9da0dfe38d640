/* src/llm/lab/bitweight/bitweight.h - products of int8 matrices digit by digit, as arrays of processing elements (PEs)
 * compute them, and their cycles
 *
 *   tllm_bw_design d;
 *   tllm_bw_design_of(ctx, "opt4c", &d);                        or "mac", and tllm_bw_transform(ctx, &d, TLLM_BW_OPT1)
 *   tllm_bw_text(&d, text, sizeof text);                        its loops
 *   tllm_bw_gemm(ctx, &d, &a, &b, &c, &stats);                  C = A B through digits and carry-save adders, every
 *                                                               step counted
 *   tllm_bw_cycles(ctx, &d, &a, n, &stats);                     the same counts without C: for whole models
 *
 * C[m][n] = sum over k and over bw = 0 .. 3 of map(digit bw of A[m][k], B[k][n]) << 2 bw. A design is the order of the
 * loops over m, n, k and bw, which of them run side by side (parallel: so many PEs, or lanes of one) and which one
 * after the other (in time), and how many loops stand around each primitive:
 *
 *   encode       A[m][k] becomes four digits -2 .. 2                 half_reduce  3:2 compressions into a pair (S, C)
 *                                                                    of words
 *   map          a digit selects -2B, -B, 0, B or 2B                 add          S + C, with the carry going through
 *                                                                                 all bits
 *   shift        by 2 bw bits: before the sum over k, or after it    accumulate   where the registers of the sum are
 *   sync         the lanes wait for each other
 *
 * A primitive runs once for each turn of the loops around it, and once for each index further inside that its operands
 * depend on: an encoder that stands outside of the loop over n serves all n. Time is what the nest says: loops in time
 * add up, parallel ones take as long as the longest; a sparse loop over bw has one step for each digit that is not
 * 0. */
#ifndef TINYI_BITWEIGHT_H
#define TINYI_BITWEIGHT_H
#include "core/op.h"
#include "llm/block/format.h"
TINYI_C_BEGIN

/* ---- digits: sum of digit[i] 4^i is the value */

/* BOOTH: digits from three neighbouring bits. ENT: from the magnitude, with a carry, negated for negative values. BITS:
 * the magnitude's bits, for statistics only. */
enum { TLLM_BW_BOOTH, TLLM_BW_ENT, TLLM_BW_BITS, TLLM_BW_ENCODERS };
#define TLLM_BW_DIGITS 4
TINY_API const char *tllm_bw_encoder_name(int encoder);    /* "Booth"; NULL for an unknown one */
TINY_API void tllm_bw_encode(int encoder, int8_t value, int8_t digit[TLLM_BW_DIGITS]);   /* BOOTH or ENT */
/* The wires of a digit: bit 2 enable, bits 1 and 0 which of 0: -2B, 1: B, 2: 2B, 3: -B. Any other digit than -2 .. 2:
 * 0. */
TINY_API int tllm_bw_select(int digit);
/* 3:2 compression of words of width bits: out[0] + out[1] = in[0] + in[1] + in[2] modulo 2^width */
TINY_API void tllm_bw_compress(const uint32_t in[3], int width, uint32_t out[2]);

/* How often each byte stands in w; added to count, whose index is the value modulo 256. */
TINY_API tiny_status tllm_bw_count(tiny_ctx *ctx, const int8_t *w, size_t n, uint64_t count[256]);
/* Rows of k weights in a format of llm/block/format.h, dense, to int8: scale max|w| / 127 for each row, w / scale
 * rounded to the nearest, ties to even. Counts are added; codes (rows, k) may be NULL. A weight that is not finite:
 * TINY_E_NUMERIC. */
TINY_API tiny_status tllm_bw_count_rows(tiny_ctx *ctx, int format, const void *w, tiny_idx rows, tiny_idx k,
                                        uint64_t count[256], int8_t *codes);

typedef struct tllm_bw_digits {
    uint64_t n;                             /* values */
    uint64_t nonzero[9];                    /* values with so many digits that are not 0 */
    uint64_t digit[5];                      /* digits -2 .. 2; of BITS none */
    /* digits that are not 0 for each value; and where a value of 0 takes one, too */
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
#define TLLM_BW_WIDEST 65536                /* of a parallel loop */

typedef struct tllm_bw_loop {
    int dim;                                /* TLLM_BW_M ... */
    tiny_idx size;                          /* parallel: how many; in time: 0, as many as it takes; bw: 4 */
    int parallel, sparse;                   /* sparse: bw in time, over the digits that are not 0 */
} tllm_bw_loop;

typedef struct tllm_bw_design {
    /* the outermost first: m, n and k in time once each, parallel at most once each, bw once */
    tllm_bw_loop loop[TLLM_BW_LOOPS];
    int n_loops;
    int place[TLLM_BW_PRIMITIVES];          /* how many loops stand around it; sync -1: none */
    int encoder;
    int width;                              /* bits of a sum, 16 to 32; 0: 32 */
    int zero_slot;                          /* sparse: a value of 0 takes one cycle all the same */
    int pipeline;                           /* cycles that a tile takes longer than its steps, to fill and drain */
    int audit;                              /* each compression is compared with a plain addition: stats.broken */
} tllm_bw_design;

/* OPT1: add moves out of the loop over k, sums stay (S, C). OPT2: bw moves out of k, so that products of the same
 * weight are summed unshifted in narrow words. OPT3: bw runs in time over digits that are not 0. OPT4: the encoder
 * moves out of the loop over n. GROUP: lanes of k, each with an encoder, share the registers of a PE. SYNC: lanes wait
 * at every k, not at the end of a tile. */
enum { TLLM_BW_OPT1, TLLM_BW_OPT2, TLLM_BW_OPT3, TLLM_BW_OPT4, TLLM_BW_GROUP, TLLM_BW_SYNC_K, TLLM_BW_TRANSFORMS };
/* size: lanes of GROUP. What does not apply to the nest is refused, and the design stays as it was. */
TINY_API tiny_status tllm_bw_transform(tiny_ctx *ctx, tllm_bw_design *design, int transform, tiny_idx size);
/* Refuses what cannot be built, and with k > 0 sums of k products that the accumulator cannot hold. */
TINY_API tiny_status tllm_bw_check(tiny_ctx *ctx, const tllm_bw_design *design, tiny_idx k);
/* The nest as text. Returns the bytes it needs with the final 0; writes at most n_bytes, always ended. "": a design
 * that check refuses. */
TINY_API size_t tllm_bw_text(const tllm_bw_design *design, char *text, size_t n_bytes);

/* Designs with a name, and what the authors' synthesis (32 nm, typical corner, 0.85 V) says of them. */
typedef struct tllm_bw_unit {
    const char *name, *what;
    double mm2, mhz;                        /* at the highest frequency; 0: not published */
    int wires;                              /* the area has the wires in it; otherwise cells alone */
} tllm_bw_unit;
TINY_API const tllm_bw_unit *tllm_bw_unit_at(size_t i);    /* all of them in turn; NULL after the last */
TINY_API tiny_status tllm_bw_design_of(tiny_ctx *ctx, const char *name, tllm_bw_design *design);
/* What so many products in so many cycles are: operations (two a product) a second, and a second on each mm2; 0 where
 * nothing is published. */
TINY_API void tllm_bw_rate(const tllm_bw_unit *unit, double products, double cycles, double *per_second,
                           double *per_mm2);

/* ---- the run */

typedef struct tllm_bw_stats {
    uint64_t cycles;
    uint64_t encodes, shifts;
    uint64_t maps[5];                       /* of digits -2 .. 2 */
    uint64_t compressions, compressed_bits; /* 3:2, and the bits of their words */
    uint64_t adds, narrow_adds;             /* with carries through a whole sum; through the sum of one weight (OPT2) */
    /* PEs times lanes of k; cycles times lanes in which one had no product to map */
    uint64_t lanes, bubbles;
    uint64_t register_bits;                 /* of the accumulators of the array */
    uint64_t broken;                        /* compressions, under audit, whose sum was another */
} tllm_bw_stats;

/* a (m, k) i8, b (k, n) i8, c (m, n) i32, any strides, c elsewhere. stats may be NULL. c is the product modulo 2^width,
 * with its sign: the accumulator is checked beforehand. A context whose target is REFERENCE walks through the nest loop
 * by loop; the others compute the same numbers and counts by rows of PEs. */
TINY_API tiny_status tllm_bw_gemm(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a,
                                  const tiny_tensor *b, const tiny_tensor *c, tllm_bw_stats *stats);
/* What tllm_bw_gemm will count for n columns of b. */
TINY_API tiny_status tllm_bw_cycles(tiny_ctx *ctx, const tllm_bw_design *design, const tiny_tensor *a, tiny_idx n,
                                    tllm_bw_stats *stats);

TINYI_C_END
#endif
