/* src/llm/lab/vptq/kmeans_inside.h - inside k-means and its users: the nearest of many centres */
#ifndef TINYI_KMEANS_INSIDE_H
#define TINYI_KMEANS_INSIDE_H
#include <float.h>
#include <math.h>                           /* INFINITY; no function of it is called */
#include "llm/lab/vptq/kmeans.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

/* The nearest of some centres, which lie in sixteens, number by number: [k / 16][v][16] */
#define TINYI_NEAREST_FAR \
    INFINITY /* where there is no centre: no number is near it (of a large one, 3e38 say, a vector can be) */
TINYI_FN size_t tinyi_nearest_floats(tiny_idx k, tiny_idx v);
TINYI_FN void tinyi_nearest_lay(float *to, const float *centre, tiny_idx k, tiny_idx v);
/* x (n, v): sum of (x_i - c_i)^2 in the order of i, rounded at each step; code and distance of each. n_centre: laid, in
 * sixteens. */
typedef void (*tinyi_nearest_fn)(uint32_t *code, float *distance, const float *x, size_t n, size_t v, const float *laid,
                                 size_t n_centre);
typedef struct tinyi_nearest_kernels { tinyi_nearest_fn nearest; } tinyi_nearest_kernels;
TINYI_TABLES(tinyi_nearest_kernels, tinyi_nearest_kernels)
TINYI_FN tinyi_nearest_fn tinyi_nearest_of(const tiny_ctx *ctx);     /* plain C for the reference: the same bits */
TINYI_FN tiny_target tinyi_nearest_from(const tiny_ctx *ctx);

TINYI_C_END
#endif
