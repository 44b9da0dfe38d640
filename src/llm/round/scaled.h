/* src/llm/round/scaled.h - a model made easier to round: its folds scaled by AWQ or by SmoothQuant, over a text that it
 * reads
 *
 *   tllm_scaled_tensor list[...];                           each matrix that will be rounded, and the format it will
 *                                                           have
 *   tllm_scaled_desc d = { 0 };                             AWQ; d.way = TLLM_SCALE_SMOOTH, d.alpha = 0.5f: SmoothQuant
 *   tllm_scaled *s;
 *   tllm_scaled_open(ctx, file, &d, tokens, n, list, n_list, &s);
 *   tllm_scaled_put(ctx, s, writer); tllm_writer_finish(ctx, writer);
 *
 * What is written is the model in floats where it changed: the same function (AWQ: but for weights whose range was
 * cut), to be rounded plainly, packed, or given to GPTQ. Matrices of no layer (embedding, output) stay as they are. */
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
    /* AWQ: no range is cut, which is for GPTQ to make good [ranges are searched, but not of queries and keys] */
    int no_clip;
    /* bits 1 << TLLM_FOLD_... [AWQ: MIX, VALUE, FEED, DOWN; SmoothQuant: MIX, FEED, as in its paper] */
    unsigned kinds;
    tiny_idx window;                        /* tokens that see each other [512, or what the model was made for] */
    /* bytes of statistics at once [1 GB]; the text is read as often as that takes */
    size_t room;
} tllm_scaled_desc;

typedef struct tllm_scaled_tensor {
    const tllm_gguf_tensor *t;
    int format;                             /* 0: codes of awq.grid */
} tllm_scaled_tensor;

typedef struct tllm_scaled_about {
    size_t folds;                           /* that were scaled */
    size_t unknown;                         /* whose inputs are not known: they were not */
    size_t cut, groups;                     /* AWQ: groups whose range was cut; of how many */
    /* AWQ: sums over folds, before ranges were cut; without factors (what cannot be rounded so is in neither) */
    double loss, plain;
    double alpha;                           /* mean of what was taken */
} tllm_scaled_about;

/* ctx as of tllm_gptq_model. Refused: what tllm_folds_open refuses, a model without a fold of these kinds. On failure
 * *out is NULL. */
TINY_API tiny_status tllm_scaled_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_scaled_desc *desc,
                                      const int32_t *token, tiny_idx n_token, const tllm_scaled_tensor *list, size_t n,
                                      tllm_scaled **out);
TINY_API void tllm_scaled_close(tiny_ctx *ctx, tllm_scaled *s);         /* takes NULL */
TINY_API tllm_scaled_about tllm_scaled_what(const tllm_scaled *s);
TINY_API tllm_folds *tllm_scaled_folds(tllm_scaled *s);                 /* with their factors */
TINY_API tiny_status tllm_scaled_put(tiny_ctx *ctx, tllm_scaled *s, tllm_writer *w);

TINYI_C_END
#endif
