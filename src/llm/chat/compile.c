/* src/llm/chat/compile.c
 *
 * Text outside of tags follows trim_blocks and lstrip_blocks, as the files' templates expect: the newline after a block
 * tag goes, and so do the blanks before one that stands first in its line. A - in a tag takes all white space on its side, a
 * + keeps it. In expressions two states alternate, an operand is wanted or there is one, and a list holds what is open.
 * Each part that may become "a if c else b" starts with a NOP, which turns into the jump to c.                          */
#include "llm/chat/compile.h"
#include "llm/chat/builtin.h"
#include "llm/token/unicode.h"
#include <string.h>

enum { TINYI_TT_END, TINYI_TT_NAME, TINYI_TT_STRING, TINYI_TT_NUMBER, TINYI_TT_MARK };
enum {                                      /* what is open in an expression; operators from BINARY on */
    TINYI_TE_BASE, TINYI_TE_PAREN, TINYI_TE_LIST, TINYI_TE_MAP, TINYI_TE_CALL, TINYI_TE_FILTER, TINYI_TE_TEST, TINYI_TE_INDEX,
    TINYI_TE_IF, TINYI_TE_ELSE, TINYI_TE_BINARY, TINYI_TE_COMPARE, TINYI_TE_AND, TINYI_TE_OR, TINYI_TE_UNARY, TINYI_TE_TEST_ONE
};
enum { TINYI_TB_IF, TINYI_TB_FOR, TINYI_TB_SET, TINYI_TB_FILTER, TINYI_TB_MACRO, TINYI_TB_CALL, TINYI_TB_WITH, TINYI_TB_GENERATION };
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
    tinyi_tm *m;
    const char *s;
    size_t n, at;
    int brackets, variable;                 /* variable: inside {{ }} */
    int line_start;
    struct { int kind, mark; const char *s; size_t n, pos; tinyi_tv v; int trim; } tok;    /* trim: '-', '+' or 0 of an end */
    tinyi_topen open[TLLM_TEMPLATE_MAX_DEPTH];
    int n_open;
    tinyi_tblock block[TLLM_TEMPLATE_MAX_DEPTH];
    int n_blocks;
} tinyi_tparse;

static int tinyi_tp_fail_at(tinyi_tparse *p, size_t pos, const char *what)
{
    p->m->pos = pos;
    return tinyi_tm_fail(p->m, TINY_E_FORMAT, "%s", what);
}

static int tinyi_tp_unexpected(tinyi_tparse *p, const char *wanted)
{
    char shown[80];
    p->m->pos = p->tok.pos;
    if (p->tok.pos >= p->n) return tinyi_tm_fail(p->m, TINY_E_FORMAT, "the template ends where %s should stand", wanted);
    tinyi_tm_show(p->tok.s, p->tok.n, shown);
    return tinyi_tm_fail(p->m, TINY_E_FORMAT, "'%s' stands where %s should", shown, wanted);
}

/* ---- what the code is made of ------------------------------------------------------------------------------------- */

static int32_t tinyi_tp_emit(tinyi_tparse *p, int op, int32_t a)
{
    tllm_template *t = p->t;
    void *code = t->code;
    tinyi_top *o;
    if (p->m->status || !tinyi_tm_grow(p->m, &code, t->n_code, &t->code_room, t->n_code + 1, sizeof *t->code)) return 0;
    t->code = (tinyi_top *)code;
    o = &t->code[t->n_code];
    memset(o, 0, sizeof *o);
    o->op = (uint8_t)op;
    o->a = a;
    o->pos = (uint32_t)p->tok.pos;
    return (int32_t)t->n_code++;
}

static int32_t tinyi_tp_here(const tinyi_tparse *p) { return (int32_t)p->t->n_code; }
static void tinyi_tp_patch(tinyi_tparse *p, int32_t at) { if (!p->m->status && at >= 0) p->t->code[at].a = tinyi_tp_here(p); }
/* a chain of jumps with one aim: each holds the one before it, -1 ends */
static void tinyi_tp_patch_all(tinyi_tparse *p, int32_t at)
{
    while (!p->m->status && at >= 0) {
        int32_t next = p->t->code[at].a;
        tinyi_tp_patch(p, at);
        at = next;
    }
}

static int32_t tinyi_tp_konst(tinyi_tparse *p, tinyi_tv v)
{
    tllm_template *t = p->t;
    void *konst = t->konst;
    if (p->m->status || !tinyi_tm_grow(p->m, &konst, t->n_konst, &t->konst_room, t->n_konst + 1, sizeof v)) return 0;
    t->konst = (tinyi_tv *)konst;
    t->konst[t->n_konst] = v;
    return (int32_t)t->n_konst++;
}
static void tinyi_tp_push(tinyi_tparse *p, tinyi_tv v) { (void)tinyi_tp_emit(p, TINYI_TO_CONST, tinyi_tp_konst(p, v)); }

