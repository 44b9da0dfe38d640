/* src/math/gemm_i8.simd.h - blocks of the int8 product; in the passes with a byte dot instruction, and in that of
 * AMX */

#if V_AMX
static void TINY_FN(tinyi_gemm_i8_begin)(void)
{
    /* eight tiles of 16 rows of 64 bytes; constant data, since gcc 12 may drop stores that fill it */
    static const unsigned char config[64] = {
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0
    };
    TINYI_AMX_CONFIG(config);
}

static void TINY_FN(tinyi_gemm_i8_end)(void) { _tile_release(); }

/* y (rows <= 32, columns <= 32) from two strips of 16 rows of a and two panels of b; every strip and panel is whole in
 * memory, what is beyond rows and columns is computed and thrown away. */
static void TINY_FN(tinyi_gemm_i8_tile)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b,
                                        ptrdiff_t b_panel, size_t k, const int32_t *start_a, const int32_t *start_b,
                                        int rows, int columns)
{
    int32_t edge[32 * 32];
    const int whole = rows == 32 && columns == 32;
    int32_t *t = whole ? y : edge;
    const ptrdiff_t step = (whole ? y_row : 32) * 4, deep = 16 * a_row;
    const int low = rows > 16, wide = columns > 16;
    size_t i;
    (void)start_a;
    if (start_b) {                          /* stride 0: the same row 16 times */
        TINYI_AMX_LOAD(0, start_b, 0);
        TINYI_AMX_LOAD(1, start_b + (wide ? 16 : 0), 0);
        TINYI_AMX_LOAD(2, start_b, 0);
        TINYI_AMX_LOAD(3, start_b + (wide ? 16 : 0), 0);
    } else {
        if (!whole) {
            int r, c;
            for (r = 0; r < rows; r++) for (c = 0; c < columns; c++) edge[32 * r + c] = y[r * y_row + c];
        }
        TINYI_AMX_LOAD(0, t, step);
        TINYI_AMX_LOAD(1, t + 16, step);
        TINYI_AMX_LOAD(2, t + step * 4, step);
        TINYI_AMX_LOAD(3, t + step * 4 + 16, step);
    }
    if (low && wide)
        for (i = 0; i < k; i += 64, a += 64, b += 1024) {
            TINYI_AMX_LOAD(4, a, a_row);
            TINYI_AMX_LOAD(6, b, 64);
            _tile_dpbusd(0, 4, 6);
            TINYI_AMX_LOAD(7, b + b_panel, 64);
            _tile_dpbusd(1, 4, 7);
            TINYI_AMX_LOAD(5, a + deep, a_row);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
    else
        for (i = 0; i < k; i += 64, a += 64, b += 1024) {
            TINYI_AMX_LOAD(4, a, a_row);
            TINYI_AMX_LOAD(6, b, 64);
            _tile_dpbusd(0, 4, 6);
            if (wide) {
                TINYI_AMX_LOAD(7, b + b_panel, 64);
                _tile_dpbusd(1, 4, 7);
            }
            if (low) {
                TINYI_AMX_LOAD(5, a + deep, a_row);
                _tile_dpbusd(2, 5, 6);
                if (wide) _tile_dpbusd(3, 5, 7);
            }
        }
    TINYI_AMX_STORE(0, t, step);
    TINYI_AMX_STORE(1, t + 16, step);
    TINYI_AMX_STORE(2, t + step * 4, step);
    TINYI_AMX_STORE(3, t + step * 4 + 16, step);
    if (!whole) {
        int r;
        for (r = 0; r < rows; r++) {
            vi_store_n(y + r * y_row, vi_load(edge + 32 * r), (size_t)(columns < 16 ? columns : 16));
            if (wide) vi_store_n(y + r * y_row + 16, vi_load(edge + 32 * r + 16), (size_t)(columns - 16));
        }
    }
}

static void TINY_FN(tinyi_use_gemm_i8)(tinyi_kernels *k)
{
    TINYI_USE(k, gemm_i8_begin);
    TINYI_USE(k, gemm_i8_end);
    TINYI_USE(k, gemm_i8_tile);
}
#else
static void TINY_FN(tinyi_gemm_i8_begin)(void) {}
static void TINY_FN(tinyi_gemm_i8_end)(void) {}

#if V_W128 || (V_AVX2 && !V_VNNI)
#define TINYI_I8_PAIRS 1
#else
#define TINYI_I8_PAIRS 0
#endif

#if TINYI_I8_PAIRS
/* ---- the form of pairs, see gemm_i8.h
 * The multiplier of 16-bit lanes is in two of four pipes of Zen 3, additions run in all: half of the products are
 * additions. */
#define TINYI_I8_EACH(R) R(0) R(1) R(2) R(3)
#define TINYI_I8_BYTES (4 * V_LANES)        /* of a vector */
#define TINYI_I8_WIDE (2 * V_LANES)         /* columns of a block */

/* What stands before is done before what follows: four additions, two products, two sums. So the loop takes 3 % less
 * time than with sum after product, and sums stay in their registers. */
#if TINYI_X86 && (TINYI_GCC || TINYI_CLANG)
#define TINYI_I8_KEEP(v, w) __asm__("" : "+x"(v), "+x"(w))
#else
#define TINYI_I8_KEEP(v, w) ((void)0)
#endif

#define TINYI_I8_BEGIN(r)                                                                                             \
    v_i32 s##r = start_b ? vi_add(vi_load(start_b), vi_set(start_a[r])) : vi_zero();                                  \
    v_i32 u##r = start_b ? vi_add(vi_load(start_b + V_LANES), vi_set(start_a[r])) : vi_zero();
#define TINYI_I8_ADD(r)                                                                                               \
    {                                                                                                                 \
        v_i8 even = vb_set4(a + r * a_row + 4 * i), odd = vb_set4(a + r * a_row + 4 * i + TINYI_I8_BYTES);            \
        v_i8 p0, q0, p1, q1;                                                                                          \
        v_i32 d0, d1;                                                                                                 \
        TINYI_I8_KEEP(even, odd);                                                                                     \
        p0 = vw_add(even, odd0); q0 = vw_add(odd, even0);                                                             \
        p1 = vw_add(even, odd1); q1 = vw_add(odd, even1);                                                             \
        TINYI_I8_KEEP(p0, q0); TINYI_I8_KEEP(p1, q1);                                                                 \
        d0 = vw_dot(p0, q0); d1 = vw_dot(p1, q1);                                                                     \
        TINYI_I8_KEEP(d0, d1);                                                                                        \
        s##r = vi_add(s##r, d0); u##r = vi_add(u##r, d1);                                                             \
        TINYI_I8_KEEP(s##r, u##r);                                                                                    \
    }
#define TINYI_I8_END(r)                                                                                               \
    if (!start_b) {                                                                                                   \
        s##r = vi_add(s##r, vi_load(t + r * t_row));                                                                  \
        u##r = vi_add(u##r, vi_load(t + r * t_row + V_LANES));                                                        \
    }                                                                                                                 \
    vi_store(t + r * t_row, s##r);                                                                                    \
    vi_store(t + r * t_row + V_LANES, u##r);

/* y is wanted when the sums are done, the rows that follow then */
#define TINYI_I8_FETCH_Y(r) TINYI_PREFETCH(t + r * t_row);
#define TINYI_I8_FETCH_A(r) TINYI_PREFETCH(a + (4 + r) * a_row);

/* Four rows by two vectors, t_row apart. */
static void TINY_FN(tinyi_gemm_i8_block)(int32_t *t, ptrdiff_t t_row, const uint8_t *a, ptrdiff_t a_row,
                                         const int8_t *b, size_t k, const int32_t *start_a, const int32_t *start_b)
{
    int i;
    TINYI_I8_EACH(TINYI_I8_BEGIN)
    TINYI_I8_EACH(TINYI_I8_FETCH_Y)
    for (; k; k -= TINYI_I8_BYTES, a += 2 * TINYI_I8_BYTES) {
        TINYI_I8_EACH(TINYI_I8_FETCH_A)
        TINYI_UNROLL for (i = 0; i < V_LANES; i++, b += 128) {
            const v_i8 even0 = vb_load(b), odd0 = vb_load(b + TINYI_I8_BYTES);
            const v_i8 even1 = vb_load(b + 2 * TINYI_I8_BYTES), odd1 = vb_load(b + 3 * TINYI_I8_BYTES);
            TINYI_I8_EACH(TINYI_I8_ADD)
        }
    }
    TINYI_I8_EACH(TINYI_I8_END)
}

/* the same where y has fewer rows or columns: what is beyond them is computed and thrown away */
static void TINY_FN(tinyi_gemm_i8_edge)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b,
                                        size_t k, const int32_t *start_a, const int32_t *start_b, int rows, int columns)
{
    int32_t t[4 * TINYI_I8_WIDE] = { 0 };
    int r, c;
    for (r = 0; r < rows && !start_b; r++)
        for (c = 0; c < columns; c++) t[r * TINYI_I8_WIDE + c] = y[r * y_row + c];
    TINY_FN(tinyi_gemm_i8_block)(t, TINYI_I8_WIDE, a, a_row, b, k, start_a, start_b);
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++) y[r * y_row + c] = t[r * TINYI_I8_WIDE + c];
}

static void TINY_FN(tinyi_gemm_i8_tile)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b,
                                        ptrdiff_t b_panel, size_t k, const int32_t *start_a, const int32_t *start_b,
                                        int rows, int columns)
{
    int r, c;
    (void)b_panel;                          /* one panel */
    for (c = 0; c < columns; c += TINYI_I8_WIDE)
        for (r = 0; r < rows; r += 4) {
            int32_t *t = y + r * y_row + c;
            const uint8_t *x = a + r * a_row;
            const int32_t *s = start_b ? start_a + r : NULL, *v = start_b ? start_b + c : NULL;
            if (rows - r >= 4 && columns - c >= TINYI_I8_WIDE)
                TINY_FN(tinyi_gemm_i8_block)(t, y_row, x, a_row, b + 8 * c, k, s, v);
            else
                TINY_FN(tinyi_gemm_i8_edge)
                (t, y_row, x, a_row, b + 8 * c, k, s, v, TINYI_MIN(rows - r, 4), TINYI_MIN(columns - c, TINYI_I8_WIDE));
        }
}

static int32_t TINY_FN(tinyi_gemm_i8_row)(uint8_t *to, const uint8_t *x, int is_signed, size_t n)
{
    v_i32 s = vi_zero();
    size_t i;
    for (i = 0; i < n; i += TINYI_I8_BYTES, to += 2 * TINYI_I8_BYTES) {
        const v_i8 v = vb_load(x + i), even = is_signed ? vw_even_i8(v) : vw_even_u8(v),
                   odd = is_signed ? vw_odd_i8(v) : vw_odd_u8(v);
        vb_store(to, even);
        vb_store(to + TINYI_I8_BYTES, odd);
        s = vi_sub(s, vw_dot(even, odd));
    }
    return vi_sum(s);
}

static void TINY_FN(tinyi_gemm_i8_start)(int32_t *sums, int8_t *to, const int8_t *panel, size_t k)
{
    int j;
    for (j = 0; j < 16; j += V_LANES) {
        v_i32 s = vi_load(sums + j);
        size_t i;
        for (i = 0; i < k; i += 4) {
            const v_i8 v = vb_load(panel + 16 * i + 4 * j), even = vw_even_i8(v), odd = vw_odd_i8(v);
            vb_store(to + 32 * i + 8 * j, even);
            vb_store(to + 32 * i + 8 * j + TINYI_I8_BYTES, odd);
            s = vi_sub(s, vw_dot(even, odd));
        }
        vi_store(sums + j, s);
    }
}
#undef TINYI_I8_EACH
#undef TINYI_I8_BYTES
#undef TINYI_I8_WIDE
#undef TINYI_I8_KEEP
#undef TINYI_I8_BEGIN
#undef TINYI_I8_FETCH_Y
#undef TINYI_I8_FETCH_A
#undef TINYI_I8_ADD
#undef TINYI_I8_END

#else
/* ---- the form of bytes */
/* the matrix unit of ARM: in the one pass with SDOT, where the compiler has its words for a single function */
#if V_NEON && V_DOTPROD && (defined __ARM_FEATURE_MATMUL_INT8 || (TINYI_ARM_ATTR && !TINYI_MSVC))
#define TINYI_I8_MMLA 1
#else
#define TINYI_I8_MMLA 0
#endif

/* One panel by R rows, 16 / V_LANES vectors of sums a row: all of them stay in registers on every target but scalar. */
#define TINYI_I8_VECTORS (16 / V_LANES)
#define TINYI_I8_BLOCK(R)                                                                                     \
    do {                                                                                                      \
        v_i32 s[R][TINYI_I8_VECTORS];                                                                         \
        size_t i;                                                                                             \
        int r, v;                                                                                             \
        TINYI_UNROLL for (r = 0; r < (R); r++) TINYI_UNROLL for (v = 0; v < TINYI_I8_VECTORS; v++)            \
        {                                                                                                     \
            const int n = columns - v * V_LANES;                                                              \
            s[r][v] = start    ? vi_load(start + v * V_LANES)                                                 \
                      : n <= 0 ? vi_zero()                                                                    \
                               : vi_load_n(y + r * y_row + v * V_LANES, (size_t)(n < V_LANES ? n : V_LANES)); \
        }                                                                                                     \
        for (i = 0; i < k; i += 4) TINYI_UNROLL for (r = 0; r < (R); r++)                                     \
            {                                                                                                 \
                const v_i8 x = vb_set4(a + r * a_row + (ptrdiff_t)i);                                         \
                TINYI_UNROLL for (v = 0; v < TINYI_I8_VECTORS; v++) s[r][v] =                                 \
                    v_dot_u8i8(s[r][v], x, vb_load(b + 16 * i + 4 * V_LANES * v));                            \
            }                                                                                                 \
        TINYI_UNROLL for (r = 0; r < (R); r++) TINYI_UNROLL for (v = 0; v < TINYI_I8_VECTORS; v++)            \
        {                                                                                                     \
            const int n = columns - v * V_LANES;                                                              \
            if (n > 0) vi_store_n(y + r * y_row + v * V_LANES, s[r][v], (size_t)(n < V_LANES ? n : V_LANES)); \
        }                                                                                                     \
    } while (0)

static void TINY_FN(tinyi_gemm_i8_strip)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row,
                                         const int8_t *b, size_t k, const int32_t *start, int rows, int columns)
{
#if V_AVX512
    for (; rows >= 16; rows -= 16, y += 16 * y_row, a += 16 * a_row) TINYI_I8_BLOCK(16);
    for (; rows >= 8; rows -= 8, y += 8 * y_row, a += 8 * a_row) TINYI_I8_BLOCK(8);
#endif
#if V_LANES > 1
    for (; rows >= 4; rows -= 4, y += 4 * y_row, a += 4 * a_row) TINYI_I8_BLOCK(4);
#endif
    for (; rows >= 1; rows -= 1, y += y_row, a += a_row) TINYI_I8_BLOCK(1);
}

