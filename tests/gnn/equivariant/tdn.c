/* tests/gnn/equivariant/tdn.c - the potential: energies and forces of another program, symmetries, forces as slopes,
 * gradients of training by differences, cutoffs, bad input */
#define T_GNN
#include "t.h"

enum { ATOMS = 6 };

static tgnn_tdn_desc small(int product, int l, int wide)
{
    tgnn_tdn_desc d;
    memset(&d, 0, sizeof d);
    d.l = l;
    d.width = 4;
    d.blocks = 1;
    d.heads = 2;
    d.n_types = 3;
    d.n_basis = 5;
    d.hidden = 4;
    d.cutoff = 2.0;
    d.mean_degree = 4;
    d.mean_atoms = 4;
    d.product = product;
    d.wide = wide;
    d.seed = 3;
    return d;
}

static tgnn_tdn *open_net(tiny_ctx *ctx, const tgnn_tdn_desc *d)
{
    tgnn_tdn *net = NULL;
    T_OK(tgnn_tdn_open(ctx, d, &net));
    return net;
}

/* two molecules of three and three atoms, or one of six */
static const int32_t types[ATOMS] = { 0, 1, 2, 1, 0, 2 };
static const int64_t two[3] = { 0, 3, ATOMS };
static const double places[3 * ATOMS] = { 0, 0, 0,          1.1, 0.25, -0.5, -0.375, 1.25, 0.5,
                                          0.5, -0.75, 1.25, -1, -0.25, 0.5,  0.25, 0.75, -1.25 };

static tgnn_atoms atoms_of(const double *pos, int molecules)
{
    tgnn_atoms a;
    memset(&a, 0, sizeof a);
    a.n = ATOMS;
    a.type = types;
    a.pos = pos;
    a.first = molecules == 2 ? two : NULL;
    a.molecules = 2;
    return a;
}

/* parameters as the script tests/golden/make/tdn.py makes them */
static void fill(tgnn_tdn *net)
{
    size_t n, i;
    const tiny_param *p = tgnn_tdn_params(net, &n);
    tiny_idx k;
    for (i = 0; i < n; i++)
        for (k = 0; k < tiny_tensor_count(&p[i].value); k++) {
            const double x = 0.7 * sin(1.7 * (double)i + 0.9 * (double)k + 0.3);
            const char *name = p[i].name;
            double *to = (double *)p[i].value.data + k;
            if (!strcmp(name, "basis.mean")) *to = ((double)k + 0.5) / 5;
            else if (!strcmp(name, "basis.width")) *to = 0.25 + 0.01 * (double)k;
            else if (!strcmp(name, "basis.scale") || strstr(name, "gain")) *to = 1 + 0.2 * x;
            else *to = x;
        }
}

/* ---- numbers of another program */

static void test_recorded(void)
{
    static const int products[] = { TGNN_PRODUCT_FOLD, TGNN_PRODUCT_CG_SPARSE };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *path = "tests/golden/tdn.tsv";
    char line[200];
    double want[2][2 + 3 * ATOMS] = { { 0 } };
    int rows = 0, kind, smooth, i;
    FILE *f = path ? fopen(path, "rb") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        int s, at;
        double v;
        if (sscanf(line, "%d\t%d\t%lf", &s, &at, &v) == 3 && s >= 0 && s < 2 && at >= 0 && at < 2 + 3 * ATOMS) {
            want[s][at] = v;
            rows++;
        }
    }
    if (f) (void)fclose(f);
    T_EQ_INT(rows, 2 * (2 + 3 * ATOMS));
    for (kind = 0; kind < 2; kind++)
        for (smooth = 0; smooth < 2; smooth++) {
            tgnn_tdn_desc d = small(products[kind], 2, 1);
            const tgnn_atoms a = atoms_of(places, 2);
            double energy[2] = { 0 }, forces[3 * ATOMS] = { 0 }, alone[2] = { 0 };
            tgnn_tdn *net;
            d.blocks = 2;
            d.smooth = smooth;
            net = open_net(ctx, &d);
            if (!net) continue;
            fill(net);
            T_OK(tgnn_tdn_run(ctx, net, &a, energy, forces));
            T_OK(tgnn_tdn_run(ctx, net, &a, alone, NULL));
            for (i = 0; i < 2; i++) T_CLOSE(energy[i], want[smooth][i], 2e-7 * (1 + fabs(want[smooth][i])));
            for (i = 0; i < 2; i++) T_CLOSE(alone[i], energy[i], 1e-12);
            for (i = 0; i < 3 * ATOMS; i++) T_CLOSE(forces[i], want[smooth][2 + i], 2e-6);
            tgnn_tdn_close(net);
        }
    t_close(ctx);
    T_PROOF("geometry 2", "energies and forces of the model written in numpy, forces as differences there");
}

