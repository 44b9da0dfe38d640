/* src/llm/file/gguf_write.c */
#include "llm/file/gguf_write.h"
#include "llm/file/store_inside.h"
#include <string.h>
#include <stdio.h>
#ifndef TINY_NO_STDIO
#include <errno.h>
#endif
typedef struct tinyi_writer_text { unsigned char *at; size_t n, room; } tinyi_writer_text;    /* grows */
/* places in the texts above, which may move */
/* at: the key; value from its type on */
typedef struct tinyi_writer_key { size_t at, n_bytes, value_at, value_bytes; int dropped; } tinyi_writer_key;
typedef struct tinyi_writer_tensor {
    size_t name_at, n_name, bytes;
    uint64_t dim[4], offset;
    const unsigned char *data;
    uint32_t part;
    int type, rank;
} tinyi_writer_tensor;

struct tllm_writer {
    tiny_status status;                     /* the first failure */
    uint32_t version, alignment;
    uint64_t part_bytes;
    int special;                            /* a device or a pipe: written in its place */
    char *path, *name;                      /* name: of the part at work, with .part */
    size_t n_path;
    tinyi_writer_text keys, names, key_list, tensor_list, memory;
    size_t n_keys, n_tensors, n_parts;
    int begun, finished, in_memory;
    size_t part, n_made, n_renamed, at_tensor, at_byte;     /* made: files that were opened */
    uint64_t written;                       /* of the part at work */
#ifndef TINY_NO_STDIO
    void *file;                             /* a FILE */
    /* on the first file, until all are renamed: no other process writes the same model */
    int lock;
#endif
};

static tiny_status tinyi_writer_room(tiny_ctx *ctx, tinyi_writer_text *t, size_t n)
{
    size_t need, room = t->room ? t->room : 512;
    unsigned char *p;
    if (!tinyi_size_add(t->n, n, &need))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%zu bytes and %zu more are more than this machine can address", t->n,
                          n);
    if (need <= t->room) return TINY_OK;
    while (room < need) room = room > SIZE_MAX / 2 ? need : room * 2;
    p = (unsigned char *)tinyi_alloc(ctx, room, 1);
    if (!p) return tiny_ctx_status(ctx);
    if (t->n) memcpy(p, t->at, t->n);
    tiny_free(ctx, t->at);
    t->at = p;
    t->room = room;
    return TINY_OK;
}

static tiny_status tinyi_writer_add(tiny_ctx *ctx, tinyi_writer_text *t, const void *bytes, size_t n)
{
    tiny_status st = tinyi_writer_room(ctx, t, n);
    if (st) return st;
    if (n) memcpy(t->at + t->n, bytes, n);
    t->n += n;
    return TINY_OK;
}

static tiny_status tinyi_writer_number(tiny_ctx *ctx, tinyi_writer_text *t, uint64_t v, size_t n)
{
    unsigned char p[8];
    tinyi_put_le(p, v, n);
    return tinyi_writer_add(ctx, t, p, n);
}

/* one value of a C type, as in the file */
static tiny_status tinyi_writer_item(tiny_ctx *ctx, tinyi_writer_text *t, int type, const void *value, size_t i)
{
    const unsigned char *p = (const unsigned char *)value + i * tllm_value_bytes(type);
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;
    switch (type) {
    case TLLM_BOOL: return tinyi_writer_number(ctx, t, *p ? 1 : 0, 1);
    case TLLM_U8: case TLLM_I8: return tinyi_writer_number(ctx, t, *p, 1);
    case TLLM_U16: case TLLM_I16: memcpy(&u16, p, 2); return tinyi_writer_number(ctx, t, u16, 2);
    case TLLM_U32: case TLLM_I32: case TLLM_F32: memcpy(&u32, p, 4); return tinyi_writer_number(ctx, t, u32, 4);
    case TLLM_U64: case TLLM_I64: case TLLM_F64: memcpy(&u64, p, 8); return tinyi_writer_number(ctx, t, u64, 8);
    default: {
        const tllm_text *text = (const tllm_text *)value + i;
        tiny_status st = tinyi_writer_number(ctx, t, text->n, 8);
        return st ? st : tinyi_writer_add(ctx, t, text->at, text->n);
    }
    }
}

