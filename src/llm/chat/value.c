/* src/llm/chat/value.c */
#include "llm/chat/value_inside.h"
#include "llm/token/unicode.h"
#include <string.h>

/* ---- as text, as Python writes it ---- */

static int tinyi_template_unprintable(uint32_t c)
{
    unsigned kind = tinyi_unicode_class(c) & (TINYI_UC_SPACE - 1u);
    return kind == TINYI_UC_OTHER || kind == TINYI_UC_Z || kind == TINYI_UC_C;
}

static int tinyi_template_put_python(tinyi_doc *m, const tinyi_tv *v)
{
    const char *text;
    switch (v->type) {
    case TINYI_DOC_INT: return tinyi_doc_put_int(m, v->u.i);
    case TINYI_DOC_FLOAT: return tinyi_doc_put_float(m, v->u.f, 0);
    case TINYI_DOC_STRING: return tinyi_doc_put_quoted(m, v->u.s, v->n, 0, tinyi_template_unprintable);
    case TINYI_DOC_NONE: text = "None"; break;
    case TINYI_DOC_BOOL: text = v->u.i ? "True" : "False"; break;
    case TINYI_DOC_UNDEFINED: text = "Undefined"; break;
    case TINYI_DOC_NAMESPACE: text = "<Namespace>"; break;
    case TINYI_DOC_LOOP: text = "<LoopContext>"; break;
    default: text = "<function>";
    }
    return tinyi_doc_put(m, text, strlen(text));
}

int tinyi_tv_put_repr(tinyi_doc *m, const tinyi_tv *v)
{
    tinyi_doc_form form;
    memset(&form, 0, sizeof form);
    form.indent = -1;
    form.item_mark = tinyi_tv_view(", ", 2);
    form.key_mark = tinyi_tv_view(": ", 2);
    form.leaf = tinyi_template_put_python;
    return tinyi_tv_put_json(m, v, &form);
}

int tinyi_tv_put(tinyi_doc *m, const tinyi_tv *v)
{
    if (v->type == TINYI_DOC_STRING) return tinyi_doc_put(m, v->u.s, v->n);
    if (v->type == TINYI_DOC_UNDEFINED) return !m->status;
    return tinyi_tv_put_repr(m, v);
}

tinyi_tv tinyi_tv_string(tinyi_doc *m, const tinyi_tv *v)
{
    size_t start = m->n_out;
    if (v->type == TINYI_DOC_STRING) return *v;
    (void)tinyi_tv_put(m, v);
    return tinyi_doc_take(m, start);
}

/* ---- going through them ---- */

int tinyi_tv_in(tinyi_doc *m, const tinyi_tv *item, const tinyi_tv *where)
{
    size_t i;
    switch (where->type) {
    case TINYI_DOC_UNDEFINED: return 0;
    case TINYI_DOC_STRING:
        if (item->type != TINYI_DOC_STRING)
            return tinyi_doc_fail(m, TINY_E_ARGUMENT, "a string cannot contain %s", tinyi_tv_type_name(item));
        if (!item->n) return 1;
        for (i = 0; i + item->n <= where->n; i++) {
            const char *p = (const char *)memchr(where->u.s + i, item->u.s[0], where->n - item->n + 1 - i);
            if (!p) break;
            i = (size_t)(p - where->u.s);
            if (!tinyi_doc_work(m, 1 + item->n / 16)) return 0;
            if (!memcmp(p, item->u.s, item->n)) return 1;
        }
        (void)tinyi_doc_work(m, where->n / 16);
        return 0;
    case TINYI_DOC_LIST:
        for (i = 0; i < where->u.list->n && tinyi_doc_work(m, 1); i++)
            if (tinyi_tv_equal(m, item, &where->u.list->item[i])) return 1;
        return 0;
    case TINYI_DOC_MAP: return tinyi_map_find(m, where->u.map, item) != NULL;
    default:
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "'in' searches strings, lists and maps, not %s",
                              tinyi_tv_type_name(where));
    }
}

int tinyi_tv_items(tinyi_doc *m, const tinyi_tv *v, tinyi_tv *list)
{
    size_t i, n;
    switch (v->type) {
    case TINYI_DOC_LIST: *list = *v; return 1;
    case TINYI_DOC_UNDEFINED: *list = tinyi_tv_list(m, 0); return !m->status;
    case TINYI_DOC_MAP:
        *list = tinyi_tv_list(m, v->u.map->n);
        for (i = 0; !m->status && i < v->u.map->n; i++) (void)tinyi_list_add(m, list->u.list, v->u.map->pair[i].key);
        return !m->status;
    case TINYI_DOC_STRING:
        *list = tinyi_tv_list(m, 0);
        for (i = 0; !m->status && i < v->n; i += n) {
            uint32_t c;
            n = tinyi_utf8_get((const unsigned char *)v->u.s + i, v->n - i, &c);
            (void)tinyi_list_add(m, list->u.list, tinyi_tv_view(v->u.s + i, n));
        }
        return !m->status;
    default: return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s cannot be iterated", tinyi_tv_type_name(v));
    }
}
