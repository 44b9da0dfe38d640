/* examples/operator.c - trains Fourier neural operators on equations that it solves itself, and draws the results
 *
 *     operator train --problem darcy --kind tucker --ratio 0.1 --out darcy.safetensors --picture darcy.ppm
 *     operator run darcy.safetensors --problem darcy --picture darcy.ppm
 *     operator table --problem darcy              dense weights, compressed ones and patches, beside each other
 *
 * Problems: darcy (two materials, -div(k grad u) = 1, from k to u), burgers (u_t + u u_x = nu u_xx, from the start to
 * the end), vorticity (a forced flow in two dimensions, from the start to the end). All data come from --seed. The
 * picture has the input, the solution, the prediction and four times the error side by side (burgers: the solution in
 * black, the prediction in red). */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "operator"
#include "options.h"
#include "solvers.h"

static const char usage[] =
    "operator train [options]       trains a network and prints its error on new samples\n"
    "operator run FILE [options]    runs a trained network on new samples\n"
    "operator table [options]       trains several kinds of weights and prints a table\n"
    "  --problem NAME    darcy, burgers or vorticity; default: darcy\n"
    "  --size N          points of an axis; default: 32 (burgers 128); burgers and vorticity: a power of two\n"
    "  --train N         samples to learn from; default: 256\n"
    "  --test N          new samples; default: 64\n"
    "  --epochs N        default: 30\n"
    "  --width N         channels; default: 24\n"
    "  --blocks N        default: 4\n"
    "  --modes N         modes of an axis; default: 12\n"
    "  --kind NAME       dense, cp, tucker or tt; default: dense\n"
    "  --ratio R         numbers of the factors over those of the whole weight; default: 0.1\n"
    "  --levels N        multi-grid patches: 2^N for each axis (two dimensions); default: 0\n"
    "  --pad N           points around a patch; default: size / 16, with --levels\n"
    "  --rate R          of the optimiser; default: 0.008\n"
    "  --batch N         default: 16\n"
    "  --out FILE        writes the network (safetensors)\n"
    "  --picture FILE    writes a picture of one new sample (PPM)\n"
    "  --seed N          default: 1\n"
    "  --threads N       default: one per processor\n";

enum { DARCY, BURGERS, VORTICITY };
static const char *const problems = "darcy burgers vorticity";
static const char *const kinds[] = { "dense", "cp", "tucker", "tt" };

typedef struct set { float *x, *y, *in, *out; int n; } set;     /* fields; what the network reads and should give */
typedef struct work {
    tiny_ctx *ctx;
    tgnn_fno *net;
    tgnn_fno_desc desc;
    tgnn_patches patches;
    int problem, size, n_train, n_test, epochs, batch, levels, quiet;
    tiny_idx n_points, grid[2], n_in, n_pieces, n_piece, inner;     /* of a field; of what the network gets */
    double rate;
    uint64_t seed, began;
    set train, test;
} work;

/* ---- data */

static tiny_status solve(work *w, const char *name, set *s, int n, uint64_t first)
{
    const tiny_idx m = w->n_points;
    double *k = (double *)need(calloc((size_t)m * 6, sizeof *k));
    tgnn_random_field f;
    tiny_status st = TINY_OK;
    tiny_idx j;
    int i, ok = 1;
    s->n = n;
    s->x = floats(n * m);
    s->y = floats(n * m);
    memset(&f, 0, sizeof f);
    f.d = w->problem == BURGERS ? 1 : 2;
    f.size[0] = f.size[1] = w->size;
    f.alpha = w->problem == VORTICITY ? 4 : 2;      /* most of a flow must be in the modes that the network sees */
    f.scale = w->problem == VORTICITY ? 40 : 3;
    for (i = 0; !st && ok && i < n; i++) {
        float *x = s->x + i * m;
        const tiny_tensor t = tiny_tensor_2d(x, TINY_F32, 1, m);
        st = tgnn_random_fields(w->ctx, &f, w->seed, first + (uint64_t)i, &t);
        for (j = 0; j < m; j++) k[j] = w->problem == DARCY ? (x[j] > 0 ? 12.0 : 3.0) : (double)x[j];
        if (w->problem == DARCY) ok = darcy_solve(k, NULL, w->size, w->size, 1e-8, k + m, k + 2 * m) >= 0;
        else if (w->problem == BURGERS) ok = burgers_run(k, w->size, 0.01, 0.5, 4 * w->size);
        else ok = vorticity_run(k, w->size, 0.005, 0.3, 0.5, w->size);
        for (j = 0; j < m; j++) {           /* of about one size: k to -1 and 1, u times 50 */
            if (w->problem == DARCY) x[j] = k[j] > 7.5 ? 1.0f : -1.0f;
            s->y[i * m + j] = (float)(w->problem == DARCY ? 50 * k[m + j] : k[j]);
        }
        show_progress(NULL, name, (double)i / n);
    }
    end_progress();
    free(k);
    if (!ok) say("a sample could not be solved");
    return st ? st : ok ? TINY_OK : TINY_E_NUMERIC;
}

