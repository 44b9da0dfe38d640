/* examples/wave.c - trains small networks to run waves ahead, with ordinary and with compressed convolutions
 *
 *     wave train --kind oneway --rank 2 --out wave.box --picture wave.png
 *     wave run wave.box --picture wave.png
 *     wave table --train 50                       all kinds beside each other, and compression after training
 *
 * The data are waves in a random medium from random bumps, solved here by leapfrog: the network sees the field, the one
 * a step before, and the speed at each point, and gives the field some steps later. The picture has the field that it
 * sees, the solution, the prediction and four times the error side by side, blue below 0 and red above. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "wave"
#include "options.h"
#include "picture.h"
#include <math.h>

static const char usage[] =
    "wave train [options]       trains a network and prints its error on new waves\n"
    "wave run FILE [options]    runs a trained network on new waves\n"
    "wave table [options]       trains all kinds of networks and prints a table\n"
    "  --kind NAME       dense, oneway, separable or cp; default: oneway\n"
    "  --rank N          one-way products of each output channel; cp: of a layer; default: 2 (cp: the width)\n"
    "  --width N         channels; default: 32\n"
    "  --levels N        halvings of the field inside, 0 to 6; default: 1\n"
    "  --taps N          of a filter along an axis, odd; default: 5\n"
    "  --size N          points of a side, a multiple of 2^levels; default: 64\n"
    "  --train N         trajectories to learn from; default: 200\n"
    "  --test N          new trajectories; default: 50\n"
    "  --pairs N         samples of a trajectory, 8 steps apart; default: 4\n"
    "  --ahead N         steps to predict; default: 8\n"
    "  --start N         the first step that is shown; default: 8\n"
    "  --epochs N        default: 20\n"
    "  --rate R          of Adam, falling to 0 along a cosine; default: 0.003, for factors (oneway, cp) 0.03\n"
    "  --batch N         default: 8\n"
    "  --after N         train and run: compresses a dense network to this rank after training; default: not\n"
    "  --out FILE        writes the network\n"
    "  --picture FILE    writes a picture of one new sample: PNG if the name ends with .png, else PPM\n"
    "  --seed N          default: 1\n"
    "  --threads N       default: one per processor\n";

typedef struct set { float *x, *y; int n; } set;    /* (n, 3, points), (n, 1, points) */
typedef struct work {
    tiny_ctx *ctx;
    tgnn_unet *net;
    tgnn_unet_desc desc;
    tgnn_wave_data data;
    int side, n_train, n_test, epochs, batch, quiet, shown;
    tiny_idx size[2], points;
    double rate, seconds;                   /* of an epoch */
    uint64_t seed, began;
    set train, test;
} work;

static tiny_status solve(work *w, const char *name, set *s, int trajectories, uint64_t first)
{
    const int each = (int)w->data.pairs;
    tiny_status st = TINY_OK;
    int i;
    s->n = trajectories * each;
    s->x = floats((tiny_idx)s->n * 3 * w->points);
    s->y = floats((tiny_idx)s->n * w->points);
    for (i = 0; !st && !stopped_by && i < trajectories; i++) {
        const tiny_tensor x = tiny_tensor_3d(s->x + (tiny_idx)i * each * 3 * w->points, TINY_F32, each, 3, w->points),
                          y = tiny_tensor_3d(s->y + (tiny_idx)i * each * w->points, TINY_F32, each, 1, w->points);
        st = tgnn_wave_samples(w->ctx, &w->data, w->seed, first + (uint64_t)i, &x, &y);
        show_progress(NULL, name, (double)i / trajectories);
    }
    end_progress();
    return st;
}

static tiny_tensor loss_of(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    work *w = (work *)user;
    const tiny_tensor in = tiny_tensor_3d(w->train.x, TINY_F32, w->train.n, 3, w->points),
                      out = tiny_tensor_3d(w->train.y, TINY_F32, w->train.n, 1, w->points);
    const tiny_tensor x = tiny_tape_rows(tape, &in, sample, n), t = tiny_tape_rows(tape, &out, sample, n);
    const tiny_tensor y = tgnn_tape_unet(tape, w->net, &x, w->size);
    return tgnn_tape_relative_l2(tape, &y, &t);
}

