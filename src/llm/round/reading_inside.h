/* src/llm/round/reading_inside.h - inside GPTQ, AWQ and SmoothQuant of models: a model that reads a text under a watch
 *
 * The model runs in its own context, with the allocator, threads and target of the caller's context and the hook of a
 * watch. The text is read in independent windows. */
#ifndef TINYI_READING_H
#define TINYI_READING_H
#include "llm/model/model.h"
#include "llm/round/watch.h"
TINYI_C_BEGIN

typedef struct tinyi_reading {
    const char *what;                       /* prefix of messages, and the name passed to progress */
    tiny_ctx *ctx, *run;                    /* run: the context of the model */
    tllm_watch *watch;
    tllm_model *model;
    tllm_state *state;
    tllm_about about;
    const int32_t *token;
    tiny_idx n_token, window;
    float *out;                             /* logits of a window; NULL until they are needed */
    double done, part;                      /* shares of the whole work: finished, in this part */
} tinyi_reading;

/* r: what, ctx, token, n_token and window (0: 512, or the model's context if shorter) are set, all else is 0. Messages
 * are in ctx. */
TINYI_FN tiny_status tinyi_reading_open(tinyi_reading *r, const tllm_gguf *file);
TINYI_FN void tinyi_reading_close(tinyi_reading *r);        /* also a partly built one */
/* Reads the text once; logits: the last matrix is multiplied too. share: the share of this part that it makes up. */
TINYI_FN tiny_status tinyi_reading_run(tinyi_reading *r, int logits, double share);
TINYI_FN void tinyi_reading_told(const tinyi_reading *r, double share);     /* reports progress of this part */
/* Readings for n tensors, which lie step bytes apart from first on: one for as many layers as have room bytes of
 * statistics with products, or each_layer for a layer. After a reading one(user, k) is called for each tensor k of it,
 * in the order of the layers; it may replace the tensor in r->watch for later readings. */
TINYI_FN tiny_status tinyi_reading_passes(tinyi_reading *r, const tllm_gguf_tensor *const *first, size_t step, size_t n,
                                          size_t room, int each_layer, tiny_status (*one)(void *user, size_t k),
                                          void *user);

/* blk.N.: N; what belongs to no layer comes last: UINT32_MAX */
TINYI_FN uint32_t tinyi_reading_layer_of(tllm_text name);
TINYI_FN tiny_idx tinyi_reading_matrices(const tllm_gguf_tensor *t);
/* numbers 0 to n - 1 by the layers of their tensors, which lie step bytes apart from first on; in their order within
 * one. order, key: (n) */
TINYI_FN void tinyi_reading_order(const tllm_gguf_tensor *const *first, size_t step, size_t n, uint32_t *order,
                                  uint32_t *key);

TINYI_C_END
#endif
