/* src/gnn/quant/nibble.simd.h - codes and sums of nibbles, compiled once per target
 *
 * 18 rows of nibbles up to 14 add up in bytes (252); a vector of bytes and 15 in each are the lower numbers, shifted
 * the upper ones. The byte sums then go to memory in the order of the features, and are added to 32 bits from there. */
#define TINYI_NIBBLE_BYTES (4 * V_LANES)
#define TINYI_NIBBLE_GROUPS (TINYI_NIBBLE_BYTES / 8)   /* of a vector; 0: it holds less than one */

/* 16 numbers at a time: the store of a vector of 32-bit codes as bytes is a loop of constant length, which compilers
 * know */
TINYI_FORCE_INLINE int TINY_FN(tinyi_nibble_part)(uint8_t *code, const float *x, const float *step, size_t n, v_f32 all,
                                                  v_f32 limit, v_f32 factor, int lift)
{
    int32_t t[16];
    size_t i;
    int bad = 0;
    for (i = 0; i < n; i += V_LANES) {
        const size_t m = n - i < V_LANES ? n - i : V_LANES;
        const v_f32 v = v_mul(m < V_LANES ? v_load_n(x + i, m) : v_load(x + i), factor);
        const v_f32 s =
            !step ? all
                  : v_max(v_abs(m < V_LANES ? v_select(v_first(m), v_load_n(step + i, m), all) : v_load(step + i)),
                          v_set(TGNN_A2Q_STEP));
        const v_f32 z = v_div(v_abs(v), s), q = v_trunc(v_add(v_min(z, limit), v_set(0.5f)));
        const v_i32 c = v_to_i32(q);
        if (vm_any(v_isnan(v))) bad |= TINYI_NIBBLE_NAN;
        if (vm_any(v_lt(v, v_zero()))) bad |= TINYI_NIBBLE_BELOW;
        vi_store(t + i, vi_add(vi_set(lift), vi_select(v_lt(v, v_zero()), vi_sub(vi_zero(), c), c)));
    }
    if (n == 16)
        for (i = 0; i < 16; i++) code[i] = (uint8_t)t[i];
    else
        for (i = 0; i < n; i++) code[i] = (uint8_t)t[i];
    return bad;
}

static int TINY_FN(tinyi_nibble_codes)(uint8_t *code, const float *x, size_t n, float step, float limit, int lift)
{
    size_t i;
    int bad = 0;
    for (i = 0; i + 16 <= n; i += 16)
        bad |= TINY_FN(tinyi_nibble_part)(code + i, x + i, NULL, 16, v_set(step), v_set(limit), v_set(1.0f), lift);
    if (i < n)
        bad |= TINY_FN(tinyi_nibble_part)(code + i, x + i, NULL, n - i, v_set(step), v_set(limit), v_set(1.0f), lift);
    return bad;
}

static int TINY_FN(tinyi_nibble_columns)(uint8_t *code, const float *x, const float *step, size_t n, float factor)
{
    size_t i;
    int bad = 0;
    for (i = 0; i + 16 <= n; i += 16)
        bad |= TINY_FN(tinyi_nibble_part)(code + i, x + i, step + i, 16, v_set(1.0f), v_set(7.0f), v_set(factor), 7);
    if (i < n)
        bad |= TINY_FN(tinyi_nibble_part)(code + i, x + i, step + i, n - i, v_set(1.0f), v_set(7.0f), v_set(factor), 7);
    return bad & TINYI_NIBBLE_NAN;
}

/* 8 bytes at a time: what is left of a row, and where a vector is shorter */
TINYI_FORCE_INLINE void TINY_FN(tinyi_nibble_group)(int32_t *sum, const unsigned char *table, size_t row_bytes,
                                                    const int32_t *col, int64_t edges)
{
    const uint64_t nibbles = UINT64_C(0x0f0f0f0f0f0f0f0f);
    unsigned char room[16];
    int64_t p = 0, end;
    int i;
    while (p < edges) {
        uint64_t low = 0, high = 0, v;
        for (end = edges - p < 18 ? edges : p + 18; p < end; p++) {
            memcpy(&v, table + (size_t)col[p] * row_bytes, 8);
            low += v & nibbles;
            high += v >> 4 & nibbles;
        }
        memcpy(room, &low, 8);
        memcpy(room + 8, &high, 8);
        for (i = 0; i < 16; i++) sum[i] += room[i];
    }
}

#if V_AVX512
/* 64 features are half a vector: vectors of 32 bytes are faster than partial loads */
#define TINYI_NIBBLE_ADD(to, bytes) \
    _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_loadu_si512(to), _mm512_cvtepu8_epi32(bytes)))
