/* examples/tdn.c - learns a potential from energies and forces, then moves atoms with it
 *
 *     tdn train                                  clusters with a known potential; trains, judges, runs dynamics
 *     tdn train --product cp --rank 20           with low-rank factors instead of the exact product
 *     tdn train --energies e.svg --forces f.svg  pictures: energy over time, predicted against true forces
 *     tdn table --degree 3                       time and error of the forms of the product
 *
 * The known potential: Lennard-Jones, 4 (r^-12 - r^-6), and between each three atoms the term of Axilrod and Teller,
 * 0.6 (1 + 3 cos a cos b cos c) / (r s t)^3. Clusters come from dynamics with friction and random kicks. The network
 * sees energies minus their mean, and both divided by the size of the forces. The dynamics are velocity Verlet without
 * friction: the energy of the network must stay what it was, and its drift is printed. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "tdn"
#include "options.h"
#include <math.h>

static const char usage[] =
    "tdn train [options]   makes clusters, trains a potential, judges it, and runs dynamics with it\n"
    "tdn table [options]   prints time and error of the product in all its forms, for 128 channels\n"
    "  --atoms N         of a cluster; default: 9\n"
    "  --clusters N      to learn from; a fifth as many are new ones; default: 200\n"
    "  --epochs N        default: 40\n"
    "  --batch N         clusters; default: 8\n"
    "  --width N         channels; default: 16\n"
    "  --blocks N        default: 2\n"
    "  --degree N        features of degrees 0 to N; table: rows for 1 to N; default: 2\n"
    "  --product NAME    exact, dense, sparse, fold or cp; exact is the cheapest of the exact ones; default: exact\n"
    "  --rank N          of the factors of cp; default: 7 degree^2\n"
    "  --sweeps N        of the fit of the factors; default: 1000\n"
    "  --factors FILE    reads the factors from FILE if it exists, else fits them and writes it\n"
    "  --rate R          of the optimiser; default: 0.01\n"
    "  --steps N         of the dynamics; 0: none; default: 1000\n"
    "  --dt R            time of a step; default: 0.005\n"
    "  --temperature R   of the clusters and of the dynamics; default: 0.3\n"
    "  --energies FILE   draws the energies of the dynamics over time (SVG)\n"
    "  --forces FILE     draws predicted against true forces of new clusters (SVG)\n"
    "  --load FILE       parameters of a network with the same options; no training\n"
    "  --save FILE       writes the parameters\n"
    "  --seed N          default: 1\n"
    "  --quiet           print the results only\n"
    "  --threads N       default: one per processor\n";

enum { MOST_ATOMS = 32 };

typedef struct work {
    tiny_ctx *ctx;
    tgnn_tdn *net;
    tgnn_cp *cp;
    int n_atoms, n, n_new, epochs, batch, steps, quiet;
    double rate, dt, heat, mean, size;      /* mean energy, size of a force */
    double *pos, *energy, *force;           /* (n + n_new) clusters */
    uint64_t seed;
    tiny_rng rng;
} work;

static double *numbers(size_t n) { return (double *)need(calloc(n + 1, sizeof(double))); }

/* ---- the known potential */

static double energy_of(const double *p, int n)
{
    double r2[MOST_ATOMS][MOST_ATOMS], e = 0;
    int i, j, k;
    for (i = 0; i < n; i++)
        for (j = 0; j < i; j++) {
            const double x = p[3 * i] - p[3 * j], y = p[3 * i + 1] - p[3 * j + 1], z = p[3 * i + 2] - p[3 * j + 2];
            const double s = 1 / (x * x + y * y + z * z), s6 = s * s * s;
            r2[i][j] = r2[j][i] = x * x + y * y + z * z;
            e += 4 * (s6 * s6 - s6);
        }
    for (i = 0; i < n; i++)
        for (j = 0; j < i; j++)
            for (k = 0; k < j; k++) {
                const double a = r2[i][j], b = r2[j][k], c = r2[k][i], abc = a * b * c, root = sqrt(abc);
                const double cosines = (a + c - b) * (a + b - c) * (b + c - a) / (8 * abc);
                e += 0.6 * (1 + 3 * cosines) / (root * abc);
            }
    return e;
}

