/* src/llm/lab/vptq/vptq_matmul.c - products with weights that are vectors of code books
 *
 * Formula  y[t][r] = sum over inputs i of x[t][i] w'[r][i], w'[s v + j][i] = scale_i (C[c1][j] + D[c2][j]) + bias_i for
 *          the codes c1, c2 of row s of vectors
 * Work     first all books are laid out again, with vectors padded to whole SIMD vectors (as halves if the processor
 *          converts halves, else as floats). x is put into the order of the codes, times the scales; x times the biases
 *          is one number for each row of x. Then threads take rows of vectors. 64 rows of x at a time. The result does
 *          not depend on the number of threads.
 * GATHER   y[s] += x_i C[c]: v multiply-adds per code, in one to four SIMD vectors; a book of 4096 x 8 halves is 64 KB,
 *          in the second-level cache
 * BUCKET   a[c] += x_i, then y[s] = sum of a[c] C[c]: an addition per code and v multiply-adds per vector of the book
 * EXPAND   64 inputs of up to 64 outputs become panels of floats, and the tile kernel of math/gemm_inside.h multiplies
 *          them with up to 64 rows of x
 * Not finite: an infinity times the sum of two vectors is not the sum of two infinities, so rows of x with an infinity
 *          use the plain loop. So do rows with a number of 2^100 or more, which may overflow times a scale or in a
 *          bucket although the sum is finite.
 * Cost     bits / 8 bytes per weight and the books; the books are read and written once per call
 * Error    a sum of at most n products (in buckets n + k) in some order, each of three factors, with C + D rounded:
 *          LINEAR, n + k + 8 units
 * Left out keeping the laid-out books between calls: each matrix of a model would then read 64 to 128 KB from memory
 *          instead of 48 KB */
#include <string.h>
#include "core/conform.h"
#include "core/state_inside.h"
#include "llm/ops.h"
#include "llm/lab/vptq/vptq.h"
#include "llm/lab/vptq/vptq_inside.h"
#include "math/gemm_inside.h"
#include "math/rows_inside.h"

#define TINYI_VPTQ_TOKENS 64                /* rows of x at a time */
#define TINYI_VPTQ_WIDE 64                  /* inputs of a tile, and outputs at most */
#define TINYI_VPTQ_PAD 16                   /* floats of a vector of a book, at most */
#define TINYI_VPTQ_CHUNK 128                /* vectors of a book that become floats at once */

TINYI_TABLE_CHOICE(tinyi_vptq_kernels, tinyi_vptq_kernels)

/* ---- what a call is ---------------------------------------------------------------------------------------------- */

typedef struct tinyi_vptq_call {
    tllm_vptq q;
    tllm_vptq_params p;
    const float *x;
    float *y;
    tiny_idx n, x_row, x_k, y_row, y_n;     /* n: rows of x */
    tiny_idx parts, tokens, unit;           /* tokens: rows of x at once */
    size_t entries, buckets;                /* places that codes can name, in all books; of one part, at most */
} tinyi_vptq_call;

static void tinyi_vptq_look(const tiny_op *op, tinyi_vptq_call *f)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tinyi_vptq_part part;
    memset(f, 0, sizeof *f);
    if (op->params) f->p = *(const tllm_vptq_params *)op->params;
    /* was checked by the shape rule */
    (void)tinyi_vptq_head(NULL, "", (const unsigned char *)op->in[1]->data, (size_t)op->in[1]->dim[0], &f->q);
    f->x = (const float *)x->data;
    f->n = x->dim[0];
    f->x_row = x->stride[0];
    f->x_k = x->dim[1] > 1 ? x->stride[1] : 1;
    f->tokens = TINYI_MIN(f->n, TINYI_VPTQ_TOKENS);
    if (y) {
        f->y = (float *)y->data;
        f->y_row = y->stride[0];
        f->y_n = y->stride[1];
    }
    if (!f->q.bytes) return;
    f->parts = tinyi_vptq_parts(&f->q);
    f->unit = tinyi_vptq_unit(&f->q);
    tinyi_vptq_part_of(&f->q, 0, &part);
    f->buckets = (size_t)1 << part.bits;
    tinyi_vptq_part_of(&f->q, f->parts - 1, &part);
    f->buckets = TINYI_MAX(f->buckets, ((size_t)1 << part.bits) + (part.k2 ? (size_t)1 << part.bits2 : 0));
    f->entries = part.entries + ((size_t)1 << part.bits) + (part.k2 ? (size_t)1 << part.bits2 : 0);
}

