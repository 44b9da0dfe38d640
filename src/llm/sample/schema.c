/* src/llm/sample/schema.c
 *
 * Each nested schema becomes a rule s0, s1, ... in the order found; a worklist replaces recursion. The members of an
 * object are two chains of rules: sNfI before the first member that is present, sNmI after it. Their size is linear in
 * the number of optional members; writing out all choices would be exponential. */
#include "llm/sample/schema.h"
#include "core/doc/value_inside.h"
#include <string.h>

typedef struct tinyi_sc {
    tinyi_doc m;
    tinyi_tv root, index;                   /* index: address of a schema -> its number */
    const tinyi_tv **schema;
    tinyi_tv *path;
    size_t n, room, path_room;
} tinyi_sc;

static const char tinyi_sc_rules[] =
    "ws ::= (\" \" | \"\\n\"{1,2} [ \\t]{0,20})?\n"
    "value ::= object | array | string | number | boolean | null\n"
    "object ::= \"{\" ws (member (ws \",\" ws member)*)? ws \"}\"\n"
    "member ::= string ws \":\" ws value\n"
    "array ::= \"[\" ws (value (ws \",\" ws value)*)? ws \"]\"\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17})\n"
    "number ::= integer (\".\" [0-9]{1,17})? ([eE] [-+]? [0-9]{1,3})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n";

static void tinyi_sc_put(tinyi_sc *c, const char *s) { (void)tinyi_doc_put(&c->m, s, strlen(s)); }
static void tinyi_sc_int(tinyi_sc *c, size_t i)
{
    (void)tinyi_doc_put_int(&c->m, (int64_t)i);
}
static void tinyi_sc_rule(tinyi_sc *c, size_t i)
{
    tinyi_sc_put(c, "s");
    tinyi_sc_int(c, i);
}
/* kind: f, m or t; 0: none */
static void tinyi_sc_name(tinyi_sc *c, size_t i, const char *kind, size_t k)
{
    tinyi_sc_rule(c, i);
    tinyi_sc_put(c, kind);
    tinyi_sc_int(c, k);
}

static int tinyi_sc_fail(tinyi_sc *c, const tinyi_tv *path, const char *what, const char *name, size_t n)
{
    char at[80], shown[80];
    if (c->m.status) return 0;
    tinyi_doc_show(path->u.s, path->n, at);
    tinyi_doc_show(name, n, shown);
    c->m.status = tinyi_fail(c->m.ctx, TINY_E_UNSUPPORTED, "JSON schema, %s: %s%s%s", at, what, n ? " " : "", shown);
    return 0;
}

static tinyi_tv tinyi_sc_path(tinyi_sc *c, const tinyi_tv *path, const char *s, size_t n)
{
    size_t start = c->m.n_out;
    (void)tinyi_doc_put(&c->m, path->u.s, path->n);
    (void)tinyi_doc_put(&c->m, "/", 1);
    (void)tinyi_doc_put(&c->m, s, TINYI_MIN(n, 100));
    return tinyi_doc_take(&c->m, start);
}

/* the number of the rule of a schema, which is put on the list when it is new */
static size_t tinyi_sc_number(tinyi_sc *c, const tinyi_tv *v, tinyi_tv path)
{
    tinyi_tv key = tinyi_tv_int((int64_t)(intptr_t)v), *old = tinyi_map_find(&c->m, c->index.u.map, &key);
    void *schema = (void *)c->schema, *paths = c->path;
    if (old) return (size_t)old->u.i;
    if (c->m.status || !tinyi_doc_grow(&c->m, &schema, c->n, &c->room, c->n + 1, sizeof *c->schema) ||
        !tinyi_doc_grow(&c->m, &paths, c->n, &c->path_room, c->n + 1, sizeof *c->path)) return 0;
    c->schema = (const tinyi_tv **)schema;
    c->path = (tinyi_tv *)paths;
    c->schema[c->n] = v;
    c->path[c->n] = path;
    (void)tinyi_map_set(&c->m, c->index.u.map, key, tinyi_tv_int((int64_t)c->n));
    return c->n++;
}
static void tinyi_sc_child(tinyi_sc *c, const tinyi_tv *v, const tinyi_tv *path, const char *s, size_t n)
{
    tinyi_sc_rule(c, tinyi_sc_number(c, v, tinyi_sc_path(c, path, s, n)));
}