/* by differences: this is the judge, and need not be fast */
static double forces_of(const double *pos, int n, double *f)
{
    double p[3 * MOST_ATOMS], up, down;
    int i;
    memcpy(p, pos, 3 * (size_t)n * sizeof *p);
    for (i = 0; i < 3 * n; i++) {
        p[i] = pos[i] + 1e-5;
        up = energy_of(p, n);
        p[i] = pos[i] - 1e-5;
        down = energy_of(p, n);
        p[i] = pos[i];
        f[i] = (down - up) / 2e-5;
    }
    return energy_of(pos, n);
}

/* atoms in a ball, none too close to another, moved downhill; then a step of dynamics with friction at a time */
static void new_cluster(work *w, double *p, double *v)
{
    double f[3 * MOST_ATOMS];
    const double radius = 0.75 * cbrt((double)w->n_atoms);
    int i, j, k, step, tries = 0;
    for (i = 0; i < w->n_atoms; i++) {
        double nearest = 0, ball = 4;
        while ((nearest < 0.8 || ball > 1) && tries++ < 100000) {
            for (ball = 0, k = 0; k < 3; k++) {
                const double x = 2 * tiny_rng_uniform64(&w->rng) - 1;
                p[3 * i + k] = radius * x;
                ball += x * x;
            }
            for (nearest = 4, j = 0; j < i; j++) {
                double s = 0;
                for (k = 0; k < 3; k++) s += (p[3 * i + k] - p[3 * j + k]) * (p[3 * i + k] - p[3 * j + k]);
                if (s < nearest) nearest = s;
            }
        }
    }
    for (step = 0; step < 200; step++) {
        (void)forces_of(p, w->n_atoms, f);
        for (i = 0; i < 3 * w->n_atoms; i++) p[i] += fmax(-0.02, fmin(0.02, 0.005 * f[i]));
    }
    memset(v, 0, 3 * (size_t)w->n_atoms * sizeof *v);
}

static void warm_step(work *w, double *p, double *v)
{
    const double dt = 0.005, keep = exp(-2 * dt), kick = sqrt(w->heat * (1 - keep * keep));
    double f[3 * MOST_ATOMS];
    int i;
    (void)forces_of(p, w->n_atoms, f);
    for (i = 0; i < 3 * w->n_atoms; i++) {
        v[i] = keep * (v[i] + dt * f[i]) + kick * (double)tiny_rng_normal(&w->rng);
        p[i] += dt * v[i];
    }
}

/* a new cluster for every ten samples; one that lost an atom is made again */
static void make_samples(work *w)
{
    const size_t d = 3 * (size_t)w->n_atoms;
    double p[3 * MOST_ATOMS], v[3 * MOST_ATOMS], sum = 0, squares = 0;
    int i, k, all = w->n + w->n_new;
    w->pos = numbers((size_t)all * d);
    w->force = numbers((size_t)all * d);
    w->energy = numbers((size_t)all);
    for (i = 0; i < all; i++) {
        if (i % 10 == 0) new_cluster(w, p, v);
        for (k = 0; k < (i % 10 ? 40 : 200); k++) warm_step(w, p, v);
        memcpy(w->pos + (size_t)i * d, p, d * sizeof *p);
        w->energy[i] = forces_of(p, w->n_atoms, w->force + (size_t)i * d);
        if (!(fabs(w->energy[i]) < 1e6)) i = i / 10 * 10 - 1;
        show_progress(NULL, "clusters", (double)(i + 1) / all);
    }
    end_progress();
    for (i = 0; i < w->n; i++) {
        sum += w->energy[i] / w->n;
        for (k = 0; k < (int)d; k++) squares += pow(w->force[(size_t)i * d + (size_t)k], 2) / (double)d / w->n;
    }
    w->mean = sum;
    w->size = sqrt(squares);
}

/* ---- the network: its energy is (E - mean) / size */