/* ---- symmetries */

static void rotate(const double *r, const double *shift, const double *from, double *to)
{
    int a, i, k;
    for (a = 0; a < ATOMS; a++)
        for (i = 0; i < 3; i++)
            for (to[3 * a + i] = shift ? shift[i] : 0, k = 0; k < 3; k++)
                to[3 * a + i] += r[3 * i + k] * from[3 * a + k];
}

/* the largest change of the energy and of the turned forces over a few rotations */
static double turned(tiny_ctx *ctx, tgnn_tdn *net)
{
    static const double shift[3] = { 3.5, -1.25, 0.75 };
    tgnn_atoms a = atoms_of(places, 1);
    double e, f[3 * ATOMS], e1, f1[3 * ATOMS], pos[3 * ATOMS], want[3 * ATOMS], r[9], most = 0;
    uint64_t k;
    int i;
    T_OK(tgnn_tdn_run(ctx, net, &a, &e, f));
    T_TRUE(fabs(e) > 1e-3 && fabs(f[0]) > 1e-4);
    for (k = 0; k < 3; k++) {
        T_OK(tgnn_rotation_random(ctx, 5, k, r));
        rotate(r, shift, places, pos);
        rotate(r, NULL, f, want);
        a.pos = pos;
        T_OK(tgnn_tdn_run(ctx, net, &a, &e1, f1));
        most = fmax(most, fabs(e1 - e));
        for (i = 0; i < 3 * ATOMS; i++) most = fmax(most, fabs(f1[i] - want[i]));
    }
    return most;
}