/* ---- reference --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
/* number j of the vector in row s of place i; magnitude: with absolute values all the way */
static float tinyi_vptq_weight(const tinyi_vptq_call *f, const tinyi_vptq_part *part, tiny_idx s, tiny_idx i,
                               tiny_idx j)
{
    const unsigned width = (unsigned)(part->bits + part->bits2);
    const uint32_t word = tinyi_vptq_word(f->q.bytes + part->index + (size_t)s * part->row_bytes, (size_t)i, width,
                                          tinyi_vptq_mask((int)width));
    const tiny_idx c1 = (tiny_idx)(word & tinyi_vptq_mask(part->bits)),
                   c2 = part->k2 ? (tiny_idx)(word >> part->bits) : 0;
    float c =
        c1 < part->k ? tinyi_f16_to_f32(tinyi_le16(f->q.bytes + part->book + 2 * (size_t)(c1 * part->v + j))) : 0.0f;
    float d =
        c2 < part->k2 ? tinyi_f16_to_f32(tinyi_le16(f->q.bytes + part->book2 + 2 * (size_t)(c2 * part->v + j))) : 0.0f;
    float scale = tinyi_vptq_scale(&f->q, part->at + i), bias = tinyi_vptq_bias(&f->q, part->at + i);
    if (f->p.magnitude) {
        c = c < 0.0f ? -c : c;
        d = d < 0.0f ? -d : d;
        scale = scale < 0.0f ? -scale : scale;
        bias = bias < 0.0f ? -bias : bias;
    }
    c += d;
    if (!f->q.normalized) return c;
    c *= scale;
    return c + bias;
}

static float tinyi_vptq_sum(const tinyi_vptq_call *f, tiny_idx t, tiny_idx r)
{
    tinyi_vptq_part part;
    double sum = 0.0;
    tiny_idx p, i;
    for (p = 0; p < f->parts; p++) {
        tinyi_vptq_part_of(&f->q, p, &part);
        for (i = 0; i < part.n; i++) {
            const double x = (double)f->x[t * f->x_row + tinyi_vptq_input(&f->q, part.at + i) * f->x_k];
            sum +=
                (f->p.magnitude && x < 0.0 ? -x : x) * (double)tinyi_vptq_weight(f, &part, r / part.v, i, r % part.v);
        }
    }
    return tinyi_round_f32(sum);
}

static void tinyi_vptq_ref(const tiny_op *op)
{
    tinyi_vptq_call f;
    tiny_idx t, r;
    tinyi_vptq_look(op, &f);
    for (r = 0; r < f.q.rows; r++)
        for (t = 0; t < f.n; t++) f.y[t * f.y_row + r * f.y_n] = tinyi_vptq_sum(&f, t, r);
}
TINY_REF_END

/* ---- fast -------------------------------------------------------------------------------------------------------- */

/* With SIMD (avx2, 1024 and 4096 inputs) buckets took 0.9 to 1.3 times the time of gathering for books of 256 vectors,
 * and 1.5 times for 16 and 64, because each addition waits for the one before: AUTO does not choose them there. In
 * scalar code they took a tenth to half of the time if a row has at least as many codes as the book has vectors. From
 * eight rows of x on, expanding a tile once is faster. docs/papers/vptq.md has the figures. */
static tllm_vptq_form tinyi_vptq_choose(const tllm_vptq *q, tiny_idx n, int lanes)
{
    const tiny_idx wide = (q->n - q->outliers) / q->groups;
    const tiny_idx entries =
        ((tiny_idx)1 << tinyi_vptq_bits(q->k)) + (q->k2 ? (tiny_idx)1 << tinyi_vptq_bits(q->k2) : 0);
    if (lanes == 1 && entries <= wide) return TLLM_VPTQ_BUCKET;
    return n >= 8 ? TLLM_VPTQ_EXPAND : TLLM_VPTQ_GATHER;
}

typedef struct tinyi_vptq_job {             /* of one thread, for up to 64 rows of x */
    const tinyi_vptq_kernels *k;
    tinyi_fn_gemm_f32_turn turn;
    tinyi_fn_gemm_f32_tile tile;
    tinyi_fn_f16_to_f32 floats;
    tinyi_gemm_shape shape;
    tllm_vptq_form form;
    tiny_idx t0, tokens, wide;              /* wide: heights of all tiles of x */
    unsigned char *table;                   /* shared: books, a number every b->number bytes; */
    size_t number;
    float *x, *bias;                        /* x as the form needs it; x times the biases (tokens), */
    /* and 1 for each row of x with an infinity, a NaN, or a number from 2^100 on */
    float *strange;
    float *acc, *image, *vector, *bucket;   /* own */
} tinyi_vptq_job;

