/* src/core/sha256.c - SHA-256 and HMAC-SHA256
 * Paper    NIST FIPS 180-4, 4.1.2, 5.1.1, 6.2; H. Krawczyk, M. Bellare, R. Canetti, RFC 2104.
 * Formula  64 rounds over a block of 16 words, W[t] = s1(W[t-2]) + W[t-7] + s0(W[t-15]) + W[t-16] for t >= 16;
 *          HMAC(K, m) = H(K ^ opad || H(K ^ ipad || m)).
 * Cost     cycles a byte: plain C 13, vectors of AVX2 for the words 7.5, instructions about 2. One block waits for the
 *          other: the rounds are one chain.
 * Fast     SHA instructions of x86 and of 64-bit ARM compute the same bits, so they are used wherever the processor has
 *          them. Elsewhere the reference is written out: words change their names and not their places. There is no
 *          kernel for several messages at once: each connection has one message at a time. */
#include "core/sha256.h"
#include "core/cpu_inside.h"
#include "core/state_inside.h"
#include <string.h>
#if (defined __GNUC__ || defined __clang__) && (defined __x86_64__ || defined __i386__) && !defined __TINYC__ && \
    !defined TINY_NO_SIMD
#define TINYI_SHA_X86 1
#include <immintrin.h>
#else
#define TINYI_SHA_X86 0
#endif
#if (defined __GNUC__ || defined __clang__) && defined __aarch64__ && defined __ORDER_LITTLE_ENDIAN__ && \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined TINY_NO_SIMD
#define TINYI_SHA_ARM 1
#include <arm_neon.h>
#else
#define TINYI_SHA_ARM 0
#endif
#if defined _WIN32
#ifdef __cplusplus
extern "C"
#endif
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *, unsigned long);     /* RtlGenRandom */
#elif defined __linux__
#include <errno.h>
#include <sys/random.h>
#define TINYI_GETRANDOM 1
#elif (defined __unix__ || defined __APPLE__) && !defined TINY_NO_STDIO
#include <stdio.h>
#endif

enum { TINYI_SHA_PLAIN, TINYI_SHA_AVX2, TINYI_SHA_INSTRUCTIONS };       /* of tiny_sha256.fast */

static const uint32_t tinyi_sha_k[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u
};

