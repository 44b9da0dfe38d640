/* src/math/gemm_i8.c - the int8 product: dots for a few rows, else packed blocks
 *
 * Rows of a are packed once for all threads (at most 8 MB of them at a time). A piece of work is a block of columns: who
 * takes it packs its part of b into memory of his own, at most what half of a second-level cache holds, and goes down the
 * rows of a with it, 128 rows at a time and 1024 bytes deep, so that a pair of panels stays in the first-level cache.   */
#include <string.h>
#include "math/gemm_i8.h"

#define TINYI_I8_DEEP 1024                  /* bytes of k in one go */
#define TINYI_I8_DOWN 128                   /* rows of a in one go */
#define TINYI_I8_ACROSS 256                 /* columns of a block at most */
#define TINYI_I8_A_BYTES ((tiny_idx)8 << 20)
#define TINYI_I8_B_BYTES ((tiny_idx)384 << 10)
#define TINYI_I8_THIN 8                     /* rows up to which it is matrix times vectors */
#define TINYI_I8_DOTS 256                   /* results of dots in one go */

typedef struct tinyi_i8_sizes {
    tiny_idx k64, a_row;                    /* bytes of a padded row; of the step between rows */
    tiny_idx rows, across;                  /* of a packed at once, of b packed at once */
} tinyi_i8_sizes;

static tinyi_i8_sizes tinyi_i8_size(const tinyi_gemm *g)
{
    tinyi_i8_sizes s;
    s.k64 = tinyi_gemm_up(g->k, 64);
    s.a_row = s.k64 + 64;                   /* rows a power of two apart would share a few cache sets */
    s.rows = TINYI_MAX(TINYI_I8_A_BYTES / s.a_row / TINYI_I8_DOWN * TINYI_I8_DOWN, TINYI_I8_DOWN);
    s.rows = TINYI_MIN(s.rows, tinyi_gemm_up(g->m, 32));
    s.across = s.k64 ? TINYI_I8_B_BYTES / s.k64 / 32 * 32 : TINYI_I8_ACROSS;
    s.across = TINYI_MIN(TINYI_MAX(s.across, 32), TINYI_I8_ACROSS);
    s.across = TINYI_MIN(s.across, tinyi_gemm_up(g->n, 32));
    return s;
}

TINYI_FN void tinyi_gemm_plan_i8(tinyi_gemm_plan *p, const tinyi_gemm *g)
{
    const tinyi_i8_sizes s = tinyi_i8_size(g);
    memset(p, 0, sizeof *p);
    p->g = *g;
    if (g->m == 0 || g->n == 0 || g->batch[0] == 0 || g->batch[1] == 0) {
        p->form = TINYI_GEMM_NOTHING;
    } else if (g->m <= TINYI_I8_THIN && (g->b.k == 1 || g->k == 1)) {
        p->form = TINYI_GEMM_DOT;
        p->gather = g->a.k != 1;
        p->own_bytes = p->gather ? (size_t)(g->m * g->k) : 0;
    } else {
        p->form = TINYI_GEMM_PANELS;
        p->shared_bytes = (size_t)(s.rows * s.a_row);
        /* panels of b, their starts, a block of sums, and one row as f32 */
        p->own_bytes = (size_t)(s.across * s.k64 + s.across * 4 + TINYI_I8_DOWN * s.across * 4 + s.across * 4);
    }
}

/* ---- what becomes of the sums */

/* rows x cols sums, t_row apart, to y from row i and column j on; row: room for cols floats */
static void tinyi_i8_put(const tinyi_kernels *k, const tinyi_gemm *g, int to_f32, const int32_t *t, tiny_idx t_row, tiny_idx i, tiny_idx j, tiny_idx rows, tiny_idx cols, float *row)
{
    tiny_idx r, c;
    if (!to_f32) {                          /* bits move as they are */
        tinyi_gemm_put(k, g, (const float *)(const void *)t, t_row, i, j, rows, cols);
        return;
    }
    for (r = 0; r < rows; r++) {
        const float sm = g->scale_m ? g->scale_m[(i + r) * g->scale_m_step] : 1.0f;
        for (c = 0; c < cols; c++) {
            const float s = (float)t[r * t_row + c] * sm;
            row[c] = g->scale_n ? s * g->scale_n[(j + c) * g->scale_n_step] : s;
        }
        tinyi_gemm_finish(k, g, row, i + r, j, cols);
        tinyi_gemm_put(k, g, row, cols, i + r, j, 1, cols);
    }
}

/* ---- a few rows */

