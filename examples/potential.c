/* examples/potential.c - energies, forces and stress of atoms by a MACE potential; runs and relaxes them
 *
 *     potential model.safetensors water.xyz --forces
 *     potential tiny water.xyz --md 200 --out run.xyz        with a small random model, to see how it works
 *     potential model.safetensors crystal.xyz --relax 300 --f64 --out done.xyz
 *
 * Models are written by ports/mace/export.py from those of mace-torch. The model `tiny` is drawn from --seed for the
 * elements of the structure; its energies mean nothing. Structures are extended XYZ: a line with the number of atoms,
 * a line with Lattice="..." and pbc="T T T", then a line for each atom. Lengths are in Angstrom, energies in eV.
 *
 * --md is velocity Verlet at constant energy (W. Swope et al., 1982); its drift says whether the step is short enough.
 * --relax is FIRE (E. Bitzek et al., "Structural Relaxation Made Simple", 2006) in a cell that does not change. */
#define TINYGNN_LAB
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#define PROGRAM "potential"
#include "options.h"
#include <math.h>
#include <time.h>

static const char usage[] =
    "potential MODEL STRUCTURE.xyz [options]   energies of atoms by a MACE potential\n"
    "  MODEL             a safetensors file, or tiny: a random one, to try the program\n"
    "  --forces          prints the force on each atom (eV / Angstrom)\n"
    "  --stress          prints the stress (eV / Angstrom^3)\n"
    "  --md N            N steps of molecular dynamics at constant energy, from the first structure of the file\n"
    "  --step FS         length of a step in femtoseconds; default: 0.5\n"
    "  --temperature K   of the velocities at the start; default: 300\n"
    "  --relax N         moves the atoms of the first structure downhill, at most N steps\n"
    "  --limit F         relaxed when no force is larger; default: 0.01\n"
    "  --every N         with --md: prints and writes each Nth step; default: 10\n"
    "  --out FILE        writes energies, forces and positions as extended XYZ\n"
    "  --save FILE       writes the model (to keep a tiny one)\n"
    "  --f64             computes in double; default: float\n"
    "  --repeat N        evaluates each structure N times and prints how long that takes\n"
    "  --seed N          of the model tiny and of velocities; default: 1\n"
    "  --target NAME     reference, scalar, w128, neon, avx2, avx512 or amx; default: the fastest\n"
    "  --threads N       default: one per processor\n";

#define MOST_ATOMS 2000000
#define KELVIN     8.617333262e-5           /* eV */
#define FEMTO      0.09822694788            /* in units of sqrt(u) Angstrom / sqrt(eV) */

static const char *const symbols =
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y "
    "Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re "
    "Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg "
    "Cn Nh Fl Mc Lv Ts Og";
static const double masses[119] = {
    0,      1.008,  4.0026, 6.94,   9.0122, 10.81,  12.011, 14.007, 15.999, 18.998, 20.180, 22.990, 24.305, 26.982,
    28.085, 30.974, 32.06,  35.45,  39.95,  39.098, 40.078, 44.956, 47.867, 50.942, 51.996, 54.938, 55.845, 58.933,
    58.693, 63.546, 65.38,  69.723, 72.630, 74.922, 78.971, 79.904, 83.798, 85.468, 87.62,  88.906, 91.224, 92.906,
    95.95,  97,     101.07, 102.91, 106.42, 107.87, 112.41, 114.82, 118.71, 121.76, 127.60, 126.90, 131.29, 132.91,
    137.33, 138.91, 140.12, 140.91, 144.24, 145,    150.36, 151.96, 157.25, 158.93, 162.50, 164.93, 167.26, 168.93,
    173.05, 174.97, 178.49, 180.95, 183.84, 186.21, 190.23, 192.22, 195.08, 196.97, 200.59, 204.38, 207.2,  208.98,
    209,    210,    222,    223,    226,    227,    232.04, 231.04, 238.03, 237,    244,    243,    247,    247,
    251,    252,    257,    258,    259,    262,    267,    270,    269,    270,    270,    278,    281,    281,
    285,    286,    289,    289,    293,    293,    294
};

