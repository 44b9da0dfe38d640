/* src/llm/file/store.c */
#include "llm/file/store_inside.h"
#include "llm/block/format.h"
#include <string.h>

/* name, bytes */
static const struct { const char *name; size_t bytes; } tinyi_store_value_row[TLLM_VALUE_TYPES] = {
    { "u8", 1 }, { "i8", 1 }, { "u16", 2 }, { "i16", 2 }, { "u32", 4 }, { "i32", 4 }, { "f32", 4 },
    { "bool", 1 }, { "text", 0 }, { "array", 0 }, { "u64", 8 }, { "i64", 8 }, { "f64", 8 }
};
static const struct { const char *name; int type; } tinyi_store_type_row[] = {
    { "BOOL", TLLM_TYPE_BOOL }, { "U8", TLLM_TYPE_U8 }, { "U16", TLLM_TYPE_U16 }, { "U32", TLLM_TYPE_U32 },
    { "U64", TLLM_TYPE_U64 }, { "F8_E4M3", TLLM_TYPE_F8_E4M3 }, { "F8_E5M2", TLLM_TYPE_F8_E5M2 }
};

TINY_API const char *tllm_value_name(int type)
{
    return type >= 0 && type < TLLM_VALUE_TYPES ? tinyi_store_value_row[type].name : "?";
}
TINY_API size_t tllm_value_bytes(int type)
{
    return type >= 0 && type < TLLM_VALUE_TYPES ? tinyi_store_value_row[type].bytes : 0;
}

TINY_API const char *tllm_type_name(int type)
{
    const tllm_format *f = tllm_format_of(type);
    size_t i;
    if (f) return f->name;
    for (i = 0; i < TINYI_COUNT(tinyi_store_type_row); i++)
        if (tinyi_store_type_row[i].type == type) return tinyi_store_type_row[i].name;
    return "?";
}

TINY_API int tllm_text_is(tllm_text text, const char *s)
{
    return s && strlen(s) == text.n && (!text.n || !memcmp(text.at, s, text.n));
}

tllm_text tinyi_text(const char *s)
{
    tllm_text t;
    t.at = s;
    t.n = strlen(s);
    return t;
}

const char *tinyi_show(tllm_text text, char shown[TINYI_SHOW]) { return tinyi_show_bytes(text.at, text.n, shown); }

