/* src/llm/attention/pages.h - who holds which page: blocks of tokens, tables of sequences, counts of holders
 *
 *   tllm_pages_desc d = { 0 };                      64 blocks of 16 tokens for 8 sequences
 *   d.n_block = 64; d.n_seq = 8;
 *   tllm_pages_open(ctx, &d, &pages);
 *   tllm_pages_append(pages, 0, 20, &copy);         cells 0..19 of sequence 0 have places: table[p / 16], p % 16
 *   tllm_pages_fork(pages, 0, 1);                   sequence 1 holds the same blocks
 *   tllm_pages_append(pages, 1, 1, &copy);          its last block was shared: copy.from >= 0, the caller copies what
 *                                                   stands there
 *
 * What stands in a block is not known here: whoever keeps keys and values, latent rows or a tree of drafts does so in
 * arrays of n_block blocks of his own, and copies a block when he is told to. W. Kwon et al., "Efficient Memory
 * Management for Large Language Model Serving with PagedAttention", 2023 (arXiv 2309.06180), 4.
 *
 * A block that several sequences hold is never written: the call that makes room behind it gives a private copy. After
 * a failure everything is as it was. One caller at a time. */
#ifndef TINYI_PAGES_H
#define TINYI_PAGES_H
#include "core/mem.h"
TINYI_C_BEGIN

typedef struct tllm_pages tllm_pages;
typedef struct tllm_pages_desc {
    tiny_idx n_block;                       /* of the pool */
    tiny_idx block;                         /* tokens of a block; 0: 16 */
    tiny_idx n_seq;                         /* sequences; 0: 1 */
    tiny_idx n_most;                        /* tokens that a sequence may have; 0: as the pool allows */
} tllm_pages_desc;

/* from < 0: nothing is to be copied; else the first n cells of block from go to block to */
typedef struct tllm_page_copy { int32_t from, to; tiny_idx n; } tllm_page_copy;

TINY_API tiny_status tllm_pages_open(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages **out);
TINY_API void tllm_pages_close(tiny_ctx *ctx, tllm_pages *pages);  /* takes NULL */

TINY_API tiny_idx tllm_pages_length(const tllm_pages *pages, tiny_idx seq);
/* its blocks, as many as its length fills */
TINY_API const int32_t *tllm_pages_table(const tllm_pages *pages, tiny_idx seq);
TINY_API tiny_idx tllm_pages_free(const tllm_pages *pages);        /* blocks that nobody holds */
TINY_API tiny_idx tllm_pages_holders(const tllm_pages *pages, tiny_idx block);      /* sequences that hold it */

/* n more cells, or none at all. copy: what must be copied before they are written; never NULL. */
TINY_API tiny_status tllm_pages_append(tllm_pages *pages, tiny_idx seq, tiny_idx n, tllm_page_copy *copy);
/* to holds what from holds; what it held before is given back. */
TINY_API tiny_status tllm_pages_fork(tllm_pages *pages, tiny_idx from, tiny_idx to);
/* keeps the first n cells */
TINY_API tiny_status tllm_pages_trim(tllm_pages *pages, tiny_idx seq, tiny_idx n);
/* Makes the i-th block of a sequence its own, for one who writes into cells that are there. */
TINY_API tiny_status tllm_pages_own(tllm_pages *pages, tiny_idx seq, tiny_idx i, tllm_page_copy *copy);

/* Says which tokens stand in the cells first, first + 1, ...; told from cell 0 on without gaps, full blocks can be
 * found by tllm_pages_share. Never told, or not in order: that sequence is not found. */
TINY_API void tllm_pages_note(tllm_pages *pages, tiny_idx seq, tiny_idx first, const int32_t *tokens, tiny_idx n);
/* A sequence without cells holds the full blocks that begin with these tokens afterwards, from whichever sequences have
 * them;
 * *n_shared: their tokens, at most n. */
TINY_API tiny_status tllm_pages_share(tllm_pages *pages, tiny_idx seq, const int32_t *tokens, tiny_idx n,
                                      tiny_idx *n_shared);
/* What stands in the cells was computed in a way that will not be used again: nothing of it is found from here on, nor
 * what sequences with cells put behind it. Whoever holds it keeps it. */
TINY_API void tllm_pages_forget(tllm_pages *pages);

/* ---- inside: what the bodies share ---- */

/* ---- for one who keeps the pool inside a block of his own ---- */
/* noted -1: not to be found until it is empty */
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
    /* (n_block) of the tokens up to the end of the block; 0: not full, or not known */
    uint64_t *hash;
    int32_t *before;                        /* (n_block) the block in front of one with a hash, or -1 */
    int32_t *bucket, *next;                 /* chains by hash: (n_bucket), (n_block) */
    tiny_idx n_bucket;
};
/* Checks the numbers, sets all but the pointers. */
TINYI_FN tiny_status tinyi_pages_plan(tiny_ctx *ctx, const tllm_pages_desc *desc, tllm_pages *p);
/* Hands out memory from base on, 64-byte aligned; base NULL: only counts. 0: it does not fit. */
TINYI_FN int tinyi_pages_layout(tllm_pages *p, unsigned char *base, size_t *bytes);
TINYI_FN void tinyi_pages_reset(tllm_pages *p);     /* after the layout: nobody holds anything */

TINYI_C_END
#endif
