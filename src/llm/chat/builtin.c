/* src/llm/chat/builtin.c
 *
 * They do what Jinja's of the same name do; strings are counted in characters.
 *
 * Left out: groupby, batch, slice, wordwrap, truncate, urlize, xmlattr, striptags, pprint, random: no template of a model
 * was seen to use them.                                                                                               */
#include "llm/chat/builtin.h"
#include "llm/chat/text.h"
#include "llm/chat/template.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TINYI_TF_ABS, TINYI_TF_ATTR, TINYI_TF_CAPITALIZE, TINYI_TF_LENGTH, TINYI_TF_DEFAULT, TINYI_TF_DICTSORT, TINYI_TF_ESCAPE, TINYI_TF_FIRST,
    TINYI_TF_FLOAT, TINYI_TF_FORMAT, TINYI_TF_INDENT, TINYI_TF_INT, TINYI_TF_ITEMS, TINYI_TF_JOIN, TINYI_TF_LAST, TINYI_TF_LIST,
    TINYI_TF_LOWER, TINYI_TF_MAP, TINYI_TF_MAX, TINYI_TF_MIN, TINYI_TF_REJECT, TINYI_TF_REJECTATTR, TINYI_TF_REPLACE, TINYI_TF_REVERSE,
    TINYI_TF_ROUND, TINYI_TF_SAFE, TINYI_TF_SELECT, TINYI_TF_SELECTATTR, TINYI_TF_SORT, TINYI_TF_STRING, TINYI_TF_SUM, TINYI_TF_TITLE,
    TINYI_TF_TOJSON, TINYI_TF_TRIM, TINYI_TF_UNIQUE, TINYI_TF_UPPER, TINYI_TF_WORDCOUNT,
    TINYI_TF_FN_RANGE, TINYI_TF_FN_NAMESPACE, TINYI_TF_FN_DICT, TINYI_TF_FN_RAISE, TINYI_TF_FN_NOW,
    TINYI_TF_IS_BOOLEAN, TINYI_TF_IS_CALLABLE, TINYI_TF_IS_DEFINED, TINYI_TF_IS_DIVISIBLE, TINYI_TF_IS_EQ, TINYI_TF_IS_EVEN, TINYI_TF_IS_FALSE,
    TINYI_TF_IS_FILTER, TINYI_TF_IS_FLOAT, TINYI_TF_IS_GE, TINYI_TF_IS_GT, TINYI_TF_IS_IN, TINYI_TF_IS_INTEGER, TINYI_TF_IS_ITERABLE,
    TINYI_TF_IS_LE, TINYI_TF_IS_LOWER, TINYI_TF_IS_LT, TINYI_TF_IS_MAPPING, TINYI_TF_IS_NE, TINYI_TF_IS_NONE, TINYI_TF_IS_NUMBER, TINYI_TF_IS_ODD,
    TINYI_TF_IS_SEQUENCE, TINYI_TF_IS_STRING, TINYI_TF_IS_TEST, TINYI_TF_IS_TRUE, TINYI_TF_IS_UNDEFINED, TINYI_TF_IS_UPPER
};
enum { TINYI_TR_FILTER = 1, TINYI_TR_TEST = 2, TINYI_TR_FUNCTION = 4, TINYI_TR_STRING = 8, TINYI_TR_LIST = 16, TINYI_TR_MAP = 32, TINYI_TR_LOOP = 64 };
enum {
    TINYI_TN_STRIP, TINYI_TN_LSTRIP, TINYI_TN_RSTRIP, TINYI_TN_SPLIT, TINYI_TN_RSPLIT, TINYI_TN_SPLITLINES, TINYI_TN_STARTSWITH, TINYI_TN_ENDSWITH,
    TINYI_TN_UPPER, TINYI_TN_LOWER, TINYI_TN_TITLE, TINYI_TN_CAPITALIZE, TINYI_TN_REPLACE, TINYI_TN_FIND, TINYI_TN_RFIND, TINYI_TN_COUNT, TINYI_TN_JOIN,
    TINYI_TN_ISDIGIT, TINYI_TN_ISALPHA, TINYI_TN_ISALNUM, TINYI_TN_ISSPACE, TINYI_TN_ISUPPER, TINYI_TN_ISLOWER, TINYI_TN_REMOVEPREFIX,
    TINYI_TN_REMOVESUFFIX, TINYI_TN_ZFILL, TINYI_TN_LJUST, TINYI_TN_RJUST, TINYI_TN_CENTER, TINYI_TN_FORMAT, TINYI_TN_PARTITION, TINYI_TN_INDEX,
    TINYI_TN_APPEND, TINYI_TN_EXTEND, TINYI_TN_INSERT, TINYI_TN_POP, TINYI_TN_REVERSE, TINYI_TN_COPY, TINYI_TN_CLEAR,
    TINYI_TN_GET, TINYI_TN_ITEMS, TINYI_TN_KEYS, TINYI_TN_VALUES, TINYI_TN_UPDATE, TINYI_TN_SETDEFAULT, TINYI_TN_CYCLE, TINYI_TN_CHANGED
};

/* args: the most besides the value */
typedef struct tinyi_tm_builtin { const char *name; unsigned char kinds, id, args; } tinyi_tm_builtin;
static const tinyi_tm_builtin tinyi_tm_rows[] = {
    { "abs", 1, TINYI_TF_ABS, 0 }, { "attr", 1, TINYI_TF_ATTR, 1 }, { "capitalize", 1, TINYI_TF_CAPITALIZE, 0 }, { "length", 1, TINYI_TF_LENGTH, 0 },
    { "count", 1, TINYI_TF_LENGTH, 0 }, { "default", 1, TINYI_TF_DEFAULT, 2 }, { "d", 1, TINYI_TF_DEFAULT, 2 }, { "dictsort", 1, TINYI_TF_DICTSORT, 3 },
    { "escape", 1, TINYI_TF_ESCAPE, 0 }, { "e", 1, TINYI_TF_ESCAPE, 0 }, { "first", 1, TINYI_TF_FIRST, 0 }, { "float", 1, TINYI_TF_FLOAT, 1 },
    { "format", 1, TINYI_TF_FORMAT, 100 }, { "indent", 1, TINYI_TF_INDENT, 3 }, { "int", 1, TINYI_TF_INT, 2 }, { "items", 1, TINYI_TF_ITEMS, 0 },
    { "join", 1, TINYI_TF_JOIN, 2 }, { "last", 1, TINYI_TF_LAST, 0 }, { "list", 1, TINYI_TF_LIST, 0 }, { "lower", 1, TINYI_TF_LOWER, 0 },
    { "map", 1, TINYI_TF_MAP, 100 }, { "max", 1, TINYI_TF_MAX, 2 }, { "min", 1, TINYI_TF_MIN, 2 }, { "reject", 1, TINYI_TF_REJECT, 100 },
    { "rejectattr", 1, TINYI_TF_REJECTATTR, 100 }, { "replace", 1, TINYI_TF_REPLACE, 3 }, { "reverse", 1, TINYI_TF_REVERSE, 0 },
    { "round", 1, TINYI_TF_ROUND, 2 }, { "safe", 1, TINYI_TF_SAFE, 0 }, { "select", 1, TINYI_TF_SELECT, 100 }, { "selectattr", 1, TINYI_TF_SELECTATTR, 100 },
    { "sort", 1, TINYI_TF_SORT, 3 }, { "string", 1, TINYI_TF_STRING, 0 }, { "sum", 1, TINYI_TF_SUM, 2 }, { "title", 1, TINYI_TF_TITLE, 0 },
    { "tojson", 1, TINYI_TF_TOJSON, 4 }, { "trim", 1, TINYI_TF_TRIM, 1 }, { "unique", 1, TINYI_TF_UNIQUE, 2 }, { "upper", 1, TINYI_TF_UPPER, 0 },
    { "wordcount", 1, TINYI_TF_WORDCOUNT, 0 },
    { "range", 4, TINYI_TF_FN_RANGE, 3 }, { "namespace", 4, TINYI_TF_FN_NAMESPACE, 1 }, { "dict", 4, TINYI_TF_FN_DICT, 1 },
    { "raise_exception", 4, TINYI_TF_FN_RAISE, 1 }, { "strftime_now", 4, TINYI_TF_FN_NOW, 1 },
    { "boolean", 2, TINYI_TF_IS_BOOLEAN, 0 }, { "callable", 2, TINYI_TF_IS_CALLABLE, 0 }, { "defined", 2, TINYI_TF_IS_DEFINED, 0 },
    { "divisibleby", 2, TINYI_TF_IS_DIVISIBLE, 1 }, { "eq", 2, TINYI_TF_IS_EQ, 1 }, { "equalto", 2, TINYI_TF_IS_EQ, 1 }, { "==", 2, TINYI_TF_IS_EQ, 1 },
    { "sameas", 2, TINYI_TF_IS_EQ, 1 }, { "even", 2, TINYI_TF_IS_EVEN, 0 }, { "false", 2, TINYI_TF_IS_FALSE, 0 }, { "filter", 2, TINYI_TF_IS_FILTER, 0 },
    { "float", 2, TINYI_TF_IS_FLOAT, 0 }, { "ge", 2, TINYI_TF_IS_GE, 1 }, { ">=", 2, TINYI_TF_IS_GE, 1 }, { "gt", 2, TINYI_TF_IS_GT, 1 },
    { "greaterthan", 2, TINYI_TF_IS_GT, 1 }, { ">", 2, TINYI_TF_IS_GT, 1 }, { "in", 2, TINYI_TF_IS_IN, 1 }, { "integer", 2, TINYI_TF_IS_INTEGER, 0 },
    { "iterable", 2, TINYI_TF_IS_ITERABLE, 0 }, { "le", 2, TINYI_TF_IS_LE, 1 }, { "<=", 2, TINYI_TF_IS_LE, 1 }, { "lower", 2, TINYI_TF_IS_LOWER, 0 },
    { "lt", 2, TINYI_TF_IS_LT, 1 }, { "lessthan", 2, TINYI_TF_IS_LT, 1 }, { "<", 2, TINYI_TF_IS_LT, 1 }, { "mapping", 2, TINYI_TF_IS_MAPPING, 0 },
    { "ne", 2, TINYI_TF_IS_NE, 1 }, { "!=", 2, TINYI_TF_IS_NE, 1 }, { "none", 2, TINYI_TF_IS_NONE, 0 }, { "number", 2, TINYI_TF_IS_NUMBER, 0 },
    { "odd", 2, TINYI_TF_IS_ODD, 0 }, { "sequence", 2, TINYI_TF_IS_SEQUENCE, 0 }, { "string", 2, TINYI_TF_IS_STRING, 0 },
    { "test", 2, TINYI_TF_IS_TEST, 0 }, { "true", 2, TINYI_TF_IS_TRUE, 0 }, { "undefined", 2, TINYI_TF_IS_UNDEFINED, 0 }, { "upper", 2, TINYI_TF_IS_UPPER, 0 },
    { "strip", 8, TINYI_TN_STRIP, 1 }, { "lstrip", 8, TINYI_TN_LSTRIP, 1 }, { "rstrip", 8, TINYI_TN_RSTRIP, 1 }, { "split", 8, TINYI_TN_SPLIT, 2 },
    { "rsplit", 8, TINYI_TN_RSPLIT, 2 }, { "splitlines", 8, TINYI_TN_SPLITLINES, 1 }, { "startswith", 8, TINYI_TN_STARTSWITH, 3 },
    { "endswith", 8, TINYI_TN_ENDSWITH, 3 }, { "upper", 8, TINYI_TN_UPPER, 0 }, { "lower", 8, TINYI_TN_LOWER, 0 }, { "title", 8, TINYI_TN_TITLE, 0 },
    { "capitalize", 8, TINYI_TN_CAPITALIZE, 0 }, { "replace", 8, TINYI_TN_REPLACE, 3 }, { "find", 8, TINYI_TN_FIND, 3 }, { "rfind", 8, TINYI_TN_RFIND, 3 },
    { "count", 8 | 16, TINYI_TN_COUNT, 1 }, { "join", 8, TINYI_TN_JOIN, 1 }, { "isdigit", 8, TINYI_TN_ISDIGIT, 0 }, { "isdecimal", 8, TINYI_TN_ISDIGIT, 0 },
    { "isnumeric", 8, TINYI_TN_ISDIGIT, 0 }, { "isalpha", 8, TINYI_TN_ISALPHA, 0 }, { "isalnum", 8, TINYI_TN_ISALNUM, 0 },
    { "isspace", 8, TINYI_TN_ISSPACE, 0 }, { "isupper", 8, TINYI_TN_ISUPPER, 0 }, { "islower", 8, TINYI_TN_ISLOWER, 0 },
    { "removeprefix", 8, TINYI_TN_REMOVEPREFIX, 1 }, { "removesuffix", 8, TINYI_TN_REMOVESUFFIX, 1 }, { "zfill", 8, TINYI_TN_ZFILL, 1 },
    { "ljust", 8, TINYI_TN_LJUST, 2 }, { "rjust", 8, TINYI_TN_RJUST, 2 }, { "center", 8, TINYI_TN_CENTER, 2 }, { "format", 8, TINYI_TN_FORMAT, 100 },
    { "partition", 8, TINYI_TN_PARTITION, 1 }, { "index", 8 | 16, TINYI_TN_INDEX, 1 },
    { "append", 16, TINYI_TN_APPEND, 1 }, { "extend", 16, TINYI_TN_EXTEND, 1 }, { "insert", 16, TINYI_TN_INSERT, 2 }, { "pop", 16 | 32, TINYI_TN_POP, 2 },
    { "reverse", 16, TINYI_TN_REVERSE, 0 }, { "copy", 16 | 32, TINYI_TN_COPY, 0 }, { "clear", 16 | 32, TINYI_TN_CLEAR, 0 },
    { "get", 32, TINYI_TN_GET, 2 }, { "items", 32, TINYI_TN_ITEMS, 0 }, { "keys", 32, TINYI_TN_KEYS, 0 }, { "values", 32, TINYI_TN_VALUES, 0 },
    { "update", 32, TINYI_TN_UPDATE, 1 }, { "setdefault", 32, TINYI_TN_SETDEFAULT, 2 }, { "cycle", 64, TINYI_TN_CYCLE, 100 },
    { "changed", 64, TINYI_TN_CHANGED, 100 }
};