static tiny_status predict(work *w, const double *pos, int clusters, double *energy, double *force)
{
    const size_t d = 3 * (size_t)w->n_atoms, n = (size_t)(clusters * w->n_atoms);
    int32_t *type = (int32_t *)need(calloc(n, sizeof *type));
    int64_t *first = (int64_t *)need(calloc((size_t)clusters + 1, sizeof *first));
    tgnn_atoms a;
    tiny_status st;
    size_t i;
    memset(&a, 0, sizeof a);
    for (i = 0; i <= (size_t)clusters; i++) first[i] = (int64_t)(i * (size_t)w->n_atoms);
    a.n = clusters * w->n_atoms;
    a.type = type;
    a.pos = pos;
    a.first = first;
    a.molecules = clusters;
    st = tgnn_tdn_run(w->ctx, w->net, &a, energy, force);
    for (i = 0; !st && i < (size_t)clusters; i++) energy[i] = energy[i] * w->size + w->mean;
    for (i = 0; !st && i < d * (size_t)clusters; i++) force[i] *= w->size;
    free(type);
    free(first);
    return st;
}

/* errors of clusters first .. first + n - 1: roots of mean squares; the sizes of what is predicted are beside them */
static tiny_status judge(work *w, int first, int n, double *guess, double error[2])
{
    const size_t d = 3 * (size_t)w->n_atoms;
    double e[1];
    tiny_status st = TINY_OK;
    int i;
    size_t k;
    error[0] = error[1] = 0;
    for (i = 0; !st && i < n; i++) {
        st = predict(w, w->pos + (size_t)(first + i) * d, 1, e, guess + (size_t)i * d);
        error[0] += pow((e[0] - w->energy[first + i]) / w->n_atoms, 2) / n;
        for (k = 0; !st && k < d; k++)
            error[1] += pow(guess[(size_t)i * d + k] - w->force[(size_t)(first + i) * d + k], 2) / (double)d / n;
    }
    error[0] = sqrt(error[0]);
    error[1] = sqrt(error[1]);
    return st;
}

static tiny_status teach(work *w)
{
    const size_t d = 3 * (size_t)w->n_atoms;
    const int per = w->n / w->batch;
    double *pos = numbers((size_t)w->batch * d), *force = numbers((size_t)w->batch * d),
           *guess = numbers(d * (size_t)w->n),
           *energy = numbers((size_t)w->batch), loss = 0, mean = 0, error[2];
    int32_t *type = (int32_t *)need(calloc(d * (size_t)w->batch, sizeof *type));
    int64_t *first = (int64_t *)need(calloc((size_t)w->batch + 1, sizeof *first));
    uint32_t *order = (uint32_t *)need(calloc((size_t)w->n + 1, sizeof *order));
    const uint64_t began = tiny_now_ns();
    tgnn_tdn_target target;
    tgnn_atoms a;
    tiny_optim_desc od;
    tiny_schedule schedule;
    tiny_optim *opt = NULL;
    const tiny_param *params;
    tiny_status st;
    size_t n, k;
    int epoch, b, i;
    memset(&target, 0, sizeof target);
    memset(&a, 0, sizeof a);
    memset(&od, 0, sizeof od);
    memset(&schedule, 0, sizeof schedule);
    params = tgnn_tdn_params(w->net, &n);
    od.group[0].lr = w->rate;
    od.clip = 10;
    od.ema = 0.01;
    schedule.kind = TINY_SCHEDULE_COSINE;
    schedule.total = (int64_t)per * w->epochs;
    schedule.warmup = 20;
    st = tiny_optim_open(w->ctx, params, n, &od, &opt);
    target.energy = energy;
    target.forces = force;
    target.energy_weight = 0.1;             /* an energy has the size of the atoms, a force that of 1 */
    target.force_weight = 1;
    a.n = w->batch * w->n_atoms;
    a.type = type;
    a.pos = pos;
    a.first = first;
    a.molecules = w->batch;
    for (i = 0; i <= w->batch; i++) first[i] = (int64_t)i * w->n_atoms;
    for (epoch = 0; !st && epoch < w->epochs; epoch++) {
        tiny_rng_permutation(&w->rng, order, (uint32_t)w->n);
        for (mean = 0, b = 0; !st && b < per; b++) {
            for (i = 0; i < w->batch; i++) {
                const size_t from = order[b * w->batch + i];
                memcpy(pos + (size_t)i * d, w->pos + from * d, d * sizeof *pos);
                for (k = 0; k < d; k++) force[(size_t)i * d + k] = w->force[from * d + k] / w->size;
                energy[i] = (w->energy[from] - w->mean) / w->size;
            }
            st = tgnn_tdn_gradient(w->ctx, w->net, &a, &target, &loss);
            if (!st) st = tiny_optim_step(opt, tiny_schedule_at(&schedule, (int64_t)epoch * per + b));
            mean += loss / per;
            if (!st && stopped_by) st = TINY_E_CANCELLED;
        }
        if (!st && !w->quiet && (epoch % 5 == 4 || epoch == 0 || epoch + 1 == w->epochs)) {
            st = judge(w, w->n, w->n_new, guess, error);
            printf("epoch %3d  loss %.4f  new clusters: energy %.4f an atom, force %.3f  %6.1f s\n", epoch + 1, mean,
                   error[0], error[1], (double)(tiny_now_ns() - began) / 1e9);
            (void)fflush(stdout);
        }
    }
    if (!st) st = tiny_optim_ema_swap(opt);
    tiny_optim_close(opt);
    free(pos);
    free(force);
    free(guess);
    free(energy);
    free(type);
    free(first);
    free(order);
    return st;
}

