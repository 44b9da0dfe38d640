/* src/gnn/graph/npy.c - .npy, .npz and features.coo
 * Papers   NEP 1 of NumPy (the .npy format, versions 1.0 to 3.0); PKWARE's APPNOTE 6.3 (zip).
 * Method   The header of a .npy file is a Python dict with three keys; nothing else is accepted. Members of a zip file
 *          come from its central directory. Their sizes are compared with the local header, and their checksums with
 *          the unpacked bytes.
 * Left out structured types, objects (they would need Python), complex numbers, encrypted members, and archives of
 * several disks. */
#include <stdio.h>
#include <string.h>
#include "gnn/graph/npy.h"
#include "gnn/graph/inflate_inside.h"
#include "gnn/graph/words_inside.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/half_inside.h"
#include "math/walk_inside.h"

/* ---- zip */

typedef struct tinyi_zip_entry {
    const unsigned char *name;
    size_t n_name;
    unsigned method;
    uint32_t crc;
    uint64_t packed, plain, at;
} tinyi_zip_entry;

/* The central directory: where, and how many entries. 0: there is none. */
static int tinyi_zip_directory(const unsigned char *bytes, size_t n_bytes, tinyi_cursor *c, uint64_t *count)
{
    size_t at, back;
    uint32_t u32, start;
    uint16_t n;
    for (back = 22; back <= n_bytes && back <= 22 + 65535; back++) {
        at = n_bytes - back;
        if (memcmp(bytes + at, "PK\5\6", 4)) continue;
        *c = tinyi_cursor_make(bytes + at + 10, n_bytes - at - 10);
        if (!tinyi_rd_u16(c, &n) || !tinyi_rd_u32(c, &u32) || !tinyi_rd_u32(c, &start)) return 0;
        *count = n;
        if (start == 0xffffffffu || n == 0xffff) {      /* Zip64: the locator stands 20 bytes before */
            uint64_t where, first;
            if (at < 20 || memcmp(bytes + at - 20, "PK\6\7", 4)) return 0;
            *c = tinyi_cursor_make(bytes + at - 12, 8);
            (void)tinyi_rd_u64(c, &where);
            if (where > n_bytes || n_bytes - where < 56 || memcmp(bytes + where, "PK\6\6", 4)) return 0;
            *c = tinyi_cursor_make(bytes + where + 32, 24);
            (void)tinyi_rd_u64(c, count);
            (void)tinyi_rd_u64(c, &first);
            (void)tinyi_rd_u64(c, &first);
            if (first > n_bytes) return 0;
            *c = tinyi_cursor_make(bytes + first, n_bytes - (size_t)first);
            return tinyi_count_fits(c, *count, 46);
        }
        if (start > n_bytes) return 0;
        *c = tinyi_cursor_make(bytes + start, n_bytes - start);
        return tinyi_count_fits(c, *count, 46);
    }
    return 0;
}

