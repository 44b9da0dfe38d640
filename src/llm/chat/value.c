/* src/llm/chat/value.c
 *
 * Printing, comparing and reading nested values keep a stack of their own, TINYI_TM_NEST deep. Floats are read and written
 * by strtod and snprintf, with the decimal point of the locale put back: the shortest of 1 to 17 digits that reads back. */
#include "llm/chat/value.h"
#include "llm/file/json.h"
#include "llm/token/unicode.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINYI_TM_CHUNK_LEAST ((size_t)16 << 10)
#define TINYI_TM_CHUNK_MOST ((size_t)1 << 20)
#define TINYI_TM_NUMBER 400                 /* longest number that is read */

void tinyi_tm_end(tinyi_tm *m)
{
    while (m->chunk) {
        tinyi_tm_chunk *next = m->chunk->next;
        tiny_free(m->ctx, m->chunk);
        m->chunk = next;
    }
    tiny_free(m->ctx, m->out);
    m->out = NULL;
    m->n_out = m->out_room = m->held = 0;
}

void tinyi_tm_show(const char *s, size_t n, char shown[80])
{
    size_t i, k = 0;
    for (i = 0; i < n && k < 60; i++) shown[k++] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? ' ' : s[i];
    if (i < n) {
        while (k && ((unsigned char)shown[k - 1] & 0xc0) == 0x80) k--;
        if (k && (unsigned char)shown[k - 1] >= 0xc0) k--;
        memcpy(shown + k, "...", 3);
        k += 3;
    }
    shown[k] = 0;
}

int tinyi_tm_fail(tinyi_tm *m, tiny_status status, const char *format, ...)
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
    m->status = tinyi_fail(m->ctx, status, "template line %zu, column %zu: %s", line, column, text);
    return 0;
}

int tinyi_tm_work(tinyi_tm *m, size_t n)
{
    m->steps += n;
    if (m->steps > m->max_steps) return tinyi_tm_fail(m, TINY_E_WORKSPACE, "the template takes more than %llu steps", (unsigned long long)m->max_steps);
    return 1;
}

