/* src/core/doc/value.c
 *
 * Comparing nested values and reading them from JSON keep a stack of their own, TINYI_DOC_NEST deep. */
#include "core/doc/value_inside.h"
#include "core/bytes.h"
#include "core/doc/json.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TINYI_DOC_CHUNK_LEAST ((size_t)16 << 10)
#define TINYI_DOC_CHUNK_MOST ((size_t)1 << 20)

void tinyi_doc_end(tinyi_doc *m)
{
    while (m->chunk) {
        tinyi_doc_chunk *next = m->chunk->next;
        tiny_free(m->ctx, m->chunk);
        m->chunk = next;
    }
    tiny_free(m->ctx, m->out);
    m->out = NULL;
    m->n_out = m->out_room = m->held = 0;
}

void tinyi_doc_show(const char *s, size_t n, char shown[80])
{
    (void)tiny_plain(shown, 64, s, n);
}

int tinyi_doc_fail(tinyi_doc *m, tiny_status status, const char *format, ...)
{
    char text[400];
    size_t line = 1, column = 1, i;
    va_list args;
    if (m->status) return 0;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (i = 0; i < m->pos && i < m->n_source; i++) {
        column++;
        if (m->source[i] == '\n') { line++; column = 1; }
        else if (((unsigned char)m->source[i] & 0xc0) == 0x80) column--;
    }
    m->status = m->source ? tinyi_fail(m->ctx, status, "%s line %zu, column %zu: %s", m->what, line, column, text)
                          : tinyi_fail(m->ctx, status, "%s: %s", m->what, text);
    return 0;
}

int tinyi_doc_work(tinyi_doc *m, size_t n)
{
    m->steps += n;
    if (m->steps > m->max_steps)
        return tinyi_doc_fail(m, TINY_E_WORKSPACE, "the %s takes more than %llu steps", m->what,
                              (unsigned long long)m->max_steps);
    return 1;
}

/* a place for bytes at the end of the last chunk, aligned when asked */
static char *tinyi_doc_place(tinyi_doc *m, size_t bytes, int aligned)
{
    tinyi_doc_chunk *c = m->chunk;
    size_t used = c ? c->used : 0, size;
    if (m->status) return NULL;
    if (aligned) used = (used + 15) & ~(size_t)15;
    if (!c || used > c->bytes || bytes > c->bytes - used) {
        size = c ? TINYI_MIN(c->bytes * 2, TINYI_DOC_CHUNK_MOST) : TINYI_DOC_CHUNK_LEAST;
        if (bytes > size) size = bytes;
        if (size > m->max_held - m->held) size = bytes;
        if (bytes > m->max_held - m->held) {
            (void)tinyi_doc_fail(m, TINY_E_WORKSPACE, "the %s wants %zu bytes more and holds %zu; the limit is %zu",
                                 m->what, bytes, m->held, m->max_held);
            return NULL;
        }
        c = (tinyi_doc_chunk *)tinyi_alloc(m->ctx, 1, sizeof *c + 16 + size);
        if (!c) {
            m->status = tiny_ctx_status(m->ctx);
            return NULL;
        }
        m->held += size;
        c->next = m->chunk;
        c->bytes = sizeof *c + 16 + size;
        used = (sizeof *c + 15) & ~(size_t)15;
        m->chunk = c;
    }
    c->used = used + bytes;
    return (char *)c + used;
}

void *tinyi_doc_alloc(tinyi_doc *m, size_t n, size_t bytes_each)
{
    size_t bytes;
    if (!tinyi_size_mul(n, bytes_each, &bytes) || bytes > (size_t)TINY_IDX_MAX / 2) {
        (void)tinyi_doc_fail(m, TINY_E_WORKSPACE, "the %s wants %zu items of %zu bytes; the limit is %zu bytes",
                             m->what, n, bytes_each, m->max_held);
        return NULL;
    }
    return tinyi_doc_place(m, bytes ? bytes : 1, 1);
}