static const tinyi_tm_builtin *tinyi_tm_row(int kind, const char *s, size_t n)
{
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_tm_rows); i++)
        if ((tinyi_tm_rows[i].kinds & kind) && tinyi_tm_rows[i].name[0] == s[0] && strlen(tinyi_tm_rows[i].name) == n && !memcmp(tinyi_tm_rows[i].name, s, n)) return &tinyi_tm_rows[i];
    return NULL;
}
static int tinyi_tm_id(int kind, const char *s, size_t n)
{
    const tinyi_tm_builtin *row = n ? tinyi_tm_row(kind, s, n) : NULL;
    return row ? (int)(row - tinyi_tm_rows) : -1;
}
int tinyi_tm_function(const char *s, size_t n) { return tinyi_tm_id(TINYI_TR_FUNCTION, s, n); }
int tinyi_tm_filter(const char *s, size_t n) { return tinyi_tm_id(TINYI_TR_FILTER, s, n); }
int tinyi_tm_test(const char *s, size_t n) { return tinyi_tm_id(TINYI_TR_TEST, s, n); }

/* ---- arguments ----------------------------------------------------------------------------------------------------- */

static int tinyi_targ(tinyi_targs *a, int i, const char *name, tinyi_tv *v)
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
static int tinyi_targ_text(tinyi_tm *m, tinyi_targs *a, int i, const char *name, tinyi_tv *v)
{
    if (!tinyi_targ(a, i, name, v) || v->type == TINYI_TM_NONE) return 0;
    if (v->type == TINYI_TM_STRING) return 1;
    return tinyi_tm_fail(m, TINY_E_ARGUMENT, "the argument %s is %s, not a string", name, tinyi_tv_type_name(v));
}
static int tinyi_targ_int(tinyi_tm *m, tinyi_targs *a, int i, const char *name, int64_t *v)
{
    tinyi_tv x;
    if (!tinyi_targ(a, i, name, &x) || x.type == TINYI_TM_NONE) return 0;
    if (x.type != TINYI_TM_INT && x.type != TINYI_TM_BOOL) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "the argument %s is %s, not a whole number", name, tinyi_tv_type_name(&x));
    *v = x.u.i;
    return 1;
}
static int tinyi_targ_true(tinyi_targs *a, int i, const char *name)
{
    tinyi_tv x;
    return tinyi_targ(a, i, name, &x) && tinyi_tv_true(&x);
}
/* Asked before the call for too many, and after it for names that nobody asked for. */
static int tinyi_targ_fit(tinyi_tm *m, const tinyi_tm_builtin *row, const tinyi_targs *a, int after)
{
    int k;
    char shown[80];
    if (m->status) return 0;
    if (!after && a->n > row->args) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s takes at most %d arguments, not %d", row->name, row->args, a->n);
    for (k = 0; after && k < a->n_named; k++) {
        if (a->used[k / 32] >> k % 32 & 1) continue;
        tinyi_tm_show(a->named[2 * k].u.s, a->named[2 * k].n, shown);
        return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s takes no argument named %s", row->name, shown);
    }
    return 1;
}
static int tinyi_targ_want(tinyi_tm *m, const tinyi_tm_builtin *row, tinyi_targs *a, int i, const char *name, tinyi_tv *v)
{
    if (tinyi_targ(a, i, name, v)) return 1;
    *v = tinyi_tv_of(TINYI_TM_UNDEFINED);
    return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s wants the argument %s", row->name, name);
}

int tinyi_tm_undefined(tinyi_tm *m, const tinyi_tv *v)
{
    char shown[80];
    tinyi_tm_show(v->n ? v->u.s : "", v->n, shown);
    if (v->n) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "'%s' is undefined", shown);
    return tinyi_tm_fail(m, TINY_E_ARGUMENT, "a value is undefined");
}

/* ---- members --------------------------------------------------------------------------------------------------------------- */

static tinyi_tv tinyi_tm_no(const char *s, size_t n)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_UNDEFINED);
    v.u.s = s;
    v.n = n;
    return v;
}

static tinyi_tv tinyi_tm_loop_member(const tinyi_tv *v, const char *s, size_t n)
{
    static const char *const name[] = { "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem" };
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
    case 7: return i ? l->list->item[i - 1] : tinyi_tm_no(s, n);
    case 8: return i + 1 < count ? l->list->item[i + 1] : tinyi_tm_no(s, n);
    default: return tinyi_tm_no(s, n);
    }
}

static tinyi_tv tinyi_tm_method(tinyi_tm *m, const tinyi_tv *v, const char *s, size_t n)
{
    int kind = v->type == TINYI_TM_STRING ? TINYI_TR_STRING : v->type == TINYI_TM_LIST ? TINYI_TR_LIST : v->type == TINYI_TM_MAP ? TINYI_TR_MAP :
               v->type == TINYI_TM_LOOP ? TINYI_TR_LOOP : 0;
    int id = kind ? tinyi_tm_id(kind, s, n) : -1;
    tinyi_tv method;
    if (id < 0) return tinyi_tm_no(s, n);
    method = tinyi_tv_of(TINYI_TM_METHOD);
    method.id = (uint32_t)id;
    method.u.self = (tinyi_tv *)tinyi_tm_alloc(m, 1, sizeof *v);
    if (!method.u.self) return tinyi_tm_no(s, n);
    *method.u.self = *v;
    return method;
}