/* a place for bytes at the end of the last chunk, aligned when asked */
static char *tinyi_tm_place(tinyi_tm *m, size_t bytes, int aligned)
{
    tinyi_tm_chunk *c = m->chunk;
    size_t used = c ? c->used : 0, size;
    if (m->status) return NULL;
    if (aligned) used = (used + 15) & ~(size_t)15;
    if (!c || used > c->bytes || bytes > c->bytes - used) {
        size = c ? TINYI_MIN(c->bytes * 2, TINYI_TM_CHUNK_MOST) : TINYI_TM_CHUNK_LEAST;
        if (bytes > size) size = bytes;
        if (size > m->max_held - m->held) size = bytes;
        if (bytes > m->max_held - m->held) {
            (void)tinyi_tm_fail(m, TINY_E_WORKSPACE, "the template wants %zu bytes more and holds %zu; the limit is %zu", bytes, m->held, m->max_held);
            return NULL;
        }
        c = (tinyi_tm_chunk *)tinyi_alloc(m->ctx, 1, sizeof *c + 16 + size);
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

void *tinyi_tm_alloc(tinyi_tm *m, size_t n, size_t bytes_each)
{
    size_t bytes;
    if (!tinyi_size_mul(n, bytes_each, &bytes) || bytes > (size_t)TINY_IDX_MAX / 2) {
        (void)tinyi_tm_fail(m, TINY_E_WORKSPACE, "the template wants %zu items of %zu bytes; the limit is %zu bytes", n, bytes_each, m->max_held);
        return NULL;
    }
    return tinyi_tm_place(m, bytes ? bytes : 1, 1);
}

int tinyi_tm_grow(tinyi_tm *m, void **array, size_t n, size_t *room, size_t want, size_t bytes_each)
{
    size_t more = *room ? *room : 4;
    void *fresh;
    if (want <= *room) return 1;
    while (more < want) more = more > SIZE_MAX / 4 ? want : more * 2;
    fresh = tinyi_tm_alloc(m, more, bytes_each);
    if (!fresh) return 0;
    if (n) memcpy(fresh, *array, n * bytes_each);
    *array = fresh;
    *room = more;
    return 1;
}

int tinyi_tm_put(tinyi_tm *m, const char *s, size_t n)
{
    if (m->status) return 0;
    if (n > m->max_out - m->n_out) return tinyi_tm_fail(m, TINY_E_WORKSPACE, "the text grows past %zu bytes, the limit", m->max_out);
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
    return tinyi_tm_work(m, n / 16);
}

tinyi_tv tinyi_tm_take(tinyi_tm *m, size_t start)
{
    size_t n = m->status ? 0 : m->n_out - start;
    char *s = n ? tinyi_tm_place(m, n, 0) : NULL;
    if (s) memcpy(s, m->out + start, n);
    if (!m->status) m->n_out = start;
    return tinyi_tv_view(s ? s : "", s ? n : 0);
}

/* a followed by b. Where a ends at the end of the arena it is grown in place, so that a text put together piece by piece
 * costs its length and not the square of it. */
tinyi_tv tinyi_tm_concat(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b)
{
    tinyi_tm_chunk *c = m->chunk;
    size_t n = a->n + b->n, spare = a->n > 256 ? a->n : 0;
    char *s;
    if (m->status || !b->n) return *a;
    if (!a->n) return *b;
    if (c && a->u.s + a->n == (char *)c + c->used && b->n <= c->bytes - c->used) {
        memcpy((char *)c + c->used, b->u.s, b->n);
        c->used += b->n;
        (void)tinyi_tm_work(m, b->n / 16);
        return tinyi_tv_view(a->u.s, n);
    }
    if (spare + n > m->max_held - m->held) spare = 0;
    s = tinyi_tm_place(m, n + spare, 0);
    if (!s || !tinyi_tm_work(m, n / 16)) return *a;
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
    tinyi_tv v = tinyi_tv_of(TINYI_TM_INT);
    v.u.i = i;
    return v;
}
tinyi_tv tinyi_tv_bool(int b)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_BOOL);
    v.u.i = b != 0;
    return v;
}
tinyi_tv tinyi_tv_float(double f)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_FLOAT);
    v.u.f = f;
    return v;
}
tinyi_tv tinyi_tv_view(const char *s, size_t n)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_STRING);
    v.u.s = s;
    v.n = n;
    return v;
}
tinyi_tv tinyi_tv_list(tinyi_tm *m, size_t room)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_LIST);
    tinyi_tlist *list = (tinyi_tlist *)tinyi_tm_alloc(m, 1, sizeof *list);
    v.u.list = &m->no_list;
    if (!list) return v;
    memset(list, 0, sizeof *list);
    if (room) (void)tinyi_tm_grow(m, (void **)&list->item, 0, &list->room, room, sizeof *list->item);
    v.u.list = list;
    return v;
}
tinyi_tv tinyi_tv_map(tinyi_tm *m)
{
    tinyi_tv v = tinyi_tv_of(TINYI_TM_MAP);
    tinyi_tmap *map = (tinyi_tmap *)tinyi_tm_alloc(m, 1, sizeof *map);
    v.u.map = &m->no_map;
    if (!map) return v;
    memset(map, 0, sizeof *map);
    v.u.map = map;
    return v;
}

int tinyi_list_add(tinyi_tm *m, tinyi_tlist *list, tinyi_tv v)
{
    void *item = list->item;
    if (m->status || !tinyi_tm_work(m, 1) || !tinyi_tm_grow(m, &item, list->n, &list->room, list->n + 1, sizeof v)) return 0;
    list->item = (tinyi_tv *)item;
    list->item[list->n++] = v;
    return 1;
}

/* ---- maps ---------------------------------------------------------------------------------------------------------- */

/* Equal keys have equal hashes: true, 1 and 1.0 are one key. Every probe is a step, so that chosen keys of one hash end at
 * the limit of the run. */
