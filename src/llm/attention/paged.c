/* src/llm/attention/paged.c - attention over pages
 * Papers   W. Kwon et al., 2023 (arXiv 2309.06180), 4; running maximum: T. Dao et al., 2022 (arXiv 2205.14135); the
 *          split over keys: T. Dao et al., "Flash-Decoding", 2023; sinks: gpt-oss; slopes: O. Press et al., 2021 (arXiv
 *          2108.12409).
 * Formula  s[j] = scale q . k[j]; s = softcap tanh(s / softcap); s -= slope (pos_q - pos_j); p = softmax(s and the
 *          sink); o = sum_j p[j] v[j] over the cells first <= j < last of the row
 * Fast     a task is a tile of rows of one sequence and one part: the query heads of a group, and consecutive queries,
 *          read a page once. Keys are processed 64 at a time. Few rows read keys and values directly from the pages, as
 *          f32, f16 or q8_0, each number once, and prefetch the next 64 (math/attention_few.simd.h). Many rows, and
 *          other formats, use floats unpacked into the thread's own memory. If there are fewer tasks than threads (one
 *          token, few heads), the keys are split too, and the states (m, l, acc) of the pieces are merged in order.
 *          With a plan (llm/attention/tree.h) a task is a block of the tree and one part. Queries of all sequences that
 *          share the block are rows of the same tiles; masks hide cells outside their paths. A block with several tiles
 *          is unpacked once for all of them.
 * Cost     2 n_head (d + d_v) flops per key and row. Each page is read once per tile of up to 96 rows (32 if threads
 *          would be idle). With a plan it is read once per block, or once per group of max_q queries if there are fewer
 *          than two blocks times parts per thread.
 * Error    as tiny_attention: k = 200 units of the largest output; unpacked numbers are exact in both paths */
#include "llm/ops.h"
#include "llm/attention/paged.h"
#include "llm/block/blocks_inside.h"
#include "core/half_inside.h"
#include "math/table_inside.h"
#include "math/elem.h"
#include <string.h>

/* The keys of single queries are split, by 256 at least, into as many tasks as 16 threads can use: by the shapes alone,
 * so that results do not depend on the number of threads. */
#define TINYI_PAGED_PIECE 256
#define TINYI_PAGED_TASKS 32
#define TINYI_PAGED_BLOCK 256               /* cells of a tree that are kept as floats for several tiles, at most */
#define TINYI_PAGED_KEPT (1 << 20)          /* their floats at most; but TINYI_ATT_KEYS cells always */
#define TINYI_PAGED_RUN 16                  /* cells of a piece at most: four pieces are four streams of memory */

TINYI_FN tiny_idx tinyi_pool_parts(const tllm_format *type, tiny_idx n_kv, tiny_idx d)
{
    tiny_idx heads = 1;
    /* blocks hold a power of two of numbers */
    while (heads * d % type->values && heads < type->values) heads *= 2;
    return heads * d % type->values || n_kv % heads ? 0 : n_kv / heads;
}
/* plain types have the byte order of this machine, for kernels that read them in place; blocks are bytes everywhere */
static void tinyi_pool_unpack(const tinyi_pool *p, const unsigned char *row, float *x, tiny_idx n)
{
    tiny_idx i;
    if (p->type->id == TLLM_FORMAT_F32) memcpy(x, row, (size_t)n * sizeof *x);
    else if (p->type->id == TLLM_FORMAT_F16)
        for (i = 0; i < n; i++) x[i] = tinyi_f16_to_f32(((const uint16_t *)(const void *)row)[i]);
    else p->type->unpack(row, x, (size_t)n);
}
TINYI_FN void tinyi_pool_write(const tinyi_pool *p, int32_t page, tiny_idx i, const float *x)
{
    tiny_idx part, k;
    for (part = 0; part < p->n_part; part++, x += p->d_part) {
        unsigned char *row = tinyi_pool_row(p, page, part, i);
        if (p->type->id == TLLM_FORMAT_F32) memcpy(row, x, (size_t)p->d_part * sizeof *x);
        else if (p->type->id == TLLM_FORMAT_F16)
            for (k = 0; k < p->d_part; k++) ((uint16_t *)(void *)row)[k] = tinyi_f32_to_f16(x[k]);
        else p->type->pack(x, row, (size_t)p->d_part, NULL);
    }
}
TINYI_FN void tinyi_pool_read(const tinyi_pool *p, int32_t page, tiny_idx i, float *x)
{
    tiny_idx part;
    for (part = 0; part < p->n_part; part++)
        tinyi_pool_unpack(p, tinyi_pool_row(p, page, part, i), x + part * p->d_part, p->d_part);
}
TINYI_FN void tinyi_pool_copy(const tinyi_pool *p, int32_t from, int32_t to, tiny_idx n)
{
    tiny_idx part;
    for (part = 0; part < p->n_part; part++)
        memcpy(tinyi_pool_row(p, to, part, 0), tinyi_pool_row(p, from, part, 0), (size_t)n * p->row_bytes);
}
TINYI_FN tiny_tensor tinyi_pool_tensor(const tinyi_pool *p, tiny_idx n_block)
{
    if (p->type->id == TLLM_FORMAT_F32) return tiny_tensor_4d(p->at, TINY_F32, n_block, p->n_part, p->block, p->d_part);
    if (p->type->id == TLLM_FORMAT_F16) return tiny_tensor_4d(p->at, TINY_F16, n_block, p->n_part, p->block, p->d_part);
    return tiny_tensor_4d(p->at, TINY_U8, n_block, p->n_part, p->block, (tiny_idx)p->row_bytes);
}

typedef struct tinyi_paged {
    const float *q, *slopes, *sinks;
    float *o;
    tinyi_pool k, v;                        /* v.at NULL: values are in the keys */
    const int32_t *table, *rows, *pos;
    /* heads: of a part; group: queries of a key head */
    tiny_idx n_query, n_head, n_kv, n_part, heads, group, d, d_v, n_table, n_pos;
    tiny_idx sq[3], so[3];
    float scale, softcap;
    int alone;
} tinyi_paged;

static void tinyi_paged_pool(tinyi_pool *p, const tiny_tensor *t, int format)
{
    p->at = (unsigned char *)t->data;
    p->type = tllm_format_of(t->dtype == TINY_F32   ? (int)TLLM_FORMAT_F32
                             : t->dtype == TINY_F16 ? (int)TLLM_FORMAT_F16
                                                    : format);
    p->n_part = t->dim[1];
    p->block = t->dim[2];
    p->row_bytes = (size_t)t->dim[3] * tiny_dtype_bytes(t->dtype);
    p->d_part = p->type ? (tiny_idx)(p->row_bytes / (size_t)p->type->bytes) * p->type->values : 0;
}

