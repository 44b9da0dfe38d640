/* src/llm/chat/filters.c - x | name(arguments) */
#include "llm/chat/rows_inside.h"
#include "llm/chat/text_inside.h"
#include "llm/chat/template.h"
#include "core/doc/json.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* n items in order, by their keys: a merge sort from below, so that equals keep their order */
static int tinyi_template_sort(tinyi_doc *m, tinyi_tv *item, tinyi_tv *key, size_t n, int fold, int reverse)
{
    tinyi_tv *from[2], *to[2], *spare = (tinyi_tv *)tinyi_doc_alloc(m, n, 2 * sizeof *spare);
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
                    int c = tinyi_tv_compare(m, &from[1][p], &from[1][q], fold ? tinyi_unicode_lower : NULL);
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

static tinyi_tv tinyi_template_pair(tinyi_doc *m, const tinyi_tpair *p)
{
    tinyi_tv v = tinyi_tv_list(m, 2);
    if (m->status) return v;
    v.id = 1;
    (void)tinyi_list_add(m, v.u.list, p->key);
    (void)tinyi_list_add(m, v.u.list, p->value);
    return v;
}
/* what: 0 pairs, 1 keys, 2 values */
TINYI_FN tinyi_tv tinyi_template_pairs(tinyi_doc *m, const tinyi_tmap *map, int what)
{
    tinyi_tv list = tinyi_tv_list(m, map->n);
    size_t i;
    for (i = 0; i < map->n && !m->status; i++)
        (void)tinyi_list_add(m, list.u.list,
                             what == 1   ? map->pair[i].key
                             : what == 2 ? map->pair[i].value
                                         : tinyi_template_pair(m, &map->pair[i]));
    return list;
}

/* sort, unique, min and max, dictsort */
static tinyi_tv tinyi_filter_sorted(tinyi_doc *m, int id, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list = tinyi_tv_of(TINYI_DOC_UNDEFINED), keys, attribute, made;
    int extreme = id == TINYI_BUILTIN_MIN || id == TINYI_BUILTIN_MAX, base = id == TINYI_BUILTIN_SORT ? 1 : 0;
    int reverse = 0, fold, has_attribute = 0;
    size_t i, n;
    if (id == TINYI_BUILTIN_DICTSORT) {
        if (v->type != TINYI_DOC_MAP) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "dictsort sorts maps, not %s", tinyi_tv_type_name(v));
            return list;
        }
        fold = !tinyi_targ_true(a, 0, "case_sensitive");
        attribute = tinyi_tv_int(tinyi_targ(a, 1, "by", &made) && tinyi_tv_is(&made, "value"));
        has_attribute = 1;
        reverse = tinyi_targ_true(a, 2, "reverse");
        list = tinyi_template_pairs(m, v->u.map, 0);
    } else {
        if (id == TINYI_BUILTIN_SORT) reverse = tinyi_targ_true(a, 0, "reverse");
        fold = !tinyi_targ_true(a, base, "case_sensitive");
        has_attribute = tinyi_targ(a, base + 1, "attribute", &attribute) && attribute.type != TINYI_DOC_NONE;
        if (!tinyi_tv_items(m, v, &list)) return list;
    }
    if (m->status) return list;
    n = list.u.list->n;
    made = tinyi_tv_list(m, n);
    keys = tinyi_tv_list(m, n);
    for (i = 0; i < n && !m->status; i++) {
        (void)tinyi_list_add(m, made.u.list, list.u.list->item[i]);
        (void)tinyi_list_add(m, keys.u.list,
                             has_attribute ? tinyi_template_path(m, &list.u.list->item[i], &attribute)
                                           : list.u.list->item[i]);
    }
    if (m->status) return made;
    if (id == TINYI_BUILTIN_UNIQUE) {
        tinyi_tv seen = tinyi_tv_map(m), first = tinyi_tv_list(m, 0);
        for (i = 0; i < n && !m->status; i++) {
            tinyi_tv key = keys.u.list->item[i];
            if (key.type == TINYI_DOC_STRING && fold) key = tinyi_string_case(m, &key, TINYI_CASE_LOWER);
            if (tinyi_map_find(m, seen.u.map, &key)) continue;
            (void)tinyi_map_set(m, seen.u.map, key, tinyi_tv_int(1));
            (void)tinyi_list_add(m, first.u.list, made.u.list->item[i]);
        }
        return first;
    }
    if (extreme) {
        size_t best = 0;
        if (!n) return tinyi_template_no("", 0);
        for (i = 1; i < n && !m->status; i++) {
            int c =
                tinyi_tv_compare(m, &keys.u.list->item[i], &keys.u.list->item[best], fold ? tinyi_unicode_lower : NULL);
            if (id == TINYI_BUILTIN_MIN ? c < 0 : c == 1) best = i;
        }
        return made.u.list->item[best];
    }
    (void)tinyi_template_sort(m, made.u.list->item, keys.u.list->item, n, fold, reverse);
    return made;
}

