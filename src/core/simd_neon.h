/* src/core/simd_neon.h - the v_ layer in NEON of 64-bit ARM; v_dot with SDOT in the neondot pass */
typedef float32x4_t v_f32;
typedef int32x4_t v_i32;
typedef uint32x4_t v_mask;                  /* all bits of a lane or none */
typedef int8x16_t v_i8;

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_i32 vi_iota(void)
{
    static const int32_t t[4] = { 0, 1, 2, 3 };
    return vld1q_s32(t);
}
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return vcgtq_s32(vdupq_n_s32((int32_t)n), vi_iota()); }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return vdupq_n_f32(0.0f); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return vdupq_n_f32(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return vld1q_f32(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { vst1q_f32(p, v); }
/* two lanes if there are two, then one: no loop, no call */
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n)
{
    if (n > 3) return vld1q_f32(p);
    if (n == 3) return vld1q_lane_f32(p + 2, vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f)), 2);
    if (n == 2) return vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
    return n ? vld1q_lane_f32(p, vdupq_n_f32(0.0f), 0) : vdupq_n_f32(0.0f);
}
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n)
{
    if (n > 3) vst1q_f32(p, v);
    else if (n > 1) {
        vst1_f32(p, vget_low_f32(v));
        if (n == 3) vst1q_lane_f32(p + 2, v, 2);
    }
    else if (n) vst1q_lane_f32(p, v, 0);
}
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_half_load_n)(const uint16_t *p, size_t n)
{
    uint16_t t[4] = { 0, 0, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++) t[i] = p[i];
    return vld1_u16(t);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store_n)(uint16_t *p, uint16x4_t h, size_t n)
{
    uint16_t t[4];
    size_t i;
    vst1_u16(t, h);
    for (i = 0; i < n; i++) p[i] = t[i];
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_f16_up)(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_f16_down)(v_f32 v) { return vreinterpret_u16_f16(vcvt_f16_f32(v)); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_bf16_up)(uint16x4_t h) { return vreinterpretq_f32_u32(vshll_n_u16(h, 16)); }
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_bf16_down)(v_f32 v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16);
    const uint32x4_t r = vaddq_u32(u, vaddq_u32(vandq_u32(top, vdupq_n_u32(1)), vdupq_n_u32(0x7fff)));
    return vmovn_u32(vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(r, 16), vorrq_u32(top, vdupq_n_u32(0x40))));
}
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return TINY_FN(tinyi_f16_up)(vld1_u16(p)); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n)
{
    return TINY_FN(tinyi_f16_up)(TINY_FN(tinyi_half_load_n)(p, n));
}
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { vst1_u16(p, TINY_FN(tinyi_f16_down)(v)); }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_f16_down)(v), n);
}
TINYI_FORCE_INLINE v_f32 v_load_f16_each(const void *p, ptrdiff_t step)
{
    const unsigned char *at = (const unsigned char *)p;
    uint16_t a, b, c;
    memcpy(&a, at + step, 2);
    memcpy(&b, at + 2 * step, 2);
    memcpy(&c, at + 3 * step, 2);
    return TINY_FN(tinyi_f16_up)(
        vset_lane_u16(c, vset_lane_u16(b, vset_lane_u16(a, vreinterpret_u16_u8(vld1_u8(at)), 1), 2), 3));
}
TINYI_FORCE_INLINE v_f32 v_set_f16(const void *p)
{
    uint16_t t;
    memcpy(&t, p, 2);
    return TINY_FN(tinyi_f16_up)(vdup_n_u16(t));
}
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return TINY_FN(tinyi_bf16_up)(vld1_u16(p)); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n)
{
    return TINY_FN(tinyi_bf16_up)(TINY_FN(tinyi_half_load_n)(p, n));
}
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { vst1_u16(p, TINY_FN(tinyi_bf16_down)(v)); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n);
}

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return vaddq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return vsubq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return vmulq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return vdivq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return vfmaq_f32(c, a, b); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return vfmsq_f32(c, a, b); }
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return vnegq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return vabsq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return vsqrtq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return vrndnq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { return vrndmq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return vrndq_f32(a); }
TINYI_FORCE_INLINE float v_sum(v_f32 a) { return vaddvq_f32(a); }
TINYI_FORCE_INLINE void v_sum4(float *y, v_f32 a, v_f32 b, v_f32 c, v_f32 d)
{
    vst1q_f32(y, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}
TINYI_FORCE_INLINE float v_hmax(v_f32 a) { return vmaxvq_f32(a); }
TINYI_FORCE_INLINE float v_hmin(v_f32 a) { return vminvq_f32(a); }

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return vcltq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return vcleq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return vceqq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return vmvnq_u32(vceqq_f32(a, b)); }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return vmvnq_u32(vceqq_f32(a, a)); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return vbslq_f32(m, a, b); }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return vandq_u32(a, b); }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return vorrq_u32(a, b); }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return vmvnq_u32(a); }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return vmaxvq_u32(a) != 0; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return vminvq_u32(a) != 0; }