typedef struct frame { int n, periodic[3], has_cell, *z; double cell[9], *x; } frame;
typedef struct work {
    tiny_ctx *ctx;
    tgnn_mace *model;
    const char *path;                       /* of the structures */
    char *text, *at;
    unsigned long line;
    tiny_dtype dtype;
    char *written;                          /* extended XYZ */
    size_t n_written, room;
    double energy, *forces, stress[9];
    int want_stress;
} work;

/* ---- extended XYZ */

static int bad(const work *w, const char *what)
{
    fprintf(stderr, PROGRAM ": %s: line %lu: %s\n", w->path, w->line, what);
    return 0;
}

static char *next_line(work *w)
{
    char *line = w->at, *end;
    if (!*line) return NULL;
    end = line + strcspn(line, "\n");
    w->at = *end ? end + 1 : end;
    *end = 0;
    if (end > line && end[-1] == '\r') end[-1] = 0;
    w->line++;
    return line;
}

/* the value of key= in a line: between quotes, or to the next space; NULL: it is not there */
static const char *value_of(const char *line, const char *key, char *value, size_t room)
{
    const size_t n = strlen(key);
    while (*line) {
        const char *word = line + strspn(line, " \t"), *eq = word + strcspn(word, "= \t\"");
        const int quoted = *eq == '=' && eq[1] == '"';
        const char *from = *eq == '=' ? eq + 1 + quoted : eq;
        const size_t m = strcspn(from, quoted ? "\"" : " \t");
        if ((size_t)(eq - word) == n && !strncmp(word, key, n) && *eq == '=' && m < room) {
            memcpy(value, from, m);
            value[m] = 0;
            return value;
        }
        line = from + m + (from[m] != 0);
    }
    return NULL;
}

static int numbers_of(const char *text, double *x, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        char *end;
        x[i] = strtod(text, &end);
        if (end == text) return 0;
        text = end;
    }
    return !text[strspn(text, " \t")];
}

/* places of the element and of x in a line of an atom; Properties=species:S:1:pos:R:3:... */
static int columns_of(const char *properties, int *element, int *number, int *place)
{
    char text[2000], *at = text;
    int column = 0;
    *element = *number = *place = -1;
    (void)snprintf(text, sizeof text, "%s", properties);
    while (*at) {
        char *part[3];
        int k;
        for (k = 0; k < 3; k++) {
            part[k] = at;
            at += strcspn(at, ":");
            if (*at) *at++ = 0;
        }
        k = atoi(part[2]);
        if (k < 1 || k > 1000) return 0;
        if (!strcmp(part[0], "species")) *element = column;
        if (!strcmp(part[0], "Z") || !strcmp(part[0], "numbers")) *number = column;
        if (!strcmp(part[0], "pos") && k == 3) *place = column;
        column += k;
    }
    return (*element >= 0 || *number >= 0) && *place >= 0;
}

static int read_atom(const work *w, char *line, int element, int number, int place, int *z, double *x)
{
    int column = 0, seen = 0;
    while (*line) {
        char *word = line + strspn(line, " \t"), *end = word + strcspn(word, " \t");
        const char last = *end;
        uint64_t n;
        if (end == word) break;
        *end = 0;
        if (column == element) {
            *z = place_in(symbols, word) + 1;
            if (!*z && is_whole(word, 1, 118, &n)) *z = (int)n;
            if (!*z) return bad(w, "the first word of an atom is no symbol of an element");
            seen++;
        } else if (column == number && element < 0) {
            if (!is_whole(word, 1, 118, &n)) return bad(w, "an atomic number is not from 1 to 118");
            *z = (int)n;
            seen++;
        } else if (column >= place && column < place + 3) {
            if (!is_number(word, -1e9, 1e9, &x[column - place])) return bad(w, "a coordinate is no number");
            seen++;
        }
        column++;
        line = end + (last != 0);
    }
    return seen == 4 || bad(w, "an atom needs an element and three coordinates");
}

static void forget(frame *f)
{
    free(f->z);
    free(f->x);
    memset(f, 0, sizeof *f);
}