static tiny_status tinyi_writer_enter(tiny_ctx *ctx, const tllm_writer *w, int still_open)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the writer is NULL");
    if (w->status) return w->status;
    if (w->finished || (still_open && w->begun))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: keys and tensors must be put before the first data and before finish", w->path);
    return TINY_OK;
}

static tiny_status tinyi_writer_keep(tllm_writer *w, tiny_status st)
{
    if (w && st && !w->status) w->status = st;
    return st;
}

TINY_API tiny_status tllm_writer_open(tiny_ctx *ctx, const tllm_writer_desc *desc, tllm_writer **out)
{
    tllm_writer_desc d;
    tllm_writer *w;
    tiny_status st = tinyi_ctx_check(ctx);
    const char *path;
    if (out) *out = NULL;
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    path = d.path ? d.path : "memory";
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the result pointer is NULL", path);
    if (d.version != 0 && d.version != 2 && d.version != 3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: GGUF version %lu cannot be written; use 2 or 3", path,
                          (unsigned long)d.version);
    if (d.alignment && (d.alignment < 8 || (d.alignment & (d.alignment - 1))))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: alignment %lu: it must be a power of two and at least 8", path,
                          (unsigned long)d.alignment);
    if (d.part_bytes && !d.path)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: only a file with a path can be split", path);
#ifdef TINY_NO_STDIO
    if (d.path) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: this build has no files (TINY_NO_STDIO)", path);
#endif
    w = (tllm_writer *)tinyi_alloc(ctx, 1, sizeof *w);
    if (!w) return tiny_ctx_status(ctx);
    memset(w, 0, sizeof *w);
    w->version = d.version ? d.version : 3;
    w->part_bytes = d.part_bytes;
    w->in_memory = !d.path;
    w->n_parts = 1;
    w->n_path = strlen(path);
    w->path = (char *)tinyi_alloc(ctx, w->n_path + 1, 1);
    w->name = w->path ? (char *)tinyi_alloc(ctx, w->n_path + 64, 1) : NULL;
    if (w->path && w->name) memcpy(w->path, path, w->n_path + 1);
    else st = tiny_ctx_status(ctx);
    if (!st && d.alignment) st = tllm_writer_put_u32(ctx, w, "general.alignment", d.alignment);
    if (st) tllm_writer_close(ctx, w);
    else *out = w;
    return st;
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static tinyi_writer_key *tinyi_writer_keys(const tllm_writer *w) { return (tinyi_writer_key *)(void *)w->key_list.at; }
static tinyi_writer_tensor *tinyi_writer_tensors(const tllm_writer *w)
{
    return (tinyi_writer_tensor *)(void *)w->tensor_list.at;
}

