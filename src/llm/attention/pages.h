/* src/llm/attention/pages.h - page management: blocks of tokens, tables of sequences, reference counts
 *
 *   tllm_pages_desc d = { 0 };                      64 blocks of 16 tokens for 8 sequences
 *   d.n_block = 64; d.n_seq = 8;
 *   tllm_pages_open(ctx, &d, &pages);
 *   tllm_pages_append(pages, 0, 20, &copy);         cell p of 0..19 of sequence 0 is cell p % 16 of block table[p / 16]
 *   tllm_pages_fork(pages, 0, 1);                   sequence 1 holds the same blocks
 *   tllm_pages_append(pages, 1, 1, &copy);          its last block was shared: copy.from >= 0, and the caller must copy
 *
 * A block (or page) has room for a fixed number of tokens; a cell is the place of one token in a sequence. The contents
 * of a block are not stored here. The caller keeps them (keys and values, latent rows, a tree of drafts) in its own
 * arrays of n_block blocks, and copies a block when a call asks for it. W. Kwon et al., "Efficient Memory
 * Management for Large Language Model Serving with PagedAttention", 2023 (arXiv 2309.06180), section 4.
 *
 * A block that several sequences hold is never written: the call that appends to it assigns a new block and tells the
 * caller what to copy. After a failure nothing has changed. One thread at a time may use a tllm_pages. */
#ifndef TINYI_PAGES_H
#define TINYI_PAGES_H
#include "core/mem.h"
TINYI_C_BEGIN

typedef struct tllm_pages tllm_pages;
typedef struct tllm_pages_desc {
    tiny_idx n_block;                       /* blocks of the pool */
    tiny_idx block;                         /* tokens of a block; 0: 16 */
    tiny_idx n_seq;                         /* sequences; 0: 1 */
    tiny_idx n_most;                        /* most tokens of a sequence; 0: limited by the pool only */
} tllm_pages_desc;

/* from < 0: nothing to copy; else copy the first n cells of block from to block to */
typedef struct tllm_page_copy { int32_t from, to; tiny_idx n; } tllm_page_copy;

TINY_API tiny_status tllm_pages_open(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages **out);
TINY_API void tllm_pages_close(tiny_ctx *ctx, tllm_pages *pages);  /* pages may be NULL */

TINY_API tiny_idx tllm_pages_length(const tllm_pages *pages, tiny_idx seq);
/* the blocks of the sequence in order, as many as its length needs; valid until the next call that changes it */
TINY_API const int32_t *tllm_pages_table(const tllm_pages *pages, tiny_idx seq);
TINY_API tiny_idx tllm_pages_free(const tllm_pages *pages);        /* blocks that no sequence holds */
TINY_API tiny_idx tllm_pages_holders(const tllm_pages *pages, tiny_idx block);      /* sequences that hold it */

/* Appends n cells, or none on failure. *copy: the copy that the caller must make before it writes the cells; copy must
 * not be NULL. */
TINY_API tiny_status tllm_pages_append(tllm_pages *pages, tiny_idx seq, tiny_idx n, tllm_page_copy *copy);
/* Makes sequence `to` hold the blocks of `from`, and releases those it held before. */
TINY_API tiny_status tllm_pages_fork(tllm_pages *pages, tiny_idx from, tiny_idx to);
/* Keeps the first n cells. */
TINY_API tiny_status tllm_pages_trim(tllm_pages *pages, tiny_idx seq, tiny_idx n);
/* Makes the i-th block of a sequence private, so that its cells can be overwritten. copy as in tllm_pages_append. */
TINY_API tiny_status tllm_pages_own(tllm_pages *pages, tiny_idx seq, tiny_idx i, tllm_page_copy *copy);

/* Records n tokens as the contents of cells first, first + 1, ... tllm_pages_share finds only full blocks whose cells,
 * and all cells before them, were recorded in order. */
TINY_API void tllm_pages_note(tllm_pages *pages, tiny_idx seq, tiny_idx first, const int32_t *tokens, tiny_idx n);
/* Gives a sequence without cells the full blocks of any sequences that begin with these tokens. *n_shared: the number
 * of tokens in them, at most n. */
TINY_API tiny_status tllm_pages_share(tllm_pages *pages, tiny_idx seq, const int32_t *tokens, tiny_idx n,
                                      tiny_idx *n_shared);
/* Makes all present cells, and cells appended to them later, invisible to tllm_pages_share: for contents that must not
 * be reused. Sequences keep the blocks that they hold. */
TINY_API void tllm_pages_forget(tllm_pages *pages);

/* ---- inside: what the bodies share ---- */

/* ---- for a caller that keeps the pool inside its own block of memory ---- */
/* noted -1: not found by tllm_pages_share until it is empty */
typedef struct tllm_pages_seq { tiny_idx length, noted; } tinyi_pages_seq;
struct tllm_pages {
    tiny_ctx *ctx;
    tiny_idx n_block, block, n_seq, n_table;        /* n_table: blocks of a table */
    tiny_idx n_most, n_free;
    tinyi_pages_seq *seq;                   /* (n_seq) */
    int32_t *table;                         /* (n_seq, n_table) */
    int32_t *holders;                       /* (n_block) */
    int32_t *stack;                         /* (n_block): the first n_free are free */
    int32_t *token;                         /* (n_block, block) as noted */
    /* (n_block) of the tokens up to the end of the block; 0: not full, or unknown */
    uint64_t *hash;
    int32_t *before;                        /* (n_block) the block before one with a hash, or -1 */
    int32_t *bucket, *next;                 /* chains by hash: (n_bucket), (n_block) */
    tiny_idx n_bucket;
};
/* Checks the numbers and sets everything except the pointers. */
TINYI_FN tiny_status tinyi_pages_plan(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages *p);
/* Sets the pointers into memory from base on, 64-byte aligned; base NULL: only counts. 0: it does not fit. */
TINYI_FN int tinyi_pages_layout(tllm_pages *p, unsigned char *base, size_t *bytes);
TINYI_FN void tinyi_pages_reset(tllm_pages *p);     /* after the layout: all blocks are free */

TINYI_C_END
#endif
