/* examples/deeponet.c - trains DeepONets on several equations or shapes at once, and draws what they predict
 *
 *     deeponet train --problem darcy --out darcy.net --picture darcy.png
 *     deeponet run darcy.net --problem darcy --picture darcy.png
 *     deeponet table --problem fisher --seeds 3      one network for all tasks against one for each
 *     deeponet table --problem darcy --seeds 3       with and without the mask; new shapes: trained on, or afresh
 *
 * Problems, each of several tasks, and of others that are kept for the test:
 *   fisher   u_t = .01 u_xx + R(u) for three forms of R, given by their coefficients; new: mixtures of them
 *   darcy    -div(k grad u) = 1 in a triangle, a square, a hexagon, a square with a hole, u = 0 on the boundary; new: a
 *            pentagon, a hexagon with a slit
 *   heat     steady heat in plates of voxels with a round or a square hole; new: two holes
 * All data come from --seed. The picture has a row for each task: input, solution, prediction, four times the error. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "deeponet"
#include "options.h"
#include "picture.h"
#include "solvers.h"
#include <time.h>

static const char usage[] =
    "deeponet train [options]       trains a network and prints its error for each task\n"
    "deeponet run FILE [options]    runs a trained network on new samples\n"
    "deeponet table [options]       fisher: one network or three; darcy: masked or not, trained on or from scratch\n"
    "  --problem NAME    fisher, darcy or heat; default: fisher\n"
    "  --train N         samples of each task to learn from; default: 300\n"
    "  --test N          new samples of each task; default: 40\n"
    "  --steps N         of the optimiser; default: 2000\n"
    "  --batch N         samples of each task in a step; default: 8\n"
    "  --width N         of all layers, and the terms of the sum; default: 128\n"
    "  --conv N          convolutions before the branch that reads a shape, 0 to 3; default: 0\n"
    "  --rate R          of the optimiser; default: 0.001\n"
    "  --fine N          table: samples of a new shape; default: 20\n"
    "  --seeds N         table: the whole table N times, with other data and weights; default: 1\n"
    "  --out FILE        train: writes the network (a checkpoint)\n"
    "  --picture FILE    writes a picture of a new sample of each task (PNG)\n"
    "  --seed N          default: 1\n"
    "  --threads N       default: one per processor\n";

enum { FISHER, DARCY, HEAT, TASKS = 6, LINE = 128, ACROSS = 32, TIMES = 16, SIDE = 32, POINTS = 1024 };
static const char *const problems = "fisher darcy heat";
static const int learnt[3] = { 3, 4, 2 }, tasks[3] = { 4, 6, 3 };      /* the first ones are learnt */
static const char *const task_names[3][TASKS] = {
    { "r u(1-u)", "r u(1-u)(1-au)", "r u^2(1-u)", "mixture (new)", "", "" },
    { "triangle", "square", "hexagon", "square, hole", "pentagon (new)", "hexagon, slit (new)" },
    { "round hole", "square hole", "two holes (new)", "", "", "" }
};

typedef struct set { int n; float *in, *c, *mask, *truth; } set;        /* n samples of one task */
typedef struct work {
    tiny_ctx *ctx;
    tgnn_deeponet *net;
    int problem, n_train, n_test, steps, batch, width, conv, fine, quiet;
    int sensors, points;
    tiny_idx grid[3];
    double rate;
    uint64_t seed, began;
    set train[TASKS], test[TASKS];
    float *at;                              /* the points of the grid as a list */
} work;

/* ---- data */

/* c0 ... c4 of the reaction; a sample of its own draws the strength and the form */
static void reaction(double *c, int task, tiny_rng *rng)
{
    const double r = 1 + 3 * tiny_rng_uniform64(rng), a = tiny_rng_uniform64(rng);
    double part[3], sum = 0;
    int i;
    for (i = 0; i < 3; i++) {
        part[i] = -log(1 - tiny_rng_uniform64(rng));
        sum += part[i];
    }
    for (i = 0; i < 3; i++) part[i] = task == 3 ? part[i] / sum : i == task;
    c[0] = c[4] = 0;
    c[1] = r * (part[0] + part[1]);
    c[2] = r * (-part[0] - (1 + a) * part[1] + part[2]);
    c[3] = r * (a * part[1] - part[2]);
}

