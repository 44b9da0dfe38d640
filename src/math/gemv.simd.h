/* src/math/gemv.simd.h - a matrix times one to four vectors, read once at the speed of memory
 *
 * What makes it as fast as memory, measured on a server with two cores (Sapphire Rapids, 4 KB pages, out of cache):
 *  - Four streams that each go on for many pages. Rows r, r + h, r + 2h, r + 3h of a piece are read side by side, then
 *    the rows after them. Four neighbouring rows of 4 KB are four streams too, but each ends after a page and the
 *    fetching of the processor, which follows a stream into its next page, begins anew: 0.88 of the read bandwidth; h
 *    rows of 64 KB in all: 0.97 to 1.0; one stream alone: 0.62.
 *  - So a piece has 4 x 64 KB (TINYI_GEMV_BYTES), and is small enough that nobody waits long for the last one.
 *  - The lines 1 KB ahead are asked for (TINYI_GEMV_AHEAD), at the end of a row those of the row that follows in the
 *    stream:
 *    0.01 to 0.03. 512 bytes to 4 KB make no difference; prefetches that pass by the caches (nta) halve the speed.
 *  - A region that ends in a sleep loses 50 us, which is a tenth of the time of 16 MB: see TINYI_SPINS.
 * int8 4096 x 4096 went from 0.59 to 0.93-0.96 of the read bandwidth so, f16 from 0.75 to 0.93-0.96, bf16 to 0.94-0.98.
 *
 * dot: each number of w is used for all vectors. axpy: four rows of w are added into a piece of y that stays in the
 * first-level cache. Rows or vectors that are not there repeat the last one; their sums are dropped.                 */

#define TINYI_GEMV_1(X) X(0)
#define TINYI_GEMV_2(X) X(0) X(1)
#define TINYI_GEMV_4(X) X(0) X(1) X(2) X(3)

