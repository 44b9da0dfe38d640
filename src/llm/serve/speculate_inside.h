/* src/llm/serve/speculate_inside.h - what chains and trees of proposals share */
#ifndef TINYI_SPECULATE_INSIDE_H
#define TINYI_SPECULATE_INSIDE_H
#include "core/rng.h"
#include "llm/serve/speculate.h"
#include "llm/session/session_inside.h"
#include "llm/model/model_inside.h"
TINYI_C_BEGIN

/* After TRY passes with proposals, one without is timed. Where proposals lose, they are tried again after TRY passes
 * without them, then after twice as many, up to TRY_MOST. */
#define TINYI_DRAFT_TRY 32u
#define TINYI_DRAFT_TRY_MOST 1024u

/* Which order of its layers a draft takes: the faster one. t: seconds of a step in its own and in the other order. */
typedef struct tinyi_draft_pick { unsigned round; double t[2]; } tinyi_draft_pick;

/* Does the next pass get proposals? */
typedef enum tinyi_draft_next {
    TINYI_DRAFT_AS_MEASURED,                /* if they have gained time so far */
    TINYI_DRAFT_PROPOSE,                    /* yes: nothing is known, or they are tried again */
    TINYI_DRAFT_PLAIN                       /* no: a pass without them is timed */
} tinyi_draft_next;
typedef struct tinyi_draft_pace {
    double plain;                           /* seconds of a pass over one token; 0: not measured */
    unsigned with, without, patience;       /* passes in a row with and without proposals; passes until a new trial */
} tinyi_draft_pace;

/* the first member of either draft */
typedef struct tinyi_draft_base {
    tllm_draft calls;                       /* first: what tllm_generate sees */
    tiny_ctx *ctx;
    tllm_session *s;
    tllm_draft_desc d;
    size_t n_vocab;
    size_t exact;                           /* tokens of the draft that were computed in the order of its layers */
    tinyi_draft_pick pick;
    tinyi_draft_pace pace;
    float *rows;                            /* (rows, n_vocab) logits of a pass over the model */
    tllm_sampler *sampler;                  /* of the draft */
    tiny_rng rng;
    /* TLLM_DRAFT_MOST: what proposals are drawn from, (slots, n_vocab) and q_n of them; dense (n_vocab): one of these
     * by token, zero between calls; p_token, p (n_vocab): candidates of the model */
    int weighs;
    int32_t *q_token, *p_token;
    double *q, *dense, *p;
    size_t q_n[TLLM_DRAFT_TOKENS + 1];
    tllm_draft_counts count;
} tinyi_draft_base;

/* For the open calls: *out is the desc with its defaults, checked. */
TINYI_FN tiny_status tinyi_draft_desc(tllm_session *s, const tllm_draft_desc *desc, tllm_draft_desc *out);
/* The memory that both kinds need, for a base of zeros. After a failure too the base is to be emptied. */
TINYI_FN tiny_status tinyi_draft_fill(tinyi_draft_base *b, tllm_session *s, const tllm_draft_desc *d, size_t rows,
                                      size_t slots);
TINYI_FN void tinyi_draft_empty(tinyi_draft_base *b);
/* A new text. stream: of its random numbers. greedy: the draft needs a sampler where it does not draw, too. */
TINYI_FN tiny_status tinyi_draft_start(tinyi_draft_base *b, const tllm_session *s, const tllm_step *chain,
                                       size_t n_steps, uint64_t seed, int guided, uint64_t stream, int greedy);
/* The candidates that the draft's sampler has left become slot `slot`. */
TINYI_FN void tinyi_draft_keep(tinyi_draft_base *b, size_t slot);
/* Before the rule: p_token and p hold the *n candidates of the model, dense the slot. After it: dense is zero again. */
TINYI_FN void tinyi_draft_weigh(tinyi_draft_base *b, size_t slot, tllm_sampler *sampler, size_t *n);
TINYI_FN void tinyi_draft_weighed(tinyi_draft_base *b, size_t slot);

/* Texts of the tokens of the draft m must mean the same to the model of s: about, vocab, and ctx of s. */
TINYI_FN tiny_status tinyi_draft_vocab(tllm_session *s, const tllm_session *m);
/* What followed the last earlier place with the same end of the text, the longest that is found: up to 3 tokens more
 * than must agree. The text is t (n), n > 0; x: room for `most`. Returns how many were found. */
TINYI_FN size_t tinyi_draft_repeat(const int32_t *t, size_t n, size_t match, int32_t *x, size_t most);

TINYI_FN double tinyi_draft_clock(void);    /* seconds */
/* *mean becomes a mean of the times so far. It falls faster than it rises, because other programs only make passes
 * slower. */
TINYI_FN void tinyi_draft_time(double *mean, double seconds);
TINYI_FN tinyi_draft_next tinyi_draft_turn(tinyi_draft_pace *p);
TINYI_FN void tinyi_draft_gained(tinyi_draft_pace *p);      /* the measured times speak for proposals */
/* A pass is over. proposed: with how many proposals. seconds: of the pass. */
TINYI_FN void tinyi_draft_passed(tinyi_draft_base *b, size_t proposed, double seconds);

/* For the next proposals: 1 for the other order. Both are tried from time to time, unless always is set. */
TINYI_FN int tinyi_draft_other(tinyi_draft_base *b);
TINYI_FN void tinyi_draft_took(tinyi_draft_pick *p, int other, double seconds);
/* Passes of the draft from here on take the other order of its layers, if it has one (easyspec.h), or its own. */
TINYI_FN void tinyi_draft_order(tllm_session *m, int on);
/* The draft reads the text t (held) in the order of its layers. b->exact: the tokens that it has read so before, and
 * afterwards; the others are dropped first. *fresh: the tokens that were computed. */
TINYI_FN tiny_status tinyi_draft_read(tinyi_draft_base *b, const int32_t *t, size_t held, const float **logits,
                                      size_t *fresh);

TINYI_C_END
#endif