/* ---- dynamics: the energies of each step of the network and of the known potential, from the same start */

enum { POTENTIAL, KINETIC, TOTAL, TRUE_TOTAL, CURVES };

static tiny_status move(work *w, double *curve)
{
    const size_t d = 3 * (size_t)w->n_atoms;
    double p[3 * MOST_ATOMS], v[3 * MOST_ATOMS], f[3 * MOST_ATOMS], e[1] = { 0 }, lowest = 0;
    tiny_status st = TINY_OK;
    int known, step, i, at = w->n;
    for (i = 0; i < w->n_new; i++)          /* the most stable of the new clusters */
        if (w->energy[w->n + i] < lowest) {
            lowest = w->energy[w->n + i];
            at = w->n + i;
        }
    for (known = 0; !st && known < 2; known++) {
        tiny_rng rng = tiny_rng_make(w->seed, 77);
        double drift[3] = { 0, 0, 0 };
        memcpy(p, w->pos + (size_t)at * d, d * sizeof *p);
        for (i = 0; i < (int)d; i++) {
            v[i] = sqrt(0.5 * w->heat) * (double)tiny_rng_normal(&rng);
            drift[i % 3] += v[i] / w->n_atoms;
        }
        for (i = 0; i < (int)d; i++) v[i] -= drift[i % 3];
        if (known) e[0] = forces_of(p, w->n_atoms, f);
        else st = predict(w, p, 1, e, f);
        for (step = 0; !st && step <= w->steps; step++) {
            double kinetic = 0;
            for (i = 0; i < (int)d; i++) kinetic += v[i] * v[i] / 2;
            if (known) curve[step * CURVES + TRUE_TOTAL] = e[0] + kinetic;
            else {
                curve[step * CURVES + POTENTIAL] = e[0];
                curve[step * CURVES + KINETIC] = kinetic;
                curve[step * CURVES + TOTAL] = e[0] + kinetic;
            }
            for (i = 0; i < (int)d; i++) {
                v[i] += w->dt / 2 * f[i];
                p[i] += w->dt * v[i];
            }
            if (known) e[0] = forces_of(p, w->n_atoms, f);
            else st = predict(w, p, 1, e, f);
            for (i = 0; i < (int)d; i++) v[i] += w->dt / 2 * f[i];
            show_progress(NULL, "dynamics", (known + (double)step / w->steps) / 2);
            if (stopped_by) st = TINY_E_CANCELLED;
        }
    }
    end_progress();
    return st;
}

/* largest change, and slope of a line through the values, for the whole run */
static void drift_of(const double *curve, int which, int n, double *most, double *slope)
{
    double sx = 0, sy = 0, xx = 0, xy = 0;
    int i;
    *most = 0;
    for (i = 0; i <= n; i++) {
        const double x = (double)i / n, y = curve[i * CURVES + which] - curve[which];
        *most = fmax(*most, fabs(y));
        sx += x;
        sy += y;
        xx += x * x;
        xy += x * y;
    }
    *slope = ((n + 1) * xy - sx * sy) / ((n + 1) * xx - sx * sx);
}

