/* examples/spiking_nerf.c - learns a small scene from pictures and renders new views with a spiking colour network
 *
 *     spiking_nerf train --out scene.net --picture view.png
 *     spiking_nerf run scene.net --picture view.png
 *     spiking_nerf table --svg energy.svg --seeds 3          float, TP, TCP and repeated inputs in one table
 *
 * The scene is a ball, a box and a chequered floor, drawn by formulas. First a field without a network learns a rough
 * shape; its density starts the field whose network is trained. Energy is a model of counted operations (4.6 pJ for a
 * multiply-add, 0.9 pJ for an addition, 45 nm), not a measurement. The picture has the truth, the rendering and four
 * times the error of a view that was not learnt. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "spiking_nerf"
#include "options.h"
#include "picture.h"
#include <math.h>
#include <time.h>

static const char usage[] =
    "spiking_nerf train [options]       learns the scene and prints the quality of new views\n"
    "spiking_nerf run FILE [options]    renders the new views with a trained field\n"
    "spiking_nerf table [options]       trains five colour networks and prints a table\n"
    "  --net NAME        spikes, float, repeat or direct; default: spikes\n"
    "  --time NAME       of spikes: condensed (TCP) or padded (TP); default: condensed\n"
    "  --flip            time runs from far to near\n"
    "  --leak            the leak of the neurons is learnt\n"
    "  --repeats N       steps of time for each sample, of repeat; default: 4\n"
    "  --size N          corners of voxels on an axis; default: 48\n"
    "  --image N         points of a picture on each side; default: 100\n"
    "  --views N         pictures to learn from; default: 20\n"
    "  --test N          new views; default: 5\n"
    "  --hidden N        neurons of a layer, a multiple of 32; default: 128\n"
    "  --rough N         steps for the rough shape; default: 500\n"
    "  --steps N         steps of training; default: 600\n"
    "  --batch N         rays of a step; default: 128\n"
    "  --seeds N         table: the whole table N times; default: 1\n"
    "  --out FILE        train: writes the field (a checkpoint)\n"
    "  --picture FILE    writes a new view (PNG)\n"
    "  --svg FILE        table: draws the energy of the last seed\n"
    "  --seed N          default: 1\n"
    "  --threads N       default: one per processor\n";

typedef struct shots { int n; float *rays, *colours; } shots;   /* n pictures */
typedef struct job {
    tiny_ctx *ctx;
    int image, views, test, rough, steps, batch, quiet;
    uint64_t seed, began;
    const char *stage;
    tgnn_nerf_desc desc;
    shots learn, judge;
} job;
typedef struct result { double psnr, seconds; tgnn_nerf_count count; } result;

/* ---- the scene */

/* the nearest surface of a ray: its colour, or white */
static void scene(const double *o, const double *d, float *rgb)
{
    static const double low[3] = { 0.15, -0.55, 0.1 }, high[3] = { 0.7, 0.15, 0.65 };
    static const double light[3] = { 0.36, 0.8, 0.48 };
    double best = 1e30, normal[3] = { 0, 1, 0 }, colour[3] = { 1, 1, 1 }, b = 0, c = -0.45 * 0.45, t;
    double in = 0, out = 1e30;
    int k, axis = 0;
    for (k = 0; k < 3; k++) {               /* a ball */
        const double p = o[k] - (k == 0 ? -0.3 : k == 1 ? -0.1 : -0.2);
        b += p * d[k];
        c += p * p;
    }
    if (b * b > c && (t = -b - sqrt(b * b - c)) > 0) {
        best = t;
        for (k = 0; k < 3; k++) normal[k] = (o[k] + t * d[k] - (k == 0 ? -0.3 : k == 1 ? -0.1 : -0.2)) / 0.45;
        for (k = 0; k < 3; k++) colour[k] = 0.5 + 0.5 * normal[k];
    }
    for (k = 0; k < 3; k++) {               /* a box */
        const double u = (low[k] - o[k]) / d[k], v = (high[k] - o[k]) / d[k];
        if ((u < v ? u : v) > in) {
            in = u < v ? u : v;
            axis = k;
        }
        out = (u > v ? u : v) < out ? (u > v ? u : v) : out;
    }
    if (in < out && in > 0 && in < best) {
        best = in;
        for (k = 0; k < 3; k++) normal[k] = k == axis ? (d[k] > 0 ? -1 : 1) : 0;
        colour[0] = 0.9;
        colour[1] = axis == 1 ? 0.8 : 0.3;
        colour[2] = axis == 2 ? 0.7 : 0.2;
    }
    t = (-0.6 - o[1]) / d[1];               /* a chequered floor */
    if (t > 0 && t < best && fabs(o[0] + t * d[0]) < 0.85 && fabs(o[2] + t * d[2]) < 0.85) {
        const int dark = ((int)floor((o[0] + t * d[0]) * 4) + (int)floor((o[2] + t * d[2]) * 4)) & 1;
        best = t;
        normal[0] = normal[2] = 0;
        normal[1] = 1;
        for (k = 0; k < 3; k++) colour[k] = dark ? 0.25 : 0.85;
    }
    for (b = 0, k = 0; k < 3; k++) b += normal[k] * light[k];
    for (k = 0; k < 3; k++) rgb[k] = best < 1e30 ? (float)(colour[k] * (0.45 + 0.55 * (b > 0 ? b : 0))) : 1.0f;
}

