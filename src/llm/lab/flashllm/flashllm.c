/* src/llm/lab/flashllm/flashllm.c - products with pruned matrices in tiles of compressed lists
 * Paper    H. Xia et al., "Flash-LLM", VLDB 2024 (arXiv 2309.10285): load as sparse, compute as dense.
 * Formula  y[t][r] = sum of x[t][c] a[r][c] over the stored numbers of row r; stored zeros (padding) count as not
 *          stored
 * Work     x is packed once, tile column by tile column; then threads take rows of 64 outputs and process their tiles,
 *          items in memory order, with the next tile prefetched. 64 rows of x at a time. With fewer than 32 rows of
 *          tiles, k is split too, depending on the shape alone, and parts are added in order.
 * IMAGE    clears 16 KB, then writes the items; the product of math/gemm_inside.h on panels of rows: 64 deep, 12 or 6
 *          rows of x at a time. There is one image: the processor itself overlaps the work that two images would. The
 *          image is cleared as a whole: undoing the items of the previous tile costs a store per item, while one store
 *          clears 8 numbers (avx2); from 12 % of items on that is no gain.
 * DIRECT   see flashllm.simd.h; the groups of four at the start of woven tiles read and write the sums of their row
 *          once. Its work falls with the items, that of IMAGE hardly does: a graphics processor multiplies dense tiles
 *          sixteen times faster than anything else, but the vectors here only twice as fast as item by item.
 * Not finite: an infinite or NaN number of x would be multiplied with zeros of an image and of the padding. Packing x
 *          detects it; such products run item by item in a plain loop.
 * Cost     4 bytes per item; n operations per item (DIRECT), or per place of a tile (IMAGE).
 * Error    a sum of at most k products in some order: LINEAR, k + 2 units.
 * Left out products with the published profile (convert once); AMX tiles, where IMAGE would have the advantage that it
 *          has in the paper: no such machine was available. */
#include <string.h>
#include "llm/ops.h"
#include "llm/lab/flashllm/flashllm.h"
#include "llm/lab/flashllm/flash_inside.h"
#include "core/conform.h"
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "math/gemm_inside.h"
#include "math/rows_inside.h"

TINYI_TABLE_CHOICE(tinyi_csl_kernels, tinyi_csl_kernels)

#define TINYI_FLASH_TOKENS 64               /* rows of x at a time */
#define TINYI_FLASH_PIECES 32               /* of work, at least; where there are fewer rows of tiles, k is cut */
#define TINYI_FLASH_LEAST 4                 /* tiles that a part of k has at least */
#define TINYI_FLASH_PLACES 4096             /* of a tile */

typedef struct tinyi_flash {
    const float *x;
    float *y;
    const uint32_t *item;
    const int32_t *offset;
    tiny_idx n, k, n_out, x_row, x_k, y_row, y_n, n_item;
    /* tokens: rows of x at most at a time; wide: floats of a packed column */
    tiny_idx down, across, parts, tokens, wide;
    size_t x_bytes, flag_bytes, part_bytes, acc_bytes;
    tllm_flash_params p;
} tinyi_flash;

static tiny_idx tinyi_flash_parts(tiny_idx down, tiny_idx across)
{
    const tiny_idx parts = (TINYI_FLASH_PIECES + down - 1) / TINYI_MAX(down, 1), most = across / TINYI_FLASH_LEAST;
    return TINYI_MAX(TINYI_MIN(parts, most), 1);
}

