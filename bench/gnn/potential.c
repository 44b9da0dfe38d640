/* bench/gnn/potential.c - energy and forces of a MACE potential with random weights, 64 channels of degrees 0 and 1,
 * harmonics to degree 3, correlation 3, two layers, 64 atoms in a periodic cube, about 25 neighbours each
 *
 * The rival in this run is the formula in plain loops, which gives energies alone; it is compared with energies alone.
 * mace-torch (Python) is not part of this run: bench/peers/mace.py. */
#include "../bench.h"
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

enum { BA_ATOMS = 64 };

typedef struct ba {
    tiny_ctx *ctx;
    tgnn_mace *model;
    const tgnn_structure *s;
    tiny_dtype dtype;
    int forces, plain;
} ba;

static void ba_run(void *arg)
{
    ba *h = (ba *)arg;
    double energy, forces[3 * BA_ATOMS];
    tgnn_mace_out out;
    memset(&out, 0, sizeof out);
    out.energy = &energy;
    out.forces = h->forces ? forces : NULL;
    b_must(h->ctx, h->plain ? tgnn_mace_plain(h->ctx, h->model, h->s, &energy, NULL)
                            : tgnn_mace_run(h->ctx, h->model, h->s, h->dtype, &out));
}

static void ba_place(tgnn_structure *s, double *x, int *z, double *cell, int side)
{
    tiny_rng rng = tiny_rng_make(1, 0);
    const double each = 2.41;               /* 14 cubic Angstrom an atom */
    int i, k;
    memset(s, 0, sizeof *s);
    memset(cell, 0, 9 * sizeof *cell);
    for (k = 0; k < 3; k++) {
        cell[4 * k] = side * each;
        s->periodic[k] = 1;
    }
    s->n = side * side * side;
    for (i = 0; i < s->n; i++) {
        const int at[3] = { i / (side * side), i / side % side, i % side };
        for (k = 0; k < 3; k++) x[3 * i + k] = each * (at[k] + 0.3 * tiny_rng_uniform64(&rng));
        z[i] = tiny_rng_below(&rng, 3) ? 1 : 8;
    }
    s->positions = x;
    s->numbers = z;
    s->cell = cell;
}

void bench_potential(void)
{
    static const char *const what[] = { "f32, forces", "f32, forces", "f64, forces", "f32, energy", "f64, energy" };
    double x[2][3 * BA_ATOMS], cell[2][9];
    int z[2][BA_ATOMS], i;
    tgnn_structure s[2];
    tgnn_mace_desc d;
    ba task[7];
    b_row row[7];
    ba_place(&s[0], x[0], z[0], cell[0], 4);
    ba_place(&s[1], x[1], z[1], cell[1], 2);
    memset(&d, 0, sizeof d);
    memset(row, 0, sizeof row);
    memset(task, 0, sizeof task);
    d.elements[0] = 1;
    d.elements[1] = 8;
    d.n_elements = 2;
    d.channels = b_quick ? 16 : 64;
    d.l_max = 3;
    d.hidden = 1;
    d.r_max = 4.5;
    for (i = 0; i < 7; i++) {
        task[i].ctx = b_ctx(TINY_TARGET_AUTO, i == 1 ? b_threads : 1);
        b_must(task[i].ctx, tgnn_mace_open(task[i].ctx, &d, &task[i].model));
        task[i].s = &s[i > 4];
        task[i].dtype = i == 0 || i == 1 || i == 3 ? TINY_F32 : TINY_F64;
        task[i].forces = i < 3;
        task[i].plain = i == 6;
        row[i].what = i < 5 ? what[i] : i == 5 ? "f64, energy" : "plain loops, f64, energy";
        row[i].target = i == 6 ? "plain C" : tiny_target_name(tiny_ctx_target(task[i].ctx));
        row[i].threads = i == 1 ? b_threads : 1;
        row[i].limit = B_NONE;
        row[i].run = ba_run;
        row[i].arg = &task[i];
        b_shape(&row[i], "%td x %d", task[i].s->n, d.channels);
    }
    b_contest("MACE, 64 atoms", row, 5);
    b_contest("MACE, 8 atoms, energies alone", row + 5, 2);
    b_note("one thread: %.3f ms an atom in f32, %.3f in f64, with forces", row[0].median_ns / 1e6 / BA_ATOMS,
           row[2].median_ns / 1e6 / BA_ATOMS);
    b_verdict("plain loops over the fast form, f64, one thread", row[6].median_ns / row[5].median_ns, ">", 3.0);
    for (i = 0; i < 7; i++) {
        tgnn_mace_close(task[i].model);
        tiny_ctx_close(task[i].ctx);
    }
}
