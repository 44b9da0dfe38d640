/* src/llm/chat/compile.c - statements, and the text between tags
 *
 * Text outside tags follows trim_blocks and lstrip_blocks, as the templates of model files expect. The newline after a
 * block tag is removed, and so are blanks before a block tag that comes first in its line. A - in a tag removes all
 * white space on its side, a + keeps it. */
#include "llm/chat/parse_inside.h"
#include "llm/chat/builtin_inside.h"
#include <string.h>

static int tinyi_parse_end_of_tag(tinyi_tparse *p)
{
    if (p->m->status) return 0;
    return p->tok.kind == TINYI_TOKEN_END ? 1 : tinyi_parse_unexpected(p, p->variable ? "}}" : "%}");
}

static tinyi_tblock *tinyi_parse_block(tinyi_tparse *p, int kind, size_t pos)
{
    tinyi_tblock *b;
    if (p->m->status) return NULL;
    if (p->n_blocks == TLLM_TEMPLATE_MAX_DEPTH) {
        p->m->pos = pos;
        (void)tinyi_doc_fail(p->m, TINY_E_FORMAT, "blocks nested more than %d deep", TLLM_TEMPLATE_MAX_DEPTH);
        return NULL;
    }
    b = &p->block[p->n_blocks++];
    memset(b, 0, sizeof *b);
    b->kind = kind;
    b->pos = pos;
    b->next = b->ends = -1;
    return b;
}