static int fisher_sample(float *in, float *c, float *truth, int task, const double *e, tiny_rng *rng)
{
    double u[LINE], room[LINE], rate[5];
    int i, t;
    reaction(rate, task, rng);
    for (i = 0; i < 4; i++) c[i] = (float)(rate[i] / 4);
    for (i = 0; i < LINE; i++) {            /* a random field, to between .1 and .9 */
        in[i] = (float)(0.5 + 0.4 * tanh((double)in[i]));
        u[i] = (double)in[i];
    }
    for (t = 0; t < TIMES; t++) {
        fisher_run(u, LINE, e, rate, 1.0 / (4 * TIMES), 4, room);
        for (i = 0; i < ACROSS; i++) truth[i * TIMES + t] = (float)u[i * (LINE / ACROSS) + LINE / ACROSS / 2];
    }
    return 1;
}

static int darcy_sample(float *in, float *mask, float *truth, int task, double *room, tiny_rng *rng)
{
    static const int sides[TASKS] = { 3, 4, 6, 4, 5, 6 };
    unsigned char inside[POINTS];
    const double radius = 0.38 + 0.12 * tiny_rng_uniform64(rng), turn = 6.283185 * tiny_rng_uniform64(rng);
    int i, ok;
    shape_mask(inside, SIDE, sides[task], radius, turn, task == 5 ? 0.25 : 0, task == 3 ? 0.3 : 0);
    for (i = 0; i < POINTS; i++) room[i] = exp((double)in[i]);
    ok = darcy_solve(room, inside, SIDE, SIDE, 1e-8, room + POINTS, room + 2 * POINTS) >= 0;
    for (i = 0; i < POINTS; i++) {
        mask[i] = inside[i];
        truth[i] = (float)(20 * room[POINTS + i]);
    }
    return ok;
}

static int heat_sample(float *in, float *mask, float *truth, int task, double *room, tiny_rng *rng)
{
    static const int n[3] = { 16, 16, 4 };
    unsigned char inside[POINTS];
    int i, h, ok;
    memset(inside, 1, sizeof inside);
    for (h = 0; h < (task == 2 ? 2 : 1); h++) {
        const double x = 4 + 8 * tiny_rng_uniform64(rng), y = 4 + 8 * tiny_rng_uniform64(rng),
                     r = (task == 2 ? 1.5 : 2) + 2 * tiny_rng_uniform64(rng);
        for (i = 0; i < POINTS; i++) {
            const double dx = fabs(i / 64 + 0.5 - x), dy = fabs(i / 4 % 16 + 0.5 - y);
            if ((task + h) % 2 ? dx < r && dy < r : dx * dx + dy * dy < r * r) inside[i] = 0;
        }
    }
    ok = heat_solve(inside, n, 1e-8, room, room + POINTS) >= 0;
    for (i = 0; i < POINTS; i++) {
        in[i] = mask[i] = inside[i];
        truth[i] = (float)room[i];
    }
    return ok;
}

