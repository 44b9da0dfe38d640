/* src/core/bytes.h - reads and writes bytes of files and messages
 *
 * A cursor knows how many bytes are left and never reads past them. Each reader returns 1, or it returns 0 and does not
 * move the cursor. Little endian on every machine. */
#ifndef TINYI_BYTES_H
#define TINYI_BYTES_H
#include "core/status.h"
TINYI_C_BEGIN

/* ---- inside: what the bodies share ---- */

typedef struct tinyi_cursor {
    const unsigned char *at;
    size_t left;
} tinyi_cursor;

TINYI_INLINE tinyi_cursor tinyi_cursor_make(const void *bytes, size_t n)
{
    tinyi_cursor c;
    c.at = (const unsigned char *)bytes;
    c.left = n;
    return c;
}

/* Numbers at p; the caller has checked that their bytes exist. Fixed widths are written out, so that compilers make one
 * load or store of each. */
TINYI_INLINE uint16_t tinyi_le16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
TINYI_INLINE uint32_t tinyi_le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
TINYI_INLINE uint64_t tinyi_le64(const unsigned char *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}
TINYI_INLINE uint64_t tinyi_le(const unsigned char *p, size_t n)                    /* n <= 8 bytes */
{
    uint64_t v = 0;
    while (n--) v = v << 8 | p[n];
    return v;
}
TINYI_INLINE void tinyi_put_le16(unsigned char *p, unsigned v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}
TINYI_INLINE void tinyi_put_le32(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    p[2] = (unsigned char)(v >> 16);
    p[3] = (unsigned char)(v >> 24);
}
TINYI_INLINE void tinyi_put_le(unsigned char *p, uint64_t v, size_t n)              /* the lower n <= 8 bytes of v */
{
    size_t i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}

TINYI_FN int tinyi_rd_u8(tinyi_cursor *c, uint8_t *v);
TINYI_FN int tinyi_rd_u16(tinyi_cursor *c, uint16_t *v);
TINYI_FN int tinyi_rd_u32(tinyi_cursor *c, uint32_t *v);
TINYI_FN int tinyi_rd_u64(tinyi_cursor *c, uint64_t *v);
TINYI_FN int tinyi_rd_f32(tinyi_cursor *c, float *v);
TINYI_FN int tinyi_rd_f64(tinyi_cursor *c, double *v);
TINYI_FN int tinyi_rd_bytes(tinyi_cursor *c, size_t n, const unsigned char **p);    /* a view, no copy */

/* THE rule: a count read from outside is never larger than the bytes left divided by the least size of an
 * element. 64-bit on purpose: a count is checked before it becomes a size_t. */
TINYI_FN int tinyi_rd_count(tinyi_cursor *c, uint64_t least_bytes_each, size_t *count);     /* reads a u64 */
TINYI_FN int tinyi_count_fits(const tinyi_cursor *c, uint64_t count, uint64_t least_bytes_each);

/* A writer: with at NULL it only counts; then it writes that many bytes. */
typedef struct tinyi_writer { unsigned char *at; size_t n; } tinyi_writer;
TINYI_FN void tinyi_wr(tinyi_writer *w, uint64_t v, int bytes);                     /* tinyi_put_le */
TINYI_FN void tinyi_wr_bytes(tinyi_writer *w, const void *bytes, size_t n);

/* bytes of the UTF-8 character at p, 0 when there is none: no long forms, no surrogates, nothing above U+10FFFF; n >=
 * 1 */
TINYI_FN size_t tinyi_utf8_char(const unsigned char *p, size_t n);

#define TINYI_REPLACEMENT 0xfffdu
/* bytes of the character at p, and its number; n >= 1. An impossible byte is one U+FFFD of one byte. */
TINYI_FN size_t tinyi_utf8_get(const unsigned char *p, size_t n, uint32_t *c);
/* writes 1 to 4 bytes */
TINYI_FN size_t tinyi_utf8_put(uint32_t c, unsigned char *p);
/* the length that the first byte announces; 1 for a byte that cannot be first */
TINYI_INLINE size_t tinyi_utf8_promise(unsigned char first)
{
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* tiny_plain: a text from outside, shortened for a sentence */
#define TINYI_SHOW 80
TINYI_FN const char *tinyi_show_bytes(const void *text, size_t n, char shown[TINYI_SHOW]);

TINYI_C_END
#endif