/* a JSON value as a literal of the grammar */
static void tinyi_sc_literal(tinyi_sc *c, const tinyi_tv *v)
{
    tinyi_doc_form form;
    tinyi_tv text;
    size_t start = c->m.n_out, i;
    memset(&form, 0, sizeof form);
    form.indent = -1;
    form.item_mark = tinyi_tv_view(",", 1);
    form.key_mark = tinyi_tv_view(":", 1);
    (void)tinyi_tv_put_json(&c->m, v, &form);
    text = tinyi_doc_take(&c->m, start);
    tinyi_sc_put(c, "\"");
    for (i = 0; i < text.n && tinyi_doc_work(&c->m, 1); i++) {
        if (text.u.s[i] == '"' || text.u.s[i] == '\\') tinyi_sc_put(c, "\\");
        (void)tinyi_doc_put(&c->m, text.u.s + i, 1);
    }
    tinyi_sc_put(c, "\"");
}

static const tinyi_tv *tinyi_sc_get(tinyi_sc *c, const tinyi_tv *v, const char *name)
{
    return tinyi_map_find_text(&c->m, v->u.map, name, strlen(name));
}

/* lo, hi of a pair of keywords; hi -1: none */
static void tinyi_sc_bounds(tinyi_sc *c, const tinyi_tv *v, const tinyi_tv *path, const char *least, const char *most,
                            int64_t *lo, int64_t *hi)
{
    const tinyi_tv *a = tinyi_sc_get(c, v, least), *b = tinyi_sc_get(c, v, most);
    *lo = 0;
    *hi = -1;
    if (a && (a->type != TINYI_DOC_INT || a->u.i < 0 || a->u.i > TLLM_SCHEMA_MAX_REPEAT))
        (void)tinyi_sc_fail(c, path, "a number from 0 to 10000 is needed for", least, strlen(least));
    else if (a) *lo = a->u.i;
    if (b && (b->type != TINYI_DOC_INT || b->u.i < 0 || b->u.i > TLLM_SCHEMA_MAX_REPEAT))
        (void)tinyi_sc_fail(c, path, "a number from 0 to 10000 is needed for", most, strlen(most));
    else if (b) *hi = b->u.i;
    if (*hi >= 0 && *hi < *lo) (void)tinyi_sc_fail(c, path, "the maximum is below the minimum:", most, strlen(most));
}
static void tinyi_sc_times(tinyi_sc *c, int64_t lo, int64_t hi)
{
    tinyi_sc_put(c, "{");
    tinyi_sc_int(c, (size_t)lo);
    tinyi_sc_put(c, ",");
    if (hi >= 0) tinyi_sc_int(c, (size_t)hi);
    tinyi_sc_put(c, "}");
}