static void tinyi_paged_read(const tiny_op *op, tinyi_paged *a)
{
    static const tllm_paged_params zero = { 0.0f, 0.0f, 0, 0, 0, 0, NULL, NULL, 0 };
    const tllm_paged_params *p = op->params ? (const tllm_paged_params *)op->params : &zero;
    const tiny_tensor *q = op->in[0], *o = op->out[0];
    int i;
    memset(a, 0, sizeof *a);
    a->q = (const float *)q->data;
    tinyi_paged_pool(&a->k, op->in[1], p->format_k);
    if (op->in[4]) tinyi_paged_pool(&a->v, op->in[4], p->format_v);
    a->table = (const int32_t *)op->in[2]->data;
    a->rows = (const int32_t *)op->in[3]->data;
    a->pos = op->in[5] ? (const int32_t *)op->in[5]->data : NULL;
    a->n_pos = op->in[5] ? op->in[5]->dim[1] : 0;
    a->slopes = op->in[6] ? (const float *)op->in[6]->data : NULL;
    a->sinks = op->in[7] ? (const float *)op->in[7]->data : NULL;
    a->n_query = q->dim[0];
    a->n_head = q->dim[1];
    a->d = q->dim[2];
    a->d_v = p->d_v ? p->d_v : a->d;
    a->n_part = a->k.n_part;
    a->n_kv = p->n_kv ? p->n_kv : a->n_part;
    a->heads = a->n_part ? a->n_kv / a->n_part : 0;
    a->group = a->n_kv ? a->n_head / a->n_kv : 0;
    a->n_table = op->in[2]->dim[1];
    for (i = 0; i < 3; i++) {
        a->sq[i] = q->stride[i];
        a->so[i] = o ? o->stride[i] : 0;
    }
    a->o = o ? (float *)o->data : NULL;
    a->alone = p->alone;
    a->scale = p->scale != 0.0f ? p->scale : (float)(1.0 / tinyi_sqrt64((double)(a->d ? a->d : 1)));
    a->softcap = p->softcap;
}

/* ---- reference -------------------------------------------------------------------------------------------------- */

#define TINYI_PAGED_PART 64                 /* numbers that the reference unpacks or sums at once */
TINY_REF_BEGIN
/* n <= TINYI_PAGED_PART numbers of a row from number at on */
static void tinyi_pool_some(const tinyi_pool *p, const unsigned char *row, tiny_idx at, tiny_idx n, float *x)
{
    const tiny_idx values = p->type->values;
    float block[256];                       /* no format has more values in a block */
    tiny_idx i;
    if (values == 1) { tinyi_pool_unpack(p, row + (size_t)at * (size_t)p->type->bytes, x, n); return; }
    for (i = 0; i < n; i++) {
        if (i == 0 || (at + i) % values == 0)
            p->type->unpack(row + (size_t)((at + i) / values) * (size_t)p->type->bytes, block, (size_t)values);
        x[i] = block[(at + i) % values];
    }
}

static double tinyi_paged_score(const tinyi_paged *a, tiny_idx t, tiny_idx h, tiny_idx j)
{
    const int32_t *r = a->rows + 4 * t;
    const tiny_idx kv = h / a->group;
    const float *q = a->q + t * a->sq[0] + h * a->sq[1];
    const unsigned char *row =
        tinyi_pool_row(&a->k, a->table[r[0] * a->n_table + j / a->k.block], kv / a->heads, j % a->k.block);
    float k[TINYI_PAGED_PART];
    double s = 0.0;
    tiny_idx i, i0, n;
    for (i0 = 0; i0 < a->d; i0 += n) {
        n = TINYI_MIN(a->d - i0, TINYI_PAGED_PART);
        tinyi_pool_some(&a->k, row, kv % a->heads * a->d + i0, n, k);
        for (i = 0; i < n; i++) s += (double)q[(i0 + i) * a->sq[2]] * (double)k[i];
    }
    s *= (double)a->scale;
    if (a->softcap > 0.0f) s = (double)a->softcap * tinyi_tanh64(s / (double)a->softcap);
    if (a->slopes) s += (double)(-a->slopes[h] * (float)((int64_t)r[3] - a->pos[r[0] * a->n_pos + j]));
    return s;
}

/* Three passes over the keys, each score computed anew, as in tiny_attention. */
static void tinyi_paged_ref(const tiny_op *op)
{
    tinyi_paged a;
    const tinyi_pool *pool;
    float v[TINYI_PAGED_PART];
    double sum[TINYI_PAGED_PART];
    tiny_idx t, h, j, i, i0, n;
    tinyi_paged_read(op, &a);
    pool = op->in[4] ? &a.v : &a.k;
    for (t = 0; t < a.n_query; t++)
        for (h = 0; h < a.n_head; h++) {
            const int32_t *r = a.rows + 4 * t;
            const tiny_idx kv = h / a.group, at = kv % a.heads * (op->in[4] ? a.d_v : a.d);
            double m = a.sinks ? (double)a.sinks[h] : -INFINITY, l = 0.0;
            for (j = r[1]; j < r[2]; j++) {
                const double s = tinyi_paged_score(&a, t, h, j);
                if (s > m) m = s;
            }
            for (j = r[1]; j < r[2]; j++) {
                const double s = tinyi_paged_score(&a, t, h, j);
                l += s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
            }
            if (a.sinks && a.sinks[h] != -INFINITY) l += tinyi_exp64((double)a.sinks[h] - m);
            for (i0 = 0; i0 < a.d_v; i0 += n) {
                n = TINYI_MIN(a.d_v - i0, TINYI_PAGED_PART);
                for (i = 0; i < n; i++) sum[i] = 0.0;
                for (j = r[1]; j < r[2] && l != 0.0; j++) {
                    const double s = tinyi_paged_score(&a, t, h, j), p = s == -INFINITY ? 0.0 : tinyi_exp64(s - m);
                    if (s == -INFINITY) continue;
                    tinyi_pool_some(pool,
                                    tinyi_pool_row(pool, a.table[r[0] * a.n_table + j / pool->block], kv / a.heads,
                                                   j % pool->block),
                                    at + i0, n, v);
                    for (i = 0; i < n; i++) sum[i] += p * (double)v[i];
                }
                for (i = 0; i < n; i++)
                    a.o[t * a.so[0] + h * a.so[1] + (i0 + i) * a.so[2]] = (float)(l != 0.0 ? sum[i] / l : 0.0);
            }
        }
}
TINY_REF_END

/* ---- fast ------------------------------------------------------------------------------------------------------- */

/* how an operation is cut; the same on every thread */
typedef struct tinyi_paged_cut { tiny_idx n_task, n_split, rows; } tinyi_paged_cut;    /* rows: of a tile, at most */

/* Pages in a gap between two queries were not looked at, so it parts them. */
TINYI_FN tiny_idx tinyi_paged_run(const int32_t *rows, tiny_idx n_query, tiny_idx t, tiny_idx *cells)
{
    const int32_t *r = rows + 4 * t;
    int32_t lo = r[1], hi = TINYI_MAX(r[1], r[2]);
    tiny_idx n;
    for (n = 1; t + n < n_query && r[4 * n] == r[0]; n++) {
        const int32_t *x = r + 4 * n;
        if (x[1] >= x[2]) continue;
        if (lo < hi && (x[1] > hi || x[2] < lo)) break;
        if (lo >= hi) lo = hi = x[1];
        lo = TINYI_MIN(lo, x[1]);
        hi = TINYI_MAX(hi, x[2]);
    }
    *cells = hi - lo;
    return n;
}
/* the queries from t on that share tiles */
static tiny_idx tinyi_paged_together(const tinyi_paged *a, tiny_idx t, tiny_idx *cells)
{
    *cells = 0;
    return a->alone ? 1 : tinyi_paged_run(a->rows, a->n_query, t, cells);
}
static tinyi_paged_cut tinyi_paged_plan(const tinyi_paged *a, int n_threads)
{
    tinyi_paged_cut c;
    tiny_idx t, n, longest = 0, most, cells;
    c.n_split = 0;
    for (c.rows = TINYI_ATT_ROWS; ; c.rows -= TINYI_ATT_STEP) {
        c.n_task = 0;
        most = 1;
        for (t = 0; t < a->n_query; t += n) {
            n = tinyi_paged_together(a, t, &cells);
            most = TINYI_MAX(most, n);
            c.n_task += (n * a->group + c.rows - 1) / c.rows * a->n_part;
            longest = TINYI_MAX(longest, (tiny_idx)a->rows[4 * (t + n - 1) + 2] - a->rows[4 * (t + n - 1) + 1]);
        }
        if (!c.n_split) {                   /* of the largest tiles */
            c.n_split = 1;
            if (!a->alone && most == 1 && c.n_task > 0)
                c.n_split = TINYI_MAX(TINYI_MIN((TINYI_PAGED_TASKS + c.n_task - 1) / c.n_task,
                                                longest / TINYI_PAGED_PIECE), 1);
        }
        /* smaller tiles, each of which reads the pages, only where larger ones and the split would leave threads
         * without work */
        if (a->alone || c.rows == TINYI_ATT_STEP || n_threads == 1 || c.n_task >= 4 * n_threads ||
            (most == 1 && c.n_task * c.n_split >= 2 * n_threads))
            return c;
    }
}

