/* examples/svg.h - a picture as SVG text, which grows as it is drawn
 *
 *     svg s = { 0 };
 *     svg_begin(&s, 720, 320);                            white, small letters without serifs
 *     svg_put(&s, "<path d=\"M%.1f 0v9\"/>\n", x);
 *     st = svg_end(ctx, &s, path);                        writes and frees it
 *
 * Include it after tinyllm.h and options.h. */
typedef struct svg { char *at; size_t n, room; } svg;

static inline void svg_put(svg *s, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) return;
    if (s->room - s->n <= (size_t)n) {
        s->room = 2 * s->room + (size_t)n + 4096;
        s->at = (char *)need(realloc(s->at, s->room));
    }
    va_start(args, format);
    (void)vsnprintf(s->at + s->n, s->room - s->n, format, args);
    va_end(args);
    s->n += (size_t)n;
}

static inline void svg_begin(svg *s, int wide, int high)
{
    svg_put(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", wide, high, wide, high);
}

static inline tiny_status svg_end(tiny_ctx *ctx, svg *s, const char *path)
{
    tiny_status st;
    svg_put(s, "</svg>\n");
    st = tiny_file_write(ctx, path, s->at, s->n);
    free(s->at);
    s->at = NULL;
    s->n = s->room = 0;
    return st;
}
