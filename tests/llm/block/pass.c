/* tests/llm/block/pass.c - products with block formats run on the best instructions of this processor, not on those of
 * a lesser pass
 *
 * Truth    the compiler's own test of the processor (x86), or the capability words of the operating system (ARM). A
 *          lesser pass would give the same numbers: only this test shows that the choice is right. */
#include "t.h"
#if (defined __x86_64__ || defined __i386__) && defined __GNUC__
#include <cpuid.h>
static int has(const char *what)
{
    unsigned a = 0, b, c, d;
    __builtin_cpu_init();
    if (!strcmp(what, "avxvnni"))
        return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
#ifdef TINYI_BF16_IN_C
    if (!strcmp(what, "avx512bf16")) return 1;
#endif
    if (!strcmp(what, "avx512bf16"))
        return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
    return 0;
}
#elif defined __aarch64__ && defined __linux__
#include <sys/auxv.h>
#include <asm/hwcap.h>
static int has(const char *what)
{
    if (!strcmp(what, "dotprod")) return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#ifdef HWCAP2_I8MM
    if (!strcmp(what, "i8mm")) return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
    return 0;
}
#else
#define UNKNOWN 1
#endif

/* passes inside a target that this compiler builds */
#if defined __clang__
#define MAKES(gcc, clang) (__clang_major__ >= (clang))
#elif defined __GNUC__
#define MAKES(gcc, clang) (__GNUC__ >= (gcc))
#else
#define MAKES(gcc, clang) 0
#endif

static const char *best(tiny_target target)
{
#ifndef UNKNOWN
    switch (target) {
#ifndef TINY_NO_VNNI
    case TINY_TARGET_AVX2: return MAKES(11, 12) && has("avxvnni") ? "avx2vnni" : "avx2";
#endif
    case TINY_TARGET_AVX512: return "avx512half";
    case TINY_TARGET_NEON: return has("dotprod") ? MAKES(10, 12) && has("i8mm") ? "neonmm" : "neondot" : "neon";
    default: break;
    }
#endif
    return tiny_target_name(target);
}

static void test_pass(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_Q4_0);
    float *x = t_rand(64, -1.0f, 1.0f), *ones = t_rand(128, 1.0f, 1.0f), y[2];
    void *packed = t_keep(tllm_format_bytes(f, 64) * 2);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 64),
                tw = tiny_tensor_2d(packed, TINY_U8, 2, (tiny_idx)tllm_format_bytes(f, 64)),
                ty = tiny_tensor_2d(y, TINY_F32, 1, 2);
    double sum = 0.0;
    int i;
#ifdef UNKNOWN
    if (target == TINY_TARGET_AVX2 || target == TINY_TARGET_NEON) {
        T_SKIP("nothing to compare with on this system");
        t_close(ctx);
        return;
    }
#endif
    f->pack(ones, packed, 128, NULL);
    for (i = 0; i < 64; i++) sum += (double)x[i];
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    for (i = 0; i < 2; i++) T_CLOSE(y[i], sum, 64.0 / 254.0);       /* each of x within half a step of its 8 bits */
    T_RAN_ON(ctx, t_vectors(target));     /* the tiles are for many rows */
    T_EQ_TEXT(tllm_matmul_pass(ctx), best(target));
    t_close(ctx);
}

/* With weights of 1, 16 numbers of 1 + 2^-10 have the sum 16 where x is rounded to bfloat16: nine or more rows, and
 * only where the processor multiplies such numbers. */
static void test_bfloat(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_BF16);
    float *x = t_rand(16 * 12, 1.0f + 1.0f / 1024, 1.0f + 1.0f / 1024), *ones = t_rand(16, 1.0f, 1.0f), y[12];
    unsigned char packed[32];
    tiny_tensor tw = tiny_tensor_2d(packed, TINY_U8, 1, 32);
    tiny_idx n, i;
    int rounds = target == TINY_TARGET_AMX;
#ifndef UNKNOWN
    rounds |= target == TINY_TARGET_AVX512 && MAKES(10, 9) && has("avx512bf16");
#endif
    f->pack(ones, packed, 16, NULL);
    for (n = 1; n <= 12; n++) {
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, 16), ty = tiny_tensor_2d(y, TINY_F32, n, 1);
        T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_BF16, &tw, NULL, &ty));
        for (i = 0; i < n; i++) T_CLOSE(y[i], rounds && n >= 9 ? 16.0 : 16.0 + 16.0 / 1024, 0.0);
        T_RAN_ON(ctx, n < 9 ? t_vectors(target) : target);
    }
    t_close(ctx);
}

static void test_reference(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    T_EQ_TEXT(tllm_matmul_pass(ctx), "reference");
    T_EQ_TEXT(tllm_matmul_pass(NULL), "reference");
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_pass);
    T_RUN_TARGETS(test_bfloat);
    T_RUN(test_reference);
    return t_done();
}