static tiny_status tinyi_writer_put_key(tiny_ctx *ctx, tllm_writer *w, tllm_text key, int type, int item_type,
                                        const void *items, size_t count, const tllm_meta *m)
{
    tinyi_writer_key k;
    const unsigned char *value;
    size_t n, i, all;
    tiny_status st;
    char name[TINYI_SHOW];
    if (!key.n || key.n > TLLM_MAX_KEY)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: key %s has %zu bytes; the limits are 1 and %d", w->path,
                          tinyi_show(key, name), key.n, TLLM_MAX_KEY);
    if (item_type < 0 || item_type >= TLLM_VALUE_TYPES || item_type == TLLM_ARRAY)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: key %s: type %d cannot be written", w->path,
                          tinyi_show(key, name), item_type);
    if (!items && !m && count)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: key %s has no value", w->path, tinyi_show(key, name));
    if (tllm_text_is(key, "split.no") || tllm_text_is(key, "split.count") || tllm_text_is(key, "split.tensors.count"))
        return TINY_OK;
    if (tllm_text_is(key, "general.alignment")) {
        uint64_t v = 0;
        uint32_t v32 = 0;
        if (m) (void)tllm_meta_u64(m, 0, &v);
        else if (type == TLLM_U32) { memcpy(&v32, items, 4); v = v32; }
        if (type != TLLM_U32 || v < 8 || (v & (v - 1)))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: general.alignment must be a u32, a power of two and at least 8", w->path);
        w->alignment = (uint32_t)v;
    }
    memset(&k, 0, sizeof k);
    k.at = w->keys.n;
    k.n_bytes = key.n;
    st = tinyi_writer_add(ctx, &w->keys, key.at, key.n);
    k.value_at = w->keys.n;
    if (!st) st = tinyi_writer_number(ctx, &w->keys, (uint64_t)(unsigned)type, 4);
    if (!st && type == TLLM_ARRAY) {
        st = tinyi_writer_number(ctx, &w->keys, (uint64_t)(unsigned)item_type, 4);
        if (!st) st = tinyi_writer_number(ctx, &w->keys, count, 8);
    }
    if (!st && m) {
        tinyi_store_value(m, &value, &n);
        st = tinyi_writer_add(ctx, &w->keys, value, n);
    } else if (!st) {
        /* refused by the allocation */
        if (!tinyi_size_mul(count, tllm_value_bytes(item_type), &all)) all = SIZE_MAX;
        st = tinyi_writer_room(ctx, &w->keys, all);
        for (i = 0; i < count && !st; i++) st = tinyi_writer_item(ctx, &w->keys, item_type, items, i);
    }
    k.value_bytes = w->keys.n - k.value_at;
    if (!st) st = tinyi_writer_add(ctx, &w->key_list, &k, sizeof k);
    if (!st) w->n_keys++;
    return st;
}

TINY_API tiny_status tllm_writer_put(tiny_ctx *ctx, tllm_writer *w, const char *key, int type, const void *value)
{
    tiny_status st = tinyi_writer_enter(ctx, w, 1);
    if (st) return st;
    if (!key) return tinyi_writer_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a key is missing", w->path));
    return tinyi_writer_keep(w, tinyi_writer_put_key(ctx, w, tinyi_text(key), type, type, value, 1, NULL));
}

TINY_API tiny_status tllm_writer_put_array(tiny_ctx *ctx, tllm_writer *w, const char *key, int item_type,
                                           const void *items, size_t count)
{
    tiny_status st = tinyi_writer_enter(ctx, w, 1);
    if (st) return st;
    if (!key) return tinyi_writer_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a key is missing", w->path));
    return tinyi_writer_keep(w,
                             tinyi_writer_put_key(ctx, w, tinyi_text(key), TLLM_ARRAY, item_type, items, count, NULL));
}

TINY_API tiny_status tllm_writer_put_meta(tiny_ctx *ctx, tllm_writer *w, const tllm_meta *m)
{
    tiny_status st = tinyi_writer_enter(ctx, w, 1);
    if (st) return st;
    if (!m) return tinyi_writer_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the key to copy is missing", w->path));
    return tinyi_writer_keep(w, tinyi_writer_put_key(ctx, w, m->key, m->type, m->item_type, NULL, m->count, m));
}