/* pictures from places around the scene, all looking at its middle */
static void shoot(const job *j, shots *s, int n, double turn)
{
    const int size = j->image;
    int v, y, x, k;
    s->n = n;
    s->rays = (float *)need(malloc((size_t)(n * size * size) * 6 * sizeof(float)));
    s->colours = (float *)need(malloc((size_t)(n * size * size) * 3 * sizeof(float)));
    for (v = 0; v < n; v++) {
        const double a = turn + 2.399963 * v, up = 0.15 + 0.75 * (v + 0.5) / n, r = 3.0;
        const double o[3] = { r * cos(a) * cos(up), r * sin(up) - 0.15, r * sin(a) * cos(up) };
        const double f[3] = { -cos(a) * cos(up), -sin(up), -sin(a) * cos(up) }, right[3] = { -sin(a), 0, cos(a) };
        const double top[3] = { right[1] * f[2] - right[2] * f[1], right[2] * f[0] - right[0] * f[2],
                                right[0] * f[1] - right[1] * f[0] };
        for (y = 0; y < size; y++)
            for (x = 0; x < size; x++) {
                const int at = (v * size + y) * size + x;
                const double px = ((x + 0.5) / size - 0.5) * 0.8, py = (0.5 - (y + 0.5) / size) * 0.8;
                double d[3], length = 0;
                for (k = 0; k < 3; k++) {
                    d[k] = f[k] + px * right[k] - py * top[k];
                    length += d[k] * d[k];
                }
                for (k = 0; k < 3; k++) {
                    d[k] /= sqrt(length);
                    s->rays[6 * at + k] = (float)o[k];
                    s->rays[6 * at + 3 + k] = (float)d[k];
                }
                scene(o, d, s->colours + 3 * at);
            }
    }
}

/* ---- training and judging */

static int progress(void *user, const tgnn_nerf_fit_state *s)
{
    const job *j = (const job *)user;
    const int64_t every = s->steps / 8 > 1 ? s->steps / 8 : 1;
    if (!j->quiet && (s->step == 1 || s->step % every == 0))
        printf("%s: step %5d  loss %.5f  %6.1f s\n", j->stage, (int)s->step, s->loss,
               (double)(tiny_now_ns() - j->began) / 1e9);
    if (j->quiet) show_progress(NULL, j->stage, (double)s->step / (double)s->steps);
    (void)fflush(stdout);
    return stopped_by != 0;
}

static tiny_status teach(job *j, tgnn_nerf *net, int steps, int size, const char *stage)
{
    const int n = j->learn.n * j->image * j->image;
    const tiny_tensor rays = tiny_tensor_2d(j->learn.rays, TINY_F32, n, 6),
                      colours = tiny_tensor_2d(j->learn.colours, TINY_F32, n, 3);
    tgnn_nerf_fit_desc d;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.rays = &rays;
    d.colours = &colours;
    d.batch = j->batch;
    d.steps = steps;
    d.size[0] = d.size[1] = d.size[2] = size;
    d.variation = 1e-4;
    d.entropy = 0.01;
    d.seed = j->seed;
    d.callback = progress;
    d.user = j;
    j->stage = stage;
    st = tgnn_nerf_fit(j->ctx, net, &d);
    end_progress();
    return st;
}

/* a rough shape: half of the corners on each axis, then all */
static tiny_status sketch(job *j, tgnn_nerf **out)
{
    tgnn_nerf_desc d = j->desc;
    const int size = (int)d.size[0];
    tiny_status st;
    d.net = TGNN_NERF_DIRECT;
    d.features = 3;
    d.bound = 1e-4;                         /* below the alpha of a sample at first, else nothing is learnt */
    d.size[0] = d.size[1] = d.size[2] = size / 2 > 2 ? size / 2 : 2;
    st = tgnn_nerf_open(j->ctx, &d, out);
    return st ? st : teach(j, *out, j->rough, size, "rough shape");
}

