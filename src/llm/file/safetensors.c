/* src/llm/file/safetensors.c
 *
 *   u64 n   n bytes of JSON   data
 *   { "__metadata__": { "key": "text", ... },
 *     "name": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] }, ... }
 *
 * The form has a fixed depth, so that the reader needs neither recursion nor a stack. It walks the header twice: once to
 * check and count, once to fill tables of that size. Names without escapes stay views of the file.
 *
 * Left out: F4, F6, F8_E8M0 and complex types; unknown members of a tensor are refused.                                */
#include "llm/file/safetensors.h"
#include "llm/file/store.h"
#include "llm/file/json.h"
#include "llm/file/open.h"
#include <string.h>

/* a whole number below 2^63, as safetensors writes them */
static tiny_status tinyi_json_count(tinyi_json *j, uint64_t *v)
{
    const unsigned char *first;
    tinyi_json_space(j);
    first = j->at;
    *v = 0;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9') {
        unsigned d = (unsigned)(*j->at - '0');
        if (*v > ((uint64_t)INT64_MAX - d) / 10) return tinyi_json_fail(j, "a number below 2^63");
        *v = *v * 10 + d;
        j->at++;
    }
    if (j->at == first) return tinyi_json_fail(j, "a whole number");
    if (*first == '0' && j->at - first > 1) {
        j->at = first;
        return tinyi_json_fail(j, "a number without leading zeros");
    }
    return TINY_OK;
}

/* [1, 2, ...]: at most most of them */
static tiny_status tinyi_json_counts(tinyi_json *j, uint64_t *v, int most, int *n)
{
    tiny_status st;
    *n = 0;
    if (!tinyi_json_is(j, '[')) return tinyi_json_fail(j, "[");
    if (tinyi_json_is(j, ']')) return TINY_OK;
    for (;;) {
        if (*n == most)
            return tinyi_fail(j->ctx, TINY_E_UNSUPPORTED, "%s: byte %zu of the header: a list of more than %d numbers", j->path, (size_t)(j->at - j->start), most);
        st = tinyi_json_count(j, &v[*n]);
        if (st) return st;
        ++*n;
        if (tinyi_json_is(j, ']')) return TINY_OK;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, ", or ]");
    }
}

typedef struct tinyi_st_walk {
    tllm_gguf *g;
    tinyi_made keys, names;                 /* at NULL in the first walk */
    size_t n_tensors, data_bytes;
    const unsigned char *data;
    uint64_t sum;
    int fill;
} tinyi_st_walk;

static tiny_status tinyi_st_metadata(tinyi_json *j, tinyi_st_walk *w)
{
    tinyi_json_text key, text;
    tiny_status st;
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "{");
    if (tinyi_json_is(j, '}')) return TINY_OK;
    for (;;) {
        st = tinyi_json_string(j, &key, "a key in quotes");
        if (!st && !tinyi_json_is(j, ':')) st = tinyi_json_fail(j, ":");
        if (!st) st = tinyi_json_string(j, &text, "a text in quotes (all values of __metadata__ are texts)");
        if (st) return st;
        tinyi_made_le(&w->keys, tinyi_json_plain_bytes(key), 8);
        tinyi_json_plain(&w->keys, key);
        tinyi_made_le(&w->keys, TLLM_STRING, 4);
        tinyi_made_le(&w->keys, tinyi_json_plain_bytes(text), 8);
        tinyi_json_plain(&w->keys, text);
        w->keys.n_keys++;
        if (tinyi_json_is(j, '}')) return TINY_OK;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, ", or }");
    }
}

static const struct { const char *name; int type; } tinyi_st_type[] = {
    { "F32", 0 }, { "F16", 1 }, { "BF16", 30 }, { "F64", 28 }, { "I8", 24 }, { "I16", 25 }, { "I32", 26 }, { "I64", 27 },
    { "BOOL", TLLM_TYPE_BOOL }, { "U8", TLLM_TYPE_U8 }, { "U16", TLLM_TYPE_U16 }, { "U32", TLLM_TYPE_U32 }, { "U64", TLLM_TYPE_U64 },
    { "F8_E4M3", TLLM_TYPE_F8_E4M3 }, { "F8_E5M2", TLLM_TYPE_F8_E5M2 }
};

