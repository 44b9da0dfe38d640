/* bench/limits.c - the limits of this machine: read, copy, multiply-add in f32 and int8
 *
 * The loops follow the vendor's manual: independent accumulators in registers, streams without
 * arithmetic. int8 is the best of the instructions that this processor has (AMX if the system permits it). */
#define _DEFAULT_SOURCE                     /* syscall */
#include "bench.h"
#include <stdio.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined __x86_64__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

b_limits b_max[2];

#define B_STREAM_BYTES ((size_t)1 << 28)

static volatile float b_sink;

#if defined __x86_64__
__attribute__((target("avx512f"))) static void b_fma_512(long n)
{
    __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(1e-9f), c[12];
    long i;
    int j;
    for (j = 0; j < 12; j++) c[j] = _mm512_set1_ps((float)j);
    for (i = 0; i < n; i++) {
#define B_F(k) c[k] = _mm512_fmadd_ps(c[k], a, b);
        B_F(0) B_F(1) B_F(2) B_F(3) B_F(4) B_F(5) B_F(6) B_F(7) B_F(8) B_F(9) B_F(10) B_F(11)
#undef B_F
    }
    for (j = 1; j < 12; j++) c[0] = _mm512_add_ps(c[0], c[j]);
    b_sink = _mm512_reduce_add_ps(c[0]);
}

__attribute__((target("avx2,fma"))) static void b_fma_256(long n)
{
    __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(1e-9f), c[12];
    float out[8];
    long i;
    int j;
    for (j = 0; j < 12; j++) c[j] = _mm256_set1_ps((float)j);
    for (i = 0; i < n; i++) {
#define B_F(k) c[k] = _mm256_fmadd_ps(c[k], a, b);
        B_F(0) B_F(1) B_F(2) B_F(3) B_F(4) B_F(5) B_F(6) B_F(7) B_F(8) B_F(9) B_F(10) B_F(11)
#undef B_F
    }
    for (j = 1; j < 12; j++) c[0] = _mm256_add_ps(c[0], c[j]);
    _mm256_storeu_ps(out, c[0]);
    b_sink = out[0];
}

__attribute__((target("avx512f,avx512vnni"))) static void b_vnni_512(long n)
{
    __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1), c[12];
    long i;
    int j;
    for (j = 0; j < 12; j++) c[j] = _mm512_set1_epi32(j);
    for (i = 0; i < n; i++) {
#define B_F(k) c[k] = _mm512_dpbusd_epi32(c[k], a, b);
        B_F(0) B_F(1) B_F(2) B_F(3) B_F(4) B_F(5) B_F(6) B_F(7) B_F(8) B_F(9) B_F(10) B_F(11)
#undef B_F
        __asm__ volatile("" : "+v"(a));
    }
    for (j = 1; j < 12; j++) c[0] = _mm512_add_epi32(c[0], c[j]);
    b_sink = (float)_mm512_reduce_add_epi32(c[0]);
}

static const unsigned char b_tile_config[64] __attribute__((aligned(64))) = {
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0
};

__attribute__((target("amx-tile,amx-int8"))) static void b_amx(long n)
{
    long i;
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(b_tile_config);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    _tile_zero(4); _tile_zero(5); _tile_zero(6); _tile_zero(7);
    for (i = 0; i < n; i++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_release();
}
#endif

/* portable: the compiler's vectors, as many independent sums as any of them has registers */
static void b_fma_plain(long n)
{
    float c[64];
    long i;
    int j;
    for (j = 0; j < 64; j++) c[j] = (float)j;
    for (i = 0; i < n; i++)
        for (j = 0; j < 64; j++) c[j] = c[j] * 1.0000001f + 1e-9f;
    for (j = 1; j < 64; j++) c[0] += c[j];
    b_sink = c[0];
}

typedef struct b_kernel { void (*run)(long n); double ops_each; long n; } b_kernel;

static double b_peak(const b_kernel *k, int threads)
{
    double best = 0;
    int round;
    for (round = 0; round < 9; round++) {
        double t = b_now();
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
#endif
        k->run(k->n);
        t = b_now() - t;
        if (round && k->ops_each * (double)k->n * threads / t > best) best = k->ops_each * (double)k->n * threads / t;
    }
    return best;
}

/* Sum of a big array by the library's own reduction would measure the library; this is the plain stream. */
#if defined __x86_64__
__attribute__((target("avx2"))) static float b_read_some(const float *p, size_t n)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    float out[8];
    size_t i;
    for (i = 0; i + 32 <= n; i += 32) {
        s0 = _mm256_add_ps(s0, _mm256_loadu_ps(p + i));
        s1 = _mm256_add_ps(s1, _mm256_loadu_ps(p + i + 8));
        s2 = _mm256_add_ps(s2, _mm256_loadu_ps(p + i + 16));
        s3 = _mm256_add_ps(s3, _mm256_loadu_ps(p + i + 24));
    }
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));
    return out[0] + out[7];
}
/* the same as four streams, each prefetched well ahead: more pages are open at once than one stream keeps open. An odd
 * number of lines is between them: a power of two would send all four to the same sets of the caches */
