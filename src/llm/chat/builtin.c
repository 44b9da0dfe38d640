/* src/llm/chat/builtin.c - the table of filters, tests, functions and methods; members; tests
 *
 * Each one behaves like the one of the same name in Jinja; lengths and indices of strings count characters.
 *
 * Left out  groupby, batch, slice, wordwrap, truncate, urlize, xmlattr, striptags, pprint, random: no model template
 *           that was seen uses them. */
#include "llm/chat/rows_inside.h"
#include "llm/chat/text_inside.h"
#include "llm/chat/template.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tinyi_template_builtin tinyi_template_rows[] = { { "abs", 1, TINYI_BUILTIN_ABS, 0 },
                                                  { "attr", 1, TINYI_BUILTIN_ATTR, 1 },
                                                  { "capitalize", 1, TINYI_BUILTIN_CAPITALIZE, 0 },
                                                  { "length", 1, TINYI_BUILTIN_LENGTH, 0 },
                                                  { "count", 1, TINYI_BUILTIN_LENGTH, 0 },
                                                  { "default", 1, TINYI_BUILTIN_DEFAULT, 2 },
                                                  { "d", 1, TINYI_BUILTIN_DEFAULT, 2 },
                                                  { "dictsort", 1, TINYI_BUILTIN_DICTSORT, 3 },
                                                  { "escape", 1, TINYI_BUILTIN_ESCAPE, 0 },
                                                  { "e", 1, TINYI_BUILTIN_ESCAPE, 0 },
                                                  { "first", 1, TINYI_BUILTIN_FIRST, 0 },
                                                  { "float", 1, TINYI_BUILTIN_FLOAT, 1 },
                                                  { "format", 1, TINYI_BUILTIN_FORMAT, 100 },
                                                  { "indent", 1, TINYI_BUILTIN_INDENT, 3 },
                                                  { "int", 1, TINYI_BUILTIN_INT, 2 },
                                                  { "items", 1, TINYI_BUILTIN_ITEMS, 0 },
                                                  { "join", 1, TINYI_BUILTIN_JOIN, 2 },
                                                  { "last", 1, TINYI_BUILTIN_LAST, 0 },
                                                  { "list", 1, TINYI_BUILTIN_LIST, 0 },
                                                  { "lower", 1, TINYI_BUILTIN_LOWER, 0 },
                                                  { "map", 1, TINYI_BUILTIN_MAP, 100 },
                                                  { "max", 1, TINYI_BUILTIN_MAX, 2 },
                                                  { "min", 1, TINYI_BUILTIN_MIN, 2 },
                                                  { "reject", 1, TINYI_BUILTIN_REJECT, 100 },
                                                  { "rejectattr", 1, TINYI_BUILTIN_REJECTATTR, 100 },
                                                  { "replace", 1, TINYI_BUILTIN_REPLACE, 3 },
                                                  { "reverse", 1, TINYI_BUILTIN_REVERSE, 0 },
                                                  { "round", 1, TINYI_BUILTIN_ROUND, 2 },
                                                  { "safe", 1, TINYI_BUILTIN_SAFE, 0 },
                                                  { "select", 1, TINYI_BUILTIN_SELECT, 100 },
                                                  { "selectattr", 1, TINYI_BUILTIN_SELECTATTR, 100 },
                                                  { "sort", 1, TINYI_BUILTIN_SORT, 3 },
                                                  { "string", 1, TINYI_BUILTIN_STRING, 0 },
                                                  { "sum", 1, TINYI_BUILTIN_SUM, 2 },
                                                  { "title", 1, TINYI_BUILTIN_TITLE, 0 },
                                                  { "tojson", 1, TINYI_BUILTIN_TOJSON, 4 },
                                                  { "trim", 1, TINYI_BUILTIN_TRIM, 1 },
                                                  { "unique", 1, TINYI_BUILTIN_UNIQUE, 2 },
                                                  { "upper", 1, TINYI_BUILTIN_UPPER, 0 },
                                                  { "wordcount", 1, TINYI_BUILTIN_WORDCOUNT, 0 },
                                                  { "range", 4, TINYI_BUILTIN_FN_RANGE, 3 },
                                                  { "namespace", 4, TINYI_BUILTIN_FN_NAMESPACE, 1 },
                                                  { "dict", 4, TINYI_BUILTIN_FN_DICT, 1 },
                                                  { "raise_exception", 4, TINYI_BUILTIN_FN_RAISE, 1 },
                                                  { "strftime_now", 4, TINYI_BUILTIN_FN_NOW, 1 },
                                                  { "boolean", 2, TINYI_BUILTIN_IS_BOOLEAN, 0 },
                                                  { "callable", 2, TINYI_BUILTIN_IS_CALLABLE, 0 },
                                                  { "defined", 2, TINYI_BUILTIN_IS_DEFINED, 0 },
                                                  { "divisibleby", 2, TINYI_BUILTIN_IS_DIVISIBLE, 1 },
                                                  { "eq", 2, TINYI_BUILTIN_IS_EQ, 1 },
                                                  { "equalto", 2, TINYI_BUILTIN_IS_EQ, 1 },
                                                  { "==", 2, TINYI_BUILTIN_IS_EQ, 1 },
                                                  { "sameas", 2, TINYI_BUILTIN_IS_EQ, 1 },
                                                  { "even", 2, TINYI_BUILTIN_IS_EVEN, 0 },
                                                  { "false", 2, TINYI_BUILTIN_IS_FALSE, 0 },
                                                  { "filter", 2, TINYI_BUILTIN_IS_FILTER, 0 },
                                                  { "float", 2, TINYI_BUILTIN_IS_FLOAT, 0 },
                                                  { "ge", 2, TINYI_BUILTIN_IS_GE, 1 },
                                                  { ">=", 2, TINYI_BUILTIN_IS_GE, 1 },
                                                  { "gt", 2, TINYI_BUILTIN_IS_GT, 1 },
                                                  { "greaterthan", 2, TINYI_BUILTIN_IS_GT, 1 },
                                                  { ">", 2, TINYI_BUILTIN_IS_GT, 1 },
                                                  { "in", 2, TINYI_BUILTIN_IS_IN, 1 },
                                                  { "integer", 2, TINYI_BUILTIN_IS_INTEGER, 0 },
                                                  { "iterable", 2, TINYI_BUILTIN_IS_ITERABLE, 0 },
                                                  { "le", 2, TINYI_BUILTIN_IS_LE, 1 },
                                                  { "<=", 2, TINYI_BUILTIN_IS_LE, 1 },
                                                  { "lower", 2, TINYI_BUILTIN_IS_LOWER, 0 },
                                                  { "lt", 2, TINYI_BUILTIN_IS_LT, 1 },
                                                  { "lessthan", 2, TINYI_BUILTIN_IS_LT, 1 },
                                                  { "<", 2, TINYI_BUILTIN_IS_LT, 1 },
                                                  { "mapping", 2, TINYI_BUILTIN_IS_MAPPING, 0 },
                                                  { "ne", 2, TINYI_BUILTIN_IS_NE, 1 },
                                                  { "!=", 2, TINYI_BUILTIN_IS_NE, 1 },
                                                  { "none", 2, TINYI_BUILTIN_IS_NONE, 0 },
                                                  { "number", 2, TINYI_BUILTIN_IS_NUMBER, 0 },
                                                  { "odd", 2, TINYI_BUILTIN_IS_ODD, 0 },
                                                  { "sequence", 2, TINYI_BUILTIN_IS_SEQUENCE, 0 },
                                                  { "string", 2, TINYI_BUILTIN_IS_STRING, 0 },
                                                  { "test", 2, TINYI_BUILTIN_IS_TEST, 0 },
                                                  { "true", 2, TINYI_BUILTIN_IS_TRUE, 0 },
                                                  { "undefined", 2, TINYI_BUILTIN_IS_UNDEFINED, 0 },
                                                  { "upper", 2, TINYI_BUILTIN_IS_UPPER, 0 },
                                                  { "strip", 8, TINYI_METHOD_STRIP, 1 },
                                                  { "lstrip", 8, TINYI_METHOD_LSTRIP, 1 },
                                                  { "rstrip", 8, TINYI_METHOD_RSTRIP, 1 },
                                                  { "split", 8, TINYI_METHOD_SPLIT, 2 },
                                                  { "rsplit", 8, TINYI_METHOD_RSPLIT, 2 },
                                                  { "splitlines", 8, TINYI_METHOD_SPLITLINES, 1 },
                                                  { "startswith", 8, TINYI_METHOD_STARTSWITH, 3 },
                                                  { "endswith", 8, TINYI_METHOD_ENDSWITH, 3 },
                                                  { "upper", 8, TINYI_METHOD_UPPER, 0 },
                                                  { "lower", 8, TINYI_METHOD_LOWER, 0 },
                                                  { "title", 8, TINYI_METHOD_TITLE, 0 },
                                                  { "capitalize", 8, TINYI_METHOD_CAPITALIZE, 0 },
                                                  { "replace", 8, TINYI_METHOD_REPLACE, 3 },
                                                  { "find", 8, TINYI_METHOD_FIND, 3 },
                                                  { "rfind", 8, TINYI_METHOD_RFIND, 3 },
                                                  { "count", 8 | 16, TINYI_METHOD_COUNT, 1 },
                                                  { "join", 8, TINYI_METHOD_JOIN, 1 },
                                                  { "isdigit", 8, TINYI_METHOD_ISDIGIT, 0 },
                                                  { "isdecimal", 8, TINYI_METHOD_ISDIGIT, 0 },
                                                  { "isnumeric", 8, TINYI_METHOD_ISDIGIT, 0 },
                                                  { "isalpha", 8, TINYI_METHOD_ISALPHA, 0 },
                                                  { "isalnum", 8, TINYI_METHOD_ISALNUM, 0 },
                                                  { "isspace", 8, TINYI_METHOD_ISSPACE, 0 },
                                                  { "isupper", 8, TINYI_METHOD_ISUPPER, 0 },
                                                  { "islower", 8, TINYI_METHOD_ISLOWER, 0 },
                                                  { "removeprefix", 8, TINYI_METHOD_REMOVEPREFIX, 1 },
                                                  { "removesuffix", 8, TINYI_METHOD_REMOVESUFFIX, 1 },
                                                  { "zfill", 8, TINYI_METHOD_ZFILL, 1 },
                                                  { "ljust", 8, TINYI_METHOD_LJUST, 2 },
                                                  { "rjust", 8, TINYI_METHOD_RJUST, 2 },
                                                  { "center", 8, TINYI_METHOD_CENTER, 2 },
                                                  { "format", 8, TINYI_METHOD_FORMAT, 100 },
                                                  { "partition", 8, TINYI_METHOD_PARTITION, 1 },
                                                  { "index", 8 | 16, TINYI_METHOD_INDEX, 1 },
                                                  { "append", 16, TINYI_METHOD_APPEND, 1 },
                                                  { "extend", 16, TINYI_METHOD_EXTEND, 1 },
                                                  { "insert", 16, TINYI_METHOD_INSERT, 2 },
                                                  { "pop", 16 | 32, TINYI_METHOD_POP, 2 },
                                                  { "reverse", 16, TINYI_METHOD_REVERSE, 0 },
                                                  { "copy", 16 | 32, TINYI_METHOD_COPY, 0 },
                                                  { "clear", 16 | 32, TINYI_METHOD_CLEAR, 0 },
                                                  { "get", 32, TINYI_METHOD_GET, 2 },
                                                  { "items", 32, TINYI_METHOD_ITEMS, 0 },
                                                  { "keys", 32, TINYI_METHOD_KEYS, 0 },
                                                  { "values", 32, TINYI_METHOD_VALUES, 0 },
                                                  { "update", 32, TINYI_METHOD_UPDATE, 1 },
                                                  { "setdefault", 32, TINYI_METHOD_SETDEFAULT, 2 },
                                                  { "cycle", 64, TINYI_METHOD_CYCLE, 100 },
                                                  { "changed", 64, TINYI_METHOD_CHANGED, 100 } };