/* Cells that a thread keeps as floats, of `wide` numbers each: those that a tile meets at once, or those of a block of
 * a tree that several tiles meet. */
static tiny_idx tinyi_paged_kept(const tllm_tree_plan *tree, size_t wide)
{
    const tiny_idx most = (tiny_idx)(TINYI_PAGED_KEPT / (wide ? wide : 1)) / TINYI_ATT_KEYS * TINYI_ATT_KEYS;
    return TINYI_MAX(tree ? TINYI_MIN(TINYI_MIN(most, TINYI_PAGED_BLOCK), tree->block_len) : 0, TINYI_ATT_KEYS);
}
/* a thread's own memory: the tiles of the heads of a part, then room for keys and values */
static size_t tinyi_paged_own(size_t heads, size_t d, size_t d_v, const tllm_tree_plan *tree)
{
    return sizeof(float) * (heads * tinyi_att_tile_floats(d, d_v) +
                            (size_t)tinyi_paged_kept(tree, heads * (d + d_v)) * heads * (d + d_v));
}
static void tinyi_paged_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tllm_paged_params *p = (const tllm_paged_params *)op->params;
    const size_t d = (size_t)op->in[0]->dim[2], d_v = p && p->d_v ? (size_t)p->d_v : d;
    const size_t n_part = (size_t)op->in[1]->dim[1], n_kv = p && p->n_kv ? (size_t)p->n_kv : n_part,
                 heads = n_part ? n_kv / n_part : 1;
    const size_t group = n_kv ? (size_t)op->in[0]->dim[1] / n_kv : 1;
    (void)n_threads;
    /* no more pieces than twice the tasks, each with the states of one query's rows; smaller tiles fill fewer */
    if (p && p->tree) *shared_bytes = sizeof(float) * (size_t)p->tree->n_list * (size_t)op->in[0]->dim[1] * (d_v + 2);
    else
        *shared_bytes = op->in[2]->dim[1] * op->in[1]->dim[2] < 2 * TINYI_PAGED_PIECE
                            ? 0
                            : (size_t)(2 * TINYI_PAGED_TASKS) * heads * TINYI_MIN(group, TINYI_ATT_ROWS) *
                                  (group > TINYI_ATT_STEP ? 2 : 1) * (d_v + 2) * sizeof(float);
    *own_bytes = tinyi_paged_own(heads, d, d_v, p ? p->tree : NULL);
}

typedef struct tinyi_paged_memory {
    float *tiles, *k, *v;
    size_t each;                            /* floats of a tile */
    tiny_idx kept, n_load;                  /* cells that there is room for; cells taken out of pages */
} tinyi_paged_memory;
static void tinyi_paged_memory_at(tinyi_paged_memory *x, const tinyi_paged *a, const tllm_tree_plan *tree, void *own)
{
    x->tiles = (float *)own;
    x->each = tinyi_att_tile_floats((size_t)a->d, (size_t)a->d_v);
    x->k = x->tiles + (size_t)a->heads * x->each;
    x->kept = tinyi_paged_kept(tree, (size_t)(a->heads * (a->d + a->d_v)));
    x->v = x->k + x->kept * a->heads * a->d;
    x->n_load = 0;
}

/* the rows of a tile: query heads of a group, and queries one after the other */
typedef struct tinyi_paged_rows {
    tiny_idx part;
    int n;
    int32_t query[TINYI_ATT_ROWS], head[TINYI_ATT_ROWS];    /* head: inside its group */
    signed char bit[TINYI_ATT_ROWS];        /* of its query in the masks of a tree */
    int32_t lo[TINYI_ATT_ROWS], hi[TINYI_ATT_ROWS];         /* cells that it sees */
} tinyi_paged_rows;

/* rows r0 .. r0 + n of the queries list[0], list[1] ...; list NULL: t0, t0 + 1 ... */
static void tinyi_paged_rows_set(const tinyi_paged *a, tinyi_paged_rows *r, const int32_t *list, tiny_idx t0,
                                 tiny_idx r0, int n, tiny_idx part)
{
    int j;
    r->part = part;
    r->n = n;
    for (j = 0; j < n; j++) {
        const tiny_idx i = (r0 + j) / a->group;
        r->query[j] = list ? list[i] : (int32_t)(t0 + i);
        r->head[j] = (int32_t)((r0 + j) % a->group);
        r->bit[j] = (signed char)(list ? i : 0);
        r->lo[j] = a->rows[4 * r->query[j] + 1];
        r->hi[j] = a->rows[4 * r->query[j] + 2];
    }
}
static void tinyi_paged_begin(const tinyi_paged *a, const tinyi_paged_memory *x, const tinyi_paged_rows *r)
{
    tiny_idx g;
    int j;
    for (g = 0; g < a->heads; g++) {
        tinyi_att_tile tile;
        tinyi_att_tile_open(&tile, x->tiles + (size_t)g * x->each, a->d, a->d_v, r->n);
        tinyi_att_tile_begin(&tile);
        for (j = 0; j < r->n; j++)
            tinyi_att_tile_query(
                &tile, j, a->q + r->query[j] * a->sq[0] + ((r->part * a->heads + g) * a->group + r->head[j]) * a->sq[1],
                a->sq[2], a->scale);
    }
}

/* the rows of some pieces as floats, one after the other */
static const float *tinyi_paged_floats(tiny_team *team, const tinyi_pool *p, tiny_idx part,
                                       const tllm_tree_piece *piece, int n_piece, float *room)
{
    float *to = room;
    int k;
    for (k = 0; k < n_piece; to += piece[k++].n * p->d_part) {
        const unsigned char *row = tinyi_pool_row(p, piece[k].page, part, piece[k].in);
        const tiny_idx n = piece[k].n * p->d_part;
        if (p->type->id == TLLM_FORMAT_F32) memcpy(to, row, (size_t)n * sizeof *to);
        else if (p->type->id == TLLM_FORMAT_F16)
            TINYI_K(team, f16_to_f32)(to, (const uint16_t *)(const void *)row, (size_t)n);
        else tinyi_q_floats(team, p->type, to, row, (size_t)n);
    }
    return room;
}

/* The type as which few rows read heads of d numbers directly from pages; -1: unpacked by tinyi_paged_floats. That is
 * needed for formats without kernels, and for heads that share a block or are too long for the kernels. Many rows
 * always use floats: each number is used so often that unpacking it once is cheaper. */