static int32_t tinyi_tp_name(tinyi_tparse *p, const char *s, size_t n)
{
    tllm_template *t = p->t;
    uint32_t h = 2166136261u;
    size_t i, k;
    void *name = t->name;
    if (p->m->status) return 0;
    for (i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    if ((t->n_names + 1) * 2 > t->n_slots) {
        size_t n_slots = t->n_slots ? t->n_slots * 4 : 64;
        uint32_t *slot = (uint32_t *)tinyi_tm_alloc(p->m, n_slots, sizeof *slot);
        if (!slot) return 0;
        memset(slot, 0, n_slots * sizeof *slot);
        for (i = 0; i < t->n_names; i++) {
            for (k = t->name[i].hash & (n_slots - 1); slot[k]; k = (k + 1) & (n_slots - 1)) {}
            slot[k] = (uint32_t)i + 1;
        }
        t->name_slot = slot;
        t->n_slots = n_slots;
    }
    for (k = h & (t->n_slots - 1); t->name_slot[k]; k = (k + 1) & (t->n_slots - 1)) {
        const tinyi_tname *old = &t->name[t->name_slot[k] - 1];
        if (!tinyi_tm_work(p->m, 1)) return 0;
        if (old->hash == h && old->n == n && !memcmp(old->s, s, n)) return (int32_t)t->name_slot[k] - 1;
    }
    if (!tinyi_tm_grow(p->m, &name, t->n_names, &t->name_room, t->n_names + 1, sizeof *t->name)) return 0;
    t->name = (tinyi_tname *)name;
    t->name[t->n_names].s = s;
    t->name[t->n_names].n = n;
    t->name[t->n_names].hash = h;
    t->name[t->n_names].function = 1 + tinyi_tm_function(s, n);
    t->name_slot[k] = (uint32_t)++t->n_names;
    return (int32_t)t->n_names - 1;
}

/* ---- words inside of tags ------------------------------------------------------------------------------------------- */

static int tinyi_tp_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int tinyi_tp_digit(int c) { return c >= '0' && c <= '9'; }
static int tinyi_tp_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int tinyi_tp_peek(const tinyi_tparse *p, size_t i) { return i < p->n ? (unsigned char)p->s[i] : -1; }

static unsigned tinyi_tp_hex(const char *s, size_t n, int *ok)
{
    unsigned v = 0, d;
    for (; n; n--, s++) {
        unsigned c = (unsigned char)*s;
        d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
        if (d == 16) *ok = 0;
        v = v << 4 | d;
    }
    return v;
}

static int tinyi_tp_string(tinyi_tparse *p)
{
    char quote = p->s[p->at];
    size_t from = p->at + 1, i = from, start = p->m->n_out;
    int escapes = 0;
    while (i < p->n && p->s[i] != quote) {
        if (p->s[i] == '\\') { escapes = 1; i++; }
        i++;
    }
    if (i >= p->n) return tinyi_tp_fail_at(p, p->at, "a string without its closing quote");
    p->tok.kind = TINYI_TT_STRING;
    p->tok.n = i + 1 - p->at;
    p->at = i + 1;
    p->tok.v = tinyi_tv_view(p->s + from, i - from);
    if (!escapes) return 1;
    for (; from < i; from++) {
        static const char plain[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
        unsigned char utf8[4];
        const char *f;
        char c = p->s[from];
        size_t hex;
        if (c != '\\') { (void)tinyi_tm_put(p->m, &c, 1); continue; }
        c = p->s[++from];
        if (c == '\n') continue;
        hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        for (f = plain; *f && *f != c; f += 2) {}
        if (*f && c) {
            (void)tinyi_tm_put(p->m, f + 1, 1);
        } else if (hex || (c >= '0' && c <= '7')) {
            int ok = 1;
            uint32_t code = 0;
            if (hex) {
                if (i - from - 1 < hex) ok = 0;
                else code = tinyi_tp_hex(p->s + from + 1, hex, &ok);
                from += ok ? hex : 0;
            } else {
                size_t k;
                for (k = 0; k < 3 && from + k < i && p->s[from + k] >= '0' && p->s[from + k] <= '7'; k++) code = code * 8 + (uint32_t)(p->s[from + k] - '0');
                from += k - 1;
            }
            if (!ok || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return tinyi_tp_fail_at(p, p->tok.pos, "a string with a broken escape");
            (void)tinyi_tm_put(p->m, (const char *)utf8, tinyi_utf8_put(code, utf8));
        } else {
            (void)tinyi_tm_put(p->m, "\\", 1);
            (void)tinyi_tm_put(p->m, &c, 1);
        }
    }
    p->tok.v = tinyi_tm_take(p->m, start);
    return !p->m->status;
}

static int tinyi_tp_number(tinyi_tparse *p)
{
    size_t i = p->at, k = 0;
    char text[420];
    int whole = 1, base = 10;
    int c = tinyi_tp_peek(p, i + 1);
    uint64_t v = 0;
    p->tok.kind = TINYI_TT_NUMBER;
    if (p->s[i] == '0' && (c == 'x' || c == 'X' || c == 'b' || c == 'B' || c == 'o' || c == 'O')) {
        base = c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : 2;
        i += 2;
    }
    for (; i < p->n && k < sizeof text - 1; i++) {
        c = (unsigned char)p->s[i];
        if (c == '_' && i > p->at) continue;
        if (base == 10 && whole && c == '.' && tinyi_tp_digit(tinyi_tp_peek(p, i + 1))) whole = 0;
        else if (base == 10 && (c == 'e' || c == 'E') && !memchr(text, 'e', k)) {
            int next = tinyi_tp_peek(p, i + 1), sign = next == '+' || next == '-';
            if (!tinyi_tp_digit(sign ? tinyi_tp_peek(p, i + 2) : next)) break;
            whole = 0;
            text[k++] = 'e';
            if (sign && k < sizeof text - 1) text[k++] = (char)p->s[++i];
            continue;
        } else if (!(base == 16 ? tinyi_tp_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f') : c >= '0' && c < '0' + base)) break;
        text[k++] = (char)c;
    }
    p->tok.n = i - p->at;
    p->at = i;
    if (!whole) {
        double f = 0;
        if (!tinyi_tm_parse_float(text, k, &f)) return tinyi_tp_fail_at(p, p->tok.pos, "a number of more than 400 characters");
        p->tok.v = tinyi_tv_float(f);
        return 1;
    }
    for (i = 0; i < k; i++) {
        unsigned d = tinyi_tp_digit(text[i]) ? (unsigned)(text[i] - '0') : (unsigned)((text[i] | 32) - 'a' + 10);
        if (v > ((uint64_t)INT64_MAX - d) / (unsigned)base) return tinyi_tp_fail_at(p, p->tok.pos, "a whole number of 2^63 or more");
        v = v * (unsigned)base + d;
    }
    p->tok.v = tinyi_tv_int((int64_t)v);
    return 1;
}

/* Takes the next word; the end of the tag is one, after which p->at stands behind it and behind what its sign takes. */
static int tinyi_tp_next(tinyi_tparse *p)
{
    int c, c2;
    char closing = p->variable ? '}' : '%';
    if (p->m->status) return 0;
    while (p->at < p->n && tinyi_tp_blank((unsigned char)p->s[p->at])) p->at++;
    p->tok.pos = p->at;
    p->tok.s = p->s + p->at;
    p->tok.n = 0;
    p->tok.mark = p->tok.trim = 0;
    p->m->pos = p->at;
    if (p->at >= p->n) return tinyi_tp_fail_at(p, p->n, p->variable ? "the template ends inside of {{ }}" : "the template ends inside of {% %}");
    c = (unsigned char)p->s[p->at];
    c2 = tinyi_tp_peek(p, p->at + 1);
    if (!p->brackets) {
        size_t i = p->at + ((c == '-' || (c == '+' && !p->variable)) ? 1 : 0);
        if (tinyi_tp_peek(p, i) == closing && tinyi_tp_peek(p, i + 1) == '}') {
            p->tok.kind = TINYI_TT_END;
            p->tok.trim = i > p->at ? c : 0;
            p->tok.n = i + 2 - p->at;
            p->at = i + 2;
            if (p->tok.trim == '-') while (p->at < p->n && tinyi_tp_blank((unsigned char)p->s[p->at])) p->at++;
            else if (!p->tok.trim && !p->variable && tinyi_tp_peek(p, p->at) == '\n') p->at++;
            p->line_start = p->s[p->at - 1] == '\n';
            return 1;
        }
    }
    if (tinyi_tp_letter(c) || c >= 0x80) {
        while (p->at < p->n && (tinyi_tp_letter((unsigned char)p->s[p->at]) || tinyi_tp_digit(p->s[p->at]) || (unsigned char)p->s[p->at] >= 0x80)) p->at++;
        p->tok.kind = TINYI_TT_NAME;
        p->tok.n = p->at - p->tok.pos;
        return tinyi_tm_work(p->m, 1);
    }
    if (tinyi_tp_digit(c)) return tinyi_tp_number(p);
    if (c == '"' || c == '\'') return tinyi_tp_string(p);
    p->tok.kind = TINYI_TT_MARK;
    p->tok.n = 1;
    p->tok.mark = c;
    if ((c == '/' || c == '*') && c2 == c) p->tok.n = 2;
    if ((c == '=' || c == '!' || c == '<' || c == '>') && c2 == '=') p->tok.n = 2;
    if (p->tok.n == 2) p->tok.mark = c | c2 << 8;
    else if (!c || !strchr("+-*/%~<>=.:|,()[]{}", c)) return tinyi_tp_unexpected(p, "a word of the language");
    if (c == '(' || c == '[' || c == '{') p->brackets++;
    if ((c == ')' || c == ']' || c == '}') && p->brackets) p->brackets--;
    p->at += p->tok.n;
    return 1;
}

#define TINYI_TT2(a, b) ((a) | (b) << 8)
static int tinyi_tp_is(const tinyi_tparse *p, const char *word)
{
    return !p->m->status && p->tok.kind == TINYI_TT_NAME && strlen(word) == p->tok.n && !memcmp(p->tok.s, word, p->tok.n);
}
static int tinyi_tp_mark(const tinyi_tparse *p, int mark) { return !p->m->status && p->tok.kind == TINYI_TT_MARK && p->tok.mark == mark; }
static int tinyi_tp_take(tinyi_tparse *p, int mark, const char *wanted)
{
    if (!tinyi_tp_mark(p, mark)) return tinyi_tp_unexpected(p, wanted);
    return tinyi_tp_next(p);
}

/* ---- expressions -------------------------------------------------------------------------------------------------------- */

static tinyi_topen *tinyi_tp_open(tinyi_tparse *p, int kind, int prec, int op)
{
    tinyi_topen *e;
    if (p->m->status) return NULL;
    if (p->n_open == TLLM_TEMPLATE_MAX_DEPTH) {
        p->m->pos = p->tok.pos;
        (void)tinyi_tm_fail(p->m, TINY_E_FORMAT, "an expression nested more than %d deep", TLLM_TEMPLATE_MAX_DEPTH);
        return NULL;
    }
    e = &p->open[p->n_open++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->prec = prec;
    e->op = op;
    e->jump = -1;
    e->pos = p->tok.pos;
    e->start = kind < TINYI_TE_BINARY && kind != TINYI_TE_IF ? tinyi_tp_emit(p, TINYI_TO_NOP, 0) : -1;
    return e;
}

static void tinyi_tp_call(tinyi_tparse *p, const tinyi_topen *e)
{
    int op = e->kind == TINYI_TE_CALL ? TINYI_TO_CALL : e->kind == TINYI_TE_FILTER ? TINYI_TO_FILTER : TINYI_TO_TEST;
    size_t pos = p->tok.pos;
    int32_t at;
    p->tok.pos = e->pos;
    at = tinyi_tp_emit(p, op, e->count);
    if (!p->m->status) {
        p->t->code[at].b = (uint16_t)e->named;
        p->t->code[at].c = (uint8_t)e->op;
    }
    if (e->negated) (void)tinyi_tp_emit(p, TINYI_TO_NOT, 0);
    p->tok.pos = pos;
}

/* Ends the operators that bind at least as strongly. */
static void tinyi_tp_reduce(tinyi_tparse *p, int prec)
{
    while (!p->m->status && p->n_open) {
        const tinyi_topen *e = &p->open[p->n_open - 1];
        size_t pos = p->tok.pos;
        if (e->kind < TINYI_TE_BINARY || e->prec < prec) return;
        p->tok.pos = e->pos;
        if (e->kind == TINYI_TE_AND || e->kind == TINYI_TE_OR) tinyi_tp_patch(p, e->jump);
        else if (e->kind == TINYI_TE_TEST_ONE) tinyi_tp_call(p, e);
        else (void)tinyi_tp_emit(p, e->op, 0);
        if (e->kind == TINYI_TE_COMPARE) tinyi_tp_patch_all(p, e->jump);
        p->tok.pos = pos;
        p->n_open--;
    }
}

/* Ends operators and conditions down to the bracket, or to the start. */
static void tinyi_tp_settle(tinyi_tparse *p)
{
    for (;;) {
        tinyi_topen *e;
        tinyi_tp_reduce(p, 0);
        if (p->m->status) return;
        e = &p->open[p->n_open - 1];
        if (e->kind == TINYI_TE_IF) {
            (void)tinyi_tp_emit(p, TINYI_TO_JUMP_IF, e->start + 1);
            tinyi_tp_push(p, tinyi_tv_of(TINYI_TM_UNDEFINED));
        } else if (e->kind != TINYI_TE_ELSE) {
            return;
        }
        tinyi_tp_patch(p, e->jump);
        p->n_open--;
    }
}

static int tinyi_tp_binary(const tinyi_tparse *p, int *prec, int *op, int *kind)
{
    static const struct { int mark, prec, op; } row[] = {
        { '+', 5, TINYI_TO_ADD }, { '-', 5, TINYI_TO_SUB }, { '~', 6, TINYI_TO_CONCAT }, { '*', 7, TINYI_TO_MUL }, { '/', 7, TINYI_TO_DIV },
        { TINYI_TT2('/', '/'), 7, TINYI_TO_FLOOR_DIV }, { '%', 7, TINYI_TO_MOD }, { TINYI_TT2('*', '*'), 8, TINYI_TO_POW },
        { TINYI_TT2('=', '='), 4, TINYI_TO_EQ }, { TINYI_TT2('!', '='), 4, TINYI_TO_NE }, { '<', 4, TINYI_TO_LT },
        { TINYI_TT2('<', '='), 4, TINYI_TO_LE }, { '>', 4, TINYI_TO_GT }, { TINYI_TT2('>', '='), 4, TINYI_TO_GE }
    };
    size_t i;
    if (p->tok.kind == TINYI_TT_MARK)
        for (i = 0; i < TINYI_COUNT(row); i++)
            if (row[i].mark == p->tok.mark) {
                *prec = row[i].prec;
                *op = row[i].op;
                *kind = *prec == 4 ? TINYI_TE_COMPARE : TINYI_TE_BINARY;
                return 1;
            }
    *op = TINYI_TO_AND;
    if (tinyi_tp_is(p, "or")) { *prec = 1; *kind = TINYI_TE_OR; return 1; }
    if (tinyi_tp_is(p, "and")) { *prec = 2; *kind = TINYI_TE_AND; return 1; }
    *prec = 4;
    *kind = TINYI_TE_COMPARE;
    if (tinyi_tp_is(p, "in")) { *op = TINYI_TO_IN; return 1; }
    if (tinyi_tp_is(p, "not")) { *op = TINYI_TO_NOT_IN; return 1; }
    return 0;
}

/* name.name... as filters and tests are called; the word behind it is taken */
static int tinyi_tp_dotted(tinyi_tparse *p, const char *what, const char **s, size_t *n)
{
    if (p->m->status || p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, what);
    *s = p->tok.s;
    *n = p->tok.n;
    if (!tinyi_tp_next(p)) return 0;
    while (tinyi_tp_mark(p, '.')) {
        if (!tinyi_tp_next(p)) return 0;
        if (p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, what);
        *n = (size_t)(p->tok.s + p->tok.n - *s);
        if (!tinyi_tp_next(p)) return 0;
    }
    return 1;
}

static int tinyi_tp_filter_id(tinyi_tparse *p, int test, size_t pos, const char *s, size_t n)
{
    int id = test ? tinyi_tm_test(s, n) : tinyi_tm_filter(s, n);
    char shown[80];
    if (id >= 0) return id;
    tinyi_tm_show(s, n, shown);
    p->m->pos = pos;
    (void)tinyi_tm_fail(p->m, TINY_E_FORMAT, test ? "there is no test '%s'" : "there is no filter '%s'", shown);
    return -1;
}

/* After | or is: the name, and the arguments if any. 1: an operand is there, 0: arguments come, or failed. */
static int tinyi_tp_apply(tinyi_tparse *p, int test)
{
    tinyi_topen *e, whole;
    const char *s = "";
    size_t n = 0, pos;
    int id;
    memset(&whole, 0, sizeof whole);
    if (!tinyi_tp_next(p)) return 0;
    if (test && tinyi_tp_is(p, "not")) {
        whole.negated = 1;
        if (!tinyi_tp_next(p)) return 0;
    }
    pos = p->tok.pos;
    if (!tinyi_tp_dotted(p, test ? "the name of a test" : "the name of a filter", &s, &n)) return 0;
    id = tinyi_tp_filter_id(p, test, pos, s, n);
    if (id < 0) return 0;
    if (tinyi_tp_mark(p, '(')) {
        e = tinyi_tp_open(p, test ? TINYI_TE_TEST : TINYI_TE_FILTER, 0, id);
        if (!e) return 0;
        e->negated = whole.negated;
        e->pos = pos;
        (void)tinyi_tp_next(p);
        return 0;
    }
    if (test && (p->tok.kind == TINYI_TT_STRING || p->tok.kind == TINYI_TT_NUMBER || tinyi_tp_mark(p, '[') || tinyi_tp_mark(p, '{') ||
                 (p->tok.kind == TINYI_TT_NAME && !tinyi_tp_is(p, "else") && !tinyi_tp_is(p, "or") && !tinyi_tp_is(p, "and") && !tinyi_tp_is(p, "if") &&
                  !tinyi_tp_is(p, "not") && !tinyi_tp_is(p, "in") && !tinyi_tp_is(p, "recursive")))) {
        if (tinyi_tp_is(p, "is")) return tinyi_tp_unexpected(p, "the argument of a test");
        e = tinyi_tp_open(p, TINYI_TE_TEST_ONE, 10, id);
        if (!e) return 0;
        e->negated = whole.negated;
        e->count = 1;
        e->pos = pos;
        return 0;
    }
    whole.kind = test ? TINYI_TE_TEST : TINYI_TE_FILTER;
    whole.op = id;
    whole.pos = pos;
    tinyi_tp_call(p, &whole);
    return 1;
}

/* name= before an argument */
static int tinyi_tp_named_argument(const tinyi_tparse *p)
{
    size_t i = p->at;
    if (p->tok.kind != TINYI_TT_NAME) return 0;
    while (i < p->n && tinyi_tp_blank((unsigned char)p->s[i])) i++;
    return tinyi_tp_peek(p, i) == '=' && tinyi_tp_peek(p, i + 1) != '=';
}

static int tinyi_tp_is_call(const tinyi_topen *e) { return e->kind == TINYI_TE_CALL || e->kind == TINYI_TE_FILTER || e->kind == TINYI_TE_TEST; }

/* An operand is wanted. 1: there is one. */
static int tinyi_tp_operand(tinyi_tparse *p)
{
    tinyi_topen *e = &p->open[p->n_open - 1];
    if (tinyi_tp_is_call(e) && e->negated < 2 && tinyi_tp_named_argument(p)) {
        e->negated |= 4;                    /* one follows: its value, not another name */
        e->named++;
        tinyi_tp_push(p, tinyi_tv_view(p->tok.s, p->tok.n));
        (void)tinyi_tp_next(p);
        (void)tinyi_tp_next(p);
        e->start = tinyi_tp_emit(p, TINYI_TO_NOP, 0);
        return 0;
    }
    if (p->tok.kind == TINYI_TT_STRING) {
        tinyi_tv v = p->tok.v;
        size_t start = p->m->n_out;
        if (!tinyi_tp_next(p)) return 0;
        if (p->tok.kind == TINYI_TT_STRING) {           /* neighbours are one string */
            (void)tinyi_tm_put(p->m, v.u.s, v.n);
            while (!p->m->status && p->tok.kind == TINYI_TT_STRING) {
                (void)tinyi_tm_put(p->m, p->tok.v.u.s, p->tok.v.n);
                (void)tinyi_tp_next(p);
            }
            v = tinyi_tm_take(p->m, start);
        }
        tinyi_tp_push(p, v);
        return 1;
    }
    if (p->tok.kind == TINYI_TT_NUMBER) {
        tinyi_tp_push(p, p->tok.v);
        (void)tinyi_tp_next(p);
        return 1;
    }
    if (p->tok.kind == TINYI_TT_NAME) {
        if (tinyi_tp_is(p, "not")) {
            (void)tinyi_tp_open(p, TINYI_TE_UNARY, 3, TINYI_TO_NOT);
            (void)tinyi_tp_next(p);
            return 0;
        }
        if (tinyi_tp_is(p, "if") || tinyi_tp_is(p, "else") || tinyi_tp_is(p, "and") || tinyi_tp_is(p, "or") || tinyi_tp_is(p, "in") || tinyi_tp_is(p, "is"))
            return tinyi_tp_unexpected(p, "a value");
        if (tinyi_tp_is(p, "true") || tinyi_tp_is(p, "True")) tinyi_tp_push(p, tinyi_tv_bool(1));
        else if (tinyi_tp_is(p, "false") || tinyi_tp_is(p, "False")) tinyi_tp_push(p, tinyi_tv_bool(0));
        else if (tinyi_tp_is(p, "none") || tinyi_tp_is(p, "None")) tinyi_tp_push(p, tinyi_tv_of(TINYI_TM_NONE));
        else {
            int32_t name = tinyi_tp_name(p, p->tok.s, p->tok.n);
            int i;
            (void)tinyi_tp_emit(p, TINYI_TO_LOAD, name);
            for (i = p->n_blocks - 1; i >= 0 && !p->m->status && (name == TINYI_TN_VARARGS || name == TINYI_TN_KWARGS); i--) {
                if (p->block[i].kind != TINYI_TB_MACRO && p->block[i].kind != TINYI_TB_CALL) continue;
                if (name == TINYI_TN_VARARGS) p->t->macro[p->block[i].macro].varargs = 1;
                else p->t->macro[p->block[i].macro].kwargs = 1;
                break;
            }
        }
        (void)tinyi_tp_next(p);
        return 1;
    }
    if (p->tok.kind == TINYI_TT_MARK) {
        int c = p->tok.mark;
        if (c == '-' || c == '+') (void)tinyi_tp_open(p, TINYI_TE_UNARY, 9, c == '-' ? TINYI_TO_NEG : TINYI_TO_POS);
        else if (c == '(' || c == '[' || c == '{') (void)tinyi_tp_open(p, c == '(' ? TINYI_TE_PAREN : c == '[' ? TINYI_TE_LIST : TINYI_TE_MAP, 0, 0);
        else if (tinyi_tp_is_call(e) && (c == '*' || c == TINYI_TT2('*', '*'))) return tinyi_tp_fail_at(p, p->tok.pos, "arguments by * and ** are not taken");
        else return tinyi_tp_unexpected(p, "a value");
        (void)tinyi_tp_next(p);
        return 0;
    }
    return tinyi_tp_unexpected(p, "a value");
}

/* The bracket at the top ends, with an item before it or not. */
static int tinyi_tp_close(tinyi_tparse *p, int item)
{
    tinyi_topen *e = &p->open[p->n_open - 1];
    int c = p->tok.mark, want = e->kind == TINYI_TE_LIST || e->kind == TINYI_TE_INDEX ? ']' : e->kind == TINYI_TE_MAP ? '}' : ')';
    if (e->kind == TINYI_TE_BASE || c != want) return tinyi_tp_unexpected(p, e->kind == TINYI_TE_BASE ? "the end of the tag" : want == ']' ? "]" : want == '}' ? "}" : ")");
    if (tinyi_tp_is_call(e) && item) {
        if (!(e->negated & 4)) {
            if (e->named) return tinyi_tp_fail_at(p, p->tok.pos, "an argument without a name stands after one with a name");
            e->count++;
        }
        e->negated &= 1;
    } else if (item && e->kind != TINYI_TE_MAP) {
        e->count++;
    }
    switch (e->kind) {
    case TINYI_TE_PAREN:
        if (!e->count) (void)tinyi_tp_emit(p, TINYI_TO_TUPLE, 0);
        else if (e->count > 1 || !item) (void)tinyi_tp_emit(p, TINYI_TO_TUPLE, e->count);
        break;
    case TINYI_TE_LIST: (void)tinyi_tp_emit(p, TINYI_TO_LIST, e->count); break;
    case TINYI_TE_MAP:
        if (item != (e->named == 1)) return tinyi_tp_unexpected(p, item ? ":" : "a value");
        (void)tinyi_tp_emit(p, TINYI_TO_MAP, e->count + item);
        break;
    case TINYI_TE_INDEX:
        if (!e->named && !item) return tinyi_tp_unexpected(p, "an index");
        if (!e->named) {
            (void)tinyi_tp_emit(p, TINYI_TO_INDEX, 0);
            break;
        }
        for (; e->named + 1 - (item ? 0 : 1) < 3; e->named++) tinyi_tp_push(p, tinyi_tv_of(TINYI_TM_NONE));
        (void)tinyi_tp_emit(p, TINYI_TO_SLICE, 0);
        break;
    default:
        if (e->count + e->named > TLLM_TEMPLATE_MAX_ARGS) {
            p->m->pos = e->pos;
            return tinyi_tm_fail(p->m, TINY_E_FORMAT, "a call with %d arguments; the most are %d", (int)(e->count + e->named), TLLM_TEMPLATE_MAX_ARGS);
        }
        tinyi_tp_call(p, e);
    }
    p->n_open--;
    return tinyi_tp_next(p);
}

/* The expression that starts with the word at hand; afterwards the word behind it is at hand. */
static int tinyi_tp_expression(tinyi_tparse *p, int flags)
{
    int bottom = p->n_open, have = 0;
    tinyi_topen *e = tinyi_tp_open(p, TINYI_TE_BASE, 0, 0);
    if (!e) return 0;
    e->op = flags;
    while (!p->m->status) {
        e = &p->open[p->n_open - 1];
        if (!have) {
            /* a closing bracket after nothing or after a comma; a side of a slice that is not there */
            int c = p->tok.kind == TINYI_TT_MARK ? p->tok.mark : 0;
            if ((c == ')' || c == ']' || c == '}') && e->kind >= TINYI_TE_PAREN && e->kind <= TINYI_TE_INDEX && !(tinyi_tp_is_call(e) && (e->negated & 4)) &&
                !(e->kind == TINYI_TE_PAREN && e->named)) {
                have = tinyi_tp_close(p, 0);
            } else if (c == ':' && e->kind == TINYI_TE_INDEX) {
                if (++e->named > 2) return tinyi_tp_unexpected(p, "]");
                tinyi_tp_push(p, tinyi_tv_of(TINYI_TM_NONE));
                (void)tinyi_tp_next(p);
            } else if (e->kind == TINYI_TE_BASE && e->count && p->tok.kind == TINYI_TT_END) {
                (void)tinyi_tp_emit(p, TINYI_TO_TUPLE, e->count);
                p->n_open = bottom;
                return 1;
            } else {
                have = tinyi_tp_operand(p);
            }
            continue;
        }
        if (p->tok.kind == TINYI_TT_MARK) {
            int c = p->tok.mark;
            if (c == '.') {
                if (!tinyi_tp_next(p)) return 0;
                if (p->tok.kind == TINYI_TT_NAME) {
                    (void)tinyi_tp_emit(p, TINYI_TO_ATTR, tinyi_tp_name(p, p->tok.s, p->tok.n));
                } else if (p->tok.kind == TINYI_TT_NUMBER && p->tok.v.type == TINYI_TM_INT) {
                    tinyi_tp_push(p, p->tok.v);
                    (void)tinyi_tp_emit(p, TINYI_TO_INDEX, 0);
                } else {
                    return tinyi_tp_unexpected(p, "the name of a member");
                }
                (void)tinyi_tp_next(p);
                continue;
            }
            if (c == '[' || c == '(') {
                (void)tinyi_tp_open(p, c == '[' ? TINYI_TE_INDEX : TINYI_TE_CALL, 0, 0);
                (void)tinyi_tp_next(p);
                have = 0;
                continue;
            }
            if (c == '|') {
                tinyi_tp_reduce(p, 9);
                have = tinyi_tp_apply(p, 0);
                continue;
            }
            if (c == ')' || c == ']' || c == '}') {
                tinyi_tp_settle(p);
                if (p->m->status) return 0;
                if (p->open[p->n_open - 1].kind == TINYI_TE_BASE) break;
                (void)tinyi_tp_close(p, 1);
                continue;
            }
            if (c == ',') {
                tinyi_tp_settle(p);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                if (e->kind == TINYI_TE_BASE && !(e->op & TINYI_TX_TUPLE)) break;
                if (e->kind == TINYI_TE_INDEX) return tinyi_tp_unexpected(p, "]");
                if (tinyi_tp_is_call(e) && (e->negated & 4)) {
                    e->negated &= 1;
                } else if (tinyi_tp_is_call(e)) {
                    if (e->named) return tinyi_tp_fail_at(p, p->tok.pos, "an argument without a name stands after one with a name");
                    e->count++;
                } else if (e->kind == TINYI_TE_MAP) {
                    if (!e->named) return tinyi_tp_unexpected(p, ":");
                    e->named = 0;
                    e->count++;
                } else {
                    e->count++;
                }
                (void)tinyi_tp_next(p);
                e->start = tinyi_tp_emit(p, TINYI_TO_NOP, 0);
                have = 0;
                continue;
            }
            if (c == ':') {
                tinyi_tp_settle(p);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                if (e->kind == TINYI_TE_MAP && !e->named) e->named = 1;
                else if (e->kind != TINYI_TE_INDEX || ++e->named > 2) return tinyi_tp_unexpected(p, "the end of the expression");
                (void)tinyi_tp_next(p);
                e->start = tinyi_tp_emit(p, TINYI_TO_NOP, 0);
                have = 0;
                continue;
            }
        }
        if (tinyi_tp_is(p, "is")) {
            tinyi_tp_reduce(p, 9);
            have = tinyi_tp_apply(p, 1);
            continue;
        }
        if (tinyi_tp_is(p, "if")) {
            tinyi_tp_reduce(p, 0);
            if (p->m->status) return 0;
            e = &p->open[p->n_open - 1];
            if (e->kind == TINYI_TE_BASE && (e->op & TINYI_TX_NO_IF)) break;
            if (e->kind == TINYI_TE_IF) return tinyi_tp_fail_at(p, p->tok.pos, "an if after an if without else wants parentheses");
            {
                int32_t start = e->start, jump = tinyi_tp_emit(p, TINYI_TO_JUMP, 0);
                if (p->m->status) return 0;
                p->t->code[start].op = TINYI_TO_JUMP;
                p->t->code[start].a = tinyi_tp_here(p);
                e = tinyi_tp_open(p, TINYI_TE_IF, 0, 0);
                if (!e) return 0;
                e->start = start;
                e->jump = jump;
            }
            (void)tinyi_tp_next(p);
            have = 0;
            continue;
        }
        if (tinyi_tp_is(p, "else")) {
            int32_t jump;
            tinyi_tp_reduce(p, 0);
            if (p->m->status) return 0;
            e = &p->open[p->n_open - 1];
            if (e->kind != TINYI_TE_IF) return tinyi_tp_unexpected(p, "the end of the expression");
            (void)tinyi_tp_emit(p, TINYI_TO_JUMP_IF, e->start + 1);
            jump = e->jump;
            p->n_open--;
            e = tinyi_tp_open(p, TINYI_TE_ELSE, 0, 0);
            if (!e) return 0;
            e->jump = jump;
            (void)tinyi_tp_next(p);
            have = 0;
            continue;
        }
        {
            int prec, op, kind;
            if (tinyi_tp_binary(p, &prec, &op, &kind)) {
                int32_t jump = -1;
                if (op == TINYI_TO_NOT_IN) {
                    if (!tinyi_tp_next(p)) return 0;
                    if (!tinyi_tp_is(p, "in")) return tinyi_tp_unexpected(p, "in");
                }
                tinyi_tp_reduce(p, prec == 4 ? 5 : prec);
                if (p->m->status) return 0;
                e = &p->open[p->n_open - 1];
                if (kind == TINYI_TE_COMPARE && e->kind == TINYI_TE_COMPARE) {      /* a < b < c: b stays for the next */
                    jump = tinyi_tp_emit(p, TINYI_TO_CHAIN, e->jump);
                    if (p->m->status) return 0;
                    p->t->code[jump].b = (uint16_t)e->op;
                    e->jump = jump;
                    e->op = op;
                    e->pos = p->tok.pos;
                } else {
                    if (kind == TINYI_TE_AND || kind == TINYI_TE_OR) jump = tinyi_tp_emit(p, kind == TINYI_TE_AND ? TINYI_TO_AND : TINYI_TO_OR, 0);
                    e = tinyi_tp_open(p, kind, prec, op);
                    if (!e) return 0;
                    e->jump = jump;
                }
                (void)tinyi_tp_next(p);
                have = 0;
                continue;
            }
        }
        break;
    }
    if (p->m->status) return 0;
    tinyi_tp_settle(p);
    if (p->m->status) return 0;
    e = &p->open[p->n_open - 1];
    if (e->kind != TINYI_TE_BASE) {
        static const char *const closing[] = { "", ")", "]", "}", ")", ")", ")", "]" };
        return tinyi_tp_unexpected(p, closing[e->kind]);
    }
    if (e->count) (void)tinyi_tp_emit(p, TINYI_TO_TUPLE, e->count + 1);
    p->n_open = bottom;
    return !p->m->status;
}

/* ---- statements --------------------------------------------------------------------------------------------------------------- */

static int tinyi_tp_end_of_tag(tinyi_tparse *p)
{
    if (p->m->status) return 0;
    return p->tok.kind == TINYI_TT_END ? 1 : tinyi_tp_unexpected(p, p->variable ? "}}" : "%}");
}

static tinyi_tblock *tinyi_tp_block(tinyi_tparse *p, int kind, size_t pos)
{
    tinyi_tblock *b;
    if (p->m->status) return NULL;
    if (p->n_blocks == TLLM_TEMPLATE_MAX_DEPTH) {
        p->m->pos = pos;
        (void)tinyi_tm_fail(p->m, TINY_E_FORMAT, "blocks nested more than %d deep", TLLM_TEMPLATE_MAX_DEPTH);
        return NULL;
    }
    b = &p->block[p->n_blocks++];
    memset(b, 0, sizeof *b);
    b->kind = kind;
    b->pos = pos;
    b->next = b->ends = -1;
    return b;
}

/* a, b or (a, b): the names' numbers behind one another in t->param, so that they can be stored into twice */
static int32_t tinyi_tp_targets(tinyi_tparse *p, int32_t *first, int *tuple)
{
    tllm_template *t = p->t;
    int32_t n = 0;
    int paren = tinyi_tp_mark(p, '(');
    *first = (int32_t)t->n_params;
    *tuple = 0;
    if (paren && !tinyi_tp_next(p)) return 0;
    for (;;) {
        void *param = t->param;
        if (p->m->status || p->tok.kind != TINYI_TT_NAME) { (void)tinyi_tp_unexpected(p, "the name of a variable"); return 0; }
        if (tinyi_tp_is(p, "true") || tinyi_tp_is(p, "false") || tinyi_tp_is(p, "none") || tinyi_tp_is(p, "True") || tinyi_tp_is(p, "False") || tinyi_tp_is(p, "None") ||
            tinyi_tp_is(p, "in") || tinyi_tp_is(p, "not") || tinyi_tp_is(p, "and") || tinyi_tp_is(p, "or") || tinyi_tp_is(p, "is") || tinyi_tp_is(p, "if") || tinyi_tp_is(p, "else")) {
            (void)tinyi_tp_unexpected(p, "the name of a variable");
            return 0;
        }
        if (!tinyi_tm_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = tinyi_tp_name(p, p->tok.s, p->tok.n);
        n++;
        if (!tinyi_tp_next(p)) return 0;
        if (!tinyi_tp_mark(p, ',')) break;
        *tuple = 1;
        if (!tinyi_tp_next(p)) return 0;
        if (paren ? tinyi_tp_mark(p, ')') : tinyi_tp_mark(p, '=') || tinyi_tp_is(p, "in")) break;
    }
    if (paren && !tinyi_tp_take(p, ')', ")")) return 0;
    return n;
}

static void tinyi_tp_store(tinyi_tparse *p, int32_t first, int32_t n, int tuple)
{
    int32_t i;
    if (tuple) (void)tinyi_tp_emit(p, TINYI_TO_UNPACK, n);
    for (i = 0; i < n && !p->m->status; i++) (void)tinyi_tp_emit(p, TINYI_TO_STORE, p->t->param[first + i]);
}

static int tinyi_tp_for(tinyi_tparse *p, size_t pos)
{
    tinyi_tblock *b;
    int32_t first, n, back, next;
    int tuple;
    if (!tinyi_tp_next(p)) return 0;
    n = tinyi_tp_targets(p, &first, &tuple);
    if (p->m->status) return 0;
    if (!tinyi_tp_is(p, "in")) return tinyi_tp_unexpected(p, "in");
    if (!tinyi_tp_next(p) || !tinyi_tp_expression(p, TINYI_TX_TUPLE | TINYI_TX_NO_IF)) return 0;
    (void)tinyi_tp_emit(p, TINYI_TO_FOR, 0);
    if (tinyi_tp_is(p, "if")) {
        if (!tinyi_tp_next(p)) return 0;
        back = tinyi_tp_here(p);
        next = tinyi_tp_emit(p, TINYI_TO_FOR_NEXT, 0);
        tinyi_tp_store(p, first, n, tuple);
        if (!tinyi_tp_expression(p, 0)) return 0;
        (void)tinyi_tp_emit(p, TINYI_TO_FOR_KEEP, back);
        tinyi_tp_patch(p, next);
        (void)tinyi_tp_emit(p, TINYI_TO_FOR_KEPT, 0);
        (void)tinyi_tp_emit(p, TINYI_TO_FOR, 0);
    }
    if (tinyi_tp_is(p, "recursive")) return tinyi_tp_fail_at(p, p->tok.pos, "loops that call themselves (recursive) are not taken; a macro can do it");
    b = tinyi_tp_block(p, TINYI_TB_FOR, pos);
    if (!b) return 0;
    b->start = tinyi_tp_here(p);
    b->next = tinyi_tp_emit(p, TINYI_TO_FOR_NEXT, 0);
    tinyi_tp_store(p, first, n, tuple);
    return tinyi_tp_end_of_tag(p);
}

/* (a, b=1): the names, then the code of the defaults */
static int tinyi_tp_params(tinyi_tparse *p, tinyi_tmacro_def *def)
{
    tllm_template *t = p->t;
    int defaults = 0;
    def->first_param = (int32_t)t->n_params;
    if (!tinyi_tp_take(p, '(', "(")) return 0;
    while (!tinyi_tp_mark(p, ')')) {
        void *param = t->param;
        int32_t name, i;
        if (p->m->status || p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, "the name of a parameter");
        name = tinyi_tp_name(p, p->tok.s, p->tok.n);
        for (i = 0; i < def->n_params; i++)
            if (t->param[def->first_param + i] == name) return tinyi_tp_unexpected(p, "a parameter of another name");
        if (def->n_params == TLLM_TEMPLATE_MAX_ARGS) return tinyi_tp_fail_at(p, p->tok.pos, "a macro with more than 100 parameters");
        if (!tinyi_tm_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = name;
        def->n_params++;
        if (!tinyi_tp_next(p)) return 0;
        if (tinyi_tp_mark(p, '=')) {
            int32_t given = tinyi_tp_emit(p, TINYI_TO_DEFAULT, 0);
            defaults = 1;
            if (p->m->status) return 0;
            t->code[given].b = (uint16_t)(def->n_params - 1);
            if (!tinyi_tp_next(p) || !tinyi_tp_expression(p, 0)) return 0;
            (void)tinyi_tp_emit(p, TINYI_TO_STORE, name);
            tinyi_tp_patch(p, given);
        } else if (defaults) {
            return tinyi_tp_unexpected(p, "= and a default, as for the parameter before");
        }
        if (!tinyi_tp_mark(p, ',')) break;
        if (!tinyi_tp_next(p)) return 0;
    }
    return tinyi_tp_take(p, ')', ")");
}

static int tinyi_tp_macro_begin(tinyi_tparse *p, tinyi_tmacro_def *def)
{
    tllm_template *t = p->t;
    void *macro = t->macro;
    if (!tinyi_tm_grow(p->m, &macro, t->n_macros, &t->macro_room, t->n_macros + 1, sizeof *t->macro)) return 0;
    t->macro = (tinyi_tmacro_def *)macro;
    (void)tinyi_tp_emit(p, TINYI_TO_MACRO, (int32_t)t->n_macros);
    def->start = tinyi_tp_here(p);
    t->macro[t->n_macros++] = *def;
    return !p->m->status;
}

static int tinyi_tp_macro(tinyi_tparse *p, size_t pos, int caller)
{
    tllm_template *t = p->t;
    tinyi_tmacro_def def;
    tinyi_tblock *b;
    int32_t index = (int32_t)t->n_macros, a = 0, named = 0;
    memset(&def, 0, sizeof def);
    if (!tinyi_tp_next(p)) return 0;
    if (!caller) {
        if (p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, "the name of a macro");
        def.name = tinyi_tp_name(p, p->tok.s, p->tok.n);
        if (!tinyi_tp_next(p) || !tinyi_tp_macro_begin(p, &def) || !tinyi_tp_params(p, &def)) return 0;
    } else {
        /* The called macro and its arguments come first on the stack; the parameters in front of them in the text become code
         * inside the body, so the text is read twice: parameters skipped, call, parameters. */
        size_t params_at = p->tok.pos, behind;
        int has_params = tinyi_tp_mark(p, '('), depth = 0;
        size_t i, from;
        def.name = TINYI_TN_CALLER;
        if (has_params) {
            do {
                if (tinyi_tp_mark(p, '(')) depth++;
                if (tinyi_tp_mark(p, ')')) depth--;
                if (!tinyi_tp_next(p)) return 0;
            } while (depth && p->tok.kind != TINYI_TT_END);
        }
        from = t->n_code;
        if (!tinyi_tp_expression(p, 0) || !tinyi_tp_end_of_tag(p)) return 0;
        for (i = from; i < t->n_code; i++)              /* no way may lead around the call */
            if ((t->code[i].op >= TINYI_TO_CHAIN && t->code[i].op <= TINYI_TO_OR && t->code[i].a == (int32_t)t->n_code)) break;
        if (i < t->n_code || t->code[t->n_code - 1].op != TINYI_TO_CALL) return tinyi_tp_fail_at(p, pos, "a call block wants the call of a macro");
        a = t->code[t->n_code - 1].a;
        named = t->code[t->n_code - 1].b;
        t->n_code--;
        tinyi_tp_push(p, tinyi_tv_view("caller", 6));
        if (!tinyi_tp_macro_begin(p, &def)) return 0;
        if (has_params) {
            int trim = p->tok.trim, line_start = p->line_start;
            behind = p->at;
            p->at = params_at;
            if (!tinyi_tp_next(p) || !tinyi_tp_params(p, &def)) return 0;
            p->at = behind;
            p->brackets = 0;
            p->tok.kind = TINYI_TT_END;
            p->tok.trim = trim;
            p->line_start = line_start;
        }
    }
    b = tinyi_tp_block(p, caller ? TINYI_TB_CALL : TINYI_TB_MACRO, pos);
    if (!b) return 0;
    t->macro[index].first_param = def.first_param;
    t->macro[index].n_params = def.n_params;
    b->macro = index;
    b->tail_a = a;
    b->tail_b = named + 1;
    return tinyi_tp_end_of_tag(p);
}

/* |name(args)... with the value to come; the code is put behind the body, so that the text is read there again */
static int tinyi_tp_filters(tinyi_tparse *p)
{
    int bottom = p->n_open;
    tinyi_topen *e;
    while (tinyi_tp_mark(p, '|')) {
        e = tinyi_tp_open(p, TINYI_TE_BASE, 0, 0);
        if (!e) return 0;
        if (!tinyi_tp_apply(p, 0)) {
            if (p->m->status) return 0;
            /* arguments: an expression inside of the bracket that stands open */
            while (!p->m->status && p->n_open > bottom + 1) {
                e = &p->open[p->n_open - 1];
                if (tinyi_tp_mark(p, ')')) {
                    (void)tinyi_tp_close(p, 0);
                    continue;
                }
                if (tinyi_tp_named_argument(p)) {
                    e->named++;
                    tinyi_tp_push(p, tinyi_tv_view(p->tok.s, p->tok.n));
                    (void)tinyi_tp_next(p);
                    (void)tinyi_tp_next(p);
                } else if (e->named) {
                    return tinyi_tp_fail_at(p, p->tok.pos, "an argument without a name stands after one with a name");
                } else {
                    e->count++;
                }
                if (!tinyi_tp_expression(p, 0)) return 0;
                if (tinyi_tp_mark(p, ',')) (void)tinyi_tp_next(p);
                else if (!tinyi_tp_mark(p, ')')) return tinyi_tp_unexpected(p, ")");
            }
        }
        p->n_open = bottom;
    }
    return !p->m->status;
}

static int tinyi_tp_set(tinyi_tparse *p, size_t pos)
{
    int32_t first, n, attr = -1;
    int tuple;
    tinyi_tblock *b;
    if (!tinyi_tp_next(p)) return 0;
    n = tinyi_tp_targets(p, &first, &tuple);
    if (p->m->status) return 0;
    if (n == 1 && !tuple && tinyi_tp_mark(p, '.')) {
        if (!tinyi_tp_next(p)) return 0;
        if (p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, "the name of a member");
        attr = tinyi_tp_name(p, p->tok.s, p->tok.n);
        if (!tinyi_tp_next(p)) return 0;
    }
    if (tinyi_tp_mark(p, '=')) {
        if (!tinyi_tp_next(p) || !tinyi_tp_expression(p, TINYI_TX_TUPLE)) return 0;
        if (attr < 0) {
            tinyi_tp_store(p, first, n, tuple);
        } else {
            (void)tinyi_tp_emit(p, TINYI_TO_LOAD, p->t->param[first]);
            (void)tinyi_tp_emit(p, TINYI_TO_STORE_ATTR, attr);
        }
        return tinyi_tp_end_of_tag(p);
    }
    if (tuple) return tinyi_tp_unexpected(p, "=");
    b = tinyi_tp_block(p, TINYI_TB_SET, pos);
    if (!b) return 0;
    b->start = p->t->param[first];
    b->first = attr;
    b->tail_a = (int32_t)p->tok.pos;        /* the filters are read again behind the body */
    if (p->tok.kind != TINYI_TT_END) {
        size_t n_code = p->t->n_code;
        if (!tinyi_tp_mark(p, '|')) return tinyi_tp_unexpected(p, "=");
        b->n_filters = 1;
        if (!tinyi_tp_filters(p)) return 0;
        p->t->n_code = n_code;
    }
    (void)tinyi_tp_emit(p, TINYI_TO_CAPTURE, 0);
    return tinyi_tp_end_of_tag(p);
}

/* Reads the filters of a set or filter block again, now that their value is on the stack. */
static int tinyi_tp_filters_again(tinyi_tparse *p, const tinyi_tblock *b)
{
    size_t behind = p->at;
    int trim = p->tok.trim, line_start = p->line_start, ok;
    if (!b->n_filters) return 1;
    p->at = (size_t)b->tail_a;
    ok = tinyi_tp_next(p);
    if (b->kind == TINYI_TB_FILTER) {
        p->tok.kind = TINYI_TT_MARK;
        p->tok.mark = '|';
    }
    ok = ok && tinyi_tp_filters(p);
    p->at = behind;
    p->brackets = 0;
    p->tok.kind = TINYI_TT_END;
    p->tok.trim = trim;
    p->line_start = line_start;
    return ok;
}

static const char *tinyi_tp_block_name(int kind)
{
    static const char *const name[] = { "if", "for", "set", "filter", "macro", "call", "with", "generation" };
    return name[kind];
}

static int tinyi_tp_close_block(tinyi_tparse *p, size_t pos, const char *s, size_t n)
{
    tinyi_tblock *b = p->n_blocks ? &p->block[p->n_blocks - 1] : NULL;
    const char *name = b ? tinyi_tp_block_name(b->kind) : "";
    if (!b || strlen(name) + 3 != n || memcmp(s + 3, name, n - 3)) {
        char shown[80];
        p->m->pos = pos;
        tinyi_tm_show(s, n, shown);
        if (!b) return tinyi_tm_fail(p->m, TINY_E_FORMAT, "%s ends nothing", shown);
        return tinyi_tm_fail(p->m, TINY_E_FORMAT, "%s stands where end%s should", shown, name);
    }
    if (!tinyi_tp_next(p)) return 0;
    if (b->kind == TINYI_TB_MACRO && p->tok.kind == TINYI_TT_NAME && !tinyi_tp_next(p)) return 0;      /* endmacro may say which */
    if (!tinyi_tp_end_of_tag(p)) return 0;
    switch (b->kind) {
    case TINYI_TB_IF:
        tinyi_tp_patch(p, b->next);
        tinyi_tp_patch_all(p, b->ends);
        break;
    case TINYI_TB_FOR:
        if (b->has_else) {
            (void)tinyi_tp_emit(p, TINYI_TO_SCOPE_END, 0);
            tinyi_tp_patch(p, b->first);
        } else {
            int32_t end;
            (void)tinyi_tp_emit(p, TINYI_TO_FOR_BACK, b->start);
            tinyi_tp_patch(p, b->next);
            tinyi_tp_patch_all(p, b->ends);
            end = tinyi_tp_emit(p, TINYI_TO_FOR_END, 0);
            tinyi_tp_patch(p, end);
        }
        break;
    case TINYI_TB_SET: case TINYI_TB_FILTER:
        (void)tinyi_tp_emit(p, TINYI_TO_CAPTURE_END, 0);
        if (!tinyi_tp_filters_again(p, b)) return 0;
        if (b->kind == TINYI_TB_FILTER) (void)tinyi_tp_emit(p, TINYI_TO_OUT, 0);
        else if (b->first < 0) (void)tinyi_tp_emit(p, TINYI_TO_STORE, b->start);
        else {
            (void)tinyi_tp_emit(p, TINYI_TO_LOAD, b->start);
            (void)tinyi_tp_emit(p, TINYI_TO_STORE_ATTR, b->first);
        }
        break;
    case TINYI_TB_MACRO: case TINYI_TB_CALL:
        (void)tinyi_tp_emit(p, TINYI_TO_RETURN, 0);
        if (p->m->status) return 0;
        p->t->macro[b->macro].end = tinyi_tp_here(p);
        if (b->kind == TINYI_TB_MACRO) {
            (void)tinyi_tp_emit(p, TINYI_TO_STORE, p->t->macro[b->macro].name);
        } else {
            int32_t call = tinyi_tp_emit(p, TINYI_TO_CALL, b->tail_a);
            if (p->m->status) return 0;
            p->t->code[call].b = (uint16_t)b->tail_b;
            (void)tinyi_tp_emit(p, TINYI_TO_OUT, 0);
        }
        break;
    case TINYI_TB_WITH: (void)tinyi_tp_emit(p, TINYI_TO_SCOPE_END, 0); break;
    default: break;
    }
    p->n_blocks--;
    return !p->m->status;
}

static int tinyi_tp_else(tinyi_tparse *p, size_t pos, int elif)
{
    tinyi_tblock *b = p->n_blocks ? &p->block[p->n_blocks - 1] : NULL;
    if (!b || b->has_else || (b->kind != TINYI_TB_IF && (elif || b->kind != TINYI_TB_FOR)))
        return tinyi_tp_fail_at(p, pos, elif ? "elif stands outside of an if, or behind its else" : "else stands outside of an if or a for, or a second time");
    if (!tinyi_tp_next(p)) return 0;
    if (b->kind == TINYI_TB_FOR) {
        (void)tinyi_tp_emit(p, TINYI_TO_FOR_BACK, b->start);
        tinyi_tp_patch(p, b->next);
        tinyi_tp_patch_all(p, b->ends);
        b->first = tinyi_tp_emit(p, TINYI_TO_FOR_END, 0);
        (void)tinyi_tp_emit(p, TINYI_TO_SCOPE, 0);
        b->has_else = 1;
        return tinyi_tp_end_of_tag(p);
    }
    b->ends = tinyi_tp_emit(p, TINYI_TO_JUMP, b->ends);
    tinyi_tp_patch(p, b->next);
    b->next = -1;
    if (elif) {
        if (!tinyi_tp_expression(p, TINYI_TX_TUPLE)) return 0;
        b->next = tinyi_tp_emit(p, TINYI_TO_JUMP_UNLESS, 0);
    } else {
        b->has_else = 1;
    }
    return tinyi_tp_end_of_tag(p);
}

static int tinyi_tp_leave(tinyi_tparse *p, size_t pos, int is_break)
{
    int i = p->n_blocks - 1;
    while (i >= 0 && !(p->block[i].kind == TINYI_TB_FOR && !p->block[i].has_else)) {
        if (p->block[i].kind == TINYI_TB_MACRO || p->block[i].kind == TINYI_TB_CALL) i = 0;
        i--;
    }
    if (i < 0) return tinyi_tp_fail_at(p, pos, is_break ? "break stands outside of a for" : "continue stands outside of a for");
    if (is_break) p->block[i].ends = tinyi_tp_emit(p, TINYI_TO_JUMP, p->block[i].ends);
    else (void)tinyi_tp_emit(p, TINYI_TO_JUMP, p->block[i].start);
    return tinyi_tp_next(p) && tinyi_tp_end_of_tag(p);
}

static int tinyi_tp_with(tinyi_tparse *p, size_t pos)
{
    int32_t first, n = 0;
    tllm_template *t = p->t;
    if (!tinyi_tp_next(p) || !tinyi_tp_block(p, TINYI_TB_WITH, pos)) return 0;
    first = (int32_t)t->n_params;
    while (p->tok.kind == TINYI_TT_NAME) {             /* all values are found before the first name is set */
        void *param = t->param;
        if (!tinyi_tm_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = tinyi_tp_name(p, p->tok.s, p->tok.n);
        n++;
        if (!tinyi_tp_next(p) || !tinyi_tp_take(p, '=', "=") || !tinyi_tp_expression(p, 0)) return 0;
        if (!tinyi_tp_mark(p, ',')) break;
        if (!tinyi_tp_next(p)) return 0;
    }
    (void)tinyi_tp_emit(p, TINYI_TO_SCOPE, 0);
    while (n-- > 0) (void)tinyi_tp_emit(p, TINYI_TO_STORE, t->param[first + n]);
    return tinyi_tp_end_of_tag(p);
}

static void tinyi_tp_text(tinyi_tparse *p, size_t from, size_t to)
{
    if (to <= from) return;
    p->tok.pos = from;
    (void)tinyi_tp_emit(p, TINYI_TO_TEXT, tinyi_tp_konst(p, tinyi_tv_view(p->s + from, to - from)));
}

/* Where the text that ends at a tag ends, by the sign of the tag and by lstrip_blocks. */
static size_t tinyi_tp_strip(const tinyi_tparse *p, size_t from, size_t to, int sign, int is_block)
{
    size_t end = to;
    if (sign == '-') {
        while (end > from && tinyi_tp_blank((unsigned char)p->s[end - 1])) end--;
    } else if (is_block && sign != '+') {
        while (end > from && p->s[end - 1] != '\n' && tinyi_tp_blank((unsigned char)p->s[end - 1])) end--;
        if (!(end > from ? p->s[end - 1] == '\n' : p->line_start)) end = to;
    }
    return end;
}

/* at {% raw %}, whose end was taken: the text up to endraw */
static int tinyi_tp_raw(tinyi_tparse *p, size_t pos)
{
    size_t from = p->at, i = from;
    for (;; i++) {
        const char *b = i < p->n ? (const char *)memchr(p->s + i, '{', p->n - i) : NULL;
        size_t k;
        int sign = 0;
        if (!b) return tinyi_tp_fail_at(p, pos, "raw is never ended by endraw");
        i = (size_t)(b - p->s);
        if (tinyi_tp_peek(p, i + 1) != '%') continue;
        k = i + 2;
        if (tinyi_tp_peek(p, k) == '-' || tinyi_tp_peek(p, k) == '+') sign = p->s[k++];
        if (!tinyi_tm_work(p->m, 1)) return 0;
        while (k < p->n && tinyi_tp_blank((unsigned char)p->s[k])) k++;
        if (p->n - k < 6 || memcmp(p->s + k, "endraw", 6)) continue;
        tinyi_tp_text(p, from, tinyi_tp_strip(p, from, i, sign, 1));
        p->at = k + 6;
        return tinyi_tp_next(p) && tinyi_tp_end_of_tag(p);
    }
}

static int tinyi_tp_statement(tinyi_tparse *p)
{
    static const char *const files[] = { "include", "import", "from", "extends", "block" };
    const char *s = p->tok.s;
    size_t n = p->tok.n, pos = p->tok.pos, i;
    tinyi_tblock *b;
    char shown[80];
    if (p->tok.kind != TINYI_TT_NAME) return tinyi_tp_unexpected(p, "the name of a statement");
    if (tinyi_tp_is(p, "for")) return tinyi_tp_for(p, pos);
    if (tinyi_tp_is(p, "set")) return tinyi_tp_set(p, pos);
    if (tinyi_tp_is(p, "macro")) return tinyi_tp_macro(p, pos, 0);
    if (tinyi_tp_is(p, "call")) return tinyi_tp_macro(p, pos, 1);
    if (tinyi_tp_is(p, "with")) return tinyi_tp_with(p, pos);
    if (tinyi_tp_is(p, "elif") || tinyi_tp_is(p, "else")) return tinyi_tp_else(p, pos, tinyi_tp_is(p, "elif"));
    if (tinyi_tp_is(p, "break") || tinyi_tp_is(p, "continue")) return tinyi_tp_leave(p, pos, tinyi_tp_is(p, "break"));
    if (tinyi_tp_is(p, "if")) {
        if (!tinyi_tp_next(p) || !tinyi_tp_expression(p, TINYI_TX_TUPLE)) return 0;
        b = tinyi_tp_block(p, TINYI_TB_IF, pos);
        if (!b) return 0;
        b->next = tinyi_tp_emit(p, TINYI_TO_JUMP_UNLESS, 0);
        return tinyi_tp_end_of_tag(p);
    }
    if (tinyi_tp_is(p, "filter")) {
        b = tinyi_tp_block(p, TINYI_TB_FILTER, pos);
        if (!b) return 0;
        /* read as if it were |name...: the word filter is the mark */
        b->n_filters = 1;
        b->tail_a = (int32_t)pos;
        p->tok.kind = TINYI_TT_MARK;
        p->tok.mark = '|';
        {
            size_t n_code = p->t->n_code;
            if (!tinyi_tp_filters(p)) return 0;
            p->t->n_code = n_code;
        }
        (void)tinyi_tp_emit(p, TINYI_TO_CAPTURE, 0);
        return tinyi_tp_end_of_tag(p);
    }
    if (tinyi_tp_is(p, "do")) {
        if (!tinyi_tp_next(p) || !tinyi_tp_expression(p, TINYI_TX_TUPLE)) return 0;
        (void)tinyi_tp_emit(p, TINYI_TO_POP, 0);
        return tinyi_tp_end_of_tag(p);
    }
    if (tinyi_tp_is(p, "generation")) {
        if (!tinyi_tp_block(p, TINYI_TB_GENERATION, pos)) return 0;
        return tinyi_tp_next(p) && tinyi_tp_end_of_tag(p);
    }
    if (n > 3 && !memcmp(s, "end", 3)) return tinyi_tp_close_block(p, pos, s, n);
    tinyi_tm_show(s, n, shown);
    p->m->pos = pos;
    for (i = 0; i < TINYI_COUNT(files); i++)
        if (tinyi_tp_is(p, files[i])) return tinyi_tm_fail(p->m, TINY_E_UNSUPPORTED, "the statement %s reads other files, which a chat template has not", shown);
    return tinyi_tm_fail(p->m, TINY_E_FORMAT, "there is no statement '%s'", shown);
}

tiny_status tinyi_tm_compile(tllm_template *t)
{
    tinyi_tm *m = &t->mem;
    tinyi_tparse *p = (tinyi_tparse *)tinyi_alloc(m->ctx, 1, sizeof *p);
    size_t from;
    if (!p) return m->status = tiny_ctx_status(m->ctx);
    memset(p, 0, sizeof *p);
    p->t = t;
    p->m = m;
    p->s = m->source;
    p->n = m->n_source;
    p->line_start = 1;
    (void)tinyi_tp_name(p, "loop", 4);
    (void)tinyi_tp_name(p, "caller", 6);
    (void)tinyi_tp_name(p, "varargs", 7);
    (void)tinyi_tp_name(p, "kwargs", 6);
    while (!m->status && p->at < p->n) {
        size_t i = p->at, text_end;
        int kind = 0, sign = 0;
        from = p->at;
        while (i < p->n) {
            const char *b = (const char *)memchr(p->s + i, '{', p->n - i);
            i = b ? (size_t)(b - p->s) : p->n;
            kind = tinyi_tp_peek(p, i + 1);
            if (!b || kind == '{' || kind == '%' || kind == '#') break;
            i++;
        }
        if (i >= p->n) {
            tinyi_tp_text(p, from, p->n);
            break;
        }
        p->at = i + 2;
        sign = tinyi_tp_peek(p, p->at);
        if (sign == '-' || sign == '+') p->at++;
        else sign = 0;
        text_end = tinyi_tp_strip(p, from, i, sign, kind != '{');
        tinyi_tp_text(p, from, text_end);
        p->tok.pos = i;
        if (kind == '#') {
            size_t k = p->at, first = k;
            for (;;) {
                const char *b = k < p->n ? (const char *)memchr(p->s + k, '#', p->n - k) : NULL;
                if (!b) { (void)tinyi_tp_fail_at(p, i, "a comment without its #}"); break; }
                k = (size_t)(b - p->s);
                if (tinyi_tp_peek(p, k + 1) == '}') break;
                k++;
            }
            if (m->status) break;
            p->at = k + 2;
            if (k > first && p->s[k - 1] == '-') while (p->at < p->n && tinyi_tp_blank((unsigned char)p->s[p->at])) p->at++;
            else if (!(k > first && p->s[k - 1] == '+') && tinyi_tp_peek(p, p->at) == '\n') p->at++;
            p->line_start = p->s[p->at - 1] == '\n';
            continue;
        }
        p->brackets = 0;
        p->variable = kind == '{';
        if (!tinyi_tp_next(p)) break;
        if (p->variable) {
            if (tinyi_tp_expression(p, TINYI_TX_TUPLE)) (void)tinyi_tp_emit(p, TINYI_TO_OUT, 0);
            (void)tinyi_tp_end_of_tag(p);
        } else if (tinyi_tp_is(p, "raw")) {
            size_t pos = p->tok.pos;
            if (tinyi_tp_next(p) && tinyi_tp_end_of_tag(p)) {
                if (!p->tok.trim && p->line_start) p->at--;     /* the newline behind raw stays */
                p->line_start = p->tok.trim ? p->line_start : 0;
                (void)tinyi_tp_raw(p, pos);
            }
        } else {
            (void)tinyi_tp_statement(p);
        }
    }
    if (!m->status && p->n_blocks) {
        const tinyi_tblock *b = &p->block[p->n_blocks - 1];
        m->pos = b->pos;
        (void)tinyi_tm_fail(m, TINY_E_FORMAT, "%s is never ended by end%s", tinyi_tp_block_name(b->kind), tinyi_tp_block_name(b->kind));
    }
    p->tok.pos = p->n;
    (void)tinyi_tp_emit(p, TINYI_TO_END, 0);
    tiny_free(m->ctx, p);
    return m->status;
}