/* rows 0..3 of w times vector c: sums sc0..sc3 */
#define TINYI_GEMV_ZERO(c) v_f32 s##c##0 = v_zero(), s##c##1 = v_zero(), s##c##2 = v_zero(), s##c##3 = v_zero();
#define TINYI_GEMV_POINT(c) const float *x##c = x + (c < n_x ? c : n_x - 1) * x_row;
#define TINYI_GEMV_FMA(c)                       \
    {                                           \
        const v_f32 v = v_load(x##c + i);       \
        s##c##0 = v_fma(m0, v, s##c##0);        \
        s##c##1 = v_fma(m1, v, s##c##1);        \
        s##c##2 = v_fma(m2, v, s##c##2);        \
        s##c##3 = v_fma(m3, v, s##c##3);        \
    }
#define TINYI_GEMV_FMA_N(c)                     \
    {                                           \
        const v_f32 v = v_load_n(x##c + i, r);  \
        s##c##0 = v_fma(m0, v, s##c##0);        \
        s##c##1 = v_fma(m1, v, s##c##1);        \
        s##c##2 = v_fma(m2, v, s##c##2);        \
        s##c##3 = v_fma(m3, v, s##c##3);        \
    }
#define TINYI_GEMV_OUT(c)                                       \
    if (c < n_x) {                                              \
        float *t = y + c * y_col;                               \
        t[0] = v_sum(s##c##0);                                  \
        if (n > 1) t[apart * y_row] = v_sum(s##c##1);           \
        if (n > 2) t[2 * apart * y_row] = v_sum(s##c##2);       \
        if (n > 3) t[3 * apart * y_row] = v_sum(s##c##3);       \
    }
#define TINYI_GEMV_DOT(name, W_TYPE, LOAD, LOAD_N, LIST)                                                               \
    static void TINY_FN(name)(float *y, ptrdiff_t y_row, ptrdiff_t y_col, const W_TYPE *w, ptrdiff_t w_row,            \
                              size_t n_row, const float *x, ptrdiff_t x_row, int n_x, size_t k)                        \
    {                                                                                                                  \
        LIST(TINYI_GEMV_POINT)                                                                                         \
        while (n_row) {                                                                                                \
            const ptrdiff_t n = (ptrdiff_t)TINYI_MIN(n_row, 4), apart = n_row < 4 ? 1 : (ptrdiff_t)(n_row / 4);        \
            ptrdiff_t turn;                                                                                            \
            for (turn = 0; turn < apart; turn++, w += w_row, y += y_row) {                                             \
                const W_TYPE *w0 = w, *w1 = w + (n > 1 ? 1 : n - 1) * apart * w_row,                                   \
                             *w2 = w + (n > 2 ? 2 : n - 1) * apart * w_row, *w3 = w + (n - 1) * apart * w_row;         \
                size_t i = 0, end = k > TINYI_GEMV_AHEAD / sizeof(W_TYPE) ? k - TINYI_GEMV_AHEAD / sizeof(W_TYPE) : 0; \
                ptrdiff_t ahead = (ptrdiff_t)(k - end);                                                                \
                v_f32 m0, m1, m2, m3;                                                                                  \
                LIST(TINYI_GEMV_ZERO)                                                                                  \
                for (;;) {                                                                                             \
                    for (; i + V_LANES <= end; i += V_LANES) {                                                         \
                        TINYI_PREFETCH(w0 + i + ahead);                                                                \
                        TINYI_PREFETCH(w1 + i + ahead);                                                                \
                        TINYI_PREFETCH(w2 + i + ahead);                                                                \
                        TINYI_PREFETCH(w3 + i + ahead);                                                                \
                        m0 = LOAD(w0 + i);                                                                             \
                        m1 = LOAD(w1 + i);                                                                             \
                        m2 = LOAD(w2 + i);                                                                             \
                        m3 = LOAD(w3 + i);                                                                             \
                        LIST(TINYI_GEMV_FMA)                                                                           \
                    }                                                                                                  \
                    if (end == k) break;                                                                               \
                    /* the beginnings of the next rows */                                                              \
                    ahead = turn + 1 < apart ? w_row - (ptrdiff_t)end : -(ptrdiff_t)end;                               \
                    end = k;                                                                                           \
                }                                                                                                      \
                if (i < k) {                                                                                           \
                    const size_t r = k - i;                                                                            \
                    m0 = LOAD_N(w0 + i, r);                                                                            \
                    m1 = LOAD_N(w1 + i, r);                                                                            \
                    m2 = LOAD_N(w2 + i, r);                                                                            \
                    m3 = LOAD_N(w3 + i, r);                                                                            \
                    LIST(TINYI_GEMV_FMA_N)                                                                             \
                }                                                                                                      \
                LIST(TINYI_GEMV_OUT)                                                                                   \
            }                                                                                                          \
            w += (n - 1) * apart * w_row;                                                                              \
            y += (n - 1) * apart * y_row;                                                                              \
            n_row -= (size_t)(n * apart);                                                                              \
        }                                                                                                              \
    }
/* Forms of one, two and four vectors: 16 sums and what they meet want more than 16 registers, so avx2 has no four. The
 * plainest targets have fewer: w128, whose halves are dear to take apart, one and four. */
#if V_AVX512 || V_NEON
#define TINYI_GEMV_MOST 4
#define TINYI_GEMV_EACH(X, W, W_TYPE, LOAD, LOAD_N) \
    X(1, W, W_TYPE, LOAD, LOAD_N) X(2, W, W_TYPE, LOAD, LOAD_N) X(4, W, W_TYPE, LOAD, LOAD_N)
#define TINYI_GEMV_FORM(W) \
    (n == 1 ? TINY_FN(tinyi_gemv_dot_##W##1) : n == 2 ? TINY_FN(tinyi_gemv_dot_##W##2) : TINY_FN(tinyi_gemv_dot_##W##4))
#elif V_AVX2
#define TINYI_GEMV_MOST 2
#define TINYI_GEMV_EACH(X, W, W_TYPE, LOAD, LOAD_N) X(1, W, W_TYPE, LOAD, LOAD_N) X(2, W, W_TYPE, LOAD, LOAD_N)
#define TINYI_GEMV_FORM(W) (n == 1 ? TINY_FN(tinyi_gemv_dot_##W##1) : TINY_FN(tinyi_gemv_dot_##W##2))
#elif V_W128
#define TINYI_GEMV_MOST 4
#define TINYI_GEMV_EACH(X, W, W_TYPE, LOAD, LOAD_N) X(1, W, W_TYPE, LOAD, LOAD_N) X(4, W, W_TYPE, LOAD, LOAD_N)
#define TINYI_GEMV_FORM(W) (n == 1 ? TINY_FN(tinyi_gemv_dot_##W##1) : TINY_FN(tinyi_gemv_dot_##W##4))
#else
#define TINYI_GEMV_MOST 1
#define TINYI_GEMV_EACH(X, W, W_TYPE, LOAD, LOAD_N) X(1, W, W_TYPE, LOAD, LOAD_N)
#define TINYI_GEMV_FORM(W) TINY_FN(tinyi_gemv_dot_##W##1)
#endif
#define TINYI_GEMV_DOT_OF(N, W, W_TYPE, LOAD, LOAD_N) \
    TINYI_GEMV_DOT(tinyi_gemv_dot_##W##N, W_TYPE, LOAD, LOAD_N, TINYI_GEMV_##N)
TINYI_GEMV_EACH(TINYI_GEMV_DOT_OF, f32, float, v_load, v_load_n)
TINYI_GEMV_EACH(TINYI_GEMV_DOT_OF, f16, uint16_t, v_load_f16, v_load_f16_n)
TINYI_GEMV_EACH(TINYI_GEMV_DOT_OF, bf16, uint16_t, v_load_bf16, v_load_bf16_n)

static void TINY_FN(tinyi_gemv_dot)(float *y, ptrdiff_t y_row, ptrdiff_t y_col, const void *w, int dtype,
                                    ptrdiff_t w_row, size_t n_row, const float *x, ptrdiff_t x_row, int n_x, size_t k)
{
    for (; n_x > 0; n_x -= TINYI_GEMV_MOST, x += TINYI_GEMV_MOST * x_row, y += TINYI_GEMV_MOST * y_col) {
        const int n = TINYI_MIN(n_x, TINYI_GEMV_MOST);
        if (dtype == TINY_F16) TINYI_GEMV_FORM(f16)(y, y_row, y_col, (const uint16_t *)w, w_row, n_row, x, x_row, n, k);
        else if (dtype == TINY_BF16)
            TINYI_GEMV_FORM(bf16)(y, y_row, y_col, (const uint16_t *)w, w_row, n_row, x, x_row, n, k);
        else TINYI_GEMV_FORM(f32)(y, y_row, y_col, (const float *)w, w_row, n_row, x, x_row, n, k);
    }
}

/* y + x0 w0 + x1 w1 + x2 w2 + x3 w3, in this order */
#define TINYI_GEMV_ADD(at, LOAD, W)           \
    v_fma(v_set(x3), LOAD(W##3 + (at)),       \
          v_fma(v_set(x2), LOAD(W##2 + (at)), \
                v_fma(v_set(x1), LOAD(W##1 + (at)), v_fma(v_set(x0), LOAD(W##0 + (at)), v_load(y + (at))))))
#define TINYI_GEMV_WIDE ((V_SCALAR || V_W128 ? 1 : 2) * V_LANES)
/* Four lines at a time, neighbours or those of a list. While four of a list are added the next four are asked for:
 * nothing else would, as they lie anywhere. */
#define TINYI_GEMV_LINE(i) (w + (list ? list[i] : (ptrdiff_t)(i)) * w_k)
#define TINYI_GEMV_LINES(name, W_TYPE, LOAD, LOAD_N)                                                            \
    static void TINY_FN(name)(float *y, const W_TYPE *w, ptrdiff_t w_k, const int32_t *list, const float *x,    \
                              ptrdiff_t x_k, size_t k, size_t n)                                                \
    {                                                                                                           \
        size_t i = 0, j;                                                                                        \
        for (; i + 4 <= k; i += 4, x += 4 * x_k) {                                                              \
            const W_TYPE *w0 = TINYI_GEMV_LINE(i), *w1 = TINYI_GEMV_LINE(i + 1), *w2 = TINYI_GEMV_LINE(i + 2),  \
                         *w3 = TINYI_GEMV_LINE(i + 3);                                                          \
            const size_t next = i + 8 <= k ? i + 4 : i;                                                         \
            const W_TYPE *p0 = TINYI_GEMV_LINE(next), *p1 = TINYI_GEMV_LINE(next + 1),                          \
                         *p2 = TINYI_GEMV_LINE(next + 2), *p3 = TINYI_GEMV_LINE(next + 3);                      \
            const float x0 = x[0], x1 = x[x_k], x2 = x[2 * x_k], x3 = x[3 * x_k];                               \
            for (j = 0; j + TINYI_GEMV_WIDE <= n; j += TINYI_GEMV_WIDE) {                                       \
                v_f32 a, b = v_zero();                                                                          \
                if (list && TINYI_GEMV_WIDE > V_LANES) {                                                        \
                    TINYI_PREFETCH(p0 + j);                                                                     \
                    TINYI_PREFETCH(p1 + j);                                                                     \
                    TINYI_PREFETCH(p2 + j);                                                                     \
                    TINYI_PREFETCH(p3 + j);                                                                     \
                }                                                                                               \
                a = TINYI_GEMV_ADD(j, LOAD, w);                                                                 \
                if (TINYI_GEMV_WIDE > V_LANES) b = TINYI_GEMV_ADD(j + V_LANES, LOAD, w);                        \
                v_store(y + j, a);                                                                              \
                if (TINYI_GEMV_WIDE > V_LANES) v_store(y + j + V_LANES, b);                                     \
            }                                                                                                   \
            for (; j < n; j += V_LANES) {                                                                       \
                const size_t r = TINYI_MIN(n - j, V_LANES);                                                     \
                v_f32 a = v_fma(v_set(x0), LOAD_N(w0 + j, r), v_load_n(y + j, r));                              \
                a = v_fma(v_set(x1), LOAD_N(w1 + j, r), a);                                                     \
                a = v_fma(v_set(x2), LOAD_N(w2 + j, r), a);                                                     \
                a = v_fma(v_set(x3), LOAD_N(w3 + j, r), a);                                                     \
                v_store_n(y + j, a, r);                                                                         \
            }                                                                                                   \
        }                                                                                                       \
        for (; i < k; i++, x += x_k)                                                                            \
            for (j = 0; j < n; j += V_LANES) {                                                                  \
                const size_t r = TINYI_MIN(n - j, V_LANES);                                                     \
                v_store_n(y + j, v_fma(v_set(x[0]), LOAD_N(TINYI_GEMV_LINE(i) + j, r), v_load_n(y + j, r)), r); \
            }                                                                                                   \
    }
TINYI_GEMV_LINES(tinyi_gemv_lines_f32, float, v_load, v_load_n)
TINYI_GEMV_LINES(tinyi_gemv_lines_f16, uint16_t, v_load_f16, v_load_f16_n)
TINYI_GEMV_LINES(tinyi_gemv_lines_bf16, uint16_t, v_load_bf16, v_load_bf16_n)

static void TINY_FN(tinyi_gemv_lines)(float *y, const void *w, int dtype, ptrdiff_t w_k, const int32_t *list,
                                      const float *x, ptrdiff_t x_k, size_t k, size_t n)
{
    if (dtype == TINY_F16) TINY_FN(tinyi_gemv_lines_f16)(y, (const uint16_t *)w, w_k, list, x, x_k, k, n);
    else if (dtype == TINY_BF16) TINY_FN(tinyi_gemv_lines_bf16)(y, (const uint16_t *)w, w_k, list, x, x_k, k, n);
    else TINY_FN(tinyi_gemv_lines_f32)(y, (const float *)w, w_k, list, x, x_k, k, n);
}
static void TINY_FN(tinyi_gemv_axpy)(float *y, const void *w, int dtype, ptrdiff_t w_k, const float *x, ptrdiff_t x_k,
                                     size_t k, size_t n)
{
    TINY_FN(tinyi_gemv_lines)(y, w, dtype, w_k, NULL, x, x_k, k, n);
}
static void TINY_FN(tinyi_gemv_pick)(float *y, const void *w, int dtype, ptrdiff_t w_k, const int32_t *list,
                                     const float *x, size_t k, size_t n)
{
    TINY_FN(tinyi_gemv_lines)(y, w, dtype, w_k, list, x, 1, k, n);
}

static void TINY_FN(tinyi_use_gemv)(tinyi_kernels *k)
{
    TINYI_USE(k, gemv_dot);
    TINYI_USE(k, gemv_axpy);
    TINYI_USE(k, gemv_pick);
}

#undef TINYI_GEMV_1
#undef TINYI_GEMV_2
#undef TINYI_GEMV_4
#undef TINYI_GEMV_ZERO
#undef TINYI_GEMV_POINT
#undef TINYI_GEMV_FMA
#undef TINYI_GEMV_FMA_N
#undef TINYI_GEMV_OUT
#undef TINYI_GEMV_DOT
#undef TINYI_GEMV_DOT_OF
#undef TINYI_GEMV_EACH
#undef TINYI_GEMV_FORM
#undef TINYI_GEMV_MOST
#undef TINYI_GEMV_ADD
#undef TINYI_GEMV_LINE
#undef TINYI_GEMV_LINES
#undef TINYI_GEMV_WIDE
