/* docs/dev/ways.c - draws the five ways of a sum against its size and the delay of a message: docs/img/ways.svg
 *
 *     make ways
 *
 * Eight ranks, 300 Mbit/s. Lines are the table of costs (tiny_coll_cost); dots are what the virtual clock measures when
 * the ways really run, on ranks that send and take one message at a time. The program fails where the two differ. */
#define TINY_WITH_COLLECTIVES
#include "tinyllm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, WAYS = 5, W = 300, H = 260, TOP = 96 };
static const int way_of[WAYS] = { TINY_COMM_STAR, TINY_COMM_TREE, TINY_COMM_DOUBLING, TINY_COMM_RING,
                                  TINY_COMM_HALVING };
static const char *const name[WAYS] = { "star", "tree", "doubling", "ring", "halving" };
static const char *const color[WAYS] = { "#c98a1b", "#8d5fb8", "#1b6ca8", "#3b8f5a", "#d1495b" };
static const double byte = 8.0 / 300e6;

static double table(int way, double bytes, double latency)
{
    const tiny_coll_line line = { latency, byte, 0.0 };
    return tiny_coll_cost(TINY_COST_ALLREDUCE + way_of[way], RANKS, bytes, &line);
}

typedef struct job { tiny_local *local; int way, n, failed; uint64_t clock[RANKS]; } job;
static void rank_main(tiny_team *team, void *arg)
{
    job *j = (job *)arg;
    const size_t bytes = (size_t)j->n * 4;
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    tiny_coll c;
    float *x = (float *)calloc((size_t)j->n + 1, 4);
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    d.n_threads = 1;
    c.net = tiny_local_net(j->local, team->i);
    c.work = malloc(bytes + 1);
    c.n_work = bytes;
    c.until = tiny_now_ns() + UINT64_C(60000000000);
    if (team->n != RANKS || !x || !c.work || tiny_ctx_open(&d, &ctx) ||
        tiny_coll_allreduce(ctx, &c, way_of[j->way], x, (size_t)j->n))
        j->failed = 1;
    j->clock[team->i] = c.clock;
    tiny_ctx_close(ctx);
    free(x);
    free(c.work);
}
/* seconds on the virtual clock */
static double measured(int way, double bytes, double latency)
{
    tiny_local_desc d;
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    job j;
    uint64_t last = 0;
    int i;
    memset(&d, 0, sizeof d);
    memset(&cd, 0, sizeof cd);
    memset(&j, 0, sizeof j);
    cd.n_threads = RANKS;
    d.world = RANKS;
    d.latency_ns = (uint64_t)(1e9 * latency + 0.5);
    d.bits_per_second = 300e6;
    d.virtual_clock = 2;
    j.way = way;
    j.n = (int)(bytes / 4);
    if (tiny_ctx_open(&cd, &ctx) || tiny_local_open(ctx, &d, &j.local) ||
        tiny_parallel(ctx, RANKS, 0, 0, rank_main, &j) || j.failed) {
        fprintf(stderr, "ways: %s\n", ctx ? tiny_ctx_message(ctx) : "no context");
        exit(1);
    }
    tiny_local_close(ctx, j.local);
    tiny_ctx_close(ctx);
    for (i = 0; i < RANKS; i++) if (j.clock[i] > last) last = j.clock[i];
    if (fabs(1e-9 * (double)last - table(way, bytes, latency)) > 1e-6 * table(way, bytes, latency) + 1e-7) {
        fprintf(stderr, "ways: %s, %.0f bytes, %g s: the clock says %g s, the table %g s\n", name[way], bytes, latency,
                1e-9 * (double)last, table(way, bytes, latency));
        exit(1);
    }
    return 1e-9 * (double)last;
}

/* an axis of powers of ten or two: where v lies on it, 0 to 1 */
static double on(double v, double least, double most) { return (log(v) - log(least)) / (log(most) - log(least)); }

static void frame(int x, const char *title, const char *x_label)
{
    printf("<text x=\"%d\" y=\"%d\" font-size=\"13\">%s</text>\n"
           "<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#333\"/>\n"
           "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
           x, TOP - 12, title, x, TOP, H, W, x + W / 2, TOP + H + 36, x_label);
}
static void tick(int x, double at, const char *text)
{
    printf("<path d=\"M%.1f %dv5\" stroke=\"#333\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
           x + at * W, TOP + H, x + at * W, TOP + H + 18, text);
}
static void level(int x, double at, const char *text, int line)
{
    printf("<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", x - 6, TOP + H - at * H + 4, text);
    if (line) printf("<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", x, TOP + H - at * H, W);
}

