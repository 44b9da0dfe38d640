/* src/gnn/graph/inflate.c - unpacks DEFLATE streams
 * Papers   P. Deutsch, "DEFLATE Compressed Data Format Specification", RFC 1951, and "GZIP file format", RFC 1952,
 *          1996.
 * Method   Canonical Huffman codes, decoded bit by bit from the number of codes of each length: no tables to build, 1
 *          to 15 steps for each symbol.
 *          That is about 100 MB/s, enough for reading files. Memory is the output and 2 KB. A stream that comes in
 *          pieces (a pipe) is unpacked into a window. When the window is full, it is passed on, and its last 32 KB move
 *          to its start: a copy may reach back that far.
 * Left out preset dictionaries: neither gzip nor zip has them. */
#include <string.h>
#include "gnn/graph/inflate_inside.h"
#include "core/state_inside.h"
#include "core/bytes.h"

typedef struct tinyi_flate {
    tiny_ctx *ctx;
    const char *where;
    const unsigned char *bytes;
    size_t n_bytes, at;
    uint64_t before;                        /* bytes of the pieces before this one */
    uint32_t hold;                          /* bits that were read and not yet used */
    int n_hold;
    unsigned char *out;
    size_t n, room, told;                   /* told: bytes of out that the check sum has seen */
    /* bytes that may be unpacked; that were handed on and left the window; of this member, as far as told */
    uint64_t most, total, member;
    uint32_t crc;
    const tinyi_gunzip_pipe *pipe;          /* NULL: bytes and out are whole */
    tiny_status st;                         /* of the pipe */
} tinyi_flate;

#define TINYI_FLATE_REACH 32768

typedef struct tinyi_flate_code { short count[16], symbol[288]; } tinyi_flate_code;

static tiny_status tinyi_flate_fail(const tinyi_flate *f, const char *what)
{
    if (f->st) return f->st;
    return tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: packed byte %llu: %s", f->where,
                      (unsigned long long)(f->before + f->at), what);
}

/* is there a packed byte at f->at? */
static int tinyi_flate_more(tinyi_flate *f)
{
    if (f->at < f->n_bytes) return 1;
    if (!f->pipe || f->st) return 0;
    f->before += f->n_bytes;
    f->at = f->n_bytes = 0;
    f->st = f->pipe->more(f->pipe->arg, &f->bytes, &f->n_bytes);
    if (f->st) f->n_bytes = 0;
    return f->n_bytes > 0;
}

/* n <= 16 bits, the lowest first; 0: the stream has ended */
static int tinyi_flate_bits(tinyi_flate *f, int n, uint32_t *v)
{
    while (f->n_hold < n) {
        if (!tinyi_flate_more(f)) return 0;
        f->hold |= (uint32_t)f->bytes[f->at++] << f->n_hold;
        f->n_hold += 8;
    }
    *v = f->hold & ((1u << n) - 1u);
    f->hold >>= n;
    f->n_hold -= n;
    return 1;
}

static tiny_status tinyi_flate_tell(tinyi_flate *f)
{
    const size_t n = f->n - f->told;
    if (n) f->crc = tinyi_crc32(f->crc, f->out + f->told, n);
    f->member += n;
    if (f->pipe && n && !f->st) f->st = f->pipe->take(f->pipe->arg, f->out + f->told, n);
    f->told = f->n;
    return f->st;
}

/* for n <= 258 bytes more, or the pieces of a stored block */
static tiny_status tinyi_flate_room(tinyi_flate *f, size_t n)
{
    size_t room = f->room;
    unsigned char *p;
    if (f->total + f->n + n > f->most)
        return tinyi_fail(f->ctx, TINY_E_OVERFLOW, "%s: it unpacks to more than %llu bytes, the limit",
                          f->where, (unsigned long long)f->most);
    if (f->n + n <= f->room) return TINY_OK;
    if (f->pipe) {
        const tiny_status st = tinyi_flate_tell(f);
        if (st) return st;
        memmove(f->out, f->out + f->n - TINYI_FLATE_REACH, TINYI_FLATE_REACH);
        f->total += f->n - TINYI_FLATE_REACH;
        f->n = f->told = TINYI_FLATE_REACH;
        return TINY_OK;
    }
    while (room < f->n + n) room = room ? room > SIZE_MAX / 2 ? f->n + n : room * 2 : 4096;
    p = (unsigned char *)tiny_alloc(f->ctx, room);
    if (!p) return tiny_ctx_status(f->ctx);
    if (f->n) memcpy(p, f->out, f->n);
    tiny_free(f->ctx, f->out);
    f->out = p;
    f->room = room;
    return TINY_OK;
}