int tinyi_doc_grow(tinyi_doc *m, void **array, size_t n, size_t *room, size_t want, size_t bytes_each)
{
    size_t more = *room ? *room : 4;
    void *fresh;
    if (want <= *room) return 1;
    while (more < want) more = more > SIZE_MAX / 4 ? want : more * 2;
    fresh = tinyi_doc_alloc(m, more, bytes_each);
    if (!fresh) return 0;
    if (n) memcpy(fresh, *array, n * bytes_each);
    *array = fresh;
    *room = more;
    return 1;
}

int tinyi_doc_put(tinyi_doc *m, const char *s, size_t n)
{
    if (m->status) return 0;
    if (n > m->max_out - m->n_out)
        return tinyi_doc_fail(m, TINY_E_WORKSPACE, "the text grows past %zu bytes, the limit", m->max_out);
    if (n > m->out_room - m->n_out) {
        size_t room = m->out_room ? m->out_room : 1024;
        char *fresh;
        while (room - m->n_out < n) room = room > SIZE_MAX / 4 ? m->n_out + n : room * 2;
        fresh = (char *)tinyi_alloc(m->ctx, room, 1);
        if (!fresh) {
            m->status = tiny_ctx_status(m->ctx);
            return 0;
        }
        if (m->n_out) memcpy(fresh, m->out, m->n_out);
        tiny_free(m->ctx, m->out);
        m->out = fresh;
        m->out_room = room;
    }
    if (n) memcpy(m->out + m->n_out, s, n);
    m->n_out += n;
    return tinyi_doc_work(m, n / 16);
}

tinyi_tv tinyi_doc_take(tinyi_doc *m, size_t start)
{
    size_t n = m->status ? 0 : m->n_out - start;
    char *s = n ? tinyi_doc_place(m, n, 0) : NULL;
    if (s) memcpy(s, m->out + start, n);
    if (!m->status) m->n_out = start;
    return tinyi_tv_view(s ? s : "", s ? n : 0);
}

/* a followed by b. Where a ends at the end of the arena it is grown in place, so that a text put together piece by
 * piece costs its length and not the square of it. */
tinyi_tv tinyi_doc_concat(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b)
{
    tinyi_doc_chunk *c = m->chunk;
    size_t n = a->n + b->n, spare = a->n > 256 ? a->n : 0;
    char *s;
    if (m->status || !b->n) return *a;
    if (!a->n) return *b;
    if (c && a->u.s + a->n == (char *)c + c->used && b->n <= c->bytes - c->used) {
        memcpy((char *)c + c->used, b->u.s, b->n);
        c->used += b->n;
        (void)tinyi_doc_work(m, b->n / 16);
        return tinyi_tv_view(a->u.s, n);
    }
    if (spare + n > m->max_held - m->held) spare = 0;
    s = tinyi_doc_place(m, n + spare, 0);
    if (!s || !tinyi_doc_work(m, n / 16)) return *a;
    m->chunk->used -= spare;
    memcpy(s, a->u.s, a->n);
    memcpy(s + a->n, b->u.s, b->n);
    return tinyi_tv_view(s, n);
}

/* ---- making values ---------------------------------------------------------------------------------------------- */

tinyi_tv tinyi_tv_of(int type)
{
    tinyi_tv v;
    memset(&v, 0, sizeof v);
    v.type = (uint32_t)type;
    return v;
}
tinyi_tv tinyi_tv_int(int64_t i)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_INT);
    v.u.i = i;
    return v;
}
tinyi_tv tinyi_tv_bool(int b)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_BOOL);
    v.u.i = b != 0;
    return v;
}
tinyi_tv tinyi_tv_float(double f)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_FLOAT);
    v.u.f = f;
    return v;
}
tinyi_tv tinyi_tv_view(const char *s, size_t n)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_STRING);
    v.u.s = s;
    v.n = n;
    return v;
}
tinyi_tv tinyi_tv_list(tinyi_doc *m, size_t room)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_LIST);
    tinyi_tlist *list = (tinyi_tlist *)tinyi_doc_alloc(m, 1, sizeof *list);
    v.u.list = &m->no_list;
    if (!list) return v;
    memset(list, 0, sizeof *list);
    if (room) (void)tinyi_doc_grow(m, (void **)&list->item, 0, &list->room, room, sizeof *list->item);
    v.u.list = list;
    return v;
}
tinyi_tv tinyi_tv_map(tinyi_doc *m)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_MAP);
    tinyi_tmap *map = (tinyi_tmap *)tinyi_doc_alloc(m, 1, sizeof *map);
    v.u.map = &m->no_map;
    if (!map) return v;
    memset(map, 0, sizeof *map);
    v.u.map = map;
    return v;
}