static int tinyi_zip_entry_next(tinyi_cursor *c, tinyi_zip_entry *e)
{
    const unsigned char *skip, *extra;
    uint16_t n_name, n_extra, n_comment, method;
    uint32_t magic, packed, plain, at;
    tinyi_cursor x;
    if (!tinyi_rd_u32(c, &magic) || magic != 0x02014b50u || !tinyi_rd_bytes(c, 6, &skip) || !tinyi_rd_u16(c, &method) ||
        !tinyi_rd_bytes(c, 4, &skip) || !tinyi_rd_u32(c, &e->crc) || !tinyi_rd_u32(c, &packed) ||
        !tinyi_rd_u32(c, &plain) || !tinyi_rd_u16(c, &n_name) || !tinyi_rd_u16(c, &n_extra) ||
        !tinyi_rd_u16(c, &n_comment) || !tinyi_rd_bytes(c, 8, &skip) || !tinyi_rd_u32(c, &at) ||
        !tinyi_rd_bytes(c, n_name, &e->name) || !tinyi_rd_bytes(c, n_extra, &extra) ||
        !tinyi_rd_bytes(c, n_comment, &skip))
        return 0;
    e->n_name = n_name;
    e->method = method;
    e->packed = packed;
    e->plain = plain;
    e->at = at;
    x = tinyi_cursor_make(extra, n_extra);
    while (x.left >= 4) {
        uint16_t tag, n;
        (void)tinyi_rd_u16(&x, &tag);
        (void)tinyi_rd_u16(&x, &n);
        if (n > x.left) return 0;
        if (tag == 1) {
            tinyi_cursor big = tinyi_cursor_make(x.at, n);
            if ((plain == 0xffffffffu && !tinyi_rd_u64(&big, &e->plain)) ||
                (packed == 0xffffffffu && !tinyi_rd_u64(&big, &e->packed)) ||
                (at == 0xffffffffu && !tinyi_rd_u64(&big, &e->at)))
                return 0;
        }
        (void)tinyi_rd_bytes(&x, n, &skip);
    }
    return 1;
}

static int tinyi_zip_find(const unsigned char *bytes, size_t n_bytes, const char *name, tinyi_zip_entry *e,
                          uint64_t *count)
{
    tinyi_cursor c;
    uint64_t i;
    size_t n = strlen(name);
    *count = 0;
    if (!tinyi_zip_directory(bytes, n_bytes, &c, count)) return -1;
    for (i = 0; i < *count; i++) {
        if (!tinyi_zip_entry_next(&c, e)) return -1;
        if (e->n_name == n && !memcmp(e->name, name, n)) return 1;
    }
    return 0;
}

TINYI_FN int tinyi_zip_has(const unsigned char *bytes, size_t n_bytes, const char *name)
{
    tinyi_zip_entry e;
    uint64_t count;
    return tinyi_zip_find(bytes, n_bytes, name, &e, &count) == 1;
}

TINYI_FN tiny_status tinyi_zip_member(tiny_ctx *ctx, const char *path, const unsigned char *bytes, size_t n_bytes,
                                      const char *name, unsigned char **out, size_t *n_out)
{
    tinyi_zip_entry e;
    tinyi_cursor c;
    const unsigned char *skip;
    uint64_t count;
    uint32_t magic;
    uint16_t n_name, n_extra;
    size_t most;
    int found = tinyi_zip_find(bytes, n_bytes, name, &e, &count);
    tiny_status st;
    *out = NULL;
    *n_out = 0;
    if (found < 0)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the directory of the zip file is damaged or missing", path);
    if (!found)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: there is no %s among its %llu members", path, name,
                          (unsigned long long)count);
    if (e.at > n_bytes)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s begins at byte %llu, the file ends at %zu", path, name,
                          (unsigned long long)e.at, n_bytes);
    c = tinyi_cursor_make(bytes + e.at, n_bytes - (size_t)e.at);
    if (!tinyi_rd_u32(&c, &magic) || magic != 0x04034b50u || !tinyi_rd_bytes(&c, 22, &skip) ||
        !tinyi_rd_u16(&c, &n_name) || !tinyi_rd_u16(&c, &n_extra) || !tinyi_rd_bytes(&c, n_name, &skip) ||
        !tinyi_rd_bytes(&c, n_extra, &skip))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s: its local header is damaged", path, name);
    if (e.packed > c.left)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s has %llu bytes, the file holds %zu more", path, name,
                          (unsigned long long)e.packed, c.left);
    if (e.method == 0) {
        if (e.packed != e.plain)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s is stored, but its two sizes are %llu and %llu", path, name,
                              (unsigned long long)e.packed, (unsigned long long)e.plain);
        *out = (unsigned char *)tinyi_alloc(ctx, (size_t)e.plain, 1);
        if (!*out) return tiny_ctx_status(ctx);
        if (e.plain) memcpy(*out, c.at, (size_t)e.plain);
        *n_out = (size_t)e.plain;
    } else if (e.method == 8) {
        most = n_bytes < (SIZE_MAX - TGNN_UNPACK_EXTRA) / TGNN_UNPACK_TIMES
                   ? n_bytes * TGNN_UNPACK_TIMES + TGNN_UNPACK_EXTRA
                   : SIZE_MAX;
        if (e.plain > most)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %s unpacks to %llu bytes, %zu are allowed", path, name,
                              (unsigned long long)e.plain, most);
        st = tinyi_inflate(ctx, path, c.at, (size_t)e.packed, (size_t)e.plain, out, n_out);
        if (st) return st;
    } else
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: %s is compressed by method %u; only 0 (stored) and 8 (deflate) are supported",
                          path, name,
                          e.method);
    if (*n_out != e.plain || tinyi_crc32(0, *out, *n_out) != e.crc) {
        tiny_free(ctx, *out);
        *out = NULL;
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the size or the checksum of %s does not match", path, name);
    }
    return TINY_OK;
}

