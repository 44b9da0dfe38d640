/* src/llm/attention/tree.h - sequences with common beginnings: a tree of texts, and attention that reads each page once
 *
 *   tllm_tree_plan *plan;
 *   tllm_tree_plan_open(ctx, NULL, &plan);
 *   tllm_tree_plan_set(plan, &rows, &table, block);         the rows and the table of the attention call
 *   params.tree = plan;                                     if tllm_tree_plan_counts shows a gain
 *   tllm_paged_attention(ctx, &q, &k, &v, &table, &rows, NULL, NULL, NULL, &params, &o);
 *
 * J. Yao et al., "DeFT: Decoding with Flash Tree-Attention for Efficient Tree-structured LLM Inference", 2024 (arXiv
 * 2404.00242).
 * The tables of forked sequences (tllm_pages_fork) name the same pages, so the tables define the tree. A plan puts the
 * cells of the tree into one stream, depth first, and cuts the stream into blocks of equal length. It lists the queries
 * of each block, and for each cell the queries that see it. Keys and values are then read once for all texts. There is
 * one exception: if blocks times parts are fewer than two per thread, several threads may share a block. Each of them
 * takes up to max_q of its queries and reads the block.
 *
 * A plan is valid for the rows and tables it was set with. Set it again when a page is appended, forked or dropped:
 * once per step, for all layers. One thread at a time may change a plan or a tree. */
#ifndef TINYI_TREE_H
#define TINYI_TREE_H
#include "core/op.h"
#include "llm/attention/pages.h"
TINYI_C_BEGIN

typedef struct tllm_tree_plan tllm_tree_plan;
typedef enum tllm_tree_mode {
    TLLM_TREE_FLAT,                         /* blocks of block_len cells, across nodes */
    TLLM_TREE_NODE,                         /* one block per node, cut into pieces of block_len */
    TLLM_TREE_BREADTH                       /* as FLAT, nodes level by level: the same results, more pairs */
} tllm_tree_mode;
typedef struct tllm_tree_plan_desc {
    tiny_idx block_len;                     /* cells of a block; 0: 128 */
    /* queries of a mask, 1..64; 0: 32. A block with more queries is still read once, with the exception above */
    int max_q;
    int mode;                               /* tllm_tree_mode */
} tllm_tree_plan_desc;

/* desc may be NULL */
TINY_API tiny_status tllm_tree_plan_open(tiny_ctx *ctx, const tllm_tree_plan_desc *desc, tllm_tree_plan **out);
TINY_API void tllm_tree_plan_close(tiny_ctx *ctx, tllm_tree_plan *plan);       /* plan may be NULL */
/* rows (n_query, 4) and table (n_seq, n_table), i32, as in tllm_paged_attention; block: tokens of a page. After a
 * failure the plan is empty. */
TINY_API tiny_status tllm_tree_plan_set(tllm_tree_plan *plan, const tiny_tensor *rows, const tiny_tensor *table,
                                        tiny_idx block);

typedef struct tllm_tree_counts {
    /* Cells that a call reads from pages for each part (n_load of its parameters), with and without the plan.
     * n_tree: visible cells, each counted once. A page that two sequences have after different pages counts once for
     * each of them; different table entries that name no page count as different pages. n_path: the cells of each
     * group of queries that tllm_paged_attention computes together (neighbours of one sequence without a gap between
     * their windows), summed over all groups. Both are counted for one thread; n_path assumes that the heads of a group
     * times its queries fit into one tile of 96 rows. */
    tiny_idx n_tree, n_path;
    tiny_idx n_block;                       /* blocks of cells */
    tiny_idx n_part;                        /* partial results: pairs of a block and a query */
    tiny_idx n_pair, n_needed;              /* pairs of a cell and a query that are computed; visible ones among them */
    tiny_idx mask_bytes;
} tllm_tree_counts;
TINY_API tllm_tree_counts tllm_tree_plan_counts(const tllm_tree_plan *plan);

/* One block with one group of its queries. A block with more than max_q queries becomes several items with the same
 * cells. */
typedef struct tllm_tree_item {
    int32_t piece, n_piece;                 /* its cells: pieces of pages, in order */
    int32_t n_cell, first;                  /* first: index of the first item of its block */
    int32_t query, n_query;                 /* index in the list of queries */
    /* index of its masks, one per cell; bit i: query i of the item sees the cell */
    int32_t mask;
} tllm_tree_item;
/* n rows of a page from row `in` on: cells cell, cell + 1 ... */
typedef struct tllm_tree_piece { int32_t page, in, n, cell; } tllm_tree_piece;
TINY_API const tllm_tree_item *tllm_tree_plan_items(const tllm_tree_plan *plan, tiny_idx *n,
                                                    const tllm_tree_piece **pieces, const int32_t **queries,
                                                    const uint64_t **masks);

/* ---- a tree of texts, for beam search and trees of thought, kept in the sequences of a tllm_pages ----
 *
 * A live leaf is one sequence. An inner node is the common part of the sequences below it. Nodes are numbered from 0
 * up; the number of a removed node is used again. After a failure nothing has changed. */
typedef struct tllm_tree tllm_tree;
/* All sequences of pages must be empty. Until the close only the tree may change them; pages must outlive it. */
TINY_API tiny_status tllm_tree_open(tiny_ctx *ctx, tllm_pages *pages, tllm_tree **out);
TINY_API void tllm_tree_close(tiny_ctx *ctx, tllm_tree *tree);      /* tree may be NULL; empties the sequences */
/* Makes a prompt of n cells the only node, a leaf. */
TINY_API tiny_status tllm_tree_prompt(tllm_tree *tree, tiny_idx n, int32_t *leaf);
/* Turns a leaf into an inner node with n new leaves. Nothing has to be copied yet. */
TINY_API tiny_status tllm_tree_branch(tllm_tree *tree, int32_t leaf, tiny_idx n, int32_t *leaves);
/* Appends n cells to a leaf; copy as in tllm_pages_append. */
TINY_API tiny_status tllm_tree_append(tllm_tree *tree, int32_t leaf, tiny_idx n, tllm_page_copy *copy);
/* Removes the leaf and every node above it that has no live leaf left. */
TINY_API tiny_status tllm_tree_cut(tllm_tree *tree, int32_t leaf);
/* Merges a node with its only child; the merged node has the child's number. */
TINY_API tiny_status tllm_tree_merge(tllm_tree *tree, int32_t node, int32_t child);
TINY_API int32_t tllm_tree_parent(const tllm_tree *tree, int32_t node);        /* -1: none, or not a live node */
TINY_API tiny_idx tllm_tree_leaves(const tllm_tree *tree, int32_t node);       /* live leaves at or below it; 0: dead */
TINY_API tiny_idx tllm_tree_cells(const tllm_tree *tree, int32_t node);        /* of the node alone */
/* the sequence of a leaf in the pages; -1: not a live leaf */
TINY_API tiny_idx tllm_tree_seq(const tllm_tree *tree, int32_t leaf);

/* ---- inside: what the bodies share ---- */

/* ---- for tllm_paged_attention ---- */
struct tllm_tree_plan {
    tiny_ctx *ctx;
    tiny_idx block_len;
    int max_q, mode;
    tiny_idx n_query, block;                /* the rows and table it was set with; n_query 0: none */
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