TINY_API tiny_status tllm_writer_put_u32(tiny_ctx *ctx, tllm_writer *w, const char *key, uint32_t v)
{
    return tllm_writer_put(ctx, w, key, TLLM_U32, &v);
}
TINY_API tiny_status tllm_writer_put_i32(tiny_ctx *ctx, tllm_writer *w, const char *key, int32_t v)
{
    return tllm_writer_put(ctx, w, key, TLLM_I32, &v);
}
TINY_API tiny_status tllm_writer_put_u64(tiny_ctx *ctx, tllm_writer *w, const char *key, uint64_t v)
{
    return tllm_writer_put(ctx, w, key, TLLM_U64, &v);
}
TINY_API tiny_status tllm_writer_put_f32(tiny_ctx *ctx, tllm_writer *w, const char *key, float v)
{
    return tllm_writer_put(ctx, w, key, TLLM_F32, &v);
}
TINY_API tiny_status tllm_writer_put_bool(tiny_ctx *ctx, tllm_writer *w, const char *key, int v)
{
    unsigned char b = v ? 1 : 0;
    return tllm_writer_put(ctx, w, key, TLLM_BOOL, &b);
}
TINY_API tiny_status tllm_writer_put_text(tiny_ctx *ctx, tllm_writer *w, const char *key, const char *text)
{
    tllm_text t;
    if (!text) return tllm_writer_put(ctx, w, key, TLLM_STRING, NULL);
    t = tinyi_text(text);
    return tllm_writer_put(ctx, w, key, TLLM_STRING, &t);
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_writer_put_one(tiny_ctx *ctx, tllm_writer *w, tllm_text name, int type, int rank,
                                        const uint64_t *dim, const void *data)
{
    tllm_gguf_tensor t;
    tinyi_writer_tensor e;
    char shown[TINYI_SHOW];
    tiny_status st;
    int a;
    if (!name.at || !name.n || name.n > TLLM_MAX_KEY)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the name of tensor %zu has %zu bytes; the limits are 1 and %d",
                          w->path, w->n_tensors, name.n, TLLM_MAX_KEY);
    (void)tinyi_show(name, shown);
    if (rank < 0 || rank > 4 || (rank && !dim))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s has %d dimensions; GGUF allows 0 to 4", w->path, shown,
                          rank);
    if (type < 0 || type > 0xffff)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: tensor %s: GGUF has no type %s", w->path, shown,
                          tllm_type_name(type));
    memset(&t, 0, sizeof t);
    memset(&e, 0, sizeof e);
    t.name = name;
    t.type = e.type = type;
    t.rank = e.rank = rank;
    for (a = 0; a < TLLM_MAX_RANK; a++) {
        t.dim[a] = a < rank ? dim[a] : 1;
        if (!t.dim[a]) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s: dimension %d is 0", w->path, shown, a);
        if (a < 4) e.dim[a] = t.dim[a];
    }
    st = tinyi_store_size(ctx, w->path, &t, &e.bytes);
    if (st) return st;
    e.data = (const unsigned char *)data;
    e.name_at = w->names.n;
    e.n_name = name.n;
    st = tinyi_writer_add(ctx, &w->names, name.at, name.n);
    if (!st) st = tinyi_writer_add(ctx, &w->tensor_list, &e, sizeof e);
    if (!st) w->n_tensors++;
    return st;
}

TINY_API tiny_status tllm_writer_put_tensor(tiny_ctx *ctx, tllm_writer *w, tllm_text name, int type, int rank,
                                            const uint64_t *dim, const void *data)
{
    tiny_status st = tinyi_writer_enter(ctx, w, 1);
    return st ? st : tinyi_writer_keep(w, tinyi_writer_put_one(ctx, w, name, type, rank, dim, data));
}

/* Sorts numbers 0 .. n-1 by the texts they stand for (equal ones by number) with a merge sort in order[n], spare[n]. */
static int tinyi_writer_after(const tllm_writer *w, int tensors, size_t a, size_t b)
{
    const unsigned char *p, *q;
    size_t n, m;
    int c;
    if (tensors) {
        p = w->names.at + tinyi_writer_tensors(w)[a].name_at; n = tinyi_writer_tensors(w)[a].n_name;
        q = w->names.at + tinyi_writer_tensors(w)[b].name_at; m = tinyi_writer_tensors(w)[b].n_name;
    } else {
        p = w->keys.at + tinyi_writer_keys(w)[a].at; n = tinyi_writer_keys(w)[a].n_bytes;
        q = w->keys.at + tinyi_writer_keys(w)[b].at; m = tinyi_writer_keys(w)[b].n_bytes;
    }
    if (n != m) return n < m ? -1 : 1;
    c = memcmp(p, q, n);
    return c;
}
static void tinyi_writer_sort(const tllm_writer *w, int tensors, size_t n, size_t *order, size_t *spare)
{
    size_t width, i;
    for (i = 0; i < n; i++) order[i] = i;
    for (width = 1; width < n; width *= 2) {
        for (i = 0; i < n; i += 2 * width) {
            size_t a = i, mid = TINYI_MIN(i + width, n), b = mid, end = TINYI_MIN(i + 2 * width, n), k = i;
            while (a < mid || b < end)
                spare[k++] = b == end || (a < mid && tinyi_writer_after(w, tensors, order[a], order[b]) <= 0)
                                 ? order[a++]
                                 : order[b++];
        }
        memcpy(order, spare, n * sizeof *order);
    }
}

