/* tests/one_line.h - is a sentence fit for a terminal? For tests and fuzz targets; independent of the library */
#ifndef ONE_LINE_H
#define ONE_LINE_H

/* NULL: one line of UTF-8 without control characters; else where it is not */
static inline const char *one_line(const char *s)
{
    while (*s) {
        const unsigned char *p = (const unsigned char *)s;
        unsigned long c = *p;
        int more = c < 0x80 ? 0 : c < 0xc0 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf8 ? 3 : -1, i;
        static const unsigned long least[4] = { 0, 0x80, 0x800, 0x10000 };
        if (more < 0) return s;
        c &= more == 0 ? 0x7fu : more == 1 ? 0x1fu : more == 2 ? 0x0fu : 0x07u;
        for (i = 1; i <= more; i++) {
            if (p[i] < 0x80 || p[i] > 0xbf) return s;
            c = c << 6 | (p[i] & 0x3fu);
        }
        if (c < least[more] || c > 0x10fffful || (c >= 0xd800 && c <= 0xdfff)) return s;
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return s;      /* ESC, BEL, line ends, CSI */
        if (c == 0x61c || c == 0x200e || c == 0x200f) return s; /* directions of writing, and line separators */
        if ((c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069)) return s;
        s += more + 1;
    }
    return 0;
}
#endif