static int tinyi_paged_type(const tinyi_pool *p, int n_row, tiny_idx d)
{
    if (n_row > TINYI_ATT_FEW) return -1;
    if (p->type->id == TLLM_FORMAT_F32) return TINYI_ATT_F32;
    if (p->type->id == TLLM_FORMAT_F16) return TINYI_ATT_F16;
    return p->type->id == TLLM_FORMAT_Q8_0 && d % 32 == 0 && d <= 32 * TINYI_ATT_BLOCKS ? TINYI_ATT_Q8 : -1;
}
/* the rows of some pieces where they are, from number d0 on, and where the rows of the next pieces are */
static void tinyi_paged_spans(tinyi_att_span *s, const tinyi_pool *p, tiny_idx part, tiny_idx d0,
                              const tllm_tree_piece *piece, int n_piece, const tllm_tree_piece *next, int n_next)
{
    const size_t in = (size_t)(d0 / p->type->values) * (size_t)p->type->bytes;
    int i;
    for (i = 0; i < n_piece; i++) {
        s[i].at = tinyi_pool_row(p, piece[i].page, part, piece[i].in) + in;
        s[i].ahead = i < n_next ? tinyi_pool_row(p, next[i].page, part, next[i].in) : NULL;
        s[i].n = piece[i].n;
    }
}

/* Slopes, and -inf where a key is hidden; whether one is. mask: a bit for each query of the tile and each key, in the
 * order of the tile's queries; NULL: rows see their cells lo .. hi, and the pieces follow each other. */
static int tinyi_paged_hide(const tinyi_paged *a, const tinyi_paged_rows *r, const tinyi_att_tile *tile, tiny_idx g,
                            const tllm_tree_piece *piece, int n_piece, int n_c, const uint64_t *mask, int j0, int j1)
{
    int j, c, k, i, hides = 0;
    for (j = j0; j < j1; j++) {
        float *s = tile->s + j;
        if (a->slopes) {
            const int32_t *row = a->rows + 4 * r->query[j], *pos = a->pos + row[0] * a->n_pos;
            const float slope = a->slopes[(r->part * a->heads + g) * a->group + r->head[j]];
            for (k = c = 0; k < n_piece; k++)
                for (i = 0; i < piece[k].n; i++, c++)
                    if (mask || (piece[k].cell + i >= r->lo[j] && piece[k].cell + i < r->hi[j]))
                        s[c * tile->ld] -= slope * (float)((int64_t)row[3] - pos[piece[k].cell + i]);
        }
        if (mask) {
            const int bit = r->bit[j];
            for (c = 0; c < n_c; c++)
                if (!(mask[c] >> bit & 1)) {
                    s[c * tile->ld] = -INFINITY;
                    hides = 1;
                }
        } else {
            const int from = (int)TINYI_MIN(TINYI_MAX(r->lo[j] - piece[0].cell, 0), n_c),
                      to = (int)TINYI_MAX(TINYI_MIN(r->hi[j] - piece[0].cell, n_c), from);
            hides |= from > 0 || to < n_c;
            for (c = 0; c < from; c++) s[c * tile->ld] = -INFINITY;
            for (c = to; c < n_c; c++) s[c * tile->ld] = -INFINITY;
        }
    }
    return hides;
}

/* Applies the tile to the keys of some pieces, n_c <= TINYI_ATT_KEYS in all. next: the pieces after them, if known. k,
 * v: the cells as floats if an earlier tile unpacked them; NULL: they are read from the pages. */
static void tinyi_paged_meet(tiny_team *team, const tinyi_paged *a, tinyi_paged_memory *x, const tinyi_paged_rows *r,
                             const tllm_tree_piece *piece, int n_piece, const tllm_tree_piece *next, int n_next,
                             const uint64_t *mask, const float *k, const float *v)
{
    const tinyi_pool *vp = a->v.type ? &a->v : &a->k;
    const tiny_idx step_v = a->v.type ? a->d_v : a->d;
    const int type_k = k ? -1 : tinyi_paged_type(&a->k, r->n, a->d),
              type_v = !k && (a->v.type || type_k >= 0) ? tinyi_paged_type(vp, r->n, a->d_v) : -1;
    tinyi_att_span span[TINYI_ATT_KEYS];
    int n_c = 0, i, j0 = 0, j1 = r->n, hides;
    tiny_idx g;
    for (i = 0; i < n_piece; i++) n_c += (int)piece[i].n;
    if (!mask) {
        const int32_t c0 = piece[0].cell, c1 = c0 + (int32_t)n_c;
        for (; j1 > j0 && (r->hi[j1 - 1] <= c0 || r->lo[j1 - 1] >= c1); j1--) { }
        for (; j0 + TINYI_ATT_STEP < j1; j0 += TINYI_ATT_STEP) {
            for (i = 0; i < TINYI_ATT_STEP && (r->hi[j0 + i] <= c0 || r->lo[j0 + i] >= c1); i++) { }
            if (i < TINYI_ATT_STEP) break;
        }
        if (j0 >= j1) return;
        /* the weights of a whole vector of rows are made at once: rows next to it that see none of these keys hide
         * them */
        j1 = TINYI_MIN((j1 + TINYI_ATT_STEP - 1) / TINYI_ATT_STEP * TINYI_ATT_STEP, r->n);
    }
    if (!k) {
        x->n_load += n_c;
        if (type_k < 0) k = tinyi_paged_floats(team, &a->k, r->part, piece, n_piece, x->k);
    }
    if (!a->v.type) v = k;
    for (g = 0; g < a->heads; g++) {
        tinyi_att_tile tile;
        tinyi_att_tile_open(&tile, x->tiles + (size_t)g * x->each, a->d, a->d_v, r->n);
        if (k) tinyi_att_tile_scores(team, &tile, k + g * a->d, a->k.d_part, n_c, j0, j1);
        else {                              /* the first head prefetches the rows of all */
            tinyi_paged_spans(span, &a->k, r->part, g * a->d, piece, n_piece, next, g ? 0 : n_next);
            tinyi_att_tile_dots(team, &tile, span, n_piece, type_k, (tiny_idx)a->k.row_bytes);
        }
        if (a->softcap > 0.0f) tinyi_att_tile_cap(team, &tile, n_c, a->softcap, j0, j1);
        hides = tinyi_paged_hide(a, r, &tile, g, piece, n_piece, n_c, mask, j0, j1);
        if (type_v >= 0 && !hides) {
            tinyi_paged_spans(span, vp, r->part, g * step_v, piece, n_piece, next, g || !a->v.type ? 0 : n_next);
            tinyi_att_tile_blend(team, &tile, span, n_piece, type_v, (tiny_idx)vp->row_bytes);
        } else {
            if (!v) v = tinyi_paged_floats(team, vp, r->part, piece, n_piece, a->v.type ? x->v : x->k);
            tinyi_att_tile_absorb(team, &tile, v + g * step_v, vp->d_part, n_c, hides, j0, j1);
        }
    }
}

/* the pieces of cells c0 .. c1 of a sequence, TINYI_ATT_KEYS at most */
static int tinyi_paged_pieces(tllm_tree_piece *piece, const int32_t *table, tiny_idx block, tiny_idx c0, tiny_idx c1)
{
    int n = 0;
    for (; c0 < c1; c0 += piece[n++].n) {
        piece[n].page = table[c0 / block];
        piece[n].in = (int32_t)(c0 % block);
        piece[n].n = (int32_t)TINYI_MIN(TINYI_MIN(block - piece[n].in, TINYI_PAGED_RUN), c1 - c0);
        piece[n].cell = (int32_t)c0;
    }
    return n;
}

/* Cells c0 .. c1 of one sequence, TINYI_ATT_KEYS at a time, beginning where pages of a power of two do: then pieces and
 * those that follow them are alike. */
