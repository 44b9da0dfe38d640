/* src/llm/lab/nets/rank.h - how well a ranking agrees with another one; a search that evaluates only what a cheap score
 * finds promising
 *
 *     tllm_rank_spearman(ctx, score, accuracy, n, &rho);
 *
 *     tllm_search_desc d = { 0 };                         llm/lab/nets/proxy.h has cheap scores of networks
 *     d.n_place = 3; d.n_option = options; d.cheap = score_of; d.exact = accuracy_of;
 *     tllm_search(ctx, &d, best, &accuracy); */
#ifndef TINYI_LLM_RANK_H
#define TINYI_LLM_RANK_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* Spearman's rho and Kendall's tau-b of n pairs, at least 2; equal numbers share their mean rank. NaN is an error, and
 * a list in which all numbers are equal. Kendall takes time n^2. */
TINY_API tiny_status tllm_rank_spearman(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *rho);
TINY_API tiny_status tllm_rank_kendall(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *tau);

/* ---- search: candidates are lists of choices, and only the most promising of each batch is evaluated */
typedef enum tllm_search_kind { TLLM_SEARCH_RANDOM, TLLM_SEARCH_EVOLUTION, TLLM_SEARCH_REINFORCE } tllm_search_kind;
#define TLLM_SEARCH_PLACES 64
typedef struct tllm_search_desc {           /* zero: the value in brackets */
    int kind;
    int n_place;                            /* 1 to TLLM_SEARCH_PLACES; a candidate is choice[0 .. n_place - 1] */
    const int *n_option;                    /* choice[i] is 0 .. n_option[i] - 1 */
    /* cheap: a proxy; NULL: none, each candidate is evaluated. exact: training. A failure ends the search. */
    tiny_status (*cheap)(void *user, const int *choice, double *score);
    tiny_status (*exact)(void *user, const int *choice, double *score);
    void *user;
    int per_step;                           /* candidates that are scored for each that is evaluated [100] */
    int steps;                              /* evaluations [10] */
    int population;                         /* EVOLUTION: the youngest that may be parents [10] */
    double rate;                            /* REINFORCE [0.5] */
    uint64_t seed;
} tllm_search_desc;
/* best (n_place) and *score: the best of those that were evaluated.
 *   RANDOM     candidates are drawn uniformly
 *   EVOLUTION  a candidate is the better of two parents with one place drawn again; the first batches are random
 *   REINFORCE  candidates are drawn from softmax(p[place]). After an evaluation p += rate (score - mean of the scores
 *              so far) (chosen - softmax(p)), where chosen is 1 at the choice and 0 elsewhere */
TINY_API tiny_status tllm_search(tiny_ctx *ctx, const tllm_search_desc *desc, int *best, double *score);

TINYI_C_END
#endif