static int progress(void *user, const tiny_train_state *s)
{
    work *w = (work *)user;
    const int64_t each = s->steps / w->epochs;
    const double spent = (double)(tiny_now_ns() - w->began) / 1e9;
    w->seconds = spent / (double)s->step * (double)each;
    if (w->quiet) show_progress(NULL, "training", (double)s->step / (double)s->steps);
    else if (s->step % each == 0 || (s->step == 1 && each > 20)) {
        printf("epoch %3d  loss %.4f  %5.1f s\n", (int)(s->step / each), s->loss, spent);
        (void)fflush(stdout);
    }
    return stopped_by != 0;
}

static tiny_status teach(work *w)
{
    const int kind = tgnn_unet_description(w->net)->kind;
    tiny_train_desc d;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.params = tgnn_unet_params(w->net, &d.n_params);
    d.model = loss_of;
    d.callback = progress;
    d.user = w;
    d.n_samples = (uint32_t)w->train.n;
    d.batch = w->batch < w->train.n ? w->batch : w->train.n;
    d.epochs = w->epochs;
    d.seed = w->seed;
    d.optim.group[0].lr = w->rate > 0 ? w->rate : kind == TGNN_UNET_ONEWAY || kind == TGNN_UNET_CP ? 0.03 : 0.003;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    w->began = tiny_now_ns();
    st = tiny_train(w->ctx, &d, NULL);
    if (w->quiet) end_progress();
    return st;
}

/* the mean of |prediction - solution| / |solution|; the predictions stay in got; ms of a sample */
static tiny_status judge(work *w, const tgnn_unet *net, const set *s, float *got, double *error, double *ms)
{
    const tiny_tensor x = tiny_tensor_3d(s->x, TINY_F32, s->n, 3, w->points),
                      y = tiny_tensor_3d(got, TINY_F32, s->n, 1, w->points);
    const uint64_t began = tiny_now_ns();
    const tiny_status st = tgnn_unet_run(w->ctx, net, &x, w->size, &y);
    tiny_idx i, k;
    *ms = (double)(tiny_now_ns() - began) / 1e6 / s->n;
    for (*error = 0, i = 0; !st && i < s->n; i++) {
        double a = 0, b = 0;
        for (k = 0; k < w->points; k++) {
            const double t = (double)s->y[i * w->points + k], e = (double)got[i * w->points + k] - t;
            a += e * e;
            b += t * t;
        }
        *error += sqrt(a / b) / s->n;
    }
    return st;
}

/* ---- pictures */

static void colour(picture *p, int x, int y, double v)
{
    const double t = v < -1 ? -1 : v > 1 ? 1 : v;
    picture_put(p, x, y, t < 0 ? 1 + t : 1 - 0.3 * t * t, 1 - fabs(t), t > 0 ? 1 - t : 1 - 0.3 * t * t);
}

static tiny_status draw(work *w, const char *path, const float *got)
{
    enum { SIDE = 192, GAP = 6, WIDE = 4 * SIDE + 3 * GAP };
    const tiny_idx n = w->side, s = w->shown;
    const float *field[3];
    double most = 1e-30;
    unsigned char *bytes = NULL;
    size_t n_bytes;
    picture p;
    tiny_status st;
    tiny_idx i;
    int r, c, k;
    field[0] = w->test.x + s * 3 * w->points;
    field[1] = w->test.y + s * w->points;
    field[2] = got + s * w->points;
    for (i = 0; i < w->points; i++) most = fmax(most, fabs((double)field[1][i]));
    if (!picture_open(&p, WIDE, SIDE)) return TINY_E_MEMORY;
    for (k = 0; k < 4; k++)
        for (r = 0; r < SIDE; r++)
            for (c = 0; c < SIDE; c++) {
                const tiny_idx at = r * n / SIDE * n + c * n / SIDE;
                const double v = k < 3 ? (double)field[k][at] : 4 * ((double)field[2][at] - (double)field[1][at]);
                colour(&p, k * (SIDE + GAP) + c, r, v / most);
            }
    if (has_end(path, ".png")) n_bytes = picture_png(&p, &bytes);
    else {
        bytes = (unsigned char *)malloc((size_t)WIDE * SIDE * 3 + 64);
        n_bytes = bytes ? (size_t)snprintf((char *)bytes, 64, "P6 %d %d 255\n", (int)WIDE, (int)SIDE) : 0;
        if (bytes) memcpy(bytes + n_bytes, p.rgb, (size_t)WIDE * SIDE * 3);
        if (bytes) n_bytes += (size_t)WIDE * SIDE * 3;
    }
    st = bytes ? tiny_file_write(w->ctx, path, bytes, n_bytes) : TINY_E_MEMORY;
    free(bytes);
    picture_close(&p);
    return st;
}