/* FNV-1a. Nothing depends on it being hard to fool. */
static uint32_t tinyi_store_hash(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    size_t i;
    for (i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static int tinyi_store_compare(uint32_t hash_a, tllm_text a, uint32_t hash_b, tllm_text b)
{
    if (hash_a != hash_b) return hash_a < hash_b ? -1 : 1;
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    return a.n ? memcmp(a.at, b.at, a.n) : 0;
}

typedef int (*tinyi_store_less)(const tllm_gguf *g, uint32_t a, uint32_t b);

static int tinyi_store_less_key(const tllm_gguf *g, uint32_t a, uint32_t b)
{
    return tinyi_store_compare(g->meta[a].hash, g->meta[a].key, g->meta[b].hash, g->meta[b].key) < 0;
}
static int tinyi_store_less_name(const tllm_gguf *g, uint32_t a, uint32_t b)
{
    return tinyi_store_compare(g->tensor[a].hash, g->tensor[a].name, g->tensor[b].hash, g->tensor[b].name) < 0;
}
static int tinyi_store_less_place(const tllm_gguf *g, uint32_t a, uint32_t b)
{
    const tllm_gguf_tensor *s = &g->tensor[a], *t = &g->tensor[b];
    if (s->part != t->part) return s->part < t->part;
    if (s->data != t->data) return s->data < t->data;
    return s->bytes < t->bytes;
}

/* heap sort: no memory, no bad case */
static void tinyi_store_sink(uint32_t *order, size_t at, size_t n, const tllm_gguf *g, tinyi_store_less less)
{
    uint32_t v = order[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && less(g, order[child], order[child + 1])) child++;
        if (!less(g, v, order[child])) break;
        order[at] = order[child];
        at = child;
    }
    order[at] = v;
}
static void tinyi_store_sort(uint32_t *order, size_t n, const tllm_gguf *g, tinyi_store_less less)
{
    size_t i;
    for (i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (i = n / 2; i-- > 0;) tinyi_store_sink(order, i, n, g, less);
    for (i = n; i-- > 1;) {
        uint32_t top = order[0];
        order[0] = order[i];
        order[i] = top;
        tinyi_store_sink(order, 0, i, g, less);
    }
}

tiny_status tinyi_store_open(tiny_ctx *ctx, size_t n_parts, tllm_gguf **out)
{
    tllm_gguf *g = (tllm_gguf *)tinyi_alloc(ctx, 1, sizeof *g);
    *out = NULL;
    if (!g) return tiny_ctx_status(ctx);
    memset(g, 0, sizeof *g);
    g->part = (tinyi_store_part *)tinyi_alloc(ctx, n_parts, sizeof *g->part);
    if (!g->part) {
        tiny_free(ctx, g);
        return tiny_ctx_status(ctx);
    }
    memset(g->part, 0, n_parts * sizeof *g->part);
    g->n_parts = n_parts;
    *out = g;
    return TINY_OK;
}

tiny_status tinyi_store_path(tiny_ctx *ctx, tinyi_store_part *part, const char *path)
{
    size_t n = strlen(path) + 1;
    part->path = (char *)tinyi_alloc(ctx, n, 1);
    if (!part->path) return tiny_ctx_status(ctx);
    memcpy(part->path, path, n);
    return TINY_OK;
}

TINY_API void tllm_gguf_close(tiny_ctx *ctx, tllm_gguf *g)
{
    size_t i;
    if (!g || tinyi_ctx_check(ctx)) return;
    for (i = 0; i < g->n_parts; i++) {
        tiny_file_close(ctx, &g->part[i].file);
        tiny_free(ctx, g->part[i].path);
    }
    tiny_free(ctx, g->made);
    tiny_free(ctx, g->tables);
    tiny_free(ctx, g->part);
    tiny_free(ctx, g);
}

size_t tinyi_store_most(size_t file_bytes)
{
    size_t most = TINYI_STORE_EXTRA - TINYI_STORE_EXTRA / 16;   /* the rest: what the allocator adds */
    return tinyi_size_add(most, file_bytes, &most) && tinyi_size_add(most, file_bytes, &most) ? most : SIZE_MAX;
}

tiny_status tinyi_store_tables(tiny_ctx *ctx, tllm_gguf *g, size_t n_steps, size_t file_bytes)
{
    size_t meta, tensor, step, order, all, most, i;
    unsigned char *p;
    if (!tinyi_size_mul(g->n_meta, sizeof(tllm_meta), &meta) ||
        !tinyi_size_mul(g->n_tensors, sizeof(tllm_gguf_tensor), &tensor) ||
        !tinyi_size_mul(n_steps, sizeof(const unsigned char *), &step) ||
        !tinyi_size_add(g->n_meta, g->n_tensors, &order) || !tinyi_size_mul(order, sizeof(uint32_t), &order) ||
        !tinyi_size_add(meta, tensor, &all) || !tinyi_size_add(all, step, &all) || !tinyi_size_add(all, order, &all) ||
        g->n_meta > 0x7fffffffu || g->n_tensors > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "%s: tables of %zu keys and %zu tensors are more than this machine can address",
                          g->part[0].path, g->n_meta, g->n_tensors);
    most = tinyi_store_most(file_bytes);
    for (i = 0; i < g->n_parts; i++) {      /* what is held already; the allocator adds to each block */
        size_t held = sizeof *g->part + (g->part[i].path ? strlen(g->part[i].path) : 0) + 2 * TINYI_ALIGN + 64;
        most = most > held ? most - held : 0;
    }
    if (g->made_bytes > most || all > most - g->made_bytes)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: tables of %zu keys, %zu tensors and %zu text marks would take %zu bytes, but a file of "
                          "%zu bytes may take %zu",
                          g->part[0].path, g->n_meta, g->n_tensors, n_steps, all, file_bytes, most);
    p = (unsigned char *)tinyi_alloc(ctx, all, 1);
    if (!p) return tiny_ctx_status(ctx);
    g->tables = p;
    g->tensor = (tllm_gguf_tensor *)(void *)p;          /* the widest alignment first */
    g->meta = (tllm_meta *)(void *)(p + tensor);
    g->step = (const unsigned char **)(void *)(p + tensor + meta);
    g->n_steps = n_steps;
    g->tensor_order = (uint32_t *)(void *)(p + tensor + meta + step);
    g->meta_order = g->tensor_order + g->n_tensors;
    return TINY_OK;
}

tiny_status tinyi_store_finish(tiny_ctx *ctx, tllm_gguf *g)
{
    char a[TINYI_SHOW], b[TINYI_SHOW];
    size_t i;
    int sorted = 1;
    for (i = 0; i < g->n_meta; i++) g->meta[i].hash = tinyi_store_hash(g->meta[i].key.at, g->meta[i].key.n);
    tinyi_store_sort(g->meta_order, g->n_meta, g, tinyi_store_less_key);
    for (i = 1; i < g->n_meta; i++)
        if (!tinyi_store_less_key(g, g->meta_order[i - 1], g->meta_order[i]))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %s occurs twice", g->part[0].path,
                              tinyi_show(g->meta[g->meta_order[i]].key, a));

    for (i = 1; i < g->n_tensors && sorted; i++) {
        const tllm_gguf_tensor *s = &g->tensor[i - 1], *t = &g->tensor[i];
        sorted =
            s->part < t->part || (s->part == t->part && s->data <= t->data && s->bytes <= (size_t)(t->data - s->data));
    }
    if (!sorted) {
        tinyi_store_sort(g->tensor_order, g->n_tensors, g, tinyi_store_less_place);
        for (i = 1; i < g->n_tensors; i++) {
            const tllm_gguf_tensor *s = &g->tensor[g->tensor_order[i - 1]], *t = &g->tensor[g->tensor_order[i]];
            if (s->part == t->part && s->bytes > (size_t)(t->data - s->data))
                return tinyi_fail(ctx, TINY_E_FORMAT,
                                  "%s: tensors %s and %s overlap: %zu bytes at %zu, %zu bytes at %zu",
                                  g->part[s->part].path, tinyi_show(s->name, a), tinyi_show(t->name, b), s->bytes,
                                  tllm_gguf_offset(g, s), t->bytes, tllm_gguf_offset(g, t));
        }
    }
    for (i = 0; i < g->n_tensors; i++) g->tensor[i].hash = tinyi_store_hash(g->tensor[i].name.at, g->tensor[i].name.n);
    tinyi_store_sort(g->tensor_order, g->n_tensors, g, tinyi_store_less_name);
    for (i = 1; i < g->n_tensors; i++)
        if (!tinyi_store_less_name(g, g->tensor_order[i - 1], g->tensor_order[i]))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s occurs twice",
                              g->part[g->tensor[g->tensor_order[i]].part].path,
                              tinyi_show(g->tensor[g->tensor_order[i]].name, a));
    return TINY_OK;
}

