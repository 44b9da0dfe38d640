/* src/llm/round/scaled.h - makes a model easier to round: scales its folds by AWQ or SmoothQuant, calibrated on a text
 *
 *   tllm_scaled_tensor list[...];                           each matrix that will be rounded, and its future format
 *   tllm_scaled_desc d = { 0 };                             AWQ; d.way = TLLM_SCALE_SMOOTH, d.alpha = 0.5f: SmoothQuant
 *   tllm_scaled *s;
 *   tllm_scaled_open(ctx, file, &d, tokens, n, list, n_list, &s);
 *   tllm_scaled_put(ctx, s, writer); tllm_writer_finish(ctx, writer);
 *   tllm_scaled_close(ctx, s);
 *
 * A fold is a set of channels that can be scaled without changing the function of the model: llm/round/fold.h. The
 * result is the model with its changed matrices in floats, to be rounded, packed, or given to GPTQ. It computes the
 * same function, except for weights that AWQ clipped. Embedding and output are unchanged. */
#ifndef TINYI_SCALED_H
#define TINYI_SCALED_H
#include "llm/round/fold.h"
#include "llm/round/awq.h"
TINYI_C_BEGIN

typedef struct tllm_scaled tllm_scaled;
enum { TLLM_SCALE_AWQ, TLLM_SCALE_SMOOTH };

typedef struct tllm_scaled_desc {           /* all zero: the value in brackets */
    int way;                                /* [AWQ] */
    float alpha;                            /* SmoothQuant: 0 to 1 */
    tllm_awq_desc awq;                      /* AWQ: powers, ranges; the grid, for matrices whose format is 0 */
    /* AWQ, nonzero: no range is clipped; use it before GPTQ [ranges are searched, except for queries and keys] */
    int no_clip;
    /* bits 1 << TLLM_FOLD_... [AWQ: MIX, VALUE, FEED, DOWN; SmoothQuant: MIX, FEED, as in its paper] */
    unsigned kinds;
    tiny_idx window;                        /* tokens of a text window [512, or the context of the model if shorter] */
    /* bytes of statistics at once [1 GB]; the text is read as often as needed */
    size_t room;
} tllm_scaled_desc;

typedef struct tllm_scaled_tensor {
    const tllm_gguf_tensor *t;
    int format;                             /* 0: codes of awq.grid */
} tllm_scaled_tensor;

typedef struct tllm_scaled_about {
    size_t folds;                           /* scaled folds */
    size_t unknown;                         /* folds not scaled, because the text never reached them */
    size_t cut, groups;                     /* AWQ: clipped groups; all groups */
    /* AWQ: errors summed over folds before clipping, with and without factors; folds without finite codes are in
     * neither sum */
    double loss, plain;
    double alpha;                           /* mean of the chosen powers */
} tllm_scaled_about;

/* ctx as in tllm_gptq_model. Refused: files that tllm_folds_open refuses, and models without a fold of these kinds. On
 * failure *out is NULL. */
TINY_API tiny_status tllm_scaled_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_scaled_desc *desc,
                                      const int32_t *token, tiny_idx n_token, const tllm_scaled_tensor *list, size_t n,
                                      tllm_scaled **out);
TINY_API void tllm_scaled_close(tiny_ctx *ctx, tllm_scaled *s);         /* s may be NULL */
TINY_API tllm_scaled_about tllm_scaled_what(const tllm_scaled *s);
TINY_API tllm_folds *tllm_scaled_folds(tllm_scaled *s);     /* with their factors; valid until the close */
/* Writes the model to a writer that was just opened. */
TINY_API tiny_status tllm_scaled_put(tiny_ctx *ctx, tllm_scaled *s, tllm_writer *w);

TINYI_C_END
#endif
