/* src/llm/serve/energon_rows.h - batches of texts of uneven lengths: rows without padding, and which texts go together
 *
 * A batch of n texts has `length` (n) and most = the longest. The padded form is (n, most, width); the form without
 * padding has only the valid rows, one text after the other: (valid, width), valid = the sum of the lengths. Linear
 * layers, norms and messages need the valid rows only. Attention runs on the rows of each text.
 *
 *   tllm_rows_count(ctx, length, n, &most, &valid);
 *   tllm_rows_remove(ctx, length, n, padded, bytes, rows);         bytes: of a row
 *   tllm_rows_rebuild(ctx, length, n, rows, bytes, padded);        zeros where there is no token
 *
 * Texts of similar lengths waste less in a padded batch, and large batches cost less per text: tllm_rows_batches finds
 * the cheapest grouping for a measured cost. */
#ifndef TINYI_ENERGON_ROWS_H
#define TINYI_ENERGON_ROWS_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_ROWS_MOST (1 << 20)            /* tokens of a batch, padded */

/* Refuses a batch without texts and a text without tokens. */
TINY_API tiny_status tllm_rows_count(tiny_ctx *ctx, const int32_t *length, tiny_idx n, tiny_idx *most,
                                     tiny_idx *valid);
/* offset (valid): the padding before each valid row; its place in the padded form is its number plus its offset. */
TINY_API tiny_status tllm_rows_offsets(tiny_ctx *ctx, const int32_t *length, tiny_idx n, int32_t *offset);
TINY_API tiny_status tllm_rows_remove(tiny_ctx *ctx, const int32_t *length, tiny_idx n, const void *padded,
                                      size_t bytes, void *rows);
TINY_API tiny_status tllm_rows_rebuild(tiny_ctx *ctx, const int32_t *length, tiny_idx n, const void *rows,
                                       size_t bytes, void *padded);

/* Operations of a transformer block of that width with a hidden layer 4 times as wide: 24 width^2 for each row and
 * 4 width l^2 for the attention of a text of l rows. */
typedef enum tllm_rows_form {
    TLLM_ROWS_VALID,
    TLLM_ROWS_PADDED,
    TLLM_ROWS_MIXED                         /* attention is padded, all else is not */
} tllm_rows_form;
TINY_API double tllm_rows_work(const int32_t *length, tiny_idx n, double width, int form);

/* ---- which texts form a batch */

typedef double (*tllm_rows_cost)(void *user, int32_t length, tiny_idx n);  /* of n texts, the longest has that length */

/* The cheapest grouping in batches of at most `most` texts. batch (n): the number of the batch of each text, from 0, in
 * the order of lengths. total may be NULL. O(n most) calls of cost. It is the cheapest of all groupings if the cost
 * never falls as the length grows. */
TINY_API tiny_status tllm_rows_batches(tiny_ctx *ctx, const int32_t *length, tiny_idx n, tiny_idx most,
                                       tllm_rows_cost cost, void *user, int32_t *batch, double *total);

typedef struct tllm_rows_queue {            /* texts that wait, the oldest first */
    const int32_t *length;                  /* (n) */
    const double *wait;                     /* (n), any unit; NULL: none is too old */
    tiny_idx n, most;
    double wait_most;                       /* a text that has waited longer is in the next batch */
    tllm_rows_cost cost;
    void *user;
    /* The list is filled up to 5 most texts with lengths drawn from a normal distribution fitted to these recent ones,
     * so that a batch that will soon be full is not sent half empty. n_recent 0: it is not filled */
    const int32_t *recent;
    tiny_idx n_recent;
    uint64_t seed;
} tllm_rows_queue;
/* The next batch: the one with the largest share of texts that are there, or the one of a text that is too old. chosen
 * (most): their numbers, ascending. */
TINY_API tiny_status tllm_rows_next(tiny_ctx *ctx, const tllm_rows_queue *queue, int32_t *chosen, tiny_idx *n_chosen);

/* ---- inside: what the bodies share ---- */

TINYI_FN size_t tinyi_rows_next_work(tiny_idx n, tiny_idx most);       /* bytes */
TINYI_FN int tinyi_rows_pick(const tllm_rows_queue *queue, void *work, int32_t *chosen, tiny_idx *n_chosen);

TINYI_C_END
#endif