static const tinyi_template_builtin *tinyi_template_row(int kind, const char *s, size_t n)
{
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_template_rows); i++)
        if ((tinyi_template_rows[i].kinds & kind) && tinyi_template_rows[i].name[0] == s[0] &&
            strlen(tinyi_template_rows[i].name) == n && !memcmp(tinyi_template_rows[i].name, s, n))
            return &tinyi_template_rows[i];
    return NULL;
}
TINYI_FN const tinyi_template_builtin *tinyi_template_row_at(int id) { return &tinyi_template_rows[id]; }
static int tinyi_template_id(int kind, const char *s, size_t n)
{
    const tinyi_template_builtin *row = n ? tinyi_template_row(kind, s, n) : NULL;
    return row ? (int)(row - tinyi_template_rows) : -1;
}
int tinyi_template_function(const char *s, size_t n) { return tinyi_template_id(TINYI_KIND_FUNCTION, s, n); }
int tinyi_template_filter(const char *s, size_t n) { return tinyi_template_id(TINYI_KIND_FILTER, s, n); }
int tinyi_template_test(const char *s, size_t n) { return tinyi_template_id(TINYI_KIND_TEST, s, n); }

/* ---- arguments --------------------------------------------------------------------------------------------------- */

TINYI_FN int tinyi_targ(tinyi_targs *a, int i, const char *name, tinyi_tv *v)
{
    int k;
    if (i < a->n) { *v = a->arg[i]; return 1; }
    for (k = 0; k < a->n_named; k++)
        if (tinyi_tv_is(&a->named[2 * k], name)) {
            a->used[k / 32] |= 1u << k % 32;
            *v = a->named[2 * k + 1];
            return 1;
        }
    return 0;
}
TINYI_FN int tinyi_targ_text(tinyi_doc *m, tinyi_targs *a, int i, const char *name, tinyi_tv *v)
{
    if (!tinyi_targ(a, i, name, v) || v->type == TINYI_DOC_NONE) return 0;
    if (v->type == TINYI_DOC_STRING) return 1;
    return tinyi_doc_fail(m, TINY_E_ARGUMENT, "the argument %s is %s, not a string", name, tinyi_tv_type_name(v));
}
TINYI_FN int tinyi_targ_int(tinyi_doc *m, tinyi_targs *a, int i, const char *name, int64_t *v)
{
    tinyi_tv x;
    if (!tinyi_targ(a, i, name, &x) || x.type == TINYI_DOC_NONE) return 0;
    if (x.type != TINYI_DOC_INT && x.type != TINYI_DOC_BOOL)
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "the argument %s is %s, not a whole number", name,
                              tinyi_tv_type_name(&x));
    *v = x.u.i;
    return 1;
}
TINYI_FN int tinyi_targ_true(tinyi_targs *a, int i, const char *name)
{
    tinyi_tv x;
    return tinyi_targ(a, i, name, &x) && tinyi_tv_true(&x);
}
/* Checked before the call for too many arguments, and after it for names that were not read. */
TINYI_FN int tinyi_targ_fit(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_targs *a, int after)
{
    int k;
    char shown[80];
    if (m->status) return 0;
    if (!after && a->n > row->args)
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s takes at most %d arguments, not %d", row->name, row->args, a->n);
    for (k = 0; after && k < a->n_named; k++) {
        if (a->used[k / 32] >> k % 32 & 1) continue;
        tinyi_doc_show(a->named[2 * k].u.s, a->named[2 * k].n, shown);
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s takes no argument named %s", row->name, shown);
    }
    return 1;
}
TINYI_FN int tinyi_targ_want(tinyi_doc *m, const tinyi_template_builtin *row, tinyi_targs *a, int i, const char *name,
                             tinyi_tv *v)
{
    if (tinyi_targ(a, i, name, v)) return 1;
    *v = tinyi_tv_of(TINYI_DOC_UNDEFINED);
    return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s needs the argument %s", row->name, name);
}

