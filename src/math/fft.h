/* src/math/fft.h - discrete Fourier transforms of complex and real rows, any length */
#ifndef TINYI_FFT_H
#define TINYI_FFT_H
#include "core/op.h"
TINYI_C_BEGIN

typedef enum tiny_fft_kind { TINY_FFT_COMPLEX, TINY_FFT_REAL, TINY_FFT_REAL_INVERSE } tiny_fft_kind;

/* The scale of each direction. Forward and then inverse gives the input again; with NONE, n times the input. */
typedef enum tiny_fft_norm {
    TINY_FFT_NORM_INVERSE,                  /* inverse: 1 / n */
    TINY_FFT_NORM_BOTH,                     /* both: 1 / sqrt(n) */
    TINY_FFT_NORM_NONE,
    TINY_FFT_NORM_FORWARD,                  /* forward: 1 / n */
    TINY_FFT_NORM_COUNT
} tiny_fft_norm;

typedef struct tiny_fft_plan tiny_fft_plan;

typedef struct tiny_fft_params {
    int inverse;                            /* fft: nonzero for exp(+2 pi i j k / n) */
    tiny_fft_norm norm;
    tiny_idx n;                             /* irfft: length of a row; 0: the even one, 2 (bins - 1) */
    const tiny_fft_plan *plan;              /* NULL: each call makes its tables, which costs more than one transform */
} tiny_fft_params;

/* All f32, any strides and leading axes. Complex values are a last axis of 2, real part first. params may be NULL. y
 * must not overlap x. For another axis, swap it with tiny_tensor_swap: no data moves.
 *   fft     (..., n, 2) -> (..., n, 2)
 *   rfft    (..., n) -> (..., n/2 + 1, 2)      bins 0 .. n/2; bin n - k is the conjugate of bin k
 *   irfft   (..., n/2 + 1, 2) -> (..., n)      ignores the imaginary part of bin 0 and, for even n, of bin n/2 */
TINY_API tiny_status tiny_fft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params, const tiny_tensor *y);
TINY_API tiny_status tiny_rfft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                               const tiny_tensor *y);
TINY_API tiny_status tiny_irfft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                const tiny_tensor *y);

/* Over the last two axes, m rows of n: (..., m, n, 2), with (..., m, n) and (..., m, n/2 + 1, 2) for the real forms.
 * Each call takes memory for one spectrum from the context and frees it. A plan is used for each axis that it fits. */
TINY_API tiny_status tiny_fft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                               const tiny_tensor *y);
TINY_API tiny_status tiny_rfft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                const tiny_tensor *y);
TINY_API tiny_status tiny_irfft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                 const tiny_tensor *y);

/* Makes the tables for rows of n values, in memory of the context and for its target. rows: the number of rows in a
 * call, 0 if that is not known. A plan never changes: threads may share it, and so may contexts of the same target.
 * Close it before its context. On failure *out is NULL. */
TINY_API tiny_status tiny_fft_plan_open(tiny_ctx *ctx, tiny_idx n, tiny_fft_kind kind, tiny_idx rows,
                                        tiny_fft_plan **out);
TINY_API void tiny_fft_plan_close(tiny_ctx *ctx, tiny_fft_plan *plan);      /* takes NULL */
TINY_API size_t tiny_fft_plan_bytes(const tiny_fft_plan *plan);            /* of workspace for one tiny_fft_plan_run */
/* Transforms the rows of x into y on the calling thread, without a context. For a complex plan y may be exactly x.
 * work: tiny_fft_plan_bytes, aligned to 4, better to 64; one for each thread. Returns E_ARGUMENT, E_SHAPE or E_DTYPE if
 * x, y and the plan do not fit together. */
TINY_API tiny_status tiny_fft_plan_run(const tiny_fft_plan *plan, const tiny_tensor *x, int inverse, tiny_fft_norm norm,
                                       const tiny_tensor *y, void *work);

#define TINYI_OPS_FFT(ROW) ROW(FFT, fft) ROW(RFFT, rfft) ROW(IRFFT, irfft)

/* ---- inside: what the bodies share ---- */

#define TINYI_KERNELS_FFT(K)                                                                                          \
    K(fft_lanes, size_t, (void))                                                                                      \
    K(fft_pass, void,                                                                                                 \
      (float *to, const float *from, const float *w, const float *roots, size_t r, size_t m, size_t s))               \
    K(fft_in, void, (float *z, const float *x, size_t n, ptrdiff_t step, size_t lanes, int swap))                     \
    K(fft_out, void, (float *y, const float *z, size_t n, ptrdiff_t step, size_t lanes, float scale, int swap))       \
    K(fft_in_rows, void, (float *z, const float *const *rows, size_t n_rows, size_t n, int swap))                     \
    K(fft_out_rows, void, (float *const *rows, const float *z, size_t n_rows, size_t n, float scale, int swap))       \
    K(fft_last, void,                                                                                                 \
      (float *y, const float *z, const float *tw, const float *roots, size_t m, size_t split, float scale, int swap)) \
    K(fft_mul, void, (float *y, const float *x, const float *w, size_t n, float scale, int swap_in, int swap_out))    \
    K(fft_real, void, (float *y, const float *z, const float *w, size_t h))                                           \
    K(fft_unreal, void, (float *z, const float *x, const float *w, size_t h))

TINYI_C_END
#endif
