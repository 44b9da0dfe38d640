/* src/llm/chat/methods.c - functions, and methods of strings, lists, maps and loops */
#include "llm/chat/rows_inside.h"
#include "llm/chat/text_inside.h"
#include "llm/chat/template.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static tinyi_tv tinyi_template_range(tinyi_doc *m, tinyi_targs *a)
{
    int64_t from = 0, to = 0, by = 1, i;
    tinyi_tv list = tinyi_tv_list(m, 0);
    double count;
    if (!tinyi_targ_int(m, a, a->n > 1 ? 1 : 0, "stop", &to))
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "range needs whole numbers");
    if (a->n > 1) (void)tinyi_targ_int(m, a, 0, "start", &from);
    (void)tinyi_targ_int(m, a, 2, "step", &by);
    if (!by) (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "range with a step of 0");
    if (m->status) return list;
    count = ((double)to - (double)from) / (double)by;
    if (count > TLLM_TEMPLATE_MAX_RANGE) {
        (void)tinyi_doc_fail(m, TINY_E_WORKSPACE, "a range of about %.0f numbers; the limit is %d", count,
                             TLLM_TEMPLATE_MAX_RANGE);
        return list;
    }
    for (i = from; !m->status && (by > 0 ? i < to : i > to);) {
        (void)tinyi_list_add(m, list.u.list, tinyi_tv_int(i));
        if (by > 0 ? i > INT64_MAX - by : i < INT64_MIN - by) break;
        i += by;
    }
    return list;
}

static tinyi_tv tinyi_template_made_map(tinyi_doc *m, tinyi_targs *a)
{
    tinyi_tv map = tinyi_tv_map(m), from;
    size_t i;
    int k;
    if (a->n) {
        from = a->arg[0];
        if (from.type != TINYI_DOC_MAP && from.type != TINYI_DOC_LIST)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a map can be made of a map or of pairs, not of %s",
                                 tinyi_tv_type_name(&from));
        for (i = 0; !m->status && i < (from.type == TINYI_DOC_MAP ? from.u.map->n : from.u.list->n); i++) {
            if (from.type == TINYI_DOC_MAP)
                (void)tinyi_map_set(m, map.u.map, from.u.map->pair[i].key, from.u.map->pair[i].value);
            else if (from.u.list->item[i].type != TINYI_DOC_LIST || from.u.list->item[i].u.list->n != 2)
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "a map can be made of pairs only");
            else
                (void)tinyi_map_set(m, map.u.map, from.u.list->item[i].u.list->item[0],
                                    from.u.list->item[i].u.list->item[1]);
        }
    }
    for (k = 0; k < a->n_named && !m->status; k++)
        (void)tinyi_map_set(m, map.u.map, a->named[2 * k], a->named[2 * k + 1]);
    memset(a->used, 0xff, sizeof a->used);
    return map;
}

/* The calendar by H. Hinnant's days_from_civil, backwards. */
static tinyi_tv tinyi_template_now(tinyi_doc *m, const tinyi_tv *form)
{
    static const char *const month[] = { "January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December" };
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
        if (c != '%' || i + 1 == form->n) { (void)tinyi_doc_put(m, &c, 1); continue; }
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
            if (v < 0) { (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "strftime_now does not support %%-%c", c); break; }
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
            default: (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "strftime_now does not support %%%c", c); put = ""; break;
        }
        (void)tinyi_doc_put(m, put, strlen(put));
    }
    return tinyi_doc_take(m, start);
}