#if V_AVX512
/* Two panels by twelve rows: a row's four bytes are spread once for both. */
static void TINY_FN(tinyi_gemm_i8_pair)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b,
                                        ptrdiff_t b_panel, size_t k, const int32_t *start)
{
    v_i32 s0[12], s1[12];
    size_t i;
    int r;
#define TINYI_I8_EACH(R) R(0) R(1) R(2) R(3) R(4) R(5) R(6) R(7) R(8) R(9) R(10) R(11)
    TINYI_UNROLL for (r = 0; r < 12; r++) {
        s0[r] = vi_load(start ? start : y + r * y_row);
        s1[r] = vi_load(start ? start + 16 : y + r * y_row + 16);
    }
    for (i = 0; i < k; i += 4) {
        const v_i8 b0 = vb_load(b + 16 * i), b1 = vb_load(b + b_panel + 16 * (ptrdiff_t)i);
#define TINYI_I8_STEP(q)                                                        \
        {                                                                       \
            const v_i8 x = vb_set4(a + (q) * a_row + (ptrdiff_t)i);             \
            s0[q] = v_dot_u8i8(s0[q], x, b0);                                   \
            s1[q] = v_dot_u8i8(s1[q], x, b1);                                   \
        }
        TINYI_I8_EACH(TINYI_I8_STEP)
    }
    TINYI_UNROLL for (r = 0; r < 12; r++) {
        vi_store(y + r * y_row, s0[r]);
        vi_store(y + r * y_row + 16, s1[r]);
    }
}
#undef TINYI_I8_STEP
#undef TINYI_I8_EACH
#endif

