/* src/llm/attention/tree.h - sequences that share their beginnings: a tree of texts, and how attention reads each page
 * once
 *
 *   tllm_tree_plan *plan;
 *   tllm_tree_plan_open(ctx, NULL, &plan);
 *   tllm_tree_plan_set(plan, &rows, &table, block);         the rows and the table that the attention is to be called
 *                                                           with
 *   params.tree = plan;                                     if it pays: tllm_tree_plan_counts
 *   tllm_paged_attention(ctx, &q, &k, &v, &table, &rows, NULL, NULL, NULL, &params, &o);
 *
 * J. Yao et al., "DeFT: Decoding with Flash Tree-Attention for Efficient Tree-structured LLM Inference", 2024 (arXiv
 * 2404.00242).
 * Where sequences were forked (tllm_pages_fork) their tables name the same pages: the tree stands in the tables. A plan
 * lays its cells into one stream, depth first, cuts the stream into blocks of equal length, and says for each block
 * which queries read it, and for each cell which of them. Then keys and values are read once for all, not once a text.
 * (With several threads and fewer than two blocks, times parts of the pages, for each of them the groups of max_q
 * queries of a block go to different threads, which read it each.)
 *
 * A plan is for the rows and tables it was set with; a page that is appended, forked or dropped wants it set again:
 * once a step, for all layers. One caller at a time. */
#ifndef TINYI_TREE_H
#define TINYI_TREE_H
#include "core/op.h"
#include "llm/attention/pages.h"
TINYI_C_BEGIN

typedef struct tllm_tree_plan tllm_tree_plan;
typedef enum tllm_tree_mode {
    TLLM_TREE_FLAT,                         /* blocks of block_len cells, whatever nodes they come from */
    TLLM_TREE_NODE,                         /* a block a node, cut into pieces of block_len */
    TLLM_TREE_BREADTH                       /* as FLAT, nodes level by level: the same answers, more pairs */
} tllm_tree_mode;
typedef struct tllm_tree_plan_desc {
    tiny_idx block_len;                     /* cells of a block; 0: 128 */
    /* queries of a mask, 1..64; 0: 32. A block that more queries read is read once all the same, but for what stands
     * above */
    int max_q;
    int mode;                               /* tllm_tree_mode */
} tllm_tree_plan_desc;

/* desc may be NULL */
TINY_API tiny_status tllm_tree_plan_open(tiny_ctx *ctx, const tllm_tree_plan_desc *desc, tllm_tree_plan **out);
TINY_API void tllm_tree_plan_close(tiny_ctx *ctx, tllm_tree_plan *plan);       /* takes NULL */
/* rows (n_query, 4) and table (n_seq, n_table), i32, as tllm_paged_attention takes them; block: tokens of a page. After
 * a failure the plan is empty. */
TINY_API tiny_status tllm_tree_plan_set(tllm_tree_plan *plan, const tiny_tensor *rows, const tiny_tensor *table,
                                        tiny_idx block);

typedef struct tllm_tree_counts {
    /* Cells that a call takes out of pages for each part (n_load of its parameters), with the plan and without. n_tree:
     * cells that a query sees, each once; those of a page that two sequences have after different pages (entries
     * without a page that differ, too) once for each. n_path: the same for queries that tllm_paged_attention computes
     * together (neighbours of one sequence, no gap between their windows), summed over all such groups. Counted as one
     * thread reads them and, without the plan, while the heads of a group times its queries fit one tile of 96 rows. */
    tiny_idx n_tree, n_path;
    tiny_idx n_block;                       /* blocks of cells */
    tiny_idx n_part;                        /* partial results: pairs of a block and a query */
    tiny_idx n_pair, n_needed;              /* pairs of a cell and a query: computed; of these not hidden */
    tiny_idx mask_bytes;
} tllm_tree_counts;
TINY_API tllm_tree_counts tllm_tree_plan_counts(const tllm_tree_plan *plan);

/* One block with one group of queries that read it; a block with more than max_q queries is several items with the same
 * cells. */
