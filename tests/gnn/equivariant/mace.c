/* tests/gnn/equivariant/mace.c - potentials: energies, forces and stress of mace-torch, the plain loops, differences,
 * symmetries, cells of any shape, files, bad input */
#define T_GNN
#define T_INTERNALS
#include "t.h"
#include "gnn/equivariant/mace_inside.h"
#include "golden/mace.h"

static const char *at(const char *name)     /* a file of this test */
{
    static char path[300];
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%.200s/%s", folder ? folder : "build", name);
    return path;
}

enum { ATOMS = 6 };
static const int numbers[ATOMS] = { 1, 8, 1, 1, 8, 1 };

static tgnn_structure structure(const double *positions, int a, int b, int c)
{
    tgnn_structure s;
    memset(&s, 0, sizeof s);
    s.n = ATOMS;
    s.positions = positions;
    s.numbers = numbers;
    s.cell = mace_cell;
    s.periodic[0] = a;
    s.periodic[1] = b;
    s.periodic[2] = c;
    return s;
}

/* ---- models of mace-torch, with weights of a formula that tests/golden/make/potentials.py has too */

static void formula(tinyi_mace_param *p)
{
    const size_t n = (size_t)(p->dim[0] * (p->rank > 1 ? p->dim[1] : 1) * (p->rank > 2 ? p->dim[2] : 1));
    const double by = 1.7 / sqrt((double)p->dim[p->rank > 1 ? p->rank - 2 : 0]);
    uint32_t seed = 2166136261u;
    const char *c;
    size_t i;
    for (c = p->name; *c; c++) seed = (seed ^ (uint32_t)(unsigned char)*c) * 16777619u;
    for (i = 0; i < n; i++) {
        uint64_t x = (uint64_t)i + ((uint64_t)seed << 32);
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
        p->value[i] = ((double)(x >> 11) * (1.0 / 4503599627370496.0) - 1.0) * by;
    }
}

static tgnn_mace_desc described(int which)
{
    tgnn_mace_desc d;
    int i;
    memset(&d, 0, sizeof d);
    d.elements[0] = 1;
    d.elements[1] = 8;
    d.n_elements = 2;
    d.r_max = 4.5;
    d.average = 12;
    d.scale = 0.8;
    d.shift = 0.1;
    d.l_max = which == 2 ? 3 : 2;
    d.hidden = which;
    d.channels = which == 0 ? 128 : which == 1 ? 16 : 5;
    d.layers = which == 2 ? 3 : 2;
    for (i = 0; i < d.layers; i++) d.correlation[i] = which == 1 ? 3 : 2;
    if (which < 2) return d;
    d.kinds = d.late = d.agnesi = 1;
    d.zbl = 5;
    d.n_bessel = 6;
    d.n_radial = 1;
    d.radial[0] = 12;
    d.kind[0] = TGNN_MACE_RESIDUAL;
    for (i = 0; i < 3; i++) d.density[i] = 1;
    return d;
}

static void compare(tiny_ctx *ctx, tgnn_mace *m, const tgnn_structure *s, const double *atoms, const double *forces,
                    const double *stress)
{
    double e, a[ATOMS], f[3 * ATOMS], t[9];
    tgnn_mace_out out;
    int wide, i;
    for (wide = 0; wide < 2; wide++) {
        const double bound = wide ? 1e-10 : 2e-5;
        double sum = 0;
        memset(&out, 0, sizeof out);
        out.energy = &e;
        out.atoms = a;
        out.forces = f;
        out.stress = stress ? t : NULL;
        if (!T_OK(tgnn_mace_run(ctx, m, s, wide ? TINY_F64 : TINY_F32, &out))) return;
        for (i = 0; i < ATOMS; i++) {
            T_CLOSE(a[i], atoms[i], bound);
            sum += atoms[i];
        }
        T_CLOSE(e, sum, bound);
        for (i = 0; i < 3 * ATOMS; i++) T_CLOSE(f[i], forces[i], bound);
        for (i = 0; stress && i < 9; i++) T_CLOSE(t[i], stress[i], bound);
    }
    T_OK(tgnn_mace_plain(ctx, m, s, &e, a));
    for (i = 0; i < ATOMS; i++) T_CLOSE(a[i], atoms[i], 1e-10);
}