tinyi_tv tinyi_template_call_function(tinyi_doc *m, int row_id, tinyi_targs *a)
{
    const tinyi_template_builtin *row = tinyi_template_row_at(row_id);
    tinyi_tv out = tinyi_tv_of(TINYI_DOC_UNDEFINED), x;
    char shown[300];
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    switch (row->id) {
    case TINYI_BUILTIN_FN_RANGE: out = tinyi_template_range(m, a); break;
    case TINYI_BUILTIN_FN_DICT: out = tinyi_template_made_map(m, a); break;
    case TINYI_BUILTIN_FN_NAMESPACE:
        out = tinyi_template_made_map(m, a);
        if (!m->status) out.type = TINYI_DOC_NAMESPACE;
        break;
    case TINYI_BUILTIN_FN_RAISE:
        if (!tinyi_targ_want(m, row, a, 0, "message", &x)) break;
        x = tinyi_tv_string(m, &x);
        (void)snprintf(shown, sizeof shown, "%.*s", (int)TINYI_MIN(x.n, sizeof shown - 1), x.u.s);
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "the template refuses: %s", shown);
        break;
    default:
        if (!tinyi_targ_want(m, row, a, 0, "format", &x)) break;
        if (x.type != TINYI_DOC_STRING)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "strftime_now takes a string, not %s", tinyi_tv_type_name(&x));
        else out = tinyi_template_now(m, &x);
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static int tinyi_method_ends(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *x, int at_end)
{
    size_t i;
    if (x->type == TINYI_DOC_STRING) return x->n <= v->n && !memcmp(v->u.s + (at_end ? v->n - x->n : 0), x->u.s, x->n);
    if (x->type != TINYI_DOC_LIST)
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s takes strings, not %s", at_end ? "endswith" : "startswith",
                              tinyi_tv_type_name(x));
    for (i = 0; i < x->u.list->n && tinyi_doc_work(m, 1); i++)
        if (x->u.list->item[i].type == TINYI_DOC_STRING && tinyi_method_ends(m, v, &x->u.list->item[i], at_end))
            return 1;
    return 0;
}

