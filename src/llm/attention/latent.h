/* src/llm/attention/latent.h - multi-head latent attention (MLA): one short row per token replaces the keys and
 * values of all heads
 *
 *   tllm_latent_params p = { 0 };
 *   p.d_nope = 128; p.d_v = 128;
 *   tllm_latent_attention(ctx, &q, &latents, &table, &rows, &w, &p, &o);
 *
 *   q        (n_query, n_head, d_nope + d_rope) f32: for each head the part that is not rotated, then the rotated part
 *   latents  (n_block, 1, block, d_c + d_rope): pages as in tllm_paged_attention, with one part. A row holds the latent
 *            vector c of a token, already normalized, then its rotated key, which all heads share. f32, f16, or u8:
 *            blocks of a format.
 *   table    (n_seq, n_table), rows (n_query, 4), i32: as in tllm_paged_attention
 *   w        (n_head (d_nope + d_v), d_c): for each head d_nope rows K_h, then d_v rows V_h. f32, f16, bf16, or u8:
 *            rows of blocks of a format
 *   o        (n_query, n_head, d_v) f32
 *
 * The result equals attention with keys [K_h c, rotated key] and values V_h c, which are never stored:
 *
 *   absorbed   K_h^T q is multiplied with c itself, and V_h is applied after the sum. One key of d_c + d_rope numbers
 *              serves all heads. Best for few queries, where reading the pages limits the speed. Up to 96 heads of a
 *              token form one tile, which reads a page once.
 *   expanded   keys and values of 256 cells at a time are computed from their latents, used, and dropped. Best for many
 *              queries of one sequence, which share that work.
 *
 * AUTO chooses the form that costs less for the rows of the call. After a short text, the expanded form wins from a few
 * queries on; after a long text, from about 3/2 tllm_latent_turn queries on. */
#ifndef TINYI_LATENT_H
#define TINYI_LATENT_H
#include "llm/attention/paged.h"
TINYI_C_BEGIN

typedef enum tllm_latent_form { TLLM_LATENT_AUTO, TLLM_LATENT_ABSORBED, TLLM_LATENT_EXPANDED } tllm_latent_form;
typedef struct tllm_latent_params {
    float scale;                            /* 0: 1 / sqrt(d_nope + d_rope) */
    int form;                               /* tllm_latent_form */
    int format_k, format_w;                 /* tllm_format ids of latents and w, if these are bytes */
    tiny_idx d_nope, d_v;                   /* numbers of a head: its key without the rotated part, its value */
    const tllm_tree_plan *tree;             /* as in tllm_paged_params; used by the absorbed form */
} tllm_latent_params;

#define TLLM_LATENT_MOST 4096               /* most numbers of a latent row */

TINY_API tiny_status tllm_latent_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *latents,
                                           const tiny_tensor *table, const tiny_tensor *rows, const tiny_tensor *w,
                                           const tllm_latent_params *params, const tiny_tensor *o);
/* The least number of queries of a sequence for which the expanded form needs fewer multiply-adds, however many cells
 * precede them; TINY_IDX_MAX: it never does. */
TINY_API tiny_idx tllm_latent_turn(tiny_idx d_nope, tiny_idx d_v, tiny_idx d_c);
/* the row of the operation: for conformance tests, recorders and accelerators */
TINY_API const tiny_op_row *tllm_latent_attention_row(void);

TINYI_C_END
#endif
