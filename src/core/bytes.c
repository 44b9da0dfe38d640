/* src/core/bytes.c */
#include "core/bytes.h"
#include "core/status.h"
#include <string.h>

int tinyi_rd_bytes(tinyi_cursor *c, size_t n, const unsigned char **p)
{
    if (c->left < n) return 0;
    *p = c->at;
    c->at += n;
    c->left -= n;
    return 1;
}

int tinyi_rd_u8(tinyi_cursor *c, uint8_t *v)
{
    const unsigned char *p;
    if (!tinyi_rd_bytes(c, 1, &p)) return 0;
    *v = p[0];
    return 1;
}

int tinyi_rd_u16(tinyi_cursor *c, uint16_t *v)
{
    const unsigned char *p;
    if (!tinyi_rd_bytes(c, 2, &p)) return 0;
    *v = tinyi_le16(p);
    return 1;
}

int tinyi_rd_u32(tinyi_cursor *c, uint32_t *v)
{
    const unsigned char *p;
    if (!tinyi_rd_bytes(c, 4, &p)) return 0;
    *v = tinyi_le32(p);
    return 1;
}

int tinyi_rd_u64(tinyi_cursor *c, uint64_t *v)
{
    const unsigned char *p;
    if (!tinyi_rd_bytes(c, 8, &p)) return 0;
    *v = tinyi_le64(p);
    return 1;
}

int tinyi_rd_f32(tinyi_cursor *c, float *v)
{
    uint32_t bits;
    if (!tinyi_rd_u32(c, &bits)) return 0;
    memcpy(v, &bits, 4);
    return 1;
}

int tinyi_rd_f64(tinyi_cursor *c, double *v)
{
    uint64_t bits;
    if (!tinyi_rd_u64(c, &bits)) return 0;
    memcpy(v, &bits, 8);
    return 1;
}

int tinyi_count_fits(const tinyi_cursor *c, uint64_t count, uint64_t least_bytes_each)
{
    return count <= (uint64_t)c->left / (least_bytes_each ? least_bytes_each : 1);
}

int tinyi_rd_count(tinyi_cursor *c, uint64_t least_bytes_each, size_t *count)
{
    tinyi_cursor old = *c;
    uint64_t v;
    if (!tinyi_rd_u64(c, &v)) return 0;
    if (!tinyi_count_fits(c, v, least_bytes_each)) {
        *c = old;
        return 0;
    }
    *count = (size_t)v;
    return 1;
}

void tinyi_wr(tinyi_writer *w, uint64_t v, int bytes)
{
    if (w->at) tinyi_put_le(w->at + w->n, v, (size_t)bytes);
    w->n += (size_t)bytes;
}

void tinyi_wr_bytes(tinyi_writer *w, const void *bytes, size_t n)
{
    if (w->at && n) memcpy(w->at + w->n, bytes, n);
    w->n += n;
}

size_t tinyi_utf8_char(const unsigned char *p, size_t n)
{
    const unsigned c = *p, least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    size_t k, i;
    if (c < 0x80) return 1;
    k = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!k || n < k) return 0;
    for (i = 1; i < k; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return p[1] < least || (c == 0xed && p[1] > 0x9f) || (c == 0xf4 && p[1] > 0x8f) ? 0 : k;
}

size_t tinyi_utf8_get(const unsigned char *p, size_t n, uint32_t *c)
{
    uint32_t v = p[0];
    size_t k, i;
    if (v < 0x80) { *c = v; return 1; }
    *c = TINYI_REPLACEMENT;
    if (v < 0xc0 || v >= 0xf8) return 1;
    k = tinyi_utf8_promise((unsigned char)v);
    if (k > n) return 1;
    v &= 0x7fu >> k;
    for (i = 1; i < k; i++) {
        if ((p[i] & 0xc0) != 0x80) return 1;
        v = v << 6 | (p[i] & 0x3f);
    }
    if (v > 0x10ffff) return 1;
    *c = v;
    return k;
}

size_t tinyi_utf8_put(uint32_t c, unsigned char *p)
{
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (unsigned char)(0xc0 | c >> 6);
        p[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (unsigned char)(0xe0 | c >> 12);
        p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    p[0] = (unsigned char)(0xf0 | (c >> 18 & 7));
    p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    p[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

const char *tinyi_show_bytes(const void *text, size_t n, char shown[TINYI_SHOW])
{
    (void)tiny_plain(shown, TINYI_SHOW, text, n);
    return shown;
}