static void tinyi_paged_cells(tiny_team *team, const tinyi_paged *a, tinyi_paged_memory *x, const tinyi_paged_rows *r,
                              tiny_idx c0, tiny_idx c1)
{
    const int32_t *table = a->table + a->rows[4 * r->query[0]] * a->n_table;
    tllm_tree_piece room[2][TINYI_ATT_KEYS];
    tiny_idx end;
    int turn = 0, n = 0, n_next;
    for (; c0 < c1; c0 = end, n = n_next, turn = !turn) {
        end = TINYI_MIN(c0 / TINYI_ATT_KEYS * TINYI_ATT_KEYS + TINYI_ATT_KEYS, c1);
        if (!n) n = tinyi_paged_pieces(room[turn], table, a->k.block, c0, end);
        n_next = tinyi_paged_pieces(room[!turn], table, a->k.block, end, TINYI_MIN(end + TINYI_ATT_KEYS, c1));
        tinyi_paged_meet(team, a, x, r, room[turn], n, room[!turn], n_next, NULL, NULL, NULL);
    }
}

/* the state of a row, with the sink, becomes the answer */
static void tinyi_paged_end(const tinyi_paged *a, tiny_idx t, tiny_idx h, float m, float l, const float *acc)
{
    float *to = a->o + t * a->so[0] + h * a->so[1], inv = 1.0f;
    tiny_idx i;
    if (a->sinks && a->sinks[h] != -INFINITY) {
        if (m < a->sinks[h]) {
            inv = tinyi_exp_ref(m - a->sinks[h]);
            l = l * inv + 1.0f;
        } else l += tinyi_exp_ref(a->sinks[h] - m);
    }
    inv = l != 0.0f ? inv / l : 0.0f;
    for (i = 0; i < a->d_v; i++) to[i * a->so[2]] = acc[i] * inv;
}

/* n cells of a tree, from number `from` of a piece on, as pieces; both go on to the cell after them */
static int tinyi_paged_next(const tllm_tree_piece **at, tiny_idx *from, tiny_idx n, tllm_tree_piece *piece)
{
    int i;
    for (i = 0; n > 0; i++) {
        piece[i] = **at;
        piece[i].in += (int32_t)*from;
        piece[i].cell += (int32_t)*from;
        piece[i].n = (int32_t)TINYI_MIN(piece[i].n - *from, n);
        n -= piece[i].n;
        *from += piece[i].n;
        if (*from == (*at)->n) {
            *from = 0;
            ++*at;
        }
    }
    return i;
}

/* Between the tile and the partial results of its rows: the states (acc m l) go in (back = 0) or come back. */
static void tinyi_paged_states(tiny_team *team, const tinyi_paged *a, const tinyi_paged_memory *x,
                               const tinyi_paged_rows *r, tiny_idx list, tiny_idx r0, int back)
{
    const tiny_idx state = a->d_v + 2;
    const size_t bytes = (size_t)a->d_v * sizeof(float);
    tinyi_att_tile tile;
    tiny_idx g;
    int j;
    for (g = 0; g < a->heads; g++) {
        tinyi_att_tile_open(&tile, x->tiles + (size_t)g * x->each, a->d, a->d_v, r->n);
        for (j = 0; j < r->n; j++) {
            float *at = (float *)team->shared +
                        ((list + (r0 + j) / a->group) * a->n_head + (r->part * a->heads + g) * a->group + r->head[j]) *
                            state,
                  *acc = tile.acc + j * a->d_v;
            memcpy(back ? acc : at, back ? at : acc, bytes);
            if (back) { tile.m[j] = at[a->d_v]; tile.l[j] = at[a->d_v + 1]; }
            else { at[a->d_v] = tile.m[j]; at[a->d_v + 1] = tile.l[j]; }
        }
    }
}

/* Computes items of one block of a tree, which read the same cells, in one part. If a block has several tiles, its
 * cells are unpacked once, x->kept at a time, for all tiles. Between two portions the states are stored among the
 * partial results. */
static void tinyi_paged_block(tiny_team *team, const tinyi_paged *a, tinyi_paged_memory *x, const tllm_tree_plan *p,
                              const tllm_tree_item *item, tiny_idx n_item, tiny_idx part, int several)
{
    const tllm_tree_piece *at = p->piece + item->piece, *to;
    tllm_tree_piece piece[TINYI_ATT_KEYS];
    tinyi_paged_rows r;
    tiny_idx from = 0, c0, n, c, m, r0, i, in;
    for (c0 = 0; c0 < item->n_cell; c0 += n) {
        n = several ? TINYI_MIN(item->n_cell - c0, x->kept) : item->n_cell;
        for (c = 0, to = at, in = from; several && c < n; c += m) {
            int n_piece;
            m = TINYI_MIN(n - c, TINYI_ATT_KEYS);
            n_piece = tinyi_paged_next(&to, &in, m, piece);
            (void)tinyi_paged_floats(team, &a->k, part, piece, n_piece, x->k + c * a->k.d_part);
            if (a->v.type) (void)tinyi_paged_floats(team, &a->v, part, piece, n_piece, x->v + c * a->v.d_part);
            x->n_load += m;
        }
        for (i = 0; i < n_item; i++)
            for (r0 = 0; r0 < item[i].n_query * a->group; r0 += TINYI_ATT_ROWS) {
                tinyi_paged_rows_set(a, &r, p->query + item[i].query, 0, r0,
                                     (int)TINYI_MIN(item[i].n_query * a->group - r0, TINYI_ATT_ROWS), part);
                tinyi_paged_begin(a, x, &r);
                if (c0) tinyi_paged_states(team, a, x, &r, item[i].query, r0, 1);
                for (c = 0, to = at, in = from; c < n; c += m) {
                    int n_piece;
                    m = TINYI_MIN(n - c, TINYI_ATT_KEYS);
                    n_piece = tinyi_paged_next(&to, &in, m, piece);
                    tinyi_paged_meet(team, a, x, &r, piece, n_piece, NULL, 0, p->mask + item[i].mask + c0 + c,
                                     several ? x->k + c * a->k.d_part : NULL,
                                     several && a->v.type ? x->v + c * a->v.d_part : NULL);
                }
                tinyi_paged_states(team, a, x, &r, item[i].query, r0, 0);
            }
        at = to;
        from = in;
    }
}

/* Over a tree: stage 1, the state of each query after each block that it reads; stage 2, the states of a query are
 * merged in the order of the blocks. */
static void tinyi_paged_tree(tiny_team *team, const tinyi_paged *a, tinyi_paged_memory *x, const tllm_tree_plan *p)
{
    const tiny_idx state = a->d_v + 2;
    const float *shared = (const float *)team->shared;      /* (n_list, n_head, acc m l) */
    /* too few blocks: the items of one go to several threads, each of which reads it */
    const int apart = team->n > 1 && p->counts.n_block * a->n_part < 2 * team->n;
    tiny_idx task, end, h, i;
    while (tiny_take(team, p->n_item * a->n_part, 1, &task, &end)) for (; task < end; task++) {
        const tiny_idx at = task / a->n_part, first = p->item[at].first;
        tiny_idx tiles = 0;
        if (at != first && !apart) continue;                /* done with the first item of its block */
        for (i = first; i < p->n_item && p->item[i].first == first; i++)
            tiles += (p->item[i].n_query * a->group + TINYI_ATT_ROWS - 1) / TINYI_ATT_ROWS;
        tinyi_paged_block(team, a, x, p, &p->item[at], apart ? 1 : i - first, task % a->n_part, tiles > 1);
    }
    tiny_barrier(team);
    while (tiny_take(team, a->n_query, 1, &task, &end)) for (; task < end; task++)
        for (h = 0; h < a->n_head; h++) {
            float *sum = x->tiles;          /* acc m l */
            for (i = 0; i < state; i++) sum[i] = i == a->d_v ? -INFINITY : 0.0f;
            for (i = p->part_at[task]; i < p->part_at[task + 1]; i++) {
                const float *from = shared + (p->part[i] * a->n_head + h) * state;
                tinyi_att_merge(sum + a->d_v, sum + a->d_v + 1, sum, from[a->d_v], from[a->d_v + 1], from, a->d_v);
            }
            tinyi_paged_end(a, task, h, sum[a->d_v], sum[a->d_v + 1], sum);
        }
}

