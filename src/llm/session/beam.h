/* src/llm/session/beam.h - several continuations of one prompt, computed together
 *
 *     tllm_state_desc d = { 0 };  d.n_seq = 4;
 *     tllm_session_open(ctx, "model.gguf", &d, &s);
 *     tllm_beam_desc b = { 0 };   b.width = 4;  b.n_best = 2;  b.n_most = 40;
 *     tllm_beam(s, prompt, n, &b, best, &found);           best[0].token, best[0].score
 *     tllm_continuations_free(ctx, best, found);
 *
 * The prompt is computed once. All continuations share its pages, and each step reads the weights once for all of
 * them.
 * Both calls use sequences 0 .. width - 1 of the session's state and leave every sequence of the state empty. A cancel
 * ends the call with TINY_E_CANCELLED and no continuations. */
#ifndef TINYI_BEAM_H
#define TINYI_BEAM_H
#include "llm/session/session.h"
TINYI_C_BEGIN

typedef struct tllm_continuation {
    int32_t *token;                         /* without the prompt and without the end token */
    size_t n;
    double logp;                            /* natural logarithm of the text's probability, end token included */
    double score;                           /* the rank: logp / tokens^length_penalty */
    int ended;                              /* nonzero: the model ended the text */
} tllm_continuation;
TINY_API void tllm_continuations_free(tiny_ctx *ctx, tllm_continuation *list, size_t n);

typedef struct tllm_beam_desc {
    size_t width;                           /* partial texts kept at each step; 0: 4 */
    size_t n_best;                          /* texts returned, at most width; 0: 1 */
    size_t n_most;                          /* most tokens of a text; 0: 64 */
    double length_penalty;                  /* score = logp / tokens^length_penalty; 0: ranked by logp */
} tllm_beam_desc;
/* Returns the n_best texts with the highest scores, best first. out: room for n_best; free them with
 * tllm_continuations_free. */
TINY_API tiny_status tllm_beam(tllm_session *s, const int32_t *prompt, size_t n, const tllm_beam_desc *desc,
                               tllm_continuation *out, size_t *n_found);

typedef struct tllm_parallel_desc {
    size_t n_texts;                         /* 0: 1 */
    size_t n_most;                          /* most tokens of a text; 0: 64 */
    const tllm_step *chain;                 /* NULL: temperature 1 */
    size_t n_steps;
    uint64_t seed;                          /* text i draws with seed + i */
} tllm_parallel_desc;
/* Draws n_texts independent texts into out (room for n_texts; free them with tllm_continuations_free). Text i uses
 * seed + i, like a single tllm_generate_tokens with that seed. On the reference the two texts are equal. On other
 * targets the sums are ordered differently, and block formats may round activations to 8 bits for few rows but not for
 * many (docs/guide/limits.md has figures). The texts may then differ where two tokens are almost equally likely. */
TINY_API tiny_status tllm_parallel(tllm_session *s, const int32_t *prompt, size_t n, const tllm_parallel_desc *desc,
                                   tllm_continuation *out);

TINYI_C_END
#endif
