/* src/core/status.c */
#include "core/bytes.h"
#include "core/status.h"
#include <string.h>

TINY_API const char *tiny_status_text(tiny_status status)
{
#define TINYI_STATUS_TEXT(name, text) text,
    static const char *const texts[] = { TINYI_STATUSES(TINYI_STATUS_TEXT) "" };
#undef TINYI_STATUS_TEXT
    return (unsigned)status < (unsigned)TINY_STATUS_COUNT ? texts[status] : "this status is unknown";
}

/* bytes of the character at p that may stand in a sentence; 0: none */
static size_t tinyi_plain_bytes(const unsigned char *p, size_t n)
{
    const size_t k = tinyi_utf8_char(p, n);
    if (k == 1) return *p >= 0x20 && *p != 0x7f;
    if (k == 2) return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c) ? 0 : k;     /* C1; U+061C */
    if (k != 3) return k;
    /* U+200B .. F, 2028 .. E */
    if (p[0] == 0xe2 && p[1] == 0x80) return (p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae) ? 0 : k;
    if (p[0] == 0xe2 && p[1] == 0x81) return p[2] >= 0xa0 && p[2] <= 0xaf ? 0 : k;                  /* U+2060 .. F */
    return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 0 : k;                                    /* U+FEFF */
}

TINY_API size_t tiny_plain(char *to, size_t room, const void *text, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)text;
    size_t i, k, at = 0, cut = 0;           /* cut: where "..." still fits */
    if (!p) n = 0;
    if (!to) room = 0;
    for (i = 0; i < n; i += k) {
        const size_t whole = tinyi_plain_bytes(p + i, n - i), bytes = whole ? whole : 4;
        k = whole ? whole : 1;
        if (at + 4 <= room) cut = at;
        if (at + bytes < room) {
            if (whole) memcpy(to + at, p + i, whole);
            else {
                to[at] = '\\';
                to[at + 1] = 'x';
                to[at + 2] = digit[p[i] >> 4];
                to[at + 3] = digit[p[i] & 15];
            }
        }
        at += bytes;
    }
    if (at < room) to[at] = 0;
    else if (room >= 4) memcpy(to + cut, "...", 4);
    else if (room) to[0] = 0;
    return at + 1;
}
