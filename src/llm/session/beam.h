/* src/llm/session/beam.h - several continuations of one prompt, computed together: beam search and parallel sampling
 *
 *     tllm_continuation best[2];
 *     size_t found;
 *     tllm_state_desc d = { 0 };  d.n_seq = 4;
 *     tllm_session_open(ctx, "model.gguf", &d, &s);
 *     tllm_beam_desc b = { 0 };   b.width = 4;  b.n_best = 2;  b.n_most = 40;
 *     tllm_beam(s, prompt, n, &b, best, &found);           best[0].token, best[0].score
 *     tllm_continuations_free(ctx, best, found);
 *
 * The prompt is computed once, and all continuations share its keys and values. Each step reads the weights once for
 * all of them. tllm_beam and tllm_parallel use one sequence of the session's state for each text, from sequence 0 on:
 * open the session with that many (n_seq). They leave every sequence of the state empty. After a failure there is
 * nothing to free. A cancel counts as a failure: TINY_E_CANCELLED. */
#ifndef TINYI_BEAM_H
#define TINYI_BEAM_H
#include "llm/session/session.h"
TINYI_C_BEGIN

typedef struct tllm_continuation {
    int32_t *token;                         /* without the prompt and without the end token */
    size_t n;
    double logp;                            /* natural logarithm of the text's probability, end token included */
    double score;                           /* the texts are ranked by this: logp / tokens^length_penalty */
    int ended;                              /* nonzero: the model ended the text */
} tllm_continuation;
/* Frees the tokens of n texts. The array itself belongs to the caller. */
TINY_API void tllm_continuations_free(tiny_ctx *ctx, tllm_continuation *list, size_t n);

typedef struct tllm_beam_desc {
    size_t width;                           /* partial texts kept at each step; 0: 4 */
    size_t n_best;                          /* texts returned, at most width; 0: 1 */
    size_t n_most;                          /* most tokens of a text; 0: 64 */
    double length_penalty;                  /* score = logp / tokens^length_penalty; 0: ranked by logp */
} tllm_beam_desc;
/* Writes the n_best texts with the highest scores to out, best first. out: room for n_best; *n_found: the number of
 * texts written. Free them with tllm_continuations_free. desc may be NULL. */
TINY_API tiny_status tllm_beam(tllm_session *s, const int32_t *prompt, size_t n, const tllm_beam_desc *desc,
                               tllm_continuation *out, size_t *n_found);

typedef struct tllm_parallel_desc {
    size_t n_texts;                         /* 0: 1 */
    size_t n_most;                          /* most tokens of a text; 0: 64 */
    const tllm_step *chain;                 /* NULL: temperature 1 */
    size_t n_steps;
    uint64_t seed;                          /* text i draws with seed + i */
} tllm_parallel_desc;
/* Draws n_texts independent texts into out (room for n_texts; free them with tllm_continuations_free). desc may be
 * NULL. Text i is drawn like the text of a tllm_generate_tokens with the seed seed + i. On the reference target the two
 * texts are equal. On other targets they may differ where two tokens are almost equally likely, because one row and
 * many rows are computed by different kernels (docs/guide/limits.md has figures). */
TINY_API tiny_status tllm_parallel(tllm_session *s, const int32_t *prompt, size_t n, const tllm_parallel_desc *desc,
                                   tllm_continuation *out);

TINYI_C_END
#endif