static void tinyi_sc_object(tinyi_sc *c, size_t self, const tinyi_tv *v, const tinyi_tv *path)
{
    const tinyi_tv *props = tinyi_sc_get(c, v, "properties"), *required = tinyi_sc_get(c, v, "required"),
                   *more = tinyi_sc_get(c, v, "additionalProperties");
    size_t n = 0, i, k;
    int others;
    tinyi_tv must = tinyi_tv_map(&c->m);
    if (props && props->type != TINYI_DOC_MAP) {
        (void)tinyi_sc_fail(c, path, "an object is needed for", "properties", 10);
        return;
    }
    if (more && more->type != TINYI_DOC_MAP && more->type != TINYI_DOC_BOOL) {
        (void)tinyi_sc_fail(c, path, "true, false or an object is needed for", "additionalProperties", 20);
        return;
    }
    if (props) n = props->u.map->n;
    if (required && required->type != TINYI_DOC_LIST) {
        (void)tinyi_sc_fail(c, path, "a list is needed for", "required", 8);
        return;
    }
    for (i = 0; required && i < required->u.list->n && !c->m.status; i++) {
        const tinyi_tv *name = &required->u.list->item[i];
        if (name->type != TINYI_DOC_STRING || !props || !tinyi_map_find(&c->m, props->u.map, name)) {
            (void)tinyi_sc_fail(c, path, "required has a name that is not in properties:",
                                name->type == TINYI_DOC_STRING ? name->u.s : "",
                                name->type == TINYI_DOC_STRING ? name->n : 0);
            return;
        }
        (void)tinyi_map_set(&c->m, must.u.map, *name, tinyi_tv_bool(1));
    }
    others = more ? !(more->type == TINYI_DOC_BOOL && !more->u.i) : !props;
    tinyi_sc_put(c, "\"{\" ws ");
    tinyi_sc_name(c, self, "f", 0);
    tinyi_sc_put(c, " ws \"}\"\n");
    for (i = 0; i < n && !c->m.status; i++) {
        const tinyi_tpair *p = &props->u.map->pair[i];
        int optional = !tinyi_map_find(&c->m, must.u.map, &p->key);
        for (k = 0; k < 2; k++) {
            tinyi_sc_name(c, self, k ? "m" : "f", i);
            tinyi_sc_put(c, k ? " ::= ws \",\" ws " : " ::= ");
            tinyi_sc_name(c, self, "p", i);
            tinyi_sc_put(c, " ");
            tinyi_sc_name(c, self, "m", i + 1);
            if (optional) {
                tinyi_sc_put(c, " | ");
                tinyi_sc_name(c, self, k ? "m" : "f", i + 1);
            }
            tinyi_sc_put(c, "\n");
        }
        tinyi_sc_name(c, self, "p", i);
        tinyi_sc_put(c, " ::= ");
        tinyi_sc_literal(c, &p->key);
        tinyi_sc_put(c, " ws \":\" ws ");
        {
            tinyi_tv under = tinyi_sc_path(c, path, "properties", 10);
            tinyi_sc_child(c, &p->value, &under, p->key.u.s, p->key.n);
        }
        tinyi_sc_put(c, "\n");
    }
    tinyi_sc_name(c, self, "f", n);
    tinyi_sc_put(c, " ::= ");
    if (others) {
        tinyi_sc_put(c, "(");
        tinyi_sc_name(c, self, "a", 0);
        tinyi_sc_put(c, " ");
        tinyi_sc_name(c, self, "m", n);
        tinyi_sc_put(c, ")?");
    } else {
        tinyi_sc_put(c, "\"\"");
    }
    tinyi_sc_put(c, "\n");
    tinyi_sc_name(c, self, "m", n);
    tinyi_sc_put(c, " ::= ");
    if (others) {
        tinyi_sc_put(c, "(ws \",\" ws ");
        tinyi_sc_name(c, self, "a", 0);
        tinyi_sc_put(c, ")*\n");
        tinyi_sc_name(c, self, "a", 0);
        tinyi_sc_put(c, " ::= string ws \":\" ws ");
        if (more && more->type == TINYI_DOC_MAP) tinyi_sc_child(c, more, path, "additionalProperties", 20);
        else tinyi_sc_put(c, "value");
    } else {
        tinyi_sc_put(c, "\"\"");
    }
    tinyi_sc_put(c, "\n");
}

