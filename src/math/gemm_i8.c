/* src/math/gemm_i8.c - the int8 product: dot products for a few rows, else packed blocks
 *
 * Rows of a are packed once for all threads (at most 8 MB of them at a time, 16 as pairs). A piece of work is a block
 * of columns. The thread that takes it packs its part of b into its own buffer, at most half of a second-level cache.
 * It multiplies that with 128 rows of a at a time, 1024 bytes deep: so a pair of panels (as pairs: one of twice the
 * bytes) stays in the first-level cache. */
#include <string.h>
#include "core/target.h"
#include "math/gemm_i8_inside.h"

#define TINYI_I8_DEEP 1024                  /* bytes of k in one go */
#define TINYI_I8_DOWN 128                   /* rows of a in one go */
#define TINYI_I8_ACROSS 256                 /* columns of a block at most */
#define TINYI_I8_A_BYTES ((tiny_idx)8 << 20)
#define TINYI_I8_B_BYTES ((tiny_idx)384 << 10)
#define TINYI_I8_THIN 8                     /* rows up to which it is matrix times vectors */
#define TINYI_I8_AT_ONCE 256                   /* results of dots in one go */
#define TINYI_I8_PART 256                   /* numbers of a row or panel that are packed by way of the stack */

#if TINYI_HAVE_W128 || TINYI_HAVE_AVX2      /* the targets with the form of pairs */
#define TINYI_I8_BYTES_MAX 2
#else
#define TINYI_I8_BYTES_MAX 1
#endif

typedef struct tinyi_i8_sizes {
    tiny_idx bytes;                         /* of a packed number */
    tiny_idx k64, a_row;                    /* numbers of a padded row; bytes of the step between rows */
    tiny_idx rows, across;                  /* of a packed at once, of b packed at once */
    size_t shared, own;                     /* bytes */
} tinyi_i8_sizes;

static tinyi_i8_sizes tinyi_i8_size(const tinyi_gemm *g, int bytes)
{
    const tiny_idx unit = 32 / bytes;
    tinyi_i8_sizes s;
    s.bytes = bytes;
    s.k64 = tinyi_gemm_up(g->k, 64);
    /* Rows a power of two apart would share a few cache sets. In the form of pairs four rows of TINYI_I8_DEEP bytes and
     * the next four lie in the first-level cache beside half of it filled with b: a row begins a quarter of a page
     * after the last. */
    s.a_row = bytes * s.k64 + 64;
    if (bytes == 2 && s.a_row > TINYI_I8_DEEP + 64) s.a_row = tinyi_gemm_up(s.a_row - 1088, 2048) + 1088;
    s.rows = TINYI_I8_A_BYTES * bytes / s.a_row / TINYI_I8_DOWN * TINYI_I8_DOWN;
    s.rows = TINYI_MAX(s.rows, s.a_row > TINY_IDX_MAX / (2 * TINYI_I8_DOWN) ? 32 : TINYI_I8_DOWN);
    s.rows = TINYI_MIN(s.rows, tinyi_gemm_up(g->m, 32));
    s.across = s.k64 ? TINYI_I8_B_BYTES / (bytes * s.k64) / unit * unit : TINYI_I8_ACROSS;
    s.across = TINYI_MIN(TINYI_MAX(s.across, unit), TINYI_I8_ACROSS);
    s.across = TINYI_MIN(s.across, tinyi_gemm_up(g->n, unit));
    /* rows of a, and what their sums begin with */
    s.shared = (size_t)(s.rows * s.a_row + s.rows * 4);
    /* panels of b, what their sums begin with, a block of sums, and one row as f32 */
    s.own = (size_t)(s.across * s.k64 * bytes + s.across * 4 + TINYI_I8_DOWN * s.across * 4 + s.across * 4);
    return s;
}

TINYI_FN void tinyi_gemm_plan_i8(tinyi_gemm_plan *p, const tinyi_gemm *g)
{
    const tinyi_i8_sizes one = tinyi_i8_size(g, 1), two = tinyi_i8_size(g, TINYI_I8_BYTES_MAX);
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
        p->shared_bytes = TINYI_MAX(one.shared, two.shared);
        p->own_bytes = TINYI_MAX(one.own, two.own);
    }
}

/* ---- what becomes of the sums */

