/* src/llm/lab/vptq/vptq.h - VPTQ: weights of 1 to 4 bits, coded as vectors of a code book, with rounding errors
 * compensated as in GPTQ
 *
 *   tllm_vptq_desc d = { 0 };                               vectors of 8, a book of 256: about 1 bit a weight
 *   d.v = 6; d.k = 4096;                                    2 bits
 *   tllm_vptq q;
 *   tllm_vptq_quantize(ctx, &d, w, rows, n, &h, &q, &about);       h: the products of the inputs, llm/round/calib.h
 *   tllm_vptq_matmul(ctx, &x, &q, &y);                      y (tokens, rows) = x (tokens, n) w'^T
 *   tllm_vptq_save(ctx, &q, "down.vptq");                   q.bytes, q.n_bytes: the same as one block of memory
 *   tllm_vptq_close(ctx, &q);
 *
 * A vector is the weights of v neighbouring outputs for one input: w[m .. m+v-1][i]. Inputs are coded one after the
 * other. Each vector becomes the nearest vector of a book, or the sum of two (the residual is coded with a second
 * book), and the error is compensated in later inputs. Books are halves (f16), made by k-means weighted by the diagonal
 * of h. If v does not divide the rows, they are padded with zeros.
 *
 * Bits per weight: log2(k) / v + log2(k2) / v, each logarithm rounded up, plus 16 v (k + k2) groups / (rows n) for the
 * books, plus the side data: tllm_vptq_rate computes it. */
#ifndef TINYI_VPTQ_H
#define TINYI_VPTQ_H
#include "core/op.h"
#include "llm/lab/vptq/kmeans.h"
TINYI_C_BEGIN

#define TLLM_VPTQ_MOST_V 16

typedef struct tllm_vptq_desc {             /* all zero: the value in brackets */
    int v;                                  /* outputs of a vector, 1 to 16 [8] */
    /* vectors of the book, at least 2 [256]; vectors of the second book [0: no second book] */
    tiny_idx k, k2;
    int v0;                                 /* v of the outlier inputs [v] */
    tiny_idx k0;                            /* k of the outlier inputs [k] */
    /* percentage of the inputs that are outliers and have their own book: the first ones in coding order [0] */
    float outliers;
    /* groups of the other inputs, each with its own books [1]; inputs that do not fill a group are outliers too */
    tiny_idx groups;
    /* nonzero: inputs are coded in the order of the matrix [0: the largest diagonal of h first] */
    int in_order;
    /* nonzero: each input is shifted and scaled to 0 .. 1 before coding; costs 32 bits per input [0] */
    int normalize;
    float damp;                             /* share of the mean diagonal that is added to the diagonal [0.01] */
    tiny_idx block;                         /* inputs whose errors are propagated together [128] */
    int iters;                              /* of k-means: tllm_kmeans_desc */
    double tol;
    uint64_t seed;
    tiny_idx sample;
    /* given books, rounded to halves: (groups, k, v), (groups, k2, v), (k0, v0) [NULL: made by k-means] */
    const float *book, *book2, *book0;
} tllm_vptq_desc;

typedef struct tllm_vptq_about {
    /* tr((W - W') (h + damping) (W - W')^T); if rounded is set, the plain squared error */
    double loss;
    double damp;                            /* share that was used */
    int doubled;                            /* how often damp was doubled until h was positive definite */
    int rounded;                            /* nonzero: it never was; errors were not compensated */
    /* inputs that were always 0; their weights became 0 before coding */
    tiny_idx dead;
    tiny_idx clamped;                       /* numbers of books beyond 65504, clamped to it */
} tllm_vptq_about;

typedef struct tllm_vptq {                  /* a view of the bytes, which contain everything */
    tiny_idx rows, n;
    tiny_idx v, k, k2, groups;
    tiny_idx v0, k0, outliers;              /* outliers: number of outlier inputs; 0: v0 and k0 are 0 */
    int permuted, normalized;               /* nonzero: the bytes have an order of inputs; scales and biases */
    const unsigned char *bytes;
    size_t n_bytes;
    void *block;                            /* memory of the context; NULL: the caller owns the bytes */
} tllm_vptq;

/* w (rows, n) dense; h (n, n) f32 or f64, any strides, only i <= j is read; about may be NULL. Refused: weights or h
 * with a NaN or an infinity, weights above 65504, a diagonal below 0, a book with more vectors than are to be coded.
 * After a failure out is all zero. */
