/* src/llm/sample/sample.h - from logits to the next token
 *
 * A sampler is a chain of steps in the caller's order. Each step removes candidates or changes their logits. The token
 * is drawn from the candidates left after the last step, in proportion to exp(logit).
 *
 *     tllm_step chain[3];
 *     chain[0] = tllm_step_penalties(64, 1.1f, 0.0f, 0.0f);
 *     chain[1] = tllm_step_min_p(0.05f);
 *     chain[2] = tllm_step_temperature(0.8f);
 *     tllm_sampler_open(ctx, chain, 3, n_vocab, seed, &sampler);
 *     ... tllm_sample(sampler, logits, &token); tllm_sampler_accept(sampler, token); ...
 *     tllm_sampler_close(sampler);
 *
 * An empty chain draws from the plain softmax. A chain that ends in tllm_step_greedy() makes no random draw. The same
 * logits, chain and seed give the same tokens on every machine. Ties go to the lower token number.
 *
 *   step            tokens that it keeps, or change of the logits                               no effect at
 *   greedy          only the largest logit
 *   temperature     logit / t; t = 0: greedy                                                    1
 *   top_k           the k largest                                                               0
 *   top_p           the fewest whose probabilities reach p                    (nucleus)         1
 *   min_p           those of at least p times the largest probability                           0
 *   typical         the fewest closest to the entropy that reach p            (locally typical) 1
 *   top_n_sigma     logits within n standard deviations of the largest                          0
 *   xtc             with a chance, drops all but the least likely of those above a threshold    chance 0
 *   penalties       logit / repeat (times if negative) - count * frequency - presence           1, 0, 0
 *   dry             - multiplier * base^(length - allowed) for a token that extends a repetition 0
 *   bias            logit + b for listed tokens; -infinity bans one
 *   filter          keeps the tokens that a callback allows (grammars)
 *   mirostat        holds the surprise of a text at tau bits; 1: Zipf estimate of a k, 2: a cut by surprise
 *
 * Papers: nucleus, Holtzman et al., ICLR 2020; typical, Meister et al., TACL 2023; mirostat, Basu et al., ICLR 2021;
 * min-p, Nguyen et al., ICLR 2025; top-n-sigma, Tang et al., 2024; penalties, Keskar et al. (CTRL), 2019. */
#ifndef TINYI_SAMPLE_H
#define TINYI_SAMPLE_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tllm_step_kind {
    TLLM_STEP_GREEDY, TLLM_STEP_TEMPERATURE, TLLM_STEP_TOP_K, TLLM_STEP_TOP_P, TLLM_STEP_MIN_P, TLLM_STEP_TYPICAL,
    TLLM_STEP_TOP_N_SIGMA, TLLM_STEP_XTC, TLLM_STEP_PENALTIES, TLLM_STEP_DRY, TLLM_STEP_BIAS, TLLM_STEP_FILTER,
    TLLM_STEP_MIROSTAT_1, TLLM_STEP_MIROSTAT_2, TLLM_STEP_COUNT
} tllm_step_kind;

typedef struct tllm_bias { int32_t token; float add; } tllm_bias;

typedef struct tllm_step {                  /* made by the functions below */
    tllm_step_kind kind;
    float x[3];
    int32_t n;                              /* k, a window of the text, or the length of bias */
    int32_t allowed;
    const tllm_bias *bias;                  /* bias and breakers belong to the caller */
    const int32_t *breakers;
    int (*allow)(void *user, int32_t token);
    void *user;
} tllm_step;

TINY_API tllm_step tllm_step_greedy(void);
TINY_API tllm_step tllm_step_temperature(float t);
TINY_API tllm_step tllm_step_top_k(int32_t k);
TINY_API tllm_step tllm_step_top_p(float p);
TINY_API tllm_step tllm_step_min_p(float p);
TINY_API tllm_step tllm_step_typical(float p);
TINY_API tllm_step tllm_step_top_n_sigma(float n);
TINY_API tllm_step tllm_step_xtc(float chance, float threshold);
/* penalizes the tokens among the last n_last accepted ones; -1: all accepted tokens */
TINY_API tllm_step tllm_step_penalties(int32_t n_last, float repeat, float frequency, float presence);
/* breakers: tokens at which a repetition ends (line ends, quotes ...) */
TINY_API tllm_step tllm_step_dry(int32_t n_last, float multiplier, float base, int32_t allowed, const int32_t *breakers,
                                 int32_t n_breakers);
TINY_API tllm_step tllm_step_bias(const tllm_bias *bias, int32_t n);
TINY_API tllm_step tllm_step_filter(int (*allow)(void *user, int32_t token), void *user);
TINY_API tllm_step tllm_step_mirostat_1(float tau, float eta);
TINY_API tllm_step tllm_step_mirostat_2(float tau, float eta);

typedef struct tllm_sampler tllm_sampler;

/* Copies the chain. The lists of bias and breakers are not copied: they must outlive the sampler, and so must ctx. All
 * memory is allocated here. Only a step with n_last -1 allocates more later: its stored text grows by doubling. One
 * thread at a time may use a sampler. */
TINY_API tiny_status tllm_sampler_open(tiny_ctx *ctx, const tllm_step *chain, size_t n_steps, int32_t n_vocab,
                                       uint64_t seed, tllm_sampler **out);
TINY_API void tllm_sampler_close(tllm_sampler *s);          /* s may be NULL */
/* Draws a token; call tllm_sampler_accept if you use it. logits: n_vocab values, unchanged. Fails if a logit is NaN or
 * +infinity, or if no candidate is left. */
TINY_API tiny_status tllm_sample(tllm_sampler *s, const float *logits, int32_t *token);
/* Appends the token to the text that penalties and dry look back at. Accept the tokens of the prompt too. */
TINY_API tiny_status tllm_sampler_accept(tllm_sampler *s, int32_t token);
/* Returns to the state after open: no text, and the random numbers start again at the seed. */
TINY_API void tllm_sampler_reset(tllm_sampler *s);

/* The i-th most probable candidate left by the last tllm_sample. Returns 0 if i is past the end. */
TINY_API int tllm_sampler_left(tllm_sampler *s, size_t i, int32_t *token, double *probability);

/* Natural logarithms of probabilities, log(softmax(logits)): of the k most probable tokens, most probable first
 * (tokens, logprobs: room for k), and of one token. */
TINY_API tiny_status tllm_logprobs(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t k, int32_t *tokens,
                                   double *logprobs);
TINY_API tiny_status tllm_logprob(tiny_ctx *ctx, const float *logits, int32_t n_vocab, int32_t token, double *logprob);

/* ---- inside: what the bodies share ---- */

/* the checks of tllm_sampler_open alone */
TINYI_FN tiny_status tinyi_sampler_check(tiny_ctx *ctx, const tllm_step *chain, size_t n_steps, int32_t n_vocab);

TINYI_C_END
#endif
