/* src/llm/file/gguf.c - the reader of GGUF
 *
 *   "GGUF"  u32 version  u64 n_tensors  u64 n_keys
 *   n_keys times     text key, u32 type, value        text: u64 n, n bytes; array: u32 item type, u64 n, items
 *   n_tensors times  text name, u32 rank, rank times u64 dim (innermost first), u32 type, u64 offset
 *   padding to general.alignment (32 when there is none); offsets count from here and are multiples of it
 *
 * Two passes: the first checks keys and structure and counts, the second fills tables of exactly that size. Nothing
 * recurses. Memory for a count is allocated only after the bytes of its items have been checked.
 *
 * Left out: version 1 (32-bit counts, 2023 only), big-endian files, arrays of arrays; each has its own error
 * message. */
#include "llm/file/gguf.h"
#include "llm/file/store_inside.h"
#include "llm/file/fd.h"
#include <string.h>
#include <stdio.h>

/* the least bytes of a key with its value (8 length, 1 key, 4 type, 1 value) and of a tensor (8 length, 1 name, 4 rank,
 * 4 type, 8 offset) */
#define TINYI_GGUF_LEAST_KEY 14
#define TINYI_GGUF_LEAST_TENSOR 25
#define TINYI_GGUF_MAX_RANK 4
#define TINYI_GGUF_ALIGNMENT 32

static tiny_status tinyi_gguf_head(tiny_ctx *ctx, tinyi_store_part *p, tinyi_cursor *c)
{
    uint64_t n_tensors, n_meta;
    const unsigned char *magic;
    if (!tinyi_rd_bytes(c, 4, &magic))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: has %zu bytes, too few for any model file", p->path,
                          p->file.n_bytes);
    if (memcmp(magic, "GGUF", 4))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: not a GGUF file: it begins with the bytes %02x %02x %02x %02x",
                          p->path, magic[0], magic[1], magic[2], magic[3]);
    if (!tinyi_rd_u32(c, &p->version)) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the version", p->path);
    if (!(p->version & 0xffffu) && p->version)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "%s: is a big-endian GGUF file; only little-endian files are read: convert it", p->path);
    if (p->version == 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: is GGUF version 1, abandoned in 2023; versions 2 and 3 are read", p->path);
    if (p->version != 2 && p->version != 3)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: is GGUF version %lu; versions 2 and 3 are read", p->path,
                          (unsigned long)p->version);
    if (!tinyi_rd_u64(c, &n_tensors) || !tinyi_rd_u64(c, &n_meta))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the counts of keys and tensors", p->path);
    if (!tinyi_count_fits(c, n_meta, TINYI_GGUF_LEAST_KEY))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: claims %llu keys; the %zu bytes left hold at most %zu", p->path,
                          (unsigned long long)n_meta, c->left, c->left / TINYI_GGUF_LEAST_KEY);
    if (!tinyi_count_fits(c, n_tensors, TINYI_GGUF_LEAST_TENSOR))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: claims %llu tensors; the %zu bytes left hold at most %zu",
                          p->path, (unsigned long long)n_tensors, c->left, c->left / TINYI_GGUF_LEAST_TENSOR);
    p->n_meta = (size_t)n_meta;
    p->n_tensors = (size_t)n_tensors;
    return TINY_OK;
}

static tiny_status tinyi_gguf_special(tiny_ctx *ctx, tinyi_store_part *p, const tllm_meta *m)
{
    uint64_t v = 0;
    if (tllm_text_is(m->key, "general.alignment")) {
        if (m->type != TLLM_U32)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: general.alignment has type %s, not u32", p->path,
                              tllm_value_name(m->type));
        (void)tllm_meta_u64(m, 0, &v);
        if (v < 8 || (v & (v - 1)))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: general.alignment is %llu; it must be a power of two and at least 8", p->path,
                              (unsigned long long)v);
        p->alignment = (uint32_t)v;
    } else if (tllm_text_is(m->key, "split.no") || tllm_text_is(m->key, "split.count") ||
               tllm_text_is(m->key, "split.tensors.count")) {
        if (m->type == TLLM_ARRAY || !tllm_meta_u64(m, 0, &v)) {
            char key[TINYI_SHOW];
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s is not a count (its type is %s)", p->path,
                              tinyi_show(m->key, key), tllm_value_name(m->type));
        }
        if (m->key.n == 8) p->split_no = v;
        else if (m->key.n == 11) p->split_count = v;
        else p->split_tensors = v;
    }
    return TINY_OK;
}