int tinyi_template_undefined(tinyi_doc *m, const tinyi_tv *v)
{
    char shown[80];
    tinyi_doc_show(v->n ? v->u.s : "", v->n, shown);
    if (v->n) return tinyi_doc_fail(m, TINY_E_ARGUMENT, "'%s' is undefined", shown);
    return tinyi_doc_fail(m, TINY_E_ARGUMENT, "a value is undefined");
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

TINYI_FN tinyi_tv tinyi_template_no(const char *s, size_t n)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_UNDEFINED);
    v.u.s = s;
    v.n = n;
    return v;
}

static tinyi_tv tinyi_template_loop_member(const tinyi_tv *v, const char *s, size_t n)
{
    static const char *const name[] = { "index",    "index0",    "first",    "last",    "length",
                                        "revindex", "revindex0", "previtem", "nextitem" };
    const tinyi_tloop *l = v->u.loop;
    int64_t i = (int64_t)l->i, count = (int64_t)l->list->n;
    size_t k;
    for (k = 0; k < TINYI_COUNT(name); k++)
        if (strlen(name[k]) == n && !memcmp(name[k], s, n)) break;
    switch (k) {
    case 0: return tinyi_tv_int(i + 1);
    case 1: return tinyi_tv_int(i);
    case 2: return tinyi_tv_bool(i == 0);
    case 3: return tinyi_tv_bool(i + 1 == count);
    case 4: return tinyi_tv_int(count);
    case 5: return tinyi_tv_int(count - i);
    case 6: return tinyi_tv_int(count - i - 1);
    case 7: return i ? l->list->item[i - 1] : tinyi_template_no(s, n);
    case 8: return i + 1 < count ? l->list->item[i + 1] : tinyi_template_no(s, n);
    default: return tinyi_template_no(s, n);
    }
}

