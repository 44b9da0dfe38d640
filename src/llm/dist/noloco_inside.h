/* src/llm/dist/noloco_inside.h - inside NoLoCo: what every target has */
#ifndef TINYI_NOLOCO_INSIDE_H
#define TINYI_NOLOCO_INSIDE_H
#include "math/table_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_noloco_step { float alpha, beta, gamma, part; } tinyi_noloco_step;     /* part: 1 / replicas */
typedef struct tinyi_noloco_kernels {
    tiny_target from;
    /* momentum = alpha momentum + beta part change + gamma (part slow - phi); phi += momentum; theta = phi */
    void (*step)(float *theta, float *phi, float *momentum, const float *change, const float *slow, size_t n,
                 const tinyi_noloco_step *s);
    void (*add)(float *y, const float *x, size_t n);                            /* y += x */
    void (*sub)(float *y, const float *a, const float *b, size_t n);            /* y = a - b */
} tinyi_noloco_kernels;
TINYI_TABLES(tinyi_noloco_kernels, tinyi_noloco_kernels)

TINYI_C_END
#endif