static tinyi_tv tinyi_filter_choose(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    int attr = row->id == TINYI_BUILTIN_SELECTATTR || row->id == TINYI_BUILTIN_REJECTATTR,
        keep = row->id == TINYI_BUILTIN_SELECT || row->id == TINYI_BUILTIN_SELECTATTR, test = -1;
    tinyi_tv list, made = tinyi_tv_list(m, 0), path = tinyi_tv_of(TINYI_DOC_UNDEFINED), name;
    tinyi_targs rest = *a;
    size_t i;
    memset(a->used, 0xff, sizeof a->used);
    if (!tinyi_tv_true(v)) return made;     /* none and 0 too, as in Jinja */
    if (!tinyi_tv_items(m, v, &list) || (attr && !tinyi_targ_want(m, row, a, 0, "attribute", &path))) return made;
    if (attr) { rest.arg++; rest.n--; }
    if (rest.n > 0) {
        name = rest.arg[0];
        test = name.type == TINYI_DOC_STRING ? tinyi_template_test(name.u.s, name.n) : -1;
        if (test < 0) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s has an unknown test", row->name);
            return made;
        }
        rest.arg++;
        rest.n--;
    }
    for (i = 0; i < list.u.list->n && tinyi_doc_work(m, 1); i++) {
        tinyi_tv x = attr ? tinyi_template_path(m, &list.u.list->item[i], &path) : list.u.list->item[i];
        int yes = m->status ? 0 : test < 0 ? tinyi_tv_true(&x) : tinyi_template_call_test(m, test, &x, &rest);
        if (yes == keep) (void)tinyi_list_add(m, made.u.list, list.u.list->item[i]);
    }
    return made;
}

static tinyi_tv tinyi_filter_map(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list, made = tinyi_tv_list(m, 0), attribute, other = tinyi_tv_of(TINYI_DOC_UNDEFINED);
    tinyi_targs rest = *a;
    size_t i;
    int filter = -1, has_default;
    if (!tinyi_tv_true(v)) {
        memset(a->used, 0xff, sizeof a->used);
        return made;
    }
    if (!tinyi_tv_items(m, v, &list)) return made;
    if (!a->n) {
        if (!tinyi_targ(a, 0, "attribute", &attribute)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "map needs a filter or attribute=");
            return made;
        }
        has_default = tinyi_targ(a, 1, "default", &other);
        for (i = 0; i < list.u.list->n && tinyi_doc_work(m, 1); i++) {
            tinyi_tv x = tinyi_template_path(m, &list.u.list->item[i], &attribute);
            (void)tinyi_list_add(m, made.u.list, x.type == TINYI_DOC_UNDEFINED && has_default ? other : x);
        }
        return made;
    }
    if (a->arg[0].type == TINYI_DOC_STRING) filter = tinyi_template_filter(a->arg[0].u.s, a->arg[0].n);
    if (filter < 0) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "map has an unknown filter");
        return made;
    }
    if (tinyi_template_row_at(filter)->id == TINYI_BUILTIN_MAP) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "map cannot apply map");
        return made;
    }
    rest.arg++;
    rest.n--;
    for (i = 0; i < list.u.list->n && tinyi_doc_work(m, 1); i++) {
        memset(rest.used, 0, sizeof rest.used);
        (void)tinyi_list_add(m, made.u.list, tinyi_template_call_filter(m, filter, &list.u.list->item[i], &rest));
    }
    memset(a->used, 0xff, sizeof a->used);
    return made;
}