#if TINYI_I8_MMLA
/* Four rows by a panel of 16 columns; y as a whole is there. A product of the matrix unit takes eight bytes of two rows
 * and of two columns: neighbouring groups of four bytes of the panel, zipped, are such pairs. 16 sums, 8 pairs, 2 pairs
 * of rows. */
TINYI_ATTR_I8MM static void TINY_FN(tinyi_gemm_i8_four)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row,
                                                        const int8_t *b, size_t k, const int32_t *start)
{
    int32x4_t s[2][8];
    size_t i;
    int r, c;
    TINYI_UNROLL for (r = 0; r < 2; r++)
        TINYI_UNROLL for (c = 0; c < 8; c++) {
            const int32_t *at = start ? start + 2 * c : y + 2 * r * y_row + 2 * c;
            s[r][c] = vcombine_s32(vld1_s32(at), vld1_s32(start ? at : at + y_row));
        }
    for (i = 0; i < k; i += 8) {
        int8x16_t pair[8];
        TINYI_UNROLL for (c = 0; c < 8; c += 2) {
            const int32x4_t lo = vreinterpretq_s32_s8(vld1q_s8(b + 16 * i + 8 * c)),
                            hi = vreinterpretq_s32_s8(vld1q_s8(b + 16 * i + 64 + 8 * c));
            pair[c] = vreinterpretq_s8_s32(vzip1q_s32(lo, hi));
            pair[c + 1] = vreinterpretq_s8_s32(vzip2q_s32(lo, hi));
        }
        TINYI_UNROLL for (r = 0; r < 2; r++) {
            const uint8_t *x = a + 2 * r * a_row + (ptrdiff_t)i;
            const uint8x16_t rows = vcombine_u8(vld1_u8(x), vld1_u8(x + a_row));
            TINYI_UNROLL for (c = 0; c < 8; c++) s[r][c] = vusmmlaq_s32(s[r][c], rows, pair[c]);
        }
    }
    TINYI_UNROLL for (r = 0; r < 2; r++)
        TINYI_UNROLL for (c = 0; c < 8; c++) {
            vst1_s32(y + 2 * r * y_row + 2 * c, vget_low_s32(s[r][c]));
            vst1_s32(y + (2 * r + 1) * y_row + 2 * c, vget_high_s32(s[r][c]));
        }
}