static tinyi_tv tinyi_method_string(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tv out = *v, x, y, none = tinyi_tv_of(TINYI_DOC_NONE), one;
    int64_t i = -1, k;
    size_t at, end;
    switch (row->id) {
    case TINYI_METHOD_STRIP: case TINYI_METHOD_LSTRIP: case TINYI_METHOD_RSTRIP:
        return tinyi_string_strip(m, *v, tinyi_targ_text(m, a, 0, "chars", &x) ? &x : NULL,
                                  row->id == TINYI_METHOD_STRIP    ? 3
                                  : row->id == TINYI_METHOD_LSTRIP ? 1
                                                           : 2);
    case TINYI_METHOD_SPLIT: case TINYI_METHOD_RSPLIT: {
        int has = tinyi_targ_text(m, a, 0, "sep", &x);
        (void)tinyi_targ_int(m, a, 1, "maxsplit", &i);
        return row->id == TINYI_METHOD_SPLIT ? tinyi_string_split(m, v, has ? &x : NULL, i)
                                         : tinyi_string_rsplit(m, v, has ? &x : NULL, i);
    }
    case TINYI_METHOD_SPLITLINES: {
        int ends = tinyi_targ_true(a, 0, "keepends");
        out = tinyi_tv_list(m, 0);
        for (at = end = 0; end < v->n && !m->status; end++) {
            size_t next = end + 1;
            if (v->u.s[end] != '\n' && v->u.s[end] != '\r') {
                if (next == v->n) (void)tinyi_list_add(m, out.u.list, tinyi_string_part(v, at, next));
                continue;
            }
            if (v->u.s[end] == '\r' && next < v->n && v->u.s[next] == '\n') next++;
            (void)tinyi_list_add(m, out.u.list, tinyi_string_part(v, at, ends ? next : end));
            at = next;
            end = next - 1;
        }
        return out;
    }
    case TINYI_METHOD_STARTSWITH: case TINYI_METHOD_ENDSWITH:
        if (!tinyi_targ_want(m, row, a, 0, "prefix", &x)) return out;
        if (a->n > 1) {
            one = tinyi_tv_int(1);
            y = tinyi_template_slice(m, v, &a->arg[1], a->n > 2 ? &a->arg[2] : &none, &one);
            return tinyi_tv_bool(!m->status && tinyi_method_ends(m, &y, &x, row->id == TINYI_METHOD_ENDSWITH));
        }
        return tinyi_tv_bool(tinyi_method_ends(m, v, &x, row->id == TINYI_METHOD_ENDSWITH));
    case TINYI_METHOD_UPPER: return tinyi_string_case(m, v, TINYI_CASE_UPPER);
    case TINYI_METHOD_LOWER: return tinyi_string_case(m, v, TINYI_CASE_LOWER);
    case TINYI_METHOD_TITLE: return tinyi_string_case(m, v, TINYI_CASE_TITLE);
    case TINYI_METHOD_CAPITALIZE: return tinyi_string_case(m, v, TINYI_CASE_CAPITALIZE);
    case TINYI_METHOD_REPLACE:
        if (!tinyi_targ_text(m, a, 0, "old", &x) || !tinyi_targ_text(m, a, 1, "new", &y)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "replace needs two strings");
            return out;
        }
        (void)tinyi_targ_int(m, a, 2, "count", &i);
        return tinyi_string_replace(m, v, &x, &y, i);
    case TINYI_METHOD_FIND:
    case TINYI_METHOD_RFIND:
    case TINYI_METHOD_INDEX:
    case TINYI_METHOD_COUNT:
    case TINYI_METHOD_PARTITION:
        if (!tinyi_targ_text(m, a, 0, "sub", &x)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s needs a string", row->name);
            return out;
        }
        if (a->n > 1) { (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s takes one argument here", row->name); return out; }
        if (row->id == TINYI_METHOD_COUNT) {
            for (k = 0, at = 0; !m->status; k++) {
                at = tinyi_string_find(m, v, &x, at);
                if (at > v->n) break;
                at += x.n ? x.n : 1;
            }
            return tinyi_tv_int(x.n ? k : (int64_t)tinyi_string_length(m, v) + 1);
        }
        at = row->id == TINYI_METHOD_RFIND ? tinyi_string_find_last(m, v, &x, v->n) : tinyi_string_find(m, v, &x, 0);
        if (row->id == TINYI_METHOD_PARTITION) {
            out = tinyi_tv_list(m, 3);
            if (m->status) return out;
            out.id = 1;
            (void)tinyi_list_add(m, out.u.list, tinyi_string_part(v, 0, TINYI_MIN(at, v->n)));
            (void)tinyi_list_add(m, out.u.list, at > v->n ? tinyi_tv_view("", 0) : x);
            (void)tinyi_list_add(m, out.u.list,
                                 at > v->n ? tinyi_tv_view("", 0) : tinyi_string_part(v, at + x.n, v->n));
            return out;
        }
        if (at > v->n) {
            if (row->id == TINYI_METHOD_INDEX)
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "index: the string is not found");
            return tinyi_tv_int(-1);
        }
        y = tinyi_string_part(v, 0, at);
        return tinyi_tv_int((int64_t)tinyi_string_length(m, &y));
    case TINYI_METHOD_JOIN:
        if (!tinyi_targ_want(m, row, a, 0, "iterable", &x) || !tinyi_tv_items(m, &x, &y)) return out;
        for (at = 0; at < y.u.list->n; at++)
            if (y.u.list->item[at].type != TINYI_DOC_STRING) {
                (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "join cannot join %s",
                                     tinyi_tv_type_name(&y.u.list->item[at]));
                return out;
            }
        return tinyi_string_join(m, v, y.u.list);
    case TINYI_METHOD_ISDIGIT:
    case TINYI_METHOD_ISALPHA:
    case TINYI_METHOD_ISALNUM:
    case TINYI_METHOD_ISSPACE: return tinyi_tv_bool(tinyi_template_test_all(m, v, row->id));
    case TINYI_METHOD_ISUPPER: return tinyi_tv_bool(tinyi_template_test_case(v, 1));
    case TINYI_METHOD_ISLOWER: return tinyi_tv_bool(tinyi_template_test_case(v, -1));
    case TINYI_METHOD_REMOVEPREFIX: case TINYI_METHOD_REMOVESUFFIX:
        if (!tinyi_targ_text(m, a, 0, "prefix", &x)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s needs a string", row->name);
            return out;
        }
        if (!tinyi_method_ends(m, v, &x, row->id == TINYI_METHOD_REMOVESUFFIX)) return out;
        return row->id == TINYI_METHOD_REMOVEPREFIX ? tinyi_string_part(v, x.n, v->n)
                                                    : tinyi_string_part(v, 0, v->n - x.n);
    case TINYI_METHOD_ZFILL: case TINYI_METHOD_LJUST: case TINYI_METHOD_RJUST: case TINYI_METHOD_CENTER:
        if (!tinyi_targ_int(m, a, 0, "width", &i)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s needs a width", row->name);
            return out;
        }
        if (row->id == TINYI_METHOD_ZFILL) return tinyi_string_pad(m, v, i, "0", 1, 3);
        if (!tinyi_targ_text(m, a, 1, "fillchar", &x)) x = tinyi_tv_view(" ", 1);
        return tinyi_string_pad(m, v, i, x.u.s, x.n,
                                row->id == TINYI_METHOD_LJUST   ? 0
                                : row->id == TINYI_METHOD_RJUST ? 1
                                                                : 2);
    case TINYI_METHOD_FORMAT: return tinyi_string_braces(m, v, a);
    default: return out;
    }
}