/* 1: a structure, 0: the end of the file, -1: the reason was printed */
static int read_frame(work *w, frame *f)
{
    char *line, value[2000];
    int element = 0, number = -1, place = 1, i, k;
    uint64_t n;
    memset(f, 0, sizeof *f);
    do line = next_line(w);
    while (line && !line[strspn(line, " \t")]);
    if (!line) return 0;
    line += strspn(line, " \t");
    line[strcspn(line, " \t")] = 0;
    if (!is_whole(line, 0, MOST_ATOMS, &n)) {
        fprintf(stderr, PROGRAM ": %s: line %lu: a structure begins with its number of atoms, at most %d\n", w->path,
                w->line, MOST_ATOMS);
        return -1;
    }
    line = next_line(w);
    if (!line) return bad(w, "the line with the cell is missing"), -1;
    if (value_of(line, "Lattice", value, sizeof value)) {
        if (!numbers_of(value, f->cell, 9)) return bad(w, "Lattice needs nine numbers"), -1;
        f->has_cell = f->periodic[0] = f->periodic[1] = f->periodic[2] = 1;
    }
    if (value_of(line, "pbc", value, sizeof value)) {
        const char *at = value;
        for (k = 0; k < 3; k++) {
            at += strspn(at, " ,[");
            if (!*at || !strchr("TtFf10", *at)) return bad(w, "pbc needs three of T and F"), -1;
            f->periodic[k] = strchr("Tt1", *at) != NULL;
            at += strcspn(at, " ,]");
        }
        if (!f->has_cell && (f->periodic[0] || f->periodic[1] || f->periodic[2]))
            return bad(w, "the structure is periodic, but has no Lattice"), -1;
    }
    if (value_of(line, "Properties", value, sizeof value) && !columns_of(value, &element, &number, &place))
        return bad(w, "Properties must name species (or Z) and pos:R:3"), -1;
    f->z = (int *)need(calloc((size_t)n + 1, sizeof *f->z));
    f->x = (double *)need(calloc((size_t)n + 1, 3 * sizeof *f->x));
    for (i = 0; i < (int)n; i++) {
        line = next_line(w);
        if (!line) {
            fprintf(stderr, PROGRAM ": %s: the file ends after %d of %d atoms\n", w->path, i, (int)n);
            forget(f);
            return -1;
        }
        if (!read_atom(w, line, element, number, place, &f->z[i], f->x + 3 * i)) {
            forget(f);
            return -1;
        }
    }
    f->n = (int)n;
    return 1;
}

TINYI_PRINTF(2, 3) static void put(work *w, const char *format, ...)
{
    va_list args;
    int n;
    if (w->room < w->n_written + 400) {
        w->room = 2 * w->room + 65536;
        w->written = (char *)need(realloc(w->written, w->room));
    }
    va_start(args, format);
    n = vsnprintf(w->written + w->n_written, w->room - w->n_written, format, args);
    va_end(args);
    if (n > 0) w->n_written += (size_t)n < 400 ? (size_t)n : 399;
}

static void put_symbol(work *w, int z)
{
    const char *at = symbols;
    while (--z > 0) at += strcspn(at, " ") + 1;
    put(w, "%.*s", (int)strcspn(at, " "), at);
}

static void put_frame(work *w, const frame *f)
{
    int i, k;
    put(w, "%d\n", f->n);
    if (f->has_cell) {
        put(w, "Lattice=\"");
        for (k = 0; k < 9; k++) put(w, "%s%.10g", k ? " " : "", f->cell[k]);
        put(w, "\" ");
    }
    put(w, "pbc=\"%c %c %c\" energy=%.12g ", "FT"[f->periodic[0] != 0], "FT"[f->periodic[1] != 0],
        "FT"[f->periodic[2] != 0], w->energy);
    for (k = 0; w->want_stress && k < 9; k++)
        put(w, "%s%.8g%s", k ? " " : "stress=\"", w->stress[k], k == 8 ? "\" " : "");
    put(w, "Properties=species:S:1:pos:R:3:forces:R:3\n");
    for (i = 0; i < f->n; i++) {
        put_symbol(w, f->z[i]);
        for (k = 0; k < 3; k++) put(w, " %.9f", f->x[3 * i + k]);
        for (k = 0; k < 3; k++) put(w, " %.10f", w->forces[3 * i + k]);
        put(w, "\n");
    }
}

