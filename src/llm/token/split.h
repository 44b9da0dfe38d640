/* src/llm/token/split.h - pre-tokenizers: how byte-level BPE vocabularies split a text into words before merging
 *
 * A file names its pre-tokenizer, but does not contain the regular expressions behind the name. Here each name is a row
 * of a table whose rule encodes the expressions as letters. A letter is one alternative of an expression. A rule has
 * one or more steps, separated by blanks; each step splits the pieces of the step before. The letters of a step are
 * tried in order at each position, and text that no letter matches becomes its own piece. split.c lists the letters.
 * The time is linear in the length of the text. */
#ifndef TINYI_SPLIT_H
#define TINYI_SPLIT_H
#include "llm/token/unicode.h"
TINYI_C_BEGIN

enum {
    TLLM_PRE_WHOLE = 1,                     /* a word that is a token is used whole, without merging */
    TLLM_PRE_BOS = 2,                       /* adds BOS unless the file disables it */
    TLLM_PRE_RAW = 4,                       /* merges characters, not bytes mapped to characters */
    TLLM_PRE_BLANKS = 8,                    /* a blank is replaced by U+2581 */
    TLLM_PRE_LINES = 16,                    /* a word of line ends that is a token is used whole */
    TLLM_PRE_ALWAYS_BOS = 32,               /* adds BOS even if the file disables it */
    TLLM_PRE_NO_BOS_ID = 64,                /* no BOS token unless the file names one */
    TLLM_PRE_DROP_SPACE = 128               /* white space between words is dropped */
};

typedef struct tllm_pre { const char *name, *rule; unsigned flags; } tllm_pre;

/* Row i of the table; NULL past the end. */
TINY_API const tllm_pre *tllm_pre_at(size_t i);
/* The row of a name of n bytes; NULL: unknown. */
TINY_API const tllm_pre *tllm_pre_find(const char *name, size_t n);

/* ---- inside: what the bodies share ---- */

enum { TINYI_SPLIT_STEPS = 8, TINYI_SPLIT_LETTERS = 12 };

/* results that a step keeps, so that a long run is measured once */
typedef struct tinyi_split_memo {
    size_t no_line_end;                     /* white space up to here has no line end */
    size_t run_at, run_end, run_count;      /* digits from run_at on */
} tinyi_split_memo;

typedef struct tinyi_split {
    const unsigned char *s;                 /* valid in the sense of tinyi_utf8_plain */
    size_t n, at;
    const char *step[TINYI_SPLIT_STEPS];
    /* the classes of ASCII that a letter, and any letter of the step, can begin with */
    unsigned short first[TINYI_SPLIT_STEPS][TINYI_SPLIT_LETTERS], any[TINYI_SPLIT_STEPS];
    size_t end[TINYI_SPLIT_STEPS];
    tinyi_split_memo memo[TINYI_SPLIT_STEPS];
    int n_steps;
} tinyi_split;

TINYI_FN void tinyi_split_start(tinyi_split *sp, const char *rule, const unsigned char *s, size_t n);
/* the next piece [*begin, *end), never empty; 0 after the last */
TINYI_FN int tinyi_split_next(tinyi_split *sp, size_t *begin, size_t *end);

TINYI_C_END
#endif