TINYI_INLINE uint32_t tinyi_sha_rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }
TINYI_INLINE uint32_t tinyi_sha_word(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

/* the reference */
void tinyi_sha_blocks_ref(uint32_t h[8], const unsigned char *p, size_t n_blocks)
{
    uint32_t w[64], s[8];
    size_t t;
    for (; n_blocks; n_blocks--, p += 64) {
        for (t = 0; t < 16; t++) w[t] = tinyi_sha_word(p + 4 * t);
        for (; t < 64; t++) {
            const uint32_t a = w[t - 15], b = w[t - 2];
            w[t] = (tinyi_sha_rotr(b, 17) ^ tinyi_sha_rotr(b, 19) ^ b >> 10) + w[t - 7] +
                   (tinyi_sha_rotr(a, 7) ^ tinyi_sha_rotr(a, 18) ^ a >> 3) + w[t - 16];
        }
        memcpy(s, h, sizeof s);
        for (t = 0; t < 64; t++) {
            const uint32_t e = s[4], a = s[0];
            const uint32_t one = s[7] + (tinyi_sha_rotr(e, 6) ^ tinyi_sha_rotr(e, 11) ^ tinyi_sha_rotr(e, 25)) +
                                 ((e & s[5]) ^ (~e & s[6])) + tinyi_sha_k[t] + w[t];
            const uint32_t two = (tinyi_sha_rotr(a, 2) ^ tinyi_sha_rotr(a, 13) ^ tinyi_sha_rotr(a, 22)) +
                                 ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
            s[7] = s[6];
            s[6] = s[5];
            s[5] = s[4];
            s[4] = s[3] + one;
            s[3] = s[2];
            s[2] = s[1];
            s[1] = s[0];
            s[0] = one + two;
        }
        for (t = 0; t < 8; t++) h[t] += s[t];
    }
}

/* A round with the sum x of word and constant makes the new e, in the place of d, and the new a, in the place of h.
 * differ: a ^ b of the round before, which is b ^ c of this one */
#define TINYI_SHA_ROUND(a, b, c, d, e, f, g, h, x)                                                                \
    do {                                                                                                          \
        h += (tinyi_sha_rotr(e, 6) ^ tinyi_sha_rotr(e, 11) ^ tinyi_sha_rotr(e, 25)) + ((e & f) ^ (~e & g)) + (x); \
        d += h;                                                                                                   \
        differ &= a ^ b;                                                                                          \
        h += (tinyi_sha_rotr(a, 2) ^ tinyi_sha_rotr(a, 13) ^ tinyi_sha_rotr(a, 22)) + (differ ^ b);               \
        differ = a ^ b;                                                                                           \
    } while (0)
/* four rounds, and after two of these the names are what they were before */
#define TINYI_SHA_QUARTER(a, b, c, d, e, f, g, h, x0, x1, x2, x3) \
    do {                                                          \
        TINYI_SHA_ROUND(a, b, c, d, e, f, g, h, x0);              \
        TINYI_SHA_ROUND(h, a, b, c, d, e, f, g, x1);              \
        TINYI_SHA_ROUND(g, h, a, b, c, d, e, f, x2);              \
        TINYI_SHA_ROUND(f, g, h, a, b, c, d, e, x3);              \
    } while (0)
static void tinyi_sha_blocks_c(uint32_t s[8], const unsigned char *p, size_t n_blocks)
{
    uint32_t w[64];
    size_t t;
    for (; n_blocks; n_blocks--, p += 64) {
        uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7], differ = b ^ c;
        for (t = 0; t < 16; t++) w[t] = tinyi_sha_word(p + 4 * t);
        for (; t < 64; t++) {
            const uint32_t x = w[t - 15], y = w[t - 2];
            w[t] = (tinyi_sha_rotr(y, 17) ^ tinyi_sha_rotr(y, 19) ^ y >> 10) + w[t - 7] +
                   (tinyi_sha_rotr(x, 7) ^ tinyi_sha_rotr(x, 18) ^ x >> 3) + w[t - 16];
        }
        for (t = 0; t < 64; t += 8) {
            const uint32_t *k = tinyi_sha_k + t, *x = w + t;
            TINYI_SHA_QUARTER(a, b, c, d, e, f, g, h, k[0] + x[0], k[1] + x[1], k[2] + x[2], k[3] + x[3]);
            TINYI_SHA_QUARTER(e, f, g, h, a, b, c, d, k[4] + x[4], k[5] + x[5], k[6] + x[6], k[7] + x[7]);
        }
        s[0] += a; s[1] += b; s[2] += c; s[3] += d;
        s[4] += e; s[5] += f; s[6] += g; s[7] += h;
    }
}

/* the 64 rounds of a block of the words a b c d, by the instructions of either processor */
#define TINYI_SHA_BLOCK(a, b, c, d)     \
    do {                                \
        for (t = 0;; t += 16) {         \
            TINYI_SHA_FOUR(t, a);       \
            TINYI_SHA_FOUR(t + 4, b);   \
            TINYI_SHA_FOUR(t + 8, c);   \
            TINYI_SHA_FOUR(t + 12, d);  \
            if (t == 48) break;         \
            TINYI_SHA_NEXT(a, b, c, d); \
            TINYI_SHA_NEXT(b, c, d, a); \
            TINYI_SHA_NEXT(c, d, a, b); \
            TINYI_SHA_NEXT(d, a, b, c); \
        }                               \
    } while (0)