static size_t tinyi_writer_pad(uint64_t at, uint32_t alignment)
{
    return (size_t)((alignment - at % alignment) % alignment);
}

/* Later values go to the place of the first one; equal names of tensors are refused; every tensor gets its part and
 * offset. */
static tiny_status tinyi_writer_plan(tiny_ctx *ctx, tllm_writer *w)
{
    size_t n = TINYI_MAX(w->n_keys, w->n_tensors), i, *order;
    tinyi_writer_key *key = tinyi_writer_keys(w);
    tinyi_writer_tensor *tensor = tinyi_writer_tensors(w);
    char shown[TINYI_SHOW];
    uint64_t end = 0, used = 0;
    tiny_status st = TINY_OK;
    if (!w->alignment) w->alignment = 32;
    order = (size_t *)tinyi_alloc(ctx, n, 2 * sizeof *order);
    if (!order) return tiny_ctx_status(ctx);
    tinyi_writer_sort(w, 0, w->n_keys, order, order + n);
    for (i = w->n_keys; i-- > 1;)           /* from the back: the last value wanders to the first place */
        if (!tinyi_writer_after(w, 0, order[i - 1], order[i])) {
            key[order[i - 1]].value_at = key[order[i]].value_at;
            key[order[i - 1]].value_bytes = key[order[i]].value_bytes;
            key[order[i]].dropped = 1;
        }
    tinyi_writer_sort(w, 1, w->n_tensors, order, order + n);
    for (i = 1; i < w->n_tensors && !st; i++)
        if (!tinyi_writer_after(w, 1, order[i - 1], order[i])) {
            tllm_text name;
            name.at = (const char *)w->names.at + tensor[order[i]].name_at;
            name.n = tensor[order[i]].n_name;
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s was put twice", w->path, tinyi_show(name, shown));
        }
    tiny_free(ctx, order);
    for (i = 0; i < w->n_tensors && !st; i++) {
        tinyi_writer_tensor *t = &tensor[i];
        if (w->part_bytes && used && (used > w->part_bytes || t->bytes > w->part_bytes - used)) {
            w->n_parts++;
            end = used = 0;
        }
        t->part = (uint32_t)(w->n_parts - 1);
        t->offset = end;
        if (end > (uint64_t)INT64_MAX - t->bytes - w->alignment)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the tensors have more than 2^63 bytes in total", w->path);
        end += t->bytes;
        end += tinyi_writer_pad(end, w->alignment);
        used += t->bytes;
    }
    if (!st && w->n_parts > TLLM_MAX_PARTS)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: parts of %llu bytes would give %zu parts; the limit is %d",
                        w->path, (unsigned long long)w->part_bytes, w->n_parts, TLLM_MAX_PARTS);
    return st;
}

/* ---- bytes that go out --------------------------------------------------------------------------------------- */