static int tinyi_vptq_pad(const tinyi_vptq_job *b, tiny_idx v)
{
    return (int)(v + b->k->lanes - 1) / b->k->lanes * b->k->lanes;
}
static tiny_idx tinyi_vptq_chunks(int bits)
{
    return (((tiny_idx)1 << bits) + TINYI_VPTQ_CHUNK - 1) / TINYI_VPTQ_CHUNK;
}

/* vectors e0 .. e1 of a book, of which k are there */
static void tinyi_vptq_numbers(const tinyi_vptq_job *b, unsigned char *table, const unsigned char *book, tiny_idx v,
                               tiny_idx k, tiny_idx e0, tiny_idx e1)
{
    const tiny_idx pad = tinyi_vptq_pad(b, v), n = TINYI_MAX(TINYI_MIN(e1, k) - e0, 0) * v;
    uint16_t half[TINYI_VPTQ_CHUNK * TLLM_VPTQ_MOST_V];
    float *flat = b->acc, *to = (float *)(void *)table;
    tiny_idx i, j;
    for (i = 0; i < n; i++) half[i] = tinyi_le16(book + 2 * (size_t)(e0 * v + i));
    if (b->k->half) {
        uint16_t *as = (uint16_t *)(void *)table;
        for (i = e0; i < e1; i++)
            for (j = 0; j < pad; j++) as[i * pad + j] = i < k && j < v ? half[(i - e0) * v + j] : (uint16_t)0;
        return;
    }
    b->floats(flat, half, (size_t)n);
    for (i = e0; i < e1; i++)
        for (j = 0; j < pad; j++) to[i * pad + j] = i < k && j < v ? flat[(i - e0) * v + j] : 0.0f;
}

/* chunk c of all books */
static void tinyi_vptq_chunk(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx c)
{
    tinyi_vptq_part part;
    tiny_idx p = 0, each, first, e0;
    int second;
    tinyi_vptq_part_of(&f->q, 0, &part);
    each = tinyi_vptq_chunks(part.bits);
    if (f->q.outliers && c >= each) {
        c -= each;
        p = 1;
        tinyi_vptq_part_of(&f->q, 1, &part);
    }
    first = tinyi_vptq_chunks(part.bits);
    if (!f->q.outliers || p) {
        each = first + (part.k2 ? tinyi_vptq_chunks(part.bits2) : 0);
        p += c / each;
        c %= each;
        tinyi_vptq_part_of(&f->q, p, &part);
    }
    second = c >= first;
    e0 = (second ? c - first : c) * TINYI_VPTQ_CHUNK;
    tinyi_vptq_numbers(b,
                       b->table + (part.entries + (second ? (size_t)1 << part.bits : 0)) * TINYI_VPTQ_PAD * b->number,
                       f->q.bytes + (second ? part.book2 : part.book), part.v, second ? part.k2 : part.k, e0,
                       TINYI_MIN(e0 + TINYI_VPTQ_CHUNK, (tiny_idx)1 << (second ? part.bits2 : part.bits)));
}
static tiny_idx tinyi_vptq_all_chunks(const tinyi_vptq_call *f)
{
    tinyi_vptq_part first, last;
    tinyi_vptq_part_of(&f->q, 0, &first);
    tinyi_vptq_part_of(&f->q, f->parts - 1, &last);
    return (f->q.outliers ? tinyi_vptq_chunks(first.bits) : 0) +
           f->q.groups * (tinyi_vptq_chunks(last.bits) + (last.k2 ? tinyi_vptq_chunks(last.bits2) : 0));
}