/* ---- pictures */

typedef struct picture { char *text; size_t n, room; double left, right, low, high; } picture;

static void put(picture *p, const char *format, ...)
{
    va_list args;
    int n;
    if (p->room - p->n < 512) p->text = (char *)need(realloc(p->text, p->room = 2 * p->room + 4096));
    va_start(args, format);
    n = vsnprintf(p->text + p->n, p->room - p->n, format, args);
    va_end(args);
    if (n > 0) p->n += (size_t)n;
}
static double across(const picture *p, double x) { return 70 + 560 * (x - p->left) / (p->right - p->left); }
static double down(const picture *p, double y) { return 390 - 350 * (y - p->low) / (p->high - p->low); }

/* 1, 2 or 5 times a power of ten: 4 to 10 lines */
static double round_step(double span)
{
    const double ten = pow(10, floor(log10(span / 4)));
    return span >= 20 * ten ? 5 * ten : span >= 8 * ten ? 2 * ten : ten;
}

static void begin_picture(picture *p, const char *title, const char *x, const char *y)
{
    double at, by;
    int i;
    put(p, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"440\" font-family=\"sans-serif\" "
           "font-size=\"12\">\n<rect width=\"760\" height=\"440\" fill=\"#fff\"/>\n<text x=\"70\" y=\"24\">%s</text>\n",
        title);
    put(p, "<text x=\"350\" y=\"430\" text-anchor=\"middle\">%s</text>\n<text transform=\"translate(16 215) "
           "rotate(-90)\" text-anchor=\"middle\">%s</text>\n", x, y);
    by = round_step(p->right - p->left);
    for (i = 0, at = ceil(p->left / by); i < 12 && at * by <= p->right; i++, at++)
        put(p, "<path d=\"M%.1f 40V390\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"408\" text-anchor=\"middle\">%.6g"
               "</text>\n", across(p, at * by), across(p, at * by), at * by + 0.0);
    by = round_step(p->high - p->low);
    for (i = 0, at = ceil(p->low / by); i < 12 && at * by <= p->high; i++, at++)
        put(p, "<path d=\"M70 %.1fH630\" stroke=\"#ddd\"/><text x=\"64\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
            down(p, at * by), down(p, at * by) + 4, at * by + 0.0);
}

static tiny_status end_picture(work *w, picture *p, const char *path)
{
    tiny_status st;
    put(p, "</svg>\n");
    st = tiny_file_write(w->ctx, path, p->text, p->n);
    free(p->text);
    return st;
}

static tiny_status draw_energies(work *w, const double *curve, const char *path)
{
    static const char *const name[CURVES] = { "potential", "kinetic", "total", "total, known" };
    static const char *const colour[CURVES] = { "#c33", "#2a2", "#000", "#46c" };
    const int every = w->steps > 1500 ? w->steps / 1500 : 1;
    picture p;
    int i, k;
    memset(&p, 0, sizeof p);
    p.right = w->steps * w->dt;
    p.low = 1e300;
    p.high = -1e300;
    for (i = 0; i < (w->steps + 1) * CURVES; i++) {
        p.low = fmin(p.low, curve[i]);
        p.high = fmax(p.high, curve[i]);
    }
    p.low -= 0.05 * (p.high - p.low) + 1e-3;
    p.high += 0.05 * (p.high - p.low) + 1e-3;
    begin_picture(&p, "Dynamics with the learnt potential: energies over time", "time", "energy");
    for (k = 0; k < CURVES; k++) {
        put(&p, "<text x=\"640\" y=\"%d\" fill=\"%s\">%s</text>\n<path fill=\"none\" stroke=\"%s\" d=\"", 60 + 18 * k,
            colour[k], name[k], colour[k]);
        for (i = 0; i <= w->steps; i += every)
            put(&p, "%s%.1f %.1f", i ? "L" : "M", across(&p, i * w->dt), down(&p, curve[i * CURVES + k]));
        put(&p, "\"/>\n");
    }
    return end_picture(w, &p, path);
}