static void tinyi_sc_array(tinyi_sc *c, size_t self, const tinyi_tv *v, const tinyi_tv *path)
{
    const tinyi_tv *items = tinyi_sc_get(c, v, "items"), *prefix = tinyi_sc_get(c, v, "prefixItems");
    int64_t lo, hi;
    size_t i, n = 0;
    int none = items && items->type == TINYI_DOC_BOOL && !items->u.i;
    tinyi_sc_bounds(c, v, path, "minItems", "maxItems", &lo, &hi);
    if (prefix && prefix->type != TINYI_DOC_LIST) {
        (void)tinyi_sc_fail(c, path, "a list is needed for", "prefixItems", 11);
        return;
    }
    if (prefix && !prefix->u.list->n) {     /* only what items allows, and nothing without them */
        none = none || !items;
        prefix = NULL;
    }
    if (none && lo > 0 && !prefix) {
        (void)tinyi_sc_fail(c, path, "no item is allowed, but one is required by", "minItems", 8);
        return;
    }
    if (prefix) {
        tinyi_tv under = tinyi_sc_path(c, path, "prefixItems", 11);
        n = prefix->u.list->n;
        tinyi_sc_put(c, "\"[\" ws ");
        for (i = 0; i < n && !c->m.status; i++) {
            if (i) tinyi_sc_put(c, " ws \",\" ws ");
            tinyi_sc_child(c, &prefix->u.list->item[i], &under, "", 0);
        }
        if (lo > (int64_t)n || (hi >= 0 && hi < (int64_t)n))
            (void)tinyi_sc_fail(
                c, path, "all of prefixItems are required, but their number is outside minItems and maxItems", "", 0);
        if (!none && items) {
            tinyi_sc_put(c, " (ws \",\" ws ");
            tinyi_sc_name(c, self, "i", 0);
            tinyi_sc_put(c, ")");
            tinyi_sc_times(c, 0, hi < 0 ? -1 : hi - (int64_t)n);
        }
        tinyi_sc_put(c, " ws \"]\"\n");
    } else {
        if (none) hi = 0;
        tinyi_sc_put(c, "\"[\" ws ");
        if (hi != 0) {
            tinyi_sc_put(c, "(");
            tinyi_sc_name(c, self, "i", 0);
            tinyi_sc_put(c, " (ws \",\" ws ");
            tinyi_sc_name(c, self, "i", 0);
            tinyi_sc_put(c, ")");
            tinyi_sc_times(c, lo > 0 ? lo - 1 : 0, hi < 0 ? -1 : hi - 1);
            tinyi_sc_put(c, lo ? ")" : ")?");
        }
        tinyi_sc_put(c, " ws \"]\"\n");
    }
    tinyi_sc_name(c, self, "i", 0);
    tinyi_sc_put(c, " ::= ");
    if (items && !none) tinyi_sc_child(c, items, path, "items", 5);
    else tinyi_sc_put(c, "value");
    tinyi_sc_put(c, "\n");
}

/* "#/$defs/name": ~0 is ~, ~1 is / */
static const tinyi_tv *tinyi_sc_refer(tinyi_sc *c, const tinyi_tv *ref, const tinyi_tv *path)
{
    const tinyi_tv *at = &c->root;
    size_t i = 1, start;
    if (ref->type != TINYI_DOC_STRING || !ref->n || ref->u.s[0] != '#' || (ref->n > 1 && ref->u.s[1] != '/')) {
        (void)tinyi_sc_fail(c, path, "$ref points outside the schema:", ref->type == TINYI_DOC_STRING ? ref->u.s : "",
                            ref->type == TINYI_DOC_STRING ? ref->n : 0);
        return NULL;
    }
    while (i < ref->n && at && !c->m.status) {
        tinyi_tv name;
        start = c->m.n_out;
        for (i++; i < ref->n && ref->u.s[i] != '/'; i++) {
            char ch = ref->u.s[i];
            if (ch == '~' && i + 1 < ref->n && (ref->u.s[i + 1] == '0' || ref->u.s[i + 1] == '1'))
                ch = ref->u.s[++i] == '0' ? '~' : '/';
            (void)tinyi_doc_put(&c->m, &ch, 1);
        }
        name = tinyi_doc_take(&c->m, start);
        at = at->type == TINYI_DOC_MAP ? tinyi_map_find(&c->m, at->u.map, &name) : NULL;
    }
    if (!at) (void)tinyi_sc_fail(c, path, "$ref points to nothing:", ref->u.s, ref->n);
    return at;
}