tiny_status tinyi_store_changed(tiny_ctx *ctx, const char *path)
{
    return tinyi_fail(ctx, TINY_E_FORMAT,
                      "%s: changed while it was read: the second pass found other keys, names or tensors", path);
}

tiny_status tinyi_store_key(tiny_ctx *ctx, const char *path, tinyi_cursor *c, size_t i, size_t n_meta, tllm_meta *m,
                            const unsigned char **step, size_t most_steps, size_t *n_steps)
{
    char name[TINYI_SHOW];
    const unsigned char *p;
    uint64_t n;
    uint32_t type, item;
    size_t k;
    if (!tinyi_rd_u64(c, &n))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the length of key %zu of %zu", path, i, n_meta);
    if (n > TLLM_MAX_KEY)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %zu of %zu has %llu bytes; the limit is %d", path, i,
                          n_meta, (unsigned long long)n, TLLM_MAX_KEY);
    if (!n) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %zu of %zu is empty", path, i, n_meta);
    if (!tinyi_rd_bytes(c, (size_t)n, &p))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %zu of %zu has %llu bytes, but only %zu are left", path, i,
                          n_meta, (unsigned long long)n, c->left);
    m->key.at = (const char *)p;
    m->key.n = (size_t)n;
    m->hash = 0;
    m->count = 1;
    (void)tinyi_show(m->key, name);
    if (!tinyi_rd_u32(c, &type))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the type of key %s", path, name);
    if (type >= TLLM_VALUE_TYPES)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %s has a value of type %lu; the last known type is %d", path,
                          name, (unsigned long)type, TLLM_VALUE_TYPES - 1);
    item = type;
    if (type == TLLM_ARRAY) {
        size_t least;
        if (!tinyi_rd_u32(c, &item))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the item type of key %s", path, name);
        if (item >= TLLM_VALUE_TYPES)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: key %s is an array with items of type %lu; the last known type is %d", path, name,
                              (unsigned long)item, TLLM_VALUE_TYPES - 1);
        if (item == TLLM_ARRAY)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: key %s is an array of arrays, which is not supported", path,
                              name);
        if (!tinyi_rd_u64(c, &n))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the length of the array of key %s", path, name);
        least = item == TLLM_STRING ? 8 : tllm_value_bytes((int)item);
        if (!tinyi_count_fits(c, n, least))
            return tinyi_fail(
                ctx, TINY_E_FORMAT,
                "%s: key %s claims an array of %llu items of type %s; the %zu bytes left hold at most %zu", path,
                name, (unsigned long long)n, tllm_value_name((int)item), c->left, c->left / least);
        m->count = (size_t)n;
    }
    m->type = (short)type;
    m->item_type = (short)item;
    m->at = c->at;
    if (item != TLLM_STRING) {
        size_t each = tllm_value_bytes((int)item);
        if (!tinyi_rd_bytes(c, m->count * each, &p))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: truncated in the value of key %s: it has %zu bytes, but only %zu are left", path,
                              name, each, c->left);
        for (k = 0; item == TLLM_BOOL && k < m->count; k++)
            if (p[k] > 1)
                return tinyi_fail(ctx, TINY_E_FORMAT, "%s: key %s: a bool is %u, neither 0 nor 1", path, name, p[k]);
        return TINY_OK;
    }
    if (m->count > TINYI_TEXT_STEP && step) m->at = (const unsigned char *)(const void *)(step + *n_steps);
    for (k = 0; k < m->count; k++) {
        if (m->count > TINYI_TEXT_STEP && k % TINYI_TEXT_STEP == 0) {
            if (step && *n_steps >= most_steps) return tinyi_store_changed(ctx, path);
            if (step) step[*n_steps] = c->at;
            ++*n_steps;
        }
        if (!tinyi_rd_u64(c, &n))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in text %zu of %zu of key %s", path, k, m->count,
                              name);
        if (n > c->left || !tinyi_rd_bytes(c, (size_t)n, &p))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: text %zu of %zu of key %s has %llu bytes, but only %zu are left",
                              path, k, m->count, name, (unsigned long long)n, c->left);
    }
    return TINY_OK;
}

