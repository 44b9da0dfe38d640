/* src/llm/block/matmul_many.c - products with block formats: many rows of x (INTEGERS and PANELS of matmul.c) */
#include <string.h>
#include "llm/ops.h"
#include "llm/block/matmul.h"
#include "llm/block/matmul_inside.h"
#include "math/gemm_inside.h"

#define TINYI_BLK_TILES 9                   /* rows of x from which tiles are, of bfloat16 */
#define TINYI_BLK_TILED 11                  /* of a sixteen, from which it goes by tiles of bytes */
/* and on w128, where `few` multiplies bytes and `panel` pairs of 16 bits; code books, which `few` would take apart for
 * each eight rows of x, from the ninth one on */
#define TINYI_BLK_PAIRS 16
/* groups of rows of x that an expanded block of INTEGERS is multiplied with: their sums fit the first level, or (16
 * rows in a group) the second */
#define TINYI_BLK_GROUPS 16

/* One row of w, n numbers from k0 on, into a panel: floats, or halves where there are tiles. Beyond n: zeros to whole
 * 32. */
static void tinyi_blk_unpack(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn, const tinyi_blk_tiles *tiles,
                             void *to, unsigned char *code, unsigned char *scratch, tiny_idx r, tiny_idx k0, tiny_idx n,
                             ptrdiff_t ahead, const unsigned char *table)
{
    const unsigned char *w = tinyi_blk_lies(p, r, k0, n, scratch);
    const size_t blocks = (size_t)(n + 255) / 256;
    float *s = (float *)(void *)(code + 256 * blocks), *m = s + 16 * blocks,
          *t = tiles ? (float *)(void *)code : (float *)to;
    if (p->blk >= 0) {
        kn->expand[p->blk](code, s, m, w, (size_t)n, w == scratch ? 0 : ahead, table);
        if (tiles) tiles->halves((uint16_t *)to, code, s, m, kn->traits[p->blk], blocks);
        else kn->floats((float *)to, code, s, m, kn->traits[p->blk] & TINYI_BLK_HAS_SIGN, blocks);
        return;
    }
    if (tiles && p->f->id == TLLM_FORMAT_BF16) {
        memcpy(to, w, (size_t)n * 2);
        for (; n % 32; n++) ((uint16_t *)to)[n] = 0;
        return;
    }
    p->f->unpack(w, t, (size_t)n);
    if (!tiles) return;
    for (; n % 32; n++) t[n] = 0.0f;
    tiles->round((uint16_t *)to, t, (size_t)n);
}

/* all entries of a code book */
static void tinyi_blk_open(const tinyi_blk_plan *p, unsigned char *table)
{
#if TINYI_BLK_ANY_BOOKS
    if (p->blk >= TINYI_BLK_BOOKS) tinyi_book_table(table, p->blk);
#else
    (void)p;
    (void)table;
#endif
}

/* Sums of rows r0..r1 of w, step apart, go where they belong: rows i0.. of y */
static void tinyi_blk_give(const tinyi_kernels *k, const tinyi_blk_plan *p, float *sums, tiny_idx step, tiny_idx i0,
                           tiny_idx rows, tiny_idx r0, tiny_idx r1)
{
    tiny_idx r, i;
    if (p->bias)
        for (r = r0; r < r1; r++)
            for (i = 0; i < rows; i++) sums[(r - r0) * step + i] += p->bias[r * p->bias_step];
    if (p->y_n == 1)                        /* few rows of y at a time: each is a page of its own */
        for (i = 0; i < rows; i += 16)
            TINYI_OF(k, transpose_b4)
            ((unsigned char *)(p->y + (i0 + i) * p->y_row + r0), p->y_row * 4, (const unsigned char *)(sums + i),
             step * 4, (size_t)TINYI_MIN(rows - i, 16), (size_t)(r1 - r0));
    else
        for (i = 0; i < rows; i++)
            for (r = r0; r < r1; r++) p->y[(i0 + i) * p->y_row + r * p->y_n] = sums[(r - r0) * step + i];
}

