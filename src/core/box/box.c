/* src/core/box/box.c */
#include "core/box/box_inside.h"
#include "core/box/checkpoint.h"
#include "core/state_inside.h"
#include <stdio.h>
#include <string.h>

static const unsigned char tinyi_box_magic[8] = { 0x89, 't', 'i', 'n', 'y', 'c', 'k', '\n' };
static const unsigned char tinyi_box_end_magic[8] = { 't', 'i', 'n', 'y', 'e', 'n', 'd', '\n' };

int tinyi_box_is(const void *bytes, size_t n) { return n >= 8 && !memcmp(bytes, tinyi_box_magic, 8); }

/* ---- writing */

static void tinyi_box_head(unsigned char head[TINYI_BOX_HEAD])
{
    memcpy(head, tinyi_box_magic, 8);
    tinyi_put_le32(head + 8, TINYI_BOX_VERSION);
    tinyi_put_le32(head + 12, TINYI_BOX_ALIGN);
}

void tinyi_box_section(unsigned char head[TINYI_BOX_SECTION], unsigned kind, unsigned dtype, int rank, size_t n_name,
                       const tiny_idx *dim, uint64_t n_bytes)
{
    int a;
    memset(head, 0, TINYI_BOX_SECTION);
    tinyi_put_le32(head, kind);
    tinyi_put_le32(head + 4, dtype);
    tinyi_put_le32(head + 8, (uint32_t)rank);
    tinyi_put_le32(head + 12, (uint32_t)n_name);
    for (a = 0; a < rank; a++) tinyi_put_le(head + 16 + 8 * a, (uint64_t)dim[a], 8);
    tinyi_put_le(head + 48, n_bytes, 8);
}

tiny_status tinyi_box_begin(tiny_ctx *ctx, tinyi_box *b, const char *path, int (*write)(void *, const void *, size_t),
                            void *user)
{
    unsigned char head[TINYI_BOX_HEAD];
    tiny_status st = TINY_OK;
    memset(b, 0, sizeof *b);
    b->path = path;
    b->write = write;
    b->user = user;
    tinyi_hash_start(&b->hash);
    tinyi_box_head(head);
    if (!write) st = tinyi_out_open(ctx, path, &b->out);
    return st ? st : tinyi_box_add(ctx, b, head, sizeof head);
}

tiny_status tinyi_box_add(tiny_ctx *ctx, tinyi_box *b, const void *bytes, size_t n)
{
    if (!n) return TINY_OK;
    tinyi_hash_add(&b->hash, bytes, n);
    if (!b->write) return tinyi_out_add(ctx, &b->out, bytes, n);
    if (b->write(b->user, bytes, n))
        return tinyi_fail(ctx, TINY_E_IO, "%s: the callback could not write %zu bytes, up to byte %llu", b->path, n,
                          (unsigned long long)b->hash.n_bytes);
    return TINY_OK;
}

tiny_status tinyi_box_zeros(tiny_ctx *ctx, tinyi_box *b, size_t least, size_t align)
{
    static const unsigned char zeros[2 * TINYI_BOX_ALIGN] = { 0 };
    const size_t over = (size_t)((b->hash.n_bytes + least) % align);
    return tinyi_box_add(ctx, b, zeros, least + (over ? align - over : 0));
}

void tinyi_box_end(uint64_t n_sections, uint64_t n_bytes, const tinyi_hash *hash, unsigned char end[TINYI_BOX_END])
{
    tinyi_hash all = *hash;
    memcpy(end, tinyi_box_end_magic, 8);
    tinyi_put_le(end + 8, n_sections, 8);
    tinyi_put_le(end + 16, n_bytes, 8);
    tinyi_hash_add(&all, end, 24);
    tinyi_put_le(end + 24, tinyi_hash_value(&all), 8);
}

tiny_status tinyi_box_finish(tiny_ctx *ctx, tinyi_box *b, uint64_t n_sections)
{
    unsigned char end[TINYI_BOX_END];
    tiny_status st;
    tinyi_box_end(n_sections, b->hash.n_bytes + TINYI_BOX_END, &b->hash, end);
    st = tinyi_box_add(ctx, b, end, sizeof end);
    return st || b->write ? st : tinyi_out_finish(ctx, &b->out);
}

void tinyi_box_abandon(tiny_ctx *ctx, tinyi_box *b) { if (!b->write) tinyi_out_abandon(ctx, &b->out); }

/* ---- reading */