void tinyi_made_bytes(tinyi_made *m, const void *bytes, size_t n)
{
    if (m->at && n && m->n <= m->room && n <= m->room - m->n) memcpy(m->at + m->n, bytes, n);
    m->n += n;
}
void tinyi_made_le(tinyi_made *m, uint64_t v, size_t n)
{
    size_t i;
    for (i = 0; i < n && m->at && m->n + i < m->room; i++) m->at[m->n + i] = (unsigned char)(v >> 8 * i);
    m->n += n;
}
void tinyi_made_key(tinyi_made *m, const char *key, int type)
{
    size_t n = strlen(key);
    tinyi_made_le(m, n, 8);
    tinyi_made_bytes(m, key, n);
    tinyi_made_le(m, (uint64_t)(unsigned)type, 4);
    m->n_keys++;
}
void tinyi_made_array(tinyi_made *m, const char *key, int item_type, size_t count)
{
    tinyi_made_key(m, key, TLLM_ARRAY);
    tinyi_made_le(m, (uint64_t)(unsigned)item_type, 4);
    tinyi_made_le(m, count, 8);
}
void tinyi_made_u32(tinyi_made *m, const char *key, uint64_t v)
{
    tinyi_made_key(m, key, TLLM_U32);
    tinyi_made_le(m, v, 4);
}
void tinyi_made_f32(tinyi_made *m, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    tinyi_made_key(m, key, TLLM_F32);
    tinyi_made_le(m, bits, 4);
}
void tinyi_made_text(tinyi_made *m, const char *key, const char *text)
{
    tinyi_made_key(m, key, TLLM_STRING);
    tinyi_made_le(m, strlen(text), 8);
    tinyi_made_bytes(m, text, strlen(text));
}

tiny_status tinyi_store_make(tiny_ctx *ctx, tllm_gguf *g, const tinyi_made *counted, size_t file_bytes)
{
    if (counted->n > tinyi_store_most(file_bytes))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: its keys and names would take %zu bytes, but a file of %zu bytes may take %zu",
                          g->part[0].path, counted->n, file_bytes, tinyi_store_most(file_bytes));
    g->made = (unsigned char *)tinyi_alloc(ctx, counted->n, 1);
    if (!g->made) return tiny_ctx_status(ctx);
    g->made_bytes = counted->n;
    return TINY_OK;
}