static tinyi_tv tinyi_filter_int(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv other = tinyi_tv_int(0), s;
    int64_t base = 10, i = 0;
    size_t k = 0;
    double f;
    int negative = 0, digits = 0;
    (void)tinyi_targ(a, 0, "default", &other);
    (void)tinyi_targ_int(m, a, 1, "base", &base);
    if (tinyi_template_whole(v)) return tinyi_tv_int(v->u.i);
    if (v->type == TINYI_DOC_FLOAT) return v->u.f > -9.2e18 && v->u.f < 9.2e18 ? tinyi_tv_int((int64_t)v->u.f) : other;
    if (v->type != TINYI_DOC_STRING || base < 2 || base > 36) return other;
    s = tinyi_string_strip(m, *v, NULL, 3);
    if (k < s.n && (s.u.s[k] == '-' || s.u.s[k] == '+')) negative = s.u.s[k++] == '-';
    if (k + 1 < s.n && s.u.s[k] == '0' &&
        ((base == 16 && (s.u.s[k + 1] | 32) == 'x') || (base == 8 && (s.u.s[k + 1] | 32) == 'o') ||
         (base == 2 && (s.u.s[k + 1] | 32) == 'b')))
        k += 2;
    for (; k < s.n; k++, digits++) {
        int c = (unsigned char)s.u.s[k], d = c >= '0' && c <= '9'                 ? c - '0'
                                             : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                                                  : 99;
        if (c == '_' && digits) continue;
        if (d >= base || i < (INT64_MIN + d) / base) break;
        i = i * base - d;
    }
    if (digits && k == s.n && (negative || i != INT64_MIN)) return tinyi_tv_int(negative ? i : -i);
    if (base == 10 && tinyi_json_f64(s.u.s, s.n, &f) && f > -9.2e18 && f < 9.2e18) return tinyi_tv_int((int64_t)f);
    return other;
}

static tinyi_tv tinyi_filter_round(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    int64_t digits = 0, i;
    double x, ten = 1;
    tinyi_tv how = tinyi_tv_view("common", 6);
    char text[400], *p;
    if (!tinyi_tv_number(v, &x)) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "round takes numbers, not %s", tinyi_tv_type_name(v));
        return *v;
    }
    (void)tinyi_targ_int(m, a, 0, "precision", &digits);
    (void)tinyi_targ_text(m, a, 1, "method", &how);
    if (digits < -20 || digits > 20) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "round to %lld digits; the limits are -20 and 20", (long long)digits);
        return *v;
    }
    for (i = 0; i < (digits < 0 ? -digits : digits); i++) ten *= 10;
    if (tinyi_tv_is(&how, "common") && digits >= 0) {
        if (tinyi_template_whole(v)) return tinyi_tv_int(v->u.i);
        (void)snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return tinyi_tv_float(strtod(text, &p));
    }
    x = digits < 0 ? x / ten : x * ten;
    if (tinyi_tv_is(&how, "ceil")) x = 0.0 - tinyi_template_floor(-x); /* never -0: an int in Python */
    else if (tinyi_tv_is(&how, "floor")) x = tinyi_template_floor(x) + 0.0;
    else if (!tinyi_tv_is(&how, "common")) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "round takes the methods common, ceil and floor");
        return *v;
    } else {
        (void)snprintf(text, sizeof text, "%.0f", x);
        x = strtod(text, &p);
    }
    x = digits < 0 ? x * ten : x / ten;
    if (tinyi_template_whole(v) && tinyi_tv_is(&how, "common") && x > -9.2e18 && x < 9.2e18)
        return tinyi_tv_int((int64_t)x);
    return tinyi_tv_float(x);
}