static void tinyi_flash_read(const tiny_op *op, tinyi_flash *f)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    memset(f, 0, sizeof *f);
    if (op->params) f->p = *(const tllm_flash_params *)op->params;
    f->x = (const float *)x->data;
    f->offset = (const int32_t *)op->in[2]->data;
    /* of none: nothing is read */
    f->item = op->in[1]->data ? (const uint32_t *)op->in[1]->data : (const uint32_t *)(const void *)f->offset;
    f->n = x->dim[0];
    f->k = x->dim[1];
    f->n_out = f->p.n_out;
    f->n_item = op->in[1]->dim[0];
    f->x_row = x->stride[0];
    f->x_k = f->k > 1 ? x->stride[1] : 1;
    f->down = (f->n_out + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    f->across = (f->k + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    f->parts = tinyi_flash_parts(f->down, f->across);
    f->tokens = TINYI_MIN(f->n, TINYI_FLASH_TOKENS);
    f->wide = tinyi_gemm_up(f->tokens, 16) + 16;
    f->x_bytes = (size_t)(f->across * TLLM_CSL_WIDE * f->wide) * sizeof(float);
    f->flag_bytes = (size_t)tinyi_gemm_up(f->across, TINYI_ALIGN);
    f->part_bytes = f->parts > 1 ? (size_t)(f->parts * f->tokens * f->down * TLLM_CSL_WIDE) * sizeof(float) : 0;
    f->acc_bytes = (size_t)(TLLM_CSL_WIDE * f->wide) * sizeof(float);
    if (!y) return;
    f->y = (float *)y->data;
    f->y_row = y->stride[0];
    f->y_n = y->stride[1];
}

/* ---- reference -------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_flash_ref(const tiny_op *op)
{
    tinyi_flash f;
    tiny_idx i, j, t, r;
    tinyi_flash_read(op, &f);
    for (i = 0; i < f.down; i++)
        for (t = 0; t < f.n; t++) {
            double sum[TLLM_CSL_WIDE];
            for (r = 0; r < TLLM_CSL_WIDE; r++) sum[r] = 0.0;
            for (j = 0; j < f.across; j++) {
                tiny_idx q;
                for (q = 4 * (tiny_idx)f.offset[i * f.across + j]; q < 4 * (tiny_idx)f.offset[i * f.across + j + 1];
                     q++) {
                    const tiny_idx row = (tiny_idx)(f.item[q] >> 22 & 63u),
                                   c = j * TLLM_CSL_WIDE + (tiny_idx)(f.item[q] >> 16 & 63u);
                    double v;
                    if (!(f.item[q] & 0x7fffu) || c >= f.k) continue;
                    v = (double)tinyi_flash_value(f.p.bf16, f.item[q]) * (double)f.x[t * f.x_row + c * f.x_k];
                    sum[row] += f.p.magnitude && v < 0.0 ? -v : v;
                }
            }
            for (r = 0; r < TLLM_CSL_WIDE && i * TLLM_CSL_WIDE + r < f.n_out; r++)
                f.y[t * f.y_row + (i * TLLM_CSL_WIDE + r) * f.y_n] = tinyi_round_f32(sum[r]);
        }
}
TINY_REF_END

/* ---- fast ------------------------------------------------------------------------------------------------------- */

static int tinyi_flash_lanes(const tinyi_csl_kernels *csl, tiny_idx n) { return csl->add8 && n <= 8 ? 8 : csl->lanes; }

/* Cycles of an average tile with avx2, measured: DIRECT from its items, for a list and for each vector of sums; IMAGE
 * from its zeros, its items, and two multiply-adds a cycle. */
static tllm_flash_form tinyi_flash_choose(tiny_idx n_item, tiny_idx tiles, tiny_idx n, const tinyi_csl_kernels *csl,
                                          int woven)
{
    const int lanes = tinyi_flash_lanes(csl, n);
    const double items = (double)n_item / (double)TINYI_MAX(tiles, 1), vectors = (double)((n + lanes - 1) / lanes);
    const double direct = items * (woven ? 1.25 + 0.85 * vectors : 1.0 + 1.85 * vectors);
    const double image = TINYI_FLASH_PLACES / (double)lanes + 2.4 * items +
                         1.1 * TINYI_FLASH_PLACES * (double)tinyi_gemm_up(n, 2) / (2.0 * (double)lanes);
    return direct <= image ? TLLM_FLASH_DIRECT : TLLM_FLASH_IMAGE;
}

typedef struct tinyi_flash_job {            /* of one thread, for up to 64 rows of x */
    const tinyi_csl_kernels *csl;
    tinyi_fn_gemm_f32_turn turn;
    tinyi_fn_gemm_f32_tile tile;
    tinyi_gemm_shape shape;
    tllm_flash_form form;
    int plain;                              /* x is not finite somewhere */
    /* wide: vectors of sums in floats (DIRECT), or heights of all tiles (IMAGE) */
    tiny_idx t0, tokens, wide;
    float *x, *part;                        /* shared */
    unsigned char *flag;
    float *image, *value, *acc;             /* own */
    uint32_t *at;
} tinyi_flash_job;

/* column j of tiles of x, 64 deep */
static void tinyi_flash_pack(const tinyi_flash *f, const tinyi_flash_job *b, tiny_idx j)
{
    const tiny_idx c0 = j * TLLM_CSL_WIDE, n = TINYI_MIN(f->k - c0, TLLM_CSL_WIDE);
    const float *from = f->x + b->t0 * f->x_row + c0 * f->x_k;
    tiny_idx step = f->x_row, t, c, rows;
    float *to = b->x + c0 * b->wide;
    int bad = 0;
    if (f->x_k != 1) {
        for (t = 0; t < b->tokens; t++)
            for (c = 0; c < n; c++) b->acc[t * TLLM_CSL_WIDE + c] = from[t * f->x_row + c * f->x_k];
        from = b->acc;
        step = TLLM_CSL_WIDE;
    }
    for (t = 0; t < b->tokens; t++)
        for (c = 0; c < n; c++) bad |= (tinyi_f32_bits(from[t * step + c]) & 0x7f800000u) == 0x7f800000u;
    b->flag[j] = (unsigned char)bad;
    if (b->form == TLLM_FLASH_DIRECT) {
        b->turn(to, b->wide, from, TINY_F32, step, (size_t)b->tokens, (size_t)n);
        memset(to + n * b->wide, 0, (size_t)((TLLM_CSL_WIDE - n) * b->wide) * sizeof *to);
        return;
    }
    for (t = 0; t < b->tokens; t += rows) {
        tiny_idx high;
        rows = tinyi_gemm_next(b->shape.mr, b->tokens - t);
        high = tinyi_gemm_height(b->shape.mr, rows);
        b->turn(to, high, from + t * step, TINY_F32, step, (size_t)rows, (size_t)n);
        memset(to + n * high, 0, (size_t)((TLLM_CSL_WIDE - n) * high) * sizeof *to);
        to += TLLM_CSL_WIDE * high;
    }
}

/* acc += tile (i, j), item by item: what is not stored is not met */
static void tinyi_flash_plain(const tinyi_flash *f, const tinyi_flash_job *b, tiny_idx i, tiny_idx j)
{
    tiny_idx q, t;
    for (q = 4 * (tiny_idx)f->offset[i * f->across + j]; q < 4 * (tiny_idx)f->offset[i * f->across + j + 1]; q++) {
        const tiny_idx row = (tiny_idx)(f->item[q] >> 22 & 63u),
                       c = j * TLLM_CSL_WIDE + (tiny_idx)(f->item[q] >> 16 & 63u);
        const float v = tinyi_flash_value(f->p.bf16, f->item[q]);
        if (!(f->item[q] & 0x7fffu) || c >= f->k) continue;
        for (t = 0; t < b->tokens; t++) b->acc[row * b->wide + t] += v * f->x[(b->t0 + t) * f->x_row + c * f->x_k];
    }
}

/* acc (tokens, 64) += the image times x */
static void tinyi_flash_multiply(const tinyi_flash *f, const tinyi_flash_job *b, tiny_idx i, tiny_idx j,
                                 const uint32_t *next, tiny_idx n_next)
{
    const tiny_idx used = TINYI_MIN(f->n_out - i * TLLM_CSL_WIDE, TLLM_CSL_WIDE);
    const float *s = b->x + j * TLLM_CSL_WIDE * b->wide;
    tinyi_gemm_ahead ahead;
    tiny_idx t, p, rows, fetched = 0;
    for (t = 0; t < b->tokens; t += rows) {
        rows = tinyi_gemm_next(b->shape.mr, b->tokens - t);
        for (p = 0; p < used; p += b->shape.nr) {           /* a line with each two steps of 64: 512 items */
            ahead.a = ahead.b =
                (const unsigned char *)(fetched < n_next ? next + fetched : (const uint32_t *)(const void *)b->value);
            ahead.step = fetched < n_next ? 64 : 0;
            fetched += 512;
            b->tile(b->acc + t * TLLM_CSL_WIDE + p, TLLM_CSL_WIDE, s, b->image + p * TLLM_CSL_WIDE, TLLM_CSL_WIDE,
                    (int)rows, b->shape.nr, 1, &ahead);
        }
        s += TLLM_CSL_WIDE * tinyi_gemm_height(b->shape.mr, rows);
    }
}

/* 64 outputs, tiles j0 .. j1 of their row */
static void tinyi_flash_piece(const tinyi_flash *f, const tinyi_flash_job *b, tiny_idx i, tiny_idx part)
{
    const tiny_idx j0 = f->across * part / f->parts, j1 = f->across * (part + 1) / f->parts,
                   rows = TINYI_MIN(f->n_out - i * TLLM_CSL_WIDE, TLLM_CSL_WIDE);
    const int image = b->form == TLLM_FLASH_IMAGE && !b->plain;
    const tiny_idx acc_row = image ? 1 : b->wide, acc_t = image ? TLLM_CSL_WIDE : 1;
    tiny_idx j, r, t, to_row = f->y_n, to_t = f->y_row;
    float *to = f->y + b->t0 * f->y_row + i * TLLM_CSL_WIDE * f->y_n;
    memset(b->acc, 0, (size_t)(TLLM_CSL_WIDE * (image ? b->tokens : b->wide)) * sizeof(float));
    for (j = j0; j < j1; j++) {
        const int32_t *o = f->offset + i * f->across + j;
        const uint32_t *item = f->item + 4 * (tiny_idx)o[0], *next = f->item + 4 * (tiny_idx)o[1];
        /* o[2] of the last tile: the end of all */
        const tiny_idx n = 4 * (tiny_idx)(o[1] - o[0]), n_next = 4 * (tiny_idx)(o[2] - o[1]);
        if (b->plain) tinyi_flash_plain(f, b, i, j);
        else if (!n) continue;
        else if (image) {
            b->csl->expand(b->image, b->value, b->at, item, (size_t)n, f->p.bf16);
            tinyi_flash_multiply(f, b, i, j, next, n_next);
        } else {
            const tiny_idx fours = f->p.woven ? (tiny_idx)(item[0] >> 28 | item[1] >> 28 << 4 | item[2] >> 28 << 8) : 0;
            const float *x = b->x + j * TLLM_CSL_WIDE * b->wide;
            const size_t together = (size_t)TINYI_MIN(fours, n / 4);
            b->csl->list(b->value, b->at, item, (size_t)n, f->p.bf16, (int)b->wide);
            if (b->wide < b->csl->lanes) b->csl->add8(b->acc, x, b->value, b->at, (size_t)n, together, next);
            else b->csl->add(b->acc, x, b->value, b->at, (size_t)n, together, (int)(b->wide / b->csl->lanes), next);
        }
    }
    if (f->parts > 1) {
        to = b->part + part * f->tokens * f->down * TLLM_CSL_WIDE + i * TLLM_CSL_WIDE;
        to_row = 1;
        to_t = f->down * TLLM_CSL_WIDE;
    }
    for (t = 0; t < b->tokens; t++)
        for (r = 0; r < rows; r++) to[t * to_t + r * to_row] = b->acc[r * acc_row + t * acc_t];
}

static void tinyi_flash_sum(const tinyi_flash *f, const tinyi_flash_job *b, tiny_idx i)
{
    const tiny_idx rows = TINYI_MIN(f->n_out - i * TLLM_CSL_WIDE, TLLM_CSL_WIDE), all = f->down * TLLM_CSL_WIDE;
    tiny_idx t, r, p;
    for (t = 0; t < b->tokens; t++)
        for (r = 0; r < rows; r++) {
            const float *from = b->part + t * all + i * TLLM_CSL_WIDE + r;
            float sum = from[0];
            for (p = 1; p < f->parts; p++) sum += from[p * f->tokens * all];
            f->y[(b->t0 + t) * f->y_row + (i * TLLM_CSL_WIDE + r) * f->y_n] = sum;
        }
}

static void tinyi_flash_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_flash f;
    (void)n_threads;
    tinyi_flash_read(op, &f);
    *shared_bytes = f.x_bytes + f.flag_bytes + f.part_bytes;
    *own_bytes = TINYI_FLASH_PLACES * sizeof(float) + 2 * TINYI_CSL_ROOM * sizeof(float) + f.acc_bytes;
}

