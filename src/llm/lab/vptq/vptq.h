/* src/llm/lab/vptq/vptq.h - VPTQ: weights of 1 to 4 bits as vectors of code books, errors carried on as by GPTQ
 *
 *   tllm_vptq_desc d = { 0 };                               vectors of 8, a book of 256: about 1 bit a weight
 *   d.v = 6; d.k = 4096;                                    2 bits
 *   tllm_vptq q;
 *   tllm_vptq_quantize(ctx, &d, w, rows, n, &h, &q, &about);       h: the products of the inputs, llm/round/calib.h
 *   tllm_vptq_matmul(ctx, &x, &q, &y);                      y (tokens, rows) = x (tokens, n) w'^T
 *   tllm_vptq_save(ctx, &q, "down.vptq");                   q.bytes, q.n_bytes: the same as one block of memory
 *   tllm_vptq_close(ctx, &q);
 *
 * A vector is v outputs of one input: w[m .. m+v-1][i]. One input after the other is coded, each of its vectors as the
 * nearest one of a book (or of the sum of two: what is left is coded once more), and the error is carried to the inputs
 * that come after. Books are halves, from k-means weighed by the diagonal of h. Rows that are no multiple of v are
 * filled up with zeros.
 *
 * Bits a weight: log2(k) / v + log2(k2) / v, rounded up to whole bits of a code, the books with 16 v (k + k2) groups /
 * (rows n), and what stands
 * beside: tllm_vptq_rate. */
#ifndef TINYI_VPTQ_H
#define TINYI_VPTQ_H
#include "core/op.h"
#include "llm/lab/vptq/kmeans.h"
TINYI_C_BEGIN

#define TLLM_VPTQ_MOST_V 16

typedef struct tllm_vptq_desc {             /* all zero: the value in brackets */
    int v;                                  /* outputs of a vector, 1 to 16 [8] */
    /* vectors of the book, at least 2 [256]; of the second one [0: there is none] */
    tiny_idx k, k2;
    int v0;                                 /* of the inputs that are set apart [v] */
    tiny_idx k0;                            /* [k] */
    /* percent of the inputs that are set apart, in a book of their own: the first ones in the order of coding [0] */
    float outliers;
    /* of the other inputs, each with books of its own [1]; inputs that are left over are set apart too */
    tiny_idx groups;
    /* nonzero: inputs are coded as they come [0: the largest diagonal of h first] */
    int in_order;
    /* nonzero: each input is moved and scaled to 0 .. 1 before it is coded; costs 32 bits an input [0] */
    int normalize;
    float damp;                             /* share of the mean diagonal that is added to it [0.01] */
    tiny_idx block;                         /* inputs whose errors are carried on together [128] */
    int iters;                              /* of k-means: tllm_kmeans_desc */
    double tol;
    uint64_t seed;
    tiny_idx sample;
    /* given ones, which become halves: (groups, k, v), (groups, k2, v), (k0, v0) [NULL: made by k-means] */
    const float *book, *book2, *book0;
} tllm_vptq_desc;

typedef struct tllm_vptq_about {
    /* tr((W - W') (h + damping) (W - W')^T); where rounded is set, the plain squared error */
    double loss;
    double damp;                            /* share that was used */
    int doubled;                            /* so often h was not positive definite with less */
    int rounded;                            /* it never was: every vector is the nearest one, no error was carried on */
    /* inputs that were always 0; their weights became 0 before they were coded */
    tiny_idx dead;
    tiny_idx clamped;                       /* numbers of books beyond 65504, which became that */
} tllm_vptq_about;

typedef struct tllm_vptq {                  /* a view of the bytes, which say all of it */
    tiny_idx rows, n;
    tiny_idx v, k, k2, groups;
    tiny_idx v0, k0, outliers;              /* outliers: how many inputs are set apart; 0: v0 and k0 are 0 */
    int permuted, normalized;               /* inputs stand in another order, which is stored; scales and biases are */
    const unsigned char *bytes;
    size_t n_bytes;
    void *block;                            /* of the context that made it; NULL: the bytes are the caller's */
} tllm_vptq;

/* w (rows, n) dense; h (n, n) f32 or f64, any strides, only i <= j is read; about may be NULL. Refused: weights or h
 * with a NaN or an infinity, weights above 65504, a diagonal below 0, more vectors in a book than there are to be
 * coded. After a failure out is all zero. */
TINY_API tiny_status tllm_vptq_quantize(tiny_ctx *ctx, const tllm_vptq_desc *desc, const float *w, tiny_idx rows,
                                        tiny_idx n, const tiny_tensor *h, tllm_vptq *out, tllm_vptq_about *about);
