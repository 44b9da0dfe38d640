/* src/llm/file/json.c */
#include "llm/file/json.h"
#include <string.h>

tiny_status tinyi_json_fail(const tinyi_json *j, const char *wanted)
{
    if (j->at == j->end) return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: %s ends where %s should stand", j->path, j->what, wanted);
    return tinyi_fail(j->ctx, TINY_E_FORMAT, "%s: byte %zu of %s is 0x%02x where %s should stand", j->path, (size_t)(j->at - j->start), j->what, *j->at, wanted);
}

void tinyi_json_space(tinyi_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t')) j->at++;
}

/* Skips space; takes the character when it comes next. */
int tinyi_json_is(tinyi_json *j, int c)
{
    tinyi_json_space(j);
    if (j->at == j->end || *j->at != c) return 0;
    j->at++;
    return 1;
}

static int tinyi_json_hex(const unsigned char *p, const unsigned char *end, unsigned *v)
{
    int i;
    *v = 0;
    if (end - p < 4) return 0;
    for (i = 0; i < 4; i++) {
        unsigned c = p[i], d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
        if (d == 16) return 0;
        *v = *v << 4 | d;
    }
    return 1;
}

/* bytes of one UTF-8 character, 0 when there is none: no long forms, no surrogates, nothing above U+10FFFF */
static size_t tinyi_json_utf8(const unsigned char *p, const unsigned char *end)
{
    size_t n, i;
    unsigned c = *p, least;
    if (c < 0x80) return 1;
    n = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!n || (size_t)(end - p) < n) return 0;
    for (i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    if (p[1] < least || (c == 0xed && p[1] > 0x9f) || (c == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

tiny_status tinyi_json_string(tinyi_json *j, tinyi_json_text *t, const char *wanted)
{
    if (!tinyi_json_is(j, '"')) return tinyi_json_fail(j, wanted);
    t->at = j->at;
    t->escapes = 0;
    for (;;) {
        size_t n;
        if (j->at == j->end) return tinyi_json_fail(j, "the end of a text");
        if (*j->at == '"') break;
        if (*j->at < 0x20) return tinyi_json_fail(j, "a character of a text");
        if (*j->at == '\\') {
            t->escapes = 1;
            j->at++;
            if (j->at == j->end || !*j->at || !strchr("\"\\/bfnrtu", *j->at)) return tinyi_json_fail(j, "an escape");
            if (*j->at++ == 'u') {
                unsigned v, low;
                if (!tinyi_json_hex(j->at, j->end, &v)) return tinyi_json_fail(j, "four hexadecimal digits");
                j->at += 4;
                if (v >= 0xdc00 && v <= 0xdfff) return tinyi_json_fail(j, "a first half of a pair of surrogates");
                if (v >= 0xd800 && v <= 0xdbff) {
                    if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u' || !tinyi_json_hex(j->at + 2, j->end, &low) || low < 0xdc00 || low > 0xdfff)
                        return tinyi_json_fail(j, "the second half of a pair of surrogates");
                    j->at += 6;
                }
            }
            continue;
        }
        n = tinyi_json_utf8(j->at, j->end);
        if (!n) return tinyi_json_fail(j, "a character in UTF-8");
        j->at += n;
    }
    t->n = (size_t)(j->at - t->at);
    j->at++;
    return TINY_OK;
}

/* a text that tinyi_json_string has taken, without its escapes */
void tinyi_json_plain(tinyi_made *m, tinyi_json_text t)
{
    const unsigned char *p = t.at, *end = t.at + t.n;
    while (p < end) {
        unsigned char utf8[4];
        unsigned v, low;
        size_t n = 1;
        if (*p != '\\') {
            tinyi_made_bytes(m, p++, 1);
            continue;
        }
        p += 2;
        switch (p[-1]) {
        case 'b': v = '\b'; break;
        case 'f': v = '\f'; break;
        case 'n': v = '\n'; break;
        case 'r': v = '\r'; break;
        case 't': v = '\t'; break;
        case 'u':
            (void)tinyi_json_hex(p, end, &v);
            p += 4;
            if (v >= 0xd800 && v <= 0xdbff) {
                (void)tinyi_json_hex(p + 2, end, &low);
                v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
            }
            break;
        default: v = p[-1];
        }
        if (v < 0x80) utf8[0] = (unsigned char)v;
        else if (v < 0x800) {
            utf8[0] = (unsigned char)(0xc0 | v >> 6);
            utf8[1] = (unsigned char)(0x80 | (v & 63));
            n = 2;
        } else if (v < 0x10000) {
            utf8[0] = (unsigned char)(0xe0 | v >> 12);
            utf8[1] = (unsigned char)(0x80 | (v >> 6 & 63));
            utf8[2] = (unsigned char)(0x80 | (v & 63));
            n = 3;
        } else {
            utf8[0] = (unsigned char)(0xf0 | v >> 18);
            utf8[1] = (unsigned char)(0x80 | (v >> 12 & 63));
            utf8[2] = (unsigned char)(0x80 | (v >> 6 & 63));
            utf8[3] = (unsigned char)(0x80 | (v & 63));
            n = 4;
        }
        tinyi_made_bytes(m, utf8, n);
    }
}

size_t tinyi_json_plain_bytes(tinyi_json_text t)
{
    tinyi_made count = { NULL, 0, 0 };
    tinyi_json_plain(&count, t);
    return count.n;
}

int tinyi_json_text_is(tinyi_json_text t, const char *s) { return !t.escapes && strlen(s) == t.n && !memcmp(t.at, s, t.n); }