tiny_status tinyi_box_frame(tiny_ctx *ctx, const char *path, const char *called, const void *bytes, size_t n,
                            int no_checksum, tinyi_cursor *inside, uint64_t *n_sections)
{
    const unsigned char *p = NULL;
    tinyi_cursor at = tinyi_cursor_make(bytes, n), end;
    uint32_t version = 0, align = 0;
    uint64_t n_bytes = 0, hash = 0, is;
    if (!tinyi_box_is(bytes, n)) return tinyi_fail(ctx, TINY_E_FORMAT,
                                                   "%s: not a %s: its %zu bytes do not begin like one",
                                                   path, called, n);
    (void)tinyi_rd_bytes(&at, 8, &p);
    if (tinyi_rd_u32(&at, &version) && version != TINYI_BOX_VERSION)
        return tinyi_fail(ctx, TINY_E_VERSION, "%s: version %lu of the format; this library reads version %d", path,
                          (unsigned long)version, TINYI_BOX_VERSION);
    if (tinyi_rd_u32(&at, &align) && align != TINYI_BOX_ALIGN)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: alignment %lu; version %d has %d", path, (unsigned long)align,
                          TINYI_BOX_VERSION, TINYI_BOX_ALIGN);
    if (at.left < TINYI_BOX_END)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated: it has %zu bytes, an empty one has %d", path, n,
                          TINYI_BOX_HEAD + TINYI_BOX_END);
    at.left -= TINYI_BOX_END;
    end = tinyi_cursor_make(at.at + at.left, TINYI_BOX_END);
    (void)tinyi_rd_bytes(&end, 8, &p);
    (void)tinyi_rd_u64(&end, n_sections);
    (void)tinyi_rd_u64(&end, &n_bytes);
    (void)tinyi_rd_u64(&end, &hash);
    if (memcmp(p, tinyi_box_end_magic, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: damaged or truncated: its %zu bytes do not end like a box", path,
                          n);
    if (n_bytes != (uint64_t)n) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: says it has %llu bytes, but it has %zu",
                                                  path, (unsigned long long)n_bytes, n);
    is = no_checksum ? hash : tinyi_hash_of(bytes, n - 8);
    if (is != hash)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: damaged or truncated: the checksum of its %zu bytes is %016llx, but the file says "
                          "%016llx", path, n,
                          (unsigned long long)is, (unsigned long long)hash);
    *inside = at;
    return TINY_OK;
}

/* ---- boxes of one body */

#define TINYI_BOX_WHAT 80                   /* where the text "what" begins */

void tinyi_box_front(const tinyi_box_kind *kind, uint64_t n_body, unsigned char front[TINYI_BOX_FRONT])
{
    char text[24];
    const tiny_idx n = (tiny_idx)n_body;
    const size_t n_text = (size_t)snprintf(text, sizeof text, "%s %d", kind->what,
                                           kind->version), at = TINYI_BOX_UP(TINYI_BOX_WHAT + n_text + 1, 8);
    memset(front, 0, TINYI_BOX_FRONT);
    tinyi_box_head(front);
    tinyi_box_section(front + TINYI_BOX_HEAD, TINY_CHECKPOINT_TEXT, 0, 0, 4, NULL, n_text);
    memcpy(front + TINYI_BOX_HEAD + TINYI_BOX_SECTION, "what", 4);
    memcpy(front + TINYI_BOX_WHAT, text, n_text);
    tinyi_box_section(front + at, TINY_CHECKPOINT_TENSOR, TINY_U8, 1, 4, &n, n_body);
    memcpy(front + at + TINYI_BOX_SECTION, "body", 4);
}

void tinyi_box_seal(const tinyi_box_kind *kind, unsigned char *box, size_t n_body)
{
    const size_t n = TINYI_BOX_BYTES(n_body) - TINYI_BOX_END;
    tinyi_hash hash;
    tinyi_box_front(kind, n_body, box);
    memset(box + TINYI_BOX_FRONT + n_body, 0, n - TINYI_BOX_FRONT - n_body);
    tinyi_hash_start(&hash);
    tinyi_hash_add(&hash, box, n);
    tinyi_box_end(2, TINYI_BOX_BYTES(n_body), &hash, box + n);
}

tiny_status tinyi_box_open(tiny_ctx *ctx, tinyi_box *b, const char *path, const tinyi_box_kind *kind, uint64_t n_body)
{
    unsigned char front[TINYI_BOX_FRONT];
    const tiny_status st = tinyi_box_begin(ctx, b, path, NULL, NULL);
    tinyi_box_front(kind, n_body, front);
    return st ? st : tinyi_box_add(ctx, b, front + TINYI_BOX_HEAD, sizeof front - TINYI_BOX_HEAD);
}

tiny_status tinyi_box_done(tiny_ctx *ctx, tinyi_box *b, tiny_status st)
{
    if (!st) st = tinyi_box_zeros(ctx, b, 0, 8);
    if (!st) return tinyi_box_finish(ctx, b, 2);
    tinyi_box_abandon(ctx, b);
    return st;
}

