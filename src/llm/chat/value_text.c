/* src/llm/chat/value_text.c - values as text, as Python and as JSON write them
 *
 * Nested values keep a stack of their own, TINYI_TM_NEST deep. A float is the shortest of 1 to 17 digits that strtod reads
 * back, with the decimal point of the locale put back. */
#include "llm/chat/value_inside.h"
#include "llm/token/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

static int tinyi_tm_put_int(tinyi_tm *m, int64_t i)
{
    char text[24];
    size_t k = sizeof text;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do text[--k] = (char)('0' + u % 10);
    while (u /= 10);
    if (i < 0) text[--k] = '-';
    return tinyi_tm_put(m, text + k, sizeof text - k);
}

static int tinyi_tm_put_float(tinyi_tm *m, double f, int json)
{
    char text[48], digits[24], made[64];
    int precision, n_digits = 0, exponent = 0, i;
    size_t k = 0;
    if (f != f) return tinyi_tm_put(m, json ? "NaN" : "nan", 3);
    if (f - f != 0) return f < 0 && !tinyi_tm_put(m, "-", 1) ? 0 : json ? tinyi_tm_put(m, "Infinity", 8) : tinyi_tm_put(m, "inf", 3);
    for (precision = 0; precision < 17; precision++) {
        (void)snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f) break;
    }
    for (i = 0; text[i] && text[i] != 'e'; i++)
        if (text[i] >= '0' && text[i] <= '9' && n_digits < 20) digits[n_digits++] = text[i];
    if (text[i]) exponent = atoi(text + i + 1);
    while (n_digits > 1 && digits[n_digits - 1] == '0') n_digits--;
    if (text[0] == '-') made[k++] = '-';
    if (exponent < -4 || exponent >= 16) {
        made[k++] = digits[0];
        if (n_digits > 1) made[k++] = '.';
        for (i = 1; i < n_digits; i++) made[k++] = digits[i];
        (void)snprintf(made + k, sizeof made - k, "e%c%02d", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
        k = strlen(made);
    } else {
        if (exponent < 0) {
            made[k++] = '0';
            made[k++] = '.';
            for (i = -1; i > exponent; i--) made[k++] = '0';
            for (i = 0; i < n_digits; i++) made[k++] = digits[i];
        } else {
            for (i = 0; i <= exponent; i++) made[k++] = i < n_digits ? digits[i] : '0';
            made[k++] = '.';
            if (n_digits <= exponent + 1) made[k++] = '0';
            for (i = exponent + 1; i < n_digits; i++) made[k++] = digits[i];
        }
    }
    return tinyi_tm_put(m, made, k);
}

/* ---- printing ------------------------------------------------------------------------------------------------------------ */

static int tinyi_tm_put_escaped(tinyi_tm *m, unsigned kind, uint32_t c)
{
    char text[12];
    (void)snprintf(text, sizeof text, kind == 'x' ? "\\x%02x" : kind == 'u' ? "\\u%04x" : "\\U%08x", (unsigned)c);
    return tinyi_tm_put(m, text, strlen(text));
}

static int tinyi_tm_unprintable(uint32_t c)
{
    unsigned kind = tinyi_unicode_class(c) & (TINYI_UC_SPACE - 1u);
    return kind == TINYI_UC_OTHER || kind == TINYI_UC_Z || kind == TINYI_UC_C;
}