/* ---- npy */

static void tinyi_npy_space(tinyi_cursor *c)
{
    while (c->left && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) {
        c->at++;
        c->left--;
    }
}

static int tinyi_npy_is(tinyi_cursor *c, const char *text)
{
    size_t n = strlen(text);
    tinyi_npy_space(c);
    if (c->left < n || memcmp(c->at, text, n)) return 0;
    c->at += n;
    c->left -= n;
    return 1;
}

/* the dict; NULL when it is right, else what is wrong */
static const char *tinyi_npy_dict(tinyi_cursor *c, tinyi_npy_head *h)
{
    int seen = 0;
    memset(h, 0, sizeof *h);
    if (!tinyi_npy_is(c, "{")) return "no dict";
    while (!tinyi_npy_is(c, "}")) {
        if (tinyi_npy_is(c, "'descr':")) {
            if (!tinyi_npy_is(c, "'")) return "a type that is not one plain number";
            if (c->left < 4) return "a dict that is cut off";
            h->big = *c->at == '>';
            if (!memchr("<>|=", *c->at, 4)) return "a type without its byte order";
            h->type = (char)c->at[1];
            h->size = c->at[2] - '0';
            c->at += 3;
            c->left -= 3;
            if (!tinyi_npy_is(c, "'")) return "a type that is not one plain number";
            seen |= 1;
        } else if (tinyi_npy_is(c, "'fortran_order':")) {
            h->fortran = tinyi_npy_is(c, "True");
            if (!h->fortran && !tinyi_npy_is(c, "False")) return "a fortran_order that is neither True nor False";
            seen |= 2;
        } else if (tinyi_npy_is(c, "'shape':")) {
            if (!tinyi_npy_is(c, "(")) return "a shape that is no tuple";
            while (!tinyi_npy_is(c, ")")) {
                uint64_t v = 0;
                int digits = 0;
                tinyi_npy_space(c);
                for (; c->left && *c->at >= '0' && *c->at <= '9'; c->at++, c->left--, digits++) {
                    if (v > ((uint64_t)TINY_IDX_MAX - 9) / 10) return "a shape too large for this machine";
                    v = v * 10 + (uint64_t)(*c->at - '0');
                }
                if (!digits) return "a shape that is no tuple of numbers";
                if (h->t.rank == TINY_MAX_RANK) return "more than 4 dimensions";
                h->t.dim[h->t.rank++] = (tiny_idx)v;
                if (!tinyi_npy_is(c, ",")) {
                    if (!tinyi_npy_is(c, ")")) return "a shape that is no tuple of numbers";
                    break;
                }
            }
            seen |= 4;
        } else return "a key that is not descr, fortran_order or shape";
        if (!tinyi_npy_is(c, ",")) {
            if (!tinyi_npy_is(c, "}")) return "no end of the dict";
            break;
        }
    }
    return seen == 7 ? NULL : "one of descr, fortran_order and shape missing";
}