tiny_status tinyi_store_made(tiny_ctx *ctx, tllm_gguf *g)
{
    tinyi_cursor c = tinyi_cursor_make(g->made, g->made_bytes);
    tiny_status st = TINY_OK;
    size_t i, n_steps = 0;
    for (i = 0; i < g->n_meta && !st; i++)
        st = tinyi_store_key(ctx, g->part[0].path, &c, i, g->n_meta, &g->meta[i], g->step, g->n_steps, &n_steps);
    return st;
}

/* where text i starts */
static const unsigned char *tinyi_store_text_at(const tllm_meta *m, size_t i)
{
    const unsigned char *p = m->at;
    size_t k;
    if (m->count > TINYI_TEXT_STEP) memcpy(&p, m->at + i / TINYI_TEXT_STEP * sizeof p, sizeof p);
    for (k = i % TINYI_TEXT_STEP; k; k--) p += 8 + (size_t)tinyi_le64(p);
    return p;
}

void tinyi_store_value(const tllm_meta *m, const unsigned char **at, size_t *n_bytes)
{
    if (m->item_type != TLLM_STRING) {
        *at = m->at;
        *n_bytes = m->count * tllm_value_bytes(m->item_type);
    } else if (!m->count) {
        *at = m->at;
        *n_bytes = 0;
    } else {
        const unsigned char *last = tinyi_store_text_at(m, m->count - 1);
        *at = tinyi_store_text_at(m, 0);
        *n_bytes = (size_t)(last - *at) + 8 + (size_t)tinyi_le64(last);
    }
}

tiny_status tinyi_store_size(tiny_ctx *ctx, const char *path, const tllm_gguf_tensor *t, size_t *bytes)
{
    const tllm_format *f = tllm_format_of(t->type);
    char name[TINYI_SHOW];
    uint64_t n = 1;
    int a, zero = 0;
    *bytes = 0;
    (void)tinyi_show(t->name, name);
    if (!f)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: tensor %s has the unknown type %d", path, name,
                          t->type);
    for (a = 0; a < t->rank; a++) zero |= !t->dim[a];
    if (zero) return TINY_OK;
    for (a = 0; a < t->rank; a++) {
        if (n > (uint64_t)INT64_MAX / t->dim[a])
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s: the product of its dimensions 0 to %d is above 2^63",
                              path, name, a);
        n *= t->dim[a];
    }
    if (t->dim[0] % (unsigned)f->values)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s has rows of %llu values; %s needs a multiple of %d", path,
                          name, (unsigned long long)t->dim[0], f->name, f->values);
    *bytes = tllm_format_bytes(f, n);
    if (!*bytes)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "%s: tensor %s: %llu values of type %s are more bytes than this machine can address", path,
                          name, (unsigned long long)n, tllm_type_name(t->type));
    return TINY_OK;
}

TINY_API size_t tllm_gguf_n_meta(const tllm_gguf *g) { return g ? g->n_meta : 0; }
TINY_API const tllm_meta *tllm_gguf_meta_at(const tllm_gguf *g, size_t i)
{
    return g && i < g->n_meta ? &g->meta[i] : NULL;
}
TINY_API size_t tllm_gguf_n_tensors(const tllm_gguf *g) { return g ? g->n_tensors : 0; }
TINY_API const tllm_gguf_tensor *tllm_gguf_tensor_at(const tllm_gguf *g, size_t i)
{
    return g && i < g->n_tensors ? &g->tensor[i] : NULL;
}
TINY_API size_t tllm_gguf_n_parts(const tllm_gguf *g) { return g ? g->n_parts : 0; }
TINY_API const char *tllm_gguf_path(const tllm_gguf *g, size_t part)
{
    return g && part < g->n_parts ? g->part[part].path : NULL;
}
TINY_API size_t tllm_gguf_bytes(const tllm_gguf *g, size_t part)
{
    return g && part < g->n_parts ? TINYI_MAX(g->part[part].file.n_bytes, g->part[part].n_whole) : 0;
}
TINY_API uint32_t tllm_gguf_version(const tllm_gguf *g) { return g ? g->part[0].version : 0; }
TINY_API uint32_t tllm_gguf_alignment(const tllm_gguf *g) { return g ? g->part[0].alignment : 0; }
TINY_API size_t tllm_gguf_offset(const tllm_gguf *g, const tllm_gguf_tensor *tensor)
{
    return g && tensor ? (size_t)(tensor->data - g->part[tensor->part].file.bytes) : 0;
}