static tinyi_tv tinyi_template_method(tinyi_doc *m, const tinyi_tv *v, const char *s, size_t n)
{
    int kind = v->type == TINYI_DOC_STRING ? TINYI_KIND_STRING
               : v->type == TINYI_DOC_LIST ? TINYI_KIND_LIST
               : v->type == TINYI_DOC_MAP  ? TINYI_KIND_MAP
               : v->type == TINYI_DOC_LOOP ? TINYI_KIND_LOOP
                                           : 0;
    int id = kind ? tinyi_template_id(kind, s, n) : -1;
    tinyi_tv method;
    if (id < 0) return tinyi_template_no(s, n);
    method = tinyi_tv_of(TINYI_DOC_METHOD);
    method.id = (uint32_t)id;
    method.u.self = (tinyi_tv *)tinyi_doc_alloc(m, 1, sizeof *v);
    if (!method.u.self) return tinyi_template_no(s, n);
    *method.u.self = *v;
    return method;
}

tinyi_tv tinyi_template_attr(tinyi_doc *m, const tinyi_tv *v, const char *s, size_t n)
{
    const tinyi_tv *found;
    tinyi_tv made;
    switch (v->type) {
    case TINYI_DOC_UNDEFINED: (void)tinyi_template_undefined(m, v); return *v;
    case TINYI_DOC_NAMESPACE:
        found = tinyi_map_find_text(m, v->u.map, s, n);
        return found ? *found : tinyi_template_no(s, n);
    case TINYI_DOC_LOOP:
        made = tinyi_template_loop_member(v, s, n);
        return made.type == TINYI_DOC_UNDEFINED ? tinyi_template_method(m, v, s, n) : made;
    default:
        made = tinyi_template_method(m, v, s, n);
        if (v->type == TINYI_DOC_MAP && made.type == TINYI_DOC_UNDEFINED) {
            found = tinyi_map_find_text(m, v->u.map, s, n);
            if (found) return *found;
        }
        return made;
    }
}