static int tinyi_npy_dtype(const tinyi_npy_head *h, tiny_dtype *as)
{
    switch (h->type) {
    case 'f':
        *as = h->size == 8 ? TINY_F64 : h->size == 2 ? TINY_F16 : TINY_F32;
        return h->size == 2 || h->size == 4 || h->size == 8;
    case 'i':
        *as = h->size == 8 ? TINY_I64 : h->size == 4 ? TINY_I32 : h->size == 2 ? TINY_I16 : TINY_I8;
        return h->size == 1 || h->size == 2 || h->size == 4 || h->size == 8;
    case 'u':
        *as = h->size == 1 ? TINY_U8 : h->size == 2 ? TINY_I32 : TINY_I64;
        return h->size == 1 || h->size == 2 || h->size == 4 || h->size == 8;
    case 'b': *as = TINY_U8; return h->size == 1;
    default: return 0;
    }
}

/* one number as it lies in the file, as one of ours; 0: it does not fit */
static int tinyi_npy_number(const tinyi_npy_head *h, const unsigned char *from, unsigned char *to, tiny_dtype as)
{
    uint64_t u = 0;
    int i;
    for (i = 0; i < h->size; i++) u |= (uint64_t)from[h->big ? h->size - 1 - i : i] << 8 * i;
    switch (tiny_dtype_bytes(as)) {
    case 1: *to = (unsigned char)u; return 1;
    case 2: { uint16_t v = (uint16_t)u; memcpy(to, &v, 2); return 1; }
    case 4: { uint32_t v = (uint32_t)u; memcpy(to, &v, 4); return 1; }
    default: memcpy(to, &u, 8); return h->type != 'u' || u <= UINT64_C(0x7fffffffffffffff);
    }
}

tiny_status tinyi_npy_open(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes, uint64_t n_file,
                           tinyi_npy_head *h)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes), head;
    const unsigned char *p;
    const char *wrong;
    tiny_dtype as = TINY_F32;
    uint64_t left;
    size_t n_head;
    uint32_t n32;
    uint16_t n16;
    int a;
    if (!tinyi_rd_bytes(&c, 8, &p) || memcmp(p, "\x93NUMPY", 6))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: it does not begin like a .npy file", name);
    if (p[6] < 1 || p[6] > 3)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: version %u of the .npy format; 1 to 3 are supported", name, p[6]);
    if (p[6] == 1 ? !tinyi_rd_u16(&c, &n16) : !tinyi_rd_u32(&c, &n32))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: it ends inside its header", name);
    n_head = p[6] == 1 ? n16 : n32;
    if (!tinyi_rd_bytes(&c, n_head, &p))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: a header of %zu bytes, but the file has only %zu more", name, n_head, c.left);
    head = tinyi_cursor_make(p, n_head);
    wrong = tinyi_npy_dict(&head, h);
    if (wrong) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the header has %s", name, wrong);
    if (!tinyi_npy_dtype(h, &as))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: numbers of type %c%d are not supported", name,
                          h->type > 0x20 && h->type < 0x7f ? h->type : '?', h->size);
    for (h->count = 1, a = 0; a < h->t.rank; a++) {
        if (h->t.dim[a] && h->count > (uint64_t)TINY_IDX_MAX / 16 / (uint64_t)h->t.dim[a])
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: its shape is larger than this machine can address", name);
        h->count *= (uint64_t)h->t.dim[a];
    }
    h->at = n_bytes - c.left;
    left = n_file - h->at;
    if (h->count > left / (uint64_t)h->size || left != h->count * (uint64_t)h->size)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: %llu numbers of %d bytes, but the file has %llu bytes for them", name,
                          (unsigned long long)h->count, h->size, (unsigned long long)left);
    h->t = tiny_tensor_nd(NULL, as, h->t.rank, h->t.dim);
    return TINY_OK;
}