static int tinyi_map_hash(tinyi_tm *m, const tinyi_tv *key, uint32_t *hash)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    double f;
    size_t i;
    if (key->type == TINYI_TM_STRING) {
        for (i = 0; i < key->n; i++) h = (h ^ (unsigned char)key->u.s[i]) * UINT64_C(0x100000001b3);
        (void)tinyi_tm_work(m, key->n / 16);
    } else if (tinyi_tv_number(key, &f)) {
        memcpy(&h, &f, sizeof h);
        if (f == 0) h = 0;
        h *= UINT64_C(0x9e3779b97f4a7c15);
    } else if (key->type != TINYI_TM_NONE) {
        return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s cannot be a key", tinyi_tv_type_name(key));
    }
    *hash = (uint32_t)(h ^ h >> 32);
    return 1;
}

static size_t tinyi_map_at(tinyi_tm *m, const tinyi_tmap *map, const tinyi_tv *key, uint32_t hash)
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
        if (!tinyi_tm_work(m, 1)) break;
    }
    return map->n;
}

static int tinyi_map_index(tinyi_tm *m, tinyi_tmap *map, size_t n_slots)
{
    size_t i, k;
    uint32_t *slot = map->slot;
    if (n_slots != map->n_slots) {
        slot = (uint32_t *)tinyi_tm_alloc(m, n_slots, sizeof *slot);
        if (!slot) return 0;
    }
    memset(slot, 0, n_slots * sizeof *slot);
    for (i = 0; i < map->n; i++) {
        for (k = map->pair[i].hash & (n_slots - 1); slot[k]; k = (k + 1) & (n_slots - 1))
            if (!tinyi_tm_work(m, 1)) return 0;
        slot[k] = (uint32_t)i + 1;
    }
    map->slot = slot;
    map->n_slots = n_slots;
    return tinyi_tm_work(m, map->n);
}

tinyi_tv *tinyi_map_find(tinyi_tm *m, const tinyi_tmap *map, const tinyi_tv *key)
{
    uint32_t hash;
    size_t i;
    if (m->status || !tinyi_map_hash(m, key, &hash)) return NULL;
    i = tinyi_map_at(m, map, key, hash);
    return m->status || i == map->n ? NULL : &map->pair[i].value;
}
tinyi_tv *tinyi_map_find_text(tinyi_tm *m, const tinyi_tmap *map, const char *s, size_t n)
{
    tinyi_tv key = tinyi_tv_view(s, n);
    return tinyi_map_find(m, map, &key);
}