/* blocks of 64 inputs or fewer, none in two parts */
static tiny_idx tinyi_vptq_blocks(const tinyi_vptq_call *f)
{
    return (f->q.outliers + TINYI_VPTQ_WIDE - 1) / TINYI_VPTQ_WIDE +
           f->q.groups * (((f->q.n - f->q.outliers) / f->q.groups + TINYI_VPTQ_WIDE - 1) / TINYI_VPTQ_WIDE);
}
static tiny_idx tinyi_vptq_block_at(const tinyi_vptq_call *f, tiny_idx block, tiny_idx *n)
{
    const tiny_idx apart = (f->q.outliers + TINYI_VPTQ_WIDE - 1) / TINYI_VPTQ_WIDE,
                   wide = (f->q.n - f->q.outliers) / f->q.groups, each = (wide + TINYI_VPTQ_WIDE - 1) / TINYI_VPTQ_WIDE;
    tiny_idx in;
    if (block < apart) {
        *n = TINYI_MIN(f->q.outliers - block * TINYI_VPTQ_WIDE, TINYI_VPTQ_WIDE);
        return block * TINYI_VPTQ_WIDE;
    }
    in = (block - apart) % each * TINYI_VPTQ_WIDE;
    *n = TINYI_MIN(wide - in, TINYI_VPTQ_WIDE);
    return f->q.outliers + (block - apart) / each * wide + in;
}

/* places at .. at + n of row t of x, in the order of the codes, times their scales */
static void tinyi_vptq_turn(const tinyi_vptq_call *f, float *to, tiny_idx t, tiny_idx at, tiny_idx n)
{
    const float *from = f->x + t * f->x_row;
    tiny_idx i;
    for (i = 0; i < n; i++) to[i] = from[tinyi_vptq_input(&f->q, at + i) * f->x_k];
    for (i = 0; f->q.normalized && i < n; i++) to[i] *= tinyi_vptq_scale(&f->q, at + i);
}

static void tinyi_vptq_biases(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx t)
{
    const float *x = f->x + (b->t0 + t) * f->x_row;
    double sum = 0.0;
    int strange = 0;
    tiny_idx i;
    /* 2^100 and above, an infinity, a NaN */
    for (i = 0; i < f->q.n; i++) strange |= (tinyi_f32_bits(x[i * f->x_k]) & 0x7fffffffu) >= 0x71800000u;
    for (i = 0; f->q.normalized && i < f->q.n; i++)
        sum += (double)x[tinyi_vptq_input(&f->q, i) * f->x_k] * (double)tinyi_vptq_bias(&f->q, i);
    b->bias[t] = (float)sum;
    b->strange[t] = strange ? 1.0f : 0.0f;
}

/* a block of x as panels of rows */
static void tinyi_vptq_panels(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx block)
{
    tiny_idx n, t, rows, at = tinyi_vptq_block_at(f, block, &n);
    float *to = b->x + block * TINYI_VPTQ_WIDE * b->wide;
    for (t = 0; t < b->tokens; t++) tinyi_vptq_turn(f, b->acc + t * TINYI_VPTQ_WIDE, b->t0 + t, at, n);
    for (t = 0; t < b->tokens; t += rows) {
        tiny_idx high;
        rows = tinyi_gemm_next(b->shape.mr, b->tokens - t);
        high = tinyi_gemm_height(b->shape.mr, rows);
        b->turn(to, high, b->acc + t * TINYI_VPTQ_WIDE, TINY_F32, TINYI_VPTQ_WIDE, (size_t)rows, (size_t)n);
        to += TINYI_VPTQ_WIDE * high;
    }
}

static void tinyi_vptq_run_of(const tinyi_vptq_call *f, const tinyi_vptq_job *b, const tinyi_vptq_part *part,
                              tinyi_vptq_run *r)
{
    r->c = b->table + part->entries * TINYI_VPTQ_PAD * b->number;
    r->d = part->k2 ? b->table + (part->entries + ((size_t)1 << part->bits)) * TINYI_VPTQ_PAD * b->number : NULL;
    r->bits = part->bits;
    r->bits2 = part->bits2;
    r->bucket = b->bucket;
    r->n = (size_t)part->n;
    (void)f;
}

/* outputs r0 .. r0 + rows, a row of vectors after the other */
static void tinyi_vptq_rows(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx r0, tiny_idx rows)
{
    tinyi_vptq_part part;
    tinyi_vptq_run run;
    tiny_idx p, s, t, j;
    for (p = 0; p < f->parts; p++) {
        tinyi_vptq_part_of(&f->q, p, &part);
        tinyi_vptq_run_of(f, b, &part, &run);
        for (s = r0 / part.v; s * part.v < r0 + rows; s++)
            for (t = 0; t < b->tokens; t++) {
                float *to = b->acc + t * TINYI_VPTQ_WIDE + s * part.v - r0;
                run.at = f->q.bytes + part.index + (size_t)s * part.row_bytes;
                run.x = b->x + t * f->q.n + part.at;
                (b->form == TLLM_VPTQ_BUCKET ? b->k->bucket : b->k->gather)(b->vector, &run, tinyi_vptq_pad(b, part.v));
                for (j = 0; j < part.v; j++) to[j] += b->vector[j];
            }
    }
}