tiny_status tinyi_npy_take(tiny_ctx *ctx, const char *name, const tinyi_npy_head *h, uint64_t i,
                           const unsigned char *from, void *to)
{
    if (tinyi_npy_number(h, from, (unsigned char *)to, h->t.dtype)) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_FORMAT, "%s: number %llu is 2^63 or above", name, (unsigned long long)i);
}

static tiny_status tinyi_npy_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                  tgnn_array *out)
{
    tinyi_npy_head h;
    tiny_tensor t;
    uint64_t i;
    size_t es;
    int a;
    tiny_status st = tinyi_npy_open(ctx, name, bytes, n_bytes, n_bytes, &h);
    if (st) return st;
    t = h.t;
    es = tiny_dtype_bytes(t.dtype);
    t.data = tinyi_alloc(ctx, (size_t)h.count, es);
    if (!t.data) return tiny_ctx_status(ctx);
    for (i = 0; i < h.count; i++) {
        tiny_idx at = (tiny_idx)i;
        if (h.fortran && t.rank > 1) {      /* the first axis runs fastest in the file */
            uint64_t rest = i;
            for (at = 0, a = 0; a < t.rank; a++) {
                at += (tiny_idx)(rest % (uint64_t)t.dim[a]) * t.stride[a];
                rest /= (uint64_t)t.dim[a];
            }
        }
        st = tinyi_npy_take(ctx, name, &h, i, bytes + h.at + (size_t)i * (size_t)h.size,
                            (unsigned char *)t.data + (size_t)at * es);
        if (st) {
            tiny_free(ctx, t.data);
            return st;
        }
    }
    out->t = t;
    return TINY_OK;
}

/* ---- features.coo */

static tiny_status tinyi_coo_read(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                  tgnn_array *out)
{
    tinyi_text_file f = tinyi_text_make(ctx, name, bytes, n_bytes);
    tinyi_word line, word;
    int64_t size[3], at[2], n = 0;
    float *x, v;
    int k;
    size_t count;
    memset(&word, 0, sizeof word);
    if (!tinyi_text_line(&f, "", &line)) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the file is empty", name);
    for (k = 0; k < 3; k++)
        if (!tinyi_word_next(&line, &word) || !tinyi_word_int(word, &size[k]) || size[k] < 0 || size[k] > 0x7fffffff)
            return tinyi_text_fail(&f, word, "the number of rows, columns or values");
    if (tinyi_word_next(&line, &word)) return tinyi_text_fail(&f, word, "the end of the line");
    /* a value takes at least 6 bytes; what is not stored is 0, up to 4096 times the file and 16 MB */
    if ((uint64_t)size[2] > n_bytes / 5)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %lld values are too many for a file of %zu bytes", name,
                          (long long)size[2], n_bytes);
    if (size[0] && size[1] && (uint64_t)size[0] * (uint64_t)size[1] > ((uint64_t)n_bytes + 4096) * 1024)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "%s: %lld x %lld zeros out of %zu bytes are too many", name, (long long)size[0],
                          (long long)size[1], n_bytes);
    count = (size_t)size[0] * (size_t)size[1];
    x = (float *)tinyi_alloc(ctx, count, sizeof *x);
    if (!x) return tiny_ctx_status(ctx);
    memset(x, 0, count * sizeof *x);
    while (tinyi_text_line(&f, "", &line)) {
        tiny_status st = TINY_OK;
        for (k = 0; k < 2 && !st; k++)
            if (!tinyi_word_next(&line, &word) || !tinyi_word_int(word, &at[k]) || at[k] < 0 || at[k] >= size[k])
                st = tinyi_text_fail(&f, word, k ? "a column of the array" : "a row of the array");
        if (!st && (!tinyi_word_next(&line, &word) || !tinyi_word_float(word, &v)))
            st = tinyi_text_fail(&f, word, "a number");
        if (!st && tinyi_word_next(&line, &word)) st = tinyi_text_fail(&f, word, "the end of the line");
        if (!st && ++n > size[2])
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "%s: line %lld has a value more than the %lld in the first line", name,
                            (long long)f.line, (long long)size[2]);
        if (st) {
            tiny_free(ctx, x);
            return st;
        }
        x[at[0] * size[1] + at[1]] = v;
    }
    if (n != size[2]) {
        tiny_free(ctx, x);
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %lld values, but the first line says %lld", name, (long long)n,
                          (long long)size[2]);
    }
    out->t = tiny_tensor_2d(x, TINY_F32, (tiny_idx)size[0], (tiny_idx)size[1]);
    return TINY_OK;
}