static void tinyi_flash_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_flash f;
    tinyi_flash_job b;
    tiny_idx q0, q1, j;
    tinyi_flash_read(op, &f);
    memset(&b, 0, sizeof b);
    b.turn = TINYI_K(team, gemm_f32_turn);
    b.tile = TINYI_K(team, gemm_f32_tile);
    TINYI_OF(team->k, gemm_f32_shape)(&b.shape);
    b.csl = tinyi_csl_kernels_of(team->k);
    b.form = f.p.form == TLLM_FLASH_AUTO ? tinyi_flash_choose(f.n_item, f.down * f.across, f.n, b.csl, f.p.woven)
                                         : (tllm_flash_form)f.p.form;
    b.x = (float *)team->shared;
    b.flag = (unsigned char *)team->shared + f.x_bytes;
    b.part = (float *)(void *)(b.flag + f.flag_bytes);
    b.image = (float *)team->own;
    b.value = b.image + TINYI_FLASH_PLACES;
    b.at = (uint32_t *)(void *)(b.value + TINYI_CSL_ROOM);
    b.acc = b.value + 2 * TINYI_CSL_ROOM;
    for (b.t0 = 0; b.t0 < f.n; b.t0 += b.tokens) {
        if (b.t0) tiny_barrier(team);
        b.tokens = TINYI_MIN(f.n - b.t0, TINYI_FLASH_TOKENS);
        b.wide = tinyi_gemm_up(b.tokens, tinyi_flash_lanes(b.csl, b.tokens));
        if (b.form == TLLM_FLASH_IMAGE) {
            tiny_idx t, rows;
            for (t = b.wide = 0; t < b.tokens; t += rows) {
                rows = tinyi_gemm_next(b.shape.mr, b.tokens - t);
                b.wide += tinyi_gemm_height(b.shape.mr, rows);
            }
        }
        while (tiny_take(team, f.across, 4, &q0, &q1))
            for (; q0 < q1; q0++) tinyi_flash_pack(&f, &b, q0);
        tiny_barrier(team);
        for (j = b.plain = 0; j < f.across; j++) b.plain |= b.flag[j];
        while (tiny_take(team, f.down * f.parts, 1, &q0, &q1))
            for (; q0 < q1; q0++) tinyi_flash_piece(&f, &b, q0 / f.parts, q0 % f.parts);
        if (f.parts == 1) continue;
        tiny_barrier(team);
        while (tiny_take(team, f.down, 1, &q0, &q1))
            for (; q0 < q1; q0++) tinyi_flash_sum(&f, &b, q0);
    }
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_flash_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *item = op->in[1], *offset = op->in[2];
    const tllm_flash_params *p = (const tllm_flash_params *)op->params;
    tiny_idx dim[2], tiles, t, down, across;
    char text[96];
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "flash_matmul: x is %s, it must have 2 axes of f32",
                          tinyi_shape_text(x, text));
    if (item->dtype != TINY_I32 || item->rank != 1 || !tiny_tensor_is_dense(item))
        return tinyi_fail(ctx, TINY_E_SHAPE, "flash_matmul: items are %s, they must be dense i32 of one axis",
                          tinyi_shape_text(item, text));
    if (offset->dtype != TINY_I32 || offset->rank != 1 || !tiny_tensor_is_dense(offset))
        return tinyi_fail(ctx, TINY_E_SHAPE, "flash_matmul: offsets are %s, they must be dense i32 of one axis",
                          tinyi_shape_text(offset, text));
    if (!p || p->n_out < 1 || p->bf16 < 0 || p->bf16 > 1 || p->woven < 0 || p->woven > 1 || p->form < 0 ||
        p->form >= TLLM_FLASH_FORMS)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "flash_matmul: %td outputs, values %d, form %d: at least 1 output is needed, and 2 kinds of values and "
            "%d forms are known",
            p ? p->n_out : 0, p ? p->bf16 : 0, p ? p->form : 0, (int)TLLM_FLASH_FORMS);
    if (x->dim[1] < 1 || x->dim[1] > TINY_IDX_MAX / 65536 || p->n_out > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "flash_matmul: %td outputs of %td numbers", p->n_out, x->dim[1]);
    down = (p->n_out + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    across = (x->dim[1] + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    if (offset->dim[0] < 2 || (offset->dim[0] - 2) % down || (offset->dim[0] - 2) / down != across)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "flash_matmul: %td offsets for %td by %td tiles; there must be two more than tiles",
                          offset->dim[0], down, across);
    tiles = down * across;
    for (t = 0; offset->data && t < tiles; t++) {       /* data, but it leads to memory */
        const int32_t *o = (const int32_t *)offset->data + t;
        if ((t == 0 && o[0] != 0) || o[1] < o[0] || o[1] - o[0] > TINYI_FLASH_PLACES / 4)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "flash_matmul: tile %td of %td places goes from offset %d to %d", t,
                              (tiny_idx)TINYI_FLASH_PLACES, (int)o[0], (int)o[1]);
    }
    if (offset->data) {
        const int32_t *o = (const int32_t *)offset->data + tiles;
        if (o[0] != o[1] || (tiny_idx)o[0] != item->dim[0] / 4 || item->dim[0] % 4)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "flash_matmul: offsets end at %d and %d, in units of 4, for %td items", (int)o[0],
                              (int)o[1], item->dim[0]);
    }
    dim[0] = x->dim[0];
    dim[1] = p->n_out;
    tinyi_want(want, TINY_F32, 2, dim);
    return TINY_OK;
}

