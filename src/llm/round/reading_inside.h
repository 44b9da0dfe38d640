/* src/llm/round/reading_inside.h - inside GPTQ, AWQ and SmoothQuant of models: a model that reads a text under a watch
 *
 * The model runs in a context of its own, with the allocator, threads and target of the caller's and the hook of a
 * watch; the text is read in windows that do not see each other. */
#ifndef TINYI_READING_H
#define TINYI_READING_H
#include "llm/model/model.h"
#include "llm/round/watch.h"
TINYI_C_BEGIN

typedef struct tinyi_reading {
    const char *what;                       /* stands before sentences, and is what progress is told */
    tiny_ctx *ctx, *run;                    /* run: of the model */
    tllm_watch *watch;
    tllm_model *model;
    tllm_state *state;
    tllm_about about;
    const int32_t *token;
    tiny_idx n_token, window;
    float *out;                             /* logits of a window, once they were wanted */
    double done, part;                      /* of the whole work: behind us, in this part */
} tinyi_reading;

/* r: what, ctx, token, n_token and window (0: 512, or what the model was made for) are filled in, all else is 0.
 * Sentences are in ctx. */
TINYI_FN tiny_status tinyi_reading_open(tinyi_reading *r, const tllm_gguf *file);
TINYI_FN void tinyi_reading_close(tinyi_reading *r);        /* a half-built one too */
/* The text once; logits: the last matrix is multiplied too. share: of this part that the reading is. */
TINYI_FN tiny_status tinyi_reading_run(tinyi_reading *r, int logits, double share);
TINYI_FN void tinyi_reading_told(const tinyi_reading *r, double share);     /* so much of this part is done */

/* blk.N.: N; what belongs to no layer comes last: UINT32_MAX */
TINYI_FN uint32_t tinyi_reading_layer_of(tllm_text name);
TINYI_FN tiny_idx tinyi_reading_matrices(const tllm_gguf_tensor *t);
/* numbers 0 to n - 1 by the layers of their tensors, which lie step bytes apart from first on; in their order within
 * one. order, key: (n) */
TINYI_FN void tinyi_reading_order(const tllm_gguf_tensor *const *first, size_t step, size_t n, uint32_t *order,
                                  uint32_t *key);

TINYI_C_END
#endif