static tiny_status tinyi_writer_out(tiny_ctx *ctx, tllm_writer *w, const void *bytes, size_t n)
{
    w->written += n;
    if (w->in_memory) return tinyi_writer_add(ctx, &w->memory, bytes, n);
#ifndef TINY_NO_STDIO
    if (n && fwrite(bytes, 1, n, (FILE *)w->file) != n)
        return tinyi_fail(ctx, TINY_E_IO, "%s: writing failed at byte %llu: %s", w->name,
                          (unsigned long long)(w->written - n), strerror(errno));
#endif
    return TINY_OK;
}
static tiny_status tinyi_writer_out_number(tiny_ctx *ctx, tllm_writer *w, uint64_t v, size_t n)
{
    unsigned char p[8];
    tinyi_put_le(p, v, n);
    return tinyi_writer_out(ctx, w, p, n);
}
static tiny_status tinyi_writer_out_text(tiny_ctx *ctx, tllm_writer *w, const void *s, size_t n)
{
    tiny_status st = tinyi_writer_out_number(ctx, w, n, 8);
    return st ? st : tinyi_writer_out(ctx, w, s, n);
}
static tiny_status tinyi_writer_out_count(tiny_ctx *ctx, tllm_writer *w, const char *key, int type, uint64_t v)
{
    tiny_status st = tinyi_writer_out_text(ctx, w, key, strlen(key));
    if (!st) st = tinyi_writer_out_number(ctx, w, (uint64_t)(unsigned)type, 4);
    return st ? st : tinyi_writer_out_number(ctx, w, v, tllm_value_bytes(type));
}
static tiny_status tinyi_writer_out_pad(tiny_ctx *ctx, tllm_writer *w)
{
    static const unsigned char zeros[64] = { 0 };
    size_t n = tinyi_writer_pad(w->written, w->alignment);
    tiny_status st = TINY_OK;
    for (; n && !st; n -= TINYI_MIN(n, sizeof zeros)) st = tinyi_writer_out(ctx, w, zeros, TINYI_MIN(n, sizeof zeros));
    return st;
}

#ifndef TINY_NO_STDIO
/* the path of a part into w->name; tail is ".part" or "" */
static void tinyi_writer_name(tllm_writer *w, size_t part, const char *tail)
{
    size_t stem = w->n_path;
    if (w->n_parts == 1) {
        (void)snprintf(w->name, w->n_path + 64, "%s%s", w->path, tail);
        return;
    }
    if (stem > 5 && !memcmp(w->path + stem - 5, ".gguf", 5)) stem -= 5;
    memcpy(w->name, w->path, stem);
    (void)snprintf(w->name + stem, w->n_path + 64 - stem, "-%05u-of-%05u.gguf%s", (unsigned)part + 1,
                   (unsigned)w->n_parts, tail);
}
#endif