#if TINYI_SHA_ARM
/* as instructions in the text: compilers have the intrinsics only where the whole file may use them */
#define TINYI_SHA_ASM(op, to, x, y) __asm__(".arch_extension sha2\n\t" op : "+w"(to) : "w"(x), "w"(y))
/* Four rounds with the words w; a b c d in s0, e f g h in s1. */
#define TINYI_SHA_FOUR(t, w)                                             \
    do {                                                                 \
        const uint32x4_t k = vaddq_u32(w, vld1q_u32(tinyi_sha_k + (t))); \
        uint32x4_t was = s0;                                             \
        TINYI_SHA_ASM("sha256h %q0, %q1, %2.4s", s0, s1, k);             \
        TINYI_SHA_ASM("sha256h2 %q0, %q1, %2.4s", s1, was, k);           \
    } while (0)
/* a: the four words after those of d, from the sixteen a b c d */
#define TINYI_SHA_NEXT(a, b, c, d)                                                      \
    do {                                                                                \
        __asm__(".arch_extension sha2\n\tsha256su0 %0.4s, %1.4s" : "+w"(a) : "w"(b)); \
        TINYI_SHA_ASM("sha256su1 %0.4s, %1.4s, %2.4s", a, c, d);                        \
    } while (0)
static void tinyi_sha_blocks_arm(uint32_t h[8], const unsigned char *p, size_t n_blocks)
{
    uint32x4_t s0 = vld1q_u32(h), s1 = vld1q_u32(h + 4), a, b, c, d;
    size_t t;
    for (; n_blocks; n_blocks--, p += 64) {
        const uint32x4_t was0 = s0, was1 = s1;
        a = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p)));
        b = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16)));
        c = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 32)));
        d = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 48)));
        TINYI_SHA_BLOCK(a, b, c, d);
        s0 = vaddq_u32(s0, was0);
        s1 = vaddq_u32(s1, was1);
    }
    vst1q_u32(h, s0);
    vst1q_u32(h + 4, s1);
}
#undef TINYI_SHA_ASM
#endif

#if TINYI_SHA_X86
/* a: the four words after those of d, from the sixteen a b c d. A word twice in 64 bits turns by a shift; the last two
 * words want the first two. */
#define TINYI_SHA_WORDS(a, b, c, d)                                                                            \
    do {                                                                                                       \
        x = _mm_alignr_epi8(b, a, 4);                                                                          \
        x = _mm_xor_si128(_mm_xor_si128(_mm_or_si128(_mm_srli_epi32(x, 7), _mm_slli_epi32(x, 25)),             \
                                        _mm_or_si128(_mm_srli_epi32(x, 18), _mm_slli_epi32(x, 14))),           \
                          _mm_srli_epi32(x, 3));                                                               \
        a = _mm_add_epi32(_mm_add_epi32(a, x), _mm_alignr_epi8(d, c, 4));                                      \
        x = _mm_shuffle_epi32(d, 0xfa);                                                                        \
        x = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(x, 17), _mm_srli_epi64(x, 19)), _mm_srli_epi32(x, 10)); \
        a = _mm_add_epi32(a, _mm_move_epi64(_mm_shuffle_epi32(x, 0x88)));                                      \
        x = _mm_shuffle_epi32(a, 0x50);                                                                        \
        x = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(x, 17), _mm_srli_epi64(x, 19)), _mm_srli_epi32(x, 10)); \
        a = _mm_add_epi32(a, _mm_slli_si128(_mm_shuffle_epi32(x, 0x88), 8));                                   \
    } while (0)
#define TINYI_SHA_PUT(t, v)                                                                    \
    do {                                                                                       \
        const __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(tinyi_sha_k + (t))); \
        _mm_storeu_si128((__m128i *)(void *)(sum + (t) % 16), _mm_add_epi32(v, k));            \
    } while (0)