tinyi_tv tinyi_tm_attr(tinyi_tm *m, const tinyi_tv *v, const char *s, size_t n)
{
    const tinyi_tv *found;
    tinyi_tv made;
    switch (v->type) {
    case TINYI_TM_UNDEFINED: (void)tinyi_tm_undefined(m, v); return *v;
    case TINYI_TM_NAMESPACE:
        found = tinyi_map_find_text(m, v->u.map, s, n);
        return found ? *found : tinyi_tm_no(s, n);
    case TINYI_TM_LOOP:
        made = tinyi_tm_loop_member(v, s, n);
        return made.type == TINYI_TM_UNDEFINED ? tinyi_tm_method(m, v, s, n) : made;
    default:
        made = tinyi_tm_method(m, v, s, n);
        if (v->type == TINYI_TM_MAP && made.type == TINYI_TM_UNDEFINED) {
            found = tinyi_map_find_text(m, v->u.map, s, n);
            if (found) return *found;
        }
        return made;
    }
}

tinyi_tv tinyi_tm_index(tinyi_tm *m, const tinyi_tv *v, const tinyi_tv *key)
{
    const tinyi_tv *found;
    if (v->type == TINYI_TM_UNDEFINED) { (void)tinyi_tm_undefined(m, v); return *v; }
    if (v->type == TINYI_TM_MAP || v->type == TINYI_TM_NAMESPACE) {
        if (key->type == TINYI_TM_LIST || key->type == TINYI_TM_MAP || key->type == TINYI_TM_UNDEFINED) return tinyi_tm_no("", 0);
        found = tinyi_map_find(m, v->u.map, key);
        if (found) return *found;
    }
    if (v->type == TINYI_TM_LIST || v->type == TINYI_TM_STRING) {
        if (key->type == TINYI_TM_INT || key->type == TINYI_TM_BOOL) {
            int64_t n = (int64_t)(v->type == TINYI_TM_LIST ? v->u.list->n : tinyi_ts_length(m, v)), i = key->u.i < 0 ? key->u.i + n : key->u.i;
            size_t at, c;
            uint32_t code;
            if (i < 0 || i >= n) return tinyi_tm_no("", 0);
            if (v->type == TINYI_TM_LIST) return v->u.list->item[i];
            at = tinyi_ts_place(v, (size_t)i);
            c = tinyi_ts_char(v, at, &code);
            return tinyi_ts_part(v, at, at + c);
        }
    }
    return key->type == TINYI_TM_STRING ? tinyi_tm_attr(m, v, key->u.s, key->n) : tinyi_tm_no("", 0);
}

static int tinyi_tm_bound(tinyi_tm *m, const tinyi_tv *v, int64_t *i)
{
    if (v->type == TINYI_TM_NONE) return 0;
    if (v->type != TINYI_TM_INT && v->type != TINYI_TM_BOOL) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "a side of a slice is %s, not a whole number", tinyi_tv_type_name(v));
    *i = v->u.i;
    return 1;
}

tinyi_tv tinyi_tm_slice(tinyi_tm *m, const tinyi_tv *v, const tinyi_tv *from, const tinyi_tv *to, const tinyi_tv *step)
{
    int64_t n, a = 0, b = 0, by = 1, i;
    int has_a, has_b;
    tinyi_tv list, items = *v;
    if (v->type == TINYI_TM_UNDEFINED) { (void)tinyi_tm_undefined(m, v); return *v; }
    if (v->type != TINYI_TM_LIST && v->type != TINYI_TM_STRING) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "a slice of %s", tinyi_tv_type_name(v)); return *v; }
    (void)tinyi_tm_bound(m, step, &by);
    has_a = tinyi_tm_bound(m, from, &a);
    has_b = tinyi_tm_bound(m, to, &b);
    if (!by) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "a slice in steps of 0");
    n = (int64_t)(v->type == TINYI_TM_LIST ? v->u.list->n : tinyi_ts_length(m, v));
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
    if (v->type == TINYI_TM_STRING && by == 1) {
        size_t p = tinyi_ts_place(v, (size_t)a), q = p;
        uint32_t c;
        for (i = a; i < b; i++) q += tinyi_ts_char(v, q, &c);
        return tinyi_ts_part(v, p, q);
    }
    if (v->type == TINYI_TM_STRING && !tinyi_tv_items(m, v, &items)) return *v;
    list = tinyi_tv_list(m, 0);
    list.id = v->type == TINYI_TM_LIST ? v->id : 0;
    if (by < -n - 1) by = -n - 1;
    if (by > n + 1) by = n + 1;
    for (i = a; !m->status && (by > 0 ? i < b : i > b); i += by) (void)tinyi_list_add(m, list.u.list, items.u.list->item[i]);
    if (v->type == TINYI_TM_STRING && !m->status) {
        tinyi_tv nothing = tinyi_tv_view("", 0);
        return tinyi_ts_join(m, &nothing, list.u.list);
    }
    return list;
}

/* "function.name", "0": as attribute= takes them */
static tinyi_tv tinyi_tm_path(tinyi_tm *m, const tinyi_tv *v, const tinyi_tv *path)
{
    tinyi_tv at = *v;
    size_t i = 0, k, d;
    if (path->type == TINYI_TM_INT) return tinyi_tm_index(m, v, path);
    if (path->type != TINYI_TM_STRING) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "the name of an attribute is %s", tinyi_tv_type_name(path)); return at; }
    for (;;) {
        tinyi_tv key;
        for (k = i; k < path->n && path->u.s[k] != '.'; k++) {}
        key = tinyi_ts_part(path, i, k);
        for (d = i; d < k && path->u.s[d] >= '0' && path->u.s[d] <= '9'; d++) {}
        if (d == k && k > i && k - i < 10) {
            int64_t whole = 0;
            for (d = i; d < k; d++) whole = whole * 10 + (path->u.s[d] - '0');
            key = tinyi_tv_int(whole);
        }
        at = tinyi_tm_index(m, &at, &key);
        if (m->status || k == path->n || !tinyi_tm_work(m, 1)) return at;
        i = k + 1;
    }
}

/* ---- tests --------------------------------------------------------------------------------------------------------------------- */

static int tinyi_tt_case(const tinyi_tv *v, int up)
{
    size_t i, n;
    int any = 0;
    for (i = 0; i < v->n; i += n) {
        uint32_t c;
        int k;
        n = tinyi_ts_char(v, i, &c);
        k = tinyi_ts_cased(c);
        if (k == -up) return 0;
        any |= k;
    }
    return any != 0;
}
static int tinyi_tt_all(tinyi_tm *m, const tinyi_tv *v, int id)
{
    size_t i, n;
    (void)tinyi_tm_work(m, v->n);
    for (i = 0; i < v->n; i += n) {
        uint32_t c;
        unsigned kind;
        n = tinyi_ts_char(v, i, &c);
        kind = tinyi_unicode_class(c) & (TINYI_UC_SPACE - 1u);
        if (id == TINYI_TN_ISSPACE ? !tinyi_ts_space(c) : id == TINYI_TN_ISDIGIT ? kind != TINYI_UC_N : id == TINYI_TN_ISALPHA ? kind != TINYI_UC_L :
            kind != TINYI_UC_L && kind != TINYI_UC_N) return 0;
    }
    return v->n != 0;
}

static int tinyi_tm_whole(const tinyi_tv *v) { return v->type == TINYI_TM_INT || v->type == TINYI_TM_BOOL; }