/* Sample i of a task is the same whatever else is made. */
static tiny_status make(work *w, set *s, int task, int n, int first, const char *name)
{
    double *room = (double *)need(malloc((size_t)(LINE * LINE + 5 * LINE) * sizeof *room));
    tgnn_random_field f;
    tiny_status st = TINY_OK;
    int i, ok = 1;
    memset(&f, 0, sizeof f);
    f.d = w->problem == FISHER ? 1 : 2;
    f.size[0] = w->problem == FISHER ? LINE : SIDE;
    f.size[1] = SIDE;
    f.scale = w->problem == FISHER ? 5 : 1.7;       /* deviations of about 1 */
    s->n = n;
    s->in = floats(n * w->sensors);
    s->c = floats(n * 4);
    s->mask = floats(n * w->points);
    s->truth = floats(n * w->points);
    if (w->problem == FISHER) fisher_matrix(room, LINE, 0.01 / (8 * TIMES), room + LINE * LINE);
    for (i = 0; i < n && !st && ok && !stopped_by; i++) {
        const uint64_t number = (uint64_t)task * 1000000 + (uint64_t)(first + i);
        float *in = s->in + i * w->sensors, *truth = s->truth + i * w->points, *mask = s->mask + i * w->points;
        const tiny_tensor t = tiny_tensor_2d(in, TINY_F32, 1, w->sensors);
        tiny_rng rng = tiny_rng_make(w->seed + 77, number);
        if (w->problem != HEAT) st = tgnn_random_fields(w->ctx, &f, w->seed, number, &t);
        ok = w->problem == FISHER  ? fisher_sample(in, s->c + 4 * i, truth, task, room, &rng)
             : w->problem == DARCY ? darcy_sample(in, mask, truth, task, room, &rng)
                                   : heat_sample(in, mask, truth, task, room, &rng);
        show_progress(NULL, name, (double)i / n);
    }
    end_progress();
    free(room);
    if (!ok) say("a sample could not be solved");
    return st ? st : ok ? TINY_OK : TINY_E_NUMERIC;
}

static void forget(set *s)
{
    free(s->in);
    free(s->c);
    free(s->mask);
    free(s->truth);
    memset(s, 0, sizeof *s);
}

static tiny_status make_all(work *w, int train)
{
    tiny_status st = TINY_OK;
    int k;
    for (k = 0; !st && k < tasks[w->problem]; k++) {
        forget(&w->train[k]);
        forget(&w->test[k]);
        if (train) st = make(w, &w->train[k], k, w->n_train, 0, "training samples");
        if (!st) st = make(w, &w->test[k], k, w->n_test, 500000, "new samples");
    }
    return st;
}

/* ---- the network */

static void describe(const work *w, tgnn_deeponet_desc *d, int width, int masked)
{
    memset(d, 0, sizeof *d);
    d->n_branches = w->problem == FISHER ? 2 : 1;
    d->branch[0].n_in = w->sensors;
    d->branch[0].masked = masked && w->problem != FISHER;
    d->branch[0].width = d->branch[1].width = d->width = d->p = width;
    if (w->problem != FISHER && w->conv) {
        d->branch[0].conv = w->conv;
        d->branch[0].side[0] = d->branch[0].side[1] = SIDE;
    }
    if (d->n_branches == 2) d->branch[1].n_in = 4;
    d->d = w->problem == HEAT ? 3 : 2;
    d->act = TGNN_DEEPONET_GELU;
    d->seed = w->seed;
}

typedef struct asked { tiny_tensor in[2], mask, points, truth; } asked;

/* A task as the library takes it. free_of_mask: the points as a list, so that no mask is put on the results. */
static tgnn_deeponet_task ask(const work *w, const tgnn_deeponet *net, const set *s, asked *a, int free_of_mask)
{
    tgnn_deeponet_task t;
    memset(&t, 0, sizeof t);
    a->in[0] = tiny_tensor_2d(s->in, TINY_F32, s->n, w->sensors);
    a->in[1] = tiny_tensor_2d(s->c, TINY_F32, s->n, 4);
    a->mask = tiny_tensor_2d(s->mask, TINY_F32, s->n, w->points);
    a->points = tiny_tensor_2d(w->at, TINY_F32, w->points, w->problem == HEAT ? 3 : 2);
    t.truth = tiny_tensor_2d(s->truth, TINY_F32, s->n, w->points);
    t.query.in = a->in;
    if (tgnn_deeponet_description(net)->branch[0].masked) t.query.mask = &a->mask;
    if (free_of_mask) t.query.points = &a->points;
    memcpy(t.query.grid, w->grid, sizeof t.query.grid);
    return t;
}