/* ---- the calls */

/* the only member of an archive, or name with .npy behind it */
static tiny_status tinyi_npz_name(tiny_ctx *ctx, const char *name, const unsigned char *bytes, size_t n_bytes,
                                  const char *member, char text[300])
{
    tinyi_zip_entry e;
    tinyi_cursor c;
    uint64_t count;
    if (member) {
        if (strlen(member) > 290)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the name of its member is too long", name);
        (void)snprintf(text, 300, "%s.npy", member);
        return TINY_OK;
    }
    if (!tinyi_zip_directory(bytes, n_bytes, &c, &count) || (count && !tinyi_zip_entry_next(&c, &e)))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the directory of the zip file is damaged or missing", name);
    if (count != 1 || e.n_name > 290)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: it has %llu members: name one of them", name,
                          (unsigned long long)count);
    memcpy(text, e.name, e.n_name);
    text[e.n_name] = 0;
    return TINY_OK;
}

TINY_API tiny_status tgnn_array_read_memory(tiny_ctx *ctx, const char *name, const void *bytes, size_t n_bytes,
                                            const char *member, tgnn_array *out)
{
    const unsigned char *p = (const unsigned char *)bytes;
    unsigned char *plain = NULL;
    char text[300];
    size_t n = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || (!bytes && n_bytes))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "array: the bytes or the output pointer is missing");
    memset(out, 0, sizeof *out);
    if (!name) name = "array";
    if (n_bytes >= 4 && !memcmp(p, "PK\3\4", 4)) {
        st = tinyi_npz_name(ctx, name, p, n_bytes, member, text);
        if (!st) st = tinyi_zip_member(ctx, name, p, n_bytes, text, &plain, &n);
        if (!st) st = tinyi_npy_read(ctx, name, plain, n, out);
        tiny_free(ctx, plain);
        return st;
    }
    if (n_bytes >= 6 && !memcmp(p, "\x93NUMPY", 6)) return tinyi_npy_read(ctx, name, p, n_bytes, out);
    return tinyi_coo_read(ctx, name, p, n_bytes, out);
}

TINY_API tiny_status tgnn_array_read(tiny_ctx *ctx, const char *path, const char *member, tgnn_array *out)
{
    tiny_file f;
    tiny_status st;
    if (out) memset(out, 0, sizeof *out);
    st = tiny_file_open(ctx, path, &f);
    if (st) return st;
    st = tgnn_array_read_memory(ctx, path, f.bytes, f.n_bytes, member, out);
    tiny_file_close(ctx, &f);
    return st;
}

TINY_API void tgnn_array_free(tiny_ctx *ctx, tgnn_array *a)
{
    if (!a) return;
    tiny_free(ctx, a->t.data);
    memset(a, 0, sizeof *a);
}