static void TINY_FN(tinyi_gemm_i8_tile_mmla)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row,
                                             const int8_t *b, ptrdiff_t b_panel, size_t k, const int32_t *start_a,
                                             const int32_t *start, int rows, int columns)
{
    (void)start_a;
    for (; columns > 0; columns -= 16, y += 16, b += b_panel, start = start ? start + 16 : NULL) {
        int r = 0;
        if (columns >= 16)
            for (; r + 4 <= rows; r += 4)
                TINY_FN(tinyi_gemm_i8_four)(y + r * y_row, y_row, a + r * a_row, a_row, b, k, start);
        if (r < rows)
            TINY_FN(tinyi_gemm_i8_strip)
            (y + r * y_row, y_row, a + r * a_row, a_row, b, k, start, rows - r, columns < 16 ? columns : 16);
    }
}
#endif

static void TINY_FN(tinyi_gemm_i8_tile)(int32_t *y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b,
                                        ptrdiff_t b_panel, size_t k, const int32_t *start_a, const int32_t *start,
                                        int rows, int columns)
{
    (void)start_a;
#if V_AVX512
    if (columns == 32)
        for (; rows >= 12; rows -= 12, y += 12 * y_row, a += 12 * a_row)
            TINY_FN(tinyi_gemm_i8_pair)(y, y_row, a, a_row, b, b_panel, k, start);
#endif
    TINY_FN(tinyi_gemm_i8_strip)(y, y_row, a, a_row, b, k, start, rows, columns < 16 ? columns : 16);
    if (columns > 16)
        TINY_FN(tinyi_gemm_i8_strip)
        (y + 16, y_row, a, a_row, b + b_panel, k, start ? start + 16 : NULL, rows, columns - 16);
}
#undef TINYI_I8_BLOCK
#undef TINYI_I8_VECTORS

