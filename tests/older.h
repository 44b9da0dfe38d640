/* tests/older.h - a box of one body as the form that was written before there were boxes (core/box/box_inside.h) */
#ifndef T_OLDER_H
#define T_OLDER_H

enum { BOX_FRONT = 192, BOX_END = 32 };

static size_t box_number(const unsigned char *p, int n)
{
    size_t v = 0;
    while (n) v = v << 8 | p[--n];
    return v;
}
static size_t box_body(const unsigned char *box)       /* its bytes, which begin at BOX_FRONT */
{
    return box_number(box + 80 + (strlen((const char *)box + 80) + 8) / 8 * 8 + 48, 8);
}
/* a magic of 8 bytes, a version, the body, and room for n_sum bytes of a checksum, which the caller fills in */
static unsigned char *older(const void *box, const char *magic, int version, size_t n_sum, size_t *n)
{
    const unsigned char *from = (const unsigned char *)box;
    const size_t n_body = box_body(from);
    unsigned char *to = (unsigned char *)t_keep(12 + n_body + n_sum + 8);
    memcpy(to, magic, 8);
    to[8] = (unsigned char)version;
    to[9] = to[10] = to[11] = 0;
    memcpy(to + 12, from + BOX_FRONT, n_body);
    *n = 12 + n_body + n_sum;
    return to;
}
#endif
