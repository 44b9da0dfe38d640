/* src/core/tensor.c */
#include "core/state_inside.h"
#include <stdio.h>

TINY_API const char *tiny_dtype_name(tiny_dtype dtype)
{
#define TINYI_DTYPE_TEXT(name, text, bytes) text,
    static const char *const names[] = { TINYI_DTYPES(TINYI_DTYPE_TEXT) "" };
#undef TINYI_DTYPE_TEXT
    return (unsigned)dtype < (unsigned)TINY_DTYPE_COUNT ? names[dtype] : "?";
}

TINY_API size_t tiny_dtype_bytes(tiny_dtype dtype)
{
#define TINYI_DTYPE_SIZE(name, text, bytes) bytes,
    static const unsigned char sizes[] = { TINYI_DTYPES(TINYI_DTYPE_SIZE) 0 };
#undef TINYI_DTYPE_SIZE
    return (unsigned)dtype < (unsigned)TINY_DTYPE_COUNT ? sizes[dtype] : 0;
}

TINY_API tiny_tensor tiny_tensor_nd(void *data, tiny_dtype dtype, int rank, const tiny_idx *dim)
{
    tiny_tensor t;
    size_t step = 1;                        /* unsigned: a product that wraps is refused by tiny_tensor_check */
    int i;
    t.data = data;
    t.dtype = dtype;
    t.rank = rank = dim || rank < 1 ? rank : -1;     /* without its shape: tiny_tensor_check refuses it */
    for (i = 0; i < TINY_MAX_RANK; i++) t.dim[i] = i < rank ? dim[i] : 1, t.stride[i] = 0;
    for (i = TINYI_MIN(rank, TINY_MAX_RANK) - 1; i >= 0; i--) {
        t.stride[i] = (tiny_idx)step;
        step *= (size_t)t.dim[i];
    }
    return t;
}

TINY_API tiny_tensor tiny_tensor_1d(void *data, tiny_dtype dtype, tiny_idx n)
{
    return tiny_tensor_nd(data, dtype, 1, &n);
}

TINY_API tiny_tensor tiny_tensor_2d(void *data, tiny_dtype dtype, tiny_idx rows, tiny_idx cols)
{
    tiny_idx dim[2];
    dim[0] = rows; dim[1] = cols;
    return tiny_tensor_nd(data, dtype, 2, dim);
}

TINY_API tiny_tensor tiny_tensor_3d(void *data, tiny_dtype dtype, tiny_idx a, tiny_idx b, tiny_idx c)
{
    tiny_idx dim[3];
    dim[0] = a; dim[1] = b; dim[2] = c;
    return tiny_tensor_nd(data, dtype, 3, dim);
}

TINY_API tiny_tensor tiny_tensor_4d(void *data, tiny_dtype dtype, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d)
{
    tiny_idx dim[4];
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    return tiny_tensor_nd(data, dtype, 4, dim);
}

TINY_API tiny_tensor tiny_tensor_swap(tiny_tensor t, int a, int b)
{
    if (a >= 0 && a < t.rank && b >= 0 && b < t.rank && t.rank <= TINY_MAX_RANK) {
        tiny_idx d = t.dim[a], s = t.stride[a];
        t.dim[a] = t.dim[b]; t.stride[a] = t.stride[b];
        t.dim[b] = d; t.stride[b] = s;
    }
    return t;
}

TINY_API tiny_idx tiny_tensor_count(const tiny_tensor *t)
{
    size_t n = 1;
    int i;
    if (!t) return 0;
    for (i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0) return 0;       /* whatever the others are */
        n *= (size_t)t->dim[i];
    }
    return (tiny_idx)n;
}

TINY_API int tiny_tensor_is_dense(const tiny_tensor *t)
{
    size_t step = 1;
    int i;
    if (!t) return 0;
    for (i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] > 1 && (size_t)t->stride[i] != step) return 0;
        step *= (size_t)t->dim[i];
    }
    return 1;
}

tiny_status tinyi_tensor_reach(const tiny_tensor *t, uintptr_t *first, uintptr_t *end)
{
    size_t below = 0, above = 0, count = 1, bytes;
    int i, empty = 0;
    if (!t || t->rank < 0 || t->rank > TINY_MAX_RANK) return TINY_E_ARGUMENT;
    bytes = tiny_dtype_bytes(t->dtype);
    if (!bytes) return TINY_E_DTYPE;
    for (i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0) return TINY_E_SHAPE;
        if (t->dim[i] == 0) empty = 1;
    }
    for (i = 0; i < t->rank; i++) {
        /* An empty axis counts as one of length 1: then no product of dims, or of strides and bytes, can overflow
         * later. 0 - x instead of -x: the least value has no positive twin. */
        size_t step = t->stride[i] < 0 ? (size_t)0 - (size_t)t->stride[i] : (size_t)t->stride[i],
               dim = t->dim[i] ? (size_t)t->dim[i] : 1, reach;
        if (!tinyi_size_mul(step, bytes, &step) || step > (size_t)TINY_IDX_MAX) return TINY_E_OVERFLOW;
        if (!tinyi_size_mul(count, dim, &count) || !tinyi_size_mul(dim - 1, step, &reach)) return TINY_E_OVERFLOW;
        if (!tinyi_size_add(t->stride[i] < 0 ? below : above, reach, t->stride[i] < 0 ? &below : &above))
            return TINY_E_OVERFLOW;
    }
    if (!tinyi_size_add(above, bytes, &above) || !tinyi_size_mul(count, bytes, &count) ||
        above > (size_t)TINY_IDX_MAX || below > (size_t)TINY_IDX_MAX || count > (size_t)TINY_IDX_MAX)
        return TINY_E_OVERFLOW;
    *first = empty ? 0 : (uintptr_t)t->data - below;
    *end = empty ? 0 : (uintptr_t)t->data + above;
    return t->data || empty ? TINY_OK : TINY_E_ARGUMENT;
}

TINY_API tiny_status tiny_tensor_check(const tiny_tensor *t)
{
    uintptr_t first, end;
    return tinyi_tensor_reach(t, &first, &end);
}

TINY_API void tiny_tensor_span(const tiny_tensor *t, ptrdiff_t *lowest, ptrdiff_t *end)
{
    ptrdiff_t bytes = t ? (ptrdiff_t)tiny_dtype_bytes(t->dtype) : 0, lo = 0, hi = 0;
    int i;
    if (!lowest || !end) return;
    *lowest = *end = 0;
    if (!t) return;
    for (i = 0; i < t->rank; i++)
        if (t->dim[i] == 0) return;
    for (i = 0; i < t->rank; i++) {
        ptrdiff_t reach = (t->dim[i] - 1) * t->stride[i];
        if (reach < 0) lo += reach;
        else hi += reach;
    }
    *lowest = lo * bytes;
    *end = (hi + 1) * bytes;
}

void tinyi_want(tiny_tensor *want, tiny_dtype dtype, int rank, const tiny_idx *dim)
{
    int i;
    want->dtype = dtype;
    want->rank = rank;
    for (i = 0; i < rank; i++) want->dim[i] = dim[i];
}

const char *tinyi_shape_text(const tiny_tensor *t, char text[96])
{
    int i, at = 0;
    for (i = 0; i < t->rank && i < TINY_MAX_RANK; i++)
        at += snprintf(text + at, (size_t)(96 - at), "%s%td", i ? "x" : "", t->dim[i]);
    (void)snprintf(text + at, (size_t)(96 - at), "%s%s", t->rank ? " " : "", tiny_dtype_name(t->dtype));
    return text;
}