/* sums[j] += -128 * the sum of row j of the panel, which stays where it is */
static void TINY_FN(tinyi_gemm_i8_start)(int32_t *sums, int8_t *to, const int8_t *panel, size_t k)
{
    const v_i8 ones = vb_set(1);
    int v;
    (void)to;
    for (v = 0; v < 16; v += V_LANES) {
        v_i32 s = vi_zero();
        size_t i;
        for (i = 0; i < k; i += 4) s = v_dot_u8i8(s, ones, vb_load(panel + 16 * i + 4 * v));
        vi_store(sums + v, vi_sub(vi_load(sums + v), vi_shl(s, 7)));
    }
}

static int32_t TINY_FN(tinyi_gemm_i8_row)(uint8_t *to, const uint8_t *x, int is_signed, size_t n)
{
    const v_i8 lift = vb_set(is_signed ? -128 : 0);
    size_t i;
    for (i = 0; i < n; i += 4 * V_LANES) vb_store(to + i, vb_xor(vb_load(x + i), lift));
    return 0;
}
#endif

static void TINY_FN(tinyi_gemm_i8_shape)(tinyi_gemm_i8_shape *shape)
{
    shape->bytes = TINYI_I8_PAIRS ? 2 : 1;
    shape->rows = TINYI_I8_PAIRS ? 128 : 32;
    shape->columns = TINYI_I8_PAIRS ? 16 : 32;
}