/* rows x cols sums, t_row apart, to y from row i and column j on; row: room for cols floats */
static void tinyi_i8_put(const tinyi_kernels *k, const tinyi_gemm *g, int to_f32, const int32_t *t, tiny_idx t_row,
                         tiny_idx i, tiny_idx j, tiny_idx rows, tiny_idx cols, float *row)
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
    tiny_idx a_row = g->a.row, i, j, j0, j1,
             grain = TINYI_MIN(TINYI_MAX((TINYI_GEMV_BYTES / (g->k + 1) + 3) / 4 * 4, 4), TINYI_I8_AT_ONCE);
    int32_t sums[TINYI_I8_AT_ONCE];
    float row[TINYI_I8_AT_ONCE];
    while (tiny_take(team, g->n, grain, &j0, &j1)) {
        /* after the first take: a late thread must not read a any more */
        if (rows && a != rows) {
            for (i = 0; i < g->m; i++)
                for (j = 0; j < g->k; j++) rows[i * g->k + j] = g->a.data[i * g->a.row + j * g->a.k];
            a = rows;
            a_row = g->k;
        }
        for (; j0 < j1; j0 += TINYI_I8_AT_ONCE) {
            const tiny_idx n = TINYI_MIN(j1 - j0, TINYI_I8_AT_ONCE);
            for (i = 0; i < g->m; i++) {
                dot(sums, 1, (const int8_t *)g->b.data + j0 * g->b.row, g->b.row, (size_t)n, a + i * a_row, a_signed,
                    (size_t)g->k);
                tinyi_i8_put(team->k, g, to_f32, sums, n, i, j0, 1, n, row);
            }
        }
    }
}

/* ---- packed */

/* returns what the sums of the row begin with */
static int32_t tinyi_i8_pack_row(const tinyi_kernels *k, uint8_t *to, const tinyi_gemm *g, const tinyi_i8_sizes *s,
                                 tiny_idx row)
{
    const uint8_t *x = g->a.data + row * g->a.row;
    const int is_signed = g->a.dtype == TINY_I8;
    uint8_t t[TINYI_I8_PART];
    uint32_t sum = 0;
    tiny_idx i = 0, j;
    if (row >= g->m) {
        memset(to, 0, (size_t)(s->k64 * s->bytes));
        return 0;
    }
    if (g->a.k == 1) {
        i = g->k / 64 * 64;
        sum = (uint32_t)TINYI_OF(k, gemm_i8_row)(to, x, is_signed, (size_t)i);
    }
    while (i < s->k64) {
        const tiny_idx n = TINYI_MIN(s->k64 - i, TINYI_I8_PART);
        for (j = 0; j < n; j++) t[j] = i + j < g->k ? x[(i + j) * g->a.k] : 0;
        sum += (uint32_t)TINYI_OF(k, gemm_i8_row)(to + i * s->bytes, t, is_signed, (size_t)n);
        i += n;
    }
    return (int32_t)sum;
}

/* numbers i0 .. i0 + len of columns j .. j + n (at most 16), in groups of four; len is a multiple of 4 */
static void tinyi_i8_pack_bytes(const tinyi_kernels *k, int8_t *to, const tinyi_gemm *g, tiny_idx j, tiny_idx n,
                                tiny_idx i0, tiny_idx len)
{
    const int8_t *x = (const int8_t *)g->b.data + j * g->b.row + i0 * g->b.k;
    const tiny_idx there = TINYI_MIN(TINYI_MAX(g->k - i0, 0), len), whole = there / 4 * 4;
    tiny_idx i, c;
    if (n < 16) memset(to, 0, (size_t)(16 * len));
    else memset(to + 16 * whole, 0, (size_t)(16 * (len - whole)));
    if (g->b.k == 1)
        TINYI_OF(k, transpose_b4)
        ((unsigned char *)to, 64, (const unsigned char *)x, g->b.row, (size_t)(whole / 4), (size_t)n);
    else if (g->b.row == 1)
        for (i = 0; i < whole; i += 4) TINYI_OF(k, gemm_i8_weave)(to + 16 * i, x + i * g->b.k, g->b.k, (size_t)n);
    else
        for (c = 0; c < n; c++)
            for (i = 0; i < whole; i++) to[16 * (i / 4 * 4) + 4 * c + i % 4] = x[c * g->b.row + i * g->b.k];
    for (c = 0; c < n; c++)
        for (i = whole; i < there; i++) to[16 * whole + 4 * c + i % 4] = x[c * g->b.row + i * g->b.k];
}

/* columns j .. j + n (at most 16) as one panel, and what their sums begin with */
static void tinyi_i8_pack_panel(const tinyi_kernels *k, int8_t *to, int32_t *start, const tinyi_gemm *g,
                                const tinyi_i8_sizes *s, tiny_idx j, tiny_idx n)
{
    memset(start, 0, 16 * sizeof *start);
    if (s->bytes == 1) {
        tinyi_i8_pack_bytes(k, to, g, j, n, 0, s->k64);
        if (g->a.dtype == TINY_I8) TINYI_OF(k, gemm_i8_start)(start, to, to, (size_t)s->k64);
    } else {
        int8_t t[16 * TINYI_I8_PART];
        tiny_idx i;
        for (i = 0; i < s->k64; i += TINYI_I8_PART) {
            const tiny_idx len = TINYI_MIN(s->k64 - i, TINYI_I8_PART);
            tinyi_i8_pack_bytes(k, t, g, j, n, i, len);
            TINYI_OF(k, gemm_i8_start)(start, to + 32 * i, t, (size_t)len);
        }
    }
}