TINY_API tiny_status tllm_vptq_quantize(tiny_ctx *ctx, const tllm_vptq_desc *desc, const float *w, tiny_idx rows,
                                        tiny_idx n, const tiny_tensor *h, tllm_vptq *out, tllm_vptq_about *about);
/* A matrix of the same sizes with random books and codes: for measurements and tests. */
TINY_API tiny_status tllm_vptq_random(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n,
                                      uint64_t seed, tllm_vptq *out);
/* Bits per weight by the formula, and bytes in total; both may be NULL. */
TINY_API tiny_status tllm_vptq_rate(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n, double *bits,
                                    size_t *bytes);

/* Opens bytes that must stay valid; nothing is copied. Everything is checked: sizes, checksum, every code, every number
 * of a book. The bytes are:
 *   "TINYVPQ\0", u32 version 1, u32 flags (1: permuted, 2: normalized), u64 rows, n, u32 v, k, k2, groups, v0, k0, u64
 *   outliers, u64 bytes in total, u64 0; then if permuted the input of each place, u16 or, from 65537 inputs on, u32;
 *   if normalized n scales, n biases, f16; padded to a multiple of 4; codes of the outlier inputs and of each group:
 *   row of vectors by row, each code (c2 << bits(k)) | c1, lowest bits first, each row padded to 32 bits; books as f16:
 *   of the outliers, then of each group the first and the second; padded to a multiple of 4; u32 0; a CRC-32 of
 *   everything before it.
 * All little-endian. The encoding of a matrix is unique. A file is a box "vptq 2" (core/box/checkpoint.h reads it too)
 * with these bytes as its body; open and load accept both, and older files without a box. */
TINY_API tiny_status tllm_vptq_open(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_vptq *out);
TINY_API tiny_status tllm_vptq_load(tiny_ctx *ctx, const char *path, tllm_vptq *out);       /* copies */
TINY_API tiny_status tllm_vptq_save(tiny_ctx *ctx, const tllm_vptq *q, const char *path);
/* q may be NULL, or zero after a failure */
TINY_API void tllm_vptq_close(tiny_ctx *ctx, tllm_vptq *q);

/* to (rows, n), ld apart: rows row0 .. row0 + rows - 1 of w', inputs in the original order */
TINY_API tiny_status tllm_vptq_expand(tiny_ctx *ctx, const tllm_vptq *q, tiny_idx row0, tiny_idx rows, float *to,
                                      tiny_idx ld);
/* The code of the vector of output `row` of an input; UINT32_MAX: out of range. One code per call: slow. */
TINY_API uint32_t tllm_vptq_code(const tllm_vptq *q, tiny_idx row, tiny_idx input);
/* Writes a book as floats and returns its length; to NULL: only the length. group -1: the outliers; second: 0 or 1. */
TINY_API size_t tllm_vptq_book(const tllm_vptq *q, tiny_idx group, int second, float *to);

/* ---- the product ---- */

/* Forms of the product; C is the book:
 *   GATHER     for each code y[vector] += x C[code]
 *   BUCKET     for each row of vectors a[code] += x, then y[vector] = sum of a[c] C[c]: for books much smaller than a
 *              row
 *   EXPAND     tiles become floats in the first-level cache for the dense kernel: for many rows of x */
typedef enum tllm_vptq_form {
    TLLM_VPTQ_AUTO,
    TLLM_VPTQ_GATHER,
    TLLM_VPTQ_BUCKET,
    TLLM_VPTQ_EXPAND,
    TLLM_VPTQ_FORMS
} tllm_vptq_form;

/* x (tokens, n), y (tokens, rows) f32, any strides. Equal calls give equal bits for any number of threads. */
TINY_API tiny_status tllm_vptq_matmul(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, const tiny_tensor *y);
TINY_API tiny_status tllm_vptq_matmul_as(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, tllm_vptq_form form,
                                         const tiny_tensor *y);
/* the form that AUTO chooses */
TINY_API tllm_vptq_form tllm_vptq_form_of(const tiny_ctx *ctx, const tllm_vptq *q, tiny_idx tokens);

/* The row of the operation. Inputs: x (tokens, n) f32; the bytes, dense u8. Each call checks sizes and the order of
 * inputs, but not codes: a code outside its codebook is treated as a zero vector, and no memory is accessed out of
 * bounds. */
typedef struct tllm_vptq_params {
    tiny_idx rows;
    int form;
    /* nonzero: the reference adds absolute values, for its error bound */
    int magnitude;
} tllm_vptq_params;
TINY_API const tiny_op_row *tllm_vptq_row(void);

TINYI_C_END
#endif