tinyi_tv tinyi_template_index(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *key)
{
    const tinyi_tv *found;
    if (v->type == TINYI_DOC_UNDEFINED) { (void)tinyi_template_undefined(m, v); return *v; }
    if (v->type == TINYI_DOC_MAP || v->type == TINYI_DOC_NAMESPACE) {
        if (key->type == TINYI_DOC_LIST || key->type == TINYI_DOC_MAP || key->type == TINYI_DOC_UNDEFINED)
            return tinyi_template_no("", 0);
        found = tinyi_map_find(m, v->u.map, key);
        if (found) return *found;
    }
    if (v->type == TINYI_DOC_LIST || v->type == TINYI_DOC_STRING) {
        if (key->type == TINYI_DOC_INT || key->type == TINYI_DOC_BOOL) {
            int64_t n = (int64_t)(v->type == TINYI_DOC_LIST ? v->u.list->n : tinyi_string_length(m, v)),
                    i = key->u.i < 0 ? key->u.i + n : key->u.i;
            size_t at, c;
            uint32_t code;
            if (i < 0 || i >= n) return tinyi_template_no("", 0);
            if (v->type == TINYI_DOC_LIST) return v->u.list->item[i];
            at = tinyi_string_place(v, (size_t)i);
            c = tinyi_string_char(v, at, &code);
            return tinyi_string_part(v, at, at + c);
        }
    }
    return key->type == TINYI_DOC_STRING ? tinyi_template_attr(m, v, key->u.s, key->n) : tinyi_template_no("", 0);
}