/* the same by tiles */
static void tinyi_vptq_tiles(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx r0, tiny_idx rows)
{
    const tiny_idx nr = b->shape.nr, blocks = tinyi_vptq_blocks(f);
    tinyi_vptq_part part;
    tinyi_vptq_run run;
    tinyi_gemm_ahead ahead;
    tiny_idx block, n, p = 0, s, t, j, i, next;
    ahead.a = ahead.b = (const unsigned char *)b->image;
    ahead.step = 0;
    tinyi_vptq_part_of(&f->q, 0, &part);
    for (block = 0; block < blocks; block++) {
        const tiny_idx at = tinyi_vptq_block_at(f, block, &n);
        const float *x = b->x + block * TINYI_VPTQ_WIDE * b->wide;
        int pad;
        while (at >= part.at + part.n) tinyi_vptq_part_of(&f->q, ++p, &part);
        tinyi_vptq_run_of(f, b, &part, &run);
        run.n = (size_t)n;
        pad = tinyi_vptq_pad(b, part.v);
        for (s = r0 / part.v; s * part.v < r0 + rows; s++) {
            const tiny_idx row = s * part.v - r0, off = row % nr;
            /* blocks begin at whole bytes */
            run.at = f->q.bytes + part.index + (size_t)s * part.row_bytes +
                     (size_t)((at - part.at) / 8 * (part.bits + part.bits2));
            if (off + pad <= nr) {          /* what it writes after its v rows, the next one writes again */
                b->k->expand(b->image + row / nr * nr * TINYI_VPTQ_WIDE + off, (size_t)nr, &run, pad);
                continue;
            }
            b->k->expand(b->acc + TINYI_VPTQ_TOKENS * TINYI_VPTQ_WIDE, (size_t)pad, &run, pad);
            for (j = 0; j < part.v; j++) {
                float *to = b->image + (row + j) / nr * nr * TINYI_VPTQ_WIDE + (row + j) % nr;
                const float *from = b->acc + TINYI_VPTQ_TOKENS * TINYI_VPTQ_WIDE + j;
                for (i = 0; i < n; i++) to[i * nr] = from[i * pad];
            }
        }
        for (t = 0; t < b->tokens; t += next) {
            next = tinyi_gemm_next(b->shape.mr, b->tokens - t);
            for (j = 0; j < rows; j += nr)
                b->tile(b->acc + t * TINYI_VPTQ_WIDE + j, TINYI_VPTQ_WIDE, x, b->image + j * TINYI_VPTQ_WIDE, (size_t)n,
                        (int)next, (int)nr, 1, &ahead);
            x += TINYI_VPTQ_WIDE * tinyi_gemm_height(b->shape.mr, next);
        }
    }
}

static void tinyi_vptq_piece(const tinyi_vptq_call *f, const tinyi_vptq_job *b, tiny_idx piece, tiny_idx high)
{
    const tiny_idx r0 = piece * high, rows = TINYI_MIN(f->q.rows - r0, high);
    tiny_idx t, r;
    memset(b->acc, 0, (size_t)(TINYI_VPTQ_WIDE * b->tokens) * sizeof(float));
    if (b->form == TLLM_VPTQ_EXPAND) tinyi_vptq_tiles(f, b, r0, rows);
    else tinyi_vptq_rows(f, b, r0, rows);
    for (t = 0; t < b->tokens; t++)
        for (r = 0; r < rows; r++) f->y[(b->t0 + t) * f->y_row + (r0 + r) * f->y_n] =
            b->strange[t] != 0.0f ? tinyi_vptq_sum(f, b->t0 + t, r0 + r) : b->acc[t * TINYI_VPTQ_WIDE + r] + b->bias[t];
}

static size_t tinyi_vptq_x_floats(const tinyi_vptq_call *f)
{
    const size_t rows = (size_t)(f->tokens * f->q.n), panels = (size_t)(tinyi_vptq_blocks(f) * TINYI_VPTQ_WIDE) *
                                                               (size_t)(tinyi_gemm_up(f->tokens, 16) + 16);
    return (TINYI_MAX(rows, panels) + 15) / 16 * 16;
}

