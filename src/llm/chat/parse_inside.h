/* src/llm/chat/parse_inside.h - what the files of the template compiler share: the state of a parse, and their
 * functions
 *
 * emit.c writes operations, words.c cuts the inside of tags into words, expression.c and compile.c (statements and the
 * text between tags) turn them into operations. */
#ifndef TINYI_CHAT_PARSE_H
#define TINYI_CHAT_PARSE_H
#include "llm/chat/compile_inside.h"
TINYI_C_BEGIN

enum { TINYI_TT_END, TINYI_TT_NAME, TINYI_TT_STRING, TINYI_TT_NUMBER, TINYI_TT_MARK };
enum { /* what is open in an expression; operators from BINARY on */
       TINYI_TE_BASE,
       TINYI_TE_PAREN,
       TINYI_TE_LIST,
       TINYI_TE_MAP,
       TINYI_TE_CALL,
       TINYI_TE_FILTER,
       TINYI_TE_TEST,
       TINYI_TE_INDEX,
       TINYI_TE_IF,
       TINYI_TE_ELSE,
       TINYI_TE_BINARY,
       TINYI_TE_COMPARE,
       TINYI_TE_AND,
       TINYI_TE_OR,
       TINYI_TE_UNARY,
       TINYI_TE_TEST_ONE
};
enum {
    TINYI_TB_IF,
    TINYI_TB_FOR,
    TINYI_TB_SET,
    TINYI_TB_FILTER,
    TINYI_TB_MACRO,
    TINYI_TB_CALL,
    TINYI_TB_WITH,
    TINYI_TB_GENERATION
};
enum { TINYI_TX_TUPLE = 1, TINYI_TX_NO_IF = 2 };

typedef struct tinyi_topen {
    int kind, prec, op, negated;
    int32_t start, jump, count, named;
    size_t pos;
} tinyi_topen;

typedef struct tinyi_tblock {
    int kind, has_else, n_filters;
    int32_t next, ends, start, first, macro;        /* next: jump to patch; ends: chain of jumps to behind the block */
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
#define TINYI_TT2(a, b) ((a) | (b) << 8)

/* emit.c. After a failure they do nothing. */
TINYI_FN int tinyi_tp_fail_at(tinyi_tparse *p, size_t pos, const char *what);
TINYI_FN int tinyi_tp_unexpected(tinyi_tparse *p, const char *wanted);
TINYI_FN int32_t tinyi_tp_emit(tinyi_tparse *p, int op, int32_t a);
TINYI_FN int32_t tinyi_tp_here(const tinyi_tparse *p);
TINYI_FN void tinyi_tp_patch(tinyi_tparse *p, int32_t at);
TINYI_FN void tinyi_tp_patch_all(tinyi_tparse *p, int32_t at);
TINYI_FN int32_t tinyi_tp_konst(tinyi_tparse *p, tinyi_tv v);
TINYI_FN void tinyi_tp_push(tinyi_tparse *p, tinyi_tv v);
TINYI_FN int32_t tinyi_tp_name(tinyi_tparse *p, const char *s, size_t n);

/* words.c: the next word becomes p->tok; 0 at a failure */
TINYI_FN int tinyi_tp_blank(int c);
TINYI_FN int tinyi_tp_peek(const tinyi_tparse *p, size_t i);
TINYI_FN int tinyi_tp_next(tinyi_tparse *p);
TINYI_FN int tinyi_tp_is(const tinyi_tparse *p, const char *word);
TINYI_FN int tinyi_tp_mark(const tinyi_tparse *p, int mark);
TINYI_FN int tinyi_tp_take(tinyi_tparse *p, int mark, const char *wanted);

/* expression.c: the expression that starts with the word at hand; afterwards the word behind it is at hand */
TINYI_FN tinyi_topen *tinyi_tp_open(tinyi_tparse *p, int kind, int prec, int op);
TINYI_FN int tinyi_tp_apply(tinyi_tparse *p, int test);
TINYI_FN int tinyi_tp_named_argument(const tinyi_tparse *p);
TINYI_FN int tinyi_tp_close(tinyi_tparse *p, int item);
TINYI_FN int tinyi_tp_expression(tinyi_tparse *p, int flags);

TINYI_C_END
#endif