int tinyi_list_add(tinyi_doc *m, tinyi_tlist *list, tinyi_tv v)
{
    void *item = list->item;
    if (m->status || !tinyi_doc_work(m, 1) || !tinyi_doc_grow(m, &item, list->n, &list->room, list->n + 1, sizeof v))
        return 0;
    list->item = (tinyi_tv *)item;
    list->item[list->n++] = v;
    return 1;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Equal keys have equal hashes: true, 1 and 1.0 are one key. Every probe is a step, so that chosen keys of one hash end
 * at the limit of the run. */
static int tinyi_map_hash(tinyi_doc *m, const tinyi_tv *key, uint32_t *hash)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    double f;
    size_t i;
    if (key->type == TINYI_DOC_STRING) {
        for (i = 0; i < key->n; i++) h = (h ^ (unsigned char)key->u.s[i]) * UINT64_C(0x100000001b3);
        (void)tinyi_doc_work(m, key->n / 16);
    } else if (tinyi_tv_number(key, &f)) {
        memcpy(&h, &f, sizeof h);
        if (f == 0) h = 0;
        h *= UINT64_C(0x9e3779b97f4a7c15);
    } else if (key->type != TINYI_DOC_NONE) {
        return tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s cannot be a key", tinyi_tv_type_name(key));
    }
    *hash = (uint32_t)(h ^ h >> 32);
    return 1;
}

static size_t tinyi_map_at(tinyi_doc *m, const tinyi_tmap *map, const tinyi_tv *key, uint32_t hash)
{
    size_t i;
    if (!map->slot) {
        for (i = 0; i < map->n; i++)
            if (map->pair[i].hash == hash && tinyi_tv_equal(m, &map->pair[i].key, key)) return i;
        return map->n;
    }
    for (i = hash & (map->n_slots - 1); map->slot[i]; i = (i + 1) & (map->n_slots - 1)) {
        const tinyi_tpair *p = &map->pair[map->slot[i] - 1];
        if (p->hash == hash && tinyi_tv_equal(m, &p->key, key)) return map->slot[i] - 1;
        if (!tinyi_doc_work(m, 1)) break;
    }
    return map->n;
}

static int tinyi_map_index(tinyi_doc *m, tinyi_tmap *map, size_t n_slots)
{
    size_t i, k;
    uint32_t *slot = map->slot;
    if (n_slots != map->n_slots) {
        slot = (uint32_t *)tinyi_doc_alloc(m, n_slots, sizeof *slot);
        if (!slot) return 0;
    }
    memset(slot, 0, n_slots * sizeof *slot);
    for (i = 0; i < map->n; i++) {
        for (k = map->pair[i].hash & (n_slots - 1); slot[k]; k = (k + 1) & (n_slots - 1))
            if (!tinyi_doc_work(m, 1)) return 0;
        slot[k] = (uint32_t)i + 1;
    }
    map->slot = slot;
    map->n_slots = n_slots;
    return tinyi_doc_work(m, map->n);
}