/* The alternatives of one type; parts that need rules of their own give rules sNoK. */
static void tinyi_sc_type(tinyi_sc *c, size_t self, const tinyi_tv *v, const tinyi_tv *type, const tinyi_tv *path)
{
    static const char *const plain[] = { "integer", "number", "boolean", "null" };
    int64_t lo, hi;
    size_t i;
    for (i = 0; i < TINYI_COUNT(plain); i++)
        if (tinyi_tv_is(type, plain[i])) {
            tinyi_sc_put(c, plain[i]);
            return;
        }
    if (tinyi_tv_is(type, "string")) {
        tinyi_sc_bounds(c, v, path, "minLength", "maxLength", &lo, &hi);
        tinyi_sc_put(c, "\"\\\"\" char");
        tinyi_sc_times(c, lo, hi);
        tinyi_sc_put(c, " \"\\\"\"");
    } else if (tinyi_tv_is(type, "object")) {
        tinyi_sc_name(c, self, "o", 0);
    } else if (tinyi_tv_is(type, "array")) {
        tinyi_sc_name(c, self, "l", 0);
    } else {
        (void)tinyi_sc_fail(c, path, "unknown type", type->type == TINYI_DOC_STRING ? type->u.s : "",
                            type->type == TINYI_DOC_STRING ? type->n : 0);
    }
}

static int tinyi_sc_among(const tinyi_tv *key, const char *const *name, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (tinyi_tv_is(key, name[i])) return 1;
    return 0;
}