/* ---- evaluation */

static tiny_status evaluate(work *w, const frame *f)
{
    tgnn_structure s;
    tgnn_mace_out out;
    memset(&s, 0, sizeof s);
    memset(&out, 0, sizeof out);
    s.n = f->n;
    s.positions = f->x;
    s.numbers = f->z;
    s.cell = f->has_cell ? f->cell : NULL;
    memcpy(s.periodic, f->periodic, sizeof s.periodic);
    out.energy = &w->energy;
    out.forces = w->forces;
    out.stress = w->want_stress ? w->stress : NULL;
    return tgnn_mace_run(w->ctx, w->model, &s, w->dtype, &out);
}

static double largest(const work *w, const frame *f)
{
    double most = 0;
    int i;
    for (i = 0; i < f->n; i++) {
        const double *g = w->forces + 3 * i, size = sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
        if (size > most) most = size;
    }
    return most;
}

static tiny_status tiny_model(work *w, const frame *f, uint64_t seed)
{
    tgnn_mace_desc d;
    int i, k;
    memset(&d, 0, sizeof d);
    for (i = 0; i < f->n; i++) {
        for (k = 0; k < d.n_elements && d.elements[k] != f->z[i]; k++) {}
        if (k == d.n_elements) d.elements[d.n_elements++] = f->z[i];
    }
    if (!d.n_elements) d.elements[d.n_elements++] = 1;
    d.l_max = 2;
    d.hidden = 1;
    d.r_max = 4;
    d.seed = seed;
    return tgnn_mace_open(w->ctx, &d, &w->model);
}

/* ---- motion */

static double kinetic(const frame *f, const double *v)
{
    double sum = 0;
    int i;
    for (i = 0; i < 3 * f->n; i++) sum += 0.5 * masses[f->z[i / 3]] * v[i] * v[i];
    return sum;
}

static tiny_status dynamics(work *w, frame *f, int steps, double step, double temperature, int every, uint64_t seed,
                            int keep)
{
    double *v = (double *)need(calloc((size_t)f->n + 1, 3 * sizeof *v)), first = 0, drift[3] = { 0, 0, 0 }, mass = 0;
    const double dt = step * FEMTO;
    tiny_rng rng = tiny_rng_make(seed, 1);
    tiny_status st;
    int i, k;
    for (i = 0; i < 3 * f->n; i++) {
        v[i] = sqrt(temperature * KELVIN / masses[f->z[i / 3]]) * (double)tiny_rng_normal(&rng);
        drift[i % 3] += masses[f->z[i / 3]] * v[i];
        mass += masses[f->z[i / 3]] / 3;
    }
    for (i = 0; i < 3 * f->n; i++) v[i] -= drift[i % 3] / mass;     /* the whole stays where it is */
    st = evaluate(w, f);
    printf("%8s %16s %14s %16s %10s\n", "step", "potential eV", "kinetic eV", "total eV", "kelvin");
    for (k = 0; !st && k <= steps; k++) {
        const double moving = kinetic(f, v), total = w->energy + moving;
        if (!k) first = total;
        if (k % every == 0 || k == steps) {
            printf("%8d %16.6f %14.6f %16.6f %10.1f\n", k, w->energy, moving, total,
                   f->n ? moving / (1.5 * f->n * KELVIN) : 0.0);
            (void)fflush(stdout);
            if (keep) put_frame(w, f);
        }
        if (k == steps || stopped_by) {
            printf("drift of the total energy: %.3g eV an atom in %.1f fs\n", f->n ? (total - first) / f->n : 0.0,
                   k * step);
            break;
        }
        for (i = 0; i < 3 * f->n; i++) {
            v[i] += 0.5 * dt * w->forces[i] / masses[f->z[i / 3]];
            f->x[i] += dt * v[i];
        }
        st = evaluate(w, f);
        for (i = 0; i < 3 * f->n; i++) v[i] += 0.5 * dt * w->forces[i] / masses[f->z[i / 3]];
    }
    free(v);
    return st;
}

