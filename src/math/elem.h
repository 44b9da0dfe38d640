/* src/math/elem.h - elementary functions of one argument, activations and gated products */
#ifndef TINYI_ELEM_H
#define TINYI_ELEM_H
#include <string.h>
#include "core/op.h"
TINYI_C_BEGIN

/* y = f(x), f32, any strides, y may be x. */
TINY_API tiny_status tiny_exp(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_log(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_tanh(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_erf(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_sigmoid(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_sin(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_cos(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_rsqrt(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_sqrt(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_abs(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_neg(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_relu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_relu2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_silu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_gelu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tiny_gelu_tanh(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
/* Gated forms, y = f(a) b: a, b and y of the same shape; y may be a or b. */
TINY_API tiny_status tiny_swiglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_geglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_geglu_tanh(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_reglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);

#define TINYI_OPS_ELEM(ROW) \
    ROW(EXP, exp) ROW(LOG, log) ROW(TANH, tanh) ROW(ERF, erf) ROW(SIGMOID, sigmoid) ROW(SIN, sin) ROW(COS, cos) \
    ROW(RSQRT, rsqrt) ROW(SQRT, sqrt) ROW(ABS, abs) ROW(NEG, neg) ROW(RELU, relu) ROW(RELU2, relu2) \
    ROW(SILU, silu) ROW(GELU, gelu) ROW(GELU_TANH, gelu_tanh) \
    ROW(SWIGLU, swiglu) ROW(GEGLU, geglu) ROW(GEGLU_TANH, geglu_tanh) ROW(REGLU, reglu)

/* ---- inside: what the bodies share ---- */

TINYI_INLINE uint64_t tinyi_f64_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
TINYI_INLINE double tinyi_bits_f64(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

/* The references: the same bits on every machine. Each computes in double and rounds to float once. */
TINYI_FN double tinyi_elem_ref_of(int kind, double x);      /* any row of one argument, in double, not rounded */
TINYI_FN float tinyi_exp_ref(float x);
TINYI_FN float tinyi_log_ref(float x);
TINYI_FN float tinyi_tanh_ref(float x);
TINYI_FN float tinyi_erf_ref(float x);
TINYI_FN float tinyi_sigmoid_ref(float x);
TINYI_FN float tinyi_sin_ref(float x);
TINYI_FN float tinyi_cos_ref(float x);
TINYI_FN float tinyi_rsqrt_ref(float x);
TINYI_FN float tinyi_silu_ref(float x);
TINYI_FN float tinyi_gelu_ref(float x);
TINYI_FN float tinyi_gelu_tanh_ref(float x);

/* Correctly rounded square roots: one instruction where the processor has it, exact integers elsewhere. */
TINYI_FN float tinyi_sqrtf(float x);
TINYI_FN double tinyi_sqrt(double x);
TINYI_FN double tinyi_elem_sqrt_integer(double x);       /* the same without a root instruction */

/* In double, the same bits on every machine, relative error below 1e-15. */
TINYI_FN double tinyi_exp64(double x);
/* y[i] = exp(x[i] - top), x[i] <= top, the same bits */
TINYI_FN void tinyi_exp64_below(double *y, const float *x, double top, size_t n);
TINYI_FN double tinyi_log64(double x);
TINYI_FN double tinyi_sin64(double x);          /* every finite x: the reduction is exact */
TINYI_FN double tinyi_cos64(double x);
TINYI_FN void tinyi_sincos64(double x, double *s, double *c);      /* both, the same bits, one reduction */
TINYI_FN double tinyi_tanh64(double x);
TINYI_FN double tinyi_erf64(double x);
TINYI_FN double tinyi_sqrt64(double x);         /* tinyi_sqrt */
/* cos and sin of 2 pi k / n, 0 < n <= 2^60: exact zeros and ones, exact symmetries, else within 2e-16. */
TINYI_FN void tinyi_cis64(uint64_t k, uint64_t n, double *c, double *s);

/* The kernels below store pieces of at least this many elements past the caches, unless y is an input: results that
 * large would be evicted before they are read. Shorter pieces are stored as usual. */
#define TINYI_ELEM_LONG 65536

#define TINYI_KERNELS_ELEM(K) \
    K(exp_f32, void, (float *y, const float *x, size_t n)) \
    K(log_f32, void, (float *y, const float *x, size_t n)) \
    K(tanh_f32, void, (float *y, const float *x, size_t n)) \
    K(erf_f32, void, (float *y, const float *x, size_t n)) \
    K(sigmoid_f32, void, (float *y, const float *x, size_t n)) \
    K(sin_f32, void, (float *y, const float *x, size_t n)) \
    K(cos_f32, void, (float *y, const float *x, size_t n)) \
    K(rsqrt_f32, void, (float *y, const float *x, size_t n)) \
    K(sqrt_f32, void, (float *y, const float *x, size_t n)) \
    K(abs_f32, void, (float *y, const float *x, size_t n)) \
    K(neg_f32, void, (float *y, const float *x, size_t n)) \
    K(relu_f32, void, (float *y, const float *x, size_t n)) \
    K(relu2_f32, void, (float *y, const float *x, size_t n)) \
    K(silu_f32, void, (float *y, const float *x, size_t n)) \
    K(gelu_f32, void, (float *y, const float *x, size_t n)) \
    K(gelu_tanh_f32, void, (float *y, const float *x, size_t n)) \
    K(swiglu_f32, void, (float *y, const float *a, const float *b, size_t n)) \
    K(geglu_f32, void, (float *y, const float *a, const float *b, size_t n)) \
    K(geglu_tanh_f32, void, (float *y, const float *a, const float *b, size_t n)) \
    K(reglu_f32, void, (float *y, const float *a, const float *b, size_t n))

TINYI_C_END
#endif