/* ---- conversions */
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return vcvtnq_s32_f32(a); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return vcvtq_f32_s32(a); }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return vreinterpretq_s32_f32(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return vreinterpretq_f32_s32(a); }
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i)
{
    float t[4];
    t[0] = p[vgetq_lane_s32(i, 0)];
    t[1] = p[vgetq_lane_s32(i, 1)];
    t[2] = p[vgetq_lane_s32(i, 2)];
    t[3] = p[vgetq_lane_s32(i, 3)];
    return vld1q_f32(t);
}

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return vdupq_n_s32(0); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return vdupq_n_s32(x); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return vld1q_s32(p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { vst1q_s32(p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n)
{
    if (n > 3) return vld1q_s32(p);
    if (n == 3) return vld1q_lane_s32(p + 2, vcombine_s32(vld1_s32(p), vdup_n_s32(0)), 2);
    if (n == 2) return vcombine_s32(vld1_s32(p), vdup_n_s32(0));
    return n ? vld1q_lane_s32(p, vdupq_n_s32(0), 0) : vdupq_n_s32(0);
}
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n)
{
    if (n > 3) vst1q_s32(p, v);
    else if (n > 1) {
        vst1_s32(p, vget_low_s32(v));
        if (n == 3) vst1q_lane_s32(p + 2, v, 2);
    }
    else if (n) vst1q_lane_s32(p, v, 0);
}
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p)
{
    uint32_t t;
    memcpy(&t, p, 4);
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(t)))));
}
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p)
{
    uint32_t t;
    memcpy(&t, p, 4);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(t))))));
}
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return vaddq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return vsubq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return vmulq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return vandq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return vorrq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return veorq_s32(a, b); }
#if TINYI_GCC || TINYI_CLANG                /* the operator takes a variable at -O0 and becomes an immediate later */
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n)
{
    return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << (uint32_t)n);
}
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n)
{
    return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> (uint32_t)n);
}
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return a >> n; }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return vreinterpretq_s8_u8(vreinterpretq_u8_s8(a) >> (uint8_t)n); }
TINYI_FORCE_INLINE v_i8 vb_shl(v_i8 a, int n) { return vreinterpretq_s8_u8(vreinterpretq_u8_s8(a) << (uint8_t)n); }
#else
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(n)); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-n)));
}
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(-n)); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return vreinterpretq_s8_u8(vshlq_u8(vreinterpretq_u8_s8(a), vdupq_n_s8((int8_t)-n)));
}
TINYI_FORCE_INLINE v_i8 vb_shl(v_i8 a, int n) { return vshlq_s8(a, vdupq_n_s8((int8_t)n)); }
#endif
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return vminq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return vmaxq_s32(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return vceqq_s32(a, b); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return vcgtq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return vbslq_s32(m, a, b); }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a) { return vaddvq_s32(a); }
TINYI_FORCE_INLINE v_i32 vi_pairs(v_i32 a, v_i32 b) { return vpaddq_s32(a, b); }

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return vdupq_n_s8(0); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { return vdupq_n_s8(x); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { return vld1q_s8((const int8_t *)p); }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p)
{
    int32_t x;
    memcpy(&x, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(x));
}
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { vst1q_s8((int8_t *)p, v); }
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    int8_t t[16];
    memset(t, 0, sizeof t);
    memcpy(t, p, n);
    return vld1q_s8(t);
}
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { return vandq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { return vorrq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { return veorq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { return vaddq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { return vsubq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i) { return vqtbl1q_s8(vb_load(t), vreinterpretq_u8_s8(i)); }
/* the bytes of number i stand at 4 i and the three behind it */
TINYI_FORCE_INLINE v_f32 v_table4(const float *t, v_i32 i)
{
    const v_i32 at = vi_add(vi_mul(vi_and(i, vi_set(3)), vi_set(0x04040404)), vi_set(0x03020100));
    return vreinterpretq_f32_s8(vb_table16(t, vreinterpretq_s8_s32(at)));
}
TINYI_FORCE_INLINE v_i8 vb_merge(v_i8 a, v_i8 b, v_i8 m) { return vbslq_s8(vreinterpretq_u8_s8(m), b, a); }
TINYI_FORCE_INLINE v_i8 vb_bits(const void *p)
{
    static const uint8_t bit[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint8_t *at = (const uint8_t *)p;
    return vreinterpretq_s8_u8(vtstq_u8(vcombine_u8(vld1_dup_u8(at), vld1_dup_u8(at + 1)), vld1q_u8(bit)));
}
#if V_DOTPROD
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
#if TINYI_DOT_ASM
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b));
    return acc;
#else
    return vdotq_s32(acc, a, b);
#endif
}
#else
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const int16x8_t lo = vmull_s8(vget_low_s8(a), vget_low_s8(b)), hi = vmull_high_s8(a, b);
    /* neighbours, then neighbours of those: byte products 4j..4j+3 meet in lane j */
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(lo), vpaddlq_s16(hi)));
}
#endif
/* a unsigned is (a ^ 128) + 128 with the bracket signed; a sum of 128 * b takes part as another dot product */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    acc = v_dot_i8(acc, veorq_s8(a, vdupq_n_s8(-128)), b);
    return vsubq_s32(acc, v_dot_i8(vdupq_n_s32(0), vdupq_n_s8(-128), b));
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }

/* ---- products of pairs of rows */
TINYI_FORCE_INLINE v_i8 vb_lows(v_i8 a, v_i8 b) { return vcombine_s8(vget_low_s8(a), vget_low_s8(b)); }
TINYI_FORCE_INLINE v_i8 vb_zip_low(v_i8 a, v_i8 b) { return vzip1q_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_zip_high(v_i8 a, v_i8 b) { return vzip2q_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_highs(v_i8 a, v_i8 b) { return vcombine_s8(vget_high_s8(a), vget_high_s8(b)); }
TINYI_FORCE_INLINE v_f32 v_zip_low(v_f32 a, v_f32 b) { return vzip1q_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_zip_high(v_f32 a, v_f32 b) { return vzip2q_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_twice(const float *p) { const float32x2_t t = vld1_f32(p); return vcombine_f32(t, t); }
#if V_I8MM
TINYI_FORCE_INLINE v_i32 v_mmla_i8(v_i32 acc, v_i8 a, v_i8 b)
{
#if TINYI_MMLA_ASM
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b));
    return acc;
#else
    return vmmlaq_s32(acc, a, b);
#endif
}
#endif
