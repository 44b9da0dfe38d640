/* tests/fuzz/flashllm.c - any bytes as a pruned matrix; an accepted matrix is converted to the other profile and back,
 * and multiplied
 *
 * The first byte chooses: bit 0 the checksum is corrected first, bit 1 the product is that of woven tiles. The rest is
 * the file. After a change of the format the corpus is written anew:
 *
 *     cc -std=c99 -DFLASHLLM_CORPUS -DTINYLLM_ALL -DTINYLLM_IMPLEMENTATION -I. -Itests -Itests/fuzz
 *     tests/fuzz/flashllm.c -o build/flashllm-corpus -pthread -lm build/flashllm-corpus tests/fuzz/corpus/flashllm */
#include "tinyllm.h"
#include "boxed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FLASHLLM_CORPUS
int main(int argc, char **argv)
{
    static float w[130 * 70];
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, 130, 70);
    tiny_ctx *ctx;
    int i;
    if (argc != 2 || tiny_ctx_open(NULL, &ctx)) return 2;
    for (i = 0; i < 130 * 70; i++) w[i] = i * 7919 % 97 < 5 ? (float)(i % 251 - 125) / 64.0f : 0.0f;
    for (i = 0; i < 6; i++) {
        tllm_csl_desc d;
        tllm_csl a;
        void *bytes;
        size_t n;
        char path[500];
        FILE *f;
        memset(&d, 0, sizeof d);
        d.profile = i % 3;
        d.bf16 = i / 3;
        (void)snprintf(path, sizeof path, "%s/box-%s-%s", argv[1],
                       i % 3 == 1 ? "published"
                       : i % 3    ? "woven"
                                  : "ordered",
                       i / 3 ? "bf16" : "f16");
        if (tllm_csl_build(ctx, &t, &d, &a) || tllm_csl_pack(ctx, &a, &bytes, &n)) abort();
        f = fopen(path, "wb");
        if (!f || fputc(i / 3 * 2 + 1, f) == EOF || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
        tiny_free(ctx, bytes);
        tllm_csl_free(ctx, &a);
    }
    tiny_ctx_close(ctx);
    return 0;
}
#else
static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    enum { MOST = 4096 };
    static unsigned char room[1 << 18];
    static float x[2 * MOST], y[2 * MOST], z[2 * MOST];
    static tiny_ctx *plain, *fast;
    const size_t n = size - 1;
    tllm_csl a, b, c;
    void *bytes;
    size_t m, i;
    int form;
    if (size < 1 || size > sizeof room) return;
    memcpy(room, data + 1, n);
    if (data[0] & 1) reseal(room, n, 4, 0);
    if (tllm_csl_open(ctx, room, n, &a)) {
        if (!*tiny_ctx_message(ctx) || a.block) abort();
        return;
    }
    /* the next steps take more memory than twice the file: with contexts of their own */
    tllm_csl_free(ctx, &a);
    if (!plain) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.n_threads = 1;
        if (tiny_ctx_open(&d, &fast)) abort();
        d.target = TINY_TARGET_REFERENCE;
        if (tiny_ctx_open(&d, &plain)) abort();
        for (i = 0; i < 2 * MOST; i++) x[i] = (float)((int)(i * 37 % 101) - 50) / 64.0f;
    }
    if (tllm_csl_open(fast, room, n, &a) || tllm_csl_check(fast, &a)) abort();
    /* there is one way to write it, in a box or in its older form */
    if (tllm_csl_pack(fast, &a, &bytes, &m)) abort();
    if (room[0] == 'T' ? memcmp((unsigned char *)bytes + 192, room + 12, n - 16) : m != n || memcmp(bytes, room, n))
        abort();
    tiny_free(fast, bytes);
    if (tllm_csl_convert(fast, &a, (a.profile + 1) % TLLM_CSL_PROFILES, &b) ||
        tllm_csl_convert(fast, &b, data[0] & 2 ? TLLM_CSL_WOVEN : TLLM_CSL_ORDERED, &c) || c.n_nonzero != a.n_nonzero)
        abort();
    if (a.k <= MOST && a.n_out <= MOST) {
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, a.k), ty = tiny_tensor_2d(y, TINY_F32, 2, a.n_out),
                          tz = tiny_tensor_2d(z, TINY_F32, 2, a.n_out);
        if (tllm_flash_matmul(plain, &tx, &c, &tz)) abort();
        for (form = 0; form < TLLM_FLASH_FORMS; form++) {
            if (tllm_flash_matmul_as(fast, &tx, &c, (tllm_flash_form)form, &ty)) abort();
            for (i = 0; i < 2 * (size_t)a.n_out; i++) {
                const float off = y[i] - z[i];
                if (!(off <= 65504.0f && off >= -65504.0f) && !a.bf16 && z[i] - z[i] == 0.0f) abort();
            }
        }
    }
    tllm_csl_free(fast, &a);
    tllm_csl_free(fast, &b);
    tllm_csl_free(fast, &c);
}

#define FUZZ_NAME "flashllm"
#include "engine.h"
#endif