static void tinyi_paged_fast(tiny_team *team, const tiny_op *op)
{
    const tllm_paged_params *p = (const tllm_paged_params *)op->params;
    const tllm_tree_plan *tree = p && !p->alone ? p->tree : NULL;
    tinyi_paged a;
    tinyi_paged_memory x;
    tinyi_paged_cut cut;
    tinyi_paged_rows r;
    tinyi_att_tile tile;
    tiny_idx task, end, g, state, row_max;
    float *shared = (float *)team->shared;
    int j;
    (void)TINYI_K(team, attention_weights_f32);     /* thread 0 reports the pass that ran, with or without a task */
    tinyi_paged_read(op, &a);
    if (!op->in[4]) a.v.type = NULL;
    tinyi_paged_memory_at(&x, &a, tree, team->own);
    if (tree) {
        tinyi_paged_tree(team, &a, &x, tree);
        if (p->n_load) p->n_load[team->i] += x.n_load;
        return;
    }
    cut = tinyi_paged_plan(&a, team->n);
    row_max = TINYI_MIN(a.group, cut.rows);
    state = a.d_v + 2;                      /* of a row: acc, m, l; of a piece: (heads, row_max) of them */
    while (tiny_take(team, cut.n_task * cut.n_split, 1, &task, &end)) for (; task < end; task++) {
        const tiny_idx split = task % cut.n_split, part = task / cut.n_split % a.n_part;
        tiny_idx tile_i = task / cut.n_split / a.n_part, t0 = 0, r0, lo = INT32_MAX, hi = 0, n_run, tiles, cells;
        if (a.alone) {
            t0 = tile_i / ((a.group + cut.rows - 1) / cut.rows);
            tile_i -= t0 * ((a.group + cut.rows - 1) / cut.rows);
        }
        for (;; t0 += n_run, tile_i -= tiles) {             /* the run that has the tile */
            n_run = tinyi_paged_together(&a, t0, &cells);
            tiles = (n_run * a.group + cut.rows - 1) / cut.rows;
            if (tile_i < tiles) break;
        }
        r0 = (tiles - 1 - tile_i) * cut.rows;               /* the last rows first: they see the most */
        tinyi_paged_rows_set(&a, &r, NULL, t0, r0, (int)TINYI_MIN(n_run * a.group - r0, cut.rows), part);
        tinyi_paged_begin(&a, &x, &r);
        for (j = 0; j < r.n; j++)
            if (r.lo[j] < r.hi[j]) {
                lo = TINYI_MIN(lo, r.lo[j]);
                hi = TINYI_MAX(hi, r.hi[j]);
            }
        if (cut.n_split > 1 && lo < hi) {
            const tiny_idx piece =
                ((hi - lo + cut.n_split - 1) / cut.n_split + TINYI_ATT_KEYS - 1) / TINYI_ATT_KEYS * TINYI_ATT_KEYS;
            lo = TINYI_MIN(lo + split * piece, hi);
            hi = TINYI_MIN(lo + piece, hi);
        }
        if (lo < hi) tinyi_paged_cells(team, &a, &x, &r, lo, hi);
        for (g = 0; g < a.heads; g++) {
            tinyi_att_tile_open(&tile, x.tiles + (size_t)g * x.each, a.d, a.d_v, r.n);
            for (j = 0; j < r.n; j++) {
                float *to = shared + ((task * a.heads + g) * row_max + j) * state;
                if (cut.n_split < 2) {
                    tinyi_paged_end(&a, r.query[j], (part * a.heads + g) * a.group + r.head[j], tile.m[j], tile.l[j],
                                    tile.acc + j * a.d_v);
                    continue;
                }
                memcpy(to, tile.acc + j * a.d_v, (size_t)a.d_v * sizeof *to);
                to[a.d_v] = tile.m[j];
                to[a.d_v + 1] = tile.l[j];
            }
        }
    }
    if (p && p->n_load) p->n_load[team->i] += x.n_load;
    if (cut.n_split < 2) return;
    tiny_barrier(team);
    /* one query a run: tiles of its heads */
    while (tiny_take(team, cut.n_task, 1, &task, &end)) for (; task < end; task++) {
            const tiny_idx tiles = (a.group + cut.rows - 1) / cut.rows, part = task % a.n_part,
                           t0 = task / a.n_part / tiles;
            const tiny_idx r0 = (tiles - 1 - task / a.n_part % tiles) * cut.rows;
            tiny_idx s;
            tinyi_paged_rows_set(&a, &r, NULL, t0, r0, (int)TINYI_MIN(a.group - r0, cut.rows), part);
            for (g = 0; g < a.heads; g++)
                for (j = 0; j < r.n; j++) {
                    float *to = shared + ((task * cut.n_split * a.heads + g) * row_max + j) * state;
                    for (s = 1; s < cut.n_split; s++) {
                        const float *from = to + s * a.heads * row_max * state;
                        tinyi_att_merge(to + a.d_v, to + a.d_v + 1, to, from[a.d_v], from[a.d_v + 1], from, a.d_v);
                    }
                    tinyi_paged_end(&a, r.query[j], (part * a.heads + g) * a.group + r.head[j], to[a.d_v],
                                    to[a.d_v + 1], to);
                }
    }
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_paged_pages_check(tiny_ctx *ctx, const char *what, const tiny_tensor *t, int format,
                                           tiny_idx n_part, tiny_idx block, tiny_idx want)
{
    tinyi_pool p;
    char text[96];
    if (t->rank != 4 || (t->dtype != TINY_F32 && t->dtype != TINY_F16 && t->dtype != TINY_U8) ||
        !tiny_tensor_is_dense(t) || t->dim[1] != n_part || t->dim[2] != block || block < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "paged attention: pages of %s are %s, they must be dense (blocks, %td parts, %td tokens, "
                          "numbers) of f32, f16 or u8",
                          what, tinyi_shape_text(t, text), n_part, block);
    tinyi_paged_pool(&p, t, format);
    if (!p.type || (t->dtype == TINY_U8 && p.type->values == 1) || p.row_bytes % (size_t)p.type->bytes)
        return tinyi_fail(
            ctx, TINY_E_DTYPE,
            "paged attention: pages of %s are bytes, but format %d has no rows of %zu bytes",
            what, format, p.row_bytes);
    if (p.d_part != want)
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: a row of %s holds %td numbers, but its heads have %td",
                          what, p.d_part, want);
    return TINY_OK;
}