static void tinyi_vptq_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_vptq_call f;
    (void)n_threads;
    tinyi_vptq_look(op, &f);
    *shared_bytes = *own_bytes = 0;
    if (!f.q.bytes) return;
    *shared_bytes = (f.entries * TINYI_VPTQ_PAD + tinyi_vptq_x_floats(&f) + 2 * TINYI_VPTQ_TOKENS) * sizeof(float);
    *own_bytes =
        ((TINYI_VPTQ_TOKENS + TINYI_VPTQ_PAD + TINYI_VPTQ_WIDE) * TINYI_VPTQ_WIDE + TINYI_VPTQ_PAD + f.buckets) *
        sizeof(float);
}

static void tinyi_vptq_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_vptq_call f;
    tinyi_vptq_job b;
    tiny_idx i, i1, chunks, high, t, rows;
    tinyi_vptq_look(op, &f);
    memset(&b, 0, sizeof b);
    b.floats = TINYI_K(team, f16_to_f32);
    b.turn = TINYI_K(team, gemm_f32_turn);
    b.tile = TINYI_K(team, gemm_f32_tile);
    TINYI_OF(team->k, gemm_f32_shape)(&b.shape);
    b.k = tinyi_vptq_kernels_of(team->k);
    b.form = f.p.form == TLLM_VPTQ_AUTO ? tinyi_vptq_choose(&f.q, f.n, b.k->lanes) : (tllm_vptq_form)f.p.form;
    b.table = (unsigned char *)team->shared;
    b.number = b.k->half ? sizeof(uint16_t) : sizeof(float);
    b.x = (float *)team->shared + f.entries * TINYI_VPTQ_PAD;
    b.bias = b.x + tinyi_vptq_x_floats(&f);
    b.strange = b.bias + TINYI_VPTQ_TOKENS;
    b.acc = (float *)team->own;
    b.image = b.acc + (TINYI_VPTQ_TOKENS + TINYI_VPTQ_PAD) * TINYI_VPTQ_WIDE;
    b.vector = b.image + TINYI_VPTQ_WIDE * TINYI_VPTQ_WIDE;
    b.bucket = b.vector + TINYI_VPTQ_PAD;
    high = b.form == TLLM_VPTQ_EXPAND ? TINYI_VPTQ_WIDE / f.unit * f.unit : f.unit * TINYI_MAX(16 / f.unit, 1);
    for (b.t0 = 0; b.t0 < f.n; b.t0 += b.tokens) {
        tiny_idx turns;
        if (b.t0) tiny_barrier(team);
        b.tokens = TINYI_MIN(f.n - b.t0, TINYI_VPTQ_TOKENS);
        for (t = b.wide = 0; t < b.tokens; t += rows) {
            rows = tinyi_gemm_next(b.shape.mr, b.tokens - t);
            b.wide += tinyi_gemm_height(b.shape.mr, rows);
        }
        chunks = b.t0 ? 0 : tinyi_vptq_all_chunks(&f);
        turns = b.form == TLLM_VPTQ_EXPAND ? tinyi_vptq_blocks(&f) : b.tokens;
        while (tiny_take(team, chunks + b.tokens + turns, 1, &i, &i1))
            for (; i < i1; i++) {
                if (i < turns && b.form == TLLM_VPTQ_EXPAND) tinyi_vptq_panels(&f, &b, i);
                else if (i < turns) tinyi_vptq_turn(&f, b.x + i * f.q.n, b.t0 + i, 0, f.q.n);
                else if (i < turns + b.tokens) tinyi_vptq_biases(&f, &b, i - turns);
                else tinyi_vptq_chunk(&f, &b, i - turns - b.tokens);
            }
        tiny_barrier(team);
        while (tiny_take(team, (f.q.rows - 1) / high + 1, 1, &i, &i1))
            for (; i < i1; i++) tinyi_vptq_piece(&f, &b, i, high);
    }
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

/* the most bytes that the product takes: laid-out books of hostile bytes can be 64 times as large */
static double tinyi_vptq_room(const tllm_vptq *q)
{
    tinyi_vptq_part last;
    tinyi_vptq_part_of(q, tinyi_vptq_parts(q) - 1, &last);
    return 4.0 * TINYI_VPTQ_PAD * ((double)last.entries + 2.0 * 1048576.0) +
           4.0 * (TINYI_VPTQ_TOKENS + 32.0) * ((double)q->n + TINYI_VPTQ_WIDE * ((double)q->groups + 2.0));
}