/* Patches with their coarse views, and the part of the solution inside them. A patch must know where it is, so the
 * coordinates are two channels of the field before it is cut. */
static tiny_status cut(work *w, set *s)
{
    const tiny_idx n = s->n * w->n_pieces, views = w->levels + 1;
    tgnn_patches plain = w->patches;
    tiny_tensor x, in, y, out;
    float *placed;
    tiny_status st;
    tiny_idx i;
    if (!w->levels) {
        s->in = s->x;
        s->out = s->y;
        return TINY_OK;
    }
    plain.pad[0] = plain.pad[1] = 0;
    placed = floats(s->n * w->n_points * 3);
    for (i = 0; i < s->n * w->n_points; i++) {
        placed[3 * i] = s->x[i];
        placed[3 * i + 1] = (float)(i % w->n_points / w->size) / (float)w->size;
        placed[3 * i + 2] = (float)(i % w->size) / (float)w->size;
    }
    s->in = floats(n * w->n_piece * w->n_in);
    s->out = floats(n * w->inner * views);
    x = tiny_tensor_3d(placed, TINY_F32, s->n, w->n_points, 3);
    in = tiny_tensor_3d(s->in, TINY_F32, n, w->n_piece, w->n_in);
    y = tiny_tensor_3d(s->y, TINY_F32, s->n, w->n_points, 1);
    out = tiny_tensor_3d(s->out, TINY_F32, n, w->inner, views);
    st = tgnn_patch_split(w->ctx, &w->patches, &x, &in);
    if (!st) st = tgnn_patch_split(w->ctx, &plain, &y, &out);
    for (i = 0; !st && i < n * w->inner; i++) s->out[i] = s->out[i * views];       /* level 0 alone */
    free(placed);
    return st;
}

/* ---- the network */

/* the points of a patch without those around it */
static tiny_tensor inside(work *w, tiny_tape *tape, const tiny_tensor *y)
{
    tiny_tensor t = *y;
    const tiny_idx p = w->patches.pad[0], h = w->grid[0] - 2 * p, dim[3] = { y->dim[0], w->inner, y->dim[2] };
    if (!p || !t.data) return t;
    t.rank = 4;
    t.data = (float *)t.data + (p * w->grid[1] + p) * y->stride[1];
    t.dim[1] = t.dim[2] = h;
    t.stride[1] = w->grid[1] * y->stride[1];
    t.stride[2] = y->stride[1];
    t.dim[3] = y->dim[2];
    t.stride[3] = y->stride[2];
    return tiny_tape_reshape(tape, &t, 3, dim);
}

static tiny_tensor loss_of(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    work *w = (work *)user;
    const tiny_tensor in = tiny_tensor_3d(w->train.in, TINY_F32, w->train.n * w->n_pieces, w->n_piece, w->n_in),
                      out = tiny_tensor_3d(w->train.out, TINY_F32, w->train.n * w->n_pieces, w->inner, 1);
    const tiny_tensor x = tiny_tape_rows(tape, &in, sample, n), t = tiny_tape_rows(tape, &out, sample, n);
    tiny_tensor y = tgnn_tape_fno(tape, w->net, &x, w->grid);
    y = inside(w, tape, &y);
    return tgnn_tape_relative_l2(tape, &y, &t);
}

/* the mean of |prediction - solution| / |solution|; the predictions stay in got, (n, points) */
static tiny_status judge(work *w, const set *s, float *got, double *error)
{
    const tiny_idx n = s->n * w->n_pieces;
    float *patch = w->levels ? floats(n * w->n_piece) : got;
    const tiny_tensor in = tiny_tensor_3d(s->in, TINY_F32, n, w->n_piece, w->n_in),
                      y = tiny_tensor_3d(patch, TINY_F32, n, w->n_piece, 1),
                      whole = tiny_tensor_3d(got, TINY_F32, s->n, w->n_points, 1);
    tiny_status st = tgnn_fno_run(w->ctx, w->net, &in, w->grid, &y);
    tiny_idx i, k;
    if (!st && w->levels) st = tgnn_patch_join(w->ctx, &w->patches, &y, &whole);
    if (w->levels) free(patch);
    for (*error = 0, i = 0; !st && i < s->n; i++) {
        double a = 0, b = 0;
        for (k = 0; k < w->n_points; k++) {
            const double t = (double)s->y[i * w->n_points + k], e = (double)got[i * w->n_points + k] - t;
            a += e * e;
            b += t * t;
        }
        *error += sqrt(a / b) / s->n;
    }
    return st;
}