static int progress(void *user, const tiny_train_state *s)
{
    const work *w = (const work *)user;
    const int64_t every = w->steps / 10 > 1 ? w->steps / 10 : 1;
    if (!w->quiet && (s->step % every == 0 || s->step == 1))
        printf("step %5d  loss %.5f  %6.1f s\n", (int)s->step, s->loss, (double)(tiny_now_ns() - w->began) / 1e9);
    if (w->quiet) show_progress(NULL, "training", (double)s->step / w->steps);
    (void)fflush(stdout);
    return stopped_by != 0;
}

/* n tasks from `first` on; last: of tgnn_deeponet_fit_desc. seconds: of the processor. */
static tiny_status teach(work *w, tgnn_deeponet *net, set *sets, int n, int free_of_mask, int last, double *seconds)
{
    tgnn_deeponet_fit_desc d;
    tgnn_deeponet_task task[TASKS];
    asked a[TASKS];
    clock_t began;
    tiny_status st;
    int k;
    memset(&d, 0, sizeof d);
    for (k = 0; k < n; k++) task[k] = ask(w, net, &sets[k], &a[k], free_of_mask);
    d.task = task;
    d.n_tasks = n;
    d.batch = w->batch;
    d.steps = w->steps;
    d.rate = w->rate;
    d.last = last;
    d.seed = w->seed;
    d.callback = progress;
    d.user = w;
    w->began = tiny_now_ns();
    began = clock();
    st = tgnn_deeponet_fit(w->ctx, net, &d, NULL);
    end_progress();
    if (seconds) *seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    return st;
}

/* The mean of |prediction - solution| / |solution| inside the mask. got: NULL, or the predictions. */
static tiny_status judge(work *w, const tgnn_deeponet *net, const set *s, int free_of_mask, float *got, double *error)
{
    asked a;
    const tgnn_deeponet_task t = ask(w, net, s, &a, free_of_mask);
    float *y = got ? got : floats(s->n * w->points);
    const tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, s->n, w->points);
    tiny_status st = tgnn_deeponet_run(w->ctx, net, &t.query, &ty);
    if (!st) st = tgnn_masked_error(w->ctx, &ty, &t.truth, w->problem == FISHER ? NULL : &a.mask, error);
    if (!got) free(y);
    return st;
}

/* ---- pictures */

/* value i of a part of the picture at row r, column c of n x n: of a field of the task */
static double field_at(const work *w, const float *f, int r, int c, int sensors)
{
    if (w->problem == FISHER && sensors) return (double)f[c * (LINE / ACROSS)];
    if (w->problem == FISHER) return (double)f[c * TIMES + r / 2];
    if (w->problem == HEAT) return (double)f[(c / 2 * 16 + r / 2) * 4];
    return (double)f[r * SIDE + c];
}

