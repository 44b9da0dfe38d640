/* examples/picture.h - pictures of 8-bit red, green and blue, written as PNG without compression
 *
 *     picture p;
 *     if (picture_open(&p, 640, 160)) {                   white
 *         picture_put(&p, x, y, r, g, b);                 0 to 1 each; points outside are ignored
 *         n = picture_png(&p, &bytes);                    0: no memory; else write n bytes, and free them
 *         picture_close(&p); }
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct picture { int width, height; unsigned char *rgb; } picture;

static inline int picture_open(picture *p, int width, int height)
{
    p->width = width;
    p->height = height;
    p->rgb = (unsigned char *)malloc((size_t)width * (size_t)height * 3);
    if (p->rgb) memset(p->rgb, 255, (size_t)width * (size_t)height * 3);
    return p->rgb != NULL;
}

static inline void picture_close(picture *p)
{
    free(p->rgb);
    p->rgb = NULL;
}

static inline void picture_put(picture *p, int x, int y, double r, double g, double b)
{
    const double v[3] = { r, g, b };
    int c;
    for (c = 0; c < 3 && x >= 0 && y >= 0 && x < p->width && y < p->height; c++)
        p->rgb[((size_t)y * (size_t)p->width + (size_t)x) * 3 + (size_t)c] =
            (unsigned char)(v[c] < 0 ? 0 : v[c] > 1 ? 255 : v[c] * 255 + 0.5);
}

static inline unsigned char *picture_u32(unsigned char *to, uint32_t v)
{
    int i;
    for (i = 3; i >= 0; i--) *to++ = (unsigned char)(v >> 8 * i);
    return to;
}

/* A chunk whose n bytes stand at to + 8 already: length, type and checksum around them. */
static inline unsigned char *picture_chunk(unsigned char *to, const char *type, size_t n)
{
    uint32_t crc = 0xffffffffu;
    size_t i;
    int k;
    (void)picture_u32(to, (uint32_t)n);
    memcpy(to + 4, type, 4);
    for (i = 4; i < n + 8; i++)
        for (crc ^= to[i], k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    return picture_u32(to + n + 8, ~crc);
}

static inline size_t picture_png(const picture *p, unsigned char **out)
{
    enum { BLOCK = 65535 };
    const size_t row = (size_t)p->width * 3 + 1, raw = row * (size_t)p->height;
    unsigned char *bytes = (unsigned char *)malloc(raw + raw / BLOCK * 5 + 128), *to, *chunk;
    uint32_t a = 1, b = 0;
    size_t i;
    *out = bytes;
    if (!bytes) return 0;
    memcpy(bytes, "\x89PNG\r\n\x1a\n", 8);
    chunk = bytes + 8;
    to = picture_u32(picture_u32(chunk + 8, (uint32_t)p->width), (uint32_t)p->height);
    memcpy(to, "\10\2\0\0", 5);             /* 8 bits, colours, no interlacing */
    chunk = picture_chunk(chunk, "IHDR", 13);
    to = chunk + 8;
    *to++ = 0x78;
    *to++ = 1;
    for (i = 0; i < raw; i++) {             /* rows after a 0 (no filter), in blocks that are stored */
        const unsigned char v = i % row ? p->rgb[i / row * (row - 1) + i % row - 1] : 0;
        if (i % BLOCK == 0) {
            const size_t n = raw - i < BLOCK ? raw - i : BLOCK;
            *to++ = raw - i <= BLOCK;
            *to++ = (unsigned char)n;
            *to++ = (unsigned char)(n >> 8);
            *to++ = (unsigned char)~n;
            *to++ = (unsigned char)(~n >> 8);
        }
        *to++ = v;
        a = (a + v) % 65521;
        b = (b + a) % 65521;
    }
    to = picture_u32(to, b << 16 | a);
    chunk = picture_chunk(chunk, "IDAT", (size_t)(to - chunk - 8));
    chunk = picture_chunk(chunk, "IEND", 0);
    return (size_t)(chunk - bytes);
}

/* x in 0 to 1: from dark blue over green to yellow */
static inline void picture_scale(picture *p, int x, int y, double v)
{
    const double t = v < 0 ? 0 : v > 1 ? 1 : v;
    picture_put(p, x, y, t < 0.5 ? 0.1 + 0.4 * t : 0.3 + 1.4 * (t - 0.5), 0.05 + 0.9 * t,
                t < 0.5 ? 0.35 + 0.5 * t : 0.6 - 0.9 * (t - 0.5));
}