__attribute__((target("avx2"))) static float b_read_four(const float *p, size_t n)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    float out[8];
    size_t i, q;
    int k;
    if (n < 128) return b_read_some(p, n);
    q = ((n / 64 - 1) | 1) * 16;
    if (4 * q > n) q -= 32;
    for (i = 0; i < q; i += 16) {
        for (k = 0; k < 4; k++) _mm_prefetch((const char *)(p + (size_t)k * q + i + 512), _MM_HINT_T0);
        s0 = _mm256_add_ps(s0, _mm256_add_ps(_mm256_loadu_ps(p + i), _mm256_loadu_ps(p + i + 8)));
        s1 = _mm256_add_ps(s1, _mm256_add_ps(_mm256_loadu_ps(p + q + i), _mm256_loadu_ps(p + q + i + 8)));
        s2 = _mm256_add_ps(s2, _mm256_add_ps(_mm256_loadu_ps(p + 2 * q + i), _mm256_loadu_ps(p + 2 * q + i + 8)));
        s3 = _mm256_add_ps(s3, _mm256_add_ps(_mm256_loadu_ps(p + 3 * q + i), _mm256_loadu_ps(p + 3 * q + i + 8)));
    }
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));
    return out[0] + out[7] + b_read_some(p + 4 * q, n - 4 * q);
}
/* non-temporal stores: the written lines are not read first */
__attribute__((target("avx2"))) static void b_copy_past(float *to, const float *from, size_t n)
{
    size_t i;
    for (i = 0; i + 16 <= n; i += 16) {
        _mm_prefetch((const char *)(from + i + 512), _MM_HINT_T0);
        _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
        _mm256_stream_ps(to + i + 8, _mm256_loadu_ps(from + i + 8));
    }
    _mm_sfence();
}
#else
static float b_read_some(const float *p, size_t n)
{
    float s[16] = { 0 };
    size_t i;
    int j;
    for (i = 0; i + 16 <= n; i += 16)
        for (j = 0; j < 16; j++) s[j] += p[i + (size_t)j];
    for (j = 1; j < 16; j++) s[0] += s[j];
    return s[0];
}
#endif

typedef struct b_part { const float *from; size_t n; } b_part;
static void b_stream_part(tiny_team *team, void *arg)
{
    const b_part *a = (const b_part *)arg;
    const size_t n = a->n / (size_t)team->n / 64 * 64;
    const float *p = a->from + (size_t)team->i * n;
#if defined __x86_64__
    if (tiny_target_runs_here(TINY_TARGET_AVX2)) { b_sink = b_read_four(p, n); return; }
#endif
    b_sink = b_read_some(p, n);
}
/* by our own threads: those of OpenMP would go on spinning during the next row */
void b_stream(tiny_ctx *ctx, const void *from, size_t bytes)
{
    b_part a;
    a.from = (const float *)from;
    a.n = bytes / 4;
    b_must(ctx, tiny_parallel(ctx, 0, 0, 0, b_stream_part, &a));
}

/* The best of all forms is the limit. */
static double b_bandwidth(float *from, float *to, int threads)
{
    size_t n = B_STREAM_BYTES / 4 / (size_t)threads / 64 * 64;
    double best = 0;
    int round, forms = 1;
#if defined __x86_64__
    if (tiny_target_runs_here(TINY_TARGET_AVX2)) forms = 2;
#endif
    for (round = 0; round < 8 * forms; round++) {
        double t = b_now(), moved = (double)B_STREAM_BYTES * (to ? 2 : 1);
        int i;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads)
#endif
        for (i = 0; i < threads; i++) {
#if defined __x86_64__
            if (round % forms) {
                if (to) b_copy_past(to + (size_t)i * n, from + (size_t)i * n, n);
                else b_sink = b_read_four(from + (size_t)i * n, n);
                continue;
            }
#endif
            if (to) memcpy(to + (size_t)i * n, from + (size_t)i * n, n * 4);
            else b_sink = b_read_some(from + (size_t)i * n, n);
        }
        t = b_now() - t;
        if (round >= forms && moved / t > best) best = moved / t;
    }
    return best;
}

void b_limits_measure(void)
{
    float *from = (float *)b_alloc(B_STREAM_BYTES), *to = (float *)b_alloc(B_STREAM_BYTES);
    b_kernel f32 = { b_fma_plain, 128, 2000000 }, i8 = { NULL, 0, 0 };
    int k;
#if defined __x86_64__
    if (tiny_target_runs_here(TINY_TARGET_AVX2)) { f32.run = b_fma_256; f32.ops_each = 12 * 16; f32.n = 4000000; }
    if (tiny_target_runs_here(TINY_TARGET_AVX512)) {
        f32.run = b_fma_512; f32.ops_each = 12 * 32; f32.n = 4000000;
        i8.run = b_vnni_512; i8.ops_each = 12 * 128; i8.n = 4000000;
    }
    /* requesting the target also requests the tiles from the system */
    if (tiny_target_runs_here(TINY_TARGET_AMX) && syscall(SYS_arch_prctl, 0x1023, 18) == 0) {
        i8.run = b_amx;
        i8.ops_each = 4 * 16 * 16 * 64 * 2;
        i8.n = 400000;
    }
#endif
    for (k = 0; k < 2; k++) {
        int threads = k ? b_threads : 1;
        b_max[k].read = b_bandwidth(from, NULL, threads);
        b_max[k].copy = b_bandwidth(from, to, threads);
        b_max[k].f32 = b_peak(&f32, threads);
        b_max[k].i8 = i8.run ? b_peak(&i8, threads) : 0;
    }
}

void bench_limits(void)
{
    int k;
    b_note("The limits of this machine (best of seven passes of each form over %zu MB, or of registers only):",
           B_STREAM_BYTES >> 20);
    for (k = 0; k < 2; k++)
        b_note("%d thread%s: read %.1f GB/s, copy %.1f GB/s (read + written), f32 %.0f Gop/s, int8 %.0f Gop/s",
               k ? b_threads : 1, k && b_threads > 1 ? "s" : "", b_max[k].read * 1e-9, b_max[k].copy * 1e-9,
               b_max[k].f32 * 1e-9, b_max[k].i8 * 1e-9);
}