static tiny_status draw(work *w, const char *path)
{
    enum { BIG = 4, PART = SIDE * BIG, GAP = 6 };
    const int n = tasks[w->problem];
    picture p;
    unsigned char *bytes = NULL;
    size_t size;
    tiny_status st = TINY_OK;
    int k, part, r, c;
    if (!picture_open(&p, 4 * PART + 3 * GAP, n * PART + (n - 1) * GAP)) return TINY_E_MEMORY;
    for (k = 0; k < n && !st; k++) {
        set *s = &w->test[k];
        float *got = floats(s->n * w->points);
        double error, low[2] = { 1e30, 1e30 }, high[2] = { -1e30, -1e30 };
        st = judge(w, w->net, s, 0, got, &error);
        for (r = 0; r < SIDE * SIDE; r++)
            for (part = 0; part < 2; part++) {
                const double v = field_at(w, part ? s->truth : s->in, r / SIDE, r % SIDE, !part);
                if (w->problem != FISHER && field_at(w, s->mask, r / SIDE, r % SIDE, 0) <= 0) continue;
                low[part] = v < low[part] ? v : low[part];
                high[part] = v > high[part] ? v : high[part];
            }
        for (part = 0; part < 4; part++)
            for (r = 0; r < PART; r++)
                for (c = 0; c < PART; c++) {
                    const double t = field_at(w, s->truth, r / BIG, c / BIG, 0),
                                 y = field_at(w, got, r / BIG, c / BIG, 0),
                                 v = part == 0 ? field_at(w, s->in, r / BIG, c / BIG, 1) : part == 1 ? t : y,
                                 span = high[part > 0] - low[part > 0] + 1e-30;
                    if (w->problem != FISHER && field_at(w, s->mask, r / BIG, c / BIG, 0) <= 0) continue;
                    picture_scale(&p, part * (PART + GAP) + c, k * (PART + GAP) + r,
                                  part == 3 ? 4 * fabs(y - t) / span : (v - low[part > 0]) / span);
                }
        free(got);
    }
    size = st ? 0 : picture_png(&p, &bytes);
    picture_close(&p);
    if (!st) st = size ? tiny_file_write(w->ctx, path, bytes, size) : TINY_E_MEMORY;
    free(bytes);
    return st;
}

/* ---- tables */

/* One network for three forms against three networks, all with the same steps and samples: of a third of its size, and
 * of its size. */
static tiny_status table_fisher(work *w)
{
    static const char *const how[3] = { "one for all forms", "three, each a third", "three, each as large" };
    tgnn_deeponet *single = NULL;
    tgnn_deeponet_desc d;
    double all, t, e;
    tiny_status st = make_all(w, 1);
    int width = w->width, form, k;
    describe(w, &d, width, 0);
    if (!st) st = tgnn_deeponet_open(w->ctx, &d, &w->net);
    all = tgnn_deeponet_count(w->net);
    while (!st && width > 1) {
        describe(w, &d, --width, 0);
        st = tgnn_deeponet_open(w->ctx, &d, &single);
        if (!st && 3 * tgnn_deeponet_count(single) <= all) break;
        tgnn_deeponet_close(single);
        single = NULL;
    }
    for (form = 0; form < 3 && !st; form++) {
        double error[4] = { 0, 0, 0, 1e30 }, numbers = form ? 0 : all, seconds = 0;
        describe(w, &d, form == 1 ? width : w->width, 0);
        if (form) w->batch *= 3;            /* a step has as many samples as one of the other network */
        for (k = 0; k < (form ? 3 : 1) && !st; k++) {
            tgnn_deeponet_close(single);
            single = NULL;
            st = tgnn_deeponet_open(w->ctx, &d, &single);
            if (!st) st = teach(w, single, form ? &w->train[k] : w->train, form ? 1 : 3, 0, 0, &t);
            if (form) numbers += st ? 0 : tgnn_deeponet_count(single);
            seconds += t;
            if (!st && form) st = judge(w, single, &w->test[k], 0, NULL, &error[k]);
            if (!st && form) st = judge(w, single, &w->test[3], 0, NULL, &e);
            if (!st && form && e < error[3]) error[3] = e;          /* the best of three */
        }
        for (k = 0; k < 4 && !form && !st; k++) st = judge(w, single, &w->test[k], 0, NULL, &error[k]);
        if (form) w->batch /= 3;
        if (!st)
            printf("%-4d %-24s %9.0f %9.4f %9.4f %9.4f %9.4f %8.1f\n", (int)w->seed, how[form], numbers, error[0],
                   error[1], error[2], error[3], seconds);
        (void)fflush(stdout);
    }
    tgnn_deeponet_close(single);
    return st;
}