static int tinyi_tm_put_quoted(tinyi_tm *m, const char *s, size_t n, int json, int ascii)
{
    char quote = json || (memchr(s, '\'', n) && !memchr(s, '"', n)) ? '"' : '\'';
    size_t i, k, from = 0;
    if (!tinyi_tm_put(m, &quote, 1)) return 0;
    for (i = 0; i < n && !m->status; i += k) {
        unsigned char b = (unsigned char)s[i];
        const char *escape = NULL;
        uint32_t c = b;
        int hard = b < 0x20 || (b == 0x7f && !json), wide;
        k = b < 0x80 ? 1 : tinyi_utf8_get((const unsigned char *)s + i, n - i, &c);
        wide = b >= 0x80 && (json ? ascii : tinyi_tm_unprintable(c));
        if (!hard && !wide && b != '\\' && b != (unsigned char)quote) continue;
        (void)tinyi_tm_put(m, s + from, i - from);
        from = i + k;
        switch (b) {
        case '\\': escape = "\\\\"; break;
        case '"': escape = "\\\""; break;
        case '\'': escape = "\\'"; break;
        case '\n': escape = "\\n"; break;
        case '\r': escape = "\\r"; break;
        case '\t': escape = "\\t"; break;
        case '\b': escape = json ? "\\b" : NULL; break;
        case '\f': escape = json ? "\\f" : NULL; break;
        default: break;
        }
        if (escape) (void)tinyi_tm_put(m, escape, 2);
        else if (!json) (void)tinyi_tm_put_escaped(m, c < 0x100 ? 'x' : c < 0x10000 ? 'u' : 'U', c);
        else if (c < 0x10000) (void)tinyi_tm_put_escaped(m, 'u', c);
        else {
            (void)tinyi_tm_put_escaped(m, 'u', 0xd800 + ((c - 0x10000) >> 10));
            (void)tinyi_tm_put_escaped(m, 'u', 0xdc00 + ((c - 0x10000) & 0x3ff));
        }
    }
    (void)tinyi_tm_put(m, s + from, n - from);
    return tinyi_tm_put(m, &quote, 1);
}

static int tinyi_tm_put_text(tinyi_tm *m, const char *s) { return tinyi_tm_put(m, s, strlen(s)); }

/* form NULL: as Python's repr */
static int tinyi_tm_put_flat(tinyi_tm *m, const tinyi_tv *v, const tinyi_tm_json_form *form)
{
    switch (v->type) {
    case TINYI_TM_NONE: return tinyi_tm_put_text(m, form ? "null" : "None");
    case TINYI_TM_BOOL: return tinyi_tm_put_text(m, form ? (v->u.i ? "true" : "false") : v->u.i ? "True" : "False");
    case TINYI_TM_INT: return tinyi_tm_put_int(m, v->u.i);
    case TINYI_TM_FLOAT: return tinyi_tm_put_float(m, v->u.f, form != NULL);
    case TINYI_TM_STRING: return tinyi_tm_put_quoted(m, v->u.s, v->n, form != NULL, form && form->ascii);
    default: break;
    }
    if (form) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s%s%.*s has no form in JSON", tinyi_tv_type_name(v), v->type == TINYI_TM_UNDEFINED && v->n ? ": " : "",
                                   v->type == TINYI_TM_UNDEFINED ? (int)TINYI_MIN(v->n, 60) : 0, v->type == TINYI_TM_UNDEFINED && v->n ? v->u.s : "");
    return v->type == TINYI_TM_UNDEFINED ? tinyi_tm_put_text(m, "Undefined") : tinyi_tm_put_text(m, v->type == TINYI_TM_NAMESPACE ? "<Namespace>" : v->type == TINYI_TM_LOOP ? "<LoopContext>" : "<function>");
}

static int tinyi_tm_put_line(tinyi_tm *m, int indent, int depth)
{
    static const char blanks[] = "                                ";
    size_t n = (size_t)indent * (size_t)depth;
    (void)tinyi_tm_put(m, "\n", 1);
    while (n && !m->status) {
        size_t part = TINYI_MIN(n, sizeof blanks - 1);
        (void)tinyi_tm_put(m, blanks, part);
        n -= part;
    }
    return !m->status;
}

/* the places of a map's pairs in the order of their keys: a merge sort from below */
static uint32_t *tinyi_map_order(tinyi_tm *m, const tinyi_tmap *map)
{
    uint32_t *a = (uint32_t *)tinyi_tm_alloc(m, map->n, sizeof *a), *b = (uint32_t *)tinyi_tm_alloc(m, map->n, sizeof *b), *t;
    size_t width, i;
    if (!a || !b) return NULL;
    for (i = 0; i < map->n; i++) a[i] = (uint32_t)i;
    for (width = 1; width < map->n; width *= 2) {
        for (i = 0; i < map->n; i += 2 * width) {
            size_t p = i, q = TINYI_MIN(i + width, map->n), mid = q, end = TINYI_MIN(i + 2 * width, map->n), k = i;
            while (p < mid || q < end) {
                int left = q == end || (p < mid && tinyi_tv_compare(m, &map->pair[a[p]].key, &map->pair[a[q]].key, 0) <= 0);
                b[k++] = left ? a[p++] : a[q++];
            }
        }
        t = a;
        a = b;
        b = t;
    }
    return m->status ? NULL : a;
}

