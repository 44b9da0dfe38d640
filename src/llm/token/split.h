/* src/llm/token/split.h - how byte-level BPE vocabularies cut a text into words before they merge
 *
 * A file names its pre-tokenizer, and each name stands for regular expressions that only programs know. Here each name
 * is a row, and the expressions are letters: a letter is one alternative, the letters of a step are tried in order at
 * each place, what none matches becomes a piece of its own, and a blank separates steps, each cutting the pieces of the
 * one before.
 * The letters are listed in split.c. The cut is linear in the text. */
#ifndef TINYI_SPLIT_H
#define TINYI_SPLIT_H
#include "llm/token/unicode.h"
TINYI_C_BEGIN

enum {
    TLLM_PRE_WHOLE = 1,                     /* a word that is a token is taken whole, without merging */
    TLLM_PRE_BOS = 2,                       /* adds BOS unless the file says otherwise */
    TLLM_PRE_RAW = 4,                       /* merges characters, not bytes in disguise */
    TLLM_PRE_BLANKS = 8,                    /* a blank is written U+2581 */
    TLLM_PRE_LINES = 16,                    /* a word of line ends that is a token is taken whole */
    TLLM_PRE_ALWAYS_BOS = 32,               /* adds BOS whatever the file says */
    TLLM_PRE_NO_BOS_ID = 64,                /* no BOS token unless the file names one */
    TLLM_PRE_DROP_SPACE = 128               /* white space between words is left out */
};

typedef struct tllm_pre { const char *name, *rule; unsigned flags; } tllm_pre;

/* The rows of the table; NULL past the end. */
TINY_API const tllm_pre *tllm_pre_at(size_t i);
/* The row of a name of n bytes; NULL: unknown. */
TINY_API const tllm_pre *tllm_pre_find(const char *name, size_t n);

/* ---- inside: what the bodies share ---- */

enum { TINYI_SPLIT_STEPS = 8, TINYI_SPLIT_LETTERS = 12 };

/* what a step remembers, so that long runs are measured once */
typedef struct tinyi_split_memo {
    size_t no_line_end;                     /* white space up to here has no line end */
    size_t run_at, run_end, run_count;      /* digits from run_at on */
} tinyi_split_memo;

typedef struct tinyi_split {
    const unsigned char *s;                 /* as tinyi_utf8_plain says */
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