static int tinyi_template_bound(tinyi_doc *m, const tinyi_tv *v, int64_t *i)
{
    if (v->type == TINYI_DOC_NONE) return 0;
    if (v->type != TINYI_DOC_INT && v->type != TINYI_DOC_BOOL)
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "a bound of a slice is %s, not a whole number",
                              tinyi_tv_type_name(v));
    *i = v->u.i;
    return 1;
}

tinyi_tv tinyi_template_slice(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *from, const tinyi_tv *to,
                              const tinyi_tv *step)
{
    int64_t n, a = 0, b = 0, by = 1, i;
    int has_a, has_b;
    tinyi_tv list, items = *v;
    if (v->type == TINYI_DOC_UNDEFINED) { (void)tinyi_template_undefined(m, v); return *v; }
    if (v->type != TINYI_DOC_LIST && v->type != TINYI_DOC_STRING) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s cannot be sliced", tinyi_tv_type_name(v));
        return *v;
    }
    (void)tinyi_template_bound(m, step, &by);
    has_a = tinyi_template_bound(m, from, &a);
    has_b = tinyi_template_bound(m, to, &b);
    if (!by) (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a slice with a step of 0");
    n = (int64_t)(v->type == TINYI_DOC_LIST ? v->u.list->n : tinyi_string_length(m, v));
    if (m->status) return *v;
    if (a < 0) a = a < -n ? -1 : a + n;     /* below the first: -1 for the while, 0 forward */
    if (b < 0) b = b < -n ? -1 : b + n;
    if (by > 0) {
        a = !has_a ? 0 : a < 0 ? 0 : a > n ? n : a;
        b = !has_b ? n : b < 0 ? 0 : b > n ? n : b;
        if (b < a) b = a;
    } else {
        a = !has_a ? n - 1 : a >= n ? n - 1 : a;
        b = !has_b ? -1 : b >= n ? n - 1 : b;
        if (b > a) b = a;
    }
    if (v->type == TINYI_DOC_STRING && by == 1) {
        size_t p = tinyi_string_place(v, (size_t)a), q = p;
        uint32_t c;
        for (i = a; i < b; i++) q += tinyi_string_char(v, q, &c);
        return tinyi_string_part(v, p, q);
    }
    if (v->type == TINYI_DOC_STRING && !tinyi_tv_items(m, v, &items)) return *v;
    list = tinyi_tv_list(m, 0);
    list.id = v->type == TINYI_DOC_LIST ? v->id : 0;
    if (by < -n - 1) by = -n - 1;
    if (by > n + 1) by = n + 1;
    for (i = a; !m->status && (by > 0 ? i < b : i > b); i += by)
        (void)tinyi_list_add(m, list.u.list, items.u.list->item[i]);
    if (v->type == TINYI_DOC_STRING && !m->status) {
        tinyi_tv nothing = tinyi_tv_view("", 0);
        return tinyi_string_join(m, &nothing, list.u.list);
    }
    return list;
}

