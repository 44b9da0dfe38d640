/* src/math/binary.simd.h */
#define TINYI_BIN_ADD(p, q) v_add(p, q)
#define TINYI_BIN_SUB(p, q) v_sub(p, q)
#define TINYI_BIN_MUL(p, q) v_mul(p, q)
#define TINYI_BIN_DIV(p, q) v_div(p, q)
/* v_min gives q where one is NaN */
#define TINYI_BIN_MIN(p, q) v_select(v_isnan(p), p, v_min(p, q))
#define TINYI_BIN_MAX(p, q) v_select(v_isnan(p), p, v_max(p, q))

/* P(at), Q(at): the operands at an element; P_N, Q_N: the r that are left there */
#define TINYI_BIN_LOOP(F, P, Q, P_N, Q_N)                                               \
    {                                                                                   \
        for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {                                \
            const v_f32 p0 = P(i), q0 = Q(i), p1 = P(i + V_LANES), q1 = Q(i + V_LANES); \
            v_store(y + i, F(p0, q0));                                                  \
            v_store(y + i + V_LANES, F(p1, q1));                                        \
        }                                                                               \
        if (i + V_LANES <= n) {                                                         \
            const v_f32 p = P(i), q = Q(i);                                             \
            v_store(y + i, F(p, q));                                                    \
            i += V_LANES;                                                               \
        }                                                                               \
        if (i < n) {                                                                    \
            const size_t r = n - i;                                                     \
            const v_f32 p = P_N, q = Q_N;                                               \
            v_store_n(y + i, F(p, q), r);                                               \
        }                                                                               \
    }
#define TINYI_BIN_A(at) v_load(a + (at))
#define TINYI_BIN_B(at) v_load(b + (at))
#define TINYI_BIN_VA(at) va
#define TINYI_BIN_VB(at) vb
#define TINYI_BIN(F)                                                                                                \
    if (!b_step) TINYI_BIN_LOOP(F, TINYI_BIN_A, TINYI_BIN_VB, v_load_n(a + i, r), vb)                               \
    else if (!a_step) TINYI_BIN_LOOP(F, TINYI_BIN_VA, TINYI_BIN_B, va, v_load_n(b + i, r))                          \
    else TINYI_BIN_LOOP(F, TINYI_BIN_A, TINYI_BIN_B, v_load_n(a + i, r), v_load_n(b + i, r))

static void TINY_FN(tinyi_binary_f32)(int f, float *y, const float *a, const float *b, size_t n, tiny_idx a_step,
                                      tiny_idx b_step)
{
    size_t i = 0;
    v_f32 va, vb;
    if (!n) return;
    va = v_set(*a);
    vb = v_set(*b);
    if (!a_step && !b_step) {               /* all are the first one */
        TINY_FN(tinyi_binary_f32)(f, y, a, b, 1, 1, 1);
        va = v_set(*y);
        for (; i < n; i += V_LANES) v_store_n(y + i, va, TINYI_MIN(n - i, V_LANES));
        return;
    }
    switch (f) {
    case TINYI_BINARY_ADD: TINYI_BIN(TINYI_BIN_ADD) break;
    case TINYI_BINARY_SUB: TINYI_BIN(TINYI_BIN_SUB) break;
    case TINYI_BINARY_MUL: TINYI_BIN(TINYI_BIN_MUL) break;
    case TINYI_BINARY_DIV: TINYI_BIN(TINYI_BIN_DIV) break;
    case TINYI_BINARY_MIN: TINYI_BIN(TINYI_BIN_MIN) break;
    default: TINYI_BIN(TINYI_BIN_MAX) break;
    }
}

static void TINY_FN(tinyi_scale_f32)(float *y, const float *x, size_t n, float alpha, float beta)
{
    const v_f32 va = v_set(alpha), vb = v_set(beta);
    size_t i = 0;
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_f32 p = v_load(x + i), q = v_load(x + i + V_LANES);
        v_store(y + i, v_add(v_mul(va, p), vb));
        v_store(y + i + V_LANES, v_add(v_mul(va, q), vb));
    }
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_add(v_mul(va, v_load(x + i)), vb));
    if (i < n) v_store_n(y + i, v_add(v_mul(va, v_load_n(x + i, n - i)), vb), n - i);
}

static void TINY_FN(tinyi_axpy_f32)(float *y, const float *x, size_t n, float alpha)
{
    const v_f32 va = v_set(alpha);
    size_t i = 0;
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_f32 p = v_load(x + i), q = v_load(x + i + V_LANES);
        v_store(y + i, v_add(v_load(y + i), v_mul(va, p)));
        v_store(y + i + V_LANES, v_add(v_load(y + i + V_LANES), v_mul(va, q)));
    }
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_add(v_load(y + i), v_mul(va, v_load(x + i))));
    if (i < n) v_store_n(y + i, v_add(v_load_n(y + i, n - i), v_mul(va, v_load_n(x + i, n - i))), n - i);
}

static void TINY_FN(tinyi_use_binary)(tinyi_kernels *k)
{
    TINYI_USE(k, binary_f32);
    TINYI_USE(k, scale_f32);
    TINYI_USE(k, axpy_f32);
}
#undef TINYI_BIN_ADD
#undef TINYI_BIN_SUB
#undef TINYI_BIN_MUL
#undef TINYI_BIN_DIV
#undef TINYI_BIN_MIN
#undef TINYI_BIN_MAX
#undef TINYI_BIN_LOOP
#undef TINYI_BIN_A
#undef TINYI_BIN_B
#undef TINYI_BIN_VA
#undef TINYI_BIN_VB
#undef TINYI_BIN