static tiny_status tinyi_paged_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    static const char *const name[8] = { "q", "k", "table", "rows", "v", "pos", "slopes", "sinks" };
    static const signed char rank[8] = { 3, 4, 2, 2, 4, 2, 1, 1 };
    const tllm_paged_params *p = (const tllm_paged_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1], *table = op->in[2], *rows = op->in[3];
    const tiny_idx d_v = p && p->d_v ? p->d_v : q->rank == 3 ? q->dim[2] : 0;
    tiny_idx dim[3], n_kv, n_part, t, j;
    tiny_status st;
    char text[96];
    int i;
    for (i = 0; i < 8; i++) {
        const tiny_dtype dtype = i == 2 || i == 3 || i == 5 ? TINY_I32 : TINY_F32;
        if (!op->in[i] || i == 1 || i == 4) continue;
        if (op->in[i]->rank != rank[i] || op->in[i]->dtype != dtype || (i && !tiny_tensor_is_dense(op->in[i])))
            return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: %s is %s, it must have %d axes of %s%s", name[i],
                              tinyi_shape_text(op->in[i], text), rank[i], tiny_dtype_name(dtype), i ? ", dense" : "");
    }
    if (k->rank != 4)
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: k is %s, it must be (blocks, parts, tokens, numbers)",
                          tinyi_shape_text(k, text));
    n_part = k->dim[1];
    n_kv = p && p->n_kv ? p->n_kv : n_part;
    if (n_part < 1 || n_kv < 1 || n_kv % n_part || q->dim[1] % n_kv)
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "paged attention: %td query heads, %td key heads and %td parts: each must be a multiple of the next",
            q->dim[1], n_kv, n_part);
    if (d_v < 1 || q->dim[2] < 1 || q->dim[2] > TINYI_ATT_KEYS * 1024 || d_v > TINYI_ATT_KEYS * 1024 ||
        n_kv / n_part > 4096)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "paged attention: heads of %td and %td numbers, %td in a part: 1 to 65536, and up to 4096",
                          q->dim[2], d_v, n_kv / n_part);
    /* 32 bits: a thread's tiles and cells, four bytes each */
    if ((q->dim[2] + d_v + 256) * (n_kv / n_part) > TINY_IDX_MAX / 1024)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "paged attention: %td heads of %td and %td numbers in a part are more than this machine can "
                          "address at once",
                          n_kv / n_part, q->dim[2], d_v);
    st = tinyi_paged_pages_check(ctx, "keys", k, p ? p->format_k : 0, n_part, k->dim[2], n_kv / n_part * q->dim[2]);
    if (!st && op->in[4])
        st = tinyi_paged_pages_check(ctx, "values", op->in[4], p ? p->format_v : 0, n_part, k->dim[2],
                                     n_kv / n_part * d_v);
    if (st) return st;
    if (op->in[4] && op->in[4]->dim[0] != k->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: %td blocks of keys, but %td of values", k->dim[0],
                          op->in[4]->dim[0]);
    if (!op->in[4] && d_v > q->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: values of %td numbers do not fit into keys of %td", d_v,
                          q->dim[2]);
    if (rows->dim[0] != q->dim[0] || rows->dim[1] != 4)
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: rows is %s, it must be (%td queries, 4)",
                          tinyi_shape_text(rows, text), q->dim[0]);
    if (op->in[6] && (op->in[6]->dim[0] != q->dim[1] || !op->in[5] || op->in[5]->dim[0] != table->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "paged attention: slopes need a number for each of %td heads, and the positions of the cells "
                          "of %td sequences",
                          q->dim[1], table->dim[0]);
    if (op->in[7] && op->in[7]->dim[0] != q->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "paged attention: %td sinks for %td heads", op->in[7]->dim[0], q->dim[1]);
    if (p && (!(p->scale > -INFINITY && p->scale < INFINITY) || !(p->softcap >= 0.0f && p->softcap < INFINITY)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "paged attention: scale %g and softcap %g must be finite, softcap not negative",
                          (double)p->scale, (double)p->softcap);
    /* what the tables say is data, but leads to memory: looked at before anything follows it */
    for (t = 0; t < rows->dim[0] && rows->data && table->data; t++) {
        const int32_t *r = (const int32_t *)rows->data + 4 * t;
        if (r[0] < 0 || r[0] >= table->dim[0] || r[1] < 0 || (r[1] < r[2] && (r[2] - 1) / k->dim[2] >= table->dim[1]) ||
            (op->in[6] && r[1] < r[2] && r[2] > op->in[5]->dim[1]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "paged attention: row %td asks for cells %d to %d of sequence %d; there are %td "
                              "sequences of %td pages of %td",
                              t, (int)r[1], (int)r[2], (int)r[0], table->dim[0], table->dim[1], k->dim[2]);
        if (r[1] >= r[2]) continue;
        j = r[1] / k->dim[2];
        /* the others were looked at with the row before */
        if (t && r[0] == r[-4] && r[1] >= r[-3] && r[-3] < r[-2]) j = TINYI_MAX(j, (r[-2] - 1) / k->dim[2]);
        for (; j <= (r[2] - 1) / k->dim[2]; j++) {
            const int32_t page = ((const int32_t *)table->data)[r[0] * table->dim[1] + j];
            if (page < 0 || page >= k->dim[0])
                return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                  "paged attention: page %td of sequence %d is block %d, but there are %td", j,
                                  (int)r[0], (int)page, k->dim[0]);
        }
    }
    if (p && p->tree) {
        if (p->tree->n_query != q->dim[0] || p->tree->block != k->dim[2])
            return tinyi_fail(
                ctx, TINY_E_ARGUMENT,
                "paged attention: the plan was set for %td queries over pages of %td, not for %td over pages of %td",
                p->tree->n_query, p->tree->block, q->dim[0], k->dim[2]);
        for (j = 0; j < p->tree->n_piece; j++) {
            const tllm_tree_piece *x = &p->tree->piece[j];
            if (x->page < 0 || x->page >= k->dim[0] || (op->in[6] && x->cell + x->n > op->in[5]->dim[1]))
                return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                  "paged attention: the plan reads block %d from cell %d on, but there are %td blocks",
                                  (int)x->page, (int)x->cell, k->dim[0]);
        }
    }
    dim[0] = q->dim[0];
    dim[1] = q->dim[1];
    dim[2] = d_v;
    tinyi_want(want, TINY_F32, 3, dim);
    return TINY_OK;
}

static void tinyi_paged_cost(const tiny_op *op, tiny_cost *c)
{
    const int32_t *r = (const int32_t *)op->in[3]->data;
    const tllm_paged_params *p = (const tllm_paged_params *)op->params;
    const double d = (double)op->in[0]->dim[2], d_v = p && p->d_v ? (double)p->d_v : d,
                 heads = (double)op->in[0]->dim[1];
    double keys = 0.0, each;
    tiny_idx t;
    for (t = 0; r && t < op->in[0]->dim[0]; t++)
        keys += r[4 * t + 2] > r[4 * t + 1] ? (double)(r[4 * t + 2] - r[4 * t + 1]) : 0.0;
    each = (double)(op->in[1]->dim[1] * op->in[1]->dim[3]) * (double)tiny_dtype_bytes(op->in[1]->dtype);
    if (op->in[4]) each += (double)(op->in[4]->dim[1] * op->in[4]->dim[3]) * (double)tiny_dtype_bytes(op->in[4]->dtype);
    c->flops = 2.0 * heads * (d + d_v) * keys;
    c->bytes = each * keys + 4.0 * (double)op->in[0]->dim[0] * heads * (d + d_v);
}

/* Pages packed as a cache writes them; tables that visit blocks in any order, and twice; rows of one sequence after the
 * other, each with the cells up to its own, a window of them, all of them, or none. */
