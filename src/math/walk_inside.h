/* src/math/walk_inside.h - one visit to each element of up to three tensors of the same shape, in the order of the
 * first one's memory
 *
 *   tinyi_walk w;  tinyi_walk_at at;
 *   tinyi_walk_plan(&w, tensors, n_tensors);            tensors[0] is the output
 *   while (tiny_take(team, w.total, grain, &i0, &i1))
 *       for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at))
 *           ... at.run elements from at.p[k], w.step[k] bytes apart ...
 *
 * Axes are sorted by the stride of the output and joined where all tensors allow it, so that dense tensors are one
 * run. */
#ifndef TINYI_WALK_H
#define TINYI_WALK_H
#include "core/op.h"
TINYI_C_BEGIN

#define TINYI_WALK_TENSORS 3

typedef struct tinyi_walk {
    int n_tensors, rank;
    tiny_idx total;
    tiny_idx dim[TINY_MAX_RANK];            /* innermost first */
    ptrdiff_t stride[TINYI_WALK_TENSORS][TINY_MAX_RANK];    /* in bytes */
    ptrdiff_t step[TINYI_WALK_TENSORS];     /* the innermost stride */
    unsigned char *data[TINYI_WALK_TENSORS];
} tinyi_walk;

typedef struct tinyi_walk_at {
    tiny_idx run, left;                     /* elements of this run, and of the range behind it */
    tiny_idx at[TINY_MAX_RANK];             /* where the run begins */
    unsigned char *p[TINYI_WALK_TENSORS];
} tinyi_walk_at;

TINYI_INLINE ptrdiff_t tinyi_walk_size(ptrdiff_t stride) { return stride < 0 ? -stride : stride; }

TINYI_INLINE void tinyi_walk_plan(tinyi_walk *w, const tiny_tensor *const *t, int n_tensors)
{
    int i, j, k, n = 0;
    w->n_tensors = n_tensors;
    w->total = 1;
    for (k = 0; k < n_tensors; k++) w->data[k] = (unsigned char *)t[k]->data;
    for (i = t[0]->rank - 1; i >= 0; i--) {
        ptrdiff_t s = t[0]->stride[i] * (ptrdiff_t)tiny_dtype_bytes(t[0]->dtype);
        w->total *= t[0]->dim[i];
        if (t[0]->dim[i] == 1) continue;
        for (j = n++; j > 0 && tinyi_walk_size(w->stride[0][j - 1]) > tinyi_walk_size(s); j--) {
            w->dim[j] = w->dim[j - 1];
            for (k = 0; k < n_tensors; k++) w->stride[k][j] = w->stride[k][j - 1];
        }
        w->dim[j] = t[0]->dim[i];
        for (k = 0; k < n_tensors; k++) w->stride[k][j] = t[k]->stride[i] * (ptrdiff_t)tiny_dtype_bytes(t[k]->dtype);
    }
    if (n == 0) {
        w->dim[n++] = 1;
        for (k = 0; k < n_tensors; k++) w->stride[k][0] = (ptrdiff_t)tiny_dtype_bytes(t[k]->dtype);
    }
    for (i = 1, j = 0; i < n; i++) {
        for (k = 0; k < n_tensors && w->stride[k][i] == w->stride[k][j] * w->dim[j]; k++) {}
        if (k == n_tensors) {
            w->dim[j] *= w->dim[i];
            continue;
        }
        j++;
        w->dim[j] = w->dim[i];
        for (k = 0; k < n_tensors; k++) w->stride[k][j] = w->stride[k][i];
    }
    w->rank = j + 1;
    for (k = 0; k < n_tensors; k++) w->step[k] = w->stride[k][0];
}

/* To element i0 of the walk, for the elements up to i1; i0 < i1. */
TINYI_INLINE void tinyi_walk_seek(const tinyi_walk *w, tinyi_walk_at *a, tiny_idx i0, tiny_idx i1)
{
    int i, k;
    a->left = i1 - i0;
    for (k = 0; k < w->n_tensors; k++) a->p[k] = w->data[k];
    for (i = 0; i < w->rank; i++) {
        a->at[i] = i0 % w->dim[i];
        i0 /= w->dim[i];
        for (k = 0; k < w->n_tensors; k++) a->p[k] += a->at[i] * w->stride[k][i];
    }
    a->run = TINYI_MIN(w->dim[0] - a->at[0], a->left);
    a->left -= a->run;
}

TINYI_INLINE void tinyi_walk_next(const tinyi_walk *w, tinyi_walk_at *a)
{
    int i, k;
    if (a->left == 0) {
        a->run = 0;
        return;
    }
    for (k = 0; k < w->n_tensors; k++) a->p[k] -= a->at[0] * w->stride[k][0];
    a->at[0] = 0;
    for (i = 1; i < w->rank; i++) {
        for (k = 0; k < w->n_tensors; k++) a->p[k] += w->stride[k][i];
        if (++a->at[i] < w->dim[i]) break;
        for (k = 0; k < w->n_tensors; k++) a->p[k] -= w->dim[i] * w->stride[k][i];
        a->at[i] = 0;
    }
    a->run = TINYI_MIN(w->dim[0], a->left);
    a->left -= a->run;
}

/* Element i of t in row-major order, counted from data: for the references. */
TINYI_INLINE tiny_idx tinyi_walk_element(const tiny_tensor *t, tiny_idx i)
{
    tiny_idx at = 0;
    int k;
    for (k = t->rank - 1; k >= 0; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    return at;
}

/* The same in bytes. */
TINYI_INLINE ptrdiff_t tinyi_walk_offset(const tiny_tensor *t, tiny_idx i)
{
    return tinyi_walk_element(t, i) * (ptrdiff_t)tiny_dtype_bytes(t->dtype);
}

TINYI_C_END
#endif
