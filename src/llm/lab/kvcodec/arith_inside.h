/* src/llm/lab/kvcodec/arith_inside.h - an arithmetic coder over static models: one stream of bits for the symbols of
 * one source
 *
 * A model of n symbols is a table of n + 1 cumulative values of 16 bits, strictly increasing from 0 to 65535: symbol s
 * has the slot from cdf[s] up to cdf[s + 1], the last one up to 65536. A stream may change its model from symbol to
 * symbol; the reader must know when. */
#ifndef TINYI_ARITH_H
#define TINYI_ARITH_H
#include "core/status.h"
TINYI_C_BEGIN

#define TINYI_ARITH_SYMBOLS 256             /* of a model, at most */

/* cdf[i] = floor((65535 - n) cum_i / total) + i: every symbol has a slot, those that were never counted too. Nothing
 * counted: equal slots. Counts sum to less than 2^48. */
TINYI_FN void tinyi_arith_table(uint16_t *cdf, const uint32_t *count, int n);
TINYI_FN int tinyi_arith_valid(const uint16_t *cdf, int n);

/* ---- plain: the formula bit by bit ---- */
/* Appends the bits of n symbols of one model to bytes that are all zero; at most room of them. Answers how many bytes
 * they take, which is more than room where they did not fit. symbol[i * step] of model cdf[i % period == 0 ? 0 : 1]. */
TINYI_FN size_t tinyi_arith_encode_ref(const uint16_t *const cdf[2], const int n_symbol[2], size_t period,
                                       const unsigned char *symbol, size_t step, size_t n, unsigned char *bytes,
                                       size_t room);
TINYI_FN void tinyi_arith_decode_ref(const uint16_t *const cdf[2], const int n_symbol[2], size_t period,
                                     unsigned char *symbol, size_t step, size_t n, const unsigned char *bytes,
                                     size_t n_bytes);

/* ---- fast: the same bits ---- */
/* bytes that n symbols take at most: a symbol narrows the bounds to a part of 2^-16, less what rounding takes */
TINYI_INLINE size_t tinyi_arith_most(size_t n) { return 2 * n + n / 1024 + 8; }
TINYI_FN size_t tinyi_arith_encode(const uint16_t *const cdf[2], size_t period, const unsigned char *symbol,
                                   size_t step, size_t n, unsigned char *bytes);

typedef struct tinyi_arith_model {
    uint32_t slot[TINYI_ARITH_SYMBOLS + 1]; /* the table, and 65536 at its end */
    unsigned char first[256];               /* the symbol in whose slot 256 j lies */
} tinyi_arith_model;
TINYI_FN void tinyi_arith_model_set(tinyi_arith_model *m, const uint16_t *cdf, int n);

#define TINYI_ARITH_LANES 8 /* streams that are read side by side: one's division hides behind the others' */
typedef struct tinyi_arith_in {
    const unsigned char *bytes;
    size_t n_bytes;
    const tinyi_arith_model *model[2];
    uint32_t low, range, at;                /* range: high - low; at: value - low, never above range */
    size_t bit;                             /* of the stream, the next one to come into value */
} tinyi_arith_in;
/* n symbols of each of n_in streams, n_in <= TINYI_ARITH_LANES: symbol[i * step + j] from in[j], whose bytes and models
 * are set. Bits after the end of a stream are zeros. Any bytes give symbols of the models. */
TINYI_FN void tinyi_arith_decode(tinyi_arith_in *in, int n_in, size_t period, unsigned char *symbol, size_t step,
                                 size_t n);

TINYI_C_END
#endif
