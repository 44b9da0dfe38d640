/* tests/core/passes.h - the passes of this machine, for tests of the v_ layer
 *
 * A test lists its operations, ALL_OPS(OP) with OP(id, name, its expression over the operands), and names itself as
 * TINYI_PASS_FILE; it is then included once per pass, where APPLY makes a function that applies one operation to one
 * vector. All values travel as bits, so that -0, NaN and 2^31 count. */
#ifndef TINYI_PASS
#define OP_ID(id, name, ...) OP_##id,
#define OP_NAME(id, name, ...) #name,
enum { ALL_OPS(OP_ID) OP_COUNT };
static const char *const op_name[OP_COUNT] = { ALL_OPS(OP_NAME) };

typedef struct pass {
    const char *name;
    int lanes;
    unsigned cpu;                           /* its needs */
    void (*apply)(int op, void *y, const void *a, const void *b, const void *c, size_t n);
} pass;

#include "core/each_target.h"

static const pass passes[] = {
#if TINYI_HAVE_SCALAR
    { "scalar", 1, 0, apply_scalar },
#endif
#if TINYI_HAVE_W128
    { "w128", 4, TINYI_X86 ? TINY_CPU_SSE41 : 0, apply_w128 },
#endif
#if TINYI_HAVE_NEON
    { "neon", 4, TINY_CPU_NEON, apply_neon },
#endif
#if TINYI_HAVE_NEONDOT
    { "neondot", 4, TINY_CPU_NEON | TINY_CPU_DOTPROD, apply_neondot },
#endif
#if TINYI_HAVE_NEONMM
    { "neonmm", 4, TINY_CPU_NEON | TINY_CPU_DOTPROD | TINY_CPU_I8MM, apply_neonmm },
#endif
#if TINYI_HAVE_AVX2
    { "avx2", 8, TINY_CPU_AVX2, apply_avx2 },
#endif
#if TINYI_HAVE_AVX2VNNI
    { "avx2vnni", 8, TINY_CPU_AVX2 | TINY_CPU_AVXVNNI, apply_avx2vnni },
#endif
#if TINYI_HAVE_AVX512
    { "avx512", 16, TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI, apply_avx512 },
#endif
#if TINYI_HAVE_AVX512HALF
    { "avx512half", 8, TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI, apply_avx512half },
#endif
#if TINYI_HAVE_AMX
    { "amx", 16, TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI | TINY_CPU_AVX512VBMI | TINY_CPU_AVX512BF16, apply_amx },
#endif
};
#define EACH_PASS(p) (p = passes; p < passes + T_COUNT(passes); p++) if ((tinyi_cpu_features() & p->cpu) == p->cpu)

T_FN uint32_t bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
T_FN float flt(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
T_FN int is_nan(uint32_t u) { return (u & 0x7fffffffu) > 0x7f800000u; }
T_FN int32_t wrap(uint32_t u) { int32_t i; memcpy(&i, &u, 4); return i; }

#else /* ---- one pass: the operands of an operation, and how its result is stored */
#ifndef FLOATS
#define FLOATS(e) v_store(fy, e)
#define INTS(e) vi_store(iy, e)
#define BYTES(e) vb_store(y, e)
#define MASK(e) vi_store(iy, vi_select(e, vi_set(1), vi_zero()))
#define FA v_load(fa)
#define FB v_load(fb)
#define FC v_load(fc)
#define IA vi_load(ia)
#define IB vi_load(ib)
#define IC vi_load(ic)
#define BA vb_load(a)
#define BB vb_load(b)
#define BC vb_load(c)
#define MA vi_gt(IA, vi_zero())
#define MB vi_gt(IB, vi_zero())
#define OP_CASE(id, name, ...) case OP_##id: __VA_ARGS__; break;
#define APPLY(CASES) \
    static void TINY_FN(apply)(int op, void *y, const void *a, const void *b, const void *c, size_t n) \
    { \
        float *fy = (float *)y; \
        int32_t *iy = (int32_t *)y; \
        const float *fa = (const float *)a, *fb = (const float *)b, *fc = (const float *)c; \
        const int32_t *ia = (const int32_t *)a, *ib = (const int32_t *)b, *ic = (const int32_t *)c; \
        (void)fy; (void)iy; (void)fa; (void)fb; (void)fc; (void)ia; (void)ib; (void)ic; (void)n; \
        switch (op) { CASES default: break; } \
    }
#endif
#endif
