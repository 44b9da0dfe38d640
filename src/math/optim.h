/* src/math/optim.h - optimisers, schedules, clipping, moving averages; initial values
 *
 *   tiny_optim_desc d = { 0 };                      all zero: AdamW, lr 1e-3, betas 0.9 and 0.999, eps 1e-8, no decay
 *   tiny_optim *opt;
 *   d.clip = 1.0;
 *   tiny_optim_open(ctx, params, n_params, &d, &opt);
 *   for (step = 0; step < n; step++) {
 *       ... compute the gradients in params[i].grad ...
 *       tiny_optim_step(opt, tiny_schedule_at(&schedule, step));
 *   }
 *   tiny_optim_close(opt);
 *
 * A step first computes the norm of all gradients. If that is not finite, the step fails and changes nothing; the
 * sentence names the step and the parameter. Results do not depend on the number of threads. Parameters are f32 (fast
 * path), f64 (plain loops), f16 or bf16. The 16-bit ones have f32 gradients: the optimiser updates an f32 master copy
 * and rounds the parameter from it. */
#ifndef TINYI_OPTIM_H
#define TINYI_OPTIM_H
#include "core/op.h"
TINYI_C_BEGIN

/* A trained tensor. value and grad are dense and of the same shape; grad is f64 for an f64 value, else f32. The memory
 * belongs to the caller. */
typedef struct tiny_param {
    const char *name;
    tiny_tensor value, grad;
    int group;                              /* index into desc.group of the optimiser */
} tiny_param;

typedef enum tiny_optim_kind { TINY_OPTIM_ADAMW, TINY_OPTIM_ADAM, TINY_OPTIM_SGD, TINY_OPTIM_MUON } tiny_optim_kind;

/* Zero means the default. t counts from 1, g is the gradient after clipping.
 *   ADAMW  m += (1 - b1)(g - m); v += (1 - b2)(g^2 - v); w -= lr decay w;
 *          w -= lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
 *   ADAM   the same, but decay w is added to g instead
 *   SGD    g += decay w; m = momentum m + g; w -= lr m (nesterov: lr (g + momentum m))
 *   MUON   for matrices; other tensors are used as (dim[0], the rest). m = momentum m + g; u = g + momentum m;
 *          X = u / (||u|| + 1e-7), transposed if it has more rows than columns;
 *          five times A = X X', X = 3.4445 X + (-4.7750 A + 2.0315 A A) X;
 *          w -= lr decay w; w -= lr sqrt(max(1, rows / columns)) X. K. Jordan, "Muon", 2024. */
typedef struct tiny_optim_group {
    int kind;
    double lr;                              /* 0: ADAM, ADAMW 1e-3; SGD 1e-2; MUON 0.02 */
    double decay;
    double beta1, beta2, eps;               /* 0: 0.9, 0.999, 1e-8; beta1 below 0: 0 */
    double momentum;                        /* 0: MUON 0.95, SGD none */
    int nesterov;
} tiny_optim_group;

#define TINY_OPTIM_GROUPS 8
typedef struct tiny_optim_desc {
    tiny_optim_group group[TINY_OPTIM_GROUPS];
    /* above 0: gradients are scaled so that the norm of all of them together is at most this */
    double clip;
    /* above 0: keeps a moving average of the parameters, e += (1 - ema)(w - e) */
    double ema;
} tiny_optim_desc;

typedef struct tiny_optim tiny_optim;
/* Copies the list and the names. The memory of values and gradients stays in use until tiny_optim_close. */
TINY_API tiny_status tiny_optim_open(tiny_ctx *ctx, const tiny_param *params, size_t n_params,
                                     const tiny_optim_desc *desc, tiny_optim **out);
TINY_API void tiny_optim_close(tiny_optim *opt);           /* takes NULL */
/* factor multiplies the lr of every group. */
TINY_API tiny_status tiny_optim_step(tiny_optim *opt, double factor);
TINY_API int64_t tiny_optim_steps(const tiny_optim *opt);   /* taken so far */
TINY_API double tiny_optim_grad_norm(const tiny_optim *opt);    /* of the last step, before clipping */
/* Exchanges parameters and their moving averages; a second call restores both. */
TINY_API tiny_status tiny_optim_ema_swap(tiny_optim *opt);
/* For saving: state number i and its name ("adam.m.NAME"); returns 0 past the end. Save the number of steps too. */
TINY_API int tiny_optim_state(const tiny_optim *opt, size_t i, char name[128], tiny_tensor *state);
TINY_API tiny_status tiny_optim_resume(tiny_optim *opt, int64_t steps); /* call it after you restored the states */

/* ---- schedules: a factor of the lr */

typedef enum tiny_schedule_kind {
    TINY_SCHEDULE_CONSTANT,
    TINY_SCHEDULE_STEP,                     /* multiplied by gamma at each step of at[] */
    TINY_SCHEDULE_COSINE,                   /* to floor at total: floor + (1 - floor) (1 + cos(pi p)) / 2 */
    TINY_SCHEDULE_LINEAR,                   /* to floor at total */
    TINY_SCHEDULE_WSD                       /* 1 until decay_at, then linear to floor at total */
} tiny_schedule_kind;

typedef struct tiny_schedule {              /* all zero: always 1 */
    int kind;
    int64_t warmup;                         /* all kinds begin with (t + 1) / warmup; p counts from the end of that */
    int64_t total, decay_at;
    double floor, gamma;
    int64_t at[8];                          /* ascending; 0 ends */
} tiny_schedule;

TINY_API double tiny_schedule_at(const tiny_schedule *s, int64_t step);     /* step counts from 0 */

/* Multiplies the factor by gamma (0: 0.1) after patience (0: 10) losses that did not improve the best one by a relative
 * 1e-4. */
typedef struct tiny_plateau { double gamma; int patience; double best, factor; int bad, begun; } tiny_plateau;
TINY_API double tiny_plateau_next(tiny_plateau *p, double loss);            /* the factor for the next steps */

/* ---- initial values of dense f32 or f64 tensors (out, in, ...): fan_in = in * the rest, fan_out = out * the rest */

/* gain times orthonormal rows (columns, if there are more rows than columns): Q of the QR of a Gaussian matrix. */
TINY_API tiny_status tiny_init_orthogonal(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, double gain);

/* ---- inside: what the bodies share ---- */

typedef struct tinyi_adam_step { float scale, b1, b2, rate, root, eps, keep, decay; } tinyi_adam_step;
typedef struct tinyi_sgd_step { float scale, momentum, rate, decay; int nesterov; } tinyi_sgd_step;
#define TINYI_KERNELS_OPTIM(K)                                                                                  \
    K(optim_adam_f32, void, (float *w, float *m, float *v, const float *g, size_t n, const tinyi_adam_step *s)) \
    K(optim_sgd_f32, void, (float *w, float *m, const float *g, size_t n, const tinyi_sgd_step *s))

TINYI_C_END
#endif