static void test_recorded(tiny_target target)
{
    static const double agnesi[3] = { 1.0805, 0.9183, 4.5791 };
    tiny_ctx *ctx = t_ctx(target, 2);
    double half[3 * ATOMS];
    int which, i;
    for (i = 0; i < 3 * ATOMS; i++) half[i] = 0.5 * mace_positions[i];
    for (which = 0; which < 3; which++) {
        const tgnn_structure s = structure(which == 2 ? half : mace_positions, which > 0, which > 0, which == 1);
        tgnn_mace_desc d = described(which);
        tgnn_mace *m;
        if (!T_OK(tgnn_mace_open(ctx, &d, &m))) continue;
        for (i = 0; i < m->n_params; i++) if (i != m->bessel) formula(&m->param[i]);
        m->param[m->energies].value[0] = -1.5;
        m->param[m->energies].value[1] = -2.25;
        if (which == 2) {                   /* the covalent radii of hydrogen and oxygen */
            double b[64], db[64], cut[2];
            m->param[m->radii].value[0] = 0.31;
            m->param[m->radii].value[1] = 0.66;
            m->param[m->zbl].value[0] = 0.3;
            m->param[m->zbl].value[1] = 0.4543;
            memcpy(m->param[m->agnesi].value, agnesi, sizeof agnesi);
            tinyi_mace_radial(m, 0, 1, 2.25, b, db, cut);
            T_CLOSE(cut[0], 99.0 / 128.0, 1e-15);   /* f(1 / 2) for the power 5, by hand */
        }
        if (which == 0) compare(ctx, m, &s, mace_scalars_atoms, mace_scalars_forces, NULL);
        if (which == 1) compare(ctx, m, &s, mace_vectors_atoms, mace_vectors_forces, mace_vectors_stress);
        if (which == 2) compare(ctx, m, &s, mace_kinds_atoms, mace_kinds_forces, NULL);
        T_RAN_ON(ctx, t_vectors(target));
        tgnn_mace_close(m);
    }
    t_close(ctx);
}

/* weights and couplings as export.py wrote them; written and read again */
static void test_file(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *path = t_shared("mace.safetensors");
    const tgnn_structure s = structure(mace_positions, 1, 0, 1);
    tgnn_mace *m;
    if (path && T_OK(tgnn_mace_load(ctx, path, &m))) {
        char copy[300];
        T_EQ_INT(tgnn_mace_desc_of(m)->kind[1], TGNN_MACE_RESIDUAL);
        compare(ctx, m, &s, mace_file_atoms, mace_file_forces, NULL);
        (void)snprintf(copy, sizeof copy, "%s", at("mace-copy.safetensors"));
        T_OK(tgnn_mace_save(ctx, m, copy));
        tgnn_mace_close(m);
        if (T_OK(tgnn_mace_load(ctx, copy, &m))) compare(ctx, m, &s, mace_file_atoms, mace_file_forces, NULL);
        tgnn_mace_close(m);
        (void)remove(copy);
    }
    t_close(ctx);
}

/* ---- laws */

static tgnn_mace *small(tiny_ctx *ctx, int seed)
{
    tgnn_mace_desc d;
    tgnn_mace *m = NULL;
    memset(&d, 0, sizeof d);
    d.elements[0] = 8;
    d.elements[1] = 1;
    d.n_elements = 2;
    d.channels = 6;
    d.l_max = 2;
    d.hidden = 1;
    d.n_radial = 1;
    d.radial[0] = 9;
    d.r_max = 4;
    d.seed = (uint64_t)seed;
    d.density[1] = d.agnesi = seed & 1;
    d.zbl = seed & 1 ? 6 : 0;
    T_OK(tgnn_mace_open(ctx, &d, &m));
    return m;
}

static double energy_of(tiny_ctx *ctx, tgnn_mace *m, const tgnn_structure *s)
{
    double e = (double)NAN;
    tgnn_mace_out out;
    memset(&out, 0, sizeof out);
    out.energy = &e;
    T_OK(tgnn_mace_run(ctx, m, s, TINY_F64, &out));
    return e;
}