static double tinyi_tm_floor(double x)
{
    double whole;
    if (!(x > -4.5e15 && x < 4.5e15)) return x;
    whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

int tinyi_tm_call_test(tinyi_tm *m, int row_id, const tinyi_tv *v, tinyi_targs *a)
{
    const tinyi_tm_builtin *row = &tinyi_tm_rows[row_id];
    tinyi_tv x = tinyi_tv_of(TINYI_TM_UNDEFINED);
    double f;
    int c;
    if (!tinyi_targ_fit(m, row, a, 0) || (row->args && !tinyi_targ_want(m, row, a, 0, "other", &x)) || !tinyi_targ_fit(m, row, a, 1)) return 0;
    switch (row->id) {
    case TINYI_TF_IS_BOOLEAN: return v->type == TINYI_TM_BOOL;
    case TINYI_TF_IS_CALLABLE: return v->type == TINYI_TM_FUNCTION || v->type == TINYI_TM_METHOD || v->type == TINYI_TM_MACRO;
    case TINYI_TF_IS_DEFINED: return v->type != TINYI_TM_UNDEFINED;
    case TINYI_TF_IS_UNDEFINED: return v->type == TINYI_TM_UNDEFINED;
    case TINYI_TF_IS_NONE: return v->type == TINYI_TM_NONE;
    case TINYI_TF_IS_TRUE: return v->type == TINYI_TM_BOOL && v->u.i;
    case TINYI_TF_IS_FALSE: return v->type == TINYI_TM_BOOL && !v->u.i;
    case TINYI_TF_IS_FLOAT: return v->type == TINYI_TM_FLOAT;
    case TINYI_TF_IS_INTEGER: return v->type == TINYI_TM_INT;
    case TINYI_TF_IS_NUMBER: return tinyi_tv_number(v, &f);
    case TINYI_TF_IS_STRING: return v->type == TINYI_TM_STRING;
    case TINYI_TF_IS_MAPPING: return v->type == TINYI_TM_MAP;
    case TINYI_TF_IS_SEQUENCE: return v->type == TINYI_TM_LIST || v->type == TINYI_TM_MAP || v->type == TINYI_TM_STRING || v->type == TINYI_TM_UNDEFINED;
    case TINYI_TF_IS_ITERABLE: return v->type == TINYI_TM_LIST || v->type == TINYI_TM_MAP || v->type == TINYI_TM_STRING || v->type == TINYI_TM_UNDEFINED || v->type == TINYI_TM_LOOP;
    case TINYI_TF_IS_FILTER: return v->type == TINYI_TM_STRING && tinyi_tm_filter(v->u.s, v->n) >= 0;
    case TINYI_TF_IS_TEST: return v->type == TINYI_TM_STRING && tinyi_tm_test(v->u.s, v->n) >= 0;
    case TINYI_TF_IS_EQ: return tinyi_tv_equal(m, v, &x);
    case TINYI_TF_IS_NE: return !tinyi_tv_equal(m, v, &x);
    case TINYI_TF_IS_IN: return tinyi_tv_in(m, v, &x);
    case TINYI_TF_IS_UPPER: case TINYI_TF_IS_LOWER: {
        tinyi_tv s = tinyi_tv_string(m, v);
        return tinyi_tt_case(&s, row->id == TINYI_TF_IS_UPPER ? 1 : -1);
    }
    case TINYI_TF_IS_EVEN: case TINYI_TF_IS_ODD: case TINYI_TF_IS_DIVISIBLE: {
        int64_t by = row->id == TINYI_TF_IS_DIVISIBLE ? x.u.i : 2;
        double g = 2;
        if (tinyi_tv_number(v, &f) && (!row->args || tinyi_tv_number(&x, &g)) && !(tinyi_tm_whole(v) && (!row->args || tinyi_tm_whole(&x))) && g != 0)
            return f - g * tinyi_tm_floor(f / g) == (row->id == TINYI_TF_IS_ODD);
        if (!tinyi_tm_whole(v) || (row->args && !tinyi_tm_whole(&x))) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s asks whole numbers, not %s", row->name, tinyi_tv_type_name(tinyi_tm_whole(v) ? &x : v));
        if (!by) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "a division by 0");
        return by == -1 || (v->u.i % by != 0) == (row->id == TINYI_TF_IS_ODD);
    }
    default:
        if (v->type == TINYI_TM_UNDEFINED) return tinyi_tm_undefined(m, v);
        c = tinyi_tv_compare(m, v, &x, 0);
        if (m->status || c == 2) return 0;
        return row->id == TINYI_TF_IS_LT ? c < 0 : row->id == TINYI_TF_IS_LE ? c <= 0 : row->id == TINYI_TF_IS_GT ? c > 0 : c >= 0;
    }
}

/* ---- filters --------------------------------------------------------------------------------------------------------------------- */

/* n items in order, by their keys: a merge sort from below, so that equals keep their order */
static int tinyi_tm_sort(tinyi_tm *m, tinyi_tv *item, tinyi_tv *key, size_t n, int fold, int reverse)
{
    tinyi_tv *from[2], *to[2], *spare = (tinyi_tv *)tinyi_tm_alloc(m, n, 2 * sizeof *spare);
    size_t width, i;
    int turn = 0;
    if (!spare) return 0;
    for (width = 1; width < n; width *= 2, turn = !turn) {
        from[0] = turn ? spare : item;
        from[1] = turn ? spare + n : key;
        to[0] = turn ? item : spare;
        to[1] = turn ? key : spare + n;
        for (i = 0; i < n; i += 2 * width) {
            size_t p = i, mid = TINYI_MIN(i + width, n), q = mid, end = TINYI_MIN(i + 2 * width, n), k;
            for (k = i; k < end; k++) {
                int left = q == end;
                if (p < mid && q < end) {
                    int c = tinyi_tv_compare(m, &from[1][p], &from[1][q], fold);
                    left = reverse ? c >= 0 : c <= 0;
                    if (m->status) return 0;
                }
                to[0][k] = from[0][left ? p : q];
                to[1][k] = from[1][left ? p : q];
                if (left) p++; else q++;
            }
        }
    }
    if (turn) {
        memcpy(item, spare, n * sizeof *item);
        memcpy(key, spare + n, n * sizeof *key);
    }
    return 1;
}

static tinyi_tv tinyi_tm_pair(tinyi_tm *m, const tinyi_tpair *p)
{
    tinyi_tv v = tinyi_tv_list(m, 2);
    if (m->status) return v;
    v.id = 1;
    (void)tinyi_list_add(m, v.u.list, p->key);
    (void)tinyi_list_add(m, v.u.list, p->value);
    return v;
}
/* what: 0 pairs, 1 keys, 2 values */
static tinyi_tv tinyi_tm_pairs(tinyi_tm *m, const tinyi_tmap *map, int what)
{
    tinyi_tv list = tinyi_tv_list(m, map->n);
    size_t i;
    for (i = 0; i < map->n && !m->status; i++)
        (void)tinyi_list_add(m, list.u.list, what == 1 ? map->pair[i].key : what == 2 ? map->pair[i].value : tinyi_tm_pair(m, &map->pair[i]));
    return list;
}

/* sort, unique, min and max, dictsort */
static tinyi_tv tinyi_tf_sorted(tinyi_tm *m, int id, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list = tinyi_tv_of(TINYI_TM_UNDEFINED), keys, attribute, made;
    int extreme = id == TINYI_TF_MIN || id == TINYI_TF_MAX, base = id == TINYI_TF_SORT ? 1 : 0;
    int reverse = 0, fold, has_attribute = 0;
    size_t i, n;
    if (id == TINYI_TF_DICTSORT) {
        if (v->type != TINYI_TM_MAP) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "dictsort sorts maps, not %s", tinyi_tv_type_name(v)); return list; }
        fold = !tinyi_targ_true(a, 0, "case_sensitive");
        attribute = tinyi_tv_int(tinyi_targ(a, 1, "by", &made) && tinyi_tv_is(&made, "value"));
        has_attribute = 1;
        reverse = tinyi_targ_true(a, 2, "reverse");
        list = tinyi_tm_pairs(m, v->u.map, 0);
    } else {
        if (id == TINYI_TF_SORT) reverse = tinyi_targ_true(a, 0, "reverse");
        fold = !tinyi_targ_true(a, base, "case_sensitive");
        has_attribute = tinyi_targ(a, base + 1, "attribute", &attribute) && attribute.type != TINYI_TM_NONE;
        if (!tinyi_tv_items(m, v, &list)) return list;
    }
    if (m->status) return list;
    n = list.u.list->n;
    made = tinyi_tv_list(m, n);
    keys = tinyi_tv_list(m, n);
    for (i = 0; i < n && !m->status; i++) {
        (void)tinyi_list_add(m, made.u.list, list.u.list->item[i]);
        (void)tinyi_list_add(m, keys.u.list, has_attribute ? tinyi_tm_path(m, &list.u.list->item[i], &attribute) : list.u.list->item[i]);
    }
    if (m->status) return made;
    if (id == TINYI_TF_UNIQUE) {
        tinyi_tv seen = tinyi_tv_map(m), first = tinyi_tv_list(m, 0);
        for (i = 0; i < n && !m->status; i++) {
            tinyi_tv key = keys.u.list->item[i];
            if (key.type == TINYI_TM_STRING && fold) key = tinyi_ts_case(m, &key, TINYI_TS_LOWER);
            if (tinyi_map_find(m, seen.u.map, &key)) continue;
            (void)tinyi_map_set(m, seen.u.map, key, tinyi_tv_int(1));
            (void)tinyi_list_add(m, first.u.list, made.u.list->item[i]);
        }
        return first;
    }
    if (extreme) {
        size_t best = 0;
        if (!n) return tinyi_tm_no("", 0);
        for (i = 1; i < n && !m->status; i++) {
            int c = tinyi_tv_compare(m, &keys.u.list->item[i], &keys.u.list->item[best], fold);
            if (id == TINYI_TF_MIN ? c < 0 : c == 1) best = i;
        }
        return made.u.list->item[best];
    }
    (void)tinyi_tm_sort(m, made.u.list->item, keys.u.list->item, n, fold, reverse);
    return made;
}

static tinyi_tv tinyi_tf_choose(tinyi_tm *m, const tinyi_tm_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    int attr = row->id == TINYI_TF_SELECTATTR || row->id == TINYI_TF_REJECTATTR, keep = row->id == TINYI_TF_SELECT || row->id == TINYI_TF_SELECTATTR, test = -1;
    tinyi_tv list, made = tinyi_tv_list(m, 0), path = tinyi_tv_of(TINYI_TM_UNDEFINED), name;
    tinyi_targs rest = *a;
    size_t i;
    memset(a->used, 0xff, sizeof a->used);
    if (!tinyi_tv_true(v)) return made;     /* none and 0 too, as in Jinja */
    if (!tinyi_tv_items(m, v, &list) || (attr && !tinyi_targ_want(m, row, a, 0, "attribute", &path))) return made;
    if (attr) { rest.arg++; rest.n--; }
    if (rest.n > 0) {
        name = rest.arg[0];
        test = name.type == TINYI_TM_STRING ? tinyi_tm_test(name.u.s, name.n) : -1;
        if (test < 0) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s is given a test that there is not", row->name); return made; }
        rest.arg++;
        rest.n--;
    }
    for (i = 0; i < list.u.list->n && tinyi_tm_work(m, 1); i++) {
        tinyi_tv x = attr ? tinyi_tm_path(m, &list.u.list->item[i], &path) : list.u.list->item[i];
        int yes = m->status ? 0 : test < 0 ? tinyi_tv_true(&x) : tinyi_tm_call_test(m, test, &x, &rest);
        if (yes == keep) (void)tinyi_list_add(m, made.u.list, list.u.list->item[i]);
    }
    return made;
}