/* ---- commands */

static tiny_status row(work *w, const tgnn_unet *net, const char *name, double dense, float *got)
{
    double train = 0, test = 0, ms = 0, unused = 0;
    tiny_status st = judge(w, net, &w->train, got, &train, &unused);
    if (!st) st = judge(w, net, &w->test, got, &test, &ms);
    if (st) return st;
    printf("%-18s %8.0f %7.1f %13.4f %10.4f %6.2f ", name, tgnn_unet_count(net), dense / tgnn_unet_count(net), train,
           test, test / train);
    if (w->seconds > 0) printf("%8.2f", w->seconds);
    else printf("%8s", "-");
    printf(" %8.3f %8.1f\n", ms, tgnn_unet_flops(net, w->size) / 1e6);
    (void)fflush(stdout);
    return TINY_OK;
}

static tiny_status table(work *w, float *got)
{
    static const struct { int kind, rank; const char *name; } kinds[] = {
        { TGNN_UNET_DENSE, 0, "dense" },        { TGNN_UNET_ONEWAY, 1, "oneway 1" },
        { TGNN_UNET_ONEWAY, 2, "oneway 2" },    { TGNN_UNET_ONEWAY, 4, "oneway 4" },
        { TGNN_UNET_SEPARABLE, 0, "separable" }, { TGNN_UNET_CP, 0, "cp, shared" }
    };
    static const int after[] = { 1, 2, 4 };
    double dense = 1;
    tiny_status st = TINY_OK;
    size_t i, k;
    w->quiet = 1;
    puts("                     numbers   fewer  error learnt  error new  ratio  s/epoch  ms/field   Mflops");
    for (i = 0; !st && !stopped_by && i < sizeof kinds / sizeof *kinds; i++) {
        w->desc.kind = kinds[i].kind;
        w->desc.rank = kinds[i].rank;
        w->seconds = 0;
        st = tgnn_unet_open(w->ctx, &w->desc, &w->net);
        if (!st) st = teach(w);
        if (st || stopped_by) break;
        if (i == 0) dense = tgnn_unet_count(w->net);
        st = row(w, w->net, kinds[i].name, dense, got);
        w->seconds = 0;
        for (k = 0; i == 0 && !st && k < sizeof after / sizeof *after; k++) {
            tgnn_unet *small = NULL;
            char name[32];
            st = tgnn_unet_compress(w->ctx, w->net, after[k], &small, NULL);
            (void)snprintf(name, sizeof name, "after training, %d", after[k]);
            if (!st) st = row(w, small, name, dense, got);
            tgnn_unet_close(small);
        }
        tgnn_unet_close(w->net);
        w->net = NULL;
    }
    return st;
}