static void tinyi_flash_cost(const tiny_op *op, tiny_cost *c)
{
    const double items = (double)op->in[1]->dim[0], n = (double)op->in[0]->dim[0];
    tinyi_flash f;
    tinyi_flash_read(op, &f);
    c->flops = 2.0 * n * items;
    c->bytes = 4.0 * (items + (double)op->in[2]->dim[0]) + 4.0 * n * (double)(f.k + f.n_out);
}
static double tinyi_flash_terms(const tiny_op *op) { return (double)op->in[0]->dim[1]; }

/* Tile t of a case, always the same: items with padding to NULL or 4096 places; how many. */
static tiny_idx tinyi_flash_case_tile(const tiny_case *c, tiny_idx t, uint32_t *to)
{
    /* of 65536: none, .01, .1, .3, .5, all */
    static const unsigned shares[] = { 0, 655, 6554, 19661, 32768, 65536 };
    tllm_flash_params p;
    const tiny_idx across = (c->in[0].dim[1] + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE;
    tiny_idx at, n = 0;
    tiny_rng rng = tiny_rng_make((uint64_t)c->index + 1, (uint64_t)t);
    unsigned share;
    memcpy(&p, c->params.bytes, sizeof p);
    share = shares[(size_t)(c->index / 2) % TINYI_COUNT(shares)];
    for (at = 0; at < TINYI_FLASH_PLACES; at++) {
        const tiny_idx r = t / across * TLLM_CSL_WIDE + at / TLLM_CSL_WIDE,
                       column = t % across * TLLM_CSL_WIDE + at % TLLM_CSL_WIDE;
        const uint32_t draw = tiny_rng_u32(&rng);
        const float v = (float)(int)(draw >> 16) / 16384.0f - 1.9999f;
        if (r >= p.n_out || column >= c->in[0].dim[1] || (draw & 65535u) >= share) continue;
        if (to) to[n] = (uint32_t)at << 16 | (p.bf16 ? tinyi_f32_to_bf16(v) : tinyi_f32_to_f16(v));
        n++;
    }
    /* after all others, or if there is none: the order of items does not matter */
    for (at = TINYI_FLASH_PLACES - 1; n % 4; at--) {
        tiny_idx i;
        for (i = 0; to && i < n && (to[i] >> 16) != (uint32_t)at; i++) {}
        if (to && i < n) continue;
        if (to) to[n] = (uint32_t)at << 16;
        n++;
    }
    return n;
}

/* groups of four of one row first, counted in the first three items: enough of woven for the kit */
static void tinyi_flash_case_weave(uint32_t *item, tiny_idx n)
{
    tiny_idx i, j, fours = 0;
    for (i = 0; i + 4 <= n; i++) {
        if (item[i] >> 22 != item[i + 3] >> 22 || i < 4 * fours) continue;
        for (j = 0; j < 4; j++) {
            const uint32_t t = item[4 * fours + j];
            item[4 * fours + j] = item[i + j];
            item[i + j] = t;
        }
        fours++;
        i += 3;
    }
    for (i = 0; n && i < 3; i++) item[i] |= (uint32_t)(fours >> 4 * i & 15) << 28;
}

static void tinyi_flash_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_idx tiles = c->in[2].dim[0] - 2;
    uint32_t *item = (uint32_t *)data;
    int32_t *offset = (int32_t *)data, sum = 0;
    tllm_flash_params p;
    tiny_idx t;
    memcpy(&p, c->params.bytes, sizeof p);
    for (t = 0; t < tiles; t++)
        if (i_input == 1) {
            const tiny_idx n = tinyi_flash_case_tile(c, t, item);
            if (p.woven) tinyi_flash_case_weave(item, n);
            item += n;
        } else {
            offset[t] = sum;
            sum += (int32_t)(tinyi_flash_case_tile(c, t, NULL) / 4);
        }
    if (i_input == 2) offset[tiles] = offset[tiles + 1] = sum;
}