int tinyi_map_set(tinyi_tm *m, tinyi_tmap *map, tinyi_tv key, tinyi_tv value)
{
    uint32_t hash;
    void *pair = map->pair;
    size_t i;
    if (m->status || !tinyi_tm_work(m, 1) || !tinyi_map_hash(m, &key, &hash)) return 0;
    i = tinyi_map_at(m, map, &key, hash);
    if (m->status) return 0;
    if (i < map->n) {
        map->pair[i].value = value;
        return 1;
    }
    if (map->n >= UINT32_MAX / 4) return tinyi_tm_fail(m, TINY_E_WORKSPACE, "a map of more than %zu keys", map->n);
    if (!tinyi_tm_grow(m, &pair, map->n, &map->room, map->n + 1, sizeof *map->pair)) return 0;
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

int tinyi_map_drop(tinyi_tm *m, tinyi_tmap *map, const tinyi_tv *key)
{
    uint32_t hash;
    size_t i;
    if (m->status || !tinyi_map_hash(m, key, &hash)) return 0;
    i = tinyi_map_at(m, map, key, hash);
    if (m->status || i == map->n) return 0;
    memmove(map->pair + i, map->pair + i + 1, (map->n - i - 1) * sizeof *map->pair);
    map->n--;
    return map->slot ? tinyi_map_index(m, map, map->n_slots) : tinyi_tm_work(m, map->n);
}

/* ---- asking values --------------------------------------------------------------------------------------------------- */

const char *tinyi_tv_type_name(const tinyi_tv *v)
{
    static const char *const name[] = { "an undefined value", "none", "a bool", "a whole number", "a float", "a string", "a list", "a map",
                                        "a namespace", "a function", "a method", "a macro", "a loop", "nothing" };
    return name[v->type];
}

int tinyi_tv_true(const tinyi_tv *v)
{
    switch (v->type) {
    case TINYI_TM_BOOL: case TINYI_TM_INT: return v->u.i != 0;
    case TINYI_TM_FLOAT: return !(v->u.f == 0);
    case TINYI_TM_STRING: return v->n != 0;
    case TINYI_TM_LIST: return v->u.list->n != 0;
    case TINYI_TM_MAP: return v->u.map->n != 0;
    case TINYI_TM_UNDEFINED: case TINYI_TM_NONE: case TINYI_TM_MISSING: return 0;
    default: return 1;
    }
}

int tinyi_tv_is(const tinyi_tv *v, const char *s)
{
    return v->type == TINYI_TM_STRING && strlen(s) == v->n && !memcmp(v->u.s, s, v->n);
}

int tinyi_tv_number(const tinyi_tv *v, double *f)
{
    if (v->type == TINYI_TM_FLOAT) *f = v->u.f;
    else if (v->type == TINYI_TM_INT || v->type == TINYI_TM_BOOL) *f = (double)v->u.i;
    else return 0;
    return 1;
}

static int tinyi_tv_whole(const tinyi_tv *v) { return v->type == TINYI_TM_INT || v->type == TINYI_TM_BOOL; }

/* 1 equal, 0 not, -1: containers of one length, whose items decide */
static int tinyi_tv_equal_flat(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b)
{
    double x, y;
    if (tinyi_tv_whole(a) && tinyi_tv_whole(b)) return a->u.i == b->u.i;
    if (tinyi_tv_number(a, &x) && tinyi_tv_number(b, &y)) return x == y;
    if (a->type != b->type) return 0;
    switch (a->type) {
    case TINYI_TM_STRING:
        if (a->n != b->n) return 0;
        (void)tinyi_tm_work(m, a->n / 16);
        return !memcmp(a->u.s, b->u.s, a->n);
    case TINYI_TM_LIST: return a->id != b->id || a->u.list->n != b->u.list->n ? 0 : a->u.list == b->u.list || !a->u.list->n ? 1 : -1;
    case TINYI_TM_MAP: return a->u.map->n != b->u.map->n ? 0 : a->u.map == b->u.map || !a->u.map->n ? 1 : -1;
    case TINYI_TM_FUNCTION: return a->id == b->id;
    case TINYI_TM_METHOD: return 0;
    case TINYI_TM_NAMESPACE: case TINYI_TM_MACRO: case TINYI_TM_LOOP: return a->u.map == b->u.map;
    default: return 1;
    }
}

int tinyi_tv_equal(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b)
{
    struct { const tinyi_tv *a, *b; size_t i; } at[TINYI_TM_NEST];
    int n = 0, eq = tinyi_tv_equal_flat(m, a, b);
    if (eq >= 0) return eq;
    at[0].a = a;
    at[0].b = b;
    at[0].i = 0;
    n = 1;
    while (n) {
        size_t i = at[n - 1].i++;
        const tinyi_tv *x = at[n - 1].a, *y = at[n - 1].b;
        if (!tinyi_tm_work(m, 1)) return 0;
        if (i == (x->type == TINYI_TM_LIST ? x->u.list->n : x->u.map->n)) {
            n--;
            continue;
        }
        if (x->type == TINYI_TM_LIST) {
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
        if (n == TINYI_TM_NEST) return tinyi_tm_fail(m, TINY_E_WORKSPACE, "values nested more than %d deep are compared", TINYI_TM_NEST);
        at[n].a = x;
        at[n].b = y;
        at[n++].i = 0;
    }
    return 1;
}

static int tinyi_tv_order_text(const tinyi_tv *a, const tinyi_tv *b, int fold)
{
    size_t i = 0, k = 0;
    while (i < a->n && k < b->n) {
        uint32_t x = (unsigned char)a->u.s[i], y = (unsigned char)b->u.s[k];
        if (fold) {
            i += tinyi_utf8_get((const unsigned char *)a->u.s + i, a->n - i, &x);
            k += tinyi_utf8_get((const unsigned char *)b->u.s + k, b->n - k, &y);
            x = tinyi_unicode_lower(x);
            y = tinyi_unicode_lower(y);
        } else {
            i++;
            k++;
        }
        if (x != y) return x < y ? -1 : 1;
    }
    return i < a->n ? 1 : k < b->n ? -1 : 0;
}

int tinyi_tv_compare(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b, int fold)
{
    double x, y;
    size_t i = 0;
    if (a->type == TINYI_TM_LIST && b->type == TINYI_TM_LIST) {
        const tinyi_tlist *p = a->u.list, *q = b->u.list;
        while (i < p->n && i < q->n && tinyi_tv_equal(m, &p->item[i], &q->item[i])) i++;
        if (m->status) return 0;
        if (i == p->n || i == q->n) return p->n < q->n ? -1 : p->n > q->n;
        a = &p->item[i];
        b = &q->item[i];
    }
    (void)tinyi_tm_work(m, 1 + (a->type == TINYI_TM_STRING ? a->n / 16 : 0));
    if (tinyi_tv_whole(a) && tinyi_tv_whole(b)) return a->u.i < b->u.i ? -1 : a->u.i > b->u.i;
    if (tinyi_tv_number(a, &x) && tinyi_tv_number(b, &y)) return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    if (a->type == TINYI_TM_STRING && b->type == TINYI_TM_STRING) return tinyi_tv_order_text(a, b, fold);
    return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s and %s have no order", tinyi_tv_type_name(a), tinyi_tv_type_name(b));
}

int tinyi_tv_in(tinyi_tm *m, const tinyi_tv *item, const tinyi_tv *where)
{
    size_t i;
    switch (where->type) {
    case TINYI_TM_UNDEFINED: return 0;
    case TINYI_TM_STRING:
        if (item->type != TINYI_TM_STRING) return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s cannot stand in a string", tinyi_tv_type_name(item));
        if (!item->n) return 1;
        for (i = 0; i + item->n <= where->n; i++) {
            const char *p = (const char *)memchr(where->u.s + i, item->u.s[0], where->n - item->n + 1 - i);
            if (!p) break;
            i = (size_t)(p - where->u.s);
            if (!tinyi_tm_work(m, 1 + item->n / 16)) return 0;
            if (!memcmp(p, item->u.s, item->n)) return 1;
        }
        (void)tinyi_tm_work(m, where->n / 16);
        return 0;
    case TINYI_TM_LIST:
        for (i = 0; i < where->u.list->n && tinyi_tm_work(m, 1); i++)
            if (tinyi_tv_equal(m, item, &where->u.list->item[i])) return 1;
        return 0;
    case TINYI_TM_MAP: return tinyi_map_find(m, where->u.map, item) != NULL;
    default: return tinyi_tm_fail(m, TINY_E_ARGUMENT, "'in' looks into strings, lists and maps, not into %s", tinyi_tv_type_name(where));
    }
}

int tinyi_tv_items(tinyi_tm *m, const tinyi_tv *v, tinyi_tv *list)
{
    size_t i, n;
    switch (v->type) {
    case TINYI_TM_LIST: *list = *v; return 1;
    case TINYI_TM_UNDEFINED: *list = tinyi_tv_list(m, 0); return !m->status;
    case TINYI_TM_MAP:
        *list = tinyi_tv_list(m, v->u.map->n);
        for (i = 0; !m->status && i < v->u.map->n; i++) (void)tinyi_list_add(m, list->u.list, v->u.map->pair[i].key);
        return !m->status;
    case TINYI_TM_STRING:
        *list = tinyi_tv_list(m, 0);
        for (i = 0; !m->status && i < v->n; i += n) {
            uint32_t c;
            n = tinyi_utf8_get((const unsigned char *)v->u.s + i, v->n - i, &c);
            (void)tinyi_list_add(m, list->u.list, tinyi_tv_view(v->u.s + i, n));
        }
        return !m->status;
    default: return tinyi_tm_fail(m, TINY_E_ARGUMENT, "%s has no items to go through", tinyi_tv_type_name(v));
    }
}

/* ---- numbers as text --------------------------------------------------------------------------------------------------- */

static size_t tinyi_tm_point(char point[8])
{
    char half[16];
    int n = snprintf(half, sizeof half, "%.1f", 0.5);
    size_t k = n > 2 && n < 9 ? (size_t)n - 2 : 1;
    memcpy(point, half + 1, k);
    return k;
}

int tinyi_tm_parse_float(const char *s, size_t n, double *f)
{
    char text[TINYI_TM_NUMBER + 16], point[8], *end;
    size_t i, k = 0, n_point = tinyi_tm_point(point), digits = 0;
    if (!n || n > TINYI_TM_NUMBER) return 0;
    for (i = 0; i < n; i++) {
        char c = s[i];
        if (c >= '0' && c <= '9') digits++;
        else if (!(c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-')) return 0;
        if (c == '.') {
            if (k + n_point >= sizeof text - 1) return 0;
            memcpy(text + k, point, n_point);
            k += n_point;
        } else {
            if (k >= sizeof text - 1) return 0;
            text[k++] = c;
        }
    }
    text[k] = 0;
    if (!digits) return 0;
    *f = strtod(text, &end);
    return *end == 0;
}

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

/* ---- reading JSON ---------------------------------------------------------------------------------------------------------- */

static int tinyi_tv_read_number(tinyi_tm *m, tinyi_json *j, tinyi_tv *v)
{
    const unsigned char *p = j->at, *first;
    int whole = 1;
    if (p < j->end && *p == '-') p++;
    first = p;
    while (p < j->end && *p >= '0' && *p <= '9') p++;
    if (p == first || (*first == '0' && p - first > 1)) {
        m->status = tinyi_json_fail(j, "a value");
        return 0;
    }
    if (p < j->end && *p == '.') {
        whole = 0;
        first = ++p;
        while (p < j->end && *p >= '0' && *p <= '9') p++;
        if (p == first) { j->at = p; m->status = tinyi_json_fail(j, "a digit"); return 0; }
    }
    if (p < j->end && (*p == 'e' || *p == 'E')) {
        whole = 0;
        p++;
        if (p < j->end && (*p == '+' || *p == '-')) p++;
        first = p;
        while (p < j->end && *p >= '0' && *p <= '9') p++;
        if (p == first) { j->at = p; m->status = tinyi_json_fail(j, "a digit"); return 0; }
    }
    if (whole) {
        const unsigned char *q = j->at + (*j->at == '-');
        int64_t i = 0;
        for (; q < p; q++) {
            if (i < (INT64_MIN + (*q - '0')) / 10) { m->status = tinyi_json_fail(j, "a whole number of 64 bits"); return 0; }
            i = i * 10 - (*q - '0');
        }
        if (*j->at != '-') {
            if (i == INT64_MIN) { m->status = tinyi_json_fail(j, "a whole number of 64 bits"); return 0; }
            i = -i;
        }
        *v = tinyi_tv_int(i);
    } else {
        double f;
        if (!tinyi_tm_parse_float((const char *)j->at, (size_t)(p - j->at), &f)) {
            m->status = tinyi_json_fail(j, "a number of at most 400 characters");
            return 0;
        }
        *v = tinyi_tv_float(f);
    }
    j->at = p;
    return 1;
}

static int tinyi_tv_read_string(tinyi_tm *m, tinyi_json *j, const char *wanted, tinyi_tv *v)
{
    tinyi_json_text t;
    m->status = tinyi_json_string(j, &t, wanted);
    if (m->status || !tinyi_tm_work(m, t.n / 16)) return 0;
    if (t.escapes) {
        tinyi_made made = { NULL, 0, 0 };
        made.at = (unsigned char *)tinyi_tm_place(m, t.n, 0);       /* an escape is longer than what it stands for */
        if (!made.at) return 0;
        tinyi_json_plain(&made, t);
        *v = tinyi_tv_view((const char *)made.at, made.n);
    } else {
        *v = tinyi_tv_view((const char *)t.at, t.n);
    }
    return 1;
}

static int tinyi_tv_read_word(tinyi_json *j, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n)) return 0;
    j->at += n;
    return 1;
}

int tinyi_tv_read_json(tinyi_tm *m, const char *name, const char *text, size_t n, tinyi_tv *out)
{
    struct { tinyi_tv v, key; } at[TINYI_TM_NEST];
    int depth = 0;
    tinyi_json j;
    tinyi_tv v;
    if (m->status) return 0;
    j.ctx = m->ctx;
    j.path = name;
    j.what = "the JSON";
    j.start = j.at = (const unsigned char *)text;
    j.end = j.at + n;
    for (;;) {
        int opened = 0;
        if (!tinyi_tm_work(m, 1)) return 0;
        tinyi_json_space(&j);
        if (j.at < j.end && (*j.at == '{' || *j.at == '[')) {
            opened = *j.at++;
            if (depth == TINYI_TM_NEST) {
                m->status = tinyi_fail(m->ctx, TINY_E_FORMAT, "%s: byte %zu of the JSON: nested more than %d deep", name, (size_t)(j.at - j.start), TINYI_TM_NEST);
                return 0;
            }
            v = opened == '{' ? tinyi_tv_map(m) : tinyi_tv_list(m, 0);
            if (m->status) return 0;
            if (!tinyi_json_is(&j, opened == '{' ? '}' : ']')) {
                at[depth++].v = v;
                if (opened == '{') {
                    if (!tinyi_tv_read_string(m, &j, "a key in quotes", &at[depth - 1].key)) return 0;
                    if (!tinyi_json_is(&j, ':')) { m->status = tinyi_json_fail(&j, ":"); return 0; }
                }
                continue;
            }
        } else if (j.at < j.end && *j.at == '"') {
            if (!tinyi_tv_read_string(m, &j, "a value", &v)) return 0;
        } else if (tinyi_tv_read_word(&j, "true")) {
            v = tinyi_tv_bool(1);
        } else if (tinyi_tv_read_word(&j, "false")) {
            v = tinyi_tv_bool(0);
        } else if (tinyi_tv_read_word(&j, "null")) {
            v = tinyi_tv_of(TINYI_TM_NONE);
        } else if (!tinyi_tv_read_number(m, &j, &v)) {
            return 0;
        }
        for (;;) {                          /* v is whole: into what is open, and close what ends here */
            if (!depth) {
                tinyi_json_space(&j);
                if (j.at != j.end) { m->status = tinyi_json_fail(&j, "the end"); return 0; }
                *out = v;
                return 1;
            }
            if (at[depth - 1].v.type == TINYI_TM_LIST ? !tinyi_list_add(m, at[depth - 1].v.u.list, v)
                                                      : !tinyi_map_set(m, at[depth - 1].v.u.map, at[depth - 1].key, v)) return 0;
            if (tinyi_json_is(&j, ',')) {
                if (at[depth - 1].v.type == TINYI_TM_MAP) {
                    if (!tinyi_tv_read_string(m, &j, "a key in quotes", &at[depth - 1].key)) return 0;
                    if (!tinyi_json_is(&j, ':')) { m->status = tinyi_json_fail(&j, ":"); return 0; }
                }
                break;
            }
            if (!tinyi_json_is(&j, at[depth - 1].v.type == TINYI_TM_LIST ? ']' : '}')) {
                m->status = tinyi_json_fail(&j, at[depth - 1].v.type == TINYI_TM_LIST ? ", or ]" : ", or }");
                return 0;
            }
            v = at[--depth].v;
        }
    }
}