static tiny_status table_darcy(work *w)
{
    static const char *const how[3] = { "masked", "mask as input alone", "without the mask" };
    tgnn_deeponet *fresh = NULL;
    tgnn_deeponet_desc d;
    tiny_status st = make_all(w, 1);
    double error[3][TASKS], t;
    const int steps = w->steps;
    int form, k, i;
    for (form = 2; !st && form >= 0; form--) {      /* the masked one stays, for the new shapes */
        tgnn_deeponet_close(w->net);
        w->net = NULL;
        describe(w, &d, w->width, form < 2);
        st = tgnn_deeponet_open(w->ctx, &d, &w->net);
        if (!st) st = teach(w, w->net, w->train, 4, form > 0, 0, &t);
        for (k = 0; !st && k < 6; k++) st = judge(w, w->net, &w->test[k], form > 0, NULL, &error[form][k]);
        if (st) break;
        printf("%-4d %-24s", (int)w->seed, how[form]);
        for (k = 0; k < 6; k++) printf(" %9.4f", error[form][k]);
        printf(" %8.1f\n", t);
        (void)fflush(stdout);
    }
    w->steps = 400;
    for (i = 0; !st && i < 3; i++) {        /* a few samples of a new shape: last layers, all layers, a new network */
        double after[2] = { 0, 0 };
        for (k = 4; !st && k < 6; k++) {
            set few = w->train[k];
            few.n = w->fine < few.n ? w->fine : few.n;
            describe(w, &d, w->width, 1);
            d.seed += 1000;
            st = tgnn_deeponet_open(w->ctx, &d, &fresh);
            if (!st && i < 2) {             /* a copy of the trained network */
                size_t n, j;
                const tiny_param *from = tgnn_deeponet_params(w->net, &n), *to = tgnn_deeponet_params(fresh, &n);
                for (j = 0; j < n && !st; j++) st = tiny_copy(w->ctx, &from[j].value, &to[j].value);
            }
            if (!st) st = teach(w, fresh, &few, 1, 0, i == 0 ? 2 : 0, &t);
            if (!st) st = judge(w, fresh, &w->test[k], 0, NULL, &after[k - 4]);
            tgnn_deeponet_close(fresh);
            fresh = NULL;
        }
        if (!st)
            printf("%-4d %-24s %9s %9s %9s %9s %9.4f %9.4f %8.1f\n", (int)w->seed,
                   i == 0   ? "two layers of a branch"
                   : i == 1 ? "all layers"
                            : "a new network", "", "", "", "", after[0], after[1], t);
        (void)fflush(stdout);
    }
    w->steps = steps;
    return st;
}

static tiny_status table(work *w, int seeds)
{
    tiny_status st = TINY_OK;
    int k;
    w->quiet = 1;
    if (w->problem == FISHER)
        puts("seed networks                   numbers    u(1-u)   (1-au)     u^2(1-u)   mixture  seconds");
    else
        puts("seed network                   triangle    square   hexagon      hole  pentagon      slit  seconds");
    for (k = 0; k < seeds && !st && !stopped_by; k++, w->seed++) {
        tgnn_deeponet_close(w->net);
        w->net = NULL;
        st = w->problem == FISHER ? table_fisher(w) : table_darcy(w);
    }
    return st;
}

/* ---- commands */