static void tinyi_paged_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_tensor *t = &c->in[i_input];
    const tiny_idx n_seq = c->in[2].dim[0], n_cell = c->in[2].dim[1] * c->in[1].dim[2], n_query = c->in[0].dim[0];
    int32_t *number = (int32_t *)data;
    tiny_idx i, n = tiny_tensor_count(t);
    if (t->dtype == TINY_U8) {
        tllm_paged_params params;
        const tllm_format *f;
        unsigned char *to = (unsigned char *)data;
        memcpy(&params, c->params.bytes, sizeof params);
        f = tllm_format_of(i_input == 1 ? params.format_k : params.format_v);
        for (; n > 0; n -= f->bytes, to += f->bytes) {
            float x[256];
            for (i = 0; i < f->values; i++) x[i] = tiny_rng_normal(&c->rng);
            f->pack(x, to, (size_t)f->values, NULL);
        }
    } else if (i_input == 2) {
        for (i = 0; i < n; i++) number[i] = tiny_case_pick(c, (int)c->in[1].dim[0]);
    } else if (i_input == 5) {
        for (i = 0; i < n; i++) number[i] = (int32_t)(i % t->dim[1]);
    } else
        for (i = 0; i < n_query; i++, number += 4) {
            const tiny_idx seq = i * n_seq / n_query, first = (seq * n_query + n_seq - 1) / n_seq;
            /* the cells before it, and its own */
            const tiny_idx own = TINYI_MIN(n_cell, n_cell / 2 + 1 + i - first);
            const int kind = tiny_case_pick(c, 8);
            number[0] = (int32_t)seq;
            number[1] = kind == 0 ? tiny_case_pick(c, (int)own) : 0;
            number[2] = kind == 1 ? 0 : (int32_t)(kind == 2 ? n_cell : own);
            number[3] = (int32_t)own - 1;
        }
}

static void tinyi_paged_cases(tiny_case *c)
{
    static const short formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    tllm_paged_params params;
    const tllm_format *f[2];
    tiny_idx heads, n_part, n_seq, i;
    /* values that are the head of their keys; ALiBi */
    const int shared = tiny_case_pick(c, 6) == 0, slopes = tiny_case_pick(c, 4) == 0;
    memset(&params, 0, sizeof params);
    f[0] = tllm_format_of(formats[c->index % 4]);
    f[1] = shared ? f[0] : tllm_format_of(formats[tiny_case_pick(c, 2) ? c->index % 4 : c->index / 4 % 4]);
    c->in[0].rank = 3;
    c->in[0].dim[2] = f[0]->values > 1 || f[1]->values > 1 ? 32 * (1 + tiny_case_pick(c, 5)) : tiny_case_dim(c, 160);
    params.d_v = shared || tiny_case_pick(c, 3) == 0 ? f[1]->values > 1 ? 32 : tiny_case_dim(c, c->in[0].dim[2]) : 0;
    heads = 1 + tiny_case_pick(c, 2);
    n_part = 1 + tiny_case_pick(c, 3);
    params.n_kv = heads * n_part;
    params.softcap = tiny_case_pick(c, 4) ? 0.0f : 3.0f;
    params.scale = tiny_case_pick(c, 4) ? 0.0f : 0.3f;
    params.format_k = f[0]->id;
    params.format_v = f[1]->id;
    c->in[0].dim[1] = params.n_kv * (1 + tiny_case_pick(c, 4));
    n_seq = 1 + tiny_case_pick(c, 3);
    c->in[0].dim[0] = n_seq - 1 + tiny_case_dim(c, 40);
    for (i = 1; i <= 4; i += 3) {           /* the pages of keys and of values */
        const tiny_idx numbers = heads * (i == 4 && params.d_v ? params.d_v : c->in[0].dim[2]);
        const tllm_format *of = f[i == 4];
        c->in[i].rank = i == 4 && shared ? -1 : 4;
        c->in[i].dtype = of->id == TLLM_FORMAT_F32 ? TINY_F32 : of->id == TLLM_FORMAT_F16 ? TINY_F16 : TINY_U8;
        c->in[i].dim[0] = i == 1 ? 1 + tiny_case_pick(c, 9) : c->in[1].dim[0];
        c->in[i].dim[1] = n_part;
        c->in[i].dim[2] = i == 1 ? tiny_case_dim(c, 33) : c->in[1].dim[2];
        c->in[i].dim[3] = of->values > 1 ? numbers / of->values * of->bytes : numbers;
        c->fill[i] = of->values > 1 ? TINY_FILL_TABLE : TINY_FILL_NORMAL;
    }
    c->in[2].rank = c->in[3].rank = c->in[5].rank = 2;
    c->in[2].dtype = c->in[3].dtype = c->in[5].dtype = TINY_I32;
    c->in[2].dim[0] = c->in[5].dim[0] = n_seq;
    c->in[2].dim[1] = tiny_case_dim(c, 9);
    c->in[3].dim[0] = c->in[0].dim[0];
    c->in[3].dim[1] = 4;
    c->in[5].dim[1] = c->in[2].dim[1] * c->in[1].dim[2];
    c->fill[2] = c->fill[3] = c->fill[5] = TINY_FILL_TABLE;
    c->fill[6] = TINY_FILL_POSITIVE;
    if (!slopes) c->in[5].rank = -1;
    c->in[6].rank = slopes ? 1 : -1;
    c->in[7].rank = tiny_case_pick(c, 3) ? -1 : 1;
    c->in[6].dim[0] = c->in[7].dim[0] = c->in[0].dim[1];
    for (i = 1; i < 8; i++) c->dense[i] = 1;
    c->fill_table = tinyi_paged_fill;
    /* an infinite score leaves one key or none, by which rounding falls where */
    c->no_specials = c->no_denormals = 1;
    memcpy(c->params.bytes, &params, sizeof params);
}

static const short tinyi_paged_kernels[] = { TINYI_K_gemv_dot,
                                             TINYI_K_attention_dot,
                                             TINYI_K_attention_blend,
                                             TINYI_K_attention_scores_f32,
                                             TINYI_K_attention_weights_f32,
                                             TINYI_K_attention_mix_f32,
                                             TINYI_K_attention_cap_f32,
                                             TINYI_K_attention_finite_f32,
                                             TINYI_K_f16_to_f32,
                                             TINYI_K_dequantize_i8,
                                             -1 };
static const tiny_op_row tinyi_row_paged_attention = TINYI_ROW_OF("paged_attention", TLLM_OP_PAGED_ATTENTION,
    TAKES(8, 4), GIVES(1), PARAMS(tllm_paged_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_paged_shape), REFERENCE(tinyi_paged_ref), FAST(tinyi_paged_fast, tinyi_paged_work),
    COST(tinyi_paged_cost), CASES(tinyi_paged_cases), BOUND(TINY_BOUND_SCALE, 200.0, 0.0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_paged_kernels), SAYS("o = softmax(scale q k^T) v over the pages of each sequence"));
TINY_API const tiny_op_row *tllm_paged_attention_row(void) { return &tinyi_row_paged_attention; }

TINY_API tiny_status tllm_paged_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k,
                                          const tiny_tensor *v, const tiny_tensor *table, const tiny_tensor *rows,
                                          const tiny_tensor *pos, const tiny_tensor *slopes, const tiny_tensor *sinks,
                                          const tllm_paged_params *params, const tiny_tensor *o)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TLLM_OP_PAGED_ATTENTION;
    op.row = &tinyi_row_paged_attention;
    op.in[0] = q;
    op.in[1] = k;
    op.in[4] = v;
    op.in[2] = table;
    op.in[3] = rows;
    op.in[5] = pos;
    op.in[6] = slopes;
    op.in[7] = sinks;
    op.out[0] = o;
    op.params = params;
    return tiny_run(ctx, &op);
}
