/* src/llm/attention/paged.h - attention over keys and values in pages
 *
 *   tllm_paged_attention(ctx, &q, &k, &v, &table, &rows, NULL, NULL, NULL, NULL, &o);
 *
 *   q      (n_query, n_head, d) f32
 *   k, v   (n_block, n_part, block, x): n_block pages of `block` tokens. A part is a group of n_kv / n_part
 *          neighbouring heads. A row of a part holds the numbers of its heads for one token, one head after the other.
 *          f32 or f16: x numbers; u8: x bytes, blocks of a format (params). v NULL: the first d_v numbers of each key
 *          are its value.
 *   table  (n_seq, n_table) i32: the pages of each sequence; cell j is row j % block of page table[j / block]
 *   rows   (n_query, 4) i32: for each query its sequence, the first cell it sees, one past the last, and its position.
 *          A query that sees no cell gives o = 0.
 *   pos    (n_seq, n_cell) i32: the positions of the cells; needed only with slopes
 *   slopes (n_head): ALiBi, -slope (position of the query - position of the key) is added to a score
 *   sinks  (n_head): a logit that is part of the softmax denominator but has no value
 *   o      (n_query, n_head, d_v) f32
 *
 * A cell is the place of one token in a sequence. v, pos, slopes, sinks and params may be NULL. Entries of table and
 * rows outside their range are errors. Put queries of one sequence next to each other: then they are computed
 * together. */
#ifndef TINYI_PAGED_H
#define TINYI_PAGED_H
#include "core/op.h"
#include "llm/block/format.h"
#include "llm/attention/tree.h"
TINYI_C_BEGIN

typedef struct tllm_paged_params {
    float scale;                            /* 0: 1 / sqrt(d) */
    float softcap;                          /* > 0: s = softcap tanh(s / softcap) */
    int format_k, format_v;                 /* tllm_format ids of pages of bytes; ignored for f32 and f16 */
    tiny_idx n_kv;                          /* heads of keys and values; 0: n_part */
    tiny_idx d_v;                           /* numbers of a value; 0: d */
    /* a plan that was set with these rows and this table: shared pages are read once; NULL: once per sequence */
    const tllm_tree_plan *tree;
    /* NULL, or a counter for each thread of the context: the fast form adds the cells, times parts, that it read */
    tiny_idx *n_load;
    /* nonzero: the bits of an output depend on its query and its cells alone, not on the other queries and not on the
     * number of threads. Each query then reads its pages by itself, and a plan is ignored */
    int alone;
} tllm_paged_params;

TINY_API tiny_status tllm_paged_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k,
                                          const tiny_tensor *v, const tiny_tensor *table, const tiny_tensor *rows,
                                          const tiny_tensor *pos, const tiny_tensor *slopes, const tiny_tensor *sinks,
                                          const tllm_paged_params *params, const tiny_tensor *o);
/* the row of the operation: for conformance tests, recorders and accelerators */
TINY_API const tiny_op_row *tllm_paged_attention_row(void);

/* ---- inside: what the bodies share ---- */

/* The number of queries from t on that are computed together without a plan: neighbours of one sequence whose windows
 * have no gap between them. *cells: the cells of all their windows together. */
TINYI_FN tiny_idx tinyi_paged_run(const int32_t *rows, tiny_idx n_query, tiny_idx t, tiny_idx *cells);

/* ---- pages as models keep them ---- */
typedef struct tinyi_pool {                 /* keys or values of one layer */
    unsigned char *at;                      /* (n_block, n_part, block, row_bytes) */
    const tllm_format *type;
    tiny_idx n_part, d_part, block;         /* d_part: numbers of a row of a part */
    size_t row_bytes;
} tinyi_pool;

/* The number of parts for n_kv heads of d numbers in a format; parts are as small as whole blocks allow. 0: none. */
TINYI_FN tiny_idx tinyi_pool_parts(const tllm_format *type, tiny_idx n_kv, tiny_idx d);
TINYI_INLINE unsigned char *tinyi_pool_row(const tinyi_pool *p, int32_t page, tiny_idx part, tiny_idx i)
{
    return p->at + (size_t)(((tiny_idx)page * p->n_part + part) * p->block + i) * p->row_bytes;
}
/* n_part * d_part numbers */
TINYI_FN void tinyi_pool_write(const tinyi_pool *p, int32_t page, tiny_idx i, const float *x);
TINYI_FN void tinyi_pool_read(const tinyi_pool *p, int32_t page, tiny_idx i, float *x);
/* the first n rows of a page */
TINYI_FN void tinyi_pool_copy(const tinyi_pool *p, int32_t from, int32_t to, tiny_idx n);
TINYI_FN tiny_tensor tinyi_pool_tensor(const tinyi_pool *p, tiny_idx n_block);

TINYI_C_END
#endif
