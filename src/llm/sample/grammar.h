/* src/llm/sample/grammar.h - texts that follow a grammar: which pieces may come next
 *
 *   static const char yes_no[] = "root ::= \"yes\" | \"no\" [.!]{1,3}";
 *   tllm_grammar *g;
 *   tllm_grammar_state *s;
 *   int may;
 *   if (tllm_grammar_open(ctx, yes_no, sizeof yes_no - 1, "root", &g)) ... the sentence names the line ...
 *   if (tllm_grammar_begin(ctx, g, &s)) ...
 *   for each candidate: if (!tllm_grammar_accepts(ctx, s, piece, n, &may) && !may) ... its logit becomes -infinity ...
 *   or for a whole vocabulary: tllm_grammar_mask(ctx, s, pieces, may)
 *   tllm_grammar_advance(ctx, s, chosen, n);
 *   if (tllm_grammar_may_end(s)) ... the end of the text may come ...
 *
 * A grammar is text in GBNF: rules "name ::= ..." with "literals", [classes], [^classes], . for any character, names of
 * rules, ( groups ), | between alternatives, and * + ? {m} {m,} {m,n} behind what they repeat. Escapes: \n \r \t \\ \"
 * \[ \] \^ \- \xHH \uHHHH \UHHHHHHHH. # starts a comment. A rule ends with its line, unless a group is open or | comes
 * last or next.
 *
 * Characters are those of UTF-8; a piece may end in the middle of one and the next goes on there. A state keeps all
 * ways through the grammar at once and shares what they have in common, so that a character costs what the grammar is
 * large and ambiguous, not how long the text has become; recursion at the end of a rule costs no memory. Rules that
 * call themselves before they take a character (left recursion) are refused by name. */
#ifndef TINYI_GRAMMAR_H
#define TINYI_GRAMMAR_H
#include "core/ctx.h"
#include "llm/sample/pieces.h"
TINYI_C_BEGIN

#define TLLM_GRAMMAR_MAX_BYTES ((size_t)1 << 20)
#define TLLM_GRAMMAR_MAX_DEPTH 200          /* groups inside one another */
#define TLLM_GRAMMAR_MAX_SIZE 200000        /* operations after repetitions are written out */
#define TLLM_GRAMMAR_MAX_WAYS 1000000       /* rules that stand open in a state, over all ways */
#define TLLM_GRAMMAR_MAX_COPIES \
    12800000 /* operations that are written while the text is read, also those that a later {0} takes away */
/* Steps of one call, each a place of the grammar that is looked at: FREE_STEPS, and for each byte that is tried
 * BYTE_STEPS and as many as the grammar has operations, but never more than MAX_STEPS. A grammar that is so ambiguous
 * that it takes more is refused. */
#define TLLM_GRAMMAR_FREE_STEPS 1000000
#define TLLM_GRAMMAR_BYTE_STEPS 4096
#define TLLM_GRAMMAR_MAX_STEPS 200000000

typedef struct tllm_grammar tllm_grammar;
typedef struct tllm_grammar_state tllm_grammar_state;

/* n bytes of text; root: the name of the rule that a whole text follows. On failure *out is NULL. Any number of threads
 * may read one grammar. */
TINY_API tiny_status tllm_grammar_open(tiny_ctx *ctx, const char *text, size_t n, const char *root, tllm_grammar **out);
/* takes NULL; its states are freed before */
TINY_API void tllm_grammar_close(tiny_ctx *ctx, tllm_grammar *g);

TINY_API tiny_status tllm_grammar_begin(tiny_ctx *ctx, const tllm_grammar *g, tllm_grammar_state **out);
TINY_API tiny_status tllm_grammar_clone(tiny_ctx *ctx, const tllm_grammar_state *s, tllm_grammar_state **out);
TINY_API void tllm_grammar_free(tiny_ctx *ctx, tllm_grammar_state *s);          /* takes NULL */

/* *yes: the piece may come next. s works as scratch and is as before. */
TINY_API tiny_status tllm_grammar_accepts(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int *yes);
/* may[i]: whether piece i may come next, for all of them at once: what pieces have in common at their start is tried
 * once, and what begins with a refused start not at all. s works as scratch and is as before. */
TINY_API tiny_status tllm_grammar_mask(tiny_ctx *ctx, tllm_grammar_state *s, const tllm_pieces *pieces,
                                       unsigned char *may);
/* Takes the piece; TINY_E_ARGUMENT and s as before when it may not come. */
TINY_API tiny_status tllm_grammar_advance(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n);
/* 1: what was taken is a whole text of the grammar */
TINY_API int tllm_grammar_may_end(const tllm_grammar_state *s);

TINYI_C_END
#endif