static tiny_status learn(job *j, const tgnn_nerf *rough, tgnn_nerf **out)
{
    tiny_status st = tgnn_nerf_open(j->ctx, &j->desc, out);
    if (!st) st = tgnn_nerf_shape(j->ctx, *out, rough);
    return st ? st : teach(j, *out, j->steps, 0, "training");
}

/* processor time of one new view */
static tiny_status stopwatch(job *j, const tgnn_nerf *net, float *seen, double *seconds)
{
    const int each = j->image * j->image;
    const tiny_tensor rays = tiny_tensor_2d(j->judge.rays, TINY_F32, each, 6), to = tiny_tensor_2d(seen, TINY_F32,
                                                                                                   each, 3);
    const clock_t began = clock();
    const tiny_status st = tgnn_nerf_render(j->ctx, net, &rays, &to, NULL);
    *seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    return st;
}

static tiny_status look(job *j, const tgnn_nerf *net, result *r, float *seen)
{
    const int each = j->image * j->image;
    tiny_status st;
    const tiny_tensor rays = tiny_tensor_2d(j->judge.rays, TINY_F32, j->judge.n * each, 6),
                      to = tiny_tensor_2d(seen, TINY_F32, j->judge.n * each, 3);
    int v, i;
    st = tgnn_nerf_render(j->ctx, net, &rays, &to, &r->count);
    for (r->psnr = 0, v = 0; v < j->judge.n; v++) {
        double sum = 0;
        for (i = 3 * v * each; i < 3 * (v + 1) * each; i++)
            sum += ((double)seen[i] - (double)j->judge.colours[i]) * ((double)seen[i] - (double)j->judge.colours[i]);
        r->psnr -= 10 * log10(sum / (3 * each) + 1e-30) / j->judge.n;
    }
    return st;
}

/* ---- pictures */

static tiny_status draw(job *j, const char *path, const float *seen)
{
    const int size = j->image, big = 300 / size > 1 ? 300 / size : 1, part = size * big;
    picture p;
    unsigned char *bytes;
    size_t n;
    tiny_status st;
    int y, x, k;
    if (!picture_open(&p, 3 * part + 12, part)) return TINY_E_MEMORY;
    for (y = 0; y < part; y++)
        for (x = 0; x < part; x++) {
            const int at = 3 * ((y / big) * size + x / big);
            const float *a = j->judge.colours + at, *b = seen + at;
            double e = 0;
            picture_put(&p, x, y, (double)a[0], (double)a[1], (double)a[2]);
            picture_put(&p, part + 6 + x, y, (double)b[0], (double)b[1], (double)b[2]);
            for (k = 0; k < 3; k++) e += fabs((double)a[k] - (double)b[k]) / 3;
            picture_scale(&p, 2 * part + 12 + x, y, 4 * e);
        }
    n = picture_png(&p, &bytes);
    picture_close(&p);
    st = n ? tiny_file_write(j->ctx, path, bytes, n) : TINY_E_MEMORY;
    free(bytes);
    return st;
}

/* bars of multiply-adds and additions in the model of energy, with the quality of each */
static tiny_status bars(job *j, const char *path, const char *const *name, const result *r, int n)
{
    char text[6000];
    size_t at = 0;
    int i;
    double most = 0;
    for (i = 0; i < n; i++) most = fmax(most, tgnn_nerf_energy(&r[i].count));
#define PUT(...) at += (size_t)snprintf(text + at, at < sizeof text ? sizeof text - at : 0, __VA_ARGS__)
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"13\"><rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"12\" y=\"22\">Modelled energy of the colour network for a point (45 nm), and quality of new "
        "views</text>\n", 70 + 34 * n);
    for (i = 0; i < n; i++) {
        const double points = (double)r[i].count.points + 1e-30, scale = 360 / (most + 1e-30);
        const double a = 4.6e-12 * (double)r[i].count.multiply_adds * scale,
                     b = 0.9e-12 * (double)r[i].count.additions * scale;
        PUT("<text x=\"12\" y=\"%d\">%s</text><rect x=\"170\" y=\"%d\" width=\"%.1f\" height=\"20\" fill=\"#3b6ea5\"/>"
            "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"20\" fill=\"#e0902f\"/>"
            "<text x=\"%.1f\" y=\"%d\">%.1f nJ, %.1f dB</text>\n", 52 + 34 * i, name[i], 37 + 34 * i, a, 170 + a,
            37 + 34 * i, b, 176 + a + b, 52 + 34 * i, 1e9 * tgnn_nerf_energy(&r[i].count) / points, r[i].psnr);
    }
    PUT("<rect x=\"170\" y=\"%d\" width=\"12\" height=\"12\" fill=\"#3b6ea5\"/><text x=\"188\" y=\"%d\">multiply-adds"
        "</text><rect x=\"300\" y=\"%d\" width=\"12\" height=\"12\" fill=\"#e0902f\"/>"
        "<text x=\"318\" y=\"%d\">additions</text>\n</svg>\n", 44 + 34 * n, 55 + 34 * n, 44 + 34 * n, 55 + 34 * n);