static tiny_status draw_forces(work *w, const double *guess, const char *path)
{
    const size_t d = 3 * (size_t)w->n_atoms, n = d * (size_t)w->n_new, every = n > 3000 ? n / 3000 : 1;
    const double *truth = w->force + (size_t)w->n * d;
    double most = 0;
    picture p;
    size_t i;
    memset(&p, 0, sizeof p);
    for (i = 0; i < n; i++) most = fmax(most, fmax(fabs(truth[i]), fabs(guess[i])));
    p.left = p.low = -1.05 * most - 1e-3;
    p.right = p.high = 1.05 * most + 1e-3;
    begin_picture(&p, "Forces on atoms of new clusters", "true force", "predicted force");
    put(&p, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#888\"/>\n<g fill=\"#46c\" fill-opacity=\"0.5\">\n",
        across(&p, p.left), down(&p, p.low), across(&p, p.right), down(&p, p.high));
    for (i = 0; i < n; i += every)
        put(&p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.5\"/>\n", across(&p, truth[i]), down(&p, guess[i]));
    put(&p, "</g>\n");
    return end_picture(w, &p, path);
}

/* ---- the table */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* microseconds for one edge, the median of nine runs of 64 edges */
static tiny_status time_of(work *w, const tgnn_product *p, int l, double *us)
{
    enum { EDGES = 64, CHANNELS = 128, RUNS = 9 };
    const tiny_idx d = (tiny_idx)(l + 1) * (l + 1), n = EDGES * CHANNELS * d;
    float *x = (float *)need(calloc((size_t)(3 * n), sizeof *x));
    const tiny_tensor tx = tiny_tensor_swap(tiny_tensor_3d(x, TINY_F32, EDGES, d, CHANNELS), 1, 2),
                      to = tiny_tensor_swap(tiny_tensor_3d(x + n, TINY_F32, EDGES, d, CHANNELS), 1, 2),
                      ty = tiny_tensor_3d(x + 2 * n, TINY_F32, EDGES, 1, d);
    double run[RUNS];
    tiny_status st = TINY_OK;
    int i;
    tiny_rng_fill_uniform(&w->rng, x, (size_t)n, -1, 1);
    tiny_rng_fill_uniform(&w->rng, x + 2 * n, (size_t)(EDGES * d), -1, 1);
    for (i = -1; !st && i < RUNS; i++) {
        const uint64_t began = tiny_now_ns();
        st = tgnn_product_run(w->ctx, p, &tx, &ty, NULL, &to);
        if (i >= 0) run[i] = (double)(tiny_now_ns() - began) / 1e3 / EDGES;
    }
    qsort(run, RUNS, sizeof *run, by_size);
    *us = run[RUNS / 2];
    free(x);
    return st;
}

static tiny_status table(work *w, int degree, int sweeps)
{
    static const int kinds[] = { TGNN_PRODUCT_CG_DENSE, TGNN_PRODUCT_CG_SPARSE, TGNN_PRODUCT_FOLD };
    int l, k, rank[5];
    tiny_status st = TINY_OK;
    puts("degree  form                      rank  multiply-adds  us an edge  error of the tensor");
    for (l = 1; !st && l <= degree; l++)
        for (k = 0; !st && !stopped_by && k < 3 + 5; k++) {
            tgnn_product_desc d;
            tgnn_product *p = NULL;
            double us = 0, error = 0;
            rank[0] = tgnn_cp_rank(l, TGNN_CP_LINEAR);
            rank[1] = tgnn_cp_rank(l, TGNN_CP_LOG);
            rank[2] = tgnn_cp_rank(l, TGNN_CP_SQUARE) * 3 / 4;
            rank[3] = tgnn_cp_rank(l, TGNN_CP_SQUARE);
            rank[4] = tgnn_cp_rank(l, TGNN_CP_SQUARE) * 5 / 4;
            memset(&d, 0, sizeof d);
            d.l1 = d.l2 = d.l3 = l;
            d.channels = 128;
            d.kind = k < 3 ? kinds[k] : TGNN_PRODUCT_CP;
            if (k >= 3) {
                tgnn_cp_desc c;
                memset(&c, 0, sizeof c);
                c.l = l;
                c.rank = rank[k - 3];
                c.starts = 1;
                c.sweeps = sweeps;
                c.seed = w->seed;
                st = tgnn_cp_fit(w->ctx, &c, &w->cp);
                error = tgnn_cp_error(w->cp);
            }
            d.cp = w->cp;
            if (k < 3) d.cp = NULL;
            if (!st) st = tgnn_product_open(w->ctx, &d, &p);
            if (!st) st = time_of(w, p, l, &us);
            if (!st) {
                printf("%4d    %-24s %5d %14.0f %11.2f  %.2e\n", l, tgnn_product_kind_name(tgnn_product_kind(p)),
                       k < 3 ? 0 : rank[k - 3], tgnn_product_operations(p), us, error);
                (void)fflush(stdout);
            }
            tgnn_product_close(w->ctx, p);
            tgnn_cp_close(w->ctx, w->cp);
            w->cp = NULL;
        }
    return st;
}