/* words by four in vectors, while the rounds go on; rotations that leave their source as it was */
__attribute__((target("avx2,bmi,bmi2"))) static void tinyi_sha_blocks_avx2(uint32_t s[8], const unsigned char *p,
                                                                           size_t n_blocks)
{
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    uint32_t sum[16];
    __m128i w[4], x;
    size_t t;
    for (; n_blocks; n_blocks--, p += 64) {
        uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7], differ = b ^ c;
        for (t = 0; t < 4; t++) {
            w[t] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * t)), turn);
            TINYI_SHA_PUT(4 * t, w[t]);
        }
        for (t = 16; t < 64; t += 16) {
            TINYI_SHA_WORDS(w[0], w[1], w[2], w[3]);
            TINYI_SHA_QUARTER(a, b, c, d, e, f, g, h, sum[0], sum[1], sum[2], sum[3]);
            TINYI_SHA_PUT(t, w[0]);
            TINYI_SHA_WORDS(w[1], w[2], w[3], w[0]);
            TINYI_SHA_QUARTER(e, f, g, h, a, b, c, d, sum[4], sum[5], sum[6], sum[7]);
            TINYI_SHA_PUT(t + 4, w[1]);
            TINYI_SHA_WORDS(w[2], w[3], w[0], w[1]);
            TINYI_SHA_QUARTER(a, b, c, d, e, f, g, h, sum[8], sum[9], sum[10], sum[11]);
            TINYI_SHA_PUT(t + 8, w[2]);
            TINYI_SHA_WORDS(w[3], w[0], w[1], w[2]);
            TINYI_SHA_QUARTER(e, f, g, h, a, b, c, d, sum[12], sum[13], sum[14], sum[15]);
            TINYI_SHA_PUT(t + 12, w[3]);
        }
        for (t = 0; t < 16; t += 8) {
            TINYI_SHA_QUARTER(a, b, c, d, e, f, g, h, sum[t], sum[t + 1], sum[t + 2], sum[t + 3]);
            TINYI_SHA_QUARTER(e, f, g, h, a, b, c, d, sum[t + 4], sum[t + 5], sum[t + 6], sum[t + 7]);
        }
        s[0] += a; s[1] += b; s[2] += c; s[3] += d;
        s[4] += e; s[5] += f; s[6] += g; s[7] += h;
    }
}
#undef TINYI_SHA_WORDS
#undef TINYI_SHA_PUT

/* Four rounds with the words w; each instruction does two of them. */
#define TINYI_SHA_FOUR(t, w)                                                                       \
    do {                                                                                           \
        k = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)(const void *)(tinyi_sha_k + (t)))); \
        s1 = _mm_sha256rnds2_epu32(s1, s0, k);                                                     \
        s0 = _mm_sha256rnds2_epu32(s0, s1, _mm_shuffle_epi32(k, 0x0e));                            \
    } while (0)
/* a: the four words after those of d, from the sixteen a b c d */
#define TINYI_SHA_NEXT(a, b, c, d) \
    a = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), d)

__attribute__((target("sha,sse4.1,ssse3"))) static void tinyi_sha_blocks_x86(uint32_t h[8], const unsigned char *p,
                                                                             size_t n_blocks)
{
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i s0, s1, a, b, c, d, k, was0, was1;
    size_t t;
    /* the instructions want the state as a b e f and c d g h */
    s0 = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)h), 0xb1);
    s1 = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(h + 4)), 0x1b);
    k = _mm_alignr_epi8(s0, s1, 8);
    s1 = _mm_blend_epi16(s1, s0, 0xf0);
    s0 = k;
    for (; n_blocks; n_blocks--, p += 64) {
        was0 = s0;
        was1 = s1;
        a = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), turn);
        b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)), turn);
        c = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 32)), turn);
        d = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 48)), turn);
        TINYI_SHA_BLOCK(a, b, c, d);
        s0 = _mm_add_epi32(s0, was0);
        s1 = _mm_add_epi32(s1, was1);
    }
    s0 = _mm_shuffle_epi32(s0, 0x1b);
    s1 = _mm_shuffle_epi32(s1, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(s0, s1, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(s1, s0, 8));
}
#endif