static void test_differences(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    const double h = 1e-4;
    int seed, i, k, q;
    for (seed = 0; seed < 2; seed++) {
        tgnn_mace *m = small(ctx, seed);
        double x[3 * ATOMS], cell[9], f[3 * ATOMS], virial[9], stress[9], side[2];
        tgnn_structure s = structure(x, 1, 1, 1);
        tgnn_mace_out out;
        memcpy(x, mace_positions, sizeof x);
        memset(&out, 0, sizeof out);
        out.forces = f;
        out.virial = virial;
        out.stress = stress;
        T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
        for (i = 0; i < 3 * ATOMS; i += 2) {
            for (k = 0; k < 2; k++) {
                x[i] = mace_positions[i] + (k ? h : -h);
                side[k] = energy_of(ctx, m, &s);
            }
            x[i] = mace_positions[i];
            T_CLOSE(-(side[1] - side[0]) / (2 * h), f[i], 1e-6);
        }
        s.cell = cell;
        for (i = 0; i < 3; i++)
            for (q = 0; q <= i; q++) {      /* a strain of i and q; off the diagonal half of it in each */
                for (k = 0; k < 2; k++) {
                    const double g = (k ? h : -h) * (i == q ? 1.0 : 0.5);
                    int row;
                    for (row = 0; row < ATOMS + 3; row++) {
                        const double *from = row < ATOMS ? mace_positions + 3 * row : mace_cell + 3 * (row - ATOMS);
                        double *to = row < ATOMS ? x + 3 * row : cell + 3 * (row - ATOMS);
                        memcpy(to, from, 3 * sizeof *to);
                        to[i] += g * from[q];
                        if (i != q) to[q] += g * from[i];
                    }
                    side[k] = energy_of(ctx, m, &s);
                }
                T_CLOSE(-(side[1] - side[0]) / (2 * h), virial[3 * i + q], 1e-6);
                T_CLOSE(virial[3 * i + q], virial[3 * q + i], 0);
            }
        {
            const double *c = mace_cell;
            const double volume = c[0] * (c[4] * c[8] - c[5] * c[7]) - c[1] * (c[3] * c[8] - c[5] * c[6]) +
                                  c[2] * (c[3] * c[7] - c[4] * c[6]);
            T_CLOSE(stress[4], -virial[4] / volume, 1e-12);
        }
        tgnn_mace_close(m);
    }
    t_close(ctx);
}

/* turned, moved and renamed atoms: the same energy, and forces that turn with them; forces that sum to 0; the same bits
 * for every number of threads */
static void test_symmetry(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const int to[ATOMS] = { 4, 2, 0, 5, 1, 3 };
    tgnn_mace *m = small(ctx, 1);
    double x[3 * ATOMS], f[3 * ATOMS], g[3 * ATOMS], r[9], cell[9], e, sum[3] = { 0, 0, 0 };
    int z[ATOMS], i, k, q, threads;
    uint64_t turn;
    tgnn_structure s = structure(mace_positions, 1, 1, 1);
    tgnn_mace_out out;
    memset(&out, 0, sizeof out);
    out.energy = &e;
    out.forces = f;
    T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
    for (i = 0; i < 3 * ATOMS; i++) sum[i % 3] += f[i];
    for (k = 0; k < 3; k++) T_CLOSE(sum[k], 0, 1e-14);
    for (turn = 0; turn < 4; turn++) {
        T_OK(tgnn_rotation_random(ctx, 3, turn, r));
        for (i = 0; turn & 1 && i < 9; i++) r[i] = -r[i];       /* and a reflection */
        for (i = 0; i < ATOMS + 3; i++)
            for (k = 0; k < 3; k++) {
                const double *from = i < ATOMS ? mace_positions + 3 * i : mace_cell + 3 * (i - ATOMS);
                double v = i < ATOMS ? 7.25 * (k + 1) : 0;      /* also moved, by more than a cell */
                for (q = 0; q < 3; q++) v += r[3 * k + q] * from[q];
                if (i < ATOMS) x[3 * to[i] + k] = v;
                else cell[3 * (i - ATOMS) + k] = v;
            }
        for (i = 0; i < ATOMS; i++) z[to[i]] = numbers[i];
        s.positions = x;
        s.numbers = z;
        s.cell = cell;
        T_CLOSE(energy_of(ctx, m, &s), e, 1e-12);
        out.forces = g;
        T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
        for (i = 0; i < ATOMS; i++)
            for (k = 0; k < 3; k++) {
                double v = 0;
                for (q = 0; q < 3; q++) v += r[3 * k + q] * f[3 * i + q];
                T_CLOSE(g[3 * to[i] + k], v, 1e-12);
            }
    }
    tgnn_mace_close(m);
    t_close(ctx);
    for (threads = 1; threads <= 3; threads++) {
        ctx = t_ctx(TINY_TARGET_AUTO, threads);
        m = small(ctx, 1);
        out.forces = threads == 1 ? f : g;
        T_OK(tgnn_mace_run(ctx, m, &s, TINY_F32, &out));
        if (threads > 1) T_SAME(f, g, 3 * ATOMS);
        tgnn_mace_close(m);
        t_close(ctx);
    }
}