/* The form before boxes: a magic, a version, the body, a checksum. */
static tiny_status tinyi_box_older(tiny_ctx *ctx, const char *where, const tinyi_box_kind *kind,
                                   const unsigned char *bytes, size_t n, int no_checksum, tinyi_cursor *body)
{
    const size_t n_sum = (size_t)kind->old_sum;
    uint64_t is;
    if (n < 12 + n_sum) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: its %zu bytes are not a %s", where, n, kind->called);
    if (kind->old_version && tinyi_le32(bytes + 8) != (uint32_t)kind->old_version)
        return tinyi_fail(ctx, TINY_E_VERSION,
                          "%s: version %lu of the older form; this library reads version %d", where,
                          (unsigned long)tinyi_le32(bytes + 8), kind->old_version);
    is = no_checksum || !n_sum ? 0 : n_sum == 4 ? tinyi_crc32(0, bytes, n - 4) : tinyi_hash_of(bytes, n - 8);
    if (n_sum && !no_checksum && is != tinyi_le(bytes + n - n_sum, n_sum))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: damaged or truncated: the checksum of its %zu bytes does not match",
                          where, n);
    *body = tinyi_cursor_make(bytes + kind->old_skip, n - n_sum - (size_t)kind->old_skip);
    return TINY_OK;
}

int tinyi_box_says(const tinyi_box_kind *kind, const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const size_t n_what = strlen(kind->what);
    if (n >= 8 && !memcmp(p, kind->magic, 8)) return 1;
    return tinyi_box_is(p, n) && n > TINYI_BOX_FRONT && !memcmp(p + 72, "what", 5) && !memcmp(p + TINYI_BOX_WHAT,
            kind->what, n_what) && p[TINYI_BOX_WHAT + n_what] == ' ';
}

/* The front has one form for a body of n bytes; where it has another, the sentence says what it is. */
static tiny_status tinyi_box_other(tiny_ctx *ctx, const char *where, const tinyi_box_kind *kind,
                                   const unsigned char *bytes)
{
    char shown[TINYI_SHOW];
    const unsigned char *text = bytes + TINYI_BOX_WHAT;
    size_t n_text = 0;
    while (n_text < 23 && text[n_text]) n_text++;
    if (tinyi_le(bytes + 16, 4) != TINY_CHECKPOINT_TEXT || memcmp(bytes + 72, "what", 5))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: a box without a kind, not a %s", where,
                          kind->called);
    (void)tinyi_show_bytes(text, n_text, shown);
    if (tinyi_box_says(kind, bytes, TINYI_BOX_FRONT + 1))
        return tinyi_fail(ctx, TINY_E_VERSION, "%s: this is \"%s\"; this library reads version %d", where, shown,
                          kind->version);
    return tinyi_fail(ctx, TINY_E_FORMAT, "%s: this is \"%s\", not a %s", where, shown, kind->called);
}

tiny_status tinyi_box_body(tiny_ctx *ctx, const char *where, const tinyi_box_kind *kind, const void *bytes, size_t n,
                           int no_checksum, tinyi_cursor *body, int *old)
{
    const unsigned char *p = (const unsigned char *)bytes;
    unsigned char front[TINYI_BOX_FRONT];
    uint64_t n_sections = 0;
    size_t n_body = 0, i;
    tiny_status st;
    *old = bytes && n >= 8 && !memcmp(bytes, kind->magic, 8);
    if (*old) st = tinyi_box_older(ctx, where, kind, p, n, no_checksum, body);
    else if (!bytes || !tinyi_box_is(bytes, n)) st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: its %zu bytes are not a %s",
                                                                where, bytes ? n : 0, kind->called);
    else st = tinyi_box_frame(ctx, where, kind->called, bytes, n, no_checksum, body, &n_sections);
    if (st) return st;
    if (!*old) {
        if (n < TINYI_BOX_BYTES(1) || n % 8) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: its %zu bytes are not a %s",
                                                               where, n, kind->called);
        n_body = n - TINYI_BOX_FRONT - TINYI_BOX_END;           /* with the zeros after it */
        for (i = 0; i < 8; i++) {
            tinyi_box_front(kind, n_body - i, front);
            if (!memcmp(front, bytes, sizeof front)) break;
        }
        if (i == 8) return tinyi_box_other(ctx, where, kind, p);
        n_body -= i;
        for (; i; i--) if (p[TINYI_BOX_FRONT + n_body + i - 1]) return tinyi_fail(ctx, TINY_E_FORMAT,
                "%s: the bytes after the body are not 0", where);
        if (n_sections != 2) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: it says %llu sections; there are 2", where,
                                               (unsigned long long)n_sections);
        *body = tinyi_cursor_make(p + TINYI_BOX_FRONT, n_body);
    }
    if (body->left < kind->least)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated: a body of %zu bytes; the shortest has %zu", where,
                          body->left, kind->least);
    return TINY_OK;
}