static tinyi_tv tinyi_filter_indent(tinyi_doc *m, const tinyi_tv *s, tinyi_targs *a)
{
    size_t start = m->n_out, i, from = 0;
    tinyi_tv width = tinyi_tv_int(4), blank = tinyi_tv_view(" ", 1);
    int first = tinyi_targ_true(a, 1, "first"), blanks = tinyi_targ_true(a, 2, "blank"), line = 0;
    (void)tinyi_targ(a, 0, "width", &width);
    if (width.type == TINYI_DOC_INT) width = tinyi_template_repeat(m, &blank, width.u.i);
    if (m->status || width.type != TINYI_DOC_STRING) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "the width of indent is %s, not a whole number",
                             tinyi_tv_type_name(&width));
        return *s;
    }
    for (i = 0; i <= s->n && !m->status; i++) {
        if (i < s->n && s->u.s[i] != '\n') continue;
        if (line ? i > from || blanks : first) (void)tinyi_doc_put(m, width.u.s, width.n);
        (void)tinyi_doc_put(m, s->u.s + from, i - from);
        if (i < s->n) (void)tinyi_doc_put(m, "\n", 1);
        from = i + 1;
        line = 1;
    }
    return tinyi_doc_take(m, start);
}

static tinyi_tv tinyi_filter_tojson(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_doc_form form;
    tinyi_tv x;
    int64_t indent = -1;
    size_t start = m->n_out;
    form.leaf = NULL;
    form.ascii = tinyi_targ_true(a, 0, "ensure_ascii");
    (void)tinyi_targ_int(m, a, 1, "indent", &indent);
    if (indent > 64)
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "tojson with an indent of %lld; the limit is 64", (long long)indent);
    form.indent = indent < 0 ? -1 : (int)indent;
    form.sort = tinyi_targ_true(a, 3, "sort_keys");
    form.item_mark = form.indent < 0 ? tinyi_tv_view(", ", 2) : tinyi_tv_view(",", 1);
    form.key_mark = tinyi_tv_view(": ", 2);
    if (tinyi_targ(a, 2, "separators", &x) && x.type != TINYI_DOC_NONE) {
        if (x.type != TINYI_DOC_LIST || x.u.list->n != 2 || x.u.list->item[0].type != TINYI_DOC_STRING ||
            x.u.list->item[1].type != TINYI_DOC_STRING)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "the separators of tojson must be two strings");
        else {
            form.item_mark = x.u.list->item[0];
            form.key_mark = x.u.list->item[1];
        }
    }
    if (!m->status) (void)tinyi_tv_put_json(m, v, &form);
    return tinyi_doc_take(m, start);
}

static tinyi_tv tinyi_filter_sum(tinyi_doc *m, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv list, attribute, x, start = tinyi_tv_int(0);
    int has = tinyi_targ(a, 0, "attribute", &attribute) && attribute.type != TINYI_DOC_NONE, whole = 1;
    double f = 0, y;
    int64_t n = 0;
    size_t i;
    (void)tinyi_targ(a, 1, "start", &start);
    if (!tinyi_tv_items(m, v, &list)) return start;
    for (i = 0; i <= list.u.list->n && tinyi_doc_work(m, 1); i++) {
        x = i == list.u.list->n ? start
            : has               ? tinyi_template_path(m, &list.u.list->item[i], &attribute)
                                : list.u.list->item[i];
        if (!tinyi_tv_number(&x, &y)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "sum adds numbers, not %s", tinyi_tv_type_name(&x));
            break;
        }
        if (!tinyi_template_whole(&x)) whole = 0;
        else if (x.u.i > 0 ? n > INT64_MAX - x.u.i : n < INT64_MIN - x.u.i) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a sum of 2^63 or more");
            break;
        } else n += x.u.i;
        f += y;
    }
    return whole ? tinyi_tv_int(n) : tinyi_tv_float(f);
}

static tinyi_tv tinyi_filter_escape(tinyi_doc *m, const tinyi_tv *s)
{
    size_t start = m->n_out, i;
    for (i = 0; i < s->n && !m->status; i++) {
        const char *to = s->u.s[i] == '&'    ? "&amp;"
                         : s->u.s[i] == '<'  ? "&lt;"
                         : s->u.s[i] == '>'  ? "&gt;"
                         : s->u.s[i] == '"'  ? "&#34;"
                         : s->u.s[i] == '\'' ? "&#39;"
                                             : NULL;
        (void)(to ? tinyi_doc_put(m, to, strlen(to)) : tinyi_doc_put(m, s->u.s + i, 1));
        (void)tinyi_doc_work(m, 1);
    }
    return tinyi_doc_take(m, start);
}