typedef struct tinyi_i8_job {
    const tinyi_kernels *k;
    const tinyi_gemm *g;
    tinyi_i8_sizes s;
    tinyi_gemm_i8_shape shape;
    int to_f32;
    uint8_t *a;                             /* for all: packed rows, which begin at row base of g, and their starts */
    int32_t *start_a;
    tiny_idx base;
    int8_t *b;                              /* this thread's panels, starts, sums, and a row of floats */
    int32_t *start_b, *sums;
    float *row;
} tinyi_i8_job;

/* columns j0 .. j1 of packed rows r0 .. r1 */
static void tinyi_i8_piece(const tinyi_i8_job *t, tiny_idx j0, tiny_idx j1, tiny_idx r0, tiny_idx r1)
{
    const tinyi_gemm *g = t->g;
    const int direct = !t->to_f32 && g->y_n == 1;
    const tiny_idx bytes = t->s.bytes, panel = 16 * t->s.k64 * bytes, down = t->shape.rows, wide = t->shape.columns;
    tiny_idx r, j, i, at;
    for (j = j0; j < j1; j += 16)
        tinyi_i8_pack_panel(t->k, t->b + (j - j0) / 16 * panel, t->start_b + (j - j0), g, &t->s, j,
                            TINYI_MIN(j1 - j, 16));
    for (r = r0; r < r1; r += TINYI_I8_DOWN) {
        const tiny_idx rows = TINYI_MIN(r1 - r, TINYI_I8_DOWN);
        int32_t *y = direct ? (int32_t *)(void *)g->y + (t->base + r) * g->y_m + j0 : t->sums;
        const tiny_idx y_row = direct ? g->y_m : t->s.across;
        at = 0;
        do {
            const tiny_idx deep = TINYI_MIN(t->s.k64 - at, TINYI_I8_DEEP / bytes);
            for (j = j0; j < j1; j += wide)
                for (i = 0; i < rows; i += down)
                    TINYI_OF(t->k, gemm_i8_tile)
                    (y + i * y_row + (j - j0), y_row, t->a + (r + i) * t->s.a_row + at * bytes, t->s.a_row,
                     t->b + (j - j0) / 16 * panel + 16 * at * bytes, panel, (size_t)deep,
                     at ? NULL : t->start_a + r + i, at ? NULL : t->start_b + (j - j0), (int)TINYI_MIN(rows - i, down),
                     (int)TINYI_MIN(j1 - j, wide));
            at += deep;
        } while (at < t->s.k64);
        if (!direct) tinyi_i8_put(t->k, g, t->to_f32, y, y_row, t->base + r, j0, rows, j1 - j0, t->row);
    }
}

static void tinyi_i8_panels(tiny_team *team, const tinyi_gemm *g, int to_f32)
{
    tinyi_i8_job t;
    tiny_idx r0, r1, q0, q1, across, parts, some;
    t.k = team->k;
    t.g = g;
    t.to_f32 = to_f32;
    TINYI_OF(t.k, gemm_i8_shape)(&t.shape);
    t.s = tinyi_i8_size(g, t.shape.bytes);
    t.a = (uint8_t *)team->shared;
    t.start_a = (int32_t *)(void *)(t.a + t.s.rows * t.s.a_row);
    t.b = (int8_t *)team->own;
    t.start_b = (int32_t *)(void *)(t.b + t.s.across * t.s.k64 * t.s.bytes);
    t.sums = t.start_b + t.s.across;
    t.row = (float *)(void *)(t.sums + TINYI_I8_DOWN * t.s.across);
    /* enough pieces for everybody: narrower blocks of columns first, then parts of the rows */
    across = t.s.across;
    while (across > 64 && (g->n + across - 1) / across < 4 * team->n) across -= 32;
    TINYI_OF(t.k, gemm_i8_begin)();
    for (t.base = 0; t.base < g->m; t.base += t.s.rows) {
        const tiny_idx rows = TINYI_MIN(g->m - t.base, t.s.rows), blocks = (g->n + across - 1) / across;
        tiny_idx part, left;
        /* a block in parts, which are taken one by one at the end, so that all are done together */
        parts = TINYI_MAX(TINYI_MIN(rows / TINYI_I8_DOWN, 8), blocks < 2 * team->n ? team->n : 1);
        part = tinyi_gemm_up((rows - 1) / parts + 1, 32);
        while (tiny_take(team, tinyi_gemm_up(rows, 32), 16, &r0, &r1))
            for (; r0 < r1; r0++) t.start_a[r0] = tinyi_i8_pack_row(t.k, t.a + r0 * t.s.a_row, g, &t.s, t.base + r0);
        tiny_barrier(team);
        for (left = blocks * parts; tiny_take(team, blocks * parts, TINYI_MIN(left / (2 * team->n), parts), &q0, &q1);
             left = blocks * parts - q1)
            for (; q0 < q1; q0 += some) {
                const tiny_idx j = q0 / parts * across, r = q0 % parts * part;
                some = TINYI_MIN(q1 - q0, parts - q0 % parts);
                if (r < rows) tinyi_i8_piece(&t, j, TINYI_MIN(j + across, g->n), r, TINYI_MIN(r + some * part, rows));
            }
        tiny_barrier(team);
    }
    TINYI_OF(t.k, gemm_i8_end)();
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