static void tinyi_sc_one(tinyi_sc *c, size_t self)
{
    static const char *const passed[] = {
        "title",      "description", "default",   "examples", "example",         "format",
        "$schema",    "$id",         "id",        "$comment", "$defs",           "definitions",
        "deprecated", "readOnly",    "writeOnly", "$anchor",  "contentEncoding", "contentMediaType"
    };
    static const char *const known[] = { "type",      "properties",  "required", "additionalProperties",
                                         "items",     "prefixItems", "minItems", "maxItems",
                                         "minLength", "maxLength",   "enum",     "const",
                                         "anyOf",     "oneOf",       "$ref" };
    const tinyi_tv *v = c->schema[self], *x, *type;
    tinyi_tv path = c->path[self], word;
    size_t i, n_constraints = 0;
    int object = 0, array = 0;
    tinyi_sc_rule(c, self);
    tinyi_sc_put(c, " ::= ");
    if (v->type == TINYI_DOC_BOOL && v->u.i) { tinyi_sc_put(c, "value\n"); return; }
    if (v->type != TINYI_DOC_MAP) {
        (void)tinyi_sc_fail(c, &path, "a schema must be an object or true, not", tinyi_tv_type_name(v),
                            strlen(tinyi_tv_type_name(v)));
        return;
    }
    for (i = 0; i < v->u.map->n; i++) {
        const tinyi_tv *key = &v->u.map->pair[i].key;
        if (tinyi_sc_among(key, passed, TINYI_COUNT(passed))) continue;
        if (!tinyi_sc_among(key, known, TINYI_COUNT(known))) {
            (void)tinyi_sc_fail(c, &path, "unsupported keyword:", key->u.s, key->n);
            return;
        }
        n_constraints++;
    }
    type = tinyi_sc_get(c, v, "type");
    if ((x = tinyi_sc_get(c, v, "$ref")) != NULL) {
        const tinyi_tv *to = tinyi_sc_refer(c, x, &path);
        if (n_constraints > 1) (void)tinyi_sc_fail(c, &path, "other keywords next to $ref are not supported", "", 0);
        if (to) tinyi_sc_rule(c, tinyi_sc_number(c, to, *x));
        tinyi_sc_put(c, "\n");
    } else if ((x = tinyi_sc_get(c, v, "const")) != NULL) {
        if (n_constraints > 1 + (type != NULL))
            (void)tinyi_sc_fail(c, &path, "keywords other than type next to const are not supported", "", 0);
        tinyi_sc_literal(c, x);
        tinyi_sc_put(c, "\n");
    } else if ((x = tinyi_sc_get(c, v, "enum")) != NULL) {
        if (n_constraints > 1 + (type != NULL))
            (void)tinyi_sc_fail(c, &path, "keywords other than type next to enum are not supported", "", 0);
        if (x->type != TINYI_DOC_LIST || !x->u.list->n) {
            (void)tinyi_sc_fail(c, &path, "a non-empty list is needed for", "enum", 4);
            return;
        }
        for (i = 0; i < x->u.list->n && !c->m.status; i++) {
            if (i) tinyi_sc_put(c, " | ");
            tinyi_sc_literal(c, &x->u.list->item[i]);
        }
        tinyi_sc_put(c, "\n");
    } else if ((x = tinyi_sc_get(c, v, "anyOf")) != NULL || (x = tinyi_sc_get(c, v, "oneOf")) != NULL) {
        if (n_constraints > 1)
            (void)tinyi_sc_fail(c, &path, "other keywords next to anyOf and oneOf are not supported", "", 0);
        if (x->type != TINYI_DOC_LIST || !x->u.list->n) {
            (void)tinyi_sc_fail(c, &path, "a non-empty list is needed for", "anyOf", 5);
            return;
        }
        for (i = 0; i < x->u.list->n && !c->m.status; i++) {
            if (i) tinyi_sc_put(c, " | ");
            tinyi_sc_child(c, &x->u.list->item[i], &path, "anyOf", 5);
        }
        tinyi_sc_put(c, "\n");
    } else {
        if (!type) {
            int o = tinyi_sc_get(c, v, "properties") || tinyi_sc_get(c, v, "additionalProperties") ||
                    tinyi_sc_get(c, v, "required");
            int a = tinyi_sc_get(c, v, "items") || tinyi_sc_get(c, v, "prefixItems") ||
                    tinyi_sc_get(c, v, "minItems") || tinyi_sc_get(c, v, "maxItems");
            int s = tinyi_sc_get(c, v, "minLength") || tinyi_sc_get(c, v, "maxLength");
            if (o + a + s > 1) (void)tinyi_sc_fail(c, &path, "keywords of several types, but no type", "", 0);
            if (o + a + s == 0) { tinyi_sc_put(c, "value\n"); return; }
            word = o ? tinyi_tv_view("object", 6) : a ? tinyi_tv_view("array", 5) : tinyi_tv_view("string", 6);
            type = &word;
        }
        if (type->type == TINYI_DOC_LIST) {
            if (!type->u.list->n) (void)tinyi_sc_fail(c, &path, "an empty list of types", "", 0);
            for (i = 0; i < type->u.list->n && !c->m.status; i++) {
                const tinyi_tv *t = &type->u.list->item[i];
                if (i) tinyi_sc_put(c, " | ");
                tinyi_sc_type(c, self, v, t, &path);
                object |= tinyi_tv_is(t, "object");
                array |= tinyi_tv_is(t, "array");
            }
        } else {
            tinyi_sc_type(c, self, v, type, &path);
            object = tinyi_tv_is(type, "object");
            array = tinyi_tv_is(type, "array");
        }
        tinyi_sc_put(c, "\n");
        if (object && !c->m.status) {
            tinyi_sc_name(c, self, "o", 0);
            tinyi_sc_put(c, " ::= ");
            tinyi_sc_object(c, self, v, &path);
        }
        if (array && !c->m.status) {
            tinyi_sc_name(c, self, "l", 0);
            tinyi_sc_put(c, " ::= ");
            tinyi_sc_array(c, self, v, &path);
        }
    }
}

/* 1 + the number of the j-th schema that begins where schema i does, without a character between them; 0: there are no
 * more */