static tinyi_tv tinyi_template_reversed(tinyi_doc *m, const tinyi_tv *v)
{
    tinyi_tv none = tinyi_tv_of(TINYI_DOC_NONE), back = tinyi_tv_int(-1), list;
    if (v->type == TINYI_DOC_STRING) return tinyi_template_slice(m, v, &none, &none, &back);
    if (!tinyi_tv_items(m, v, &list)) return *v;
    list.id = 0;
    return tinyi_template_slice(m, &list, &none, &none, &back);
}

tinyi_tv tinyi_template_call_filter(tinyi_doc *m, int row_id, const tinyi_tv *v, tinyi_targs *a)
{
    const tinyi_template_builtin *row = tinyi_template_row_at(row_id);
    tinyi_tv out = *v, s, x, y;
    int64_t most = -1;
    double f = 0;
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    switch (row->id) {
    case TINYI_BUILTIN_ABS:
        if (v->type == TINYI_DOC_FLOAT) out.u.f = v->u.f < 0 ? -v->u.f : v->u.f;
        else if (!tinyi_template_whole(v) || v->u.i == INT64_MIN)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "abs takes numbers above -2^63, not %s", tinyi_tv_type_name(v));
        else out = tinyi_tv_int(v->u.i < 0 ? -v->u.i : v->u.i);
        break;
    case TINYI_BUILTIN_ATTR:
        if (tinyi_targ_want(m, row, a, 0, "name", &x)) out = tinyi_template_path(m, v, &x);
        break;
    case TINYI_BUILTIN_DEFAULT: {
        int all = tinyi_targ_true(a, 1, "boolean"), given = tinyi_targ(a, 0, "default_value", &x);
        if (v->type == TINYI_DOC_UNDEFINED || (all && !tinyi_tv_true(v))) out = given ? x : tinyi_tv_view("", 0);
        break;
    }
    case TINYI_BUILTIN_CAPITALIZE: case TINYI_BUILTIN_LOWER: case TINYI_BUILTIN_UPPER: case TINYI_BUILTIN_TITLE:
        s = tinyi_tv_string(m, v);
        out = tinyi_string_case(m, &s,
                                row->id == TINYI_BUILTIN_CAPITALIZE ? TINYI_CASE_CAPITALIZE
                                : row->id == TINYI_BUILTIN_LOWER    ? TINYI_CASE_LOWER
                                : row->id == TINYI_BUILTIN_UPPER    ? TINYI_CASE_UPPER
                                                           : TINYI_CASE_TITLE_JINJA);
        break;
    case TINYI_BUILTIN_LENGTH:
        if (v->type == TINYI_DOC_STRING) out = tinyi_tv_int((int64_t)tinyi_string_length(m, v));
        else if (v->type == TINYI_DOC_LIST) out = tinyi_tv_int((int64_t)v->u.list->n);
        else if (v->type == TINYI_DOC_MAP) out = tinyi_tv_int((int64_t)v->u.map->n);
        else if (v->type == TINYI_DOC_UNDEFINED) out = tinyi_tv_int(0);
        else (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s has no length", tinyi_tv_type_name(v));
        break;
    case TINYI_BUILTIN_ESCAPE: s = tinyi_tv_string(m, v); out = tinyi_filter_escape(m, &s); break;
    case TINYI_BUILTIN_SAFE: case TINYI_BUILTIN_STRING: out = tinyi_tv_string(m, v); break;
    case TINYI_BUILTIN_FIRST: case TINYI_BUILTIN_LAST:
        if (!tinyi_tv_items(m, v, &x)) break;
        out = x.u.list->n ? x.u.list->item[row->id == TINYI_BUILTIN_FIRST ? 0 : x.u.list->n - 1]
                          : tinyi_template_no("", 0);
        break;
    case TINYI_BUILTIN_FLOAT:
        if (tinyi_tv_number(v, &f)) { out = tinyi_tv_float(f); break; }
        out = tinyi_targ(a, 0, "default", &x) ? x : tinyi_tv_float(0);
        if (v->type == TINYI_DOC_STRING) {
            s = tinyi_string_strip(m, *v, NULL, 3);
            if (tinyi_json_f64(s.u.s, s.n, &f)) out = tinyi_tv_float(f);
        }
        break;
    case TINYI_BUILTIN_FORMAT:
        s = tinyi_tv_string(m, v);
        out = tinyi_template_format(m, &s, a->arg, (size_t)a->n);
        break;
    case TINYI_BUILTIN_INDENT: s = tinyi_tv_string(m, v); out = tinyi_filter_indent(m, &s, a); break;
    case TINYI_BUILTIN_INT: out = tinyi_filter_int(m, v, a); break;
    case TINYI_BUILTIN_ITEMS:
        if (v->type == TINYI_DOC_UNDEFINED) out = tinyi_tv_list(m, 0);
        else if (v->type != TINYI_DOC_MAP)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "items takes maps, not %s", tinyi_tv_type_name(v));
        else out = tinyi_template_pairs(m, v->u.map, 0);
        break;
    case TINYI_BUILTIN_JOIN: {
        tinyi_tv mark = tinyi_tv_view("", 0), list;
        if (tinyi_targ(a, 0, "d", &x)) mark = tinyi_tv_string(m, &x);
        if (!tinyi_tv_items(m, v, &list)) break;
        if (tinyi_targ(a, 1, "attribute", &x) && x.type != TINYI_DOC_NONE) {
            size_t i;
            y = tinyi_tv_list(m, 0);
            for (i = 0; i < list.u.list->n && !m->status; i++)
                (void)tinyi_list_add(m, y.u.list, tinyi_template_path(m, &list.u.list->item[i], &x));
            list = y;
        }
        if (!m->status) out = tinyi_string_join(m, &mark, list.u.list);
        break;
    }
    case TINYI_BUILTIN_LIST: {
        tinyi_tv list;
        if (!tinyi_tv_items(m, v, &list)) break;
        out = tinyi_template_repeat(m, &list, 1);
        out.id = 0;
        break;
    }
    case TINYI_BUILTIN_MAP: out = tinyi_filter_map(m, v, a); break;
    case TINYI_BUILTIN_SELECT:
    case TINYI_BUILTIN_REJECT:
    case TINYI_BUILTIN_SELECTATTR:
    case TINYI_BUILTIN_REJECTATTR: out = tinyi_filter_choose(m, row, v, a); break;
    case TINYI_BUILTIN_MAX:
    case TINYI_BUILTIN_MIN:
    case TINYI_BUILTIN_SORT:
    case TINYI_BUILTIN_UNIQUE:
    case TINYI_BUILTIN_DICTSORT: out = tinyi_filter_sorted(m, row->id, v, a); break;
    case TINYI_BUILTIN_REPLACE:
        s = tinyi_tv_string(m, v);
        if (!tinyi_targ_want(m, row, a, 0, "old", &x) || !tinyi_targ_want(m, row, a, 1, "new", &y)) break;
        (void)tinyi_targ_int(m, a, 2, "count", &most);
        x = tinyi_tv_string(m, &x);
        y = tinyi_tv_string(m, &y);
        out = tinyi_string_replace(m, &s, &x, &y, most);
        break;
    case TINYI_BUILTIN_REVERSE: out = tinyi_template_reversed(m, v); break;
    case TINYI_BUILTIN_ROUND: out = tinyi_filter_round(m, v, a); break;
    case TINYI_BUILTIN_SUM: out = tinyi_filter_sum(m, v, a); break;
    case TINYI_BUILTIN_TOJSON: out = tinyi_filter_tojson(m, v, a); break;
    case TINYI_BUILTIN_TRIM:
        s = tinyi_tv_string(m, v);
        out = tinyi_string_strip(m, s, tinyi_targ_text(m, a, 0, "chars", &x) ? &x : NULL, 3);
        break;
    case TINYI_BUILTIN_WORDCOUNT:
        s = tinyi_tv_string(m, v);
        out = tinyi_tv_int((int64_t)tinyi_string_words(m, &s));
        break;
    default: break;
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}
