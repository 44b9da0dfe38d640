/* src/core/tensor.h - a view of an array of numbers
 *
 * Rank 0 to 4, dim[0] outermost. Strides count elements. They may be 0 (one value for the whole axis) or negative.
 * A view owns nothing: the data stay with the caller. */
#ifndef TINYI_TENSOR_H
#define TINYI_TENSOR_H
#include "core/status.h"
TINYI_C_BEGIN

#define TINY_MAX_RANK 4

/* name, its text, bytes of one element */
#define TINYI_DTYPES(D)                                                         \
    D(F32, "f32", 4) D(F16, "f16", 2) D(BF16, "bf16", 2) D(F64, "f64", 8)       \
    D(I8, "i8", 1) D(U8, "u8", 1) D(I16, "i16", 2) D(I32, "i32", 4) D(I64, "i64", 8)
#define TINYI_DTYPE_ENUM(name, text, bytes) TINY_##name,
typedef enum tiny_dtype { TINYI_DTYPES(TINYI_DTYPE_ENUM) TINY_DTYPE_COUNT } tiny_dtype;
#undef TINYI_DTYPE_ENUM

typedef struct tiny_tensor {
    void *data;
    tiny_dtype dtype;
    int rank;
    tiny_idx dim[TINY_MAX_RANK];
    tiny_idx stride[TINY_MAX_RANK];         /* in elements */
} tiny_tensor;

TINY_API const char *tiny_dtype_name(tiny_dtype dtype);     /* "f32"; "?" for an unknown one */
TINY_API size_t tiny_dtype_bytes(tiny_dtype dtype);         /* 0 for an unknown one */

/* Dense row-major views. */
TINY_API tiny_tensor tiny_tensor_1d(void *data, tiny_dtype dtype, tiny_idx n);
TINY_API tiny_tensor tiny_tensor_2d(void *data, tiny_dtype dtype, tiny_idx rows, tiny_idx cols);
TINY_API tiny_tensor tiny_tensor_3d(void *data, tiny_dtype dtype, tiny_idx a, tiny_idx b, tiny_idx c);
TINY_API tiny_tensor tiny_tensor_4d(void *data, tiny_dtype dtype, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d);
TINY_API tiny_tensor tiny_tensor_nd(void *data, tiny_dtype dtype, int rank, const tiny_idx *dim);

/* The same data with axes a and b exchanged. */
TINY_API tiny_tensor tiny_tensor_swap(tiny_tensor t, int a, int b);

TINY_API tiny_idx tiny_tensor_count(const tiny_tensor *t);  /* product of the dims; 1 for rank 0 */
TINY_API int tiny_tensor_is_dense(const tiny_tensor *t);    /* row-major without gaps */

/* Checks that rank and dtype are valid, that no dimension is negative, that every byte can be addressed, and that data
 * is not NULL unless the tensor is empty. */
TINY_API tiny_status tiny_tensor_check(const tiny_tensor *t);

/* The range of bytes that the view can touch, as offsets from data: the lowest, and one past the highest. The view must
 * have passed tiny_tensor_check. */
TINY_API void tiny_tensor_span(const tiny_tensor *t, ptrdiff_t *lowest, ptrdiff_t *end);

TINYI_C_END
#endif