static void tinyi_flash_cases(tiny_case *c)
{
    tllm_flash_params p;
    tiny_idx t, tiles;
    memset(&p, 0, sizeof p);
    c->in[0].rank = 2;
    c->in[0].dim[0] = tiny_case_pick(c, 3) ? tiny_case_dim(c, 20) : tiny_case_dim(c, 70);
    c->in[0].dim[1] = tiny_case_dim(c, tiny_case_pick(c, 4) ? 300 : 1100);
    p.n_out = tiny_case_dim(c, 200);
    p.bf16 = c->index % 2;
    p.form = c->index % TLLM_FLASH_FORMS;
    p.woven = c->index / 3 % 2;
    memcpy(c->params.bytes, &p, sizeof p);
    p.magnitude = 1;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &p, sizeof p);
    tiles = ((p.n_out + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE) * ((c->in[0].dim[1] + TLLM_CSL_WIDE - 1) / TLLM_CSL_WIDE);
    c->in[1].dtype = c->in[2].dtype = TINY_I32;
    c->in[1].rank = c->in[2].rank = 1;
    c->in[2].dim[0] = tiles + 2;
    for (t = 0; t < tiles; t++) c->in[1].dim[0] += tinyi_flash_case_tile(c, t, NULL);
    c->fill[1] = c->fill[2] = TINY_FILL_TABLE;
    c->dense[1] = c->dense[2] = 1;
    c->fill_table = tinyi_flash_fill;
}

