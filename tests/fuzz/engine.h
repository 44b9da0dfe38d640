/* tests/fuzz/engine.h - the frame of a fuzz target that reads bytes: contexts whose memory is watched, and, where there
 * is no libFuzzer, an engine of our own that changes the files of the corpus; every sentence is searched for control
 * characters
 *
 *     static void target(tiny_ctx *ctx, const uint8_t *data, size_t size) { ... }
 *     #define FUZZ_NAME "gguf"
 *     #include "engine.h"      last
 *
 *     build/fuzz/gguf-random SECONDS SEED FILE ...     for that long; 25000x in place of seconds: that many inputs
 *     */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "one_line.h"
#ifndef FUZZ_EXTRA
#define FUZZ_EXTRA ((size_t)1 << 20)        /* allowed in addition to twice the input */
#endif

static size_t fuzz_held, fuzz_most;

static void *fuzz_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    (void)user;
    fuzz_held = fuzz_held - old_bytes + n_bytes;
    if (fuzz_held > fuzz_most) {
        fprintf(stderr, FUZZ_NAME ": %lu bytes are held, the most allowed are %lu\n", (unsigned long)fuzz_held,
                (unsigned long)fuzz_most);
        abort();
    }
    if (n_bytes) return realloc(old, n_bytes);
    free(old);
    return NULL;
}

/* The sentence of any refused input is one line without control characters. */
static void fuzz_log(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    (void)level;
    if (!one_line(sentence)) return;
    fprintf(stderr, FUZZ_NAME ": the sentence has a raw character at byte %d\n", (int)(one_line(sentence) - sentence));
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tiny_ctx *ctx;
    static const uint8_t none = 0;
    size_t before;
    if (!ctx) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.allocator.realloc_fn = fuzz_realloc;
        d.n_threads = 1;
        d.log = fuzz_log;
        fuzz_most = SIZE_MAX;
        if (tiny_ctx_open(&d, &ctx)) abort();
    }
    before = fuzz_held;
    fuzz_most = before + 2 * size + FUZZ_EXTRA;
    target(ctx, size ? data : &none, size);
#ifdef FUZZ_CTX_EACH                            /* a forward pass leaves its scratch with the context */
    tiny_ctx_close(ctx);
    ctx = NULL;
    before = 0;
#endif
    if (fuzz_held != before) {
        fprintf(stderr, FUZZ_NAME ": %lu bytes were not freed\n", (unsigned long)(fuzz_held - before));
        abort();
    }
    return 0;
}

#ifndef WITH_LIBFUZZER
typedef struct fuzz_seed { unsigned char *bytes; size_t n; } fuzz_seed;

static fuzz_seed fuzz_load(const char *path)
{
    fuzz_seed s = { NULL, 0 };
    FILE *f = fopen(path, "rb");
    s.bytes = (unsigned char *)malloc(1u << 18);
    if (!s.bytes) exit(2);
    if (f) {
        s.n = fread(s.bytes, 1, 1u << 18, f);
        (void)fclose(f);
    }
    return s;
}

/* a few changes: bits, bytes, numbers that wrap, a piece moved or repeated, the end cut off */
static size_t fuzz_change(tiny_rng *r, unsigned char *p, size_t n, size_t room)
{
    static const uint64_t numbers[] = { 0,
                                        1,
                                        2,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x100,
                                        0xffff,
                                        0x7fffffff,
                                        0x80000000u,
                                        0xffffffffu,
                                        UINT64_C(1) << 32,
                                        UINT64_C(1) << 61,
                                        UINT64_C(1) << 62,
                                        UINT64_C(1) << 63,
                                        UINT64_MAX,
                                        UINT64_MAX - 7 };
    unsigned k, times = 1 + tiny_rng_u32(r) % 6;
    while (times--) {
        size_t at = n ? tiny_rng_u32(r) % n : 0, len = n ? 1 + tiny_rng_u32(r) % 32 : 0;
        if (len > n - at) len = n - at;
        switch (tiny_rng_u32(r) % 8) {
        case 0: if (n) p[at] = (unsigned char)(p[at] ^ 1u << tiny_rng_u32(r) % 8); break;
        case 1: if (n) p[at] = (unsigned char)tiny_rng_u32(r); break;
        case 2: case 3: {
            uint64_t v = numbers[tiny_rng_u32(r) % (sizeof numbers / sizeof numbers[0])];
            size_t width = tiny_rng_u32(r) % 2 ? 8 : 4;
            for (k = 0; k < width && at + k < n; k++) p[at + k] = (unsigned char)(v >> 8 * k);
            break;
        }
        case 4: if (n) n = at + 1; break;
        case 5: memmove(p + at, p + at + len, n - at - len); n -= len; break;
        case 6:
            if (n + len <= room) {
                memmove(p + at + len, p + at, n - at);
                n += len;
            }
            break;
        default:
            if (n) memmove(p + tiny_rng_u32(r) % (n - len + 1), p + at, len);
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *far = argc > 1 ? argv[1] : "10";
    const int counted = *far && far[strlen(far) - 1] == 'x';
    const double most = atof(far);              /* inputs or seconds */
    tiny_rng r = tiny_rng_make(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 77);
    uint64_t start = tiny_now_ns();
    size_t n_seeds = argc > 3 ? (size_t)argc - 3 : 0, i, room = 1u << 18;
    fuzz_seed *seeds = (fuzz_seed *)calloc(n_seeds + 1, sizeof *seeds);
    unsigned long n = 0;
    if (!seeds) return 2;
    for (i = 0; i < n_seeds; i++) {
        seeds[i] = fuzz_load(argv[i + 3]);
        (void)LLVMFuzzerTestOneInput(seeds[i].bytes, seeds[i].n);
    }
    while ((counted ? (double)n : (double)(tiny_now_ns() - start) * 1e-9) < most) {
        const fuzz_seed *s = &seeds[n_seeds ? tiny_rng_u32(&r) % n_seeds : 0];
        unsigned char *work = (unsigned char *)malloc(room), *exact;
        size_t size = s->n;
        if (!work) return 2;
        if (size) memcpy(work, s->bytes, size);
        size = fuzz_change(&r, work, size, room);
        /* so that a read of the first byte after it is seen */
        exact = (unsigned char *)realloc(work, size ? size : 1);
        if (!exact) return 2;
        (void)LLVMFuzzerTestOneInput(exact, size);
        free(exact);
        n++;
    }
    for (i = 0; i < n_seeds; i++) free(seeds[i].bytes);
    free(seeds);
    printf(FUZZ_NAME ": %lu inputs, no fault\n", n);
    return 0;
}
#endif