static int progress(void *user, const tiny_train_state *s)
{
    const work *w = (const work *)user;
    const int64_t per_epoch = s->steps / w->epochs;
    if (!w->quiet && (s->step % (5 * per_epoch) == 0 || s->step == 1))
        printf("epoch %3d  loss %.4f  %5.1f s\n", (int)(s->step / per_epoch), s->loss,
               (double)(tiny_now_ns() - w->began) / 1e9);
    (void)fflush(stdout);
    return stopped_by != 0;
}

static tiny_status teach(work *w)
{
    tiny_train_desc d;
    memset(&d, 0, sizeof d);
    d.params = tgnn_fno_params(w->net, &d.n_params);
    d.model = loss_of;
    d.callback = progress;
    d.user = w;
    d.n_samples = (uint32_t)(w->train.n * w->n_pieces);
    d.batch = TINY_IDX_MAX;
    if (d.batch > w->batch) d.batch = w->batch;
    d.epochs = w->epochs;
    d.seed = w->seed;
    d.optim.group[0].lr = w->rate;
    d.optim.group[0].decay = 1e-4;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    w->began = tiny_now_ns();
    return tiny_train(w->ctx, &d, NULL);
}

/* ---- pictures */

static void colour(unsigned char *to, double x)
{
    const double t = x < 0 ? 0 : x > 1 ? 1 : x;
    to[0] = (unsigned char)(255 * (t < 0.5 ? 0.1 + 0.4 * t : 0.3 + 1.3 * (t - 0.5) + 0.1 * (t - 0.5)));
    to[1] = (unsigned char)(255 * (0.05 + 0.9 * t));
    to[2] = (unsigned char)(255 * (t < 0.5 ? 0.35 + 0.5 * t : 0.6 - 0.9 * (t - 0.5)));
}

static tiny_status picture(work *w, const char *path, const float *got)
{
    enum { SIDE = 160, GAP = 4 };
    const int flat = w->problem == BURGERS, n = w->size, across = flat ? 640 : 4 * SIDE + 3 * GAP;
    const size_t bytes = (size_t)(across * SIDE) * 3 + 32;
    unsigned char *all = (unsigned char *)need(malloc(bytes));
    const size_t head = (size_t)snprintf((char *)all, 32, "P6 %d %d 255\n", across, (int)SIDE);
    const float *field[3];
    double low = 1e30, high = -1e30, x_low = 1e30, x_high = -1e30;
    tiny_status st;
    int i, r, c, k;
    field[0] = w->test.x;
    field[1] = w->test.y;
    field[2] = got;
    memset(all + head, 255, (size_t)(across * SIDE) * 3);
    for (i = 0; i < w->n_points; i++) {
        low = fmin(low, (double)field[1][i]);
        high = fmax(high, (double)field[1][i]);
        x_low = fmin(x_low, (double)field[0][i]);
        x_high = fmax(x_high, (double)field[0][i]);
    }
    for (c = 0; flat && c < across; c++)
        for (k = 1; k < 3; k++) {
            const double v = ((double)field[k][c * n / across] - low) / (high - low + 1e-30);
            r = (int)(SIDE - 1 - (v < 0 ? 0 : v > 1 ? 1 : v) * (SIDE - 1));
            memset(all + head + (r * across + c) * 3, 0, 3);
            if (k == 2) all[head + (size_t)(r * across + c) * 3] = 255;
        }
    for (k = 0; !flat && k < 4; k++)
        for (r = 0; r < SIDE; r++)
            for (c = 0; c < SIDE; c++) {
                const int at = r * n / SIDE * n + c * n / SIDE;
                const double e = fabs((double)field[2][at] - (double)field[1][at]);
                colour(all + head + (r * across + k * (SIDE + GAP) + c) * 3,
                       k == 0   ? ((double)field[0][at] - x_low) / (x_high - x_low + 1e-30)
                       : k == 3 ? 4 * e / (high - low + 1e-30)
                                : ((double)field[k][at] - low) / (high - low + 1e-30));
            }
    st = tiny_file_write(w->ctx, path, all, head + (size_t)(across * SIDE) * 3);
    free(all);
    return st;
}

