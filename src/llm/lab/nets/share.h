/* src/llm/lab/nets/share.h - parameter sharing: all weights of a network are read from one short array
 *
 *     tllm_share_desc d = { 0 };
 *     d.m = 1088;                                         21760 weights from 1088 numbers
 *     tllm_nn_share(nn, &d, &share);                      matrices of the network
 *     tllm_nn_share_fit(nn, share, &task.train, NULL, NULL);
 *     tllm_nn_right(nn, &task.test, &n_right);            nn holds the weights that share gives
 *     tllm_share_linear(share, 1, &x, &y);                y = x W^T without W in memory
 *
 * Weight i, counted over all matrices in row-major order, is W[i] = c z[at(i)]: z has m numbers, c is +1 or -1 by a
 * hash, times sigma of its matrix over s0, the deviation of z. Where weight i reads is computed, never stored: a file
 * holds z, a few numbers and the shapes. The map at(i):
 *
 *   FOLD   weights in parts of m; part j begins at h(j) and goes on, around the end. Each number of z serves floor(n/m)
 *          or ceil(n/m) weights, none twice in a part; with m = n it is a rotation: nothing is lost
 *   TILE   tiles of k columns by n rows begin at a hash of their place and are contiguous
 *   HASH   each weight by itself
 *
 * With m > n all maps are at(i) = i. h(a) = ((r0 a + r1 a^2 + r2) mod P) mod m, and for tiles
 * ((r0 a + r1 b + r2) mod P) mod (m - k n), P = 2038074743. A. Desai, A. Shrivastava, "In defense of parameter sharing
 * for model-compression", 2023 (arXiv 2310.11611). One thread at a time may use a share. */
#ifndef TINYI_LLM_SHARE_H
#define TINYI_LLM_SHARE_H
#include "llm/lab/nets/fit.h"
TINYI_C_BEGIN

#define TLLM_SHARE_PRIME 2038074743u

typedef enum tllm_share_map { TLLM_SHARE_FOLD, TLLM_SHARE_TILE, TLLM_SHARE_HASH, TLLM_SHARE_MAPS } tllm_share_map;

typedef struct tllm_share_matrix {
    tiny_idx rows, cols;                    /* W (rows, cols): outputs, inputs */
    double sigma;                           /* deviation that its first weights should have */
} tllm_share_matrix;

typedef struct tllm_share_desc {            /* zero: the value in brackets */
    const tllm_share_matrix *matrix;        /* copied */
    size_t n_matrix;
    size_t m;                               /* numbers of z */
    int map;                                /* [FOLD] */
    tiny_idx tile[2];                       /* TILE: columns k and rows n of a tile [32, 32] */
    uint64_t seed;                          /* of z, of the signs, and of r */
    uint64_t r[3];                          /* numbers of the hash, below P [odd, drawn by the seed] */
    int plain;                              /* nonzero: all signs are + */
    double s0;                              /* z is drawn from N(0, s0^2) [1/8] */
} tllm_share_desc;

/* What the gradient of z is divided by. lambda: sigma / s0, summed over the weights that read a number. */
typedef enum tllm_share_scale {
    TLLM_SHARE_SQUARES,                     /* sum lambda^2: weights then move by averages of their own gradients */
    TLLM_SHARE_LENGTH,                      /* (sum lambda)^2 / count */
    TLLM_SHARE_SUM,                         /* sum lambda */
    TLLM_SHARE_MEAN,                        /* sum lambda / count */
    TLLM_SHARE_ROOT,                        /* sqrt(sum lambda^2) */
    TLLM_SHARE_UNSCALED,                    /* 1 */
    TLLM_SHARE_SCALES
} tllm_share_scale;

typedef struct tllm_share tllm_share;

TINY_API tiny_status tllm_share_open(tiny_ctx *ctx, const tllm_share_desc *desc, tllm_share **out);
TINY_API void tllm_share_close(tllm_share *share);          /* takes NULL */
TINY_API const tllm_share_desc *tllm_share_is(const tllm_share *share);     /* all values, the defaults too */
TINY_API float *tllm_share_memory(tllm_share *share);       /* z (m) */
TINY_API size_t tllm_share_count(const tllm_share *share);  /* weights of all matrices */
/* Where weight i reads, and what it multiplies by; past the end 0. */
TINY_API size_t tllm_share_at(const tllm_share *share, size_t i);
TINY_API float tllm_share_factor(const tllm_share *share, size_t i);
/* The same for a whole matrix, at (rows cols) i32 and factor (rows cols) f32 or f64: what tiny_tape_hash_gather takes,
 * for a model of your own on a tape. */
TINY_API tiny_status tllm_share_index(const tllm_share *share, size_t i_matrix, const tiny_tensor *at,
                                      const tiny_tensor *factor);

/* W: rows cols numbers, dense f32, of any shape; dz (m). gather: W = c z[at]. fold is its adjoint: dz[at] += c dW. */
TINY_API tiny_status tllm_share_gather(const tllm_share *share, size_t i_matrix, const tiny_tensor *w);
TINY_API tiny_status tllm_share_fold(const tllm_share *share, size_t i_matrix, const tiny_tensor *dw, float *dz);
/* factor (m): 1 / (1e-12 + A); 0 where no weight reads */
TINY_API tiny_status tllm_share_rates(const tllm_share *share, int scale, float *factor);
/* Sets z so that the sum of (W - weight)^2 is smallest; weight: of all matrices, dense, one after the other. */
TINY_API tiny_status tllm_share_set(tllm_share *share, const float *weight);
/* y (b, rows) = x (b, cols) W^T, f32, rows dense. One row of W at a time is made in the first cache, or read from z
 * where it lies there in one piece. */
TINY_API tiny_status tllm_share_linear(const tllm_share *share, size_t i_matrix, const tiny_tensor *x,
                                       const tiny_tensor *y);

/* Bytes of z, seed, sizes and shapes. Save writes them to a file of core/box/checkpoint.h; load makes a share. */
TINY_API size_t tllm_share_bytes(const tllm_share *share);
TINY_API tiny_status tllm_share_save(const tllm_share *share, const char *path);
TINY_API tiny_status tllm_share_load(tiny_ctx *ctx, const char *path, tllm_share **out);

/* ---- networks: the matrices and sigma of desc come from nn, sqrt(2 / fan_in) */
TINY_API tiny_status tllm_nn_share(const tllm_nn *nn, const tllm_share_desc *desc, tllm_share **out);
TINY_API tiny_status tllm_nn_share_weights(tllm_nn *nn, const tllm_share *share);      /* nn gets the weights */

typedef struct tllm_share_fit_desc {
    tllm_nn_fit_desc fit;                   /* without gradual */
    int scale;                              /* of the gradient of z [SQUARES] */
    int sgd;                                /* nonzero: plain steps instead of Adam; lr [1e-2] */
} tllm_share_fit_desc;
/* Trains z, and biases and norms as they are. An f32 network without a mask. desc and last may be NULL. The optimiser
 * keeps m numbers where it would keep n; a step holds W and its gradient in the network. */
TINY_API tiny_status tllm_nn_share_fit(tllm_nn *nn, tllm_share *share, const tllm_nn_set *set,
                                       const tllm_share_fit_desc *desc, tllm_nn_fit_state *last);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_ctx *tinyi_share_ctx(const tllm_share *share);
TINYI_FN float *tinyi_share_z(const tllm_share *share);

TINYI_C_END
#endif