static tiny_status tinyi_st_tensor(tinyi_json *j, tinyi_st_walk *w, tinyi_json_text name)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    tllm_gguf_tensor t;
    tinyi_json_text word, dtype = { NULL, 0, 0 };
    uint64_t shape[TLLM_MAX_RANK] = { 0 }, offset[2] = { 0 };
    char shown[TINYI_SHOW];
    tiny_status st = TINY_OK;
    int seen = 0, n = 0, a;
    size_t i;
    memset(&t, 0, sizeof t);
    t.name.at = (const char *)name.at;
    t.name.n = name.n;
    (void)tinyi_show(t.name, shown);
    if (!name.n) return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %zu has an empty name", j->path, w->n_tensors);
    if (name.n > TLLM_MAX_KEY)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: the name of tensor %s has %zu bytes; the longest has %d", j->path, shown, name.n, TLLM_MAX_KEY);
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "{");
    for (;;) {
        int member;
        st = tinyi_json_string(j, &word, "dtype, shape or data_offsets in quotes");
        if (st) return st;
        member = tinyi_json_text_is(word, "dtype") ? DTYPE : tinyi_json_text_is(word, "shape") ? SHAPE : tinyi_json_text_is(word, "data_offsets") ? OFFSETS : 0;
        if (!member || (seen & member)) {
            tllm_text what;
            char shown_word[TINYI_SHOW];
            what.at = (const char *)word.at;
            what.n = word.n;
            return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: %s %s", j->path, shown, tinyi_show(what, shown_word),
                              member ? "stands there twice" : "is no member of a tensor");
        }
        seen |= member;
        if (!tinyi_json_is(j, ':')) return tinyi_json_fail(j, ":");
        if (member == DTYPE) st = tinyi_json_string(j, &dtype, "the name of a type in quotes");
        else if (member == SHAPE) st = tinyi_json_counts(j, shape, TLLM_MAX_RANK, &t.rank);
        else {
            st = tinyi_json_counts(j, offset, 2, &n);
            if (!st && n != 2) st = tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: data_offsets are %d numbers, not 2", j->path, shown, n);
        }
        if (st) return st;
        if (tinyi_json_is(j, '}')) break;
        if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, ", or }");
    }
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s has no %s", j->path, shown, !(seen & DTYPE) ? "dtype" : !(seen & SHAPE) ? "shape" : "data_offsets");
    for (i = 0; i < TINYI_COUNT(tinyi_st_type) && !tinyi_json_text_is(dtype, tinyi_st_type[i].name); i++) {}
    if (i == TINYI_COUNT(tinyi_st_type)) {
        tllm_text what;
        char shown_type[TINYI_SHOW];
        what.at = (const char *)dtype.at;
        what.n = dtype.n;
        return tinyi_fail(j->ctx, TINY_E_UNSUPPORTED, "%s: tensor %s has dtype %s, which is not known here", j->path, shown, tinyi_show(what, shown_type));
    }
    t.type = tinyi_st_type[i].type;
    for (a = 0; a < TLLM_MAX_RANK; a++) t.dim[a] = a < t.rank ? shape[t.rank - 1 - a] : 1;
    st = tinyi_store_size(j->ctx, j->path, &t, &t.bytes);
    if (st) return st;
    if (offset[0] > offset[1] || offset[1] > w->data_bytes)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: data_offsets %llu to %llu of %zu bytes of data", j->path, shown, (unsigned long long)offset[0],
                          (unsigned long long)offset[1], w->data_bytes);
    if (offset[1] - offset[0] != t.bytes)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: tensor %s: its shape and dtype make %zu bytes, its data_offsets %llu", j->path, shown, t.bytes,
                          (unsigned long long)(offset[1] - offset[0]));
    t.data = w->data + offset[0];
    if (name.escapes) {
        if (w->fill) t.name.at = (const char *)w->names.at + w->names.n;
        t.name.n = tinyi_json_plain_bytes(name);
        tinyi_json_plain(&w->names, name);
    }
    if (w->fill) w->g->tensor[w->n_tensors] = t;
    w->n_tensors++;
    w->sum += t.bytes;                      /* each is at most the file: a sum of 2^32 of them has room */
    return TINY_OK;
}