static tiny_status relax(work *w, frame *f, int steps, double limit)
{
    double *v = (double *)need(calloc((size_t)f->n + 1, 3 * sizeof *v)), dt = 0.1, mix = 0.1, most = 0;
    tiny_status st = evaluate(w, f);
    int i, k, down = 0;
    for (k = 0; !st; k++) {
        double power = 0, vv = 0, ff = 0, scale;
        most = largest(w, f);
        if (k % 10 == 0 || most <= limit || k == steps)
            printf("%8d %16.6f eV, largest force %.5f\n", k, w->energy, most);
        if (most <= limit || k == steps || stopped_by) break;
        for (i = 0; i < 3 * f->n; i++) {
            power += v[i] * w->forces[i];
            vv += v[i] * v[i];
            ff += w->forces[i] * w->forces[i];
        }
        if (power > 0) {
            for (i = 0; i < 3 * f->n; i++) v[i] = (1 - mix) * v[i] + mix * sqrt(vv / ff) * w->forces[i];
            if (++down > 5) {
                dt = dt * 1.1 < 1 ? dt * 1.1 : 1;
                mix *= 0.99;
            }
        } else {
            memset(v, 0, (size_t)f->n * 3 * sizeof *v);
            dt *= 0.5;
            mix = 0.1;
            down = 0;
        }
        scale = 0;
        for (i = 0; i < 3 * f->n; i++) {
            v[i] += dt * w->forces[i];
            scale += dt * dt * v[i] * v[i];
        }
        scale = sqrt(scale) > 0.2 ? 0.2 / sqrt(scale) : 1;
        for (i = 0; i < 3 * f->n; i++) f->x[i] += scale * dt * v[i];
        st = evaluate(w, f);
    }
    if (!st) printf("%s\n", most <= limit ? "relaxed" : "not relaxed: the limit of steps was reached");
    free(v);
    return st;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tiny_status report(work *w, const frame *f, int index, int show, int repeat)
{
    double *t = (double *)need(calloc((size_t)repeat + 1, sizeof *t));
    tiny_status st = evaluate(w, f);
    const clock_t busy = clock();
    double each;
    int i, k;
    for (i = 0; !st && i < repeat && !stopped_by; i++) {
        const uint64_t began = tiny_now_ns();
        st = evaluate(w, f);
        t[i] = (double)(tiny_now_ns() - began) / 1e6;
    }
    each = repeat ? 1e3 * (double)(clock() - busy) / CLOCKS_PER_SEC / repeat : 0.0;
    if (!st) printf("structure %d: %d atoms, %.8f eV, largest force %.6f eV / Angstrom\n", index, f->n, w->energy,
                    largest(w, f));
    for (k = 0; !st && w->want_stress && k < 9; k += 3)
        printf("  stress %14.8f %14.8f %14.8f eV / Angstrom^3\n", w->stress[k], w->stress[k + 1], w->stress[k + 2]);
    for (i = 0; !st && show && i < f->n; i++)
        printf("  %4d %12.6f %12.6f %12.6f\n", i + 1, w->forces[3 * i], w->forces[3 * i + 1], w->forces[3 * i + 2]);
    if (!st && repeat) {
        qsort(t, (size_t)repeat, sizeof *t, by_size);
        printf("  %.3f ms an evaluation (median of %d), %.3f ms of processor time\n", t[repeat / 2], repeat, each);
    }
    free(t);
    return st;
}

int main(int argc, char **argv)
{
    work w;
    frame f;
    tiny_ctx_desc desc;
    const char *model = NULL, *path = NULL, *out = NULL, *save = NULL;
    int forces = 0, stress = 0, wide = 0, md = 0, steps = 0, every = 0, repeat = 0, n = 0, got;
    double step = 0, temperature = -1, limit = 0;    /* not given */
    uint64_t seed = 1;
    size_t n_text;
    tiny_status st;
    const option options[] = { THE_WORD("model", &model), THE_WORD("structure", &path), A_FLAG("--forces", &forces),
                               A_FLAG("--stress", &stress), A_WHOLE("--md", &md, 1, 1e9),
                               A_NUMBER("--step", &step, 1e-6, 100), A_NUMBER("--temperature", &temperature, 0, 1e6),
                               A_WHOLE("--relax", &steps, 1, 1e9), A_NUMBER("--limit", &limit, 1e-12, 1e6),
                               A_WHOLE("--every", &every, 1, 1e9), A_TEXT("--out", &out), A_TEXT("--save", &save),
                               A_FLAG("--f64", &wide), A_WHOLE("--repeat", &repeat, 1, 100000),
                               A_SEED("--seed", &seed), A_TARGET("--target", &desc.target),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS) };
    memset(&w, 0, sizeof w);
    memset(&f, 0, sizeof f);
    memset(&desc, 0, sizeof desc);
    READ_OPTIONS(argc, argv, usage, options);
    if (md && steps) return refused("--md and --relax do not go together");
    if (md && repeat) return refused("--md and --repeat do not go together");
    if (steps && repeat) return refused("--relax and --repeat do not go together");
    if (!md && (every || step > 0 || temperature >= 0))
        return refused("--step, --temperature and --every are for --md");
    if (!steps && limit > 0) return refused("--limit is for --relax");
    if (!every) every = 10;
    if (!(step > 0)) step = 0.5;
    if (temperature < 0) temperature = 300;
    if (!(limit > 0)) limit = 0.01;
    if (must_not_write(out, 2, model, path) || must_not_write(save, 2, model, path)) return 2;
    if (out && save && !strcmp(out, save)) return refused("--out and --save are one file");
    w.path = path;
    w.dtype = wide ? TINY_F64 : TINY_F32;
    w.want_stress = stress;
    desc.log = hear;
    desc.user = &w.ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&desc, &w.ctx)) return 1;
    w.text = w.at = read_text(path, MOST_TEXT, 0, &n_text);
    if (!w.text) return tiny_ctx_close(w.ctx), 1;
    st = TINY_OK;
    if (strcmp(model, "tiny")) st = tgnn_mace_load(w.ctx, model, &w.model);
    for (got = 1; !st && !stopped_by; n++) {
        got = read_frame(&w, &f);
        if (got != 1) break;
        w.forces = (double *)need(realloc(w.forces, ((size_t)f.n + 1) * 3 * sizeof *w.forces));
        if (!w.model) st = tiny_model(&w, &f, seed);
        if (!n && w.model)
            printf("%s: %.0f numbers, %d elements, r_max %g; %s, %d threads\n", model, tgnn_mace_count(w.model),
                   tgnn_mace_desc_of(w.model)->n_elements, tgnn_mace_desc_of(w.model)->r_max, wide ? "f64" : "f32",
                   tiny_ctx_threads(w.ctx));
        if (!st && md) st = dynamics(&w, &f, md, step, temperature, every, seed, out != NULL);
        else if (!st && steps) st = relax(&w, &f, steps, limit);
        else if (!st) st = report(&w, &f, n + 1, forces, repeat);
        if (!st && out && !md) put_frame(&w, &f);
        forget(&f);
        if (md || steps) break;
    }
    forget(&f);
    if (!st && got == 0 && !n) {
        fprintf(stderr, PROGRAM ": %s: there is no structure\n", path);
        got = -1;
    }
    if (!st && got >= 0 && out) st = tiny_file_write(w.ctx, out, w.written, w.n_written);
    if (!st && got >= 0 && save && w.model) st = tgnn_mace_save(w.ctx, w.model, save);
    if (st && !stopped_by) say(*tiny_ctx_message(w.ctx) ? tiny_ctx_message(w.ctx) : tiny_status_text(st));
    tgnn_mace_close(w.model);
    tiny_ctx_close(w.ctx);
    free(w.text);
    free(w.forces);
    free(w.written);
    got = exit_status(st || got < 0);
    return stopped_by ? 128 + (int)stopped_by : got;
}