/* The canonical code of these lengths. 0: over-subscribed; or incomplete, unless it is a single code of one bit or
 * none. */
static int tinyi_flate_code_make(tinyi_flate_code *c, const unsigned char *length, int n)
{
    short at[16];
    int i, left = 1;
    memset(c->count, 0, sizeof c->count);
    for (i = 0; i < n; i++) c->count[length[i]]++;
    for (i = 1; i < 16; i++) {
        left = left * 2 - c->count[i];
        if (left < 0) return 0;
    }
    at[1] = 0;
    for (i = 1; i < 15; i++) at[i + 1] = (short)(at[i] + c->count[i]);
    for (i = 0; i < n; i++)
        if (length[i]) c->symbol[at[length[i]]++] = (short)i;
    return left == 0 || n - c->count[0] <= 1;
}

static int tinyi_flate_symbol(tinyi_flate *f, const tinyi_flate_code *c)
{
    int code = 0, first = 0, index = 0, len;
    for (len = 1; len < 16; len++) {
        uint32_t bit;
        if (!tinyi_flate_bits(f, 1, &bit)) return -1;
        code |= (int)bit;
        if (code - c->count[len] < first) return c->symbol[index + (code - first)];
        index += c->count[len];
        first = (first + c->count[len]) * 2;
        code *= 2;
    }
    return -1;
}

static tiny_status tinyi_flate_block(tinyi_flate *f, const tinyi_flate_code *lit, const tinyi_flate_code *dist)
{
    static const short length_base[29] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                           31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const short length_bits[29] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
    static const short dist_base[30] = { 1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                         33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                         1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577 };
    static const short dist_bits[30] = { 0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                         6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13 };
    for (;;) {
        int s = tinyi_flate_symbol(f, lit);
        uint32_t more;
        size_t len, back;
        tiny_status st;
        if (s < 0) return tinyi_flate_fail(f, "the stream ends, or a code is invalid");
        if (s == 256) return TINY_OK;
        if (s < 256) {
            if ((st = tinyi_flate_room(f, 1)) != TINY_OK) return st;
            f->out[f->n++] = (unsigned char)s;
            continue;
        }
        if (s > 285) return tinyi_flate_fail(f, "an invalid length");
        if (!tinyi_flate_bits(f, length_bits[s - 257], &more)) return tinyi_flate_fail(f, "the stream ends");
        len = (size_t)length_base[s - 257] + more;
        s = tinyi_flate_symbol(f, dist);
        if (s < 0 || s > 29) return tinyi_flate_fail(f, "the stream ends, or a distance is invalid");
        if (!tinyi_flate_bits(f, dist_bits[s], &more)) return tinyi_flate_fail(f, "the stream ends");
        back = (size_t)dist_base[s] + more;
        if (back > f->member + (f->n - f->told)) return tinyi_flate_fail(f, "a copy from before the start");
        if ((st = tinyi_flate_room(f, len)) != TINY_OK) return st;
        for (; len; len--, f->n++) f->out[f->n] = f->out[f->n - back];
    }
}

static tiny_status tinyi_flate_stored(tinyi_flate *f)
{
    uint32_t len, not_len;
    tiny_status st;
    f->hold = 0;                            /* whole bytes only were read, and at most 7 bits are left of the last */
    f->n_hold = 0;
    if (!tinyi_flate_bits(f, 16, &len) || !tinyi_flate_bits(f, 16, &not_len))
        return tinyi_flate_fail(f, "the stream ends");
    if ((len ^ 0xffff) != not_len) return tinyi_flate_fail(f, "the two lengths of a stored block differ");
    while (len) {
        size_t n;
        if (!tinyi_flate_more(f) || (!f->pipe && len > f->n_bytes - f->at))
            return tinyi_flate_fail(f, "a stored block is longer than the stream");
        n = TINYI_MIN((size_t)len, f->n_bytes - f->at);
        n = TINYI_MIN(n, 1024);             /* of a window at most what lies above the reach */
        if ((st = tinyi_flate_room(f, n)) != TINY_OK) return st;
        memcpy(f->out + f->n, f->bytes + f->at, n);
        f->n += n;
        f->at += n;
        len -= (uint32_t)n;
    }
    return TINY_OK;
}