tinyi_tv *tinyi_map_find(tinyi_doc *m, const tinyi_tmap *map, const tinyi_tv *key)
{
    uint32_t hash;
    size_t i;
    if (m->status || !tinyi_map_hash(m, key, &hash)) return NULL;
    i = tinyi_map_at(m, map, key, hash);
    return m->status || i == map->n ? NULL : &map->pair[i].value;
}
tinyi_tv *tinyi_map_find_text(tinyi_doc *m, const tinyi_tmap *map, const char *s, size_t n)
{
    tinyi_tv key = tinyi_tv_view(s, n);
    return tinyi_map_find(m, map, &key);
}

int tinyi_map_set(tinyi_doc *m, tinyi_tmap *map, tinyi_tv key, tinyi_tv value)
{
    uint32_t hash;
    void *pair = map->pair;
    size_t i;
    if (m->status || !tinyi_doc_work(m, 1) || !tinyi_map_hash(m, &key, &hash)) return 0;
    i = tinyi_map_at(m, map, &key, hash);
    if (m->status) return 0;
    if (i < map->n) {
        map->pair[i].value = value;
        return 1;
    }
    if (map->n >= UINT32_MAX / 4) return tinyi_doc_fail(m, TINY_E_WORKSPACE, "a map of more than %zu keys", map->n);
    if (!tinyi_doc_grow(m, &pair, map->n, &map->room, map->n + 1, sizeof *map->pair)) return 0;
    map->pair = (tinyi_tpair *)pair;
    map->pair[map->n].key = key;
    map->pair[map->n].value = value;
    map->pair[map->n].hash = hash;
    map->n++;
    if (map->n > 8 && map->n * 2 > map->n_slots) return tinyi_map_index(m, map, map->n_slots ? map->n_slots * 4 : 64);
    if (map->slot) {
        for (i = hash & (map->n_slots - 1); map->slot[i]; i = (i + 1) & (map->n_slots - 1)) {}
        map->slot[i] = (uint32_t)map->n;
    }
    return 1;
}

int tinyi_map_drop(tinyi_doc *m, tinyi_tmap *map, const tinyi_tv *key)
{
    uint32_t hash;
    size_t i;
    if (m->status || !tinyi_map_hash(m, key, &hash)) return 0;
    i = tinyi_map_at(m, map, key, hash);
    if (m->status || i == map->n) return 0;
    memmove(map->pair + i, map->pair + i + 1, (map->n - i - 1) * sizeof *map->pair);
    map->n--;
    return map->slot ? tinyi_map_index(m, map, map->n_slots) : tinyi_doc_work(m, map->n);
}

/* ---- asking values ----------------------------------------------------------------------------------------------- */

const char *tinyi_tv_type_name(const tinyi_tv *v)
{
    static const char *const name[] = { "an undefined value", "none",    "a bool", "a whole number", "a float",
                                        "a string",           "a list",  "a map",  "a namespace",    "a function",
                                        "a method",           "a macro", "a loop", "nothing" };
    return name[v->type];
}

int tinyi_tv_true(const tinyi_tv *v)
{
    switch (v->type) {
    case TINYI_DOC_BOOL: case TINYI_DOC_INT: return v->u.i != 0;
    case TINYI_DOC_FLOAT: return !(v->u.f == 0);
    case TINYI_DOC_STRING: return v->n != 0;
    case TINYI_DOC_LIST: return v->u.list->n != 0;
    case TINYI_DOC_MAP: return v->u.map->n != 0;
    case TINYI_DOC_UNDEFINED: case TINYI_DOC_NONE: case TINYI_DOC_MISSING: return 0;
    default: return 1;
    }
}

int tinyi_tv_is(const tinyi_tv *v, const char *s)
{
    return v->type == TINYI_DOC_STRING && strlen(s) == v->n && !memcmp(v->u.s, s, v->n);
}

int tinyi_tv_number(const tinyi_tv *v, double *f)
{
    if (v->type == TINYI_DOC_FLOAT) *f = v->u.f;
    else if (v->type == TINYI_DOC_INT || v->type == TINYI_DOC_BOOL) *f = (double)v->u.i;
    else return 0;
    return 1;
}

static int tinyi_tv_whole(const tinyi_tv *v) { return v->type == TINYI_DOC_INT || v->type == TINYI_DOC_BOOL; }