/* ---- commands */

static void forget(set *s)
{
    if (s->in != s->x) {
        free(s->in);
        free(s->out);
    }
    s->in = s->out = NULL;
}

/* what the network reads: fields, or patches of them */
static tiny_status shape(work *w, int pad)
{
    const int d = w->problem == BURGERS ? 1 : 2;
    tiny_idx patch[2] = { 0, 0 };
    tiny_status st = TINY_OK;
    w->desc.d = d;
    w->n_points = d == 1 ? w->size : w->size * w->size;
    w->grid[0] = w->grid[1] = w->size;
    w->n_in = w->n_pieces = 1;
    w->n_piece = w->inner = w->n_points;
    memset(&w->patches, 0, sizeof w->patches);
    if (w->levels) {
        w->patches.levels = w->levels;
        w->patches.size[0] = w->patches.size[1] = w->size;
        w->patches.pad[0] = w->patches.pad[1] = pad < 0 ? w->size / 16 : pad;
        st = tgnn_patch_size(w->ctx, &w->patches, patch);
        w->n_pieces = (tiny_idx)1 << 2 * w->levels;
        w->n_in = 3 * (w->levels + 1);
        w->grid[0] = patch[0];
        w->grid[1] = patch[1];
        w->n_piece = patch[0] * patch[1];
        w->inner = w->n_points / w->n_pieces;
    }
    w->desc.n_in = w->n_in;
    w->desc.no_grid = w->levels > 0;
    w->desc.n_out = 1;
    return st;
}

