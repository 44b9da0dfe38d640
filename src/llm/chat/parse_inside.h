/* src/llm/chat/parse_inside.h - shared by the files of the template compiler: the parser state and their functions
 *
 * emit.c writes operations. words.c splits the text of a tag into words. expression.c compiles expressions; compile.c
 * compiles statements and the text between tags. */
#ifndef TINYI_CHAT_PARSE_H
#define TINYI_CHAT_PARSE_H
#include "llm/chat/compile_inside.h"
TINYI_C_BEGIN

enum { TINYI_TOKEN_END, TINYI_TOKEN_NAME, TINYI_TOKEN_STRING, TINYI_TOKEN_NUMBER, TINYI_TOKEN_MARK };
enum { /* what is open in an expression; operators from BINARY on */
       TINYI_OPEN_BASE,
       TINYI_OPEN_PAREN,
       TINYI_OPEN_LIST,
       TINYI_OPEN_MAP,
       TINYI_OPEN_CALL,
       TINYI_OPEN_FILTER,
       TINYI_OPEN_TEST,
       TINYI_OPEN_INDEX,
       TINYI_OPEN_IF,
       TINYI_OPEN_ELSE,
       TINYI_OPEN_BINARY,
       TINYI_OPEN_COMPARE,
       TINYI_OPEN_AND,
       TINYI_OPEN_OR,
       TINYI_OPEN_UNARY,
       TINYI_OPEN_TEST_ONE
};
enum {
    TINYI_TAG_IF,
    TINYI_TAG_FOR,
    TINYI_TAG_SET,
    TINYI_TAG_FILTER,
    TINYI_TAG_MACRO,
    TINYI_TAG_CALL,
    TINYI_TAG_WITH,
    TINYI_TAG_GENERATION
};
enum { TINYI_EXPR_TUPLE = 1, TINYI_EXPR_NO_IF = 2 };

typedef struct tinyi_topen {
    int kind, prec, op, negated;
    int32_t start, jump, count, named;
    size_t pos;
} tinyi_topen;

typedef struct tinyi_tblock {
    int kind, has_else, n_filters;
    int32_t next, ends, start, first, macro;        /* next: jump to patch; ends: chain of jumps to after the block */
    int32_t tail_a, tail_b;                         /* the call of a call block */
    size_t pos;
} tinyi_tblock;

typedef struct tinyi_tparse {
    tllm_template *t;
    tinyi_doc *m;
    const char *s;
    size_t n, at;
    int brackets, variable;                 /* variable: inside {{ }} */
    int line_start;
    /* trim: '-', '+' or 0 of an end */
    struct { int kind, mark; const char *s; size_t n, pos; tinyi_tv v; int trim; } tok;
    tinyi_topen open[TLLM_TEMPLATE_MAX_DEPTH];
    int n_open;
    tinyi_tblock block[TLLM_TEMPLATE_MAX_DEPTH];
    int n_blocks;
} tinyi_tparse;

/* a mark of two characters */
#define TINYI_MARK2(a, b) ((a) | (b) << 8)

/* emit.c. After a failure these functions do nothing. */
TINYI_FN int tinyi_parse_fail_at(tinyi_tparse *p, size_t pos, const char *what);
TINYI_FN int tinyi_parse_unexpected(tinyi_tparse *p, const char *wanted);
TINYI_FN int32_t tinyi_parse_emit(tinyi_tparse *p, int op, int32_t a);
TINYI_FN int32_t tinyi_parse_here(const tinyi_tparse *p);
TINYI_FN void tinyi_parse_patch(tinyi_tparse *p, int32_t at);
TINYI_FN void tinyi_parse_patch_all(tinyi_tparse *p, int32_t at);
TINYI_FN int32_t tinyi_parse_konst(tinyi_tparse *p, tinyi_tv v);
TINYI_FN void tinyi_parse_push(tinyi_tparse *p, tinyi_tv v);
TINYI_FN int32_t tinyi_parse_name(tinyi_tparse *p, const char *s, size_t n);

/* words.c: the next word becomes p->tok; 0: failed */
TINYI_FN int tinyi_parse_blank(int c);
TINYI_FN int tinyi_parse_peek(const tinyi_tparse *p, size_t i);
TINYI_FN int tinyi_parse_next(tinyi_tparse *p);
TINYI_FN int tinyi_parse_is(const tinyi_tparse *p, const char *word);
TINYI_FN int tinyi_parse_mark(const tinyi_tparse *p, int mark);
TINYI_FN int tinyi_parse_take(tinyi_tparse *p, int mark, const char *wanted);

/* expression.c: compiles the expression that starts at p->tok; afterwards p->tok is the word after it */
TINYI_FN tinyi_topen *tinyi_parse_open(tinyi_tparse *p, int kind, int prec, int op);
TINYI_FN int tinyi_parse_apply(tinyi_tparse *p, int test);
TINYI_FN int tinyi_parse_named_argument(const tinyi_tparse *p);
TINYI_FN int tinyi_parse_close(tinyi_tparse *p, int item);
TINYI_FN int tinyi_parse_expression(tinyi_tparse *p, int flags);

TINYI_C_END
#endif
