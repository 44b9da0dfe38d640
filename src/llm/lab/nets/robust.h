/* src/llm/lab/nets/robust.h - why two networks of equal accuracy differ on noisy inputs: the geometry of their features
 *
 *     tllm_nn_geometry(nn, &task.test, &clean);           length, angles and margin of each sample
 *     tllm_corrupt(ctx, &task.test.x, TLLM_CORRUPT_NOISE, 3, 1, &noisy.x);
 *     tllm_nn_geometry(nn, &noisy, &broken);
 *     tllm_geometry_compare(ctx, &clean, &broken, &report);       which samples break, by angle or by length
 *     tllm_geometry_csv(ctx, &broken, "noisy.csv");
 *
 * The last layer of a network has the logits l_c = w_c . f + b_c = |w_c| |f| cos(angle_c) + b_c. Of each sample:
 *
 *   length       |f|
 *   angle        between f and the direction of its class, in degrees; 90 if one of them is zero
 *   angle_wrong  between f and the class of the largest wrong logit
 *   margin       the least (l_y - l_c) / |w_y - w_c| over wrong classes c: the distance of f from the nearest boundary,
 *                below 0 if the sample is wrong
 *   confidence   softmax of the class
 *
 * After Li et al., "Understanding the robustness lottery", 2022 (arXiv 2206.07918). */
#ifndef TINYI_LLM_ROBUST_H
#define TINYI_LLM_ROBUST_H
#include "llm/lab/nets/fit.h"
TINYI_C_BEGIN

typedef enum tllm_geometry_value {
    TLLM_GEOMETRY_LENGTH,
    TLLM_GEOMETRY_ANGLE,
    TLLM_GEOMETRY_ANGLE_WRONG,
    TLLM_GEOMETRY_MARGIN,
    TLLM_GEOMETRY_CONFIDENCE,
    TLLM_GEOMETRY_VALUES
} tllm_geometry_value;

typedef struct tllm_geometry_sample {
    double value[TLLM_GEOMETRY_VALUES];
    /* answer: the class of the largest logit; rival: of the largest wrong one */
    int32_t label, answer, rival;
} tllm_geometry_sample;

typedef struct tllm_geometry {
    tiny_idx n, n_class;
    size_t n_right;
    tllm_geometry_sample *sample;           /* (n) */
    double *cosine;                         /* (n, n_class): between features and directions; 0 if one is zero */
    double *w_length, *bias;                /* (n_class) */
    double *between;                        /* (n_class, n_class): angles of the directions, in degrees */
} tllm_geometry;

/* f (n, d) and w (n_class, d) f32 or f64, dense; label (n) i32; bias (n_class) of the type of w, or NULL. Sums in
 * double. At least two classes. Two classes with the same direction and length are an error: no boundary lies between
 * them. */
TINY_API tiny_status tllm_geometry_of(tiny_ctx *ctx, const tiny_tensor *f, const tiny_tensor *label,
                                      const tiny_tensor *w, const tiny_tensor *bias, tllm_geometry *out);
/* Of a network, whose last layer has no norm, on a set. */
TINY_API tiny_status tllm_nn_geometry(const tllm_nn *nn, const tllm_nn_set *set, tllm_geometry *out);
TINY_API void tllm_geometry_close(tiny_ctx *ctx, tllm_geometry *g);         /* takes a zeroed one */
TINY_API const char *tllm_geometry_name(int value);         /* "length"; NULL: unknown */
/* y[k]: the share at[k] (0 to 1) of the samples of a class (-1: all) has a smaller value; linear between samples. */
TINY_API tiny_status tllm_geometry_quantiles(tiny_ctx *ctx, const tllm_geometry *g, int value, int i_class, size_t n,
                                             const double *at, double *y);
/* The logits (n, n_class) with the lengths |f| of one and the angles of the other; |w_c| and b_c are those of a. */
TINY_API tiny_status tllm_geometry_mix(tiny_ctx *ctx, const tllm_geometry *a, const tllm_geometry *length,
                                       const tllm_geometry *angle, double *logit);
/* A line for each sample, with the names on top. */
TINY_API tiny_status tllm_geometry_csv(tiny_ctx *ctx, const tllm_geometry *g, const char *path);