static tinyi_tv tinyi_tf_map(tinyi_tm *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list, made = tinyi_tv_list(m, 0), attribute, other = tinyi_tv_of(TINYI_TM_UNDEFINED);
    tinyi_targs rest = *a;
    size_t i;
    int filter = -1, has_default;
    if (!tinyi_tv_true(v)) {
        memset(a->used, 0xff, sizeof a->used);
        return made;
    }
    if (!tinyi_tv_items(m, v, &list)) return made;
    if (!a->n) {
        if (!tinyi_targ(a, 0, "attribute", &attribute)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "map wants a filter or attribute="); return made; }
        has_default = tinyi_targ(a, 1, "default", &other);
        for (i = 0; i < list.u.list->n && tinyi_tm_work(m, 1); i++) {
            tinyi_tv x = tinyi_tm_path(m, &list.u.list->item[i], &attribute);
            (void)tinyi_list_add(m, made.u.list, x.type == TINYI_TM_UNDEFINED && has_default ? other : x);
        }
        return made;
    }
    if (a->arg[0].type == TINYI_TM_STRING) filter = tinyi_tm_filter(a->arg[0].u.s, a->arg[0].n);
    if (filter < 0) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "map is given a filter that there is not"); return made; }
    if (tinyi_tm_rows[filter].id == TINYI_TF_MAP) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "map is not applied by map"); return made; }
    rest.arg++;
    rest.n--;
    for (i = 0; i < list.u.list->n && tinyi_tm_work(m, 1); i++) {
        memset(rest.used, 0, sizeof rest.used);
        (void)tinyi_list_add(m, made.u.list, tinyi_tm_call_filter(m, filter, &list.u.list->item[i], &rest));
    }
    memset(a->used, 0xff, sizeof a->used);
    return made;
}

static tinyi_tv tinyi_tf_int(tinyi_tm *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv other = tinyi_tv_int(0), s;
    int64_t base = 10, i = 0;
    size_t k = 0;
    double f;
    int negative = 0, digits = 0;
    (void)tinyi_targ(a, 0, "default", &other);
    (void)tinyi_targ_int(m, a, 1, "base", &base);
    if (tinyi_tm_whole(v)) return tinyi_tv_int(v->u.i);
    if (v->type == TINYI_TM_FLOAT) return v->u.f > -9.2e18 && v->u.f < 9.2e18 ? tinyi_tv_int((int64_t)v->u.f) : other;
    if (v->type != TINYI_TM_STRING || base < 2 || base > 36) return other;
    s = tinyi_ts_strip(m, *v, NULL, 3);
    if (k < s.n && (s.u.s[k] == '-' || s.u.s[k] == '+')) negative = s.u.s[k++] == '-';
    if (k + 1 < s.n && s.u.s[k] == '0' && ((base == 16 && (s.u.s[k + 1] | 32) == 'x') || (base == 8 && (s.u.s[k + 1] | 32) == 'o') || (base == 2 && (s.u.s[k + 1] | 32) == 'b'))) k += 2;
    for (; k < s.n; k++, digits++) {
        int c = (unsigned char)s.u.s[k], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (c == '_' && digits) continue;
        if (d >= base || i < (INT64_MIN + d) / base) break;
        i = i * base - d;
    }
    if (digits && k == s.n && (negative || i != INT64_MIN)) return tinyi_tv_int(negative ? i : -i);
    if (base == 10 && tinyi_tm_parse_float(s.u.s, s.n, &f) && f > -9.2e18 && f < 9.2e18) return tinyi_tv_int((int64_t)f);
    return other;
}

static tinyi_tv tinyi_tf_round(tinyi_tm *m, const tinyi_tv *v, tinyi_targs *a)
{
    int64_t digits = 0, i;
    double x, ten = 1;
    tinyi_tv how = tinyi_tv_view("common", 6);
    char text[400], *p;
    if (!tinyi_tv_number(v, &x)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "round takes numbers, not %s", tinyi_tv_type_name(v)); return *v; }
    (void)tinyi_targ_int(m, a, 0, "precision", &digits);
    (void)tinyi_targ_text(m, a, 1, "method", &how);
    if (digits < -20 || digits > 20) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "round to %lld digits; -20 to 20 are taken", (long long)digits); return *v; }
    for (i = 0; i < (digits < 0 ? -digits : digits); i++) ten *= 10;
    if (tinyi_tv_is(&how, "common") && digits >= 0) {
        if (tinyi_tm_whole(v)) return tinyi_tv_int(v->u.i);
        (void)snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return tinyi_tv_float(strtod(text, &p));
    }
    x = digits < 0 ? x / ten : x * ten;
    if (tinyi_tv_is(&how, "ceil")) x = -tinyi_tm_floor(-x);
    else if (tinyi_tv_is(&how, "floor")) x = tinyi_tm_floor(x);
    else {
        (void)snprintf(text, sizeof text, "%.0f", x);
        x = strtod(text, &p);
    }
    x = digits < 0 ? x * ten : x / ten;
    if (tinyi_tm_whole(v) && tinyi_tv_is(&how, "common") && x > -9.2e18 && x < 9.2e18) return tinyi_tv_int((int64_t)x);
    return tinyi_tv_float(x);
}

static tinyi_tv tinyi_tf_indent(tinyi_tm *m, const tinyi_tv *s, tinyi_targs *a)
{
    size_t start = m->n_out, i, from = 0;
    tinyi_tv width = tinyi_tv_int(4), blank = tinyi_tv_view(" ", 1);
    int first = tinyi_targ_true(a, 1, "first"), blanks = tinyi_targ_true(a, 2, "blank"), line = 0;
    (void)tinyi_targ(a, 0, "width", &width);
    if (width.type == TINYI_TM_INT) width = tinyi_tm_repeat(m, &blank, width.u.i);
    if (m->status || width.type != TINYI_TM_STRING) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "the width of indent is %s", tinyi_tv_type_name(&width)); return *s; }
    for (i = 0; i <= s->n && !m->status; i++) {
        if (i < s->n && s->u.s[i] != '\n') continue;
        if (line ? i > from || blanks : first) (void)tinyi_tm_put(m, width.u.s, width.n);
        (void)tinyi_tm_put(m, s->u.s + from, i - from);
        if (i < s->n) (void)tinyi_tm_put(m, "\n", 1);
        from = i + 1;
        line = 1;
    }
    return tinyi_tm_take(m, start);
}

static tinyi_tv tinyi_tf_tojson(tinyi_tm *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tm_json_form form;
    tinyi_tv x;
    int64_t indent = -1;
    size_t start = m->n_out;
    form.ascii = tinyi_targ_true(a, 0, "ensure_ascii");
    (void)tinyi_targ_int(m, a, 1, "indent", &indent);
    if (indent > 64) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "tojson with an indent of %lld; at most 64", (long long)indent);
    form.indent = indent < 0 ? -1 : (int)indent;
    form.sort = tinyi_targ_true(a, 3, "sort_keys");
    form.item_mark = form.indent < 0 ? tinyi_tv_view(", ", 2) : tinyi_tv_view(",", 1);
    form.key_mark = tinyi_tv_view(": ", 2);
    if (tinyi_targ(a, 2, "separators", &x) && x.type != TINYI_TM_NONE) {
        if (x.type != TINYI_TM_LIST || x.u.list->n != 2 || x.u.list->item[0].type != TINYI_TM_STRING || x.u.list->item[1].type != TINYI_TM_STRING)
            (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "separators of tojson are two strings");
        else {
            form.item_mark = x.u.list->item[0];
            form.key_mark = x.u.list->item[1];
        }
    }
    if (!m->status) (void)tinyi_tv_put_json(m, v, &form);
    return tinyi_tm_take(m, start);
}

static tinyi_tv tinyi_tf_sum(tinyi_tm *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list, attribute, x, start = tinyi_tv_int(0);
    int has = tinyi_targ(a, 0, "attribute", &attribute) && attribute.type != TINYI_TM_NONE, whole = 1;
    double f = 0, y;
    int64_t n = 0;
    size_t i;
    (void)tinyi_targ(a, 1, "start", &start);
    if (!tinyi_tv_items(m, v, &list)) return start;
    for (i = 0; i <= list.u.list->n && tinyi_tm_work(m, 1); i++) {
        x = i == list.u.list->n ? start : has ? tinyi_tm_path(m, &list.u.list->item[i], &attribute) : list.u.list->item[i];
        if (!tinyi_tv_number(&x, &y)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "sum adds numbers, not %s", tinyi_tv_type_name(&x)); break; }
        if (!tinyi_tm_whole(&x)) whole = 0;
        else if (x.u.i > 0 ? n > INT64_MAX - x.u.i : n < INT64_MIN - x.u.i) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "a sum of 2^63 or more"); break; }
        else n += x.u.i;
        f += y;
    }
    return whole ? tinyi_tv_int(n) : tinyi_tv_float(f);
}

static tinyi_tv tinyi_tf_escape(tinyi_tm *m, const tinyi_tv *s)
{
    size_t start = m->n_out, i;
    for (i = 0; i < s->n && !m->status; i++) {
        const char *to = s->u.s[i] == '&' ? "&amp;" : s->u.s[i] == '<' ? "&lt;" : s->u.s[i] == '>' ? "&gt;" : s->u.s[i] == '"' ? "&#34;" : s->u.s[i] == '\'' ? "&#39;" : NULL;
        (void)(to ? tinyi_tm_put(m, to, strlen(to)) : tinyi_tm_put(m, s->u.s + i, 1));
        (void)tinyi_tm_work(m, 1);
    }
    return tinyi_tm_take(m, start);
}