typedef struct tllm_tree_item {
    int32_t piece, n_piece;                 /* its cells: pieces of pages, in order */
    int32_t n_cell, first;                  /* first: the first item of its block */
    int32_t query, n_query;                 /* place in the list of queries */
    /* place of its masks: bit i of the mask of a cell: query i of the item sees it */
    int32_t mask;
} tllm_tree_item;
/* n rows of a page from row in on: cells cell, cell + 1 ... */
typedef struct tllm_tree_piece { int32_t page, in, n, cell; } tllm_tree_piece;
TINY_API const tllm_tree_item *tllm_tree_plan_items(const tllm_tree_plan *plan, tiny_idx *n,
                                                    const tllm_tree_piece **pieces, const int32_t **queries,
                                                    const uint64_t **masks);

/* ---- a tree as beam searches and trees of thought grow it: nodes over the sequences of a pool of pages ----
 *
 * A live leaf is one sequence; an inner node is what the sequences below it share. Numbers of nodes go up from 0; a
 * node that nobody holds any more is dead, and its number is used again. After a failure everything is as it was. */
typedef struct tllm_tree tllm_tree;
/* all sequences of pages are empty, and the tree's from here on */
TINY_API tiny_status tllm_tree_open(tiny_ctx *ctx, tllm_pages *pages, tllm_tree **out);
TINY_API void tllm_tree_close(tiny_ctx *ctx, tllm_tree *tree);      /* takes NULL; leaves the sequences empty */
/* n cells of a prompt, as the only node: a leaf. */
TINY_API tiny_status tllm_tree_prompt(tllm_tree *tree, tiny_idx n, int32_t *leaf);
/* A leaf becomes an inner node with n new leaves. copies is not wanted: nothing is written yet. */
TINY_API tiny_status tllm_tree_branch(tllm_tree *tree, int32_t leaf, tiny_idx n, int32_t *leaves);
/* n more cells at a leaf; copy as in tllm_pages_append. */
TINY_API tiny_status tllm_tree_append(tllm_tree *tree, int32_t leaf, tiny_idx n, tllm_page_copy *copy);
/* The leaf dies, and every node above it that has no live leaf left. */
TINY_API tiny_status tllm_tree_cut(tllm_tree *tree, int32_t leaf);
/* A node and its only child become one: the child's number stays. */
TINY_API tiny_status tllm_tree_merge(tllm_tree *tree, int32_t node, int32_t child);
TINY_API int32_t tllm_tree_parent(const tllm_tree *tree, int32_t node);        /* -1: none, or not a live node */
TINY_API tiny_idx tllm_tree_leaves(const tllm_tree *tree, int32_t node);       /* live leaves at or below it; 0: dead */
TINY_API tiny_idx tllm_tree_cells(const tllm_tree *tree, int32_t node);        /* of the node alone */
/* its sequence of pages; -1: no live leaf */
TINY_API tiny_idx tllm_tree_seq(const tllm_tree *tree, int32_t leaf);

/* ---- inside: what the bodies share ---- */

/* ---- for tllm_paged_attention ---- */
struct tllm_tree_plan {
    tiny_ctx *ctx;
    tiny_idx block_len;
    int max_q, mode;
    tiny_idx n_query, block;                /* what it was set with; n_query 0: nothing */
    tllm_tree_counts counts;
    tllm_tree_item *item;
    tllm_tree_piece *piece;
    int32_t *query;                         /* of the items, one after the other: a partial result each */
    int32_t *part, *part_at;                /* partial results by query: part_at (n_query + 1), ascending inside */
    uint64_t *mask;
    int32_t *scratch;
    tiny_idx n_item, n_piece, n_list, n_mask;
    struct tllm_tree_run *run;             /* pages that are read by the same queries, depth first */
    int32_t *member, *piece_run;            /* queries of the runs; the run of each piece */
    tiny_idx n_run;
    /* room */
    tiny_idx most_item, most_piece, most_piece_run, most_list, most_mask, most_query, most_part, most_run, most_member,
        most_scratch;
};

TINYI_C_END
#endif