static tinyi_tv tinyi_method_list(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tlist *l = v->u.list;
    tinyi_tv none = tinyi_tv_of(TINYI_DOC_NONE), x, y;
    int64_t i = -1;
    size_t k, n;
    if (v->id && row->id != TINYI_METHOD_COUNT && row->id != TINYI_METHOD_INDEX && row->id != TINYI_METHOD_COPY) {
        (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s cannot change a tuple", row->name);
        return none;
    }
    switch (row->id) {
    case TINYI_METHOD_APPEND:
        if (tinyi_targ_want(m, row, a, 0, "object", &x)) (void)tinyi_list_add(m, l, x);
        return none;
    case TINYI_METHOD_EXTEND:
        if (!tinyi_targ_want(m, row, a, 0, "iterable", &x) || !tinyi_tv_items(m, &x, &y)) return none;
        for (k = 0, n = y.u.list->n; k < n && !m->status; k++) (void)tinyi_list_add(m, l, y.u.list->item[k]);
        return none;
    case TINYI_METHOD_INSERT:
        if (!tinyi_targ_int(m, a, 0, "index", &i) || !tinyi_targ_want(m, row, a, 1, "object", &x)) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "insert needs an index and a value");
            return none;
        }
        if (i < 0) i = i < -(int64_t)l->n ? 0 : i + (int64_t)l->n;
        if (i > (int64_t)l->n) i = (int64_t)l->n;
        if (!tinyi_list_add(m, l, x) || !tinyi_doc_work(m, l->n - (size_t)i)) return none;
        memmove(l->item + i + 1, l->item + i, (l->n - 1 - (size_t)i) * sizeof *l->item);
        l->item[i] = x;
        return none;
    case TINYI_METHOD_POP:
        (void)tinyi_targ_int(m, a, 0, "index", &i);
        if (i < 0) i = i < -(int64_t)l->n ? -1 : i + (int64_t)l->n;
        if (m->status || i < 0 || i >= (int64_t)l->n) {
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "pop: the index is outside the list");
            return none;
        }
        x = l->item[i];
        memmove(l->item + i, l->item + i + 1, (l->n - 1 - (size_t)i) * sizeof *l->item);
        l->n--;
        (void)tinyi_doc_work(m, l->n - (size_t)i);
        return x;
    case TINYI_METHOD_REVERSE:
        for (k = 0; k < l->n / 2; k++) {
            x = l->item[k];
            l->item[k] = l->item[l->n - 1 - k];
            l->item[l->n - 1 - k] = x;
        }
        (void)tinyi_doc_work(m, l->n);
        return none;
    case TINYI_METHOD_COPY: return tinyi_template_repeat(m, v, 1);
    case TINYI_METHOD_CLEAR: l->n = 0; return none;
    default:                                /* count, index */
        if (!tinyi_targ_want(m, row, a, 0, "value", &x)) return none;
        for (k = n = 0; k < l->n && tinyi_doc_work(m, 1); k++)
            if (tinyi_tv_equal(m, &l->item[k], &x)) {
                n++;
                if (row->id == TINYI_METHOD_INDEX) return tinyi_tv_int((int64_t)k);
            }
        if (row->id == TINYI_METHOD_INDEX)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "index: the value is not in the list");
        return tinyi_tv_int((int64_t)n);
    }
}