#undef PUT
    return at < sizeof text ? tiny_file_write(j->ctx, path, text, at) : TINY_E_OVERFLOW;
}

/* ---- commands */

static tiny_status table(job *j, int seeds, const char *svg)
{
    static const struct { const char *name; int net, time, flip; } row[] = {
        { "float", TGNN_NERF_FLOAT, 0, 0 },
        { "TCP", TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 0 },
        { "TCP, far to near", TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 1 },
        { "TP", TGNN_NERF_SPIKES, TGNN_NERF_PADDED, 0 },
        { "repeated inputs", TGNN_NERF_REPEAT, 0, 0 }
    };
    enum { ROWS = 5 };
    float *seen = (float *)need(malloc((size_t)(j->test * j->image * j->image) * 3 * sizeof *seen));
    const char *name[ROWS];
    result r[ROWS];
    tiny_status st = TINY_OK;
    int k, i;
    j->quiet = 1;
    puts("seed network            PSNR dB  points/ray  spikes 1  spikes 2  nJ/point   energy    view s  as tensors s");
    for (k = 0; k < seeds && !st && !stopped_by; k++, j->seed++) {
        tgnn_nerf *rough = NULL;
        st = sketch(j, &rough);
        for (i = 0; i < ROWS && !st; i++) {
            tgnn_nerf *net = NULL, *padded = NULL;
            double points, most, as_tensors = 0;
            j->desc.net = row[i].net;
            j->desc.time = row[i].time;
            j->desc.flip = row[i].flip;
            j->desc.seed = j->seed;
            st = learn(j, rough, &net);
            if (!st) st = look(j, net, &r[i], seen);
            if (!st) st = stopwatch(j, net, seen, &r[i].seconds);
            /* the same weights with every ray as long as the longest */
            if (!st && row[i].net == TGNN_NERF_SPIKES) {
                size_t n = 0, p;
                const tiny_param *from = tgnn_nerf_params(net, &n), *to;
                j->desc.padded = 1;
                st = tgnn_nerf_open(j->ctx, &j->desc, &padded);
                j->desc.padded = 0;
                to = tgnn_nerf_params(padded, &n);
                for (p = 0; p < n && !st; p++) st = tiny_copy(j->ctx, &from[p].value, &to[p].value);
                if (!st) st = tgnn_nerf_cull(j->ctx, padded, NULL);
                if (!st) st = stopwatch(j, padded, seen, &as_tensors);
            }
            tgnn_nerf_close(padded);
            tgnn_nerf_close(net);
            if (st) break;
            name[i] = row[i].name;
            points = (double)r[i].count.points + 1e-30;
            most = (double)r[i].count.steps - (double)r[i].count.gap_steps + 1e-30;
            printf("%-4d %-18s %8.2f %11.2f %9.3f %9.3f %9.2f %7.1f%% %9.3f", (int)j->seed, row[i].name, r[i].psnr,
                   points / (double)r[i].count.rays, (double)r[i].count.spikes[0] / most / (double)j->desc.hidden,
                   (double)r[i].count.spikes[1] / most / (double)j->desc.hidden,
                   1e9 * tgnn_nerf_energy(&r[i].count) / points,
                   100 * tgnn_nerf_energy(&r[i].count) / points /
                       (tgnn_nerf_energy(&r[0].count) / ((double)r[0].count.points + 1e-30) + 1e-30), r[i].seconds);
            if (as_tensors > 0) printf("  %9.3f", as_tensors);
            putchar('\n');
            (void)fflush(stdout);
        }
        tgnn_nerf_close(rough);
    }
    if (!st && svg && !stopped_by) st = bars(j, svg, name, r, ROWS);
    free(seen);
    return st;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    job j;
    const char *kind = "spikes", *order = "condensed", *out = NULL, *show = NULL, *svg = NULL, *file = NULL;
    int command = 0, seeds = 1, size = 48, k;
    tgnn_nerf *rough = NULL, *net = NULL;
    tiny_status st;
    memset(&j, 0, sizeof j);
    j.image = 100;
    j.views = 20;
    j.test = 5;
    j.rough = 500;
    j.steps = 600;
    j.batch = 128;
    j.seed = 1;
    j.desc.alpha = 1e-3;
    j.desc.bound = 1e-3;
    j.desc.hidden = 128;
    j.desc.repeats = 4;
    {
        const option options[] = { A_COMMAND("train run table", &command), A_WORD("FILE", &file),
                                   A_TEXT("--net", &kind), A_TEXT("--time", &order), A_FLAG("--flip", &j.desc.flip),
                                   A_FLAG("--leak", &j.desc.learn_leak), A_WHOLE("--repeats", &j.desc.repeats, 1, 64),
                                   A_WHOLE("--size", &size, 4, 256), A_WHOLE("--image", &j.image, 8, 1024),
                                   A_WHOLE("--views", &j.views, 1, 200), A_WHOLE("--test", &j.test, 1, 100),
                                   A_WHOLE("--hidden", &j.desc.hidden, 32, 512),
                                   A_WHOLE("--rough", &j.rough, 1, 1000000), A_WHOLE("--steps", &j.steps, 1, 1000000),
                                   A_WHOLE("--batch", &j.batch, 1, 65536),
                                   A_WHOLE("--seeds", &seeds, 1, 100), A_TEXT("--out", &out),
                                   A_TEXT("--picture", &show), A_TEXT("--svg", &svg), A_SEED("--seed", &j.seed),
                                   A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    j.desc.net = place_in("spikes float repeat direct", kind);
    if (j.desc.net < 0) return wrong(kind, "the network must be spikes, float, repeat or direct");
    j.desc.time = place_in("condensed padded", order);
    if (j.desc.time < 0) return wrong(order, "the time must be condensed or padded");
    if ((command == 1) != (file != NULL)) return refused("run needs a FILE, train and table need none");
    if (j.desc.hidden % 32) return refused("--hidden: %d is no multiple of 32", j.desc.hidden);
    if (out && command) return refused("--out is for train");
    if (svg && command != 2) return refused("--svg is for table");
    if (show && command == 2) return refused("--picture is for train and run");
    if (must_not_write(out, 0) || must_not_write(show, 2, file, out) || must_not_write(svg, 0)) return 2;
    for (k = 0; k < 3; k++) {
        j.desc.size[k] = size;
        j.desc.background[k] = 1;
    }
    j.desc.seed = j.seed;
    desc.user = &j.ctx;
    desc.log = hear;
    stop_on_signals();
    desc.cancel = cancelled;
    st = tiny_ctx_open(&desc, &j.ctx);
    if (st) return 1;
    shoot(&j, &j.judge, j.test, 0.4);
    if (!file) shoot(&j, &j.learn, j.views, 0);
    j.began = tiny_now_ns();
    if (command == 2) st = table(&j, seeds, svg);
    else {
        float *seen = (float *)need(malloc((size_t)(j.test * j.image * j.image) * 3 * sizeof *seen));
        result r;
        if (file) st = tgnn_nerf_load(j.ctx, file, &net);
        else st = sketch(&j, &rough);
        if (!st && !file) st = learn(&j, rough, &net);
        if (!st) st = tgnn_nerf_cull(j.ctx, net, NULL);
        if (!st) st = look(&j, net, &r, seen);
        if (!st)
            printf("%d new views: PSNR %.2f dB, %.1f points a ray, %.2f nJ a point in the model of energy\n", j.test,
                   r.psnr, (double)r.count.points / (double)r.count.rays,
                   1e9 * tgnn_nerf_energy(&r.count) / ((double)r.count.points + 1e-30));
        if (!st && out) st = tgnn_nerf_save(j.ctx, net, out);
        if (!st && show) st = draw(&j, show, seen);
        free(seen);
    }
    if (st && !stopped_by) say(*tiny_ctx_message(j.ctx) ? tiny_ctx_message(j.ctx) : tiny_status_text(st));
    tgnn_nerf_close(rough);
    tgnn_nerf_close(net);
    free(j.learn.rays);
    free(j.learn.colours);
    free(j.judge.rays);
    free(j.judge.colours);
    tiny_ctx_close(j.ctx);
    return exit_status(st != TINY_OK);
}