/* ---- */

static int watch(void *user, int start, int sweep, double loss)
{
    const int *all = (const int *)user;     /* sweeps, starts */
    (void)loss;
    show_progress(NULL, "factors", (start + (double)sweep / all[0]) / all[1]);
    return 0;
}

static tiny_status train(work *w, tgnn_tdn_desc *d, int rank, int sweeps, const char *factors, const char *load,
                         const char *save, const char *energies, const char *forces)
{
    const size_t all = 3 * (size_t)w->n_atoms * (size_t)w->n_new;
    double *guess = numbers(all), *curve = numbers((size_t)(w->steps + 1) * CURVES), error[2], most, slope;
    int size[2];
    const tiny_param *params;
    size_t n = 0;
    tiny_status st = TINY_OK;
    size[0] = sweeps;
    size[1] = 1;
    if (d->product == TGNN_PRODUCT_CP) {
        tgnn_cp_desc c;
        memset(&c, 0, sizeof c);
        c.l = d->l;
        c.rank = rank ? rank : tgnn_cp_rank(d->l, TGNN_CP_SQUARE);
        c.starts = 1;
        c.sweeps = sweeps;
        c.seed = w->seed;
        c.file = factors;
        c.watch = watch;
        c.user = size;
        st = tgnn_cp_fit(w->ctx, &c, &w->cp);
        end_progress();
        d->cp = w->cp;
        if (!st && !w->quiet) printf("factors of rank %d, error %.2e\n", c.rank, tgnn_cp_error(w->cp));
    }
    make_samples(w);
    if (!st) st = tgnn_tdn_open(w->ctx, d, &w->net);
    params = tgnn_tdn_params(w->net, &n);
    if (!st && !w->quiet)
        printf("%.0f parameters; product: %s\n", tgnn_tdn_count(w->net), tgnn_product_why(tgnn_tdn_product(w->net)));
    if (!st) st = load ? tiny_params_load(w->ctx, load, params, n, NULL) : teach(w);
    if (!st && save) st = tiny_params_save(w->ctx, save, params, n, NULL);
    if (!st) st = judge(w, w->n, w->n_new, guess, error);
    if (!st)
        printf("%d new clusters: energy %.4f an atom, force %.4f, of forces of size %.4f: %.1f %%\n", w->n_new,
               error[0], error[1], w->size, 100 * error[1] / w->size);
    if (!st && forces) st = draw_forces(w, guess, forces);
    if (!st && w->steps) st = move(w, curve);
    if (!st && w->steps) {
        drift_of(curve, TOTAL, w->steps, &most, &slope);
        printf("%d steps of %g: energy %.4f, largest change %.5f, drift %.6f", w->steps, w->dt, curve[TOTAL], most,
               slope);
        drift_of(curve, TRUE_TOTAL, w->steps, &most, &slope);
        printf("; the known potential: %.4f, %.5f, %.6f\n", curve[TRUE_TOTAL], most, slope);
        if (energies) st = draw_energies(w, curve, energies);
    }
    free(guess);
    free(curve);
    return st;
}