/* The same sizes with random books and codes: for measuring, and for tests of who reads them. */
TINY_API tiny_status tllm_vptq_random(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n,
                                      uint64_t seed, tllm_vptq *out);
/* Bits a weight by the formula, and bytes in all; both may be NULL. */
TINY_API tiny_status tllm_vptq_rate(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n, double *bits,
                                    size_t *bytes);

/* Bytes from outside, which must stay: nothing is copied. Everything is looked at: sizes, checksum, every code, every
 *   number of a book.
 *   "TINYVPQ\0", u32 version 1, u32 flags (1: permuted, 2: normalized), u64 rows, n, u32 v, k, k2, groups, v0, k0, u64
 *   outliers, u64 bytes in all, u64 0; then permuted: which input each place is, u16 or, from 65537 inputs on, u32;
 *   normalized: n scales, n biases, f16; filled up to a multiple of 4; codes, of the inputs set apart and of each
 *   group: a row of vectors after the other, (c2 << bits(k)) | c1 after the other, lowest bits first, each row filled
 *   up to 32 bits; books as f16: of those set apart, then of each group the first and the second; filled up to a
 *   multiple of 4; u32 0; a CRC-32 of everything before it.
 * All little-endian. There is one way to write a matrix. A file is a box "vptq 2" (core/box/checkpoint.h reads it too)
 * with these bytes as its body; open and load take both, and files without a box, as they were written before. */
TINY_API tiny_status tllm_vptq_open(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_vptq *out);
TINY_API tiny_status tllm_vptq_load(tiny_ctx *ctx, const char *path, tllm_vptq *out);       /* copies */
TINY_API tiny_status tllm_vptq_save(tiny_ctx *ctx, const tllm_vptq *q, const char *path);
/* takes NULL, and one that could not be made */
TINY_API void tllm_vptq_close(tiny_ctx *ctx, tllm_vptq *q);

/* to (rows, n), ld apart: rows row0 .. row0 + rows - 1 of w', inputs as they were */
TINY_API tiny_status tllm_vptq_expand(tiny_ctx *ctx, const tllm_vptq *q, tiny_idx row0, tiny_idx rows, float *to,
                                      tiny_idx ld);
/* The code word that output `row` of an input has, its vector's; UINT32_MAX: there is none. One at a time: slow. */
TINY_API uint32_t tllm_vptq_code(const tllm_vptq *q, tiny_idx row, tiny_idx input);
/* A book as floats: group -1: of the inputs set apart; second 0 or 1. How many numbers it has; to NULL: only that. */
TINY_API size_t tllm_vptq_book(const tllm_vptq *q, tiny_idx group, int second, float *to);

/* ---- the product ---- */

/*   GATHER     for each code y[vector] += x C[code]: one vector of sums, one of the book
 *   BUCKET     for each row of vectors a[code] += x, then y[vector] = sum of a[c] C[c]: for books much smaller than a
 *              row
 *   EXPAND     tiles become floats in the first-level cache, and the house's dense kernel multiplies them: for many
 *              rows of x */
typedef enum tllm_vptq_form {
    TLLM_VPTQ_AUTO,
    TLLM_VPTQ_GATHER,
    TLLM_VPTQ_BUCKET,
    TLLM_VPTQ_EXPAND,
    TLLM_VPTQ_FORMS
} tllm_vptq_form;

/* x (tokens, n), y (tokens, rows) f32, any strides. Equal calls give equal bits, whatever the number of threads. */
TINY_API tiny_status tllm_vptq_matmul(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, const tiny_tensor *y);
TINY_API tiny_status tllm_vptq_matmul_as(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, tllm_vptq_form form,
                                         const tiny_tensor *y);
/* what AUTO takes */
TINY_API tllm_vptq_form tllm_vptq_form_of(const tiny_ctx *ctx, const tllm_vptq *q, tiny_idx tokens);

/* The row of the operation. Inputs: x (tokens, n) f32; the bytes, dense u8. Sizes and the order of inputs are checked
 * with each call, codes are not: one that its book has not counts as a vector of zeros, and nothing is touched
 * outside. */
typedef struct tllm_vptq_params {
    tiny_idx rows;
    int form;
    /* nonzero: the reference adds up absolute values, which its bound is made of */
    int magnitude;
} tllm_vptq_params;
TINY_API const tiny_op_row *tllm_vptq_row(void);

TINYI_C_END
#endif
