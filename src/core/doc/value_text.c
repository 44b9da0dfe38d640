/* src/core/doc/value_text.c - values as text, as JSON and, for templates, Python write them
 *
 * Nested values keep a stack of their own, TINYI_DOC_NEST deep. A float is the shortest of 1 to 17 digits that strtod
 * reads back, with the decimal point of the locale put back. */
#include "core/doc/value_inside.h"
#include "core/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

int tinyi_doc_put_int(tinyi_doc *m, int64_t i)
{
    char text[24];
    size_t k = sizeof text;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do text[--k] = (char)('0' + u % 10);
    while (u /= 10);
    if (i < 0) text[--k] = '-';
    return tinyi_doc_put(m, text + k, sizeof text - k);
}

int tinyi_doc_put_float(tinyi_doc *m, double f, int json)
{
    char text[48], digits[24], made[64];
    int precision, n_digits = 0, exponent = 0, i;
    size_t k = 0;
    if (f != f) return tinyi_doc_put(m, json ? "NaN" : "nan", 3);
    if (f - f != 0)
        return f < 0 && !tinyi_doc_put(m, "-", 1) ? 0
               : json                             ? tinyi_doc_put(m, "Infinity", 8)
                                                  : tinyi_doc_put(m, "inf", 3);
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
        (void)snprintf(made + k, sizeof made - k, "e%c%02d", exponent < 0 ? '-' : '+',
                       exponent < 0 ? -exponent : exponent);
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
    return tinyi_doc_put(m, made, k);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static int tinyi_doc_put_escaped(tinyi_doc *m, unsigned kind, uint32_t c)
{
    char text[12];
    (void)snprintf(text, sizeof text, kind == 'x' ? "\\x%02x" : kind == 'u' ? "\\u%04x" : "\\U%08x", (unsigned)c);
    return tinyi_doc_put(m, text, strlen(text));
}

int tinyi_doc_put_quoted(tinyi_doc *m, const char *s, size_t n, int ascii, int (*hidden)(uint32_t c))
{
    const int json = !hidden;
    char quote = json || (memchr(s, '\'', n) && !memchr(s, '"', n)) ? '"' : '\'';
    size_t i, k, from = 0;
    if (!tinyi_doc_put(m, &quote, 1)) return 0;
    for (i = 0; i < n && !m->status; i += k) {
        unsigned char b = (unsigned char)s[i];
        const char *escape = NULL;
        uint32_t c = b;
        int hard = b < 0x20 || (b == 0x7f && !json), wide;
        k = b < 0x80 ? 1 : tinyi_utf8_get((const unsigned char *)s + i, n - i, &c);
        wide = b >= 0x80 && (json ? ascii : hidden(c));
        if (!hard && !wide && b != '\\' && b != (unsigned char)quote) continue;
        (void)tinyi_doc_put(m, s + from, i - from);
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
        if (escape) (void)tinyi_doc_put(m, escape, 2);
        else if (!json) (void)tinyi_doc_put_escaped(m, c < 0x100 ? 'x' : c < 0x10000 ? 'u' : 'U', c);
        else if (c < 0x10000) (void)tinyi_doc_put_escaped(m, 'u', c);
        else {
            (void)tinyi_doc_put_escaped(m, 'u', 0xd800 + ((c - 0x10000) >> 10));
            (void)tinyi_doc_put_escaped(m, 'u', 0xdc00 + ((c - 0x10000) & 0x3ff));
        }
    }
    (void)tinyi_doc_put(m, s + from, n - from);
    return tinyi_doc_put(m, &quote, 1);
}

static int tinyi_doc_put_text(tinyi_doc *m, const char *s) { return tinyi_doc_put(m, s, strlen(s)); }

static int tinyi_doc_put_leaf(tinyi_doc *m, const tinyi_tv *v, const tinyi_doc_form *form)
{
    if (form->leaf) return form->leaf(m, v);
    switch (v->type) {
    case TINYI_DOC_NONE: return tinyi_doc_put_text(m, "null");
    case TINYI_DOC_BOOL: return tinyi_doc_put_text(m, v->u.i ? "true" : "false");
    case TINYI_DOC_INT: return tinyi_doc_put_int(m, v->u.i);
    case TINYI_DOC_FLOAT: return tinyi_doc_put_float(m, v->u.f, 1);
    case TINYI_DOC_STRING: return tinyi_doc_put_quoted(m, v->u.s, v->n, form->ascii, NULL);
    default: break;
    }
    return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s%s%.*s has no form in JSON", tinyi_tv_type_name(v),
                          v->type == TINYI_DOC_UNDEFINED && v->n ? ": " : "",
                          v->type == TINYI_DOC_UNDEFINED ? (int)TINYI_MIN(v->n, 60) : 0,
                          v->type == TINYI_DOC_UNDEFINED && v->n ? v->u.s : "");
}