/* groups of four rows of n bytes, row apart, to [n][4] */
static void TINY_FN(tinyi_gemm_i8_weave)(int8_t *to, const int8_t *x, ptrdiff_t row, size_t n)
{
    size_t i = 0;
    int r;
#if !defined __BYTE_ORDER__ || __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__
    const uint8_t *p = (const uint8_t *)x;
    for (; i + V_LANES <= n; i += V_LANES) {
        const v_i32 low = vi_or(vi_load_u8(p + i), vi_shl(vi_load_u8(p + row + (ptrdiff_t)i), 8));
        const v_i32 high = vi_or(vi_shl(vi_load_u8(p + 2 * row + (ptrdiff_t)i), 16),
                                 vi_shl(vi_load_u8(p + 3 * row + (ptrdiff_t)i), 24));
        vi_store((int32_t *)(void *)(to + 4 * i), vi_or(low, high));
    }
#endif
    for (; i < n; i++)
        for (r = 0; r < 4; r++) to[4 * i + (size_t)r] = x[r * row + (ptrdiff_t)i];
}

/* y[j * y_step] = sum_i a[i] * b[j][i] over n rows of b, for one row of a: signed, or unsigned. Four rows of b at a
 * time, two sums each, fetched ahead as in gemv.simd.h; rows that are not there repeat the last one. */
#define TINYI_I8_FOUR(X) X(0) X(1) X(2) X(3)
#define TINYI_I8_ROW(r)                                           \
    const int8_t *b##r = b + (r < m ? r : m - 1) * apart * b_row; \
    v_i32 s##r = vi_zero(), t##r = s##r;
#define TINYI_I8_FETCH(r) TINYI_PREFETCH(b##r + i + ahead);
#define TINYI_I8_TWO(r)                               \
    s##r = TINYI_I8_DOT(s##r, x0, vb_load(b##r + i)); \
    t##r = TINYI_I8_DOT(t##r, x1, vb_load(b##r + i + TINYI_I8_BYTES));
