/* tests/core/tensor.c - views: the bytes they cover, and the refused ones */
#include "t.h"

static void test_dense(void)
{
    float x[24];
    tiny_tensor t = tiny_tensor_3d(x, TINY_F32, 2, 3, 4), s = tiny_tensor_swap(t, 0, 2);
    ptrdiff_t lo, end;
    T_EQ_INT(tiny_tensor_count(&t), 24);
    T_EQ_INT(t.stride[0], 12);
    T_EQ_INT(t.stride[1], 4);
    T_EQ_INT(t.stride[2], 1);
    T_TRUE(tiny_tensor_is_dense(&t) && !tiny_tensor_is_dense(&s));
    T_EQ_INT(s.dim[0], 4);
    T_EQ_INT(s.stride[0], 1);
    tiny_tensor_span(&s, &lo, &end);
    T_EQ_INT(lo, 0);
    T_EQ_INT(end, 96);
    t.stride[1] = -4;
    tiny_tensor_span(&t, &lo, &end);
    T_EQ_INT(lo, -32);
    T_EQ_INT(end, 64);
    t = tiny_tensor_nd(x, TINY_F32, 0, NULL);
    T_EQ_INT(tiny_tensor_count(&t), 1);
    T_EQ_INT(tiny_tensor_check(&t), TINY_OK);
}

static void test_refused(void)
{
    float x[4];
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 2, 2), u;
    int i;
    T_EQ_INT(tiny_tensor_check(NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tiny_tensor_check(&t), TINY_OK);
    u = t; u.rank = 5;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_ARGUMENT);
    u = t; u.rank = -1;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_ARGUMENT);
    u = t; u.dtype = (tiny_dtype)77;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_DTYPE);
    u = t; u.dim[1] = -1;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_SHAPE);
    u = t; u.data = NULL;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_ARGUMENT);
    u.dim[0] = 0;
    T_EQ_INT(tiny_tensor_check(&u), TINY_OK);               /* empty: no data needed */
    u = t; u.stride[0] = TINY_IDX_MAX;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    u = t; u.stride[0] = -TINY_IDX_MAX - 1;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    u = tiny_tensor_2d(x, TINY_F32, TINY_IDX_MAX / 2, 8);
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    u = t; u.dim[0] = TINY_IDX_MAX; u.stride[0] = 0;        /* the address fits, the count of bytes does not */
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    for (i = 0; i < 2; i++) {               /* each axis reaches nearly 2^63 bytes: three of them wrap to less */
        const tiny_idx far_off = i ? -(TINY_IDX_MAX / 4) : TINY_IDX_MAX / 4;
        u = tiny_tensor_3d(x, TINY_F32, 2, 2, 2);
        u.stride[0] = u.stride[1] = u.stride[2] = far_off;
        T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    }
    /* few numbers, but the fourth row is further away than an index can express; above, then below */
    u = t; u.dim[0] = 3; u.dim[1] = 1; u.stride[0] = TINY_IDX_MAX / 8;
    T_EQ_INT(tiny_tensor_check(&u), TINY_OK);
    u.dim[0] = 4;
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    u.stride[0] = -u.stride[0];
    T_EQ_INT(tiny_tensor_check(&u), TINY_E_OVERFLOW);
    u.dim[0] = 3;
    T_EQ_INT(tiny_tensor_check(&u), TINY_OK);
    T_EQ_TEXT(tiny_dtype_name((tiny_dtype)-1), "?");
    T_EQ_INT(tiny_dtype_bytes((tiny_dtype)TINY_DTYPE_COUNT), 0);
    T_EQ_TEXT(tiny_dtype_name(TINY_I64), "i64");
    T_EQ_INT(tiny_dtype_bytes(TINY_I64), 8);
    T_EQ_INT(tiny_dtype_bytes(TINY_BF16), 2);
}

int main(void)
{
    T_RUN(test_dense);
    T_RUN(test_refused);
    return t_done();
}