static int tinyi_sha_has(int form, unsigned cpu)
{
    if (form == TINYI_SHA_INSTRUCTIONS)
        return (TINYI_SHA_X86 && (cpu & TINY_CPU_SHA)) || (TINYI_SHA_ARM && (cpu & TINY_CPU_SHA_ARM));
    if (form == TINYI_SHA_AVX2) return TINYI_SHA_X86 && !(~cpu & (TINY_CPU_AVX2 | TINY_CPU_BMI2));
    return form == TINYI_SHA_PLAIN;
}
/* The form of this processor. cpuid takes a microsecond in a virtual machine, which is a block's time: the answer is
 * kept in each digest's state. */
static int tinyi_sha_kernel(void)
{
    const unsigned cpu = tinyi_cpu_features();
    int form = TINYI_SHA_INSTRUCTIONS;
    while (!tinyi_sha_has(form, cpu)) form--;
    return form;
}

static void tinyi_sha_blocks(tiny_sha256 *h, const unsigned char *p, size_t n_blocks)
{
#if TINYI_SHA_X86
    if (h->fast == TINYI_SHA_INSTRUCTIONS) {
        tinyi_sha_blocks_x86(h->h, p, n_blocks);
        return;
    }
    if (h->fast == TINYI_SHA_AVX2) {
        tinyi_sha_blocks_avx2(h->h, p, n_blocks);
        return;
    }
#elif TINYI_SHA_ARM
    if (h->fast == TINYI_SHA_INSTRUCTIONS) {
        tinyi_sha_blocks_arm(h->h, p, n_blocks);
        return;
    }
#endif
    tinyi_sha_blocks_c(h->h, p, n_blocks);
}

static void tinyi_sha_start(tiny_sha256 *h, int fast)
{
    static const uint32_t first[8] = { 0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                       0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u };
    memset(h, 0, sizeof *h);
    memcpy(h->h, first, sizeof first);
    h->fast = fast;
}
TINY_API void tiny_sha256_start(tiny_sha256 *h) { if (h) tinyi_sha_start(h, tinyi_sha_kernel()); }
TINYI_FN int tinyi_sha_start_as(tiny_sha256 *h, int form)
{
    if (!tinyi_sha_has(form, tinyi_cpu_features())) return 0;
    tinyi_sha_start(h, form);
    return 1;
}

TINY_API void tiny_sha256_add(tiny_sha256 *h, const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t held;
    if (!h || !p || !n) return;
    held = (size_t)(h->n_bytes % 64);
    h->n_bytes += n;
    if (held) {
        const size_t k = TINYI_MIN(n, 64 - held);
        memcpy(h->rest + held, p, k);
        if (held + k < 64) return;
        tinyi_sha_blocks(h, h->rest, 1);
        p += k;
        n -= k;
    }
    if (n >= 64) tinyi_sha_blocks(h, p, n / 64);
    if (n % 64) memcpy(h->rest, p + n / 64 * 64, n % 64);
}

TINY_API void tiny_sha256_end(tiny_sha256 *h, unsigned char digest[32])
{
    const uint64_t bits = h ? h->n_bytes * 8 : 0;
    size_t held = h ? (size_t)(h->n_bytes % 64) : 0, i;
    if (!h || !digest) return;
    h->rest[held++] = 0x80;
    if (held > 56) {
        memset(h->rest + held, 0, 64 - held);
        tinyi_sha_blocks(h, h->rest, 1);
        held = 0;
    }
    memset(h->rest + held, 0, 56 - held);
    for (i = 0; i < 8; i++) h->rest[56 + i] = (unsigned char)(bits >> (56 - 8 * i));
    tinyi_sha_blocks(h, h->rest, 1);
    for (i = 0; i < 32; i++) digest[i] = (unsigned char)(h->h[i / 4] >> (24 - 8 * (i % 4)));
}