static tiny_status tinyi_vptq_shape_rule(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *bytes = op->in[1];
    const tllm_vptq_params *p = (const tllm_vptq_params *)op->params;
    tiny_idx dim[2];
    tllm_vptq q;
    char text[96];
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "vptq_matmul: x is %s, it must have 2 axes of f32",
                          tinyi_shape_text(x, text));
    if (bytes->dtype != TINY_U8 || bytes->rank != 1 || !tiny_tensor_is_dense(bytes))
        return tinyi_fail(ctx, TINY_E_SHAPE, "vptq_matmul: the matrix is %s, it must be dense u8 of one axis",
                          tinyi_shape_text(bytes, text));
    if (!p || p->form < 0 || p->form >= TLLM_VPTQ_FORMS || p->rows < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "vptq_matmul: form %d, %td outputs: there are %d forms, and at least 1 output is needed",
                          p ? p->form : 0, p ? p->rows : 0, (int)TLLM_VPTQ_FORMS);
    if (bytes->data) {                      /* data, but it leads to memory */
        const tiny_status st =
            tinyi_vptq_head(ctx, "vptq_matmul", (const unsigned char *)bytes->data, (size_t)bytes->dim[0], &q);
        if (st) return st;
        if (q.n != x->dim[1] || q.rows != p->rows)
            return tinyi_fail(ctx, TINY_E_SHAPE,
                              "vptq_matmul: %td outputs of rows of %td numbers; the matrix has %td outputs of %td",
                              p->rows, x->dim[1], q.rows, q.n);
        if (tinyi_vptq_room(&q) > (double)(SIZE_MAX / 4))
            return tinyi_fail(ctx, TINY_E_OVERFLOW,
                              "vptq_matmul: books of %td vectors for each of %td groups, laid out for %td inputs, are "
                              "more than this machine can address",
                              q.k + q.k2, q.groups, q.n);
    }
    dim[0] = x->dim[0];
    dim[1] = p->rows;
    tinyi_want(want, TINY_F32, 2, dim);
    return TINY_OK;
}

static void tinyi_vptq_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)op->in[0]->dim[0], k = (double)op->in[0]->dim[1],
                 rows = op->params ? (double)((const tllm_vptq_params *)op->params)->rows : 0.0;
    c->flops = 2.0 * n * k * rows;
    c->bytes = (double)op->in[1]->dim[0] + 4.0 * n * (k + rows);
}

static double tinyi_vptq_terms(const tiny_op *op)
{
    tinyi_vptq_call f;
    tinyi_vptq_look(op, &f);
    return (double)op->in[0]->dim[1] +
           (f.p.form == TLLM_VPTQ_AUTO || f.p.form == TLLM_VPTQ_BUCKET ? (double)f.buckets : 0.0);
}

/* sizes of a case, always the same for its number; 0: it cannot be one */
static int tinyi_vptq_case(const tiny_case *c, tllm_vptq *q)
{
    static const short books[] = { 2, 16, 256, 5, 64, 100, 31, 512 };
    tiny_rng rng = tiny_rng_make((uint64_t)c->index + 1, 7);
    tllm_vptq_params p;
    memcpy(&p, c->params.bytes, sizeof p);
    memset(q, 0, sizeof *q);
    q->rows = p.rows;
    q->n = c->in[0].dim[1];
    q->v = 1 + (tiny_idx)tiny_rng_below(&rng, (uint32_t)TINYI_MIN(q->rows, TLLM_VPTQ_MOST_V));
    q->k = books[tiny_rng_below(&rng, (uint32_t)TINYI_COUNT(books))];
    q->k2 = tiny_rng_below(&rng, 2) ? books[tiny_rng_below(&rng, (uint32_t)TINYI_COUNT(books))] : 0;
    q->groups = tiny_rng_below(&rng, 2) ? 1 : 1 + (tiny_idx)tiny_rng_below(&rng, 4);
    q->groups = TINYI_MIN(q->groups, q->n);
    q->outliers = tiny_rng_below(&rng, 2) ? (tiny_idx)tiny_rng_below(&rng, (uint32_t)(q->n - q->groups + 1)) : 0;
    q->outliers += (q->n - q->outliers) % q->groups;
    if (q->outliers) {
        q->k0 = books[tiny_rng_below(&rng, (uint32_t)TINYI_COUNT(books))];
        q->v0 = tiny_rng_below(&rng, 2) || q->v % 2 ? q->v : q->v / 2;
    }
    q->permuted = (q->groups > 1 || q->outliers) && tiny_rng_below(&rng, 2);
    q->normalized = tiny_rng_below(&rng, 3) == 0;
    return tinyi_vptq_bytes(q) != 0;
}

