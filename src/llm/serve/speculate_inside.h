/* src/llm/serve/speculate_inside.h - what chains and trees of proposals share */
#ifndef TINYI_SPECULATE_INSIDE_H
#define TINYI_SPECULATE_INSIDE_H
#include "llm/serve/speculate.h"
#include "llm/session/session_inside.h"
#include "llm/model/model_inside.h"
TINYI_C_BEGIN

/* after so many passes without proposals they are tried again, then after twice as many, up to the second number */
#define TINYI_DRAFT_TRY 32u
#define TINYI_DRAFT_TRY_MOST 1024u

TINYI_FN double tinyi_draft_clock(void);    /* seconds */
/* Fails unless the tokens of both mean the same texts. */
TINYI_FN tiny_status tinyi_draft_vocab(tllm_session *s, const tllm_session *m);
/* *out: the desc with its defaults, checked */
TINYI_FN tiny_status tinyi_draft_desc(tllm_session *s, const tllm_draft_desc *desc, tllm_draft_desc *out);
/* Of the chain of a text, what needs no text and no caller, because that would have to be taken back. own: room for
 * TLLM_DRAFT_TOKENS steps; returns their number. *draws: the text is drawn, by steps without a memory. */
TINYI_FN size_t tinyi_draft_chain(const tllm_step *chain, size_t n_steps, tllm_step *own, int *draws);
/* Which order of its layers a draft takes: the faster one. t: seconds of a step in its own and in the other order. */
typedef struct tinyi_draft_pick { unsigned round; double t[2]; } tinyi_draft_pick;
/* For the next proposals: 1 for the other order. Both are tried from time to time, unless always is set. */
TINYI_FN int tinyi_draft_choose(tinyi_draft_pick *p, const tllm_session *m, int always);
TINYI_FN void tinyi_draft_took(tinyi_draft_pick *p, int other, double seconds);
/* Passes of the draft from here on take the other order of its layers, if it has one (easyspec.h), or its own. */
TINYI_FN void tinyi_draft_order(tllm_session *m, int on);
/* The draft reads the text t (held) in the order of its layers. *exact: the tokens that it has read so before, and
 * afterwards; the others are dropped first. */
TINYI_FN tiny_status tinyi_draft_read(tllm_session *m, const int32_t *t, size_t held, size_t *exact,
                                      const float **logits);

TINYI_C_END
#endif