static const short tinyi_flash_kernels[] = { TINYI_K_gemm_f32_tile, TINYI_K_gemm_f32_shape, TINYI_K_gemm_f32_turn, -1 };
static const tiny_op_row tinyi_row_flash = TINYI_ROW_OF("flash_matmul", TLLM_OP_FLASH_MATMUL, TAKES(3, 3), GIVES(1),
    PARAMS(tllm_flash_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_flash_shape), REFERENCE(tinyi_flash_ref), FAST(tinyi_flash_fast, tinyi_flash_work),
    COST(tinyi_flash_cost), CASES(tinyi_flash_cases), BOUND(TINY_BOUND_LINEAR, 2.0, 1.01), TERMS(tinyi_flash_terms),
    GRADIENT(NULL), KERNELS(tinyi_flash_kernels),
    SAYS("y[t][r] = sum over the stored numbers of row r of x[t][c] a[r][c], a in tiles of compressed lists"));
TINY_API const tiny_op_row *tllm_flash_row(void) { return &tinyi_row_flash; }

/* whether its tiles and what they need can be counted: the sizes are the caller's */
static int tinyi_flash_counts(const tllm_csl *a)
{
    return a->down >= 1 && a->across >= 1 && a->down <= (TINY_IDX_MAX - 2) / a->across;
}