TINY_API void tiny_sha256_of(const void *bytes, size_t n, unsigned char digest[32])
{
    tiny_sha256 h;
    tiny_sha256_start(&h);
    tiny_sha256_add(&h, bytes, n);
    tiny_sha256_end(&h, digest);
    tiny_wipe(&h, sizeof h);                /* the last bytes of what may be a key */
}

TINY_API void tiny_hmac_key(tiny_hmac *m, const void *key, size_t n)
{
    unsigned char block[64], in[64], out[64];
    const int fast = tinyi_sha_kernel();
    size_t i;
    if (!m || (!key && n)) return;
    memset(block, 0, sizeof block);
    if (n > sizeof block) tiny_sha256_of(key, n, block);
    else if (n) memcpy(block, key, n);
    for (i = 0; i < sizeof block; i++) {
        in[i] = block[i] ^ 0x36;
        out[i] = block[i] ^ 0x5c;
    }
    tinyi_sha_start(&m->inner, fast);
    tinyi_sha_start(&m->outer, fast);
    tiny_sha256_add(&m->inner, in, sizeof in);
    tiny_sha256_add(&m->outer, out, sizeof out);
    m->at = m->inner;
    tiny_wipe(block, sizeof block);
    tiny_wipe(in, sizeof in);
    tiny_wipe(out, sizeof out);
}
TINY_API void tiny_hmac_start(tiny_hmac *m) { if (m) m->at = m->inner; }
TINY_API void tiny_hmac_add(tiny_hmac *m, const void *bytes, size_t n) { if (m) tiny_sha256_add(&m->at, bytes, n); }
TINY_API void tiny_hmac_end(tiny_hmac *m, unsigned char digest[32])
{
    if (!m || !digest) return;
    tiny_sha256_end(&m->at, digest);
    m->at = m->outer;
    tiny_sha256_add(&m->at, digest, 32);
    tiny_sha256_end(&m->at, digest);
}

TINY_API int tiny_same_secret(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *p = (const volatile unsigned char *)a, *q = (const volatile unsigned char *)b;
    unsigned differ = n && (!p || !q);
    size_t i;
    for (i = 0; i < n && p && q; i++) differ |= (unsigned)(p[i] ^ q[i]);
    return !differ;
}

TINY_API void tiny_wipe(void *bytes, size_t n)
{
    volatile unsigned char *p = (volatile unsigned char *)bytes;
    while (p && n--) *p++ = 0;
}

TINY_API tiny_status tiny_random(tiny_ctx *ctx, void *bytes, size_t n)
{
    unsigned char *p = (unsigned char *)bytes;
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_random needs room");
#if defined _WIN32
    for (; n; p += TINYI_MIN(n, 65536), n -= TINYI_MIN(n, 65536))
        if (!SystemFunction036(p, (unsigned long)TINYI_MIN(n, 65536)))
            return tinyi_fail(ctx, TINY_E_IO, "the system gives no random bytes");
    return TINY_OK;
#elif defined TINYI_GETRANDOM
    while (n) {                             /* waits, at the start of the system, until it has enough noise */
        const ssize_t k = getrandom(p, TINYI_MIN(n, 256), 0);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return tinyi_fail(ctx, TINY_E_IO, "the system gives no random bytes (error %d)", errno);
        p += k;
        n -= (size_t)k;
    }
    return TINY_OK;
#elif (defined __unix__ || defined __APPLE__) && !defined TINY_NO_STDIO
    {
        FILE *f = fopen("/dev/urandom", "rb");
        size_t got = 0;
        if (f) {
            (void)setvbuf(f, NULL, _IONBF, 0);          /* no copy of them stays behind */
            got = fread(p, 1, n, f);
            (void)fclose(f);
        }
        return f && got == n ? TINY_OK : tinyi_fail(ctx, TINY_E_IO, "/dev/urandom gives no random bytes");
    }
#else
    (void)n;
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "this system has no source of random bytes");
#endif
}
