/* src/llm/round/importance.c - the importance of columns, from a GGUF file or from the older list of entries */
#include <string.h>
#include "core/bytes.h"
#include "core/state_inside.h"
#include "llm/block/format.h"
#include "llm/round/importance_inside.h"

/* Walks the older form once, so that later walks need no checks. */
static tiny_status tinyi_importance_check(tiny_ctx *ctx, const char *path, tinyi_cursor c)
{
    uint32_t n, i, len, values;
    if (c.left < 4) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: this is not a file of importances", path);
    n = tinyi_le32(c.at);
    c.at += 4;
    c.left -= 4;
    for (i = 0; i < n; i++) {
        if (c.left < 12 || (len = tinyi_le32(c.at)) > c.left - 12 ||
            (values = tinyi_le32(c.at + 8 + len)) > (c.left - 12 - len) / 4)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: entry %u of %u reaches past the end of the file", path,
                              (unsigned)i, (unsigned)n);
        c.at += 12 + len + 4 * (size_t)values;
        c.left -= 12 + len + 4 * (size_t)values;
    }
    return TINY_OK;
}

tiny_status tinyi_importance_open(tiny_ctx *ctx, const char *path, tinyi_importance *m)
{
    tiny_status st;
    memset(m, 0, sizeof *m);
    m->path = path;
    st = tiny_file_open(ctx, path, &m->file);
    if (st) return st;
    if (m->file.n_bytes >= 4 && !memcmp(m->file.bytes, "GGUF", 4)) {
        tiny_file_close(ctx, &m->file);
        return tllm_gguf_open(ctx, path, &m->gguf);
    }
    st = tinyi_importance_check(ctx, path, tinyi_cursor_make(m->file.bytes, m->file.n_bytes));
    if (st) tiny_file_close(ctx, &m->file);
    return st;
}

void tinyi_importance_close(tiny_ctx *ctx, tinyi_importance *m)
{
    tllm_gguf_close(ctx, m->gguf);
    if (m->file.bytes) tiny_file_close(ctx, &m->file);
    memset(m, 0, sizeof *m);
}

static tiny_status tinyi_importance_size(tiny_ctx *ctx, const tinyi_importance *m, tllm_text name, size_t n,
                                         size_t n_mat)
{
    return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the importance of %.*s is not of %lu x %lu values", m->path,
                      (int)name.n, name.at, (unsigned long)n, (unsigned long)n_mat);
}

/* NAME.in_sum2 holds sums of squares, NAME.counts how many inputs were summed */
static tiny_status tinyi_importance_sums(tiny_ctx *ctx, const tinyi_importance *m, tllm_text name, size_t n,
                                         size_t n_mat, float *out, int *found)
{
    const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32);
    const tllm_gguf_tensor *sum, *count;
    char key[300];
    size_t i, k;
    if (name.n > 256) return TINY_OK;
    memcpy(key, name.at, name.n);
    memcpy(key + name.n, ".in_sum2", 9);
    sum = tllm_gguf_tensor_find(m->gguf, key);
    memcpy(key + name.n, ".counts", 8);
    count = tllm_gguf_tensor_find(m->gguf, key);
    if (!sum || !count) return TINY_OK;
    if (sum->type != TLLM_FORMAT_F32 || count->type != TLLM_FORMAT_F32 ||
        (sum->bytes / 4 != n * n_mat && sum->bytes / 4 != n) || count->bytes / 4 * n != sum->bytes / 4)
        return tinyi_importance_size(ctx, m, name, n, n_mat);
    for (k = 0; out && k < n_mat; k++) {
        const size_t from = sum->bytes / 4 == n ? 0 : k;
        float calls;
        f32->unpack(count->data + 4 * from, &calls, 1);
        f32->unpack(sum->data + 4 * n * from, out + n * k, n);
        for (i = 0; i < n; i++) out[n * k + i] = calls > 0.0f ? out[n * k + i] / calls : 1.0f;
    }
    *found = 1;
    return TINY_OK;
}

tiny_status tinyi_importance_of(tiny_ctx *ctx, const tinyi_importance *m, tllm_text name, size_t n, size_t n_mat,
                                float *out, int *found)
{
    const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32);
    const unsigned char *p = m->file.bytes;
    uint32_t e, entries;
    size_t k;
    *found = 0;
    if (m->gguf) return tinyi_importance_sums(ctx, m, name, n, n_mat, out, found);
    for (e = 0, entries = tinyi_le32(p), p += 4; e < entries; e++) {
        const uint32_t len = tinyi_le32(p);
        const unsigned char *values = p + 12 + len;
        const size_t n_values = tinyi_le32(p + 8 + len);
        if (len == name.n && !memcmp(p + 4, name.at, len)) {
            if (n_values != n * n_mat && n_values != n) return tinyi_importance_size(ctx, m, name, n, n_mat);
            for (k = 0; out && k < n_mat; k++) f32->unpack(values + (n_values == n ? 0 : 4 * n * k), out + n * k, n);
            *found = 1;                     /* the number of calls is a common factor: it does not matter */
            return TINY_OK;
        }
        p = values + 4 * n_values;
    }
    return TINY_OK;
}