static void tinyi_vptq_case_fill(tiny_case *c, int i_input, void *data)
{
    tiny_rng rng = tiny_rng_make((uint64_t)c->index + 1, 8);
    tllm_vptq q;
    (void)i_input;
    (void)tinyi_vptq_case(c, &q);
    memset(data, 0, tinyi_vptq_bytes(&q));
    tinyi_vptq_fill(&q, (unsigned char *)data, &rng);
}

static void tinyi_vptq_cases(tiny_case *c)
{
    tllm_vptq_params p;
    tllm_vptq q;
    memset(&p, 0, sizeof p);
    c->in[0].rank = 2;
    c->in[0].dim[0] = tiny_case_pick(c, 3) ? tiny_case_dim(c, 20) : tiny_case_dim(c, 70);
    c->in[0].dim[1] = tiny_case_dim(c, tiny_case_pick(c, 4) ? 300 : 1100);
    p.rows = tiny_case_dim(c, 200);
    p.form = c->index % TLLM_VPTQ_FORMS;
    memcpy(c->params.bytes, &p, sizeof p);
    (void)tinyi_vptq_case(c, &q);
    p.magnitude = 1;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &p, sizeof p);
    c->in[1].dtype = TINY_U8;
    c->in[1].rank = 1;
    c->in[1].dim[0] = (tiny_idx)tinyi_vptq_bytes(&q);
    c->fill[1] = TINY_FILL_TABLE;
    c->dense[1] = 1;
    c->fill_table = tinyi_vptq_case_fill;
}

static const short tinyi_vptq_slots[] = { TINYI_K_gemm_f32_tile, TINYI_K_gemm_f32_shape, TINYI_K_gemm_f32_turn,
                                          TINYI_K_f16_to_f32, -1 };
static const tiny_op_row tinyi_row_vptq = TINYI_ROW_OF(
    "vptq_matmul", TLLM_OP_VPTQ_MATMUL, TAKES(2, 2), GIVES(1), PARAMS(tllm_vptq_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_vptq_shape_rule), REFERENCE(tinyi_vptq_ref), FAST(tinyi_vptq_fast, tinyi_vptq_work),
    COST(tinyi_vptq_cost), CASES(tinyi_vptq_cases), BOUND(TINY_BOUND_LINEAR, 8.0, 1.01), TERMS(tinyi_vptq_terms),
    GRADIENT(NULL), KERNELS(tinyi_vptq_slots),
    SAYS("y[t][s v + j] = sum over inputs of x[t][i] (scale_i (C[c1(s, i)][j] + D[c2(s, i)][j]) + bias_i), C and D "
         "books of vectors of v"));
TINY_API const tiny_op_row *tllm_vptq_row(void) { return &tinyi_row_vptq; }

TINY_API tiny_status tllm_vptq_matmul_as(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, tllm_vptq_form form,
                                         const tiny_tensor *y)
{
    tllm_vptq_params p;
    tiny_tensor bytes;
    tiny_op op;
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!q || !q->bytes || q->n_bytes > (size_t)TINY_IDX_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq_matmul: the matrix is NULL");
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.rows = q->rows;
    p.form = (int)form;
    bytes = tiny_tensor_1d((void *)(uintptr_t)q->bytes, TINY_U8, (tiny_idx)q->n_bytes);
    op.kind = TLLM_OP_VPTQ_MATMUL;
    op.row = &tinyi_row_vptq;
    op.in[0] = x;
    op.in[1] = &bytes;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tllm_vptq_matmul(tiny_ctx *ctx, const tiny_tensor *x, const tllm_vptq *q, const tiny_tensor *y)
{
    return tllm_vptq_matmul_as(ctx, x, q, TLLM_VPTQ_AUTO, y);
}

TINY_API tllm_vptq_form tllm_vptq_form_of(const tiny_ctx *ctx, const tllm_vptq *q, tiny_idx tokens)
{
    if (tinyi_ctx_check(ctx) || !q || !q->bytes || ctx->target == TINY_TARGET_REFERENCE) return TLLM_VPTQ_AUTO;
    return tinyi_vptq_choose(q, tokens, tinyi_vptq_kernels_of(ctx->k)->lanes);
}