TINY_API const tllm_meta *tllm_gguf_find(const tllm_gguf *g, const char *key)
{
    tllm_text want;
    uint32_t hash;
    size_t low = 0, high;
    if (!g || !key) return NULL;
    want = tinyi_text(key);
    hash = tinyi_store_hash(want.at, want.n);
    for (high = g->n_meta; low < high;) {
        size_t mid = low + (high - low) / 2;
        const tllm_meta *m = &g->meta[g->meta_order[mid]];
        int c = tinyi_store_compare(m->hash, m->key, hash, want);
        if (!c) return m;
        if (c < 0) low = mid + 1;
        else high = mid;
    }
    return NULL;
}

TINY_API const tllm_gguf_tensor *tllm_gguf_tensor_find(const tllm_gguf *g, const char *name)
{
    tllm_text want;
    uint32_t hash;
    size_t low = 0, high;
    if (!g || !name) return NULL;
    want = tinyi_text(name);
    hash = tinyi_store_hash(want.at, want.n);
    for (high = g->n_tensors; low < high;) {
        size_t mid = low + (high - low) / 2;
        const tllm_gguf_tensor *t = &g->tensor[g->tensor_order[mid]];
        int c = tinyi_store_compare(t->hash, t->name, hash, want);
        if (!c) return t;
        if (c < 0) low = mid + 1;
        else high = mid;
    }
    return NULL;
}

/* Item i as an integer: its 64 bits, and whether they are a negative number. */
static int tinyi_store_int(const tllm_meta *m, size_t i, uint64_t *v, int *negative)
{
    size_t n;
    uint64_t bits, sign;
    if (!m || i >= m->count) return 0;
    n = tllm_value_bytes(m->item_type);
    sign = 0;
    switch (m->item_type) {
    case TLLM_U8: case TLLM_U16: case TLLM_U32: case TLLM_U64: break;
    case TLLM_I8: case TLLM_I16: case TLLM_I32: case TLLM_I64: sign = (uint64_t)1 << (8 * n - 1); break;
    default: return 0;
    }
    bits = tinyi_le(m->at + i * n, n);
    *negative = (bits & sign) != 0;
    *v = (bits ^ sign) - sign;
    return 1;
}

TINY_API int tllm_meta_i64(const tllm_meta *m, size_t i, int64_t *v)
{
    uint64_t bits;
    int negative;
    if (!v || !tinyi_store_int(m, i, &bits, &negative) || (!negative && bits > (uint64_t)INT64_MAX)) return 0;
    *v = negative ? -(int64_t)~bits - 1 : (int64_t)bits;
    return 1;
}

TINY_API int tllm_meta_u64(const tllm_meta *m, size_t i, uint64_t *v)
{
    uint64_t bits;
    int negative;
    if (!v || !tinyi_store_int(m, i, &bits, &negative) || negative) return 0;
    *v = bits;
    return 1;
}

TINY_API int tllm_meta_f64(const tllm_meta *m, size_t i, double *v)
{
    const double two63 = 9223372036854775808.0;
    uint64_t bits;
    int negative;
    double d;
    if (!v || !m || i >= m->count) return 0;
    if (m->item_type == TLLM_F32) {
        uint32_t b = tinyi_le32(m->at + i * 4);
        float f;
        memcpy(&f, &b, 4);
        *v = (double)f;
        return 1;
    }
    if (m->item_type == TLLM_F64) {
        bits = tinyi_le64(m->at + i * 8);
        memcpy(v, &bits, 8);
        return 1;
    }
    if (!tinyi_store_int(m, i, &bits, &negative)) return 0;
    if (negative) bits = 0 - bits;          /* the magnitude */
    d = (double)bits;
    if (d >= 2 * two63 || (uint64_t)d != bits) return 0;
    *v = negative ? -d : d;
    return 1;
}

TINY_API int tllm_meta_bool(const tllm_meta *m, size_t i, int *v)
{
    if (!v || !m || i >= m->count || m->item_type != TLLM_BOOL) return 0;
    *v = m->at[i];
    return 1;
}

TINY_API int tllm_meta_text(const tllm_meta *m, size_t i, tllm_text *v)
{
    const unsigned char *p;
    if (!v || !m || i >= m->count || m->item_type != TLLM_STRING) return 0;
    p = tinyi_store_text_at(m, i);
    v->at = (const char *)p + 8;
    v->n = (size_t)tinyi_le64(p);
    return 1;
}
