/* src/llm/sample/grammar.h - restricts generated text to a grammar: which pieces may come next
 *
 * tllm_generate takes a grammar in its description (llm/session/session.h). For your own loop:
 *
 *   static const char yes_no[] = "root ::= \"yes\" | \"no\" [.!]{1,3}";
 *   tllm_grammar *g;
 *   tllm_grammar_state *s;
 *   unsigned char mask[N_PIECES];
 *   int may;
 *   if (tllm_grammar_open(ctx, yes_no, sizeof yes_no - 1, "root", &g)) ... the message names the line ...
 *   if (tllm_grammar_begin(ctx, g, &s)) ...
 *   if (!tllm_grammar_accepts(ctx, s, piece, n, &may) && !may) ... set the logit of the piece to -infinity ...
 *   tllm_grammar_mask(ctx, s, pieces, mask);       the same for a whole vocabulary: mask[i] is 0 or 1
 *   tllm_grammar_advance(ctx, s, chosen, n);
 *   if (tllm_grammar_may_end(s)) ... the end of the text may come ...
 *
 * A grammar is text in GBNF: rules "name ::= ..." with "literals", [classes], [^classes], . for any character, names of
 * rules, ( groups ), | between alternatives, and a suffix * + ? {m} {m,} {m,n} for repetition. Escapes: \n \r \t \\ \"
 * \[ \] \^ \- \xHH \uHHHH \UHHHHHHHH. # starts a comment. A rule ends at the end of its line, unless a group is open,
 * the line ends with | or the next line starts with |.
 *
 * A piece is the text of a token. Characters are UTF-8. A piece may end in the middle of a character; the next piece
 * continues it. A state holds all paths through the grammar that fit the text so far. The cost of a character depends
 * on the size and the ambiguity of the grammar, not on the length of the text. Recursion at the end of a rule costs no
 * memory. Left recursion (a rule that calls itself before it reads a character) is an error that names the rule.
 *
 * A grammar is read-only: any number of threads may use it, each with its own context and state. One thread at a time
 * may use a state. */
#ifndef TINYI_GRAMMAR_H
#define TINYI_GRAMMAR_H
#include "core/ctx.h"
#include "llm/sample/pieces.h"
TINYI_C_BEGIN

#define TLLM_GRAMMAR_MAX_BYTES ((size_t)1 << 20)
#define TLLM_GRAMMAR_MAX_DEPTH 200          /* nested groups */
#define TLLM_GRAMMAR_MAX_SIZE 200000        /* operations after repetitions are expanded */
#define TLLM_GRAMMAR_MAX_WAYS 1000000       /* open rules of a state, over all paths */
#define TLLM_GRAMMAR_MAX_COPIES \
    12800000 /* operations made while the text is read, including those that a later {0} removes */
/* The most steps of one call; a step visits one position of the grammar. The limit is FREE_STEPS, plus BYTE_STEPS and
 * the number of operations of the grammar for each byte tried, but at most MAX_STEPS. A grammar so ambiguous that it
 * needs more is refused. */
#define TLLM_GRAMMAR_FREE_STEPS 1000000
#define TLLM_GRAMMAR_BYTE_STEPS 4096
#define TLLM_GRAMMAR_MAX_STEPS 200000000

typedef struct tllm_grammar tllm_grammar;
typedef struct tllm_grammar_state tllm_grammar_state;

/* text: n bytes, copied. root: the name of the start rule. On failure *out is NULL. */
TINY_API tiny_status tllm_grammar_open(tiny_ctx *ctx, const char *text, size_t n, const char *root, tllm_grammar **out);
/* g may be NULL; free its states first */
TINY_API void tllm_grammar_close(tiny_ctx *ctx, tllm_grammar *g);

/* A new state before the first character, and a copy of a state. g must outlive its states. On failure *out is NULL. */
TINY_API tiny_status tllm_grammar_begin(tiny_ctx *ctx, const tllm_grammar *g, tllm_grammar_state **out);
TINY_API tiny_status tllm_grammar_clone(tiny_ctx *ctx, const tllm_grammar_state *s, tllm_grammar_state **out);
TINY_API void tllm_grammar_free(tiny_ctx *ctx, tllm_grammar_state *s);          /* s may be NULL */

/* *yes: 1 if the piece (n bytes) may come next, else 0. s is modified during the call and then restored. */
TINY_API tiny_status tllm_grammar_accepts(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n, int *yes);
/* may[i]: 1 if piece i may come next, else 0; may has one byte per piece. A prefix that several pieces share is tried
 * once; if it is refused, all of them are. s is modified during the call and then restored. */
TINY_API tiny_status tllm_grammar_mask(tiny_ctx *ctx, tllm_grammar_state *s, const tllm_pieces *pieces,
                                       unsigned char *may);
/* Appends the piece. If the grammar does not allow it, returns TINY_E_ARGUMENT and leaves s unchanged. */
TINY_API tiny_status tllm_grammar_advance(tiny_ctx *ctx, tllm_grammar_state *s, const char *piece, size_t n);
/* 1: the text so far is a complete text of the grammar */
TINY_API int tllm_grammar_may_end(const tllm_grammar_state *s);

TINYI_C_END
#endif