/* "function.name", "0": as attribute= takes them */
TINYI_FN tinyi_tv tinyi_template_path(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *path)
{
    tinyi_tv at = *v;
    size_t i = 0, k, d;
    if (path->type == TINYI_DOC_INT) return tinyi_template_index(m, v, path);
    if (path->type != TINYI_DOC_STRING) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "the name of an attribute is %s, not a string",
                             tinyi_tv_type_name(path));
        return at;
    }
    for (;;) {
        tinyi_tv key;
        for (k = i; k < path->n && path->u.s[k] != '.'; k++) {}
        key = tinyi_string_part(path, i, k);
        for (d = i; d < k && path->u.s[d] >= '0' && path->u.s[d] <= '9'; d++) {}
        if (d == k && k > i && k - i < 10) {
            int64_t whole = 0;
            for (d = i; d < k; d++) whole = whole * 10 + (path->u.s[d] - '0');
            key = tinyi_tv_int(whole);
        }
        at = tinyi_template_index(m, &at, &key);
        if (m->status || k == path->n || !tinyi_doc_work(m, 1)) return at;
        i = k + 1;
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

TINYI_FN int tinyi_template_test_case(const tinyi_tv *v, int up)
{
    size_t i, n;
    int any = 0;
    for (i = 0; i < v->n; i += n) {
        uint32_t c;
        int k;
        n = tinyi_string_char(v, i, &c);
        k = tinyi_string_cased(c);
        if (k == -up) return 0;
        any |= k;
    }
    return any != 0;
}
TINYI_FN int tinyi_template_test_all(tinyi_doc *m, const tinyi_tv *v, int id)
{
    size_t i, n;
    (void)tinyi_doc_work(m, v->n);
    for (i = 0; i < v->n; i += n) {
        uint32_t c;
        unsigned kind;
        n = tinyi_string_char(v, i, &c);
        kind = tinyi_unicode_class(c) & (TINYI_UC_SPACE - 1u);
        if (id == TINYI_METHOD_ISSPACE   ? !tinyi_string_space(c)
            : id == TINYI_METHOD_ISDIGIT ? kind != TINYI_UC_N
            : id == TINYI_METHOD_ISALPHA ? kind != TINYI_UC_L
                                     : kind != TINYI_UC_L && kind != TINYI_UC_N)
            return 0;
    }
    return v->n != 0;
}

TINYI_FN int tinyi_template_whole(const tinyi_tv *v) { return v->type == TINYI_DOC_INT || v->type == TINYI_DOC_BOOL; }

TINYI_FN double tinyi_template_floor(double x)
{
    double whole;
    if (!(x > -4.5e15 && x < 4.5e15)) return x;
    whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

int tinyi_template_call_test(tinyi_doc *m, int row_id, const tinyi_tv *v, tinyi_targs *a)
{
    const tinyi_template_builtin *row = &tinyi_template_rows[row_id];
    tinyi_tv x = tinyi_tv_of(TINYI_DOC_UNDEFINED);
    double f;
    int c;
    if (!tinyi_targ_fit(m, row, a, 0) || (row->args && !tinyi_targ_want(m, row, a, 0, "other", &x)) ||
        !tinyi_targ_fit(m, row, a, 1))
        return 0;
    switch (row->id) {
    case TINYI_BUILTIN_IS_BOOLEAN: return v->type == TINYI_DOC_BOOL;
    case TINYI_BUILTIN_IS_CALLABLE:
        return v->type == TINYI_DOC_FUNCTION || v->type == TINYI_DOC_METHOD || v->type == TINYI_DOC_MACRO;
    case TINYI_BUILTIN_IS_DEFINED: return v->type != TINYI_DOC_UNDEFINED;
    case TINYI_BUILTIN_IS_UNDEFINED: return v->type == TINYI_DOC_UNDEFINED;
    case TINYI_BUILTIN_IS_NONE: return v->type == TINYI_DOC_NONE;
    case TINYI_BUILTIN_IS_TRUE: return v->type == TINYI_DOC_BOOL && v->u.i;
    case TINYI_BUILTIN_IS_FALSE: return v->type == TINYI_DOC_BOOL && !v->u.i;
    case TINYI_BUILTIN_IS_FLOAT: return v->type == TINYI_DOC_FLOAT;
    case TINYI_BUILTIN_IS_INTEGER: return v->type == TINYI_DOC_INT;
    case TINYI_BUILTIN_IS_NUMBER: return tinyi_tv_number(v, &f);
    case TINYI_BUILTIN_IS_STRING: return v->type == TINYI_DOC_STRING;
    case TINYI_BUILTIN_IS_MAPPING: return v->type == TINYI_DOC_MAP;
    case TINYI_BUILTIN_IS_SEQUENCE:
        return v->type == TINYI_DOC_LIST || v->type == TINYI_DOC_MAP || v->type == TINYI_DOC_STRING ||
               v->type == TINYI_DOC_UNDEFINED;
    case TINYI_BUILTIN_IS_ITERABLE:
        return v->type == TINYI_DOC_LIST || v->type == TINYI_DOC_MAP || v->type == TINYI_DOC_STRING ||
               v->type == TINYI_DOC_UNDEFINED || v->type == TINYI_DOC_LOOP;
    case TINYI_BUILTIN_IS_FILTER: return v->type == TINYI_DOC_STRING && tinyi_template_filter(v->u.s, v->n) >= 0;
    case TINYI_BUILTIN_IS_TEST: return v->type == TINYI_DOC_STRING && tinyi_template_test(v->u.s, v->n) >= 0;
    case TINYI_BUILTIN_IS_EQ: return tinyi_tv_equal(m, v, &x);
    case TINYI_BUILTIN_IS_NE: return !tinyi_tv_equal(m, v, &x);
    case TINYI_BUILTIN_IS_IN: return tinyi_tv_in(m, v, &x);
    case TINYI_BUILTIN_IS_UPPER: case TINYI_BUILTIN_IS_LOWER: {
        tinyi_tv s = tinyi_tv_string(m, v);
        return tinyi_template_test_case(&s, row->id == TINYI_BUILTIN_IS_UPPER ? 1 : -1);
    }
    case TINYI_BUILTIN_IS_EVEN: case TINYI_BUILTIN_IS_ODD: case TINYI_BUILTIN_IS_DIVISIBLE: {
        int64_t by = row->id == TINYI_BUILTIN_IS_DIVISIBLE ? x.u.i : 2;
        double g = 2;
        if (tinyi_tv_number(v, &f) && (!row->args || tinyi_tv_number(&x, &g)) &&
            !(tinyi_template_whole(v) && (!row->args || tinyi_template_whole(&x))) && g != 0)
            return f - g * tinyi_template_floor(f / g) == (row->id == TINYI_BUILTIN_IS_ODD);
        if (!tinyi_template_whole(v) || (row->args && !tinyi_template_whole(&x)))
            return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s takes whole numbers, not %s", row->name,
                                  tinyi_tv_type_name(tinyi_template_whole(v) ? &x : v));
        if (!by) return tinyi_doc_fail(m, TINY_E_ARGUMENT, "division by 0");
        return by == -1 || (v->u.i % by != 0) == (row->id == TINYI_BUILTIN_IS_ODD);
    }
    default:
        if (v->type == TINYI_DOC_UNDEFINED) return tinyi_template_undefined(m, v);
        c = tinyi_tv_compare(m, v, &x, NULL);
        if (m->status || c == 2) return 0;
        return row->id == TINYI_BUILTIN_IS_LT   ? c < 0
               : row->id == TINYI_BUILTIN_IS_LE ? c <= 0
               : row->id == TINYI_BUILTIN_IS_GT ? c > 0
                                           : c >= 0;
    }
}