static tiny_status compress(work *w, int rank)
{
    tgnn_unet *small = NULL;
    double error = 0;
    const tiny_status st = tgnn_unet_compress(w->ctx, w->net, rank, &small, &error);
    if (st) return st;
    printf("compressed to rank %d: %.0f numbers instead of %.0f, error of the kernels up to %.3f\n", rank,
           tgnn_unet_count(small), tgnn_unet_count(w->net), error);
    tgnn_unet_close(w->net);
    w->net = small;
    return TINY_OK;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    work w;
    const char *kind = "oneway", *out = NULL, *show = NULL, *file = NULL;
    int command = 0, width = 32, levels = 1, taps = 5, rank = 0, pairs = 4, ahead = 8, start = 8, after = 0;
    double error = 0, ms = 0;
    float *got = NULL;
    tiny_status st;
    memset(&w, 0, sizeof w);
    w.side = 64;
    w.n_train = 200;
    w.n_test = 50;
    w.epochs = 20;
    w.batch = 8;
    w.seed = 1;
    {
        const option options[] = { A_COMMAND("train run table", &command), A_WORD("FILE", &file),
                                   A_TEXT("--kind", &kind), A_WHOLE("--rank", &rank, 1, 1024),
                                   A_WHOLE("--width", &width, 1, 1024), A_WHOLE("--levels", &levels, 0, 6),
                                   A_WHOLE("--taps", &taps, 1, 63), A_WHOLE("--size", &w.side, 4, 4096),
                                   A_WHOLE("--train", &w.n_train, 1, 100000), A_WHOLE("--test", &w.n_test, 1, 100000),
                                   A_WHOLE("--pairs", &pairs, 1, 1000), A_WHOLE("--ahead", &ahead, 1, 100000),
                                   A_WHOLE("--start", &start, 0, 100000), A_WHOLE("--epochs", &w.epochs, 1, 100000),
                                   A_NUMBER("--rate", &w.rate, 1e-9, 10), A_WHOLE("--batch", &w.batch, 1, 4096),
                                   A_WHOLE("--after", &after, 1, 1024), A_TEXT("--out", &out),
                                   A_TEXT("--picture", &show), A_SEED("--seed", &w.seed),
                                   A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    if (must_not_write(out, 1, file) || must_not_write(show, 1, file) || same_output(out, show)) return 2;
    w.desc.kind = place_in("dense oneway separable cp", kind);
    if (w.desc.kind < 0) return wrong(kind, "the kind must be dense, oneway, separable or cp");
    if ((command == 1) != (file != NULL)) return refused("run needs a FILE, train and table need none");
    if (after && command == 0 && w.desc.kind != TGNN_UNET_DENSE)
        return refused("--after: only a dense network is compressed after training");
    if (command == 2 && (out || show || after)) return refused("table takes no --out, --picture and --after");
    if (!file && (taps % 2 == 0 || w.side % (1 << levels) || w.side < taps << levels))
        return refused("--size %d, --taps %d, --levels %d: the taps must be odd, the size a multiple of %d, %d or more",
                       w.side, taps, levels, 1 << levels, taps << levels);
    w.size[0] = w.size[1] = w.side;
    w.points = (tiny_idx)w.side * w.side;
    w.desc.n_in = 3;
    w.desc.n_out = 1;
    w.desc.width = width;
    w.desc.levels = levels ? levels : -1;
    w.desc.k = taps;
    w.desc.rank = rank ? rank : w.desc.kind == TGNN_UNET_ONEWAY ? 2 : 0;
    w.desc.seed = w.seed;
    w.data.n = w.side;
    w.data.pairs = pairs;
    w.data.ahead = ahead;
    w.data.start = start;
    desc.user = &w.ctx;
    desc.log = hear;
    stop_on_signals();
    desc.cancel = cancelled;
    st = tiny_ctx_open(&desc, &w.ctx);
    if (st) return 1;
    if (file) st = tgnn_unet_load(w.ctx, file, &w.net);
    else if (command == 0) st = tgnn_unet_open(w.ctx, &w.desc, &w.net);
    if (!st && !file) st = solve(&w, "waves to learn from", &w.train, w.n_train, 0);
    if (!st) st = solve(&w, "new waves", &w.test, w.n_test, 1000000);
    if (!st && !stopped_by) {
        got = floats((tiny_idx)(w.train.n > w.test.n ? w.train.n : w.test.n) * w.points);
        if (command == 2) st = table(&w, got);
        else if (!file) {
            printf("%d x %d points, %d samples of %d waves, %d steps ahead; %s, %.0f numbers\n", w.side, w.side,
                   w.train.n, w.n_train, ahead, kind, tgnn_unet_count(w.net));
            st = teach(&w);
        }
        if (!st && after) st = compress(&w, after);
    }
    if (!st && !stopped_by && command != 2) {
        w.shown = w.test.n > 1 ? 1 : 0;
        st = judge(&w, w.net, &w.test, got, &error, &ms);
        if (!st) printf("error on %d new samples: %.4f, %.2f ms each\n", w.test.n, error, ms);
        if (!st && out) st = tgnn_unet_save(w.ctx, w.net, out);
        if (!st && show) st = draw(&w, show, got);
    }
    if (st && !stopped_by) say(*tiny_ctx_message(w.ctx) ? tiny_ctx_message(w.ctx) : tiny_status_text(st));
    tgnn_unet_close(w.net);
    free(got);
    free(w.train.x);
    free(w.train.y);
    free(w.test.x);
    free(w.test.y);
    tiny_ctx_close(w.ctx);
    return exit_status(st != TINY_OK);
}