static tinyi_tv tinyi_tm_reversed(tinyi_tm *m, const tinyi_tv *v)
{
    tinyi_tv none = tinyi_tv_of(TINYI_TM_NONE), back = tinyi_tv_int(-1), list;
    if (v->type == TINYI_TM_STRING) return tinyi_tm_slice(m, v, &none, &none, &back);
    if (!tinyi_tv_items(m, v, &list)) return *v;
    list.id = 0;
    return tinyi_tm_slice(m, &list, &none, &none, &back);
}

tinyi_tv tinyi_tm_call_filter(tinyi_tm *m, int row_id, const tinyi_tv *v, tinyi_targs *a)
{
    const tinyi_tm_builtin *row = &tinyi_tm_rows[row_id];
    tinyi_tv out = *v, s, x, y;
    int64_t most = -1;
    double f = 0;
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    switch (row->id) {
    case TINYI_TF_ABS:
        if (v->type == TINYI_TM_FLOAT) out.u.f = v->u.f < 0 ? -v->u.f : v->u.f;
        else if (!tinyi_tm_whole(v) || v->u.i == INT64_MIN) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "abs takes numbers above -2^63, not %s", tinyi_tv_type_name(v));
        else out = tinyi_tv_int(v->u.i < 0 ? -v->u.i : v->u.i);
        break;
    case TINYI_TF_ATTR:
        if (tinyi_targ_want(m, row, a, 0, "name", &x)) out = tinyi_tm_path(m, v, &x);
        break;
    case TINYI_TF_DEFAULT: {
        int all = tinyi_targ_true(a, 1, "boolean"), given = tinyi_targ(a, 0, "default_value", &x);
        if (v->type == TINYI_TM_UNDEFINED || (all && !tinyi_tv_true(v))) out = given ? x : tinyi_tv_view("", 0);
        break;
    }
    case TINYI_TF_CAPITALIZE: case TINYI_TF_LOWER: case TINYI_TF_UPPER: case TINYI_TF_TITLE:
        s = tinyi_tv_string(m, v);
        out = tinyi_ts_case(m, &s, row->id == TINYI_TF_CAPITALIZE ? TINYI_TS_CAPITALIZE : row->id == TINYI_TF_LOWER ? TINYI_TS_LOWER : row->id == TINYI_TF_UPPER ? TINYI_TS_UPPER : TINYI_TS_TITLE_JINJA);
        break;
    case TINYI_TF_LENGTH:
        if (v->type == TINYI_TM_STRING) out = tinyi_tv_int((int64_t)tinyi_ts_length(m, v));
        else if (v->type == TINYI_TM_LIST) out = tinyi_tv_int((int64_t)v->u.list->n);
        else if (v->type == TINYI_TM_MAP) out = tinyi_tv_int((int64_t)v->u.map->n);
        else if (v->type == TINYI_TM_UNDEFINED) out = tinyi_tv_int(0);
        else (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s has no length", tinyi_tv_type_name(v));
        break;
    case TINYI_TF_ESCAPE: s = tinyi_tv_string(m, v); out = tinyi_tf_escape(m, &s); break;
    case TINYI_TF_SAFE: case TINYI_TF_STRING: out = tinyi_tv_string(m, v); break;
    case TINYI_TF_FIRST: case TINYI_TF_LAST:
        if (!tinyi_tv_items(m, v, &x)) break;
        out = x.u.list->n ? x.u.list->item[row->id == TINYI_TF_FIRST ? 0 : x.u.list->n - 1] : tinyi_tm_no("", 0);
        break;
    case TINYI_TF_FLOAT:
        if (tinyi_tv_number(v, &f)) { out = tinyi_tv_float(f); break; }
        out = tinyi_targ(a, 0, "default", &x) ? x : tinyi_tv_float(0);
        if (v->type == TINYI_TM_STRING) {
            s = tinyi_ts_strip(m, *v, NULL, 3);
            if (tinyi_tm_parse_float(s.u.s, s.n, &f)) out = tinyi_tv_float(f);
        }
        break;
    case TINYI_TF_FORMAT: s = tinyi_tv_string(m, v); out = tinyi_tm_format(m, &s, a->arg, (size_t)a->n); break;
    case TINYI_TF_INDENT: s = tinyi_tv_string(m, v); out = tinyi_tf_indent(m, &s, a); break;
    case TINYI_TF_INT: out = tinyi_tf_int(m, v, a); break;
    case TINYI_TF_ITEMS:
        if (v->type == TINYI_TM_UNDEFINED) out = tinyi_tv_list(m, 0);
        else if (v->type != TINYI_TM_MAP) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "items takes maps, not %s", tinyi_tv_type_name(v));
        else out = tinyi_tm_pairs(m, v->u.map, 0);
        break;
    case TINYI_TF_JOIN: {
        tinyi_tv mark = tinyi_tv_view("", 0), list;
        if (tinyi_targ(a, 0, "d", &x)) mark = tinyi_tv_string(m, &x);
        if (!tinyi_tv_items(m, v, &list)) break;
        if (tinyi_targ(a, 1, "attribute", &x) && x.type != TINYI_TM_NONE) {
            size_t i;
            y = tinyi_tv_list(m, 0);
            for (i = 0; i < list.u.list->n && !m->status; i++) (void)tinyi_list_add(m, y.u.list, tinyi_tm_path(m, &list.u.list->item[i], &x));
            list = y;
        }
        if (!m->status) out = tinyi_ts_join(m, &mark, list.u.list);
        break;
    }
    case TINYI_TF_LIST: {
        tinyi_tv list;
        if (!tinyi_tv_items(m, v, &list)) break;
        out = tinyi_tm_repeat(m, &list, 1);
        out.id = 0;
        break;
    }
    case TINYI_TF_MAP: out = tinyi_tf_map(m, v, a); break;
    case TINYI_TF_SELECT: case TINYI_TF_REJECT: case TINYI_TF_SELECTATTR: case TINYI_TF_REJECTATTR: out = tinyi_tf_choose(m, row, v, a); break;
    case TINYI_TF_MAX: case TINYI_TF_MIN: case TINYI_TF_SORT: case TINYI_TF_UNIQUE: case TINYI_TF_DICTSORT: out = tinyi_tf_sorted(m, row->id, v, a); break;
    case TINYI_TF_REPLACE:
        s = tinyi_tv_string(m, v);
        if (!tinyi_targ_want(m, row, a, 0, "old", &x) || !tinyi_targ_want(m, row, a, 1, "new", &y)) break;
        (void)tinyi_targ_int(m, a, 2, "count", &most);
        x = tinyi_tv_string(m, &x);
        y = tinyi_tv_string(m, &y);
        out = tinyi_ts_replace(m, &s, &x, &y, most);
        break;
    case TINYI_TF_REVERSE: out = tinyi_tm_reversed(m, v); break;
    case TINYI_TF_ROUND: out = tinyi_tf_round(m, v, a); break;
    case TINYI_TF_SUM: out = tinyi_tf_sum(m, v, a); break;
    case TINYI_TF_TOJSON: out = tinyi_tf_tojson(m, v, a); break;
    case TINYI_TF_TRIM:
        s = tinyi_tv_string(m, v);
        out = tinyi_ts_strip(m, s, tinyi_targ_text(m, a, 0, "chars", &x) ? &x : NULL, 3);
        break;
    case TINYI_TF_WORDCOUNT:
        s = tinyi_tv_string(m, v);
        out = tinyi_tv_int((int64_t)tinyi_ts_words(m, &s));
        break;
    default: break;
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}

/* ---- functions --------------------------------------------------------------------------------------------------------------------- */

static tinyi_tv tinyi_tm_range(tinyi_tm *m, tinyi_targs *a)
{
    int64_t from = 0, to = 0, by = 1, i;
    tinyi_tv list = tinyi_tv_list(m, 0);
    double count;
    if (!tinyi_targ_int(m, a, a->n > 1 ? 1 : 0, "stop", &to)) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "range wants whole numbers");
    if (a->n > 1) (void)tinyi_targ_int(m, a, 0, "start", &from);
    (void)tinyi_targ_int(m, a, 2, "step", &by);
    if (!by) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "range in steps of 0");
    if (m->status) return list;
    count = ((double)to - (double)from) / (double)by;
    if (count > TLLM_TEMPLATE_MAX_RANGE) {
        (void)tinyi_tm_fail(m, TINY_E_WORKSPACE, "a range of about %.0f numbers; the limit is %d", count, TLLM_TEMPLATE_MAX_RANGE);
        return list;
    }
    for (i = from; !m->status && (by > 0 ? i < to : i > to);) {
        (void)tinyi_list_add(m, list.u.list, tinyi_tv_int(i));
        if (by > 0 ? i > INT64_MAX - by : i < INT64_MIN - by) break;
        i += by;
    }
    return list;
}

static tinyi_tv tinyi_tm_made_map(tinyi_tm *m, tinyi_targs *a)
{
    tinyi_tv map = tinyi_tv_map(m), from;
    size_t i;
    int k;
    if (a->n) {
        from = a->arg[0];
        if (from.type != TINYI_TM_MAP && from.type != TINYI_TM_LIST) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "a map is made of a map or of pairs, not of %s", tinyi_tv_type_name(&from));
        for (i = 0; !m->status && i < (from.type == TINYI_TM_MAP ? from.u.map->n : from.u.list->n); i++) {
            if (from.type == TINYI_TM_MAP) (void)tinyi_map_set(m, map.u.map, from.u.map->pair[i].key, from.u.map->pair[i].value);
            else if (from.u.list->item[i].type != TINYI_TM_LIST || from.u.list->item[i].u.list->n != 2) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "a map is made of pairs");
            else (void)tinyi_map_set(m, map.u.map, from.u.list->item[i].u.list->item[0], from.u.list->item[i].u.list->item[1]);
        }
    }
    for (k = 0; k < a->n_named && !m->status; k++) (void)tinyi_map_set(m, map.u.map, a->named[2 * k], a->named[2 * k + 1]);
    memset(a->used, 0xff, sizeof a->used);
    return map;
}