static tiny_status tinyi_flate_dynamic(tinyi_flate *f, tinyi_flate_code *lit, tinyi_flate_code *dist)
{
    static const unsigned char order[19] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    unsigned char length[320];
    uint32_t n_lit, n_dist, n_code, v, i, n = 0;
    memset(length, 0, sizeof length);
    if (!tinyi_flate_bits(f, 5, &n_lit) || !tinyi_flate_bits(f, 5, &n_dist) || !tinyi_flate_bits(f, 4, &n_code))
        return tinyi_flate_fail(f, "the stream ends");
    n_lit += 257;
    n_dist += 1;
    n_code += 4;
    if (n_lit > 286 || n_dist > 30) return tinyi_flate_fail(f, "too many lengths");
    for (i = 0; i < n_code; i++) {
        if (!tinyi_flate_bits(f, 3, &v)) return tinyi_flate_fail(f, "the stream ends");
        length[order[i]] = (unsigned char)v;
    }
    if (!tinyi_flate_code_make(lit, length, 19)) return tinyi_flate_fail(f, "the lengths have no valid code");
    while (n < n_lit + n_dist) {
        int s = tinyi_flate_symbol(f, lit);
        unsigned char again = 0;
        if (s < 0) return tinyi_flate_fail(f, "the stream ends, or a code is invalid");
        if (s < 16) {
            length[n++] = (unsigned char)s;
            continue;
        }
        if (s == 16 && n == 0) return tinyi_flate_fail(f, "a repeat without a previous length");
        if (s == 16) again = length[n - 1];
        if (!tinyi_flate_bits(f, s == 16 ? 2 : s == 17 ? 3 : 7, &v)) return tinyi_flate_fail(f, "the stream ends");
        v += s == 18 ? 11 : 3;
        if (v > n_lit + n_dist - n) return tinyi_flate_fail(f, "more lengths than codes");
        memset(length + n, again, v);
        n += v;
    }
    if (!length[256]) return tinyi_flate_fail(f, "a block without an end code");
    if (!tinyi_flate_code_make(dist, length + n_lit, (int)n_dist) || !tinyi_flate_code_make(lit, length, (int)n_lit))
        return tinyi_flate_fail(f, "lengths that are no valid code");
    return TINY_OK;
}

/* the blocks of one stream */
static tiny_status tinyi_flate_stream(tinyi_flate *f)
{
    tinyi_flate_code lit, dist;
    uint32_t last = 0, type = 0;
    tiny_status st = TINY_OK;
    f->hold = 0;
    f->n_hold = 0;
    f->told = f->n;
    f->member = 0;
    f->crc = 0;
    while (!st && !last) {
        if (!tinyi_flate_bits(f, 1, &last) || !tinyi_flate_bits(f, 2, &type))
            st = tinyi_flate_fail(f, "the stream ends");
        else if (type == 0) st = tinyi_flate_stored(f);
        else if (type == 3) st = tinyi_flate_fail(f, "a block of type 3");
        else {
            if (type == 1) {
                unsigned char length[288];
                memset(length, 8, 144);
                memset(length + 144, 9, 112);
                memset(length + 256, 7, 24);
                memset(length + 280, 8, 8);
                (void)tinyi_flate_code_make(&lit, length, 288);
                memset(length, 5, 30);
                (void)tinyi_flate_code_make(&dist, length, 30);
            } else st = tinyi_flate_dynamic(f, &lit, &dist);
            if (!st) st = tinyi_flate_block(f, &lit, &dist);
        }
    }
    f->hold = 0;                            /* the bits that are left belong to its last byte */
    f->n_hold = 0;
    return st ? st : tinyi_flate_tell(f);
}