static int tinyi_tv_put_nested(tinyi_tm *m, const tinyi_tv *v, const tinyi_tm_json_form *form)
{
    struct { const tinyi_tv *v; uint32_t *order; size_t i; } at[TINYI_TM_NEST];
    int depth = 0, indent = form ? form->indent : -1;
    const tinyi_tv *next = v;
    for (;;) {
        size_t n, i;
        const tinyi_tv *x;
        int list;
        if (m->status || !tinyi_tm_work(m, 1)) return 0;
        if (next) {
            v = next;
            next = NULL;
            if (v->type != TINYI_TM_LIST && v->type != TINYI_TM_MAP) {
                if (!tinyi_tm_put_flat(m, v, form) || !depth) return !m->status;
                continue;
            }
            list = v->type == TINYI_TM_LIST;
            n = list ? v->u.list->n : v->u.map->n;
            (void)tinyi_tm_put(m, list ? (v->id && !form ? "(" : "[") : "{", 1);
            if (!n) {
                (void)tinyi_tm_put(m, list ? (v->id && !form ? ")" : "]") : "}", 1);
                if (!depth) return !m->status;
                continue;
            }
            if (depth == TINYI_TM_NEST) return tinyi_tm_fail(m, TINY_E_WORKSPACE, "a value nested more than %d deep is printed", TINYI_TM_NEST);
            at[depth].v = v;
            at[depth].i = 0;
            at[depth].order = form && form->sort && !list ? tinyi_map_order(m, v->u.map) : NULL;
            depth++;
            continue;
        }
        x = at[depth - 1].v;
        list = x->type == TINYI_TM_LIST;
        n = list ? x->u.list->n : x->u.map->n;
        i = at[depth - 1].i++;
        if (i == n) {
            depth--;
            if (indent >= 0) (void)tinyi_tm_put_line(m, indent, depth);
            if (list && x->id && !form && n == 1) (void)tinyi_tm_put(m, ",", 1);
            (void)tinyi_tm_put(m, list ? (x->id && !form ? ")" : "]") : "}", 1);
            if (!depth) return !m->status;
            continue;
        }
        if (i) (void)(form ? tinyi_tm_put(m, form->item_mark.u.s, form->item_mark.n) : tinyi_tm_put(m, ", ", 2));
        if (indent >= 0) (void)tinyi_tm_put_line(m, indent, depth);
        if (list) {
            next = &x->u.list->item[i];
        } else {
            const tinyi_tpair *p = &x->u.map->pair[at[depth - 1].order ? at[depth - 1].order[i] : i];
            if (form && p->key.type != TINYI_TM_STRING) {
                (void)tinyi_tm_put(m, "\"", 1);
                (void)tinyi_tm_put_flat(m, &p->key, form);
                (void)tinyi_tm_put(m, "\"", 1);
            } else {
                (void)tinyi_tm_put_flat(m, &p->key, form);
            }
            (void)(form ? tinyi_tm_put(m, form->key_mark.u.s, form->key_mark.n) : tinyi_tm_put(m, ": ", 2));
            next = &p->value;
        }
    }
}

int tinyi_tv_put_repr(tinyi_tm *m, const tinyi_tv *v) { return tinyi_tv_put_nested(m, v, NULL); }
int tinyi_tv_put_json(tinyi_tm *m, const tinyi_tv *v, const tinyi_tm_json_form *form) { return tinyi_tv_put_nested(m, v, form); }

int tinyi_tv_put(tinyi_tm *m, const tinyi_tv *v)
{
    if (v->type == TINYI_TM_STRING) return tinyi_tm_put(m, v->u.s, v->n);
    if (v->type == TINYI_TM_UNDEFINED) return !m->status;
    return tinyi_tv_put_repr(m, v);
}

tinyi_tv tinyi_tv_string(tinyi_tm *m, const tinyi_tv *v)
{
    size_t start = m->n_out;
    if (v->type == TINYI_TM_STRING) return *v;
    (void)tinyi_tv_put(m, v);
    return tinyi_tm_take(m, start);
}