/* two cells side by side have twice the energy, and an atom that is moved by a row of the cell changes nothing; the
 * cell is smaller than the cutoff */
static void test_supercell(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_mace *m = small(ctx, 1);
    double x[6 * ATOMS], cell[9], f[3 * ATOMS], g[6 * ATOMS], e, e2;
    int z[2 * ATOMS], row, i, k;
    tgnn_structure s = structure(mace_positions, 1, 1, 1);
    tgnn_mace_out out;
    memset(&out, 0, sizeof out);
    out.energy = &e;
    out.forces = f;
    T_TRUE(mace_cell[0] < 4);
    T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
    out.energy = &e2;
    out.forces = g;
    for (row = 0; row < 3; row++) {
        memcpy(cell, mace_cell, sizeof cell);
        for (k = 0; k < 3; k++) cell[3 * row + k] *= 2;
        for (i = 0; i < 2 * ATOMS; i++) {
            z[i] = numbers[i % ATOMS];
            for (k = 0; k < 3; k++)
                x[3 * i + k] = mace_positions[3 * (i % ATOMS) + k] + (i < ATOMS ? 0 : mace_cell[3 * row + k]) -
                               (i % 3 ? 0 : 2 * mace_cell[3 * ((row + 1) % 3) + k]);
        }
        s.n = 2 * ATOMS;
        s.positions = x;
        s.numbers = z;
        s.cell = cell;
        T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
        T_CLOSE(e2, 2 * e, 1e-12);
        for (i = 0; i < 6 * ATOMS; i++) T_CLOSE(g[i], f[i % (3 * ATOMS)], 1e-12);
    }
    tgnn_mace_close(m);
    t_close(ctx);
}

/* ---- neighbours */