static const struct { double v; const char *text; } sizes[] = { { 1024, "1 KB" },
                                                                { 16384, "16 KB" },
                                                                { 262144, "256 KB" },
                                                                { 4194304, "4 MB" } };
static const struct { double v; const char *text; } delays[] = { { 1e-5, "10 us" },
                                                                 { 1e-4, "0.1 ms" },
                                                                 { 1e-3, "1 ms" },
                                                                 { 1e-2, "10 ms" } };
static const struct { double v; const char *text; } times[] = { { 1e-4, "0.1 ms" },
                                                                { 1e-3, "1 ms" },
                                                                { 1e-2, "10 ms" },
                                                                { 1e-1, "0.1 s" },
                                                                { 1, "1 s" } };

static void lines(int x, int by_size)
{
    const double least = by_size ? 1024 : 1e-5, most = by_size ? 4194304 : 1e-2;
    int w, i;
    for (i = 0; i < 5; i++) level(x, on(times[i].v, 1e-4, 3), times[i].text, 1);
    for (i = 0; i < 4; i++)
        if (by_size) tick(x, on(sizes[i].v, least, most), sizes[i].text);
        else tick(x, on(delays[i].v, least, most), delays[i].text);
    for (w = 0; w < WAYS; w++) {
        printf("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color[w]);
        for (i = 0; i <= 60; i++) {
            const double v = least * pow(most / least, i / 60.0),
                         t = by_size ? table(w, v, 1e-4) : table(w, 32768, v);
            printf("%.1f,%.1f ", x + i / 60.0 * W, TOP + H - on(t, 1e-4, 3) * H);
        }
        printf("\"/>\n");
        for (i = 0; i <= 6; i++) {          /* at powers of four of the size, at half powers of ten of the delay */
            const double v = by_size ? 1024 * pow(4, i) : 1e-5 * pow(10, i / 2.0),
                         t = by_size ? measured(w, v, 1e-4) : measured(w, 32768, v);
            printf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", x + on(v, least, most) * W,
                   TOP + H - on(t, 1e-4, 3) * H, color[w]);
        }
        printf("\n");
    }
}

/* which way is the fastest, by the table; rows of equal squares become one rectangle */
static void map(int x)
{
    enum { CELLS = 60 };
    int i, k, from;
    for (k = 0; k < CELLS; k++)
        for (from = 0; from < CELLS;) {
            int first = -1;
            for (i = from; i < CELLS; i++) {
                const double n = 1024 * pow(4096, (i + 0.5) / CELLS), a = 1e-5 * pow(1000, (k + 0.5) / CELLS);
                int w, best = 0;
                for (w = 1; w < WAYS; w++) if (table(w, n, a) < table(best, n, a)) best = w;
                if (first < 0) first = best;
                if (best != first) break;
            }
            printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>",
                   x + (double)from * W / CELLS, TOP + H - (k + 1.0) * H / CELLS, (double)(i - from) * W / CELLS + 0.3,
                   (double)H / CELLS + 0.3, color[first]);
            from = i;
        }
    printf("\n");
    for (i = 0; i < 4; i++) {
        tick(x, on(sizes[i].v, 1024, 4194304), sizes[i].text);
        level(x, on(delays[i].v, 1e-5, 1e-2), delays[i].text, 0);
    }
}

int main(void)
{
    int w;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1160 420\" font-family=\"sans-serif\" "
           "font-size=\"12\">\n<rect width=\"1160\" height=\"420\" fill=\"#fff\"/>\n"
           "<text x=\"60\" y=\"26\" font-size=\"16\">A sum over 8 ranks at 300 Mbit/s</text>\n");
    for (w = 0; w < WAYS; w++)
        printf("<path d=\"M%d 52h24\" stroke=\"%s\" stroke-width=\"4\"/><text x=\"%d\" y=\"56\">%s</text>\n",
               60 + 110 * w, color[w], 90 + 110 * w, name[w]);
    printf("<text x=\"620\" y=\"56\" fill=\"#59636e\">lines: the table of costs; dots: the same sums on the virtual "
           "clock</text>\n");
    lines(60, 1);
    frame(60, "time, where a message takes 0.1 ms", "bytes of the sum");
    lines(440, 0);
    frame(440, "time of 32 KB", "delay of a message");
    map(820);
    frame(820, "the fastest way, by delay and size", "bytes of the sum");
    printf("</svg>\n");
    return 0;
}