static int tinyi_doc_put_line(tinyi_doc *m, int indent, int depth)
{
    static const char blanks[] = "                                ";
    size_t n = (size_t)indent * (size_t)depth;
    (void)tinyi_doc_put(m, "\n", 1);
    while (n && !m->status) {
        size_t part = TINYI_MIN(n, sizeof blanks - 1);
        (void)tinyi_doc_put(m, blanks, part);
        n -= part;
    }
    return !m->status;
}

/* the places of a map's pairs in the order of their keys: a merge sort from below */
static uint32_t *tinyi_map_order(tinyi_doc *m, const tinyi_tmap *map)
{
    uint32_t *a = (uint32_t *)tinyi_doc_alloc(m, map->n, sizeof *a),
             *b = (uint32_t *)tinyi_doc_alloc(m, map->n, sizeof *b), *t;
    size_t width, i;
    if (!a || !b) return NULL;
    for (i = 0; i < map->n; i++) a[i] = (uint32_t)i;
    for (width = 1; width < map->n; width *= 2) {
        for (i = 0; i < map->n; i += 2 * width) {
            size_t p = i, q = TINYI_MIN(i + width, map->n), mid = q, end = TINYI_MIN(i + 2 * width, map->n), k = i;
            while (p < mid || q < end) {
                int left =
                    q == end || (p < mid && tinyi_tv_compare(m, &map->pair[a[p]].key, &map->pair[a[q]].key, NULL) <= 0);
                b[k++] = left ? a[p++] : a[q++];
            }
        }
        t = a;
        a = b;
        b = t;
    }
    return m->status ? NULL : a;
}

int tinyi_tv_put_json(tinyi_doc *m, const tinyi_tv *v, const tinyi_doc_form *form)
{
    struct { const tinyi_tv *v; uint32_t *order; size_t i; } at[TINYI_DOC_NEST];
    int depth = 0;
    const int indent = form->indent, python = form->leaf != NULL;
    const tinyi_tv *next = v;
    for (;;) {
        size_t n, i;
        const tinyi_tv *x;
        int list;
        if (m->status || !tinyi_doc_work(m, 1)) return 0;
        if (next) {
            v = next;
            next = NULL;
            if (v->type != TINYI_DOC_LIST && v->type != TINYI_DOC_MAP) {
                if (!tinyi_doc_put_leaf(m, v, form) || !depth) return !m->status;
                continue;
            }
            list = v->type == TINYI_DOC_LIST;
            n = list ? v->u.list->n : v->u.map->n;
            (void)tinyi_doc_put(m, list ? (v->id && python ? "(" : "[") : "{", 1);
            if (!n) {
                (void)tinyi_doc_put(m, list ? (v->id && python ? ")" : "]") : "}", 1);
                if (!depth) return !m->status;
                continue;
            }
            if (depth == TINYI_DOC_NEST)
                return tinyi_doc_fail(m, TINY_E_WORKSPACE, "a value nested more than %d deep is printed",
                                      TINYI_DOC_NEST);
            at[depth].v = v;
            at[depth].i = 0;
            at[depth].order = form->sort && !list ? tinyi_map_order(m, v->u.map) : NULL;
            depth++;
            continue;
        }
        x = at[depth - 1].v;
        list = x->type == TINYI_DOC_LIST;
        n = list ? x->u.list->n : x->u.map->n;
        i = at[depth - 1].i++;
        if (i == n) {
            depth--;
            if (indent >= 0) (void)tinyi_doc_put_line(m, indent, depth);
            if (list && x->id && python && n == 1) (void)tinyi_doc_put(m, ",", 1);
            (void)tinyi_doc_put(m, list ? (x->id && python ? ")" : "]") : "}", 1);
            if (!depth) return !m->status;
            continue;
        }
        if (i) (void)tinyi_doc_put(m, form->item_mark.u.s, form->item_mark.n);
        if (indent >= 0) (void)tinyi_doc_put_line(m, indent, depth);
        if (list) {
            next = &x->u.list->item[i];
        } else {
            const tinyi_tpair *p = &x->u.map->pair[at[depth - 1].order ? at[depth - 1].order[i] : i];
            if (!python && p->key.type != TINYI_DOC_STRING) {
                (void)tinyi_doc_put(m, "\"", 1);
                (void)tinyi_doc_put_leaf(m, &p->key, form);
                (void)tinyi_doc_put(m, "\"", 1);
            } else {
                (void)tinyi_doc_put_leaf(m, &p->key, form);
            }
            (void)tinyi_doc_put(m, form->key_mark.u.s, form->key_mark.n);
            next = &p->value;
        }
    }
}
