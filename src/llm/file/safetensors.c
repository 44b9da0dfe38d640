/* src/llm/file/safetensors.c - the tables of a tllm_gguf, filled from a header that core/safetensors.h walks twice
 *
 * The first pass counts. The second fills tables of that size and never more, because a mapped file may have changed by
 * then. Names without escapes stay views of the file. */
#include "llm/file/safetensors.h"
#include "llm/file/store_inside.h"
#include "llm/file/open.h"
#include "core/safetensors.h"
#include <string.h>

typedef struct tinyi_st_fill {
    tllm_gguf *g;
    tinyi_made keys, names;                 /* at NULL in the first walk */
    size_t n_tensors;
    int fill;
} tinyi_st_fill;

static void tinyi_st_put(tinyi_made *m, tinyi_json_text t)
{
    m->n += tinyi_json_plain(m->at && m->n < m->room ? m->at + m->n : NULL, m->room - m->n, t);
}

static void tinyi_st_put_counted(tinyi_made *m, tinyi_json_text t)
{
    tinyi_made_le(m, tinyi_json_plain(NULL, 0, t), 8);
    tinyi_st_put(m, t);
}

static void tinyi_st_take_meta(void *arg, tinyi_json_text key, tinyi_json_text text)
{
    tinyi_st_fill *w = (tinyi_st_fill *)arg;
    tinyi_st_put_counted(&w->keys, key);
    tinyi_made_le(&w->keys, TLLM_STRING, 4);
    tinyi_st_put_counted(&w->keys, text);
    w->keys.n_keys++;
}

/* in the order of TINYI_SAFETENSORS_TYPES */
static const int tinyi_st_gguf_type[] = { 0,
                                          1,
                                          30,
                                          28,
                                          24,
                                          25,
                                          26,
                                          27,
                                          TLLM_TYPE_BOOL,
                                          TLLM_TYPE_U8,
                                          TLLM_TYPE_U16,
                                          TLLM_TYPE_U32,
                                          TLLM_TYPE_U64,
                                          TLLM_TYPE_F8_E4M3,
                                          TLLM_TYPE_F8_E5M2 };

static void tinyi_st_take_tensor(void *arg, const tinyi_st_tensor *s)
{
    tinyi_st_fill *w = (tinyi_st_fill *)arg;
    tllm_gguf_tensor t;
    int a;
    memset(&t, 0, sizeof t);
    t.name.at = (const char *)s->name.at;
    t.name.n = s->name.n;
    if (s->name.escapes) {
        const size_t from = w->names.n;
        if (w->fill) t.name.at = (const char *)w->names.at + TINYI_MIN(from, w->names.room);
        tinyi_st_put(&w->names, s->name);
        t.name.n = w->names.n - from;
    }
    t.type = tinyi_st_gguf_type[s->type];
    t.rank = s->rank;
    for (a = 0; a < TLLM_MAX_RANK; a++) t.dim[a] = a < s->rank ? s->dim[s->rank - 1 - a] : 1;
    t.data = s->data;
    t.bytes = s->bytes;
    if (w->fill && w->n_tensors < w->g->n_tensors) w->g->tensor[w->n_tensors] = t;
    w->n_tensors++;
}

/* Takes the file over, also on failure. */
static tiny_status tinyi_st_build(tiny_ctx *ctx, const char *path, tiny_file *file, tllm_gguf **out)
{
    tinyi_st_fill w;
    tinyi_st_sink sink;
    tinyi_made all;
    tllm_gguf *g = NULL;
    tiny_status st = tinyi_store_open(ctx, 1, &g);
    if (st) {
        tiny_file_close(ctx, file);
        return st;
    }
    g->kind = TLLM_FILE_SAFETENSORS;
    g->part[0].file = *file;
    memset(&w, 0, sizeof w);
    w.g = g;
    sink.arg = &w;
    sink.meta = tinyi_st_take_meta;
    sink.tensor = tinyi_st_take_tensor;
    st = tinyi_store_path(ctx, &g->part[0], path);
    if (!st) st = tinyi_st_walk(ctx, path, file->bytes, file->n_bytes, &sink);
    if (!st) {
        all = w.keys;
        all.n += w.names.n;
        st = tinyi_store_make(ctx, g, &all, file->n_bytes);
    }
    if (!st) {
        size_t key_bytes = w.keys.n;
        /* The keys must be there before the tables are read from them, the tables before the tensors: the second walk
         * writes keys and tensors, and the tables of keys are filled after it. */
        g->n_tensors = w.n_tensors;
        g->n_meta = w.keys.n_keys;
        st = tinyi_store_tables(ctx, g, 0, file->n_bytes);
        memset(&w, 0, sizeof w);
        w.g = g;
        w.keys.at = g->made;
        w.keys.room = key_bytes;
        w.names.at = g->made + key_bytes;
        w.names.room = g->made_bytes - key_bytes;
        w.fill = 1;
        if (!st) st = tinyi_st_walk(ctx, path, file->bytes, file->n_bytes, &sink);
        if (!st && (w.n_tensors != g->n_tensors || w.keys.n_keys != g->n_meta || w.keys.n != w.keys.room ||
                    w.names.n != w.names.room))
            st = tinyi_store_changed(ctx, path);
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
    if (!what || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "safetensors file: the path, the bytes or the result pointer is NULL");
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