static void test_symmetry(void)
{
    static const int kinds[] = { TGNN_PRODUCT_CG_DENSE, TGNN_PRODUCT_CG_SPARSE, TGNN_PRODUCT_FOLD };
    static const int rank[] = { 20, 32 };
    static const int32_t order[ATOMS] = { 4, 2, 0, 5, 1, 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double first = 0, by_rank[2] = { 0, 0 };
    int i, k, direct;
    for (i = 0; i < 3; i++)
        for (direct = 0; direct < 2; direct++) {
            tgnn_tdn_desc d = small(kinds[i], 2, 1);
            tgnn_atoms a = atoms_of(places, 1), b = a;
            double e, f[3 * ATOMS], e1, f1[3 * ATOMS], pos[3 * ATOMS];
            int32_t type[ATOMS];
            tgnn_tdn *net;
            if (direct && i < 2) continue;
            d.direct = direct;
            net = open_net(ctx, &d);
            if (!net) continue;
            T_CLOSE(turned(ctx, net), 0, 1e-9);
            T_OK(tgnn_tdn_run(ctx, net, &a, &e, f));
            if (!i) first = e;
            else if (!direct) T_CLOSE(e, first, 1e-11);
            for (k = 0; k < ATOMS; k++) {
                type[k] = types[order[k]];
                memcpy(pos + 3 * k, places + 3 * order[k], 3 * sizeof *pos);
            }
            b.type = type;
            b.pos = pos;
            T_OK(tgnn_tdn_run(ctx, net, &b, &e1, f1));
            T_CLOSE(e1, e, 1e-11);
            for (k = 0; k < 3 * ATOMS; k++) T_CLOSE(f1[k], f[3 * order[k / 3] + k % 3], 1e-11);
            tgnn_tdn_close(net);
        }
    {                                       /* in float, as it is used */
        const tgnn_tdn_desc d = small(TGNN_PRODUCT_FOLD, 2, 0);
        tgnn_tdn *net = open_net(ctx, &d);
        T_CLOSE(turned(ctx, net), 0, 1e-5);
        tgnn_tdn_close(net);
    }
    for (i = 0; i < 2; i++) {               /* factors: not exactly, and better with the rank */
        tgnn_tdn_desc d = small(TGNN_PRODUCT_CP, 2, 1);
        tgnn_cp_desc cd;
        tgnn_cp *cp = NULL;
        tgnn_tdn *net;
        memset(&cd, 0, sizeof cd);
        cd.l = 2;
        cd.rank = rank[i];
        cd.starts = 1;
        cd.sweeps = i ? 1200 : 200;
        T_OK(tgnn_cp_fit(ctx, &cd, &cp));
        d.cp = cp;
        net = open_net(ctx, &d);
        by_rank[i] = turned(ctx, net);
        T_TRUE(by_rank[i] < 3 * tgnn_cp_error(cp));
        tgnn_tdn_close(net);
        tgnn_cp_close(ctx, cp);
    }
    T_TRUE(by_rank[0] > 1e-4 && by_rank[1] < 1e-2 * by_rank[0]);
    t_close(ctx);
    T_PROOF("geometry 2", "energy invariant, forces equivariant: exact 1e-9, float 1e-5, factors within their error");
    T_PROOF("geometry 2", "translations and permutations of the atoms change nothing");
}

/* ---- slopes */

static void test_slopes(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double pos[3 * ATOMS], e[2], f[3 * ATOMS];
    int smooth, i;
    for (smooth = 0; smooth < 2; smooth++) {
        tgnn_tdn_desc d = small(TGNN_PRODUCT_FOLD, 1 + smooth, 1);
        tgnn_atoms a = atoms_of(pos, 1);
        tgnn_tdn *net;
        d.smooth = smooth;
        net = open_net(ctx, &d);
        if (!net) continue;
        memcpy(pos, places, sizeof pos);
        T_OK(tgnn_tdn_run(ctx, net, &a, e, f));
        for (i = 0; i < 3 * ATOMS; i += 2) {
            double up, down;
            pos[i] = places[i] + 1e-5;
            T_OK(tgnn_tdn_run(ctx, net, &a, &up, NULL));
            pos[i] = places[i] - 1e-5;
            T_OK(tgnn_tdn_run(ctx, net, &a, &down, NULL));
            pos[i] = places[i];
            T_CLOSE(f[i], -(up - down) / 2e-5, 1e-7);
        }
        if (smooth) {                       /* an atom that leaves: the energy and the forces have no step */
            double far[2], ff[2][3 * ATOMS];
            tgnn_atoms b = a;
            b.n = 2;
            for (i = 0; i < 2; i++) {
                memset(pos, 0, sizeof pos);
                pos[5] = 2.0 + (i ? 1e-6 : -1e-6);
                T_OK(tgnn_tdn_run(ctx, net, &b, &far[i], ff[i]));
            }
            T_CLOSE(far[0], far[1], 1e-6);
            for (i = 0; i < 6; i++) T_CLOSE(ff[0][i], ff[1][i], 1e-4);
            T_CLOSE(ff[1][5], 0, 0);        /* no neighbours */
        }
        tgnn_tdn_close(net);
    }
    t_close(ctx);
    T_PROOF("geometry 2", "force = finite difference of the energy");
}

/* dloss/dtheta against differences of the loss itself */
static void test_gradient(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double goal[2] = { 0.5, -0.25 }, pull[3 * ATOMS], exact = 0, size = 0, off = 0;
    int way, k;
    for (k = 0; k < 3 * ATOMS; k++) pull[k] = 0.3 * sin(2.1 * k);
    for (way = 0; way < 3; way++) {         /* slopes, a direct head, slopes in float */
        tgnn_tdn_desc d = small(TGNN_PRODUCT_FOLD, 1, way < 2);
        const tgnn_atoms a = atoms_of(places, 2);
        tgnn_tdn_target t;
        tgnn_tdn *net, *wide;
        const tiny_param *p, *q;
        size_t n, i, at = 0;
        double loss = 0, up, down;
        memset(&t, 0, sizeof t);
        t.energy = goal;
        t.forces = pull;
        t.force_weight = 3;
        d.direct = way == 1;
        d.smooth = 1;
        net = open_net(ctx, &d);
        d.wide = 1;
        wide = open_net(ctx, &d);
        if (!net || !wide) continue;
        p = tgnn_tdn_params(net, &n);
        q = tgnn_tdn_params(wide, &n);
        for (i = 0; way == 2 && i < n; i++)
            for (k = 0; k < tiny_tensor_count(&p[i].value); k++)
                ((double *)q[i].value.data)[k] = (double)((float *)p[i].value.data)[k];
        T_OK(tgnn_tdn_gradient(ctx, net, &a, &t, &loss));
        T_TRUE(loss > 1e-3);
        for (i = 0; i < n; i++) {
            double *v, g, keep;
            at = (at + 7) % (size_t)tiny_tensor_count(&q[i].value);
            v = (double *)q[i].value.data + at;
            keep = *v;
            *v = keep + 1e-4;
            T_OK(tgnn_tdn_gradient(ctx, wide, &a, &t, &up));
            *v = keep - 1e-4;
            T_OK(tgnn_tdn_gradient(ctx, wide, &a, &t, &down));
            *v = keep;
            g = way == 2 ? (double)((float *)p[i].grad.data)[at] : ((double *)p[i].grad.data)[at];
            exact = (up - down) / 2e-4;
            if (way < 2) T_CLOSE(g, exact, 3e-6 * (1 + fabs(exact)));
            size += exact * exact;
            off += (g - exact) * (g - exact);
        }
        if (way == 2) T_CLOSE(sqrt(off / size), 0, 3e-3);
        size = off = 0;
        tgnn_tdn_close(net);
        tgnn_tdn_close(wide);
    }
    t_close(ctx);
    T_PROOF("geometry 2", "gradient of energies and forces by every parameter tensor: differences of the loss");
}

/* a few steps of training on energies and forces */
static void test_learns(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tgnn_tdn_desc d = small(TGNN_PRODUCT_CG, 1, 0);
    const tgnn_atoms a = atoms_of(places, 2);
    double goal[2] = { 0.5, -0.25 }, pull[3 * ATOMS] = { 0 }, loss = 0, first = 0;
    tgnn_tdn *net = open_net(ctx, &d);
    tgnn_tdn_target t;
    tiny_optim_desc od;
    tiny_optim *opt = NULL;
    const tiny_param *p;
    size_t n;
    int i;
    memset(&t, 0, sizeof t);
    memset(&od, 0, sizeof od);
    for (i = 0; i < 3; i++) pull[i] = 0.2 * i - 0.2, pull[3 + i] = -pull[i];
    t.energy = goal;
    t.forces = pull;
    od.group[0].lr = 5e-3;
    p = tgnn_tdn_params(net, &n);
    T_OK(tiny_optim_open(ctx, p, n, &od, &opt));
    for (i = 0; opt && i < 60; i++) {
        T_OK(tgnn_tdn_gradient(ctx, net, &a, &t, &loss));
        if (!i) first = loss;
        T_OK(tiny_optim_step(opt, 1));
    }
    T_TRUE(loss < 0.1 * first);
    T_TRUE(strstr(tgnn_product_why(tgnn_tdn_product(net)), "cheapest") != NULL);
    tiny_optim_close(opt);
    tgnn_tdn_close(net);
    t_close(ctx);
}

static void test_bad(void)
{
    static const struct { size_t at; int value; const char *says; } bad[] = {
        { offsetof(tgnn_tdn_desc, l), 7, "degree 7, it must be 1 to 6" },
        { offsetof(tgnn_tdn_desc, width), -1, "-1 channels" },
        { offsetof(tgnn_tdn_desc, blocks), 17, "17 blocks" },
        { offsetof(tgnn_tdn_desc, heads), 3, "3 heads do not divide 4 channels" },
        { offsetof(tgnn_tdn_desc, product), TGNN_PRODUCT_GAUNT, "the product is Gaunt" },
        { offsetof(tgnn_tdn_desc, product), TGNN_PRODUCT_CP, "CP needs factors" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_tdn_desc d = small(TGNN_PRODUCT_FOLD, 1, 0);
    tgnn_tdn *net = open_net(ctx, &d), *none = NULL;
    double pos[3 * ATOMS], e[2], f[3 * ATOMS];
    int32_t type[ATOMS];
    int64_t first[3] = { 0, 3, 3 };
    tgnn_atoms a = atoms_of(pos, 1);
    tgnn_tdn_target t;
    size_t i;
    for (i = 0; i < T_COUNT(bad); i++) {
        d = small(TGNN_PRODUCT_FOLD, 1, 0);
        memcpy((char *)&d + bad[i].at, &bad[i].value, sizeof(int));
        T_STATUS(tgnn_tdn_open(ctx, &d, &none), TINY_E_ARGUMENT, bad[i].says);
    }
    d = small(TGNN_PRODUCT_FOLD, 1, 0);
    d.cutoff = 0;
    T_STATUS(tgnn_tdn_open(ctx, &d, &none), TINY_E_ARGUMENT, "the cutoff is 0, it must be above 0");
    d.cutoff = 2;
    d.mean_degree = -1;
    T_STATUS(tgnn_tdn_open(ctx, &d, &none), TINY_E_ARGUMENT, "-1 neighbours");
    T_TRUE(!none);
    memcpy(pos, places, sizeof pos);
    memcpy(type, types, sizeof type);
    a.type = type;
    memcpy(pos + 12, pos + 3, 3 * sizeof *pos);
    T_STATUS(tgnn_tdn_run(ctx, net, &a, e, f), TINY_E_ARGUMENT, "atoms 1 and 4 of molecule 0 are at the same place");
    a = atoms_of(pos, 2);                   /* in another molecule that is no matter */
    T_OK(tgnn_tdn_run(ctx, net, &a, e, f));
    pos[7] = NAN;
    T_STATUS(tgnn_tdn_run(ctx, net, &a, e, f), TINY_E_NUMERIC, "a coordinate of atom 2 is not finite");
    pos[7] = 100;                           /* an isolated atom has an energy, and no force */
    T_OK(tgnn_tdn_run(ctx, net, &a, e, f));
    T_TRUE(e[0] - e[0] == 0.0 && f[6] == 0.0 && f[7] == 0.0 && f[8] == 0.0);
    a.type = type;
    type[3] = 3;
    T_STATUS(tgnn_tdn_run(ctx, net, &a, e, f), TINY_E_ARGUMENT, "atom 3 has type 3, there are 3");
    type[3] = 0;
    a.first = first;
    T_STATUS(tgnn_tdn_run(ctx, net, &a, e, f), TINY_E_ARGUMENT, "molecule 1 has atoms 3 to 3 of 6");
    a.n = 0;
    T_STATUS(tgnn_tdn_run(ctx, net, &a, e, f), TINY_E_ARGUMENT, "0 atoms");
    T_STATUS(tgnn_tdn_run(ctx, net, NULL, e, f), TINY_E_ARGUMENT, "a network, atoms");
    memset(&t, 0, sizeof t);
    T_STATUS(tgnn_tdn_gradient(ctx, net, &a, &t, e), TINY_E_ARGUMENT, "energies or forces are needed");
    t.energy = e;
    t.force_weight = -1;
    T_STATUS(tgnn_tdn_gradient(ctx, net, &a, &t, e), TINY_E_ARGUMENT, "weights of 0 and -1");
    tgnn_tdn_close(net);
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *own = NULL;
        tgnn_tdn *n = NULL;
        if (tiny_ctx_open(&desc, &own)) continue;
        d = small(TGNN_PRODUCT_FOLD, 1, 0);
        d.width = d.heads = 1;
        a = atoms_of(places, 1);
        memset(&t, 0, sizeof t);
        memset(f, 0, sizeof f);
        t.forces = f;
        a.n = 2;
        if (!tgnn_tdn_open(own, &d, &n)) {
            (void)tgnn_tdn_run(own, n, &a, e, NULL);
            (void)tgnn_tdn_gradient(own, n, &a, &t, e);
        }
        tgnn_tdn_close(n);
        tiny_ctx_close(own);
    })
    t_close(ctx);
    T_PROOF("geometry 2", "bad input of the model: cutoff 0, coincident and isolated atoms, types, molecules");
}

int main(void)
{
    T_RUN(test_recorded);
    T_RUN(test_symmetry);
    T_RUN(test_slopes);
    T_RUN(test_gradient);
    T_RUN(test_learns);
    T_RUN(test_bad);
    return t_done();
}