/* Starts a part: its file, its keys, its list of tensors. */
static tiny_status tinyi_writer_head(tiny_ctx *ctx, tllm_writer *w)
{
    const tinyi_writer_key *key = tinyi_writer_keys(w);
    const tinyi_writer_tensor *t = tinyi_writer_tensors(w);
    size_t i, n_keys = 0, n_tensors = 0;
    int a, split = w->n_parts > 1;
    tiny_status st = TINY_OK;
    w->written = 0;
#ifndef TINY_NO_STDIO
    if (!w->in_memory) {
        w->special = !split && tinyi_file_special(w->path);
        tinyi_writer_name(w, w->part, w->special ? "" : ".part");
        st = tinyi_part_open(ctx, w->name, w->special, &w->file, w->part ? NULL : &w->lock);
        if (st) return st;
        w->n_made++;
    }
#endif
    for (i = 0; i < w->n_keys; i++) n_keys += !key[i].dropped && !w->part;
    for (i = 0; i < w->n_tensors; i++) n_tensors += t[i].part == w->part;
    if (w->part && w->alignment != 32) n_keys++;        /* the other parts count their offsets by it too */
    if (split) n_keys += 3;
    st = tinyi_writer_out(ctx, w, "GGUF", 4);
    if (!st) st = tinyi_writer_out_number(ctx, w, w->version, 4);
    if (!st) st = tinyi_writer_out_number(ctx, w, n_tensors, 8);
    if (!st) st = tinyi_writer_out_number(ctx, w, n_keys, 8);
    for (i = 0; i < w->n_keys && !w->part && !st; i++) {
        if (key[i].dropped) continue;
        st = tinyi_writer_out_text(ctx, w, w->keys.at + key[i].at, key[i].n_bytes);
        if (!st) st = tinyi_writer_out(ctx, w, w->keys.at + key[i].value_at, key[i].value_bytes);
    }
    if (!st && w->part && w->alignment != 32)
        st = tinyi_writer_out_count(ctx, w, "general.alignment", TLLM_U32, w->alignment);
    if (!st && split) st = tinyi_writer_out_count(ctx, w, "split.no", TLLM_U16, w->part);
    if (!st && split) st = tinyi_writer_out_count(ctx, w, "split.count", TLLM_U16, w->n_parts);
    if (!st && split) st = tinyi_writer_out_count(ctx, w, "split.tensors.count", TLLM_I32, w->n_tensors);
    for (i = 0; i < w->n_tensors && !st; i++) {
        if (t[i].part != w->part) continue;
        st = tinyi_writer_out_text(ctx, w, w->names.at + t[i].name_at, t[i].n_name);
        if (!st) st = tinyi_writer_out_number(ctx, w, (uint64_t)(unsigned)t[i].rank, 4);
        for (a = 0; a < t[i].rank && !st; a++) st = tinyi_writer_out_number(ctx, w, t[i].dim[a], 8);
        if (!st) st = tinyi_writer_out_number(ctx, w, (uint64_t)(unsigned)t[i].type, 4);
        if (!st) st = tinyi_writer_out_number(ctx, w, t[i].offset, 8);
    }
    return st ? st : tinyi_writer_out_pad(ctx, w);
}

/* Closes the file of a part; it waits under its other name until all are there. */
static tiny_status tinyi_writer_shut(tiny_ctx *ctx, tllm_writer *w)
{
#ifndef TINY_NO_STDIO
    int arrived;
    if (w->in_memory) return TINY_OK;
    arrived = tinyi_part_close(w->file, w->special);
    w->file = NULL;
    if (!arrived)
        return tinyi_fail(ctx, TINY_E_IO, "%s: writing %llu bytes failed: %s", w->name,
                          (unsigned long long)w->written, strerror(errno));
#else
    (void)ctx;
    (void)w;
#endif
    return TINY_OK;
}

/* Over tensors that are complete, through those whose bytes are known, to one that waits for tllm_writer_data. */
static tiny_status tinyi_writer_move(tiny_ctx *ctx, tllm_writer *w)
{
    const tinyi_writer_tensor *t = tinyi_writer_tensors(w);
    tiny_status st = TINY_OK;
    while (!st && w->at_tensor < w->n_tensors) {
        const tinyi_writer_tensor *now = &t[w->at_tensor];
        if (now->part != w->part) {
            st = tinyi_writer_shut(ctx, w);
            w->part++;
            if (!st) st = tinyi_writer_head(ctx, w);
            continue;
        }
        if (now->data && !w->at_byte) {
            st = tinyi_writer_out(ctx, w, now->data, now->bytes);
            w->at_byte = now->bytes;
        }
        if (w->at_byte < now->bytes) break;
        if (!st) st = tinyi_writer_out_pad(ctx, w);
        w->at_tensor++;
        w->at_byte = 0;
    }
    return st;
}

static tiny_status tinyi_writer_begin(tiny_ctx *ctx, tllm_writer *w)
{
    tiny_status st;
    if (w->begun) return TINY_OK;
    w->begun = 1;
    st = tinyi_writer_plan(ctx, w);
    if (!st) st = tinyi_writer_head(ctx, w);
    return st ? st : tinyi_writer_move(ctx, w);
}