static void tinyi_i8_dots(tiny_team *team, const tinyi_gemm *g, int to_f32, uint8_t *rows)
{
    const tinyi_fn_gemm_i8_dot dot = TINYI_K(team, gemm_i8_dot);
    const int a_signed = g->a.dtype == TINY_I8;
    const uint8_t *a = g->a.data;
    tiny_idx a_row = g->a.row, i, j, j0, j1, grain = TINYI_MIN(TINYI_MAX((TINYI_GEMV_BYTES / (g->k + 1) + 3) / 4 * 4, 4), TINYI_I8_DOTS);
    int32_t sums[TINYI_I8_DOTS];
    float row[TINYI_I8_DOTS];
    if (rows) {
        for (i = 0; i < g->m; i++)
            for (j = 0; j < g->k; j++) rows[i * g->k + j] = g->a.data[i * g->a.row + j * g->a.k];
        a = rows;
        a_row = g->k;
    }
    while (tiny_take(team, g->n, grain, &j0, &j1))
        for (; j0 < j1; j0 += TINYI_I8_DOTS) {
            const tiny_idx n = TINYI_MIN(j1 - j0, TINYI_I8_DOTS);
            for (i = 0; i < g->m; i++) {
                dot(sums, 1, (const int8_t *)g->b.data + j0 * g->b.row, g->b.row, (size_t)n, a + i * a_row, a_signed, (size_t)g->k);
                tinyi_i8_put(team->k, g, to_f32, sums, n, i, j0, 1, n, row);
            }
        }
}

/* ---- packed */

/* n bytes, each xor 128 */
static void tinyi_i8_lift(uint8_t *to, const uint8_t *x, tiny_idx n)
{
    tiny_idx i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t v;
        memcpy(&v, x + i, 8);
        v ^= UINT64_C(0x8080808080808080);
        memcpy(to + i, &v, 8);
    }
    for (; i < n; i++) to[i] = (uint8_t)(x[i] ^ 0x80);
}

static void tinyi_i8_pack_row(uint8_t *to, const tinyi_gemm *g, tiny_idx row, tiny_idx k64)
{
    const uint8_t *x = g->a.data + row * g->a.row;
    const int lift = g->a.dtype == TINY_I8;
    tiny_idx i;
    if (row >= g->m) {
        memset(to, 0, (size_t)k64);
        return;
    }
    if (g->a.k == 1 && lift) tinyi_i8_lift(to, x, g->k);
    else if (g->a.k == 1) memcpy(to, x, (size_t)g->k);
    else
        for (i = 0; i < g->k; i++) to[i] = (uint8_t)(x[i * g->a.k] ^ (lift ? 0x80 : 0));
    memset(to + g->k, 0, (size_t)(k64 - g->k));
}

/* columns j .. j + n (at most 16) as one panel */
static void tinyi_i8_pack_panel(const tinyi_kernels *k, int8_t *to, const tinyi_gemm *g, tiny_idx j, tiny_idx n, tiny_idx k64)
{
    const int8_t *x = (const int8_t *)g->b.data + j * g->b.row;
    const tiny_idx whole = g->k / 4 * 4;
    tiny_idx i, c;
    if (n < 16) memset(to, 0, (size_t)(16 * k64));
    else memset(to + 16 * whole, 0, (size_t)(16 * (k64 - whole)));
    if (g->b.k == 1) k->transpose_b4((unsigned char *)to, 64, (const unsigned char *)x, g->b.row, (size_t)(whole / 4), (size_t)n);
    else if (g->b.row == 1)
        for (i = 0; i < whole; i += 4) k->gemm_i8_weave(to + 16 * i, x + i * g->b.k, g->b.k, (size_t)n);
    else
        for (c = 0; c < n; c++)
            for (i = 0; i < whole; i++) to[16 * (i / 4 * 4) + 4 * c + i % 4] = x[c * g->b.row + i * g->b.k];
    for (c = 0; c < n; c++)
        for (i = whole; i < g->k; i++) to[16 * whole + 4 * c + i % 4] = x[c * g->b.row + i * g->b.k];
}

typedef struct tinyi_i8_own { int8_t *b; int32_t *start, *sums; float *row; } tinyi_i8_own;