static void shape(work *w)
{
    int i;
    w->sensors = w->problem == FISHER ? LINE : POINTS;
    w->grid[0] = w->problem == HEAT ? 16 : 32;
    w->grid[1] = w->problem == DARCY ? 32 : 16;
    w->grid[2] = 4;
    w->points = w->problem == FISHER ? ACROSS * TIMES : POINTS;
    w->at = floats(w->points * 3);
    for (i = 0; i < w->points && w->problem != HEAT; i++) {
        w->at[2 * i] = ((float)(i / w->grid[1]) + 0.5f) / (float)w->grid[0];
        w->at[2 * i + 1] = ((float)(i % w->grid[1]) + 0.5f) / (float)w->grid[1];
    }
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    work w;
    const char *problem = "fisher", *out = NULL, *show = NULL, *file = NULL;
    int command = 0, seeds = 1, told = 0, k;
    double error;
    tiny_status st;
    memset(&w, 0, sizeof w);
    w.n_train = 300;
    w.n_test = 40;
    w.steps = 2000;
    w.batch = 8;
    w.width = 128;
    w.rate = 0.001;
    w.fine = 20;
    w.seed = 1;
    {
        const option options[] = { A_COMMAND("train run table", &command), A_WORD("FILE", &file),
                                   A_TEXT("--problem", &problem), A_WHOLE("--train", &w.n_train, 1, 100000),
                                   A_WHOLE("--test", &w.n_test, 1, 10000), A_WHOLE("--steps", &w.steps, 1, 10000000),
                                   A_WHOLE("--batch", &w.batch, 1, 1024), A_WHOLE("--width", &w.width, 2, 4096),
                                   A_WHOLE("--conv", &w.conv, 0, 3), A_NUMBER("--rate", &w.rate, 1e-9, 10),
                                   A_WHOLE("--fine", &w.fine, 1, 10000), A_WHOLE("--seeds", &seeds, 1, 100),
                                   A_TEXT("--out", &out), A_TEXT("--picture", &show), A_SEED("--seed", &w.seed),
                                   A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    w.problem = place_in(problems, problem);
    if (w.problem < 0) return wrong(problem, "the problem must be fisher, darcy or heat");
    if ((command == 1) != (file != NULL)) return refused("run needs a FILE, train and table need none");
    if (command == 2 && w.problem == HEAT) return refused("there is no table for heat");
    if (out && command) return refused("--out is for train");
    if (show && command == 2) return refused("--picture is for train and run");
    if (w.conv && w.problem != DARCY) return refused("--conv is for darcy");
    if (must_not_write(out, 0) || must_not_write(show, 2, file, out)) return 2;
    shape(&w);
    desc.user = &w.ctx;
    desc.log = hear;
    stop_on_signals();
    desc.cancel = cancelled;
    st = tiny_ctx_open(&desc, &w.ctx);
    if (st) return 1;
    if (file) st = tgnn_deeponet_load(w.ctx, file, &w.net);
    if (!st && file && (tgnn_deeponet_description(w.net)->branch[0].n_in != w.sensors ||
                        tgnn_deeponet_description(w.net)->n_branches != (w.problem == FISHER ? 2 : 1) ||
                        tgnn_deeponet_description(w.net)->d != (w.problem == HEAT ? 3 : 2))) {
        (void)wrong(file, "this network is for another problem");
        st = TINY_E_SHAPE;
        told = 1;
    } else if (!st && command == 2) st = table(&w, seeds);
    else if (!st) {
        st = make_all(&w, !file);
        if (!st && !file) {
            tgnn_deeponet_desc d;
            describe(&w, &d, w.width, 1);
            st = tgnn_deeponet_open(w.ctx, &d, &w.net);
            if (!st) printf("%s, %d tasks of %d samples, %.0f parameters\n", problem, learnt[w.problem], w.n_train,
                            tgnn_deeponet_count(w.net));
            if (!st) st = teach(&w, w.net, w.train, learnt[w.problem], 0, 0, NULL);
        }
        for (k = 0; !st && k < tasks[w.problem]; k++) {
            st = judge(&w, w.net, &w.test[k], 0, NULL, &error);
            if (!st) printf("error on %d new samples, %s: %.4f\n", w.n_test, task_names[w.problem][k], error);
        }
        if (!st && out) st = tgnn_deeponet_save(w.ctx, w.net, out);
        if (!st && show) st = draw(&w, show);
    }
    if (st && !stopped_by && !told) say(*tiny_ctx_message(w.ctx) ? tiny_ctx_message(w.ctx) : tiny_status_text(st));
    tgnn_deeponet_close(w.net);
    for (k = 0; k < TASKS; k++) {
        forget(&w.train[k]);
        forget(&w.test[k]);
    }
    free(w.at);
    tiny_ctx_close(w.ctx);
    return exit_status(st != TINY_OK);
}
