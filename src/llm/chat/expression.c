/* src/llm/chat/expression.c - expressions of templates
 *
 * The parser alternates between two states: it expects an operand, or it has one. A list holds the open brackets and
 * operators. Each part that may become "a if c else b" starts with a NOP, which then becomes the jump to c. */
#include "llm/chat/parse_inside.h"
#include "llm/chat/builtin_inside.h"
#include <string.h>

TINYI_FN tinyi_topen *tinyi_parse_open(tinyi_tparse *p, int kind, int prec, int op)
{
    tinyi_topen *e;
    if (p->m->status) return NULL;
    if (p->n_open == TLLM_TEMPLATE_MAX_DEPTH) {
        p->m->pos = p->tok.pos;
        (void)tinyi_doc_fail(p->m, TINY_E_FORMAT, "an expression nested more than %d deep", TLLM_TEMPLATE_MAX_DEPTH);
        return NULL;
    }
    e = &p->open[p->n_open++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->prec = prec;
    e->op = op;
    e->jump = -1;
    e->pos = p->tok.pos;
    e->start = kind < TINYI_OPEN_BINARY && kind != TINYI_OPEN_IF ? tinyi_parse_emit(p, TINYI_CODE_NOP, 0) : -1;
    return e;
}

static void tinyi_parse_call(tinyi_tparse *p, const tinyi_topen *e)
{
    int op = e->kind == TINYI_OPEN_CALL     ? TINYI_CODE_CALL
             : e->kind == TINYI_OPEN_FILTER ? TINYI_CODE_FILTER
                                            : TINYI_CODE_TEST;
    size_t pos = p->tok.pos;
    int32_t at;
    p->tok.pos = e->pos;
    at = tinyi_parse_emit(p, op, e->count);
    if (!p->m->status) {
        p->t->code[at].b = (uint16_t)e->named;
        p->t->code[at].c = (uint8_t)e->op;
    }
    if (e->negated) (void)tinyi_parse_emit(p, TINYI_CODE_NOT, 0);
    p->tok.pos = pos;
}

/* Ends the operators that bind at least as strongly. */
static void tinyi_parse_reduce(tinyi_tparse *p, int prec)
{
    while (!p->m->status && p->n_open) {
        const tinyi_topen *e = &p->open[p->n_open - 1];
        size_t pos = p->tok.pos;
        if (e->kind < TINYI_OPEN_BINARY || e->prec < prec) return;
        p->tok.pos = e->pos;
        if (e->kind == TINYI_OPEN_AND || e->kind == TINYI_OPEN_OR) tinyi_parse_patch(p, e->jump);
        else if (e->kind == TINYI_OPEN_TEST_ONE) tinyi_parse_call(p, e);
        else (void)tinyi_parse_emit(p, e->op, 0);
        if (e->kind == TINYI_OPEN_COMPARE) tinyi_parse_patch_all(p, e->jump);
        p->tok.pos = pos;
        p->n_open--;
    }
}

/* Ends operators and conditions down to the bracket, or to the start. */
static void tinyi_parse_settle(tinyi_tparse *p)
{
    for (;;) {
        tinyi_topen *e;
        tinyi_parse_reduce(p, 0);
        if (p->m->status) return;
        e = &p->open[p->n_open - 1];
        if (e->kind == TINYI_OPEN_IF) {
            (void)tinyi_parse_emit(p, TINYI_CODE_JUMP_IF, e->start + 1);
            tinyi_parse_push(p, tinyi_tv_of(TINYI_DOC_UNDEFINED));
        } else if (e->kind != TINYI_OPEN_ELSE) {
            return;
        }
        tinyi_parse_patch(p, e->jump);
        p->n_open--;
    }
}

static int tinyi_parse_binary(const tinyi_tparse *p, int *prec, int *op, int *kind)
{
    static const struct { int mark, prec, op;
    } row[] = { { '+', 5, TINYI_CODE_ADD },
                { '-', 5, TINYI_CODE_SUB },
                { '~', 6, TINYI_CODE_CONCAT },
                { '*', 7, TINYI_CODE_MUL },
                { '/', 7, TINYI_CODE_DIV },
                { TINYI_MARK2('/', '/'), 7, TINYI_CODE_FLOOR_DIV },
                { '%', 7, TINYI_CODE_MOD },
                { TINYI_MARK2('*', '*'), 8, TINYI_CODE_POW },
                { TINYI_MARK2('=', '='), 4, TINYI_CODE_EQ },
                { TINYI_MARK2('!', '='), 4, TINYI_CODE_NE },
                { '<', 4, TINYI_CODE_LT },
                { TINYI_MARK2('<', '='), 4, TINYI_CODE_LE },
                { '>', 4, TINYI_CODE_GT },
                { TINYI_MARK2('>', '='), 4, TINYI_CODE_GE } };
    size_t i;
    if (p->tok.kind == TINYI_TOKEN_MARK)
        for (i = 0; i < TINYI_COUNT(row); i++)
            if (row[i].mark == p->tok.mark) {
                *prec = row[i].prec;
                *op = row[i].op;
                *kind = *prec == 4 ? TINYI_OPEN_COMPARE : TINYI_OPEN_BINARY;
                return 1;
            }
    *op = TINYI_CODE_AND;
    if (tinyi_parse_is(p, "or")) { *prec = 1; *kind = TINYI_OPEN_OR; return 1; }
    if (tinyi_parse_is(p, "and")) { *prec = 2; *kind = TINYI_OPEN_AND; return 1; }
    *prec = 4;
    *kind = TINYI_OPEN_COMPARE;
    if (tinyi_parse_is(p, "in")) { *op = TINYI_CODE_IN; return 1; }
    if (tinyi_parse_is(p, "not")) { *op = TINYI_CODE_NOT_IN; return 1; }
    return 0;
}

/* name.name... as filters and tests are called; takes the word after it */
static int tinyi_parse_dotted(tinyi_tparse *p, const char *what, const char **s, size_t *n)
{
    if (p->m->status || p->tok.kind != TINYI_TOKEN_NAME) return tinyi_parse_unexpected(p, what);
    *s = p->tok.s;
    *n = p->tok.n;
    if (!tinyi_parse_next(p)) return 0;
    while (tinyi_parse_mark(p, '.')) {
        if (!tinyi_parse_next(p)) return 0;
        if (p->tok.kind != TINYI_TOKEN_NAME) return tinyi_parse_unexpected(p, what);
        *n = (size_t)(p->tok.s + p->tok.n - *s);
        if (!tinyi_parse_next(p)) return 0;
    }
    return 1;
}

static int tinyi_parse_filter_id(tinyi_tparse *p, int test, size_t pos, const char *s, size_t n)
{
    int id = test ? tinyi_template_test(s, n) : tinyi_template_filter(s, n);
    char shown[80];
    if (id >= 0) return id;
    tinyi_doc_show(s, n, shown);
    p->m->pos = pos;
    (void)tinyi_doc_fail(p->m, TINY_E_FORMAT, test ? "unknown test '%s'" : "unknown filter '%s'", shown);
    return -1;
}

/* After | or is: the name, and the arguments if any. 1: an operand is there, 0: arguments come, or failed. */
TINYI_FN int tinyi_parse_apply(tinyi_tparse *p, int test)
{
    tinyi_topen *e, whole;
    const char *s = "";
    size_t n = 0, pos;
    int id;
    memset(&whole, 0, sizeof whole);
    if (!tinyi_parse_next(p)) return 0;
    if (test && tinyi_parse_is(p, "not")) {
        whole.negated = 1;
        if (!tinyi_parse_next(p)) return 0;
    }
    pos = p->tok.pos;
    if (!tinyi_parse_dotted(p, test ? "the name of a test" : "the name of a filter", &s, &n)) return 0;
    id = tinyi_parse_filter_id(p, test, pos, s, n);
    if (id < 0) return 0;
    if (tinyi_parse_mark(p, '(')) {
        e = tinyi_parse_open(p, test ? TINYI_OPEN_TEST : TINYI_OPEN_FILTER, 0, id);
        if (!e) return 0;
        e->negated = whole.negated;
        e->pos = pos;
        (void)tinyi_parse_next(p);
        return 0;
    }
    if (test && (p->tok.kind == TINYI_TOKEN_STRING || p->tok.kind == TINYI_TOKEN_NUMBER || tinyi_parse_mark(p, '[') ||
                 tinyi_parse_mark(p, '{') ||
                 (p->tok.kind == TINYI_TOKEN_NAME && !tinyi_parse_is(p, "else") && !tinyi_parse_is(p, "or") &&
                  !tinyi_parse_is(p, "and") && !tinyi_parse_is(p, "if") && !tinyi_parse_is(p, "not") &&
                  !tinyi_parse_is(p, "in") && !tinyi_parse_is(p, "recursive")))) {
        if (tinyi_parse_is(p, "is")) return tinyi_parse_unexpected(p, "the argument of a test");
        e = tinyi_parse_open(p, TINYI_OPEN_TEST_ONE, 10, id);
        if (!e) return 0;
        e->negated = whole.negated;
        e->count = 1;
        e->pos = pos;
        return 0;
    }
    whole.kind = test ? TINYI_OPEN_TEST : TINYI_OPEN_FILTER;
    whole.op = id;
    whole.pos = pos;
    tinyi_parse_call(p, &whole);
    return 1;
}

/* name= before an argument */
TINYI_FN int tinyi_parse_named_argument(const tinyi_tparse *p)
{
    size_t i = p->at;
    if (p->tok.kind != TINYI_TOKEN_NAME) return 0;
    while (i < p->n && tinyi_parse_blank((unsigned char)p->s[i])) i++;
    return tinyi_parse_peek(p, i) == '=' && tinyi_parse_peek(p, i + 1) != '=';
}

static int tinyi_parse_is_call(const tinyi_topen *e)
{
    return e->kind == TINYI_OPEN_CALL || e->kind == TINYI_OPEN_FILTER || e->kind == TINYI_OPEN_TEST;
}

/* Expects an operand. 1: there is one. */
static int tinyi_parse_operand(tinyi_tparse *p)
{
    tinyi_topen *e = &p->open[p->n_open - 1];
    if (tinyi_parse_is_call(e) && e->negated < 2 && tinyi_parse_named_argument(p)) {
        e->negated |= 4;                    /* one follows: its value, not another name */
        e->named++;
        tinyi_parse_push(p, tinyi_tv_view(p->tok.s, p->tok.n));
        (void)tinyi_parse_next(p);
        (void)tinyi_parse_next(p);
        e->start = tinyi_parse_emit(p, TINYI_CODE_NOP, 0);
        return 0;
    }
    if (p->tok.kind == TINYI_TOKEN_STRING) {
        tinyi_tv v = p->tok.v;
        size_t start = p->m->n_out;
        if (!tinyi_parse_next(p)) return 0;
        if (p->tok.kind == TINYI_TOKEN_STRING) {        /* neighbours are one string */
            (void)tinyi_doc_put(p->m, v.u.s, v.n);
            while (!p->m->status && p->tok.kind == TINYI_TOKEN_STRING) {
                (void)tinyi_doc_put(p->m, p->tok.v.u.s, p->tok.v.n);
                (void)tinyi_parse_next(p);
            }
            v = tinyi_doc_take(p->m, start);
        }
        tinyi_parse_push(p, v);
        return 1;
    }
    if (p->tok.kind == TINYI_TOKEN_NUMBER) {
        tinyi_parse_push(p, p->tok.v);
        (void)tinyi_parse_next(p);
        return 1;
    }
    if (p->tok.kind == TINYI_TOKEN_NAME) {
        if (tinyi_parse_is(p, "not")) {
            (void)tinyi_parse_open(p, TINYI_OPEN_UNARY, 3, TINYI_CODE_NOT);
            (void)tinyi_parse_next(p);
            return 0;
        }
        if (tinyi_parse_is(p, "if") || tinyi_parse_is(p, "else") || tinyi_parse_is(p, "and") ||
            tinyi_parse_is(p, "or") || tinyi_parse_is(p, "in") || tinyi_parse_is(p, "is"))
            return tinyi_parse_unexpected(p, "a value");
        if (tinyi_parse_is(p, "true") || tinyi_parse_is(p, "True")) tinyi_parse_push(p, tinyi_tv_bool(1));
        else if (tinyi_parse_is(p, "false") || tinyi_parse_is(p, "False")) tinyi_parse_push(p, tinyi_tv_bool(0));
        else if (tinyi_parse_is(p, "none") || tinyi_parse_is(p, "None"))
            tinyi_parse_push(p, tinyi_tv_of(TINYI_DOC_NONE));
        else {
            int32_t name = tinyi_parse_name(p, p->tok.s, p->tok.n);
            int i;
            (void)tinyi_parse_emit(p, TINYI_CODE_LOAD, name);
            for (i = p->n_blocks - 1;
                 i >= 0 && !p->m->status && (name == TINYI_NAME_VARARGS || name == TINYI_NAME_KWARGS); i--) {
                if (p->block[i].kind != TINYI_TAG_MACRO && p->block[i].kind != TINYI_TAG_CALL) continue;
                if (name == TINYI_NAME_VARARGS) p->t->macro[p->block[i].macro].varargs = 1;
                else p->t->macro[p->block[i].macro].kwargs = 1;
                break;
            }
        }
        (void)tinyi_parse_next(p);
        return 1;
    }
    if (p->tok.kind == TINYI_TOKEN_MARK) {
        int c = p->tok.mark;
        if (c == '-' || c == '+')
            (void)tinyi_parse_open(p, TINYI_OPEN_UNARY, 9, c == '-' ? TINYI_CODE_NEG : TINYI_CODE_POS);
        else if (c == '(' || c == '[' || c == '{')
            (void)tinyi_parse_open(p, c == '(' ? TINYI_OPEN_PAREN : c == '[' ? TINYI_OPEN_LIST : TINYI_OPEN_MAP, 0, 0);
        else if (tinyi_parse_is_call(e) && (c == '*' || c == TINYI_MARK2('*', '*')))
            return tinyi_parse_fail_at(p, p->tok.pos, "* and ** arguments are not supported");
        else return tinyi_parse_unexpected(p, "a value");
        (void)tinyi_parse_next(p);
        return 0;
    }
    return tinyi_parse_unexpected(p, "a value");
}

/* The bracket at the top ends, with an item before it or not. */
TINYI_FN int tinyi_parse_close(tinyi_tparse *p, int item)
{
    tinyi_topen *e = &p->open[p->n_open - 1];
    int c = p->tok.mark, want = e->kind == TINYI_OPEN_LIST || e->kind == TINYI_OPEN_INDEX ? ']'
                                : e->kind == TINYI_OPEN_MAP                             ? '}'
                                                                                      : ')';
    if (e->kind == TINYI_OPEN_BASE || c != want)
        return tinyi_parse_unexpected(p, e->kind == TINYI_OPEN_BASE ? "the end of the tag"
                                      : want == ']'            ? "]"
                                      : want == '}'            ? "}"
                                                               : ")");
    if (tinyi_parse_is_call(e) && item) {
        if (!(e->negated & 4)) {
            if (e->named)
                return tinyi_parse_fail_at(p, p->tok.pos, "a positional argument after a named one");
            e->count++;
        }
        e->negated &= 1;
    } else if (item && e->kind != TINYI_OPEN_MAP) {
        e->count++;
    }
    switch (e->kind) {
    case TINYI_OPEN_PAREN:
        if (!e->count) (void)tinyi_parse_emit(p, TINYI_CODE_TUPLE, 0);
        else if (e->count > 1 || !item) (void)tinyi_parse_emit(p, TINYI_CODE_TUPLE, e->count);
        break;
    case TINYI_OPEN_LIST: (void)tinyi_parse_emit(p, TINYI_CODE_LIST, e->count); break;
    case TINYI_OPEN_MAP:
        if (item != (e->named == 1)) return tinyi_parse_unexpected(p, item ? ":" : "a value");
        (void)tinyi_parse_emit(p, TINYI_CODE_MAP, e->count + item);
        break;
    case TINYI_OPEN_INDEX:
        if (!e->named && !item) return tinyi_parse_unexpected(p, "an index");
        if (!e->named) {
            (void)tinyi_parse_emit(p, TINYI_CODE_INDEX, 0);
            break;
        }
        for (; e->named + 1 - (item ? 0 : 1) < 3; e->named++) tinyi_parse_push(p, tinyi_tv_of(TINYI_DOC_NONE));
        (void)tinyi_parse_emit(p, TINYI_CODE_SLICE, 0);
        break;
    default:
        if (e->count + e->named > TLLM_TEMPLATE_MAX_ARGS) {
            p->m->pos = e->pos;
            return tinyi_doc_fail(p->m, TINY_E_FORMAT, "a call with %d arguments; the limit is %d",
                                  (int)(e->count + e->named), TLLM_TEMPLATE_MAX_ARGS);
        }
        tinyi_parse_call(p, e);
    }
    p->n_open--;
    return tinyi_parse_next(p);
}

/* The expression that starts with the word at hand; then the word after it is at hand. */
TINYI_FN int tinyi_parse_expression(tinyi_tparse *p, int flags)
{
    int bottom = p->n_open, have = 0;
    tinyi_topen *e = tinyi_parse_open(p, TINYI_OPEN_BASE, 0, 0);
    if (!e) return 0;
    e->op = flags;
    while (!p->m->status) {
        e = &p->open[p->n_open - 1];
        if (!have) {
            /* a closing bracket after nothing or after a comma; a side of a slice that is not there */
            int c = p->tok.kind == TINYI_TOKEN_MARK ? p->tok.mark : 0;
            if ((c == ')' || c == ']' || c == '}') && e->kind >= TINYI_OPEN_PAREN && e->kind <= TINYI_OPEN_INDEX &&
                !(tinyi_parse_is_call(e) && (e->negated & 4)) && !(e->kind == TINYI_OPEN_PAREN && e->named)) {
                have = tinyi_parse_close(p, 0);
            } else if (c == ':' && e->kind == TINYI_OPEN_INDEX) {
                if (++e->named > 2) return tinyi_parse_unexpected(p, "]");
                tinyi_parse_push(p, tinyi_tv_of(TINYI_DOC_NONE));
                (void)tinyi_parse_next(p);
            } else if (e->kind == TINYI_OPEN_BASE && e->count && p->tok.kind == TINYI_TOKEN_END) {
                (void)tinyi_parse_emit(p, TINYI_CODE_TUPLE, e->count);
                p->n_open = bottom;
                return 1;
            } else {
                have = tinyi_parse_operand(p);
            }
            continue;
        }
        if (p->tok.kind == TINYI_TOKEN_MARK) {
            int c = p->tok.mark;
            if (c == '.') {
                if (!tinyi_parse_next(p)) return 0;
                if (p->tok.kind == TINYI_TOKEN_NAME) {
                    (void)tinyi_parse_emit(p, TINYI_CODE_ATTR, tinyi_parse_name(p, p->tok.s, p->tok.n));
                } else if (p->tok.kind == TINYI_TOKEN_NUMBER && p->tok.v.type == TINYI_DOC_INT) {
                    tinyi_parse_push(p, p->tok.v);
                    (void)tinyi_parse_emit(p, TINYI_CODE_INDEX, 0);
                } else {
                    return tinyi_parse_unexpected(p, "the name of a member");
                }
                (void)tinyi_parse_next(p);
                continue;
            }
            if (c == '[' || c == '(') {
                (void)tinyi_parse_open(p, c == '[' ? TINYI_OPEN_INDEX : TINYI_OPEN_CALL, 0, 0);
                (void)tinyi_parse_next(p);
                have = 0;
                continue;
            }
            if (c == '|') {
                tinyi_parse_reduce(p, 9);
                have = tinyi_parse_apply(p, 0);
                continue;
            }
            if (c == ')' || c == ']' || c == '}') {
                tinyi_parse_settle(p);
                if (p->m->status) return 0;
                if (p->open[p->n_open - 1].kind == TINYI_OPEN_BASE) break;
                (void)tinyi_parse_close(p, 1);
                continue;
            }
            if (c == ',') {
                tinyi_parse_settle(p);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                if (e->kind == TINYI_OPEN_BASE && !(e->op & TINYI_EXPR_TUPLE)) break;
                if (e->kind == TINYI_OPEN_INDEX) return tinyi_parse_unexpected(p, "]");
                if (tinyi_parse_is_call(e) && (e->negated & 4)) {
                    e->negated &= 1;
                } else if (tinyi_parse_is_call(e)) {
                    if (e->named)
                        return tinyi_parse_fail_at(p, p->tok.pos,
                                                   "a positional argument after a named one");
                    e->count++;
                } else if (e->kind == TINYI_OPEN_MAP) {
                    if (!e->named) return tinyi_parse_unexpected(p, ":");
                    e->named = 0;
                    e->count++;
                } else {
                    e->count++;
                }
                (void)tinyi_parse_next(p);
                e->start = tinyi_parse_emit(p, TINYI_CODE_NOP, 0);
                have = 0;
                continue;
            }
            if (c == ':') {
                tinyi_parse_settle(p);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                if (e->kind == TINYI_OPEN_MAP && !e->named) e->named = 1;
                else if (e->kind != TINYI_OPEN_INDEX || ++e->named > 2)
                    return tinyi_parse_unexpected(p, "the end of the expression");
                (void)tinyi_parse_next(p);
                e->start = tinyi_parse_emit(p, TINYI_CODE_NOP, 0);
                have = 0;
                continue;
            }
        }
        if (tinyi_parse_is(p, "is")) {
            tinyi_parse_reduce(p, 9);
            have = tinyi_parse_apply(p, 1);
            continue;
        }
        if (tinyi_parse_is(p, "if")) {
            tinyi_parse_reduce(p, 0);
            if (p->m->status) return 0;
            e = &p->open[p->n_open - 1];
            if (e->kind == TINYI_OPEN_BASE && (e->op & TINYI_EXPR_NO_IF)) break;
            if (e->kind == TINYI_OPEN_IF)
                return tinyi_parse_fail_at(p, p->tok.pos, "an if after an if without else needs parentheses");
            {
                int32_t start = e->start, jump = tinyi_parse_emit(p, TINYI_CODE_JUMP, 0);
                if (p->m->status) return 0;
                p->t->code[start].op = TINYI_CODE_JUMP;
                p->t->code[start].a = tinyi_parse_here(p);
                e = tinyi_parse_open(p, TINYI_OPEN_IF, 0, 0);
                if (!e) return 0;
                e->start = start;
                e->jump = jump;
            }
            (void)tinyi_parse_next(p);
            have = 0;
            continue;
        }
        if (tinyi_parse_is(p, "else")) {
            int32_t jump;
            tinyi_parse_reduce(p, 0);
            if (p->m->status) return 0;
            e = &p->open[p->n_open - 1];
            if (e->kind != TINYI_OPEN_IF) return tinyi_parse_unexpected(p, "the end of the expression");
            (void)tinyi_parse_emit(p, TINYI_CODE_JUMP_IF, e->start + 1);
            jump = e->jump;
            p->n_open--;
            e = tinyi_parse_open(p, TINYI_OPEN_ELSE, 0, 0);
            if (!e) return 0;
            e->jump = jump;
            (void)tinyi_parse_next(p);
            have = 0;
            continue;
        }
        {
            int prec, op, kind;
            if (tinyi_parse_binary(p, &prec, &op, &kind)) {
                int32_t jump = -1;
                if (op == TINYI_CODE_NOT_IN) {
                    if (!tinyi_parse_next(p)) return 0;
                    if (!tinyi_parse_is(p, "in")) return tinyi_parse_unexpected(p, "in");
                }
                tinyi_parse_reduce(p, prec == 4 ? 5 : prec);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                /* a < b < c: b stays for the next */
                if (kind == TINYI_OPEN_COMPARE && e->kind == TINYI_OPEN_COMPARE) {
                    jump = tinyi_parse_emit(p, TINYI_CODE_CHAIN, e->jump);
                    if (p->m->status) return 0;
                    p->t->code[jump].b = (uint16_t)e->op;
                    e->jump = jump;
                    e->op = op;
                    e->pos = p->tok.pos;
                } else {
                    if (kind == TINYI_OPEN_AND || kind == TINYI_OPEN_OR)
                        jump = tinyi_parse_emit(p, kind == TINYI_OPEN_AND ? TINYI_CODE_AND : TINYI_CODE_OR, 0);
                    e = tinyi_parse_open(p, kind, prec, op);
                    if (!e) return 0;
                    e->jump = jump;
                }
                (void)tinyi_parse_next(p);
                have = 0;
                continue;
            }
        }
        break;
    }
    if (p->m->status) return 0;
    tinyi_parse_settle(p);
    if (p->m->status) return 0;
    e = &p->open[p->n_open - 1];
    if (e->kind != TINYI_OPEN_BASE) {
        static const char *const closing[] = { "", ")", "]", "}", ")", ")", ")", "]" };
        return tinyi_parse_unexpected(p, closing[e->kind]);
    }
    if (e->count) (void)tinyi_parse_emit(p, TINYI_CODE_TUPLE, e->count + 1);
    p->n_open = bottom;
    return !p->m->status;
}