TINY_API tiny_status tgnn_array_write(tiny_ctx *ctx, const char *path, const tiny_tensor *t)
{
    static const char *const types[TINY_DTYPE_COUNT] = { "<f4", "<f2", NULL, "<f8", "|i1", "|u1", "<i2", "<i4", "<i8" };
    char head[192];
    unsigned char bytes[4096];              /* the head, which takes 256 of it at most, then a piece after the other */
    size_t es, n_head, total;
    tiny_idx i, count, piece, k;
    tinyi_out out;
    int a, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = t ? tiny_tensor_check(t) : TINY_E_ARGUMENT;
    if (st) return tinyi_fail(ctx, st, "npy: the tensor is invalid (%s)", tiny_status_text(st));
    if (!types[t->dtype])
        return tinyi_fail(ctx, TINY_E_DTYPE, "npy: the format has no type %s", tiny_dtype_name(t->dtype));
    n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[t->dtype]);
    for (a = 0; a < t->rank; a++)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      t->rank == 1      ? "%td,"
                      : a + 1 < t->rank ? "%td, "
                                        : "%td",
                      t->dim[a]);
    n += snprintf(head + n, sizeof head - (size_t)n, "), }");
    n_head = ((size_t)n + 11 + 63) / 64 * 64;       /* the numbers begin at a multiple of 64 */
    es = tiny_dtype_bytes(t->dtype);
    count = tiny_tensor_count(t);
    if (!tinyi_size_mul((size_t)count, es, &total) || !tinyi_size_add(total, n_head, &total))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "npy: the array is larger than this machine can address");
    if (!path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "npy: a file to write needs a path");
    memset(bytes, ' ', n_head);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    tinyi_put_le16(bytes + 8, (unsigned)(n_head - 10));
    memcpy(bytes + 10, head, (size_t)n);
    bytes[n_head - 1] = '\n';
    st = tinyi_out_open(ctx, path, &out);
    if (st) return st;
    st = tinyi_out_add(ctx, &out, bytes, n_head);
    if (!st && tinyi_little_endian() && tiny_tensor_is_dense(t)) st = tinyi_out_add(ctx, &out, t->data, total - n_head);
    else for (i = 0; !st && i < count; i += piece) {
        piece = TINYI_MIN(count - i, (tiny_idx)(sizeof bytes / es));
        for (k = 0; k < piece; k++) {
            const unsigned char *from = (const unsigned char *)t->data + tinyi_walk_offset(t, i + k);
            unsigned char *to = bytes + (size_t)k * es;
            uint64_t u = 0;
            switch (es) {
            case 1: u = *from; break;
            case 2: { uint16_t v; memcpy(&v, from, 2); u = v; break; }
            case 4: { uint32_t v; memcpy(&v, from, 4); u = v; break; }
            default: memcpy(&u, from, 8);
            }
            tinyi_put_le(to, u, es);
        }
        st = tinyi_out_add(ctx, &out, bytes, (size_t)piece * es);
    }
    if (!st) return tinyi_out_finish(ctx, &out);
    tinyi_out_abandon(ctx, &out);
    return st;
}

TINY_API tiny_status tgnn_integers_read(tiny_ctx *ctx, const char *path, int32_t **out, tiny_idx *n)
{
    tiny_file f;
    tinyi_text_file t;
    tinyi_word line, word;
    int32_t *x;
    tiny_idx at = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "integers: an output pointer is missing");
    *out = NULL;
    *n = 0;
    st = tiny_file_open(ctx, path, &f);
    if (st) return st;
    t = tinyi_text_make(ctx, path, f.bytes, f.n_bytes);
    x = (int32_t *)tinyi_alloc(ctx, tinyi_text_lines(&t), sizeof *x);
    if (!x) st = tiny_ctx_status(ctx);
    while (!st && tinyi_text_line(&t, "#", &line)) {
        int64_t v = -1;
        (void)tinyi_word_next(&line, &word);
        if (!tinyi_word_is(word, "-") && (!tinyi_word_int(word, &v) || v < -0x7fffffff || v > 0x7fffffff))
            st = tinyi_text_fail(&t, word, "a whole number of 32 bits");
        else x[at++] = (int32_t)v;
        if (!st && tinyi_word_next(&line, &word)) st = tinyi_text_fail(&t, word, "the end of the line");
    }
    tiny_file_close(ctx, &f);
    if (st) {
        tiny_free(ctx, x);
        return st;
    }
    *out = x;
    *n = at;
    return TINY_OK;
}