/* columns j0 .. j1 of rows r0 .. r1 (of the packed ones, which begin at row base of g) */
static void tinyi_i8_piece(const tinyi_kernels *k, const tinyi_gemm *g, const tinyi_i8_sizes *s, int to_f32, const uint8_t *a, tiny_idx base,
                           const tinyi_i8_own *own, tiny_idx j0, tiny_idx j1, tiny_idx r0, tiny_idx r1)
{
    const int direct = !to_f32 && g->y_n == 1;
    const tiny_idx panel = 16 * s->k64;
    tiny_idx r, j, i, at;
    for (j = j0; j < j1; j += 16) {
        int8_t *b = own->b + (j - j0) / 16 * panel;
        tinyi_i8_pack_panel(k, b, g, j, TINYI_MIN(j1 - j, 16), s->k64);
        if (g->a.dtype == TINY_I8) k->gemm_i8_start(own->start + (j - j0), b, (size_t)s->k64);
        else memset(own->start + (j - j0), 0, 16 * sizeof(int32_t));
    }
    for (r = r0; r < r1; r += TINYI_I8_DOWN) {
        const tiny_idx rows = TINYI_MIN(r1 - r, TINYI_I8_DOWN);
        int32_t *y = direct ? (int32_t *)(void *)g->y + (base + r) * g->y_m + j0 : own->sums;
        const tiny_idx y_row = direct ? g->y_m : s->across;
        at = 0;
        do {
            const tiny_idx deep = TINYI_MIN(s->k64 - at, TINYI_I8_DEEP);
            for (j = j0; j < j1; j += 32)
                for (i = 0; i < rows; i += 32)
                    k->gemm_i8_tile(y + i * y_row + (j - j0), y_row, a + (r + i) * s->a_row + at, s->a_row, own->b + (j - j0) / 16 * panel + 16 * at, panel,
                                    (size_t)deep, at ? NULL : own->start + (j - j0), (int)TINYI_MIN(rows - i, 32), (int)TINYI_MIN(j1 - j, 32));
            at += deep;
        } while (at < s->k64);
        if (!direct) tinyi_i8_put(k, g, to_f32, y, y_row, base + r, j0, rows, j1 - j0, own->row);
    }
}

static void tinyi_i8_panels(tiny_team *team, const tinyi_gemm *g, int to_f32)
{
    const tinyi_i8_sizes s = tinyi_i8_size(g);
    uint8_t *a = (uint8_t *)team->shared;
    tinyi_i8_own own;
    tiny_idx base, r0, r1, q0, q1, across = s.across, parts;
    own.b = (int8_t *)team->own;
    own.start = (int32_t *)(void *)(own.b + s.across * s.k64);
    own.sums = own.start + s.across;
    own.row = (float *)(void *)(own.sums + TINYI_I8_DOWN * s.across);
    /* enough pieces for everybody: narrower blocks of columns first, then parts of the rows */
    while (across > 64 && (g->n + across - 1) / across < 3 * team->n) across -= 32;
    parts = (g->n + across - 1) / across < 2 * team->n ? team->n : 1;
    team->k->gemm_i8_begin();
    for (base = 0; base < g->m; base += s.rows) {
        const tiny_idx rows = TINYI_MIN(g->m - base, s.rows), blocks = (g->n + across - 1) / across;
        const tiny_idx part = tinyi_gemm_up((rows - 1) / parts + 1, 32);
        while (tiny_take(team, tinyi_gemm_up(rows, 32), 16, &r0, &r1))
            for (; r0 < r1; r0++) tinyi_i8_pack_row(a + r0 * s.a_row, g, base + r0, s.k64);
        tiny_barrier(team);
        while (tiny_take(team, blocks * parts, 1, &q0, &q1))
            for (; q0 < q1; q0++) {
                const tiny_idx j = q0 % blocks * across, r = q0 / blocks * part;
                if (r < rows) tinyi_i8_piece(team->k, g, &s, to_f32, a, base, &own, j, TINYI_MIN(j + across, g->n), r, TINYI_MIN(r + part, rows));
            }
        tiny_barrier(team);
    }
    team->k->gemm_i8_end();
}

TINYI_FN void tinyi_gemm_run_i8(tiny_team *team, const tinyi_gemm_plan *p, int to_f32)
{
    tiny_idx q;
    if (p->form == TINYI_GEMM_NOTHING) return;
    for (q = 0; q < p->g.batch[0] * p->g.batch[1]; q++) {
        const tinyi_gemm g = tinyi_gemm_batch(&p->g, q, 4);
        if (p->form == TINYI_GEMM_DOT) {
            tinyi_i8_dots(team, &g, to_f32, p->gather ? (uint8_t *)team->own : NULL);
            tiny_barrier(team);
        } else tinyi_i8_panels(team, &g, to_f32);
    }
}