#define TINYI_I8_LAST(r) s##r = TINYI_I8_DOT(s##r, x0, vb_load_n(b##r + i, q));
#define TINYI_I8_OUT(r) if (r < m) y[r * apart * y_step] = vi_sum(vi_add(s##r, t##r));
#define TINYI_I8_DOTS(name)                                                                              \
    static void TINY_FN(name)(int32_t * y, ptrdiff_t y_step, const int8_t *b, ptrdiff_t b_row, size_t n, \
                              const uint8_t *a, size_t k)                                                \
    {                                                                                                    \
        enum { TINYI_I8_BYTES = 4 * V_LANES };                                                           \
        while (n) {                                                                                      \
            const ptrdiff_t m = (ptrdiff_t)TINYI_MIN(n, 4), apart = n < 4 ? 1 : (ptrdiff_t)(n / 4);      \
            ptrdiff_t turn;                                                                              \
            for (turn = 0; turn < apart; turn++, b += b_row, y += y_step) {                              \
                size_t i = 0, end = k > TINYI_GEMV_AHEAD ? k - TINYI_GEMV_AHEAD : 0;                     \
                ptrdiff_t ahead = (ptrdiff_t)(k - end);                                                  \
                TINYI_I8_FOUR(TINYI_I8_ROW)                                                              \
                for (;;) {                                                                               \
                    for (; i + 2 * TINYI_I8_BYTES <= end; i += 2 * TINYI_I8_BYTES) {                     \
                        const v_i8 x0 = vb_load(a + i), x1 = vb_load(a + i + TINYI_I8_BYTES);            \
                        TINYI_I8_FOUR(TINYI_I8_FETCH)                                                    \
                        TINYI_I8_FOUR(TINYI_I8_FETCH2)                                                   \
                        TINYI_I8_FOUR(TINYI_I8_TWO)                                                      \
                    }                                                                                    \
                    if (end == k) break;                                                                 \
                    ahead = turn + 1 < apart ? b_row - (ptrdiff_t)end : -(ptrdiff_t)end;                 \
                    end = k;                                                                             \
                }                                                                                        \
                while (i < k) {                                                                          \
                    const size_t q = TINYI_MIN(k - i, (size_t)TINYI_I8_BYTES);                           \
                    const v_i8 x0 = vb_load_n(a + i, q);                                                 \
                    TINYI_I8_FOUR(TINYI_I8_LAST)                                                         \
                    i += q;                                                                              \
                }                                                                                        \
                TINYI_I8_FOUR(TINYI_I8_OUT)                                                              \
            }                                                                                            \
            b += (m - 1) * apart * b_row;                                                                \
            y += (m - 1) * apart * y_step;                                                               \
            n -= (size_t)(m * apart);                                                                    \
        }                                                                                                \
    }
#if V_AVX512                                /* two vectors are two lines */
#define TINYI_I8_FETCH2(r) TINYI_PREFETCH(b##r + i + ahead + 64);
#else
#define TINYI_I8_FETCH2(r)
#endif
#define TINYI_I8_DOT v_dot_i8
TINYI_I8_DOTS(tinyi_gemm_i8_dot_signed)
#undef TINYI_I8_DOT
#define TINYI_I8_DOT v_dot_u8i8
TINYI_I8_DOTS(tinyi_gemm_i8_dot_unsigned)

static void TINY_FN(tinyi_gemm_i8_dot)(int32_t *y, ptrdiff_t y_step, const int8_t *b, ptrdiff_t b_row, size_t n,
                                       const uint8_t *a, int a_signed, size_t k)
{
    (a_signed ? TINY_FN(tinyi_gemm_i8_dot_signed) : TINY_FN(tinyi_gemm_i8_dot_unsigned))(y, y_step, b, b_row, n, a, k);
}
#undef TINYI_I8_DOT
#undef TINYI_I8_FOUR
#undef TINYI_I8_ROW
#undef TINYI_I8_FETCH
#undef TINYI_I8_FETCH2
#undef TINYI_I8_TWO
#undef TINYI_I8_LAST
#undef TINYI_I8_OUT
#undef TINYI_I8_DOTS

static void TINY_FN(tinyi_use_gemm_i8)(tinyi_kernels *k)
{
    TINYI_USE(k, gemm_i8_begin);
    TINYI_USE(k, gemm_i8_end);
    TINYI_USE(k, gemm_i8_tile);
#if !TINYI_I8_PAIRS && TINYI_I8_MMLA && !TINYI_BY_NAME
    if (k->cpu & TINY_CPU_I8MM) k->gemm_i8_tile = TINY_FN(tinyi_gemm_i8_tile_mmla);
#endif
    TINYI_USE(k, gemm_i8_shape);
    TINYI_USE(k, gemm_i8_row);
    TINYI_USE(k, gemm_i8_start);
    TINYI_USE(k, gemm_i8_weave);
    TINYI_USE(k, gemm_i8_dot);
}
#undef TINYI_I8_PAIRS
#undef TINYI_I8_MMLA
#endif