TINY_API tiny_status tllm_writer_data(tiny_ctx *ctx, tllm_writer *w, const void *bytes, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;
    tiny_status st = tinyi_writer_enter(ctx, w, 0);
    if (st) return st;
    if (!p && n_bytes)
        return tinyi_writer_keep(w, tinyi_fail(ctx, TINY_E_ARGUMENT,
                                               "%s: %zu bytes of data are missing: the pointer is NULL", w->path,
                                               n_bytes));
    st = tinyi_writer_begin(ctx, w);
    while (n_bytes && !st) {
        size_t n;
        if (w->at_tensor == w->n_tensors) {
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %zu bytes of data after the last tensor", w->path, n_bytes);
            break;
        }
        n = tinyi_writer_tensors(w)[w->at_tensor].bytes - w->at_byte;
        n = TINYI_MIN(n, n_bytes);
        st = tinyi_writer_out(ctx, w, p, n);
        w->at_byte += n;
        p += n;
        n_bytes -= n;
        if (!st) st = tinyi_writer_move(ctx, w);
    }
    return tinyi_writer_keep(w, st);
}

static tiny_status tinyi_writer_rename(tiny_ctx *ctx, tllm_writer *w)
{
#ifndef TINY_NO_STDIO
    while (w->n_renamed < w->n_parts) {     /* the first part is renamed last: if it exists, all parts exist */
        size_t part = w->n_parts - 1 - w->n_renamed, n;
        char *from;
        tiny_status st;
        tinyi_writer_name(w, part, ".part");
        n = strlen(w->name) + 1;
        from = (char *)tinyi_alloc(ctx, n, 1);
        if (!from) return tiny_ctx_status(ctx);
        memcpy(from, w->name, n);
        tinyi_writer_name(w, part, "");
        st = tinyi_part_rename(ctx, from, w->name);
        tiny_free(ctx, from);
        if (st) return st;
        w->n_renamed++;
    }
#else
    (void)ctx;
    (void)w;
#endif
    return TINY_OK;
}

TINY_API tiny_status tllm_writer_finish(tiny_ctx *ctx, tllm_writer *w)
{
    tiny_status st = tinyi_writer_enter(ctx, w, 0);
    if (st) return st;
    st = tinyi_writer_begin(ctx, w);
    if (!st && w->at_tensor < w->n_tensors) {
        const tinyi_writer_tensor *t = &tinyi_writer_tensors(w)[w->at_tensor];
        tllm_text name;
        char shown[TINYI_SHOW];
        name.at = (const char *)w->names.at + t->name_at;
        name.n = t->n_name;
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: tensor %s has %zu bytes, but only %zu were written", w->path,
                        tinyi_show(name, shown), t->bytes, w->at_byte);
    }
    if (!st) st = tinyi_writer_shut(ctx, w);
    if (!st && !w->in_memory && !w->special) st = tinyi_writer_rename(ctx, w);
    if (!st) w->finished = 1;
    return tinyi_writer_keep(w, st);
}

TINY_API const void *tllm_writer_memory(const tllm_writer *w, size_t *n_bytes)
{
    int there = w && w->finished && w->in_memory;
    if (n_bytes) *n_bytes = there ? w->memory.n : 0;
    return there ? w->memory.at : NULL;
}

TINY_API void tllm_writer_close(tiny_ctx *ctx, tllm_writer *w)
{
    if (!w || tinyi_ctx_check(ctx)) return;
#ifndef TINY_NO_STDIO
    if (w->file) (void)fclose((FILE *)w->file);
    if (!w->in_memory && w->begun && !w->finished && w->name && !w->special) {
        size_t i;
        for (i = 0; i + w->n_renamed < w->n_parts && i < w->n_made; i++) {
            tinyi_writer_name(w, i, ".part");
            (void)remove(w->name);
        }
    }
    tinyi_part_unlock(&w->lock);
#endif
    tiny_free(ctx, w->path);
    tiny_free(ctx, w->name);
    tiny_free(ctx, w->keys.at);
    tiny_free(ctx, w->names.at);
    tiny_free(ctx, w->key_list.at);
    tiny_free(ctx, w->tensor_list.at);
    tiny_free(ctx, w->memory.at);
    tiny_free(ctx, w);
}