TINY_API tiny_status tllm_flash_matmul_as(tiny_ctx *ctx, const tiny_tensor *x, const tllm_csl *a, tllm_flash_form form,
                                          const tiny_tensor *y)
{
    tllm_flash_params p;
    tiny_tensor item, offset;
    tiny_op op;
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!a || !a->offset) return tinyi_fail(ctx, TINY_E_ARGUMENT, "flash_matmul: the matrix is NULL");
    if (a->profile != TLLM_CSL_ORDERED && a->profile != TLLM_CSL_WOVEN)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "flash_matmul: the matrix has profile %d: tllm_csl_convert makes it ordered (%d) or woven (%d)", a->profile,
            (int)TLLM_CSL_ORDERED, (int)TLLM_CSL_WOVEN);
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.n_out = a->n_out;
    p.bf16 = a->bf16;
    p.form = (int)form;
    p.woven = a->profile == TLLM_CSL_WOVEN;
    if (x && x->rank == 2 && x->dim[1] != a->k)
        return tinyi_fail(ctx, TINY_E_SHAPE, "flash_matmul: rows of x have %td numbers, but those of the matrix %td",
                          x->dim[1], a->k);
    if (!tinyi_flash_counts(a))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "flash_matmul: %td by %td tiles; the counts must be above 0 and must not overflow", a->down,
                          a->across);
    if (a->n_item > (size_t)TINY_IDX_MAX / sizeof *a->item)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "flash_matmul: %zu items are more than memory can hold", a->n_item);
    item = tiny_tensor_1d((void *)(uintptr_t)a->item, TINY_I32, (tiny_idx)a->n_item);
    offset = tiny_tensor_1d((void *)(uintptr_t)a->offset, TINY_I32, a->down * a->across + 2);
    op.kind = TLLM_OP_FLASH_MATMUL;
    op.row = &tinyi_row_flash;
    op.in[0] = x;
    op.in[1] = &item;
    op.in[2] = &offset;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tllm_flash_matmul(tiny_ctx *ctx, const tiny_tensor *x, const tllm_csl *a, const tiny_tensor *y)
{
    return tllm_flash_matmul_as(ctx, x, a, TLLM_FLASH_AUTO, y);
}

TINY_API tllm_flash_form tllm_flash_form_of(const tiny_ctx *ctx, const tllm_csl *a, tiny_idx n)
{
    if (tinyi_ctx_check(ctx) || !a || !tinyi_flash_counts(a) || ctx->target == TINY_TARGET_REFERENCE)
        return TLLM_FLASH_AUTO;
    return tinyi_flash_choose((tiny_idx)TINYI_MIN(a->n_item, (size_t)TINY_IDX_MAX), a->down * a->across,
                              TINYI_MIN(n, TINY_IDX_MAX - TINYI_FLASH_TOKENS), tinyi_csl_kernels_of(ctx->k),
                              a->profile == TLLM_CSL_WOVEN);
}