static void test_neighbours(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int trial, i, j, k, a, b, c;
    for (trial = 0; trial < 24; trial++) {
        double x[3 * 40], cell[9];
        tgnn_structure s;
        tgnn_neighbours list;
        const double most = 0.9 + 0.35 * (trial % 7);
        int64_t found = 0, e;
        memset(&s, 0, sizeof s);
        s.n = 1 + trial * 39 / 23;
        s.positions = x;
        s.cell = cell;
        for (k = 0; k < 3; k++) s.periodic[k] = trial >> k & 1;
        for (k = 0; k < 9; k++) cell[k] = (double)t_rand_float(-1, 1) + (k % 4 ? 0 : trial & 8 ? 2.0 : 4.5);
        for (i = 0; i < 3 * s.n; i++) x[i] = (double)t_rand_float(-3, 6);
        if (!T_OK(tgnn_neighbours_find(ctx, &s, most, &list))) continue;
        for (i = 0; i < s.n; i++)
            for (j = 0; j < s.n; j++)
                for (a = s.periodic[0] ? -12 : 0; a <= (s.periodic[0] ? 12 : 0); a++)
                    for (b = s.periodic[1] ? -12 : 0; b <= (s.periodic[1] ? 12 : 0); b++)
                        for (c = s.periodic[2] ? -12 : 0; c <= (s.periodic[2] ? 12 : 0); c++) {
                            double square = 0;
                            if (i == j && !a && !b && !c) continue;
                            for (k = 0; k < 3; k++) {
                                const double v = x[3 * i + k] - x[3 * j + k] - a * cell[k] - b * cell[3 + k] -
                                                 c * cell[6 + k];
                                square += v * v;
                            }
                            found += square < most * most;
                        }
        T_EQ_INT(list.n_edges, found);
        T_EQ_INT(list.offset[s.n], found);
        for (i = 0; i < s.n; i++)
            for (e = list.offset[i]; e < list.offset[i + 1]; e++) {
                const int64_t r = list.reverse[e];
                double square = 0;
                j = list.col[e];
                T_TRUE(list.reverse[r] == e && list.col[r] == i && r >= list.offset[j] && r < list.offset[j + 1]);
                T_TRUE(e == list.offset[i] || list.col[e - 1] <= j);
                for (k = 0; k < 3; k++) {
                    double v = x[3 * i + k] - x[3 * j + k];
                    for (a = 0; a < 3; a++) v -= list.shift[3 * e + a] * cell[3 * a + k];
                    T_CLOSE(list.vector[3 * e + k], v, 1e-12);
                    T_CLOSE(list.vector[3 * r + k], -list.vector[3 * e + k], 0);
                    square += v * v;
                }
                T_TRUE(square < most * most * 1.000001);
            }
        tgnn_neighbours_free(ctx, &list);
    }
    t_close(ctx);
}

/* atoms without neighbours, one atom, none */
static void test_alone(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_mace *m = small(ctx, 1);
    static const double far[6] = { 0, 0, 0, 50, 0, 0 };
    tgnn_structure s;
    double one, two, none = 1, f[6];
    int z[2] = { 1, 1 }, i;
    tgnn_mace_out out;
    memset(&s, 0, sizeof s);
    memset(&out, 0, sizeof out);
    s.positions = far;
    s.numbers = z;
    s.n = 1;
    one = energy_of(ctx, m, &s);
    T_OK(tgnn_mace_plain(ctx, m, &s, &two, NULL));
    T_CLOSE(one, two, 1e-14);
    s.n = 2;
    out.forces = f;
    out.energy = &two;
    T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
    T_CLOSE(two, 2 * one, 1e-14);
    for (i = 0; i < 6; i++) T_CLOSE(f[i], 0, 0);
    s.n = 0;
    out.forces = NULL;
    out.energy = &none;
    T_OK(tgnn_mace_run(ctx, m, &s, TINY_F32, &out));
    T_CLOSE(none, 0, 0);
    tgnn_mace_close(m);
    t_close(ctx);
}

/* ---- bad input */

