/* tests/llm/block/amx_in_c.h - the tile instructions of AMX in plain C
 *
 * Included before everything else, this header replaces the intrinsics that src/ uses. With it the target amx runs on
 * any processor that has the vectors of amx (AVX-512 with VNNI, VBMI and BF16). tests/ports/run.sh has a row for it;
 * the tests of this folder run with it by
 *
 *     make try ONLY=llm/block BUILD=build/amx CFLAGS='-O2 -std=c99 -include tests/llm/block/amx_in_c.h'
 *
 * and with -DTINYLLM_AMX_BYTES=600 multiply all numbers of rows as bytes, with 0 as bfloat16.
 *
 * Source   Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED,
 *          TILEZERO, TILERELEASE, TDPBSUD, TDPBUSD, TDPBSSD, TDPBF16PS. What the manual answers with an exception (a
 *          tile without configuration, shapes that do not fit) ends the program here. */
#ifndef T_AMX_IN_C_H
#define T_AMX_IN_C_H
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1                   /* as tests/t.h, which comes too late to define it */
#endif
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TINYI_AMX_IN_C 1

typedef struct t_tile_state {
    int on, bytes[8], lines[8];             /* of a configuration */
    unsigned char data[8][16][64];
} t_tile_state;
static __thread t_tile_state t_tiles __attribute__((unused));

#define T_TILE static __attribute__((unused, noinline))
T_TILE void t_tile_need(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "AMX in C: %s\n", what);
    abort();
}
T_TILE void t_tile_config(const void *p)
{
    const unsigned char *c = (const unsigned char *)p;
    int i;
    t_tile_need(c[0] == 1, "the palette is not 1");
    for (i = 1; i < 16; i++) t_tile_need(c[i] == 0, "a reserved byte of the configuration is not 0");
    memset(&t_tiles, 0, sizeof t_tiles);
    t_tiles.on = 1;
    for (i = 0; i < 8; i++) {
        t_tiles.bytes[i] = c[16 + 2 * i] | c[17 + 2 * i] << 8;
        t_tiles.lines[i] = c[48 + i];
        t_tile_need(t_tiles.bytes[i] <= 64 && t_tiles.lines[i] <= 16, "a tile is larger than 16 lines of 64 bytes");
        t_tile_need(!t_tiles.bytes[i] == !t_tiles.lines[i], "a tile has lines or bytes, not both");
    }
}
T_TILE void t_tile_release(void) { memset(&t_tiles, 0, sizeof t_tiles); }
T_TILE void t_tile_known(int t) { t_tile_need(t_tiles.on && t_tiles.lines[t], "a tile has no configuration"); }
T_TILE void t_tile_zero(int t) { t_tile_known(t); memset(t_tiles.data[t], 0, sizeof t_tiles.data[t]); }
T_TILE void t_tile_load(int t, const void *p, ptrdiff_t step)
{
    int i;
    t_tile_zero(t);
    for (i = 0; i < t_tiles.lines[t]; i++)
        memcpy(t_tiles.data[t][i], (const char *)p + i * step, (size_t)t_tiles.bytes[t]);
}
T_TILE void t_tile_store(int t, void *p, ptrdiff_t step)
{
    int i;
    t_tile_known(t);
    for (i = 0; i < t_tiles.lines[t]; i++)
        memcpy((char *)p + i * step, t_tiles.data[t][i], (size_t)t_tiles.bytes[t]);
}
T_TILE void t_tile_fit(int c, int a, int b)
{
    t_tile_known(a);
    t_tile_known(b);
    t_tile_known(c);
    t_tile_need(a != b && a != c && b != c, "a product needs three different tiles");
    t_tile_need(t_tiles.lines[c] == t_tiles.lines[a] && t_tiles.bytes[c] == t_tiles.bytes[b] &&
                    t_tiles.bytes[a] == 4 * t_tiles.lines[b], "the shapes of a product do not fit");
}
T_TILE void t_tile_dot(int c, int a, int b, int a_signed, int b_signed)
{
    int m, k, n, i;
    t_tile_fit(c, a, b);
    for (m = 0; m < t_tiles.lines[c]; m++)
        for (n = 0; 4 * n < t_tiles.bytes[c]; n++) {
            uint32_t sum;                   /* runs over as the instruction does */
            memcpy(&sum, t_tiles.data[c][m] + 4 * n, 4);
            for (k = 0; 4 * k < t_tiles.bytes[a]; k++)
                for (i = 0; i < 4; i++) {
                    const int x = t_tiles.data[a][m][4 * k + i], y = t_tiles.data[b][k][4 * n + i];
                    sum += (uint32_t)((a_signed ? (x ^ 128) - 128 : x) * (b_signed ? (y ^ 128) - 128 : y));
                }
            memcpy(t_tiles.data[c][m] + 4 * n, &sum, 4);
        }
}
/* denormal numbers count as 0, on the way in and out */
T_TILE float t_tile_flush(float x) { return x > -1.17549435e-38f && x < 1.17549435e-38f ? 0.0f : x; }
T_TILE float t_tile_half(const unsigned char *p)
{
    const uint32_t u = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float x;
    memcpy(&x, &u, 4);
    return t_tile_flush(x);
}
T_TILE void t_tile_dot_bf16(int c, int a, int b)
{
    int m, k, n;
    t_tile_fit(c, a, b);
    for (m = 0; m < t_tiles.lines[c]; m++)
        for (n = 0; 4 * n < t_tiles.bytes[c]; n++) {
            float sum, even = 0.0f, odd = 0.0f;
            memcpy(&sum, t_tiles.data[c][m] + 4 * n, 4);
            for (k = 0; 4 * k < t_tiles.bytes[a]; k++) {
                even = t_tile_flush(even + t_tile_half(t_tiles.data[a][m] + 4 * k) *
                                               t_tile_half(t_tiles.data[b][k] + 4 * n));
                odd = t_tile_flush(odd + t_tile_half(t_tiles.data[a][m] + 4 * k + 2) *
                                             t_tile_half(t_tiles.data[b][k] + 4 * n + 2));
            }
            sum = t_tile_flush(t_tile_flush(sum) + t_tile_flush(even + odd));
            memcpy(t_tiles.data[c][m] + 4 * n, &sum, 4);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#undef _tile_dpbusd
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_loadconfig(p) t_tile_config(p)
#define _tile_release() t_tile_release()
#define _tile_zero(t) t_tile_zero(t)
#define _tile_loadd(t, p, step) t_tile_load(t, p, (ptrdiff_t)(step))
#define _tile_stored(t, p, step) t_tile_store(t, p, (ptrdiff_t)(step))
#define _tile_dpbsud(c, a, b) t_tile_dot(c, a, b, 1, 0)
#define _tile_dpbusd(c, a, b) t_tile_dot(c, a, b, 0, 1)
#define _tile_dpbssd(c, a, b) t_tile_dot(c, a, b, 1, 1)
#define _tile_dpbf16ps(c, a, b) t_tile_dot_bf16(c, a, b)
#endif