/* 1 equal, 0 not, -1: containers of one length, whose items decide */
static int tinyi_tv_equal_flat(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b)
{
    double x, y;
    if (tinyi_tv_whole(a) && tinyi_tv_whole(b)) return a->u.i == b->u.i;
    if (tinyi_tv_number(a, &x) && tinyi_tv_number(b, &y)) return x == y;
    if (a->type != b->type) return 0;
    switch (a->type) {
    case TINYI_DOC_STRING:
        if (a->n != b->n) return 0;
        (void)tinyi_doc_work(m, a->n / 16);
        return !memcmp(a->u.s, b->u.s, a->n);
    case TINYI_DOC_LIST:
        return a->id != b->id || a->u.list->n != b->u.list->n ? 0 : a->u.list == b->u.list || !a->u.list->n ? 1 : -1;
    case TINYI_DOC_MAP: return a->u.map->n != b->u.map->n ? 0 : a->u.map == b->u.map || !a->u.map->n ? 1 : -1;
    case TINYI_DOC_FUNCTION: return a->id == b->id;
    case TINYI_DOC_METHOD: return 0;
    case TINYI_DOC_NAMESPACE: case TINYI_DOC_MACRO: case TINYI_DOC_LOOP: return a->u.map == b->u.map;
    default: return 1;
    }
}

int tinyi_tv_equal(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b)
{
    struct { const tinyi_tv *a, *b; size_t i; } at[TINYI_DOC_NEST];
    int n = 0, eq = tinyi_tv_equal_flat(m, a, b);
    if (eq >= 0) return eq;
    at[0].a = a;
    at[0].b = b;
    at[0].i = 0;
    n = 1;
    while (n) {
        size_t i = at[n - 1].i++;
        const tinyi_tv *x = at[n - 1].a, *y = at[n - 1].b;
        if (!tinyi_doc_work(m, 1)) return 0;
        if (i == (x->type == TINYI_DOC_LIST ? x->u.list->n : x->u.map->n)) {
            n--;
            continue;
        }
        if (x->type == TINYI_DOC_LIST) {
            y = &y->u.list->item[i];
            x = &x->u.list->item[i];
        } else {
            y = tinyi_map_find(m, y->u.map, &x->u.map->pair[i].key);
            if (!y) return 0;
            x = &x->u.map->pair[i].value;
        }
        eq = tinyi_tv_equal_flat(m, x, y);
        if (!eq) return 0;
        if (eq > 0) continue;
        if (n == TINYI_DOC_NEST)
            return tinyi_doc_fail(m, TINY_E_WORKSPACE, "values nested more than %d deep are compared", TINYI_DOC_NEST);
        at[n].a = x;
        at[n].b = y;
        at[n++].i = 0;
    }
    return 1;
}

static int tinyi_tv_order_text(const tinyi_tv *a, const tinyi_tv *b, uint32_t (*fold)(uint32_t))
{
    size_t i = 0, k = 0;
    while (i < a->n && k < b->n) {
        uint32_t x = (unsigned char)a->u.s[i], y = (unsigned char)b->u.s[k];
        if (fold) {
            i += tinyi_utf8_get((const unsigned char *)a->u.s + i, a->n - i, &x);
            k += tinyi_utf8_get((const unsigned char *)b->u.s + k, b->n - k, &y);
            x = fold(x);
            y = fold(y);
        } else {
            i++;
            k++;
        }
        if (x != y) return x < y ? -1 : 1;
    }
    return i < a->n ? 1 : k < b->n ? -1 : 0;
}

