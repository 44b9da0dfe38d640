/* src/llm/serve/speculate.h - a draft proposes the next tokens, and one pass over the model checks all of them
 *
 * Papers  Y. Leviathan et al., "Fast inference from transformers via speculative decoding", ICML 2023;
 *         C. Chen et al., "Accelerating large language model decoding with speculative sampling", 2023.
 *
 *   tllm_draft_desc d;
 *   tllm_draft *draft;
 *   memset(&d, 0, sizeof d);
 *   d.model = small;                               a session of a smaller model with the same vocabulary;
 *                                                  NULL: repetitions in the text itself are proposed
 *   tllm_draft_open(session, &d, &draft);
 *   how.draft = draft;                             how: a tllm_generate_desc
 *   tllm_generate(session, prompt, n, &how, NULL);
 *   tllm_draft_close(draft);
 *
 * A pass over k + 1 tokens reads the weights once. Where reading them is the limit, it takes little longer than a pass
 * over one token, and yields up to k + 1 tokens of the text. The draft measures both, and how many proposals are kept.
 * It proposes as many tokens as gain the most time, or none where that is faster.
 *
 * Let p be the distribution of the next token after all samplers, and q that of the draft.
 *
 *   TLLM_DRAFT_SAME  A proposal is kept if the sampler draws the same token. So the text is the one without a draft,
 *                    also with a seed, a grammar or penalties, as far as a pass over several tokens gives the logits of
 *                    single passes: to the bit on TINY_TARGET_REFERENCE and with tllm_state_desc.exact; otherwise the
 *                    kernels for several rows round differently. The draft proposes its most probable token
 *                    x, which is kept with probability p(x).
 *   TLLM_DRAFT_MOST  The draft draws x, which is kept with probability min(1, p(x) / q(x)). If it is refused, the token
 *                    is drawn in proportion to max(p - q, 0). Every token then has the distribution p, and more
 *                    proposals are kept: sum min(p, q) of them. But the text is another one than without a draft, and
 *                    the same seed gives the same text only with `always`, because otherwise clocks decide how much is
 *                    proposed. Grammars, greedy texts and drafts without a model use TLLM_DRAFT_SAME.
 *
 * Models with recurrent layers cannot take back a refused token: tllm_draft_open returns TINY_E_UNSUPPORTED.
 * Several candidates for each place: llm/serve/speculate_tree.h. A draft whose layers run side by side:
 * llm/serve/easyspec.h. */
#ifndef TINYI_SPECULATE_H
#define TINYI_SPECULATE_H
#include "llm/session/session.h"
TINYI_C_BEGIN

#define TLLM_DRAFT_TOKENS 32                /* the most that are proposed at once */

typedef enum tllm_draft_rule { TLLM_DRAFT_SAME, TLLM_DRAFT_MOST } tllm_draft_rule;

typedef struct tllm_draft_desc {            /* all zero: repetitions in the text are proposed */
    tllm_session *model;                    /* not the session of the text. Its tokens are replaced */
    int n;                                  /* most tokens proposed at once; 0: 4 with a model, 8 without */
    tllm_draft_rule rule;
    int always;                             /* nonzero: proposes n tokens each time, also where that loses time */
    /* without a model: what followed the last earlier place with the same last tokens, at least this many; 0: 2 */
    int match;
} tllm_draft_desc;

typedef struct tllm_draft_counts {
    uint64_t passes, proposed, kept;        /* passes over the model; tokens of the draft */
    double draft_seconds, pass_seconds;
} tllm_draft_counts;

/* s and desc->model must outlive the draft, and both must have the same vocabulary. desc may be NULL. On failure *out
 * is NULL. */
TINY_API tiny_status tllm_draft_open(tllm_session *s, const tllm_draft_desc *desc, tllm_draft **out);
TINY_API void tllm_draft_close(tllm_draft *draft);          /* takes NULL */
/* since the open */
TINY_API void tllm_draft_count(const tllm_draft *draft, tllm_draft_counts *out);

/* The time without a draft divided by the time with n proposals a pass, if each is kept with probability keep and one
 * step of the draft takes `cost` of a pass: (1 - keep^(n + 1)) / (1 - keep) / (n cost + 1). */
TINY_API double tllm_draft_gain(double keep, int n, double cost);

/* The rule of TLLM_DRAFT_MOST for one proposal. token, p (n): the candidates of the model and their probabilities,
 * which the call changes. q: the probabilities that the draft gives to all tokens of the vocabulary; x: its proposal. u
 * and v: drawn uniformly from [0, 1). Returns x, or the token that takes its place; -1 if p exceeds q nowhere. */
TINY_API int32_t tllm_draft_choose(const int32_t *token, double *p, size_t n, const double *q, int32_t x, double u,
                                   double v);

TINYI_C_END
#endif