static tiny_status table(work *w)
{
    static const struct { int kind, levels; double ratio; } row[] = {
        { TGNN_SPECTRAL_DENSE, 0, 0 },     { TGNN_SPECTRAL_TUCKER, 0, 0.1 }, { TGNN_SPECTRAL_TUCKER, 0, 0.02 },
        { TGNN_SPECTRAL_CP, 0, 0.1 },      { TGNN_SPECTRAL_TT, 0, 0.1 },     { TGNN_SPECTRAL_TUCKER, 1, 0.1 }
    };
    float *got = floats(w->n_points * (w->n_train > w->n_test ? w->n_train : w->n_test));
    tiny_status st = TINY_OK;
    size_t i;
    w->quiet = 1;
    puts("weights        spectral numbers     all  learnt error  new error  workspace KB  seconds");
    for (i = 0; !st && !stopped_by && i < sizeof row / sizeof *row; i++) {
        tgnn_spectral_desc d;
        tgnn_spectral s;
        double train = 0, test = 0;
        size_t bytes = 0;
        if (row[i].levels && w->problem == BURGERS) continue;
        w->levels = row[i].levels;
        w->desc.kind = row[i].kind;
        w->desc.ratio = row[i].ratio;
        st = shape(w, -1);
        memset(&d, 0, sizeof d);
        d.d = w->desc.d;
        memcpy(d.modes, w->desc.modes, sizeof d.modes);
        d.n_in = d.n_out = w->desc.width;
        d.kind = row[i].kind;
        d.ratio = row[i].ratio;
        if (!st) st = tgnn_spectral_plan(w->ctx, &d, &s);
        if (!st) st = cut(w, &w->train);
        if (!st) st = cut(w, &w->test);
        if (!st) st = tgnn_fno_open(w->ctx, &w->desc, &w->net);
        if (!st) st = teach(w);
        if (!st) st = judge(w, &w->train, got, &train);
        if (!st) st = judge(w, &w->test, got, &test);
        if (!st) st = tgnn_fno_workspace(w->ctx, w->net, w->grid, &bytes);
        if (!st) {
            char name[32];
            (void)snprintf(name, sizeof name, "%s%s", kinds[row[i].kind], row[i].levels ? ", patches" : "");
            if (row[i].ratio > 0 && !row[i].levels)
                (void)snprintf(name, sizeof name, "%s %g", kinds[row[i].kind], row[i].ratio);
            printf("%-15s %15.0f %7.0f %13.4f %10.4f %13.0f %8.1f\n", name, 2 * s.n_numbers * w->desc.layers,
                   tgnn_fno_count(w->net), train, test, (double)bytes / 1024,
                   (double)(tiny_now_ns() - w->began) / 1e9);
            (void)fflush(stdout);
        }
        tgnn_fno_close(w->net);
        w->net = NULL;
        forget(&w->train);
        forget(&w->test);
    }
    free(got);
    return st;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    work w;
    const char *problem = "darcy", *kind = "dense", *out = NULL, *show = NULL, *file = NULL;
    int command = 0, size = 0, width = 24, blocks = 4, modes = 12, pad = -1;
    double error = 0, ratio = 0.1;
    float *got = NULL;
    tiny_status st;
    memset(&w, 0, sizeof w);
    w.n_train = 256;
    w.n_test = 64;
    w.epochs = 30;
    w.batch = 16;
    w.rate = 0.008;
    w.seed = 1;
    {
        const option options[] = { A_COMMAND("train run table", &command), A_WORD("FILE", &file),
                                   A_TEXT("--problem", &problem), A_WHOLE("--size", &size, 8, 1024),
                                   A_WHOLE("--train", &w.n_train, 1, 100000), A_WHOLE("--test", &w.n_test, 1, 100000),
                                   A_WHOLE("--epochs", &w.epochs, 1, 100000), A_WHOLE("--width", &width, 1, 1024),
                                   A_WHOLE("--blocks", &blocks, 1, 16), A_WHOLE("--modes", &modes, 1, 512),
                                   A_TEXT("--kind", &kind), A_NUMBER("--ratio", &ratio, 1e-6, 100),
                                   A_WHOLE("--levels", &w.levels, 0, 4), A_WHOLE("--pad", &pad, 0, 256),
                                   A_NUMBER("--rate", &w.rate, 1e-9, 10), A_WHOLE("--batch", &w.batch, 1, 4096),
                                   A_TEXT("--out", &out), A_TEXT("--picture", &show), A_SEED("--seed", &w.seed),
                                   A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    w.problem = place_in(problems, problem);
    if (w.problem < 0) return wrong(problem, "the problem must be darcy, burgers or vorticity");
    w.desc.kind = place_in("dense cp tucker tt", kind);
    if (w.desc.kind < 0) return wrong(kind, "the kind must be dense, cp, tucker or tt");
    if ((command == 1) != (file != NULL)) return refused("run needs a FILE, train and table need none");
    w.size = size ? size : w.problem == BURGERS ? 128 : 32;
    if (w.problem != DARCY && w.size & (w.size - 1)) return refused("--size: %d is no power of two", w.size);
    if (w.levels && w.problem == BURGERS) return refused("--levels: patches are for two dimensions");
    w.desc.ratio = ratio;
    w.desc.width = width;
    w.desc.layers = blocks;
    w.desc.modes[0] = w.desc.modes[1] = modes;
    w.desc.seed = w.seed;
    desc.user = &w.ctx;
    desc.log = hear;
    stop_on_signals();
    desc.cancel = cancelled;
    st = tiny_ctx_open(&desc, &w.ctx);
    if (st) return 1;
    if (file) {                             /* the description knows the number of levels */
        st = tgnn_fno_load(w.ctx, file, &w.net);
        if (!st) w.levels = (int)tgnn_fno_description(w.net)->n_in / 3 - (tgnn_fno_description(w.net)->n_in > 1);
        w.n_train = 0;
    }
    if (!st) st = shape(&w, pad);
    if (!st && w.n_train) st = solve(&w, "training samples", &w.train, w.n_train, 0);
    if (!st) st = solve(&w, "new samples", &w.test, w.n_test, 1000000);
    if (!st && command == 2) st = table(&w);
    if (!st && command != 2) {
        got = floats(w.n_points * w.n_test);
        if (!file) st = cut(&w, &w.train);
        if (!st) st = cut(&w, &w.test);
        if (!st && !file) st = tgnn_fno_open(w.ctx, &w.desc, &w.net);
        if (!st && !file) {
            printf("%s, %d points on an axis, %d samples; %s weights, %.0f parameters\n", problem, w.size, w.n_train,
                   kind, tgnn_fno_count(w.net));
            st = teach(&w);
        }
        if (!st) st = judge(&w, &w.test, got, &error);
        if (!st) printf("error on %d new samples: %.4f\n", w.n_test, error);
        if (!st && out) st = tgnn_fno_save(w.ctx, w.net, out);
        if (!st && show) st = picture(&w, show, got);
    }
    if (st && !stopped_by) say(*tiny_ctx_message(w.ctx) ? tiny_ctx_message(w.ctx) : tiny_status_text(st));
    tgnn_fno_close(w.net);
    forget(&w.train);
    forget(&w.test);
    free(got);
    free(w.train.x);
    free(w.train.y);
    free(w.test.x);
    free(w.test.y);
    tiny_ctx_close(w.ctx);
    return exit_status(st != TINY_OK);
}