static tiny_status tinyi_st_walk_all(tinyi_json *j, tinyi_st_walk *w)
{
    tinyi_json_text name;
    tiny_status st;
    int metadata = 0;
    if (!tinyi_json_is(j, '{')) return tinyi_json_fail(j, "{");
    if (!tinyi_json_is(j, '}')) {
        for (;;) {
            st = tinyi_json_string(j, &name, "the name of a tensor in quotes");
            if (!st && !tinyi_json_is(j, ':')) st = tinyi_json_fail(j, ":");
            if (st) return st;
            if (!tinyi_json_text_is(name, "__metadata__")) st = tinyi_st_tensor(j, w, name);
            else if (metadata++) st = tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: __metadata__ stands there twice", j->path);
            else st = tinyi_st_metadata(j, w);
            if (st) return st;
            if (tinyi_json_is(j, '}')) break;
            if (!tinyi_json_is(j, ',')) return tinyi_json_fail(j, ", or }");
        }
    }
    tinyi_json_space(j);
    if (j->at != j->end) return tinyi_json_fail(j, "nothing more");
    if (w->sum != w->data_bytes)
        return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: the tensors are %llu bytes, the data behind the header %zu: every byte belongs to one tensor", j->path,
                          (unsigned long long)w->sum, w->data_bytes);
    return TINY_OK;
}

/* Takes the file over, also on failure. */
static tiny_status tinyi_st_build(tiny_ctx *ctx, const char *path, tiny_file *file, tllm_gguf **out)
{
    tinyi_cursor c = tinyi_cursor_make(file->bytes, file->n_bytes);
    tinyi_st_walk w;
    tinyi_made all;
    tinyi_json j;
    tllm_gguf *g = NULL;
    uint64_t n = 0;
    tiny_status st = tinyi_store_open(ctx, 1, &g);
    if (st) {
        tiny_file_close(ctx, file);
        return st;
    }
    g->kind = TLLM_FILE_SAFETENSORS;
    g->part[0].file = *file;
    st = tinyi_store_path(ctx, &g->part[0], path);
    if (!st && !tinyi_rd_u64(&c, &n)) st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %zu bytes, too few for the length of a safetensors header", path, file->n_bytes);
    if (!st && (n > c.left || n > TLLM_MAX_SAFETENSORS_HEADER))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: says its header has %llu bytes, %zu are left; the most are %d", path, (unsigned long long)n, c.left,
                        TLLM_MAX_SAFETENSORS_HEADER);
    memset(&w, 0, sizeof w);
    memset(&j, 0, sizeof j);
    if (!st) {
        j.ctx = ctx;
        j.path = path;
        j.what = "the header";
        j.start = j.at = c.at;
        j.end = c.at + (size_t)n;
        w.g = g;
        w.data = j.end;
        w.data_bytes = c.left - (size_t)n;
        st = tinyi_st_walk_all(&j, &w);
    }
    if (!st) {
        all = w.keys;
        all.n += w.names.n;
        st = tinyi_store_make(ctx, g, &all, file->n_bytes);
    }
    if (!st) {
        size_t n_keys = w.keys.n_keys, n_tensors = w.n_tensors, key_bytes = w.keys.n;
        /* The keys must stand before the tables are read from them, the tables before the tensors: the second walk writes
         * keys and tensors, and the tables of keys are filled behind it. */
        g->n_tensors = n_tensors;
        g->n_meta = n_keys;
        st = tinyi_store_tables(ctx, g, 0, file->n_bytes);
        memset(&w.keys, 0, sizeof w.keys);
        memset(&w.names, 0, sizeof w.names);
        w.keys.at = g->made;
        w.names.at = g->made + key_bytes;
        w.n_tensors = 0;
        w.sum = 0;
        w.fill = 1;
        j.at = j.start;
        if (!st) st = tinyi_st_walk_all(&j, &w);
        if (!st) st = tinyi_store_made(ctx, g);
    }
    if (!st) st = tinyi_store_finish(ctx, g);
    *file = tiny_file_memory(NULL, 0);
    if (st) tllm_gguf_close(ctx, g);
    else *out = g;
    return st;
}

static tiny_status tinyi_st_enter(tiny_ctx *ctx, const void *what, tllm_gguf **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!what || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a safetensors file needs its path or its bytes, and a place for the view");
    return TINY_OK;
}

TINY_API tiny_status tllm_safetensors_open(tiny_ctx *ctx, const char *path, tllm_gguf **out)
{
    tiny_file file;
    tiny_status st = tinyi_st_enter(ctx, path, out);
    if (!st) st = tiny_file_open(ctx, path, &file);
    return st ? st : tinyi_st_build(ctx, path, &file, out);
}

TINY_API tiny_status tllm_safetensors_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out)
{
    tiny_file file = tiny_file_memory(bytes, n_bytes);
    tiny_status st = tinyi_st_enter(ctx, bytes, out);
    return st ? st : tinyi_st_build(ctx, "memory", &file, out);
}
