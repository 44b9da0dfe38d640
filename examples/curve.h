/* examples/curve.h - the course of a run as an SVG file, and files that are written as a whole
 *
 *     static curve c;
 *     curve_add(&c, step, loss);              any number of points: of many only every 2nd, 4th, ... is kept
 *     ok = curve_draw(&c, path, "title", "#1f77b4", low, high);       0: the reason was printed
 *
 * Include options.h first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVE_POINTS = 128 };
typedef struct curve {
    int n, every;                           /* points that stay; their distance in calls, 0: 1 */
    long seen;
    double at[CURVE_POINTS + 1], y[CURVE_POINTS + 1];   /* (n), then the last one if it does not stay */
} curve;

static inline void curve_add(curve *c, double at, double y)
{
    int i;
    if (!c->every) c->every = 1;
    if (c->n == CURVE_POINTS && c->seen % c->every == 0) {
        for (i = 0; 2 * i < CURVE_POINTS; i++) {
            c->at[i] = c->at[2 * i];
            c->y[i] = c->y[2 * i];
        }
        c->n = CURVE_POINTS / 2;
        c->every *= 2;
    }
    c->at[c->n] = at;
    c->y[c->n] = y;
    c->n += c->seen++ % c->every == 0;
}

/* Writes PATH.part, then renames it. 0: a message was printed */
static inline int write_whole(const char *path, const void *bytes, size_t n)
{
    char *part = (char *)need(malloc(strlen(path) + sizeof ".part"));
    FILE *f;
    int ok;
    (void)sprintf(part, "%s.part", path);
    f = fopen(part, "wb");
    ok = f && fwrite(bytes, 1, n, f) == n;
    if (f && fclose(f)) ok = 0;
    ok = ok && !rename(part, path);
    if (!ok) {
        fprintf(stderr, PROGRAM ": %s: cannot be written\n", path);
        (void)remove(part);
    }
    free(part);
    return ok;
}

static inline int curve_draw(const curve *c, const char *path, const char *title, const char *colour, double low,
                             double high)
{
    const int points = c->n + (c->every > 1 && (c->seen - 1) % c->every != 0);
    const double last = points ? c->at[points - 1] : 0;
    char text[8192];
    int n, i;
    for (i = 0; i < points; i++) {
        if (c->y[i] < low) low = c->y[i];
        if (c->y[i] > high) high = c->y[i];
    }
    if (high <= low) high = low + 1;
    n = snprintf(text, sizeof text,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"560\" height=\"260\" font-family=\"sans-serif\" "
                 "font-size=\"12\"><rect width=\"560\" height=\"260\" fill=\"white\"/><path stroke=\"#888\" "
                 "d=\"M60 20V220H540\" fill=\"none\"/><text x=\"60\" y=\"14\">%.200s</text><text x=\"54\" y=\"30\" "
                 "text-anchor=\"end\">%.3g</text><text x=\"54\" y=\"220\" text-anchor=\"end\">%.3g</text><text "
                 "x=\"540\" y=\"240\" text-anchor=\"end\">step %.0f</text><polyline fill=\"none\" stroke=\"%.20s\" "
                 "stroke-width=\"2\" points=\"",
                 title, high, low, last, colour);
    for (i = 0; i < points; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%.1f,%.1f ", 60 + 480 * c->at[i] / (last + 1e-9),
                      220 - 195 * (c->y[i] - low) / (high - low));
    n += snprintf(text + n, sizeof text - (size_t)n, "\"/></svg>\n");
    return write_whole(path, text, (size_t)n);
}