static size_t tinyi_sc_inner(tinyi_sc *c, size_t i, size_t j)
{
    const tinyi_tv *v = c->schema[i], *x, *to;
    if (v->type != TINYI_DOC_MAP || c->m.status) return 0;
    if ((x = tinyi_sc_get(c, v, "$ref")) != NULL) {
        to = j ? NULL : tinyi_sc_refer(c, x, &c->path[i]);
        return to ? tinyi_sc_number(c, to, *x) + 1 : 0;
    }
    if ((x = tinyi_sc_get(c, v, "anyOf")) == NULL && (x = tinyi_sc_get(c, v, "oneOf")) == NULL) return 0;
    return x->type == TINYI_DOC_LIST && j < x->u.list->n ? tinyi_sc_number(c, &x->u.list->item[j], c->path[i]) + 1 : 0;
}

/* A $ref that leads back to itself, with nothing but $ref and anyOf on the way, describes no value. */
static void tinyi_sc_cycles(tinyi_sc *c)
{
    const size_t n = c->n;
    size_t *stack = (size_t *)tinyi_alloc(c->m.ctx, 3 * n, sizeof *stack), *child, *mark, i, depth, to;
    if (!stack) { c->m.status = tiny_ctx_status(c->m.ctx); return; }
    child = stack + n;
    mark = child + n;
    memset(mark, 0, n * sizeof *mark);      /* 1: on the way, 2: done */
    for (i = 0; i < n && !c->m.status; i++) {
        if (mark[i]) continue;
        stack[0] = i;
        child[0] = 0;
        mark[i] = depth = 1;
        while (depth && !c->m.status) {
            to = tinyi_sc_inner(c, stack[depth - 1], child[depth - 1]++);
            if (!to) {
                mark[stack[--depth]] = 2;
            } else if (!mark[to - 1]) {
                mark[to - 1] = 1;
                child[depth] = 0;
                stack[depth++] = to - 1;
            } else if (mark[to - 1] == 1) {
                const tinyi_tv *ref = NULL;
                while (depth-- && !(ref = tinyi_sc_get(c, c->schema[stack[depth]], "$ref"))) {}
                if (ref)
                    (void)tinyi_sc_fail(c, &c->path[stack[depth]],
                                        "$ref leads back to itself without a value in between:", ref->u.s,
                                        ref->n);
                break;
            }
        }
    }
    tiny_free(c->m.ctx, stack);
}

TINY_API tiny_status tllm_schema_grammar(tiny_ctx *ctx, const char *schema, size_t n, char **text, size_t *n_text)
{
    tinyi_sc *c;
    tiny_status st;
    size_t i;
    if (n_text) *n_text = 0;
    if (!text) return tinyi_fail(ctx, TINY_E_ARGUMENT, "JSON schema: the result pointer is NULL");
    *text = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!schema) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a JSON schema without its text");
    if (n > TLLM_SCHEMA_MAX_BYTES)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "the JSON schema has %zu bytes; the limit is %zu", n,
                          TLLM_SCHEMA_MAX_BYTES);
    c = (tinyi_sc *)tinyi_alloc(ctx, 1, sizeof *c);
    if (!c) return tiny_ctx_status(ctx);
    memset(c, 0, sizeof *c);
    c->m.ctx = ctx;
    c->m.what = "JSON schema";
    c->m.max_steps = UINT64_C(1) << 30;
    c->m.max_held = c->m.max_out = (size_t)256 << 20;
    c->index = tinyi_tv_map(&c->m);
    if (tinyi_tv_read_json(&c->m, "JSON schema", schema, n, &c->root)) {
        tinyi_sc_put(c, "root ::= ws s0 ws\n");
        (void)tinyi_sc_number(c, &c->root, tinyi_tv_view("#", 1));
        for (i = 0; i < c->n && !c->m.status; i++) tinyi_sc_one(c, i);
        if (!c->m.status) tinyi_sc_cycles(c);
        tinyi_sc_put(c, tinyi_sc_rules);
        (void)tinyi_doc_put(&c->m, "", 1);
    }
    st = c->m.status;
    if (!st) {
        *text = c->m.out;
        if (n_text) *n_text = c->m.n_out - 1;
        c->m.out = NULL;
    }
    tinyi_doc_end(&c->m);
    tiny_free(ctx, c);
    return st;
}