int tinyi_tv_compare(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, uint32_t (*fold)(uint32_t))
{
    double x, y;
    size_t i = 0;
    if (a->type == TINYI_DOC_LIST && b->type == TINYI_DOC_LIST) {
        const tinyi_tlist *p = a->u.list, *q = b->u.list;
        while (i < p->n && i < q->n && tinyi_tv_equal(m, &p->item[i], &q->item[i])) i++;
        if (m->status) return 0;
        if (i == p->n || i == q->n) return p->n < q->n ? -1 : p->n > q->n;
        a = &p->item[i];
        b = &q->item[i];
    }
    (void)tinyi_doc_work(m, 1 + (a->type == TINYI_DOC_STRING ? a->n / 16 : 0));
    if (tinyi_tv_whole(a) && tinyi_tv_whole(b)) return a->u.i < b->u.i ? -1 : a->u.i > b->u.i;
    if (tinyi_tv_number(a, &x) && tinyi_tv_number(b, &y)) return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    if (a->type == TINYI_DOC_STRING && b->type == TINYI_DOC_STRING) return tinyi_tv_order_text(a, b, fold);
    return tinyi_doc_fail(m, TINY_E_ARGUMENT,
                          "%s and %s cannot be ordered", tinyi_tv_type_name(a), tinyi_tv_type_name(b));
}

/* ---- from JSON --------------------------------------------------------------------------------------------------- */

static tinyi_tv tinyi_tv_of_text(tinyi_doc *m, tinyi_json_text t)
{
    char *at;
    if (!tinyi_doc_work(m, t.n / 16)) return tinyi_tv_view("", 0);
    if (!t.escapes) return tinyi_tv_view((const char *)t.at, t.n);
    at = tinyi_doc_place(m, t.n, 0);         /* an escape is longer than what it stands for */
    return at ? tinyi_tv_view(at, tinyi_json_plain((unsigned char *)at, t.n, t)) : tinyi_tv_view("", 0);
}

static tinyi_tv tinyi_tv_of_item(tinyi_doc *m, const tinyi_json_item *item)
{
    switch (item->type) {
    case TINYI_JSON_LIST: return tinyi_tv_list(m, 0);
    case TINYI_JSON_MAP: return tinyi_tv_map(m);
    case TINYI_JSON_TEXT: return tinyi_tv_of_text(m, item->text);
    case TINYI_JSON_INT: return tinyi_tv_int(item->i);
    case TINYI_JSON_FLOAT: return tinyi_tv_float(item->f);
    case TINYI_JSON_BOOL: return tinyi_tv_bool(item->i != 0);
    default: return tinyi_tv_of(TINYI_DOC_NONE);
    }
}

int tinyi_tv_read_json(tinyi_doc *m, const char *name, const char *text, size_t n, tinyi_tv *out)
{
    /* [0]: the document; [d]: what is open, and its key in [d - 1] */
    struct { tinyi_tv v, key; } at[TINYI_JSON_NEST + 1];
    tinyi_json_walk w;
    tinyi_json_item item;
    if (m->status) return 0;
    m->status = tinyi_json_begin(&w, m->ctx, name, "the JSON", text, n, TINYI_DOC_MOST);
    while (!m->status) {
        tinyi_tv v, key;
        int depth;
        m->status = tinyi_json_next(&w, &item);
        if (m->status) break;
        if (item.type == TINYI_JSON_END) {
            *out = at[0].v;
            return 1;
        }
        depth = item.depth;
        if (item.type == TINYI_JSON_CLOSE) {            /* it is whole: only here it goes into what is around it */
            v = at[depth + 1].v;
            key = at[depth + 1].key;
        } else {
            if (!tinyi_doc_work(m, 1)) break;
            key = item.key.at ? tinyi_tv_of_text(m, item.key) : tinyi_tv_of(TINYI_DOC_NONE);
            v = tinyi_tv_of_item(m, &item);
            if (m->status) break;
            if (item.type == TINYI_JSON_LIST || item.type == TINYI_JSON_MAP) {
                at[depth + 1].v = v;
                at[depth + 1].key = key;
                continue;
            }
        }
        if (!depth) at[0].v = v;
        else if (at[depth].v.type == TINYI_DOC_LIST) (void)tinyi_list_add(m, at[depth].v.u.list, v);
        else (void)tinyi_map_set(m, at[depth].v.u.map, key, v);
    }
    return 0;
}