static void test_structures(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *other = NULL;
    tgnn_mace *m = small(ctx, 0), *no = NULL;
    double x[3 * ATOMS], cell[9], e = 0, t[9];
    int z[ATOMS];
    tgnn_structure s = structure(x, 1, 1, 1);
    tgnn_mace_desc d = described(1);
    tgnn_neighbours list;
    tgnn_mace_out out;
    memset(&out, 0, sizeof out);
    out.energy = &e;
    memcpy(x, mace_positions, sizeof x);
    memcpy(cell, mace_cell, sizeof cell);
    memcpy(z, numbers, sizeof z);
    s.cell = cell;
    s.numbers = z;
#define RUN_FAILS(status, part) T_STATUS(tgnn_mace_run(ctx, m, &s, TINY_F64, &out), status, part)
    x[7] = (double)NAN;
    RUN_FAILS(TINY_E_NUMERIC, "position of atom 3 (counted from 1) is not finite");
    x[7] = 1e300;
    RUN_FAILS(TINY_E_NUMERIC, "a million cells away");
    memcpy(x, mace_positions, sizeof x);
    memcpy(x + 6, x + 3, 3 * sizeof *x);
    RUN_FAILS(TINY_E_NUMERIC, "in one place");
    memcpy(x, mace_positions, sizeof x);
    memcpy(x + 15, x, 3 * sizeof *x);
    x[15] += cell[0];                       /* the same place in the next cell */
    x[16] += cell[1];
    x[17] += cell[2];
    RUN_FAILS(TINY_E_NUMERIC, "atoms 1 and 6");
    memcpy(x, mace_positions, sizeof x);
    z[4] = 6;
    RUN_FAILS(TINY_E_ARGUMENT, "atom 5 (counted from 1) has the atomic number 6");
    T_STATUS(tgnn_mace_plain(ctx, m, &s, &e, NULL), TINY_E_ARGUMENT, "does not know");
    z[4] = -1;
    RUN_FAILS(TINY_E_ARGUMENT, "atomic number -1");
    z[4] = 8;
    memcpy(cell + 6, cell + 3, 3 * sizeof *cell);
    RUN_FAILS(TINY_E_NUMERIC, "no volume");
    s.periodic[0] = 0;
    RUN_FAILS(TINY_E_NUMERIC, "no volume");
    s.periodic[0] = 1;
    memset(cell + 6, 0, 3 * sizeof *cell);
    RUN_FAILS(TINY_E_NUMERIC, "no volume");
    cell[8] = (double)INFINITY;
    RUN_FAILS(TINY_E_NUMERIC, "row 3 of the cell is not finite");
    cell[8] = 1e-4;
    RUN_FAILS(TINY_E_ARGUMENT, "neighbours");
    cell[8] = 1e-9;
    T_STATUS(tgnn_neighbours_find(ctx, &s, 5, &list), TINY_E_NUMERIC, "a million cells away");
    memcpy(cell, mace_cell, sizeof cell);
    s.cell = NULL;
    RUN_FAILS(TINY_E_ARGUMENT, "its cell is missing");
    s.cell = cell;
    s.numbers = NULL;
    RUN_FAILS(TINY_E_ARGUMENT, "numbers are missing");
    s.numbers = z;
    s.n = -1;
    RUN_FAILS(TINY_E_ARGUMENT, "-1 atoms");
    s.n = ATOMS;
    s.periodic[2] = 0;
    out.stress = t;
    RUN_FAILS(TINY_E_ARGUMENT, "stress needs");
    out.stress = NULL;
    T_STATUS(tgnn_mace_run(ctx, m, &s, TINY_I32, &out), TINY_E_DTYPE, "f32 or f64");
    T_STATUS(tgnn_neighbours_find(ctx, &s, 0, &list), TINY_E_ARGUMENT, "distance");
    T_OK(tgnn_mace_run(ctx, m, &s, TINY_F64, &out));
#define OPEN_FAILS(change, back, part)                                              \
    change;                                                                         \
    T_STATUS(tgnn_mace_open(ctx, &d, &no), TINY_E_ARGUMENT, part);                  \
    T_TRUE(!no);                                                                    \
    back
    OPEN_FAILS(d.n_elements = 0, d.n_elements = 2, "0 elements");
    OPEN_FAILS(d.elements[1] = 1, d.elements[1] = 8, "twice");
    OPEN_FAILS(d.elements[1] = 119, d.elements[1] = 8, "no atomic number");
    OPEN_FAILS(d.channels = -1, d.channels = 16, "channels");
    OPEN_FAILS(d.hidden = 3, d.hidden = 1, "degree 3");
    OPEN_FAILS(d.correlation[1] = 4, d.correlation[1] = 3, "correlation of 4");
    OPEN_FAILS(d.r_max = -1, d.r_max = 4, "r_max");
    OPEN_FAILS(d.average = (double)NAN, d.average = 9, "average");
    OPEN_FAILS(d.n_radial = 1; d.radial[0] = 5000, d.n_radial = 0; d.radial[0] = 0, "radial layer of 5000");
    other = t_ctx(TINY_TARGET_AUTO, 1);
    T_STATUS(tgnn_mace_run(other, m, &s, TINY_F32, &out), TINY_E_ARGUMENT, "another context");
    t_close(other);
    tgnn_mace_close(m);
    t_close(ctx);
}