/* One record of the list of tensors; *offset is where the file says its data starts, counted from the data section. */
static tiny_status tinyi_gguf_record(tiny_ctx *ctx, const tinyi_store_part *p, tinyi_cursor *c, size_t i,
                                     tllm_gguf_tensor *t, uint64_t *offset)
{
    char name[TINYI_SHOW];
    const unsigned char *at;
    uint64_t n;
    uint32_t rank, type;
    uint32_t a;
    if (!tinyi_rd_u64(c, &n))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the name length of tensor %zu of %zu", p->path, i,
                          p->n_tensors);
    if (n > TLLM_MAX_KEY || !n)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the name of tensor %zu of %zu has %llu bytes; the limits are 1 and %d", p->path, i,
                          p->n_tensors, (unsigned long long)n, TLLM_MAX_KEY);
    if (!tinyi_rd_bytes(c, (size_t)n, &at))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the name of tensor %zu of %zu has %llu bytes, but only %zu are left",
                          p->path, i, p->n_tensors, (unsigned long long)n, c->left);
    memset(t, 0, sizeof *t);
    t->name.at = (const char *)at;
    t->name.n = (size_t)n;
    (void)tinyi_show(t->name, name);
    if (!tinyi_rd_u32(c, &rank))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the rank of tensor %s", p->path, name);
    if (rank > TINYI_GGUF_MAX_RANK)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s has %lu dimensions; the limit is %d", p->path, name,
                          (unsigned long)rank, TINYI_GGUF_MAX_RANK);
    t->rank = (int)rank;
    for (a = 0; a < TLLM_MAX_RANK; a++) t->dim[a] = 1;
    for (a = 0; a < rank; a++) {
        if (!tinyi_rd_u64(c, &t->dim[a]))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in dimension %lu of tensor %s", p->path,
                              (unsigned long)a, name);
        if (!t->dim[a] || t->dim[a] > (uint64_t)INT64_MAX)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s: dimension %lu is %llu; the limits are 1 and 2^63-1",
                              p->path, name, (unsigned long)a, (unsigned long long)t->dim[a]);
    }
    if (!tinyi_rd_u32(c, &type))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the type of tensor %s", p->path, name);
    if (type > 0xffffu)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: tensor %s has the unknown type %lu", p->path, name,
                          (unsigned long)type);
    t->type = (int)type;
    if (!tinyi_rd_u64(c, offset))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the offset of tensor %s", p->path, name);
    return TINY_OK;
}

/* The first walk over a part: everything up to the data is checked but the tensors against the file, and counted. */
static tiny_status tinyi_gguf_skim(tiny_ctx *ctx, tinyi_store_part *p)
{
    tinyi_cursor c = tinyi_cursor_make(p->file.bytes, p->file.n_bytes);
    tiny_status st = tinyi_gguf_head(ctx, p, &c);
    tllm_gguf_tensor t;
    tllm_meta m;
    uint64_t offset, end;
    size_t i;
    if (st) return st;
    p->alignment = TINYI_GGUF_ALIGNMENT;
    p->kv_at = p->file.n_bytes - c.left;
    for (i = 0; i < p->n_meta && !st; i++) {
        st = tinyi_store_key(ctx, p->path, &c, i, p->n_meta, &m, NULL, 0, &p->n_steps);
        if (!st) st = tinyi_gguf_special(ctx, p, &m);
    }
    if (st) return st;
    p->info_at = p->file.n_bytes - c.left;
    if (!tinyi_count_fits(&c, p->n_tensors, TINYI_GGUF_LEAST_TENSOR))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: claims %zu tensors; the %zu bytes after the keys hold at most %zu", p->path,
                          p->n_tensors, c.left, c.left / TINYI_GGUF_LEAST_TENSOR);
    for (i = 0; i < p->n_tensors && !st; i++) st = tinyi_gguf_record(ctx, p, &c, i, &t, &offset);
    if (st) return st;
    end = p->file.n_bytes - c.left;
    end += (p->alignment - end % p->alignment) % p->alignment;      /* the file is in memory: no wrap in 64 bits */
    if (end > p->n_whole) {
        if (p->n_tensors)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: the data of %zu tensors starts at %llu, but the file ends at %zu", p->path,
                              p->n_tensors, (unsigned long long)end, p->n_whole);
        end = p->n_whole;
    }
    p->data_at = (size_t)end;
    return TINY_OK;
}