int main(int argc, char **argv)
{
    tiny_ctx_desc desc = { 0 };
    tgnn_tdn_desc d;
    work w;
    const char *product = "exact", *factors = NULL, *energies = NULL, *forces = NULL, *load = NULL, *save = NULL;
    static const int kinds[] = { TGNN_PRODUCT_CG, TGNN_PRODUCT_CG_DENSE, TGNN_PRODUCT_CG_SPARSE, TGNN_PRODUCT_FOLD,
                                 TGNN_PRODUCT_CP };
    int command = 0, rank = 0, sweeps = 1000, kind;
    tiny_status st;
    memset(&w, 0, sizeof w);
    memset(&d, 0, sizeof d);
    w.n_atoms = 9;
    w.n = 200;
    w.epochs = 40;
    w.batch = 8;
    w.rate = 0.01;
    w.steps = 1000;
    w.dt = 0.005;
    w.heat = 0.3;
    w.seed = 1;
    d.l = 2;
    d.width = 16;
    d.blocks = 2;
    {
        const option options[] = { A_COMMAND("train table", &command), A_WHOLE("--atoms", &w.n_atoms, 2, MOST_ATOMS),
                                   A_WHOLE("--clusters", &w.n, 5, 100000), A_WHOLE("--epochs", &w.epochs, 1, 100000),
                                   A_WHOLE("--batch", &w.batch, 1, 1024), A_WHOLE("--width", &d.width, 4, 1024),
                                   A_WHOLE("--blocks", &d.blocks, 1, 16),
                                   A_WHOLE("--degree", &d.l, 1, TGNN_CP_L_MAX), A_TEXT("--product", &product),
                                   A_WHOLE("--rank", &rank, 1, TGNN_CP_RANK_MAX),
                                   A_WHOLE("--sweeps", &sweeps, 1, 1000000), A_TEXT("--factors", &factors),
                                   A_NUMBER("--rate", &w.rate, 1e-9, 10), A_WHOLE("--steps", &w.steps, 0, 10000000),
                                   A_NUMBER("--dt", &w.dt, 1e-6, 1), A_NUMBER("--temperature", &w.heat, 0.001, 10),
                                   A_TEXT("--energies", &energies), A_TEXT("--forces", &forces),
                                   A_TEXT("--load", &load), A_TEXT("--save", &save), A_SEED("--seed", &w.seed),
                                   A_FLAG("--quiet", &w.quiet), A_WHOLE("--threads", &desc.n_threads, 1, 1024) };
        READ_OPTIONS(argc, argv, usage, options);
    }
    kind = place_in("exact dense sparse fold cp", product);
    if (kind < 0) return wrong(product, "the product must be exact, dense, sparse, fold or cp");
    if ((rank || factors) && kind != 4) return refused("--rank and --factors are for --product cp");
    if (command && (energies || forces || load || save))
        return refused("--energies, --forces, --load and --save are for train");
    if (w.batch > w.n) return refused("--batch: %d clusters of %d", w.batch, w.n);
    if (d.width % 4) return refused("--width: %d is no multiple of 4, the heads", d.width);
    if (energies && !w.steps) return refused("--energies needs dynamics, --steps is 0");
    if (must_not_write(energies, 2, load, factors) || must_not_write(forces, 2, load, factors) ||
        must_not_write(save, 3, load, energies, forces))
        return 2;
    w.n_new = w.n / 5;
    w.rng = tiny_rng_make(w.seed, 0);
    d.product = kinds[kind];
    d.heads = 4;
    d.n_types = 1;
    d.n_basis = 24;
    d.hidden = 24;
    d.cutoff = 4;
    d.mean_degree = w.n_atoms - 1;
    d.mean_atoms = w.n_atoms;
    d.smooth = 1;
    d.seed = w.seed;
    desc.user = &w.ctx;
    desc.log = hear;
    stop_on_signals();
    desc.cancel = cancelled;
    st = tiny_ctx_open(&desc, &w.ctx);
    if (st) return 1;
    st = command ? table(&w, d.l, sweeps)
                 : train(&w, &d, rank, sweeps, factors, load, save, energies, forces);
    if (st && !stopped_by) say(*tiny_ctx_message(w.ctx) ? tiny_ctx_message(w.ctx) : tiny_status_text(st));
    tgnn_tdn_close(w.net);
    tgnn_cp_close(w.ctx, w.cp);
    free(w.pos);
    free(w.force);
    free(w.energy);
    tiny_ctx_close(w.ctx);
    return exit_status(st != TINY_OK);
}