static void TINY_FN(tinyi_nibble_half)(int32_t *sum, const unsigned char *table, size_t row_bytes, const int32_t *col,
                                       int64_t edges)
{
    const __m256i nibbles = _mm256_set1_epi8(15);
    int64_t p = 0, end;
    while (p < edges) {
        __m256i low = _mm256_setzero_si256(), high = low, even;
        for (end = edges - p < 18 ? edges : p + 18; p < end; p++) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(table + (size_t)col[p] * row_bytes));
            low = _mm256_add_epi8(low, _mm256_and_si256(v, nibbles));
            high = _mm256_add_epi8(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibbles));
        }
        even = _mm256_unpacklo_epi64(low, high);        /* groups 0 and 2 */
        high = _mm256_unpackhi_epi64(low, high);
        TINYI_NIBBLE_ADD(sum, _mm256_castsi256_si128(even));
        TINYI_NIBBLE_ADD(sum + 16, _mm256_castsi256_si128(high));
        TINYI_NIBBLE_ADD(sum + 32, _mm256_extracti128_si256(even, 1));
        TINYI_NIBBLE_ADD(sum + 48, _mm256_extracti128_si256(high, 1));
    }
}
#undef TINYI_NIBBLE_ADD
#endif

static void TINY_FN(tinyi_nibble_sums)(int32_t *sum, const unsigned char *table, size_t row_bytes, const int32_t *col,
                                       int64_t edges, size_t groups)
{
    size_t g = 0;
    memset(sum, 0, groups * 16 * sizeof *sum);
#if V_LANES > 1
    /* On avx512, whose partial loads are fast, a rest of more than half a vector counts as one. */
    for (; groups - g >= (V_LANES == 16 ? TINYI_NIBBLE_GROUPS / 2 + 1 : TINYI_NIBBLE_GROUPS);
         g += TINYI_MIN(groups - g, TINYI_NIBBLE_GROUPS)) {
        const size_t n = TINYI_MIN(groups - g, TINYI_NIBBLE_GROUPS);
        const v_i8 nibbles = vb_set(15);
        unsigned char low_room[TINYI_NIBBLE_BYTES], high_room[TINYI_NIBBLE_BYTES], room[2 * TINYI_NIBBLE_BYTES];
        int64_t p = 0, end;
        while (p < edges) {
            v_i8 low = vb_zero(), high = vb_zero();
            size_t i;
            for (end = edges - p < 18 ? edges : p + 18; p < end; p++) {
                const unsigned char *row = table + (size_t)col[p] * row_bytes + 8 * g;
                const v_i8 v = n == TINYI_NIBBLE_GROUPS ? vb_load(row) : vb_load_n(row, 8 * n);
                low = vb_add(low, vb_and(v, nibbles));
                high = vb_add(high, vb_shr(v, 4));
            }
            vb_store(low_room, low);
            vb_store(high_room, high);
            for (i = 0; i < n; i++) {
                memcpy(room + 16 * i, low_room + 8 * i, 8);
                memcpy(room + 16 * i + 8, high_room + 8 * i, 8);
            }
            for (i = 0; i < 16 * n; i += V_LANES)
                vi_store(sum + 16 * g + i, vi_add(vi_load(sum + 16 * g + i), vi_load_u8(room + i)));
        }
    }
#endif
#if V_AVX512
    if (groups - g == 4) {
        TINY_FN(tinyi_nibble_half)(sum + 16 * g, table + 8 * g, row_bytes, col, edges);
        g = groups;
    }
#endif
    for (; g < groups; g++) TINY_FN(tinyi_nibble_group)(sum + 16 * g, table + 8 * g, row_bytes, col, edges);
}

static void TINY_FN(tinyi_nibble_finish)(float *y, const int32_t *sum, int32_t less, const float *step,
                                         const float *bias, size_t n, float factor)
{
    const v_f32 f = v_set(factor), least = v_set(TGNN_A2Q_STEP);
    const v_i32 l = vi_set(less);
    size_t i;
    for (i = 0; i < n; i += V_LANES) {
        const size_t m = n - i < V_LANES ? n - i : V_LANES;
        const v_f32 s = v_max(v_abs(m < V_LANES ? v_load_n(step + i, m) : v_load(step + i)), least);
        v_f32 v = v_mul(v_mul(v_from_i32(vi_sub(m < V_LANES ? vi_load_n(sum + i, m) : vi_load(sum + i), l)), s), f);
        if (bias) v = v_add(v, m < V_LANES ? v_load_n(bias + i, m) : v_load(bias + i));
        if (m < V_LANES) v_store_n(y + i, v, m);
        else v_store(y + i, v);
    }
}

static const tinyi_nibble_kernels TINY_FN(tinyi_nibble_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_nibble_codes),
                                                                  TINY_FN(tinyi_nibble_columns),
                                                                  TINY_FN(tinyi_nibble_sums),
                                                                  TINY_FN(tinyi_nibble_finish) };
TINYI_TABLE(tinyi_nibble_kernels, tinyi_nibble_kernels, TINY_FN(tinyi_nibble_table))
#undef TINYI_NIBBLE_BYTES
#undef TINYI_NIBBLE_GROUPS