/* The second walk. Metadata come from the first part alone. */
static tiny_status tinyi_gguf_fill(tiny_ctx *ctx, tllm_gguf *g, size_t i_part, size_t first)
{
    tinyi_store_part *p = &g->part[i_part];
    tinyi_cursor c = tinyi_cursor_make(p->file.bytes + p->kv_at, p->file.n_bytes - p->kv_at);
    size_t i, n_steps = 0, room = p->n_whole - p->data_at;
    tiny_status st = TINY_OK;
    for (i = 0; !i_part && i < p->n_meta && !st; i++)
        st = tinyi_store_key(ctx, p->path, &c, i, p->n_meta, &g->meta[i], g->step, g->n_steps, &n_steps);
    c = tinyi_cursor_make(p->file.bytes + p->info_at, p->file.n_bytes - p->info_at);
    for (i = 0; i < p->n_tensors && !st; i++) {
        tllm_gguf_tensor *t = &g->tensor[first + i];
        char name[TINYI_SHOW];
        uint64_t offset = 0;
        st = tinyi_gguf_record(ctx, p, &c, i, t, &offset);
        if (!st) st = tinyi_store_size(ctx, p->path, t, &t->bytes);
        if (st) return st;
        if (offset % p->alignment)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: tensor %s starts at %llu, which is not a multiple of the alignment %lu", p->path,
                              tinyi_show(t->name, name), (unsigned long long)offset, (unsigned long)p->alignment);
        if (offset > room || t->bytes > room - offset)
            return tinyi_fail(
                ctx, TINY_E_FORMAT,
                "%s: tensor %s: %zu bytes of %s at %llu of the data, which starts at %zu: the file ends at %zu",
                p->path, tinyi_show(t->name, name), t->bytes, tllm_type_name(t->type), (unsigned long long)offset,
                p->data_at, p->n_whole);
        /* of a head alone this is no address: llm/dist/disk.c makes an offset of it */
        t->data = (const unsigned char *)((uintptr_t)p->file.bytes + p->data_at + (size_t)offset);
        t->part = (uint32_t)i_part;
    }
    return st;
}

/* NAME-00002-of-00003.gguf: the length of NAME, or 0 when the path is not of that form with these numbers */
static size_t tinyi_gguf_stem(const char *path, uint64_t no, uint64_t count)
{
    char tail[64];
    size_t n = strlen(path), k;
    (void)snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", (unsigned)no + 1, (unsigned)count);
    k = strlen(tail);
    return n > k && !memcmp(path + n - k, tail, k) ? n - k : 0;
}

