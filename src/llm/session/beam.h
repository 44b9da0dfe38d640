/* src/llm/session/beam.h - several continuations of one prompt, computed side by side
 *
 *     tllm_state_desc d = { 0 };  d.n_seq = 4;
 *     tllm_session_open(ctx, "model.gguf", &d, &s);
 *     tllm_beam_desc b = { 0 };   b.width = 4;  b.n_best = 2;  b.n_most = 40;
 *     tllm_beam(s, prompt, n, &b, best, &found);           best[0].token, best[0].score
 *     tllm_continuations_free(ctx, best, found);
 *
 * The prompt is computed once; its pages are shared by all continuations, and each step is one pass over the weights
 * for all.
 * Both use sequences 0 .. width - 1 of the session's state, and leave all sequences of the state empty. A cancel ends
 * the call with TINY_E_CANCELLED and no continuations. */
#ifndef TINYI_BEAM_H
#define TINYI_BEAM_H
#include "llm/session/session.h"
TINYI_C_BEGIN

typedef struct tllm_continuation {
    int32_t *token;                         /* without the prompt, and without the end of the text */
    size_t n;
    double logp;                            /* natural logarithm of its probability, the end of the text included */
    double score;                           /* what it was ranked by */
    int ended;                              /* the model ended its text */
} tllm_continuation;
TINY_API void tllm_continuations_free(tiny_ctx *ctx, tllm_continuation *list, size_t n);

typedef struct tllm_beam_desc {
    size_t width;                           /* partial texts that are kept; 0: 4 */
    size_t n_best;                          /* texts wanted; 0: 1, at most width */
    size_t n_most;                          /* tokens of a text; 0: 64 */
    double length_penalty;                  /* score = logp / tokens^length_penalty; 0: the probability alone */
} tllm_beam_desc;
/* The n_best texts of highest score that the search meets, the best first. out: room for n_best. */
TINY_API tiny_status tllm_beam(tllm_session *s, const int32_t *prompt, size_t n, const tllm_beam_desc *desc,
                               tllm_continuation *out, size_t *n_found);

typedef struct tllm_parallel_desc {
    size_t n_texts;                         /* 0: 1 */
    size_t n_most;                          /* tokens of a text; 0: 64 */
    const tllm_step *chain;                 /* NULL: temperature 1 */
    size_t n_steps;
    uint64_t seed;                          /* text i draws with seed + i */
} tllm_parallel_desc;
/* Texts drawn independently of each other: text i is drawn with seed + i, as tllm_generate_tokens draws it alone. It is
 * the same text on the reference, whose logits do not depend on what is computed beside them. Elsewhere sums are taken
 * in another order, and in block formats activations may be rounded to 8 bits for few rows and not for many
 * (docs/guide/limits.md has figures): where two tokens stand close, a text may part from that one. */
TINY_API tiny_status tllm_parallel(tllm_session *s, const int32_t *prompt, size_t n, const tllm_parallel_desc *desc,
                                   tllm_continuation *out);

TINYI_C_END
#endif