/* PANELS: rows i0..i1 of x, at most p->tokens of them */
static void tinyi_blk_panels(tiny_team *team, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn,
                             const tinyi_blk_tiles *tiles, unsigned char *shared, unsigned char *own, tiny_idx i0,
                             tiny_idx i1)
{
    const tinyi_kernels *k = team->k;
    const tiny_idx rows = i1 - i0, kp = tinyi_gemm_up(p->k, 32), deep = TINYI_BLK_DEEP;
    tinyi_gemm_shape shape;
    tiny_idx wide, high, step, mr, q0, q1, r0, r, i, j, at, n;
    float *columns = (float *)(void *)shared,
          *sums = (float *)(void *)(own + p->own_x + p->own_codes + p->own_row + p->own_panel);
    /* room for an expanded block */
    unsigned char *panel = own + p->own_x + p->own_codes + p->own_row, *code = own + p->own_x,
                  *table = tinyi_blk_book(p, panel);
    TINYI_OF(k, gemm_f32_shape)(&shape);
    wide = tiles ? 16 : shape.nr;
    mr = tiles ? 32 : shape.mr;
    step = tinyi_gemm_up(rows, tiles ? 32 : wide) + 16;
    /* columns: [panel of nr][k][nr] floats, or [panel of 16][k / 2][16][2] halves */
    while (tiny_take(team, (rows - 1) / wide + 1, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const float *x = p->x + (i0 + q0 * wide) * p->x_row;
            n = TINYI_MIN(rows - q0 * wide, wide);
            if (tiles) {
                uint16_t *h = (uint16_t *)(void *)own;
                for (i = 0; i < 16; i++) {
                    if (i < n) tiles->round(h + i * (kp + 32), x + i * p->x_row, (size_t)p->k);
                    memset(h + i * (kp + 32) + (i < n ? p->k : 0), 0, (size_t)(i < n ? kp - p->k : kp) * sizeof *h);
                }
                TINYI_OF(k, transpose_b4)
                (shared + q0 * kp * 32, 64, (const unsigned char *)h, (kp + 32) * 2, (size_t)kp / 2, 16);
            } else
                TINYI_OF(k, gemm_f32_turn)
                (columns + q0 * p->k * wide, wide, x, TINY_F32, p->x_row, (size_t)n, (size_t)p->k);
        }
    tiny_barrier(team);
    high = tiles ? TINYI_BLK_HIGH : 192;
    while (high > mr && high > 24 && (p->n_out - 1) / high + 1 < 4 * team->n) high /= 2;
    team->ran_on = tiles ? k->target : kn->from;
    if (tiles && p->k > 0) tinyi_blk_open(p, table);
    if (tiles) tiles->begin();
    while (tiny_take(team, (p->n_out - 1) / high + 1, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const tiny_idx r1 = TINYI_MIN(q0 * high + high, p->n_out);
            const tiny_idx panel_row = tiles ? (deep + 32) * 2 : (deep + 16) * 4;
            ptrdiff_t next;
            r0 = q0 * high;
            for (at = 0; at < p->k; at += deep) {
                n = TINYI_MIN(p->k - at, deep);
                /* meanwhile the same row's next block travels, or the one that starts a row of the next panel */
                next = at + deep < p->k ? (ptrdiff_t)(n / p->f->values * p->f->bytes)
                                        : (ptrdiff_t)(high * p->w_row) - (ptrdiff_t)(at / p->f->values * p->f->bytes);
                for (r = r0; r < r1; r++) {
                    unsigned char *to = panel + (r - r0) * panel_row;
                    if (tiles && p->eight >= 0 && kn->eight && r % 8 == 0 && r + 8 <= p->n_out) {
                        const ptrdiff_t there = at / 256 * 8 * p->part;
                        kn->eight->expand[p->eight](code, p->w + r * p->w_row + there, (size_t)n,
                                                    at + deep < p->k ? 8 * p->part : high * p->w_row - there, 0);
                        for (i = 0; i < 8; i++, to += panel_row) {
                            const unsigned char *each = code + i * TINYI_BLK_PANEL;
                            const float *s = (const float *)(const void *)(each + 256);
                            tiles->halves((uint16_t *)(void *)to, each, s, s + 16, kn->traits[p->blk], 1);
                        }
                        r += 7;
                    } else
                        tinyi_blk_unpack(p, kn, tiles, to, code, tinyi_blk_scratch(p, own), r, at, n, next, table);
                }
                if (tiles)
                    for (j = 0; j < rows; j += 32)
                        for (r = r0; r < r1; r += 32) {
                            /* missing rows of the panel give sums that are never read */
                            const unsigned char *b = shared + j / 16 * kp * 32 + at * 32;
                            tiles->tile(sums + (r - r0) * step + j, step, panel + (r - r0) * panel_row, panel_row, b,
                                        kp * 32, (size_t)tinyi_gemm_up(n, 32), at > 0, r + 16 < r1, j + 16 < rows,
                                        j + 32 < rows ? b + (2 + (r - r0) / 32 % 2) * kp * 32 + (r - r0) / 64 * 2048
                                                      : b);
                        }
                else
                    for (j = 0; j < rows; j += wide)
                        for (r = r0; r < r1; r += mr)
                            TINYI_OF(k, gemm_f32_rows)
                            (sums + (r - r0) * step + j, step,
                             (const float *)(const void *)(panel + (r - r0) * panel_row), panel_row / 4,
                             columns + j * p->k + at * wide, wide, (size_t)n, (int)TINYI_MIN(r1 - r, mr), (int)wide,
                             at > 0);
            }
            if (p->k == 0)
                for (r = r0; r < r1; r++) memset(sums + (r - r0) * step, 0, (size_t)rows * sizeof *sums);
            tinyi_blk_give(k, p, sums, step, i0, rows, r0, r1);
        }
    if (tiles) tiles->end();
}

/* INTEGERS: rows i0..i1 of x, at most p->tokens of them; rows of w are expanded to bytes, a panel of them times a panel
 * of x at a time */
static void tinyi_blk_integers(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                               unsigned char *shared, unsigned char *own, tiny_idx i0, tiny_idx i1)
{
    const tinyi_blk_plan *p = set->p;
    const tiny_idx rows = i1 - i0, side = kn->side, x_panel = kn->part, groups = (rows + side - 1) / side;
    const tiny_idx x_group = groups * x_panel, x_block = 8 * x_group;
    unsigned char *flags = shared + p->blocks * x_block, *panel = own + p->own_x + p->own_codes + p->own_row;
    float *sums = (float *)(void *)(panel + p->own_panel);
    tiny_idx q0, q1, r0, r1, r, at, i, j, n, t0, t1, high, whole;
    int strange = 0, unit = 5;              /* TINYI_BLK_LOW rows, or fewer where there are few */
    tinyi_q8 x;
    x.blocks = (size_t)p->blocks;
    while (tiny_take(team, groups, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            int8_t *code = (int8_t *)own;
            float *d = (float *)(void *)(code + side * 256 * p->blocks), *sum = d + side * 16 * p->blocks;
            n = TINYI_MIN(rows - side * q0, side);
            for (i = 0; i < n; i++)
                flags[side * q0 + i] =
                    (unsigned char)kn->quantize(code + 256 * i * p->blocks, d + 16 * i * p->blocks,
                                                sum + 16 * i * p->blocks, p->x + (i0 + side * q0 + i) * p->x_row,
                                                (size_t)p->k, 0);
            x.code = code;
            x.d = d;
            x.sum = sum;
            kn->turn(shared + q0 * x_panel, &x, (size_t)n, x_block, x_group);
        }
    tiny_barrier(team);
    for (i = 0; i < rows; i++) strange |= !flags[i];
    while (unit > 3 && tinyi_blk_units_all(set, unit) < 4 * team->n) unit--;
    high = (tiny_idx)1 << unit;
    team->ran_on = kn->from;
    while (tiny_take(team, tinyi_blk_units_all(set, unit), 1, &t0, &t1))
        while (t0 < t1) {
            p = tinyi_blk_next(set, unit, &t0, t1, &q0, &q1);
            for (; q0 < q1; q0++) {
                r0 = q0 * high;
                r1 = TINYI_MIN(r0 + high, p->n_out);
                memset(sums, 0, (size_t)(groups * side * TINYI_BLK_LOW) * sizeof *sums);
                for (at = 0; at < p->blocks; at++) {
                    for (r = r0; r < r1; r++) {
                        unsigned char *to = panel + (r - r0) * TINYI_BLK_PANEL;
                        if (p->eight >= 0 && kn->eight && r % 8 == 0 && r + 8 <= p->n_out) {
                            kn->eight->expand[p->eight](
                                to, p->w + r * p->w_row + 8 * at * p->part, (size_t)TINYI_MIN(p->k - 256 * at, 256),
                                (ptrdiff_t)(high * p->w_row), 0);
                            r += 7;
                            continue;
                        }
                        n = TINYI_MIN(p->k - 256 * at, 256);
                        kn->expand[p->blk](to, (float *)(void *)(to + 256), (float *)(void *)(to + 320),
                                           tinyi_blk_lies(p, r, 256 * at, n, tinyi_blk_scratch(p, own)), (size_t)n,
                                           (ptrdiff_t)(high * p->w_row), NULL); /* the next panel travels meanwhile */
                    }
                    whole = (r1 - r0 + 7) / 8 * 8;      /* rows go in eights */
                    if (whole > r1 - r0)
                        memset(panel + (r1 - r0) * TINYI_BLK_PANEL, 0, (size_t)(whole - (r1 - r0)) * TINYI_BLK_PANEL);
                    for (j = 0; j < groups; j += TINYI_BLK_GROUPS)
                        kn->panel(sums + j * TINYI_BLK_LOW * side, panel, kn->traits[p->blk], (size_t)whole,
                                  shared + at * x_block + j * x_panel, x_group,
                                  (size_t)TINYI_MIN(rows - j * side, TINYI_BLK_GROUPS * side));
                }
                for (j = 0; j < groups; j++)
                    tinyi_blk_give(team->k, p, sums + j * TINYI_BLK_LOW * side, side, i0 + side * j,
                                   TINYI_MIN(rows - side * j, side), r0, r1);
                if (strange) tinyi_blk_as_floats(team, p, (float *)(void *)own, flags, i0, i1, r0, r1);
            }
        }
}

/* INTEGERS where a lane is a row of w (across.simd.h): rows i0..i1 of x, at most p->tokens of them. tiles: multiply
 * them, or NULL */
static void tinyi_blk_across(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                             const tinyi_blk_tiles *tiles, unsigned char *shared, unsigned char *own, tiny_idx i0,
                             tiny_idx i1)
{
    const tinyi_blk_plan *p = set->p;
    /* Rows that go by tiles, and all of them. The last ones may be zeros: a tile pays from eleven rows on, and a row by
     * itself has a neighbour. */
    const tiny_idx rows = i1 - i0, lanes = kn->lanes,
                   tiled = tiles ? (rows + 16 - TINYI_BLK_TILED) / 16 * 16 : 0,
                   seats = tiled + (rows > tiled ? TINYI_MAX(rows - tiled, 2) : 0), x_block = seats * TINYI_BLK_PANEL;
    unsigned char *flags = shared + p->blocks * x_block, *panel = own + p->own_x + p->own_codes + p->own_row,
                  *code = panel + TINYI_BLK_LOW * TINYI_BLK_PANEL, *table = tinyi_blk_book(p, panel);
    float *sums = (float *)(void *)(panel + p->own_panel);
    tiny_idx q0, q1, r0, r1, r, end, at, i, n, t0, t1, high;
    int strange = 0, open = -1;             /* open: whose code book the table is */
    int unit = 5;                           /* TINYI_BLK_LOW rows, or fewer where there are few */
    while (tiny_take(team, seats, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            unsigned char *to = shared + q0 * TINYI_BLK_PANEL;
            if (q0 < rows)
                flags[q0] = (unsigned char)kn->row(to, x_block, p->x + (i0 + q0) * p->x_row, (size_t)p->k);
            else
                for (at = 0; at < p->blocks; at++) memset(to + at * x_block, 0, TINYI_BLK_PANEL);
        }
    tiny_barrier(team);
    for (i = 0; i < rows; i++) strange |= !flags[i];
    while (unit > (lanes > 8 ? 4 : 3) && tinyi_blk_units_all(set, unit) < 4 * team->n) unit--;
    high = (tiny_idx)1 << unit;
    team->ran_on = tiled ? TINY_TARGET_AMX : kn->from;
    if (tiled) tiles->begin_bytes();
    while (tiny_take(team, tinyi_blk_units_all(set, unit), 1, &t0, &t1))
        while (t0 < t1) {
            p = tinyi_blk_next(set, unit, &t0, t1, &q0, &q1);
            if (p->blk != open) tinyi_blk_open(p, table);
            open = p->blk;
            for (; q0 < q1; q0++) {
                /* the rows that this thread takes next travel meanwhile, a part with each block of 256: while products
                 * are computed if rows are dense, otherwise when the same place in the rows before is expanded */
                const ptrdiff_t ahead = (ptrdiff_t)(team->n * high * p->w_row);
                const int dense = p->w_row == p->blocks * p->part;
                const size_t lines = dense ? (size_t)(high * p->part) / 64 + 1 : 0;
                r0 = q0 * high;
                r1 = TINYI_MIN(r0 + high, p->n_out);
                memset(sums, 0, (size_t)(seats * TINYI_BLK_LOW) * sizeof *sums);
                for (at = 0; at < p->blocks; at++) {
                    const unsigned char *soon;
                    n = TINYI_MIN(p->k - 256 * at, 256);
                    for (r = r0; r < r1; r += lanes) {
                        unsigned char *to = panel + (r - r0) * TINYI_BLK_PANEL, *scratch;
                        end = TINYI_MIN(r + lanes, r1);
                        if (p->eight < 0 || r >= p->n_out / 8 * 8)
                            kn->lay[p->blk](to, code, tinyi_blk_at(p, r, 256 * at), p->w_row, (size_t)(end - r),
                                            (size_t)n, dense ? 0 : ahead, table);
                        else if (kn->eight && r + lanes <= TINYI_MIN(r1, p->n_out / 8 * 8))
                            for (i = r; i < end; i += 8)
                                kn->eight->expand[p->eight](to + 4 * (i - r), p->w + i * p->w_row + 8 * at * p->part,
                                                            (size_t)n, dense ? 0 : ahead, 1);
                        else {              /* the rows beyond whole eights are among them */
                            scratch = tinyi_blk_scratch(p, own);
                            for (i = r; i < end; i++)
                                tinyi_eight_row(p->f->id, p->w, p->w_row, p->n_out, i, 256 / p->f->values * at,
                                                n / p->f->values, scratch + (i - r) * p->part);
                            kn->lay[p->blk](to, code, scratch, p->part, (size_t)(end - r), (size_t)n, 0, table);
                        }
                    }
                    soon = p->w + r0 * p->w_row + ahead + at * high * p->part;
                    if (tiled)
                        tiles->meet(sums, panel, (size_t)(r1 - r0), shared + at * x_block, (size_t)tiled, soon, lines);
                    if (seats > tiled)
                        kn->meet(sums + tiled * TINYI_BLK_LOW, panel, kn->traits[p->blk], (size_t)(r1 - r0),
                                 shared + at * x_block + tiled * TINYI_BLK_PANEL, (size_t)(seats - tiled), soon,
                                 tiled ? 0 : lines);
                }
                for (i = 0; i < rows; i++) {
                    float *y = p->y + (i0 + i) * p->y_row + r0 * p->y_n;
                    if (p->y_n == 1) memcpy(y, sums + i * TINYI_BLK_LOW, (size_t)(r1 - r0) * sizeof *y);
                    else for (r = 0; r < r1 - r0; r++) y[r * p->y_n] = sums[i * TINYI_BLK_LOW + r];
                    tinyi_blk_bias(p, i0 + i, r0, r1);
                }
                if (strange) tinyi_blk_as_floats(team, p, (float *)(void *)own, flags, i0, i1, r0, r1);
            }
        }
    if (tiled) tiles->end();
}

static int tinyi_blk_is_integers(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    return p->blk >= 0 && p->k > 0 && (kn->panel || kn->lanes);
}
/* With AMX so few rows of x are INTEGERS, not PANELS. */
static int tinyi_blk_as_bytes(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    return tinyi_blk_is_integers(p, kn) && p->n <= TINYLLM_AMX_BYTES;
}
/* of bytes, for INTEGERS */
static const tinyi_blk_tiles *tinyi_blk_tiles_bytes(const tinyi_kernels *k, const tinyi_blk_plan *p,
                                                    const tinyi_blk_kernels *kn)
{
    return tinyi_blk_as_bytes(p, kn) && !(kn->traits[p->blk] & TINYI_BLK_FINE) ? tinyi_blk_tiles_of(k) : NULL;
}
/* of bfloat16, for PANELS: only with weights that were rounded as much or more */
static const tinyi_blk_tiles *tinyi_blk_tiles_for(const tinyi_kernels *k, const tinyi_blk_plan *p,
                                                  const tinyi_blk_kernels *kn)
{
    if (p->f->id == TLLM_FORMAT_BF16) return tinyi_blk_bfloat_of(k);
    return p->f->flags & TLLM_FORMAT_PLAIN || tinyi_blk_as_bytes(p, kn) ? NULL : tinyi_blk_tiles_of(k);
}
/* rows of x from which tinyi_blk_across is: unpacking takes longer than for VECTORS, a row more takes less (measured:
 * docs/dev/speed.md) */
static tiny_idx tinyi_blk_across_from(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    /* VECTORS are of 32 bytes; in halves, those of 64 take as long as two of them */
    const int traits = kn->traits[p->blk], wide = kn->lanes > 8 && !(k->cpu & TINY_CPU_HALVES);
    if (p->eight >= 0 && kn->eight) return wide ? p->part > 200 ? 4 : 2 : 5;  /* Q8_0 and Q6_K: 4 */
    if (p->blk >= TINYI_BLK_BOOKS) return 4;
    if (!(traits & TINYI_BLK_PAIRED)) return 4;             /* 3 from memory: 1.6 times as fast apart (Q8_0, Zen 5) */
    return wide ? 4 : traits / TINYI_BLK_FITS == 1 ? 5 : 9;
}
TINYI_FN tiny_idx tinyi_blk_in_panels(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    tinyi_gemm_shape shape;
    if (p->n < TINYI_BLK_BOTH || p->apart) return 0;
    if (tinyi_blk_tiles_for(k, p, kn)) return p->n >= TINYI_BLK_TILES ? p->n : 0;
    if (tinyi_blk_is_integers(p, kn)) {
        if (kn->lanes) return p->n >= tinyi_blk_across_from(k, p, kn) ? p->n : 0;
        if (p->n < TINYI_BLK_GROUP || (p->n <= TINYI_BLK_FEW && p->eight >= 0 && kn->eight)) return 0;
        if (kn->from == TINY_TARGET_W128 && p->n < (p->blk < TINYI_BLK_BOOKS ? TINYI_BLK_PAIRS : TINYI_BLK_FEW + 1))
            return 0;
        return kn->single && p->n % 8 == 1 ? p->n - 1 : p->n;
    }
    if (p->blk < 0) return p->n > TINYI_BLK_FEW ? p->n : 0;
    if (!kn->floats) return 0;
    TINYI_OF(k, gemm_f32_shape)(&shape);
    return p->n >= TINYI_BLK_MANY ? p->n / shape.nr * shape.nr : 0;
}

TINYI_FN void tinyi_blk_many(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                             unsigned char *shared, unsigned char *own, tiny_idx in_panels)
{
    const tinyi_blk_plan *p = set->p;
    const tinyi_blk_tiles *tiles = tinyi_blk_tiles_for(team->k, p, kn), *bytes = tinyi_blk_tiles_bytes(team->k, p, kn);
    tiny_idx i, end;
    for (i = 0; i < in_panels; i = end) {
        if (i) tiny_barrier(team);          /* the columns are no longer read */
        end = TINYI_MIN(i + p->tokens, in_panels);
        if (tiles || !tinyi_blk_is_integers(p, kn)) tinyi_blk_panels(team, p, kn, tiles, shared, own, i, end);
        else if (kn->lanes) tinyi_blk_across(team, set, kn, bytes, shared, own, i, end);
        else tinyi_blk_integers(team, set, kn, shared, own, i, end);
    }
}

/* FINE formats do not go by tiles of bytes. */
TINYI_FN int tinyi_blk_many_alike(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_plan *q,
                                  const tinyi_blk_kernels *kn)
{
    return tinyi_blk_is_integers(p, kn) && !tinyi_blk_tiles_for(k, p, kn) &&
           tinyi_blk_tiles_bytes(k, p, kn) == tinyi_blk_tiles_bytes(k, q, kn);
}