static tinyi_tv tinyi_method_map(tinyi_doc *m, const tinyi_template_builtin *row, const tinyi_tv *v, tinyi_targs *a)
{
    tinyi_tmap *map = v->u.map;
    tinyi_tv none = tinyi_tv_of(TINYI_DOC_NONE), x, y = none, *found, copy;
    tinyi_targs one;
    size_t i;
    switch (row->id) {
    case TINYI_METHOD_ITEMS: return tinyi_template_pairs(m, map, 0);
    case TINYI_METHOD_KEYS: return tinyi_template_pairs(m, map, 1);
    case TINYI_METHOD_VALUES: return tinyi_template_pairs(m, map, 2);
    case TINYI_METHOD_CLEAR: map->n = 0; map->slot = NULL; map->n_slots = 0; return none;
    case TINYI_METHOD_GET: case TINYI_METHOD_POP: case TINYI_METHOD_SETDEFAULT: {
        int given;
        if (!tinyi_targ_want(m, row, a, 0, "key", &x)) return none;
        given = tinyi_targ(a, 1, "default", &y);
        found = tinyi_map_find(m, map, &x);
        if (found) y = *found;
        else if (row->id == TINYI_METHOD_POP && !given)
            (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "pop: the key is not in the map");
        else if (row->id == TINYI_METHOD_SETDEFAULT) (void)tinyi_map_set(m, map, x, y);
        if (found && row->id == TINYI_METHOD_POP) (void)tinyi_map_drop(m, map, &x);
        return y;
    }
    default:                                /* update, copy */
        one = *a;
        if (row->id == TINYI_METHOD_COPY) { one.arg = v; one.n = 1; one.n_named = 0; }
        copy = tinyi_template_made_map(m, &one);
        memcpy(a->used, one.used, sizeof one.used);
        if (m->status || row->id == TINYI_METHOD_COPY) return copy;
        for (i = 0; i < copy.u.map->n && !m->status; i++)
            (void)tinyi_map_set(m, map, copy.u.map->pair[i].key, copy.u.map->pair[i].value);
        return none;
    }
}

tinyi_tv tinyi_template_call_method(tinyi_doc *m, int row_id, tinyi_tv *self, tinyi_targs *a)
{
    const tinyi_template_builtin *row = tinyi_template_row_at(row_id);
    tinyi_tv out = tinyi_tv_of(TINYI_DOC_NONE);
    int k;
    if (!tinyi_targ_fit(m, row, a, 0)) return out;
    if (self->type == TINYI_DOC_STRING) out = tinyi_method_string(m, row, self, a);
    else if (self->type == TINYI_DOC_LIST) out = tinyi_method_list(m, row, self, a);
    else if (self->type == TINYI_DOC_MAP) out = tinyi_method_map(m, row, self, a);
    else if (row->id == TINYI_METHOD_CYCLE) {
        if (!a->n) (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "cycle needs values");
        else out = a->arg[self->u.loop->i % (size_t)a->n];
    } else {                                /* changed */
        tinyi_tv list = tinyi_tv_list(m, (size_t)a->n);
        for (k = 0; k < a->n && !m->status; k++) (void)tinyi_list_add(m, list.u.list, a->arg[k]);
        if (m->status) return out;
        out = tinyi_tv_bool(
            !(self->u.loop->changed.type == TINYI_DOC_LIST && tinyi_tv_equal(m, &list, &self->u.loop->changed)));
        self->u.loop->changed = list;
    }
    (void)tinyi_targ_fit(m, row, a, 1);
    return out;
}