/* a, b or (a, b): appends the numbers of the names to t->param, so that they can be stored into twice */
static int32_t tinyi_parse_targets(tinyi_tparse *p, int32_t *first, int *tuple)
{
    tllm_template *t = p->t;
    int32_t n = 0;
    int paren = tinyi_parse_mark(p, '(');
    *first = (int32_t)t->n_params;
    *tuple = 0;
    if (paren && !tinyi_parse_next(p)) return 0;
    for (;;) {
        void *param = t->param;
        if (p->m->status || p->tok.kind != TINYI_TOKEN_NAME) {
            (void)tinyi_parse_unexpected(p, "the name of a variable");
            return 0;
        }
        if (tinyi_parse_is(p, "true") || tinyi_parse_is(p, "false") || tinyi_parse_is(p, "none") ||
            tinyi_parse_is(p, "True") || tinyi_parse_is(p, "False") || tinyi_parse_is(p, "None") ||
            tinyi_parse_is(p, "in") || tinyi_parse_is(p, "not") || tinyi_parse_is(p, "and") ||
            tinyi_parse_is(p, "or") || tinyi_parse_is(p, "is") || tinyi_parse_is(p, "if") ||
            tinyi_parse_is(p, "else")) {
            (void)tinyi_parse_unexpected(p, "the name of a variable");
            return 0;
        }
        if (!tinyi_doc_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = tinyi_parse_name(p, p->tok.s, p->tok.n);
        n++;
        if (!tinyi_parse_next(p)) return 0;
        if (!tinyi_parse_mark(p, ',')) break;
        *tuple = 1;
        if (!tinyi_parse_next(p)) return 0;
        if (paren ? tinyi_parse_mark(p, ')') : tinyi_parse_mark(p, '=') || tinyi_parse_is(p, "in")) break;
    }
    if (paren && !tinyi_parse_take(p, ')', ")")) return 0;
    return n;
}

static void tinyi_parse_store(tinyi_tparse *p, int32_t first, int32_t n, int tuple)
{
    int32_t i;
    if (tuple) (void)tinyi_parse_emit(p, TINYI_CODE_UNPACK, n);
    for (i = 0; i < n && !p->m->status; i++) (void)tinyi_parse_emit(p, TINYI_CODE_STORE, p->t->param[first + i]);
}

static int tinyi_parse_for(tinyi_tparse *p, size_t pos)
{
    tinyi_tblock *b;
    int32_t first, n, back, next;
    int tuple;
    if (!tinyi_parse_next(p)) return 0;
    n = tinyi_parse_targets(p, &first, &tuple);
    if (p->m->status) return 0;
    if (!tinyi_parse_is(p, "in")) return tinyi_parse_unexpected(p, "in");
    if (!tinyi_parse_next(p) || !tinyi_parse_expression(p, TINYI_EXPR_TUPLE | TINYI_EXPR_NO_IF)) return 0;
    (void)tinyi_parse_emit(p, TINYI_CODE_FOR, 0);
    if (tinyi_parse_is(p, "if")) {
        if (!tinyi_parse_next(p)) return 0;
        back = tinyi_parse_here(p);
        next = tinyi_parse_emit(p, TINYI_CODE_FOR_NEXT, 0);
        tinyi_parse_store(p, first, n, tuple);
        if (!tinyi_parse_expression(p, 0)) return 0;
        (void)tinyi_parse_emit(p, TINYI_CODE_FOR_KEEP, back);
        tinyi_parse_patch(p, next);
        (void)tinyi_parse_emit(p, TINYI_CODE_FOR_KEPT, 0);
        (void)tinyi_parse_emit(p, TINYI_CODE_FOR, 0);
    }
    if (tinyi_parse_is(p, "recursive"))
        return tinyi_parse_fail_at(p, p->tok.pos,
                                   "recursive loops are not supported; use a macro");
    b = tinyi_parse_block(p, TINYI_TAG_FOR, pos);
    if (!b) return 0;
    b->start = tinyi_parse_here(p);
    b->next = tinyi_parse_emit(p, TINYI_CODE_FOR_NEXT, 0);
    tinyi_parse_store(p, first, n, tuple);
    return tinyi_parse_end_of_tag(p);
}

/* (a, b=1): the names, then the code of the defaults */
static int tinyi_parse_params(tinyi_tparse *p, tinyi_tmacro_def *def)
{
    tllm_template *t = p->t;
    int defaults = 0;
    def->first_param = (int32_t)t->n_params;
    if (!tinyi_parse_take(p, '(', "(")) return 0;
    while (!tinyi_parse_mark(p, ')')) {
        void *param = t->param;
        int32_t name, i;
        if (p->m->status || p->tok.kind != TINYI_TOKEN_NAME)
            return tinyi_parse_unexpected(p, "the name of a parameter");
        name = tinyi_parse_name(p, p->tok.s, p->tok.n);
        for (i = 0; i < def->n_params; i++)
            if (t->param[def->first_param + i] == name) return tinyi_parse_unexpected(p, "a parameter of another name");
        if (def->n_params == TLLM_TEMPLATE_MAX_ARGS)
            return tinyi_parse_fail_at(p, p->tok.pos, "a macro with more than 100 parameters");
        if (!tinyi_doc_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = name;
        def->n_params++;
        if (!tinyi_parse_next(p)) return 0;
        if (tinyi_parse_mark(p, '=')) {
            int32_t given = tinyi_parse_emit(p, TINYI_CODE_DEFAULT, 0);
            defaults = 1;
            if (p->m->status) return 0;
            t->code[given].b = (uint16_t)(def->n_params - 1);
            if (!tinyi_parse_next(p) || !tinyi_parse_expression(p, 0)) return 0;
            (void)tinyi_parse_emit(p, TINYI_CODE_STORE, name);
            tinyi_parse_patch(p, given);
        } else if (defaults) {
            return tinyi_parse_unexpected(p, "= and a default, as for the parameter before");
        }
        if (!tinyi_parse_mark(p, ',')) break;
        if (!tinyi_parse_next(p)) return 0;
    }
    return tinyi_parse_take(p, ')', ")");
}

static int tinyi_parse_macro_begin(tinyi_tparse *p, tinyi_tmacro_def *def)
{
    tllm_template *t = p->t;
    void *macro = t->macro;
    if (!tinyi_doc_grow(p->m, &macro, t->n_macros, &t->macro_room, t->n_macros + 1, sizeof *t->macro)) return 0;
    t->macro = (tinyi_tmacro_def *)macro;
    (void)tinyi_parse_emit(p, TINYI_CODE_MACRO, (int32_t)t->n_macros);
    def->start = tinyi_parse_here(p);
    t->macro[t->n_macros++] = *def;
    return !p->m->status;
}

static int tinyi_parse_macro(tinyi_tparse *p, size_t pos, int caller)
{
    tllm_template *t = p->t;
    tinyi_tmacro_def def;
    tinyi_tblock *b;
    int32_t index = (int32_t)t->n_macros, a = 0, named = 0;
    memset(&def, 0, sizeof def);
    if (!tinyi_parse_next(p)) return 0;
    if (!caller) {
        if (p->tok.kind != TINYI_TOKEN_NAME) return tinyi_parse_unexpected(p, "the name of a macro");
        def.name = tinyi_parse_name(p, p->tok.s, p->tok.n);
        if (!tinyi_parse_next(p) || !tinyi_parse_macro_begin(p, &def) || !tinyi_parse_params(p, &def)) return 0;
    } else {
        /* The called macro and its arguments come first on the stack; the parameters in front of them in the text
         * become code inside the body, so the text is read twice: parameters skipped, call, parameters. */
        size_t params_at = p->tok.pos, behind;
        int has_params = tinyi_parse_mark(p, '('), depth = 0;
        size_t i, from;
        def.name = TINYI_NAME_CALLER;
        if (has_params) {
            do {
                if (tinyi_parse_mark(p, '(')) depth++;
                if (tinyi_parse_mark(p, ')')) depth--;
                if (!tinyi_parse_next(p)) return 0;
            } while (depth && p->tok.kind != TINYI_TOKEN_END);
        }
        from = t->n_code;
        if (!tinyi_parse_expression(p, 0) || !tinyi_parse_end_of_tag(p)) return 0;
        for (i = from; i < t->n_code; i++) /* no way may lead around the call */
            if ((t->code[i].op >= TINYI_CODE_CHAIN && t->code[i].op <= TINYI_CODE_OR &&
                 t->code[i].a == (int32_t)t->n_code))
                break;
        if (i < t->n_code || t->code[t->n_code - 1].op != TINYI_CODE_CALL)
            return tinyi_parse_fail_at(p, pos, "a call block needs the call of a macro");
        a = t->code[t->n_code - 1].a;
        named = t->code[t->n_code - 1].b;
        t->n_code--;
        tinyi_parse_push(p, tinyi_tv_view("caller", 6));
        if (!tinyi_parse_macro_begin(p, &def)) return 0;
        if (has_params) {
            int trim = p->tok.trim, line_start = p->line_start;
            behind = p->at;
            p->at = params_at;
            if (!tinyi_parse_next(p) || !tinyi_parse_params(p, &def)) return 0;
            p->at = behind;
            p->brackets = 0;
            p->tok.kind = TINYI_TOKEN_END;
            p->tok.trim = trim;
            p->line_start = line_start;
        }
    }
    b = tinyi_parse_block(p, caller ? TINYI_TAG_CALL : TINYI_TAG_MACRO, pos);
    if (!b) return 0;
    t->macro[index].first_param = def.first_param;
    t->macro[index].n_params = def.n_params;
    b->macro = index;
    b->tail_a = a;
    b->tail_b = named + 1;
    return tinyi_parse_end_of_tag(p);
}

/* |name(args)... with the value to come; the code is put after the body, so that the text is read there again */
static int tinyi_parse_filters(tinyi_tparse *p)
{
    int bottom = p->n_open;
    tinyi_topen *e;
    while (tinyi_parse_mark(p, '|')) {
        e = tinyi_parse_open(p, TINYI_OPEN_BASE, 0, 0);
        if (!e) return 0;
        if (!tinyi_parse_apply(p, 0)) {
            if (p->m->status) return 0;
            /* arguments: an expression inside the open bracket */
            while (!p->m->status && p->n_open > bottom + 1) {
                e = &p->open[p->n_open - 1];
                if (tinyi_parse_mark(p, ')')) {
                    (void)tinyi_parse_close(p, 0);
                    continue;
                }
                if (tinyi_parse_named_argument(p)) {
                    e->named++;
                    tinyi_parse_push(p, tinyi_tv_view(p->tok.s, p->tok.n));
                    (void)tinyi_parse_next(p);
                    (void)tinyi_parse_next(p);
                } else if (e->named) {
                    return tinyi_parse_fail_at(p, p->tok.pos,
                                               "a positional argument after a named one");
                } else {
                    e->count++;
                }
                if (!tinyi_parse_expression(p, 0)) return 0;
                if (tinyi_parse_mark(p, ',')) (void)tinyi_parse_next(p);
                else if (!tinyi_parse_mark(p, ')')) return tinyi_parse_unexpected(p, ")");
            }
        }
        p->n_open = bottom;
    }
    return !p->m->status;
}

static int tinyi_parse_set(tinyi_tparse *p, size_t pos)
{
    int32_t first, n, attr = -1;
    int tuple;
    tinyi_tblock *b;
    if (!tinyi_parse_next(p)) return 0;
    n = tinyi_parse_targets(p, &first, &tuple);
    if (p->m->status) return 0;
    if (n == 1 && !tuple && tinyi_parse_mark(p, '.')) {
        if (!tinyi_parse_next(p)) return 0;
        if (p->tok.kind != TINYI_TOKEN_NAME) return tinyi_parse_unexpected(p, "the name of a member");
        attr = tinyi_parse_name(p, p->tok.s, p->tok.n);
        if (!tinyi_parse_next(p)) return 0;
    }
    if (tinyi_parse_mark(p, '=')) {
        if (!tinyi_parse_next(p) || !tinyi_parse_expression(p, TINYI_EXPR_TUPLE)) return 0;
        if (attr < 0) {
            tinyi_parse_store(p, first, n, tuple);
        } else {
            (void)tinyi_parse_emit(p, TINYI_CODE_LOAD, p->t->param[first]);
            (void)tinyi_parse_emit(p, TINYI_CODE_STORE_ATTR, attr);
        }
        return tinyi_parse_end_of_tag(p);
    }
    if (tuple) return tinyi_parse_unexpected(p, "=");
    b = tinyi_parse_block(p, TINYI_TAG_SET, pos);
    if (!b) return 0;
    b->start = p->t->param[first];
    b->first = attr;
    b->tail_a = (int32_t)p->tok.pos;        /* the filters are read again after the body */
    if (p->tok.kind != TINYI_TOKEN_END) {
        size_t n_code = p->t->n_code;
        if (!tinyi_parse_mark(p, '|')) return tinyi_parse_unexpected(p, "=");
        b->n_filters = 1;
        if (!tinyi_parse_filters(p)) return 0;
        p->t->n_code = n_code;
    }
    (void)tinyi_parse_emit(p, TINYI_CODE_CAPTURE, 0);
    return tinyi_parse_end_of_tag(p);
}

/* Reads the filters of a set or filter block again, now that their value is on the stack. */
static int tinyi_parse_filters_again(tinyi_tparse *p, const tinyi_tblock *b)
{
    size_t behind = p->at;
    int trim = p->tok.trim, line_start = p->line_start, ok;
    if (!b->n_filters) return 1;
    p->at = (size_t)b->tail_a;
    ok = tinyi_parse_next(p);
    if (b->kind == TINYI_TAG_FILTER) {
        p->tok.kind = TINYI_TOKEN_MARK;
        p->tok.mark = '|';
    }
    ok = ok && tinyi_parse_filters(p);
    p->at = behind;
    p->brackets = 0;
    p->tok.kind = TINYI_TOKEN_END;
    p->tok.trim = trim;
    p->line_start = line_start;
    return ok;
}

static const char *tinyi_parse_block_name(int kind)
{
    static const char *const name[] = { "if", "for", "set", "filter", "macro", "call", "with", "generation" };
    return name[kind];
}

static int tinyi_parse_close_block(tinyi_tparse *p, size_t pos, const char *s, size_t n)
{
    tinyi_tblock *b = p->n_blocks ? &p->block[p->n_blocks - 1] : NULL;
    const char *name = b ? tinyi_parse_block_name(b->kind) : "";
    if (!b || strlen(name) + 3 != n || memcmp(s + 3, name, n - 3)) {
        char shown[80];
        p->m->pos = pos;
        tinyi_doc_show(s, n, shown);
        if (!b) return tinyi_doc_fail(p->m, TINY_E_FORMAT, "%s has no block to end", shown);
        return tinyi_doc_fail(p->m, TINY_E_FORMAT, "expected end%s, not %s", name, shown);
    }
    if (!tinyi_parse_next(p)) return 0;
    /* endmacro may say which */
    if (b->kind == TINYI_TAG_MACRO && p->tok.kind == TINYI_TOKEN_NAME && !tinyi_parse_next(p)) return 0;
    if (!tinyi_parse_end_of_tag(p)) return 0;
    switch (b->kind) {
    case TINYI_TAG_IF:
        tinyi_parse_patch(p, b->next);
        tinyi_parse_patch_all(p, b->ends);
        break;
    case TINYI_TAG_FOR:
        if (b->has_else) {
            (void)tinyi_parse_emit(p, TINYI_CODE_SCOPE_END, 0);
            tinyi_parse_patch(p, b->first);
        } else {
            int32_t end;
            (void)tinyi_parse_emit(p, TINYI_CODE_FOR_BACK, b->start);
            tinyi_parse_patch(p, b->next);
            tinyi_parse_patch_all(p, b->ends);
            end = tinyi_parse_emit(p, TINYI_CODE_FOR_END, 0);
            tinyi_parse_patch(p, end);
        }
        break;
    case TINYI_TAG_SET: case TINYI_TAG_FILTER:
        (void)tinyi_parse_emit(p, TINYI_CODE_CAPTURE_END, 0);
        if (!tinyi_parse_filters_again(p, b)) return 0;
        if (b->kind == TINYI_TAG_FILTER) (void)tinyi_parse_emit(p, TINYI_CODE_OUT, 0);
        else if (b->first < 0) (void)tinyi_parse_emit(p, TINYI_CODE_STORE, b->start);
        else {
            (void)tinyi_parse_emit(p, TINYI_CODE_LOAD, b->start);
            (void)tinyi_parse_emit(p, TINYI_CODE_STORE_ATTR, b->first);
        }
        break;
    case TINYI_TAG_MACRO: case TINYI_TAG_CALL:
        (void)tinyi_parse_emit(p, TINYI_CODE_RETURN, 0);
        if (p->m->status) return 0;
        p->t->macro[b->macro].end = tinyi_parse_here(p);
        if (b->kind == TINYI_TAG_MACRO) {
            (void)tinyi_parse_emit(p, TINYI_CODE_STORE, p->t->macro[b->macro].name);
        } else {
            int32_t call = tinyi_parse_emit(p, TINYI_CODE_CALL, b->tail_a);
            if (p->m->status) return 0;
            p->t->code[call].b = (uint16_t)b->tail_b;
            (void)tinyi_parse_emit(p, TINYI_CODE_OUT, 0);
        }
        break;
    case TINYI_TAG_WITH: (void)tinyi_parse_emit(p, TINYI_CODE_SCOPE_END, 0); break;
    default: break;
    }
    p->n_blocks--;
    return !p->m->status;
}

static int tinyi_parse_else(tinyi_tparse *p, size_t pos, int elif)
{
    tinyi_tblock *b = p->n_blocks ? &p->block[p->n_blocks - 1] : NULL;
    if (!b || b->has_else || (b->kind != TINYI_TAG_IF && (elif || b->kind != TINYI_TAG_FOR)))
        return tinyi_parse_fail_at(p, pos,
                                   elif ? "elif outside an if, or after its else"
                                     : "else outside an if or a for, or a second else");
    if (!tinyi_parse_next(p)) return 0;
    if (b->kind == TINYI_TAG_FOR) {
        (void)tinyi_parse_emit(p, TINYI_CODE_FOR_BACK, b->start);
        tinyi_parse_patch(p, b->next);
        tinyi_parse_patch_all(p, b->ends);
        b->first = tinyi_parse_emit(p, TINYI_CODE_FOR_END, 0);
        (void)tinyi_parse_emit(p, TINYI_CODE_SCOPE, 0);
        b->has_else = 1;
        return tinyi_parse_end_of_tag(p);
    }
    b->ends = tinyi_parse_emit(p, TINYI_CODE_JUMP, b->ends);
    tinyi_parse_patch(p, b->next);
    b->next = -1;
    if (elif) {
        if (!tinyi_parse_expression(p, TINYI_EXPR_TUPLE)) return 0;
        b->next = tinyi_parse_emit(p, TINYI_CODE_JUMP_UNLESS, 0);
    } else {
        b->has_else = 1;
    }
    return tinyi_parse_end_of_tag(p);
}

static int tinyi_parse_leave(tinyi_tparse *p, size_t pos, int is_break)
{
    int i = p->n_blocks - 1;
    while (i >= 0 && !(p->block[i].kind == TINYI_TAG_FOR && !p->block[i].has_else)) {
        if (p->block[i].kind == TINYI_TAG_MACRO || p->block[i].kind == TINYI_TAG_CALL) i = 0;
        i--;
    }
    if (i < 0)
        return tinyi_parse_fail_at(p, pos,
                                   is_break ? "break outside a for" : "continue outside a for");
    if (is_break) p->block[i].ends = tinyi_parse_emit(p, TINYI_CODE_JUMP, p->block[i].ends);
    else (void)tinyi_parse_emit(p, TINYI_CODE_JUMP, p->block[i].start);
    return tinyi_parse_next(p) && tinyi_parse_end_of_tag(p);
}

static int tinyi_parse_with(tinyi_tparse *p, size_t pos)
{
    int32_t first, n = 0;
    tllm_template *t = p->t;
    if (!tinyi_parse_next(p) || !tinyi_parse_block(p, TINYI_TAG_WITH, pos)) return 0;
    first = (int32_t)t->n_params;
    while (p->tok.kind == TINYI_TOKEN_NAME) {          /* all values are found before the first name is set */
        void *param = t->param;
        if (!tinyi_doc_grow(p->m, &param, t->n_params, &t->param_room, t->n_params + 1, sizeof *t->param)) return 0;
        t->param = (int32_t *)param;
        t->param[t->n_params++] = tinyi_parse_name(p, p->tok.s, p->tok.n);
        n++;
        if (!tinyi_parse_next(p) || !tinyi_parse_take(p, '=', "=") || !tinyi_parse_expression(p, 0)) return 0;
        if (!tinyi_parse_mark(p, ',')) break;
        if (!tinyi_parse_next(p)) return 0;
    }
    (void)tinyi_parse_emit(p, TINYI_CODE_SCOPE, 0);
    while (n-- > 0) (void)tinyi_parse_emit(p, TINYI_CODE_STORE, t->param[first + n]);
    return tinyi_parse_end_of_tag(p);
}

static void tinyi_parse_text(tinyi_tparse *p, size_t from, size_t to)
{
    if (to <= from) return;
    p->tok.pos = from;
    (void)tinyi_parse_emit(p, TINYI_CODE_TEXT, tinyi_parse_konst(p, tinyi_tv_view(p->s + from, to - from)));
}

/* Where the text that ends at a tag ends, by the sign of the tag and by lstrip_blocks. */
static size_t tinyi_parse_strip(const tinyi_tparse *p, size_t from, size_t to, int sign, int is_block)
{
    size_t end = to;
    if (sign == '-') {
        while (end > from && tinyi_parse_blank((unsigned char)p->s[end - 1])) end--;
    } else if (is_block && sign != '+') {
        while (end > from && p->s[end - 1] != '\n' && tinyi_parse_blank((unsigned char)p->s[end - 1])) end--;
        if (!(end > from ? p->s[end - 1] == '\n' : p->line_start)) end = to;
    }
    return end;
}

/* at {% raw %}, whose end was taken: the text up to endraw */
static int tinyi_parse_raw(tinyi_tparse *p, size_t pos)
{
    size_t from = p->at, i = from;
    for (;; i++) {
        const char *b = i < p->n ? (const char *)memchr(p->s + i, '{', p->n - i) : NULL;
        size_t k;
        int sign = 0;
        if (!b) return tinyi_parse_fail_at(p, pos, "raw without its endraw");
        i = (size_t)(b - p->s);
        if (tinyi_parse_peek(p, i + 1) != '%') continue;
        k = i + 2;
        if (tinyi_parse_peek(p, k) == '-' || tinyi_parse_peek(p, k) == '+') sign = p->s[k++];
        if (!tinyi_doc_work(p->m, 1)) return 0;
        while (k < p->n && tinyi_parse_blank((unsigned char)p->s[k])) k++;
        if (p->n - k < 6 || memcmp(p->s + k, "endraw", 6)) continue;
        tinyi_parse_text(p, from, tinyi_parse_strip(p, from, i, sign, 1));
        p->at = k + 6;
        return tinyi_parse_next(p) && tinyi_parse_end_of_tag(p);
    }
}

static int tinyi_parse_statement(tinyi_tparse *p)
{
    static const char *const files[] = { "include", "import", "from", "extends", "block" };
    const char *s = p->tok.s;
    size_t n = p->tok.n, pos = p->tok.pos, i;
    tinyi_tblock *b;
    char shown[80];
    if (p->tok.kind != TINYI_TOKEN_NAME) return tinyi_parse_unexpected(p, "the name of a statement");
    if (tinyi_parse_is(p, "for")) return tinyi_parse_for(p, pos);
    if (tinyi_parse_is(p, "set")) return tinyi_parse_set(p, pos);
    if (tinyi_parse_is(p, "macro")) return tinyi_parse_macro(p, pos, 0);
    if (tinyi_parse_is(p, "call")) return tinyi_parse_macro(p, pos, 1);
    if (tinyi_parse_is(p, "with")) return tinyi_parse_with(p, pos);
    if (tinyi_parse_is(p, "elif") || tinyi_parse_is(p, "else"))
        return tinyi_parse_else(p, pos, tinyi_parse_is(p, "elif"));
    if (tinyi_parse_is(p, "break") || tinyi_parse_is(p, "continue"))
        return tinyi_parse_leave(p, pos, tinyi_parse_is(p, "break"));
    if (tinyi_parse_is(p, "if")) {
        if (!tinyi_parse_next(p) || !tinyi_parse_expression(p, TINYI_EXPR_TUPLE)) return 0;
        b = tinyi_parse_block(p, TINYI_TAG_IF, pos);
        if (!b) return 0;
        b->next = tinyi_parse_emit(p, TINYI_CODE_JUMP_UNLESS, 0);
        return tinyi_parse_end_of_tag(p);
    }
    if (tinyi_parse_is(p, "filter")) {
        b = tinyi_parse_block(p, TINYI_TAG_FILTER, pos);
        if (!b) return 0;
        /* read as if it were |name...: the word filter is the mark */
        b->n_filters = 1;
        b->tail_a = (int32_t)pos;
        p->tok.kind = TINYI_TOKEN_MARK;
        p->tok.mark = '|';
        {
            size_t n_code = p->t->n_code;
            if (!tinyi_parse_filters(p)) return 0;
            p->t->n_code = n_code;
        }
        (void)tinyi_parse_emit(p, TINYI_CODE_CAPTURE, 0);
        return tinyi_parse_end_of_tag(p);
    }
    if (tinyi_parse_is(p, "do")) {
        if (!tinyi_parse_next(p) || !tinyi_parse_expression(p, TINYI_EXPR_TUPLE)) return 0;
        (void)tinyi_parse_emit(p, TINYI_CODE_POP, 0);
        return tinyi_parse_end_of_tag(p);
    }
    if (tinyi_parse_is(p, "generation")) {
        if (!tinyi_parse_block(p, TINYI_TAG_GENERATION, pos)) return 0;
        return tinyi_parse_next(p) && tinyi_parse_end_of_tag(p);
    }
    if (n > 3 && !memcmp(s, "end", 3)) return tinyi_parse_close_block(p, pos, s, n);
    tinyi_doc_show(s, n, shown);
    p->m->pos = pos;
    for (i = 0; i < TINYI_COUNT(files); i++)
        if (tinyi_parse_is(p, files[i]))
            return tinyi_doc_fail(p->m, TINY_E_UNSUPPORTED,
                                  "the statement %s reads other files, which a chat template cannot", shown);
    return tinyi_doc_fail(p->m, TINY_E_FORMAT, "unknown statement '%s'", shown);
}

tiny_status tinyi_template_compile(tllm_template *t)
{
    tinyi_doc *m = &t->mem;
    tinyi_tparse *p = (tinyi_tparse *)tinyi_alloc(m->ctx, 1, sizeof *p);
    size_t from;
    if (!p) return m->status = tiny_ctx_status(m->ctx);
    memset(p, 0, sizeof *p);
    p->t = t;
    p->m = m;
    p->s = m->source;
    p->n = m->n_source;
    p->line_start = 1;
    (void)tinyi_parse_name(p, "loop", 4);
    (void)tinyi_parse_name(p, "caller", 6);
    (void)tinyi_parse_name(p, "varargs", 7);
    (void)tinyi_parse_name(p, "kwargs", 6);
    while (!m->status && p->at < p->n) {
        size_t i = p->at, text_end;
        int kind = 0, sign = 0;
        from = p->at;
        while (i < p->n) {
            const char *b = (const char *)memchr(p->s + i, '{', p->n - i);
            i = b ? (size_t)(b - p->s) : p->n;
            kind = tinyi_parse_peek(p, i + 1);
            if (!b || kind == '{' || kind == '%' || kind == '#') break;
            i++;
        }
        if (i >= p->n) {
            tinyi_parse_text(p, from, p->n);
            break;
        }
        p->at = i + 2;
        sign = tinyi_parse_peek(p, p->at);
        if (sign == '-' || sign == '+') p->at++;
        else sign = 0;
        text_end = tinyi_parse_strip(p, from, i, sign, kind != '{');
        tinyi_parse_text(p, from, text_end);
        p->tok.pos = i;
        if (kind == '#') {
            size_t k = p->at, first = k;
            for (;;) {
                const char *b = k < p->n ? (const char *)memchr(p->s + k, '#', p->n - k) : NULL;
                if (!b) { (void)tinyi_parse_fail_at(p, i, "a comment without its #}"); break; }
                k = (size_t)(b - p->s);
                if (tinyi_parse_peek(p, k + 1) == '}') break;
                k++;
            }
            if (m->status) break;
            p->at = k + 2;
            if (k > first && p->s[k - 1] == '-')
                while (p->at < p->n && tinyi_parse_blank((unsigned char)p->s[p->at])) p->at++;
            else if (!(k > first && p->s[k - 1] == '+') && tinyi_parse_peek(p, p->at) == '\n') p->at++;
            p->line_start = p->s[p->at - 1] == '\n';
            continue;
        }
        p->brackets = 0;
        p->variable = kind == '{';
        if (!tinyi_parse_next(p)) break;
        if (p->variable) {
            if (tinyi_parse_expression(p, TINYI_EXPR_TUPLE)) (void)tinyi_parse_emit(p, TINYI_CODE_OUT, 0);
            (void)tinyi_parse_end_of_tag(p);
        } else if (tinyi_parse_is(p, "raw")) {
            size_t pos = p->tok.pos;
            if (tinyi_parse_next(p) && tinyi_parse_end_of_tag(p)) {
                if (!p->tok.trim && p->line_start) p->at--;     /* the newline after raw stays */
                p->line_start = p->tok.trim ? p->line_start : 0;
                (void)tinyi_parse_raw(p, pos);
            }
        } else {
            (void)tinyi_parse_statement(p);
        }
    }
    if (!m->status && p->n_blocks) {
        const tinyi_tblock *b = &p->block[p->n_blocks - 1];
        m->pos = b->pos;
        (void)tinyi_doc_fail(m, TINY_E_FORMAT, "%s without its end%s", tinyi_parse_block_name(b->kind),
                             tinyi_parse_block_name(b->kind));
    }
    p->tok.pos = p->n;
    (void)tinyi_parse_emit(p, TINYI_CODE_END, 0);
    tiny_free(m->ctx, p);
    return m->status;
}