/* ---- two of them, of the same samples: dense and pruned, or clean and corrupted */
typedef struct tllm_geometry_report {
    size_t n;
    size_t moved[2][2];                     /* [right in a][right in b]: samples */
    double share[2][2];                     /* of the row; a row without samples is 0 */
    double mean[TLLM_GEOMETRY_VALUES];      /* of b - a */
    double margin_rank;                     /* Spearman of the margins; NaN if all are equal */
    /* Of the samples that break (right in a, wrong in b): wrong if only the angles are those of b, if only the lengths
     * are, if either alone is enough, and only if both are. NaN if none breaks. */
    double by_angle, by_length, by_either, by_both;
    /* The probability that of two samples that are right in a, one that breaks has a smaller margin in a than one that
     * does not. NaN if none or all break. */
    double auc;
    uint32_t *order;                        /* (n): all samples by margin of b - margin of a, the largest drop first */
    uint32_t *fragile, *robust;             /* of those right in a: that break, that do not; largest drop first */
    size_t n_fragile, n_robust;
} tllm_geometry_report;
TINY_API tiny_status tllm_geometry_compare(tiny_ctx *ctx, const tllm_geometry *a, const tllm_geometry *b,
                                           tllm_geometry_report *out);
TINY_API void tllm_geometry_report_close(tiny_ctx *ctx, tllm_geometry_report *r);
TINY_API tiny_status tllm_geometry_json(tiny_ctx *ctx, const tllm_geometry_report *r, const char *path);
/* Correlations (n_kind, n_kind) of the changes of margin from clean to each: near 1, one of two corruptions is
 * enough. */
TINY_API tiny_status tllm_geometry_alike(tiny_ctx *ctx, const tllm_geometry *clean, const tllm_geometry *const *kind,
                                         size_t n_kind, double *matrix);

/* ---- corruptions of samples: vectors (n, d) and images (n, channels, height, width) */
typedef enum tllm_corruption {
    TLLM_CORRUPT_NOISE,                     /* + N(0, (0.15 0.3 0.5 0.75 1) s), s the deviation of all numbers of x */
    TLLM_CORRUPT_IMPULSE,                   /* 2 5 10 17 25 % of the numbers become mean + or - 3 s */
    TLLM_CORRUPT_BLUR,                      /* images: 3 x 3 of 1 2 1 weights, again and again; vectors: 1/8 3/4 1/8 */
    TLLM_CORRUPT_CONTRAST,                  /* distance from the sample's mean times 0.75 0.55 0.4 0.25 0.15 */
    TLLM_CORRUPT_BRIGHTNESS,                /* + (0.2 0.4 0.6 0.8 1) s */
    TLLM_CORRUPT_DROP,                      /* 5 10 20 30 45 % of the numbers become 0 */
    TLLM_CORRUPT_SHIFT,                     /* images: 0.5 1 1.5 2 2.5 pixels down and right; vectors: 0.1 .. 0.5 on */
    TLLM_CORRUPTIONS
} tllm_corruption;
#define TLLM_SEVERITIES 5                   /* 1 to 5; 0: a copy */
TINY_API const char *tllm_corruption_name(int kind);        /* "noise"; NULL: unknown */
/* x and y: dense f32 of the same shape, not the same memory. The same seed draws the same places at every severity. */
TINY_API tiny_status tllm_corrupt(tiny_ctx *ctx, const tiny_tensor *x, int kind, int severity, uint64_t seed,
                                  const tiny_tensor *y);

/* ---- an untrained network in which only a mask is found: scores are trained, weights keep their first values. Each
 * layer keeps the share keep of its weights with the highest scores; the gradient of a score is w dL/d(w m), as if the
 * choice were not there. Biases and norms stay too. An f32 network without a mask; it has one afterwards.
 * V. Ramanujan et al., "What's hidden in a randomly weighted neural network?", 2020 (arXiv 1911.13299). */
typedef struct tllm_popup_desc {            /* zero: the value in brackets */
    /* lr [2e-3] of Adam, on scores that begin uniform in 0 to 1 / sqrt(fan_in); 2e-2 is better on M128 */
    tllm_nn_fit_desc fit;
    double keep;                            /* 0 < keep <= 1 */
} tllm_popup_desc;
TINY_API tiny_status tllm_nn_popup(tllm_nn *nn, const tllm_nn_set *set, const tllm_popup_desc *desc,
                                   tllm_nn_fit_state *last);

TINYI_C_END
#endif