static tinyi_flate tinyi_flate_make(tiny_ctx *ctx, const char *where, uint64_t most)
{
    tinyi_flate f;
    memset(&f, 0, sizeof f);
    f.ctx = ctx;
    f.where = where;
    f.most = most;
    return f;
}

/* a whole result, also of nothing; or what there is of it given back */
static tiny_status tinyi_flate_whole(tinyi_flate *f, tiny_status st, unsigned char **out, size_t *n_out)
{
    *out = NULL;
    *n_out = 0;
    if (!st && !f->out) st = tinyi_flate_room(f, 1);
    if (st) {
        tiny_free(f->ctx, f->out);
        return st;
    }
    *out = f->out;
    *n_out = f->n;
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_inflate(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                   size_t most, unsigned char **out, size_t *n_out)
{
    tinyi_flate f = tinyi_flate_make(ctx, where, most);
    f.bytes = bytes;
    f.n_bytes = n_bytes;
    return tinyi_flate_whole(&f, tinyi_flate_stream(&f), out, n_out);
}

/* the head of a member; 0: it is none, or ends */
static int tinyi_gzip_head(tinyi_flate *f)
{
    uint32_t magic, method, flags, v, n = 0;
    int i;
    if (!tinyi_flate_bits(f, 16, &magic) || magic != 0x8b1f || !tinyi_flate_bits(f, 8, &method) || method != 8 ||
        !tinyi_flate_bits(f, 8, &flags) || flags & 0xe0)
        return 0;
    for (i = 0; i < 6; i++)                 /* time, and what it was packed by */
        if (!tinyi_flate_bits(f, 8, &v)) return 0;
    if (flags & 4) {
        if (!tinyi_flate_bits(f, 16, &n)) return 0;
        for (; n; n--)
            if (!tinyi_flate_bits(f, 8, &v)) return 0;
    }
    for (i = 8; i <= 16; i *= 2)            /* a name, a remark */
        for (v = 1; flags & (uint32_t)i && v;)
            if (!tinyi_flate_bits(f, 8, &v)) return 0;
    return !(flags & 2) || tinyi_flate_bits(f, 16, &v);
}

static tiny_status tinyi_gzip_members(tinyi_flate *f)
{
    do {
        const uint64_t at = f->before + f->at;
        uint32_t v[4];
        tiny_status st;
        int i;
        f->hold = 0;
        f->n_hold = 0;
        if (!tinyi_gzip_head(f))
            return f->st ? f->st
                         : tinyi_fail(f->ctx, TINY_E_FORMAT, "%s: byte %llu does not begin a gzip header", f->where,
                                      (unsigned long long)at);
        st = tinyi_flate_stream(f);
        for (i = 0; !st && i < 4; i++)
            if (!tinyi_flate_bits(f, 16, &v[i]))
                st = f->st ? f->st : tinyi_fail(f->ctx, TINY_E_FORMAT,
                                                "%s: the gzip data end before their checksum", f->where);
        if (!st && ((v[0] | v[1] << 16) != f->crc || (v[2] | v[3] << 16) != (uint32_t)(f->member & 0xffffffffu)))
            st = tinyi_fail(f->ctx, TINY_E_FORMAT,
                            "%s: the checksum or the size in the gzip data does not match the %llu unpacked bytes",
                            f->where, (unsigned long long)f->member);
        if (st) return st;
    } while (tinyi_flate_more(f));
    return f->st;
}

TINYI_FN tiny_status tinyi_gunzip(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                  size_t most, unsigned char **out, size_t *n_out)
{
    tinyi_flate f = tinyi_flate_make(ctx, where, most);
    f.bytes = bytes;
    f.n_bytes = n_bytes;
    return tinyi_flate_whole(&f, tinyi_gzip_members(&f), out, n_out);
}

TINYI_FN tiny_status tinyi_gunzip_by(tiny_ctx *ctx, const char *where, const tinyi_gunzip_pipe *pipe)
{
    tinyi_flate f = tinyi_flate_make(ctx, where, pipe->most);
    f.pipe = pipe;
    f.out = pipe->window;
    f.room = pipe->n_window;
    return tinyi_gzip_members(&f);
}
