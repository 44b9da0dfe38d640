/* src/llm/serve/speculate_tree.h - a draft proposes a tree of tokens, and one pass over the model checks all its paths
 *
 * Papers  X. Miao et al., "SpecInfer", ASPLOS 2024 (arXiv 2305.09781): token trees and their verification in one pass;
 *         Y. Leviathan et al., 2023 (arXiv 2211.17192): the rule for one proposal, which is applied to each candidate.
 *
 *   tllm_draft_tree_size size;
 *   tllm_draft_tree_sizes(4, 2, 0, &size);                four levels, two candidates after each token
 *   model.n_seq = size.n_seq;                             the tllm_state_desc of both sessions
 *   small.n_seq = size.n_seq_draft;
 *   d.model = small_session; d.n = 4;                     d: a tllm_draft_desc
 *   tllm_draft_tree_open(session, &d, 2, 0, &draft);      then as with tllm_draft_open
 *
 * A chain ends with its first refused token. A tree has other candidates for that place: after each of its tokens the
 * draft proposes `width` of them. A level of the tree is one pass over the draft, with the paths in sequences of its
 * state. A tree has at most `most` tokens. If not all tokens of a level can get candidates, those with the most
 * probable paths do: with most = levels * width these are the tokens of one path.
 *
 * In the pass over the model, a token sees the text and the tokens on its own path. Every path is a sequence of the
 * state that shares the pages of the text, so the masks are those of tree attention (llm/attention/tree.h). A token
 * that belongs to several paths is computed once; its keys and values are written into each of them.
 *
 * Both rules hold, as with a chain. TLLM_DRAFT_SAME: the text is the one without a draft. The draft proposes its
 * `width` most probable tokens, and one of them is kept if the sampler draws it. TLLM_DRAFT_MOST: the candidates are
 * drawn from the draft without replacement, and tllm_draft_tree_choose decides; each token has the distribution of the
 * model. */
#ifndef TINYI_SPECULATE_TREE_H
#define TINYI_SPECULATE_TREE_H
#include "llm/serve/speculate.h"
TINYI_C_BEGIN

typedef struct tllm_draft_tree_size {
    int n_node, n_leaf;                     /* most tokens and paths */
    int parents[TLLM_DRAFT_TOKENS];         /* of level 1, 2, ...: the most tokens before it that get candidates */
    tiny_idx n_seq, n_seq_draft;            /* sequences that the states of the model and of the draft need */
    tiny_idx n_more, n_more_draft;          /* tokens that they need besides the context, in pages of 16: n_cells */
} tllm_draft_tree_size;
/* levels and width: 1 to TLLM_DRAFT_TOKENS; most: the same, or 0 for TLLM_DRAFT_TOKENS. Returns 0 for other numbers. */
TINY_API int tllm_draft_tree_sizes(int levels, int width, int most, tllm_draft_tree_size *out);

/* desc: as in tllm_draft_open, with a model; n: levels, 0: 4. width 0: 2. Sequences 1 and up of both sessions are used
 * and must be empty. Also TINY_E_UNSUPPORTED: with an accelerator, and for models whose layers are not attention over
 * pages. */
TINY_API tiny_status tllm_draft_tree_open(tllm_session *s, const tllm_draft_desc *desc, int width, int most,
                                          tllm_draft **out);

/* The rule of TLLM_DRAFT_MOST for several candidates. token, p (n): what the model may draw and its probabilities. q:
 * the probabilities that the draft gives to all tokens of the vocabulary. x (n_x): the candidates, in the order in
 * which they were drawn from q without replacement. The call changes p and q. u (n_x) and v: drawn uniformly from [0,
 * 1). Returns one of x, or the token that takes their place; -1 if p exceeds q nowhere. */
TINY_API int32_t tllm_draft_tree_choose(const int32_t *token, double *p, size_t n, double *q, const int32_t *x,
                                        size_t n_x, const double *u, double v);

TINYI_C_END
#endif