/* Opens part i of the file whose first skimmed part is in *first; takes *first over when it is that part. */
static tiny_status tinyi_gguf_part(tiny_ctx *ctx, tinyi_store_part *p, tinyi_store_part *first, size_t stem, size_t i)
{
    size_t n_path = strlen(first->path) + 1;
    tiny_status st;
    if (i == first->split_no) {
        *p = *first;
        p->path = NULL;
        first->file = tiny_file_memory(NULL, 0);
        return tinyi_store_path(ctx, p, first->path);
    }
    p->path = (char *)tinyi_alloc(ctx, n_path, 1);
    if (!p->path) return tiny_ctx_status(ctx);
    memcpy(p->path, first->path, stem);
    (void)snprintf(p->path + stem, n_path - stem, "-%05u-of-%05u.gguf", (unsigned)i + 1, (unsigned)first->split_count);
    st = tiny_file_open(ctx, p->path, &p->file);
    p->n_whole = p->file.n_bytes;
    if (!st) st = tinyi_gguf_skim(ctx, p);
    if (st) return st;
    if (p->split_no != i || p->split_count != first->split_count)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the file is part %llu of %llu, not part %zu of %llu", p->path,
                          (unsigned long long)p->split_no + 1, (unsigned long long)p->split_count, i + 1,
                          (unsigned long long)first->split_count);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_gguf_build_head(tiny_ctx *ctx, const char *path, int is_path, tiny_file *file,
                                           size_t n_whole, tllm_gguf **out)
{
    tinyi_store_part first;
    tllm_gguf *g = NULL;
    tiny_status st;
    size_t i, n_parts = 1, stem = 0, at = 0, bytes = 0;
    memset(&first, 0, sizeof first);
    first.file = *file;
    first.n_whole = n_whole;
    st = tinyi_store_path(ctx, &first, path);
    if (!st) st = tinyi_gguf_skim(ctx, &first);
    if (!st && first.split_count > 1) {
        if (n_whole > first.file.n_bytes)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                            "%s: is part %llu of %llu of a split file: a model that stays on disk must be one file",
                            path, (unsigned long long)first.split_no + 1, (unsigned long long)first.split_count);
        else if (first.split_count > TLLM_MAX_PARTS || first.split_no >= first.split_count)
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: claims to be part %llu of %llu; the limit is %d parts",
                            path, (unsigned long long)first.split_no + 1, (unsigned long long)first.split_count,
                            TLLM_MAX_PARTS);
        else if (!is_path)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                            "%s: is part %llu of %llu of a split file; open it by its path to find the others", path,
                            (unsigned long long)first.split_no + 1, (unsigned long long)first.split_count);
        else if (!(stem = tinyi_gguf_stem(path, first.split_no, first.split_count)))
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "%s: is part %llu of %llu of a split file; its name must end in -%05u-of-%05u.gguf, so "
                            "that the others are found",
                            path, (unsigned long long)first.split_no + 1, (unsigned long long)first.split_count,
                            (unsigned)first.split_no + 1, (unsigned)first.split_count);
        n_parts = (size_t)first.split_count;
    } else first.split_no = 0;
    if (!st) st = tinyi_store_open(ctx, n_parts, &g);
    for (i = 0; i < n_parts && !st; i++) {
        st = tinyi_gguf_part(ctx, &g->part[i], &first, stem, i);
        g->n_tensors += g->part[i].n_tensors;
        bytes += g->part[i].file.n_bytes;
    }
    if (!st && first.split_count > 1 && g->part[0].split_tensors && g->part[0].split_tensors != g->n_tensors)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: split.tensors.count is %llu, but the %zu parts hold %zu tensors",
                        g->part[0].path, (unsigned long long)g->part[0].split_tensors, n_parts, g->n_tensors);
    if (!st) {
        g->n_meta = g->part[0].n_meta;
        st = tinyi_store_tables(ctx, g, g->part[0].n_steps, bytes);
    }
    for (i = 0; i < n_parts && !st; i++) {
        st = tinyi_gguf_fill(ctx, g, i, at);
        at += g->part[i].n_tensors;
    }
    if (!st) st = tinyi_store_finish(ctx, g);
    tiny_file_close(ctx, &first.file);      /* empty once a part has taken it */
    tiny_free(ctx, first.path);
    *file = tiny_file_memory(NULL, 0);
    if (st) tllm_gguf_close(ctx, g);
    else *out = g;
    return st;
}

TINYI_FN tiny_status tinyi_gguf_build(tiny_ctx *ctx, const char *path, int is_path, tiny_file *file, tllm_gguf **out)
{
    return tinyi_gguf_build_head(ctx, path, is_path, file, file->n_bytes, out);
}

static tiny_status tinyi_gguf_enter(tiny_ctx *ctx, const void *what, tllm_gguf **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!what || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "model file: the path, the bytes or the result pointer is NULL");
    return TINY_OK;
}

TINY_API tiny_status tllm_gguf_open(tiny_ctx *ctx, const char *path, tllm_gguf **out)
{
    tiny_file file;
    tiny_status st = tinyi_gguf_enter(ctx, path, out);
    if (!st) st = tiny_file_open(ctx, path, &file);
    return st ? st : tinyi_gguf_build(ctx, path, 1, &file, out);
}

TINY_API tiny_status tllm_gguf_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out)
{
    tiny_file file = tiny_file_memory(bytes, n_bytes);
    tiny_status st = tinyi_gguf_enter(ctx, bytes, out);
    return st ? st : tinyi_gguf_build(ctx, "memory", 0, &file, out);
}

TINY_API tiny_status tllm_gguf_open_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tllm_gguf **out)
{
    tiny_file file;
    char number[40];
    tiny_status st = tinyi_gguf_enter(ctx, out, out);
    (void)snprintf(number, sizeof number, "descriptor %d", fd);
    if (!name) name = number;
    if (!st) st = tllm_file_from_fd(ctx, fd, offset, n_bytes, name, &file);
    return st ? st : tinyi_gguf_build(ctx, name, 0, &file, out);
}