/* The calendar by H. Hinnant's days_from_civil, backwards. */
static tinyi_tv tinyi_tm_now(tinyi_tm *m, const tinyi_tv *form)
{
    static const char *const month[] = { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December" };
    static const char *const day[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
    static const short before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    int64_t days = m->now / 86400, s = m->now % 86400, era, z, year;
    int hour, minute, second, doe, yoe, doy, mp, d, mo, wday, yday;
    size_t start = m->n_out, i;
    if (s < 0) { s += 86400; days--; }
    hour = (int)(s / 3600);
    minute = (int)(s / 60 % 60);
    second = (int)(s % 60);
    wday = (int)((days % 7 + 11) % 7);
    z = days + 719468;
    era = (z >= 0 ? z : z - 146096) / 146097;
    doe = (int)(z - era * 146097);
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    d = doy - (153 * mp + 2) / 5 + 1;
    mo = mp < 10 ? mp + 3 : mp - 9;
    year = yoe + era * 400 + (mo <= 2);
    yday = before[mo - 1] + d + (mo > 2 && (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)));
    for (i = 0; i < form->n && !m->status; i++) {
        char text[40], c = form->u.s[i];
        const char *put = text;
        if (c != '%' || i + 1 == form->n) { (void)tinyi_tm_put(m, &c, 1); continue; }
        c = form->u.s[++i];
        if (c == '-' && i + 1 < form->n) {  /* without a leading zero, as glibc has it */
            int v = -1;
            c = form->u.s[++i];
            if (c == 'd') v = d;
            if (c == 'm') v = mo;
            if (c == 'H') v = hour;
            if (c == 'I') v = (hour + 11) % 12 + 1;
            if (c == 'M') v = minute;
            if (c == 'S') v = second;
            if (c == 'j') v = yday;
            if (v < 0) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "strftime_now knows no %%-%c", c); break; }
            (void)snprintf(text, sizeof text, "%d", v);
        } else switch (c) {
            case 'd': (void)snprintf(text, sizeof text, "%02d", d); break;
            case 'e': (void)snprintf(text, sizeof text, "%2d", d); break;
            case 'm': (void)snprintf(text, sizeof text, "%02d", mo); break;
            case 'Y': (void)snprintf(text, sizeof text, "%d", (int)year); break;
            case 'y': (void)snprintf(text, sizeof text, "%02d", (int)(year % 100)); break;
            case 'H': (void)snprintf(text, sizeof text, "%02d", hour); break;
            case 'I': (void)snprintf(text, sizeof text, "%02d", (hour + 11) % 12 + 1); break;
            case 'M': (void)snprintf(text, sizeof text, "%02d", minute); break;
            case 'S': (void)snprintf(text, sizeof text, "%02d", second); break;
            case 'j': (void)snprintf(text, sizeof text, "%03d", yday); break;
            case 'w': (void)snprintf(text, sizeof text, "%d", wday); break;
            case 'F': (void)snprintf(text, sizeof text, "%d-%02d-%02d", (int)year, mo, d); break;
            case 'T': (void)snprintf(text, sizeof text, "%02d:%02d:%02d", hour, minute, second); break;
            case 'p': put = hour < 12 ? "AM" : "PM"; break;
            case 'B': put = month[mo - 1]; break;
            case 'b': (void)snprintf(text, sizeof text, "%.3s", month[mo - 1]); break;
            case 'A': put = day[wday]; break;
            case 'a': (void)snprintf(text, sizeof text, "%.3s", day[wday]); break;
            case '%': put = "%"; break;
            default: (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "strftime_now knows no %%%c", c); put = ""; break;
        }
        (void)tinyi_tm_put(m, put, strlen(put));
    }
    return tinyi_tm_take(m, start);
}

tinyi_tv tinyi_tm_call_function(tinyi_tm *m, int row_id, tinyi_targs *a)
{
    const tinyi_tm_builtin *row = &tinyi_tm_rows[row_id];
    tinyi_tv out = tinyi_tv_of(TINYI_TM_UNDEFINED), x;
    char shown[300];
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    switch (row->id) {
    case TINYI_TF_FN_RANGE: out = tinyi_tm_range(m, a); break;
    case TINYI_TF_FN_DICT: out = tinyi_tm_made_map(m, a); break;
    case TINYI_TF_FN_NAMESPACE: out = tinyi_tm_made_map(m, a); if (!m->status) out.type = TINYI_TM_NAMESPACE; break;
    case TINYI_TF_FN_RAISE:
        if (!tinyi_targ_want(m, row, a, 0, "message", &x)) break;
        x = tinyi_tv_string(m, &x);
        (void)snprintf(shown, sizeof shown, "%.*s", (int)TINYI_MIN(x.n, sizeof shown - 1), x.u.s);
        (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "the template refuses: %s", shown);
        break;
    default:
        if (!tinyi_targ_want(m, row, a, 0, "format", &x)) break;
        if (x.type != TINYI_TM_STRING) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "strftime_now takes a string, not %s", tinyi_tv_type_name(&x));
        else out = tinyi_tm_now(m, &x);
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}

/* ---- methods -------------------------------------------------------------------------------------------------------------------------- */

static int tinyi_tn_ends(tinyi_tm *m, const tinyi_tv *v, const tinyi_tv *x, int at_end)
{
    size_t i;
    if (x->type == TINYI_TM_STRING) return x->n <= v->n && !memcmp(v->u.s + (at_end ? v->n - x->n : 0), x->u.s, x->n);
    if (x->type != TINYI_TM_LIST) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s takes strings, not %s", at_end ? "endswith" : "startswith", tinyi_tv_type_name(x));
    for (i = 0; i < x->u.list->n && tinyi_tm_work(m, 1); i++)
        if (x->u.list->item[i].type == TINYI_TM_STRING && tinyi_tn_ends(m, v, &x->u.list->item[i], at_end)) return 1;
    return 0;
}

static tinyi_tv tinyi_tn_string(tinyi_tm *m, const tinyi_tm_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv out = *v, x, y, none = tinyi_tv_of(TINYI_TM_NONE), one;
    int64_t i = -1, k;
    size_t at, end;
    switch (row->id) {
    case TINYI_TN_STRIP: case TINYI_TN_LSTRIP: case TINYI_TN_RSTRIP:
        return tinyi_ts_strip(m, *v, tinyi_targ_text(m, a, 0, "chars", &x) ? &x : NULL, row->id == TINYI_TN_STRIP ? 3 : row->id == TINYI_TN_LSTRIP ? 1 : 2);
    case TINYI_TN_SPLIT: case TINYI_TN_RSPLIT: {
        int has = tinyi_targ_text(m, a, 0, "sep", &x);
        (void)tinyi_targ_int(m, a, 1, "maxsplit", &i);
        return row->id == TINYI_TN_SPLIT ? tinyi_ts_split(m, v, has ? &x : NULL, i) : tinyi_ts_rsplit(m, v, has ? &x : NULL, i);
    }
    case TINYI_TN_SPLITLINES: {
        int ends = tinyi_targ_true(a, 0, "keepends");
        out = tinyi_tv_list(m, 0);
        for (at = end = 0; end < v->n && !m->status; end++) {
            size_t next = end + 1;
            if (v->u.s[end] != '\n' && v->u.s[end] != '\r') {
                if (next == v->n) (void)tinyi_list_add(m, out.u.list, tinyi_ts_part(v, at, next));
                continue;
            }
            if (v->u.s[end] == '\r' && next < v->n && v->u.s[next] == '\n') next++;
            (void)tinyi_list_add(m, out.u.list, tinyi_ts_part(v, at, ends ? next : end));
            at = next;
            end = next - 1;
        }
        return out;
    }
    case TINYI_TN_STARTSWITH: case TINYI_TN_ENDSWITH:
        if (!tinyi_targ_want(m, row, a, 0, "prefix", &x)) return out;
        if (a->n > 1) {
            one = tinyi_tv_int(1);
            y = tinyi_tm_slice(m, v, &a->arg[1], a->n > 2 ? &a->arg[2] : &none, &one);
            return tinyi_tv_bool(!m->status && tinyi_tn_ends(m, &y, &x, row->id == TINYI_TN_ENDSWITH));
        }
        return tinyi_tv_bool(tinyi_tn_ends(m, v, &x, row->id == TINYI_TN_ENDSWITH));
    case TINYI_TN_UPPER: return tinyi_ts_case(m, v, TINYI_TS_UPPER);
    case TINYI_TN_LOWER: return tinyi_ts_case(m, v, TINYI_TS_LOWER);
    case TINYI_TN_TITLE: return tinyi_ts_case(m, v, TINYI_TS_TITLE);
    case TINYI_TN_CAPITALIZE: return tinyi_ts_case(m, v, TINYI_TS_CAPITALIZE);
    case TINYI_TN_REPLACE:
        if (!tinyi_targ_text(m, a, 0, "old", &x) || !tinyi_targ_text(m, a, 1, "new", &y)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "replace wants two strings"); return out; }
        (void)tinyi_targ_int(m, a, 2, "count", &i);
        return tinyi_ts_replace(m, v, &x, &y, i);
    case TINYI_TN_FIND: case TINYI_TN_RFIND: case TINYI_TN_INDEX: case TINYI_TN_COUNT: case TINYI_TN_PARTITION:
        if (!tinyi_targ_text(m, a, 0, "sub", &x)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s wants a string", row->name); return out; }
        if (a->n > 1) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s takes one argument here", row->name); return out; }
        if (row->id == TINYI_TN_COUNT) {
            for (k = 0, at = 0; !m->status; k++) {
                at = tinyi_ts_find(m, v, &x, at);
                if (at > v->n) break;
                at += x.n ? x.n : 1;
            }
            return tinyi_tv_int(x.n ? k : (int64_t)tinyi_ts_length(m, v) + 1);
        }
        at = row->id == TINYI_TN_RFIND ? tinyi_ts_find_last(m, v, &x, v->n) : tinyi_ts_find(m, v, &x, 0);
        if (row->id == TINYI_TN_PARTITION) {
            out = tinyi_tv_list(m, 3);
            if (m->status) return out;
            out.id = 1;
            (void)tinyi_list_add(m, out.u.list, tinyi_ts_part(v, 0, TINYI_MIN(at, v->n)));
            (void)tinyi_list_add(m, out.u.list, at > v->n ? tinyi_tv_view("", 0) : x);
            (void)tinyi_list_add(m, out.u.list, at > v->n ? tinyi_tv_view("", 0) : tinyi_ts_part(v, at + x.n, v->n));
            return out;
        }
        if (at > v->n) {
            if (row->id == TINYI_TN_INDEX) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "index: the string is not in there");
            return tinyi_tv_int(-1);
        }
        y = tinyi_ts_part(v, 0, at);
        return tinyi_tv_int((int64_t)tinyi_ts_length(m, &y));
    case TINYI_TN_JOIN:
        if (!tinyi_targ_want(m, row, a, 0, "iterable", &x) || !tinyi_tv_items(m, &x, &y)) return out;
        for (at = 0; at < y.u.list->n; at++)
            if (y.u.list->item[at].type != TINYI_TM_STRING) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "join of %s", tinyi_tv_type_name(&y.u.list->item[at])); return out; }
        return tinyi_ts_join(m, v, y.u.list);
    case TINYI_TN_ISDIGIT: case TINYI_TN_ISALPHA: case TINYI_TN_ISALNUM: case TINYI_TN_ISSPACE: return tinyi_tv_bool(tinyi_tt_all(m, v, row->id));
    case TINYI_TN_ISUPPER: return tinyi_tv_bool(tinyi_tt_case(v, 1));
    case TINYI_TN_ISLOWER: return tinyi_tv_bool(tinyi_tt_case(v, -1));
    case TINYI_TN_REMOVEPREFIX: case TINYI_TN_REMOVESUFFIX:
        if (!tinyi_targ_text(m, a, 0, "prefix", &x)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s wants a string", row->name); return out; }
        if (!tinyi_tn_ends(m, v, &x, row->id == TINYI_TN_REMOVESUFFIX)) return out;
        return row->id == TINYI_TN_REMOVEPREFIX ? tinyi_ts_part(v, x.n, v->n) : tinyi_ts_part(v, 0, v->n - x.n);
    case TINYI_TN_ZFILL: case TINYI_TN_LJUST: case TINYI_TN_RJUST: case TINYI_TN_CENTER:
        if (!tinyi_targ_int(m, a, 0, "width", &i)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s wants a width", row->name); return out; }
        if (row->id == TINYI_TN_ZFILL) return tinyi_ts_pad(m, v, i, "0", 1, 3);
        if (!tinyi_targ_text(m, a, 1, "fillchar", &x)) x = tinyi_tv_view(" ", 1);
        return tinyi_ts_pad(m, v, i, x.u.s, x.n, row->id == TINYI_TN_LJUST ? 0 : row->id == TINYI_TN_RJUST ? 1 : 2);
    case TINYI_TN_FORMAT: return tinyi_ts_braces(m, v, a);
    default: return out;
    }
}