static unsigned char *bytes;
static size_t n_bytes;

static void write_and_fail(tiny_ctx *ctx, const char *path, const char *part)
{
    tgnn_mace *m = NULL;
    T_OK(tiny_file_write(ctx, path, bytes, n_bytes));
    T_STATUS(tgnn_mace_load(ctx, path, &m), TINY_E_FORMAT, part);
    T_TRUE(!m);
}
/* the first place of a text in the file becomes another text of the same length */
static void swapped(tiny_ctx *ctx, const char *path, const char *from, const char *to, const char *part)
{
    const size_t n = strlen(from);
    size_t i;
    T_EQ_INT(strlen(to), n);
    for (i = 0; i + n <= n_bytes && memcmp(bytes + i, from, n); i++) {}
    if (!T_TRUE(i + n <= n_bytes)) return;
    memcpy(bytes + i, to, n);
    write_and_fail(ctx, path, part);
    memcpy(bytes + i, from, n);
}

static void test_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *golden = t_shared("mace.safetensors");
    char path[300];
    tiny_file file;
    tgnn_mace *m = NULL;
    size_t whole, i;
    if (!golden || !T_OK(tiny_file_open(ctx, golden, &file))) return;
    (void)snprintf(path, sizeof path, "%s", at("mace-bad.safetensors"));
    whole = n_bytes = file.n_bytes;
    bytes = (unsigned char *)malloc(whole);
    memcpy(bytes, file.bytes, whole);
    tiny_file_close(ctx, &file);
    for (i = 0; i < 5; i++) {
        n_bytes = i * whole / 5;
        T_OK(tiny_file_write(ctx, path, bytes, n_bytes));
        T_TRUE(tgnn_mace_load(ctx, path, &m) != TINY_OK && !m && *tiny_ctx_message(ctx));
    }
    n_bytes = whole;
    swapped(ctx, path, "layer.0.out.0", "layer.9.out.0", "tensor layer.0.out.0 is missing");
    swapped(ctx, path, "couple.0.3.index", "couple.0.4.index", "needs an index");
    swapped(ctx, path, "\\\"channels\\\":2", "\\\"channels\\\":4", "the description needs");
    /* memory is taken only for what the file can hold */
    swapped(ctx, path, "\\\"readout\\\":16", "\\\"readout\\\":99", "the description needs");
    swapped(ctx, path, "\\\"layers\\\":2", "\\\"layers\\\":3", "for 3 layers");
    swapped(ctx, path, "\\\"layers\\\"", "\\\"lawyer\\\"", "unknown value");
    swapped(ctx, path, "\"mace\"", "\"face\"", "must have one \"mace\"");
    swapped(ctx, path, "\"F64\"", "\"I64\"", "");
    memset(bytes + 8 + bytes[0] + 256 * (size_t)bytes[1], 0xff, 8);       /* the first number */
    write_and_fail(ctx, path, "not finite");
    (void)remove(path);
    T_STATUS(tgnn_mace_load(ctx, path, &m), TINY_E_IO, NULL);
    free(bytes);
    t_close(ctx);
}

static void test_memory(void)
{
    const char *path = t_shared("mace.safetensors");
    const tgnn_structure s = structure(mace_positions, 1, 0, 1);
    if (!path) return;
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tgnn_mace *m = NULL;
        double f[3 * ATOMS];
        tgnn_mace_out out;
        memset(&out, 0, sizeof out);
        out.forces = f;
        if (!tiny_ctx_open(&desc, &ctx) && !tgnn_mace_load(ctx, path, &m))
            (void)tgnn_mace_run(ctx, m, &s, TINY_F32, &out);
        tgnn_mace_close(m);
        tiny_ctx_close(ctx);
    })
}

int main(void)
{
    T_RUN_TARGETS(test_recorded);
    T_RUN(test_file);
    T_RUN(test_differences);
    T_RUN(test_symmetry);
    T_RUN(test_supercell);
    T_RUN(test_neighbours);
    T_RUN(test_alone);
    T_RUN(test_structures);
    T_RUN(test_files);
    T_RUN(test_memory);
    return t_done();
}