static tinyi_tv tinyi_tn_list(tinyi_tm *m, const tinyi_tm_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tlist *l = v->u.list;
    tinyi_tv none = tinyi_tv_of(TINYI_TM_NONE), x, y;
    int64_t i = -1;
    size_t k, n;
    if (v->id && row->id != TINYI_TN_COUNT && row->id != TINYI_TN_INDEX && row->id != TINYI_TN_COPY) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s changes a tuple", row->name); return none; }
    switch (row->id) {
    case TINYI_TN_APPEND: if (tinyi_targ_want(m, row, a, 0, "object", &x)) (void)tinyi_list_add(m, l, x); return none;
    case TINYI_TN_EXTEND:
        if (!tinyi_targ_want(m, row, a, 0, "iterable", &x) || !tinyi_tv_items(m, &x, &y)) return none;
        for (k = 0, n = y.u.list->n; k < n && !m->status; k++) (void)tinyi_list_add(m, l, y.u.list->item[k]);
        return none;
    case TINYI_TN_INSERT:
        if (!tinyi_targ_int(m, a, 0, "index", &i) || !tinyi_targ_want(m, row, a, 1, "object", &x)) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "insert wants a place and a value"); return none; }
        if (i < 0) i = i < -(int64_t)l->n ? 0 : i + (int64_t)l->n;
        if (i > (int64_t)l->n) i = (int64_t)l->n;
        if (!tinyi_list_add(m, l, x) || !tinyi_tm_work(m, l->n - (size_t)i)) return none;
        memmove(l->item + i + 1, l->item + i, (l->n - 1 - (size_t)i) * sizeof *l->item);
        l->item[i] = x;
        return none;
    case TINYI_TN_POP:
        (void)tinyi_targ_int(m, a, 0, "index", &i);
        if (i < 0) i = i < -(int64_t)l->n ? -1 : i + (int64_t)l->n;
        if (m->status || i < 0 || i >= (int64_t)l->n) { (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "pop from a place that the list has not"); return none; }
        x = l->item[i];
        memmove(l->item + i, l->item + i + 1, (l->n - 1 - (size_t)i) * sizeof *l->item);
        l->n--;
        (void)tinyi_tm_work(m, l->n - (size_t)i);
        return x;
    case TINYI_TN_REVERSE:
        for (k = 0; k < l->n / 2; k++) { x = l->item[k]; l->item[k] = l->item[l->n - 1 - k]; l->item[l->n - 1 - k] = x; }
        (void)tinyi_tm_work(m, l->n);
        return none;
    case TINYI_TN_COPY: return tinyi_tm_repeat(m, v, 1);
    case TINYI_TN_CLEAR: l->n = 0; return none;
    default:                                /* count, index */
        if (!tinyi_targ_want(m, row, a, 0, "value", &x)) return none;
        for (k = n = 0; k < l->n && tinyi_tm_work(m, 1); k++)
            if (tinyi_tv_equal(m, &l->item[k], &x)) {
                n++;
                if (row->id == TINYI_TN_INDEX) return tinyi_tv_int((int64_t)k);
            }
        if (row->id == TINYI_TN_INDEX) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "index: the value is not in the list");
        return tinyi_tv_int((int64_t)n);
    }
}

static tinyi_tv tinyi_tn_map(tinyi_tm *m, const tinyi_tm_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tmap *map = v->u.map;
    tinyi_tv none = tinyi_tv_of(TINYI_TM_NONE), x, y = none, *found, copy;
    tinyi_targs one;
    size_t i;
    switch (row->id) {
    case TINYI_TN_ITEMS: return tinyi_tm_pairs(m, map, 0);
    case TINYI_TN_KEYS: return tinyi_tm_pairs(m, map, 1);
    case TINYI_TN_VALUES: return tinyi_tm_pairs(m, map, 2);
    case TINYI_TN_CLEAR: map->n = 0; map->slot = NULL; map->n_slots = 0; return none;
    case TINYI_TN_GET: case TINYI_TN_POP: case TINYI_TN_SETDEFAULT: {
        int given;
        if (!tinyi_targ_want(m, row, a, 0, "key", &x)) return none;
        given = tinyi_targ(a, 1, "default", &y);
        found = tinyi_map_find(m, map, &x);
        if (found) y = *found;
        else if (row->id == TINYI_TN_POP && !given) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "pop of a key that the map has not");
        else if (row->id == TINYI_TN_SETDEFAULT) (void)tinyi_map_set(m, map, x, y);
        if (found && row->id == TINYI_TN_POP) (void)tinyi_map_drop(m, map, &x);
        return y;
    }
    default:                                /* update, copy */
        one = *a;
        if (row->id == TINYI_TN_COPY) { one.arg = v; one.n = 1; one.n_named = 0; }
        copy = tinyi_tm_made_map(m, &one);
        memcpy(a->used, one.used, sizeof one.used);
        if (m->status || row->id == TINYI_TN_COPY) return copy;
        for (i = 0; i < copy.u.map->n && !m->status; i++) (void)tinyi_map_set(m, map, copy.u.map->pair[i].key, copy.u.map->pair[i].value);
        return none;
    }
}

tinyi_tv tinyi_tm_call_method(tinyi_tm *m, int row_id, tinyi_tv *self, tinyi_targs *a)
{
    const tinyi_tm_builtin *row = &tinyi_tm_rows[row_id];
    tinyi_tv out = tinyi_tv_of(TINYI_TM_NONE);
    int k;
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    if (self->type == TINYI_TM_STRING) out = tinyi_tn_string(m, row, self, a);
    else if (self->type == TINYI_TM_LIST) out = tinyi_tn_list(m, row, self, a);
    else if (self->type == TINYI_TM_MAP) out = tinyi_tn_map(m, row, self, a);
    else if (row->id == TINYI_TN_CYCLE) {
        if (!a->n) (void)tinyi_tm_fail(m, TINY_E_ARGUMENT, "cycle wants values");
        else out = a->arg[self->u.loop->i % (size_t)a->n];
    } else {                                /* changed */
        tinyi_tv list = tinyi_tv_list(m, (size_t)a->n);
        for (k = 0; k < a->n && !m->status; k++) (void)tinyi_list_add(m, list.u.list, a->arg[k]);
        if (m->status) return out;
        out = tinyi_tv_bool(!(self->u.loop->changed.type == TINYI_TM_LIST && tinyi_tv_equal(m, &list, &self->u.loop->changed)));
        self->u.loop->changed = list;
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}
